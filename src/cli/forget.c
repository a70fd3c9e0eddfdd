/* l3a forget: classes, a phase or single images are taken back. */
#include "cli.h"

#include <inttypes.h>

const struct option forget_options[] = {
    {"classes", "A,B", "classes to forget, or @FILE with a name a line"},
    {"phase", "N", "phase to forget, from 1; its sums must be kept apart (--method l3a+, or --keep-phases)"},
    {"features", "FILE", "images to forget: the features and labels they were learned with"},
    {"labels", "Y.npy", "labels, when --features is a .npy file"},
    {"names", "FILE", "class names, a line each, for .npy files"},
    {"wait", NULL, "wait while another process changes the model, rather than fail"},
    {"o", "FILE", "where the model goes [in place of the old one]"},
    {NULL, NULL, NULL},
};

static l3a_status forget_images(const struct arguments *arguments, l3a_model *model, const char *path, int *exact) {
    l3a_features *features = NULL;
    uint64_t images = 0;
    l3a_status status =
        open_features(arguments->context, path, argument(arguments, "labels"), argument(arguments, "names"), &features);
    if (status == L3A_OK) {
        status = l3a_model_forget_images(model, features, &images, exact);
    }
    if (status == L3A_OK) {
        printf("%" PRIu64 " image%s taken back\n", images, images == 1 ? "" : "s");
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
        return complain(arguments, "name one model file");
    }
    if ((classes != NULL) + (phase != NULL) + (features != NULL) != 1) {
        return complain(arguments, "say what to forget by one of --classes, --phase and --features");
    }
    if (!argument_integer(arguments, "phase", 1, 1000000, &number) || (classes && !list_parse(classes, &list))) {
        list_free(&list);
        return EXIT_USAGE;
    }
    const char *path = arguments->positionals[0], *out = argument(arguments, "o") ? argument(arguments, "o") : path;
    l3a_status status = l3a_lock_take(arguments->context, out, argument(arguments, "wait") != NULL, &lock);
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
        printf("%s: %zu class%s in %zu phase%s\n", out, left, left == 1 ? "" : "es", phases, phases == 1 ? "" : "s");
        printf(exact && features ? "It is the model that never learned them, if these are rows that it learned: it cannot know.\n"
               : exact           ? "It is the model that never learned them.\n"
                       : "It is not quite the model that never learned them: images that remain keep weights, pseudo-labels "
                         "or a gamma that depended\non what is gone, or images of a forgotten class remain as images "
                         "without it (docs/beyond.md).\n");
    }
    l3a_lock_free(lock);
    l3a_model_free(model);
    list_free(&list);
    return explain(arguments, status);
}
