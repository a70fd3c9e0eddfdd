/* Training on a GPU: how fast a step is, with a linear head of 80 classes and the asymmetric loss on the processor, and pictures
 * from the processor's memory. For bench/gpu_training.py, which writes one request a line and reads one line of JSON for each:
 *
 *     bench_device_training CHECKPOINT DEVICE float32|bf16 BATCH MIB
 *     steps COUNT    seconds of a step, and the loss of the last one
 *     parts COUNT    seconds of its parts: forward, the head and its loss, backward with the length of the gradient, and the step
 *     plan           the memory that was planned for the device, and whether values are computed twice */
#include "base/memory.h"
#include "net/backbone.h"
#include "train/linear_head.h"
#include "train/loss.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 80, SHOWN = 30 }; /* SHOWN: one of so many labels */

struct training {
    l3a_context *context;
    struct reading reading;
    const struct network_back_end *back_end;
    struct network_plan plan;
    void *state;
    struct linear_head head;
    size_t batch, width;
    float *pictures, *features, *by_features, *scores, *by_scores;
    int8_t *labels;
    uint64_t steps;
    double loss, square, parts[4]; /* parts: seconds so far */
};

static l3a_status make_numbers(struct training *training) {
    const struct shape in = training->reading.network.shapes[PICTURE];
    const size_t batch = training->batch, numbers = batch * in.channels * in.height * in.width;
    l3a_status status = L3A_OK;
    TRY(allocate(training->context, numbers, sizeof(float), &training->pictures));
    TRY(allocate(training->context, batch * training->width, sizeof(float), &training->features));
    TRY(allocate(training->context, batch * training->width, sizeof(float), &training->by_features));
    TRY(allocate(training->context, batch * CLASSES, sizeof(float), &training->scores));
    TRY(allocate(training->context, batch * CLASSES, sizeof(float), &training->by_scores));
    TRY(allocate(training->context, batch * CLASSES, 1, &training->labels));
    for (size_t i = 0; i < numbers; i++) {
        training->pictures[i] = (float)(i * 2654435761U % 2000) / 1000 - 1;
    }
    for (size_t i = 0; i < batch * CLASSES; i++) {
        training->labels[i] = i % SHOWN == 0;
    }
done:
    return status;
}

static l3a_status open_training(struct training *training, const char *path, enum number_type numbers, uint64_t memory) {
    const l3a_backbone_options options = {.size = sizeof options};
    const struct network_use use = {.training = true, .pictures = training->batch, .numbers = numbers, .memory = memory};
    struct checkpoint *checkpoint = NULL;
    struct parameter_source source;
    struct network *network = &training->reading.network;
    l3a_status status = L3A_OK;
    TRY(checkpoint_open(training->context, path, &checkpoint));
    parameter_source_checkpoint(checkpoint, &source);
    source.recorded = true; /* mean and deviation make no difference here */
    TRY(backbone_read(training->context, &source, &options, &training->reading));
    network->output_count = 1;
    training->width = network->shapes[network->outputs[0].value].channels;
    training->back_end = network_back_end_of(training->context);
    FAIL_IF(!training->back_end->forward, training->context, L3A_ERROR_OPTION, "choose another device", "%s does not train",
            training->back_end->name);
    TRY(training->back_end->plan(network, &use, &training->plan));
    TRY(training->back_end->open(network, &use, &training->state));
    TRY(linear_head_make(training->context, CLASSES, training->width, 1, &training->head));
    TRY(make_numbers(training));
done:
    checkpoint_free(checkpoint);
    return status;
}

/* Adds what a part took since `since`, and returns the time. */
static double passed(struct training *training, size_t part, double since) {
    const double now = clock_seconds();
    training->parts[part] += now - since;
    return now;
}

static l3a_status make_step(struct training *training) {
    struct network_step step = {
        .optimiser = OPTIMISER_ADAMW, .rate = 1e-6, .momentum = 0.9, .square = 0.999, .epsilon = 1e-8, .scale = 1};
    double time = clock_seconds();
    l3a_status status = L3A_OK;
    step.number = ++training->steps;
    TRY(training->back_end->forward(training->state, training->pictures, training->batch, &training->features));
    time = passed(training, 0, time);
    linear_head_score(training->context, &training->head, training->head.values, training->features, training->batch,
                      training->scores);
    training->loss =
        loss_of_labels(L3A_LOSS_ASYMMETRIC, training->batch, CLASSES, training->scores, training->labels, training->by_scores);
    linear_head_backward(training->context, &training->head, training->features, training->by_scores, training->batch,
                         training->by_features);
    time = passed(training, 1, time);
    TRY(training->back_end->backward(training->state, (const float *const[]){training->by_features}));
    TRY(training->back_end->gradient_square(training->state, &training->square)); /* waits */
    time = passed(training, 2, time);
    TRY(training->back_end->step(training->state, &step));
    linear_head_step(&training->head, &step, 0);
    passed(training, 3, time);
done:
    return status;
}

static l3a_status answer(struct training *training, const char *line) {
    l3a_status status = L3A_OK;
    size_t count = 1;
    if (strncmp(line, "plan", 4) == 0) {
        printf("{\"memory\": %" PRIu64 ", \"recomputes\": %s}\n", training->plan.bytes,
               training->plan.recomputes ? "true" : "false");
        return L3A_OK;
    }
    sscanf(line, "%*s %zu", &count);
    memset(training->parts, 0, sizeof training->parts);
    const double start = clock_seconds();
    for (size_t i = 0; i < count; i++) {
        TRY(make_step(training));
    }
    const double each = 1 / (double)count, *parts = training->parts;
    if (strncmp(line, "parts", 5) == 0) {
        printf("{\"forward\": %.6f, \"head\": %.6f, \"backward\": %.6f, \"step\": %.6f}\n", parts[0] * each, parts[1] * each,
               parts[2] * each, parts[3] * each);
    } else {
        printf("{\"seconds\": %.6f, \"loss\": %.6g, \"gradient\": %.6g}\n", (clock_seconds() - start) * each, training->loss,
               training->square);
    }
done:
    return status;
}

static void close_training(struct training *training) {
    l3a_context *context = training->context;
    if (training->state) {
        training->back_end->close(training->state);
    }
    linear_head_free(context, &training->head);
    release(context, training->pictures);
    release(context, training->features);
    release(context, training->by_features);
    release(context, training->scores);
    release(context, training->by_scores);
    release(context, training->labels);
    network_free(&training->reading.network);
    l3a_context_free(context);
}

int main(int count, char **arguments) {
    struct training training = {.context = NULL};
    char line[200];
    if (count != 6) {
        fprintf(stderr, "bench_device_training CHECKPOINT DEVICE float32|bf16 BATCH MIB\n");
        return 2;
    }
    const l3a_context_options options = {.size = sizeof options, .device = arguments[2]};
    if (l3a_context_create(&options, &training.context) != L3A_OK) {
        fprintf(stderr, "device %s cannot be used: see l3a doctor\n", arguments[2]);
        return 1;
    }
    training.batch = (size_t)atoi(arguments[4]);
    l3a_status status = open_training(&training, arguments[1], strcmp(arguments[3], "bf16") ? NUMBER_FLOAT32 : NUMBER_BFLOAT16,
                                      strtoull(arguments[5], NULL, 10) << 20);
    while (status == L3A_OK && fgets(line, sizeof line, stdin)) {
        status = answer(&training, line);
        fflush(stdout);
    }
    if (status != L3A_OK) {
        fprintf(stderr, "%s\n%s\n", l3a_error_text(training.context), l3a_error_hint(training.context));
    }
    close_training(&training);
    return status == L3A_OK ? 0 : 1;
}
