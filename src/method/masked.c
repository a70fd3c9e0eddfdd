/* joint-masked: one lesson with all classes, in which every image appears once for each phase it belongs to, with only that
 * phase's labels. It is learning phase after phase without pseudo-labels, but with all class counts known from the start. The
 * difference from `joint` is the cost of the missing labels. */
#include "data/features.h"
#include "learn/model.h"
#include "method/method.h"

#include <string.h>

struct pass {
    l3a_model *model;
    const struct lesson *part; /* the phase that the rows belong to */
    size_t classes;            /* of all phases */
    bool counting;
};

/* Counts the images of all phases, each in every phase it belongs to. */
static l3a_status count_all(const struct lesson *lesson, uint64_t *images) {
    l3a_status status = L3A_OK;
    *images = 0;
    for (size_t t = 0; t < lesson->phases; t++) {
        struct lesson part = *lesson;
        size_t *rows = NULL, count;
        part.first = lesson->bounds[t];
        part.last = lesson->bounds[t + 1];
        TRY(lesson_rows(&part, &rows, &count));
        release(lesson->train->context, rows);
        *images += count;
    }
done:
    return status;
}

static l3a_status take(void *argument, const float *features, const int8_t *labels, size_t rows) {
    const struct pass *pass = argument;
    l3a_context *context = pass->model->context;
    l3a_status status = L3A_OK;
    const size_t own = pass->part->last - pass->part->first;
    int8_t *masked = NULL;
    TRY(allocate_zeroed(context, rows, pass->classes, &masked));
    for (size_t i = 0; i < rows; i++) {
        memcpy(masked + i * pass->classes + pass->part->first, labels + i * own, own);
    }
    TRY(pass->counting ? l3a_phase_count(pass->model, masked, rows) : l3a_phase_learn(pass->model, features, masked, rows));
done:
    release(context, masked);
    return status;
}

/* all: the images of all phases together, which processes divide. *images: the same. */
static l3a_status pass_over_phases(l3a_model *model, const struct lesson *lesson, bool counting, uint64_t all, uint64_t *images) {
    l3a_status status = L3A_OK;
    *images = 0;
    for (size_t t = 0; t < lesson->phases; t++) {
        struct lesson part = *lesson;
        part.first = lesson->bounds[t];
        part.last = lesson->bounds[t + 1];
        struct pass pass = {model, &part, lesson->last, counting};
        uint64_t own;
        TRY(lesson_read_part(&part, counting ? "count" : "learn", *images, all, READ_ROWS, take, &pass, &own));
        *images += own;
    }
done:
    return status;
}

l3a_status learn_masked(void *state, const struct lesson *lesson, struct outcome *outcome) {
    l3a_model *model = state;
    l3a_status status = L3A_OK;
    uint64_t all;
    TRY(l3a_model_accepts(model, lesson->train));
    TRY(l3a_phase_begin(model, lesson->names, lesson->last));
    TRY(count_all(lesson, &all));
    TRY(pass_over_phases(model, lesson, true, all, &outcome->images));
    TRY(pass_over_phases(model, lesson, false, all, &outcome->images));
    TRY(model_keep_provenance(model, lesson->train));
    TRY(l3a_phase_end(model));
done:
    l3a_phase_abandon(model);
    return status;
}
