/* A lesson: images that were judged, as present or absent, for some classes, known or new (SPEC §6).
 *
 *   for every set of classes K that images of the lesson were judged for:   A_K += Σ ω x xᵀ
 *   c_k += Σ ω x y_k over the images judged for k     f_k += Σ y_k     then W is solved for anew (part.h)
 *
 * ω is the mean of v over the classes that the image shows or, if it shows none, over those it was judged for. Images with the same
 * judged set are one part, whenever they were taught. So with ω = 1 and a given γ, or one that is a function of the sums, neither
 * the order of the images nor their division into lessons matters. Taking a lesson back subtracts the same sums. A model that adds
 * everything to one sum has no parts: an image that was not judged for a class is one that does not show it, unless it gets a
 * pseudo-label. There the recursion (algebra.h) can learn a lesson of few images in n d² operations.
 *
 * A lesson is learned as a whole or not at all (model_change.h). */
#include "learn/teach.h"

#include "base/sized.h"
#include "learn/model_change.h"
#include "learn/model_plan.h"
#include "learn/teach_lesson.h"
#include "learn/weights.h"

#include <inttypes.h>
#include <string.h>

static void lesson_free(struct lesson *lesson) {
    l3a_context *context = lesson->model->context;
    lesson_free_block(lesson);
    lesson_sections_free(context, &lesson->sections);
    release(context, lesson->place);
    release(context, lesson->class_weight);
    text_list_clear(context, &lesson->classes);
    model_columns_free(context, &lesson->next);
}

/* The class columns of the next model: those of the model, and zeros for new classes. Counts those of the lesson. */
static l3a_status prepare_columns(struct lesson *lesson) {
    const l3a_model *model = lesson->model;
    const struct taught *taught = lesson->taught;
    l3a_context *context = model->context;
    struct model_columns *next = &lesson->next;
    l3a_status status = L3A_OK;
    const size_t all = lesson->classes.count;
    TRY(model_columns_extend(model, all, next));
    TRY(allocate(context, all, sizeof *lesson->class_weight, &lesson->class_weight));
    if (lesson->sign < 0) { /* as they were when the lesson was taught */
        class_weights(next->counts, all, model->options.weights, model->options.scaling, lesson->class_weight);
    }
    for (size_t j = 0; j < taught->column_count; j++) {
        uint64_t shown = 0;
        for (size_t i = 0; i < taught->row_count; i++) {
            shown += given_label(taught, i, j) == 1;
        }
        if (lesson->place[j] == SIZE_MAX) {
            continue;
        }
        uint64_t *count = &next->counts[lesson->place[j]];
        FAIL_IF(lesson->sign < 0 && shown > *count, context, L3A_ERROR_DATA,
                "take back only images that were taught, with the labels they were taught with",
                "class '%s': %" PRIu64 " images are to be taken back, but %" PRIu64 " were taught",
                lesson->classes.items[lesson->place[j]], shown, *count);
        *count = lesson->sign < 0 ? *count - shown : *count + shown;
    }
    if (lesson->sign > 0) {
        class_weights(next->counts, all, model->options.weights, model->options.scaling, lesson->class_weight);
    }
    for (size_t k = model->classes.count; k < all; k++) {
        next->class_weight[k] = lesson->class_weight[k];
    }
done:
    return status;
}

/* Columns of 0 for new classes. */
static bool extend_end(l3a_context *context, struct search_end *end, size_t d, size_t all) {
    return end->columns == all ||
           (extend_array(context, &end->solution, end->columns * d, all * d, sizeof *end->solution) == L3A_OK &&
            extend_array(context, &end->residual, end->columns * d, all * d, sizeof *end->residual) == L3A_OK &&
            extend_array(context, &end->error, end->columns, all, sizeof *end->error) == L3A_OK);
}

/* The search will go on from where it ended, with columns for the new classes. */
static void keep_residual(struct lesson *lesson) {
    l3a_context *context = lesson->model->context;
    struct search_end *end = &lesson->model->evidence->end;
    struct lesson_residual *residual = &lesson->residual;
    const size_t d = model_dim(lesson->model), all = lesson->classes.count;
    end->kept = true;
    end->known = (residual->sum || residual->rows) && end->known && extend_end(context, end, d, all);
    if (!end->known) {
        search_end_free(context, end);
        return;
    }
    end->columns = all;
    for (size_t k = 0; residual->sum && k < all; k++) {
        for (size_t i = 0; i < d; i++) {
            end->residual[k * d + i] += residual->sum[i * all + k];
        }
    }
    if (residual->rows) {
        end->rows = residual->rows;
        end->errors = residual->errors;
        end->row_count = residual->row_count;
        residual->rows = residual->errors = NULL;
    }
}

/* Moves the sums of the sections to the model's parts. */
static l3a_status keep_parts(struct lesson *lesson) {
    struct evidence *evidence = lesson->model->evidence;
    l3a_status status = L3A_OK;
    const size_t known = evidence->part_count;
    bool phase = lesson->classes.count == lesson->model->classes.count; /* whether the new classes have a part */
    TRY(extend_array(lesson->model->context, &evidence->parts, known, known + lesson->sections.count, sizeof *evidence->parts));
    evidence->summed = evidence->summed && lesson->sign > 0;
    keep_residual(lesson);
    for (size_t s = 0; s < lesson->sections.count; s++) {
        struct section *section = &lesson->sections.items[s];
        if (evidence->summed) {
            TRY(sums_add_scatter(&evidence->ridge.sums, 1, &section->part.sums));
        }
        struct part *mine = &evidence->parts[section->mine];
        if (lesson->sign < 0) {
            model_free_sums(lesson->model, &mine->sums);
            mine->sums = section->part.sums;
            mine->images -= section->part.images;
            section->part.sums.held = NULL;
        } else if (section->mine < known) {
            TRY(part_own(lesson->model, mine));
            TRY(scatter_add(&mine->sums, &section->part.sums));
            mine->images += section->part.images;
        } else {
            struct part *made = &evidence->parts[evidence->part_count++];
            *made = section->part;
            section->part = (struct part){0};
            made->phases = !phase && part_judges(made, lesson->model->classes.count);
            phase = phase || made->phases;
        }
    }
done:
    return status;
}

/* The phase of the new classes. */
static l3a_status add_phase(struct lesson *lesson) {
    l3a_model *model = lesson->model;
    l3a_status status = L3A_OK;
    TRY(extend_array(model->context, &model->phases, model->phase_count, model->phase_count + 1, sizeof *model->phases));
    model->phases[model->phase_count++] = (l3a_phase_info){.first = lesson->model->classes.count,
                                                           .last = lesson->classes.count,
                                                           .images = lesson->taught->row_count,
                                                           .pseudo_labels = lesson->pseudo_labels,
                                                           .eta = gives_pseudo_labels(lesson->model) ? model->options.eta : 0};
done:
    return status;
}

/* After images were taken back: drops parts without images, and classes for which no image was judged. */
static l3a_status drop_unjudged(l3a_model *model) {
    struct evidence *evidence = model->evidence;
    l3a_status status = L3A_OK;
    const size_t classes = model->classes.count;
    const bool apart = keeps_phases(&model->options);
    bool *gone = NULL, any = false;
    TRY(allocate_zeroed(model->context, classes + 1, sizeof *gone, &gone));
    for (size_t i = evidence->part_count; i-- > 0;) {
        if (!evidence->parts[i].images) {
            model_drop_part(model, i);
        }
    }
    for (size_t k = 0; k < classes; k++) {
        bool judged = !apart && model->counts[k];
        for (size_t i = 0; i < evidence->part_count; i++) {
            judged = judged || part_judges(&evidence->parts[i], k);
        }
        gone[k] = !judged;
        any = any || gone[k];
    }
    if (any) {
        TRY(model_drop_classes(model, gone));
    }
done:
    release(model->context, gone);
    return status;
}

/* The lesson becomes part of the model. */
static l3a_status keep_lesson(struct lesson *lesson) {
    l3a_model *model = lesson->model;
    l3a_status status = L3A_OK;
    if (keeps_phases(&model->options)) {
        TRY(keep_parts(lesson));
    } else if (!lesson->recursive) {
        TRY(change_keep_sums(model, false));
        TRY(sums_keep(&model->evidence->ridge.sums, lesson->sign));
    }
    if (lesson->classes.count > lesson->model->classes.count) {
        TRY(add_phase(lesson));
    }
    model_columns_adopt(model, &lesson->next);
    const text_list before = model->classes;
    model->classes = lesson->classes;
    lesson->classes = before;
    if (lesson->sign < 0) {
        TRY(drop_unjudged(model));
    }
    TRY(model_fold(model));
    TRY(model_settle(model, !lesson->recursive));
done:
    return status;
}

/* Parts that the lesson adds to: there is a copy of each until it is complete. */
static size_t copied_parts(const struct lesson *lesson) {
    size_t count = 0;
    for (size_t s = 0; s < lesson->sections.count; s++) {
        count += lesson->sign > 0 && lesson->sections.items[s].mine < lesson->model->evidence->part_count;
    }
    return count;
}

static l3a_status check_lesson(const struct lesson *lesson) {
    const l3a_model *model = lesson->model;
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    FAIL_IF(!lesson->taught->row_count, context, L3A_ERROR_DATA, "give at least one image", "%s: there is no image",
            lesson->taught->features->path);
    FAIL_IF(!lesson->taught->features->labels.held, context, L3A_ERROR_DATA, "say which classes the images show", "%s: no labels",
            lesson->taught->features->path);
    TRY(features_hold_all(lesson->taught->features));
    FAIL_IF(!learns_alone(context) && !divides_rows(context), context, L3A_ERROR_STATE, "teach in one process",
            "images with judged sets of their own cannot be taught by several processes together");
    TRY(check_own_sums(model));
    FAIL_IF(model->options.pseudo == L3A_PSEUDO_DYNAMIC, context, L3A_ERROR_MISMATCH, "use pseudo off or fixed",
            "a dynamic threshold is chosen for a phase, and a lesson is none");
    FAIL_IF(chooses_gamma(&model->options), context, L3A_ERROR_MISMATCH, "give gamma a number, or use gamma-from sums",
            "a gamma that is chosen from the images of the first phase needs a phase");
    FAIL_IF(lesson->sign < 0 && has_pseudo_labels(model, 0), context, L3A_ERROR_MISMATCH,
            "use pseudo off if images may have to be taken back", "images got pseudo-labels, which are not stored");
done:
    return status;
}

l3a_status model_teach(l3a_model *model, const struct taught *taught, double sign, l3a_teach_report *report) {
    l3a_status status = L3A_OK;
    struct lesson lesson = {.model = model, .taught = taught, .sign = sign};
    struct change change = {0};
    const size_t before = model->classes.count;
    TRY(check_state(model, false));
    TRY(model_accepts(model, taught->features));
    TRY(check_lesson(&lesson));
    TRY(lesson_check_labels(&lesson));
    TRY(lesson_place_classes(&lesson));
    FAIL_IF(!lesson.classes.count, model->context, L3A_ERROR_DATA, "take back only images that were taught",
            "the model knows no class, so there is nothing to take back");
    TRY(lesson_make_sections(&lesson));
    TRY(model_check_memory(model->context, &model->options, model->width, lesson.classes.count,
                           model->evidence->part_count + lesson.sections.count + copied_parts(&lesson) + has_unlabelled(model),
                           model));
    lesson.recursive = sign > 0 && chooses_recursion(model->context, &model->options, model_dim(model), taught->row_count,
                                                     model->evidence->ridge.inverse);
    TRY(lesson_prepare_block(&lesson));
    TRY(prepare_columns(&lesson));
    TRY(change_begin(model, &change));
    TRY(lesson_sum(&lesson));
    TRY(model_keep_provenance(model, taught->features));
    TRY(keep_lesson(&lesson));
    *report = (l3a_teach_report){.size = sizeof *report,
                                 .images = taught->row_count,
                                 .new_classes = model->classes.count > before ? model->classes.count - before : 0,
                                 .parts = model->evidence->part_count,
                                 .gamma = model->options.gamma,
                                 .exact = model->options.weights == L3A_WEIGHTS_NONE && !has_pseudo_labels(model, 0) &&
                                          !is_folded(model) && !has_chosen_gamma(model)};
done:
    lesson_free(&lesson);
    return change_end(&change, status);
}

l3a_status model_teach_all(l3a_model *model, l3a_features *features, double sign, l3a_teach_report *report) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    size_t *numbers = NULL;
    const size_t rows = features->rows, columns = features->classes.count;
    TRY(allocate(context, rows > columns ? rows : columns, sizeof *numbers, &numbers));
    for (size_t i = 0; i < rows || i < columns; i++) {
        numbers[i] = i;
    }
    const struct taught all = {features, numbers, numbers, rows, columns};
    TRY(model_teach(model, &all, sign, report));
done:
    release(context, numbers);
    return status;
}

static l3a_status teach_table(l3a_model *model, l3a_features *features, double sign, l3a_teach_report *report) {
    l3a_status status = L3A_OK;
    l3a_teach_report own;
    TRY(CHECK_SIZED(model->context, report));
    TRY(model_teach_all(model, features, sign, &own));
    TRY(WRITE_SIZED(model->context, report, own));
done:
    return status;
}

l3a_status l3a_model_teach(l3a_model *model, l3a_features *features, l3a_teach_report *report) {
    REQUIRE(model, model, features, report);
    return teach_table(model, features, 1, report);
}

l3a_status l3a_model_unteach(l3a_model *model, l3a_features *features, l3a_teach_report *report) {
    REQUIRE(model, model, features, report);
    return teach_table(model, features, -1, report);
}
