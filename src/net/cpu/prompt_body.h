/* The loops of what prompts need: a part of kernels_body.h, which includes it. */
#include "net/pick.h"

static void split_tokens(const struct kernel_call *call, size_t first, size_t last) {
    const size_t size = layout_size(&call->to);
    memcpy(call->output + first * size, call->input + first * size, (last - first) * size * sizeof(float));
}

static void unit_lengths(const struct kernel_call *call, size_t first, size_t last) {
    const size_t width = call->to.channels, tokens = call->to.height * call->to.width;
    for (size_t token = first * tokens; token < last * tokens; token++) {
        const float *in = call->input + token * width;
        float *out = call->output + token * width;
        const float length = length_of(width, in);
        for (size_t i = 0; i < width; i++) {
            out[i] = in[i] / length;
        }
    }
}

static void cosines_with_keys(const struct kernel_call *call, size_t first, size_t last) {
    const size_t width = call->from.channels, count = call->to.channels;
    const float *keys = call->layer->parameters[FACTORS].values, *masks = call->layer->parameters[SECOND_FACTORS].values;
    for (size_t picture = first; picture < last; picture++) {
        for (size_t k = 0; k < count; k++) {
            call->output[picture * count + k] =
                cosine_of(width, call->input + picture * width, masks ? masks + k * width : NULL, keys + k * width).cosine;
        }
    }
}

static void picked_tokens(const struct kernel_call *call, size_t first, size_t last) {
    const size_t count = call->from.channels, picks = call->layer->picks, to = layout_size(&call->to), each = to / picks;
    size_t picked[PICK_GROUPS];
    for (size_t picture = first; picture < last; picture++) {
        pick_highest(call->input + picture * count, count, picks, picked);
        for (size_t i = 0; i < picks; i++) {
            memcpy(call->output + picture * to + i * each, call->layer->parameters[FACTORS].values + picked[i] * each,
                   each * sizeof(float));
        }
    }
}
