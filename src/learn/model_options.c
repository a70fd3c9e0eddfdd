/* The settings of a model, as one table: names, types, ranges, defaults, help. */
#include "learn/model_options.h"

#include "base/settings.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

#define INTEGER(...) SETTING_INTEGER("model", struct model_options, __VA_ARGS__)
#define NUMBER(...) SETTING_NUMBER("model", struct model_options, __VA_ARGS__)
#define CHOICE(...) SETTING_CHOICE("model", struct model_options, __VA_ARGS__)

static const struct setting settings[] = {
    INTEGER(dim, "dim", 1, 1 << 20, "8192", "width of the random layer"),
    INTEGER(seed, "seed", 0, LARGEST_INTEGER, "2025", "seed of the random layer"),
    {{"gamma", L3A_OPTION_NUMBER, 0, DBL_MAX, 1, 0, NULL, "1000",
      "ridge, larger is smoother; auto: chosen from the images of the first phase", "model", "auto"},
     offsetof(struct model_options, gamma)},
    CHOICE(weights, "weights", "sqrt|inv|log|none", "sqrt",
           "class weight for a class with f images: f^-1/2, 1/f, 1/(log f + 1), or 1"),
    CHOICE(scaling, "scaling", "normalised|literal", "normalised",
           "scale class weights to mean 1, or use the paper's formula as printed"),
    CHOICE(pseudo, "pseudo", "fixed|dynamic|off", "fixed",
           "pseudo-labels of old classes on new images: above eta, above a threshold found from tau, or none"),
    NUMBER(eta, "eta", 0, 1, 1, 1, "0.7", "sigma(score) above which an old class becomes a pseudo-label"),
    NUMBER(tau, "tau", 0, 1e6, 1, 0, "2.9", "dynamic threshold: average number of labels per image, over all classes"),
    INTEGER(total_classes, "total-classes", 0, 1 << 20, "0",
            "dynamic threshold: number of all classes; 0: the data set's in run and sweep, else those seen so far"),
    NUMBER(theta, "theta", 0, 1, 1, 1, "0.525", "sigma(score) above which a class counts as predicted"),
    CHOICE(precision, "precision", "mixed|double", "mixed", "float32 products in float64 sums, or float64 throughout"),
    CHOICE(solver, "solver", "auto|sums|recursive|scalapack", "auto",
           "sums and Cholesky, recursion on the inverse, or whichever is faster for the phase; scalapack: sums that the processes "
           "of mpirun hold together, for a large dim"),
    CHOICE(store, "store", "float64|float32", "float64", "type of the matrix in the model file"),
    INTEGER(block, "block", 1, 1 << 20, "4096", "rows processed at a time"),
    NUMBER(alpha, "alpha", 0, 1, 0, 0, "1", "weight of images from other phases; below 1, phases are kept apart"),
    NUMBER(lift, "lift", 0, 1, 0, 0, "0",
           "share of the sum of all scores added to each score, with t phases kept apart times (t-1)/(t+8)"),
    CHOICE(skip_features, "skip-features", "off|on|auto", "off",
           "use the features beside the random layer; auto: if they add at most an eighth, or the layer is narrow"),
    CHOICE(thresholds, "thresholds", "fixed|global|per-class|taught", "fixed",
           "predict a class above theta, above one fitted score, or above a fitted score per class; taught: for few images, and "
           "pictures that show none"),
    INTEGER(keep_phases, "keep-phases", 0, 1 << 20, "0",
            "number of phases kept apart, older ones are folded; 0: all if alpha is below 1, else none"),
    CHOICE(gamma_from, "gamma-from", "images|sums", "images",
           "gamma auto is chosen from the images of the first phase, or from the sums whenever they change"),
    INTEGER(views, "views", 1, 1000, "1",
            "1: the whole picture alone; 5, 9 or 14: and so many crops of it; unless given, run, sweep and learn use what the "
            "features have"),
    INTEGER(score_views, "score-views", 0, 1000, "0", "views of images that are scored; 0: those that are learned"),
    CHOICE(
        pseudo_from, "pseudo-from", "whole|mean|combined", "mean",
        "score that gives pseudo-labels to images with views: the whole picture's, the mean of it and of the mean crop's, or the "
        "one that images are scored with"),
    {{"beta", L3A_OPTION_NUMBER, 0, 1e6, 1, 0, NULL, "auto",
      "weight of all unlabelled images together, where that of all judged ones is 1; auto: by the number of images and classes",
      "model", "auto"},
     offsetof(struct model_options, beta)},
    INTEGER(privacy_limit, "privacy-limit", 0, LARGEST_INTEGER, "64", "warn about phases with fewer images; 0: never"),
};

enum { SETTINGS = sizeof settings / sizeof settings[0] };
_Static_assert(SETTINGS <= 64, "a bit for each setting");

const struct setting_table model_settings = {settings, SETTINGS, offsetof(struct model_options, given)};

void model_options_default(struct model_options *options) {
    memset(options, 0, sizeof *options);
    settings_default(&model_settings, options);
}

l3a_status model_options_set(l3a_context *context, struct model_options *options, const char *name, const char *value) {
    const struct setting_table *const tables[] = {&model_settings};
    const struct setting *setting = setting_find(&model_settings, name);
    return setting ? setting_set(context, &model_settings, options, setting, value)
                   : fail_unknown_setting(context, tables, 1, "a model has", name);
}

size_t model_options_get(const struct model_options *options, const char *name, char *text, size_t capacity) {
    const struct setting *setting = setting_find(&model_settings, name);
    return setting ? setting_get(options, setting, text, capacity) : 0;
}

l3a_status model_options_check(l3a_context *context, const struct model_options *options) {
    return settings_check(context, &model_settings, options);
}

const char *l3a_option_needs(const l3a_options *given, const char *name) {
    const struct model_options options = model_options_of(given);
    const struct {
        const char *name;
        bool used;
        const char *needs;
    } conditions[] = {
        {"eta", options.pseudo == L3A_PSEUDO_FIXED, "pseudo fixed"},
        {"tau", options.pseudo == L3A_PSEUDO_DYNAMIC, "pseudo dynamic"},
        {"total-classes", options.pseudo == L3A_PSEUDO_DYNAMIC, "pseudo dynamic"},
        {"pseudo-from", options.pseudo != L3A_PSEUDO_OFF && options.views > 1,
         "pseudo-labels (pseudo) of images with views (views)"},
        {"scaling", options.weights != L3A_WEIGHTS_NONE, "class weights (weights)"},
        {"lift", keeps_phases(&options), "phases kept apart (alpha below 1, or keep-phases)"},
        {"theta", options.thresholds == L3A_THRESHOLDS_FIXED, "thresholds fixed"},
    };
    for (size_t i = 0; i < sizeof conditions / sizeof conditions[0]; i++) {
        if (name && strcmp(conditions[i].name, name) == 0 && !conditions[i].used) {
            return conditions[i].needs;
        }
    }
    return NULL;
}

l3a_status options_fit(l3a_context *context, const struct model_options *options) {
    l3a_status status = L3A_OK;
    FAIL_IF(options->alpha < 1 && options->pseudo != L3A_PSEUDO_OFF, context, L3A_ERROR_OPTION,
            "use pseudo off, or alpha 1; to change the alpha of l3a+, run it separately",
            "alpha below 1 replaces pseudo-labels, so the two cannot be combined");
    FAIL_IF(keeps_phases(options) && options->solver == L3A_SOLVER_RECURSIVE, context, L3A_ERROR_OPTION,
            "use solver sums, or alpha 1 and keep-phases 0",
            "the recursion has one inverse for all phases, so their sums cannot be kept apart");
    FAIL_IF(keeps_phases(options) && options->solver == L3A_SOLVER_SCALAPACK, context, L3A_ERROR_OPTION,
            "use solver sums, or alpha 1 and keep-phases 0",
            "solver scalapack has one sum for all phases, so their sums cannot be kept apart");
    FAIL_IF(options->gamma_from == L3A_GAMMA_FROM_SUMS && !keeps_phases(options), context, L3A_ERROR_OPTION,
            "use gamma-from images, or keep phases apart (alpha below 1, or keep-phases)",
            "a model that adds everything to one sum does not know how many images it holds");
    FAIL_IF(options->gamma == 0 && options->solver == L3A_SOLVER_RECURSIVE, context, L3A_ERROR_OPTION,
            "give a number for gamma, or use solver sums", "the recursion starts from gamma, so gamma cannot be chosen later");
done:
    return status;
}

l3a_status solver_fits(l3a_context *context, const struct model_options *options) {
    return options->solver == L3A_SOLVER_RECURSIVE && !learns_alone(context)
               ? fail(context, L3A_ERROR_OPTION, "use solver auto or sums, or learn in one process",
                      "solver recursive changes one inverse with each block of rows, so it learns in one process, but %" PRIu64
                      " learn together",
                      (uint64_t)context->options.processes)
               : L3A_OK;
}
