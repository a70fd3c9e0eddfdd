/* The loops of training, included by one file per kind of processor. They are written so that compilers vectorise them.
 *
 * Norms and scales: y = gain · n + b with n = (x − mean) · scale, where mean and scale are numbers of the channel. With g the
 * gradient of y, d b = Σ g and d gain = Σ g · n. If mean and scale are those of the batch,
 *     d x = gain · scale · (g − Σ g / count − n · Σ g · n / count),
 * otherwise the sums are left out. The mean and the squares about it are found for each picture, and then put together: with m the
 * mean of all and mᵢ of a part, Σ (x − m)² = Σᵢ (Σ (x − mᵢ)² + nᵢ (mᵢ − m)²). */
#include "net/cpu/loops.h"
#include "net/cpu/train_kernels.h"

#include <string.h>

enum { TILE = 256 }; /* pixels of a stripe that are measured at a time: they stay in the first caches */

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

#include "net/cpu/train_mixing_body.h"
#include "net/cpu/train_prompt_body.h"

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
                [LAYER_GLOBAL_MEAN] = {{EACH_INPUT_STRIPE, global_means}},
                [LAYER_PICK] = {{EACH_PICTURE, picked_tokens}}},
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
                 [LAYER_SLICE] = {{EACH_PICTURE, slices}},
                 [LAYER_SPLIT] = {{EACH_PICTURE, split_tokens}},
                 [LAYER_UNIT] = {{EACH_PICTURE, unit_lengths}},
                 [LAYER_COSINES] = {{EACH_CHANNEL, cosine_parameters}, {EACH_PICTURE, cosine_inputs}},
                 [LAYER_PICK] = {{EACH_CHANNEL, picked_parameters}, {EACH_PICTURE, picking_scores}},
                 [LAYER_ATTENTION] = {{EACH_HEAD, attention_heads}},
                 [LAYER_SQUEEZE_EXCITE] = {{EACH_PICTURE, squeeze_pictures},
                                           {EACH_CHANNEL, excite_channels},
                                           {EACH_HIDDEN, excite_hidden}}},
    .add = add_numbers,
    .step = step_numbers,
    .square = square_of};
