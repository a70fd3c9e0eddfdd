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

/* A warp has a row. */
template <class T>
__global__ void norm_rows(size_t rows, unsigned width, float epsilon, const float *factors, const T *in, const T *gradient,
                          bool adds, T *to, float *means) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const unsigned lane = threadIdx.x % WARP;
    if (row >= rows) {
        return;
    }
    const T *x = in + row * width, *g = gradient + row * width;
    float sum = 0, squares = 0, level = 0, tilt = 0;
    for (unsigned c = lane; c < width; c += WARP) {
        sum += widen(x[c]);
    }
    const float mean = sum_warp(sum) / (float)width;
    for (unsigned c = lane; c < width; c += WARP) {
        const float apart = widen(x[c]) - mean, part = widen(g[c]) * factors[c];
        squares += apart * apart;
        level += part;
        tilt += part * apart;
    }
    const float scale = rsqrtf(sum_warp(squares) / (float)width + epsilon);
    level = sum_warp(level) / (float)width;
    tilt = sum_warp(tilt) / (float)width * scale * scale;
    for (unsigned c = lane; to && c < width; c += WARP) {
        const float made = scale * (widen(g[c]) * factors[c] - level - (widen(x[c]) - mean) * tilt);
        narrow((adds ? widen(to[row * width + c]) : 0.0F) + made, to + row * width + c);
    }
    if (lane == 0) {
        means[2 * row] = mean;
        means[2 * row + 1] = scale;
    }
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
    OF_TYPE(type, LAUNCH(norm_rows<T>, (unsigned)((rows + WARPS - 1) / WARPS), THREADS, 0, stream, rows, (unsigned)width, epsilon,
                         factors, (const T *)in, (const T *)gradient, adds, (T *)to, means));
}
