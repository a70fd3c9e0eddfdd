/* Pictures from files that are not what they seem: errors, limits, and the loader. That the pixels are right is compared
 * with Pillow, in oracle/test_pictures.py. */
#include "support.h"

#include "base/file.h"
#include "base/random.h"
#include "memory_probe.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>

enum { WIDTH = 70, HEIGHT = 50, BYTES = 3 * WIDTH * HEIGHT };

static void fill_pixels(uint8_t *pixels) {
    for (size_t i = 0; i < BYTES; i++) {
        pixels[i] = (uint8_t)(random_bits(4, i / 30) + i % 7);
    }
}

enum { MANY_SCANS = 3 + 3 * 63 * 3 };

/* As many scans as a picture can have and still be in order: each coefficient by itself, and then bit by bit. */
static void set_many_scans(struct jpeg_compress_struct *coder, jpeg_scan_info scans[MANY_SCANS]) {
    size_t at = 0;
    for (int component = 0; component < 3; component++) {
        scans[at++] = (jpeg_scan_info){1, {component}, 0, 0, 0, 0};
        for (int coefficient = 1; coefficient < 64; coefficient++) {
            scans[at++] = (jpeg_scan_info){1, {component}, coefficient, coefficient, 0, 2};
            scans[at++] = (jpeg_scan_info){1, {component}, coefficient, coefficient, 2, 1};
            scans[at++] = (jpeg_scan_info){1, {component}, coefficient, coefficient, 1, 0};
        }
    }
    coder->scan_info = scans;
    coder->num_scans = MANY_SCANS;
}

enum { BASELINE, PROGRESSIVE, MANY };

static uint8_t *make_jpeg(int kind, size_t *count) {
    struct jpeg_compress_struct coder;
    struct jpeg_error_mgr errors;
    uint8_t pixels[BYTES], *bytes = NULL;
    unsigned long size = 0;
    fill_pixels(pixels);
    coder.err = jpeg_std_error(&errors);
    jpeg_create_compress(&coder);
    jpeg_mem_dest(&coder, &bytes, &size);
    coder.image_width = WIDTH;
    coder.image_height = HEIGHT;
    coder.input_components = 3;
    coder.in_color_space = JCS_RGB;
    jpeg_set_defaults(&coder);
    jpeg_scan_info scans[MANY_SCANS];
    if (kind == PROGRESSIVE) {
        jpeg_simple_progression(&coder);
    } else if (kind == MANY) {
        set_many_scans(&coder, scans);
    }
    jpeg_start_compress(&coder, TRUE);
    while (coder.next_scanline < HEIGHT) {
        JSAMPROW row = pixels + 3 * WIDTH * coder.next_scanline;
        jpeg_write_scanlines(&coder, &row, 1);
    }
    jpeg_finish_compress(&coder);
    jpeg_destroy_compress(&coder);
    *count = size;
    return bytes;
}

static uint8_t *make_png(size_t *count) {
    png_image image = {.version = PNG_IMAGE_VERSION, .width = WIDTH, .height = HEIGHT, .format = PNG_FORMAT_RGB};
    uint8_t pixels[BYTES], *bytes = malloc(2 * BYTES);
    png_alloc_size_t size = 2 * BYTES;
    fill_pixels(pixels);
    assert_non_null(bytes);
    assert_true(png_image_write_to_memory(&image, bytes, &size, 0, pixels, 0, NULL));
    *count = size;
    return bytes;
}

static l3a_status decode(l3a_context *context, const void *bytes, size_t count) {
    l3a_picture picture = {.size = sizeof picture};
    const l3a_status status = l3a_picture_decode(context, "some.picture", bytes, count, NULL, &picture);
    assert_true((status == L3A_OK) == (picture.pixels != NULL));
    l3a_picture_free(context, &picture);
    return status;
}

static void test_png_pixels(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    l3a_picture picture = {.size = sizeof picture};
    uint8_t pixels[BYTES];
    size_t count;
    uint8_t *bytes = make_png(&count);
    fill_pixels(pixels);
    assert_ok(context, l3a_picture_decode(context, "a.png", bytes, count, NULL, &picture));
    assert_int_equal(picture.width, WIDTH);
    assert_int_equal(picture.height, HEIGHT);
    assert_memory_equal(picture.pixels, pixels, BYTES);
    l3a_picture_free(context, &picture);
    free(bytes);
    l3a_context_free(context);
}

static void test_other_files(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    l3a_picture picture = {.size = sizeof picture};
    assert_fails(context, decode(context, "", 0), L3A_ERROR_TRUNCATED, "some.picture: the file is empty");
    assert_fails(context, decode(context, NULL, 0), L3A_ERROR_TRUNCATED, "empty");
    assert_fails(context, decode(context, "hello", 5), L3A_ERROR_FORMAT, "some.picture: this is a text, not a picture");
    assert_true(strstr(l3a_error_hint(context), "leave it out") != NULL);
    assert_fails(context, decode(context, "GIF89a", 6), L3A_ERROR_FORMAT, "this is a GIF picture, which l3a does not read");
    assert_true(strstr(l3a_error_hint(context), "convert it to JPEG, PNG") != NULL ||
                strstr(l3a_error_hint(context), "convert it to JPEG or PNG") != NULL);
    assert_fails(context, decode(context, "\xFF\xD8\xFF", 3), L3A_ERROR_TRUNCATED, "byte 3");
    assert_fails(context, decode(context, "\x89PNG\r\n\x1a\n", 8), L3A_ERROR_TRUNCATED, "byte 8");
    assert_fails(context, l3a_picture_read(context, "/no/such/file.jpg", NULL, &picture), L3A_ERROR_NOT_FOUND, "/no/such/file.jpg");
    assert_fails(context, l3a_picture_read(context, "/", NULL, &picture), L3A_ERROR_IO, "/");
    assert_int_equal(l3a_picture_read(context, NULL, NULL, &picture), L3A_ERROR_ARGUMENT);
    assert_int_equal(l3a_picture_decode(context, "a", NULL, 1, NULL, &picture), L3A_ERROR_ARGUMENT);
    assert_null(picture.pixels);
    l3a_context_free(context);
}

/* Every cut of a file gives an error that says where it ends, except one that takes only the end marker. */
static void test_truncated(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    for (int kind = 0; kind < 3; kind++) {
        size_t count;
        uint8_t *bytes = kind == 2 ? make_png(&count) : make_jpeg(kind, &count);
        assert_ok(context, decode(context, bytes, count));
        const size_t needed = kind == 0 ? count - 2 : kind == 1 ? count : count - 12;
        for (size_t cut = 8; cut < needed; cut++) {
            uint8_t *copy = malloc(cut);
            char where[64];
            assert_non_null(copy);
            memcpy(copy, bytes, cut);
            snprintf(where, sizeof where, "some.picture: the %s file ends at byte %zu", kind == 2 ? "PNG" : "JPEG", cut);
            if (decode(context, copy, cut) == L3A_OK) {
                assert_true(cut + 8 > needed);
            } else {
                assert_fails(context, decode(context, copy, cut), L3A_ERROR_TRUNCATED, where);
            }
            free(copy);
        }
        assert_int_equal(decode(context, bytes, needed), L3A_OK);
        free(bytes);
    }
    l3a_context_free(context);
}

/* A changed byte is an error or a picture, and never anything worse. */
static void test_damaged(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    size_t errors = 0;
    for (int kind = 0; kind < 3; kind++) {
        size_t count;
        uint8_t *bytes = kind == 2 ? make_png(&count) : make_jpeg(kind, &count);
        for (size_t at = 0; at < count; at += 3) {
            const uint8_t before = bytes[at];
            bytes[at] ^= (uint8_t)(1u << (at % 8));
            const l3a_status status = decode(context, bytes, count);
            errors += status != L3A_OK;
            assert_true(status == L3A_OK || strncmp(l3a_error_text(context), "some.picture: ", 14) == 0);
            bytes[at] = before;
        }
        free(bytes);
    }
    assert_true(errors > 100);
    l3a_context_free(context);
}

static void put16(uint8_t *at, unsigned value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* The frame header, 0xFFC0, has the height 5 bytes after the marker. */
static uint8_t *frame_of(uint8_t *bytes, size_t count) {
    for (size_t i = 2; i + 9 < count; i++) {
        if (bytes[i] == 0xFF && (bytes[i + 1] == 0xC0 || bytes[i + 1] == 0xC2)) {
            return bytes + i;
        }
    }
    fail_msg("no frame header");
    return NULL;
}

static void test_pixel_limit(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    l3a_picture picture = {.size = sizeof picture};
    l3a_picture_options options = {.size = sizeof options};
    size_t count;
    uint8_t *bytes = make_jpeg(BASELINE, &count);
    options.pixel_limit = WIDTH * HEIGHT - 1;
    assert_fails(context, l3a_picture_decode(context, "a.jpg", bytes, count, &options, &picture), L3A_ERROR_DATA,
                 "a.jpg: claims to have 70 x 50 pixels; the limit is 3499");
    options.pixel_limit++;
    assert_ok(context, l3a_picture_decode(context, "a.jpg", bytes, count, &options, &picture));
    l3a_picture_free(context, &picture);
    put16(frame_of(bytes, count) + 5, 60000);
    put16(frame_of(bytes, count) + 7, 60000);
    assert_fails(context, decode(context, bytes, count), L3A_ERROR_DATA, "60000 x 60000");
    assert_true(strstr(l3a_error_hint(context), "pixel_limit") != NULL);
    free(bytes);
    static const char huge[] = "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\xea\x60\0\0\xea\x60\x08\x02\0\0\0"
                               "\x0f\xb0\xe2\x15"
                               "\0\0\0\0IDAT\x35\xaf\x06\x1e";
    assert_fails(context, decode(context, huge, sizeof huge - 1), L3A_ERROR_DATA, "60000 x 60000");
    l3a_context_free(context);
}

/* What has far more bytes than a picture of that many pixels is not even looked at, in a file or in memory. */
static void test_size_limit(void **state) {
    enum { METADATA = 64 << 20, LARGE = METADATA + 8 + 1 }; /* 8 for a pixel, and one too many */
    (void)state;
    l3a_context *context = make_context(1);
    l3a_picture picture = {.size = sizeof picture};
    const l3a_picture_options options = {.size = sizeof options, .pixel_limit = 1};
    char *folder = make_temporary_folder(), *path = path_in(folder, "large.jpg"), *bytes = calloc(LARGE, 1);
    write_bytes(path, "", 0);
    assert_int_equal(truncate(path, LARGE), 0);
    assert_fails(context, l3a_picture_read(context, path, &options, &picture), L3A_ERROR_FORMAT,
                 "large.jpg: 67108873 bytes; a picture within the pixel limit has at most 67108872");
    assert_fails(context, l3a_picture_decode(context, "some bytes", bytes, LARGE, &options, &picture), L3A_ERROR_FORMAT,
                 "some bytes: 67108873 bytes; a picture within the pixel limit has at most 67108872");
    free(bytes);
    remove_folder(folder);
    free(path);
    l3a_context_free(context);
}

static void test_scan_limit(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    size_t count;
    uint8_t *bytes = make_jpeg(MANY, &count);
    assert_fails(context, decode(context, bytes, count), L3A_ERROR_FORMAT, "some.picture: more than 500 scans at byte");
    free(bytes);
    l3a_context_free(context);
}

/* ---- Failing allocations -------------------------------------------------------------------------------------------- */
static l3a_status read_and_resize(l3a_context *context, const char *path) {
    l3a_status status = L3A_OK;
    l3a_picture picture = {.size = sizeof picture}, resized = {.size = sizeof resized};
    const l3a_picture_options options = {.size = sizeof options, .pixel_limit = 1000000, .orient = 1};
    TRY(l3a_picture_read(context, path, &options, &picture));
    TRY(l3a_picture_resize(context, &picture, 33, 44, L3A_FILTER_BICUBIC, &resized));
done:
    l3a_picture_free(context, &picture);
    l3a_picture_free(context, &resized);
    return status;
}

static void test_no_memory(void **state) {
    (void)state;
    struct memory_probe memory = {0};
    l3a_context *context = make_probed_context(&memory, 1);
    char *folder = make_temporary_folder(), *path = path_in(folder, "a.jpg");
    size_t count;
    uint8_t *bytes = make_jpeg(BASELINE, &count);
    write_bytes(path, bytes, count);
    size_t failures = 0;
    for (;; failures++) {
        probe_restart(&memory, failures + 1, false);
        const l3a_status status = read_and_resize(context, path);
        assert_int_equal(memory.blocks, 1);
        if (status == L3A_OK) {
            break;
        }
        assert_int_equal(status, L3A_ERROR_MEMORY);
    }
    assert_true(failures > 5);
    free(bytes);
    free(path);
    remove_folder(folder);
    l3a_context_free(context);
    assert_int_equal(memory.blocks, 0);
}

/* ---- Loader --------------------------------------------------------------------------------------------------------- */
enum { PICTURES = 40, MISSING = 7, DAMAGED = 20, SIDE = 32 };

struct folder {
    char *path;
    char *paths[PICTURES];
};

/* Pictures in the colour of their number, but for one that is missing and one that is cut short. */
static struct folder make_folder_of_pictures(void) {
    struct folder folder = {.path = make_temporary_folder()};
    for (int i = 0; i < PICTURES; i++) {
        char name[32];
        uint8_t pixels[BYTES], bytes[4096];
        png_image image = {.version = PNG_IMAGE_VERSION, .width = WIDTH, .height = HEIGHT, .format = PNG_FORMAT_RGB};
        png_alloc_size_t size = sizeof bytes;
        snprintf(name, sizeof name, "%d.png", i);
        memset(pixels, i, sizeof pixels);
        assert_true(png_image_write_to_memory(&image, bytes, &size, 0, pixels, 0, NULL));
        folder.paths[i] = path_in(folder.path, name);
        if (i != MISSING) {
            write_bytes(folder.paths[i], bytes, i == DAMAGED ? size - 20 : size);
        }
    }
    return folder;
}

static void remove_pictures(struct folder *folder) {
    for (int i = 0; i < PICTURES; i++) {
        free(folder->paths[i]);
    }
    remove_folder(folder->path);
}

static l3a_loader *make_loader(l3a_context *context, const struct folder *folder, size_t ahead) {
    l3a_loader *loader = NULL;
    l3a_loader_options options = {.size = sizeof options};
    options.width = options.height = SIDE;
    options.mean[1] = 0.5f;
    options.deviation[2] = 2;
    options.ahead = ahead;
    assert_ok(context, l3a_loader_create(context, (const char *const *)folder->paths, PICTURES, &options, &loader));
    return loader;
}

static void check_next(l3a_context *context, l3a_loader *loader, size_t expected) {
    static float planes[3 * SIDE * SIDE];
    size_t index = SIZE_MAX;
    const l3a_status status = l3a_loader_next(loader, &index, planes);
    assert_int_equal(index, expected);
    if (expected == MISSING) {
        assert_fails(context, status, L3A_ERROR_NOT_FOUND, "/7.png");
        assert_true(strstr(l3a_error_hint(context), "path") != NULL);
    } else if (expected == DAMAGED) {
        assert_fails(context, status, L3A_ERROR_TRUNCATED, "/20.png");
    } else {
        assert_ok(context, status);
    }
    for (size_t i = 0; status == L3A_OK && expected < PICTURES && i < SIDE * SIDE; i++) {
        assert_float_equal(planes[i], (float)expected / 255, 1e-6f);
        assert_float_equal(planes[SIDE * SIDE + i], (float)expected / 255 - 0.5f, 1e-6f);
        assert_float_equal(planes[2 * SIDE * SIDE + i], (float)expected / 510, 1e-6f);
    }
}

static void test_loader_order(void **state) {
    (void)state;
    struct folder folder = make_folder_of_pictures();
    for (int threads = 1; threads <= 5; threads++) {
        for (size_t ahead = 0; ahead <= 9; ahead += 3) {
            struct memory_probe memory = {0};
            l3a_context *context = make_probed_context(&memory, threads);
            l3a_loader *loader = make_loader(context, &folder, ahead);
            for (size_t i = 0; i < PICTURES; i++) {
                check_next(context, loader, i);
            }
            check_next(context, loader, PICTURES);
            check_next(context, loader, PICTURES);
            l3a_loader_free(loader);
            l3a_context_free(context);
            assert_int_equal(memory.blocks, 0);
        }
    }
    remove_pictures(&folder);
}

static void test_loader_freed_early(void **state) {
    (void)state;
    struct folder folder = make_folder_of_pictures();
    for (size_t taken = 0; taken < 12; taken++) {
        struct memory_probe memory = {0};
        l3a_context *context = make_probed_context(&memory, 1 + (int)taken % 4);
        l3a_loader *loader = make_loader(context, &folder, 1 + taken % 5);
        for (size_t i = 0; i < taken; i++) {
            check_next(context, loader, i);
        }
        l3a_loader_free(loader);
        l3a_context_free(context);
        assert_int_equal(memory.blocks, 0);
    }
    l3a_loader_free(NULL);
    remove_pictures(&folder);
}

static int cancel_when_asked(const l3a_event *event, void *user) {
    if (event->kind == L3A_EVENT_PROGRESS) {
        assert_int_equal(event->total, PICTURES);
    }
    return *(const int *)user;
}

static void test_loader_cancelled(void **state) {
    (void)state;
    struct folder folder = make_folder_of_pictures();
    int cancel = 0;
    l3a_context_options options = {.size = sizeof options};
    l3a_context *context = NULL;
    float planes[3 * SIDE * SIDE];
    size_t index = 99;
    options.threads = 3;
    options.on_event = cancel_when_asked;
    options.event_user = &cancel;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    l3a_loader *loader = make_loader(context, &folder, 4);
    check_next(context, loader, 0);
    cancel = 1;
    assert_fails(context, l3a_loader_next(loader, &index, planes), L3A_ERROR_CANCELLED, "cancelled");
    assert_int_equal(index, 99);
    cancel = 0;
    check_next(context, loader, 1);
    l3a_loader_free(loader);
    l3a_context_free(context);
    remove_pictures(&folder);
}

/* The N-th allocation fails, wherever it is: the loader is refused, or a picture gives the error, and the rest goes on. */
static void test_loader_no_memory(void **state) {
    (void)state;
    struct folder folder = make_folder_of_pictures();
    for (int threads = 1; threads <= 3; threads += 2) {
        for (size_t failing = 0; failing < 100; failing++) {
            struct memory_probe memory = {0};
            l3a_context *context = make_probed_context(&memory, threads);
            l3a_loader *loader = NULL;
            float planes[6 * 3 * SIDE * SIDE];
            l3a_loader_options options = {.size = sizeof options, .views = failing % 2 ? 5 : 1};
            size_t index = 0, errors = 0;
            options.width = options.height = SIDE;
            probe_restart(&memory, failing + 1, false);
            const l3a_status made = l3a_loader_create(context, (const char *const *)folder.paths, PICTURES, &options, &loader);
            assert_true(made == L3A_OK || made == L3A_ERROR_MEMORY);
            while (made == L3A_OK && index < PICTURES) {
                errors += l3a_loader_next(loader, &index, planes) != L3A_OK;
            }
            assert_true(made != L3A_OK || errors == 2 || errors == 3);
            l3a_loader_free(loader);
            l3a_context_free(context);
            assert_int_equal(memory.blocks, 0);
        }
    }
    remove_pictures(&folder);
}

static void test_loader_arguments(void **state) {
    (void)state;
    l3a_context *context = make_context(2);
    l3a_loader *loader = NULL;
    l3a_loader_options options = {.size = sizeof options};
    const char *const paths[] = {"/none"};
    float planes[3];
    size_t index = 5;
    options.deviation[1] = -1;
    assert_fails(context, l3a_loader_create(context, paths, 1, &options, &loader), L3A_ERROR_ARGUMENT, "deviation -1");
    options.deviation[1] = 0;
    options.views = 3;
    assert_fails(context, l3a_loader_create(context, paths, 1, &options, &loader), L3A_ERROR_ARGUMENT, "cannot have 3 views");
    assert_string_equal(l3a_error_hint(context), "use 1, 5, 9 or 14");
    options.views = 14;
    options.width = SIZE_MAX;
    assert_fails(context, l3a_loader_create(context, paths, 1, &options, &loader), L3A_ERROR_ARGUMENT, "x 224");
    options.width = options.height = 1 << 24;
    options.ahead = SIZE_MAX;
    assert_fails(context, l3a_loader_create(context, paths, 1, &options, &loader), L3A_ERROR_MEMORY, "memory limit");
    assert_int_equal(l3a_loader_create(context, NULL, 1, NULL, &loader), L3A_ERROR_ARGUMENT);
    assert_null(loader);
    assert_ok(context, l3a_loader_create(context, NULL, 0, NULL, &loader));
    assert_ok(context, l3a_loader_next(loader, &index, planes));
    assert_int_equal(index, 0);
    assert_int_equal(l3a_loader_next(loader, NULL, planes), L3A_ERROR_ARGUMENT);
    l3a_loader_free(loader);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_png_pixels),       cmocka_unit_test(test_other_files),
                                       cmocka_unit_test(test_truncated),        cmocka_unit_test(test_damaged),
                                       cmocka_unit_test(test_pixel_limit),      cmocka_unit_test(test_size_limit),
                                       cmocka_unit_test(test_scan_limit),       cmocka_unit_test(test_no_memory),
                                       cmocka_unit_test(test_loader_order),     cmocka_unit_test(test_loader_freed_early),
                                       cmocka_unit_test(test_loader_cancelled), cmocka_unit_test(test_loader_no_memory),
                                       cmocka_unit_test(test_loader_arguments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
