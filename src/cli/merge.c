/* l3a merge: combines models learned in different places into one, and joins feature files or shards of tags. */
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const struct option merge_options[] = {
    {"o", "FILE", "file for the merged model, or for the joined features or tags"},
    {"wait", NULL, "wait while another process changes the file of -o, rather than fail"},
    {NULL, NULL, NULL},
};

/* A file that a path leads to; one that is not there is like no other. */
struct place {
    const char *path;
    bool there;
    dev_t device;
    ino_t number;
};

static int compare_places(const void *left, const void *right) {
    const struct place *one = left, *other = right;
    const int order = (one->device > other->device) - (one->device < other->device);
    return order ? order : (one->number > other->number) - (one->number < other->number);
}

/* Whether all files are different ones. */
static bool are_different(const struct arguments *arguments) {
    const size_t count = arguments->positional_count;
    struct place *places = calloc(count, sizeof *places);
    bool different = places != NULL;
    for (size_t i = 0; different && i < count; i++) {
        struct stat about = {0};
        const bool there = stat(arguments->positionals[i], &about) == 0;
        places[i] = (struct place){arguments->positionals[i], there, about.st_dev, about.st_ino};
    }
    if (!places) {
        complain(arguments, "out of memory");
    } else {
        qsort(places, count, sizeof *places, compare_places);
    }
    for (size_t i = 1; different && i < count; i++) {
        different = !places[i].there || compare_places(&places[i], &places[i - 1]) != 0;
        if (!different) {
            complain(arguments, "%s and %s are the same file; its pictures would count twice", places[i - 1].path, places[i].path);
        }
    }
    free(places);
    return different;
}

/* "a model", "a feature file", or NULL for files of other kinds. A packed model is taken for a model, which says why it is none. */
static const char *kind_text(const char *kind) {
    return strcmp(kind, "features") == 0                               ? "a feature file"
           : strcmp(kind, "model") == 0 || strcmp(kind, "packed") == 0 ? "a model"
                                                                       : NULL;
}

/* What all files are, in these words. Otherwise explains on stderr and sets *code. */
static const char *common_kind(const struct arguments *arguments, int *code) {
    const char *common = NULL;
    for (size_t i = 0; i < arguments->positional_count; i++) {
        const char *path = arguments->positionals[i], *kind;
        const l3a_status status = l3a_file_recognise(arguments->context, path, &kind);
        const char *text = status == L3A_OK ? kind_text(kind) : NULL;
        if (!text) {
            *code = status != L3A_OK
                        ? explain(arguments, status)
                        : complain(arguments, "%s: this is neither a model nor a feature file; only these can be merged", path);
            return NULL;
        }
        if (common && strcmp(common, text) != 0) {
            *code = complain(arguments, "%s is %s, but %s is %s: merge either models or feature files", arguments->positionals[0],
                             common, path, text);
            return NULL;
        }
        common = text;
    }
    return common;
}

static l3a_status join_features(const struct arguments *arguments, const char *path) {
    uint64_t rows;
    const size_t files = arguments->positional_count;
    const l3a_status status = l3a_features_merge(arguments->context, arguments->positionals, files, path, &rows);
    if (status == L3A_OK) {
        printf("%s: %zu feature %s, %" PRIu64 " %s\n", path, files, plural(files, "file", "files"), rows,
               plural(rows, "row", "rows"));
    }
    return status;
}

/* A line of the record `holds` about a shard: checksums of images and classes, the number of the shard, its extraction. */
struct held {
    char classes[17], extraction[17];
    unsigned shards, shard;
};

/* Shards of the same classes and extraction stand together, in their order. */
static int compare_held(const void *left, const void *right) {
    const struct held *one = left, *other = right;
    int order = strcmp(one->classes, other->classes);
    order = order ? order : strcmp(one->extraction, other->extraction);
    order = order ? order : (one->shards > other->shards) - (one->shards < other->shards);
    return order ? order : (one->shard > other->shard) - (one->shard < other->shard);
}

/* Says which shards are missing before the shard `next`, after the shard `last`. */
static void note_gap(unsigned last, unsigned next, unsigned shards) {
    if (next == last + 2) {
        fprintf(stderr, "note: shard %u of %u is not in the model\n", last + 1, shards);
    } else if (next > last + 2) {
        fprintf(stderr, "note: shards %u to %u of %u are not in the model\n", last + 1, next - 1, shards);
    }
}

/* Says which shards are not in a model that has learned other shards of the same extraction. */
static void note_missing(const l3a_model *model) {
    const char *line = l3a_model_record(model, "holds");
    struct held *held = NULL, read;
    size_t count = 0;
    for (; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
        struct held *longer = realloc(held, (count + 1) * sizeof *held);
        if (!longer) {
            break;
        }
        held = longer;
        if (sscanf(line, "%*16s %16s %7u/%7u %16s", read.classes, &read.shard, &read.shards, read.extraction) == 4) {
            held[count++] = read;
        }
    }
    if (count) {
        qsort(held, count, sizeof *held, compare_held);
    }
    for (size_t i = 0; i < count; i++) {
        struct held before = held[i], after = held[i];
        before.shard = 0;
        after.shard = after.shards + 1;
        const bool first = !i || compare_held(&held[i - 1], &before) < 0;
        const bool last = i + 1 == count || compare_held(&held[i + 1], &after) > 0;
        note_gap(first ? 0 : held[i - 1].shard, held[i].shard, held[i].shards);
        if (last) {
            note_gap(held[i].shard, held[i].shards + 1, held[i].shards);
        }
    }
    free(held);
}

/* *refused: the model that does not go with those before it. */
static l3a_status merge_models(const struct arguments *arguments, const char *path, const char **refused) {
    l3a_context *context = arguments->context;
    l3a_model *model = NULL;
    int exact = 1;
    l3a_status status = l3a_model_load(context, arguments->positionals[0], &model);
    for (size_t i = 1; status == L3A_OK && i < arguments->positional_count; i++) {
        l3a_model *other = NULL;
        int same = 0;
        status = l3a_model_load(context, arguments->positionals[i], &other);
        if (status == L3A_OK) {
            status = l3a_model_merge(model, other, &same);
            *refused = status == L3A_OK ? NULL : arguments->positionals[i];
        }
        exact = exact && same;
        l3a_model_free(other);
    }
    if (status == L3A_OK) {
        status = l3a_model_save(model, path);
    }
    if (status == L3A_OK) {
        const size_t classes = l3a_model_class_count(model), phases = l3a_model_phase_count(model);
        printf("%s: %zu models, %zu %s in %zu %s\n", path, arguments->positional_count, classes,
               plural(classes, "class", "classes"), phases, plural(phases, "phase", "phases"));
        printf(exact
                   ? "The model equals one that learned from all the pictures in one place.\n"
                   : "The model is close to one that learned from all the pictures in one place, but not equal to it. Each picture "
                     "keeps the weight\nand pseudo-labels it got where it was learned, and the first model's gamma is used. Models "
                     "made with --weights none,\n--pseudo off and a fixed --gamma, and without folded phases, merge exactly (see "
                     "docs/beyond.md).\n");
        if (!arguments->quiet) {
            note_missing(model);
        }
    }
    l3a_model_free(model);
    return status;
}

static int join_tags(const struct arguments *arguments, const char *path) {
    l3a_lock *lock = NULL;
    const l3a_status status = l3a_lock_take(arguments->context, path, argument(arguments, "wait") != NULL, &lock);
    const int code = status == L3A_OK ? merge_tag_shards(arguments, path) : explain(arguments, status);
    l3a_lock_free(lock);
    return code;
}

int merge_command(struct arguments *arguments) {
    const char *path = argument_needed(arguments, "o");
    const char *refused = NULL;
    l3a_lock *lock = NULL;
    int code = EXIT_DONE;
    if (!path) {
        return EXIT_USAGE;
    }
    if (!arguments->positional_count) {
        return complain_usage(arguments, "name the models or feature files to merge");
    }
    if (!are_different(arguments)) {
        return EXIT_USAGE;
    }
    if (is_tag_shard(arguments->positionals[0])) {
        return join_tags(arguments, path);
    }
    const char *kind = common_kind(arguments, &code);
    if (!kind) {
        return code;
    }
    const bool models = strcmp(kind, kind_text("model")) == 0;
    if (models && arguments->positional_count < 2) {
        return complain_usage(arguments, "name at least two models to merge");
    }
    /* the output may be one of the files */
    l3a_status status = l3a_lock_take(arguments->context, path, argument(arguments, "wait") != NULL, &lock);
    if (status == L3A_OK) {
        status = models ? merge_models(arguments, path, &refused) : join_features(arguments, path);
    }
    l3a_lock_free(lock);
    if (refused && status != L3A_ERROR_CANCELLED) {
        char text[2048];
        snprintf(text, sizeof text, "%s: %s", refused, l3a_error_text(arguments->context));
        return explain_error(arguments, status, text, l3a_error_hint(arguments->context));
    }
    return explain(arguments, status);
}
