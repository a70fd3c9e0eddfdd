#include "learn/part.h"

#include "base/memory.h"
#include "base/threads.h"

#include <math.h>
#include <string.h>

enum { STEPS = 60 };

/* The error of the solution, in the norm of M. On COCO and VOC, 1e-4 changes no mAP by more than 0.001, and takes one or two more
 * steps. */
static const double tolerance = 5e-4;

struct search {
    const struct analytic *analytic;
    const struct part *parts;
    size_t count, columns;
    double alpha, limit;
    double *target, *solution, *residual, *direction, *image; /* [columns x d] */
    float *narrow;                                            /* P⁻¹ residual */
    double *work;
    double *decrease; /* rᵀP⁻¹r of each column */
};

struct sum {
    const struct analytic *analytic;
    const struct part *parts;
    size_t count;
};

static void sum_rows(void *argument, size_t first, size_t last) {
    const struct sum *sum = argument;
    for (size_t i = first; i < last; i++) {
        double *row = analytic_row(sum->analytic, i);
        memset(row, 0, (i + 1) * sizeof *row);
        for (size_t j = 0; j < sum->count; j++) {
            packed_get(&sum->parts[j].sums, i * (i + 1) / 2, i + 1, 1, row);
        }
    }
}

void parts_sum(const struct analytic *analytic, const struct part *parts, size_t count) {
    struct sum sum = {analytic, parts, count};
    parallel_for(analytic->context->threads, analytic->dim, 16, sum_rows, &sum);
}

static void search_free(l3a_context *context, struct search *search) {
    void *const owned[] = {search->target, search->solution, search->residual, search->direction,
                           search->image,  search->narrow,   search->work,     search->decrease};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        release(context, owned[i]);
    }
}

static l3a_status search_create(struct search *search) {
    l3a_context *context = search->analytic->context;
    const size_t d = search->analytic->dim;
    double **const rows[] = {&search->target, &search->solution, &search->residual, &search->direction, &search->image};
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TRY(allocate(context, search->columns, d * sizeof(double), rows[i]));
    }
    TRY(allocate(context, search->columns, d * sizeof *search->narrow, &search->narrow));
    TRY(allocate(context, packed_multiply_work(context, d), sizeof *search->work, &search->work));
    TRY(allocate(context, search->columns, sizeof *search->decrease, &search->decrease));
done:
    return status;
}

static double dot(const double *left, const double *right, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += left[i] * right[i];
    }
    return sum;
}

static double dot_narrow(const double *left, const float *right, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += left[i] * (double)right[i];
    }
    return sum;
}

/* Whether a column has converged: ‖x - x*‖² ≤ tolerance² ‖x*‖² in the norm of M. ‖x*‖² is xᵀc; ‖x - x*‖² = rᵀM⁻¹r is at most the
 * largest eigenvalue of M⁻¹P, (α + (1 - α)/t)/α, times rᵀP⁻¹r. */
static bool has_arrived(const struct search *search, size_t k) {
    const size_t d = search->analytic->dim;
    return search->decrease[k] <= search->limit * dot(search->solution + k * d, search->target + k * d, d);
}

static bool have_arrived(const struct search *search, size_t first, size_t last) {
    while (first < last && has_arrived(search, first)) {
        first++;
    }
    return first == last;
}

static bool is_zero(const double *x, size_t count) {
    size_t i = 0;
    while (i < count && x[i] == 0) {
        i++;
    }
    return i == count;
}

/* image = M x, each row with the M of its class, for all parts or only those with columns that have not converged */
static void apply(const struct search *search, const double *x, bool all) {
    const struct analytic *analytic = search->analytic;
    const size_t d = analytic->dim;
    for (size_t j = 0; j < search->count; j++) {
        const struct part *part = &search->parts[j];
        const size_t first = part->first * d, count = (part->last - part->first) * d;
        if (!all && have_arrived(search, part->first, part->last)) {
            continue;
        }
        if (is_zero(x + first, count)) {
            memset(search->image + first, 0, count * sizeof *search->image);
            continue;
        }
        packed_multiply(analytic, search->alpha, &part->sums, 1 - search->alpha, x + first, part->last - part->first, search->work,
                        search->image + first);
        for (size_t i = first; i < first + count; i++) {
            search->image[i] += analytic->gamma * x[i];
        }
    }
}

static void precondition(const struct search *search) {
    for (size_t i = 0; i < search->columns * search->analytic->dim; i++) {
        search->narrow[i] = (float)search->residual[i];
    }
    analytic_solve_rows_single(search->analytic, search->columns, search->narrow);
}

/* Makes a step along the direction of each column; false if it cannot be computed. */
static bool step(const struct search *search) {
    const size_t d = search->analytic->dim;
    apply(search, search->direction, false);
    for (size_t k = 0; k < search->columns; k++) {
        const double *direction = search->direction + k * d, *image = search->image + k * d;
        double *solution = search->solution + k * d, *residual = search->residual + k * d;
        if (has_arrived(search, k)) {
            continue;
        }
        const double curvature = dot(direction, image, d), length = search->decrease[k] / curvature;
        if (!(curvature > 0) || !isfinite(length)) {
            return false;
        }
        for (size_t i = 0; i < d; i++) {
            solution[i] += length * direction[i];
            residual[i] -= length * image[i];
        }
    }
    precondition(search);
    for (size_t k = 0; k < search->columns; k++) {
        double *direction = search->direction + k * d;
        const float *narrow = search->narrow + k * d;
        const double now = dot_narrow(search->residual + k * d, narrow, d), keep = now / search->decrease[k];
        if (has_arrived(search, k)) {
            continue;
        }
        search->decrease[k] = now;
        for (size_t i = 0; i < d; i++) {
            direction[i] = (double)narrow[i] + keep * direction[i];
        }
    }
    return true;
}

/* Scales each start to its multiple nearest to the solution; its image must be known. */
static void scale_start(const struct search *search) {
    const size_t d = search->analytic->dim;
    for (size_t k = 0; k < search->columns; k++) {
        double *solution = search->solution + k * d, *image = search->image + k * d;
        const double length = dot(solution, image, d), scale = length > 0 ? dot(solution, search->target + k * d, d) / length : 0;
        for (size_t i = 0; i < d; i++) {
            solution[i] *= scale;
            image[i] *= scale;
        }
    }
}

/* Conjugate gradients on all columns at once; false if they do not converge. */
static bool search_run(struct search *search) {
    const size_t d = search->analytic->dim, size = search->columns * d;
    const double scale = search->alpha + (1 - search->alpha) / (double)search->count;
    search->limit = tolerance * tolerance * fmax(search->alpha / scale, 0.01);
    if (!analytic_factor_single(search->analytic, scale, search->analytic->gamma)) {
        return false;
    }
    apply(search, search->solution, true);
    scale_start(search);
    for (size_t i = 0; i < size; i++) {
        search->residual[i] = search->target[i] - search->image[i];
    }
    precondition(search);
    for (size_t k = 0; k < search->columns; k++) {
        search->decrease[k] = dot_narrow(search->residual + k * d, search->narrow + k * d, d);
    }
    for (size_t i = 0; i < size; i++) {
        search->direction[i] = (double)search->narrow[i];
    }
    for (int n = 0; n < STEPS && !have_arrived(search, 0, search->columns); n++) {
        if (!step(search)) {
            return false;
        }
    }
    return have_arrived(search, 0, search->columns);
}

/* Factors the matrix of each part, or only one if all are equal. rows [columns x d]: in, the targets; out, the solution. */
static l3a_status solve_each(const struct search *search, double *rows) {
    const struct analytic *analytic = search->analytic;
    l3a_status status = L3A_OK;
    for (size_t j = 0; j < search->count; j++) {
        const struct part *part = &search->parts[j];
        if (j == 0 || search->alpha < 1) {
            TRY(analytic_factor(analytic, search->alpha, &part->sums, 1 - search->alpha, analytic->gamma));
        }
        analytic_solve_rows(analytic, part->last - part->first, rows + part->first * analytic->dim);
    }
done:
    return status;
}

double parts_lift(double lift, size_t count) {
    return count ? lift * (double)(count - 1) / (double)(count + 8) : 0;
}

/* Adds to each of `count` columns, of d numbers, a share of the sum of all. */
static void lift_columns(double *columns, size_t d, size_t count, double share) {
    for (size_t i = 0; i < d && share != 0; i++) {
        double sum = 0;
        for (size_t k = 0; k < count; k++) {
            sum += columns[k * d + i];
        }
        for (size_t k = 0; k < count; k++) {
            columns[k * d + i] += share * sum;
        }
    }
}

/* The number of columns up to the last one that is not all zero. */
static size_t columns_in_use(const struct analytic *analytic, size_t columns, const double *weights) {
    size_t used = columns;
    bool zero = true;
    while (used && zero) {
        for (size_t i = 0; i < analytic->dim && zero; i++) {
            zero = weights[i * columns + used - 1] == 0;
        }
        used -= zero;
    }
    return used;
}

/* The trace of S, in the first triangle. */
static double trace(const struct analytic *analytic) {
    double sum = 0;
    for (size_t i = 0; i < analytic->dim; i++) {
        sum += analytic_row(analytic, i)[i];
    }
    return sum;
}

l3a_status parts_solve(const struct analytic *analytic, const struct part *parts, size_t count, double alpha, double lift,
                       size_t columns, const double *cross, double *weights) {
    l3a_context *context = analytic->context;
    const size_t d = analytic->dim, used = columns_in_use(analytic, columns, weights);
    l3a_status status = L3A_OK;
    const double before = parts_lift(lift, used < columns ? count - 1 : count);
    struct search search = {.analytic = analytic, .parts = parts, .count = count, .columns = columns, .alpha = alpha};
    parts_sum(analytic, parts, count);
    TRY(search_create(&search));
    transpose(cross, d, columns, search.target);
    transpose(weights, d, columns, search.solution);
    lift_columns(search.solution, d, used, -before / (1 + before * (double)used));
    if (alpha == 1 || parts->sums.type == REAL_DOUBLE || !analytic_is_safe(analytic, trace(analytic)) || !search_run(&search)) {
        memcpy(search.solution, search.target, columns * d * sizeof *search.solution);
        TRY(solve_each(&search, search.solution));
    }
    lift_columns(search.solution, d, columns, parts_lift(lift, count));
    TRY(check_weights(analytic, search.solution, columns));
    transpose(search.solution, columns, d, weights);
done:
    search_free(context, &search);
    return status;
}
