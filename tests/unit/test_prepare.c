/* How a picture becomes a square: where its window lies, options that make no sense, and that neither time nor memory grows with a
 * picture's shape. That the bytes are right is compared with Pillow in oracle/test_pictures.py. */
#include "support.h"

#include "base/memory.h"
#include "base/random.h"
#include "image/prepare.h"
#include "memory_probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 3, SIDE = 224 };

static l3a_loader_options options_for(size_t side, double crop) {
    return (l3a_loader_options){
        .size = sizeof(l3a_loader_options), .width = side, .height = side, .deviation = {1, 1, 1}, .views = 1, .crop = crop};
}

/* By Python: m = math.floor(n / c); (m, int(m * long / short)) as torchvision's Resize(m), and int(round((whole - n) / 2.0)) as its
 * CenterCrop(n). */
static void test_windows(void **state) {
    (void)state;
    static const struct {
        size_t side;
        double crop;
        size_t width, height, expected[4]; /* whole width and height, left, top */
    } cases[] = {
        {224, 0, 500, 375, {224, 224, 0, 0}},
        {224, 0.875, 1, 1, {256, 256, 16, 16}},
        {224, 0.875, 1, 1000, {256, 256000, 16, 127888}},
        {224, 0.875, 223, 224, {256, 257, 16, 16}},
        {224, 0.875, 224, 223, {257, 256, 16, 16}},
        {224, 0.875, 500, 375, {341, 256, 58, 16}},
        {224, 0.875, 375, 500, {256, 341, 16, 58}},
        {224, 0.875, 10000, 3, {853333, 256, 426554, 16}},
        {224, 0.875, 1, 1 << 24, {256, 4294967296, 16, 2147483536}},
        {224, 0.9, 500, 375, {330, 248, 53, 12}},
        {224, 0.9, 4000, 3000, {330, 248, 53, 12}},
        {224, 0.95, 224, 224, {235, 235, 6, 6}},
        {224, 0.95, 10000, 3, {783333, 235, 391554, 6}},
        {224, 1, 224, 224, {224, 224, 0, 0}},
        {224, 1, 223, 224, {224, 225, 0, 0}},
        {384, 1, 333, 500, {384, 576, 0, 96}},
        {518, 1, 223, 224, {518, 520, 0, 1}},
        {518, 1, 333, 500, {518, 777, 0, 130}},
        {299, 0.875, 223, 224, {341, 342, 21, 22}},
        {299, 0.875, 10000, 3, {1136666, 341, 568184, 21}},
        {1 << 24, 1, 1, 1 << 24, {1 << 24, 281474976710656, 0, 140737479966720}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const l3a_loader_options options = options_for(cases[i].side, cases[i].crop);
        const struct window window = preparer_window(&options, cases[i].width, cases[i].height);
        const size_t found[] = {window.whole_width, window.whole_height, window.left, window.top};
        for (size_t j = 0; j < 4; j++) {
            if (found[j] != cases[i].expected[j]) {
                fail_msg("case %zu: number %zu is %zu rather than %zu", i, j, found[j], cases[i].expected[j]);
            }
        }
        assert_int_equal(window.width, cases[i].side);
        assert_int_equal(window.height, cases[i].side);
    }
}

/* Whatever the sizes: the window lies inside, and is in the middle up to a pixel. */
static void test_windows_fit(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 200000; i++) {
        const double crop = i % 3 ? 0.05 + 0.95 * random_uniform(1, i) : 1;
        const l3a_loader_options options = options_for(1 + (size_t)(random_uniform(2, i) * 700), crop);
        const size_t limit = i % 2 ? 40 : 5000;
        const struct window window = preparer_window(&options, 1 + (size_t)(random_uniform(3, i) * (double)limit),
                                                     1 + (size_t)(random_uniform(4, i) * (double)limit));
        const size_t right = window.whole_width - window.left - window.width,
                     bottom = window.whole_height - window.top - window.height;
        if (window.whole_width < window.width || window.whole_height < window.height || right > window.whole_width ||
            bottom > window.whole_height || fabs((double)right - (double)window.left) > 1 ||
            fabs((double)bottom - (double)window.top) > 1) {
            fail_msg("crop %.17g, side %zu: %zu x %zu at %zu, %zu", crop, window.width, window.whole_width, window.whole_height,
                     window.left, window.top);
        }
    }
}

static void test_arguments(void **state) {
    (void)state;
    static const struct {
        double crop;
        const char *says;
    } wrong[] = {{-0.5, "-0.5 of itself"},    {1.0000001, "of itself"},     {2, "2 of itself"},
                 {INFINITY, "inf"},           {-INFINITY, "-inf"},          {NAN, "nan"},
                 {1e-9, "cannot be resized"}, {5e-324, "cannot be resized"}};
    l3a_context *context = make_context(1);
    l3a_loader *loader = NULL;
    const char *paths[] = {"none"};
    l3a_loader_options options = options_for(SIDE, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        options.crop = wrong[i].crop;
        assert_fails(context, l3a_loader_create(context, paths, 1, &options, &loader), L3A_ERROR_ARGUMENT, wrong[i].says);
    }
    options.crop = 0.875;
    options.height = 100;
    assert_fails(context, l3a_loader_create(context, paths, 1, &options, &loader), L3A_ERROR_ARGUMENT, "224 x 100");
    options.size = offsetof(l3a_loader_options, crop); /* a program that knows no crop */
    assert_ok(context, l3a_loader_create(context, paths, 1, &options, &loader));
    l3a_loader_free(loader);
    options = options_for(SIDE, 0.02);
    assert_ok(context, l3a_loader_create(context, paths, 1, &options, &loader));
    l3a_loader_free(loader);
    l3a_context_free(context);
}

/* From black to white along the longer side. */
static uint8_t *make_gradient(size_t width, size_t height) {
    uint8_t *pixels = malloc(CHANNELS * width * height);
    assert_non_null(pixels);
    for (size_t i = 0; i < width * height; i++) {
        const size_t along = width > height ? i % width : i / width, longer = width > height ? width : height;
        memset(pixels + CHANNELS * i, (int)(along * 255 / longer), CHANNELS);
    }
    return pixels;
}

/* Pictures that would have hundreds of millions of pixels if all of them were resized. */
static void test_long_pictures(void **state) {
    (void)state;
    static const size_t shapes[][2] = {{10000, 3}, {3, 10000}, {1, 1000000}, {1000000, 1}, {2, 1 << 22}, {1 << 22, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const size_t width = shapes[i][0], height = shapes[i][1];
        for (l3a_filter filter = L3A_FILTER_BILINEAR; filter <= L3A_FILTER_BICUBIC; filter++) {
            struct memory_probe probe = {0};
            struct preparer preparer;
            struct raster resized = {0};
            l3a_loader_options options = options_for(SIDE, 0.875);
            l3a_context *context = make_probed_context(&probe, 1);
            uint8_t *pixels = make_gradient(width, height);
            options.filter = filter;
            preparer_start(context, &options, &preparer);
            assert_ok(context, preparer_take(&preparer, width, height, pixels, &resized));
            assert_true(probe.most < 3 * CHANNELS * width * height + (4 << 20));
            /* Between the first and the last pixel of the middle there is hardly a difference. */
            assert_true(abs(resized.pixels[0] - 127) <= 2);
            assert_true(abs(resized.pixels[CHANNELS * SIDE * SIDE - 1] - 127) <= 2);
            raster_free(context, &resized);
            preparer_free(&preparer);
            l3a_context_free(context);
            free(pixels);
        }
    }
}

/* Without a crop, every row counts; but not all of them are kept between the two passes. */
static void test_tall_picture(void **state) {
    (void)state;
    enum { HEIGHT = 1000000 };
    struct memory_probe probe = {0};
    struct preparer preparer;
    struct raster resized = {0};
    const l3a_loader_options options = options_for(SIDE, 0);
    l3a_context *context = make_probed_context(&probe, 1);
    uint8_t *pixels = make_gradient(1, HEIGHT);
    preparer_start(context, &options, &preparer);
    assert_ok(context, preparer_take(&preparer, 1, HEIGHT, pixels, &resized));
    assert_true(probe.most < 100 << 20);
    for (size_t y = 0; y < SIDE; y++) {
        assert_true(abs(resized.pixels[CHANNELS * SIDE * y] - (int)(y * 255 / SIDE)) <= 2);
    }
    raster_free(context, &resized);
    preparer_free(&preparer);
    l3a_context_free(context);
    free(pixels);
}

/* Each view is a picture of its own: the last of five is what the same part of the picture gives by itself. */
static void test_views(void **state) {
    (void)state;
    enum { WIDTH = 90, HEIGHT = 60, ROWS = 6, BYTES = CHANNELS * 32 * 32 };
    l3a_context *context = make_context(1);
    uint8_t *pixels = make_gradient(WIDTH, HEIGHT);
    l3a_loader_options options = options_for(32, 0.8);
    struct preparer all, one;
    struct raster views = {0}, alone = {0};
    preparer_start(context, &options, &one);
    options.views = ROWS - 1;
    preparer_start(context, &options, &all);
    assert_ok(context, preparer_take(&all, WIDTH, HEIGHT, pixels, &views));
    for (size_t i = 0; i < ROWS; i++) {
        const struct view_box box = view_box(options.views, i, WIDTH, HEIGHT);
        uint8_t *part = malloc(CHANNELS * box.width * box.height);
        assert_non_null(part);
        for (size_t y = 0; y < box.height; y++) {
            memcpy(part + CHANNELS * box.width * y, pixels + CHANNELS * (WIDTH * (box.top + y) + box.left), CHANNELS * box.width);
        }
        assert_ok(context, preparer_take(&one, box.width, box.height, part, &alone));
        assert_memory_equal(alone.pixels, views.pixels + i * BYTES, BYTES);
        free(part);
    }
    raster_free(context, &views);
    raster_free(context, &alone);
    preparer_free(&all);
    preparer_free(&one);
    free(pixels);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_windows),      cmocka_unit_test(test_windows_fit),
                                       cmocka_unit_test(test_arguments),    cmocka_unit_test(test_long_pictures),
                                       cmocka_unit_test(test_tall_picture), cmocka_unit_test(test_views)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
