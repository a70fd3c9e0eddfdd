/* What was learned, taken back: columns of classes, the sums of a phase, or the part that images had in them.
 *
 *   a phase s kept apart: Σ A loses A_s, and its classes their columns;
 *   images of a phase: A_s ← A_s - Σ ω x xᵀ, C ← C - Σ ω x yᵀ, f ← f - Σ y, with the ω they were learned with, which follow from f
 * as long as no label was guessed.
 *
 * The result is the model that never learned them where the other images' parts do not depend on them: without pseudo-labels given
 * later, and with ω = 1; a phase also where no phase follows it, or with weights `literal`, where v_k needs f_k alone. */
#include "learn/merge.h"
#include "learn/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 1024 };

l3a_status model_columns_create(l3a_context *context, size_t dim, size_t classes, struct model_columns *columns) {
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, classes, sizeof *columns->counts, &columns->counts));
    TRY(allocate_zeroed(context, classes, sizeof *columns->label_weight, &columns->label_weight));
    TRY(allocate_zeroed(context, dim, classes * sizeof *columns->cross, &columns->cross));
    TRY(allocate_zeroed(context, dim, classes * sizeof *columns->weights, &columns->weights));
done:
    return status;
}

void model_columns_copy(const struct model_columns *columns, size_t dim, size_t classes, size_t to, const l3a_model *model,
                        size_t from) {
    const size_t old = model->classes.count;
    columns->counts[to] = model->counts[from];
    columns->label_weight[to] = model->label_weight[from];
    for (size_t i = 0; i < dim; i++) {
        columns->cross[i * classes + to] = model->cross[i * old + from];
        columns->weights[i * classes + to] = model->weights[i * old + from];
    }
}

void model_columns_adopt(l3a_model *model, struct model_columns *columns) {
    const struct model_columns before = {model->counts, model->label_weight, model->cross, model->weights};
    model->counts = columns->counts;
    model->label_weight = columns->label_weight;
    model->cross = columns->cross;
    model->weights = columns->weights;
    *columns = before;
}

void model_columns_free(l3a_context *context, struct model_columns *columns) {
    release(context, columns->counts);
    release(context, columns->label_weight);
    release(context, columns->cross);
    release(context, columns->weights);
    *columns = (struct model_columns){0};
}

static l3a_status check_ready(const l3a_model *model) {
    l3a_status status = L3A_OK;
    FAIL_IF(model->state != MODEL_READY, model->context, L3A_ERROR_STATE, "end the phase first", "a phase is going on");
done:
    return status;
}

/* How many of the classes [0, end) go. */
static size_t gone_before(const bool *gone, size_t end) {
    size_t count = 0;
    for (size_t k = 0; k < end; k++) {
        count += gone[k];
    }
    return count;
}

/* The part that holds a phase's sums and nothing else, or the number of parts. */
static size_t part_of(const l3a_model *model, const l3a_phase_info *phase) {
    size_t i = 0;
    while (i < model->part_count && !(model->parts[i].phases == 1 && model->parts[i].first == phase->first)) {
        i++;
    }
    return i;
}

/* Without the columns of the classes that go, and without the phases and parts of which nothing is left. */
static l3a_status drop_columns(l3a_model *model, const bool *gone) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t old = model->classes.count, all = old - gone_before(gone, old), d = model->analytic.dim;
    struct model_columns made = {0};
    text_list classes = {0};
    size_t to = 0, phases = 0;
    TRY(model_columns_create(context, d, all, &made));
    for (size_t k = 0; k < old; k++) {
        if (!gone[k]) {
            TRY(text_list_add(context, &classes, model->classes.items[k], strlen(model->classes.items[k])));
            model_columns_copy(&made, d, all, to++, model, k);
        }
    }
    for (size_t p = 0; p < model->phase_count; p++) {
        l3a_phase_info phase = model->phases[p];
        phase.first -= gone_before(gone, phase.first);
        phase.last -= gone_before(gone, phase.last);
        if (phase.first < phase.last) {
            model->phases[phases++] = phase;
        }
    }
    model->phase_count = phases;
    for (size_t i = 0; i < model->part_count; i++) {
        model->parts[i].first -= gone_before(gone, model->parts[i].first);
        model->parts[i].last -= gone_before(gone, model->parts[i].last);
    }
    model_columns_adopt(model, &made);
    const text_list before = model->classes;
    model->classes = classes;
    classes = before;
done:
    model_columns_free(context, &made);
    text_list_clear(context, &classes);
    return status;
}

static void drop_part(l3a_model *model, size_t index) {
    release(model->context, model->parts[index].sums.rows);
    model->part_count--;
    memmove(model->parts + index, model->parts + index + 1, (model->part_count - index) * sizeof *model->parts);
}

/* Whether later phases would be the same without this one. */
static bool is_apart(const l3a_model *model, size_t phase) {
    const l3a_options *options = &model->options;
    return phase + 1 == model->phase_count ||
           (options->pseudo == L3A_PSEUDO_OFF && (options->weights == L3A_WEIGHTS_NONE || options->scaling == L3A_SCALING_LITERAL));
}

/* A phase goes with its sums when all its classes go and its sums are there by themselves; else only columns go. */
static l3a_status forget_marked(l3a_model *model, const bool *gone, int *exact) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    bool solve = false, clean = true;
    FAIL_IF(gone_before(gone, model->classes.count) == model->classes.count, context, L3A_ERROR_CLASS,
            "to forget everything, delete the file", "no class would be left");
    for (size_t p = 0; p < model->phase_count; p++) {
        const l3a_phase_info *phase = &model->phases[p];
        const size_t count = gone_before(gone, phase->last) - gone_before(gone, phase->first);
        const size_t part = part_of(model, phase);
        const bool whole = count == phase->last - phase->first && part < model->part_count;
        clean = clean && (!count || (whole && is_apart(model, p)));
        if (whole) {
            model->state = MODEL_BROKEN;
            solve = true;
            drop_part(model, part);
        } else if (count == phase->last - phase->first && model->part_count) {
            FAIL_IF(true, context, L3A_ERROR_MISMATCH, "only a phase that is kept apart can be forgotten",
                    "phase %zu was folded together with others", p + 1);
        }
    }
    TRY(drop_columns(model, gone));
    if (solve) {
        TRY(model_solve(model, model->classes.count, model->cross, model->weights));
    }
    model->state = MODEL_READY;
    *exact = clean;
done:
    return status;
}

l3a_status l3a_model_forget_classes(l3a_model *model, const char *const *classes, size_t count, int *exact) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    bool *gone = NULL;
    TRY(check_ready(model));
    TRY(allocate_zeroed(context, model->classes.count + 1, sizeof *gone, &gone));
    for (size_t i = 0; i < count; i++) {
        const size_t k = text_list_find(&model->classes, classes[i]);
        const char *close = l3a_closest(classes[i], (const char *const *)model->classes.items, model->classes.count);
        char hint[160];
        snprintf(hint, sizeof hint, close ? "did you mean '%.100s'?" : "'l3a info MODEL' lists its classes", close);
        FAIL_IF(k == model->classes.count, context, L3A_ERROR_CLASS, hint, "the model has no class '%s'", classes[i]);
        gone[k] = true;
    }
    TRY(forget_marked(model, gone, exact));
done:
    release(context, gone);
    return status;
}

l3a_status l3a_model_forget_phase(l3a_model *model, size_t phase, int *exact) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    bool *gone = NULL;
    TRY(check_ready(model));
    FAIL_IF(phase >= model->phase_count, context, L3A_ERROR_ARGUMENT, "'l3a info MODEL' lists the phases",
            "the model has %zu phases, and number %zu is asked for", model->phase_count, phase + 1);
    const l3a_phase_info *info = &model->phases[phase];
    FAIL_IF(part_of(model, info) == model->part_count, context, L3A_ERROR_MISMATCH,
            "learn with --method l3a+ or with --keep-phases; or take the images back with --features",
            "the images of phase %zu are in one sum with those of other phases", phase + 1);
    TRY(allocate_zeroed(context, model->classes.count, sizeof *gone, &gone));
    for (size_t k = info->first; k < info->last; k++) {
        gone[k] = true;
    }
    TRY(forget_marked(model, gone, exact));
done:
    release(context, gone);
    return status;
}

/* Images to be taken back from one phase, a block at a time. */
struct removal {
    l3a_model *model;
    const l3a_phase_info *phase;
    size_t *columns, *rows, count;
    float *values;
    int8_t *labels;
    double *wide, *class_weight;
    void *expanded, *targets, *cross;
    float *panel;
};

static void removal_free(struct removal *r) {
    void *const all[] = {r->columns,      r->rows,     r->values,  r->labels, r->wide,
                         r->class_weight, r->expanded, r->targets, r->panel,  r->cross};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        release(r->model->context, all[i]);
    }
}

static l3a_status removal_create(struct removal *r) {
    l3a_model *model = r->model;
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t d = model->analytic.dim, own = r->phase->last - r->phase->first;
    const real type = model_real(model);
    TRY(model_buffer(model));
    TRY(allocate(context, ROWS, model->width * sizeof *r->values, &r->values));
    TRY(allocate(context, ROWS, own, &r->labels));
    TRY(allocate(context, ROWS, d * real_size(type), &r->expanded));
    TRY(allocate(context, ROWS, own * real_size(type), &r->targets));
    TRY(allocate_zeroed(context, model->classes.count, sizeof *r->class_weight, &r->class_weight));
    if (type == REAL_SINGLE) {
        TRY(allocate(context, d < ANALYTIC_PANEL ? d : ANALYTIC_PANEL, d * sizeof *r->panel, &r->panel));
    } else {
        TRY(allocate(context, ROWS, model->width * sizeof *r->wide, &r->wide));
    }
    TRY(allocate(context, d, own * real_size(type), &r->cross));
    class_weights(model->counts, r->phase->last, model->options.weights, model->options.scaling, r->class_weight);
done:
    return status;
}

static double get(real type, const void *values, size_t i) {
    return type == REAL_SINGLE ? (double)((const float *)values)[i] : ((const double *)values)[i];
}

static void put(real type, void *values, size_t i, double value) {
    if (type == REAL_SINGLE) {
        ((float *)values)[i] = (float)value;
    } else {
        ((double *)values)[i] = value;
    }
}

/* Adds the block to the square, which holds -A, and takes it from C. */
static void remove_block(struct removal *r, size_t n) {
    l3a_model *model = r->model;
    const l3a_context *context = model->context;
    const real type = model_real(model);
    const size_t d = model->analytic.dim, own = r->phase->last - r->phase->first, all = model->classes.count;
    buffer_expand(&model->buffer, r->values, n, r->wide, r->expanded);
    for (size_t i = 0; i < n; i++) {
        const int8_t *labels = r->labels + i * own;
        const double weight = sample_weight(labels, r->class_weight + r->phase->first, own), root = sqrt(weight);
        for (size_t j = 0; j < d; j++) {
            put(type, r->expanded, i * d + j, root * get(type, r->expanded, i * d + j));
        }
        for (size_t k = 0; k < own; k++) {
            put(type, r->targets, i * own + k, labels[k] == 1 ? root : 0);
            model->label_weight[r->phase->first + k] -= labels[k] == 1 ? weight : 0;
        }
    }
    context->matrix->multiply(context->threads, type, true, false, d, own, n, 1, r->expanded, d, r->targets, own, 0, r->cross, own);
    for (size_t i = 0; i < d; i++) {
        for (size_t k = 0; k < own; k++) {
            model->cross[i * all + r->phase->first + k] -= get(type, r->cross, i * own + k);
        }
    }
    analytic_add(&model->analytic, type, r->expanded, n, r->panel);
}

static void negate(const struct analytic *analytic) {
    for (size_t i = 0; i < analytic->dim; i++) {
        double *row = analytic_row(analytic, i);
        for (size_t j = 0; j <= i; j++) {
            row[j] = -row[j];
        }
    }
}

static l3a_status remove_rows(struct removal *r, l3a_features *features, size_t part) {
    l3a_model *model = r->model;
    l3a_status status = L3A_OK;
    const size_t own = r->phase->last - r->phase->first;
    if (part < model->part_count) {
        analytic_unpack(&model->analytic, &model->parts[part].sums);
    }
    negate(&model->analytic);
    for (size_t first = 0; first < r->count; first += ROWS) {
        const size_t n = r->count - first < ROWS ? r->count - first : ROWS;
        TRY(report_progress(model->context, "forget", first, r->count));
        TRY(l3a_features_read(features, r->rows + first, 0, n, r->values));
        features_gather_labels(features, r->rows + first, n, r->columns, own, r->labels);
        remove_block(r, n);
    }
    negate(&model->analytic);
    if (part < model->part_count) {
        analytic_pack(&model->analytic, &model->parts[part].sums);
    }
done:
    return status;
}

/* The rows that the phase learned, and whether they can have been. */
static l3a_status find_rows(struct removal *r, l3a_features *features) {
    l3a_model *model = r->model;
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t own = r->phase->last - r->phase->first;
    TRY(allocate(context, own, sizeof *r->columns, &r->columns));
    TRY(features_columns(features, (const char *const *)model->classes.items + r->phase->first, own, r->columns));
    TRY(features_rows_with(features, r->columns, own, &r->rows, &r->count));
    FAIL_IF(r->count >= r->phase->images, context, L3A_ERROR_DATA, "to forget a whole phase, use --phase or --classes",
            "%zu images are to be taken back, and the phase of class '%s' learned %" PRIu64, r->count,
            model->classes.items[r->phase->first], r->phase->images);
    for (size_t k = 0; k < own; k++) {
        uint64_t labelled = 0;
        for (size_t i = 0; i < r->count; i++) {
            labelled += features->labels[r->rows[i] * features->classes.count + r->columns[k]] == 1;
        }
        FAIL_IF(labelled > model->counts[r->phase->first + k], context, L3A_ERROR_DATA, "take back only images that were learned",
                "class '%s': %" PRIu64 " images are to be taken back, and %" PRIu64 " were learned",
                model->classes.items[r->phase->first + k], labelled, model->counts[r->phase->first + k]);
    }
done:
    return status;
}

static bool knows_a_class(const l3a_model *model, const l3a_phase_info *phase, const l3a_features *features) {
    bool known = false;
    for (size_t k = phase->first; k < phase->last; k++) {
        known = known || text_list_find(&features->classes, model->classes.items[k]) < features->classes.count;
    }
    return known;
}

static l3a_status forget_from_phase(l3a_model *model, size_t p, l3a_features *features, uint64_t *images) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    struct removal r = {.model = model, .phase = &model->phases[p]};
    const size_t own = r.phase->last - r.phase->first, part = part_of(model, r.phase);
    TRY(find_rows(&r, features));
    if (!r.count) {
        goto done;
    }
    FAIL_IF(model->part_count && part == model->part_count, context, L3A_ERROR_MISMATCH,
            "images of a phase that was folded cannot be found in the sums again", "phase %zu was folded together with others",
            p + 1);
    FAIL_IF(r.phase->pseudo_labels, context, L3A_ERROR_MISMATCH, "learn with --pseudo off where images may have to be taken back",
            "phase %zu gave its images pseudo-labels, which nobody knows any more", p + 1);
    TRY(removal_create(&r));
    model->state = MODEL_BROKEN;
    TRY(remove_rows(&r, features, part));
    for (size_t i = 0; i < r.count; i++) {
        for (size_t k = 0; k < own; k++) {
            model->counts[r.phase->first + k] -= features->labels[r.rows[i] * features->classes.count + r.columns[k]] == 1;
        }
    }
    model->phases[p].images -= r.count;
    *images += r.count;
done:
    removal_free(&r);
    return status;
}

l3a_status l3a_model_forget_images(l3a_model *model, l3a_features *features, uint64_t *images, int *exact) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    uint64_t count = 0;
    TRY(check_ready(model));
    TRY(l3a_model_accepts(model, features));
    FAIL_IF(!features->labels, context, L3A_ERROR_DATA, "give the labels that the images were learned with", "%s: no labels",
            features->path);
    TRY(analytic_use_inverse(&model->analytic, false));
    /* The last phase first: the weights of a phase follow from the counts of it and those before. */
    for (size_t p = model->phase_count; p-- > 0;) {
        if (knows_a_class(model, &model->phases[p], features)) {
            TRY(forget_from_phase(model, p, features, &count));
        }
    }
    FAIL_IF(!count, context, L3A_ERROR_DATA, "give the rows and labels that were learned",
            "%s: no image has a label of any of the model's classes", features->path);
    TRY(model_solve(model, model->classes.count, model->cross, model->weights));
    model->state = MODEL_READY;
    *images = count;
    *exact = model->options.weights == L3A_WEIGHTS_NONE && (model->options.pseudo == L3A_PSEUDO_OFF || model->phase_count == 1);
done:
    return status;
}
