#include "learn/packed.h"

#include "base/memory.h"
#include "base/threads.h"

#include <math.h>
#include <string.h>

enum { TILE = 64 };

size_t packed_size(size_t dim) {
    return dim * (dim + 1) / 2;
}

l3a_status packed_create(l3a_context *context, size_t dim, real type, struct packed *packed) {
    packed->type = type;
    return allocate(context, packed_size(dim), real_size(type), &packed->rows);
}

void packed_get(const struct packed *packed, size_t first, size_t count, double scale, double *values) {
    for (size_t i = 0; i < count; i++) {
        values[i] += scale * (packed->type == REAL_SINGLE ? (double)((const float *)packed->rows)[first + i]
                                                          : ((const double *)packed->rows)[first + i]);
    }
}

bool packed_is_finite(size_t dim, const struct packed *packed) {
    bool finite = true;
    for (size_t i = 0; i < packed_size(dim); i++) {
        finite = finite && isfinite(packed->type == REAL_SINGLE ? (double)((const float *)packed->rows)[i]
                                                                : ((const double *)packed->rows)[i]);
    }
    return finite;
}

static void packed_put(const struct packed *packed, size_t first, size_t count, const double *values) {
    for (size_t i = 0; i < count; i++) {
        if (packed->type == REAL_SINGLE) {
            ((float *)packed->rows)[first + i] = (float)values[i];
        } else {
            ((double *)packed->rows)[first + i] = values[i];
        }
    }
}

void packed_add(size_t dim, const struct packed *to, const struct packed *from) {
    const size_t size = packed_size(dim);
    for (size_t first = 0; first < size; first += TILE) {
        const size_t count = size - first < TILE ? size - first : TILE;
        double values[TILE] = {0};
        packed_get(to, first, count, 1, values);
        packed_get(from, first, count, 1, values);
        packed_put(to, first, count, values);
    }
}

/* scale · A + share · packed, and where it goes. */
struct blend {
    const struct analytic *analytic;
    double scale;
    const struct packed *packed; /* NULL: none */
    double share;
    const struct packed *to; /* NULL: the square's first triangle, or a factor in the second */
    bool factor, single;
};

static void put_tile(const struct blend *blend, size_t i, size_t first, size_t count, const double *values) {
    const size_t step = blend->analytic->stride;
    double *factor = analytic_second(blend->analytic);
    if (blend->to) {
        packed_put(blend->to, i * (i + 1) / 2 + first, count, values);
    } else if (!blend->factor) {
        memcpy(analytic_row(blend->analytic, i) + first, values, count * sizeof *values);
    } else {
        for (size_t j = 0; j < count; j++) {
            if (blend->single) {
                ((float *)factor)[(first + j) * (2 * step + 1) + i] = (float)values[j];
            } else {
                factor[(first + j) * step + i] = values[j];
            }
        }
    }
}

static void blend_rows(void *argument, size_t first, size_t last) {
    const struct blend *blend = argument;
    for (size_t tile = 0; tile < last; tile += TILE) {
        for (size_t i = first > tile ? first : tile; i < last; i++) {
            const size_t count = i + 1 - tile < TILE ? i + 1 - tile : TILE;
            const double *row = analytic_row(blend->analytic, i) + tile;
            double values[TILE] = {0};
            for (size_t j = 0; blend->scale != 0 && j < count; j++) {
                values[j] = blend->scale * row[j];
            }
            if (blend->packed) {
                packed_get(blend->packed, i * (i + 1) / 2 + tile, count, blend->share, values);
            }
            put_tile(blend, i, tile, count, values);
        }
    }
}

static void blend_triangles(struct blend blend) {
    parallel_for(blend.analytic->context->threads, blend.analytic->dim, TILE, blend_rows, &blend);
}

void analytic_pack(const struct analytic *analytic, const struct packed *packed) {
    blend_triangles((struct blend){.analytic = analytic, .scale = 1, .to = packed});
}

void analytic_unpack(const struct analytic *analytic, const struct packed *packed) {
    blend_triangles((struct blend){.analytic = analytic, .packed = packed, .share = 1});
}

l3a_status analytic_factor(const struct analytic *analytic, double scale, const struct packed *packed, double share, double gamma) {
    blend_triangles((struct blend){.analytic = analytic, .scale = scale, .packed = packed, .share = share, .factor = true});
    return analytic_factor_second(analytic, gamma);
}

void analytic_solve_rows(const struct analytic *analytic, size_t count, double *rows) {
    analytic->context->matrix->solve_rows(analytic->context->threads, REAL_DOUBLE, analytic->dim, count, analytic_second(analytic),
                                          analytic->stride, rows, analytic->dim);
}

bool analytic_factor_single(const struct analytic *analytic, double scale, double gamma) {
    const l3a_context *context = analytic->context;
    const size_t step = 2 * analytic->stride + 1;
    float *factor = (float *)analytic_second(analytic);
    bool finite = true;
    blend_triangles((struct blend){.analytic = analytic, .scale = scale, .factor = true, .single = true});
    for (size_t i = 0; i < analytic->dim; i++) {
        factor[i * step + i] += (float)gamma;
        finite = finite && isfinite(factor[i * step + i]);
    }
    return finite && context->matrix->factor(context->threads, REAL_SINGLE, analytic->dim, factor, step);
}

void analytic_solve_rows_single(const struct analytic *analytic, size_t count, float *rows) {
    analytic->context->matrix->solve_rows(analytic->context->threads, REAL_SINGLE, analytic->dim, count, analytic_second(analytic),
                                          2 * analytic->stride + 1, rows, analytic->dim);
}
