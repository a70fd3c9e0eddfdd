#include "naive_network.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tensors in memory ---- */

void tensors_add(struct memory_tensors *tensors, const char *prefix, const char *name, size_t rank, size_t a, size_t b, size_t c,
                 size_t d) {
    struct checkpoint_tensor *tensor = &tensors->tensors[tensors->count];
    char *full = tensors->names[tensors->count++];
    snprintf(full, sizeof tensors->names[0], "%s%s", prefix, name);
    *tensor = (struct checkpoint_tensor){.name = full, .type = "F32", .rank = rank, .shape = {a, b, c, d}, .elements = 1};
    for (size_t i = 0; i < rank; i++) {
        tensor->elements *= tensor->shape[i];
    }
}

static const struct checkpoint_tensor *tensor_at(const void *owner, size_t index) {
    return &((const struct memory_tensors *)owner)->tensors[index];
}

struct parameter_source tensors_source(struct memory_tensors *tensors, tensor_reader *read) {
    return (struct parameter_source){.owner = tensors, .count = tensors->count, .at = tensor_at, .read = read};
}

/* ---- Layers: values are planes in double, [channel][row][column] of one picture ---- */

struct naive_layer {
    struct net_layer what; /* without parameters */
    double *parameters[PARAMETER_KINDS];
};

static double at(const double *in, struct shape shape, size_t c, size_t y, size_t x) {
    return y < shape.height && x < shape.width ? in[(c * shape.height + y) * shape.width + x] : 0;
}

static double activated(const struct net_layer *layer, double x) {
    return layer->activation == RELU         ? (x > 0 ? x : 0)
           : layer->activation == LEAKY_RELU ? (x > 0 ? x : (double)layer->slope * x)
           : layer->activation == GELU       ? 0.5 * x * (1 + erf(x / sqrt(2)))
                                             : x;
}

static double convolution(const struct naive_layer *naive, const double *in, size_t c, size_t y, size_t x) {
    const struct net_layer *layer = &naive->what;
    const size_t inputs = layer->from.channels / layer->groups, outputs = layer->to.channels / layer->groups;
    double sum = naive->parameters[BIAS] ? naive->parameters[BIAS][c] : 0;
    for (size_t i = 0; i < inputs; i++) {
        for (size_t dy = 0; dy < layer->kernel; dy++) {
            for (size_t dx = 0; dx < layer->kernel; dx++) {
                sum += naive->parameters[FACTORS][((c * inputs + i) * layer->kernel + dy) * layer->kernel + dx] *
                       at(in, layer->from, c / outputs * inputs + i, y * layer->stride + dy - layer->padding,
                          x * layer->stride + dx - layer->padding);
            }
        }
    }
    return sum;
}

static double linear_map(const struct naive_layer *naive, const double *in, size_t c, size_t row) {
    const struct shape from = naive->what.from;
    double sum = naive->parameters[BIAS][c];
    for (size_t i = 0; i < from.channels; i++) {
        sum += naive->parameters[FACTORS][c * from.channels + i] * at(in, from, i, row, 0);
    }
    return sum;
}

static double pool(const struct net_layer *layer, const double *in, size_t c, size_t y, size_t x) {
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

static double blur(const struct net_layer *layer, const double *in, size_t c, size_t y, size_t x) {
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

static double mean_of(const struct net_layer *layer, const double *in, size_t c, size_t first) {
    const size_t pixels = layer->from.height * layer->from.width;
    double sum = 0;
    for (size_t i = first; i < pixels; i++) {
        sum += in[c * pixels + i];
    }
    return sum / (double)(pixels - first);
}

/* The factor of channel c. */
static double excitement(const struct naive_layer *naive, const double *in, size_t c) {
    const struct net_layer *layer = &naive->what;
    double sum = naive->parameters[SECOND_BIAS][c];
    for (size_t h = 0; h < layer->hidden; h++) {
        double inner = naive->parameters[BIAS][h];
        for (size_t i = 0; i < layer->from.channels; i++) {
            inner += naive->parameters[FACTORS][h * layer->from.channels + i] * mean_of(layer, in, i, 0);
        }
        sum += naive->parameters[SECOND_FACTORS][c * layer->hidden + h] * (inner > 0 ? inner : 0);
    }
    return 1 / (1 + exp(-sum));
}

static double norm(const struct naive_layer *naive, const double *in, size_t c, size_t row) {
    const struct shape from = naive->what.from;
    double mean = 0, variance = 0;
    for (size_t i = 0; i < from.channels; i++) {
        mean += at(in, from, i, row, 0) / (double)from.channels;
    }
    for (size_t i = 0; i < from.channels; i++) {
        variance += pow(at(in, from, i, row, 0) - mean, 2) / (double)from.channels;
    }
    return (at(in, from, c, row, 0) - mean) / sqrt(variance + 1e-6) * naive->parameters[FACTORS][c] + naive->parameters[BIAS][c];
}

static double attend(const struct net_layer *layer, const double *in, size_t c, size_t row) {
    const size_t width = layer->to.channels, per_head = width / layer->heads, start = c / per_head * per_head;
    double total = 0, sum = 0;
    for (size_t key = 0; key < layer->from.height; key++) {
        double score = 0;
        for (size_t i = start; i < start + per_head; i++) {
            score += at(in, layer->from, i, row, 0) * at(in, layer->from, width + i, key, 0);
        }
        const double share = exp(score / sqrt((double)per_head));
        total += share;
        sum += share * at(in, layer->from, 2 * width + c, key, 0);
    }
    return sum / total;
}

/* Row `token` of patches: the pixels of one square, channel by channel. */
static double patch(const struct net_layer *layer, const double *in, size_t c, size_t token) {
    const size_t side = layer->kernel, across = layer->from.width / side;
    return at(in, layer->from, c / (side * side), token / across * side + c / side % side, token % across * side + c % side);
}

static double tokens(const struct naive_layer *naive, const double *in, size_t c, size_t row) {
    const double position = naive->parameters[BIAS][row * naive->what.to.channels + c];
    return position + (row ? at(in, naive->what.from, c, row - 1, 0) : naive->parameters[FACTORS][c]);
}

static double one_number(const struct naive_layer *naive, const double *in, const double *added, size_t c, size_t y, size_t x) {
    const struct net_layer *layer = &naive->what;
    switch (layer->kind) {
    case LAYER_CONVOLUTION: return activated(layer, convolution(naive, in, c, y, x) + (added ? at(added, layer->to, c, y, x) : 0));
    case LAYER_LINEAR: return activated(layer, linear_map(naive, in, c, y) + (added ? at(added, layer->to, c, y, x) : 0));
    case LAYER_MAX_POOL:
    case LAYER_AVERAGE_POOL: return pool(layer, in, c, y, x);
    case LAYER_BLUR: return blur(layer, in, c, y, x);
    case LAYER_GLOBAL_MEAN: return mean_of(layer, in, c, 0);
    case LAYER_SPACE_TO_DEPTH: return at(in, layer->from, c % 3, y * 4 + c / 12, x * 4 + c / 3 % 4);
    case LAYER_PATCHES: return patch(layer, in, c, y);
    case LAYER_TOKENS: return tokens(naive, in, c, y);
    case LAYER_NORM: return norm(naive, in, c, y);
    case LAYER_ATTENTION: return attend(layer, in, c, y);
    case LAYER_FIRST_TOKEN: return at(in, layer->from, c, 0, 0);
    case LAYER_TOKEN_MEAN: return mean_of(layer, in, c, 1);
    default: return c < layer->from.channels ? in[c] : added[c - layer->from.channels]; /* LAYER_JOIN */
    }
}

static void run_layer(const struct naive_layer *naive, const double *in, const double *added, double *out) {
    const struct net_layer *layer = &naive->what;
    const size_t width = layer->to.width, pixels = layer->to.height * width;
    for (size_t c = 0; c < layer->to.channels; c++) {
        const double scale = layer->kind == LAYER_SQUEEZE_EXCITE ? excitement(naive, in, c) : 0;
        for (size_t i = c * pixels; i < (c + 1) * pixels; i++) {
            if (layer->kind == LAYER_SQUEEZE_EXCITE) {
                out[i] = added ? fmax(in[i] * scale + added[i], 0) : in[i] * scale;
            } else {
                out[i] = one_number(naive, in, added, c, i % pixels / width, i % width);
            }
        }
    }
}

/* ---- The back end ---- */

struct naive_network {
    l3a_context *context;
    struct naive_layer *layers;
    size_t layer_count, value_count, picture_size, output_size;
    value output;
};

static void close(void *state) {
    struct naive_network *net = state;
    for (size_t i = 0; net && net->layers && i < net->layer_count; i++) {
        for (size_t kind = 0; kind < PARAMETER_KINDS; kind++) {
            release(net->context, net->layers[i].parameters[kind]);
        }
    }
    if (net) {
        release(net->context, net->layers);
        release(net->context, net);
    }
}

static size_t shape_size(struct shape shape) {
    return shape.channels * shape.height * shape.width;
}

static l3a_status widen(l3a_context *context, const float *values, size_t count, double **copy) {
    l3a_status status = L3A_OK;
    TRY(allocate(context, count, sizeof **copy, copy));
    for (size_t i = 0; i < count; i++) {
        (*copy)[i] = (double)values[i];
    }
done:
    return status;
}

static l3a_status open(const struct network *network, void **state) {
    l3a_context *context = network->context;
    struct naive_network *net = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof *net, &net));
    *net = (struct naive_network){.context = context,
                                  .layer_count = network->layer_count,
                                  .value_count = network->value_count,
                                  .picture_size = shape_size(network->shapes[PICTURE]),
                                  .output_size = shape_size(network->shapes[network->output]),
                                  .output = network->output};
    TRY(allocate_zeroed(context, net->layer_count, sizeof *net->layers, &net->layers));
    for (size_t i = 0; i < net->layer_count; i++) {
        struct net_layer *what = &net->layers[i].what;
        *what = network->layers[i];
        for (size_t kind = 0; kind < PARAMETER_KINDS; kind++) {
            if (what->parameters[kind]) {
                TRY(widen(context, what->parameters[kind], what->sizes[kind], &net->layers[i].parameters[kind]));
                what->parameters[kind] = NULL;
            }
        }
    }
    *state = net;
    net = NULL;
done:
    close(net);
    return status;
}

/* values [value_count]: planes of each value, made as the layers are run. */
static l3a_status run_picture(const struct naive_network *net, const float *picture, double **values, float *output) {
    l3a_status status = L3A_OK;
    TRY(widen(net->context, picture, net->picture_size, &values[PICTURE]));
    for (size_t i = 0; i < net->layer_count; i++) {
        const struct net_layer *what = &net->layers[i].what;
        TRY(allocate(net->context, shape_size(what->to), sizeof(double), &values[what->output]));
        run_layer(&net->layers[i], values[what->input], values[what->add], values[what->output]);
    }
    for (size_t i = 0; i < net->output_size; i++) {
        output[i] = (float)values[net->output][i];
    }
done:
    for (size_t i = 0; i < net->value_count; i++) {
        release(net->context, values[i]);
        values[i] = NULL;
    }
    return status;
}

static l3a_status run(void *state, const float *pictures, size_t count, float *output) {
    const struct naive_network *net = state;
    double **values = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(net->context, net->value_count, sizeof *values, &values));
    for (size_t i = 0; i < count; i++) {
        TRY(run_picture(net, pictures + i * net->picture_size, values, output + i * net->output_size));
    }
done:
    release(net->context, values);
    return status;
}

static bool available(void) {
    return true;
}

const struct network_back_end naive_back_end = {.name = "naive", .available = available, .open = open, .run = run, .close = close};
