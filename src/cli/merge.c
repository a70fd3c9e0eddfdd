/* l3a merge: combines models learned in different places into one. */
#include "cli.h"

#include <sys/stat.h>

const struct option merge_options[] = {
    {"o", "FILE", "file for the merged model"},
    {"wait", NULL, "wait while another process changes the file of -o, rather than fail"},
    {NULL, NULL, NULL},
};

/* Whether two paths lead to the same file. */
static bool is_same_file(const char *one, const char *other) {
    struct stat left, right;
    return stat(one, &left) == 0 && stat(other, &right) == 0 && left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

int merge_command(struct arguments *arguments) {
    l3a_context *context = arguments->context;
    const char *path = argument_needed(arguments, "o");
    l3a_model *model = NULL;
    l3a_lock *lock = NULL;
    int exact = 1;
    if (!path) {
        return EXIT_USAGE;
    }
    if (arguments->positional_count < 2) {
        return complain(arguments, "name at least two models to merge");
    }
    for (size_t i = 1; i < arguments->positional_count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (is_same_file(arguments->positionals[i], arguments->positionals[j])) {
                return complain(arguments, "%s and %s are the same file; its pictures would count twice", arguments->positionals[j],
                                arguments->positionals[i]);
            }
        }
    }
    /* the output may be one of the models */
    l3a_status status = l3a_lock_take(context, path, argument(arguments, "wait") != NULL, &lock);
    if (status == L3A_OK) {
        status = l3a_model_load(context, arguments->positionals[0], &model);
    }
    for (size_t i = 1; status == L3A_OK && i < arguments->positional_count; i++) {
        l3a_model *other = NULL;
        int same = 0;
        status = l3a_model_load(context, arguments->positionals[i], &other);
        if (status == L3A_OK) {
            status = l3a_model_merge(model, other, &same);
        }
        exact = exact && same;
        l3a_model_free(other);
    }
    if (status == L3A_OK) {
        status = l3a_model_save(model, path);
    }
    if (status == L3A_OK) {
        const size_t classes = l3a_model_class_count(model), phases = l3a_model_phase_count(model);
        printf("%s: %zu models, %zu %s in %zu %s\n", path, arguments->positional_count, classes,
               plural(classes, "class", "classes"), phases, plural(phases, "phase", "phases"));
        printf(exact
                   ? "The model equals one that learned from all the pictures in one place.\n"
                   : "The model is close to one that learned from all the pictures in one place, but not equal to it. Each picture "
                     "keeps the weight\nand pseudo-labels it got where it was learned, and the first model's gamma is used. Models "
                     "made with --weights none,\n--pseudo off and a fixed --gamma, and without folded phases, merge exactly (see "
                     "docs/beyond.md).\n");
    }
    l3a_lock_free(lock);
    l3a_model_free(model);
    return explain(arguments, status);
}
