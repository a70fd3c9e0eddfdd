/* A network prepared for a number of pictures: where its values are, the algorithms of its products, and what runs for each layer.
 * Running it allocates nothing, and waits for nothing. */
#include "cuda/net/net.h"
#include "net/places.h"

#include <string.h>

enum { ALIGNMENT = 256 };

static size_t aligned(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* How many pictures are unfolded at a time: as many as the scratch has room for, at least one. */
static size_t slice_of(const struct cuda_network *net, const struct net_layer *layer, size_t batch) {
    const size_t each = layer->to.height * layer->to.width * layer_room(layer) * number_bytes(net->type);
    size_t slice = batch;
    while (slice > 1 && slice * each > SCRATCH_BYTES) {
        slice /= 2;
    }
    return slice;
}

static size_t scratch_bytes(const struct cuda_network *net, const struct net_program *program, size_t index) {
    const struct net_layer *layer = &net->network.layers[index];
    const size_t bytes = number_bytes(net->type);
    if (layer->kind == LAYER_SQUEEZE_EXCITE) {
        return 2 * aligned(program->batch * layer->from.channels * sizeof(float));
    }
    if (program->convolutions[index] && layer->input == PICTURE) {
        return program->batch * layer->from.height * layer->from.width * PADDED * bytes;
    }
    if (!is_product(layer) || program->convolutions[index] || layer_lowering(layer) == AS_IT_IS) {
        return 0;
    }
    return layer_lowering(layer) == UNFOLDED
               ? program->slices[index] * layer->to.height * layer->to.width * layer_room(layer) * bytes
               : program->batch * shape_numbers(layer->to) * bytes;
}

/* Finds the places of values and, after them, of scratch. */
static l3a_status place_values(struct cuda_network *net, struct net_program *program, size_t *arena) {
    const struct network *network = &net->network;
    struct device *device = device_of(net->context);
    const struct plugin_host *host = device->host;
    size_t *last_uses = NULL, *sizes = NULL, scratch = 0;
    struct stretch *stretches = NULL;
    l3a_status status = L3A_OK;
    TRY(host->allocate(net->context, network->value_count, sizeof *last_uses, &last_uses));
    TRY(host->allocate(net->context, network->value_count, sizeof *sizes, &sizes));
    TRY(host->allocate(net->context, network->layer_count, sizeof *stretches, &stretches));
    for (size_t v = 0; v < network->value_count; v++) {
        sizes[v] = aligned(program->batch * shape_numbers(network->shapes[v]) * number_bytes(net->type));
    }
    const size_t wrong = places_find(network, sizes, last_uses, stretches, program->places, &program->scratch);
    if (wrong < network->layer_count) {
        TRY(host->fail(net->context, L3A_ERROR_STATE, NULL, "layer %zu overwrites a value that is still needed", wrong));
    }
    for (size_t i = 0; i < network->layer_count; i++) {
        const size_t bytes = scratch_bytes(net, program, i);
        scratch = bytes > scratch ? bytes : scratch;
    }
    *arena = program->scratch + scratch;
done:
    host->release(net->context, last_uses);
    host->release(net->context, sizes);
    host->release(net->context, stretches);
    return status;
}

static l3a_status open_products(struct cuda_network *net, struct net_program *program) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < net->network.layer_count; i++) {
        const struct net_layer *layer = &net->network.layers[i];
        if (is_product(layer) && !program->convolutions[i] && layer_lowering(layer) != BY_ITSELF) {
            TRY(multiplication_open(net, i, program->slices[i] * layer->to.height * layer->to.width, &program->products[i]));
        }
    }
done:
    return status;
}

/* Learning on the same device comes first: a batch of several pictures does not take the memory that it is planned to need. */
static l3a_status check_room(const struct cuda_network *net, size_t batch, size_t arena) {
    struct device *device = device_of(net->context);
    const size_t pictures = batch > net->room ? 2 * batch * shape_numbers(net->network.shapes[PICTURE]) * sizeof(float) : 0;
    return batch == 1 || device_has_room(device, arena + pictures)
               ? L3A_OK
               : device->host->fail(net->context, L3A_ERROR_MEMORY, "free memory of the GPU",
                                    "cuda:%d: out of memory: there is no room for %zu pictures at a time", device->number, batch);
}

l3a_status net_program_open(struct cuda_network *net, size_t batch, struct net_program **program) {
    struct device *device = device_of(net->context);
    const struct plugin_host *host = device->host;
    const size_t layers = net->network.layer_count;
    struct net_program *made = NULL;
    size_t arena = 0;
    l3a_status status = L3A_OK;
    TRY(host->allocate(net->context, 1, sizeof *made, &made));
    *made = (struct net_program){.batch = batch};
    TRY(host->allocate(net->context, net->network.value_count, sizeof *made->places, &made->places));
    memset(made->places, 0, net->network.value_count * sizeof *made->places);
    TRY(host->allocate(net->context, layers, sizeof *made->slices, &made->slices));
    TRY(host->allocate(net->context, layers, sizeof *made->products, &made->products));
    memset(made->products, 0, layers * sizeof *made->products);
    TRY(host->allocate(net->context, layers, sizeof *made->convolutions, &made->convolutions));
    memset(made->convolutions, 0, layers * sizeof *made->convolutions);
    for (size_t i = 0; i < layers; i++) {
        const struct net_layer *layer = &net->network.layers[i];
        TRY(product_find(net, i, batch, &made->convolutions[i]));
        made->slices[i] = is_product(layer) && layer_lowering(layer) == UNFOLDED ? slice_of(net, layer, batch) : batch;
    }
    TRY(place_values(net, made, &arena));
    TRY(check_room(net, batch, arena));
    TRY(device_allocate_zeroed(device, arena, 1, &made->arena));
    TRY(open_products(net, made));
    *program = made;
    made = NULL;
done:
    net_program_close(net, made);
    return status;
}

void net_program_close(struct cuda_network *net, struct net_program *program) {
    if (program) {
        struct device *device = device_of(net->context);
        const struct plugin_host *host = device->host;
        for (size_t i = 0; program->products && i < net->network.layer_count; i++) {
            multiplication_close(&program->products[i]);
        }
        device_release(device, program->arena);
        host->release(net->context, program->places);
        host->release(net->context, program->slices);
        host->release(net->context, program->products);
        host->release(net->context, program->convolutions);
        host->release(net->context, program);
    }
}

/* ---- Running ---- */

/* What a layer runs on. */
struct call {
    const struct cuda_network *net;
    const struct net_program *program;
    struct device *device;
    const struct net_layer *layer;
    const struct net_parameters *parameters;
    const void *from, *beside; /* beside: NULL if there is none */
    void *to, *scratch;
};

static l3a_status squeeze_excite_layer(const struct call *call) {
    const struct net_layer *layer = call->layer;
    const struct net_parameters *own = call->parameters;
    struct device *device = call->device;
    const size_t batch = call->program->batch, channels = layer->from.channels, pixels = layer->from.height * layer->from.width;
    float *means = call->scratch, *gates = (float *)((char *)call->scratch + aligned(batch * channels * sizeof(float)));
    l3a_status status = L3A_OK;
    TRY_CUDA(device, net_mean(device->stream, call->net->type, batch, pixels, 0, channels, call->from, NUMBER_FLOAT32, means));
    TRY_CUDA(device, net_excite(device->stream, batch, channels, layer->hidden, means, own->factors, own->bias, own->second_factors,
                                own->second_bias, gates));
    TRY_CUDA(device, net_gate(device->stream, call->net->type, batch, pixels, channels, gates, call->beside, call->to));
done:
    return status;
}

static struct attended rows_of(const void *keys, size_t offset, enum number_type type, size_t width, size_t tokens, size_t step) {
    const char *first = (const char *)keys + offset * number_bytes(type);
    return (struct attended){first, first + width * number_bytes(type), tokens, step};
}

static cudaError_t attend(const struct call *call) {
    const struct net_layer *layer = call->layer;
    const enum number_type type = call->net->type;
    const size_t width = layer->to.channels, own = layer->from.channels == 3 * width ? layer->from.height : 0;
    const struct shape beside = call->net->network.shapes[layer->second];
    struct attention what = {.count = call->program->batch,
                             .queries = layer->to.height,
                             .heads = layer->heads,
                             .width = width / layer->heads,
                             .query = call->from,
                             .query_tokens = layer->from.height,
                             .query_step = layer->from.channels,
                             .to = call->to};
    if (own) {
        what.own = rows_of(call->from, width, type, width, own, layer->from.channels);
    }
    if (call->beside) {
        what.beside = rows_of(call->beside, 0, type, width, beside.height, beside.channels);
    }
    return net_attend(call->device->stream, type, &what);
}

static cudaError_t join_values(const struct call *call) {
    const struct shape from = call->layer->from, to = call->layer->to;
    const size_t left = from.channels * from.height, all = to.channels * to.height, bytes = number_bytes(call->net->type);
    const cudaError_t code =
        net_copy_rows(call->device->stream, call->net->type, call->program->batch, left, call->from, left, call->to, all);
    return code != cudaSuccess ? code
                               : net_copy_rows(call->device->stream, call->net->type, call->program->batch, all - left,
                                               call->beside, all - left, (char *)call->to + left * bytes, all);
}

static cudaError_t slice_values(const struct call *call) {
    const struct shape from = call->layer->from, to = call->layer->to;
    const size_t own = to.channels * to.height * to.width, all = from.channels * from.height * from.width;
    const size_t skipped = call->layer->prefix * from.channels * number_bytes(call->net->type);
    return net_copy_rows(call->device->stream, call->net->type, call->program->batch, own, (const char *)call->from + skipped, all,
                         call->to, own);
}

/* The kinds that make something of each picture or token by itself. */
static cudaError_t run_tokens(const struct call *call) {
    const struct net_layer *layer = call->layer;
    const struct net_parameters *own = call->parameters;
    const cudaStream_t stream = call->device->stream;
    const enum number_type type = call->net->type;
    const size_t batch = call->program->batch, channels = layer->to.channels, rows = layer->from.height * layer->from.width;
    switch (layer->kind) {
    case LAYER_TOKENS:
        return net_tokens(stream, type, batch, layer->to.height - layer->from.height, layer->from.height, channels, own->factors,
                          own->bias, call->from, call->to);
    case LAYER_NORM:
        return net_norm(stream, type, batch * rows, channels, (float)layer->epsilon, own->factors, own->bias, call->from, call->to);
    case LAYER_ATTENTION: return attend(call);
    case LAYER_FIRST_TOKEN: return net_copy_rows(stream, type, batch, channels, call->from, rows * channels, call->to, channels);
    case LAYER_SLICE: return slice_values(call);
    case LAYER_JOIN: return join_values(call);
    case LAYER_GLOBAL_MEAN:
    case LAYER_TOKEN_MEAN: return net_mean(stream, type, batch, rows, layer->prefix, channels, call->from, type, call->to);
    case LAYER_TOKEN_MAX: return net_largest(stream, type, batch, rows, layer->prefix, channels, call->from, call->to);
    default: return net_repeat(stream, type, batch, shape_numbers(layer->to), own->factors, call->to); /* LAYER_LEARNED */
    }
}

static cudaError_t run_pixels(const struct call *call) {
    const struct net_layer *layer = call->layer;
    const struct net_parameters *own = call->parameters;
    const cudaStream_t stream = call->device->stream;
    const enum number_type type = call->net->type;
    const size_t batch = call->program->batch, channels = layer->to.channels, rows = batch * layer->to.height * layer->to.width;
    const struct windows windows = {layer->from, layer->to, layer->kernel, layer->stride, layer->padding};
    switch (layer->kind) {
    case LAYER_SPACE_TO_DEPTH: return net_space_to_depth(stream, type, batch, layer->from, layer->kernel, call->from, call->to);
    case LAYER_PATCHES: return net_patches(stream, type, batch, layer->from, layer->kernel, call->from, call->to);
    case LAYER_MAX_POOL:
    case LAYER_AVERAGE_POOL: return net_pool(stream, type, batch, &windows, layer->kind == LAYER_MAX_POOL, call->from, call->to);
    case LAYER_BLUR: return net_blur(stream, type, batch, layer->from, layer->to, call->from, call->to);
    case LAYER_ACTIVATION:
    case LAYER_ADD:
        return net_finish(stream, type, layer->activation, layer->slope, rows, channels, NULL, call->beside, call->from, call->to);
    case LAYER_SCALE: return net_scale(stream, type, rows, channels, own->factors, own->bias, call->from, call->to);
    default: return run_tokens(call);
    }
}

static l3a_status run_layer(const struct cuda_network *net, const struct net_program *program, size_t index,
                            const float *pictures) {
    const struct net_layer *layer = &net->network.layers[index];
    struct device *device = device_of(net->context);
    const struct call call = {.net = net,
                              .program = program,
                              .device = device,
                              .layer = layer,
                              .parameters = &net->parameters[index],
                              .from =
                                  layer->input == PICTURE ? (const void *)pictures : program->arena + program->places[layer->input],
                              .beside = layer->second ? program->arena + program->places[layer->second] : NULL,
                              .to = program->arena + program->places[layer->output],
                              .scratch = program->arena + program->scratch};
    l3a_status status = L3A_OK;
    if (is_product(layer)) {
        TRY(product_run(net, program, index, call.from, call.to));
    } else if (layer->kind == LAYER_SQUEEZE_EXCITE) {
        TRY(squeeze_excite_layer(&call));
    } else {
        TRY_CUDA(device, run_pixels(&call));
    }
done:
    return status;
}

l3a_status net_program_run(const struct cuda_network *net, const struct net_program *program, const float *pictures,
                           float *const *planes) {
    struct device *device = device_of(net->context);
    const struct network *network = &net->network;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < network->layer_count; i++) {
        TRY(run_layer(net, program, i, pictures));
    }
    for (size_t i = 0; i < network->output_count; i++) {
        const value made = network->outputs[i].value;
        TRY_CUDA(device, net_planes(device->stream, net->type, program->batch, network->shapes[made],
                                    program->arena + program->places[made], planes[i]));
    }
done:
    return status;
}
