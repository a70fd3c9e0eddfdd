/* Whether methods differ by more than chance: differences over paired trials. */
#ifndef L3A_SIGNIFICANCE_H
#define L3A_SIGNIFICANCE_H

#include "measure/results.h"

/* A method of a run, as a table or a page calls it. */
struct contender {
    const char *label, *method;
    const l3a_results *results;
    const l3a_summary *summary;
    bool phased; /* learns in phases; otherwise it is a bound for those that do, not a rival */
};

enum { PAIRS_TO_TELL = 5 }; /* the fewest that can */

/* The value of a summary by its name in tables: "last_mAP"; TRIAL_VALUES if there is none of that name. */
enum trial_value trial_value_find(const char *name);
/* Its mean and standard deviation. */
const double *summary_value(const l3a_summary *summary, size_t value);
/* Whether two contenders can be compared by a value: F1 only with the same threshold, and what is about phases only if both learn
 * in phases. */
bool can_compare(const struct contender *left, const struct contender *right, enum trial_value value);
/* The contender with the best value as tables print it, other than `except`: of those that learn in phases or, if not `phased`, of
 * the others; and, if `like` is not NULL, of those that can be compared with it. The first of several; NULL if there is none. */
const struct contender *best_of(const struct contender *contenders, size_t count, enum trial_value value, bool phased,
                                const struct contender *except, const struct contender *like);
/* Compares each contender with the reference or, if that is NULL, with the best that it can be compared with. */
l3a_status compare_all(l3a_context *context, const struct contender *contenders, size_t count, enum trial_value value,
                       const struct contender *reference, l3a_difference *differences);
/* The methods that have results, in order, as contenders that lack summary and phases; contenders may be NULL, to count them. */
size_t list_contenders(const l3a_results *const *results, size_t count, struct contender *contenders);
/* Fills these in. summaries has room for `count`. */
l3a_status complete_contenders(l3a_context *context, struct contender *contenders, size_t count, l3a_summary *summaries);

#endif
