/* The diagonal of a head's Fisher information. */
#ifndef L3A_FISHER_H
#define L3A_FISHER_H

#include "method/head.h"

/* *fisher is allocated, [classes x inputs]. */
l3a_status fisher_diagonal(const struct head *head, const struct rows *rows, float **fisher);

#endif
