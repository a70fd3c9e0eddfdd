/* Teaches a model two classes, then two more, and tags an image.
 *
 *   cc learn_and_tag.c $(pkg-config --cflags --libs l3a) */
#include <l3a/l3a.h>

#include <stdio.h>
#include <stdlib.h>

enum { IMAGES = 8, WIDTH = 4, CLASSES = 4 };

static const char *const names[CLASSES] = {"cat", "dog", "tree", "car"};

/* One row per image. Real features come from a backbone; here each class simply has its own column. */
static const float features[IMAGES][WIDTH] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {1, 1, 0, 0}, {1, 0, 1, 0},
                                              {0, 0, 1, 0}, {0, 0, 0, 1}, {0, 1, 0, 1}, {0, 0, 1, 1}};
static const int8_t labels[IMAGES][CLASSES] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {1, 1, 0, 0}, {1, 0, 1, 0},
                                               {0, 0, 1, 0}, {0, 0, 0, 1}, {0, 1, 0, 1}, {0, 0, 1, 1}};

static void check(const l3a_context *context, l3a_status status) {
    if (status != L3A_OK) {
        fprintf(stderr, "error: %s\nhint: %s\n", l3a_error_text(context), l3a_error_hint(context));
        exit(1);
    }
}

int main(int count, char **arguments) {
    const char *path = count > 1 ? arguments[1] : "tags.safetensors";
    l3a_context *context = NULL;
    l3a_features *table = NULL;
    l3a_model *model = NULL, *loaded = NULL;
    l3a_options *options = NULL;
    float scores[CLASSES];
    double thresholds[CLASSES];

    check(NULL, l3a_context_create(NULL, &context));
    check(context, l3a_features_wrap(context, features[0], labels[0], IMAGES, WIDTH, names, CLASSES, &table));
    check(context, l3a_options_create(context, &options));
    check(context, l3a_options_set_integer(context, options, "dim", 64));
    check(context, l3a_options_set_number(context, options, "gamma", 0.01));
    check(context, l3a_model_create(context, WIDTH, options, &model));
    check(context, l3a_model_learn(model, table, names, 2));     /* cat, dog */
    check(context, l3a_model_learn(model, table, names + 2, 2)); /* tree, car; the labels of cat and dog are not used again */
    check(context, l3a_model_save(model, path));

    check(context, l3a_model_load(context, path, &loaded));
    check(context, l3a_model_score(loaded, features[3], 1, scores));
    l3a_model_thresholds(loaded, thresholds);
    for (size_t i = 0; i < l3a_model_class_count(loaded); i++) {
        if ((double)scores[i] > thresholds[i]) {
            printf("%s %.2f\n", l3a_model_class(loaded, i), (double)scores[i]);
        }
    }

    l3a_model_free(loaded);
    l3a_model_free(model);
    l3a_features_free(table);
    l3a_options_free(options);
    l3a_context_free(context);
    return 0;
}
