/* The results of a run: tables with the paper's columns for people, and CSV and JSON for programs. */
#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { METHODS = 64 };

/* The methods in the order they appear. */
static size_t list_methods(const l3a_results *results, const char *methods[METHODS]) {
    size_t count = 0;
    for (size_t i = 0; i < l3a_results_count(results); i++) {
        const char *method = l3a_results_at(results, i)->method;
        size_t j = 0;
        while (j < count && strcmp(methods[j], method) != 0) {
            j++;
        }
        if (j == count && count < METHODS) {
            methods[count++] = method;
        }
    }
    return count;
}

/* The mAP after a phase, averaged over the seeds that have it; for a method with a single phase, it is in the last column. */
static double phase_map(const l3a_results *results, const char *method, size_t last_class) {
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < l3a_results_count(results); i++) {
        const l3a_result *row = l3a_results_at(results, i);
        if (row->last == last_class && strcmp(row->method, method) == 0) {
            sum += row->metrics.mean_ap;
            count++;
        }
    }
    return count ? sum / (double)count : -1;
}

/* The class counts at which phases end, over all methods, in rising order. */
static size_t list_ends(const l3a_results *results, size_t ends[1024]) {
    size_t count = 0;
    for (size_t i = 0; i < l3a_results_count(results); i++) {
        const size_t end = l3a_results_at(results, i)->last;
        size_t j = 0;
        while (j < count && ends[j] < end) {
            j++;
        }
        if ((j == count || ends[j] != end) && count < 1024) {
            memmove(ends + j + 1, ends + j, (count - j) * sizeof *ends);
            ends[j] = end;
            count++;
        }
    }
    return count;
}

enum { COLUMNS = 5, LAST_COLUMN = 1, F1_COLUMNS = 4 }; /* CF1 and OF1 are the last two of the first four */
static const char *const headings[COLUMNS] = {"avg", "last", "CF1", "OF1", "forget"};
static const char *const metrics[COLUMNS] = {"avg_mAP", "last_mAP", "CF1", "OF1", "forgetting"};

/* The table with a row for each method. */
struct paper_table {
    const l3a_results *results;
    size_t count;
    const char *methods[METHODS];
    const char *thresholds[METHODS];
    l3a_summary summaries[METHODS];
    l3a_significance *differences[COLUMNS]; /* from the best of each column */
    size_t ends[1024], phases;
    bool mixed;           /* the methods' thresholds differ */
    int width, threshold; /* of the columns with the names and the thresholds */
    size_t seeds, orders; /* the most that a method has */
    size_t pairs;         /* the most that a method has with the one that ends best */
};

static const double *column_value(const l3a_summary *summary, size_t column) {
    const double *values[COLUMNS] = {summary->average_map, summary->last_map, summary->last_class_f1, summary->last_overall_f1,
                                     summary->forgetting};
    return values[column];
}

static const char *threshold_of(const l3a_experiment *experiment, const char *method) {
    for (size_t i = 0; i < l3a_experiment_points(experiment); i++) {
        if (strcmp(l3a_experiment_method(experiment, i), method) == 0) {
            return l3a_experiment_threshold(experiment, i);
        }
    }
    return "";
}

static l3a_status compare_methods(l3a_context *context, struct paper_table *table) {
    l3a_status status = L3A_OK;
    for (size_t c = 0; c < COLUMNS && status == L3A_OK; c++) {
        status = l3a_results_significance(context, &table->results, 1, metrics[c], SIZE_MAX, &table->differences[c]);
    }
    for (size_t i = 0; i < table->count && status == L3A_OK; i++) {
        const size_t pairs = l3a_significance_at(table->differences[LAST_COLUMN], i)->pairs;
        table->pairs = pairs > table->pairs ? pairs : table->pairs;
    }
    return status;
}

static void free_table(struct paper_table *table) {
    for (size_t c = 0; c < COLUMNS; c++) {
        l3a_significance_free(table->differences[c]);
    }
}

static l3a_status fill_table(l3a_context *context, const l3a_experiment *experiment, struct paper_table *table) {
    table->results = l3a_experiment_results(experiment, 0);
    table->count = list_methods(table->results, table->methods);
    table->phases = list_ends(table->results, table->ends);
    table->width = 12;
    for (size_t i = 0; i < table->count; i++) {
        l3a_summary *summary = &table->summaries[i];
        summary->size = sizeof *summary;
        const l3a_status status = l3a_results_summary(context, table->results, table->methods[i], summary);
        if (status != L3A_OK) {
            return status;
        }
        table->thresholds[i] = threshold_of(experiment, table->methods[i]);
        table->mixed = table->mixed || strcmp(table->thresholds[i], table->thresholds[0]) != 0;
        const int wide = display_width(table->methods[i]), threshold = display_width(table->thresholds[i]);
        table->width = wide > table->width ? wide : table->width;
        table->threshold = threshold > table->threshold ? threshold : table->threshold;
        table->seeds = summary->seeds > table->seeds ? summary->seeds : table->seeds;
        table->orders = summary->orders > table->orders ? summary->orders : table->orders;
    }
    return compare_methods(context, table);
}

static void print_spread(const double value[2], size_t seeds, bool best) {
    printf("  %s%6.2f%s", best ? style(stdout, STYLE_BOLD) : "", value[0], best ? style(stdout, STYLE_PLAIN) : "");
    if (seeds > 1) {
        printf(" ± %-5.2f", value[1]);
    }
}

static void print_heading(const struct paper_table *table) {
    printf("\nmAP after each phase, and summary\n%s%-*s", style(stdout, STYLE_BOLD), table->width, "method");
    for (size_t t = 0; t < table->phases; t++) {
        printf(" %6zu", t + 1);
    }
    for (size_t c = 0; c < COLUMNS; c++) {
        printf("  %*s", table->seeds > 1 ? 14 : 6, headings[c]);
        if (table->mixed && c + 1 == F1_COLUMNS) {
            printf("  %-*s", table->threshold, "threshold");
        }
    }
    printf("%s%s\n", table->pairs > 1 ? "  last: from the best" : "", style(stdout, STYLE_PLAIN));
}

/* How far its last mAP is from the best, and the interval. */
static void print_difference(const struct paper_table *table, size_t i) {
    const l3a_difference *found = l3a_significance_at(table->differences[LAST_COLUMN], i);
    if (found->reference_index == i) {
        printf("  best");
    } else if (found->pairs > 1) {
        printf("  %.2f (%.2f to %.2f)", found->difference, found->low, found->high);
    } else {
        printf("  -");
    }
}

static void print_method(const struct paper_table *table, size_t i) {
    printf("%-*s", table->width, table->methods[i]);
    for (size_t t = 0; t < table->phases; t++) {
        const double map = phase_map(table->results, table->methods[i], table->ends[t]);
        if (map < 0) {
            printf(" %6s", "");
        } else {
            printf(" %6.2f", map);
        }
    }
    for (size_t c = 0; c < COLUMNS; c++) {
        print_spread(column_value(&table->summaries[i], c), table->summaries[i].seeds,
                     l3a_significance_at(table->differences[c], i)->best);
        if (table->mixed && c + 1 == F1_COLUMNS) {
            printf("  %-*s", table->threshold, table->thresholds[i]);
        }
    }
    if (table->pairs > 1) {
        print_difference(table, i);
    }
    printf("\n");
}

/* What the last column is, and what is bold. */
static void print_significance(const struct paper_table *table) {
    if (table->pairs > 1) {
        printf("Differences are from the best method that learns in phases, with 95 %% %s intervals over %zu paired runs (the same "
               "seed and class order).\n",
               table->pairs < 10 ? "t" : "bootstrap", table->pairs);
    }
    if (table->pairs >= 5 && style(stdout, STYLE_BOLD)[0]) {
        printf("Bold: the best of the methods that learn in phases, and those that may be as good (p ≥ 0.05 after Holm's "
               "correction).\n");
    }
    if (table->mixed) {
        printf("CF1 and OF1 are compared only between methods with the same threshold.\n");
    }
}

static l3a_status print_paper_table(l3a_context *context, const l3a_experiment *experiment) {
    struct paper_table table = {.count = 0};
    const l3a_status status = fill_table(context, experiment, &table);
    if (status != L3A_OK) {
        free_table(&table);
        return status;
    }
    print_heading(&table);
    for (size_t i = 0; i < table.count; i++) {
        print_method(&table, i);
    }
    if (table.orders > 1) {
        printf(
            "± is the standard deviation over %zu class orders and %zu %s (%zu runs of each method); single columns are means.\n",
            table.orders, table.seeds / table.orders, plural(table.seeds / table.orders, "seed", "seeds"), table.seeds);
    } else if (table.seeds > 1) {
        printf("± is the standard deviation over seeds; single columns are means.\n");
    }
    if (table.count > 1 && !table.mixed) {
        printf("CF1 and OF1: a class is predicted %s%s.\n", table.thresholds[0][0] == 'f' ? "above a score " : "if ",
               table.thresholds[0]);
    }
    print_significance(&table);
    free_table(&table);
    return L3A_OK;
}

enum { ROW_COLUMNS = 21 };

/* One row for each method, class order, seed and phase. The class order is shown if there are several, beside the method or, to
 * programs, at the end. */
static size_t list_columns(const l3a_results *results, struct column columns[ROW_COLUMNS]) {
    static const struct column all[ROW_COLUMNS] = {
        {"method", "method", -12, 0, 0, 0, NULL},
        {NULL, "class order", -11, 1, 0, 0, NULL},
        {"seed", "seed", 6, 1, 0, 0, NULL},
        {"phase", "phase", 5, 1, 0, 0, NULL},
        {NULL, "classes", -9, 2, 0, 0, NULL},
        {.name = "first"},
        {.name = "last"},
        {"train_images", "train", 8, 1, 0, 0, NULL},
        {"test_images", "test", 8, 1, 0, 0, NULL},
        {"pseudo_labels", "pseudo", 8, 1, 0, 0, NULL},
        {"mAP", "mAP", 6, 2, 2, 6, NULL},
        {.name = "CP", .exact = 6},
        {.name = "CR", .exact = 6},
        {"CF1", "CF1", 6, 1, 2, 6, NULL},
        {.name = "OP", .exact = 6},
        {.name = "OR", .exact = 6},
        {"OF1", "OF1", 6, 1, 2, 6, NULL},
        {"seconds", "seconds", 8, 1, 1, 3, NULL},
        {.name = "base_mAP", .exact = 6},
        {.name = "new_mAP", .exact = 6},
        {.name = "class_order"},
    };
    memcpy(columns, all, sizeof all);
    for (size_t i = 0; i < l3a_results_order_count(results); i++) {
        column_widen(&columns[1], l3a_results_order(results, i));
    }
    if (l3a_results_order_count(results) > 1) {
        return ROW_COLUMNS;
    }
    columns[1].heading = NULL;
    return ROW_COLUMNS - 1;
}

static void print_row(struct printer *printer, const l3a_results *results, size_t index, const struct column *columns,
                      size_t count) {
    const l3a_result *row = l3a_results_at(results, index);
    const l3a_metrics *m = &row->metrics;
    const char *order = l3a_results_order(results, l3a_results_order_of(results, index));
    char classes[32];
    snprintf(classes, sizeof classes, "%zu-%zu", row->first + 1, row->last);
    const struct value values[ROW_COLUMNS] = {
        text_value(row->method),
        text_value(order),
        count_value(row->seed),
        count_value(row->phase),
        text_value(classes),
        count_value(row->first),
        count_value(row->last),
        count_value(row->train_images),
        count_value(row->test_images),
        count_value(row->pseudo_labels),
        number_value(m->mean_ap),
        number_value(m->class_precision),
        number_value(m->class_recall),
        number_value(m->class_f1),
        number_value(m->overall_precision),
        number_value(m->overall_recall),
        number_value(m->overall_f1),
        number_value(row->seconds),
        number_value(row->base_map), /* folders written by older versions lack these two */
        number_value(row->new_map),
        text_value(order),
    };
    print_values(printer, columns, values, count);
}

static void print_rows(struct printer *printer, const l3a_results *results) {
    struct column columns[ROW_COLUMNS];
    const size_t count = list_columns(results, columns);
    print_headings(printer, columns, count);
    for (size_t i = 0; i < l3a_results_count(results); i++) {
        print_row(printer, results, i, columns, count);
    }
}

static void print_json_rows(struct printer *printer, const l3a_results *results) {
    struct column columns[ROW_COLUMNS];
    const size_t count = list_columns(results, columns);
    put_open(printer, "rows", '[');
    for (size_t i = 0; i < l3a_results_count(results); i++) {
        const double *precisions = l3a_results_average_precision(results, i);
        put_break(printer, 4);
        put_open(printer, NULL, '{');
        print_row(printer, results, i, columns, count);
        put_open(printer, "AP", '[');
        for (size_t k = 0; k < l3a_results_at(results, i)->last; k++) {
            put_number(printer, NULL, precisions[k], 4);
        }
        put_close(printer, ']');
        put_close(printer, '}');
    }
    put_break(printer, 2);
    put_close(printer, ']');
}

static void print_json_classes(struct printer *printer, const char *name, const l3a_results *results, size_t order) {
    put_open(printer, name, '[');
    for (size_t i = 0; i < l3a_results_class_count(results); i++) {
        put_text(printer, NULL, l3a_results_class_in(results, order, i));
    }
    put_close(printer, ']');
}

static void print_json_summary(struct printer *printer, const char *method, const l3a_summary *summary, bool ordered) {
    put_break(printer, 4);
    put_open(printer, NULL, '{');
    put_text(printer, "method", method);
    put_count(printer, "seeds", summary->seeds / summary->orders);
    if (ordered) {
        put_count(printer, "class_orders", summary->orders);
    }
    put_spread(printer, "avg_mAP", summary->average_map);
    put_spread(printer, "last_mAP", summary->last_map);
    put_spread(printer, "CF1", summary->last_class_f1);
    put_spread(printer, "OF1", summary->last_overall_f1);
    put_spread(printer, "forgetting", summary->forgetting);
    put_spread(printer, "base_mAP", summary->base_map);
    put_spread(printer, "new_mAP", summary->new_map);
    put_close(printer, '}');
}

static void print_json_difference(struct printer *printer, const char *metric, const l3a_difference *found) {
    put_break(printer, 4);
    put_open(printer, NULL, '{');
    put_text(printer, "metric", metric);
    put_text(printer, "method", found->method);
    put_text(printer, "reference", found->reference);
    put_count(printer, "pairs", found->pairs);
    put_number(printer, "difference", found->difference, 9);
    put_number(printer, "low", found->low, 9);
    put_number(printer, "high", found->high, 9);
    put_number(printer, "p", found->p, 12);
    put_number(printer, "adjusted_p", found->adjusted_p, 12);
    if (found->significant < 0) {
        put_null(printer, "significant");
    } else {
        put_boolean(printer, "significant", found->significant);
    }
    put_close(printer, '}');
}

/* Each method and the best that it can be compared with. */
static l3a_status print_json_significance(l3a_context *context, struct printer *printer, const l3a_results *results) {
    put_open(printer, "significance", '[');
    for (size_t c = 0; c < COLUMNS; c++) {
        l3a_significance *differences = NULL;
        const l3a_status status = l3a_results_significance(context, &results, 1, metrics[c], SIZE_MAX, &differences);
        if (status != L3A_OK) {
            return status;
        }
        for (size_t i = 0; i < l3a_significance_count(differences); i++) {
            if (l3a_significance_at(differences, i)->pairs) {
                print_json_difference(printer, metrics[c], l3a_significance_at(differences, i));
            }
        }
        l3a_significance_free(differences);
    }
    put_break(printer, 2);
    put_close(printer, ']');
    return L3A_OK;
}

static l3a_status print_json(l3a_context *context, struct printer *printer, const l3a_results *results) {
    const char *methods[METHODS];
    const size_t count = list_methods(results, methods), orders = l3a_results_order_count(results);
    put_open(printer, NULL, '{');
    put_break(printer, 2);
    print_json_classes(printer, "classes", results, 0);
    if (orders > 1) {
        put_break(printer, 2);
        put_open(printer, "class_orders", '{');
        for (size_t i = 0; i < orders; i++) {
            print_json_classes(printer, l3a_results_order(results, i), results, i);
        }
        put_close(printer, '}');
    }
    put_break(printer, 2);
    print_json_rows(printer, results);
    put_break(printer, 2);
    put_open(printer, "summary", '[');
    for (size_t i = 0; i < count; i++) {
        l3a_summary summary = {.size = sizeof summary};
        const l3a_status status = l3a_results_summary(context, results, methods[i], &summary);
        if (status != L3A_OK) {
            return status;
        }
        print_json_summary(printer, methods[i], &summary, orders > 1);
    }
    put_break(printer, 2);
    put_close(printer, ']');
    put_break(printer, 2);
    const l3a_status status = print_json_significance(context, printer, results);
    if (status != L3A_OK) {
        return status;
    }
    put_break(printer, 0);
    put_close(printer, '}');
    printf("\n");
    return L3A_OK;
}

/* The sentence that comes first. */
static l3a_status print_verdict(l3a_context *context, const l3a_results *results) {
    char text[1024];
    const l3a_status status = l3a_results_verdict(context, results, text, sizeof text);
    if (status == L3A_OK && text[0]) {
        printf("%s\n\n", text);
    }
    return status;
}

l3a_status print_results(l3a_context *context, const l3a_experiment *run, const char *format) {
    const l3a_results *results = l3a_experiment_results(run, 0);
    struct printer printer = printer_of(format);
    if (printer.form == FORM_JSON) {
        return print_json(context, &printer, results);
    }
    if (printer.form == FORM_CSV) {
        print_rows(&printer, results);
        return L3A_OK;
    }
    if (strcmp(format, "table") == 0) {
        const l3a_status status = print_verdict(context, results);
        if (status != L3A_OK) {
            return status;
        }
        print_rows(&printer, results);
    }
    return print_paper_table(context, run);
}

bool is_published(const char *format) {
    return strcmp(format, "markdown") == 0 || strcmp(format, "latex") == 0;
}

l3a_status print_report_table(l3a_context *context, const char *const *folders, size_t count, const l3a_report_options *options,
                              const char *format) {
    size_t length = 0;
    l3a_status status = l3a_report_table(context, folders, count, options, format, NULL, 0, &length);
    char *text = status == L3A_OK ? malloc(length + 1) : NULL;
    if (text) {
        status = l3a_report_table(context, folders, count, options, format, text, length + 1, &length);
    }
    for (char *line = text, *end; line && status == L3A_OK && *line;
         line = end) { /* a line at a time, as names may hold anything */
        end = line + strcspn(line, "\n");
        end += *end ? (*end = '\0', 1) : 0;
        printf("%s\n", line);
    }
    free(text);
    return status;
}
