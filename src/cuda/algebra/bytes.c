/* What objects take, for plans: on the device, and the little that they take of the processor's memory. With an object counts the
 * work space of what is done with it, so a plan that adds up the objects has enough for one operation at a time.
 *
 * What cuSOLVER wants for a factor or an inverse is estimated: it says so only for matrices that exist. The estimate is a quarter
 * of a square, besides the square that is there for other work. */
#include "cuda/algebra/algebra.h"

static uint64_t square_bytes(size_t dim) {
    return (uint64_t)dim * dim * sizeof(double);
}

/* B, twice if it may be split; or the centres with their mean and squares, which arrive in float32. On the processor, the slots for
 * copies, once for all objects of a context. */
uint64_t cuda_layer_bytes(enum place place, const struct layer_shape *shape) {
    const size_t copies = cuda_layer_splits(shape) ? 2 : 1;
    const uint64_t numbers = (uint64_t)shape->width * shape->dim;
    const uint64_t kernels =
        shape->kind == LAYER_KERNELS ? numbers * sizeof(float) + ((uint64_t)shape->width + shape->dim) * sizeof(double) : 0;
    switch (place) {
    case PROCESSOR: return (uint64_t)SLOTS * SLOT_BYTES;
    case DEVICE: return shape->kind == LAYER_NONE ? 0 : copies * numbers * real_size(shape->type) + kernels;
    case EITHER:
    case PLACE_COUNT: break;
    }
    return 0;
}

/* X; z twice, and once more in the layer's type, or split. */
static uint64_t rows_bytes(const struct block *rows) {
    const struct layer_shape *shape = &rows->layer->shape;
    const size_t size = real_size(shape->type);
    const bool kernels = shape->kind == LAYER_KERNELS, split = cuda_layer_splits(shape);
    const size_t copies = split ? 2 : kernels || shape->type == REAL_DOUBLE ? 1 : 0;
    const uint64_t row = layer_columns(shape) * size + 2 * shape->width * sizeof(float) + copies * shape->width * size +
                         (kernels ? sizeof(double) : 0);
    return rows->capacity * row;
}

/* Rows scaled in double precision, √ω, and targets before and after scaling; for the recursion, a few rows of these, their gain and
 * system, and copies of C and W. */
static uint64_t adding_bytes(const struct block *rows) {
    const uint64_t d = layer_columns(&rows->layer->shape), columns = rows->columns;
    const uint64_t n = rows->recursive && rows->capacity > UPDATE_ROWS ? UPDATE_ROWS : rows->capacity;
    const uint64_t scaled = n * (d + 1 + 2 * columns) * sizeof(double);
    return rows->recursive ? scaled + (n * d + 2 * n * n + 2 * d * columns) * sizeof(double) : scaled;
}

uint64_t cuda_block_bytes(enum place place, const struct block *rows) {
    switch (place) {
    case PROCESSOR: return rows->columns ? rows->capacity * sizeof(double) : 0; /* √ω */
    case DEVICE: return rows_bytes(rows) + (rows->columns && !rows->work ? adding_bytes(rows) : 0);
    case EITHER:
    case PLACE_COUNT: break;
    }
    return 0;
}

/* Two halves and C; a square of work space, for a factor in single precision or for turning a root into a triangle; and cuSOLVER's
 * own. */
uint64_t cuda_sums_bytes(enum place place, const l3a_context *context, size_t dim, size_t columns) {
    (void)context;
    const uint64_t cross = (uint64_t)dim * columns * sizeof(double);
    switch (place) {
    case PROCESSOR: return cross; /* on its way from the device */
    case DEVICE: return 3 * square_bytes(dim) + square_bytes(dim) / 4 + cross;
    case EITHER:
    case PLACE_COUNT: break;
    }
    return 0;
}

uint64_t cuda_scatter_bytes(enum place place, size_t dim, real type, uint64_t rows) {
    const uint64_t numbers = rows <= dim / 2 ? rows * dim : triangle_numbers(0, dim);
    return place == EITHER ? numbers * real_size(type) : 0;
}

/* W, and either a copy in double precision, from which it is set, or the scores of a block. */
uint64_t cuda_solution_bytes(enum place place, size_t dim, size_t columns, real type) {
    return place == DEVICE ? (uint64_t)dim * columns * (real_size(type) + sizeof(double)) : 0;
}

uint64_t cuda_vectors_bytes(enum place place, size_t dim, size_t count, real type) {
    return place == DEVICE ? (uint64_t)dim * count * real_size(type) : 0;
}

/* Beyond the square of work space that the sums have: half a square, for a root in double precision or for the shares of tiles; its
 * product with the rows, and what solving with a factor in single precision takes. */
uint64_t cuda_multiply_bytes(enum place place, const l3a_context *context, size_t dim, size_t rows) {
    (void)context;
    return place == DEVICE ? (uint64_t)dim * rows * (sizeof(double) + sizeof(float)) + square_bytes(dim) / 2 : 0;
}
