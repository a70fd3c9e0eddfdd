/* Pictures from files and from memory: chooses the decoder, checks limits before allocating, and holds the public calls. */
#include "image/picture.h"

#include "base/memory.h"
#include "base/sized.h"
#include "image/resize.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <string.h>

enum { PIXEL_LIMIT = 64000000, METADATA_LIMIT = 64 << 20, BYTES_A_PIXEL = 8, KEPT = 32 << 20, CHANNELS = 3 };

l3a_status picture_options_read(l3a_context *context, const l3a_picture_options *options, l3a_picture_options *own) {
    const l3a_status status = READ_SIZED(context, options, *own);
    own->pixel_limit = own->pixel_limit ? own->pixel_limit : PIXEL_LIMIT;
    return status;
}

/* The largest size that the decoders (which use int) and the address space can handle. */
static bool raster_bytes(size_t width, size_t height, size_t *bytes) {
    uint64_t pixels, all;
    if (width > INT32_MAX / 8 || height > INT32_MAX / 8 || !multiply_sizes(width, height, &pixels) ||
        !multiply_sizes(pixels, CHANNELS, &all) || all > SIZE_MAX / 2) {
        return false;
    }
    *bytes = (size_t)all;
    return true;
}

l3a_status raster_shape(l3a_context *context, struct raster *raster, size_t width, size_t height) {
    l3a_status status = L3A_OK;
    size_t bytes;
    FAIL_IF(!raster_bytes(width, height, &bytes), context, L3A_ERROR_MEMORY, "ask for a smaller picture",
            "a picture of %zu x %zu pixels does not fit in memory", width, height);
    if (bytes > raster->capacity) {
        raster_free(context, raster);
        TRY(allocate(context, bytes, 1, &raster->pixels));
        raster->capacity = bytes;
    }
    raster->width = width;
    raster->height = height;
done:
    return status;
}

void raster_trim(l3a_context *context, struct raster *raster) {
    if (raster->capacity > KEPT) {
        raster_free(context, raster);
    }
}

void raster_free(l3a_context *context, struct raster *raster) {
    release(context, raster->pixels);
    memset(raster, 0, sizeof *raster);
}

l3a_status check_pixels(const struct picture_bytes *source, uint64_t width, uint64_t height) {
    uint64_t pixels;
    return multiply_sizes(width, height, &pixels) && pixels <= source->options.pixel_limit
               ? L3A_OK
               : fail(source->context, L3A_ERROR_DATA, "shrink the picture, or raise pixel_limit if you trust the file",
                      "%s: claims to have %llu x %llu pixels; the limit is %llu in all", source->name, (unsigned long long)width,
                      (unsigned long long)height, (unsigned long long)source->options.pixel_limit);
}

const char hint_damaged[] = "copy or download the picture again, or remove it from the list";

l3a_status fail_cut_short(const struct picture_bytes *source, const char *format) {
    return fail(source->context, L3A_ERROR_TRUNCATED, hint_damaged,
                "%s: the %s file ends at byte %zu, in the middle of the picture", source->name, format, source->count);
}

typedef l3a_status decoder(const struct picture_bytes *source, struct raster *raster, int *orientation);

static const struct {
    const char *format;
    decoder *decode;
} decoders[] = {
    {"jpeg", jpeg_decode}, {"png", png_decode},
#ifdef L3A_HAVE_WEBP
    {"webp", webp_decode},
#endif
#ifdef L3A_HAVE_HEIF
    {"heic", heif_decode}, {"avif", heif_decode},
#endif
};
enum { DECODERS = sizeof decoders / sizeof decoders[0] };

static l3a_status check_kind(struct picture_bytes *source) {
    const struct picture_kind *kind = picture_kind_of(source->bytes, source->count);
    source->format = kind->format;
    return !kind->refusal ? L3A_OK
                          : fail(source->context, source->count ? L3A_ERROR_FORMAT : L3A_ERROR_TRUNCATED, kind->hint, "%s: %s",
                                 source->name, kind->refusal);
}

static decoder *decoder_of(const char *format) {
    size_t i = 0;
    while (i + 1 < DECODERS && strcmp(decoders[i].format, format) != 0) {
        i++;
    }
    return decoders[i].decode;
}

static l3a_status decode(struct picture_reader *reader, struct picture_bytes *source, struct raster **picture) {
    l3a_status status = L3A_OK;
    int orientation = 1;
    TRY(check_kind(source));
    TRY(decoder_of(source->format)(source, &reader->decoded, &orientation));
    *picture = &reader->decoded;
    if (orientation != 1) {
        TRY(turn(reader->context, &reader->decoded, orientation, &reader->turned));
        *picture = &reader->turned;
    }
done:
    return status;
}

/* An uncompressed picture has at most eight bytes per pixel, plus metadata. */
static l3a_status check_size(l3a_context *context, const char *name, uint64_t size, const l3a_picture_options *options) {
    uint64_t limit;
    if (!multiply_sizes(options->pixel_limit, BYTES_A_PIXEL, &limit) || limit > INT64_MAX) {
        limit = INT64_MAX;
    }
    limit += METADATA_LIMIT;
    return size <= limit ? L3A_OK
                         : fail(context, L3A_ERROR_FORMAT, "is this a picture?",
                                "%s: %llu bytes; a picture within the pixel limit has at most %llu", name, (unsigned long long)size,
                                (unsigned long long)limit);
}

/* Opens the file that a picture is in; of an archive, the one that is open already if it is the same. */
static l3a_status open_source(struct picture_reader *reader, const struct picture_source *source, input_file *own,
                              const input_file **input) {
    l3a_status status = L3A_OK;
    const char *archive = source->span.archive;
    *input = archive ? &reader->archive : own;
    if (!archive) {
        TRY(input_open(reader->context, source->name, own));
    } else if (!reader->archive.path || strcmp(reader->archive.path, archive) != 0) {
        input_close(&reader->archive);
        TRY(input_open(reader->context, archive, &reader->archive));
    }
done:
    return status;
}

/* The bytes of the file that are the picture: all, or its span, which the archive had when it was indexed. */
static l3a_status find_bytes(const struct picture_source *source, const input_file *input, uint64_t *offset, uint64_t *size) {
    const struct archive_span *span = &source->span;
    *offset = span->archive ? span->offset : 0;
    *size = span->archive ? span->size : input->size;
    return *offset <= input->size && *size <= input->size - *offset
               ? L3A_OK
               : fail(input->context, L3A_ERROR_TRUNCATED, "copy or make the archive again",
                      "%s: should end at byte %llu of the archive, which now ends at byte %llu", source->name,
                      (unsigned long long)(*offset + *size), (unsigned long long)input->size);
}

/* Reads the bytes of a picture into the reader's memory. */
static l3a_status read_source(struct picture_reader *reader, const struct picture_source *source,
                              const l3a_picture_options *options, size_t *count) {
    l3a_status status = L3A_OK;
    input_file own = {0};
    const input_file *input;
    uint64_t offset, size;
    TRY(open_source(reader, source, &own, &input));
    TRY(find_bytes(source, input, &offset, &size));
    TRY(check_size(reader->context, source->name, size, options));
    *count = (size_t)size;
    if (*count > reader->file_capacity) {
        release(reader->context, reader->file);
        reader->file_capacity = 0;
        TRY(allocate(reader->context, *count, 1, &reader->file));
        reader->file_capacity = *count;
    }
    TRY(input_read(input, offset, reader->file, *count));
done:
    input_close(&own);
    return status;
}

bool picture_checksum(l3a_context *context, const struct picture_source *source, uint64_t *checksum) {
    input_file input = {.file = -1};
    uint64_t offset, size;
    if (source->bytes) {
        *checksum = XXH3_64bits(source->bytes, source->count);
        return true;
    }
    const bool read = input_open(context, source->span.archive ? source->span.archive : source->name, &input) == L3A_OK &&
                      find_bytes(source, &input, &offset, &size) == L3A_OK &&
                      input_checksum(&input, offset, size, checksum) == L3A_OK;
    input_close(&input);
    return read;
}

l3a_status picture_reader_read(struct picture_reader *reader, const struct picture_source *source,
                               const l3a_picture_options *options, struct raster **picture) {
    l3a_status status = L3A_OK;
    struct picture_bytes bytes = {.context = reader->context, .name = source->name, .bytes = source->bytes, .count = source->count};
    reader->checksum = 0;
    TRY(picture_options_read(reader->context, options, &bytes.options));
    TRY(source->bytes ? check_size(reader->context, source->name, source->count, &bytes.options)
                      : read_source(reader, source, &bytes.options, &bytes.count));
    bytes.bytes = source->bytes ? source->bytes : reader->file;
    reader->checksum = XXH3_64bits(bytes.bytes, bytes.count);
    TRY(decode(reader, &bytes, picture));
done:
    return status;
}

void picture_reader_trim(struct picture_reader *reader) {
    if (reader->file_capacity > KEPT) {
        release(reader->context, reader->file);
        reader->file = NULL;
        reader->file_capacity = 0;
    }
    raster_trim(reader->context, &reader->decoded);
    raster_trim(reader->context, &reader->turned);
}

void picture_reader_free(struct picture_reader *reader) {
    if (reader->context) {
        input_close(&reader->archive);
        release(reader->context, reader->file);
        raster_free(reader->context, &reader->decoded);
        raster_free(reader->context, &reader->turned);
    }
}

/* Hands the pixels to the caller. */
static l3a_status give(l3a_context *context, struct raster *raster, l3a_picture *picture) {
    const l3a_picture own = {sizeof own, raster->width, raster->height, raster->pixels};
    const l3a_status status = WRITE_SIZED(context, picture, own);
    raster->pixels = status == L3A_OK ? NULL : raster->pixels;
    return status;
}

l3a_status picture_read_source(l3a_context *context, const struct picture_source *source, const l3a_picture_options *options,
                               l3a_picture *picture) {
    l3a_status status = L3A_OK;
    struct picture_reader reader = {.context = context};
    struct raster *raster;
    TRY(picture_reader_read(&reader, source, options, &raster));
    TRY(give(context, raster, picture));
done:
    picture_reader_free(&reader);
    return status;
}

l3a_status l3a_picture_read(l3a_context *context, const char *path, const l3a_picture_options *options, l3a_picture *picture) {
    l3a_status status = L3A_OK;
    NEED(context, context, path, picture);
    TRY(CHECK_SIZED(context, picture));
    TRY(picture_read_source(context, &(struct picture_source){.name = path}, options, picture));
done:
    return status;
}

l3a_status l3a_picture_decode(l3a_context *context, const char *name, const void *bytes, size_t count,
                              const l3a_picture_options *options, l3a_picture *picture) {
    l3a_status status = L3A_OK;
    NEED(context, context, name, picture);
    FAIL_IF(!bytes && count, context, L3A_ERROR_ARGUMENT, NULL, "l3a_picture_decode: bytes is NULL");
    TRY(CHECK_SIZED(context, picture));
    const struct picture_source source = picture_in_memory(name, bytes, count);
    TRY(picture_read_source(context, &source, options, picture));
done:
    return status;
}

l3a_status l3a_picture_resize(l3a_context *context, const l3a_picture *picture, size_t width, size_t height, l3a_filter filter,
                              l3a_picture *resized) {
    l3a_status status = L3A_OK;
    struct raster to = {0};
    struct resizer resizer = {.context = context, .kernels = picture_kernels()};
    l3a_picture own;
    NEED(context, context, picture, resized);
    TRY(CHECK_SIZED(context, resized));
    TRY(READ_SIZED(context, picture, own));
    NEED(context, own.pixels);
    TRY(resize_check(context, width, height, filter));
    const struct raster from = {.width = own.width, .height = own.height, .pixels = own.pixels};
    TRY(resize(&resizer, &from, width, height, filter, &to));
    TRY(give(context, &to, resized));
done:
    if (context) {
        raster_free(context, &to);
        resizer_free(&resizer);
    }
    return status;
}

void l3a_picture_free(l3a_context *context, l3a_picture *picture) {
    static const l3a_picture clear = {.size = sizeof clear};
    if (context && picture && picture->size) {
        release(context, picture->pixels);
        WRITE_SIZED(context, picture, clear);
    }
}

/* libheif may lack the decoder for a format that it reads. */
static bool is_available(const char *format) {
#ifdef L3A_HAVE_HEIF
    return decoder_of(format) != heif_decode || heif_decodes(format);
#else
    return format != NULL;
#endif
}

const char *l3a_picture_format(const void *bytes, size_t count) {
    const struct picture_kind *kind = picture_kind_of(bytes, bytes ? count : 0);
    return !kind->refusal && is_available(kind->format) ? kind->format : NULL;
}

const char *l3a_picture_format_at(size_t index) {
    for (size_t i = 0; i < DECODERS; i++) {
        if (is_available(decoders[i].format) && index-- == 0) {
            return decoders[i].format;
        }
    }
    return NULL;
}
