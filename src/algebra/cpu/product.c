/* Y = M X for M = scale · A + share · Σ scatters. All are symmetric, and only their lower triangles are stored. X and Y have LANES
 * columns of doubles. Each element of M is computed once and used for both triangles. Four rows are processed together, so that a
 * row of X and of Y is read from the cache once for all four.
 *
 * With several mixtures, a triangle is added to A while A is read. A is multiplied once for mixtures that have no triangle and
 * follow one another. Roots come on top (mixture.c). */
#include "algebra/cpu/cpu.h"

#include "base/memory.h"
#include "base/threads.h"

#include <math.h>
#include <string.h>

typedef double eight __attribute__((vector_size(64), aligned(8)));
typedef struct lanes {
    eight low, high;
} lanes;

enum { ROWS = 4, TILE = 1024 };

_Static_assert(sizeof(lanes) == LANES * sizeof(double), "a lane for each column");

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

struct product {
    const double *square;
    size_t stride;
    double scale;
    const struct scatter *const *scatters;
    size_t count;
    size_t fused; /* the first triangle in single precision; count: there is none */
    double share;
    size_t dim, slices;
    double *work; /* X, and a Y for each slice of rows, [dim x LANES] each */
};

/* One triangle, usually the only one, is added in the same pass. Inlined, so that it is compiled for each processor. */
__attribute__((always_inline)) static inline void make_elements(const struct product *product, size_t i, size_t first, size_t count,
                                                                double *elements) {
    const double *sum = product->square + i * product->stride + first, scale = product->scale, share = product->share;
    const size_t at = i * (i + 1) / 2 + first;
    if (product->fused < product->count) {
        const float *triangle = (const float *)product->scatters[product->fused]->held + at;
        for (size_t j = 0; j < count; j++) {
            elements[j] = scale * sum[j] + share * (double)triangle[j];
        }
    } else {
        for (size_t j = 0; j < count; j++) {
            elements[j] = scale * sum[j];
        }
    }
    for (size_t t = 0; t < product->count; t++) {
        if (t != product->fused) {
            cpu_scatter_get(product->scatters[t], at, count, share, elements);
        }
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

uint64_t cpu_multiply_bytes(enum place place, const l3a_context *context, size_t dim, size_t rows) {
    const uint64_t strip = cpu_strip_rows(dim);
    return place == PROCESSOR ? (work_size(context, dim) + rows * strip + strip * dim) * sizeof(double) : 0;
}

/* Slices of about the same area. */
static size_t slice_start(const struct product *product, size_t slice) {
    return slice == product->slices ? product->dim : (size_t)((double)product->dim * sqrt((double)slice / (double)product->slices));
}

static void multiply_slices(void *argument, size_t first, size_t last) {
    const struct product *product = argument;
    const size_t size = product->dim * LANES;
    for (size_t s = first; s < last; s++) {
        double *y = product->work + (1 + s) * size;
        memset(y, 0, size * sizeof *y);
        multiply_rows(product, slice_start(product, s), slice_start(product, s + 1), (const lanes *)product->work, (lanes *)y);
    }
}

static void multiply_lanes(struct product *product, int threads, const double *x, size_t columns, double *y) {
    const size_t dim = product->dim, size = dim * LANES;
    memset(product->work, 0, size * sizeof *product->work);
    for (size_t c = 0; c < columns; c++) {
        for (size_t i = 0; i < dim; i++) {
            product->work[i * LANES + c] = x[c * dim + i];
        }
    }
    parallel_for(threads, product->slices, 1, multiply_slices, product);
    for (size_t c = 0; c < columns; c++) {
        for (size_t i = 0; i < dim; i++) {
            double sum = 0;
            for (size_t s = 0; s < product->slices; s++) {
                sum += product->work[(1 + s) * size + i * LANES + c];
            }
            y[c * dim + i] = sum;
        }
    }
}

static bool has_only_roots(const struct scatter *const *scatters, size_t count) {
    size_t i = 0;
    while (i < count && scatters[i]->is_root) {
        i++;
    }
    return i == count;
}

static size_t first_single(const struct scatter *const *scatters, size_t count) {
    size_t i = 0;
    while (i < count && (scatters[i]->is_root || scatters[i]->type != REAL_SINGLE)) {
        i++;
    }
    return i;
}

/* y [rows x dim] = x (scale · A + share · Σ triangles) */
static void multiply_mixture(struct product *product, const l3a_context *context, const struct mixture *mixture, double scale,
                             const double *x, size_t rows, double *y) {
    enum { MANY = 2 * LANES };
    const size_t dim = product->dim;
    const bool alone = has_only_roots(mixture->scatters, mixture->count);
    product->scale = scale;
    product->scatters = mixture->scatters;
    product->count = mixture->count;
    product->fused = first_single(mixture->scatters, mixture->count);
    if (alone && scale == 0) {
        memset(y, 0, rows * dim * sizeof *y);
        return;
    }
    if (alone && rows >= MANY) {
        matrix_multiply_symmetric(context->threads, rows, dim, x, dim, product->square, product->stride, y, dim);
        for (size_t i = 0; i < rows * dim; i++) {
            y[i] *= scale;
        }
        return;
    }
    for (size_t first = 0; first < rows; first += LANES) {
        const size_t columns = rows - first < LANES ? rows - first : LANES;
        multiply_lanes(product, context->threads, x + first * dim, columns, y + first * dim);
    }
}

l3a_status cpu_vectors_multiply(const struct sums *sums, double scale, double share, const struct mixture *mixtures, size_t count,
                                const struct vectors *x, struct vectors *y) {
    l3a_context *context = sums->context;
    l3a_status status = L3A_OK;
    const size_t dim = sums->dim;
    const struct mixture alone = {0};
    struct product product = {
        .square = first_row(sums, 0), .stride = stride_of(sums), .share = share, .dim = dim, .slices = (size_t)context->threads};
    TRY(allocate(context, work_size(context, dim), sizeof *product.work, &product.work));
    for (size_t m = 0, first = 0, rows, next; m < count; first += rows, m = next) {
        const bool roots = has_only_roots(mixtures[m].scatters, mixtures[m].count);
        rows = mixtures[m].rows;
        for (next = m + 1; roots && next < count && has_only_roots(mixtures[next].scatters, mixtures[next].count); next++) {
            rows += mixtures[next].rows;
        }
        multiply_mixture(&product, context, roots ? &alone : &mixtures[m], scale, (const double *)x->held + first * dim, rows,
                         (double *)y->held + first * dim);
    }
    TRY(cpu_add_roots(context, dim, share, mixtures, count, x->held, y->held));
done:
    release(context, product.work);
    return status;
}
