/* HEIC and AVIF decoding with libheif, which also converts the colours; 10 and 12 bits are reduced to 8, and transparency is
 * dropped. The file's primary picture is read. Its rotation, mirroring and cropping are part of the file's structure, like the
 * tiles that it is put together from, so they are always applied; an EXIF orientation is not, because it repeats them.
 *
 * Threads: libheif would decode tiles on threads of its own. Here the loader has a thread for each picture, so libheif is told
 * to use none. Its HEVC decoder starts one thread per picture all the same, for which the caller waits. For AV1, dav1d would start
 * one per processor, so aom, which starts none, is preferred where libheif has it. (libheif lets dav1d decode tiles and
 * transparency nevertheless.)
 *
 * heif_init() is not called. It loads plug-ins and counts its calls, once for the whole process, which belongs to the program and
 * not to a library. The decoders of libheif 1.15 (Debian 12) are built in and register themselves when it is loaded. From 1.17 on,
 * libheif loads its plug-ins by itself when they are first needed. */
#ifdef L3A_HAVE_HEIF
#include "image/picture.h"

#include <string.h>

#include <libheif/heif.h>

enum { CHANNELS = 3, SIDE_LIMIT = 32768 };

struct heif_reading {
    const struct picture_bytes *source;
    struct heif_context *context;
    struct heif_image_handle *handle;
    struct heif_decoding_options *options;
    struct heif_image *image;
};

static bool is_avif(const char *format) {
    return strcmp(format, "avif") == 0;
}

bool heif_decodes(const char *format) {
    return heif_have_decoder_for_format(is_avif(format) ? heif_compression_AV1 : heif_compression_HEVC) != 0;
}

static const char *label_of(const struct picture_bytes *source) {
    return is_avif(source->format) ? "AVIF" : "HEIC";
}

static l3a_status fail_decoding(const struct picture_bytes *source, struct heif_error error) {
    const char *const format = label_of(source);
    const char *const text = error.message ? error.message : "";
    const size_t length = strcspn(text, "\n");
    if (error.code == heif_error_Ok) {
        return L3A_OK;
    }
    if (error.subcode == heif_suberror_Unsupported_codec) {
        return fail(source->context, L3A_ERROR_FORMAT,
                    "install libheif's plug-in for this codec, or convert the picture to JPEG or PNG",
                    "%s: the libheif of this machine cannot decode this %s picture: %.*s", source->name, format, (int)length, text);
    }
    if (error.subcode == heif_suberror_Security_limit_exceeded) {
        return fail(source->context, L3A_ERROR_DATA, "shrink the picture", "%s: too large for libheif: %.*s", source->name,
                    (int)length, text);
    }
    if (error.subcode == heif_suberror_End_of_data || heif_is_cut_short(source)) {
        return fail_cut_short(source, format);
    }
    const l3a_status status = error.code == heif_error_Memory_allocation_error ? L3A_ERROR_MEMORY : L3A_ERROR_FORMAT;
    return fail(source->context, status, hint_damaged, "%s: the %s file cannot be read: %.*s", source->name, format, (int)length,
                text);
}

/* The size is within the limit, before the picture is turned and cropped and after. What it is put together on has no side longer
 * than its own. */
static l3a_status check_size(const struct heif_reading *reading) {
    l3a_status status = L3A_OK;
    const struct picture_bytes *source = reading->source;
    const struct heif_image_handle *handle = reading->handle;
    const int width = heif_image_handle_get_ispe_width(handle), height = heif_image_handle_get_ispe_height(handle);
    const int shown_width = heif_image_handle_get_width(handle), shown_height = heif_image_handle_get_height(handle);
    FAIL_IF(width < 1 || height < 1 || shown_width < 1 || shown_height < 1, source->context, L3A_ERROR_FORMAT, hint_damaged,
            "%s: the %s file does not say how large the picture is", source->name, label_of(source));
    TRY(check_pixels(source, (uint64_t)width, (uint64_t)height));
    TRY(check_pixels(source, (uint64_t)shown_width, (uint64_t)shown_height));
    heif_context_set_maximum_image_size_limit(reading->context, 1 + (width > height ? width : height));
done:
    return status;
}

static l3a_status read_header(struct heif_reading *reading) {
    l3a_status status = L3A_OK;
    const struct picture_bytes *source = reading->source;
    struct heif_context *context = reading->context;
    heif_item_id primary;
    heif_context_set_max_decoding_threads(context, 0);
    heif_context_set_maximum_image_size_limit(context, SIDE_LIMIT);
    TRY(fail_decoding(source, heif_context_read_from_memory_without_copy(context, source->bytes, source->count, NULL)));
    TRY(fail_decoding(source, heif_context_get_primary_image_ID(context, &primary)));
    TRY(heif_check_parts(source, primary));
    TRY(fail_decoding(source, heif_context_get_primary_image_handle(context, &reading->handle)));
    TRY(check_size(reading));
done:
    return status;
}

static l3a_status decode_picture(struct heif_reading *reading) {
    l3a_status status = L3A_OK;
    const struct picture_bytes *source = reading->source;
    reading->options = heif_decoding_options_alloc();
    FAIL_IF(!reading->options, source->context, L3A_ERROR_MEMORY, NULL, "%s: no memory for libheif", source->name);
    reading->options->convert_hdr_to_8bit = 1;
    reading->options->decoder_id = "aom"; /* where it does not decode the format, libheif chooses another */
    TRY(fail_decoding(source, heif_decode_image(reading->handle, &reading->image, heif_colorspace_RGB, heif_chroma_interleaved_RGB,
                                                reading->options)));
done:
    return status;
}

static l3a_status copy_rows(const struct heif_reading *reading, struct raster *raster) {
    l3a_status status = L3A_OK;
    const struct picture_bytes *source = reading->source;
    int stride = 0;
    const uint8_t *pixels = heif_image_get_plane_readonly(reading->image, heif_channel_interleaved, &stride);
    const int width = heif_image_get_width(reading->image, heif_channel_interleaved);
    const int height = heif_image_get_height(reading->image, heif_channel_interleaved);
    FAIL_IF(!pixels || width < 1 || height < 1 || stride < CHANNELS * width, source->context, L3A_ERROR_FORMAT, hint_damaged,
            "%s: libheif returned no pixels", source->name);
    TRY(check_pixels(source, (uint64_t)width, (uint64_t)height));
    TRY(raster_shape(source->context, raster, (size_t)width, (size_t)height));
    for (size_t y = 0; y < raster->height; y++) {
        memcpy(raster->pixels + y * CHANNELS * raster->width, pixels + y * (size_t)stride, CHANNELS * raster->width);
    }
done:
    return status;
}

l3a_status heif_decode(const struct picture_bytes *source, struct raster *raster, int *orientation) {
    l3a_status status = L3A_OK;
    struct heif_reading reading = {.source = source, .context = heif_context_alloc()};
    (void)orientation;
    FAIL_IF(!reading.context, source->context, L3A_ERROR_MEMORY, NULL, "%s: no memory for libheif", source->name);
    TRY(read_header(&reading));
    TRY(decode_picture(&reading));
    TRY(copy_rows(&reading, raster));
done:
    heif_image_release(reading.image);
    heif_decoding_options_free(reading.options);
    heif_image_handle_release(reading.handle);
    heif_context_free(reading.context);
    return status;
}
#endif
