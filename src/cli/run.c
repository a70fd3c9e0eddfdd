/* l3a run: every phase of a protocol, for every method and seed. */
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const struct option run_options[] = {
    {"train", "FILE", "features to learn from"},
    {"test", "FILE", "features to measure on"},
    {"train-labels", "Y.npy", "labels, if --train is a .npy file"},
    {"test-labels", "Y.npy", "labels, if --test is a .npy file"},
    {"names", "FILE", "class names, one per line, for .npy files"},
    {"protocol", "B<b>-C<c>", "b classes first (c if b is 0), then c per phase [B0-C10]"},
    {"class-order", "HOW", "lexicographic, shuffle:SEED, or a file with one name per line [lexicographic]"},
    {"method", "A,B", "methods to run, listed below [l3a]"},
    {"list-methods", NULL, "describe each method, with its source and what it stores, and exit"},
    {"seed", "N,M", "seeds of the random layer; with several, mean and standard deviation are reported [2025]"},
    {"o", "DIR", "folder for the results: report.html, run.json, tables, model.safetensors"},
    {"resume", NULL, "resume the run in DIR; options that are left out are taken from its run.json"},
    {"pictures", "DATASET", "data set with the test pictures, for the report, if the test features do not record it"},
    {"dry-run", NULL, "print the plan and exit"},
    {"format", "table|json|csv", "format of the results on the standard output [table]"},
    {NULL, NULL, NULL},
};

static void print_plan(FILE *to, const struct arguments *arguments, const l3a_run_options *options, const l3a_run_plan *plan) {
    char memory[32], file[32];
    double single = 0, exact = 0;
    uint64_t rows = 0;
    fprintf(to, "plan: %zu %s in %zu %s, features %zu wide, dim %" PRIu64 "\n", plan->classes,
            plural(plan->classes, "class", "classes"), plan->phases, plural(plan->phases, "phase", "phases"),
            l3a_features_width(options->train), l3a_options_integer(options->settings, "dim"));
    for (size_t t = 0; t < plan->phases; t++) {
        fprintf(to, "  phase %zu: classes %zu-%zu, %" PRIu64 " training %s", t + 1, plan->edges[t] + 1, plan->edges[t + 1],
                plan->train_images[t], plural(plan->train_images[t], "image", "images"));
        if (plan->unlabelled_images[t]) {
            fprintf(to, " (%" PRIu64 " with only a crowd, which gives no label)", plan->unlabelled_images[t]);
        }
        fprintf(to, ", %" PRIu64 " test %s\n", plan->test_images[t], plural(plan->test_images[t], "image", "images"));
        rows += plan->train_images[t];
    }
    fprintf(to, "  %zu %s x %zu %s, %" PRIu64 " training rows in each; memory %s, model file %s", options->method_count,
            plural(options->method_count, "method", "methods"), options->seed_count, plural(options->seed_count, "seed", "seeds"),
            rows, size_text(plan->model.memory, memory), size_text(plan->model.file, file));
    if (l3a_machine_speed(arguments->context, &single, &exact) == L3A_OK) {
        const bool mixed =
            setting_is(options->settings, "precision", "mixed") && !setting_is(options->settings, "solver", "recursive");
        fprintf(to, ", about %.0f s", 1.2 * plan->flops / (mixed ? single : exact) + 1);
    }
    fprintf(to, "\n");
}

static bool parse_seeds(const struct arguments *arguments, const struct list *list, uint64_t *seeds) {
    l3a_options *checked = NULL;
    l3a_status status = l3a_options_create(arguments->context, &checked);
    for (size_t i = 0; status == L3A_OK && i < list->count; i++) {
        status = l3a_options_set(arguments->context, checked, "seed", list->items[i]);
        seeds[i] = l3a_options_integer(checked, "seed");
    }
    l3a_options_free(checked);
    return explain(arguments, status) == EXIT_DONE;
}

static int execute(const struct arguments *arguments, l3a_run_options *options, const char *format) {
    l3a_context *context = arguments->context;
    const bool dry = argument(arguments, "dry-run") != NULL;
    l3a_results *results = NULL;
    l3a_run_plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return complain(arguments, "out of memory");
    }
    l3a_status status = l3a_run_prepare(context, options, plan);
    if (status == L3A_OK && (dry || !arguments->quiet)) {
        print_plan(dry ? stdout : stderr, arguments, options, plan);
    }
    if (status == L3A_OK && !dry) {
        status = l3a_run(context, options, &results);
    }
    if (status == L3A_OK && !dry) {
        status = print_results(context, results, format);
        if (status == L3A_OK && !arguments->quiet) {
            fflush(stdout);
            fprintf(stderr, "\nreport: %s/report.html\n", options->folder);
        }
    }
    const int code = explain(arguments, status);
    if (status == L3A_ERROR_CANCELLED && options->folder) {
        hint_at_resuming(arguments, "phases", options->folder);
    }
    l3a_results_free(results);
    free(plan);
    return code;
}

int run_command(struct arguments *arguments) {
    l3a_context *context = arguments->context;
    if (argument(arguments, "list-methods")) {
        print_methods(stdout);
        return EXIT_DONE;
    }
    const char *train = argument_needed(arguments, "train"), *test = train ? argument_needed(arguments, "test") : NULL;
    const char *format = argument_choice(arguments, "format", "table|json|csv", "table");
    const char *methods = argument(arguments, "method"), *seeds = argument(arguments, "seed");
    const char *folder = argument(arguments, "o"), *names = argument(arguments, "names");
    struct list method_list = {0}, seed_list = {0};
    uint64_t *numbers = NULL;
    l3a_options *settings = NULL;
    l3a_run_options options;
    int code = EXIT_USAGE;
    l3a_run_options_default(&options);
    if (!test || !format || !list_parse(methods ? methods : "l3a", &method_list) ||
        !list_parse(seeds ? seeds : "2025", &seed_list)) {
        goto done;
    }
    if (arguments->positional_count) {
        code = complain(arguments, "'%s' is not expected here", arguments->positionals[0]);
        goto done;
    }
    if (!argument_labels_fit(arguments, "train", "train-labels") || !argument_labels_fit(arguments, "test", "test-labels")) {
        goto done;
    }
    if (!folder && !argument(arguments, "dry-run")) {
        argument_needed(arguments, "o");
        goto done;
    }
    numbers = calloc(seed_list.count + 1, sizeof *numbers);
    if (!numbers || !parse_seeds(arguments, &seed_list, numbers)) {
        goto done;
    }
    l3a_status status = make_settings(arguments, &settings);
    options.settings = settings;
    if (status == L3A_OK) {
        status = open_features(context, train, argument(arguments, "train-labels"), names, &options.train);
    }
    if (status == L3A_OK) {
        status = open_features(context, test, argument(arguments, "test-labels"), names, &options.test);
    }
    if (status != L3A_OK) {
        code = explain(arguments, status);
        hint_at_moved_data(arguments, status);
        goto done;
    }
    options.protocol = argument(arguments, "protocol") ? argument(arguments, "protocol") : options.protocol;
    options.class_order = argument(arguments, "class-order") ? argument(arguments, "class-order") : options.class_order;
    options.methods = method_list.items;
    options.method_count = method_list.count;
    options.seeds = numbers;
    options.seed_count = seed_list.count;
    options.folder = folder;
    options.resume = argument(arguments, "resume") != NULL;
    options.command = arguments->line;
    options.directory = arguments->directory;
    options.pictures = argument(arguments, "pictures");
    code = execute(arguments, &options, format);
done:
    l3a_features_free(options.train);
    l3a_features_free(options.test);
    list_free(&method_list);
    list_free(&seed_list);
    l3a_options_free(settings);
    free(numbers);
    return code;
}
