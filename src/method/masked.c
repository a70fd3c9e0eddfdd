/* joint-masked: one lesson with all classes, in which every image appears once for each phase it belongs to, with only that
 * phase's labels. It is learning phase after phase without pseudo-labels, but with all class counts known from the start. The
 * difference from `joint` is the cost of the missing labels. */
#include "data/features.h"
#include "learn/model.h"
#include "method/method.h"

#include <string.h>

/* A phase of the lesson, and this process's part of its images. */
struct masked_phase {
    struct lesson lesson;
    struct row_choice choice;
    size_t *rows, count;
};

struct pass {
    l3a_model *model;
    const struct lesson *part; /* the phase that the rows belong to */
    size_t classes;            /* of all phases */
    bool counting;
};

static size_t between(size_t value, size_t low, size_t high) {
    return value < low ? low : value > high ? high : value;
}

/* Finds the images of all phases, each in every phase it belongs to, and which of them are this process's: the images of the phases
 * are one list, and processes divide that. *images: their number. */
static l3a_status find_images(const struct lesson *lesson, struct masked_phase *phases, uint64_t *images) {
    l3a_status status = L3A_OK;
    size_t all = 0, first, own;
    for (size_t t = 0; t < lesson->phases; t++) {
        struct lesson *part = &phases[t].lesson;
        *part = *lesson;
        part->first = lesson->bounds[t];
        part->last = lesson->bounds[t + 1];
        TRY(choice_make(lesson->train, BY_LABEL, part->columns + part->first, part->last - part->first, &phases[t].choice));
        all += phases[t].choice.count;
    }
    own_part(lesson->train->context, all, &first, &own);
    for (size_t t = 0, before = 0; t < lesson->phases; t++) {
        const size_t behind = before + phases[t].choice.count, start = between(first, before, behind),
                     end = between(first + own, before, behind);
        phases[t].count = end - start;
        TRY(choice_list(&phases[t].choice, start - before, end - start, &phases[t].rows));
        before = behind;
    }
    *images = all;
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

static l3a_status pass_over_phases(l3a_model *model, const struct lesson *lesson, const struct masked_phase *phases,
                                   bool counting) {
    l3a_status status = L3A_OK;
    for (size_t t = 0; t < lesson->phases; t++) {
        struct pass pass = {model, &phases[t].lesson, lesson->last, counting};
        TRY(lesson_read_rows(&phases[t].lesson, counting ? "count" : "learn", phases[t].rows, phases[t].count, READ_ROWS, take,
                             &pass));
    }
done:
    return status;
}

l3a_status learn_masked(void *state, const struct lesson *lesson, struct outcome *outcome) {
    l3a_model *model = state;
    l3a_status status = L3A_OK;
    struct masked_phase *phases = NULL;
    TRY(l3a_model_accepts(model, lesson->train));
    TRY(l3a_phase_begin(model, lesson->names, lesson->last));
    TRY(allocate_zeroed(model->context, lesson->phases, sizeof *phases, &phases));
    TRY(find_images(lesson, phases, &outcome->images));
    TRY(pass_over_phases(model, lesson, phases, true));
    TRY(pass_over_phases(model, lesson, phases, false));
    TRY(model_keep_provenance(model, lesson->train));
    TRY(l3a_phase_end(model));
done:
    for (size_t t = 0; phases && t < lesson->phases; t++) {
        choice_free(&phases[t].choice);
        release(model->context, phases[t].rows);
    }
    release(model->context, phases);
    l3a_phase_abandon(model);
    return status;
}
