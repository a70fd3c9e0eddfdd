#include "measure/compare.h"

#include "common/number.h"
#include "common/rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct clause {
    const struct contender *other; /* NULL: there is nobody to compare with */
    double shown;                  /* the difference as tables show it: two numbers there that differ never differ by 0.00 */
    bool level;
    const l3a_difference *difference; /* of the other, minus this one */
};

static struct clause compare(const struct contender *own, const struct contender *other, const l3a_difference *difference) {
    struct clause clause = {.other = other, .difference = difference};
    if (other) {
        const double left = own->summary->last_map[0], right = other->summary->last_map[0];
        clause.shown = fabs(left - right) < 0.095 ? as_printed(left, 2) - as_printed(right, 2) : left - right;
        clause.level = as_printed(left, 2) == as_printed(right, 2);
        if (difference->pairs > 1 && (own->summary->seeds != difference->pairs || other->summary->seeds != difference->pairs)) {
            clause.shown = -difference->difference; /* the means are of other trials, too */
            clause.level = as_printed(clause.shown, 2) == 0;
        }
    }
    return clause;
}

/* With a decimal point, in every locale. */
static void print_number(text_builder *text, double value, int decimals) {
    char number[64];
    snprintf(number, sizeof number, "%.*f", decimals, value);
    text_builder_print(text, "%s", number_use_point(number));
}

/* The ends of the interval, seen as the clause sees the difference: above and below are both positive. */
static void print_interval(const struct clause *clause, bool named, int decimals, text_builder *text) {
    const l3a_difference *difference = clause->difference;
    const bool above = clause->shown > 0;
    text_builder_print(text, named ? " (95 %% interval " : " (");
    print_number(text, above ? -difference->high : difference->low, decimals);
    text_builder_print(text, " to ");
    print_number(text, above ? -difference->low : difference->high, decimals);
    text_builder_print(text, difference->significant ? ")" : "; may be chance)");
}

static void print_clause(const struct clause *clause, bool first, bool told, text_builder *text) {
    const int decimals = fabs(clause->shown) < 0.095 ? 2 : 1;
    if (clause->level) {
        text_builder_print(text, "level with %s", clause->other->label);
        return;
    }
    print_number(text, fabs(clause->shown), decimals);
    text_builder_print(text, "%s %s %s", first ? " mAP" : "", clause->shown > 0 ? "above" : "below", clause->other->label);
    if (told) {
        print_interval(clause, first, decimals, text);
    }
}

const char *bound_name(const char *const *methods, size_t count) {
    bool plus = false, bounds[2] = {false, false}; /* l3a+; joint, joint+ */
    for (size_t i = 0; i < count; i++) {
        plus = plus || strcmp(methods[i], "l3a+") == 0;
        bounds[0] = bounds[0] || strcmp(methods[i], "joint") == 0;
        bounds[1] = bounds[1] || strcmp(methods[i], "joint+") == 0;
    }
    return bounds[1] && (plus || !bounds[0]) ? "joint+" : bounds[0] ? "joint" : NULL;
}

/* Joint learning, or the best of the methods that learn all classes at once. */
static const struct contender *bound_of(const struct contender *contenders, size_t count, const char *name,
                                        const struct contender *except) {
    for (size_t i = 0; name && i < count; i++) {
        if (!contenders[i].phased && &contenders[i] != except && strcmp(contenders[i].method, name) == 0) {
            return &contenders[i];
        }
    }
    return best_of(contenders, count, LAST_MAP, false, except, NULL);
}

const char *spread_source(size_t orders, size_t trials) {
    return orders < 2 ? "the seeds" : trials > orders ? "the seeds and class orders" : "the class orders";
}

static void print_alone(const struct contender *own, text_builder *text) {
    text_builder_print(text, "%s ends at ", own->label);
    print_number(text, own->summary->last_map[0], 2);
    text_builder_print(text, " mAP over %zu classes.", own->results->classes.count);
}

/* How many pairs the comparisons have, and that they are too few. */
static void print_too_few(size_t pairs, text_builder *text) {
    if (pairs == 1) {
        text_builder_print(text, "; one run of each cannot tell whether that is chance (it takes five).");
    } else {
        text_builder_print(text, "; %zu paired runs cannot tell whether that is chance (it takes five).", pairs);
    }
}

static void print_sentence(const struct contender *own, const struct clause *rival, const struct clause *bound,
                           text_builder *text) {
    const struct clause *const clauses[2] = {rival->other ? rival : bound, rival->other ? bound : NULL};
    size_t fewest = SIZE_MAX;
    for (size_t i = 0; i < 2; i++) {
        const bool compared = clauses[i] && clauses[i]->other;
        fewest = compared && clauses[i]->difference->pairs < fewest ? clauses[i]->difference->pairs : fewest;
    }
    const bool told = fewest >= PAIRS_TO_TELL;
    text_builder_print(text, "%s ends ", own->label);
    print_clause(clauses[0], true, told, text);
    if (clauses[1] && clauses[1]->other) {
        text_builder_print(text, " and ");
        print_clause(clauses[1], clauses[0]->level, told, text);
    }
    if (told) {
        text_builder_print(text, ".");
    } else {
        print_too_few(fewest, text);
    }
}

l3a_status verdict_print(l3a_context *context, const struct contender *contenders, size_t count, text_builder *text) {
    l3a_status status = L3A_OK;
    l3a_difference *differences = NULL;
    const char **methods = NULL;
    TRY(allocate_zeroed(context, count + 1, sizeof *differences, &differences));
    TRY(allocate_zeroed(context, count + 1, sizeof *methods, &methods));
    for (size_t i = 0; i < count; i++) {
        methods[i] = contenders[i].method;
    }
    const char *name = bound_name(methods, count);
    const struct contender *own = best_of(contenders, count, LAST_MAP, true, NULL, NULL);
    own = own ? own : bound_of(contenders, count, name, NULL);
    if (!own) {
        goto done;
    }
    TRY(compare_all(context, contenders, count, LAST_MAP, own, differences));
    const struct contender *next = own->phased ? best_of(contenders, count, LAST_MAP, true, own, NULL) : NULL,
                           *all = bound_of(contenders, count, name, own);
    const struct clause rival = compare(own, next, next ? &differences[next - contenders] : NULL),
                        bound = compare(own, all, all ? &differences[all - contenders] : NULL);
    if (rival.other || bound.other) {
        print_sentence(own, &rival, &bound, text);
    } else {
        print_alone(own, text);
    }
    status = text->status;
done:
    release(context, differences);
    release(context, methods);
    return status;
}

l3a_status l3a_results_verdict(l3a_context *context, const l3a_results *results, char *text, size_t capacity) {
    l3a_status status = L3A_OK;
    text_builder sentence = {.context = context};
    struct contender *contenders = NULL;
    l3a_summary *summaries = NULL;
    NEED(context, context, results, text);
    const size_t count = list_contenders(&results, 1, NULL);
    TRY(allocate_zeroed(context, count + 1, sizeof *contenders, &contenders));
    TRY(allocate_zeroed(context, count + 1, sizeof *summaries, &summaries));
    list_contenders(&results, 1, contenders);
    TRY(complete_contenders(context, contenders, count, summaries));
    TRY(verdict_print(context, contenders, count, &sentence));
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
