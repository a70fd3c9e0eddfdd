#include "support.h"

#include "format/safetensors.h"
#include "small_networks.h"
#include "small_training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The back end ---- */

struct rounded {
    void *naive;
    size_t layers, largest, counts[512][PARAMETER_KINDS];
    float values[1 << 17];
};

static l3a_status rounded_open(const struct network *network, const struct network_use *use, void **state) {
    struct rounded *made = calloc(1, sizeof *made);
    assert_non_null(made);
    made->layers = network->layer_count;
    assert_true(made->layers <= 512);
    for (size_t i = 0; i < made->layers; i++) {
        for (size_t kind = 0; kind < PARAMETER_KINDS; kind++) {
            const struct parameter *parameter = &network->layers[i].parameters[kind];
            made->counts[i][kind] = parameter->values ? parameter->count : 0;
            assert_true(made->counts[i][kind] <= 1 << 17);
        }
    }
    const l3a_status status = naive_back_end.open(network, use, &made->naive);
    if (status == L3A_OK) {
        *state = made;
    } else {
        free(made);
    }
    return status;
}

static void rounded_close(void *state) {
    naive_back_end.close(((struct rounded *)state)->naive);
    free(state);
}

static l3a_status rounded_run(void *state, const float *pictures, size_t count, float *const *outputs) {
    return naive_back_end.run(((struct rounded *)state)->naive, pictures, count, outputs);
}

static l3a_status rounded_forward(void *state, const float *pictures, size_t count, float *const *outputs) {
    return naive_back_end.forward(((struct rounded *)state)->naive, pictures, count, outputs);
}

static l3a_status rounded_backward(void *state, const float *const *gradients) {
    return naive_back_end.backward(((struct rounded *)state)->naive, gradients);
}

static l3a_status rounded_square(void *state, double *sum) {
    return naive_back_end.gradient_square(((struct rounded *)state)->naive, sum);
}

static l3a_status rounded_read(void *state, size_t layer, enum parameter_kind kind, enum parameter_part part, float *values) {
    return naive_back_end.read(((struct rounded *)state)->naive, layer, kind, part, values);
}

static l3a_status rounded_write(void *state, size_t layer, enum parameter_kind kind, enum parameter_part part,
                                const float *values) {
    return naive_back_end.write(((struct rounded *)state)->naive, layer, kind, part, values);
}

static l3a_status rounded_step(void *state, const struct network_step *step) {
    struct rounded *rounded = state;
    const l3a_status status = naive_back_end.step(rounded->naive, step);
    for (size_t i = 0; status == L3A_OK && i < rounded->layers * PARAMETER_KINDS; i++) {
        for (enum parameter_part part = PARAMETER_VALUE; part <= PARAMETER_SQUARE; part++) {
            const enum parameter_kind kind = (enum parameter_kind)(i % PARAMETER_KINDS);
            if (part != PARAMETER_GRADIENT && rounded->counts[i / PARAMETER_KINDS][kind]) {
                rounded_read(state, i / PARAMETER_KINDS, kind, part, rounded->values);
                rounded_write(state, i / PARAMETER_KINDS, kind, part, rounded->values);
            }
        }
    }
    return status;
}

static bool rounded_available(void) {
    return true;
}

static l3a_status rounded_plan(const struct network *network, const struct network_use *use, struct network_plan *plan) {
    return naive_back_end.plan(network, use, plan);
}

const struct network_back_end rounded_back_end = {.name = "rounded",
                                                  .available = rounded_available,
                                                  .open = rounded_open,
                                                  .run = rounded_run,
                                                  .close = rounded_close,
                                                  .plan = rounded_plan,
                                                  .forward = rounded_forward,
                                                  .backward = rounded_backward,
                                                  .gradient_square = rounded_square,
                                                  .step = rounded_step,
                                                  .read = rounded_read,
                                                  .write = rounded_write};

/* ---- Files ---- */

char *write_small_network(l3a_context *context, const char *folder, const char *name,
                          void (*make)(struct memory_tensors *tensors)) {
    static struct memory_tensors tensors;
    char *keys[] = {"l3a.mean", "l3a.std"}, *texts[] = {"0.5", "0.5"}, *path = path_in(folder, name);
    const text_list about = {.items = keys, .count = 2}, said = {.items = texts, .count = 2};
    make(&tensors);
    tensor_source *sources = calloc(tensors.count, sizeof *sources);
    float **values = calloc(tensors.count, sizeof *values);
    for (size_t i = 0; i < tensors.count; i++) {
        const struct checkpoint_tensor *tensor = &tensors.tensors[i];
        values[i] = calloc(tensor->elements, sizeof **values);
        assert_ok(context, read_small(&tensors, tensor, values[i]));
        sources[i] = (tensor_source){
            .name = tensor->name, .type = TENSOR_F32, .rank = tensor->rank, .fill = fill_from_memory, .argument = values[i]};
        memcpy(sources[i].shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
    }
    assert_ok(context, safetensors_write(context, path, &about, &said, sources, tensors.count));
    for (size_t i = 0; i < tensors.count; i++) {
        free(values[i]);
    }
    free(values);
    free(sources);
    return path;
}

char *write_small_set(const char *folder, const char *name, const char *const *labels, size_t count) {
    char *text = calloc(count + 1, 64), *full = NULL;
    strcpy(text, "path,labels\n");
    for (size_t i = 0; i < count; i++) {
        char picture[32];
        snprintf(picture, sizeof picture, "%zu.jpg", i);
        char *path = path_in(folder, picture);
        write_small_picture(path, i);
        free(path);
        strcat(strcat(text, picture), ",");
        for (const char *letter = labels[i]; *letter; letter++) {
            strncat(strcat(text, letter > labels[i] ? ";" : ""), letter, 1);
        }
        strcat(text, "\n");
    }
    put_file(folder, name, text, strlen(text));
    assert_true(asprintf(&full, "list:%s/%s", folder, name) > 0);
    free(text);
    return full;
}

l3a_dataset *open_small_set(l3a_context *context, const char *name) {
    l3a_dataset *dataset = NULL;
    assert_ok(context, l3a_dataset_open(context, name, NULL, NULL, &dataset));
    return dataset;
}

float *read_tensor(l3a_context *context, const char *path, const char *name, size_t *count) {
    safetensors file = {0};
    float *numbers = NULL;
    assert_ok(context, safetensors_open(context, path, &file));
    const struct tensor *tensor = safetensors_find(&file, name);
    if (tensor) {
        *count = (size_t)tensor->bytes / sizeof *numbers;
        numbers = malloc((size_t)tensor->bytes + 1);
        assert_ok(context, input_read(&file.input, tensor->offset, numbers, (size_t)tensor->bytes));
    }
    safetensors_close(&file);
    return numbers;
}
