/* Drawn data sets: shapes cover the area that geometry says, boxes hold what was drawn, classes come as often as promised, the same
 * seed gives the same bytes, and what does not make sense is refused. */
#include "support.h"

#include "base/file.h"
#include "common/jpeg_write.h"
#include "draw/scene.h"
#include "image/picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

enum { SIDE = 100, SMALL = 24 };

static uint8_t pixels[3 * SIDE * SIDE];

static struct canvas white_canvas(void) {
    memset(pixels, 255, sizeof pixels);
    return (struct canvas){.width = SIDE, .height = SIDE, .pixels = pixels};
}

static const struct colour black = {0, 0, 0};

/* How much of the canvas is black, in pixels. */
static double black_area(void) {
    double area = 0;
    for (size_t i = 0; i < SIDE * SIDE; i++) {
        area += 1 - pixels[3 * i] / 255.0;
    }
    return area;
}

static void assert_near(double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance)) {
        print_error("%g instead of %g\n", value, expected);
        assert_true(false);
    }
}

static double shoelace(const struct point *path, size_t count) {
    double twice = 0;
    for (size_t i = 0; i < count; i++) {
        const struct point a = path[i], b = path[(i + 1) % count];
        twice += a.x * b.y - a.y * b.x;
    }
    return fabs(twice) / 2;
}

static void test_sines(void **state) {
    (void)state;
    for (int i = -4000; i < 4000; i++) {
        const double turns = i / 1000.0;
        assert_near(sine(turns), sin(2 * 3.14159265358979 * turns), 1e-5);
        assert_near(cosine(turns), cos(2 * 3.14159265358979 * turns), 1e-5);
    }
}

static void test_areas(void **state) {
    (void)state;
    const struct paint paint = flat_paint(black, 1);
    const struct point polygon[] = {{10.3, 12.7}, {80.1, 20.2}, {91.7, 70.9}, {40.4, 95.5}, {25.2, 60.1}};
    struct point path[PATH_POINTS];
    struct canvas canvas = white_canvas();
    fill_path(&canvas, polygon, 5, &paint);
    assert_near(black_area(), shoelace(polygon, 5), 3);
    canvas = white_canvas();
    fill_path(&canvas, path, ellipse_path((struct point){50, 50}, 40, 25, 0, 1, path), &paint);
    assert_near(black_area(), 3.14159265 * 40 * 25, 12);
    canvas = white_canvas();
    stroke_path(&canvas, (const struct point[]){{20, 30}, {70, 80}}, 2, false, 9, &paint);
    assert_near(black_area(), 9 * sqrt(5000) + 3.14159265 * 4.5 * 4.5, 8);
    canvas = white_canvas();
    fill_path(&canvas, (const struct point[]){{-50, -50}, {50, -50}, {50, 50}, {-50, 50}}, 4, &paint); /* cut at the canvas */
    assert_near(black_area(), 2500, 1);
    canvas = white_canvas();
    const struct point twice[] = {{10, 10}, {60, 10}, {60, 60}, {10, 60}, {10, 10}, {60, 10}, {60, 60}, {10, 60}};
    fill_path(&canvas, twice, 8, &paint); /* around it twice is still inside */
    assert_near(black_area(), 2500, 1);
}

static void test_half_opaque(void **state) {
    (void)state;
    const struct paint paint = flat_paint(black, 0.5);
    struct canvas canvas = white_canvas();
    fill_path(&canvas, (const struct point[]){{10, 10}, {60, 10}, {60, 60}, {10, 60}}, 4, &paint);
    assert_near(black_area(), 1250, 8);
}

static void test_smooth_curve_meets_its_points(void **state) {
    (void)state;
    const struct point points[] = {{10, 10}, {40, 80}, {70, 20}, {90, 90}};
    struct point path[PATH_POINTS];
    const size_t open = smooth_path(points, 4, false, path);
    assert_near(path[0].x, 10, 0);
    assert_near(path[open - 1].y, 90, 0);
    size_t met = 0;
    for (size_t i = 0; i < open; i++) {
        for (size_t j = 0; j < 4; j++) {
            met += fabs(path[i].x - points[j].x) < 1e-9 && fabs(path[i].y - points[j].y) < 1e-9;
        }
    }
    assert_int_equal(met, 4);
}

/* The box of a thing against the pixels that it changes, on a black and on a white canvas. */
static void test_boxes(void **state) {
    (void)state;
    static uint8_t dark[SCENE_BYTES], light[SCENE_BYTES];
    for (size_t k = 0; k < THINGS; k++) {
        struct thing thing = {.recipe = k, .centre = {80, 70}, .radius = 40, .stretch = 1.1, .turns = 0.05, .seed = 100 + k};
        struct box seen = {SCENE_SIDE, SCENE_SIDE, 0, 0};
        memset(dark, 0, sizeof dark);
        memset(light, 255, sizeof light);
        draw_thing(&(struct canvas){.width = SCENE_SIDE, .height = SCENE_SIDE, .pixels = dark}, &things[k], &thing);
        draw_thing(&(struct canvas){.width = SCENE_SIDE, .height = SCENE_SIDE, .pixels = light}, &things[k], &thing);
        for (int i = 0; i < SCENE_SIDE * SCENE_SIDE; i++) {
            if (light[3 * i] - dark[3 * i] < 128) {
                seen.left = i % SCENE_SIDE < seen.left ? i % SCENE_SIDE : seen.left;
                seen.right = i % SCENE_SIDE >= seen.right ? i % SCENE_SIDE + 1 : seen.right;
                seen.top = i / SCENE_SIDE < seen.top ? i / SCENE_SIDE : seen.top;
                seen.bottom = i / SCENE_SIDE >= seen.bottom ? i / SCENE_SIDE + 1 : seen.bottom;
            }
        }
        assert_true(abs(seen.left - thing.box.left) <= 1 && abs(seen.right - thing.box.right) <= 1);
        assert_true(abs(seen.top - thing.box.top) <= 1 && abs(seen.bottom - thing.box.bottom) <= 1);
        assert_true(thing.box.right - thing.box.left > 25 && thing.box.bottom - thing.box.top > 25);
    }
}

static size_t class_index(const char *name) {
    size_t index = 0;
    while (l3a_draw_class(index) && strcmp(l3a_draw_class(index), name) != 0) {
        index++;
    }
    assert_non_null(l3a_draw_class(index));
    return index;
}

/* 20 times rarer, nearly always together, one to five. */
static void test_frequencies(void **state) {
    (void)state;
    enum { SCENES = 60000 };
    static const char *const rare[] = {"butterfly", "clock", "key", "moon", "snail", "wheel"};
    static const char *const pairs[][2] = {{"boat", "anchor"}, {"cup", "spoon"}, {"house", "tree"}};
    double counts[THINGS] = {0}, together[THINGS][THINGS] = {{0}}, sizes[SCENE_THINGS + 1] = {0};
    struct scene scene;
    for (uint64_t i = 0; i < SCENES; i++) {
        scene_plan(things, THINGS, THINGS, random_bits(9, i), &scene);
        sizes[scene.count]++;
        for (size_t a = 0; a < scene.count; a++) {
            counts[scene.things[a].recipe]++;
            for (size_t b = 0; b < scene.count; b++) {
                together[scene.things[a].recipe][scene.things[b].recipe]++;
            }
        }
    }
    assert_true(sizes[0] == 0 && sizes[1] > 0.1 * SCENES && sizes[5] > 0.05 * SCENES);
    const double common = counts[class_index("star")];
    for (size_t i = 0; i < sizeof rare / sizeof rare[0]; i++) {
        const double ratio = common / counts[class_index(rare[i])];
        assert_true(ratio > 17 && ratio < 24);
        counts[class_index(rare[i])] = common;
    }
    for (size_t k = 0; k + 1 < THINGS; k++) {
        assert_near(counts[k] / common, 1, 0.12);
    }
    assert_true(counts[class_index("umbrella")] == 0);
    for (size_t i = 0; i < 3; i++) {
        const size_t leader = class_index(pairs[i][0]), follower = class_index(pairs[i][1]);
        assert_true(together[leader][follower] > 0.87 * counts[leader]);
        assert_true(together[leader][follower] > 0.85 * counts[follower]);
    }
}

static void test_always(void **state) {
    (void)state;
    struct scene scene;
    const size_t umbrella = class_index("umbrella");
    assert_null(l3a_draw_class(umbrella + 1));
    for (uint64_t i = 0; i < 500; i++) {
        scene_plan(things, THINGS, umbrella, i, &scene);
        assert_int_equal(scene.things[0].recipe, umbrella);
        for (size_t a = 1; a < scene.count; a++) {
            assert_int_not_equal(scene.things[a].recipe, umbrella);
        }
    }
}

/* A number that every compiler and processor must find again, so that a seed means the same pictures everywhere. */
static void test_pixels_are_the_same_everywhere(void **state) {
    (void)state;
    static uint8_t picture[SCENE_BYTES];
    XXH3_state_t hash;
    XXH3_64bits_reset(&hash);
    for (uint64_t i = 0; i < 40; i++) {
        struct scene scene;
        scene_plan(things, THINGS, i % 2 ? THINGS : (size_t)i / 2, i, &scene);
        scene_draw(things, &scene, picture);
        XXH3_64bits_update(&hash, picture, sizeof picture);
    }
    assert_int_equal(XXH3_64bits_digest(&hash), UINT64_C(0xfbd1cc3305af1178));
}

static void test_jpeg(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    static uint8_t picture[SCENE_BYTES], file[2 * SCENE_BYTES];
    struct scene scene;
    l3a_picture decoded = {.size = sizeof decoded};
    scene_plan(things, THINGS, THINGS, 5, &scene);
    scene_draw(things, &scene, picture);
    const size_t length = jpeg_encode(picture, SCENE_SIDE, SCENE_SIDE, 95, file, sizeof file);
    assert_true(length > 1000);
    assert_ok(context, l3a_picture_decode(context, "drawn", file, length, NULL, &decoded));
    assert_int_equal(decoded.width, SCENE_SIDE);
    assert_int_equal(decoded.height, SCENE_SIDE);
    double difference = 0;
    for (size_t i = 0; i < SCENE_BYTES; i++) {
        difference += abs(decoded.pixels[i] - picture[i]);
    }
    assert_true(difference / SCENE_BYTES < 6);
    l3a_picture_free(context, &decoded);
    assert_int_equal(jpeg_encode(picture, SCENE_SIDE, SCENE_SIDE, 95, file, length - 1), 0);
    assert_int_equal(jpeg_encode(picture, SCENE_SIDE, SCENE_SIDE, 95, file, 10), 0);
    assert_int_equal(jpeg_encode(picture, 0, SCENE_SIDE, 95, file, sizeof file), 0);
    l3a_context_free(context);
}

static l3a_draw_options small_set(uint64_t seed) {
    l3a_draw_options options = {.size = sizeof options};
    options.seed = seed;
    options.training = SMALL;
    options.test = SMALL / 2;
    return options;
}

/* All files of a drawn data set, one after another. */
static char *all_bytes(const char *folder, int threads, uint64_t seed, size_t *size) {
    l3a_context *context = make_context(threads);
    const l3a_draw_options options = small_set(seed);
    char *place = path_in(folder, "set"), *all = NULL;
    char command[1200];
    assert_ok(context, l3a_draw_dataset(context, &options, place));
    snprintf(command, sizeof command, "cd '%s' && find set -type f | LC_ALL=C sort | xargs tail -n +1 > all && rm -r set", folder);
    assert_int_equal(system(command), 0);
    char *path = path_in(folder, "all");
    all = read_bytes(path, size);
    free(path);
    free(place);
    l3a_context_free(context);
    return all;
}

static void test_same_seed_same_bytes(void **state) {
    (void)state;
    char *folder = make_temporary_folder();
    size_t size, other;
    char *one = all_bytes(folder, 1, 7, &size), *two = all_bytes(folder, 2, 7, &other);
    assert_int_equal(size, other);
    assert_memory_equal(one, two, size);
    char *else_where = all_bytes(folder, 2, 8, &other);
    assert_true(size != other || memcmp(one, else_where, size) != 0);
    free(one);
    free(two);
    free(else_where);
    remove_folder(folder);
}

static void test_opens_as_voc(void **state) {
    (void)state;
    l3a_context *context = make_context(2);
    const l3a_draw_options options = small_set(3);
    l3a_dataset *dataset = NULL;
    char *folder = make_temporary_folder(), *place = path_in(folder, "set"), name[600];
    assert_ok(context, l3a_draw_dataset(context, &options, place));
    snprintf(name, sizeof name, "voc:%s", place);
    for (size_t split = 0; split < 2; split++) {
        const size_t first = split ? SMALL : 0;
        assert_ok(context, l3a_dataset_open(context, name, split ? "test" : "trainval", &dataset));
        assert_int_equal(l3a_dataset_rows(dataset), split ? SMALL / 2 : SMALL);
        assert_int_equal(l3a_dataset_class_count(dataset), THINGS - 1);
        assert_int_equal(l3a_dataset_disagreements(dataset), 0);
        for (size_t i = 0; i < l3a_dataset_rows(dataset); i++) {
            struct scene scene;
            int8_t shown[THINGS] = {0};
            scene_plan(things, THINGS, THINGS, random_bits(options.seed, first + i), &scene);
            for (size_t j = 0; j < scene.count; j++) {
                shown[scene.things[j].recipe] = 1;
            }
            assert_memory_equal(shown, l3a_dataset_labels(dataset) + i * (THINGS - 1), THINGS - 1);
        }
        l3a_dataset_free(dataset);
    }
    for (size_t i = 0; i + 1 < THINGS; i++) {
        assert_true(i == 0 || strcmp(l3a_draw_class(i - 1), l3a_draw_class(i)) < 0);
    }
    free(place);
    remove_folder(folder);
    l3a_context_free(context);
}

static void test_refused(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    char *folder = make_temporary_folder(), *place = path_in(folder, "set"), *deep = path_in(folder, "a/b");
    l3a_draw_options options = small_set(1);
    assert_fails(context, l3a_draw_dataset(context, &options, NULL), L3A_ERROR_ARGUMENT, "folder is NULL");
    assert_fails(context, l3a_draw_dataset(context, &options, ""), L3A_ERROR_ARGUMENT, "no folder");
    assert_fails(context, l3a_draw_dataset(context, &options, folder), L3A_ERROR_EXISTS, "already exists");
    assert_fails(context, l3a_draw_dataset(context, &options, deep), L3A_ERROR_NOT_FOUND, "a/b");
    options.always = "umbrela";
    assert_fails(context, l3a_draw_dataset(context, &options, place), L3A_ERROR_CLASS, "did you mean 'umbrella'?");
    options.always = NULL;
    options.test = SIZE_MAX;
    assert_fails(context, l3a_draw_dataset(context, &options, place), L3A_ERROR_OPTION, "at most");
    bool exists;
    assert_ok(context, file_exists(context, place, &exists));
    assert_false(exists);
    free(place);
    free(deep);
    remove_folder(folder);
    l3a_context_free(context);
}

static int stop_at_second(const l3a_event *event, void *user) {
    (void)user;
    return event->kind == L3A_EVENT_PROGRESS && event->done > 0;
}

static void test_cancelled(void **state) {
    (void)state;
    l3a_context_options how = {.size = sizeof how};
    l3a_context *context = NULL;
    l3a_dataset *dataset = NULL;
    l3a_draw_options options = small_set(1);
    how.on_event = stop_at_second;
    assert_int_equal(l3a_context_create(&how, &context), L3A_OK);
    char *folder = make_temporary_folder(), *place = path_in(folder, "set"), name[600];
    options.training = 100;
    assert_int_equal(l3a_draw_dataset(context, &options, place), L3A_ERROR_CANCELLED);
    snprintf(name, sizeof name, "voc:%s", place);
    assert_fails(context, l3a_dataset_open(context, name, "trainval", &dataset), L3A_ERROR_NOT_FOUND, "ImageSets");
    free(place);
    remove_folder(folder);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sines),        cmocka_unit_test(test_areas),
        cmocka_unit_test(test_half_opaque),  cmocka_unit_test(test_smooth_curve_meets_its_points),
        cmocka_unit_test(test_boxes),        cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_always),       cmocka_unit_test(test_pixels_are_the_same_everywhere),
        cmocka_unit_test(test_jpeg),         cmocka_unit_test(test_same_seed_same_bytes),
        cmocka_unit_test(test_opens_as_voc), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
