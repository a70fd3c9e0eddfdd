#include "emulated_kernels.h"

#include "cuda/net/launch.h"

namespace {

enum { WARP = 32, LINE = 32, FULL = 16, EIGHT = 8 };

constexpr unsigned ALL = 0xFFFFFFFFU;

__global__ void count_threads(size_t count, float *numbers) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        numbers[i] += (float)(i % 128);
    }
}

template <class T> __device__ __forceinline__ float number_of(T x) {
    return __half2float(x);
}

template <> __device__ __forceinline__ float number_of(__nv_bfloat16 x) {
    return __bfloat162float(x);
}

template <class T>
__global__ void __launch_bounds__(1024) sum_rows(size_t width, const T *__restrict__ x, float *__restrict__ sums) {
    __shared__ float parts[WARP];
    const unsigned all = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
    float sum = 0;
    for (size_t j = thread; j < width; j += all) {
        sum += number_of(x[blockIdx.x * width + j]);
    }
    for (int bits = WARP / 2; bits; bits /= 2) {
        sum += __shfl_xor_sync(ALL, sum, bits);
    }
    if (thread % WARP == 0) {
        parts[thread / WARP] = sum;
    }
    __syncthreads();
    if (thread < WARP) {
        sum = thread < all / WARP ? parts[thread] : 0;
        for (unsigned by = WARP / 2; by; by /= 2) {
            sum += __shfl_down_sync(ALL, sum, by);
        }
        if (!thread) {
            sums[blockIdx.x] = sum;
        }
    }
}

__global__ void transpose(unsigned rows, unsigned columns, const float *from, float *to) {
    __shared__ float tile[LINE][LINE + 1];
    const unsigned column = blockIdx.x * LINE + threadIdx.x, row = blockIdx.y * LINE + threadIdx.y;
    for (unsigned i = 0; i < LINE; i += blockDim.y) {
        if (row + i < rows && column < columns) {
            tile[threadIdx.y + i][threadIdx.x] = from[(size_t)(row + i) * columns + column];
        }
    }
    __syncthreads();
    const unsigned to_row = blockIdx.x * LINE + threadIdx.y, to_column = blockIdx.y * LINE + threadIdx.x;
    for (unsigned i = 0; i < LINE; i += blockDim.y) {
        if (to_row + i < columns && to_column < rows) {
            to[(size_t)(to_row + i) * rows + to_column] = tile[threadIdx.x][threadIdx.y + i];
        }
    }
}

/* A block has one warp for each of WARPS tiles side by side. */
template <class T, int WARPS>
__global__ void __launch_bounds__(WARPS *WARP) multiply(unsigned n, unsigned k, const T *a, const T *b, float *d) {
    using namespace nvcuda::wmma;
    __shared__ __align__(128) float tiles[WARPS][FULL * FULL];
    const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const unsigned row = blockIdx.y * FULL, column = (blockIdx.x * WARPS + warp) * FULL;
    fragment<accumulator, FULL, FULL, FULL, float> sum;
    fill_fragment(sum, 0.0F);
    for (unsigned p = 0; p < k; p += FULL) {
        fragment<matrix_a, FULL, FULL, FULL, T, row_major> left;
        fragment<matrix_b, FULL, FULL, FULL, T, col_major> right;
        load_matrix_sync(left, a + (size_t)row * k + p, k);
        load_matrix_sync(right, b + (size_t)column * k + p, k);
        mma_sync(sum, left, right, sum);
    }
    for (int i = 0; i < sum.num_elements; i++) {
        sum.x[i] *= 2;
    }
    store_matrix_sync(tiles[warp], sum, FULL, mem_row_major);
    __syncwarp();
    for (unsigned i = lane; i < FULL * FULL; i += WARP) {
        d[(size_t)(row + i / FULL) * n + column + i % FULL] = tiles[warp][i];
    }
}

__global__ void multiply_more(unsigned n, unsigned k, const __half *a, const __half *b, float *d) {
    namespace wmma = nvcuda::wmma;
    wmma::fragment<wmma::accumulator, FULL, FULL, FULL, float> sum;
    float *to = d + (size_t)blockIdx.y * FULL * n + blockIdx.x * FULL;
    wmma::load_matrix_sync(sum, to, n, wmma::mem_row_major);
    for (unsigned p = 0; p < k; p += FULL) {
        wmma::fragment<wmma::matrix_a, FULL, FULL, FULL, __half, wmma::row_major> left;
        wmma::fragment<wmma::matrix_b, FULL, FULL, FULL, __half, wmma::row_major> right;
        wmma::load_matrix_sync(left, a + (size_t)blockIdx.y * FULL * k + p, k);
        wmma::load_matrix_sync(right, b + (size_t)p * n + blockIdx.x * FULL, n);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(to, sum, n, wmma::mem_row_major);
}

__global__ void reverse(unsigned count, float *numbers) {
    DYNAMIC_SHARED(float, kept);
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
        kept[i] = numbers[i];
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
        numbers[i] = kept[count - 1 - i];
    }
}

__global__ void exchange(int *to) {
    DYNAMIC_SHARED(int, kept); /* another type under the same name */
    const int lane = (int)threadIdx.x;
    kept[lane] = __shfl_xor_sync(ALL, lane, 5);
    to[lane] = kept[lane];
    to[WARP + lane] = __shfl_down_sync(ALL, lane, 3, EIGHT);
    to[2 * WARP + lane] = __shfl_up_sync(ALL, lane, 2, EIGHT);
    to[3 * WARP + lane] = __shfl_sync(ALL, lane, 7);
}

__global__ void compute(size_t count, const __half *x, __half *to) {
    const size_t first = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * EIGHT;
    if (first < count) {
        const uint4 eight = *reinterpret_cast<const uint4 *>(x + first);
        const __half *halves = reinterpret_cast<const __half *>(&eight);
        __align__(16) __half results[4][EIGHT];
        for (int i = 0; i < EIGHT; i++) {
            const float number = __half2float(halves[i]);
            results[0][i] = __float2half_rn(erff(number));
            results[1][i] = __float2half_rn(tanhf(number));
            results[2][i] = __float2half_rn(__expf(fminf(number, 4)));
            results[3][i] = __float2half_rn(rsqrtf(fmaxf(fabsf(number), 1e-3F)));
        }
        for (int i = 0; i < 4; i++) {
            *reinterpret_cast<uint4 *>(to + i * count + first) = *reinterpret_cast<const uint4 *>(results[i]);
        }
    }
}

__global__ void misuse_threads(enum misuse misuse, float *numbers) {
    using namespace nvcuda::wmma;
    const unsigned lane = threadIdx.x;
    if (misuse == MISSED_BARRIER && lane != 3) {
        __syncthreads();
    }
    if (misuse == OTHER_BARRIER) {
        if (lane % 2) {
            __syncthreads();
        } else {
            __syncthreads();
        }
    }
    if (misuse == MISSED_SHUFFLE && lane < 16) {
        numbers[lane] = __shfl_xor_sync(ALL, numbers[lane], 1);
    }
    if (misuse == PARTIAL_MASK && lane < 16) {
        numbers[lane] = __shfl_xor_sync(0xFFFFU, numbers[lane], 1);
    }
    if (misuse == ABSENT_LANE) {
        numbers[lane] = __shfl_sync(ALL, numbers[lane], 30);
    }
    if (misuse == CROOKED_TILE) {
        fragment<accumulator, FULL, FULL, FULL, float> sum;
        load_matrix_sync(sum, numbers + 1, FULL, mem_row_major);
    }
}

} // namespace

cudaError_t run_count(cudaStream_t stream, unsigned blocks, unsigned threads, size_t count, float *numbers) {
    return LAUNCH(count_threads, blocks, threads, 0, stream, count, numbers);
}

cudaError_t run_sum(cudaStream_t stream, int brain, size_t rows, size_t width, unsigned x, unsigned y, const void *from,
                    float *sums) {
    const dim3 threads(x, y);
    return brain ? LAUNCH(sum_rows<__nv_bfloat16>, (unsigned)rows, threads, 0, stream, width,
                          static_cast<const __nv_bfloat16 *>(from), sums)
                 : LAUNCH(sum_rows<__half>, (unsigned)rows, threads, 0, stream, width, static_cast<const __half *>(from), sums);
}

cudaError_t run_transpose(cudaStream_t stream, unsigned rows, unsigned columns, const float *from, float *to) {
    return LAUNCH(transpose, dim3((columns + LINE - 1) / LINE, (rows + LINE - 1) / LINE), dim3(LINE, 8), 0, stream, rows, columns,
                  from, to);
}

cudaError_t run_tiles(cudaStream_t stream, int brain, unsigned m, unsigned n, unsigned k, const void *a, const void *b, float *d) {
    const dim3 grid(n / FULL / 3, m / FULL);
    if (brain) {
        return LAUNCH((multiply<__nv_bfloat16, 3>), grid, 3 * WARP, 0, stream, n, k, static_cast<const __nv_bfloat16 *>(a),
                      static_cast<const __nv_bfloat16 *>(b), d);
    }
    return LAUNCH((multiply<__half, 3>), grid, 3 * WARP, 0, stream, n, k, static_cast<const __half *>(a),
                  static_cast<const __half *>(b), d);
}

cudaError_t run_more_tiles(cudaStream_t stream, unsigned m, unsigned n, unsigned k, const void *a, const void *b, float *d) {
    return LAUNCH(multiply_more, dim3(n / FULL, m / FULL), WARP, 0, stream, n, k, static_cast<const __half *>(a),
                  static_cast<const __half *>(b), d);
}

cudaError_t run_reverse(cudaStream_t stream, unsigned threads, unsigned count, float *numbers) {
    return LAUNCH(reverse, 1, threads, count * sizeof *numbers, stream, count, numbers);
}

cudaError_t run_shuffles(cudaStream_t stream, int *to) {
    return LAUNCH(exchange, 1, WARP, WARP * sizeof *to, stream, to);
}

cudaError_t run_functions(cudaStream_t stream, size_t count, const void *halves, void *to) {
    return LAUNCH(compute, (unsigned)(count / EIGHT / 64 + 1), 64, 0, stream, count, static_cast<const __half *>(halves),
                  static_cast<__half *>(to));
}

cudaError_t run_misuse(cudaStream_t stream, enum misuse misuse, float *numbers) {
    return LAUNCH(misuse_threads, 1, misuse == ABSENT_LANE ? 20 : WARP, 0, stream, misuse, numbers);
}
