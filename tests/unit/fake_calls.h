/* What the files of the fake CUDA share: calls that fail when the test wants it, and what is held. */
#ifndef L3A_FAKE_CALLS_H
#define L3A_FAKE_CALLS_H

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

/* Counts a call, and says whether it fails, by its name or with what it returns then. */
bool fails(const char *name);
cudaError_t answer(const char *name);
cublasStatus_t answer_blas(const char *name);
/* Memory that counts as an object, of zeros; and back. */
void *hold(size_t bytes, bool pinned);
void drop(const void *object);
/* Whether `bytes` from an address on are memory of the fake's, or the processor's. */
bool fits(const void *address, size_t bytes);
/* The caller has made a mistake; the test will see it. */
void count_misuse(void);

#endif
