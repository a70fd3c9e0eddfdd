/* Learning a phase from a table of features, and planning to. */
#include "base/sized.h"
#include "base/text_index.h"
#include "data/features.h"
#include "learn/model.h"
#include "learn/model_holds.h"
#include "learn/model_plan.h"
#include "learn/teach.h"

struct pass {
    const char *stage;
    l3a_features *features;
    struct own_rows rows;
    const size_t *columns;
    size_t column_count;
};

/* Reads the rows of a table into the phase's block, and has them surveyed or learned. */
static l3a_status hand_over(l3a_model *model, const struct pass *pass, bool survey) {
    l3a_context *context = model->context;
    const struct phase_block *block = &model->phase.block;
    l3a_status status = L3A_OK;
    const size_t *rows = pass->rows.rows, count = pass->rows.count;
    TRY(phase_prepare_block(model, NULL));
    for (size_t first = 0, n; first < count; first += n) {
        const size_t room = block->images - block->staged;
        float *features = block->features + block->staged * model_image(model);
        int8_t *labels = block->own + block->staged * pass->column_count;
        n = count - first < room ? count - first : room;
        TRY(report_progress(context, pass->stage, first, count));
        TRY(l3a_features_read(pass->features, rows + first, 0, n, features));
        if (survey) {
            TRY(phase_survey(model, features, n));
        } else {
            TRY(features_gather_labels(pass->features, rows + first, n, pass->columns, pass->column_count, labels));
            TRY(phase_learn(model, features, labels, n));
        }
    }
    TRY(report_progress(context, pass->stage, count, count));
done:
    return status;
}

/* Counts the labels of a block of rows at a time. */
static l3a_status count_rows(l3a_model *model, const struct pass *pass) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t count = pass->rows.count, block = count < READ_ROWS ? count : READ_ROWS;
    int8_t *labels = NULL;
    TRY(allocate(context, block, pass->column_count, &labels));
    for (size_t first = 0, n; first < count; first += n) {
        n = count - first < block ? count - first : block;
        TRY(features_gather_labels(pass->features, pass->rows.rows + first, n, pass->columns, pass->column_count, labels));
        TRY(phase_count(model, labels, n));
    }
done:
    release(context, labels);
    return status;
}

/* Finds this process's part of the rows of a phase that can have a weight: with pseudo-labels all that belong to it, and otherwise
 * those with a label. *unlabelled: the number of other rows. */
static l3a_status find_phase_rows(const l3a_model *model, struct pass *pass, size_t *unlabelled) {
    l3a_features *features = pass->features;
    l3a_status status = L3A_OK;
    const enum chosen_by by = gives_pseudo_labels(model) ? BY_MEMBER : BY_LABEL, other = by == BY_LABEL ? BY_MEMBER : BY_LABEL;
    uint64_t others;
    TRY(features_count_rows(features, other, pass->columns, pass->column_count, &others));
    TRY(own_rows_find(features, by, pass->columns, pass->column_count, &pass->rows));
    const char *name = features->classes.items[pass->columns[0]];
    FAIL_IF(!(by == BY_LABEL ? pass->rows.all : others), model->context, L3A_ERROR_DATA,
            "give the phase images that show its classes", "%s: no image has any of the %zu classes of this phase ('%s'%s)",
            features->path, pass->column_count, name, pass->column_count > 1 ? ", …" : "");
    *unlabelled = by == BY_LABEL ? (size_t)others - pass->rows.all : 0;
done:
    return status;
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
    size_t *columns = NULL, unlabelled = 0;
    struct pass pass = {.stage = "survey", .features = features, .column_count = class_count};
    bool begun = false;
    char line[HOLD_TEXT] = "";
    TRY(need_items(context, __func__, "classes", classes, class_count));
    if (knows_any(model, classes, class_count)) {
        return learn_more(model, features, classes, class_count);
    }
    TRY(model_accepts(model, features));
    TRY(phase_begin(model, classes, class_count));
    begun = true;
    TRY(allocate(context, class_count, sizeof *columns, &columns));
    TRY(features_columns(features, classes, class_count, columns));
    pass.columns = columns;
    TRY(find_phase_rows(model, &pass, &unlabelled));
    TRY(hold_describe(features, classes, class_count, line));
    line[0] = model_holds(model, line) ? '\0' : line[0]; /* of classes that were forgotten */
    model->phase.source = (struct phase_source){features, pass.rows.rows};
    TRY(count_rows(model, &pass));
    if (model->options.pseudo == L3A_PSEUDO_DYNAMIC && model->classes.count) {
        TRY(hand_over(model, &pass, true));
    }
    pass.stage = "learn";
    TRY(hand_over(model, &pass, false));
    TRY(model_keep_provenance(model, features));
    TRY(model_hold(model, line));
    TRY(phase_end(model));
    model->phases[model->phase_count - 1].skipped += unlabelled;
done:
    if (status != L3A_OK && begun) {
        model_let_go(model, line);
        phase_abandon(model);
    }
    release(context, columns);
    release(context, pass.rows.rows);
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
    size_t *columns = NULL, unlabelled;
    struct pass pass = {.features = features, .column_count = class_count};
    const size_t old = model->classes.count;
    l3a_plan own = {.size = sizeof own};
    TRY(need_items(context, __func__, "classes", classes, class_count));
    FAIL_IF(!class_count, context, L3A_ERROR_ARGUMENT, "name the classes of the phase", "the phase has no classes");
    TRY(model_accepts(model, features));
    TRY(allocate(context, class_count, sizeof *columns, &columns));
    TRY(features_columns(features, classes, class_count, columns));
    pass.columns = columns;
    TRY(find_phase_rows(model, &pass, &unlabelled));
    TRY(model_plan(context, &model->options, model->width, old + class_count, &own));
    const struct phase_size phase = {old, old + class_count, pass.rows.all, model->evidence->part_count,
                                     model->evidence->ridge.inverse};
    TRY(plan_phase(model, &phase, &own));
    own.memory += features_held_bytes(features);
    own.file += kept_phases(&model->options, model->evidence->part_count + 1) * own.phase;
    TRY(WRITE_SIZED(context, plan, own));
    *images = pass.rows.all;
done:
    release(context, columns);
    release(context, pass.rows.rows);
    return status;
}
