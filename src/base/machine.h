/* What the machine has. */
#ifndef L3A_MACHINE_H
#define L3A_MACHINE_H

#include <stdint.h>

/* Processors this process may run on. */
int machine_processors(void);
/* Bytes, within the limits of the control group; 0 where unknown. */
uint64_t machine_memory_total(void);
uint64_t machine_memory_available(void);
/* The most that this process has held so far. */
uint64_t machine_memory_peak(void);

#endif
