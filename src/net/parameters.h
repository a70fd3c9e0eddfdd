/* A network's parameters: a table of named tensors, filled from a checkpoint, or by a test from memory. It records which tensors a
 * description has taken, so that extra tensors are detected as well as missing ones. */
#ifndef L3A_PARAMETERS_H
#define L3A_PARAMETERS_H

#include "base/text_index.h"
#include "format/checkpoint.h"

enum { NAME_IN_FILE = 256, SHAPE_TEXT = 160 };

struct parameter_source {
    void *owner;
    size_t count;
    const struct checkpoint_tensor *(*at)(const void *owner, size_t index);
    /* Reads all elements of a tensor, in C order. */
    l3a_status (*read)(void *owner, const struct checkpoint_tensor *tensor, float *values);
    /* Writes what the file calls the tensor of that name, and returns false if it is the same. NULL: all are the same. */
    bool (*name_in_file)(const void *owner, const char *name, char text[NAME_IN_FILE]);
    struct checkpoint *file; /* NULL: none */
    bool recorded;           /* a model was learned with these tensors */
};

/* Makes the tensors of a description that a source does not have, such as prompts. */
struct parameter_maker {
    void *owner;
    l3a_status (*make)(void *owner, const char *name, size_t rank, const uint64_t *shape, float *values); /* NULL: there are none */
};

struct parameters {
    l3a_context *context;
    struct parameter_source source;
    struct parameter_maker maker;
    bool *used;
    bool *skipped;
    text_index names;
};

/* Writes "[64, 3, 7, 7]", and returns it. */
const char *shape_text(size_t rank, const uint64_t *shape, char text[SHAPE_TEXT]);

void parameter_source_checkpoint(struct checkpoint *checkpoint, struct parameter_source *source);

l3a_status parameters_open(l3a_context *context, const struct parameter_source *source, struct parameters *parameters);
void parameters_close(struct parameters *parameters);
/* NULL if there is no tensor of that name. */
const struct checkpoint_tensor *parameters_find(const struct parameters *parameters, const char *name);
/* The number of numbered parts: one more than the largest N in names that begin with "prefixN.". */
size_t parameters_count_parts(const struct parameters *parameters, const char *prefix);
/* Gives a new array with the tensor's elements. If the tensor is missing or has another shape, the error says what was expected. */
l3a_status parameters_take(struct parameters *parameters, const char *name, size_t rank, const uint64_t *shape, float **values);
/* The tensors whose names begin with the prefix are not needed. */
void parameters_skip(struct parameters *parameters, const char *prefix);
/* Whether a tensor of that name, timm's, belongs to a classifier or a projection, unless a network has taken it. */
bool parameter_is_of_classifier(const char *name);
/* Fails if a tensor was not taken, unless it belongs to a classifier or counts training steps. */
l3a_status parameters_check_all_used(const struct parameters *parameters, const char *network);

#endif
