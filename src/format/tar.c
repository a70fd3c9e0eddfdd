/* An archive is a row of members: a header of 512 bytes, then the bytes of the member, filled up to a multiple of 512. A block of
 * zeros ends it. Where a name or a size does not fit in its header, another header comes before it, whose bytes say what: a name
 * (GNU, type L), or records "LENGTH KEY=VALUE\n" (pax, type x; type g: for all members that follow).
 *
 * Headers are read through a small window: where a label follows its picture, one read gets the label and two headers. */
#include "format/tar.h"

#include "base/text_index.h"
#include "common/number.h"
#include "common/tar.h"
#include "common/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    WINDOW = 4096,
    NAME_LIMIT = 4096,
    RECORDS_LIMIT = 1 << 20,
    REST_LIMIT = 1 << 20 /* bytes after the end that must be zero, as far as that is checked */
};

static const char damaged[] = "the archive is damaged or incomplete: copy, download or make it again";

/* The start of messages: the archive's path, and the byte. */
#define PLACE "%s: byte %" PRIu64 ": "

/* A name as messages show it: not longer than a line or two, and always UTF-8. */
struct shown {
    char text[280];
};

static const char *show(const char *name, struct shown *shown) {
    size_t length = 0;
    uint32_t code;
    while (*name && length < 250) {
        const size_t bytes = utf8_decode(name, &code);
        memcpy(shown->text + length, bytes ? name : "?", bytes ? bytes : 1);
        length += bytes ? bytes : 1;
        name += bytes ? bytes : 1;
    }
    snprintf(shown->text + length, sizeof shown->text - length, "%s", *name ? "…" : "");
    return shown->text;
}

/* ---- Bytes ---- */

/* Reads bytes that are in the file. */
static l3a_status read_bytes(struct tar *tar, uint64_t offset, void *bytes, size_t count) {
    l3a_status status = L3A_OK;
    const bool inside = offset >= tar->start && offset - tar->start <= tar->held && count <= tar->held - (offset - tar->start);
    if (!inside && count > WINDOW) {
        return input_read(tar->input, offset, bytes, count);
    }
    if (!inside) {
        const uint64_t left = tar->input->size - offset;
        tar->start = offset;
        tar->held = 0;
        const size_t held = left < WINDOW ? (size_t)left : WINDOW;
        TRY(input_read(tar->input, offset, tar->window, held));
        tar->held = held;
    }
    memcpy(bytes, tar->window + (offset - tar->start), count);
done:
    return status;
}

l3a_status tar_read(struct tar *tar, const struct tar_member *member, void *bytes, size_t count) {
    return read_bytes(tar, member->offset, bytes, count);
}

static bool is_zero(const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (bytes[i]) {
            return false;
        }
    }
    return true;
}

/* ---- Headers ---- */

/* Octal digits between blanks or zero bytes; or a binary number, the highest byte first, if the first bit is set. */
static bool parse_size(const char field[12], uint64_t *size) {
    const unsigned char *bytes = (const unsigned char *)field;
    uint64_t value = 0;
    size_t i = 0;
    if (bytes[0] & 0x80) {
        for (i = 1; i < 12; i++) {
            if (i < 4 && bytes[i]) {
                return false;
            }
            value = value << 8 | bytes[i];
        }
        *size = value;
        return bytes[0] == 0x80;
    }
    while (i < 12 && field[i] == ' ') {
        i++;
    }
    while (i < 12 && field[i] >= '0' && field[i] <= '7') {
        value = value << 3 | (uint64_t)(field[i++] - '0');
    }
    while (i < 12 && (field[i] == ' ' || field[i] == '\0')) {
        i++;
    }
    *size = value;
    return i == 12;
}

/* Old programs summed signed bytes. */
static bool has_right_sum(const struct tar_head *head) {
    const char *bytes = (const char *)head;
    uint64_t recorded;
    char field[12] = "";
    memcpy(field, head->sum, sizeof head->sum);
    int64_t negative = 0;
    for (size_t i = 0; i < sizeof *head; i++) {
        negative += (bytes + i < head->sum || bytes + i >= head->sum + sizeof head->sum) && (bytes[i] & 0x80) ? 256 : 0;
    }
    const int64_t sum = (int64_t)tar_sum(head);
    return parse_size(field, &recorded) && ((int64_t)recorded == sum || (int64_t)recorded == sum - negative);
}

/* The name of a compression that a file begins with; NULL: none. */
static const char *compression_of(const char *bytes) {
    static const struct {
        const char *name, *start;
        size_t count;
    } kinds[] = {{"gzip", "\x1F\x8B", 2}, {"zstd", "\x28\xB5\x2F\xFD", 4}, {"xz", "\xFD\x37zXZ", 5},
                 {"bzip2", "BZh", 3},     {"lz4", "\x04\x22\x4D\x18", 4},  {"zip", "PK\3\4", 4}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (memcmp(bytes, kinds[i].start, kinds[i].count) == 0) {
            return kinds[i].name;
        }
    }
    return NULL;
}

static const char *last_name(const struct tar *tar) {
    return tar->names.count ? text_pool_at(&tar->names, tar->names.count - 1) : NULL;
}

/* ", after 'NAME'", or "" at the first member. */
static const char *show_last(const struct tar *tar, struct shown *shown) {
    struct shown name;
    const char *last = last_name(tar);
    snprintf(shown->text, sizeof shown->text, "%s%.256s%s", last ? ", after '" : "", last ? show(last, &name) : "",
             last ? "'" : "");
    return shown->text;
}

/* What comes where a header should be, but is none. */
static l3a_status refuse_block(const struct tar *tar, const struct tar_head *head) {
    const input_file *input = tar->input;
    struct shown shown;
    const char *packed = tar->at == 0 ? compression_of(head->name) : NULL;
    if (packed) {
        return fail(input->context, L3A_ERROR_FORMAT,
                    "unpack the compression and give the tar file, for example after gunzip, zstd -d, unxz or bunzip2",
                    "%s: is compressed (%s); pictures are read where they are in a tar file, so unpack the compression first",
                    input->path, packed);
    }
    if (tar->at == 0) {
        return fail(input->context, L3A_ERROR_FORMAT, "give a tar file, as tar -cf makes it",
                    "%s: is not a tar file: its first %d bytes are not a header", input->path, TAR_BLOCK);
    }
    return fail(input->context, L3A_ERROR_CHECKSUM, damaged,
                PLACE "the header of a member should be here%s, but its checksum is wrong", input->path, tar->at,
                show_last(tar, &shown));
}

/* Reads the header at tar->at. *end: the archive ends here. */
static l3a_status read_head(struct tar *tar, struct tar_head *head, bool *end) {
    l3a_status status = L3A_OK;
    const input_file *input = tar->input;
    struct shown shown;
    FAIL_IF(!input->size, input->context, L3A_ERROR_TRUNCATED, damaged, "%s: the file is empty", input->path);
    if (tar->at == 0 && input->size < TAR_BLOCK) {
        memset(head, 0, sizeof *head);
        TRY(read_bytes(tar, 0, head, (size_t)input->size));
        status = refuse_block(tar, head);
        goto done;
    }
    FAIL_IF(tar->at > input->size || input->size - tar->at < TAR_BLOCK, input->context, L3A_ERROR_TRUNCATED, damaged,
            "%s: ends at byte %" PRIu64 "%s without the mark that ends an archive, so it is incomplete", input->path, input->size,
            show_last(tar, &shown));
    TRY(read_bytes(tar, tar->at, head, sizeof *head));
    *end = is_zero((const char *)head, sizeof *head);
    if (!*end && !has_right_sum(head)) {
        status = refuse_block(tar, head);
    }
done:
    return status;
}

/* Where the bytes of a member end, with what fills them up. Checks that they are in the file. */
static l3a_status find_end(const struct tar *tar, const char *name, uint64_t size, uint64_t *end) {
    l3a_status status = L3A_OK;
    struct shown shown;
    const input_file *input = tar->input;
    const uint64_t left = input->size - tar->at - TAR_BLOCK;
    FAIL_IF(size > left, input->context, L3A_ERROR_TRUNCATED, damaged,
            PLACE "'%s' should have %" PRIu64 " bytes, but only %" PRIu64 " follow before the end of the file", input->path,
            tar->at, show(name, &shown), size, left);
    *end = tar->at + TAR_BLOCK + size + (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;
done:
    return status;
}

/* ---- Headers before a header ---- */

/* Reads the bytes of an extra header; the caller releases them. A zero byte follows. */
static l3a_status read_extra(struct tar *tar, const struct tar_head *head, size_t limit, char **text, size_t *length) {
    l3a_status status = L3A_OK;
    const input_file *input = tar->input;
    uint64_t size = 0, end = 0;
    FAIL_IF(!parse_size(head->size, &size), input->context, L3A_ERROR_FORMAT, damaged,
            PLACE "the size in the header is not a number", input->path, tar->at);
    FAIL_IF(size > limit, input->context, L3A_ERROR_FORMAT, "is this archive meant for pictures? make it again",
            PLACE "a header of type '%c' has %" PRIu64 " bytes; at most %zu are read", input->path, tar->at, head->type, size,
            limit);
    TRY(find_end(tar, "an extended header", size, &end));
    TRY(allocate(input->context, (size_t)size + 1, 1, text));
    TRY(read_bytes(tar, tar->at + TAR_BLOCK, *text, (size_t)size));
    (*text)[size] = '\0';
    *length = (size_t)size;
    tar->announced.any = tar->announced.any || head->type != 'g';
    tar->at = end;
done:
    return status;
}

static l3a_status set_name(struct tar *tar, uint64_t header, const char *name, size_t length) {
    l3a_status status = L3A_OK;
    const input_file *input = tar->input;
    FAIL_IF(tar->announced.name, input->context, L3A_ERROR_FORMAT, damaged, PLACE "a second name for the same member", input->path,
            header);
    FAIL_IF(length > NAME_LIMIT || memchr(name, '\0', length), input->context, L3A_ERROR_FORMAT,
            "rename the file, and pack it again", PLACE "a name that %s", input->path, header,
            length > NAME_LIMIT ? "is longer than 4096 bytes" : "contains a zero byte");
    TRY(copy_text(input->context, name, length, &tar->announced.name));
done:
    return status;
}

/* GNU: the name ends with a zero byte. */
static l3a_status take_long_name(struct tar *tar, const struct tar_head *head) {
    l3a_status status = L3A_OK;
    const uint64_t header = tar->at;
    char *text = NULL;
    size_t length = 0;
    TRY(read_extra(tar, head, NAME_LIMIT + 1, &text, &length));
    TRY(set_name(tar, header, text, length && !text[length - 1] ? length - 1 : length));
done:
    release(tar->input->context, text);
    return status;
}

static bool begins_with(const char *text, size_t length, const char *start) {
    return length >= strlen(start) && memcmp(text, start, strlen(start)) == 0;
}

/* One record, without the length before it and the line feed after it. Only two keys matter; those of sparse files are refused, and
 * for all members at once a name or a size makes no sense. */
static l3a_status take_record(struct tar *tar, uint64_t header, bool global, const char *record, size_t length) {
    l3a_status status = L3A_OK;
    const input_file *input = tar->input;
    const char *equals = memchr(record, '=', length), *value = equals ? equals + 1 : record;
    FAIL_IF(!equals, input->context, L3A_ERROR_FORMAT, damaged, PLACE "an extended header with a record without '='", input->path,
            header);
    const size_t rest = length - (size_t)(value - record);
    const bool path = begins_with(record, length, "path="), size = begins_with(record, length, "size=");
    FAIL_IF(begins_with(record, length, "GNU.sparse."), input->context, L3A_ERROR_FORMAT, "pack the files again, without --sparse",
            PLACE "a sparse file; only files that are stored whole are read", input->path, header);
    FAIL_IF(global && (path || size), input->context, L3A_ERROR_FORMAT, damaged, PLACE "one %s for all members", input->path,
            header, path ? "name" : "size");
    if (path && rest) { /* an empty value takes back what a header for all members said */
        TRY(set_name(tar, header, value, rest));
    }
    if (size && rest) {
        FAIL_IF(tar->announced.has_size || !integer_parse(value, rest, &tar->announced.size), input->context, L3A_ERROR_FORMAT,
                damaged, PLACE "the size in an extended header is %s", input->path, header,
                tar->announced.has_size ? "the second for the same member" : "not a number");
        tar->announced.has_size = true;
    }
done:
    return status;
}

/* pax: records "LENGTH KEY=VALUE\n"; the length counts all of the record. */
static l3a_status take_records(struct tar *tar, const struct tar_head *head) {
    l3a_status status = L3A_OK;
    const input_file *input = tar->input;
    const uint64_t header = tar->at;
    char *text = NULL;
    size_t left = 0;
    TRY(read_extra(tar, head, RECORDS_LIMIT, &text, &left));
    for (const char *at = text; left && *at;) {
        const char *blank = memchr(at, ' ', left);
        uint64_t length = 0;
        const bool number = blank && integer_parse(at, (size_t)(blank - at), &length);
        const size_t before = blank ? (size_t)(blank + 1 - at) : 0;
        FAIL_IF(!number || length > left || length < before + 1 || at[length - 1] != '\n', input->context, L3A_ERROR_FORMAT,
                damaged, PLACE "record %zu bytes into an extended header has the wrong length", input->path, header,
                (size_t)(at - text));
        TRY(take_record(tar, header, head->type == 'g', at + before, (size_t)length - before - 1));
        at += length;
        left -= (size_t)length;
    }
done:
    release(input->context, text);
    return status;
}

/* ---- Members ---- */

/* The name in a header, which may fill its field: prefix/name, or the name alone. */
static void join_name(const struct tar_head *head, char name[sizeof head->prefix + sizeof head->name + 2]) {
    const bool posix = memcmp(head->magic, "ustar", sizeof head->magic) == 0; /* GNU has a blank after it, and no prefix */
    const int prefix = posix ? (int)strnlen(head->prefix, sizeof head->prefix) : 0;
    const int length = (int)strnlen(head->name, sizeof head->name);
    sprintf(name, "%.*s%s%.*s", prefix, head->prefix, prefix ? "/" : "", length, head->name);
}

static l3a_status check_name(const struct tar *tar, const char *name) {
    l3a_status status = L3A_OK;
    const input_file *input = tar->input;
    struct shown shown;
    FAIL_IF(!stays_below(name), input->context, L3A_ERROR_FORMAT,
            "pack the pictures with relative names, for example: tar -C FOLDER -cf pictures.tar .", PLACE "the name '%s' is %s",
            input->path, tar->at, show(name, &shown),
            !name[0]         ? "empty"
            : name[0] == '/' ? "absolute"
                             : "outside of the archive: it contains '..'");
    for (const char *at = name; *at; at++) {
        FAIL_IF((unsigned char)*at < 0x20 || *at == 0x7F, input->context, L3A_ERROR_FORMAT, "rename the file, and pack it again",
                PLACE "the name '%s' contains a line break or another control character", input->path, tar->at, show(name, &shown));
    }
    FAIL_IF(!is_utf8(name), input->context, L3A_ERROR_FORMAT, "rename the file, and pack it again",
            PLACE "the name '%s' is not UTF-8", input->path, tar->at, show(name, &shown));
done:
    return status;
}

/* Refuses what is no regular file. */
static l3a_status check_type(const struct tar *tar, const struct tar_head *head, const char *name) {
    static const struct {
        char type;
        const char *what, *hint;
    } others[] = {
        {'1', "a link to another member", "pack the files themselves: tar --hard-dereference"},
        {'2', "a symbolic link", "pack the files that it leads to: tar --dereference"},
        {'3', "a device", "pack only files"},
        {'4', "a device", "pack only files"},
        {'6', "a pipe", "pack only files"},
        {'S', "a sparse file", "pack the files again, without --sparse"},
        {'M', "the rest of a file from another archive", "put the parts of the archive together first"},
    };
    const input_file *input = tar->input;
    struct shown shown;
    if (head->type == '0' || head->type == '\0' || head->type == '7') {
        return L3A_OK;
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i].type == head->type) {
            return fail(input->context, L3A_ERROR_FORMAT, others[i].hint, PLACE "'%s' is %s; only files are read", input->path,
                        tar->at, show(name, &shown), others[i].what);
        }
    }
    return fail(input->context, L3A_ERROR_FORMAT, "pack only files and folders", PLACE "'%s' is of an unknown type, %d",
                input->path, tar->at, show(name, &shown), (unsigned char)head->type);
}

static l3a_status keep_name(struct tar *tar, const char *name) {
    l3a_status status = L3A_OK;
    l3a_context *context = tar->input->context;
    TRY(grow_array(context, &tar->headers, &tar->header_capacity, tar->names.count + 1, sizeof *tar->headers));
    tar->headers[tar->names.count] = tar->at;
    TRY(text_pool_add(context, &tar->names, name, strlen(name)));
done:
    return status;
}

/* Takes the member whose header is at tar->at. A directory is not *taken. */
static l3a_status take_member(struct tar *tar, const struct tar_head *head, struct tar_member *member, bool *taken) {
    l3a_status status = L3A_OK;
    const input_file *input = tar->input;
    char own[sizeof head->prefix + sizeof head->name + 2];
    uint64_t size = 0, end = 0;
    struct shown shown;
    join_name(head, own);
    const char *name = tar->announced.name ? tar->announced.name : own;
    while (strncmp(name, "./", 2) == 0) {
        name += 2 + strspn(name + 2, "/");
    }
    const size_t length = strlen(name);
    const bool folder = head->type == '5' || ((head->type == '0' || !head->type) && length && name[length - 1] == '/');
    if (!folder || length) { /* "./" is the folder that was packed */
        TRY(check_name(tar, name));
    }
    FAIL_IF(!parse_size(head->size, &size), input->context, L3A_ERROR_FORMAT, damaged, PLACE "the size of '%s' is not a number",
            input->path, tar->at, show(name, &shown));
    size = tar->announced.has_size ? tar->announced.size : size;
    FAIL_IF(folder && size, input->context, L3A_ERROR_FORMAT, damaged, PLACE "'%s' is a folder, but has %" PRIu64 " bytes",
            input->path, tar->at, show(name, &shown), size); /* programs differ in whether such bytes follow */
    if (!folder) {
        TRY(check_type(tar, head, name));
    }
    TRY(find_end(tar, name, size, &end));
    if (!folder) {
        TRY(keep_name(tar, name));
        *member = (struct tar_member){last_name(tar), tar->at, tar->at + TAR_BLOCK, size};
    }
    tar->at = end;
    *taken = !folder;
done:
    release(input->context, tar->announced.name);
    tar->announced = (struct tar_announced){0};
    return status;
}

/* After the end, an archive may have more zeros, but nothing else: another archive's members would be lost. */
static l3a_status check_rest(struct tar *tar) {
    l3a_status status = L3A_OK;
    const input_file *input = tar->input;
    const uint64_t first = tar->at;
    char block[TAR_BLOCK];
    FAIL_IF(tar->announced.any, input->context, L3A_ERROR_TRUNCATED, damaged,
            PLACE "the archive ends after an extended header, before its member", input->path, tar->at);
    for (; tar->at - first < REST_LIMIT && input->size - tar->at >= TAR_BLOCK; tar->at += TAR_BLOCK) {
        TRY(read_bytes(tar, tar->at, block, sizeof block));
        FAIL_IF(!is_zero(block, sizeof block), input->context, L3A_ERROR_FORMAT,
                "if several archives were joined, give them one by one, separated by commas",
                PLACE "the archive ends at byte %" PRIu64 ", but there is more", input->path, tar->at, first);
    }
done:
    return status;
}

static l3a_status refuse_double_names(const struct tar *tar) {
    l3a_status status = L3A_OK;
    l3a_context *context = tar->input->context;
    text_index index = {0};
    size_t first = 0;
    struct shown shown;
    if (tar->names.count < 2) {
        return L3A_OK;
    }
    TRY(text_index_make_pool(context, &tar->names, &index));
    const size_t second = text_index_repeated(&index, &first);
    FAIL_IF(second < index.count, context, L3A_ERROR_FORMAT,
            "make the archive again: one to which files were added can hold several versions of a file",
            PLACE "'%s' is in the archive a second time; the first one is at byte %" PRIu64, tar->input->path, tar->headers[second],
            show(text_pool_at(&tar->names, second), &shown), tar->headers[first]);
done:
    text_index_free(context, &index);
    return status;
}

l3a_status tar_open(const input_file *input, struct tar *tar) {
    *tar = (struct tar){.input = input};
    return allocate(input->context, WINDOW, 1, &tar->window);
}

void tar_close(struct tar *tar) {
    if (tar->input) {
        l3a_context *context = tar->input->context;
        release(context, tar->announced.name);
        text_pool_clear(context, &tar->names);
        release(context, tar->headers);
        release(context, tar->window);
        *tar = (struct tar){0};
    }
}

l3a_status tar_next(struct tar *tar, struct tar_member *member, bool *more) {
    l3a_status status = L3A_OK;
    struct tar_head head;
    bool end = false, taken = false;
    char *unused = NULL;
    size_t length;
    *more = false;
    while (!taken) {
        TRY(read_head(tar, &head, &end));
        if (end) {
            TRY(check_rest(tar));
            TRY(refuse_double_names(tar));
            break;
        }
        switch (head.type) {
        case 'L': TRY(take_long_name(tar, &head)); break;
        case 'K': TRY(read_extra(tar, &head, NAME_LIMIT + 1, &unused, &length)); break; /* where a link leads; links are refused */
        case 'x':
        case 'g': TRY(take_records(tar, &head)); break;
        default: TRY(take_member(tar, &head, member, &taken)); break;
        }
        release(tar->input->context, unused);
        unused = NULL;
    }
    *more = taken;
done:
    release(tar->input->context, unused);
    return status;
}
