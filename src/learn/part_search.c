#include "learn/part_search.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { STEPS = 60, SEARCH_ARRAYS = 6, SEARCH_VECTORS = 7 };
/* If a search takes more steps than this, the next one gets a new factor. */
enum { MANY_STEPS = 16 };

static void list_search(struct search *search, size_t d, size_t columns, struct array *list) {
    list[0] = (struct array){&search->rows, columns, d * sizeof(double), false};
    list[1] = (struct array){&search->decrease, columns, sizeof(double), false};
    list[2] = (struct array){&search->going, columns, sizeof(size_t), false};
    list[3] = (struct array){&search->mixtures, columns, sizeof(struct mixture), false};
    list[4] = (struct array){&search->dots, 2 * columns, sizeof(double), false};
    list[5] = (struct array){&search->factors, 2 * columns, sizeof(double), false};
}

/* The last ones are in single precision. */
static void list_vectors(struct search *search, struct vectors **list) {
    struct vectors *const all[SEARCH_VECTORS] = {&search->target, &search->solution, &search->residual, &search->direction,
                                                 &search->from,   &search->image,    &search->narrow};
    memcpy(list, all, sizeof all);
}

static real vectors_type(size_t index) {
    return index == SEARCH_VECTORS - 1 ? REAL_SINGLE : REAL_DOUBLE;
}

uint64_t parts_solve_bytes(enum place place, const l3a_context *context, size_t dim, size_t columns) {
    const struct algebra *algebra = algebra_of(context);
    struct search none;
    struct array list[SEARCH_ARRAYS];
    list_search(&none, dim, columns, list);
    uint64_t bytes =
        processor_bytes(place, arrays_bytes(list, SEARCH_ARRAYS)) + algebra->multiply_bytes(place, context, dim, columns);
    for (size_t i = 0; i < SEARCH_VECTORS; i++) {
        bytes += algebra->vectors_bytes(place, dim, columns, vectors_type(i));
    }
    return bytes;
}

void search_close(struct search *search) {
    l3a_context *context = search->ridge->sums.context;
    struct array list[SEARCH_ARRAYS];
    struct vectors *vectors[SEARCH_VECTORS];
    list_search(search, search->ridge->sums.dim, search->columns, list);
    list_vectors(search, vectors);
    arrays_release(context, list, SEARCH_ARRAYS);
    for (size_t i = 0; i < SEARCH_VECTORS; i++) {
        vectors_free(vectors[i]);
    }
    systems_free(context, &search->systems);
    release(context, search->ahead);
}

l3a_status search_open(struct search *search) {
    l3a_context *context = search->ridge->sums.context;
    l3a_status status = L3A_OK;
    const size_t d = search->ridge->sums.dim, columns = search->columns;
    struct array list[SEARCH_ARRAYS];
    struct vectors *vectors[SEARCH_VECTORS];
    list_search(search, d, columns, list);
    list_vectors(search, vectors);
    TRY(arrays_allocate(context, list, SEARCH_ARRAYS));
    for (size_t i = 0; i < SEARCH_VECTORS; i++) {
        TRY(vectors_create(context, d, columns, vectors_type(i), vectors[i]));
    }
done:
    return status;
}

/* The same factor for each column that is worked on, in the first or the second place. */
static const double *fill_factors(const struct search *search, size_t place, double factor) {
    double *factors = search->factors + place * search->columns;
    for (size_t c = 0; c < search->columns; c++) {
        factors[c] = factor;
    }
    return factors;
}

/* image = M x, each column with the M of its class */
static l3a_status apply(struct search *search, const struct vectors *x) {
    l3a_status status = L3A_OK;
    const struct ridge *ridge = search->ridge;
    const size_t going = search->going_count;
    size_t count = 0;
    for (size_t s = 0, first = 0, last; s < search->systems.count; s++, first = last) {
        const struct system *system = &search->systems.items[s];
        for (last = first; last < going && search->going[last] < system->last; last++) {
        }
        if (last > first) {
            search->mixtures[count++] = (struct mixture){last - first, system->scatters, system->count};
        }
    }
    TRY(vectors_combine(&search->from, NULL, NULL, x, search->going, NULL, going));
    TRY(vectors_multiply(&ridge->sums, search->alpha, 1 - search->alpha, search->mixtures, count, &search->from, &search->image));
    TRY(vectors_combine(&search->image, NULL, fill_factors(search, 0, 1), &search->from, NULL,
                        fill_factors(search, 1, ridge->gamma), going));
done:
    return status;
}

static l3a_status precondition(struct search *search) {
    l3a_status status = L3A_OK;
    TRY(vectors_combine(&search->narrow, NULL, NULL, &search->residual, search->going, NULL, search->going_count));
    TRY(vectors_solve(&search->ridge->sums, &search->narrow, 0, search->going_count));
done:
    return status;
}

/* Moves each column along its direction, whose image is known. *good: whether all steps can be computed. */
static l3a_status move(struct search *search, bool *good) {
    l3a_status status = L3A_OK;
    const struct dots curvature = {&search->direction, search->going, &search->image, NULL};
    double *length = search->factors;
    size_t count = 0;
    TRY(vectors_dot(&curvature, 1, search->going_count, search->dots));
    for (*good = true; count < search->going_count && *good; count += *good) {
        length[count] = search->decrease[search->going[count]] / search->dots[count];
        *good = search->dots[count] > 0 && isfinite(length[count]);
    }
    const double *one = fill_factors(search, 1, 1);
    TRY(vectors_combine(&search->solution, search->going, one, &search->direction, search->going, length, count));
    for (size_t c = 0; c < count; c++) {
        length[c] = -length[c];
    }
    TRY(vectors_combine(&search->residual, search->going, one, &search->image, NULL, length, count));
done:
    return status;
}

/* Drops the columns that have converged: ‖x - x*‖² ≤ tolerance² ‖x*‖² in the norm of M. ‖x*‖² is xᵀc, which is given for each
 * column that is worked on; ‖x - x*‖² = rᵀM⁻¹r is at most the largest eigenvalue of M⁻¹P, (α + (1 - α)/n)/α, times rᵀP⁻¹r. */
static void drop_arrived(struct search *search, const double *square) {
    size_t left = 0;
    for (size_t c = 0; c < search->going_count; c++) {
        const size_t k = search->going[c];
        const bool arrived = search->decrease[k] <= search->limit * square[c];
        search->going[left] = k;
        left += !arrived;
    }
    search->going_count = left;
}

/* The next directions, from the preconditioned residuals, which are the first directions. */
static l3a_status turn(struct search *search, bool first) {
    l3a_status status = L3A_OK;
    const struct dots dots[] = {{&search->residual, search->going, &search->narrow, NULL},
                                {&search->solution, search->going, &search->target, search->going}};
    const size_t count = search->going_count;
    double *keep = search->factors;
    TRY(vectors_dot(dots, 2, count, search->dots));
    for (size_t c = 0; c < count; c++) {
        const size_t k = search->going[c];
        keep[c] = first ? 0 : search->dots[c] / search->decrease[k];
        search->decrease[k] = search->dots[c];
    }
    TRY(vectors_combine(&search->direction, search->going, keep, &search->narrow, NULL, NULL, count));
    drop_arrived(search, search->dots + count);
done:
    return status;
}

static void choose_all(struct search *search) {
    for (size_t k = 0; k < search->columns; k++) {
        search->going[k] = k;
    }
    search->going_count = search->columns;
}

/* Those whose start is not 0. */
static l3a_status choose_started(struct search *search) {
    l3a_status status = L3A_OK;
    const struct dots squares = {&search->solution, NULL, &search->solution, NULL};
    search->going_count = 0;
    TRY(vectors_dot(&squares, 1, search->columns, search->dots));
    for (size_t k = 0; k < search->columns; k++) {
        if (search->dots[k] != 0) {
            search->going[search->going_count++] = k;
        }
    }
done:
    return status;
}

/* Begins with each start scaled to its multiple nearest to the solution. */
static l3a_status begin(struct search *search) {
    l3a_status status = L3A_OK;
    const struct dots dots[] = {{&search->solution, search->going, &search->image, NULL},
                                {&search->solution, search->going, &search->target, search->going}};
    double *scale = search->factors;
    TRY(vectors_combine(&search->residual, NULL, NULL, &search->target, NULL, NULL, search->columns));
    TRY(choose_started(search));
    const size_t count = search->going_count;
    if (!count) {
        goto done;
    }
    TRY(apply(search, &search->solution));
    TRY(vectors_dot(dots, 2, count, search->dots));
    for (size_t c = 0; c < count; c++) {
        scale[c] = search->dots[c] > 0 ? search->dots[count + c] / search->dots[c] : 0;
    }
    TRY(vectors_combine(&search->solution, search->going, NULL, &search->solution, search->going, scale, count));
    for (size_t c = 0; c < count; c++) {
        scale[c] = -scale[c];
    }
    TRY(vectors_combine(&search->residual, search->going, fill_factors(search, 1, 1), &search->image, NULL, scale, count));
done:
    return status;
}

void search_take(const struct search *search, const double *values) {
    const size_t d = search->ridge->sums.dim;
    for (size_t c = 0; c < search->columns; c++) {
        memcpy(search->rows + c * d, values + search->systems.order[c] * d, d * sizeof *search->rows);
    }
}

/* Moves to where the solution should be. */
static l3a_status move_ahead(struct search *search) {
    l3a_status status = L3A_OK;
    const size_t columns = search->columns;
    choose_all(search);
    search_take(search, search->ahead);
    TRY(vectors_put(&search->direction, 0, columns, search->rows));
    TRY(apply(search, &search->direction));
    TRY(vectors_combine(&search->solution, NULL, fill_factors(search, 0, 1), &search->direction, NULL, NULL, columns));
    TRY(vectors_combine(&search->residual, NULL, fill_factors(search, 0, 1), &search->image, NULL, fill_factors(search, 1, -1),
                        columns));
done:
    return status;
}

/* Begins where the last search ended. */
static l3a_status resume(struct search *search, const struct search_end *end) {
    l3a_status status = L3A_OK;
    const double *const ends[] = {end->solution, end->residual};
    struct vectors *const to[] = {&search->solution, &search->residual};
    for (size_t n = 0; n < 2; n++) {
        search_take(search, ends[n]);
        TRY(vectors_put(to[n], 0, search->columns, search->rows));
    }
    TRY(vectors_combine(&search->residual, NULL, fill_factors(search, 0, 1), &search->solution, NULL,
                        fill_factors(search, 1, -(search->ridge->gamma - end->gamma)), search->columns));
    if (search->ahead) {
        TRY(move_ahead(search));
    }
done:
    return status;
}

l3a_status search_keep_end(struct search *search, bool found, struct search_end *end) {
    l3a_status status = L3A_OK;
    const size_t d = search->ridge->sums.dim, size = search->columns * d;
    l3a_context *context = search->ridge->sums.context;
    if (end->columns != search->columns) {
        search_end_free(context, end);
    }
    end->known = false;
    if (!found || (!end->solution && (allocate(context, size, sizeof *end->solution, &end->solution) != L3A_OK ||
                                      allocate(context, size, sizeof *end->residual, &end->residual) != L3A_OK ||
                                      allocate(context, search->columns, sizeof *end->error, &end->error) != L3A_OK))) {
        search_end_free(context, end);
        return L3A_OK;
    }
    for (size_t c = 0; c < search->columns; c++) {
        end->error[search->systems.order[c]] = sqrt(fmax(search->decrease[c], 0));
    }
    double *const ends[] = {end->solution, end->residual};
    const struct vectors *const from[] = {&search->solution, &search->residual};
    for (size_t n = 0; n < 2; n++) {
        TRY(vectors_get(from[n], 0, search->columns, search->rows));
        for (size_t c = 0; c < search->columns; c++) {
            memcpy(ends[n] + search->systems.order[c] * d, search->rows + c * d, d * sizeof *search->rows);
        }
    }
    end->columns = search->columns;
    end->gamma = search->ridge->gamma;
    end->known = true;
done:
    return status;
}

void search_end_free(l3a_context *context, struct search_end *end) {
    release(context, end->solution);
    release(context, end->residual);
    release(context, end->error);
    release(context, end->rows);
    release(context, end->errors);
    *end = (struct search_end){.kept = end->kept};
}

l3a_status search_factor(const struct search *search, bool anew, double *scale, bool *good) {
    struct ridge *ridge = search->ridge;
    struct sums *sums = &ridge->sums;
    l3a_status status = L3A_OK;
    double trace;
    *good = true;
    *scale = search->alpha + (1 - search->alpha) / (double)search->parts;
    if (!anew && sums->factored && sums->factor_type == REAL_SINGLE && sums->scale > 0 && sums->shift == ridge->gamma) {
        *scale = sums->scale;
        goto done;
    }
    const double change = ridge->beside.times * (search->alpha - *scale); /* so that P has as much of it as M */
    TRY(sums_factor(sums, REAL_SINGLE, *scale, &ridge->beside.scatter, ridge->beside.scatter ? 1 : 0, change, ridge->gamma, &trace,
                    good));
    sums->scale = *scale;
    *good = *good && ridge_is_safe(ridge, trace / *scale);
    sums->factored = *good;
done:
    return status;
}

l3a_status search_descend(struct search *search, bool *found) {
    l3a_context *context = search->ridge->sums.context;
    l3a_status status = L3A_OK;
    bool going = true;
    uint64_t n = 0;
    choose_all(search);
    TRY(precondition(search));
    TRY(turn(search, true));
    for (; n < STEPS && going && search->going_count; n++) {
        TRY(report_progress(context, "solve", n, STEPS));
        TRY(apply(search, &search->direction));
        TRY(report_progress(context, "solve", n, STEPS));
        TRY(move(search, &going));
        if (going) {
            TRY(precondition(search));
            TRY(turn(search, false));
        }
    }
    *found = going && !search->going_count;
    search->ridge->sums.factored = n <= MANY_STEPS;
done:
    return status;
}

double search_limit(const struct search *search, double error, double scale) {
    return error * error * fmax(search->alpha / scale, 0.01);
}

l3a_status search_run(struct search *search, bool anew, const struct search_end *end, double error, bool *found) {
    l3a_status status = L3A_OK;
    double scale;
    bool going;
    *found = false;
    TRY(search_factor(search, anew, &scale, &going));
    if (!going) {
        goto done;
    }
    search->limit = search_limit(search, error, scale);
    TRY(end ? resume(search, end) : begin(search));
    TRY(search_descend(search, found));
done:
    return status;
}
