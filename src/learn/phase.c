/* One phase, step by step (SPEC §3): pseudo-labels, counts, weights, sums, solution.
 *
 * Rows are collected until a block is full and then processed together, so the matrix products are large, and the result does not
 * depend on how the caller divides the rows. The phase has sums of its own, which are added to the model's when it ends: a phase
 * that is abandoned leaves the model as it was, and processes that share a phase add up theirs before. */
#include "learn/model.h"

#include "base/text_index.h"
#include "base/threads.h"
#include "data/features.h"
#include "learn/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static size_t old_classes(const l3a_model *model) {
    return model->classes.count;
}

/* Rows of an image. */
static size_t views_of(const l3a_model *model) {
    return view_rows((size_t)model->options.views);
}

static bool uses_pseudo_labels(const l3a_model *model) {
    return model->options.pseudo != L3A_PSEUDO_OFF && old_classes(model) > 0;
}

void list_block(struct phase *phase, const struct model_options *options, size_t block, size_t width, size_t old, size_t all,
                struct array *list) {
    const size_t rows = block * view_rows((size_t)options->views);
    const bool pseudo = options->pseudo != L3A_PSEUDO_OFF && old;
    list[0] = (struct array){&phase->features, rows, width * sizeof *phase->features, false};
    list[1] = (struct array){&phase->own, block, all - old, false};
    list[2] = (struct array){&phase->labels, block, all, true};
    list[3] = (struct array){&phase->scores, pseudo ? rows : 0, old * real_size(options_real(options)), false};
    list[4] = (struct array){&phase->weight, rows, sizeof *phase->weight, false};
    list[5] = (struct array){&phase->targets, rows, all * sizeof *phase->targets, false};
}

void list_columns(struct phase *phase, size_t dim, size_t all, struct array *list) {
    list[0] = (struct array){&phase->cross, dim, all * sizeof *phase->cross, true};
    list[1] = (struct array){&phase->coefficients, dim, all * sizeof *phase->coefficients, true};
}

static void free_block(l3a_model *model) {
    struct array list[BLOCK_ARRAYS];
    list_block(&model->phase, &model->options, 0, 0, 0, 0, list);
    arrays_release(model->context, list, BLOCK_ARRAYS);
    block_free(&model->phase.own_rows);
    model->phase.rows_of_block = NULL;
    model->phase.block = 0;
}

static void phase_free(l3a_model *model) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    text_list_clear(context, &phase->classes);
    void *const owned[] = {phase->counts,       phase->learned, phase->class_weight,
                           phase->label_weight, phase->cross,   phase->coefficients};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        release(context, owned[i]);
    }
    free_block(model);
    gamma_sample_free(context, &phase->sample);
    memset(phase, 0, sizeof *phase);
}

l3a_status check_state(const l3a_model *model, bool in_phase) {
    if (model->state == MODEL_BROKEN) {
        return fail(model->context, L3A_ERROR_STATE, "load the model again from its file",
                    "the model was left halfway through a phase or another change, so its sums are incomplete");
    }
    if ((model->state != MODEL_READY) != in_phase) {
        return fail(model->context, L3A_ERROR_STATE, NULL, in_phase ? "no phase is in progress" : "a phase is in progress");
    }
    if (in_phase && model->phase.failed) {
        return fail(model->context, L3A_ERROR_STATE, "abandon the phase, and learn it again",
                    "the phase cannot continue after rows that could not be learned");
    }
    return L3A_OK;
}

/* Lists all classes, old and new, and checks the new ones. */
static l3a_status collect_classes(l3a_model *model, const char *const *classes, size_t class_count) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    text_list *all = &model->phase.classes;
    text_index index = {0};
    size_t first = 0;
    for (size_t i = 0; i < old_classes(model); i++) {
        TRY(text_list_add(context, all, model->classes.items[i], strlen(model->classes.items[i])));
    }
    for (size_t i = 0; i < class_count; i++) {
        FAIL_IF(!classes[i] || !classes[i][0] || strchr(classes[i], '\n'), context, L3A_ERROR_CLASS,
                "give every class a name without line breaks", "class %zu of the phase has no usable name", i);
        TRY(text_list_add(context, all, classes[i], strlen(classes[i])));
    }
    TRY(text_index_make(context, all->items, all->count, &index));
    const size_t second = text_index_repeated(&index, &first);
    FAIL_IF(second < all->count && first < old_classes(model), context, L3A_ERROR_CLASS,
            "to learn more images of it, learn them in a new model with the same settings, and merge the two",
            "class '%s' has already been learned", all->items[second]);
    FAIL_IF(second < all->count, context, L3A_ERROR_CLASS, "name every class once", "class '%s' is listed twice in the phase",
            all->items[second]);
done:
    text_index_free(context, &index);
    return status;
}

static l3a_status begin(l3a_model *model, const char *const *classes, size_t class_count) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const size_t old = old_classes(model);
    TRY(solver_fits(context, &model->options));
    TRY(collect_classes(model, classes, class_count));
    const size_t all = phase->classes.count;
    TRY(model_check_memory(context, &model->options, model->width, all, model->evidence->part_count + 1, model));
    TRY(allocate_zeroed(context, all, sizeof *phase->counts, &phase->counts));
    TRY(allocate_zeroed(context, all, sizeof *phase->learned, &phase->learned));
    TRY(allocate_zeroed(context, all, sizeof *phase->class_weight, &phase->class_weight));
    TRY(allocate_zeroed(context, all, sizeof *phase->label_weight, &phase->label_weight));
    if (old) {
        memcpy(phase->counts, model->counts, old * sizeof *phase->counts);
    }
    phase->info.first = old;
    phase->info.last = all;
    model->state = MODEL_COUNTING;
done:
    if (status != L3A_OK) {
        phase_free(model);
    }
    return status;
}

l3a_status l3a_phase_begin(l3a_model *model, const char *const *classes, size_t class_count) {
    REQUIRE(model, model, classes);
    l3a_status status = L3A_OK;
    TRY(check_state(model, false));
    FAIL_IF(!classes || !class_count, model->context, L3A_ERROR_ARGUMENT, "name the classes of the phase",
            "the phase has no classes");
    TRY(begin(model, classes, class_count));
done:
    return status;
}

static l3a_status check_labels(const l3a_model *model, const int8_t *labels, size_t rows) {
    const size_t classes = model->phase.classes.count - old_classes(model);
    unsigned char most = 0; /* first without branches, so that the compiler can vectorise it */
    for (size_t i = 0; i < rows * classes; i++) {
        const unsigned char above = (unsigned char)(labels[i] + 1);
        most = above > most ? above : most;
    }
    for (size_t i = 0; most > 2 && i < rows * classes; i++) {
        if (labels[i] < -1 || labels[i] > 1) {
            return fail(model->context, L3A_ERROR_DATA, "use labels 1 (present), 0 (absent) or -1 (unknown)",
                        "row %zu, class '%s': label %d is not allowed", i / classes,
                        model->phase.classes.items[old_classes(model) + i % classes], labels[i]);
        }
    }
    return L3A_OK;
}

static void add_counts(const l3a_model *model, const int8_t *labels, size_t rows, uint64_t *counts) {
    const size_t first = old_classes(model), classes = model->phase.classes.count - first;
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < classes; j++) {
            counts[first + j] += labels[i * classes + j] == 1;
        }
    }
}

l3a_status l3a_phase_count(l3a_model *model, const int8_t *labels, size_t rows) {
    REQUIRE(model, model, labels);
    l3a_status status = L3A_OK;
    TRY(check_state(model, true));
    FAIL_IF(model->state != MODEL_COUNTING, model->context, L3A_ERROR_STATE, NULL,
            "all labels must be counted before the first row is learned");
    TRY(check_labels(model, labels, rows));
    add_counts(model, labels, rows, model->phase.counts);
    model->phase.rows += rows;
done:
    return status;
}

/* How many rows the processes have together, how many images of each class, and which rows are this one's. */
static l3a_status share_counts(l3a_model *model) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const size_t processes = context->options.processes, old = old_classes(model);
    uint64_t *rows = NULL;
    if (learns_alone(context)) {
        phase->all_rows = phase->rows;
    }
    if (phase->all_rows) {
        return L3A_OK;
    }
    TRY(allocate_zeroed(context, processes + 1, sizeof *rows, &rows));
    rows[context->options.process] = phase->rows;
    TRY(sum_counts(context, rows, processes));
    TRY(sum_counts(context, phase->counts + old, phase->classes.count - old));
    TRY(sum_counts(context, &phase->survey.images, 1));
    TRY(sum_counts(context, phase->survey.above, THRESHOLDS + 1));
    for (size_t i = 0; i < processes; i++) {
        phase->first_row += i < context->options.process ? rows[i] : 0;
        phase->all_rows += rows[i];
    }
done:
    release(context, rows);
    return status;
}

/* Prepares what expanding and scoring need: the layer, a block of rows, the old coefficients. */
l3a_status phase_prepare_block(l3a_model *model, struct block *shared) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const size_t all = phase->classes.count;
    struct array list[BLOCK_ARRAYS];
    if (phase->block) {
        return L3A_OK;
    }
    phase->recursive =
        chooses_recursion(model->context, &model->options, model_dim(model), phase->rows, model->evidence->ridge.inverse);
    TRY(shared ? model_ready_solution(model) : model_ready(model));
    phase->block = block_images(&model->options, phase->rows);
    list_block(phase, &model->options, phase->block, model->width, old_classes(model), all, list);
    TRY(arrays_allocate(model->context, list, BLOCK_ARRAYS));
    phase->rows_of_block = shared;
    if (!shared) {
        phase->own_rows = (struct block){.context = model->context,
                                         .layer = &model->layer,
                                         .capacity = phase->block * views_of(model),
                                         .columns = all,
                                         .recursive = phase->recursive};
        TRY(block_create(&phase->own_rows));
        phase->rows_of_block = &phase->own_rows;
    }
done:
    if (status != L3A_OK) {
        free_block(model);
    }
    return status;
}

/* Rows of features that several threads look at: ‖z‖² of each, in an order of its own, so that it does not depend on the threads.
 * It is finite if all numbers are, since a square of a float cannot exceed a double. */
enum { LOOKED_AT = 4096 };
struct look {
    const float *features;
    size_t width;
    double squares[LOOKED_AT];
};

static void look_at_rows(void *argument, size_t first, size_t last) {
    enum { LANES = 8 };
    struct look *look = argument;
    const size_t k = look->width;
    for (size_t i = first; i < last; i++) {
        const float *row = look->features + i * k;
        double lanes[LANES] = {0}, sum = 0;
        size_t j = 0;
        for (; j + LANES <= k; j += LANES) {
            for (size_t lane = 0; lane < LANES; lane++) {
                lanes[lane] += (double)row[j + lane] * (double)row[j + lane];
            }
        }
        for (; j < k; j++) {
            sum += (double)row[j] * (double)row[j];
        }
        for (size_t lane = 0; lane < LANES; lane++) {
            sum += lanes[lane];
        }
        look->squares[i] = sum;
    }
}

static l3a_status fail_non_finite(const l3a_model *model, const float *features, size_t row) {
    const size_t each = model_image(model),
                 bad = row * model->width + find_non_finite(1, features + row * model->width, model->width);
    return fail(model->context, L3A_ERROR_DATA, "omit the row, or compute its features again",
                "row %zu, column %zu: the feature is %s", bad / each, bad % each,
                isnan(features[bad]) ? "not a number (NaN)" : "infinite");
}

static void keep_largest(struct feature_scale *scale, const float *row, size_t width, uint64_t image) {
    scale->column = 0;
    for (size_t j = 0; j < width; j++) {
        scale->column = fabsf(row[j]) > fabsf(row[scale->column]) ? j : scale->column;
    }
    scale->row = image;
    scale->value = row[scale->column];
}

/* Reads the features of images once: checks that they are finite, and adds them to the scale. */
static l3a_status measure_features(const l3a_model *model, const float *features, size_t images, struct feature_scale *scale) {
    enum { PART = 1 << 15 };
    const size_t k = model->width, each = views_of(model), rows = images * each;
    l3a_status status = L3A_OK;
    struct look look;
    for (size_t first = 0; first < rows; first += LOOKED_AT) {
        const size_t n = rows - first < LOOKED_AT ? rows - first : LOOKED_AT;
        size_t largest = n;
        look.features = features + first * k;
        look.width = k;
        parallel_for(model->context->threads, n, k < PART ? PART / k : 1, look_at_rows, &look);
        for (size_t i = 0; i < n; i++) {
            if (!isfinite(look.squares[i])) {
                TRY(fail_non_finite(model, features, first + i));
            }
            scale->sum += look.squares[i];
            if (look.squares[i] > scale->largest) {
                scale->largest = look.squares[i];
                largest = i;
            }
        }
        if (largest < n) {
            keep_largest(scale, look.features + largest * k, k, (scale->rows + largest) / each);
        }
        scale->rows += n;
    }
done:
    return status;
}

/* If one row is far larger than all others, and γ is below the rounding error that it causes, nothing of the others is left in the
 * sums. Its ‖x‖² is about d ‖z‖²/6k, since half of the numbers pass the ReLU and the entries of B have variance 1/3k. */
static l3a_status check_scale(const l3a_model *model, const struct feature_scale *scale) {
    const struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    char where[64] = "";
    const double k = (double)model->width, others = fmax(0, scale->sum - scale->largest) / (double)(scale->rows - 1);
    const double share = (double)model->options.dim / (6 * k) + (model_dim(model) > model->options.dim ? 1 : 0);
    if (scale->rows < 2 || scale->largest <= 1e6 * others || ridge_is_safe(&model->evidence->ridge, share * scale->largest)) {
        return L3A_OK;
    }
    snprintf(where, sizeof where, "row %" PRIu64 "%s", phase->table ? (uint64_t)phase->table_rows[scale->row] : scale->row,
             phase->table ? "" : " of the phase");
    FAIL_IF(true, model->context, L3A_ERROR_DATA, "omit the row, or compute its features again",
            "%s%s%s, column %zu: the feature is %.3g, but those of other rows are about %.1g, and nothing would be left of them in "
            "the sums",
            phase->table ? phase->table->path : "", phase->table ? ": " : "", where, scale->column, (double)scale->value,
            sqrt(others / k));
done:
    return status;
}

/* The scores of old classes that give pseudo-labels to the images of the expanded block. */
static l3a_status score_block(l3a_model *model, size_t images) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    TRY(block_score(phase->rows_of_block, &model->solution, phase->scores));
    combine_views_for_labels(model->context->threads, options_real(&model->options), model->options.pseudo_from, phase->scores,
                             images, (size_t)model->options.views, old_classes(model));
done:
    return status;
}

l3a_status phase_survey_expanded(l3a_model *model) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const size_t images = phase->rows_of_block->count / views_of(model);
    TRY(score_block(model, images));
    survey_add(model->context->threads, &phase->survey, options_real(&model->options), phase->scores, images, old_classes(model));
done:
    return status;
}

l3a_status l3a_phase_survey(l3a_model *model, const float *features, size_t rows) {
    REQUIRE(model, model, features);
    struct phase *phase = &model->phase;
    struct feature_scale unused = {0};
    l3a_status status = L3A_OK;
    TRY(check_state(model, true));
    FAIL_IF(model->state != MODEL_COUNTING, model->context, L3A_ERROR_STATE, NULL,
            "the survey must come before the first row is learned");
    TRY(measure_features(model, features, rows, &unused));
    if (!uses_pseudo_labels(model)) {
        return L3A_OK;
    }
    FAIL_IF(!phase->rows, model->context, L3A_ERROR_DATA, "count the labels of all its images first", "the phase has no images");
    TRY(phase_prepare_block(model, NULL));
    for (size_t first = 0; first < rows; first += phase->block) {
        const size_t n = rows - first < phase->block ? rows - first : phase->block;
        TRY(block_expand(phase->rows_of_block, features + first * model_image(model), n * views_of(model)));
        TRY(phase_survey_expanded(model));
    }
done:
    return status;
}

static l3a_status choose_threshold(l3a_model *model) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    if (!uses_pseudo_labels(model)) {
        return L3A_OK;
    }
    phase->info.eta = model->options.eta;
    if (model->options.pseudo == L3A_PSEUDO_DYNAMIC) {
        FAIL_IF(phase->survey.images != phase->all_rows, model->context, L3A_ERROR_STATE,
                "call l3a_phase_survey for all rows, between counting and learning",
                "the dynamic threshold needs a survey of %" PRIu64 " rows, but %" PRIu64 " were surveyed", phase->all_rows,
                phase->survey.images);
        const uint64_t total = model->options.total_classes ? model->options.total_classes : phase->classes.count;
        phase->info.eta = survey_threshold(&phase->survey, model->options.tau * (double)old_classes(model) / (double)total);
    }
done:
    return status;
}

void warn_of_empty_classes(const l3a_model *model) {
    for (size_t k = old_classes(model); k < model->phase.classes.count; k++) {
        if (!model->phase.counts[k]) {
            report_warning(model->context,
                           "class '%s' has no image in its phase and cannot be learned; add images of it, or leave it out",
                           model->phase.classes.items[k]);
        }
    }
}

/* The next cross and coefficients start from the model's, with columns of zeros for the new classes. */
static l3a_status prepare_columns(l3a_model *model) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const size_t d = model_dim(model), old = old_classes(model), all = phase->classes.count;
    struct array list[COLUMN_ARRAYS];
    if (phase->cross) {
        return L3A_OK;
    }
    list_columns(phase, d, all, list);
    TRY(arrays_allocate(model->context, list, COLUMN_ARRAYS));
    for (size_t i = 0; old && i < d; i++) {
        memcpy(phase->cross + i * all, model->evidence->cross + i * old, old * sizeof *phase->cross);
        memcpy(phase->coefficients + i * all, model->coefficients + i * old, old * sizeof *phase->coefficients);
    }
done:
    return status;
}

/* Room for one more part. */
static l3a_status prepare_parts(l3a_model *model) {
    struct evidence *evidence = model->evidence;
    l3a_status status = L3A_OK;
    struct part *parts = NULL;
    TRY(allocate_zeroed(model->context, evidence->part_count + 1, sizeof *parts, &parts));
    if (evidence->part_count) {
        memcpy(parts, evidence->parts, evidence->part_count * sizeof *parts);
    }
    release(model->context, evidence->parts);
    evidence->parts = parts;
done:
    return status;
}

l3a_status phase_prepare(l3a_model *model, struct block *rows) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    struct ridge *ridge = &model->evidence->ridge;
    l3a_status status = L3A_OK;
    const size_t all = phase->classes.count;
    TRY(share_counts(model));
    FAIL_IF(!phase->all_rows, context, L3A_ERROR_DATA, "count the labels of all its images first", "the phase has no images");
    TRY(phase_prepare_block(model, rows));
    TRY(choose_threshold(model));
    TRY(prepare_columns(model));
    if (keeps_phases(&model->options)) {
        TRY(prepare_parts(model));
    }
    if (model->options.gamma == 0 && model->options.gamma_from == L3A_GAMMA_FROM_IMAGES && !phase->sample.values) {
        TRY(gamma_sample_create(context, model->width, all, phase->all_rows, &phase->sample));
    }
    TRY(ridge_use_inverse(ridge, phase->recursive));
    if (phase->recursive) {
        TRY(sums_copy(&ridge->sums, ADDED)); /* for a phase that is abandoned */
    } else {
        TRY(sums_begin(&ridge->sums, all));
    }
    class_weights(phase->counts, all, model->options.weights, model->options.scaling, phase->class_weight);
    if (!model->in_group) {
        warn_of_empty_classes(model);
    }
    phase->info.recursive = phase->recursive;
    model->state = MODEL_LEARNING;
done:
    return status;
}

struct labelling {
    l3a_model *model;
    const float *features;
    uint64_t done; /* images of the phase before these */
    uint64_t pseudo_labels;
};

/* The labels of images, true and pseudo; their ω; and of each row its weight, and ŷ as numbers. */
static void label_images(void *argument, size_t first, size_t last) {
    struct labelling *labelling = argument;
    l3a_model *model = labelling->model;
    struct phase *phase = &model->phase;
    const real type = options_real(&model->options);
    const size_t old = old_classes(model), all = phase->classes.count, own = all - old, each = views_of(model);
    if (uses_pseudo_labels(model)) {
        const uint64_t made = pseudo_label(type, (const char *)phase->scores + first * old * real_size(type), last - first, old,
                                           phase->info.eta, phase->labels + first * all, all);
        __atomic_fetch_add(&labelling->pseudo_labels, made, __ATOMIC_RELAXED);
    }
    for (size_t i = first; i < last; i++) {
        int8_t *labels = phase->labels + i * all;
        memcpy(labels + old, phase->own + i * own, own);
        const double weight = sample_weight(labels, phase->class_weight, all);
        spread_image(weight, labels, all, (size_t)model->options.views, phase->weight + i * each, phase->targets + i * each * all);
        if (phase->sample.values) {
            gamma_sample_offer(&phase->sample, labelling->done + i, labelling->features + i * model_image(model), weight, labels);
        }
    }
}

/* Adds the weights of images in their order, whatever the number of threads. */
static void add_weights(l3a_model *model, size_t images) {
    struct phase *phase = &model->phase;
    const size_t all = phase->classes.count, each = views_of(model);
    for (size_t i = 0; i < images; i++) {
        const int8_t *labels = phase->labels + i * all;
        const double weight = phase->weight[i * each]; /* of the whole picture */
        phase->info.skipped += weight == 0;
        phase->info.images += weight > 0;
        for (size_t k = 0; k < all; k++) {
            phase->label_weight[k] += labels[k] == 1 ? weight : 0;
        }
    }
}

l3a_status phase_label(l3a_model *model, const float *features, size_t count) {
    enum { PART = 1 << 12 };
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const size_t all = phase->classes.count;
    const uint64_t learned = phase->info.images + phase->info.skipped;
    struct labelling labelling = {.model = model, .features = features, .done = phase->first_row + learned};
    if (uses_pseudo_labels(model) && !phase->scored) {
        TRY(score_block(model, count));
    }
    phase->scored = false;
    parallel_for(model->context->threads, count, PART / (all * views_of(model)) + 1, label_images, &labelling);
    phase->info.pseudo_labels += labelling.pseudo_labels;
    if (uses_pseudo_labels(model) && model->witness.see) {
        model->witness.see(model->witness.user, learned, count, phase->labels, all);
    }
    add_weights(model, count);
done:
    return status;
}

l3a_status phase_add(l3a_model *model) {
    struct phase *phase = &model->phase;
    struct ridge *ridge = &model->evidence->ridge;
    return phase->recursive
               ? ridge_update(ridge, phase->rows_of_block, phase->weight, phase->targets, phase->cross, phase->coefficients)
               : sums_add(&ridge->sums, phase->rows_of_block, 1, phase->weight, phase->targets);
}

/* features: of the images that are staged */
static l3a_status work_on_block(l3a_model *model, const float *features) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const double start = clock_seconds();
    if (!phase->staged) {
        return L3A_OK;
    }
    TRY(block_expand(phase->rows_of_block, features, phase->staged * views_of(model)));
    phase->expand_seconds += clock_seconds() - start;
    TRY(phase_label(model, features, phase->staged));
    TRY(phase_add(model));
done:
    phase->staged = 0;
    phase->failed = status != L3A_OK;
    return status;
}

/* Copies what does not fill a block and is not there already. */
static l3a_status stage(l3a_model *model, const float *features, const int8_t *labels, size_t rows) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const size_t k = model_image(model), own = phase->classes.count - old_classes(model);
    for (size_t n; rows; rows -= n, features += n * k, labels += n * own) {
        const size_t room = phase->block - phase->staged;
        float *to = phase->features + phase->staged * k;
        int8_t *to_own = phase->own + phase->staged * own;
        n = rows < room ? rows : room;
        const bool whole = n == phase->block;
        if (!whole && features != to) {
            parallel_copy(model->context->threads, to, features, n * k * sizeof *features);
        }
        if (labels != to_own) {
            memcpy(to_own, labels, n * own);
        }
        phase->staged += n;
        if (phase->staged == phase->block) {
            TRY(work_on_block(model, whole ? features : phase->features));
        }
    }
done:
    return status;
}

l3a_status l3a_phase_learn(l3a_model *model, const float *features, const int8_t *labels, size_t rows) {
    REQUIRE(model, model, features, labels);
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    TRY(check_state(model, true));
    TRY(check_labels(model, labels, rows));
    struct feature_scale scale = phase->scale; /* which a refused block leaves as it was */
    TRY(measure_features(model, features, rows, &scale));
    TRY(check_scale(model, &scale));
    if (model->state == MODEL_COUNTING) {
        TRY(phase_prepare(model, NULL));
    }
    FAIL_IF(rows > phase->rows - phase->rows_learned, model->context, L3A_ERROR_STATE,
            "count the labels of every row once, and learn every row once",
            "%" PRIu64 " rows were counted, but more are being learned", phase->rows);
    phase->scale = scale;
    phase->rows_learned += rows;
    add_counts(model, labels, rows, phase->learned);
    TRY(stage(model, features, labels, rows));
done:
    return status;
}

/* Replaces the current model by the next one; nothing here can fail. The evidence has been replaced already. */
static void adopt(l3a_model *model, l3a_phase_info *phases) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    const size_t old = old_classes(model);
    if (model->phase_count) {
        memcpy(phases, model->phases, model->phase_count * sizeof *phases);
    }
    phases[model->phase_count++] = phase->info;
    release(context, model->phases);
    model->phases = phases;
    for (size_t k = 0; k < old; k++) {
        phase->class_weight[k] = model->class_weight[k];
        phase->label_weight[k] += model->label_weight[k];
    }
    const text_list classes = model->classes;
    model->classes = phase->classes;
    phase->classes = classes;
    struct {
        void *mine, *next;
    } const arrays[] = {{&model->counts, &phase->counts},
                        {&model->label_weight, &phase->label_weight},
                        {&model->class_weight, &phase->class_weight},
                        {&model->coefficients, &phase->coefficients}};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        void *mine, *next;
        memcpy(&mine, arrays[i].mine, sizeof mine);
        memcpy(&next, arrays[i].next, sizeof next);
        memcpy(arrays[i].mine, &next, sizeof next);
        memcpy(arrays[i].next, &mine, sizeof mine);
    }
    phase_free(model);
    model_changed(model);
    model->state = MODEL_READY;
}

/* The phase is that of all processes afterwards, except for sums that another member of a group shares. */
static l3a_status share_phase(l3a_model *model, bool sums) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    uint64_t counts[] = {phase->info.images, phase->info.skipped, phase->info.pseudo_labels};
    if (sums) {
        TRY(sums_share(&model->evidence->ridge.sums, phase->classes.count, phase->cross));
    }
    TRY(sum_counts(context, counts, 3));
    phase->info.images = counts[0];
    phase->info.skipped = counts[1];
    phase->info.pseudo_labels = counts[2];
    TRY(sum_numbers(context, phase->label_weight, phase->classes.count));
    TRY(sum_numbers(context, phase->sample.values, phase->sample.values ? gamma_sample_numbers(&phase->sample) : 0));
done:
    return status;
}

/* Chooses γ with the rows of the block, if the sample fits there. */
static l3a_status find_gamma(l3a_model *model) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    struct block rows = {.context = model->context, .layer = phase->rows_of_block->layer, .capacity = phase->sample.capacity};
    const bool fits = phase->rows_of_block->capacity >= phase->sample.capacity;
    if (!fits) {
        TRY(block_create(&rows));
    }
    TRY(choose_gamma(fits ? phase->rows_of_block : &rows, &phase->sample, &model->options.gamma));
    gamma_sample_free(model->context, &phase->sample);
    phase->chose_gamma = true;
done:
    block_free(&rows);
    return status;
}

l3a_status phase_keep(l3a_model *model) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    struct evidence *evidence = model->evidence;
    l3a_status status = L3A_OK;
    if (phase->kept) {
        return L3A_OK;
    }
    if (keeps_phases(&model->options)) {
        struct part *part = &evidence->parts[evidence->part_count];
        TRY(part_create(context, model_dim(model), options_real(&model->options), phase->info.first, phase->info.last, part));
        part->images = phase->info.images;
        status = scatter_add_sums(&part->sums, &evidence->ridge.sums, 1);
        if (status != L3A_OK) {
            part_free(part);
            goto done;
        }
        evidence->part_count++;
    } else if (!phase->recursive) {
        TRY(sums_keep(&evidence->ridge.sums, 1));
    }
    evidence_changed(evidence);
    release(context, evidence->cross);
    evidence->cross = phase->cross;
    phase->cross = NULL;
    phase->kept = true;
    TRY(model_fold(model));
done:
    return status;
}

/* docs/beyond.md explains why. */
static void warn_of_few_images(const l3a_model *model) {
    const struct phase *phase = &model->phase;
    const uint64_t images = phase->info.images, limit = model->options.privacy_limit;
    size_t few = 0, fewest = phase->info.first;
    for (size_t k = phase->info.first; k < phase->info.last; k++) {
        few += phase->counts[k] && phase->counts[k] < limit;
        fewest = phase->counts[k] && (phase->counts[k] < phase->counts[fewest] || !phase->counts[fewest]) ? k : fewest;
    }
    if (images < limit) {
        report_warning(model->context,
                       "the phase has %" PRIu64
                       " image%s: someone with the model%s could reconstruct their features, or the space they span; "
                       "learn more images together",
                       images, images == 1 ? "" : "s", keeps_phases(&model->options) ? "" : "s from before and after it");
    } else if (few) {
        report_warning(model->context,
                       "%zu of the classes %s fewer than %" PRIu64 " images ('%s' has %" PRIu64
                       "): the model holds the sum of their features; learn more images together",
                       few, few == 1 ? "has" : "have", limit, phase->classes.items[fewest], phase->counts[fewest]);
    }
}

/* Checks that what was learned is what was counted. */
static l3a_status check_complete(const l3a_model *model) {
    l3a_context *context = model->context;
    const struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    FAIL_IF(!phase->rows && learns_alone(context), context, L3A_ERROR_DATA, "give the phase images that show its classes",
            "the phase has no images");
    FAIL_IF(phase->rows_learned != phase->rows, context, L3A_ERROR_STATE, "learn every row that was counted",
            "%" PRIu64 " rows were counted, but %" PRIu64 " were learned", phase->rows, phase->rows_learned);
    for (size_t k = old_classes(model); learns_alone(context) && k < phase->classes.count; k++) {
        FAIL_IF(phase->learned[k] != phase->counts[k], context, L3A_ERROR_STATE,
                "give the same labels when counting and when learning",
                "class '%s': %" PRIu64 " images were counted, but %" PRIu64 " were learned", phase->classes.items[k],
                phase->counts[k], phase->learned[k]);
    }
done:
    return status;
}

l3a_status phase_finish(l3a_model *model) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    l3a_phase_info *phases = NULL;
    const double start = clock_seconds();
    TRY(allocate(context, model->phase_count + 1, sizeof *phases, &phases));
    if (!phase->recursive) {
        TRY(model_solve(model, phase->classes.count, model->evidence->cross, phase->coefficients));
        report_timing(context, "solve", clock_seconds() - start);
    } else {
        TRY(ridge_check_update(&model->evidence->ridge, phase->classes.count, model->evidence->cross, phase->coefficients));
    }
    if (!model->in_group) {
        warn_of_few_images(model);
    }
    if (phase->info.skipped && !phase->table && !model->in_group) {
        report_warning(context, "%" PRIu64 " of %" PRIu64 " images have no label and were skipped (weight 0)", phase->info.skipped,
                       phase->all_rows);
    }
    if (phase->chose_gamma) {
        TRY(l3a_model_set_record(model, "gamma", "auto"));
    }
    adopt(model, phases);
    phases = NULL;
done:
    release(context, phases);
    return status;
}

l3a_status phase_complete(l3a_model *model, bool shares) {
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    if (!phase->recursive) {
        TRY(share_phase(model, !shares));
        report_share(context);
    }
    FAIL_IF(!phase->info.images, context, L3A_ERROR_DATA, "give the phase images that show its classes",
            "none of the %" PRIu64 " images of the phase has a label", phase->all_rows);
    if (phase->sample.values) {
        TRY(find_gamma(model));
    }
    free_block(model);
    phase->complete = true;
done:
    return status;
}

l3a_status l3a_phase_end(l3a_model *model) {
    REQUIRE(model, model);
    l3a_context *context = model->context;
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    TRY(check_state(model, true));
    TRY(check_complete(model));
    if (model->state == MODEL_COUNTING) {
        TRY(phase_prepare(model, NULL)); /* a process without rows */
    }
    TRY(work_on_block(model, phase->features));
    if (!phase->complete) {
        report_timing(context, "expand", phase->expand_seconds);
        TRY(phase->recursive ? L3A_OK : report_progress(context, "solve", 0, 1));
        TRY(phase_complete(model, false));
    }
    TRY(phase_keep(model));
    TRY(phase_finish(model));
done:
    return status;
}

void l3a_phase_abandon(l3a_model *model) {
    if (!model) {
        return;
    }
    struct phase *phase = &model->phase;
    if (model->state != MODEL_COUNTING && model->state != MODEL_LEARNING) {
        return;
    }
    const bool restored =
        !phase->recursive || model->state == MODEL_COUNTING || sums_copy(&model->evidence->ridge.sums, KEPT) == L3A_OK;
    model->state = phase->kept || !restored ? MODEL_BROKEN : MODEL_READY;
    model->options.gamma = phase->chose_gamma ? 0 : model->options.gamma;
    phase_free(model);
}
