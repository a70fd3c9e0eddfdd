/* How kernels add the parts that net_sum() has made. */
#ifndef L3A_CUDA_NET_SUM_PARTS_H
#define L3A_CUDA_NET_SUM_PARTS_H

#include "cuda/net/parts.h"
#include "cuda/net/train_kernels.h"

namespace {

/* Blocks that have WARP channels each. */
inline unsigned blocks_of_channels(size_t channels) {
    return (unsigned)((channels + WARP - 1) / WARP);
}

/* Both sums of a channel, for one thread of those that share it: true, its channel and the sums. Each of eight warps adds every
 * eighth part. All threads of the block call it. */
__device__ __forceinline__ bool sum_parts(size_t count, unsigned channels, const double *parts, unsigned *channel, double *sums) {
    __shared__ double all[2][WARPS][WARP];
    const unsigned lane = threadIdx.x % WARP, group = threadIdx.x / WARP, c = blockIdx.x * WARP + lane;
    double first = 0, second = 0;
    for (size_t i = group; c < channels && i < count; i += WARPS) {
        first += parts[2 * i * channels + c];
        second += parts[(2 * i + 1) * channels + c];
    }
    all[0][group][lane] = first;
    all[1][group][lane] = second;
    __syncthreads();
    sums[0] = sums[1] = 0;
    for (int i = 0; group == 0 && i < WARPS; i++) {
        sums[0] += all[0][i][lane];
        sums[1] += all[1][i][lane];
    }
    *channel = c;
    return group == 0 && c < channels;
}

} // namespace

#endif
