/* Y += A X for a symmetric A in single precision, of which packed rows of the lower triangle are kept, and X, Y of LANES columns in
 * double precision. Every element of A is read once and serves both triangles; four rows are worked on together, so that a row of X
 * and of Y is read from the cache once for all of them. */
#include "learn/packed.h"

#include "base/threads.h"

#include <math.h>
#include <string.h>

typedef double eight __attribute__((vector_size(64), aligned(8)));
typedef struct lanes {
    eight low, high;
} lanes;

_Static_assert(sizeof(lanes) == PACKED_LANES * sizeof(double), "a lane for each column");

enum { ROWS = 4 };

#if defined(__x86_64__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

/* Rows [first, last) of the triangle. */
FOR_EACH_PROCESSOR static void multiply_rows(const float *triangle, size_t first, size_t last, const lanes *x, lanes *y) {
    size_t i = first;
    for (; i + ROWS <= last; i += ROWS) {
        const float *row[ROWS];
        lanes sum[ROWS] = {{{0}, {0}}}, own[ROWS];
        for (size_t r = 0; r < ROWS; r++) {
            row[r] = triangle + (i + r) * (i + r + 1) / 2;
            own[r] = x[i + r];
        }
        for (size_t j = 0; j < i; j++) {
            const eight low = x[j].low, high = x[j].high;
            eight to_low = y[j].low, to_high = y[j].high;
            for (size_t r = 0; r < ROWS; r++) {
                const double a = (double)row[r][j];
                sum[r].low += a * low;
                sum[r].high += a * high;
                to_low += a * own[r].low;
                to_high += a * own[r].high;
            }
            y[j].low = to_low;
            y[j].high = to_high;
        }
        for (size_t r = 0; r < ROWS; r++) {
            for (size_t j = i; j < i + r; j++) {
                const double a = (double)row[r][j];
                sum[r].low += a * x[j].low;
                sum[r].high += a * x[j].high;
                y[j].low += a * own[r].low;
                y[j].high += a * own[r].high;
            }
            const double a = (double)row[r][i + r];
            y[i + r].low += sum[r].low + a * own[r].low;
            y[i + r].high += sum[r].high + a * own[r].high;
        }
    }
    for (; i < last; i++) {
        const float *row = triangle + i * (i + 1) / 2;
        for (size_t j = 0; j < i; j++) {
            const double a = (double)row[j];
            y[i].low += a * x[j].low;
            y[i].high += a * x[j].high;
            y[j].low += a * x[i].low;
            y[j].high += a * x[i].high;
        }
        y[i].low += (double)row[i] * x[i].low;
        y[i].high += (double)row[i] * x[i].high;
    }
}

struct product {
    const float *triangle;
    size_t dim, slices;
    double *work; /* X, and a Y for each slice of rows, [dim x LANES] each */
};

size_t packed_multiply_work(const l3a_context *context, size_t dim) {
    return (1 + (size_t)context->threads) * dim * PACKED_LANES;
}

/* Slices of about the same area. */
static size_t slice_edge(const struct product *product, size_t slice) {
    return slice == product->slices ? product->dim
                                    : (size_t)((double)product->dim * sqrt((double)slice / (double)product->slices));
}

static void multiply_slices(void *argument, size_t first, size_t last) {
    const struct product *product = argument;
    const size_t size = product->dim * PACKED_LANES;
    for (size_t s = first; s < last; s++) {
        double *y = product->work + (1 + s) * size;
        memset(y, 0, size * sizeof *y);
        multiply_rows(product->triangle, slice_edge(product, s), slice_edge(product, s + 1), (const lanes *)product->work,
                      (lanes *)y);
    }
}

void packed_multiply(const l3a_context *context, size_t dim, const struct packed *packed, double share, const double *x,
                     size_t count, double *work, double *y) {
    struct product product = {packed->rows, dim, (size_t)context->threads, work};
    const size_t size = dim * PACKED_LANES;
    for (size_t first = 0; first < count; first += PACKED_LANES) {
        const size_t columns = count - first < PACKED_LANES ? count - first : PACKED_LANES;
        memset(work, 0, size * sizeof *work);
        for (size_t c = 0; c < columns; c++) {
            for (size_t i = 0; i < dim; i++) {
                work[i * PACKED_LANES + c] = x[(first + c) * dim + i];
            }
        }
        parallel_for(context->threads, product.slices, 1, multiply_slices, &product);
        for (size_t s = 0; s < product.slices; s++) {
            const double *from = work + (1 + s) * size;
            for (size_t c = 0; c < columns; c++) {
                for (size_t i = 0; i < dim; i++) {
                    y[(first + c) * dim + i] += share * from[i * PACKED_LANES + c];
                }
            }
        }
    }
}
