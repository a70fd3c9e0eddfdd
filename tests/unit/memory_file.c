#include "memory_file.h"

#include "support.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

struct memory_file memory_file;

static int memory_open(const char *path, int flags, mode_t mode) {
    (void)path;
    (void)flags;
    (void)mode;
    return 1000;
}

static ssize_t memory_read(int file, void *bytes, size_t count, off_t offset) {
    (void)file;
    const size_t start = (size_t)offset < memory_file.count ? (size_t)offset : memory_file.count;
    const size_t size = count < memory_file.count - start ? count : memory_file.count - start;
    memcpy(bytes, memory_file.bytes + start, size);
    memory_file.read += size;
    return (ssize_t)size;
}

static int memory_size(int file, uint64_t *bytes) {
    (void)file;
    *bytes = memory_file.count;
    return 0;
}

static int memory_close(int file) {
    (void)file;
    return 0;
}

static const file_operations memory_folder = {.open = memory_open, .read = memory_read, .size = memory_size, .close = memory_close};

void hold_file(l3a_context *context, const void *bytes, size_t count) {
    release_file();
    memory_file.bytes = malloc(count ? count : 1);
    assert_non_null(memory_file.bytes);
    if (count) {
        memcpy(memory_file.bytes, bytes, count);
    }
    memory_file.count = count;
    context->files = &memory_folder;
}

void release_file(void) {
    free(memory_file.bytes);
    memory_file = (struct memory_file){0};
}
