/* The tables of a run's results, as CSV: metrics.csv, per_class.csv and timings.csv. */
#include "common/number.h"
#include "format/csv.h"
#include "measure/results.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FIELDS = 16, LATER_FIELDS = 2 }; /* of metrics.csv; base_mAP and new_mAP, which older files lack */

static const char metrics_header[] =
    "method,seed,phase,first,last,train_images,test_images,pseudo_labels,mAP,CP,CR,CF1,OP,OR,OF1,seconds,base_mAP,new_mAP\n";
static const char short_metrics_header[] = /* of older files */
    "method,seed,phase,first,last,train_images,test_images,pseudo_labels,mAP,CP,CR,CF1,OP,OR,OF1,seconds\n";
static const char classes_header[] = "method,seed,phase,class,AP,images,weight,pseudo,right,present,curve\n";
static const char short_classes_header[] = "method,seed,phase,class,AP\n"; /* of older files */
static const char stages_header[] = "method,seed,phase,stage,seconds,peak_memory\n";
static const char order_column[] = ",class_order\n"; /* the last of each table, if the run has several class orders */

static void print_header(const l3a_results *results, const char *header, text_builder *text) {
    text_builder_append(text, header, strlen(header) - 1);
    text_builder_print(text, "%s", results->orders.count ? order_column : "\n");
}

/* Ends a line. */
static void print_order(const l3a_results *results, size_t order, text_builder *text) {
    if (results->orders.count) {
        text_builder_print(text, ",");
        csv_print_field(text, results->orders.items[order]);
    }
    text_builder_print(text, "\n");
}

static void print_number(text_builder *text, double value) {
    char number[NUMBER_TEXT];
    text_builder_print(text, ",%s", number_format(value, number));
}

/* An empty field if an older version did not record the value. */
static void print_recorded(text_builder *text, double value) {
    if (isnan(value)) {
        text_builder_print(text, ",");
    } else {
        print_number(text, value);
    }
}

static void print_details(text_builder *text, const struct class_details *details, size_t k) {
    print_number(text, details->average_precision[k]);
    if (details->tallies) {
        const l3a_class_tally *tally = &details->tallies[k];
        text_builder_print(text, ",%" PRIu64, tally->images);
        print_number(text, tally->weight);
        text_builder_print(text, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", tally->pseudo, tally->right, tally->present);
        for (size_t i = 0; details->curves && i < CURVE_POINTS; i++) {
            const unsigned tenths = (unsigned)(10 * details->curves[k * CURVE_POINTS + i] + 0.5F);
            text_builder_print(text, "%s%u.%u", i ? " " : "", tenths / 10, tenths % 10);
        }
    }
}

static void print_stages(const l3a_results *results, text_builder *text) {
    print_header(results, stages_header, text);
    for (size_t i = 0; i < results->stage_count; i++) {
        const struct stage_time *stage = &results->stages[i];
        text_builder_print(text, "%s,%" PRIu64 ",%zu,%s", stage->method, stage->seed, stage->phase, stage->stage);
        print_number(text, round(stage->seconds * 1e6) / 1e6);
        text_builder_print(text, ",%" PRIu64, stage->peak_memory);
        print_order(results, stage->order, text);
    }
}

l3a_status results_write_stages(l3a_results *results, const char *folder) {
    text_builder text = {.context = results->context};
    print_stages(results, &text);
    const struct table_text table = {"timings.csv", &text};
    const l3a_status status = tables_write(results->context, &results->tables, folder, &table, 1);
    text_builder_free(&text);
    return status;
}

static void print_rows(const l3a_results *results, text_builder *metrics, text_builder *classes) {
    print_header(results, metrics_header, metrics);
    print_header(results, classes_header, classes);
    for (size_t i = 0; i < results->count; i++) {
        const l3a_result *row = &results->rows[i];
        const l3a_metrics *m = &row->metrics;
        const size_t order = results->details[i].order;
        text_builder_print(metrics, "%s,%" PRIu64 ",%zu,%zu,%zu,%" PRIu64 ",%" PRIu64 ",%" PRIu64, row->method, row->seed,
                           row->phase, row->first, row->last, row->train_images, row->test_images, row->pseudo_labels);
        const double numbers[] = {m->mean_ap,           m->class_precision, m->class_recall, m->class_f1,
                                  m->overall_precision, m->overall_recall,  m->overall_f1,   round(row->seconds * 1e3) / 1e3};
        for (size_t j = 0; j < sizeof numbers / sizeof numbers[0]; j++) {
            print_number(metrics, numbers[j]);
        }
        print_recorded(metrics, row->base_map);
        print_recorded(metrics, row->new_map);
        print_order(results, order, metrics);
        for (size_t k = 0; k < row->last; k++) {
            text_builder_print(classes, "%s,%" PRIu64 ",%zu,", row->method, row->seed, row->phase);
            csv_print_field(classes, l3a_results_class_in(results, order, k));
            print_details(classes, &results->details[i], k);
            print_order(results, order, classes);
        }
    }
}

l3a_status results_write(l3a_results *results, const char *folder) {
    l3a_context *context = results->context;
    l3a_status status = L3A_OK;
    text_builder metrics = {.context = context}, classes = {.context = context}, stages = {.context = context};
    print_rows(results, &metrics, &classes);
    if (results->stage_count) {
        print_stages(results, &stages);
    }
    const struct table_text rows = {"metrics.csv", &metrics}, details = {"per_class.csv", &classes};
    const struct table_text tables[] = {results->cut ? rows : details, results->cut ? details : rows, {"timings.csv", &stages}};
    TRY(tables_write(context, &results->tables, folder, tables, results->stage_count ? 3 : 2));
    results->cut = false;
done:
    text_builder_free(&metrics);
    text_builder_free(&classes);
    text_builder_free(&stages);
    return status;
}

static l3a_status fail_line(const struct csv *csv) {
    return fail(csv->context, L3A_ERROR_FORMAT, "put the file back as it was, or start the run again in a new folder",
                "%s: line %zu cannot be understood", csv->name, csv->line);
}

static bool field_integer(const struct csv *csv, size_t index, uint64_t *value) {
    return index < csv->count && integer_parse(csv->fields[index], strlen(csv->fields[index]), value);
}

static bool field_number(const struct csv *csv, size_t index, double *value) {
    return index < csv->count && number_parse(csv->fields[index], strlen(csv->fields[index]), value);
}

/* NaN if the field is empty or the row ends before it. */
static bool field_recorded(const struct csv *csv, size_t index, double *value) {
    *value = NAN;
    return index >= csv->count || !csv->fields[index][0] || field_number(csv, index, value);
}

static bool parse_row(const struct csv *csv, const l3a_results *results, l3a_result *row) {
    uint64_t integers[7];
    double numbers[8], base, new;
    bool good = csv->count == FIELDS || csv->count == FIELDS + LATER_FIELDS;
    for (size_t i = 0; i < 7; i++) {
        good = good && field_integer(csv, i + 1, &integers[i]);
    }
    for (size_t i = 0; i < 8; i++) {
        good = good && field_number(csv, i + 8, &numbers[i]);
    }
    good = good && field_recorded(csv, 16, &base) && field_recorded(csv, 17, &new);
    if (!good || integers[3] > results->classes.count || integers[2] >= integers[3] || !integers[1]) {
        return false;
    }
    *row = (l3a_result){.method = csv->fields[0],
                        .seed = integers[0],
                        .phase = (size_t)integers[1],
                        .first = (size_t)integers[2],
                        .last = (size_t)integers[3],
                        .train_images = integers[4],
                        .test_images = integers[5],
                        .pseudo_labels = integers[6],
                        .metrics = {.size = sizeof row->metrics,
                                    .mean_ap = numbers[0],
                                    .class_precision = numbers[1],
                                    .class_recall = numbers[2],
                                    .class_f1 = numbers[3],
                                    .overall_precision = numbers[4],
                                    .overall_recall = numbers[5],
                                    .overall_f1 = numbers[6],
                                    .images = (size_t)integers[5]},
                        .seconds = numbers[7],
                        .base_map = base,
                        .new_map = new};
    return true;
}

/* Whether a table begins with a header, and how many bytes that has. With several class orders, the last column is the order. */
static bool has_header(const l3a_results *results, const char *text, const char *header, size_t *length) {
    const size_t names = strlen(header) - 1;
    const char *end = results->orders.count ? order_column : "\n";
    *length = names + strlen(end);
    return strncmp(text, header, names) == 0 && strncmp(text + names, end, strlen(end)) == 0;
}

/* Opens a table with the given header, or with the one that older versions wrote; *text is NULL if there is no such file. */
static l3a_status open_table(l3a_results *results, const char *folder, const char *name, const char *header, const char *old_header,
                             struct csv *csv, char **path, char **text) {
    l3a_context *context = results->context;
    l3a_status status = L3A_OK;
    size_t length = 0;
    TRY(tables_read(context, &results->tables, folder, name, path, text, &length));
    if (*text) {
        size_t start;
        const bool good =
            has_header(results, *text, header, &start) || (old_header && has_header(results, *text, old_header, &start));
        csv_begin(csv, context, *path, *text + (good ? start : 0), length - (good ? start : 0));
        csv->line = 1;
        csv->next_line = 2;
        status = good ? L3A_OK : fail_line(csv);
    }
done:
    return status;
}

/* The next row, without its last column if that is the class order. */
static l3a_status next_row(const l3a_results *results, struct csv *csv, bool *more, size_t *order) {
    l3a_status status = L3A_OK;
    *order = 0;
    TRY(csv_next_row(csv, more));
    if (*more && results->orders.count) {
        *order = csv->count ? text_list_find(&results->orders, csv->fields[--csv->count]) : results->orders.count;
        status = *order < results->orders.count ? L3A_OK : fail_line(csv);
    }
done:
    return status;
}

static bool parse_curve(const char *text, float *curve) {
    for (size_t i = 0; i < CURVE_POINTS; i++) {
        double value;
        const size_t length = strcspn(text, " ");
        if (!number_parse(text, length, &value)) {
            return false;
        }
        curve[i] = (float)value;
        text += length + (text[length] == ' ');
    }
    return !*text;
}

/* Parses a line of per_class.csv. The short form ends after the AP. */
static bool parse_class(const struct csv *csv, size_t k, struct class_details *details, size_t *tallies, size_t *curves) {
    l3a_class_tally *tally = &details->tallies[k];
    if (csv->count == 5) {
        return field_number(csv, 4, &details->average_precision[k]);
    }
    ++*tallies;
    *curves += csv->count == 11 && csv->fields[10][0];
    return csv->count == 11 && field_number(csv, 4, &details->average_precision[k]) && field_integer(csv, 5, &tally->images) &&
           field_number(csv, 6, &tally->weight) && field_integer(csv, 7, &tally->pseudo) && field_integer(csv, 8, &tally->right) &&
           field_integer(csv, 9, &tally->present) &&
           (!csv->fields[10][0] || parse_curve(csv->fields[10], details->curves + k * CURVE_POINTS));
}

/* Adds a row with its classes: the next lines of per_class.csv for its method, order, seed and phase. `details` has room for all.
 */
static l3a_status take_row(l3a_results *results, struct csv *classes, const l3a_result *row, struct class_details details) {
    l3a_status status = L3A_OK;
    bool more = true;
    size_t tallies = 0, curves = 0, order;
    for (size_t found = 0; found < row->last;) {
        uint64_t seed, phase;
        TRY(next_row(results, classes, &more, &order));
        if (!more || !field_integer(classes, 1, &seed) || !field_integer(classes, 2, &phase)) {
            return fail_line(classes);
        }
        if (strcmp(classes->fields[0], row->method) == 0 && seed == row->seed && phase == row->phase && order == details.order &&
            !parse_class(classes, found++, &details, &tallies, &curves)) {
            return fail_line(classes);
        }
    }
    details.tallies = tallies == row->last ? details.tallies : NULL;
    details.curves = curves == row->last ? details.curves : NULL;
    status = results_add(results, row, &details);
done:
    return status;
}

static l3a_status read_stages(l3a_results *results, const char *folder) {
    l3a_context *context = results->context;
    l3a_status status = L3A_OK;
    struct csv csv;
    char *path = NULL, *text = NULL;
    bool more = true;
    TRY(open_table(results, folder, "timings.csv", stages_header, NULL, &csv, &path, &text));
    while (text) {
        struct stage_time stage = {0};
        uint64_t phase;
        TRY(next_row(results, &csv, &more, &stage.order));
        if (!more) {
            break;
        }
        if (csv.count != 6 || !field_integer(&csv, 1, &stage.seed) || !field_integer(&csv, 2, &phase) ||
            !field_number(&csv, 4, &stage.seconds) || !field_integer(&csv, 5, &stage.peak_memory)) {
            status = fail_line(&csv);
            goto done;
        }
        stage.method = csv.fields[0];
        stage.phase = (size_t)phase;
        snprintf(stage.stage, sizeof stage.stage, "%s", csv.fields[3]);
        TRY(results_add_stage(results, &stage));
    }
done:
    release(context, text);
    release(context, path);
    return status;
}

l3a_status results_read(l3a_results *results, const char *folder) {
    l3a_context *context = results->context;
    l3a_status status = L3A_OK;
    struct csv metrics, classes;
    char *paths[2] = {NULL, NULL}, *texts[2] = {NULL, NULL};
    struct class_details details = {0};
    const size_t count = results->classes.count;
    bool more = true;
    TRY(tables_open(context, folder, &results->tables));
    TRY(open_table(results, folder, "metrics.csv", metrics_header, short_metrics_header, &metrics, &paths[0], &texts[0]));
    TRY(open_table(results, folder, "per_class.csv", classes_header, short_classes_header, &classes, &paths[1], &texts[1]));
    FAIL_IF(texts[0] && !texts[1], context, L3A_ERROR_NOT_FOUND, "copy the whole folder of the run again",
            "%s: the file is missing, although metrics.csv exists", paths[1]);
    TRY(allocate(context, count, sizeof *details.average_precision, &details.average_precision));
    TRY(allocate(context, count, sizeof *details.tallies, &details.tallies));
    TRY(allocate(context, count, CURVE_POINTS * sizeof *details.curves, &details.curves));
    while (texts[0]) {
        l3a_result row;
        TRY(next_row(results, &metrics, &more, &details.order));
        if (!more) {
            break;
        }
        if (!parse_row(&metrics, results, &row)) {
            status = fail_line(&metrics);
            goto done;
        }
        TRY(take_row(results, &classes, &row, details));
    }
    TRY(read_stages(results, folder));
done:
    for (size_t i = 0; i < 2; i++) {
        release(context, texts[i]);
        release(context, paths[i]);
    }
    details_free(context, &details);
    return status;
}
