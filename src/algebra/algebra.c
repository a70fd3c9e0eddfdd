/* What every back end has in common: finding it, and the layer's random numbers. */
#include "algebra/algebra.h"

#include "base/memory.h"
#include "base/random.h"
#include "base/threads.h"

#include <math.h>
#include <string.h>

const struct algebra *algebra_of(const l3a_context *context) {
    return context->algebra ? context->algebra : &cpu_algebra;
}

/* The back end of an object to be made. From now on the context keeps it. */
static const struct algebra *settle(l3a_context *context) {
    context->choosing = false;
    return algebra_of(context);
}

struct entries {
    const struct layer_shape *shape;
    void *values;
};

static void make_entries(void *argument, size_t first, size_t last) {
    const struct entries *entries = argument;
    const size_t d = entries->shape->dim;
    const double root = sqrt((double)entries->shape->width);
    for (size_t n = first * d; n < last * d; n++) {
        const float value = (float)((2 * random_uniform(entries->shape->seed, n) - 1) / root);
        real_put(entries->shape->type, entries->values, n, (double)value);
    }
}

void layer_entries(int threads, const struct layer_shape *shape, void *values) {
    struct entries entries = {shape, values};
    parallel_for(threads, shape->width, 1, make_entries, &entries);
}

l3a_status layer_create(l3a_context *context, const struct layer_shape *shape, struct layer *layer) {
    *layer = (struct layer){.context = context, .algebra = settle(context), .shape = *shape};
    const l3a_status status = layer->algebra->layer_create(layer);
    layer->shape.centres = NULL;
    if (status != L3A_OK) {
        layer_free(layer);
    }
    return status;
}

void layer_free(struct layer *layer) {
    if (layer->held) {
        layer->algebra->layer_free(layer);
    }
    memset(layer, 0, sizeof *layer);
}

l3a_status block_create(struct block *rows) {
    rows->count = 0;
    const l3a_status status = rows->layer->algebra->block_create(rows);
    if (status != L3A_OK) {
        block_free(rows);
    }
    return status;
}

void block_free(struct block *rows) {
    if (rows->held) {
        rows->layer->algebra->block_free(rows);
    }
    memset(rows, 0, sizeof *rows);
}

l3a_status block_expand(struct block *rows, const float *features, size_t count) {
    rows->count = count;
    return rows->layer->algebra->block_expand(rows, features);
}

l3a_status block_append(struct block *rows, const struct block *from, const size_t *chosen, size_t count) {
    const l3a_status status = rows->layer->algebra->block_append(rows, from, chosen, count);
    rows->count += status == L3A_OK ? count : 0;
    return status;
}

l3a_status block_read(const struct block *rows, void *values) {
    return rows->layer->algebra->block_read(rows, values);
}

l3a_status block_score_begin(const struct block *rows, const struct solution *solution, void *scores) {
    return rows->layer->algebra->block_score(rows, solution, scores);
}

l3a_status block_score_end(const struct block *rows) {
    const struct algebra *algebra = rows->layer->algebra;
    return algebra->block_score_end ? algebra->block_score_end(rows) : L3A_OK;
}

l3a_status block_score(const struct block *rows, const struct solution *solution, void *scores) {
    const l3a_status status = block_score_begin(rows, solution, scores);
    return status == L3A_OK ? block_score_end(rows) : status;
}

l3a_status rank_images(l3a_context *context, const float *scores, size_t rows, size_t classes, uint32_t *order) {
    return rows && classes ? algebra_of(context)->rank(context, scores, rows, classes, order) : L3A_OK;
}

l3a_status block_gram(struct block *rows, const double *weight, double *gram) {
    return rows->layer->algebra->block_gram(rows, weight, gram);
}

l3a_status block_cross(const struct block *rows, const double *weight, const double *targets, size_t columns, double sign,
                       double *cross) {
    return rows->layer->algebra->block_cross(rows, weight, targets, columns, sign, cross);
}

l3a_status solution_create(l3a_context *context, size_t dim, size_t columns, real type, struct solution *solution) {
    *solution = (struct solution){.context = context, .algebra = settle(context), .dim = dim, .columns = columns, .type = type};
    const l3a_status status = solution->algebra->solution_create(solution);
    if (status != L3A_OK) {
        solution_free(solution);
    }
    return status;
}

void solution_free(struct solution *solution) {
    if (solution->held) {
        solution->algebra->solution_free(solution);
    }
    memset(solution, 0, sizeof *solution);
}

l3a_status solution_set(struct solution *solution, const double *coefficients) {
    return solution->algebra->solution_set(solution, coefficients);
}

static l3a_status create_sums(l3a_context *context, const struct algebra *algebra, size_t dim, struct sums *sums) {
    *sums = (struct sums){.context = context, .algebra = algebra, .dim = dim};
    const l3a_status status = sums->algebra->sums_create(sums);
    if (status != L3A_OK) {
        sums_free(sums);
    }
    return status;
}

l3a_status sums_create(l3a_context *context, size_t dim, struct sums *sums) {
    return create_sums(context, settle(context), dim, sums);
}

l3a_status sums_create_shared(l3a_context *context, size_t dim, struct sums *sums) {
    return create_sums(context, context->shared_algebra, dim, sums);
}

void sums_free(struct sums *sums) {
    if (sums->held) {
        sums->algebra->sums_free(sums);
    }
    memset(sums, 0, sizeof *sums);
}

l3a_status sums_begin(struct sums *sums, size_t columns) {
    sums->factored = false;
    return sums->algebra->sums_begin(sums, columns);
}

l3a_status sums_add(struct sums *sums, struct block *rows, double sign, const double *weight, const double *targets) {
    sums->factored = false;
    return sums->algebra->sums_add(sums, rows, sign, weight, targets);
}

l3a_status sums_add_cross(struct sums *sums, struct block *rows, const double *targets) {
    sums->factored = false;
    return sums->algebra->sums_add_cross(sums, rows, targets);
}

l3a_status sums_join(struct sums *sums, const struct sums *from) {
    sums->factored = false;
    return sums->algebra->sums_join(sums, from);
}

l3a_status sums_keep(struct sums *sums, double sign) {
    sums->factored = false;
    return sums->algebra->sums_keep(sums, sign);
}

l3a_status sums_cross(struct sums *sums, double sign, double *cross) {
    return sums->algebra->sums_cross(sums, sign, cross);
}

l3a_status sums_read(const struct sums *sums, enum half half, size_t first, size_t count, double *values) {
    return sums->algebra->sums_read(sums, half, first, count, values);
}

l3a_status sums_write(struct sums *sums, enum half half, size_t first, size_t count, const double *values) {
    sums->factored = false;
    return sums->algebra->sums_write(sums, half, first, count, values);
}

l3a_status sums_total(struct sums *sums, const struct scatter *const *scatters, size_t count) {
    return sums->algebra->sums_total(sums, scatters, count);
}

l3a_status sums_add_scatter(struct sums *sums, double sign, const struct scatter *scatter) {
    return sums->algebra->sums_add_scatter(sums, sign, scatter);
}

l3a_status sums_trace(const struct sums *sums, double *trace) {
    return sums->algebra->sums_trace(sums, trace);
}

l3a_status sums_copy(struct sums *sums, enum half to) {
    sums->factored = false;
    return sums->algebra->sums_copy(sums, to);
}

l3a_status sums_factor(struct sums *sums, real type, double scale, const struct scatter *const *scatters, size_t count,
                       double share, double shift, double *trace, bool *definite) {
    sums->factored = false;
    const l3a_status status = sums->algebra->sums_factor(sums, type, scale, scatters, count, share, shift, trace, definite);
    sums->factored = status == L3A_OK && *definite;
    sums->factor_type = type;
    sums->scale = count ? 0 : scale;
    sums->shift = shift;
    return status;
}

l3a_status sums_solve(const struct sums *sums, real type, size_t count, void *rows) {
    l3a_status status = L3A_OK;
    struct vectors vectors;
    TRY(vectors_wrap(sums->context, sums->dim, count, type, rows, &vectors));
    TRY(vectors_solve(sums, &vectors, 0, count));
    TRY(vectors_get(&vectors, 0, count, rows));
done:
    vectors_free(&vectors);
    return status;
}

l3a_status sums_multiply(const struct sums *sums, double scale, const struct scatter *const *scatters, size_t count, double share,
                         const double *x, size_t rows, double *y) {
    l3a_status status = L3A_OK;
    const struct mixture mixture = {.rows = rows, .scatters = scatters, .count = count};
    struct vectors from = {0}, to = {0};
    TRY(vectors_create(sums->context, sums->dim, rows, REAL_DOUBLE, &from));
    TRY(vectors_create(sums->context, sums->dim, rows, REAL_DOUBLE, &to));
    TRY(vectors_put(&from, 0, rows, x));
    TRY(vectors_multiply(sums, scale, share, &mixture, 1, &from, &to));
    TRY(vectors_get(&to, 0, rows, y));
done:
    vectors_free(&from);
    vectors_free(&to);
    return status;
}

l3a_status sums_invert(struct sums *sums, double shift, bool *regular) {
    sums->factored = false;
    return sums->algebra->sums_invert(sums, shift, regular);
}

l3a_status sums_update(struct sums *sums, struct block *rows, const double *weight, const double *targets, double *cross,
                       double *coefficients, bool *definite) {
    sums->factored = false;
    return sums->algebra->sums_update(sums, rows, weight, targets, cross, coefficients, definite);
}

l3a_status scatter_create(l3a_context *context, size_t dim, real type, struct scatter *scatter) {
    *scatter =
        (struct scatter){.context = context, .algebra = settle(context), .dim = dim, .type = type, .is_root = true, .tidy = true};
    return L3A_OK;
}

void scatter_free(struct scatter *scatter) {
    if (scatter->held) {
        scatter->algebra->scatter_free(scatter);
    }
    memset(scatter, 0, sizeof *scatter);
}

l3a_status scatter_read(const struct scatter *scatter, uint64_t first, size_t count, void *values) {
    return scatter->algebra->scatter_read(scatter, first, count, values);
}

l3a_status scatter_write(struct scatter *scatter, uint64_t first, size_t count, const void *values) {
    return scatter->algebra->scatter_write(scatter, first, count, values);
}

l3a_status scatter_make_root(struct scatter *scatter, size_t rows) {
    return scatter->algebra->scatter_make_root(scatter, rows);
}

l3a_status scatter_read_root(const struct scatter *scatter, size_t first, size_t count, void *values) {
    return scatter->algebra->scatter_read_root(scatter, first, count, values);
}

l3a_status scatter_write_root(struct scatter *scatter, size_t first, size_t count, const void *values) {
    return scatter->algebra->scatter_write_root(scatter, first, count, values);
}

l3a_status scatter_add(struct scatter *scatter, const struct scatter *from) {
    return scatter->algebra->scatter_add(scatter, from);
}

l3a_status scatter_add_rows(struct scatter *scatter, const struct block *rows, double sign, const double *weight) {
    return scatter->algebra->scatter_add_rows(scatter, rows, sign, weight);
}

l3a_status scatter_add_sums(struct scatter *scatter, const struct sums *sums, double sign) {
    return scatter->algebra->scatter_add_sums(scatter, sums, sign);
}

l3a_status scatter_tidy(struct scatter *scatter, uint64_t rows) {
    return scatter->algebra->scatter_tidy(scatter, rows);
}

/* ---- Vectors ---- */

l3a_status vectors_wrap(l3a_context *context, size_t dim, size_t count, real type, void *memory, struct vectors *vectors) {
    *vectors = (struct vectors){.context = context, .algebra = algebra_of(context), .dim = dim, .count = count, .type = type};
    const l3a_status status = vectors->algebra->vectors_create(vectors, memory);
    if (status != L3A_OK) {
        vectors_free(vectors);
    }
    return status;
}

l3a_status vectors_create(l3a_context *context, size_t dim, size_t count, real type, struct vectors *vectors) {
    return vectors_wrap(context, dim, count, type, NULL, vectors);
}

void vectors_free(struct vectors *vectors) {
    if (vectors->held && !vectors->borrowed) {
        vectors->algebra->vectors_free(vectors);
    }
    memset(vectors, 0, sizeof *vectors);
}

l3a_status vectors_put(struct vectors *vectors, size_t first, size_t count, const void *values) {
    return vectors->algebra->vectors_put(vectors, first, count, values);
}

l3a_status vectors_get(const struct vectors *vectors, size_t first, size_t count, void *values) {
    return vectors->algebra->vectors_get(vectors, first, count, values);
}

l3a_status vectors_combine(struct vectors *to, const size_t *to_rows, const double *keep, const struct vectors *from,
                           const size_t *from_rows, const double *scale, size_t count) {
    return to->algebra->vectors_combine(to, to_rows, keep, from, from_rows, scale, count);
}

l3a_status vectors_dot(const struct dots *dots, size_t kinds, size_t count, double *results) {
    return dots->left->algebra->vectors_dot(dots, kinds, count, results);
}

l3a_status vectors_multiply(const struct sums *sums, double scale, double share, const struct mixture *mixtures, size_t count,
                            const struct vectors *x, struct vectors *y) {
    return sums->algebra->vectors_multiply(sums, scale, share, mixtures, count, x, y);
}

l3a_status vectors_solve(const struct sums *sums, struct vectors *vectors, size_t first, size_t count) {
    return sums->algebra->vectors_solve(sums, vectors, first, count);
}

/* The triangle travels in strips: large ones, since each of them waits for all processes. */
enum { SHARED = 1 << 20 };

static size_t shared_numbers(size_t d) {
    const uint64_t whole = triangle_numbers(0, d), most = d > SHARED ? d : SHARED;
    return (size_t)(whole < most ? whole : most);
}

static l3a_status share_triangle(struct sums *sums) {
    l3a_status status = L3A_OK;
    const size_t d = sums->dim;
    double *values = NULL;
    TRY(allocate(sums->context, shared_numbers(d), sizeof *values, &values));
    for (size_t first = 0, count; first < d; first += count) {
        for (count = 1; first + count < d && triangle_numbers(first, count + 1) <= SHARED; count++) {
        }
        TRY(sums_read(sums, ADDED, first, count, values));
        TRY(sum_numbers(sums->context, values, (size_t)triangle_numbers(first, count)));
        TRY(sums_write(sums, ADDED, first, count, values));
    }
done:
    release(sums->context, values);
    return status;
}

uint64_t sums_share_bytes(const l3a_context *context, size_t dim, size_t columns) {
    const uint64_t strip = shared_numbers(dim), added = (uint64_t)dim * columns;
    return learns_alone(context) ? 0 : (strip > added ? strip : added) * sizeof(double);
}

l3a_status sums_share(struct sums *sums, size_t columns, double *cross) {
    l3a_context *context = sums->context;
    l3a_status status = L3A_OK;
    const size_t d = sums->dim;
    double *added = NULL;
    if (learns_alone(context) || sums->algebra->shared) {
        return sums_cross(sums, 1, cross);
    }
    TRY(share_triangle(sums));
    TRY(allocate_zeroed(context, d, columns * sizeof *added, &added));
    TRY(sums_cross(sums, 1, added));
    TRY(sum_numbers(context, added, d * columns));
    for (size_t i = 0; i < d * columns; i++) {
        cross[i] += added[i];
    }
done:
    release(context, added);
    return status;
}
