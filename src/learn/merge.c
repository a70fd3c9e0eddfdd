/* What was learned at several places, added together. A and C are sums over images, so those of two models that share the random
 * layer and the ridge add up to the sums over all images, and W follows from them.
 *
 * The result is the model that one place with all images would have, where an image's part in the sums does not depend on the other
 * images: without pseudo-labels (they are made from what was learned before), and with ω = 1, or with weights `literal` of classes
 * that only one of the models has: v_k = f_k^(-1/2) needs f_k alone. Otherwise each image keeps the weight it had where it was
 * learned, and the result is close to that model, not the same. */
#include "learn/merge.h"

#include <string.h>

/* Where the classes and phases of the other model go. */
struct plan {
    size_t *place;          /* of each class of the other, in the result */
    size_t *phase;          /* of each phase of the other, in the result */
    size_t classes, phases; /* of the result */
    bool overlap;
};

static l3a_status compare_settings(const l3a_model *model, const l3a_model *other) {
    static const char *const names[] = {"dim",           "seed",        "gamma",   "precision", "alpha", "lift",
                                        "skip-features", "keep-phases", "weights", "scaling",   "pseudo"};
    l3a_status status = L3A_OK;
    l3a_context *context = model->context;
    FAIL_IF(model->width != other->width, context, L3A_ERROR_MISMATCH, "both must come from features of one backbone",
            "one model takes features %zu wide, the other %zu", model->width, other->width);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char mine[64], theirs[64];
        l3a_options_get(&model->options, names[i], mine, sizeof mine);
        l3a_options_get(&other->options, names[i], theirs, sizeof theirs);
        FAIL_IF(strcmp(mine, theirs) != 0, context, L3A_ERROR_MISMATCH, "learn both with the same settings",
                "%s is %s in one model and %s in the other", names[i], mine, theirs);
    }
    for (size_t i = 0; i < other->record_keys.count; i++) {
        const char *key = other->record_keys.items[i], *mine = l3a_model_record(model, key);
        for (size_t j = 0; j < PROVENANCE; j++) {
            FAIL_IF(mine && strcmp(key, provenance[j]) == 0 && strcmp(mine, other->record_values.items[i]) != 0, context,
                    L3A_ERROR_MISMATCH, "sums of features from different backbones mean nothing",
                    "%s is '%s' in one model and '%s' in the other", key, mine, other->record_values.items[i]);
        }
    }
done:
    return status;
}

static bool same_classes(const l3a_model *model, const l3a_phase_info *mine, const l3a_model *other, const l3a_phase_info *theirs) {
    bool same = mine->last - mine->first == theirs->last - theirs->first;
    for (size_t k = 0; same && k < mine->last - mine->first; k++) {
        same = strcmp(model->classes.items[mine->first + k], other->classes.items[theirs->first + k]) == 0;
    }
    return same;
}

/* A phase of the other is one of the model's, class for class, or has only classes that the model lacks. */
static l3a_status make_plan(const l3a_model *model, const l3a_model *other, struct plan *plan) {
    l3a_status status = L3A_OK;
    plan->classes = model->classes.count;
    plan->phases = model->phase_count;
    for (size_t p = 0; p < other->phase_count; p++) {
        const l3a_phase_info *theirs = &other->phases[p];
        size_t q = 0;
        while (q < model->phase_count && !same_classes(model, &model->phases[q], other, theirs)) {
            q++;
        }
        const bool found = q < model->phase_count;
        plan->overlap = plan->overlap || found;
        plan->phase[p] = found ? q : plan->phases++;
        for (size_t k = theirs->first; k < theirs->last; k++) {
            const char *name = other->classes.items[k];
            FAIL_IF(!found && text_list_find(&model->classes, name) < model->classes.count, model->context, L3A_ERROR_CLASS,
                    "merge models whose phases have the same classes, or none in common",
                    "class '%s' was learned in phases with different classes", name);
            plan->place[k] = found ? model->phases[q].first + k - theirs->first : plan->classes++;
        }
    }
done:
    return status;
}

static bool same_part(const struct part *mine, const struct part *theirs, const struct plan *plan) {
    return mine->phases == theirs->phases && mine->first == plan->place[theirs->first] &&
           mine->last == plan->place[theirs->last - 1] + 1;
}

/* The sums of phases kept apart: those of a phase that both have are added, others follow. */
static l3a_status merge_parts(l3a_model *model, const l3a_model *other, const struct plan *plan) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t d = model->analytic.dim;
    struct part *parts = NULL;
    FAIL_IF((model->part_count == 0) != (other->part_count == 0), context, L3A_ERROR_MISMATCH,
            "learn both with the same --keep-phases", "one model keeps its phases apart, and the other does not");
    TRY(allocate_zeroed(context, model->part_count + other->part_count + 1, sizeof *parts, &parts));
    if (model->part_count) {
        memcpy(parts, model->parts, model->part_count * sizeof *parts);
    }
    release(context, model->parts);
    model->parts = parts;
    for (size_t i = 0; i < other->part_count; i++) {
        const struct part *theirs = &other->parts[i];
        size_t q = 0;
        while (q < model->part_count && !same_part(&model->parts[q], theirs, plan)) {
            q++;
        }
        if (q < model->part_count) {
            packed_add(d, &model->parts[q].sums, 1, &theirs->sums, 1);
            continue;
        }
        FAIL_IF(plan->place[theirs->first] < model->classes.count, context, L3A_ERROR_MISMATCH,
                "merge models whose phases were folded in the same way, or not at all",
                "the phase of class '%s' was folded together with others in one of the models",
                other->classes.items[theirs->first]);
        struct part *made = &model->parts[model->part_count];
        *made = *theirs;
        made->first = plan->place[theirs->first];
        made->last = plan->place[theirs->last - 1] + 1;
        TRY(packed_create(context, d, theirs->sums.type, &made->sums));
        model->part_count++;
        packed_add(d, &made->sums, 0, &theirs->sums, 1);
    }
done:
    return status;
}

static l3a_status merge_sums(l3a_model *model, l3a_model *other) {
    l3a_status status = L3A_OK;
    TRY(analytic_use_inverse(&model->analytic, false));
    TRY(analytic_use_inverse(&other->analytic, false));
    for (size_t i = 0; i < model->analytic.dim; i++) {
        double *mine = analytic_row(&model->analytic, i);
        const double *theirs = analytic_row(&other->analytic, i);
        for (size_t j = 0; j <= i; j++) {
            mine[j] += theirs[j];
        }
    }
done:
    return status;
}

static l3a_status merge_columns(l3a_model *model, const l3a_model *other, const struct plan *plan) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t d = model->analytic.dim, old = model->classes.count, theirs = other->classes.count, all = plan->classes;
    struct model_columns made = {0};
    l3a_phase_info *phases = NULL;
    TRY(model_columns_create(context, d, all, &made));
    TRY(allocate_zeroed(context, plan->phases, sizeof *phases, &phases));
    for (size_t k = 0; k < old; k++) {
        model_columns_copy(&made, d, all, k, model, k);
    }
    for (size_t k = 0; k < theirs; k++) {
        const size_t to = plan->place[k];
        made.counts[to] += other->counts[k];
        made.label_weight[to] += other->label_weight[k];
        for (size_t i = 0; i < d; i++) {
            made.cross[i * all + to] += other->cross[i * theirs + k];
        }
        if (to >= old) {
            TRY(text_list_add(context, &model->classes, other->classes.items[k], strlen(other->classes.items[k])));
        }
    }
    if (model->phase_count) {
        memcpy(phases, model->phases, model->phase_count * sizeof *phases);
    }
    for (size_t p = 0; p < other->phase_count; p++) {
        const l3a_phase_info *info = &other->phases[p];
        l3a_phase_info *to = &phases[plan->phase[p]];
        const l3a_phase_info before = *to;
        *to = *info;
        to->first = plan->place[info->first];
        to->last = plan->place[info->last - 1] + 1;
        to->images += before.images;
        to->skipped += before.skipped;
        to->pseudo_labels += before.pseudo_labels;
        to->recursive = 0;
    }
    model_columns_adopt(model, &made);
    release(context, model->phases);
    model->phases = phases;
    model->phase_count = plan->phases;
    phases = NULL;
done:
    model_columns_free(context, &made);
    release(context, phases);
    return status;
}

l3a_status l3a_model_merge(l3a_model *model, l3a_model *other, int *exact) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    struct plan plan = {0};
    FAIL_IF(model == other, context, L3A_ERROR_ARGUMENT, NULL, "a model cannot be merged with itself");
    FAIL_IF(model->state != MODEL_READY || other->state != MODEL_READY, context, L3A_ERROR_STATE, "end the phase first",
            "a phase is going on");
    FAIL_IF(!model->classes.count || !other->classes.count, context, L3A_ERROR_STATE, "learn a phase first",
            "a model that has learned nothing cannot be merged");
    TRY(compare_settings(model, other));
    TRY(allocate_zeroed(context, other->classes.count, sizeof *plan.place, &plan.place));
    TRY(allocate_zeroed(context, other->phase_count, sizeof *plan.phase, &plan.phase));
    TRY(make_plan(model, other, &plan));
    model->state = MODEL_BROKEN;
    TRY(merge_parts(model, other, &plan));
    if (!model->part_count) {
        TRY(merge_sums(model, other));
    }
    TRY(merge_columns(model, other, &plan));
    TRY(model_solve(model, model->classes.count, model->cross, model->weights));
    model->state = MODEL_READY;
    const l3a_options *options = &model->options;
    const bool alone = options->weights == L3A_WEIGHTS_NONE || (options->scaling == L3A_SCALING_LITERAL && !plan.overlap);
    *exact = alone && (options->pseudo == L3A_PSEUDO_OFF || model->phase_count == 1);
done:
    release(context, plan.place);
    release(context, plan.phase);
    return status;
}
