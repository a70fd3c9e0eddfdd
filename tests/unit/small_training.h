/* A small training: drawn pictures with labels, a network of a moment, and the naive back end as it would be if its numbers were
 * float32, as those of back ends are that can go on from a state. */
#ifndef L3A_SMALL_TRAINING_H
#define L3A_SMALL_TRAINING_H

#include "naive_network.h"
#include "train/training.h"

/* As naive_back_end, but the values and moments that a step has made are rounded to float32. */
extern const struct network_back_end rounded_back_end;

/* Writes the small network that `make` describes, and returns its path below the folder, to be freed. */
char *write_small_network(l3a_context *context, const char *folder, const char *name, void (*make)(struct memory_tensors *tensors));
/* Writes pictures "0.jpg" and so on below the folder, and a list with the labels "a", "b", … that the letters of its text say;
 * returns the name of the data set, to be freed. */
char *write_small_set(const char *folder, const char *name, const char *const *labels, size_t count);
l3a_dataset *open_small_set(l3a_context *context, const char *name);
/* The numbers of a tensor in a safetensors file, to be freed; NULL if there is none. */
float *read_tensor(l3a_context *context, const char *path, const char *name, size_t *count);

#endif
