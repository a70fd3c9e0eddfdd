/* l3a forget: removes classes, a phase or single images from a model. */
#include "cli.h"

#include <inttypes.h>
#include <string.h>

const struct option forget_options[] = {
    {"classes", "A,B", "classes to forget, or @FILE with one name per line"},
    {"phase", "N", "phase to forget, counted from 1; the model must keep its phases apart (--method l3a+, or --keep-phases)"},
    {"features", "FILE", "images to forget: the same features and labels that were learned"},
    {"labels", "Y.npy", "labels, if --features is a .npy file"},
    {"names", "FILE", "class names, one per line, for .npy files"},
    {"views", "N", "use only these views of the features [all that there are]"},
    {"wait", NULL, "wait while another process changes the model, rather than fail"},
    {"o", "FILE", "where to save the model [overwrite MODEL]"},
    {NULL, NULL, NULL},
};

static l3a_status forget_images(const struct arguments *arguments, l3a_model *model, const char *path, int *exact) {
    l3a_features *features = NULL;
    uint64_t images = 0;
    l3a_status status = open_features(arguments, path, argument(arguments, "labels"), argument(arguments, "names"), &features);
    if (status == L3A_OK) {
        status = l3a_model_forget_images(model, features, &images, exact);
    }
    if (status == L3A_OK) {
        printf("%" PRIu64 " %s forgotten\n", images, plural(images, "image", "images"));
    }
    l3a_features_free(features);
    return status;
}

int forget_command(struct arguments *arguments) {
    const char *classes = argument(arguments, "classes"), *phase = argument(arguments, "phase");
    const char *features = argument(arguments, "features");
    struct list list = {0};
    l3a_model *model = NULL;
    l3a_lock *lock = NULL;
    uint64_t number = 1;
    int exact = 0;
    if (arguments->positional_count != 1) {
        return complain_usage(arguments, "name one model file");
    }
    if ((classes != NULL) + (phase != NULL) + (features != NULL) != 1) {
        return complain(arguments, "give exactly one of --classes, --phase and --features");
    }
    if (!argument_labels_fit(arguments, "features", "labels") || !argument_integer(arguments, "phase", 1, 1000000, &number) ||
        (classes && !list_parse(classes, &list))) {
        list_free(&list);
        return EXIT_USAGE;
    }
    const char *path = arguments->positionals[0], *out = argument(arguments, "o") ? argument(arguments, "o") : path;
    l3a_status status = l3a_lock_take(arguments->context, out, argument(arguments, "wait") != NULL, &lock);
    if (status == L3A_OK && strcmp(out, path) == 0) {
        status = fold_history(arguments, path);
    }
    if (status == L3A_OK) {
        status = l3a_model_load(arguments->context, path, &model);
    }
    if (status == L3A_OK) {
        status = classes ? l3a_model_forget_classes(model, list.items, list.count, &exact)
                 : phase ? l3a_model_forget_phase(model, (size_t)number - 1, &exact)
                         : forget_images(arguments, model, features, &exact);
    }
    if (status == L3A_OK) {
        status = l3a_model_save(model, out);
    }
    if (status == L3A_OK) {
        const size_t left = l3a_model_class_count(model), phases = l3a_model_phase_count(model);
        printf("%s: %zu %s in %zu %s\n", out, left, plural(left, "class", "classes"), phases, plural(phases, "phase", "phases"));
        printf(
            exact && features
                ? "The model equals one that never learned these images, provided that it did learn them; it cannot check that.\n"
            : exact
                ? "The model equals one that never learned them.\n"
                : "The model does not quite equal one that never learned them. Remaining images keep weights, pseudo-labels or a "
                  "gamma that\ndepended on what was removed, or images of a forgotten class remain as images without it "
                  "(see docs/beyond.md).\n");
    }
    l3a_lock_free(lock);
    l3a_model_free(model);
    list_free(&list);
    return explain(arguments, status);
}
