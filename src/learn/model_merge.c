/* Merging: adds up what was learned in different places. A and C are sums over images, so those of two models that share the
 * random layer and the ridge add up to the sums over all images, and W follows from them.
 *
 * The result equals the model that one place with all images would have learned, if no image's contribution depends on other
 * images: without pseudo-labels (they depend on what was learned before), and with ω = 1, or with weights `literal` of classes
 * that only one of the models has, since v_k = f_k^(-1/2) needs f_k alone. Otherwise each image keeps the weight it had where it
 * was learned, and the result is close to that model, but not the same. γ is not part of the sums: if each model chose its own,
 * the result has that of the first. */
#include "base/text_index.h"
#include "learn/model_change.h"
#include "learn/model_holds.h"

#include <math.h>
#include <string.h>

enum { NEW = -1 };
static const size_t NONE = SIZE_MAX;

/* Where the classes, phases and parts of the other model go. */
struct plan {
    size_t *place;          /* of each class of the other, in the result */
    size_t *phase;          /* of each phase of the other, in the result; NONE: it brings no new class */
    ptrdiff_t *part;        /* the model's part that takes each part of the other, or NEW */
    size_t classes, phases; /* of the result */
    bool overlap;
};

static l3a_status compare_settings(const l3a_model *model, const l3a_model *other) {
    static const char *const names[] = {"dim",           "seed",        "gamma",   "gamma-from", "precision", "alpha", "lift",
                                        "skip-features", "keep-phases", "weights", "scaling",    "pseudo",    "views", "beta"};
    l3a_status status = L3A_OK;
    l3a_context *context = model->context;
    FAIL_IF(model->width != other->width, context, L3A_ERROR_MISMATCH, "merge models that learned features of the same backbone",
            "one model takes features %zu wide, the other %zu", model->width, other->width);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char own[64], others[64];
        model_options_get(&model->options, names[i], own, sizeof own);
        model_options_get(&other->options, names[i], others, sizeof others);
        const char *mine = model_record(model, "gamma"), *theirs = model_record(other, "gamma");
        const bool chosen = strcmp(names[i], "gamma") == 0 && mine && theirs && strcmp(mine, theirs) == 0;
        FAIL_IF(strcmp(own, others) != 0 && !chosen, context, L3A_ERROR_MISMATCH, "learn both with the same settings",
                "%s is %s in one model and %s in the other", names[i], own, others);
    }
    const char *mine[PROVENANCE], *theirs[PROVENANCE];
    for (size_t i = 0; i < PROVENANCE; i++) {
        mine[i] = model_record(model, provenance[i]);
        theirs[i] = model_record(other, provenance[i]);
    }
    const size_t i = provenance_conflict(mine, theirs);
    FAIL_IF(i < PROVENANCE, context, L3A_ERROR_MISMATCH, "merge models that learned features made in the same way",
            "%s is '%s' in one model and '%s' in the other", provenance[i], provenance_text(mine[i]), provenance_text(theirs[i]));
done:
    return status;
}

/* The phase of the model that has exactly the classes of a phase of the other model, in any order; or NONE. */
static size_t same_phase(const l3a_model *model, const l3a_phase_info *theirs, const struct plan *plan) {
    size_t found = NONE;
    for (size_t p = 0; p < model->phase_count && found == NONE; p++) {
        const l3a_phase_info *mine = &model->phases[p];
        bool same = mine->last - mine->first == theirs->last - theirs->first;
        for (size_t k = theirs->first; same && k < theirs->last; k++) {
            same = plan->place[k] >= mine->first && plan->place[k] < mine->last;
        }
        found = same ? p : NONE;
    }
    return found;
}

/* Classes that the model lacks come last, and are phases of their own. */
static l3a_status plan_classes(const l3a_model *model, const l3a_model *other, struct plan *plan) {
    l3a_status status = L3A_OK;
    text_index classes = {0};
    TRY(text_index_make(model->context, model->classes.items, model->classes.count, &classes));
    plan->classes = model->classes.count;
    plan->phases = model->phase_count;
    for (size_t p = 0; p < other->phase_count; p++) {
        const l3a_phase_info *theirs = &other->phases[p];
        const size_t before = plan->classes;
        for (size_t k = theirs->first; k < theirs->last; k++) {
            const size_t at = text_index_find(&classes, other->classes.items[k]);
            plan->overlap = plan->overlap || at < model->classes.count;
            plan->place[k] = at < model->classes.count ? at : plan->classes++;
        }
        plan->phase[p] = plan->classes > before ? plan->phases++ : same_phase(model, theirs, plan);
    }
done:
    text_index_free(model->context, &classes);
    return status;
}

/* Whether a part of the model judges what a part of the other model does. */
static bool same_judged(const struct part *mine, const struct part *theirs, const struct plan *plan) {
    bool same = mine->judged_count == theirs->judged_count;
    for (size_t i = 0; same && i < theirs->judged_count; i++) {
        same = part_judges(mine, plan->place[theirs->judged[i]]);
    }
    return same;
}

/* Parts that judge the same classes in both models are added, others are appended. */
static l3a_status plan_parts(const l3a_model *model, const l3a_model *other, struct plan *plan) {
    const struct evidence *mine = model->evidence, *theirs = other->evidence;
    l3a_status status = L3A_OK;
    FAIL_IF(keeps_phases(&model->options) != keeps_phases(&other->options), model->context, L3A_ERROR_MISMATCH,
            "learn both with the same keep-phases", "one model keeps its phases apart, but the other does not");
    for (size_t i = 0; i < theirs->part_count; i++) {
        plan->part[i] = NEW;
        for (size_t j = 0; j < mine->part_count; j++) {
            plan->part[i] = same_judged(&mine->parts[j], &theirs->parts[i], plan) ? (ptrdiff_t)j : plan->part[i];
        }
    }
done:
    return status;
}

/* Appends a copy of a part of the other model. */
static l3a_status copy_part(l3a_model *model, const struct part *theirs, const struct plan *plan) {
    struct evidence *evidence = model->evidence;
    struct part *made = &evidence->parts[evidence->part_count];
    l3a_status status = L3A_OK;
    TRY(part_create(model->context, theirs->sums.dim, theirs->sums.type, 0, theirs->judged_count, made));
    evidence->part_count++;
    made->phases = theirs->phases;
    made->images = theirs->images;
    for (size_t i = 0; i < theirs->judged_count; i++) {
        made->judged[i] = plan->place[theirs->judged[i]];
    }
    part_sort_judged(made);
    TRY(scatter_add(&made->sums, &theirs->sums));
done:
    return status;
}

/* Merges the sums of phases kept apart: parts that both models have are added, others are appended. */
static l3a_status merge_parts(l3a_model *model, const l3a_model *other, const struct plan *plan) {
    l3a_context *context = model->context;
    struct evidence *mine = model->evidence;
    const struct evidence *theirs = other->evidence;
    l3a_status status = L3A_OK;
    evidence_changed(mine);
    TRY(extend_array(context, &mine->parts, mine->part_count, mine->part_count + theirs->part_count, sizeof *mine->parts));
    for (size_t i = 0; i < theirs->part_count; i++) {
        TRY(report_progress(context, "merge", i, theirs->part_count));
        if (plan->part[i] == NEW) {
            TRY(copy_part(model, &theirs->parts[i], plan));
        } else {
            struct part *to = &mine->parts[plan->part[i]];
            to->images += theirs->parts[i].images;
            TRY(scatter_add(&to->sums, &theirs->parts[i].sums));
        }
    }
done:
    return status;
}

static l3a_status merge_sums(l3a_model *model, l3a_model *other) {
    l3a_status status = L3A_OK;
    const size_t d = model_dim(model);
    struct sums *mine = &model->evidence->ridge.sums, *theirs = &other->evidence->ridge.sums;
    double *rows = NULL, *added = NULL;
    TRY(ridge_use_inverse(&model->evidence->ridge, false));
    TRY(ridge_use_inverse(&other->evidence->ridge, false));
    TRY(allocate(model->context, strip_numbers(d), sizeof *rows, &rows));
    TRY(allocate(model->context, strip_numbers(d), sizeof *added, &added));
    for (size_t i = 0, count; i < d; i += count) {
        count = strip_rows(d, i);
        const size_t numbers = (size_t)triangle_numbers(i, count);
        TRY(sums_read(mine, KEPT, i, count, rows));
        TRY(sums_read(theirs, KEPT, i, count, added));
        for (size_t j = 0; j < numbers; j++) {
            rows[j] += added[j];
        }
        TRY(sums_write(mine, KEPT, i, count, rows));
    }
done:
    release(model->context, rows);
    release(model->context, added);
    return status;
}

/* v of a class that both models have: known only if it was the same in both. */
static double common_weight(double mine, double theirs) {
    return fabs(mine - theirs) <= 1e-12 * mine ? mine : 0;
}

/* The phases of the result. */
static void merge_phases(const l3a_model *model, const l3a_model *other, const struct plan *plan, l3a_phase_info *phases) {
    const size_t old = model->classes.count;
    if (model->phase_count) {
        memcpy(phases, model->phases, model->phase_count * sizeof *phases);
    }
    for (size_t p = 0, first = old; p < other->phase_count; p++) {
        const l3a_phase_info *info = &other->phases[p];
        if (plan->phase[p] == NONE) {
            continue;
        }
        l3a_phase_info *to = &phases[plan->phase[p]];
        if (plan->phase[p] >= model->phase_count) {
            size_t added = 0;
            for (size_t k = info->first; k < info->last; k++) {
                added += plan->place[k] >= old;
            }
            *to = (l3a_phase_info){.first = first, .last = first + added, .eta = info->eta};
            first += added;
        }
        to->images += info->images;
        to->skipped += info->skipped;
        to->pseudo_labels += info->pseudo_labels;
        to->recursive = 0;
    }
}

static l3a_status merge_columns(l3a_model *model, const l3a_model *other, const struct plan *plan) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t d = model_dim(model), old = model->classes.count, theirs = other->classes.count, all = plan->classes;
    struct model_columns made = {0};
    text_list classes = {0};
    l3a_phase_info *phases = NULL;
    TRY(model_columns_extend(model, all, &made));
    TRY(allocate_zeroed(context, plan->phases, sizeof *phases, &phases));
    TRY(text_list_add_all(context, &classes, &model->classes));
    for (size_t k = 0; k < theirs; k++) {
        const size_t to = plan->place[k];
        made.counts[to] += other->counts[k];
        made.label_weight[to] += other->label_weight[k];
        made.class_weight[to] = to < old ? common_weight(made.class_weight[to], other->class_weight[k]) : other->class_weight[k];
        for (size_t i = 0; i < d; i++) {
            made.cross[i * all + to] += other->evidence->cross[i * theirs + k];
        }
        if (to >= old) {
            TRY(text_list_add(context, &classes, other->classes.items[k], strlen(other->classes.items[k])));
        }
    }
    merge_phases(model, other, plan, phases);
    model_columns_adopt(model, &made);
    release(context, model->phases);
    model->phases = phases;
    model->phase_count = plan->phases;
    phases = NULL;
    text_list_clear(context, &model->classes);
    model->classes = classes;
    classes = (text_list){0};
done:
    model_columns_free(context, &made);
    text_list_clear(context, &classes);
    release(context, phases);
    return status;
}

/* Adds the records of the other model that the model lacks. */
static l3a_status merge_records(l3a_model *model, const l3a_model *other) {
    l3a_status status = L3A_OK;
    TRY(holds_merge(model, other));
    for (size_t i = 0; i < other->record_keys.count; i++) {
        if (!model_record(model, other->record_keys.items[i])) {
            TRY(model_set_record(model, other->record_keys.items[i], other->record_values.items[i]));
        }
    }
    TRY(model_set_record(model, "merged", "yes"));
done:
    return status;
}

/* Whether the result will equal the model that one place with all images would have learned. */
static bool will_be_exact(const l3a_model *model, const l3a_model *other, const struct plan *plan) {
    const struct model_options *options = &model->options;
    const uint64_t keep = options->keep_phases;
    const bool weighs_alone = options->weights == L3A_WEIGHTS_NONE || (options->scaling == L3A_SCALING_LITERAL && !plan->overlap);
    const bool labels_alone = (options->pseudo == L3A_PSEUDO_OFF && other->options.pseudo == L3A_PSEUDO_OFF) || plan->phases == 1;
    const bool folds =
        is_folded(model) || is_folded(other) || (keep && plan->phases > keep && (options->alpha < 1 || options->lift > 0));
    return weighs_alone && labels_alone && !folds && !has_pseudo_labels(model, 0) && !has_pseudo_labels(other, 0) &&
           !has_chosen_gamma(model) && !has_chosen_gamma(other) && !has_dropped_classes(model) && !has_dropped_classes(other);
}

l3a_status l3a_model_merge(l3a_model *model, l3a_model *other, int *exact) {
    REQUIRE(model, model, other, exact);
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    struct plan plan = {0};
    FAIL_IF(model == other, context, L3A_ERROR_ARGUMENT, NULL, "a model cannot be merged with itself");
    FAIL_IF(other->context != context, context, L3A_ERROR_ARGUMENT, "load both models with the same context",
            "the models belong to different contexts");
    TRY(check_state(model, false));
    TRY(check_state(other, false));
    FAIL_IF(!model->classes.count || !other->classes.count, context, L3A_ERROR_STATE, "learn or teach a class first",
            "a model that has learned nothing cannot be merged");
    TRY(compare_settings(model, other));
    TRY(holds_compare(model, other));
    TRY(allocate_zeroed(context, other->classes.count, sizeof *plan.place, &plan.place));
    TRY(allocate_zeroed(context, other->phase_count, sizeof *plan.phase, &plan.phase));
    TRY(allocate_zeroed(context, other->evidence->part_count + 1, sizeof *plan.part, &plan.part));
    TRY(plan_classes(model, other, &plan));
    TRY(plan_parts(model, other, &plan));
    const bool same = will_be_exact(model, other, &plan);
    model->state = MODEL_BROKEN;
    TRY(merge_parts(model, other, &plan));
    if (!model->evidence->part_count) {
        TRY(report_progress(context, "merge", 0, 1));
        TRY(merge_sums(model, other));
    }
    TRY(unlabelled_merge(model, &other->evidence->unlabelled));
    TRY(merge_columns(model, other, &plan));
    TRY(merge_records(model, other));
    TRY(model_fold(model));
    TRY(model_settle(model, true));
    *exact = same;
done:
    release(context, plan.place);
    release(context, plan.phase);
    release(context, plan.part);
    return status;
}
