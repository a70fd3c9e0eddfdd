/* For each record, two sums over its numbers: with the direction, and with itself. The file is read in blocks that stay in the
 * processor's cache, by all threads at once, so what counts is how fast memory is. */
#include "library/near.h"

#include "base/threads.h"
#include "format/tensor.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx2,fma,f16c"))) static void products_avx2(const uint16_t *halves, const float *numbers, size_t count,
                                                                   float *product, float *squares) {
    __m256 with[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, own[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        for (size_t k = 0; k < 2; k++) {
            const __m256 values = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(halves + i + 8 * k)));
            with[k] = _mm256_fmadd_ps(values, _mm256_loadu_ps(numbers + i + 8 * k), with[k]);
            own[k] = _mm256_fmadd_ps(values, values, own[k]);
        }
    }
    float sums[2][8], total[2] = {0, 0};
    _mm256_storeu_ps(sums[0], _mm256_add_ps(with[0], with[1]));
    _mm256_storeu_ps(sums[1], _mm256_add_ps(own[0], own[1]));
    for (size_t k = 0; k < 8; k++) {
        total[0] += sums[0][k];
        total[1] += sums[1][k];
    }
    for (; i < count; i++) {
        const float value = _cvtsh_ss(halves[i]);
        total[0] += value * numbers[i];
        total[1] += value * value;
    }
    *product = total[0];
    *squares = total[1];
}
#endif

static void products_plain(const uint16_t *halves, const float *numbers, size_t count, float *product, float *squares) {
    enum { PIECE = 256 };
    float values[PIECE];
    *product = *squares = 0;
    for (size_t first = 0; first < count; first += PIECE) {
        const size_t n = count - first < PIECE ? count - first : PIECE;
        tensor_to_float(TENSOR_F16, halves + first, values, n);
        for (size_t i = 0; i < n; i++) {
            *product += values[i] * numbers[first + i];
            *squares += values[i] * values[i];
        }
    }
}

void half_products(const uint16_t *halves, const float *numbers, size_t count, float *product, float *squares) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) { /* which have float16, too; clang has no name for it */
        products_avx2(halves, numbers, count, product, squares);
        return;
    }
#endif
    products_plain(halves, numbers, count, product, squares);
}

/* ---- A direction ---- */

l3a_status direction_begin(l3a_library *library, struct direction *direction) {
    direction->examples = 0;
    return allocate_zeroed(library->context, library->slots.width, sizeof *direction->numbers, &direction->numbers);
}

static float norm_of(const float *numbers, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)numbers[i] * (double)numbers[i];
    }
    return sum > 0 ? (float)sqrt(sum) : 1;
}

void direction_add(const l3a_library *library, struct direction *direction, const float *features) {
    const size_t width = library->slots.width;
    const float norm = norm_of(features, width);
    for (size_t i = 0; i < width; i++) {
        direction->numbers[i] += features[i] / norm;
    }
    direction->examples++;
}

void direction_free(l3a_library *library, struct direction *direction) {
    release(library->context, direction->numbers);
    direction->numbers = NULL;
}

struct comparison {
    l3a_library *library;
    const float *numbers;
    float *cosines;
    size_t slots, block;
    char *records; /* [threads' blocks] */
    atomic_size_t next_buffer;
    atomic_int failure;
    size_t stride;
};

/* A part of the loop is a block; each has a buffer of its own for the time. */
static void compare_blocks(void *argument, size_t first, size_t last) {
    struct comparison *comparison = argument;
    const struct slots *slots = &comparison->library->slots;
    char *records = comparison->records + atomic_fetch_add(&comparison->next_buffer, 1) * comparison->stride;
    for (size_t block = first; block < last; block++) {
        const size_t start = block * comparison->block;
        const size_t count = comparison->slots - start < comparison->block ? comparison->slots - start : comparison->block;
        const int code = slots_get(slots, start, count, records);
        if (code) {
            atomic_store(&comparison->failure, code);
            return;
        }
        for (size_t i = 0; i < count; i++) {
            const struct slot slot = slot_at(slots, records, i);
            float best = -1;
            for (size_t row = 0; row < slots->rows; row++) {
                float product, squares;
                half_products(slot.halves + row * slots->width, comparison->numbers, slots->width, &product, &squares);
                const float cosine = squares > 0 ? product / sqrtf(squares) : 0;
                best = cosine > best ? cosine : best;
            }
            comparison->cosines[start + i] = best;
        }
    }
}

l3a_status direction_compare(l3a_library *library, struct direction *direction, size_t slots, float *cosines) {
    const size_t width = library->slots.width, block = slots_block(&library->slots);
    const int threads = library->context->threads;
    struct comparison comparison = {.library = library,
                                    .numbers = direction->numbers,
                                    .cosines = cosines,
                                    .slots = slots,
                                    .block = block,
                                    .stride = block * library->slots.stride};
    const size_t blocks = (slots + block - 1) / block, parts = (size_t)threads < blocks ? (size_t)threads : blocks ? blocks : 1;
    const size_t grain = (blocks + parts - 1) / parts;
    l3a_status status = L3A_OK;
    const float norm = norm_of(direction->numbers, width);
    for (size_t i = 0; i < width; i++) {
        direction->numbers[i] /= norm;
    }
    TRY(allocate(library->context, parts, comparison.stride, &comparison.records));
    parallel_for(threads, blocks, grain ? grain : 1, compare_blocks, &comparison);
    const int code = atomic_load(&comparison.failure);
    TRY(code ? slots_fail(&library->slots, code) : L3A_OK);
done:
    release(library->context, comparison.records);
    return status;
}
