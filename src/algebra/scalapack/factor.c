/* Factors in the second half, by ScaLAPACK, and what is solved with them. */
#include "algebra/scalapack/scalapack.h"

#include <math.h>
#include <string.h>

void pdpotrf_(const char *triangle, const int *n, double *a, const int *row, const int *column, const int *description, int *info);
void pdpotrs_(const char *triangle, const int *n, const int *columns, const double *a, const int *a_row, const int *a_column,
              const int *a_description, double *b, const int *b_row, const int *b_column, const int *b_description, int *info);

enum { DESCRIPTION = 9 };

/* A matrix of d rows that is distributed as A is, with blocks of its own in its columns. */
static void describe(const struct sums *sums, size_t columns, size_t column_block, int *description) {
    const struct grid *grid = grid_of(sums);
    const size_t stride = ((const struct tiles *)sums->held)->stride;
    const int values[DESCRIPTION] = {1, grid->blacs, (int)sums->dim,          (int)columns, (int)grid->block, (int)column_block,
                                     0, 0,           stride ? (int)stride : 1};
    memcpy(description, values, sizeof values);
}

/* The diagonal of the second half: adds the shift. Returns whether all of this process is finite. */
static bool shift_diagonal(const struct sums *sums, double shift) {
    const struct grid *grid = grid_of(sums);
    const struct tiles *tiles = sums->held;
    bool finite = true;
    for (size_t column = 0; column < tiles->columns; column++) {
        const size_t row = first_tile(grid, column), at = column * grid->columns + grid->at_column;
        if (row >= tiles->rows || row * grid->rows + grid->at_row != at) {
            continue;
        }
        for (size_t i = 0; i < grid->block && at * grid->block + i < sums->dim; i++) {
            double *number = tile_of(grid, tiles, ADDED, row, column) + i * tiles->stride + i;
            *number += shift;
            finite = finite && isfinite(*number);
        }
    }
    return finite;
}

l3a_status scalapack_sums_factor(struct sums *sums, real type, double scale, const struct scatter *const *scatters, size_t count,
                                 double share, double shift, double *trace, bool *definite) {
    const struct grid *grid = grid_of(sums);
    const struct tiles *tiles = sums->held;
    const int n = (int)sums->dim, one = 1;
    l3a_status status = L3A_OK;
    int description[DESCRIPTION], info = 0;
    (void)scatters;
    (void)share;
    if (count || type != REAL_DOUBLE) {
        return grid->host->fail(sums->context, L3A_ERROR_OPTION, "use solver sums",
                                "solver scalapack factors sums in double precision, without parts");
    }
    rows_finish(sums);
    TRY(scalapack_sums_trace(sums, trace));
    *trace *= scale;
    tiles_blend(sums, ADDED, 0, scale);
    int bad = !shift_diagonal(sums, shift) || !isfinite(*trace);
    MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_MAX, grid->all);
    if (!bad) {
        const int before = grid->host->use_threads(sums->context->threads);
        describe(sums, sums->dim, grid->block, description);
        pdpotrf_("L", &n, tiles->square, &one, &one, description, &info);
        grid->host->use_threads(before);
        bad = info != 0;
        MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_MAX, grid->all);
    }
    *definite = !bad;
done:
    return status;
}

/* Right sides are rows of d numbers here, which every process has, and columns to ScaLAPACK: process (p, q) has some whole columns,
 * `count` from `first` on, of the blocks of its rows. */
struct sides {
    size_t first, count;
    double *local; /* [count x stride] */
};

static void copy_sides(const struct sums *sums, const struct sides *sides, double *rows, bool back) {
    const struct grid *grid = grid_of(sums);
    const struct tiles *tiles = sums->held;
    const size_t b = grid->block;
    for (size_t i = 0; i < sides->count; i++) {
        for (size_t tile = 0; tile < tiles->rows; tile++) {
            const size_t first = (tile * grid->rows + grid->at_row) * b, left = sums->dim - first, n = left < b ? left : b;
            double *given = rows + (sides->first + i) * sums->dim + first, *local = sides->local + i * tiles->stride + tile * b;
            memcpy(back ? given : local, back ? local : given, n * sizeof *rows);
        }
    }
}

l3a_status scalapack_vectors_solve(const struct sums *sums, struct vectors *vectors, size_t first, size_t count) {
    const struct grid *grid = grid_of(sums);
    const struct tiles *tiles = sums->held;
    const size_t each = (count + grid->columns - 1) / grid->columns, start = grid->at_column * each;
    const int n = (int)sums->dim, columns = (int)count, one = 1;
    double *rows = (double *)vectors->held + first * sums->dim;
    struct sides sides = {.first = start, .count = start < count ? (count - start < each ? count - start : each) : 0};
    l3a_status status = L3A_OK;
    int description[DESCRIPTION], side[DESCRIPTION], info = 0;
    if (!count) {
        return L3A_OK;
    }
    status = grid->host->allocate(sums->context, sides.count, tiles->stride * sizeof *sides.local, &sides.local);
    TRY(grid_agree(grid, sums->context, status));
    copy_sides(sums, &sides, rows, false);
    describe(sums, sums->dim, grid->block, description);
    describe(sums, count, each, side);
    const int before = grid->host->use_threads(sums->context->threads);
    pdpotrs_("L", &n, &columns, tiles->square, &one, &one, description, sides.local, &one, &one, side, &info);
    grid->host->use_threads(before);
    memset(rows, 0, count * sums->dim * sizeof *rows);
    copy_sides(sums, &sides, rows, true);
    grid_collect(grid, rows, count * sums->dim);
done:
    grid->host->release(sums->context, sides.local);
    return status;
}
