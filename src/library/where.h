/* Expressions that say which pictures: "dog and not (cat or horse) since:2024-01 folder:italy". */
#ifndef L3A_WHERE_H
#define L3A_WHERE_H

#include "library/library.h"

struct where {
    uint8_t *chosen; /* [pictures of the catalogue]: 1 if the expression holds */
    int64_t first;   /* the class of the tag that is named first, not after `not`; 0: there is none */
    char *word;      /* of "word:dog"; NULL: there is none */
};

/* text: NULL is "". The catalogue and the columns are up to date. */
l3a_status where_evaluate(l3a_library *library, const char *text, struct where *where);
void where_free(l3a_library *library, struct where *where);

#endif
