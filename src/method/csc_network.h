/* The graph network of CSC (csc.c) on the last feature map of a backbone: scores of all classes, and the way back. */
#ifndef L3A_CSC_NETWORK_H
#define L3A_CSC_NETWORK_H

#include "base/memory.h"

/* The parameters in the order of `values`; the letters are those of csc_network.c. */
enum csc_part {
    CSC_CLASSIFY, /* C [classes x channels] */
    CSC_TRANSFORM,
    CSC_TRANSFORM_BIAS,
    CSC_RELATE,
    CSC_GENERAL,
    CSC_GENERAL_BIAS,
    CSC_MIDDLE,
    CSC_MIDDLE_BIAS,
    CSC_NORM,
    CSC_NORM_BIAS,
    CSC_ADAPT,
    CSC_ADAPT_BIAS,
    CSC_SPECIFIC,
    CSC_SPECIFIC_BIAS,
    CSC_LAST,
    CSC_LAST_BIAS,
    CSC_MEAN, /* the first that no step changes */
    CSC_VARIANCE,
    CSC_PARTS
};

/* What the forward pass keeps, of `images` pictures. Rows of nodes are those of a picture's classes, one picture after another. */
struct csc_room {
    size_t images, positions;
    float *attention;                                     /* [images x classes x positions] */
    size_t *best;                                         /* [images x classes], the position of the highest score */
    float *pooled;                                        /* [nodes x channels] */
    float *nodes, *related, *general, *sum, *mixed, *own; /* [nodes x width] */
    float *middle, *normal, *global;                      /* [images x width] */
    float *deviation;                                     /* [width], 1 / √(variance + ε) as it was applied */
    float *adapted;                                       /* [images x classes x classes] */
    bool batch;                                           /* the norm had the statistics of the batch */
};

struct csc_network {
    l3a_context *context;
    size_t classes, channels, width;
    size_t numbers, all; /* that steps change; with the batch norm's mean and variance, which come last */
    float *values;       /* [all], of all parts */
    struct csc_room room;
};

/* A feature map: planes [images x channels x (prefix + positions)], of which the first `prefix` numbers are not looked at. */
struct csc_map {
    size_t images, prefix, positions;
    const float *planes;
};

/* Draws all parameters. Start from zeroes. */
l3a_status csc_network_make(l3a_context *context, size_t classes, size_t channels, size_t width, uint64_t seed,
                            struct csc_network *net);
/* The same for more classes, where what belongs to old ones is as it was; with `new_biases`, not R's and W's biases. */
l3a_status csc_network_grow(const struct csc_network *old, size_t classes, uint64_t seed, bool new_biases, struct csc_network *net);
void csc_network_free(struct csc_network *net);

/* A part: its name, its numbers, and its shape; columns 0: it is a vector. */
struct csc_values {
    const char *name;
    float *values;
    size_t rows, columns, count;
    size_t first; /* its place among all numbers */
};
struct csc_values csc_network_part(const struct csc_network *net, enum csc_part part);

/* Scores [images x classes]. batch: the norm takes mean and variance from these pictures, and moves its own towards them. */
l3a_status csc_network_score(struct csc_network *net, const struct csc_map *map, bool batch, float *scores);
/* From the gradient by the scores that were computed last, sets that of the numbers that steps change, and adds that of the map to
 * by_map. */
l3a_status csc_network_backward(struct csc_network *net, const struct csc_map *map, const float *by_scores, float *by_values,
                                float *by_map);

#endif
