/* Putting pictures in order: the highest key first; of equal keys, the one that stands first. */
#ifndef L3A_ORDER_H
#define L3A_ORDER_H

#include "base/memory.h"

struct keyed {
    uint64_t key;
    uint32_t at; /* position in the catalogue */
    float rank;
};

/* A number of the same order. */
uint64_t key_of_float(float value);
uint64_t key_of_number(int64_t number);
l3a_status order_by_key(l3a_context *context, struct keyed *items, size_t count);

#endif
