/* Sums in the file of a state: they can be as large as half the memory, so they go between the back end and the file strip by
 * strip. */
#include "method/state.h"

#include <stdio.h>
#include <string.h>

l3a_status state_put_sums(l3a_state *state, const char *name, const struct sums *sums) {
    l3a_context *context = state->context;
    l3a_status status = L3A_OK;
    struct state_sums made = {.sums = sums};
    TRY(allocate(context, strip_numbers(sums->dim), sizeof *made.strip, &made.strip));
    snprintf(made.name, sizeof made.name, "%s%s", sums_prefix, name);
    TRY(grow_array(context, &state->sums, &state->sums_capacity, state->sums_count + 1, sizeof *state->sums));
    state->sums[state->sums_count++] = made;
    made.strip = NULL;
done:
    release(context, made.strip);
    return status;
}

/* Numbers are requested in order. */
static l3a_status fill_from_sums(void *argument, uint64_t offset, void *bytes, size_t count) {
    struct state_sums *source = argument;
    l3a_status status = L3A_OK;
    double *to = bytes;
    for (uint64_t next = offset / sizeof *to, end = next + count / sizeof *to; next < end;) {
        if (next == triangle_numbers(0, source->first + source->count)) {
            source->first += source->count;
            source->count = strip_rows(source->sums->dim, source->first);
            TRY(sums_read(source->sums, KEPT, source->first, source->count, source->strip));
        }
        const uint64_t begin = triangle_numbers(0, source->first), stop = triangle_numbers(0, source->first + source->count);
        const size_t copied = (size_t)((stop < end ? stop : end) - next);
        memcpy(to, source->strip + (next - begin), copied * sizeof *to);
        to += copied;
        next += copied;
    }
done:
    return status;
}

tensor_source state_sums_source(struct state_sums *sums) {
    return (tensor_source){.name = sums->name,
                           .type = TENSOR_F64,
                           .rank = 1,
                           .shape = {triangle_numbers(0, sums->sums->dim)},
                           .fill = fill_from_sums,
                           .argument = sums};
}

l3a_status state_get_sums(const l3a_state *state, const char *name, struct sums *sums) {
    l3a_context *context = state->context;
    const size_t d = sums->dim;
    const uint64_t numbers = triangle_numbers(0, d);
    l3a_status status = L3A_OK;
    const struct tensor *tensor;
    char text[STATE_NAME];
    double *strip = NULL;
    snprintf(text, sizeof text, "%s%s", sums_prefix, name);
    TRY(safetensors_expect(&state->file, text, 1, &numbers, &tensor));
    if (tensor->type != TENSOR_F64) {
        status = state_fail(state, "sums must be F64");
        goto done;
    }
    TRY(allocate(context, strip_numbers(d), sizeof *strip, &strip));
    for (size_t first = 0, count; first < d; first += count) {
        count = strip_rows(d, first);
        TRY(input_read(&state->file.input, tensor->offset + triangle_numbers(0, first) * sizeof *strip, strip,
                       (size_t)triangle_numbers(first, count) * sizeof *strip));
        TRY(sums_write(sums, KEPT, first, count, strip));
    }
done:
    release(context, strip);
    return status;
}
