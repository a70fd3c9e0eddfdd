/* Runs a fuzz target on files, and on each file truncated at many lengths: replay FILE|FOLDER... */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CUTS = 2048 };

/* Copies the input to memory of exactly its size, so that a sanitizer detects a read beyond it. */
static void run_once(const uint8_t *bytes, size_t count) {
    uint8_t *copy = malloc(count ? count : 1);
    must(copy != NULL);
    memcpy(copy, bytes, count);
    LLVMFuzzerTestOneInput(copy, count);
    free(copy);
}

static size_t run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat about;
    if (!file || fstat(fileno(file), &about)) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    const size_t count = (size_t)about.st_size, step = count / CUTS + 1;
    uint8_t *bytes = malloc(count ? count : 1);
    must(bytes && fread(bytes, 1, count, file) == count);
    fclose(file);
    for (size_t cut = 0; cut < count; cut += step) {
        run_once(bytes, cut);
    }
    run_once(bytes, count);
    free(bytes);
    return 1;
}

static size_t run_path(const char *path) {
    DIR *folder = opendir(path);
    if (!folder) {
        return run_file(path);
    }
    size_t files = 0;
    for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        char *inner = NULL;
        if (entry->d_name[0] == '.') {
            continue;
        }
        must(asprintf(&inner, "%s/%s", path, entry->d_name) > 0);
        files += run_path(inner);
        free(inner);
    }
    closedir(folder);
    return files;
}

int main(int count, char **arguments) {
    size_t files = 0;
    for (int i = 1; i < count; i++) {
        files += run_path(arguments[i]);
    }
    printf("%zu files\n", files);
    return files ? 0 : 1;
}
