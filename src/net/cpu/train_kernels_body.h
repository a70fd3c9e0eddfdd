/* The loops of training, included by one file per kind of processor. They are written so that compilers vectorise them.
 *
 * Norms and scales: y = gain · n + b with n = (x − mean) · scale, where mean and scale are numbers of the channel. With g the
 * gradient of y, d b = Σ g and d gain = Σ g · n. If mean and scale are those of the batch,
 *     d x = gain · scale · (g − Σ g / count − n · Σ g · n / count),
 * otherwise the sums are left out. The mean and the squares about it are found for each picture, and then put together: with m the
 * mean of all and mᵢ of a part, Σ (x − m)² = Σᵢ (Σ (x − mᵢ)² + nᵢ (mᵢ − m)²).
 * attention: the shares P = softmax(Q Kᵀ / √width) are computed again. With G the gradient of P V,
 *     d V = Pᵀ G,   d S = P ∘ (G Vᵀ − rowsum(P ∘ G Vᵀ)),   d Q = d S K / √width,   d K = d Sᵀ Q / √width. */
#include "net/cpu/loops.h"
#include "net/cpu/train_kernels.h"

#include <string.h>

enum { TILE = 1024 }; /* pixels of a stripe that are measured at a time: they stay in the first caches */

/* A stripe of a picture: where it begins, the distance of its pixels, its lanes, and its first channel. */
struct stripe {
    size_t at, step, lanes, channel, picture;
};

INLINE struct stripe stripe_of(const struct layout *layout, size_t task) {
    const size_t each = (layout->block + STRIPE - 1) / STRIPE, all = layout->padded / layout->block * each;
    const size_t picture = task / all, block = task % all / each, lane = task % each * STRIPE;
    return (struct stripe){.at = block_at(layout, picture, block) + lane,
                           .step = layout->block,
                           .lanes = layout->block - lane < STRIPE ? layout->block - lane : STRIPE,
                           .channel = block * layout->block + lane,
                           .picture = picture};
}

/* Calls a loop over a stripe with the usual number of lanes as a constant. */
#define FOR_LANES(lanes, function, ...)                                                                                            \
    do {                                                                                                                           \
        if ((lanes) == STRIPE) {                                                                                                   \
            function(STRIPE, __VA_ARGS__);                                                                                         \
        } else {                                                                                                                   \
            function(lanes, __VA_ARGS__);                                                                                          \
        }                                                                                                                          \
    } while (0)

INLINE float *sums_of(const struct train_call *call, size_t picture, size_t which) {
    return call->sums + (2 * picture + which) * call->to.padded;
}

/* What a norm or a scale multiplies a channel by; 0 for padding. */
INLINE float gain_of(const struct train_call *call, size_t channel) {
    const float factor = channel < call->to.channels ? call->layer->parameters[FACTORS].values[channel] : 0;
    return call->layer->magnitude && channel < call->to.channels ? fabsf(factor) + (float)call->layer->epsilon : factor;
}

/* ---- Norms and scales, forward ---- */

INLINE void measure_tile(size_t lanes, const float *x, size_t step, size_t pixels, float *means, float *squares) {
    const float share = 1.0F / (float)pixels;
    float sums[STRIPE] = {0};
    for (size_t i = 0; i < pixels; i++) {
        for (size_t j = 0; j < lanes; j++) {
            sums[j] += x[i * step + j];
        }
    }
    for (size_t j = 0; j < lanes; j++) {
        means[j] = sums[j] * share;
        sums[j] = 0;
    }
    for (size_t i = 0; i < pixels; i++) {
        for (size_t j = 0; j < lanes; j++) {
            const float away = x[i * step + j] - means[j];
            sums[j] += away * away;
        }
    }
    for (size_t j = 0; j < lanes; j++) {
        squares[j] = sums[j];
    }
}

/* Adds a part with `more` numbers to one with `count`. */
INLINE void join_parts(double count, double *mean, double *squares, double more, double other_mean, double other_squares) {
    const double away = other_mean - *mean, share = more / (count + more);
    *mean += away * share;
    *squares += other_squares + away * away * count * share;
}

INLINE void measure_stripe(size_t lanes, const struct train_call *call, const struct stripe *stripe) {
    const size_t pixels = call->from.height * call->from.width;
    double means[STRIPE] = {0}, squares[STRIPE] = {0};
    for (size_t start = 0; start < pixels; start += TILE) {
        const size_t count = pixels - start < TILE ? pixels - start : TILE;
        float tile_means[STRIPE], tile_squares[STRIPE];
        measure_tile(lanes, call->input + stripe->at + start * stripe->step, stripe->step, count, tile_means, tile_squares);
        for (size_t j = 0; j < lanes; j++) {
            join_parts((double)start, &means[j], &squares[j], (double)count, (double)tile_means[j], (double)tile_squares[j]);
        }
    }
    for (size_t j = 0; j < lanes; j++) {
        sums_of(call, stripe->picture, 0)[stripe->channel + j] = (float)means[j];
        sums_of(call, stripe->picture, 1)[stripe->channel + j] = (float)squares[j];
    }
}

static void measure_pictures(const struct train_call *call, size_t first, size_t last) {
    for (size_t task = first; call->measures && !call->again && task < last; task++) {
        const struct stripe stripe = stripe_of(&call->from, task);
        FOR_LANES(stripe.lanes, measure_stripe, call, &stripe);
    }
}

/* Mean and variance of a channel in the batch; the checkpoint's move a tenth of the way towards them. */
static void settle_channel(const struct train_call *call, size_t c) {
    const size_t pixels = call->from.height * call->from.width;
    const double count = (double)(call->pictures * pixels);
    float *kept_mean = &call->layer->parameters[MEAN].values[c], *kept_variance = &call->layer->parameters[VARIANCE].values[c];
    double mean = 0, squares = 0;
    for (size_t picture = 0; picture < call->pictures; picture++) {
        join_parts((double)(picture * pixels), &mean, &squares, (double)pixels, (double)sums_of(call, picture, 0)[c],
                   (double)sums_of(call, picture, 1)[c]);
    }
    call->mean[c] = (float)mean;
    call->scale[c] = (float)(1 / sqrt(squares / count + call->layer->epsilon));
    *kept_mean = (float)((double)*kept_mean + 0.1 * (mean - (double)*kept_mean));
    *kept_variance = (float)((double)*kept_variance + 0.1 * (squares / (count - 1) - (double)*kept_variance));
}

static void settle_channels(const struct train_call *call, size_t first, size_t last) {
    const struct net_layer *layer = call->layer;
    for (size_t task = first; !call->again && task < last; task++) {
        const struct stripe stripe = stripe_of(&call->to, task);
        for (size_t c = stripe.channel; c < stripe.channel + stripe.lanes; c++) {
            if (c >= call->to.channels || layer->kind == LAYER_SCALE) {
                call->mean[c] = 0;
                call->scale[c] = 1;
            } else if (call->measures) {
                settle_channel(call, c);
            } else {
                call->mean[c] = layer->parameters[MEAN].values[c];
                call->scale[c] = (float)(1 / sqrt((double)layer->parameters[VARIANCE].values[c] + layer->epsilon));
            }
        }
    }
}

INLINE void apply_stripe(size_t lanes, const struct train_call *call, const struct stripe *stripe, bool adds, bool bends) {
    const size_t pixels = call->to.height * call->to.width, step = stripe->step;
    const float *in = call->input + stripe->at, *added = adds ? call->second + stripe->at : NULL;
    const float below = call->activation == LEAKY_RELU ? call->slope : 0, *bias = call->layer->parameters[BIAS].values;
    float *out = call->output + stripe->at, means[STRIPE], factors[STRIPE], shifts[STRIPE];
    for (size_t j = 0; j < lanes; j++) {
        const size_t c = stripe->channel + j;
        means[j] = call->mean[c];
        factors[j] = gain_of(call, c) * call->scale[c];
        shifts[j] = bias && c < call->to.channels ? bias[c] : 0;
    }
    for (size_t i = 0; i < pixels; i++) {
        for (size_t j = 0; j < lanes; j++) {
            float y = (in[i * step + j] - means[j]) * factors[j] + shifts[j];
            y = adds ? y + added[i * step + j] : y;
            out[i * step + j] = bends && !(y > 0) ? below * y : y;
        }
    }
}

INLINE void apply_lanes(size_t lanes, const struct train_call *call, const struct stripe *stripe) {
    const bool bends = call->activation != LINEAR_ACTIVATION;
    if (call->second && bends) {
        apply_stripe(lanes, call, stripe, true, true);
    } else if (call->second) {
        apply_stripe(lanes, call, stripe, true, false);
    } else if (bends) {
        apply_stripe(lanes, call, stripe, false, true);
    } else {
        apply_stripe(lanes, call, stripe, false, false);
    }
}

static void apply_pictures(const struct train_call *call, size_t first, size_t last) {
    for (size_t task = first; task < last; task++) {
        const struct stripe stripe = stripe_of(&call->to, task);
        FOR_LANES(stripe.lanes, apply_lanes, call, &stripe);
    }
}

/* ---- Norms and scales, backward ---- */

/* Changes g by the activation's slope, and adds up g and g · n. n: whether that is needed. */
INLINE void gather_stripe(size_t lanes, const struct train_call *call, const struct stripe *stripe, bool bends, bool n) {
    const size_t pixels = call->to.height * call->to.width, step = stripe->step;
    const float *in = n ? call->input + stripe->at : NULL, *out = bends ? call->output + stripe->at : NULL;
    const float below = call->activation == LEAKY_RELU ? call->slope : 0;
    float *gradient = call->out_gradient + stripe->at, means[STRIPE];
    double sums[STRIPE] = {0}, products[STRIPE] = {0};
    for (size_t j = 0; j < lanes; j++) {
        means[j] = call->mean[stripe->channel + j];
    }
    for (size_t start = 0; start < pixels; start += TILE) {
        const size_t end = pixels - start < TILE ? pixels : start + TILE;
        float tile_sums[STRIPE] = {0}, tile_products[STRIPE] = {0};
        for (size_t i = start; i < end; i++) {
            for (size_t j = 0; j < lanes; j++) {
                float g = gradient[i * step + j];
                if (bends) {
                    g = out[i * step + j] > 0 ? g : below * g;
                    gradient[i * step + j] = g;
                }
                tile_sums[j] += g;
                tile_products[j] += n ? g * (in[i * step + j] - means[j]) : 0;
            }
        }
        for (size_t j = 0; j < lanes; j++) {
            sums[j] += (double)tile_sums[j];
            products[j] += (double)tile_products[j];
        }
    }
    for (size_t j = 0; j < lanes; j++) {
        sums_of(call, stripe->picture, 0)[stripe->channel + j] = (float)sums[j];
        sums_of(call, stripe->picture, 1)[stripe->channel + j] = (float)products[j] * call->scale[stripe->channel + j];
    }
}

INLINE void gather_lanes(size_t lanes, const struct train_call *call, const struct stripe *stripe) {
    const bool bends = call->activation != LINEAR_ACTIVATION, n = call->measures || call->gradients[FACTORS];
    if (bends && n) {
        gather_stripe(lanes, call, stripe, true, true);
    } else if (bends) {
        gather_stripe(lanes, call, stripe, true, false);
    } else if (n) {
        gather_stripe(lanes, call, stripe, false, true);
    } else {
        gather_stripe(lanes, call, stripe, false, false);
    }
}

static void gather_pictures(const struct train_call *call, size_t first, size_t last) {
    for (size_t task = first; task < last; task++) {
        const struct stripe stripe = stripe_of(&call->to, task);
        FOR_LANES(stripe.lanes, gather_lanes, call, &stripe);
    }
}

/* The gradients of the parameters, and, in the sums after those of the pictures, Σ g / count and Σ g · n / count. */
static void settle_gradients(const struct train_call *call, size_t first, size_t last) {
    const double count = (double)(call->pictures * call->to.height * call->to.width);
    for (size_t task = first; task < last; task++) {
        const struct stripe stripe = stripe_of(&call->to, task);
        for (size_t c = stripe.channel; c < stripe.channel + stripe.lanes; c++) {
            double sum = 0, product = 0;
            for (size_t picture = 0; picture < call->pictures; picture++) {
                sum += (double)sums_of(call, picture, 0)[c];
                product += (double)sums_of(call, picture, 1)[c];
            }
            sums_of(call, call->pictures, 0)[c] = call->measures ? (float)(sum / count) : 0;
            sums_of(call, call->pictures, 1)[c] = call->measures ? (float)(product / count) : 0;
            if (call->gradients[BIAS] && c < call->to.channels) {
                call->gradients[BIAS][c] = (float)sum;
            }
            if (call->gradients[FACTORS] && c < call->to.channels) {
                const bool negative = call->layer->magnitude && call->layer->parameters[FACTORS].values[c] < 0;
                call->gradients[FACTORS][c] = (float)(negative ? -product : product);
            }
        }
    }
}

INLINE void spread_stripe(size_t lanes, const struct train_call *call, const struct stripe *stripe, bool measured) {
    const size_t pixels = call->to.height * call->to.width, step = stripe->step;
    const float *gradient = call->out_gradient + stripe->at, *in = measured ? call->input + stripe->at : NULL;
    float *to = call->in_gradient + stripe->at, means[STRIPE], factors[STRIPE], sums[STRIPE], products[STRIPE];
    for (size_t j = 0; j < lanes; j++) {
        const size_t c = stripe->channel + j;
        means[j] = call->mean[c];
        factors[j] = gain_of(call, c) * call->scale[c];
        sums[j] = sums_of(call, call->pictures, 0)[c];
        products[j] = sums_of(call, call->pictures, 1)[c] * call->scale[c];
    }
    for (size_t i = 0; i < pixels; i++) {
        for (size_t j = 0; j < lanes; j++) {
            const float g = gradient[i * step + j];
            to[i * step + j] = factors[j] * (measured ? g - sums[j] - (in[i * step + j] - means[j]) * products[j] : g);
        }
    }
}

INLINE void spread_lanes(size_t lanes, const struct train_call *call, const struct stripe *stripe) {
    if (call->measures) {
        spread_stripe(lanes, call, stripe, true);
    } else {
        spread_stripe(lanes, call, stripe, false);
    }
}

static void spread_pictures(const struct train_call *call, size_t first, size_t last) {
    for (size_t task = first; call->in_gradient && task < last; task++) {
        const struct stripe stripe = stripe_of(&call->to, task);
        FOR_LANES(stripe.lanes, spread_lanes, call, &stripe);
    }
}

/* ---- The bias of a linear layer ---- */

INLINE void add_up_stripe(size_t lanes, const struct train_call *call, const struct stripe *stripe) {
    float sums[STRIPE] = {0};
    for (size_t i = 0; i < call->to.height * call->to.width; i++) {
        for (size_t j = 0; j < lanes; j++) {
            sums[j] += call->out_gradient[stripe->at + i * stripe->step + j];
        }
    }
    for (size_t j = 0; j < lanes; j++) {
        sums_of(call, stripe->picture, 0)[stripe->channel + j] = sums[j];
    }
}

static void add_up_pictures(const struct train_call *call, size_t first, size_t last) {
    for (size_t task = first; call->gradients[BIAS] && task < last; task++) {
        const struct stripe stripe = stripe_of(&call->to, task);
        FOR_LANES(stripe.lanes, add_up_stripe, call, &stripe);
    }
}

static void settle_bias(const struct train_call *call, size_t first, size_t last) {
    for (size_t c = first; call->gradients[BIAS] && c < last; c++) {
        double sum = 0;
        for (size_t picture = 0; picture < call->pictures; picture++) {
            sum += (double)sums_of(call, picture, 0)[c];
        }
        call->gradients[BIAS][c] = (float)sum;
    }
}

/* ---- Layer norm ---- */

static void norm_row(const struct train_call *call, size_t row, float *factor_sums, float *bias_sums) {
    const size_t width = call->to.channels;
    const float *in = call->input + row * width, *gradient = call->out_gradient + row * width;
    const float *factors = call->layer->parameters[FACTORS].values, mean = sum_of(width, in) / (float)width;
    float parts[LANES] = {0}, products[LANES] = {0}, variances[LANES] = {0}, sum = 0, product = 0, variance = 0;
    for (size_t i = 0; i < width; i += LANES) {
        const size_t lanes = width - i < LANES ? width - i : LANES;
        for (size_t j = 0; j < lanes; j++) {
            const float away = in[i + j] - mean, g = gradient[i + j] * factors[i + j];
            variances[j] += away * away;
            parts[j] += g;
            products[j] += g * away;
        }
    }
    for (size_t j = 0; j < LANES; j++) {
        variance += variances[j];
        sum += parts[j];
        product += products[j];
    }
    const float scale = 1.0F / sqrtf(variance / (float)width + (float)call->layer->epsilon);
    for (size_t i = 0; i < width; i++) {
        factor_sums[i] += gradient[i] * (in[i] - mean) * scale;
        bias_sums[i] += gradient[i];
    }
    if (call->in_gradient) {
        float *to = call->in_gradient + row * width;
        const float level = sum / (float)width, tilt = product / (float)width * scale * scale, keep = call->adds ? 1 : 0;
        for (size_t i = 0; i < width; i++) {
            const float before = keep != 0 ? to[i] : 0;
            to[i] = before + scale * (gradient[i] * factors[i] - level - (in[i] - mean) * tilt);
        }
    }
}

static void norm_parts(const struct train_call *call, size_t first, size_t last) {
    const size_t rows = call->pictures * call->to.height * call->to.width, width = call->to.channels;
    for (size_t part = first; part < last; part++) {
        float *sums = call->sums + part * 2 * width;
        memset(sums, 0, 2 * width * sizeof *sums);
        for (size_t row = rows * part / ROW_PARTS; row < rows * (part + 1) / ROW_PARTS; row++) {
            norm_row(call, row, sums, sums + width);
        }
    }
}

static void norm_gradients(const struct train_call *call, size_t first, size_t last) {
    const size_t width = call->to.channels;
    for (size_t c = first; c < last; c++) {
        double factor = 0, bias = 0;
        for (size_t part = 0; part < ROW_PARTS; part++) {
            factor += (double)call->sums[part * 2 * width + c];
            bias += (double)call->sums[(part * 2 + 1) * width + c];
        }
        if (call->gradients[FACTORS]) {
            call->gradients[FACTORS][c] = (float)factor;
        }
        if (call->gradients[BIAS]) {
            call->gradients[BIAS][c] = (float)bias;
        }
    }
}

/* ---- Activations ---- */

INLINE float slope_at(enum activation activation, float x) {
    if (activation == GELU) {
        return 0.5F * (1.0F + normal_erf(x)) + x * 0.398942280F * exponential(-0.5F * x * x);
    }
    if (activation == QUICK_GELU) {
        const float s = sigmoid(1.702F * x);
        return s + 1.702F * x * s * (1.0F - s);
    }
    /* (1 + tanh(z)) / 2 = sigmoid(2 z) */
    const float s = sigmoid(1.59576912F * (x + 0.044715F * x * x * x));
    return s + x * s * (1.0F - s) * 1.59576912F * (1.0F + 0.134145F * x * x);
}

static void activation_numbers(const struct train_call *call, size_t first, size_t last) {
    const float *gradient = call->out_gradient, *in = call->input, *out = call->output;
    const float below = call->layer->activation == LEAKY_RELU ? call->layer->slope : 0;
    float *to = call->in_gradient;
    switch (call->layer->activation) {
    case RELU:
    case LEAKY_RELU:
        for (size_t i = first; i < last; i++) {
            to[i] = out[i] > 0 ? gradient[i] : below * gradient[i];
        }
        break;
    case GELU:
        for (size_t i = first; i < last; i++) {
            to[i] = gradient[i] * slope_at(GELU, in[i]);
        }
        break;
    case QUICK_GELU:
        for (size_t i = first; i < last; i++) {
            to[i] = gradient[i] * slope_at(QUICK_GELU, in[i]);
        }
        break;
    case TANH_GELU:
        for (size_t i = first; i < last; i++) {
            to[i] = gradient[i] * slope_at(TANH_GELU, in[i]);
        }
        break;
    default: memmove(to + first, gradient + first, (last - first) * sizeof *to);
    }
}

/* ---- Pools ---- */

/* What one pixel of the output gives to the pixels of its window. */
INLINE void max_window(const struct train_call *call, const float *in, const float *out, const float *gradient, float *to, size_t y,
                       size_t x, size_t block) {
    const struct net_layer *layer = call->layer;
    for (size_t j = 0; j < block; j++) {
        bool found = false;
        for (size_t i = 0; i < layer->kernel * layer->kernel && !found; i++) {
            const size_t row = y * layer->stride + i / layer->kernel - layer->padding;
            const size_t column = x * layer->stride + i % layer->kernel - layer->padding; /* below zero, sizes wrap around */
            if (row < call->from.height && column < call->from.width) {
                const size_t at = (row * call->from.width + column) * block + j;
                found = in[at] == out[j];
                to[at] += found ? gradient[j] : 0;
            }
        }
    }
}

INLINE void mean_window(const struct train_call *call, const float *gradient, float *to, size_t y, size_t x, size_t block) {
    const size_t rows = 2 * y + 1 < call->from.height ? 2 : 1, columns = 2 * x + 1 < call->from.width ? 2 : 1;
    const float share = 1.0F / (float)(rows * columns);
    for (size_t i = 0; i < rows * columns; i++) {
        float *at = to + ((2 * y + i / columns) * call->from.width + 2 * x + i % columns) * block;
        for (size_t j = 0; j < block; j++) {
            at[j] += share * gradient[j];
        }
    }
}

INLINE void blur_window(const struct train_call *call, const float *gradient, float *to, size_t y, size_t x, size_t block) {
    for (size_t i = 0; i < 9; i++) {
        const size_t row = mirrored(2 * y, i / 3, call->from.height), column = mirrored(2 * x, i % 3, call->from.width);
        const float share = (i / 3 == 1 ? 0.5F : 0.25F) * (i % 3 == 1 ? 0.5F : 0.25F);
        float *at = to + (row * call->from.width + column) * block;
        for (size_t j = 0; j < block; j++) {
            at[j] += share * gradient[j];
        }
    }
}

static void pool_blocks(const struct train_call *call, size_t first, size_t last) {
    const struct layout *from = &call->from, *to = &call->to;
    const size_t blocks = from->padded / from->block, block = from->block, pixels = from->height * from->width;
    for (size_t task = first; task < last; task++) {
        const size_t in = block_at(from, task / blocks, task % blocks), out = block_at(to, task / blocks, task % blocks);
        float *gradient = call->in_gradient + in;
        memset(gradient, 0, pixels * block * sizeof *gradient);
        for (size_t i = 0; i < to->height * to->width; i++) {
            const size_t y = i / to->width, x = i % to->width, at = out + i * block;
            switch (call->layer->kind) {
            case LAYER_MAX_POOL:
                max_window(call, call->input + in, call->output + at, call->out_gradient + at, gradient, y, x, block);
                break;
            case LAYER_BLUR: blur_window(call, call->out_gradient + at, gradient, y, x, block); break;
            default: mean_window(call, call->out_gradient + at, gradient, y, x, block);
            }
        }
    }
}

/* The mean of all pixels of a stripe. */
static void global_means(const struct train_call *call, size_t first, size_t last) {
    const size_t pixels = call->from.height * call->from.width;
    for (size_t task = first; task < last; task++) {
        const struct stripe stripe = stripe_of(&call->from, task);
        float sums[STRIPE] = {0};
        for (size_t i = 0; i < pixels; i++) {
            for (size_t j = 0; j < stripe.lanes; j++) {
                sums[j] += call->input[stripe.at + i * stripe.step + j];
            }
        }
        for (size_t j = 0; j < stripe.lanes && stripe.channel + j < call->to.channels; j++) {
            call->output[stripe.picture * call->to.channels + stripe.channel + j] = sums[j] / (float)pixels;
        }
    }
}

static void spread_means(const struct train_call *call, size_t first, size_t last) {
    const size_t pixels = call->from.height * call->from.width;
    for (size_t task = first; task < last; task++) {
        const struct stripe stripe = stripe_of(&call->from, task);
        float shares[STRIPE] = {0};
        for (size_t j = 0; j < stripe.lanes && stripe.channel + j < call->to.channels; j++) {
            shares[j] = call->out_gradient[stripe.picture * call->to.channels + stripe.channel + j] / (float)pixels;
        }
        for (size_t i = 0; i < pixels; i++) {
            for (size_t j = 0; j < stripe.lanes; j++) {
                call->in_gradient[stripe.at + i * stripe.step + j] = shares[j];
            }
        }
    }
}

/* ---- Tokens ---- */

/* A token of all pictures: the gradient of a parameter is the sum over them. */
static void add_up_token(const struct train_call *call, size_t token, float *gradient) {
    const size_t width = call->to.channels;
    memset(gradient, 0, width * sizeof *gradient);
    for (size_t picture = 0; picture < call->pictures; picture++) {
        const float *from = call->out_gradient + (picture * call->to.height + token) * width;
        for (size_t i = 0; i < width; i++) {
            gradient[i] += from[i];
        }
    }
}

static void tokens(const struct train_call *call, size_t first, size_t last) {
    const struct net_layer *layer = call->layer;
    const size_t width = call->to.channels, own = call->from.height, prefix = layer->prefix;
    const size_t classes = layer->parameters[FACTORS].values ? 1 : 0, positions = layer->parameters[BIAS].count / width;
    for (size_t token = first; token < last; token++) {
        const bool placed = token >= prefix || (token < classes ? positions > own : positions == call->to.height);
        const size_t position = token < prefix ? token : positions - own + token - prefix;
        if (call->gradients[BIAS] && placed) {
            add_up_token(call, token, call->gradients[BIAS] + position * width);
        }
        if (token < classes && call->gradients[FACTORS]) {
            add_up_token(call, token, call->gradients[FACTORS]);
        } else if (token >= classes && token < prefix && call->gradients[SECOND_FACTORS]) {
            add_up_token(call, token, call->gradients[SECOND_FACTORS] + (token - classes) * width);
        }
        for (size_t picture = 0; call->in_gradient && token >= prefix && picture < call->pictures; picture++) {
            memcpy(call->in_gradient + (picture * own + token - prefix) * width,
                   call->out_gradient + (picture * call->to.height + token) * width, width * sizeof(float));
        }
    }
}

static void learned_tokens(const struct train_call *call, size_t first, size_t last) {
    for (size_t token = first; call->gradients[FACTORS] && token < last; token++) {
        add_up_token(call, token, call->gradients[FACTORS] + token * call->to.channels);
    }
}

/* First token, mean and largest of the tokens. */
static void reduced_tokens(const struct train_call *call, size_t first, size_t last) {
    const size_t width = call->to.channels, count = call->from.height, prefix = call->layer->prefix;
    for (size_t picture = first; picture < last; picture++) {
        const float *gradient = call->out_gradient + picture * width, *in = call->input + picture * count * width;
        const float *out = call->output + picture * width;
        float *to = call->in_gradient + picture * count * width;
        memset(to, 0, count * width * sizeof *to);
        if (call->layer->kind == LAYER_FIRST_TOKEN) {
            memcpy(to, gradient, width * sizeof *to);
        } else if (call->layer->kind == LAYER_TOKEN_MEAN) {
            for (size_t i = prefix * width; i < count * width; i++) {
                to[i] = gradient[i % width] / (float)(count - prefix);
            }
        } else {
            for (size_t c = 0; c < width; c++) {
                size_t token = prefix;
                while (token + 1 < count && in[token * width + c] != out[c]) {
                    token++;
                }
                to[token * width + c] = gradient[c];
            }
        }
    }
}

static void joins(const struct train_call *call, size_t first, size_t last) {
    const size_t left = call->from.channels, right = call->to.channels - left;
    for (size_t picture = first; picture < last; picture++) {
        const float *gradient = call->out_gradient + picture * call->to.channels;
        if (call->in_gradient) {
            memcpy(call->in_gradient + picture * left, gradient, left * sizeof *gradient);
        }
        if (call->second_gradient) {
            memcpy(call->second_gradient + picture * right, gradient + left, right * sizeof *gradient);
        }
    }
}

/* ---- Attention ---- */

/* Where the keys and the values of a head are, in the input or beside, and their gradients. */
struct keys {
    const float *keys, *contents;
    float *key_gradients, *content_gradients; /* NULL: not wanted */
    size_t count, stride, start;              /* start: the first column of their scores */
};

INLINE void clear_rows(float *rows, size_t count, size_t width, size_t stride) {
    for (size_t i = 0; rows && i < count; i++) {
        memset(rows + i * stride, 0, width * sizeof *rows);
    }
}

/* The gradients of scores, from shares and from G Vᵀ, which they replace. */
INLINE void score_gradients(size_t rows, size_t count, const float *shares, float *gradients) {
    for (size_t i = 0; i < rows; i++) {
        const float mean = product_of(count, shares + i * count, gradients + i * count);
        for (size_t j = 0; j < count; j++) {
            gradients[i * count + j] = shares[i * count + j] * (gradients[i * count + j] - mean);
        }
    }
}

/* A block of queries of a head. */
static void attention_rows(const struct train_call *call, const struct keys sets[2], const float *queries, float *query_gradients,
                           const float *out_gradient, size_t rows) {
    const size_t out_stride = call->to.channels, width = out_stride / call->layer->heads, stride = call->from.channels;
    const size_t count = sets[0].count + sets[1].count;
    const float scale = 1.0F / sqrtf((float)width);
    const struct train_products *products = call->products;
    float shares[ATTENTION_SCORES], gradients[ATTENTION_SCORES];
    for (size_t k = 0; k < 2; k++) {
        const struct keys *set = &sets[k];
        if (set->count) {
            products->multiply(false, true, rows, set->count, width, scale, queries, stride, set->keys, set->stride, 0,
                               shares + set->start, count);
            products->multiply(false, true, rows, set->count, width, 1, out_gradient, out_stride, set->contents, set->stride, 0,
                               gradients + set->start, count);
        }
    }
    for (size_t i = 0; i < rows; i++) {
        softmax(count, shares + i * count);
    }
    for (size_t k = 0; k < 2; k++) {
        const struct keys *set = &sets[k];
        if (set->count && set->content_gradients) {
            products->multiply(true, false, set->count, width, rows, 1, shares + set->start, count, out_gradient, out_stride, 1,
                               set->content_gradients, set->stride);
        }
    }
    score_gradients(rows, count, shares, gradients);
    for (size_t k = 0; k < 2; k++) {
        const struct keys *set = &sets[k];
        if (set->count && query_gradients) {
            products->multiply(false, false, rows, width, set->count, scale, gradients + set->start, count, set->keys, set->stride,
                               1, query_gradients, stride);
        }
        if (set->count && set->key_gradients) {
            products->multiply(true, false, set->count, width, rows, scale, gradients + set->start, count, queries, stride, 1,
                               set->key_gradients, set->stride);
        }
    }
}

static void attention_heads(const struct train_call *call, size_t first, size_t last) {
    const size_t heads = call->layer->heads, stride = call->from.channels, queries = call->to.height, all = call->to.channels;
    const size_t width = all / heads, own = stride == 3 * all ? call->from.height : 0,
                 beside = call->second ? call->beside.height : 0;
    const size_t most = ATTENTION_SCORES / (own + beside), beside_stride = call->beside.channels;
    for (size_t task = first; task < last; task++) {
        const size_t in = task / heads * call->from.height * stride + task % heads * width;
        const size_t second = task / heads * beside * beside_stride + task % heads * width;
        const float *out_gradient = call->out_gradient + task / heads * queries * all + task % heads * width;
        float *to = call->in_gradient ? call->in_gradient + in : NULL;
        float *to_second = beside && call->second_gradient ? call->second_gradient + second : NULL;
        struct keys sets[2] = {{.count = own, .stride = stride}, {.count = beside, .stride = beside_stride, .start = own}};
        if (own) {
            sets[0].keys = call->input + in + all;
            sets[0].contents = call->input + in + 2 * all;
            sets[0].key_gradients = to ? to + all : NULL;
            sets[0].content_gradients = to ? to + 2 * all : NULL;
        }
        if (beside) {
            sets[1].keys = call->second + second;
            sets[1].contents = call->second + second + all;
            sets[1].key_gradients = to_second;
            sets[1].content_gradients = to_second ? to_second + all : NULL;
        }
        clear_rows(to, queries, width, stride);
        for (size_t k = 0; k < 2; k++) {
            clear_rows(sets[k].key_gradients, sets[k].count, width, sets[k].stride);
            clear_rows(sets[k].content_gradients, sets[k].count, width, sets[k].stride);
        }
        for (size_t start = 0; start < queries; start += most) {
            attention_rows(call, sets, call->input + in + start * stride, to ? to + start * stride : NULL,
                           out_gradient + start * all, queries - start < most ? queries - start : most);
        }
    }
}

/* ---- Squeeze and excite ---- */

/* What is kept of a picture from one loop to the next: means, scales, the gradients of what the sigmoid reads, what the second map
 * reads, and its gradients before the ReLU. */
struct squeeze {
    float *means, *scales, *scale_gradients, *hidden, *hidden_gradients;
};

INLINE struct squeeze squeeze_of(const struct train_call *call, size_t picture) {
    const size_t channels = call->from.padded, hidden = call->layer->hidden;
    float *start = call->sums + picture * (3 * channels + 2 * hidden);
    return (struct squeeze){start, start + channels, start + 2 * channels, start + 3 * channels, start + 3 * channels + hidden};
}

/* The means of the input, and Σ g · x, of a stripe. */
INLINE void squeeze_stripe(size_t lanes, const struct train_call *call, const struct stripe *stripe,
                           const struct squeeze *squeeze) {
    const size_t pixels = call->from.height * call->from.width;
    float sums[STRIPE] = {0}, products[STRIPE] = {0};
    for (size_t i = 0; i < pixels; i++) {
        for (size_t j = 0; j < lanes; j++) {
            const size_t at = stripe->at + i * stripe->step + j;
            sums[j] += call->input[at];
            products[j] += call->input[at] * call->out_gradient[at];
        }
    }
    for (size_t j = 0; j < lanes; j++) {
        squeeze->means[stripe->channel + j] = sums[j] / (float)pixels;
        squeeze->scale_gradients[stripe->channel + j] = products[j];
    }
}

static void excite(const struct train_call *call, const struct squeeze *squeeze) {
    const struct net_layer *layer = call->layer;
    const size_t channels = call->from.channels, hidden = layer->hidden;
    const float *factors = layer->parameters[FACTORS].values, *second = layer->parameters[SECOND_FACTORS].values;
    for (size_t h = 0; h < hidden; h++) {
        const float sum = layer->parameters[BIAS].values[h] + product_of(channels, factors + h * channels, squeeze->means);
        squeeze->hidden[h] = sum > 0 ? sum : 0;
        squeeze->hidden_gradients[h] = 0;
    }
    for (size_t c = 0; c < call->from.padded; c++) {
        const bool real = c < channels;
        const float sum =
            real ? layer->parameters[SECOND_BIAS].values[c] + product_of(hidden, second + c * hidden, squeeze->hidden) : 0;
        squeeze->scales[c] = 1.0F / (1.0F + exponential(-sum));
        squeeze->scale_gradients[c] *= real ? squeeze->scales[c] * (1.0F - squeeze->scales[c]) : 0;
        for (size_t h = 0; real && h < hidden; h++) {
            squeeze->hidden_gradients[h] += squeeze->hidden[h] > 0 ? squeeze->scale_gradients[c] * second[c * hidden + h] : 0;
        }
    }
}

INLINE void excite_stripe(size_t lanes, const struct train_call *call, const struct stripe *stripe, const struct squeeze *squeeze) {
    const size_t pixels = call->from.height * call->from.width, channels = call->from.channels;
    const float *factors = call->layer->parameters[FACTORS].values;
    float scales[STRIPE], means[STRIPE] = {0};
    for (size_t j = 0; j < lanes; j++) {
        scales[j] = squeeze->scales[stripe->channel + j];
        for (size_t h = 0; stripe->channel + j < channels && h < call->layer->hidden; h++) {
            means[j] += squeeze->hidden_gradients[h] * factors[h * channels + stripe->channel + j];
        }
        means[j] /= (float)pixels;
    }
    for (size_t i = 0; i < pixels; i++) {
        for (size_t j = 0; j < lanes; j++) {
            const size_t at = stripe->at + i * stripe->step + j;
            call->in_gradient[at] = call->out_gradient[at] * scales[j] + means[j];
        }
    }
}

static void squeeze_pictures(const struct train_call *call, size_t first, size_t last) {
    const size_t stripes = call->from.padded / call->from.block * ((call->from.block + STRIPE - 1) / STRIPE);
    for (size_t picture = first; picture < last; picture++) {
        const struct squeeze squeeze = squeeze_of(call, picture);
        for (size_t i = 0; i < stripes; i++) {
            const struct stripe stripe = stripe_of(&call->from, picture * stripes + i);
            FOR_LANES(stripe.lanes, squeeze_stripe, call, &stripe, &squeeze);
        }
        excite(call, &squeeze);
        for (size_t i = 0; call->in_gradient && i < stripes; i++) {
            const struct stripe stripe = stripe_of(&call->from, picture * stripes + i);
            FOR_LANES(stripe.lanes, excite_stripe, call, &stripe, &squeeze);
        }
    }
}

/* Adds up share · numbers over pictures. */
INLINE void excite_gradient(float share, const float *numbers, size_t count, float *gradient) {
    for (size_t i = 0; gradient && i < count; i++) {
        gradient[i] += share * numbers[i];
    }
}

/* A row of the second map for each channel, or of the first for each hidden number. */
static void excite_row(const struct train_call *call, size_t row, bool second) {
    const size_t count = second ? call->layer->hidden : call->from.channels;
    float *factors = call->gradients[second ? SECOND_FACTORS : FACTORS], *bias = call->gradients[second ? SECOND_BIAS : BIAS];
    float sum = 0;
    factors = factors ? factors + row * count : NULL;
    clear_rows(factors, 1, count, count);
    for (size_t picture = 0; picture < call->pictures; picture++) {
        const struct squeeze squeeze = squeeze_of(call, picture);
        const float share = (second ? squeeze.scale_gradients : squeeze.hidden_gradients)[row];
        excite_gradient(share, second ? squeeze.hidden : squeeze.means, count, factors);
        sum += share;
    }
    if (bias) {
        bias[row] = sum;
    }
}

static void excite_channels(const struct train_call *call, size_t first, size_t last) {
    for (size_t c = first; c < last; c++) {
        excite_row(call, c, true);
    }
}

static void excite_hidden(const struct train_call *call, size_t first, size_t last) {
    for (size_t h = first; h < last; h++) {
        excite_row(call, h, false);
    }
}

/* ---- Steps ---- */

static void add_numbers(const float *from, float *to, size_t first, size_t last) {
    for (size_t i = first; i < last; i++) {
        to[i] += from[i];
    }
}

INLINE void adam_numbers(const struct step_numbers *numbers, bool decoupled, const float *restrict gradient, float *restrict values,
                         float *restrict moment, float *restrict square, size_t first, size_t last) {
    const float rate = numbers->rate * numbers->mean_share, keep = decoupled ? 1.0F - numbers->rate * numbers->decay : 1.0F;
    const float decay = decoupled ? 0 : numbers->decay;
    for (size_t i = first; i < last; i++) {
        const float g = gradient[i] * numbers->scale + decay * values[i];
        const float m = moment[i] + numbers->momentum_rest * (g - moment[i]);
        const float v = square[i] + numbers->square_rest * (g * g - square[i]);
        moment[i] = m;
        square[i] = v;
        values[i] = values[i] * keep - rate * m / (sqrtf(v) * numbers->square_share + numbers->epsilon);
    }
}

static void step_numbers(const struct step_numbers *numbers, const float *restrict gradient, float *restrict values,
                         float *restrict moment, float *restrict square, size_t first, size_t last) {
    if (numbers->optimiser == OPTIMISER_SGD) {
        for (size_t i = first; i < last; i++) {
            moment[i] = numbers->momentum * moment[i] + gradient[i] * numbers->scale + numbers->decay * values[i];
            values[i] -= numbers->rate * moment[i];
        }
    } else if (numbers->optimiser == OPTIMISER_ADAM) {
        adam_numbers(numbers, false, gradient, values, moment, square, first, last);
    } else {
        adam_numbers(numbers, true, gradient, values, moment, square, first, last);
    }
}

static double square_of(const float *numbers, size_t first, size_t last) {
    double parts[LANES] = {0}, sum = 0;
    for (size_t i = first; i < last; i += LANES) {
        const size_t lanes = last - i < LANES ? last - i : LANES;
        for (size_t j = 0; j < lanes; j++) {
            parts[j] += (double)numbers[i + j] * (double)numbers[i + j];
        }
    }
    for (size_t j = 0; j < LANES; j++) {
        sum += parts[j];
    }
    return sum;
}

#define AFFINE_FORWARD                                                                                                             \
    {                                                                                                                              \
        {EACH_INPUT_STRIPE, measure_pictures}, {EACH_STRIPE, settle_channels}, {                                                   \
            EACH_OUTPUT_STRIPE, apply_pictures                                                                                     \
        }                                                                                                                          \
    }
#define AFFINE_BACKWARD                                                                                                            \
    {                                                                                                                              \
        {EACH_OUTPUT_STRIPE, gather_pictures}, {EACH_STRIPE, settle_gradients}, {                                                  \
            EACH_OUTPUT_STRIPE, spread_pictures                                                                                    \
        }                                                                                                                          \
    }

const struct train_kernels KERNELS = {
    .name = KERNELS_NAME,
    .forward = {[LAYER_BATCH_NORM] = AFFINE_FORWARD,
                [LAYER_SCALE] = AFFINE_FORWARD,
                [LAYER_GLOBAL_MEAN] = {{EACH_INPUT_STRIPE, global_means}}},
    .backward = {[LAYER_BATCH_NORM] = AFFINE_BACKWARD,
                 [LAYER_SCALE] = AFFINE_BACKWARD,
                 [LAYER_LINEAR] = {{EACH_OUTPUT_STRIPE, add_up_pictures}, {EACH_CHANNEL, settle_bias}},
                 [LAYER_NORM] = {{EACH_PART, norm_parts}, {EACH_CHANNEL, norm_gradients}},
                 [LAYER_ACTIVATION] = {{EACH_NUMBER, activation_numbers}},
                 [LAYER_MAX_POOL] = {{EACH_INPUT_BLOCK, pool_blocks}},
                 [LAYER_AVERAGE_POOL] = {{EACH_INPUT_BLOCK, pool_blocks}},
                 [LAYER_BLUR] = {{EACH_INPUT_BLOCK, pool_blocks}},
                 [LAYER_GLOBAL_MEAN] = {{EACH_INPUT_STRIPE, spread_means}},
                 [LAYER_TOKENS] = {{EACH_TOKEN, tokens}},
                 [LAYER_LEARNED] = {{EACH_TOKEN, learned_tokens}},
                 [LAYER_FIRST_TOKEN] = {{EACH_PICTURE, reduced_tokens}},
                 [LAYER_TOKEN_MEAN] = {{EACH_PICTURE, reduced_tokens}},
                 [LAYER_TOKEN_MAX] = {{EACH_PICTURE, reduced_tokens}},
                 [LAYER_JOIN] = {{EACH_PICTURE, joins}},
                 [LAYER_ATTENTION] = {{EACH_HEAD, attention_heads}},
                 [LAYER_SQUEEZE_EXCITE] = {{EACH_PICTURE, squeeze_pictures},
                                           {EACH_CHANNEL, excite_channels},
                                           {EACH_HIDDEN, excite_hidden}}},
    .add = add_numbers,
    .step = step_numbers,
    .square = square_of};
