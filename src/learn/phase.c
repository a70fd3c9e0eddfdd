/* One phase, step by step (SPEC §3): pseudo-labels, counts, weights, sums, solution.
 *
 * Rows are collected until a block is full and then processed together, so the matrix products are large, and the result does not
 * depend on how the caller divides the rows. */
#include "learn/model.h"

#include "base/text_index.h"
#include "base/threads.h"
#include "data/features.h"
#include "learn/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static size_t old_classes(const l3a_model *model) {
    return model->classes.count;
}

static bool uses_pseudo_labels(const l3a_model *model) {
    return model->options.pseudo != L3A_PSEUDO_OFF && old_classes(model) > 0;
}

static void phase_free(l3a_model *model) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    text_list_clear(context, &phase->classes);
    void *const owned[] = {phase->counts,       phase->learned,       phase->class_weight, phase->cross,       phase->weights,
                           phase->features,     phase->labels,        phase->wide,         phase->expanded,    phase->scores,
                           phase->targets,      phase->panel,         phase->row_scale,    phase->cross_block, phase->old_weights,
                           phase->label_weight, phase->part.sums.rows};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        release(context, owned[i]);
    }
    recursion_free(context, &phase->recursion);
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
    if (in_phase && model->phase.failed) {
        return fail(model->context, L3A_ERROR_STATE, "abandon the phase, and load the model again from its file",
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
    for (size_t i = 0; i < old_classes(model); i++) {
        TRY(text_list_add(context, all, model->classes.items[i], strlen(model->classes.items[i])));
    }
    for (size_t i = 0; i < class_count; i++) {
        FAIL_IF(!classes[i] || !classes[i][0] || strchr(classes[i], '\n'), context, L3A_ERROR_CLASS,
                "give every class a name without line breaks", "class %zu of the phase has no usable name", i);
        TRY(text_list_add(context, all, classes[i], strlen(classes[i])));
    }
    TRY(text_index_make(context, all->items, all->count, &index));
    const size_t second = text_index_repeated(&index, &first);
    FAIL_IF(second < all->count && first < old_classes(model), context, L3A_ERROR_CLASS,
            "to learn more images of it, learn them in a new model with the same settings, and merge the two",
            "class '%s' has already been learned", all->items[second]);
    FAIL_IF(second < all->count, context, L3A_ERROR_CLASS, "name every class once", "class '%s' is listed twice in the phase",
            all->items[second]);
done:
    text_index_free(context, &index);
    return status;
}

/* Copies a [d x old] matrix into a new [d x all] one, whose other columns are zero. */
static l3a_status widen_columns(const l3a_model *model, const double *from, double **to) {
    const size_t d = model->analytic.dim, before = old_classes(model), after = model->phase.classes.count;
    const l3a_status status = allocate_zeroed(model->context, d, after * sizeof **to, to);
    for (size_t i = 0; status == L3A_OK && before && i < d; i++) {
        memcpy(*to + i * after, from + i * before, before * sizeof **to);
    }
    return status;
}

l3a_status l3a_phase_begin(l3a_model *model, const char *const *classes, size_t class_count) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    TRY(check_state(model, false));
    FAIL_IF(!classes || !class_count, context, L3A_ERROR_ARGUMENT, "name the classes of the phase", "the phase has no classes");
    model->state = MODEL_COUNTING;
    status = collect_classes(model, classes, class_count);
    if (status == L3A_OK) {
        status = model_check_memory(context, &model->options, model->width, phase->classes.count, model->part_count + 1,
                                    model_memory(model));
    }
    const size_t all = phase->classes.count;
    if (status == L3A_OK) {
        status = allocate_zeroed(context, all, sizeof *phase->counts, &phase->counts);
    }
    if (status == L3A_OK) {
        status = allocate_zeroed(context, all, sizeof *phase->learned, &phase->learned);
    }
    if (status == L3A_OK) {
        status = allocate_zeroed(context, all, sizeof *phase->class_weight, &phase->class_weight);
    }
    if (status == L3A_OK) {
        status = allocate_zeroed(context, all, sizeof *phase->label_weight, &phase->label_weight);
    }
    if (status != L3A_OK) {
        phase_free(model);
        model->state = MODEL_READY;
        goto done;
    }
    if (old_classes(model)) {
        memcpy(phase->counts, model->counts, old_classes(model) * sizeof *phase->counts);
        memcpy(phase->label_weight, model->label_weight, old_classes(model) * sizeof *phase->label_weight);
    }
    phase->info.first = old_classes(model);
    phase->info.last = all;
done:
    return status;
}

static l3a_status check_labels(const l3a_model *model, const int8_t *labels, size_t rows) {
    const size_t classes = model->phase.classes.count - old_classes(model);
    for (size_t i = 0; i < rows * classes; i++) {
        if (labels[i] < -1 || labels[i] > 1) {
            return fail(model->context, L3A_ERROR_DATA, "use labels 1 (present), 0 (absent) or -1 (unknown)",
                        "row %zu, class '%s': label %d is not allowed", i / classes,
                        model->phase.classes.items[old_classes(model) + i % classes], labels[i]);
        }
    }
    return L3A_OK;
}

static void add_counts(const l3a_model *model, const int8_t *labels, size_t rows, uint64_t *counts) {
    const size_t first = old_classes(model), classes = model->phase.classes.count - first;
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < classes; j++) {
            counts[first + j] += labels[i * classes + j] == 1;
        }
    }
}

l3a_status l3a_phase_count(l3a_model *model, const int8_t *labels, size_t rows) {
    l3a_status status = L3A_OK;
    TRY(check_state(model, true));
    FAIL_IF(model->state != MODEL_COUNTING, model->context, L3A_ERROR_STATE, NULL,
            "all labels must be counted before the first row is learned");
    TRY(check_labels(model, labels, rows));
    add_counts(model, labels, rows, model->phase.counts);
    model->phase.rows += rows;
done:
    return status;
}

static size_t block_rows(const l3a_model *model) {
    return model->phase.rows < model->options.block ? (size_t)model->phase.rows : (size_t)model->options.block;
}

/* Prepares what expanding and scoring need: the layer, a block of rows, the old weights. */
static l3a_status prepare_block(l3a_model *model) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const real type = model_real(model);
    const size_t size = real_size(type), all = phase->classes.count;
    if (phase->block) {
        return L3A_OK;
    }
    FAIL_IF(!phase->rows, context, L3A_ERROR_DATA, "count the labels of all its images first", "the phase has no images");
    const size_t block = block_rows(model);
    TRY(model_buffer(model));
    if (!phase->features) {
        TRY(allocate(context, block, model->width * sizeof *phase->features, &phase->features));
    }
    if (!phase->labels) {
        TRY(allocate_zeroed(context, block, all, &phase->labels));
    }
    if (type == REAL_DOUBLE && !phase->wide) {
        TRY(allocate(context, block, model->width * sizeof *phase->wide, &phase->wide));
    }
    if (!phase->expanded) {
        TRY(allocate(context, block, model->analytic.dim * size, &phase->expanded));
    }
    if (uses_pseudo_labels(model) && !phase->scores) {
        TRY(allocate(context, block, old_classes(model) * size, &phase->scores));
    }
    if (uses_pseudo_labels(model) && !phase->old_weights) {
        TRY(model_working_weights(model->context, model, &phase->old_weights));
    }
    phase->block = block;
done:
    return status;
}

static void score_old_classes(const l3a_model *model, size_t rows) {
    const struct phase *phase = &model->phase;
    const size_t d = model->analytic.dim, old = old_classes(model);
    model->context->matrix->multiply(model->context->threads, model_real(model), false, false, rows, old, d, 1, phase->expanded, d,
                                     phase->old_weights, old, 0, phase->scores, old);
}

static l3a_status check_features(const l3a_model *model, const float *features, size_t rows) {
    const size_t bad = find_non_finite(features, rows * model->width);
    return bad == rows * model->width ? L3A_OK
                                      : fail(model->context, L3A_ERROR_DATA, "omit the row, or compute its features again",
                                             "row %zu, column %zu: the feature is %s", bad / model->width, bad % model->width,
                                             isnan(features[bad]) ? "not a number" : "infinite");
}

static void measure_scale(const l3a_model *model, struct feature_scale *scale, const float *features, size_t rows) {
    const size_t k = model->width;
    for (size_t i = 0; i < rows; i++, scale->rows++) {
        const float *row = features + i * k;
        double sum = 0;
        size_t column = 0;
        for (size_t j = 0; j < k; j++) {
            sum += (double)row[j] * (double)row[j];
            column = fabsf(row[j]) > fabsf(row[column]) ? j : column;
        }
        scale->sum += sum;
        if (sum > scale->largest) {
            scale->largest = sum;
            scale->row = scale->rows;
            scale->column = column;
            scale->value = row[column];
        }
    }
}

/* If one row is far larger than all others, and γ is below the rounding error that it causes, nothing of the others is left in the
 * sums. Its ‖x‖² is about d ‖z‖²/6k, since half of the numbers pass the ReLU and the entries of B have variance 1/3k. */
static l3a_status check_scale(const l3a_model *model, const struct feature_scale *scale) {
    const struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    char where[64] = "";
    const double k = (double)model->width, others = fmax(0, scale->sum - scale->largest) / (double)(scale->rows - 1);
    const double share = (double)model->options.dim / (6 * k) + (model->analytic.dim > model->options.dim ? 1 : 0);
    if (scale->rows < 2 || scale->largest <= 1e6 * others || analytic_is_safe(&model->analytic, share * scale->largest)) {
        return L3A_OK;
    }
    snprintf(where, sizeof where, "row %" PRIu64 "%s", phase->table ? (uint64_t)phase->table_rows[scale->row] : scale->row,
             phase->table ? "" : " of the phase");
    FAIL_IF(true, model->context, L3A_ERROR_DATA, "omit the row, or compute its features again",
            "%s%s%s, column %zu: the feature is %.3g, but those of other rows are about %.1g, and nothing would be left of them in "
            "the sums",
            phase->table ? phase->table->path : "", phase->table ? ": " : "", where, scale->column, (double)scale->value,
            sqrt(others / k));
done:
    return status;
}

l3a_status l3a_phase_survey(l3a_model *model, const float *features, size_t rows) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    TRY(check_state(model, true));
    FAIL_IF(model->state != MODEL_COUNTING, model->context, L3A_ERROR_STATE, NULL,
            "the survey must come before the first row is learned");
    TRY(check_features(model, features, rows));
    if (!uses_pseudo_labels(model)) {
        return L3A_OK;
    }
    TRY(prepare_block(model));
    for (size_t first = 0; first < rows; first += phase->block) {
        const size_t n = rows - first < phase->block ? rows - first : phase->block;
        buffer_expand(&model->buffer, features + first * model->width, n, phase->wide, phase->expanded);
        score_old_classes(model, n);
        survey_add(&phase->survey, model_real(model), phase->scores, n, old_classes(model));
    }
done:
    return status;
}

static l3a_status choose_threshold(l3a_model *model) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    if (!uses_pseudo_labels(model)) {
        return L3A_OK;
    }
    phase->info.eta = model->options.eta;
    if (model->options.pseudo == L3A_PSEUDO_DYNAMIC) {
        FAIL_IF(phase->survey.images != phase->rows, model->context, L3A_ERROR_STATE,
                "call l3a_phase_survey for all rows, between counting and learning",
                "the dynamic threshold needs a survey of %" PRIu64 " rows, but %" PRIu64 " were surveyed", phase->rows,
                phase->survey.images);
        const uint64_t total = model->options.total_classes ? model->options.total_classes : phase->classes.count;
        phase->info.eta = survey_threshold(&phase->survey, model->options.tau * (double)old_classes(model) / (double)total);
    }
done:
    return status;
}

static void warn_of_empty_classes(const l3a_model *model) {
    for (size_t k = old_classes(model); k < model->phase.classes.count; k++) {
        if (!model->phase.counts[k]) {
            report_warning(model->context,
                           "class '%s' has no image in its phase and cannot be learned; add images of it, or leave it out",
                           model->phase.classes.items[k]);
        }
    }
}

/* If phases are kept apart, the square collects the sums of this one only. */
static l3a_status prepare_keeping(l3a_model *model) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const size_t d = model->analytic.dim;
    if (keeps_phases(&model->options) && !phase->apart) {
        struct part *parts = NULL;
        TRY(allocate(context, model->part_count + 1, sizeof *parts, &parts));
        if (model->part_count) {
            memcpy(parts, model->parts, model->part_count * sizeof *parts);
        }
        release(context, model->parts);
        model->parts = parts;
        analytic_clear(&model->analytic);
        phase->apart = true;
    }
    if (model->options.gamma == 0 && !phase->sample.rows) {
        TRY(gamma_sample_create(context, model_real(model), d, phase->classes.count, (size_t)phase->rows, &phase->sample));
    }
done:
    return status;
}

/* Everything that may fail for lack of memory happens before the first row. */
static l3a_status prepare_learning(l3a_model *model) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const real type = model_real(model);
    const size_t d = model->analytic.dim, all = phase->classes.count;
    TRY(prepare_block(model));
    TRY(choose_threshold(model));
    phase->recursive = chooses_recursion(&model->options, model->analytic.dim, phase->rows, model->analytic.inverse);
    if (!phase->cross) {
        TRY(widen_columns(model, model->cross, &phase->cross));
    }
    if (!phase->weights) {
        TRY(widen_columns(model, model->weights, &phase->weights));
    }
    if (!phase->targets) {
        TRY(allocate(context, phase->block, all * real_size(type), &phase->targets));
    }
    if (!phase->row_scale) {
        TRY(allocate(context, phase->block, sizeof *phase->row_scale, &phase->row_scale));
    }
    if (type == REAL_SINGLE && !phase->cross_block) {
        TRY(allocate(context, d, all * sizeof *phase->cross_block, &phase->cross_block));
    }
    if (phase->recursive && !phase->recursion.error) {
        recursion_free(context, &phase->recursion);
        TRY(recursion_create(context, d, all, phase->block, &phase->recursion));
    }
    if (!phase->recursive && type == REAL_SINGLE && !phase->panel) {
        TRY(allocate(context, d < ANALYTIC_PANEL ? d : ANALYTIC_PANEL, d * sizeof *phase->panel, &phase->panel));
    }
    TRY(prepare_keeping(model));
    TRY(analytic_use_inverse(&model->analytic, phase->recursive));
    class_weights(phase->counts, all, model->options.weights, model->options.scaling, phase->class_weight);
    warn_of_empty_classes(model);
    phase->info.recursive = phase->recursive;
    model->state = MODEL_LEARNING;
done:
    return status;
}

/* Computes ω, its root, and Ỹ = √ω Ŷ; for the recursion, which scales rows itself, Ŷ. */
static void weigh_rows(l3a_model *model, size_t rows) {
    struct phase *phase = &model->phase;
    const size_t all = phase->classes.count;
    const bool single = model_real(model) == REAL_SINGLE;
    for (size_t i = 0; i < rows; i++) {
        const int8_t *labels = phase->labels + i * all;
        const double weight = sample_weight(labels, phase->class_weight, all), root = sqrt(weight);
        phase->row_scale[i] = root;
        phase->info.skipped += weight == 0;
        phase->info.images += weight > 0;
        for (size_t k = 0; k < all; k++) {
            const double target = labels[k] == 1 ? (phase->recursive ? 1 : root) : 0;
            phase->label_weight[k] += labels[k] == 1 ? weight : 0;
            if (single) {
                ((float *)phase->targets)[i * all + k] = (float)target;
            } else {
                ((double *)phase->targets)[i * all + k] = target;
            }
        }
    }
}

/* X̃ = √ω X */
static void scale_rows(void *argument, size_t first, size_t last) {
    const l3a_model *model = argument;
    const struct phase *phase = &model->phase;
    const size_t d = model->analytic.dim;
    for (size_t i = first; i < last; i++) {
        const double scale = phase->row_scale[i];
        if (model_real(model) == REAL_SINGLE) {
            float *x = (float *)phase->expanded + i * d;
            for (size_t j = 0; j < d; j++) {
                x[j] *= (float)scale;
            }
        } else {
            double *x = (double *)phase->expanded + i * d;
            for (size_t j = 0; j < d; j++) {
                x[j] *= scale;
            }
        }
    }
}

/* C += X̃ᵀỸ */
static void add_cross(const l3a_model *model, size_t rows) {
    const struct phase *phase = &model->phase;
    const l3a_context *context = model->context;
    const size_t d = model->analytic.dim, all = phase->classes.count;
    const bool single = model_real(model) == REAL_SINGLE;
    context->matrix->multiply(context->threads, model_real(model), true, false, d, all, rows, 1, phase->expanded, d, phase->targets,
                              all, single ? 0 : 1, single ? (void *)phase->cross_block : phase->cross, all);
    for (size_t i = 0; single && i < d * all; i++) {
        phase->cross[i] += (double)phase->cross_block[i];
    }
}

static void sample_rows(l3a_model *model, uint64_t done, size_t rows) {
    struct phase *phase = &model->phase;
    const size_t size = real_size(model_real(model)), d = model->analytic.dim, all = phase->classes.count;
    for (size_t i = 0; i < rows; i++) {
        if (gamma_sample_wants(&phase->sample, done + i, phase->rows)) {
            gamma_sample_add(&phase->sample, (const char *)phase->expanded + i * d * size,
                             (const char *)phase->targets + i * all * size);
        }
    }
}

static l3a_status work_on_block(l3a_model *model) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const size_t rows = phase->staged, all = phase->classes.count;
    if (!rows) {
        return L3A_OK;
    }
    phase->dirty = true;
    const double start = clock_seconds();
    buffer_expand(&model->buffer, phase->features, rows, phase->wide, phase->expanded);
    phase->expand_seconds += clock_seconds() - start;
    if (uses_pseudo_labels(model)) {
        score_old_classes(model, rows);
        phase->info.pseudo_labels +=
            pseudo_label(model_real(model), phase->scores, rows, old_classes(model), phase->info.eta, phase->labels, all);
        if (model->witness.see) {
            model->witness.see(model->witness.user, phase->info.images + phase->info.skipped, rows, phase->labels, all);
        }
    }
    const uint64_t done = phase->info.images + phase->info.skipped;
    weigh_rows(model, rows);
    if (phase->recursive) {
        TRY(recursion_add(&model->analytic, &phase->recursion, model_real(model), phase->expanded, phase->targets, phase->row_scale,
                          rows, all, phase->cross, phase->weights));
    } else {
        parallel_for(model->context->threads, rows, 16, scale_rows, model);
        sample_rows(model, done, rows);
        add_cross(model, rows);
        analytic_add(&model->analytic, model_real(model), phase->expanded, rows, phase->panel);
    }
done:
    phase->staged = 0;
    phase->failed = status != L3A_OK;
    return status;
}

l3a_status l3a_phase_learn(l3a_model *model, const float *features, const int8_t *labels, size_t rows) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const size_t k = model->width, old = old_classes(model), all = phase->classes.count, own = all - old;
    TRY(check_state(model, true));
    TRY(check_labels(model, labels, rows));
    TRY(check_features(model, features, rows));
    struct feature_scale scale = phase->scale; /* which a refused block leaves as it was */
    measure_scale(model, &scale, features, rows);
    TRY(check_scale(model, &scale));
    if (model->state == MODEL_COUNTING) {
        TRY(prepare_learning(model));
    }
    FAIL_IF(rows > phase->rows - phase->rows_learned, model->context, L3A_ERROR_STATE,
            "count the labels of every row once, and learn every row once",
            "%" PRIu64 " rows were counted, but more are being learned", phase->rows);
    phase->scale = scale;
    phase->rows_learned += rows;
    add_counts(model, labels, rows, phase->learned);
    for (size_t i = 0; i < rows; i++) {
        memcpy(phase->features + phase->staged * k, features + i * k, k * sizeof *features);
        memset(phase->labels + phase->staged * all, 0, old);
        memcpy(phase->labels + phase->staged * all + old, labels + i * own, own);
        if (++phase->staged == phase->block) {
            TRY(work_on_block(model));
        }
    }
done:
    return status;
}

/* Replaces the current model by the next one; nothing here can fail. */
static void adopt(l3a_model *model, l3a_phase_info *phases) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    if (model->phase_count) {
        memcpy(phases, model->phases, model->phase_count * sizeof *phases);
    }
    phases[model->phase_count++] = phase->info;
    release(context, model->phases);
    model->phases = phases;
    const text_list classes = model->classes;
    uint64_t *const counts = model->counts;
    double *const cross = model->cross, *const weights = model->weights, *const label_weight = model->label_weight;
    double *const class_weight = model->class_weight;
    if (classes.count) {
        memcpy(phase->class_weight, class_weight, classes.count * sizeof *class_weight);
    }
    model->classes = phase->classes;
    model->class_weight = phase->class_weight;
    phase->class_weight = class_weight;
    model->counts = phase->counts;
    model->label_weight = phase->label_weight;
    model->cross = phase->cross;
    model->weights = phase->weights;
    phase->classes = classes;
    phase->counts = counts;
    phase->label_weight = label_weight;
    phase->cross = cross;
    phase->weights = weights;
    phase_free(model);
    model->state = MODEL_READY;
}

/* Stores what the square has collected as a part. Its memory is allocated only now, when the sample for gamma is gone. */
static l3a_status keep_part(l3a_model *model) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    if (phase->apart) {
        TRY(packed_create(model->context, model->analytic.dim, model_real(model), &phase->part.sums));
        analytic_pack(&model->analytic, &phase->part.sums);
        phase->part.first = phase->info.first;
        phase->part.last = phase->info.last;
        phase->part.phases = 1;
        model->parts[model->part_count++] = phase->part;
        phase->part.sums.rows = NULL;
        phase->apart = false;
        model_fold(model);
    }
done:
    return status;
}

/* docs/beyond.md explains why. */
static void warn_of_few_images(const l3a_model *model) {
    const struct phase *phase = &model->phase;
    const uint64_t images = phase->info.images, limit = model->options.privacy_limit;
    size_t few = 0, fewest = phase->info.first;
    for (size_t k = phase->info.first; k < phase->info.last; k++) {
        few += phase->counts[k] && phase->counts[k] < limit;
        fewest = phase->counts[k] && (phase->counts[k] < phase->counts[fewest] || !phase->counts[fewest]) ? k : fewest;
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
                       few, few == 1 ? "has" : "have", limit, phase->classes.items[fewest], phase->counts[fewest]);
    }
}

l3a_status l3a_phase_end(l3a_model *model) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    l3a_phase_info *phases = NULL;
    TRY(check_state(model, true));
    FAIL_IF(!phase->rows, context, L3A_ERROR_DATA, "give the phase images that show its classes", "the phase has no images");
    FAIL_IF(phase->rows_learned != phase->rows, context, L3A_ERROR_STATE, "learn every row that was counted",
            "%" PRIu64 " rows were counted, but %" PRIu64 " were learned", phase->rows, phase->rows_learned);
    for (size_t k = old_classes(model); k < phase->classes.count; k++) {
        FAIL_IF(phase->learned[k] != phase->counts[k], context, L3A_ERROR_STATE,
                "give the same labels when counting and when learning",
                "class '%s': %" PRIu64 " images were counted, but %" PRIu64 " were learned", phase->classes.items[k],
                phase->counts[k], phase->learned[k]);
    }
    TRY(allocate(context, model->phase_count + 1, sizeof *phases, &phases));
    TRY(work_on_block(model));
    FAIL_IF(!phase->info.images, context, L3A_ERROR_DATA, "give the phase images that show its classes",
            "none of the %" PRIu64 " images of the phase has a label", phase->rows);
    report_timing(context, "expand", phase->expand_seconds);
    const double start = clock_seconds();
    if (!phase->recursive) {
        TRY(report_progress(context, "solve", 0, 1));
    }
    if (model->options.gamma == 0) {
        TRY(choose_gamma(context, &phase->sample, &model->analytic.gamma));
        gamma_sample_free(context, &phase->sample);
        model->options.gamma = model->analytic.gamma;
        TRY(l3a_model_set_record(model, "gamma", "auto"));
    }
    TRY(keep_part(model));
    if (!phase->recursive) {
        TRY(model_solve(model, phase->classes.count, phase->cross, phase->weights));
        report_timing(context, "solve", clock_seconds() - start);
    } else {
        TRY(recursion_check(&model->analytic, phase->classes.count, phase->cross, phase->weights));
    }
    warn_of_few_images(model);
    if (phase->info.skipped && !phase->table) {
        report_warning(context, "%" PRIu64 " of %" PRIu64 " images have no label and were skipped (weight 0)", phase->info.skipped,
                       phase->rows);
    }
    adopt(model, phases);
    phases = NULL;
done:
    release(context, phases);
    return status;
}

void l3a_phase_abandon(l3a_model *model) {
    if (model->state == MODEL_COUNTING || model->state == MODEL_LEARNING) {
        const bool dirty = model->phase.dirty;
        phase_free(model);
        model->state = dirty ? MODEL_BROKEN : MODEL_READY;
    }
}
