/* l3a teach: pictures in, model out. */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct option teach_options[] = {
    {"tags", "A,B", "what the pictures show, or @FILE with one tag per line; the list should be complete"},
    {"not", "A,B", "what they do not show; without --tags, nothing else is said about them"},
    {"judged", "A,B", "the list is complete only for these tags; says nothing about others"},
    {"only", NULL, "the list is not complete: say nothing about tags that are not in --tags or --not"},
    {"list", "FILE.csv", "pictures with their tags: columns path and labels, with ';' between labels"},
    {"unlabelled", "FOLDER|FEATURES",
     "pictures that are to be tagged, or their features: they show what is common, and a tag needs more than that"},
    {"no-unlabelled", NULL, "no unlabelled pictures act any more"},
    {"backbone", "FILE", "checkpoint of the network that looks at the pictures; needed once, then the model remembers it"},
    {"instead", NULL, "replace what these pictures were taught before"},
    {"was", "A,B", "with --instead: their old tags, for pictures that are not in the history"},
    {"was-judged", "A,B", "with --was: the tags that the old list was complete for [all]"},
    {"no-undo", NULL, "keep nothing of these pictures in MODEL.history; this lesson and those before cannot be undone"},
    {"strict", NULL, "stop if a picture cannot be read, instead of skipping it"},
    {"wait", NULL, "wait while another process changes the model, rather than fail"},
    {"dim", "N", "width of the random layer [2048]; with another width than the model has, it is learned again from its history"},
    {"gamma", "X", "new model: ridge, larger is smoother [auto]"},
    {"weights", "sqrt|inv|log|none", "new model: class weights; with none, the order of teaching does not matter [none]"},
    {"precision", "mixed|double", "new model: float32 products in float64 sums, or float64 throughout [mixed]"},
    {"seed", "N", "new model: seed of the random layer [2025]"},
    {"views", "1|5|9|14", "new model: 1: the whole picture; more: also so many crops of it, for small things in it [1]"},
    BACKBONE_OPTIONS("new model: "),
    {"no-orient", NULL, "new model: leave pictures as stored, instead of rotating them by their EXIF orientation"},
    {"format", "table|json", "output format [table]"},
    {NULL, NULL, NULL},
};

/* Options that only a new model has. */
static const char *const settings[] = {"dim", "gamma", "weights", "precision", "seed", "views"};
enum { TEACH_SETTINGS = sizeof settings / sizeof settings[0] };

/* The lists on the command line. */
struct lists {
    struct list tags, absent, judged, was, was_judged;
};

static void lists_free(struct lists *lists) {
    list_free(&lists->tags);
    list_free(&lists->absent);
    list_free(&lists->judged);
    list_free(&lists->was);
    list_free(&lists->was_judged);
}

static bool lists_parse(const struct arguments *arguments, struct lists *lists) {
    const struct {
        const char *name;
        struct list *list;
    } all[] = {{"tags", &lists->tags},
               {"not", &lists->absent},
               {"judged", &lists->judged},
               {"was", &lists->was},
               {"was-judged", &lists->was_judged}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const char *value = argument(arguments, all[i].name);
        if (value && !list_parse(value, all[i].list)) {
            return false;
        }
    }
    return true;
}

static l3a_judgement judgement_of(const struct arguments *arguments, const struct lists *lists) {
    return (l3a_judgement){.size = sizeof(l3a_judgement),
                           .tags = lists->tags.items,
                           .tag_count = lists->tags.count,
                           .absent = lists->absent.items,
                           .absent_count = lists->absent.count,
                           .judged = lists->judged.items,
                           .judged_count = lists->judged.count,
                           .only = argument(arguments, "only") != NULL};
}

/* ---- The lesson ---- */

/* Whether a text names a data set that knows the tags of its pictures. */
static bool has_tags(const char *text) {
    return strncmp(text, "folders:", 8) == 0 || strncmp(text, "list:", 5) == 0;
}

/* Adds the pictures of a data set, each with its own tags besides those on the command line. */
static l3a_status add_dataset(const struct arguments *arguments, const char *name, l3a_judgement judgement, l3a_lesson *lesson) {
    l3a_dataset *dataset = NULL;
    const char **tags = NULL;
    l3a_status status = l3a_dataset_open(arguments->context, name, NULL, NULL, &dataset);
    const size_t classes = l3a_dataset_class_count(dataset), given = judgement.tag_count;
    const int8_t *labels = l3a_dataset_labels(dataset);
    if (status == L3A_OK && !(tags = calloc(classes + given + 1, sizeof *tags))) {
        status = L3A_ERROR_MEMORY;
    }
    if (status == L3A_OK && given) {
        memcpy(tags, judgement.tags, given * sizeof *tags);
    }
    judgement.tags = tags;
    for (size_t i = 0; status == L3A_OK && i < l3a_dataset_rows(dataset); i++) {
        judgement.tag_count = given;
        for (size_t k = 0; k < classes; k++) {
            if (labels[i * classes + k] == 1) {
                tags[judgement.tag_count++] = l3a_dataset_class(dataset, k);
            }
        }
        status = l3a_lesson_add(lesson, l3a_dataset_path(dataset, i), &judgement);
    }
    free(tags);
    l3a_dataset_free(dataset);
    return status;
}

static l3a_status add_list(const struct arguments *arguments, const char *path, const l3a_judgement *judgement,
                           l3a_lesson *lesson) {
    const size_t size = strlen(path) + sizeof "list:";
    char *name = malloc(size);
    if (!name) {
        return L3A_ERROR_MEMORY;
    }
    snprintf(name, size, "list:%s", path);
    const l3a_status status = add_dataset(arguments, name, *judgement, lesson);
    free(name);
    return status;
}

/* Lists on stderr what is no picture, or cannot be read. Returns how many. */
static size_t print_skipped(const l3a_pictures *pictures) {
    size_t count = 0;
    for (; l3a_pictures_skipped(pictures, count); count++) {
        fprintf(stderr, "%sskipped:%s %s: %s\n", style(stderr, STYLE_BOLD), style(stderr, STYLE_PLAIN),
                l3a_pictures_skipped(pictures, count), l3a_pictures_reason(pictures, count));
    }
    return count;
}

/* Adds the pictures that are named, or found in folders that are named. *skipped counts files that are no pictures. */
static l3a_status add_pictures(const struct arguments *arguments, const char *const *paths, size_t count,
                               const l3a_judgement *judgement, l3a_lesson *lesson, size_t *skipped) {
    l3a_pictures *pictures = NULL;
    l3a_status status = l3a_pictures_find(arguments->context, paths, count, &pictures);
    for (size_t i = 0; status == L3A_OK && i < l3a_pictures_count(pictures); i++) {
        status = l3a_lesson_add(lesson, l3a_pictures_path(pictures, i), judgement);
    }
    if (status == L3A_OK) {
        *skipped += print_skipped(pictures);
    }
    l3a_pictures_free(pictures);
    return status;
}

static l3a_status fill_lesson(const struct arguments *arguments, const struct lists *lists, l3a_lesson *lesson, size_t *skipped) {
    const l3a_judgement judgement = judgement_of(arguments, lists);
    const char *list = argument(arguments, "list");
    struct list names = {0};
    size_t count = 0;
    l3a_status status = list_pictures(arguments, &names) ? L3A_OK : L3A_ERROR_MEMORY;
    for (size_t i = 0; status == L3A_OK && i < names.count; i++) { /* what is left are files and folders */
        if (has_tags(names.items[i])) {
            status = add_dataset(arguments, names.items[i], judgement, lesson);
        } else {
            names.items[count++] = names.items[i];
        }
    }
    if (status == L3A_OK && list) {
        status = add_list(arguments, list, &judgement, lesson);
    }
    if (status == L3A_OK && count) {
        status = add_pictures(arguments, names.items, count, &judgement, lesson, skipped);
    }
    list_free(&names);
    return status;
}

/* ---- The model ---- */

/* Explains a failure. The library's hints name options as it knows them. */
static int explain_teaching(const struct arguments *arguments, l3a_status status) {
    static const char *const names[][2] = {{"'instead'", "--instead"}, {"'was'", "--was"}};
    const char *hint = l3a_error_hint(arguments->context);
    char own[512];
    for (size_t i = 0; i < 2; i++) {
        const char *at = strstr(hint, names[i][0]);
        if (at) {
            snprintf(own, sizeof own, "%.*s%s%s", (int)(at - hint), hint, names[i][1], at + strlen(names[i][0]));
            hint = own;
            break;
        }
    }
    const int code = explain_error(arguments, status, l3a_error_text(arguments->context), hint);
    return status == L3A_ERROR_STATE ? EXIT_USAGE : code;
}

static l3a_status make_options(const struct arguments *arguments, l3a_options **options) {
    l3a_status status = l3a_options_create(arguments->context, options);
    for (size_t i = 0; status == L3A_OK && i < TEACH_SETTINGS; i++) {
        if (argument(arguments, settings[i])) {
            status = l3a_options_set(arguments->context, *options, settings[i], argument(arguments, settings[i]));
        }
    }
    return status;
}

static l3a_status make_tagger(const struct arguments *arguments, const l3a_backbone_options *backbone, l3a_tagger **tagger) {
    const l3a_picture_options picture = {.size = sizeof picture, .orient = !argument(arguments, "no-orient")};
    const l3a_tagger_options options = {.size = sizeof options,
                                        .backbone = argument(arguments, "backbone"),
                                        .backbone_options = backbone,
                                        .picture_options = &picture};
    l3a_options *made = NULL;
    l3a_status status = make_options(arguments, &made);
    if (status == L3A_OK) {
        status = l3a_lesson_settings(arguments->context, made);
    }
    if (status == L3A_OK) {
        status = l3a_tagger_create(arguments->context, arguments->positionals[0], made, &options, tagger);
    }
    l3a_options_free(made);
    return status;
}

/* Learns the model again if another width is asked for. Explains on stderr if another setting is not the model's. */
static int adapt(const struct arguments *arguments, l3a_tagger *tagger) {
    l3a_options *own = NULL, *asked = NULL;
    l3a_status status = make_options(arguments, &asked);
    if (status == L3A_OK) {
        status = l3a_options_create(arguments->context, &own);
    }
    const l3a_model *model = status == L3A_OK ? l3a_tagger_model(tagger) : NULL;
    if (status == L3A_OK) {
        status = model ? l3a_model_options(model, own) : L3A_ERROR_IO;
    }
    int code = EXIT_DONE;
    for (size_t i = 1; status == L3A_OK && code == EXIT_DONE && i < TEACH_SETTINGS; i++) {
        char has[64], wanted[64];
        l3a_options_get(own, settings[i], has, sizeof has);
        l3a_options_get(asked, settings[i], wanted, sizeof wanted);
        const bool chosen = strcmp(wanted, "auto") == 0 && l3a_model_record(model, settings[i]);
        if (argument(arguments, settings[i]) && strcmp(has, wanted) != 0 && !chosen) {
            code = complain(arguments, "%s: the model was made with --%s %s, which cannot be changed to %s",
                            arguments->positionals[0], settings[i], has, wanted);
        }
    }
    const uint64_t dim = l3a_options_integer(asked, "dim");
    if (status == L3A_OK && code == EXIT_DONE && argument(arguments, "dim") && dim != l3a_options_integer(own, "dim")) {
        status = l3a_tagger_widen(tagger, (size_t)dim);
        if (status == L3A_OK && !arguments->quiet) {
            fprintf(stderr, "learned again from the history, %" PRIu64 " wide instead of %" PRIu64 "\n", dim,
                    l3a_options_integer(own, "dim"));
        }
    }
    l3a_options_free(own);
    l3a_options_free(asked);
    return code == EXIT_DONE ? explain_teaching(arguments, status) : code;
}

/* Opens the model's tagger, or makes a new one. */
static int open_tagger(const struct arguments *arguments, bool *made, l3a_tagger **tagger) {
    const char *for_new = argument(arguments, "no-orient") ? "no-orient" : backbone_argument_given(arguments);
    l3a_backbone_options backbone;
    if (!backbone_arguments(arguments, &backbone)) {
        return EXIT_USAGE;
    }
    *made = access(arguments->positionals[0], F_OK) && errno == ENOENT;
    if (*made && !argument(arguments, "backbone")) {
        complain(arguments, "%s: there is no such model yet, and a new one needs a backbone", arguments->positionals[0]);
        print_hint("add --backbone FILE, the checkpoint of a network (docs/backbones.md lists them); the model will remember it");
        return EXIT_USAGE;
    }
    if (*made) {
        return explain(arguments, make_tagger(arguments, &backbone, tagger));
    }
    if (for_new) {
        return complain(arguments, "--%s is for a new model, and %s exists", for_new, arguments->positionals[0]);
    }
    const l3a_tagger_options options = {.size = sizeof options, .backbone = argument(arguments, "backbone")};
    const l3a_status status = l3a_tagger_open(arguments->context, arguments->positionals[0], &options, tagger);
    return status == L3A_OK ? adapt(arguments, *tagger) : explain(arguments, status);
}

/* ---- The command ---- */

/* Whether it changes which unlabelled pictures act. */
static bool changes_unlabelled(const struct arguments *arguments) {
    return argument(arguments, "unlabelled") || argument(arguments, "no-unlabelled");
}

static bool arguments_fit(const struct arguments *arguments) {
    const bool listed = argument(arguments, "list") != NULL;
    bool tagged = argument(arguments, "tags") || argument(arguments, "not"), all_tagged = true;
    const bool alone = arguments->positional_count == 1 && !listed && changes_unlabelled(arguments); /* without a lesson */
    if (arguments->positional_count < (listed || alone ? 1 : 2)) {
        complain_usage(arguments, "name a model file and at least one picture or folder");
        return false;
    }
    if (argument(arguments, "unlabelled") && argument(arguments, "no-unlabelled")) {
        complain(arguments, "--unlabelled and --no-unlabelled cannot be used together");
        return false;
    }
    static const char *const of_pictures[] = {"tags", "not", "judged", "only", "instead", "no-undo", "strict"};
    for (size_t i = 0; alone && i < sizeof of_pictures / sizeof of_pictures[0]; i++) {
        if (argument(arguments, of_pictures[i])) {
            complain(arguments, "there are no pictures to teach, and --%s is about these", of_pictures[i]);
            print_hint("name the pictures, or leave --%s out", of_pictures[i]);
            return false;
        }
    }
    for (size_t i = 1; i < arguments->positional_count; i++) {
        all_tagged = all_tagged && has_tags(arguments->positionals[i]);
        if (strncmp(arguments->positionals[i], "tar:", 4) == 0) {
            complain(arguments,
                     "%s: a model's history names the files that were taught, so pictures in a tar file cannot be taught",
                     arguments->positionals[i]);
            print_hint("unpack the archive and teach the files, or use l3a extract and l3a learn");
            return false;
        }
    }
    if (!tagged && !all_tagged && !alone) {
        complain(arguments, "say what the pictures show: --tags cat,dog");
        print_hint("if a folder has one folder of pictures for each tag, use folders:DIR");
        return false;
    }
    if (argument(arguments, "only") && argument(arguments, "judged")) {
        complain(arguments, "--only and --judged cannot be used together");
        return false;
    }
    const char *needs[][2] = {{"was", "instead"}, {"was-judged", "was"}};
    for (size_t i = 0; i < 2; i++) {
        if (argument(arguments, needs[i][0]) && !argument(arguments, needs[i][1])) {
            complain(arguments, "--%s has no effect without --%s", needs[i][0], needs[i][1]);
            return false;
        }
    }
    return true;
}

/* Whether a path is that of a file with features, and not of pictures. */
static bool holds_features(const struct arguments *arguments, const char *path) {
    const char *kind = NULL;
    return l3a_file_recognise(arguments->context, path, &kind) == L3A_OK && strcmp(kind, "features") == 0;
}

/* Sets the unlabelled pictures as the options say. */
static int set_unlabelled(const struct arguments *arguments, l3a_tagger *tagger) {
    const char *path = argument(arguments, "unlabelled");
    l3a_features *features = NULL;
    l3a_pictures *pictures = NULL;
    l3a_status status = L3A_OK;
    int code = EXIT_DONE;
    if (!changes_unlabelled(arguments)) {
        return EXIT_DONE;
    }
    if (path) {
        status = holds_features(arguments, path) ? l3a_features_open(arguments->context, path, &features)
                                                 : l3a_pictures_find(arguments->context, &path, 1, &pictures);
    }
    if (status == L3A_OK && pictures && !l3a_pictures_count(pictures)) {
        print_skipped(pictures);
        code = complain(arguments, "--unlabelled: there are no pictures in %s", path);
        print_hint("name a folder with pictures that are to be tagged, or a file with their features");
    }
    if (status == L3A_OK && code == EXIT_DONE) {
        status = l3a_tagger_set_unlabelled(tagger, pictures, features, NULL);
    }
    l3a_pictures_free(pictures);
    l3a_features_free(features);
    return code == EXIT_DONE ? explain_teaching(arguments, status) : code;
}

/* changed: there is something to save even if no picture is new. */
static l3a_status teach(const struct arguments *arguments, const struct lists *lists, l3a_tagger *tagger, l3a_lesson *lesson,
                        bool changed, l3a_teach_report *report) {
    const l3a_judgement was = {.size = sizeof was,
                               .tags = lists->was.items,
                               .tag_count = lists->was.count,
                               .judged = lists->was_judged.items,
                               .judged_count = lists->was_judged.count};
    const l3a_lesson_options options = {.size = sizeof options,
                                        .strict = argument(arguments, "strict") != NULL,
                                        .no_history = argument(arguments, "no-undo") != NULL,
                                        .instead = argument(arguments, "instead") != NULL,
                                        .was = argument(arguments, "was") ? &was : NULL};
    l3a_status status = L3A_OK;
    if (l3a_lesson_count(lesson)) {
        status = l3a_tagger_teach(tagger, lesson, &options, report);
    }
    return status == L3A_OK && (report->images || changed) ? l3a_tagger_save(tagger) : status;
}

/* Opens or makes the model under its lock, teaches it, saves it and says what happened. */
static int teach_lesson(const struct arguments *arguments, const struct lists *lists, l3a_lesson *lesson, const char *format) {
    l3a_teach_report report = {.size = sizeof report, .exact = 1}; /* of no lesson */
    l3a_lock *lock = NULL;
    l3a_tagger *tagger = NULL;
    bool made = false;
    l3a_status status = l3a_lock_take(arguments->context, arguments->positionals[0], argument(arguments, "wait") != NULL, &lock);
    int code = status == L3A_OK ? open_tagger(arguments, &made, &tagger) : explain(arguments, status);
    const bool changed = made || argument(arguments, "dim") || argument(arguments, "backbone") || changes_unlabelled(arguments);
    struct tagged_before before = {0};
    if (code == EXIT_DONE) {
        code = set_unlabelled(arguments, tagger);
    }
    if (code == EXIT_DONE) {
        status = count_tagged(tagger, &before);
        status = status == L3A_OK ? teach(arguments, lists, tagger, lesson, changed, &report) : status;
        code = explain_teaching(arguments, status);
    }
    if (code == EXIT_DONE) {
        progress_clear();
        code = print_taught(arguments, tagger, lesson, &report, made, &before, format);
    }
    tagged_before_free(&before);
    l3a_tagger_free(tagger);
    l3a_lock_free(lock);
    return code;
}

int teach_command(struct arguments *arguments) {
    const char *format = argument_choice(arguments, "format", "table|json", "table");
    struct lists lists = {0};
    l3a_lesson *lesson = NULL;
    size_t skipped = 0, views;
    int code = EXIT_USAGE;
    if (!format || !views_argument(arguments, &views) || !arguments_fit(arguments)) {
        return EXIT_USAGE;
    }
    if (lists_parse(arguments, &lists)) {
        l3a_status status = l3a_lesson_create(arguments->context, &lesson);
        if (status == L3A_OK) {
            status = fill_lesson(arguments, &lists, lesson, &skipped);
        }
        code = explain(arguments, status);
        if (code == EXIT_DONE && !l3a_lesson_count(lesson) && arguments->positional_count > 1) {
            code = complain(arguments, "there are no pictures to teach");
            print_hint("name pictures, or folders with pictures in them; 'l3a data folders:DIR' says what is in a folder");
        }
    }
    if (code == EXIT_DONE) {
        code = teach_lesson(arguments, &lists, lesson, format);
    }
    l3a_lesson_free(lesson);
    lists_free(&lists);
    return code == EXIT_DONE && skipped ? EXIT_USAGE : code;
}
