/* The loops of the kernels, included by one file per kind of processor. They are written so that compilers vectorise them: no
 * branches inside, and sums kept in LANES parts.
 *
 * erf(x) = 1 − (a₁t + … + a₅t⁵) e^(−x²), t = 1 / (1 + p·x), x ≥ 0 (Abramowitz and Stegun 7.1.26); error 1.5·10⁻⁷.
 * softmax(s)ᵢ = e^(sᵢ − max s) / Σ e^(sⱼ − max s).
 * attention: for each head, softmax(Q Kᵀ / √width) V, a block of queries at a time.
 * layer norm: w (x − mean) / √(variance + ε) + b over the numbers of a token. */
#include "base/vector_math.h"
#include "net/cpu/kernels.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Arrays on the stack: the scores of one block of queries, which stay in the second-level cache; channels with the padding of a
 * layout. */
enum { LANES = 16, ATTENTION_SCORES = ATTENTION_TOKENS, EXCITE_PADDING = 64 };

INLINE float gelu(float x) {
    const float z = fabsf(x) * 0.707106781F;
    const float t = 1.0F / (1.0F + 0.3275911F * z);
    const float tail =
        ((((1.061405429F * t - 1.453152027F) * t + 1.421413741F) * t - 0.284496736F) * t + 0.254829592F) * t * exponential(-z * z);
    const float erf = x < 0 ? tail - 1.0F : 1.0F - tail;
    return 0.5F * x * (1.0F + erf);
}

INLINE float sum_of(size_t count, const float *values) {
    float parts[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            parts[j] += values[i + j];
        }
    }
    for (; i < count; i++) {
        sum += values[i];
    }
    for (size_t j = 0; j < LANES; j++) {
        sum += parts[j];
    }
    return sum;
}

INLINE float product_of(size_t count, const float *left, const float *right) {
    float parts[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            parts[j] += left[i + j] * right[i + j];
        }
    }
    for (; i < count; i++) {
        sum += left[i] * right[i];
    }
    for (size_t j = 0; j < LANES; j++) {
        sum += parts[j];
    }
    return sum;
}

/* The offset at which a block of a picture's channels begins. */
INLINE size_t block_at(const struct layout *layout, size_t picture, size_t block) {
    return (picture * (layout->padded / layout->block) + block) * layout->height * layout->width * layout->block;
}

static void space_to_depth_rows(const struct kernel_call *call, size_t first, size_t last) {
    const struct layout from = call->from, to = call->to;
    const size_t side = call->layer->kernel, blocks = to.padded / to.block;
    for (size_t task = first; task < last; task++) {
        const size_t picture = task / to.height, y = task % to.height;
        for (size_t c = 0; c < to.padded; c++) {
            const size_t plane = c % from.channels, dx = c / from.channels % side, dy = c / from.channels / side;
            float *out = call->output + ((picture * blocks + c / to.block) * to.height + y) * to.width * to.block + c % to.block;
            const float *in = call->input + ((picture * from.channels + plane) * from.height + y * side + dy) * from.width + dx;
            for (size_t x = 0; x < to.width; x++) {
                out[x * to.block] = c < to.channels ? in[x * side] : 0.0F;
            }
        }
    }
}

/* One output row of a pool, and the input rows [top, bottom) that it covers. */
struct window_row {
    const float *in;
    float *out;
    size_t top, bottom;
};

INLINE struct window_row window_row_of(const struct kernel_call *call, size_t task) {
    const struct layout *from = &call->from, *to = &call->to;
    const size_t y = task % to->height, blocks = to->padded / to->block, block = task / to->height % blocks;
    const size_t picture = task / to->height / blocks;
    const size_t padding = call->layer->padding, start = y * call->layer->stride, end = start + call->layer->kernel - padding;
    return (struct window_row){.in = call->input + block_at(from, picture, block),
                               .out = call->output + block_at(to, picture, block) + y * to->width * to->block,
                               .top = start < padding ? 0 : start - padding,
                               .bottom = end < from->height ? end : from->height};
}

INLINE void pool_row(const struct kernel_call *call, const struct window_row *row, size_t block, bool largest) {
    const struct net_layer *layer = call->layer;
    for (size_t x = 0; x < call->to.width; x++) {
        const size_t start = x * layer->stride, end = start + layer->kernel - layer->padding;
        const size_t left = start < layer->padding ? 0 : start - layer->padding;
        const size_t right = end < call->from.width ? end : call->from.width;
        const float share = 1.0F / (float)((row->bottom - row->top) * (right - left));
        float *out = row->out + x * block;
        for (size_t j = 0; j < block; j++) {
            out[j] = largest ? -FLT_MAX : 0;
        }
        for (size_t y = row->top; y < row->bottom; y++) {
            for (size_t at = left; at < right; at++) {
                const float *in = row->in + (y * call->from.width + at) * block;
                for (size_t j = 0; j < block; j++) {
                    out[j] = largest ? (in[j] > out[j] ? in[j] : out[j]) : out[j] + in[j];
                }
            }
        }
        for (size_t j = 0; j < block && !largest; j++) {
            out[j] *= share;
        }
    }
}

INLINE size_t mirrored(size_t at, size_t step, size_t size) {
    /* position at + step − 1, mirrored at both ends */
    const size_t place = at + step;
    return place == 0 ? 1 : place - 1 < size ? place - 1 : 2 * size - 1 - place;
}

INLINE void blur_row(const struct kernel_call *call, const struct window_row *row, size_t y, size_t block) {
    const size_t width = call->from.width, height = call->from.height;
    const float *above = row->in + mirrored(2 * y, 0, height) * width * block, *middle = row->in + 2 * y * width * block;
    const float *below = row->in + mirrored(2 * y, 2, height) * width * block;
    for (size_t x = 0; x < call->to.width; x++) {
        const size_t left = mirrored(2 * x, 0, width) * block, centre = 2 * x * block, right = mirrored(2 * x, 2, width) * block;
        float *out = row->out + x * block;
        for (size_t j = 0; j < block; j++) {
            const float first = above[left + j] + 2 * middle[left + j] + below[left + j];
            const float second = above[centre + j] + 2 * middle[centre + j] + below[centre + j];
            const float third = above[right + j] + 2 * middle[right + j] + below[right + j];
            out[j] = (first + 2 * second + third) * 0.0625F;
        }
    }
}

INLINE void window_rows(const struct kernel_call *call, size_t first, size_t last, size_t block) {
    for (size_t task = first; task < last; task++) {
        const struct window_row row = window_row_of(call, task);
        if (call->layer->kind == LAYER_BLUR) {
            blur_row(call, &row, task % call->to.height, block);
        } else {
            pool_row(call, &row, block, call->layer->kind == LAYER_MAX_POOL);
        }
    }
}

/* The usual block sizes are constants, so that the innermost loop becomes one or two vector instructions. */
static void windows(const struct kernel_call *call, size_t first, size_t last) {
    if (call->to.block == 16) {
        window_rows(call, first, last, 16);
    } else if (call->to.block == 8) {
        window_rows(call, first, last, 8);
    } else {
        window_rows(call, first, last, call->to.block);
    }
}

INLINE void block_mean_of(size_t pixels, size_t block, const float *restrict in, float *restrict mean) {
    const float share = 1.0F / (float)pixels;
    for (size_t j = 0; j < block; j++) {
        mean[j] = 0;
    }
    for (size_t i = 0; i < pixels; i++) {
        for (size_t j = 0; j < block; j++) {
            mean[j] += in[i * block + j];
        }
    }
    for (size_t j = 0; j < block; j++) {
        mean[j] *= share;
    }
}

static void block_mean(size_t pixels, size_t block, const float *in, float *mean) {
    if (block == 16) {
        float sums[16];
        block_mean_of(pixels, 16, in, sums);
        memcpy(mean, sums, sizeof sums);
    } else if (block == 8) {
        float sums[8];
        block_mean_of(pixels, 8, in, sums);
        memcpy(mean, sums, sizeof sums);
    } else {
        block_mean_of(pixels, block, in, mean);
    }
}

static void global_means(const struct kernel_call *call, size_t first, size_t last) {
    const struct layout *from = &call->from;
    const size_t blocks = from->padded / from->block;
    for (size_t task = first; task < last; task++) {
        const size_t picture = task / blocks, block = task % blocks;
        block_mean(from->height * from->width, from->block, call->input + block_at(from, picture, block),
                   call->output + picture * call->to.padded + block * from->block);
    }
}

INLINE void scale_block(size_t pixels, size_t block, const float *restrict scale, const float *restrict added,
                        float *restrict values) {
    if (added) {
        for (size_t i = 0; i < pixels; i++) {
            for (size_t j = 0; j < block; j++) {
                const float sum = values[i * block + j] * scale[j] + added[i * block + j];
                values[i * block + j] = sum > 0 ? sum : 0;
            }
        }
    } else {
        for (size_t i = 0; i < pixels; i++) {
            for (size_t j = 0; j < block; j++) {
                values[i * block + j] *= scale[j];
            }
        }
    }
}

/* The sum and the ReLU, for a value to add that has another layout. */
static void add_from_layout(const struct kernel_call *call, size_t picture) {
    const struct layout *to = &call->to, *beside = &call->beside;
    for (size_t c = 0; c < to->channels; c++) {
        float *out = call->output + block_at(to, picture, c / to->block) + c % to->block;
        const float *added = call->added + block_at(beside, picture, c / beside->block) + c % beside->block;
        for (size_t i = 0; i < to->height * to->width; i++) {
            const float sum = out[i * to->block] + added[i * beside->block];
            out[i * to->block] = sum > 0 ? sum : 0;
        }
    }
}

/* Runs the whole layer for one picture at a time, so that the second pass finds it in the cache. Works in place. */
static void squeeze_excite_picture(const struct kernel_call *call, size_t picture, float *means, float *hidden) {
    const struct layout *from = &call->from;
    const struct net_layer *layer = call->layer;
    const size_t blocks = from->padded / from->block, pixels = from->height * from->width;
    const bool apart = call->added && call->beside.block != from->block;
    const float *factors = layer->parameters[FACTORS], *second_factors = layer->parameters[SECOND_FACTORS];
    for (size_t b = 0; b < blocks; b++) {
        block_mean(pixels, from->block, call->input + block_at(from, picture, b), means + b * from->block);
    }
    for (size_t i = 0; i < layer->hidden; i++) {
        const float sum = layer->parameters[BIAS][i] + product_of(from->channels, factors + i * from->channels, means);
        hidden[i] = sum > 0 ? sum : 0;
    }
    for (size_t i = 0; i < from->padded; i++) {
        means[i] = i < from->channels
                       ? layer->parameters[SECOND_BIAS][i] + product_of(layer->hidden, second_factors + i * layer->hidden, hidden)
                       : 0;
    }
    for (size_t i = 0; i < from->padded; i++) {
        means[i] = 1.0F / (1.0F + exponential(-means[i]));
    }
    for (size_t b = 0; b < blocks; b++) {
        const size_t at = block_at(from, picture, b);
        const float *added = call->added && !apart ? call->added + at : NULL;
        if (from->block == 16) {
            scale_block(pixels, 16, means + b * 16, added, call->output + at);
        } else if (from->block == 8) {
            scale_block(pixels, 8, means + b * 8, added, call->output + at);
        } else {
            scale_block(pixels, from->block, means + b * from->block, added, call->output + at);
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
        float *out = call->output + task * call->to.channels;
        for (size_t c = 0; c < from.channels; c++) {
            for (size_t dy = 0; dy < side; dy++, out += side) {
                memcpy(out, call->input + ((picture * from.channels + c) * from.height + y * side + dy) * from.width + x * side,
                       side * sizeof *out);
            }
        }
    }
}

static void tokens(const struct kernel_call *call, size_t first, size_t last) {
    const size_t width = call->to.channels, count = call->to.height;
    const float *token = call->layer->parameters[FACTORS], *position = call->layer->parameters[BIAS];
    for (size_t picture = first; picture < last; picture++) {
        const float *in = call->input + picture * (count - 1) * width;
        float *out = call->output + picture * count * width;
        for (size_t i = 0; i < width; i++) {
            out[i] = token[i] + position[i];
        }
        for (size_t i = width; i < count * width; i++) {
            out[i] = in[i - width] + position[i];
        }
    }
}

static void layer_norms(const struct kernel_call *call, size_t first, size_t last) {
    const size_t width = call->to.channels;
    const float *factors = call->layer->parameters[FACTORS], *bias = call->layer->parameters[BIAS];
    for (size_t row = first; row < last; row++) {
        const float *in = call->input + row * width;
        float *out = call->output + row * width;
        const float mean = sum_of(width, in) / (float)width;
        for (size_t i = 0; i < width; i++) {
            out[i] = in[i] - mean;
        }
        const float variance = product_of(width, out, out) / (float)width;
        const float scale = 1.0F / sqrtf(variance + call->layer->epsilon);
        for (size_t i = 0; i < width; i++) {
            out[i] = out[i] * scale * factors[i] + bias[i];
        }
    }
}

INLINE void softmax(size_t count, float *values) {
    float largest[LANES], most = -FLT_MAX;
    size_t i = 0;
    for (size_t j = 0; j < LANES; j++) {
        largest[j] = -FLT_MAX;
    }
    for (; i + LANES <= count; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            largest[j] = values[i + j] > largest[j] ? values[i + j] : largest[j];
        }
    }
    for (; i < count; i++) {
        most = values[i] > most ? values[i] : most;
    }
    for (size_t j = 0; j < LANES; j++) {
        most = largest[j] > most ? largest[j] : most;
    }
    for (i = 0; i < count; i++) {
        values[i] = exponential(values[i] - most);
    }
    const float share = 1.0F / sum_of(count, values);
    for (i = 0; i < count; i++) {
        values[i] *= share;
    }
}

static void attention_heads(const struct kernel_call *call, size_t first, size_t last) {
    const size_t heads = call->layer->heads, stride = call->from.channels, count = call->from.height, queries = call->to.height;
    const size_t out_stride = call->to.channels, width = out_stride / heads;
    const float scale = 1.0F / sqrtf((float)width);
    float scores[ATTENTION_SCORES];
    const size_t most = ATTENTION_SCORES / count;
    for (size_t task = first; task < last; task++) {
        const float *query = call->input + task / heads * count * stride + task % heads * width;
        const float *key = query + out_stride, *content = key + out_stride;
        float *out = call->output + task / heads * queries * out_stride + task % heads * width;
        for (size_t start = 0; start < queries; start += most) {
            const size_t rows = queries - start < most ? queries - start : most;
            call->products->multiply(true, rows, count, width, scale, query + start * stride, stride, key, stride, scores, count);
            for (size_t i = 0; i < rows; i++) {
                softmax(count, scores + i * count);
            }
            call->products->multiply(false, rows, width, count, 1.0F, scores, count, content, stride, out + start * out_stride,
                                     out_stride);
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
    const size_t width = call->to.channels, count = call->from.height;
    for (size_t picture = first; picture < last; picture++) {
        block_mean_of(count - 1, width, call->input + (picture * count + 1) * width, call->output + picture * width);
    }
}

static void joins(const struct kernel_call *call, size_t first, size_t last) {
    const size_t left = call->from.channels, right = call->to.channels - left;
    for (size_t picture = first; picture < last; picture++) {
        float *out = call->output + picture * call->to.channels;
        memcpy(out, call->input + picture * left, left * sizeof *out);
        memcpy(out + left, call->added + picture * right, right * sizeof *out);
    }
}

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
                                        [LAYER_JOIN] = joins},
                                .finish = finish_rows};
