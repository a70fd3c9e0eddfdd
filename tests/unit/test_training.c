/* Training, on every back end that trains, against the naive one: values, statistics of batch norms, and gradients of every kind of
 * layer and of whole networks, with all or some of the parameters trained, in batches of several sizes, with and without
 * recomputation; the steps of the optimisers against their formulas; and the same bytes again. */
#include "support.h"

#include "layer_cases.h"
#include "naive_layers.h"
#include "net/backbone.h"
#include "small_networks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 5, LAYERS = 256 };

/* ---- Two back ends side by side ---- */

struct pair {
    l3a_context *context;
    const char *name;
    struct network *net;
    const struct network_back_end *back_end;
    struct network_use use;
    void *naive, *state;
    float *pictures, *shares[NETWORK_OUTPUTS], *expected[NETWORK_OUTPUTS], *found[NETWORK_OUTPUTS];
};

static size_t output_size(const struct network *net, size_t output) {
    return shape_size(net->shapes[net->outputs[output].value]);
}

static float *numbers(const char *name, size_t count) {
    float *made = malloc(count * sizeof *made);
    assert_non_null(made);
    for (size_t i = 0; i < count; i++) {
        made[i] = layer_case_number(name, i);
    }
    return made;
}

static void pair_open(struct pair *pair) {
    const struct network *net = pair->net;
    pair->pictures = numbers("picture", COUNT * shape_size(net->shapes[PICTURE]));
    for (size_t i = 0; i < net->output_count; i++) {
        pair->shares[i] = numbers(i ? "other shares" : "shares", COUNT * output_size(net, i));
        pair->expected[i] = numbers("", COUNT * output_size(net, i));
        pair->found[i] = numbers("", COUNT * output_size(net, i));
    }
    assert_ok(pair->context, naive_back_end.open(net, &pair->use, &pair->naive));
    assert_ok(pair->context, pair->back_end->open(net, &pair->use, &pair->state));
}

static void pair_close(struct pair *pair) {
    naive_back_end.close(pair->naive);
    pair->back_end->close(pair->state);
    for (size_t i = 0; i < pair->net->output_count; i++) {
        free(pair->shares[i]);
        free(pair->expected[i]);
        free(pair->found[i]);
    }
    free(pair->pictures);
}

/* Relative to the size of the numbers as a whole. A bias before a norm has no gradient but what rounding leaves. */
static void compare(const struct pair *pair, const char *what, size_t layer, size_t count, const float *expected,
                    const float *found, double tolerance) {
    double square = 0;
    for (size_t i = 0; i < count; i++) {
        square += (double)expected[i] * (double)expected[i] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        if (!(fabs((double)found[i] - (double)expected[i]) <= tolerance * (sqrt(square) + fabs((double)expected[i])) + 1e-5)) {
            print_error("%s on %s, layer %zu, %s[%zu] of %zu: %g, expected %g (size %g)\n", pair->name, pair->back_end->name, layer,
                        what, i, count, (double)found[i], (double)expected[i], sqrt(square));
            fail();
        }
    }
}

static void compare_part(const struct pair *pair, size_t layer, enum parameter_kind kind, enum parameter_part part,
                         double tolerance) {
    const struct parameter *parameter = &pair->net->layers[layer].parameters[kind];
    float *expected = numbers("", parameter->count), *found = numbers("", parameter->count);
    assert_ok(pair->context, naive_back_end.read(pair->naive, layer, kind, part, expected));
    assert_ok(pair->context, pair->back_end->read(pair->state, layer, kind, part, found));
    compare(pair, parameter->name, layer, parameter->count, expected, found, tolerance);
    free(expected);
    free(found);
}

static void compare_outputs(const struct pair *pair, size_t count, double tolerance) {
    for (size_t i = 0; i < pair->net->output_count; i++) {
        compare(pair, pair->net->outputs[i].name, i, count * output_size(pair->net, i), pair->expected[i], pair->found[i],
                tolerance);
    }
}

/* Forward and backward with `count` pictures; compares all that follows from them. */
static void check_pass(const struct pair *pair, size_t count, double tolerance) {
    const struct network *net = pair->net;
    double expected, found;
    assert_ok(pair->context, naive_back_end.forward(pair->naive, pair->pictures, count, pair->expected));
    assert_ok(pair->context, pair->back_end->forward(pair->state, pair->pictures, count, pair->found));
    compare_outputs(pair, count, tolerance);
    assert_ok(pair->context, naive_back_end.backward(pair->naive, (const float *const *)pair->shares));
    assert_ok(pair->context, pair->back_end->backward(pair->state, (const float *const *)pair->shares));
    for (size_t i = 0; i < net->layer_count * PARAMETER_KINDS; i++) {
        const enum parameter_kind kind = (enum parameter_kind)(i % PARAMETER_KINDS);
        const size_t layer = i / PARAMETER_KINDS;
        if (net->layers[layer].parameters[kind].values) {
            compare_part(pair, layer, kind, PARAMETER_VALUE, 1e-5);
            if (parameter_use_of(net, &pair->use, layer, kind).trained) {
                compare_part(pair, layer, kind, PARAMETER_GRADIENT, tolerance);
            }
        }
    }
    assert_ok(pair->context, naive_back_end.gradient_square(pair->naive, &expected));
    assert_ok(pair->context, pair->back_end->gradient_square(pair->state, &found));
    assert_near(found / expected, 1, 1e-3);
}

/* ---- What is trained ---- */

enum subset { EVERYTHING, NORMS, LAST, BIASES, SUBSETS };

static bool is_trained(const struct network *net, enum subset subset, size_t layer, size_t kind) {
    const enum net_layer_kind what = net->layers[layer].kind;
    const bool norm = what == LAYER_BATCH_NORM || what == LAYER_NORM || what == LAYER_SCALE;
    return subset == EVERYTHING || (subset == NORMS && norm) || (subset == LAST && layer + 2 > net->layer_count - layer) ||
           (subset == BIASES && (kind == BIAS || kind == SECOND_BIAS));
}

/* Returns how many parameters are trained. */
static size_t choose(const struct network *net, enum subset subset, struct parameter_use (*uses)[PARAMETER_KINDS]) {
    size_t count = 0;
    assert_true(net->layer_count <= LAYERS);
    for (size_t i = 0; i < net->layer_count; i++) {
        for (size_t kind = 0; kind < PARAMETER_KINDS; kind++) {
            uses[i][kind] = (struct parameter_use){
                .trained = is_trained(net, subset, i, kind), .rate = i % 2 ? 1 : 0.5F, .decay = kind == FACTORS ? 0.01F : 0};
            count += uses[i][kind].trained && kind < MEAN && net->layers[i].parameters[kind].values;
        }
    }
    return count;
}

typedef void network_check(l3a_context *context, const char *name, struct network *net, const struct network_back_end *back_end,
                           double tolerance);

static void for_back_ends(l3a_context *context, const char *name, struct network *net, double tolerance, network_check *check) {
    const struct network_back_end *back_end;
    for (size_t i = 0; (back_end = network_back_end_at(i)); i++) {
        if (back_end->available() && back_end->forward) {
            check(context, name, net, back_end, tolerance);
        }
    }
}

static void check_subsets(l3a_context *context, const char *name, struct network *net, const struct network_back_end *back_end,
                          double tolerance) {
    struct parameter_use uses[LAYERS][PARAMETER_KINDS];
    for (enum subset subset = EVERYTHING; subset < SUBSETS; subset++) {
        struct pair pair = {
            .context = context,
            .name = name,
            .net = net,
            .back_end = back_end,
            .use = {.training = true, .pictures = COUNT, .parameters = (const struct parameter_use(*)[PARAMETER_KINDS])uses}};
        if (choose(net, subset, uses)) {
            pair_open(&pair);
            check_pass(&pair, COUNT, tolerance);
            check_pass(&pair, COUNT - 2, tolerance);
            assert_ok(context, naive_back_end.run(pair.naive, pair.pictures, COUNT, pair.expected));
            assert_ok(context, back_end->run(pair.state, pair.pictures, COUNT, pair.found));
            compare_outputs(&pair, COUNT, tolerance);
            check_pass(&pair, COUNT, tolerance);
            pair_close(&pair);
        }
    }
}

static void each_case(int threads, network_check *check) {
    static struct memory_tensors tensors;
    l3a_context *context = make_context(threads);
    for (size_t i = 0; i < layer_case_count; i++) {
        struct parameters parameters;
        struct network net;
        layer_case_open(context, &layer_cases[i], &tensors, &parameters, &net);
        if (net.layer_count) {
            for_back_ends(context, layer_cases[i].name, &net, 2e-5, check);
        }
        network_free(&net);
        parameters_close(&parameters);
    }
    l3a_context_free(context);
}

static void make_narrow_resnet(struct memory_tensors *tensors) {
    make_small_resnet_of(tensors, 4);
}

static const struct {
    const char *name;
    void (*make)(struct memory_tensors *tensors);
    size_t side;
    double tolerance;
} networks[] = {
    {"vit", make_small_vit, 12, 1e-4}, {"resnet", make_narrow_resnet, 64, 1e-3}, {"tresnet", make_small_tresnet, 64, 1e-3}};

static void read_network(l3a_context *context, size_t which, struct reading *reading) {
    static struct memory_tensors tensors;
    const l3a_backbone_options options = {.size = sizeof options, .side = networks[which].side};
    networks[which].make(&tensors);
    struct parameter_source source = tensors_source(&tensors, read_small);
    source.recorded = true; /* mean and deviation make no difference here */
    assert_ok(context, backbone_read(context, &source, &options, reading));
}

static void each_network(int threads, network_check *check) {
    l3a_context *context = make_context(threads);
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        struct reading reading;
        read_network(context, i, &reading);
        for_back_ends(context, networks[i].name, &reading.network, networks[i].tolerance, check);
        network_free(&reading.network);
    }
    l3a_context_free(context);
}

static void layers_train_as_the_naive_ones(void **unused) {
    (void)unused;
    each_case(1, check_subsets);
    each_case(2, check_subsets);
}

static void networks_train_as_the_naive_ones(void **unused) {
    (void)unused;
    each_network(1, check_subsets);
    each_network(2, check_subsets);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_train_as_the_naive_ones),
                                       cmocka_unit_test(networks_train_as_the_naive_ones)};
    return cmocka_run_group_tests_name("training", tests, NULL, NULL);
}
