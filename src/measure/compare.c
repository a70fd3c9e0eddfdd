#include "measure/compare.h"

#include "common/number.h"
#include "common/rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The standard deviation of the difference between two contenders; NaN if each has only one trial. */
static double difference_spread(const struct contender *left, const struct contender *right) {
    struct spread spread = {0};
    double result[2];
    for (size_t i = 0; i < left->results->count; i++) {
        const l3a_result *row = &left->results->rows[i];
        const size_t order = left->results->details[i].order;
        const struct trial own = {left->method, row->seed, order};
        double map, other;
        if (row->phase != 1 || strcmp(row->method, left->method) != 0) {
            continue;
        }
        for (size_t o = 0; o < l3a_results_order_count(right->results); o++) {
            const struct trial theirs = {right->method, row->seed, o};
            if (strcmp(l3a_results_order(left->results, order), l3a_results_order(right->results, o)) == 0 &&
                results_last_map(left->results, &own, &map) && results_last_map(right->results, &theirs, &other)) {
                spread_add(&spread, map - other);
            }
        }
    }
    if (spread.count > 1 && spread.count == left->summary->seeds && spread.count == right->summary->seeds) {
        spread_finish(&spread, result);
        return result[1];
    }
    return left->summary->seeds > 1 && right->summary->seeds > 1 ? hypot(left->summary->last_map[1], right->summary->last_map[1])
                                                                 : NAN;
}

struct clause {
    const struct contender *other; /* NULL: there is nobody to compare with */
    double shown, spread;          /* the difference as tables show it: two numbers there that differ never differ by 0.00 */
    bool level, within;
};

static struct clause compare(const struct contender *own, const struct contender *other) {
    struct clause clause = {.other = other};
    if (other) {
        const double left = own->summary->last_map[0], right = other->summary->last_map[0];
        clause.shown = fabs(left - right) < 0.095 ? as_printed(left, 2) - as_printed(right, 2) : left - right;
        clause.spread = difference_spread(own, other);
        clause.level = as_printed(left, 2) == as_printed(right, 2);
        clause.within = !clause.level && fabs(left - right) <= clause.spread;
    }
    return clause;
}

/* With a decimal point, in every locale. */
static void print_number(text_builder *text, double value, int decimals) {
    char number[64];
    snprintf(number, sizeof number, "%.*f", decimals, value);
    text_builder_print(text, "%s", number_use_point(number));
}

static void print_clause(const struct clause *clause, bool unit, text_builder *text) {
    if (clause->level) {
        text_builder_print(text, "level with %s", clause->other->label);
        return;
    }
    print_number(text, fabs(clause->shown), fabs(clause->shown) < 0.095 ? 2 : 1);
    text_builder_print(text, "%s %s %s", unit ? " mAP" : "", clause->shown > 0 ? "above" : "below", clause->other->label);
}

/* The contender with the highest last mAP, other than `except`; the first of several. */
static const struct contender *best_of(const struct contender *contenders, size_t count, bool phased,
                                       const struct contender *except) {
    const struct contender *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct contender *own = &contenders[i];
        const bool better = !best || as_printed(own->summary->last_map[0], 2) > as_printed(best->summary->last_map[0], 2);
        best = own != except && own->phased == phased && better ? own : best;
    }
    return best;
}

/* Joint learning, or the best of the methods that learn all classes at once. */
static const struct contender *bound_of(const struct contender *contenders, size_t count, const struct contender *except) {
    for (size_t i = 0; i < count; i++) {
        if (!contenders[i].phased && &contenders[i] != except && strcmp(contenders[i].method, "joint") == 0) {
            return &contenders[i];
        }
    }
    return best_of(contenders, count, false, except);
}

const char *spread_source(size_t orders, size_t trials) {
    return orders < 2 ? "the seeds" : trials > orders ? "the seeds and class orders" : "the class orders";
}

static void print_alone(const struct contender *own, text_builder *text) {
    text_builder_print(text, "%s ends at ", own->label);
    print_number(text, own->summary->last_map[0], 2);
    text_builder_print(text, " mAP over %zu classes.", own->results->classes.count);
}

void verdict_print(const struct contender *contenders, size_t count, text_builder *text) {
    const struct contender *own = best_of(contenders, count, true, NULL);
    own = own ? own : bound_of(contenders, count, NULL);
    if (!own) {
        return;
    }
    const struct clause rival = compare(own, own->phased ? best_of(contenders, count, true, own) : NULL),
                        bound = compare(own, bound_of(contenders, count, own));
    const char *source = spread_source(own->summary->orders, own->summary->seeds);
    if (!rival.other && !bound.other) {
        print_alone(own, text);
        return;
    }
    text_builder_print(text, "%s ends ", own->label);
    if (rival.other) {
        print_clause(&rival, true, text);
    }
    if (rival.other && bound.other) {
        text_builder_print(text, rival.within && !bound.within ? ", within the spread of %s, and " : " and ", source);
    }
    if (bound.other) {
        print_clause(&bound, !rival.other || rival.level, text);
    }
    if (rival.within && bound.within) {
        text_builder_print(text, ", both within the spread of %s", source);
    } else if (bound.other ? bound.within : rival.within) {
        text_builder_print(text, ", within the spread of %s", source);
    }
    text_builder_print(text, own->summary->seeds > 1 ? "." : ", with one seed.");
}

l3a_status l3a_results_verdict(l3a_context *context, const l3a_results *results, char *text, size_t capacity) {
    l3a_status status = L3A_OK;
    text_builder sentence = {.context = context};
    struct contender *contenders = NULL;
    l3a_summary *summaries = NULL;
    size_t count = 0, phases = 0;
    NEED(context, context, results, text);
    TRY(allocate_zeroed(context, results->methods.count + 1, sizeof *contenders, &contenders));
    TRY(allocate_zeroed(context, results->methods.count + 1, sizeof *summaries, &summaries));
    for (size_t i = 0; i < results->count; i++) {
        phases = results->rows[i].phase > phases ? results->rows[i].phase : phases;
    }
    for (size_t i = 0; i < results->count; i++) {
        const char *method = results->rows[i].method;
        if (i == 0 || results->rows[i - 1].method != method) { /* rows are sorted by method */
            summaries[count].size = sizeof summaries[count];
            TRY(l3a_results_summary(context, results, method, &summaries[count]));
            contenders[count] = (struct contender){method, method, results, &summaries[count], false};
            count++;
        }
        contenders[count - 1].phased = contenders[count - 1].phased || results->rows[i].phase > 1 || phases == 1;
    }
    verdict_print(contenders, count, &sentence);
    TRY(sentence.status);
    snprintf(text, capacity, "%s", sentence.length ? sentence.text : "");
done:
    text_builder_free(&sentence);
    release(context, contenders);
    release(context, summaries);
    return status;
}

/* ---- Thresholds ---- */

const char own_thresholds[] = "own";

void threshold_describe(const char *thresholds, const char *theta, char text[THRESHOLD_TEXT]) {
    const bool every = strcmp(thresholds, "per-class") == 0, taught = strcmp(thresholds, "taught") == 0;
    if (every || taught || strcmp(thresholds, "global") == 0) {
        snprintf(text, THRESHOLD_TEXT, "%s", every ? "fitted per class" : taught ? "fitted as when taught" : "fitted, one for all");
    } else if (strcmp(thresholds, own_thresholds) == 0) {
        snprintf(text, THRESHOLD_TEXT, "its own");
    } else {
        snprintf(text, THRESHOLD_TEXT, "σ > %.24s", theta[0] ? theta : "?");
    }
}
