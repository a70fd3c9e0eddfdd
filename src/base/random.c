#include "base/random.h"

#include "l3a/l3a.h"

double l3a_uniform(uint64_t seed, uint64_t index) {
    return random_uniform(seed, index);
}
