#include "base/memory.h"

#include <stdio.h>
#include <string.h>

bool multiply_sizes(uint64_t left, uint64_t right, uint64_t *product) {
    return !__builtin_mul_overflow(left, right, product);
}

l3a_status allocate(l3a_context *context, size_t count, size_t size, void *memory) {
    uint64_t bytes = 0;
    void *made = NULL;
    if (multiply_sizes(count, size, &bytes)) {
        made = context->options.allocate(context->options.memory_user, bytes ? (size_t)bytes : 1);
    }
    memcpy(memory, &made, sizeof made);
    return made ? L3A_OK
                : fail(context, L3A_ERROR_MEMORY, "free some memory, or use a smaller dim or block",
                       "out of memory: cannot allocate %zu x %zu bytes", count, size);
}

l3a_status allocate_zeroed(l3a_context *context, size_t count, size_t size, void *memory) {
    const l3a_status status = allocate(context, count, size, memory);
    if (status == L3A_OK) {
        void *made;
        memcpy(&made, memory, sizeof made);
        memset(made, 0, count * size);
    }
    return status;
}

l3a_status copy_text(l3a_context *context, const char *text, size_t length, char **copy) {
    const l3a_status status = allocate(context, length + 1, 1, copy);
    if (status == L3A_OK) {
        memcpy(*copy, text, length);
        (*copy)[length] = '\0';
    }
    return status;
}

void release(l3a_context *context, void *memory) {
    if (memory) {
        context->options.release(context->options.memory_user, memory);
    }
}

l3a_status arrays_allocate(l3a_context *context, const struct array *arrays, size_t count) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < count; i++) {
        memset(arrays[i].pointer, 0, sizeof(void *));
    }
    for (size_t i = 0; status == L3A_OK && i < count; i++) {
        if (arrays[i].count && arrays[i].size) {
            status = (arrays[i].zeroed ? allocate_zeroed : allocate)(context, arrays[i].count, arrays[i].size, arrays[i].pointer);
        }
    }
    if (status != L3A_OK) {
        arrays_release(context, arrays, count);
    }
    return status;
}

void arrays_release(l3a_context *context, const struct array *arrays, size_t count) {
    for (size_t i = 0; i < count; i++) {
        void *memory;
        memcpy(&memory, arrays[i].pointer, sizeof memory);
        release(context, memory);
        memset(arrays[i].pointer, 0, sizeof memory);
    }
}

uint64_t arrays_bytes(const struct array *arrays, size_t count) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes;
        total = multiply_sizes(arrays[i].count, arrays[i].size, &bytes) && bytes <= UINT64_MAX - total ? total + bytes : UINT64_MAX;
    }
    return total;
}

int compare_bytes(const char *left, size_t left_length, const char *right, size_t right_length) {
    const size_t both = left_length < right_length ? left_length : right_length;
    const int order = both ? memcmp(left, right, both) : 0;
    return order ? order : (left_length > right_length) - (left_length < right_length);
}

/* Puts a new array in place of one whose first bytes it takes over. */
static void replace_array(l3a_context *context, void *array, void *made, size_t bytes) {
    void *old;
    memcpy(&old, array, sizeof old);
    if (old) {
        memcpy(made, old, bytes);
    }
    release(context, old);
    memcpy(array, &made, sizeof made);
}

l3a_status extend_array(l3a_context *context, void *array, size_t count, size_t longer, size_t size) {
    void *made;
    const l3a_status status = allocate_zeroed(context, longer, size, &made);
    if (status == L3A_OK) {
        replace_array(context, array, made, count * size);
    }
    return status;
}

l3a_status grow_array(l3a_context *context, void *array, size_t *capacity, size_t needed, size_t size) {
    enum { LEAST = 16 };
    if (needed <= *capacity) {
        return L3A_OK;
    }
    const size_t doubled = *capacity < LEAST / 2 ? LEAST : 2 * *capacity, larger = doubled > needed ? doubled : needed;
    void *made;
    const l3a_status status = allocate(context, larger, size, &made);
    if (status == L3A_OK) {
        replace_array(context, array, made, *capacity * size);
        *capacity = larger;
    }
    return status;
}

l3a_status text_list_add(l3a_context *context, text_list *list, const char *text, size_t length) {
    l3a_status status = L3A_OK;
    TRY(grow_array(context, &list->items, &list->capacity, list->count + 1, sizeof *list->items));
    TRY(copy_text(context, text, length, &list->items[list->count]));
    list->count++;
done:
    return status;
}

l3a_status text_list_add_all(l3a_context *context, text_list *list, const text_list *from) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < from->count; i++) {
        TRY(text_list_add(context, list, from->items[i], strlen(from->items[i])));
    }
done:
    return status;
}

l3a_status text_list_split_lines(l3a_context *context, text_list *list, const char *text, size_t length) {
    const char *end = text + length;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline ? newline : end;
        size_t size = (size_t)(stop - text);
        if (size && text[size - 1] == '\r') {
            size--;
        }
        const l3a_status status = text_list_add(context, list, text, size);
        if (status != L3A_OK) {
            return status;
        }
        text = newline ? newline + 1 : end;
    }
    return L3A_OK;
}

size_t text_list_find(const text_list *list, const char *text) {
    size_t i = 0;
    while (i < list->count && strcmp(list->items[i], text) != 0) {
        i++;
    }
    return i;
}

const char *text_record_find(const text_list *keys, const text_list *values, const char *key) {
    const size_t index = text_list_find(keys, key);
    return index < values->count ? values->items[index] : NULL;
}

l3a_status text_record_set(l3a_context *context, text_list *keys, text_list *values, const char *key, const char *value) {
    l3a_status status = L3A_OK;
    const size_t index = text_list_find(keys, key);
    if (index < values->count) {
        char *copy;
        TRY(copy_text(context, value, strlen(value), &copy));
        release(context, values->items[index]);
        values->items[index] = copy;
        return L3A_OK;
    }
    TRY(text_list_add(context, keys, key, strlen(key)));
    status = text_list_add(context, values, value, strlen(value));
    if (status != L3A_OK) {
        release(context, keys->items[--keys->count]);
    }
done:
    return status;
}

void text_list_clear(l3a_context *context, text_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        release(context, list->items[i]);
    }
    release(context, list->items);
    memset(list, 0, sizeof *list);
}

l3a_status text_pool_add(l3a_context *context, text_pool *pool, const char *text, size_t length) {
    l3a_status status = L3A_OK;
    TRY(grow_array(context, &pool->text, &pool->capacity, pool->length + length + 1, 1));
    TRY(grow_array(context, &pool->starts, &pool->start_capacity, pool->count + 1, sizeof *pool->starts));
    memcpy(pool->text + pool->length, text, length);
    pool->text[pool->length + length] = '\0';
    pool->starts[pool->count++] = pool->length;
    pool->length += length + 1;
done:
    return status;
}

const char *text_pool_at(const text_pool *pool, size_t index) {
    return index < pool->count ? pool->text + pool->starts[index] : NULL;
}

void text_pool_clear(l3a_context *context, text_pool *pool) {
    release(context, pool->text);
    release(context, pool->starts);
    memset(pool, 0, sizeof *pool);
}

/* Makes room for `more` bytes and a zero byte. */
static bool reserve(text_builder *builder, size_t more) {
    if (builder->status == L3A_OK) {
        builder->status = grow_array(builder->context, &builder->text, &builder->capacity, builder->length + more + 1, 1);
    }
    return builder->status == L3A_OK;
}

void text_builder_append(text_builder *builder, const char *text, size_t length) {
    if (reserve(builder, length)) {
        memcpy(builder->text + builder->length, text, length);
        builder->length += length;
        builder->text[builder->length] = '\0';
    }
}

void text_builder_print(text_builder *builder, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof text) {
        text_builder_append(builder, text, (size_t)length);
    } else if (length >= 0 && reserve(builder, (size_t)length)) {
        va_start(arguments, format);
        vsnprintf(builder->text + builder->length, (size_t)length + 1, format, arguments);
        va_end(arguments);
        builder->length += (size_t)length;
    }
}

void text_builder_json_string(text_builder *builder, const char *text) {
    text_builder_append(builder, "\"", 1);
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\') {
            text_builder_print(builder, "\\%c", byte);
        } else if (byte == '\n') {
            text_builder_append(builder, "\\n", 2);
        } else if (byte < 0x20) {
            text_builder_print(builder, "\\u%04x", byte);
        } else {
            text_builder_append(builder, text, 1);
        }
    }
    text_builder_append(builder, "\"", 1);
}

void text_builder_free(text_builder *builder) {
    release(builder->context, builder->text);
    builder->text = NULL;
    builder->length = builder->capacity = 0;
}
