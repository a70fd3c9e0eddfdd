/* Sorting on the device. This header is apart from kernels.h, because CUB has other meanings for words of algebra.h. */
#ifndef L3A_CUDA_ALGEBRA_SORT_H
#define L3A_CUDA_ALGEBRA_SORT_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As rank_images(), with room for classes x rows numbers in each array, and for classes + 1 offsets. work: *bytes, which a
 * call with NULL sets and otherwise leaves alone. */
struct kernel_ranking {
    const float *scores;
    uint32_t *keys, *sorted, *images, *order;
    int *offsets;
};
cudaError_t kernel_rank(cudaStream_t stream, const struct kernel_ranking *ranking, size_t rows, size_t classes, void *work,
                        size_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
