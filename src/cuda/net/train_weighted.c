/* Convolutions and linear layers in training: products with their factors. With x the rows of the input, or the windows of a
 * convolution unfolded into rows, W the factors [out][in] and g the gradient of y,
 *     y = x Wᵀ + b,   d x = g W,   d W = gᵀ x,   d b = Σ g,
 * where the gradient of the windows is folded back into that of the input. Convolutions with groups have kernels of their own. */
#include "cuda/net/train.h"

/* The parts of the scratch. PACKED: factors in the order and the numbers that products take. */
enum { PACKED, MADE, COLUMNS, SUMS, BIASES };

static struct windows windows_of(const struct net_layer *layer) {
    return (struct windows){layer->from, layer->to, layer->kernel, layer->stride, layer->padding};
}

static size_t taps_of(const struct net_layer *layer) {
    return layer->kind == LAYER_LINEAR ? 1 : layer->kernel * layer->kernel;
}

/* Numbers of a row of the factors. */
static size_t inputs_of(const struct net_layer *layer) {
    return layer->from.channels / (layer->kind == LAYER_LINEAR ? 1 : layer->groups);
}

static bool is_packed(const struct cuda_call *call) {
    return call->type != NUMBER_FLOAT32 || layer_lowering(call->layer) != AS_IT_IS;
}

static size_t column_bytes(const struct cuda_call *call) {
    return call->to.height * call->to.width * layer_room(call->layer) * number_bytes(call->type);
}

struct cuda_rooms cuda_weighted_rooms(const struct cuda_call *call) {
    const enum lowering lowering = layer_lowering(call->layer);
    const struct windows windows = windows_of(call->layer);
    const size_t out = call->to.channels, factors = out * layer_room(call->layer);
    struct cuda_rooms rooms = {.end = 0};
    cuda_reserve(&rooms, PACKED, is_packed(call) ? factors * number_bytes(call->type) : 0);
    cuda_reserve(&rooms, BIASES, out * number_bytes(call->type));
    if (call->step->trains) {
        cuda_reserve(&rooms, SUMS, net_sum_bytes(cuda_rows(call), out));
    }
    if (lowering == UNFOLDED) {
        cuda_reserve(&rooms, MADE, call->step->trained[FACTORS] ? factors * sizeof(float) : 0);
        cuda_reserve(&rooms, COLUMNS, cuda_slice(call, column_bytes(call)) * column_bytes(call));
    } else if (lowering == BY_ITSELF && call->step->trained[FACTORS]) {
        cuda_reserve(&rooms, MADE, net_convolve_bytes(call->pictures, &windows, call->layer->groups));
    }
    return rooms;
}

/* The factors as products want them. */
static l3a_status pack(const struct cuda_call *call, const struct cuda_rooms *rooms, const void **packed) {
    const struct net_layer *layer = call->layer;
    const size_t in = inputs_of(layer);
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    *packed = call->values[FACTORS];
    if (is_packed(call)) {
        *packed = cuda_room(call, rooms, PACKED);
        TRY_CUDA(device, net_pack_factors(call->stream, call->type, call->to.channels, in, taps_of(layer), in, layer_room(layer),
                                          call->values[FACTORS], cuda_room(call, rooms, PACKED)));
    }
done:
    return status;
}

/* The biases in the values' numbers; NULL: there are none. */
static l3a_status convert_bias(const struct cuda_call *call, const struct cuda_rooms *rooms, const void **bias) {
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    *bias = call->values[BIAS];
    if (*bias && call->type != NUMBER_FLOAT32) {
        *bias = cuda_room(call, rooms, BIASES);
        TRY_CUDA(device,
                 net_convert(call->stream, call->type, call->to.channels, call->values[BIAS], cuda_room(call, rooms, BIASES)));
    }
done:
    return status;
}

/* ---- Parts of the pictures ---- */

/* Some pictures of a layer: their rows as products take them, and where they begin in values. */
struct slice {
    size_t first, count, rows;
    const void *in;
    size_t in_offset, out_offset; /* bytes */
};

static struct slice slice_at(const struct cuda_call *call, size_t first) {
    const size_t most = layer_lowering(call->layer) == UNFOLDED ? cuda_slice(call, column_bytes(call)) : call->pictures;
    const size_t count = call->pictures - first < most ? call->pictures - first : most;
    const size_t in_bytes = call->layer->input == PICTURE ? sizeof(float) : number_bytes(call->type);
    return (struct slice){.first = first,
                          .count = count,
                          .rows = count * call->to.height * call->to.width,
                          .in_offset = first * shape_numbers(call->from) * in_bytes,
                          .out_offset = first * shape_numbers(call->to) * number_bytes(call->type)};
}

/* Finds the rows of the input. */
static l3a_status unfold(const struct cuda_call *call, const struct cuda_rooms *rooms, struct slice *slice) {
    const struct windows windows = windows_of(call->layer);
    const char *from = (const char *)call->input + slice->in_offset;
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    slice->in = from;
    if (layer_lowering(call->layer) == UNFOLDED) {
        slice->in = cuda_room(call, rooms, COLUMNS);
        TRY_CUDA(device, net_unfold(call->stream, call->type, slice->count, &windows, call->layer->input == PICTURE,
                                    layer_room(call->layer), from, cuda_room(call, rooms, COLUMNS)));
    }
done:
    return status;
}

/* ---- Forward ---- */

static l3a_status forward_slice(const struct cuda_call *call, const struct cuda_rooms *rooms, const void *packed, const void *bias,
                                struct slice *slice) {
    const size_t room = layer_room(call->layer), out = call->to.channels;
    const struct cuda_product what = {.transpose_b = true,
                                      .biased = bias != NULL,
                                      .type = call->type,
                                      .made = call->type,
                                      .m = slice->rows,
                                      .n = out,
                                      .inner = room,
                                      .a_stride = room,
                                      .b_stride = room,
                                      .c_stride = out,
                                      .batches = 1};
    l3a_status status = L3A_OK;
    TRY(unfold(call, rooms, slice));
    TRY(cuda_train_multiply(call->device, &call->cuda->products, &what,
                            &(struct cuda_factors){.a = slice->in, .b = packed, .bias = bias, .scale = 1},
                            (char *)call->output + slice->out_offset));
done:
    return status;
}

l3a_status cuda_weighted_forward(const struct cuda_call *call) {
    const struct cuda_rooms rooms = cuda_weighted_rooms(call);
    const struct windows windows = windows_of(call->layer);
    const void *packed = NULL, *bias = NULL;
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    TRY(pack(call, &rooms, &packed));
    TRY(convert_bias(call, &rooms, &bias));
    if (layer_lowering(call->layer) == BY_ITSELF) {
        TRY_CUDA(device, net_convolve(call->stream, call->type, call->pictures, &windows, call->layer->groups, packed, call->input,
                                      call->output));
        if (bias) {
            TRY_CUDA(device, net_finish(call->stream, call->type, LINEAR_ACTIVATION, 0, cuda_rows(call), call->to.channels, bias,
                                        NULL, call->output, call->output));
        }
        return L3A_OK;
    }
    for (size_t first = 0; first < call->pictures;) {
        struct slice slice = slice_at(call, first);
        TRY(forward_slice(call, &rooms, packed, bias, &slice));
        first += slice.count;
    }
done:
    return status;
}

/* ---- Backward ---- */

static l3a_status sum_bias(const struct cuda_call *call, const struct cuda_rooms *rooms) {
    const struct net_summed what = {.rows = cuda_rows(call), .channels = call->to.channels, .gradient = call->out_gradient};
    double *parts = cuda_room(call, rooms, SUMS);
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    TRY_CUDA(device, net_sum(call->stream, call->type, SUM_ALONE, &what, parts));
    TRY_CUDA(device, net_sum_end(call->stream, what.rows, what.channels, parts, call->gradients[BIAS], NULL));
done:
    return status;
}

/* Adds a slice's share to the gradient of the factors. */
static l3a_status factors_slice(const struct cuda_call *call, const struct cuda_rooms *rooms, struct slice *slice) {
    const size_t room = layer_room(call->layer), out = call->to.channels;
    const bool unfolded = layer_lowering(call->layer) == UNFOLDED;
    const struct cuda_product what = {.transpose_a = true,
                                      .type = call->type,
                                      .made = NUMBER_FLOAT32,
                                      .m = out,
                                      .n = room,
                                      .inner = slice->rows,
                                      .a_stride = out,
                                      .b_stride = room,
                                      .c_stride = room,
                                      .batches = 1};
    l3a_status status = L3A_OK;
    TRY(unfold(call, rooms, slice));
    TRY(cuda_train_multiply(
        call->device, &call->cuda->products, &what,
        &(struct cuda_factors){
            .a = (const char *)call->out_gradient + slice->out_offset, .b = slice->in, .scale = 1, .keep = slice->first ? 1 : 0},
        unfolded ? cuda_room(call, rooms, MADE) : call->gradients[FACTORS]));
done:
    return status;
}

static l3a_status input_slice(const struct cuda_call *call, const struct cuda_rooms *rooms, const void *packed,
                              const struct slice *slice) {
    const struct windows windows = windows_of(call->layer);
    const size_t room = layer_room(call->layer), out = call->to.channels;
    const bool unfolded = layer_lowering(call->layer) == UNFOLDED;
    char *to = (char *)call->in_gradient + slice->in_offset;
    const struct cuda_product what = {.type = call->type,
                                      .made = call->type,
                                      .m = slice->rows,
                                      .n = room,
                                      .inner = out,
                                      .a_stride = out,
                                      .b_stride = room,
                                      .c_stride = room,
                                      .batches = 1};
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    TRY(cuda_train_multiply(
        device, &call->cuda->products, &what,
        &(struct cuda_factors){
            .a = (const char *)call->out_gradient + slice->out_offset, .b = packed, .scale = 1, .keep = call->adds ? 1 : 0},
        unfolded ? cuda_room(call, rooms, COLUMNS) : to));
    if (unfolded) {
        TRY_CUDA(device, net_fold(call->stream, call->type, slice->count, &windows, room, cuda_room(call, rooms, COLUMNS), to));
    }
done:
    return status;
}

static l3a_status backward_groups(const struct cuda_call *call, const struct cuda_rooms *rooms) {
    const struct windows windows = windows_of(call->layer);
    const void *packed = NULL;
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    if (call->in_gradient) {
        TRY(pack(call, rooms, &packed));
        TRY_CUDA(device, net_convolve_input(call->stream, call->type, call->pictures, &windows, call->layer->groups, packed,
                                            call->out_gradient, call->in_gradient));
    }
    if (call->gradients[FACTORS]) {
        TRY_CUDA(device, net_convolve_factors(call->stream, call->type, call->pictures, &windows, call->layer->groups, call->input,
                                              call->out_gradient, cuda_room(call, rooms, MADE), call->gradients[FACTORS]));
    }
done:
    return status;
}

static l3a_status backward_products(const struct cuda_call *call, const struct cuda_rooms *rooms) {
    const void *packed = NULL;
    l3a_status status = L3A_OK;
    if (call->in_gradient) {
        TRY(pack(call, rooms, &packed));
    }
    for (size_t first = 0; first < call->pictures;) {
        struct slice slice = slice_at(call, first);
        if (call->gradients[FACTORS]) {
            TRY(factors_slice(call, rooms, &slice));
        }
        if (call->in_gradient) {
            TRY(input_slice(call, rooms, packed, &slice));
        }
        first += slice.count;
    }
done:
    return status;
}

l3a_status cuda_weighted_backward(const struct cuda_call *call) {
    const struct cuda_rooms rooms = cuda_weighted_rooms(call);
    const enum lowering lowering = layer_lowering(call->layer);
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    if (call->gradients[BIAS]) {
        TRY(sum_bias(call, &rooms));
    }
    TRY(lowering == BY_ITSELF ? backward_groups(call, &rooms) : backward_products(call, &rooms));
    if (lowering == UNFOLDED && call->gradients[FACTORS]) {
        TRY_CUDA(device, net_unpack_factors(call->stream, call->to.channels, inputs_of(call->layer), taps_of(call->layer),
                                            layer_room(call->layer), cuda_room(call, &rooms, MADE), call->gradients[FACTORS]));
    }
done:
    return status;
}
