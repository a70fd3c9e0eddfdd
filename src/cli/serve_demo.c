/* What `l3a serve --demo` shows: a model that was taught drawings of 18 things, and a folder of others, of which every second shows
 * an umbrella, which the model does not know. Six more things are drawn too rarely to be taught. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAUGHT = 480, SHOWN = 40, CLASSES = 64, ENOUGH = 20, PATH = 4096 };

struct served_demo {
    const struct arguments *arguments;
    l3a_context *context;
    char folder[PATH - 256];
};

static const char *in_folder(const struct served_demo *demo, const char *name, char path[PATH]) {
    snprintf(path, PATH, "%s/%s", demo->folder, name);
    return path;
}

static size_t count_shown(const l3a_dataset *dataset, size_t class_index) {
    const size_t classes = l3a_dataset_class_count(dataset);
    size_t shown = 0;
    for (size_t i = 0; i < l3a_dataset_rows(dataset); i++) {
        shown += l3a_dataset_labels(dataset)[i * classes + class_index] == 1;
    }
    return shown;
}

/* Adds each picture of a data set, with what it shows of the classes that have enough pictures. */
static l3a_status fill_lesson(const struct served_demo *demo, const char *name, l3a_lesson *lesson) {
    char data[PATH], path[PATH + 8];
    l3a_dataset *dataset = NULL;
    snprintf(path, sizeof path, "voc:%s", in_folder(demo, name, data));
    l3a_status status = l3a_dataset_open(demo->context, path, "trainval", NULL, &dataset);
    const size_t classes = l3a_dataset_class_count(dataset);
    size_t shown[CLASSES] = {0};
    for (size_t k = 0; status == L3A_OK && k < classes && k < CLASSES; k++) {
        shown[k] = count_shown(dataset, k);
    }
    for (size_t i = 0; status == L3A_OK && i < l3a_dataset_rows(dataset); i++) {
        const char *tags[CLASSES];
        l3a_judgement judgement = {.size = sizeof judgement, .tags = tags};
        for (size_t k = 0; k < classes && k < CLASSES; k++) {
            if (l3a_dataset_labels(dataset)[i * classes + k] == 1 && shown[k] >= ENOUGH) {
                tags[judgement.tag_count++] = l3a_dataset_class(dataset, k);
            }
        }
        status = l3a_lesson_add(lesson, l3a_dataset_path(dataset, i), &judgement);
    }
    l3a_dataset_free(dataset);
    return status;
}

static l3a_status make_tagger(const struct served_demo *demo) {
    char model[PATH], backbone[PATH];
    const l3a_backbone_options network = {.size = sizeof network, .precision = L3A_NETWORK_USUAL};
    const l3a_tagger_options options = {
        .size = sizeof options, .backbone = in_folder(demo, "backbone.safetensors", backbone), .backbone_options = &network};
    l3a_tagger *tagger = NULL;
    l3a_lesson *lesson = NULL;
    l3a_options *settings = NULL;
    l3a_status status = l3a_options_create(demo->context, &settings);
    if (status == L3A_OK) {
        status = l3a_lesson_settings(demo->context, settings);
    }
    if (status == L3A_OK) {
        status = l3a_tagger_create(demo->context, in_folder(demo, "tagger.l3a", model), settings, &options, &tagger);
    }
    if (status == L3A_OK) {
        status = l3a_lesson_create(demo->context, &lesson);
    }
    if (status == L3A_OK) {
        status = fill_lesson(demo, "taught", lesson);
    }
    if (status == L3A_OK) {
        status = l3a_tagger_teach(tagger, lesson, NULL, NULL);
    }
    if (status == L3A_OK) {
        status = l3a_tagger_save(tagger);
    }
    l3a_lesson_free(lesson);
    l3a_tagger_free(tagger);
    l3a_options_free(settings);
    return status;
}

/* Draws pictures and puts them into pictures/ under names that say nothing. Explains on stderr if it fails. */
static int draw_pictures(const struct served_demo *demo, const char *always, uint64_t seed, size_t first, size_t step) {
    char drawn[PATH], data[PATH + 8], to[PATH], name[32];
    const l3a_draw_options options = {.size = sizeof options, .seed = seed, .training = SHOWN, .test = 1, .always = always};
    l3a_status status = l3a_draw_dataset(demo->context, &options, in_folder(demo, always ? "drawn-umbrella" : "drawn", drawn));
    l3a_dataset *dataset = NULL;
    snprintf(data, sizeof data, "voc:%s", drawn);
    if (status == L3A_OK) {
        status = l3a_dataset_open(demo->context, data, "trainval", NULL, &dataset);
    }
    int code = explain(demo->arguments, status);
    for (size_t i = 0; code == EXIT_DONE && i < l3a_dataset_rows(dataset); i++) {
        snprintf(name, sizeof name, "pictures/%03zu.jpg", first + i * step);
        if (rename(l3a_dataset_path(dataset, i), in_folder(demo, name, to))) {
            code = complain(demo->arguments, "%s: %s", to, strerror(errno));
        }
    }
    l3a_dataset_free(dataset);
    return code;
}

static int make(const struct served_demo *demo) {
    char path[PATH];
    const l3a_draw_options taught = {.size = sizeof taught, .seed = 5, .training = TAUGHT, .test = 1};
    if (mkdir(demo->folder, 0777) || mkdir(in_folder(demo, "pictures", path), 0777)) {
        return complain(demo->arguments, "%s: %s; choose a new folder", demo->folder, strerror(errno));
    }
    if (!demo->arguments->quiet) {
        fprintf(stderr, "drawing pictures to %s, and teaching a model %d of them; this takes a moment\n", demo->folder, TAUGHT);
    }
    int code = explain(demo->arguments, demo_backbone_write(demo->context, in_folder(demo, "backbone.safetensors", path)));
    if (code == EXIT_DONE) {
        code = draw_pictures(demo, NULL, 7, 1, 2);
    }
    if (code == EXIT_DONE) {
        code = draw_pictures(demo, "umbrella", 9, 2, 2);
    }
    if (code == EXIT_DONE) {
        code = explain(demo->arguments, l3a_draw_dataset(demo->context, &taught, in_folder(demo, "taught", path)));
    }
    return code == EXIT_DONE ? explain(demo->arguments, make_tagger(demo)) : code;
}

int make_served_demo(const struct arguments *arguments, const char *folder) {
    struct served_demo demo = {arguments, arguments->context, ""};
    char path[PATH];
    if (strlen(folder) >= sizeof demo.folder) {
        return complain(arguments, "%s: the path is too long", folder);
    }
    strcpy(demo.folder, folder);
    return access(in_folder(&demo, "tagger.l3a", path), F_OK) == 0 ? EXIT_DONE : make(&demo);
}
