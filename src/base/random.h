/* The project's random number generator: splitmix64, addressed by index, so that any part of a stream can be generated on any
 * thread. */
#ifndef L3A_RANDOM_H
#define L3A_RANDOM_H

#include <stdint.h>

/* The output at `index`, counted from 0, of the stream that starts at seed. */
static inline uint64_t random_bits(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Uniform in [0, 1), 24 bits. */
static inline double random_uniform(uint64_t seed, uint64_t index) {
    return (double)(random_bits(seed, index) >> 40) * 0x1p-24;
}

#endif
