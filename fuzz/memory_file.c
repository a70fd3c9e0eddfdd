/* Files for the fuzz targets: the input stands in memory, and every path opens it. Nothing can be written. */
#include "fuzz.h"

#include "base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HANDLE = 1000, ROWS_LIMIT = 1 << 18 };

static const uint8_t *held;
static size_t held_count;

void must(bool condition) {
    if (!condition) {
        abort();
    }
}

static int memory_open(const char *path, int flags, mode_t mode) {
    (void)path;
    (void)flags;
    (void)mode;
    return HANDLE;
}

static ssize_t memory_read(int file, void *bytes, size_t count, off_t offset) {
    must(file == HANDLE);
    if (offset < 0) {
        errno = EINVAL;
        return -1;
    }
    const size_t start = (size_t)offset < held_count ? (size_t)offset : held_count;
    const size_t size = count < held_count - start ? count : held_count - start;
    if (size) {
        memcpy(bytes, held + start, size);
    }
    return (ssize_t)size;
}

static int memory_size(int file, uint64_t *bytes) {
    must(file == HANDLE);
    *bytes = held_count;
    return 0;
}

static int memory_close(int file) {
    must(file == HANDLE);
    return 0;
}

static const file_operations memory_files = {.open = memory_open, .read = memory_read, .size = memory_size, .close = memory_close};

l3a_context *context_over(const uint8_t *bytes, size_t count) {
    l3a_context_options options;
    l3a_context *context = NULL;
    l3a_context_options_default(&options);
    options.threads = 1;
    options.memory_limit = (uint64_t)64 << 20;
    must(l3a_context_create(&options, &context) == L3A_OK);
    context->files = &memory_files;
    held = bytes;
    held_count = count;
    return context;
}

void read_table(l3a_features *features) {
    const size_t rows = l3a_features_rows(features), width = l3a_features_width(features);
    if (rows > ROWS_LIMIT || width > ROWS_LIMIT / rows) {
        return;
    }
    float *values = malloc(rows * width * sizeof *values);
    must(values != NULL);
    l3a_features_read(features, NULL, 0, rows, values);
    for (size_t i = 0; l3a_features_labels(features) && i < rows * l3a_features_class_count(features); i++) {
        const int8_t label = l3a_features_labels(features)[i];
        must(label >= -1 && label <= 1);
    }
    free(values);
}
