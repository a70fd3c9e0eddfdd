/* Model files whose sums are larger than the chunks in which they are written and the strips in which they are read. Row i of A has
 * the numbers that `number` says, and they are looked for where the description of the format has them. */
#include "support.h"

#include "base/write_behind.h"
#include "format/safetensors.h"
#include "learn/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows that neither strips nor chunks are multiples of; triangles of 2 and roots of 3 chunks, in single precision. */
enum { WIDTH = 5, DIM = 1700, ROOT_ROWS = 800 };

static l3a_context *context;
static char *folder, *path;

static int set_up(void **state) {
    context = make_context(*(const int *)*state);
    folder = make_temporary_folder();
    path = path_in(folder, "model.safetensors");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    l3a_context_free(context);
    free(path);
    remove_folder(folder);
    return 0;
}

/* Not symmetric, so that no two rows are alike; floats have it exactly. */
static double number(size_t i, size_t j) {
    return (double)((i * 5003 + j * 17) % 65521) - 30000;
}

/* The bytes of the tensor. */
static char *read_tensor(const char *name, tensor_type type) {
    safetensors file;
    assert_ok(context, safetensors_open(context, path, &file));
    assert_ok(context, safetensors_verify(&file));
    const struct tensor *tensor = safetensors_find(&file, name);
    assert_non_null(tensor);
    assert_int_equal(tensor->type, type);
    assert_true(tensor->bytes > WRITE_CHUNK);
    char *bytes = malloc((size_t)tensor->bytes);
    assert_non_null(bytes);
    assert_ok(context, input_read(&file.input, tensor->offset, bytes, (size_t)tensor->bytes));
    safetensors_close(&file);
    return bytes;
}

static l3a_model *make_model(bool narrow, bool apart) {
    struct model_options options;
    l3a_model *model = NULL;
    model_options_default(&options);
    options.dim = DIM;
    options.store = narrow ? L3A_STORE_FLOAT32 : L3A_STORE_FLOAT64;
    if (apart) {
        options.pseudo = L3A_PSEUDO_OFF;
        options.alpha = 0.3;
        options.precision = narrow ? L3A_PRECISION_MIXED : L3A_PRECISION_DOUBLE;
    }
    assert_ok(context, model_create(context, WIDTH, &options, &model));
    return model;
}

static void the_triangle_is_written_row_after_row(bool narrow) {
    l3a_model *model = make_model(narrow, false), *loaded = NULL;
    double row[DIM];
    for (size_t i = 0; i < DIM; i++) {
        for (size_t j = 0; j <= i; j++) {
            row[j] = number(i, j);
        }
        assert_ok(context, sums_write(&model->evidence->ridge.sums, KEPT, i, 1, row));
    }
    assert_ok(context, l3a_model_save(model, path));
    char *bytes = read_tensor("gram", narrow ? TENSOR_F32 : TENSOR_F64);
    assert_ok(context, l3a_model_load(context, path, &loaded));
    for (size_t i = 0, at = 0; i < DIM; i++) {
        assert_ok(context, sums_read(&loaded->evidence->ridge.sums, KEPT, i, 1, row));
        for (size_t j = 0; j <= i; j++, at++) {
            const double stored = narrow ? (double)((float *)(void *)bytes)[at] : ((double *)(void *)bytes)[at];
            if (stored != number(i, j) || row[j] != number(i, j)) {
                fail_msg("row %zu, column %zu: %g in the file, %g when loaded", i, j, stored, row[j]);
            }
        }
    }
    free(bytes);
    l3a_model_free(model);
    l3a_model_free(loaded);
}

static void a_triangle_of_doubles(void **state) {
    (void)state;
    the_triangle_is_written_row_after_row(false);
}

static void a_triangle_of_floats(void **state) {
    (void)state;
    the_triangle_is_written_row_after_row(true);
}

/* Teaches images to a model; if it keeps phases apart, it keeps them as a root. */
static void teach_images(l3a_model *model) {
    static const char *const names[2] = {"ant", "bee"};
    static float values[ROOT_ROWS * WIDTH];
    static int8_t labels[ROOT_ROWS * 2];
    l3a_features *table = NULL;
    l3a_teach_report report = {.size = sizeof report};
    random_table(5, ROOT_ROWS, WIDTH, 2, 2, values, labels);
    assert_ok(context, l3a_features_wrap(context, values, labels, ROOT_ROWS, 1, WIDTH, names, 2, &table));
    assert_ok(context, l3a_model_teach(model, table, &report));
    l3a_features_free(table);
}

/* Saving makes the root depend on A alone; its rows are compared one by one after that. */
static void the_root_is_written_row_after_row(bool narrow) {
    l3a_model *model = make_model(narrow, true), *loaded = NULL;
    double own[DIM], theirs[DIM];
    teach_images(model);
    assert_ok(context, l3a_model_save(model, path));
    assert_int_equal(model->evidence->part_count, 1);
    const struct scatter *sums = &model->evidence->parts[0].sums;
    assert_true(sums->is_root && sums->dim == DIM);
    char *bytes = read_tensor("root.1", narrow ? TENSOR_F32 : TENSOR_F64);
    assert_ok(context, l3a_model_load(context, path, &loaded));
    const size_t size = DIM * real_size(sums->type);
    for (size_t i = 0; i < sums->rows; i++) {
        assert_ok(context, scatter_read_root(sums, i, 1, own));
        assert_ok(context, scatter_read_root(&loaded->evidence->parts[0].sums, i, 1, theirs));
        assert_memory_equal(bytes + i * size, own, size);
        assert_memory_equal(theirs, own, size);
    }
    free(bytes);
    l3a_model_free(model);
    l3a_model_free(loaded);
}

static void a_root_of_doubles(void **state) {
    (void)state;
    the_root_is_written_row_after_row(false);
}

static void a_root_of_floats(void **state) {
    (void)state;
    the_root_is_written_row_after_row(true);
}

/* Merging adds the triangles in strips. */
static void sums_of_merged_models_are_added(void **state) {
    (void)state;
    l3a_model *models[2] = {make_model(false, false), make_model(false, false)};
    double row[DIM];
    int exact;
    for (size_t m = 0; m < 2; m++) {
        teach_images(models[m]);
        for (size_t i = 0; i < DIM; i++) {
            for (size_t j = 0; j <= i; j++) {
                row[j] = (double)(m + 1) * number(i, j) + (i == j ? 1e9 : 0);
            }
            assert_ok(context, sums_write(&models[m]->evidence->ridge.sums, KEPT, i, 1, row));
        }
    }
    assert_ok(context, l3a_model_merge(models[0], models[1], &exact));
    for (size_t i = 0; i < DIM; i++) {
        assert_ok(context, sums_read(&models[0]->evidence->ridge.sums, KEPT, i, 1, row));
        for (size_t j = 0; j <= i; j++) {
            assert_true(row[j] == 3 * number(i, j) + (i == j ? 2e9 : 0));
        }
    }
    l3a_model_free(models[0]);
    l3a_model_free(models[1]);
}

int main(void) {
    static int alone = 1, several = 3;
#define TEST(test, threads)                                                                                                        \
    { #test ", " #threads, test, set_up, tear_down, &(threads) }
    const struct CMUnitTest tests[] = {
        TEST(a_triangle_of_doubles, alone),  TEST(a_triangle_of_doubles, several), TEST(a_triangle_of_floats, alone),
        TEST(a_triangle_of_floats, several), TEST(a_root_of_doubles, alone),       TEST(a_root_of_doubles, several),
        TEST(a_root_of_floats, alone),       TEST(a_root_of_floats, several),      TEST(sums_of_merged_models_are_added, alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
