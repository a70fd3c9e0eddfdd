#include "learn/model_group.h"

#include "base/threads.h"
#include "data/features.h"
#include "learn/model_plan.h"

#include <math.h>
#include <string.h>

enum { STAGED_ROWS = 512, STAGES = 2, STAGE_ARRAYS = 3, DIVIDED = 256 };

/* Rows on which a member disagrees with the one before it, all with the same sign of the weight difference. */
struct stage {
    double sign;
    struct block rows; /* expanded; the group's block has the work space */
    double *weight;    /* |Δω| */
    double *targets;   /* [STAGED_ROWS x classes]: ω_v ŷ_v - ω_(v-1) ŷ_(v-1) */
    size_t *chosen;    /* rows of the current block that belong here */
    size_t count;      /* of them */
};

enum role {
    LEADS,   /* adds all rows to its sums */
    FOLLOWS, /* adds the difference from the member before it */
    SHARES   /* has the sums of the member before it */
};

struct member {
    l3a_model *model;
    enum role role;
    struct stage stages[STAGES]; /* larger weights, and smaller ones */
};

struct group {
    l3a_context *context;
    size_t width, block; /* of features; images */
    size_t views, each;  /* of an image that is learned: its views, and its rows */
    size_t scored;       /* views of an image that is scored */
    struct member *members;
    size_t count;
    struct block rows; /* of the phase in progress */
    float *features;   /* of a block */
    double expand_seconds;
    struct solution together; /* of all members, side by side, so that one product scores rows for all; made when needed */
    void *scores;             /* of a block, [block x count · classes]; NULL if some member gives no pseudo-labels */
};

static bool weighs_alike(const struct model_options *left, const struct model_options *right) {
    return left->weights == right->weights && (left->weights == L3A_WEIGHTS_NONE || left->scaling == right->scaling);
}

/* Whether the sums of two models are kept in the same way. */
static bool keeps_alike(const struct model_options *left, const struct model_options *right) {
    return keeps_phases(left) == keeps_phases(right) && (!keeps_phases(left) || left->keep_phases == right->keep_phases) &&
           left->store == right->store;
}

static enum role role_of(const struct model_options *members, size_t index) {
    const struct model_options *own = &members[index], *before = index ? &members[index - 1] : NULL;
    if (!before || !weighs_alike(before, own)) {
        return LEADS;
    }
    return own->pseudo == L3A_PSEUDO_OFF && before->pseudo == L3A_PSEUDO_OFF && keeps_alike(before, own) ? SHARES : FOLLOWS;
}

/* Whether rows can be added to the sums of several models in turn. */
static bool adds_sums(const struct model_options *options) {
    return options->solver != L3A_SOLVER_RECURSIVE && options->solver != L3A_SOLVER_SCALAPACK;
}

bool group_accepts(const struct model_options *first, const struct model_options *other) {
    return adds_sums(first) && adds_sums(other) && first->dim == other->dim && first->seed == other->seed &&
           first->precision == other->precision && first->block == other->block && first->skip_features == other->skip_features &&
           first->views == other->views && scored_views(first) == scored_views(other);
}

/* How few pseudo-labels the settings give. */
static double strictness(const struct model_options *settings) {
    switch (settings->pseudo) {
    case L3A_PSEUDO_OFF: return 1;
    case L3A_PSEUDO_DYNAMIC: return 0;
    case L3A_PSEUDO_FIXED: break;
    }
    return settings->eta;
}

static int compare_numbers(double left, double right) {
    return (left > right) - (left < right);
}

/* Those that can share their sums come first, next to each other. */
int group_order(const struct model_options *left, const struct model_options *right) {
    const double keys[][2] = {
        {left->weights, right->weights},
        {left->scaling, right->scaling},
        {left->pseudo != L3A_PSEUDO_OFF, right->pseudo != L3A_PSEUDO_OFF},
        {keeps_phases(left), keeps_phases(right)},
        {(double)left->keep_phases, (double)right->keep_phases},
        {left->store, right->store},
        {left->gamma, right->gamma},
        {left->pseudo_from, right->pseudo_from},
        {strictness(left), strictness(right)},
    };
    int order = 0;
    for (size_t i = 0; !order && i < sizeof keys / sizeof keys[0]; i++) {
        order = compare_numbers(keys[i][0], keys[i][1]);
    }
    return order;
}

static void list_stage(struct stage *stage, size_t classes, struct array *list) {
    list[0] = (struct array){&stage->weight, STAGED_ROWS, sizeof *stage->weight, false};
    list[1] = (struct array){&stage->targets, STAGED_ROWS, classes * sizeof *stage->targets, false};
    list[2] = (struct array){&stage->chosen, STAGED_ROWS, sizeof *stage->chosen, false};
}

static struct block stage_rows(const struct block *work) {
    return (struct block){
        .context = work->context, .layer = work->layer, .capacity = STAGED_ROWS, .columns = work->columns, .work = work};
}

static l3a_status stage_create(const struct block *work, double sign, struct stage *stage) {
    l3a_status status = L3A_OK;
    struct array list[STAGE_ARRAYS];
    *stage = (struct stage){.sign = sign, .rows = stage_rows(work)};
    list_stage(stage, work->columns, list);
    TRY(arrays_allocate(work->context, list, STAGE_ARRAYS));
    TRY(block_create(&stage->rows));
done:
    return status;
}

static void stage_free(l3a_context *context, struct stage *stage) {
    struct array list[STAGE_ARRAYS];
    list_stage(stage, 0, list);
    arrays_release(context, list, STAGE_ARRAYS);
    block_free(&stage->rows);
}

static size_t row_capacity(size_t block) {
    return block > STAGED_ROWS ? block : STAGED_ROWS;
}

/* What one member adds to the group's layer and rows. */
static uint64_t member_memory(enum place place, const struct block *work, const struct model_options *members, size_t index,
                              size_t width, size_t phases) {
    const l3a_context *context = work->context;
    const size_t classes = work->columns;
    const struct model_options *options = &members[index];
    const struct algebra *algebra = algebra_of(context);
    const size_t d = learned_width(options, width);
    const enum role role = role_of(members, index);
    struct phase_block no_block;
    struct model_columns no_columns;
    struct stage no_stage;
    const struct block staged = stage_rows(work);
    struct array block[BLOCK_ARRAYS], columns[COLUMN_ARRAYS], stage[STAGE_ARRAYS];
    list_block(&no_block, options, block_images(options, UINT64_MAX), width, classes, classes, block);
    list_columns(&no_columns, d, classes, columns);
    list_stage(&no_stage, classes, stage);
    const uint64_t staging = processor_bytes(place, arrays_bytes(stage, STAGE_ARRAYS)) + algebra->block_bytes(place, &staged);
    return processor_bytes(place, arrays_bytes(block, BLOCK_ARRAYS) + arrays_bytes(columns, COLUMN_ARRAYS) +
                                      (uint64_t)d * classes * sizeof(double)) +
           algebra->solution_bytes(place, d, classes, options_real(options)) +
           (role == SHARES ? 0
                           : algebra->sums_bytes(place, context, d, 2 * classes) +
                                 kept_phases(options, phases) * algebra->scatter_bytes(place, d, options_real(options), d)) +
           (role == FOLLOWS ? STAGES * staging : 0);
}

uint64_t group_memory(enum place place, l3a_context *context, const struct model_options *members, size_t count, size_t width,
                      size_t classes, size_t phases) {
    const struct layer layer = {.algebra = algebra_of(context), .shape = model_layer_shape(members, width)};
    const struct block rows = {.context = context,
                               .layer = &layer,
                               .capacity = row_capacity(block_images(members, UINT64_MAX) * view_rows((size_t)members->views)),
                               .columns = classes,
                               .reused = count > 1};
    const size_t d = learned_width(members, width), size = real_size(layer.shape.type);
    const uint64_t solving = parts_solve_bytes(place, context, d, classes),
                   sharing = processor_bytes(place, sums_share_bytes(context, d, classes));
    uint64_t total = layer.algebra->layer_bytes(place, &layer.shape) + layer.algebra->block_bytes(place, &rows) +
                     (solving > sharing ? solving : sharing) +
                     processor_bytes(place, rows.capacity * width * sizeof(float) +
                                                count * classes * (d * (sizeof(double) + size) + rows.capacity * size));
    for (size_t i = 0; i < count; i++) {
        total += member_memory(place, &rows, members, i, width, phases);
    }
    return total;
}

l3a_status group_create(l3a_context *context, const struct model_options *members, size_t count, size_t width,
                        struct group **group) {
    l3a_status status = L3A_OK;
    struct group *made = NULL;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    *made = (struct group){.context = context,
                           .width = width,
                           .block = block_images(members, UINT64_MAX),
                           .views = (size_t)members->views,
                           .each = view_rows((size_t)members->views),
                           .scored = scored_views(members)};
    TRY(allocate_zeroed(context, count, sizeof *made->members, &made->members));
    made->count = count;
    for (size_t i = 0; i < count; i++) {
        struct member *member = &made->members[i];
        struct model_options options = members[i];
        options.solver = L3A_SOLVER_SUMS;
        TRY(model_create(context, width, &options, &member->model));
        member->model->in_group = true;
        member->role = role_of(members, i);
        if (member->role == SHARES) {
            model_share(member->model, member[-1].model);
        }
    }
    TRY(model_ready(made->members[0].model));
    *group = made;
    made = NULL;
done:
    group_free(made);
    return status;
}

static void free_phase(struct group *group) {
    release(group->context, group->features);
    release(group->context, group->scores);
    group->features = NULL;
    group->scores = NULL;
    solution_free(&group->together); /* the coefficients have changed */
    for (size_t i = 0; i < group->count; i++) {
        for (size_t j = 0; j < STAGES; j++) {
            stage_free(group->context, &group->members[i].stages[j]);
        }
    }
    block_free(&group->rows);
}

void group_free(struct group *group) {
    if (!group) {
        return;
    }
    free_phase(group);
    for (size_t i = group->count; i-- > 0;) {
        l3a_model_free(group->members[i].model);
    }
    release(group->context, group->members);
    release(group->context, group);
}

const l3a_model *group_model(const struct group *group, size_t member) {
    return group->members[member].model;
}

/* Expands a block of the table's rows once for all members. */
static l3a_status expand(struct group *group, l3a_features *features, const size_t *rows, size_t count) {
    l3a_status status = L3A_OK;
    TRY(l3a_features_read(features, rows, 0, count, group->features));
    const double start = clock_seconds();
    TRY(block_expand(&group->rows, group->features, count * group->each));
    group->expand_seconds += clock_seconds() - start;
done:
    return status;
}

/* Puts the coefficients of all members side by side. */
static l3a_status join_solutions(struct group *group) {
    l3a_status status = L3A_OK;
    const l3a_model *first = group->members[0].model;
    const size_t d = model_dim(first), classes = first->classes.count, columns = group->count * classes;
    double *all = NULL;
    if (group->together.held) {
        return L3A_OK;
    }
    TRY(allocate(group->context, d, columns * sizeof *all, &all));
    for (size_t i = 0; i < d; i++) {
        for (size_t v = 0; v < group->count; v++) {
            memcpy(all + i * columns + v * classes, group->members[v].model->coefficients + i * classes, classes * sizeof *all);
        }
    }
    TRY(solution_create(group->context, d, columns, options_real(&first->options), &group->together));
    TRY(solution_set(&group->together, all));
done:
    release(group->context, all);
    return status;
}

/* Whether every member gives the rows of this phase pseudo-labels. */
static bool all_label(const struct group *group) {
    bool all = group->members[0].model->classes.count > 0;
    for (size_t i = 0; i < group->count; i++) {
        all = all && group->members[i].model->options.pseudo != L3A_PSEUDO_OFF;
    }
    return all;
}

/* Scores of all members side by side, which become those of each. */
struct dividing {
    struct group *group;
    size_t columns;       /* of a member */
    const void *scores;   /* [rows x members · columns] */
    float *const *floats; /* where those of a member go; NULL: to its phase, in the type they have */
};

static void divide_scores(void *argument, size_t first, size_t last) {
    const struct dividing *d = argument;
    const struct group *group = d->group;
    const size_t row = d->columns * (d->floats ? sizeof(float) : real_size(group->together.type));
    for (size_t i = first; i < last; i++) {
        for (size_t v = 0; v < group->count; v++) {
            char *to = d->floats ? (char *)d->floats[v] : (char *)group->members[v].model->phase.block.scores;
            memcpy(to + i * row, (const char *)d->scores + (i * group->count + v) * row, row);
        }
    }
}

/* Scores an expanded block for all members at once. Each then combines the views of an image by its own rule. */
static l3a_status score_block(struct group *group) {
    l3a_status status = L3A_OK;
    const size_t classes = group->members[0].model->classes.count, images = group->rows.count / group->each;
    struct dividing dividing = {.group = group, .columns = classes, .scores = group->scores};
    TRY(block_score(&group->rows, &group->together, group->scores));
    parallel_for(group->context->threads, group->rows.count, DIVIDED, divide_scores, &dividing);
    for (size_t v = 0; v < group->count; v++) {
        l3a_model *model = group->members[v].model;
        combine_views_for_labels(group->context->threads, group->together.type, model->options.pseudo_from,
                                 model->phase.block.scores, images, group->views, classes);
        model->phase.block.scored = true;
    }
done:
    return status;
}

static bool is_dynamic(const struct member *member) {
    return member->model->classes.count && member->model->options.pseudo == L3A_PSEUDO_DYNAMIC;
}

/* Prepares the members that survey, and passes over the rows once for all of them. */
static l3a_status survey(struct group *group, l3a_features *features, const size_t *rows, size_t count) {
    l3a_status status = L3A_OK;
    bool needed = false;
    for (size_t i = 0; i < group->count; i++) {
        TRY(phase_prepare_block(group->members[i].model, &group->rows));
        needed = needed || is_dynamic(&group->members[i]);
    }
    for (size_t first = 0; needed && first < count; first += group->block) {
        TRY(report_progress(group->context, "survey", first, count));
        TRY(expand(group, features, rows + first, count - first < group->block ? count - first : group->block));
        for (size_t i = 0; i < group->count; i++) {
            if (is_dynamic(&group->members[i])) {
                TRY(phase_survey_expanded(group->members[i].model));
            }
        }
    }
done:
    return status;
}

static l3a_status prepare(struct group *group, l3a_features *features, const size_t *rows, size_t count, const size_t *columns,
                          const char *const *names, size_t class_count) {
    l3a_context *context = group->context;
    l3a_status status = L3A_OK;
    int8_t *labels = NULL;
    const size_t all = group->members[0].model->classes.count + class_count;
    TRY(allocate(context, count, class_count, &labels));
    TRY(features_gather_labels(features, rows, count, columns, class_count, labels));
    for (size_t i = 0; i < group->count; i++) {
        TRY(phase_begin(group->members[i].model, names, class_count));
        TRY(phase_count(group->members[i].model, labels, count));
    }
    warn_of_empty_classes(group->members[0].model);
    group->rows = (struct block){.context = context,
                                 .layer = &group->members[0].model->layer,
                                 .capacity = row_capacity((count < group->block ? count : group->block) * group->each),
                                 .columns = all,
                                 .reused = group->count > 1};
    TRY(block_create(&group->rows));
    for (size_t i = 0; i < group->count; i++) {
        for (size_t j = 0; group->members[i].role == FOLLOWS && j < STAGES; j++) {
            TRY(stage_create(&group->rows, j ? -1 : 1, &group->members[i].stages[j]));
        }
    }
    TRY(allocate(context, count < group->block ? count : group->block, group->each * group->width * sizeof *group->features,
                 &group->features));
    if (all_label(group)) {
        TRY(join_solutions(group));
        TRY(allocate(context, group->rows.capacity, group->together.columns * real_size(group->together.type), &group->scores));
    }
done:
    release(context, labels);
    return status;
}

/* Adds the collected rows to the difference of the sums. */
static l3a_status flush(struct stage *stage, struct sums *sums) {
    l3a_status status = L3A_OK;
    if (stage->rows.count) {
        TRY(sums_add_cross(sums, &stage->rows, stage->targets));
        TRY(sums_add(sums, &stage->rows, stage->sign, stage->weight, NULL));
        stage->rows.count = 0;
    }
done:
    return status;
}

/* Takes the rows that were chosen from the current block. */
static l3a_status collect(const struct group *group, struct stage *stage, struct sums *sums) {
    l3a_status status = L3A_OK;
    TRY(block_append(&stage->rows, &group->rows, stage->chosen, stage->count));
    stage->count = 0;
    if (stage->rows.count == STAGED_ROWS) {
        TRY(flush(stage, sums));
    }
done:
    return status;
}

/* Collects the rows of a block on which a member and the one before it disagree. */
static l3a_status add_difference(const struct group *group, struct member *member, struct group_outcome *outcome) {
    l3a_status status = L3A_OK;
    const struct phase_block *own = &member->model->phase.block, *before = &member[-1].model->phase.block;
    struct sums *sums = &member->model->evidence->ridge.sums;
    const size_t all = member->model->phase.classes.count;
    for (size_t i = 0; i < group->rows.count; i++) {
        const size_t image = i / group->each;
        if (memcmp(own->labels + image * all, before->labels + image * all, all) == 0) {
            continue;
        }
        const double more = own->weight[i] - before->weight[i];
        struct stage *stage = &member->stages[more < 0];
        const size_t slot = stage->rows.count + stage->count;
        stage->chosen[stage->count++] = i;
        stage->weight[slot] = fabs(more);
        for (size_t k = 0; k < all; k++) {
            stage->targets[slot * all + k] =
                own->weight[i] * own->targets[i * all + k] - before->weight[i] * before->targets[i * all + k];
        }
        outcome->corrected += i % group->each == 0;
        if (slot + 1 == STAGED_ROWS) {
            TRY(collect(group, stage, sums));
        }
    }
    for (size_t j = 0; j < STAGES; j++) {
        TRY(collect(group, &member->stages[j], sums));
    }
done:
    return status;
}

/* Every member labels the block; then those that lead add it, and those that follow collect what differs. */
static l3a_status learn_block(struct group *group, size_t rows, struct group_outcome *outcomes) {
    l3a_status status = L3A_OK;
    if (group->scores) {
        TRY(score_block(group));
    }
    for (size_t i = 0; i < group->count; i++) {
        struct member *member = &group->members[i];
        TRY(phase_label(member->model, group->features, rows));
        if (member->role == LEADS) {
            TRY(phase_add(member->model));
        }
    }
    for (size_t i = 0; i < group->count; i++) {
        if (group->members[i].role == FOLLOWS) {
            TRY(add_difference(group, &group->members[i], &outcomes[i]));
        }
    }
done:
    return status;
}

static l3a_status learn_rows(struct group *group, l3a_features *features, const size_t *rows, size_t count, const size_t *columns,
                             size_t class_count, struct group_outcome *outcomes) {
    l3a_status status = L3A_OK;
    for (size_t first = 0; first < count; first += group->block) {
        const size_t n = count - first < group->block ? count - first : group->block;
        TRY(report_progress(group->context, "learn", first, count));
        TRY(expand(group, features, rows + first, n));
        for (size_t i = 0; i < group->count; i++) {
            TRY(features_gather_labels(features, rows + first, n, columns, class_count, group->members[i].model->phase.block.own));
        }
        TRY(learn_block(group, n, outcomes));
    }
    for (size_t i = 0; i < group->count; i++) {
        if (group->members[i].role == FOLLOWS) {
            for (size_t j = 0; j < STAGES; j++) {
                TRY(flush(&group->members[i].stages[j], &group->members[i].model->evidence->ridge.sums));
            }
            TRY(sums_join(&group->members[i].model->evidence->ridge.sums, &group->members[i - 1].model->evidence->ridge.sums));
        }
    }
    TRY(report_progress(group->context, "learn", count, count));
done:
    return status;
}

/* A member that shares its sums searches from the solution of the one before it, which is nearer than that of its last phase. */
static void start_near(const struct member *member) {
    if (member->role == SHARES && member->model->evidence->part_count) {
        memcpy(member->model->phase.next.coefficients, member[-1].model->coefficients,
               model_dim(member->model) * member->model->phase.classes.count * sizeof(double));
    }
}

/* The sums of each member become part of its evidence. A member that shares them solves with its own settings. */
static l3a_status finish(struct group *group, struct group_outcome *outcomes) {
    l3a_status status = L3A_OK;
    report_timing(group->context, "expand", group->expand_seconds);
    group->expand_seconds = 0;
    for (size_t i = 0; i < group->count; i++) {
        struct member *member = &group->members[i];
        TRY(phase_complete(member->model, member->role == SHARES));
        outcomes[i].images = member->model->phase.info.images + member->model->phase.info.skipped;
        outcomes[i].pseudo_labels = member->model->phase.info.pseudo_labels;
        TRY(sum_counts(group->context, &outcomes[i].corrected, 1));
    }
    for (size_t i = 0; i < group->count; i++) {
        if (group->members[i].role != SHARES) {
            TRY(phase_keep(group->members[i].model));
        }
    }
    for (size_t i = 0; i < group->count; i++) {
        TRY(report_progress(group->context, "solve", i, group->count));
        start_near(&group->members[i]);
        TRY(phase_finish(group->members[i].model));
    }
done:
    return status;
}

l3a_status group_learn(struct group *group, l3a_features *features, const size_t *columns, const char *const *names,
                       size_t class_count, struct group_outcome *outcomes) {
    l3a_status status = L3A_OK;
    struct own_rows own = {0};
    TRY(own_rows_find(features, BY_MEMBER, columns, class_count, &own));
    FAIL_IF(!own.all, group->context, L3A_ERROR_DATA, "give each phase images that show its classes", "a phase has no images");
    memset(outcomes, 0, group->count * sizeof *outcomes);
    TRY(prepare(group, features, own.rows, own.count, columns, names, class_count));
    TRY(survey(group, features, own.rows, own.count));
    for (size_t i = 0; i < group->count; i++) {
        TRY(phase_prepare(group->members[i].model, &group->rows));
    }
    TRY(learn_rows(group, features, own.rows, own.count, columns, class_count, outcomes));
    TRY(finish(group, outcomes));
done:
    free_phase(group);
    release(group->context, own.rows);
    return status;
}

l3a_status group_score(struct group *group, const float *features, size_t rows, float *const *scores) {
    l3a_context *context = group->context;
    l3a_status status = L3A_OK;
    const l3a_model *first = group->members[0].model;
    float *all = NULL;
    TRY(join_solutions(group));
    TRY(allocate(context, rows, group->together.columns * sizeof *all, &all));
    TRY(score_features(context, &first->layer, &group->together, group->scored, features, rows, all, NULL));
    struct dividing dividing = {.group = group, .columns = first->classes.count, .scores = all, .floats = scores};
    parallel_for(context->threads, rows, DIVIDED, divide_scores, &dividing);
done:
    release(context, all);
    return status;
}

void group_thresholds(const struct group *group, size_t member, double *thresholds) {
    model_thresholds(group->members[member].model, group->scored, thresholds);
}
