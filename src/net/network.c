/* Builds the list of layers from a description: each call checks its input, takes its tensors, and adds one layer or several with
 * the values they make. */
#include "net/network.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

enum { NAME_LENGTH = 256 };
static const double batch_norm_epsilon = 1e-5;

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

void parameter_release(l3a_context *context, struct parameter *parameter) {
    release(context, parameter->name);
    release(context, parameter->values);
    *parameter = (struct parameter){0};
}

static void release_parameters(l3a_context *context, struct net_layer *layer) {
    for (size_t i = 0; i < PARAMETER_KINDS; i++) {
        parameter_release(context, &layer->parameters[i]);
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

size_t root_of(size_t number) {
    size_t root = 0;
    while ((root + 1) * (root + 1) <= number) {
        root++;
    }
    return root;
}

void network_output(struct network *net, const char *name, value output) {
    if (net->output_count == NETWORK_OUTPUTS) {
        network_fail(net, "a network has at most %d outputs", NETWORK_OUTPUTS);
    } else {
        net->outputs[net->output_count++] = (struct network_output){name, output};
    }
}

value network_find_output(const struct network *net, const char *name) {
    value found = NOTHING;
    for (size_t i = 0; i < net->output_count; i++) {
        found = strcmp(net->outputs[i].name, name) == 0 ? net->outputs[i].value : found;
    }
    return found;
}

bool network_has(const struct network *net, const char *name) {
    char full[NAME_LENGTH];
    snprintf(full, sizeof full, "%s%s", net->prefix, name);
    return parameters_find(net->parameters, full) != NULL;
}

void network_stage(struct network *net, size_t stage, value output) {
    static const char *const names[] = {"stage1", "stage2", "stage3", "stage4"};
    network_output(net, names[stage], output);
}

l3a_status network_finish(struct network *net, value features) {
    network_output(net, "features", features);
    const struct network_output last = net->outputs[net->output_count - 1];
    memmove(net->outputs + 1, net->outputs, (net->output_count - 1) * sizeof *net->outputs);
    net->outputs[0] = last;
    return net->status;
}

size_t attention_keys(const struct network *net, const struct net_layer *layer) {
    return (layer->from.channels == 3 * layer->to.channels ? layer->from.height : 0) + net->shapes[layer->second].height;
}

double network_layer_flops(const struct network *net, const struct net_layer *layer) {
    const double pixels = (double)(layer->to.height * layer->to.width), in = (double)layer->from.channels,
                 out = (double)layer->to.channels;
    switch (layer->kind) {
    case LAYER_CONVOLUTION: return 2 * out * in / (double)layer->groups * (double)(layer->kernel * layer->kernel) * pixels;
    case LAYER_LINEAR: return 2 * out * in * pixels;
    case LAYER_SQUEEZE_EXCITE: return 4 * (double)layer->hidden * in;
    case LAYER_ATTENTION: return 4 * pixels * (double)attention_keys(net, layer) * out;
    default: return 0;
    }
}

double network_flops(const struct network *net) {
    double flops = 0;
    for (size_t i = 0; i < net->layer_count; i++) {
        flops += network_layer_flops(net, &net->layers[i]);
    }
    return flops;
}

value network_add_layer(struct network *net, const struct net_layer *layer) {
    if (net->status == L3A_OK) {
        net->status = grow_array(net->context, &net->layers, &net->layer_capacity, net->layer_count + 1, sizeof *net->layers);
    }
    if (net->status == L3A_OK) {
        net->status = grow_array(net->context, &net->shapes, &net->value_capacity, net->value_count + 1, sizeof *net->shapes);
    }
    if (net->status != L3A_OK) {
        struct net_layer dropped = *layer;
        release_parameters(net->context, &dropped);
        return NOTHING;
    }
    net->shapes[net->value_count] = layer->to;
    net->layers[net->layer_count] = *layer;
    net->layers[net->layer_count++].output = net->value_count;
    return net->value_count++;
}

/* Takes a tensor; `part` is what follows the name. */
static void take(struct network *net, struct net_layer *layer, enum parameter_kind kind, const char *name, const char *part,
                 size_t rank, const uint64_t *shape) {
    struct parameter *parameter = &layer->parameters[kind];
    char full[NAME_LENGTH];
    if (net->status != L3A_OK) {
        return;
    }
    snprintf(full, sizeof full, "%s%s%s", net->prefix, name, part);
    net->status = parameters_take(net->parameters, full, rank, shape, &parameter->values);
    if (net->status == L3A_OK) {
        net->status = copy_text(net->context, full, strlen(full), &parameter->name);
    }
    parameter->rank = rank;
    parameter->count = 1;
    for (size_t i = 0; i < rank; i++) {
        parameter->shape[i] = shape[i];
        parameter->count *= (size_t)shape[i];
    }
    net->parameter_count += net->status == L3A_OK && kind < MEAN ? parameter->count : 0;
}

/* A layer with one number per channel and kind. */
static void take_channels(struct network *net, struct net_layer *layer, enum parameter_kind kind, const char *name,
                          const char *part) {
    take(net, layer, kind, name, part, 1, &(uint64_t){layer->to.channels});
}

static value add(struct network *net, const char *name, value left, value right) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape a = net->shapes[left], b = net->shapes[right];
    if (a.channels != b.channels || a.height != b.height || a.width != b.width) {
        network_fail(net, "%s%s: the output of %zu x %zu x %zu cannot be added to the shortcut of %zu x %zu x %zu", net->prefix,
                     name, a.channels, a.height, a.width, b.channels, b.height, b.width);
        return NOTHING;
    }
    return network_add_layer(net, &(struct net_layer){.kind = LAYER_ADD, .input = left, .second = right, .from = a, .to = a});
}

value nonlinear(struct network *net, value input, enum activation activation, float slope) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    return network_add_layer(
        net, &(struct net_layer){
                 .kind = LAYER_ACTIVATION, .input = input, .from = from, .to = from, .activation = activation, .slope = slope});
}

static value scale(struct network *net, value input, const char *name) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    struct net_layer layer = {.kind = LAYER_SCALE, .input = input, .from = from, .to = from};
    take_channels(net, &layer, FACTORS, name, "");
    return network_add_layer(net, &layer);
}

value batch_norm(struct network *net, value input, const char *name, double epsilon, bool magnitude) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    struct net_layer layer = {.kind = LAYER_BATCH_NORM,
                              .input = input,
                              .from = from,
                              .to = from,
                              .epsilon = epsilon > 0 ? epsilon : batch_norm_epsilon,
                              .magnitude = magnitude};
    take_channels(net, &layer, FACTORS, name, ".weight");
    take_channels(net, &layer, BIAS, name, ".bias");
    take_channels(net, &layer, MEAN, name, ".running_mean");
    take_channels(net, &layer, VARIANCE, name, ".running_var");
    for (size_t i = 0; net->status == L3A_OK && i < from.channels; i++) {
        const double variance = (double)layer.parameters[VARIANCE].values[i];
        if (!(variance + layer.epsilon > 0)) {
            net->status = fail(net->context, L3A_ERROR_DATA, NULL, "%s%s.running_var: channel %zu has a variance of %g",
                               net->prefix, name, i, variance);
        }
    }
    return network_add_layer(net, &layer);
}

/* Adds `add` if it is given, and the activation if there is one. */
static value finish(struct network *net, const char *name, value x, value added, enum activation activation, float slope) {
    x = added ? add(net, name, x, added) : x;
    return activation ? nonlinear(net, x, activation, slope) : x;
}

value conv(struct network *net, value input, const struct conv *what) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    const size_t padding = what->unpadded ? 0 : what->kernel / 2, groups = what->groups ? what->groups : 1;
    if (from.height + 2 * padding < what->kernel || from.channels % groups || what->out % groups) {
        network_fail(net, "%s%s: a kernel of %zu x %zu does not fit %zu x %zu pixels", net->prefix, what->name, what->kernel,
                     what->kernel, from.height, from.width);
        return NOTHING;
    }
    struct net_layer layer = {.kind = LAYER_CONVOLUTION,
                              .input = input,
                              .from = from,
                              .to = {what->out, (from.height + 2 * padding - what->kernel) / what->stride + 1,
                                     (from.width + 2 * padding - what->kernel) / what->stride + 1},
                              .kernel = what->kernel,
                              .stride = what->stride,
                              .padding = padding,
                              .groups = groups};
    take(net, &layer, FACTORS, what->name, ".weight", 4,
         (const uint64_t[]){what->out, from.channels / groups, what->kernel, what->kernel});
    if (what->biased) {
        take_channels(net, &layer, BIAS, what->name, ".bias");
    }
    value x = network_add_layer(net, &layer);
    x = what->norm ? batch_norm(net, x, what->norm, what->epsilon, what->magnitude) : x;
    return finish(net, what->name, x, what->add, what->activation, what->slope);
}

static value linear_layer(struct network *net, value input, const struct linear *what, size_t rank, const uint64_t *shape) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    struct net_layer layer = {.kind = LAYER_LINEAR, .input = input, .from = from, .to = {what->out, from.height, from.width}};
    take(net, &layer, FACTORS, what->name, ".weight", rank, shape);
    if (!what->unbiased) {
        take_channels(net, &layer, BIAS, what->name, ".bias");
    }
    value x = network_add_layer(net, &layer);
    x = what->scale ? scale(net, x, what->scale) : x;
    return finish(net, what->name, x, what->add, what->activation, 0);
}

value linear(struct network *net, value input, const struct linear *what) {
    return linear_layer(net, input, what, 2,
                        (const uint64_t[]){what->out, net->status == L3A_OK ? net->shapes[input].channels : 0});
}

/* Adds a layer without parameters. */
static value reshape(struct network *net, enum net_layer_kind kind, value input, struct shape to, size_t kernel, size_t stride,
                     size_t padding) {
    const struct net_layer layer = {
        .kind = kind, .input = input, .from = net->shapes[input], .to = to, .kernel = kernel, .stride = stride, .padding = padding};
    return network_add_layer(net, &layer);
}

value patch_embedding(struct network *net, value input, const char *name, size_t patch, size_t out, bool unbiased) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    const size_t across = from.width / patch, down = from.height / patch;
    const value patches =
        reshape(net, LAYER_PATCHES, input, (struct shape){from.channels * patch * patch, across * down, 1}, patch, patch, 0);
    return linear_layer(net, patches, &(struct linear){.name = name, .out = out, .unbiased = unbiased}, 4,
                        (const uint64_t[]){out, from.channels, patch, patch});
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

/* Half of each side, rounded up. */
static value halve(struct network *net, enum net_layer_kind kind, value input, size_t kernel, size_t padding) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    return reshape(net, kind, input, (struct shape){from.channels, (from.height + 1) / 2, (from.width + 1) / 2}, kernel, 2,
                   padding);
}

value max_pool(struct network *net, value input) {
    return halve(net, LAYER_MAX_POOL, input, 3, 1);
}

value average_pool(struct network *net, value input) {
    return halve(net, LAYER_AVERAGE_POOL, input, 2, 0);
}

value blur_pool(struct network *net, value input) {
    if (net->status == L3A_OK && (net->shapes[input].height < 2 || net->shapes[input].width < 2)) {
        network_fail(net, "pictures are too small: %zu x %zu pixels cannot be halved", net->shapes[input].width,
                     net->shapes[input].height);
    }
    return halve(net, LAYER_BLUR, input, 3, 1);
}

value squeeze_excite(struct network *net, value input, const char *first, const char *second, size_t hidden, value added) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    if (from.channels > EXCITE_CHANNELS || hidden > EXCITE_CHANNELS) {
        network_fail(net, "%s%s: %zu channels are more than the limit of %d for squeeze and excite", net->prefix, first,
                     from.channels, EXCITE_CHANNELS);
        return NOTHING;
    }
    struct net_layer layer = {.kind = LAYER_SQUEEZE_EXCITE, .input = input, .from = from, .to = from, .hidden = hidden};
    take(net, &layer, FACTORS, first, ".weight", 4, (const uint64_t[]){hidden, from.channels, 1, 1});
    take(net, &layer, BIAS, first, ".bias", 1, (const uint64_t[]){hidden});
    take(net, &layer, SECOND_FACTORS, second, ".weight", 4, (const uint64_t[]){from.channels, hidden, 1, 1});
    take_channels(net, &layer, SECOND_BIAS, second, ".bias");
    const value x = network_add_layer(net, &layer);
    return finish(net, first, x, added, added ? RELU : LINEAR_ACTIVATION, 0);
}

/* Positions for a square of `side` x `side` tokens, from those of the file; what is in front of them stays. */
static l3a_status resize_positions(struct network *net, const struct tokens *what, size_t side, struct parameter *positions) {
    const size_t channels = (size_t)positions->shape[2], old = what->across * what->across, own = side * side,
                 front = (what->position_count - old) * channels;
    float *resized = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(net->context, front + own * channels, sizeof *resized, &resized));
    memcpy(resized, positions->values, front * sizeof *resized);
    TRY(positions_resize(net->context, positions->values + front, channels, what->across, side, what->method, resized + front));
    release(net->context, positions->values);
    positions->values = resized;
    resized = NULL;
    positions->shape[1] = positions->shape[1] - old + own;
    net->parameter_count -= positions->count;
    positions->count = front + own * channels;
    net->parameter_count += positions->count;
done:
    release(net->context, resized);
    return status;
}

value add_tokens(struct network *net, value input, const struct tokens *what) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    const size_t classes = what->class_token != NULL, prefix = classes + what->register_count, old = what->across * what->across,
                 front = what->position_count - old;
    struct net_layer layer = {
        .kind = LAYER_TOKENS, .input = input, .from = from, .to = {from.channels, from.height + prefix, 1}, .prefix = prefix};
    if (what->position_count < old || (front && front != classes && front != prefix)) {
        network_fail(net, "%s%s has %zu positions; expected %zu", net->prefix, what->positions, what->position_count,
                     from.height + classes);
    }
    if (what->class_token) {
        take(net, &layer, FACTORS, what->class_token, "", 3, (const uint64_t[]){1, 1, from.channels});
    }
    if (what->registers) {
        take(net, &layer, SECOND_FACTORS, what->registers, "", 3, (const uint64_t[]){1, what->register_count, from.channels});
    }
    take(net, &layer, BIAS, what->positions, "", 3, (const uint64_t[]){1, what->position_count, from.channels});
    if (net->status == L3A_OK && old != from.height) {
        net->status = resize_positions(net, what, root_of(from.height), &layer.parameters[BIAS]);
    }
    return network_add_layer(net, &layer);
}

value layer_norm(struct network *net, value input, const char *name, double epsilon) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    struct net_layer layer = {.kind = LAYER_NORM, .input = input, .from = from, .to = from, .epsilon = epsilon};
    take_channels(net, &layer, FACTORS, name, ".weight");
    take_channels(net, &layer, BIAS, name, ".bias");
    return network_add_layer(net, &layer);
}

value attention(struct network *net, value input, value second, size_t heads) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input], beside = net->shapes[second];
    const bool shared = second && from.channels == beside.channels;
    const bool apart = shared || (second && 2 * from.channels == beside.channels); /* no keys and values of its own */
    const size_t width = apart ? from.channels : from.channels / 3, keys = (apart ? 0 : from.height) + beside.height;
    if ((!apart && from.channels % 3) || width % heads) {
        network_fail(net, "%sattention: %zu numbers do not divide into %zu heads", net->prefix, from.channels, heads);
    } else if (keys > ATTENTION_TOKENS) {
        network_fail(net, "%sattention: %zu tokens are more than the limit of %d", net->prefix, keys, ATTENTION_TOKENS);
    } else if (second && !shared && beside.channels != 2 * width) {
        network_fail(net, "%sattention: keys and values of %zu numbers do not fit queries of %zu", net->prefix, beside.channels,
                     width);
    }
    return network_add_layer(net, &(struct net_layer){.kind = LAYER_ATTENTION,
                                                      .input = input,
                                                      .second = second,
                                                      .from = from,
                                                      .to = {width, from.height, 1},
                                                      .heads = heads,
                                                      .shared = shared});
}

value learned(struct network *net, const char *name, size_t tokens, size_t channels) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    struct net_layer layer = {.kind = LAYER_LEARNED, .to = {channels, tokens, 1}};
    take(net, &layer, FACTORS, name, "", 3, (const uint64_t[]){1, tokens, channels});
    return network_add_layer(net, &layer);
}

/* One pixel that is made from the whole value. */
static value reduce(struct network *net, enum net_layer_kind kind, value input) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    return reshape(net, kind, input, (struct shape){net->shapes[input].channels, 1, 1}, 0, 0, 0);
}

value global_mean(struct network *net, value input) {
    return reduce(net, LAYER_GLOBAL_MEAN, input);
}

value first_token(struct network *net, value input) {
    return reduce(net, LAYER_FIRST_TOKEN, input);
}

static value reduce_tokens(struct network *net, enum net_layer_kind kind, value input, size_t prefix) {
    const value made = reduce(net, kind, input);
    if (net->status == L3A_OK) {
        net->layers[net->layer_count - 1].prefix = prefix;
    }
    return made;
}

value token_mean(struct network *net, value input, size_t prefix) {
    return reduce_tokens(net, LAYER_TOKEN_MEAN, input, prefix);
}

value token_max(struct network *net, value input, size_t prefix) {
    return reduce_tokens(net, LAYER_TOKEN_MAX, input, prefix);
}

value join(struct network *net, value left, value right) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct net_layer layer = {.kind = LAYER_JOIN,
                                    .input = left,
                                    .second = right,
                                    .from = net->shapes[left],
                                    .to = {net->shapes[left].channels + net->shapes[right].channels, 1, 1}};
    return network_add_layer(net, &layer);
}

value stack(struct network *net, value upper, value lower) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[upper], beside = net->shapes[lower];
    if (from.channels != beside.channels || from.width != 1 || beside.width != 1) {
        network_fail(net, "%sstack: tokens of %zu and of %zu numbers", net->prefix, from.channels, beside.channels);
        return NOTHING;
    }
    return network_add_layer(net, &(struct net_layer){.kind = LAYER_JOIN,
                                                      .input = upper,
                                                      .second = lower,
                                                      .from = from,
                                                      .to = {from.channels, from.height + beside.height, 1}});
}

value slice(struct network *net, value input, size_t first, size_t height, size_t width) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    if (!height || !width || first + height * width > from.height * from.width) {
        network_fail(net, "%sslice: %zu pixels do not have the %zu from %zu on", net->prefix, from.height * from.width,
                     height * width, first);
        return NOTHING;
    }
    return network_add_layer(
        net, &(struct net_layer){
                 .kind = LAYER_SLICE, .input = input, .from = from, .to = {from.channels, height, width}, .prefix = first});
}

/* ---- What prompts need ---- */

value sum(struct network *net, value left, value right) {
    return add(net, "sum", left, right);
}

value split(struct network *net, value input, size_t count) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    if (from.width != 1 || from.height != 1 || !count || from.channels % count) {
        network_fail(net, "%s%zu numbers do not divide into %zu tokens", net->prefix, from.channels, count);
        return NOTHING;
    }
    return reshape(net, LAYER_SPLIT, input, (struct shape){from.channels / count, count, 1}, 0, 0, 0);
}

value unit_tokens(struct network *net, value input) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    return reshape(net, LAYER_UNIT, input, net->shapes[input], 0, 0, 0);
}

value cosines(struct network *net, value input, const char *keys, const char *mask, size_t count) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[input];
    struct net_layer layer = {.kind = LAYER_COSINES, .input = input, .from = from, .to = {count, 1, 1}};
    if (from.width != 1 || from.height != 1) {
        network_fail(net, "%s%s: only one token has cosines with keys", net->prefix, keys);
    }
    take(net, &layer, FACTORS, keys, "", 2, (const uint64_t[]){count, from.channels});
    if (mask) {
        take(net, &layer, SECOND_FACTORS, mask, "", 2, (const uint64_t[]){count, from.channels});
    }
    return network_add_layer(net, &layer);
}

value pick_tokens(struct network *net, value scores, const struct picking *what) {
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    const struct shape from = net->shapes[scores];
    struct net_layer layer = {.kind = LAYER_PICK,
                              .input = scores,
                              .from = from,
                              .to = {what->channels, what->picks * what->length, 1},
                              .picks = what->picks,
                              .together = what->together};
    if (from.channels != what->groups || what->picks > what->groups || what->groups > PICK_GROUPS) {
        network_fail(net, "%s%s: %zu of %zu groups cannot be picked by %zu scores; the limit is %d groups", net->prefix, what->name,
                     what->picks, what->groups, from.channels, PICK_GROUPS);
    }
    take(net, &layer, FACTORS, what->name, "", 3, (const uint64_t[]){what->groups, what->length, what->channels});
    return network_add_layer(net, &layer);
}
