/* The pixel loops for processors with AVX-512 and its byte permutations and byte products (VBMI, VNNI).
 *
 * The horizontal pass makes five output pixels at a time, in 15 of a register's 16 lanes. One permutation gathers four neighbouring
 * inputs of every lane, and one instruction multiplies them by four weights of 8 bits and adds up; each weight is split into three
 * signed digits for this, w = 2^16 c + 2^8 b + a. For each group of five a table holds where the bytes of each lane are,
 * counted from the group's first pixel, and then, for every four taps, the digits. */
#include "image/resize.h"

#if defined(__x86_64__) && !defined(L3A_PLAIN_KERNELS)

#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vbmi,avx512vnni")))
#define NARROWER avx2_kernels
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define WIDE(name) _mm512_##name

typedef __m512i vector;
typedef __m512 numbers;
enum { CHANNELS = 3, GROUP = 5, VECTOR = 64, DIGITS = 3, QUAD = 4 };

static size_t quads_of(const struct axis *axis) {
    return (axis->taps + QUAD - 1) / QUAD;
}

static size_t group_bytes(const struct axis *axis) {
    return VECTOR * (1 + DIGITS * quads_of(axis));
}

static size_t groups_of(const struct axis *axis) {
    return (axis->output + GROUP - 1) / GROUP;
}

static size_t output_of(const struct axis *axis, size_t group, size_t member) {
    const size_t output = group * GROUP + member;
    return output < axis->output ? output : axis->output - 1;
}

/* 0: a group spans more bytes than a register holds. */
static size_t table_size(const struct axis *axis) {
    for (size_t group = 0; group < groups_of(axis); group++) {
        const size_t span = axis->first[output_of(axis, group, GROUP - 1)] - axis->first[group * GROUP] + QUAD;
        if (CHANNELS * span > VECTOR) {
            return 0;
        }
    }
    return groups_of(axis) * group_bytes(axis);
}

/* The digits of up to four weights, as the bytes of three numbers. */
static void cut(const int32_t *weight, size_t count, uint32_t digits[DIGITS]) {
    memset(digits, 0, DIGITS * sizeof *digits);
    for (size_t i = 0; i < count; i++) {
        int32_t rest = weight[i];
        for (size_t d = 0; d < DIGITS; d++) {
            const int32_t digit = ((rest + 128) & 255) - 128;
            digits[d] |= (uint32_t)(uint8_t)digit << (8 * i);
            rest = (rest - digit) / 256;
        }
    }
}

static void fill_member(struct axis *axis, size_t group, size_t member) {
    const size_t output = output_of(axis, group, member), quads = quads_of(axis);
    const uint32_t from = CHANNELS * (axis->first[output] - axis->first[group * GROUP]);
    uint8_t *lane = axis->table + group * group_bytes(axis) + member * CHANNELS * QUAD;
    for (uint32_t c = 0; c < CHANNELS; c++) {
        const uint32_t places = (from + c) * 0x01010101u + 0x09060300u;
        memcpy(lane + QUAD * c, &places, sizeof places);
    }
    for (size_t quad = 0; quad < quads; quad++) {
        const size_t left = axis->taps - QUAD * quad;
        uint32_t digits[DIGITS];
        cut(axis->weight + output * axis->taps + QUAD * quad, left < QUAD ? left : QUAD, digits);
        for (size_t d = 0; d < DIGITS; d++) {
            for (size_t c = 0; c < CHANNELS; c++) {
                memcpy(lane + VECTOR * (1 + DIGITS * quad + d) + QUAD * c, &digits[d], sizeof digits[d]);
            }
        }
    }
}

static void fill_table(struct axis *axis) {
    for (size_t group = 0; group < groups_of(axis); group++) {
        for (size_t member = 0; member < GROUP; member++) {
            fill_member(axis, group, member);
        }
    }
}

/* 15 bytes of an output row, and an unused one. */
TARGET ALWAYS_INLINE __m128i group_across(const uint8_t *table, size_t quads, const uint8_t *from) {
    const __m512i places = _mm512_loadu_si512(table);
    __m512i a = _mm512_set1_epi32(1 << (WEIGHT_BITS - 1)), b = _mm512_setzero_si512(), c = b;
    for (size_t quad = 0; quad < quads; quad++) {
        const uint8_t *digits = table + VECTOR * (1 + DIGITS * quad);
        const __m512i pixels = _mm512_permutexvar_epi8(places, _mm512_loadu_si512(from + CHANNELS * QUAD * quad));
        a = _mm512_dpbusd_epi32(a, pixels, _mm512_loadu_si512(digits));
        b = _mm512_dpbusd_epi32(b, pixels, _mm512_loadu_si512(digits + VECTOR));
        c = _mm512_dpbusd_epi32(c, pixels, _mm512_loadu_si512(digits + 2 * VECTOR));
    }
    const __m512i sum = _mm512_add_epi32(a, _mm512_add_epi32(_mm512_slli_epi32(b, 8), _mm512_slli_epi32(c, 16)));
    return _mm512_cvtusepi32_epi8(_mm512_max_epi32(_mm512_srai_epi32(sum, WEIGHT_BITS), _mm512_setzero_si512()));
}

/* A store of 16 bytes spills over the next pixel, which is written later; the end of a row goes through a copy. */
TARGET ALWAYS_INLINE void row_across(const struct axis *axis, size_t quads, const uint8_t *from, uint8_t *to) {
    const size_t groups = groups_of(axis), bytes = VECTOR * (1 + DIGITS * quads);
    for (size_t group = 0; group + 1 < groups; group++) {
        const uint8_t *first = from + (size_t)CHANNELS * axis->first[group * GROUP];
        _mm_storeu_si128((__m128i *)(to + CHANNELS * GROUP * group), group_across(axis->table + group * bytes, quads, first));
    }
    const size_t last = groups - 1, done = last * GROUP;
    uint8_t copy[16];
    _mm_storeu_si128((__m128i *)copy, group_across(axis->table + last * bytes, quads, from + (size_t)CHANNELS * axis->first[done]));
    memcpy(to + CHANNELS * done, copy, CHANNELS * (axis->output - done));
}

TARGET static void across(const struct axis *axis, const uint8_t *const from[2], uint8_t *const to[2]) {
    if (!axis->table) {
        avx2_kernels.across(axis, from, to);
        return;
    }
    for (size_t i = 0; i < (to[0] == to[1] ? 1 : 2); i++) {
        switch (quads_of(axis)) {
        case 1: row_across(axis, 1, from[i], to[i]); break;
        case 2: row_across(axis, 2, from[i], to[i]); break;
        default: row_across(axis, quads_of(axis), from[i], to[i]); break;
        }
    }
}

TARGET static inline __m512i add_pairs(__m512i sums, __m512i pixels, __m512i weights) {
    return _mm512_dpwssd_epi32(sums, pixels, weights);
}

TARGET static inline __m512i channel_order(int channel) {
    const __m512i red = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
    return _mm512_add_epi32(red, _mm512_set1_epi32(channel));
}

/* Sixteen pixels are 48 bytes. */
TARGET static inline __m512i channel_at(const uint8_t *pixels, __m512i order) {
    return _mm512_maskz_permutexvar_epi8(0x1111111111111111, order, _mm512_maskz_loadu_epi8(0xFFFFFFFFFFFF, pixels));
}

#include "image/kernels_body.h"

const kernel_table avx512_kernels = {
    .across = across, .down = down, .planes = planes, .table_size = table_size, .fill_table = fill_table};

#endif
