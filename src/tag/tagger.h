/* The tagger inside the library.
 *
 * Readers share a backbone that never runs itself, and the current edition of the model. An edition is never changed. It is freed
 * when the tagger has replaced it and the last call of a reader that uses it has ended. */
#ifndef L3A_TAGGER_H
#define L3A_TAGGER_H

#include "base/context.h"

#include <pthread.h>

struct edition {
    l3a_model *model;
    double *thresholds; /* [classes] */
    size_t users;       /* the tagger, while it is the current one, and calls of readers; guarded by the tagger's lock */
};

struct l3a_tagger {
    l3a_context *context; /* of the writer; readers only take its settings and functions from it */
    char *path;
    l3a_backbone *backbone;
    l3a_picture_options picture;
    l3a_loader_options loading;
    size_t batch;
    bool has_lock;
    pthread_mutex_t lock;
    struct edition *current; /* changes only under the lock */
};

/* The current edition, until it is given back. */
struct edition *tagger_borrow(l3a_tagger *tagger);
void tagger_return(l3a_tagger *tagger, struct edition *edition);

#endif
