/* Numbers of 16 bits, float16 and bfloat16, for what stands in for a device. They round to the nearest, to even in the middle. */
#ifndef L3A_SMALL_FLOATS_H
#define L3A_SMALL_FLOATS_H

#include <stdint.h>
#include <string.h>

static inline float number_of_bits(uint32_t bits) {
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static inline uint32_t bits_of_number(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* Moved to the places that float32 has for them, exponent and digits mean the number times 2⁻¹¹². */
static inline float number_of_half(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000U) << 16, rest = (uint32_t)(half & 0x7FFFU) << 13;
    const uint32_t finite = bits_of_number(number_of_bits(rest) * 0x1p112F);
    return number_of_bits(sign | (rest >= 0x0F800000U ? rest | 0x7F800000U : finite));
}

static inline float number_of_bfloat(uint16_t bfloat) {
    return number_of_bits((uint32_t)bfloat << 16);
}

/* Discards the last digits of a positive number's bits, rounding. */
static inline uint32_t round_bits(uint32_t bits, unsigned discarded) {
    return (bits + (1U << (discarded - 1)) - 1 + (bits >> discarded & 1)) >> discarded;
}

static inline uint16_t half_of(float number) {
    const uint32_t bits = bits_of_number(number), sign = bits >> 16 & 0x8000U, rest = bits & 0x7FFFFFFFU;
    if (rest > 0x7F800000U) {
        return 0x7FFF;
    }
    if (rest >= 0x477FF000U) { /* rounds to infinity: 65520 */
        return (uint16_t)(sign | 0x7C00U);
    }
    if (rest < 0x38800000U) { /* less than 2⁻¹⁴: a multiple of 2⁻²⁴, which adding 0.5 leaves at the end */
        return (uint16_t)(sign | (bits_of_number(number_of_bits(rest) + 0.5F) - 0x3F000000U));
    }
    return (uint16_t)(sign | (round_bits(rest, 13) - (112U << 10)));
}

static inline uint16_t bfloat_of(float number) {
    const uint32_t bits = bits_of_number(number), rest = bits & 0x7FFFFFFFU;
    return rest > 0x7F800000U ? 0x7FFF : (uint16_t)((bits >> 16 & 0x8000U) | round_bits(rest, 16));
}

#endif
