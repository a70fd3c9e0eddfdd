/* Searching, and answers about pictures of the index. */
#ifndef L3A_SERVE_FINDER_H
#define L3A_SERVE_FINDER_H

#include "serve/librarian.h"

/* What an answer says of a picture: a copy, so that no lock is held while it is written. */
struct leaf {
    l3a_library_picture about;
    char *path, *problem; /* path: below the folder; NULL: the picture is gone */
    double rank;
    size_t group;
    float *features; /* in the sheet's; NULL: none */
};

/* Pictures on their way into an answer. */
struct sheet {
    struct leaf *leaves;
    size_t count, width;
    float *features; /* [count x width] */
    uint64_t total, change;
};

enum { SHEET_MOST = 1000 };

/* Refuses if there is no index. */
struct librarian *librarian_of(struct request *request);
/* ?first= and ?count=; false: refused. */
bool read_range(struct request *request, uint64_t most, uint64_t otherwise, uint64_t *first, uint64_t *count);
/* A query parameter; false: refused, because it has a zero byte. */
bool read_parameter(struct request *request, const char *name, const char **value);
/* Refuses with the words of the library, whose context this is. */
void refuse_search(struct request *request, const l3a_context *context, l3a_status status);
/* Copies pictures [first, first + count) of what was found. Under the handle's lock. */
bool sheet_fill(struct librarian *librarian, struct handle *handle, const l3a_found *found, uint64_t first, uint64_t count,
                bool features, struct sheet *sheet);
void sheet_free(struct sheet *sheet);
/* Writes the pictures as the values of an array, with their tags; between groups, "], [". Returns false if the request was refused.
 */
bool sheet_write(struct request *request, struct worker *worker, struct sheet *sheet, bool groups);

#endif
