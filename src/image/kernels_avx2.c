/* The loops over pixels for AVX2, and the choice between them and the plain ones. L3A_PLAIN_KERNELS leaves them out. */
#include "image/resize.h"

#if defined(__x86_64__) && !defined(L3A_PLAIN_KERNELS)

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))

enum { CHANNELS = 3 };

/* The two sums of each channel. */
struct sums {
    __m256i low, high;
};

/* Two 16-bit numbers as one of 32 bits in every lane. */
AVX2 static inline __m256i pair_at(const int16_t *numbers) {
    int32_t both;
    memcpy(&both, numbers, sizeof both);
    return _mm256_set1_epi32(both);
}

AVX2 static inline struct sums add_products(struct sums sums, __m256i pixels, const int16_t *low, const int16_t *high) {
    sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(pixels, pair_at(low)));
    sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(pixels, pair_at(high)));
    return sums;
}

AVX2 static inline __m256i to_integer(struct sums sums) {
    const __m256i half = _mm256_set1_epi32(1 << (WEIGHT_BITS - 1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(_mm256_slli_epi32(sums.high, LOW_BITS), sums.low), half);
    return _mm256_srai_epi32(sum, WEIGHT_BITS);
}

/* The same bytes of two rows, one in each half. */
AVX2 static inline __m256i load_rows(const uint8_t *const from[2], size_t at) {
    const __m128i first = _mm_loadu_si128((const __m128i *)(from[0] + at));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(first), _mm_loadu_si128((const __m128i *)(from[1] + at)), 1);
}

/* One output pixel of two rows, as integers red, green, blue, 0. Neighbours are put side by side, as 16 bits: r0 r1 g0 g1 … */
AVX2 static inline __m256i pixel_across(const struct axis *axis, size_t index, const uint8_t *const from[2]) {
    const __m256i near = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
    const __m256i far = _mm256_broadcastsi128_si256(_mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
    const int16_t *low = axis->low + index * axis->taps, *high = axis->high + index * axis->taps;
    struct sums sums = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    size_t at = (size_t)CHANNELS * axis->first[index], tap = 0;
    for (; tap + 4 <= axis->taps; tap += 4, at += 4 * CHANNELS) {
        const __m256i pixels = load_rows(from, at);
        sums = add_products(sums, _mm256_shuffle_epi8(pixels, near), low + tap, high + tap);
        sums = add_products(sums, _mm256_shuffle_epi8(pixels, far), low + tap + 2, high + tap + 2);
    }
    if (tap < axis->taps) {
        sums = add_products(sums, _mm256_shuffle_epi8(load_rows(from, at), near), low + tap, high + tap);
    }
    return to_integer(sums);
}

/* Four output pixels of two rows: 12 bytes and 4 of no meaning in each half. */
AVX2 static inline __m256i pixels_across(const struct axis *axis, const size_t index[4], const uint8_t *const from[2]) {
    const __m256i order = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const __m256i first = _mm256_packs_epi32(pixel_across(axis, index[0], from), pixel_across(axis, index[1], from));
    const __m256i second = _mm256_packs_epi32(pixel_across(axis, index[2], from), pixel_across(axis, index[3], from));
    return _mm256_shuffle_epi8(_mm256_packus_epi16(first, second), order);
}

/* A store of 16 bytes spills over the next pixels, which are written later; the end of a row goes through a copy. */
AVX2 static void across(const struct axis *axis, const uint8_t *const from[2], uint8_t *const to[2]) {
    enum { GROUP = 4 };
    size_t i = 0;
    for (; i + 2 * GROUP <= axis->output; i += GROUP) {
        const size_t index[GROUP] = {i, i + 1, i + 2, i + 3};
        const __m256i pixels = pixels_across(axis, index, from);
        _mm_storeu_si128((__m128i *)(to[0] + CHANNELS * i), _mm256_castsi256_si128(pixels));
        _mm_storeu_si128((__m128i *)(to[1] + CHANNELS * i), _mm256_extracti128_si256(pixels, 1));
    }
    for (; i < axis->output; i += GROUP) {
        const size_t last = axis->output - 1, left = axis->output - i, bytes = CHANNELS * (left < GROUP ? left : GROUP);
        const size_t index[GROUP] = {i, i + 1 < last ? i + 1 : last, i + 2 < last ? i + 2 : last, i + 3 < last ? i + 3 : last};
        uint8_t copy[32];
        _mm256_storeu_si256((__m256i *)copy, pixels_across(axis, index, from));
        memcpy(to[0] + CHANNELS * i, copy, bytes);
        memcpy(to[1] + CHANNELS * i, copy + 16, bytes);
    }
}

/* 32 bytes of two rows, neighbours side by side, as 16 bits. Unpacking works in each half by itself, and so does packing
 * back, so the order comes out right. */
AVX2 static inline void add_rows(struct sums sums[4], const uint8_t *upper, const uint8_t *lower, const int16_t *low,
                                 const int16_t *high) {
    const __m256i zero = _mm256_setzero_si256();
    const __m256i a = _mm256_loadu_si256((const __m256i *)upper), b = _mm256_loadu_si256((const __m256i *)lower);
    const __m256i left = _mm256_unpacklo_epi8(a, b), right = _mm256_unpackhi_epi8(a, b);
    sums[0] = add_products(sums[0], _mm256_unpacklo_epi8(left, zero), low, high);
    sums[1] = add_products(sums[1], _mm256_unpackhi_epi8(left, zero), low, high);
    sums[2] = add_products(sums[2], _mm256_unpacklo_epi8(right, zero), low, high);
    sums[3] = add_products(sums[3], _mm256_unpackhi_epi8(right, zero), low, high);
}

AVX2 static inline void chunk_down(const struct axis *axis, size_t index, const uint8_t *from, size_t stride, uint8_t *to) {
    const int16_t *low = axis->low + index * axis->taps, *high = axis->high + index * axis->taps;
    const __m256i zero = _mm256_setzero_si256();
    struct sums sums[4] = {{zero, zero}, {zero, zero}, {zero, zero}, {zero, zero}};
    const uint8_t *row = from + axis->first[index] * stride;
    const size_t taps = axis->taps < axis->input ? axis->taps : axis->input;
    for (size_t tap = 0; tap < taps; tap += 2, row += 2 * stride) {
        add_rows(sums, row, tap + 1 < taps ? row + stride : row, low + tap, high + tap);
    }
    const __m256i left = _mm256_packs_epi32(to_integer(sums[0]), to_integer(sums[1]));
    const __m256i right = _mm256_packs_epi32(to_integer(sums[2]), to_integer(sums[3]));
    _mm256_storeu_si256((__m256i *)to, _mm256_packus_epi16(left, right));
}

/* The last chunk of a row begins early rather than being short. */
AVX2 static void down(const struct axis *axis, size_t index, const uint8_t *from, size_t count, uint8_t *to) {
    enum { CHUNK = 32 };
    if (count < CHUNK) {
        plain_kernels.down(axis, index, from, count, to);
        return;
    }
    for (size_t x = 0; x + CHUNK <= count; x += CHUNK) {
        chunk_down(axis, index, from + x, count, to + x);
    }
    if (count % CHUNK) {
        chunk_down(axis, index, from + count - CHUNK, count, to + count - CHUNK);
    }
}

/* Eight pixels are 24 bytes: the first half of a register gets bytes 0 to 15, the second 8 to 23. */
AVX2 static void planes(const uint8_t *pixels, size_t count, const float scale[3], const float offset[3], float *const to[3]) {
    enum { GROUP = 8, NONE = -1 };
    const __m256i red = _mm256_setr_epi8(0, NONE, NONE, NONE, 3, NONE, NONE, NONE, 6, NONE, NONE, NONE, 9, NONE, NONE, NONE, 4,
                                         NONE, NONE, NONE, 7, NONE, NONE, NONE, 10, NONE, NONE, NONE, 13, NONE, NONE, NONE);
    const __m256i one = _mm256_set1_epi32(1),
                  order[CHANNELS] = {red, _mm256_add_epi32(red, one), _mm256_add_epi32(red, _mm256_add_epi32(one, one))};
    size_t i = 0;
    for (; i + GROUP <= count; i += GROUP) {
        const __m128i *at = (const __m128i *)(pixels + CHANNELS * i), *further = (const __m128i *)(pixels + CHANNELS * i + 8);
        const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(at)), _mm_loadu_si128(further), 1);
        for (size_t c = 0; c < CHANNELS; c++) {
            const __m256 value = _mm256_cvtepi32_ps(_mm256_shuffle_epi8(both, order[c]));
            _mm256_storeu_ps(to[c] + i, _mm256_add_ps(_mm256_mul_ps(value, _mm256_set1_ps(scale[c])), _mm256_set1_ps(offset[c])));
        }
    }
    float *const rest[CHANNELS] = {to[0] + i, to[1] + i, to[2] + i};
    plain_kernels.planes(pixels + CHANNELS * i, count - i, scale, offset, rest);
}

static const kernel_table avx2_kernels = {.across = across, .down = down, .planes = planes};

const kernel_table *picture_kernels(void) {
    return __builtin_cpu_supports("avx2") ? &avx2_kernels : &plain_kernels;
}

#else

const kernel_table *picture_kernels(void) {
    return &plain_kernels;
}

#endif
