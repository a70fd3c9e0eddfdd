/* Numbers of the three types in kernels, which compute in float32: one by one, or as many side by side as 16 bytes hold. */
#ifndef L3A_CUDA_NET_NUMBERS_H
#define L3A_CUDA_NET_NUMBERS_H

#include "cuda/net/launch.h"
#include "net/types.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

typedef __half float16;
typedef __nv_bfloat16 bfloat16;

__device__ __forceinline__ float widen(float number) {
    return number;
}

__device__ __forceinline__ float widen(float16 number) {
    return __half2float(number);
}

__device__ __forceinline__ float widen(bfloat16 number) {
    return __bfloat162float(number);
}

__device__ __forceinline__ void narrow(float number, float *to) {
    *to = number;
}

__device__ __forceinline__ void narrow(float number, float16 *to) {
    *to = __float2half_rn(number);
}

__device__ __forceinline__ void narrow(float number, bfloat16 *to) {
    *to = __float2bfloat16_rn(number);
}

template <class T> struct wide {
    enum { COUNT = 16 / sizeof(T) };
};

/* V numbers: one, or those of 16 bytes, which must be aligned. */
template <class T, int V> __device__ __forceinline__ void load(const T *from, float *to) {
    if (V == 1) {
        to[0] = widen(from[0]);
    } else {
        const uint4 bytes = *reinterpret_cast<const uint4 *>(from);
        const T *numbers = reinterpret_cast<const T *>(&bytes);
#pragma unroll
        for (int i = 0; i < V; i++) {
            to[i] = widen(numbers[i]);
        }
    }
}

template <class T, int V> __device__ __forceinline__ void store(const float *from, T *to) {
    if (V == 1) {
        narrow(from[0], to);
    } else {
        uint4 bytes;
        T *numbers = reinterpret_cast<T *>(&bytes);
#pragma unroll
        for (int i = 0; i < V; i++) {
            narrow(from[i], numbers + i);
        }
        *reinterpret_cast<uint4 *>(to) = bytes;
    }
}

/* Evaluates a call in which T is the type of the numbers. */
#define OF_TYPE(type, ...)                                                                                                         \
    do {                                                                                                                           \
        if ((type) == NUMBER_FLOAT32) {                                                                                            \
            typedef float T;                                                                                                       \
            return __VA_ARGS__;                                                                                                    \
        } else if ((type) == NUMBER_FLOAT16) {                                                                                     \
            typedef float16 T;                                                                                                     \
            return __VA_ARGS__;                                                                                                    \
        } else {                                                                                                                   \
            typedef bfloat16 T;                                                                                                    \
            return __VA_ARGS__;                                                                                                    \
        }                                                                                                                          \
    } while (0)

#endif
