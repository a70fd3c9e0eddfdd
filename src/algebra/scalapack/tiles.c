/* The tiles of both halves. */
#include "algebra/scalapack/scalapack.h"

#include <limits.h>
#include <string.h>

/* What a process at some place of the grid holds. */
struct extent {
    size_t rows, columns; /* tiles */
    size_t below;         /* those that are not above the diagonal */
    size_t appended;      /* columns of tiles */
};

static struct extent extent_of(const struct grid *grid, size_t dim) {
    const size_t blocks = blocks_of(grid, dim);
    struct extent extent = {.rows = blocks_at(blocks, grid->at_row, grid->rows),
                            .columns = blocks_at(blocks, grid->at_column, grid->columns)};
    for (size_t column = 0; column < extent.columns; column++) {
        const size_t first = first_tile(grid, column);
        extent.below += first < extent.rows ? extent.rows - first : 0;
    }
    const size_t above = extent.rows * extent.columns - extent.below;
    extent.appended = extent.below > above ? (extent.below - above + extent.rows - 1) / extent.rows : 0;
    return extent;
}

static uint64_t square_bytes(const struct grid *grid, const struct extent *extent) {
    return (uint64_t)extent->rows * (extent->columns + extent->appended) * grid->block * grid->block * sizeof(double);
}

uint64_t scalapack_sums_bytes(enum place place, const l3a_context *context, size_t dim, size_t columns) {
    const struct grid *grid = context->shared;
    const struct extent extent = extent_of(grid, dim);
    return place == PROCESSOR ? square_bytes(grid, &extent) + extent.rows * extent.columns * sizeof(double *) +
                                    (columns ? (uint64_t)dim * columns * sizeof(double) + rows_bytes(grid, dim) : 0)
                              : 0;
}

/* Gives each tile of the first half a place above the diagonal, or in the columns that are appended. */
static void place_kept(const struct grid *grid, struct tiles *tiles) {
    size_t row = 0, column = 0;
    for (size_t j = 0; j < tiles->columns; j++) {
        for (size_t i = 0; i < tiles->rows; i++) {
            if (i < first_tile(grid, j)) {
                tiles->kept[j * tiles->rows + i] = NULL;
                continue;
            }
            while (row == tiles->rows || (column < tiles->columns && row >= first_tile(grid, column))) {
                row = 0;
                column++;
            }
            tiles->kept[j * tiles->rows + i] = tiles->square + (column * tiles->stride + row++) * grid->block;
        }
    }
}

/* ScaLAPACK counts the numbers of a process in int. */
static l3a_status check_size(const struct grid *grid, l3a_context *context, size_t dim) {
    const size_t blocks = blocks_of(grid, dim), processes = grid->rows * grid->columns;
    const double most = (double)((blocks + grid->rows - 1) / grid->rows * ((blocks + grid->columns - 1) / grid->columns));
    l3a_status status = L3A_OK;
    if (most * (double)(grid->block * grid->block) > INT_MAX) {
        const double needed = (double)dim * (double)dim / INT_MAX;
        status = grid->host->fail(context, L3A_ERROR_OPTION, "start more processes, or use a smaller dim",
                                  "solver scalapack: dim %zu needs at least %.0f processes, but there are %zu", dim, needed + 1,
                                  processes);
    }
    return status;
}

l3a_status scalapack_sums_create(struct sums *sums) {
    const struct grid *grid = grid_of(sums);
    const struct extent extent = extent_of(grid, sums->dim);
    l3a_status status = L3A_OK;
    struct tiles *tiles = NULL;
    TRY(check_size(grid, sums->context, sums->dim));
    status = grid->host->allocate(sums->context, 1, sizeof *tiles, &tiles);
    if (status == L3A_OK) {
        *tiles = (struct tiles){.rows = extent.rows, .columns = extent.columns, .stride = extent.rows * grid->block};
        sums->held = tiles;
        status = grid->host->allocate(sums->context, extent.rows * extent.columns, sizeof *tiles->kept, &tiles->kept);
    }
    if (status == L3A_OK) {
        status = grid->host->allocate(sums->context, 1, (size_t)square_bytes(grid, &extent), &tiles->square);
    }
    TRY(grid_agree(grid, sums->context, status));
    memset(tiles->square, 0, (size_t)square_bytes(grid, &extent));
    place_kept(grid, tiles);
done:
    return status;
}

void scalapack_sums_free(struct sums *sums) {
    const struct grid *grid = grid_of(sums);
    struct tiles *tiles = sums->held;
    rows_free(sums);
    grid->host->release(sums->context, tiles->cross);
    grid->host->release(sums->context, tiles->kept);
    grid->host->release(sums->context, tiles->square);
    grid->host->release(sums->context, tiles);
}

struct blend {
    const struct grid *grid;
    const struct tiles *tiles;
    enum half half;
    double keep, add;
};

static void blend_column(const struct blend *blend, size_t column, size_t number) {
    const struct tiles *tiles = blend->tiles;
    for (size_t row = first_tile(blend->grid, column); row < tiles->rows; row++) {
        double *to = tile_of(blend->grid, tiles, blend->half, row, column) + number * tiles->stride;
        const double *from = tile_of(blend->grid, tiles, blend->half == KEPT ? ADDED : KEPT, row, column) + number * tiles->stride;
        for (size_t i = 0; i < blend->grid->block; i++) {
            to[i] = (blend->keep == 0 ? 0 : blend->keep * to[i]) + (blend->add == 0 ? 0 : blend->add * from[i]);
        }
    }
}

static void blend_columns(void *argument, size_t first, size_t last) {
    const struct blend *blend = argument;
    for (size_t i = first; i < last; i++) {
        blend_column(blend, i / blend->grid->block, i % blend->grid->block);
    }
}

void tiles_blend(const struct sums *sums, enum half to, double keep, double add) {
    enum { GRAIN = 16 };
    struct blend blend = {grid_of(sums), sums->held, to, keep, add};
    blend.grid->host->loop(sums->context->threads, blend.tiles->columns * blend.grid->block, GRAIN, blend_columns, &blend);
}

l3a_status scalapack_sums_keep(struct sums *sums, double sign) {
    rows_finish(sums);
    tiles_blend(sums, KEPT, 1, sign);
    return L3A_OK;
}

l3a_status scalapack_sums_copy(struct sums *sums, enum half to) {
    rows_finish(sums);
    tiles_blend(sums, to, 0, 1);
    return L3A_OK;
}

l3a_status scalapack_sums_trace(const struct sums *sums, double *trace) {
    const struct grid *grid = grid_of(sums);
    const struct tiles *tiles = sums->held;
    *trace = 0;
    for (size_t column = 0; column < tiles->columns; column++) {
        const size_t row = first_tile(grid, column);
        if (row < tiles->rows && row * grid->rows + grid->at_row == column * grid->columns + grid->at_column) {
            for (size_t i = 0; i < grid->block; i++) {
                *trace += tile_of(grid, tiles, KEPT, row, column)[i * tiles->stride + i];
            }
        }
    }
    grid_sum(grid, trace, 1);
    return L3A_OK;
}

/* Copies the numbers of row i that this process has, to a row or from it. */
static void copy_row(const struct sums *sums, enum half half, size_t i, double *to, const double *from) {
    const struct grid *grid = grid_of(sums);
    const struct tiles *tiles = sums->held;
    const size_t b = grid->block, row = i / b / grid->rows;
    for (size_t column = 0; column < tiles->columns; column++) {
        const size_t first = (column * grid->columns + grid->at_column) * b;
        for (size_t j = first; j < first + b && j <= i; j++) {
            double *number = tile_of(grid, tiles, half, row, column) + (j - first) * tiles->stride + i % b;
            if (to) {
                to[j] = *number;
            } else {
                *number = from[j];
            }
        }
    }
}

static bool has_row(const struct grid *grid, size_t i) {
    return i / grid->block % grid->rows == grid->at_row;
}

l3a_status scalapack_sums_read(const struct sums *sums, enum half half, size_t first, size_t count, double *values) {
    const struct grid *grid = grid_of(sums);
    const size_t numbers = (size_t)triangle_numbers(first, count);
    rows_finish(sums);
    memset(values, 0, numbers * sizeof *values);
    for (size_t i = first; i < first + count; i++) {
        if (has_row(grid, i)) {
            copy_row(sums, half, i, values + triangle_numbers(first, i - first), NULL);
        }
    }
    grid_collect(grid, values, numbers);
    return L3A_OK;
}

l3a_status scalapack_sums_write(struct sums *sums, enum half half, size_t first, size_t count, const double *values) {
    rows_finish(sums);
    for (size_t i = first; i < first + count; i++) {
        if (has_row(grid_of(sums), i)) {
            copy_row(sums, half, i, NULL, values + triangle_numbers(first, i - first));
        }
    }
    return L3A_OK;
}
