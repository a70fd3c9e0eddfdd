/* Plans: the memory and the operations that a model will need. Sizes come from the lists that allocate (struct array) and from the
 * back end, so a plan cannot differ from what happens. */
#ifndef L3A_MODEL_PLAN_H
#define L3A_MODEL_PLAN_H

#include "algebra/algebra.h"
#include "learn/model_options.h"

/* The size of a phase to be learned. */
struct phase_size {
    size_t old, all; /* classes before it, and including it */
    uint64_t rows;   /* images */
    uint64_t parts;  /* phases kept apart before it */
    bool inverse;    /* the phase before was learned by recursion */
};

/* Whether a phase of so many images is learned by recursion. */
bool chooses_recursion(const l3a_context *context, const struct model_options *options, uint64_t dim, uint64_t images,
                       bool inverse);
/* Images that are processed at a time, of so many. */
size_t block_images(const struct model_options *options, uint64_t images);
/* The largest number of phases that are kept apart while `phases` phases are learned. */
uint64_t kept_phases(const struct model_options *options, uint64_t phases);
/* Peak memory in bytes, including the model's own, while a phase is learned, and while rows are scored. */
uint64_t phase_memory(enum place place, l3a_context *context, const struct model_options *options, size_t width,
                      const struct phase_size *phase);
uint64_t score_memory(enum place place, const l3a_context *context, const struct model_options *options, size_t width,
                      size_t classes, uint64_t parts, uint64_t rows);
/* Peak memory of a model that learns `phases` phases. A context that is still choosing leaves a device that is too small. */
void model_need(l3a_context *context, const struct model_options *options, size_t width, size_t classes, uint64_t phases,
                struct footprint *need);
/* Bytes of a part at most, wherever it is. */
uint64_t part_bytes(const l3a_context *context, const struct model_options *options, size_t width);
/* Whether a context that is still choosing had a device that is too small. It has the processor now, where something else is
 * needed. */
bool leaves_device(l3a_context *context, const struct model_options *options, size_t width, const struct footprint *needed);
/* Where parts will be: on the device as many as fit. */
struct placement {
    uint64_t processor, device; /* bytes */
    uint64_t parts, spilled;    /* that may be on the device, and how many of them it has no room for; these add to processor */
    uint64_t available;         /* bytes of the device's memory */
    bool fits;                  /* all but the parts, into the device's memory */
};
l3a_status place_parts(l3a_context *context, const struct footprint *needed, const struct footprint *held, uint64_t part,
                       struct placement *placed);
/* Checks that what is needed fits into memory; what is held is allocated already. */
l3a_status check_memory(l3a_context *context, const struct model_options *options, size_t width, const struct footprint *needed,
                        const struct footprint *held);
/* Checks that the plan fits into memory. model: the one that is to learn; NULL: it does not exist yet. */
l3a_status model_check_memory(l3a_context *context, const struct model_options *options, size_t width, size_t classes,
                              uint64_t phases, const l3a_model *model);
/* Bytes of the matrices that the model holds. */
void model_memory(const l3a_model *model, struct footprint *held);
/* As l3a_model_plan(). */
l3a_status model_plan(l3a_context *context, const struct model_options *options, size_t width, size_t classes, l3a_plan *plan);

#endif
