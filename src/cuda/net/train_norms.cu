/* Norms and scales in training. What is added up over rows is in train_sums.cu. */
#include "cuda/net/sum_parts.h"

namespace {

__device__ __forceinline__ float gain_of(const struct net_affine &affine, unsigned c) {
    const float factor = affine.factors[c];
    return affine.magnitude ? fabsf(factor) + affine.epsilon : factor;
}

/* Statistics of a channel, from its sums in the batch; the unbiased variance is kept. */
__device__ __forceinline__ void settle_measured(const struct net_affine &affine, unsigned c, const double *sums, float *kept_mean,
                                                float *kept_variance) {
    const double rows = (double)affine.rows, mean = sums[0] / rows, left = sums[1] - sums[0] * mean, spread = left > 0 ? left : 0;
    affine.mean[c] = (float)mean;
    affine.scale[c] = (float)(1 / sqrt(spread / rows + (double)affine.epsilon));
    kept_mean[c] = (float)((double)kept_mean[c] + 0.1 * (mean - (double)kept_mean[c]));
    kept_variance[c] = (float)((double)kept_variance[c] + 0.1 * (spread / (rows - 1) - (double)kept_variance[c]));
}

__global__ void settle(struct net_affine affine, size_t count, const double *parts, float *kept_mean, float *kept_variance) {
    double sums[2];
    unsigned c;
    if (sum_parts(parts ? count : 0, (unsigned)affine.channels, parts, &c, sums)) {
        if (parts) {
            settle_measured(affine, c, sums, kept_mean, kept_variance);
        } else {
            affine.mean[c] = kept_mean ? kept_mean[c] : 0.0F;
            affine.scale[c] = kept_mean ? (float)(1 / sqrt((double)kept_variance[c] + (double)affine.epsilon)) : 1.0F;
        }
    }
}

template <class T, int V> __global__ void apply(struct net_affine affine, const T *in, const T *added, T *out) {
    const size_t count = affine.rows * affine.channels;
    const float below = affine.activation == LEAKY_RELU ? affine.slope : 0.0F;
    for (size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) * V; i < count; i += (size_t)gridDim.x * THREADS * V) {
        const unsigned c = (unsigned)(i % affine.channels);
        float numbers[V], more[V] = {};
        load<T, V>(in + i, numbers);
        if (added) {
            load<T, V>(added + i, more);
        }
        for (int v = 0; v < V; v++) {
            const float factor = gain_of(affine, c + v) * affine.scale[c + v];
            const float y = (numbers[v] - affine.mean[c + v]) * factor + (affine.bias ? affine.bias[c + v] : 0.0F) + more[v];
            numbers[v] = affine.activation != LINEAR_ACTIVATION && !(y > 0) ? below * y : y;
        }
        store<T, V>(numbers, out + i);
    }
}

__global__ void settle_gradients(struct net_affine affine, size_t count, const double *parts, float *factors, float *bias,
                                 float *shares) {
    double sums[2];
    unsigned c;
    if (sum_parts(count, (unsigned)affine.channels, parts, &c, sums)) {
        const double product = sums[1] * (double)affine.scale[c];
        shares[c] = (float)(sums[0] / (double)affine.rows);
        shares[affine.channels + c] = (float)(product / (double)affine.rows);
        if (bias) {
            bias[c] = (float)sums[0];
        }
        if (factors) {
            factors[c] = (float)(affine.magnitude && affine.factors[c] < 0 ? -product : product);
        }
    }
}

template <class T, int V>
__global__ void spread(struct net_affine affine, const float *shares, const T *in, const T *gradient, T *to) {
    const size_t count = affine.rows * affine.channels;
    for (size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) * V; i < count; i += (size_t)gridDim.x * THREADS * V) {
        const unsigned c = (unsigned)(i % affine.channels);
        float numbers[V], x[V] = {};
        load<T, V>(gradient + i, numbers);
        if (shares) {
            load<T, V>(in + i, x);
        }
        for (int v = 0; v < V; v++) {
            const float scale = affine.scale[c + v], factor = gain_of(affine, c + v) * scale;
            if (shares) {
                numbers[v] -= shares[c + v] + (x[v] - affine.mean[c + v]) * (shares[affine.channels + c + v] * scale);
            }
            numbers[v] *= factor;
        }
        store<T, V>(numbers, to + i);
    }
}

/* With g the gradient times the factor: Σ (x − mean)², Σ g and Σ g (x − mean) of a row, first those of a lane. */
struct row_sums {
    float squares, level, tilt;
};

/* Returns 1 / deviation; then the gradient of x is scale · (g − level − (x − mean) · tilt). */
__device__ __forceinline__ float settle_row(struct row_sums *sums, unsigned width, float epsilon) {
    const float scale = rsqrtf(sum_warp(sums->squares) / (float)width + epsilon);
    sums->level = sum_warp(sums->level) / (float)width;
    sums->tilt = sum_warp(sums->tilt) / (float)width * scale * scale;
    return scale;
}

/* The first lane keeps what the row's numbers have in common. */
__device__ __forceinline__ void keep_means(size_t row, float mean, float scale, float *means) {
    if (threadIdx.x % WARP == 0) {
        means[2 * row] = mean;
        means[2 * row + 1] = scale;
    }
}

/* Float32 numbers beside V numbers of the values' type. */
template <int V> __device__ __forceinline__ void load_floats(const float *from, float *to) {
    enum { QUAD = 4 };
#pragma unroll
    for (int v = 0; v < V; v += QUAD) {
        load<float, QUAD>(from + v, to + v);
    }
}

/* A warp has a row, of which each lane keeps up to GROUPS groups of V numbers. */
template <class T, int V, int GROUPS>
__global__ void norm_rows(size_t rows, unsigned width, float epsilon, const float *factors, const T *in, const T *gradient,
                          bool adds, T *to, float *means) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const unsigned lane = threadIdx.x % WARP;
    if (row >= rows) {
        return;
    }
    float x[GROUPS][V] = {}, g[GROUPS][V] = {}, sum = 0;
    struct row_sums sums = {0, 0, 0};
#pragma unroll
    for (int i = 0; i < GROUPS; i++) {
        const unsigned c = (i * WARP + lane) * V;
        if (c < width) {
            load<T, V>(in + row * width + c, x[i]);
            load<T, V>(gradient + row * width + c, g[i]);
        }
#pragma unroll
        for (int v = 0; v < V; v++) {
            sum += x[i][v];
        }
    }
    const float mean = sum_warp(sum) / (float)width;
#pragma unroll
    for (int i = 0; i < GROUPS; i++) {
        const unsigned c = (i * WARP + lane) * V;
        if (c < width) {
            float factor[V];
            load_floats<V>(factors + c, factor);
#pragma unroll
            for (int v = 0; v < V; v++) {
                x[i][v] -= mean;
                g[i][v] *= factor[v];
                sums.squares += x[i][v] * x[i][v];
                sums.level += g[i][v];
                sums.tilt += g[i][v] * x[i][v];
            }
        }
    }
    const float scale = settle_row(&sums, width, epsilon);
#pragma unroll
    for (int i = 0; i < GROUPS; i++) {
        const unsigned c = (i * WARP + lane) * V;
        if (to && c < width) {
            float before[V] = {};
            if (adds) {
                load<T, V>(to + row * width + c, before);
            }
#pragma unroll
            for (int v = 0; v < V; v++) {
                before[v] += scale * (g[i][v] - sums.level - x[i][v] * sums.tilt);
            }
            store<T, V>(before, to + row * width + c);
        }
    }
    keep_means(row, mean, scale, means);
}

/* The same for rows of any width, which are read three times. */
template <class T>
__global__ void norm_rows_wide(size_t rows, unsigned width, float epsilon, const float *factors, const T *in, const T *gradient,
                               bool adds, T *to, float *means) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const unsigned lane = threadIdx.x % WARP;
    if (row >= rows) {
        return;
    }
    const T *x = in + row * width, *g = gradient + row * width;
    struct row_sums sums = {0, 0, 0};
    float sum = 0;
    for (unsigned c = lane; c < width; c += WARP) {
        sum += widen(x[c]);
    }
    const float mean = sum_warp(sum) / (float)width;
    for (unsigned c = lane; c < width; c += WARP) {
        const float apart = widen(x[c]) - mean, part = widen(g[c]) * factors[c];
        sums.squares += apart * apart;
        sums.level += part;
        sums.tilt += part * apart;
    }
    const float scale = settle_row(&sums, width, epsilon);
    for (unsigned c = lane; to && c < width; c += WARP) {
        const float made = scale * (widen(g[c]) * factors[c] - sums.level - (widen(x[c]) - mean) * sums.tilt);
        narrow((adds ? widen(to[row * width + c]) : 0.0F) + made, to + row * width + c);
    }
    keep_means(row, mean, scale, means);
}

template <class T>
cudaError_t norm_rows_all(cudaStream_t stream, size_t rows, size_t width, float epsilon, const float *factors, const T *in,
                          const T *gradient, bool adds, T *to, float *means) {
    enum { V = wide<T>::COUNT };
    const unsigned blocks = (unsigned)((rows + WARPS - 1) / WARPS), wanted = (unsigned)width;
    const size_t groups = (width + WARP * V - 1) / (WARP * V);
#define LAUNCH_ROWS(kernel)                                                                                                        \
    LAUNCH(kernel, blocks, THREADS, 0, stream, rows, wanted, epsilon, factors, in, gradient, adds, to, means)
    if (!divides<T>(width) || groups > 8) {
        return LAUNCH_ROWS(norm_rows_wide<T>);
    }
    return groups <= 1   ? LAUNCH_ROWS((norm_rows<T, V, 1>))
           : groups <= 2 ? LAUNCH_ROWS((norm_rows<T, V, 2>))
           : groups <= 3 ? LAUNCH_ROWS((norm_rows<T, V, 3>))
           : groups <= 4 ? LAUNCH_ROWS((norm_rows<T, V, 4>))
           : groups <= 6 ? LAUNCH_ROWS((norm_rows<T, V, 6>))
                         : LAUNCH_ROWS((norm_rows<T, V, 8>));
#undef LAUNCH_ROWS
}

template <class T>
cudaError_t apply_all(cudaStream_t stream, const struct net_affine *affine, const T *in, const T *added, T *out) {
    enum { V = wide<T>::COUNT };
    const size_t count = affine->rows * affine->channels;
    return divides<T>(affine->channels) ? LAUNCH((apply<T, V>), blocks_of(count / V), THREADS, 0, stream, *affine, in, added, out)
                                        : LAUNCH((apply<T, 1>), blocks_of(count), THREADS, 0, stream, *affine, in, added, out);
}

template <class T>
cudaError_t spread_all(cudaStream_t stream, const struct net_affine *affine, const float *shares, const T *in, const T *gradient,
                       T *to) {
    enum { V = wide<T>::COUNT };
    const size_t count = affine->rows * affine->channels;
    return divides<T>(affine->channels)
               ? LAUNCH((spread<T, V>), blocks_of(count / V), THREADS, 0, stream, *affine, shares, in, gradient, to)
               : LAUNCH((spread<T, 1>), blocks_of(count), THREADS, 0, stream, *affine, shares, in, gradient, to);
}

} // namespace

cudaError_t net_affine_settle(cudaStream_t stream, const struct net_affine *affine, const double *parts, float *kept_mean,
                              float *kept_variance) {
    return LAUNCH(settle, blocks_of_channels(affine->channels), THREADS, 0, stream, *affine,
                  net_sum_parts(affine->rows, affine->channels), parts, kept_mean, kept_variance);
}

cudaError_t net_affine_apply(cudaStream_t stream, enum number_type type, const struct net_affine *affine, const void *in,
                             const void *added, void *out) {
    OF_TYPE(type, apply_all<T>(stream, affine, (const T *)in, (const T *)added, (T *)out));
}

cudaError_t net_affine_gradients(cudaStream_t stream, const struct net_affine *affine, const double *parts, float *factors,
                                 float *bias, float *shares) {
    return LAUNCH(settle_gradients, blocks_of_channels(affine->channels), THREADS, 0, stream, *affine,
                  net_sum_parts(affine->rows, affine->channels), parts, factors, bias, shares);
}

cudaError_t net_affine_spread(cudaStream_t stream, enum number_type type, const struct net_affine *affine, const float *shares,
                              const void *in, const void *gradient, void *to) {
    OF_TYPE(type, spread_all<T>(stream, affine, shares, (const T *)in, (const T *)gradient, (T *)to));
}

cudaError_t net_norm_rows(cudaStream_t stream, enum number_type type, size_t rows, size_t width, float epsilon,
                          const float *factors, const void *in, const void *gradient, bool adds, void *to, float *means) {
    OF_TYPE(type,
            norm_rows_all<T>(stream, rows, width, epsilon, factors, (const T *)in, (const T *)gradient, adds, (T *)to, means));
}
