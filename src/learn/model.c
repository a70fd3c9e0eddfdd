/* Models: creation, settings, records and queries. */
#include "learn/model.h"

#include "base/plugin.h"
#include "base/sized.h"
#include "data/features.h"
#include "learn/model_plan.h"

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
    unlabelled_free(context, &evidence->unlabelled);
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
    phase_abandon(model);
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

static l3a_status ready_layer(l3a_model *model) {
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
    TRY(ready_layer(model));
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
                                        "lift", "skip-features", "weights", "scaling",    "views",     "beta"};
    l3a_status status = L3A_OK;
    struct model_options changed = model->options;
    TRY(model_options_set(model->context, &changed, name, value));
    if (changed.gamma == 0 && model_record(model, "gamma")) {
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

l3a_status model_set_record(l3a_model *model, const char *key, const char *value) {
    return text_record_set(model->context, &model->record_keys, &model->record_values, key, value);
}

const char *l3a_model_record(const l3a_model *model, const char *key) {
    return model && key ? model_record(model, key) : NULL;
}

l3a_status l3a_model_set_record(l3a_model *model, const char *key, const char *value) {
    REQUIRE(model, model, key, value);
    return model_set_record(model, key, value);
}

l3a_status model_keep_provenance(l3a_model *model, const l3a_features *features) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < PROVENANCE; i++) {
        const char *value = l3a_features_record(features, provenance[i]);
        if (value && !model_record(model, provenance[i])) {
            TRY(model_set_record(model, provenance[i], value));
        }
    }
done:
    return status;
}
