/* Writes a trained network as an ordinary checkpoint: one .safetensors file with the names, shapes and order of the file that it
 * came from, whatever its naming, and with the recipe in its metadata, so that it opens as the same network without a configuration
 * beside it and without options.
 *
 * What is written is the image tower. Its parameters have their trained values; where those are not the file's numbers any more,
 * they are float32, whatever the file had. What the network has no use for but belongs to the tower, such as what counts steps, is
 * copied. Positions are those of the pictures it was trained with, so a network that was trained with pictures of another size than
 * its file's has as many as they need.
 *
 * Left out are text towers, copies that training keeps, and the last linear map: ImageNet's classifier, or a projection that the
 * pool does not use. It belongs to the features before training. A new classifier takes its place under the name that the naming
 * has for one, or "classifier" if that name is taken. */
#ifndef L3A_WRITE_H
#define L3A_WRITE_H

#include "net/backbone.h"

/* The values of the parameters of a description after training. */
struct trained_values {
    void *owner;
    l3a_status (*read)(void *owner, size_t layer, enum parameter_kind kind, float *values);
};

/* The classifier that was trained on top. */
struct trained_head {
    const float *coefficients; /* [class_count x width] */
    const float *bias;         /* [class_count]; NULL: none */
    const char *const *classes;
    size_t class_count, width;
};

/* from: the checkpoint that `reading` was read from, as backbone_read() gave it and not fused; path may be that of its file. values
 * NULL: those of the description. head NULL: none. metadata: keys and texts besides the recipe, of which `l3a info` shows all. A
 * value that is not finite is an error, which names the tensor; after an error, the path holds what it held before. */
l3a_status network_write(l3a_context *context, struct checkpoint *from, const struct reading *reading,
                         const struct trained_values *values, const struct trained_head *head, const char *const (*metadata)[2],
                         size_t metadata_count, const char *path);

#endif
