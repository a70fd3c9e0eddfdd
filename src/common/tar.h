/* The head of a member of a tar file, as POSIX has it: a block of texts and octal numbers. The server writes them, and the library
 * reads them. */
#ifndef L3A_COMMON_TAR_H
#define L3A_COMMON_TAR_H

#include <stddef.h>

enum { TAR_BLOCK = 512 };

struct tar_head {
    char name[100], mode[8], user[8], group[8], size[12], time[12], sum[8], type, link[100], magic[6], version[2];
    char user_name[32], group_name[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct tar_head) == TAR_BLOCK, "no padding");

/* What the field `sum` should say: the sum of all bytes, those of the field itself counting as blanks. */
static inline unsigned tar_sum(const struct tar_head *head) {
    const unsigned char *bytes = (const unsigned char *)head;
    const size_t first = offsetof(struct tar_head, sum), last = first + sizeof head->sum;
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof *head; i++) {
        sum += i >= first && i < last ? ' ' : bytes[i];
    }
    return sum;
}

#endif
