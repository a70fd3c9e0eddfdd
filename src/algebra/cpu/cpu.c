/* The back end of the processor: its table of operations. */
#include "algebra/cpu/cpu.h"

const struct algebra cpu_algebra = {
    .name = "cpu",
#define OPERATION(returns, operation, ...) .operation = cpu_##operation,
#include "algebra/operations.h"
    .block_view = cpu_block_view,
};
