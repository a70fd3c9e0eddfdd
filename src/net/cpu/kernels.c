/* Chooses the kernels for this processor, and divides a layer's work into tasks. */
#include "net/cpu/kernels.h"

const struct kernels *kernels_pick(void) {
#if defined(__x86_64__) && !defined(L3A_PLAIN_KERNELS)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw")) {
        return &kernels_avx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return &kernels_avx2;
    }
#endif
    return &kernels_plain;
}

bool kernel_reads_bfloat16(const struct net_layer *layer) {
    return kernel_keeps_type(layer) || layer->kind == LAYER_GLOBAL_MEAN;
}

bool kernel_writes_bfloat16(const struct net_layer *layer) {
    return kernel_keeps_type(layer) || layer->kind == LAYER_SPACE_TO_DEPTH || layer->kind == LAYER_PATCHES ||
           (layer->kind == LAYER_NORM && layer->to.channels <= NORM_CHANNELS);
}

bool kernel_keeps_type(const struct net_layer *layer) {
    return layer->kind == LAYER_MAX_POOL || layer->kind == LAYER_AVERAGE_POOL || layer->kind == LAYER_BLUR ||
           layer->kind == LAYER_SQUEEZE_EXCITE;
}

size_t kernel_tasks(const struct kernel_call *call, size_t batch) {
    switch (call->layer->kind) {
    case LAYER_SPACE_TO_DEPTH: return batch * call->to.height;
    case LAYER_MAX_POOL:
    case LAYER_AVERAGE_POOL:
    case LAYER_BLUR: return batch * (call->to.padded / call->to.block) * call->to.height;
    case LAYER_GLOBAL_MEAN: return batch * (call->from.padded / call->from.block);
    case LAYER_PATCHES:
    case LAYER_NORM: return batch * call->to.height * (call->layer->kind == LAYER_NORM ? call->to.width : 1);
    case LAYER_ATTENTION: return batch * call->layer->heads;
    default: return batch;
    }
}
