/* The plug-in: its entry and its table of operations. */
#include "algebra/cuda/cuda.h"

static const struct algebra cuda_algebra = {
    .name = "cuda",
    .layer_create = cuda_layer_create,
    .layer_free = cuda_layer_free,
    .block_create = cuda_block_create,
    .block_free = cuda_block_free,
    .block_expand = cuda_block_expand,
    .block_append = cuda_block_append,
    .block_read = cuda_block_read,
    .block_score = cuda_block_score,
    .block_score_end = cuda_block_score_end,
    .block_gram = cuda_block_gram,
    .block_cross = cuda_block_cross,
    .solution_create = cuda_solution_create,
    .solution_free = cuda_solution_free,
    .solution_set = cuda_solution_set,
    .sums_create = cuda_sums_create,
    .sums_free = cuda_sums_free,
    .sums_begin = cuda_sums_begin,
    .sums_add = cuda_sums_add,
    .sums_add_cross = cuda_sums_add_cross,
    .sums_join = cuda_sums_join,
    .sums_keep = cuda_sums_keep,
    .sums_cross = cuda_sums_cross,
    .sums_read = cuda_sums_read,
    .sums_write = cuda_sums_write,
    .sums_total = cuda_sums_total,
    .sums_add_scatter = cuda_sums_add_scatter,
    .sums_trace = cuda_sums_trace,
    .sums_copy = cuda_sums_copy,
    .sums_factor = cuda_sums_factor,
    .sums_invert = cuda_sums_invert,
    .sums_update = cuda_sums_update,
    .scatter_free = cuda_scatter_free,
    .scatter_read = cuda_scatter_read,
    .scatter_write = cuda_scatter_write,
    .scatter_make_root = cuda_scatter_make_root,
    .scatter_read_root = cuda_scatter_read_root,
    .scatter_write_root = cuda_scatter_write_root,
    .scatter_add = cuda_scatter_add,
    .scatter_add_rows = cuda_scatter_add_rows,
    .scatter_add_sums = cuda_scatter_add_sums,
    .scatter_tidy = cuda_scatter_tidy,
    .vectors_create = cuda_vectors_create,
    .vectors_free = cuda_vectors_free,
    .vectors_put = cuda_vectors_put,
    .vectors_get = cuda_vectors_get,
    .vectors_combine = cuda_vectors_combine,
    .vectors_dot = cuda_vectors_dot,
    .vectors_multiply = cuda_vectors_multiply,
    .vectors_solve = cuda_vectors_solve,
    .rank = cuda_rank,
    .layer_bytes = cuda_layer_bytes,
    .block_bytes = cuda_block_bytes,
    .sums_bytes = cuda_sums_bytes,
    .scatter_bytes = cuda_scatter_bytes,
    .solution_bytes = cuda_solution_bytes,
    .vectors_bytes = cuda_vectors_bytes,
    .multiply_bytes = cuda_multiply_bytes,
};

static const struct l3a_plugin plugin = {
    .algebra = &cuda_algebra,
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
