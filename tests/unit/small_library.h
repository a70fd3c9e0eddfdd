/* A folder of small pictures with a model that was taught some of them, a tiny network and an index. */
#ifndef L3A_SMALL_LIBRARY_H
#define L3A_SMALL_LIBRARY_H

#include "library/library.h"

enum { SMALL_CLASSES = 3, SMALL_TAUGHT = 9, SMALL_WIDTH = 64 };

struct small_library {
    char *folder;                    /* of everything */
    char *photos;                    /* the pictures: "0.jpg" with seed 0, … */
    char *backbone, *other_backbone; /* the first has a classifier with words */
    char *model, *index;
};

extern const char *const small_classes[SMALL_CLASSES];

/* Pictures, networks and the model, and no index. */
void small_library_make(struct small_library *small, size_t pictures);
void small_library_remove(struct small_library *small);
/* A picture below the folder of pictures, with a time long ago. */
void small_library_put(const struct small_library *small, const char *name, uint64_t seed);
/* Any file there. */
void small_library_put_bytes(const struct small_library *small, const char *name, const void *bytes, size_t count);
void small_library_delete(const struct small_library *small, const char *name);
/* Sets the time of a file there to so many seconds before now. */
void small_library_age(const struct small_library *small, const char *name, int64_t seconds);

/* A tagger; backbone NULL: the first. views 0: 1. */
l3a_tagger *small_library_tagger(const struct small_library *small, l3a_context *context, const char *backbone, size_t views);
/* Opens or makes the index. */
l3a_library *small_library_open(const struct small_library *small, l3a_context *context, l3a_tagger *tagger);
/* With the folder of pictures in it: scans, looks and scores. */
void small_library_fill(const struct small_library *small, l3a_context *context, l3a_library *library);
/* Everything that the index says, as text to be freed: paths, states, features, scores of all classes, what was said. */
char *small_library_tell(l3a_context *context, l3a_library *library);
/* No statement was left in use, and no transaction. */
void assert_at_rest(const l3a_library *library);

#endif
