#include "measure/tables.h"

#include "base/file.h"
#include "format/csv.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT = 1 << 30, DIGITS = 8 };

static const char sums_name[] = "checksums.csv", sums_header[] = "file,xxh3,lines\n";

static void sum_free(l3a_context *context, struct table_sum *sum) {
    release(context, sum->name);
    release(context, sum->lines);
}

void tables_free(l3a_context *context, struct tables *tables) {
    for (size_t i = 0; i < tables->count; i++) {
        sum_free(context, &tables->sums[i]);
    }
    release(context, tables->sums);
    memset(tables, 0, sizeof *tables);
}

/* Takes ownership of the sum's memory; on failure releases it. */
static l3a_status add_sum(l3a_context *context, struct tables *tables, struct table_sum *sum) {
    l3a_status status = L3A_OK;
    TRY(grow_array(context, &tables->sums, &tables->capacity, tables->count + 1, sizeof *tables->sums));
    tables->sums[tables->count++] = *sum;
    *sum = (struct table_sum){0};
done:
    sum_free(context, sum);
    return status;
}

/* Removes all sums of a table except sum number `kept`. */
static void keep_only(l3a_context *context, struct tables *tables, const char *name, size_t kept) {
    size_t count = 0;
    for (size_t i = 0; i < tables->count; i++) {
        if (i != kept && strcmp(tables->sums[i].name, name) == 0) {
            sum_free(context, &tables->sums[i]);
        } else {
            tables->sums[count++] = tables->sums[i];
        }
    }
    tables->count = count;
}

static l3a_status make_sum(l3a_context *context, const char *name, const char *text, size_t length, struct table_sum *sum) {
    l3a_status status = L3A_OK;
    text_builder lines = {.context = context};
    *sum = (struct table_sum){.whole = XXH3_64bits(text, length)};
    for (const char *line = text, *end = text + length; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *next = newline ? newline + 1 : end;
        text_builder_print(&lines, "%08" PRIx32, (uint32_t)XXH3_64bits(line, (size_t)(next - line)));
        line = next;
    }
    TRY(lines.status);
    TRY(copy_text(context, lines.text ? lines.text : "", lines.length, &sum->lines));
    TRY(copy_text(context, name, strlen(name), &sum->name));
done:
    text_builder_free(&lines);
    if (status != L3A_OK) {
        sum_free(context, sum);
        *sum = (struct table_sum){0};
    }
    return status;
}

static bool is_hexadecimal(const char *text) {
    return !text[strspn(text, "0123456789abcdef")];
}

l3a_status tables_open(l3a_context *context, const char *folder, struct tables *tables) {
    l3a_status status = L3A_OK;
    char *path = NULL, *text = NULL;
    size_t length;
    struct csv csv;
    tables_free(context, tables);
    TRY(join_path(context, folder, sums_name, &path));
    TRY(file_exists(context, path, &tables->recorded));
    if (!tables->recorded) {
        goto done;
    }
    TRY(read_whole(context, path, FILE_LIMIT, &text, &length));
    csv_begin(&csv, context, path, text, length);
    for (bool more = true, header = true;; header = false) {
        struct table_sum sum = {0};
        TRY(csv_next_row(&csv, &more));
        if (!more) {
            break;
        }
        const bool good = csv.count == 3 && (header ? strcmp(csv.fields[0], "file") == 0
                                                    : strlen(csv.fields[1]) == 16 && is_hexadecimal(csv.fields[1]) &&
                                                          strlen(csv.fields[2]) % DIGITS == 0 && is_hexadecimal(csv.fields[2]));
        FAIL_IF(!good, context, L3A_ERROR_FORMAT, "put the file back as it was, or start again in a new folder",
                "%s: line %zu cannot be understood", path, csv.line);
        if (!header) {
            sum.whole = strtoull(csv.fields[1], NULL, 16);
            TRY(copy_text(context, csv.fields[0], strlen(csv.fields[0]), &sum.name));
            status = copy_text(context, csv.fields[2], strlen(csv.fields[2]), &sum.lines);
            if (status != L3A_OK) {
                sum_free(context, &sum);
                goto done;
            }
            TRY(add_sum(context, tables, &sum));
        }
    }
done:
    release(context, text);
    release(context, path);
    return status;
}

/* Reports the first line in which a table differs from what was last written. */
static l3a_status fail_edited(l3a_context *context, const char *path, const struct table_sum *written,
                              const struct table_sum *found) {
    size_t line = 0;
    while (written->lines[line * DIGITS] && strncmp(written->lines + line * DIGITS, found->lines + line * DIGITS, DIGITS) == 0) {
        line++;
    }
    const char *what = line * DIGITS < strlen(found->lines) ? "is not as it was written" : "is missing";
    return fail(context, L3A_ERROR_CHECKSUM,
                "put the file back as it was, or start again in a new folder; to accept the change, remove checksums.csv",
                "%s: line %zu %s: the file was edited", path, line + 1, what);
}

/* Compares a table with its sums, and keeps only the one that matches. A table without a sum gets one. */
static l3a_status verify(l3a_context *context, struct tables *tables, const char *path, const char *name, const char *text,
                         size_t length) {
    l3a_status status = L3A_OK;
    struct table_sum sum = {0};
    size_t last = tables->count;
    TRY(make_sum(context, name, text, length, &sum));
    for (size_t i = 0; i < tables->count; i++) {
        if (strcmp(tables->sums[i].name, name) == 0) {
            last = i;
            if (tables->sums[i].whole == sum.whole) {
                keep_only(context, tables, name, i);
                goto done;
            }
        }
    }
    if (last < tables->count) {
        status = fail_edited(context, path, &tables->sums[last], &sum);
        goto done;
    }
    TRY(add_sum(context, tables, &sum));
done:
    sum_free(context, &sum);
    return status;
}

l3a_status tables_read(l3a_context *context, struct tables *tables, const char *folder, const char *name, char **path, char **text,
                       size_t *length) {
    l3a_status status = L3A_OK;
    bool exists = false;
    TRY(join_path(context, folder, name, path));
    TRY(file_exists(context, *path, &exists));
    if (exists) {
        TRY(read_whole(context, *path, FILE_LIMIT, text, length));
        TRY(verify(context, tables, *path, name, *text, *length));
    }
done:
    return status;
}

static l3a_status write_sums(l3a_context *context, const struct tables *tables, const char *folder) {
    l3a_status status = L3A_OK;
    text_builder text = {.context = context};
    char *path = NULL;
    text_builder_print(&text, "%s", sums_header);
    for (size_t i = 0; i < tables->count; i++) {
        const struct table_sum *sum = &tables->sums[i];
        text_builder_print(&text, "%s,%016" PRIx64 ",", sum->name, sum->whole);
        text_builder_append(&text, sum->lines, strlen(sum->lines));
        text_builder_append(&text, "\n", 1);
    }
    TRY(text.status);
    TRY(join_path(context, folder, sums_name, &path));
    TRY(write_whole(context, path, text.text, text.length));
done:
    text_builder_free(&text);
    release(context, path);
    return status;
}

l3a_status tables_write(l3a_context *context, struct tables *tables, const char *folder, const struct table_text *written,
                        size_t count) {
    l3a_status status = L3A_OK;
    char *path = NULL;
    const size_t before = tables->count;
    for (size_t i = 0; i < count; i++) {
        struct table_sum sum;
        TRY(written[i].text->status);
        TRY(make_sum(context, written[i].name, written[i].text->text, written[i].text->length, &sum));
        TRY(add_sum(context, tables, &sum));
    }
    TRY(write_sums(context, tables, folder));
    for (size_t i = 0, kept = before; i < count; i++, kept++) {
        TRY(join_path(context, folder, written[i].name, &path));
        TRY(write_whole(context, path, written[i].text->text, written[i].text->length));
        release(context, path);
        path = NULL;
        const size_t known = tables->count;
        keep_only(context, tables, written[i].name, kept);
        kept -= known - tables->count;
    }
done:
    release(context, path);
    return status;
}
