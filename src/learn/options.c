/* All settings, as one table: names, types, ranges, defaults, help. */
#include "base/context.h"
#include "base/number.h"
#include "learn/options.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

struct setting {
    l3a_option_info info;
    size_t offset; /* in l3a_options */
};

#define INTEGER(group, field, name, low, high, fallback, help)                                                                     \
    { {name, L3A_OPTION_INTEGER, low, high, 0, 0, NULL, fallback, help, group, NULL}, offsetof(l3a_options, field) }
#define NUMBER(group, field, name, low, high, low_open, high_open, fallback, help)                                                 \
    { {name, L3A_OPTION_NUMBER, low, high, low_open, high_open, NULL, fallback, help, group, NULL}, offsetof(l3a_options, field) }
#define CHOICE(group, field, name, choices, fallback, help)                                                                        \
    { {name, L3A_OPTION_CHOICE, 0, 0, 0, 0, choices, fallback, help, group, NULL}, offsetof(l3a_options, field) }

#define MODEL "model"
#define COMPARISON "comparison"

/* Every whole number up to 2^53 is a double, so ranges can be stored as doubles. */
static const double LARGEST = 9007199254740992.0;

static const struct setting settings[] = {
    INTEGER(MODEL, dim, "dim", 1, 1 << 20, "8192", "width of the random layer"),
    INTEGER(MODEL, seed, "seed", 0, LARGEST, "2025", "seed of the random layer"),
    {{"gamma", L3A_OPTION_NUMBER, 0, DBL_MAX, 1, 0, NULL, "1000",
      "ridge, larger is smoother; auto: chosen from the images of the first phase", MODEL, "auto"},
     offsetof(l3a_options, gamma)},
    CHOICE(MODEL, weights, "weights", "sqrt|inv|log|none", "sqrt",
           "class weight for a class with f images: f^-1/2, 1/f, 1/(log f + 1), or 1"),
    CHOICE(MODEL, scaling, "scaling", "normalised|literal", "normalised",
           "scale class weights to mean 1, or use the paper's formula as printed"),
    CHOICE(MODEL, pseudo, "pseudo", "fixed|dynamic|off", "fixed",
           "pseudo-labels of old classes on new images: above eta, above a threshold found from tau, or none"),
    NUMBER(MODEL, eta, "eta", 0, 1, 1, 1, "0.7", "sigma(score) above which an old class becomes a pseudo-label"),
    NUMBER(MODEL, tau, "tau", 0, 1e6, 1, 0, "2.9", "dynamic threshold: average number of labels per image, over all classes"),
    INTEGER(MODEL, total_classes, "total-classes", 0, 1 << 20, "0",
            "dynamic threshold: number of all classes; 0: the data set's in run and sweep, else those seen so far"),
    NUMBER(MODEL, theta, "theta", 0, 1, 1, 1, "0.525", "sigma(score) above which a class counts as predicted"),
    CHOICE(MODEL, precision, "precision", "mixed|double", "mixed", "float32 products in float64 sums, or float64 throughout"),
    CHOICE(MODEL, solver, "solver", "auto|sums|recursive", "auto",
           "sums and Cholesky, recursion on the inverse, or whichever is faster for the phase"),
    CHOICE(MODEL, store, "store", "float64|float32", "float64", "type of the matrix in the model file"),
    INTEGER(MODEL, block, "block", 1, 1 << 20, "4096", "rows processed at a time"),
    NUMBER(MODEL, alpha, "alpha", 0, 1, 0, 0, "1", "weight of images from other phases; below 1, phases are kept apart"),
    NUMBER(MODEL, lift, "lift", 0, 1, 0, 0, "0",
           "share of the sum of all scores added to each score, with t phases kept apart times (t-1)/(t+8)"),
    CHOICE(MODEL, skip_features, "skip-features", "off|on|auto", "off",
           "use the features beside the random layer; auto: if they add at most an eighth, or the layer is narrow"),
    CHOICE(MODEL, thresholds, "thresholds", "fixed|global|per-class", "fixed",
           "predict a class above theta, above one fitted score, or above a fitted score per class"),
    INTEGER(MODEL, keep_phases, "keep-phases", 0, 1 << 20, "0",
            "number of phases kept apart, older ones are folded; 0: all if alpha is below 1, else none"),
    INTEGER(MODEL, privacy_limit, "privacy-limit", 0, LARGEST, "64", "warn about phases with fewer images; 0: never"),
    NUMBER(COMPARISON, ratio, "ratio", 0, 1e6, 0, 0, "1", "dsal: share of the second stream in the score"),
    NUMBER(COMPARISON, kernel_width, "kernel-width", 0, 1e6, 1, 0, "0.5",
           "gkeal: width of a kernel, in typical distances between two images"),
    NUMBER(COMPARISON, shrinkage, "shrinkage", 0, 1, 1, 0, "1e-4", "slda: share of the identity in the covariance"),
    CHOICE(COMPARISON, loss, "loss", "asl|bce", "asl", "trained heads: asymmetric loss, or binary cross-entropy"),
    INTEGER(COMPARISON, epochs, "epochs", 0, 1 << 20, "0", "trained heads: passes over a phase's images; 0: the tuned number"),
    INTEGER(COMPARISON, batch, "batch", 0, 1 << 20, "0", "trained heads: images per step; 0: 128"),
    NUMBER(COMPARISON, first_rate, "first-rate", 0, 1e6, 0, 0, "0",
           "trained heads: highest rate in the first phase; 0: the tuned one"),
    NUMBER(COMPARISON, rate, "rate", 0, 1e6, 0, 0, "0", "trained heads: highest rate in later phases; 0: the tuned one"),
    NUMBER(COMPARISON, lambda, "lambda", 0, 1e12, 0, 0, "0", "trained heads: weight of distillation or penalty; 0: the tuned one"),
    INTEGER(COMPARISON, memory, "memory", 0, 1 << 20, "0",
            "replay: images kept, per class or in all (memory-per); 0: 20 per class, or 1000 in all"),
    CHOICE(COMPARISON, memory_per, "memory-per", "method|class|run", "method",
           "replay: memory counts images per class of the run, or in all; method: in all for prs and ocdm, else per class"),
    CHOICE(COMPARISON, head_input, "head-input", "features|layer", "features",
           "trained heads: on the features, or on the random layer (dim, seed, skip-features) that l3a learns on"),
    NUMBER(COMPARISON, head_theta, "head-theta", 0, 1, 1, 1, "0.8", "trained heads: sigma(score) above which a class is predicted"),
};

enum { SETTINGS = sizeof settings / sizeof settings[0] };
_Static_assert(SETTINGS <= 64, "a bit for each setting");

const l3a_option_info *l3a_option_at(size_t index) {
    return index < SETTINGS ? &settings[index].info : NULL;
}

static const struct setting *find_setting(const char *name) {
    for (size_t i = 0; i < SETTINGS; i++) {
        if (strcmp(settings[i].info.name, name) == 0) {
            return &settings[i];
        }
    }
    return NULL;
}

static bool in_range(const l3a_option_info *info, double value) {
    return (info->low_open ? value > info->low : value >= info->low) &&
           (info->high_open ? value < info->high : value <= info->high);
}

/* The index of a choice, or -1. */
static int find_choice(const char *choices, const char *value) {
    const size_t length = strlen(value);
    for (int index = 0;; index++) {
        const size_t size = strcspn(choices, "|");
        if (size == length && memcmp(choices, value, length) == 0) {
            return index;
        }
        if (!choices[size]) {
            return -1;
        }
        choices += size + 1;
    }
}

/* Choices are enums, which are all stored as unsigned ints here. */
static void store_choice(char *field, int index) {
    const unsigned value = (unsigned)index;
    memcpy(field, &value, sizeof value);
}

static unsigned load_choice(const char *field) {
    unsigned value;
    memcpy(&value, field, sizeof value);
    return value;
}

_Static_assert(sizeof(l3a_weighting) == sizeof(unsigned) && sizeof(l3a_solver) == sizeof(unsigned), "an enum is an unsigned int");

static void range_text(const l3a_option_info *info, char *text, size_t capacity) {
    char low[NUMBER_TEXT], high[NUMBER_TEXT];
    if (info->high >= DBL_MAX) {
        snprintf(text, capacity, "%s %s", info->low_open ? "above" : "at least", number_format(info->low, low));
    } else {
        snprintf(text, capacity, "%s%s, %s%s", info->low_open ? "in (" : "in [", number_format(info->low, low),
                 number_format(info->high, high), info->high_open ? ")" : "]");
    }
}

static l3a_status fail_value(l3a_context *context, const l3a_option_info *info, const char *value) {
    char range[128], hint[256];
    if (info->type == L3A_OPTION_CHOICE) {
        snprintf(hint, sizeof hint, "choose one of %s", info->choices);
    } else {
        range_text(info, range, sizeof range);
        snprintf(hint, sizeof hint, "%s must be %s%s%s %s; the default is %s", info->name, info->word ? info->word : "",
                 info->word ? " or " : "", info->type == L3A_OPTION_INTEGER ? "a whole number" : "a number", range, info->fallback);
    }
    return fail(context, L3A_ERROR_OPTION, hint, "%s: '%s' is not allowed", info->name, value);
}

l3a_status l3a_options_set(l3a_context *context, l3a_options *options, const char *name, const char *value) {
    const struct setting *setting = find_setting(name);
    if (!setting) {
        const char *names[SETTINGS];
        for (size_t i = 0; i < SETTINGS; i++) {
            names[i] = settings[i].info.name;
        }
        const char *close = l3a_closest(name, names, SETTINGS);
        char hint[128] = "";
        if (close) {
            snprintf(hint, sizeof hint, "did you mean '%s'?", close);
        }
        return fail(context, L3A_ERROR_OPTION, hint, "there is no setting '%s'", name);
    }
    char *field = (char *)options + setting->offset;
    const l3a_option_info *info = &setting->info;
    uint64_t integer;
    double number;
    int choice;
    switch (info->type) {
    case L3A_OPTION_INTEGER:
        if (!integer_parse(value, strlen(value), &integer) || integer > (uint64_t)LARGEST || !in_range(info, (double)integer)) {
            return fail_value(context, info, value);
        }
        memcpy(field, &integer, sizeof integer);
        break;
    case L3A_OPTION_NUMBER:
        if (info->word && strcmp(value, info->word) == 0) {
            number = 0;
        } else if (!number_parse(value, strlen(value), &number) || !in_range(info, number)) {
            return fail_value(context, info, value);
        }
        memcpy(field, &number, sizeof number);
        break;
    case L3A_OPTION_CHOICE:
        choice = find_choice(info->choices, value);
        if (choice < 0) {
            return fail_value(context, info, value);
        }
        store_choice(field, choice);
        break;
    }
    options->given |= UINT64_C(1) << (setting - settings);
    return L3A_OK;
}

size_t l3a_options_get(const l3a_options *options, const char *name, char *text, size_t capacity) {
    const struct setting *setting = find_setting(name);
    if (!setting) {
        return 0;
    }
    const char *field = (const char *)options + setting->offset;
    char number[NUMBER_TEXT];
    uint64_t integer;
    double value;
    const char *choice;
    switch (setting->info.type) {
    case L3A_OPTION_INTEGER:
        memcpy(&integer, field, sizeof integer);
        return (size_t)snprintf(text, capacity, "%llu", (unsigned long long)integer);
    case L3A_OPTION_NUMBER:
        memcpy(&value, field, sizeof value);
        return (size_t)snprintf(text, capacity, "%s",
                                setting->info.word && value == 0 ? setting->info.word : number_format(value, number));
    case L3A_OPTION_CHOICE:
        choice = setting->info.choices;
        for (unsigned left = load_choice(field); left && *choice; left--) {
            choice += strcspn(choice, "|");
            choice += *choice == '|';
        }
        return (size_t)snprintf(text, capacity, "%.*s", (int)strcspn(choice, "|"), choice);
    }
    return 0;
}

void l3a_options_default(l3a_options *options) {
    l3a_context quiet = {0};
    memset(options, 0, sizeof *options);
    for (size_t i = 0; i < SETTINGS; i++) {
        l3a_options_set(&quiet, options, settings[i].info.name, settings[i].info.fallback);
    }
    options->given = 0;
}

const char *l3a_option_needs(const l3a_options *options, const char *name) {
    const struct {
        const char *name;
        bool used;
        const char *needs;
    } conditions[] = {
        {"eta", options->pseudo == L3A_PSEUDO_FIXED, "--pseudo fixed"},
        {"tau", options->pseudo == L3A_PSEUDO_DYNAMIC, "--pseudo dynamic"},
        {"total-classes", options->pseudo == L3A_PSEUDO_DYNAMIC, "--pseudo dynamic"},
        {"scaling", options->weights != L3A_WEIGHTS_NONE, "class weights (--weights)"},
        {"lift", keeps_phases(options), "phases kept apart (--alpha below 1, or --keep-phases)"},
        {"theta", options->thresholds == L3A_THRESHOLDS_FIXED, "--thresholds fixed"},
    };
    for (size_t i = 0; i < sizeof conditions / sizeof conditions[0]; i++) {
        if (strcmp(conditions[i].name, name) == 0 && !conditions[i].used) {
            return conditions[i].needs;
        }
    }
    return NULL;
}

bool option_is_given(const l3a_options *options, const char *name) {
    const struct setting *setting = find_setting(name);
    return setting && options->given >> (setting - settings) & 1;
}

l3a_status options_fit(l3a_context *context, const l3a_options *options) {
    l3a_status status = L3A_OK;
    FAIL_IF(options->alpha < 1 && options->pseudo != L3A_PSEUDO_OFF, context, L3A_ERROR_OPTION,
            "use pseudo off, or alpha 1; to change the alpha of l3a+, run it separately",
            "alpha below 1 replaces pseudo-labels, so the two cannot be combined");
    FAIL_IF(keeps_phases(options) && options->solver == L3A_SOLVER_RECURSIVE, context, L3A_ERROR_OPTION,
            "use solver sums, or alpha 1 and keep-phases 0",
            "the recursion has one inverse for all phases, so their sums cannot be kept apart");
    FAIL_IF(options->gamma == 0 && options->solver == L3A_SOLVER_RECURSIVE, context, L3A_ERROR_OPTION,
            "give a number for gamma, or use solver sums", "the recursion starts from gamma, so gamma cannot be chosen later");
done:
    return status;
}

/* A value is valid if it can be written as text and read back. */
l3a_status l3a_options_check(l3a_context *context, const l3a_options *options) {
    l3a_options copy = *options;
    for (size_t i = 0; i < SETTINGS; i++) {
        char text[64];
        l3a_options_get(options, settings[i].info.name, text, sizeof text);
        const l3a_status status = l3a_options_set(context, &copy, settings[i].info.name, text);
        if (status != L3A_OK) {
            return status;
        }
    }
    return L3A_OK;
}
