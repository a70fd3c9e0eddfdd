/* The settings of the methods that experiments compare, and all settings together, as the public interface sees them. */
#include "method/options.h"

#include "base/memory.h"
#include "base/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define INTEGER(...) SETTING_INTEGER("comparison", struct method_options, __VA_ARGS__)
#define NUMBER(...) SETTING_NUMBER("comparison", struct method_options, __VA_ARGS__)
#define CHOICE(...) SETTING_CHOICE("comparison", struct method_options, __VA_ARGS__)

static const struct setting settings[] = {
    NUMBER(ratio, "ratio", 0, 1e6, 0, 0, "1", "dsal: share of the second stream in the score"),
    NUMBER(kernel_width, "kernel-width", 0, 1e6, 1, 0, "0.5", "gkeal: width of a kernel, in typical distances between two images"),
    NUMBER(shrinkage, "shrinkage", 0, 1, 1, 0, "1e-4", "slda: share of the identity in the covariance"),
    CHOICE(loss, "loss", "asl|bce", "asl", "trained heads: asymmetric loss, or binary cross-entropy"),
    INTEGER(epochs, "epochs", 0, 1 << 20, "0", "trained heads: passes over a phase's images; 0: 20"),
    INTEGER(batch, "batch", 0, 1 << 20, "0", "trained heads: images per step; 0: 128"),
    NUMBER(first_rate, "first-rate", 0, 1e6, 0, 0, "0", "trained heads: highest rate in the first phase; 0: the tuned one"),
    NUMBER(rate, "rate", 0, 1e6, 0, 0, "0", "trained heads: highest rate in later phases; 0: the tuned one"),
    NUMBER(lambda, "lambda", 0, 1e12, 0, 0, "0", "trained heads: weight of distillation or penalty; 0: the tuned one"),
    INTEGER(memory, "memory", 0, 1 << 20, "0",
            "replay: images kept, per class or in all (memory-per); 0: 20 per class, or 1000 in all"),
    CHOICE(memory_per, "memory-per", "method|class|run", "method",
           "replay: memory counts images per class of the run, or in all; method: in all for prs and ocdm, else per class"),
    CHOICE(head_input, "head-input", "features|layer", "features",
           "trained heads: on the features, or on the random layer (dim, seed, skip-features) that l3a learns on"),
    NUMBER(head_theta, "head-theta", 0, 1, 1, 1, "0.8", "trained heads: sigma(score) above which a class is predicted"),
    CHOICE(train_backbone, "train-backbone", "off|all|norms", "off",
           "trained heads: train the network below in every phase, all of it or its norms and biases (needs --data)"),
    NUMBER(backbone_rate, "backbone-rate", 0, 1e6, 0, 0, "0", "train-backbone: highest rate of the network; 0: that of the method"),
    INTEGER(krt_width, "krt-width", 0, 8192, "0", "krt: numbers in a token, a multiple of 8; 0: 768, and 384 for coco:"),
    CHOICE(krt_leak, "krt-leak", "off|on", "off",
           "krt-r: give kept images their labels of later phases, as the published program does"),
    CHOICE(csc_form, "csc-form", "paper|code", "paper",
           "csc: as published, or as its authors' program, which leaves what later phases add untrained"),
};

enum { SETTINGS = sizeof settings / sizeof settings[0] };
_Static_assert(SETTINGS <= 64, "a bit for each setting");

static const struct setting_table method_settings = {settings, SETTINGS, offsetof(struct method_options, given)};

/* All tables in order, and where in l3a_options the struct of each is. */
enum { TABLES = 2 };
static const struct setting_table *const tables[TABLES] = {&model_settings, &method_settings};
static const size_t places[TABLES] = {offsetof(l3a_options, model), offsetof(l3a_options, method)};

/* A setting, its table, and where in l3a_options the struct with its value is. */
struct found {
    const struct setting *setting; /* NULL: there is none of this name */
    const struct setting_table *table;
    size_t place;
};

static struct found find(const char *name) {
    struct found found = {NULL, NULL, 0};
    for (size_t i = 0; i < TABLES && name && !found.setting; i++) {
        found = (struct found){setting_find(tables[i], name), tables[i], places[i]};
    }
    return found;
}

const l3a_option_info *l3a_option_at(size_t index) {
    for (size_t i = 0; i < TABLES; i++) {
        if (index < tables[i]->count) {
            return &tables[i]->settings[index].info;
        }
        index -= tables[i]->count;
    }
    return NULL;
}

void options_default(l3a_options *options) {
    memset(options, 0, sizeof *options);
    for (size_t i = 0; i < TABLES; i++) {
        settings_default(tables[i], (char *)options + places[i]);
    }
}

l3a_status l3a_options_create(l3a_context *context, l3a_options **options) {
    l3a_status status = L3A_OK;
    l3a_options *made = NULL;
    NEED(context, context, options);
    TRY(allocate(context, 1, sizeof *made, &made));
    options_default(made);
    made->context = context;
    *options = made;
done:
    return status;
}

l3a_status l3a_options_copy(l3a_context *context, const l3a_options *options, l3a_options **copy) {
    l3a_status status = L3A_OK;
    l3a_options *made = NULL;
    NEED(context, context, options, copy);
    TRY(allocate(context, 1, sizeof *made, &made));
    *made = *options;
    made->context = context;
    *copy = made;
done:
    return status;
}

void l3a_options_free(l3a_options *options) {
    if (options) {
        release(options->context, options);
    }
}

l3a_status l3a_options_set(l3a_context *context, l3a_options *options, const char *name, const char *value) {
    const struct found found = find(name);
    l3a_status status = L3A_OK;
    NEED(context, context, options, name, value);
    TRY(found.setting ? setting_set(context, found.table, (char *)options + found.place, found.setting, value)
                      : fail_unknown_setting(context, tables, TABLES, "there is", name));
done:
    return status;
}

l3a_status l3a_options_set_number(l3a_context *context, l3a_options *options, const char *name, double value) {
    const struct found found = find(name);
    l3a_status status = L3A_OK;
    NEED(context, context, options, name);
    TRY(found.setting ? setting_set_number(context, found.table, (char *)options + found.place, found.setting, value)
                      : fail_unknown_setting(context, tables, TABLES, "there is", name));
done:
    return status;
}

l3a_status l3a_options_set_integer(l3a_context *context, l3a_options *options, const char *name, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return l3a_options_set(context, options, name, text);
}

size_t l3a_options_get(const l3a_options *options, const char *name, char *text, size_t capacity) {
    const struct found found = find(name);
    const bool possible = found.setting && options && (text || !capacity);
    return possible ? setting_get((const char *)options + found.place, found.setting, text, capacity) : 0;
}

double l3a_options_number(const l3a_options *options, const char *name) {
    const struct found found = find(name);
    return found.setting && options ? setting_number((const char *)options + found.place, found.setting) : 0;
}

uint64_t l3a_options_integer(const l3a_options *options, const char *name) {
    const struct found found = find(name);
    const bool whole = found.setting && found.setting->info.type == L3A_OPTION_INTEGER;
    return whole ? (uint64_t)l3a_options_number(options, name) : 0;
}

int l3a_options_given(const l3a_options *options, const char *name) {
    const struct found found = find(name);
    return found.setting && options && setting_is_given(found.table, (const char *)options + found.place, found.setting);
}

l3a_status l3a_options_check(l3a_context *context, const l3a_options *options) {
    l3a_status status = L3A_OK;
    NEED(context, context, options);
    for (size_t i = 0; i < TABLES; i++) {
        TRY(settings_check(context, tables[i], (const char *)options + places[i]));
    }
done:
    return status;
}
