#include "learn/model_change.h"

#include <string.h>

/* Whether one of the parts has these sums. Sums of 0 rows hold nothing. */
static bool has_sums(const struct part *parts, size_t count, const struct scatter *sums) {
    for (size_t i = 0; sums->held && i < count; i++) {
        if (parts[i].sums.held == sums->held) {
            return true;
        }
    }
    return false;
}

static bool is_shared(const l3a_model *model, const struct scatter *sums) {
    return model->change && has_sums(model->change->parts, model->change->part_count, sums);
}

void model_free_sums(const l3a_model *model, struct scatter *sums) {
    if (is_shared(model, sums)) {
        sums->held = NULL;
    }
    scatter_free(sums);
}

/* The same for a part. */
static void free_part(const l3a_model *model, struct part *part) {
    if (is_shared(model, &part->sums)) {
        part->sums.held = NULL;
    }
    part_free(part);
}

l3a_status part_own(l3a_model *model, struct part *part) {
    struct scatter made = {0};
    l3a_status status = L3A_OK;
    if (is_shared(model, &part->sums)) {
        TRY(scatter_create(model->context, part->sums.dim, part->sums.type, &made));
        TRY(scatter_add(&made, &part->sums));
        part->sums = made;
        made = (struct scatter){0};
    }
done:
    scatter_free(&made);
    return status;
}

l3a_status model_own_columns(l3a_model *model) {
    struct model_columns made = {0};
    l3a_status status = L3A_OK;
    if (!model->change->has_columns) {
        TRY(model_columns_extend(model, model->classes.count, &made));
        model_columns_adopt(model, &made);
    }
done:
    model_columns_free(model->context, &made);
    return status;
}

/* Reads the first half of the sums, or writes it. */
static l3a_status move_triangle(l3a_model *model, double *triangle, bool back) {
    struct sums *sums = &model->evidence->ridge.sums;
    const size_t d = model_dim(model);
    l3a_status status = L3A_OK;
    for (size_t i = 0, count; i < d; i += count) {
        double *rows = triangle + triangle_numbers(0, i);
        count = strip_rows(d, i);
        TRY(back ? sums_write(sums, KEPT, i, count, rows) : sums_read(sums, KEPT, i, count, rows));
    }
done:
    return status;
}

l3a_status change_keep_sums(l3a_model *model, bool recursion) {
    struct change *change = model->change;
    struct ridge *ridge = &model->evidence->ridge;
    double *triangle = NULL;
    l3a_status status = L3A_OK;
    if (change->triangle) {
        return L3A_OK;
    }
    if (recursion) {
        TRY(sums_copy(&ridge->sums, ADDED));
        change->recursed = true;
    } else {
        TRY(allocate(model->context, (size_t)triangle_numbers(0, model_dim(model)), sizeof *triangle, &triangle));
        TRY(move_triangle(model, triangle, false));
        change->triangle = triangle;
        change->inverse = ridge->inverse;
        triangle = NULL;
    }
done:
    release(model->context, triangle);
    return status;
}

static l3a_status copy_parts(struct change *change, const struct evidence *evidence) {
    l3a_context *context = change->model->context;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, evidence->part_count, sizeof *change->parts, &change->parts));
    for (size_t i = 0; i < evidence->part_count; i++) {
        const struct part *part = &evidence->parts[i];
        size_t *judged = NULL;
        TRY(allocate(context, part->judged_count, sizeof *judged, &judged));
        memcpy(judged, part->judged, part->judged_count * sizeof *judged);
        change->parts[i] = *part;
        change->parts[i].judged = judged;
        change->part_count = i + 1;
    }
done:
    return status;
}

/* Frees what the change has, but for sums that are the model's. */
static void change_free(struct change *change) {
    l3a_context *context = change->model->context;
    const struct evidence *evidence = change->model->evidence;
    for (size_t i = 0; i < change->part_count; i++) {
        struct part *part = &change->parts[i];
        const bool same = i < evidence->part_count && evidence->parts[i].sums.held == part->sums.held;
        if (same || has_sums(evidence->parts, evidence->part_count, &part->sums)) {
            part->sums.held = NULL;
        }
        part_free(part);
    }
    release(context, change->parts);
    release(context, change->phases);
    release(context, change->triangle);
    text_list_clear(context, &change->classes);
    text_list_clear(context, &change->record_keys);
    text_list_clear(context, &change->record_values);
    model_columns_free(context, &change->columns);
    unlabelled_free(context, &change->unlabelled);
    *change = (struct change){0};
}

l3a_status change_begin(l3a_model *model, struct change *change) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    *change = (struct change){0};
    if (model->change) {
        return L3A_OK;
    }
    change->model = model;
    change->options = model->options;
    TRY(text_list_add_all(context, &change->classes, &model->classes));
    TRY(text_list_add_all(context, &change->record_keys, &model->record_keys));
    TRY(text_list_add_all(context, &change->record_values, &model->record_values));
    TRY(allocate(context, model->phase_count, sizeof *change->phases, &change->phases));
    if (model->phase_count) {
        memcpy(change->phases, model->phases, model->phase_count * sizeof *change->phases);
    }
    change->phase_count = model->phase_count;
    TRY(copy_parts(change, model->evidence));
    model->change = change;
done:
    if (status != L3A_OK) {
        change_free(change);
    }
    return status;
}

static void swap_lists(text_list *left, text_list *right) {
    const text_list before = *left;
    *left = *right;
    *right = before;
}

/* Puts the parts back. Those of the model go, and the change then has none. */
static void restore_parts(struct change *change) {
    struct evidence *evidence = change->model->evidence;
    for (size_t i = 0; i < evidence->part_count; i++) {
        free_part(change->model, &evidence->parts[i]);
    }
    release(change->model->context, evidence->parts);
    evidence->parts = change->parts;
    evidence->part_count = change->part_count;
    change->parts = NULL;
    change->part_count = 0;
    evidence->summed = false;
    search_end_free(change->model->context, &evidence->end);
}

static void restore(struct change *change) {
    l3a_model *model = change->model;
    struct ridge *ridge = &model->evidence->ridge;
    l3a_status status = L3A_OK;
    restore_parts(change);
    model->options = change->options;
    ridge->gamma = model->options.gamma;
    swap_lists(&model->classes, &change->classes);
    swap_lists(&model->record_keys, &change->record_keys);
    swap_lists(&model->record_values, &change->record_values);
    release(model->context, model->phases);
    model->phases = change->phases;
    model->phase_count = change->phase_count;
    change->phases = NULL;
    if (change->has_columns) {
        model->change = NULL;
        model_columns_adopt(model, &change->columns);
    }
    if (change->has_unlabelled) {
        const struct unlabelled changed = model->evidence->unlabelled;
        model->evidence->unlabelled = change->unlabelled;
        change->unlabelled = changed; /* which goes with the change */
    }
    if (change->triangle) {
        status = move_triangle(model, change->triangle, true);
        ridge->inverse = change->inverse;
        ridge->sums.factored = false;
    } else if (change->recursed) {
        status = sums_copy(&ridge->sums, KEPT);
    }
    model_changed(model);
    model->state = status == L3A_OK ? MODEL_READY : MODEL_BROKEN;
}

l3a_status change_end(struct change *change, l3a_status status) {
    l3a_model *model = change->model;
    if (model) {
        if (status != L3A_OK) {
            restore(change);
        }
        model->change = NULL;
        change_free(change);
    }
    return status;
}

void model_drop_part(l3a_model *model, size_t index) {
    struct evidence *evidence = model->evidence;
    evidence_changed(evidence);
    free_part(model, &evidence->parts[index]);
    evidence->part_count--;
    memmove(evidence->parts + index, evidence->parts + index + 1, (evidence->part_count - index) * sizeof *evidence->parts);
}

l3a_status model_unite_parts(l3a_model *model) {
    struct evidence *evidence = model->evidence;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < evidence->part_count; i++) {
        for (size_t j = evidence->part_count; j-- > i + 1;) {
            if (parts_agree(&evidence->parts[i], &evidence->parts[j])) {
                TRY(part_own(model, &evidence->parts[i]));
                TRY(part_fold(&evidence->parts[i], &evidence->parts[j]));
                model_drop_part(model, j);
            }
        }
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
        free_part(model, &evidence->parts[0]);
        memmove(evidence->parts, evidence->parts + 1, --evidence->part_count * sizeof *evidence->parts);
    }
done:
    return status;
}

bool has_pseudo_labels(const l3a_model *model, size_t first) {
    bool found = false;
    for (size_t p = first; p < model->phase_count; p++) {
        found = found || model->phases[p].pseudo_labels;
    }
    return found;
}

bool is_folded(const l3a_model *model) {
    bool folded = false;
    for (size_t i = 0; i < model->evidence->part_count; i++) {
        folded = folded || model->evidence->parts[i].phases > 1;
    }
    return folded && (model->options.alpha < 1 || model->options.lift > 0);
}

bool has_dropped_classes(const l3a_model *model) {
    return model_record(model, "dropped") != NULL;
}

bool has_chosen_gamma(const l3a_model *model) {
    const char *gamma = model_record(model, "gamma");
    return gamma && strcmp(gamma, "auto") == 0;
}
