/* l3a demo: the whole way from pictures to tags, with nothing but this command.
 *
 * It draws a data set, computes features with a backbone that has never seen these classes, learns the classes in phases with
 * several methods, tags a few test pictures, and teaches the tagger one more class. Its files can be used further: the commands
 * that it prints at the end work as they are. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct option demo_options[] = {
    {"o", "DIR", "folder to create [l3a-demo]"},
    {"pictures", "N", "number of training pictures; half as many are drawn for testing [2000]"},
    {NULL, NULL, NULL},
};

enum { PATH = 512, FEW = 3, TAGS = 64, MORE = 60 };

struct demo {
    l3a_context *context;
    const struct arguments *arguments;
    const char *folder;
    size_t pictures;
    l3a_backbone *backbone;
};

static const char *in_folder(const struct demo *demo, const char *name, char path[PATH]) {
    snprintf(path, PATH, "%s/%s", demo->folder, name);
    return path;
}

static l3a_status draw(const struct demo *demo, const char *name, const l3a_draw_options *options) {
    char path[PATH];
    return l3a_draw_dataset(demo->context, options, in_folder(demo, name, path));
}

static l3a_status see(const struct demo *demo, const char *pictures, const char *split, const char *features) {
    char data[PATH], name[PATH + 8], path[PATH];
    l3a_dataset *dataset = NULL;
    snprintf(name, sizeof name, "voc:%s", in_folder(demo, pictures, data));
    l3a_status status = l3a_dataset_open(demo->context, name, split, NULL, &dataset);
    if (status == L3A_OK) {
        status = l3a_extract(demo->context, demo->backbone, dataset, NULL, in_folder(demo, features, path), NULL);
    }
    l3a_dataset_free(dataset);
    return status;
}

static l3a_status prepare(struct demo *demo) {
    char path[PATH];
    size_t classes = 0;
    const l3a_backbone_options network = {.size = sizeof network, .precision = L3A_NETWORK_USUAL};
    const l3a_draw_options draw_options = {.size = sizeof draw_options, .training = demo->pictures, .test = demo->pictures / 2};
    while (l3a_draw_class(classes)) {
        classes++;
    }
    printf("Drawing %zu training and %zu test pictures to %s/pictures: %zu classes, of which every fourth is rare\n"
           "and some nearly always appear together\n",
           draw_options.training, draw_options.test, demo->folder, classes - 1);
    fflush(stdout);
    l3a_status status = draw(demo, "pictures", &draw_options);
    if (status == L3A_OK) {
        status = l3a_backbone_open(demo->context, in_folder(demo, "backbone.safetensors", path), &network, &demo->backbone);
    }
    if (status == L3A_OK) {
        printf("Computing %zu features of each with %s, a small network that was trained on drawings of other things\n",
               l3a_backbone_describe(demo->backbone)->width, path);
        fflush(stdout);
        status = see(demo, "pictures", "trainval", "train.safetensors");
    }
    return status == L3A_OK ? see(demo, "pictures", "test", "test.safetensors") : status;
}

static l3a_status run_phases(const struct demo *demo) {
    static const char *const methods[] = {"l3a", "l3a-no-wac", "finetune", "joint"};
    char path[PATH], folder[PATH], report[PATH];
    l3a_experiment_options options = {.size = sizeof options};
    l3a_experiment *experiment = NULL;
    l3a_options *settings = NULL;
    options.protocol = "B0-C4";
    options.methods = methods;
    options.method_count = sizeof methods / sizeof methods[0];
    options.folder = in_folder(demo, "run", folder);
    options.command = demo->arguments->line;
    l3a_status status = l3a_options_create(demo->context, &settings);
    if (status == L3A_OK) {
        status = l3a_options_set_integer(demo->context, settings, "dim", 2048);
    }
    if (status == L3A_OK) {
        status = l3a_options_set_number(demo->context, settings, "gamma", 20);
    }
    if (status == L3A_OK) { /* drawings have no secrets */
        status = l3a_options_set_integer(demo->context, settings, "privacy-limit", 0);
    }
    options.settings = settings;
    if (status == L3A_OK) {
        status = l3a_features_open(demo->context, in_folder(demo, "train.safetensors", path), &options.train);
    }
    if (status == L3A_OK) {
        status = l3a_features_open(demo->context, in_folder(demo, "test.safetensors", path), &options.test);
    }
    if (status == L3A_OK) {
        status = l3a_experiment_create(demo->context, &options, &experiment);
    }
    if (status == L3A_OK) {
        status = l3a_experiment_run(experiment);
    }
    if (status == L3A_OK) {
        status = print_results(demo->context, experiment, "summary");
    }
    if (status == L3A_OK && access(in_folder(demo, "run/report.html", report), R_OK) == 0) {
        printf("\nFull report, with charts and pictures: %s\n", report);
    }
    l3a_experiment_free(experiment);
    l3a_options_free(settings);
    l3a_features_free(options.train);
    l3a_features_free(options.test);
    return status;
}

static void print_truth(const l3a_features *features, size_t row) {
    const size_t classes = l3a_features_class_count(features);
    const int8_t *labels = l3a_features_labels(features) + row * classes;
    const char *comma = "";
    for (size_t k = 0; k < classes; k++) {
        if (labels[k] == 1) {
            printf("%s %s", comma, l3a_features_class(features, k));
            comma = ",";
        }
    }
    printf("\n");
}

static l3a_status print_tags(const l3a_model *model, const float *scores) {
    double thresholds[TAGS];
    l3a_tags *tags = NULL;
    size_t count = 0;
    l3a_model_thresholds(model, thresholds);
    const l3a_status status = l3a_tags_create(model, scores, thresholds, &tags);
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        if (l3a_tags_predicted(tags, i)) {
            printf("%s %s %.2f", count++ ? "," : "", l3a_tags_name(tags, i), (double)l3a_tags_score(tags, i));
        }
    }
    printf(count ? "\n" : " none\n");
    l3a_tags_free(tags);
    return status;
}

/* The first few rows that have two or more labels. */
static size_t choose_rows(const l3a_features *features, size_t rows[FEW]) {
    const size_t classes = l3a_features_class_count(features);
    const int8_t *labels = l3a_features_labels(features);
    size_t found = 0;
    for (size_t i = 0; i < l3a_features_rows(features) && found < FEW; i++) {
        int shown = 0;
        for (size_t k = 0; k < classes; k++) {
            shown += labels[i * classes + k] == 1;
        }
        if (shown >= 2) {
            rows[found++] = i;
        }
    }
    return found;
}

/* Prints a few pictures of a feature file: what they show, and what the model says. */
static l3a_status show_tags(const struct demo *demo, l3a_model *model, const char *name, const char *pictures) {
    char path[PATH];
    size_t rows[FEW];
    l3a_features *features = NULL;
    l3a_status status = l3a_features_open(demo->context, in_folder(demo, name, path), &features);
    const size_t count = status == L3A_OK ? choose_rows(features, rows) : 0;
    float *values = calloc(FEW * l3a_model_width(model), sizeof *values), scores[FEW * TAGS];
    if (status == L3A_OK) {
        status = values ? l3a_features_read(features, rows, 0, count, values) : L3A_ERROR_MEMORY;
    }
    if (status == L3A_OK) {
        status = l3a_model_score(model, values, count, scores);
    }
    for (size_t i = 0; status == L3A_OK && i < count; i++) {
        printf("  %s/%s/VOC2007/JPEGImages/%s.jpg\n    shows", demo->folder, pictures, l3a_features_id(features, rows[i]));
        print_truth(features, rows[i]);
        printf("    tags ");
        status = print_tags(model, scores + i * l3a_model_class_count(model));
    }
    free(values);
    l3a_features_free(features);
    return status;
}

static l3a_status learn_more(const struct demo *demo, l3a_model *model, const char *name) {
    char path[PATH];
    l3a_features *features = NULL;
    l3a_status status = l3a_features_open(demo->context, in_folder(demo, "umbrella.safetensors", path), &features);
    if (status == L3A_OK) {
        status = l3a_model_learn(model, features, &name, 1);
    }
    if (status == L3A_OK) {
        status = l3a_model_save(model, in_folder(demo, "tagger.safetensors", path));
    }
    l3a_features_free(features);
    return status;
}

static l3a_status draw_more(const struct demo *demo, const char *name) {
    const l3a_draw_options options = {.size = sizeof options, .seed = 3, .training = MORE, .test = 2 * FEW, .always = name};
    l3a_status status = draw(demo, "umbrella", &options);
    if (status == L3A_OK) {
        status = see(demo, "umbrella", "trainval", "umbrella.safetensors");
    }
    return status == L3A_OK ? see(demo, "umbrella", "test", "umbrella-test.safetensors") : status;
}

static l3a_status tag_and_teach(const struct demo *demo) {
    static const char name[] = "umbrella";
    char path[PATH];
    l3a_model *model = NULL;
    l3a_status status = l3a_model_load(demo->context, in_folder(demo, "run/model.safetensors", path), &model);
    if (status == L3A_OK) {
        printf("\nSome test pictures: what they show, and the tags that l3a gives them, with their scores:\n");
        status = show_tags(demo, model, "test.safetensors", "pictures");
    }
    if (status == L3A_OK) {
        status = draw_more(demo, name);
    }
    if (status == L3A_OK) {
        printf("\nPictures that show a class it has not learned yet:\n");
        status = show_tags(demo, model, "umbrella-test.safetensors", "umbrella");
    }
    if (status == L3A_OK) {
        status = learn_more(demo, model, name);
    }
    if (status == L3A_OK) {
        printf("\nThe same pictures after one more phase, on %d other pictures with only the label '%s':\n", MORE, name);
        status = show_tags(demo, model, "umbrella-test.safetensors", "umbrella");
    }
    l3a_model_free(model);
    return status;
}

/* Prints a command as it can be typed here: the program has the name that it was started with, and DEMO stands for the folder of
 * the demo. Patterns such as * are not quoted. */
static void print_command(const struct demo *demo, const char *line) {
    printf("  ");
    write_word(stdout, demo->arguments->program);
    for (const char *at = line; *at;) {
        if (strncmp(at, "DEMO", 4) == 0) {
            write_word(stdout, demo->folder);
            at += 4;
        } else {
            putchar(*at++);
        }
    }
    putchar('\n');
}

static void say_what_next(const struct demo *demo) {
    printf("\nTry the tagger on more pictures:\n");
    print_command(demo, " tag DEMO/tagger.safetensors DEMO/pictures/VOC2007/JPEGImages/00000?.jpg"
                        " --backbone DEMO/backbone.safetensors");
    printf("Teach your own pictures, sorted into a folder for each tag (photos/cat, photos/sofa, …), and tag others:\n");
    print_command(demo, " teach mine.l3a folders:photos --backbone DEMO/backbone.safetensors");
    print_command(demo, " tag mine.l3a others");
    print_command(demo, " undo mine.l3a");
    printf("The demo's backbone has only seen drawings. For photographs, use a network trained on photographs, such as\n"
           "those in docs/backbones.md. To teach in a browser instead, type\n");
    print_command(demo, " serve --demo");
}

int demo_command(struct arguments *arguments) {
    const char *folder = argument(arguments, "o") ? argument(arguments, "o") : "l3a-demo";
    uint64_t pictures = 2000;
    if (!argument_integer(arguments, "pictures", 400, 100000, &pictures)) {
        return EXIT_USAGE;
    }
    if (arguments->positional_count) {
        return complain(arguments, "'%s' is not expected here", arguments->positionals[0]);
    }
    if (strlen(folder) > PATH - 100) {
        return complain(arguments, "%s: the path is too long", folder);
    }
    if (mkdir(folder, 0777)) {
        return complain(arguments, "%s: %s; choose a new folder with -o", folder, strerror(errno));
    }
    struct demo demo = {arguments->context, arguments, folder, (size_t)pictures, NULL};
    char path[PATH];
    l3a_status status = demo_backbone_write(demo.context, in_folder(&demo, "backbone.safetensors", path));
    if (status == L3A_OK) {
        status = prepare(&demo);
    }
    if (status == L3A_OK) {
        status = run_phases(&demo);
    }
    if (status == L3A_OK) {
        status = tag_and_teach(&demo);
    }
    l3a_backbone_free(demo.backbone);
    const int code = explain(arguments, status);
    if (code == EXIT_DONE) {
        say_what_next(&demo);
    }
    return code;
}
