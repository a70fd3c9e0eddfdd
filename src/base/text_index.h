/* Texts sorted once, to be found by name: n look-ups in n texts take n log n comparisons, also where a stranger chose the texts. */
#ifndef L3A_TEXT_INDEX_H
#define L3A_TEXT_INDEX_H

#include "base/context.h"

typedef struct text_index {
    struct indexed_text *items;
    size_t count;
} text_index;

/* The texts must stay while the index is used. Free it, whatever this returns. */
l3a_status text_index_make(l3a_context *context, char *const *texts, size_t count, text_index *index);
void text_index_free(l3a_context *context, text_index *index);
/* The number of a text, the lowest where it is there more than once; or index->count. */
size_t text_index_find(const text_index *index, const char *text);
/* The lowest number of a text that is there before, and in *first the number it has there; or index->count. */
size_t text_index_repeated(const text_index *index, size_t *first);

#endif
