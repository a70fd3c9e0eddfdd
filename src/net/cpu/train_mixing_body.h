/* The loops of training for pools, tokens, attention, and squeeze and excite: a part of train_kernels_body.h, which includes it.
 *
 * attention: the shares P = softmax(Q Kᵀ / √width) are computed again. With G the gradient of P V,
 *     d V = Pᵀ G,   d S = P ∘ (G Vᵀ − rowsum(P ∘ G Vᵀ)),   d Q = d S K / √width,   d K = d Sᵀ Q / √width. */

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
    const size_t left = call->from.channels * call->from.height, all = call->to.channels * call->to.height, right = all - left;
    for (size_t picture = first; picture < last; picture++) {
        const float *gradient = call->out_gradient + picture * all;
        if (call->in_gradient) {
            memcpy(call->in_gradient + picture * left, gradient, left * sizeof *gradient);
        }
        if (call->second_gradient) {
            memcpy(call->second_gradient + picture * right, gradient + left, right * sizeof *gradient);
        }
    }
}

static void slices(const struct train_call *call, size_t first, size_t last) {
    const size_t start = call->layer->prefix * call->from.channels, all = layout_size(&call->from), own = layout_size(&call->to);
    for (size_t picture = first; picture < last; picture++) {
        float *to = call->in_gradient + picture * all;
        memset(to, 0, all * sizeof *to);
        memcpy(to + start, call->out_gradient + picture * own, own * sizeof *to);
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
    const size_t apart = call->layer->shared ? 0 : all; /* rows beside that are keys and values get both gradients */
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
            sets[1].contents = call->second + second + apart;
            sets[1].key_gradients = to_second;
            sets[1].content_gradients = to_second ? to_second + apart : NULL;
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
