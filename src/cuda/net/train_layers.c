/* What runs for each kind of layer in training, forward and backward. */
#include "cuda/net/train.h"

size_t cuda_slice(const struct cuda_call *call, size_t bytes) {
    const size_t most = bytes ? SCRATCH_BYTES / bytes : call->pictures;
    return most < 1 ? 1 : most < call->pictures ? most : call->pictures;
}

static struct windows windows_of(const struct net_layer *layer) {
    return (struct windows){layer->from, layer->to, layer->kernel, layer->stride, layer->padding};
}

static size_t in_rows(const struct cuda_call *call) {
    return call->from.height * call->from.width;
}

/* ---- Norms and scales ---- */

/* SHARES: of a batch norm; MEANS: of the rows of a layer norm. */
enum { SUMS, SHARES, MEANS = SHARES };

static struct net_affine affine_of(const struct cuda_call *call) {
    return (struct net_affine){.rows = cuda_rows(call),
                               .channels = call->to.channels,
                               .factors = call->values[FACTORS],
                               .bias = call->values[BIAS],
                               .magnitude = call->layer->magnitude,
                               .epsilon = (float)call->layer->epsilon,
                               .mean = call->mean,
                               .scale = call->scale,
                               .activation = call->step->activation,
                               .slope = call->step->slope};
}

static l3a_status affine_forward(const struct cuda_call *call) {
    const struct cuda_rooms rooms = cuda_layer_rooms(call);
    const struct net_affine affine = affine_of(call);
    const struct net_summed summed = {.rows = affine.rows, .channels = affine.channels, .in = call->input};
    double *parts = call->measures ? cuda_room(call, &rooms, SUMS) : NULL;
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    if (!call->again && parts) {
        TRY_CUDA(device, net_sum(call->stream, call->type, SUM_SQUARES, &summed, parts));
    }
    if (!call->again) {
        TRY_CUDA(device, net_affine_settle(call->stream, &affine, parts, call->values[MEAN], call->values[VARIANCE]));
    }
    TRY_CUDA(device, net_affine_apply(call->stream, call->type, &affine, call->input, call->second, call->output));
done:
    return status;
}

static l3a_status affine_backward(const struct cuda_call *call, cuda_pass_on *pass_on, void *owner) {
    const struct cuda_rooms rooms = cuda_layer_rooms(call);
    const struct net_affine affine = affine_of(call);
    const struct net_summed summed = {.rows = affine.rows,
                                      .channels = affine.channels,
                                      .in = call->measures || call->gradients[FACTORS] ? call->input : NULL,
                                      .gradient = call->out_gradient,
                                      .out = affine.activation ? call->output : NULL,
                                      .means = call->mean,
                                      .activation = affine.activation,
                                      .slope = affine.slope};
    double *parts = cuda_room(call, &rooms, SUMS);
    float *shares = cuda_room(call, &rooms, SHARES);
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    TRY_CUDA(device, net_sum(call->stream, call->type, SUM_BENT, &summed, parts));
    TRY(pass_on(owner));
    TRY_CUDA(device, net_affine_gradients(call->stream, &affine, parts, call->gradients[FACTORS], call->gradients[BIAS], shares));
    if (call->in_gradient) {
        TRY_CUDA(device, net_affine_spread(call->stream, call->type, &affine, call->measures ? shares : NULL, call->input,
                                           call->out_gradient, call->in_gradient));
    }
done:
    return status;
}

static l3a_status norm_backward(const struct cuda_call *call) {
    const struct cuda_rooms rooms = cuda_layer_rooms(call);
    const size_t rows = cuda_rows(call), width = call->to.channels;
    float *means = cuda_room(call, &rooms, MEANS);
    double *parts = cuda_room(call, &rooms, SUMS);
    const struct net_summed summed = {
        .rows = rows, .channels = width, .in = call->input, .gradient = call->out_gradient, .means = means};
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    TRY_CUDA(device, net_norm_rows(call->stream, call->type, rows, width, (float)call->layer->epsilon, call->values[FACTORS],
                                   call->input, call->out_gradient, call->adds, call->in_gradient, means));
    if (call->step->trains) {
        TRY_CUDA(device, net_sum(call->stream, call->type, SUM_NORMED, &summed, parts));
        TRY_CUDA(device, net_sum_end(call->stream, rows, width, parts, call->gradients[BIAS], call->gradients[FACTORS]));
    }
done:
    return status;
}

/* ---- Tokens ---- */

static struct net_token_places tokens_of(const struct cuda_call *call) {
    const struct net_layer *layer = call->layer;
    return (struct net_token_places){.count = call->pictures,
                                     .prefix = layer->prefix,
                                     .own = layer->from.height,
                                     .width = layer->to.channels,
                                     .class_token = call->values[FACTORS],
                                     .others = call->values[SECOND_FACTORS],
                                     .positions = call->values[BIAS],
                                     .position_count = layer->parameters[BIAS].count / layer->to.channels};
}

/* Adds up the gradients of `count` tokens from `first` on, over all pictures. */
static cudaError_t add_up(const struct cuda_call *call, size_t first, size_t count, float *to) {
    const size_t width = call->to.channels;
    const char *from = (const char *)call->out_gradient + first * width * number_bytes(call->type);
    return count && to ? net_add_up(call->stream, call->type, call->pictures, count * width, call->to.height * width, from, to)
                       : cudaSuccess;
}

/* Positions are those of all tokens, of all but the registers, or of the picture's own alone. */
static l3a_status tokens_backward(const struct cuda_call *call) {
    const struct net_token_places tokens = tokens_of(call);
    const size_t classes = tokens.class_token ? 1 : 0, all = call->to.height, width = tokens.width;
    const size_t front = tokens.position_count - tokens.own; /* positions of learned tokens */
    float *positions = call->gradients[BIAS];
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    TRY_CUDA(device, add_up(call, 0, classes, call->gradients[FACTORS]));
    TRY_CUDA(device, add_up(call, classes, tokens.prefix - classes, call->gradients[SECOND_FACTORS]));
    TRY_CUDA(device, add_up(call, 0, front, positions));
    TRY_CUDA(device, add_up(call, tokens.prefix, tokens.own, positions ? positions + front * width : NULL));
    if (call->in_gradient) {
        TRY_CUDA(device, net_copy_rows(call->stream, call->type, call->pictures, tokens.own * width,
                                       (const char *)call->out_gradient + tokens.prefix * width * number_bytes(call->type),
                                       all * width, call->in_gradient, tokens.own * width));
    }
done:
    return status;
}

/* Channels side by side, or tokens one below the other: in memory, the one value and then the other. */
static cudaError_t join_forward(const struct cuda_call *call) {
    const size_t left = shape_numbers(call->from), all = shape_numbers(call->to), count = call->pictures;
    char *right = (char *)call->output + left * number_bytes(call->type);
    const cudaError_t code = net_copy_rows(call->stream, call->type, count, left, call->input, left, call->output, all);
    return code != cudaSuccess ? code
                               : net_copy_rows(call->stream, call->type, count, all - left, call->second, all - left, right, all);
}

static cudaError_t join_backward(const struct cuda_call *call) {
    const size_t left = shape_numbers(call->from), all = shape_numbers(call->to), count = call->pictures;
    const char *right = (const char *)call->out_gradient + left * number_bytes(call->type);
    cudaError_t code = cudaSuccess;
    if (call->in_gradient) {
        code = net_copy_rows(call->stream, call->type, count, left, call->out_gradient, all, call->in_gradient, left);
    }
    if (code == cudaSuccess && call->second_gradient) {
        code = net_copy_rows(call->stream, call->type, count, all - left, right, all, call->second_gradient, all - left);
    }
    return code;
}

/* Bytes of a picture in front of those that a slice takes. */
static size_t skipped(const struct cuda_call *call) {
    return call->layer->prefix * call->from.channels * number_bytes(call->type);
}

static cudaError_t slice_forward(const struct cuda_call *call) {
    const size_t own = shape_numbers(call->to), all = shape_numbers(call->from);
    return net_copy_rows(call->stream, call->type, call->pictures, own, (const char *)call->input + skipped(call), all,
                         call->output, own);
}

static cudaError_t slice_backward(const struct cuda_call *call) {
    const size_t own = shape_numbers(call->to), all = shape_numbers(call->from);
    const cudaError_t code = cudaMemsetAsync(call->in_gradient, 0, call->pictures * all * number_bytes(call->type), call->stream);
    return code != cudaSuccess ? code
                               : net_copy_rows(call->stream, call->type, call->pictures, own, call->out_gradient, own,
                                               (char *)call->in_gradient + skipped(call), all);
}

/* softmax(Q Kᵀ / √width) V */
static cudaError_t attention_forward(const struct cuda_call *call) {
    const size_t width = call->to.channels, stride = call->from.channels, bytes = width * number_bytes(call->type);
    const char *rows = call->input, *beside = call->second;
    struct attention what = {.count = call->pictures,
                             .queries = call->to.height,
                             .heads = call->layer->heads,
                             .width = width / call->layer->heads,
                             .query = rows,
                             .query_tokens = call->from.height,
                             .query_step = stride,
                             .to = call->output};
    if (stride == 3 * width) {
        what.own = (struct attended){rows + bytes, rows + 2 * bytes, call->from.height, stride};
    }
    if (beside) {
        what.beside = (struct attended){beside, beside + bytes, call->beside.height, call->beside.channels};
    }
    return net_attend(call->stream, call->type, &what);
}

/* ---- All kinds ---- */

struct cuda_rooms cuda_layer_rooms(const struct cuda_call *call) {
    const size_t rows = cuda_rows(call), channels = call->to.channels;
    struct cuda_rooms rooms = {.end = 0};
    switch (call->layer->kind) {
    case LAYER_CONVOLUTION:
    case LAYER_LINEAR: return cuda_weighted_rooms(call);
    case LAYER_ATTENTION: return cuda_attention_rooms(call);
    case LAYER_SQUEEZE_EXCITE: return cuda_excite_rooms(call);
    case LAYER_BATCH_NORM:
    case LAYER_SCALE:
        cuda_reserve(&rooms, SUMS, net_sum_bytes(rows, channels));
        cuda_reserve(&rooms, SHARES, 2 * channels * sizeof(float));
        break;
    case LAYER_NORM:
        cuda_reserve(&rooms, SUMS, net_sum_bytes(rows, channels));
        cuda_reserve(&rooms, MEANS, 2 * rows * sizeof(float));
        break;
    default: break;
    }
    return rooms;
}

static cudaError_t forward_tokens(const struct cuda_call *call) {
    const struct net_layer *layer = call->layer;
    const struct net_token_places tokens = tokens_of(call);
    const size_t count = call->pictures, channels = call->to.channels, rows = in_rows(call);
    switch (layer->kind) {
    case LAYER_TOKENS: return net_put_tokens(call->stream, call->type, &tokens, call->input, call->output);
    case LAYER_NORM:
        return net_norm(call->stream, call->type, count * rows, channels, (float)layer->epsilon, call->values[FACTORS],
                        call->values[BIAS], call->input, call->output);
    case LAYER_ATTENTION: return attention_forward(call);
    case LAYER_FIRST_TOKEN:
        return net_copy_rows(call->stream, call->type, count, channels, call->input, rows * channels, call->output, channels);
    case LAYER_JOIN: return join_forward(call);
    case LAYER_SLICE: return slice_forward(call);
    case LAYER_GLOBAL_MEAN:
    case LAYER_TOKEN_MEAN:
        return net_mean(call->stream, call->type, count, rows, layer->prefix, channels, call->input, call->type, call->output);
    case LAYER_TOKEN_MAX:
        return net_largest(call->stream, call->type, count, rows, layer->prefix, channels, call->input, call->output);
    default: /* LAYER_LEARNED */
        return net_repeat(call->stream, call->type, count, shape_numbers(call->to), call->values[FACTORS], call->output);
    }
}

static cudaError_t forward_pixels(const struct cuda_call *call) {
    const struct net_layer *layer = call->layer;
    const struct windows windows = windows_of(layer);
    const size_t count = call->pictures;
    switch (layer->kind) {
    case LAYER_SPACE_TO_DEPTH:
        return net_space_to_depth(call->stream, call->type, count, layer->from, layer->kernel, call->input, call->output);
    case LAYER_PATCHES: return net_patches(call->stream, call->type, count, layer->from, layer->kernel, call->input, call->output);
    case LAYER_MAX_POOL:
    case LAYER_AVERAGE_POOL:
        return net_pool(call->stream, call->type, count, &windows, layer->kind == LAYER_MAX_POOL, call->input, call->output);
    case LAYER_BLUR: return net_blur(call->stream, call->type, count, layer->from, layer->to, call->input, call->output);
    case LAYER_ACTIVATION:
    case LAYER_ADD:
        return net_finish(call->stream, call->type, layer->activation, layer->slope, cuda_rows(call), call->to.channels, NULL,
                          call->second, call->input, call->output);
    default: return forward_tokens(call);
    }
}

l3a_status cuda_layer_forward(const struct cuda_call *call) {
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    switch (call->layer->kind) {
    case LAYER_CONVOLUTION:
    case LAYER_LINEAR: return cuda_weighted_forward(call);
    case LAYER_SQUEEZE_EXCITE: return cuda_excite_forward(call);
    case LAYER_BATCH_NORM:
    case LAYER_SCALE: return affine_forward(call);
    default: TRY_CUDA(device, forward_pixels(call));
    }
done:
    return status;
}

/* Gives each row its share of the gradient of what it was reduced to. */
static cudaError_t backward_rows(const struct cuda_call *call) {
    const size_t rows = in_rows(call), first = call->layer->prefix;
    switch (call->layer->kind) {
    case LAYER_FIRST_TOKEN:
        return net_spread(call->stream, call->type, call->pictures, rows, 0, 1, call->to.channels, 1, call->out_gradient,
                          call->in_gradient);
    case LAYER_TOKEN_MAX:
        return net_spread_largest(call->stream, call->type, call->pictures, rows, first, call->to.channels, call->input,
                                  call->output, call->out_gradient, call->in_gradient);
    default:
        return net_spread(call->stream, call->type, call->pictures, rows, first, rows, call->to.channels,
                          1.0F / (float)(rows - first), call->out_gradient, call->in_gradient);
    }
}

/* Layers that have nothing to train, and so a gradient of the input. */
static cudaError_t backward_plain(const struct cuda_call *call) {
    const struct net_layer *layer = call->layer;
    const struct windows windows = windows_of(layer);
    switch (layer->kind) {
    case LAYER_ACTIVATION:
        return net_bend(call->stream, call->type, layer->activation, layer->slope, call->pictures * shape_numbers(call->to),
                        call->input, call->output, call->out_gradient, call->in_gradient);
    case LAYER_MAX_POOL:
        return net_unpool(call->stream, call->type, call->pictures, &windows, call->input, call->output, call->out_gradient,
                          call->in_gradient);
    case LAYER_AVERAGE_POOL:
        return net_unpool(call->stream, call->type, call->pictures, &windows, NULL, NULL, call->out_gradient, call->in_gradient);
    case LAYER_BLUR:
        return net_unblur(call->stream, call->type, call->pictures, layer->from, layer->to, call->out_gradient, call->in_gradient);
    case LAYER_JOIN: return join_backward(call);
    case LAYER_SLICE: return slice_backward(call);
    default: return backward_rows(call);
    }
}

l3a_status cuda_layer_backward(const struct cuda_call *call, cuda_pass_on *pass_on, void *owner) {
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    switch (call->layer->kind) {
    case LAYER_CONVOLUTION:
    case LAYER_LINEAR: return cuda_weighted_backward(call);
    case LAYER_SQUEEZE_EXCITE: return cuda_excite_backward(call);
    case LAYER_ATTENTION: return cuda_attention_backward(call);
    case LAYER_NORM: return norm_backward(call);
    case LAYER_BATCH_NORM:
    case LAYER_SCALE: return affine_backward(call, pass_on, owner);
    case LAYER_TOKENS: return tokens_backward(call);
    case LAYER_LEARNED: TRY_CUDA(device, add_up(call, 0, call->to.height, call->gradients[FACTORS])); break;
    case LAYER_ADD: break; /* gradients are passed on */
    default: TRY_CUDA(device, backward_plain(call));
    }
done:
    return status;
}
