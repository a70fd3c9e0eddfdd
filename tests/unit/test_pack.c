/* Packed models: scores within what rounding allows, the backbone inside, what the files hold, and what is refused. And how a
 * tagger finds the backbone of a model. */
#include "support.h"

#include "base/file.h"
#include "extract/intake.h"
#include "learn/model.h"
#include "memory_probe.h"
#include "learn/file_packed.h"
#include "net/backbone.h"
#include "tag/tagger.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 40, CLASSES = 3, WIDTH = 64 };

static const char *const class_names[CLASSES] = {"ant", "bee", "cat"};
static char *folder, *checkpoint, *model_file, *packed_file, *picture;

/* ---- Inputs ---- */

static void save_model(l3a_context *context, const l3a_backbone_options *options, int orient, const char *path) {
    static float values[ROWS * WIDTH];
    static int8_t labels[ROWS * CLASSES];
    l3a_options settings;
    l3a_features *table = NULL;
    l3a_model *model = NULL;
    l3a_backbone *backbone = NULL;
    random_table(7, ROWS, WIDTH, CLASSES, 2, values, labels);
    options_default(&settings);
    settings.model.dim = 96;
    settings.model.gamma = 1;
    settings.model.thresholds = L3A_THRESHOLDS_PER_CLASS;
    assert_ok(context, l3a_features_wrap(context, values, labels, ROWS, 1, WIDTH, class_names, CLASSES, &table));
    assert_ok(context, l3a_backbone_open(context, checkpoint, options, &backbone));
    assert_ok(context, l3a_backbone_sign(backbone, orient, table));
    assert_ok(context, l3a_model_create(context, WIDTH, &settings, &model));
    assert_ok(context, l3a_model_learn(model, table, class_names, CLASSES));
    assert_ok(context, l3a_model_set_record(model, "method", "l3a"));
    assert_ok(context, l3a_model_save(model, path));
    l3a_model_free(model);
    l3a_backbone_free(backbone);
    l3a_features_free(table);
}

/* Saves the model again, with a record of where its backbone is. */
static void remember(l3a_context *context, const char *path, const char *backbone) {
    l3a_model *model = NULL;
    assert_ok(context, l3a_model_load(context, path, &model));
    assert_ok(context, tagger_remember_backbone(model, path, backbone));
    assert_ok(context, l3a_model_save(model, path));
    l3a_model_free(model);
}

static int make_inputs(void **state) {
    l3a_context *context = make_context(1);
    (void)state;
    folder = make_temporary_folder();
    checkpoint = path_in(folder, "backbone.safetensors");
    model_file = path_in(folder, "model.safetensors");
    packed_file = path_in(folder, "model.packed");
    picture = path_in(folder, "picture.jpg");
    write_small_backbone(context, checkpoint, 1);
    write_small_picture(picture, 3);
    save_model(context, NULL, 0, model_file);
    l3a_context_free(context);
    return 0;
}

static int remove_inputs(void **state) {
    (void)state;
    free(checkpoint);
    free(model_file);
    free(packed_file);
    free(picture);
    remove_folder(folder);
    return 0;
}

/* The scores of the picture, in the order of the classes. */
static void tag(l3a_context *context, const char *path, const char *backbone, float scores[CLASSES]) {
    const l3a_tagger_options options = {.size = sizeof options, .backbone = backbone};
    l3a_tagger *tagger = NULL;
    l3a_reader *reader = NULL;
    l3a_tags *tags = NULL;
    assert_ok(context, l3a_tagger_open(context, path, &options, &tagger));
    assert_int_equal(l3a_reader_create(tagger, &reader), L3A_OK);
    assert_int_equal(l3a_reader_tag_file(reader, picture, &tags), L3A_OK);
    assert_int_equal(l3a_tags_count(tags), CLASSES);
    for (size_t i = 0; i < CLASSES; i++) {
        scores[l3a_tags_class(tags, i)] = l3a_tags_score(tags, i);
        assert_string_equal(l3a_tags_name(tags, i), class_names[l3a_tags_class(tags, i)]);
    }
    l3a_tags_free(tags);
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
}

/* ---- Rounding ---- */

enum { LARGE_WIDTH = 192, LARGE_DIM = 2048, LARGE = LARGE_WIDTH + LARGE_DIM, MANY = 20 };

/* x of a row of features, by the definition of the layer. */
static void expand(const float *z, double x[LARGE]) {
    for (size_t j = 0; j < LARGE_DIM; j++) {
        double sum = 0;
        for (size_t i = 0; i < LARGE_WIDTH; i++) {
            sum += (double)z[i] * (double)(float)((2 * l3a_uniform(2025, i * LARGE_DIM + j) - 1) / sqrt(LARGE_WIDTH));
        }
        x[j] = sum > 0 ? sum : 0;
    }
    for (size_t i = 0; i < LARGE_WIDTH; i++) {
        x[LARGE_DIM + i] = (double)z[i];
    }
}

/* How much the score of class k may change: rounding of the coefficients to the nearest stored number, and float32 products. */
static double bound(l3a_pack_type type, const double *x, const double *coefficients, size_t k) {
    double largest = 0, sum = 0;
    for (size_t i = 0; i < LARGE; i++) {
        largest = fmax(largest, fabs(coefficients[i * MANY + k]));
    }
    for (size_t i = 0; i < LARGE; i++) {
        const double w = fabs(coefficients[i * MANY + k]);
        const double half = 0x1p-11 * (1 + 0x1p-12) * w + largest * 0x1p-14 * 0x1p-25, small = largest / 127 / 2;
        sum += fabs(x[i]) * (type == L3A_PACK_INT8 ? small : half) + 2e-6 * fabs(x[i]) * w;
    }
    return sum;
}

static l3a_model *learn_large(l3a_context *context, l3a_features *table, const char *const *names, l3a_precision precision) {
    l3a_options settings;
    l3a_model *model = NULL;
    options_default(&settings);
    settings.model.dim = LARGE_DIM;
    settings.model.gamma = 10;
    settings.model.skip_features = L3A_SKIP_ON;
    settings.model.thresholds = L3A_THRESHOLDS_PER_CLASS;
    settings.model.precision = precision;
    assert_ok(context, l3a_model_create(context, LARGE_WIDTH, &settings, &model));
    assert_ok(context, l3a_model_learn(model, table, names, MANY));
    return model;
}

/* Scores of the packed model against those of the model, and against the bound. */
static void check_scores(l3a_context *context, l3a_model *model, l3a_pack_type type, l3a_features *table, const float *values) {
    enum { MEASURED = 5 };
    static double x[LARGE];
    static float before[ROWS * MANY], after[ROWS * MANY];
    char *path = path_in(folder, "large.safetensors"), *packed = path_in(folder, "large.packed");
    l3a_pack_options options = {.size = sizeof options, .type = type, .features = table};
    l3a_pack_report report = {.size = sizeof report};
    struct scorer *scorer = NULL;
    double largest = 0, thresholds[MANY];
    assert_ok(context, l3a_model_save(model, path));
    assert_ok(context, l3a_pack_write(context, path, &options, packed, &report));
    assert_ok(context, scorer_load(context, packed, 0, NULL, &scorer));
    assert_true(scorer->packed && !scorer->has_backbone);
    assert_ok(context, l3a_model_score(model, values, ROWS, before));
    assert_ok(context, scorer_score(context, scorer, values, ROWS, after, NULL));
    for (size_t i = 0; i < ROWS * MANY; i++) {
        largest = fmax(largest, fabs((double)before[i] - (double)after[i]));
    }
    for (size_t r = 0; r < MEASURED; r++) {
        expand(values + r * LARGE_WIDTH, x);
        for (size_t k = 0; k < MANY; k++) {
            const double change = fabs((double)before[r * MANY + k] - (double)after[r * MANY + k]);
            assert_true(change <= bound(type, x, l3a_model_coefficients(model), k));
        }
    }
    l3a_model_thresholds(model, thresholds);
    assert_memory_equal(scorer->thresholds, thresholds, sizeof thresholds);
    assert_true(largest > 0);
    assert_true(report.largest_change == largest);
    assert_int_equal(report.rows, ROWS);
    const uint64_t numbers = (uint64_t)LARGE * MANY * (type == L3A_PACK_INT8 ? 1 : 2);
    assert_in_range(report.bytes, numbers, numbers + 4096);
    print_message("%s: %zu bytes, of which W takes %zu; the largest change of a score is %.2g\n",
                  type == L3A_PACK_INT8 ? "int8" : "float16", (size_t)report.bytes, (size_t)numbers, largest);
    scorer_free(scorer);
    free(path);
    free(packed);
}

static void scores_change_as_little_as_rounding_allows(void **state) {
    static float values[ROWS * LARGE_WIDTH];
    static int8_t labels[ROWS * MANY];
    static const char *const names[MANY] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j",
                                            "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"};
    l3a_context *context = make_context(0);
    l3a_features *table = NULL;
    (void)state;
    random_table(11, ROWS, LARGE_WIDTH, MANY, 4, values, labels);
    assert_ok(context, l3a_features_wrap(context, values, labels, ROWS, 1, LARGE_WIDTH, names, MANY, &table));
    for (int precision = L3A_PRECISION_MIXED; precision <= L3A_PRECISION_DOUBLE; precision++) {
        l3a_model *model = learn_large(context, table, names, (l3a_precision)precision);
        check_scores(context, model, L3A_PACK_FLOAT16, table, values);
        check_scores(context, model, L3A_PACK_INT8, table, values);
        l3a_model_free(model);
    }
    l3a_features_free(table);
    l3a_context_free(context);
}

/* Coefficients far outside the range of float16 are stored as well as others. */
static void any_size_of_coefficients_fits(void **state) {
    l3a_context *context = make_context(1);
    char *path = path_in(folder, "scaled.safetensors"), *packed = path_in(folder, "scaled.packed");
    float row[WIDTH], before[CLASSES], after[CLASSES];
    const double factors[CLASSES] = {1e30, 1e-30, 0};
    l3a_model *model = NULL;
    struct scorer *scorer = NULL;
    (void)state;
    for (size_t i = 0; i < WIDTH; i++) {
        row[i] = (float)(i % 5) - 1;
    }
    assert_ok(context, l3a_model_load(context, model_file, &model));
    for (size_t i = 0; i < model_dim(model) * CLASSES; i++) {
        model->coefficients[i] *= factors[i % CLASSES];
    }
    assert_ok(context, l3a_model_save(model, path));
    assert_ok(context, l3a_pack_write(context, path, NULL, packed, NULL));
    assert_ok(context, scorer_load(context, packed, 0, NULL, &scorer));
    assert_ok(context, l3a_model_score(model, row, 1, before));
    assert_ok(context, scorer_score(context, scorer, row, 1, after, NULL));
    for (size_t k = 0; k < CLASSES; k++) {
        assert_true(fabsf(before[k] - after[k]) <= 1e-2F * fabsf(before[k]));
    }
    assert_true(before[0] != 0 && before[1] != 0);
    scorer_free(scorer);
    l3a_model_free(model);
    free(path);
    free(packed);
    l3a_context_free(context);
}

/* ---- The backbone inside ---- */

/* Features equal to the last bit give scores equal to the last bit. */
static void the_packed_backbone_is_the_same(void **state) {
    l3a_context *context = make_context(1);
    char *whole = path_in(folder, "whole.packed");
    const l3a_pack_options options = {.size = sizeof options, .with_backbone = 1, .backbone = checkpoint};
    l3a_pack_report report = {.size = sizeof report};
    float inside[CLASSES], outside[CLASSES];
    struct stat about;
    (void)state;
    assert_ok(context, l3a_pack_write(context, model_file, NULL, packed_file, NULL));
    assert_ok(context, l3a_pack_write(context, model_file, &options, whole, &report));
    assert_int_equal(stat(whole, &about), 0);
    assert_int_equal(report.bytes, about.st_size);
    assert_int_equal(report.rows, 0);
    tag(context, packed_file, checkpoint, outside);
    tag(context, whole, NULL, inside);
    assert_memory_equal(inside, outside, sizeof inside);
    tag(context, whole, checkpoint, inside); /* a backbone that is named is used */
    assert_memory_equal(inside, outside, sizeof inside);
    free(whole);
    l3a_context_free(context);
}

static void a_backbone_in_float16_is_close(void **state) {
    l3a_context *context = make_context(1);
    char *half = path_in(folder, "half.packed"), *whole = path_in(folder, "float.packed");
    l3a_pack_options options = {.size = sizeof options, .with_backbone = 1, .backbone = checkpoint};
    l3a_pack_report report = {.size = sizeof report};
    float inside[CLASSES], outside[CLASSES];
    (void)state;
    assert_ok(context, l3a_pack_write(context, model_file, &options, whole, &report));
    const uint64_t large = report.bytes;
    options.half_backbone = 1;
    assert_ok(context, l3a_pack_write(context, model_file, &options, half, &report));
    assert_in_range(report.bytes, large / 2, large * 6 / 10);
    tag(context, whole, NULL, outside);
    tag(context, half, NULL, inside);
    assert_memory_not_equal(inside, outside, sizeof inside);
    for (size_t k = 0; k < CLASSES; k++) {
        assert_true(fabsf(inside[k] - outside[k]) < 0.02F);
    }
    free(half);
    free(whole);
    l3a_context_free(context);
}

/* Preprocessing that is not the default is found in the packed file, too. */
static void pictures_are_prepared_as_recorded(void **state) {
    l3a_context *context = make_context(1);
    char *path = path_in(folder, "prepared.safetensors"), *packed = path_in(folder, "prepared.packed");
    const l3a_backbone_options unusual = {.size = sizeof unusual,
                                          .pool = L3A_POOL_MEAN,
                                          .mean = {0.485F, 0.456F, 0.406F},
                                          .deviation = {0.25F, 0.25F, 0.25F},
                                          .filter = L3A_FILTER_BICUBIC};
    const l3a_tagger_options options = {.size = sizeof options, .backbone = checkpoint};
    const l3a_pack_options packing = {.size = sizeof packing, .with_backbone = 1, .backbone = checkpoint};
    l3a_tagger *tagger = NULL;
    (void)state;
    save_model(context, &unusual, 1, path);
    assert_ok(context, l3a_pack_write(context, path, &packing, packed, NULL));
    for (int i = 0; i < 2; i++) {
        assert_ok(context, l3a_tagger_open(context, i ? packed : path, i ? NULL : &options, &tagger));
        const l3a_backbone_info *info = l3a_backbone_describe(tagger->backbone);
        assert_string_equal(info->preprocess, "rgb 12x12 bicubic mean 0.485,0.456,0.406 std 0.25");
        assert_memory_equal(info->mean, unusual.mean, sizeof info->mean);
        assert_string_equal(info->pool, "mean");
        assert_int_equal(tagger->picture.orient, 1);
        l3a_tagger_free(tagger);
    }
    free(path);
    free(packed);
    l3a_context_free(context);
}

static void what_preprocess_says(void **state) {
    static const char *const bad[] = {"",
                                      "none",
                                      "rgb 224x223 bilinear mean 0.5 std 0.5",
                                      "rgb 224x224",
                                      "rgb 224x224 bilinear mean 0.5",
                                      "rgb 224x224 bilinear mean 0.5,0.5 std 0.5",
                                      "rgb 224x224 bilinear mean nan std 0.5",
                                      "rgb 224x224 bilinear mean  std 0.5",
                                      "rgb 224x224 bilinear mean 0.5,,1 std 0.5",
                                      "rgb 224x224 bilinear mean 0.5 std 0.5 crop 0",
                                      "rgb 224x224 bilinear mean 0.5 std 0.5 crop 1.1"};
    static const char *const bad_networks[] = {"heads",  "heads 4 gelu",   "heads 4,layer 2", "fp8",
                                               ", bf16", "layer 99999999", "heads -1",        "float32"};
    l3a_backbone_options options;
    int orient;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        backbone_record_read(bad[i], "mean", NULL, &options, &orient);
        assert_int_equal(options.size, sizeof options);
        assert_int_equal(options.side, 0);
        assert_int_equal(options.pool, L3A_POOL_DEFAULT);
        assert_int_equal(orient, 0);
    }
    backbone_record_read(NULL, NULL, NULL, &options, &orient);
    assert_int_equal(options.side, 0);
    backbone_record_read("rgb 448x448 bicubic mean 0,0.1,0.2 std 1 oriented", "cls+mean", NULL, &options, &orient);
    assert_int_equal(options.side, 448);
    assert_int_equal(options.filter, L3A_FILTER_BICUBIC);
    assert_int_equal(options.pool, L3A_POOL_CLS_MEAN);
    assert_true(options.mean[0] == 0 && options.mean[1] == 0.1F && options.mean[2] == 0.2F);
    assert_true(options.deviation[0] == 1 && options.deviation[2] == 1);
    assert_int_equal(orient, 1);
    assert_true(options.crop == 0 && options.heads == 0 && options.layer == 0);
    for (size_t i = 0; i < sizeof bad_networks / sizeof bad_networks[0]; i++) {
        backbone_record_read("rgb 64x64 bicubic mean 0 std 1", "cls", bad_networks[i], &options, &orient);
        assert_int_equal(options.side, 0);
    }
    backbone_record_read("rgb 64x64 bicubic mean 0 std 1 crop 0.875 oriented", "projection",
                         "heads 16, quick_gelu, epsilon 1e-05, stride first, offset, layer 11, bf16", &options, &orient);
    assert_int_equal(options.pool, L3A_POOL_PROJECTION);
    assert_int_equal(options.heads, 16);
    assert_int_equal(options.activation, L3A_ACTIVATION_QUICK_GELU);
    assert_int_equal(options.layer, 11);
    assert_int_equal(options.precision, L3A_NETWORK_BF16);
    assert_true(options.crop == 0.875 && options.epsilon == 1e-5 && options.stride_first && options.offset);
    assert_int_equal(orient, 1);
    backbone_record_read("rgb 64x64 bilinear mean 0 std 1", "cls", "float16", &options, &orient);
    assert_int_equal(options.side, 64);
    assert_int_equal(options.precision, L3A_NETWORK_FLOAT16);
}

/* ---- Where the backbone is ---- */

static void refuse(l3a_context *context, const char *path, l3a_status expected, const char *contains) {
    l3a_tagger *tagger = NULL;
    assert_fails(context, l3a_tagger_open(context, path, NULL, &tagger), expected, contains);
    assert_null(tagger);
}

static void the_backbone_is_found_where_it_was(void **state) {
    l3a_context *context = make_context(1);
    char *models = path_in(folder, "models"), *nets = path_in(folder, "nets"), *elsewhere = path_in(folder, "elsewhere");
    char *net = path_in(nets, "vit ü.safetensors"), *model = path_in(models, "m.safetensors"), *moved = path_in(elsewhere, "m");
    char *link = path_in(folder, "link.safetensors"), *both = path_in(elsewhere, "nets");
    float expected[CLASSES], scores[CLASSES];
    (void)state;
    assert_int_equal(mkdir(models, 0700) | mkdir(nets, 0700) | mkdir(elsewhere, 0700), 0);
    copy_file(checkpoint, net);
    copy_file(model_file, model);
    refuse(context, model, L3A_ERROR_ARGUMENT, "the model does not name its backbone");
    remember(context, model, net);
    tag(context, model_file, checkpoint, expected);
    tag(context, model, NULL, scores);
    assert_memory_equal(scores, expected, sizeof scores);
    assert_int_equal(symlink(model, link), 0);
    tag(context, link, NULL, scores); /* the folder is that of the file */
    assert_memory_equal(scores, expected, sizeof scores);
    copy_file(model, moved);
    tag(context, moved, NULL, scores); /* ../nets again */
    assert_int_equal(unlink(moved) | mkdir(both, 0700), 0);
    char *deeper = path_in(both, "m");
    copy_file(model, deeper);
    tag(context, deeper, NULL, scores); /* by the absolute path */
    assert_memory_equal(scores, expected, sizeof scores);
    assert_int_equal(unlink(net), 0);
    refuse(context, model, L3A_ERROR_NOT_FOUND, "vit ü.safetensors does not exist");
    assert_non_null(strstr(l3a_error_text(context), "m.safetensors: cannot find the model's backbone, vit"));
    assert_non_null(strstr(l3a_error_text(context), "(sha256 "));
    assert_non_null(strstr(l3a_error_hint(context), "give the path"));
    write_small_backbone(context, net, 100);
    refuse(context, model, L3A_ERROR_MISMATCH, "is another file (sha256 ");
    char *const paths[] = {models, nets, elsewhere, net, model, moved, link, both, deeper};
    free_paths(paths, sizeof paths / sizeof paths[0]);
    l3a_context_free(context);
}

static void the_records_are_paths(void **state) {
    l3a_context *context = make_context(1);
    char *below = path_in(folder, "below"), *whole = realpath(folder, NULL), *net, *expected;
    char *inner = path_in(below, "m");
    l3a_model *model = NULL;
    (void)state;
    assert_int_equal(mkdir(below, 0700), 0);
    net = path_in(below, "net");
    expected = path_in(whole, "below/net");
    copy_file(checkpoint, net);
    assert_ok(context, l3a_model_load(context, model_file, &model));
    assert_ok(context, tagger_remember_backbone(model, model_file, net));
    assert_string_equal(l3a_model_record(model, "backbone-path"), "below/net");
    assert_string_equal(l3a_model_record(model, "backbone-path-absolute"), expected);
    assert_ok(context, tagger_remember_backbone(model, inner, net)); /* a model that is not there yet */
    assert_string_equal(l3a_model_record(model, "backbone-path"), "net");
    assert_ok(context, tagger_remember_backbone(model, inner, checkpoint));
    assert_string_equal(l3a_model_record(model, "backbone-path"), "../backbone.safetensors");
    assert_ok(context, tagger_remember_backbone(model, "/m", checkpoint));
    assert_string_equal(l3a_model_record(model, "backbone-path"), l3a_model_record(model, "backbone-path-absolute") + 1);
    assert_fails(context, tagger_remember_backbone(model, model_file, "nowhere"), L3A_ERROR_NOT_FOUND, "nowhere");
    assert_fails(context, tagger_remember_backbone(model, "no/where", net), L3A_ERROR_NOT_FOUND, "no");
    l3a_model_free(model);
    free(below);
    free(whole);
    free(net);
    free(expected);
    free(inner);
    l3a_context_free(context);
}

/* A name that JSON cannot hold is not recorded, and the old records stay. */
static void a_path_that_is_not_utf8(void **state) {
    l3a_context *context = make_context(1);
    char *net = path_in(folder, "\xff.safetensors");
    l3a_model *model = NULL;
    (void)state;
    copy_file(checkpoint, net);
    assert_ok(context, l3a_model_load(context, model_file, &model));
    assert_ok(context, tagger_remember_backbone(model, model_file, net));
    assert_null(l3a_model_record(model, "backbone-path"));
    l3a_model_free(model);
    free(net);
    l3a_context_free(context);
}

/* A packed file beside the model finds its backbone; one further away does not say where that is. */
static void a_packed_model_finds_what_is_near(void **state) {
    l3a_context *context = make_context(1);
    char *path = path_in(folder, "near.safetensors"), *far = path_in(folder, "far"), *deep, *near = path_in(folder, "near.packed");
    float scores[CLASSES];
    (void)state;
    copy_file(model_file, path);
    remember(context, path, checkpoint);
    assert_ok(context, l3a_pack_write(context, path, NULL, near, NULL));
    tag(context, near, NULL, scores);
    assert_int_equal(mkdir(far, 0700), 0);
    deep = path_in(far, "deep");
    assert_int_equal(mkdir(deep, 0700), 0);
    char *packed = path_in(deep, "m.packed");
    assert_ok(context, l3a_pack_write(context, path, NULL, packed, NULL));
    refuse(context, packed, L3A_ERROR_ARGUMENT, "does not name its backbone");
    free(path);
    free(far);
    free(deep);
    free(near);
    free(packed);
    l3a_context_free(context);
}

/* ---- What is in a packed file, and what it cannot do ---- */

static void it_holds_only_what_tagging_needs(void **state) {
    static const char *const tensors[] = {"weights", "scale", "thresholds"};
    static const char *const keys[] = {"format",
                                       "version",
                                       "width",
                                       "dim",
                                       "seed",
                                       "precision",
                                       "skip-features",
                                       "classes",
                                       "record.backbone",
                                       "record.sha256",
                                       "record.preprocess",
                                       "record.pool"};
    enum { KEYS = sizeof keys / sizeof keys[0] };
    l3a_context *context = make_context(1);
    l3a_file *file = NULL;
    l3a_tensor_info info = {.size = sizeof info};
    const char *key, *text;
    size_t count = 0;
    (void)state;
    assert_ok(context, l3a_pack_write(context, model_file, NULL, packed_file, NULL));
    assert_ok(context, l3a_file_open(context, packed_file, &file));
    assert_string_equal(l3a_file_kind(file), "packed");
    for (size_t i = 0; l3a_file_tensor(file, i, &info); i++, count++) {
        assert_string_equal(info.name, tensors[i]);
        assert_true(info.verified);
    }
    assert_int_equal(count, 3);
    count = 0;
    for (size_t i = 0; l3a_file_record(file, i, &key, &text), key; i++) {
        if (strncmp(key, "xxh3.", 5) != 0) {
            assert_true(count < KEYS);
            assert_string_equal(key, keys[count]);
            count++;
        }
    }
    assert_int_equal(count, KEYS);
    l3a_file_free(file);
    l3a_context_free(context);
}

static void it_cannot_learn(void **state) {
    l3a_context *context = make_context(1);
    const l3a_tagger_options options = {.size = sizeof options, .backbone = checkpoint};
    l3a_tagger *tagger = NULL;
    l3a_model *model = NULL;
    char *again = path_in(folder, "again.packed");
    (void)state;
    assert_ok(context, l3a_pack_write(context, model_file, NULL, packed_file, NULL));
    assert_fails(context, l3a_model_load(context, packed_file, &model), L3A_ERROR_FORMAT, "a packed model can only tag");
    assert_fails(context, l3a_pack_write(context, packed_file, NULL, again, NULL), L3A_ERROR_FORMAT, "a packed model can only tag");
    assert_ok(context, l3a_tagger_open(context, packed_file, &options, &tagger));
    assert_null(l3a_tagger_model(tagger));
    assert_non_null(strstr(l3a_error_text(context), "a packed model can only tag"));
    assert_fails(context, tagger_model(tagger, &model), L3A_ERROR_STATE, packed_file);
    assert_ok(context, l3a_tagger_reload(tagger));
    l3a_tagger_free(tagger);
    free(again);
    l3a_context_free(context);
}

static void refuse_packing(l3a_context *context, const char *model, const l3a_pack_options *options, const char *path,
                           l3a_status expected, const char *contains) {
    assert_fails(context, l3a_pack_write(context, model, options, path, NULL), expected, contains);
}

static void what_cannot_be_packed(void **state) {
    l3a_context *context = make_context(1);
    char *empty = path_in(folder, "empty.safetensors"), *other = path_in(folder, "other.safetensors");
    static const float narrow[3] = {0};
    l3a_pack_options options = {.size = sizeof options, .with_backbone = 1};
    l3a_pack_report report = {0};
    l3a_features *table = NULL;
    l3a_model *model = NULL;
    (void)state;
    assert_ok(context, l3a_model_create(context, WIDTH, NULL, &model));
    assert_ok(context, l3a_model_save(model, empty));
    l3a_model_free(model);
    write_small_backbone(context, other, 100);
    assert_ok(context, l3a_features_wrap(context, narrow, NULL, 1, 1, 3, NULL, 0, &table));
    refuse_packing(context, empty, NULL, packed_file, L3A_ERROR_STATE, "no class yet");
    refuse_packing(context, "nowhere", NULL, packed_file, L3A_ERROR_NOT_FOUND, "nowhere");
    refuse_packing(context, model_file, NULL, model_file, L3A_ERROR_EXISTS, "would overwrite");
    refuse_packing(context, model_file, &options, packed_file, L3A_ERROR_ARGUMENT, "does not name its backbone");
    options.backbone = other;
    refuse_packing(context, model_file, &options, packed_file, L3A_ERROR_MISMATCH, "sha256");
    options.backbone = checkpoint;
    refuse_packing(context, model_file, &options, checkpoint, L3A_ERROR_EXISTS, "would overwrite");
    options.features = table;
    refuse_packing(context, model_file, &options, packed_file, L3A_ERROR_MISMATCH, "features 3 wide");
    options.features = NULL;
    options.type = (l3a_pack_type)7;
    refuse_packing(context, model_file, &options, packed_file, L3A_ERROR_OPTION, "no type 7");
    assert_fails(context, l3a_pack_write(context, model_file, NULL, packed_file, &report), L3A_ERROR_ARGUMENT, "size 0");
    l3a_features_free(table);
    free(empty);
    free(other);
    l3a_context_free(context);
}

static ssize_t full_disk(int file, const void *bytes, size_t count, off_t offset) {
    (void)file, (void)bytes, (void)count, (void)offset;
    errno = ENOSPC;
    return -1;
}

static void a_full_disk_leaves_the_old_file(void **state) {
    l3a_context *context = make_context(1);
    file_operations full = posix_files;
    size_t before_size, after_size;
    (void)state;
    assert_ok(context, l3a_pack_write(context, model_file, NULL, packed_file, NULL));
    char *before = read_bytes(packed_file, &before_size);
    full.write = full_disk;
    context->files = &full;
    const l3a_pack_options options = {.size = sizeof options, .type = L3A_PACK_INT8};
    refuse_packing(context, model_file, &options, packed_file, L3A_ERROR_FULL, packed_file);
    context->files = &posix_files;
    char *after = read_bytes(packed_file, &after_size);
    assert_int_equal(before_size, after_size);
    assert_memory_equal(before, after, after_size);
    free(before);
    free(after);
    l3a_context_free(context);
}

static l3a_status pack_and_tag(l3a_context *context, const char *path) {
    const l3a_pack_options options = {.size = sizeof options, .with_backbone = 1, .backbone = checkpoint};
    l3a_tagger *tagger = NULL;
    l3a_reader *reader = NULL;
    l3a_tags *tags = NULL;
    l3a_status status = l3a_pack_write(context, model_file, &options, path, NULL);
    if (status == L3A_OK) {
        status = l3a_tagger_open(context, path, NULL, &tagger);
    }
    if (status == L3A_OK) {
        status = l3a_reader_create(tagger, &reader);
    }
    if (status == L3A_OK) {
        status = l3a_reader_tag_file(reader, picture, &tags);
    }
    l3a_tags_free(tags);
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
    return status;
}

/* Many allocations, but not all, so that the test is quick. */
static void any_allocation_may_fail(void **state) {
    char *path = path_in(folder, "failing.packed");
    size_t failures = 0;
    struct memory_probe probe = {0};
    l3a_context *context = make_probed_context(&probe, 1);
    l3a_status status = L3A_ERROR_MEMORY;
    (void)state;
    const long before = probe.blocks;
    for (size_t n = 1; status != L3A_OK; n += 1 + n / 40) {
        probe_restart(&probe, n, false);
        status = pack_and_tag(context, path);
        assert_true(status == L3A_ERROR_MEMORY || probe.seen < n);
        assert_int_equal(probe.blocks, before);
        failures += status != L3A_OK;
    }
    assert_true(failures > 100);
    l3a_context_free(context);
    free(path);
}

/* Every byte that is read has a checksum, the backbone's as well. */
static void a_damaged_file_is_refused(void **state) {
    l3a_context *context = make_context(1);
    const l3a_pack_options options = {.size = sizeof options, .with_backbone = 1, .backbone = checkpoint};
    char *path = path_in(folder, "damaged.packed");
    size_t size;
    (void)state;
    assert_ok(context, l3a_pack_write(context, model_file, &options, packed_file, NULL));
    char *bytes = read_bytes(packed_file, &size);
    for (size_t i = 3; i < size; i += size / 61) {
        l3a_tagger *tagger = NULL;
        bytes[i] ^= 1;
        write_bytes(path, bytes, size);
        bytes[i] ^= 1;
        assert_int_not_equal(l3a_tagger_open(context, path, NULL, &tagger), L3A_OK);
        assert_null(tagger);
    }
    for (size_t cut = 0; cut < size; cut += size / 17) {
        l3a_tagger *tagger = NULL;
        write_bytes(path, bytes, cut);
        assert_int_not_equal(l3a_tagger_open(context, path, NULL, &tagger), L3A_OK);
    }
    free(bytes);
    free(path);
    l3a_context_free(context);
}

/* A model that is only loaded to score needs no sums, and its scores are the same. */
static void a_scorer_needs_no_sums(void **state) {
    l3a_context *context = make_context(1);
    char *path = path_in(folder, "without.safetensors");
    struct scorer *scorer = NULL, *again = NULL;
    l3a_model *model = NULL;
    float row[WIDTH], scores[2][CLASSES];
    double thresholds[CLASSES];
    size_t size;
    (void)state;
    char *bytes = read_bytes(model_file, &size);
    bytes[8 + *(uint64_t *)bytes + 5] ^= 1; /* gram comes first */
    write_bytes(path, bytes, size);
    for (size_t i = 0; i < WIDTH; i++) {
        row[i] = (float)(i % 7) - 3;
    }
    assert_fails(context, l3a_model_load(context, path, &model), L3A_ERROR_CHECKSUM, "gram");
    assert_ok(context, l3a_model_load(context, model_file, &model));
    assert_ok(context, scorer_load(context, path, 0, NULL, &scorer));
    assert_ok(context, l3a_model_score(model, row, 1, scores[0]));
    assert_ok(context, scorer_score(context, scorer, row, 1, scores[1], NULL));
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
    l3a_model_thresholds(model, thresholds);
    assert_memory_equal(scorer->thresholds, thresholds, sizeof thresholds);
    assert_ok(context, scorer_load(context, path, 0, scorer, &again));
    assert_ptr_equal(again->layer, scorer->layer);
    scorer_free(scorer);
    assert_ok(context, scorer_score(context, again, row, 1, scores[1], NULL));
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
    scorer_free(again);
    l3a_model_free(model);
    free(bytes);
    free(path);
    l3a_context_free(context);
}

/* The thresholds of a model with parts depend on what each part judges. */
static void a_scorer_knows_the_parts(void **state) {
    static float values[ROWS * WIDTH];
    static int8_t labels[ROWS * CLASSES];
    l3a_context *context = make_context(1);
    char *path = path_in(folder, "parts.safetensors");
    l3a_options settings;
    l3a_features *table = NULL;
    l3a_model *model = NULL;
    struct scorer *scorer = NULL;
    double thresholds[CLASSES];
    float scores[2][CLASSES];
    (void)state;
    random_table(9, ROWS, WIDTH, CLASSES, 2, values, labels);
    options_default(&settings);
    settings.model.dim = 32;
    settings.model.gamma = 1;
    settings.model.alpha = 0.3;
    settings.model.lift = 0.1;
    settings.model.pseudo = L3A_PSEUDO_OFF;
    settings.model.thresholds = L3A_THRESHOLDS_PER_CLASS;
    assert_ok(context, l3a_features_wrap(context, values, labels, ROWS, 1, WIDTH, class_names, CLASSES, &table));
    assert_ok(context, l3a_model_create(context, WIDTH, &settings, &model));
    assert_ok(context, l3a_model_learn(model, table, class_names, 1));
    assert_ok(context, l3a_model_learn(model, table, class_names + 1, CLASSES - 1));
    assert_int_equal(l3a_model_part_count(model), 2);
    assert_ok(context, l3a_model_save(model, path));
    assert_ok(context, scorer_load(context, path, 0, NULL, &scorer));
    l3a_model_thresholds(model, thresholds);
    assert_memory_equal(scorer->thresholds, thresholds, sizeof thresholds);
    assert_ok(context, l3a_model_score(model, values, 1, scores[0]));
    assert_ok(context, scorer_score(context, scorer, values, 1, scores[1], NULL));
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
    scorer_free(scorer);
    l3a_model_free(model);
    l3a_features_free(table);
    free(path);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scores_change_as_little_as_rounding_allows),
                                       cmocka_unit_test(any_size_of_coefficients_fits),
                                       cmocka_unit_test(the_packed_backbone_is_the_same),
                                       cmocka_unit_test(a_backbone_in_float16_is_close),
                                       cmocka_unit_test(pictures_are_prepared_as_recorded),
                                       cmocka_unit_test(what_preprocess_says),
                                       cmocka_unit_test(the_backbone_is_found_where_it_was),
                                       cmocka_unit_test(the_records_are_paths),
                                       cmocka_unit_test(a_path_that_is_not_utf8),
                                       cmocka_unit_test(a_packed_model_finds_what_is_near),
                                       cmocka_unit_test(it_holds_only_what_tagging_needs),
                                       cmocka_unit_test(it_cannot_learn),
                                       cmocka_unit_test(what_cannot_be_packed),
                                       cmocka_unit_test(a_full_disk_leaves_the_old_file),
                                       cmocka_unit_test(any_allocation_may_fail),
                                       cmocka_unit_test(a_damaged_file_is_refused),
                                       cmocka_unit_test(a_scorer_needs_no_sums),
                                       cmocka_unit_test(a_scorer_knows_the_parts)};
    return cmocka_run_group_tests_name("pack", tests, make_inputs, remove_inputs);
}
