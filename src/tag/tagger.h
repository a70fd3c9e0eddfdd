/* The tagger inside the library.
 *
 * Readers share a backbone that never runs itself, and the current edition of the model, which is a scorer (learn/scorer.h): it is
 * never changed, and is freed when the tagger has replaced it and the last call of a reader that uses it has ended. The writer has
 * a model besides, loaded when it first needs one. It may change that model while readers read; they see the change when the writer
 * publishes a new edition. */
#ifndef L3A_TAGGER_H
#define L3A_TAGGER_H

#include "base/context.h"
#include "learn/scorer.h"

#include <pthread.h>

/* The sample of a library that is at hand: its unlabelled pictures, and those of them that were taught. */
struct library {
    float *features;     /* [count x numbers of all views] */
    uint64_t *checksums; /* [count], if they are known */
    bool known;
    size_t count, views;
    uint64_t drawn_from;
    l3a_features *table; /* of the features; NULL: there is no library */
};

struct l3a_tagger {
    l3a_context *context; /* of the writer; readers only take its settings and functions from it */
    char *path;
    l3a_backbone *backbone;
    char *backbone_path; /* NULL: it is in the packed file */
    l3a_picture_options picture;
    size_t views;               /* of pictures to tag; 0: as the model says */
    l3a_loader_options loading; /* of pictures to tag */
    size_t batch;               /* pictures at a time; 0: as many as the backbone likes */
    l3a_model *model;           /* the writer's; NULL: not needed yet */
    bool created;               /* it was not loaded from a file */
    l3a_history *history;       /* of that model; NULL: not needed yet */
    struct library library;
    bool commits; /* changes are in the journal before anybody sees them */
    bool behind;  /* the model has changes that readers do not see yet, because memory was short */
    bool has_lock;
    pthread_mutex_t lock;
    struct scorer *current; /* changes only under the lock */
};

/* The current edition; the caller lets go of it with scorer_free(). Allowed on any thread. */
struct scorer *tagger_borrow(l3a_tagger *tagger);

/* For the writer only: */
/* The model that the writer may change; loads it if need be. L3A_ERROR_STATE for a packed file. */
l3a_status tagger_model(l3a_tagger *tagger, l3a_model **model);
/* The history of that model; changes that were committed and are not in the model's file are then in the model. */
l3a_status tagger_history(l3a_tagger *tagger, l3a_history **history);
/* Drops the model and its history; they are loaded again when they are next needed. */
void tagger_forget(l3a_tagger *tagger);
/* Makes the model as it is now the edition that readers see. Calls in progress end with the one they began with. After a failure,
 * which a warning tells, readers still see the old one, and the next call for the model or its history tries again. */
void tagger_publish(l3a_tagger *tagger);

/* teach.c: */
/* Before a change: the history, if what it says can be kept. */
l3a_status tagger_ready_to_change(l3a_tagger *tagger, l3a_history **history);
/* After a change that was made or failed: a tagger that commits keeps the change in the history or, if the history cannot tell what
 * was changed, in the model's file. Where that fails, what is in the files counts, and is loaded when it is next needed. Readers
 * then see the change. */
l3a_status tagger_settle(l3a_tagger *tagger, l3a_status status, bool in_history);

/* unlabelled.c: */
void library_free(l3a_context *context, struct library *library);

/* How pictures are loaded: as the backbone and the picture options say, and with these views. */
l3a_status tagger_loading(const l3a_tagger *tagger, uint64_t views, l3a_loader_options *loading);

/* backbone_path.c: */
/* Opens the backbone that the options name, or else the one that the records of the current edition lead to. */
l3a_status tagger_open_backbone(l3a_tagger *tagger, const l3a_tagger_options *options);
/* Records where the model's backbone is, so that l3a_tagger_open() finds it without being told. model_path: where the model will be
 * saved; its folder exists. A path that is not UTF-8 cannot be recorded; a warning says so. */
l3a_status tagger_remember_backbone(l3a_model *model, const char *model_path, const char *backbone_path);
/* The first file that the records of a model at this path lead to, whatever its checksum; NULL if there is none. */
l3a_status backbone_find(l3a_context *context, const char *model_path, const struct scorer *scorer, char **path);
/* The record backbone-path for a model at this path, if the file is in the model's folder, below it or beside it; otherwise NULL.
 */
l3a_status backbone_beside(l3a_context *context, const char *model_path, const char *backbone_path, char **record);
extern const char backbone_path_record[];

#endif
