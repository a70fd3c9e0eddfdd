/* Attention, and squeeze and excite in training.
 *
 * Attention computes the shares P = softmax(Q Kᵀ / √width) again. With G the gradient of P V,
 *     d V = Pᵀ G,   d S = P ∘ (G Vᵀ − rowsum(P ∘ G Vᵀ)),   d Q = d S K / √width,   d K = d Sᵀ Q / √width.
 * All pictures of a head are computed at once, or as many as there is room for. */
#include "cuda/net/train.h"

#include <math.h>

/* ---- Attention ---- */

enum { SCORES, SHARES };

/* The keys and values of a layer, in the input or beside, and their gradients. */
struct keys {
    const char *keys;
    char *gradients;             /* NULL: not wanted */
    size_t count, stride, start; /* start: the first column of their scores */
};

/* A head of some pictures. */
struct head {
    const struct cuda_call *call;
    struct cuda_rooms rooms;
    size_t first, pictures, offset; /* offset: of its numbers in a row */
    size_t width;
    struct net_scores scores; /* of all its pictures */
    struct keys sets[2];
};

static size_t own_keys(const struct cuda_call *call) {
    return call->from.channels == 3 * call->to.channels ? call->from.height : 0;
}

/* Of one picture. Both sets of keys begin at multiples of 16 bytes, as tensor cores want them. */
static struct net_scores scores_of(const struct cuda_call *call) {
    enum { GROUP = 8 };
    const size_t own = own_keys(call), beside = call->step->second ? call->beside.height : 0;
    const size_t start = (own + GROUP - 1) / GROUP * GROUP;
    return (struct net_scores){.rows = call->to.height,
                               .own = own,
                               .start = start,
                               .beside = beside,
                               .stride = start + (beside + GROUP - 1) / GROUP * GROUP};
}

static size_t score_bytes(const struct cuda_call *call) {
    const struct net_scores scores = scores_of(call);
    return scores.rows * scores.stride * sizeof(float);
}

struct cuda_rooms cuda_attention_rooms(const struct cuda_call *call) {
    struct cuda_rooms rooms = {.end = 0};
    if (call->step->backward) {
        const size_t pictures = cuda_slice(call, score_bytes(call));
        cuda_reserve(&rooms, SCORES, pictures * score_bytes(call));
        cuda_reserve(&rooms, SHARES, pictures * score_bytes(call) / sizeof(float) * number_bytes(call->type));
    }
    return rooms;
}

/* Where a head's numbers begin, of the first of its pictures. */
static const char *rows_at(const struct head *head, const void *values, size_t rows, size_t stride, size_t offset) {
    return (const char *)values + (head->first * rows * stride + offset) * number_bytes(head->call->type);
}

static char *gradients_at(const struct head *head, void *values, size_t rows, size_t stride, size_t offset) {
    return (char *)values + (head->first * rows * stride + offset) * number_bytes(head->call->type);
}

static void find_keys(struct head *head) {
    const struct cuda_call *call = head->call;
    const size_t width = call->to.channels, own = own_keys(call), rows = call->from.height, stride = call->from.channels;
    if (own) {
        head->sets[0] = (struct keys){
            .keys = rows_at(head, call->input, rows, stride, width + head->offset),
            .gradients = call->in_gradient ? gradients_at(head, call->in_gradient, rows, stride, width + head->offset) : NULL,
            .count = own,
            .stride = stride};
    }
    if (call->step->second) {
        const struct shape beside = call->beside;
        head->sets[1] = (struct keys){.keys = rows_at(head, call->second, beside.height, beside.channels, head->offset),
                                      .gradients = call->second_gradient ? gradients_at(head, call->second_gradient, beside.height,
                                                                                        beside.channels, head->offset)
                                                                         : NULL,
                                      .count = beside.height,
                                      .stride = beside.channels,
                                      .start = head->scores.start};
    }
}

/* The values of a set are as far from its keys as the keys' numbers are wide. */
static size_t to_values(const struct head *head) {
    return head->call->to.channels * number_bytes(head->call->type);
}

/* Scores of queries, or of gradients: to [queries x keys], one column for each row of the set. */
static l3a_status multiply_rows(const struct head *head, const struct keys *set, const char *left, size_t stride, const char *right,
                                float scale) {
    const struct cuda_call *call = head->call;
    const size_t queries = call->to.height;
    const struct cuda_product what = {.transpose_b = true,
                                      .type = call->type,
                                      .made = NUMBER_FLOAT32,
                                      .m = queries,
                                      .n = set->count,
                                      .inner = head->width,
                                      .a_stride = stride,
                                      .b_stride = set->stride,
                                      .c_stride = head->scores.stride,
                                      .batches = head->pictures,
                                      .a_step = queries * stride,
                                      .b_step = set->count * set->stride,
                                      .c_step = queries * head->scores.stride};
    return cuda_train_multiply(call->device, &call->cuda->products, &what,
                               &(struct cuda_factors){.a = left, .b = right, .scale = scale},
                               (float *)cuda_room(call, &head->rooms, SCORES) + set->start);
}

/* What rows of a set get: to [set x width] = scale · (shares of the set)ᵀ rows. */
static l3a_status give_set(const struct head *head, const struct keys *set, const char *rows, size_t stride, float scale,
                           char *to) {
    const struct cuda_call *call = head->call;
    const size_t queries = call->to.height;
    const struct cuda_product what = {.transpose_a = true,
                                      .type = call->type,
                                      .made = call->type,
                                      .m = set->count,
                                      .n = head->width,
                                      .inner = queries,
                                      .a_stride = head->scores.stride,
                                      .b_stride = stride,
                                      .c_stride = set->stride,
                                      .batches = head->pictures,
                                      .a_step = queries * head->scores.stride,
                                      .b_step = queries * stride,
                                      .c_step = set->count * set->stride};
    const char *shares = (const char *)cuda_room(call, &head->rooms, SHARES) + set->start * number_bytes(call->type);
    return cuda_train_multiply(call->device, &call->cuda->products, &what,
                               &(struct cuda_factors){.a = shares, .b = rows, .scale = scale}, to);
}

/* What the queries get: to [queries x width] (+)= scale · shares of the set · its keys. */
static l3a_status give_queries(const struct head *head, const struct keys *set, float scale, bool adds, char *to) {
    const struct cuda_call *call = head->call;
    const size_t queries = call->to.height, stride = call->from.channels;
    const struct cuda_product what = {.type = call->type,
                                      .made = call->type,
                                      .m = queries,
                                      .n = head->width,
                                      .inner = set->count,
                                      .a_stride = head->scores.stride,
                                      .b_stride = set->stride,
                                      .c_stride = stride,
                                      .batches = head->pictures,
                                      .a_step = queries * head->scores.stride,
                                      .b_step = set->count * set->stride,
                                      .c_step = queries * stride};
    const char *shares = (const char *)cuda_room(call, &head->rooms, SHARES) + set->start * number_bytes(call->type);
    return cuda_train_multiply(call->device, &call->cuda->products, &what,
                               &(struct cuda_factors){.a = shares, .b = set->keys, .scale = scale, .keep = adds ? 1 : 0}, to);
}

static l3a_status backward_head(const struct head *head) {
    const struct cuda_call *call = head->call;
    struct device *device = call->device;
    const size_t stride = call->from.channels, all = call->to.channels;
    const float scale = 1.0F / sqrtf((float)head->width);
    const char *queries = rows_at(head, call->input, call->from.height, stride, head->offset);
    const char *gradient = rows_at(head, call->out_gradient, call->to.height, all, head->offset);
    float *scores = cuda_room(call, &head->rooms, SCORES);
    void *shares = cuda_room(call, &head->rooms, SHARES);
    bool adds = false;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < 2; i++) {
        if (head->sets[i].count) {
            TRY(multiply_rows(head, &head->sets[i], queries, stride, head->sets[i].keys, scale));
        }
    }
    TRY_CUDA(device, net_softmax(call->stream, call->type, &head->scores, scores, shares));
    for (size_t i = 0; i < 2; i++) {
        const struct keys *set = &head->sets[i];
        if (set->count) {
            TRY(multiply_rows(head, set, gradient, all, set->keys + to_values(head), 1));
        }
        if (set->gradients) {
            TRY(give_set(head, set, gradient, all, 1, set->gradients + to_values(head)));
        }
    }
    TRY_CUDA(device, net_unsoftmax(call->stream, call->type, &head->scores, scores, shares));
    for (size_t i = 0; i < 2; i++) {
        const struct keys *set = &head->sets[i];
        if (set->count && call->in_gradient) {
            TRY(give_queries(head, set, scale, adds,
                             gradients_at(head, call->in_gradient, call->from.height, stride, head->offset)));
            adds = true;
        }
        if (set->gradients) {
            TRY(give_set(head, set, queries, stride, scale, set->gradients));
        }
    }
done:
    return status;
}

l3a_status cuda_attention_backward(const struct cuda_call *call) {
    const size_t most = cuda_slice(call, score_bytes(call)), width = call->to.channels / call->layer->heads;
    l3a_status status = L3A_OK;
    for (size_t first = 0; first < call->pictures; first += most) {
        for (size_t i = 0; i < call->layer->heads; i++) {
            struct head head = {.call = call,
                                .rooms = cuda_attention_rooms(call),
                                .first = first,
                                .pictures = call->pictures - first < most ? call->pictures - first : most,
                                .offset = i * width,
                                .width = width,
                                .scores = scores_of(call)};
            head.scores.rows *= head.pictures;
            find_keys(&head);
            TRY(backward_head(&head));
        }
    }
done:
    return status;
}

/* ---- Squeeze and excite ---- */

enum { MEANS, GATES, GATE_GRADIENTS, MEAN_GRADIENTS, INNER, INNER_GRADIENTS, SUMS };

struct cuda_rooms cuda_excite_rooms(const struct cuda_call *call) {
    const size_t channels = call->pictures * call->from.channels * sizeof(float);
    const size_t hidden = call->pictures * call->layer->hidden * sizeof(float);
    struct cuda_rooms rooms = {.end = 0};
    cuda_reserve(&rooms, MEANS, channels);
    cuda_reserve(&rooms, GATES, channels);
    if (call->step->backward) {
        cuda_reserve(&rooms, GATE_GRADIENTS, channels);
        cuda_reserve(&rooms, MEAN_GRADIENTS, channels);
        cuda_reserve(&rooms, INNER, hidden);
        cuda_reserve(&rooms, INNER_GRADIENTS, hidden);
        cuda_reserve(&rooms, SUMS,
                     net_sum_bytes(call->pictures, call->from.channels) + net_sum_bytes(call->pictures, call->layer->hidden));
    }
    return rooms;
}

static size_t pixels_of(const struct cuda_call *call) {
    return call->from.height * call->from.width;
}

l3a_status cuda_excite_forward(const struct cuda_call *call) {
    const struct cuda_rooms rooms = cuda_excite_rooms(call);
    const size_t channels = call->from.channels, pixels = pixels_of(call);
    const size_t bytes = call->pictures * shape_numbers(call->from) * number_bytes(call->type);
    float *means = cuda_room(call, &rooms, MEANS), *gates = cuda_room(call, &rooms, GATES);
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    TRY_CUDA(device, net_mean(call->stream, call->type, call->pictures, pixels, 0, channels, call->input, NUMBER_FLOAT32, means));
    TRY_CUDA(device, net_excite(call->stream, call->pictures, channels, call->layer->hidden, means, call->values[FACTORS],
                                call->values[BIAS], call->values[SECOND_FACTORS], call->values[SECOND_BIAS], gates));
    TRY_CUDA(device, cudaMemcpyAsync(call->output, call->input, bytes, cudaMemcpyDefault, call->stream));
    TRY_CUDA(device, net_gate(call->stream, call->type, call->pictures, pixels, channels, gates, NULL, call->output));
done:
    return status;
}

/* The gradients of a linear map: factors [out x in] = Σ over pictures of gradient · input, bias = Σ gradient. */
static l3a_status map_gradients(const struct cuda_call *call, const struct cuda_rooms *rooms, size_t out, size_t in,
                                const float *gradient, const float *input, float *factors, float *bias) {
    const struct cuda_product what = {.transpose_a = true,
                                      .type = NUMBER_FLOAT32,
                                      .made = NUMBER_FLOAT32,
                                      .m = out,
                                      .n = in,
                                      .inner = call->pictures,
                                      .a_stride = out,
                                      .b_stride = in,
                                      .c_stride = in,
                                      .batches = 1};
    const struct net_summed summed = {.rows = call->pictures, .channels = out, .gradient = (void *)(uintptr_t)gradient};
    double *parts = cuda_room(call, rooms, SUMS);
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    if (factors) {
        TRY(cuda_train_multiply(device, &call->cuda->products, &what, &(struct cuda_factors){.a = gradient, .b = input, .scale = 1},
                                factors));
    }
    if (bias) {
        TRY_CUDA(device, net_sum(call->stream, NUMBER_FLOAT32, SUM_ALONE, &summed, parts));
        TRY_CUDA(device, net_sum_end(call->stream, call->pictures, out, parts, bias, NULL));
    }
done:
    return status;
}

l3a_status cuda_excite_backward(const struct cuda_call *call) {
    const struct cuda_rooms rooms = cuda_excite_rooms(call);
    const size_t channels = call->from.channels, hidden = call->layer->hidden, pixels = pixels_of(call);
    float *means = cuda_room(call, &rooms, MEANS);
    const struct net_excited excited = {.count = call->pictures,
                                        .channels = channels,
                                        .hidden = hidden,
                                        .first = call->values[FACTORS],
                                        .first_bias = call->values[BIAS],
                                        .second = call->values[SECOND_FACTORS],
                                        .second_bias = call->values[SECOND_BIAS],
                                        .pixels = pixels,
                                        .means = means,
                                        .gate_gradients = cuda_room(call, &rooms, GATE_GRADIENTS),
                                        .gates = cuda_room(call, &rooms, GATES),
                                        .mean_gradients = cuda_room(call, &rooms, MEAN_GRADIENTS),
                                        .inner = cuda_room(call, &rooms, INNER),
                                        .inner_gradients = cuda_room(call, &rooms, INNER_GRADIENTS)};
    struct device *device = call->device;
    l3a_status status = L3A_OK;
    TRY_CUDA(device, net_mean(call->stream, call->type, call->pictures, pixels, 0, channels, call->input, NUMBER_FLOAT32, means));
    TRY_CUDA(device, net_products_of_rows(call->stream, call->type, call->pictures, pixels, channels, call->input,
                                          call->out_gradient, excited.gate_gradients));
    TRY_CUDA(device, net_excite_back(call->stream, &excited));
    TRY(map_gradients(call, &rooms, channels, hidden, excited.gate_gradients, excited.inner, call->gradients[SECOND_FACTORS],
                      call->gradients[SECOND_BIAS]));
    TRY(map_gradients(call, &rooms, hidden, channels, excited.inner_gradients, means, call->gradients[FACTORS],
                      call->gradients[BIAS]));
    if (call->in_gradient) {
        TRY_CUDA(device, net_gate_back(call->stream, call->type, call->pictures, pixels, channels, excited.gates,
                                       excited.mean_gradients, call->out_gradient, call->in_gradient));
    }
done:
    return status;
}
