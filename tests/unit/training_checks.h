/* What every back end that trains must do: the tests of test_training.c on the processor, and of test_cuda_training.c on a device.
 */
#ifndef L3A_TRAINING_CHECKS_H
#define L3A_TRAINING_CHECKS_H

#include "support.h"

extern const char *training_device; /* NULL: the processor */
extern const struct CMUnitTest training_checks[];
extern const size_t training_check_count;

#endif
