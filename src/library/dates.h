/* Dates as people write them. */
#ifndef L3A_DATES_H
#define L3A_DATES_H

#include <stdbool.h>
#include <stdint.h>

/* "2024", "2024-06" or "2024-06-30": the first second of that time, and the first after it, both as if in UTC. */
bool date_parse(const char *text, int64_t *first, int64_t *after);

#endif
