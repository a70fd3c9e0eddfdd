/* Devices: their streams and libraries, and what is said when they fail. */
#include "cuda/device.h"
#include "cuda/net/cudnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct device *device_of(const l3a_context *context) {
    struct device *device = context->device;
    cudaSetDevice(device->number); /* if this fails, so does the call that follows */
    return device;
}

static const char use_less[] = "use a smaller dim or block, or the processor";
static const char try_again[] = "start again; if it fails again, use the processor, and see what nvidia-smi and the system log say";

l3a_status device_check(struct device *device, cudaError_t code, const char *call) {
    if (code == cudaSuccess) {
        return L3A_OK;
    }
    cudaGetLastError(); /* an error that can be recovered from is not reported twice */
    if (code == cudaErrorMemoryAllocation) {
        return device->host->fail(device->context, L3A_ERROR_MEMORY, use_less, "cuda:%d: out of memory", device->number);
    }
    return device->host->fail(device->context, L3A_ERROR_DEVICE, try_again, "cuda:%d: the device failed: %s (%s) in %.60s",
                              device->number, cudaGetErrorString(code), cudaGetErrorName(code), call);
}

l3a_status device_check_blas(struct device *device, cublasStatus_t code, const char *call) {
    if (code == CUBLAS_STATUS_SUCCESS) {
        return L3A_OK;
    }
    const bool memory = code == CUBLAS_STATUS_ALLOC_FAILED;
    return device->host->fail(device->context, memory ? L3A_ERROR_MEMORY : L3A_ERROR_DEVICE, memory ? use_less : try_again,
                              "cuda:%d: %s: cuBLAS: %s in %.60s", device->number, memory ? "out of memory" : "the device failed",
                              cublasGetStatusString(code), call);
}

l3a_status device_check_solver(struct device *device, cusolverStatus_t code, const char *call) {
    if (code == CUSOLVER_STATUS_SUCCESS) {
        return L3A_OK;
    }
    const bool memory = code == CUSOLVER_STATUS_ALLOC_FAILED;
    return device->host->fail(device->context, memory ? L3A_ERROR_MEMORY : L3A_ERROR_DEVICE, memory ? use_less : try_again,
                              "cuda:%d: %s: cuSOLVER: error %d in %.60s", device->number,
                              memory ? "out of memory" : "the device failed", (int)code, call);
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
    const char *precision = getenv("NVIDIA_TF32_OVERRIDE");
    REFUSE_IF(precision && strcmp(precision, "0") != 0, "unset it, or use the processor",
              "cuda:%d: NVIDIA_TF32_OVERRIDE is set to '%.10s', with which float32 products can lose half of their digits", number,
              precision);
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
    TRY_CUDA(device, cudaMemPoolCreate(&device->stored, &wanted));
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
    if (device->stored) {
        cudaMemPoolDestroy(device->stored);
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
    snprintf(device->name, sizeof device->name, "%s", properties.name);
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
    char libraries[200], why[128];
    TRY(find_device(context, host, number, &properties));
    cudaDriverGetVersion(&driver);
    const struct cudnn_functions *cudnn = cudnn_find(why, sizeof why);
    if (cudnn) {
        snprintf(libraries, sizeof libraries, "cuDNN %zu.%zu", cudnn->version() / 10000, cudnn->version() / 100 % 100);
    } else {
        snprintf(libraries, sizeof libraries, "convolutions are slower without cuDNN %d: %s", CUDNN_MAJOR, why);
    }
    snprintf(text, capacity, "%s, %.1f GiB, compute capability %d.%d, driver for CUDA %d.%d, %s", properties.name,
             (double)properties.totalGlobalMem / 0x1p30, properties.major, properties.minor, driver / 1000, driver % 1000 / 10,
             libraries);
done:
    return status;
}
