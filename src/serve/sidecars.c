/* Tags beside the pictures of the library, as XMP, if that is wanted: those that were said, and those that are sure, with a score
 * well above the threshold. A tag that somebody said it does not show is removed. Whatever else a sidecar has stays.
 *
 * The indexer writes them when all scores are up to date, a few at a time, and leaves off as soon as there is something more
 * urgent. What it has written is remembered by a hash until the server ends; after that, each sidecar is read once, and written if
 * it lacks something. */
#include "serve/librarian.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SURE 1.25 /* times the threshold: as the page has it */
enum { AT_ONCE = 64 };

/* A picture whose tags are looked at. */
struct tagged {
    uint64_t id, hash;
    char *path;
    const char **tags, **denied;
    int8_t *labels; /* what was said, as in l3a_said */
    size_t tag_count, denied_count;
};

struct writing {
    struct librarian *librarian;
    struct knowledge *knowledge;
    l3a_reader *reader;
    struct tagged items[AT_ONCE];
    float *features; /* [AT_ONCE x width] */
    size_t count;
};

/* ---- Which tags ---- */

static void add_hash(uint64_t *hash, const char *text, char mark) {
    *hash = (*hash ^ (uint8_t)mark) * UINT64_C(1099511628211);
    for (; *text; text++) {
        *hash = (*hash ^ (uint8_t)*text) * UINT64_C(1099511628211);
    }
}

static int choose_tags(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    const struct writing *writing = user;
    struct tagged *item = (struct tagged *)&writing->items[index];
    const struct knowledge *knowledge = writing->knowledge;
    (void)status;
    item->hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < l3a_tags_count(tags) && item->tags && item->denied; i++) {
        const char *name = l3a_tags_name(tags, i);
        const double threshold = l3a_tags_threshold(tags, i);
        size_t k = 0;
        while (k < knowledge->classes && strcmp(knowledge->names[k], name) != 0) {
            k++;
        }
        if (k == knowledge->classes) {
            continue; /* of a newer edition; that comes soon */
        }
        const int said = item->labels[k];
        if (said > 0 || (said < 0 && l3a_tags_predicted(tags, i) && (double)l3a_tags_score(tags, i) >= SURE * threshold)) {
            item->tags[item->tag_count++] = knowledge->names[k];
            add_hash(&item->hash, name, '+');
        } else if (!said) {
            item->denied[item->denied_count++] = knowledge->names[k];
            add_hash(&item->hash, name, '-');
        }
    }
    return 0;
}

/* ---- A few pictures ---- */

struct hearing {
    const struct knowledge *knowledge;
    int8_t *labels;
};

static int hear(const char *class, int shown, void *user) {
    const struct hearing *hearing = user;
    for (size_t k = 0; k < hearing->knowledge->classes; k++) {
        if (strcmp(hearing->knowledge->names[k], class) == 0) {
            hearing->labels[k] = shown > 0;
        }
    }
    return 0;
}

static bool read_said(const struct writing *writing, struct tagged *item) {
    struct hearing hearing = {writing->knowledge, item->labels};
    memset(item->labels, -1, writing->knowledge->classes + 1);
    return l3a_library_judged(writing->librarian->own.library, item->id, hear, &hearing) == L3A_OK;
}

static bool take(struct writing *writing, uint64_t id) {
    struct librarian *librarian = writing->librarian;
    struct tagged *item = &writing->items[writing->count];
    l3a_library_picture about = {.size = sizeof about};
    const size_t width = librarian->server->pipeline.width, classes = writing->knowledge->classes;
    l3a_library *library = librarian->own.library;
    if (l3a_library_picture_at(library, id, &about) != L3A_OK || about.state != L3A_PICTURE_DONE ||
        !librarian_relative(librarian, about.path) || !library_reaches(librarian, librarian_relative(librarian, about.path))) {
        return true; /* it has gone, and comes again if it comes back */
    }
    *item = (struct tagged){.id = id,
                            .path = copy_string(about.path),
                            .tags = calloc(classes + 1, sizeof *item->tags),
                            .denied = calloc(classes + 1, sizeof *item->denied),
                            .labels = malloc(classes + 1)};
    writing->count++;
    return item->path && item->tags && item->denied && item->labels && read_said(writing, item) &&
           l3a_library_features(library, id, writing->features + (writing->count - 1) * width) == L3A_OK;
}

static void drop_items(struct writing *writing) {
    for (size_t i = 0; i < writing->count; i++) {
        free(writing->items[i].path);
        free(writing->items[i].tags);
        free(writing->items[i].denied);
        free(writing->items[i].labels);
    }
    writing->count = 0;
}

static bool was_written(const struct librarian *librarian, const struct tagged *item) {
    return item->id < librarian->written_count && librarian->written[item->id] == item->hash;
}

static void remember(struct librarian *librarian, const struct tagged *item) {
    if (item->id >= librarian->written_count && item->id < UINT32_MAX) {
        const size_t count = (size_t)item->id + (size_t)item->id / 2 + 1024;
        uint64_t *written = realloc(librarian->written, count * sizeof *written);
        if (!written) {
            return;
        }
        memset(written + librarian->written_count, 0, (count - librarian->written_count) * sizeof *written);
        librarian->written = written;
        librarian->written_count = count;
    }
    if (item->id < librarian->written_count) {
        librarian->written[item->id] = item->hash;
    }
}

/* A failure, such as that of a folder which cannot be written to, is told once for each text, and no reason to stop. */
static void write_items(struct writing *writing) {
    struct librarian *librarian = writing->librarian;
    for (size_t i = 0; i < writing->count; i++) {
        const struct tagged *item = &writing->items[i];
        const l3a_sidecar_options options = {.size = sizeof options, .remove = item->denied, .remove_count = item->denied_count};
        int changed = 0;
        if (was_written(librarian, item)) {
            continue;
        }
        if (l3a_sidecar_write(librarian->own.context, item->path, item->tags, item->tag_count, &options, &changed) != L3A_OK) {
            indexer_on_event(&(l3a_event){.kind = L3A_EVENT_WARNING, .text = l3a_error_text(librarian->own.context)}, librarian);
        }
        atomic_fetch_add(&librarian->server->metrics.sidecars, (uint_fast64_t)(changed != 0));
        remember(librarian, item);
    }
}

static bool write_some(struct writing *writing, const l3a_found *found, size_t first) {
    bool good = true;
    for (size_t i = first; good && i < first + AT_ONCE && i < l3a_found_count(found); i++) {
        good = take(writing, l3a_found_id(found, i));
    }
    good = good && (!writing->count ||
                    l3a_reader_score(writing->reader, writing->features, writing->count, choose_tags, writing) == L3A_OK);
    if (good) {
        write_items(writing);
    }
    drop_items(writing);
    return good;
}

/* ---- All of them ---- */

static bool is_interrupted(struct librarian *librarian) {
    return atomic_load(&librarian->stop) || atomic_load(&librarian->urgent);
}

static void write_all(struct librarian *librarian, uint64_t change) {
    const l3a_find_options options = {.size = sizeof options, .where = "is:said or is:tagged"};
    struct writing writing = {.librarian = librarian, .knowledge = knowledge_keep(librarian->server)};
    l3a_found *found = NULL;
    writing.features = malloc(AT_ONCE * librarian->server->pipeline.width * sizeof *writing.features);
    bool good = writing.features && l3a_reader_create(librarian->server->model.tagger, &writing.reader) == L3A_OK &&
                l3a_library_find(librarian->own.library, &options, &found) == L3A_OK;
    for (size_t first = 0; good && first < l3a_found_count(found) && !is_interrupted(librarian); first += AT_ONCE) {
        good = write_some(&writing, found, first);
        indexer_on_event(&(l3a_event){.kind = L3A_EVENT_PROGRESS}, librarian); /* lets requests go first */
    }
    if (good && !is_interrupted(librarian)) {
        librarian->written_change = change;
    }
    l3a_found_free(found);
    l3a_reader_free(writing.reader);
    free(writing.features);
    knowledge_free(writing.knowledge);
}

void sidecars_write(struct librarian *librarian) {
    uint64_t change;
    if (librarian->server->options->write_xmp && l3a_library_change(librarian->own.library, &change) == L3A_OK &&
        change != librarian->written_change) {
        write_all(librarian, change);
    }
}
