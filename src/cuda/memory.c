/* The memory of a device, and copies to and from it.
 *
 * Work space and what is always on the device come from one pool of the context, scatters from another. What is left of the
 * device's memory is what is free, and what the pools keep for later. A scatter that would not leave enough for the work that the
 * plans count (context->device_work) goes to pinned memory of the processor instead. Kernels and copies reach it by the same
 * address. */
#include "cuda/device.h"

#include <string.h>

/* CUDA loads kernels, and the libraries take work space, when they are first used; sorting scores takes some, too. */
static const uint64_t SPARE = (uint64_t)256 << 20;
static const double GIB = 0x1p30;

/* Bytes of a pool that are in use, and those that it holds. */
static void measure(cudaMemPool_t pool, uint64_t *used, uint64_t *reserved) {
    uint64_t own_used = 0, own_reserved = 0;
    cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &own_used);
    cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &own_reserved);
    *used += own_used;
    *reserved += own_reserved;
}

static uint64_t beyond(uint64_t whole, uint64_t part) {
    return whole > part ? whole - part : 0;
}

l3a_status device_memory_left(l3a_context *context, uint64_t *available) {
    struct device *device = device_of(context);
    const uint64_t limit = context->options.device_memory_limit;
    uint64_t used = 0, reserved = 0;
    size_t unused = 0, all = 0;
    l3a_status status = L3A_OK;
    TRY(device_wait(device)); /* what is being freed counts as free */
    TRY_CUDA(device, cudaMemGetInfo(&unused, &all));
    measure(device->pool, &used, &reserved);
    measure(device->stored, &used, &reserved);
    *available = beyond(unused + beyond(reserved, used), SPARE);
    if (limit && *available > beyond(limit, used)) {
        *available = beyond(limit, used);
    }
done:
    return status;
}

static bool exceeds_limit(const struct device *device, size_t bytes) {
    const uint64_t limit = device->context->options.device_memory_limit;
    uint64_t used = 0, reserved = 0;
    if (limit) {
        measure(device->pool, &used, &reserved);
        measure(device->stored, &used, &reserved);
    }
    return limit && bytes > beyond(limit, used);
}

/* Whether an allocation is to fail: it exceeds the limit that the user has set, or a test wants it. What is being freed does not
 * count. */
static bool is_refused(struct device *device, size_t bytes) {
    l3a_context *context = device->context;
    if (context->failing_allocation && !--context->failing_allocation) {
        return true;
    }
    return exceeds_limit(device, bytes) && (cudaStreamSynchronize(device->stream) != cudaSuccess || exceeds_limit(device, bytes));
}

/* If there is not enough, the pools give back what they keep, and it is tried once more. */
static cudaError_t take(struct device *device, cudaMemPool_t pool, size_t bytes, void **made) {
    const size_t size = bytes ? bytes : 1;
    if (is_refused(device, size)) {
        return cudaErrorMemoryAllocation;
    }
    cudaError_t code = cudaMallocFromPoolAsync(made, size, pool, device->stream);
    if (code == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        cudaStreamSynchronize(device->stream);
        cudaMemPoolTrimTo(device->pool, 0);
        cudaMemPoolTrimTo(device->stored, 0);
        code = cudaMallocFromPoolAsync(made, size, pool, device->stream);
    }
    if (code != cudaSuccess) {
        *made = NULL;
    }
    return code;
}

static l3a_status out_of_memory(struct device *device, size_t count, size_t size) {
    const uint64_t limit = device->context->options.device_memory_limit;
    size_t unused = 0, all = 0;
    cudaGetLastError();
    cudaMemGetInfo(&unused, &all);
    return limit ? device->host->fail(device->context, L3A_ERROR_MEMORY,
                                      "use a smaller dim or block, a higher limit, or the processor",
                                      "cuda:%d: out of memory: cannot allocate %zu x %zu bytes; the limit is %.2f GiB",
                                      device->number, count, size, (double)limit / GIB)
                 : device->host->fail(device->context, L3A_ERROR_MEMORY, "use a smaller dim or block, or the processor",
                                      "cuda:%d: out of memory: cannot allocate %zu x %zu bytes; %.1f of %.1f GiB are free",
                                      device->number, count, size, (double)unused / GIB, (double)all / GIB);
}

static l3a_status allocate_from(struct device *device, cudaMemPool_t pool, size_t count, size_t size, void *memory) {
    void *made = NULL;
    size_t bytes;
    const cudaError_t code =
        __builtin_mul_overflow(count, size, &bytes) ? cudaErrorMemoryAllocation : take(device, pool, bytes, &made);
    memcpy(memory, &made, sizeof made);
    return code == cudaErrorMemoryAllocation ? out_of_memory(device, count, size)
                                             : device_check(device, code, "cudaMallocFromPoolAsync");
}

l3a_status device_allocate(struct device *device, size_t count, size_t size, void *memory) {
    return allocate_from(device, device->pool, count, size, memory);
}

bool device_has_room(struct device *device, size_t bytes) {
    uint64_t available = 0, used = 0, reserved = 0;
    if (device_memory_left(device->context, &available) != L3A_OK) {
        return false;
    }
    measure(device->pool, &used, &reserved);
    return bytes <= beyond(available, beyond(device->context->device_work, used));
}

l3a_status device_store(struct device *device, size_t count, size_t size, void *memory) {
    l3a_status status = L3A_ERROR_MEMORY;
    void *made = NULL;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        return out_of_memory(device, count, size);
    }
    if (device_has_room(device, bytes)) {
        status = allocate_from(device, device->stored, count, size, memory);
    }
    if (status == L3A_ERROR_MEMORY) {
        const cudaError_t code = cudaHostAlloc(&made, bytes ? bytes : 1, cudaHostAllocPortable | cudaHostAllocMapped);
        made = code == cudaSuccess ? made : NULL;
        memcpy(memory, &made, sizeof made);
        status =
            code == cudaErrorMemoryAllocation ? out_of_memory(device, count, size) : device_check(device, code, "cudaHostAlloc");
    }
    return status;
}

/* Zeros, if it was allocated. */
static l3a_status clear(struct device *device, l3a_status status, size_t bytes, void *memory) {
    void *made;
    memcpy(&made, memory, sizeof made);
    if (status == L3A_OK) {
        status = device_check(device, cudaMemsetAsync(made, 0, bytes, device->stream), "cudaMemsetAsync");
        if (status != L3A_OK) {
            device_release(device, made);
            memset(memory, 0, sizeof made);
        }
    }
    return status;
}

l3a_status device_allocate_zeroed(struct device *device, size_t count, size_t size, void *memory) {
    return clear(device, device_allocate(device, count, size, memory), count * size, memory);
}

l3a_status device_store_zeroed(struct device *device, size_t count, size_t size, void *memory) {
    return clear(device, device_store(device, count, size, memory), count * size, memory);
}

/* Pinned memory is freed at once, so the work that uses it must have ended. */
void device_release(struct device *device, void *memory) {
    struct cudaPointerAttributes about = {.type = cudaMemoryTypeDevice};
    if (!memory) {
        return;
    }
    if (cudaPointerGetAttributes(&about, memory) == cudaSuccess && about.type == cudaMemoryTypeHost) {
        cudaStreamSynchronize(device->stream);
        cudaFreeHost(memory);
    } else {
        cudaFreeAsync(memory, device->stream);
    }
}

/* ---- Copies ---- */

enum { FEW = 1 << 15 }; /* bytes of pageable memory that CUDA has copied when the call returns */

/* Whether CUDA knows the memory: it then copies from it later, when the caller may have changed it already. */
static bool is_registered(const void *memory) {
    struct cudaPointerAttributes about = {.type = cudaMemoryTypeUnregistered};
    if (cudaPointerGetAttributes(&about, memory) != cudaSuccess) {
        cudaGetLastError();
        return true;
    }
    return about.type != cudaMemoryTypeUnregistered;
}

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
    if (bytes && bytes <= FEW && !is_registered(from)) {
        TRY_CUDA(device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
        return L3A_OK;
    }
    TRY(make_slots(device));
    for (size_t done = 0; done < bytes; done += SLOT_BYTES) {
        const size_t slot = device->next_slot++ % SLOTS, count = bytes - done < SLOT_BYTES ? bytes - done : SLOT_BYTES;
        char *pinned = device->pinned + slot * SLOT_BYTES;
        TRY_CUDA(device, cudaEventSynchronize(device->copied[slot]));
        device->host->copy(device->context, pinned, (const char *)from + done, count);
        TRY_CUDA(device, cudaMemcpyAsync((char *)to + done, pinned, count, cudaMemcpyDefault, stream));
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
            TRY_CUDA(device, cudaMemcpyAsync(device->pinned + slot * SLOT_BYTES, from + sent, count, cudaMemcpyDefault, stream));
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
        TRY_CUDA(device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
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
