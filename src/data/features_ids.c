/* The ids of a table: a name for each row, on lines of a text in its file. They are held, except by processes that divide the rows:
 * these look for the line of an id when it is wanted, which is rare. */
#include "data/features.h"

#include <string.h>

enum { BLOCK = 1 << 16 };

struct id_reader {
    struct tensor tensor;
    size_t row;      /* the row of the last id that was read … */
    uint64_t offset; /* … and where its line begins */
    char *text;      /* this id */
    size_t capacity;
};

void id_reader_free(l3a_context *context, struct id_reader *reader) {
    if (reader) {
        release(context, reader->text);
        release(context, reader);
    }
}

/* Counts the lines of a text, as text_list_split_lines() does. */
struct line_count {
    uint64_t lines;
    bool open; /* the last line has not ended */
    bool zero; /* there is a zero byte */
};

static void count_lines(void *user, const char *bytes, size_t count) {
    struct line_count *lines = user;
    lines->zero = lines->zero || memchr(bytes, '\0', count);
    for (const char *at = bytes, *end; (end = memchr(at, '\n', count - (size_t)(at - bytes))); at = end + 1) {
        lines->lines++;
    }
    lines->open = count ? bytes[count - 1] != '\n' : lines->open;
}

static l3a_status check_ids(const l3a_features *features, uint64_t lines, bool zero) {
    l3a_status status = L3A_OK;
    FAIL_IF(zero, features->context, L3A_ERROR_FORMAT, "create the file again", "%s: 'ids' contains a zero byte", features->path);
    FAIL_IF(lines != features->rows, features->context, L3A_ERROR_MISMATCH, "create the file again",
            "%s: %llu ids for %zu rows of features", features->path, (unsigned long long)lines, features->rows);
done:
    return status;
}

static l3a_status read_all(l3a_features *features, const input_file *input, const struct tensor *ids) {
    l3a_context *context = features->context;
    l3a_status status = L3A_OK;
    char *text = NULL;
    text_list lines = {0};
    TRY(allocate(context, (size_t)ids->bytes, 1, &text));
    TRY(input_read(input, ids->offset, text, (size_t)ids->bytes));
    TRY(check_ids(features, features->rows, memchr(text, '\0', (size_t)ids->bytes)));
    TRY(text_list_split_lines(context, &lines, text, (size_t)ids->bytes));
    TRY(check_ids(features, lines.count, false));
    features->ids = lines;
    features->id_bytes = ids->bytes + 1;
    lines = (text_list){0};
done:
    text_list_clear(context, &lines);
    release(context, text);
    return status;
}

l3a_status ids_take(l3a_features *features, const input_file *input, const struct tensor *ids) {
    l3a_context *context = features->context;
    l3a_status status = L3A_OK;
    struct line_count count = {0};
    FAIL_IF(ids->type != TENSOR_U8 || ids->rank != 1, context, L3A_ERROR_FORMAT, NULL,
            "%s: 'ids' must be bytes (U8) with one name per line", features->path);
    if (!features->divided) {
        return read_all(features, input, ids);
    }
    if (leads(context)) {
        TRY(input_scan(input, ids->offset, ids->bytes, count_lines, &count));
        TRY(check_ids(features, count.lines + count.open, count.zero));
    }
    TRY(allocate_zeroed(context, 1, sizeof *features->id_reader, &features->id_reader));
    features->id_reader->tensor = *ids;
    features->id_reader->tensor.name = NULL;
done:
    return status;
}

l3a_status ids_hold_all(l3a_features *features) {
    l3a_status status = L3A_OK;
    if (features->id_reader && !features->ids.count) {
        TRY(read_all(features, &features->input, &features->id_reader->tensor));
    }
done:
    return status;
}

/* Puts the text from an offset on into reader->text, up to that many bytes. */
static l3a_status read_text(const l3a_features *features, uint64_t offset, size_t wanted, size_t *length) {
    struct id_reader *reader = features->id_reader;
    l3a_status status = L3A_OK;
    const uint64_t left = reader->tensor.bytes - offset;
    *length = left < wanted ? (size_t)left : wanted;
    TRY(grow_array(features->context, &reader->text, &reader->capacity, wanted + 1, 1));
    TRY(input_read(&features->input, reader->tensor.offset + offset, reader->text, *length));
done:
    return status;
}

static l3a_status fail_missing(const l3a_features *features, size_t row) {
    return fail(features->context, L3A_ERROR_MISMATCH, "create the file again", "%s: there is no id of row %zu", features->path,
                row);
}

/* Finds where the line of a row begins. */
static l3a_status seek(const l3a_features *features, size_t row) {
    struct id_reader *reader = features->id_reader;
    l3a_status status = L3A_OK;
    size_t at = row < reader->row ? 0 : reader->row, length;
    for (uint64_t offset = row < reader->row ? 0 : reader->offset; at < row; offset += length) {
        TRY(read_text(features, offset, BLOCK, &length));
        TRY(length ? L3A_OK : fail_missing(features, row));
        for (const char *from = reader->text, *end; at < row; from = end + 1) {
            end = memchr(from, '\n', length - (size_t)(from - reader->text));
            if (!end) {
                break;
            }
            at++;
            reader->row = at;
            reader->offset = offset + (uint64_t)(end + 1 - reader->text);
        }
    }
    if (row == 0) {
        reader->row = 0;
        reader->offset = 0;
    }
done:
    return status;
}

l3a_status features_id(const l3a_features *features, size_t row, const char **id) {
    struct id_reader *reader = features->id_reader;
    l3a_status status = L3A_OK;
    size_t length, wanted = 256;
    char *end = NULL;
    *id = row < features->ids.count ? features->ids.items[row] : NULL;
    if (*id || !reader || row >= features->rows) {
        return L3A_OK;
    }
    TRY(seek(features, row));
    TRY(reader->offset < reader->tensor.bytes ? L3A_OK : fail_missing(features, row));
    do {
        wanted *= 2;
        TRY(read_text(features, reader->offset, wanted, &length));
        end = memchr(reader->text, '\n', length);
    } while (!end && length == wanted);
    length = end ? (size_t)(end - reader->text) : length;
    length -= length && reader->text[length - 1] == '\r';
    reader->text[length] = '\0';
    *id = reader->text;
done:
    return status;
}

const char *l3a_features_id(const l3a_features *features, size_t row) {
    const char *id = NULL;
    return features && features_id(features, row, &id) == L3A_OK ? id : NULL;
}
