/* The processors and the memory of this machine. */
#ifndef L3A_MACHINE_H
#define L3A_MACHINE_H

#include <stdint.h>

/* Processors this process may run on. */
int machine_processors(void);
/* Bytes, within the limits of the control group; 0 if unknown. */
uint64_t machine_memory_available(void);
/* The most memory that this process has used so far, in bytes. */
uint64_t machine_memory_peak(void);

#endif
