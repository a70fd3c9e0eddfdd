/* Comparing methods: one sentence about who ends where. */
#ifndef L3A_COMPARE_H
#define L3A_COMPARE_H

#include "measure/results.h"

/* A method of a run, as a table or a page calls it. */
struct contender {
    const char *label, *method;
    const l3a_results *results;
    const l3a_summary *summary;
    bool phased; /* learns in phases; otherwise it is a bound for those that do, not a rival */
};

/* "l3a+ ends 2.1 mAP above l3a and 0.1 below joint, with one seed.": the best contender that learns in phases, the next one, and
 * joint learning if it was run. A difference is within the spread if it is at most its own standard deviation over the class orders
 * and seeds that both have: each order and seed is compared with itself. Prints nothing if there is no contender. */
void verdict_print(const struct contender *contenders, size_t count, text_builder *text);

/* What a number after ± is the deviation over: "the seeds", "the class orders", "the seeds and class orders". */
const char *spread_source(size_t orders, size_t trials);

/* Above which threshold a method predicts, for a column beside CF1 and OF1: "σ > 0.5", "fitted per class". */
enum { THRESHOLD_TEXT = 48 };
/* What the record of a run says of a method of the program's own that chooses its thresholds. */
extern const char own_thresholds[];
void threshold_describe(const char *thresholds, const char *theta, char text[THRESHOLD_TEXT]);

#endif
