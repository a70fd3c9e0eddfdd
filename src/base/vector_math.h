/* exp and log of a float, as expressions without branches, which compilers turn into vector instructions.
 *
 *   exp(x) = 2ⁿ · e^r with n = round(x / ln 2) and a polynomial in r, |r| ≤ ln 2 / 2; relative error 2·10⁻⁷.
 *   log(x) = e · ln 2 + log(m) with x = 2ᵉ · m, √½ ≤ m < √2, and a polynomial in m − 1 (Cephes); relative error 1·10⁻⁷. */
#ifndef L3A_VECTOR_MATH_H
#define L3A_VECTOR_MATH_H

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE float exponential(float x) {
    const float bounded = x < -87.0F ? -87.0F : x > 88.0F ? 88.0F : x;
    const float shifted = bounded * 1.44269504F + 12582912.0F; /* 1.5 · 2²³: the last bits of the sum are the rounded integer */
    const float n = shifted - 12582912.0F;
    const float r = (bounded - n * 0.693359375F) + n * 2.12194440e-4F;
    float e = 1.0F / 720.0F;
    uint32_t bits;
    float power;
    e = e * r + 1.0F / 120.0F;
    e = e * r + 1.0F / 24.0F;
    e = e * r + 1.0F / 6.0F;
    e = e * r + 0.5F;
    e = e * r + 1.0F;
    e = e * r + 1.0F;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + (UINT32_C(127) << 23);
    memcpy(&power, &bits, sizeof power);
    return e * power;
}

/* x must be positive and not denormal. */
INLINE float logarithm(float x) {
    uint32_t bits;
    float m;
    memcpy(&bits, &x, sizeof bits);
    const int32_t exponent = (int32_t)(bits - UINT32_C(0x3f3504f3)) >> 23; /* the bits of √½ */
    bits -= (uint32_t)exponent << 23;
    memcpy(&m, &bits, sizeof m);
    const float f = m - 1.0F, square = f * f, n = (float)exponent;
    float p = 7.0376836292e-2F;
    p = p * f - 1.1514610310e-1F;
    p = p * f + 1.1676998740e-1F;
    p = p * f - 1.2420140846e-1F;
    p = p * f + 1.4249322787e-1F;
    p = p * f - 1.6668057665e-1F;
    p = p * f + 2.0000714765e-1F;
    p = p * f - 2.4999993993e-1F;
    p = p * f + 3.3333331174e-1F;
    return (f + (p * f * square - n * 2.12194440e-4F - 0.5F * square)) + n * 0.693359375F;
}

INLINE float sigmoid(float x) {
    return 1.0F / (1.0F + exponential(-x));
}

#endif
