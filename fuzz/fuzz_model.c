/* Model files: a model that loads can score, learn, merge, forget and be saved, and the saved file loads with the same classes and
 * phases. Models that are not small are only loaded, so that each input is fast. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 32, DIM = 64, CLASSES = 32, ROWS = 6 };

static l3a_features *make_table(l3a_context *context, size_t width, const char *const *classes, size_t count) {
    static float values[ROWS * WIDTH];
    static int8_t labels[ROWS * CLASSES];
    l3a_features *features = NULL;
    for (size_t i = 0; i < ROWS * width; i++) {
        values[i] = (float)(i * 7 % 11) / 11 - 0.4F;
    }
    for (size_t i = 0; i < ROWS * count; i++) {
        labels[i] = i * 5 % 3 == 0;
    }
    must(l3a_features_wrap(context, values, labels, ROWS, 1, width, classes, count, &features) == L3A_OK);
    return features;
}

static void score(l3a_model *model) {
    static const float rows[2 * WIDTH] = {1, -1, 0.5F};
    static float scores[2 * (CLASSES + 2)];
    l3a_model_score(model, rows, 2, scores);
}

static void save_and_load(l3a_context *context, l3a_model *model) {
    l3a_model *copy = NULL;
    if (l3a_model_save(model, "saved.safetensors") != L3A_OK) {
        return;
    }
    must(l3a_model_load(context, "saved.safetensors", &copy) == L3A_OK);
    must(l3a_model_class_count(copy) == l3a_model_class_count(model));
    must(l3a_model_phase_count(copy) == l3a_model_phase_count(model) && l3a_model_width(copy) == l3a_model_width(model));
    for (size_t i = 0; i < l3a_model_class_count(model); i++) {
        must(strcmp(l3a_model_class(copy, i), l3a_model_class(model, i)) == 0);
        must(l3a_model_class_images(copy, i) == l3a_model_class_images(model, i));
    }
    score(copy);
    l3a_model_free(copy);
}

static void learn(l3a_context *context, l3a_model *model) {
    static const char *const classes[2] = {"one more", "and another"};
    l3a_features *features = make_table(context, l3a_model_width(model), classes, 2);
    l3a_metrics metrics = {.size = sizeof metrics};
    double precisions[CLASSES + 2];
    if (l3a_model_learn(model, features, classes, 2) == L3A_OK) {
        score(model);
        l3a_model_evaluate(model, features, NULL, &metrics, precisions);
        save_and_load(context, model);
    }
    l3a_features_free(features);
}

/* The names belong to the model, and are invalid after any change to it. */
static size_t list_classes(const l3a_model *model, const char *classes[CLASSES + 2]) {
    const size_t count = l3a_model_class_count(model);
    for (size_t i = 0; i < count; i++) {
        classes[i] = l3a_model_class(model, i);
    }
    return count;
}

static void forget(l3a_context *context, l3a_model *model) {
    const char *classes[CLASSES + 2];
    uint64_t images;
    int exact;
    size_t count = list_classes(model, classes);
    if (count && count <= CLASSES) {
        l3a_features *features = make_table(context, l3a_model_width(model), classes, count);
        l3a_model_forget_images(model, features, &images, &exact);
        l3a_features_free(features);
    }
    count = list_classes(model, classes);
    if (count && l3a_model_forget_classes(model, classes, 1, &exact) == L3A_OK) {
        must(l3a_model_class_count(model) == count - 1);
        save_and_load(context, model);
    }
    if (l3a_model_forget_phase(model, 0, &exact) == L3A_OK) {
        save_and_load(context, model);
    }
}

static void use_model(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    l3a_model *model = NULL, *other = NULL;
    int exact;
    if (l3a_model_load(context, "model.safetensors", &model) == L3A_OK) {
        l3a_options *options = NULL;
        must(l3a_options_create(context, &options) == L3A_OK && l3a_model_options(model, options) == L3A_OK);
        must(l3a_options_check(context, options) == L3A_OK);
        const uint64_t dim = l3a_options_integer(options, "dim");
        l3a_options_free(options);
        if (l3a_model_width(model) <= WIDTH && dim <= DIM && l3a_model_class_count(model) <= CLASSES) {
            double thresholds[CLASSES + 2];
            l3a_model_thresholds(model, thresholds);
            score(model);
            save_and_load(context, model);
            must(l3a_model_load(context, "model.safetensors", &other) == L3A_OK);
            if (l3a_model_merge(other, model, &exact) == L3A_OK) {
                save_and_load(context, other);
            }
            learn(context, model);
            forget(context, model);
        }
    }
    l3a_model_free(other);
    l3a_model_free(model);
    l3a_context_free(context);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    with_repaired_header(bytes, count, use_model);
    return 0;
}
