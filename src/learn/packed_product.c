/* Y = M X for M = scale · A + share · packed. Both matrices are symmetric, and only their lower triangles are stored: A in a
 * square of doubles, the packed one in single precision. X and Y have LANES columns of doubles. Each element of M is computed once
 * and used for both triangles. Four rows are processed together, so that a row of X and of Y is read from the cache once for all
 * four. */
#include "learn/packed.h"

#include "base/threads.h"

#include <math.h>
#include <string.h>

typedef double eight __attribute__((vector_size(64), aligned(8)));
typedef struct lanes {
    eight low, high;
} lanes;

_Static_assert(sizeof(lanes) == PACKED_LANES * sizeof(double), "a lane for each column");

enum { ROWS = 4, TILE = 1024 };

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

struct product {
    const double *square;
    size_t stride;
    double scale;
    const float *packed;
    double share;
    size_t dim, slices;
    double *work; /* X, and a Y for each slice of rows, [dim x LANES] each */
};

static void make_elements(const struct product *product, size_t i, size_t first, size_t count, double *elements) {
    const double *sum = product->square + i * product->stride + first;
    const float *packed = product->packed + i * (i + 1) / 2 + first;
    for (size_t j = 0; j < count; j++) {
        elements[j] = product->scale * sum[j] + product->share * (double)packed[j];
    }
}

/* Multiplies the elements [first, end) of row i, and their mirror images. */
static void multiply_row(const struct product *product, size_t i, size_t first, size_t end, const lanes *x, lanes *y) {
    double elements[TILE];
    for (; first < end; first += TILE) {
        const size_t count = end - first < TILE ? end - first : TILE;
        make_elements(product, i, first, count, elements);
        for (size_t j = 0; j < count; j++) {
            y[i].low += elements[j] * x[first + j].low;
            y[i].high += elements[j] * x[first + j].high;
            if (first + j < i) {
                y[first + j].low += elements[j] * x[i].low;
                y[first + j].high += elements[j] * x[i].high;
            }
        }
    }
}

/* Rows [first, last) of the triangle. */
FOR_EACH_PROCESSOR static void multiply_rows(const struct product *product, size_t first, size_t last, const lanes *x, lanes *y) {
    double elements[ROWS][TILE];
    size_t i = first;
    for (; i + ROWS <= last; i += ROWS) {
        lanes sum[ROWS] = {{{0}, {0}}}, own[ROWS];
        memcpy(own, x + i, sizeof own);
        for (size_t tile = 0; tile < i; tile += TILE) {
            const size_t count = i - tile < TILE ? i - tile : TILE;
            for (size_t r = 0; r < ROWS; r++) {
                make_elements(product, i + r, tile, count, elements[r]);
            }
            for (size_t j = 0; j < count; j++) {
                const eight low = x[tile + j].low, high = x[tile + j].high;
                eight to_low = y[tile + j].low, to_high = y[tile + j].high;
                for (size_t r = 0; r < ROWS; r++) {
                    const double element = elements[r][j];
                    sum[r].low += element * low;
                    sum[r].high += element * high;
                    to_low += element * own[r].low;
                    to_high += element * own[r].high;
                }
                y[tile + j].low = to_low;
                y[tile + j].high = to_high;
            }
        }
        for (size_t r = 0; r < ROWS; r++) {
            y[i + r].low += sum[r].low;
            y[i + r].high += sum[r].high;
            multiply_row(product, i + r, i, i + r + 1, x, y);
        }
    }
    for (; i < last; i++) {
        multiply_row(product, i, 0, i + 1, x, y);
    }
}

size_t packed_multiply_work(const l3a_context *context, size_t dim) {
    return (1 + (size_t)context->threads) * dim * PACKED_LANES;
}

/* Slices of about the same area. */
static size_t slice_edge(const struct product *product, size_t slice) {
    return slice == product->slices ? product->dim : (size_t)((double)product->dim * sqrt((double)slice / (double)product->slices));
}

static void multiply_slices(void *argument, size_t first, size_t last) {
    const struct product *product = argument;
    const size_t size = product->dim * PACKED_LANES;
    for (size_t s = first; s < last; s++) {
        double *y = product->work + (1 + s) * size;
        memset(y, 0, size * sizeof *y);
        multiply_rows(product, slice_edge(product, s), slice_edge(product, s + 1), (const lanes *)product->work, (lanes *)y);
    }
}

void packed_multiply(const struct analytic *analytic, double scale, const struct packed *packed, double share, const double *x,
                     size_t count, double *work, double *y) {
    const size_t dim = analytic->dim, size = dim * PACKED_LANES;
    const int threads = analytic->context->threads;
    struct product product = {analytic->square, analytic->stride, scale, packed->rows, share, dim, (size_t)threads, work};
    for (size_t first = 0; first < count; first += PACKED_LANES) {
        const size_t columns = count - first < PACKED_LANES ? count - first : PACKED_LANES;
        memset(work, 0, size * sizeof *work);
        for (size_t c = 0; c < columns; c++) {
            for (size_t i = 0; i < dim; i++) {
                work[i * PACKED_LANES + c] = x[(first + c) * dim + i];
            }
        }
        parallel_for(threads, product.slices, 1, multiply_slices, &product);
        for (size_t c = 0; c < columns; c++) {
            for (size_t i = 0; i < dim; i++) {
                double sum = 0;
                for (size_t s = 0; s < product.slices; s++) {
                    sum += work[(1 + s) * size + i * PACKED_LANES + c];
                }
                y[(first + c) * dim + i] = sum;
            }
        }
    }
}
