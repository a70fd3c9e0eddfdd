/* Training, as the interface of back ends has it: the gradients of every kind of layer, and of whole networks of two families,
 * against differences of the naive back end's values. A back end that can train is compared with the naive one. */
#include "support.h"

#include "layer_cases.h"
#include "net/backbone.h"
#include "small_networks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 3, SAMPLES = 4 }; /* pictures; numbers of each parameter that are tried */

/* A network that is trained with the loss Σ share · output over all numbers of its outputs. */
struct bench {
    l3a_context *context;
    const char *name;
    struct network *net;
    void *state;
    float *pictures, *shares[NETWORK_OUTPUTS], *outputs[NETWORK_OUTPUTS];
};

static size_t output_size(const struct bench *bench, size_t output) {
    const struct shape shape = bench->net->shapes[bench->net->outputs[output].value];
    return COUNT * shape.channels * shape.height * shape.width;
}

static float *numbers(const char *name, size_t count) {
    float *made = malloc(count * sizeof *made);
    assert_non_null(made);
    for (size_t i = 0; i < count; i++) {
        made[i] = layer_case_number(name, i);
    }
    return made;
}

static void bench_open(l3a_context *context, const char *name, struct network *net, struct bench *bench) {
    const struct shape in = net->shapes[PICTURE];
    *bench = (struct bench){.context = context, .name = name, .net = net};
    bench->pictures = numbers("picture", COUNT * in.channels * in.height * in.width);
    for (size_t i = 0; i < net->output_count; i++) {
        bench->shares[i] = numbers(i ? "other shares" : "shares", output_size(bench, i));
        bench->outputs[i] = numbers("outputs", output_size(bench, i));
    }
    assert_ok(context, naive_back_end.open(net, &(struct network_use){.training = true, .pictures = COUNT}, &bench->state));
}

static void bench_close(struct bench *bench) {
    naive_back_end.close(bench->state);
    for (size_t i = 0; i < bench->net->output_count; i++) {
        free(bench->shares[i]);
        free(bench->outputs[i]);
    }
    free(bench->pictures);
}

static double loss(const struct bench *bench) {
    double sum = 0;
    assert_ok(bench->context, naive_back_end.forward(bench->state, bench->pictures, COUNT, bench->outputs));
    for (size_t i = 0; i < bench->net->output_count; i++) {
        const double *made = naive_output(bench->state, i);
        for (size_t j = 0; j < output_size(bench, i); j++) {
            sum += (double)bench->shares[i][j] * made[j];
        }
    }
    return sum;
}

static double loss_with(const struct bench *bench, size_t layer, enum parameter_kind kind, float *values, size_t at,
                        float changed) {
    const float before = values[at];
    values[at] = changed;
    assert_ok(bench->context, naive_back_end.write(bench->state, layer, kind, PARAMETER_VALUE, values));
    values[at] = before;
    return loss(bench);
}

/* The difference of the loss. The step shrinks while it is large enough for activations to change sides on the way. */
static double difference(const struct bench *bench, size_t layer, enum parameter_kind kind, float *values, size_t at,
                         double expected, double tolerance) {
    double best = INFINITY;
    for (float step = 0x1p-10F; step > 0x1p-20F; step /= 4) {
        const float more = values[at] + step, less = values[at] - step;
        const double found = (loss_with(bench, layer, kind, values, at, more) - loss_with(bench, layer, kind, values, at, less)) /
                             ((double)more - (double)less);
        best = fabs(found - expected) < fabs(best - expected) ? found : best;
        if (fabs(best - expected) <= tolerance) {
            break;
        }
    }
    assert_ok(bench->context, naive_back_end.write(bench->state, layer, kind, PARAMETER_VALUE, values));
    return best;
}

static void check_parameter(const struct bench *bench, size_t layer, enum parameter_kind kind) {
    const struct parameter *parameter = &bench->net->layers[layer].parameters[kind];
    float *values = malloc(parameter->count * sizeof *values), *gradients = malloc(parameter->count * sizeof *gradients);
    double norm = 0;
    assert_true(values && gradients);
    assert_ok(bench->context, naive_back_end.forward(bench->state, bench->pictures, COUNT, bench->outputs));
    assert_ok(bench->context, naive_back_end.backward(bench->state, (const float *const *)bench->shares));
    assert_ok(bench->context, naive_back_end.read(bench->state, layer, kind, PARAMETER_VALUE, values));
    assert_ok(bench->context, naive_back_end.read(bench->state, layer, kind, PARAMETER_GRADIENT, gradients));
    for (size_t i = 0; i < parameter->count; i++) {
        norm += (double)gradients[i] * (double)gradients[i] / (double)parameter->count;
    }
    for (size_t i = 0; i < SAMPLES && i < parameter->count; i++) {
        const size_t at = (i * 7919 + parameter->count / 2) % parameter->count;
        const double expected = (double)gradients[at], tolerance = 1e-4 * (fabs(expected) + sqrt(norm)) + 1e-6;
        const double found = difference(bench, layer, kind, values, at, expected, tolerance);
        if (!(fabs(found - expected) <= tolerance)) {
            print_error("%s, layer %zu, %s[%zu]: gradient %g, difference %g\n", bench->name, layer, parameter->name, at, expected,
                        found);
            fail();
        }
    }
    free(values);
    free(gradients);
}

/* How many of its parameters were checked. */
static size_t check_network(l3a_context *context, const char *name, struct network *net) {
    struct bench bench;
    size_t checked = 0;
    bench_open(context, name, net, &bench);
    for (size_t i = 0; i < net->layer_count; i++) {
        for (size_t kind = 0; kind < MEAN; kind++) {
            if (net->layers[i].parameters[kind].values) {
                check_parameter(&bench, i, (enum parameter_kind)kind);
                checked++;
            }
        }
    }
    bench_close(&bench);
    return checked;
}

static void layers_have_the_gradients_of_their_values(void **unused) {
    static struct memory_tensors tensors;
    l3a_context *context = make_context(1);
    size_t checked = 0;
    (void)unused;
    for (size_t i = 0; i < layer_case_count; i++) {
        struct parameters parameters;
        struct network net;
        layer_case_open(context, &layer_cases[i], &tensors, &parameters, &net);
        if (net.layer_count && layer_cases[i].side <= 30) { /* the larger cases are others with more tokens */
            checked += check_network(context, layer_cases[i].name, &net);
        }
        network_free(&net);
        parameters_close(&parameters);
    }
    assert_true(checked > 2 * layer_case_count);
    l3a_context_free(context);
}

static void make_narrow_resnet(struct memory_tensors *tensors) {
    make_small_resnet_of(tensors, 4);
}

/* Described once, as for inference. */
static void whole_networks_have_the_gradients_of_their_values(void **unused) {
    static const struct {
        const char *name;
        void (*make)(struct memory_tensors *tensors);
        size_t side;
    } networks[] = {{"vit", make_small_vit, 12}, {"resnet", make_narrow_resnet, 36}};
    static struct memory_tensors tensors;
    l3a_context *context = make_context(1);
    (void)unused;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        const l3a_backbone_options options = {.size = sizeof options, .side = networks[i].side};
        struct reading reading;
        networks[i].make(&tensors);
        struct parameter_source source = tensors_source(&tensors, read_small);
        source.recorded = true; /* mean and deviation make no difference here */
        assert_ok(context, backbone_read(context, &source, &options, &reading));
        assert_true(check_network(context, networks[i].name, &reading.network) > 20);
        network_free(&reading.network);
    }
    l3a_context_free(context);
}

/* Mean and variance of one batch, and a step towards them, as PyTorch defines it. */
static void batch_norms_follow_their_batches(void **unused) {
    static struct memory_tensors tensors;
    l3a_context *context = make_context(1);
    struct parameters parameters;
    struct network net;
    struct bench bench;
    size_t norm = 0, which = 0;
    (void)unused;
    while (strcmp(layer_cases[which].name, "batch norm of a pool") != 0) {
        which++;
    }
    layer_case_open(context, &layer_cases[which], &tensors, &parameters, &net);
    while (net.layers[norm].kind != LAYER_BATCH_NORM) {
        norm++;
    }
    network_output(&net, "pool", net.layers[norm].input);
    bench_open(context, "batch norm", &net, &bench);
    loss(&bench);
    const struct shape shape = net.layers[norm].from;
    const size_t pixels = shape.height * shape.width, count = COUNT * pixels;
    const double *pool = naive_output(bench.state, 1);
    float means[64], variances[64];
    assert_ok(context, naive_back_end.read(bench.state, norm, MEAN, PARAMETER_VALUE, means));
    assert_ok(context, naive_back_end.read(bench.state, norm, VARIANCE, PARAMETER_VALUE, variances));
    for (size_t c = 0; c < shape.channels; c++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < count; i++) {
            const double x = pool[(i / pixels * shape.channels + c) * pixels + i % pixels];
            sum += x;
            squares += x * x;
        }
        const double variance = (squares - sum * sum / (double)count) / (double)(count - 1);
        const double mean_before = (double)net.layers[norm].parameters[MEAN].values[c];
        const double variance_before = (double)net.layers[norm].parameters[VARIANCE].values[c];
        assert_true(fabs((double)means[c] - (0.9 * mean_before + 0.1 * sum / (double)count)) < 1e-6);
        assert_true(fabs((double)variances[c] - (0.9 * variance_before + 0.1 * variance)) < 1e-6);
    }
    bench_close(&bench);
    network_free(&net);
    parameters_close(&parameters);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_have_the_gradients_of_their_values),
                                       cmocka_unit_test(whole_networks_have_the_gradients_of_their_values),
                                       cmocka_unit_test(batch_norms_follow_their_batches)};
    return cmocka_run_group_tests_name("gradients", tests, NULL, NULL);
}
