/* What a program built with this version of the header does with a later version of the library: everything, with the same results.
 * Each struct ends where the memory ends, so that a library that reads or writes more than its size is killed.
 *
 *   abi_program BACKBONE RUN FOLDER    (a checkpoint, the folder of a run, a new folder) */
#include <l3a/l3a_experiment.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static l3a_context *context;

static void check(l3a_status status, const char *what) {
    if (status != L3A_OK) {
        printf("%s: %s: %s (%s)\n", what, l3a_status_name(status), l3a_error_text(context), l3a_error_hint(context));
        exit(1);
    }
}

#define CHECK(call) check(call, #call)

/* A struct with only its size set, right before memory that does not exist. */
static void *guarded(size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (size > page || pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE)) {
        exit(2);
    }
    memcpy(pages + page - size, &size, sizeof size);
    return pages + page - size;
}

static const char *in_folder(const char *folder, const char *name) {
    char *path = malloc(strlen(folder) + strlen(name) + 2);
    sprintf(path, "%s/%s", folder, name);
    return path;
}

static int count_events(const l3a_event *event, void *user) {
    *(int *)user += event->kind == L3A_EVENT_PROGRESS && event->done <= event->total;
    return 0;
}

/* Every setting of this version still has its name and default, wherever it is in the table. */
static l3a_options *use_settings(void) {
    l3a_options *options = NULL, *copy = NULL;
    char text[32];
    CHECK(l3a_options_create(context, &options));
    for (size_t i = 0; l3a_option_at(i); i++) {
        const l3a_option_info *info = l3a_option_at(i);
        l3a_options_get(options, info->name, text, sizeof text);
        if (!strstr(info->name, "grown")) {
            printf("%s %s %s %s\n", info->name, text, info->group, info->help);
        }
    }
    CHECK(l3a_options_set_integer(context, options, "dim", 24));
    CHECK(l3a_options_set_number(context, options, "gamma", 0.5));
    CHECK(l3a_options_set(context, options, "solver", "sums"));
    CHECK(l3a_options_copy(context, options, &copy));
    l3a_options_get(copy, "solver", text, sizeof text);
    printf("dim %d gamma %g solver %s given %d %d\n", (int)l3a_options_integer(copy, "dim"), l3a_options_number(copy, "gamma"),
           text, l3a_options_given(copy, "dim"), l3a_options_given(copy, "eta"));
    l3a_options_free(copy);
    return options;
}

enum { ROWS = 40, WIDTH = 6, CLASSES = 3 };
static const char *const names[CLASSES] = {"one", "two", "three"};

static l3a_features *make_table(l3a_context *owner) {
    static float values[ROWS * WIDTH];
    static int8_t labels[ROWS * CLASSES];
    l3a_features *features = NULL;
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < WIDTH; j++) {
            values[i * WIDTH + j] = (float)(l3a_uniform(1, i * WIDTH + j) + (i % CLASSES == j));
        }
        for (size_t k = 0; k < CLASSES; k++) {
            labels[i * CLASSES + k] = i % CLASSES == k;
        }
    }
    CHECK(l3a_features_wrap(owner, values, labels, ROWS, 1, WIDTH, names, CLASSES, &features));
    return features;
}

static void use_model(const l3a_options *options) {
    double precisions[CLASSES], thresholds[CLASSES];
    l3a_features *features = make_table(context);
    l3a_model *model = NULL;
    l3a_metrics *metrics = guarded(sizeof *metrics);
    l3a_plan *plan = guarded(sizeof *plan);
    l3a_part_info *part = guarded(sizeof *part);
    uint64_t images;
    CHECK(l3a_model_plan(context, options, WIDTH, CLASSES, plan));
    printf("plan %.0f %.0f\n", plan->row_flops, plan->solve_flops);
    CHECK(l3a_model_create(context, WIDTH, options, &model));
    CHECK(l3a_model_prepare(model, features, names, 2, &images, plan));
    CHECK(l3a_model_learn(model, features, names, 2));
    CHECK(l3a_model_learn(model, features, names + 2, 1));
    CHECK(l3a_model_evaluate(model, features, NULL, metrics, precisions));
    l3a_model_thresholds(model, thresholds);
    const l3a_phase_info *phase = l3a_model_phase(model, 1);
    printf("model %d images, phase of %d, mAP %.3f CF1 %.3f images %d, AP %.3f threshold %.4f\n", (int)images, (int)phase->images,
           metrics->mean_ap, metrics->class_f1, (int)metrics->images, precisions[2], thresholds[0]);
    CHECK(l3a_model_part(model, 0, part));
    printf("%d parts; the first: %d images of %d phase, %d classes, %d %d\n", (int)l3a_model_part_count(model), (int)part->images,
           (int)part->phases, (int)part->judged, l3a_model_part_judges(model, 0, 1), l3a_model_part_judges(model, 0, 2));
    l3a_model_free(model);
    l3a_features_free(features);
}

static int sum_of_one(void *values, size_t count, l3a_sum_type type, void *user) {
    *(int *)user += values && count && (type == L3A_SUM_FLOAT64 || type == L3A_SUM_UINT64);
    return 0;
}

/* A process that learns together with no other. */
static void use_processes(const l3a_options *settings) {
    l3a_context_options *options = guarded(sizeof *options);
    l3a_context *own = NULL;
    l3a_model *model = NULL;
    int sums = 0;
    options->threads = 1;
    options->sum = sum_of_one;
    options->sum_user = &sums;
    options->processes = 1;
    CHECK(l3a_context_create(options, &own));
    l3a_features *features = make_table(own);
    CHECK(l3a_model_create(own, WIDTH, settings, &model));
    CHECK(l3a_model_learn(model, features, names, CLASSES));
    printf("%s, coefficient %.4f\n", sums ? "sums" : "no sums", l3a_model_coefficients(model)[1]);
    l3a_model_free(model);
    l3a_features_free(features);
    l3a_context_free(own);
}

static void use_experiment(const l3a_options *settings) {
    static const char *const values[] = {"0.5", "5"};
    const l3a_axis axis = {"gamma", values, 2};
    l3a_experiment_options *options = guarded(sizeof *options);
    l3a_workload *plan = guarded(sizeof *plan);
    l3a_protocol_phase *phase = guarded(sizeof *phase);
    l3a_experiment *experiment = NULL;
    options->train = options->test = make_table(context);
    options->protocol = "B0-C2";
    options->settings = settings;
    options->axes = &axis;
    options->axis_count = 1;
    CHECK(l3a_experiment_create(context, options, &experiment));
    CHECK(l3a_experiment_plan(experiment, plan));
    CHECK(l3a_experiment_phase(experiment, 1, phase));
    CHECK(l3a_experiment_run(experiment));
    printf("%d points, %d phases, %d passes, phase of %d images\n", (int)plan->points, (int)plan->phases, (int)plan->passes,
           (int)phase->train_images);
    for (size_t i = 0; i < l3a_experiment_points(experiment); i++) {
        const l3a_result *last = l3a_results_at(l3a_experiment_results(experiment, i), 1);
        printf("%s %s: mAP %.4f\n", l3a_experiment_label(experiment, i), l3a_experiment_value(experiment, i, 0),
               last->metrics.mean_ap);
    }
    l3a_experiment_free(experiment);
    l3a_features_free(options->train);
}

/* Learns from a table, and tags a picture. */
static void use_tagger(const char *folder, const char *table, const char *checkpoint, const char *picture,
                       const l3a_picture_options *decoding) {
    l3a_tagger_options *options = guarded(sizeof *options);
    l3a_backbone_options *opening = guarded(sizeof *opening);
    l3a_features *features = NULL;
    l3a_model *model = NULL;
    l3a_options *settings = NULL;
    l3a_tagger *tagger = NULL;
    l3a_reader *reader = NULL;
    l3a_tags *tags = NULL;
    const char *path = in_folder(folder, "model.safetensors"), *class = NULL;
    CHECK(l3a_features_open(context, table, &features));
    for (size_t k = 0; !class && k < l3a_features_class_count(features); k++) {
        class = l3a_features_labels(features)[k] == 1 ? l3a_features_class(features, k) : NULL; /* of the first picture */
    }
    CHECK(l3a_options_create(context, &settings));
    CHECK(l3a_options_set_integer(context, settings, "dim", 16));
    CHECK(l3a_model_create(context, l3a_features_width(features), settings, &model));
    CHECK(l3a_model_learn(model, features, &class, 1));
    CHECK(l3a_model_save(model, path));
    options->backbone = checkpoint;
    options->backbone_options = opening;
    options->picture_options = decoding;
    options->batch = 1;
    CHECK(l3a_tagger_open(context, path, options, &tagger));
    CHECK(l3a_reader_create(tagger, &reader));
    CHECK(l3a_reader_tag_file(reader, picture, &tags));
    printf("%s %.4f above %.4f\n", l3a_tags_name(tags, 0), (double)l3a_tags_score(tags, 0), l3a_tags_threshold(tags, 0));
    l3a_tags_free(tags);
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
    l3a_options_free(settings);
    l3a_model_free(model);
    l3a_features_free(features);
}

static void use_pictures(const char *folder, const char *checkpoint) {
    l3a_draw_options *drawing = guarded(sizeof *drawing);
    l3a_dataset_options *reading = guarded(sizeof *reading);
    l3a_picture_options *decoding = guarded(sizeof *decoding);
    l3a_picture *picture = guarded(sizeof *picture), *small = guarded(sizeof *small);
    l3a_loader_options *loading = guarded(sizeof *loading);
    l3a_backbone_options *opening = guarded(sizeof *opening);
    l3a_extract_options *extracting = guarded(sizeof *extracting);
    l3a_extract_report *report = guarded(sizeof *report);
    l3a_tensor_info *tensor = guarded(sizeof *tensor);
    l3a_dataset *dataset = NULL;
    l3a_loader *loader = NULL;
    l3a_backbone *backbone = NULL;
    l3a_file *file = NULL;
    const char *pictures = in_folder(folder, "pictures"), *table = in_folder(folder, "table.safetensors");
    char name[512];
    size_t index;
    drawing->training = 3;
    drawing->test = 1;
    CHECK(l3a_draw_dataset(context, drawing, pictures));
    snprintf(name, sizeof name, "voc:%s", pictures);
    reading->ignore_difficult = 1;
    CHECK(l3a_dataset_open(context, name, "trainval", reading, &dataset));
    decoding->orient = 1;
    const char *path = l3a_dataset_path(dataset, 0);
    CHECK(l3a_picture_read(context, path, decoding, picture));
    CHECK(l3a_picture_resize(context, picture, 8, 8, L3A_FILTER_BICUBIC, small));
    printf("picture %d x %d, %d %d\n", (int)picture->width, (int)picture->height, picture->pixels[5], small->pixels[5]);
    l3a_picture_free(context, picture);
    l3a_picture_free(context, small);
    loading->width = loading->height = 4;
    loading->picture = decoding;
    float planes[3 * 4 * 4];
    CHECK(l3a_loader_create(context, &path, 1, loading, &loader));
    CHECK(l3a_loader_next(loader, &index, planes));
    printf("loaded %.4f %.4f\n", (double)planes[0], (double)planes[47]);
    opening->side = 0;
    CHECK(l3a_backbone_open(context, checkpoint, opening, &backbone));
    const l3a_backbone_info *info = l3a_backbone_describe(backbone);
    extracting->half = 1;
    extracting->picture = decoding;
    CHECK(l3a_extract(context, backbone, dataset, extracting, table, report));
    CHECK(l3a_file_open(context, table, &file));
    const int found = l3a_file_tensor(file, 0, tensor);
    printf("%s %s: %d rows, %d bad; %d %s %s\n", info->name, info->pool, (int)report->rows, (int)report->bad, found,
           found ? tensor->name : "", found ? tensor->type : "");
    use_tagger(folder, table, checkpoint, path, decoding);
    l3a_file_free(file);
    l3a_backbone_free(backbone);
    l3a_loader_free(loader);
    l3a_dataset_free(dataset);
}

static void use_results(const char *run, const char *folder) {
    l3a_summary *summary = guarded(sizeof *summary);
    l3a_report_options *reporting = guarded(sizeof *reporting);
    l3a_results *results = NULL;
    CHECK(l3a_results_load(context, run, &results));
    for (size_t i = 0; i < l3a_results_count(results); i++) {
        const l3a_result *row = l3a_results_at(results, i);
        const l3a_class_tally *tally = l3a_results_tally(results, i, row->last - 1);
        printf("%s phase %d: %d images, mAP %.4f CF1 %.4f, %d images of the last class\n", row->method, (int)row->phase,
               (int)row->train_images, row->metrics.mean_ap, row->metrics.class_f1, (int)tally->images);
    }
    CHECK(l3a_results_summary(context, results, l3a_results_at(results, 0)->method, summary));
    printf("average %.4f last %.4f seeds %d\n", summary->average_map[0], summary->last_map[0], (int)summary->seeds);
    reporting->title = "a title";
    CHECK(l3a_report_write(context, &run, 1, reporting, in_folder(folder, "report.html")));
    l3a_results_free(results);
}

int main(int count, char **arguments) {
    l3a_context_options *options = guarded(sizeof *options);
    l3a_machine *machine = guarded(sizeof *machine);
    int events = 0;
    if (count != 4) {
        return 2;
    }
    options->threads = 1;
    options->on_event = count_events;
    options->event_user = &events;
    CHECK(l3a_context_create(options, &context));
    CHECK(l3a_machine_query(context, machine));
    printf("threads %d of %d\n", machine->threads, l3a_context_threads(context));
    l3a_options *settings = use_settings();
    use_processes(settings);
    use_experiment(settings);
    CHECK(l3a_options_set_integer(context, settings, "keep-phases", 2));
    use_model(settings);
    use_pictures(arguments[3], arguments[1]);
    use_results(arguments[2], arguments[3]);
    for (size_t i = 0; l3a_method_at(i); i++) {
        printf("%s %d\n", l3a_method_at(i)->name, l3a_method_at(i)->runs);
    }
    for (size_t i = 0; l3a_preset_at(i); i++) {
        printf("%s %s\n", l3a_preset_at(i)->name, l3a_preset_at(i)->methods);
    }
    printf("%s\n", events ? "events" : "no events");
    l3a_options_free(settings);
    l3a_context_free(context);
    return 0;
}
