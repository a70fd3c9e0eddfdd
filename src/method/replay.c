#include "method/replay.h"

#include "method/head.h"

#include <string.h>

l3a_status memory_resize(l3a_context *context, struct memory *memory, size_t capacity, size_t classes) {
    l3a_status status = L3A_OK;
    const size_t pictures = memory->of_pictures ? capacity : 0;
    struct memory made = *memory;
    made.features = NULL;
    made.labels = NULL;
    made.order = NULL;
    made.pictures = made.checksums = NULL;
    made.capacity = capacity;
    made.classes = classes;
    TRY(allocate_zeroed(context, capacity, memory->inputs * sizeof *made.features, &made.features));
    TRY(allocate_zeroed(context, capacity, classes, &made.labels));
    TRY(allocate(context, capacity, sizeof *made.order, &made.order));
    TRY(allocate_zeroed(context, pictures, sizeof *made.pictures, &made.pictures));
    TRY(allocate_zeroed(context, pictures, sizeof *made.checksums, &made.checksums));
    for (size_t i = 0; i < memory->count; i++) {
        memcpy(made.labels + i * classes, memory->labels + i * memory->classes, memory->classes);
    }
    if (memory->count) {
        memcpy(made.features, memory->features, memory->count * memory->inputs * sizeof *made.features);
    }
    if (memory->count && pictures) {
        memcpy(made.pictures, memory->pictures, memory->count * sizeof *made.pictures);
        memcpy(made.checksums, memory->checksums, memory->count * sizeof *made.checksums);
    }
    memory_free(context, memory);
    *memory = made;
    made = (struct memory){.features = NULL};
done:
    memory_free(context, &made);
    return status;
}

void memory_free(l3a_context *context, struct memory *memory) {
    release(context, memory->features);
    release(context, memory->labels);
    release(context, memory->order);
    release(context, memory->pictures);
    release(context, memory->checksums);
    memory->features = NULL;
    memory->labels = NULL;
    memory->order = NULL;
    memory->pictures = memory->checksums = NULL;
}

void memory_set(struct memory *memory, size_t slot, const struct rows *rows, size_t row) {
    int8_t *labels = memory->labels + slot * memory->classes;
    const size_t old = memory->classes - rows->classes;
    if (rows->features) {
        memcpy(memory->features + slot * memory->inputs, rows->features + row * memory->inputs, memory->inputs * sizeof(float));
    }
    if (rows->pictures) {
        memory->pictures[slot] = rows->pictures[row];
        memory->checksums[slot] = rows->checksums[row];
    }
    memset(labels, 0, old);
    for (size_t k = 0; k < rows->classes; k++) {
        labels[old + k] = rows->labels[row * rows->classes + k] == 1;
    }
}

bool memory_holds_out(const struct memory *memory, size_t slot) {
    return memory->hold_out && slot % memory->hold_out == 0;
}

/* The beginning of a random permutation (Fisher and Yates). */
size_t memory_draw(struct memory *memory, struct stream *random, size_t count, size_t *slots) {
    count = count < memory->count ? count : memory->count;
    for (size_t i = 0; i < memory->count; i++) {
        memory->order[i] = i;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t j = i + stream_below(random, memory->count - i);
        slots[i] = memory->order[j];
        memory->order[j] = memory->order[i];
    }
    return count;
}

size_t memory_offer(struct memory *memory, struct stream *random, const struct rows *rows, size_t row) {
    size_t slot = memory->count;
    memory->seen++;
    if (memory->count < memory->capacity) {
        memory->count++;
    } else {
        slot = stream_below(random, memory->seen);
    }
    if (slot >= memory->capacity) {
        return SIZE_MAX;
    }
    memory_set(memory, slot, rows, row);
    return slot;
}

l3a_status memory_prepare_reservoir(struct head *head, struct rows *rows) {
    (void)rows;
    return memory_resize(head->context, &head->memory, head_memory_slots(head), head->classes);
}

void memory_offer_shown(struct head *head, const struct rows *rows, const size_t *shown, const struct batch *batch) {
    for (size_t i = 0; batch->last_pass && i < batch->fresh; i++) {
        memory_offer(&head->memory, &head->random, rows, shown[i]);
    }
}

l3a_status memory_offer_shuffled(struct head *head, const struct rows *rows,
                                 void (*offer)(struct head *head, const struct rows *rows, size_t row)) {
    l3a_status status = L3A_OK;
    size_t *order = NULL;
    TRY(allocate(head->context, rows->count, sizeof *order, &order));
    stream_shuffle(&head->random, order, rows->count);
    for (size_t i = 0; i < rows->count; i++) {
        offer(head, rows, order[i]);
    }
done:
    release(head->context, order);
    return status;
}

l3a_status memory_keep(struct head *head, const struct rows *rows, const bool *kept) {
    struct memory *memory = &head->memory;
    l3a_status status = L3A_OK;
    size_t count = memory->count;
    for (size_t i = 0; i < rows->count; i++) {
        count += kept[i];
    }
    TRY(memory_resize(head->context, memory, count, head->classes));
    for (size_t i = 0; i < rows->count; i++) {
        if (kept[i]) {
            memory_set(memory, memory->count++, rows, i);
        }
    }
done:
    return status;
}

l3a_status memory_keep_random(struct head *head, const struct rows *rows) {
    l3a_status status = L3A_OK;
    size_t *order = NULL;
    bool *kept = NULL;
    TRY(allocate(head->context, rows->count, sizeof *order, &order));
    TRY(allocate_zeroed(head->context, rows->count, sizeof *kept, &kept));
    for (size_t k = 0; k < rows->classes; k++) {
        size_t left = head_memory_of_class(head);
        stream_shuffle(&head->random, order, rows->count);
        for (size_t i = 0; i < rows->count && left; i++) {
            if (rows->labels[order[i] * rows->classes + k] == 1) {
                kept[order[i]] = true;
                left--;
            }
        }
    }
    TRY(memory_keep(head, rows, kept));
done:
    release(head->context, order);
    release(head->context, kept);
    return status;
}
