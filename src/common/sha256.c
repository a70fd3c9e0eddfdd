/* SHA-256: 64 rounds per block of 64 bytes, with a schedule of words made from the block. compress_instructions() is for processors
 * with SHA instructions, each of which does two rounds or four words of the schedule. */
#include "common/sha256.h"

#include <string.h>

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t word, unsigned bits) {
    return word >> bits | word << (32 - bits);
}

static void make_schedule(uint32_t words[64], const uint8_t *block) {
    for (size_t i = 0; i < 16; i++) {
        words[i] =
            (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    }
    for (size_t i = 16; i < 64; i++) {
        const uint32_t a = words[i - 15], b = words[i - 2];
        words[i] =
            words[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + words[i - 7] + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
}

/* Round i of eight. Each round shifts the eight words by one place, so after eight rounds each is back where it was. */
#define ROUND(i)                                                                                                                   \
    do {                                                                                                                           \
        const uint32_t a = s[(8 - i) % 8], b = s[(9 - i) % 8], c = s[(10 - i) % 8];                                                \
        const uint32_t e = s[(12 - i) % 8], f = s[(13 - i) % 8], g = s[(14 - i) % 8];                                              \
        const uint32_t first = s[(15 - i) % 8] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) +           \
                               constants[k + i] + words[k + i];                                                                    \
        s[(11 - i) % 8] += first;                                                                                                  \
        s[(15 - i) % 8] = first + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));                  \
    } while (0)

static void compress_plain(uint32_t state[8], const uint8_t *blocks, size_t count) {
    for (; count; count--, blocks += SHA256_BLOCK) {
        uint32_t words[64], s[8];
        make_schedule(words, blocks);
        memcpy(s, state, sizeof s);
        for (size_t k = 0; k < 64; k += 8) {
            ROUND(0);
            ROUND(1);
            ROUND(2);
            ROUND(3);
            ROUND(4);
            ROUND(5);
            ROUND(6);
            ROUND(7);
        }
        for (size_t i = 0; i < 8; i++) {
            state[i] += s[i];
        }
    }
}

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

/* The instructions expect the state as the words a, b, e, f and c, d, g, h. */
__attribute__((target("sha,sse4.1"))) static void compress_instructions(uint32_t state[8], const uint8_t *blocks, size_t count) {
    const __m128i big_endian = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xB1);
    const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1B);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
    for (; count; count--, blocks += SHA256_BLOCK) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i words[4];
        for (unsigned i = 0; i < 16; i++) {
            __m128i *now = &words[i % 4];
            if (i < 4) {
                *now = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)blocks + i), big_endian);
            } else {
                const __m128i last = words[(i + 3) % 4], between = _mm_alignr_epi8(last, words[(i + 2) % 4], 4);
                *now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(*now, words[(i + 1) % 4]), between), last);
            }
            const __m128i sum = _mm_add_epi32(*now, _mm_loadu_si128((const __m128i *)constants + i));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    const __m128i feba = _mm_shuffle_epi32(abef, 0x1B), dchg = _mm_shuffle_epi32(cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

/* Tests the CPUID bit directly: some compilers' __builtin_cpu_supports does not know "sha". */
static int has_instructions(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b >> 29 & 1)) {
        return 0;
    }
    return __builtin_cpu_supports("sse4.1");
}
#else
#define compress_instructions compress_plain
static int has_instructions(void) {
    return 0;
}
#endif

void sha256_begin_plain(struct sha256 *sha256) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memset(sha256, 0, sizeof *sha256);
    memcpy(sha256->state, start, sizeof start);
    sha256->compress = compress_plain;
}

void sha256_begin(struct sha256 *sha256) {
    sha256_begin_plain(sha256);
    if (has_instructions()) {
        sha256->compress = compress_instructions;
    }
}

void sha256_add(struct sha256 *sha256, const void *bytes, size_t count) {
    const uint8_t *from = bytes;
    const size_t waiting = sha256->count % SHA256_BLOCK;
    sha256->count += count;
    if (waiting) {
        const size_t room = SHA256_BLOCK - waiting, taken = count < room ? count : room;
        memcpy(sha256->pending + waiting, from, taken);
        from += taken;
        count -= taken;
        if (taken < room) {
            return;
        }
        sha256->compress(sha256->state, sha256->pending, 1);
    }
    sha256->compress(sha256->state, from, count / SHA256_BLOCK);
    if (count % SHA256_BLOCK) {
        memcpy(sha256->pending, from + count / SHA256_BLOCK * SHA256_BLOCK, count % SHA256_BLOCK);
    }
}

void sha256_end(struct sha256 *sha256, uint8_t digest[SHA256_BYTES]) {
    const uint64_t bits = 8 * sha256->count;
    const size_t waiting = sha256->count % SHA256_BLOCK;
    uint8_t padding[SHA256_BLOCK + 8] = {0x80};
    const size_t zeros = waiting < 56 ? 56 - waiting : 120 - waiting;
    for (size_t i = 0; i < 8; i++) {
        padding[zeros + i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    sha256_add(sha256, padding, zeros + 8);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        digest[i] = (uint8_t)(sha256->state[i / 4] >> (24 - i % 4 * 8));
    }
}

void sha256_of(const void *bytes, size_t count, uint8_t digest[SHA256_BYTES]) {
    struct sha256 sha256;
    sha256_begin(&sha256);
    sha256_add(&sha256, bytes, count);
    sha256_end(&sha256, digest);
}
