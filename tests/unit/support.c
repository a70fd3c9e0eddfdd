#include "support.h"

#include "base/random.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

void write_bytes(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
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
