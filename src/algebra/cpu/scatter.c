/* Scatter matrices: the rows of a root, or those of a lower triangle, one after another. */
#include "algebra/cpu/cpu.h"

#include "base/memory.h"
#include "base/threads.h"

#include <math.h>
#include <string.h>

enum { TILE = 64, GRAIN = 16, CHUNK = 256 };

uint64_t cpu_scatter_bytes(enum place place, size_t dim, real type, uint64_t rows) {
    uint64_t numbers, bytes;
    return place != PROCESSOR ? 0
           : dim <= UINT32_MAX && multiply_sizes(rows <= dim / 2 ? rows : (dim + 1), dim, &numbers) &&
                   multiply_sizes(rows <= dim / 2 ? numbers : numbers / 2, real_size(type), &bytes)
               ? bytes
               : UINT64_MAX;
}

void cpu_scatter_free(struct scatter *scatter) {
    release(scatter->context, scatter->held);
}

/* ---- Roots ---- */

static size_t row_bytes(const struct scatter *scatter) {
    return scatter->dim * real_size(scatter->type);
}

/* Makes room for `count` more rows, or sets *fits to false. */
static l3a_status make_room(struct scatter *scatter, size_t count, bool *fits) {
    l3a_status status = L3A_OK;
    const size_t most = scatter->dim / 2;
    *fits = scatter->is_root && count <= most - scatter->rows;
    if (*fits && scatter->rows + count > scatter->capacity) {
        const size_t larger = scatter->capacity + scatter->capacity / 2, needed = scatter->rows + count;
        const size_t capacity = larger < needed ? needed : larger < most ? larger : most;
        void *made;
        TRY(allocate(scatter->context, capacity, row_bytes(scatter), &made));
        if (scatter->rows) {
            memcpy(made, scatter->held, scatter->rows * row_bytes(scatter));
        }
        release(scatter->context, scatter->held);
        scatter->held = made;
        scatter->capacity = capacity;
    }
done:
    return status;
}

l3a_status cpu_scatter_make_root(struct scatter *scatter, size_t rows) {
    l3a_status status = L3A_OK;
    void *made = NULL;
    if (rows) {
        TRY(allocate_zeroed(scatter->context, rows, row_bytes(scatter), &made));
    }
    release(scatter->context, scatter->held);
    scatter->is_root = scatter->tidy = true;
    scatter->rows = scatter->capacity = rows;
    scatter->held = made;
done:
    return status;
}

l3a_status cpu_scatter_read_root(const struct scatter *scatter, size_t first, size_t count, void *values) {
    if (count) {
        memcpy(values, (const char *)scatter->held + first * row_bytes(scatter), count * row_bytes(scatter));
    }
    return L3A_OK;
}

l3a_status cpu_scatter_write_root(struct scatter *scatter, size_t first, size_t count, const void *values) {
    if (count) {
        memcpy((char *)scatter->held + first * row_bytes(scatter), values, count * row_bytes(scatter));
    }
    return L3A_OK;
}

/* Numbers (i, j) to (i, j + count - 1) of RᵀR, at most TILE. */
static void multiply_root(const struct scatter *root, size_t i, size_t j, size_t count, double *values) {
    memset(values, 0, count * sizeof *values);
    for (size_t n = 0; n < root->rows; n++) {
        const double number = real_get(root->type, root->held, n * root->dim + i);
        for (size_t c = 0; c < count; c++) {
            values[c] += number * real_get(root->type, root->held, n * root->dim + j + c);
        }
    }
}

static void read_product(const struct scatter *root, uint64_t first, size_t count, void *values) {
    size_t i = (size_t)((sqrt(8 * (double)first + 1) - 1) / 2), done = 0;
    while (triangle_numbers(0, i) > first) {
        i--;
    }
    while (triangle_numbers(0, i + 1) <= first) {
        i++;
    }
    size_t j = (size_t)(first - triangle_numbers(0, i));
    while (done < count) {
        const size_t most = i + 1 - j < TILE ? i + 1 - j : TILE, size = count - done < most ? count - done : most;
        double numbers[TILE];
        multiply_root(root, i, j, size, numbers);
        for (size_t c = 0; c < size; c++) {
            real_put(root->type, values, done + c, numbers[c]);
        }
        done += size;
        j = j + size <= i ? j + size : 0;
        i += j == 0;
    }
}

/* ---- Triangles ---- */

void cpu_scatter_get(const struct scatter *scatter, size_t first, size_t count, double scale, double *values) {
    for (size_t i = 0; !scatter->is_root && i < count; i++) {
        values[i] += scale * real_get(scatter->type, scatter->held, first + i);
    }
}

static void put(const struct scatter *scatter, size_t first, size_t count, const double *values) {
    for (size_t i = 0; i < count; i++) {
        real_put(scatter->type, scatter->held, first + i, values[i]);
    }
}

struct product_sum {
    const struct scatter *scatter;
    double scale;
    real type;
};

static void add_to_triangle(const void *to, size_t i, size_t first, size_t count, const void *numbers) {
    const struct product_sum *sum = to;
    const struct scatter *scatter = sum->scatter;
    const size_t at = i * (i + 1) / 2 + first;
    for (size_t j = 0; j < count; j++) {
        const double before = real_get(scatter->type, scatter->held, at + j);
        real_put(scatter->type, scatter->held, at + j, before + sum->scale * real_get(sum->type, numbers, j));
    }
}

/* Adds RᵀR to a triangle. */
static l3a_status add_root(const struct scatter *triangle, const struct scatter *root) {
    l3a_status status = L3A_OK;
    const struct product_sum sum = {triangle, 1, root->type};
    struct rank_product product = {
        .type = root->type, .dim = root->dim, .rows = root->rows, .x = root->held, .add = add_to_triangle, .to = &sum};
    TRY(cpu_panel_create(triangle->context, &product));
    cpu_add_product(&product);
done:
    release(triangle->context, product.panel);
    return status;
}

/* The triangle that a scatter is to become; a copy if it is a root. */
static l3a_status begin_triangle(const struct scatter *scatter, struct scatter *made) {
    l3a_status status = L3A_OK;
    *made = *scatter;
    if (scatter->is_root) {
        made->is_root = made->tidy = false;
        made->rows = made->capacity = 0;
        TRY(allocate_zeroed(scatter->context, triangle_numbers(0, scatter->dim), real_size(scatter->type), &made->held));
        if (scatter->rows) {
            TRY(add_root(made, scatter));
        }
    }
done:
    if (status != L3A_OK) {
        release(scatter->context, made->held);
        *made = *scatter;
    }
    return status;
}

/* Puts the triangle in the place of the root, unless something has failed. */
static l3a_status end_triangle(struct scatter *scatter, const struct scatter *made, l3a_status status) {
    if (made->held != scatter->held) {
        release(scatter->context, status == L3A_OK ? scatter->held : made->held);
    }
    if (status == L3A_OK) {
        *scatter = *made;
    }
    return status;
}

l3a_status cpu_scatter_expand(struct scatter *scatter) {
    struct scatter made;
    const l3a_status status = begin_triangle(scatter, &made);
    return end_triangle(scatter, &made, status);
}

l3a_status cpu_scatter_read(const struct scatter *scatter, uint64_t first, size_t count, void *values) {
    const size_t size = real_size(scatter->type);
    if (scatter->is_root) {
        read_product(scatter, first, count, values);
    } else {
        memcpy(values, (const char *)scatter->held + first * size, count * size);
    }
    return L3A_OK;
}

l3a_status cpu_scatter_write(struct scatter *scatter, uint64_t first, size_t count, const void *values) {
    l3a_status status = L3A_OK;
    const size_t size = real_size(scatter->type);
    TRY(cpu_scatter_expand(scatter));
    if (count) {
        memcpy((char *)scatter->held + first * size, values, count * size);
    }
done:
    return status;
}

/* ---- Adding ---- */

static void add_numbers_of(const struct scatter *scatter, const struct scatter *from) {
    const size_t numbers = (size_t)triangle_numbers(0, scatter->dim);
    for (size_t first = 0; first < numbers; first += TILE) {
        const size_t count = numbers - first < TILE ? numbers - first : TILE;
        double values[TILE] = {0};
        cpu_scatter_get(scatter, first, count, 1, values);
        cpu_scatter_get(from, first, count, 1, values);
        put(scatter, first, count, values);
    }
}

l3a_status cpu_scatter_add(struct scatter *scatter, const struct scatter *from) {
    l3a_status status = L3A_OK;
    struct scatter made = *scatter;
    bool fits = false;
    if (from->is_root) {
        const size_t numbers = from->rows * from->dim;
        TRY(make_room(scatter, from->rows, &fits));
        for (size_t i = 0; fits && i < numbers; i++) {
            real_put(scatter->type, scatter->held, scatter->rows * scatter->dim + i, real_get(from->type, from->held, i));
        }
        if (fits) {
            scatter->tidy = !from->rows ? scatter->tidy : !scatter->rows && from->tidy;
            scatter->rows += from->rows;
            return L3A_OK;
        }
    }
    TRY(begin_triangle(scatter, &made));
    if (from->is_root && from->rows) {
        TRY(add_root(&made, from));
    }
    if (!from->is_root) {
        add_numbers_of(&made, from);
    }
done:
    return end_triangle(scatter, &made, status);
}

size_t cpu_block_take(const struct block *rows, const double *weight, double scale, size_t *next, size_t most, real type,
                      void *to) {
    const real from = rows->layer->shape.type;
    const size_t d = layer_columns(&rows->layer->shape);
    const void *x = ((const struct cpu_block *)rows->held)->expanded;
    size_t taken = 0;
    for (; *next < rows->count && taken < most; ++*next) {
        const double root = sqrt(scale * weight[*next]);
        for (size_t j = 0; root > 0 && j < d; j++) {
            real_put(type, to, taken * d + j, root * real_get(from, x, *next * d + j));
        }
        taken += root > 0;
    }
    return taken;
}

static size_t count_weights(const struct block *rows, const double *weight) {
    size_t count = 0;
    for (size_t i = 0; i < rows->count; i++) {
        count += weight[i] > 0;
    }
    return count;
}

static l3a_status append_rows(struct scatter *scatter, const struct block *rows, double scale, const double *weight, size_t count,
                              bool *fits) {
    l3a_status status = L3A_OK;
    size_t next = 0;
    TRY(make_room(scatter, count, fits));
    if (*fits) {
        cpu_block_take(rows, weight, scale, &next, count, scatter->type,
                       (char *)scatter->held + scatter->rows * row_bytes(scatter));
        scatter->rows += count;
        scatter->tidy = false;
    }
done:
    return status;
}

/* A few rows at a time are scaled in work space, so that those of the block stay as they are. */
static l3a_status add_products(const struct scatter *triangle, const struct block *rows, double sign, const double *weight,
                               size_t count) {
    l3a_context *context = triangle->context;
    l3a_status status = L3A_OK;
    const struct product_sum sum = {triangle, sign < 0 ? -1 : 1, triangle->type};
    struct rank_product product = {.type = triangle->type, .dim = triangle->dim, .add = add_to_triangle, .to = &sum};
    void *x = NULL;
    size_t next = 0;
    TRY(cpu_panel_create(context, &product));
    TRY(allocate(context, count < CHUNK ? count : CHUNK, row_bytes(triangle), &x));
    product.x = x;
    while ((product.rows = cpu_block_take(rows, weight, fabs(sign), &next, CHUNK, triangle->type, x))) {
        cpu_add_product(&product);
    }
done:
    release(context, product.panel);
    release(context, x);
    return status;
}

l3a_status cpu_scatter_add_rows(struct scatter *scatter, const struct block *rows, double sign, const double *weight) {
    l3a_status status = L3A_OK;
    const size_t count = count_weights(rows, weight);
    struct scatter made = *scatter;
    bool added = !count || sign == 0;
    if (!added && scatter->is_root && sign > 0) {
        TRY(append_rows(scatter, rows, sign, weight, count, &added));
    } else if (!added && scatter->is_root) {
        TRY(cpu_root_subtract(scatter, rows, -sign, weight, count, &added));
    }
    if (added) {
        return L3A_OK;
    }
    TRY(begin_triangle(scatter, &made));
    TRY(add_products(&made, rows, sign, weight, count));
done:
    return end_triangle(scatter, &made, status);
}

struct addition {
    const struct scatter *scatter;
    const struct sums *sums;
    double sign;
};

/* Works in tiles, because the second half is an upper triangle. */
static void add_rows(void *argument, size_t first, size_t last) {
    const struct addition *addition = argument;
    const size_t step = stride_of(addition->sums);
    const double *upper = second_row(addition->sums, 0);
    for (size_t tile = 0; tile < last; tile += TILE) {
        for (size_t i = first > tile ? first : tile; i < last; i++) {
            const size_t count = i + 1 - tile < TILE ? i + 1 - tile : TILE, at = i * (i + 1) / 2 + tile;
            double values[TILE] = {0};
            cpu_scatter_get(addition->scatter, at, count, 1, values);
            for (size_t j = 0; j < count; j++) {
                values[j] += addition->sign * upper[(tile + j) * step + i];
            }
            put(addition->scatter, at, count, values);
        }
    }
}

l3a_status cpu_scatter_add_sums(struct scatter *scatter, const struct sums *sums, double sign) {
    l3a_status status = L3A_OK;
    struct addition addition = {scatter, sums, sign};
    TRY(cpu_scatter_expand(scatter));
    parallel_for(scatter->context->threads, scatter->dim, TILE, add_rows, &addition);
done:
    return status;
}

/* ---- Sums of scatters ---- */

struct total {
    const struct sums *sums;
    const struct scatter *const *scatters;
    size_t count;
    double scale;
    const struct scatter *root; /* that is being added */
};

static void total_rows(void *argument, size_t first, size_t last) {
    const struct total *total = argument;
    for (size_t i = first; i < last; i++) {
        double *row = first_row(total->sums, i);
        for (size_t j = 0; j < total->count; j++) {
            cpu_scatter_get(total->scatters[j], i * (i + 1) / 2, i + 1, total->scale, row);
        }
    }
}

static void add_to_first(const void *to, size_t i, size_t first, size_t count, const void *numbers) {
    const struct total *total = to;
    const real type = total->root->type;
    double *row = first_row(total->sums, i) + first;
    for (size_t j = 0; j < count; j++) {
        row[j] += total->scale * real_get(type, numbers, j);
    }
}

/* First half += scale · Σ scatters, after it was cleared if `clear` */
static l3a_status add_scatters(struct sums *sums, const struct scatter *const *scatters, size_t count, double scale, bool clear) {
    l3a_status status = L3A_OK;
    struct total total = {sums, scatters, count, scale, NULL};
    struct rank_product product = {.type = REAL_DOUBLE, .dim = sums->dim, .add = add_to_first, .to = &total};
    if (has_root(scatters, count)) {
        TRY(cpu_panel_create(sums->context, &product));
    }
    ((struct cpu_sums *)sums->held)->mirrored = false;
    for (size_t i = 0; clear && i < sums->dim; i++) {
        memset(first_row(sums, i), 0, (i + 1) * sizeof(double));
    }
    parallel_for(sums->context->threads, sums->dim, GRAIN, total_rows, &total);
    for (size_t i = 0; i < count; i++) {
        total.root = scatters[i];
        if (total.root->is_root) {
            product.type = total.root->type;
            product.rows = total.root->rows;
            product.x = total.root->held;
            cpu_add_product(&product);
        }
    }
done:
    release(sums->context, product.panel);
    return status;
}

l3a_status cpu_sums_total(struct sums *sums, const struct scatter *const *scatters, size_t count) {
    return add_scatters(sums, scatters, count, 1, true);
}

l3a_status cpu_sums_add_scatter(struct sums *sums, double sign, const struct scatter *scatter) {
    return add_scatters(sums, &scatter, 1, sign, false);
}
