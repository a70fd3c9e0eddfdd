/* What several files of kernels share: how work is divided among threads, windows, activations and sums of a warp. */
#ifndef L3A_CUDA_NET_PARTS_H
#define L3A_CUDA_NET_PARTS_H

#include "cuda/net/kernels.h"
#include "cuda/net/numbers.h"

namespace {

enum { THREADS = 256, WARP = 32, WARPS = THREADS / WARP };

/* A grid for `each` numbers or groups of them of each picture. */
inline dim3 grid_of(size_t count, size_t each) {
    return dim3((unsigned)((each + THREADS - 1) / THREADS), (unsigned)count);
}

__device__ __forceinline__ unsigned own_number() {
    return blockIdx.x * THREADS + threadIdx.x;
}

/* Blocks for `count` numbers in a loop. */
inline unsigned blocks_of(size_t count) {
    const size_t blocks = (count + THREADS - 1) / THREADS;
    return (unsigned)(blocks < (1U << 20) ? blocks : (1U << 20));
}

/* Whether channels can be divided into groups of 16 bytes. */
template <class T> bool divides(size_t channels) {
    return channels % wide<T>::COUNT == 0;
}

/* Launches a kernel with V numbers a thread, of each picture `each` numbers in all. */
#define LAUNCH_NUMBERS(kernel, count, each, channels, ...)                                                                         \
    (divides<T>(channels)                                                                                                          \
         ? LAUNCH((kernel<T, wide<T>::COUNT>), grid_of(count, (each) / wide<T>::COUNT), THREADS, 0, stream, __VA_ARGS__)           \
         : LAUNCH((kernel<T, 1>), grid_of(count, each), THREADS, 0, stream, __VA_ARGS__))

/* Windows with 32 bits. */
struct window_shape {
    unsigned channels, height, width, made_height, made_width, made_channels, kernel, stride;
    int padding;
};

inline window_shape window_shape_of(const struct windows *windows) {
    const struct shape *from = &windows->from, *to = &windows->to;
    return {(unsigned)from->channels,  (unsigned)from->height,    (unsigned)from->width,
            (unsigned)to->height,      (unsigned)to->width,       (unsigned)to->channels,
            (unsigned)windows->kernel, (unsigned)windows->stride, (int)windows->padding};
}

/* Where row `y` or column `y` of a window begins in the input; negative: in the padding. */
__device__ __forceinline__ int window_start(const window_shape &shape, unsigned at) {
    return (int)(at * shape.stride) - shape.padding;
}

__device__ __forceinline__ unsigned mirrored(int at, unsigned size) {
    return at < 0 ? (unsigned)-at : (unsigned)at < size ? (unsigned)at : 2 * (size - 1) - (unsigned)at;
}

__device__ __forceinline__ float sigmoid(float x) {
    return 1.0F / (1.0F + __expf(-x));
}

__device__ __forceinline__ float sum_warp(float number) {
    for (int step = WARP / 2; step; step /= 2) {
        number += __shfl_xor_sync(0xffffffffU, number, step);
    }
    return number;
}

} // namespace

#endif
