/* The loops of the kernels, included by one file per kind of processor. They are written so that compilers vectorise them: no
 * branches inside, and sums kept in LANES parts.
 *
 * attention: for each head, softmax(Q Kᵀ / √width) V, a block of queries at a time.
 * layer norm: w (x − mean) / √(variance + ε) + b over the numbers of a token.
 *
 * All of them compute in float32. Those that can read or write bf16 (kernels.c) do it with load() and store(); the type is a
 * constant where it matters, so that each loop is compiled for both. */
#include "net/cpu/bfloat16.h"
#include "net/cpu/kernels.h"
#include "net/cpu/loops.h"

#include <stdint.h>
#include <string.h>

/* Channels on the stack, with the padding of a layout. */
enum { EXCITE_PADDING = 64 };

INLINE float load(enum number_type type, const void *values, size_t at) {
    return type == NUMBER_FLOAT32 ? ((const float *)values)[at] : bfloat16_widen(((const uint16_t *)values)[at]);
}

INLINE void store(enum number_type type, void *values, size_t at, float number) {
    if (type == NUMBER_FLOAT32) {
        ((float *)values)[at] = number;
    } else {
        ((uint16_t *)values)[at] = bfloat16_round(number);
    }
}

static void round_numbers(const float *from, size_t first, size_t last, uint16_t *restrict to) {
    for (size_t i = first; i < last; i++) {
        to[i] = bfloat16_round(from[i]);
    }
}

static void store_row(enum number_type type, const float *row, size_t count, void *values, size_t at) {
    if (type == NUMBER_FLOAT32) {
        memcpy((float *)values + at, row, count * sizeof *row);
    } else {
        round_numbers(row, 0, count, (uint16_t *)values + at);
    }
}

static void space_to_depth_rows(const struct kernel_call *call, size_t first, size_t last) {
    const struct layout from = call->from, to = call->to;
    const size_t side = call->layer->kernel, blocks = to.padded / to.block;
    for (size_t task = first; task < last; task++) {
        const size_t picture = task / to.height, y = task % to.height;
        for (size_t c = 0; c < to.padded; c++) {
            const size_t plane = c % from.channels, dx = c / from.channels % side, dy = c / from.channels / side;
            const size_t out = ((picture * blocks + c / to.block) * to.height + y) * to.width * to.block + c % to.block;
            const float *in = call->input + ((picture * from.channels + plane) * from.height + y * side + dy) * from.width + dx;
            for (size_t x = 0; x < to.width; x++) {
                store(to.type, call->output, out + x * to.block, c < to.channels ? in[x * side] : 0.0F);
            }
        }
    }
}

/* What one pixel of a pool's output is made of: where the block begins in the input and the pixel's row in the output, and the
 * rows and columns that it covers. */
struct window {
    size_t in, out, top, bottom, left, right;
    float share;
};

INLINE struct window window_row_of(const struct kernel_call *call, size_t task) {
    const struct layout *from = &call->from, *to = &call->to;
    const size_t y = task % to->height, blocks = to->padded / to->block, block = task / to->height % blocks;
    const size_t picture = task / to->height / blocks;
    const size_t padding = call->layer->padding, start = y * call->layer->stride, end = start + call->layer->kernel - padding;
    return (struct window){.in = block_at(from, picture, block),
                           .out = block_at(to, picture, block) + y * to->width * to->block,
                           .top = start < padding ? 0 : start - padding,
                           .bottom = end < from->height ? end : from->height};
}

/* `lanes` channels of one output pixel, at most LANES. */
INLINE void pool_lanes(const struct kernel_call *call, const struct window *window, size_t block, size_t channel, size_t lanes,
                       size_t out, enum number_type type, bool largest) {
    float sums[LANES];
    for (size_t j = 0; j < lanes; j++) {
        sums[j] = largest ? -FLT_MAX : 0;
    }
    for (size_t y = window->top; y < window->bottom; y++) {
        for (size_t x = window->left; x < window->right; x++) {
            const size_t in = window->in + (y * call->from.width + x) * block + channel;
            for (size_t j = 0; j < lanes; j++) {
                const float number = load(type, call->input, in + j);
                sums[j] = largest ? (number > sums[j] ? number : sums[j]) : sums[j] + number;
            }
        }
    }
    for (size_t j = 0; j < lanes; j++) {
        store(type, call->output, out + j, largest ? sums[j] : sums[j] * window->share);
    }
}

INLINE void pool_row(const struct kernel_call *call, struct window row, size_t block, enum number_type type, bool largest) {
    const struct net_layer *layer = call->layer;
    for (size_t x = 0; x < call->to.width; x++) {
        const size_t start = x * layer->stride, end = start + layer->kernel - layer->padding;
        size_t c = 0;
        row.left = start < layer->padding ? 0 : start - layer->padding;
        row.right = end < call->from.width ? end : call->from.width;
        row.share = 1.0F / (float)((row.bottom - row.top) * (row.right - row.left));
        for (; c + LANES <= block; c += LANES) {
            pool_lanes(call, &row, block, c, LANES, row.out + x * block + c, type, largest);
        }
        if (c < block) {
            pool_lanes(call, &row, block, c, block - c, row.out + x * block + c, type, largest);
        }
    }
}

INLINE void blur_row(const struct kernel_call *call, const struct window *row, size_t y, size_t block, enum number_type type) {
    const size_t width = call->from.width, height = call->from.height;
    const size_t above = row->in + mirrored(2 * y, 0, height) * width * block, middle = row->in + 2 * y * width * block;
    const size_t below = row->in + mirrored(2 * y, 2, height) * width * block;
    const void *in = call->input;
    for (size_t x = 0; x < call->to.width; x++) {
        const size_t left = mirrored(2 * x, 0, width) * block, centre = 2 * x * block, right = mirrored(2 * x, 2, width) * block;
        for (size_t j = 0; j < block; j++) {
            const float first =
                load(type, in, above + left + j) + 2 * load(type, in, middle + left + j) + load(type, in, below + left + j);
            const float second =
                load(type, in, above + centre + j) + 2 * load(type, in, middle + centre + j) + load(type, in, below + centre + j);
            const float third =
                load(type, in, above + right + j) + 2 * load(type, in, middle + right + j) + load(type, in, below + right + j);
            store(type, call->output, row->out + x * block + j, (first + 2 * second + third) * 0.0625F);
        }
    }
}

INLINE void window_rows(const struct kernel_call *call, size_t first, size_t last, size_t block, enum number_type type) {
    for (size_t task = first; task < last; task++) {
        const struct window row = window_row_of(call, task);
        if (call->layer->kind == LAYER_BLUR) {
            blur_row(call, &row, task % call->to.height, block, type);
        } else {
            pool_row(call, row, block, type, call->layer->kind == LAYER_MAX_POOL);
        }
    }
}

/* The usual block sizes are constants, so that the innermost loop becomes one or two vector instructions. */
INLINE void windows_of(const struct kernel_call *call, size_t first, size_t last, enum number_type type) {
    if (call->to.block == 16) {
        window_rows(call, first, last, 16, type);
    } else if (call->to.block == 8) {
        window_rows(call, first, last, 8, type);
    } else {
        window_rows(call, first, last, call->to.block, type);
    }
}

static void windows(const struct kernel_call *call, size_t first, size_t last) {
    if (call->to.type == NUMBER_FLOAT32) {
        windows_of(call, first, last, NUMBER_FLOAT32);
    } else {
        windows_of(call, first, last, NUMBER_BFLOAT16);
    }
}

INLINE void block_mean_of(enum number_type type, size_t pixels, size_t block, const void *restrict in, size_t at,
                          float *restrict mean) {
    const float share = 1.0F / (float)pixels;
    for (size_t j = 0; j < block; j++) {
        mean[j] = 0;
    }
    for (size_t i = 0; i < pixels; i++) {
        for (size_t j = 0; j < block; j++) {
            mean[j] += load(type, in, at + i * block + j);
        }
    }
    for (size_t j = 0; j < block; j++) {
        mean[j] *= share;
    }
}

static void block_mean(enum number_type type, size_t pixels, size_t block, const float *in, size_t at, float *mean) {
    if (type == NUMBER_BFLOAT16) {
        block_mean_of(NUMBER_BFLOAT16, pixels, block, in, at, mean);
    } else if (block == 16) {
        float sums[16];
        block_mean_of(NUMBER_FLOAT32, pixels, 16, in, at, sums);
        memcpy(mean, sums, sizeof sums);
    } else if (block == 8) {
        float sums[8];
        block_mean_of(NUMBER_FLOAT32, pixels, 8, in, at, sums);
        memcpy(mean, sums, sizeof sums);
    } else {
        block_mean_of(NUMBER_FLOAT32, pixels, block, in, at, mean);
    }
}

static void global_means(const struct kernel_call *call, size_t first, size_t last) {
    const struct layout *from = &call->from;
    const size_t blocks = from->padded / from->block;
    for (size_t task = first; task < last; task++) {
        const size_t picture = task / blocks, block = task % blocks;
        block_mean(from->type, from->height * from->width, from->block, call->input, block_at(from, picture, block),
                   call->output + picture * call->to.padded + block * from->block);
    }
}

INLINE void scale_block(enum number_type type, size_t pixels, size_t block, const float *restrict scale, const void *restrict added,
                        void *restrict values, size_t at) {
    if (added) {
        for (size_t i = 0; i < pixels; i++) {
            for (size_t j = 0; j < block; j++) {
                const float sum = load(type, values, at + i * block + j) * scale[j] + load(type, added, at + i * block + j);
                store(type, values, at + i * block + j, sum > 0 ? sum : 0);
            }
        }
    } else {
        for (size_t i = 0; i < pixels; i++) {
            for (size_t j = 0; j < block; j++) {
                store(type, values, at + i * block + j, load(type, values, at + i * block + j) * scale[j]);
            }
        }
    }
}

/* The sum and the ReLU, for a value to add that has another layout. */
static void add_from_layout(const struct kernel_call *call, size_t picture) {
    const struct layout *to = &call->to, *beside = &call->beside;
    for (size_t c = 0; c < to->channels; c++) {
        const size_t out = block_at(to, picture, c / to->block) + c % to->block;
        const size_t added = block_at(beside, picture, c / beside->block) + c % beside->block;
        for (size_t i = 0; i < to->height * to->width; i++) {
            const float sum =
                load(to->type, call->output, out + i * to->block) + load(to->type, call->added, added + i * beside->block);
            store(to->type, call->output, out + i * to->block, sum > 0 ? sum : 0);
        }
    }
}

/* Runs the whole layer for one picture at a time, so that the second pass finds it in the cache. Works in place. */
static void squeeze_excite_picture(const struct kernel_call *call, size_t picture, float *means, float *hidden) {
    const struct layout *from = &call->from;
    const struct net_layer *layer = call->layer;
    const size_t blocks = from->padded / from->block, pixels = from->height * from->width;
    const bool apart = call->added && call->beside.block != from->block;
    const float *factors = layer->parameters[FACTORS].values, *second_factors = layer->parameters[SECOND_FACTORS].values;
    for (size_t b = 0; b < blocks; b++) {
        block_mean(from->type, pixels, from->block, call->input, block_at(from, picture, b), means + b * from->block);
    }
    for (size_t i = 0; i < layer->hidden; i++) {
        const float sum = layer->parameters[BIAS].values[i] + product_of(from->channels, factors + i * from->channels, means);
        hidden[i] = sum > 0 ? sum : 0;
    }
    for (size_t i = 0; i < from->padded; i++) {
        means[i] = i < from->channels ? layer->parameters[SECOND_BIAS].values[i] +
                                            product_of(layer->hidden, second_factors + i * layer->hidden, hidden)
                                      : 0;
    }
    for (size_t i = 0; i < from->padded; i++) {
        means[i] = 1.0F / (1.0F + exponential(-means[i]));
    }
    for (size_t b = 0; b < blocks; b++) {
        const size_t at = block_at(from, picture, b);
        const float *added = apart ? NULL : call->added;
        if (from->type == NUMBER_BFLOAT16) {
            scale_block(NUMBER_BFLOAT16, pixels, from->block, means + b * from->block, added, call->output, at);
        } else if (from->block == 16) {
            scale_block(NUMBER_FLOAT32, pixels, 16, means + b * 16, added, call->output, at);
        } else if (from->block == 8) {
            scale_block(NUMBER_FLOAT32, pixels, 8, means + b * 8, added, call->output, at);
        } else {
            scale_block(NUMBER_FLOAT32, pixels, from->block, means + b * from->block, added, call->output, at);
        }
    }
    if (apart) {
        add_from_layout(call, picture);
    }
}

static void squeeze_excite_pictures(const struct kernel_call *call, size_t first, size_t last) {
    float means[EXCITE_CHANNELS + EXCITE_PADDING], hidden[EXCITE_CHANNELS];
    for (size_t picture = first; picture < last; picture++) {
        squeeze_excite_picture(call, picture, means, hidden);
    }
}

static void patch_rows(const struct kernel_call *call, size_t first, size_t last) {
    const struct layout from = call->from;
    const size_t side = call->layer->kernel, across = from.width / side, tokens = call->to.height;
    for (size_t task = first; task < last; task++) {
        const size_t picture = task / tokens, y = task % tokens / across, x = task % tokens % across;
        size_t out = task * call->to.channels;
        for (size_t c = 0; c < from.channels; c++) {
            for (size_t dy = 0; dy < side; dy++, out += side) {
                store_row(call->to.type,
                          call->input + ((picture * from.channels + c) * from.height + y * side + dy) * from.width + x * side, side,
                          call->output, out);
            }
        }
    }
}

INLINE void sum_to(size_t count, const float *left, const float *right, float *out) {
    if (!right && count) {
        memcpy(out, left, count * sizeof *out);
    }
    for (size_t i = 0; right && i < count; i++) {
        out[i] = left[i] + right[i];
    }
}

/* The class token, the registers and those of the picture, each with its positions, if it has some. */
static void tokens(const struct kernel_call *call, size_t first, size_t last) {
    const struct parameter *class_token = &call->layer->parameters[FACTORS], *registers = &call->layer->parameters[SECOND_FACTORS];
    const struct parameter *position = &call->layer->parameters[BIAS];
    const size_t width = call->to.channels, own = call->from.height * width;
    const size_t all = call->to.height * width, places = position->count;
    const float *of_class = places > own ? position->values : NULL;
    const float *of_registers = places == all ? position->values + class_token->count : NULL;
    for (size_t picture = first; picture < last; picture++) {
        float *out = call->output + picture * all;
        sum_to(class_token->count, class_token->values, of_class, out);
        sum_to(registers->count, registers->values, of_registers, out + class_token->count);
        sum_to(own, call->input + picture * own, position->values + places - own, out + all - own);
    }
}

static void learned_values(const struct kernel_call *call, size_t first, size_t last) {
    const struct parameter *values = &call->layer->parameters[FACTORS];
    for (size_t picture = first; picture < last; picture++) {
        memcpy(call->output + picture * values->count, values->values, values->count * sizeof(float));
    }
}

/* The channels of one pixel, side by side. */
INLINE const float *pixel_of(const struct layout *layout, const float *values, size_t pixel, float *place) {
    const size_t pixels = layout->height * layout->width, picture = pixel / pixels, at = pixel % pixels;
    if (layout->block == layout->channels) {
        return values + pixel * layout->channels;
    }
    for (size_t c = 0; c < layout->channels; c++) {
        place[c] = values[block_at(layout, picture, c / layout->block) + at * layout->block + c % layout->block];
    }
    return place;
}

static void layer_norms(const struct kernel_call *call, size_t first, size_t last) {
    const size_t width = call->to.channels;
    const float *factors = call->layer->parameters[FACTORS].values, *bias = call->layer->parameters[BIAS].values;
    const bool rounds = call->to.type == NUMBER_BFLOAT16;
    float place[NORM_CHANNELS];
    for (size_t row = first; row < last; row++) {
        float *out = rounds ? place : call->output + row * width;
        const float *in = pixel_of(&call->from, call->input, row, out);
        const float mean = sum_of(width, in) / (float)width;
        for (size_t i = 0; i < width; i++) {
            out[i] = in[i] - mean;
        }
        const float variance = product_of(width, out, out) / (float)width;
        const float scale = 1.0F / sqrtf(variance + (float)call->layer->epsilon);
        for (size_t i = 0; i < width; i++) {
            out[i] = out[i] * scale * factors[i] + bias[i];
        }
        if (rounds) {
            store_row(NUMBER_BFLOAT16, out, width, call->output, row * width);
        }
    }
}

/* Adds what the keys and values beside contribute: scores [rows x count], of which the first `start` belong to other keys. */
INLINE void attend_beside(size_t rows, size_t width, size_t start, size_t count, const float *scores, const float *content,
                          size_t stride, float *out, size_t out_stride) {
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = start; j < count; j++) {
            const float share = scores[i * count + j];
            for (size_t c = 0; c < width; c++) {
                out[i * out_stride + c] += share * content[(j - start) * stride + c];
            }
        }
    }
}

static void attention_heads(const struct kernel_call *call, size_t first, size_t last) {
    const size_t heads = call->layer->heads, stride = call->from.channels, queries = call->to.height;
    const size_t out_stride = call->to.channels, width = out_stride / heads, beside_stride = call->beside.channels;
    const size_t own = stride == 3 * out_stride ? call->from.height : 0, beside = call->added ? call->beside.height : 0;
    const size_t count = own + beside, most = ATTENTION_SCORES / count;
    const float scale = 1.0F / sqrtf((float)width);
    const struct products *products = call->products;
    float scores[ATTENTION_SCORES];
    for (size_t task = first; task < last; task++) {
        const float *query = call->input + task / heads * call->from.height * stride + task % heads * width;
        const float *key = query + out_stride, *content = key + out_stride;
        const float *key_beside = beside ? call->added + task / heads * beside * beside_stride + task % heads * width : NULL;
        const float *content_beside = !beside ? NULL : call->layer->shared ? key_beside : key_beside + out_stride;
        float *out = call->output + task / heads * queries * out_stride + task % heads * width;
        for (size_t start = 0; start < queries; start += most, out += most * out_stride) {
            const size_t rows = queries - start < most ? queries - start : most;
            const float *asked = query + start * stride;
            if (own) {
                products->multiply(true, rows, own, width, scale, asked, stride, key, stride, scores, count);
            }
            if (beside) {
                products->multiply(true, rows, beside, width, scale, asked, stride, key_beside, beside_stride, scores + own, count);
            }
            for (size_t i = 0; i < rows; i++) {
                softmax(count, scores + i * count);
            }
            if (own) {
                products->multiply(false, rows, width, own, 1.0F, scores, count, content, stride, out, out_stride);
                attend_beside(rows, width, own, count, scores, content_beside, beside_stride, out, out_stride);
            } else {
                products->multiply(false, rows, width, beside, 1.0F, scores, count, content_beside, beside_stride, out, out_stride);
            }
        }
    }
}

static void first_tokens(const struct kernel_call *call, size_t first, size_t last) {
    const size_t width = call->to.channels;
    for (size_t picture = first; picture < last; picture++) {
        memcpy(call->output + picture * width, call->input + picture * call->from.height * width, width * sizeof(float));
    }
}

static void token_means(const struct kernel_call *call, size_t first, size_t last) {
    const size_t width = call->to.channels, count = call->from.height, prefix = call->layer->prefix;
    for (size_t picture = first; picture < last; picture++) {
        block_mean_of(NUMBER_FLOAT32, count - prefix, width, call->input, (picture * count + prefix) * width,
                      call->output + picture * width);
    }
}

static void token_maxima(const struct kernel_call *call, size_t first, size_t last) {
    const size_t width = call->to.channels, count = call->from.height, prefix = call->layer->prefix;
    for (size_t picture = first; picture < last; picture++) {
        const float *in = call->input + (picture * count + prefix) * width;
        float *out = call->output + picture * width;
        memcpy(out, in, width * sizeof *out);
        for (size_t token = 1; token < count - prefix; token++) {
            for (size_t c = 0; c < width; c++) {
                out[c] = in[token * width + c] > out[c] ? in[token * width + c] : out[c];
            }
        }
    }
}

/* Channels side by side, or tokens one below the other: in memory, the one value and then the other. */
static void joins(const struct kernel_call *call, size_t first, size_t last) {
    const size_t left = call->from.channels * call->from.height, all = call->to.channels * call->to.height, right = all - left;
    for (size_t picture = first; picture < last; picture++) {
        float *out = call->output + picture * all;
        memcpy(out, call->input + picture * left, left * sizeof *out);
        memcpy(out + left, call->added + picture * right, right * sizeof *out);
    }
}

static void slices(const struct kernel_call *call, size_t first, size_t last) {
    const size_t width = call->from.channels, all = layout_size(&call->from), own = layout_size(&call->to);
    for (size_t picture = first; picture < last; picture++) {
        memcpy(call->output + picture * own, call->input + picture * all + call->layer->prefix * width, own * sizeof(float));
    }
}

#include "net/cpu/prompt_body.h"

INLINE void activate(enum activation activation, float slope, size_t count, float *values) {
    if (activation == RELU || activation == LEAKY_RELU) {
        const float below = activation == RELU ? 0 : slope;
        for (size_t i = 0; i < count; i++) {
            values[i] = values[i] > 0 ? values[i] : below * values[i];
        }
    } else if (activation == GELU) {
        for (size_t i = 0; i < count; i++) {
            values[i] = gelu(values[i]);
        }
    } else if (activation == QUICK_GELU) {
        for (size_t i = 0; i < count; i++) {
            values[i] *= sigmoid(1.702F * values[i]);
        }
    } else if (activation == TANH_GELU) {
        for (size_t i = 0; i < count; i++) {
            /* (1 + tanh(z)) / 2 = sigmoid(2 z) */
            values[i] *= sigmoid(1.59576912F * (values[i] + 0.044715F * values[i] * values[i] * values[i]));
        }
    }
}

static void activations(const struct kernel_call *call, size_t first, size_t last) {
    const size_t size = layout_size(&call->from);
    for (size_t picture = first; picture < last; picture++) {
        memcpy(call->output + picture * size, call->input + picture * size, size * sizeof(float));
        activate(call->layer->activation, call->layer->slope, size, call->output + picture * size);
    }
}

static void sums(const struct kernel_call *call, size_t first, size_t last) {
    const struct layout *to = &call->to, *beside = &call->beside;
    const size_t size = layout_size(to), pixels = to->height * to->width;
    for (size_t picture = first; picture < last; picture++) {
        if (beside->block == to->block) {
            sum_to(size, call->input + picture * size, call->added + picture * size, call->output + picture * size);
            continue;
        }
        for (size_t c = 0; c < to->channels; c++) {
            const size_t at = block_at(to, picture, c / to->block) + c % to->block;
            const float *added = call->added + block_at(beside, picture, c / beside->block) + c % beside->block;
            for (size_t i = 0; i < pixels; i++) {
                call->output[at + i * to->block] = call->input[at + i * to->block] + added[i * beside->block];
            }
        }
    }
}

static void scales(const struct kernel_call *call, size_t first, size_t last) {
    const struct layout *to = &call->to;
    const size_t pixels = to->height * to->width;
    const float *factors = call->layer->parameters[FACTORS].values, *bias = call->layer->parameters[BIAS].values;
    for (size_t picture = first; picture < last; picture++) {
        for (size_t c = 0; c < to->padded; c++) {
            const size_t at = block_at(to, picture, c / to->block) + c % to->block;
            const float factor = c < to->channels ? factors[c] : 0, shift = bias && c < to->channels ? bias[c] : 0;
            for (size_t i = 0; i < pixels; i++) {
                call->output[at + i * to->block] = call->input[at + i * to->block] * factor + shift;
            }
        }
    }
}

static void finish_rows(enum activation activation, float slope, const float *bias, size_t rows, size_t width, float *output) {
    for (size_t row = 0; row < rows; row++) {
        float *out = output + row * width;
        for (size_t i = 0; i < width && bias; i++) {
            out[i] += bias[i];
        }
        activate(activation, slope, width, out);
    }
}

const struct kernels KERNELS = {.name = KERNELS_NAME,
                                .run = {[LAYER_SPACE_TO_DEPTH] = space_to_depth_rows,
                                        [LAYER_MAX_POOL] = windows,
                                        [LAYER_AVERAGE_POOL] = windows,
                                        [LAYER_BLUR] = windows,
                                        [LAYER_SQUEEZE_EXCITE] = squeeze_excite_pictures,
                                        [LAYER_GLOBAL_MEAN] = global_means,
                                        [LAYER_PATCHES] = patch_rows,
                                        [LAYER_TOKENS] = tokens,
                                        [LAYER_NORM] = layer_norms,
                                        [LAYER_ATTENTION] = attention_heads,
                                        [LAYER_FIRST_TOKEN] = first_tokens,
                                        [LAYER_TOKEN_MEAN] = token_means,
                                        [LAYER_TOKEN_MAX] = token_maxima,
                                        [LAYER_JOIN] = joins,
                                        [LAYER_SLICE] = slices,
                                        [LAYER_ACTIVATION] = activations,
                                        [LAYER_ADD] = sums,
                                        [LAYER_SCALE] = scales,
                                        [LAYER_LEARNED] = learned_values,
                                        [LAYER_SPLIT] = split_tokens,
                                        [LAYER_UNIT] = unit_lengths,
                                        [LAYER_COSINES] = cosines_with_keys,
                                        [LAYER_PICK] = picked_tokens},
                                .finish = finish_rows,
                                .round = round_numbers};
