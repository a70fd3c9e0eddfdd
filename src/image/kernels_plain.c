/* The pixel loops in plain C: for other processors, and for what is too short for the vectors of kernels_body.h. */
#include "image/resize.h"

enum { CHANNELS = 3 };

static uint8_t to_byte(int32_t sum) {
    const int32_t value = (sum + (1 << (WEIGHT_BITS - 1))) >> WEIGHT_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void across_row(const struct axis *axis, const uint8_t *from, uint8_t *to) {
    const size_t taps = axis->taps < axis->input ? axis->taps : axis->input;
    for (size_t i = 0; i < axis->output; i++) {
        const uint8_t *pixel = from + (size_t)CHANNELS * axis->first[i];
        const int32_t *weight = axis->weight + i * axis->taps;
        int32_t red = 0, green = 0, blue = 0;
        for (size_t j = 0; j < taps; j++, pixel += CHANNELS) {
            red += weight[j] * pixel[0];
            green += weight[j] * pixel[1];
            blue += weight[j] * pixel[2];
        }
        to[CHANNELS * i] = to_byte(red);
        to[CHANNELS * i + 1] = to_byte(green);
        to[CHANNELS * i + 2] = to_byte(blue);
    }
}

static void across(const struct axis *axis, const uint8_t *const from[2], uint8_t *const to[2]) {
    across_row(axis, from[0], to[0]);
    if (to[1] != to[0]) {
        across_row(axis, from[1], to[1]);
    }
}

/* In pieces whose sums fit the first-level cache. */
static void down(const struct axis *axis, size_t index, const uint8_t *from, size_t count, uint8_t *to) {
    enum { PIECE = 512 };
    const size_t taps = axis->taps < axis->input ? axis->taps : axis->input;
    const int32_t *weight = axis->weight + index * axis->taps;
    int32_t sums[PIECE];
    for (size_t start = 0; start < count; start += PIECE) {
        const size_t size = count - start < PIECE ? count - start : PIECE;
        const uint8_t *row = from + axis->first[index] * count + start;
        for (size_t x = 0; x < size; x++) {
            sums[x] = 0;
        }
        for (size_t j = 0; j < taps; j++, row += count) {
            for (size_t x = 0; x < size; x++) {
                sums[x] += weight[j] * row[x];
            }
        }
        for (size_t x = 0; x < size; x++) {
            to[start + x] = to_byte(sums[x]);
        }
    }
}

static void planes(const uint8_t *pixels, size_t count, const float scale[3], const float offset[3], float *const to[3]) {
    for (size_t i = 0; i < count; i++) {
        for (size_t c = 0; c < CHANNELS; c++) {
            to[c][i] = (float)pixels[CHANNELS * i + c] * scale[c] + offset[c];
        }
    }
}

const kernel_table plain_kernels = {.across = across, .down = down, .planes = planes};
