/* Sorting, with CUB. */
#include "cuda/algebra/sort.h"

#include <cub/device/device_segmented_radix_sort.cuh>

namespace {

enum { THREADS = 256, MOST_BLOCKS = 65535 };

/* The same as falling_key() of the processor. */
__device__ uint32_t falling_key(float score) {
    const uint32_t bits = __float_as_uint(score == 0 ? 0.0F : score);
    return bits & 0x80000000U ? bits : ~bits & 0x7FFFFFFFU;
}

__global__ void make_keys(struct kernel_ranking ranking, size_t rows, size_t classes) {
    const size_t first = (size_t)blockIdx.x * blockDim.x + threadIdx.x, step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = first; i < rows * classes; i += step) {
        ranking.keys[i] = falling_key(ranking.scores[i]);
        ranking.images[i] = (uint32_t)(i % rows);
    }
    for (size_t k = first; k <= classes; k += step) {
        ranking.offsets[k] = (int)(k * rows);
    }
}

} // namespace

/* A radix sort is stable, so images with the same key stay in their order. */
cudaError_t kernel_rank(cudaStream_t stream, const struct kernel_ranking *ranking, size_t rows, size_t classes, void *work,
                        size_t *bytes) {
    const size_t blocks = (rows * classes + THREADS - 1) / THREADS + 1;
    if (work) {
        make_keys<<<(unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), THREADS, 0, stream>>>(*ranking, rows, classes);
        const cudaError_t code = cudaGetLastError();
        if (code != cudaSuccess) {
            return code;
        }
    }
    return cub::DeviceSegmentedRadixSort::SortPairs(work, *bytes, (const uint32_t *)ranking->keys, ranking->sorted,
                                                    (const uint32_t *)ranking->images, ranking->order, (int)(rows * classes),
                                                    (int)classes, ranking->offsets, ranking->offsets + 1, 0, 32, stream);
}
