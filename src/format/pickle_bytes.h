/* The bytes of a pickle, read from the file as they are needed. A count that the file cannot have is refused before memory is taken
 * for it. What is taken is held until the pickle is freed, and is named by its place. */
#ifndef L3A_PICKLE_BYTES_H
#define L3A_PICKLE_BYTES_H

#include "base/file.h"

struct pickle_bytes {
    const input_file *input;
    uint64_t start, end; /* the range of the file that may belong to the pickle */
    char *held;          /* what was read so far */
    size_t loaded, room;
    size_t at, operation; /* the next byte, and the start of the current operation */
};

/* An error that gives the byte of the current operation. */
__attribute__((format(printf, 2, 3))) l3a_status pickle_bytes_fail(struct pickle_bytes *bytes, const char *format, ...);
/* Reads on, until that many bytes can be taken. */
l3a_status pickle_need(struct pickle_bytes *bytes, uint64_t count);
/* A little-endian number of 1 to 8 bytes. */
l3a_status pickle_take_number(struct pickle_bytes *bytes, unsigned size, uint64_t *number);
l3a_status pickle_take_bytes(struct pickle_bytes *bytes, uint64_t count, uint32_t *at);
/* Takes the bytes up to a newline, and consumes the newline. */
l3a_status pickle_take_line(struct pickle_bytes *bytes, uint32_t *at, uint32_t *length);

#endif
