/* What run and sweep share: the options that both have, and the way from a plan to results. */
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool request_check(const struct arguments *arguments) {
    if (!picture_arguments_check(arguments) ||
        (!argument(arguments, "data") && (!argument_needed(arguments, "train") || !argument_needed(arguments, "test")))) {
        return false;
    }
    if (arguments->positional_count) {
        complain(arguments, "'%s' is not expected here", arguments->positionals[0]);
        return false;
    }
    return argument_labels_fit(arguments, "train", "train-labels") && argument_labels_fit(arguments, "test", "test-labels") &&
           (argument(arguments, "dry-run") || argument_needed(arguments, "o"));
}

static bool parse_seeds(const struct arguments *arguments, struct request *request) {
    l3a_options *checked = NULL;
    l3a_status status = l3a_options_create(arguments->context, &checked);
    request->numbers = calloc(request->seeds.count + 1, sizeof *request->numbers);
    for (size_t i = 0; status == L3A_OK && request->numbers && i < request->seeds.count; i++) {
        status = l3a_options_set(arguments->context, checked, "seed", request->seeds.items[i]);
        request->numbers[i] = l3a_options_integer(checked, "seed");
    }
    l3a_options_free(checked);
    return explain(arguments, status) == EXIT_DONE && request->numbers;
}

/* A list of class orders; a file whose name has commas in it is one. */
static bool parse_orders(const struct arguments *arguments, struct request *request) {
    const char *how = argument(arguments, "class-order");
    if (!how || !strchr(how, ',') || !access(how, F_OK)) {
        request->options.class_order = how;
        return true;
    }
    const bool good = list_parse(how, &request->orders);
    request->options.class_orders = request->orders.items;
    request->options.class_order_count = request->orders.count;
    return good;
}

/* All methods that run on frozen features. */
static bool list_all_methods(struct list *list) {
    list_free(list);
    *list = (struct list){0};
    size_t count = 0;
    while (l3a_method_at(count)) {
        count++;
    }
    list->items = calloc(count + 1, sizeof *list->items);
    for (size_t i = 0; list->items && i < count; i++) {
        if (l3a_method_at(i)->runs == 1) {
            list->items[list->count++] = l3a_method_at(i)->name;
        }
    }
    return list->items != NULL;
}

bool request_fill(const struct arguments *arguments, struct request *request, const char *methods, const char *seeds) {
    methods = argument(arguments, "method") ? argument(arguments, "method") : methods;
    seeds = argument(arguments, "seed") ? argument(arguments, "seed") : seeds;
    const bool all = request->options.grid && strcmp(methods, "all") == 0;
    if (!list_parse(methods, &request->methods) || (all && !list_all_methods(&request->methods)) ||
        !list_parse(seeds, &request->seeds) || !parse_seeds(arguments, request)) {
        return false;
    }
    if (!request->methods.count || !request->seeds.count) {
        complain(arguments, "a run needs at least one method and one seed");
        return false;
    }
    request->options.size = sizeof request->options;
    request->options.protocol = argument(arguments, "protocol");
    if (!parse_orders(arguments, request)) {
        return false;
    }
    request->options.methods = request->methods.items;
    request->options.method_count = request->methods.count;
    request->options.seeds = request->numbers;
    request->options.seed_count = request->seeds.count;
    request->options.settings = request->settings;
    request->options.folder = argument(arguments, "o");
    request->options.resume = argument(arguments, "resume") != NULL;
    request->options.command = arguments->line;
    request->options.directory = arguments->directory;
    return true;
}

void request_free(struct request *request) {
    list_free(&request->methods);
    list_free(&request->orders);
    list_free(&request->seeds);
    free(request->numbers);
    l3a_options_free(request->settings);
    l3a_features_free(request->options.train);
    l3a_features_free(request->options.test);
    for (size_t i = 0; i < 2; i++) {
        l3a_dataset_free(request->datasets[i]);
    }
}

static int open_tables(const struct arguments *arguments, l3a_experiment_options *options) {
    const char *names = argument(arguments, "names"), *train = argument(arguments, "train"), *test = argument(arguments, "test");
    l3a_status status = open_features(arguments, train, argument(arguments, "train-labels"), names, &options->train);
    if (status == L3A_OK) {
        status = open_features_to_score(arguments, test, argument(arguments, "test-labels"), names, &options->test);
    }
    const int code = explain(arguments, status);
    hint_at_moved_data(arguments, status);
    return code;
}

void print_estimate(FILE *to, const struct arguments *arguments, const struct request *request, double flops) {
    double single = 0, exact = 0;
    const bool processor = strcmp(l3a_context_device(arguments->context), "cpu") == 0;
    if (processor && l3a_machine_speed(arguments->context, &single, &exact) == L3A_OK) {
        const bool mixed =
            setting_is(request->settings, "precision", "mixed") && !setting_is(request->settings, "solver", "recursive");
        fprintf(to, ", about %.0f s", 1.2 * flops / (double)arguments->processes / (mixed ? single : exact) + 1);
    }
    fprintf(to, "\n");
}

void print_device_plan(FILE *to, const struct arguments *arguments, uint64_t memory, uint64_t parts, uint64_t spilled) {
    char text[32];
    if (!memory) {
        return;
    }
    fprintf(to, "  device %s: memory %s", l3a_context_device(arguments->context), size_text(memory, text));
    if (spilled) {
        fprintf(to, "; %" PRIu64 " of %" PRIu64 " %s will be kept in the processor's memory", spilled, parts,
                plural(parts, "part", "parts"));
    }
    fprintf(to, "\n");
}

int request_execute(const struct arguments *arguments, struct request *request, const struct request_view *view,
                    const char *format) {
    const bool dry = argument(arguments, "dry-run") != NULL;
    l3a_experiment *experiment = NULL;
    l3a_workload plan = {.size = sizeof plan};
    int code = argument(arguments, "data") ? open_picture_tables(arguments, request) : open_tables(arguments, &request->options);
    if (code != EXIT_DONE) {
        return code;
    }
    l3a_status status = l3a_experiment_create(arguments->context, &request->options, &experiment);
    if (status == L3A_OK) {
        status = l3a_experiment_plan(experiment, &plan);
    }
    if (status == L3A_OK && (dry || !arguments->quiet)) {
        view->print_plan(dry ? stdout : stderr, arguments, request, experiment, &plan);
    }
    if (status == L3A_OK && !dry) {
        status = l3a_experiment_run(experiment);
    }
    code = explain(arguments, status);
    if ((status == L3A_ERROR_CANCELLED || status == L3A_ERROR_DEVICE) && request->options.folder) {
        hint_at_resuming(arguments, view->saved, request->options.folder);
    }
    if (code == EXIT_DONE && !dry) {
        code = view->print_results(arguments, request, experiment, format);
    }
    if (code == EXIT_DONE && !dry && !arguments->quiet) {
        fflush(stdout);
        fprintf(stderr, "\nreport: %s/report.html\n", request->options.folder);
    }
    if (code == EXIT_DONE && request->bad) {
        code = complain(arguments, "%zu %s could not be read and %s skipped", request->bad,
                        plural(request->bad, "picture", "pictures"), plural(request->bad, "was", "were"));
    }
    l3a_experiment_free(experiment);
    return code;
}
