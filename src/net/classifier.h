/* The classifier that a network was trained with: a linear map from its features to the logits of its classes. Only those of the
 * 1,000 classes of ImageNet are read, because only their words are known (words.h).
 *
 * The probability of a class is exp(logit − log Σ exp(logits)). The sum is over all classes, so it is computed once for each image
 * and kept. The probability of a word is that of its classes together: with classifier_choose, exp(log sum over them − log sum over
 * all).
 */
#ifndef L3A_CLASSIFIER_H
#define L3A_CLASSIFIER_H

#include "base/context.h"

struct classifier {
    size_t classes;
    size_t width;  /* of the features that it takes */
    size_t stride; /* of the rows that have them: they may go on with other features */
    float *weight; /* [classes][width] */
    float *bias;   /* [classes] */
};

/* Reads the classifier of a checkpoint (.safetensors, .pth or .pt) for features of the width and the pool that a backbone's info
 * says; a NULL pool is the default one. Rows that are the class token and the mean of the patches are taken as well. */
l3a_status classifier_read(l3a_context *context, const char *path, const char *pool, size_t width, struct classifier **classifier);
/* Makes a classifier of some of the classes, in this order. */
l3a_status classifier_choose(l3a_context *context, const struct classifier *classifier, const size_t *classes, size_t count,
                             struct classifier **chosen);
void classifier_free(l3a_context *context, struct classifier *classifier);
/* Computes the logits [rows][classes] of rows of features [rows][stride]. */
void classifier_logits(const l3a_context *context, const struct classifier *classifier, const float *features, size_t rows,
                       float *logits);
/* Computes log Σ exp(logits) of each row. */
l3a_status classifier_log_sum(l3a_context *context, const struct classifier *classifier, const float *features, size_t rows,
                              float *sums);

#endif
