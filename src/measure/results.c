#include "measure/results.h"

#include "base/sized.h"

#include "base/machine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { METHOD_LIMIT = 1000 };

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
    text_list_clear(context, &results->thresholds);
    text_list_clear(context, &results->sources);
    text_list_clear(context, &results->classes);
    text_list_clear(context, &results->orders);
    release(context, results->positions);
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

size_t l3a_results_order_count(const l3a_results *results) {
    return !results ? 0 : results->orders.count ? results->orders.count : 1;
}

const char *l3a_results_order(const l3a_results *results, size_t order) {
    const bool known = order < l3a_results_order_count(results);
    return !known ? NULL : results->orders.count ? results->orders.items[order] : "";
}

size_t l3a_results_order_of(const l3a_results *results, size_t index) {
    return results && index < results->count ? results->details[index].order : 0;
}

const char *l3a_results_class_in(const l3a_results *results, size_t order, size_t index) {
    if (order >= l3a_results_order_count(results) || index >= results->classes.count) {
        return NULL;
    }
    return results->classes.items[results->positions ? results->positions[order * results->classes.count + index] : index];
}

size_t results_place(const l3a_results *results, size_t order, size_t class_index) {
    size_t place = class_index;
    if (results->positions) {
        const size_t *positions = results->positions + order * results->classes.count;
        for (place = 0; positions[place] != class_index; place++) {
        }
    }
    return place;
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

l3a_status results_set_orders(l3a_results *results, const char *const *orders, size_t count, const size_t *positions) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < count; i++) {
        TRY(text_list_add(results->context, &results->orders, orders[i], strlen(orders[i])));
    }
    TRY(copy_array(results->context, positions, count * results->classes.count, sizeof *positions, &results->positions));
done:
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
    size_t method, order, seed, phase;
};

static struct place place_of(const l3a_results *results, const struct trial *trial, size_t phase) {
    return (struct place){text_list_find(&results->methods, trial->method), trial->order, find_seed(results, trial->seed), phase};
}

static struct trial trial_of_row(const l3a_results *results, size_t index) {
    const l3a_result *row = &results->rows[index];
    return (struct trial){row->method, row->seed, results->details[index].order};
}

static struct trial trial_of_stage(const struct stage_time *stage) {
    return (struct trial){stage->method, stage->seed, stage->order};
}

static bool same_trial(const struct trial *left, const struct trial *right) {
    return left->seed == right->seed && left->order == right->order && strcmp(left->method, right->method) == 0;
}

static struct place place_of_row(const l3a_results *results, size_t index) {
    const struct trial trial = trial_of_row(results, index);
    return place_of(results, &trial, results->rows[index].phase);
}

static struct place place_of_stage(const l3a_results *results, size_t index) {
    const struct trial trial = trial_of_stage(&results->stages[index]);
    return place_of(results, &trial, results->stages[index].phase);
}

static bool is_after(struct place left, struct place right) {
    return left.method != right.method ? left.method > right.method
           : left.order != right.order ? left.order > right.order
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
    struct class_details copy = {.order = details->order};
    const struct trial trial = {row->method, row->seed, details->order};
    l3a_result kept = *row;
    size_t capacity = results->capacity;
    TRY(grow_array(context, &results->details, &capacity, results->count + 1, sizeof *results->details));
    TRY(grow_array(context, &results->rows, &results->capacity, results->count + 1, sizeof *results->rows));
    TRY(copy_array(context, details->average_precision, row->last, sizeof *copy.average_precision, &copy.average_precision));
    TRY(copy_array(context, details->tallies, row->last, sizeof *copy.tallies, &copy.tallies));
    TRY(copy_array(context, details->curves, row->last, CURVE_POINTS * sizeof *copy.curves, &copy.curves));
    TRY(keep_method(results, row->method, &kept.method));
    TRY(keep_seed(results, row->seed));
    const size_t at = find_place(results, place_of_row, results->count, place_of(results, &trial, row->phase));
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
    const struct trial trial = trial_of_stage(stage);
    TRY(grow_array(results->context, &results->stages, &results->stage_capacity, results->stage_count + 1, sizeof kept));
    TRY(keep_method(results, stage->method, &kept.method));
    TRY(keep_seed(results, stage->seed));
    const size_t at = find_place(results, place_of_stage, results->stage_count, place_of(results, &trial, stage->phase));
    memmove(results->stages + at + 1, results->stages + at, (results->stage_count - at) * sizeof kept);
    results->stages[at] = kept;
    results->stage_count++;
done:
    return status;
}

static void cut_stages(l3a_results *results, const struct trial *trial, size_t keep) {
    size_t kept = 0;
    for (size_t i = 0; i < results->stage_count; i++) {
        const struct stage_time *stage = &results->stages[i];
        const struct trial own = trial_of_stage(stage);
        if (!same_trial(&own, trial) || stage->phase <= keep) {
            results->stages[kept++] = *stage;
        }
    }
    results->stage_count = kept;
}

l3a_status results_keep_stages(l3a_results *results, const l3a_result *row, size_t order) {
    static const char save[] = "save";
    const struct stages *stages = &results->context->stages;
    const struct trial trial = {row->method, row->seed, order};
    l3a_status status = L3A_OK;
    bool saved = false;
    cut_stages(results, &trial, row->phase - 1);
    for (size_t i = 0; i < stages->count + !saved; i++) {
        const bool known = i < stages->count;
        const char *name = known ? stages->items[i].name : save;
        struct stage_time stage = {.method = row->method,
                                   .seed = row->seed,
                                   .phase = row->phase,
                                   .order = order,
                                   .seconds = known ? stages->items[i].seconds : 0,
                                   .peak_memory = machine_memory_peak()};
        snprintf(stage.stage, sizeof stage.stage, "%s", name);
        TRY(results_add_stage(results, &stage));
        saved = saved || strcmp(name, save) == 0;
    }
done:
    return status;
}

static bool is_of(const l3a_results *results, size_t index, const struct trial *trial) {
    const struct trial own = trial_of_row(results, index);
    return same_trial(&own, trial);
}

size_t results_rows_of(const l3a_results *results, const struct trial *trial) {
    size_t count = 0;
    for (size_t i = 0; i < results->count; i++) {
        count += is_of(results, i, trial);
    }
    return count;
}

void results_cut(l3a_results *results, const struct trial *trial, size_t keep) {
    size_t kept = 0;
    for (size_t i = 0; i < results->count; i++) {
        if (is_of(results, i, trial) && results->rows[i].phase > keep) {
            details_free(results->context, &results->details[i]);
            continue;
        }
        results->rows[kept] = results->rows[i];
        results->details[kept++] = results->details[i];
    }
    results->cut = results->cut || kept < results->count;
    results->count = kept;
    cut_stages(results, trial, keep);
}

/* Sets what a list says about a method. */
static l3a_status set_text(l3a_results *results, text_list *list, const char *method, const char *text) {
    l3a_context *context = results->context;
    l3a_status status = L3A_OK;
    const char *kept;
    char *copy = NULL;
    TRY(keep_method(results, method, &kept));
    const size_t at = text_list_find(&results->methods, kept);
    while (list->count <= at) {
        TRY(text_list_add(context, list, "", 0));
    }
    TRY(copy_text(context, text, strlen(text), &copy));
    release(context, list->items[at]);
    list->items[at] = copy;
done:
    return status;
}

static const char *text_of(const l3a_results *results, const text_list *list, const char *method) {
    const size_t at = text_list_find(&results->methods, method);
    return at < list->count ? list->items[at] : "";
}

l3a_status results_set_threshold(l3a_results *results, const char *method, const char *threshold) {
    return set_text(results, &results->thresholds, method, threshold);
}

const char *results_threshold(const l3a_results *results, const char *method) {
    return text_of(results, &results->thresholds, method);
}

l3a_status results_set_source(l3a_results *results, const char *method, const char *source) {
    return set_text(results, &results->sources, method, source);
}

const char *l3a_results_source(const l3a_results *results, const char *method) {
    return results && method ? text_of(results, &results->sources, method) : NULL;
}

static void cut_list(l3a_context *context, text_list *list, size_t kept) {
    while (list->count > kept) {
        release(context, list->items[--list->count]);
    }
}

void results_forget_methods(l3a_results *results, size_t kept) {
    size_t rows = 0;
    for (size_t i = 0; i < results->count; i++) {
        if (text_list_find(&results->methods, results->rows[i].method) >= kept) {
            details_free(results->context, &results->details[i]);
            continue;
        }
        results->rows[rows] = results->rows[i];
        results->details[rows++] = results->details[i];
    }
    results->count = rows;
    cut_list(results->context, &results->methods, kept);
    cut_list(results->context, &results->thresholds, kept);
    cut_list(results->context, &results->sources, kept);
}

/* Best earlier AP minus the last AP, averaged over the classes that were measured before the last phase. The rows [first, last] are
 * those of a trial. NaN if the APs are unknown. */
static double forgetting(const l3a_results *results, size_t first, size_t last) {
    double sum = 0;
    size_t classes = 0;
    for (size_t k = 0; k < results->rows[last].last; k++) {
        double best = -1;
        for (size_t i = first; i < last; i++) {
            if (k < results->rows[i].last && results->details[i].average_precision[k] > best) {
                best = results->details[i].average_precision[k];
            }
        }
        if (best >= 0) {
            sum += best - results->details[last].average_precision[k];
            classes++;
        }
    }
    return classes ? sum / (double)classes : isnan(results->details[last].average_precision[0]) ? NAN : 0;
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

size_t results_trial(const l3a_results *results, size_t first, double values[TRIAL_VALUES]) {
    const struct trial trial = trial_of_row(results, first);
    size_t last = first;
    double sum = 0;
    for (size_t i = first; i < results->count && is_of(results, i, &trial); i++) { /* rows are sorted, by phase too */
        sum += results->rows[i].metrics.mean_ap;
        last = i;
    }
    const l3a_result *row = &results->rows[last];
    values[AVERAGE_MAP] = sum / (double)(last - first + 1);
    values[LAST_MAP] = row->metrics.mean_ap;
    values[LAST_CLASS_F1] = row->metrics.class_f1;
    values[LAST_OVERALL_F1] = row->metrics.overall_f1;
    values[FORGETTING] = forgetting(results, first, last);
    values[BASE_MAP] = row->base_map;
    values[NEW_MAP] = row->new_map;
    return last;
}

l3a_status l3a_results_summary(l3a_context *context, const l3a_results *results, const char *method, l3a_summary *summary) {
    struct spread spreads[TRIAL_VALUES] = {{0}};
    l3a_status status = L3A_OK;
    NEED(context, context, results, method, summary);
    TRY(CHECK_SIZED(context, summary));
    l3a_summary own = {.size = sizeof own, .method = method};
    size_t previous = SIZE_MAX; /* rows are sorted by order */
    for (size_t i = 0; i < results->count; i++) {
        double values[TRIAL_VALUES];
        if (results->rows[i].phase != 1 || strcmp(results->rows[i].method, method) != 0) {
            continue;
        }
        results_trial(results, i, values);
        for (size_t j = 0; j < TRIAL_VALUES; j++) {
            spread_add(&spreads[j], values[j]);
        }
        own.orders += results->details[i].order != previous;
        previous = results->details[i].order;
    }
    FAIL_IF(!spreads[0].count, context, L3A_ERROR_ARGUMENT, NULL, "there are no results of method '%s'", method);
    own.seeds = spreads[0].count;
    double *const targets[TRIAL_VALUES] = {own.average_map, own.last_map, own.last_class_f1, own.last_overall_f1,
                                           own.forgetting,  own.base_map, own.new_map};
    for (size_t j = 0; j < TRIAL_VALUES; j++) {
        spread_finish(&spreads[j], targets[j]);
    }
    TRY(WRITE_SIZED(context, summary, own));
done:
    return status;
}
