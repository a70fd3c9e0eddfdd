#include "cuda/algebra/kernels.h"

namespace {

enum { THREADS = 256, WARP = 32, MOST_ROWS = 32768, LINE = 1 << 20, FOUR = 4 };

__device__ double get(real type, const void *values, size_t index) {
    return type == REAL_SINGLE ? (double)((const float *)values)[index] : ((const double *)values)[index];
}

__device__ void put(real type, void *values, size_t index, double number) {
    if (type == REAL_SINGLE) {
        ((float *)values)[index] = (float)number;
    } else {
        ((double *)values)[index] = number;
    }
}

/* The same as random_uniform(). */
__device__ double uniform(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (double)((z ^ (z >> 31)) >> 40) * 0x1p-24;
}

/* An entry of B. */
__device__ float entry(uint64_t seed, uint64_t index, double root) {
    return (float)((2 * uniform(seed, index) - 1) / root);
}

__device__ float positive(float value) {
    return value > 0 ? value : 0;
}

/* The nearest TF32 number: 11 significant bits. */
__device__ float narrowed(float value) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return __uint_as_float(bits);
}

/* Where element (i, j ≤ i) of a symmetric matrix is: in a packed triangle, and in a square, which has the upper triangle. */
__device__ size_t triangle_at(size_t i, size_t j) {
    return i * (i + 1) / 2 + j;
}

__device__ size_t square_at(size_t d, size_t i, size_t j) {
    return j * d + i;
}

template <class Body> __global__ void each_element(size_t rows, size_t columns, Body body) {
    for (size_t i = blockIdx.y; i < rows; i += gridDim.y) {
        for (size_t j = (size_t)blockIdx.x * blockDim.x + threadIdx.x; j < columns; j += (size_t)gridDim.x * blockDim.x) {
            body(i, j);
        }
    }
}

/* body(i, j) for every element of a matrix. */
template <class Body> cudaError_t each(cudaStream_t stream, size_t rows, size_t columns, Body body) {
    if (!rows || !columns) {
        return cudaSuccess;
    }
    const dim3 grid((unsigned)((columns + THREADS - 1) / THREADS), (unsigned)(rows < MOST_ROWS ? rows : MOST_ROWS));
    each_element<<<grid, THREADS, 0, stream>>>(rows, columns, body);
    return cudaGetLastError();
}

/* body(i) for every element of an array. */
template <class Body> cudaError_t each_number(cudaStream_t stream, size_t count, Body body) {
    return each(stream, (count + LINE - 1) / LINE, count < LINE ? count : LINE, [=] __device__(size_t i, size_t j) {
        if (i * LINE + j < count) {
            body(i * LINE + j);
        }
    });
}

/* One warp sums a row, always in the same order. */
__global__ void sum_squares(real type, size_t rows, size_t width, const void *x, double *sums) {
    for (size_t i = blockIdx.x; i < rows; i += gridDim.x) {
        double sum = 0;
        for (size_t j = threadIdx.x; j < width; j += WARP) {
            const double value = get(type, x, i * width + j);
            sum += value * value;
        }
        for (int step = WARP / 2; step; step /= 2) {
            sum += __shfl_down_sync(0xffffffff, sum, (unsigned)step);
        }
        if (threadIdx.x == 0) {
            sums[i] = sum;
        }
    }
}

/* Sums one number of each thread of a block, always in the same order; the first thread gets the sum. */
__device__ double sum_block(double number) {
    __shared__ double sums[THREADS / WARP];
    for (int step = WARP / 2; step; step /= 2) {
        number += __shfl_down_sync(0xffffffff, number, (unsigned)step);
    }
    if (threadIdx.x % WARP == 0) {
        sums[threadIdx.x / WARP] = number;
    }
    __syncthreads();
    double sum = 0;
    for (int i = 0; threadIdx.x == 0 && i < THREADS / WARP; i++) {
        sum += sums[i];
    }
    return sum;
}

/* A block sums a row. */
__global__ void dot_rows(size_t d, const __grid_constant__ listed_rows rows, real left_type, const void *left, real right_type,
                         const void *right, double *results) {
    const size_t i = blockIdx.x, one = rows.first[i] * d, other = rows.second[i] * d;
    double sum = 0;
    for (size_t j = threadIdx.x; j < d; j += THREADS) {
        sum += get(left_type, left, one + j) * get(right_type, right, other + j);
    }
    sum = sum_block(sum);
    if (threadIdx.x == 0) {
        results[i] = sum;
    }
}

__global__ void combine_rows(size_t d, const __grid_constant__ listed_rows rows, real type, void *to, real from_type,
                             const void *from) {
    const size_t i = blockIdx.y, one = rows.first[i] * d, other = rows.second[i] * d;
    const size_t j = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const double keep = rows.keep[i], scale = rows.scale[i];
    if (j < d) {
        const double kept = keep == 0 ? 0 : keep * get(type, to, one + j);
        const double added = scale == 0 ? 0 : scale * get(from_type, from, other + j);
        put(type, to, one + j, kept + added);
    }
}

/* A tile goes through shared memory, so that it is read and written along rows. */
__global__ void mirror_tiles(size_t d, double *square) {
    __shared__ double tile[WARP][WARP + 1];
    const size_t top = (size_t)blockIdx.y * WARP, left = (size_t)blockIdx.x * WARP, x = threadIdx.x;
    if (left < top) {
        return;
    }
    for (size_t y = threadIdx.y; y < WARP; y += blockDim.y) {
        if (top + y < d && left + x < d) {
            tile[y][x] = square[(top + y) * d + left + x];
        }
    }
    __syncthreads();
    for (size_t y = threadIdx.y; y < WARP; y += blockDim.y) {
        const size_t i = left + y, j = top + x; /* of the mirror image */
        if (j < i && i < d) {
            square[i * d + j] = tile[x][y];
        }
    }
}

/* Up to MOST rows of x, from column `first` on: given [MOST x MULTIPLY_TILE], filled up with zeros. */
template <int MOST>
__device__ void load_given(size_t d, size_t first, size_t rows, const double *x, double given[][MULTIPLY_TILE]) {
    const size_t column = threadIdx.x % MULTIPLY_TILE, i = first + column;
    for (size_t r = threadIdx.x / MULTIPLY_TILE; r < MOST; r += THREADS / MULTIPLY_TILE) {
        given[r][column] = r < rows && i < d ? x[r * d + i] : 0;
    }
}

/* A tile of a triangle has the elements (i, j) with i in the rows of tile `top` and j in those of tile `left`. Its products with up
 * to MOST rows of x go to work [tiles x rows x d], whose sum over the tiles is x A. Off the diagonal, it is used for its mirror
 * image as well. A thread has one column of the results, and EACH rows. */
template <class Number, int EACH>
__global__ void multiply_tiles(size_t d, const Number *triangle, size_t rows, const double *x, double *work) {
    enum { TILE = MULTIPLY_TILE, GROUPS = THREADS / TILE, MOST = GROUPS * EACH };
    __shared__ Number tile[TILE][TILE + 1];
    __shared__ __align__(16) double given[MOST][TILE];
    const size_t top = blockIdx.y, left = blockIdx.x, column = threadIdx.x % TILE, group = threadIdx.x / TILE;
    if (left > top) {
        return;
    }
    for (size_t n = group; n < TILE; n += GROUPS) {
        const size_t i = top * TILE + n, j = left * TILE + column;
        tile[n][column] = j <= i && i < d ? triangle[triangle_at(i, j)] : (Number)0;
    }
    load_given<MOST>(d, left * TILE, rows, x, given);
    __syncthreads();
    for (size_t n = group; top == left && n < column; n += GROUPS) {
        tile[n][column] = tile[column][n];
    }
    for (int mirrored = 0; mirrored <= (top != left); mirrored++) {
        if (mirrored) {
            __syncthreads();
            load_given<MOST>(d, top * TILE, rows, x, given);
        }
        __syncthreads();
        const Number *numbers = mirrored ? &tile[0][column] : tile[column];
        const size_t step = mirrored ? TILE + 1 : 1;
        double sums[EACH] = {0};
        for (size_t n = 0; n < TILE; n += 2) {
            const double one = (double)numbers[n * step], other = (double)numbers[(n + 1) * step];
            for (int e = 0; e < EACH; e++) {
                const double2 pair = *(const double2 *)&given[group * EACH + e][n];
                sums[e] += one * pair.x;
                sums[e] += other * pair.y;
            }
        }
        const size_t i = (mirrored ? left : top) * TILE + column, from = mirrored ? top : left;
        for (int e = 0; e < EACH; e++) {
            const size_t r = group * EACH + e;
            if (i < d && r < rows) {
                work[(from * rows + r) * d + i] = sums[e];
            }
        }
    }
}

template <class Number>
void launch_tiles(cudaStream_t stream, size_t d, const Number *triangle, size_t rows, const double *x, double *work) {
    const unsigned tiles = (unsigned)((d + MULTIPLY_TILE - 1) / MULTIPLY_TILE);
    const dim3 grid(tiles, tiles);
    if (rows <= 4) {
        multiply_tiles<Number, 1><<<grid, THREADS, 0, stream>>>(d, triangle, rows, x, work);
    } else if (rows <= 8) {
        multiply_tiles<Number, 2><<<grid, THREADS, 0, stream>>>(d, triangle, rows, x, work);
    } else if (rows <= 12) {
        multiply_tiles<Number, 3><<<grid, THREADS, 0, stream>>>(d, triangle, rows, x, work);
    } else {
        multiply_tiles<Number, 4><<<grid, THREADS, 0, stream>>>(d, triangle, rows, x, work);
    }
}

} // namespace

cudaError_t kernel_entries(cudaStream_t stream, real type, uint64_t seed, size_t width, size_t dim, void *values) {
    const double root = sqrt((double)width);
    return each(stream, width, dim,
                [=] __device__(size_t i, size_t j) { put(type, values, i * dim + j, (double)entry(seed, i * dim + j, root)); });
}

cudaError_t kernel_split_entries(cudaStream_t stream, uint64_t seed, size_t width, size_t dim, float *values) {
    const double root = sqrt((double)width);
    return each(stream, dim, width, [=] __device__(size_t j, size_t i) {
        const float value = entry(seed, i * dim + j, root), high = narrowed(value);
        values[2 * j * width + i] = narrowed(value - high);
        values[(2 * j + 1) * width + i] = high;
    });
}

cudaError_t kernel_split(cudaStream_t stream, size_t rows, size_t width, const float *z, float *to) {
    return each(stream, rows, width, [=] __device__(size_t i, size_t j) {
        const float value = z[i * width + j], high = narrowed(value);
        to[2 * i * width + j] = high;
        to[(2 * i + 1) * width + j] = narrowed(value - high);
    });
}

cudaError_t kernel_shift(cudaStream_t stream, real type, size_t rows, size_t width, const float *z, const double *mean, void *to) {
    return each(stream, rows, width, [=] __device__(size_t i, size_t j) {
        put(type, to, i * width + j, (double)z[i * width + j] - (mean ? mean[j] : 0));
    });
}

cudaError_t kernel_squares(cudaStream_t stream, real type, size_t rows, size_t width, const void *x, double *sums) {
    if (!rows) {
        return cudaSuccess;
    }
    sum_squares<<<(unsigned)(rows < MOST_ROWS ? rows : MOST_ROWS), WARP, 0, stream>>>(type, rows, width, x, sums);
    return cudaGetLastError();
}

cudaError_t kernel_finish(cudaStream_t stream, real type, enum layer_kind kind, size_t rows, size_t dim, size_t width,
                          size_t columns, const float *z, void *x) {
    if (kind == LAYER_RELU && type == REAL_SINGLE && columns == dim && dim % FOUR == 0) {
        return each_number(stream, rows * dim / FOUR, [=] __device__(size_t i) {
            const float4 value = ((const float4 *)x)[i];
            ((float4 *)x)[i] = make_float4(positive(value.x), positive(value.y), positive(value.z), positive(value.w));
        });
    }
    return each(stream, rows, columns, [=] __device__(size_t i, size_t j) {
        const size_t at = i * columns + j;
        if (j >= dim) {
            put(type, x, at, (double)z[i * width + j - dim]);
        } else if (kind == LAYER_RELU) {
            const double value = get(type, x, at);
            put(type, x, at, value > 0 ? value : 0);
        } else if (kind == LAYER_TANH && type == REAL_SINGLE) {
            ((float *)x)[at] = tanhf(((float *)x)[at]);
        } else if (kind == LAYER_TANH) {
            ((double *)x)[at] = tanh(((double *)x)[at]);
        }
    });
}

cudaError_t kernel_finish_kernels(cudaStream_t stream, real type, size_t rows, size_t dim, double rate, const double *own,
                                  const double *square, void *x) {
    return each(stream, rows, dim, [=] __device__(size_t i, size_t j) {
        const double distance = own[i] + square[j] + get(type, x, i * dim + j);
        const double exponent = distance > 0 ? -rate * distance : 0;
        put(type, x, i * dim + j, type == REAL_SINGLE ? (double)expf((float)exponent) : exp(exponent));
    });
}

cudaError_t kernel_take(cudaStream_t stream, size_t count, size_t width, real from_type, const void *from, const size_t *chosen,
                        const double *scale, real type, void *to) {
    if (from_type == REAL_SINGLE && type == REAL_DOUBLE && !chosen && width % FOUR == 0) {
        return each(stream, count, width / FOUR, [=] __device__(size_t i, size_t j) {
            const size_t at = i * width / FOUR + j;
            const float4 value = ((const float4 *)from)[at];
            const double factor = scale ? scale[i] : 1;
            ((double2 *)to)[2 * at] = make_double2(factor * (double)value.x, factor * (double)value.y);
            ((double2 *)to)[2 * at + 1] = make_double2(factor * (double)value.z, factor * (double)value.w);
        });
    }
    return each(stream, count, width, [=] __device__(size_t i, size_t j) {
        const double value = get(from_type, from, (chosen ? chosen[i] : i) * width + j);
        put(type, to, i * width + j, scale ? scale[i] * value : value);
    });
}

cudaError_t kernel_pack(cudaStream_t stream, size_t d, size_t first, size_t count, const double *square, double *packed) {
    return each(stream, count, first + count, [=] __device__(size_t n, size_t j) {
        const size_t i = first + n;
        if (j <= i) {
            packed[triangle_at(i, j) - triangle_at(first, 0)] = square[square_at(d, i, j)];
        }
    });
}

cudaError_t kernel_unpack(cudaStream_t stream, size_t d, size_t first, size_t count, const double *packed, double *square) {
    return each(stream, count, first + count, [=] __device__(size_t n, size_t j) {
        const size_t i = first + n;
        if (j <= i) {
            square[square_at(d, i, j)] = packed[triangle_at(i, j) - triangle_at(first, 0)];
        }
    });
}

cudaError_t kernel_add_square(cudaStream_t stream, size_t d, double keep, double *to, double scale, const double *from) {
    return each(stream, d, d, [=] __device__(size_t i, size_t j) {
        if (j >= i) {
            const size_t at = i * d + j;
            to[at] = (keep == 0 ? 0 : keep * to[at]) + (scale == 0 ? 0 : scale * from[at]);
        }
    });
}

cudaError_t kernel_add_triangle(cudaStream_t stream, size_t d, double scale, real type, const void *triangle, double *square) {
    return each(stream, d, d, [=] __device__(size_t i, size_t j) {
        if (j <= i) {
            square[square_at(d, i, j)] += scale * get(type, triangle, triangle_at(i, j));
        }
    });
}

cudaError_t kernel_make_triangle(cudaStream_t stream, size_t d, real type, const void *from, double scale, const double *square,
                                 void *to) {
    return each(stream, d, d, [=] __device__(size_t i, size_t j) {
        if (j <= i) {
            const size_t at = triangle_at(i, j);
            put(type, to, at, (from ? get(type, from, at) : 0) + scale * square[square_at(d, i, j)]);
        }
    });
}

cudaError_t kernel_add_numbers(cudaStream_t stream, size_t count, real type, void *to, real from_type, const void *from) {
    return each_number(stream, count, [=] __device__(size_t i) { put(type, to, i, get(type, to, i) + get(from_type, from, i)); });
}

cudaError_t kernel_narrow(cudaStream_t stream, size_t d, const double *square, float *to) {
    return each(stream, d, d, [=] __device__(size_t i, size_t j) {
        if (j >= i) {
            to[i * d + j] = (float)square[i * d + j];
        }
    });
}

cudaError_t kernel_shift_diagonal(cudaStream_t stream, real type, size_t d, double shift, void *square) {
    const double added = type == REAL_SINGLE ? (double)(float)shift : shift;
    return each_number(stream, d, [=] __device__(size_t i) {
        const size_t at = i * d + i;
        put(type, square, at, get(type, square, at) + added);
    });
}

cudaError_t kernel_identities(cudaStream_t stream, size_t d, size_t block, float *to) {
    return each(stream, d, block, [=] __device__(size_t i, size_t j) { to[i * block + j] = i % block == j ? 1 : 0; });
}

cudaError_t kernel_diagonal(cudaStream_t stream, real type, size_t d, double scale, const void *square, double *to) {
    return each_number(stream, d, [=] __device__(size_t i) { to[i] += scale * get(type, square, i * d + i); });
}

cudaError_t kernel_triangle_diagonal(cudaStream_t stream, real type, size_t d, double scale, const void *triangle, double *to) {
    return each_number(stream, d, [=] __device__(size_t i) { to[i] += scale * get(type, triangle, triangle_at(i, i)); });
}

cudaError_t kernel_root_diagonal(cudaStream_t stream, real type, size_t rows, size_t d, double scale, const void *root,
                                 double *to) {
    return each_number(stream, d, [=] __device__(size_t j) {
        double sum = 0;
        for (size_t i = 0; i < rows; i++) {
            const double number = get(type, root, i * d + j);
            sum += number * number;
        }
        to[j] += scale * sum;
    });
}

cudaError_t kernel_product_numbers(cudaStream_t stream, real type, size_t rows, size_t d, const void *root, uint64_t first,
                                   size_t count, void *to) {
    return each_number(stream, count, [=] __device__(size_t n) {
        const size_t at = first + n;
        size_t i = (size_t)((sqrt(8 * (double)at + 1) - 1) / 2);
        while (triangle_at(i, 0) > at) {
            i--;
        }
        while (triangle_at(i + 1, 0) <= at) {
            i++;
        }
        const size_t j = at - triangle_at(i, 0);
        double sum = 0;
        for (size_t r = 0; r < rows; r++) {
            sum += get(type, root, r * d + i) * get(type, root, r * d + j);
        }
        put(type, to, n, sum);
    });
}

cudaError_t kernel_pivot_rows(cudaStream_t stream, real type, size_t d, const void *triangle, const size_t *pivots, size_t count,
                              double *to) {
    return each(stream, count, d, [=] __device__(size_t n, size_t i) {
        const size_t p = pivots[n];
        to[n * d + i] = get(type, triangle, i > p ? triangle_at(i, p) : triangle_at(p, i));
    });
}

cudaError_t kernel_pivot_columns(cudaStream_t stream, size_t rows, size_t d, const double *x, const size_t *pivots, size_t count,
                                 double *to) {
    return each(stream, rows, count, [=] __device__(size_t i, size_t n) { to[i * count + n] = x[i * d + pivots[n]]; });
}

cudaError_t kernel_combine(cudaStream_t stream, size_t d, const struct listed_rows *rows, size_t count, real type, void *to,
                           real from_type, const void *from) {
    if (!d || !count) {
        return cudaSuccess;
    }
    const dim3 grid((unsigned)((d + THREADS - 1) / THREADS), (unsigned)count);
    combine_rows<<<grid, THREADS, 0, stream>>>(d, *rows, type, to, from_type, from);
    return cudaGetLastError();
}

cudaError_t kernel_dot(cudaStream_t stream, size_t d, const struct listed_rows *rows, size_t count, real left_type,
                       const void *left, real right_type, const void *right, double *results) {
    if (!count) {
        return cudaSuccess;
    }
    dot_rows<<<(unsigned)count, THREADS, 0, stream>>>(d, *rows, left_type, left, right_type, right, results);
    return cudaGetLastError();
}

cudaError_t kernel_mirror(cudaStream_t stream, size_t d, double *square) {
    const unsigned tiles = (unsigned)((d + WARP - 1) / WARP);
    if (!d) {
        return cudaSuccess;
    }
    mirror_tiles<<<dim3(tiles, tiles), dim3(WARP, THREADS / WARP), 0, stream>>>(d, square);
    return cudaGetLastError();
}

cudaError_t kernel_multiply_triangle(cudaStream_t stream, size_t d, double scale, real type, const void *triangle, size_t rows,
                                     const double *x, double *work, double *y) {
    const size_t tiles = (d + MULTIPLY_TILE - 1) / MULTIPLY_TILE;
    if (!d || !rows) {
        return cudaSuccess;
    }
    if (type == REAL_SINGLE) {
        launch_tiles(stream, d, (const float *)triangle, rows, x, work);
    } else {
        launch_tiles(stream, d, (const double *)triangle, rows, x, work);
    }
    const cudaError_t code = cudaGetLastError();
    return code != cudaSuccess ? code : each(stream, rows, d, [=] __device__(size_t i, size_t j) {
        double sum = 0;
        for (size_t t = 0; t < tiles; t++) {
            sum += work[(t * rows + i) * d + j];
        }
        y[i * d + j] += scale * sum;
    });
}
