/* A lesson inside the library. A mark is what a picture says about a class; a picture that is complete says "absent" about all
 * classes that it does not mark. */
#ifndef L3A_LESSON_H
#define L3A_LESSON_H

#include "base/memory.h"
#include "image/picture.h"

struct mark {
    size_t class; /* of the lesson */
    int8_t label; /* 1: shows it, 0: does not */
};

/* What a judgement says. */
struct marks {
    struct mark *items;
    size_t count;
    bool complete;
};

struct lesson_picture {
    char *path;     /* or the name, if it is in memory */
    uint8_t *bytes; /* NULL: in a file */
    size_t byte_count;
    float *features; /* NULL: to be computed */
    size_t feature_count;
    uint64_t checksum; /* with features: of its file */
    struct marks marks;
    l3a_status outcome;
    char *problem;
};

static inline struct picture_source lesson_source(const struct lesson_picture *picture) {
    return (struct picture_source){.name = picture->path, .bytes = picture->bytes, .count = picture->byte_count};
}

/* Finds a class of the lesson by its name, and its mark in the judgement that is being read. */
struct lesson_class {
    size_t next;            /* of the classes with the same hash, plus 1; 0: none */
    size_t judgement, mark; /* the number of the last judgement that marks it, and which of its marks does */
};

struct l3a_lesson {
    l3a_context *context;
    text_list classes;          /* that any picture marks */
    struct lesson_class *found; /* [classes] */
    size_t found_capacity;
    size_t *chains; /* [a power of 2]: their first class, plus 1 */
    size_t chain_count;
    size_t judgements; /* that were read */
    struct lesson_picture *pictures;
    size_t count, capacity;
};

/* Reads a judgement that belongs to no picture of the lesson; `who` is what messages say it is about. The caller frees the marks.
 */
l3a_status lesson_marks(l3a_lesson *lesson, const char *who, const l3a_judgement *judgement, struct marks *marks);
/* Sets the outcome of a picture, with words that are copied; NULL: "". */
l3a_status lesson_set_outcome(l3a_lesson *lesson, size_t index, l3a_status outcome, const char *problem);
/* Checks a name that a class shall get. */
l3a_status check_class_name(l3a_context *context, const char *name);
/* The rest of the check, for a name that no class has yet: classes of earlier versions may have characters that nobody sees. */
l3a_status check_new_name(l3a_context *context, const char *name);
/* Whether the names differ only in case, spaces, hyphens, underscores and joiners. */
bool names_look_alike(const char *left, const char *right);

#endif
