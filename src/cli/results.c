/* The results of a run: tables with the paper's columns for people, and CSV and JSON for programs. */
#include "cli.h"

#include "common/rank.h"

#include <inttypes.h>
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

static void print_phases(const l3a_results *results) {
    const bool ordered = l3a_results_order_count(results) > 1;
    int width = (int)sizeof "class order" - 1;
    for (size_t i = 0; ordered && i < l3a_results_order_count(results); i++) {
        const int here = display_width(l3a_results_order(results, i));
        width = here > width ? here : width;
    }
    width = ordered ? width + 1 : 0;
    printf("%s%-12s %*s%6s %5s  %-9s %8s %8s %8s  %6s %6s %6s %8s%s\n", style(stdout, STYLE_BOLD), "method", -width,
           ordered ? "class order" : "", "seed", "phase", "classes", "train", "test", "pseudo", "mAP", "CF1", "OF1", "seconds",
           style(stdout, STYLE_PLAIN));
    for (size_t i = 0; i < l3a_results_count(results); i++) {
        const l3a_result *row = l3a_results_at(results, i);
        const char *order = l3a_results_order(results, l3a_results_order_of(results, i));
        char classes[32];
        snprintf(classes, sizeof classes, "%zu-%zu", row->first + 1, row->last);
        printf("%-12s %s%*s%6" PRIu64 " %5zu  %-9s %8" PRIu64 " %8" PRIu64 " %8" PRIu64 "  %6.2f %6.2f %6.2f %8.1f\n", row->method,
               order, width - display_width(order), "", row->seed, row->phase, classes, row->train_images, row->test_images,
               row->pseudo_labels, row->metrics.mean_ap, row->metrics.class_f1, row->metrics.overall_f1, row->seconds);
    }
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

enum { COLUMNS = 5, F1_COLUMNS = 4 }; /* CF1 and OF1 are the last two of the first four */
static const char *const columns[COLUMNS] = {"avg", "last", "CF1", "OF1", "forget"};

/* The table with a row for each method. */
struct paper_table {
    const l3a_results *results;
    size_t count;
    const char *methods[METHODS];
    const char *thresholds[METHODS];
    l3a_summary summaries[METHODS];
    size_t places[COLUMNS][METHODS]; /* 1: best of its column */
    size_t ends[1024], phases;
    bool mixed;           /* the methods' thresholds differ */
    int width, threshold; /* of the columns with the names and the thresholds */
    size_t seeds, orders; /* the most that a method has */
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

/* Ranks each column among the methods that learn phase by phase; in the last column, less is better. */
static void rank_columns(struct paper_table *table) {
    for (size_t c = 0; c < COLUMNS; c++) {
        double values[METHODS];
        struct ranked scratch[METHODS];
        for (size_t i = 0; i < table->count; i++) {
            const bool phased = phase_map(table->results, table->methods[i], table->ends[0]) >= 0;
            values[i] = phased && table->count > 1 ? column_value(&table->summaries[i], c)[0] : NAN;
        }
        rank_numbers(values, table->count, 2, c + 1 == COLUMNS, scratch, table->places[c]);
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
    rank_columns(table);
    return L3A_OK;
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
        printf("  %*s", table->seeds > 1 ? 14 : 6, columns[c]);
        if (table->mixed && c + 1 == F1_COLUMNS) {
            printf("  %-*s", table->threshold, "threshold");
        }
    }
    printf("%s\n", style(stdout, STYLE_PLAIN));
}

static void print_method(const struct paper_table *table, size_t i) {
    printf("%s%*s", table->methods[i], table->width - display_width(table->methods[i]), "");
    for (size_t t = 0; t < table->phases; t++) {
        const double map = phase_map(table->results, table->methods[i], table->ends[t]);
        if (map < 0) {
            printf(" %6s", "");
        } else {
            printf(" %6.2f", map);
        }
    }
    for (size_t c = 0; c < COLUMNS; c++) {
        print_spread(column_value(&table->summaries[i], c), table->summaries[i].seeds, table->places[c][i] == 1);
        if (table->mixed && c + 1 == F1_COLUMNS) {
            const int rest = table->threshold - display_width(table->thresholds[i]);
            printf("  %s%*s", table->thresholds[i], rest, "");
        }
    }
    printf("\n");
}

static l3a_status print_paper_table(l3a_context *context, const l3a_experiment *experiment) {
    struct paper_table table = {.count = 0};
    const l3a_status status = fill_table(context, experiment, &table);
    if (status != L3A_OK) {
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
    return L3A_OK;
}

/* Prints a number that folders written by older versions lack. */
static void print_recorded(const char *before, double value, const char *otherwise) {
    if (isnan(value)) {
        printf("%s%s", before, otherwise);
    } else {
        printf("%s%.6f", before, value);
    }
}

static void print_csv(const l3a_results *results) {
    const bool ordered = l3a_results_order_count(results) > 1;
    printf(
        "method,seed,phase,first,last,train_images,test_images,pseudo_labels,mAP,CP,CR,CF1,OP,OR,OF1,seconds,base_mAP,new_mAP%s\n",
        ordered ? ",class_order" : "");
    for (size_t i = 0; i < l3a_results_count(results); i++) {
        const l3a_result *row = l3a_results_at(results, i);
        const l3a_metrics *m = &row->metrics;
        print_csv_field(row->method);
        printf(",%" PRIu64 ",%zu,%zu,%zu,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.6f,%.6f,%.6f,%.6f,%.6f,%.6f,%.6f,%.3f", row->seed,
               row->phase, row->first, row->last, row->train_images, row->test_images, row->pseudo_labels, m->mean_ap,
               m->class_precision, m->class_recall, m->class_f1, m->overall_precision, m->overall_recall, m->overall_f1,
               row->seconds);
        print_recorded(",", row->base_map, "");
        print_recorded(",", row->new_map, "");
        if (ordered) {
            printf(",");
            print_csv_field(l3a_results_order(results, l3a_results_order_of(results, i)));
        }
        printf("\n");
    }
}

static void print_json_row(const l3a_results *results, size_t index) {
    const l3a_result *row = l3a_results_at(results, index);
    const l3a_metrics *m = &row->metrics;
    const double *precisions = l3a_results_average_precision(results, index);
    printf("{\"method\": ");
    print_json_string(row->method);
    printf(
        ", \"seed\": %" PRIu64 ", \"phase\": %zu, \"first\": %zu, \"last\": %zu, \"train_images\": %" PRIu64
        ", \"test_images\": %" PRIu64 ", \"pseudo_labels\": %" PRIu64
        ", \"mAP\": %.6f, \"CP\": %.6f, \"CR\": %.6f, \"CF1\": %.6f, \"OP\": %.6f, \"OR\": %.6f, \"OF1\": %.6f, \"seconds\": %.3f",
        row->seed, row->phase, row->first, row->last, row->train_images, row->test_images, row->pseudo_labels, m->mean_ap,
        m->class_precision, m->class_recall, m->class_f1, m->overall_precision, m->overall_recall, m->overall_f1, row->seconds);
    print_recorded(", \"base_mAP\": ", row->base_map, "null");
    print_recorded(", \"new_mAP\": ", row->new_map, "null");
    if (l3a_results_order_count(results) > 1) {
        printf(", \"class_order\": ");
        print_json_string(l3a_results_order(results, l3a_results_order_of(results, index)));
    }
    printf(", \"AP\": [");
    for (size_t k = 0; k < row->last; k++) {
        printf("%s%.4f", k ? ", " : "", precisions[k]);
    }
    printf("]}");
}

static void print_json_spread(const char *name, const double value[2], const char *after) {
    if (isnan(value[0])) {
        printf("\"%s\": null%s", name, after);
    } else {
        printf("\"%s\": {\"mean\": %.6f, \"deviation\": %.6f}%s", name, value[0], value[1], after);
    }
}

static void print_json_classes(const l3a_results *results, size_t order) {
    printf("[");
    for (size_t i = 0; i < l3a_results_class_count(results); i++) {
        printf("%s", i ? ", " : "");
        print_json_string(l3a_results_class_in(results, order, i));
    }
    printf("]");
}

static l3a_status print_json(l3a_context *context, const l3a_results *results) {
    const char *methods[METHODS];
    const size_t count = list_methods(results, methods), orders = l3a_results_order_count(results);
    printf("{\n  \"classes\": ");
    print_json_classes(results, 0);
    for (size_t i = 0; orders > 1 && i < orders; i++) {
        printf(i ? ", " : ",\n  \"class_orders\": {");
        print_json_string(l3a_results_order(results, i));
        printf(": ");
        print_json_classes(results, i);
    }
    printf("%s,\n  \"rows\": [", orders > 1 ? "}" : "");
    for (size_t i = 0; i < l3a_results_count(results); i++) {
        printf("%s\n    ", i ? "," : "");
        print_json_row(results, i);
    }
    printf("\n  ],\n  \"summary\": [");
    for (size_t i = 0; i < count; i++) {
        l3a_summary summary = {.size = sizeof summary};
        const l3a_status status = l3a_results_summary(context, results, methods[i], &summary);
        if (status != L3A_OK) {
            return status;
        }
        printf("%s\n    {\"method\": ", i ? "," : "");
        print_json_string(methods[i]);
        printf(", \"seeds\": %zu, ", summary.seeds / summary.orders);
        if (orders > 1) {
            printf("\"class_orders\": %zu, ", summary.orders);
        }
        print_json_spread("avg_mAP", summary.average_map, ", ");
        print_json_spread("last_mAP", summary.last_map, ", ");
        print_json_spread("CF1", summary.last_class_f1, ", ");
        print_json_spread("OF1", summary.last_overall_f1, ", ");
        print_json_spread("forgetting", summary.forgetting, ", ");
        print_json_spread("base_mAP", summary.base_map, ", ");
        print_json_spread("new_mAP", summary.new_map, "}");
    }
    printf("\n  ]\n}\n");
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
    if (strcmp(format, "json") == 0) {
        return print_json(context, results);
    }
    if (strcmp(format, "csv") == 0) {
        print_csv(results);
        return L3A_OK;
    }
    if (strcmp(format, "table") == 0) {
        const l3a_status status = print_verdict(context, results);
        if (status != L3A_OK) {
            return status;
        }
        print_phases(results);
    }
    return print_paper_table(context, run);
}

bool is_published(const char *format) {
    return strcmp(format, "markdown") == 0 || strcmp(format, "latex") == 0;
}

l3a_status print_report_table(l3a_context *context, const char *const *folders, size_t count, const char *format) {
    size_t length = 0;
    l3a_status status = l3a_report_table(context, folders, count, format, NULL, 0, &length);
    char *text = status == L3A_OK ? malloc(length + 1) : NULL;
    if (text) {
        status = l3a_report_table(context, folders, count, format, text, length + 1, &length);
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
