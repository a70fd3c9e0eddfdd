/* The back end on oneDNN: convolutions and linear layers. No other file uses its interface.
 *
 * Each layer is one primitive, which also adds the bias and the shortcut and applies the activation. oneDNN chooses the layout of
 * the output, and the next layer reads that layout; factors are packed once, in the form that the primitive prefers. A layer shares
 * the packed factors of its twin, the same layer for another number of pictures, if that has the same form. Memory that primitives
 * need while they run comes from the program's arena.
 *
 * Groups of channels that are narrower than a block are computed several at a time, with zeros between them: otherwise oneDNN takes
 * its reference implementation, which is a hundred times slower. */
#include "net/cpu/cpu.h"

#ifdef L3A_HAVE_ONEDNN
#include "base/memory.h"
#include "net/cpu/onednn.h"
#include "net/cpu/train.h"

#include <stdint.h>
#include <string.h>

enum { ARGUMENTS = 5, ALIGNMENT = 64 };

struct operation {
    const struct onednn *state;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t primitive;
    dnnl_memory_t source, factors, bias, output, scratchpad;
    dnnl_memory_desc_t factor_form;
    void *packed; /* aligned within memory; the twin's if memory is NULL */
    void *memory;
};

l3a_status onednn_refused(const struct onednn *state, dnnl_status_t result, const char *call) {
    return result == dnnl_out_of_memory
               ? fail(state->context, L3A_ERROR_MEMORY, "free some memory, or use a smaller network", "oneDNN ran out of memory")
               : fail(state->context, L3A_ERROR_STATE,
                      "allow code that is made at run time (systemd: MemoryDenyWriteExecute=no), or build with -DL3A_ONEDNN=OFF",
                      "oneDNN failed (status %d): %s", (int)result, call);
}

void onednn_close(void *opaque) {
    struct onednn *state = opaque;
    if (state) {
        dnnl_stream_destroy(state->stream);
        dnnl_engine_destroy(state->engine);
        release(state->context, state);
    }
}

l3a_status onednn_open(l3a_context *context, void **opened) {
    struct onednn *state = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof *state, &state));
    state->context = context;
    CHECK(dnnl_engine_create(&state->engine, dnnl_cpu, 0));
    CHECK(dnnl_stream_create(&state->stream, state->engine, dnnl_stream_default_flags));
    state->block = dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_mic ? 16 : 8;
    *opened = state;
    state = NULL;
done:
    onednn_close(state);
    return status;
}

size_t onednn_block(const void *state, size_t channels) {
    (void)channels;
    return ((const struct onednn *)state)->block;
}

static dnnl_data_type_t type_of(enum number_type type) {
    return type == NUMBER_BFLOAT16 ? dnnl_bf16 : dnnl_f32;
}

/* oneDNN's description of a value; `any` leaves the layout open. */
dnnl_status_t onednn_map_form(const struct layout *layout, size_t batch, bool any, dnnl_memory_desc_t *form) {
    const dnnl_dims_t sizes = {(dnnl_dim_t)batch, (dnnl_dim_t)layout->channels, (dnnl_dim_t)layout->height,
                               (dnnl_dim_t)layout->width};
    const dnnl_format_tag_t tag = any                                 ? dnnl_format_tag_any
                                  : layout->block == 1                ? dnnl_nchw
                                  : layout->block == layout->channels ? dnnl_nhwc
                                  : layout->block == 16               ? dnnl_nChw16c
                                                                      : dnnl_nChw8c;
    return dnnl_memory_desc_init_by_tag(form, 4, sizes, type_of(layout->type), tag);
}

/* The layout that oneDNN chose; false if struct layout cannot express it. */
static bool read_layout(const dnnl_memory_desc_t *form, struct layout *layout) {
    const dnnl_blocking_desc_t *blocking = &form->format_desc.blocking;
    layout->padded = (size_t)form->padded_dims[1];
    if (form->format_kind != dnnl_blocked || blocking->inner_nblks > 1) {
        return false;
    }
    if (blocking->inner_nblks == 1) {
        layout->block = (size_t)blocking->inner_blks[0];
        return blocking->inner_idxs[0] == 1;
    }
    layout->block = blocking->strides[1] == 1 ? layout->channels : 1;
    return true;
}

static void release_operation(void *opaque) {
    struct operation *operation = opaque;
    if (operation) {
        dnnl_memory_destroy(operation->source);
        dnnl_memory_destroy(operation->factors);
        dnnl_memory_destroy(operation->bias);
        dnnl_memory_destroy(operation->output);
        dnnl_memory_destroy(operation->scratchpad);
        dnnl_primitive_destroy(operation->primitive);
        dnnl_primitive_desc_destroy(operation->description);
        release(operation->state->context, operation->memory);
        release(operation->state->context, operation);
    }
}

static l3a_status make_attributes(const struct onednn *state, const struct net_layer *layer, dnnl_primitive_attr_t *attributes) {
    dnnl_post_ops_t after = NULL;
    l3a_status status = L3A_OK;
    CHECK(dnnl_primitive_attr_create(attributes));
    CHECK(dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user));
    CHECK(dnnl_post_ops_create(&after));
    if (layer->second) {
        CHECK(dnnl_post_ops_append_sum(after, 1.0F));
    }
    if (layer->activation == RELU || layer->activation == LEAKY_RELU) {
        CHECK(dnnl_post_ops_append_eltwise(after, 1.0F, dnnl_eltwise_relu, layer->activation == RELU ? 0.0F : layer->slope, 0.0F));
    } else if (layer->activation == GELU) {
        CHECK(dnnl_post_ops_append_eltwise(after, 1.0F, dnnl_eltwise_gelu_erf, 0.0F, 0.0F));
    } else if (layer->activation == QUICK_GELU) {
        CHECK(dnnl_post_ops_append_eltwise(after, 1.0F, dnnl_eltwise_swish, 1.702F, 0.0F));
    } else if (layer->activation == TANH_GELU) {
        CHECK(dnnl_post_ops_append_eltwise(after, 1.0F, dnnl_eltwise_gelu_tanh, 0.0F, 0.0F));
    }
    CHECK(dnnl_primitive_attr_set_post_ops(*attributes, after));
done:
    dnnl_post_ops_destroy(after);
    return status;
}

/* How many groups of a convolution are computed as one. */
size_t onednn_joined_groups(const struct onednn *state, const struct net_layer *layer) {
    const size_t in = layer->from.channels / layer->groups, out = layer->to.channels / layer->groups;
    const bool by_channel = in == 1 && out == 1; /* for which oneDNN has code of its own */
    for (size_t joined = 1; layer->groups > 1 && !by_channel && joined <= state->block; joined++) {
        if (layer->groups % joined == 0 && in * joined % state->block == 0 && out * joined % state->block == 0) {
            return joined;
        }
    }
    return 1;
}

size_t onednn_spread_place(const struct net_layer *layer, size_t joined, size_t out) {
    const size_t size = layer->from.channels / layer->groups * layer->kernel * layer->kernel;
    return (out * joined + out / (layer->to.channels / layer->groups) % joined) * size;
}

/* The factors of joined groups: those between different ones are zero. NULL if no groups are joined. */
static l3a_status spread_factors(const struct onednn *state, const struct product *product, float **spread) {
    const struct net_layer *layer = product->layer;
    const size_t joined = layer->kind == LAYER_CONVOLUTION ? onednn_joined_groups(state, layer) : 1;
    l3a_status status = L3A_OK;
    if (joined > 1) {
        const size_t out = layer->to.channels, size = layer->from.channels / layer->groups * layer->kernel * layer->kernel;
        TRY(allocate_zeroed(state->context, out * joined * size, sizeof **spread, spread));
        for (size_t o = 0; o < out; o++) {
            memcpy(*spread + onednn_spread_place(layer, joined, o), product->factors + o * size, size * sizeof **spread);
        }
    }
done:
    return status;
}

/* The factors in the layout of the checkpoint, or of a type whose layout is left open. */
l3a_status onednn_factor_form(const struct onednn *state, const struct net_layer *layer, bool any, enum number_type number,
                              dnnl_memory_desc_t *form) {
    const dnnl_data_type_t type = type_of(number);
    const dnnl_dim_t out = (dnnl_dim_t)layer->to.channels, in = (dnnl_dim_t)layer->from.channels,
                     kernel = (dnnl_dim_t)layer->kernel;
    const dnnl_dim_t groups = layer->kind == LAYER_LINEAR ? 1 : (dnnl_dim_t)(layer->groups / onednn_joined_groups(state, layer));
    l3a_status status = L3A_OK;
    if (layer->kind == LAYER_LINEAR) {
        CHECK(dnnl_memory_desc_init_by_tag(form, 2, (const dnnl_dims_t){in, out}, type, any ? dnnl_format_tag_any : dnnl_ba));
    } else if (groups == 1) {
        CHECK(dnnl_memory_desc_init_by_tag(form, 4, (const dnnl_dims_t){out, in, kernel, kernel}, type,
                                           any ? dnnl_format_tag_any : dnnl_oihw));
    } else {
        CHECK(dnnl_memory_desc_init_by_tag(form, 5, (const dnnl_dims_t){groups, out / groups, in / groups, kernel, kernel}, type,
                                           any ? dnnl_format_tag_any : dnnl_goihw));
    }
done:
    return status;
}

static l3a_status bias_form(const struct onednn *state, const struct net_layer *layer, dnnl_memory_desc_t *form) {
    l3a_status status = L3A_OK;
    memset(form, 0, sizeof *form);
    if (layer->parameters[BIAS].values && layer->kind == LAYER_LINEAR) {
        CHECK(dnnl_memory_desc_init_by_tag(form, 2, (const dnnl_dims_t){1, (dnnl_dim_t)layer->to.channels}, dnnl_f32, dnnl_ab));
    } else if (layer->parameters[BIAS].values) {
        CHECK(dnnl_memory_desc_init_by_tag(form, 1, (const dnnl_dims_t){(dnnl_dim_t)layer->to.channels}, dnnl_f32, dnnl_a));
    }
done:
    return status;
}

/* oneDNN may choose Winograd's algorithm for a 3 x 3 convolution, which needs fewer multiplications; features stay within 1e-6 of
 * those in float64. */
static l3a_status describe_convolution(const struct onednn *state, const struct product *product,
                                       const_dnnl_primitive_attr_t attributes, struct operation *operation) {
    const struct net_layer *layer = product->layer;
    const dnnl_dim_t stride = (dnnl_dim_t)layer->stride, padding = (dnnl_dim_t)layer->padding;
    dnnl_memory_desc_t source, factors, bias, output;
    dnnl_convolution_desc_t what;
    l3a_status status = L3A_OK;
    CHECK(onednn_map_form(&product->from, product->batch, false, &source));
    CHECK(onednn_map_form(&product->to, product->batch, product->to.block == 0, &output));
    TRY(onednn_factor_form(state, layer, true, product->from.type, &factors));
    TRY(bias_form(state, layer, &bias));
    CHECK(dnnl_convolution_forward_desc_init(&what, dnnl_forward_inference, dnnl_convolution_auto, &source, &factors,
                                             layer->parameters[BIAS].values ? &bias : NULL, &output,
                                             (const dnnl_dims_t){stride, stride}, (const dnnl_dims_t){padding, padding},
                                             (const dnnl_dims_t){padding, padding}));
    CHECK(dnnl_primitive_desc_create(&operation->description, &what, attributes, state->engine, NULL));
done:
    return status;
}

/* A matrix product instead of oneDNN's own linear layer, which reaches half the speed on these shapes (version 2.6). */
static l3a_status describe_linear(const struct onednn *state, const struct product *product, const_dnnl_primitive_attr_t attributes,
                                  struct operation *operation) {
    const struct net_layer *layer = product->layer;
    const dnnl_dim_t rows = (dnnl_dim_t)(product->batch * layer->to.height * layer->to.width);
    dnnl_memory_desc_t source, factors, bias, output;
    dnnl_matmul_desc_t what;
    l3a_status status = L3A_OK;
    CHECK(dnnl_memory_desc_init_by_tag(&source, 2, (const dnnl_dims_t){rows, (dnnl_dim_t)layer->from.channels},
                                       type_of(product->from.type), dnnl_ab));
    CHECK(dnnl_memory_desc_init_by_tag(&output, 2, (const dnnl_dims_t){rows, (dnnl_dim_t)layer->to.channels},
                                       type_of(product->to.type), dnnl_ab));
    TRY(onednn_factor_form(state, layer, true, product->from.type, &factors));
    TRY(bias_form(state, layer, &bias));
    CHECK(dnnl_matmul_desc_init(&what, &source, &factors, layer->parameters[BIAS].values ? &bias : NULL, &output));
    CHECK(dnnl_primitive_desc_create(&operation->description, &what, attributes, state->engine, NULL));
done:
    return status;
}

static l3a_status describe(const struct onednn *state, struct product *product, struct operation *operation) {
    struct layout *to = &product->to;
    dnnl_primitive_attr_t attributes = NULL;
    l3a_status status = L3A_OK;
    TRY(make_attributes(state, product->layer, &attributes));
    if (product->layer->kind == LAYER_LINEAR) {
        to->padded = to->block = to->channels;
        TRY(describe_linear(state, product, attributes, operation));
        goto done;
    }
    TRY(describe_convolution(state, product, attributes, operation));
    if (!read_layout(dnnl_primitive_desc_query_md(operation->description, dnnl_query_dst_md, 0), to)) {
        dnnl_primitive_desc_destroy(operation->description);
        operation->description = NULL;
        to->padded = to->block = to->channels;
        TRY(describe_convolution(state, product, attributes, operation));
    }
done:
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

static l3a_status pack(const struct onednn *state, const struct product *product, const struct operation *twin,
                       struct operation *operation) {
    dnnl_memory_desc_t plain;
    dnnl_primitive_desc_t reorder_description = NULL;
    dnnl_primitive_t reorder = NULL;
    dnnl_memory_t from = NULL;
    float *spread = NULL;
    l3a_status status = L3A_OK;
    operation->factor_form = *dnnl_primitive_desc_query_md(operation->description, dnnl_query_weights_md, 0);
    if (twin && dnnl_memory_desc_equal(&twin->factor_form, &operation->factor_form)) {
        operation->packed = twin->packed;
        CHECK(dnnl_memory_create(&operation->factors, &operation->factor_form, state->engine, operation->packed));
        goto done;
    }
    FAIL_IF(!product->factors, state->context, L3A_ERROR_STATE, "use as many threads as when the network was opened",
            "oneDNN wants the parameters of a layer in another layout than before");
    TRY(allocate(state->context, dnnl_memory_desc_get_size(&operation->factor_form) + ALIGNMENT, 1, &operation->memory));
    operation->packed = (void *)(((uintptr_t)operation->memory + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    TRY(onednn_factor_form(state, product->layer, false, NUMBER_FLOAT32, &plain));
    CHECK(dnnl_memory_create(&operation->factors, &operation->factor_form, state->engine, operation->packed));
    TRY(spread_factors(state, product, &spread));
    CHECK(dnnl_memory_create(&from, &plain, state->engine, spread ? spread : (void *)(uintptr_t)product->factors));
    CHECK(dnnl_reorder_primitive_desc_create(&reorder_description, &plain, state->engine, &operation->factor_form, state->engine,
                                             NULL));
    CHECK(dnnl_primitive_create(&reorder, reorder_description));
    CHECK(dnnl_primitive_execute(reorder, state->stream, 2,
                                 (const dnnl_exec_arg_t[]){{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, operation->factors}}));
    CHECK(dnnl_stream_wait(state->stream));
done:
    dnnl_memory_destroy(from);
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(reorder_description);
    release(state->context, spread);
    return status;
}

static l3a_status make_memories(const struct onednn *state, struct product *product, struct operation *operation) {
    float *bias_values = product->layer->parameters[BIAS].values;
    const dnnl_memory_desc_t *pad = dnnl_primitive_desc_query_md(operation->description, dnnl_query_scratchpad_md, 0);
    dnnl_memory_desc_t bias;
    l3a_status status = L3A_OK;
    CHECK(dnnl_memory_create(&operation->source, dnnl_primitive_desc_query_md(operation->description, dnnl_query_src_md, 0),
                             state->engine, DNNL_MEMORY_NONE));
    CHECK(dnnl_memory_create(&operation->output, dnnl_primitive_desc_query_md(operation->description, dnnl_query_dst_md, 0),
                             state->engine, DNNL_MEMORY_NONE));
    CHECK(dnnl_memory_create(&operation->scratchpad, pad, state->engine, DNNL_MEMORY_NONE));
    product->scratch = dnnl_memory_desc_get_size(pad) / sizeof(float) + 1;
    if (bias_values) {
        TRY(bias_form(state, product->layer, &bias));
        CHECK(dnnl_memory_create(&operation->bias, &bias, state->engine, bias_values));
    }
done:
    return status;
}

static l3a_status prepare(void *opaque, struct product *product, const void *twin, void **prepared) {
    const struct onednn *state = opaque;
    struct operation *operation = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(state->context, 1, sizeof *operation, &operation));
    operation->state = state;
    TRY(describe(state, product, operation));
    CHECK(dnnl_primitive_create(&operation->primitive, operation->description));
    TRY(pack(state, product, twin, operation));
    TRY(make_memories(state, product, operation));
    *prepared = operation;
    operation = NULL;
done:
    release_operation(operation);
    return status;
}

static l3a_status run(void *opaque, const void *input, void *output, float *scratch) {
    const struct operation *operation = opaque;
    const struct onednn *state = operation->state;
    l3a_status status = L3A_OK;
    CHECK(dnnl_memory_set_data_handle(operation->source, (void *)(uintptr_t)input));
    CHECK(dnnl_memory_set_data_handle(operation->output, output));
    CHECK(dnnl_memory_set_data_handle(operation->scratchpad, scratch));
    const dnnl_exec_arg_t arguments[ARGUMENTS] = {{DNNL_ARG_SRC, operation->source},
                                                  {DNNL_ARG_WEIGHTS, operation->factors},
                                                  {DNNL_ARG_DST, operation->output},
                                                  {DNNL_ARG_SCRATCHPAD, operation->scratchpad},
                                                  {DNNL_ARG_BIAS, operation->bias}};
    CHECK(dnnl_primitive_execute(operation->primitive, state->stream, operation->bias ? ARGUMENTS : ARGUMENTS - 1, arguments));
    CHECK(dnnl_stream_wait(state->stream));
done:
    return status;
}

static void multiply(bool transpose_b, size_t m, size_t n, size_t inner, float scale, const float *a, size_t a_stride,
                     const float *b, size_t b_stride, float *c, size_t c_stride) {
    dnnl_sgemm('N', transpose_b ? 'T' : 'N', (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)inner, scale, a, (dnnl_dim_t)a_stride, b,
               (dnnl_dim_t)b_stride, 0.0F, c, (dnnl_dim_t)c_stride);
}

const struct products onednn_products = {.open = onednn_open,
                                         .close = onednn_close,
                                         .block = onednn_block,
                                         .prepare = prepare,
                                         .run = run,
                                         .release = release_operation,
                                         .multiply = multiply};

static bool available(void) {
    return true;
}

/* oneDNN computes in bf16 without the instructions as well, but more slowly than in float32. */
static bool supports(const struct network_use *use) {
    const unsigned instructions = (unsigned)dnnl_get_effective_cpu_isa(), needed = dnnl_cpu_isa_avx512_core_bf16;
    return use->numbers == NUMBER_FLOAT32 ||
           (use->numbers == NUMBER_BFLOAT16 && !use->training && (instructions & needed) == needed);
}

static l3a_status open(const struct network *network, const struct network_use *use, void **state) {
    if (use->training && use->numbers == NUMBER_FLOAT32) {
        return cpu_network_train(&onednn_train_products, network, use, state);
    }
    return use->training
               ? fail(network->context, L3A_ERROR_OPTION, "use float32", "networks on the processor train in float32 alone")
           : supports(use)
               ? cpu_network_open(&onednn_products, network, use->numbers, state)
               : fail(network->context, L3A_ERROR_OPTION, "use float32",
                      use->numbers == NUMBER_FLOAT16 ? "networks on the processor cannot run in float16"
                                                     : "this processor has no instructions for bf16 (AVX512_BF16 or AMX_BF16)");
}

static l3a_status plan(const struct network *network, const struct network_use *use, struct network_plan *plan) {
    return cpu_trainer_plan(&onednn_train_products, network, use, plan);
}

const struct network_back_end onednn_back_end = {.name = "onednn",
                                                 .batch = PROCESSOR_BATCH,
                                                 .available = available,
                                                 .supports = supports,
                                                 .open = open,
                                                 .run = cpu_network_run,
                                                 .share = cpu_network_share,
                                                 .close = cpu_network_close,
                                                 .plan = plan,
                                                 .forward = cpu_network_forward,
                                                 .backward = cpu_network_backward,
                                                 .gradient_square = cpu_network_gradient_square,
                                                 .step = cpu_network_step,
                                                 .read = cpu_network_read,
                                                 .write = cpu_network_write};

#else

static bool available(void) {
    return false;
}

const struct network_back_end onednn_back_end = {.name = "onednn", .available = available};
#endif
