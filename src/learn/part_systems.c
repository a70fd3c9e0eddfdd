#include "learn/part_systems.h"

#include "base/memory.h"

#include <string.h>

/* For each class the parts that judge it, a bit for each part. */
struct patterns {
    uint64_t *bits;
    size_t words; /* of a class */
};

static l3a_status patterns_make(l3a_context *context, const struct part *parts, size_t count, size_t columns,
                                struct patterns *patterns) {
    l3a_status status = L3A_OK;
    patterns->words = count / 64 + 1;
    TRY(allocate_zeroed(context, columns, patterns->words * sizeof *patterns->bits, &patterns->bits));
    for (size_t p = 0; p < count; p++) {
        for (size_t j = 0; j < parts[p].judged_count && parts[p].judged[j] < columns; j++) {
            patterns->bits[parts[p].judged[j] * patterns->words + p / 64] |= (uint64_t)1 << p % 64;
        }
    }
done:
    return status;
}

static uint64_t hash_words(const uint64_t *words, size_t count) {
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ words[i]) * 0x9E3779B97F4A7C15;
        hash ^= hash >> 29;
    }
    return hash;
}

/* Numbers the patterns in the order of their first class. Returns how many there are. places: as many as a power of 2 above the
 * number of classes, all 0. */
static size_t number_patterns(const struct patterns *patterns, size_t columns, size_t *places, size_t mask, size_t *number) {
    const size_t words = patterns->words;
    size_t count = 0;
    for (size_t k = 0; k < columns; k++) {
        const uint64_t *own = patterns->bits + k * words;
        size_t at = (size_t)hash_words(own, words) & mask;
        while (places[at] && memcmp(patterns->bits + (places[at] - 1) * words, own, words * sizeof *own) != 0) {
            at = (at + 1) & mask;
        }
        if (!places[at]) {
            places[at] = k + 1;
            number[k] = count++;
        } else {
            number[k] = number[places[at] - 1];
        }
    }
    return count;
}

/* Sorts the classes by the number of their system, and lists what each system has. */
static l3a_status fill_systems(l3a_context *context, const struct part *parts, size_t count, const struct patterns *patterns,
                               const size_t *number, size_t columns, struct systems *systems) {
    l3a_status status = L3A_OK;
    size_t all = 0, used = 0;
    for (size_t k = 0; k < columns; k++) {
        systems->items[number[k]].last++;
    }
    for (size_t s = 0, first = 0; s < systems->count; s++) {
        struct system *system = &systems->items[s];
        first += system->last;
        system->first = system->last = first - system->last;
    }
    for (size_t k = 0; k < columns; k++) {
        systems->order[systems->items[number[k]].last++] = k;
    }
    for (size_t s = 0; s < systems->count; s++) {
        const uint64_t *bits = patterns->bits + systems->order[systems->items[s].first] * patterns->words;
        for (size_t w = 0; w < patterns->words; w++) {
            all += (size_t)__builtin_popcountll(bits[w]);
        }
    }
    TRY(allocate(context, all, sizeof *systems->scatters, &systems->scatters));
    for (size_t s = 0; s < systems->count; s++) {
        struct system *system = &systems->items[s];
        const uint64_t *bits = patterns->bits + systems->order[system->first] * patterns->words;
        system->scatters = systems->scatters + used;
        for (size_t p = 0; p < count; p++) {
            if (bits[p / 64] >> p % 64 & 1) {
                system->scatters[system->count++] = &parts[p].sums;
            }
        }
        used += system->count;
    }
done:
    return status;
}

l3a_status systems_find(l3a_context *context, const struct part *parts, size_t count, double alpha, size_t columns,
                        struct systems *systems) {
    l3a_status status = L3A_OK;
    struct patterns patterns = {0};
    size_t *places = NULL, *number = NULL, mask = 1;
    const size_t judging = alpha == 1 ? 0 : count; /* with α = 1, it does not matter what judges a class */
    while (mask <= 2 * columns) {
        mask = 2 * mask + 1;
    }
    *systems = (struct systems){0};
    TRY(allocate(context, columns, sizeof *systems->order, &systems->order));
    TRY(allocate_zeroed(context, columns, sizeof *systems->items, &systems->items));
    TRY(allocate(context, columns, sizeof *number, &number));
    TRY(allocate_zeroed(context, mask + 1, sizeof *places, &places));
    TRY(patterns_make(context, parts, judging, columns, &patterns));
    systems->count = number_patterns(&patterns, columns, places, mask, number);
    TRY(fill_systems(context, parts, judging, &patterns, number, columns, systems));
done:
    release(context, patterns.bits);
    release(context, places);
    release(context, number);
    if (status != L3A_OK) {
        systems_free(context, systems);
    }
    return status;
}

void systems_free(l3a_context *context, struct systems *systems) {
    release(context, systems->items);
    release(context, systems->order);
    release(context, systems->scatters);
    *systems = (struct systems){0};
}

l3a_status system_factor(const struct system *system, struct ridge *ridge, double alpha) {
    return ridge_factor(ridge, alpha, system->scatters, system->count, 1 - alpha);
}
