#include "learn/group.h"

#include "base/threads.h"
#include "data/features.h"
#include "learn/weights.h"

#include <math.h>
#include <string.h>

enum { STAGED_ROWS = 1024 };

/* Rows on which a member disagrees with the one before it: positive weight differences from the front, others from the back. */
struct stage {
    size_t front, back;
    void *rows;    /* [STAGED_ROWS x d] */
    void *targets; /* [STAGED_ROWS x classes] */
    double *scale; /* √|Δω| */
};

struct member {
    struct model_options options;
    bool follows;         /* the member before it weights labels alike, and this one keeps the difference */
    struct analytic sums; /* has no square if nothing can differ */
    double *cross;        /* [d x classes] */
    double *class_weight;
    size_t place; /* index among the members that use pseudo-labels in this phase */
    threshold_survey survey;
    double threshold;
    int8_t *labels; /* [block x classes] */
    double *omega;  /* [block] */
    struct stage stage;
};

/* Work space of a phase. */
struct work {
    float *features; /* a block of rows, [block x k] */
    double *wide;
    void *expanded, *scaled; /* x and √ω x, [block x d] */
    int8_t *labels;          /* of the new classes */
    size_t labelled;         /* members that use pseudo-labels … */
    void *old_weights;       /* … their W side by side … */
    void *scores, *own;      /* … their scores, [block x labelled·old classes], and those of one of them */
    void *targets;           /* [block x classes] */
    double *root;            /* √ω */
    float *panel, *cross_block;
};

struct group {
    l3a_context *context;
    size_t width, dim, block;
    real type;
    struct buffer buffer;
    size_t old, all; /* classes before this phase, and including it */
    uint64_t *counts;
    struct member *members;
    size_t count;
    void *weights; /* W of all members side by side, [d x count·old classes], in the working precision */

    struct work work;
};

static bool weighs_alike(const struct model_options *left, const struct model_options *right) {
    return left->weights == right->weights && (left->weights == L3A_WEIGHTS_NONE || left->scaling == right->scaling);
}

/* Whether members that weight labels like this one may have different pseudo-labels, so that each needs a square. */
static bool may_disagree(const struct model_options *members, size_t count, size_t index) {
    bool disagree = false;
    for (size_t i = 0; i < count; i++) {
        disagree = disagree || (weighs_alike(&members[i], &members[index]) && members[i].pseudo != L3A_PSEUDO_OFF);
    }
    return disagree;
}

/* Whether a group supports these settings. */
static bool is_plain(const struct model_options *options) {
    return options->solver != L3A_SOLVER_RECURSIVE && !keeps_phases(options) && options->skip_features == L3A_SKIP_OFF &&
           options->gamma > 0 && options->thresholds == L3A_THRESHOLDS_FIXED;
}

bool group_accepts(const struct model_options *first, const struct model_options *other) {
    return is_plain(first) && is_plain(other) && first->dim == other->dim && first->seed == other->seed &&
           first->precision == other->precision && first->block == other->block;
}

uint64_t group_memory(const struct model_options *members, size_t count, size_t width, size_t classes) {
    const bool mixed = members->precision == L3A_PRECISION_MIXED;
    const double d = (double)members->dim, k = (double)width, K = (double)classes, n = (double)members->block;
    const double size = mixed ? 4 : 8, square = d * (double)analytic_stride((size_t)members->dim) * 8;
    double total = k * d * size + n * (k * 12 + 2 * d * size + K * (2 * size + 2)) + 1024 * d * 4 + d * K * 24;
    for (size_t i = 0; i < count; i++) {
        const bool follows = i && weighs_alike(&members[i - 1], &members[i]);
        const bool disagrees = follows && may_disagree(members, count, i);
        total += d * K * (16 + size) + n * (K + 8) + (!follows || disagrees ? square : 0) +
                 (disagrees ? STAGED_ROWS * (d + K) * size : 0);
    }
    return total < 9e18 ? (uint64_t)total : UINT64_MAX;
}

l3a_status group_create(l3a_context *context, const struct model_options *members, size_t count, size_t width,
                        struct group **group) {
    l3a_status status = L3A_OK;
    struct group *made = NULL;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    *made = (struct group){.context = context, .width = width, .dim = (size_t)members->dim, .block = (size_t)members->block};
    made->type = members->precision == L3A_PRECISION_MIXED ? REAL_SINGLE : REAL_DOUBLE;
    TRY(allocate_zeroed(context, count, sizeof *made->members, &made->members));
    made->count = count;
    TRY(buffer_create(context, width, made->dim, members->seed, made->type, &made->buffer));
    for (size_t i = 0; i < count; i++) {
        struct member *member = &made->members[i];
        member->options = members[i];
        member->follows = i && weighs_alike(&members[i - 1], &members[i]);
        if (!member->follows || may_disagree(members, count, i)) {
            TRY(analytic_create(context, made->dim, members[i].gamma, made->type, &member->sums));
        }
    }
    *group = made;
    made = NULL;
done:
    group_free(made);
    return status;
}

static void free_block(struct group *group) {
    const struct work *work = &group->work;
    void *const owned[] = {work->features, work->wide, work->expanded, work->scaled,      work->labels, work->scores,
                           work->targets,  work->root, work->panel,    work->cross_block, work->own,    work->old_weights};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        release(group->context, owned[i]);
    }
    group->work = (struct work){0};
    for (size_t i = 0; i < group->count; i++) {
        struct member *member = &group->members[i];
        release(group->context, member->class_weight);
        release(group->context, member->labels);
        release(group->context, member->omega);
        release(group->context, member->stage.rows);
        release(group->context, member->stage.targets);
        release(group->context, member->stage.scale);
        member->class_weight = member->omega = NULL;
        member->labels = NULL;
        member->stage = (struct stage){0};
    }
}

void group_free(struct group *group) {
    if (!group) {
        return;
    }
    free_block(group);
    for (size_t i = 0; i < group->count; i++) {
        struct member *member = &group->members[i];
        analytic_free(&member->sums);
        release(group->context, member->cross);
    }
    release(group->context, group->weights);
    buffer_free(&group->buffer);
    release(group->context, group->counts);
    release(group->context, group->members);
    release(group->context, group);
}

/* Widens a member's C by columns of zeros for the new classes. */
static l3a_status widen_cross(const struct group *group, struct member *member) {
    double *wider = NULL;
    const l3a_status status = allocate_zeroed(group->context, group->dim, group->all * sizeof *wider, &wider);
    for (size_t i = 0; status == L3A_OK && group->old && i < group->dim; i++) {
        memcpy(wider + i * group->all, member->cross + i * group->old, group->old * sizeof *wider);
    }
    if (status == L3A_OK) {
        release(group->context, member->cross);
        member->cross = wider;
    }
    return status;
}

static l3a_status prepare_member(const struct group *group, struct member *member, size_t rows) {
    l3a_context *context = group->context;
    const size_t size = real_size(group->type);
    l3a_status status = L3A_OK;
    TRY(widen_cross(group, member));
    TRY(allocate(context, group->all, sizeof *member->class_weight, &member->class_weight));
    TRY(allocate_zeroed(context, rows, group->all, &member->labels));
    TRY(allocate(context, rows, sizeof *member->omega, &member->omega));
    if (member->follows && member->sums.square && group->old) {
        TRY(allocate(context, STAGED_ROWS, group->dim * size, &member->stage.rows));
        TRY(allocate(context, STAGED_ROWS, group->all * size, &member->stage.targets));
        TRY(allocate(context, STAGED_ROWS, sizeof *member->stage.scale, &member->stage.scale));
    }
    class_weights(group->counts, group->all, member->options.weights, member->options.scaling, member->class_weight);
    member->survey = (threshold_survey){0};
    member->threshold = member->options.eta;
done:
    return status;
}

static bool uses_pseudo_labels(const struct group *group, const struct member *member) {
    return group->old && member->options.pseudo != L3A_PSEUDO_OFF;
}

/* Columns [first, first + columns) of each row. */
static void copy_columns(real type, const void *from, size_t from_stride, size_t first, void *to, size_t to_stride, size_t rows,
                         size_t columns) {
    const size_t size = real_size(type);
    for (size_t i = 0; i < rows; i++) {
        memcpy((char *)to + i * to_stride * size, (const char *)from + (i * from_stride + first) * size, columns * size);
    }
}

/* Puts the weights of the members that use pseudo-labels side by side, so that one product scores a block for all of them. */
static l3a_status prepare_scores(struct group *group, size_t rows) {
    l3a_context *context = group->context;
    struct work *work = &group->work;
    const size_t size = real_size(group->type), old = group->old;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < group->count; i++) {
        group->members[i].place = work->labelled;
        work->labelled += uses_pseudo_labels(group, &group->members[i]);
    }
    if (!work->labelled) {
        return L3A_OK;
    }
    const size_t columns = work->labelled * old;
    TRY(allocate(context, group->dim, columns * size, &work->old_weights));
    TRY(allocate(context, rows, columns * size, &work->scores));
    TRY(allocate(context, rows, old * size, &work->own));
    for (size_t i = 0; i < group->count; i++) {
        if (uses_pseudo_labels(group, &group->members[i])) {
            copy_columns(group->type, group->weights, group->count * old, i * old,
                         (char *)work->old_weights + group->members[i].place * old * size, columns, group->dim, old);
        }
    }
done:
    return status;
}

/* Allocates the work space of a phase, for blocks of `rows` rows. */
static l3a_status prepare_phase(struct group *group, size_t rows) {
    l3a_context *context = group->context;
    const size_t size = real_size(group->type), d = group->dim;
    l3a_status status = L3A_OK;
    TRY(allocate(context, rows, group->width * sizeof *group->work.features, &group->work.features));
    TRY(allocate(context, rows, group->all - group->old, &group->work.labels));
    TRY(allocate(context, rows, d * size, &group->work.expanded));
    TRY(allocate(context, rows, d * size, &group->work.scaled));
    TRY(prepare_scores(group, rows));
    TRY(allocate(context, rows, group->all * size, &group->work.targets));
    TRY(allocate(context, rows, sizeof *group->work.root, &group->work.root));
    if (group->type == REAL_DOUBLE) {
        TRY(allocate(context, rows, group->width * sizeof *group->work.wide, &group->work.wide));
    } else {
        TRY(allocate(context, d < ANALYTIC_PANEL ? d : ANALYTIC_PANEL, d * sizeof *group->work.panel, &group->work.panel));
        TRY(allocate(context, d, group->all * sizeof *group->work.cross_block, &group->work.cross_block));
    }
    for (size_t i = 0; i < group->count; i++) {
        TRY(prepare_member(group, &group->members[i], rows));
    }
done:
    return status;
}

static void score_old_classes(const struct group *group, size_t rows) {
    const struct work *work = &group->work;
    const size_t columns = work->labelled * group->old;
    if (columns) {
        group->context->matrix->multiply(group->context->threads, group->type, false, false, rows, columns, group->dim, 1,
                                         work->expanded, group->dim, work->old_weights, columns, 0, work->scores, columns);
    }
}

/* Copies a member's part of the scores. */
static const void *scores_of(const struct group *group, const struct member *member, size_t rows) {
    const struct work *work = &group->work;
    copy_columns(group->type, work->scores, work->labelled * group->old, member->place * group->old, work->own, group->old, rows,
                 group->old);
    return work->own;
}

static bool is_dynamic(const struct group *group, const struct member *member) {
    return group->old && member->options.pseudo == L3A_PSEUDO_DYNAMIC;
}

/* One pass over the rows for all members with a dynamic threshold. */
static l3a_status survey(struct group *group, l3a_features *features, const size_t *rows, size_t count, size_t block) {
    l3a_status status = L3A_OK;
    bool needed = false;
    for (size_t i = 0; i < group->count; i++) {
        needed = needed || is_dynamic(group, &group->members[i]);
    }
    for (size_t first = 0; needed && first < count; first += block) {
        const size_t n = count - first < block ? count - first : block;
        TRY(report_progress(group->context, "survey", first, count));
        TRY(l3a_features_read(features, rows + first, 0, n, group->work.features));
        buffer_expand(&group->buffer, group->work.features, n, group->work.wide, group->work.expanded);
        score_old_classes(group, n);
        for (size_t i = 0; i < group->count; i++) {
            if (is_dynamic(group, &group->members[i])) {
                survey_add(&group->members[i].survey, group->type, scores_of(group, &group->members[i], n), n, group->old);
            }
        }
    }
    for (size_t i = 0; needed && i < group->count; i++) {
        struct member *member = &group->members[i];
        if (is_dynamic(group, member)) {
            const double total = (double)(member->options.total_classes ? member->options.total_classes : group->all);
            member->threshold = survey_threshold(&member->survey, member->options.tau * (double)group->old / total);
        }
    }
done:
    return status;
}

/* ŷ and ω of a block, for one member. */
static void label_rows(const struct group *group, struct member *member, size_t rows, struct group_outcome *outcome) {
    const size_t own = group->all - group->old;
    for (size_t i = 0; i < rows; i++) {
        memset(member->labels + i * group->all, 0, group->old);
        memcpy(member->labels + i * group->all + group->old, group->work.labels + i * own, own);
    }
    if (uses_pseudo_labels(group, member)) {
        outcome->pseudo_labels += pseudo_label(group->type, scores_of(group, member, rows), rows, group->old, member->threshold,
                                               member->labels, group->all);
    }
    for (size_t i = 0; i < rows; i++) {
        member->omega[i] = sample_weight(member->labels + i * group->all, member->class_weight, group->all);
    }
    outcome->images += rows;
}

static void store_real(real type, void *to, size_t index, double value) {
    if (type == REAL_SINGLE) {
        ((float *)to)[index] = (float)value;
    } else {
        ((double *)to)[index] = value;
    }
}

struct scaling {
    real type;
    size_t d;
    const double *scale;
    const void *from;
    void *to;
};

static void scale_rows(void *argument, size_t first, size_t last) {
    const struct scaling *scaling = argument;
    for (size_t i = first; i < last; i++) {
        const double scale = scaling->scale[i];
        if (scaling->type == REAL_SINGLE) {
            const float *from = (const float *)scaling->from + i * scaling->d;
            float *to = (float *)scaling->to + i * scaling->d;
            for (size_t j = 0; j < scaling->d; j++) {
                to[j] = from[j] * (float)scale;
            }
        } else {
            const double *from = (const double *)scaling->from + i * scaling->d;
            double *to = (double *)scaling->to + i * scaling->d;
            for (size_t j = 0; j < scaling->d; j++) {
                to[j] = from[j] * scale;
            }
        }
    }
}

static void scale_block(const struct group *group, const double *scale, const void *from, void *to, size_t rows) {
    struct scaling scaling = {group->type, group->dim, scale, from, to};
    parallel_for(group->context->threads, rows, 16, scale_rows, &scaling);
}

/* C += XᵀT */
static void add_cross(const struct group *group, const void *rows, const void *targets, size_t count, double *cross) {
    const l3a_context *context = group->context;
    const size_t d = group->dim, all = group->all;
    const bool single = group->type == REAL_SINGLE;
    if (!count) {
        return;
    }
    context->matrix->multiply(context->threads, group->type, true, false, d, all, count, 1, rows, d, targets, all, single ? 0 : 1,
                              single ? (void *)group->work.cross_block : cross, all);
    for (size_t i = 0; single && i < d * all; i++) {
        cross[i] += (double)group->work.cross_block[i];
    }
}

/* The first member of a chain: A += X̃ᵀX̃ and C += X̃ᵀỸ, as in a separate model. */
static void add_block(const struct group *group, struct member *member, size_t rows) {
    for (size_t i = 0; i < rows; i++) {
        group->work.root[i] = sqrt(member->omega[i]);
        for (size_t k = 0; k < group->all; k++) {
            store_real(group->type, group->work.targets, i * group->all + k,
                       member->labels[i * group->all + k] == 1 ? group->work.root[i] : 0);
        }
    }
    scale_block(group, group->work.root, group->work.expanded, group->work.scaled, rows);
    add_cross(group, group->work.scaled, group->work.targets, rows, member->cross);
    analytic_add(&member->sums, group->type, group->work.scaled, rows, group->work.panel);
}

static char *at_row(const void *rows, size_t index, size_t columns, real type) {
    return (char *)rows + index * columns * real_size(type);
}

/* Adds the collected rows to the difference of the sums. */
static void flush_stage(const struct group *group, struct member *member) {
    struct stage *stage = &member->stage;
    const size_t back = STAGED_ROWS - stage->back;
    void *const last_rows = at_row(stage->rows, back, group->dim, group->type);
    double largest = 0;
    add_cross(group, stage->rows, stage->targets, stage->front, member->cross);
    add_cross(group, last_rows, at_row(stage->targets, back, group->all, group->type), stage->back, member->cross);
    for (size_t i = 0; i < STAGED_ROWS; i++) {
        largest = (i < stage->front || i >= back) && stage->scale[i] > largest ? stage->scale[i] : largest;
    }
    if (largest > 0) {
        scale_block(group, stage->scale, stage->rows, stage->rows, stage->front);
        scale_block(group, stage->scale + back, last_rows, last_rows, stage->back);
        analytic_add_difference(&member->sums, group->type, stage->rows, stage->front, last_rows, stage->back, group->work.panel);
    }
    stage->front = stage->back = 0;
}

/* Collects the rows of a block on which a member and the one before it disagree. */
static void add_difference(const struct group *group, struct member *member, size_t rows, struct group_outcome *outcome) {
    const struct member *before = member - 1;
    struct stage *stage = &member->stage;
    const size_t all = group->all;
    for (size_t i = 0; i < rows; i++) {
        const int8_t *labels = member->labels + i * all, *others = before->labels + i * all;
        if (memcmp(labels, others, group->old) == 0) {
            continue;
        }
        const double more = member->omega[i] - before->omega[i];
        const size_t slot = more >= 0 ? stage->front++ : STAGED_ROWS - ++stage->back;
        stage->scale[slot] = sqrt(fabs(more));
        memcpy(at_row(stage->rows, slot, group->dim, group->type), at_row(group->work.expanded, i, group->dim, group->type),
               group->dim * real_size(group->type));
        for (size_t k = 0; k < all; k++) {
            store_real(group->type, stage->targets, slot * all + k,
                       (labels[k] == 1 ? member->omega[i] : 0) - (others[k] == 1 ? before->omega[i] : 0));
        }
        outcome->corrected++;
        if (stage->front + stage->back == STAGED_ROWS) {
            flush_stage(group, member);
        }
    }
}

static l3a_status learn_rows(struct group *group, l3a_features *features, const size_t *rows, size_t count, const size_t *columns,
                             size_t block, struct group_outcome *outcomes) {
    l3a_status status = L3A_OK;
    for (size_t first = 0; first < count; first += block) {
        const size_t n = count - first < block ? count - first : block;
        TRY(report_progress(group->context, "learn", first, count));
        TRY(l3a_features_read(features, rows + first, 0, n, group->work.features));
        features_gather_labels(features, rows + first, n, columns, group->all - group->old, group->work.labels);
        buffer_expand(&group->buffer, group->work.features, n, group->work.wide, group->work.expanded);
        score_old_classes(group, n);
        for (size_t i = 0; i < group->count; i++) {
            struct member *member = &group->members[i];
            label_rows(group, member, n, &outcomes[i]);
            if (!member->follows) {
                add_block(group, member, n);
            } else if (member->stage.rows) {
                add_difference(group, member, n, &outcomes[i]);
            }
        }
    }
    for (size_t i = 0; i < group->count; i++) {
        if (group->members[i].stage.rows) {
            flush_stage(group, &group->members[i]);
        }
    }
    TRY(report_progress(group->context, "learn", count, count));
done:
    return status;
}

/* Sums A of each member along its chain, in the second triangle of its own square or of the one that the chain shares. */
static void sum_chains(const struct group *group) {
    for (size_t i = 0; i < group->count; i++) {
        const struct member *member = &group->members[i];
        if (member->sums.square) {
            analytic_total(&member->sums, member->follows ? &member[-1].sums : NULL);
        }
    }
}

/* Solves (A + γI) W = C for each member, with A and C summed along its chain. */
static l3a_status solve(struct group *group) {
    l3a_context *context = group->context;
    const size_t numbers = group->dim * group->all;
    l3a_status status = L3A_OK;
    double *cross = NULL, *solution = NULL;
    void *weights = NULL;
    const struct analytic *sums = NULL;
    const double start = clock_seconds();
    TRY(allocate(context, numbers, sizeof *cross, &cross));
    TRY(allocate(context, numbers, sizeof *solution, &solution));
    TRY(allocate(context, group->count, numbers * real_size(group->type), &weights));
    sum_chains(group);
    for (size_t i = 0; i < group->count; i++) {
        struct member *member = &group->members[i];
        TRY(report_progress(context, "solve", i, group->count));
        for (size_t j = 0; j < numbers; j++) {
            cross[j] = member->cross[j] + (member->follows ? cross[j] : 0);
        }
        if (member->sums.square) {
            sums = &member->sums;
        } else {
            analytic_total(sums, NULL);
        }
        TRY(analytic_solve_total(sums, member->options.gamma, group->all, cross, solution));
        for (size_t j = 0; j < group->dim; j++) {
            for (size_t k = 0; k < group->all; k++) {
                store_real(group->type, weights, (j * group->count + i) * group->all + k, solution[j * group->all + k]);
            }
        }
    }
    release(context, group->weights);
    group->weights = weights;
    weights = NULL;
    report_timing(context, "solve", clock_seconds() - start);
done:
    release(context, cross);
    release(context, solution);
    release(context, weights);
    return status;
}

/* Adds the images of each new class to f. */
static l3a_status count_images(struct group *group, const l3a_features *features, const size_t *rows, size_t count,
                               const size_t *columns, const char *const *names, size_t class_count) {
    l3a_status status = L3A_OK;
    uint64_t *counts = NULL;
    TRY(allocate_zeroed(group->context, group->all, sizeof *counts, &counts));
    if (group->old) {
        memcpy(counts, group->counts, group->old * sizeof *counts);
    }
    release(group->context, group->counts);
    group->counts = counts;
    for (size_t k = 0; k < class_count; k++) {
        for (size_t i = 0; i < count; i++) {
            counts[group->old + k] += features->labels[rows[i] * features->classes.count + columns[k]] == 1;
        }
        if (!counts[group->old + k]) {
            report_warning(group->context,
                           "class '%s' has no image in its phase and cannot be learned; add images of it, or leave it out",
                           names[k]);
        }
    }
done:
    return status;
}

l3a_status group_learn(struct group *group, l3a_features *features, const size_t *rows, size_t count, const size_t *columns,
                       const char *const *names, size_t class_count, struct group_outcome *outcomes) {
    l3a_status status = L3A_OK;
    const size_t block = count < group->block ? count : group->block;
    FAIL_IF(!count, group->context, L3A_ERROR_DATA, "give each phase images that show its classes", "a phase has no images");
    memset(outcomes, 0, group->count * sizeof *outcomes);
    group->all = group->old + class_count;
    TRY(count_images(group, features, rows, count, columns, names, class_count));
    TRY(prepare_phase(group, block));
    TRY(survey(group, features, rows, count, block));
    TRY(learn_rows(group, features, rows, count, columns, block, outcomes));
    TRY(solve(group));
    group->old = group->all;
done:
    free_block(group);
    return status;
}

l3a_status group_score(struct group *group, const float *features, size_t rows, float *const *scores) {
    l3a_context *context = group->context;
    l3a_status status = L3A_OK;
    const size_t d = group->dim, classes = group->old, columns = group->count * classes;
    const size_t size = real_size(group->type);
    void *expanded = NULL, *all = NULL;
    double *wide = NULL;
    TRY(allocate(context, rows, d * size, &expanded));
    TRY(allocate(context, rows, columns * size, &all));
    if (group->type == REAL_DOUBLE) {
        TRY(allocate(context, rows, group->width * sizeof *wide, &wide));
    }
    buffer_expand(&group->buffer, features, rows, wide, expanded);
    context->matrix->multiply(context->threads, group->type, false, false, rows, columns, d, 1, expanded, d, group->weights,
                              columns, 0, all, columns);
    for (size_t v = 0; v < group->count; v++) {
        for (size_t i = 0; i < rows; i++) {
            for (size_t k = 0; k < classes; k++) {
                const size_t at = i * columns + v * classes + k;
                scores[v][i * classes + k] = group->type == REAL_SINGLE ? ((float *)all)[at] : (float)((double *)all)[at];
            }
        }
    }
done:
    release(context, expanded);
    release(context, all);
    release(context, wide);
    return status;
}
