/* EXIF orientation: reads tag 0x0112 from the first directory of a TIFF block, and turns a picture upright. */
#include "image/picture.h"

#include <string.h>

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, TYPE_LONG = 4, ENTRY = 12, CHANNELS = 3 };

struct tiff {
    const uint8_t *bytes;
    size_t count;
    bool big_endian;
};

/* Bytes past the end read as 0. */
static uint32_t number_at(const struct tiff *tiff, size_t offset, size_t size) {
    uint32_t value = 0;
    for (size_t i = 0; i < size; i++) {
        const size_t at = offset + (tiff->big_endian ? i : size - 1 - i);
        value = value << 8 | (at < tiff->count ? tiff->bytes[at] : 0u);
    }
    return value;
}

int exif_orientation(const uint8_t *bytes, size_t count) {
    if (count >= 6 && memcmp(bytes, "Exif\0", 6) == 0) {
        bytes += 6;
        count -= 6;
    }
    struct tiff tiff = {bytes, count, false};
    if (count < 8 || (memcmp(bytes, "II*\0", 4) != 0 && memcmp(bytes, "MM\0*", 4) != 0)) {
        return 1;
    }
    tiff.big_endian = bytes[0] == 'M';
    const size_t directory = number_at(&tiff, 4, 4), entries = number_at(&tiff, directory, 2);
    for (size_t i = 0; i < entries; i++) {
        const size_t entry = directory + 2 + i * ENTRY;
        if (entry + ENTRY > count) {
            break;
        }
        if (number_at(&tiff, entry, 2) == TAG_ORIENTATION) {
            const uint32_t type = number_at(&tiff, entry + 2, 2);
            const uint32_t value = type == TYPE_SHORT  ? number_at(&tiff, entry + 8, 2)
                                   : type == TYPE_LONG ? number_at(&tiff, entry + 8, 4)
                                                       : 1;
            return value >= 1 && value <= 8 ? (int)value : 1;
        }
    }
    return 1;
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
