/* What happens to a picture of W x H pixels. Every u is uniform in [0, 1) and the next of its stream.
 *
 *   the part     With the share a = least + (most - least) u and the ratio r = ratio^(2u - 1), or W / H, it is √(a W H r) pixels
 *                wide and √(a W H / r) high, both rounded. One that has no pixels or lies in no place of the picture is drawn
 *                again. After ten of them, it is the largest part in the middle of the picture whose ratio is allowed. Each place
 *                is equally likely. These are the rules of torchvision's RandomResizedCrop.
 *   mirrored     if u < 1/2
 *   the filled   It has ⌊cutout w + 1/2⌋ columns of the w that the resized picture has, and rows accordingly. Its centre is any
 *   rectangle    pixel, equally likely, and what lies outside is cut off. Its colour is any of 2^24.
 *   RandAugment  as rand_augment.h says
 *
 * With the picture's own ratio, each share fits, so the shares are uniform. With others, large shares fit less often than small
 * ones, as in torchvision. */
#include "image/augment.h"

#include "base/stream.h"

#include <math.h>
#include <string.h>

enum { CHANNELS = 3, TRIES = 10 };
enum { STREAM_PART, STREAM_FLIP, STREAM_CUTOUT, STREAM_RANDOM };

l3a_status augmentation_check(l3a_context *context, const struct augmentation *augmentation) {
    const double least = augmentation->least, most = augmentation->most, ratio = augmentation->ratio, cutout = augmentation->cutout;
    l3a_status status = L3A_OK;
    FAIL_IF(!(least >= 0 && least <= most && most <= 1), context, L3A_ERROR_ARGUMENT,
            "use shares of the area from 0 to 1, such as 0.5 and 1, or 0 and 0 for the whole picture",
            "random parts cannot have from %g to %g of a picture", least, most);
    FAIL_IF(!(ratio == 0 || (ratio >= 1 && isfinite(ratio))), context, L3A_ERROR_ARGUMENT,
            "use a number from 1 on, such as 1.333, or 0 for the shape of the picture",
            "the sides of random parts cannot have ratios up to %g", ratio);
    FAIL_IF(!(cutout >= 0 && cutout <= 1), context, L3A_ERROR_ARGUMENT, "use a share of the side from 0 to 1, such as 0.5",
            "a square of %g of the picture's side cannot be filled", cutout);
done:
    return status;
}

bool augmentation_acts(const struct augmentation *augmentation) {
    return augmentation->most > 0 || augmentation->flip || augmentation->cutout > 0 || augmentation->rand_augment;
}

uint64_t augmentation_seed(uint64_t seed, size_t row) {
    return random_bits(seed, row);
}

static double rounded(double value) {
    return floor(value + 0.5);
}

/* The largest part in the middle whose ratio is allowed. */
static struct view_box middle(const struct augmentation *augmentation, size_t width, size_t height) {
    const double ratio = augmentation->ratio, w = (double)width, h = (double)height;
    struct view_box part = {.width = width, .height = height};
    if (ratio > 0) {
        part.width = w > h * ratio ? (size_t)rounded(h * ratio) : width;
        part.height = h > w * ratio ? (size_t)rounded(w * ratio) : height;
    }
    part.left = (width - part.width) / 2;
    part.top = (height - part.height) / 2;
    return part;
}

static struct view_box draw_part(const struct augmentation *augmentation, struct stream stream, size_t width, size_t height) {
    const double w = (double)width, h = (double)height;
    for (int i = 0; i < TRIES; i++) {
        const double share = augmentation->least + (augmentation->most - augmentation->least) * stream_uniform(&stream);
        const double power = 2 * stream_uniform(&stream) - 1;
        const double ratio = augmentation->ratio > 0 ? pow(augmentation->ratio, power) : w / h;
        const double columns = rounded(sqrt(share * w * h * ratio)), rows = rounded(sqrt(share * w * h / ratio));
        if (columns >= 1 && columns <= w && rows >= 1 && rows <= h) {
            struct view_box part = {.width = (size_t)columns, .height = (size_t)rows};
            part.left = stream_below(&stream, width - part.width + 1);
            part.top = stream_below(&stream, height - part.height + 1);
            return part;
        }
    }
    return middle(augmentation, width, height);
}

/* One side of the filled rectangle: `length` pixels around `centre`, without those outside of the picture. */
static void clip(size_t centre, size_t length, size_t side, size_t *start, size_t *count) {
    const size_t before = length / 2, end = centre + (length - before);
    *start = centre > before ? centre - before : 0;
    *count = (end < side ? end : side) - *start;
}

static void draw_filled(double share, struct stream stream, size_t width, size_t height, struct changes *changes) {
    const size_t columns = (size_t)rounded(share * (double)width), rows = (size_t)rounded(share * (double)height);
    const size_t x = stream_below(&stream, width), y = stream_below(&stream, height);
    clip(x, columns, width, &changes->filled.left, &changes->filled.width);
    clip(y, rows, height, &changes->filled.top, &changes->filled.height);
    for (size_t c = 0; c < CHANNELS; c++) {
        changes->colour[c] = (uint8_t)stream_below(&stream, 256);
    }
}

static struct stream stream_of(uint64_t seed, uint64_t kind) {
    return (struct stream){.seed = random_bits(seed, kind)};
}

struct changes augmentation_draw(const struct augmentation *augmentation, uint64_t seed, size_t width, size_t height,
                                 size_t to_width, size_t to_height) {
    struct changes changes = {.part = {.width = width, .height = height}};
    if (augmentation->most > 0) {
        changes.part = draw_part(augmentation, stream_of(seed, STREAM_PART), width, height);
    }
    if (augmentation->flip) {
        struct stream stream = stream_of(seed, STREAM_FLIP);
        changes.flipped = stream_uniform(&stream) < 0.5;
    }
    if (augmentation->cutout > 0) {
        draw_filled(augmentation->cutout, stream_of(seed, STREAM_CUTOUT), to_width, to_height, &changes);
    }
    if (augmentation->rand_augment) {
        rand_augment_draw(stream_of(seed, STREAM_RANDOM), changes.random);
    }
    return changes;
}

static void mirror(uint8_t *row, size_t width) {
    for (size_t left = 0, right = width - 1; left < right; left++, right--) {
        uint8_t pixel[CHANNELS];
        memcpy(pixel, row + CHANNELS * left, CHANNELS);
        memcpy(row + CHANNELS * left, row + CHANNELS * right, CHANNELS);
        memcpy(row + CHANNELS * right, pixel, CHANNELS);
    }
}

l3a_status changes_apply(l3a_context *context, const struct changes *changes, uint8_t *pixels, size_t width, size_t height) {
    const struct view_box filled = changes->filled;
    for (size_t y = 0; changes->flipped && y < height; y++) {
        mirror(pixels + CHANNELS * width * y, width);
    }
    for (size_t y = filled.top; y < filled.top + filled.height; y++) {
        uint8_t *const row = pixels + CHANNELS * (width * y + filled.left);
        for (size_t x = 0; x < filled.width; x++) {
            memcpy(row + CHANNELS * x, changes->colour, CHANNELS);
        }
    }
    return rand_augment_apply(context, changes->random, pixels, width, height);
}
