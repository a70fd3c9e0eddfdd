#include "tag/entry.h"

#include "base/text_index.h"

#include <string.h>

enum { LONGEST_TEXT = 1 << 16 };

l3a_status entry_create(l3a_context *context, enum entry_kind kind, struct entry **entry) {
    const l3a_status status = allocate_zeroed(context, 1, sizeof **entry, entry);
    if (status == L3A_OK) {
        (*entry)->kind = kind;
    }
    return status;
}

void entry_free(l3a_context *context, struct entry *entry) {
    if (entry) {
        for (size_t i = 0; entry->rows && i < entry->row_count; i++) {
            release(context, entry->rows[i].path);
            release(context, entry->rows[i].relative);
            release(context, entry->rows[i].tags);
        }
        text_list_clear(context, &entry->classes);
        release(context, entry->rows);
        release(context, entry->labels);
        release(context, entry->features);
        release(context, entry);
    }
}

/* Adds the classes that a row has this label for. */
static void list_labelled(const struct entry *entry, size_t row, int8_t label, const char *prefix, text_builder *text) {
    for (size_t k = 0; k < entry->classes.count; k++) {
        if (entry->labels[row * entry->classes.count + k] == label) {
            text_builder_print(text, "%s%s%s", text->length ? "; " : "", prefix, entry->classes.items[k]);
        }
    }
}

const char *entry_tags(l3a_context *context, struct entry *entry, size_t row) {
    text_builder text = {.context = context};
    if (!entry->rows[row].tags) {
        text_builder_append(&text, "", 0);
        list_labelled(entry, row, 1, "", &text);
        if (!text.length) {
            list_labelled(entry, row, 0, "not ", &text);
        }
        if (text.status != L3A_OK) {
            text_builder_free(&text);
            return NULL;
        }
        entry->rows[row].tags = text.text;
    }
    return entry->rows[row].tags;
}

/* ---- Descriptions ---- */

enum { FIXED_NUMBERS = 12, ROW_NUMBERS = 3 };

static void put_number(text_builder *to, uint64_t number) {
    text_builder_append(to, (const char *)&number, sizeof number);
}

static void put_text(text_builder *to, const char *text) {
    put_number(to, strlen(text));
    text_builder_append(to, text, strlen(text));
}

void entry_describe(const struct entry *entry, text_builder *to) {
    const uint64_t numbers[FIXED_NUMBERS] = {entry->id,    entry->parent,       entry->number,        (uint64_t)entry->seconds,
                                             entry->kind,  entry->from_nothing, entry->pictures,      entry->new_classes,
                                             entry->width, entry->back_count,   entry->classes.count, entry->row_count};
    for (size_t i = 0; i < FIXED_NUMBERS; i++) {
        put_number(to, numbers[i]);
    }
    for (size_t i = 0; i < entry->classes.count; i++) {
        put_text(to, entry->classes.items[i]);
    }
    for (size_t i = 0; i < entry->row_count; i++) {
        const struct pictured *row = &entry->rows[i];
        put_number(to, row->checksum);
        put_number(to, row->lesson);
        put_number(to, row->row);
        put_text(to, row->path);
        put_text(to, row->relative);
        text_builder_append(to, (const char *)entry->labels + i * entry->classes.count, entry->classes.count);
    }
    if (entry->sequence) {
        put_number(to, entry->sequence);
    }
}

/* What is left of a description. `good` becomes false at the first thing that does not fit. */
struct cursor {
    l3a_context *context;
    const char *at;
    size_t left;
    bool good;
};

static uint64_t take_number(struct cursor *from) {
    uint64_t number = 0;
    from->good = from->good && from->left >= sizeof number;
    if (from->good) {
        memcpy(&number, from->at, sizeof number);
        from->at += sizeof number;
        from->left -= sizeof number;
    }
    return number;
}

static l3a_status take_text(struct cursor *from, char **text) {
    const uint64_t length = take_number(from);
    l3a_status status = L3A_OK;
    from->good = from->good && length <= from->left && length <= LONGEST_TEXT && !memchr(from->at, '\0', (size_t)length);
    if (from->good) {
        TRY(copy_text(from->context, from->at, (size_t)length, text));
        from->at += length;
        from->left -= (size_t)length;
    }
done:
    return status;
}

static l3a_status take_classes(struct cursor *from, struct entry *entry, uint64_t count) {
    text_index index = {0};
    size_t first;
    l3a_status status = L3A_OK;
    for (uint64_t i = 0; i < count && from->good; i++) {
        char *name = NULL;
        TRY(take_text(from, &name));
        from->good = from->good && name[0];
        status = from->good ? text_list_add(from->context, &entry->classes, name, strlen(name)) : L3A_OK;
        release(from->context, name);
        TRY(status);
    }
    TRY(text_index_make(from->context, entry->classes.items, entry->classes.count, &index));
    from->good = from->good && text_index_repeated(&index, &first) == entry->classes.count;
done:
    text_index_free(from->context, &index);
    return status;
}

static l3a_status take_rows(struct cursor *from, struct entry *entry) {
    const size_t classes = entry->classes.count;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(from->context, entry->row_count, sizeof *entry->rows, &entry->rows));
    TRY(allocate(from->context, entry->row_count, classes, &entry->labels));
    for (size_t i = 0; i < entry->row_count && from->good; i++) {
        struct pictured *row = &entry->rows[i];
        row->checksum = take_number(from);
        row->lesson = take_number(from);
        row->row = take_number(from);
        TRY(take_text(from, &row->path));
        TRY(take_text(from, &row->relative));
        from->good = from->good && from->left >= classes;
        for (size_t k = 0; k < classes && from->good; k++) {
            const int8_t label = (int8_t)from->at[k];
            entry->labels[i * classes + k] = label;
            from->good = label >= -1 && label <= 1;
        }
        from->at += from->good ? classes : 0;
        from->left -= from->good ? classes : 0;
    }
done:
    return status;
}

/* Whether the numbers of an entry fit together; feature_bytes: those that its record has. */
static bool is_sound(const struct entry *entry, uint64_t feature_bytes) {
    uint64_t bytes = 0;
    return entry->id && (entry->kind == ENTRY_UNDO ? entry->sequence > 0 : entry->number > 0) && entry->kind >= ENTRY_TEACH &&
           entry->kind <= ENTRY_UNDO && entry->back_count <= entry->row_count && entry->new_classes <= entry->classes.count &&
           multiply_sizes(entry->row_count, entry->width, &bytes) && multiply_sizes(bytes, sizeof(float), &bytes) &&
           bytes == feature_bytes && !entry->row_count == !entry->width &&
           (entry->kind == ENTRY_TEACH ? entry->row_count > 0 : entry->kind == ENTRY_MERGE || !entry->row_count) &&
           (!entry_renames(entry) || entry->classes.count >= 2);
}

l3a_status entry_understand(l3a_context *context, const char *description, size_t length, uint64_t feature_bytes, bool commit,
                            struct entry **entry) {
    struct cursor from = {context, description, length, true};
    struct entry *made = NULL;
    uint64_t numbers[FIXED_NUMBERS];
    l3a_status status = L3A_OK;
    *entry = NULL;
    for (size_t i = 0; i < FIXED_NUMBERS; i++) {
        numbers[i] = take_number(&from);
    }
    const uint64_t classes = numbers[10], rows = numbers[11];
    /* A class takes at least 9 bytes, and a row at least those of its numbers, so that no number makes memory out of nothing. */
    if (!from.good || classes > from.left / 9 || rows > from.left / ((ROW_NUMBERS + 2) * sizeof(uint64_t) + classes)) {
        return L3A_OK;
    }
    TRY(entry_create(context, (enum entry_kind)(numbers[4] > ENTRY_UNDO ? 0 : numbers[4]), &made));
    made->id = numbers[0];
    made->parent = numbers[1];
    made->number = numbers[2];
    made->seconds = (int64_t)numbers[3];
    made->from_nothing = numbers[5] == 1;
    made->pictures = numbers[6];
    made->new_classes = (size_t)numbers[7];
    made->width = (size_t)numbers[8];
    made->back_count = (size_t)numbers[9];
    TRY(take_classes(&from, made, classes));
    made->row_count = from.good ? (size_t)rows : 0;
    TRY(take_rows(&from, made));
    made->sequence = commit ? take_number(&from) : 0;
    if (from.good && !from.left && !commit == !made->sequence && is_sound(made, feature_bytes)) {
        *entry = made;
        made = NULL;
    }
done:
    entry_free(context, made);
    return status;
}
