/* Sums that several processes hold together, so that none of them needs memory for all of A.
 *
 * The processes form a grid of P x Q. A is divided into tiles of b x b numbers, and process (p, q) has the tiles (I, J) with
 * I ≡ p (mod P) and J ≡ q (mod Q): the block-cyclic distribution of ScaLAPACK, which factors A where it lies. Each process stores
 * its tiles as one column-major matrix of whole tiles, with zeros beyond row and column d.
 *
 * Only tiles with I ≥ J are used. Those of the second half, and of the factor, are where ScaLAPACK expects them; those of the first
 * half take the place of the tiles above the diagonal, in any order, and of a few columns that are appended. So both halves take
 * 8 d² bytes over all processes, and a little more, as they do on the processor.
 *
 * Only the sums are distributed. Every process expands its own rows, with any back end, and has all of C and W.
 *
 * All processes call the functions of one object in the same order, but for sums_add() and sums_add_cross(): each process calls
 * these as often as it likes, and sums_cross() waits until all have called it. Nothing else that needs all processes may come in
 * between, so rows are added to one object at a time. rows.c says how. */
#ifndef L3A_SCALAPACK_H
#define L3A_SCALAPACK_H

#include "algebra/algebra.h"
#include "base/plugin.h"

#include <mpi.h>

/* What a context keeps. */
struct grid {
    const struct plugin_host *host;
    MPI_Comm all;             /* the processes, in the order of their rows in the grid */
    MPI_Comm row, column;     /* those with the same p, ranked by q; those with the same q, ranked by p */
    int blacs;                /* ScaLAPACK's handle */
    size_t rows, columns;     /* P, Q */
    size_t at_row, at_column; /* p, q */
    size_t block;             /* b */
};

struct tiles {
    size_t rows, columns; /* tiles of this process */
    size_t stride;        /* numbers in a column: rows · b */
    double *square;       /* the second half, and what has its place */
    double **kept;        /* [columns x rows] where the tiles of the first half are; NULL above the diagonal */
    double *cross;        /* C [d x width] of this process's rows; NULL if no rows are being added */
    size_t width;
    struct exchange *exchange; /* while rows are being added */
};

static inline struct grid *grid_of(const struct sums *sums) {
    return sums->context->shared;
}

/* How many of `count` blocks belong to place `at` of `places`. */
static inline size_t blocks_at(size_t count, size_t at, size_t places) {
    return at < count ? (count - at - 1) / places + 1 : 0;
}

static inline size_t blocks_of(const struct grid *grid, size_t dim) {
    return (dim + grid->block - 1) / grid->block;
}

/* The first tile of a column, counted on this process, that is not above the diagonal. */
static inline size_t first_tile(const struct grid *grid, size_t column) {
    const size_t diagonal = column * grid->columns + grid->at_column;
    return diagonal > grid->at_row ? (diagonal - grid->at_row + grid->rows - 1) / grid->rows : 0;
}

static inline double *tile_of(const struct grid *grid, const struct tiles *tiles, enum half half, size_t row, size_t column) {
    return half == KEPT ? tiles->kept[column * tiles->rows + row] : tiles->square + (column * tiles->stride + row) * grid->block;
}

/* The operations that it has: making, reading and keeping sums is in tiles.c, adding rows in rows.c, factoring and solving in
 * factor.c. scalapack.c refuses the rest. */
#define OPERATION(...)
#define SUMS_OPERATION(returns, operation, ...) returns scalapack_##operation(__VA_ARGS__);
#include "algebra/operations.h"

/* grid.c */
/* Gives a context, of which every process of the communicator has one, the back end of sums that are shared. block: b, and 0 for
 * the usual one. The communicator may be freed afterwards. */
l3a_status scalapack_open(l3a_context *context, const struct plugin_host *host, MPI_Comm communicator, size_t block);
void scalapack_close(l3a_context *context);
/* What has failed on one process fails on all. */
l3a_status grid_agree(const struct grid *grid, l3a_context *context, l3a_status status);
/* Replaces numbers by their sums over all processes, which get the same bits. */
void grid_sum(const struct grid *grid, double *values, size_t count);
/* The same where all but one process have zeros. */
void grid_collect(const struct grid *grid, double *values, size_t count);

/* tiles.c */
/* One half = keep · itself + add · the other. What has the factor 0 is not read. */
void tiles_blend(const struct sums *sums, enum half to, double keep, double add);

/* rows.c */
/* Takes part in the products of rows until no process has any left. */
void rows_finish(const struct sums *sums);
void rows_free(const struct sums *sums);
/* Bytes that adding rows takes. */
uint64_t rows_bytes(const struct grid *grid, size_t dim);

extern const struct algebra scalapack_algebra;

#endif
