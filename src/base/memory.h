/* Memory of a context, and sizes that cannot wrap around. */
#ifndef L3A_MEMORY_H
#define L3A_MEMORY_H

#include "base/context.h"

/* count * size bytes, never zero of them; *memory is NULL on failure. */
l3a_status allocate(l3a_context *context, size_t count, size_t size, void *memory);
l3a_status allocate_zeroed(l3a_context *context, size_t count, size_t size, void *memory);
l3a_status copy_text(l3a_context *context, const char *text, size_t length, char **copy);
void release(l3a_context *context, void *memory);

/* False when the product does not fit. */
bool multiply_sizes(uint64_t left, uint64_t right, uint64_t *product);

/* A list of strings that grows. */
typedef struct text_list {
    char **items;
    size_t count, capacity;
} text_list;

l3a_status text_list_add(l3a_context *context, text_list *list, const char *text, size_t length);
/* The lines of a text, a line's end being \n or \r\n; the last may lack it. */
l3a_status text_list_split_lines(l3a_context *context, text_list *list, const char *text, size_t length);
/* The index of a text, or list->count. */
size_t text_list_find(const text_list *list, const char *text);
/* keys and values side by side: replaces the value of a key, or adds both. */
l3a_status text_record_set(l3a_context *context, text_list *keys, text_list *values, const char *key, const char *value);
void text_list_clear(l3a_context *context, text_list *list);

/* A text under construction. An allocation that fails is remembered and reported by text_builder_status(). */
typedef struct text_builder {
    l3a_context *context;
    char *text;
    size_t length, capacity;
    l3a_status status;
} text_builder;

__attribute__((format(printf, 2, 3))) void text_builder_print(text_builder *builder, const char *format, ...);
void text_builder_append(text_builder *builder, const char *text, size_t length);
/* "…" with what JSON must escape, escaped. */
void text_builder_json_string(text_builder *builder, const char *text);
void text_builder_free(text_builder *builder);

#endif
