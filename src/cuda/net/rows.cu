/* Tokens, and what is summed over rows or channels. Sums are always in the same order, so two runs give the same bytes. */
#include "cuda/net/parts.h"

namespace {

/* Of kernels whose blocks go through many rows; a large device works on about as many at a time. */
enum { MOST_BLOCKS = 1056 };

/* ---- Over the rows of a picture ---- */

/* A thread has V channels of each eighth row; then the sums of the eight are added. */
template <class T, int V, class Made>
__global__ void means(size_t rows, size_t first, unsigned channels, const T *from, Made *to) {
    __shared__ float sums[WARPS][WARP * V];
    const unsigned lane = threadIdx.x % WARP, group = threadIdx.x / WARP, c = (blockIdx.x * WARP + lane) * V;
    float sum[V] = {};
    for (size_t row = first + group; c < channels && row < rows; row += WARPS) {
        float numbers[V];
        load<T, V>(from + (blockIdx.y * rows + row) * channels + c, numbers);
        for (int v = 0; v < V; v++) {
            sum[v] += numbers[v];
        }
    }
    for (int v = 0; v < V; v++) {
        sums[group][lane * V + v] = sum[v];
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < WARP * V; i += THREADS) {
        const unsigned channel = blockIdx.x * WARP * V + i;
        float all = 0;
        for (int j = 0; j < WARPS; j++) {
            all += sums[j][i];
        }
        if (channel < channels) {
            narrow(all / (float)(rows - first), to + (size_t)blockIdx.y * channels + channel);
        }
    }
}

template <class T, class Made>
cudaError_t means_all(cudaStream_t stream, size_t count, size_t rows, size_t first, size_t channels, const T *from, Made *to) {
    enum { V = wide<T>::COUNT };
    const unsigned groups = (unsigned)((channels + WARP - 1) / WARP);
    return divides<T>(channels)
               ? LAUNCH((means<T, V, Made>), dim3((groups + V - 1) / V, (unsigned)count), THREADS, 0, stream, rows, first,
                        (unsigned)channels, from, to)
               : LAUNCH((means<T, 1, Made>), dim3(groups, (unsigned)count), THREADS, 0, stream, rows, first, (unsigned)channels,
                        from, to);
}

template <class T> __global__ void largest(size_t rows, size_t first, unsigned channels, const T *from, T *to) {
    const unsigned c = blockIdx.x * THREADS + threadIdx.x;
    if (c < channels) {
        float most = widen(from[(blockIdx.y * rows + first) * channels + c]);
        for (size_t row = first + 1; row < rows; row++) {
            most = fmaxf(most, widen(from[(blockIdx.y * rows + row) * channels + c]));
        }
        narrow(most, to + (size_t)blockIdx.y * channels + c);
    }
}

/* ---- Squeeze and excite ---- */

/* One number of each warp: row `i` of a linear map of `in`. */
__device__ __forceinline__ float mapped(size_t width, const float *factors, const float *in, unsigned i) {
    float sum = 0;
    for (size_t j = threadIdx.x % WARP; j < width; j += WARP) {
        sum += factors[i * width + j] * in[j];
    }
    return sum_warp(sum);
}

__global__ void excite(unsigned channels, unsigned hidden, const float *means, const float *first, const float *first_bias,
                       const float *second, const float *second_bias, float *gates) {
    DYNAMIC_SHARED(float, inner);
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (unsigned i = warp; i < hidden; i += WARPS) {
        const float sum = mapped(channels, first, means + (size_t)blockIdx.x * channels, i) + first_bias[i];
        if (lane == 0) {
            inner[i] = fmaxf(sum, 0.0F);
        }
    }
    __syncthreads();
    for (unsigned i = warp; i < channels; i += WARPS) {
        const float sum = mapped(hidden, second, inner, i) + second_bias[i];
        if (lane == 0) {
            gates[(size_t)blockIdx.x * channels + i] = 1.0F / (1.0F + __expf(-sum));
        }
    }
}

template <class T, int V> __global__ void gate(unsigned channels, unsigned each, const float *gates, const T *added, T *values) {
    const unsigned i = (blockIdx.x * THREADS + threadIdx.x) * V;
    if (i >= each) {
        return;
    }
    const size_t at = (size_t)blockIdx.y * each + i;
    const float *own = gates + (size_t)blockIdx.y * channels + i % channels;
    float numbers[V], more[V];
    load<T, V>(values + at, numbers);
    for (int v = 0; v < V; v++) {
        numbers[v] *= own[v];
    }
    if (added) {
        load<T, V>(added + at, more);
        for (int v = 0; v < V; v++) {
            numbers[v] = fmaxf(numbers[v] + more[v], 0.0F);
        }
    }
    store<T, V>(numbers, values + at);
}

template <class T>
cudaError_t gate_all(cudaStream_t stream, size_t count, size_t rows, size_t channels, const float *gates, const T *added,
                     T *values) {
    enum { V = wide<T>::COUNT };
    const unsigned each = (unsigned)(rows * channels), blocks = (each + THREADS - 1) / THREADS;
    return divides<T>(channels) ? LAUNCH((gate<T, V>), dim3((each / V + THREADS - 1) / THREADS, (unsigned)count), THREADS, 0,
                                         stream, (unsigned)channels, each, gates, added, values)
                                : LAUNCH((gate<T, 1>), dim3(blocks, (unsigned)count), THREADS, 0, stream, (unsigned)channels, each,
                                         gates, added, values);
}

/* ---- Tokens ---- */

template <class T>
__global__ void tokens(unsigned front, unsigned own, const float *learned, const float *positions, const T *from, T *to) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < front) {
        narrow(learned[i], to + (size_t)blockIdx.y * (front + own) + i);
    } else if (i < front + own) {
        const unsigned at = i - front;
        narrow(widen(from[(size_t)blockIdx.y * own + at]) + positions[at], to + (size_t)blockIdx.y * (front + own) + i);
    }
}

/* A warp has one row after another, of which each lane keeps up to GROUPS groups of V numbers, and their factors and biases. */
template <class T, int V, int GROUPS>
__global__ void norm(size_t rows, unsigned width, float epsilon, const float *factors, const float *bias, const T *from, T *to) {
    const unsigned lane = threadIdx.x % WARP;
    float factor[GROUPS][V], shift[GROUPS][V];
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        const unsigned c = (g * WARP + lane) * V;
#pragma unroll
        for (int v = 0; v < V; v++) {
            factor[g][v] = c < width ? factors[c + v] : 0.0F;
            shift[g][v] = c < width ? bias[c + v] : 0.0F;
        }
    }
    for (size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP; row < rows; row += (size_t)gridDim.x * WARPS) {
        float numbers[GROUPS][V] = {}, sum = 0, squares = 0;
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            if ((g * WARP + lane) * V < width) {
                load<T, V>(from + row * width + (g * WARP + lane) * V, numbers[g]);
            }
        }
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
#pragma unroll
            for (int v = 0; v < V; v++) {
                sum += numbers[g][v];
            }
        }
        const float mean = sum_warp(sum) / (float)width;
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
#pragma unroll
            for (int v = 0; v < V; v++) {
                numbers[g][v] = (g * WARP + lane) * V < width ? numbers[g][v] - mean : 0.0F;
                squares += numbers[g][v] * numbers[g][v];
            }
        }
        const float scale = rsqrtf(sum_warp(squares) / (float)width + epsilon);
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            if ((g * WARP + lane) * V < width) {
#pragma unroll
                for (int v = 0; v < V; v++) {
                    numbers[g][v] = numbers[g][v] * scale * factor[g][v] + shift[g][v];
                }
                store<T, V>(numbers[g], to + row * width + (g * WARP + lane) * V);
            }
        }
    }
}

/* The same for rows of any width, which are read three times. */
template <class T>
__global__ void norm_wide(size_t rows, unsigned width, float epsilon, const float *factors, const float *bias, const T *from,
                          T *to) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const unsigned lane = threadIdx.x % WARP;
    float sum = 0, squares = 0;
    if (row >= rows) {
        return;
    }
    for (unsigned c = lane; c < width; c += WARP) {
        sum += widen(from[row * width + c]);
    }
    const float mean = sum_warp(sum) / (float)width;
    for (unsigned c = lane; c < width; c += WARP) {
        const float apart = widen(from[row * width + c]) - mean;
        squares += apart * apart;
    }
    const float scale = rsqrtf(sum_warp(squares) / (float)width + epsilon);
    for (unsigned c = lane; c < width; c += WARP) {
        narrow((widen(from[row * width + c]) - mean) * scale * factors[c] + bias[c], to + row * width + c);
    }
}

template <class T>
cudaError_t norm_all(cudaStream_t stream, size_t rows, size_t width, float epsilon, const float *factors, const float *bias,
                     const T *from, T *to) {
    enum { V = wide<T>::COUNT };
    const unsigned all = (unsigned)((rows + WARPS - 1) / WARPS), blocks = all < MOST_BLOCKS ? all : MOST_BLOCKS;
    const unsigned wanted = (unsigned)width;
    const size_t groups = (width + WARP * V - 1) / (WARP * V);
#define LAUNCH_NORM(kernel) LAUNCH(kernel, blocks, THREADS, 0, stream, rows, wanted, epsilon, factors, bias, from, to)
    if (!divides<T>(width) || groups > 8) {
        return LAUNCH(norm_wide<T>, all, THREADS, 0, stream, rows, wanted, epsilon, factors, bias, from, to);
    }
    return groups <= 1   ? LAUNCH_NORM((norm<T, V, 1>))
           : groups <= 2 ? LAUNCH_NORM((norm<T, V, 2>))
           : groups <= 3 ? LAUNCH_NORM((norm<T, V, 3>))
           : groups <= 4 ? LAUNCH_NORM((norm<T, V, 4>))
           : groups <= 6 ? LAUNCH_NORM((norm<T, V, 6>))
                         : LAUNCH_NORM((norm<T, V, 8>));
#undef LAUNCH_NORM
}

} // namespace

cudaError_t net_mean(cudaStream_t stream, enum number_type type, size_t count, size_t rows, size_t first, size_t channels,
                        const void *from, enum number_type made, void *to) {
    if (made == NUMBER_FLOAT32) {
        OF_TYPE(type, means_all<T, float>(stream, count, rows, first, channels, (const T *)from, (float *)to));
    }
    OF_TYPE(type, means_all<T, T>(stream, count, rows, first, channels, (const T *)from, (T *)to));
}

cudaError_t net_largest(cudaStream_t stream, enum number_type type, size_t count, size_t rows, size_t first, size_t channels,
                           const void *from, void *to) {
    const dim3 grid((unsigned)((channels + THREADS - 1) / THREADS), (unsigned)count);
    OF_TYPE(type, LAUNCH(largest<T>, grid, THREADS, 0, stream, rows, first, (unsigned)channels, (const T *)from, (T *)to));
}

cudaError_t net_excite(cudaStream_t stream, size_t count, size_t channels, size_t hidden, const float *means,
                          const float *first, const float *first_bias, const float *second, const float *second_bias,
                          float *gates) {
    return LAUNCH(excite, (unsigned)count, THREADS, hidden * sizeof(float), stream, (unsigned)channels, (unsigned)hidden, means,
                  first, first_bias, second, second_bias, gates);
}

cudaError_t net_gate(cudaStream_t stream, enum number_type type, size_t count, size_t rows, size_t channels, const float *gates,
                        const void *added, void *values) {
    OF_TYPE(type, gate_all<T>(stream, count, rows, channels, gates, (const T *)added, (T *)values));
}

cudaError_t net_tokens(cudaStream_t stream, enum number_type type, size_t count, size_t front, size_t own, size_t width,
                          const float *learned, const float *positions, const void *from, void *to) {
    const dim3 grid((unsigned)(((front + own) * width + THREADS - 1) / THREADS), (unsigned)count);
    OF_TYPE(type, LAUNCH(tokens<T>, grid, THREADS, 0, stream, (unsigned)(front * width), (unsigned)(own * width), learned,
                         positions, (const T *)from, (T *)to));
}

cudaError_t net_norm(cudaStream_t stream, enum number_type type, size_t rows, size_t width, float epsilon, const float *factors,
                        const float *bias, const void *from, void *to) {
    OF_TYPE(type, norm_all<T>(stream, rows, width, epsilon, factors, bias, (const T *)from, (T *)to));
}
