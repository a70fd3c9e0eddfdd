/* taken FILE...: prints when each picture was taken, in seconds since 1970, or "none"; for test_taken.py. */
#include "image/taken.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Memory of just the size of the file, so that a sanitizer sees a read past the end. */
static int print_taken(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        return 1;
    }
    const size_t count = (size_t)ftell(file);
    void *bytes = malloc(count ? count : 1);
    int64_t seconds;
    rewind(file);
    const int failed = !bytes || fread(bytes, 1, count, file) != count;
    if (!failed && picture_taken(bytes, count, &seconds)) {
        printf("%" PRId64 "\n", seconds);
    } else if (!failed) {
        puts("none");
    }
    fclose(file);
    free(bytes);
    return failed;
}

int main(int count, char **arguments) {
    int failed = 0;
    for (int i = 1; i < count; i++) {
        failed |= print_taken(arguments[i]);
    }
    return failed;
}
