/* How the kernels of networks are launched, and what they need of the CUDA language. nvcc compiles them for the device. Tests
 * compile the very same files with the host's C++ compiler, for the emulation of tests/unit/emulate_cuda.h, so that their numbers
 * are checked where there is no device. */
#ifndef L3A_CUDA_NET_LAUNCH_H
#define L3A_CUDA_NET_LAUNCH_H

#ifdef L3A_EMULATE_CUDA

#include "emulate_cuda.h"

#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

/* LAUNCH(kernel, grid, threads, shared_bytes, stream, arguments…) launches a kernel and says what cudaGetLastError() does. A kernel
 * whose template has several arguments stands in parentheses: LAUNCH((attend<__half, 64>), …). */
#define LAUNCH(kernel, ...) launch_kernel(kernel, __VA_ARGS__)

/* Declares the dynamic shared memory of a kernel, `type *name`. It begins at a multiple of 128 bytes. */
#define DYNAMIC_SHARED(type, name)                                                                                                 \
    extern __shared__ __align__(128) unsigned char name##_bytes[];                                                                 \
    type *const name = reinterpret_cast<type *>(name##_bytes)

/* What a kernel may have without asking. */
enum { PLAIN_SHARED_BYTES = 48 << 10 };

template <class... Parameters, class... Arguments>
cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 threads, size_t shared_bytes, cudaStream_t stream,
                          Arguments... arguments) {
    if (shared_bytes > PLAIN_SHARED_BYTES) {
        const cudaError_t code = cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
        if (code != cudaSuccess) {
            return code;
        }
    }
    kernel<<<grid, threads, shared_bytes, stream>>>(arguments...);
    return cudaGetLastError();
}

#endif

#endif
