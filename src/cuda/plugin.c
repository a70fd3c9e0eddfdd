/* The plug-in: its entry and its table of operations. */
#include "cuda/algebra/algebra.h"
#include "cuda/net/net.h"

static const struct algebra cuda_algebra = {
    .name = "cuda",
#define OPERATION(returns, operation, ...) .operation = cuda_##operation,
#include "algebra/operations.h"
    .block_score_end = cuda_block_score_end,
};

static const struct l3a_plugin plugin = {
    .algebra = &cuda_algebra,
    .network = &cuda_network_back_end,
    .open = device_open_number,
    .close = device_close_number,
    .describe = device_describe_number,
    .memory = device_memory_left,
};

/* The one function that is exported. */
L3A_PUBLIC plugin_entry l3a_plugin_cuda;

const void *l3a_plugin_cuda(uint32_t version) {
    return version == PLUGIN_VERSION ? &plugin : NULL;
}
