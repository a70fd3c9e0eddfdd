/* The bytes of a journal, for the files that read and write it. */
#ifndef L3A_JOURNAL_FILE_H
#define L3A_JOURNAL_FILE_H

#include "tag/journal.h"

enum { JOURNAL_LINE = 16 };
/* The first line; the second one if there may be changes that were committed. */
extern const char journal_line[JOURNAL_LINE], journal_line_commits[JOURNAL_LINE];
extern const char record_mark[8], commit_mark[8];

struct record_head {
    char mark[8];
    uint64_t description, features; /* bytes */
    uint64_t description_sum, features_sum;
    uint64_t sum; /* of the five above */
};
_Static_assert(sizeof(struct record_head) == 48, "no padding");

uint64_t record_sum(const struct record_head *head);
/* The file as it is now. */
file_description journal_describe_file(const struct journal *journal);

#endif
