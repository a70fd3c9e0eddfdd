/* Methods that learned with the same seed and the same class order have the same random layer and the same phases, so they are
 * compared pair by pair: d_i is what a method has more than the reference in trial i of the n that both have.
 *
 * The interval of the mean difference. Fewer than ten pairs: d̄ ± t s/√n, with the standard deviation s of the d_i and the quantile
 * t of Student's distribution with n − 1 degrees of freedom. From ten on: the percentile bootstrap. Each of 9999 samples draws n of
 * the d_i, with replacement, and the interval reaches from the 250th to the 9750th of their sorted means. Draw j of sample b, both
 * counted from 0, is number b·n + j of the project's random rule (base/random.h) with the seed 2025; so is every other choice here,
 * and the same table has the same numbers everywhere.
 *
 * The p value. Fewer than ten pairs: the paired t test. From ten on: if both methods were alike, each d_i could as well have the
 * opposite sign; p is the share of all 2ⁿ ways to choose the signs in which |Σ ± d_i| is at least |Σ d_i|. From 17 pairs on, it is
 * the share of 65536 of them: the signs as they are, and 65535 at random.
 *
 * Holm: with m comparisons, the k-th smallest p counts (m − k + 1) times, but no less than a smaller one, and at most 1. */
#include "measure/significance.h"

#include "base/random.h"
#include "common/closest.h"
#include "common/rank.h"
#include "measure/student.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_TO_RESAMPLE = 10, PAIRS_TO_LIST = 16 }; /* the most of which all signs are listed */
enum { SAMPLES = 9999, CUT = 250, SIGNS = 1 << PAIRS_TO_LIST };
static const uint64_t draw_seed = 2025;
static const double level = 0.05;

static const char *const value_names[TRIAL_VALUES] = {"avg_mAP", "last_mAP", "CF1", "OF1", "forgetting", "base_mAP", "new_mAP"};

enum trial_value trial_value_find(const char *name) {
    size_t i = 0;
    while (i < TRIAL_VALUES && strcmp(name, value_names[i]) != 0) {
        i++;
    }
    return (enum trial_value)i;
}

const double *summary_value(const l3a_summary *summary, size_t value) {
    const double *const values[TRIAL_VALUES] = {summary->average_map,     summary->last_map,   summary->last_class_f1,
                                                summary->last_overall_f1, summary->forgetting, summary->base_map,
                                                summary->new_map};
    return values[value];
}

/* ---- Who is compared with whom ---- */

static const char *threshold_of(const struct contender *contender) {
    return results_threshold(contender->results, contender->method);
}

bool can_compare(const struct contender *left, const struct contender *right, enum trial_value value) {
    const bool about_phases = value == AVERAGE_MAP || value == FORGETTING;
    const bool about_thresholds = value == LAST_CLASS_F1 || value == LAST_OVERALL_F1;
    return (!about_phases || (left->phased && right->phased)) &&
           (!about_thresholds || strcmp(threshold_of(left), threshold_of(right)) == 0) &&
           !isnan(summary_value(left->summary, value)[0]) && !isnan(summary_value(right->summary, value)[0]);
}

const struct contender *best_of(const struct contender *contenders, size_t count, enum trial_value value, bool phased,
                                const struct contender *except, const struct contender *like) {
    const struct contender *best = NULL;
    const double sign = value == FORGETTING ? -1 : 1;
    for (size_t i = 0; i < count; i++) {
        const struct contender *own = &contenders[i];
        const double shown = sign * as_printed(summary_value(own->summary, value)[0], 2);
        if (own != except && own->phased == phased && !isnan(shown) && (!like || can_compare(own, like, value)) &&
            (!best || shown > sign * as_printed(summary_value(best->summary, value)[0], 2))) {
            best = own;
        }
    }
    return best;
}

/* ---- Pairs ---- */

/* Whether a trial of one is a trial of the other, and has come as far. */
static bool are_paired(const struct contender *left, size_t first, size_t last, const struct contender *right, size_t other,
                       size_t other_last) {
    const l3a_results *one = left->results, *two = right->results;
    return one->rows[first].seed == two->rows[other].seed && one->rows[last].last == two->rows[other_last].last &&
           strcmp(l3a_results_order(one, one->details[first].order), l3a_results_order(two, two->details[other].order)) == 0;
}

/* What `left` has more than `right` in the trials that both have; `differences` has room for the trials of `left`. */
static size_t list_differences(const struct contender *left, const struct contender *right, enum trial_value value,
                               double *differences) {
    size_t count = 0;
    for (size_t i = 0; i < left->results->count; i++) {
        double own[TRIAL_VALUES], other[TRIAL_VALUES];
        if (left->results->rows[i].phase != 1 || strcmp(left->results->rows[i].method, left->method) != 0) {
            continue;
        }
        const size_t last = results_trial(left->results, i, own);
        for (size_t j = 0; j < right->results->count; j++) {
            if (right->results->rows[j].phase == 1 && right->results->rows[j].seed == left->results->rows[i].seed &&
                strcmp(right->results->rows[j].method, right->method) == 0 &&
                are_paired(left, i, last, right, j, results_trial(right->results, j, other))) {
                differences[count++] = own[value] - other[value];
                break;
            }
        }
    }
    return count;
}

/* ---- Intervals and p values ---- */

static int compare_numbers(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* means has room for SAMPLES numbers. */
static void bootstrap(const double *differences, size_t n, double *means, l3a_difference *found) {
    for (size_t b = 0; b < SAMPLES; b++) {
        double sum = 0;
        for (size_t j = 0; j < n; j++) {
            sum += differences[(size_t)(random_uniform(draw_seed, b * n + j) * (double)n)];
        }
        means[b] = sum / (double)n;
    }
    qsort(means, SAMPLES, sizeof *means, compare_numbers);
    found->low = means[CUT - 1];
    found->high = means[SAMPLES - CUT];
}

/* The sums of the differences with all signs; sums has room for 2ⁿ numbers. Returns how many there are. */
static size_t list_signs(const double *differences, size_t n, double *sums) {
    sums[0] = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < (size_t)1 << i; k++) {
            sums[k + ((size_t)1 << i)] = sums[k] - differences[i];
            sums[k] += differences[i];
        }
    }
    return (size_t)1 << n;
}

/* The same with the signs as they are, and at random. */
static size_t draw_signs(const double *differences, size_t n, double *sums) {
    for (size_t k = 0; k < SIGNS; k++) {
        sums[k] = 0;
        for (size_t i = 0; i < n; i++) {
            const bool kept = k == 0 || random_uniform(draw_seed, (k - 1) * n + i) < 0.5;
            sums[k] += kept ? differences[i] : -differences[i];
        }
    }
    return SIGNS;
}

static double flip_signs(const double *differences, size_t n, double *sums) {
    const size_t count = n <= PAIRS_TO_LIST ? list_signs(differences, n, sums) : draw_signs(differences, n, sums);
    double size = 0;
    for (size_t i = 0; i < n; i++) {
        size += fabs(differences[i]);
    }
    size_t reached = 0;
    for (size_t k = 0; k < count; k++) {
        reached += fabs(sums[k]) >= fabs(sums[0]) - 1e-12 * size ? 1 : 0; /* the same terms in another order differ by rounding */
    }
    return (double)reached / (double)count;
}

static void test_t(const double *differences, size_t n, l3a_difference *found) {
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        squares += (differences[i] - found->difference) * (differences[i] - found->difference);
    }
    const double error = sqrt(squares / (double)(n - 1) / (double)n), reach = student_quantile(level, n - 1) * error;
    found->low = found->difference - reach;
    found->high = found->difference + reach;
    found->p = error > 0 ? student_tail(found->difference / error, n - 1) : found->difference == 0 ? 1 : 0;
}

/* `space` has room for SIGNS numbers. */
static void test_pairs(const double *differences, size_t n, double *space, l3a_difference *found) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += differences[i];
    }
    found->pairs = n;
    found->difference = n ? sum / (double)n : NAN;
    if (n >= PAIRS_TO_RESAMPLE) {
        bootstrap(differences, n, space, found);
        found->p = flip_signs(differences, n, space);
        found->test = "sign flips";
        found->interval = "bootstrap";
    } else if (n > 1) {
        test_t(differences, n, found);
        found->test = "paired t";
        found->interval = "t";
    }
}

/* Fills in the adjusted p values, and which differences are more than chance. */
static void adjust(l3a_difference *differences, size_t count) {
    size_t tested = 0;
    for (size_t i = 0; i < count; i++) {
        tested += isnan(differences[i].p) ? 0 : 1;
    }
    double floor = 0, previous = -1;
    for (size_t done = 0; done < tested;) {
        double next = INFINITY;
        size_t alike = 0;
        for (size_t i = 0; i < count; i++) {
            next = differences[i].p > previous && differences[i].p < next ? differences[i].p : next;
        }
        floor = fmin(1, fmax(floor, next * (double)(tested - done)));
        for (size_t i = 0; i < count; i++) {
            if (differences[i].p == next) {
                differences[i].adjusted_p = floor;
                alike++;
            }
        }
        done += alike;
        previous = next;
    }
    for (size_t i = 0; i < count; i++) {
        l3a_difference *own = &differences[i];
        own->significant = own->pairs < PAIRS_TO_TELL ? -1 : own->adjusted_p < level ? 1 : 0;
    }
}

/* ---- All methods ---- */

/* What each contender is compared with: the reference if there is one, otherwise the best. */
static void choose_references(const struct contender *contenders, size_t count, enum trial_value value,
                              const struct contender *reference, const struct contender **references) {
    for (size_t i = 0; i < count; i++) {
        const struct contender *own = &contenders[i];
        if (reference) {
            references[i] = can_compare(own, reference, value) ? reference : NULL;
        } else if (i && references[i - 1] && can_compare(own, &contenders[i - 1], value)) {
            references[i] = references[i - 1];
        } else {
            references[i] = best_of(contenders, count, value, true, NULL, own);
            references[i] = references[i] ? references[i] : best_of(contenders, count, value, false, NULL, own);
        }
    }
}

/* Marks the best and all that may be as good, if there are enough pairs to tell of each rival. `rivals` and `unclear` are zeroed,
 * for each contender as a reference. */
static void mark_best(const struct contender *contenders, size_t count, enum trial_value value,
                      const struct contender *const *references, size_t *rivals, size_t *unclear, l3a_difference *differences) {
    const struct contender *checked = NULL;
    bool leads = false;
    for (size_t i = 0; i < count; i++) {
        if (contenders[i].phased && references[i] && references[i] != &contenders[i]) {
            rivals[references[i] - contenders]++;
            unclear[references[i] - contenders] += differences[i].significant < 0 ? 1 : 0;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const struct contender *reference = references[i];
        if (!reference || !contenders[i].phased) {
            continue;
        }
        leads = reference == checked ? leads : reference == best_of(contenders, count, value, true, NULL, reference);
        checked = reference;
        differences[i].best = leads && rivals[reference - contenders] && !unclear[reference - contenders] &&
                              (reference == &contenders[i] || differences[i].significant == 0);
    }
}

l3a_status compare_all(l3a_context *context, const struct contender *contenders, size_t count, enum trial_value value,
                       const struct contender *reference, l3a_difference *differences) {
    l3a_status status = L3A_OK;
    const struct contender **references = NULL;
    double *pairs = NULL, *space = NULL;
    size_t most = 1, *counts = NULL;
    for (size_t i = 0; i < count; i++) {
        most = contenders[i].summary->seeds > most ? contenders[i].summary->seeds : most;
    }
    TRY(allocate_zeroed(context, count + 1, sizeof *references, &references));
    TRY(allocate_zeroed(context, count + 1, 2 * sizeof *counts, &counts));
    TRY(allocate(context, most, sizeof *pairs, &pairs));
    TRY(allocate(context, SIGNS, sizeof *space, &space));
    choose_references(contenders, count, value, reference, references);
    for (size_t i = 0; i < count; i++) {
        const struct contender *own = &contenders[i], *other = references[i];
        differences[i] = (l3a_difference){.method = own->method,
                                          .reference = other ? other->method : NULL,
                                          .reference_index = other ? (size_t)(other - contenders) : SIZE_MAX,
                                          .difference = NAN,
                                          .low = NAN,
                                          .high = NAN,
                                          .p = NAN,
                                          .adjusted_p = NAN};
        if (other && other != own) {
            test_pairs(pairs, list_differences(own, other, value, pairs), space, &differences[i]);
        }
    }
    adjust(differences, count);
    mark_best(contenders, count, value, references, counts, counts + count, differences);
done:
    release(context, references);
    release(context, counts);
    release(context, pairs);
    release(context, space);
    return status;
}

l3a_status complete_contenders(l3a_context *context, struct contender *contenders, size_t count, l3a_summary *summaries) {
    l3a_status status = L3A_OK;
    size_t phases = 0;
    for (size_t i = 0; i < count; i++) {
        const l3a_results *results = contenders[i].results;
        summaries[i].size = sizeof summaries[i];
        TRY(l3a_results_summary(context, results, contenders[i].method, &summaries[i]));
        contenders[i].summary = &summaries[i];
        for (size_t j = 0; j < results->count; j++) {
            phases = results->rows[j].phase > phases ? results->rows[j].phase : phases;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const l3a_results *results = contenders[i].results;
        for (size_t j = 0; j < results->count; j++) {
            contenders[i].phased = contenders[i].phased || phases == 1 ||
                                   (results->rows[j].phase > 1 && strcmp(results->rows[j].method, contenders[i].method) == 0);
        }
    }
done:
    return status;
}

/* ---- The public functions ---- */

struct l3a_significance {
    l3a_context *context;
    l3a_difference *differences;
    size_t count;
};

void l3a_significance_free(l3a_significance *significance) {
    if (significance) {
        release(significance->context, significance->differences);
        release(significance->context, significance);
    }
}

size_t l3a_significance_count(const l3a_significance *significance) {
    return significance ? significance->count : 0;
}

const l3a_difference *l3a_significance_at(const l3a_significance *significance, size_t index) {
    return significance && index < significance->count ? &significance->differences[index] : NULL;
}

size_t list_contenders(const l3a_results *const *results, size_t count, struct contender *contenders) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < results[i]->count; j++) {
            const char *method = results[i]->rows[j].method;
            if (j == 0 || results[i]->rows[j - 1].method != method) { /* rows are sorted by method */
                if (contenders) {
                    contenders[found] = (struct contender){method, method, results[i], NULL, false};
                }
                found++;
            }
        }
    }
    return found;
}

static l3a_status fail_metric(l3a_context *context, const char *metric) {
    char hint[128];
    suggest_closest(hint, sizeof hint, metric, value_names, TRIAL_VALUES, "use avg_mAP, last_mAP, CF1, OF1 or forgetting");
    return fail(context, L3A_ERROR_ARGUMENT, hint, "there is no metric '%s'", metric);
}

l3a_status l3a_results_significance(l3a_context *context, const l3a_results *const *results, size_t count, const char *metric,
                                    size_t reference, l3a_significance **significance) {
    l3a_status status = L3A_OK;
    l3a_significance *made = NULL;
    struct contender *contenders = NULL;
    l3a_summary *summaries = NULL;
    NEED(context, context, results, significance);
    for (size_t i = 0; i < count; i++) {
        FAIL_IF(!results[i], context, L3A_ERROR_ARGUMENT, NULL, "%s: results %zu are NULL", __func__, i);
    }
    const enum trial_value value = metric ? trial_value_find(metric) : LAST_MAP;
    if (value == TRIAL_VALUES) {
        status = fail_metric(context, metric);
        goto done;
    }
    const size_t found = list_contenders(results, count, NULL);
    FAIL_IF(reference != SIZE_MAX && reference >= found, context, L3A_ERROR_ARGUMENT, "use an index below the number of methods",
            "%s: there is no method %zu to compare with", __func__, reference);
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    TRY(allocate_zeroed(context, found + 1, sizeof *made->differences, &made->differences));
    TRY(allocate_zeroed(context, found + 1, sizeof *contenders, &contenders));
    TRY(allocate_zeroed(context, found + 1, sizeof *summaries, &summaries));
    list_contenders(results, count, contenders);
    TRY(complete_contenders(context, contenders, found, summaries));
    TRY(compare_all(context, contenders, found, value, reference < found ? &contenders[reference] : NULL, made->differences));
    made->count = found;
    *significance = made;
    made = NULL;
done:
    l3a_significance_free(made);
    release(context, contenders);
    release(context, summaries);
    return status;
}
