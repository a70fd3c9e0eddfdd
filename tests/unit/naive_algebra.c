#include "naive_algebra.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Layers: x from z by their formulas. */
struct naive_layer {
    double *matrix; /* B, or the centres */
};

static l3a_status naive_layer_create(struct layer *layer) {
    const struct layer_shape *shape = &layer->shape;
    struct naive_layer *held = calloc(1, sizeof *held);
    held->matrix = calloc(shape->width * shape->dim, sizeof *held->matrix);
    if (shape->kind == LAYER_KERNELS) {
        for (size_t i = 0; i < shape->width * shape->dim; i++) {
            held->matrix[i] = (double)shape->centres[i];
        }
    } else {
        struct layer_shape wide = *shape;
        wide.type = REAL_DOUBLE;
        layer_entries(1, &wide, held->matrix);
    }
    layer->held = held;
    return L3A_OK;
}

static void naive_layer_free(struct layer *layer) {
    free(((struct naive_layer *)layer->held)->matrix);
    free(layer->held);
}

static double output(const struct layer *layer, const float *z, size_t j) {
    const struct layer_shape *shape = &layer->shape;
    const double *matrix = ((const struct naive_layer *)layer->held)->matrix;
    double sum = 0;
    for (size_t i = 0; i < shape->width; i++) {
        const double centre = shape->kind == LAYER_KERNELS ? matrix[j * shape->width + i] : 0;
        sum += shape->kind == LAYER_KERNELS ? ((double)z[i] - centre) * ((double)z[i] - centre)
                                            : (double)z[i] * matrix[i * shape->dim + j];
    }
    switch (shape->kind) {
    case LAYER_RELU: return sum > 0 ? sum : 0;
    case LAYER_TANH: return tanh(sum);
    case LAYER_KERNELS: return exp(-shape->rate * sum);
    case LAYER_NONE: break;
    }
    return (double)z[j];
}

/* Blocks: X [count x d] */
static l3a_status naive_block_create(struct block *rows) {
    rows->held = calloc(rows->capacity * layer_columns(&rows->layer->shape) + 1, sizeof(double));
    return L3A_OK;
}

static void naive_block_free(struct block *rows) {
    free(rows->held);
}

static l3a_status naive_block_expand(struct block *rows, const float *features) {
    const struct layer_shape *shape = &rows->layer->shape;
    const size_t d = layer_columns(shape);
    for (size_t i = 0; i < rows->count; i++) {
        for (size_t j = 0; j < d; j++) {
            const float *z = features + i * shape->width;
            ((double *)rows->held)[i * d + j] = j < shape->dim ? output(rows->layer, z, j) : (double)z[j - shape->dim];
        }
    }
    return L3A_OK;
}

static l3a_status naive_block_append(struct block *rows, const struct block *from, const size_t *chosen, size_t count) {
    const size_t d = layer_columns(&rows->layer->shape);
    for (size_t i = 0; i < count * d; i++) {
        ((double *)rows->held)[rows->count * d + i] = ((const double *)from->held)[(chosen ? chosen[i / d] : i / d) * d + i % d];
    }
    return L3A_OK;
}

static l3a_status naive_block_read(const struct block *rows, void *values) {
    for (size_t i = 0; i < rows->count * layer_columns(&rows->layer->shape); i++) {
        real_put(rows->layer->shape.type, values, i, ((const double *)rows->held)[i]);
    }
    return L3A_OK;
}

static l3a_status naive_block_score(const struct block *rows, const struct solution *solution, void *scores) {
    const double *x = rows->held, *w = solution->held;
    for (size_t i = 0; i < rows->count; i++) {
        for (size_t k = 0; k < solution->columns; k++) {
            double sum = 0;
            for (size_t j = 0; j < solution->dim; j++) {
                sum += x[i * solution->dim + j] * w[j * solution->columns + k];
            }
            real_put(solution->type, scores, i * solution->columns + k, sum);
        }
    }
    return L3A_OK;
}

static l3a_status naive_block_gram(struct block *rows, const double *weight, double *gram) {
    const size_t d = layer_columns(&rows->layer->shape);
    const double *x = rows->held;
    for (size_t a = 0; a < rows->count; a++) {
        for (size_t b = 0; b < rows->count; b++) {
            double sum = 0;
            for (size_t j = 0; j < d; j++) {
                sum += x[a * d + j] * x[b * d + j];
            }
            gram[a * rows->count + b] = sqrt(weight[a]) * sqrt(weight[b]) * sum;
        }
    }
    return L3A_OK;
}

static l3a_status naive_block_cross(const struct block *rows, const double *weight, const double *targets, size_t columns,
                                    double sign, double *cross) {
    const size_t d = layer_columns(&rows->layer->shape);
    for (size_t n = 0; n < rows->count; n++) {
        for (size_t i = 0; i < d; i++) {
            for (size_t k = 0; k < columns; k++) {
                cross[i * columns + k] += sign * weight[n] * ((const double *)rows->held)[n * d + i] * targets[n * columns + k];
            }
        }
    }
    return L3A_OK;
}

static l3a_status naive_solution_create(struct solution *solution) {
    solution->held = calloc(solution->dim * solution->columns + 1, sizeof(double));
    return L3A_OK;
}

static void naive_solution_free(struct solution *solution) {
    free(solution->held);
}

static l3a_status naive_solution_set(struct solution *solution, const double *coefficients) {
    memcpy(solution->held, coefficients, solution->dim * solution->columns * sizeof *coefficients);
    return L3A_OK;
}

/* Sums: two full matrices, and C. */
struct naive_sums {
    double *kept, *added, *cross;
    size_t columns;
};

static l3a_status naive_sums_create(struct sums *sums) {
    struct naive_sums *held = calloc(1, sizeof *held);
    held->kept = calloc(sums->dim * sums->dim, sizeof(double));
    held->added = calloc(sums->dim * sums->dim, sizeof(double));
    sums->held = held;
    return L3A_OK;
}

static void naive_sums_free(struct sums *sums) {
    struct naive_sums *held = sums->held;
    free(held->kept);
    free(held->added);
    free(held->cross);
    free(held);
}

static l3a_status naive_sums_begin(struct sums *sums, size_t columns) {
    struct naive_sums *held = sums->held;
    memset(held->added, 0, sums->dim * sums->dim * sizeof(double));
    free(held->cross);
    held->cross = calloc(sums->dim * columns + 1, sizeof(double));
    held->columns = columns;
    return L3A_OK;
}

static l3a_status naive_sums_add(struct sums *sums, struct block *rows, double sign, const double *weight, const double *targets) {
    struct naive_sums *held = sums->held;
    const size_t d = sums->dim;
    for (size_t n = 0; n < rows->count; n++) {
        const double *x = (const double *)rows->held + n * d;
        for (size_t i = 0; i < d; i++) {
            for (size_t j = 0; j < d; j++) {
                held->added[i * d + j] += sign * weight[n] * x[i] * x[j];
            }
            for (size_t k = 0; k < held->columns; k++) {
                held->cross[i * held->columns + k] += targets ? sign * weight[n] * x[i] * targets[n * held->columns + k] : 0;
            }
        }
    }
    return L3A_OK;
}

static l3a_status naive_sums_add_cross(struct sums *sums, struct block *rows, const double *targets) {
    struct naive_sums *held = sums->held;
    for (size_t n = 0; n < rows->count; n++) {
        for (size_t i = 0; i < sums->dim; i++) {
            for (size_t k = 0; k < held->columns; k++) {
                held->cross[i * held->columns + k] +=
                    ((const double *)rows->held)[n * sums->dim + i] * targets[n * held->columns + k];
            }
        }
    }
    return L3A_OK;
}

static l3a_status naive_sums_join(struct sums *sums, const struct sums *from) {
    struct naive_sums *held = sums->held;
    const struct naive_sums *others = from->held;
    for (size_t i = 0; i < sums->dim * sums->dim; i++) {
        held->added[i] += others->added[i];
    }
    for (size_t i = 0; i < sums->dim * held->columns; i++) {
        held->cross[i] += others->cross[i];
    }
    return L3A_OK;
}

static l3a_status naive_sums_keep(struct sums *sums, double sign) {
    struct naive_sums *held = sums->held;
    for (size_t i = 0; i < sums->dim * sums->dim; i++) {
        held->kept[i] += sign * held->added[i];
        held->added[i] = NAN; /* work space from now on */
    }
    return L3A_OK;
}

static l3a_status naive_sums_cross(struct sums *sums, double sign, double *cross) {
    struct naive_sums *held = sums->held;
    for (size_t i = 0; i < sums->dim * held->columns; i++) {
        cross[i] += sign * held->cross[i];
    }
    free(held->cross);
    held->cross = NULL;
    return L3A_OK;
}

static double *half_of(const struct sums *sums, enum half half) {
    const struct naive_sums *held = sums->held;
    return half == KEPT ? held->kept : held->added;
}

static l3a_status naive_sums_read(const struct sums *sums, enum half half, size_t first, size_t count, double *values) {
    for (size_t i = first; i < first + count; i++) {
        for (size_t j = 0; j <= i; j++) {
            *values++ = half_of(sums, half)[i * sums->dim + j];
        }
    }
    return L3A_OK;
}

static l3a_status naive_sums_write(struct sums *sums, enum half half, size_t first, size_t count, const double *values) {
    double *to = half_of(sums, half);
    for (size_t i = first; i < first + count; i++) {
        for (size_t j = 0; j <= i; j++) {
            to[i * sums->dim + j] = to[j * sums->dim + i] = *values++;
        }
    }
    return L3A_OK;
}

static double number_at(const struct scatter *scatter, size_t i, size_t j) {
    const double *held = scatter->held;
    double sum = 0;
    if (!scatter->is_root) {
        return held[i > j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i];
    }
    for (size_t n = 0; n < scatter->rows; n++) {
        sum += held[n * scatter->dim + i] * held[n * scatter->dim + j];
    }
    return sum;
}

static double blend(const struct sums *sums, double scale, const struct scatter *const *scatters, size_t count, double share,
                    size_t i, size_t j) {
    double sum = scale == 0 ? 0 : scale * half_of(sums, KEPT)[i * sums->dim + j];
    for (size_t t = 0; t < count; t++) {
        sum += share * number_at(scatters[t], i, j);
    }
    return sum;
}

static l3a_status naive_sums_total(struct sums *sums, const struct scatter *const *scatters, size_t count) {
    for (size_t i = 0; i < sums->dim; i++) {
        for (size_t j = 0; j < sums->dim; j++) {
            half_of(sums, KEPT)[i * sums->dim + j] = blend(sums, 0, scatters, count, 1, i, j);
        }
    }
    return L3A_OK;
}

static l3a_status naive_sums_add_scatter(struct sums *sums, double sign, const struct scatter *scatter) {
    for (size_t i = 0; i < sums->dim * sums->dim; i++) {
        half_of(sums, KEPT)[i] += sign * number_at(scatter, i / sums->dim, i % sums->dim);
    }
    return L3A_OK;
}

static l3a_status naive_sums_trace(const struct sums *sums, double *trace) {
    *trace = 0;
    for (size_t i = 0; i < sums->dim; i++) {
        *trace += half_of(sums, KEPT)[i * sums->dim + i];
    }
    return L3A_OK;
}

static l3a_status naive_sums_copy(struct sums *sums, enum half to) {
    memcpy(half_of(sums, to), half_of(sums, to == KEPT ? ADDED : KEPT), sums->dim * sums->dim * sizeof(double));
    return L3A_OK;
}

/* The upper triangle of u becomes the factor of itself, row after row. */
static bool factor_in_place(size_t d, double *u) {
    for (size_t i = 0; i < d; i++) {
        for (size_t j = i; j < d; j++) {
            double sum = u[i * d + j];
            for (size_t n = 0; n < i; n++) {
                sum -= u[n * d + i] * u[n * d + j];
            }
            if (i == j && !(sum > 0 && isfinite(sum))) {
                return false;
            }
            u[i * d + j] = i == j ? sqrt(sum) : sum / u[i * d + i];
        }
    }
    return true;
}

static void solve_with(size_t d, const double *u, double *b) {
    for (size_t i = 0; i < d; i++) {
        for (size_t n = 0; n < i; n++) {
            b[i] -= u[n * d + i] * b[n];
        }
        b[i] /= u[i * d + i];
    }
    for (size_t i = d; i-- > 0;) {
        for (size_t n = i + 1; n < d; n++) {
            b[i] -= u[i * d + n] * b[n];
        }
        b[i] /= u[i * d + i];
    }
}

static l3a_status naive_sums_factor(struct sums *sums, real type, double scale, const struct scatter *const *scatters, size_t count,
                                    double share, double shift, double *trace, bool *definite) {
    const size_t d = sums->dim;
    double *u = half_of(sums, ADDED);
    (void)type;
    *trace = 0;
    for (size_t i = 0; i < d; i++) {
        for (size_t j = 0; j < d; j++) {
            const double value = blend(sums, scale, scatters, count, share, i, j);
            *trace += i == j ? value : 0;
            u[i * d + j] = value + (i == j ? shift : 0);
        }
    }
    *definite = isfinite(*trace) && factor_in_place(d, u);
    return L3A_OK;
}

/* Vectors: always doubles, rounded if the type is single. */
static l3a_status naive_vectors_create(struct vectors *vectors, void *memory) {
    vectors->held = calloc(vectors->count * vectors->dim + 1, sizeof(double));
    for (size_t i = 0; memory && i < vectors->count * vectors->dim; i++) {
        ((double *)vectors->held)[i] = real_get(vectors->type, memory, i);
    }
    return L3A_OK;
}

static void naive_vectors_free(struct vectors *vectors) {
    free(vectors->held);
}

static double *vector_of(const struct vectors *vectors, const size_t *rows, size_t i) {
    return (double *)vectors->held + (rows ? rows[i] : i) * vectors->dim;
}

static l3a_status naive_vectors_put(struct vectors *vectors, size_t first, size_t count, const void *values) {
    for (size_t i = 0; i < count * vectors->dim; i++) {
        vector_of(vectors, NULL, first)[i] = real_get(vectors->type, values, i);
    }
    return L3A_OK;
}

static l3a_status naive_vectors_get(const struct vectors *vectors, size_t first, size_t count, void *values) {
    for (size_t i = 0; i < count * vectors->dim; i++) {
        real_put(vectors->type, values, i, vector_of(vectors, NULL, first)[i]);
    }
    return L3A_OK;
}

static l3a_status naive_vectors_combine(struct vectors *to, const size_t *to_rows, const double *keep, const struct vectors *from,
                                        const size_t *from_rows, const double *scale, size_t count) {
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < to->dim; j++) {
            double *number = vector_of(to, to_rows, i) + j, sum = 0;
            if (keep && keep[i] != 0) {
                sum += keep[i] * *number;
            }
            if (!scale || scale[i] != 0) {
                sum += (scale ? scale[i] : 1) * vector_of(from, from_rows, i)[j];
            }
            *number = to->type == REAL_SINGLE ? (double)(float)sum : sum;
        }
    }
    return L3A_OK;
}

static l3a_status naive_vectors_dot(const struct dots *dots, size_t kinds, size_t count, double *results) {
    for (size_t n = 0; n < kinds * count; n++) {
        const struct dots *kind = &dots[n / count];
        results[n] = 0;
        for (size_t j = 0; j < kind->left->dim; j++) {
            results[n] +=
                vector_of(kind->left, kind->left_rows, n % count)[j] * vector_of(kind->right, kind->right_rows, n % count)[j];
        }
    }
    return L3A_OK;
}

static l3a_status naive_vectors_solve(const struct sums *sums, struct vectors *vectors, size_t first, size_t count) {
    for (size_t n = 0; n < count; n++) {
        double *b = vector_of(vectors, NULL, first + n);
        solve_with(sums->dim, half_of(sums, ADDED), b);
        for (size_t i = 0; vectors->type == REAL_SINGLE && i < sums->dim; i++) {
            b[i] = (double)(float)b[i];
        }
    }
    return L3A_OK;
}

static l3a_status naive_vectors_multiply(const struct sums *sums, double scale, double share, const struct mixture *mixtures,
                                         size_t count, const struct vectors *x, struct vectors *y) {
    for (size_t m = 0, row = 0; m < count; m++) {
        for (size_t n = 0; n < mixtures[m].rows; n++, row++) {
            for (size_t i = 0; i < sums->dim; i++) {
                double sum = 0;
                for (size_t j = 0; j < sums->dim; j++) {
                    sum += blend(sums, scale, mixtures[m].scatters, mixtures[m].count, share, i, j) * vector_of(x, NULL, row)[j];
                }
                vector_of(y, NULL, row)[i] = sum;
            }
        }
    }
    return L3A_OK;
}

static l3a_status naive_sums_invert(struct sums *sums, double shift, bool *regular) {
    const size_t d = sums->dim;
    double *kept = half_of(sums, KEPT);
    memset(kept, 0, d * d * sizeof *kept);
    for (size_t i = 0; i < d; i++) {
        kept[i * d + i] = 1;
        solve_with(d, half_of(sums, ADDED), kept + i * d);
        kept[i * d + i] += shift;
    }
    *regular = true;
    return L3A_OK;
}

/* One row at a time: R ← R - ω r rᵀ / (1 + ω xᵀ r) and W ← W + ω r (y - xᵀ W) / (1 + ω xᵀ r), with r = R x. */
static l3a_status naive_sums_update(struct sums *sums, struct block *rows, const double *weight, const double *targets,
                                    double *cross, double *coefficients, bool *definite) {
    const size_t d = sums->dim, columns = rows->columns;
    double *inverse = half_of(sums, KEPT), *r = calloc(d, sizeof *r);
    *definite = true;
    for (size_t n = 0; n < rows->count; n++) {
        const double *x = (const double *)rows->held + n * d;
        double gain = 1;
        for (size_t i = 0; i < d; i++) {
            r[i] = 0;
            for (size_t j = 0; j < d; j++) {
                r[i] += inverse[i * d + j] * x[j];
            }
            gain += weight[n] * x[i] * r[i];
        }
        *definite = *definite && gain > 0;
        for (size_t k = 0; k < columns; k++) {
            double error = targets[n * columns + k];
            for (size_t i = 0; i < d; i++) {
                error -= x[i] * coefficients[i * columns + k];
                cross[i * columns + k] += weight[n] * x[i] * targets[n * columns + k];
            }
            for (size_t i = 0; i < d; i++) {
                coefficients[i * columns + k] += weight[n] * r[i] * error / gain;
            }
        }
        for (size_t i = 0; i < d; i++) {
            for (size_t j = 0; j < d; j++) {
                inverse[i * d + j] -= weight[n] * r[i] * r[j] / gain;
            }
        }
    }
    free(r);
    return L3A_OK;
}

/* Scatters: always doubles. */
static void naive_scatter_free(struct scatter *scatter) {
    free(scatter->held);
}

/* The scatter becomes a triangle or a root. */
static void replace(struct scatter *scatter, bool is_root, size_t rows, double *held) {
    free(scatter->held);
    if (is_root && !rows) {
        free(held);
        held = NULL;
    }
    scatter->held = held;
    scatter->is_root = scatter->tidy = is_root;
    scatter->rows = scatter->capacity = rows;
}

static double *make_triangle(struct scatter *scatter) {
    double *made;
    if (scatter->is_root) {
        made = calloc(triangle_numbers(0, scatter->dim), sizeof *made);
        for (size_t i = 0; i < scatter->dim; i++) {
            for (size_t j = 0; j <= i; j++) {
                made[i * (i + 1) / 2 + j] = number_at(scatter, i, j);
            }
        }
        replace(scatter, false, 0, made);
    }
    return scatter->held;
}

static l3a_status naive_scatter_read(const struct scatter *scatter, uint64_t first, size_t count, void *values) {
    for (size_t i = 0, at = 0; i < scatter->dim; i++) {
        for (size_t j = 0; j <= i; j++, at++) {
            if (at >= first && at < first + count) {
                real_put(scatter->type, values, at - first, number_at(scatter, i, j));
            }
        }
    }
    return L3A_OK;
}

static l3a_status naive_scatter_write(struct scatter *scatter, uint64_t first, size_t count, const void *values) {
    double *triangle = make_triangle(scatter);
    for (size_t i = 0; i < count; i++) {
        triangle[first + i] = real_get(scatter->type, values, i);
    }
    return L3A_OK;
}

static l3a_status naive_scatter_make_root(struct scatter *scatter, size_t rows) {
    replace(scatter, true, rows, rows ? calloc(rows * scatter->dim, sizeof(double)) : NULL);
    return L3A_OK;
}

static l3a_status naive_scatter_read_root(const struct scatter *scatter, size_t first, size_t count, void *values) {
    for (size_t i = 0; i < count * scatter->dim; i++) {
        real_put(scatter->type, values, i, ((const double *)scatter->held)[first * scatter->dim + i]);
    }
    return L3A_OK;
}

static l3a_status naive_scatter_write_root(struct scatter *scatter, size_t first, size_t count, const void *values) {
    for (size_t i = 0; i < count * scatter->dim; i++) {
        ((double *)scatter->held)[first * scatter->dim + i] = real_get(scatter->type, values, i);
    }
    return L3A_OK;
}

/* A += scale · x xᵀ, as another row of the root or not. */
static void join_row(struct scatter *scatter, const double *x, double scale) {
    const size_t d = scatter->dim;
    double *held = scatter->held;
    if (scatter->is_root && scatter->rows < d / 2 && scale > 0) {
        held = realloc(held, (scatter->rows + 1) * d * sizeof *held);
        for (size_t i = 0; i < d; i++) {
            held[scatter->rows * d + i] = sqrt(scale) * x[i];
        }
        scatter->held = held;
        scatter->capacity = ++scatter->rows;
        scatter->tidy = false;
    } else if (scale != 0) {
        held = make_triangle(scatter);
        for (size_t i = 0; i < d; i++) {
            for (size_t j = 0; j <= i; j++) {
                held[i * (i + 1) / 2 + j] += scale * x[i] * x[j];
            }
        }
    }
}

static l3a_status naive_scatter_add(struct scatter *scatter, const struct scatter *from) {
    const bool tidy = from->tidy && !scatter->rows;
    for (size_t n = 0; from->is_root && n < from->rows; n++) {
        join_row(scatter, (const double *)from->held + n * from->dim, 1);
        scatter->tidy = scatter->is_root && tidy;
    }
    for (size_t i = 0; !from->is_root && i < triangle_numbers(0, scatter->dim); i++) {
        make_triangle(scatter)[i] += ((const double *)from->held)[i];
    }
    return L3A_OK;
}

static double rounding_of(const struct scatter *scatter) {
    double largest = 0;
    for (size_t i = 0; i < scatter->dim; i++) {
        largest = fmax(largest, number_at(scatter, i, i));
    }
    return (double)scatter->dim * 0x1p-52 * largest;
}

/* Turns A into a root of at most `most` rows if what is then left is of the size of rounding errors; a triangle otherwise. What is
 * left of A is a full matrix; each step takes the row of its largest diagonal element. */
static void reduce(struct scatter *scatter, size_t most, double limit) {
    const size_t d = scatter->dim;
    double *left = calloc(d * d, sizeof *left), *root = calloc(most * d + 1, sizeof *root);
    bool complete = isfinite(limit);
    size_t n = 0;
    for (size_t i = 0; i < d * d; i++) {
        left[i] = number_at(scatter, i / d, i % d);
    }
    for (; n < most; n++) {
        size_t p = 0;
        for (size_t i = 0; i < d; i++) {
            p = left[i * d + i] > left[p * d + p] ? i : p;
        }
        const double pivot = left[p * d + p];
        if (pivot <= limit) {
            break;
        }
        for (size_t i = 0; i < d; i++) {
            root[n * d + i] = left[p * d + i] / sqrt(pivot);
        }
        for (size_t i = 0; i < d * d; i++) {
            left[i] -= root[n * d + i / d] * root[n * d + i % d];
        }
    }
    for (size_t i = 0; complete && i < d; i++) {
        complete = fabs(left[i * d + i]) <= (scatter->type == REAL_SINGLE ? 1e9 : 64) * limit;
    }
    if (complete) {
        replace(scatter, true, n, root);
    } else {
        make_triangle(scatter);
        free(root);
    }
    free(left);
}

static l3a_status naive_scatter_tidy(struct scatter *scatter, uint64_t rows) {
    const size_t most = scatter->is_root ? scatter->rows : rows < scatter->dim ? (size_t)rows : scatter->dim;
    if (!rows) {
        naive_scatter_make_root(scatter, 0);
    } else if (most <= scatter->dim / 2 && !scatter->tidy) {
        reduce(scatter, most, rounding_of(scatter));
    }
    return L3A_OK;
}

static l3a_status naive_scatter_add_rows(struct scatter *scatter, const struct block *rows, double sign, const double *weight) {
    const bool was_root = scatter->is_root;
    const size_t most = scatter->rows;
    const double limit = rounding_of(scatter);
    for (size_t n = 0; n < rows->count; n++) {
        join_row(scatter, (const double *)rows->held + n * scatter->dim, sign * weight[n]);
    }
    if (was_root && sign < 0) {
        reduce(scatter, most, limit);
    }
    return L3A_OK;
}

static l3a_status naive_scatter_add_sums(struct scatter *scatter, const struct sums *sums, double sign) {
    double *triangle = make_triangle(scatter);
    for (size_t i = 0; i < scatter->dim; i++) {
        for (size_t j = 0; j <= i; j++) {
            triangle[i * (i + 1) / 2 + j] += sign * half_of(sums, ADDED)[i * scatter->dim + j];
        }
    }
    return L3A_OK;
}

/* It plans nothing: its memory is not the context's. */
static uint64_t naive_layer_bytes(enum place place, const struct layer_shape *shape) {
    (void)place;
    (void)shape;
    return 0;
}

static uint64_t naive_block_bytes(enum place place, const struct block *rows) {
    (void)place;
    (void)rows;
    return 0;
}

static uint64_t naive_sums_bytes(enum place place, const l3a_context *context, size_t dim, size_t columns) {
    (void)context;
    (void)place;
    (void)dim;
    (void)columns;
    return 0;
}

static uint64_t naive_scatter_bytes(enum place place, size_t dim, real type, uint64_t rows) {
    (void)place;
    (void)dim;
    (void)type;
    (void)rows;
    return 0;
}

static uint64_t naive_solution_bytes(enum place place, size_t dim, size_t columns, real type) {
    (void)place;
    (void)dim;
    (void)columns;
    (void)type;
    return 0;
}

static uint64_t naive_vectors_bytes(enum place place, size_t dim, size_t count, real type) {
    (void)place;
    (void)dim;
    (void)count;
    (void)type;
    return 0;
}

static uint64_t naive_multiply_bytes(enum place place, const l3a_context *context, size_t dim, size_t rows) {
    (void)place;
    (void)context;
    (void)dim;
    (void)rows;
    return 0;
}

struct ranked {
    float score;
    uint32_t image;
};

static int compare_ranked(const void *left, const void *right) {
    const struct ranked *a = left, *b = right;
    return a->score != b->score ? (a->score < b->score ? 1 : -1) : (a->image > b->image) - (a->image < b->image);
}

static l3a_status naive_rank(l3a_context *context, const float *scores, size_t rows, size_t classes, uint32_t *order) {
    (void)context;
    struct ranked *ranked = calloc(rows + 1, sizeof *ranked);
    for (size_t k = 0; k < classes; k++) {
        for (size_t i = 0; i < rows; i++) {
            ranked[i] = (struct ranked){scores[k * rows + i], (uint32_t)i};
        }
        qsort(ranked, rows, sizeof *ranked, compare_ranked);
        for (size_t i = 0; i < rows; i++) {
            order[k * rows + i] = ranked[i].image;
        }
    }
    free(ranked);
    return L3A_OK;
}

const struct algebra naive_algebra = {
    .name = "naive",
#define OPERATION(returns, operation, ...) .operation = naive_##operation,
#include "algebra/operations.h"
};
