/* Models: creation, queries, scoring, and learning a phase from a table. */
#include "learn/model.h"

#include "base/machine.h"
#include "base/sized.h"
#include "base/threads.h"
#include "data/features.h"
#include "measure/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SCORE_ROWS = 1024, READ_ROWS = 512 };

real model_real(const l3a_model *model) {
    return model->options.precision == L3A_PRECISION_MIXED ? REAL_SINGLE : REAL_DOUBLE;
}

static uint64_t whole_bytes(double bytes) {
    return bytes < 9e18 ? (uint64_t)bytes : UINT64_MAX;
}

static double at_least(double left, double right) {
    return left > right ? left : right;
}

static double triangle_bytes(const struct model_options *options, size_t width) {
    const double d = (double)learned_width(options, width);
    return d * (d + 1) / 2 * (options->precision == L3A_PRECISION_MIXED ? 4 : 8);
}

/* With solver auto, the recursion starts with a phase of few rows and is used until a phase has many: turning A into R costs as
 * much as three solves, but later phases of few rows then need no solve. */
bool chooses_recursion(const struct model_options *options, uint64_t dim, uint64_t rows, bool inverse) {
    switch (options->solver) {
    case L3A_SOLVER_SUMS: return false;
    case L3A_SOLVER_RECURSIVE: return true;
    case L3A_SOLVER_AUTO: break;
    }
    if (keeps_phases(options) || options->gamma == 0) {
        return false;
    }
    return inverse ? rows < dim : 16 * rows <= dim;
}

static bool recurses(const struct model_options *options, size_t width, const struct phase_size *phase) {
    return chooses_recursion(options, learned_width(options, width), phase->rows, phase->inverse);
}

/* What l3a_model_learn() and the phase allocate besides the model, in the order of the names there. */
static double phase_work(const struct model_options *options, size_t width, const struct phase_size *phase) {
    const bool mixed = options->precision == L3A_PRECISION_MIXED;
    const double d = (double)learned_width(options, width), k = (double)width, size = mixed ? 4 : 8, all = (double)phase->all;
    const double old = options->pseudo == L3A_PSEUDO_OFF ? 0 : (double)phase->old, rows = (double)phase->rows;
    const double n = rows < (double)options->block ? rows : (double)options->block;
    const double few = n < RECURSION_ROWS ? n : RECURSION_ROWS,
                 panel = mixed ? d * (d < ANALYTIC_PANEL ? d : ANALYTIC_PANEL) * 4 : 0;
    const double block = n * (k * (mixed ? 4 : 12) + d * size + old * size + all * (size + 1) + 8);
    const double columns = d * (16 * all + old * size + (mixed ? 4 * all : 0));
    return block + columns + (recurses(options, width, phase) ? 8 * few * (2 * d + few + all) : panel);
}

uint64_t phase_memory(const l3a_context *context, const struct model_options *options, size_t width,
                      const struct phase_size *phase) {
    const bool mixed = options->precision == L3A_PRECISION_MIXED, apart = keeps_phases(options);
    const size_t learned = learned_width(options, width);
    const double d = (double)learned, k = (double)width, all = (double)phase->all, size = mixed ? 4 : 8, rows = (double)phase->rows;
    const double layer = k * (double)options->dim * size, square = d * (double)analytic_stride(learned) * 8;
    const double n = rows < GAMMA_ROWS ? rows : GAMMA_ROWS;
    const double sample = options->gamma == 0 ? n * (d * size + 8 * all) : 0;
    const double trial = options->gamma == 0 ? n * (16 * n + 8 * all) : 0;
    const double reading = READ_ROWS * (4 * k + (double)(phase->all - phase->old)),
                 numbers = apart ? 44 * all + 8 * PACKED_LANES * (1 + context->threads) : 8 * all;
    const double solving = recurses(options, width, phase) ? 0 : d * numbers;
    const double before = apart ? (double)phase->parts : 0, after = before + apart, most = (double)options->keep_phases;
    const double folded = apart && most > 0 && after > most ? most : after, triangle = triangle_bytes(options, width);
    const double held = square + layer + 16 * d * (double)phase->old + 8 * rows + phase_work(options, width, phase);
    const double learning = sample + at_least(reading, trial) + before * triangle;
    return whole_bytes(held + at_least(at_least(learning, after * triangle), solving + folded * triangle));
}

uint64_t score_memory(const struct model_options *options, size_t width, size_t classes, uint64_t parts, uint64_t rows) {
    const bool mixed = options->precision == L3A_PRECISION_MIXED;
    const size_t learned = learned_width(options, width);
    const double d = (double)learned, k = (double)width, K = (double)classes, size = mixed ? 4 : 8;
    const double model = d * (double)analytic_stride(learned) * 8 + k * (double)options->dim * size + 16 * d * K +
                         (double)parts * (keeps_phases(options) ? triangle_bytes(options, width) : 0);
    const double block = SCORE_ROWS * (4 * k + d * size + (mixed ? 0 : 8 * k + 8 * K)) + d * K * size;
    return whole_bytes(model + block + (double)rows * (8 + 5 * K));
}

/* Bytes and operations, as the code allocates and computes them. How the classes are divided into phases is not known here, so
 * memory is the larger of two cases: a first phase with all classes, in which gamma may be chosen, and a phase after all
 * classes. */
l3a_status model_plan(l3a_context *context, const struct model_options *options, size_t width, size_t classes, l3a_plan *plan) {
    l3a_status status = L3A_OK;
    TRY(model_options_check(context, options));
    const bool mixed = options->precision == L3A_PRECISION_MIXED, apart = keeps_phases(options);
    const double d = (double)learned_width(options, width), k = (double)width, K = (double)classes;
    const bool search = apart && mixed && options->alpha < 1;
    const double matrix = d * (d + 1) / 2 * (options->store == L3A_STORE_FLOAT32 ? 4 : 8);
    const uint64_t many = options->block + GAMMA_ROWS + (uint64_t)d; /* for whole blocks and samples, and no recursion */
    const struct phase_size first = {.all = classes, .rows = many}, later = {.old = classes, .all = classes, .rows = many};
    struct model_options chosen = *options;
    chosen.gamma = options->gamma == 0 ? 1 : options->gamma;
    const uint64_t one = phase_memory(context, options, width, &first), other = phase_memory(context, &chosen, width, &later);
    plan->phase = apart ? whole_bytes(triangle_bytes(options, width)) : 0;
    plan->memory = (one > other ? one : other) - plan->phase;
    plan->file = (uint64_t)((apart ? 0 : matrix) + 16 * d * K);
    plan->row_flops = 2 * k * d + (options->solver == L3A_SOLVER_RECURSIVE ? 4 : 1) * d * d + 4 * d * K;
    plan->score_flops = 2 * k * d + 2 * d * K;
    plan->solve_flops = options->solver == L3A_SOLVER_RECURSIVE ? 0 : d * d * d / 3 + (search ? 80 : 2) * d * d * K;
done:
    return status;
}

l3a_status l3a_model_plan(l3a_context *context, const l3a_options *options, size_t width, size_t classes, l3a_plan *plan) {
    const struct model_options settings = model_options_of(options);
    l3a_status status = L3A_OK;
    l3a_plan own = {.size = sizeof own};
    NEED(context, context, plan);
    TRY(model_plan(context, &settings, width, classes, &own));
    TRY(WRITE_SIZED(context, plan, own));
done:
    return status;
}

l3a_status check_memory(l3a_context *context, const struct model_options *options, size_t width, uint64_t needed, uint64_t held) {
    l3a_status status = L3A_OK;
    const uint64_t free = machine_memory_available();
    const uint64_t limit = context->options.memory_limit ? context->options.memory_limit : free ? free + held : 0;
    FAIL_IF(limit && needed > limit, context, L3A_ERROR_MEMORY,
            keeps_phases(options) ? "use a smaller dim, a smaller block, or fewer phases kept apart (keep-phases)"
                                  : "use a smaller dim, or a smaller block",
            "dim %" PRIu64 " and features %zu wide need %.2f GiB of memory, but %.2f GiB are free", options->dim, width,
            (double)needed * 0x1p-30, (double)limit * 0x1p-30);
done:
    return status;
}

uint64_t kept_phases(const struct model_options *options, uint64_t phases) {
    const uint64_t most = options->keep_phases && options->keep_phases < phases ? options->keep_phases + 1 : phases;
    return keeps_phases(options) ? most : 0;
}

l3a_status model_check_memory(l3a_context *context, const struct model_options *options, size_t width, size_t classes,
                              uint64_t phases, uint64_t held) {
    l3a_status status = L3A_OK;
    l3a_plan plan = {.size = sizeof plan};
    TRY(model_plan(context, options, width, classes, &plan));
    TRY(check_memory(context, options, width, plan.memory + kept_phases(options, phases) * plan.phase, held));
done:
    return status;
}

uint64_t model_memory(const l3a_model *model) {
    const uint64_t d = model->analytic.dim, layer = model->buffer.matrix ? model->width * d * real_size(model_real(model)) : 0;
    return d * model->analytic.stride * sizeof(double) + layer + 2 * d * model->classes.count * sizeof(double) +
           model->part_count * packed_size(model->analytic.dim) * real_size(model_real(model));
}

l3a_status model_create(l3a_context *context, size_t width, const struct model_options *options, l3a_model **model) {
    l3a_status status = L3A_OK;
    l3a_model *made = NULL;
    FAIL_IF(!width || width > INT32_MAX, context, L3A_ERROR_ARGUMENT, NULL, "a model cannot have features %zu wide", width);
    TRY(model_check_memory(context, options, width, 0, 0, 0));
    TRY(options_fit(context, options));
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->options = *options;
    made->width = width;
    TRY(analytic_create(context, learned_width(options, width), options->gamma,
                        options->store == L3A_STORE_FLOAT32 ? REAL_SINGLE : model_real(made), &made->analytic));
    made->options.skip_features = made->analytic.dim > options->dim ? L3A_SKIP_ON : L3A_SKIP_OFF;
    *model = made;
    made = NULL;
done:
    l3a_model_free(made);
    return status;
}

l3a_status l3a_model_create(l3a_context *context, size_t width, const l3a_options *options, l3a_model **model) {
    const struct model_options settings = model_options_of(options);
    return model_create(context, width, &settings, model);
}

void l3a_model_free(l3a_model *model) {
    if (!model) {
        return;
    }
    l3a_context *context = model->context;
    l3a_phase_abandon(model);
    text_list_clear(context, &model->classes);
    text_list_clear(context, &model->record_keys);
    text_list_clear(context, &model->record_values);
    for (size_t i = 0; i < model->part_count; i++) {
        release(context, model->parts[i].sums.rows);
    }
    release(context, model->parts);
    release(context, model->counts);
    release(context, model->label_weight);
    release(context, model->class_weight);
    release(context, model->cross);
    release(context, model->weights);
    release(context, model->phases);
    analytic_free(&model->analytic);
    buffer_free(&model->buffer);
    release(context, model);
}

l3a_status model_buffer(l3a_model *model) {
    if (model->buffer.matrix) {
        return L3A_OK;
    }
    const l3a_status status = buffer_create(model->context, model->width, (size_t)model->options.dim, model->options.seed,
                                            model_real(model), &model->buffer);
    model->buffer.skip = model->analytic.dim > model->options.dim;
    return status;
}

l3a_status model_working_weights(const l3a_model *model, void **weights) {
    const real type = model_real(model);
    const size_t count = model->analytic.dim * model->classes.count;
    const l3a_status status = allocate(model->context, count, real_size(type), weights);
    for (size_t i = 0; status == L3A_OK && i < count; i++) {
        if (type == REAL_SINGLE) {
            ((float *)*weights)[i] = (float)model->weights[i];
        } else {
            ((double *)*weights)[i] = model->weights[i];
        }
    }
    return status;
}

l3a_status l3a_model_options(const l3a_model *model, l3a_options *options) {
    l3a_status status = L3A_OK;
    NEED(model ? model->context : NULL, model, options);
    *(struct model_options *)options = model->options; /* which l3a_options begin with */
done:
    return status;
}

l3a_status l3a_model_set_option(l3a_model *model, const char *name, const char *value) {
    static const char *const fixed[] = {"dim",  "seed",          "gamma",   "precision", "alpha",
                                        "lift", "skip-features", "weights", "scaling"};
    l3a_status status = L3A_OK;
    struct model_options changed = model->options;
    TRY(model_options_set(model->context, &changed, name, value));
    if (changed.gamma == 0 && l3a_model_record(model, "gamma")) {
        changed.gamma = model->options.gamma; /* as auto chose it */
    }
    changed.skip_features = learned_width(&changed, model->width) > changed.dim ? L3A_SKIP_ON : L3A_SKIP_OFF;
    FAIL_IF(model->state != MODEL_READY, model->context, L3A_ERROR_STATE, "end the phase first", "a phase is in progress");
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        char before[64], after[64];
        model_options_get(&model->options, fixed[i], before, sizeof before);
        model_options_get(&changed, fixed[i], after, sizeof after);
        FAIL_IF(strcmp(before, after) != 0, model->context, L3A_ERROR_MISMATCH, "omit the setting, or create a new model",
                "%s: the model was created with %s, and cannot change to %s", fixed[i], before, after);
    }
    FAIL_IF(keeps_phases(&changed) != keeps_phases(&model->options), model->context, L3A_ERROR_MISMATCH,
            "omit the setting, or create a new model", "keep-phases: the model %s",
            keeps_phases(&changed) ? "adds all phases to one sum" : "keeps the sums of phases apart");
    TRY(options_fit(model->context, &changed));
    model->options = changed;
done:
    return status;
}

/* A class counts as predicted above two thirds of its own score plus all of the lift, on the mean of the images it was learned
 * from. The mean of a score x·v over these images, weighted as they were learned, is Σ ω x·v / Σ ω = c_k·v / Σ ω. With weights
 * w' = w + λ Σ w, v = w' - w / 3 = (2 w' + λ Σ w) / 3, where Σ w = Σ w' / (1 + λ K) and λ is λ_t of part.h. */
void l3a_model_thresholds(const l3a_model *model, double *edges) {
    const size_t classes = model->classes.count;
    const double fixed = logit(model->options.theta), lift = parts_lift(model->options.lift, model->part_count),
                 share = lift / (1 + lift * (double)classes);
    double sum = 0;
    size_t known = 0;
    memset(edges, 0, classes * sizeof *edges);
    for (size_t i = 0; i < model->analytic.dim && model->options.thresholds != L3A_THRESHOLDS_FIXED; i++) {
        const double *cross = model->cross + i * classes, *weights = model->weights + i * classes;
        double all = 0;
        for (size_t k = 0; k < classes; k++) {
            all += weights[k];
        }
        for (size_t k = 0; k < classes; k++) {
            edges[k] += cross[k] * (2 * weights[k] + share * all) / 3;
        }
    }
    for (size_t k = 0; k < classes; k++) {
        const bool fits = edges[k] > 0 && model->label_weight[k] > 0 && model->counts[k];
        edges[k] = fits ? edges[k] / model->label_weight[k] : fixed;
        sum += fits ? edges[k] : 0;
        known += fits;
    }
    for (size_t k = 0; known && model->options.thresholds == L3A_THRESHOLDS_GLOBAL && k < classes; k++) {
        edges[k] = sum / (double)known;
    }
}

l3a_status model_solve(const l3a_model *model, size_t columns, const double *cross, double *weights) {
    return model->part_count ? parts_solve(&model->analytic, model->parts, model->part_count, model->options.alpha,
                                           model->options.lift, columns, cross, weights)
                             : analytic_solve(&model->analytic, columns, cross, weights);
}

void model_fold(l3a_model *model) {
    while (model->options.keep_phases && model->part_count > model->options.keep_phases) {
        struct part *oldest = &model->parts[0], *next = &model->parts[1];
        packed_add(model->analytic.dim, &next->sums, &oldest->sums);
        next->first = oldest->first;
        next->phases += oldest->phases;
        release(model->context, oldest->sums.rows);
        memmove(model->parts, model->parts + 1, --model->part_count * sizeof *model->parts);
    }
}

size_t l3a_model_width(const l3a_model *model) {
    return model->width;
}

size_t l3a_model_class_count(const l3a_model *model) {
    return model->classes.count;
}

const char *l3a_model_class(const l3a_model *model, size_t index) {
    return index < model->classes.count ? model->classes.items[index] : NULL;
}

uint64_t l3a_model_class_images(const l3a_model *model, size_t index) {
    return index < model->classes.count ? model->counts[index] : 0;
}

size_t l3a_model_phase_count(const l3a_model *model) {
    return model->phase_count;
}

const l3a_phase_info *l3a_model_phase(const l3a_model *model, size_t index) {
    return index < model->phase_count ? &model->phases[index] : NULL;
}

size_t l3a_model_inputs(const l3a_model *model) {
    return model->analytic.dim;
}

const double *l3a_model_coefficients(const l3a_model *model) {
    return model->weights;
}

const double *l3a_model_cross(const l3a_model *model) {
    return model->cross;
}

int l3a_model_is_inverse(const l3a_model *model) {
    return model->analytic.inverse;
}

l3a_status l3a_model_matrix(const l3a_model *model, size_t first, size_t count, double *rows) {
    const size_t d = model->analytic.dim;
    if (first > d || count > d - first) {
        return fail(model->context, L3A_ERROR_ARGUMENT, NULL, "rows %zu to %zu are requested from a matrix with %zu", first,
                    first + count, d);
    }
    if (model->part_count && model->state != MODEL_READY) {
        return fail(model->context, L3A_ERROR_STATE, "end the phase first", "the sums of the phase in progress are not complete");
    }
    if (model->part_count) {
        parts_sum(&model->analytic, model->parts, model->part_count);
    }
    for (size_t i = 0; i < count; i++) {
        const size_t row = first + i;
        memcpy(rows + i * d, analytic_row(&model->analytic, row), (row + 1) * sizeof *rows);
        for (size_t j = row + 1; j < d; j++) {
            rows[i * d + j] = analytic_row(&model->analytic, j)[row];
        }
    }
    return L3A_OK;
}

const char *l3a_model_record(const l3a_model *model, const char *key) {
    const size_t index = text_list_find(&model->record_keys, key);
    return index < model->record_values.count ? model->record_values.items[index] : NULL;
}

l3a_status l3a_model_set_record(l3a_model *model, const char *key, const char *value) {
    return text_record_set(model->context, &model->record_keys, &model->record_values, key, value);
}

l3a_status l3a_model_score(l3a_model *model, const float *features, size_t rows, float *scores) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const real type = model_real(model);
    const size_t d = model->analytic.dim, k = model->width, classes = model->classes.count;
    const size_t block = rows < SCORE_ROWS ? rows : SCORE_ROWS;
    void *expanded = NULL, *weights = NULL;
    double *wide = NULL, *exact = NULL;
    FAIL_IF(!classes, context, L3A_ERROR_STATE, "learn a phase first", "the model has learned no class yet");
    const size_t bad = find_non_finite(features, rows * k);
    FAIL_IF(bad < rows * k, context, L3A_ERROR_DATA, NULL, "row %zu, column %zu: the feature is not finite", bad / k, bad % k);
    TRY(model_buffer(model));
    TRY(allocate(context, block, d * real_size(type), &expanded));
    TRY(model_working_weights(model, &weights));
    if (type == REAL_DOUBLE) {
        TRY(allocate(context, block, k * sizeof *wide, &wide));
        TRY(allocate(context, block, classes * sizeof *exact, &exact));
    }
    for (size_t first = 0; first < rows; first += block) {
        const size_t n = rows - first < block ? rows - first : block;
        float *out = scores + first * classes;
        buffer_expand(&model->buffer, features + first * k, n, wide, expanded);
        context->matrix->multiply(context->threads, type, false, false, n, classes, d, 1, expanded, d, weights, classes, 0,
                                  exact ? (void *)exact : out, classes);
        for (size_t i = 0; exact && i < n * classes; i++) {
            out[i] = (float)exact[i];
        }
    }
done:
    release(context, expanded);
    release(context, weights);
    release(context, wide);
    release(context, exact);
    return status;
}

l3a_status l3a_model_accepts(l3a_model *model, const l3a_features *features) {
    l3a_status status = L3A_OK;
    FAIL_IF(features->width != model->width, model->context, L3A_ERROR_MISMATCH,
            "use features of the backbone that the model was learned with", "%s: features %zu wide, but the model takes %zu",
            features->path, features->width, model->width);
    const char *mine[PROVENANCE], *theirs[PROVENANCE];
    for (size_t i = 0; i < PROVENANCE; i++) {
        mine[i] = l3a_model_record(model, provenance[i]);
        theirs[i] = l3a_features_record(features, provenance[i]);
    }
    const size_t i = provenance_conflict(mine, theirs);
    FAIL_IF(i < PROVENANCE, model->context, L3A_ERROR_MISMATCH,
            "use features made with the backbone and the preprocessing that the model was learned with",
            "%s: %s is '%s', but the model was learned with '%s'", features->path, provenance[i], theirs[i], mine[i]);
done:
    return status;
}

l3a_status model_keep_provenance(l3a_model *model, const l3a_features *features) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < PROVENANCE; i++) {
        const char *value = l3a_features_record(features, provenance[i]);
        if (value && !l3a_model_record(model, provenance[i])) {
            TRY(l3a_model_set_record(model, provenance[i], value));
        }
    }
done:
    return status;
}

struct pass {
    const char *stage;
    l3a_features *features;
    const size_t *rows;
    size_t count;
    const size_t *columns;
    size_t column_count;
};

/* Passes the rows of a table, in blocks, to l3a_phase_survey() or l3a_phase_learn(). */
static l3a_status hand_over(l3a_model *model, const struct pass *pass, bool survey) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    float *values = NULL;
    int8_t *labels = NULL;
    TRY(allocate(context, READ_ROWS, model->width * sizeof *values, &values));
    TRY(allocate(context, READ_ROWS, pass->column_count, &labels));
    for (size_t first = 0; first < pass->count; first += READ_ROWS) {
        const size_t n = pass->count - first < READ_ROWS ? pass->count - first : READ_ROWS;
        TRY(report_progress(context, pass->stage, first, pass->count));
        TRY(l3a_features_read(pass->features, pass->rows + first, 0, n, values));
        if (survey) {
            TRY(l3a_phase_survey(model, values, n));
        } else {
            features_gather_labels(pass->features, pass->rows + first, n, pass->columns, pass->column_count, labels);
            TRY(l3a_phase_learn(model, values, labels, n));
        }
    }
    TRY(report_progress(context, pass->stage, pass->count, pass->count));
done:
    release(context, values);
    release(context, labels);
    return status;
}

static l3a_status count_rows(l3a_model *model, const struct pass *pass) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    int8_t *labels = NULL;
    TRY(allocate(context, pass->count, pass->column_count, &labels));
    features_gather_labels(pass->features, pass->rows, pass->count, pass->columns, pass->column_count, labels);
    TRY(l3a_phase_count(model, labels, pass->count));
done:
    release(context, labels);
    return status;
}

/* The rows of a phase that can have a weight: with pseudo-labels all that belong to it, and otherwise those with a label.
 * *unlabelled: the number of other rows. */
static l3a_status find_phase_rows(const l3a_model *model, struct pass *pass, size_t **rows, size_t *unlabelled) {
    l3a_features *features = pass->features;
    l3a_status status = L3A_OK;
    const bool pseudo = model->options.pseudo != L3A_PSEUDO_OFF && model->classes.count;
    size_t *members = NULL, *labelled = NULL, member_count, labelled_count;
    TRY(features_rows_with(features, pass->columns, pass->column_count, &labelled, &labelled_count));
    TRY(features_members_of(features, pass->columns, pass->column_count, &members, &member_count));
    const char *name = features->classes.items[pass->columns[0]];
    FAIL_IF(!labelled_count, model->context, L3A_ERROR_DATA, "give the phase images that show its classes",
            "%s: no image has any of the %zu classes of this phase ('%s'%s)", features->path, pass->column_count, name,
            pass->column_count > 1 ? ", …" : "");
    pass->rows = *rows = pseudo ? members : labelled;
    pass->count = pseudo ? member_count : labelled_count;
    *unlabelled = member_count - pass->count;
    members = pseudo ? NULL : members;
    labelled = pseudo ? labelled : NULL;
done:
    release(model->context, members);
    release(model->context, labelled);
    return status;
}

l3a_status l3a_model_learn(l3a_model *model, l3a_features *features, const char *const *classes, size_t class_count) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    size_t *columns = NULL, *rows = NULL, unlabelled = 0;
    bool begun = false;
    TRY(l3a_model_accepts(model, features));
    TRY(l3a_phase_begin(model, classes, class_count));
    begun = true;
    TRY(allocate(context, class_count, sizeof *columns, &columns));
    TRY(features_columns(features, classes, class_count, columns));
    struct pass pass = {"survey", features, NULL, 0, columns, class_count};
    TRY(find_phase_rows(model, &pass, &rows, &unlabelled));
    model->phase.table = features;
    model->phase.table_rows = rows;
    TRY(count_rows(model, &pass));
    if (model->options.pseudo == L3A_PSEUDO_DYNAMIC && model->classes.count) {
        TRY(hand_over(model, &pass, true));
    }
    pass.stage = "learn";
    TRY(hand_over(model, &pass, false));
    TRY(model_keep_provenance(model, features));
    TRY(l3a_phase_end(model));
    model->phases[model->phase_count - 1].skipped += unlabelled;
done:
    if (status != L3A_OK && begun) {
        l3a_phase_abandon(model);
    }
    release(context, columns);
    release(context, rows);
    return status;
}

l3a_status l3a_model_prepare(l3a_model *model, l3a_features *features, const char *const *classes, size_t class_count,
                             uint64_t *images, l3a_plan *plan) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    size_t *columns = NULL, *rows = NULL, unlabelled;
    const size_t old = model->classes.count;
    l3a_plan own = {.size = sizeof own};
    FAIL_IF(!classes || !class_count, context, L3A_ERROR_ARGUMENT, "name the classes of the phase", "the phase has no classes");
    TRY(l3a_model_accepts(model, features));
    TRY(allocate(context, class_count, sizeof *columns, &columns));
    TRY(features_columns(features, classes, class_count, columns));
    struct pass pass = {.features = features, .columns = columns, .column_count = class_count};
    TRY(find_phase_rows(model, &pass, &rows, &unlabelled));
    TRY(model_plan(context, &model->options, model->width, old + class_count, &own));
    const struct phase_size phase = {old, old + class_count, pass.count, model->part_count, model->analytic.inverse};
    own.memory = phase_memory(context, &model->options, model->width, &phase) + features_label_bytes(features);
    own.file += kept_phases(&model->options, model->part_count + 1) * own.phase;
    *images = pass.count;
    TRY(WRITE_SIZED(context, plan, own));
done:
    release(context, columns);
    release(context, rows);
    return status;
}

l3a_status l3a_model_evaluate(l3a_model *model, l3a_features *features, l3a_metrics *metrics, double *average_precision) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t classes = model->classes.count;
    size_t *columns = NULL, *rows = NULL, count = 0;
    float *values = NULL, *scores = NULL;
    int8_t *labels = NULL;
    double *edges = NULL;
    l3a_metrics own;
    FAIL_IF(!classes, context, L3A_ERROR_STATE, "learn a phase first", "the model has learned no class yet");
    TRY(CHECK_SIZED(context, metrics));
    TRY(l3a_model_accepts(model, features));
    TRY(allocate(context, classes, sizeof *columns, &columns));
    TRY(features_columns(features, (const char *const *)model->classes.items, classes, columns));
    TRY(features_rows_with(features, columns, classes, &rows, &count));
    FAIL_IF(!count, context, L3A_ERROR_DATA, "measure on images that show the model's classes",
            "%s: no image has any of the model's classes", features->path);
    TRY(allocate(context, SCORE_ROWS, model->width * sizeof *values, &values));
    TRY(allocate(context, count, classes * sizeof *scores, &scores));
    TRY(allocate(context, count, classes, &labels));
    features_gather_labels(features, rows, count, columns, classes, labels);
    for (size_t first = 0; first < count; first += SCORE_ROWS) {
        const size_t n = count - first < SCORE_ROWS ? count - first : SCORE_ROWS;
        TRY(report_progress(context, "evaluate", first, count));
        TRY(l3a_features_read(features, rows + first, 0, n, values));
        TRY(l3a_model_score(model, values, n, scores + first * classes));
    }
    TRY(report_progress(context, "evaluate", count, count));
    TRY(allocate(context, classes, sizeof *edges, &edges));
    l3a_model_thresholds(model, edges);
    TRY(measure(context, scores, labels, count, classes, edges, &own, average_precision));
    TRY(WRITE_SIZED(context, metrics, own));
done:
    release(context, columns);
    release(context, rows);
    release(context, values);
    release(context, scores);
    release(context, labels);
    release(context, edges);
    return status;
}
