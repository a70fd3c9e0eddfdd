/* The rows of a phase: they are counted, surveyed and learned.
 *
 * Rows are collected until a block is full and then processed together, so the matrix products are large, and the result does not
 * depend on how the caller divides the rows. */
#include "learn/phase.h"

#include "base/threads.h"
#include "learn/model.h"
#include "learn/model_plan.h"
#include "learn/weights.h"

#include <inttypes.h>
#include <string.h>

void list_block(struct phase_block *block, const struct model_options *options, size_t images, size_t width, size_t old, size_t all,
                struct array *list) {
    const size_t rows = images * view_rows((size_t)options->views);
    const bool pseudo = options->pseudo != L3A_PSEUDO_OFF && old;
    list[0] = (struct array){&block->features, rows, width * sizeof *block->features, false};
    list[1] = (struct array){&block->own, images, all - old, false};
    list[2] = (struct array){&block->labels, images, all, true};
    list[3] = (struct array){&block->scores, pseudo ? rows : 0, old * real_size(options_real(options)), false};
    list[4] = (struct array){&block->weight, rows, sizeof *block->weight, false};
    list[5] = (struct array){&block->targets, rows, all * sizeof *block->targets, false};
}

void phase_free_block(l3a_model *model) {
    struct phase_block *block = &model->phase.block;
    struct array list[BLOCK_ARRAYS];
    list_block(block, &model->options, 0, 0, 0, 0, list);
    arrays_release(model->context, list, BLOCK_ARRAYS);
    block_free(&block->own_rows);
    block->rows = NULL;
    block->images = 0;
}

l3a_status phase_prepare_block(l3a_model *model, struct block *rows) {
    struct phase *phase = &model->phase;
    struct phase_block *block = &phase->block;
    l3a_status status = L3A_OK;
    const size_t all = phase->classes.count;
    struct array list[BLOCK_ARRAYS];
    if (block->images) {
        return L3A_OK;
    }
    phase->info.recursive =
        chooses_recursion(model->context, &model->options, model_dim(model), phase->rows.counted, model->evidence->ridge.inverse);
    TRY(rows ? model_ready_solution(model) : model_ready(model));
    block->images = block_images(&model->options, phase->rows.counted);
    list_block(block, &model->options, block->images, model->width, model->classes.count, all, list);
    TRY(arrays_allocate(model->context, list, BLOCK_ARRAYS));
    block->rows = rows;
    if (!rows) {
        block->own_rows = (struct block){.context = model->context,
                                         .layer = &model->layer,
                                         .capacity = block->images * image_rows(model),
                                         .columns = all,
                                         .recursive = phase->info.recursive};
        TRY(block_create(&block->own_rows));
        block->rows = &block->own_rows;
    }
done:
    if (status != L3A_OK) {
        phase_free_block(model);
    }
    return status;
}

static l3a_status check_labels(const l3a_model *model, const int8_t *labels, size_t rows) {
    const size_t classes = model->phase.classes.count - model->classes.count;
    unsigned char most = 0; /* first without branches, so that the compiler can vectorise it */
    for (size_t i = 0; i < rows * classes; i++) {
        const unsigned char above = (unsigned char)(labels[i] + 1);
        most = above > most ? above : most;
    }
    for (size_t i = 0; most > 2 && i < rows * classes; i++) {
        if (labels[i] < -1 || labels[i] > 1) {
            return fail(model->context, L3A_ERROR_DATA, "use labels 1 (present), 0 (absent) or -1 (unknown)",
                        "row %zu, class '%s': label %d is not allowed", i / classes,
                        model->phase.classes.items[model->classes.count + i % classes], labels[i]);
        }
    }
    return L3A_OK;
}

static void add_counts(const l3a_model *model, const int8_t *labels, size_t rows, uint64_t *counts) {
    const size_t first = model->classes.count, classes = model->phase.classes.count - first;
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < classes; j++) {
            counts[first + j] += labels[i * classes + j] == 1;
        }
    }
}

l3a_status phase_count(l3a_model *model, const int8_t *labels, size_t rows) {
    l3a_status status = L3A_OK;
    TRY(check_state(model, true));
    FAIL_IF(model->state != MODEL_COUNTING, model->context, L3A_ERROR_STATE, NULL,
            "all labels must be counted before the first row is learned");
    TRY(check_labels(model, labels, rows));
    add_counts(model, labels, rows, model->phase.next.counts);
    model->phase.rows.counted += rows;
done:
    return status;
}

l3a_status l3a_phase_count(l3a_model *model, const int8_t *labels, size_t rows) {
    REQUIRE(model, model, labels);
    return phase_count(model, labels, rows);
}

/* The scores of old classes that give pseudo-labels to the images of the expanded block. */
static l3a_status score_block(l3a_model *model, size_t images) {
    struct phase_block *block = &model->phase.block;
    l3a_status status = L3A_OK;
    TRY(block_score(block->rows, &model->solution, block->scores));
    combine_views_for_labels(model->context->threads, options_real(&model->options), model->options.pseudo_from, block->scores,
                             images, (size_t)model->options.views, model->classes.count);
done:
    return status;
}

l3a_status phase_survey_expanded(l3a_model *model) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const size_t images = phase->block.rows->count / image_rows(model);
    TRY(score_block(model, images));
    survey_add(model->context->threads, &phase->survey, options_real(&model->options), phase->block.scores, images,
               model->classes.count);
done:
    return status;
}

l3a_status phase_survey(l3a_model *model, const float *features, size_t rows) {
    const struct phase_block *block = &model->phase.block;
    struct feature_scale unused = {0};
    l3a_status status = L3A_OK;
    TRY(measure_features(model, features, rows, &unused));
    if (!gives_pseudo_labels(model)) {
        return L3A_OK;
    }
    FAIL_IF(!model->phase.rows.counted, model->context, L3A_ERROR_DATA, "count the labels of all its images first",
            "the phase has no images");
    TRY(phase_prepare_block(model, NULL));
    for (size_t first = 0; first < rows; first += block->images) {
        const size_t n = rows - first < block->images ? rows - first : block->images;
        TRY(block_expand(block->rows, features + first * model_image(model), n * image_rows(model)));
        TRY(phase_survey_expanded(model));
    }
done:
    return status;
}

l3a_status l3a_phase_survey(l3a_model *model, const float *features, size_t rows) {
    REQUIRE(model, model, features);
    l3a_status status = L3A_OK;
    TRY(check_state(model, true));
    FAIL_IF(model->state != MODEL_COUNTING, model->context, L3A_ERROR_STATE, NULL,
            "the survey must come before the first row is learned");
    TRY(phase_survey(model, features, rows));
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
    const struct phase *phase = &model->phase;
    const struct phase_block *block = &phase->block;
    const real type = options_real(&model->options);
    const size_t old = model->classes.count, all = phase->classes.count, own = all - old, each = image_rows(model);
    if (gives_pseudo_labels(model)) {
        const uint64_t made = pseudo_label(type, (const char *)block->scores + first * old * real_size(type), last - first, old,
                                           phase->info.eta, block->labels + first * all, all);
        __atomic_fetch_add(&labelling->pseudo_labels, made, __ATOMIC_RELAXED);
    }
    for (size_t i = first; i < last; i++) {
        int8_t *labels = block->labels + i * all;
        memcpy(labels + old, block->own + i * own, own);
        const double weight = sample_weight(labels, phase->next.class_weight, all);
        spread_image(weight, labels, all, (size_t)model->options.views, block->weight + i * each, block->targets + i * each * all);
        if (phase->sample.values) {
            gamma_sample_offer(&phase->sample, labelling->done + i, labelling->features + i * model_image(model), weight, labels);
        }
    }
}

/* Adds the weights of images in their order, whatever the number of threads. */
static void add_weights(l3a_model *model, size_t images) {
    struct phase *phase = &model->phase;
    const size_t all = phase->classes.count, each = image_rows(model);
    for (size_t i = 0; i < images; i++) {
        const int8_t *labels = phase->block.labels + i * all;
        const double weight = phase->block.weight[i * each]; /* of the whole picture */
        phase->info.skipped += weight == 0;
        phase->info.images += weight > 0;
        for (size_t k = 0; k < all; k++) {
            phase->next.label_weight[k] += labels[k] == 1 ? weight : 0;
        }
    }
}

l3a_status phase_label(l3a_model *model, const float *features, size_t count) {
    enum { PART = 1 << 12 };
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    const size_t all = phase->classes.count;
    const uint64_t learned = phase->info.images + phase->info.skipped;
    struct labelling labelling = {.model = model, .features = features, .done = phase->rows.first + learned};
    if (gives_pseudo_labels(model) && !phase->block.scored) {
        TRY(score_block(model, count));
    }
    phase->block.scored = false;
    parallel_for(model->context->threads, count, PART / (all * image_rows(model)) + 1, label_images, &labelling);
    phase->info.pseudo_labels += labelling.pseudo_labels;
    if (gives_pseudo_labels(model) && model->witness.see) {
        model->witness.see(model->witness.user, learned, count, phase->block.labels, all);
    }
    add_weights(model, count);
done:
    return status;
}

l3a_status phase_add(l3a_model *model) {
    struct phase *phase = &model->phase;
    const struct phase_block *block = &phase->block;
    struct ridge *ridge = &model->evidence->ridge;
    return phase->info.recursive
               ? ridge_update(ridge, block->rows, block->weight, block->targets, phase->next.cross, phase->next.coefficients)
               : sums_add(&ridge->sums, block->rows, 1, block->weight, block->targets);
}

l3a_status phase_work(l3a_model *model, const float *features) {
    struct phase_block *block = &model->phase.block;
    l3a_status status = L3A_OK;
    const double start = clock_seconds();
    if (!block->staged) {
        return L3A_OK;
    }
    TRY(block_expand(block->rows, features, block->staged * image_rows(model)));
    block->expand_seconds += clock_seconds() - start;
    TRY(phase_label(model, features, block->staged));
    TRY(phase_add(model));
done:
    block->staged = 0;
    if (status != L3A_OK) {
        model->phase.step = PHASE_FAILED;
    }
    return status;
}

/* Copies what does not fill a block and is not there already. */
static l3a_status stage(l3a_model *model, const float *features, const int8_t *labels, size_t rows) {
    struct phase_block *block = &model->phase.block;
    l3a_status status = L3A_OK;
    const size_t k = model_image(model), own = model->phase.classes.count - model->classes.count;
    for (size_t n; rows; rows -= n, features += n * k, labels += n * own) {
        const size_t room = block->images - block->staged;
        float *to = block->features + block->staged * k;
        int8_t *to_own = block->own + block->staged * own;
        n = rows < room ? rows : room;
        const bool whole = n == block->images;
        if (!whole && features != to) {
            parallel_copy(model->context->threads, to, features, n * k * sizeof *features);
        }
        if (labels != to_own) {
            memcpy(to_own, labels, n * own);
        }
        block->staged += n;
        if (block->staged == block->images) {
            TRY(phase_work(model, whole ? features : block->features));
        }
    }
done:
    return status;
}

l3a_status phase_learn(l3a_model *model, const float *features, const int8_t *labels, size_t rows) {
    struct phase *phase = &model->phase;
    l3a_status status = L3A_OK;
    struct feature_scale scale = phase->scale; /* which a refused block leaves as it was */
    TRY(measure_features(model, features, rows, &scale));
    TRY(check_scale(model, &scale));
    if (model->state == MODEL_COUNTING) {
        TRY(phase_prepare(model, NULL));
    }
    FAIL_IF(rows > phase->rows.counted - phase->rows.learned, model->context, L3A_ERROR_STATE,
            "count the labels of every row once, and learn every row once",
            "%" PRIu64 " rows were counted, but more are being learned", phase->rows.counted);
    phase->scale = scale;
    phase->rows.learned += rows;
    add_counts(model, labels, rows, phase->rows.shown);
    TRY(stage(model, features, labels, rows));
done:
    return status;
}

l3a_status l3a_phase_learn(l3a_model *model, const float *features, const int8_t *labels, size_t rows) {
    REQUIRE(model, model, features, labels);
    l3a_status status = L3A_OK;
    TRY(check_state(model, true));
    TRY(check_labels(model, labels, rows));
    TRY(phase_learn(model, features, labels, rows));
done:
    return status;
}
