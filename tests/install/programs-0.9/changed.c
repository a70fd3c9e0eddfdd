/* Calls what 0.10 changed, as 0.9 had it.   changed BACKBONE FOLDER: the folder is made */
#include <l3a/l3a.h>

#include <stdio.h>
#include <string.h>

#define MUST(call)                                                                                                                 \
    do {                                                                                                                           \
        if ((call) != L3A_OK) {                                                                                                    \
            fprintf(stderr, "%s: %s\n", #call, l3a_error_text(context));                                                           \
            return 1;                                                                                                              \
        }                                                                                                                          \
    } while (0)

enum { ROWS = 40, WIDTH = 3 };

static int learn(l3a_context *context, const char *path) {
    static const char *const names[] = {"even", "odd"};
    float values[ROWS * WIDTH];
    int8_t labels[ROWS * 2];
    size_t bounds[3], phases = 0;
    l3a_metrics metrics = {.size = sizeof metrics}, all = metrics;
    l3a_save_options half = {.size = sizeof half, .half = 1};
    l3a_evaluate_options options = {.size = sizeof options, .all_images = 1};
    l3a_features *features = NULL, *views = NULL;
    l3a_model *model = NULL;
    for (size_t i = 0; i < ROWS; i++) {
        labels[2 * i] = i % 2 == 0;
        labels[2 * i + 1] = i % 2 == 1;
        for (size_t j = 0; j < WIDTH; j++) {
            values[WIDTH * i + j] = (float)l3a_uniform(i, j) + (float)(j == i % 2);
        }
    }
    MUST(l3a_features_wrap(context, values, labels, ROWS, WIDTH, names, 2, &features));
    MUST(l3a_features_wrap_views(context, values, labels, ROWS, 1, WIDTH, names, 2, &views));
    MUST(l3a_features_save(features, path));
    MUST(l3a_features_save_with(views, &half, path));
    MUST(l3a_protocol_parse(context, "B0-C1", 2, bounds, &phases));
    MUST(l3a_model_create(context, WIDTH, NULL, &model));
    MUST(l3a_model_learn(model, features, names, 2));
    MUST(l3a_model_evaluate(model, features, &metrics, NULL));
    MUST(l3a_model_evaluate_with(model, features, &options, &all, NULL));
    printf("%zu phases, mAP %.2f and %.2f\n", phases, metrics.mean_ap, all.mean_ap);
    l3a_model_free(model);
    l3a_features_free(views);
    l3a_features_free(features);
    return 0;
}

static int read_pictures(l3a_context *context, const char *folder, l3a_lesson *lesson) {
    char name[512];
    const char *tags[] = {"first"};
    l3a_dataset *dataset = NULL, *same = NULL;
    l3a_draw_options draw = {.size = sizeof draw, .training = 48, .test = 24};
    l3a_dataset_options options = {.size = sizeof options};
    l3a_judgement judgement = {.size = sizeof judgement, .tags = tags, .tag_count = 1};
    MUST(l3a_draw_dataset(context, &draw, folder));
    snprintf(name, sizeof name, "voc:%s", folder);
    MUST(l3a_dataset_open(context, name, "trainval", &dataset));
    MUST(l3a_dataset_open_with(context, name, "trainval", &options, &same));
    for (size_t i = 0; i < 8; i++) {
        tags[0] = i % 2 ? "first" : "second";
        MUST(l3a_lesson_add(lesson, l3a_dataset_path(dataset, i), &judgement));
    }
    printf("%zu and %zu pictures\n", l3a_dataset_rows(dataset), l3a_dataset_rows(same));
    l3a_dataset_free(same);
    l3a_dataset_free(dataset);
    return 0;
}

static int teach(l3a_context *context, const char *backbone, const char *folder, const char *path) {
    double precision[2], recall[2];
    uint64_t shown[2], judged[2], confusions[4];
    l3a_tagger_options options = {.size = sizeof options, .backbone = backbone};
    l3a_options *settings = NULL;
    l3a_lesson *lesson = NULL;
    l3a_tagger *tagger = NULL;
    const l3a_history *history = NULL;
    MUST(l3a_options_create(context, &settings));
    MUST(l3a_lesson_settings(context, settings));
    MUST(l3a_lesson_create(context, &lesson));
    if (read_pictures(context, folder, lesson)) {
        return 1;
    }
    MUST(l3a_tagger_create(context, path, settings, &options, &tagger));
    MUST(l3a_tagger_teach(tagger, lesson, NULL, NULL));
    MUST(l3a_tagger_history(tagger, &history));
    MUST(l3a_history_expect(history, precision, recall, shown, judged));
    MUST(l3a_history_review(history, precision, recall, shown, judged, confusions));
    printf("shown %llu and %llu\n", (unsigned long long)shown[0], (unsigned long long)shown[1]);
    l3a_tagger_free(tagger);
    l3a_lesson_free(lesson);
    l3a_options_free(settings);
    return 0;
}

/* There is no such run. */
static int report(l3a_context *context) {
    const char *const folders[] = {"no-such-run"};
    size_t length = 0;
    return l3a_report_table(context, folders, 1, "markdown", NULL, 0, &length) != L3A_ERROR_NOT_FOUND;
}

int main(int count, char **arguments) {
    l3a_context *context = NULL;
    char table[512], model[512];
    if (count < 3 || l3a_context_create(NULL, &context) != L3A_OK) {
        return 2;
    }
    snprintf(table, sizeof table, "%s.features", arguments[2]);
    snprintf(model, sizeof model, "%s.l3a", arguments[2]);
    const int code = learn(context, table) || teach(context, arguments[1], arguments[2], model) || report(context);
    l3a_context_free(context);
    return code;
}
