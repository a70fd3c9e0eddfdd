/* The pixel loops for AVX2. Defining L3A_PLAIN_KERNELS disables them. */
#include "image/resize.h"

#if defined(__x86_64__) && !defined(L3A_PLAIN_KERNELS)

#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2")))
#define NARROWER plain_kernels
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define WIDE(name) _mm256_##name

typedef __m256i vector;
typedef __m256 numbers;
enum { CHANNELS = 3, VECTOR = 32 };

/* The two sums of each channel: of the weights' low parts, and of their high parts. */
struct sums {
    __m256i low, high;
};

/* Two neighbouring weights, in every lane. */
TARGET static inline __m256i pair_at(const int16_t *weights) {
    int32_t both;
    memcpy(&both, weights, sizeof both);
    return _mm256_set1_epi32(both);
}

TARGET static inline struct sums add_products(struct sums sums, __m256i pixels, const int16_t *low, const int16_t *high) {
    sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(pixels, pair_at(low)));
    sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(pixels, pair_at(high)));
    return sums;
}

/* The same bytes of two rows, one in each half. */
TARGET static inline __m256i load_rows(const uint8_t *const from[2], size_t at) {
    const __m128i first = _mm_loadu_si128((const __m128i *)(from[0] + at));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(first), _mm_loadu_si128((const __m128i *)(from[1] + at)), 1);
}

/* One output pixel of two rows, as integers red, green, blue, 0. Neighbours are put side by side, as 16 bits: r0 r1 g0 g1 … */
TARGET ALWAYS_INLINE __m256i pixel_across(const struct axis *axis, size_t taps, size_t index, const uint8_t *const from[2]) {
    const __m256i near = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
    const __m256i far = _mm256_broadcastsi128_si256(_mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
    const int16_t *low = axis->low + index * taps, *high = axis->high + index * taps;
    struct sums sums = {_mm256_set1_epi32(1 << (WEIGHT_BITS - 1)), _mm256_setzero_si256()};
    size_t at = (size_t)CHANNELS * axis->first[index], tap = 0;
    for (; tap + 4 <= taps; tap += 4, at += 4 * CHANNELS) {
        const __m256i pixels = load_rows(from, at);
        sums = add_products(sums, _mm256_shuffle_epi8(pixels, near), low + tap, high + tap);
        sums = add_products(sums, _mm256_shuffle_epi8(pixels, far), low + tap + 2, high + tap + 2);
    }
    if (tap < taps) {
        sums = add_products(sums, _mm256_shuffle_epi8(load_rows(from, at), near), low + tap, high + tap);
    }
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(sums.high, LOW_BITS), sums.low), WEIGHT_BITS);
}

/* Four output pixels of two rows: 12 bytes and 4 unused ones in each half. */
TARGET ALWAYS_INLINE __m256i pixels_across(const struct axis *axis, size_t taps, const size_t index[4],
                                           const uint8_t *const from[2]) {
    const __m256i order = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const __m256i first = _mm256_packs_epi32(pixel_across(axis, taps, index[0], from), pixel_across(axis, taps, index[1], from));
    const __m256i second = _mm256_packs_epi32(pixel_across(axis, taps, index[2], from), pixel_across(axis, taps, index[3], from));
    return _mm256_shuffle_epi8(_mm256_packus_epi16(first, second), order);
}

/* A store of 16 bytes spills over the next pixels, which are written later; the end of a row goes through a copy. */
TARGET ALWAYS_INLINE void rows_across(const struct axis *axis, size_t taps, const uint8_t *const from[2], uint8_t *const to[2]) {
    enum { GROUP = 4 };
    size_t i = 0;
    for (; i + 2 * GROUP <= axis->output; i += GROUP) {
        const size_t index[GROUP] = {i, i + 1, i + 2, i + 3};
        const __m256i pixels = pixels_across(axis, taps, index, from);
        _mm_storeu_si128((__m128i *)(to[0] + CHANNELS * i), _mm256_castsi256_si128(pixels));
        _mm_storeu_si128((__m128i *)(to[1] + CHANNELS * i), _mm256_extracti128_si256(pixels, 1));
    }
    for (; i < axis->output; i += GROUP) {
        const size_t last = axis->output - 1, left = axis->output - i, bytes = CHANNELS * (left < GROUP ? left : GROUP);
        const size_t index[GROUP] = {i, i + 1 < last ? i + 1 : last, i + 2 < last ? i + 2 : last, i + 3 < last ? i + 3 : last};
        uint8_t copy[32];
        _mm256_storeu_si256((__m256i *)copy, pixels_across(axis, taps, index, from));
        memcpy(to[0] + CHANNELS * i, copy, bytes);
        memcpy(to[1] + CHANNELS * i, copy + 16, bytes);
    }
}

/* With the number of taps known at compile time, the inner loop is unrolled. */
TARGET static void across(const struct axis *axis, const uint8_t *const from[2], uint8_t *const to[2]) {
    switch (axis->taps) {
    case 2: rows_across(axis, 2, from, to); break;
    case 4: rows_across(axis, 4, from, to); break;
    case 6: rows_across(axis, 6, from, to); break;
    case 8: rows_across(axis, 8, from, to); break;
    default: rows_across(axis, axis->taps, from, to); break;
    }
}

TARGET static inline __m256i add_pairs(__m256i sums, __m256i pixels, __m256i weights) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pixels, weights));
}

TARGET static inline __m256i channel_order(int channel) {
    enum { NONE = -1 };
    const __m256i red = _mm256_setr_epi8(0, NONE, NONE, NONE, 3, NONE, NONE, NONE, 6, NONE, NONE, NONE, 9, NONE, NONE, NONE, 4,
                                         NONE, NONE, NONE, 7, NONE, NONE, NONE, 10, NONE, NONE, NONE, 13, NONE, NONE, NONE);
    return _mm256_add_epi32(red, _mm256_set1_epi32(channel));
}

/* Eight pixels are 24 bytes: the first half of a register gets bytes 0 to 15, the second 8 to 23. */
TARGET static inline __m256i channel_at(const uint8_t *pixels, __m256i order) {
    const uint8_t *const parts[2] = {pixels, pixels + 8};
    return _mm256_shuffle_epi8(load_rows(parts, 0), order);
}

#include "image/kernels_body.h"

const kernel_table avx2_kernels = {.across = across, .down = down, .planes = planes};

#endif
