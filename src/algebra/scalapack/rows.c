/* Adding rows to the second half: rows travel, tiles stay.
 *
 * Process (p, q) needs of every row only the blocks I ≡ p (mod P), its tall piece, and J ≡ q (mod Q), its wide piece: of n rows,
 * n d (1/P + 1/Q) numbers. A step moves up to m rows of each process. First those with the same q exchange tall pieces, so that
 * each has its own piece of the rows of all of them; then those with the same p gather what they have. Wide pieces go the other way
 * round. With X_t [R m x d/P] and X_w [R m x d/Q], the tiles grow by X_tᵀ X_w, of which only those that are not above the diagonal
 * are computed. The sign of a row is in its tall piece. Rows that a process lacks are zeros.
 *
 * Each step begins with the largest number of rows that a process has left. A process that adds rows takes part until it has none
 * left, and one that is done (rows_finish) until no process has any. So processes may add different numbers of rows, in different
 * numbers of calls. */
#include "algebra/scalapack/scalapack.h"

#include <math.h>
#include <string.h>

/* Pieces of so many rows and bytes at most, at a time. They take an eighth of what the tiles take, between these limits. */
enum { STEP_ROWS = 4096, LEAST_BYTES = 4 << 20, MOST_BYTES = 128 << 20 };

struct exchange {
    void *sent, *passed; /* [pieces x m x width] */
    void *tall, *wide;   /* X_t, X_w; a row has room for the most blocks of any process */
    void *panel;         /* a column of tiles of X_tᵀ X_w, single precision only */
};

/* The widths of a tall and a wide piece. */
struct widths {
    size_t tall, wide;
};

static struct widths widths_of(const struct grid *grid, size_t dim) {
    const size_t blocks = blocks_of(grid, dim);
    return (struct widths){blocks_at(blocks, 0, grid->rows) * grid->block, blocks_at(blocks, 0, grid->columns) * grid->block};
}

/* m, for rows of a type */
static size_t step_rows(const struct grid *grid, size_t dim, real type) {
    const struct widths widths = widths_of(grid, dim);
    const size_t processes = grid->rows * grid->columns;
    const uint64_t share = (uint64_t)dim * dim / processes;
    const size_t bytes = share < LEAST_BYTES ? LEAST_BYTES : share < MOST_BYTES ? (size_t)share : MOST_BYTES;
    const size_t fitting = bytes / ((widths.tall + widths.wide) * real_size(type));
    const size_t rows = (fitting < STEP_ROWS ? fitting : STEP_ROWS) / processes;
    return rows ? rows : 1;
}

enum { EXCHANGE_ARRAYS = 5 };
struct part {
    void **pointer;
    uint64_t bytes;
};

/* What is enough for both types. */
static void list_arrays(const struct grid *grid, size_t dim, struct exchange *exchange, struct part *list) {
    const struct widths widths = widths_of(grid, dim);
    const uint64_t single = step_rows(grid, dim, REAL_SINGLE) * sizeof(float),
                   both = step_rows(grid, dim, REAL_DOUBLE) * sizeof(double), rows = single > both ? single : both;
    const uint64_t tall = rows * grid->rows * widths.tall, wide = rows * grid->columns * widths.wide;
    list[0] = (struct part){&exchange->sent, tall > wide ? tall : wide};
    list[1] = (struct part){&exchange->passed, tall > wide ? tall : wide};
    list[2] = (struct part){&exchange->tall, tall * grid->columns};
    list[3] = (struct part){&exchange->wide, wide * grid->rows};
    list[4] = (struct part){&exchange->panel, grid->block * widths.tall * sizeof(float)};
}

uint64_t rows_bytes(const struct grid *grid, size_t dim) {
    struct exchange none;
    struct part list[EXCHANGE_ARRAYS];
    uint64_t bytes = 0;
    list_arrays(grid, dim, &none, list);
    for (size_t i = 0; i < EXCHANGE_ARRAYS; i++) {
        bytes += list[i].bytes;
    }
    return bytes;
}

void rows_free(const struct sums *sums) {
    const struct grid *grid = grid_of(sums);
    struct tiles *tiles = sums->held;
    struct part list[EXCHANGE_ARRAYS];
    if (tiles->exchange) {
        list_arrays(grid, sums->dim, tiles->exchange, list);
        for (size_t i = 0; i < EXCHANGE_ARRAYS; i++) {
            grid->host->release(sums->context, *list[i].pointer);
        }
        grid->host->release(sums->context, tiles->exchange);
        tiles->exchange = NULL;
    }
}

static l3a_status allocate_exchange(const struct sums *sums) {
    const struct grid *grid = grid_of(sums);
    struct tiles *tiles = sums->held;
    struct part list[EXCHANGE_ARRAYS];
    l3a_status status = L3A_OK;
    TRY(grid->host->allocate(sums->context, 1, sizeof *tiles->exchange, &tiles->exchange));
    *tiles->exchange = (struct exchange){NULL, NULL, NULL, NULL, NULL};
    list_arrays(grid, sums->dim, tiles->exchange, list);
    for (size_t i = 0; i < EXCHANGE_ARRAYS; i++) {
        TRY(grid->host->allocate(sums->context, 1, (size_t)list[i].bytes, list[i].pointer));
    }
done:
    return status;
}

l3a_status scalapack_sums_begin(struct sums *sums, size_t columns) {
    const struct grid *grid = grid_of(sums);
    struct tiles *tiles = sums->held;
    l3a_status status = L3A_OK;
    rows_free(sums);
    grid->host->release(sums->context, tiles->cross);
    tiles->cross = NULL;
    tiles->width = columns;
    tiles_blend(sums, ADDED, 0, 0);
    status = grid->host->allocate(sums->context, sums->dim, columns * sizeof *tiles->cross, &tiles->cross);
    if (status == L3A_OK) {
        status = allocate_exchange(sums);
    }
    TRY(grid_agree(grid, sums->context, status));
    memset(tiles->cross, 0, sums->dim * columns * sizeof *tiles->cross);
done:
    if (status != L3A_OK) {
        rows_free(sums);
    }
    return status;
}

/* Rows that a process has left to add. */
struct offer {
    real type;
    const void *x; /* [… x dim] */
    const double *weight;
    double sign;
    const size_t *chosen; /* of them, `count` rows, all with a weight above 0 */
    size_t count;
};

/* Scaled pieces of rows: to [pieces x rows x width], where piece k has the blocks k, k + pieces, … */
struct packing {
    const struct offer *offer;
    size_t dim, block, pieces, rows, width;
    bool with_sign;
    void *to;
};

static void scale_numbers(real type, const void *from, size_t first, size_t count, double factor, void *to, size_t at) {
    if (type == REAL_SINGLE) {
        const float *x = (const float *)from + first;
        float *scaled = (float *)to + at;
        for (size_t j = 0; j < count; j++) {
            scaled[j] = x[j] * (float)factor;
        }
    } else {
        const double *x = (const double *)from + first;
        double *scaled = (double *)to + at;
        for (size_t j = 0; j < count; j++) {
            scaled[j] = x[j] * factor;
        }
    }
}

static void pack_row(const struct packing *packing, size_t i) {
    const struct offer *offer = packing->offer;
    const size_t row = i < offer->count ? offer->chosen[i] : 0, size = real_size(offer->type), b = packing->block;
    const double root = i < offer->count ? sqrt(offer->weight[row]) * (packing->with_sign ? offer->sign : 1) : 0;
    for (size_t k = 0; k < packing->pieces; k++) {
        const size_t start = (k * packing->rows + i) * packing->width;
        for (size_t t = 0; t < packing->width / b; t++) {
            const size_t first = (t * packing->pieces + k) * b, left = packing->dim > first ? packing->dim - first : 0;
            const size_t count = i < offer->count ? (left < b ? left : b) : 0;
            scale_numbers(offer->type, offer->x, row * packing->dim + first, count, root, packing->to, start + t * b);
            memset((char *)packing->to + (start + t * b + count) * size, 0, (b - count) * size);
        }
    }
}

static void pack_rows(void *argument, size_t first, size_t last) {
    for (size_t i = first; i < last; i++) {
        pack_row(argument, i);
    }
}

static void pack(const struct sums *sums, const struct offer *offer, size_t rows, bool tall) {
    enum { GRAIN = 8 };
    const struct grid *grid = grid_of(sums);
    const struct widths widths = widths_of(grid, sums->dim);
    struct packing packing = {.offer = offer,
                              .dim = sums->dim,
                              .block = grid->block,
                              .pieces = tall ? grid->rows : grid->columns,
                              .rows = rows,
                              .width = tall ? widths.tall : widths.wide,
                              .with_sign = tall,
                              .to = ((const struct tiles *)sums->held)->exchange->sent};
    grid->host->loop(sums->context->threads, rows, GRAIN, pack_rows, &packing);
}

/* Rows of X_t and X_w come in the same order: by q, then by p, then as their process has them. */
static void move_rows(const struct sums *sums, const struct offer *offer, size_t rows) {
    const struct grid *grid = grid_of(sums);
    const struct widths widths = widths_of(grid, sums->dim);
    const struct exchange *exchange = ((const struct tiles *)sums->held)->exchange;
    const MPI_Datatype number = offer->type == REAL_SINGLE ? MPI_FLOAT : MPI_DOUBLE;
    const int tall = (int)(rows * widths.tall), wide = (int)(rows * widths.wide), p = (int)grid->rows, q = (int)grid->columns;
    MPI_Datatype spread, from_process;
    pack(sums, offer, rows, true);
    MPI_Alltoall(exchange->sent, tall, number, exchange->passed, tall, number, grid->column);
    MPI_Allgather(exchange->passed, p * tall, number, exchange->tall, p * tall, number, grid->row);
    pack(sums, offer, rows, false);
    MPI_Alltoall(exchange->sent, wide, number, exchange->passed, wide, number, grid->row);
    MPI_Type_vector(q, wide, p * wide, number, &spread);
    MPI_Type_create_resized(spread, 0, (MPI_Aint)((size_t)wide * real_size(offer->type)), &from_process);
    MPI_Type_commit(&from_process);
    MPI_Allgather(exchange->passed, q * wide, number, exchange->wide, 1, from_process, grid->column);
    MPI_Type_free(&from_process);
    MPI_Type_free(&spread);
}

/* A column of tiles grows by the numbers of a panel. */
struct growth {
    const float *panel;
    double *to;
    size_t count, panel_stride, stride;
};

static void grow_columns(void *argument, size_t first, size_t last) {
    const struct growth *growth = argument;
    for (size_t j = first; j < last; j++) {
        const float *from = growth->panel + j * growth->panel_stride;
        double *to = growth->to + j * growth->stride;
        for (size_t i = 0; i < growth->count; i++) {
            to[i] += (double)from[i];
        }
    }
}

/* ScaLAPACK's columns are rows to our products: a column of tiles, transposed, grows by X_wᵀ X_t. */
static void multiply_rows(const struct sums *sums, real type, size_t rows) {
    enum { GRAIN = 16 };
    const struct grid *grid = grid_of(sums);
    const struct tiles *tiles = sums->held;
    const struct widths widths = widths_of(grid, sums->dim);
    const size_t b = grid->block, size = real_size(type), n = rows * grid->rows * grid->columns;
    const int threads = sums->context->threads;
    for (size_t column = 0; column < tiles->columns; column++) {
        const size_t first = first_tile(grid, column);
        if (first >= tiles->rows) {
            continue;
        }
        const size_t count = (tiles->rows - first) * b;
        const char *wide = (const char *)tiles->exchange->wide + column * b * size,
                   *tall = (const char *)tiles->exchange->tall + first * b * size;
        double *to = tile_of(grid, tiles, ADDED, first, column);
        if (type == REAL_DOUBLE) {
            grid->host->multiply(threads, type, true, false, b, count, n, 1, wide, widths.wide, tall, widths.tall, 1, to,
                                 tiles->stride);
        } else {
            struct growth growth = {tiles->exchange->panel, to, count, widths.tall, tiles->stride};
            grid->host->multiply(threads, type, true, false, b, count, n, 1, wide, widths.wide, tall, widths.tall, 0,
                                 tiles->exchange->panel, widths.tall);
            grid->host->loop(threads, b, GRAIN, grow_columns, &growth);
        }
    }
}

/* Takes the rows that it adds from the offer. Returns false if no process had any. */
static bool add_step(const struct sums *sums, struct offer *offer) {
    const struct grid *grid = grid_of(sums);
    /* a process without rows does not know their type */
    unsigned long long most[] = {offer->count, offer->count ? 1 + (unsigned long long)offer->type : 0};
    MPI_Allreduce(MPI_IN_PLACE, most, 2, MPI_UNSIGNED_LONG_LONG, MPI_MAX, grid->all);
    if (!most[0]) {
        return false;
    }
    struct offer given = *offer;
    given.type = (real)(most[1] - 1);
    const size_t limit = step_rows(grid, sums->dim, given.type), rows = most[0] < limit ? (size_t)most[0] : limit;
    given.count = offer->count < rows ? offer->count : rows;
    move_rows(sums, &given, rows);
    multiply_rows(sums, given.type, rows);
    offer->chosen += given.count;
    offer->count -= given.count;
    return true;
}

void rows_finish(const struct sums *sums) {
    struct offer none = {.count = 0};
    if (((const struct tiles *)sums->held)->exchange) {
        while (add_step(sums, &none)) {
        }
        rows_free(sums);
    }
}

/* Where the expanded rows are. *copy: to be released */
static l3a_status find_rows(const struct grid *grid, const struct block *rows, void **copy, const void **x) {
    const struct layer *layer = rows->layer;
    l3a_status status = L3A_OK;
    *copy = NULL;
    *x = layer->algebra->block_view ? layer->algebra->block_view(rows) : NULL;
    if (*x) {
        return L3A_OK;
    }
    TRY(grid->host->allocate(rows->context, rows->count, layer_columns(&layer->shape) * real_size(layer->shape.type), copy));
    TRY(layer->algebra->block_read(rows, *copy));
    *x = *copy;
done:
    return status;
}

l3a_status scalapack_sums_add(struct sums *sums, struct block *rows, double sign, const double *weight, const double *targets) {
    const struct grid *grid = grid_of(sums);
    const struct layer *layer = rows->layer;
    struct tiles *tiles = sums->held;
    l3a_status status = L3A_OK;
    struct offer offer = {.type = layer->shape.type, .weight = weight, .sign = sign};
    size_t *chosen = NULL;
    void *copy = NULL;
    if (targets) {
        TRY(layer->algebra->block_cross(rows, weight, targets, tiles->width, sign, tiles->cross));
    }
    TRY(find_rows(grid, rows, &copy, &offer.x));
    TRY(grid->host->allocate(sums->context, rows->count, sizeof *chosen, &chosen));
    for (size_t i = 0; i < rows->count; i++) {
        if (weight[i] > 0) {
            chosen[offer.count++] = i;
        }
    }
    offer.chosen = chosen;
    while (offer.count) {
        add_step(sums, &offer);
    }
done:
    grid->host->release(sums->context, chosen);
    grid->host->release(rows->context, copy);
    return status;
}

l3a_status scalapack_sums_add_cross(struct sums *sums, struct block *rows, const double *targets) {
    const struct grid *grid = grid_of(sums);
    struct tiles *tiles = sums->held;
    l3a_status status = L3A_OK;
    double *weight = NULL;
    TRY(grid->host->allocate(sums->context, rows->count, sizeof *weight, &weight));
    for (size_t i = 0; i < rows->count; i++) {
        weight[i] = 1;
    }
    TRY(rows->layer->algebra->block_cross(rows, weight, targets, tiles->width, 1, tiles->cross));
done:
    grid->host->release(sums->context, weight);
    return status;
}

l3a_status scalapack_sums_cross(struct sums *sums, double sign, double *cross) {
    const struct grid *grid = grid_of(sums);
    struct tiles *tiles = sums->held;
    const size_t numbers = sums->dim * tiles->width;
    rows_finish(sums);
    grid_sum(grid, tiles->cross, numbers);
    for (size_t i = 0; i < numbers; i++) {
        cross[i] += sign * tiles->cross[i];
    }
    grid->host->release(sums->context, tiles->cross);
    tiles->cross = NULL;
    return L3A_OK;
}
