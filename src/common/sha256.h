/* SHA-256 (FIPS 180-4), which identifies a file by its content. */
#ifndef L3A_SHA256_H
#define L3A_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BLOCK = 64, SHA256_BYTES = 32 };

struct sha256 {
    uint32_t state[8];
    uint64_t count; /* bytes so far */
    uint8_t pending[SHA256_BLOCK];
    void (*compress)(uint32_t state[8], const uint8_t *blocks, size_t count);
};

void sha256_begin(struct sha256 *sha256);
/* The same without the processor's SHA instructions, so that a test can compare the two. */
void sha256_begin_plain(struct sha256 *sha256);
void sha256_add(struct sha256 *sha256, const void *bytes, size_t count);
void sha256_end(struct sha256 *sha256, uint8_t digest[SHA256_BYTES]);
/* All at once. bytes may be NULL if count is 0. */
void sha256_of(const void *bytes, size_t count, uint8_t digest[SHA256_BYTES]);

#endif
