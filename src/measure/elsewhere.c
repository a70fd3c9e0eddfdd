/* Results computed elsewhere, from a CSV file: one row per method, seed and phase, so that they join the tables of a run.
 *
 *   method,seed,phase,map,class_f1,overall_f1,order,classes,threshold
 *
 * The first four columns are needed, in any order. Each trial has every phase of the run once or, if it learns all classes at once,
 * one row with phase 1 and all classes. */
#include "base/file.h"
#include "common/closest.h"
#include "common/number.h"
#include "common/utf8.h"
#include "format/csv.h"
#include "measure/results.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FILE_LIMIT = 64 << 20, ROW_LIMIT = 100000, NUMBER_LIMIT = 20000000, NAME_LIMIT = 64, TEXT_LIMIT = 47 };
enum column { METHOD, SEED, PHASE, MAP, CLASS_F1, OVERALL_F1, ORDER, CLASSES, THRESHOLD, COLUMNS, NEEDED = CLASS_F1 };
static const char *const column_names[COLUMNS] = {"method",     "seed",  "phase",   "map",      "class_f1",
                                                  "overall_f1", "order", "classes", "threshold"};
static const char *const fix = "correct the file; docs/reading-the-report.md describes it";

/* The file, and the results that it joins. */
struct joining {
    struct csv csv;
    l3a_results *results;
    size_t places[COLUMNS]; /* of the columns in the file; SIZE_MAX: it has none */
    size_t *ends, phases;   /* the classes learned after each phase of the run */
    size_t own_methods;     /* of the results before this file */
    size_t rows;
    double highest;  /* mAP */
    double *unknown; /* average precisions, all NaN */
};

static const char *field(const struct joining *joining, enum column column) {
    const size_t at = joining->places[column];
    return at < joining->csv.count ? joining->csv.fields[at] : "";
}

/* ---- Columns ---- */

static bool fits(const struct csv *row) {
    return row->count > 1;
}

static l3a_status read_columns(struct joining *joining) {
    struct csv *csv = &joining->csv;
    l3a_context *context = csv->context;
    l3a_status status = L3A_OK;
    bool more = false;
    memset(joining->places, 0xFF, sizeof joining->places);
    TRY(csv_detect_separator(csv, fits));
    TRY(csv_next_row(csv, &more));
    FAIL_IF(!more, context, L3A_ERROR_FORMAT, fix, "%s: the file is empty", csv->name);
    for (size_t i = 0; i < csv->count; i++) {
        char hint[256];
        size_t at = 0;
        while (at < COLUMNS && strcmp(csv->fields[i], column_names[at]) != 0) {
            at++;
        }
        suggest_closest(hint, sizeof hint, csv->fields[i], column_names, COLUMNS,
                        "the columns are method, seed, phase, map, class_f1, overall_f1, order, classes and threshold");
        FAIL_IF(at == COLUMNS, context, L3A_ERROR_FORMAT, hint, "%s: there is no column '%s'", csv->name, csv->fields[i]);
        FAIL_IF(joining->places[at] != SIZE_MAX, context, L3A_ERROR_FORMAT, fix, "%s: column '%s' is listed twice", csv->name,
                csv->fields[i]);
        joining->places[at] = i;
    }
    for (size_t i = 0; i < NEEDED; i++) {
        FAIL_IF(joining->places[i] == SIZE_MAX, context, L3A_ERROR_FORMAT,
                "the first line must name the columns: method, seed, phase and map, and what else there is",
                "%s: column '%s' is missing", csv->name, column_names[i]);
    }
done:
    return status;
}

/* ---- Rows ---- */

static l3a_status read_integer(const struct joining *joining, enum column column, uint64_t *value) {
    const char *text = field(joining, column);
    return integer_parse(text, strlen(text), value)
               ? L3A_OK
               : fail(joining->csv.context, L3A_ERROR_FORMAT, fix, "%s: line %zu: %s must be a whole number, but is '%s'",
                      joining->csv.name, joining->csv.line, column_names[column], text);
}

/* NaN if the column is missing or the field is empty, unless it is needed. */
static l3a_status read_percent(const struct joining *joining, enum column column, double *value) {
    const char *text = field(joining, column);
    l3a_status status = L3A_OK;
    *value = NAN;
    if (column >= NEEDED && !text[0]) {
        return L3A_OK;
    }
    const bool number = number_parse(text, strlen(text), value);
    FAIL_IF(!number || !(*value >= 0 && *value <= 100), joining->csv.context, number ? L3A_ERROR_DATA : L3A_ERROR_FORMAT,
            "numbers are in percent, with a decimal point", "%s: line %zu: %s must be between 0 and 100, but is '%s'",
            joining->csv.name, joining->csv.line, column_names[column], text);
done:
    return status;
}

static l3a_status read_method(const struct joining *joining, const char **method) {
    const l3a_results *results = joining->results;
    const struct csv *csv = &joining->csv;
    l3a_status status = L3A_OK;
    *method = field(joining, METHOD);
    const size_t length = strlen(*method), known = text_list_find(&results->methods, *method);
    bool plain = length && length <= NAME_LIMIT && is_utf8(*method);
    for (size_t i = 0; i < length; i++) {
        plain = plain && (unsigned char)(*method)[i] >= ' ' && (*method)[i] != 127;
    }
    FAIL_IF(!plain, csv->context, L3A_ERROR_FORMAT, fix, "%s: line %zu: the name of a method must have 1 to %d bytes of plain text",
            csv->name, csv->line, NAME_LIMIT);
    FAIL_IF(known < joining->own_methods, csv->context, L3A_ERROR_EXISTS, "rename the method in the file",
            "%s: line %zu: there are results of a method '%s' already", csv->name, csv->line, *method);
done:
    return status;
}

static l3a_status read_order(const struct joining *joining, size_t *order) {
    const l3a_results *results = joining->results;
    const char *text = field(joining, ORDER);
    l3a_status status = L3A_OK;
    char hint[256];
    *order = results->orders.count ? text_list_find(&results->orders, text) : 0;
    suggest_closest(hint, sizeof hint, text, (const char *const *)results->orders.items, results->orders.count,
                    "name the class order as metrics.csv of the run does, in its column class_order");
    FAIL_IF(results->orders.count && *order == results->orders.count, joining->csv.context, L3A_ERROR_DATA, hint,
            "%s: line %zu: the run has no class order '%s'", joining->csv.name, joining->csv.line, text);
    FAIL_IF(!results->orders.count && text[0], joining->csv.context, L3A_ERROR_DATA, "leave the column order empty",
            "%s: line %zu: the run has only one class order, which has no name, but this is '%s'", joining->csv.name,
            joining->csv.line, text);
done:
    return status;
}

/* The phase, and the classes that it has; a method that learns all classes at once has all of them in phase 1. */
static l3a_status read_phase(const struct joining *joining, l3a_result *row) {
    const struct csv *csv = &joining->csv;
    const size_t all = joining->results->classes.count;
    l3a_status status = L3A_OK;
    uint64_t phase, classes = 0;
    TRY(read_integer(joining, PHASE, &phase));
    FAIL_IF(!phase || phase > joining->phases, csv->context, L3A_ERROR_DATA, "phases are counted from 1",
            "%s: line %zu: there is no phase %" PRIu64 ": the run has %zu", csv->name, csv->line, phase, joining->phases);
    row->phase = (size_t)phase;
    row->first = phase > 1 ? joining->ends[phase - 2] : 0;
    row->last = joining->ends[phase - 1];
    if (field(joining, CLASSES)[0]) {
        TRY(read_integer(joining, CLASSES, &classes));
        FAIL_IF(classes != row->last && (phase > 1 || classes != all), csv->context, L3A_ERROR_MISMATCH,
                "use the run's protocol and classes",
                "%s: line %zu: %" PRIu64 " classes after phase %" PRIu64 ", but the run has %zu then", csv->name, csv->line,
                classes, phase, row->last);
        row->last = (size_t)classes;
    }
done:
    return status;
}

/* All rows of a method have the same threshold. */
static l3a_status take_threshold(const struct joining *joining, const char *method) {
    const char *given = field(joining, THRESHOLD), *text = given[0] ? given : "not stated",
               *known = results_threshold(joining->results, method);
    const struct csv *csv = &joining->csv;
    l3a_status status = L3A_OK;
    FAIL_IF(strlen(text) > TEXT_LIMIT || !is_utf8(text), csv->context, L3A_ERROR_FORMAT, fix,
            "%s: line %zu: a threshold is a text of at most %d bytes", csv->name, csv->line, TEXT_LIMIT);
    FAIL_IF(known[0] && strcmp(known, text) != 0, csv->context, L3A_ERROR_DATA, "give a method one threshold in all its rows",
            "%s: line %zu: method '%s' has the threshold '%s' here, and '%s' before", csv->name, csv->line, method, text, known);
    if (!known[0]) {
        TRY(results_set_threshold(joining->results, method, text));
    }
done:
    return status;
}

static bool has_row(const l3a_results *results, const l3a_result *row, size_t order) {
    for (size_t i = 0; i < results->count; i++) {
        if (results->rows[i].phase == row->phase && results->rows[i].seed == row->seed && results->details[i].order == order &&
            strcmp(results->rows[i].method, row->method) == 0) {
            return true;
        }
    }
    return false;
}

static l3a_status take_row(struct joining *joining) {
    const struct csv *csv = &joining->csv;
    l3a_status status = L3A_OK;
    l3a_result row = {.base_map = NAN, .new_map = NAN};
    struct class_details details = {.average_precision = joining->unknown};
    l3a_metrics *m = &row.metrics;
    TRY(read_method(joining, &row.method));
    TRY(read_integer(joining, SEED, &row.seed));
    TRY(read_order(joining, &details.order));
    TRY(read_phase(joining, &row));
    *m = (l3a_metrics){
        .size = sizeof *m, .class_precision = NAN, .class_recall = NAN, .overall_precision = NAN, .overall_recall = NAN};
    TRY(read_percent(joining, MAP, &m->mean_ap));
    TRY(read_percent(joining, CLASS_F1, &m->class_f1));
    TRY(read_percent(joining, OVERALL_F1, &m->overall_f1));
    joining->highest = fmax(joining->highest, m->mean_ap);
    FAIL_IF(has_row(joining->results, &row, details.order), csv->context, L3A_ERROR_DATA, "keep one of them",
            "%s: line %zu: phase %zu of '%s' with seed %" PRIu64 " is listed twice", csv->name, csv->line, row.phase, row.method,
            row.seed);
    const size_t limit = NUMBER_LIMIT / (joining->results->classes.count + 1);
    FAIL_IF(++joining->rows > (limit < ROW_LIMIT ? limit : ROW_LIMIT), csv->context, L3A_ERROR_DATA, fix, "%s: more than %zu rows",
            csv->name, joining->rows - 1);
    TRY(results_add(joining->results, &row, &details));
    TRY(take_threshold(joining, row.method));
done:
    return status;
}

/* ---- The file as a whole ---- */

/* How many classes the run has learned after each of its phases. */
static l3a_status list_phases(struct joining *joining) {
    const l3a_results *results = joining->results;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < results->count; i++) {
        joining->phases = results->rows[i].phase > joining->phases ? results->rows[i].phase : joining->phases;
    }
    FAIL_IF(!joining->phases, joining->csv.context, L3A_ERROR_STATE, "wait until a phase of the run is done",
            "%s cannot join the run, which has no results yet", joining->csv.name);
    TRY(allocate_zeroed(joining->csv.context, joining->phases, sizeof *joining->ends, &joining->ends));
    for (size_t i = 0; i < results->count; i++) {
        size_t *end = &joining->ends[results->rows[i].phase - 1];
        *end = !*end || results->rows[i].last < *end ? results->rows[i].last : *end; /* joint learning has all in phase 1 */
    }
done:
    return status;
}

/* Every trial of the file must have learned all classes. */
static l3a_status check_trials(const struct joining *joining) {
    const l3a_results *results = joining->results;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < results->count; i++) {
        const l3a_result *row = &results->rows[i], *before = i ? row - 1 : NULL, *after = i + 1 < results->count ? row + 1 : NULL;
        const bool begins = !before || before->method != row->method || before->seed != row->seed ||
                            results->details[i - 1].order != results->details[i].order;
        const bool ends = !after || after->method != row->method || after->seed != row->seed ||
                          results->details[i + 1].order != results->details[i].order;
        if (text_list_find(&results->methods, row->method) < joining->own_methods) {
            continue;
        }
        const size_t expected = begins ? 1 : before->phase + 1;
        FAIL_IF(!begins && before->last == results->classes.count, joining->csv.context, L3A_ERROR_DATA,
                "a method that learns all classes at once has one row for each seed and class order",
                "%s: '%s' with seed %" PRIu64 " has all classes after phase %zu, but also a phase %zu", joining->csv.name,
                row->method, row->seed, before->phase, row->phase);
        FAIL_IF(row->phase != expected, joining->csv.context, L3A_ERROR_DATA,
                "a method has every phase once for each seed and class order",
                "%s: phase %zu of '%s' with seed %" PRIu64 " is missing", joining->csv.name, expected, row->method, row->seed);
        FAIL_IF(ends && row->last != results->classes.count, joining->csv.context, L3A_ERROR_DATA,
                "a method has every phase once for each seed and class order; one that learns all classes at once has one row, "
                "with the "
                "number of all classes in the column classes",
                "%s: phase %zu of '%s' with seed %" PRIu64 " is missing", joining->csv.name, row->phase + 1, row->method,
                row->seed);
    }
done:
    return status;
}

static l3a_status name_source(const struct joining *joining) {
    const text_list *methods = &joining->results->methods;
    const char *slash = strrchr(joining->csv.name, '/');
    l3a_status status = L3A_OK;
    for (size_t i = joining->own_methods; i < methods->count; i++) {
        TRY(results_set_source(joining->results, methods->items[i], slash ? slash + 1 : joining->csv.name));
    }
done:
    return status;
}

l3a_status l3a_results_join(l3a_results *results, const char *path) {
    l3a_status status = L3A_OK;
    char *text = NULL;
    size_t length;
    bool more = true;
    struct joining joining = {.results = results};
    REQUIRE(results, results, path);
    l3a_context *context = results->context;
    TRY(read_whole(context, path, FILE_LIMIT, &text, &length));
    csv_begin(&joining.csv, context, path, text, length);
    joining.own_methods = results->methods.count;
    TRY(list_phases(&joining));
    TRY(allocate(context, results->classes.count + 1, sizeof *joining.unknown, &joining.unknown));
    for (size_t k = 0; k < results->classes.count; k++) {
        joining.unknown[k] = NAN;
    }
    TRY(read_columns(&joining));
    for (;;) {
        TRY(csv_next_row(&joining.csv, &more));
        if (!more) {
            break;
        }
        TRY(take_row(&joining));
    }
    FAIL_IF(!joining.rows, context, L3A_ERROR_DATA, fix, "%s: there are no rows below the names of the columns", path);
    FAIL_IF(joining.highest <= 1, context, L3A_ERROR_DATA, "multiply all numbers by 100",
            "%s: no mAP is above 1, so these seem to be fractions, not percent", path);
    TRY(check_trials(&joining));
    TRY(name_source(&joining));
done:
    if (status != L3A_OK && joining.ends) {
        results_forget_methods(results, joining.own_methods);
    }
    release(context, text);
    release(context, joining.ends);
    release(context, joining.unknown);
    return status;
}
