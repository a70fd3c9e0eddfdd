/* The course of a phase: it begins, its learning is prepared once all labels were counted, it ends or is abandoned. Its rows are in
 * phase_rows.c. */
#include "learn/phase.h"

#include "base/text_index.h"
#include "learn/model.h"
#include "learn/model_change.h"
#include "learn/model_plan.h"
#include "learn/weights.h"

#include <inttypes.h>
#include <string.h>

void list_columns(struct model_columns *columns, size_t dim, size_t all, struct array *list) {
    list[0] = (struct array){&columns->cross, dim, all * sizeof *columns->cross, true};
    list[1] = (struct array){&columns->coefficients, dim, all * sizeof *columns->coefficients, true};
}

static void phase_free(l3a_model *model) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    text_list_clear(context, &phase->classes);
    model_columns_free(context, &phase->next);
    release(context, phase->rows.shown);
    phase_free_block(model);
    gamma_sample_free(context, &phase->sample);
    memset(phase, 0, sizeof *phase);
}

l3a_status check_state(const l3a_model *model, bool in_phase) {
    if (model->state == MODEL_BROKEN) {
        return fail(model->context, L3A_ERROR_STATE, "load the model again from its file",
                    "the model was left halfway through a phase or another change, so its sums are incomplete");
    }
    if ((model->state != MODEL_READY) != in_phase) {
        return fail(model->context, L3A_ERROR_STATE, NULL, in_phase ? "no phase is in progress" : "a phase is in progress");
    }
    if (in_phase && model->phase.step == PHASE_FAILED) {
        return fail(model->context, L3A_ERROR_STATE, "abandon the phase, and learn it again",
                    "the phase cannot continue after rows that could not be learned");
    }
    return L3A_OK;
}

/* Lists all classes, old and new, and checks the new ones. */
static l3a_status collect_classes(l3a_model *model, const char *const *classes, size_t class_count) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    text_list *all = &model->phase.classes;
    text_index index = {0};
    size_t first = 0;
    TRY(text_list_add_all(context, all, &model->classes));
    for (size_t i = 0; i < class_count; i++) {
        FAIL_IF(!classes[i] || !classes[i][0] || strchr(classes[i], '\n'), context, L3A_ERROR_CLASS,
                "give every class a name without line breaks", "class %zu of the phase has no usable name", i);
        TRY(text_list_add(context, all, classes[i], strlen(classes[i])));
    }
    TRY(text_index_make(context, all->items, all->count, &index));
    const size_t second = text_index_repeated(&index, &first);
    FAIL_IF(second < all->count && first < model->classes.count, context, L3A_ERROR_CLASS,
            "to learn more images of it, learn them in a new model with the same settings, and merge the two",
            "class '%s' has already been learned", all->items[second]);
    FAIL_IF(second < all->count, context, L3A_ERROR_CLASS, "name every class once", "class '%s' is listed twice in the phase",
            all->items[second]);
done:
    text_index_free(context, &index);
    return status;
}

static l3a_status start(l3a_model *model, const char *const *classes, size_t class_count) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const size_t old = model->classes.count;
    TRY(solver_fits(context, &model->options));
    TRY(collect_classes(model, classes, class_count));
    const size_t all = phase->classes.count;
    TRY(model_check_memory(context, &model->options, model->width, all, model->evidence->part_count + 1 + has_unlabelled(model),
                           model));
    TRY(allocate_zeroed(context, all, sizeof *phase->next.counts, &phase->next.counts));
    TRY(allocate_zeroed(context, all, sizeof *phase->rows.shown, &phase->rows.shown));
    TRY(allocate_zeroed(context, all, sizeof *phase->next.class_weight, &phase->next.class_weight));
    TRY(allocate_zeroed(context, all, sizeof *phase->next.label_weight, &phase->next.label_weight));
    if (old) {
        memcpy(phase->next.counts, model->counts, old * sizeof *phase->next.counts);
    }
    phase->info.first = old;
    phase->info.last = all;
    model->state = MODEL_COUNTING;
done:
    if (status != L3A_OK) {
        phase_free(model);
    }
    return status;
}

l3a_status phase_begin(l3a_model *model, const char *const *classes, size_t class_count) {
    l3a_status status = L3A_OK;
    TRY(check_state(model, false));
    FAIL_IF(!class_count, model->context, L3A_ERROR_ARGUMENT, "name the classes of the phase", "the phase has no classes");
    TRY(start(model, classes, class_count));
done:
    return status;
}

l3a_status l3a_phase_begin(l3a_model *model, const char *const *classes, size_t class_count) {
    REQUIRE(model, model, classes);
    return phase_begin(model, classes, class_count);
}

/* How many rows the processes have together, how many images of each class, and which rows are this one's. */
static l3a_status share_counts(l3a_model *model) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const size_t processes = context->options.processes, old = model->classes.count;
    uint64_t *rows = NULL;
    if (learns_alone(context)) {
        phase->rows.all = phase->rows.counted;
    }
    if (phase->rows.all) {
        return L3A_OK;
    }
    TRY(allocate_zeroed(context, processes + 1, sizeof *rows, &rows));
    rows[context->options.process] = phase->rows.counted;
    TRY(sum_counts(context, rows, processes));
    TRY(sum_counts(context, phase->next.counts + old, phase->classes.count - old));
    TRY(sum_counts(context, &phase->survey.images, 1));
    TRY(sum_counts(context, phase->survey.above, THRESHOLDS + 1));
    for (size_t i = 0; i < processes; i++) {
        phase->rows.first += i < context->options.process ? rows[i] : 0;
        phase->rows.all += rows[i];
    }
done:
    release(context, rows);
    return status;
}

static l3a_status choose_threshold(l3a_model *model) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    if (!gives_pseudo_labels(model)) {
        return L3A_OK;
    }
    phase->info.eta = model->options.eta;
    if (model->options.pseudo == L3A_PSEUDO_DYNAMIC) {
        FAIL_IF(phase->survey.images != phase->rows.all, model->context, L3A_ERROR_STATE,
                "call l3a_phase_survey for all rows, between counting and learning",
                "the dynamic threshold needs a survey of %" PRIu64 " rows, but %" PRIu64 " were surveyed", phase->rows.all,
                phase->survey.images);
        const uint64_t total = model->options.total_classes ? model->options.total_classes : phase->classes.count;
        phase->info.eta = survey_threshold(&phase->survey, model->options.tau * (double)model->classes.count / (double)total);
    }
done:
    return status;
}

void warn_of_empty_classes(const l3a_model *model) {
    for (size_t k = model->classes.count; k < model->phase.classes.count; k++) {
        if (!model->phase.next.counts[k]) {
            report_warning(model->context,
                           "class '%s' has no image in its phase and cannot be learned; add images of it, or leave it out",
                           model->phase.classes.items[k]);
        }
    }
}

/* The next C and W start from the model's, with columns of zeros for the new classes. */
static l3a_status prepare_columns(l3a_model *model) {
    struct model_columns *next = &model->phase.next;
    l3a_status status = L3A_OK;
    const size_t all = model->phase.classes.count;
    struct array list[COLUMN_ARRAYS];
    if (!next->cross) {
        list_columns(next, model_dim(model), all, list);
        TRY(arrays_allocate(model->context, list, COLUMN_ARRAYS));
        model_columns_widen(next, all, model);
    }
done:
    return status;
}

l3a_status phase_prepare(l3a_model *model, struct block *rows) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    struct evidence *evidence = model->evidence;
    struct ridge *ridge = &evidence->ridge;
    l3a_status status = L3A_OK;
    const size_t all = phase->classes.count;
    TRY(share_counts(model));
    FAIL_IF(!phase->rows.all, context, L3A_ERROR_DATA, "count the labels of all its images first", "the phase has no images");
    TRY(phase_prepare_block(model, rows));
    TRY(choose_threshold(model));
    TRY(prepare_columns(model));
    if (keeps_phases(&model->options)) {
        TRY(extend_array(context, &evidence->parts, evidence->part_count, evidence->part_count + 1, sizeof *evidence->parts));
    }
    if (chooses_gamma(&model->options) && !phase->sample.values) {
        TRY(gamma_sample_create(context, model->width, all, phase->rows.all, &phase->sample));
    }
    TRY(ridge_use_inverse(ridge, phase->info.recursive));
    if (phase->info.recursive) {
        TRY(sums_copy(&ridge->sums, ADDED)); /* for a phase that is abandoned */
    } else {
        TRY(sums_begin(&ridge->sums, all));
    }
    class_weights(phase->next.counts, all, model->options.weights, model->options.scaling, phase->next.class_weight);
    if (!model->in_group) {
        warn_of_empty_classes(model);
    }
    model->state = MODEL_LEARNING;
done:
    return status;
}

/* Replaces the current model by the next one; nothing here can fail. The evidence has been replaced already. */
static void adopt(l3a_model *model) {
    struct phase *phase = &model->phase;
    struct model_columns *next = &phase->next;
    model->phases[model->phase_count++] = phase->info;
    for (size_t k = 0; k < model->classes.count; k++) {
        next->class_weight[k] = model->class_weight[k];
        next->label_weight[k] += model->label_weight[k];
    }
    const text_list classes = model->classes;
    model->classes = phase->classes;
    phase->classes = classes;
    release(model->context, next->cross);
    next->cross = model->evidence->cross;
    model_columns_adopt(model, next);
    next->cross = NULL;
    phase_free(model);
    model_changed(model);
    model->state = MODEL_READY;
}

/* The phase is that of all processes afterwards, except for sums that another member of a group shares. */
static l3a_status share_phase(l3a_model *model, bool sums) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    uint64_t counts[] = {phase->info.images, phase->info.skipped, phase->info.pseudo_labels};
    if (sums) {
        TRY(sums_share(&model->evidence->ridge.sums, phase->classes.count, phase->next.cross));
    }
    TRY(sum_counts(context, counts, 3));
    phase->info.images = counts[0];
    phase->info.skipped = counts[1];
    phase->info.pseudo_labels = counts[2];
    TRY(sum_numbers(context, phase->next.label_weight, phase->classes.count));
    TRY(sum_numbers(context, phase->sample.values, phase->sample.values ? gamma_sample_numbers(&phase->sample) : 0));
done:
    return status;
}

/* Chooses γ with the rows of the block, if the sample fits there. */
static l3a_status find_gamma(l3a_model *model) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    struct block rows = {.context = model->context, .layer = phase->block.rows->layer, .capacity = phase->sample.capacity};
    const bool fits = phase->block.rows->capacity >= phase->sample.capacity;
    if (!fits) {
        TRY(block_create(&rows));
    }
    TRY(choose_gamma(fits ? phase->block.rows : &rows, &phase->sample, &model->options.gamma));
    gamma_sample_free(model->context, &phase->sample);
    phase->chose_gamma = true;
done:
    block_free(&rows);
    return status;
}

l3a_status phase_keep(l3a_model *model) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    struct evidence *evidence = model->evidence;
    l3a_status status = L3A_OK;
    if (phase->step == PHASE_KEPT) {
        return L3A_OK;
    }
    if (keeps_phases(&model->options)) {
        struct part *part = &evidence->parts[evidence->part_count];
        TRY(part_create(context, model_dim(model), options_real(&model->options), phase->info.first, phase->info.last, part));
        part->images = phase->info.images;
        status = scatter_add_sums(&part->sums, &evidence->ridge.sums, 1);
        if (status != L3A_OK) {
            part_free(part);
            goto done;
        }
        evidence->part_count++;
    } else if (!phase->info.recursive) {
        TRY(sums_keep(&evidence->ridge.sums, 1));
    }
    evidence_changed(evidence);
    release(context, evidence->cross);
    evidence->cross = phase->next.cross;
    phase->next.cross = NULL;
    phase->step = PHASE_KEPT;
    TRY(model_fold(model));
done:
    return status;
}

/* docs/beyond.md explains why. */
static void warn_of_few_images(const l3a_model *model) {
    const struct phase *phase = &model->phase;
    const uint64_t *counts = phase->next.counts, images = phase->info.images, limit = model->options.privacy_limit;
    size_t few = 0, fewest = phase->info.first;
    for (size_t k = phase->info.first; k < phase->info.last; k++) {
        few += counts[k] && counts[k] < limit;
        fewest = counts[k] && (counts[k] < counts[fewest] || !counts[fewest]) ? k : fewest;
    }
    if (images < limit) {
        report_warning(model->context,
                       "the phase has %" PRIu64
                       " image%s: someone with the model%s could reconstruct their features, or the space they span; "
                       "learn more images together",
                       images, images == 1 ? "" : "s", keeps_phases(&model->options) ? "" : "s from before and after it");
    } else if (few) {
        report_warning(model->context,
                       "%zu of the classes %s fewer than %" PRIu64 " images ('%s' has %" PRIu64
                       "): the model holds the sum of their features; learn more images together",
                       few, few == 1 ? "has" : "have", limit, phase->classes.items[fewest], counts[fewest]);
    }
}

/* Checks that what was learned is what was counted. */
static l3a_status check_complete(const l3a_model *model) {
    l3a_context *context = model->context;
    const struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    FAIL_IF(!phase->rows.counted && learns_alone(context), context, L3A_ERROR_DATA, "give the phase images that show its classes",
            "the phase has no images");
    FAIL_IF(phase->rows.learned != phase->rows.counted, context, L3A_ERROR_STATE, "learn every row that was counted",
            "%" PRIu64 " rows were counted, but %" PRIu64 " were learned", phase->rows.counted, phase->rows.learned);
    for (size_t k = model->classes.count; learns_alone(context) && k < phase->classes.count; k++) {
        FAIL_IF(phase->rows.shown[k] != phase->next.counts[k], context, L3A_ERROR_STATE,
                "give the same labels when counting and when learning",
                "class '%s': %" PRIu64 " images were counted, but %" PRIu64 " were learned", phase->classes.items[k],
                phase->next.counts[k], phase->rows.shown[k]);
    }
done:
    return status;
}

l3a_status phase_finish(l3a_model *model) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const double start = clock_seconds();
    TRY(extend_array(context, &model->phases, model->phase_count, model->phase_count + 1, sizeof *model->phases));
    if (!phase->info.recursive) {
        struct model_columns next = phase->next;
        next.cross = model->evidence->cross;
        TRY(model_solve(model, phase->classes.count, &next));
        report_timing(context, "solve", clock_seconds() - start);
    } else {
        TRY(ridge_check_update(&model->evidence->ridge, largest_square(model, &phase->scale), phase->classes.count,
                               model->evidence->cross, phase->next.coefficients));
    }
    if (!model->in_group) {
        warn_of_few_images(model);
    }
    if (phase->info.skipped && !phase->source.table && !model->in_group) {
        report_warning(context, "%" PRIu64 " of %" PRIu64 " images have no label and were skipped (weight 0)", phase->info.skipped,
                       phase->rows.all);
    }
    if (phase->chose_gamma) {
        TRY(model_set_record(model, "gamma", "auto"));
    }
    adopt(model);
done:
    return status;
}

l3a_status phase_complete(l3a_model *model, bool shares) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    if (!phase->info.recursive) {
        TRY(share_phase(model, !shares));
        report_share(context);
    }
    FAIL_IF(!phase->info.images, context, L3A_ERROR_DATA, "give the phase images that show its classes",
            "none of the %" PRIu64 " images of the phase has a label", phase->rows.all);
    if (phase->sample.values) {
        TRY(find_gamma(model));
    }
    phase_free_block(model);
    phase->step = PHASE_COMPLETE;
done:
    return status;
}

l3a_status phase_end(l3a_model *model) {
    l3a_context *context = model->context;
    const struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    TRY(check_state(model, true));
    TRY(check_complete(model));
    if (model->state == MODEL_COUNTING) {
        TRY(phase_prepare(model, NULL)); /* a process without rows */
    }
    TRY(phase_work(model, phase->block.features));
    if (phase->step == PHASE_OPEN) {
        report_timing(context, "expand", phase->block.expand_seconds);
        TRY(phase->info.recursive ? L3A_OK : report_progress(context, "solve", 0, 1));
        TRY(phase_complete(model, false));
    }
    TRY(phase_keep(model));
    TRY(phase_finish(model));
done:
    return status;
}

l3a_status l3a_phase_end(l3a_model *model) {
    REQUIRE(model, model);
    return phase_end(model);
}

void phase_abandon(l3a_model *model) {
    const struct phase *phase = &model->phase;
    if (model->state != MODEL_COUNTING && model->state != MODEL_LEARNING) {
        return;
    }
    const bool restored =
        !phase->info.recursive || model->state == MODEL_COUNTING || sums_copy(&model->evidence->ridge.sums, KEPT) == L3A_OK;
    model->state = phase->step == PHASE_KEPT || !restored ? MODEL_BROKEN : MODEL_READY;
    model->options.gamma = phase->chose_gamma ? 0 : model->options.gamma;
    phase_free(model);
}

void l3a_phase_abandon(l3a_model *model) {
    if (model) {
        phase_abandon(model);
    }
}
