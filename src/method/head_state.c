/* What a head keeps between phases: a few numbers, its coefficients, its memory, and the arrays that its rules list. Everything
 * else is made anew in every phase, the optimiser's sums among it. */
#include "method/head.h"

#include <string.h>

/* The numbers: where the sequence of random numbers is, and the images in the memory and offered to it. */
enum { RANDOM, STORED, OFFERED, NUMBERS };

static const struct head_array common[] = {
    {"coefficients", offsetof(struct head, coefficients), L3A_NUMBER_FLOAT32, EACH_CLASS, OF_INPUTS},
    {"memory.features", offsetof(struct head, memory.features), L3A_NUMBER_FLOAT32, EACH_STORED, OF_IMAGE},
    {"memory.labels", offsetof(struct head, memory.labels), L3A_NUMBER_INT8, EACH_STORED, OF_CLASSES},
    {"memory.pictures", offsetof(struct head, memory.pictures), L3A_NUMBER_INT64, PICTURES, OF_ONE},
    {"memory.checksums", offsetof(struct head, memory.checksums), L3A_NUMBER_INT64, PICTURES, OF_ONE},
};

enum { COMMON = sizeof common / sizeof common[0] };

static const struct head_array *array_at(const struct head *head, size_t index) {
    return index < COMMON ? &common[index] : &head->rules->kept[index - COMMON];
}

static void shape_of(const struct head *head, const struct head_array *array, uint64_t shape[2]) {
    const size_t rows[] = {
        [EACH_CLASS] = head->classes, [EACH_STORED] = head->memory.count, [NETWORK_ONCE] = 1, [PICTURES] = head->memory.count};
    const size_t columns[] = {[OF_ONE] = 1,
                              [OF_CLASSES] = head->classes,
                              [OF_INPUTS] = head->inputs,
                              [OF_IMAGE] = head->memory.inputs,
                              [OF_NETWORK] = head->network ? head->network->trained_numbers : 0};
    shape[0] = rows[array->rows];
    shape[1] = columns[array->columns];
}

static bool is_kept(const struct head *head, const struct head_array *array) {
    const bool coefficients = array == &common[0];
    return coefficients ? head_has_coefficients(head) : head->network || (array->rows != NETWORK_ONCE && array->rows != PICTURES);
}

l3a_status head_save(void *state, l3a_state *into) {
    const struct head *head = state;
    l3a_status status = L3A_OK;
    uint64_t *numbers = NULL;
    TRY(allocate(head->context, NUMBERS, sizeof *numbers, &numbers));
    numbers[RANDOM] = head->random.next;
    numbers[STORED] = head->memory.count;
    numbers[OFFERED] = head->memory.seen;
    TRY(state_give(into, "numbers", L3A_NUMBER_INT64, (const uint64_t[]){NUMBERS}, 1, numbers));
    for (size_t i = 0; i < COMMON + head->rules->kept_count; i++) {
        const struct head_array *array = array_at(head, i);
        const void *data;
        uint64_t shape[2];
        if (!is_kept(head, array)) {
            continue;
        }
        memcpy(&data, (const char *)head + array->place, sizeof data);
        shape_of(head, array, shape);
        TRY(l3a_state_put(into, array->name, array->type, shape, 2, data));
    }
    if (head->network) {
        TRY(head_network_save(head, into));
    }
done:
    return status;
}

l3a_status head_load(void *state, const l3a_state *from) {
    struct head *head = state;
    struct memory *memory = &head->memory;
    l3a_status status = L3A_OK;
    const void *data;
    uint64_t numbers[NUMBERS];
    TRY(state_expect(from, "numbers", L3A_NUMBER_INT64, 1, (const uint64_t[]){NUMBERS}, &data));
    memcpy(numbers, data, sizeof numbers);
    if (numbers[STORED] > INT64_MAX || numbers[OFFERED] > INT64_MAX) {
        status = state_fail(from, "the number of images in the memory is not valid");
        goto done;
    }
    head->random.next = numbers[RANDOM];
    head->classes = memory->classes = from->classes;
    memory->count = memory->capacity = (size_t)numbers[STORED];
    memory->seen = numbers[OFFERED];
    if (head->network) {
        TRY(head_network_load_state(head, from));
    }
    for (size_t i = 0; i < COMMON + head->rules->kept_count; i++) {
        const struct head_array *array = array_at(head, i);
        uint64_t shape[2];
        if (!is_kept(head, array)) {
            continue;
        }
        shape_of(head, array, shape);
        TRY(state_copy(from, array->name, array->type, 2, shape, (char *)head + array->place));
    }
    TRY(allocate(head->context, memory->capacity, sizeof *memory->order, &memory->order));
    if (head->rules->resume) {
        TRY(head->rules->resume(head, from));
    }
done:
    return status;
}
