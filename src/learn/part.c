#include "learn/part.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 60, SEARCH_ARRAYS = 11 };

/* The error of the solution, in the norm of M. On COCO and VOC, 1e-4 changes no mAP by more than 0.001, and takes one or two more
 * steps. */
static const double tolerance = 5e-4;
/* The same for a search that goes on from the last one, after a few images were added. What remains is known, and does not add up
 * from lesson to lesson. */
static const double tolerance_of_lessons = 1e-3;

l3a_status part_create_empty(l3a_context *context, size_t dim, real type, size_t first, size_t last, struct part *part) {
    l3a_status status = L3A_OK;
    *part = (struct part){.judged_count = last - first,
                          .phases = 1,
                          .sums = {.context = context, .algebra = algebra_of(context), .dim = dim, .type = type}};
    TRY(allocate(context, last - first, sizeof *part->judged, &part->judged));
    for (size_t k = first; k < last; k++) {
        part->judged[k - first] = k;
    }
done:
    return status;
}

l3a_status part_create(l3a_context *context, size_t dim, real type, size_t first, size_t last, struct part *part) {
    l3a_status status = L3A_OK;
    TRY(part_create_empty(context, dim, type, first, last, part));
    TRY(scatter_create(context, dim, type, &part->sums));
done:
    if (status != L3A_OK) {
        release(context, part->judged);
        *part = (struct part){0};
    }
    return status;
}

void part_free(struct part *part) {
    if (part->sums.context) {
        release(part->sums.context, part->judged);
    }
    scatter_free(&part->sums);
    *part = (struct part){0};
}

bool part_judges(const struct part *part, size_t class) {
    size_t low = 0, high = part->judged_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (part->judged[middle] < class) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < part->judged_count && part->judged[low] == class;
}

l3a_status part_fold(struct part *part, const struct part *from) {
    l3a_status status = L3A_OK;
    size_t *judged = NULL, count = 0, i = 0, j = 0;
    TRY(allocate(part->sums.context, part->judged_count + from->judged_count, sizeof *judged, &judged));
    TRY(scatter_add(&part->sums, &from->sums));
    while (i < part->judged_count || j < from->judged_count) {
        const size_t mine = i < part->judged_count ? part->judged[i] : SIZE_MAX;
        const size_t theirs = j < from->judged_count ? from->judged[j] : SIZE_MAX;
        judged[count++] = mine < theirs ? mine : theirs;
        i += mine <= theirs;
        j += theirs <= mine;
    }
    release(part->sums.context, part->judged);
    part->judged = judged;
    part->judged_count = count;
    part->phases += from->phases;
    part->images += from->images;
    judged = NULL;
done:
    release(part->sums.context, judged);
    return status;
}

/* Whether one part judges all classes that the other does. */
static bool contains(const struct part *part, const struct part *other) {
    bool all = part->judged_count >= other->judged_count;
    for (size_t i = 0; all && i < other->judged_count; i++) {
        all = part_judges(part, other->judged[i]);
    }
    return all;
}

static int compare_classes(const void *left, const void *right) {
    const size_t one = *(const size_t *)left, other = *(const size_t *)right;
    return (one > other) - (one < other);
}

void part_sort_judged(struct part *part) {
    qsort(part->judged, part->judged_count, sizeof *part->judged, compare_classes);
}

bool parts_agree(const struct part *one, const struct part *other) {
    return one->judged_count == other->judged_count &&
           memcmp(one->judged, other->judged, one->judged_count * sizeof *one->judged) == 0;
}

double parts_lift(double lift, const struct part *parts, size_t count) {
    double t = 0;
    for (size_t i = 0; i < count; i++) {
        bool least = true;
        for (size_t j = 0; least && j < count; j++) {
            least = i == j || !contains(&parts[i], &parts[j]);
        }
        t += least;
    }
    return t > 0 ? lift * (t - 1) / (t + 8) : 0;
}

struct search {
    struct ridge *ridge;
    size_t parts, columns;
    double alpha, limit;
    struct systems systems; /* the classes of the columns are in its order */

    double *target, *solution, *residual, *direction, *image; /* [columns x d] */
    double *decrease;                                         /* rᵀP⁻¹r of each column */
    size_t *going;                                            /* the columns that are worked on: those that have not converged */
    size_t going_count;
    double *from, *to; /* [going x d]: what M is applied to, and the result */
    double *roots;     /* [going x d]: the share of the roots in it */
    float *narrow;     /* [going x d]: P⁻¹ residual */
};

static void list_search(struct search *search, size_t d, size_t columns, struct array *list) {
    double **const rows[] = {&search->target, &search->solution, &search->residual, &search->direction,
                             &search->image,  &search->from,     &search->to,       &search->roots};
    for (size_t i = 0; i < 8; i++) {
        list[i] = (struct array){rows[i], columns, d * sizeof(double), false};
    }
    list[8] = (struct array){&search->narrow, columns, d * sizeof(float), false};
    list[9] = (struct array){&search->decrease, columns, sizeof(double), false};
    list[10] = (struct array){&search->going, columns, sizeof(size_t), false};
}

uint64_t parts_solve_bytes(enum place place, const l3a_context *context, size_t dim, size_t columns) {
    struct search none;
    struct array list[SEARCH_ARRAYS];
    list_search(&none, dim, columns, list);
    return processor_bytes(place, arrays_bytes(list, SEARCH_ARRAYS)) +
           algebra_of(context)->multiply_bytes(place, context, dim, columns);
}

l3a_status parts_sum(struct sums *sums, const struct part *parts, size_t count) {
    l3a_status status = L3A_OK;
    const struct scatter **scatters = NULL;
    TRY(allocate(sums->context, count, sizeof *scatters, &scatters));
    for (size_t i = 0; i < count; i++) {
        scatters[i] = &parts[i].sums;
    }
    TRY(sums_total(sums, scatters, count));
done:
    release(sums->context, scatters);
    return status;
}

static bool judged_alike(const struct part *parts, size_t count, size_t one, size_t other) {
    bool alike = true;
    for (size_t p = 0; alike && p < count; p++) {
        alike = part_judges(&parts[p], one) == part_judges(&parts[p], other);
    }
    return alike;
}

l3a_status systems_find(l3a_context *context, const struct part *parts, size_t count, double alpha, size_t columns,
                        struct systems *systems) {
    l3a_status status = L3A_OK;
    bool *placed = NULL;
    size_t used = 0, ordered = 0;
    *systems = (struct systems){0};
    TRY(allocate(context, columns, sizeof *systems->order, &systems->order));
    TRY(allocate(context, columns, sizeof *systems->items, &systems->items));
    TRY(allocate_zeroed(context, columns, sizeof *placed, &placed));
    TRY(allocate(context, columns, count * sizeof *systems->scatters, &systems->scatters));
    for (size_t k = 0; k < columns; k++) {
        struct system *system = &systems->items[systems->count];
        if (placed[k]) {
            continue;
        }
        *system = (struct system){.first = ordered, .scatters = systems->scatters + used};
        for (size_t other = k; other < columns; other++) {
            if (!placed[other] && (alpha == 1 || judged_alike(parts, count, k, other))) {
                systems->order[ordered++] = other;
                placed[other] = true;
            }
        }
        for (size_t p = 0; alpha < 1 && p < count; p++) {
            if (part_judges(&parts[p], k)) {
                system->scatters[system->count++] = &parts[p].sums;
            }
        }
        system->last = ordered;
        used += system->count;
        systems->count++;
    }
done:
    release(context, placed);
    if (status != L3A_OK) {
        systems_free(context, systems);
    }
    return status;
}

void systems_free(l3a_context *context, struct systems *systems) {
    release(context, systems->items);
    release(context, systems->order);
    release(context, systems->scatters);
    *systems = (struct systems){0};
}

l3a_status system_factor(const struct system *system, struct ridge *ridge, double alpha) {
    return ridge_factor(ridge, alpha, system->scatters, system->count, 1 - alpha);
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
 * largest eigenvalue of M⁻¹P, (α + (1 - α)/n)/α, times rᵀP⁻¹r. */
static bool has_arrived(const struct search *search, size_t k) {
    const size_t d = search->ridge->sums.dim;
    return search->decrease[k] <= search->limit * dot(search->solution + k * d, search->target + k * d, d);
}

static bool is_zero(const double *x, size_t count) {
    size_t i = 0;
    while (i < count && x[i] == 0) {
        i++;
    }
    return i == count;
}

enum columns { ALL, NOT_ZERO, NOT_ARRIVED };

static void choose_columns(struct search *search, enum columns which) {
    const size_t d = search->ridge->sums.dim;
    search->going_count = 0;
    for (size_t k = 0; k < search->columns; k++) {
        if (which == ALL || (which == NOT_ZERO ? !is_zero(search->solution + k * d, d) : !has_arrived(search, k))) {
            search->going[search->going_count++] = k;
        }
    }
}

static bool has_only_roots(const struct system *system) {
    size_t i = 0;
    while (i < system->count && system->scatters[i]->is_root) {
        i++;
    }
    return i == system->count;
}

/* to = M from, without γ, for the columns [first, last) of a system. A triangle is added to S while S is read. Roots are few rows,
 * so S is multiplied once for all systems that have no triangle, before (*done columns), and their roots come on top. */
static l3a_status apply_system(const struct search *search, const struct system *system, size_t first, size_t last, size_t *done) {
    l3a_status status = L3A_OK;
    const struct sums *sums = &search->ridge->sums;
    const size_t d = sums->dim, size = (last - first) * d;
    double *from = search->from + first * d, *to = search->to + first * d;
    if (!has_only_roots(system)) {
        return sums_multiply(sums, search->alpha, system->scatters, system->count, 1 - search->alpha, from, last - first, to);
    }
    if (*done < last) {
        TRY(sums_multiply(sums, search->alpha, NULL, 0, 0, from, search->going_count - first, to));
        *done = search->going_count;
    }
    if (system->count) {
        double *roots = search->roots;
        TRY(sums_multiply(sums, 0, system->scatters, system->count, 1 - search->alpha, from, last - first, roots));
        for (size_t i = 0; i < size; i++) {
            to[i] += roots[i];
        }
    }
done:
    return status;
}

/* image = M x, each column with the M of its class */
static l3a_status apply(const struct search *search, const double *x) {
    l3a_status status = L3A_OK;
    const struct ridge *ridge = search->ridge;
    const size_t d = ridge->sums.dim;
    size_t done = 0;
    for (size_t c = 0; c < search->going_count; c++) {
        memcpy(search->from + c * d, x + search->going[c] * d, d * sizeof *x);
    }
    for (size_t s = 0, first = 0, last; s < search->systems.count; s++, first = last) {
        const struct system *system = &search->systems.items[s];
        for (last = first; last < search->going_count && search->going[last] < system->last; last++) {
        }
        if (last > first) {
            TRY(apply_system(search, system, first, last, &done));
        }
    }
    for (size_t c = 0; c < search->going_count; c++) {
        double *image = search->image + search->going[c] * d;
        for (size_t i = 0; i < d; i++) {
            image[i] = search->to[c * d + i] + ridge->gamma * search->from[c * d + i];
        }
    }
done:
    return status;
}

static l3a_status precondition(const struct search *search) {
    const size_t d = search->ridge->sums.dim;
    for (size_t c = 0; c < search->going_count; c++) {
        const double *residual = search->residual + search->going[c] * d;
        for (size_t i = 0; i < d; i++) {
            search->narrow[c * d + i] = (float)residual[i];
        }
    }
    return sums_solve(&search->ridge->sums, REAL_SINGLE, search->going_count, search->narrow);
}

/* Moves each column along its direction, whose image is known; false if a step cannot be computed. */
static bool move(const struct search *search) {
    const size_t d = search->ridge->sums.dim;
    for (size_t c = 0; c < search->going_count; c++) {
        const size_t k = search->going[c];
        const double *direction = search->direction + k * d, *image = search->image + k * d;
        double *solution = search->solution + k * d, *residual = search->residual + k * d;
        const double curvature = dot(direction, image, d), length = search->decrease[k] / curvature;
        if (!(curvature > 0) || !isfinite(length)) {
            return false;
        }
        for (size_t i = 0; i < d; i++) {
            solution[i] += length * direction[i];
            residual[i] -= length * image[i];
        }
    }
    return true;
}

/* The next directions, from the preconditioned residuals, which are the first directions. */
static void turn(const struct search *search, bool first) {
    const size_t d = search->ridge->sums.dim;
    for (size_t c = 0; c < search->going_count; c++) {
        const size_t k = search->going[c];
        double *direction = search->direction + k * d;
        const float *narrow = search->narrow + c * d;
        const double now = dot_narrow(search->residual + k * d, narrow, d), keep = first ? 0 : now / search->decrease[k];
        search->decrease[k] = now;
        for (size_t i = 0; i < d; i++) {
            direction[i] = (double)narrow[i] + (first ? 0 : keep * direction[i]);
        }
    }
}

/* Scales each start to its multiple nearest to the solution; its image must be known. */
static void scale_start(const struct search *search) {
    const size_t d = search->ridge->sums.dim;
    for (size_t k = 0; k < search->columns; k++) {
        double *solution = search->solution + k * d, *image = search->image + k * d;
        const double length = dot(solution, image, d), scale = length > 0 ? dot(solution, search->target + k * d, d) / length : 0;
        for (size_t i = 0; i < d; i++) {
            solution[i] *= scale;
            image[i] *= scale;
        }
    }
}

/* Begins where the last search ended. */
static void resume(const struct search *search, const struct search_end *end) {
    const size_t d = search->ridge->sums.dim;
    const double change = search->ridge->gamma - end->gamma;
    for (size_t c = 0; c < search->columns; c++) {
        const double *solution = end->solution + search->systems.order[c] * d;
        const double *residual = end->residual + search->systems.order[c] * d;
        for (size_t i = 0; i < d; i++) {
            search->solution[c * d + i] = solution[i];
            search->residual[c * d + i] = residual[i] - change * solution[i];
        }
    }
}

/* Keeps where a search has ended, before the lift is added; if there is no memory for that, the next one begins anew. */
static void keep_end(const struct search *search, bool found, struct search_end *end) {
    const size_t d = search->ridge->sums.dim, size = search->columns * d;
    l3a_context *context = search->ridge->sums.context;
    if (end->columns != search->columns) {
        search_end_free(context, end);
    }
    end->known = false;
    if (!found || (!end->solution && (allocate(context, size, sizeof *end->solution, &end->solution) != L3A_OK ||
                                      allocate(context, size, sizeof *end->residual, &end->residual) != L3A_OK))) {
        return;
    }
    for (size_t c = 0; c < search->columns; c++) {
        memcpy(end->solution + search->systems.order[c] * d, search->solution + c * d, d * sizeof *end->solution);
        memcpy(end->residual + search->systems.order[c] * d, search->residual + c * d, d * sizeof *end->residual);
    }
    end->columns = search->columns;
    end->gamma = search->ridge->gamma;
    end->known = true;
}

void search_end_free(l3a_context *context, struct search_end *end) {
    release(context, end->solution);
    release(context, end->residual);
    *end = (struct search_end){.kept = end->kept};
}

static l3a_status start(struct search *search, const struct search_end *end) {
    l3a_status status = L3A_OK;
    const size_t size = search->columns * search->ridge->sums.dim;
    if (end) {
        resume(search, end);
    } else {
        choose_columns(search, NOT_ZERO);
        memset(search->image, 0, size * sizeof *search->image);
        TRY(apply(search, search->solution));
        scale_start(search);
        for (size_t i = 0; i < size; i++) {
            search->residual[i] = search->target[i] - search->image[i];
        }
    }
    choose_columns(search, ALL);
    TRY(precondition(search));
    turn(search, true);
    choose_columns(search, NOT_ARRIVED);
done:
    return status;
}

/* The factor of P. If there is one from before the sums last changed, it serves as well, because P has hardly changed, and it costs
 * nothing. *good: whether there is a factor, and rounding does not matter. */
static l3a_status factor(const struct search *search, bool anew, double *scale, bool *good) {
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
    TRY(sums_factor(sums, REAL_SINGLE, *scale, NULL, 0, 0, ridge->gamma, &trace, good));
    *good = *good && ridge_is_safe(ridge, trace / *scale);
    sums->factored = *good;
done:
    return status;
}

/* Conjugate gradients on all columns at once. *found: whether they have converged; they are not tried where rounding matters. */
static l3a_status search_run(struct search *search, bool anew, const struct search_end *end, bool *found) {
    l3a_status status = L3A_OK;
    double scale;
    bool going;
    *found = false;
    TRY(factor(search, anew, &scale, &going));
    if (!going) {
        goto done;
    }
    const double error = end ? tolerance_of_lessons : tolerance;
    search->limit = error * error * fmax(search->alpha / scale, 0.01);
    TRY(start(search, end));
    for (int n = 0; n < STEPS && going && search->going_count; n++) {
        TRY(apply(search, search->direction));
        going = move(search);
        if (going) {
            TRY(precondition(search));
            turn(search, false);
            choose_columns(search, NOT_ARRIVED);
        }
    }
    *found = going && !search->going_count;
done:
    return status;
}

/* Factors the matrix of each system. */
static l3a_status solve_each(const struct search *search) {
    l3a_status status = L3A_OK;
    const size_t d = search->ridge->sums.dim;
    memcpy(search->solution, search->target, search->columns * d * sizeof *search->solution);
    for (size_t s = 0; s < search->systems.count; s++) {
        const struct system *system = &search->systems.items[s];
        TRY(system_factor(system, search->ridge, search->alpha));
        TRY(sums_solve(&search->ridge->sums, REAL_DOUBLE, system->last - system->first, search->solution + system->first * d));
    }
done:
    return status;
}

/* Adds to the columns of the classes [0, count) a share of the sum of all of them. */
static void lift_columns(const struct search *search, size_t count, double share) {
    const size_t d = search->ridge->sums.dim;
    for (size_t i = 0; i < d && share != 0; i++) {
        double sum = 0;
        for (size_t c = 0; c < search->columns; c++) {
            sum += search->systems.order[c] < count ? search->solution[c * d + i] : 0;
        }
        for (size_t c = 0; c < search->columns; c++) {
            search->solution[c * d + i] += search->systems.order[c] < count ? share * sum : 0;
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
static void to_rows(const struct search *search, const double *from, double *rows) {
    const size_t d = search->ridge->sums.dim;
    for (size_t c = 0; c < search->columns; c++) {
        for (size_t i = 0; i < d; i++) {
            rows[c * d + i] = from[i * search->columns + search->systems.order[c]];
        }
    }
}

static void from_rows(const struct search *search, const double *rows, double *to) {
    const size_t d = search->ridge->sums.dim;
    for (size_t i = 0; i < d; i++) {
        for (size_t c = 0; c < search->columns; c++) {
            to[i * search->columns + search->systems.order[c]] = rows[c * d + i];
        }
    }
}

l3a_status parts_solve(struct ridge *ridge, const struct part *parts, size_t count, double alpha, double lift, size_t columns,
                       const double *cross, double *coefficients, struct search_end *end) {
    l3a_context *context = ridge->sums.context;
    l3a_status status = L3A_OK;
    const size_t d = ridge->sums.dim, used = columns_in_use(d, columns, coefficients);
    const double before = parts_lift(lift, parts, used < columns ? count - 1 : count);
    struct search search = {.ridge = ridge, .parts = count, .columns = columns, .alpha = alpha};
    struct array list[SEARCH_ARRAYS];
    bool found = false;
    list_search(&search, d, columns, list);
    TRY(arrays_allocate(context, list, SEARCH_ARRAYS));
    TRY(systems_find(context, parts, count, alpha, columns, &search.systems));
    to_rows(&search, cross, search.target);
    to_rows(&search, coefficients, search.solution);
    lift_columns(&search, used, -before / (1 + before * (double)used));
    if (alpha < 1 && parts->sums.type == REAL_SINGLE) {
        const struct search_end *last = end && end->known && end->columns == columns ? end : NULL;
        const bool again = ridge->sums.factored || last;
        TRY(search_run(&search, false, last, &found));
        if (!found && again) {
            TRY(search_run(&search, true, NULL, &found));
        }
    }
    if (!found) {
        TRY(solve_each(&search));
    }
    if (end) {
        keep_end(&search, found, end);
    }
    lift_columns(&search, columns, parts_lift(lift, parts, count));
    TRY(ridge_check_finite(ridge, search.solution, columns));
    from_rows(&search, search.solution, coefficients);
done:
    arrays_release(context, list, SEARCH_ARRAYS);
    systems_free(context, &search.systems);
    return status;
}
