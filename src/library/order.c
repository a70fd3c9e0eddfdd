/* A radix sort, from the lowest digit to the highest: its time does not depend on how the keys are distributed, and digits that are
 * the same in all keys cost nothing. */
#include "library/order.h"

#include <string.h>

enum { BITS = 11, DIGITS = 1 << BITS };

uint64_t key_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

uint64_t key_of_number(int64_t number) {
    return (uint64_t)number ^ (uint64_t)1 << 63;
}

static void sort_digit(const struct keyed *from, struct keyed *to, size_t count, unsigned shift) {
    size_t starts[DIGITS] = {0}, sum = 0;
    for (size_t i = 0; i < count; i++) {
        starts[from[i].key >> shift & (DIGITS - 1)]++;
    }
    for (size_t digit = DIGITS; digit-- > 0;) { /* the highest first */
        const size_t own = starts[digit];
        starts[digit] = sum;
        sum += own;
    }
    for (size_t i = 0; i < count; i++) {
        to[starts[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
    }
}

l3a_status order_by_key(l3a_context *context, struct keyed *items, size_t count) {
    struct keyed *other = NULL, *from = items, *to;
    uint64_t all = UINT64_MAX, any = 0;
    l3a_status status = L3A_OK;
    TRY(allocate(context, count, sizeof *other, &other));
    to = other;
    for (size_t i = 0; i < count; i++) {
        all &= items[i].key;
        any |= items[i].key;
    }
    for (unsigned shift = 0; shift < 64; shift += BITS) {
        if (((all ^ any) >> shift & (DIGITS - 1)) != 0) {
            sort_digit(from, to, count, shift);
            struct keyed *const swap = from;
            from = to;
            to = swap;
        }
    }
    if (from != items) {
        memcpy(items, from, count * sizeof *items);
    }
done:
    release(context, other);
    return status;
}
