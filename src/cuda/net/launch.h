#ifndef L3A_CUDA_NET_LAUNCH_H
#define L3A_CUDA_NET_LAUNCH_H

#include <cuda_runtime.h>

template <class Kernel> cudaError_t launch_prepare(Kernel *kernel, size_t shared_bytes) {
    return shared_bytes > 48 * 1024
               ? cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes)
               : cudaSuccess;
}
#define LAUNCH(kernel, grid, threads, shared_bytes, stream, ...)                                                                   \
    (launch_prepare(kernel, shared_bytes) ? cudaGetLastError()                                                                     \
                                          : (kernel<<<grid, threads, shared_bytes, stream>>>(__VA_ARGS__), cudaGetLastError()))
#define DYNAMIC_SHARED(type, name)                                                                                                 \
    extern __shared__ __align__(16) unsigned char name##_bytes[];                                                                  \
    type *name = reinterpret_cast<type *>(name##_bytes)

#endif
