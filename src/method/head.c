/* A head: its classes, its input, its scores. train.c trains it.
 *
 * Scores are s = W x. The last input is 1, so the last coefficient of a class is its bias. A phase adds rows for its classes to W,
 * uniform in (−1/√n, 1/√n) for n inputs.
 *
 * The input x is the features z, or the random layer of l3a (algebra/algebra.h) with the same seed and width d:
 *   x = (2/√3 k/d · ReLU(z B), z if features skip the layer, 1).
 * A step of Adam moves every coefficient by about its rate, so a score moves by rate · Σ|x|. If features have mean 0,
 * E ReLU(z B) = E|z|/(2√3), and a factor of 2√3 k/d would make Σ|x| of the layer's d units equal to that of the k features. A third
 * of it works better on held-out training data: d inputs are fitted faster than k. */
#include "method/head.h"

#include "base/threshold.h"
#include "data/features.h"
#include "learn/model_options.h"

#include <math.h>
#include <string.h>

enum { READ_ROWS = 1024, BATCH = 128, SCORE_ROWS = 512 };
enum { STREAM_COEFFICIENTS, STREAM_ORDER };

static struct tuning choose_tuning(const struct tuning *tuned, const struct method_options *settings) {
    struct tuning tuning = *tuned;
    tuning.epochs = settings->epochs ? settings->epochs : tuning.epochs;
    tuning.first_rate = settings->first_rate > 0 ? settings->first_rate : tuning.first_rate;
    tuning.rate = settings->rate > 0 ? settings->rate : tuning.rate;
    tuning.lambda = settings->lambda > 0 ? settings->lambda : tuning.lambda;
    tuning.memory = settings->memory ? settings->memory : tuning.memory;
    if (settings->memory_per != L3A_MEMORY_PER_METHOD) {
        tuning.of_each_class = settings->memory_per == L3A_MEMORY_PER_CLASS;
    }
    return tuning;
}

static l3a_status create_layer(struct head *head, const struct model_options *settings, size_t width) {
    l3a_status status = L3A_OK;
    const size_t dim = (size_t)settings->dim, columns = learned_width(settings, width);
    head->layer.shape =
        (struct layer_shape){.type = REAL_SINGLE, .width = width, .dim = dim, .skip = columns > dim, .seed = settings->seed};
    TRY(allocate(head->context, width, dim * sizeof *head->layer.matrix, &head->layer.matrix));
    layer_entries(head->context->threads, &head->layer.shape, head->layer.matrix);
    head->layer_scale = (float)(2 / sqrt(3) * (double)width / (double)dim);
    head->inputs = columns + 1;
done:
    return status;
}

l3a_status head_create(l3a_context *context, const struct head_rules *rules, const struct tuning *tuning,
                       const l3a_options *settings, size_t width, void **state) {
    l3a_status status = L3A_OK;
    struct head *head = NULL;
    TRY(allocate_zeroed(context, 1, rules->size, &head));
    head->context = context;
    head->rules = rules;
    head->tuning = choose_tuning(tuning, &settings->method);
    head->loss = settings->method.loss;
    head->batch = settings->method.batch ? settings->method.batch : BATCH;
    head->theta = settings->method.head_theta;
    head->seed = settings->model.seed;
    head->random.seed = random_bits(settings->model.seed, STREAM_ORDER);
    head->views = (size_t)settings->model.views;
    head->scored = scored_views(&settings->model);
    head->inputs = head->stored = width + 1;
    head->memory.inputs = view_rows(head->views) * head->stored;
    if (settings->method.train_backbone != L3A_TRAIN_BACKBONE_OFF) {
        FAIL_IF(head->views > 1 || head->scored > 1, context, L3A_ERROR_OPTION, "leave --views out, or --train-backbone",
                "a network that is trained sees whole pictures, without views");
        FAIL_IF(settings->method.head_input == L3A_HEAD_INPUT_LAYER, context, L3A_ERROR_OPTION,
                "leave --head-input out, or --train-backbone", "the head of a network that is trained is on its features");
        head->memory.of_pictures = true;
        TRY(head_network_create(head, settings));
    } else if (settings->method.head_input == L3A_HEAD_INPUT_LAYER) {
        TRY(create_layer(head, &settings->model, width));
    }
    *state = head;
    head = NULL;
done:
    if (head) {
        head_free(head);
    }
    return status;
}

void head_free(void *state) {
    struct head *head = state;
    if (head->rules->release) {
        head->rules->release(head);
    }
    head_network_free(head);
    memory_free(head->context, &head->memory);
    release(head->context, head->layer.matrix);
    release(head->context, head->coefficients);
    release(head->context, head->old_coefficients);
    release(head->context, head);
}

size_t head_memory_slots(const struct head *head) {
    return head->tuning.of_each_class ? head->tuning.memory * head->total_classes : head->tuning.memory;
}

size_t head_memory_of_class(const struct head *head) {
    return head->tuning.of_each_class ? head->tuning.memory : head->tuning.memory / head->total_classes;
}

l3a_status head_widen(const struct head *head, float **array) {
    return extend_array(head->context, array, head->old, head->classes, head->inputs * sizeof **array);
}

static l3a_status add_classes(struct head *head, size_t classes) {
    l3a_status status = L3A_OK;
    const uint64_t stream = random_bits(head->seed, STREAM_COEFFICIENTS);
    head->old = head->classes;
    head->classes += classes;
    if (head->network) {
        TRY(head_network_begin(head));
    }
    const double bound = 1 / sqrt((double)head->inputs - 1);
    if (head->rules->distils != DISTIL_NONE && head->old && head_has_coefficients(head)) {
        release(head->context, head->old_coefficients);
        head->old_coefficients = NULL;
        TRY(allocate(head->context, head->old, head->inputs * sizeof *head->old_coefficients, &head->old_coefficients));
        memcpy(head->old_coefficients, head->coefficients, head->old * head->inputs * sizeof *head->old_coefficients);
    }
    if (head->memory.count) {
        TRY(memory_resize(head->context, &head->memory, head->memory.capacity, head->classes));
    }
    if (!head_has_coefficients(head)) {
        goto done;
    }
    TRY(head_widen(head, &head->coefficients));
    for (size_t i = head->old * head->inputs; i < head->classes * head->inputs; i++) {
        head->coefficients[i] = (float)((2 * random_uniform(stream, i) - 1) * bound);
    }
done:
    return status;
}

static void rows_free(l3a_context *context, struct rows *rows) {
    release(context, rows->features);
    release(context, rows->labels);
    release(context, rows->pictures);
    release(context, rows->checksums);
}

/* Which pictures there are, and their labels. */
static l3a_status rows_list(l3a_context *context, const struct lesson *lesson, struct rows *rows) {
    l3a_status status = L3A_OK;
    size_t *chosen = NULL;
    TRY(lesson_rows(lesson, &chosen, &rows->count));
    rows->classes = lesson->last - lesson->first;
    TRY(allocate(context, rows->count, rows->classes, &rows->labels));
    TRY(allocate(context, rows->count, sizeof *rows->pictures, &rows->pictures));
    TRY(allocate_zeroed(context, rows->count, sizeof *rows->checksums, &rows->checksums));
    TRY(features_gather_labels(lesson->train, chosen, rows->count, lesson->columns + lesson->first, rows->classes, rows->labels));
    for (size_t i = 0; i < rows->count; i++) {
        rows->pictures[i] = chosen[i];
    }
done:
    release(context, chosen);
    return status;
}

static l3a_status rows_read(l3a_context *context, const struct lesson *lesson, struct rows *rows) {
    l3a_status status = L3A_OK;
    l3a_features *train = lesson->train;
    const size_t width = train->width, views = view_rows(train->views), images = images_of_rows(READ_ROWS, train->views);
    size_t *chosen = NULL;
    float *block = NULL;
    TRY(lesson_rows(lesson, &chosen, &rows->count));
    rows->inputs = views * (width + 1);
    rows->classes = lesson->last - lesson->first;
    TRY(allocate(context, rows->count, rows->inputs * sizeof *rows->features, &rows->features));
    TRY(allocate(context, rows->count, rows->classes, &rows->labels));
    TRY(allocate(context, images, features_row(train) * sizeof *block, &block));
    TRY(features_gather_labels(train, chosen, rows->count, lesson->columns + lesson->first, rows->classes, rows->labels));
    for (size_t first = 0; first < rows->count; first += images) {
        const size_t count = rows->count - first < images ? rows->count - first : images;
        TRY(l3a_features_read(train, chosen + first, 0, count, block));
        for (size_t i = 0; i < count * views; i++) {
            float *row = rows->features + (first * views + i) * (width + 1);
            memcpy(row, block + i * width, width * sizeof *row);
            row[width] = 1;
        }
    }
done:
    release(context, chosen);
    release(context, block);
    return status;
}

/* Training uses one thread: its matrices are small, and the numbers must not depend on the number of threads. */
static void expand(const struct head *head, int threads, const float *stored, size_t stride, size_t rows, float *inputs) {
    const struct head_layer *layer = &head->layer;
    const size_t width = head->stored - 1, dim = layer->shape.dim, columns = head->inputs;
    matrix_multiply(threads, REAL_SINGLE, false, false, rows, dim, width, (double)head->layer_scale, stored, stride, layer->matrix,
                    dim, 0, inputs, columns);
    for (size_t i = 0; i < rows; i++) {
        float *restrict x = inputs + i * columns;
        for (size_t j = 0; j < dim; j++) {
            x[j] = x[j] > 0 ? x[j] : 0;
        }
        if (layer->shape.skip) {
            memcpy(x + dim, stored + i * stride, width * sizeof *x);
        }
        x[columns - 1] = 1;
    }
}

void head_expand(const struct head *head, const float *stored, size_t rows, float *inputs) {
    if (head->layer.matrix) {
        expand(head, 1, stored, head->stored, rows, inputs);
    } else if (inputs != stored) {
        memcpy(inputs, stored, rows * head->stored * sizeof *inputs);
    }
}

void head_multiply(const struct head *head, const float *coefficients, size_t classes, const float *inputs, size_t rows,
                   float *scores, size_t stride) {
    matrix_multiply(1, REAL_SINGLE, false, true, rows, classes, head->inputs, 1, inputs, head->inputs, coefficients, head->inputs,
                    0, scores, stride);
}

l3a_status head_learn_rows(struct head *head, struct rows *rows) {
    l3a_status status = L3A_OK;
    FAIL_IF(head->rules->joins && !head_memory_of_class(head), head->context, L3A_ERROR_OPTION,
            "use a larger memory, or memory-per class", "a memory of %zu images in all is less than one for each of %zu classes",
            head->tuning.memory, head->total_classes);
    if (head->network) {
        TRY(head_network_keep_old(head));
    }
    TRY(add_classes(head, rows->classes));
    if (head->rules->prepare) {
        TRY(head->rules->prepare(head, rows));
    }
    TRY(head_train(head, rows));
    if (head->network && head->rules->looks) {
        TRY(head_network_look(head, rows));
    }
    if (head->rules->finish) {
        TRY(head->rules->finish(head, rows));
    }
    if (head->network) {
        TRY(head_network_finish(head));
    }
done:
    return status;
}

l3a_status head_learn(void *state, const struct lesson *lesson, struct outcome *outcome) {
    struct head *head = state;
    l3a_status status = L3A_OK;
    struct rows rows = {0};
    if (head->network) {
        head_network_use(head, lesson->training);
        head->network->progress = lesson->progress;
        TRY(rows_list(head->context, lesson, &rows));
    } else {
        TRY(rows_read(head->context, lesson, &rows));
    }
    head->total_classes = lesson->bounds[lesson->phases];
    head->lesson = lesson;
    head->phases = lesson->phases;
    outcome->images = rows.count;
    TRY(head_learn_rows(head, &rows));
done:
    head->lesson = NULL;
    rows_free(head->context, &rows);
    return status;
}

/* scores += x W without the bias. */
static void add_scores(const struct head *head, const float *inputs, size_t stride, size_t rows, float *scores) {
    matrix_multiply(head->context->threads, REAL_SINGLE, false, true, rows, head->classes, head->inputs - 1, 1, inputs, stride,
                    head->coefficients, head->inputs, 1, scores, head->classes);
}

static l3a_status score_views(const struct head *head, const float *features, size_t rows, float *scores) {
    const size_t width = head->stored - 1;
    l3a_status status = L3A_OK;
    float *inputs = NULL;
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < head->classes; k++) {
            scores[i * head->classes + k] = head->coefficients[(k + 1) * head->inputs - 1];
        }
    }
    if (!head->layer.matrix) {
        add_scores(head, features, width, rows, scores);
        return L3A_OK;
    }
    TRY(allocate(head->context, SCORE_ROWS, head->inputs * sizeof *inputs, &inputs));
    for (size_t first = 0; first < rows; first += SCORE_ROWS) {
        const size_t count = rows - first < SCORE_ROWS ? rows - first : SCORE_ROWS;
        expand(head, head->context->threads, features + first * width, width, count, inputs);
        add_scores(head, inputs, head->inputs, count, scores + first * head->classes);
    }
done:
    release(head->context, inputs);
    return status;
}

l3a_status head_score(void *state, const float *features, size_t images, float *scores) {
    const struct head *head = state;
    const size_t rows = images * view_rows(head->scored);
    l3a_status status = L3A_OK;
    float *row_scores = NULL;
    TRY(allocate(head->context, rows, head->classes * sizeof *row_scores, &row_scores));
    TRY(score_views(head, features, rows, row_scores));
    combine_views(head->context->threads, REAL_SINGLE, row_scores, images, head->scored, head->classes, scores, NULL);
done:
    release(head->context, row_scores);
    return status;
}

void head_thresholds(const void *state, double *thresholds) {
    const struct head *head = state;
    same_thresholds(head->theta, head->classes, thresholds);
}
