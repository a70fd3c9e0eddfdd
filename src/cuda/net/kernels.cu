/* Pixels and numbers. A thread makes one number, or those of 16 bytes where channels can be divided like that. */
#include "cuda/net/parts.h"

namespace {

/* ---- What comes first and last ---- */

template <class T> __global__ void convert(size_t count, const float *from, T *to) {
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += (size_t)gridDim.x * THREADS) {
        narrow(from[i], to + i);
    }
}

template <class T> cudaError_t convert_all(cudaStream_t stream, size_t count, const float *from, T *to) {
    const size_t blocks = (count + THREADS - 1) / THREADS;
    return LAUNCH(convert<T>, (unsigned)(blocks < 65536 ? blocks : 65536), THREADS, 0, stream, count, from, to);
}

template <class T>
__global__ void pack_factors(size_t in, size_t pixels, size_t channels, size_t room, const float *from, T *to) {
    const size_t out = blockIdx.y;
    for (size_t i = own_number(); i < room; i += (size_t)gridDim.x * THREADS) {
        const size_t c = i % channels, pixel = i / channels;
        narrow(c < in && pixel < pixels ? from[(out * in + c) * pixels + pixel] : 0.0F, to + out * room + i);
    }
}

template <class T> __global__ void pad_channels(unsigned channels, unsigned pixels, const float *pictures, T *to) {
    const unsigned pixel = own_number();
    if (pixel < pixels) {
        const float *own = pictures + (size_t)blockIdx.y * channels * pixels + pixel;
        T *made = to + ((size_t)blockIdx.y * pixels + pixel) * PADDED;
        float numbers[PADDED] = {};
        for (unsigned c = 0; c < channels; c++) {
            numbers[c] = own[(size_t)c * pixels];
        }
        for (int i = 0; i < PADDED; i += wide<T>::COUNT) {
            store<T, wide<T>::COUNT>(numbers + i, made + i);
        }
    }
}

template <class T> __global__ void make_planes(unsigned channels, unsigned pixels, const T *from, float *to) {
    const unsigned i = own_number();
    if (i < channels * pixels) {
        const size_t picture = (size_t)blockIdx.y * channels * pixels;
        to[picture + i] = widen(from[picture + (size_t)(i % pixels) * channels + i / pixels]);
    }
}

template <class T> __global__ void space_to_depth(struct shape from, unsigned side, const float *pictures, T *to) {
    const unsigned i = own_number(), channels = (unsigned)(from.channels * side * side);
    const unsigned width = (unsigned)from.width / side, pixels = (unsigned)from.height / side * width;
    if (i < channels * pixels) {
        const unsigned c = i % channels, x = i / channels % width, y = i / channels / width;
        const unsigned plane = c % (unsigned)from.channels, dx = c / (unsigned)from.channels % side;
        const unsigned dy = c / (unsigned)from.channels / side;
        const size_t at = ((size_t)blockIdx.y * from.channels + plane) * from.height + y * side + dy;
        narrow(pictures[at * from.width + x * side + dx], to + (size_t)blockIdx.y * channels * pixels + i);
    }
}

/* Row y of a plane is cut into pieces of a patch's side, V numbers a thread. The threads of a block share a plane. */
template <class T, int V> __global__ void cut_patches(struct shape from, unsigned side, const float *pictures, T *to) {
    const unsigned width = (unsigned)from.width, used = width / side * side, plane = blockIdx.y % (unsigned)from.channels;
    const unsigned at = own_number() * V, y = at / used, x = at % used, rows = (unsigned)from.height / side * side;
    const size_t picture = blockIdx.y / (unsigned)from.channels;
    if (y >= rows) {
        return;
    }
    const float *numbers = pictures + ((picture * from.channels + plane) * from.height + y) * width + x;
    const size_t patch = (picture * (rows / side) + y / side) * (width / side) + x / side;
    T *made = to + ((patch * from.channels + plane) * side + y % side) * side + x % side;
    float row[V];
#pragma unroll
    for (int v = 0; v < V; v++) {
        row[v] = numbers[v];
    }
    store<T, V>(row, made);
}

template <class T>
cudaError_t patches_all(cudaStream_t stream, size_t count, struct shape from, size_t side, const float *pictures, T *to) {
    enum { V = wide<T>::COUNT };
    const size_t each = from.height / side * side * (from.width / side * side);
    return divides<T>(side) ? LAUNCH((cut_patches<T, V>), grid_of(count * from.channels, each / V), THREADS, 0, stream, from,
                                     (unsigned)side, pictures, to)
                            : LAUNCH((cut_patches<T, 1>), grid_of(count * from.channels, each), THREADS, 0, stream, from,
                                     (unsigned)side, pictures, to);
}

/* ---- Windows ---- */

template <class T, int V> __global__ void unfold(window_shape shape, unsigned room, const T *from, T *to) {
    const unsigned i = own_number() * V, pixels = shape.made_height * shape.made_width;
    if (i >= pixels * room) {
        return;
    }
    const unsigned column = i % room, pixel = i / room, c = column % shape.channels, at = column / shape.channels;
    const int y = window_start(shape, pixel / shape.made_width) + (int)(at / shape.kernel);
    const int x = window_start(shape, pixel % shape.made_width) + (int)(at % shape.kernel);
    const bool inside = at < shape.kernel * shape.kernel && y >= 0 && y < (int)shape.height && x >= 0 && x < (int)shape.width;
    float numbers[V] = {};
    if (inside) {
        load<T, V>(from + (((size_t)blockIdx.y * shape.height + (unsigned)y) * shape.width + (unsigned)x) * shape.channels + c,
                   numbers);
    }
    store<T, V>(numbers, to + (size_t)blockIdx.y * pixels * room + i);
}

template <class T> __global__ void unfold_planes(window_shape shape, unsigned room, const float *pictures, T *to) {
    const unsigned i = own_number(), pixels = shape.made_height * shape.made_width;
    if (i >= pixels * room) {
        return;
    }
    const unsigned column = i % room, pixel = i / room, c = column % shape.channels, at = column / shape.channels;
    const int y = window_start(shape, pixel / shape.made_width) + (int)(at / shape.kernel);
    const int x = window_start(shape, pixel % shape.made_width) + (int)(at % shape.kernel);
    const bool inside = at < shape.kernel * shape.kernel && y >= 0 && y < (int)shape.height && x >= 0 && x < (int)shape.width;
    const size_t plane = (size_t)blockIdx.y * shape.channels + c;
    narrow(inside ? pictures[(plane * shape.height + (unsigned)y) * shape.width + (unsigned)x] : 0.0F,
           to + (size_t)blockIdx.y * pixels * room + i);
}

template <class T>
__global__ void convolve(window_shape shape, unsigned groups, const T *factors, const T *from, T *to) {
    const unsigned i = own_number(), pixels = shape.made_height * shape.made_width, made = shape.made_channels;
    if (i >= pixels * made) {
        return;
    }
    const unsigned out = i % made, pixel = i / made, in = shape.channels / groups, first = out / (made / groups) * in;
    const int top = window_start(shape, pixel / shape.made_width), left = window_start(shape, pixel % shape.made_width);
    float sum = 0;
    for (unsigned ky = 0; ky < shape.kernel; ky++) {
        for (unsigned kx = 0; kx < shape.kernel; kx++) {
            const int y = top + (int)ky, x = left + (int)kx;
            if (y >= 0 && y < (int)shape.height && x >= 0 && x < (int)shape.width) {
                const size_t pixel_in = ((size_t)blockIdx.y * shape.height + (unsigned)y) * shape.width + (unsigned)x;
                const T *pixel_from = from + pixel_in * shape.channels + first;
                const T *own = factors + ((size_t)out * shape.kernel * shape.kernel + ky * shape.kernel + kx) * in;
                for (unsigned c = 0; c < in; c++) {
                    sum += widen(pixel_from[c]) * widen(own[c]);
                }
            }
        }
    }
    narrow(sum, to + (size_t)blockIdx.y * pixels * made + i);
}

/* Windows leave out what is beyond the edge. */
template <class T, int V> __global__ void pool(window_shape shape, bool largest, const T *from, T *to) {
    const unsigned i = own_number() * V, pixels = shape.made_height * shape.made_width;
    if (i >= pixels * shape.channels) {
        return;
    }
    const unsigned c = i % shape.channels, pixel = i / shape.channels;
    const int top = window_start(shape, pixel / shape.made_width), left = window_start(shape, pixel % shape.made_width);
    const int y_first = max(top, 0), y_last = min(top + (int)shape.kernel, (int)shape.height);
    const int x_first = max(left, 0), x_last = min(left + (int)shape.kernel, (int)shape.width);
    float sums[V];
    for (int v = 0; v < V; v++) {
        sums[v] = largest ? -INFINITY : 0.0F;
    }
    for (int y = y_first; y < y_last; y++) {
        for (int x = x_first; x < x_last; x++) {
            float numbers[V];
            load<T, V>(from + (((size_t)blockIdx.y * shape.height + (unsigned)y) * shape.width + (unsigned)x) * shape.channels + c,
                       numbers);
            for (int v = 0; v < V; v++) {
                sums[v] = largest ? fmaxf(sums[v], numbers[v]) : sums[v] + numbers[v];
            }
        }
    }
    const float share = largest ? 1.0F : 1.0F / (float)((y_last - y_first) * (x_last - x_first));
    for (int v = 0; v < V; v++) {
        sums[v] *= share;
    }
    store<T, V>(sums, to + (size_t)blockIdx.y * pixels * shape.channels + i);
}

template <class T, int V> __global__ void blur(struct shape from, unsigned height, unsigned width, const T *values, T *to) {
    const unsigned i = own_number() * V, channels = (unsigned)from.channels;
    if (i >= height * width * channels) {
        return;
    }
    const unsigned c = i % channels, x = i / channels % width, y = i / channels / width;
    float sums[V] = {};
    for (int dy = -1; dy <= 1; dy++) {
        for (int dx = -1; dx <= 1; dx++) {
            const size_t row = (size_t)blockIdx.y * from.height + mirrored((int)(2 * y) + dy, (unsigned)from.height);
            const float share = (dy ? 0.25F : 0.5F) * (dx ? 0.25F : 0.5F);
            float numbers[V];
            load<T, V>(values + (row * from.width + mirrored((int)(2 * x) + dx, (unsigned)from.width)) * channels + c, numbers);
            for (int v = 0; v < V; v++) {
                sums[v] += share * numbers[v];
            }
        }
    }
    store<T, V>(sums, to + (size_t)blockIdx.y * height * width * channels + i);
}

/* ---- Numbers by themselves ---- */

__device__ __forceinline__ float activated(enum activation activation, float slope, float x) {
    switch (activation) {
    case RELU: return fmaxf(x, 0.0F);
    case LEAKY_RELU: return x > 0 ? x : slope * x;
    case GELU: return 0.5F * x * (1.0F + erff(x * 0.707106781F));
    case QUICK_GELU: return x * sigmoid(1.702F * x);
    case TANH_GELU: return x * sigmoid(1.59576912F * (x + 0.044715F * x * x * x));
    default: return x;
    }
}

template <class T, int V>
__global__ void finish(enum activation activation, float slope, size_t count, unsigned channels, const T *bias, const T *added,
                       const T *from, T *to) {
    for (size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) * V; i < count; i += (size_t)gridDim.x * THREADS * V) {
        float numbers[V], more[V];
        load<T, V>(from + i, numbers);
        if (bias) {
            load<T, V>(bias + i % channels, more);
            for (int v = 0; v < V; v++) {
                numbers[v] += more[v];
            }
        }
        if (added) {
            load<T, V>(added + i, more);
            for (int v = 0; v < V; v++) {
                numbers[v] += more[v];
            }
        }
        for (int v = 0; v < V; v++) {
            numbers[v] = activated(activation, slope, numbers[v]);
        }
        store<T, V>(numbers, to + i);
    }
}

template <class T, int V>
__global__ void scale(size_t count, unsigned channels, const float *factors, const float *bias, const T *from, T *to) {
    for (size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) * V; i < count; i += (size_t)gridDim.x * THREADS * V) {
        const unsigned c = (unsigned)(i % channels);
        float numbers[V];
        load<T, V>(from + i, numbers);
        for (int v = 0; v < V; v++) {
            numbers[v] = numbers[v] * factors[c + v] + (bias ? bias[c + v] : 0.0F);
        }
        store<T, V>(numbers, to + i);
    }
}

template <class T>
cudaError_t finish_all(cudaStream_t stream, enum activation activation, float slope, size_t rows, size_t channels, const T *bias,
                       const T *added, const T *from, T *to) {
    enum { V = wide<T>::COUNT };
    const size_t count = rows * channels;
    return divides<T>(channels) ? LAUNCH((finish<T, V>), blocks_of(count / V), THREADS, 0, stream, activation, slope, count,
                                         (unsigned)channels, bias, added, from, to)
                                : LAUNCH((finish<T, 1>), blocks_of(count), THREADS, 0, stream, activation, slope, count,
                                         (unsigned)channels, bias, added, from, to);
}

template <class T>
cudaError_t scale_all(cudaStream_t stream, size_t rows, size_t channels, const float *factors, const float *bias, const T *from,
                      T *to) {
    enum { V = wide<T>::COUNT };
    const size_t count = rows * channels;
    return divides<T>(channels)
               ? LAUNCH((scale<T, V>), blocks_of(count / V), THREADS, 0, stream, count, (unsigned)channels, factors, bias, from, to)
               : LAUNCH((scale<T, 1>), blocks_of(count), THREADS, 0, stream, count, (unsigned)channels, factors, bias, from, to);
}

template <class T>
__global__ void copy_rows(size_t width, const T *from, size_t from_step, T *to, size_t to_step) {
    for (size_t i = own_number(); i < width; i += (size_t)gridDim.x * THREADS) {
        to[blockIdx.y * to_step + i] = from[blockIdx.y * from_step + i];
    }
}

template <class T> __global__ void repeat(size_t size, const float *values, T *to) {
    for (size_t i = own_number(); i < size; i += (size_t)gridDim.x * THREADS) {
        narrow(values[i], to + blockIdx.y * size + i);
    }
}

} // namespace

cudaError_t net_convert(cudaStream_t stream, enum number_type type, size_t count, const float *from, void *to) {
    OF_TYPE(type, convert_all<T>(stream, count, from, (T *)to));
}

cudaError_t net_pack_factors(cudaStream_t stream, enum number_type type, size_t out, size_t in, size_t pixels, size_t channels,
                             size_t room, const float *from, void *to) {
    OF_TYPE(type, LAUNCH(pack_factors<T>, grid_of(out, room), THREADS, 0, stream, in, pixels, channels, room, from, (T *)to));
}

cudaError_t net_pad(cudaStream_t stream, enum number_type type, size_t count, struct shape from, const float *pictures, void *to) {
    const unsigned pixels = (unsigned)(from.height * from.width);
    OF_TYPE(type, LAUNCH(pad_channels<T>, grid_of(count, pixels), THREADS, 0, stream, (unsigned)from.channels, pixels, pictures,
                         (T *)to));
}

cudaError_t net_planes(cudaStream_t stream, enum number_type type, size_t count, struct shape shape, const void *from,
                          float *to) {
    const unsigned pixels = (unsigned)(shape.height * shape.width);
    OF_TYPE(type, LAUNCH(make_planes<T>, grid_of(count, shape.channels * pixels), THREADS, 0, stream, (unsigned)shape.channels,
                         pixels, (const T *)from, to));
}

cudaError_t net_space_to_depth(cudaStream_t stream, enum number_type type, size_t count, struct shape from, size_t side,
                                  const float *pictures, void *to) {
    OF_TYPE(type, LAUNCH(space_to_depth<T>, grid_of(count, from.channels * from.height * from.width), THREADS, 0, stream, from,
                         (unsigned)side, pictures, (T *)to));
}

cudaError_t net_patches(cudaStream_t stream, enum number_type type, size_t count, struct shape from, size_t side,
                        const float *pictures, void *to) {
    OF_TYPE(type, patches_all<T>(stream, count, from, side, pictures, (T *)to));
}

cudaError_t net_unfold(cudaStream_t stream, enum number_type type, size_t count, const struct windows *windows, bool planes,
                          size_t room, const void *from, void *to) {
    const window_shape shape = window_shape_of(windows);
    const size_t each = windows->to.height * windows->to.width * room;
    if (planes) {
        OF_TYPE(type, LAUNCH(unfold_planes<T>, grid_of(count, each), THREADS, 0, stream, shape, (unsigned)room,
                             (const float *)from, (T *)to));
    }
    OF_TYPE(type, LAUNCH_NUMBERS(unfold, count, each, windows->from.channels, shape, (unsigned)room, (const T *)from, (T *)to));
}

cudaError_t net_convolve(cudaStream_t stream, enum number_type type, size_t count, const struct windows *windows, size_t groups,
                            const void *factors, const void *from, void *to) {
    const struct shape *made = &windows->to;
    OF_TYPE(type, LAUNCH(convolve<T>, grid_of(count, made->channels * made->height * made->width), THREADS, 0, stream,
                         window_shape_of(windows), (unsigned)groups, (const T *)factors, (const T *)from, (T *)to));
}

cudaError_t net_pool(cudaStream_t stream, enum number_type type, size_t count, const struct windows *windows, bool largest,
                        const void *from, void *to) {
    const window_shape shape = window_shape_of(windows);
    const struct shape *made = &windows->to;
    OF_TYPE(type, LAUNCH_NUMBERS(pool, count, made->channels * made->height * made->width, made->channels, shape, largest,
                                 (const T *)from, (T *)to));
}

cudaError_t net_blur(cudaStream_t stream, enum number_type type, size_t count, struct shape from, struct shape to,
                        const void *values, void *made) {
    OF_TYPE(type, LAUNCH_NUMBERS(blur, count, to.channels * to.height * to.width, to.channels, from, (unsigned)to.height,
                                 (unsigned)to.width, (const T *)values, (T *)made));
}

cudaError_t net_finish(cudaStream_t stream, enum number_type type, enum activation activation, float slope, size_t rows,
                          size_t channels, const void *bias, const void *added, const void *from, void *to) {
    OF_TYPE(type, finish_all<T>(stream, activation, slope, rows, channels, (const T *)bias, (const T *)added, (const T *)from,
                                (T *)to));
}

cudaError_t net_scale(cudaStream_t stream, enum number_type type, size_t rows, size_t channels, const float *factors,
                         const float *bias, const void *from, void *to) {
    OF_TYPE(type, scale_all<T>(stream, rows, channels, factors, bias, (const T *)from, (T *)to));
}

cudaError_t net_copy_rows(cudaStream_t stream, enum number_type type, size_t count, size_t width, const void *from,
                             size_t from_step, void *to, size_t to_step) {
    OF_TYPE(type, LAUNCH(copy_rows<T>, grid_of(count, width), THREADS, 0, stream, width, (const T *)from, from_step, (T *)to,
                         to_step));
}

cudaError_t net_repeat(cudaStream_t stream, enum number_type type, size_t count, size_t size, const float *values, void *to) {
    OF_TYPE(type, LAUNCH(repeat<T>, grid_of(count, size), THREADS, 0, stream, size, values, (T *)to));
}
