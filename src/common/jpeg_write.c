#include "common/jpeg_write.h"

#include <stdio.h>

#include <jpeglib.h>
#include <setjmp.h>

enum { CHANNELS = 3 };

struct jpeg_writing {
    struct jpeg_compress_struct encoder;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr output;
    jmp_buf escape;
};

static _Noreturn void give_up(j_common_ptr encoder) {
    struct jpeg_writing *writing = encoder->client_data;
    longjmp(writing->escape, 1);
}

static void ignore_text(j_common_ptr encoder) {
    (void)encoder;
}

static void ignore(j_compress_ptr encoder) {
    (void)encoder;
}

static boolean no_room(j_compress_ptr encoder) {
    give_up((j_common_ptr)encoder);
}

static void compress(struct jpeg_writing *writing, const uint8_t *pixels, size_t width, size_t height, int quality) {
    struct jpeg_compress_struct *encoder = &writing->encoder;
    jpeg_create_compress(encoder);
    encoder->dest = &writing->output;
    encoder->image_width = (JDIMENSION)width;
    encoder->image_height = (JDIMENSION)height;
    encoder->input_components = CHANNELS;
    encoder->in_color_space = JCS_RGB;
    jpeg_set_defaults(encoder);
    jpeg_set_quality(encoder, quality, TRUE);
    jpeg_start_compress(encoder, TRUE);
    while (encoder->next_scanline < encoder->image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + encoder->next_scanline * width * CHANNELS); /* the encoder only reads it */
        jpeg_write_scanlines(encoder, &row, 1);
    }
    jpeg_finish_compress(encoder);
}

size_t jpeg_encode(const uint8_t *pixels, size_t width, size_t height, int quality, uint8_t *bytes, size_t capacity) {
    struct jpeg_writing writing = {.output = {.next_output_byte = bytes,
                                              .free_in_buffer = capacity,
                                              .init_destination = ignore,
                                              .empty_output_buffer = no_room,
                                              .term_destination = ignore}};
    volatile size_t length = 0;
    writing.encoder.err = jpeg_std_error(&writing.errors);
    writing.errors.error_exit = give_up;
    writing.errors.output_message = ignore_text;
    writing.encoder.client_data = &writing;
    if (!setjmp(writing.escape)) {
        compress(&writing, pixels, width, height, quality);
        length = capacity - writing.output.free_in_buffer;
    }
    jpeg_destroy_compress(&writing.encoder);
    return length;
}
