/* bf16 is the upper half of a float32: its sign, its eight bits of exponent, and seven of its 23 bits of fraction. */
#ifndef L3A_BFLOAT16_H
#define L3A_BFLOAT16_H

#include "base/vector_math.h"

INLINE float bfloat16_widen(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* To the nearest, and of two equally near to the even one. A NaN stays one. */
INLINE uint16_t bfloat16_round(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    const uint32_t nearest = (bits + UINT32_C(0x7fff) + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | UINT32_C(0x40);
    return (uint16_t)((bits & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000) ? quiet : nearest);
}

#endif
