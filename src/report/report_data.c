/* Reads the folders of runs, and computes the numbers that several sections of a report use. */
#include "measure/folder.h"
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RECORD_DEPTH = 4, RECORDS = 4096 };

/* ---- run.json, flattened ---- */

/* Decodes a string; copies the text of any other value. */
static l3a_status print_value(struct json *json, text_builder *text) {
    l3a_status status = L3A_OK;
    char *copy = NULL;
    if (json_peek(json) == JSON_STRING) {
        json_text string;
        TRY(json_string(json, &string));
        TRY(json_text_copy(json, string, &copy));
        text_builder_append(text, copy, strlen(copy));
    } else {
        const char *start = json->at;
        TRY(json_skip(json));
        text_builder_append(text, start, (size_t)(json->at - start));
    }
done:
    release(json->context, copy);
    return status;
}

static l3a_status print_list(struct json *json, text_builder *text) {
    l3a_status status = L3A_OK;
    bool more;
    TRY(json_array(json));
    for (bool first = true;; first = false) {
        TRY(json_next_item(json, &more));
        if (!more) {
            break;
        }
        html_raw(text, first ? "" : ", ");
        TRY(print_value(json, text));
    }
done:
    return status;
}

static l3a_status take_object(struct report_run *run, struct json *json, const char *prefix, int depth);

static l3a_status take_member(struct report_run *run, struct json *json, const char *name, int depth) {
    l3a_status status = L3A_OK;
    text_builder text = {.context = json->context};
    const json_kind kind = json_peek(json);
    if (kind == JSON_OBJECT && depth < RECORD_DEPTH) {
        return take_object(run, json, name, depth + 1);
    }
    TRY(kind == JSON_ARRAY ? print_list(json, &text) : print_value(json, &text));
    TRY(text.status);
    if (run->keys.count == RECORDS) {
        status = json_fail(json, "more than %d entries", RECORDS);
        goto done;
    }
    TRY(text_record_set(json->context, &run->keys, &run->values, name, text.length ? text.text : ""));
done:
    text_builder_free(&text);
    return status;
}

static l3a_status take_object(struct report_run *run, struct json *json, const char *prefix, int depth) {
    l3a_status status = L3A_OK;
    bool more;
    TRY(json_object(json));
    for (;;) {
        json_text key;
        char name[128];
        TRY(json_next_key(json, &key, &more));
        if (!more) {
            break;
        }
        snprintf(name, sizeof name, "%s%s%.*s", prefix, prefix[0] ? "." : "", (int)(key.length < 64 ? key.length : 64), key.at);
        TRY(take_member(run, json, name, depth));
    }
done:
    return status;
}

l3a_status load_record(l3a_context *context, const char *path, struct report_run *run) {
    l3a_status status = L3A_OK;
    char *text = NULL;
    struct json json;
    TRY(record_open(context, path, &json, &text));
    TRY(take_object(run, &json, "", 0));
done:
    release(context, text);
    return status;
}

static l3a_status load_own_record(l3a_context *context, struct report_run *run) {
    l3a_status status = L3A_OK;
    char *path = NULL;
    bool exists = false;
    TRY(file_exists(context, run->folder, &exists));
    FAIL_IF(!exists, context, L3A_ERROR_NOT_FOUND, "check the path", "%s: there is no such folder", run->folder);
    TRY(join_path(context, run->folder, "run.json", &path));
    TRY(file_exists(context, path, &exists));
    FAIL_IF(!exists, context, L3A_ERROR_NOT_FOUND, "give the folder of a run or of a sweep",
            "%s: not the folder of a run (there is no run.json in it)", run->folder);
    TRY(load_record(context, path, run));
done:
    release(context, path);
    return status;
}

const char *run_record(const struct report_run *run, const char *key) {
    const size_t index = text_list_find(&run->keys, key);
    return index < run->values.count ? run->values.items[index] : "";
}

/* ---- Runs ---- */

static void run_free(l3a_context *context, struct report_run *run) {
    text_list_clear(context, &run->keys);
    text_list_clear(context, &run->values);
    text_list_clear(context, &run->methods);
    text_list_clear(context, &run->seeds);
    release(context, run->name);
    l3a_results_free(run->results);
}

l3a_status split_items(l3a_context *context, const char *text, text_list *items) {
    l3a_status status = L3A_OK;
    while (*text) {
        const char *end = strstr(text, ", ");
        TRY(text_list_add(context, items, text, end ? (size_t)(end - text) : strlen(text)));
        text = end ? end + 2 : "";
    }
done:
    return status;
}

/* Whether a method has learned all classes with a seed and a class order. */
static bool has_finished(const l3a_results *results, const char *method, const char *seed, size_t order) {
    for (size_t j = 0; j < results->count; j++) {
        char number[24];
        snprintf(number, sizeof number, "%llu", (unsigned long long)results->rows[j].seed);
        if (strcmp(results->rows[j].method, method) == 0 && strcmp(number, seed) == 0 && results->details[j].order == order &&
            results->rows[j].last == results->classes.count) {
            return true;
        }
    }
    return false;
}

static bool is_finished(const struct report_run *run) {
    const size_t orders = l3a_results_order_count(run->results), trials = run->seeds.count * orders;
    for (size_t i = 0; i < run->methods.count * trials; i++) {
        const char *method = run->methods.items[i / trials], *seed = run->seeds.items[i % trials / orders];
        if (!has_finished(run->results, method, seed, i % orders)) {
            return false;
        }
    }
    return true;
}

/* The last part of the folder's path. */
const char *short_name(const char *folder, size_t *length) {
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/') {
        end--;
    }
    size_t start = end;
    while (start && folder[start - 1] != '/') {
        start--;
    }
    *length = end - start;
    return folder + start;
}

/* A run is named by the last part of its path, or by the whole path if another run has the same last part. */
static l3a_status name_runs(struct report *report) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < report->run_count; i++) {
        size_t length, other;
        const char *folder = report->runs[i].folder, *name = short_name(folder, &length);
        bool unique = length > 0 && strncmp(name, ".", length) != 0;
        for (size_t j = 0; j < report->run_count; j++) {
            const char *theirs = short_name(report->runs[j].folder, &other);
            unique = unique && (j == i || other != length || strncmp(name, theirs, length) != 0);
        }
        TRY(copy_text(report->context, unique ? name : folder, unique ? length : strlen(folder), &report->runs[i].name));
    }
done:
    return status;
}

/* From what the run recorded: its setting, or what the method prescribes. */
static void describe_threshold(const struct report_run *run, const struct method_table *methods, const char *method,
                               char text[THRESHOLD_TEXT]) {
    char key[128];
    const char *values[2], *setting = methods->threshold(method);
    const bool fitted = strcmp(setting, "thresholds") == 0;
    const char *const names[2] = {"thresholds", fitted ? "theta" : setting};
    for (size_t i = 0; i < 2; i++) {
        snprintf(key, sizeof key, "run.prescribed.%.64s.%s", method, names[i]);
        values[i] = run_record(run, key);
        snprintf(key, sizeof key, "run.%s", names[i]);
        values[i] = values[i][0] ? values[i] : run_record(run, key);
    }
    const bool own = strcmp(values[0], own_thresholds) == 0;
    threshold_describe(fitted || own ? values[0] : "fixed", values[1], text);
}

/* The record must have been read. */
static l3a_status load_results(l3a_context *context, const struct method_table *methods, struct report_run *run) {
    l3a_status status = L3A_OK;
    TRY(results_load(context, run->folder, &run->results));
    for (size_t i = 0; i < run->results->methods.count; i++) {
        const char *method = run->results->methods.items[i];
        char threshold[THRESHOLD_TEXT];
        describe_threshold(run, methods, method, threshold);
        TRY(results_set_threshold(run->results, method, threshold));
    }
done:
    return status;
}

l3a_status report_results(l3a_context *context, const char *folder, const struct method_table *methods, l3a_results **results) {
    l3a_status status = L3A_OK;
    struct report_run run = {.folder = folder};
    char *path = NULL;
    TRY(join_path(context, folder, "run.json", &path));
    TRY(load_record(context, path, &run));
    TRY(load_results(context, methods, &run));
    *results = run.results;
    run.results = NULL;
done:
    run_free(context, &run);
    release(context, path);
    return status;
}

static l3a_status load_run(l3a_context *context, const struct method_table *methods, struct report_run *run) {
    l3a_status status = L3A_OK;
    TRY(load_own_record(context, run));
    TRY(load_results(context, methods, run));
    TRY(split_items(context, run_record(run, "run.methods"), &run->methods));
    TRY(split_items(context, run_record(run, "run.seeds"), &run->seeds));
    run->finished = is_finished(run);
done:
    return status;
}

/* ---- Series ---- */

static bool is_of_series(const struct series *series, size_t row) {
    return series->run->results->rows[row].method == series->method; /* results keep one copy of each name */
}

static const char *method_help(const struct report *report, const char *name) {
    for (size_t i = 0; report->methods->at(i); i++) {
        if (strcmp(report->methods->at(i)->name, name) == 0) {
            return report->methods->at(i)->help;
        }
    }
    return "";
}

/* The name of a point's folder as a label: "l3a,eta=0.7" becomes "l3a eta=0.7". A method without the setting has "joint,eta=-". */
static void print_point(const char *name, text_builder *label) {
    while (*name) {
        const size_t length = strcspn(name, ",");
        if (length < 2 || strncmp(name + length - 2, "=-", 2) != 0) {
            text_builder_print(label, label->length ? " %.*s" : "%.*s", (int)length, name);
        }
        name += length + (name[length] != 0);
    }
}

static l3a_status label_series(const struct report *report, struct series *series, size_t methods) {
    text_builder label = {.context = report->context};
    const char *name = report->run_count > 1 ? series->run->name : series->method;
    if (report->sweep) {
        print_point(name, &label);
    } else {
        text_builder_print(&label, "%s", name);
    }
    if (report->run_count > 1 && methods > 1) {
        text_builder_print(&label, ": %s", series->method);
    }
    text_builder_print(&label, "%s", series->source[0] ? " †" : "");
    const l3a_status status = label.status;
    series->label = label.text;
    return status;
}

static l3a_status fill_series(struct report *report, struct series *series, size_t methods) {
    const l3a_results *results = series->run->results;
    l3a_status status = L3A_OK;
    series->source = l3a_results_source(results, series->method);
    series->help = series->source[0] ? "from elsewhere" : method_help(report, series->method);
    series->gap = NAN;
    TRY(label_series(report, series, methods));
    series->summary.size = sizeof series->summary;
    TRY(l3a_results_summary(report->context, results, series->method, &series->summary));
    series->threshold = results_threshold(results, series->method);
    bool found = false;
    for (size_t i = 0; i < results->count; i++) {
        const l3a_result *row = &results->rows[i];
        if (is_of_series(series, i)) {
            const l3a_result *last = found ? &results->rows[series->last_row] : row;
            const bool same =
                !found || (row->seed == last->seed && results->details[i].order == results->details[series->last_row].order);
            series->last_row = !found || (same && row->phase > last->phase) ? i : series->last_row;
            series->rows = row->phase > series->rows ? row->phase : series->rows;
            found = true;
        }
    }
done:
    return status;
}

static void fill_gaps(const struct report *report) {
    for (size_t r = 0; r < report->run_count; r++) {
        const struct report_run *run = &report->runs[r];
        const text_list *methods = &run->results->methods;
        const char *bound = bound_name((const char *const *)methods->items, methods->count);
        struct series *series = report->series + run->first_series;
        for (size_t i = 0; bound && i < run->series_count * run->series_count; i++) {
            struct series *own = &series[i / run->series_count], *joint = &series[i % run->series_count];
            if (own != joint && strcmp(joint->method, bound) == 0) {
                own->bound = bound;
                own->gap = joint->summary.last_map[0] - own->summary.last_map[0];
            }
        }
    }
}

static l3a_status make_series(struct report *report) {
    l3a_status status = L3A_OK;
    size_t all = 0;
    for (size_t i = 0; i < report->run_count; i++) {
        all += report->runs[i].results->methods.count;
    }
    TRY(allocate_zeroed(report->context, all, sizeof *report->series, &report->series));
    for (size_t i = 0; i < report->run_count; i++) {
        struct report_run *run = &report->runs[i];
        run->first_series = report->series_count;
        for (size_t j = 0; j < run->results->methods.count; j++) {
            struct series *series = &report->series[report->series_count];
            const char *method = run->results->methods.items[j];
            bool measured = false;
            for (size_t row = 0; row < run->results->count; row++) {
                measured = measured || strcmp(run->results->rows[row].method, method) == 0;
            }
            if (measured) {
                *series = (struct series){.run = run, .method = method};
                report->series_count++;
                TRY(fill_series(report, series, run->results->methods.count));
            }
        }
        run->series_count = report->series_count - run->first_series;
    }
    fill_gaps(report);
    TRY(compare_series(report));
done:
    return status;
}

l3a_status report_load(struct report *report, const char *const *folders, size_t count) {
    l3a_status status = L3A_OK;
    bool sweep = false;
    for (size_t i = 0; i < count; i++) {
        TRY(sweep_find(report, folders[i], &sweep));
        FAIL_IF(sweep && count > 1, report->context, L3A_ERROR_ARGUMENT,
                "name the folders of its points instead, or only the sweep",
                "%s: the folder of a sweep, which needs a page of its own", folders[i]);
    }
    if (sweep) {
        folders = (const char *const *)report->sweep->folders.items;
        count = report->sweep->folders.count;
    }
    TRY(allocate_zeroed(report->context, count, sizeof *report->runs, &report->runs));
    for (size_t i = 0; i < count; i++) {
        report->run_count++;
        report->runs[i].folder = folders[i];
        TRY(load_run(report->context, report->methods, &report->runs[i]));
    }
    if (sweep) {
        TRY(sweep_sort(report));
    }
    FAIL_IF(report->options->with_count && !report->options->with, report->context, L3A_ERROR_ARGUMENT, NULL,
            "the files to join are NULL");
    TRY(need_items(report->context, "l3a_report_options", "with", report->options->with, report->options->with_count));
    for (size_t i = 0; i < report->options->with_count; i++) {
        FAIL_IF(sweep || count != 1, report->context, L3A_ERROR_ARGUMENT, "name one run",
                "%s: results from elsewhere join one run, not %s", report->options->with[i], sweep ? "a sweep" : "several");
        TRY(l3a_results_join(report->runs[0].results, report->options->with[i]));
    }
    TRY(name_runs(report));
    TRY(make_series(report));
done:
    return status;
}

void report_free(struct report *report) {
    l3a_context *context = report->context;
    for (size_t i = 0; i < report->run_count; i++) {
        run_free(context, &report->runs[i]);
    }
    for (size_t i = 0; i < report->series_count; i++) {
        release(context, report->series[i].label);
    }
    for (size_t i = 0; i < report->figure_count; i++) {
        release(context, report->figures[i].name);
        release(context, report->figures[i].title);
        release(context, report->figures[i].bytes);
    }
    release(context, report->runs);
    release(context, report->series);
    release(context, report->differences);
    release(context, report->figures);
    sweep_free(report);
    text_builder_free(&report->drawing);
    text_builder_free(&report->canvas.legend);
    text_builder_free(&report->page);
    text_builder_free(&report->links);
}

/* ---- Numbers ---- */

bool begins_source(const struct report *report, size_t index) {
    const char *source = report->series[index].source;
    bool first = source[0];
    for (size_t i = 0; i < index; i++) {
        first = first && strcmp(report->series[i].source, source) != 0;
    }
    return first;
}

size_t phase_value(const struct series *series, size_t last, enum measure measure, double value[2]) {
    const l3a_results *results = series->run->results;
    struct spread spread = {0};
    for (size_t i = 0; i < results->count; i++) {
        const l3a_metrics *m = &results->rows[i].metrics;
        const double values[] = {[MEAN_AP] = m->mean_ap,
                                 [CLASS_F1] = m->class_f1,
                                 [OVERALL_F1] = m->overall_f1,
                                 [BASE_AP] = results->rows[i].base_map,
                                 [NEW_AP] = results->rows[i].new_map};
        const double own = values[measure];
        if (is_of_series(series, i) && results->rows[i].last == last && !isnan(own)) {
            spread_add(&spread, own);
        }
    }
    spread_finish(&spread, value);
    return spread.count;
}

size_t phase_ends(const struct report *report, const struct series *only, size_t *ends, size_t limit) {
    size_t count = 0;
    for (size_t s = 0; s < report->series_count; s++) {
        const struct series *series = &report->series[s];
        for (size_t i = 0; (!only || only == series) && i < series->run->results->count; i++) {
            const size_t end = series->run->results->rows[i].last;
            size_t at = 0;
            while (at < count && ends[at] < end) {
                at++;
            }
            if (is_of_series(series, i) && count < limit && (at == count || ends[at] != end)) {
                memmove(ends + at + 1, ends + at, (count - at) * sizeof *ends);
                ends[at] = end;
                count++;
            }
        }
    }
    return count;
}

double class_precision(const struct series *series, size_t last, size_t k, enum orders orders) {
    const l3a_results *results = series->run->results;
    double sum = 0;
    size_t seeds = 0;
    for (size_t i = 0; i < results->count; i++) {
        const size_t order = results->details[i].order;
        if (is_of_series(series, i) && results->rows[i].last == last && (order == 0 || orders == ALL_ORDERS)) {
            const size_t place = results_place(results, order, k);
            sum += place < last ? results->details[i].average_precision[place] : NAN;
            seeds++;
        }
    }
    return seeds ? sum / (double)seeds : NAN;
}
