/* Which parameters of a network are trained. */
#ifndef L3A_SELECTION_H
#define L3A_SELECTION_H

#include "train/settings.h"

/* A parameter whose values training changes: by steps, or, if it is the mean or the variance of a batch norm, by the pictures. */
struct changed_parameter {
    size_t layer;
    enum parameter_kind kind;
    size_t first, count; /* its place among the numbers of all of them */
    bool stepped;
};

struct selection {
    struct parameter_use (*uses)[PARAMETER_KINDS]; /* of each layer */
    struct changed_parameter *changed;
    size_t count;
    size_t numbers;   /* of all of them */
    size_t largest;   /* of one */
    uint64_t stepped; /* numbers that steps change */
};

/* Norms are layer norms and batch norms, with factors and biases. A block is what the family's names say: "blocks.3.",
 * "layer4.1.", "stages.3.blocks.2."; the last ones are those that come last in the list of layers, and everything from the first
 * layer of the first of them on is trained. Tensors of more than one dimension decay. */
l3a_status selection_make(const struct network *network, const struct train_settings *settings, struct selection *selection);
/* The same where the caller decides, parameter by parameter; `selected`: what the settings say. trains NULL: as they say. */
l3a_status selection_make_with(const struct network *network, const struct train_settings *settings,
                               bool (*trains)(void *owner, const char *name, bool selected), void *owner,
                               struct selection *selection);
void selection_free(l3a_context *context, struct selection *selection);
/* NULL if training leaves the parameter as it is. */
const struct changed_parameter *selection_find(const struct selection *selection, size_t layer, enum parameter_kind kind);

#endif
