/* EXIF orientation: reads it from the first directory, and turns a picture upright. */
#include "base/exif.h"
#include "image/picture.h"

#include <string.h>

enum { CHANNELS = 3 };

int exif_orientation(const uint8_t *bytes, size_t count) {
    struct exif exif;
    uint32_t value;
    const bool found = exif_open(bytes, count, &exif) && exif_number(&exif, exif.first, EXIF_ORIENTATION, &value);
    return found && value >= 1 && value <= 8 ? (int)value : 1;
}

/* Each orientation combines up to three steps: swap rows and columns, mirror left to right, mirror top to bottom. */
l3a_status turn(l3a_context *context, const struct raster *from, int orientation, struct raster *to) {
    static const struct {
        bool exchange, mirror, flip;
    } turns[] = {[1] = {0, 0, 0}, [2] = {0, 1, 0}, [3] = {0, 1, 1}, [4] = {0, 0, 1},
                 [5] = {1, 0, 0}, [6] = {1, 1, 0}, [7] = {1, 1, 1}, [8] = {1, 0, 1}};
    l3a_status status = L3A_OK;
    const bool exchange = turns[orientation].exchange;
    TRY(raster_shape(context, to, exchange ? from->height : from->width, exchange ? from->width : from->height));
    for (size_t y = 0; y < to->height; y++) {
        uint8_t *row = to->pixels + CHANNELS * to->width * y;
        const size_t v = turns[orientation].flip ? to->height - 1 - y : y;
        for (size_t x = 0; x < to->width; x++) {
            const size_t u = turns[orientation].mirror ? to->width - 1 - x : x;
            const size_t pixel = exchange ? u * from->width + v : v * from->width + u;
            memcpy(row + CHANNELS * x, from->pixels + CHANNELS * pixel, CHANNELS);
        }
    }
done:
    return status;
}
