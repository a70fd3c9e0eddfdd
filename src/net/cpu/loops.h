/* What the loops of running and of training share.
 *
 * erf(x) = 1 − (a₁t + … + a₅t⁵) e^(−x²), t = 1 / (1 + p·x), x ≥ 0 (Abramowitz and Stegun 7.1.26); error 1.5·10⁻⁷.
 * softmax(s)ᵢ = e^(sᵢ − max s) / Σ e^(sⱼ − max s). */
#ifndef L3A_LOOPS_H
#define L3A_LOOPS_H

#include "base/vector_math.h"
#include "net/cpu/products.h"

#include <float.h>
#include <math.h>

/* Sums are kept in LANES parts. Scores of one block of queries are an array on the stack, which stays in the second-level cache. */
enum { LANES = 16, ATTENTION_SCORES = ATTENTION_TOKENS };

/* erf(x / √2) */
INLINE float normal_erf(float x) {
    const float z = fabsf(x) * 0.707106781F;
    const float t = 1.0F / (1.0F + 0.3275911F * z);
    const float tail =
        ((((1.061405429F * t - 1.453152027F) * t + 1.421413741F) * t - 0.284496736F) * t + 0.254829592F) * t * exponential(-z * z);
    return x < 0 ? tail - 1.0F : 1.0F - tail;
}

INLINE float gelu(float x) {
    return 0.5F * x * (1.0F + normal_erf(x));
}

INLINE float sum_of(size_t count, const float *values) {
    float parts[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            parts[j] += values[i + j];
        }
    }
    for (; i < count; i++) {
        sum += values[i];
    }
    for (size_t j = 0; j < LANES; j++) {
        sum += parts[j];
    }
    return sum;
}

INLINE float product_of(size_t count, const float *left, const float *right) {
    float parts[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            parts[j] += left[i + j] * right[i + j];
        }
    }
    for (; i < count; i++) {
        sum += left[i] * right[i];
    }
    for (size_t j = 0; j < LANES; j++) {
        sum += parts[j];
    }
    return sum;
}

/* At least what x is divided by. */
INLINE float length_of(size_t count, const float *values) {
    return fmaxf(sqrtf(product_of(count, values, values)), 1e-12F);
}

/* The cosine of mask ∘ x and a key, and the lengths of both. mask NULL: of x. */
struct cosine {
    float cosine, length, key_length;
};

INLINE struct cosine cosine_of(size_t count, const float *x, const float *mask, const float *key) {
    float products[LANES] = {0}, squares[LANES] = {0}, product = 0, square = 0;
    for (size_t i = 0; i < count; i += LANES) {
        const size_t lanes = count - i < LANES ? count - i : LANES;
        for (size_t j = 0; j < lanes; j++) {
            const float masked = mask ? mask[i + j] * x[i + j] : x[i + j];
            products[j] += masked * key[i + j];
            squares[j] += masked * masked;
        }
    }
    for (size_t j = 0; j < LANES; j++) {
        product += products[j];
        square += squares[j];
    }
    const float length = fmaxf(sqrtf(square), 1e-12F), key_length = length_of(count, key);
    return (struct cosine){product / (length * key_length), length, key_length};
}

/* The offset at which a block of a picture's channels begins. */
INLINE size_t block_at(const struct layout *layout, size_t picture, size_t block) {
    return (picture * (layout->padded / layout->block) + block) * layout->height * layout->width * layout->block;
}

INLINE size_t mirrored(size_t at, size_t step, size_t size) {
    /* position at + step − 1, mirrored at both ends */
    const size_t place = at + step;
    return place == 0 ? 1 : place - 1 < size ? place - 1 : 2 * size - 1 - place;
}

INLINE void softmax(size_t count, float *values) {
    float largest[LANES], most = -FLT_MAX;
    size_t i = 0;
    for (size_t j = 0; j < LANES; j++) {
        largest[j] = -FLT_MAX;
    }
    for (; i + LANES <= count; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            largest[j] = values[i + j] > largest[j] ? values[i + j] : largest[j];
        }
    }
    for (; i < count; i++) {
        most = values[i] > most ? values[i] : most;
    }
    for (size_t j = 0; j < LANES; j++) {
        most = largest[j] > most ? largest[j] : most;
    }
    for (i = 0; i < count; i++) {
        values[i] = exponential(values[i] - most);
    }
    const float share = 1.0F / sum_of(count, values);
    for (i = 0; i < count; i++) {
        values[i] *= share;
    }
}

#endif
