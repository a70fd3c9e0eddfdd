/* l3a merge: models learned at different places become one. */
#include "cli.h"

const struct option merge_options[] = {
    {"o", "FILE", "the merged model"},
    {NULL, NULL, NULL},
};

int merge_command(struct arguments *arguments) {
    l3a_context *context = arguments->context;
    const char *path = argument_needed(arguments, "o");
    l3a_model *model = NULL;
    int exact = 1;
    if (!path) {
        return EXIT_USAGE;
    }
    if (arguments->positional_count < 2) {
        return complain(arguments, "name the models to merge, two at least");
    }
    l3a_status status = l3a_model_load(context, arguments->positionals[0], &model);
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
        printf("%s: %zu models, %zu classes in %zu phases\n", path, arguments->positional_count, l3a_model_class_count(model),
               l3a_model_phase_count(model));
        printf(
            exact ? "It is the model that one place with all the pictures would have learned.\n"
                  : "Each picture keeps the weight, or the pseudo-labels, that it got where it was learned; one place with all the "
                    "pictures\nwould have given slightly different ones. With --weights none --pseudo off the two are the same.\n");
    }
    l3a_model_free(model);
    return explain(arguments, status);
}
