/* The back end on the plain matrix library: for builds without oneDNN, and as an independent check in the tests.
 *
 * Values are stored as NHWC. A convolution of one picture is the product
 *     out (pixels x channels) = columns (pixels x kernel² · inputs) · factorsᵀ,
 * where a row of columns holds the inputs under the kernel at one pixel, with zeros beyond the edges; for a 1 x 1 kernel of stride
 * 1 the input itself is that matrix. Bias and activation are applied while the picture is in the cache. */
#include "net/cpu/cpu.h"
#include "base/matrix.h"
#include "base/memory.h"
#include "base/threads.h"
#include "net/cpu/kernels.h"

#include <string.h>

struct operation {
    l3a_context *context;
    const struct kernels *kernels;
    const struct net_layer *layer;
    struct layout from, to;
    size_t batch;
    float *factors; /* [out][kernel][kernel][in / groups]; the twin's if there is a twin */
    bool borrowed;
};

/* The products need no state but the context. */
static l3a_status open_state(l3a_context *context, void **state) {
    *state = context;
    return L3A_OK;
}

static void close_state(void *state) {
    (void)state;
}

static size_t block_of(const void *state, size_t channels) {
    (void)state;
    return channels;
}

static void release_operation(void *opaque) {
    struct operation *operation = opaque;
    if (operation) {
        if (!operation->borrowed) {
            release(operation->context, operation->factors);
        }
        release(operation->context, operation);
    }
}

static l3a_status pack(struct operation *operation, const float *factors, const struct operation *twin) {
    const struct net_layer *layer = operation->layer;
    const size_t in = layer->kind == LAYER_CONVOLUTION ? layer->from.channels / layer->groups : layer->from.channels;
    const size_t kernel = layer->kind == LAYER_CONVOLUTION ? layer->kernel * layer->kernel : 1;
    if (twin) {
        operation->factors = twin->factors;
        operation->borrowed = true;
        return L3A_OK;
    }
    const l3a_status status = allocate(operation->context, layer->to.channels, in * kernel * sizeof(float), &operation->factors);
    for (size_t o = 0; status == L3A_OK && o < layer->to.channels; o++) {
        for (size_t k = 0; k < kernel; k++) {
            for (size_t i = 0; i < in; i++) {
                operation->factors[(o * kernel + k) * in + i] = factors[(o * in + i) * kernel + k];
            }
        }
    }
    return status;
}

static bool needs_columns(const struct operation *operation) {
    const struct net_layer *layer = operation->layer;
    return layer->kind == LAYER_CONVOLUTION &&
           (layer->kernel > 1 || layer->stride > 1 || operation->from.block != operation->from.padded);
}

static l3a_status prepare(void *state, struct product *product, const void *twin, void **operation) {
    l3a_context *context = state;
    const struct net_layer *layer = product->layer;
    struct layout *to = &product->to;
    struct operation *made = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    to->padded = to->block = to->channels;
    *made = (struct operation){
        .context = context, .kernels = kernels_pick(), .layer = layer, .from = product->from, .to = *to, .batch = product->batch};
    TRY(pack(made, product->factors, twin));
    product->scratch =
        needs_columns(made) ? to->height * to->width * layer->from.channels / layer->groups * layer->kernel * layer->kernel : 0;
    *operation = made;
    made = NULL;
done:
    release_operation(made);
    return status;
}

/* The inputs under the kernel for one group of channels: one row per output pixel. */
struct columns {
    const struct operation *operation;
    const float *input;
    size_t group;
    float *columns;
};

static void fill_columns(void *argument, size_t first, size_t last) {
    const struct columns *job = argument;
    const struct net_layer *layer = job->operation->layer;
    const struct layout *from = &job->operation->from, *to = &job->operation->to;
    const size_t in = from->channels / layer->groups, pixels = from->height * from->width;
    float *out = job->columns + first * to->width * layer->kernel * layer->kernel * in;
    for (size_t at = first * to->width; at < last * to->width; at++) {
        for (size_t k = 0; k < layer->kernel * layer->kernel; k++, out += in) {
            const size_t y = at / to->width * layer->stride + k / layer->kernel - layer->padding;
            const size_t x = at % to->width * layer->stride + k % layer->kernel - layer->padding;
            if (y >= from->height || x >= from->width) { /* also true below zero, because sizes wrap around */
                memset(out, 0, in * sizeof *out);
                continue;
            }
            for (size_t c = 0; c < in; c++) {
                const size_t channel = job->group * in + c;
                out[c] = job->input[channel / from->block * pixels * from->block + (y * from->width + x) * from->block +
                                    channel % from->block];
            }
        }
    }
}

struct finish {
    const struct operation *operation;
    float *output;
};

static void finish_part(void *argument, size_t first, size_t last) {
    const struct finish *job = argument;
    const struct net_layer *layer = job->operation->layer;
    job->operation->kernels->finish(layer->activation, layer->slope, layer->parameters[BIAS].values, last - first,
                                    layer->to.channels, job->output + first * layer->to.channels);
}

/* c (m x n) = scale · a op(b) + keep · c. */
static void multiply_with(int threads, bool transpose_b, size_t m, size_t n, size_t inner, float scale, const float *a,
                          size_t a_stride, const float *b, size_t b_stride, float keep, float *c, size_t c_stride) {
    matrix_multiply(threads, REAL_SINGLE, false, transpose_b, m, n, inner, (double)scale, a, a_stride, b, b_stride, (double)keep, c,
                    c_stride);
}

static void multiply(bool transpose_b, size_t m, size_t n, size_t inner, float scale, const float *a, size_t a_stride,
                     const float *b, size_t b_stride, float *c, size_t c_stride) {
    multiply_with(1, transpose_b, m, n, inner, scale, a, a_stride, b, b_stride, 0, c, c_stride);
}

static void multiply_group(const struct operation *operation, size_t rows, const float *input, size_t stride, size_t group,
                           float *output) {
    const struct net_layer *layer = operation->layer;
    const size_t groups = layer->kind == LAYER_CONVOLUTION ? layer->groups : 1;
    const size_t kernel = layer->kind == LAYER_CONVOLUTION ? layer->kernel * layer->kernel : 1;
    const size_t out = layer->to.channels / groups, inner = layer->from.channels / groups * kernel;
    multiply_with(operation->context->threads, true, rows, out, inner, 1, input, stride, operation->factors + group * out * inner,
                  inner, layer->second ? 1 : 0, output + group * out, layer->to.channels);
}

static void convolve_picture(const struct operation *operation, const float *input, float *output, float *scratch) {
    const struct net_layer *layer = operation->layer;
    const size_t in = layer->from.channels / layer->groups, pixels = layer->to.height * layer->to.width;
    for (size_t group = 0; group < layer->groups; group++) {
        if (needs_columns(operation)) {
            struct columns job = {operation, input, group, scratch};
            parallel_for(operation->context->threads, layer->to.height, 1, fill_columns, &job);
            multiply_group(operation, pixels, scratch, in * layer->kernel * layer->kernel, group, output);
        } else {
            multiply_group(operation, pixels, input + group * in, layer->from.channels, group, output);
        }
    }
}

static l3a_status run(void *opaque, const void *from, void *to, float *scratch) {
    const struct operation *operation = opaque;
    const float *input = from;
    float *output = to;
    const struct net_layer *layer = operation->layer;
    const size_t pixels = layer->to.height * layer->to.width, at_a_time = layer->kind == LAYER_LINEAR ? operation->batch : 1;
    for (size_t i = 0; i < operation->batch; i += at_a_time) {
        struct finish job = {operation, output + i * layout_size(&operation->to)};
        if (layer->kind == LAYER_LINEAR) {
            multiply_group(operation, at_a_time * pixels, input, layer->from.channels, 0, output);
        } else {
            convolve_picture(operation, input + i * layout_size(&operation->from), job.output, scratch);
        }
        const size_t rows = at_a_time * pixels, parts = 4 * (size_t)operation->context->threads;
        parallel_for(operation->context->threads, rows, rows / parts + 1, finish_part, &job);
    }
    return L3A_OK;
}

static const struct products products = {.open = open_state,
                                         .close = close_state,
                                         .block = block_of,
                                         .prepare = prepare,
                                         .run = run,
                                         .release = release_operation,
                                         .multiply = multiply};

static bool available(void) {
    return true;
}

static l3a_status open(const struct network *network, const struct network_use *use, void **state) {
    if (use->training) {
        return fail(network->context, L3A_ERROR_OPTION, "use a build with oneDNN (-DL3A_ONEDNN=ON), or a device",
                    "networks cannot be trained on BLAS");
    }
    return use->numbers == NUMBER_FLOAT32 ? cpu_network_open(&products, network, NUMBER_FLOAT32, state)
                                          : fail(network->context, L3A_ERROR_OPTION, "use float32, or a build with oneDNN",
                                                 "networks on BLAS run in float32 alone");
}

const struct network_back_end blas_back_end = {.name = "blas",
                                               .batch = PROCESSOR_BATCH,
                                               .available = available,
                                               .open = open,
                                               .run = cpu_network_run,
                                               .share = cpu_network_share,
                                               .close = cpu_network_close};
