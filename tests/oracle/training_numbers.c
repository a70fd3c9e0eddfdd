/* Trains a checkpoint's network with the loss Σ share · feature, for test_training.py and bench/training.py to compare with
 * PyTorch.
 *
 *   training_numbers CHECKPOINT PICTURES SHARES COUNT THREADS numbers STEPS RATE >numbers
 *   training_numbers CHECKPOINT PICTURES SHARES COUNT THREADS time MIB
 *
 * PICTURES and SHARES are float32 numbers, for COUNT pictures; how many there are says how large they are. The first form writes
 * the features, the gradients of all parameters, and the parameters after STEPS steps of SGD with momentum 0.9, each as a line with
 * what it is, a name and how many there are, and float32 numbers. The second form makes a step for each line that it reads, and
 * says how many seconds it took; MIB: the memory it may take, 0: all. L3A_TEST_DEVICE is the device, if it is set. */
#include "base/context.h"
#include "base/memory.h"
#include "net/back_end.h"
#include "net/backbone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct training {
    l3a_context *context;
    const struct network *net;
    const struct network_back_end *back_end;
    void *state;
    float *pictures, *shares, *outputs[NETWORK_OUTPUTS];
    const float *gradients[NETWORK_OUTPUTS];
    size_t count;
};

static size_t size_of(const struct network *net, value of) {
    return net->shapes[of].channels * net->shapes[of].height * net->shapes[of].width;
}

static l3a_status read_numbers(l3a_context *context, const char *path, size_t count, float **numbers) {
    FILE *file = fopen(path, "rb");
    l3a_status status = L3A_OK;
    TRY(allocate(context, count, sizeof **numbers, numbers));
    FAIL_IF(!file || fread(*numbers, sizeof **numbers, count, file) != count, context, L3A_ERROR_IO, NULL, "cannot read %s", path);
done:
    if (file) {
        fclose(file);
    }
    return status;
}

/* The side of square pictures in a file. */
static l3a_status find_side(l3a_context *context, const char *path, size_t count, size_t *side) {
    FILE *file = fopen(path, "rb");
    l3a_status status = L3A_OK;
    FAIL_IF(!file || fseek(file, 0, SEEK_END), context, L3A_ERROR_IO, NULL, "cannot read %s", path);
    *side = root_of((size_t)ftell(file) / (3 * sizeof(float) * count));
done:
    if (file) {
        fclose(file);
    }
    return status;
}

static l3a_status pass(struct training *training) {
    l3a_status status = L3A_OK;
    TRY(training->back_end->forward(training->state, training->pictures, training->count, training->outputs));
    TRY(training->back_end->backward(training->state, training->gradients));
done:
    return status;
}

static l3a_status step(struct training *training, uint64_t number, double rate) {
    const struct network_step what = {.optimiser = OPTIMISER_SGD, .rate = rate, .momentum = 0.9, .scale = 1, .number = number};
    return training->back_end->step(training->state, &what);
}

static l3a_status write_parameters(struct training *training, const char *title, enum parameter_part part) {
    const struct network *net = training->net;
    float *values = NULL;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < net->layer_count * PARAMETER_KINDS; i++) {
        const struct parameter *parameter = &net->layers[i / PARAMETER_KINDS].parameters[i % PARAMETER_KINDS];
        const enum parameter_kind kind = (enum parameter_kind)(i % PARAMETER_KINDS);
        if (parameter->values && (part == PARAMETER_VALUE || kind < MEAN)) {
            TRY(allocate(training->context, parameter->count, sizeof *values, &values));
            TRY(training->back_end->read(training->state, i / PARAMETER_KINDS, kind, part, values));
            printf("%s %s %zu\n", title, parameter->name, parameter->count);
            fwrite(values, sizeof *values, parameter->count, stdout);
            release(training->context, values);
            values = NULL;
        }
    }
done:
    release(training->context, values);
    return status;
}

static l3a_status write_numbers(struct training *training, uint64_t steps, double rate) {
    const size_t width = size_of(training->net, training->net->outputs[0].value);
    l3a_status status = L3A_OK;
    for (uint64_t number = 1; number <= steps; number++) {
        TRY(pass(training));
        if (number == 1) {
            printf("features features %zu\n", training->count * width);
            fwrite(training->outputs[0], sizeof(float), training->count * width, stdout);
            TRY(write_parameters(training, "gradient", PARAMETER_GRADIENT));
        }
        TRY(step(training, number, rate));
    }
    TRY(write_parameters(training, "value", PARAMETER_VALUE));
done:
    return status;
}

static l3a_status measure(struct training *training) {
    l3a_status status = L3A_OK;
    uint64_t number = 0;
    while (getchar() == '\n') {
        const double start = clock_seconds();
        TRY(pass(training));
        TRY(step(training, ++number, 0));
        printf("%.6f\n", clock_seconds() - start);
        fflush(stdout);
    }
done:
    return status;
}

static l3a_status train(l3a_context *context, int count, char **arguments) {
    l3a_backbone_options options = {.size = sizeof options, .deviation = {1, 1, 1}};
    const bool measures = strcmp(arguments[6], "time") == 0;
    struct training training = {.context = context, .count = (size_t)atoi(arguments[4])};
    struct network_use use = {.training = true, .pictures = training.count};
    struct checkpoint *checkpoint = NULL;
    struct parameter_source source;
    struct reading reading = {0};
    l3a_status status = L3A_OK;
    use.memory = measures ? (uint64_t)atoi(arguments[7]) << 20 : 0;
    TRY(find_side(context, arguments[2], training.count, &options.side));
    TRY(checkpoint_open(context, arguments[1], &checkpoint));
    parameter_source_checkpoint(checkpoint, &source);
    TRY(backbone_read(context, &source, &options, &reading));
    training.net = &reading.network;
    reading.network.output_count = 1;
    const size_t in = size_of(&reading.network, PICTURE), out = size_of(&reading.network, reading.network.outputs[0].value);
    TRY(read_numbers(context, arguments[2], training.count * in, &training.pictures));
    TRY(read_numbers(context, arguments[3], training.count * out, &training.shares));
    training.gradients[0] = training.shares;
    TRY(allocate(context, training.count * out, sizeof(float), &training.outputs[0]));
    training.back_end = network_back_end_of(context);
    FAIL_IF(!training.back_end->forward, context, L3A_ERROR_OPTION, NULL, "%s does not train", training.back_end->name);
    TRY(training.back_end->open(&reading.network, &use, &training.state));
    TRY(measures ? measure(&training) : write_numbers(&training, (uint64_t)atoi(arguments[7]), count > 8 ? atof(arguments[8]) : 0));
done:
    if (training.state) {
        training.back_end->close(training.state);
    }
    release(context, training.pictures);
    release(context, training.shares);
    release(context, training.outputs[0]);
    network_free(&reading.network);
    checkpoint_free(checkpoint);
    return status;
}

int main(int count, char **arguments) {
    l3a_context_options options = {
        .size = sizeof options, .threads = count > 5 ? atoi(arguments[5]) : 0, .device = getenv("L3A_TEST_DEVICE")};
    l3a_context *context = NULL;
    if (count < 8 || l3a_context_create(&options, &context) != L3A_OK) {
        return 2;
    }
    const l3a_status status = train(context, count, arguments);
    if (status != L3A_OK) {
        fprintf(stderr, "%s\n%s\n", l3a_error_text(context), l3a_error_hint(context));
    }
    l3a_context_free(context);
    return status == L3A_OK ? 0 : 2;
}
