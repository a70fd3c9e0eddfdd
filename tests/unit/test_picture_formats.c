/* Which files are pictures that the library reads, and what it says about the others; WebP and HEIC files that are not what they
 * seem; and pictures that are to be turned. That the pixels are right is compared with Pillow and with heif-convert, in
 * oracle/test_pictures.py and oracle/test_heif.py. */
#include "support.h"

#include "base/memory.h"
#include "base/random.h"
#include "image/picture.h"
#include "memory_probe.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>
#ifdef L3A_HAVE_WEBP
#include <webp/encode.h>
#endif

enum { WIDTH = 14, HEIGHT = 10, BYTES = 3 * WIDTH * HEIGHT, EXIF = 26 };

/* ---- Kinds ---------------------------------------------------------------------------------------------------------- */
struct known {
    const char *bytes;
    size_t count;
    const char *format, *refusal;
};

#define FILE_OF(bytes, format, refusal)                                                                                            \
    { bytes, sizeof(bytes) - 1, format, refusal }
#define MORE "................................................................"

static const struct known files[] = {
    FILE_OF("\xFF\xD8\xFF\xE0\0\x10JFIF", "jpeg", NULL),
    FILE_OF("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "png", NULL),
    FILE_OF("RIFF\x24\0\0\0WEBPVP8 ", "webp", NULL),
    FILE_OF("\0\0\0\x18"
            "ftypheic\0\0\0\0mif1heic",
            "heic", NULL),
    FILE_OF("\0\0\0\x18"
            "ftypmif1\0\0\0\0mif1heix",
            "heic", NULL),
    FILE_OF("\0\0\0\x14"
            "ftypmif1\0\0\0\0miaf",
            "heic", NULL),
    FILE_OF("\0\0\0\x1c"
            "ftypmif1\0\0\0\0mif1avifmiaf",
            "avif", NULL),
    FILE_OF("\0\0\0\x18"
            "ftypavis\0\0\0\0msf1avif",
            "avif", NULL),
    FILE_OF("\0\0\0\x14"
            "ftypisom\0\0\0\0mp41heic",
            NULL, "this is a video, not a picture"), /* the list of brands ends before "heic" */
    FILE_OF("\0\0\0\x14"
            "ftypqt  \0\0\0\0qt  ",
            NULL, "this is a video, not a picture"),
    FILE_OF("\0\0\0\x08wide\0\0\0\0mdat", NULL, "this is a video, not a picture"),
    FILE_OF("RIFF....AVI LIST", NULL, "this is a video, not a picture"),
    FILE_OF("\0\0\0\x18"
            "ftypcrx \0\0\0\1crx isom",
            NULL, "this is a camera's RAW picture, which l3a does not read"),
    FILE_OF("II*\0\x10\0\0\0CR\2\0", NULL, "this is a camera's RAW picture, which l3a does not read"),
    FILE_OF("II*\0\x08\0\0\0", NULL, "this is a TIFF picture or a camera's RAW picture, which l3a does not read"),
    FILE_OF("MM\0*\0\0\0\x08", NULL, "this is a TIFF picture or a camera's RAW picture, which l3a does not read"),
    FILE_OF("GIF89a\1\0\1\0", NULL, "this is a GIF picture, which l3a does not read"),
    FILE_OF("BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0", NULL, "this is a BMP picture, which l3a does not read"),
    FILE_OF("BMW and other cars", NULL, "this is a text, not a picture"),
    FILE_OF("8BPS\0\1", NULL, "this is a Photoshop picture, which l3a does not read"),
    FILE_OF("<svg xmlns=\"http://www.w3.org/2000/svg\">", NULL, "this is an SVG drawing, which l3a does not read"),
    FILE_OF("<?xml version=\"1.0\"?>\n<!--" MORE MORE "-->\n<svg>", NULL, "this is an SVG drawing, which l3a does not read"),
    FILE_OF("<?xml version=\"1.0\"?>\n<plist>", NULL, "this is an XML file, not a picture"),
    FILE_OF("\xEF\xBB\xBF\n<!DOCTYPE HTML>", NULL, "this is a web page, not a picture"),
    FILE_OF("%PDF-1.4", NULL, "this is a PDF document, not a picture"),
    FILE_OF("PK\3\4", NULL, "this is an archive, not a picture"),
    FILE_OF("version https://git-lfs.github.com/spec/v1", NULL, "this is a Git LFS pointer, not a picture"),
    FILE_OF("\0\5\x16\7\0\2\0\0Mac OS X", NULL, "this is a companion file that macOS puts beside a picture, not a picture"),
    FILE_OF("K\xC3\xA4se", NULL, "this is a text, not a picture"),
    FILE_OF("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", NULL, "the file begins with zeroes"),
    FILE_OF("K\xC3", NULL, "this is not a picture of a kind that l3a knows"),
    FILE_OF("\1\2\3\4", NULL, "this is not a picture of a kind that l3a knows"),
    FILE_OF("", NULL, "the file is empty"),
};

static bool is_read(const char *format) {
    for (size_t i = 0; format && l3a_picture_format_at(i); i++) {
        if (strcmp(l3a_picture_format_at(i), format) == 0) {
            return true;
        }
    }
    return false;
}

static void test_kinds(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const struct known *file = &files[i];
        const struct picture_kind *kind = picture_kind_of(file->bytes, file->count);
        const char *found = l3a_picture_format(file->bytes, file->count);
        l3a_picture picture = {.size = sizeof picture};
        char expected[128];
        if (is_read(file->format)) {
            assert_string_equal(found, file->format);
            assert_null(kind->refusal);
            continue;
        }
        assert_null(found);
        assert_non_null(kind->hint);
        snprintf(expected, sizeof expected, "some.file: %s", file->refusal ? file->refusal : "this build cannot read ");
        assert_fails(context, l3a_picture_decode(context, "some.file", file->bytes, file->count, NULL, &picture),
                     file->count ? L3A_ERROR_FORMAT : L3A_ERROR_TRUNCATED, expected);
        assert_string_equal(l3a_error_hint(context), kind->hint);
    }
    assert_null(l3a_picture_format(NULL, 0));
    l3a_context_free(context);
}

/* Every text that is cut within a character is a text still, and nothing is read past the end. */
static void test_cut_characters(void **state) {
    (void)state;
    for (size_t shift = 0; shift < 5; shift++) {
        char *text = malloc(PICTURE_KIND_BYTES + 4);
        assert_non_null(text);
        memset(text, 'x', shift);
        for (size_t at = shift; at < PICTURE_KIND_BYTES; at += 4) {
            memcpy(text + at, "\xF0\x9F\x90\x88", 4);
        }
        assert_non_null(strstr(picture_kind_of(text, PICTURE_KIND_BYTES)->refusal, "a text"));
        free(text);
    }
}

static void test_formats(void **state) {
    (void)state;
    assert_string_equal(l3a_picture_format_at(0), "jpeg");
    assert_string_equal(l3a_picture_format_at(1), "png");
    assert_null(l3a_picture_format_at(5));
    assert_null(l3a_picture_format_at(SIZE_MAX));
#ifdef L3A_HAVE_WEBP
    assert_true(is_read("webp"));
#else
    assert_false(is_read("webp"));
#endif
}

/* ---- Pictures that are to be turned --------------------------------------------------------------------------------- */
static void fill_pixels(uint8_t *pixels) {
    for (size_t i = 0; i < BYTES; i++) {
        pixels[i] = (uint8_t)random_bits(4, i);
    }
}

/* A directory with the orientation as its only entry, in either order of bytes. */
static void make_exif(unsigned orientation, bool big_endian, uint8_t exif[EXIF]) {
    static const uint8_t big[EXIF] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1},
                         little[EXIF] = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1};
    memcpy(exif, big_endian ? big : little, EXIF);
    exif[big_endian ? 19 : 18] = (uint8_t)orientation;
}

struct bytes {
    uint8_t *at;
    size_t count;
};

static void append(png_structp writer, png_bytep bytes, size_t count) {
    struct bytes *file = png_get_io_ptr(writer);
    file->at = realloc(file->at, file->count + count);
    assert_non_null(file->at);
    memcpy(file->at + file->count, bytes, count);
    file->count += count;
}

static struct bytes make_png(const uint8_t *pixels, uint8_t *exif) {
    struct bytes file = {NULL, 0};
    png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(writer);
    png_set_write_fn(writer, &file, append, NULL);
    png_set_IHDR(writer, info, WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_RGB, 0, 0, 0);
    png_set_eXIf_1(writer, info, EXIF, exif);
    png_write_info(writer, info);
    for (size_t y = 0; y < HEIGHT; y++) {
        png_write_row(writer, pixels + 3 * WIDTH * y);
    }
    png_write_end(writer, info);
    png_destroy_write_struct(&writer, &info);
    return file;
}

#ifdef L3A_HAVE_WEBP
static void put_chunk(struct bytes *file, const char *type, const void *bytes, size_t count) {
    const uint8_t size[4] = {(uint8_t)count, (uint8_t)(count >> 8), 0, 0};
    memcpy(file->at + file->count, type, 4);
    memcpy(file->at + file->count + 4, size, 4);
    memcpy(file->at + file->count + 8, bytes, count);
    file->count += 8 + count;
}

/* The pixels alone: a RIFF header of 12 bytes, and a chunk "VP8L". */
static struct bytes make_webp(const uint8_t *pixels) {
    struct bytes file = {NULL, 0};
    uint8_t *made = NULL;
    file.count = WebPEncodeLosslessRGB(pixels, WIDTH, HEIGHT, 3 * WIDTH, &made);
    assert_true(file.count > 20);
    file.at = malloc(file.count);
    assert_non_null(file.at);
    memcpy(file.at, made, file.count);
    WebPFree(made);
    return file;
}

static struct bytes make_turned_webp(const uint8_t *pixels, const uint8_t *exif) {
    static const uint8_t header[10] = {8, 0, 0, 0, WIDTH - 1, 0, 0, HEIGHT - 1, 0, 0};
    struct bytes plain = make_webp(pixels), file = {calloc(1, plain.count + 100), 12};
    assert_non_null(file.at);
    memcpy(file.at, plain.at, 12);
    put_chunk(&file, "VP8X", header, sizeof header);
    memcpy(file.at + file.count, plain.at + 12, plain.count - 12);
    file.count += plain.count - 12;
    put_chunk(&file, "EXIF", exif, EXIF);
    file.at[4] = (uint8_t)(file.count - 8);
    file.at[5] = (uint8_t)((file.count - 8) >> 8);
    free(plain.at);
    return file;
}
#endif

/* Where the pixel that is shown at x, y is stored, from the table of the EXIF standard: what row 0 and column 0 are when shown. */
static size_t stored_at(unsigned orientation, size_t x, size_t y) {
    switch (orientation) {
    case 2: return y * WIDTH + (WIDTH - 1 - x);                /* top, right */
    case 3: return (HEIGHT - 1 - y) * WIDTH + (WIDTH - 1 - x); /* bottom, right */
    case 4: return (HEIGHT - 1 - y) * WIDTH + x;               /* bottom, left */
    case 5: return x * WIDTH + y;                              /* left, top */
    case 6: return (HEIGHT - 1 - x) * WIDTH + y;               /* right, top */
    case 7: return (HEIGHT - 1 - x) * WIDTH + (WIDTH - 1 - y); /* right, bottom */
    case 8: return x * WIDTH + (WIDTH - 1 - y);                /* left, bottom */
    default: return y * WIDTH + x;
    }
}

static void check_turned(l3a_context *context, struct bytes file, unsigned orientation, const uint8_t *pixels) {
    for (int orient = 0; orient < 2; orient++) {
        const unsigned applied = orient ? orientation : 1;
        const l3a_picture_options options = {.size = sizeof options, .orient = orient};
        l3a_picture picture = {.size = sizeof picture};
        assert_ok(context, l3a_picture_decode(context, "turned", file.at, file.count, &options, &picture));
        assert_int_equal(picture.width, applied >= 5 && applied <= 8 ? HEIGHT : WIDTH);
        assert_int_equal(picture.height, applied >= 5 && applied <= 8 ? WIDTH : HEIGHT);
        for (size_t i = 0; i < WIDTH * HEIGHT; i++) {
            const size_t from = stored_at(applied, i % picture.width, i / picture.width);
            assert_memory_equal(picture.pixels + 3 * i, pixels + 3 * from, 3);
        }
        l3a_picture_free(context, &picture);
    }
    free(file.at);
}

static void test_orientation(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    uint8_t pixels[BYTES], exif[EXIF];
    fill_pixels(pixels);
    for (unsigned orientation = 0; orientation < 10; orientation++) {
        for (int big_endian = 0; big_endian < 2; big_endian++) {
            make_exif(orientation, big_endian, exif);
            check_turned(context, make_png(pixels, exif), orientation, pixels);
#ifdef L3A_HAVE_WEBP
            check_turned(context, make_turned_webp(pixels, exif), orientation, pixels);
            exif[2] = exif[3] = 'x';
            check_turned(context, make_turned_webp(pixels, exif), 1, pixels);
#endif
        }
    }
    l3a_context_free(context);
}

/* ---- Files that are cut short, damaged or too large ------------------------------------------------------------------ */
static l3a_status decode(l3a_context *context, const void *bytes, size_t count, uint64_t limit) {
    const l3a_picture_options options = {.size = sizeof options, .pixel_limit = limit, .orient = 1};
    l3a_picture picture = {.size = sizeof picture};
    const l3a_status status = l3a_picture_decode(context, "some.picture", bytes, count, &options, &picture);
    assert_true((status == L3A_OK) == (picture.pixels != NULL));
    l3a_picture_free(context, &picture);
    return status;
}

#if defined(L3A_HAVE_WEBP) || defined(L3A_HAVE_HEIF)
/* From memory of just this size, so that a sanitizer sees a read past the end. */
static l3a_status decode_start(l3a_context *context, struct bytes file, size_t count) {
    uint8_t *copy = malloc(count);
    assert_non_null(copy);
    memcpy(copy, file.at, count);
    const l3a_status status = decode(context, copy, count, 0);
    free(copy);
    return status;
}

/* needed: the file has all pixels from this size on. */
static void check_cuts(l3a_context *context, struct bytes file, size_t needed, const char *format) {
    for (size_t cut = 32; cut < needed; cut++) {
        char where[128];
        snprintf(where, sizeof where, "some.picture: the %s file ends at byte %zu, in the middle of the picture", format, cut);
        assert_fails(context, decode_start(context, file, cut), L3A_ERROR_TRUNCATED, where);
    }
    for (size_t cut = needed; cut <= file.count; cut++) {
        assert_ok(context, decode_start(context, file, cut));
    }
}

static void check_damage(l3a_context *context, struct bytes file) {
    for (size_t at = 0; at < file.count; at++) {
        file.at[at] ^= (uint8_t)(1u << (at % 8));
        const l3a_status status = decode(context, file.at, file.count, 1 << 16);
        assert_true(status == L3A_OK || strncmp(l3a_error_text(context), "some.picture: ", 14) == 0);
        file.at[at] ^= (uint8_t)(1u << (at % 8));
    }
}
#endif

#ifdef L3A_HAVE_WEBP
static void test_webp(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    uint8_t pixels[BYTES], exif[EXIF];
    fill_pixels(pixels);
    make_exif(6, true, exif);
    struct bytes plain = make_webp(pixels), turned = make_turned_webp(pixels, exif);
    check_cuts(context, plain, plain.count, "WebP");
    /* Without its EXIF chunk, the picture has all its pixels. */
    check_cuts(context, turned, turned.count - EXIF - 8, "WebP");
    check_damage(context, plain);
    check_damage(context, turned);
    assert_fails(context, decode(context, plain.at, plain.count, WIDTH * HEIGHT - 1), L3A_ERROR_DATA,
                 "claims to have 14 x 10 pixels; the limit is 139 in all");
    assert_ok(context, decode(context, plain.at, plain.count, WIDTH * HEIGHT));
    plain.at[30] ^= 0xFF;
    assert_fails(context, decode(context, plain.at, plain.count, 0), L3A_ERROR_FORMAT,
                 "some.picture: the WebP file cannot be read: its pixels are damaged");
    assert_fails(context, decode(context, "RIFF\x10\0\0\0WEBPxxxx\4\0\0\0....", 24, 0), L3A_ERROR_FORMAT,
                 "some.picture: the WebP file cannot be read: it has no complete picture");
    turned.at[24] = 0xFF; /* the width of the canvas */
    assert_fails(context, decode(context, turned.at, turned.count, 0), L3A_ERROR_FORMAT,
                 "some.picture: the WebP file cannot be read: its parts do not fit together");
    free(plain.at);
    free(turned.at);
    l3a_context_free(context);
}
#endif

#ifdef L3A_HAVE_HEIF
/* A file of the fuzz target's corpus. */
static struct bytes read_example(const char *name) {
    struct bytes file;
    char path[4096];
    const char *source = getenv("L3A_SOURCE");
    snprintf(path, sizeof path, "%s/fuzz/corpus/picture/%s", source ? source : ".", name);
    file.at = (uint8_t *)read_bytes(path, &file.count);
    return file;
}

static void test_heic(void **state) {
    (void)state;
    static const char *const names[] = {"good_heic", "good_heic_transparent", "good_heic_tiles", "good_avif"};
    l3a_context *context = make_context(1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct bytes file = read_example(names[i]);
        const char *format = l3a_picture_format(file.at, 64);
        if (format) {
            check_cuts(context, file, file.count, strcmp(format, "avif") == 0 ? "AVIF" : "HEIC");
            check_damage(context, file);
        }
        free(file.at);
    }
    struct bytes file = read_example("good_heic");
    assert_fails(context, decode(context, file.at, file.count, 16 * 16 - 1), L3A_ERROR_DATA, "claims to have");
    free(file.at);
    file = read_example("found_heic_of_itself");
    assert_fails(context, decode(context, file.at, file.count, 0), L3A_ERROR_FORMAT,
                 "some.picture: the picture is put together from more than 2048 parts, or from itself");
    free(file.at);
    l3a_context_free(context);
}

/* ---- References ----------------------------------------------------------------------------------------------------- */
struct edge {
    unsigned from, to;
};

static void put_number(struct bytes *file, unsigned value, size_t size) {
    for (size_t i = size; i-- > 0;) {
        file->at[file->count++] = (uint8_t)(value >> 8 * i);
    }
}

/* A file with nothing but references, a box for each; the numbers have 2 bytes, or 4 in version 1. */
static struct bytes make_references(const char *type, const struct edge *edges, size_t count, unsigned version) {
    const size_t number = version ? 4 : 2, box = 8 + 2 * number + 2, iref = 12 + count * box;
    struct bytes file = {malloc(iref + 12), 0};
    assert_non_null(file.at);
    put_number(&file, (unsigned)(iref + 12), 4);
    memcpy(file.at + 4, "meta", 4);
    file.count = 8;
    put_number(&file, 0, 4);
    put_number(&file, (unsigned)iref, 4);
    memcpy(file.at + 16, "iref", 4);
    file.count = 20;
    put_number(&file, version << 24, 4);
    for (size_t i = 0; i < count; i++) {
        put_number(&file, (unsigned)box, 4);
        memcpy(file.at + file.count, type, 4);
        file.count += 4;
        put_number(&file, edges[i].from, number);
        put_number(&file, 1, 2);
        put_number(&file, edges[i].to, number);
    }
    return file;
}

static void check_parts(const char *type, const struct edge *edges, size_t count, bool good) {
    l3a_context *context = make_context(1);
    for (unsigned version = 0; version < 2; version++) {
        struct bytes file = make_references(type, edges, count, version);
        const struct picture_bytes source = {.context = context, .name = "a", .bytes = file.at, .count = file.count};
        assert_int_equal(heif_check_parts(&source, 1), good ? L3A_OK : L3A_ERROR_FORMAT);
        free(file.at);
    }
    l3a_context_free(context);
}

static void test_parts(void **state) {
    (void)state;
    enum { MANY = 9000 };
    static struct edge many[MANY];
    check_parts("dimg", NULL, 0, true);
    check_parts("dimg", (struct edge[]){{1, 2}, {1, 3}, {2, 3}, {2, 3}}, 4, true);
    check_parts("dimg", (struct edge[]){{4, 4}, {1, 2}}, 2, true); /* nothing that is needed */
    check_parts("dimg", (struct edge[]){{1, 1}}, 1, false);
    check_parts("dimg", (struct edge[]){{1, 2}, {2, 3}, {3, 1}}, 3, false);
    check_parts("thmb", (struct edge[]){{1, 1}}, 1, true);
    check_parts("auxl", (struct edge[]){{2, 1}, {3, 2}}, 2, true);
    check_parts("auxl", (struct edge[]){{2, 1}, {3, 2}, {1, 3}}, 3, false);
    /* Each level twice as often as the one before. */
    for (unsigned i = 0; i < 14; i++) {
        many[i] = (struct edge){1 + i / 2, 2 + i / 2};
    }
    check_parts("dimg", many, 12, true);
    check_parts("dimg", many, 14, true);
    many[14] = (struct edge){8, 9};
    check_parts("dimg", many, 15, false);
    for (unsigned i = 0; i < MANY; i++) {
        many[i] = (struct edge){1, i + 2};
    }
    check_parts("dimg", many, 2047, true);
    check_parts("dimg", many, 2048, false);
    check_parts("dimg", many, MANY, false);
    check_parts("uuid", (struct edge[]){{1, 2}}, 1, false); /* it would have a longer header */
}

/* libheif does not look at the size of a box of references, so one that does not fit could hide others. */
static void test_damaged_references(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    struct bytes file = make_references("dimg", (struct edge[]){{1, 2}, {3, 4}}, 2, 0);
    struct picture_bytes source = {.context = context, .name = "a", .bytes = file.at, .count = file.count};
    const size_t sizes[] = {3, 15, 24 + 3, 24 + 14 + 3}, counts[] = {24 + 11, 24 + 14 + 11};
    assert_ok(context, heif_check_parts(&source, 1));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int step = -1; step <= 1; step += 2) {
            file.at[sizes[i]] = (uint8_t)(file.at[sizes[i]] + step);
            const l3a_status status = heif_check_parts(&source, 1);
            assert_true(status == L3A_ERROR_FORMAT || i == 0);
            file.at[sizes[i]] = (uint8_t)(file.at[sizes[i]] - step);
        }
    }
    for (size_t i = 0; i < 2; i++) {
        file.at[counts[i]]++;
        assert_fails(context, heif_check_parts(&source, 1), L3A_ERROR_FORMAT, "the references between its parts are damaged");
        file.at[counts[i]]--;
    }
    file.at[20] = 2; /* a version that does not exist */
    assert_int_equal(heif_check_parts(&source, 1), L3A_ERROR_FORMAT);
    free(file.at);
    l3a_context_free(context);
}

/* ---- Threads -------------------------------------------------------------------------------------------------------- */
static void test_loader(void **state) {
    (void)state;
    enum { PICTURES = 60, KINDS = 4, SIDE = 16, VALUES = 3 * SIDE * SIDE };
    static const char *const names[KINDS] = {"good_heic", "good_heic_tiles", "good_webp_lossy", "good_avif"};
    static float expected[PICTURES][VALUES], planes[VALUES];
    char *paths[PICTURES];
    const char *source = getenv("L3A_SOURCE");
    for (size_t i = 0; i < PICTURES; i++) {
        assert_true(asprintf(&paths[i], "%s/fuzz/corpus/picture/%s", source ? source : ".", names[i % KINDS]) > 0);
    }
    for (int threads = 1; threads <= 8; threads += 7) {
        l3a_context *context = make_context(threads);
        l3a_loader *loader = NULL;
        const l3a_loader_options options = {.size = sizeof options, .width = SIDE, .height = SIDE};
        size_t index;
        assert_ok(context, l3a_loader_create(context, (const char *const *)paths, PICTURES, &options, &loader));
        for (size_t i = 0; i < PICTURES; i++) {
            const l3a_status status = l3a_loader_next(loader, &index, planes);
            assert_int_equal(index, i);
            if (status == L3A_OK && threads == 1) {
                memcpy(expected[i], planes, sizeof planes);
            }
            assert_true(status != L3A_OK || memcmp(planes, expected[i], sizeof planes) == 0);
            assert_true(status == L3A_OK || i % KINDS > 1);
        }
        l3a_loader_free(loader);
        l3a_context_free(context);
    }
    free_paths(paths, PICTURES);
}
#endif

/* ---- Failing allocations --------------------------------------------------------------------------------------------- */
static void check_no_memory(struct bytes file) {
    struct memory_probe memory = {0};
    l3a_context *context = make_probed_context(&memory, 1);
    size_t failures = 0;
    for (l3a_status status = L3A_ERROR_MEMORY; status != L3A_OK; failures++) {
        probe_restart(&memory, failures + 1, false);
        status = decode(context, file.at, file.count, 0);
        assert_true(status == L3A_OK || status == L3A_ERROR_MEMORY);
        assert_int_equal(memory.blocks, 1);
    }
    assert_true(failures > 1);
    l3a_context_free(context);
    free(file.at);
}

static void test_no_memory(void **state) {
    (void)state;
    uint8_t pixels[BYTES], exif[EXIF];
    fill_pixels(pixels);
    make_exif(6, true, exif);
    check_no_memory(make_png(pixels, exif));
#ifdef L3A_HAVE_WEBP
    check_no_memory(make_turned_webp(pixels, exif));
#endif
#ifdef L3A_HAVE_HEIF
    check_no_memory(read_example("good_heic_tiles"));
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),       cmocka_unit_test(test_cut_characters), cmocka_unit_test(test_formats),
        cmocka_unit_test(test_orientation),
#ifdef L3A_HAVE_WEBP
        cmocka_unit_test(test_webp),
#endif
#ifdef L3A_HAVE_HEIF
        cmocka_unit_test(test_heic),        cmocka_unit_test(test_parts),          cmocka_unit_test(test_damaged_references),
        cmocka_unit_test(test_loader),
#endif
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
