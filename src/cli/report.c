/* l3a report: the page about a run again, or one about several. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

const struct option report_options[] = {
    {"o", "FILE.html", "the page; default for one run: report.html in its folder"},
    {"title", "TEXT", "what stands over the page"},
    {"pictures", "DATASET", "the data set of the test pictures, where the run does not say"},
    {NULL, NULL, NULL},
};

int report_command(struct arguments *arguments) {
    const char *path = argument(arguments, "o");
    char *own = NULL;
    l3a_report_options options;
    l3a_report_options_default(&options);
    options.title = argument(arguments, "title");
    options.pictures = argument(arguments, "pictures");
    if (!arguments->positional_count) {
        return complain(arguments, "name the folder of a run, or of several");
    }
    if (!path && arguments->positional_count > 1) {
        return complain(arguments, "say with -o where the page about several runs goes");
    }
    if (!path) {
        const size_t size = strlen(arguments->positionals[0]) + sizeof "/report.html";
        own = malloc(size);
        if (!own) {
            return complain(arguments, "out of memory");
        }
        snprintf(own, size, "%s/report.html", arguments->positionals[0]);
    }
    const l3a_status status =
        l3a_report_write(arguments->context, arguments->positionals, arguments->positional_count, &options, path ? path : own);
    if (status == L3A_OK) {
        printf("%s\n", path ? path : own);
    }
    free(own);
    return explain(arguments, status);
}
