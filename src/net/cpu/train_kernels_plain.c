/* The loops of training for any processor. */
#define KERNELS train_kernels_plain
#define KERNELS_NAME "plain"
#include "net/cpu/train_kernels_body.h"
