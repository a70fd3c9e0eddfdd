#include "method/head.h"

#include "base/random.h"
#include "common/number.h"
#include "train/linear_head.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STREAM_CHANGES = 7, SCORE_PICTURES = 32 };

/* What was not published, or not for such networks, is as in docs/methods-trained.md. */
static const struct trained_tuning usual = {.epochs = 20,
                                            .batch = 64,
                                            .backbone_rate = 4e-5,
                                            .later = 1,
                                            .first_rate = 1e-2,
                                            .rate = 1e-2,
                                            .schedule = SCHEDULE_ONE_CYCLE,
                                            .optimiser = OPTIMISER_ADAM,
                                            .decay = 1e-4,
                                            .lambda = 1,
                                            .augmentation = {.least = 0.5, .most = 1, .flip = true}};
static const double NORMS_RATE = 1e-3;
static const double KEEP_SECONDS = 10; /* of work that may be lost, besides an epoch that was not finished */

/* ---- Opening ---- */

static size_t output_count(const struct head *head) {
    return trained_network_outputs(&head->network->net);
}

size_t head_output_numbers(const struct head *head, size_t output) {
    const struct shape shape = trained_network_shape(&head->network->net, output);
    return shape.channels * shape.height * shape.width;
}

static struct trained_tuning choose_tuning(const struct head *head, const struct method_options *settings) {
    struct trained_tuning tuning = head->rules->trained ? *head->rules->trained : usual;
    if (settings->train_backbone == L3A_TRAIN_BACKBONE_NORMS && !(head->rules->network && head->rules->network->keeps_backbone)) {
        tuning.backbone_rate = NORMS_RATE;
    }
    tuning.epochs = settings->epochs ? settings->epochs : tuning.epochs;
    tuning.batch = settings->batch ? settings->batch : tuning.batch;
    tuning.first_rate = settings->first_rate > 0 ? settings->first_rate : tuning.first_rate;
    tuning.rate = settings->rate > 0 ? settings->rate : tuning.rate;
    tuning.lambda = settings->lambda > 0 ? settings->lambda : tuning.lambda;
    if (settings->backbone_rate > 0) {
        tuning.backbone_rate = settings->backbone_rate;
        tuning.later = 1;
    }
    return tuning;
}

l3a_status head_network_create(struct head *head, const l3a_options *settings) {
    static const struct network_plan_of_method nothing = {.trains = NULL};
    const struct head_network_rules *rules = head->rules->network;
    struct network_plan_of_method plan = rules ? rules->plan : nothing;
    struct train_settings training = {0};
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(head->context, 1, sizeof *head->network, &head->network));
    struct head_network *network = head->network;
    network->tuning = choose_tuning(head, &settings->method);
    network->keep_every = KEEP_SECONDS;
    training.trained = settings->method.train_backbone == L3A_TRAIN_BACKBONE_NORMS ? TRAIN_NORMS : TRAIN_ALL;
    training.decay = network->tuning.decay;
    head->batch = network->tuning.batch;
    head->tuning.epochs = network->tuning.epochs;
    head->tuning.lambda = network->tuning.lambda;
    plan.changes.owner = head;
    trained_network_open(head->context, NULL, &plan, &training, head->batch * (1 + head->rules->replays), &network->net);
done:
    return status;
}

void head_network_use(struct head *head, const struct training_source *source) {
    struct head_network *network = head->network;
    if (!network->source) {
        network->source = network->net.source = source;
        picture_feed_open(head->context, &source->train, &source->loader, &network->tuning.augmentation, &network->ahead);
        picture_feed_open(head->context, &source->train, &source->loader, &network->tuning.augmentation, &network->drawn);
    }
}

static size_t picture_numbers(const struct head_network *network) {
    return 3 * network->source->loader.width * network->source->loader.height;
}

/* ---- Phases ---- */

/* Whether the network before the phase is looked at. */
static bool compares(const struct head *head) {
    return head->classes > 0 && (head->rules->distils != DISTIL_NONE || (head->rules->network && head->rules->network->compares));
}

l3a_status head_network_keep_old(struct head *head) {
    return compares(head) ? trained_network_keep_old(&head->network->net) : L3A_OK;
}

/* The inputs of the head are as wide as the output that images are chosen by. */
l3a_status head_network_begin(struct head *head) {
    l3a_status status = L3A_OK;
    TRY(trained_network_begin(&head->network->net));
    head->inputs = head->stored = head_output_numbers(head, head->rules->network ? head->rules->network->looks : 0) + 1;
    head->memory.inputs = head->stored;
    head->network->trained_numbers = trained_network_numbers(&head->network->net);
done:
    return status;
}

l3a_status head_network_finish(struct head *head) {
    l3a_status status = L3A_OK;
    TRY(trained_network_finish(&head->network->net));
    head->network->phase++;
done:
    return status;
}

l3a_status head_network_make_room(struct head *head, size_t capacity) {
    struct head_network *network = head->network;
    l3a_context *context = head->context;
    const size_t coefficients = head_has_coefficients(head) ? head->classes * head->inputs : 0;
    l3a_status status = L3A_OK;
    network->capacity = capacity;
    TRY(allocate(context, capacity, sizeof *network->wanted, &network->wanted));
    TRY(allocate(context, capacity, sizeof *network->numbers, &network->numbers));
    TRY(allocate(context, capacity, sizeof *network->checksums, &network->checksums));
    TRY(allocate(context, capacity, picture_numbers(network) * sizeof(float), &network->planes));
    TRY(allocate_zeroed(context, coefficients, sizeof(float), &network->moment));
    TRY(allocate_zeroed(context, coefficients, sizeof(float), &network->square));
    TRY(allocate_zeroed(context, network->own.count, sizeof(float), &network->own.gradient));
    TRY(allocate_zeroed(context, network->own.count, sizeof(float), &network->own.moment));
    TRY(allocate_zeroed(context, network->own.count, sizeof(float), &network->own.square));
    for (size_t i = 0; i < output_count(head); i++) {
        const size_t bytes = head_output_numbers(head, i) * sizeof(float);
        TRY(allocate(context, capacity, bytes, &network->outputs[i]));
        TRY(allocate(context, capacity, bytes, &network->by_outputs[i]));
        if (network->net.old) {
            const struct shape old = network->net.old_shapes[i];
            TRY(allocate(context, capacity, old.channels * old.height * old.width * sizeof(float), &network->old_outputs[i]));
        }
    }
    TRY(allocate(context, network->net.old ? capacity : 0, head->inputs * sizeof(float), &network->old_features));
done:
    return status;
}

void head_network_drop_room(struct head *head) {
    struct head_network *network = head->network;
    void **const arrays[] = {(void **)&network->wanted,       (void **)&network->numbers,      (void **)&network->checksums,
                             (void **)&network->planes,       (void **)&network->moment,       (void **)&network->square,
                             (void **)&network->old_features, (void **)&network->own.gradient, (void **)&network->own.moment,
                             (void **)&network->own.square};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        release(head->context, *arrays[i]);
        *arrays[i] = NULL;
    }
    for (size_t i = 0; i < NETWORK_OUTPUTS; i++) {
        release(head->context, network->outputs[i]);
        release(head->context, network->by_outputs[i]);
        release(head->context, network->old_outputs[i]);
        network->outputs[i] = network->by_outputs[i] = network->old_outputs[i] = NULL;
    }
}

void head_network_free(struct head *head) {
    if (head->network) {
        head_network_drop_room(head);
        picture_feed_close(&head->network->ahead);
        picture_feed_close(&head->network->drawn);
        trained_network_close(&head->network->net);
        release(head->context, head->network);
    }
}

/* ---- Pictures ---- */

void head_network_start_epoch(struct head *head, size_t epoch) {
    head->network->changes = random_bits(random_bits(random_bits(head->seed, STREAM_CHANGES), head->network->phase), epoch);
    head->network->loss = 0;
}

l3a_status head_network_read_ahead(struct head *head, const struct rows *rows, const size_t *order, const size_t *joined,
                                   size_t count) {
    struct head_network *network = head->network;
    for (size_t i = 0; i < count; i++) {
        const bool kept = order[i] >= rows->count;
        network->wanted[i] = kept ? head->memory.pictures[joined[order[i] - rows->count]] : rows->pictures[order[i]];
        network->numbers[i] = network->wanted[i] + (kept ? network->source->train.count : 0); /* it may also be in the phase */
    }
    return picture_feed_begin(&network->ahead, network->wanted, network->numbers, count, network->changes);
}

/* A picture of the memory must be the one that was kept. */
static l3a_status check_kept(const struct head *head, size_t slot, uint64_t checksum) {
    const struct memory *memory = &head->memory;
    l3a_status status = L3A_OK;
    FAIL_IF(memory->checksums[slot] && memory->checksums[slot] != checksum, head->context, L3A_ERROR_DATA,
            "put the old picture back, or start the run again in a new folder",
            "the picture %s has changed since it was put into the replay memory",
            picture_row_id(&head->network->source->train, memory->pictures[slot]));
done:
    return status;
}

l3a_status head_network_load(struct head *head, struct rows *rows, const size_t *order, const size_t *joined, struct batch *batch) {
    struct head_network *network = head->network;
    const size_t fresh = batch->fresh, drawn = batch->rows - fresh;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < drawn; i++) {
        network->wanted[i] = head->memory.pictures[batch->slots[fresh + i]];
        network->numbers[i] = i;
    }
    TRY(picture_feed_take(&network->ahead, network->planes, network->checksums));
    TRY(picture_feed_begin(&network->drawn, network->wanted, network->numbers, drawn,
                           random_bits(network->changes, 1 + batch->first)));
    TRY(picture_feed_take(&network->drawn, network->planes + fresh * picture_numbers(network), network->checksums + fresh));
    for (size_t i = 0; i < batch->rows; i++) {
        if (i < fresh && order[i] < rows->count) {
            rows->checksums[order[i]] = network->checksums[i];
        } else {
            TRY(check_kept(head, i < fresh ? joined[order[i] - rows->count] : batch->slots[i], network->checksums[i]));
        }
    }
done:
    return status;
}

/* ---- Steps ---- */

static bool scores_itself(const struct head *head) {
    return head->rules->network && head->rules->network->score;
}

/* Rows of features, with a 1 after each. */
static void add_ones(const struct head *head, const float *features, size_t rows, float *inputs) {
    const size_t width = head->inputs - 1;
    for (size_t i = 0; i < rows; i++) {
        memcpy(inputs + i * head->inputs, features + i * width, width * sizeof *inputs);
        inputs[i * head->inputs + width] = 1;
    }
}

/* The first of the classes whose scores are trained. */
static size_t first_trained(const struct head *head) {
    return head->rules->network && head->rules->network->own_classes ? head->old : 0;
}

static void take_scores(const struct head *head, struct batch *batch) {
    const size_t first = first_trained(head), count = head->classes - first;
    memset(batch->scores, 0, batch->rows * head->classes * sizeof *batch->scores);
    for (size_t i = 0; i < batch->rows; i++) {
        memcpy(batch->scores + i * head->classes + first, head->network->outputs[0] + i * count, count * sizeof *batch->scores);
    }
}

l3a_status head_network_forward(struct head *head, struct batch *batch) {
    struct head_network *network = head->network;
    l3a_status status = L3A_OK;
    TRY(trained_network_forward(&network->net, network->planes, batch->rows, network->outputs));
    if (network->net.old) {
        TRY(trained_network_run_old(&network->net, network->planes, batch->rows, network->old_outputs));
    }
    if (scores_itself(head)) {
        TRY(head->rules->network->score(head, network->outputs, batch->rows, true, batch->scores));
        goto done;
    }
    if (!head_has_coefficients(head)) {
        take_scores(head, batch);
        if (network->net.old && batch->old) {
            memcpy(batch->old, network->old_outputs[0], batch->rows * head->old * sizeof *batch->old);
        }
        goto done;
    }
    add_ones(head, network->outputs[0], batch->rows, batch->features);
    if (network->net.old) {
        add_ones(head, network->old_outputs[0], batch->rows, network->old_features);
    }
done:
    return status;
}

static l3a_status fail_number(const struct head *head, const char *what) {
    char rate[NUMBER_TEXT], hint[128];
    snprintf(hint, sizeof hint, "lower the rates, for example with --backbone-rate %s",
             number_format(head->network->tuning.backbone_rate / 10, rate));
    return fail(head->context, L3A_ERROR_NUMERIC, hint, "phase %zu: the %s is not finite", head->network->phase + 1, what);
}

l3a_status head_network_loss(struct head *head, struct batch *batch) {
    const struct head_network_rules *rules = head->rules->network;
    const size_t classes = head->classes, first = first_trained(head), count = classes - first;
    double loss = 0;
    l3a_status status = L3A_OK;
    memset(batch->gradient, 0, batch->rows * classes * sizeof *batch->gradient);
    if (rules && rules->set_targets) {
        rules->set_targets(head, batch);
    }
    if (rules && rules->loss) {
        TRY(rules->loss(head, batch, &loss));
    } else if (!first) {
        loss = loss_of_targets(head->loss, batch->rows, classes, batch->scores, batch->targets, batch->scale, batch->gradient);
    }
    for (size_t i = 0; first && i < batch->rows; i++) {
        const size_t at = i * classes + first;
        loss +=
            loss_of_targets(head->loss, 1, count, batch->scores + at, batch->targets + at, batch->scale + i, batch->gradient + at);
    }
    head->network->loss += loss;
    TRY(isfinite(loss) ? L3A_OK : fail_number(head, "loss"));
done:
    return status;
}

/* The gradient by the features, and what the method adds to those of all outputs. */
static l3a_status set_output_gradients(struct head *head, struct batch *batch) {
    struct head_network *network = head->network;
    const struct head_network_rules *rules = head->rules->network;
    const size_t width = head->inputs - 1;
    l3a_status status = L3A_OK;
    for (size_t i = scores_itself(head) ? 0 : 1; i < output_count(head); i++) {
        memset(network->by_outputs[i], 0, batch->rows * head_output_numbers(head, i) * sizeof(float));
    }
    if (head_has_coefficients(head)) {
        matrix_multiply(head->context->threads, REAL_SINGLE, false, false, batch->rows, width, head->classes, 1, batch->gradient,
                        head->classes, head->coefficients, head->inputs, 0, network->by_outputs[0], width);
    } else if (!scores_itself(head)) {
        const size_t first = first_trained(head), count = head->classes - first;
        for (size_t i = 0; i < batch->rows; i++) {
            memcpy(network->by_outputs[0] + i * count, batch->gradient + i * head->classes + first, count * sizeof(float));
        }
    }
    if (rules && rules->output_terms) {
        TRY(rules->output_terms(head, batch));
    }
done:
    return status;
}

static l3a_status backward(struct head *head) {
    struct head_network *network = head->network;
    const float *gradients[NETWORK_OUTPUTS];
    for (size_t i = 0; i < NETWORK_OUTPUTS; i++) {
        gradients[i] = network->by_outputs[i];
    }
    return trained_network_backward(&network->net, gradients);
}

static double square_of(const float *numbers, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)numbers[i] * (double)numbers[i];
    }
    return sum;
}

l3a_status head_network_step(struct head *head, struct batch *batch, float *gradient, size_t number, size_t steps) {
    struct head_network *network = head->network;
    const struct trained_tuning *tuning = &network->tuning;
    const size_t coefficients = head_has_coefficients(head) ? head->classes * head->inputs : 0;
    const double highest = head->old ? tuning->rate : tuning->first_rate;
    const size_t at = tuning->by_epoch ? number / (steps / head->tuning.epochs) : number,
                 of = tuning->by_epoch ? head->tuning.epochs : steps;
    struct network_step step = {
        .optimiser = tuning->optimiser,
        .rate = schedule_rate(tuning->schedule, at, of, tuning->backbone_rate * (head->old ? tuning->later : 1)),
        .momentum = schedule_momentum(tuning->schedule, at, of),
        .square = 0.999,
        .epsilon = 1e-8,
        .scale = 1,
        .number = number + 1};
    double square = 0;
    l3a_status status = L3A_OK;
    TRY(set_output_gradients(head, batch));
    TRY(backward(head));
    if (head->rules->network && head->rules->network->network_terms) {
        TRY(head->rules->network->network_terms(head));
    }
    TRY(trained_network_gradient_square(&network->net, &square));
    const double norm = sqrt(square + square_of(gradient, coefficients) + square_of(network->own.gradient, network->own.count));
    if (!isfinite(norm)) {
        status = fail_number(head, "gradient");
        goto done;
    }
    step.scale = tuning->clip > 0 && norm > tuning->clip ? tuning->clip / norm : 1;
    TRY(trained_network_step(&network->net, &step));
    step.rate = schedule_rate(tuning->schedule, at, of, highest);
    if (coefficients) {
        linear_rows_step(&step, tuning->decay, head->classes, head->inputs, gradient, network->moment, network->square,
                         head->coefficients);
    }
    if (network->own.count) {
        linear_rows_step(&step, 0, 1, network->own.count, network->own.gradient, network->own.moment, network->own.square,
                         network->own.values);
    }
done:
    return status;
}

/* ---- Looking at pictures ---- */

/* In place of an output: the scores that the method computes from all of them. */
enum { METHOD_SCORES = NETWORK_OUTPUTS };

static size_t taken_numbers(const struct head *head, size_t output) {
    return output == METHOD_SCORES ? head->classes : head_output_numbers(head, output);
}

/* Runs the network over pictures as they are, a few at a time, and takes one of its outputs, or scores. */
static l3a_status run_over(struct head *head, const struct picture_rows *of, const size_t *pictures, size_t count, size_t output,
                           float *values, size_t stride, const char *stage) {
    struct head_network *network = head->network;
    l3a_context *context = head->context;
    const struct augmentation plain = {0};
    struct picture_feed feeds[2];
    float *planes = NULL, *taken = NULL, *outputs[NETWORK_OUTPUTS] = {NULL};
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < 2; i++) {
        picture_feed_open(context, of, &network->source->loader, &plain, &feeds[i]);
    }
    TRY(trained_network_describe(&network->net));
    const size_t numbers = taken_numbers(head, output);
    TRY(allocate(context, SCORE_PICTURES, numbers * sizeof(float), &taken));
    TRY(allocate(context, SCORE_PICTURES, picture_numbers(network) * sizeof *planes, &planes));
    for (size_t i = 0; i < output_count(head); i++) {
        TRY(allocate(context, SCORE_PICTURES, head_output_numbers(head, i) * sizeof(float), &outputs[i]));
    }
    TRY(picture_feed_begin(&feeds[0], pictures, NULL, count < SCORE_PICTURES ? count : SCORE_PICTURES, 0));
    for (size_t first = 0, turn = 0; first < count; first += SCORE_PICTURES, turn++) {
        const size_t left = count - first, n = left < SCORE_PICTURES ? left : SCORE_PICTURES, rest = left - n;
        TRY(report_progress(context, stage, first, count));
        TRY(picture_feed_take(&feeds[turn % 2], planes, NULL));
        TRY(picture_feed_begin(&feeds[(turn + 1) % 2], pictures + first + n, NULL, rest < SCORE_PICTURES ? rest : SCORE_PICTURES,
                               0));
        TRY(trained_network_run(&network->net, planes, n, outputs));
        if (output == METHOD_SCORES) {
            TRY(head->rules->network->score(head, outputs, n, false, taken));
        }
        for (size_t i = 0; i < n; i++) {
            const float *from = (output == METHOD_SCORES ? taken : outputs[output]) + i * numbers;
            memcpy(values + (first + i) * stride, from, numbers * sizeof *values);
        }
    }
    TRY(report_progress(context, stage, count, count));
done:
    for (size_t i = 0; i < NETWORK_OUTPUTS; i++) {
        release(context, outputs[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        picture_feed_close(&feeds[i]);
    }
    release(context, planes);
    release(context, taken);
    return status;
}

static l3a_status look_at(struct head *head, const size_t *pictures, size_t count, float *features) {
    const size_t output = head->rules->network ? head->rules->network->looks : 0;
    for (size_t i = 0; i < count; i++) {
        features[(i + 1) * head->stored - 1] = 1;
    }
    return run_over(head, &head->network->source->train, pictures, count, output, features, head->stored, "look");
}

l3a_status head_network_look(struct head *head, struct rows *rows) {
    l3a_status status = L3A_OK;
    rows->inputs = head->stored;
    release(head->context, rows->features);
    rows->features = NULL;
    TRY(allocate(head->context, rows->count, rows->inputs * sizeof *rows->features, &rows->features));
    TRY(look_at(head, rows->pictures, rows->count, rows->features));
done:
    return status;
}

l3a_status head_network_look_at_memory(struct head *head) {
    return look_at(head, head->memory.pictures, head->memory.count, head->memory.features);
}

l3a_status head_network_visit(struct head *head, struct rows *rows, size_t most, l3a_status (*take)(struct head *head)) {
    struct head_network *network = head->network;
    struct stream stream = {random_bits(random_bits(head->seed, STREAM_CHANGES + 1), network->phase), 0};
    const struct augmentation plain = {0};
    const size_t count = most && most < rows->count ? most : rows->count, classes = head->classes;
    struct picture_feed feed;
    struct batch batch = {.rows = 1, .fresh = 1};
    float scale = 1;
    size_t *order = NULL;
    l3a_status status = L3A_OK;
    picture_feed_open(head->context, &network->source->train, &network->source->loader, &plain, &feed);
    TRY(allocate(head->context, rows->count, sizeof *order, &order));
    TRY(allocate_zeroed(head->context, 3 * classes + head->inputs, sizeof(float), &batch.scores));
    batch.targets = batch.scores + classes;
    batch.gradient = batch.targets + classes;
    batch.features = batch.gradient + classes;
    batch.scale = &scale;
    TRY(head_network_make_room(head, 1));
    stream_shuffle(&stream, order, rows->count);
    for (size_t i = 0; i < count; i++) {
        TRY(report_progress(head->context, "importance", i, count));
        TRY(picture_feed_begin(&feed, &rows->pictures[order[i]], NULL, 1, 0));
        TRY(picture_feed_take(&feed, network->planes, NULL));
        for (size_t k = 0; k < rows->classes; k++) {
            batch.targets[head->old + k] = rows->labels[order[i] * rows->classes + k] == 1;
        }
        TRY(head_network_forward(head, &batch));
        if (head_has_coefficients(head)) {
            head_multiply(head, head->coefficients, classes, batch.features, 1, batch.scores, classes);
        }
        TRY(head_network_loss(head, &batch));
        TRY(set_output_gradients(head, &batch));
        TRY(backward(head));
        TRY(take(head));
    }
done:
    head_network_drop_room(head);
    picture_feed_close(&feed);
    release(head->context, order);
    release(head->context, batch.scores);
    return status;
}

l3a_status head_score_pictures(void *state, const struct training_source *source, const size_t *rows, size_t count, float *scores) {
    struct head *head = state;
    l3a_status status = L3A_OK;
    float *inputs = NULL;
    head_network_use(head, source);
    if (!head_has_coefficients(head)) {
        return run_over(head, &source->test, rows, count, scores_itself(head) ? METHOD_SCORES : 0, scores, head->classes,
                        "evaluate");
    }
    TRY(allocate(head->context, count, head->inputs * sizeof *inputs, &inputs));
    for (size_t i = 0; i < count; i++) {
        inputs[(i + 1) * head->inputs - 1] = 1;
    }
    TRY(run_over(head, &source->test, rows, count, 0, inputs, head->inputs, "evaluate"));
    matrix_multiply(head->context->threads, REAL_SINGLE, false, true, count, head->classes, head->inputs, 1, inputs, head->inputs,
                    head->coefficients, head->inputs, 0, scores, head->classes);
done:
    release(head->context, inputs);
    return status;
}

l3a_status head_network_plan(void *state, const struct training_source *source, size_t classes, struct training_need *need) {
    struct head *head = state;
    struct network_plan plan;
    double forward, backward;
    l3a_status status = L3A_OK;
    head_network_use(head, source);
    head->total_classes = head->classes = classes;
    const bool compared = compares(head);
    TRY(trained_network_bytes(&head->network->net, &plan));
    TRY(trained_network_flops(&head->network->net, &forward, &backward));
    const uint64_t pictures = head->batch * (1 + head->rules->replays) * picture_numbers(head->network) * sizeof(float);
    need->memory = plan.bytes + 2 * pictures + head_memory_slots(head) * (head->stored * sizeof(float) + classes);
    need->memory += compared ? plan.bytes / 2 : 0;
    if (head->rules->network && head->rules->network->own_numbers) {
        need->memory += head->rules->network->own_numbers(head, classes) * (4 + compared) * sizeof(float); /* with moments */
    }
    need->passes = (double)head->tuning.epochs * (1 + (double)head->rules->replays);
    need->flops = (1 + (double)compared) * forward + backward;
    need->score_flops = forward;
done:
    return status;
}
