#include "measure/results.h"

#include "base/sized.h"

#include "base/machine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { METHOD_LIMIT = 1000, SUMMARY = 7 }; /* SUMMARY: the values of a summary */

l3a_status results_create(l3a_context *context, l3a_results **results) {
    const l3a_status status = allocate_zeroed(context, 1, sizeof **results, results);
    if (status == L3A_OK) {
        (*results)->context = context;
    }
    return status;
}

void details_free(l3a_context *context, struct class_details *details) {
    release(context, details->average_precision);
    release(context, details->tallies);
    release(context, details->curves);
}

void l3a_results_free(l3a_results *results) {
    if (!results) {
        return;
    }
    l3a_context *context = results->context;
    for (size_t i = 0; i < results->count; i++) {
        details_free(context, &results->details[i]);
    }
    release(context, results->details);
    release(context, results->rows);
    release(context, results->stages);
    release(context, results->seeds);
    tables_free(context, &results->tables);
    text_list_clear(context, &results->methods);
    text_list_clear(context, &results->classes);
    release(context, results);
}

size_t l3a_results_count(const l3a_results *results) {
    return results ? results->count : 0;
}

const l3a_result *l3a_results_at(const l3a_results *results, size_t index) {
    return results && index < results->count ? &results->rows[index] : NULL;
}

const double *l3a_results_average_precision(const l3a_results *results, size_t index) {
    return results && index < results->count ? results->details[index].average_precision : NULL;
}

const l3a_class_tally *l3a_results_tally(const l3a_results *results, size_t index, size_t class_index) {
    const bool known =
        results && index < results->count && results->details[index].tallies && class_index < results->rows[index].last;
    return known ? &results->details[index].tallies[class_index] : NULL;
}

size_t l3a_results_class_count(const l3a_results *results) {
    return results ? results->classes.count : 0;
}

const char *l3a_results_class(const l3a_results *results, size_t index) {
    return results && index < results->classes.count ? results->classes.items[index] : NULL;
}

static l3a_status copy_array(l3a_context *context, const void *from, size_t count, size_t size, void *to) {
    if (!from) {
        return L3A_OK;
    }
    const l3a_status status = allocate(context, count, size, to);
    if (status == L3A_OK) {
        memcpy(*(void **)to, from, count * size);
    }
    return status;
}

/* The results' own copy of a method's name. */
static l3a_status keep_method(l3a_results *results, const char *name, const char **kept) {
    const size_t found = text_list_find(&results->methods, name);
    l3a_status status = L3A_OK;
    if (found == METHOD_LIMIT) {
        status = fail(results->context, L3A_ERROR_FORMAT, "check that this is the folder of a run",
                      "there are results of more than %d methods", METHOD_LIMIT);
    } else if (found == results->methods.count) {
        status = text_list_add(results->context, &results->methods, name, strlen(name));
    }
    if (status == L3A_OK) {
        *kept = results->methods.items[found];
    }
    return status;
}

static size_t find_seed(const l3a_results *results, uint64_t seed) {
    size_t i = 0;
    while (i < results->seed_count && results->seeds[i] != seed) {
        i++;
    }
    return i;
}

static l3a_status keep_seed(l3a_results *results, uint64_t seed) {
    l3a_status status = L3A_OK;
    if (find_seed(results, seed) == results->seed_count) {
        TRY(grow_array(results->context, &results->seeds, &results->seed_capacity, results->seed_count + 1,
                       sizeof *results->seeds));
        results->seeds[results->seed_count++] = seed;
    }
done:
    return status;
}

l3a_status results_expect(l3a_results *results, const char *const *methods, size_t method_count, const uint64_t *seeds,
                          size_t seed_count) {
    l3a_status status = L3A_OK;
    const char *kept;
    for (size_t i = 0; i < method_count; i++) {
        TRY(keep_method(results, methods[i], &kept));
    }
    for (size_t i = 0; i < seed_count; i++) {
        TRY(keep_seed(results, seeds[i]));
    }
done:
    return status;
}

/* The position of a row or a stage in the order. The method and the seed must already be in the results. */
struct place {
    size_t method, seed, phase;
};

static struct place place_of(const l3a_results *results, const char *method, uint64_t seed, size_t phase) {
    return (struct place){text_list_find(&results->methods, method), find_seed(results, seed), phase};
}

static struct place place_of_row(const l3a_results *results, size_t index) {
    const l3a_result *row = &results->rows[index];
    return place_of(results, row->method, row->seed, row->phase);
}

static struct place place_of_stage(const l3a_results *results, size_t index) {
    const struct stage_time *stage = &results->stages[index];
    return place_of(results, stage->method, stage->seed, stage->phase);
}

static bool is_after(struct place left, struct place right) {
    return left.method != right.method ? left.method > right.method
           : left.seed != right.seed   ? left.seed > right.seed
                                       : left.phase > right.phase;
}

/* Where a new item belongs among `count` sorted ones: after those of the same place. */
static size_t find_place(const l3a_results *results, struct place (*place_at)(const l3a_results *results, size_t index),
                         size_t count, struct place wanted) {
    while (count && is_after(place_at(results, count - 1), wanted)) {
        count--;
    }
    return count;
}

l3a_status results_add(l3a_results *results, const l3a_result *row, const struct class_details *details) {
    l3a_context *context = results->context;
    l3a_status status = L3A_OK;
    struct class_details copy = {0};
    l3a_result kept = *row;
    size_t capacity = results->capacity;
    TRY(grow_array(context, &results->details, &capacity, results->count + 1, sizeof *results->details));
    TRY(grow_array(context, &results->rows, &results->capacity, results->count + 1, sizeof *results->rows));
    TRY(copy_array(context, details->average_precision, row->last, sizeof *copy.average_precision, &copy.average_precision));
    TRY(copy_array(context, details->tallies, row->last, sizeof *copy.tallies, &copy.tallies));
    TRY(copy_array(context, details->curves, row->last, CURVE_POINTS * sizeof *copy.curves, &copy.curves));
    TRY(keep_method(results, row->method, &kept.method));
    TRY(keep_seed(results, row->seed));
    const size_t at = find_place(results, place_of_row, results->count, place_of(results, row->method, row->seed, row->phase));
    memmove(results->rows + at + 1, results->rows + at, (results->count - at) * sizeof *results->rows);
    memmove(results->details + at + 1, results->details + at, (results->count - at) * sizeof *results->details);
    results->rows[at] = kept;
    results->details[at] = copy;
    results->count++;
    copy = (struct class_details){0};
done:
    details_free(context, &copy);
    return status;
}

l3a_status results_add_stage(l3a_results *results, const struct stage_time *stage) {
    l3a_status status = L3A_OK;
    struct stage_time kept = *stage;
    TRY(grow_array(results->context, &results->stages, &results->stage_capacity, results->stage_count + 1, sizeof kept));
    TRY(keep_method(results, stage->method, &kept.method));
    TRY(keep_seed(results, stage->seed));
    const size_t at =
        find_place(results, place_of_stage, results->stage_count, place_of(results, stage->method, stage->seed, stage->phase));
    memmove(results->stages + at + 1, results->stages + at, (results->stage_count - at) * sizeof kept);
    results->stages[at] = kept;
    results->stage_count++;
done:
    return status;
}

static void cut_stages(l3a_results *results, const char *method, uint64_t seed, size_t keep) {
    size_t kept = 0;
    for (size_t i = 0; i < results->stage_count; i++) {
        const struct stage_time *stage = &results->stages[i];
        if (stage->seed != seed || strcmp(stage->method, method) != 0 || stage->phase <= keep) {
            results->stages[kept++] = *stage;
        }
    }
    results->stage_count = kept;
}

l3a_status results_keep_stages(l3a_results *results, const l3a_result *row) {
    static const char save[] = "save";
    const struct stages *stages = &results->context->stages;
    l3a_status status = L3A_OK;
    bool saved = false;
    cut_stages(results, row->method, row->seed, row->phase - 1);
    for (size_t i = 0; i < stages->count + !saved; i++) {
        const bool known = i < stages->count;
        const char *name = known ? stages->items[i].name : save;
        struct stage_time stage = {.method = row->method,
                                   .seed = row->seed,
                                   .phase = row->phase,
                                   .seconds = known ? stages->items[i].seconds : 0,
                                   .peak_memory = machine_memory_peak()};
        snprintf(stage.stage, sizeof stage.stage, "%s", name);
        TRY(results_add_stage(results, &stage));
        saved = saved || strcmp(name, save) == 0;
    }
done:
    return status;
}

static bool is_of(const l3a_result *row, const char *method, uint64_t seed) {
    return row->seed == seed && strcmp(row->method, method) == 0;
}

size_t results_rows_of(const l3a_results *results, const char *method, uint64_t seed) {
    size_t count = 0;
    for (size_t i = 0; i < results->count; i++) {
        count += is_of(&results->rows[i], method, seed);
    }
    return count;
}

void results_cut(l3a_results *results, const char *method, uint64_t seed, size_t keep) {
    size_t kept = 0;
    for (size_t i = 0; i < results->count; i++) {
        if (is_of(&results->rows[i], method, seed) && results->rows[i].phase > keep) {
            details_free(results->context, &results->details[i]);
            continue;
        }
        results->rows[kept] = results->rows[i];
        results->details[kept++] = results->details[i];
    }
    results->cut = results->cut || kept < results->count;
    results->count = kept;
    cut_stages(results, method, seed, keep);
}

/* Best earlier AP minus the last AP, averaged over the classes that were measured before the last phase. */
static double forgetting(const l3a_results *results, const char *method, uint64_t seed, size_t last_row) {
    const l3a_result *last = &results->rows[last_row];
    double sum = 0;
    size_t classes = 0;
    for (size_t k = 0; k < last->last; k++) {
        double best = -1;
        for (size_t i = 0; i < results->count; i++) {
            const l3a_result *row = &results->rows[i];
            if (is_of(row, method, seed) && row->phase < last->phase && k < row->last &&
                results->details[i].average_precision[k] > best) {
                best = results->details[i].average_precision[k];
            }
        }
        if (best >= 0) {
            sum += best - results->details[last_row].average_precision[k];
            classes++;
        }
    }
    return classes ? sum / (double)classes : 0;
}

void spread_add(struct spread *spread, double value) {
    spread->count++;
    spread->sum += value;
    spread->squares += value * value;
}

void spread_finish(const struct spread *spread, double result[2]) {
    const double n = (double)spread->count, mean = spread->sum / n;
    const double variance = spread->count > 1 ? (spread->squares - n * mean * mean) / (n - 1) : 0;
    result[0] = mean;
    result[1] = sqrt(variance > 0 ? variance : 0);
}

l3a_status l3a_results_summary(l3a_context *context, const l3a_results *results, const char *method, l3a_summary *summary) {
    struct spread spreads[SUMMARY] = {{0}};
    l3a_status status = L3A_OK;
    NEED(context, context, results, method, summary);
    TRY(CHECK_SIZED(context, summary));
    for (size_t i = 0; i < results->count; i++) {
        const l3a_result *first = &results->rows[i];
        if (first->phase != 1 || strcmp(first->method, method) != 0) {
            continue;
        }
        size_t last = i, phases = 0;
        double sum = 0;
        for (size_t j = 0; j < results->count; j++) {
            if (is_of(&results->rows[j], method, first->seed)) {
                sum += results->rows[j].metrics.mean_ap;
                phases++;
                last = results->rows[j].phase > results->rows[last].phase ? j : last;
            }
        }
        const l3a_metrics *m = &results->rows[last].metrics;
        const double values[SUMMARY] = {sum / (double)phases,
                                        m->mean_ap,
                                        m->class_f1,
                                        m->overall_f1,
                                        forgetting(results, method, first->seed, last),
                                        results->rows[last].base_map,
                                        results->rows[last].new_map};
        for (size_t j = 0; j < SUMMARY; j++) {
            spread_add(&spreads[j], values[j]);
        }
    }
    FAIL_IF(!spreads[0].count, context, L3A_ERROR_ARGUMENT, NULL, "there are no results of method '%s'", method);
    l3a_summary own = {.size = sizeof own, .method = method, .seeds = spreads[0].count};
    double *const targets[SUMMARY] = {own.average_map, own.last_map, own.last_class_f1, own.last_overall_f1,
                                      own.forgetting,  own.base_map, own.new_map};
    for (size_t j = 0; j < SUMMARY; j++) {
        spread_finish(&spreads[j], targets[j]);
    }
    TRY(WRITE_SIZED(context, summary, own));
done:
    return status;
}
