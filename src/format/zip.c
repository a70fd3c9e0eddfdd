/* Zip: entries, each after its own header; then the directory, with one record per entry; then the end record, which says where the
 * directory is. A large archive, and any that torch writes, has a second end record with 64-bit numbers, and a locator that says
 * where it is. The directory is authoritative; an entry's own header is only used to find where its bytes begin. */
#include "format/zip.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    END_SIZE = 22,
    LOCATOR_SIZE = 20,
    END64_SIZE = 56,
    RECORD_SIZE = 46,
    HEADER_SIZE = 30,
    COMMENT_LIMIT = 65535,
    DIRECTORY_LIMIT = 64 << 20,
    FLAG_ENCRYPTED = 1
};

#define END_SIGNATURE "PK\5\6"
#define LOCATOR_SIGNATURE "PK\6\7"
#define END64_SIGNATURE "PK\6\6"
#define RECORD_SIGNATURE "PK\1\2"
#define HEADER_SIGNATURE "PK\3\4"

static const char damaged[] = "the file is damaged: copy, download or save it again";
static const char packed_hint[] = "torch.save neither compresses nor encrypts: load the checkpoint in PyTorch, and save it again";

static bool is_signature(const void *bytes, const char *signature) {
    return memcmp(bytes, signature, 4) == 0;
}

bool zip_recognise(const void *bytes, size_t count) {
    return count >= 4 && (is_signature(bytes, HEADER_SIGNATURE) || is_signature(bytes, END_SIGNATURE));
}

static uint64_t take(const char *bytes, size_t count) {
    uint64_t value = 0;
    while (count-- > 0) {
        value = value << 8 | (unsigned char)bytes[count];
    }
    return value;
}

static void fill_crc_table(uint32_t table[8][256]) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xEDB88320) : 0);
        }
        table[0][i] = crc;
    }
    for (size_t k = 1; k < 8; k++) {
        for (size_t i = 0; i < 256; i++) {
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
        }
    }
}

uint32_t zip_crc(const struct zip *zip, uint32_t crc, const void *bytes, size_t count) {
    const uint32_t(*table)[256] = zip->crc_table;
    const unsigned char *at = bytes;
    crc = ~crc;
    for (; count >= 8; count -= 8, at += 8) {
        crc ^= (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        crc = table[7][crc & 255] ^ table[6][crc >> 8 & 255] ^ table[5][crc >> 16 & 255] ^ table[4][crc >> 24] ^ table[3][at[4]] ^
              table[2][at[5]] ^ table[1][at[6]] ^ table[0][at[7]];
    }
    for (; count; count--, at++) {
        crc = crc >> 8 ^ table[0][(crc ^ *at) & 255];
    }
    return ~crc;
}

struct end {
    uint64_t at; /* where the end record is */
    uint64_t entries, size, offset;
};

/* The end record is at the end of the file, followed only by a comment whose length it gives. */
static l3a_status find_end(const input_file *input, struct end *end) {
    l3a_status status = L3A_OK;
    char *tail = NULL;
    const size_t count = input->size < END_SIZE + COMMENT_LIMIT ? (size_t)input->size : END_SIZE + COMMENT_LIMIT;
    size_t at = count < END_SIZE ? 0 : count - END_SIZE + 1;
    TRY(allocate(input->context, count, 1, &tail));
    TRY(input_read(input, input->size - count, tail, count));
    while (at-- > 0) {
        if (is_signature(tail + at, END_SIGNATURE) && take(tail + at + 20, 2) == count - at - END_SIZE) {
            break;
        }
    }
    FAIL_IF(at == SIZE_MAX, input->context, L3A_ERROR_TRUNCATED, damaged,
            "%s: the list of entries of the zip archive is missing at the end, byte %" PRIu64 ": the file is incomplete",
            input->path, input->size);
    end->at = input->size - count + at;
    end->entries = take(tail + at + 10, 2);
    end->size = take(tail + at + 12, 4);
    end->offset = take(tail + at + 16, 4);
    FAIL_IF(take(tail + at + 4, 4) != 0, input->context, L3A_ERROR_FORMAT, damaged,
            "%s: byte %" PRIu64 ": this is one part of a multi-part archive", input->path, end->at);
done:
    release(input->context, tail);
    return status;
}

static l3a_status find_end64(const input_file *input, struct end *end) {
    l3a_status status = L3A_OK;
    char locator[LOCATOR_SIZE], record[END64_SIZE];
    if (end->at < LOCATOR_SIZE) {
        return L3A_OK;
    }
    TRY(input_read(input, end->at - LOCATOR_SIZE, locator, sizeof locator));
    if (!is_signature(locator, LOCATOR_SIGNATURE)) {
        return L3A_OK;
    }
    const uint64_t at = take(locator + 8, 8);
    FAIL_IF(at > end->at || end->at - at < END64_SIZE + LOCATOR_SIZE, input->context, L3A_ERROR_FORMAT, damaged,
            "%s: byte %" PRIu64 ": the archive's second end record cannot be at byte %" PRIu64, input->path, end->at - LOCATOR_SIZE,
            at);
    TRY(input_read(input, at, record, sizeof record));
    FAIL_IF(!is_signature(record, END64_SIGNATURE), input->context, L3A_ERROR_FORMAT, damaged,
            "%s: byte %" PRIu64 ": this is not the second end record of an archive", input->path, at);
    end->at = at;
    end->entries = take(record + 32, 8);
    end->size = take(record + 40, 8);
    end->offset = take(record + 48, 8);
done:
    return status;
}

/* Numbers that do not fit in 32 bits are in the extra field of kind 1, in this order. */
static bool read_extra(const char *extra, size_t count, struct zip_entry *entry) {
    uint64_t *const wide[3] = {&entry->size, &entry->packed, &entry->header};
    bool complete = true;
    for (size_t i = 0; i < 3; i++) {
        complete = complete && *wide[i] != UINT32_MAX;
    }
    while (!complete && count >= 4) {
        const size_t kind = (size_t)take(extra, 2), size = (size_t)take(extra + 2, 2);
        if (size > count - 4) {
            return false;
        }
        for (size_t i = 0, at = 0; kind == 1 && i < 3; i++) {
            if (*wide[i] == UINT32_MAX) {
                if (size - at < 8) {
                    return false;
                }
                *wide[i] = take(extra + 4 + at, 8);
                at += 8;
            }
        }
        complete = kind == 1;
        extra += 4 + size;
        count -= 4 + size;
    }
    return complete;
}

/* Reads one record of the directory; returns false if it cannot be parsed. */
static bool read_record(const char **at, const char *stop, struct zip_entry *entry) {
    const char *record = *at;
    if (stop - record < RECORD_SIZE || !is_signature(record, RECORD_SIGNATURE)) {
        return false;
    }
    const size_t name = (size_t)take(record + 28, 2), extra = (size_t)take(record + 30, 2), comment = (size_t)take(record + 32, 2);
    if ((size_t)(stop - record) - RECORD_SIZE < name + extra + comment) {
        return false;
    }
    *entry = (struct zip_entry){.name = record + RECORD_SIZE,
                                .name_length = name,
                                .header = take(record + 42, 4),
                                .size = take(record + 24, 4),
                                .packed = take(record + 20, 4),
                                .crc = (uint32_t)take(record + 16, 4),
                                .flags = (uint16_t)take(record + 8, 2),
                                .method = (uint16_t)take(record + 10, 2)};
    *at = record + RECORD_SIZE + name + extra + comment;
    return read_extra(record + RECORD_SIZE + name, extra, entry);
}

static int compare_entries(const void *left, const void *right) {
    const struct zip_entry *a = left, *b = right;
    return compare_bytes(a->name, a->name_length, b->name, b->name_length);
}

static l3a_status read_directory(struct zip *zip, const struct end *end) {
    l3a_status status = L3A_OK;
    const input_file *input = zip->input;
    FAIL_IF(end->offset > end->at || end->size > end->at - end->offset, input->context, L3A_ERROR_FORMAT, damaged,
            "%s: byte %" PRIu64 ": the list of entries cannot have %" PRIu64 " bytes at byte %" PRIu64, input->path, end->at,
            end->size, end->offset);
    FAIL_IF(end->size > DIRECTORY_LIMIT || end->entries > end->size / RECORD_SIZE, input->context, L3A_ERROR_FORMAT, damaged,
            "%s: byte %" PRIu64 ": the list of entries cannot have %" PRIu64 " entries in %" PRIu64 " bytes", input->path, end->at,
            end->entries, end->size);
    TRY(allocate(input->context, (size_t)end->size, 1, &zip->directory));
    TRY(input_read(input, end->offset, zip->directory, (size_t)end->size));
    TRY(allocate(input->context, (size_t)end->entries, sizeof *zip->entries, &zip->entries));
    const char *at = zip->directory, *stop = zip->directory + end->size;
    while (zip->count < end->entries && read_record(&at, stop, &zip->entries[zip->count])) {
        zip->count++;
    }
    FAIL_IF(zip->count < end->entries || at != stop, input->context, L3A_ERROR_FORMAT, damaged,
            "%s: byte %" PRIu64 ": record %zu in the archive's list of entries cannot be parsed", input->path,
            end->offset + (uint64_t)(at - zip->directory), zip->count);
    uint64_t left = input->size;
    for (size_t i = 0; i < zip->count; i++) {
        FAIL_IF(zip->entries[i].packed > left, input->context, L3A_ERROR_FORMAT, damaged,
                "%s: the entries have more bytes than the file, so some overlap", input->path);
        left -= zip->entries[i].packed;
    }
    qsort(zip->entries, zip->count, sizeof *zip->entries, compare_entries);
    for (size_t i = 1; i < zip->count; i++) {
        const struct zip_entry *entry = &zip->entries[i];
        FAIL_IF(compare_entries(entry - 1, entry) == 0, input->context, L3A_ERROR_FORMAT, damaged,
                "%s: two entries of the archive are named '%.*s'", input->path, (int)entry->name_length, entry->name);
    }
done:
    return status;
}

l3a_status zip_open(const input_file *input, struct zip *zip) {
    l3a_status status = L3A_OK;
    struct end end = {0};
    memset(zip, 0, sizeof *zip);
    zip->input = input;
    fill_crc_table(zip->crc_table);
    TRY(find_end(input, &end));
    TRY(find_end64(input, &end));
    TRY(read_directory(zip, &end));
done:
    if (status != L3A_OK) {
        zip_close(zip);
    }
    return status;
}

void zip_close(struct zip *zip) {
    if (zip->input) {
        release(zip->input->context, zip->directory);
        release(zip->input->context, zip->entries);
    }
    memset(zip, 0, sizeof *zip);
}

const struct zip_entry *zip_find(const struct zip *zip, const char *name, size_t length) {
    const struct zip_entry wanted = {.name = name, .name_length = length};
    return zip->count ? bsearch(&wanted, zip->entries, zip->count, sizeof wanted, compare_entries) : NULL;
}

l3a_status zip_place(const struct zip *zip, const struct zip_entry *entry, uint64_t *offset) {
    l3a_status status = L3A_OK;
    const input_file *input = zip->input;
    const int length = (int)entry->name_length;
    char header[HEADER_SIZE];
    FAIL_IF(entry->flags & FLAG_ENCRYPTED, input->context, L3A_ERROR_FORMAT, packed_hint, "%s: entry '%.*s' is encrypted",
            input->path, length, entry->name);
    FAIL_IF(entry->method != 0 || entry->packed != entry->size, input->context, L3A_ERROR_FORMAT, packed_hint,
            "%s: entry '%.*s' is compressed (method %d)", input->path, length, entry->name, entry->method);
    FAIL_IF(entry->header > input->size || input->size - entry->header < HEADER_SIZE, input->context, L3A_ERROR_TRUNCATED, damaged,
            "%s: entry '%.*s' should be at byte %" PRIu64 ", but the file ends at %" PRIu64, input->path, length, entry->name,
            entry->header, input->size);
    TRY(input_read(input, entry->header, header, sizeof header));
    const uint64_t before = HEADER_SIZE + take(header + 26, 2) + take(header + 28, 2);
    FAIL_IF(!is_signature(header, HEADER_SIGNATURE) || take(header + 26, 2) != entry->name_length, input->context, L3A_ERROR_FORMAT,
            damaged, "%s: byte %" PRIu64 ": not the header of entry '%.*s'", input->path, entry->header, length, entry->name);
    const uint64_t available = input->size - entry->header;
    FAIL_IF(before > available || entry->size > available - before, input->context, L3A_ERROR_TRUNCATED, damaged,
            "%s: entry '%.*s' has %" PRIu64 " bytes from byte %" PRIu64 " on, but the file ends at %" PRIu64, input->path, length,
            entry->name, entry->size, entry->header + before, input->size);
    *offset = entry->header + before;
done:
    return status;
}

l3a_status zip_fail_crc(const struct zip *zip, const struct zip_entry *entry, uint32_t computed) {
    return fail(zip->input->context, L3A_ERROR_CHECKSUM, damaged,
                "%s: entry '%.*s' (from byte %" PRIu64 ") has checksum %08" PRIx32 ", but the archive records %08" PRIx32,
                zip->input->path, (int)entry->name_length, entry->name, entry->header, computed, entry->crc);
}

struct crc_sum {
    const struct zip *zip;
    uint32_t crc;
};

static void add_to_crc(void *user, const char *bytes, size_t count) {
    struct crc_sum *sum = user;
    sum->crc = zip_crc(sum->zip, sum->crc, bytes, count);
}

l3a_status zip_verify(const struct zip *zip, const struct zip_entry *entry) {
    l3a_status status = L3A_OK;
    struct crc_sum sum = {zip, 0};
    uint64_t offset = 0;
    TRY(zip_place(zip, entry, &offset));
    TRY(input_scan(zip->input, offset, entry->size, add_to_crc, &sum));
    if (sum.crc != entry->crc) {
        status = zip_fail_crc(zip, entry, sum.crc);
    }
done:
    return status;
}
