/* A second back end: plain loops in double precision, with its own memory. It proves that the library reaches matrices only through
 * algebra/algebra.h, and is the standard that the fast back end is compared with. */
#ifndef L3A_NAIVE_ALGEBRA_H
#define L3A_NAIVE_ALGEBRA_H

#include "algebra/algebra.h"

extern const struct algebra naive_algebra;

#endif
