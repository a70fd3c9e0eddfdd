/* Training: tokens, the softmax of attention, and squeeze and excite. */
#include "cuda/net/parts.h"
#include "cuda/net/train_kernels.h"

namespace {

/* ---- Tokens ---- */

/* Positions are those of all tokens, of all but the others, or of the picture's own alone. */
template <class T> __global__ void put_tokens(struct net_token_places tokens, const T *from, T *to) {
    const size_t all = tokens.prefix + tokens.own, classes = tokens.class_token ? 1 : 0;
    const unsigned i = own_number();
    if (i >= all * tokens.width) {
        return;
    }
    const size_t c = i % tokens.width, token = i / tokens.width;
    const bool own = token >= tokens.prefix;
    const bool placed = own || (token < classes ? tokens.position_count > tokens.own : tokens.position_count == all);
    const size_t position = own ? tokens.position_count - tokens.own + token - tokens.prefix : token;
    float number = own               ? widen(from[(blockIdx.y * tokens.own + token - tokens.prefix) * tokens.width + c])
                   : token < classes ? tokens.class_token[c]
                                     : tokens.others[(token - classes) * tokens.width + c];
    number += placed ? tokens.positions[position * tokens.width + c] : 0.0F;
    narrow(number, to + (blockIdx.y * all + token) * tokens.width + c);
}

template <class T> __global__ void add_up(size_t count, unsigned size, size_t step, const T *from, float *to) {
    const unsigned i = own_number();
    double sum = 0;
    if (i < size) {
        for (size_t picture = 0; picture < count; picture++) {
            sum += (double)widen(from[picture * step + i]);
        }
        to[i] = (float)sum;
    }
}

template <class T>
__global__ void spread_rows(unsigned rows, unsigned first, unsigned last, unsigned channels, float share, const T *gradient,
                            T *to) {
    const unsigned i = own_number(), row = i / channels;
    if (row < rows) {
        const float g = row >= first && row < last ? widen(gradient[(size_t)blockIdx.y * channels + i % channels]) : 0.0F;
        narrow(share * g, to + (size_t)blockIdx.y * rows * channels + i);
    }
}

/* A thread has a channel of a picture. */
template <class T>
__global__ void spread_largest(unsigned rows, unsigned first, unsigned channels, const T *from, const T *made, const T *gradient,
                               T *to) {
    const unsigned c = own_number();
    if (c >= channels) {
        return;
    }
    const size_t picture = (size_t)blockIdx.y * rows * channels + c, own = (size_t)blockIdx.y * channels + c;
    bool found = false;
    for (unsigned row = 0; row < rows; row++) {
        const size_t at = picture + (size_t)row * channels;
        const bool here = !found && row >= first && widen(from[at]) == widen(made[own]);
        narrow(here ? widen(gradient[own]) : 0.0F, to + at);
        found = found || here;
    }
}

/* ---- The softmax of attention: a warp has a row ---- */

__device__ __forceinline__ bool is_key(const struct net_scores &shape, size_t at) {
    return at < shape.own || (at >= shape.start && at < shape.start + shape.beside);
}

template <class T> __global__ void softmax(struct net_scores shape, const float *scores, T *shares) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP, first = row * shape.stride;
    const unsigned lane = threadIdx.x % WARP;
    if (row >= shape.rows) {
        return;
    }
    float most = -INFINITY, total = 0;
    for (size_t at = lane; at < shape.stride; at += WARP) {
        most = is_key(shape, at) ? fmaxf(most, scores[first + at]) : most;
    }
    for (int step = WARP / 2; step; step /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, step));
    }
    for (size_t at = lane; at < shape.stride; at += WARP) {
        total += is_key(shape, at) ? expf(scores[first + at] - most) : 0.0F;
    }
    const float share = 1.0F / sum_warp(total);
    for (size_t at = lane; at < shape.stride; at += WARP) {
        narrow(is_key(shape, at) ? expf(scores[first + at] - most) * share : 0.0F, shares + first + at);
    }
}

template <class T> __global__ void unsoftmax(struct net_scores shape, const float *gradients, T *shares) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP, first = row * shape.stride;
    const unsigned lane = threadIdx.x % WARP;
    float sum = 0;
    if (row >= shape.rows) {
        return;
    }
    for (size_t at = lane; at < shape.stride; at += WARP) {
        sum += is_key(shape, at) ? widen(shares[first + at]) * gradients[first + at] : 0.0F;
    }
    sum = sum_warp(sum);
    for (size_t at = lane; at < shape.stride; at += WARP) {
        if (is_key(shape, at)) {
            narrow(widen(shares[first + at]) * (gradients[first + at] - sum), shares + first + at);
        }
    }
}

/* ---- Squeeze and excite ---- */

/* A block has WARP channels of a picture, and each warp every eighth row. */
template <class T> __global__ void products_of_rows(size_t rows, unsigned channels, const T *from, const T *gradient, float *to) {
    __shared__ float sums[WARPS][WARP];
    const unsigned lane = threadIdx.x % WARP, group = threadIdx.x / WARP, c = blockIdx.x * WARP + lane;
    float sum = 0;
    for (size_t row = group; c < channels && row < rows; row += WARPS) {
        const size_t at = (blockIdx.y * rows + row) * channels + c;
        sum += widen(from[at]) * widen(gradient[at]);
    }
    sums[group][lane] = sum;
    __syncthreads();
    if (group == 0 && c < channels) {
        float all = 0;
        for (int i = 0; i < WARPS; i++) {
            all += sums[i][lane];
        }
        to[(size_t)blockIdx.y * channels + c] = all;
    }
}

/* One number of each warp: row `i` of a linear map of `in`. */
__device__ __forceinline__ float mapped(unsigned width, const float *factors, const float *in, unsigned i) {
    float sum = 0;
    for (unsigned j = threadIdx.x % WARP; j < width; j += WARP) {
        sum += factors[(size_t)i * width + j] * in[j];
    }
    return sum_warp(sum);
}

/* A block has a picture; warps make sums of rows, and threads sums of columns. */
__global__ void excite_back(struct net_excited excite) {
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const unsigned channels = (unsigned)excite.channels, hidden = (unsigned)excite.hidden;
    const float *means = excite.means + (size_t)blockIdx.x * channels;
    float *gates = excite.gates + (size_t)blockIdx.x * channels, *slopes = excite.gate_gradients + (size_t)blockIdx.x * channels;
    float *inner = excite.inner + (size_t)blockIdx.x * hidden, *bent = excite.inner_gradients + (size_t)blockIdx.x * hidden;
    for (unsigned h = warp; h < hidden; h += WARPS) {
        const float sum = mapped(channels, excite.first, means, h) + excite.first_bias[h];
        if (lane == 0) {
            inner[h] = fmaxf(sum, 0.0F);
        }
    }
    __syncthreads();
    for (unsigned c = warp; c < channels; c += WARPS) {
        const float gate = sigmoid(mapped(hidden, excite.second, inner, c) + excite.second_bias[c]);
        if (lane == 0) {
            gates[c] = gate;
            slopes[c] *= gate * (1.0F - gate);
        }
    }
    __syncthreads();
    for (unsigned h = threadIdx.x; h < hidden; h += THREADS) {
        float sum = 0;
        for (unsigned c = 0; c < channels; c++) {
            sum += slopes[c] * excite.second[(size_t)c * hidden + h];
        }
        bent[h] = inner[h] > 0 ? sum : 0.0F;
    }
    __syncthreads();
    for (unsigned c = threadIdx.x; c < channels; c += THREADS) {
        float sum = 0;
        for (unsigned h = 0; h < hidden; h++) {
            sum += bent[h] * excite.first[(size_t)h * channels + c];
        }
        excite.mean_gradients[(size_t)blockIdx.x * channels + c] = sum / (float)excite.pixels;
    }
}

template <class T, int V>
__global__ void gate_back(unsigned channels, unsigned each, const float *gates, const float *means, const T *gradient, T *to) {
    const unsigned i = own_number() * V;
    if (i >= each) {
        return;
    }
    const size_t at = (size_t)blockIdx.y * each + i, own = (size_t)blockIdx.y * channels + i % channels;
    float numbers[V];
    load<T, V>(gradient + at, numbers);
    for (int v = 0; v < V; v++) {
        numbers[v] = numbers[v] * gates[own + v] + means[own + v];
    }
    store<T, V>(numbers, to + at);
}

unsigned warps_for(size_t rows) {
    return (unsigned)((rows + WARPS - 1) / WARPS);
}

} // namespace

cudaError_t net_put_tokens(cudaStream_t stream, enum number_type type, const struct net_token_places *tokens, const void *from,
                           void *to) {
    OF_TYPE(type, LAUNCH(put_tokens<T>, grid_of(tokens->count, (tokens->prefix + tokens->own) * tokens->width), THREADS, 0, stream,
                         *tokens, (const T *)from, (T *)to));
}

cudaError_t net_add_up(cudaStream_t stream, enum number_type type, size_t count, size_t size, size_t step, const void *from,
                       float *to) {
    OF_TYPE(type, LAUNCH(add_up<T>, grid_of(1, size), THREADS, 0, stream, count, (unsigned)size, step, (const T *)from, to));
}

cudaError_t net_spread(cudaStream_t stream, enum number_type type, size_t count, size_t rows, size_t first, size_t last,
                       size_t channels, float share, const void *gradient, void *to) {
    OF_TYPE(type, LAUNCH(spread_rows<T>, grid_of(count, rows * channels), THREADS, 0, stream, (unsigned)rows, (unsigned)first,
                         (unsigned)last, (unsigned)channels, share, (const T *)gradient, (T *)to));
}

cudaError_t net_spread_largest(cudaStream_t stream, enum number_type type, size_t count, size_t rows, size_t first, size_t channels,
                               const void *from, const void *made, const void *gradient, void *to) {
    OF_TYPE(type, LAUNCH(spread_largest<T>, grid_of(count, channels), THREADS, 0, stream, (unsigned)rows, (unsigned)first,
                         (unsigned)channels, (const T *)from, (const T *)made, (const T *)gradient, (T *)to));
}

cudaError_t net_softmax(cudaStream_t stream, enum number_type type, const struct net_scores *shape, const float *scores,
                        void *shares) {
    OF_TYPE(type, LAUNCH(softmax<T>, warps_for(shape->rows), THREADS, 0, stream, *shape, scores, (T *)shares));
}

cudaError_t net_unsoftmax(cudaStream_t stream, enum number_type type, const struct net_scores *shape, const float *scores,
                          void *shares) {
    OF_TYPE(type, LAUNCH(unsoftmax<T>, warps_for(shape->rows), THREADS, 0, stream, *shape, scores, (T *)shares));
}

cudaError_t net_products_of_rows(cudaStream_t stream, enum number_type type, size_t count, size_t rows, size_t channels,
                                 const void *from, const void *gradient, float *to) {
    const dim3 grid((unsigned)((channels + WARP - 1) / WARP), (unsigned)count);
    OF_TYPE(type, LAUNCH(products_of_rows<T>, grid, THREADS, 0, stream, rows, (unsigned)channels, (const T *)from,
                         (const T *)gradient, to));
}

cudaError_t net_excite_back(cudaStream_t stream, const struct net_excited *excite) {
    return LAUNCH(excite_back, (unsigned)excite->count, THREADS, 0, stream, *excite);
}

cudaError_t net_gate_back(cudaStream_t stream, enum number_type type, size_t count, size_t rows, size_t channels,
                          const float *gates, const float *means, const void *gradient, void *to) {
    OF_TYPE(type, LAUNCH_NUMBERS(gate_back, count, rows * channels, channels, (unsigned)channels, (unsigned)(rows * channels),
                                 gates, means, (const T *)gradient, (T *)to));
}
