/* A phase that is not finished: what its epochs so far have changed, so that a run that was killed goes on after the last of them.
 *
 * Everything else is as before the phase, or follows from that: rows, their order and what happens to them are functions of the
 * seed, memories take new images in the last epoch or later, and the network before the phase is that of the state that was saved
 * then. So nothing is kept in the last epoch, and what a method changes in earlier ones is in its list `during`. */
#include "base/file.h"
#include "method/head.h"

#include <string.h>

enum { PHASE, EPOCH, STEPS, RANDOM, LABELS, NUMBERS };

/* An array that is kept, and how many numbers it has. */
struct item {
    const char *name;
    float *numbers;
    size_t count;
};

enum { ITEMS = 16 };

/* Those of the head and of the method; the network's are in its back end. */
static size_t list_items(const struct head *head, struct item items[ITEMS]) {
    const size_t coefficients = head_has_coefficients(head) ? head->classes * head->inputs : 0;
    size_t count = 0;
    if (coefficients) {
        items[count++] = (struct item){"coefficients", head->coefficients, coefficients};
        items[count++] = (struct item){"moment", head->network->moment, coefficients};
        items[count++] = (struct item){"square", head->network->square, coefficients};
    }
    if (head->network->own.count) {
        const struct head_own *own = &head->network->own;
        items[count++] = (struct item){"own", own->values, own->all};
        items[count++] = (struct item){"own.moment", own->moment, own->count};
        items[count++] = (struct item){"own.square", own->square, own->count};
    }
    for (size_t i = 0; i < head->rules->during_count; i++) {
        const struct head_array *array = &head->rules->during[i];
        const size_t rows = array->rows == EACH_CLASS ? head->classes : 1;
        const size_t columns = array->columns == OF_INPUTS    ? head->inputs
                               : array->columns == OF_NETWORK ? head->network->trained_numbers
                                                              : 1;
        float *numbers;
        memcpy(&numbers, (const char *)head + array->place, sizeof numbers);
        items[count++] = (struct item){array->name, numbers, rows * columns};
    }
    return count;
}

/* The network's: every value that training changes, and the moments of those that steps change. */
static const struct {
    const char *name;
    enum parameter_part part;
} network_parts[] = {
    {"network.value", PARAMETER_VALUE}, {"network.moment", PARAMETER_MOMENT}, {"network.square", PARAMETER_SQUARE}};

enum { NETWORK_PARTS = sizeof network_parts / sizeof *network_parts };

static size_t numbers_of(const struct head *head, enum parameter_part part) {
    const struct trained_network *net = &head->network->net;
    return part == PARAMETER_VALUE ? net->selection.numbers : trained_network_numbers(net);
}

/* SGD has no squares. */
static bool has_part(const struct head *head, enum parameter_part part) {
    return part != PARAMETER_SQUARE || head->network->tuning.optimiser != OPTIMISER_SGD;
}

static l3a_status put_network(struct head *head, l3a_state *into) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < NETWORK_PARTS; i++) {
        const enum parameter_part part = network_parts[i].part;
        const size_t count = numbers_of(head, part);
        float *numbers = NULL;
        if (!has_part(head, part)) {
            continue;
        }
        TRY(allocate(head->context, count, sizeof *numbers, &numbers));
        status = part == PARAMETER_VALUE ? trained_network_read_changed(&head->network->net, numbers)
                                         : trained_network_read(&head->network->net, part, numbers);
        if (status != L3A_OK) {
            release(head->context, numbers);
            goto done;
        }
        TRY(state_give(into, network_parts[i].name, L3A_NUMBER_FLOAT32, (const uint64_t[]){count}, 1, numbers));
    }
done:
    return status;
}

static l3a_status get_network(struct head *head, const l3a_state *from) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < NETWORK_PARTS; i++) {
        const enum parameter_part part = network_parts[i].part;
        const size_t count = numbers_of(head, part);
        const void *numbers;
        if (!has_part(head, part)) {
            continue;
        }
        TRY(state_expect(from, network_parts[i].name, L3A_NUMBER_FLOAT32, 1, (const uint64_t[]){count}, &numbers));
        TRY(part == PARAMETER_VALUE ? trained_network_write_changed(&head->network->net, numbers)
                                    : trained_network_write(&head->network->net, part, numbers));
    }
done:
    return status;
}

/* What tells whether the phase is the same: its labels. */
static uint64_t sum_labels(const struct rows *rows) {
    uint64_t sum = rows->count;
    for (size_t i = 0; i < rows->count * rows->classes; i++) {
        sum = sum * 31 + (uint64_t)(rows->labels[i] + 2);
    }
    return sum;
}

static l3a_status save(struct head *head, const struct rows *rows, size_t epoch, size_t steps) {
    const struct state_progress *progress = head->network->progress;
    l3a_state *state = NULL;
    uint64_t *numbers = NULL;
    struct item items[ITEMS];
    l3a_status status = L3A_OK;
    TRY(state_create(head->context, &state));
    TRY(allocate(head->context, NUMBERS, sizeof *numbers, &numbers));
    numbers[PHASE] = head->network->phase;
    numbers[EPOCH] = epoch;
    numbers[STEPS] = steps;
    numbers[RANDOM] = head->random.next;
    numbers[LABELS] = sum_labels(rows);
    TRY(state_give(state, "numbers", L3A_NUMBER_INT64, (const uint64_t[]){NUMBERS}, 1, numbers));
    const size_t count = list_items(head, items);
    for (size_t i = 0; i < count; i++) {
        TRY(l3a_state_put(state, items[i].name, L3A_NUMBER_FLOAT32, (const uint64_t[]){items[i].count}, 1, items[i].numbers));
    }
    TRY(put_network(head, state));
    TRY(state_write(state, progress->path, progress->owner, head->network->phase));
done:
    state_free(state);
    return status;
}

l3a_status head_progress_keep(struct head *head, const struct rows *rows, size_t epoch, size_t steps) {
    struct head_network *network = head->network;
    l3a_status status = L3A_OK;
    if (!network->progress || epoch == head->tuning.epochs || clock_seconds() - network->kept_at < network->keep_every) {
        return L3A_OK;
    }
    TRY(save(head, rows, epoch, steps));
    network->kept_at = clock_seconds();
done:
    return status;
}

static l3a_status load(struct head *head, const struct rows *rows, const l3a_state *from, size_t *epoch, size_t *steps) {
    struct item items[ITEMS];
    const void *data;
    uint64_t numbers[NUMBERS];
    l3a_status status = L3A_OK;
    TRY(state_expect(from, "numbers", L3A_NUMBER_INT64, 1, (const uint64_t[]){NUMBERS}, &data));
    memcpy(numbers, data, sizeof numbers);
    if (numbers[PHASE] != head->network->phase || numbers[LABELS] != sum_labels(rows)) {
        goto done; /* of another phase: it was kept before that was finished */
    }
    if (!numbers[EPOCH] || numbers[EPOCH] >= head->tuning.epochs) {
        status = state_fail(from, "the number of its epochs is not valid");
        goto done;
    }
    const size_t count = list_items(head, items);
    for (size_t i = 0; i < count; i++) {
        TRY(state_expect(from, items[i].name, L3A_NUMBER_FLOAT32, 1, (const uint64_t[]){items[i].count}, &data));
        memcpy(items[i].numbers, data, items[i].count * sizeof(float));
    }
    TRY(get_network(head, from));
    head->random.next = numbers[RANDOM];
    *epoch = (size_t)numbers[EPOCH];
    *steps = (size_t)numbers[STEPS];
done:
    return status;
}

l3a_status head_progress_resume(struct head *head, const struct rows *rows, size_t *epoch, size_t *steps) {
    struct head_network *network = head->network;
    l3a_state *state = NULL;
    size_t phase;
    bool exists = false;
    l3a_status status = L3A_OK;
    network->kept_at = clock_seconds();
    if (!network->progress) {
        return L3A_OK;
    }
    TRY(file_exists(head->context, network->progress->path, &exists));
    if (exists) {
        TRY(state_read(head->context, network->progress->path, network->progress->owner, &phase, &state));
        TRY(load(head, rows, state, epoch, steps));
    }
done:
    state_free(state);
    return status;
}
