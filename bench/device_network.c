/* A network on a GPU: how fast it is there, with and without the way of the pictures, and what it makes of given ones. For
 * bench/gpu_networks.py.
 *
 *     bench_device_network CHECKPOINT float32|bf16|float16 [COUNT PICTURES FEATURES]
 *
 * PICTURES has `COUNT` pictures as float32 planes; FEATURES is written likewise. Prints a line of JSON. */
#include "base/memory.h"
#include "base/plugin.h"
#include "net/backbone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCHES = 6 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int explain(const l3a_context *context) {
    fprintf(stderr, "%s\n%s\n", l3a_error_text(context), l3a_error_hint(context));
    return 1;
}

static float *made_up(size_t count) {
    float *numbers = malloc(count * sizeof *numbers);
    for (size_t i = 0; numbers && i < count; i++) {
        numbers[i] = (float)((i * 2654435761U >> 16) % 1000) / 500 - 1;
    }
    return numbers;
}

/* From the processor's memory, and back to it. */
static l3a_status measure_whole(l3a_backbone *backbone, size_t batch, double *rate) {
    const l3a_backbone_info *info = l3a_backbone_describe(backbone);
    const size_t count = BATCHES * batch;
    float *pictures = made_up(count * 3 * info->size * info->size), *features = malloc(count * info->width * sizeof *features);
    l3a_status status = pictures && features ? l3a_backbone_run(backbone, pictures, batch, features) : L3A_ERROR_MEMORY;
    const double before = now();
    status = status == L3A_OK ? l3a_backbone_run(backbone, pictures, count, features) : status;
    *rate = (double)count / (now() - before);
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
    free(pictures);
    free(features);
    return status;
}

int main(int count, char **arguments) {
    const l3a_context_options device = {.size = sizeof device, .device = "cuda"};
    l3a_context *context = NULL;
    l3a_backbone *backbone = NULL;
    size_t pictures = 0;
    double seconds = 0, rate = 0, begin = now();
    if (count != 3 && count != 6) {
        fprintf(stderr, "bench_device_network CHECKPOINT float32|bf16|float16 [COUNT PICTURES FEATURES]\n");
        return 2;
    }
    const l3a_backbone_options options = {.size = sizeof options,
                                          .precision = !strcmp(arguments[2], "float16") ? L3A_NETWORK_FLOAT16
                                                       : !strcmp(arguments[2], "bf16") ? L3A_NETWORK_BF16
                                                                                       : L3A_NETWORK_FLOAT32};
    if (l3a_context_create(&device, &context) != L3A_OK) {
        l3a_context_create(NULL, &context);
        char text[256];
        l3a_device_describe(context, "cuda", text, sizeof text);
        return explain(context);
    }
    if (l3a_backbone_open(context, arguments[1], &options, &backbone) != L3A_OK) {
        return explain(context);
    }
    const double opened = now() - begin;
    if (count == 6 && compute(backbone, strtoul(arguments[3], NULL, 10), arguments[4], arguments[5]) != L3A_OK) {
        return explain(context);
    }
    begin = now();
    if (backbone->back_end->measure(backbone->state, &pictures, &seconds) != L3A_OK) {
        return explain(context);
    }
    const double prepared = now() - begin;
    if (measure_whole(backbone, pictures, &rate) != L3A_OK) {
        return explain(context);
    }
    printf("{\"engine\": \"%s\", \"batch\": %zu, \"rate\": %.1f, \"whole\": %.1f, \"open\": %.2f, \"prepare\": %.2f}\n",
           l3a_backbone_describe(backbone)->engine, pictures, (double)pictures / seconds, rate, opened, prepared);
    l3a_backbone_free(backbone);
    l3a_context_free(context);
    return 0;
}
