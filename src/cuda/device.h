/* A CUDA device, as a context keeps it: its streams, libraries and memory. These files are the plug-in libl3a-cuda.so, of which the
 * library itself knows base/plugin.h: what is learned is in algebra/, networks are in net/.
 *
 * All work of a context goes to its stream. Calls that give numbers to the processor wait for them, others do not; what they
 * report late, the next call that waits reports. Objects of one context may be read by the work of another: whoever changes them
 * waits, or the reader does. Work space comes from the context's memory pool and goes back when the call returns.
 *
 * What goes to the device passes through pinned memory in slots, so that a call returns while the device still works on earlier
 * ones. */
#ifndef L3A_CUDA_DEVICE_H
#define L3A_CUDA_DEVICE_H

#include "base/plugin.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>

enum { SLOTS = 8, SLOT_BYTES = 16 << 20 };

/* What a context keeps. */
struct device {
    l3a_context *context;
    const struct plugin_host *host;
    int number;
    char name[256];
    bool has_tensors;            /* products of TF32 numbers are far faster than those of float32 numbers */
    cudaStream_t stream, copier; /* copier: for features, ahead of the work */
    cudaMemPool_t pool, stored;  /* stored: for scatters */
    cublasHandle_t blas;
    cusolverDnHandle_t solver;
    int *info;                 /* where cuSOLVER says how it ended */
    char *pinned;              /* SLOTS x SLOT_BYTES; NULL until the first copy that needs it */
    cudaEvent_t copied[SLOTS]; /* the slot is free again */
    size_t next_slot;
};

#define TRY_CUDA(device, call) TRY(device_check(device, call, #call))
#define TRY_BLAS(device, call) TRY(device_check_blas(device, call, #call))
#define TRY_SOLVER(device, call) TRY(device_check_solver(device, call, #call))

/* device.c: opening, and errors */
/* The device of a context, made the one that the calling thread uses. */
struct device *device_of(const l3a_context *context);
l3a_status device_check(struct device *device, cudaError_t code, const char *call);
l3a_status device_check_blas(struct device *device, cublasStatus_t code, const char *call);
l3a_status device_check_solver(struct device *device, cusolverStatus_t code, const char *call);
l3a_status device_open_number(l3a_context *context, const struct plugin_host *host, int number, void **device);
void device_close_number(l3a_context *context, void *device);
l3a_status device_describe_number(l3a_context *context, const struct plugin_host *host, int number, char *text, size_t capacity);

/* memory.c */
/* As struct l3a_plugin says. */
l3a_status device_memory_left(l3a_context *context, uint64_t *available);
/* Memory of the device: count * size bytes, and at least one. *memory is NULL on failure. Its contents are unknown, or zeros. */
l3a_status device_allocate(struct device *device, size_t count, size_t size, void *memory);
l3a_status device_allocate_zeroed(struct device *device, size_t count, size_t size, void *memory);
/* Whether there is room for so many bytes besides what learning is planned to need and has not yet allocated. */
bool device_has_room(struct device *device, size_t bytes);
/* The same for what a scatter keeps: pinned memory of the processor if the device has no room. */
l3a_status device_store(struct device *device, size_t count, size_t size, void *memory);
l3a_status device_store_zeroed(struct device *device, size_t count, size_t size, void *memory);
/* Of either kind; NULL is accepted. */
void device_release(struct device *device, void *memory);
/* Copies to the device, whose work waits for it, and from it, which waits for its work. `from` may change when it returns. */
l3a_status device_put(struct device *device, void *to, const void *from, size_t bytes);
l3a_status device_put_on(struct device *device, cudaStream_t stream, void *to, const void *from, size_t bytes);
l3a_status device_get(struct device *device, void *to, const void *from, size_t bytes);
l3a_status device_get_on(struct device *device, cudaStream_t stream, void *to, const void *from, size_t bytes);
/* Allocates and copies. */
l3a_status device_copy_of(struct device *device, const void *from, size_t bytes, void *memory);
l3a_status device_wait(struct device *device);
/* Waits for the work of another context, if it is another. */
l3a_status device_follow(struct device *device, const l3a_context *other);

#endif
