/* l3a report: writes the page about a run again, or one about several runs, or their charts as figures. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

const struct option report_options[] = {
    {"o", "FILE.html", "HTML file, or folder of figures; required for several runs [DIR/report.html, DIR/figures]"},
    {"format", "html|svg|pdf|png|markdown|latex|csv",
     "the page; each of its charts as a figure in a file of its own; or, on the "
     "standard output, the table to publish, or its numbers with differences, intervals and p values as CSV [html]"},
    {"title", "TEXT", "title of the page"},
    {"pictures", "DATASET", "data set with the test pictures, if the run does not record it"},
    {"with", "FILE.csv",
     "results that were computed elsewhere, to compare with those of the run; several files are separated by commas"},
    {NULL, NULL, NULL},
};

/* DIR/report.html or DIR/figures; the caller frees it. */
static char *default_path(const char *folder, const char *name) {
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path) {
        snprintf(path, size, "%s/%s", folder, name);
    }
    return path;
}

/* The page or figures at a path, or the default one. */
static int write_report(struct arguments *arguments, const l3a_report_options *options, const char *format) {
    const char *path = argument(arguments, "o");
    const char *const *folders = arguments->positionals;
    const size_t count = arguments->positional_count;
    const bool page = strcmp(format, "html") == 0;
    char *own = NULL;
    if (!path && count > 1) {
        return complain(arguments, "several runs need -o %s", page ? "FILE.html" : "FOLDER");
    }
    if (!path) {
        path = own = default_path(folders[0], page ? "report.html" : "figures");
    }
    if (!path) {
        return complain(arguments, "out of memory");
    }
    const l3a_status status = page ? l3a_report_write(arguments->context, folders, count, options, path)
                                   : l3a_report_figures(arguments->context, folders, count, options, format, path);
    if (status == L3A_OK) {
        printf("%s\n", path);
    }
    free(own);
    return explain(arguments, status);
}

int report_command(struct arguments *arguments) {
    const char *format = argument_choice(arguments, "format", "html|svg|pdf|png|markdown|latex|csv", "html"),
               *with = argument(arguments, "with");
    struct list files = {0};
    l3a_report_options options = {
        .size = sizeof options, .title = argument(arguments, "title"), .pictures = argument(arguments, "pictures")};
    if (!format) {
        return EXIT_USAGE;
    }
    if (!arguments->positional_count) {
        return complain_usage(arguments, "name the folder of at least one run");
    }
    if (strcmp(format, "html") != 0 && (options.title || options.pictures)) {
        return complain(arguments, "--%s is for the page, and %s has none", options.title ? "title" : "pictures", format);
    }
    const bool table = is_published(format) || strcmp(format, "csv") == 0;
    if (table && argument(arguments, "o")) {
        return complain(arguments, "the table is printed on the standard output, so there is no -o");
    }
    if (with && !list_parse(with, &files)) {
        return complain(arguments, "out of memory");
    }
    options.with = files.items;
    options.with_count = files.count;
    const int code = table ? explain(arguments, print_report_table(arguments->context, arguments->positionals,
                                                                   arguments->positional_count, &options, format))
                           : write_report(arguments, &options, format);
    list_free(&files);
    return code;
}
