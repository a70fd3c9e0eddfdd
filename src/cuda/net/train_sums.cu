/* Sums over rows: those of norms, of biases and of squares. A block adds up a part of the rows for WARP channels: eight warps have
 * every eighth row, and their sums are added at the end. Sums are float64, so the order of rows within a part matters little; it is
 * always the same. */
#include "cuda/net/parts.h"
#include "cuda/net/train_kernels.h"

namespace {

/* MOST_PARTS: of all rows; ENOUGH: blocks for a large device. */
enum { MOST_PARTS = 256, ENOUGH = 2048, LEAST_ROWS = 64 };

template <class T, int SUM>
__device__ __forceinline__ void add_row(const struct net_summed &what, size_t row, unsigned c, float mean, double *first,
                                        double *second) {
    const size_t at = row * what.channels + c;
    if (SUM == SUM_SQUARES) {
        const double x = (double)widen(static_cast<const T *>(what.in)[at]);
        *first += x;
        *second += x * x;
        return;
    }
    T *gradient = static_cast<T *>(what.gradient) + at;
    float g = widen(*gradient);
    if (SUM == SUM_BENT && what.out) {
        const float below = what.activation == LEAKY_RELU ? what.slope : 0.0F;
        g = widen(static_cast<const T *>(what.out)[at]) > 0 ? g : below * g;
        narrow(g, gradient);
        g = widen(*gradient); /* as those who read it next see it */
    }
    *first += (double)g;
    if (SUM == SUM_BENT && what.in) {
        *second += (double)(g * (widen(static_cast<const T *>(what.in)[at]) - mean));
    }
    if (SUM == SUM_NORMED) {
        *second += (double)(g * (widen(static_cast<const T *>(what.in)[at]) - what.means[2 * row]) * what.means[2 * row + 1]);
    }
}

template <class T, int SUM> __global__ void sum_part(struct net_summed what, double *parts) {
    __shared__ double sums[2][WARPS][WARP];
    const unsigned lane = threadIdx.x % WARP, group = threadIdx.x / WARP, c = blockIdx.x * WARP + lane;
    const size_t begin = what.rows * blockIdx.y / gridDim.y, end = what.rows * (blockIdx.y + 1) / gridDim.y;
    double first = 0, second = 0;
    if (c < what.channels) {
        const float mean = SUM == SUM_BENT && what.in ? what.means[c] : 0.0F;
        for (size_t row = begin + group; row < end; row += WARPS) {
            add_row<T, SUM>(what, row, c, mean, &first, &second);
        }
    }
    sums[0][group][lane] = first;
    sums[1][group][lane] = second;
    __syncthreads();
    if (group < 2 && c < what.channels) {
        double all = 0;
        for (int i = 0; i < WARPS; i++) {
            all += sums[group][i][lane];
        }
        parts[(2 * (size_t)blockIdx.y + group) * what.channels + c] = all;
    }
}

__global__ void end_sum(size_t count, unsigned channels, const double *parts, float *first, float *second) {
    const unsigned c = own_number();
    double sums[2] = {};
    for (size_t i = 0; c < channels && i < count; i++) {
        sums[0] += parts[2 * i * channels + c];
        sums[1] += parts[(2 * i + 1) * channels + c];
    }
    if (c < channels && first) {
        first[c] = (float)sums[0];
    }
    if (c < channels && second) {
        second[c] = (float)sums[1];
    }
}

/* The sum of what the threads of a block have; thread 0 gets it. */
__device__ __forceinline__ double sum_block(double own) {
    __shared__ double sums[THREADS];
    sums[threadIdx.x] = own;
    for (unsigned step = THREADS / 2; step; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) {
            sums[threadIdx.x] += sums[threadIdx.x + step];
        }
    }
    return sums[0];
}

__global__ void square_part(size_t count, const float *numbers, double *parts) {
    double own = 0;
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += (size_t)gridDim.x * THREADS) {
        own += (double)numbers[i] * (double)numbers[i];
    }
    const double all = sum_block(own);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = all;
    }
}

__global__ void end_square(unsigned count, double *parts) {
    double own = 0;
    for (unsigned i = threadIdx.x; i < count; i += THREADS) {
        own += parts[i];
    }
    const double all = sum_block(own);
    __syncthreads();
    if (threadIdx.x == 0) {
        parts[0] = all;
    }
}

template <class T> cudaError_t sum_all(cudaStream_t stream, enum net_sum_kind sum, const struct net_summed *what, double *parts) {
    const dim3 grid((unsigned)((what->channels + WARP - 1) / WARP), (unsigned)net_sum_parts(what->rows, what->channels));
    switch (sum) {
    case SUM_SQUARES: return LAUNCH((sum_part<T, SUM_SQUARES>), grid, THREADS, 0, stream, *what, parts);
    case SUM_BENT: return LAUNCH((sum_part<T, SUM_BENT>), grid, THREADS, 0, stream, *what, parts);
    case SUM_NORMED: return LAUNCH((sum_part<T, SUM_NORMED>), grid, THREADS, 0, stream, *what, parts);
    default: return LAUNCH((sum_part<T, SUM_ALONE>), grid, THREADS, 0, stream, *what, parts);
    }
}

} // namespace

size_t net_sum_parts(size_t rows, size_t channels) {
    const size_t groups = (channels + WARP - 1) / WARP, wanted = (ENOUGH + groups - 1) / groups;
    const size_t most = (rows + LEAST_ROWS - 1) / LEAST_ROWS, parts = wanted < most ? wanted : most;
    return parts < 1 ? 1 : parts < MOST_PARTS ? parts : MOST_PARTS;
}

size_t net_sum_bytes(size_t rows, size_t channels) {
    return 2 * net_sum_parts(rows, channels) * channels * sizeof(double);
}

cudaError_t net_sum(cudaStream_t stream, enum number_type type, enum net_sum_kind sum, const struct net_summed *what,
                    double *parts) {
    OF_TYPE(type, sum_all<T>(stream, sum, what, parts));
}

cudaError_t net_sum_end(cudaStream_t stream, size_t rows, size_t channels, const double *parts, float *first, float *second) {
    return LAUNCH(end_sum, blocks_of(channels), THREADS, 0, stream, net_sum_parts(rows, channels), (unsigned)channels, parts, first,
                  second);
}

cudaError_t net_square(cudaStream_t stream, size_t count, const float *numbers, double *parts) {
    const unsigned all = blocks_of(count), blocks = all < TRAIN_SQUARE_PARTS ? all : TRAIN_SQUARE_PARTS;
    const cudaError_t code = LAUNCH(square_part, blocks ? blocks : 1, THREADS, 0, stream, count, numbers, parts);
    return code != cudaSuccess ? code : LAUNCH(end_square, 1, THREADS, 0, stream, blocks ? blocks : 1, parts);
}
