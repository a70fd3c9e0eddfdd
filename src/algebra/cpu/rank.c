/* Images in the order of their scores: a radix sort, least significant digit first, of key and image together. It is stable, so
 * images with the same key stay in their order. */
#include "algebra/cpu/cpu.h"

#include "base/memory.h"
#include "base/threads.h"

#include <string.h>

enum { PASSES = 3, BITS = 11, DIGITS = 1 << BITS };

struct ranking {
    const float *scores;
    size_t rows;
    uint32_t *order;
    uint64_t *work; /* 2 x rows for each slot */
    size_t slots;
    unsigned char *busy;
};

/* A key that falls as the score rises; +0 and -0 are the same score. */
static uint32_t falling_key(float score) {
    uint32_t bits;
    const float value = score == 0 ? 0.0F : score;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x80000000U ? bits : ~bits & 0x7FFFFFFFU;
}

static size_t digit(uint64_t pair, unsigned pass) {
    return (size_t)(pair >> (32 + pass * BITS)) & (DIGITS - 1);
}

/* Pairs of keys and images, and where those with each digit begin after each pass. */
static void make_pairs(const float *scores, size_t rows, uint64_t *pairs, uint32_t starts[PASSES][DIGITS]) {
    memset(starts, 0, PASSES * sizeof starts[0]);
    for (size_t i = 0; i < rows; i++) {
        pairs[i] = (uint64_t)falling_key(scores[i]) << 32 | i;
        for (unsigned pass = 0; pass < PASSES; pass++) {
            starts[pass][digit(pairs[i], pass)]++;
        }
    }
    for (unsigned pass = 0; pass < PASSES; pass++) {
        uint32_t start = 0;
        for (size_t i = 0; i < DIGITS; i++) {
            const uint32_t count = starts[pass][i];
            starts[pass][i] = start;
            start += count;
        }
    }
}

static void rank_class(const float *scores, size_t rows, uint64_t *work, uint32_t *order) {
    uint32_t starts[PASSES][DIGITS];
    uint64_t *from = work, *to = work + rows;
    make_pairs(scores, rows, from, starts);
    for (unsigned pass = 0; pass < PASSES - 1; pass++) {
        for (size_t i = 0; i < rows; i++) {
            to[starts[pass][digit(from[i], pass)]++] = from[i];
        }
        uint64_t *const sorted = to;
        to = from;
        from = sorted;
    }
    for (size_t i = 0; i < rows; i++) {
        order[starts[PASSES - 1][digit(from[i], PASSES - 1)]++] = (uint32_t)from[i];
    }
}

/* Classes, in the work space of a slot that no other thread is using. */
static void rank_classes(void *argument, size_t first, size_t last) {
    const struct ranking *r = argument;
    size_t slot = 0;
    while (__atomic_test_and_set(&r->busy[slot], __ATOMIC_ACQUIRE)) {
        slot = (slot + 1) % r->slots;
    }
    for (size_t k = first; k < last; k++) {
        rank_class(r->scores + k * r->rows, r->rows, r->work + slot * 2 * r->rows, r->order + k * r->rows);
    }
    __atomic_clear(&r->busy[slot], __ATOMIC_RELEASE);
}

l3a_status cpu_rank(l3a_context *context, const float *scores, size_t rows, size_t classes, uint32_t *order) {
    const size_t threads = (size_t)context->threads;
    struct ranking r = {.scores = scores, .rows = rows, .order = order, .slots = threads < classes ? threads : classes};
    l3a_status status = L3A_OK;
    TRY(allocate(context, r.slots, 2 * rows * sizeof *r.work, &r.work));
    TRY(allocate_zeroed(context, r.slots, 1, &r.busy));
    parallel_for((int)r.slots, classes, 1, rank_classes, &r);
done:
    release(context, r.work);
    release(context, r.busy);
    return status;
}
