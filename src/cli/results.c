/* The results of a run: tables with the paper's columns for people, and CSV and JSON for programs. */
#include "cli.h"

#include <inttypes.h>
#include <math.h>
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
    printf("%s%-12s %6s %5s  %-9s %8s %8s %8s  %6s %6s %6s %8s%s\n", style(stdout, STYLE_BOLD), "method", "seed", "phase",
           "classes", "train", "test", "pseudo", "mAP", "CF1", "OF1", "seconds", style(stdout, STYLE_PLAIN));
    for (size_t i = 0; i < l3a_results_count(results); i++) {
        const l3a_result *row = l3a_results_at(results, i);
        char classes[32];
        snprintf(classes, sizeof classes, "%zu-%zu", row->first + 1, row->last);
        printf("%-12s %6" PRIu64 " %5zu  %-9s %8" PRIu64 " %8" PRIu64 " %8" PRIu64 "  %6.2f %6.2f %6.2f %8.1f\n", row->method,
               row->seed, row->phase, classes, row->train_images, row->test_images, row->pseudo_labels, row->metrics.mean_ap,
               row->metrics.class_f1, row->metrics.overall_f1, row->seconds);
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

enum { COLUMNS = 5 };
static const char *const columns[COLUMNS] = {"avg", "last", "CF1", "OF1", "forget"};

static const double *column_value(const l3a_summary *summary, size_t column) {
    const double *values[COLUMNS] = {summary->average_map, summary->last_map, summary->last_class_f1, summary->last_overall_f1,
                                     summary->forgetting};
    return values[column];
}

static void print_spread(const double value[2], size_t seeds, bool best) {
    printf("  %s%6.2f%s", best ? style(stdout, STYLE_BOLD) : "", value[0], best ? style(stdout, STYLE_PLAIN) : "");
    if (seeds > 1) {
        printf(" ± %-5.2f", value[1]);
    }
}

/* The best value in each column among the methods that learn phase by phase; in the last column, less is better. */
static void find_best(const l3a_summary *summaries, const bool *phased, size_t count, const l3a_summary *best[COLUMNS]) {
    for (size_t c = 0; c < COLUMNS; c++) {
        best[c] = NULL;
        for (size_t i = 0; i < count; i++) {
            const double sign = c + 1 == COLUMNS ? -1 : 1, value = sign * column_value(&summaries[i], c)[0];
            if (phased[i] && (!best[c] || value > sign * column_value(best[c], c)[0])) {
                best[c] = &summaries[i];
            }
        }
    }
}

static l3a_status print_paper_table(l3a_context *context, const l3a_results *results) {
    const char *methods[METHODS];
    l3a_summary summaries[METHODS];
    const l3a_summary *best[COLUMNS];
    bool phased[METHODS], several = false;
    size_t ends[1024];
    const size_t count = list_methods(results, methods), phases = list_ends(results, ends);
    int width = 12;
    for (size_t i = 0; i < count; i++) {
        summaries[i].size = sizeof summaries[i];
        const l3a_status status = l3a_results_summary(context, results, methods[i], &summaries[i]);
        if (status != L3A_OK) {
            return status;
        }
        const int here = display_width(methods[i]);
        width = here > width ? here : width;
        phased[i] = phase_map(results, methods[i], ends[0]) >= 0;
        several = several || summaries[i].seeds > 1;
    }
    find_best(summaries, phased, count, best);
    printf("\nmAP after each phase, and summary\n%s%-*s", style(stdout, STYLE_BOLD), width, "method");
    for (size_t t = 0; t < phases; t++) {
        printf(" %6zu", t + 1);
    }
    for (size_t c = 0; c < COLUMNS; c++) {
        printf("  %*s", several ? 14 : 6, columns[c]);
    }
    printf("%s\n", style(stdout, STYLE_PLAIN));
    for (size_t i = 0; i < count; i++) {
        printf("%s%*s", methods[i], width - display_width(methods[i]), "");
        for (size_t t = 0; t < phases; t++) {
            const double map = phase_map(results, methods[i], ends[t]);
            if (map < 0) {
                printf(" %6s", "");
            } else {
                printf(" %6.2f", map);
            }
        }
        for (size_t c = 0; c < COLUMNS; c++) {
            print_spread(column_value(&summaries[i], c), summaries[i].seeds, count > 1 && best[c] == &summaries[i]);
        }
        printf("\n");
    }
    if (several) {
        printf("± is the standard deviation over seeds; single columns are means.\n");
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
    printf(
        "method,seed,phase,first,last,train_images,test_images,pseudo_labels,mAP,CP,CR,CF1,OP,OR,OF1,seconds,base_mAP,new_mAP\n");
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

static l3a_status print_json(l3a_context *context, const l3a_results *results) {
    const char *methods[METHODS];
    const size_t count = list_methods(results, methods);
    printf("{\n  \"classes\": [");
    for (size_t i = 0; i < l3a_results_class_count(results); i++) {
        printf("%s", i ? ", " : "");
        print_json_string(l3a_results_class(results, i));
    }
    printf("],\n  \"rows\": [");
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
        printf(", \"seeds\": %zu, ", summary.seeds);
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

l3a_status print_results(l3a_context *context, const l3a_results *results, const char *format) {
    if (strcmp(format, "json") == 0) {
        return print_json(context, results);
    }
    if (strcmp(format, "csv") == 0) {
        print_csv(results);
        return L3A_OK;
    }
    if (strcmp(format, "table") == 0) {
        print_phases(results);
    }
    return print_paper_table(context, results);
}
