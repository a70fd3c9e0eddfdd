#include "method/replay.h"

#include "method/head.h"

#include <string.h>

l3a_status memory_resize(l3a_context *context, struct memory *memory, size_t capacity, size_t classes) {
    l3a_status status = L3A_OK;
    float *features = NULL;
    int8_t *labels = NULL;
    size_t *order = NULL;
    TRY(allocate(context, capacity, memory->inputs * sizeof *features, &features));
    TRY(allocate_zeroed(context, capacity, classes, &labels));
    TRY(allocate(context, capacity, sizeof *order, &order));
    for (size_t i = 0; i < memory->count; i++) {
        memcpy(labels + i * classes, memory->labels + i * memory->classes, memory->classes);
    }
    if (memory->count) {
        memcpy(features, memory->features, memory->count * memory->inputs * sizeof *features);
    }
    memory_free(context, memory);
    memory->features = features;
    memory->labels = labels;
    memory->order = order;
    memory->capacity = capacity;
    memory->classes = classes;
    memory->drawn = memory->drawable = 0;
    features = NULL;
    labels = NULL;
done:
    release(context, features);
    release(context, labels);
    return status;
}

void memory_free(l3a_context *context, struct memory *memory) {
    release(context, memory->features);
    release(context, memory->labels);
    release(context, memory->order);
    memory->features = NULL;
    memory->labels = NULL;
    memory->order = NULL;
}

void memory_set(struct memory *memory, size_t slot, const struct rows *rows, size_t row) {
    int8_t *labels = memory->labels + slot * memory->classes;
    const size_t old = memory->classes - rows->classes;
    memcpy(memory->features + slot * memory->inputs, rows->features + row * memory->inputs, memory->inputs * sizeof(float));
    memset(labels, 0, old);
    for (size_t k = 0; k < rows->classes; k++) {
        labels[old + k] = rows->labels[row * rows->classes + k] == 1;
    }
}

bool memory_holds_out(const struct memory *memory, size_t slot) {
    return memory->hold_out && slot % memory->hold_out == 0;
}

static void shuffle(struct memory *memory, struct stream *random) {
    stream_shuffle(random, memory->order, memory->count);
    memory->drawn = memory->drawable = 0;
    for (size_t i = 0; i < memory->count; i++) {
        if (!memory_holds_out(memory, memory->order[i])) {
            memory->order[memory->drawable++] = memory->order[i];
        }
    }
}

size_t memory_draw(struct memory *memory, struct stream *random, size_t count, size_t *slots) {
    size_t found = 0;
    if (memory->count && memory->drawn == memory->drawable) {
        shuffle(memory, random);
    }
    count = count < memory->drawable ? count : memory->drawable;
    while (found < count) {
        if (memory->drawn == memory->drawable) {
            shuffle(memory, random);
        }
        slots[found++] = memory->order[memory->drawn++];
    }
    return found;
}

l3a_status memory_keep_random(struct head *head, const struct rows *rows) {
    struct memory *memory = &head->memory;
    l3a_status status = L3A_OK;
    size_t *order = NULL;
    const size_t wanted = head->tuning.memory * rows->classes, count = wanted < rows->count ? wanted : rows->count;
    TRY(allocate(head->context, rows->count, sizeof *order, &order));
    TRY(memory_resize(head->context, memory, memory->count + count, head->classes));
    stream_shuffle(&head->random, order, rows->count);
    for (size_t i = 0; i < count; i++) {
        memory_set(memory, memory->count++, rows, order[i]);
    }
done:
    release(head->context, order);
    return status;
}
