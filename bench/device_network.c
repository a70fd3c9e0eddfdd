/* A network on a GPU: how fast it is there, with and without the way of the pictures, and what it makes of given ones. For
 * bench/gpu_networks.py, which writes one request a line and reads one line of JSON for each:
 *
 *     bench_device_network CHECKPOINT float32|bf16|float16
 *     measure                            pictures per second, in batches of the largest size, on the device alone
 *     whole                              the same from the processor's memory and back to it
 *     compute COUNT PICTURES FEATURES    features of pictures in a file of float32 planes, written as float32 */
#include "base/memory.h"
#include "base/plugin.h"
#include "net/backbone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCHES = 4 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int explain(const l3a_context *context) {
    fprintf(stderr, "%s\n%s\n", l3a_error_text(context), l3a_error_hint(context));
    return 1;
}

static l3a_status measure(l3a_backbone *backbone) {
    size_t batch = 0;
    double seconds = 0;
    const l3a_status status = backbone->back_end->measure(backbone->state, &batch, &seconds);
    printf("{\"batch\": %zu, \"rate\": %.1f}\n", batch, (double)batch / seconds);
    return status;
}

static l3a_status measure_whole(l3a_backbone *backbone) {
    const l3a_backbone_info *info = l3a_backbone_describe(backbone);
    const size_t size = 3 * info->size * info->size, count = BATCHES * info->batch;
    float *pictures = malloc(count * size * sizeof *pictures), *features = malloc(count * info->width * sizeof *features);
    l3a_status status = pictures && features ? L3A_OK : L3A_ERROR_MEMORY;
    for (size_t i = 0; status == L3A_OK && i < count * size; i++) {
        pictures[i] = (float)(i % 1000) / 500 - 1;
    }
    const double before = now();
    status = status == L3A_OK ? l3a_backbone_run(backbone, pictures, count, features) : status;
    printf("{\"rate\": %.1f}\n", (double)count / (now() - before));
    free(pictures);
    free(features);
    return status;
}

static l3a_status compute(l3a_backbone *backbone, size_t count, const char *from, const char *to) {
    const l3a_backbone_info *info = l3a_backbone_describe(backbone);
    const size_t size = 3 * info->size * info->size;
    float *pictures = malloc(count * size * sizeof *pictures), *features = malloc(count * info->width * sizeof *features);
    FILE *input = fopen(from, "rb"), *output = fopen(to, "wb");
    l3a_status status = L3A_ERROR_IO;
    if (pictures && features && input && output && fread(pictures, size * sizeof *pictures, count, input) == count) {
        status = l3a_backbone_run(backbone, pictures, count, features);
        status = fwrite(features, info->width * sizeof *features, count, output) == count ? status : L3A_ERROR_IO;
    }
    if (input) {
        fclose(input);
    }
    if (output) {
        fclose(output);
    }
    printf("{\"width\": %zu}\n", info->width);
    free(pictures);
    free(features);
    return status;
}

static l3a_status answer(l3a_backbone *backbone, const char *line) {
    char from[400], to[400];
    size_t count;
    if (sscanf(line, "compute %zu %399s %399s", &count, from, to) == 3) {
        return compute(backbone, count, from, to);
    }
    return strncmp(line, "measure", 7) == 0 ? measure(backbone) : measure_whole(backbone);
}

int main(int count, char **arguments) {
    const l3a_context_options device = {.size = sizeof device, .device = "cuda"};
    l3a_context *context = NULL;
    l3a_backbone *backbone = NULL;
    l3a_status status = L3A_OK;
    char line[1000], text[256];
    if (count != 3) {
        fprintf(stderr, "bench_device_network CHECKPOINT float32|bf16|float16\n");
        return 2;
    }
    const l3a_backbone_options options = {.size = sizeof options,
                                          .precision = !strcmp(arguments[2], "float16") ? L3A_NETWORK_FLOAT16
                                                       : !strcmp(arguments[2], "bf16")  ? L3A_NETWORK_BF16
                                                                                        : L3A_NETWORK_FLOAT32};
    if (l3a_context_create(&device, &context) != L3A_OK) {
        l3a_context_create(NULL, &context);
        l3a_device_describe(context, "cuda", text, sizeof text);
        return explain(context);
    }
    status = l3a_backbone_open(context, arguments[1], &options, &backbone);
    while (status == L3A_OK && fgets(line, sizeof line, stdin)) {
        status = answer(backbone, line);
        fflush(stdout);
    }
    if (status != L3A_OK) {
        return explain(context);
    }
    l3a_backbone_free(backbone);
    l3a_context_free(context);
    return 0;
}
