#include "base/text_index.h"

#include <stdlib.h>
#include <string.h>

struct indexed_text {
    const char *text;
    size_t number;
};

static int compare(const void *left, const void *right) {
    const struct indexed_text *a = left, *b = right;
    const int order = strcmp(a->text, b->text);
    return order ? order : (a->number > b->number) - (a->number < b->number);
}

static l3a_status make(l3a_context *context, char *const *texts, const text_pool *pool, size_t count, text_index *index) {
    *index = (text_index){0};
    const l3a_status status = allocate(context, count, sizeof *index->items, &index->items);
    if (status != L3A_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        index->items[i] = (struct indexed_text){pool ? text_pool_at(pool, i) : texts[i], i};
    }
    qsort(index->items, count, sizeof *index->items, compare);
    index->count = count;
    return L3A_OK;
}

l3a_status text_index_make(l3a_context *context, char *const *texts, size_t count, text_index *index) {
    return make(context, texts, NULL, count, index);
}

l3a_status text_index_make_pool(l3a_context *context, const text_pool *pool, text_index *index) {
    return make(context, NULL, pool, pool->count, index);
}

void text_index_free(l3a_context *context, text_index *index) {
    release(context, index->items);
    *index = (text_index){0};
}

size_t text_index_find(const text_index *index, const char *text) {
    const struct indexed_text wanted = {text, 0};
    size_t low = 0, high = index->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare(&index->items[middle], &wanted) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < index->count && strcmp(index->items[low].text, text) == 0 ? index->items[low].number : index->count;
}

size_t text_index_repeated(const text_index *index, size_t *first) {
    size_t repeated = index->count;
    for (size_t i = 1, start = 0; i < index->count; i++) {
        start = strcmp(index->items[start].text, index->items[i].text) == 0 ? start : i;
        if (start != i && index->items[i].number < repeated) {
            repeated = index->items[i].number;
            *first = index->items[start].number;
        }
    }
    return repeated;
}

void text_index_order(const text_index *index, size_t *order) {
    for (size_t i = 0; i < index->count; i++) {
        order[i] = index->items[i].number;
    }
}

static int compare_texts(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

void sort_texts(char **texts, size_t count) {
    if (count) {
        qsort(texts, count, sizeof *texts, compare_texts);
    }
}
