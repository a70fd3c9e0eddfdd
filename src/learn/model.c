/* Models: creation, queries, scoring, and learning a phase from a table. */
#include "learn/model.h"

#include "base/plugin.h"
#include "base/sized.h"
#include "base/text_index.h"
#include "data/features.h"
#include "learn/model_change.h"
#include "learn/model_holds.h"
#include "learn/model_columns.h"
#include "learn/teach.h"
#include "measure/evaluate.h"
#include "measure/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

real options_real(const struct model_options *options) {
    return options->precision == L3A_PRECISION_MIXED ? REAL_SINGLE : REAL_DOUBLE;
}

struct layer_shape model_layer_shape(const struct model_options *options, size_t width) {
    return (struct layer_shape){.kind = LAYER_RELU,
                                .type = options_real(options),
                                .width = width,
                                .dim = (size_t)options->dim,
                                .skip = learned_width(options, width) > options->dim,
                                .seed = options->seed};
}

static void evidence_free(l3a_context *context, struct evidence *evidence) {
    if (!evidence || --evidence->users) {
        return;
    }
    for (size_t i = 0; i < evidence->part_count; i++) {
        part_free(&evidence->parts[i]);
    }
    release(context, evidence->parts);
    release(context, evidence->cross);
    search_end_free(context, &evidence->end);
    ridge_free(&evidence->ridge);
    release(context, evidence);
}

void model_share(l3a_model *model, const l3a_model *other) {
    evidence_free(model->context, model->evidence);
    model->evidence = other->evidence;
    model->evidence->users++;
}

l3a_status model_create_to_score(l3a_context *context, size_t width, const struct model_options *options, l3a_model **model) {
    l3a_status status = L3A_OK;
    l3a_model *made = NULL;
    FAIL_IF(!width || width > INT32_MAX, context, L3A_ERROR_ARGUMENT, NULL, "a model cannot have features %zu wide", width);
    TRY(options_fit(context, options));
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->options = *options;
    made->width = width;
    TRY(allocate_zeroed(context, 1, sizeof *made->evidence, &made->evidence));
    made->evidence->users = 1;
    made->evidence->ridge.sums = (struct sums){.context = context, .dim = learned_width(options, width)};
    made->options.skip_features = model_dim(made) > options->dim ? L3A_SKIP_ON : L3A_SKIP_OFF;
    *model = made;
    made = NULL;
done:
    l3a_model_free(made);
    return status;
}

/* With solver auto, processes hold the sums together if one of them has too little memory for all of them. */
static l3a_status choose_sharing(l3a_context *context, size_t width, struct model_options *options) {
    l3a_status status = L3A_OK;
    if (options->solver == L3A_SOLVER_AUTO && !keeps_phases(options) && cluster_can_share(context)) {
        uint64_t lacking = model_check_memory(context, options, width, 0, 0, NULL) == L3A_ERROR_MEMORY;
        TRY(sum_counts(context, &lacking, 1));
        options->solver = lacking ? L3A_SOLVER_SCALAPACK : L3A_SOLVER_AUTO;
        if (lacking) {
            report_note(context, "solver scalapack: the processes hold the sums together, since one alone has too little memory");
        }
    }
    if (options->solver == L3A_SOLVER_SCALAPACK) {
        TRY(cluster_share(context));
    }
done:
    return status;
}

l3a_status model_create(l3a_context *context, size_t width, const struct model_options *options, l3a_model **model) {
    l3a_status status = L3A_OK;
    l3a_model *made = NULL;
    TRY(model_create_to_score(context, width, options, &made));
    TRY(choose_sharing(context, width, &made->options));
    TRY(model_check_memory(context, &made->options, width, 0, 0, NULL));
    TRY(ridge_create(context, learned_width(options, width), options->gamma,
                     options->store == L3A_STORE_FLOAT32 ? REAL_SINGLE : options_real(options),
                     made->options.solver == L3A_SOLVER_SCALAPACK, &made->evidence->ridge));
    *model = made;
    made = NULL;
done:
    l3a_model_free(made);
    return status;
}

bool shares_sums(const l3a_model *model) {
    const struct sums *sums = &model->evidence->ridge.sums;
    return sums->held && sums->algebra->shared;
}

l3a_status check_own_sums(const l3a_model *model) {
    return shares_sums(model) ? fail(model->context, L3A_ERROR_STATE, "change the model in one process",
                                     "several processes hold the sums of this model together, and can only learn phases")
                              : L3A_OK;
}

l3a_status l3a_model_create(l3a_context *context, size_t width, const l3a_options *options, l3a_model **model) {
    const struct model_options settings = model_options_of(options);
    l3a_status status = L3A_OK;
    NEED(context, context, model);
    TRY(model_create(context, width, &settings, model));
done:
    return status;
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
    release(context, model->counts);
    release(context, model->label_weight);
    release(context, model->class_weight);
    release(context, model->coefficients);
    release(context, model->phases);
    solution_free(&model->solution);
    shared_layer_free(model->shared_layer);
    evidence_free(context, model->evidence);
    release(context, model);
}

l3a_status model_ready_solution(l3a_model *model) {
    l3a_status status = L3A_OK;
    if (!model->solution.held && model->classes.count) {
        TRY(solution_create(model->context, model_dim(model), model->classes.count, options_real(&model->options),
                            &model->solution));
        TRY(solution_set(&model->solution, model->coefficients));
    }
done:
    return status;
}

l3a_status model_ready_layer(l3a_model *model) {
    l3a_status status = L3A_OK;
    if (!model->shared_layer) {
        const struct layer_shape shape = model_layer_shape(&model->options, model->width);
        TRY(shared_layer_create(model->context, &shape, &model->shared_layer));
        model->layer = model->shared_layer->layer;
    }
done:
    return status;
}

l3a_status model_ready(l3a_model *model) {
    l3a_status status = L3A_OK;
    TRY(model_ready_layer(model));
    TRY(model_ready_solution(model));
done:
    return status;
}

void model_changed(l3a_model *model) {
    solution_free(&model->solution);
}

l3a_status l3a_model_options(const l3a_model *model, l3a_options *options) {
    l3a_status status = L3A_OK;
    NEED(model ? model->context : NULL, model, options);
    *(struct model_options *)options = model->options; /* which l3a_options begin with */
done:
    return status;
}

l3a_status l3a_model_set_option(l3a_model *model, const char *name, const char *value) {
    REQUIRE(model, model, name, value);
    static const char *const fixed[] = {"dim",  "seed",          "gamma",   "gamma-from", "precision", "alpha",
                                        "lift", "skip-features", "weights", "scaling",    "views"};
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

/* A class counts as predicted above a share f of its own score plus all of the lift, on the mean of the images it was learned
 * from. The mean of a score x·v over these images, weighted as they were learned, is Σ ω x·v / Σ ω = c_k·v / Σ ω. With
 * coefficients w' = w + λ Σ w, v = f w + λ Σ w = f w' + (1 - f) λ Σ w, where Σ w = Σ w' / (1 + λ K) and λ is λ_t of part.h.
 *
 * f is two thirds. With thresholds `taught` it is (0.76 - 0.3 u/(N + 50)) n/(n + 1) for a class with n of the N images: with few
 * images the scores of these images are further above those of others, and among pictures that show none of the classes, a higher
 * threshold pays off. The more such images were taught, at least u = N - Σ n, the less it needs to be (docs/teaching.md).
 *
 * With views, the sums only know the mean score of all rows of these images, where the crops together count as much as the whole
 * picture; views_level() says how far above it the combined score is. */
static double taught_share(const struct model_columns *columns, size_t classes, double images) {
    double shown = 0;
    for (size_t k = 0; k < classes; k++) {
        shown += (double)columns->counts[k];
    }
    return 0.76 - 0.3 * fmax(0, images - shown) / (images + 50);
}

double model_images(const l3a_model *model) {
    double images = 0;
    for (size_t i = 0; i < model->evidence->part_count; i++) {
        images += (double)model->evidence->parts[i].images;
    }
    return images;
}

void columns_thresholds(const l3a_model *model, const struct model_columns *columns, double images, size_t known, size_t views,
                        double *thresholds) {
    const size_t classes = model->classes.count;
    const double fixed = logit(model->options.theta),
                 lift = parts_lift(model->options.lift, model->evidence->parts, model->evidence->part_count),
                 share = lift / (1 + lift * (double)known), taught = taught_share(columns, classes, images),
                 level = views_level((size_t)model->options.views, views);
    double sum = 0;
    size_t fitted = 0;
    memset(thresholds, 0, classes * sizeof *thresholds);
    const bool fits_some = classes && model->options.thresholds != L3A_THRESHOLDS_FIXED;
    for (size_t i = 0; fits_some && i < model_dim(model); i++) {
        const double *cross = columns->cross + i * classes, *coefficients = columns->coefficients + i * classes;
        double all = 0;
        for (size_t k = 0; k < classes; k++) {
            all += coefficients[k];
        }
        for (size_t k = 0; k < classes; k++) {
            const double n = (double)columns->counts[k];
            const double own = model->options.thresholds == L3A_THRESHOLDS_TAUGHT ? taught * n / (n + 1) : 2.0 / 3;
            thresholds[k] += cross[k] * (own * coefficients[k] + (1 - own) * share * all);
        }
    }
    for (size_t k = 0; k < classes; k++) {
        const bool fits = thresholds[k] > 0 && columns->label_weight[k] > 0 && columns->counts[k];
        thresholds[k] = fits ? level * thresholds[k] / columns->label_weight[k] : fixed;
        sum += fits ? thresholds[k] : 0;
        fitted += fits;
    }
    for (size_t k = 0; fitted && model->options.thresholds == L3A_THRESHOLDS_GLOBAL && k < classes; k++) {
        thresholds[k] = sum / (double)fitted;
    }
}

void model_thresholds(const l3a_model *model, size_t views, double *thresholds) {
    const struct model_columns columns = {model->counts, model->label_weight, model->class_weight, model->evidence->cross,
                                          model->coefficients};
    columns_thresholds(model, &columns, model_images(model), model->classes.count, views, thresholds);
}

void l3a_model_thresholds(const l3a_model *model, double *thresholds) {
    if (model && thresholds) {
        model_thresholds(model, scored_views(&model->options), thresholds);
    }
}

/* γ as a function of the sums (the setting `gamma-from` sums), which depends neither on the order of the images nor on their
 * division into lessons: with N images, K classes and m = tr(S)/N, the mean of ω‖x‖²,
 *
 *   γ = m (1 + 8/K) N/(N + 15), rounded to a quarter of a decade
 *
 * The fewer classes are known, the more pictures show none of them, and the more caution is needed. The constants were chosen on
 * training images (docs/teaching.md). Rounding keeps γ, and with it the factor, from changing at every lesson. */
static l3a_status choose_gamma_from_sums(l3a_model *model, size_t classes) {
    const struct evidence *evidence = model->evidence;
    l3a_status status = L3A_OK;
    const double images = model_images(model);
    double trace = 0;
    if (model->options.gamma_from != L3A_GAMMA_FROM_SUMS || (model->options.gamma > 0 && !l3a_model_record(model, "gamma"))) {
        return L3A_OK;
    }
    TRY(sums_trace(&evidence->ridge.sums, &trace));
    const double gamma = trace / images * (1 + 8 / (double)classes) * images / (images + 15);
    FAIL_IF(!(isfinite(gamma) && gamma > 0), model->context, L3A_ERROR_NUMERIC, "give a number for gamma, or scale the features",
            "no gamma can be chosen from these features");
    TRY(l3a_model_set_record(model, "gamma", "sums"));
    model->options.gamma = pow(10, round(4 * log10(gamma)) / 4);
done:
    return status;
}

l3a_status model_sum_parts(l3a_model *model) {
    struct evidence *evidence = model->evidence;
    l3a_status status = L3A_OK;
    evidence->ridge.gamma = model->options.gamma;
    if (evidence->part_count && !evidence->summed) {
        TRY(parts_sum(&evidence->ridge.sums, evidence->parts, evidence->part_count));
        evidence->summed = true;
    }
done:
    return status;
}

static l3a_status solve(const l3a_model *model, size_t columns, const double *cross, double *coefficients) {
    struct evidence *evidence = model->evidence;
    return evidence->part_count
               ? parts_solve(&evidence->ridge, evidence->parts, evidence->part_count, model->options.alpha, model->options.lift,
                             columns, cross, coefficients, evidence->end.kept ? &evidence->end : NULL)
               : ridge_solve(&evidence->ridge, columns, cross, coefficients);
}

/* Process 0 solves for all, and can use the processors of those that wait. */
static l3a_status solve_for_all(const l3a_model *model, size_t columns, const double *cross, double *coefficients) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t numbers = model_dim(model) * columns;
    const int threads = context->threads;
    if (leads(context)) {
        context->threads = context->options.lead_threads ? (int)context->options.lead_threads : threads;
        status = solve(model, columns, cross, coefficients);
        context->threads = threads;
    } else {
        memset(coefficients, 0, numbers * sizeof *coefficients);
    }
    TRY(follow_lead(context, status, NULL));
    TRY(sum_numbers(context, coefficients, numbers));
done:
    return status;
}

l3a_status model_solve(l3a_model *model, size_t columns, const double *cross, double *coefficients) {
    struct evidence *evidence = model->evidence;
    l3a_status status = L3A_OK;
    TRY(model_sum_parts(model));
    if (!columns) {
        goto done; /* everything was taken back */
    }
    TRY(choose_gamma_from_sums(model, columns));
    evidence->ridge.gamma = model->options.gamma;
    if (divides_rows(model->context) && !evidence->ridge.sums.algebra->shared) {
        TRY(solve_for_all(model, columns, cross, coefficients));
    } else {
        TRY(solve(model, columns, cross, coefficients));
    }
done:
    return status;
}

l3a_status model_fold(l3a_model *model) {
    struct evidence *evidence = model->evidence;
    l3a_status status = L3A_OK;
    while (model->options.keep_phases && evidence->part_count > model->options.keep_phases) {
        evidence_changed(evidence);
        TRY(part_own(model, &evidence->parts[1]));
        TRY(part_fold(&evidence->parts[1], &evidence->parts[0]));
        model_free_part(model, &evidence->parts[0]);
        memmove(evidence->parts, evidence->parts + 1, --evidence->part_count * sizeof *evidence->parts);
    }
done:
    return status;
}

size_t l3a_model_width(const l3a_model *model) {
    return model ? model->width : 0;
}

size_t l3a_model_class_count(const l3a_model *model) {
    return model ? model->classes.count : 0;
}

const char *l3a_model_class(const l3a_model *model, size_t index) {
    return model && index < model->classes.count ? model->classes.items[index] : NULL;
}

uint64_t l3a_model_class_images(const l3a_model *model, size_t index) {
    return model && index < model->classes.count ? model->counts[index] : 0;
}

size_t l3a_model_phase_count(const l3a_model *model) {
    return model ? model->phase_count : 0;
}

const l3a_phase_info *l3a_model_phase(const l3a_model *model, size_t index) {
    return model && index < model->phase_count ? &model->phases[index] : NULL;
}

size_t l3a_model_part_count(const l3a_model *model) {
    return model ? model->evidence->part_count : 0;
}

l3a_status l3a_model_part(const l3a_model *model, size_t index, l3a_part_info *info) {
    REQUIRE(model, model, info);
    const struct evidence *evidence = model->evidence;
    l3a_status status = L3A_OK;
    FAIL_IF(index >= evidence->part_count, model->context, L3A_ERROR_ARGUMENT, NULL, "part %zu of a model that has %zu", index,
            evidence->part_count);
    const struct part *part = &evidence->parts[index];
    const l3a_part_info own = {.images = part->images, .phases = part->phases, .judged = part->judged_count};
    TRY(WRITE_SIZED(model->context, info, own));
done:
    return status;
}

int l3a_model_part_judges(const l3a_model *model, size_t part, size_t class_index) {
    return part < l3a_model_part_count(model) && part_judges(&model->evidence->parts[part], class_index);
}

size_t l3a_model_inputs(const l3a_model *model) {
    return model ? model_dim(model) : 0;
}

const double *l3a_model_coefficients(const l3a_model *model) {
    return model ? model->coefficients : NULL;
}

const double *l3a_model_cross(const l3a_model *model) {
    return model ? model->evidence->cross : NULL;
}

int l3a_model_is_inverse(const l3a_model *model) {
    return model ? model->evidence->ridge.inverse : 0;
}

/* Row i of the triangle that the model keeps, in double precision. work: room for i + 1 numbers. */
static l3a_status read_row(const struct evidence *evidence, size_t i, void *work, double *row) {
    l3a_status status = L3A_OK;
    if (!evidence->part_count) {
        return sums_read(&evidence->ridge.sums, KEPT, i, 1, row);
    }
    memset(row, 0, (i + 1) * sizeof *row);
    for (size_t p = 0; p < evidence->part_count; p++) {
        const struct scatter *sums = &evidence->parts[p].sums;
        TRY(scatter_read(sums, triangle_numbers(0, i), i + 1, work));
        for (size_t j = 0; j <= i; j++) {
            row[j] += real_get(sums->type, work, j);
        }
    }
done:
    return status;
}

l3a_status l3a_model_matrix(const l3a_model *model, size_t first, size_t count, double *rows) {
    REQUIRE(model, model, rows);
    l3a_status status = L3A_OK;
    const size_t d = model_dim(model);
    double *row = NULL, *work = NULL;
    FAIL_IF(first > d || count > d - first, model->context, L3A_ERROR_ARGUMENT, NULL,
            "rows %zu to %zu are requested from a matrix with %zu", first, first + count, d);
    TRY(allocate(model->context, d, sizeof *row, &row));
    TRY(allocate(model->context, d, sizeof *work, &work));
    for (size_t i = first; i < d; i++) {
        TRY(read_row(model->evidence, i, work, row));
        for (size_t r = first; r < first + count && r < i; r++) {
            rows[(r - first) * d + i] = row[r];
        }
        if (i < first + count) {
            memcpy(rows + (i - first) * d, row, (i + 1) * sizeof *row);
        }
    }
done:
    release(model->context, row);
    release(model->context, work);
    return status;
}

const char *l3a_model_record(const l3a_model *model, const char *key) {
    if (!model || !key) {
        return NULL;
    }
    const size_t index = text_list_find(&model->record_keys, key);
    return index < model->record_values.count ? model->record_values.items[index] : NULL;
}

l3a_status l3a_model_set_record(l3a_model *model, const char *key, const char *value) {
    REQUIRE(model, model, key, value);
    return text_record_set(model->context, &model->record_keys, &model->record_values, key, value);
}

l3a_status l3a_model_score(l3a_model *model, const float *features, size_t rows, float *scores) {
    REQUIRE(model, model, features, scores);
    const l3a_status status = model_ready(model);
    return status == L3A_OK ? score_features(model->context, &model->layer, &model->solution, scored_views(&model->options),
                                             features, rows, scores, NULL)
                            : status;
}

l3a_status l3a_model_accepts(l3a_model *model, const l3a_features *features) {
    REQUIRE(model, model, features);
    return check_provenance(model->context, model->width, (size_t)model->options.views, &model->record_keys, &model->record_values,
                            features);
}

l3a_status l3a_model_accepts_to_score(l3a_model *model, const l3a_features *features) {
    REQUIRE(model, model, features);
    return check_provenance(model->context, model->width, scored_views(&model->options), &model->record_keys, &model->record_values,
                            features);
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
    size_t count; /* of all processes, until take_own_part() */
    const size_t *columns;
    size_t column_count;
};

/* Reads the rows of a table into the phase's block, and passes them to l3a_phase_survey() or l3a_phase_learn(). */
static l3a_status hand_over(l3a_model *model, const struct pass *pass, bool survey) {
    l3a_context *context = model->context;
    const struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    TRY(phase_prepare_block(model, NULL));
    for (size_t first = 0, n; first < pass->count; first += n) {
        const size_t room = phase->block - phase->staged;
        float *features = phase->features + phase->staged * model_image(model);
        int8_t *labels = phase->own + phase->staged * pass->column_count;
        n = pass->count - first < room ? pass->count - first : room;
        TRY(report_progress(context, pass->stage, first, pass->count));
        TRY(l3a_features_read(pass->features, pass->rows + first, 0, n, features));
        if (survey) {
            TRY(l3a_phase_survey(model, features, n));
        } else {
            features_gather_labels(pass->features, pass->rows + first, n, pass->columns, pass->column_count, labels);
            TRY(l3a_phase_learn(model, features, labels, n));
        }
    }
    TRY(report_progress(context, pass->stage, pass->count, pass->count));
done:
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

/* Leaves the rows of this process in the pass. */
static void take_own_part(const l3a_context *context, struct pass *pass) {
    size_t first;
    own_part(context, pass->count, &first, &pass->count);
    pass->rows += first;
}

static bool knows_any(const l3a_model *model, const char *const *classes, size_t count) {
    bool knows = false;
    for (size_t i = 0; i < count && !knows; i++) {
        knows = text_list_find(&model->classes, classes[i]) < model->classes.count;
    }
    return knows;
}

/* More images of classes that are known, and possibly of new ones. */
static l3a_status learn_more(l3a_model *model, l3a_features *features, const char *const *classes, size_t count) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    size_t *columns = NULL, *rows = NULL, row_count;
    text_index index = {0};
    l3a_teach_report report;
    size_t first;
    char line[HOLD_TEXT];
    TRY(hold_describe(features, classes, count, line));
    FAIL_IF(model_holds_some(model, line), context, L3A_ERROR_EXISTS, "give images that it has not learned",
            "%s: the model has already learned %s of these classes", features->path,
            model_holds(model, line) ? "these images" : "some of these images");
    TRY(text_index_make(context, (char *const *)classes, count, &index));
    const size_t second = text_index_repeated(&index, &first);
    FAIL_IF(second < count, context, L3A_ERROR_CLASS, "name every class once", "class '%s' is listed twice", classes[second]);
    TRY(allocate(context, count, sizeof *columns, &columns));
    TRY(features_columns(features, classes, count, columns));
    TRY(features_rows_with(features, columns, count, &rows, &row_count));
    FAIL_IF(!row_count, context, L3A_ERROR_DATA, "give images that show the classes",
            "%s: no image has any of the %zu classes ('%s'%s)", features->path, count, classes[0], count > 1 ? ", …" : "");
    const struct taught taught = {features, rows, columns, row_count, count};
    TRY(model_hold(model, line));
    status = model_teach(model, &taught, 1, &report);
    if (status != L3A_OK) {
        model_let_go(model, line);
    }
done:
    text_index_free(context, &index);
    release(context, columns);
    release(context, rows);
    return status;
}

l3a_status l3a_model_learn(l3a_model *model, l3a_features *features, const char *const *classes, size_t class_count) {
    REQUIRE(model, model, features, classes);
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    size_t *columns = NULL, *rows = NULL, unlabelled = 0;
    bool begun = false;
    char line[HOLD_TEXT] = "";
    TRY(need_items(context, __func__, "classes", classes, class_count));
    if (knows_any(model, classes, class_count)) {
        return learn_more(model, features, classes, class_count);
    }
    TRY(l3a_model_accepts(model, features));
    TRY(l3a_phase_begin(model, classes, class_count));
    begun = true;
    TRY(allocate(context, class_count, sizeof *columns, &columns));
    TRY(features_columns(features, classes, class_count, columns));
    struct pass pass = {"survey", features, NULL, 0, columns, class_count};
    TRY(find_phase_rows(model, &pass, &rows, &unlabelled));
    TRY(hold_describe(features, classes, class_count, line));
    line[0] = model_holds(model, line) ? '\0' : line[0]; /* of classes that were forgotten */
    take_own_part(context, &pass);
    model->phase.table = features;
    model->phase.table_rows = pass.rows;
    TRY(count_rows(model, &pass));
    if (model->options.pseudo == L3A_PSEUDO_DYNAMIC && model->classes.count) {
        TRY(hand_over(model, &pass, true));
    }
    pass.stage = "learn";
    TRY(hand_over(model, &pass, false));
    TRY(model_keep_provenance(model, features));
    TRY(model_hold(model, line));
    TRY(l3a_phase_end(model));
    model->phases[model->phase_count - 1].skipped += unlabelled;
done:
    if (status != L3A_OK && begun) {
        model_let_go(model, line);
        l3a_phase_abandon(model);
    }
    release(context, columns);
    release(context, rows);
    return status;
}

/* Puts the memory of the phase to come into the plan. */
static l3a_status plan_phase(const l3a_model *model, const struct phase_size *phase, l3a_plan *plan) {
    l3a_status status = L3A_OK;
    struct footprint needed, held;
    struct placement placed;
    for (enum place place = 0; place < PLACE_COUNT; place++) {
        needed.in[place] = phase_memory(place, model->context, &model->options, model->width, phase);
    }
    model_memory(model, &held);
    TRY(place_parts(model->context, &needed, &held, plan->phase, &placed));
    plan->memory = placed.processor;
    plan->device_memory = placed.device;
    plan->spilled_phases = placed.spilled;
done:
    return status;
}

l3a_status l3a_model_prepare(l3a_model *model, l3a_features *features, const char *const *classes, size_t class_count,
                             uint64_t *images, l3a_plan *plan) {
    REQUIRE(model, model, features, classes, images, plan);
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    size_t *columns = NULL, *rows = NULL, unlabelled;
    const size_t old = model->classes.count;
    l3a_plan own = {.size = sizeof own};
    TRY(need_items(context, __func__, "classes", classes, class_count));
    FAIL_IF(!class_count, context, L3A_ERROR_ARGUMENT, "name the classes of the phase", "the phase has no classes");
    TRY(l3a_model_accepts(model, features));
    TRY(allocate(context, class_count, sizeof *columns, &columns));
    TRY(features_columns(features, classes, class_count, columns));
    struct pass pass = {.features = features, .columns = columns, .column_count = class_count};
    TRY(find_phase_rows(model, &pass, &rows, &unlabelled));
    TRY(model_plan(context, &model->options, model->width, old + class_count, &own));
    const struct phase_size phase = {old, old + class_count, pass.count, model->evidence->part_count,
                                     model->evidence->ridge.inverse};
    TRY(plan_phase(model, &phase, &own));
    own.memory += features_label_bytes(features);
    own.file += kept_phases(&model->options, model->evidence->part_count + 1) * own.phase;
    TRY(WRITE_SIZED(context, plan, own));
    *images = pass.count;
done:
    release(context, columns);
    release(context, rows);
    return status;
}

static l3a_status score_block(void *model, const float *features, size_t rows, float *const *scores) {
    return l3a_model_score(model, features, rows, scores[0]);
}

l3a_status l3a_model_evaluate(l3a_model *model, l3a_features *features, l3a_metrics *metrics, double *average_precision) {
    REQUIRE(model, model, features, metrics);
    return l3a_model_evaluate_with(model, features, NULL, metrics, average_precision);
}

l3a_status l3a_model_evaluate_with(l3a_model *model, l3a_features *features, const l3a_evaluate_options *options,
                                   l3a_metrics *metrics, double *average_precision) {
    REQUIRE(model, model, features, metrics);
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t classes = model->classes.count;
    struct evaluation evaluation = {0};
    size_t *columns = NULL;
    double *thresholds = NULL;
    l3a_metrics own;
    l3a_evaluate_options chosen;
    TRY(CHECK_SIZED(context, metrics));
    TRY(READ_SIZED(context, options, chosen));
    FAIL_IF(!classes, context, L3A_ERROR_STATE, "learn or teach a class first", "the model has learned no class yet");
    TRY(l3a_model_accepts_to_score(model, features));
    TRY(allocate(context, classes, sizeof *columns, &columns));
    TRY(features_columns(features, (const char *const *)model->classes.items, classes, columns));
    TRY((chosen.all_images ? evaluation_begin_all : evaluation_begin)(features, columns, classes, &evaluation));
    FAIL_IF(!memchr(evaluation.labels, 1, evaluation.count * classes), context, L3A_ERROR_DATA,
            "measure on images that show the model's classes", "%s: no image has any of the model's classes", features->path);
    TRY(evaluation_score(&evaluation, 1, score_ahead(context), score_block, model));
    TRY(allocate(context, classes, sizeof *thresholds, &thresholds));
    l3a_model_thresholds(model, thresholds);
    TRY(evaluation_measure(&evaluation, 0, thresholds, &own, average_precision));
    own.left_out = features->rows - evaluation.count;
    TRY(WRITE_SIZED(context, metrics, own));
done:
    evaluation_free(&evaluation);
    release(context, columns);
    release(context, thresholds);
    return status;
}
