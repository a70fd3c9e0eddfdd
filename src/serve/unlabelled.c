/* The pictures of the library that were looked at are the model's unlabelled ones: before a lesson, if there are many and their
 * number has grown by a quarter since. They say what is common in the library, and so what does not tell one tag from another.
 *
 * The model keeps them, and the index of the library their features; a server without an index has them in its cache, so that after
 * a restart those of the model stay until more pictures were looked at than they were drawn from. */
#include "serve/librarian.h"

#include <stdlib.h>
#include <string.h>

/* Fewer say too little. More than the most are not needed: what acts is a sample. */
enum { FEWEST = 200, MOST = 20000 };

size_t library_looked_at(struct server *server) {
    const size_t all = server->librarian ? (size_t)holdings_done(server) : cache_count_library(server->cache);
    return server->options->unlabelled && all >= FEWEST ? all : 0;
}

bool library_has_grown(struct server *server, uint64_t since) {
    const size_t all = library_looked_at(server);
    return all && all - (all + 4) / 5 >= since; /* nothing can overflow, whatever a model says */
}

/* A sample of the index, by a handle of its own, since whoever uses the others must not be waited for. Of each picture, only the
 * first `numbers` of its features are kept. */
static l3a_status sample_index(struct server *server, l3a_context *context, size_t most, size_t numbers, struct library_rows *rows,
                               size_t *count) {
    const size_t width = server->pipeline.width;
    struct handle own = {.context = context};
    l3a_status status;
    float *whole = numbers < width ? malloc(most * width * sizeof *whole) : rows->features;
    if (!whole) {
        return L3A_ERROR_MEMORY;
    }
    if (handle_open(server->librarian, &own, &status)) {
        status = l3a_library_sample(own.library, most, whole, rows->checksums, count);
    }
    handle_close(&own);
    for (size_t i = 0; status == L3A_OK && whole != rows->features && i < *count; i++) {
        memcpy(rows->features + i * numbers, whole + i * width, numbers * sizeof *whole);
    }
    if (whole != rows->features) {
        free(whole);
    }
    return status;
}

l3a_status library_table(struct server *server, l3a_context *context, bool whole, struct library_rows *rows) {
    const l3a_model *model = l3a_tagger_model(server->model.tagger);
    const size_t all = library_looked_at(server), most = all < MOST ? all : MOST, width = model ? l3a_model_width(model) : 0;
    const size_t numbers = whole ? width : server->pipeline.width, views = width && numbers > width ? numbers / width - 1 : 1;
    *rows = (struct library_rows){0};
    if (!all || !width) {
        return L3A_OK;
    }
    rows->features = malloc(most * numbers * sizeof *rows->features);
    rows->checksums = malloc(most * sizeof *rows->checksums);
    if (!rows->features || !rows->checksums) {
        return L3A_ERROR_MEMORY;
    }
    size_t count = 0;
    if (!server->librarian) {
        count = cache_copy_library(server->cache, most, numbers, rows->features, rows->checksums);
    } else {
        const l3a_status status = sample_index(server, context, most, numbers, rows, &count);
        if (status != L3A_OK) {
            return status;
        }
    }
    return count < FEWEST ? L3A_OK : l3a_features_wrap(context, rows->features, NULL, count, views, width, NULL, 0, &rows->table);
}

void library_rows_free(struct library_rows *rows) {
    l3a_features_free(rows->table);
    free(rows->features);
    free(rows->checksums);
    *rows = (struct library_rows){0};
}

/* The model has other unlabelled pictures, and so other scores and thresholds, whatever becomes of the lesson. */
static void say_used(struct server *server) {
    l3a_unlabelled_info info = {.size = sizeof info};
    if (l3a_model_unlabelled(l3a_tagger_model(server->model.tagger), &info) == L3A_OK) {
        note(server, LOG_INFO, "%llu of %llu pictures of the library act as unlabelled ones", (unsigned long long)info.images,
             (unsigned long long)info.drawn_from);
    }
    if (!teacher_publish(server)) {
        note(server, LOG_ERROR, "the new model cannot be described: %s", l3a_error_text(server->context));
    }
}

/* What cannot be done is not tried again before every lesson. A model that keeps no parts can have no unlabelled pictures. */
static void say_unused(struct server *server, l3a_status status, size_t pictures) {
    server->teacher.declined = pictures;
    if (status != L3A_ERROR_MISMATCH) {
        note(server, LOG_WARNING, "the pictures of the library do not help to teach: %s",
             status == L3A_ERROR_MEMORY ? "not enough memory" : l3a_error_text(server->context));
    }
}

l3a_status teacher_use_library(struct server *server) {
    const struct teacher *teacher = &server->teacher;
    l3a_tagger *tagger = server->model.tagger;
    const l3a_model *model = teacher->unreadable || teacher->unsavable ? NULL : l3a_tagger_model(tagger);
    l3a_unlabelled_info info = {.size = sizeof info};
    struct library_rows rows = {0};
    const size_t all = library_looked_at(server);
    if (!model || l3a_model_unlabelled(model, &info) != L3A_OK || !library_has_grown(server, info.drawn_from) ||
        !library_has_grown(server, teacher->declined)) {
        return L3A_OK;
    }
    l3a_status status = library_table(server, server->context, true, &rows);
    if (status == L3A_OK && rows.table) {
        const l3a_unlabelled_options options = {.size = sizeof options, .checksums = rows.checksums, .drawn_from = all};
        status = l3a_tagger_set_unlabelled(tagger, NULL, rows.table, &options);
        if (status == L3A_OK) {
            say_used(server);
        }
    }
    library_rows_free(&rows);
    if (status == L3A_OK || status == L3A_ERROR_CANCELLED || status == L3A_ERROR_STATE) {
        return status;
    }
    say_unused(server, status, all);
    return L3A_OK;
}
