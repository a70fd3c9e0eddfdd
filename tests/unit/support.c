#include "support.h"

#include "algebra/algebra.h"
#include "base/random.h"
#include "common/jpeg_write.h"
#include "format/safetensors.h"
#include "image/picture.h"
#include "memory_probe.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct algebra *find_cuda(void) {
    const l3a_context_options options = {.size = sizeof options, .device = "cuda"};
    const struct algebra *algebra = NULL;
    l3a_context *context = NULL;
    char text[200];
    if (l3a_context_create(&options, &context) == L3A_OK) {
        algebra = context->algebra;
    } else {
        context = make_context(1);
        assert_int_not_equal(l3a_device_describe(context, "cuda", text, sizeof text), L3A_OK);
        print_message("skipped: the back end of CUDA: %s\n", l3a_error_text(context));
    }
    l3a_context_free(context);
    return algebra;
}

const char *device_of_back_end(const struct algebra *algebra) {
    return strcmp(algebra->name, "cuda") ? NULL : "cuda";
}

l3a_context *make_context(int threads) {
    l3a_context_options options = {.size = sizeof options};
    l3a_context *context = NULL;
    options.threads = threads;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    return context;
}

l3a_options options_of(const l3a_model *model) {
    l3a_options options;
    options_default(&options);
    assert_int_equal(l3a_model_options(model, &options), L3A_OK);
    return options;
}

/* L3A_TEST_FILTER=NAME, which may contain * and ?, runs only the tests of that name: under a slow tool, for instance. */
__attribute__((constructor)) static void choose_tests(void) {
    const char *wanted = getenv("L3A_TEST_FILTER");
    if (wanted) {
        cmocka_set_test_filter(wanted);
    }
}

void assert_ok_at(l3a_context *context, l3a_status status, const char *what, const char *file, int line) {
    if (status != L3A_OK) {
        print_error("%s: %s: %s\n  %s\n", what, l3a_status_name(status), l3a_error_text(context), l3a_error_hint(context));
    }
    _assert_int_equal(status, L3A_OK, file, line);
}

void assert_fails_at(l3a_context *context, l3a_status status, l3a_status expected, const char *contains, const char *what,
                     const char *file, int line) {
    if (status != expected || !strstr(l3a_error_text(context), contains)) {
        print_error("%s: %s, expected %s\n  text: %s\n  expected in it: %s\n", what, l3a_status_name(status),
                    l3a_status_name(expected), l3a_error_text(context), contains);
    }
    _assert_int_equal(status, expected, file, line);
    _assert_true(strstr(l3a_error_text(context), contains) != NULL, contains, file, line);
}

void assert_near(double one, double other, double tolerance) {
    if (!(fabs(one - other) <= tolerance)) {
        print_error("%.17g and %.17g differ by more than %g\n", one, other, tolerance);
    }
    assert_true(fabs(one - other) <= tolerance);
}

char *make_temporary_folder(void) {
    const char *base = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%s/l3a-test-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(path));
    return strdup(path);
}

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *where) {
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

void remove_folder(char *folder) {
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(folder);
}

char *path_in(const char *folder, const char *name) {
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
    return path;
}

void free_paths(char *const *paths, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(paths[i]);
    }
}

void write_bytes(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

void put_file(const char *folder, const char *name, const void *bytes, size_t count) {
    char *path = path_in(folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    write_bytes(path, bytes, count);
    free(path);
}

char *read_bytes(const char *path, size_t *count) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *count = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*count + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *count, file), *count);
    bytes[*count] = '\0';
    fclose(file);
    return bytes;
}

void copy_file(const char *from, const char *to) {
    size_t size;
    char *bytes = read_bytes(from, &size);
    write_bytes(to, bytes, size);
    free(bytes);
}

struct opening {
    const char *name, *split;
};

static l3a_status open_dataset(l3a_context *context, void *argument) {
    const struct opening *opening = argument;
    l3a_dataset *dataset = NULL;
    const l3a_status status = l3a_dataset_open(context, opening->name, opening->split, NULL, &dataset);
    l3a_dataset_free(dataset);
    return status;
}

size_t fail_each_opening(const char *name, const char *split) {
    return fail_each_allocation(open_dataset, &(struct opening){name, split});
}

void random_table(uint64_t seed, size_t rows, size_t width, size_t classes, unsigned every, float *features, int8_t *labels) {
    for (size_t i = 0; i < rows * width; i++) {
        features[i] = (float)(2 * random_uniform(seed, i) - 1);
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < classes; k++) {
            labels[i * classes + k] = random_bits(seed + 1, i * classes + k) % every == 0;
        }
        labels[i * classes + random_bits(seed + 2, i) % classes] = 1;
    }
}

struct small_tensor {
    const char *name;
    size_t rank;
    uint64_t shape[4];
};

static void write_backbone(l3a_context *context, const char *path, uint64_t seed, bool head) {
    static const struct small_tensor tensors[] = {{"cls_token", 3, {1, 1, 64}},
                                                  {"pos_embed", 3, {1, 10, 64}},
                                                  {"patch_embed.proj.weight", 4, {64, 3, 4, 4}},
                                                  {"patch_embed.proj.bias", 1, {64}},
                                                  {"blocks.0.norm1.weight", 1, {64}},
                                                  {"blocks.0.norm1.bias", 1, {64}},
                                                  {"blocks.0.attn.qkv.weight", 2, {192, 64}},
                                                  {"blocks.0.attn.qkv.bias", 1, {192}},
                                                  {"blocks.0.attn.proj.weight", 2, {64, 64}},
                                                  {"blocks.0.attn.proj.bias", 1, {64}},
                                                  {"blocks.0.norm2.weight", 1, {64}},
                                                  {"blocks.0.norm2.bias", 1, {64}},
                                                  {"blocks.0.mlp.fc1.weight", 2, {128, 64}},
                                                  {"blocks.0.mlp.fc1.bias", 1, {128}},
                                                  {"blocks.0.mlp.fc2.weight", 2, {64, 128}},
                                                  {"blocks.0.mlp.fc2.bias", 1, {64}},
                                                  {"norm.weight", 1, {64}},
                                                  {"norm.bias", 1, {64}},
                                                  {"head.weight", 2, {1000, 64}},
                                                  {"head.bias", 1, {1000}}};
    enum { TENSORS = sizeof tensors / sizeof tensors[0], LARGEST = 1000 * 64 };
    static float values[TENSORS][LARGEST];
    tensor_source sources[TENSORS];
    char *keys[] = {"l3a.mean", "l3a.std"}, *numbers[] = {"0.5", "0.5"};
    const text_list about = {.items = keys, .count = 2}, said = {.items = numbers, .count = 2};
    for (size_t i = 0; i < TENSORS; i++) {
        sources[i] = (tensor_source){
            .name = tensors[i].name, .type = TENSOR_F32, .rank = tensors[i].rank, .fill = fill_from_memory, .argument = values[i]};
        memcpy(sources[i].shape, tensors[i].shape, sizeof tensors[i].shape);
        for (size_t j = 0; j < LARGEST; j++) {
            values[i][j] = (float)((random_uniform(seed + i, j) - 0.5) * 0.6) + (strstr(tensors[i].name, "norm") ? 1.0F : 0.0F);
        }
    }
    assert_ok(context, safetensors_write(context, path, &about, &said, sources, head ? TENSORS : TENSORS - 2));
}

void write_small_backbone(l3a_context *context, const char *path, uint64_t seed) {
    write_backbone(context, path, seed, false);
}

void write_small_backbone_with_words(l3a_context *context, const char *path, uint64_t seed) {
    write_backbone(context, path, seed, true);
}

void write_small_picture(const char *path, uint64_t seed) {
    enum { WIDTH = 40, HEIGHT = 30, BLOCK = 10 };
    uint8_t pixels[WIDTH * HEIGHT * 3], file[WIDTH * HEIGHT * 6];
    for (size_t i = 0; i < sizeof pixels; i++) {
        const size_t x = i / 3 % WIDTH / BLOCK, y = i / 3 / WIDTH / BLOCK;
        pixels[i] = (uint8_t)(random_bits(seed, 100 * y + 10 * x + i % 3) % 256);
    }
    const size_t length = jpeg_encode(pixels, WIDTH, HEIGHT, 90, file, sizeof file);
    assert_true(length > 0);
    write_bytes(path, file, length);
}

void write_small_pictures(const char *folder, const char *prefix, char **paths, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_true(asprintf(&paths[i], "%s/%s%zu.jpg", folder, prefix, i) > 0);
        write_small_picture(paths[i], i);
    }
}
