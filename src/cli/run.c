/* l3a run: every phase of a protocol, for every method and seed. */
#include "cli.h"

#include <inttypes.h>
#include <string.h>

const struct option run_options[] = {
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
    {"method", "A,B", "methods to run, listed below [l3a]"},
    {"list-methods", NULL, "describe each method, with its source and what it stores, and exit"},
    {"seed", "N,M", "seeds of the random layer; with several, mean and standard deviation are reported [2025]"},
    {"o", "DIR", "folder for the results: report.html, run.json, tables, model.safetensors"},
    {"resume", NULL, "resume the run in DIR; options that are left out are taken from its run.json"},
    {"pictures", "DATASET", "data set with the test pictures, for the report, if the test features do not record it"},
    {"dry-run", NULL, "print the plan and exit"},
    {"format", "table|json|csv|markdown|latex",
     "format of the results on the standard output; markdown and latex: the table to "
     "publish [table]"},
    {NULL, NULL, NULL},
};

static void print_plan(FILE *to, const struct arguments *arguments, const struct request *request, const l3a_experiment *run,
                       const l3a_workload *plan) {
    char memory[32], file[32], dim[32], crops[64] = "";
    const size_t views = l3a_features_views(request->options.train), scored = l3a_features_views(request->options.test);
    uint64_t rows = 0;
    l3a_options_get(request->settings, "dim", dim, sizeof dim);
    if (views != scored) {
        snprintf(crops, sizeof crops, "%zu %s to learn and %zu to score, ", views, plural(views, "view", "views"), scored);
    } else if (views > 1) {
        snprintf(crops, sizeof crops, "%zu views, ", views);
    }
    fprintf(to, "plan: %zu %s in %zu %s, %sfeatures %zu wide, dim %s\n", plan->classes, plural(plan->classes, "class", "classes"),
            plan->phases, plural(plan->phases, "phase", "phases"), crops, l3a_features_width(request->options.train), dim);
    for (size_t t = 0; t < plan->phases; t++) {
        l3a_protocol_phase phase = {.size = sizeof phase};
        l3a_experiment_phase(run, t, &phase);
        fprintf(to, "  phase %zu: classes %zu-%zu, %" PRIu64 " training %s", t + 1, phase.first + 1, phase.last, phase.train_images,
                plural(phase.train_images, "image", "images"));
        if (phase.unlabelled_images) {
            fprintf(to, " (%" PRIu64 " with only a crowd, which gives no label)", phase.unlabelled_images);
        }
        fprintf(to, ", %" PRIu64 " test %s\n", phase.test_images, plural(phase.test_images, "image", "images"));
        rows += phase.train_images;
    }
    fprintf(to, "  %zu %s x ", plan->points, plural(plan->points, "method", "methods"));
    if (plan->orders > 1) {
        fprintf(to, "%zu class orders (the phases above are those of the first) x ", plan->orders);
    }
    fprintf(to, "%zu %s, %" PRIu64 " training rows in each; memory %s, model file %s", plan->seeds,
            plural(plan->seeds, "seed", "seeds"), rows, size_text(plan->memory, memory), size_text(plan->file, file));
    print_estimate(to, arguments, request, plan->flops);
    print_device_plan(to, arguments, plan->device_memory, plan->parts, plan->spilled);
    print_process_plan(to, arguments, request->settings);
}

static int print_run(const struct arguments *arguments, const struct request *request, const l3a_experiment *run,
                     const char *format) {
    return explain(arguments, is_published(format)
                                  ? print_report_table(arguments->context, &request->options.folder, 1, NULL, format)
                                  : print_results(arguments->context, run, format));
}

int run_command(struct arguments *arguments) {
    static const struct request_view view = {"phases, but for at most ten seconds of work,", print_plan, print_run};
    if (argument(arguments, "list-methods")) {
        print_methods(stdout);
        return EXIT_DONE;
    }
    struct request request = {0};
    const char *format = NULL;
    int code = EXIT_USAGE;
    if (request_check(arguments) && (format = argument_choice(arguments, "format", "table|json|csv|markdown|latex", "table")) &&
        request_fill(arguments, &request, "l3a", "2025")) {
        request.options.pictures = argument(arguments, "pictures");
        code = explain(arguments, make_settings(arguments, &request.settings));
        request.options.settings = request.settings;
        code = code == EXIT_DONE ? request_execute(arguments, &request, &view, format) : code;
    }
    request_free(&request);
    return code;
}
