/* Sums over rows: those of norms, of biases and of squares. Sums are float64, so the order of rows matters little; it is always the
 * same. A block adds up a part of the rows: a thread has V channels of every so many rows, as many as have room beside each other.
 * Then the sums of the threads with the same channels are added. */
#include "cuda/net/sum_parts.h"

namespace {

/* ENOUGH: blocks for a large device. */
enum { MOST_PARTS = 512, ENOUGH = 1056, LEAST_ROWS = 64 };

/* Threads that a row takes, with V channels each, in a block. */
__host__ __device__ __forceinline__ unsigned threads_of_row(unsigned channels, unsigned each) {
    const unsigned wanted = (channels + each - 1) / each;
    return wanted < THREADS ? wanted : (unsigned)THREADS;
}

template <class T, int V, int SUM>
__device__ __forceinline__ void add_row(const struct net_summed &what, size_t row, unsigned c, const float *means, double *first,
                                        double *second) {
    const size_t at = row * what.channels + c;
    float x[V] = {}, g[V];
    if (SUM == SUM_SQUARES || (SUM != SUM_ALONE && what.in)) {
        load<T, V>(static_cast<const T *>(what.in) + at, x);
    }
    if (SUM == SUM_SQUARES) {
        for (int v = 0; v < V; v++) {
            first[v] += (double)x[v];
            second[v] += (double)x[v] * (double)x[v];
        }
        return;
    }
    T *gradient = static_cast<T *>(what.gradient) + at;
    load<T, V>(gradient, g);
    if (SUM == SUM_BENT && what.out) {
        const float below = what.activation == LEAKY_RELU ? what.slope : 0.0F;
        float out[V];
        load<T, V>(static_cast<const T *>(what.out) + at, out);
        for (int v = 0; v < V; v++) {
            g[v] = out[v] > 0 ? g[v] : below * g[v];
        }
        store<T, V>(g, gradient);
        load<T, V>(gradient, g); /* as those who read it next see it */
    }
    const float mean = SUM == SUM_NORMED ? what.means[2 * row] : 0.0F, scale = SUM == SUM_NORMED ? what.means[2 * row + 1] : 1.0F;
    for (int v = 0; v < V; v++) {
        first[v] += (double)g[v];
        second[v] += SUM == SUM_ALONE ? 0 : (double)(g[v] * (x[v] - (SUM == SUM_NORMED ? mean : means[v])) * scale);
    }
}

template <class T, int V, int SUM> __global__ void sum_part(struct net_summed what, double *parts) {
    __shared__ double sums[2][THREADS * V];
    const unsigned channels = (unsigned)what.channels, across = threads_of_row(channels, V), groups = THREADS / across;
    const unsigned group = threadIdx.x / across, c = (blockIdx.x * across + threadIdx.x % across) * V;
    const size_t begin = what.rows * blockIdx.y / gridDim.y, end = what.rows * (blockIdx.y + 1) / gridDim.y;
    double first[V] = {}, second[V] = {};
    float means[V] = {};
    if (group < groups && c < channels) {
        for (int v = 0; v < V; v++) {
            means[v] = SUM == SUM_BENT && what.in ? what.means[c + v] : 0.0F;
        }
        for (size_t row = begin + group; row < end; row += groups) {
            add_row<T, V, SUM>(what, row, c, means, first, second);
        }
    }
    for (int v = 0; v < V; v++) {
        sums[0][threadIdx.x * V + v] = first[v];
        sums[1][threadIdx.x * V + v] = second[v];
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < 2 * across * V; i += THREADS) {
        const unsigned which = i / (across * V), lane = i % (across * V), channel = blockIdx.x * across * V + lane;
        double all = 0;
        for (unsigned j = 0; j < groups; j++) {
            all += sums[which][j * across * V + lane];
        }
        if (channel < channels) {
            parts[(2 * (size_t)blockIdx.y + which) * channels + channel] = all;
        }
    }
}

__global__ void end_sum(size_t count, unsigned channels, const double *parts, float *first, float *second) {
    double sums[2];
    unsigned c;
    if (sum_parts(count, channels, parts, &c, sums)) {
        if (first) {
            first[c] = (float)sums[0];
        }
        if (second) {
            second[c] = (float)sums[1];
        }
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
    if (threadIdx.x == 0) {
        parts[0] = all;
    }
}

template <class T, int V>
cudaError_t sum_wide(cudaStream_t stream, enum net_sum_kind sum, const struct net_summed *what, double *parts) {
    const unsigned across = V * threads_of_row((unsigned)what->channels, V);
    const dim3 grid((unsigned)((what->channels + across - 1) / across), (unsigned)net_sum_parts(what->rows, what->channels));
    switch (sum) {
    case SUM_SQUARES: return LAUNCH((sum_part<T, V, SUM_SQUARES>), grid, THREADS, 0, stream, *what, parts);
    case SUM_BENT: return LAUNCH((sum_part<T, V, SUM_BENT>), grid, THREADS, 0, stream, *what, parts);
    case SUM_NORMED: return LAUNCH((sum_part<T, V, SUM_NORMED>), grid, THREADS, 0, stream, *what, parts);
    default: return LAUNCH((sum_part<T, V, SUM_ALONE>), grid, THREADS, 0, stream, *what, parts);
    }
}

template <class T> cudaError_t sum_all(cudaStream_t stream, enum net_sum_kind sum, const struct net_summed *what, double *parts) {
    return divides<T>(what->channels) ? sum_wide<T, wide<T>::COUNT>(stream, sum, what, parts)
                                      : sum_wide<T, 1>(stream, sum, what, parts);
}

} // namespace

/* It does not depend on the numbers' type, so plans need not know it. */
size_t net_sum_parts(size_t rows, size_t channels) {
    const size_t groups = (channels + THREADS - 1) / THREADS, wanted = (ENOUGH + groups - 1) / groups;
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
    return LAUNCH(end_sum, blocks_of_channels(channels), THREADS, 0, stream, net_sum_parts(rows, channels), (unsigned)channels,
                  parts, first, second);
}

cudaError_t net_square(cudaStream_t stream, size_t count, const float *numbers, double *parts) {
    const unsigned all = blocks_of(count), blocks = all < TRAIN_SQUARE_PARTS ? all : TRAIN_SQUARE_PARTS;
    const cudaError_t code = LAUNCH(square_part, blocks ? blocks : 1, THREADS, 0, stream, count, numbers, parts);
    return code != cudaSuccess ? code : LAUNCH(end_square, 1, THREADS, 0, stream, blocks ? blocks : 1, parts);
}
