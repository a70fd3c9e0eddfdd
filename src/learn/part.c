#include "learn/part.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 60, TILE = 64, SEARCH_ARRAYS = 6, SEARCH_VECTORS = 7 };

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
/* If a search takes more steps than this, the next one gets a new factor. */
enum { MANY_STEPS = 16 };

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
    double *ahead;          /* [columns x d], by class: about how far the solution is from its start; NULL: not known */

    struct vectors target, solution, residual, direction; /* of each column */
    struct vectors from, image; /* of the columns that are worked on: what M is applied to, and the result */
    struct vectors narrow;      /* of the same: P⁻¹ residual, in single precision */
    double *rows;               /* [columns x d]: vectors on their way */
    double *decrease;           /* rᵀP⁻¹r of each column */
    size_t *going;              /* the columns that are worked on: those that have not converged */
    size_t going_count;
    struct mixture *mixtures; /* their systems */
    double *dots, *factors;   /* [2 x columns] */
};

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

static void search_close(struct search *search) {
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

/* Its systems are there already. If this fails, it is to be closed all the same. */
static l3a_status search_open(struct search *search) {
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

/* For each class the parts that judge it, a bit for each part. */
struct patterns {
    uint64_t *bits;
    size_t words; /* of a class */
};

static l3a_status patterns_make(l3a_context *context, const struct part *parts, size_t count, size_t columns,
                                struct patterns *patterns) {
    l3a_status status = L3A_OK;
    patterns->words = count / 64 + 1;
    TRY(allocate_zeroed(context, columns, patterns->words * sizeof *patterns->bits, &patterns->bits));
    for (size_t p = 0; p < count; p++) {
        for (size_t j = 0; j < parts[p].judged_count && parts[p].judged[j] < columns; j++) {
            patterns->bits[parts[p].judged[j] * patterns->words + p / 64] |= (uint64_t)1 << p % 64;
        }
    }
done:
    return status;
}

static uint64_t hash_words(const uint64_t *words, size_t count) {
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ words[i]) * 0x9E3779B97F4A7C15;
        hash ^= hash >> 29;
    }
    return hash;
}

/* Numbers the patterns in the order of their first class. Returns how many there are. places: as many as a power of 2 above the
 * number of classes, all 0. */
static size_t number_patterns(const struct patterns *patterns, size_t columns, size_t *places, size_t mask, size_t *number) {
    const size_t words = patterns->words;
    size_t count = 0;
    for (size_t k = 0; k < columns; k++) {
        const uint64_t *own = patterns->bits + k * words;
        size_t at = (size_t)hash_words(own, words) & mask;
        while (places[at] && memcmp(patterns->bits + (places[at] - 1) * words, own, words * sizeof *own) != 0) {
            at = (at + 1) & mask;
        }
        if (!places[at]) {
            places[at] = k + 1;
            number[k] = count++;
        } else {
            number[k] = number[places[at] - 1];
        }
    }
    return count;
}

/* Sorts the classes by the number of their system, and lists what each system has. */
static l3a_status fill_systems(l3a_context *context, const struct part *parts, size_t count, const struct patterns *patterns,
                               const size_t *number, size_t columns, struct systems *systems) {
    l3a_status status = L3A_OK;
    size_t all = 0, used = 0;
    for (size_t k = 0; k < columns; k++) {
        systems->items[number[k]].last++;
    }
    for (size_t s = 0, first = 0; s < systems->count; s++) {
        struct system *system = &systems->items[s];
        first += system->last;
        system->first = system->last = first - system->last;
    }
    for (size_t k = 0; k < columns; k++) {
        systems->order[systems->items[number[k]].last++] = k;
    }
    for (size_t s = 0; s < systems->count; s++) {
        const uint64_t *bits = patterns->bits + systems->order[systems->items[s].first] * patterns->words;
        for (size_t w = 0; w < patterns->words; w++) {
            all += (size_t)__builtin_popcountll(bits[w]);
        }
    }
    TRY(allocate(context, all, sizeof *systems->scatters, &systems->scatters));
    for (size_t s = 0; s < systems->count; s++) {
        struct system *system = &systems->items[s];
        const uint64_t *bits = patterns->bits + systems->order[system->first] * patterns->words;
        system->scatters = systems->scatters + used;
        for (size_t p = 0; p < count; p++) {
            if (bits[p / 64] >> p % 64 & 1) {
                system->scatters[system->count++] = &parts[p].sums;
            }
        }
        used += system->count;
    }
done:
    return status;
}

l3a_status systems_find(l3a_context *context, const struct part *parts, size_t count, double alpha, size_t columns,
                        struct systems *systems) {
    l3a_status status = L3A_OK;
    struct patterns patterns = {0};
    size_t *places = NULL, *number = NULL, mask = 1;
    const size_t judging = alpha == 1 ? 0 : count; /* with α = 1, it does not matter what judges a class */
    while (mask <= 2 * columns) {
        mask = 2 * mask + 1;
    }
    *systems = (struct systems){0};
    TRY(allocate(context, columns, sizeof *systems->order, &systems->order));
    TRY(allocate_zeroed(context, columns, sizeof *systems->items, &systems->items));
    TRY(allocate(context, columns, sizeof *number, &number));
    TRY(allocate_zeroed(context, mask + 1, sizeof *places, &places));
    TRY(patterns_make(context, parts, judging, columns, &patterns));
    systems->count = number_patterns(&patterns, columns, places, mask, number);
    TRY(fill_systems(context, parts, judging, &patterns, number, columns, systems));
done:
    release(context, patterns.bits);
    release(context, places);
    release(context, number);
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

/* rows = what an end has, in the order of the search */
static void from_end(const struct search *search, const double *values) {
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
    from_end(search, search->ahead);
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
        from_end(search, ends[n]);
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

/* Keeps where a search has ended, before the lift is added; if there is no memory for that, the next one begins anew. */
static l3a_status keep_end(struct search *search, bool found, struct search_end *end) {
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

/* Conjugate gradients on all columns at once, from their residuals. *found: whether they have converged. */
static l3a_status descend(struct search *search, bool *found) {
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

/* The square of the relative error at which rᵀP⁻¹r / xᵀc ends a search, with P of this scale. */
static double limit_of(const struct search *search, double error, double scale) {
    return error * error * fmax(search->alpha / scale, 0.01);
}

/* Searches for the columns of all classes. *found: it is not tried where rounding matters. */
static l3a_status search_run(struct search *search, bool anew, const struct search_end *end, double error, bool *found) {
    l3a_status status = L3A_OK;
    double scale;
    bool going;
    *found = false;
    TRY(factor(search, anew, &scale, &going));
    if (!going) {
        goto done;
    }
    search->limit = limit_of(search, error, scale);
    TRY(end ? resume(search, end) : begin(search));
    TRY(descend(search, found));
done:
    return status;
}

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
    search.limit = limit_of(&search, tolerance_of_rows, scale);
    TRY(descend(&search, &good));
    if (good) {
        TRY(vectors_get(&search.solution, 0, search.columns, search.rows));
        add_rows(classes, end, count, search.rows, end->solution);
        TRY(vectors_get(&search.residual, 0, search.columns, search.rows));
        add_rows(classes, end, count, search.rows, end->residual);
        add_errors(classes, &search, end);
        *found = is_good(classes, end, cross, limit_of(classes, tolerance_of_lessons, scale));
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
    search.limit = limit_of(&search, tolerance_ahead, scale);
    TRY(descend(&search, &good));
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
        TRY(factor(classes, false, &scale, &good));
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
        TRY(keep_end(search, found, end));
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
        from_end(&search, end->solution);
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
