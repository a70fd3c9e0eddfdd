/* What happens to pictures at random: how often each thing does, against samples and probabilities computed here, what stays the
 * same, and what is done to the pixels. */
#include "support.h"

#include "base/random.h"
#include "image/augment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 3, DRAWS = 20000, WIDTH = 2000, HEIGHT = 1400, SIDE = 224 };

/* The greatest distance between two distributions of DRAWS samples each that chance leaves in all but one of a million cases. */
static const double far = 2.7 * 0.01; /* 2.7 · √(2 / DRAWS) */

static struct changes draw(const struct augmentation *augmentation, size_t row, size_t width, size_t height) {
    return augmentation_draw(augmentation, augmentation_seed(7, row), width, height, SIDE, SIDE);
}

static int compare_numbers(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Kolmogorov and Smirnov's distance. Sorts both. */
static double distance(double *one, double *other) {
    double most = 0;
    size_t i = 0, j = 0;
    qsort(one, DRAWS, sizeof *one, compare_numbers);
    qsort(other, DRAWS, sizeof *other, compare_numbers);
    while (i < DRAWS && j < DRAWS) {
        const double at = one[i] < other[j] ? one[i] : other[j];
        while (i < DRAWS && one[i] <= at) {
            i++;
        }
        while (j < DRAWS && other[j] <= at) {
            j++;
        }
        most = fmax(most, fabs((double)i - (double)j) / DRAWS);
    }
    return most;
}

/* Samples of a part, from another generator. The rules are those of torchvision's RandomResizedCrop. */
struct sample {
    double share, ratio, left, top;
};

static double chance(double low, double high) {
    return low + (high - low) * drand48();
}

static struct sample naive_sample(const struct augmentation *augmentation, double width, double height) {
    for (int i = 0; i < 10; i++) {
        const double area = width * height * chance(augmentation->least, augmentation->most);
        const double ratio =
            augmentation->ratio > 0 ? exp(chance(-log(augmentation->ratio), log(augmentation->ratio))) : width / height;
        const double w = round(sqrt(area * ratio)), h = round(sqrt(area / ratio));
        if (w > 0 && w <= width && h > 0 && h <= height) {
            return (struct sample){w * h / (width * height), w / h, floor(chance(0, width - w + 1)),
                                   floor(chance(0, height - h + 1))};
        }
    }
    const double limit = augmentation->ratio, w = fmin(width, round(height * limit)), h = fmin(height, round(width * limit));
    return (struct sample){w * h / (width * height), w / h, floor((width - w) / 2), floor((height - h) / 2)};
}

static void compare_parts(struct augmentation augmentation, size_t width, size_t height) {
    static double found[4][DRAWS], expected[4][DRAWS];
    for (size_t i = 0; i < DRAWS; i++) {
        const struct view_box part = draw(&augmentation, i, width, height).part;
        const struct sample sample = naive_sample(&augmentation, (double)width, (double)height);
        assert_true(part.width && part.height && part.left + part.width <= width && part.top + part.height <= height);
        found[0][i] = (double)(part.width * part.height) / (double)(width * height);
        found[1][i] = (double)part.width / (double)part.height;
        found[2][i] = (double)part.left;
        found[3][i] = (double)part.top;
        expected[0][i] = sample.share;
        expected[1][i] = sample.ratio;
        expected[2][i] = sample.left;
        expected[3][i] = sample.top;
    }
    for (size_t i = 0; i < 4; i++) {
        const double far_apart = distance(found[i], expected[i]);
        if (far_apart > far) {
            fail_msg("%zu x %zu, %g to %g, ratio %g: distance %g in number %zu", width, height, augmentation.least,
                     augmentation.most, augmentation.ratio, far_apart, i);
        }
    }
}

static void test_parts(void **state) {
    (void)state;
    srand48(5);
    compare_parts((struct augmentation){.least = 0.05, .most = 1, .ratio = 4.0 / 3}, 500, 375);
    compare_parts((struct augmentation){.least = 0.05, .most = 1, .ratio = 4.0 / 3}, 333, 900);
    compare_parts((struct augmentation){.least = 0.5, .most = 1}, 500, 375);
    compare_parts((struct augmentation){.least = 0.5, .most = 1, .ratio = 1}, 375, 500);   /* mostly the square in the middle */
    compare_parts((struct augmentation){.least = 0.9, .most = 1, .ratio = 1.2}, 900, 100); /* always */
    compare_parts((struct augmentation){.least = 0.08, .most = 0.08, .ratio = 3}, 224, 224);
}

/* Parts of the picture's own shape: the share is uniform, and so is each place. */
static void test_shares_are_uniform(void **state) {
    (void)state;
    static double shares[DRAWS], places[DRAWS], uniform[DRAWS];
    const struct augmentation augmentation = {.least = 0.25, .most = 0.75};
    for (size_t i = 0; i < DRAWS; i++) {
        const struct view_box part = draw(&augmentation, i, WIDTH, HEIGHT).part;
        const double width = (double)part.width, height = (double)part.height;
        shares[i] = width * height / WIDTH / HEIGHT;
        places[i] = ((double)part.left + 0.5) / (WIDTH - width + 1);
        uniform[i] = ((double)i + 0.5) / DRAWS;
        assert_true(fabs(width / WIDTH - height / HEIGHT) < 1.0 / HEIGHT);
    }
    assert_true(distance(places, uniform) < far);
    for (size_t i = 0; i < DRAWS; i++) {
        uniform[i] = 0.25 + 0.5 * ((double)i + 0.5) / DRAWS;
    }
    assert_true(distance(shares, uniform) < far);
}

static void test_whole_picture(void **state) {
    (void)state;
    const struct augmentation none = {.ratio = 1.5}, all = {.least = 1, .most = 1}, some = {.least = 0.05, .most = 1, .ratio = 2};
    assert_true(augmentation_acts(&(struct augmentation){.rand_augment = true}));
    assert_false(augmentation_acts(&none));
    assert_true(augmentation_acts(&all));
    for (size_t i = 0; i < 1000; i++) {
        const size_t width = 1 + (size_t)(random_uniform(1, i) * 3000), height = 1 + (size_t)(random_uniform(2, i) * 3000);
        const struct changes still = draw(&none, i, width, height), whole = draw(&all, i, width, height);
        assert_true(still.part.width == width && still.part.height == height && !still.flipped && !still.filled.width);
        assert_true(whole.part.width == width && whole.part.height == height && !whole.part.left && !whole.part.top);
        const struct view_box dot = draw(&some, i, 1, 1).part;
        assert_true(dot.width == 1 && dot.height == 1 && !dot.left && !dot.top);
    }
}

static void test_half_are_mirrored(void **state) {
    (void)state;
    const struct augmentation augmentation = {.flip = true};
    size_t count = 0, changes = 0;
    bool before = false;
    for (size_t i = 0; i < DRAWS; i++) {
        const bool flipped = draw(&augmentation, i, WIDTH, HEIGHT).flipped;
        count += flipped;
        changes += flipped != before;
        before = flipped;
    }
    assert_near((double)count, DRAWS / 2.0, 5 * sqrt(DRAWS / 4.0));
    assert_near((double)changes, DRAWS / 2.0, 5 * sqrt(DRAWS / 4.0));
}

/* How many of the centres 0 … side − 1 a square of `length` pixels can have if it fills pixel x: from x − length + ⌊length / 2⌋ + 1
 * to x + ⌊length / 2⌋. */
static size_t centres_that_fill(size_t x, size_t length, size_t side) {
    size_t count = 0;
    for (size_t centre = 0; centre < side; centre++) {
        const long first = (long)centre - (long)(length / 2);
        count += (long)x >= first && (long)x < first + (long)length;
    }
    return count;
}

static void test_what_cutout_fills(void **state) {
    (void)state;
    enum { COLUMNS = 14, ROWS = 9 };
    static const struct {
        double cutout;
        size_t width, height;
    } cases[] = {{0.5, 7, 5}, {0.25, 4, 2}, {1, 14, 9}, {0.06, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct augmentation augmentation = {.cutout = cases[i].cutout};
        static size_t filled[ROWS][COLUMNS];
        memset(filled, 0, sizeof filled);
        for (size_t j = 0; j < DRAWS; j++) {
            const struct view_box box = augmentation_draw(&augmentation, augmentation_seed(3, j), 50, 60, COLUMNS, ROWS).filled;
            assert_true(box.left + box.width <= COLUMNS && box.top + box.height <= ROWS);
            for (size_t y = box.top; y < box.top + box.height; y++) {
                for (size_t x = box.left; x < box.left + box.width; x++) {
                    filled[y][x]++;
                }
            }
        }
        for (size_t y = 0; y < ROWS; y++) {
            for (size_t x = 0; x < COLUMNS; x++) {
                const double across = (double)centres_that_fill(x, cases[i].width, COLUMNS) / COLUMNS;
                const double probability = across * (double)centres_that_fill(y, cases[i].height, ROWS) / ROWS;
                assert_near((double)filled[y][x], DRAWS * probability, 5 * sqrt(DRAWS * probability * (1 - probability)) + 1e-9);
            }
        }
    }
}

/* KRT's: a square of 112 pixels at 224, in every picture, whose colour is any. */
static void test_cutout_of_a_half(void **state) {
    (void)state;
    const struct augmentation augmentation = {.cutout = 0.5};
    static size_t seen[CHANNELS][256];
    size_t most = 0, grey = 0;
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < DRAWS; i++) {
        const struct changes changes = draw(&augmentation, i, WIDTH, HEIGHT);
        most = changes.filled.width > most ? changes.filled.width : most;
        grey += changes.colour[0] == changes.colour[1];
        assert_true(changes.filled.width >= 56 && changes.filled.height >= 56);
        for (size_t c = 0; c < CHANNELS; c++) {
            seen[c][changes.colour[c]]++;
        }
    }
    assert_int_equal(most, 112);
    assert_near((double)grey, DRAWS / 256.0, 5 * sqrt(DRAWS / 256.0));
    for (size_t i = 0; i < CHANNELS * 256; i++) {
        assert_near((double)seen[i / 256][i % 256], DRAWS / 256.0, 5 * sqrt(DRAWS / 256.0));
    }
}

/* Each kind of change has a stream of its own, and each row a seed. */
static void test_what_depends_on_what(void **state) {
    (void)state;
    const struct augmentation part = {.least = 0.1, .most = 1, .ratio = 1.5}, all = {0.1, 1, 1.5, true, 0.5, false};
    size_t same = 0;
    for (size_t i = 0; i < 1000; i++) {
        const struct changes one = draw(&part, i, WIDTH, HEIGHT), other = draw(&all, i, WIDTH, HEIGHT);
        const struct changes next = draw(&all, i + 1, WIDTH, HEIGHT), again = draw(&all, i, WIDTH, HEIGHT);
        assert_memory_equal(&one.part, &other.part, sizeof one.part);
        assert_memory_equal(&again.part, &other.part, sizeof again.part);
        assert_memory_equal(&again.filled, &other.filled, sizeof again.filled);
        assert_true(again.flipped == other.flipped && memcmp(again.colour, other.colour, CHANNELS) == 0);
        same += memcmp(&next.part, &other.part, sizeof next.part) == 0;
    }
    assert_true(same == 0);
}

static void test_pixels(void **state) {
    l3a_context *context = make_context(1);
    (void)state;
    for (uint64_t i = 0; i < 400; i++) {
        const size_t width = 1 + (size_t)(random_uniform(1, i) * 20), height = 1 + (size_t)(random_uniform(2, i) * 20);
        const struct augmentation augmentation = {.flip = i % 2, .cutout = i % 3 ? random_uniform(3, i) : 0};
        const struct changes changes = augmentation_draw(&augmentation, i, 9, 9, width, height);
        uint8_t *pixels = malloc(CHANNELS * width * height), *before = malloc(CHANNELS * width * height);
        assert_true(pixels && before);
        for (size_t j = 0; j < CHANNELS * width * height; j++) {
            pixels[j] = before[j] = (uint8_t)random_bits(i, j);
        }
        assert_ok(context, changes_apply(context, &changes, pixels, width, height));
        for (size_t j = 0; j < CHANNELS * width * height; j++) {
            const size_t x = j / CHANNELS % width, y = j / CHANNELS / width, c = j % CHANNELS;
            const struct view_box box = changes.filled;
            const bool inside = x >= box.left && x < box.left + box.width && y >= box.top && y < box.top + box.height;
            const size_t from = changes.flipped ? width - 1 - x : x;
            assert_int_equal(pixels[j], inside ? changes.colour[c] : before[CHANNELS * (width * y + from) + c]);
        }
        free(pixels);
        free(before);
    }
    l3a_context_free(context);
}

static void test_arguments(void **state) {
    (void)state;
    static const struct {
        struct augmentation augmentation;
        const char *says;
    } wrong[] = {
        {{.least = -0.1, .most = 1}, "from -0.1 to 1"},
        {{.least = 0.6, .most = 0.5}, "from 0.6 to 0.5"},
        {{.least = 0.5}, "from 0.5 to 0"},
        {{.most = 1.01}, "to 1.01"},
        {{.most = NAN}, "nan"},
        {{.ratio = 0.75}, "up to 0.75"},
        {{.ratio = -1}, "up to -1"},
        {{.ratio = INFINITY}, "up to inf"},
        {{.cutout = 1.5}, "1.5 of the picture's side"},
        {{.cutout = -1}, "-1 of the"},
    };
    static const struct augmentation right[] = {
        {0}, {0, 1, 0, true, 1, true}, {0.05, 1, 4.0 / 3, true, 0.5, false}, {1, 1, 1, false, 0, true}};
    l3a_context *context = make_context(1);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_fails(context, augmentation_check(context, &wrong[i].augmentation), L3A_ERROR_ARGUMENT, wrong[i].says);
        assert_true(l3a_error_hint(context)[0]);
    }
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        assert_ok(context, augmentation_check(context, &right[i]));
    }
    l3a_context_free(context);
}

/* Every operation with either sign is as likely. */
static void test_what_rand_augment_draws(void **state) {
    const struct augmentation augmentation = {.rand_augment = true};
    size_t counts[RAND_OPERATIONS][2] = {{0}};
    (void)state;
    for (size_t i = 0; i < DRAWS; i++) {
        const struct changes changes = draw(&augmentation, i, WIDTH, HEIGHT);
        for (size_t j = 0; j < RAND_CHANGES; j++) {
            counts[changes.random[j].operation][changes.random[j].negative]++;
        }
    }
    const double expected = (double)RAND_CHANGES * DRAWS / RAND_OPERATIONS / 2;
    for (size_t i = 0; i < RAND_OPERATIONS; i++) {
        for (size_t sign = 0; sign < 2; sign++) {
            assert_true(fabs((double)counts[i][sign] - expected) < 5 * sqrt(expected));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_shares_are_uniform),
        cmocka_unit_test(test_whole_picture),
        cmocka_unit_test(test_half_are_mirrored),
        cmocka_unit_test(test_what_cutout_fills),
        cmocka_unit_test(test_cutout_of_a_half),
        cmocka_unit_test(test_what_depends_on_what),
        cmocka_unit_test(test_pixels),
        cmocka_unit_test(test_what_rand_augment_draws),
        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
