/* The pictures of the library that were looked at are the model's unlabelled ones: before a lesson, if there are many and their
 * number has grown by a quarter since. They say what is common in the library, and so what does not tell one tag from another. */
#include "serve/server.h"

#include <stdlib.h>

/* Fewer say too little. More than the most are not needed: what acts is a sample. */
enum { FEWEST = 200, MOST = 20000 };

l3a_status library_table(struct server *server, l3a_context *context, struct library_rows *rows) {
    const l3a_model *model = l3a_tagger_model(server->model.tagger);
    const size_t all = cache_count_library(server->cache), width = model ? l3a_model_width(model) : 0;
    const size_t numbers = server->pipeline.width, views = width && numbers > width ? numbers / width - 1 : 1;
    *rows = (struct library_rows){0};
    if (all < FEWEST || !width || server->library < 0 || !server->options->unlabelled) {
        return L3A_OK;
    }
    const size_t most = all < MOST ? all : MOST;
    rows->features = malloc(most * numbers * sizeof *rows->features);
    rows->checksums = malloc(most * sizeof *rows->checksums);
    if (!rows->features || !rows->checksums) {
        return L3A_ERROR_MEMORY;
    }
    rows->count = cache_copy_library(server->cache, most, rows->features, rows->checksums);
    return rows->count < FEWEST
               ? L3A_OK
               : l3a_features_wrap(context, rows->features, NULL, rows->count, views, width, NULL, 0, &rows->table);
}

void library_rows_free(struct library_rows *rows) {
    l3a_features_free(rows->table);
    free(rows->features);
    free(rows->checksums);
    *rows = (struct library_rows){0};
}

void teacher_use_library(struct server *server) {
    l3a_tagger *tagger = server->model.tagger;
    const l3a_model *model = l3a_tagger_model(tagger);
    l3a_unlabelled_info info = {.size = sizeof info};
    struct library_rows rows = {0};
    const size_t all = cache_count_library(server->cache);
    if (!model || l3a_model_unlabelled(model, &info) != L3A_OK || 4 * (uint64_t)all < 5 * info.drawn_from) {
        return;
    }
    l3a_status status = library_table(server, server->context, &rows);
    const l3a_unlabelled_options options = {.size = sizeof options, .checksums = rows.checksums, .drawn_from = all};
    if (status == L3A_OK && rows.table) {
        status = l3a_tagger_set_unlabelled(tagger, NULL, rows.table, &options);
        if (status == L3A_OK) {
            note(server, LOG_INFO, "%zu pictures of the library act as unlabelled ones", all);
        }
    }
    if (status != L3A_OK && status != L3A_ERROR_MISMATCH) { /* of which a model that keeps no parts can have none */
        note(server, LOG_WARNING, "the pictures of the library do not help to teach: %s", l3a_error_text(server->context));
    }
    library_rows_free(&rows);
}
