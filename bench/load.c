/* Reading, decoding and resizing pictures, as an extraction does it, without a network. For bench/gpu_pictures.py:
 *
 *     bench_load LIST VIEWS [THREADS]    LIST: a file with a path on each line; prints {"pictures": …, "rate": …} */
#include <l3a/l3a.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 224 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The lines of a file; ends the program if there are none. */
static char **read_lines(const char *path, size_t *count) {
    char line[4096], **lines = NULL;
    FILE *file = fopen(path, "r");
    *count = 0;
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        lines = realloc(lines, (*count + 1) * sizeof *lines);
        if (!lines || !(lines[(*count)++] = strdup(line))) {
            exit(1);
        }
    }
    if (!*count) {
        fprintf(stderr, "%s: no paths in it\n", path);
        exit(1);
    }
    fclose(file);
    return lines;
}

static l3a_status load_all(l3a_context *context, char *const *paths, size_t count, size_t views) {
    const l3a_loader_options options = {.size = sizeof options, .width = SIDE, .height = SIDE, .views = views};
    float *planes = malloc(l3a_view_rows(views) * 3 * SIDE * SIDE * sizeof *planes);
    l3a_loader *loader = NULL;
    size_t index = 0;
    l3a_status status =
        planes ? l3a_loader_create(context, (const char *const *)paths, count, &options, &loader) : L3A_ERROR_MEMORY;
    for (size_t i = 0; status == L3A_OK && i < count; i++) {
        status = l3a_loader_next(loader, &index, planes);
    }
    l3a_loader_free(loader);
    free(planes);
    return status;
}

int main(int count, char **arguments) {
    if (count < 3) {
        fprintf(stderr, "bench_load LIST VIEWS [THREADS]\n");
        return 2;
    }
    const l3a_context_options options = {.size = sizeof options, .threads = count > 3 ? atoi(arguments[3]) : 0};
    l3a_context *context = NULL;
    size_t pictures = 0;
    char **paths = read_lines(arguments[1], &pictures);
    if (l3a_context_create(&options, &context) != L3A_OK) {
        return 1;
    }
    const double before = now();
    const l3a_status status = load_all(context, paths, pictures, (size_t)atoi(arguments[2]));
    if (status != L3A_OK) {
        fprintf(stderr, "%s\n", l3a_error_text(context));
    } else {
        printf("{\"pictures\": %zu, \"rate\": %.1f}\n", pictures, (double)pictures / (now() - before));
    }
    l3a_context_free(context);
    for (size_t i = 0; i < pictures; i++) {
        free(paths[i]);
    }
    free(paths);
    return status != L3A_OK;
}
