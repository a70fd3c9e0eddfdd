/* RandAugment (Cubuk et al., 2020): two changes of a picture, each one of 14, all equally likely, with a strength of 9 of 30. The
 * ranges of the strength are those of torchvision's RandAugment. Each change is that of Pillow, to the last byte:
 *
 *   identity
 *   shear x, y          transform(AFFINE, (1, ±0.09, 0, 0, 1, 0)), and with the other axis sheared: rows or columns move by 9 % of
 *                       their number
 *   translate x, y      by ±⌊0.3 · 150/331 · side⌋ pixels
 *   rotate              rotate(±9), around the middle
 *   brightness, colour, ImageEnhance's, by a factor of 1 ± 0.27
 *   contrast, sharpness
 *   posterize           posterize(7): the last bit becomes 0
 *   solarize            solarize(178.5): 255 − v for each v above
 *   autocontrast        autocontrast()
 *   equalize            equalize()
 *
 * Where a picture has moved away, it is black, and pixels are the nearest ones. */
#ifndef L3A_RAND_AUGMENT_H
#define L3A_RAND_AUGMENT_H

#include "base/memory.h"
#include "base/stream.h"

enum rand_operation {
    RAND_IDENTITY,
    RAND_SHEAR_X,
    RAND_SHEAR_Y,
    RAND_TRANSLATE_X,
    RAND_TRANSLATE_Y,
    RAND_ROTATE,
    RAND_BRIGHTNESS,
    RAND_COLOUR,
    RAND_CONTRAST,
    RAND_SHARPNESS,
    RAND_POSTERIZE,
    RAND_SOLARIZE,
    RAND_AUTOCONTRAST,
    RAND_EQUALIZE,
    RAND_OPERATIONS
};

enum { RAND_CHANGES = 2 };

struct rand_change {
    enum rand_operation operation;
    bool negative; /* the sign above, of those that have one */
};

/* Two numbers of the stream for each change: the operation, and then the sign, which is negative below one half. */
void rand_augment_draw(struct stream stream, struct rand_change changes[RAND_CHANGES]);
/* Changes pixels, RGB and row by row. */
l3a_status rand_augment_apply(l3a_context *context, const struct rand_change changes[RAND_CHANGES], uint8_t *pixels, size_t width,
                              size_t height);

#endif
