/* Comparing methods: one sentence about who ends where. */
#ifndef L3A_COMPARE_H
#define L3A_COMPARE_H

#include "measure/significance.h"

/* "l3a+ ends 2.1 mAP above l3a (95 % interval 1.8 to 2.4) and 0.1 below joint+ (-0.1 to 0.3; may be chance).": the best contender
 * that learns in phases, the next one, and the bound. Fewer than five pairs cannot tell, and the sentence says so. Prints nothing
 * if there is no contender. */
l3a_status verdict_print(l3a_context *context, const struct contender *contenders, size_t count, text_builder *text);

/* The method that learns all classes at once and that the others are measured against: joint+ if l3a+ is among the methods,
 * otherwise joint; the other one if that was not run; NULL if neither was. */
const char *bound_name(const char *const *methods, size_t count);

/* What a number after ± is the deviation over: "the seeds", "the class orders", "the seeds and class orders". */
const char *spread_source(size_t orders, size_t trials);

/* Above which threshold a method predicts, for a column beside CF1 and OF1: "σ > 0.5", "fitted per class". */
enum { THRESHOLD_TEXT = 48 };
/* What the record of a run says of a method of the program's own that chooses its thresholds. */
extern const char own_thresholds[];
void threshold_describe(const char *thresholds, const char *theta, char text[THRESHOLD_TEXT]);

#endif
