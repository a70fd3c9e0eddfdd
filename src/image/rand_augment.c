/* Pillow computes an affine map of the nearest pixels in 16.16 fixed point: the pixel at x of row y is that at ((a₂ + a₀ x + a₁ y)
 * >> 16, (a₅ + a₃ x + a₄ y) >> 16), where a₂ and a₅ are those of the middle of the first pixel. blend(a, b, f) is a + f (b − a), in
 * float32, cut off below 0 and above 255. */
#include "image/rand_augment.h"

#include <math.h>
#include <string.h>

enum { CHANNELS = 3, LEVELS = 256, KEPT_BITS = 0xFE };
static const double STRENGTH = 0.3, SHEAR = 0.3, TRANSLATE = 150.0 / 331, DEGREES = 30, FACTOR = 0.9, SOLARIZE = 255;

struct image {
    uint8_t *pixels, *before; /* before: room for a copy */
    size_t width, height;
};

void rand_augment_draw(struct stream stream, struct rand_change changes[RAND_CHANGES]) {
    for (size_t i = 0; i < RAND_CHANGES; i++) {
        changes[i].operation = (enum rand_operation)stream_below(&stream, RAND_OPERATIONS);
        changes[i].negative = stream_uniform(&stream) < 0.5;
    }
}

static size_t bytes_of(const struct image *image) {
    return CHANNELS * image->width * image->height;
}

/* ---- Where pixels come from ---- */

static int32_t fixed(double number) {
    return (int32_t)floor(number * 65536.0 + 0.5);
}

static void transform(const struct image *image, const double a[6]) {
    const int32_t step[] = {fixed(a[0]), fixed(a[3])}, down[] = {fixed(a[1]), fixed(a[4])};
    int32_t start[] = {fixed(a[2] + a[0] * 0.5 + a[1] * 0.5), fixed(a[5] + a[3] * 0.5 + a[4] * 0.5)};
    memcpy(image->before, image->pixels, bytes_of(image));
    for (size_t y = 0; y < image->height; y++) {
        int32_t at[] = {start[0], start[1]};
        for (size_t x = 0; x < image->width; x++) {
            const int32_t column = at[0] >> 16, row = at[1] >> 16;
            uint8_t *to = image->pixels + CHANNELS * (image->width * y + x);
            if (column >= 0 && (size_t)column < image->width && row >= 0 && (size_t)row < image->height) {
                memcpy(to, image->before + CHANNELS * (image->width * (size_t)row + (size_t)column), CHANNELS);
            } else {
                memset(to, 0, CHANNELS);
            }
            at[0] += step[0];
            at[1] += step[1];
        }
        start[0] += down[0];
        start[1] += down[1];
    }
}

static double rounded(double number) {
    return nearbyint(number * 1e15) / 1e15;
}

static void rotate(const struct image *image, double degrees) {
    const double angle = -degrees * acos(-1) / 180, cosine = rounded(cos(angle)), sine = rounded(sin(angle));
    const double x = (double)image->width / 2, y = (double)image->height / 2;
    transform(image, (const double[]){cosine, sine, x - cosine * x - sine * y, -sine, cosine, y + sine * x - cosine * y});
}

/* ---- Blends ---- */

/* Blends each number with what it is without the property that an enhancement changes: `without` has a number for each, or one for
 * each pixel, or one for all. */
static void enhance(const struct image *image, const uint8_t *without, size_t numbers, float factor) {
    float products[2 * LEVELS];
    for (int i = -LEVELS; i < LEVELS; i++) {
        products[i + LEVELS] = factor * (float)i;
    }
    const size_t bytes = bytes_of(image), each = bytes / numbers;
    for (size_t i = 0; i < bytes; i++) {
        const int base = without[i / each];
        const float blended = (float)base + products[image->pixels[i] - base + LEVELS];
        image->pixels[i] = blended <= 0 ? 0 : blended >= 255 ? 255 : (uint8_t)blended;
    }
}

static uint8_t grey(const uint8_t *pixel) {
    return (uint8_t)((pixel[0] * 19595U + pixel[1] * 38470U + pixel[2] * 7471U + 0x8000U) >> 16);
}

static void change_brightness(const struct image *image, float factor) {
    enhance(image, (const uint8_t[]){0}, 1, factor);
}

static void change_colour(const struct image *image, float factor) {
    const size_t pixels = image->width * image->height;
    for (size_t i = 0; i < pixels; i++) {
        image->before[i] = grey(image->pixels + CHANNELS * i);
    }
    enhance(image, image->before, pixels, factor);
}

static void change_contrast(const struct image *image, float factor) {
    const size_t pixels = image->width * image->height;
    uint64_t sum = 0;
    for (size_t i = 0; i < pixels; i++) {
        sum += grey(image->pixels + CHANNELS * i);
    }
    enhance(image, (const uint8_t[]){(uint8_t)((double)sum / (double)pixels + 0.5)}, 1, factor);
}

/* Without sharpness, an inner pixel is the mean of itself, with weight 5, and its eight neighbours. 13 weights: never halfway. */
static void change_sharpness(const struct image *image, float factor) {
    const size_t stride = CHANNELS * image->width;
    memcpy(image->before, image->pixels, bytes_of(image));
    for (size_t y = 1; y + 1 < image->height; y++) {
        for (size_t i = CHANNELS; i + CHANNELS < stride; i++) {
            const uint8_t *at = image->pixels + y * stride + i;
            unsigned sum = 4U * *at;
            for (size_t j = 0; j < 9; j++) {
                sum += at[(j / 3) * stride - stride + (j % 3) * CHANNELS - CHANNELS];
            }
            image->before[y * stride + i] = (uint8_t)((2 * sum + 13) / 26);
        }
    }
    enhance(image, image->before, bytes_of(image), factor);
}

/* ---- Levels of each channel ---- */

struct levels {
    uint64_t counts[LEVELS];
    uint8_t to[LEVELS];
};

static void keep_levels(struct levels *levels) {
    for (size_t i = 0; i < LEVELS; i++) {
        levels->to[i] = (uint8_t)i;
    }
}

static void stretch_levels(struct levels *levels) {
    size_t low = 0, high = LEVELS - 1;
    while (!levels->counts[low]) {
        low++;
    }
    while (!levels->counts[high]) {
        high--;
    }
    if (high <= low) {
        return;
    }
    const double scale = 255.0 / (double)(high - low), offset = -(double)low * scale;
    for (size_t i = 0; i < LEVELS; i++) {
        const double scaled = (double)i * scale;
        const double moved = scaled + offset;
        levels->to[i] = moved < 0 ? 0 : moved > 255 ? 255 : (uint8_t)moved;
    }
}

static void equalize_levels(struct levels *levels) {
    uint64_t all = 0, last = 0;
    for (size_t i = 0; i < LEVELS; i++) {
        all += levels->counts[i];
        last = levels->counts[i] ? levels->counts[i] : last;
    }
    const uint64_t step = (all - last) / 255;
    uint64_t sum = step / 2;
    for (size_t i = 0; step && i < LEVELS; i++) {
        levels->to[i] = sum / step < LEVELS ? (uint8_t)(sum / step) : LEVELS - 1;
        sum += levels->counts[i];
    }
}

static void change_levels(const struct image *image, enum rand_operation operation) {
    const size_t bytes = bytes_of(image);
    const double solarized = SOLARIZE * (1 - STRENGTH);
    for (size_t channel = 0; channel < CHANNELS; channel++) {
        struct levels levels = {{0}, {0}};
        keep_levels(&levels);
        for (size_t i = channel; i < bytes; i += CHANNELS) {
            levels.counts[image->pixels[i]]++;
        }
        if (operation == RAND_AUTOCONTRAST) {
            stretch_levels(&levels);
        } else if (operation == RAND_EQUALIZE) {
            equalize_levels(&levels);
        }
        for (size_t i = 0; i < LEVELS; i++) {
            if (operation == RAND_POSTERIZE) {
                levels.to[i] = (uint8_t)(i & KEPT_BITS);
            } else if (operation == RAND_SOLARIZE && (double)i >= solarized) {
                levels.to[i] = (uint8_t)(LEVELS - 1 - i);
            }
        }
        for (size_t i = channel; i < bytes; i += CHANNELS) {
            image->pixels[i] = levels.to[image->pixels[i]];
        }
    }
}

/* ---- All of them ---- */

static double pixels_moved(size_t side) {
    return floor(STRENGTH * TRANSLATE * (double)side);
}

static void change(const struct image *image, const struct rand_change *what) {
    const double sign = what->negative ? -1 : 1, shear = sign * STRENGTH * SHEAR;
    const float factor = (float)(1 + sign * STRENGTH * FACTOR);
    switch (what->operation) {
    case RAND_IDENTITY: break;
    case RAND_SHEAR_X: transform(image, (const double[]){1, shear, 0, 0, 1, 0}); break;
    case RAND_SHEAR_Y: transform(image, (const double[]){1, 0, 0, shear, 1, 0}); break;
    case RAND_TRANSLATE_X: transform(image, (const double[]){1, 0, sign * pixels_moved(image->width), 0, 1, 0}); break;
    case RAND_TRANSLATE_Y: transform(image, (const double[]){1, 0, 0, 0, 1, sign * pixels_moved(image->height)}); break;
    case RAND_ROTATE: rotate(image, sign * STRENGTH * DEGREES); break;
    case RAND_BRIGHTNESS: change_brightness(image, factor); break;
    case RAND_COLOUR: change_colour(image, factor); break;
    case RAND_CONTRAST: change_contrast(image, factor); break;
    case RAND_SHARPNESS: change_sharpness(image, factor); break;
    default: change_levels(image, what->operation);
    }
}

l3a_status rand_augment_apply(l3a_context *context, const struct rand_change changes[RAND_CHANGES], uint8_t *pixels, size_t width,
                              size_t height) {
    struct image image = {.pixels = pixels, .width = width, .height = height};
    l3a_status status = L3A_OK;
    bool same = true;
    for (size_t i = 0; i < RAND_CHANGES; i++) {
        same = same && changes[i].operation == RAND_IDENTITY;
    }
    TRY(allocate(context, same ? 0 : bytes_of(&image), 1, &image.before));
    for (size_t i = 0; i < RAND_CHANGES; i++) {
        change(&image, &changes[i]);
    }
done:
    release(context, image.before);
    return status;
}
