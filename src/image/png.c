/* PNG decoding with libpng, to the values that Pillow's convert("RGB") gives: samples of less than 8 bits are scaled to 0..255,
 * 16-bit colours keep their high byte, 16-bit grey is clipped at 255, palette colours are used as they are, and
 * transparency is dropped.
 *
 * Rows are read into their final place, where a row of 1 or 2 bytes per pixel leaves room, and are widened there at the end,
 * so an interlaced picture needs no second buffer. */
#include "image/picture.h"

#include <string.h>

#include <png.h>
#include <setjmp.h>

enum { CHANNELS = 3 };

struct png_reading {
    png_structp decoder;
    png_infop info;
    jmp_buf escape;
    const struct picture_bytes *source;
    struct raster *raster;
    size_t at;
    int orientation;
    bool ended;    /* the decoder asked for bytes past the end */
    bool complete; /* all pixels are there */
    l3a_status status;
};

static _Noreturn void give_up(struct png_reading *reading, l3a_status status) {
    reading->status = status;
    longjmp(reading->escape, 1);
}

static _Noreturn void fail_damaged(png_structp decoder, png_const_charp text) {
    struct png_reading *reading = png_get_error_ptr(decoder);
    const struct picture_bytes *source = reading->source;
    if (reading->ended) {
        give_up(reading, fail_cut_short(source, "PNG"));
    }
    give_up(reading, fail(source->context, L3A_ERROR_FORMAT, hint_damaged, "%s: the PNG file cannot be read at byte %zu of %zu: %s",
                          source->name, reading->at, source->count, text));
}

static void ignore_warning(png_structp decoder, png_const_charp text) {
    (void)decoder;
    (void)text;
}

static void take_bytes(png_structp decoder, png_bytep bytes, size_t count) {
    struct png_reading *reading = png_get_io_ptr(decoder);
    if (count > reading->source->count - reading->at) {
        reading->ended = true;
        png_error(decoder, "end of file");
    }
    memcpy(bytes, reading->source->bytes + reading->at, count);
    reading->at += count;
}

static void take(struct png_reading *reading, l3a_status status) {
    if (status != L3A_OK) {
        give_up(reading, status);
    }
}

static bool is_grey16(const struct png_reading *reading) {
    return png_get_color_type(reading->decoder, reading->info) == PNG_COLOR_TYPE_GRAY &&
           png_get_bit_depth(reading->decoder, reading->info) == 16;
}

static void read_header(struct png_reading *reading) {
    const png_structp decoder = reading->decoder;
    const png_infop info = reading->info;
    png_set_user_limits(decoder, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_read_info(decoder, info);
    const png_uint_32 width = png_get_image_width(decoder, info), height = png_get_image_height(decoder, info);
    take(reading, check_pixels(reading->source, width, height));
    const int colours = png_get_color_type(decoder, info), bits = png_get_bit_depth(decoder, info);
    if (colours == PNG_COLOR_TYPE_PALETTE) {
        png_set_packing(decoder);
    } else if (bits < 8) {
        png_set_expand_gray_1_2_4_to_8(decoder);
    } else if (bits == 16 && !is_grey16(reading)) {
        png_set_strip_16(decoder);
    }
    if (colours & PNG_COLOR_MASK_ALPHA) {
        png_set_strip_alpha(decoder);
    }
    take(reading, raster_shape(reading->source->context, reading->raster, width, height));
}

static void read_rows(struct png_reading *reading) {
    const int passes = png_set_interlace_handling(reading->decoder);
    const size_t stride = CHANNELS * reading->raster->width;
    png_read_update_info(reading->decoder, reading->info);
    if (png_get_rowbytes(reading->decoder, reading->info) > stride) {
        png_error(reading->decoder, "rows wider than the picture");
    }
    for (int pass = 0; pass < passes; pass++) {
        for (size_t y = 0; y < reading->raster->height; y++) {
            png_read_row(reading->decoder, reading->raster->pixels + y * stride, NULL);
        }
    }
}

/* From the right, so that no value is overwritten before it is read. */
static void widen_palette(uint8_t *row, size_t width, const uint8_t colours[256][CHANNELS]) {
    for (size_t x = width; x-- > 0;) {
        memcpy(row + CHANNELS * x, colours[row[x]], CHANNELS);
    }
}

static void widen_grey(uint8_t *row, size_t width, bool two_bytes) {
    for (size_t x = width; x-- > 0;) {
        const uint8_t value = !two_bytes ? row[x] : row[2 * x] ? 255 : row[2 * x + 1];
        memset(row + CHANNELS * x, value, CHANNELS);
    }
}

/* As in Pillow, an index without a palette entry becomes a grey. */
static void take_palette(struct png_reading *reading, uint8_t colours[256][CHANNELS]) {
    png_colorp palette = NULL;
    int count = 0;
    png_get_PLTE(reading->decoder, reading->info, &palette, &count);
    for (int i = 0; i < 256; i++) {
        memset(colours[i], i, CHANNELS);
        if (i < count) {
            colours[i][0] = palette[i].red;
            colours[i][1] = palette[i].green;
            colours[i][2] = palette[i].blue;
        }
    }
}

static void widen(struct png_reading *reading) {
    const struct raster *raster = reading->raster;
    const int colours = png_get_color_type(reading->decoder, reading->info);
    uint8_t palette[256][CHANNELS];
    take_palette(reading, palette);
    for (size_t y = 0; y < raster->height; y++) {
        uint8_t *row = raster->pixels + CHANNELS * raster->width * y;
        if (colours == PNG_COLOR_TYPE_PALETTE) {
            widen_palette(row, raster->width, palette);
        } else if (!(colours & PNG_COLOR_MASK_COLOR)) {
            widen_grey(row, raster->width, is_grey16(reading));
        }
    }
}

static bool take_orientation(struct png_reading *reading) {
    png_bytep block = NULL;
    png_uint_32 count = 0;
    const bool found = png_get_eXIf_1(reading->decoder, reading->info, &count, &block) != 0;
    if (found) {
        reading->orientation = exif_orientation(block, count);
    }
    return found;
}

/* The decoder returns by longjmp on errors, so everything that changes is kept in `reading`. What follows the last row matters
 * only for the orientation; damage there does not affect the picture. */
static void read_picture(struct png_reading *reading) {
    if (setjmp(reading->escape)) {
        if (reading->complete) {
            reading->status = L3A_OK;
        }
        return;
    }
    read_header(reading);
    read_rows(reading);
    widen(reading);
    reading->complete = true;
    if (reading->source->options.orient && !take_orientation(reading)) {
        png_read_end(reading->decoder, reading->info);
        take_orientation(reading);
    }
}

l3a_status png_decode(const struct picture_bytes *source, struct raster *raster, int *orientation) {
    l3a_status status = L3A_OK;
    struct png_reading reading;
    memset(&reading, 0, sizeof reading);
    reading.source = source;
    reading.raster = raster;
    reading.orientation = 1;
    reading.decoder = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, fail_damaged, ignore_warning);
    FAIL_IF(!reading.decoder, source->context, L3A_ERROR_MEMORY, NULL, "%s: no memory for the PNG decoder", source->name);
    reading.info = png_create_info_struct(reading.decoder);
    FAIL_IF(!reading.info, source->context, L3A_ERROR_MEMORY, NULL, "%s: no memory for the PNG decoder", source->name);
    png_set_read_fn(reading.decoder, &reading, take_bytes);
    read_picture(&reading);
    status = reading.status;
    if (status == L3A_OK) {
        *orientation = reading.orientation;
    }
done:
    png_destroy_read_struct(&reading.decoder, &reading.info, NULL);
    return status;
}
