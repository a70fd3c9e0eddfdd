/* Forgetting: removes the columns of classes, the sums of a phase, or the contribution of some images.
 *
 *   a phase s kept apart: Σ A loses A_s, and its classes lose their columns;
 *   images of a phase: A_s ← A_s - Σ ω x xᵀ, C ← C - Σ ω x yᵀ, f ← f - Σ y, with the ω they were learned with: the model keeps the
 *   v_k of each class's phase.
 *
 * The result equals a model that never learned them if nothing that stays depends on them: no pseudo-labels were given later, γ
 * was not chosen from them, no phases were folded together, and ω = 1. For a phase, instead of ω = 1, it is enough that no phase
 * follows it, or that weights are `literal`, where v_k needs f_k alone. */
#include "common/closest.h"
#include "base/text_index.h"
#include "learn/model_change.h"
#include "learn/model_holds.h"
#include "learn/weights.h"

#include <inttypes.h>
#include <string.h>

/* How many of the classes [first, last) are removed. */
static size_t gone_among(const bool *gone, size_t first, size_t last) {
    size_t count = 0;
    for (size_t k = first; k < last; k++) {
        count += gone[k];
    }
    return count;
}

/* The part that holds a phase's sums, or the number of parts if there is none. */
static size_t part_of(const l3a_model *model, const l3a_phase_info *phase) {
    const struct evidence *evidence = model->evidence;
    size_t i = 0;
    while (i < evidence->part_count && !(evidence->parts[i].phases && part_judges(&evidence->parts[i], phase->first))) {
        i++;
    }
    return i;
}

static bool goes_whole(const l3a_model *model, size_t index, const bool *gone) {
    size_t i = 0;
    if (index == model->evidence->part_count) {
        return false;
    }
    const struct part *part = &model->evidence->parts[index];
    while (i < part->judged_count && gone[part->judged[i]]) {
        i++;
    }
    return i == part->judged_count;
}

/* Takes the classes in `gone` out of a judged set, and renumbers the others. */
static void drop_judged(struct part *part, const bool *gone) {
    size_t count = 0;
    for (size_t i = 0; i < part->judged_count; i++) {
        const size_t k = part->judged[i];
        if (!gone[k]) {
            part->judged[count++] = k - gone_among(gone, 0, k);
        }
    }
    part->judged_count = count;
}

l3a_status model_drop_classes(l3a_model *model, const bool *gone) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t old = model->classes.count, all = old - gone_among(gone, 0, old), d = model_dim(model);
    struct model_columns made = {0};
    text_list classes = {0};
    size_t to = 0, phases = 0;
    evidence_changed(model->evidence);
    TRY(model_columns_create(context, d, all, &made));
    for (size_t k = 0; k < old; k++) {
        if (!gone[k]) {
            TRY(text_list_add(context, &classes, model->classes.items[k], strlen(model->classes.items[k])));
            model_columns_copy(&made, d, all, to++, model, k);
        }
    }
    for (size_t i = model->evidence->part_count; i-- > 0;) {
        if (goes_whole(model, i, gone)) {
            model_drop_part(model, i);
        }
    }
    for (size_t p = 0; p < model->phase_count; p++) {
        l3a_phase_info phase = model->phases[p];
        const size_t part = part_of(model, &phase), before = gone_among(gone, 0, phase.first);
        const size_t count = gone_among(gone, phase.first, phase.last);
        const bool stays = count < phase.last - phase.first;
        if (!stays && part < model->evidence->part_count) {
            model->evidence->parts[part].phases--;
        }
        phase.first -= before;
        phase.last -= before + count;
        model->phases[phases] = phase;
        phases += stays;
    }
    model->phase_count = phases;
    for (size_t i = 0; i < model->evidence->part_count; i++) {
        drop_judged(&model->evidence->parts[i], gone);
    }
    TRY(model_unite_parts(model));
    model_columns_adopt(model, &made);
    const text_list before = model->classes;
    model->classes = classes;
    classes = before;
done:
    model_columns_free(context, &made);
    text_list_clear(context, &classes);
    return status;
}

/* Whether the rest of the model would be the same without this phase. */
static bool is_apart(const l3a_model *model, size_t phase, const bool *gone) {
    const struct model_options *options = &model->options;
    bool followed = model_record(model, "merged") != NULL;
    for (size_t p = phase + 1; p < model->phase_count; p++) {
        followed = followed ||
                   gone_among(gone, model->phases[p].first, model->phases[p].last) < model->phases[p].last - model->phases[p].first;
    }
    return (!followed || options->weights == L3A_WEIGHTS_NONE || options->scaling == L3A_SCALING_LITERAL) &&
           !has_pseudo_labels(model, phase + 1) && !is_folded(model) && !(phase == 0 && has_chosen_gamma(model));
}

/* Removes phases with their sums if these are kept apart; otherwise only columns. */
static l3a_status forget_marked(l3a_model *model, const bool *gone, int *exact) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    /* With parts, W depends on what goes: on the images of a part that goes, and on γ and the lift, which follow the classes. */
    const bool solve = model->evidence->part_count > 0;
    bool clean = !has_dropped_classes(model), dropped = false;
    FAIL_IF(gone_among(gone, 0, model->classes.count) == model->classes.count, context, L3A_ERROR_CLASS,
            "to forget everything, delete the file", "no class would be left");
    for (size_t p = 0; p < model->phase_count; p++) {
        const l3a_phase_info *phase = &model->phases[p];
        const bool whole = goes_whole(model, part_of(model, phase), gone);
        FAIL_IF(whole && phase->pseudo_labels, context, L3A_ERROR_MISMATCH,
                "learn with pseudo off if phases may have to be forgotten",
                "phase %zu gave its images pseudo-labels of older classes, which are not stored", p + 1);
        clean = clean && (!gone_among(gone, phase->first, phase->last) || (whole && is_apart(model, p, gone)));
        dropped = dropped || (!whole && gone_among(gone, phase->first, phase->last));
    }
    model->state = MODEL_BROKEN;
    if (dropped) {
        TRY(model_set_record(model, "dropped", "yes"));
    }
    for (size_t p = 0; p < model->phase_count; p++) {
        const l3a_phase_info *phase = &model->phases[p];
        TRY(goes_whole(model, part_of(model, phase), gone) ? model_let_go_phase(model, phase) : L3A_OK);
        for (size_t k = phase->first; k < phase->last && gone_among(gone, phase->first, phase->last); k++) {
            model->class_weight[k] = 0; /* its images may have had labels that are removed now */
        }
    }
    TRY(model_drop_classes(model, gone));
    TRY(model_settle(model, solve));
    *exact = clean;
done:
    return status;
}

l3a_status l3a_model_forget_classes(l3a_model *model, const char *const *classes, size_t count, int *exact) {
    REQUIRE(model, model, classes, exact);
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    bool *gone = NULL;
    text_index index = {0};
    TRY(check_state(model, false));
    TRY(need_items(context, __func__, "classes", classes, count));
    FAIL_IF(!count, context, L3A_ERROR_CLASS, "name at least one class", "no class to forget is given");
    TRY(text_index_make(context, model->classes.items, model->classes.count, &index));
    TRY(allocate_zeroed(context, model->classes.count + 1, sizeof *gone, &gone));
    for (size_t i = 0; i < count; i++) {
        const size_t k = text_index_find(&index, classes[i]);
        char hint[128];
        FAIL_IF(k == model->classes.count, context, L3A_ERROR_CLASS,
                suggest_closest(hint, sizeof hint, classes[i], (const char *const *)model->classes.items, model->classes.count,
                                "use the name of one of its classes"),
                "the model has no class '%s'", classes[i]);
        gone[k] = true;
    }
    TRY(forget_marked(model, gone, exact));
done:
    text_index_free(context, &index);
    release(context, gone);
    return status;
}

l3a_status l3a_model_forget_phase(l3a_model *model, size_t phase, int *exact) {
    REQUIRE(model, model, exact);
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    bool *gone = NULL;
    TRY(check_state(model, false));
    FAIL_IF(phase >= model->phase_count, context, L3A_ERROR_ARGUMENT, "phases are numbered from 1",
            "phase %zu is requested, but the model has only %zu", phase + 1, model->phase_count);
    const l3a_phase_info *info = &model->phases[phase];
    const size_t part = part_of(model, info);
    FAIL_IF(part == model->evidence->part_count || model->evidence->parts[part].phases > 1, context, L3A_ERROR_MISMATCH,
            model->evidence->part_count
                ? "forget the classes of all phases that it was folded with"
                : "forget its images by their features instead; l3a+ and the setting keep-phases keep phases apart",
            "the images of phase %zu are summed together with those of other phases", phase + 1);
    TRY(allocate_zeroed(context, model->classes.count, sizeof *gone, &gone));
    for (size_t k = info->first; k < info->last; k++) {
        gone[k] = true;
    }
    TRY(forget_marked(model, gone, exact));
done:
    release(context, gone);
    return status;
}

/* The images to remove from one phase, one block at a time. */
struct removal {
    l3a_model *model;
    const l3a_phase_info *phase;
    size_t *columns, *rows, count;
    size_t block; /* images */
    float *values;
    int8_t *labels;
    double *weight, *targets;
    struct block expanded;
};

static void removal_free(struct removal *r) {
    void *const all[] = {r->columns, r->rows, r->values, r->labels, r->weight, r->targets};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        release(r->model->context, all[i]);
    }
    block_free(&r->expanded);
}

static l3a_status removal_create(struct removal *r) {
    l3a_model *model = r->model;
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t all = model->classes.count, views = (size_t)model->options.views;
    r->block = images_of_rows(SCORE_ROWS, views);
    const size_t rows = r->block * view_rows(views);
    TRY(model_ready(model));
    TRY(allocate(context, rows, model->width * sizeof *r->values, &r->values));
    TRY(allocate(context, r->block, r->phase->last - r->phase->first, &r->labels));
    TRY(allocate(context, rows, sizeof *r->weight, &r->weight));
    TRY(allocate(context, rows, all * sizeof *r->targets, &r->targets));
    r->expanded = (struct block){.context = context, .layer = &model->layer, .capacity = rows, .columns = all};
    TRY(block_create(&r->expanded));
done:
    return status;
}

/* The weight and y of the rows of a block of images, as they were learned. */
static void weigh_block(struct removal *r, size_t n) {
    l3a_model *model = r->model;
    const size_t first = r->phase->first, own = r->phase->last - first, all = model->classes.count;
    const size_t views = (size_t)model->options.views, each = view_rows(views);
    memset(r->targets, 0, n * each * all * sizeof *r->targets);
    for (size_t i = 0; i < n; i++) {
        const int8_t *labels = r->labels + i * own;
        const double weight = sample_weight(labels, model->class_weight + first, own);
        for (size_t v = 0; v < each; v++) {
            r->weight[i * each + v] = view_weight(weight, v, views);
        }
        for (size_t k = 0; k < own; k++) {
            for (size_t v = 0; v < each; v++) {
                r->targets[(i * each + v) * all + first + k] = labels[k] == 1;
            }
            model->label_weight[first + k] -= labels[k] == 1 ? weight : 0;
        }
    }
}

/* Sums up the images, and subtracts the sums. */
static l3a_status remove_rows(struct removal *r, l3a_features *features, size_t part) {
    l3a_model *model = r->model;
    struct evidence *evidence = model->evidence;
    struct sums *sums = &evidence->ridge.sums;
    l3a_status status = L3A_OK;
    const size_t own = r->phase->last - r->phase->first;
    TRY(sums_begin(sums, model->classes.count));
    for (size_t first = 0; first < r->count; first += r->block) {
        const size_t n = r->count - first < r->block ? r->count - first : r->block;
        TRY(report_progress(model->context, "forget", first, r->count));
        TRY(l3a_features_read(features, r->rows + first, 0, n, r->values));
        TRY(features_gather_labels(features, r->rows + first, n, r->columns, own, r->labels));
        weigh_block(r, n);
        TRY(block_expand(&r->expanded, r->values, n * view_rows((size_t)model->options.views)));
        TRY(sums_add(sums, &r->expanded, 1, r->weight, r->targets));
    }
    TRY(sums_cross(sums, -1, evidence->cross));
    if (part < evidence->part_count) {
        evidence_changed(evidence);
        evidence->parts[part].images -= r->count;
        TRY(scatter_add_sums(&evidence->parts[part].sums, sums, -1));
    } else {
        TRY(sums_keep(sums, -1));
    }
done:
    return status;
}

/* Finds the rows of the phase, and checks that they can have been learned and can be removed. */
static l3a_status find_rows(struct removal *r, size_t p, l3a_features *features) {
    l3a_model *model = r->model;
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t own = r->phase->last - r->phase->first;
    TRY(allocate(context, own, sizeof *r->columns, &r->columns));
    TRY(features_columns(features, (const char *const *)model->classes.items + r->phase->first, own, r->columns));
    TRY(features_rows_with(features, r->columns, own, &r->rows, &r->count));
    if (!r->count) {
        goto done;
    }
    FAIL_IF(r->count > r->phase->images, context, L3A_ERROR_DATA, "remove only images that were learned",
            "%zu images are to be removed, but the phase of class '%s' learned %" PRIu64, r->count,
            model->classes.items[r->phase->first], r->phase->images);
    FAIL_IF(r->phase->pseudo_labels, context, L3A_ERROR_MISMATCH, "learn with pseudo off if images may have to be removed",
            "phase %zu gave its images pseudo-labels, which are not stored", p + 1);
    for (size_t k = r->phase->first; k < r->phase->last; k++) {
        uint64_t labelled = 0;
        for (size_t i = 0; i < r->count; i++) {
            labelled += features->labels.held[r->rows[i] * features->classes.count + r->columns[k - r->phase->first]] == 1;
        }
        FAIL_IF(labelled > model->counts[k], context, L3A_ERROR_DATA, "remove only images that were learned",
                "class '%s': %" PRIu64 " images are to be removed, but %" PRIu64 " were learned", model->classes.items[k], labelled,
                model->counts[k]);
        FAIL_IF(labelled && model->class_weight[k] == 0, context, L3A_ERROR_MISMATCH,
                "remove the images from the model that learned them, before merging it or forgetting classes",
                "class '%s': the weight of its images is no longer known", model->classes.items[k]);
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

static l3a_status forget_from_phase(struct removal *r, l3a_features *features, bool *gone) {
    l3a_model *model = r->model;
    l3a_status status = L3A_OK;
    const size_t first = r->phase->first, own = r->phase->last - first, p = (size_t)(r->phase - model->phases);
    TRY(removal_create(r));
    TRY(remove_rows(r, features, part_of(model, r->phase)));
    for (size_t i = 0; i < r->count; i++) {
        for (size_t k = 0; k < own; k++) {
            model->counts[first + k] -= features->labels.held[r->rows[i] * features->classes.count + r->columns[k]] == 1;
        }
    }
    model->phases[p].images -= r->count;
    for (size_t k = first; k < first + own; k++) {
        gone[k] = !model->phases[p].images;
    }
done:
    removal_free(r);
    *r = (struct removal){.model = model};
    return status;
}

/* Warns if few images were removed from a phase, or if few are left in one. */
static void warn_of_few_images(const l3a_model *model, uint64_t fewest) {
    const uint64_t limit = model->options.privacy_limit;
    if (fewest < limit) {
        report_warning(model->context,
                       "%" PRIu64 " image%s removed from a phase: someone with the models from before and after could reconstruct "
                       "their features, or the space they span; do not share both models",
                       fewest, fewest == 1 ? " was" : "s were");
    }
    for (size_t p = 0; p < model->phase_count; p++) {
        if (model->phases[p].images < limit) {
            report_warning(model->context,
                           "phase %zu has %" PRIu64
                           " image%s left: someone with the model could reconstruct their features, or the space they span; "
                           "do not share the model",
                           p + 1, model->phases[p].images, model->phases[p].images == 1 ? "" : "s");
        }
    }
}

/* Finds the images of every phase. complete: the table has classes of every phase. */
static l3a_status find_images(l3a_model *model, l3a_features *features, struct removal *removals, bool *complete) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    uint64_t count = 0, left = 0;
    *complete = true;
    for (size_t p = 0; p < model->phase_count; p++) {
        removals[p] = (struct removal){.model = model, .phase = &model->phases[p]};
        if (knows_a_class(model, &model->phases[p], features)) {
            TRY(find_rows(&removals[p], p, features));
        } else {
            *complete = false;
        }
        count += removals[p].count;
        left += model->phases[p].images - removals[p].count;
    }
    FAIL_IF(!count, context, L3A_ERROR_DATA, "give the rows and labels that were learned",
            "%s: no image has a label of any of the model's classes", features->path);
    FAIL_IF(!left, context, L3A_ERROR_DATA, "to forget everything, delete the file", "no image would be left");
done:
    return status;
}

/* The model no longer holds the images of a table if they are removed as a whole, or if they were the last of the phase. */
static l3a_status let_go(l3a_model *model, const l3a_phase_info *phase, l3a_features *features, uint64_t removed) {
    const char *const *classes = (const char *const *)model->classes.items + phase->first;
    char line[HOLD_TEXT];
    l3a_status status = L3A_OK;
    TRY(hold_describe(features, classes, phase->last - phase->first, line));
    model_let_go(model, line);
    TRY(removed == phase->images ? model_let_go_phase(model, phase) : L3A_OK);
done:
    return status;
}

l3a_status l3a_model_forget_images(l3a_model *model, l3a_features *features, uint64_t *images, int *exact) {
    REQUIRE(model, model, features, images, exact);
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t phases = model->phase_count;
    struct removal *removals = NULL;
    bool *gone = NULL, complete = false;
    uint64_t count = 0, fewest = UINT64_MAX;
    TRY(check_state(model, false));
    TRY(check_own_sums(model));
    TRY(model_accepts(model, features));
    FAIL_IF(!features->labels.held, context, L3A_ERROR_DATA, "give the labels that the images were learned with", "%s: no labels",
            features->path);
    TRY(features_hold_all(features));
    TRY(allocate_zeroed(context, phases + 1, sizeof *removals, &removals));
    TRY(allocate_zeroed(context, model->classes.count + 1, sizeof *gone, &gone));
    TRY(find_images(model, features, removals, &complete));
    const bool same = complete && !has_dropped_classes(model) && model->options.weights == L3A_WEIGHTS_NONE &&
                      !has_pseudo_labels(model, 0) && !is_folded(model) && !(removals[0].count && has_chosen_gamma(model));
    TRY(ridge_use_inverse(&model->evidence->ridge, false));
    model->state = MODEL_BROKEN;
    for (size_t p = 0; p < phases; p++) {
        const uint64_t found = removals[p].count;
        if (found) {
            count += found;
            fewest = found < fewest ? found : fewest;
            TRY(let_go(model, &model->phases[p], features, found));
            TRY(forget_from_phase(&removals[p], features, gone));
        }
    }
    if (gone_among(gone, 0, model->classes.count)) {
        TRY(model_drop_classes(model, gone));
    }
    status = model_settle(model, true);
    FAIL_IF(status == L3A_ERROR_NUMERIC, context, L3A_ERROR_DATA, "give the features and labels that were learned, each row once",
            "%s: without these rows there is no solution: some of them were never learned", features->path);
    TRY(status);
    warn_of_few_images(model, fewest);
    *images = count;
    *exact = same;
done:
    for (size_t p = 0; removals && p < phases; p++) {
        if (removals[p].model) {
            removal_free(&removals[p]);
        }
    }
    release(context, removals);
    release(context, gone);
    return status;
}
