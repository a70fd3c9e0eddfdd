/* Devices: their streams, libraries and memory, and what is said when they fail. */
#include "algebra/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

struct device *device_of(const l3a_context *context) {
    struct device *device = context->device;
    cudaSetDevice(device->number); /* if this fails, so does the call that follows */
    return device;
}

static const double GIB = 1024.0 * 1024 * 1024;

l3a_status device_check(struct device *device, cudaError_t code, const char *call) {
    if (code == cudaSuccess) {
        return L3A_OK;
    }
    cudaGetLastError(); /* an error that can be recovered from is not reported twice */
    if (code == cudaErrorMemoryAllocation) {
        return device->host->fail(device->context, L3A_ERROR_MEMORY, "use a smaller dim or block, or the processor",
                                  "cuda:%d: out of memory", device->number);
    }
    return device->host->fail(device->context, L3A_ERROR_DEVICE,
                              "try again; if it fails again, use the processor and look at what nvidia-smi and the system log say",
                              "cuda:%d: %s (%s) in %.60s", device->number, cudaGetErrorString(code), cudaGetErrorName(code), call);
}

l3a_status device_check_blas(struct device *device, cublasStatus_t code, const char *call) {
    if (code == CUBLAS_STATUS_SUCCESS) {
        return L3A_OK;
    }
    const bool memory = code == CUBLAS_STATUS_ALLOC_FAILED;
    return device->host->fail(device->context, memory ? L3A_ERROR_MEMORY : L3A_ERROR_DEVICE,
                              memory ? "use a smaller dim or block, or the processor" : "try again, or use the processor",
                              "cuda:%d: cuBLAS: %s in %.60s", device->number, cublasGetStatusString(code), call);
}

l3a_status device_check_solver(struct device *device, cusolverStatus_t code, const char *call) {
    if (code == CUSOLVER_STATUS_SUCCESS) {
        return L3A_OK;
    }
    const bool memory = code == CUSOLVER_STATUS_ALLOC_FAILED;
    return device->host->fail(device->context, memory ? L3A_ERROR_MEMORY : L3A_ERROR_DEVICE,
                              memory ? "use a smaller dim or block, or the processor" : "try again, or use the processor",
                              "cuda:%d: cuSOLVER: error %d in %.60s", device->number, (int)code, call);
}

/* ---- Memory ---- */

l3a_status device_allocate(struct device *device, size_t count, size_t size, void *memory) {
    size_t bytes, unused = 0, all = 0;
    void *made = NULL;
    const bool fits = !__builtin_mul_overflow(count, size, &bytes);
    const cudaError_t code =
        fits ? cudaMallocFromPoolAsync(&made, bytes ? bytes : 1, device->pool, device->stream) : cudaErrorMemoryAllocation;
    if (code != cudaSuccess) {
        made = NULL;
    }
    memcpy(memory, &made, sizeof made);
    if (code != cudaErrorMemoryAllocation) {
        return device_check(device, code, "cudaMallocFromPoolAsync");
    }
    cudaGetLastError();
    cudaMemGetInfo(&unused, &all);
    return device->host->fail(device->context, L3A_ERROR_MEMORY, "use a smaller dim or block, or the processor",
                              "cuda:%d: out of memory: cannot allocate %zu x %zu bytes; %.1f of %.1f GiB are free", device->number,
                              count, size, (double)unused / GIB, (double)all / GIB);
}

l3a_status device_allocate_zeroed(struct device *device, size_t count, size_t size, void *memory) {
    l3a_status status = L3A_OK;
    void *made;
    TRY(device_allocate(device, count, size, memory));
    memcpy(&made, memory, sizeof made);
    status = device_check(device, cudaMemsetAsync(made, 0, count * size, device->stream), "cudaMemsetAsync");
    if (status != L3A_OK) {
        device_release(device, made);
        memset(memory, 0, sizeof made);
    }
done:
    return status;
}

void device_release(struct device *device, void *memory) {
    if (memory) {
        cudaFreeAsync(memory, device->stream);
    }
}

enum { FEW = 1 << 15 }; /* bytes that CUDA copies at once, from any memory */

static l3a_status make_slots(struct device *device) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < SLOTS && !device->copied[i]; i++) {
        TRY_CUDA(device, cudaEventCreateWithFlags(&device->copied[i], cudaEventDisableTiming));
    }
    if (!device->pinned) {
        TRY_CUDA(device, cudaHostAlloc((void **)&device->pinned, (size_t)SLOTS * SLOT_BYTES, cudaHostAllocDefault));
    }
done:
    return status;
}

l3a_status device_put_on(struct device *device, cudaStream_t stream, void *to, const void *from, size_t bytes) {
    l3a_status status = L3A_OK;
    if (bytes && bytes <= FEW) {
        TRY_CUDA(device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
        return L3A_OK;
    }
    TRY(make_slots(device));
    for (size_t done = 0; done < bytes; done += SLOT_BYTES) {
        const size_t slot = device->next_slot++ % SLOTS, count = bytes - done < SLOT_BYTES ? bytes - done : SLOT_BYTES;
        char *pinned = device->pinned + slot * SLOT_BYTES;
        TRY_CUDA(device, cudaEventSynchronize(device->copied[slot]));
        device->host->copy(device->context, pinned, (const char *)from + done, count);
        TRY_CUDA(device, cudaMemcpyAsync((char *)to + done, pinned, count, cudaMemcpyHostToDevice, stream));
        TRY_CUDA(device, cudaEventRecord(device->copied[slot], stream));
    }
done:
    return status;
}

l3a_status device_put(struct device *device, void *to, const void *from, size_t bytes) {
    return device_put_on(device, device->stream, to, from, bytes);
}

/* Some slots are on their way while one is copied out. */
static l3a_status get_by_slots(struct device *device, cudaStream_t stream, char *to, const char *from, size_t bytes) {
    const size_t first = device->next_slot, most = (size_t)SLOTS / 2 * SLOT_BYTES;
    l3a_status status = L3A_OK;
    TRY(make_slots(device));
    device->next_slot += (bytes + SLOT_BYTES - 1) / SLOT_BYTES;
    for (size_t done = 0, sent = 0; done < bytes; done += SLOT_BYTES) {
        for (; sent < bytes && sent - done < most; sent += SLOT_BYTES) {
            const size_t slot = (first + sent / SLOT_BYTES) % SLOTS, count = bytes - sent < SLOT_BYTES ? bytes - sent : SLOT_BYTES;
            TRY_CUDA(device, cudaEventSynchronize(device->copied[slot]));
            TRY_CUDA(device,
                     cudaMemcpyAsync(device->pinned + slot * SLOT_BYTES, from + sent, count, cudaMemcpyDeviceToHost, stream));
            TRY_CUDA(device, cudaEventRecord(device->copied[slot], stream));
        }
        const size_t slot = (first + done / SLOT_BYTES) % SLOTS;
        TRY_CUDA(device, cudaEventSynchronize(device->copied[slot]));
        device->host->copy(device->context, to + done, device->pinned + slot * SLOT_BYTES,
                           bytes - done < SLOT_BYTES ? bytes - done : SLOT_BYTES);
    }
done:
    return status;
}

l3a_status device_get_on(struct device *device, cudaStream_t stream, void *to, const void *from, size_t bytes) {
    l3a_status status = L3A_OK;
    if (bytes > FEW) {
        TRY(get_by_slots(device, stream, to, from, bytes));
    } else if (bytes) {
        TRY_CUDA(device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
    }
    TRY_CUDA(device, cudaStreamSynchronize(stream));
done:
    return status;
}

l3a_status device_get(struct device *device, void *to, const void *from, size_t bytes) {
    return device_get_on(device, device->stream, to, from, bytes);
}

l3a_status device_copy_of(struct device *device, const void *from, size_t bytes, void *memory) {
    l3a_status status = L3A_OK;
    void *made;
    TRY(device_allocate(device, bytes, 1, memory));
    memcpy(&made, memory, sizeof made);
    TRY(device_put(device, made, from, bytes));
done:
    return status;
}

l3a_status device_wait(struct device *device) {
    return device_check(device, cudaStreamSynchronize(device->stream), "cudaStreamSynchronize");
}

l3a_status device_follow(struct device *device, const l3a_context *other) {
    const struct device *before = other->device;
    return before == device ? L3A_OK : device_check(device, cudaStreamSynchronize(before->stream), "cudaStreamSynchronize");
}

/* ---- Opening ---- */

#define REFUSE_IF(condition, ...)                                                                                                  \
    do {                                                                                                                           \
        if (condition) {                                                                                                           \
            status = host->fail(context, L3A_ERROR_DEVICE, __VA_ARGS__);                                                           \
            goto done;                                                                                                             \
        }                                                                                                                          \
    } while (0)

static l3a_status find_device(l3a_context *context, const struct plugin_host *host, int number, struct cudaDeviceProp *properties) {
    l3a_status status = L3A_OK;
    int count = 0, driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    const cudaError_t code = cudaGetDeviceCount(&count);
    REFUSE_IF(!driver, "install NVIDIA's driver, or use the processor", "cuda:%d: there is no NVIDIA driver", number);
    REFUSE_IF(code == cudaErrorInsufficientDriver, "install a newer driver, or use the processor",
              "cuda:%d: the driver is too old: it is for CUDA %d.%d, and the plug-in needs %d.%d", number, driver / 1000,
              driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    REFUSE_IF(code == cudaErrorNoDevice || (code == cudaSuccess && number >= count), "choose another device, or use the processor",
              "cuda:%d: there %s %d CUDA device%s", number, count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    REFUSE_IF(code != cudaSuccess, "look at what nvidia-smi says, or use the processor", "cuda:%d: %s (%s)", number,
              cudaGetErrorString(code), cudaGetErrorName(code));
    const cudaError_t found = cudaGetDeviceProperties(properties, number);
    REFUSE_IF(found != cudaSuccess, "look at what nvidia-smi says, or use the processor", "cuda:%d: %s (%s)", number,
              cudaGetErrorString(found), cudaGetErrorName(found));
    REFUSE_IF(properties->major < 8, "use a newer device, or the processor",
              "cuda:%d: %s is too old: it has compute capability %d.%d, and the plug-in needs 8.0", number, properties->name,
              properties->major, properties->minor);
done:
    return status;
}

/* Devices made for computing have fast float64 and tensor cores that multiply TF32 numbers eight times as fast as float32 numbers;
 * those made for graphics have neither. */
static bool has_tensors(int number) {
    int ratio = 0;
    return cudaDeviceGetAttribute(&ratio, cudaDevAttrSingleToDoublePrecisionPerfRatio, number) == cudaSuccess && ratio <= 2;
}

static l3a_status open_parts(struct device *device) {
    const struct cudaMemPoolProps wanted = {.allocType = cudaMemAllocationTypePinned,
                                            .location = {.type = cudaMemLocationTypeDevice, .id = device->number}};
    uint64_t keep = UINT64_MAX; /* work space is not given back to the system after each call */
    l3a_status status = L3A_OK;
    TRY_CUDA(device, cudaSetDevice(device->number));
    TRY_CUDA(device, cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking));
    TRY_CUDA(device, cudaStreamCreateWithFlags(&device->copier, cudaStreamNonBlocking));
    TRY_CUDA(device, cudaMemPoolCreate(&device->pool, &wanted));
    TRY_CUDA(device, cudaMemPoolSetAttribute(device->pool, cudaMemPoolAttrReleaseThreshold, &keep));
    TRY_BLAS(device, cublasCreate(&device->blas));
    TRY_BLAS(device, cublasSetStream(device->blas, device->stream));
    TRY_SOLVER(device, cusolverDnCreate(&device->solver));
    TRY_SOLVER(device, cusolverDnSetStream(device->solver, device->stream));
    TRY(device_allocate(device, 1, sizeof *device->info, &device->info));
done:
    return status;
}

/* A context can be opened on one thread and freed on another. */
void device_close_number(l3a_context *context, void *opened) {
    struct device *device = opened;
    cudaSetDevice(device->number);
    if (device->solver) {
        cusolverDnDestroy(device->solver);
    }
    if (device->blas) {
        cublasDestroy(device->blas);
    }
    device_release(device, device->info);
    for (size_t i = 0; i < SLOTS && device->copied[i]; i++) {
        cudaEventSynchronize(device->copied[i]);
        cudaEventDestroy(device->copied[i]);
    }
    if (device->pinned) {
        cudaFreeHost(device->pinned);
    }
    if (device->stream) {
        cudaStreamSynchronize(device->stream);
    }
    if (device->pool) {
        cudaMemPoolDestroy(device->pool);
    }
    if (device->copier) {
        cudaStreamDestroy(device->copier);
    }
    if (device->stream) {
        cudaStreamDestroy(device->stream);
    }
    device->host->release(context, device);
}

l3a_status device_open_number(l3a_context *context, const struct plugin_host *host, int number, void **opened) {
    l3a_status status = L3A_OK;
    struct cudaDeviceProp properties;
    struct device *device = NULL;
    TRY(find_device(context, host, number, &properties));
    TRY(host->allocate(context, 1, sizeof *device, &device));
    *device = (struct device){.context = context, .host = host, .number = number, .has_tensors = has_tensors(number)};
    status = open_parts(device);
    if (status != L3A_OK) {
        device_close_number(context, device);
        device = NULL;
    }
    *opened = device;
done:
    return status;
}

l3a_status device_describe_number(l3a_context *context, const struct plugin_host *host, int number, char *text, size_t capacity) {
    l3a_status status = L3A_OK;
    struct cudaDeviceProp properties;
    int driver = 0;
    TRY(find_device(context, host, number, &properties));
    cudaDriverGetVersion(&driver);
    snprintf(text, capacity, "%s, %.1f GiB, compute capability %d.%d, driver for CUDA %d.%d", properties.name,
             (double)properties.totalGlobalMem / GIB, properties.major, properties.minor, driver / 1000, driver % 1000 / 10);
done:
    return status;
}
