/* Kernels that show whether the emulation of CUDA is right (test_emulate_cuda.c). Each function launches one; pointers are the
 * device's, matrices row-major. */
#ifndef L3A_EMULATED_KERNELS_H
#define L3A_EMULATED_KERNELS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* numbers [count]: each thread adds its number, and nobody waits for anybody. */
cudaError_t run_count(cudaStream_t stream, unsigned blocks, unsigned threads, size_t count, float *numbers);
/* sums [rows] of numbers of 16 bits [rows x width], float16 or, with `brain`, bfloat16: by shuffles in warps and shared memory
 * between them; a block of x × y threads per row */
cudaError_t run_sum(cudaStream_t stream, int brain, size_t rows, size_t width, unsigned x, unsigned y, const void *from,
                    float *sums);
/* to [columns x rows] */
cudaError_t run_transpose(cudaStream_t stream, unsigned rows, unsigned columns, const float *from, float *to);
/* d [m x n] = 2 a [m x k] b [n x k]ᵀ of tiles, a and b of 16 bits as above: one warp per tile, which passes through shared memory
 */
cudaError_t run_tiles(cudaStream_t stream, int brain, unsigned m, unsigned n, unsigned k, const void *a, const void *b, float *d);
/* The same, with b [k x n] and accumulators that begin with d: d += a b */
cudaError_t run_more_tiles(cudaStream_t stream, unsigned m, unsigned n, unsigned k, const void *a, const void *b, float *d);
/* Turns `count` numbers around, through as much dynamic shared memory. */
cudaError_t run_reverse(cudaStream_t stream, unsigned threads, unsigned count, float *numbers);
/* to [4 x 32]: what one warp gets of the numbers 0, 1, … by xor 5, down 3 and up 2 in parts of 8 lanes, and from lane 7 */
cudaError_t run_shuffles(cudaStream_t stream, int *to);
/* to [4 x count] = erf, tanh, exp and the inverse root of |x| of count numbers, eight halves at a time, as halves */
cudaError_t run_functions(cudaStream_t stream, size_t count, const void *halves, void *to);

/* What ends the program. */
enum misuse { MISSED_BARRIER, OTHER_BARRIER, MISSED_SHUFFLE, PARTIAL_MASK, ABSENT_LANE, CROOKED_TILE, MISUSES };
cudaError_t run_misuse(cudaStream_t stream, enum misuse misuse, float *numbers);

#ifdef __cplusplus
}
#endif

#endif
