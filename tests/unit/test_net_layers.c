/* Every kind of layer, on every back end, against the naive one (naive_network.h). One table of cases serves all of them; values go
 * in and come out as planes, so that no back end's layout shows. Given arguments, the program instead writes what every layer of a
 * checkpoint's network makes of an input: `test_net_layers CHECKPOINT INPUT OUTPUT`, which tests/oracle/test_backbones.py compares
 * with PyTorch. */
#include "support.h"

#include "base/random.h"
#include "naive_network.h"
#include "net/backbone.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 10 }; /* more pictures than a back end computes at a time */

static float number(const char *name, size_t index) {
    uint64_t seed = 5;
    for (const char *c = name; *c; c++) {
        seed = seed * 31 + (uint64_t)*c;
    }
    return (float)(2 * random_uniform(seed, index) - 1);
}

static l3a_status read_numbers(void *owner, const struct checkpoint_tensor *tensor, float *values) {
    (void)owner;
    for (size_t i = 0; i < tensor->elements; i++) {
        values[i] = number(tensor->name, i) * (tensor->rank > 1 ? 0.3F : 1.0F) + (strstr(tensor->name, "var") ? 1.5F : 0.0F);
    }
    return L3A_OK;
}

struct test_case {
    const char *name;
    enum net_layer_kind kind;
    size_t channels, side, out, kernel, stride, groups, heads;
    enum activation activation;
    bool add; /* the layer adds a second copy of its input */
};

/* The picture has three channels; `channels` of them come from a 1 x 1 convolution first, so that a layer meets the back
 * end's layout. */
static const struct test_case cases[] = {
    {"3 x 3", LAYER_CONVOLUTION, 16, 9, 32, 3, 1, 1, 0, RELU, false},
    {"3 x 3, stride 2", LAYER_CONVOLUTION, 16, 9, 16, 3, 2, 1, 0, LEAKY_RELU, false},
    {"3 x 3 and a sum", LAYER_CONVOLUTION, 32, 8, 32, 3, 1, 1, 0, RELU, true},
    {"1 x 1", LAYER_CONVOLUTION, 64, 7, 48, 1, 1, 1, 0, LINEAR_ACTIVATION, false},
    {"1 x 1, stride 2", LAYER_CONVOLUTION, 32, 10, 64, 1, 2, 1, 0, RELU, false},
    {"7 x 7, stride 2", LAYER_CONVOLUTION, 3, 21, 16, 7, 2, 1, 0, RELU, false},
    {"odd channels", LAYER_CONVOLUTION, 19, 6, 21, 3, 1, 1, 0, LEAKY_RELU, false},
    {"odd channels and a sum", LAYER_CONVOLUTION, 19, 6, 19, 3, 1, 1, 0, RELU, true},
    {"groups", LAYER_CONVOLUTION, 32, 8, 64, 3, 1, 4, 0, RELU, false},
    {"a group a channel", LAYER_CONVOLUTION, 32, 8, 32, 3, 2, 32, 0, LINEAR_ACTIVATION, false},
    {"max pool", LAYER_MAX_POOL, 16, 8, 0, 3, 2, 1, 0, LINEAR_ACTIVATION, false},
    {"max pool, odd", LAYER_MAX_POOL, 19, 9, 0, 3, 2, 1, 0, LINEAR_ACTIVATION, false},
    {"average pool", LAYER_AVERAGE_POOL, 16, 8, 0, 2, 2, 1, 0, LINEAR_ACTIVATION, false},
    {"average pool, odd", LAYER_AVERAGE_POOL, 19, 7, 0, 2, 2, 1, 0, LINEAR_ACTIVATION, false},
    {"blur", LAYER_BLUR, 16, 8, 0, 3, 2, 1, 0, LINEAR_ACTIVATION, false},
    {"blur, odd", LAYER_BLUR, 19, 7, 0, 3, 2, 1, 0, LINEAR_ACTIVATION, false},
    {"squeeze and excite", LAYER_SQUEEZE_EXCITE, 32, 6, 0, 0, 0, 1, 0, LINEAR_ACTIVATION, false},
    {"squeeze and excite and a sum", LAYER_SQUEEZE_EXCITE, 19, 6, 0, 0, 0, 1, 0, LINEAR_ACTIVATION, true},
    {"global mean", LAYER_GLOBAL_MEAN, 19, 6, 0, 0, 0, 1, 0, LINEAR_ACTIVATION, false},
    {"space to depth", LAYER_SPACE_TO_DEPTH, 3, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false},
    {"linear", LAYER_LINEAR, 0, 12, 40, 4, 0, 1, 0, LINEAR_ACTIVATION, false},
    {"linear, gelu", LAYER_LINEAR, 0, 12, 40, 4, 0, 1, 0, GELU, false},
    {"linear and a sum", LAYER_LINEAR, 0, 12, 48, 4, 0, 1, 0, LINEAR_ACTIVATION, true},
    {"tokens", LAYER_TOKENS, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false},
    {"layer norm", LAYER_NORM, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false},
    {"attention", LAYER_ATTENTION, 0, 20, 0, 4, 0, 1, 2, LINEAR_ACTIVATION, false},
    {"attention, many tokens", LAYER_ATTENTION, 0, 60, 0, 4, 0, 1, 2, LINEAR_ACTIVATION, false},
    {"first token", LAYER_FIRST_TOKEN, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false},
    {"token mean", LAYER_TOKEN_MEAN, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false},
};

static void fill_tensors(const struct test_case *test, struct memory_tensors *tensors) {
    const size_t patch = 48, squares = (test->side / 4) * (test->side / 4);
    tensors->count = 0;
    tensors_add(tensors, "", "first.weight", 4, test->channels ? test->channels : patch, 3, test->channels ? 1 : 4,
                test->channels ? 1 : 4);
    tensors_add(tensors, "", "first.bias", 1, test->channels ? test->channels : patch, 0, 0, 0);
    if (test->kind == LAYER_CONVOLUTION) {
        tensors_add(tensors, "", "layer.weight", 4, test->out, test->channels / test->groups, test->kernel, test->kernel);
        tensors_add(tensors, "", "layer.bias", 1, test->out, 0, 0, 0);
    } else if (test->kind == LAYER_LINEAR) {
        tensors_add(tensors, "", "layer.weight", 2, test->out, patch, 0, 0);
        tensors_add(tensors, "", "layer.bias", 1, test->out, 0, 0, 0);
    } else if (test->kind == LAYER_SQUEEZE_EXCITE) {
        tensors_add(tensors, "", "layer.weight", 4, 10, test->channels, 1, 1);
        tensors_add(tensors, "", "layer.bias", 1, 10, 0, 0, 0);
        tensors_add(tensors, "", "second.weight", 4, test->channels, 10, 1, 1);
        tensors_add(tensors, "", "second.bias", 1, test->channels, 0, 0, 0);
    } else if (test->kind == LAYER_TOKENS) {
        tensors_add(tensors, "", "layer.token", 3, 1, 1, patch, 0);
        tensors_add(tensors, "", "layer.position", 3, 1, squares + 1, patch, 0);
    } else if (test->kind == LAYER_NORM) {
        tensors_add(tensors, "", "layer.weight", 1, patch, 0, 0, 0);
        tensors_add(tensors, "", "layer.bias", 1, patch, 0, 0, 0);
    }
}

static value first_layer(struct network *net, const struct test_case *test) {
    const struct conv first = {.name = "first", .out = test->channels, .kernel = 1, .stride = 1, .biased = true};
    return test->channels ? conv(net, PICTURE, &first) : patch_embedding(net, PICTURE, "first", 4, 48);
}

static value describe_layer(struct network *net, const struct test_case *test, value x, value before) {
    switch (test->kind) {
    case LAYER_CONVOLUTION:
        return conv(net, x,
                    &(struct conv){.name = "layer",
                                   .out = test->out,
                                   .kernel = test->kernel,
                                   .stride = test->stride,
                                   .groups = test->groups,
                                   .activation = test->activation,
                                   .slope = 0.1F,
                                   .add = before,
                                   .biased = true});
    case LAYER_LINEAR:
        return linear(net, x, &(struct linear){.name = "layer", .out = test->out, .activation = test->activation, .add = before});
    case LAYER_MAX_POOL: return max_pool(net, x);
    case LAYER_AVERAGE_POOL: return average_pool(net, x);
    case LAYER_BLUR: return blur_pool(net, x);
    case LAYER_SQUEEZE_EXCITE: return squeeze_excite(net, x, "layer", "second", 10, before);
    case LAYER_GLOBAL_MEAN: return global_mean(net, x);
    case LAYER_SPACE_TO_DEPTH: return space_to_depth(net, PICTURE, 4);
    case LAYER_TOKENS: return add_tokens(net, x, "layer.token", "layer.position");
    case LAYER_NORM: return layer_norm(net, x, "layer", 1e-6F);
    case LAYER_ATTENTION: return attention(net, x, test->heads, false);
    case LAYER_FIRST_TOKEN: return first_token(net, x);
    default: return token_mean(net, x);
    }
}

/* ---- One case on one back end ---- */

static float *output_of(l3a_context *context, const struct network_back_end *back_end, const struct network *net, size_t count,
                        const float *pictures) {
    const struct shape to = net->shapes[net->output];
    float *output = malloc(count * to.channels * to.height * to.width * sizeof *output);
    void *state = NULL;
    assert_non_null(output);
    assert_ok(context, back_end->open(net, &state));
    assert_ok(context, back_end->run(state, pictures, count, output));
    back_end->close(state);
    return output;
}

static void compare(const struct test_case *test, const char *back_end, const struct net_layer *layer, const float *naive,
                    const float *found) {
    const size_t size = layer->to.channels * layer->to.height * layer->to.width;
    for (size_t i = 0; i < COUNT * size; i++) {
        const double expected = (double)naive[i];
        if (!(fabs((double)found[i] - expected) <= 2e-5 * (1 + fabs(expected)))) {
            print_error("%s on %s, picture %zu, number %zu: %g, expected %g\n", test->name, back_end, i / size, i % size,
                        (double)found[i], expected);
            fail();
        }
    }
}

/* What the description has set in the layer, since the naive one uses that too. */
static void check_layer(const struct test_case *test, const struct net_layer *layer) {
    assert_int_equal(layer->kind, test->kind);
    assert_int_equal(layer->add != NOTHING, test->add);
    if (test->out) {
        assert_int_equal(layer->activation, test->activation);
        assert_int_equal(layer->to.channels, test->out);
    }
    if (test->kind == LAYER_CONVOLUTION) {
        assert_true(layer->slope == 0.1F && layer->groups == test->groups);
        assert_int_equal(layer->padding, test->kernel / 2);
    }
}

static void run_case(l3a_context *context, const struct test_case *test) {
    static struct memory_tensors tensors;
    const size_t picture_size = 3 * test->side * test->side;
    struct parameters parameters;
    struct network net;
    float *pictures = malloc(COUNT * picture_size * sizeof *pictures);
    for (size_t i = 0; i < COUNT * picture_size; i++) {
        pictures[i] = number("picture", i);
    }
    fill_tensors(test, &tensors);
    const struct parameter_source source = tensors_source(&tensors, read_numbers);
    assert_ok(context, parameters_open(context, &source, &parameters));
    network_start(context, &parameters, test->side, &net);
    const value x = first_layer(&net, test), same = test->add ? first_layer(&net, test) : NOTHING;
    assert_ok(context, network_finish(&net, describe_layer(&net, test, x, same)));
    const struct net_layer *last = &net.layers[net.layer_count - 1];
    check_layer(test, last);
    float *naive = output_of(context, &naive_back_end, &net, COUNT, pictures);
    const struct network_back_end *back_end;
    for (size_t i = 0; (back_end = network_back_end_at(i)); i++) {
        if (back_end->available()) {
            float *found = output_of(context, back_end, &net, COUNT, pictures);
            compare(test, back_end->name, last, naive, found);
            free(found);
        }
    }
    network_free(&net);
    parameters_close(&parameters);
    free(naive);
    free(pictures);
}

static void layers_equal_the_naive_ones_on_every_back_end(void **unused) {
    (void)unused;
    for (int threads = 1; threads <= 2; threads++) {
        l3a_context *context = make_context(threads);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            run_case(context, &cases[i]);
        }
        l3a_context_free(context);
    }
}

/* ---- What every layer of a network makes: the output of the network that ends with it ---- */

static int dump(const char *path, const char *input, const char *output) {
    l3a_context *context = make_context(0);
    struct checkpoint *checkpoint = NULL;
    struct parameter_source source;
    struct backbone_recipe recipe;
    const struct family *family = NULL;
    struct network net;
    l3a_backbone_options options = {.size = sizeof options};
    size_t size = 0;
    float *pictures = (float *)(void *)read_bytes(input, &size);
    FILE *file = fopen(output, "wb");
    assert_non_null(file);
    assert_ok(context, checkpoint_open(context, path, &checkpoint));
    parameter_source_checkpoint(checkpoint, &source);
    assert_ok(context, backbone_read(context, &source, &options, &family, &recipe, &net));
    for (size_t i = 0; i < net.layer_count; i++) {
        struct network part = net;
        part.layer_count = i + 1;
        part.output = net.layers[i].output;
        const struct shape to = net.layers[i].to;
        const uint32_t header[] = {(uint32_t)net.layers[i].kind, (uint32_t)to.channels, (uint32_t)to.height, (uint32_t)to.width};
        const size_t count = to.channels * to.height * to.width;
        float *planes = output_of(context, network_back_end_best(), &part, 1, pictures);
        assert_int_equal(fwrite(header, sizeof header, 1, file) + fwrite(planes, sizeof *planes, count, file), count + 1);
        free(planes);
    }
    assert_int_equal(fclose(file), 0);
    free(pictures);
    network_free(&net);
    checkpoint_free(checkpoint);
    l3a_context_free(context);
    return 0;
}

int main(int count, char **arguments) {
    if (count == 4) {
        return dump(arguments[1], arguments[2], arguments[3]);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_equal_the_naive_ones_on_every_back_end)};
    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
