#include "learn/part_solve.h"

#include "base/memory.h"
#include "learn/part_search.h"

#include <math.h>
#include <string.h>

enum { TILE = 64 };

/* The error of the solution, in the norm of M. On COCO and VOC, 1e-4 changes no mAP by more than 0.001, and takes one or two more
 * steps. */
static const double tolerance = 5e-4;
/* The same for a search that goes on from the last one, after a few images were added. What remains is known, and does not add up
 * from lesson to lesson. */
static const double tolerance_of_lessons = 1e-3;
/* The same for the solutions of a lesson's rows, which add up: the smaller, the more lessons until all classes are searched again.
 */
static const double tolerance_of_rows = 2e-5;
/* A search over rows takes more steps than one over classes, so it must be that much narrower. Columns are multiplied so many at a
 * time; fewer take hardly less time. */
enum { NARROWER = 3, TOGETHER = 16, FEWEST_AHEAD = 4 };
/* The error of the solutions of rows that only say where to look. */
static const double tolerance_ahead = 5e-3;

/* Factors the matrix of each system. */
static l3a_status solve_each(struct search *search) {
    l3a_status status = L3A_OK;
    TRY(vectors_combine(&search->solution, NULL, NULL, &search->target, NULL, NULL, search->columns));
    for (size_t s = 0; s < search->systems.count; s++) {
        const struct system *system = &search->systems.items[s];
        TRY(report_progress(search->ridge->sums.context, "solve", s, search->systems.count));
        TRY(system_factor(system, search->ridge, search->alpha));
        TRY(vectors_solve(&search->ridge->sums, &search->solution, system->first, system->last - system->first));
    }
done:
    return status;
}

/* Adds to the rows of the classes [0, count) a share of the sum of all of them. */
static void lift_rows(const struct search *search, size_t count, double share) {
    const size_t d = search->ridge->sums.dim;
    for (size_t first = 0; first < d && share != 0; first += TILE) {
        const size_t size = first + TILE < d ? TILE : d - first;
        double sum[TILE] = {0};
        for (size_t c = 0; c < search->columns; c++) {
            for (size_t i = 0; search->systems.order[c] < count && i < size; i++) {
                sum[i] += search->rows[c * d + first + i];
            }
        }
        for (size_t c = 0; c < search->columns; c++) {
            for (size_t i = 0; search->systems.order[c] < count && i < size; i++) {
                search->rows[c * d + first + i] += share * sum[i];
            }
        }
    }
}

/* The number of columns up to the last one that is not all zero. */
static size_t columns_in_use(size_t d, size_t columns, const double *coefficients) {
    size_t used = columns;
    bool zero = true;
    while (used && zero) {
        for (size_t i = 0; i < d && zero; i++) {
            zero = coefficients[i * columns + used - 1] == 0;
        }
        used -= zero;
    }
    return used;
}

/* Between matrices [d x columns] in the order of classes and rows in the order of the search. */
static void to_rows(const struct search *search, const double *from) {
    const size_t d = search->ridge->sums.dim;
    for (size_t first = 0; first < d; first += TILE) {
        const size_t last = first + TILE < d ? first + TILE : d;
        for (size_t c = 0; c < search->columns; c++) {
            for (size_t i = first; i < last; i++) {
                search->rows[c * d + i] = from[i * search->columns + search->systems.order[c]];
            }
        }
    }
}

static void from_rows(const struct search *search, double *to) {
    const size_t d = search->ridge->sums.dim;
    for (size_t first = 0; first < d; first += TILE) {
        const size_t last = first + TILE < d ? first + TILE : d;
        for (size_t c = 0; c < search->columns; c++) {
            for (size_t i = first; i < last; i++) {
                to[i * search->columns + search->systems.order[c]] = search->rows[c * d + i];
            }
        }
    }
}

/* ---- Lessons of few rows ---- */

/* The system of the classes that is number j of `count` at equal distances. */
static size_t chosen_system(const struct search *classes, size_t j, size_t count) {
    return count > 1 ? j * (classes->systems.count - 1) / (count - 1) : 0;
}

/* A search for the solutions u of M u = x, for so many systems of the classes and each row x that was added: column j n + i. */
static l3a_status open_rows(const struct search *classes, const struct search_end *end, size_t count, struct search *search) {
    l3a_context *context = classes->ridge->sums.context;
    const size_t d = classes->ridge->sums.dim, n = end->row_count;
    l3a_status status = L3A_OK;
    *search = (struct search){.ridge = classes->ridge, .parts = classes->parts, .columns = count * n, .alpha = classes->alpha};
    TRY(allocate(context, search->columns, sizeof *search->systems.order, &search->systems.order));
    TRY(allocate(context, count, sizeof *search->systems.items, &search->systems.items));
    search->systems.count = count;
    for (size_t j = 0; j < count; j++) {
        search->systems.items[j] = classes->systems.items[chosen_system(classes, j, count)];
        search->systems.items[j].first = j * n;
        search->systems.items[j].last = (j + 1) * n;
    }
    TRY(search_open(search));
    for (size_t c = 0; c < search->columns; c++) {
        search->systems.order[c] = c;
        memcpy(search->rows + c * d, end->rows + c % n * d, d * sizeof *search->rows);
    }
    TRY(vectors_put(&search->target, 0, search->columns, search->rows));
    TRY(vectors_put(&search->residual, 0, search->columns, search->rows));
    memset(search->rows, 0, search->columns * d * sizeof *search->rows);
    TRY(vectors_put(&search->solution, 0, search->columns, search->rows));
done:
    return status;
}

static void add_row(double factor, const double *row, size_t d, double *to) {
    for (size_t j = 0; factor != 0 && j < d; j++) {
        to[j] += factor * row[j];
    }
}

/* to_k += Σ e_ik u_i, with u_i from the rows of a search over `count` systems; between two of these, they are interpolated. */
static void add_rows(const struct search *classes, const struct search_end *end, size_t count, const double *from, double *to) {
    const size_t d = classes->ridge->sums.dim, n = end->row_count, last = classes->systems.count - 1;
    for (size_t s = 0; s <= last; s++) {
        const struct system *system = &classes->systems.items[s];
        const size_t j = last ? s * (count - 1) / last : 0;
        const size_t begin = chosen_system(classes, j, count), stop = j + 1 < count ? chosen_system(classes, j + 1, count) : begin;
        const double share = stop > begin ? (double)(s - begin) / (double)(stop - begin) : 0;
        for (size_t c = system->first; c < system->last; c++) {
            const size_t k = classes->systems.order[c];
            for (size_t i = 0; i < n; i++) {
                const double error = end->errors[i * end->columns + k];
                add_row((1 - share) * error, from + (j * n + i) * d, d, to + k * d);
                if (share > 0) {
                    add_row(share * error, from + ((j + 1) * n + i) * d, d, to + k * d);
                }
            }
        }
    }
}

/* The bound of √(rᵀP⁻¹r), by the triangle inequality. */
static void add_errors(const struct search *classes, const struct search *rows, const struct search_end *end) {
    for (size_t s = 0; s < classes->systems.count; s++) {
        const struct system *system = &classes->systems.items[s];
        for (size_t c = system->first; c < system->last; c++) {
            const size_t k = classes->systems.order[c];
            for (size_t i = 0; i < end->row_count; i++) {
                end->error[k] += fabs(end->errors[i * end->columns + k]) * sqrt(fmax(rows->decrease[s * end->row_count + i], 0));
            }
        }
    }
}

/* Whether what is left is within the tolerance for all classes. */
static bool is_good(const struct search *classes, const struct search_end *end, const double *cross, double limit) {
    const size_t d = classes->ridge->sums.dim, columns = classes->columns;
    bool good = true;
    for (size_t k = 0; k < columns && good; k++) {
        double square = 0;
        for (size_t i = 0; i < d; i++) {
            square += end->solution[k * d + i] * cross[i * columns + k];
        }
        good = end->error[k] * end->error[k] <= limit * square;
    }
    return good;
}

/* The residuals with the rows that were added. */
static void add_to_residuals(const struct search *classes, const struct search_end *end) {
    const size_t d = classes->ridge->sums.dim;
    matrix_multiply(classes->ridge->sums.context->threads, REAL_DOUBLE, true, false, end->columns, d, end->row_count, 1,
                    end->errors, end->columns, end->rows, d, 1, end->residual, d);
}

/* Forgets the rows, once the solution or the residual has them. */
static void drop_rows(l3a_context *context, struct search_end *end) {
    release(context, end->rows);
    release(context, end->errors);
    end->rows = end->errors = NULL;
    end->row_count = 0;
}

/* Solves for the rows that were added instead of for all classes. The residuals of all classes of a system change by multiples of
 * these rows, so their solutions change by the same multiples of the solutions for the rows:
 *
 *   r_k += Σ_i e_ik x_i     w_k += Σ_i e_ik u_i     M u_i = x_i
 *
 * *found: the end has the solutions. Otherwise it is where a search of all classes has to go on. */
static l3a_status solve_rows(const struct search *classes, const double *cross, double scale, struct search_end *end, bool *found) {
    const size_t count = classes->systems.count;
    struct search search = {.ridge = classes->ridge};
    l3a_status status = L3A_OK;
    bool good;
    TRY(open_rows(classes, end, count, &search));
    search.limit = search_limit(&search, tolerance_of_rows, scale);
    TRY(search_descend(&search, &good));
    if (good) {
        TRY(vectors_get(&search.solution, 0, search.columns, search.rows));
        add_rows(classes, end, count, search.rows, end->solution);
        TRY(vectors_get(&search.residual, 0, search.columns, search.rows));
        add_rows(classes, end, count, search.rows, end->residual);
        add_errors(classes, &search, end);
        *found = is_good(classes, end, cross, search_limit(classes, tolerance_of_lessons, scale));
    } else {
        add_to_residuals(classes, end);
    }
done:
    search_close(&search);
    return status;
}

/* With many systems, this is as much work as solving for the classes. But the solutions for the rows differ little from system to
 * system, so those of a few systems tell the others where to look. */
static l3a_status look_ahead(struct search *classes, double scale, struct search_end *end) {
    const size_t count = TOGETHER / end->row_count, size = classes->columns * classes->ridge->sums.dim;
    struct search search = {.ridge = classes->ridge};
    l3a_status status = L3A_OK;
    bool good;
    TRY(open_rows(classes, end, count, &search));
    search.limit = search_limit(&search, tolerance_ahead, scale);
    TRY(search_descend(&search, &good));
    if (good) {
        TRY(allocate_zeroed(classes->ridge->sums.context, size, sizeof *classes->ahead, &classes->ahead));
        TRY(vectors_get(&search.solution, 0, search.columns, search.rows));
        add_rows(classes, end, count, search.rows, classes->ahead);
    }
done:
    search_close(&search);
    return status;
}

/* Takes the rows that were added into account, in the way that promises the least work. */
static l3a_status take_rows(struct search *classes, const double *cross, struct search_end *end, bool *found) {
    const size_t columns = classes->systems.count * end->row_count;
    l3a_status status = L3A_OK;
    double scale;
    bool good = false;
    if (end->gamma == classes->ridge->gamma) {
        TRY(search_factor(classes, false, &scale, &good));
    }
    if (good && NARROWER * (columns / TOGETHER + 1) <= classes->columns / TOGETHER) {
        TRY(solve_rows(classes, cross, scale, end, found));
    } else {
        if (good && end->row_count <= TOGETHER / FEWEST_AHEAD && columns > TOGETHER * NARROWER) {
            TRY(look_ahead(classes, scale, end));
        }
        add_to_residuals(classes, end);
    }
    drop_rows(classes->ridge->sums.context, end);
done:
    return status;
}

/* Searches for all classes, up to this error. The search starts from `coefficients`, or from `end` if that is known. */
static l3a_status solve_classes(struct search *search, const struct part *parts, double lift, const double *cross,
                                const double *coefficients, double error, struct search_end *end) {
    l3a_status status = L3A_OK;
    const size_t columns = search->columns, count = search->parts;
    const size_t used = columns_in_use(search->ridge->sums.dim, columns, coefficients);
    const double before = parts_lift(lift, parts, used < columns ? count - 1 : count);
    bool found = false;
    TRY(search_open(search));
    to_rows(search, cross);
    TRY(vectors_put(&search->target, 0, columns, search->rows));
    to_rows(search, coefficients);
    lift_rows(search, used, -before / (1 + before * (double)used));
    TRY(vectors_put(&search->solution, 0, columns, search->rows));
    if (search->alpha < 1 && parts->sums.type == REAL_SINGLE) {
        const struct search_end *last = end && end->known ? end : NULL;
        const bool again = search->ridge->sums.factored || last;
        TRY(search_run(search, false, last, error, &found));
        if (!found && again) {
            TRY(search_run(search, true, NULL, tolerance, &found));
        }
    }
    if (!found) {
        TRY(solve_each(search));
    }
    if (end) {
        TRY(search_keep_end(search, found, end));
    }
    TRY(vectors_get(&search->solution, 0, columns, search->rows));
done:
    return status;
}

l3a_status parts_solve(struct ridge *ridge, const struct part *parts, size_t count, double alpha, double lift, size_t columns,
                       const double *cross, double *coefficients, struct search_end *end) {
    l3a_context *context = ridge->sums.context;
    l3a_status status = L3A_OK;
    struct search search = {.ridge = ridge, .parts = count, .columns = columns, .alpha = alpha};
    bool found = false;
    if (end && (!end->known || end->columns != columns)) {
        search_end_free(context, end);
    }
    const bool resumes = end && end->known, few = resumes && end->row_count;
    TRY(systems_find(context, parts, count, alpha, columns, &search.systems));
    if (few) {
        TRY(take_rows(&search, cross, end, &found));
    }
    if (found) {
        TRY(allocate(context, columns, ridge->sums.dim * sizeof *search.rows, &search.rows));
        search_take(&search, end->solution);
    } else {
        /* What is left after this one must leave room for what the next lessons of few rows add. */
        TRY(solve_classes(&search, parts, lift, cross, coefficients, few || !resumes ? tolerance : tolerance_of_lessons, end));
    }
    lift_rows(&search, columns, parts_lift(lift, parts, count));
    TRY(ridge_check_finite(ridge, search.rows, columns));
    from_rows(&search, coefficients);
done:
    search_close(&search);
    return status;
}
