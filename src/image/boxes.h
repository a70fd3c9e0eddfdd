/* The boxes that HEIC and AVIF files are made of: their size in 4 bytes, their type in 4, and their content; in some of them, that
 * is boxes again. Numbers have their highest byte first. */
#ifndef L3A_BOXES_H
#define L3A_BOXES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BOX_VERSION = 4 }; /* bytes that some boxes begin with: their version in the first, and flags */

/* Bytes that are left to read. */
struct span {
    const uint8_t *at;
    size_t left;
    bool damaged, cut; /* a box does not fit; it is longer than what is left */
};

/* The number in the next bytes, at most 4 or 8; 0 past the end. */
uint32_t span_take(struct span *span, size_t size);
uint64_t span_take_long(struct span *span, size_t size);
/* The next box; false at the end. A box of size 0 reaches to the end. */
bool next_box(struct span *span, uint32_t *type, struct span *content);
/* Of four letters. */
uint32_t box_type(const char *letters);

#endif
