/* What is read, learned, scored and reported does not depend on the number of threads, nor on how the rows are handed over. */
#include "support.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/threads.h"
#include "data/features.h"
#include "learn/model.h"
#include "naive_algebra.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Enough numbers for several parts of each loop. */
enum { WIDTH = 160, VIEWS = 2, EACH = VIEWS + 1, IMAGE = EACH * WIDTH, IMAGES = 600, CLASSES = 6, PHASES = 2 };
enum { STEP = CLASSES / PHASES };
static const int thread_counts[] = {1, 2, 5};
enum { COUNTS = sizeof thread_counts / sizeof thread_counts[0] };
static const char *const names[CLASSES] = {"a", "b", "c", "d", "e", "f"};

static float values[IMAGES * IMAGE];
static int8_t labels[IMAGES * CLASSES];

static void make_values(void) {
    random_table(7, IMAGES, IMAGE, CLASSES, 5, values, labels);
}

static l3a_features *wrap(l3a_context *context) {
    l3a_features *features = NULL;
    assert_ok(context, l3a_features_wrap(context, values, labels, IMAGES, VIEWS, WIDTH, names, CLASSES, &features));
    return features;
}

/* ---- Learning ---- */

enum way { BY_TABLE, BY_FILE, ALL_AT_ONCE, IN_PIECES, WAYS };

static void learn_table(l3a_context *context, l3a_model *model, size_t phase, const char *folder, enum way way) {
    l3a_features *table = wrap(context), *opened = NULL;
    char *path = path_in(folder, "table.safetensors");
    if (way == BY_FILE) {
        assert_ok(context, l3a_features_save(table, NULL, path));
        assert_ok(context, l3a_features_open(context, path, &opened));
    }
    assert_ok(context, l3a_model_learn(model, opened ? opened : table, names + phase * STEP, STEP));
    l3a_features_free(table);
    l3a_features_free(opened);
    free(path);
}

/* The same rows as the table's: all that show a class of the phase. */
static void learn_steps(l3a_context *context, l3a_model *model, size_t phase, enum way way) {
    float *chosen = malloc(sizeof values);
    int8_t *own = malloc(sizeof labels);
    size_t count = 0;
    for (size_t i = 0; i < IMAGES; i++) {
        memcpy(chosen + count * IMAGE, values + i * IMAGE, IMAGE * sizeof *values);
        memcpy(own + count * STEP, labels + i * CLASSES + phase * STEP, STEP);
        count += memchr(own + count * STEP, 1, STEP) != NULL;
    }
    const size_t piece = way == IN_PIECES ? 7 : count;
    assert_ok(context, l3a_phase_begin(model, names + phase * STEP, STEP));
    assert_ok(context, l3a_phase_count(model, own, count));
    for (int learns = phase == 0; learns < 2; learns++) {
        for (size_t first = 0; first < count; first += piece) {
            const size_t n = count - first < piece ? count - first : piece;
            assert_ok(context, learns ? l3a_phase_learn(model, chosen + first * IMAGE, own + first * STEP, n)
                                      : l3a_phase_survey(model, chosen + first * IMAGE, n));
        }
    }
    assert_ok(context, l3a_phase_end(model));
    free(chosen);
    free(own);
}

/* The bytes of the model's file. */
static char *learned_file(int threads, const struct algebra *algebra, const char *precision, enum way way, size_t *size,
                          uint64_t *pseudo_labels) {
    l3a_context *context = make_context(threads);
    char *folder = make_temporary_folder(), *path = path_in(folder, "model.l3a");
    l3a_model *model = NULL;
    l3a_options options;
    context->algebra = algebra;
    static const char *const settings[][2] = {{"dim", "64"},     {"block", "300"},      {"views", "2"},
                                              {"gamma", "auto"}, {"pseudo", "dynamic"}, {"tau", "1"}};
    options_default(&options);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        assert_ok(context, l3a_options_set(context, &options, settings[i][0], settings[i][1]));
    }
    assert_ok(context, l3a_options_set(context, &options, "precision", precision));
    assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
    assert_ok(context, l3a_model_set_record(model, "holds", "")); /* the first record, whatever the way */
    for (size_t phase = 0; phase < PHASES; phase++) {
        if (way == BY_TABLE || way == BY_FILE) {
            learn_table(context, model, phase, folder, way);
        } else {
            learn_steps(context, model, phase, way);
        }
    }
    *pseudo_labels = l3a_model_phase(model, 1)->pseudo_labels;
    assert_ok(context, l3a_model_set_record(model, "holds", "")); /* files and memory have different checksums */
    assert_ok(context, l3a_model_save(model, path));
    char *bytes = read_bytes(path, size);
    l3a_model_free(model);
    l3a_context_free(context);
    remove_folder(folder);
    free(path);
    return bytes;
}

/* The matrix library's sums depend on its threads in their last bits, so different numbers of them are compared on the naive back
 * end: everything else must be the same. */
static void check_models(const struct algebra *algebra, const char *precision, const int *threads, size_t count) {
    size_t size, other_size;
    uint64_t made, other_made;
    char *bytes = learned_file(threads[0], algebra, precision, BY_TABLE, &size, &made);
    assert_true(made > 0);
    for (size_t i = 0; i < count * WAYS; i++) {
        char *other = learned_file(threads[i / WAYS], algebra, precision, (enum way)(i % WAYS), &other_size, &other_made);
        assert_int_equal(other_made, made);
        assert_int_equal(other_size, size);
        assert_memory_equal(other, bytes, size);
        free(other);
    }
    free(bytes);
}

static void models_are_the_same_byte_by_byte(void **state) {
    (void)state;
    static const char *const precisions[] = {"mixed", "double"};
    make_values();
    for (size_t p = 0; p < 2; p++) {
        check_models(&naive_algebra, precisions[p], thread_counts, COUNTS);
        for (size_t n = 0; n < COUNTS; n++) {
            check_models(&cpu_algebra, precisions[p], &thread_counts[n], 1);
        }
    }
}

/* ---- Reading ---- */

static void rows_are_read_in_any_order_and_type(void **state) {
    (void)state;
    static float read[IMAGES * IMAGE];
    static uint16_t halves[IMAGES * IMAGE];
    size_t rows[IMAGES];
    make_values();
    for (size_t i = 0; i < IMAGES * IMAGE; i++) {
        values[i] = (float)((int)(values[i] * 1000)) / 1024; /* a half can hold it */
    }
    halves_of_floats(values, halves, IMAGES * IMAGE);
    for (size_t i = 0; i < IMAGES; i++) {
        rows[i] = i % 5 ? i : random_bits(3, i) % IMAGES; /* runs, and rows out of order */
    }
    for (size_t n = 0; n < 2 * COUNTS; n++) {
        l3a_context *context = make_context(thread_counts[n / 2]);
        char *folder = make_temporary_folder(), *path = path_in(folder, "table.safetensors");
        l3a_features *features = NULL;
        text_list none = {0};
        void *numbers = n % 2 ? (void *)halves : (void *)values;
        const tensor_source source =
            features_source(IMAGES, VIEWS, WIDTH, n % 2 ? TENSOR_F16 : TENSOR_F32, fill_from_memory, numbers);
        assert_ok(context, safetensors_write(context, path, &none, &none, &source, 1));
        assert_ok(context, l3a_features_open(context, path, &features));
        for (size_t views = VIEWS; views; views -= VIEWS - 1) {
            const size_t image = view_rows(views) * WIDTH;
            assert_ok(context, l3a_features_use_views(features, views));
            assert_ok(context, l3a_features_read(features, rows, 0, IMAGES, read));
            for (size_t i = 0; i < IMAGES; i++) {
                assert_memory_equal(read + i * image, values + rows[i] * IMAGE, image * sizeof *read);
            }
            if (views == 1) {
                break;
            }
        }
        l3a_features_free(features);
        l3a_context_free(context);
        remove_folder(folder);
        free(path);
    }
}

static void the_first_bad_number_is_named(void **state) {
    (void)state;
    static float scores[IMAGES * CLASSES], read[IMAGES * IMAGE];
    make_values();
    for (size_t n = 0; n < COUNTS; n++) {
        l3a_context *context = make_context(thread_counts[n]);
        l3a_features *features = wrap(context);
        l3a_model *model = NULL;
        l3a_options options;
        options_default(&options);
        options.model.dim = 16;
        options.model.views = VIEWS;
        assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
        assert_ok(context, l3a_model_learn(model, features, names, STEP));
        values[123 * IMAGE + WIDTH + 5] = INFINITY;
        values[124 * IMAGE] = NAN;
        values[590 * IMAGE + 1] = NAN;
        assert_fails(context, l3a_features_read(features, NULL, 0, IMAGES, read), L3A_ERROR_DATA,
                     "row 123, view 1, column 5: the feature is infinite");
        assert_fails(context, l3a_model_score(model, values, IMAGES, scores), L3A_ERROR_DATA, "row 123, column 165");
        assert_ok(context, l3a_phase_begin(model, names + STEP, STEP));
        assert_fails(context, l3a_phase_survey(model, values, IMAGES), L3A_ERROR_DATA,
                     "row 123, column 165: the feature is infinite");
        values[123 * IMAGE + WIDTH + 5] = 0;
        assert_fails(context, l3a_phase_learn(model, values, labels, IMAGES), L3A_ERROR_DATA,
                     "row 124, column 0: the feature is not a number (NaN)");
        make_values();
        values[300 * IMAGE + 2 * WIDTH + 9] = -1e30F;
        assert_fails(context, l3a_phase_learn(model, values, labels, IMAGES), L3A_ERROR_DATA,
                     "row 300 of the phase, column 9: the feature is -1e+30");
        make_values();
        l3a_model_free(model);
        l3a_features_free(features);
        l3a_context_free(context);
    }
}

static ssize_t read_until(int file, void *bytes, size_t count, off_t offset) {
    enum { GOOD = 100 * IMAGE * 4, BAD = 300 * IMAGE * 4 };
    if (offset + (off_t)count > BAD) {
        errno = EIO;
        return -1;
    }
    return offset > GOOD ? 0
                         : posix_files.read(file, bytes, offset + (off_t)count > GOOD ? GOOD + 1 - (size_t)offset : count, offset);
}

static void the_first_failure_is_told(void **state) {
    (void)state;
    static float read[IMAGES * IMAGE];
    char first[256] = "";
    make_values();
    for (size_t n = 0; n < COUNTS; n++) {
        l3a_context *context = make_context(thread_counts[n]);
        char *folder = make_temporary_folder(), *path = path_in(folder, "table.safetensors");
        l3a_features *table = wrap(context), *opened = NULL;
        assert_ok(context, l3a_features_save(table, NULL, path));
        assert_ok(context, l3a_features_open(context, path, &opened));
        struct file_operations failing = posix_files;
        failing.read = read_until;
        context->files = &failing;
        assert_fails(context, l3a_features_read(opened, NULL, 0, IMAGES, read), L3A_ERROR_TRUNCATED, "ends at byte 192001, ");
        const char *text = strrchr(l3a_error_text(context), ':');
        assert_true(!first[0] || strcmp(text, first) == 0);
        snprintf(first, sizeof first, "%s", text);
        assert_fails(context, l3a_features_read(opened, NULL, 350, IMAGES - 350, read), L3A_ERROR_IO, "cannot read");
        context->files = &posix_files;
        assert_ok(context, l3a_features_read(opened, NULL, 0, IMAGES, read));
        assert_memory_equal(read, values, sizeof read);
        assert_fails(context, l3a_features_read(opened, NULL, IMAGES - 1, 3, read), L3A_ERROR_ARGUMENT, "row 600 is out of range");
        l3a_features_free(table);
        l3a_features_free(opened);
        l3a_context_free(context);
        remove_folder(folder);
        free(path);
    }
}

/* ---- Views ---- */

/* s = (s_0 + 2 max(s_1 … s_c)) / 3, and the crop with that maximum */
static void check_combined(int threads, real type, size_t views) {
    enum { COLUMNS = 37, MOST = 400, ROOM = MOST * 6 * COLUMNS };
    static double rows[ROOM], apart[ROOM];
    static uint16_t best[MOST * COLUMNS];
    const size_t each = view_rows(views);
    for (size_t i = 0; i < MOST * each * COLUMNS; i++) {
        real_put(type, rows, i, floor(random_uniform(views, i) * 64) / 8); /* exact, and with ties */
    }
    combine_views(threads, type, rows, MOST, views, COLUMNS, apart, best);
    for (size_t i = 0; i < MOST * COLUMNS; i++) {
        const size_t whole = i / COLUMNS * each * COLUMNS + i % COLUMNS;
        size_t crop = views > 1;
        for (size_t v = 2; v < each; v++) {
            crop = real_get(type, rows, whole + v * COLUMNS) > real_get(type, rows, whole + crop * COLUMNS) ? v : crop;
        }
        const double most = real_get(type, rows, whole + crop * COLUMNS), all = real_get(type, rows, whole) + 2 * most;
        const double expected = views == 1 ? real_get(type, rows, whole) : type == REAL_SINGLE ? (double)((float)all / 3) : all / 3;
        assert_true(real_get(type, apart, i) == expected);
        assert_int_equal(best[i], crop);
    }
    combine_views(threads, type, rows, MOST, views, COLUMNS, rows, NULL);
    assert_memory_equal(rows, apart, MOST * COLUMNS * real_size(type));
}

static void views_are_combined_in_place_and_elsewhere(void **state) {
    (void)state;
    for (size_t n = 0; n < COUNTS; n++) {
        for (size_t views = 1; views <= 5; views++) {
            check_combined(thread_counts[n], REAL_SINGLE, views);
            check_combined(thread_counts[n], REAL_DOUBLE, views);
        }
    }
}

static void large_copies_are_complete(void **state) {
    (void)state;
    enum { BYTES = 3000001 };
    unsigned char *from = malloc(BYTES), *to = malloc(BYTES + 1);
    for (size_t i = 0; i < BYTES; i++) {
        from[i] = (unsigned char)random_bits(1, i);
    }
    for (size_t n = 0; n < COUNTS; n++) {
        memset(to, 0, BYTES + 1);
        parallel_copy(thread_counts[n], to, from, BYTES);
        assert_memory_equal(to, from, BYTES);
        assert_int_equal(to[BYTES], 0);
    }
    free(from);
    free(to);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_the_same_byte_by_byte),
        cmocka_unit_test(rows_are_read_in_any_order_and_type),
        cmocka_unit_test(the_first_bad_number_is_named),
        cmocka_unit_test(the_first_failure_is_told),
        cmocka_unit_test(views_are_combined_in_place_and_elsewhere),
        cmocka_unit_test(large_copies_are_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
