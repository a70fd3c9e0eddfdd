/* l3a sweep: a grid of settings, methods and seeds. */
#include "rows.h"

#include "common/closest.h"
#include "common/rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 5, MEASURES = 7, WIDE = 160 }; /* a table shows the first five measures; CSV and JSON have all */

const struct option sweep_options[] = {
    {"train", "FILE", "features to learn from"},
    {"test", "FILE", "features to measure on"},
    {"train-labels", "Y.npy", "labels, if --train is a .npy file"},
    {"test-labels", "Y.npy", "labels, if --test is a .npy file"},
    {"names", "FILE", "class names, one per line, for .npy files"},
    PICTURE_OPTIONS,
    {"protocol", "B<b>-C<c>", "b classes first (c if b is 0), then c per phase [B0-C10]"},
    {"class-order", "HOW",
     "lexicographic, shuffle:SEED, or a file with one name per line; or a list of these, such as "
     "shuffle:1,shuffle:2, to run with each of them [lexicographic]"},
    {"preset", "NAME", "a grid from the paper, listed below; options that are given replace the preset's"},
    {"method", "A,B", "methods to run, listed below, or all [l3a]"},
    {"seed", "N,M", "seeds of the random layer; with several, mean and standard deviation are reported [2025]"},
    {"o", "DIR", "folder for the results: sweep.json, sweep.csv, report.html, and the tables of each point"},
    {"resume", NULL, "resume the sweep in DIR; options that are left out are taken from its sweep.json"},
    {"dry-run", NULL, "print the points and their cost, and exit"},
    {"format", "table|json|csv|markdown|latex",
     "format of the results on the standard output; markdown and latex: the table to "
     "publish [table]"},
    {NULL, NULL, NULL},
};

/* What the command line asks for, with the lists that it points into. */
struct grid {
    struct request request;
    struct list values[SETTINGS];
    l3a_axis axes[SETTINGS];
};

static void grid_free(struct grid *grid) {
    for (size_t i = 0; i < grid->request.options.axis_count; i++) {
        list_free(&grid->values[i]);
    }
    request_free(&grid->request);
}

static const l3a_preset *find_preset(const struct arguments *arguments, const char *name) {
    const char *names[16];
    size_t count = 0;
    for (; count < 16 && l3a_preset_at(count); count++) {
        names[count] = l3a_preset_at(count)->name;
        if (strcmp(names[count], name) == 0) {
            return l3a_preset_at(count);
        }
    }
    const char *close = closest_name(name, names, count);
    complain(arguments, "unknown preset '%s'", name);
    print_hint(close ? "did you mean '%s'?" : "'l3a help sweep' lists the presets", close);
    return NULL;
}

/* A setting with one value is fixed; a setting with several, or a threshold that is "dynamic", is an axis of the grid. */
static bool add_setting(const struct arguments *arguments, struct grid *grid, const char *name, const char *value) {
    const size_t at = grid->request.options.axis_count;
    struct list *values = &grid->values[at];
    if (!list_parse(value, values)) {
        return false;
    }
    if (values->count == 1 && strcmp(values->items[0], "dynamic") != 0) {
        const l3a_status status = l3a_options_set(arguments->context, grid->request.settings, name, values->items[0]);
        list_free(values);
        return explain(arguments, status) == EXIT_DONE;
    }
    grid->axes[at] = (l3a_axis){name, values->items, values->count};
    grid->request.options.axis_count++;
    return true;
}

static bool fill_grid(const struct arguments *arguments, const l3a_preset *preset, struct grid *grid) {
    bool varied = !preset || !preset->setting, good = true;
    if (explain(arguments, l3a_options_create(arguments->context, &grid->request.settings)) != EXIT_DONE) {
        return false;
    }
    for (size_t i = 0; good && i < arguments->setting_count; i++) {
        varied = varied || strcmp(arguments->setting_names[i], preset->setting) == 0;
        good = add_setting(arguments, grid, arguments->setting_names[i], arguments->setting_values[i]);
    }
    good = good && (varied || add_setting(arguments, grid, preset->setting, preset->values));
    grid->request.options.grid = 1;
    grid->request.options.axes = grid->axes;
    return good && request_fill(arguments, &grid->request, preset ? preset->methods : "l3a", preset ? preset->seeds : "2025");
}

static void print_plan(FILE *to, const struct arguments *arguments, const struct request *request, const l3a_experiment *sweep,
                       const l3a_workload *plan) {
    char memory[32];
    fprintf(to, "plan: %zu %s x ", plan->points, plural(plan->points, "point", "points"));
    if (plan->orders > 1) {
        fprintf(to, "%zu class orders x ", plan->orders);
    }
    fprintf(to, "%zu %s in %zu %s; %zu %s over the training rows per seed; memory %s", plan->seeds,
            plural(plan->seeds, "seed", "seeds"), plan->phases, plural(plan->phases, "phase", "phases"), plan->passes,
            plural(plan->passes, "pass", "passes"), size_text(plan->memory, memory));
    print_estimate(to, arguments, request, plan->flops);
    print_device_plan(to, arguments, plan->device_memory, plan->parts, plan->spilled);
    print_process_plan(to, arguments, request->settings);
    for (size_t i = 0; i < l3a_experiment_points(sweep); i++) {
        fprintf(to, "  %s\n", l3a_experiment_label(sweep, i));
    }
}

/* ---- The table: points down, measures across, the best of each marked, and those that may be as good ---- */

static const char *const keys[MEASURES] = {"avg_mAP", "last_mAP", "CF1", "OF1", "forgetting", "base_mAP", "new_mAP"};
static const char *const headings[COLUMNS] = {"avg mAP", "last mAP", "CF1", "OF1", "forgetting"};

struct cell {
    double mean, deviation;
    int place; /* 1: highest or, of the last, lowest; 2: the next; 0: neither */
    bool best; /* as in l3a_difference */
};

struct table {
    const l3a_experiment_options *options;
    const l3a_experiment *sweep;
    size_t points, seeds, orders;
    struct cell (*cells)[MEASURES];
    size_t *phases, most; /* of each point, and of any */
    size_t pairs;         /* the most runs that a point and the best one have in common */
    bool methods, mixed;  /* show a column for the method, and for the threshold */
};

/* Points that learn all classes at once are an upper bound, not a competitor. */
static bool competes(const struct table *table, size_t point) {
    return table->phases[point] == table->most;
}

/* Finds the places of a column; in the last, less is better. */
static l3a_status rank_column(struct table *table, size_t column) {
    double *values = calloc(table->points, sizeof *values);
    size_t *places = calloc(table->points, sizeof *places);
    struct ranked *scratch = calloc(table->points, sizeof *scratch);
    const bool room = values && places && scratch;
    for (size_t i = 0; room && i < table->points; i++) {
        values[i] = competes(table, i) ? table->cells[i][column].mean : NAN;
    }
    if (room) {
        rank_numbers(values, table->points, 2, column + 1 == COLUMNS, scratch, places);
    }
    for (size_t i = 0; room && i < table->points; i++) {
        table->cells[i][column].place = places[i] <= 2 ? (int)places[i] : 0;
    }
    free(values);
    free(places);
    free(scratch);
    return room ? L3A_OK : L3A_ERROR_MEMORY;
}

/* Finds the best points of each column, and those that may be as good. */
static l3a_status compare_points(l3a_context *context, struct table *table) {
    const l3a_results **results = calloc(table->points, sizeof *results);
    l3a_status status = results ? L3A_OK : L3A_ERROR_MEMORY;
    for (size_t i = 0; results && i < table->points; i++) {
        results[i] = l3a_experiment_results(table->sweep, i);
    }
    for (size_t j = 0; j < COLUMNS && status == L3A_OK; j++) {
        l3a_significance *differences = NULL;
        status = l3a_results_significance(context, results, table->points, keys[j], SIZE_MAX, &differences);
        for (size_t i = 0; i < l3a_significance_count(differences); i++) {
            const l3a_difference *found = l3a_significance_at(differences, i);
            table->cells[i][j].best = found->best;
            table->pairs = found->pairs > table->pairs ? found->pairs : table->pairs;
        }
        l3a_significance_free(differences);
    }
    free(results);
    return status;
}

static l3a_status fill_table(l3a_context *context, struct table *table) {
    for (size_t i = 0; i < table->points; i++) {
        const l3a_results *results = l3a_experiment_results(table->sweep, i);
        l3a_summary summary = {.size = sizeof summary};
        const l3a_status status = l3a_results_summary(context, results, l3a_experiment_method(table->sweep, i), &summary);
        if (status != L3A_OK) {
            return status;
        }
        const double *const values[MEASURES] = {summary.average_map,     summary.last_map,   summary.last_class_f1,
                                                summary.last_overall_f1, summary.forgetting, summary.base_map,
                                                summary.new_map};
        for (size_t j = 0; j < MEASURES; j++) {
            table->cells[i][j] = (struct cell){values[j][0], values[j][1], 0, false};
        }
        for (size_t j = 0; j < l3a_results_count(results); j++) {
            const size_t phase = l3a_results_at(results, j)->phase;
            table->phases[i] = phase > table->phases[i] ? phase : table->phases[i];
        }
    }
    for (size_t i = 0; i < table->points; i++) {
        table->most = table->phases[i] > table->most ? table->phases[i] : table->most;
        table->mixed =
            table->mixed || strcmp(l3a_experiment_threshold(table->sweep, i), l3a_experiment_threshold(table->sweep, 0)) != 0;
    }
    l3a_status status = L3A_OK;
    for (size_t j = 0; status == L3A_OK && j < COLUMNS && table->points > 1; j++) {
        status = rank_column(table, j);
    }
    return status == L3A_OK ? compare_points(context, table) : status;
}

/* Around a number: plain, best. */
struct marks {
    const char *opening[2], *closing[2];
};

static void print_number(const struct marks *marks, const char *text, bool best, int width) {
    const int padding = width - display_width(text);
    printf("%*s%s%s%s", padding > 0 ? padding : 0, "", marks->opening[best], text, marks->closing[best]);
}

static int label_width(const struct table *table, size_t axis, const char *name) {
    int width = display_width(name);
    for (size_t i = 0; i < table->points; i++) {
        const char *text = axis == SIZE_MAX ? l3a_experiment_method(table->sweep, i) : l3a_experiment_value(table->sweep, i, axis);
        width = display_width(text) > width ? display_width(text) : width;
    }
    return width;
}

static void print_labels(const struct table *table, size_t point) {
    const bool heading = point == SIZE_MAX;
    const char *between = "";
    if (table->methods) {
        printf("%-*s", label_width(table, SIZE_MAX, "method"), heading ? "method" : l3a_experiment_method(table->sweep, point));
        between = "  ";
    }
    for (size_t j = 0; j < table->options->axis_count; j++) {
        const char *name = table->options->axes[j].name;
        printf("%s%-*s", between, label_width(table, j, name), heading ? name : l3a_experiment_value(table->sweep, point, j));
        between = "  ";
    }
}

static void print_threshold(const struct table *table, size_t point) {
    const char *text = point == SIZE_MAX ? "threshold" : l3a_experiment_threshold(table->sweep, point);
    int width = display_width("threshold");
    for (size_t i = 0; i < table->points; i++) {
        const int here = display_width(l3a_experiment_threshold(table->sweep, i));
        width = here > width ? here : width;
    }
    printf("%-*s", width, text);
}

static void print_row(const struct table *table, const struct marks *marks, size_t point) {
    const bool spread = table->seeds * table->orders > 1;
    const int width = spread ? 14 : 10;
    print_labels(table, point);
    for (size_t j = 0; j < COLUMNS; j++) {
        char text[WIDE];
        const struct cell *cell = point == SIZE_MAX ? NULL : &table->cells[point][j];
        const bool missing = cell && table->phases[point] == 1 && j + 1 == COLUMNS; /* nothing was measured before the last phase */
        if (!cell) {
            snprintf(text, sizeof text, "%s", headings[j]);
        } else if (missing) {
            snprintf(text, sizeof text, "-");
        } else if (spread) {
            snprintf(text, sizeof text, "%.2f ± %.2f", cell->mean, cell->deviation);
        } else {
            snprintf(text, sizeof text, "%.2f", cell->mean);
        }
        if (j + 1 == COLUMNS && table->mixed) { /* beside CF1 and OF1 */
            printf("  ");
            print_threshold(table, point);
        }
        printf("  ");
        print_number(marks, text, cell && !missing && cell->best, width);
    }
    printf("\n");
}

/* The sentence that comes first. */
static void print_best(const struct table *table) {
    const char *between = NULL;
    for (size_t i = 0; i < table->points; i++) {
        if (table->cells[i][1].place == 1) {
            printf("%s%s", between ? between : "Highest last mAP: ", l3a_experiment_label(table->sweep, i));
            between = "; ";
        }
    }
    if (between) {
        printf(".\n\n");
    }
}

/* What the marks mean, or why there are none. */
static void print_meaning(const struct table *table, const char *mark) {
    if (table->pairs >= 5) {
        printf(
            "%s the best of the points that learn in phases, and those that may be as good (p ≥ 0.05 after Holm's correction).\n",
            mark);
    } else if (table->pairs) {
        printf("Nothing is marked as best: %zu paired %s cannot tell whether a difference is chance (it takes five).\n",
               table->pairs, plural(table->pairs, "run", "runs"));
    }
    if (table->mixed) {
        printf("CF1 and OF1 are compared only between points with the same threshold.\n");
    }
}

/* Bold on a terminal; elsewhere * says the same. */
static void print_table(const struct table *table) {
    static const struct marks plain = {{"", ""}, {" ", "*"}};
    const struct marks shown = {{"", style(stdout, STYLE_BOLD)}, {"", style(stdout, STYLE_PLAIN)}};
    const bool terminal = shown.opening[1][0];
    print_best(table);
    for (size_t i = 0; i <= table->points; i++) {
        print_row(table, terminal ? &shown : &plain, i ? i - 1 : SIZE_MAX);
    }
    print_meaning(table, terminal ? "Bold:" : "*");
    if (table->orders > 1) {
        printf("± is the standard deviation over %zu class orders and %zu %s (%zu runs of each point).\n", table->orders,
               table->seeds, plural(table->seeds, "seed", "seeds"), table->orders * table->seeds);
    } else if (table->seeds > 1) {
        printf("± is the standard deviation over seeds.\n");
    }
    if (table->methods && !table->mixed) {
        printf("CF1 and OF1: a class is predicted %s%s.\n",
               l3a_experiment_threshold(table->sweep, 0)[0] == 'f' ? "above a score " : "if ",
               l3a_experiment_threshold(table->sweep, 0));
    }
}

static void print_json_phases(struct printer *printer, const struct table *table, const l3a_results *results) {
    put_open(printer, "phases", '[');
    for (size_t j = 0; j < l3a_results_count(results); j++) {
        const l3a_result *row = l3a_results_at(results, j);
        put_open(printer, NULL, '{');
        if (table->orders > 1) {
            put_text(printer, "class_order", l3a_results_order(results, l3a_results_order_of(results, j)));
        }
        put_count(printer, "seed", row->seed);
        put_count(printer, "phase", row->phase);
        put_count(printer, "pseudo_labels", row->pseudo_labels);
        put_number(printer, "mAP", row->metrics.mean_ap, 9);
        put_number(printer, "CF1", row->metrics.class_f1, 9);
        put_number(printer, "OF1", row->metrics.overall_f1, 9);
        put_number(printer, "seconds", row->seconds, 3);
        put_count(printer, "last", row->last);
        put_close(printer, '}');
    }
    put_close(printer, ']');
}

static void print_json(const struct table *table) {
    struct printer printer = printer_of("json");
    put_open(&printer, NULL, '{');
    put_open(&printer, "points", '[');
    for (size_t i = 0; i < table->points; i++) {
        put_break(&printer, 2);
        put_open(&printer, NULL, '{');
        put_text(&printer, "method", l3a_experiment_method(table->sweep, i));
        for (size_t j = 0; j < table->options->axis_count; j++) {
            put_text(&printer, table->options->axes[j].name, l3a_experiment_value(table->sweep, i, j));
        }
        for (size_t j = 0; j < COLUMNS; j++) {
            const struct cell *cell = &table->cells[i][j];
            put_open(&printer, keys[j], '{');
            put_number(&printer, "mean", cell->mean, 6);
            put_number(&printer, "deviation", cell->deviation, 6);
            put_count(&printer, "place", (uint64_t)cell->place);
            put_close(&printer, '}');
        }
        for (size_t j = COLUMNS; j < MEASURES; j++) {
            put_spread(&printer, keys[j], (const double[2]){table->cells[i][j].mean, table->cells[i][j].deviation});
        }
        put_break(&printer, 3);
        print_json_phases(&printer, table, l3a_experiment_results(table->sweep, i));
        put_close(&printer, '}');
    }
    put_break(&printer, 0);
    put_close(&printer, ']');
    put_close(&printer, '}');
    printf("\n");
}

/* Folders written by older versions lack the last two measures. */
static void print_csv(const struct table *table) {
    enum { MOST = SETTINGS + 1 + 2 * MEASURES };
    static const char *const deviations[MEASURES] = {"avg_mAP_deviation", "last_mAP_deviation",   "CF1_deviation",
                                                     "OF1_deviation",     "forgetting_deviation", "base_mAP_deviation",
                                                     "new_mAP_deviation"};
    struct printer printer = printer_of("csv");
    struct column columns[MOST] = {{0}};
    const size_t axes = table->options->axis_count, count = axes + 1 + 2 * MEASURES;
    for (size_t j = 0; j < axes; j++) {
        columns[j].name = table->options->axes[j].name;
    }
    columns[axes].name = "method";
    for (size_t j = 0; j < MEASURES; j++) {
        columns[axes + 1 + 2 * j] = (struct column){.name = keys[j], .exact = 6};
        columns[axes + 2 + 2 * j] = (struct column){.name = deviations[j], .exact = 6};
    }
    print_headings(&printer, columns, count);
    for (size_t i = 0; i < table->points; i++) {
        struct value values[MOST];
        for (size_t j = 0; j < axes; j++) {
            values[j] = word_value(l3a_experiment_value(table->sweep, i, j));
        }
        values[axes] = word_value(l3a_experiment_method(table->sweep, i));
        for (size_t j = 0; j < MEASURES; j++) {
            const struct cell *cell = &table->cells[i][j];
            values[axes + 1 + 2 * j] = number_value(cell->mean);
            values[axes + 2 + 2 * j] = number_value(isnan(cell->mean) ? NAN : cell->deviation);
        }
        print_values(&printer, columns, values, count);
    }
}

static int print_sweep(const struct arguments *arguments, const struct request *request, const l3a_experiment *sweep,
                       const char *format) {
    static const struct {
        const char *format;
        void (*print)(const struct table *table);
    } kinds[] = {{"table", print_table}, {"json", print_json}, {"csv", print_csv}};
    struct table table = {.options = &request->options,
                          .sweep = sweep,
                          .points = l3a_experiment_points(sweep),
                          .seeds = request->options.seed_count,
                          .orders = request->options.class_order_count ? request->options.class_order_count : 1};
    int code = EXIT_FAILED;
    if (is_published(format)) {
        return explain(arguments, print_report_table(arguments->context, &request->options.folder, 1, NULL, format));
    }
    table.methods = request->options.method_count > 1 || !request->options.axis_count;
    table.cells = calloc(table.points, sizeof *table.cells);
    table.phases = calloc(table.points, sizeof *table.phases);
    if (!table.cells || !table.phases) {
        complain(arguments, "out of memory");
        goto done;
    }
    code = explain(arguments, fill_table(arguments->context, &table));
    for (size_t i = 0; code == EXIT_DONE && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].format, format) == 0) {
            kinds[i].print(&table);
        }
    }
done:
    free(table.cells);
    free(table.phases);
    return code;
}

int sweep_command(struct arguments *arguments) {
    static const struct request_view view = {"points", print_plan, print_sweep};
    const char *name = argument(arguments, "preset"), *format = NULL;
    const l3a_preset *preset = NULL;
    struct grid grid = {0};
    int code = EXIT_USAGE;
    if (request_check(arguments) && (format = argument_choice(arguments, "format", "table|json|csv|markdown|latex", "table")) &&
        (!name || (preset = find_preset(arguments, name))) && fill_grid(arguments, preset, &grid)) {
        code = request_execute(arguments, &grid.request, &view, format);
    }
    grid_free(&grid);
    return code;
}
