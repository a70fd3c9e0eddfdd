/* The tensors of the networks that have been published under a name, as their files list them: names and shapes. Values follow from
 * the name and the index. */
#ifndef L3A_PUBLISHED_NETWORKS_H
#define L3A_PUBLISHED_NETWORKS_H

#include "naive_network.h"

void make_published_vit(struct memory_tensors *tensors, size_t width, size_t depth, size_t patch, size_t side);
/* blocks: of the four stages */
void make_published_resnet(struct memory_tensors *tensors, const size_t blocks[4], bool bottleneck);
/* numbered: with the names of the first release */
void make_published_tresnet(struct memory_tensors *tensors, size_t width, const size_t blocks[4], bool numbered);
/* A tensor_reader. */
l3a_status read_published(void *owner, const struct checkpoint_tensor *tensor, float *values);

#endif
