/* What a method keeps between two phases: named arrays, and the file of a job that is not finished.
 *
 * The file is a safetensors file with checksums. A tensor `state.NAME` is an array, and `sums.NAME` [d(d+1)/2] is the lower
 * triangle of sums (algebra/algebra.h), row after row; metadata says that this is a state (format, version), how many phases it has
 * learned (phases), and whose it is: what the caller lists, each as `job.KEY`. */
#ifndef L3A_STATE_H
#define L3A_STATE_H

#include "algebra/algebra.h"
#include "base/memory.h"
#include "format/safetensors.h"
#include "l3a/l3a_experiment.h"

enum { STATE_NAME = 128 }; /* bytes for the name of a tensor */

struct state_item {
    l3a_state_array array;
    char *name;
    void *own; /* its numbers, if they belong to the state; otherwise NULL */
};

/* Sums that are being saved. */
struct state_sums {
    char name[STATE_NAME]; /* of the tensor */
    const struct sums *sums;
    double *strip; /* the rows [first, first + count) */
    size_t first, count;
};

struct l3a_state {
    l3a_context *context;
    safetensors file; /* it was read from; its path is NULL if the state is being saved */
    size_t classes;   /* that whoever loads it has learned, as the run counts them */
    struct state_item *items;
    size_t count, capacity;
    struct state_sums *sums;
    size_t sums_count, sums_capacity;
};

/* What a state belongs to: keys and their values, such as method, settings, seed, classes. */
struct state_owner {
    text_list keys, values;
};

/* Where a learner that takes long keeps what it has done of a phase. */
struct state_progress {
    const char *path;
    const struct state_owner *owner;
};

l3a_status state_owner_set(l3a_context *context, struct state_owner *owner, const char *key, const char *value);
void state_owner_free(l3a_context *context, struct state_owner *owner);

/* An empty state, to be saved. NULL may be freed. */
l3a_status state_create(l3a_context *context, l3a_state **state);
void state_free(l3a_state *state);
/* Writes the file, which replaces an older one as a whole. Of several processes, process 0 writes. */
l3a_status state_write(l3a_state *state, const char *path, const struct state_owner *owner, size_t phases);
/* Reads it. A file that is damaged, or that belongs to another owner, is an error. */
l3a_status state_read(l3a_context *context, const char *path, const struct state_owner *owner, size_t *phases, l3a_state **state);

/* As l3a_state_put(), with numbers from allocate(), which belong to the state from now on, even if this fails. */
l3a_status state_give(l3a_state *state, const char *name, l3a_number type, const uint64_t *shape, size_t rank, void *data);
/* As l3a_state_get(), but every extent must be the given one. */
l3a_status state_expect(const l3a_state *state, const char *name, l3a_number type, size_t rank, const uint64_t *shape,
                        const void **data);
/* The same with a copy of the numbers: *copy is the address of a pointer, which must be NULL. */
l3a_status state_copy(const l3a_state *state, const char *name, l3a_number type, size_t rank, const uint64_t *shape, void *copy);
/* The error of a state whose arrays contradict each other: "FILE: what", with a hint. */
l3a_status state_fail(const l3a_state *state, const char *what);

/* state_sums.c. Sums, whose first half is saved. They must stay as they are until the file is written. */
l3a_status state_put_sums(l3a_state *state, const char *name, const struct sums *sums);
l3a_status state_get_sums(const l3a_state *state, const char *name, struct sums *sums);
extern const char sums_prefix[]; /* "sums." */
tensor_source state_sums_source(struct state_sums *sums);

#endif
