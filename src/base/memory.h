/* Memory from a context's allocator, sizes that cannot overflow, and what grows: arrays, lists and pools of texts, and texts under
 * construction. */
#ifndef L3A_MEMORY_H
#define L3A_MEMORY_H

#include "base/context.h"

/* Allocates count * size bytes, and at least one. *memory is NULL on failure. */
l3a_status allocate(l3a_context *context, size_t count, size_t size, void *memory);
l3a_status allocate_zeroed(l3a_context *context, size_t count, size_t size, void *memory);
l3a_status copy_text(l3a_context *context, const char *text, size_t length, char **copy);
void release(l3a_context *context, void *memory);

/* Arrays that an object allocates together. The list that allocates them also tells what they take, so a plan cannot differ from
 * what happens. A pointer whose count or size is 0 stays NULL. */
struct array {
    void *pointer; /* to the pointer that gets the array */
    size_t count, size;
    bool zeroed;
};

/* If one cannot be allocated, none is. */
l3a_status arrays_allocate(l3a_context *context, const struct array *arrays, size_t count);
void arrays_release(l3a_context *context, const struct array *arrays, size_t count);
uint64_t arrays_bytes(const struct array *arrays, size_t count);

/* Makes room for `needed` items of `size` bytes by doubling. array is the address of the pointer to the items; on failure both it
 * and *capacity are unchanged. The new items are not initialised. */
l3a_status grow_array(l3a_context *context, void *array, size_t *capacity, size_t needed, size_t size);
/* Makes `longer` items of exactly `count`; the new ones are zero. On failure the array is unchanged. */
l3a_status extend_array(l3a_context *context, void *array, size_t count, size_t longer, size_t size);

/* Below, equal to or above 0, by bytes; a text comes before the texts that continue it. */
int compare_bytes(const char *left, size_t left_length, const char *right, size_t right_length);

/* Returns false if the product does not fit. */
bool multiply_sizes(uint64_t left, uint64_t right, uint64_t *product);

/* A list of strings that grows. */
typedef struct text_list {
    char **items;
    size_t count, capacity;
} text_list;

l3a_status text_list_add(l3a_context *context, text_list *list, const char *text, size_t length);
l3a_status text_list_add_all(l3a_context *context, text_list *list, const text_list *from);
/* Adds the lines of a text. A line ends in \n or \r\n; the last one may lack it. */
l3a_status text_list_split_lines(l3a_context *context, text_list *list, const char *text, size_t length);
/* The index of a text, or list->count. */
size_t text_list_find(const text_list *list, const char *text);
/* For a list of keys and a list of their values: the value of a key, or NULL. */
const char *text_record_find(const text_list *keys, const text_list *values, const char *key);
/* Replaces the value of a key, or adds both. */
l3a_status text_record_set(l3a_context *context, text_list *keys, text_list *values, const char *key, const char *value);
void text_list_clear(l3a_context *context, text_list *list);

/* Any number of strings, one after the other in one block of memory. */
typedef struct text_pool {
    char *text;
    size_t *starts;
    size_t length, capacity, count, start_capacity;
} text_pool;

l3a_status text_pool_add(l3a_context *context, text_pool *pool, const char *text, size_t length);
/* NULL past the last. Valid until the next addition. */
const char *text_pool_at(const text_pool *pool, size_t index);
void text_pool_clear(l3a_context *context, text_pool *pool);

/* A text under construction. `status` remembers the first allocation that failed. */
typedef struct text_builder {
    l3a_context *context;
    char *text;
    size_t length, capacity;
    l3a_status status;
} text_builder;

__attribute__((format(printf, 2, 3))) void text_builder_print(text_builder *builder, const char *format, ...);
void text_builder_append(text_builder *builder, const char *text, size_t length);
/* Appends the text as a JSON string: in quotes, with the escapes that JSON requires. */
void text_builder_json_string(text_builder *builder, const char *text);
void text_builder_free(text_builder *builder);

#endif
