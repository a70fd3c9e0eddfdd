/* l3a learn: teaches a model one more phase. */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

const struct option learn_options[] = {
    {"features", "FILE", "features with labels to learn from"},
    {"labels", "Y.npy", "labels, if --features is a .npy file"},
    {"names", "FILE", "class names, one per line, for .npy files"},
    {"classes", "A,B", "the classes, new or known, or @FILE with one name per line"},
    {"wait", NULL, "wait while another process changes the model, rather than fail"},
    {"method", "NAME", "method of a new model; the methods are listed below [l3a]"},
    {NULL, NULL, NULL},
};

/* Creates a model with the settings of a method and those on the command line, for images with the views of these. */
static l3a_status make_model(const struct arguments *arguments, const l3a_features *features, l3a_model **model) {
    const char *method = argument(arguments, "method");
    l3a_options *options = NULL;
    l3a_status status = make_settings(arguments, &options);
    if (status == L3A_OK && method) {
        status = l3a_method_options(arguments->context, method, options);
    }
    if (status == L3A_OK) {
        status = l3a_options_set_integer(arguments->context, options, "views", l3a_features_views(features));
    }
    if (status == L3A_OK) {
        status = l3a_model_create(arguments->context, l3a_features_width(features), options, model);
    }
    l3a_options_free(options);
    return status == L3A_OK && method ? l3a_model_set_record(*model, "method", method) : status;
}

static l3a_status open_model(const struct arguments *arguments, const char *path, const l3a_features *features, l3a_model **model) {
    l3a_status status = L3A_OK;
    if (access(path, F_OK) && errno == ENOENT) {
        return make_model(arguments, features, model);
    }
    status = l3a_model_load(arguments->context, path, model);
    for (size_t i = 0; status == L3A_OK && i < arguments->setting_count; i++) {
        status = l3a_model_set_option(*model, arguments->setting_names[i], arguments->setting_values[i]);
    }
    return status;
}

/* Whether the model was made with the requested method. */
static bool has_method(const struct arguments *arguments, const l3a_model *model) {
    const char *asked = argument(arguments, "method"), *own = l3a_model_record(model, "method");
    own = own ? own : "l3a";
    if (asked && strcmp(asked, own) != 0) {
        complain(arguments, "%s: the model was made with method %s, and %s was given", arguments->positionals[0], own, asked);
        return false;
    }
    return true;
}

static void print_phase(const l3a_model *model, const l3a_options *settings, const l3a_features *features, const char *path) {
    const size_t index = l3a_model_phase_count(model) - 1;
    const l3a_phase_info *phase = l3a_model_phase(model, index);
    const uint64_t rows = l3a_features_rows(features);
    const size_t added = phase->last - phase->first;
    printf("phase %zu: %zu new %s, %zu in all\n", index + 1, added, plural(added, "class", "classes"), phase->last);
    printf("  learned from %" PRIu64 " of %" PRIu64 " %s; %" PRIu64 " %s none of the new classes\n", phase->images, rows,
           plural(rows, "image", "images"), rows - phase->images, plural(rows - phase->images, "shows", "show"));
    if (phase->skipped) {
        printf("  %" PRIu64 " of those %s only a crowd of the new classes, which gives no label\n", phase->skipped,
               plural(phase->skipped, "shows", "show"));
    }
    if (phase->eta > 0) {
        printf("  %" PRIu64 " %s, threshold %g\n", phase->pseudo_labels,
               plural(phase->pseudo_labels, "pseudo-label", "pseudo-labels"), phase->eta);
    }
    if (l3a_model_record(model, "gamma") && !index) {
        printf("  gamma %g, chosen from these images\n", l3a_options_number(settings, "gamma"));
    }
    printf("  solved by %s; saved to %s\n",
           phase->recursive                            ? "recursion"
           : l3a_options_number(settings, "alpha") < 1 ? "sums of each phase"
                                                       : "sums and Cholesky",
           path);
}

/* Prints what was learned of classes that the model knew, and possibly of new ones. */
static void print_more(const l3a_model *model, const struct list *list, size_t before, const char *path) {
    const size_t added = l3a_model_class_count(model) - before, known = list->count - added;
    printf("more images of %zu known %s", known, plural(known, "class", "classes"));
    if (added) {
        printf(", and %zu new %s", added, plural(added, "class", "classes"));
    }
    printf("; %zu in all\n", l3a_model_class_count(model));
    for (size_t i = 0; i < list->count; i++) {
        for (size_t k = 0; k < l3a_model_class_count(model); k++) {
            if (strcmp(list->items[i], l3a_model_class(model, k)) == 0) {
                const uint64_t images = l3a_model_class_images(model, k);
                printf("  %s: %" PRIu64 " %s\n", list->items[i], images, plural(images, "image", "images"));
            }
        }
    }
    printf("  saved to %s\n", path);
}

/* before: how many classes the model had, if it knew some of those that were learned; SIZE_MAX: it knew none. */
static void print_learned(const l3a_model *model, const l3a_options *settings, const l3a_features *features,
                          const struct list *list, size_t before, const char *path) {
    if (before == SIZE_MAX) {
        print_phase(model, settings, features, path);
    } else {
        print_more(model, list, before, path);
    }
}

/* Whether the model knows one of the classes. */
static bool knows_any(const l3a_model *model, const struct list *list) {
    bool knows = false;
    for (size_t i = 0; i < list->count && !knows; i++) {
        for (size_t k = 0; k < l3a_model_class_count(model) && !knows; k++) {
            knows = strcmp(list->items[i], l3a_model_class(model, k)) == 0;
        }
    }
    return knows;
}

/* Prints the plan of the phase before it begins. */
static l3a_status print_plan(const struct arguments *arguments, l3a_model *model, const l3a_options *settings,
                             l3a_features *features, const struct list *list) {
    l3a_plan plan = {.size = sizeof plan};
    uint64_t images;
    char memory[32], file[32];
    const l3a_status status = l3a_model_prepare(model, features, list->items, list->count, &images, &plan);
    if (status == L3A_OK && !arguments->quiet && !knows_any(model, list)) {
        fprintf(stderr, "plan: phase %zu, %zu new %s, %" PRIu64 " %s to learn; memory %s, model file %s\n",
                l3a_model_phase_count(model) + 1, list->count, plural(list->count, "class", "classes"), images,
                plural(images, "image", "images"), size_text(plan.memory, memory), size_text(plan.file, file));
        print_device_plan(stderr, arguments, plan.device_memory, l3a_model_phase_count(model) + 1, plan.spilled_phases);
        print_process_plan(stderr, arguments, settings);
    }
    return status;
}

/* Whether the file is a shard without pictures, which cannot be opened as a table. */
static bool is_empty_shard(const struct arguments *arguments, const char *path) {
    const char *key, *value;
    l3a_tensor_info tensor = {.size = sizeof tensor};
    l3a_file *file = NULL;
    bool shard = false, empty = false;
    if (l3a_file_open(arguments->context, path, &file) == L3A_OK && strcmp(l3a_file_kind(file), "features") == 0) {
        for (size_t i = 0; l3a_file_record(file, i, &key, &value), key; i++) {
            shard = shard || strcmp(key, "shard") == 0;
        }
        for (size_t i = 0; l3a_file_tensor(file, i, &tensor); i++) {
            empty = empty || (strcmp(tensor.name, "features") == 0 && tensor.rank && !tensor.shape[0]);
        }
    }
    l3a_file_free(file);
    return shard && empty;
}

/* Whether the features are a shard without an image of the classes, all of which it knows. The other shards may have some. */
static bool is_idle_shard(const l3a_features *features, const struct list *list) {
    const bool shard = l3a_features_record(features, "shard") != NULL && list->count;
    const int8_t *labels = shard ? l3a_features_labels(features) : NULL;
    const size_t rows = l3a_features_rows(features), classes = l3a_features_class_count(features);
    bool idle = labels != NULL;
    for (size_t i = 0; idle && i < list->count; i++) {
        size_t k = 0;
        while (k < classes && strcmp(list->items[i], l3a_features_class(features, k)) != 0) {
            k++;
        }
        idle = k < classes;
        for (size_t row = 0; idle && row < rows; row++) {
            idle = labels[row * classes + k] != 1;
        }
    }
    return idle;
}

/* Opens the features to learn from. *idle: they are a shard that has nothing to learn. */
static l3a_status open_to_learn(const struct arguments *arguments, const char *path, const struct list *list,
                                l3a_features **features, bool *idle) {
    const l3a_status status = open_features(arguments, path, argument(arguments, "labels"), argument(arguments, "names"), features);
    *idle = status == L3A_OK ? is_idle_shard(*features, list) : status == L3A_ERROR_DATA && is_empty_shard(arguments, path);
    if (*idle) {
        printf("%s: this shard has no picture of the classes; there is nothing to learn from it\n", path);
    }
    return status;
}

/* Learns the classes from the features, with the model locked. */
static int learn(const struct arguments *arguments, const char *path, l3a_features *features, const struct list *list) {
    l3a_model *model = NULL;
    l3a_lock *lock = NULL;
    l3a_options *settings = NULL;
    l3a_status status = l3a_lock_take(arguments->context, path, argument(arguments, "wait") != NULL, &lock);
    if (status == L3A_OK) {
        status = fold_history(arguments, path);
    }
    if (status == L3A_OK) {
        status = open_model(arguments, path, features, &model);
    }
    const bool fits = status != L3A_OK || has_method(arguments, model);
    if (status == L3A_OK && fits) {
        status = l3a_options_create(arguments->context, &settings);
    }
    if (status == L3A_OK && fits) {
        status = l3a_model_options(model, settings);
    }
    if (status == L3A_OK && fits) {
        warn_of_idle_settings(arguments, settings);
        status = print_plan(arguments, model, settings, features, list);
    }
    const size_t before = l3a_model_class_count(model);
    const bool more = status == L3A_OK && fits && knows_any(model, list);
    if (status == L3A_OK && fits) {
        status = l3a_model_learn(model, features, list->items, list->count);
    }
    if (status == L3A_OK && fits) {
        status = l3a_model_save(model, path);
    }
    if (status == L3A_OK && fits) {
        status = l3a_model_options(model, settings);
        print_learned(model, settings, features, list, more ? before : SIZE_MAX, path);
    }
    const int code = fits ? explain(arguments, status) : EXIT_USAGE;
    l3a_lock_free(lock);
    l3a_options_free(settings);
    l3a_model_free(model);
    return code;
}

int learn_command(struct arguments *arguments) {
    const char *features_path = argument_needed(arguments, "features");
    const char *classes = features_path ? argument_needed(arguments, "classes") : NULL;
    struct list list = {0};
    l3a_features *features = NULL;
    bool idle;
    if (!classes) {
        return EXIT_USAGE;
    }
    if (arguments->positional_count != 1) {
        return complain_usage(arguments, "name one model file");
    }
    if (!argument_labels_fit(arguments, "features", "labels") || !list_parse(classes, &list)) {
        list_free(&list);
        return EXIT_USAGE;
    }
    const l3a_status status = open_to_learn(arguments, features_path, &list, &features, &idle);
    const int code = idle               ? EXIT_DONE
                     : status == L3A_OK ? learn(arguments, arguments->positionals[0], features, &list)
                                        : explain(arguments, status);
    l3a_features_free(features);
    list_free(&list);
    return code;
}
