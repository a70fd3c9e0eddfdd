/* The training of a head.
 *
 * Scores s = W z, z being the features with a 1 appended, so that the last weight of a class is its bias. A phase adds the rows
 * of W of its classes, uniform in (−1/√k, 1/√k), and makes `epochs` passes over its images in random order, `batch` at a time:
 * the loss is the sum over all classes seen, meaned over the images; Adam starts anew. A label that the phase does not give, that
 * of an old class, is a 0 to the loss, as in the comparisons this follows: it is why a head that is merely trained on forgets. */
#include "method/head.h"

#include "data/features.h"
#include "learn/pseudo_label.h"

#include <math.h>
#include <string.h>

/* What a method uses where the settings leave it open; see tools/tune_heads.py. */
static const struct {
    const char *method;
    struct tuning tuning; /* epochs, first_rate, rate, lambda, memory */
} tuned[] = {
    {"finetune", {20, 1e-2, 3e-3, 0, 0}}, {"joint-sgd", {20, 3e-3, 3e-3, 0, 0}}, {"lwf", {20, 1e-2, 1e-2, 1000, 0}},
    {"ewc", {20, 1e-2, 1e-2, 1000, 0}},   {"oewc", {20, 1e-2, 1e-2, 1000, 0}},   {"rwalk", {20, 1e-2, 1e-2, 10000, 0}},
    {"er", {20, 1e-2, 3e-3, 0, 20}},      {"der++", {20, 1e-2, 1e-2, 100, 20}},  {"icarl", {20, 1e-2, 1e-2, 100, 20}},
    {"bic", {20, 1e-2, 1e-2, 100, 20}},   {"prs", {20, 1e-2, 3e-3, 0, 1000}},    {"ocdm", {20, 1e-2, 3e-3, 0, 1000}},
};

enum { READ_ROWS = 1024, BATCH = 128, TUNED = sizeof tuned / sizeof tuned[0] };
enum { STREAM_WEIGHTS, STREAM_ORDER };

static struct tuning tuning_of(const struct method *method, const l3a_options *settings) {
    size_t i = 0;
    while (i + 1 < TUNED && strcmp(tuned[i].method, method->info.name) != 0) {
        i++;
    }
    struct tuning tuning = tuned[i].tuning;
    tuning.epochs = settings->epochs ? settings->epochs : tuning.epochs;
    tuning.first_rate = settings->first_rate > 0 ? settings->first_rate : tuning.first_rate;
    tuning.rate = settings->rate > 0 ? settings->rate : tuning.rate;
    tuning.lambda = settings->lambda > 0 ? settings->lambda : tuning.lambda;
    tuning.memory = settings->memory ? settings->memory : tuning.memory;
    return tuning;
}

l3a_status head_create(l3a_context *context, const struct head_rules *rules, const struct method *method,
                       const l3a_options *settings, size_t width, void **state) {
    l3a_status status = L3A_OK;
    struct head *head = NULL;
    TRY(allocate_zeroed(context, 1, rules->size, &head));
    head->context = context;
    head->rules = rules;
    head->tuning = tuning_of(method, settings);
    head->loss = settings->loss;
    head->batch = settings->batch ? settings->batch : BATCH;
    head->theta = settings->head_theta;
    head->seed = settings->seed;
    head->random.seed = random_bits(settings->seed, STREAM_ORDER);
    head->inputs = width + 1;
    head->memory.inputs = head->inputs;
    *state = head;
done:
    return status;
}

void head_free(void *state) {
    struct head *head = state;
    if (head->rules->release) {
        head->rules->release(head);
    }
    memory_free(head->context, &head->memory);
    release(head->context, head->weights);
    release(head->context, head->old_weights);
    release(head->context, head);
}

l3a_status head_widen(const struct head *head, float **array) {
    l3a_status status = L3A_OK;
    float *wide = NULL;
    TRY(allocate_zeroed(head->context, head->classes, head->inputs * sizeof *wide, &wide));
    if (*array) {
        memcpy(wide, *array, head->old * head->inputs * sizeof *wide);
    }
    release(head->context, *array);
    *array = wide;
done:
    return status;
}

static l3a_status add_classes(struct head *head, size_t classes) {
    l3a_status status = L3A_OK;
    const uint64_t stream = random_bits(head->seed, STREAM_WEIGHTS);
    const double bound = 1 / sqrt((double)head->inputs - 1);
    head->old = head->classes;
    head->classes += classes;
    if (head->rules->distils && head->old) {
        release(head->context, head->old_weights);
        TRY(allocate(head->context, head->old, head->inputs * sizeof *head->old_weights, &head->old_weights));
        memcpy(head->old_weights, head->weights, head->old * head->inputs * sizeof *head->old_weights);
    }
    if (head->memory.count) {
        TRY(memory_resize(head->context, &head->memory, head->memory.count, head->classes));
    }
    TRY(head_widen(head, &head->weights));
    for (size_t i = head->old * head->inputs; i < head->classes * head->inputs; i++) {
        head->weights[i] = (float)((2 * random_uniform(stream, i) - 1) * bound);
    }
done:
    return status;
}

static void rows_free(l3a_context *context, struct rows *rows) {
    release(context, rows->features);
    release(context, rows->labels);
}

static l3a_status rows_read(l3a_context *context, const struct lesson *lesson, struct rows *rows) {
    l3a_status status = L3A_OK;
    l3a_features *train = lesson->train;
    const size_t width = train->width;
    size_t *chosen = NULL;
    float *block = NULL;
    TRY(lesson_rows(lesson, &chosen, &rows->count));
    rows->inputs = width + 1;
    rows->classes = lesson->last - lesson->first;
    TRY(allocate(context, rows->count, rows->inputs * sizeof *rows->features, &rows->features));
    TRY(allocate(context, rows->count, rows->classes, &rows->labels));
    TRY(allocate(context, READ_ROWS, width * sizeof *block, &block));
    features_gather_labels(train, chosen, rows->count, lesson->columns + lesson->first, rows->classes, rows->labels);
    for (size_t first = 0; first < rows->count; first += READ_ROWS) {
        const size_t count = rows->count - first < READ_ROWS ? rows->count - first : READ_ROWS;
        TRY(l3a_features_read(train, chosen + first, 0, count, block));
        for (size_t i = 0; i < count; i++) {
            float *row = rows->features + (first + i) * rows->inputs;
            memcpy(row, block + i * width, width * sizeof *row);
            row[width] = 1;
        }
    }
done:
    release(context, chosen);
    release(context, block);
    return status;
}

struct workspace {
    struct batch batch;
    struct adam adam;
    float *gradient; /* by the weights */
    size_t *order;
};

static void workspace_free(l3a_context *context, struct workspace *work) {
    const struct batch *batch = &work->batch;
    void *const arrays[] = {batch->features, batch->targets, batch->scale,    batch->slots,      batch->scores, batch->old,
                            batch->gradient, work->gradient, work->adam.mean, work->adam.square, work->order};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        release(context, arrays[i]);
    }
}

static l3a_status workspace_create(const struct head *head, const struct rows *rows, struct workspace *work) {
    l3a_context *context = head->context;
    l3a_status status = L3A_OK;
    struct batch *batch = &work->batch;
    const size_t capacity = head->batch * (1 + head->rules->replays), pairs = head->classes * sizeof(float);
    TRY(allocate(context, capacity, head->inputs * sizeof(float), &batch->features));
    TRY(allocate(context, capacity, pairs, &batch->targets));
    TRY(allocate(context, capacity, pairs, &batch->scores));
    TRY(allocate(context, capacity, pairs, &batch->gradient));
    TRY(allocate(context, capacity, sizeof(float), &batch->scale));
    TRY(allocate(context, capacity, sizeof *batch->slots, &batch->slots));
    TRY(allocate_zeroed(context, head->inputs, pairs, &work->adam.mean));
    TRY(allocate_zeroed(context, head->inputs, pairs, &work->adam.square));
    TRY(allocate(context, head->inputs, pairs, &work->gradient));
    TRY(allocate(context, rows->count, sizeof *work->order, &work->order));
    if (head->rules->distils) {
        TRY(allocate(context, capacity, head->old * sizeof(float), &batch->old));
    }
done:
    return status;
}

static void fill_batch(const struct head *head, const struct rows *rows, const size_t *order, size_t count, struct batch *batch) {
    batch->fresh = batch->last = batch->rows = count;
    for (size_t i = 0; i < count; i++) {
        const int8_t *labels = rows->labels + order[i] * rows->classes;
        float *targets = batch->targets + i * head->classes;
        memcpy(batch->features + i * head->inputs, rows->features + order[i] * head->inputs, head->inputs * sizeof(float));
        memset(targets, 0, head->old * sizeof *targets);
        for (size_t k = 0; k < rows->classes; k++) {
            targets[head->old + k] = labels[k] == 1;
        }
        batch->scale[i] = 1 / (float)count;
    }
}

void head_multiply(const struct head *head, const float *weights, size_t classes, const float *features, size_t rows,
                   float *scores) {
    head->context->matrix->multiply(1, REAL_SINGLE, false, true, rows, classes, head->inputs, 1, features, head->inputs, weights,
                                    head->inputs, 0, scores, classes);
}

/* Adds a batch from the memory, which counts as much as the phase's. */
static void replay(struct head *head, struct batch *batch) {
    const struct memory *memory = &head->memory;
    const size_t first = batch->rows, count = memory_draw(&head->memory, &head->random, head->batch, batch->slots + first);
    for (size_t i = first; i < first + count; i++) {
        const int8_t *labels = memory->labels + batch->slots[i] * head->classes;
        memcpy(batch->features + i * head->inputs, memory->features + batch->slots[i] * head->inputs, head->inputs * sizeof(float));
        for (size_t k = 0; k < head->classes; k++) {
            batch->targets[i * head->classes + k] = labels[k];
        }
        batch->scale[i] = 1 / (float)count;
    }
    batch->last = first;
    batch->rows += count;
}

/* One thread: the matrices are too small to share. */
static void make_step(struct head *head, struct workspace *work, double rate) {
    const struct head_rules *rules = head->rules;
    struct batch *batch = &work->batch;
    for (size_t i = 0; i < rules->replays && head->memory.count; i++) {
        replay(head, batch);
    }
    head_multiply(head, head->weights, head->classes, batch->features, batch->rows, batch->scores);
    loss_gradient(head->loss, batch->rows, head->classes, batch->scores, batch->targets, batch->scale, batch->gradient);
    if (rules->distils && head->old) {
        head_multiply(head, head->old_weights, head->old, batch->features, batch->rows, batch->old);
        distil_gradient(batch->rows, head->classes, head->old, batch->scores, batch->old,
                        (float)(head->tuning.lambda / (double)batch->rows), batch->gradient);
    }
    if (rules->score_terms) {
        rules->score_terms(head, batch);
    }
    head->context->matrix->multiply(1, REAL_SINGLE, true, false, head->classes, head->inputs, batch->rows, 1, batch->gradient,
                                    head->classes, batch->features, head->inputs, 0, work->gradient, head->inputs);
    if (rules->weight_terms) {
        rules->weight_terms(head, work->gradient);
    }
    adam_step(&work->adam, head->classes * head->inputs, rate, work->gradient, head->weights);
    if (rules->stepped) {
        rules->stepped(head);
    }
}

static l3a_status train(struct head *head, const struct rows *rows) {
    l3a_status status = L3A_OK;
    struct workspace work = {0};
    const struct tuning *tuning = &head->tuning;
    const size_t steps = tuning->epochs * ((rows->count + head->batch - 1) / head->batch);
    const double highest = head->old ? tuning->rate : tuning->first_rate;
    TRY(workspace_create(head, rows, &work));
    for (size_t epoch = 0; epoch < tuning->epochs; epoch++) {
        TRY(report_progress(head->context, "train", epoch, tuning->epochs));
        stream_shuffle(&head->random, work.order, rows->count);
        for (size_t first = 0; first < rows->count; first += head->batch) {
            const size_t count = rows->count - first < head->batch ? rows->count - first : head->batch;
            fill_batch(head, rows, work.order + first, count, &work.batch);
            make_step(head, &work, one_cycle(work.adam.steps, steps, highest));
        }
    }
    TRY(report_progress(head->context, "train", tuning->epochs, tuning->epochs));
done:
    workspace_free(head->context, &work);
    return status;
}

l3a_status head_learn(void *state, const struct lesson *lesson, struct outcome *outcome) {
    struct head *head = state;
    l3a_status status = L3A_OK;
    struct rows rows = {0};
    TRY(rows_read(head->context, lesson, &rows));
    TRY(add_classes(head, rows.classes));
    outcome->images = rows.count;
    if (head->rules->prepare) {
        TRY(head->rules->prepare(head, &rows));
    }
    TRY(train(head, &rows));
    if (head->rules->finish) {
        TRY(head->rules->finish(head, &rows));
    }
done:
    rows_free(head->context, &rows);
    return status;
}

l3a_status head_score(void *state, const float *features, size_t rows, float *scores) {
    const struct head *head = state;
    const size_t width = head->inputs - 1;
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < head->classes; k++) {
            scores[i * head->classes + k] = head->weights[k * head->inputs + width];
        }
    }
    head->context->matrix->multiply(head->context->threads, REAL_SINGLE, false, true, rows, head->classes, width, 1, features,
                                    width, head->weights, head->inputs, 1, scores, head->classes);
    return L3A_OK;
}

void head_edges(const void *state, double *edges) {
    const struct head *head = state;
    for (size_t k = 0; k < head->classes; k++) {
        edges[k] = logit(head->theta);
    }
}
