/* Convolutions of oneDNN, forward and backward, for training.
 *
 * A convolution is up to three passes, each a primitive. A pass is made for the layouts of the program's values. If oneDNN has only
 * its reference implementation for these, which is a hundred times slower, it may choose others, and the pass converts values on
 * its way. Factors are always converted, from the checkpoint's layout and back to it: they are small beside the values. Everything
 * that a pass needs while it runs is in the program's scratch. */
#include "net/cpu/onednn.h"

#ifdef L3A_HAVE_ONEDNN
#include "base/memory.h"

#include <string.h>

enum { TENSORS = 4, ARGUMENTS = TENSORS + 1, ALIGNMENT = 64 };

/* What a pass reads or writes. */
struct tensor {
    int argument;
    bool written;
    dnnl_memory_desc_t given;      /* how the program has it */
    dnnl_memory_t outside, inside; /* outside: NULL if the primitive takes it as it is */
    dnnl_primitive_t conversion;
    size_t bytes; /* of the converted one; 0: none */
};

struct pass {
    dnnl_primitive_desc_t description;
    dnnl_primitive_t primitive;
    dnnl_memory_t scratchpad;
    struct tensor tensors[TENSORS];
    size_t count, bytes; /* of all it needs */
};

struct operation {
    const struct onednn *state;
    const struct net_layer *layer;
    struct pass forward, in_gradient, gradients;
    size_t joined;
    size_t spread; /* floats of the factors of joined groups; 0: none */
};

static size_t aligned(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void release_pass(struct pass *pass) {
    for (size_t i = 0; i < pass->count; i++) {
        dnnl_memory_destroy(pass->tensors[i].outside);
        dnnl_memory_destroy(pass->tensors[i].inside);
        dnnl_primitive_destroy(pass->tensors[i].conversion);
    }
    dnnl_memory_destroy(pass->scratchpad);
    dnnl_primitive_destroy(pass->primitive);
    dnnl_primitive_desc_destroy(pass->description);
}

static void release_operation(void *opaque) {
    struct operation *operation = opaque;
    if (operation) {
        release_pass(&operation->gradients);
        release_pass(&operation->in_gradient);
        release_pass(&operation->forward);
        release(operation->state->context, operation);
    }
}

/* ---- Choosing a primitive ---- */

enum direction { FORWARD, IN_GRADIENT, GRADIENTS };

struct forms {
    dnnl_memory_desc_t from, factors, bias, to;
};

static l3a_status make_forms(const struct onednn *state, const struct convolution *what, bool any, struct forms *forms) {
    l3a_status status = L3A_OK;
    memset(forms, 0, sizeof *forms);
    CHECK(onednn_map_form(&what->from, what->pictures, any, &forms->from));
    CHECK(onednn_map_form(&what->to, what->pictures, any, &forms->to));
    TRY(onednn_factor_form(state, what->layer, true, NUMBER_FLOAT32, &forms->factors));
    if (what->layer->parameters[BIAS].values) {
        CHECK(dnnl_memory_desc_init_by_tag(&forms->bias, 1, (const dnnl_dims_t){(dnnl_dim_t)what->layer->to.channels}, dnnl_f32,
                                           dnnl_a));
    }
done:
    return status;
}

static dnnl_status_t describe_pass(const struct onednn *state, const struct net_layer *layer, enum direction direction,
                                   const struct forms *forms, const_dnnl_primitive_attr_t attributes,
                                   const_dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *description) {
    const dnnl_dims_t strides = {(dnnl_dim_t)layer->stride, (dnnl_dim_t)layer->stride};
    const dnnl_dims_t padding = {(dnnl_dim_t)layer->padding, (dnnl_dim_t)layer->padding};
    const dnnl_memory_desc_t *bias = layer->parameters[BIAS].values ? &forms->bias : NULL;
    dnnl_convolution_desc_t what;
    dnnl_status_t result;
    if (direction == FORWARD) {
        result = dnnl_convolution_forward_desc_init(&what, dnnl_forward_training, dnnl_convolution_direct, &forms->from,
                                                    &forms->factors, bias, &forms->to, strides, padding, padding);
    } else if (direction == IN_GRADIENT) {
        result = dnnl_convolution_backward_data_desc_init(&what, dnnl_convolution_direct, &forms->from, &forms->factors, &forms->to,
                                                          strides, padding, padding);
    } else {
        result = dnnl_convolution_backward_weights_desc_init(&what, dnnl_convolution_direct, &forms->from, &forms->factors, bias,
                                                             &forms->to, strides, padding, padding);
    }
    return result == dnnl_success ? dnnl_primitive_desc_create(description, &what, attributes, state->engine, forward) : result;
}

static bool is_reference(const_dnnl_primitive_desc_t description) {
    const char *name = "ref";
    dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, (void *)&name);
    return strncmp(name, "ref", 3) == 0;
}

static l3a_status choose_pass(const struct onednn *state, const struct convolution *what, enum direction direction,
                              const_dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *description) {
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t other = NULL;
    struct forms forms;
    l3a_status status = L3A_OK;
    CHECK(dnnl_primitive_attr_create(&attributes));
    CHECK(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user));
    TRY(make_forms(state, what, false, &forms));
    dnnl_status_t fixed = describe_pass(state, what->layer, direction, &forms, attributes, forward, description);
    if (fixed != dnnl_success || is_reference(*description)) {
        TRY(make_forms(state, what, true, &forms));
        const dnnl_status_t open = describe_pass(state, what->layer, direction, &forms, attributes, forward, &other);
        if (open == dnnl_success && (fixed != dnnl_success || !is_reference(other))) {
            dnnl_primitive_desc_destroy(*description);
            *description = other;
            other = NULL;
            fixed = dnnl_success;
        }
    }
    CHECK(fixed);
done:
    dnnl_primitive_desc_destroy(other);
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

/* ---- Preparing it ---- */

static l3a_status prepare_tensor(const struct onednn *state, struct pass *pass, struct tensor *tensor,
                                 const dnnl_memory_desc_t *wanted) {
    dnnl_primitive_desc_t description = NULL;
    l3a_status status = L3A_OK;
    CHECK(dnnl_memory_create(&tensor->inside, wanted, state->engine, DNNL_MEMORY_NONE));
    if (!dnnl_memory_desc_equal(wanted, &tensor->given)) {
        const dnnl_memory_desc_t *from = tensor->written ? wanted : &tensor->given, *to = tensor->written ? &tensor->given : wanted;
        CHECK(dnnl_memory_create(&tensor->outside, &tensor->given, state->engine, DNNL_MEMORY_NONE));
        CHECK(dnnl_reorder_primitive_desc_create(&description, from, state->engine, to, state->engine, NULL));
        CHECK(dnnl_primitive_create(&tensor->conversion, description));
        tensor->bytes = aligned(dnnl_memory_desc_get_size(wanted));
        pass->bytes += tensor->bytes;
    }
done:
    dnnl_primitive_desc_destroy(description);
    return status;
}

static l3a_status prepare_pass(const struct onednn *state, const struct convolution *what, enum direction direction,
                               const_dnnl_primitive_desc_t forward, struct pass *pass) {
    const bool biased = what->layer->parameters[BIAS].values;
    const struct tensor tensors[][TENSORS] = {[FORWARD] = {{.argument = DNNL_ARG_SRC},
                                                           {.argument = DNNL_ARG_WEIGHTS},
                                                           {.argument = DNNL_ARG_DST, .written = true},
                                                           {.argument = DNNL_ARG_BIAS}},
                                              [IN_GRADIENT] = {{.argument = DNNL_ARG_DIFF_DST},
                                                               {.argument = DNNL_ARG_WEIGHTS},
                                                               {.argument = DNNL_ARG_DIFF_SRC, .written = true}},
                                              [GRADIENTS] = {{.argument = DNNL_ARG_SRC},
                                                             {.argument = DNNL_ARG_DIFF_DST},
                                                             {.argument = DNNL_ARG_DIFF_WEIGHTS, .written = true},
                                                             {.argument = DNNL_ARG_DIFF_BIAS, .written = true}}};
    struct forms given;
    l3a_status status = L3A_OK;
    TRY(choose_pass(state, what, direction, forward, &pass->description));
    CHECK(dnnl_primitive_create(&pass->primitive, pass->description));
    TRY(make_forms(state, what, false, &given));
    TRY(onednn_factor_form(state, what->layer, false, NUMBER_FLOAT32, &given.factors));
    pass->count = direction == IN_GRADIENT || !biased ? 3 : 4;
    memcpy(pass->tensors, tensors[direction], sizeof pass->tensors);
    for (size_t i = 0; i < pass->count; i++) {
        struct tensor *tensor = &pass->tensors[i];
        const int argument = tensor->argument;
        tensor->given = argument == DNNL_ARG_SRC || argument == DNNL_ARG_DIFF_SRC           ? given.from
                        : argument == DNNL_ARG_DST || argument == DNNL_ARG_DIFF_DST         ? given.to
                        : argument == DNNL_ARG_WEIGHTS || argument == DNNL_ARG_DIFF_WEIGHTS ? given.factors
                                                                                            : given.bias;
        TRY(prepare_tensor(state, pass, tensor, dnnl_primitive_desc_query_md(pass->description, dnnl_query_exec_arg_md, argument)));
    }
    const dnnl_memory_desc_t *pad = dnnl_primitive_desc_query_md(pass->description, dnnl_query_scratchpad_md, 0);
    CHECK(dnnl_memory_create(&pass->scratchpad, pad, state->engine, DNNL_MEMORY_NONE));
    pass->bytes += aligned(dnnl_memory_desc_get_size(pad));
done:
    return status;
}

static l3a_status prepare(void *opaque, struct convolution *what, void **prepared) {
    const struct onednn *state = opaque;
    struct operation *operation = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(state->context, 1, sizeof *operation, &operation));
    operation->state = state;
    operation->layer = what->layer;
    operation->joined = onednn_joined_groups(state, what->layer);
    operation->spread = operation->joined > 1 ? what->layer->parameters[FACTORS].count * operation->joined : 0;
    TRY(prepare_pass(state, what, FORWARD, NULL, &operation->forward));
    if (what->in_gradient) {
        TRY(prepare_pass(state, what, IN_GRADIENT, operation->forward.description, &operation->in_gradient));
    }
    if (what->gradients) {
        TRY(prepare_pass(state, what, GRADIENTS, operation->forward.description, &operation->gradients));
    }
    what->scratch = operation->forward.bytes;
    what->scratch = operation->in_gradient.bytes > what->scratch ? operation->in_gradient.bytes : what->scratch;
    what->scratch = operation->gradients.bytes > what->scratch ? operation->gradients.bytes : what->scratch;
    what->scratch = (aligned(operation->spread * sizeof(float)) + what->scratch) / sizeof(float);
    *prepared = operation;
    operation = NULL;
done:
    release_operation(operation);
    return status;
}

/* ---- Running it ---- */

static l3a_status convert(const struct onednn *state, const struct tensor *tensor) {
    const dnnl_memory_t from = tensor->written ? tensor->inside : tensor->outside,
                        to = tensor->written ? tensor->outside : tensor->inside;
    l3a_status status = L3A_OK;
    CHECK(dnnl_primitive_execute(tensor->conversion, state->stream, 2,
                                 (const dnnl_exec_arg_t[]){{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}));
done:
    return status;
}

/* data: of each tensor, in their order. */
static l3a_status run_pass(const struct onednn *state, const struct pass *pass, const void *const *data, float *scratch) {
    dnnl_exec_arg_t arguments[ARGUMENTS];
    char *room = (char *)scratch;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < pass->count; i++) {
        const struct tensor *tensor = &pass->tensors[i];
        void *given = (void *)(uintptr_t)data[i];
        arguments[i] = (dnnl_exec_arg_t){tensor->argument, tensor->inside};
        CHECK(dnnl_memory_set_data_handle(tensor->inside, tensor->conversion ? (void *)room : given));
        room += tensor->bytes;
        if (tensor->conversion) {
            CHECK(dnnl_memory_set_data_handle(tensor->outside, given));
        }
        if (tensor->conversion && !tensor->written) {
            TRY(convert(state, tensor));
        }
    }
    CHECK(dnnl_memory_set_data_handle(pass->scratchpad, room));
    arguments[pass->count] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, pass->scratchpad};
    CHECK(dnnl_primitive_execute(pass->primitive, state->stream, (int)pass->count + 1, arguments));
    for (size_t i = 0; i < pass->count; i++) {
        if (pass->tensors[i].conversion && pass->tensors[i].written) {
            TRY(convert(state, &pass->tensors[i]));
        }
    }
    CHECK(dnnl_stream_wait(state->stream));
done:
    return status;
}

/* Copies the factors to or from those of joined groups. */
static void spread(const struct operation *operation, const float *factors, float *joined) {
    const struct net_layer *layer = operation->layer;
    const size_t size = layer->parameters[FACTORS].count / layer->to.channels;
    memset(joined, 0, operation->spread * sizeof *joined);
    for (size_t o = 0; o < layer->to.channels; o++) {
        memcpy(joined + onednn_spread_place(layer, operation->joined, o), factors + o * size, size * sizeof *joined);
    }
}

static void gather(const struct operation *operation, const float *joined, float *factors) {
    const struct net_layer *layer = operation->layer;
    const size_t size = layer->parameters[FACTORS].count / layer->to.channels;
    for (size_t o = 0; o < layer->to.channels; o++) {
        memcpy(factors + o * size, joined + onednn_spread_place(layer, operation->joined, o), size * sizeof *factors);
    }
}

static float *after_spread(const struct operation *operation, float *scratch) {
    return scratch + aligned(operation->spread * sizeof *scratch) / sizeof *scratch;
}

/* The factors as the primitives know them. */
static const float *joined_factors(const struct operation *operation, const float *factors, float *scratch) {
    if (!operation->spread) {
        return factors;
    }
    spread(operation, factors, scratch);
    return scratch;
}

static l3a_status forward(void *opaque, const float *input, const float *factors, const float *bias, float *output,
                          float *scratch) {
    const struct operation *operation = opaque;
    const void *const data[] = {input, joined_factors(operation, factors, scratch), output, bias};
    return run_pass(operation->state, &operation->forward, data, after_spread(operation, scratch));
}

static l3a_status in_gradient(void *opaque, const float *out_gradient, const float *factors, float *in_gradient, float *scratch) {
    const struct operation *operation = opaque;
    const void *const data[] = {out_gradient, joined_factors(operation, factors, scratch), in_gradient};
    return run_pass(operation->state, &operation->in_gradient, data, after_spread(operation, scratch));
}

static l3a_status gradients(void *opaque, const float *input, const float *out_gradient, float *factor_gradient,
                            float *bias_gradient, float *scratch) {
    const struct operation *operation = opaque;
    const void *const data[] = {input, out_gradient, operation->spread ? scratch : factor_gradient, bias_gradient};
    const l3a_status status = run_pass(operation->state, &operation->gradients, data, after_spread(operation, scratch));
    if (status == L3A_OK && operation->spread) {
        gather(operation, scratch, factor_gradient);
    }
    return status;
}

static bool multiply(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t inner, float scale, const float *a,
                     size_t a_stride, const float *b, size_t b_stride, float keep, float *c, size_t c_stride) {
    return dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)inner, scale, a,
                      (dnnl_dim_t)a_stride, b, (dnnl_dim_t)b_stride, keep, c, (dnnl_dim_t)c_stride) == dnnl_success;
}

const struct train_products onednn_train_products = {.running = &onednn_products,
                                                     .open = onednn_open,
                                                     .close = onednn_close,
                                                     .block = onednn_block,
                                                     .prepare = prepare,
                                                     .release = release_operation,
                                                     .forward = forward,
                                                     .in_gradient = in_gradient,
                                                     .gradients = gradients,
                                                     .multiply = multiply};
#else
typedef int nothing_here;
#endif
