/* l3a report: writes the page about a run again, or one about several runs. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

const struct option report_options[] = {
    {"o", "FILE.html", "HTML file to write; required for several runs [DIR/report.html]"},
    {"title", "TEXT", "title of the page"},
    {"pictures", "DATASET", "data set with the test pictures, if the run does not record it"},
    {NULL, NULL, NULL},
};

int report_command(struct arguments *arguments) {
    const char *path = argument(arguments, "o");
    char *own = NULL;
    const l3a_report_options options = {
        .size = sizeof options, .title = argument(arguments, "title"), .pictures = argument(arguments, "pictures")};
    if (!arguments->positional_count) {
        return complain(arguments, "name the folder of at least one run");
    }
    if (!path && arguments->positional_count > 1) {
        return complain(arguments, "several runs need -o FILE.html");
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
