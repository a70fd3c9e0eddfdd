/* The boxes of a HEIC or AVIF file, and the references between its items.
 *
 * libheif decodes what an item refers to, without end if it refers to itself, and as often as it is referred to, so that a small
 * file can keep it busy for hours. This reads the references from the file, before libheif follows them.
 *
 * The file is a sequence of boxes: their size in 4 bytes, their type in 4, and their content. The box "meta" contains boxes, among
 * them "iref". That contains a box for each item that refers to others: its type says what for, and its content is the number of
 * the item, the number of references, and the items referred to, in 2 bytes each, or the items in 4 where the version of "iref"
 * is 1. libheif ignores the size of that box, so a size that does not fit is an error here. To decode an item, libheif decodes the
 * items that it is derived from ("dimg"), and those that are auxiliary to it ("auxl"), where the reference points the other way. */
#ifdef L3A_HAVE_HEIF
#include "image/picture.h"

#include "base/memory.h"

enum { PARTS = 2048, REFERENCES = 4 * PARTS, DEPTH = 8, HEADER = 8, VERSION = 4 };

struct reference {
    uint32_t from, to;
};

struct references {
    size_t count;
    bool too_many, damaged;
    struct reference all[REFERENCES];
};

/* Bytes that are left to read. */
struct span {
    const uint8_t *at;
    size_t left;
    bool damaged, cut; /* a box does not fit; it is longer than what is left */
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

/* The next box; false at the end. A box of size 0 reaches to the end. */
static bool next_box(struct span *span, uint32_t *type, struct span *content) {
    if (span->left < HEADER) {
        span->damaged = span->cut = span->left > 0;
        return false;
    }
    uint64_t size = take(span, 4), header = HEADER;
    *type = take(span, 4);
    if (size == 1) {
        header += 8;
        size = span->left < 8 ? UINT64_MAX : (uint64_t)take(span, 4) << 32;
        size |= take(span, 4);
    }
    const uint64_t inside = size ? size - header : span->left;
    span->cut = size >= header && inside > span->left;
    span->damaged = span->cut || (size && size < header);
    if (span->damaged) {
        return false;
    }
    *content = (struct span){span->at, (size_t)inside, false, false};
    span->at += content->left;
    span->left -= content->left;
    return true;
}

static uint32_t type_of(const char *letters) {
    struct span span = {(const uint8_t *)letters, 4, false, false};
    return take(&span, 4);
}

static void add_reference(struct references *references, uint32_t from, uint32_t to) {
    if (references->count < REFERENCES) {
        references->all[references->count++] = (struct reference){from, to};
    } else {
        references->too_many = true;
    }
}

static void read_references(struct span iref, struct references *references) {
    const uint32_t version = take(&iref, VERSION) >> 24, number = version ? 4 : 2;
    uint32_t type;
    struct span box;
    while (next_box(&iref, &type, &box)) {
        const uint32_t from = take(&box, number), count = take(&box, 2);
        references->damaged = references->damaged || box.left != (size_t)count * number || type == type_of("uuid");
        while (box.left >= number) {
            const uint32_t to = take(&box, number);
            if (type == type_of("dimg")) {
                add_reference(references, from, to);
            } else if (type == type_of("auxl")) {
                add_reference(references, to, from);
            }
        }
    }
    references->damaged = references->damaged || iref.damaged || version > 1;
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
    references->damaged = references->damaged || meta.damaged;
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
    struct span file = {source->bytes, source->count, false, false}, box;
    uint32_t type;
    size_t count = 0;
    TRY(allocate(source->context, 1, sizeof *references, &references));
    references->count = 0;
    references->too_many = references->damaged = false;
    while (next_box(&file, &type, &box)) {
        if (type == type_of("meta")) {
            read_meta(box, references);
        }
    }
    FAIL_IF(references->damaged, source->context, L3A_ERROR_FORMAT, hint_damaged,
            "%s: the file cannot be read: the references between its parts are damaged", source->name);
    FAIL_IF(references->too_many || !count_parts(references, item, 0, &count), source->context, L3A_ERROR_FORMAT,
            "open the picture in an image editor and save it again",
            "%s: the picture is put together from more than %d parts, or from itself", source->name, PARTS);
done:
    release(source->context, references);
    return status;
}

bool heif_is_cut_short(const struct picture_bytes *source) {
    struct span file = {source->bytes, source->count, false, false}, box;
    uint32_t type;
    while (next_box(&file, &type, &box)) {
    }
    return file.cut;
}
#endif
