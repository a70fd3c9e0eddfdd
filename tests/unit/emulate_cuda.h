/* Enough of the CUDA language to run kernels on the processor: src/cuda/net/launch.h includes it where the host's compiler
 * compiles them, as C++17.
 *
 * The blocks of a launch run one after another, and so do the threads of a block: one runs until it returns or has to wait for
 * others, at __syncthreads() or in an operation of its warp. Then the next one runs. What runs between two such points is
 * therefore never interleaved, and a kernel that forgets to synchronise reads what nobody has written yet: dynamic shared memory
 * begins as NaNs. A kernel that a device would not forgive, because threads wait for each other forever, different threads wait at
 * different places or an address is not aligned, ends the program with a message. */
#ifndef L3A_EMULATE_CUDA_H
#define L3A_EMULATE_CUDA_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include "emulated_threads.h"
#include "small_floats.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>

/* ---- The language ---- */

#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __shared__
#define __shared__ static

#define threadIdx emulated_thread
#define blockIdx emulated_block
#define blockDim emulated_threads
#define gridDim emulated_grid
#define warpSize EMULATED_WARP

#define LAUNCH(kernel, ...) launch_kernel(#kernel, kernel, __VA_ARGS__)
#define DYNAMIC_SHARED(type, name) type *const name = static_cast<type *>(emulated_shared)

enum { PLAIN_SHARED_BYTES = 48 << 10 };

/* As with a device, the arguments become the kernel's types once, and each thread has copies of them. */
template <class... Parameters, class... Arguments>
cudaError_t launch_kernel(const char *name, void (*kernel)(Parameters...), dim3 grid, dim3 threads, size_t shared_bytes,
                          cudaStream_t stream, Arguments... arguments) {
    struct call {
        void (*kernel)(Parameters...);
        std::tuple<Parameters...> arguments;
    } call{kernel, std::tuple<Parameters...>(arguments...)};
    (void)stream;
    if (shared_bytes > PLAIN_SHARED_BYTES) {
        const cudaError_t code = cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
        if (code != cudaSuccess) {
            return code;
        }
    }
    const auto body = [](const void *argument) {
        const auto *called = static_cast<const struct call *>(argument);
        std::apply(called->kernel, called->arguments);
    };
    return emulate_launch(name, grid, threads, shared_bytes, body, &call);
}

/* ---- Waiting, and exchanging numbers in a warp ---- */

enum : unsigned { FULL_WARP = 0xFFFFFFFFU };

inline void check_mask(unsigned mask, int line) {
    if (mask != FULL_WARP) {
        emulated_misuse("an operation of a part of a warp, which is not emulated", line);
    }
}

inline void __syncthreads(int line = __builtin_LINE()) {
    emulate_barrier(line);
}

inline void __syncwarp(unsigned mask = FULL_WARP, int line = __builtin_LINE()) {
    check_mask(mask, line);
    emulate_meeting(IN_SYNCWARP, line, nullptr, nullptr);
}

/* What a lane gives to a shuffle, and gets. */
template <class T> struct shuffled {
    T given, got;
    int source, line;
};

/* A lane gets its own number if the source is not in its part of the warp. */
template <class T> T shuffle(unsigned mask, T given, int source, bool within, int line) {
    check_mask(mask, line);
    struct shuffled<T> own = {
        given, given, within ? source : (int)emulated_lane(), line
    };
    emulate_meeting(IN_SHUFFLE, line, &own, [](void *const *all, unsigned lanes) {
        for (unsigned i = 0; i < lanes; i++) {
            auto *lane = static_cast<struct shuffled<T> *>(all[i]);
            if (lane->source >= (int)lanes) {
                emulated_misuse("a shuffle reads a lane that the block does not have", lane->line);
            }
            lane->got = static_cast<const struct shuffled<T> *>(all[lane->source])->given;
        }
    });
    return own.got;
}

template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = EMULATED_WARP, int line = __builtin_LINE()) {
    const int first = (int)emulated_lane() & ~(width - 1);
    return shuffle(mask, value, first + (source & (width - 1)), true, line);
}

template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits, int width = EMULATED_WARP, int line = __builtin_LINE()) {
    const int lane = (int)emulated_lane(), source = lane ^ bits;
    return shuffle(mask, value, source, source < (lane & ~(width - 1)) + width, line);
}

template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = EMULATED_WARP, int line = __builtin_LINE()) {
    const int lane = (int)emulated_lane(), source = lane + (int)by;
    return shuffle(mask, value, source, source < (lane & ~(width - 1)) + width, line);
}

template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = EMULATED_WARP, int line = __builtin_LINE()) {
    const int lane = (int)emulated_lane(), source = lane - (int)by;
    return shuffle(mask, value, source, source >= (lane & ~(width - 1)), line);
}

/* ---- Functions that the C library lacks ---- */

inline float rsqrtf(float x) {
    return 1 / std::sqrt(x);
}

inline float __frcp_rn(float x) {
    return 1 / x;
}

inline float __expf(float x) {
    return std::exp(x);
}

inline float __logf(float x) {
    return std::log(x);
}

inline float __fdividef(float x, float y) {
    return x / y;
}

inline float __saturatef(float x) {
    return x > 0 ? std::fmin(x, 1.0F) : 0;
}

template <class To, class From> To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

inline unsigned __float_as_uint(float x) {
    return same_bits<unsigned>(x);
}

inline int __float_as_int(float x) {
    return same_bits<int>(x);
}

inline float __uint_as_float(unsigned x) {
    return same_bits<float>(x);
}

inline float __int_as_float(int x) {
    return same_bits<float>(x);
}

template <class T> T __ldg(const T *address) {
    return *address;
}

inline int min(int a, int b) {
    return a < b ? a : b;
}

inline int max(int a, int b) {
    return a > b ? a : b;
}

/* ---- Products of tiles: <mma.h> ---- */

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

/* Each lane of a warp has 8 of the 256 elements of a tile: half a row. A kernel must not know which. */
enum { TILE = 16, ELEMENTS = TILE * TILE / EMULATED_WARP };

template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
    static_assert(M == TILE && N == TILE && K == TILE, "other tiles are not emulated");
    enum { num_elements = ELEMENTS };
    T x[ELEMENTS];
};

template <class Use, int M, int N, int K, class T, class Layout, class Value>
void fill_fragment(fragment<Use, M, N, K, T, Layout> &to, Value value) {
    for (T &x : to.x) {
        x = static_cast<T>(value);
    }
}

/* Where element i of this lane's half row is in memory. */
inline size_t element_at(int i, size_t stride, bool by_rows) {
    const size_t row = emulated_lane() / 2, column = emulated_lane() % 2 * ELEMENTS + (size_t)i;
    return by_rows ? row * stride + column : column * stride + row;
}

/* What devices demand: an address that is a multiple of 32 bytes, and lines that are a multiple of 16. */
template <class T> void check_tile(const T *address, unsigned stride, int line) {
    if (reinterpret_cast<uintptr_t>(address) % 32) {
        emulated_misuse("a tile at an address that is not a multiple of 32", line);
    }
    if (stride * sizeof(T) % 16) {
        emulated_misuse("a tile with a stride that is not a multiple of 16 bytes", line);
    }
    if (blockDim.x * blockDim.y * blockDim.z % EMULATED_WARP) {
        emulated_misuse("a tile in a block that is not made of whole warps", line);
    }
}

template <class Use, int M, int N, int K, class T>
void load_matrix_sync(fragment<Use, M, N, K, T, row_major> &to, const T *from, unsigned stride, int line = __builtin_LINE()) {
    check_tile(from, stride, line);
    for (int i = 0; i < ELEMENTS; i++) {
        to.x[i] = from[element_at(i, stride, true)];
    }
}

template <class Use, int M, int N, int K, class T>
void load_matrix_sync(fragment<Use, M, N, K, T, col_major> &to, const T *from, unsigned stride, int line = __builtin_LINE()) {
    check_tile(from, stride, line);
    for (int i = 0; i < ELEMENTS; i++) {
        to.x[i] = from[element_at(i, stride, false)];
    }
}

template <int M, int N, int K, class T>
void load_matrix_sync(fragment<accumulator, M, N, K, T> &to, const T *from, unsigned stride, layout_t layout,
                      int line = __builtin_LINE()) {
    check_tile(from, stride, line);
    for (int i = 0; i < ELEMENTS; i++) {
        to.x[i] = from[element_at(i, stride, layout == mem_row_major)];
    }
}

template <int M, int N, int K, class T>
void store_matrix_sync(T *to, const fragment<accumulator, M, N, K, T> &from, unsigned stride, layout_t layout,
                       int line = __builtin_LINE()) {
    check_tile(to, stride, line);
    for (int i = 0; i < ELEMENTS; i++) {
        to[element_at(i, stride, layout == mem_row_major)] = from.x[i];
    }
}

inline float as_number(float x) {
    return x;
}

inline float as_number(__half x) {
    return number_of_half(same_bits<uint16_t>(x));
}

inline float as_number(__nv_bfloat16 x) {
    return number_of_bfloat(same_bits<uint16_t>(x));
}

/* d = a b + c of whole tiles, row by row. */
inline void multiply_tiles(const float *a, const float *b, float *d) {
    for (int i = 0; i < TILE; i++) {
        for (int k = 0; k < TILE; k++) {
            for (int j = 0; j < TILE; j++) {
                d[i * TILE + j] += a[i * TILE + k] * b[k * TILE + j];
            }
        }
    }
}

/* A lane's fragments. They stay where they are while it waits, so the last lane finds those of all. */
template <class T> struct factors {
    const T *a;
    const T *b;
    const float *c;
    float *d;
};

template <int M, int N, int K, class T, class LayoutA, class LayoutB>
void mma_sync(fragment<accumulator, M, N, K, float> &d, const fragment<matrix_a, M, N, K, T, LayoutA> &a,
              const fragment<matrix_b, M, N, K, T, LayoutB> &b, const fragment<accumulator, M, N, K, float> &c,
              int line = __builtin_LINE()) {
    struct factors<T> own = {
        a.x, b.x, c.x, d.x
    };
    emulate_meeting(IN_PRODUCT, line, &own, [](void *const *all, unsigned lanes) {
        float left[TILE * TILE], right[TILE * TILE], sum[TILE * TILE];
        for (unsigned lane = 0; lane < lanes; lane++) {
            const auto *given = static_cast<const struct factors<T> *>(all[lane]);
            for (unsigned i = 0; i < ELEMENTS; i++) {
                left[lane * ELEMENTS + i] = as_number(given->a[i]);
                right[lane * ELEMENTS + i] = as_number(given->b[i]);
                sum[lane * ELEMENTS + i] = given->c[i];
            }
        }
        multiply_tiles(left, right, sum);
        for (unsigned lane = 0; lane < lanes; lane++) {
            std::memcpy(static_cast<const struct factors<T> *>(all[lane])->d, sum + lane * ELEMENTS, sizeof *sum * ELEMENTS);
        }
    });
}

} // namespace wmma
} // namespace nvcuda

#endif
