/* Networks of each family that are small enough to be made and run in a moment: a table of their tensors, and a reader that makes
 * numbers up. */
#ifndef L3A_SMALL_NETWORKS_H
#define L3A_SMALL_NETWORKS_H

#include "naive_network.h"

tensor_reader read_small;

/* Width 64, one head, squares of 4 x 4 pixels in pictures of 12 x 12. */
void make_small_vit_of(struct memory_tensors *tensors, int depth);
void make_small_vit(struct memory_tensors *tensors);
/* Basic blocks, one in each stage; the first one has `stem` channels, or 16. */
void make_small_resnet_of(struct memory_tensors *tensors, size_t stem);
void make_small_resnet(struct memory_tensors *tensors);
/* Two basic blocks of 10 and 20 channels, two bottlenecks of 40 and 80 that end with 160 and 320. */
void make_small_tresnet(struct memory_tensors *tensors);
/* A block of 8, 16, 32 and 64 channels in each stage. */
void make_small_convnext(struct memory_tensors *tensors);

#endif
