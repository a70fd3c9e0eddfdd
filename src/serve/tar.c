/* A head is a block of texts and octal numbers. A size of 8 GiB or more does not fit into its 11 octal digits: it is written as a
 * binary number, as GNU tar does, and all programs in use read it. A name that does not fit is in a block of its own before the
 * head, as a record "LENGTH path=NAME" of the pax format. */
#include "serve/tar.h"

#include <stdio.h>
#include <string.h>

static const uint64_t most_octal = UINT64_C(077777777777);

/* Octal if it fits; otherwise binary, the highest byte first, and the first bit of the field is set. */
static void put_size(char field[12], uint64_t size) {
    if (size <= most_octal) {
        snprintf(field, 12, "%011llo", (unsigned long long)size);
        return;
    }
    for (size_t i = 12; i-- > 0; size >>= 8) {
        field[i] = (char)(size & 0xFF);
    }
    field[0] = (char)0x80;
}

static void put_head(struct text *to, char type, const char *name, uint64_t size, unsigned mode, uint64_t seconds) {
    struct tar_head head = {.type = type, .magic = "ustar", .version = {'0', '0'}};
    snprintf(head.name, sizeof head.name, "%s", name);
    snprintf(head.mode, sizeof head.mode, "%07o", mode & 0777);
    snprintf(head.user, sizeof head.user, "%07o", 0);
    snprintf(head.group, sizeof head.group, "%07o", 0);
    put_size(head.size, size);
    snprintf(head.time, sizeof head.time, "%011llo", (unsigned long long)seconds);
    snprintf(head.sum, sizeof head.sum, "%06o", tar_sum(&head));
    head.sum[7] = ' ';
    text_add(to, &head, sizeof head);
}

/* The length that a record begins with counts its own digits. */
static size_t record_length(size_t rest) {
    size_t length = rest, before;
    do {
        before = length;
        length = rest + (size_t)snprintf(NULL, 0, "%zu", length);
    } while (length != before);
    return length;
}

static void put_path(struct text *to, const char *name, uint64_t seconds) {
    static const char zeros[TAR_BLOCK];
    const size_t length = record_length(strlen(" path=\n") + strlen(name));
    put_head(to, 'x', "path", length, 0600, seconds);
    text_print(to, "%zu path=%s\n", length, name);
    text_add(to, zeros, (TAR_BLOCK - length % TAR_BLOCK) % TAR_BLOCK);
}

void tar_head(struct text *to, const char *name, uint64_t size, unsigned mode, int64_t seconds) {
    const uint64_t time = seconds < 0 ? 0 : (uint64_t)seconds < most_octal ? (uint64_t)seconds : most_octal;
    if (strlen(name) >= sizeof((struct tar_head *)0)->name) {
        put_path(to, name, time);
    }
    put_head(to, '0', name, size, mode, time);
}
