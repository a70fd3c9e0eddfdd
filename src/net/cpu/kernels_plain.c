/* The loops for any processor. */
#define KERNELS kernels_plain
#define KERNELS_NAME "plain"
#include "net/cpu/kernels_body.h"
