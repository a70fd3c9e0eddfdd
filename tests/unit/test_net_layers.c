/* Every kind of layer, on every engine, against a naive version written here. One table of cases serves all engines; values go in
 * and come out as planes, so that no engine's layout shows. Given arguments, the program instead writes what every layer of a
 * checkpoint's network makes of an input: `test_net_layers CHECKPOINT INPUT OUTPUT`, which tests/oracle/test_backbones.py compares
 * with PyTorch. */
#include "support.h"

#include "base/random.h"
#include "net/backbone.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 3, TENSORS = 8 };

static const struct engine *const engines[] = {
    &blas_engine,
#ifdef L3A_HAVE_ONEDNN
    &onednn_engine,
#endif
};

/* Tensors in memory: name, shape, and numbers from the random rule. */
struct memory_weights {
    struct checkpoint_tensor tensors[TENSORS];
    size_t count;
};

static const struct checkpoint_tensor *memory_at(const void *owner, size_t index) {
    return &((const struct memory_weights *)owner)->tensors[index];
}

static float number(const char *name, size_t index) {
    uint64_t seed = 5;
    for (const char *c = name; *c; c++) {
        seed = seed * 31 + (uint64_t)*c;
    }
    return (float)(2 * random_uniform(seed, index) - 1);
}

static l3a_status memory_read(void *owner, const struct checkpoint_tensor *tensor, float *values) {
    (void)owner;
    for (size_t i = 0; i < tensor->elements; i++) {
        values[i] = number(tensor->name, i) * (tensor->rank > 1 ? 0.3F : 1.0F) + (strstr(tensor->name, "var") ? 1.5F : 0.0F);
    }
    return L3A_OK;
}

static void add_tensor(struct memory_weights *weights, const char *name, size_t rank, size_t a, size_t b, size_t c, size_t d) {
    struct checkpoint_tensor *tensor = &weights->tensors[weights->count++];
    *tensor = (struct checkpoint_tensor){.name = name, .type = "F32", .rank = rank, .shape = {a, b, c, d}, .elements = 1};
    for (size_t i = 0; i < rank; i++) {
        tensor->elements *= tensor->shape[i];
    }
}

struct test_case {
    const char *name;
    enum layer_kind kind;
    size_t channels, side, out, kernel, stride, groups, heads;
    enum activation activation;
    bool add; /* the layer adds a second copy of its input */
};

/* The picture has three channels; `channels` of them come from a 1 x 1 convolution first, so that a layer meets the engine's
 * layout. */
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

static void fill_weights(const struct test_case *test, struct memory_weights *weights) {
    const size_t patch = 48, tokens = (test->side / 4) * (test->side / 4);
    *weights = (struct memory_weights){0};
    add_tensor(weights, "first.weight", 4, test->channels ? test->channels : patch, 3, test->channels ? 1 : 4,
               test->channels ? 1 : 4);
    add_tensor(weights, "first.bias", 1, test->channels ? test->channels : patch, 0, 0, 0);
    if (test->kind == LAYER_CONVOLUTION) {
        add_tensor(weights, "layer.weight", 4, test->out, test->channels / test->groups, test->kernel, test->kernel);
        add_tensor(weights, "layer.bias", 1, test->out, 0, 0, 0);
    } else if (test->kind == LAYER_LINEAR) {
        add_tensor(weights, "layer.weight", 2, test->out, patch, 0, 0);
        add_tensor(weights, "layer.bias", 1, test->out, 0, 0, 0);
    } else if (test->kind == LAYER_SQUEEZE_EXCITE) {
        add_tensor(weights, "layer.weight", 4, 10, test->channels, 1, 1);
        add_tensor(weights, "layer.bias", 1, 10, 0, 0, 0);
        add_tensor(weights, "second.weight", 4, test->channels, 10, 1, 1);
        add_tensor(weights, "second.bias", 1, test->channels, 0, 0, 0);
    } else if (test->kind == LAYER_TOKENS) {
        add_tensor(weights, "layer.token", 3, 1, 1, patch, 0);
        add_tensor(weights, "layer.position", 3, 1, tokens + 1, patch, 0);
    } else if (test->kind == LAYER_NORM) {
        add_tensor(weights, "layer.weight", 1, patch, 0, 0, 0);
        add_tensor(weights, "layer.bias", 1, patch, 0, 0, 0);
    }
}

static value first_layer(struct network *net, const struct test_case *test) {
    const struct conv first = {.weight = "first", .out = test->channels, .kernel = 1, .stride = 1, .biased = true};
    return test->channels ? conv(net, PICTURE, &first) : patch_embedding(net, PICTURE, "first", 4, 48);
}

static value describe_layer(struct network *net, const struct test_case *test, value x, value before) {
    switch (test->kind) {
    case LAYER_CONVOLUTION:
        return conv(net, x,
                    &(struct conv){.weight = "layer",
                                   .out = test->out,
                                   .kernel = test->kernel,
                                   .stride = test->stride,
                                   .groups = test->groups,
                                   .activation = test->activation,
                                   .slope = 0.1F,
                                   .add = before,
                                   .biased = true});
    case LAYER_LINEAR:
        return linear(net, x, &(struct linear){.weight = "layer", .out = test->out, .activation = test->activation, .add = before});
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

/* ---- The naive versions: planes in double, [channel][row][column] of one picture
 * -------------------------------------------------- */

static double at(const double *in, struct shape shape, size_t c, size_t y, size_t x) {
    return y < shape.height && x < shape.width ? in[(c * shape.height + y) * shape.width + x] : 0;
}

static double activated(enum activation activation, double x) {
    return activation == RELU         ? (x > 0 ? x : 0)
           : activation == LEAKY_RELU ? (x > 0 ? x : (double)0.1F * x)
           : activation == GELU       ? 0.5 * x * (1 + erf(x / sqrt(2)))
                                      : x;
}

static double naive_convolution(const struct layer *layer, const double *in, size_t c, size_t y, size_t x) {
    const size_t inputs = layer->from.channels / layer->groups, outputs = layer->to.channels / layer->groups;
    double sum = (double)layer->bias[c];
    for (size_t i = 0; i < inputs; i++) {
        for (size_t dy = 0; dy < layer->kernel; dy++) {
            for (size_t dx = 0; dx < layer->kernel; dx++) {
                sum += (double)layer->weight[((c * inputs + i) * layer->kernel + dy) * layer->kernel + dx] *
                       at(in, layer->from, c / outputs * inputs + i, y * layer->stride + dy - layer->padding,
                          x * layer->stride + dx - layer->padding);
            }
        }
    }
    return sum;
}

static double naive_pool(const struct layer *layer, const double *in, size_t c, size_t y, size_t x) {
    double sum = 0, most = -INFINITY, count = 0;
    for (size_t dy = 0; dy < layer->kernel; dy++) {
        for (size_t dx = 0; dx < layer->kernel; dx++) {
            const size_t row = y * 2 + dy - layer->padding, column = x * 2 + dx - layer->padding;
            if (row < layer->from.height && column < layer->from.width) {
                sum += at(in, layer->from, c, row, column);
                most = fmax(most, at(in, layer->from, c, row, column));
                count++;
            }
        }
    }
    return layer->kind == LAYER_MAX_POOL ? most : sum / count;
}

static double naive_blur(const struct layer *layer, const double *in, size_t c, size_t y, size_t x) {
    const double taps[] = {0.25, 0.5, 0.25};
    double sum = 0;
    for (long dy = -1; dy <= 1; dy++) {
        for (long dx = -1; dx <= 1; dx++) {
            long row = labs((long)y * 2 + dy), column = labs((long)x * 2 + dx);
            row = row < (long)layer->from.height ? row : 2 * (long)layer->from.height - 2 - row;
            column = column < (long)layer->from.width ? column : 2 * (long)layer->from.width - 2 - column;
            sum += taps[dy + 1] * taps[dx + 1] * at(in, layer->from, c, (size_t)row, (size_t)column);
        }
    }
    return sum;
}

static double naive_mean(const struct layer *layer, const double *in, size_t c, size_t from) {
    const size_t pixels = layer->from.height * layer->from.width;
    double sum = 0;
    for (size_t i = from; i < pixels; i++) {
        sum += in[c * pixels + i];
    }
    return sum / (double)(pixels - from);
}

static double naive_excite(const struct layer *layer, const double *in, size_t c, size_t y, size_t x) {
    double sum = (double)layer->second_bias[c];
    for (size_t h = 0; h < layer->hidden; h++) {
        double inner = (double)layer->bias[h];
        for (size_t i = 0; i < layer->from.channels; i++) {
            inner += (double)layer->weight[h * layer->from.channels + i] * naive_mean(layer, in, i, 0);
        }
        sum += (double)layer->second_weight[c * layer->hidden + h] * (inner > 0 ? inner : 0);
    }
    const double pixel = at(in, layer->from, c, y, x), scaled = pixel / (1 + exp(-sum));
    return layer->add ? fmax(scaled + pixel, 0) : scaled;
}

static double naive_norm(const struct layer *layer, const double *in, size_t c, size_t row) {
    const size_t width = layer->from.channels;
    double mean = 0, variance = 0;
    for (size_t i = 0; i < width; i++) {
        mean += at(in, layer->from, i, row, 0) / (double)width;
    }
    for (size_t i = 0; i < width; i++) {
        variance += pow(at(in, layer->from, i, row, 0) - mean, 2) / (double)width;
    }
    return (at(in, layer->from, c, row, 0) - mean) / sqrt(variance + 1e-6) * (double)layer->weight[c] + (double)layer->bias[c];
}

static double naive_attention(const struct layer *layer, const double *in, size_t c, size_t row) {
    const size_t width = layer->to.channels, per_head = width / layer->heads, start = c / per_head * per_head;
    double total = 0, sum = 0;
    for (size_t key = 0; key < layer->from.height; key++) {
        double score = 0;
        for (size_t i = start; i < start + per_head; i++) {
            score += at(in, layer->from, i, row, 0) * at(in, layer->from, width + i, key, 0);
        }
        const double weight = exp(score / sqrt((double)per_head));
        total += weight;
        sum += weight * at(in, layer->from, 2 * width + c, key, 0);
    }
    return sum / total;
}

static double naive_linear(const struct layer *layer, const double *in, size_t c, size_t row) {
    double sum = (double)layer->bias[c];
    for (size_t i = 0; i < layer->from.channels; i++) {
        sum += (double)layer->weight[c * layer->from.channels + i] * at(in, layer->from, i, row, 0);
    }
    return sum;
}

static double naive(const struct layer *layer, const double *in, size_t c, size_t y, size_t x) {
    const double added = layer->add ? at(in, layer->from, c, y, x) : 0;
    switch (layer->kind) {
    case LAYER_CONVOLUTION: return activated(layer->activation, naive_convolution(layer, in, c, y, x) + added);
    case LAYER_LINEAR: return activated(layer->activation, naive_linear(layer, in, c, y) + added);
    case LAYER_MAX_POOL:
    case LAYER_AVERAGE_POOL: return naive_pool(layer, in, c, y, x);
    case LAYER_BLUR: return naive_blur(layer, in, c, y, x);
    case LAYER_SQUEEZE_EXCITE: return naive_excite(layer, in, c, y, x);
    case LAYER_GLOBAL_MEAN: return naive_mean(layer, in, c, 0);
    case LAYER_SPACE_TO_DEPTH: return at(in, layer->from, c % 3, y * 4 + c / 12, x * 4 + c / 3 % 4);
    case LAYER_TOKENS:
        return (double)layer->bias[y * layer->to.channels + c] + (y ? at(in, layer->from, c, y - 1, 0) : (double)layer->weight[c]);
    case LAYER_NORM: return naive_norm(layer, in, c, y);
    case LAYER_ATTENTION: return naive_attention(layer, in, c, y);
    case LAYER_FIRST_TOKEN: return at(in, layer->from, c, 0, 0);
    default: return naive_mean(layer, in, c, 1);
    }
}

/* ---- One case on one engine ----------------------------------------------------------------------------------------------------
 */

static double *widened(const float *values, size_t count) {
    double *copy = malloc(count * sizeof *copy);
    assert_non_null(copy);
    for (size_t i = 0; i < count; i++) {
        copy[i] = (double)values[i];
    }
    return copy;
}

static void compare(const struct test_case *test, const char *engine, const struct layer *layer, const float *before,
                    const float *after) {
    const size_t in_size = layer->from.channels * layer->from.height * layer->from.width;
    const size_t pixels = layer->to.height * layer->to.width, out_size = layer->to.channels * pixels;
    for (size_t picture = 0; picture < BATCH; picture++) {
        double *in = widened(before + picture * in_size, in_size);
        for (size_t i = 0; i < out_size; i++) {
            const double expected = naive(layer, in, i / pixels, i % pixels / layer->to.width, i % layer->to.width);
            const double found = (double)after[picture * out_size + i];
            if (!(fabs(found - expected) <= 2e-5 * (1 + fabs(expected)))) {
                print_error("%s on %s, picture %zu, number %zu: %g, expected %g\n", test->name, engine, picture, i, found,
                            expected);
                fail();
            }
        }
        free(in);
    }
}

static void run_case(l3a_context *context, const struct test_case *test, const struct engine *engine) {
    const size_t picture_size = 3 * test->side * test->side, room = BATCH * 200 * (test->side + 1) * (test->side + 1);
    struct memory_weights tensors;
    struct weights weights;
    struct network net;
    struct program program;
    void *state = NULL;
    float *pictures = malloc(BATCH * picture_size * sizeof *pictures), *before = malloc(room * sizeof *before),
          *after = malloc(room * sizeof *after);
    fill_weights(test, &tensors);
    assert_ok(context, weights_open(context, &(struct weight_source){&tensors, tensors.count, memory_at, memory_read}, &weights));
    network_start(context, &weights, test->side, &net);
    const value x = first_layer(&net, test), same = test->add ? first_layer(&net, test) : NOTHING;
    assert_ok(context, network_finish(&net, describe_layer(&net, test, x, same)));
    assert_ok(context, engine->open(context, &state));
    assert_ok(context, program_open(&net, engine, state, BATCH, NULL, &program));
    float *arena = aligned_alloc(64, (program.arena * sizeof *arena + 127) / 64 * 64);
    for (size_t i = 0; i < BATCH * picture_size; i++) {
        pictures[i] = number("picture", i);
    }
    const size_t last = net.layer_count - 1;
    if (net.layers[last].input == PICTURE) {
        memcpy(before, pictures, BATCH * picture_size * sizeof *before);
    } else {
        assert_ok(context, program_run_until(&program, pictures, arena, last - 1, before));
    }
    assert_ok(context, program_run_until(&program, pictures, arena, last, after));
    compare(test, engine->name, &net.layers[last], before, after);
    program_close(&program);
    engine->close(state);
    network_free(&net);
    weights_close(&weights);
    free(arena);
    free(pictures);
    free(before);
    free(after);
}

static void layers_equal_the_naive_ones_on_every_engine(void **unused) {
    (void)unused;
    for (int threads = 1; threads <= 2; threads++) {
        l3a_context *context = make_context(threads);
        for (size_t e = 0; e < sizeof engines / sizeof *engines; e++) {
            for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                run_case(context, &cases[i], engines[e]);
            }
        }
        l3a_context_free(context);
    }
}

/* ---- What every layer of a network makes
 * ------------------------------------------------------------------------------------------- */

static int dump(const char *checkpoint, const char *input, const char *output) {
    l3a_context *context = make_context(0);
    l3a_backbone *backbone = NULL;
    size_t size = 0;
    float *pictures = (float *)(void *)read_bytes(input, &size);
    FILE *file = fopen(output, "wb");
    assert_non_null(file);
    assert_ok(context, l3a_backbone_open(context, checkpoint, NULL, &backbone));
    for (size_t i = 0; i < backbone->network.layer_count; i++) {
        const struct shape to = backbone->network.layers[i].to;
        const uint32_t header[] = {(uint32_t)backbone->network.layers[i].kind, (uint32_t)to.channels, (uint32_t)to.height,
                                   (uint32_t)to.width};
        const size_t count = to.channels * to.height * to.width;
        float *planes = malloc(count * sizeof *planes);
        assert_ok(context, program_run_until(&backbone->one, pictures, backbone->arena, i, planes));
        assert_int_equal(fwrite(header, sizeof header, 1, file) + fwrite(planes, sizeof *planes, count, file), count + 1);
        free(planes);
    }
    assert_int_equal(fclose(file), 0);
    free(pictures);
    l3a_backbone_free(backbone);
    l3a_context_free(context);
    return 0;
}

int main(int count, char **arguments) {
    if (count == 4) {
        return dump(arguments[1], arguments[2], arguments[3]);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_equal_the_naive_ones_on_every_engine)};
    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
