/* Trained networks as they are written: the new file alone is the same network, whatever the options were and whatever stands
 * beside it; what training has changed is where it belongs, and nothing is left of a file that could not be finished.
 * tests/oracle/test_trained.py has all namings. */
#include "support.h"

#include "base/random.h"
#include "format/safetensors.h"
#include "memory_folder.h"
#include "memory_probe.h"
#include "net/classifier.h"
#include "net/fuse.h"
#include "net/write.h"
#include "published_networks.h"
#include "small_networks.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 64, PICTURES = 2, LARGEST = 1 << 17 };

static l3a_context *context;
static char *folder;

static int open_all(void **state) {
    (void)state;
    context = make_context(1);
    folder = make_temporary_folder();
    return 0;
}

static int close_all(void **state) {
    (void)state;
    remove_folder(folder);
    l3a_context_free(context);
    return 0;
}

/* ---- Files ---- */

/* Writes tensors that read_small() makes up, from number `first` on; mean and deviation are in the metadata. */
static void write_tensors(l3a_context *with, const char *path, struct memory_tensors *tensors, size_t first, size_t count) {
    char *keys[] = {"l3a.mean", "l3a.std", "l3a.activation"}, *texts[] = {"0.5", "0.5", "gelu"};
    const size_t known = strncmp(tensors->names[tensors->count - 1], "norm_pre", 8) == 0 ? 3 : 2; /* an image tower of CLIP */
    const text_list about = {.items = keys, .count = known}, said = {.items = texts, .count = known};
    tensor_source *sources = calloc(count, sizeof *sources);
    float **values = calloc(count, sizeof *values);
    for (size_t i = 0; i < count; i++) {
        const struct checkpoint_tensor *tensor = &tensors->tensors[first + i];
        values[i] = calloc(tensor->elements, sizeof **values);
        assert_ok(with, read_small(tensors, tensor, values[i]));
        sources[i] = (tensor_source){
            .name = tensor->name, .type = TENSOR_F32, .rank = tensor->rank, .fill = fill_from_memory, .argument = values[i]};
        memcpy(sources[i].shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
    }
    assert_ok(with, safetensors_write(with, path, &about, &said, sources, count));
    for (size_t i = 0; i < count; i++) {
        free(values[i]);
    }
    free(values);
    free(sources);
}

static char *write_network(const char *name, void (*make)(struct memory_tensors *tensors)) {
    static struct memory_tensors tensors;
    char *path = path_in(folder, name);
    make(&tensors);
    write_tensors(context, path, &tensors, 0, tensors.count);
    return path;
}

/* A ViT with a norm before the blocks and a projection: an image tower of CLIP under timm's names. */
static void make_small_clip(struct memory_tensors *tensors) {
    make_small_vit(tensors);
    tensors_add(tensors, "", "norm_pre.weight", 1, WIDTH, 0, 0, 0);
    tensors_add(tensors, "", "norm_pre.bias", 1, WIDTH, 0, 0, 0);
}

/* ---- Writing and reading ---- */

struct request {
    const char *from, *to;
    const l3a_backbone_options *options;
    const struct trained_values *values;
    const struct trained_head *head;
};

static l3a_status write_step(l3a_context *with, void *argument) {
    const struct request *request = argument;
    static const char *const metadata[][2] = {{"l3a.data", "voc:\"quoted\"\n"}, {"l3a.epochs", "10"}};
    const l3a_backbone_options usual = {.size = sizeof usual};
    struct checkpoint *checkpoint = NULL;
    struct parameter_source source;
    struct reading reading = {0};
    l3a_status status = checkpoint_open(with, request->from, &checkpoint);
    if (status == L3A_OK) {
        parameter_source_checkpoint(checkpoint, &source);
        status = backbone_read(with, &source, request->options ? request->options : &usual, &reading);
    }
    if (status == L3A_OK) {
        status = network_write(with, checkpoint, &reading, request->values, request->head, metadata, 2, request->to);
    }
    network_free(&reading.network);
    checkpoint_free(checkpoint);
    return status;
}

static l3a_status write_to(const struct request *request) {
    return write_step(context, (void *)request);
}

/* What a file gives: what it is, and features of pictures that follow from their side. */
struct seen {
    l3a_backbone_info info;
    float features[PICTURES * 512];
};

static void look_at(const char *path, const l3a_backbone_options *options, struct seen *seen) {
    static float pictures[LARGEST];
    l3a_backbone *backbone = NULL;
    memset(seen, 0, sizeof *seen);
    assert_ok(context, l3a_backbone_open(context, path, options, &backbone));
    seen->info = *l3a_backbone_describe(backbone);
    const size_t count = PICTURES * 3 * seen->info.size * seen->info.size;
    assert_true(count <= LARGEST && seen->info.width <= 512);
    for (size_t i = 0; i < count; i++) {
        pictures[i] = (float)random_uniform(7, i);
    }
    assert_ok(context, l3a_backbone_run(backbone, pictures, PICTURES, seen->features));
    l3a_backbone_free(backbone);
}

static void assert_same(const struct seen *one, const struct seen *other) {
    assert_string_equal(one->info.name, other->info.name);
    assert_string_equal(one->info.preprocess, other->info.preprocess);
    assert_string_equal(one->info.network, other->info.network);
    assert_string_equal(one->info.pool, other->info.pool);
    assert_int_equal(one->info.width, other->info.width);
    assert_memory_equal(one->features, other->features, sizeof one->features);
}

/* The file as another program would open it. */
static void open_file(const char *path, safetensors *file) {
    assert_ok(context, safetensors_open(context, path, file));
    assert_ok(context, safetensors_verify(file));
}

static void assert_shape(const safetensors *file, const char *name, size_t rank, const uint64_t *shape) {
    const struct tensor *tensor;
    assert_ok(context, safetensors_expect(file, name, rank, shape, &tensor));
}

/* ---- Tests ---- */

static const l3a_backbone_options recipes[] = {
    {.size = sizeof(l3a_backbone_options)},
    {.size = sizeof(l3a_backbone_options), .heads = 4, .activation = L3A_ACTIVATION_QUICK_GELU, .epsilon = 1e-3},
    {.size = sizeof(l3a_backbone_options), .mean = {0.1F, 0.2F, 0.3F}, .deviation = {0.7F, 0.8F, 0.90000004F}},
    {.size = sizeof(l3a_backbone_options), .filter = L3A_FILTER_BICUBIC, .crop = 0.875, .crop_rules = L3A_CROP_DOWN},
    {.size = sizeof(l3a_backbone_options), .crop = 0.9, .crop_rules = L3A_CROP_SQUASHED, .pool = L3A_POOL_CLS_MEAN},
    {.size = sizeof(l3a_backbone_options), .layer = 1, .pool = L3A_POOL_MEAN, .activation = L3A_ACTIVATION_TANH_GELU},
    {.size = sizeof(l3a_backbone_options), .side = 20},
    {.size = sizeof(l3a_backbone_options), .side = 8, .offset = 1},
};

static void the_file_alone_is_the_same_network(void **state) {
    static const char wrong[] = "{\"model_type\": \"resnet\", \"image_size\": 16, \"num_attention_heads\": 2, \"hidden_size\": 64}";
    char *from = write_network("vit.safetensors", make_small_vit), *to = path_in(folder, "tuned/vit.safetensors");
    (void)state;
    put_file(folder, "tuned/config.json", wrong, sizeof wrong - 1);
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        struct seen before, after;
        look_at(from, &recipes[i], &before);
        assert_ok(context, write_to(&(struct request){from, to, &recipes[i], NULL, NULL}));
        look_at(to, NULL, &after);
        assert_same(&before, &after);
        assert_non_null(strstr(after.info.decided, "size, mean"));
        assert_non_null(strstr(after.info.decided, "from metadata"));
        look_at(to, &(l3a_backbone_options){.size = sizeof(l3a_backbone_options), .published = 1}, &after);
        assert_same(&before, &after);
        assert_ok(context, write_to(&(struct request){to, to, NULL, NULL, NULL})); /* over itself */
        look_at(to, NULL, &after);
        assert_same(&before, &after);
    }
    remove(to);
    free(from);
    free(to);
}

static void options_come_before_the_recipe(void **state) {
    const l3a_backbone_options trained = {.size = sizeof trained, .heads = 4, .side = 20, .pool = L3A_POOL_MEAN, .crop = 0.9};
    const l3a_backbone_options asked = {
        .size = sizeof asked, .heads = 2, .side = 12, .pool = L3A_POOL_CLS, .mean = {0.25F, 0.25F, 0.25F}, .deviation = {1, 1, 1}};
    char *from = write_network("vit.safetensors", make_small_vit), *to = path_in(folder, "tuned.safetensors");
    struct seen seen;
    (void)state;
    assert_ok(context, write_to(&(struct request){from, to, &trained, NULL, NULL}));
    look_at(to, &asked, &seen);
    assert_int_equal(seen.info.heads, 2);
    assert_string_equal(seen.info.pool, "cls");
    assert_string_equal(seen.info.preprocess, "rgb 12x12 bilinear mean 0.25 std 1 crop 0.9");
    assert_non_null(strstr(seen.info.decided, "size, mean, heads as given"));
    free(from);
    free(to);
}

static void positions_are_those_that_were_trained(void **state) {
    const l3a_backbone_options larger = {.size = sizeof larger, .side = 20};
    char *from = write_network("vit.safetensors", make_small_vit), *to = path_in(folder, "tuned.safetensors");
    safetensors file;
    (void)state;
    assert_ok(context, write_to(&(struct request){from, to, &larger, NULL, NULL}));
    open_file(to, &file);
    assert_shape(&file, "pos_embed", 3, (const uint64_t[]){1, 26, WIDTH});
    assert_string_equal(safetensors_metadata(&file, "l3a.preprocess"), "rgb 20x20 bilinear mean 0.5 std 0.5");
    safetensors_close(&file);
    free(from);
    free(to);
}

static void a_dinov2_with_fewer_positions_keeps_its_name(void **state) {
    static struct memory_tensors tensors;
    const l3a_backbone_options usual = {.size = sizeof usual};
    struct parameter_source source;
    struct reading reading;
    (void)state;
    make_published_vit(&tensors, 192, 12, 14, 224);
    for (int i = 0; i < 12; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "blocks.%d.", i);
        tensors_add(&tensors, prefix, "ls1.gamma", 1, 192, 0, 0, 0);
        tensors_add(&tensors, prefix, "ls2.gamma", 1, 192, 0, 0, 0);
    }
    source = tensors_source(&tensors, read_published);
    assert_ok(context, backbone_read(context, &source, &usual, &reading));
    assert_string_equal(reading.recipe.name, "vit_tiny_patch14_dinov2_224");
    network_free(&reading.network);
}

/* ---- What training has found ---- */

static l3a_status read_nan(void *owner, size_t layer, enum parameter_kind kind, float *values) {
    (void)owner, (void)layer, (void)kind;
    values[0] = NAN;
    return L3A_OK;
}

static l3a_status read_nothing(void *owner, size_t layer, enum parameter_kind kind, float *values) {
    (void)owner, (void)layer, (void)kind, (void)values;
    return (fail)(context, L3A_ERROR_DEVICE, "look at it", "the device is gone");
}

static void assert_unchanged(const struct request *request, l3a_status expected, const char *text) {
    size_t before, after;
    write_bytes(request->to, "old", 3);
    char *old = read_bytes(request->to, &before);
    assert_fails(context, write_to(request), expected, text);
    char *now = read_bytes(request->to, &after);
    assert_int_equal(before, after);
    assert_memory_equal(old, now, before);
    free(old);
    free(now);
}

static void what_cannot_be_written_leaves_what_was_there(void **state) {
    const struct trained_values useless = {NULL, read_nan}, lost = {NULL, read_nothing};
    char *from = write_network("vit.safetensors", make_small_vit), *to = path_in(folder, "tuned.safetensors");
    (void)state;
    assert_unchanged(&(struct request){from, to, NULL, &useless, NULL}, L3A_ERROR_DATA,
                     "training has made the tensor cls_token useless: element 0 is nan");
    assert_unchanged(&(struct request){from, to, NULL, &lost, NULL}, L3A_ERROR_DEVICE, "the device is gone");
    free(from);
    free(to);
}

static ssize_t write_nothing(int file, const void *bytes, size_t count, off_t offset) {
    (void)file, (void)bytes, (void)count, (void)offset;
    errno = ENOSPC;
    return -1;
}

static void a_full_disk_leaves_nothing(void **state) {
    static const char from[] = MEMORY_FOLDER "/vit.safetensors", to[] = MEMORY_FOLDER "/tuned.safetensors";
    static struct memory_tensors tensors;
    file_operations full = memory_folder;
    l3a_context *with = make_context(1);
    (void)state;
    full.write = write_nothing;
    with->files = &memory_folder;
    make_small_vit(&tensors);
    write_tensors(with, from, &tensors, 0, tensors.count);
    const uint64_t before = memory_folder_checksum();
    with->files = &full;
    assert_int_equal(write_step(with, &(struct request){from, to, NULL, NULL, NULL}), L3A_ERROR_FULL);
    assert_int_equal(memory_folder_checksum(), before);
    assert_int_equal(memory_folder_open(), 0);
    with->files = &memory_folder;
    assert_ok(with, write_step(with, &(struct request){from, to, NULL, NULL, NULL}));
    assert_true(memory_folder_checksum() != before);
    memory_folder_clear(true);
    l3a_context_free(with);
}

static void any_allocation_may_fail(void **state) {
    const char *const names[] = {"cat", "dog"};
    float coefficients[2 * WIDTH] = {0}, bias[2] = {0};
    const struct trained_head head = {coefficients, bias, names, 2, WIDTH};
    char *from = write_network("vit.safetensors", make_small_vit), *to = path_in(folder, "tuned.safetensors");
    (void)state;
    struct request request = {from, to, &recipes[6], NULL, &head};
    assert_true(fail_each_allocation(write_step, &request) > 50);
    assert_true(fail_each_allocation(write_step, &(struct request){to, to, NULL, NULL, NULL}) > 50); /* a recorded recipe */
    free(from);
    free(to);
}

/* ---- The classifier ---- */

static struct trained_head make_head(size_t classes, size_t width) {
    static float numbers[1001 * 512];
    static const char *names[1000];
    for (size_t i = 0; i < classes; i++) {
        names[i] = "cat";
    }
    return (struct trained_head){numbers, numbers + classes * width, names, classes, width};
}

static void a_classifier_takes_the_place_of_imagenets(void **state) {
    const l3a_backbone_options projected = {.size = sizeof projected, .pool = L3A_POOL_PROJECTION};
    const struct {
        void (*make)(struct memory_tensors *tensors);
        const l3a_backbone_options *options;
        size_t width;
        const char *name;
        bool head; /* there is something called head.weight besides */
    } cases[] = {{make_small_vit, NULL, WIDTH, "head", true},
                 {make_small_clip, NULL, WIDTH, "head", true},
                 {make_small_clip, &projected, 10, "classifier", true},
                 {make_small_resnet, NULL, 128, "fc", false},
                 {make_small_tresnet, NULL, 320, "head.fc", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct trained_head head = make_head(1000, cases[i].width);
        const l3a_backbone_options small = {.size = sizeof small, .side = 64};
        const l3a_backbone_options *options = cases[i].head ? cases[i].options : &small;
        char *from = write_network("network.safetensors", cases[i].make), *to = path_in(folder, "tuned.safetensors"), name[32];
        struct classifier *classifier = NULL;
        struct seen before, after;
        safetensors file;
        look_at(from, options, &before);
        assert_ok(context, write_to(&(struct request){from, to, options, NULL, &head}));
        look_at(to, NULL, &after);
        assert_same(&before, &after);
        open_file(to, &file);
        snprintf(name, sizeof name, "%s.weight", cases[i].name);
        assert_shape(&file, name, 2, (const uint64_t[]){1000, cases[i].width});
        snprintf(name, sizeof name, "%s.bias", cases[i].name);
        assert_shape(&file, name, 1, (const uint64_t[]){1000});
        assert_int_equal(strlen(safetensors_metadata(&file, "l3a.classes")), 1000 * 4 - 1);
        assert_string_equal(safetensors_metadata(&file, "l3a.data"), "voc:\"quoted\"\n");
        assert_string_equal(safetensors_metadata(&file, "format"), "pt");
        safetensors_close(&file);
        assert_fails(context, classifier_read(context, to, NULL, cases[i].width, &classifier), L3A_ERROR_MISMATCH,
                     "trained for classes of its own");
        assert_ok(context, write_to(&(struct request){to, to, NULL, NULL, NULL}));
        open_file(to, &file);
        assert_null(safetensors_find(&file, name)); /* trained again, without a classifier */
        safetensors_close(&file);
        if (!cases[i].options) {
            assert_fails(context, classifier_read(context, to, NULL, cases[i].width, &classifier), L3A_ERROR_MISMATCH,
                         "this checkpoint has no classifier");
        }
        free(from);
        free(to);
    }
}

/* ---- Other files ---- */

static void several_files_become_one(void **state) {
    static struct memory_tensors tensors;
    static char index[1 << 16];
    char *first = path_in(folder, "sharded/one.safetensors"), *second = path_in(folder, "sharded/two.safetensors"),
         *from = path_in(folder, "sharded/model.safetensors.index.json"), *to = path_in(folder, "whole.safetensors");
    struct seen before, after;
    size_t length = (size_t)snprintf(index, sizeof index, "{\"metadata\": {}, \"weight_map\": {");
    (void)state;
    make_small_vit(&tensors);
    const size_t half = tensors.count / 2;
    for (size_t i = 0; i < tensors.count; i++) {
        length += (size_t)snprintf(index + length, sizeof index - length, "%s\"%s\": \"%s.safetensors\"", i ? ", " : "",
                                   tensors.tensors[i].name, i < half ? "one" : "two");
    }
    length += (size_t)snprintf(index + length, sizeof index - length, "}}");
    put_file(folder, "sharded/model.safetensors.index.json", index, length);
    write_tensors(context, first, &tensors, 0, half);
    write_tensors(context, second, &tensors, half, tensors.count - half);
    look_at(from, NULL, &before);
    assert_ok(context, write_to(&(struct request){from, to, NULL, NULL, NULL}));
    look_at(to, NULL, &after);
    assert_same(&before, &after);
    free(first);
    free(second);
    free(from);
    free(to);
}

static void names_may_have_quotes(void **state) {
    static struct memory_tensors tensors;
    static const char name[] = "blocks.0.\"\\.num_batches_tracked";
    char *from = path_in(folder, "odd.safetensors"), *to = path_in(folder, "tuned.safetensors");
    safetensors file;
    (void)state;
    make_small_vit(&tensors);
    tensors_add(&tensors, "", name, 1, 3, 0, 0, 0);
    write_tensors(context, from, &tensors, 0, tensors.count);
    assert_ok(context, write_to(&(struct request){from, to, NULL, NULL, NULL}));
    open_file(to, &file);
    assert_shape(&file, name, 1, (const uint64_t[]){3});
    safetensors_close(&file);
    free(from);
    free(to);
}

static void what_is_not_the_description_of_the_checkpoint_is_refused(void **state) {
    const l3a_backbone_options usual = {.size = sizeof usual};
    char *from = write_network("vit.safetensors", make_small_vit), *other = write_network("resnet.safetensors", make_small_resnet),
         *to = path_in(folder, "nothing.safetensors");
    struct checkpoint *checkpoint = NULL, *wrong = NULL;
    struct parameter_source source;
    struct reading reading;
    (void)state;
    assert_ok(context, checkpoint_open(context, from, &checkpoint));
    assert_ok(context, checkpoint_open(context, other, &wrong));
    parameter_source_checkpoint(checkpoint, &source);
    assert_ok(context, backbone_read(context, &source, &usual, &reading));
    assert_fails(context, network_write(context, wrong, &reading, NULL, NULL, NULL, 0, to), L3A_ERROR_MISMATCH,
                 "the tensor patch_embed.proj.weight of the network is not in it");
    network_free(&reading.network);
    parameter_source_checkpoint(wrong, &source);
    assert_ok(context, backbone_read(context, &source, &usual, &reading));
    assert_ok(context, network_fuse(&reading.network, 1)); /* its norms are gone */
    assert_fails(context, network_write(context, wrong, &reading, NULL, NULL, NULL, 0, to), L3A_ERROR_ARGUMENT, "was fused");
    assert_int_not_equal(remove(to), 0);
    network_free(&reading.network);
    checkpoint_free(checkpoint);
    checkpoint_free(wrong);
    free(from);
    free(other);
    free(to);
}

static void recipes_that_are_none_are_refused(void **state) {
    static const char good[] = "rgb 12x12 bilinear mean 0.5 std 0.5";
    static const char *const cases[][3] = {{"rgb 12x16 bilinear mean 0.5 std 0.5", "cls", ""},
                                           {"rgb 0x0 bilinear mean 0.5 std 0.5", "cls", ""},
                                           {"rgb 5000x5000 bilinear mean 0.5 std 0.5", "cls", ""},
                                           {"rgb 12x12 bilinear mean 0 std 0", "cls", ""},
                                           {"rgb 12x12 bilinear mean 0.5 std -1", "cls", ""},
                                           {"rgb 12x12 bilinear mean 0.5 std 0.5 crop 2", "cls", ""},
                                           {"rgb 12x12 bilinear mean 0.5 std 0.5 and more", "cls", ""},
                                           {"", "cls", ""},
                                           {good, "best", ""},
                                           {good, "cls", "heads many"},
                                           {good, "cls", "heads 2000"},
                                           {good, "cls", "epsilon 2"}};
    static struct memory_tensors tensors;
    char *path = path_in(folder, "hostile.safetensors");
    (void)state;
    make_small_vit(&tensors);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *keys[] = {"l3a.preprocess", "l3a.pool", "l3a.network"};
        const text_list about = {.items = keys, .count = 3}, said = {.items = (char **)cases[i], .count = 3};
        const tensor_source source = {.name = "cls_token", .type = TENSOR_F32, .fill = fill_from_memory, .argument = (float[]){1}};
        struct checkpoint *checkpoint = NULL;
        struct backbone_recipe recipe = {0};
        struct recipe_sources sources;
        struct config_geometry geometry;
        assert_ok(context, safetensors_write(context, path, &about, &said, &source, 1));
        assert_ok(context, checkpoint_open(context, path, &checkpoint));
        assert_fails(context, config_apply(context, checkpoint, &recipe, &sources, &geometry), L3A_ERROR_DATA,
                     "but in words that are not known");
        checkpoint_free(checkpoint);
    }
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_alone_is_the_same_network),
        cmocka_unit_test(options_come_before_the_recipe),
        cmocka_unit_test(positions_are_those_that_were_trained),
        cmocka_unit_test(a_dinov2_with_fewer_positions_keeps_its_name),
        cmocka_unit_test(what_cannot_be_written_leaves_what_was_there),
        cmocka_unit_test(a_full_disk_leaves_nothing),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(a_classifier_takes_the_place_of_imagenets),
        cmocka_unit_test(several_files_become_one),
        cmocka_unit_test(names_may_have_quotes),
        cmocka_unit_test(what_is_not_the_description_of_the_checkpoint_is_refused),
        cmocka_unit_test(recipes_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
