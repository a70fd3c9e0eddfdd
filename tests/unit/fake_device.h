/* The device that tests use: the plug-in with the CUDA that needs none (fake_cuda.h) or, with L3A_TEST_DEVICE=cuda, a real one. */
#ifndef L3A_FAKE_DEVICE_H
#define L3A_FAKE_DEVICE_H

#include "fake_cuda.h"

#include <stdbool.h>

/* Whether there is one; if not, it prints why. *fake is NULL if it is real. The plug-in stays loaded. */
bool fake_device_load(struct fake_cuda **fake);
/* As it is at first. */
void fake_device_reset(struct fake_cuda *fake);

#endif
