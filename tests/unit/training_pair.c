#include "training_pair.h"

#include "layer_cases.h"
#include "naive_layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum number_type training_numbers;

float *made_up_numbers(const char *name, size_t count) {
    float *made = malloc(count * sizeof *made);
    assert_non_null(made);
    for (size_t i = 0; i < count; i++) {
        made[i] = layer_case_number(name, i);
    }
    return made;
}

void pair_open(struct pair *pair) {
    const struct network *net = pair->net;
    pair->pictures = made_up_numbers("picture", PAIR_PICTURES * shape_size(net->shapes[PICTURE]));
    for (size_t i = 0; i < net->output_count; i++) {
        pair->shares[i] = made_up_numbers(i ? "other shares" : "shares", PAIR_PICTURES * output_size(net, i));
        pair->expected[i] = made_up_numbers("", PAIR_PICTURES * output_size(net, i));
        pair->found[i] = made_up_numbers("", PAIR_PICTURES * output_size(net, i));
    }
    assert_ok(pair->context, naive_back_end.open(net, &pair->use, &pair->naive));
    assert_ok(pair->context, pair->back_end->open(net, &pair->use, &pair->state));
}

void pair_close(struct pair *pair) {
    naive_back_end.close(pair->naive);
    pair->back_end->close(pair->state);
    for (size_t i = 0; i < pair->net->output_count; i++) {
        free(pair->shares[i]);
        free(pair->expected[i]);
        free(pair->found[i]);
    }
    free(pair->pictures);
}

static double size_of(const float *values, size_t count) {
    double square = 0;
    for (size_t i = 0; i < count; i++) {
        square += (double)values[i] * (double)values[i] / (double)count;
    }
    return sqrt(square);
}

/* Whether a small difference of a number can take another path: at 0, or among those of which the largest is taken. */
static bool has_kinks(const struct network *net) {
    for (size_t i = 0; i < net->layer_count; i++) {
        const struct net_layer *layer = &net->layers[i];
        if (layer->kind == LAYER_MAX_POOL || layer->kind == LAYER_TOKEN_MAX || layer->kind == LAYER_SQUEEZE_EXCITE ||
            layer->activation == RELU || layer->activation == LEAKY_RELU) {
            return true;
        }
    }
    return false;
}

/* Numbers of 16 bits are compared as a whole, by the length of their difference. */
static void compare_roughly(const struct pair *pair, const char *what, size_t layer, size_t count, const float *expected,
                            const float *found, double size) {
    const double tolerance = has_kinks(pair->net) ? 0.4 : 0.02;
    double square = 0;
    for (size_t i = 0; i < count; i++) {
        square += pow((double)found[i] - (double)expected[i], 2) / (double)count;
    }
    if (!(sqrt(square) <= tolerance * size + 1e-6)) {
        print_error("%s on %s, layer %zu, %s: differs by %g (size %g)\n", pair->name, pair->back_end->name, layer, what,
                    sqrt(square), size);
        fail();
    }
}

/* The difference may be the tolerance times a number's size and that of its kind. */
static void compare(const struct pair *pair, const char *what, size_t layer, size_t count, const float *expected,
                    const float *found, double size, double tolerance) {
    if (training_numbers != NUMBER_FLOAT32) {
        compare_roughly(pair, what, layer, count, expected, found, size);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (!(fabs((double)found[i] - (double)expected[i]) <= tolerance * (size + fabs((double)expected[i])) + 1e-6)) {
            print_error("%s on %s, layer %zu, %s[%zu] of %zu: %g, expected %g (size %g)\n", pair->name, pair->back_end->name, layer,
                        what, i, count, (double)found[i], (double)expected[i], size);
            fail();
        }
    }
}

/* A bias before a norm has no gradient but what rounding leaves, so the other parameters of its layer tell the size. */
static double size_of_part(const struct pair *pair, size_t layer, enum parameter_kind kind, enum parameter_part part) {
    const struct parameter *parameter = &pair->net->layers[layer].parameters[kind];
    float *expected = made_up_numbers("", parameter->count);
    if (parameter->values) {
        assert_ok(pair->context, naive_back_end.read(pair->naive, layer, kind, part, expected));
    }
    const double size = size_of(expected, parameter->values ? parameter->count : 0);
    free(expected);
    return size;
}

static void compare_part(const struct pair *pair, size_t layer, enum parameter_kind kind, enum parameter_part part,
                         double tolerance) {
    const struct parameter *parameter = &pair->net->layers[layer].parameters[kind];
    float *expected = made_up_numbers("", parameter->count), *found = made_up_numbers("", parameter->count);
    const double size = fmax(size_of_part(pair, layer, kind, part), size_of_part(pair, layer, FACTORS, part));
    assert_ok(pair->context, naive_back_end.read(pair->naive, layer, kind, part, expected));
    assert_ok(pair->context, pair->back_end->read(pair->state, layer, kind, part, found));
    compare(pair, parameter->name, layer, parameter->count, expected, found, size, tolerance);
    free(expected);
    free(found);
}

void compare_outputs(const struct pair *pair, size_t count, double tolerance) {
    for (size_t i = 0; i < pair->net->output_count; i++) {
        const size_t size = count * output_size(pair->net, i);
        compare(pair, pair->net->outputs[i].name, i, size, pair->expected[i], pair->found[i], size_of(pair->expected[i], size),
                tolerance);
    }
}

void check_pass(const struct pair *pair, size_t count, double tolerance) {
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
    assert_near(found / expected, 1, training_numbers == NUMBER_FLOAT32 ? 1e-3 : 0.3);
}
