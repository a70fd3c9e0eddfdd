/* Texts, sorted once so that they can be found by name. n look-ups in n texts take n log n comparisons, even if the texts were
 * chosen to make them slow. */
#ifndef L3A_TEXT_INDEX_H
#define L3A_TEXT_INDEX_H

#include "base/memory.h"

typedef struct text_index {
    struct indexed_text *items;
    size_t count;
} text_index;

/* The texts must outlive the index. Free the index even if this fails. */
l3a_status text_index_make(l3a_context *context, char *const *texts, size_t count, text_index *index);
l3a_status text_index_make_pool(l3a_context *context, const text_pool *pool, text_index *index);
void text_index_free(l3a_context *context, text_index *index);
/* The number of a text, or index->count if it is missing; the lowest number if the text occurs more than once. */
size_t text_index_find(const text_index *index, const char *text);
/* The lowest number of a text that repeats an earlier one, with the number of its first occurrence in *first; or index->count. */
size_t text_index_repeated(const text_index *index, size_t *first);
/* Fills order [count] with the numbers of the texts, sorted by text. */
void text_index_order(const text_index *index, size_t *order);

/* Sorts texts by bytes, in place. */
void sort_texts(char **texts, size_t count);

#endif
