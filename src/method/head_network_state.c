/* What is kept of a trained network between phases, besides what every head keeps (head_state.c): the values that were trained or
 * added, by name. */
#include "method/head.h"

#include <stdio.h>
#include <string.h>

/* How many phases were learned, how wide the inputs of the head are, and how many numbers of the network steps change. */
enum { PHASE, INPUTS, TRAINED, NUMBERS };

static const char prefix[] = "network.";

/* Names of parameters can be longer than those of arrays. */
static void array_name(size_t index, char name[32]) {
    snprintf(name, 32, "%s%zu", prefix, index);
}

/* The names are one text, with a line for each value. */
static l3a_status save_names(const struct head *head, l3a_state *into) {
    text_builder names = {.context = head->context};
    const struct kept_value *kept;
    l3a_status status = L3A_OK;
    uint8_t *bytes = NULL;
    for (size_t i = 0; (kept = trained_network_kept(&head->network->net, i)) != NULL; i++) {
        text_builder_print(&names, "%s\n", kept->name);
    }
    TRY(names.status);
    TRY(allocate(head->context, names.length, 1, &bytes));
    memcpy(bytes, names.text ? names.text : "", names.length);
    TRY(state_give(into, "network.names", L3A_NUMBER_UINT8, (const uint64_t[]){names.length}, 1, bytes));
done:
    text_builder_free(&names);
    return status;
}

l3a_status head_network_save(const struct head *head, l3a_state *into) {
    const struct kept_value *kept;
    l3a_status status = L3A_OK;
    uint64_t *numbers = NULL;
    char name[32];
    TRY(allocate(head->context, NUMBERS, sizeof *numbers, &numbers));
    numbers[PHASE] = head->network->phase;
    numbers[INPUTS] = head->inputs;
    numbers[TRAINED] = head->network->trained_numbers;
    TRY(state_give(into, "network.numbers", L3A_NUMBER_INT64, (const uint64_t[]){NUMBERS}, 1, numbers));
    TRY(save_names(head, into));
    for (size_t i = 0; (kept = trained_network_kept(&head->network->net, i)) != NULL; i++) {
        array_name(i, name);
        TRY(l3a_state_put(into, name, L3A_NUMBER_FLOAT32, kept->shape, kept->rank, kept->values));
    }
done:
    return status;
}

static l3a_status load_value(struct head *head, const l3a_state *from, const char *name, size_t index) {
    const l3a_state_array *array = NULL;
    char wanted[32];
    l3a_status status = L3A_OK;
    array_name(index, wanted);
    for (size_t i = 0; (array = l3a_state_at(from, i)) != NULL && strcmp(array->name, wanted) != 0;) {
        i++;
    }
    if (!array || array->type != L3A_NUMBER_FLOAT32 || array->rank > PARAMETER_RANK) {
        return state_fail(from, "a value of the network is missing");
    }
    TRY(trained_network_keep(&head->network->net, name, array->rank, array->shape, array->data));
done:
    return status;
}

l3a_status head_network_load_state(struct head *head, const l3a_state *from) {
    const void *data;
    uint64_t numbers[NUMBERS], length;
    text_list names = {0};
    l3a_status status = L3A_OK;
    TRY(state_expect(from, "network.numbers", L3A_NUMBER_INT64, 1, (const uint64_t[]){NUMBERS}, &data));
    memcpy(numbers, data, sizeof numbers);
    if (numbers[PHASE] > from->classes || numbers[INPUTS] < 2 || numbers[INPUTS] > INT32_MAX || numbers[TRAINED] > INT64_MAX / 8) {
        status = state_fail(from, "the number of its phases, inputs or trained numbers is not valid");
        goto done;
    }
    head->network->phase = (size_t)numbers[PHASE];
    head->network->trained_numbers = (size_t)numbers[TRAINED];
    head->inputs = head->stored = head->memory.inputs = (size_t)numbers[INPUTS];
    TRY(l3a_state_get(from, "network.names", L3A_NUMBER_UINT8, 1, &length, &data));
    TRY(text_list_split_lines(head->context, &names, data, (size_t)length));
    for (size_t i = 0; i < names.count; i++) {
        TRY(load_value(head, from, names.items[i], i));
    }
done:
    text_list_clear(head->context, &names);
    return status;
}
