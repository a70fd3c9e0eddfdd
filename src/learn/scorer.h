/* A scorer: all that scoring needs, and nothing else. It is never changed once it is made, so any number of threads may use it,
 * each with a context of its own, while the model it came from learns on. It is freed when its last user lets go of it.
 *
 * The random layer depends only on the settings of a model, so all scorers of a model share one. */
#ifndef L3A_SCORER_H
#define L3A_SCORER_H

#include "algebra/algebra.h"
#include "base/memory.h"

#include <stdatomic.h>

/* A layer with several users. Each may keep a copy of `layer`, which points to the same numbers. */
struct shared_layer {
    atomic_size_t users;
    struct layer layer;
};

l3a_status shared_layer_create(l3a_context *context, const struct layer_shape *shape, struct shared_layer **shared);
void shared_layer_free(struct shared_layer *shared);

struct scorer {
    l3a_context *context; /* of the thread that made it; only its memory functions are used later */
    atomic_size_t users;
    struct shared_layer *layer;
    size_t views;             /* of the images that it scores */
    struct solution solution; /* none if there is no class */
    text_list classes;
    double *thresholds;   /* [classes] */
    uint64_t fingerprint; /* of all that scores depend on: another one, other scores */
    text_list record_keys, record_values;
    bool packed;       /* from a file without sums, which cannot be taught */
    bool has_backbone; /* in the same file */
};

/* Makes a scorer of the model as it is now, for images with these views; 0: those that its settings say. The layer is that of the
 * model, or of `before` if it has the same shape. before may be NULL. */
l3a_status scorer_create(l3a_model *model, size_t views, const struct scorer *before, struct scorer **scorer);
/* Reads only what scoring needs of a model file or a packed file, and verifies only that. A packed file has thresholds for its own
 * views only. */
l3a_status scorer_load(l3a_context *context, const char *path, size_t views, const struct scorer *before, struct scorer **scorer);
/* Adds a user, who lets go with scorer_free(). */
struct scorer *scorer_keep(struct scorer *scorer);
void scorer_free(struct scorer *scorer);

static inline size_t scorer_width(const struct scorer *scorer) {
    return scorer->layer->layer.shape.width;
}

/* NULL if there is none. */
const char *scorer_record(const struct scorer *scorer, const char *key);
/* As l3a_model_accepts(). */
l3a_status scorer_accepts(l3a_context *context, const struct scorer *scorer, const l3a_features *features);
/* scores [images x classes] of features [images x V x width]. best: the crop with the highest score for each class, as in
 * combine_views(); NULL: not wanted. */
l3a_status scorer_score(l3a_context *context, const struct scorer *scorer, const float *features, size_t images, float *scores,
                        uint16_t *best);

/* Steps of making one: an empty scorer; its layer, as in scorer_create(); and whether there is memory for it, which must be checked
 * before a file may decide how much is allocated. */
struct model_options;
l3a_status scorer_begin(l3a_context *context, struct scorer **scorer);
l3a_status scorer_take_layer(struct scorer *scorer, const struct model_options *options, size_t width, const struct scorer *before);
/* Computes the fingerprint, once all else is there. coefficients: W, or NULL if there is no class. */
void scorer_sign(struct scorer *scorer, const double *coefficients);
l3a_status scorer_check_memory(l3a_context *context, const struct model_options *options, size_t width, size_t classes);

/* How many blocks of rows score_features() should get at once: one, unless the back end scores while the next is prepared. */
size_t score_ahead(const l3a_context *context);
/* What models and scorers have in common. */
l3a_status score_features(l3a_context *context, const struct layer *layer, const struct solution *solution, size_t views,
                          const float *features, size_t images, float *scores, uint16_t *best);
/* Checks that features of this width, with these views and records could be learned together with the table's. */
l3a_status check_provenance(l3a_context *context, size_t width, size_t views, const text_list *keys, const text_list *values,
                            const l3a_features *features);

#endif
