/* The values that a pickle makes, and finding one among them. */
#include "format/pickle.h"

#include "base/memory.h"

#include <string.h>

enum { VALUE_LIMIT = 1 << 23, LINK_LIMIT = 1 << 24 };

l3a_status pickle_reserve(struct pickle *pickle, void *items, size_t count, size_t *room, size_t size, size_t limit,
                          const char *what) {
    return count < limit ? grow_array(pickle->bytes.input->context, items, room, count + 1, size)
                         : pickle_fail(pickle, "more than %zu %s", limit, what);
}

l3a_status pickle_make(struct pickle *pickle, struct pickle_value value, uint32_t *index) {
    const l3a_status status = pickle_reserve(pickle, &pickle->values.items, pickle->values.count, &pickle->values.room,
                                             sizeof value, VALUE_LIMIT, "values");
    if (status == L3A_OK) {
        *index = (uint32_t)pickle->values.count++;
        pickle->values.items[*index] = value;
    }
    return status;
}

l3a_status pickle_append(struct pickle *pickle, uint32_t container, uint32_t value) {
    const l3a_status status = pickle_reserve(pickle, &pickle->links.items, pickle->links.count, &pickle->links.room,
                                             sizeof *pickle->links.items, LINK_LIMIT, "items");
    if (status == L3A_OK) {
        const uint32_t link = (uint32_t)pickle->links.count++;
        struct pickle_value *to = &pickle->values.items[container];
        pickle->links.items[link] = (struct pickle_link){value, 0};
        if (to->as.items.count++) {
            pickle->links.items[to->as.items.last].next = link;
        } else {
            to->as.items.first = link;
        }
        to->as.items.last = link;
    }
    return status;
}

bool pickle_is_text(const struct pickle *pickle, uint32_t index, const char *text) {
    const struct pickle_value *value = pickle_at(pickle, index);
    const size_t length = strlen(text);
    return value->kind == PICKLE_TEXT && value->as.text.length == length && memcmp(pickle_text(pickle, value), text, length) == 0;
}

uint32_t pickle_find(const struct pickle *pickle, uint32_t dict, const char *key) {
    const struct pickle_value *value = pickle_at(pickle, dict);
    uint32_t found = 0, link = value->kind == PICKLE_DICT ? value->as.items.first : 0;
    while (link) {
        const struct pickle_link *name = &pickle->links.items[link], *item = &pickle->links.items[name->next];
        found = pickle_is_text(pickle, name->value, key) ? item->value : found;
        link = item->next;
    }
    return found;
}

size_t pickle_items(const struct pickle *pickle, uint32_t container, uint32_t *items, size_t capacity) {
    const struct pickle_value *value = pickle_at(pickle, container);
    uint32_t link = value->as.items.first;
    for (size_t i = 0; i < capacity && link; i++) {
        items[i] = pickle->links.items[link].value;
        link = pickle->links.items[link].next;
    }
    return value->as.items.count;
}

l3a_status pickle_read(const input_file *input, uint64_t start, uint64_t end, struct pickle *pickle) {
    l3a_status status = L3A_OK;
    uint32_t nothing;
    memset(pickle, 0, sizeof *pickle);
    pickle->bytes = (struct pickle_bytes){.input = input, .start = start, .end = end};
    pickle->links.count = 1;                                                          /* link 0 means the end */
    TRY(pickle_make(pickle, (struct pickle_value){.kind = PICKLE_OPAQUE}, &nothing)); /* value 0 means none */
    TRY(pickle_run(pickle));
done:
    if (status != L3A_OK) {
        pickle_free(pickle);
    }
    return status;
}

void pickle_free(struct pickle *pickle) {
    if (pickle->bytes.input) {
        l3a_context *context = pickle->bytes.input->context;
        release(context, pickle->bytes.held);
        release(context, pickle->values.items);
        release(context, pickle->links.items);
        release(context, pickle->storages.items);
        release(context, pickle->tensors.items);
        release(context, pickle->machine.stack.items);
        release(context, pickle->machine.marks.items);
        release(context, pickle->machine.memo.items);
    }
    memset(pickle, 0, sizeof *pickle);
}
