/* The references between the items of a HEIC or AVIF file.
 *
 * libheif decodes what an item refers to, without end if it refers to itself, and as often as it is referred to, so that a small
 * file can keep it busy for hours. This reads the references from the file, before libheif follows them.
 *
 * The file is a sequence of boxes (boxes.h). The box "meta" contains boxes, among them "iref". That contains a box for each item
 * that refers to others: its type says what for, and its content is the number of the item, the number of references, and the items
 * referred to, in 2 bytes each, or the items in 4 where the version of "iref" is 1. libheif ignores the size of that box, so a size
 * that does not fit is an error here. To decode an item, libheif decodes the items that it is derived from ("dimg"), and those that
 * are auxiliary to it ("auxl"), where the reference points the other way. */
#ifdef L3A_HAVE_HEIF
#include "base/memory.h"
#include "image/boxes.h"
#include "image/picture.h"

enum { PARTS = 2048, REFERENCES = 4 * PARTS, DEPTH = 8 };

struct reference {
    uint32_t from, to;
};

struct references {
    size_t count;
    bool too_many, damaged;
    struct reference all[REFERENCES];
};

static void add_reference(struct references *references, uint32_t from, uint32_t to) {
    if (references->count < REFERENCES) {
        references->all[references->count++] = (struct reference){from, to};
    } else {
        references->too_many = true;
    }
}

static void read_references(struct span iref, struct references *references) {
    const uint32_t version = span_take(&iref, BOX_VERSION) >> 24, number = version ? 4 : 2;
    uint32_t type;
    struct span box;
    while (next_box(&iref, &type, &box)) {
        const uint32_t from = span_take(&box, number), count = span_take(&box, 2);
        references->damaged = references->damaged || box.left != (size_t)count * number || type == box_type("uuid");
        while (box.left >= number) {
            const uint32_t to = span_take(&box, number);
            if (type == box_type("dimg")) {
                add_reference(references, from, to);
            } else if (type == box_type("auxl")) {
                add_reference(references, to, from);
            }
        }
    }
    references->damaged = references->damaged || iref.damaged || version > 1;
}

static void read_meta(struct span meta, struct references *references) {
    uint32_t type;
    struct span box;
    span_take(&meta, BOX_VERSION);
    while (next_box(&meta, &type, &box)) {
        if (type == box_type("iref")) {
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
        if (type == box_type("meta")) {
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
