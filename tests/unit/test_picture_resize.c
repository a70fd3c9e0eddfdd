/* Resizing: the vector loops, the plain ones and the definition computed naively give the same bytes, for every small size
 * and for large ones, for all of a picture and for windows, at once and in strips; and nothing is read or written outside a
 * picture. */
#include "support.h"

#include "base/memory.h"
#include "base/random.h"
#include "image/resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 3 };

static double filter_value(l3a_filter filter, double x) {
    x = fabs(x);
    if (filter == L3A_FILTER_BILINEAR) {
        return x < 1 ? 1 - x : 0;
    }
    return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? -0.5 * (((x - 5) * x + 8) * x - 4) : 0;
}

/* One line of samples, `step` bytes apart. Those of the part, `span` from `start` on, are resized; the filter sees the others, too.
 */
static void naive_line(const uint8_t *from, size_t input, size_t start, size_t span, size_t step, uint8_t *to, size_t output,
                       size_t to_step, l3a_filter filter) {
    const double scale = (double)span / (double)output, stretch = scale > 1 ? scale : 1;
    const double radius = (filter == L3A_FILTER_BILINEAR ? 1 : 2) * stretch;
    for (size_t i = 0; i < output; i++) {
        const double centre = (double)start + ((double)i + 0.5) * scale;
        const long low = (long)fmax(0, floor(centre - radius + 0.5)),
                   high = (long)fmin((double)input, floor(centre + radius + 0.5));
        double sum = 0;
        int64_t total = 1 << 21;
        for (long j = low; j < high; j++) {
            sum += filter_value(filter, ((double)j - centre + 0.5) * (1 / stretch));
        }
        for (long j = low; j < high; j++) {
            const double weight = filter_value(filter, ((double)j - centre + 0.5) * (1 / stretch)) / sum;
            total += llround(weight * 4194304) * from[(size_t)j * step];
        }
        const double value = floor((double)total / 4194304);
        to[i * to_step] = (uint8_t)fmin(255, fmax(0, value));
    }
}

static void naive_part(const struct raster *from, struct view_box part, size_t width, size_t height, l3a_filter filter,
                       uint8_t *to) {
    uint8_t *between = malloc(CHANNELS * width * from->height);
    assert_non_null(between);
    for (size_t y = 0; y < from->height; y++) {
        for (size_t c = 0; c < CHANNELS; c++) {
            const uint8_t *row = from->pixels + CHANNELS * from->width * y + c;
            uint8_t *out = between + CHANNELS * width * y + c;
            if (width != part.width) {
                naive_line(row, from->width, part.left, part.width, CHANNELS, out, width, CHANNELS, filter);
                continue;
            }
            for (size_t x = 0; x < width; x++) {
                out[CHANNELS * x] = row[CHANNELS * (part.left + x)];
            }
        }
    }
    if (height == part.height) {
        memcpy(to, between + CHANNELS * width * part.top, CHANNELS * width * height);
    }
    for (size_t x = 0; height != part.height && x < CHANNELS * width; x++) {
        naive_line(between + x, from->height, part.top, part.height, CHANNELS * width, to + x, height, CHANNELS * width, filter);
    }
    free(between);
}

static void naive(const struct raster *from, size_t width, size_t height, l3a_filter filter, uint8_t *to) {
    naive_part(from, (struct view_box){.width = from->width, .height = from->height}, width, height, filter, to);
}

/* In memory of exactly its size, so that a sanitizer sees a byte too many. Every third one is black and white. */
static struct raster make_picture(l3a_context *context, size_t width, size_t height, uint64_t seed) {
    struct raster picture = {0};
    assert_ok(context, raster_shape(context, &picture, width, height));
    for (size_t i = 0; i < CHANNELS * width * height; i++) {
        const uint8_t value = (uint8_t)random_bits(seed, i);
        picture.pixels[i] = seed % 3 ? value : value & 1 ? 255 : 0;
    }
    return picture;
}

static void *exact_allocate(void *user, size_t bytes) {
    (void)user;
    return malloc(bytes);
}

static void plain_release(void *user, void *memory) {
    (void)user;
    free(memory);
}

static l3a_context *exact_context(void) {
    l3a_context_options options = {.size = sizeof options};
    l3a_context *context = NULL;
    options.allocate = exact_allocate;
    options.release = plain_release;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    return context;
}

static void compare(l3a_context *context, size_t width, size_t height, size_t to_width, size_t to_height) {
    const kernel_table *tables[KERNEL_TABLES];
    const size_t table_count = picture_kernels_usable(tables);
    struct raster from = make_picture(context, width, height, width * 1000 + height + to_width);
    uint8_t *expected = malloc(CHANNELS * to_width * to_height);
    assert_non_null(expected);
    for (l3a_filter filter = L3A_FILTER_BILINEAR; filter <= L3A_FILTER_BICUBIC; filter++) {
        naive(&from, to_width, to_height, filter, expected);
        for (size_t i = 0; i < table_count; i++) {
            struct resizer resizer = {.context = context, .kernels = tables[i], .strip_limit = (width + to_height) % 4 * 400};
            struct raster to = {0};
            assert_ok(context, resize(&resizer, &from, to_width, to_height, filter, &to));
            if (memcmp(to.pixels, expected, CHANNELS * to_width * to_height) != 0) {
                fail_msg("%zux%zu to %zux%zu, filter %d, kernels %zu", width, height, to_width, to_height, (int)filter, i);
            }
            raster_free(context, &to);
            resizer_free(&resizer);
        }
    }
    free(expected);
    raster_free(context, &from);
}

static struct view_box random_part(const size_t size[2], uint64_t seed) {
    struct view_box part;
    part.left = (size_t)(random_uniform(seed, 0) * (double)size[0]);
    part.top = (size_t)(random_uniform(seed, 1) * (double)size[1]);
    part.width = 1 + (size_t)(random_uniform(seed, 2) * (double)(size[0] - part.left));
    part.height = 1 + (size_t)(random_uniform(seed, 3) * (double)(size[1] - part.top));
    return part;
}

/* The windows of a part of a picture, with a resizer that keeps their weights, are what the whole of it has there. */
static void compare_windows_of(l3a_context *context, const size_t size[2], struct view_box part, const size_t whole[2],
                               uint64_t seed) {
    enum { WINDOWS = 6 };
    const kernel_table *tables[KERNEL_TABLES];
    const size_t table_count = picture_kernels_usable(tables);
    struct raster from = make_picture(context, size[0], size[1], seed), to = {0};
    uint8_t *all = malloc(CHANNELS * whole[0] * whole[1]);
    assert_non_null(all);
    for (l3a_filter filter = L3A_FILTER_BILINEAR; filter <= L3A_FILTER_BICUBIC; filter++) {
        naive_part(&from, part.width ? part : (struct view_box){.width = size[0], .height = size[1]}, whole[0], whole[1], filter,
                   all);
        for (size_t i = 0; i < table_count; i++) {
            struct resizer resizer = {.context = context, .kernels = tables[i], .strip_limit = seed % 4 * 400};
            for (uint64_t j = 0; j < WINDOWS; j++) {
                const uint64_t draw = (seed * WINDOWS + j) * 4 + part.width;
                const struct view_box wanted = random_part(whole, draw);
                const struct window window = {whole[0], whole[1], wanted.left, wanted.top, wanted.width, wanted.height, part};
                assert_ok(context, resize_window(&resizer, &from, &window, filter, &to));
                for (size_t y = 0; y < window.height; y++) {
                    if (memcmp(to.pixels + CHANNELS * window.width * y,
                               all + CHANNELS * (whole[0] * (window.top + y) + window.left), CHANNELS * window.width) != 0) {
                        fail_msg("%zux%zu to %zux%zu, %zux%zu at %zu, %zu: row %zu, filter %d, kernels %zu", size[0], size[1],
                                 whole[0], whole[1], window.width, window.height, window.left, window.top, y, (int)filter, i);
                    }
                }
                raster_free(context, &to); /* so that the next one has exactly its bytes */
            }
            resizer_free(&resizer);
        }
    }
    free(all);
    raster_free(context, &from);
}

static void compare_windows(l3a_context *context, const size_t size[2], const size_t whole[2], uint64_t seed) {
    compare_windows_of(context, size, (struct view_box){.width = 0}, whole, seed);
}

/* Parts of all sizes, also those that keep their width or height. */
static void test_parts(void **state) {
    (void)state;
    l3a_context *context = exact_context();
    for (uint64_t i = 0; i < 300; i++) {
        size_t size[4];
        for (uint64_t j = 0; j < 4; j++) {
            size[j] = 1 + (size_t)(random_uniform(16, 4 * i + j) * (i % 2 ? 90 : 12));
        }
        const struct view_box part = random_part(size, i);
        size[2] = i % 5 ? size[2] : part.width;
        size[3] = i % 7 ? size[3] : part.height;
        compare_windows_of(context, size, part, size + 2, 400 + i);
    }
    l3a_context_free(context);
}

static void test_windows(void **state) {
    (void)state;
    static const size_t sizes[][4] = {{500, 375, 341, 256}, {30, 2000, 30, 7},   {2000, 30, 7, 30},    {64, 48, 64, 48},
                                      {1000, 3, 5000, 15},  {3, 1000, 15, 5000}, {224, 168, 298, 224}, {1, 1, 40, 40}};
    l3a_context *context = exact_context();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        compare_windows(context, sizes[i], sizes[i] + 2, 3 + i);
    }
    for (uint64_t i = 0; i < 300; i++) {
        size_t size[4];
        for (uint64_t j = 0; j < 4; j++) {
            size[j] = 1 + (size_t)(random_uniform(15, 4 * i + j) * (i % 2 ? 90 : 12));
        }
        size[2] = i % 5 ? size[2] : size[0];
        size[3] = i % 7 ? size[3] : size[1];
        compare_windows(context, size, size + 2, 100 + i);
    }
    l3a_context_free(context);
}

static void test_small_sizes(void **state) {
    (void)state;
    l3a_context *context = exact_context();
    for (size_t from = 1; from <= 14; from++) {
        for (size_t to = 1; to <= 14; to++) {
            compare(context, from, 3, to, 4);
            compare(context, 12, from, 12, to);
            compare(context, from, to, to, from);
        }
    }
    l3a_context_free(context);
}

static void test_chosen_sizes(void **state) {
    (void)state;
    static const size_t sizes[][4] = {{224, 168, 224, 224}, {168, 224, 224, 224}, {500, 375, 224, 224}, {1000, 3, 7, 3},
                                      {3, 1000, 3, 7},      {4000, 2, 3, 2},      {11, 4000, 11, 3},    {1, 1, 64, 64},
                                      {2, 700, 5, 2},       {97, 61, 389, 13},    {33, 17, 32, 18},     {5, 5, 5, 5},
                                      {12, 2000, 12, 9},    {700, 30, 30, 700}};
    l3a_context *context = exact_context();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        compare(context, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]);
    }
    l3a_context_free(context);
}

static void test_random_sizes(void **state) {
    (void)state;
    l3a_context *context = exact_context();
    for (uint64_t i = 0; i < 300; i++) {
        size_t size[4];
        for (uint64_t j = 0; j < 4; j++) {
            size[j] = 1 + (size_t)(random_uniform(5, 4 * i + j) * (i % 2 ? 90 : 30));
        }
        compare(context, size[0], size[1], size[2], size[3]);
    }
    l3a_context_free(context);
}

/* A resizer keeps weights and memory; pictures of changing sizes and filters must not get those of another. */
static void test_reuse(void **state) {
    (void)state;
    l3a_context *context = exact_context();
    struct resizer kept = {.context = context, .kernels = picture_kernels()};
    struct raster to = {0};
    for (uint64_t i = 0; i < 60; i++) {
        const size_t width = 20 + (size_t)(random_uniform(9, i) * 4), height = 20 + (size_t)(random_uniform(10, i) * 4);
        const l3a_filter filter = random_uniform(11, i) < 0.5 ? L3A_FILTER_BILINEAR : L3A_FILTER_BICUBIC;
        struct resizer fresh = {.context = context, .kernels = picture_kernels()};
        struct raster from = make_picture(context, width, height, i), expected = {0};
        assert_ok(context, resize(&kept, &from, 23, 19, filter, &to));
        assert_ok(context, resize(&fresh, &from, 23, 19, filter, &expected));
        assert_memory_equal(to.pixels, expected.pixels, CHANNELS * 23 * 19);
        raster_free(context, &expected);
        raster_free(context, &from);
        resizer_free(&fresh);
    }
    raster_free(context, &to);
    resizer_free(&kept);
    l3a_context_free(context);
}

static void test_planes(void **state) {
    (void)state;
    enum { SHIFTS = 16 };
    const float scale[3] = {0.25f, 1 / 255.0f, 3}, offset[3] = {-1, 0.5f, -700};
    static const size_t counts[] = {0, 1, 7, 8, 9, 100, 2047, 2048, 2049, 4999};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        for (size_t shift = 0; shift < SHIFTS; shift++) {
            const size_t count = counts[i];
            uint8_t *pixels = malloc(CHANNELS * count + 1);
            float *values = malloc((3 * count + shift + 1) * sizeof *values), *expected = malloc((3 * count + 1) * sizeof *values);
            for (size_t j = 0; j < CHANNELS * count; j++) {
                pixels[j] = (uint8_t)random_bits(3, j);
            }
            float *const to[3] = {values + shift, values + shift + count, values + shift + 2 * count};
            float *const plain[3] = {expected, expected + count, expected + 2 * count};
            const kernel_table *tables[KERNEL_TABLES];
            plain_kernels.planes(pixels, count, scale, offset, plain);
            for (size_t table = picture_kernels_usable(tables); table-- > 0;) {
                tables[table]->planes(pixels, count, scale, offset, to);
                assert_memory_equal(values + shift, expected, 3 * count * sizeof *values);
            }
            for (size_t j = 0; j < count; j++) {
                assert_float_equal(expected[2 * count + j], 3.0f * (float)pixels[3 * j + 2] - 700, 1e-3f);
            }
            free(pixels);
            free(values);
            free(expected);
        }
    }
}

static void test_arguments(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    uint8_t pixel[3] = {1, 2, 3};
    const l3a_picture picture = {sizeof picture, 1, 1, pixel}, none = {sizeof none, 0, 0, pixel};
    l3a_picture to = {.size = sizeof to};
    assert_fails(context, l3a_picture_resize(context, &picture, 0, 5, L3A_FILTER_BILINEAR, &to), L3A_ERROR_ARGUMENT, "0 x 5");
    assert_fails(context, l3a_picture_resize(context, &picture, SIZE_MAX, 5, L3A_FILTER_BILINEAR, &to), L3A_ERROR_ARGUMENT, "x 5");
    assert_fails(context, l3a_picture_resize(context, &picture, 5, 5, (l3a_filter)7, &to), L3A_ERROR_ARGUMENT, "filter 7");
    assert_fails(context, l3a_picture_resize(context, &none, 5, 5, L3A_FILTER_BILINEAR, &to), L3A_ERROR_ARGUMENT, "0 x 0");
    assert_int_equal(l3a_picture_resize(context, NULL, 5, 5, L3A_FILTER_BILINEAR, &to), L3A_ERROR_ARGUMENT);
    assert_null(to.pixels);
    assert_ok(context, l3a_picture_resize(context, &picture, 2, 1, L3A_FILTER_BICUBIC, &to));
    assert_memory_equal(to.pixels, "\1\2\3\1\2\3", 6);
    l3a_picture_free(context, &to);
    l3a_picture_free(context, &to);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_small_sizes),  cmocka_unit_test(test_chosen_sizes),
                                       cmocka_unit_test(test_random_sizes), cmocka_unit_test(test_reuse),
                                       cmocka_unit_test(test_planes),       cmocka_unit_test(test_arguments),
                                       cmocka_unit_test(test_windows),      cmocka_unit_test(test_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
