/* The references between the items of a HEIC or AVIF file.
 *
 * libheif decodes what an item refers to, without end if it refers to itself, and as often as it is referred to, so that a small
 * file can keep it busy for hours. This reads the references from the file, before libheif follows them.
 *
 * The file is a sequence of boxes: their size in 4 bytes, their type in 4, and their content. The box "meta" contains boxes, among
 * them "iref". That contains a box for each item that refers to others: its type says what for, and its content is the number of
 * the item, the number of references, and the items referred to, in 2 bytes each, or the items in 4 where the version of "iref"
 * is 1. To decode an item, libheif decodes the items that it is derived from ("dimg"), and those that are auxiliary to it ("auxl"),
 * where the reference points the other way. */
#include "image/picture.h"

#include "base/memory.h"

enum { PARTS = 2048, REFERENCES = 4 * PARTS, DEPTH = 8, HEADER = 8, VERSION = 4 };

struct reference {
    uint32_t from, to;
};

struct references {
    size_t count;
    bool too_many;
    struct reference all[REFERENCES];
};

/* Bytes that are left to read. */
struct span {
    const uint8_t *at;
    size_t left;
};

/* 0 past the end. */
static uint32_t take(struct span *span, size_t size) {
    uint32_t value = 0;
    if (size > span->left) {
        span->left = 0;
        return 0;
    }
    for (size_t i = 0; i < size; i++) {
        value = value << 8 | span->at[i];
    }
    span->at += size;
    span->left -= size;
    return value;
}

/* The next box; false at the end. A box of size 0, and one that is longer than what is left, reach to the end. */
static bool next_box(struct span *span, uint32_t *type, struct span *content) {
    if (span->left < HEADER) {
        return false;
    }
    uint64_t size = take(span, 4), header = HEADER;
    *type = take(span, 4);
    if (size == 1) {
        size = (uint64_t)take(span, 4) << 32;
        size |= take(span, 4);
        header += 8;
    }
    const uint64_t inside = size < header ? span->left : size - header;
    *content = (struct span){span->at, inside < span->left ? (size_t)inside : span->left};
    span->at += content->left;
    span->left -= content->left;
    return true;
}

static uint32_t type_of(const char *letters) {
    struct span span = {(const uint8_t *)letters, 4};
    return take(&span, 4);
}

static void read_references(struct span iref, struct references *references) {
    const size_t number = take(&iref, VERSION) >> 24 ? 4 : 2;
    uint32_t type;
    struct span box;
    while (next_box(&iref, &type, &box)) {
        const bool derived = type == type_of("dimg"), auxiliary = type == type_of("auxl");
        const uint32_t from = take(&box, number);
        for (uint32_t count = take(&box, 2); count > 0 && box.left && (derived || auxiliary); count--) {
            const uint32_t to = take(&box, number);
            if (references->count == REFERENCES) {
                references->too_many = true;
                return;
            }
            references->all[references->count++] = derived ? (struct reference){from, to} : (struct reference){to, from};
        }
    }
}

static void read_meta(struct span meta, struct references *references) {
    uint32_t type;
    struct span box;
    take(&meta, VERSION);
    while (next_box(&meta, &type, &box)) {
        if (type == type_of("iref")) {
            read_references(box, references);
        }
    }
}

/* Counts what is decoded for an item. False if that is too much, or the item needs itself. */
static bool count_parts(const struct references *references, uint32_t item, size_t depth, size_t *count) {
    if (depth == DEPTH || ++*count > PARTS) {
        return false;
    }
    for (size_t i = 0; i < references->count; i++) {
        if (references->all[i].from == item && !count_parts(references, references->all[i].to, depth + 1, count)) {
            return false;
        }
    }
    return true;
}

l3a_status heif_check_parts(const struct picture_bytes *source, uint32_t item) {
    l3a_status status = L3A_OK;
    struct references *references = NULL;
    struct span file = {source->bytes, source->count}, box;
    uint32_t type;
    size_t count = 0;
    TRY(allocate(source->context, 1, sizeof *references, &references));
    references->count = 0;
    references->too_many = false;
    while (next_box(&file, &type, &box)) {
        if (type == type_of("meta")) {
            read_meta(box, references);
        }
    }
    FAIL_IF(references->too_many || !count_parts(references, item, 0, &count), source->context, L3A_ERROR_FORMAT,
            "open the picture in an image editor and save it again",
            "%s: the picture is put together from more than %d parts, or from itself", source->name, PARTS);
done:
    release(source->context, references);
    return status;
}
