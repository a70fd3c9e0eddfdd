/* l3a demo: features it makes itself, phases, a table; then one more class, taught and found again.
 *
 * A picture's features are the sum of its classes' directions, each of its own strength, bent by a tanh, in noise. Every third
 * class is rare, and some classes nearly always come together: what the method's weights and pseudo-labels are for. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const struct option demo_options[] = {
    {"o", "DIR", "where to put it [l3a-demo]"},
    {NULL, NULL, NULL},
};

enum { CLASSES = 20, WIDTH = 96, TRAIN = 4000, TEST = 1500, FRESH = 120, SHOWN = 3, DIM = 2048 };

static const char *const names[CLASSES + 1] = {"anchor", "bell",   "boat",  "bridge", "candle",  "cup",    "drum",
                                               "fern",   "flag",   "hat",   "kettle", "lantern", "mirror", "net",
                                               "oar",    "pillow", "plate", "rope",   "spoon",   "tent",   "umbrella"};
static const struct {
    size_t leader, follower;
} pairs[] = {{2, 14}, {5, 16}, {3, 7}}; /* boat and oar, cup and plate, bridge and fern */

/* Numbers one after another from the stream of a seed. */
struct stream {
    uint64_t seed, next;
};

static double draw(struct stream *stream) {
    return l3a_uniform(stream->seed, stream->next++);
}

static double draw_normal(struct stream *stream) {
    const double radius = sqrt(-2 * log(1 - draw(stream)));
    return radius * cos(6.283185307179586 * draw(stream));
}

static bool is_rare(size_t class_index) {
    return class_index % 3 == 1;
}

static void draw_labels(struct stream *stream, int8_t labels[CLASSES + 1]) {
    memset(labels, 0, CLASSES + 1);
    for (size_t wanted = 1 + (size_t)(3 * draw(stream)); wanted;) {
        const size_t k = (size_t)(CLASSES * draw(stream));
        if (!is_rare(k) || draw(stream) < 0.06) {
            labels[k] = 1;
            wanted--;
        }
    }
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (labels[pairs[i].leader] && draw(stream) < 0.85) {
            labels[pairs[i].follower] = 1;
        }
    }
}

static void draw_features(struct stream *stream, const int8_t labels[CLASSES + 1], const double *directions, float *features) {
    double sum[WIDTH] = {0};
    for (size_t k = 0; k <= CLASSES; k++) {
        const double strength = labels[k] ? 0.6 + 0.8 * draw(stream) : 0;
        for (size_t j = 0; labels[k] && j < WIDTH; j++) {
            sum[j] += strength * directions[k * WIDTH + j];
        }
    }
    for (size_t j = 0; j < WIDTH; j++) {
        features[j] = (float)(4 * tanh(sum[j] + 0.75 * draw_normal(stream)));
    }
}

struct table {
    size_t rows, classes;
    float *features;
    int8_t *labels;
};

/* with_new: every row shows the further class, and only that one is labelled. */
static bool make_table(struct table *table, size_t rows, uint64_t seed, bool with_new) {
    struct stream stream = {seed, 0}, world = {7, 0};
    double *directions = calloc((CLASSES + 1) * WIDTH, sizeof *directions);
    *table = (struct table){rows, with_new ? 1 : CLASSES, calloc(rows * WIDTH, sizeof(float)), calloc(rows * (CLASSES + 1), 1)};
    if (!directions || !table->features || !table->labels) {
        free(directions);
        return false;
    }
    for (size_t i = 0; i < (CLASSES + 1) * WIDTH; i++) {
        directions[i] = 0.5 * draw_normal(&world);
    }
    for (size_t i = 0; i < rows; i++) {
        int8_t labels[CLASSES + 1];
        draw_labels(&stream, labels);
        labels[CLASSES] = with_new;
        draw_features(&stream, labels, directions, table->features + i * WIDTH);
        memcpy(table->labels + i * table->classes, with_new ? labels + CLASSES : labels, table->classes);
    }
    free(directions);
    return true;
}

static l3a_status save_table(l3a_context *context, size_t rows, uint64_t seed, bool with_new, const char *path) {
    struct table table;
    l3a_features *features = NULL;
    l3a_status status = L3A_ERROR_MEMORY;
    if (make_table(&table, rows, seed, with_new)) {
        status = l3a_features_wrap(context, table.features, table.labels, rows, WIDTH, with_new ? names + CLASSES : names,
                                   table.classes, &features);
    }
    if (status == L3A_OK) {
        status = l3a_features_set_record(features, "backbone", "l3a demo");
    }
    if (status == L3A_OK) {
        status = l3a_features_save(features, path);
    }
    l3a_features_free(features);
    free(table.features);
    free(table.labels);
    return status;
}

/* Where the further class stands among the classes of each of the first rows. */
static l3a_status show_tags(l3a_model *model, l3a_features *fresh) {
    float values[SHOWN * WIDTH], scores[SHOWN * (CLASSES + 1)];
    const size_t classes = l3a_model_class_count(model);
    l3a_status status = l3a_features_read(fresh, NULL, 0, SHOWN, values);
    if (status == L3A_OK) {
        status = l3a_model_score(model, values, SHOWN, scores);
    }
    for (size_t i = 0; status == L3A_OK && i < SHOWN; i++) {
        size_t best[2] = {0, 1};
        for (size_t k = 0; k < classes; k++) {
            if (scores[i * classes + k] > scores[i * classes + best[0]]) {
                best[1] = best[0];
                best[0] = k;
            } else if (k != best[0] && scores[i * classes + k] > scores[i * classes + best[1]]) {
                best[1] = k;
            }
        }
        printf("  row %zu: %s, %s\n", i, l3a_model_class(model, best[0]), l3a_model_class(model, best[1]));
    }
    return status;
}

static l3a_status teach_one_more(l3a_context *context, const char *model_path, const char *fresh_path) {
    l3a_model *model = NULL;
    l3a_features *fresh = NULL;
    l3a_status status = l3a_model_load(context, model_path, &model);
    if (status == L3A_OK) {
        status = l3a_features_open(context, fresh_path, &fresh);
    }
    if (status == L3A_OK) {
        printf("\nThree rows that show an %s, which the model does not know; its two best tags:\n", names[CLASSES]);
        status = show_tags(model, fresh);
    }
    if (status == L3A_OK) {
        status = l3a_model_learn(model, fresh, names + CLASSES, 1);
    }
    if (status == L3A_OK) {
        status = l3a_model_save(model, model_path);
    }
    if (status == L3A_OK) {
        printf("After one more phase with %d rows:\n", FRESH);
        status = show_tags(model, fresh);
    }
    l3a_model_free(model);
    l3a_features_free(fresh);
    return status;
}

struct paths {
    char train[512], test[512], fresh[512], run[512], model[512];
};

static l3a_status run_phases(struct arguments *arguments, const struct paths *paths) {
    static const char *const methods[] = {"l3a", "l3a-no-wac", "joint"};
    l3a_run_options options;
    l3a_results *results = NULL;
    l3a_run_options_default(&options);
    options.protocol = "B0-C4";
    options.methods = methods;
    options.method_count = sizeof methods / sizeof methods[0];
    options.folder = paths->run;
    options.command = arguments->line;
    options.settings.dim = DIM;
    options.settings.gamma = 100;
    l3a_status status = l3a_features_open(arguments->context, paths->train, &options.train);
    if (status == L3A_OK) {
        status = l3a_features_open(arguments->context, paths->test, &options.test);
    }
    if (status == L3A_OK) {
        status = l3a_run(arguments->context, &options, &results);
    }
    if (status == L3A_OK) {
        status = print_results(arguments->context, results, "table");
    }
    l3a_results_free(results);
    l3a_features_free(options.train);
    l3a_features_free(options.test);
    return status;
}

int demo_command(struct arguments *arguments) {
    const char *folder = argument(arguments, "o") ? argument(arguments, "o") : "l3a-demo";
    struct paths paths;
    if (strlen(folder) > 400) {
        return complain(arguments, "%s: the path is too long", folder);
    }
    if (mkdir(folder, 0777)) {
        return complain(arguments, "%s: %s; choose a new folder with -o", folder, strerror(errno));
    }
    snprintf(paths.train, sizeof paths.train, "%s/train.safetensors", folder);
    snprintf(paths.test, sizeof paths.test, "%s/test.safetensors", folder);
    snprintf(paths.fresh, sizeof paths.fresh, "%s/umbrella.safetensors", folder);
    snprintf(paths.run, sizeof paths.run, "%s/run", folder);
    snprintf(paths.model, sizeof paths.model, "%s/run/model.safetensors", folder);
    printf("%d training and %d test rows of made-up features, %d classes, some rare, some that come together\n\n", TRAIN, TEST,
           CLASSES);
    l3a_status status = save_table(arguments->context, TRAIN, 1, false, paths.train);
    if (status == L3A_OK) {
        status = save_table(arguments->context, TEST, 2, false, paths.test);
    }
    if (status == L3A_OK) {
        status = save_table(arguments->context, FRESH, 3, true, paths.fresh);
    }
    if (status == L3A_OK) {
        status = run_phases(arguments, &paths);
    }
    if (status == L3A_OK) {
        status = teach_one_more(arguments->context, paths.model, paths.fresh);
    }
    if (status == L3A_OK) {
        printf("\nNext, with your own features (a safetensors file, or NumPy arrays):\n"
               "  l3a run --train train.npy --train-labels y.npy --test test.npy --test-labels yt.npy --names classes.txt \\\n"
               "          --protocol B0-C4 -o my-run\n"
               "  l3a predict my-run/model.safetensors --features test.npy --top 3\n");
    }
    return explain(arguments, status);
}
