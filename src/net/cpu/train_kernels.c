/* Chooses the loops of training for this processor, and divides a layer's work into tasks. */
#include "net/cpu/train_kernels.h"

const struct train_kernels *train_kernels_pick(void) {
    const struct kernels *kernels = kernels_pick();
#if defined(__x86_64__) && !defined(L3A_PLAIN_KERNELS)
    if (kernels == &kernels_avx512) {
        return &train_kernels_avx512;
    }
    if (kernels == &kernels_avx2) {
        return &train_kernels_avx2;
    }
#endif
    (void)kernels;
    return &train_kernels_plain;
}

static size_t stripes(const struct layout *layout) {
    return layout->padded / layout->block * ((layout->block + STRIPE - 1) / STRIPE);
}

size_t train_task_count(enum train_tasks tasks, const struct train_call *call) {
    switch (tasks) {
    case EACH_PICTURE: return call->pictures;
    case EACH_OUTPUT_STRIPE: return call->pictures * stripes(&call->to);
    case EACH_INPUT_STRIPE: return call->pictures * stripes(&call->from);
    case EACH_INPUT_BLOCK: return call->pictures * (call->from.padded / call->from.block);
    case EACH_STRIPE: return stripes(&call->to);
    case EACH_HEAD: return call->pictures * call->layer->heads;
    case EACH_TOKEN: return call->to.height;
    case EACH_PART: return ROW_PARTS;
    case EACH_CHANNEL: return call->to.channels;
    case EACH_HIDDEN: return call->layer->hidden;
    case EACH_NUMBER: return call->pictures * layout_size(&call->to);
    default: return 0;
    }
}

size_t train_sums(const struct net_layer *layer, const struct layout *from, const struct layout *to, size_t pictures) {
    switch (layer->kind) {
    case LAYER_BATCH_NORM:
    case LAYER_SCALE:
    case LAYER_LINEAR: return 2 * (pictures + 1) * to->padded;
    case LAYER_NORM: return (size_t)2 * ROW_PARTS * to->channels;
    case LAYER_SQUEEZE_EXCITE: return pictures * (3 * from->padded + 2 * layer->hidden);
    default: return 0;
    }
}
