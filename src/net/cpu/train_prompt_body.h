/* The loops of training for what prompts need: a part of train_kernels_body.h, which includes it. With g the gradient of the
 * output:
 *
 * unit tokens: y = x / |x|,   d x = (g − y (y · g)) / |x|.
 * cosines: z = m ∘ x, u = z / |z|, v = k / |k|, y = u · v;   d k = Σ g (u − y v) / |k| over pictures, and, with e = g (v − y u) /
 * |z|, d x = Σ m ∘ e over keys,   d m = Σ x ∘ e over pictures. */
#include "net/pick.h"

static void split_tokens(const struct train_call *call, size_t first, size_t last) {
    const size_t size = layout_size(&call->to);
    memcpy(call->in_gradient + first * size, call->out_gradient + first * size, (last - first) * size * sizeof(float));
}

static void unit_lengths(const struct train_call *call, size_t first, size_t last) {
    const size_t width = call->to.channels, tokens = call->to.height * call->to.width;
    for (size_t token = first * tokens; token < last * tokens; token++) {
        const float *in = call->input + token * width, *gradient = call->out_gradient + token * width;
        float *to = call->in_gradient + token * width;
        const float length = length_of(width, in), along = product_of(width, in, gradient) / (length * length);
        for (size_t i = 0; i < width; i++) {
            to[i] = (gradient[i] - in[i] * along) / length;
        }
    }
}

/* ---- Cosines ---- */

static const float *mask_of(const struct train_call *call, size_t key) {
    const float *masks = call->layer->parameters[SECOND_FACTORS].values;
    return masks ? masks + key * call->from.channels : NULL;
}

/* What one picture adds to the gradients of a key and of its mask. */
INLINE void add_cosine(size_t width, const float *x, const float *mask, const float *key, float gradient, float *of_key,
                       float *of_mask) {
    const struct cosine found = cosine_of(width, x, mask, key);
    for (size_t i = 0; i < width; i++) {
        const float u = (mask ? mask[i] * x[i] : x[i]) / found.length, v = key[i] / found.key_length;
        if (of_key) {
            of_key[i] += gradient * (u - found.cosine * v) / found.key_length;
        }
        if (of_mask) {
            of_mask[i] += gradient * x[i] * (v - found.cosine * u) / found.length;
        }
    }
}

static void cosine_parameters(const struct train_call *call, size_t first, size_t last) {
    const size_t width = call->from.channels, count = call->to.channels;
    for (size_t key = first; key < last; key++) {
        float *of_key = call->gradients[FACTORS] ? call->gradients[FACTORS] + key * width : NULL;
        float *of_mask = call->gradients[SECOND_FACTORS] ? call->gradients[SECOND_FACTORS] + key * width : NULL;
        clear_rows(of_key, 1, width, width);
        clear_rows(of_mask, 1, width, width);
        for (size_t picture = 0; picture < call->pictures; picture++) {
            add_cosine(width, call->input + picture * width, mask_of(call, key),
                       call->layer->parameters[FACTORS].values + key * width, call->out_gradient[picture * count + key], of_key,
                       of_mask);
        }
    }
}

static void cosine_inputs(const struct train_call *call, size_t first, size_t last) {
    const size_t width = call->from.channels, count = call->to.channels;
    for (size_t picture = first; call->in_gradient && picture < last; picture++) {
        const float *x = call->input + picture * width;
        float *to = call->in_gradient + picture * width;
        memset(to, 0, width * sizeof *to);
        for (size_t k = 0; k < count; k++) {
            const float *key = call->layer->parameters[FACTORS].values + k * width, *mask = mask_of(call, k);
            const struct cosine found = cosine_of(width, x, mask, key);
            const float share = call->out_gradient[picture * count + k] / found.length;
            for (size_t i = 0; i < width; i++) {
                const float factor = mask ? mask[i] : 1.0F, u = factor * x[i] / found.length;
                to[i] += factor * share * (key[i] / found.key_length - found.cosine * u);
            }
        }
    }
}

/* ---- Groups of tokens that are picked ---- */

static void pick_of(const struct train_call *call, size_t picture, size_t *picked) {
    const size_t count = call->from.channels, picks = call->layer->picks;
    if (call->layer->together && call->training) {
        pick_together(call->input, call->pictures, count, picks, picked);
    } else {
        pick_highest(call->input + picture * count, count, picks, picked);
    }
}

static void picked_tokens(const struct train_call *call, size_t first, size_t last) {
    const size_t to = layout_size(&call->to), each = to / call->layer->picks;
    size_t picked[PICK_GROUPS];
    for (size_t picture = first; picture < last; picture++) {
        pick_of(call, picture, picked);
        for (size_t i = 0; i < call->layer->picks; i++) {
            memcpy(call->output + picture * to + i * each, call->layer->parameters[FACTORS].values + picked[i] * each,
                   each * sizeof(float));
        }
    }
}

/* Channels [first, last) of all groups. */
static void picked_parameters(const struct train_call *call, size_t first, size_t last) {
    const size_t width = call->to.channels, tokens = call->to.height, length = tokens / call->layer->picks;
    float *gradients = call->gradients[FACTORS];
    size_t picked[PICK_GROUPS];
    if (!gradients) {
        return;
    }
    clear_rows(gradients + first, call->from.channels * length, last - first, width);
    for (size_t picture = 0; picture < call->pictures; picture++) {
        const float *from = call->out_gradient + picture * tokens * width;
        pick_of(call, picture, picked);
        for (size_t token = 0; token < tokens; token++) {
            float *to = gradients + (picked[token / length] * length + token % length) * width;
            for (size_t c = first; c < last; c++) {
                to[c] += from[token * width + c];
            }
        }
    }
}

static void picking_scores(const struct train_call *call, size_t first, size_t last) {
    const size_t count = call->from.channels;
    for (size_t i = first * count; call->in_gradient && i < last * count; i++) {
        call->in_gradient[i] = 0;
    }
}
