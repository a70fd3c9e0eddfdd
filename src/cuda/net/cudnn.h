/* What networks use of cuDNN, which is looked for when it is needed: the algebra, and networks without it, work where it is not
 * installed. */
#ifndef L3A_CUDA_NET_CUDNN_H
#define L3A_CUDA_NET_CUDNN_H

#include <cudnn.h>
#include <stddef.h>

struct cudnn_functions {
    size_t (*version)(void);
    cudnnStatus_t (*create)(cudnnHandle_t *);
    cudnnStatus_t (*destroy)(cudnnHandle_t);
    cudnnStatus_t (*set_stream)(cudnnHandle_t, cudaStream_t);
    const char *(*text)(cudnnStatus_t);
    cudnnStatus_t (*make)(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *);
    cudnnStatus_t (*drop)(cudnnBackendDescriptor_t);
    cudnnStatus_t (*finish)(cudnnBackendDescriptor_t);
    cudnnStatus_t (*set)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t, const void *);
    cudnnStatus_t (*get)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t, int64_t *,
                         void *);
    cudnnStatus_t (*execute)(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t);
};

/* NULL, and why, if it is missing or too old or new. The same for all threads. */
const struct cudnn_functions *cudnn_find(char *text, size_t capacity);

#endif
