/* The way back through windows. A thread makes one number of a gradient, or those of 16 bytes, from all windows that cover it. */
#include "cuda/net/parts.h"
#include "cuda/net/train_kernels.h"

namespace {

/* The window of which row `at` of the input is row `k`, in one direction. */
__device__ __forceinline__ bool window_with(const window_shape &shape, unsigned at, unsigned k, unsigned made, unsigned *found) {
    const int start = (int)at + shape.padding - (int)k;
    *found = (unsigned)start / shape.stride;
    return start >= 0 && (unsigned)start % shape.stride == 0 && *found < made;
}

template <class T, int V> __global__ void fold(window_shape shape, unsigned room, const T *columns, T *to) {
    const unsigned i = own_number() * V, pixels = shape.height * shape.width;
    if (i >= pixels * shape.channels) {
        return;
    }
    const unsigned c = i % shape.channels, x = i / shape.channels % shape.width, y = i / shape.channels / shape.width;
    float sums[V] = {};
    for (unsigned ky = 0; ky < shape.kernel; ky++) {
        for (unsigned kx = 0; kx < shape.kernel; kx++) {
            unsigned row, column;
            if (window_with(shape, y, ky, shape.made_height, &row) && window_with(shape, x, kx, shape.made_width, &column)) {
                const size_t window = ((size_t)blockIdx.y * shape.made_height + row) * shape.made_width + column;
                float numbers[V];
                load<T, V>(columns + window * room + (ky * shape.kernel + kx) * shape.channels + c, numbers);
                for (int v = 0; v < V; v++) {
                    sums[v] += numbers[v];
                }
            }
        }
    }
    store<T, V>(sums, to + (size_t)blockIdx.y * pixels * shape.channels + i);
}

/* ---- Convolutions with groups: factors [out][pixels][in / groups] ---- */

template <class T> __global__ void convolve_input(window_shape shape, unsigned groups, const T *factors, const T *gradient, T *to) {
    const unsigned i = own_number(), pixels = shape.height * shape.width;
    if (i >= pixels * shape.channels) {
        return;
    }
    const unsigned c = i % shape.channels, x = i / shape.channels % shape.width, y = i / shape.channels / shape.width;
    const unsigned in = shape.channels / groups, outs = shape.made_channels / groups, first = c / in * outs;
    const unsigned taps = shape.kernel * shape.kernel;
    float sum = 0;
    for (unsigned k = 0; k < taps; k++) {
        unsigned row, column;
        if (window_with(shape, y, k / shape.kernel, shape.made_height, &row) &&
            window_with(shape, x, k % shape.kernel, shape.made_width, &column)) {
            const size_t window = ((size_t)blockIdx.y * shape.made_height + row) * shape.made_width + column;
            for (unsigned o = first; o < first + outs; o++) {
                sum += widen(gradient[window * shape.made_channels + o]) * widen(factors[((size_t)o * taps + k) * in + c % in]);
            }
        }
    }
    narrow(sum, to + (size_t)blockIdx.y * pixels * shape.channels + i);
}

/* One row of windows for a factor. */
template <class T>
__device__ __forceinline__ float row_of_windows(const window_shape &shape, unsigned out, unsigned c, unsigned kx, const T *from,
                                                const T *gradient) {
    float sum = 0;
    for (unsigned x = 0; x < shape.made_width; x++) {
        const int column = window_start(shape, x) + (int)kx;
        if (column >= 0 && column < (int)shape.width) {
            sum += widen(gradient[x * shape.made_channels + out]) * widen(from[(unsigned)column * shape.channels + c]);
        }
    }
    return sum;
}

/* A thread has a factor, and a part of the rows of windows of all pictures. Threads side by side have outputs side by side. */
template <class T>
__global__ void convolve_factors(window_shape shape, unsigned groups, size_t count, const T *from, const T *gradient,
                                 double *parts) {
    const unsigned in = shape.channels / groups, taps = shape.kernel * shape.kernel, i = own_number();
    const unsigned factors = shape.made_channels * taps * in;
    if (i >= factors) {
        return;
    }
    const unsigned out = i % shape.made_channels, k = i / shape.made_channels % taps, inner = i / shape.made_channels / taps;
    const unsigned c = out / (shape.made_channels / groups) * in + inner;
    const size_t rows = count * shape.made_height, begin = rows * blockIdx.y / gridDim.y, end = rows * (blockIdx.y + 1) / gridDim.y;
    double sum = 0;
    for (size_t row = begin; row < end; row++) {
        const int y = window_start(shape, (unsigned)(row % shape.made_height)) + (int)(k / shape.kernel);
        if (y >= 0 && y < (int)shape.height) {
            const size_t line = row / shape.made_height * shape.height + (unsigned)y;
            sum += (double)row_of_windows(shape, out, c, k % shape.kernel, from + line * shape.width * shape.channels,
                                          gradient + row * shape.made_width * shape.made_channels);
        }
    }
    parts[(size_t)blockIdx.y * factors + i] = sum;
}

/* to [out][in][taps] */
__global__ void end_factors(unsigned outs, unsigned taps, unsigned in, unsigned count, const double *parts, float *to) {
    const unsigned i = own_number(), factors = outs * taps * in;
    double sum = 0;
    if (i >= factors) {
        return;
    }
    for (unsigned part = 0; part < count; part++) {
        sum += parts[(size_t)part * factors + i];
    }
    const unsigned out = i % outs, k = i / outs % taps, inner = i / outs / taps;
    to[((size_t)out * in + inner) * taps + k] = (float)sum;
}

/* Parts for a large device to be busy with few factors. */
size_t factor_parts(size_t count, const struct windows *windows, size_t groups) {
    const size_t factors = windows->to.channels * windows->kernel * windows->kernel * (windows->from.channels / groups);
    const size_t wanted = ((size_t)1 << 18) / factors, rows = count * windows->to.height, most = wanted < rows ? wanted : rows;
    return most < 1 ? 1 : most < 256 ? most : 256;
}

template <class T>
cudaError_t factors_all(cudaStream_t stream, size_t count, const struct windows *windows, size_t groups, const T *from,
                        const T *gradient, double *parts, float *to) {
    const size_t in = windows->from.channels / groups, taps = windows->kernel * windows->kernel, outs = windows->to.channels;
    const size_t all = factor_parts(count, windows, groups);
    const cudaError_t code = LAUNCH(convolve_factors<T>, grid_of(all, outs * taps * in), THREADS, 0, stream,
                                    window_shape_of(windows), (unsigned)groups, count, from, gradient, parts);
    return code != cudaSuccess ? code
                               : LAUNCH(end_factors, grid_of(1, outs * taps * in), THREADS, 0, stream, (unsigned)outs,
                                        (unsigned)taps, (unsigned)in, (unsigned)all, parts, to);
}

/* ---- Pools ---- */

/* Whether a pixel of the input is the first of a window that has its largest number. */
template <class T>
__device__ __forceinline__ bool is_first(const window_shape &shape, unsigned row, unsigned column, unsigned k, float largest,
                                         const T *from) {
    const int top = window_start(shape, row), left = window_start(shape, column);
    for (unsigned i = 0; i < k; i++) {
        const int y = top + (int)(i / shape.kernel), x = left + (int)(i % shape.kernel);
        const bool inside = y >= 0 && y < (int)shape.height && x >= 0 && x < (int)shape.width;
        if (inside && widen(from[((size_t)y * shape.width + (unsigned)x) * shape.channels]) == largest) {
            return false;
        }
    }
    return true;
}

/* from is NULL for means, whose windows share nothing and leave out what is beyond the edge. */
template <class T> __global__ void unpool(window_shape shape, const T *from, const T *made, const T *gradient, T *to) {
    const unsigned i = own_number(), channels = shape.channels, pixels = shape.height * shape.width;
    if (i >= pixels * channels) {
        return;
    }
    const unsigned c = i % channels, x = i / channels % shape.width, y = i / channels / shape.width;
    const size_t picture = (size_t)blockIdx.y * pixels * channels + c;
    const size_t out = (size_t)blockIdx.y * shape.made_height * shape.made_width * channels + c;
    const float own = from ? widen(from[picture + (i - c)]) : 0.0F;
    float sum = 0;
    for (unsigned k = 0; k < shape.kernel * shape.kernel; k++) {
        unsigned row, column;
        if (window_with(shape, y, k / shape.kernel, shape.made_height, &row) &&
            window_with(shape, x, k % shape.kernel, shape.made_width, &column)) {
            const size_t at = out + ((size_t)row * shape.made_width + column) * channels;
            if (!from) {
                const int top = window_start(shape, row), left = window_start(shape, column);
                const int rows = min(top + (int)shape.kernel, (int)shape.height) - max(top, 0);
                const int columns = min(left + (int)shape.kernel, (int)shape.width) - max(left, 0);
                sum += widen(gradient[at]) * (1.0F / (float)(rows * columns));
            } else if (widen(made[at]) == own && is_first(shape, row, column, k, own, from + picture)) {
                sum += widen(gradient[at]);
            }
        }
    }
    narrow(sum, to + picture + (i - c));
}

/* How much of row `at` is in row `made` of what is blurred. */
__device__ __forceinline__ float blur_share(unsigned at, unsigned made, unsigned size) {
    float share = 0;
    for (int d = -1; d <= 1; d++) {
        share += mirrored((int)(2 * made) + d, size) == at ? (d ? 0.25F : 0.5F) : 0.0F;
    }
    return share;
}

template <class T, int V> __global__ void unblur(struct shape from, unsigned height, unsigned width, const T *gradient, T *to) {
    const unsigned i = own_number() * V, channels = (unsigned)from.channels, across = (unsigned)from.width;
    const unsigned down = (unsigned)from.height;
    if (i >= down * across * channels) {
        return;
    }
    const unsigned c = i % channels, x = i / channels % across, y = i / channels / across;
    float sums[V] = {};
    for (unsigned row = y / 2 ? y / 2 - 1 : 0; row < height && row <= y / 2 + 1; row++) {
        for (unsigned column = x / 2 ? x / 2 - 1 : 0; column < width && column <= x / 2 + 1; column++) {
            const float share = blur_share(y, row, down) * blur_share(x, column, across);
            float numbers[V];
            load<T, V>(gradient + (((size_t)blockIdx.y * height + row) * width + column) * channels + c, numbers);
            for (int v = 0; v < V; v++) {
                sums[v] += share * numbers[v];
            }
        }
    }
    store<T, V>(sums, to + (size_t)blockIdx.y * down * across * channels + i);
}

} // namespace

cudaError_t net_fold(cudaStream_t stream, enum number_type type, size_t count, const struct windows *windows, size_t room,
                     const void *columns, void *to) {
    const struct shape *from = &windows->from;
    OF_TYPE(type, LAUNCH_NUMBERS(fold, count, from->channels * from->height * from->width, from->channels, window_shape_of(windows),
                                 (unsigned)room, (const T *)columns, (T *)to));
}

cudaError_t net_convolve_input(cudaStream_t stream, enum number_type type, size_t count, const struct windows *windows,
                               size_t groups, const void *factors, const void *gradient, void *to) {
    const struct shape *from = &windows->from;
    OF_TYPE(type, LAUNCH(convolve_input<T>, grid_of(count, from->channels * from->height * from->width), THREADS, 0, stream,
                         window_shape_of(windows), (unsigned)groups, (const T *)factors, (const T *)gradient, (T *)to));
}

size_t net_convolve_bytes(size_t count, const struct windows *windows, size_t groups) {
    return factor_parts(count, windows, groups) * windows->to.channels * windows->kernel * windows->kernel *
           (windows->from.channels / groups) * sizeof(double);
}

cudaError_t net_convolve_factors(cudaStream_t stream, enum number_type type, size_t count, const struct windows *windows,
                                 size_t groups, const void *from, const void *gradient, double *parts, float *to) {
    OF_TYPE(type, factors_all<T>(stream, count, windows, groups, (const T *)from, (const T *)gradient, parts, to));
}

cudaError_t net_unpool(cudaStream_t stream, enum number_type type, size_t count, const struct windows *windows, const void *from,
                       const void *made, const void *gradient, void *to) {
    const struct shape *shape = &windows->from;
    OF_TYPE(type, LAUNCH(unpool<T>, grid_of(count, shape->channels * shape->height * shape->width), THREADS, 0, stream,
                         window_shape_of(windows), (const T *)from, (const T *)made, (const T *)gradient, (T *)to));
}

cudaError_t net_unblur(cudaStream_t stream, enum number_type type, size_t count, struct shape from, struct shape to,
                       const void *gradient, void *made) {
    OF_TYPE(type, LAUNCH_NUMBERS(unblur, count, from.channels * from.height * from.width, from.channels, from, (unsigned)to.height,
                                 (unsigned)to.width, (const T *)gradient, (T *)made));
}
