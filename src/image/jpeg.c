/* JPEG decoding with libjpeg-turbo, through its libjpeg interface: the TurboJPEG interface does not report the byte at which a
 * file is damaged, and cannot tell a harmless warning from lost data.
 *
 * Colours match Pillow's. Grey and colour pictures are decoded to RGB with the default inverse DCT and smooth upsampling.
 * Four-colour (CMYK) pictures are assumed to be stored inverted, as Adobe does, and are converted to RGB by
 * (255 - ink)(255 - black) / 255.
 *
 * A picture with all its pixels is accepted even if the file lacks its end marker. A picture with a missing or damaged part
 * is an error. */
#include "image/picture.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>
#include <setjmp.h>

enum { SCAN_LIMIT = 500, ROWS_AT_A_TIME = 16, CHANNELS = 3, INKS = 4 };

struct jpeg_reading {
    struct jpeg_decompress_struct decoder;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr input;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    const struct picture_bytes *source;
    struct raster *raster;
    uint8_t *inks; /* one row of CMYK samples */
    int orientation;
    bool ended; /* the decoder asked for bytes past the end */
    l3a_status status;
};

static struct jpeg_reading *reading_of(j_common_ptr decoder) {
    return decoder->client_data;
}

static _Noreturn void give_up(struct jpeg_reading *reading, l3a_status status) {
    reading->status = status;
    longjmp(reading->escape, 1);
}

static _Noreturn void fail_truncated(struct jpeg_reading *reading) {
    give_up(reading, fail_cut_short(reading->source, "JPEG"));
}

static _Noreturn void fail_damaged(j_common_ptr decoder) {
    struct jpeg_reading *reading = reading_of(decoder);
    const struct picture_bytes *source = reading->source;
    if (reading->ended) {
        fail_truncated(reading);
    }
    char text[JMSG_LENGTH_MAX];
    decoder->err->format_message(decoder, text);
    const l3a_status status = decoder->err->msg_code == JERR_OUT_OF_MEMORY ? L3A_ERROR_MEMORY : L3A_ERROR_FORMAT;
    give_up(reading, fail(source->context, status, hint_damaged, "%s: the JPEG file cannot be read at byte %zu of %zu: %s",
                          source->name, source->count - reading->input.bytes_in_buffer, source->count, text));
}

/* Level -1 is a warning. Most warnings mean that the decoder invented pixels. */
static void take_message(j_common_ptr decoder, int level) {
    if (level >= 0) {
        return;
    }
    switch (decoder->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL: return;
    default: fail_damaged(decoder);
    }
}

static void ignore_text(j_common_ptr decoder) {
    (void)decoder;
}

static void ignore(j_decompress_ptr decoder) {
    (void)decoder;
}

/* Past the last byte, the decoder gets an end-of-image marker. */
static boolean fill(j_decompress_ptr decoder) {
    static const JOCTET end[] = {0xFF, JPEG_EOI};
    struct jpeg_reading *reading = decoder->client_data;
    reading->ended = true;
    reading->input.next_input_byte = end;
    reading->input.bytes_in_buffer = sizeof end;
    return TRUE;
}

static void skip(j_decompress_ptr decoder, long count) {
    struct jpeg_reading *reading = decoder->client_data;
    if (count <= 0) {
        return;
    }
    if ((size_t)count > reading->input.bytes_in_buffer || reading->ended) {
        fail_truncated(reading);
    }
    reading->input.next_input_byte += count;
    reading->input.bytes_in_buffer -= (size_t)count;
}

/* A scan can be a few bytes long, yet each one costs a pass over the whole picture. */
static void watch_scans(j_common_ptr decoder) {
    struct jpeg_reading *reading = reading_of(decoder);
    if (reading->decoder.input_scan_number > SCAN_LIMIT) {
        const struct picture_bytes *source = reading->source;
        give_up(reading, fail(source->context, L3A_ERROR_FORMAT, "open the picture in an image editor and save it again",
                              "%s: more than %d scans at byte %zu of the JPEG file", source->name, SCAN_LIMIT,
                              source->count - reading->input.bytes_in_buffer));
    }
}

static void set_up(struct jpeg_reading *reading) {
    const struct picture_bytes *source = reading->source;
    reading->decoder.err = jpeg_std_error(&reading->errors);
    reading->errors.error_exit = fail_damaged;
    reading->errors.emit_message = take_message;
    reading->errors.output_message = ignore_text;
    reading->decoder.client_data = reading;
    reading->input = (struct jpeg_source_mgr){.next_input_byte = source->bytes,
                                              .bytes_in_buffer = source->count,
                                              .init_source = ignore,
                                              .fill_input_buffer = fill,
                                              .skip_input_data = skip,
                                              .resync_to_restart = jpeg_resync_to_restart,
                                              .term_source = ignore};
    reading->progress.progress_monitor = watch_scans;
}

static int orientation_of(const struct jpeg_decompress_struct *decoder) {
    static const char mark[] = "Exif\0";
    for (jpeg_saved_marker_ptr marker = decoder->marker_list; marker; marker = marker->next) {
        if (marker->data_length >= sizeof mark && memcmp(marker->data, mark, sizeof mark) == 0) {
            return exif_orientation(marker->data + sizeof mark, marker->data_length - sizeof mark);
        }
    }
    return 1;
}

static void take(struct jpeg_reading *reading, l3a_status status) {
    if (status != L3A_OK) {
        give_up(reading, status);
    }
}

static void read_header(struct jpeg_reading *reading) {
    struct jpeg_decompress_struct *decoder = &reading->decoder;
    const struct picture_bytes *source = reading->source;
    if (source->options.orient) {
        jpeg_save_markers(decoder, JPEG_APP0 + 1, 0xFFFF);
    }
    jpeg_read_header(decoder, TRUE);
    take(reading, check_pixels(source, decoder->image_width, decoder->image_height));
    reading->orientation = source->options.orient ? orientation_of(decoder) : 1;
    if (decoder->num_components != 1 && decoder->num_components != CHANNELS && decoder->num_components != INKS) {
        give_up(reading,
                fail(source->context, L3A_ERROR_FORMAT, "convert the picture to RGB",
                     "%s: a JPEG file with %d colour components; 1, 3 or 4 are supported", source->name, decoder->num_components));
    }
    decoder->out_color_space = decoder->num_components == INKS ? JCS_CMYK : JCS_RGB;
    take(reading, raster_shape(source->context, reading->raster, decoder->image_width, decoder->image_height));
}

/* value · part / 255, rounded. */
static unsigned scale_ink(unsigned value, unsigned part) {
    const unsigned product = value * part + 128;
    return ((product >> 8) + product) >> 8;
}

static void mix_inks(const uint8_t *inks, size_t width, uint8_t *rgb) {
    for (size_t x = 0; x < width; x++) {
        const unsigned light = inks[INKS * x + 3];
        for (size_t c = 0; c < CHANNELS; c++) {
            rgb[CHANNELS * x + c] = (uint8_t)(light - scale_ink(255u - inks[INKS * x + c], light));
        }
    }
}

static void read_rows(struct jpeg_reading *reading) {
    struct jpeg_decompress_struct *decoder = &reading->decoder;
    const size_t stride = CHANNELS * reading->raster->width;
    JSAMPROW rows[ROWS_AT_A_TIME];
    while (decoder->output_scanline < decoder->output_height) {
        const JDIMENSION left = decoder->output_height - decoder->output_scanline;
        const JDIMENSION count = left < ROWS_AT_A_TIME ? left : ROWS_AT_A_TIME;
        for (JDIMENSION i = 0; i < count; i++) {
            rows[i] = reading->raster->pixels + (decoder->output_scanline + i) * stride;
        }
        jpeg_read_scanlines(decoder, rows, count);
    }
}

static void read_inks(struct jpeg_reading *reading) {
    struct jpeg_decompress_struct *decoder = &reading->decoder;
    const size_t width = reading->raster->width;
    take(reading, allocate(reading->source->context, width, INKS, &reading->inks));
    while (decoder->output_scanline < decoder->output_height) {
        uint8_t *rgb = reading->raster->pixels + decoder->output_scanline * width * CHANNELS;
        JSAMPROW row = reading->inks;
        jpeg_read_scanlines(decoder, &row, 1);
        mix_inks(reading->inks, width, rgb);
    }
}

/* The decoder returns by longjmp on errors, so everything that changes is kept in `reading`. */
static void read_picture(struct jpeg_reading *reading) {
    if (setjmp(reading->escape)) {
        return;
    }
    struct jpeg_decompress_struct *decoder = &reading->decoder;
    jpeg_create_decompress(decoder);
    decoder->src = &reading->input;
    decoder->progress = &reading->progress;
    read_header(reading);
    jpeg_start_decompress(decoder);
    if (reading->ended) {
        fail_truncated(reading);
    }
    if (decoder->out_color_space == JCS_CMYK) {
        read_inks(reading);
    } else {
        read_rows(reading);
    }
}

l3a_status jpeg_decode(const struct picture_bytes *source, struct raster *raster, int *orientation) {
    struct jpeg_reading reading;
    memset(&reading, 0, sizeof reading);
    reading.source = source;
    reading.raster = raster;
    reading.orientation = 1;
    set_up(&reading);
    read_picture(&reading);
    jpeg_destroy_decompress(&reading.decoder);
    release(source->context, reading.inks);
    if (reading.status == L3A_OK) {
        *orientation = reading.orientation;
    }
    return reading.status;
}
