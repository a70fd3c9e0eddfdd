/* CUDA without a device: the functions of its runtime, cuBLAS and cuSOLVER that the plug-in calls, and the kernels of its algebra.
 * Memory is the processor's, copies are made, and the algebra computes nothing: new memory is zeros. What networks do is computed:
 * their kernels run for real (emulate_cuda.h), and so do the products of cuBLASLt (fake_cublas_lt.c). Any call can be made to fail,
 * and what is held is counted. The plug-in's own files, compiled as for a real device, are linked with this
 * (test_cuda_failures.c). */
#include "fake_cuda.h"
#include "fake_calls.h"

#include "cuda/algebra/algebra.h"
#include "cuda/algebra/sort.h"
#include "cuda/net/cudnn.h"

#include "emulated_threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

L3A_PUBLIC extern struct fake_cuda l3a_fake_cuda;
struct fake_cuda l3a_fake_cuda;

static struct fake_cuda *const fake = &l3a_fake_cuda;

/* ---- Calls that fail ---- */

bool fails(const char *name) {
    fake->calls++;
    const bool now = fake->failing && fake->calls >= fake->failing && (fake->failure == DEVICE_LOST || !fake->failed);
    if (now && !fake->failed) {
        fake->failed = name;
    }
    return now;
}

cudaError_t answer(const char *name) {
    static const cudaError_t codes[] = {[NO_MEMORY] = cudaErrorMemoryAllocation,
                                        [LAUNCH_FAILURE] = cudaErrorLaunchFailure,
                                        [DEVICE_LOST] = cudaErrorDevicesUnavailable};
    return fails(name) ? codes[fake->failure] : cudaSuccess;
}

cublasStatus_t answer_blas(const char *name) {
    static const cublasStatus_t codes[] = {[NO_MEMORY] = CUBLAS_STATUS_ALLOC_FAILED,
                                           [LAUNCH_FAILURE] = CUBLAS_STATUS_EXECUTION_FAILED,
                                           [DEVICE_LOST] = CUBLAS_STATUS_INTERNAL_ERROR};
    return fails(name) ? codes[fake->failure] : CUBLAS_STATUS_SUCCESS;
}

static cusolverStatus_t answer_solver(const char *name) {
    static const cusolverStatus_t codes[] = {[NO_MEMORY] = CUSOLVER_STATUS_ALLOC_FAILED,
                                             [LAUNCH_FAILURE] = CUSOLVER_STATUS_EXECUTION_FAILED,
                                             [DEVICE_LOST] = CUSOLVER_STATUS_INTERNAL_ERROR};
    return fails(name) ? codes[fake->failure] : CUSOLVER_STATUS_SUCCESS;
}

/* ---- What is held ---- */

enum { MOST = 4096 };

static struct held {
    void *base; /* what is freed */
    char *memory;
    size_t bytes;
    bool pinned, pooled;
} held[MOST];

enum { ALIGNED = 256 /* as a device's memory is */, LARGE = 1 << 20 };

/* What holds this address; NULL: nothing. */
static struct held *find(const void *address) {
    for (size_t i = 0; i < MOST; i++) {
        if (held[i].memory && (const char *)address >= held[i].memory && (const char *)address < held[i].memory + held[i].bytes) {
            return &held[i];
        }
    }
    return NULL;
}

/* A large piece costs nothing until it is used. A small one ends where it should, so that sanitizers see what goes beyond. */
static void allocate_zeros(struct held *place, size_t bytes) {
    if (bytes >= LARGE) {
        place->base = calloc(1, bytes + ALIGNED);
        place->memory = place->base ? (char *)place->base + (ALIGNED - (uintptr_t)place->base % ALIGNED) : NULL;
    } else if (posix_memalign(&place->base, ALIGNED, bytes) == 0) {
        place->memory = memset(place->base, 0, bytes);
    }
    if (!place->memory) {
        abort();
    }
}

void *hold(size_t bytes, bool pinned) {
    struct held *place = held;
    while (place < held + MOST && place->memory) {
        place++;
    }
    if (place == held + MOST) {
        abort();
    }
    allocate_zeros(place, bytes);
    place->bytes = bytes;
    place->pinned = pinned;
    fake->objects++;
    return place->memory;
}

void drop(const void *object) {
    struct held *place = find(object);
    if (!place || place->memory != object) {
        fake->misuses++;
        return;
    }
    fake->bytes -= place->pooled && place->bytes <= fake->bytes ? place->bytes : 0;
    free(place->base);
    *place = (struct held){0};
    fake->objects--;
}

bool fits(const void *address, size_t bytes) {
    const struct held *place = find(address);
    return !place || bytes <= place->bytes - (size_t)((const char *)address - place->memory);
}

void count_misuse(void) {
    fake->misuses++;
}

/* A handle is held if the call succeeds. */
#define MAKE(name, made, ...)                                                                                                      \
    cudaError_t name(__VA_ARGS__) {                                                                                                \
        const cudaError_t code = answer(#name);                                                                                    \
        *(made) = code == cudaSuccess ? hold(1, false) : NULL;                                                                     \
        return code;                                                                                                               \
    }
/* Whatever it says, the handle is gone. */
#define DROP(name, type)                                                                                                           \
    cudaError_t name(type object) {                                                                                                \
        drop(object);                                                                                                              \
        return answer(#name);                                                                                                      \
    }
#define ACCEPT(name, ...)                                                                                                          \
    cudaError_t name(__VA_ARGS__) {                                                                                                \
        return answer(#name);                                                                                                      \
    }

/* ---- The runtime ---- */

MAKE(cudaStreamCreateWithFlags, stream, cudaStream_t *stream, unsigned flags)
MAKE(cudaEventCreateWithFlags, event, cudaEvent_t *event, unsigned flags)
MAKE(cudaMemPoolCreate, pool, cudaMemPool_t *pool, const struct cudaMemPoolProps *wanted)
DROP(cudaStreamDestroy, cudaStream_t)
DROP(cudaEventDestroy, cudaEvent_t)
DROP(cudaMemPoolDestroy, cudaMemPool_t)
DROP(cudaFreeHost, void *)
ACCEPT(cudaSetDevice, int number)
ACCEPT(cudaStreamSynchronize, cudaStream_t stream)
ACCEPT(cudaStreamWaitEvent, cudaStream_t stream, cudaEvent_t event, unsigned flags)
ACCEPT(cudaEventRecord, cudaEvent_t event, cudaStream_t stream)
ACCEPT(cudaEventSynchronize, cudaEvent_t event)
ACCEPT(cudaEventElapsedTime, float *milliseconds, cudaEvent_t from, cudaEvent_t to)
ACCEPT(cudaMemPoolSetAttribute, cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
ACCEPT(cudaMemPoolTrimTo, cudaMemPool_t pool, size_t bytes)

ACCEPT(cudaFuncSetAttribute, const void *kernel, enum cudaFuncAttribute attribute, int value)

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream) {
    (void)stream;
    drop(memory);
    return answer("cudaFreeAsync");
}

cudaError_t cudaMallocFromPoolAsync(void **made, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
    (void)pool, (void)stream;
    const cudaError_t code = answer("cudaMallocFromPoolAsync");
    *made = code == cudaSuccess ? hold(bytes, false) : NULL;
    if (*made) {
        find(*made)->pooled = true;
        fake->bytes += bytes;
        fake->most_bytes = fake->bytes > fake->most_bytes ? fake->bytes : fake->most_bytes;
    }
    return code;
}

cudaError_t cudaHostAlloc(void **made, size_t bytes, unsigned flags) {
    (void)flags;
    const cudaError_t code = answer("cudaHostAlloc");
    *made = code == cudaSuccess ? hold(bytes, true) : NULL;
    return code;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *about, const void *memory) {
    const struct held *place = find(memory);
    const cudaError_t code = answer("cudaPointerGetAttributes");
    if (code == cudaSuccess) {
        about->type = !place ? cudaMemoryTypeUnregistered : place->pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    }
    return code;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
    (void)stream;
    const cudaError_t code = answer("cudaMemsetAsync");
    fake->misuses += !find(memory) || !fits(memory, bytes);
    if (code == cudaSuccess && fits(memory, bytes)) {
        memset(memory, value, bytes);
    }
    return code;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
    (void)kind, (void)stream;
    const cudaError_t code = answer("cudaMemcpyAsync");
    fake->misuses += (!find(to) && !find(from)) || !fits(to, bytes) || !fits(from, bytes);
    if (code == cudaSuccess && fits(to, bytes) && fits(from, bytes)) {
        memcpy(to, from, bytes);
    }
    return code;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *all) {
    const cudaError_t code = answer("cudaMemGetInfo");
    *unused = *all = code == cudaSuccess ? (size_t)8 << 30 : 0;
    return code;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    (void)pool, (void)attribute;
    memset(value, 0, sizeof(uint64_t));
    return answer("cudaMemPoolGetAttribute");
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int number) {
    (void)attribute, (void)number;
    *value = 2;
    return answer("cudaDeviceGetAttribute");
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = fake->driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = fake->devices;
    return fake->count_code ? (cudaError_t)fake->count_code : answer("cudaGetDeviceCount");
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int number) {
    (void)number;
    memset(properties, 0, sizeof *properties);
    strcpy(properties->name, "a fake");
    properties->major = fake->major;
    properties->totalGlobalMem = (size_t)8 << 30;
    return answer("cudaGetDeviceProperties");
}

cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t code) {
    return code == cudaErrorLaunchFailure ? "a kernel failed" : "the device is gone";
}

const char *cudaGetErrorName(cudaError_t code) {
    return code == cudaErrorLaunchFailure ? "cudaErrorLaunchFailure" : "cudaErrorDevicesUnavailable";
}

/* ---- Kernels of networks, which run ---- */

cudaError_t emulated_answer(const char *kernel) {
    return answer(kernel);
}

/* ---- cuDNN: src/cuda/net/cudnn.c, which looks for it, is not linked with this file, which has its function ---- */

const struct cudnn_functions *cudnn_find(char *text, size_t capacity) {
    snprintf(text, capacity, "there is no cuDNN");
    return NULL;
}

/* ---- Kernels of the algebra, which do not ---- */

ACCEPT(kernel_entries, cudaStream_t stream, real type, uint64_t seed, size_t width, size_t dim, void *values)
ACCEPT(kernel_split_entries, cudaStream_t stream, uint64_t seed, size_t width, size_t dim, float *values)
ACCEPT(kernel_split, cudaStream_t stream, size_t rows, size_t width, const float *z, float *to)
ACCEPT(kernel_shift, cudaStream_t stream, real type, size_t rows, size_t width, const float *z, const double *mean, void *to)
ACCEPT(kernel_squares, cudaStream_t stream, real type, size_t rows, size_t width, const void *x, double *sums)
ACCEPT(kernel_finish, cudaStream_t stream, real type, enum layer_kind kind, size_t rows, size_t dim, size_t width, size_t columns,
       const float *z, void *x)
ACCEPT(kernel_finish_kernels, cudaStream_t stream, real type, size_t rows, size_t dim, double rate, const double *own,
       const double *square, void *x)
ACCEPT(kernel_take, cudaStream_t stream, size_t count, size_t width, real from_type, const void *from, const size_t *chosen,
       const double *scale, real type, void *to)
ACCEPT(kernel_pack, cudaStream_t stream, size_t d, size_t first, size_t count, const double *square, double *packed)
ACCEPT(kernel_unpack, cudaStream_t stream, size_t d, size_t first, size_t count, const double *packed, double *square)
ACCEPT(kernel_add_square, cudaStream_t stream, size_t d, double keep, double *to, double scale, const double *from)
ACCEPT(kernel_add_triangle, cudaStream_t stream, size_t d, double scale, real type, const void *triangle, double *square)
ACCEPT(kernel_make_triangle, cudaStream_t stream, size_t d, real type, const void *from, double scale, const double *square,
       void *to)
ACCEPT(kernel_add_numbers, cudaStream_t stream, size_t count, real type, void *to, real from_type, const void *from)
ACCEPT(kernel_narrow, cudaStream_t stream, size_t d, const double *square, float *to)
ACCEPT(kernel_shift_diagonal, cudaStream_t stream, real type, size_t d, double shift, void *square)
ACCEPT(kernel_identities, cudaStream_t stream, size_t d, size_t block, float *to)
ACCEPT(kernel_diagonal, cudaStream_t stream, real type, size_t d, double scale, const void *square, double *to)
ACCEPT(kernel_triangle_diagonal, cudaStream_t stream, real type, size_t d, double scale, const void *triangle, double *to)
ACCEPT(kernel_root_diagonal, cudaStream_t stream, real type, size_t rows, size_t d, double scale, const void *root, double *to)
ACCEPT(kernel_product_numbers, cudaStream_t stream, real type, size_t rows, size_t d, const void *root, uint64_t first,
       size_t count, void *to)
ACCEPT(kernel_pivot_rows, cudaStream_t stream, real type, size_t d, const void *triangle, const size_t *pivots, size_t count,
       double *to)
ACCEPT(kernel_pivot_columns, cudaStream_t stream, size_t rows, size_t d, const double *x, const size_t *pivots, size_t count,
       double *to)
ACCEPT(kernel_combine, cudaStream_t stream, size_t d, const struct listed_rows *rows, size_t count, real type, void *to,
       real from_type, const void *from)
ACCEPT(kernel_dot, cudaStream_t stream, size_t d, const struct listed_rows *rows, size_t count, real left_type, const void *left,
       real right_type, const void *right, double *results)
ACCEPT(kernel_mirror, cudaStream_t stream, size_t d, double *square)
ACCEPT(kernel_multiply_triangle, cudaStream_t stream, size_t d, double scale, real type, const void *triangle, size_t rows,
       const double *x, double *work, double *y)

/* Called first to be told how much memory it needs. */
cudaError_t kernel_rank(cudaStream_t stream, const struct kernel_ranking *ranking, size_t rows, size_t classes, void *work,
                        size_t *bytes) {
    (void)stream, (void)rows, (void)classes, (void)ranking;
    *bytes = work ? *bytes : 256;
    return answer("kernel_rank");
}

/* ---- cuBLAS ---- */

#define ACCEPT_BLAS(name, ...)                                                                                                     \
    cublasStatus_t name(__VA_ARGS__) {                                                                                             \
        return answer_blas(#name);                                                                                                 \
    }

cublasStatus_t cublasCreate(cublasHandle_t *made) {
    const cublasStatus_t code = answer_blas("cublasCreate");
    *made = code == CUBLAS_STATUS_SUCCESS ? hold(1, false) : NULL;
    return code;
}

cublasStatus_t cublasDestroy(cublasHandle_t blas) {
    drop(blas);
    return answer_blas("cublasDestroy");
}

const char *cublasGetStatusString(cublasStatus_t code) {
    return code == CUBLAS_STATUS_ALLOC_FAILED ? "no memory" : "a product failed";
}

ACCEPT_BLAS(cublasSetStream, cublasHandle_t blas, cudaStream_t stream)
ACCEPT_BLAS(cublasSgemm, cublasHandle_t blas, cublasOperation_t a_as, cublasOperation_t b_as, int m, int n, int k,
            const float *scale, const float *a, int a_stride, const float *b, int b_stride, const float *keep, float *c,
            int c_stride)
ACCEPT_BLAS(cublasDgemm, cublasHandle_t blas, cublasOperation_t a_as, cublasOperation_t b_as, int m, int n, int k,
            const double *scale, const double *a, int a_stride, const double *b, int b_stride, const double *keep, double *c,
            int c_stride)
ACCEPT_BLAS(cublasGemmEx, cublasHandle_t blas, cublasOperation_t a_as, cublasOperation_t b_as, int m, int n, int k,
            const void *scale, const void *a, cudaDataType a_type, int a_stride, const void *b, cudaDataType b_type, int b_stride,
            const void *keep, void *c, cudaDataType c_type, int c_stride, cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
ACCEPT_BLAS(cublasDsyrk, cublasHandle_t blas, cublasFillMode_t fill, cublasOperation_t as, int n, int k, const double *scale,
            const double *a, int a_stride, const double *keep, double *c, int c_stride)
ACCEPT_BLAS(cublasDsymm, cublasHandle_t blas, cublasSideMode_t side, cublasFillMode_t fill, int m, int n, const double *scale,
            const double *a, int a_stride, const double *b, int b_stride, const double *keep, double *c, int c_stride)
ACCEPT_BLAS(cublasDtrsm, cublasHandle_t blas, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t as,
            cublasDiagType_t diagonal, int m, int n, const double *scale, const double *a, int a_stride, double *b, int b_stride)
ACCEPT_BLAS(cublasStrsm, cublasHandle_t blas, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t as,
            cublasDiagType_t diagonal, int m, int n, const float *scale, const float *a, int a_stride, float *b, int b_stride)

/* ---- cuSOLVER: every matrix is definite, as zeros in `info` say ---- */

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *made) {
    const cusolverStatus_t code = answer_solver("cusolverDnCreate");
    *made = code == CUSOLVER_STATUS_SUCCESS ? hold(1, false) : NULL;
    return code;
}

cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t solver) {
    drop(solver);
    return answer_solver("cusolverDnDestroy");
}

cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t solver, cudaStream_t stream) {
    (void)solver, (void)stream;
    return answer_solver("cusolverDnSetStream");
}

#define SOLVE(name, type)                                                                                                          \
    cusolverStatus_t name##_bufferSize(cusolverDnHandle_t solver, cublasFillMode_t fill, int n, type *a, int stride, int *size) {  \
        *size = 64;                                                                                                                \
        return answer_solver(#name "_bufferSize");                                                                                 \
    }                                                                                                                              \
    cusolverStatus_t name(cusolverDnHandle_t solver, cublasFillMode_t fill, int n, type *a, int stride, type *work, int size,      \
                          int *info) {                                                                                             \
        return answer_solver(#name);                                                                                               \
    }

SOLVE(cusolverDnSpotrf, float)
SOLVE(cusolverDnDpotrf, double)
SOLVE(cusolverDnDpotri, double)
