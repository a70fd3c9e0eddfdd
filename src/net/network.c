/* Builds the list of layers from a description: each call checks its input, takes its tensors, folds a batch norm if there is one,
 * and adds a layer and the value it makes. */
#include "net/network.h"
#include "base/memory.h"

#include <stdio.h>

enum { NAME_LENGTH = 256 };

void network_start(l3a_context *context, struct parameters *parameters, size_t side, struct network *net) {
    *net = (struct network){.context = context, .parameters = parameters};
    net->value_capacity = 64;
    net->status = allocate(context, net->value_capacity, sizeof *net->shapes, &net->shapes);
    if (net->status == L3A_OK) {
        net->shapes[NOTHING] = (struct shape){0};
        net->shapes[PICTURE] = (struct shape){3, side, side};
        net->value_count = 2;
    }
}

static void release_parameters(l3a_context *context, const struct net_layer *layer) {
    for (size_t i = 0; i < PARAMETER_KINDS; i++) {
        release(context, layer->parameters[i]);
    }
}

void network_free(struct network *net) {
    for (size_t i = 0; i < net->layer_count; i++) {
        release_parameters(net->context, &net->layers[i]);
    }
    if (net->context) {
        release(net->context, net->layers);
        release(net->context, net->shapes);
    }
    *net = (struct network){0};
}

void network_prefix(struct network *net, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(net->prefix, sizeof net->prefix, format, arguments);
    va_end(arguments);
}

/* Records an error in a description. */
__attribute__((format(printf, 2, 3))) static void network_fail(struct network *net, const char *format, ...) {
    if (net->status == L3A_OK) {
        char text[512];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        net->status = fail(net->context, L3A_ERROR_MISMATCH, NULL, "%s", text);
    }
}

l3a_status network_finish(struct network *net, value output) {
    net->output = output;
    return net->status;
}

/* Adds a layer whose shapes are set, and returns the value it makes. */
static value add_layer(struct network *net, const struct net_layer *layer) {
    if (net->status == L3A_OK) {
        net->status = grow_array(net->context, &net->layers, &net->layer_capacity, net->layer_count + 1, sizeof *net->layers);
    }
    if (net->status == L3A_OK) {
        net->status = grow_array(net->context, &net->shapes, &net->value_capacity, net->value_count + 1, sizeof *net->shapes);
    }
    if (net->status != L3A_OK) {
        release_parameters(net->context, layer);
        return NOTHING;
    }
    net->shapes[net->value_count] = layer->to;
    net->layers[net->layer_count] = *layer;
    net->layers[net->layer_count++].output = net->value_count;
    return net->value_count++;
}

static void take(struct network *net, struct net_layer *layer, enum parameter_kind kind, const char *name, const char *part,
                 size_t rank, const uint64_t *shape) {
    if (net->status == L3A_OK) {
        char full[NAME_LENGTH];
        size_t elements = 1;
        snprintf(full, sizeof full, "%s%s%s", net->prefix, name, part);
        net->status = parameters_take(net->parameters, full, rank, shape, &layer->parameters[kind]);
        for (size_t i = 0; i < rank; i++) {
            elements *= (size_t)shape[i];
        }
        layer->sizes[kind] = elements;
        net->parameter_count += net->status == L3A_OK ? elements : 0;
    }
}

static bool same_shape(struct shape left, struct shape right) {
    return left.channels == right.channels && left.height == right.height && left.width == right.width;
}

static void check_added(struct network *net, const char *name, const struct net_layer *layer) {
    if (net->status == L3A_OK && layer->add && !same_shape(net->shapes[layer->add], layer->to)) {
        network_fail(net, "%s%s: the output of %zu x %zu x %zu cannot be added to the shortcut of %zu x %zu x %zu", net->prefix,
                     name, layer->to.channels, layer->to.height, layer->to.width, net->shapes[layer->add].channels,
                     net->shapes[layer->add].height, net->shapes[layer->add].width);
    }
}

static void fold_batch_norm(struct network *net, const struct conv *what, struct net_layer *layer) {
    char full[NAME_LENGTH];
    struct batch_norm norm = {0};
    l3a_status status = net->status;
    const size_t fan_in = layer->from.channels / layer->groups * what->kernel * what->kernel;
    TRY(status);
    snprintf(full, sizeof full, "%s%s", net->prefix, what->norm);
    TRY(parameters_take_batch_norm(net->parameters, full, what->out, what->magnitude, &norm));
    net->parameter_count += 2 * what->out;
    if (!layer->parameters[BIAS]) {
        TRY(allocate_zeroed(net->context, what->out, sizeof(float), &layer->parameters[BIAS]));
        layer->sizes[BIAS] = what->out;
    }
    float *factors = layer->parameters[FACTORS], *bias = layer->parameters[BIAS];
    for (size_t o = 0; o < what->out; o++) {
        for (size_t i = 0; i < fan_in; i++) {
            factors[o * fan_in + i] = (float)((double)factors[o * fan_in + i] * norm.scale[o]);
        }
        bias[o] = (float)(norm.shift[o] + (double)bias[o] * norm.scale[o]);
    }
done:
    batch_norm_free(net->context, &norm);
    net->status = status;
}

value conv(struct network *net, value input, const struct conv *what) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    const size_t padding = what->kernel / 2, groups = what->groups ? what->groups : 1;
    if (from.height + 2 * padding < what->kernel || from.channels % groups || what->out % groups) {
        network_fail(net, "%s%s: a kernel of %zu x %zu does not fit %zu x %zu pixels", net->prefix, what->name, what->kernel,
                     what->kernel, from.height, from.width);
        return NOTHING;
    }
    struct net_layer layer = {.kind = LAYER_CONVOLUTION,
                              .input = input,
                              .add = what->add,
                              .from = from,
                              .to = {what->out, (from.height + 2 * padding - what->kernel) / what->stride + 1,
                                     (from.width + 2 * padding - what->kernel) / what->stride + 1},
                              .kernel = what->kernel,
                              .stride = what->stride,
                              .padding = padding,
                              .groups = groups,
                              .activation = what->activation,
                              .slope = what->slope};
    const uint64_t shape[] = {what->out, from.channels / groups, what->kernel, what->kernel};
    take(net, &layer, FACTORS, what->name, ".weight", 4, shape);
    if (what->biased) {
        take(net, &layer, BIAS, what->name, ".bias", 1, shape);
    }
    if (what->norm) {
        fold_batch_norm(net, what, &layer);
    }
    check_added(net, what->name, &layer);
    net->flops +=
        2.0 * (double)(what->out * shape[1]) * (double)(what->kernel * what->kernel) * (double)(layer.to.height * layer.to.width);
    return add_layer(net, &layer);
}

static value linear_layer(struct network *net, value input, const struct linear *what, size_t rank, const uint64_t *shape) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    struct net_layer layer = {.kind = LAYER_LINEAR,
                              .input = input,
                              .add = what->add,
                              .from = from,
                              .to = {what->out, from.height, from.width},
                              .activation = what->activation};
    take(net, &layer, FACTORS, what->name, ".weight", rank, shape);
    take(net, &layer, BIAS, what->name, ".bias", 1, shape);
    check_added(net, what->name, &layer);
    net->flops += 2.0 * (double)(what->out * from.channels) * (double)(from.height * from.width);
    return add_layer(net, &layer);
}

value linear(struct network *net, value input, const struct linear *what) {
    return linear_layer(net, input, what, 2,
                        (const uint64_t[]){what->out, net->status == L3A_OK ? net->shapes[input].channels : 0});
}

value patch_embedding(struct network *net, value input, const char *name, size_t patch, size_t out) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    const size_t across = from.width / patch, down = from.height / patch;
    const struct net_layer layer = {.kind = LAYER_PATCHES,
                                    .input = input,
                                    .from = from,
                                    .to = {from.channels * patch * patch, across * down, 1},
                                    .kernel = patch,
                                    .stride = patch};
    const value patches = add_layer(net, &layer);
    return linear_layer(net, patches, &(struct linear){.name = name, .out = out}, 4,
                        (const uint64_t[]){out, from.channels, patch, patch});
}

/* Adds a layer without parameters. */
static value reshape(struct network *net, enum net_layer_kind kind, value input, struct shape to, size_t kernel, size_t stride,
                     size_t padding) {
    const struct net_layer layer = {
        .kind = kind, .input = input, .from = net->shapes[input], .to = to, .kernel = kernel, .stride = stride, .padding = padding};
    return add_layer(net, &layer);
}

value space_to_depth(struct network *net, value input, size_t side) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    if (from.height % side || from.width % side) {
        network_fail(net, "pictures of %zu x %zu do not divide into squares of %zu", from.width, from.height, side);
    }
    return reshape(net, LAYER_SPACE_TO_DEPTH, input,
                   (struct shape){from.channels * side * side, from.height / side, from.width / side}, side, side, 0);
}

value max_pool(struct network *net, value input) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    return reshape(net, LAYER_MAX_POOL, input, (struct shape){from.channels, (from.height + 1) / 2, (from.width + 1) / 2}, 3, 2, 1);
}

value average_pool(struct network *net, value input) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    return reshape(net, LAYER_AVERAGE_POOL, input, (struct shape){from.channels, (from.height + 1) / 2, (from.width + 1) / 2}, 2, 2,
                   0);
}

value blur_pool(struct network *net, value input) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    if (from.height < 2 || from.width < 2) {
        network_fail(net, "pictures are too small: %zu x %zu pixels cannot be halved", from.width, from.height);
    }
    return reshape(net, LAYER_BLUR, input, (struct shape){from.channels, (from.height + 1) / 2, (from.width + 1) / 2}, 3, 2, 1);
}

value global_mean(struct network *net, value input) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    return reshape(net, LAYER_GLOBAL_MEAN, input, (struct shape){net->shapes[input].channels, 1, 1}, 0, 0, 0);
}

value squeeze_excite(struct network *net, value input, const char *first, const char *second, size_t hidden, value add) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    if (from.channels > EXCITE_CHANNELS || hidden > EXCITE_CHANNELS) {
        network_fail(net, "%s%s: %zu channels are more than the limit of %d for squeeze and excite", net->prefix, first,
                     from.channels, EXCITE_CHANNELS);
        return NOTHING;
    }
    struct net_layer layer = {.kind = LAYER_SQUEEZE_EXCITE,
                              .input = input,
                              .add = add,
                              .from = from,
                              .to = from,
                              .hidden = hidden,
                              .activation = add ? RELU : LINEAR_ACTIVATION};
    take(net, &layer, FACTORS, first, ".weight", 4, (const uint64_t[]){hidden, from.channels, 1, 1});
    take(net, &layer, BIAS, first, ".bias", 1, (const uint64_t[]){hidden});
    take(net, &layer, SECOND_FACTORS, second, ".weight", 4, (const uint64_t[]){from.channels, hidden, 1, 1});
    take(net, &layer, SECOND_BIAS, second, ".bias", 1, (const uint64_t[]){from.channels});
    check_added(net, first, &layer);
    net->flops += 4.0 * (double)(hidden * from.channels);
    return add_layer(net, &layer);
}

value add_tokens(struct network *net, value input, const char *token, const char *position) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    struct net_layer layer = {.kind = LAYER_TOKENS, .input = input, .from = from, .to = {from.channels, from.height + 1, 1}};
    take(net, &layer, FACTORS, token, "", 3, (const uint64_t[]){1, 1, from.channels});
    take(net, &layer, BIAS, position, "", 3, (const uint64_t[]){1, from.height + 1, from.channels});
    return add_layer(net, &layer);
}

value layer_norm(struct network *net, value input, const char *name, float epsilon) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    struct net_layer layer = {.kind = LAYER_NORM, .input = input, .from = from, .to = from, .epsilon = epsilon};
    take(net, &layer, FACTORS, name, ".weight", 1, (const uint64_t[]){from.channels});
    take(net, &layer, BIAS, name, ".bias", 1, (const uint64_t[]){from.channels});
    return add_layer(net, &layer);
}

value attention(struct network *net, value input, size_t heads, bool first_only) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    const size_t width = from.channels / 3, queries = first_only ? 1 : from.height;
    if (from.channels % (3 * heads)) {
        network_fail(net, "%sattention: %zu numbers do not divide into %zu heads", net->prefix, from.channels, heads);
    } else if (from.height > ATTENTION_TOKENS) {
        network_fail(net, "%sattention: %zu tokens are more than the limit of %d", net->prefix, from.height, ATTENTION_TOKENS);
    }
    const struct net_layer layer = {
        .kind = LAYER_ATTENTION, .input = input, .from = from, .to = {width, queries, 1}, .heads = heads};
    net->flops += 4.0 * (double)(queries * from.height) * (double)width;
    return add_layer(net, &layer);
}

value first_token(struct network *net, value input) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    return reshape(net, LAYER_FIRST_TOKEN, input, (struct shape){net->shapes[input].channels, 1, 1}, 0, 0, 0);
}

value token_mean(struct network *net, value input) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    return reshape(net, LAYER_TOKEN_MEAN, input, (struct shape){net->shapes[input].channels, 1, 1}, 0, 0, 0);
}

value join(struct network *net, value left, value right) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct net_layer layer = {.kind = LAYER_JOIN,
                                    .input = left,
                                    .add = right,
                                    .from = net->shapes[left],
                                    .to = {net->shapes[left].channels + net->shapes[right].channels, 1, 1}};
    return add_layer(net, &layer);
}
