/* Networks on a device, with the plug-in that makes one of the processor: which back end computes, in which numbers if nobody asks,
 * what is recorded, and what becomes of a device without room. */
#include "support.h"

#include "base/plugin.h"
#include "extract/intake.h"
#include "naive_network.h"
#include "net/backbone.h"
#include "small_networks.h"
#include "tag/tagger.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 64, ROWS = 40, CLASSES = 3, PICTURES = 3 };

static const char *const class_names[CLASSES] = {"ant", "bee", "cat"};
static char *folder, *checkpoint, *pictures[PICTURES];

/* The last note and the last warning, how many there were, and where extractions began. */
static struct {
    char note[1024], warning[1024];
    int notes, warnings, beginnings;
    const char *kernels; /* what features depend on once a batch is extracted; NULL: as before */
} said;

static int keep(const l3a_event *event, void *user) {
    (void)user;
    if (event->kind == L3A_EVENT_NOTE) {
        snprintf(said.note, sizeof said.note, "%s", event->text);
        said.notes++;
    } else if (event->kind == L3A_EVENT_WARNING) {
        snprintf(said.warning, sizeof said.warning, "%s", event->text);
        said.warnings++;
    } else if (event->kind == L3A_EVENT_PROGRESS && !strcmp(event->stage, "extract")) {
        said.beginnings += event->done == 0;
        if (event->done && said.kernels) {
            assert_int_equal(setenv("FAKE_KERNELS", said.kernels, 1), 0);
        }
    }
    return 0;
}

static l3a_context *open_device(const char *device) {
    const l3a_context_options options = {.size = sizeof options, .threads = 1, .on_event = keep, .device = device};
    l3a_context *context = NULL;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    memset(&said, 0, sizeof said);
    return context;
}

static l3a_backbone *open_with(l3a_context *context, l3a_network_precision precision) {
    const l3a_backbone_options options = {.size = sizeof options, .precision = precision};
    l3a_backbone *backbone = NULL;
    memset(&said, 0, sizeof said);
    assert_ok(context, l3a_backbone_open(context, checkpoint, &options, &backbone));
    return backbone;
}

/* ---- Which numbers ---- */

static void new_features_are_in_the_numbers_that_suit_the_device(void **state) {
    static const struct {
        const char *device, *refusal; /* of networks */
        l3a_network_precision asked, precision;
        const char *network, *warning;
    } cases[] = {
        {"cuda", NULL, L3A_NETWORK_USUAL, L3A_NETWORK_FLOAT16, "float16", NULL},
        {"cuda", NULL, L3A_NETWORK_FLOAT16, L3A_NETWORK_FLOAT16, "float16", NULL},
        {"cuda", NULL, L3A_NETWORK_FLOAT32, L3A_NETWORK_FLOAT32, "", NULL},
        {"cuda", NULL, L3A_NETWORK_BF16, L3A_NETWORK_FLOAT32, "", "fake cannot compute in bf16 here, so the network is computed"},
        {"auto", NULL, L3A_NETWORK_USUAL, L3A_NETWORK_FLOAT16, "float16", NULL},
        {"auto", "its memory is full", L3A_NETWORK_USUAL, L3A_NETWORK_FLOAT32, "", NULL},
        {"cuda", "none", L3A_NETWORK_USUAL, L3A_NETWORK_FLOAT32, "", NULL},
        {"cpu", NULL, L3A_NETWORK_USUAL, L3A_NETWORK_FLOAT32, "", NULL},
        {"cpu", NULL, L3A_NETWORK_FLOAT16, L3A_NETWORK_FLOAT32, "",
         " cannot compute in float16 here, so the network is computed in "
         "float32; its features differ a little from those in float16"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool on_device = strcmp(cases[i].device, "cpu") != 0 && !cases[i].refusal;
        if (cases[i].refusal) {
            assert_int_equal(setenv("FAKE_NETWORKS", cases[i].refusal, 1), 0);
        }
        l3a_context *context = open_device(cases[i].device);
        l3a_backbone *backbone = open_with(context, cases[i].asked);
        const l3a_backbone_info *info = l3a_backbone_describe(backbone);
        assert_string_equal(info->engine, on_device ? "fake" : l3a_backbone_engine());
        assert_int_equal(info->precision, cases[i].precision);
        assert_int_equal(info->computed, cases[i].precision);
        assert_string_equal(info->network, cases[i].network);
        assert_int_equal(said.warnings, cases[i].warning != NULL);
        assert_non_null(strstr(said.warning, cases[i].warning ? cases[i].warning : ""));
        l3a_backbone_free(backbone);
        l3a_context_free(context);
        assert_int_equal(unsetenv("FAKE_NETWORKS"), 0);
    }
}

static void a_precision_that_does_not_exist_is_refused(void **state) {
    const l3a_backbone_options options = {.size = sizeof options, .precision = (l3a_network_precision)(L3A_NETWORK_USUAL + 1)};
    l3a_backbone *backbone = NULL;
    l3a_context *context = open_device(NULL);
    (void)state;
    assert_fails(context, l3a_backbone_open(context, checkpoint, &options, &backbone), L3A_ERROR_OPTION, "there is no precision 4");
    l3a_context_free(context);
}

/* ---- Where ---- */

static void auto_leaves_a_device_without_room_for_a_network(void **state) {
    l3a_backbone *backbone = NULL;
    (void)state;
    assert_int_equal(setenv("FAKE_NETWORKS", "its memory is full", 1), 0);
    l3a_context *context = open_device("auto");
    backbone = open_with(context, L3A_NETWORK_FLOAT32);
    assert_string_equal(l3a_context_device(context), "cpu");
    assert_string_equal(said.note, "no GPU is used: cuda:0: its memory is full");
    assert_int_equal(said.notes, 1);
    assert_string_equal(l3a_error_text(context), "");
    l3a_backbone_free(backbone);
    l3a_context_free(context);
    backbone = NULL;

    context = open_device("cuda"); /* asked for, so it is not left */
    assert_fails(context, l3a_backbone_open(context, checkpoint, NULL, &backbone), L3A_ERROR_MEMORY, "cuda:0: its memory is full");
    assert_string_equal(l3a_context_device(context), "cuda:0");
    assert_null(backbone);
    l3a_context_free(context);

    assert_int_equal(setenv("FAKE_NETWORKS", "none", 1), 0);
    context = open_device("cuda");
    backbone = open_with(context, L3A_NETWORK_FLOAT32);
    assert_string_equal(l3a_context_device(context), "cuda:0"); /* it still learns */
    assert_string_equal(said.note, "networks run on the processor: cuda:0 cannot compute them here");
    l3a_backbone_free(backbone);
    l3a_context_free(context);
    assert_int_equal(unsetenv("FAKE_NETWORKS"), 0);
}

static void auto_stays_where_a_network_is(void **state) {
    (void)state;
    l3a_context *context = open_device("auto");
    assert_true(context->choosing);
    l3a_backbone *backbone = open_with(context, L3A_NETWORK_USUAL);
    assert_false(context->choosing);
    l3a_backbone_free(backbone);
    l3a_context_free(context);
}

static l3a_tagger *create(l3a_context *context, const char *path, l3a_network_precision precision) {
    const l3a_backbone_options network = {.size = sizeof network, .precision = precision};
    const l3a_tagger_options options = {.size = sizeof options, .backbone = checkpoint, .backbone_options = &network};
    l3a_tagger *tagger = NULL;
    l3a_options *settings = NULL;
    assert_ok(context, l3a_options_create(context, &settings));
    assert_ok(context, l3a_lesson_settings(context, settings));
    assert_ok(context, l3a_options_set(context, settings, "dim", "256"));
    assert_ok(context, l3a_tagger_create(context, path, settings, &options, &tagger));
    l3a_options_free(settings);
    return tagger;
}

/* The network fits the device, and the model does not: neither stays there. */
static void auto_takes_the_processor_for_a_tagger_that_is_too_large(void **state) {
    char *path = path_in(folder, "auto.l3a");
    (void)state;
    assert_int_equal(setenv("FAKE_MEMORY", "1000", 1), 0);
    l3a_context *context = open_device("auto");
    l3a_tagger *tagger = create(context, path, L3A_NETWORK_USUAL);
    assert_string_equal(l3a_context_device(context), "cpu");
    assert_non_null(strstr(said.note, "no GPU is used: "));
    assert_int_equal(said.notes, 1);
    assert_string_equal(l3a_backbone_describe(tagger->backbone)->engine, l3a_backbone_engine());
    assert_string_equal(l3a_backbone_describe(tagger->backbone)->network, "");
    l3a_tagger_free(tagger);
    l3a_context_free(context);
    assert_int_equal(unsetenv("FAKE_MEMORY"), 0);
    free(path);
}

/* ---- What is recorded ---- */

/* Teaches the first picture and saves. */
static void teach_and_save(l3a_context *context, l3a_tagger *tagger) {
    const char *const tags[] = {"ant"};
    const l3a_judgement judgement = {.size = sizeof judgement, .tags = tags, .tag_count = 1};
    l3a_lesson *lesson = NULL;
    assert_ok(context, l3a_lesson_create(context, &lesson));
    for (size_t i = 0; i < PICTURES; i++) {
        assert_ok(context, l3a_lesson_add(lesson, pictures[i], &judgement));
    }
    assert_ok(context, l3a_tagger_teach(tagger, lesson, NULL, NULL));
    assert_ok(context, l3a_tagger_save(tagger));
    l3a_lesson_free(lesson);
}

/* The score of each picture; says of the network what is in `engine`, and in what it was computed. */
static void tag(l3a_context *context, const char *path, const char *engine, l3a_network_precision computed, float *scores) {
    l3a_tagger *tagger = NULL;
    l3a_reader *reader = NULL;
    memset(&said, 0, sizeof said);
    assert_ok(context, l3a_tagger_open(context, path, NULL, &tagger));
    assert_string_equal(l3a_backbone_describe(tagger->backbone)->engine, engine);
    assert_int_equal(l3a_backbone_describe(tagger->backbone)->computed, computed);
    assert_int_equal(l3a_reader_create(tagger, &reader), L3A_OK);
    for (size_t i = 0; i < PICTURES; i++) {
        l3a_tags *tags = NULL;
        assert_int_equal(l3a_reader_tag_file(reader, pictures[i], &tags), L3A_OK);
        scores[i] = l3a_tags_score(tags, 0);
        l3a_tags_free(tags);
    }
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
}

static const char *network_of(l3a_context *context, const char *path, l3a_model **model) {
    assert_ok(context, l3a_model_load(context, path, model));
    return l3a_model_record(*model, "network");
}

static void a_model_decides(void **state) {
    char *half = path_in(folder, "half.l3a"), *single = path_in(folder, "single.l3a");
    float on_device[PICTURES], on_processor[PICTURES];
    l3a_context *device = open_device("cuda"), *processor = open_device("cpu");
    l3a_model *model = NULL;
    (void)state;
    l3a_tagger *tagger = create(device, half, L3A_NETWORK_USUAL);
    teach_and_save(device, tagger);
    l3a_tagger_free(tagger);
    assert_string_equal(network_of(processor, half, &model), "float16");
    l3a_model_free(model);
    tag(device, half, "fake", L3A_NETWORK_FLOAT16, on_device);
    assert_int_equal(said.warnings, 0);
    tag(processor, half, l3a_backbone_engine(), L3A_NETWORK_FLOAT32, on_processor);
    assert_non_null(strstr(said.warning, "cannot compute in float16 here"));
    assert_memory_equal(on_device, on_processor, sizeof on_device); /* this device says float16 and means float32 */

    tagger = create(processor, single, L3A_NETWORK_USUAL);
    teach_and_save(processor, tagger);
    l3a_tagger_free(tagger);
    assert_null(network_of(device, single, &model));
    l3a_model_free(model);
    tag(device, single, "fake", L3A_NETWORK_FLOAT32, on_device);
    tag(processor, single, l3a_backbone_engine(), L3A_NETWORK_FLOAT32, on_processor);
    assert_memory_equal(on_device, on_processor, sizeof on_device);
    assert_int_equal(said.warnings, 0);
    l3a_context_free(processor);
    l3a_context_free(device);
    free(half);
    free(single);
}

static l3a_features *signed_table(l3a_context *context, l3a_network_precision precision) {
    static float values[ROWS * WIDTH];
    static int8_t labels[ROWS * CLASSES];
    l3a_features *table = NULL;
    l3a_backbone *backbone = open_with(context, precision);
    random_table(7, ROWS, WIDTH, CLASSES, 2, values, labels);
    assert_ok(context, l3a_features_wrap(context, values, labels, ROWS, 1, WIDTH, class_names, CLASSES, &table));
    assert_ok(context, l3a_backbone_sign(backbone, 0, table));
    l3a_backbone_free(backbone);
    return table;
}

static void float16_and_float32_are_not_mixed(void **state) {
    l3a_context *context = open_device("cuda");
    l3a_features *half = signed_table(context, L3A_NETWORK_FLOAT16), *single = signed_table(context, L3A_NETWORK_FLOAT32);
    l3a_model *model = NULL;
    l3a_metrics metrics = {.size = sizeof metrics};
    l3a_options *settings = NULL;
    (void)state;
    assert_ok(context, l3a_options_create(context, &settings));
    assert_ok(context, l3a_options_set(context, settings, "dim", "96"));
    assert_ok(context, l3a_model_create(context, WIDTH, settings, &model));
    assert_ok(context, l3a_model_learn(model, half, class_names, CLASSES));
    assert_ok(context, l3a_model_evaluate(model, half, NULL, &metrics, NULL));
    assert_fails(context, l3a_model_evaluate(model, single, NULL, &metrics, NULL), L3A_ERROR_MISMATCH,
                 "network is 'as usual', but the model was learned with 'float16'");
    l3a_options_free(settings);
    l3a_model_free(model);
    l3a_features_free(half);
    l3a_features_free(single);
    l3a_context_free(context);
}

/* ---- Batches ---- */

static size_t batch_of(size_t liked, size_t side) {
    static struct memory_tensors tensors;
    struct network_back_end back_end = naive_back_end;
    const l3a_backbone_options options = {.size = sizeof options, .side = side};
    l3a_context *context = open_device(NULL);
    l3a_backbone *backbone = NULL;
    make_small_resnet(&tensors);
    const struct parameter_source source = tensors_source(&tensors, read_small);
    back_end.batch = liked;
    assert_ok(context, backbone_open_from(context, &source, &back_end, &options, &backbone));
    const size_t batch = backbone_batch(backbone);
    assert_int_equal(l3a_backbone_describe(backbone)->batch, batch);
    l3a_backbone_free(backbone);
    l3a_context_free(context);
    return batch;
}

static void a_batch_has_as_many_pictures_as_fit(void **state) {
    (void)state;
    assert_int_equal(batch_of(0, 40), 16);
    assert_int_equal(batch_of(5, 40), 5);
    assert_int_equal(batch_of(16, 2048), 16);
    assert_int_equal(batch_of(500, 224), 500);
    assert_int_equal(batch_of(500, 1024), 42); /* of 12 MiB each in half a GiB */
    assert_int_equal(batch_of(500, 2048), 16);
}

static void taggers_take_the_batch_of_their_network(void **state) {
    char *path = path_in(folder, "batch.l3a");
    l3a_context *processor = open_device(NULL);
    (void)state;
    l3a_tagger *tagger = create(processor, path, L3A_NETWORK_FLOAT32);
    assert_int_equal(l3a_tagger_batch(tagger), 16);
    teach_and_save(processor, tagger);
    l3a_tagger_free(tagger);
    assert_int_equal(setenv("FAKE_BATCH", "100", 1), 0);
    l3a_context *device = open_device("cuda");
    for (size_t batch = 0; batch < 2; batch++) {
        const l3a_tagger_options options = {.size = sizeof options, .batch = batch};
        assert_ok(device, l3a_tagger_open(device, path, &options, &tagger));
        assert_int_equal(l3a_tagger_batch(tagger), batch ? batch : 100);
        l3a_tagger_free(tagger);
    }
    assert_int_equal(l3a_tagger_batch(NULL), 0);
    assert_int_equal(unsetenv("FAKE_BATCH"), 0);
    l3a_context_free(device);
    l3a_context_free(processor);
    free(path);
}

/* ---- A device whose memory others take ---- */

static l3a_dataset *open_pictures(l3a_context *context) {
    char *list = path_in(folder, "pictures.csv"), name[4096];
    l3a_dataset *dataset = NULL;
    FILE *lines = fopen(list, "w");
    assert_non_null(lines);
    fprintf(lines, "path,labels\n");
    for (size_t i = 0; i < PICTURES; i++) {
        fprintf(lines, "%s,ant\n", pictures[i]);
    }
    fclose(lines);
    snprintf(name, sizeof name, "list:%s", list);
    assert_ok(context, l3a_dataset_open(context, name, NULL, NULL, &dataset));
    free(list);
    return dataset;
}

/* Batches of one picture. What features depend on changes after the first, so all are extracted anew, as the last one is, and the
 * file says so. */
static void an_extraction_computes_all_pictures_alike(void **state) {
    static const char kernels_a[] = "fake, batches of 1, kernels A", kernels_b[] = "fake, batches of 1, kernels B";
    const l3a_extract_options shard = {.size = sizeof shard, .shard = 1, .shards = 1};
    char *path = path_in(folder, "alike.safetensors");
    size_t length = 0;
    (void)state;
    assert_int_equal(setenv("FAKE_BATCH", "1", 1), 0);
    l3a_context *context = open_device("cuda");
    l3a_dataset *dataset = open_pictures(context);
    for (int changes = 0; changes < 2; changes++) {
        l3a_extract_report report = {.size = sizeof report};
        l3a_backbone *backbone = open_with(context, L3A_NETWORK_FLOAT32);
        said.kernels = changes ? "kernels B" : NULL;
        assert_ok(context, l3a_extract(context, backbone, dataset, &shard, path, &report));
        assert_int_equal(said.beginnings, 1 + changes);
        assert_int_equal(said.notes, changes);
        assert_non_null(strstr(said.note, changes ? "the extraction begins again" : ""));
        assert_int_equal(report.rows, PICTURES);
        assert_int_equal(report.resumed, 0);
        char *file = read_bytes(path, &length);
        assert_non_null(memmem(file, length, changes ? kernels_b : kernels_a, strlen(kernels_a)));
        free(file);
        l3a_backbone_free(backbone);
    }
    said.kernels = NULL;
    l3a_dataset_free(dataset);
    l3a_context_free(context);
    assert_int_equal(unsetenv("FAKE_KERNELS"), 0);
    assert_int_equal(unsetenv("FAKE_BATCH"), 0);
    free(path);
}

/* ---- A device that is lost ---- */

static void a_lost_device_is_an_error(void **state) {
    l3a_context *context = open_device("cuda");
    l3a_backbone *backbone = open_with(context, L3A_NETWORK_FLOAT32), *shared = NULL;
    static float plane[3 * 12 * 12], features[WIDTH];
    (void)state;
    assert_ok(context, backbone_share(context, backbone, &shared));
    assert_ok(context, l3a_backbone_run(shared, plane, 1, features));
    assert_int_equal(setenv("FAKE_LOST", "1", 1), 0);
    assert_fails(context, l3a_backbone_run(shared, plane, 1, features), L3A_ERROR_DEVICE, "the device failed");
    assert_fails(context, l3a_backbone_run(backbone, plane, 1, features), L3A_ERROR_DEVICE, "the device failed");
    assert_int_equal(unsetenv("FAKE_LOST"), 0);
    l3a_backbone_free(shared);
    l3a_backbone_free(backbone);
    l3a_context_free(context);
}

/* ---- */

static int load_fake(void **state) {
    (void)state;
    const char *plugins = getenv("L3A_TEST_PLUGINS");
    assert_non_null(plugins);
    char *driver = path_in(plugins, "driver/libcuda.so.1"), *fake = path_in(plugins, "fake");
    assert_non_null(dlopen(driver, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE));
    assert_int_equal(setenv("L3A_PLUGIN_PATH", fake, 1), 0);
    free(driver);
    free(fake);
    l3a_context *context = make_context(1);
    folder = make_temporary_folder();
    checkpoint = path_in(folder, "backbone.safetensors");
    write_small_backbone(context, checkpoint, 1);
    write_small_pictures(folder, "picture", pictures, PICTURES);
    l3a_context_free(context);
    return 0;
}

static int remove_inputs(void **state) {
    (void)state;
    free(checkpoint);
    free_paths(pictures, PICTURES);
    remove_folder(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_features_are_in_the_numbers_that_suit_the_device),
        cmocka_unit_test(a_precision_that_does_not_exist_is_refused),
        cmocka_unit_test(auto_leaves_a_device_without_room_for_a_network),
        cmocka_unit_test(auto_stays_where_a_network_is),
        cmocka_unit_test(auto_takes_the_processor_for_a_tagger_that_is_too_large),
        cmocka_unit_test(a_model_decides),
        cmocka_unit_test(float16_and_float32_are_not_mixed),
        cmocka_unit_test(a_batch_has_as_many_pictures_as_fit),
        cmocka_unit_test(taggers_take_the_batch_of_their_network),
        cmocka_unit_test(an_extraction_computes_all_pictures_alike),
        cmocka_unit_test(a_lost_device_is_an_error),
    };
    return cmocka_run_group_tests(tests, load_fake, remove_inputs);
}
