#include "train/training.h"
#include "train/training_source.h"

#include "base/sized.h"
#include "base/stream.h"
#include "common/number.h"
#include "data/dataset.h"
#include "net/recipe.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What is drawn, each from a stream of its own. */
enum { STREAM_HEAD, STREAM_HELD, STREAM_PICTURES };

/* ---- The network ---- */

/* In which numbers products are computed. Parameters and sums are float32 in any case. */
static l3a_status choose_numbers(struct training *training) {
    l3a_context *context = training->context;
    const l3a_network_precision asked = training->backbone.precision;
    const struct network_use use = {.training = true, .numbers = NUMBER_BFLOAT16};
    const bool can = network_back_end_supports(training->back_end, &use);
    l3a_status status = L3A_OK;
    FAIL_IF(asked == L3A_NETWORK_FLOAT16, context, L3A_ERROR_OPTION, "train in bf16 or float32",
            "float16 has too few exponents for gradients");
    training->numbers = can && asked != L3A_NETWORK_FLOAT32 ? NUMBER_BFLOAT16 : NUMBER_FLOAT32;
    if (asked == L3A_NETWORK_BF16 && !can) {
        report_warning(context, "%s cannot train in bf16 here, so it trains in float32", training->back_end->name);
    }
    training->backbone.precision = L3A_NETWORK_FLOAT32; /* of features, about which training says nothing */
done:
    return status;
}

static l3a_status read_network(struct training *training, const char *path) {
    struct parameter_source source;
    l3a_status status = L3A_OK;
    TRY(checkpoint_open(training->context, path, &training->checkpoint));
    parameter_source_checkpoint(training->checkpoint, &source);
    status = backbone_read(training->context, &source, &training->backbone, &training->reading);
    if (status != L3A_OK) {
        return fail_in(training->context, status, "%s", checkpoint_path(training->checkpoint));
    }
    training->reading.network.output_count = 1; /* the features */
    recipe_describe(training->reading.family, &training->reading.recipe, &training->info);
    training->info.width = training->reading.network.shapes[training->reading.network.outputs[0].value].channels;
    TRY(selection_make(&training->reading.network, &training->settings, &training->selection));
done:
    return status;
}

static struct network_use use_of(const struct training *training, uint64_t memory) {
    return (struct network_use){.training = true,
                                .pictures = training->settings.batch,
                                .numbers = training->numbers,
                                .parameters = (const struct parameter_use(*)[PARAMETER_KINDS])training->selection.uses,
                                .memory = memory};
}

static l3a_status plan_memory(struct training *training, const l3a_train_options *options) {
    l3a_context *context = training->context;
    const uint64_t limit = options->memory ? options->memory : training_memory(context, training->back_end);
    const struct network_use use = use_of(training, limit);
    l3a_status status = L3A_OK;
    TRY(training->back_end->plan(&training->reading.network, &use, &training->plan));
    FAIL_IF(limit && training->plan.bytes > limit, context, L3A_ERROR_MEMORY, "use smaller batches, or train less of the network",
            "training on %zu pictures at a time takes %" PRIu64 " MiB, and %" PRIu64 " MiB are allowed or free",
            training->settings.batch, training->plan.bytes >> 20, limit >> 20);
done:
    return status;
}

/* ---- The pictures ---- */

static l3a_status name_classes(struct training *training, const l3a_dataset *train, const l3a_train_options *options) {
    l3a_context *context = training->context;
    const size_t count = options->class_count ? options->class_count : l3a_dataset_class_count(train);
    l3a_status status = L3A_OK;
    FAIL_IF(options->class_count && !options->classes, context, L3A_ERROR_ARGUMENT, NULL, "l3a_train: classes is NULL");
    TRY(need_items(context, "l3a_train", "classes", options->classes, options->class_count));
    for (size_t k = 0; k < count; k++) {
        const char *name = options->class_count ? options->classes[k] : l3a_dataset_class(train, k);
        TRY(text_list_add(context, &training->classes, name, strlen(name)));
    }
    FAIL_IF(!count, context, L3A_ERROR_DATA, NULL, "%s has no class to learn", train->name);
done:
    return status;
}

static l3a_status choose_pictures(struct training *training, const l3a_dataset *train, const l3a_dataset *validation,
                                  const l3a_train_options *options) {
    l3a_context *context = training->context;
    const char *const *names;
    const bool listed = options->class_count > 0;
    l3a_status status = L3A_OK;
    TRY(name_classes(training, train, options));
    names = (const char *const *)training->classes.items;
    TRY(examples_choose(context, train, names, training->classes.count, listed, &training->train));
    FAIL_IF(!training->train.count, context, L3A_ERROR_DATA, "check the classes, and the split",
            "%s has no picture with a known label of the classes to learn", train->name);
    if (validation) {
        TRY(examples_choose(context, validation, names, training->classes.count, listed, &training->held));
    } else {
        TRY(examples_hold(context, training->settings.share, random_bits(training->settings.seed, STREAM_HELD), &training->train,
                          &training->held));
    }
    if (training->settings.batch > training->train.count) {
        training->settings.batch = training->train.count;
    }
    training->steps = (training->train.count + training->settings.batch - 1) / training->settings.batch;
done:
    return status;
}

/* The next larger batches that leave no single picture for the end of an epoch; there are at least 2 pictures. */
static size_t better_batch(size_t count, size_t size) {
    do {
        size++;
    } while (count % size == 1);
    return size;
}

/* A batch norm that learns cannot do so from a single number, as of one small picture. The last batch of an epoch may have only
 * one, and it is better to know now. */
static l3a_status check_batch_norms(const struct training *training) {
    const size_t count = training->train.count, size = training->settings.batch;
    const struct network *network = &training->reading.network;
    l3a_status status = L3A_OK;
    bool single = false;
    char hint[80] = "use more pictures, or larger ones";
    for (size_t i = 0; i < network->layer_count; i++) {
        const struct net_layer *layer = &network->layers[i];
        single = single || (layer->kind == LAYER_BATCH_NORM && training->selection.uses[i][FACTORS].trained &&
                            layer->from.height * layer->from.width == 1);
    }
    if (count > 1) {
        snprintf(hint, sizeof hint, "use batches of %zu pictures, or larger pictures", better_batch(count, size));
    }
    FAIL_IF(single && (size == 1 || count % size == 1), training->context, L3A_ERROR_OPTION, hint,
            "the last batch of an epoch has one picture; a batch norm gets a single number from it, and cannot learn from that");
done:
    return status;
}

static l3a_status open_batches(struct training *training) {
    l3a_loader_options loader;
    l3a_status status = L3A_OK;
    loader_options_for(&training->info, &training->picture, 1, &loader);
    const struct batches_options options = {.loader = &loader,
                                            .augmentation = training->settings.augmentation,
                                            .seed = random_bits(training->settings.seed, STREAM_PICTURES),
                                            .batch = training->settings.batch,
                                            .shuffled = true};
    const struct batches_options plain = {.loader = &loader, .batch = training->settings.batch};
    TRY(batches_open(training->context, training->train.dataset, training->train.rows, training->train.count, &options,
                     &training->batches));
    if (training->held.count) {
        TRY(batches_open(training->context, training->held.dataset, training->held.rows, training->held.count, &plain,
                         &training->validation));
    }
done:
    return status;
}

/* ---- All of it ---- */

l3a_status training_open(l3a_context *context, const struct network_back_end *back_end, const char *checkpoint,
                         const l3a_dataset *train, const l3a_dataset *validation, const l3a_train_options *options,
                         struct training *training) {
    l3a_status status = L3A_OK;
    *training = (struct training){.context = context, .back_end = back_end};
    TRY(READ_SIZED(context, options->backbone, training->backbone));
    TRY(READ_SIZED(context, options->picture, training->picture));
    TRY(settings_complete(context, options, train->name, &training->settings));
    TRY(choose_pictures(training, train, validation, options));
    FAIL_IF(!back_end->forward, context, L3A_ERROR_STATE, "install oneDNN's development files and build l3a again",
            "%s cannot train networks", back_end->name);
    TRY(choose_numbers(training));
    TRY(read_network(training, checkpoint));
    TRY(check_batch_norms(training));
    TRY(plan_memory(training, options));
    if (options->command) {
        TRY(copy_text(context, options->command, strlen(options->command), &training->command));
    }
    training->save_seconds = options->save_seconds == 0 ? 300 : options->save_seconds;
    training->on_epoch = options->on_epoch;
    training->epoch_user = options->epoch_user;
done:
    return status;
}

static void list_arrays(struct training *training, struct array arrays[10]) {
    const size_t batch = training->settings.batch, classes = training->classes.count, width = training->info.width;
    const size_t held = training->held.count;
    const bool keeps = held && !training->settings.last;
    const struct array list[10] = {
        {&training->features, batch * width, sizeof(float), false},
        {&training->by_features, batch * width, sizeof(float), false},
        {&training->scores, batch * classes, sizeof(float), false},
        {&training->by_scores, batch * classes, sizeof(float), false},
        {&training->labels, batch * classes, 1, false},
        {&training->held_scores, held * classes, sizeof(float), false},
        {&training->held_labels, held * classes, 1, false},
        {&training->results, training->settings.epochs, sizeof *training->results, true},
        {&training->best, keeps ? training->selection.numbers : 0, sizeof(float), false},
        {&training->best_head, keeps ? classes * (width + 1) : 0, sizeof(float), false},
    };
    memcpy(arrays, list, sizeof list);
}

l3a_status training_start(struct training *training) {
    l3a_context *context = training->context;
    struct array arrays[10];
    l3a_status status = L3A_OK;
    const struct network_use use = use_of(training, training->plan.recomputes ? training->plan.bytes : 0);
    TRY(checkpoint_sha256(training->checkpoint, training->sha256));
    TRY(linear_head_make(context, training->classes.count, training->info.width, random_bits(training->settings.seed, STREAM_HEAD),
                         &training->head));
    list_arrays(training, arrays);
    TRY(arrays_allocate(context, arrays, sizeof arrays / sizeof *arrays));
    if (training->held.count) {
        examples_labels(&training->held, training->held.rows, training->held.count, training->held_labels);
    }
    TRY(open_batches(training));
    TRY(training->back_end->open(&training->reading.network, &use, &training->state));
done:
    return status;
}

void training_close(struct training *training) {
    l3a_context *context = training->context;
    struct array arrays[10];
    if (training->state) {
        training->back_end->close(training->state);
    }
    list_arrays(training, arrays);
    arrays_release(context, arrays, sizeof arrays / sizeof *arrays);
    batches_free(training->batches);
    batches_free(training->validation);
    linear_head_free(context, &training->head);
    examples_free(context, &training->train);
    examples_free(context, &training->held);
    selection_free(context, &training->selection);
    network_free(&training->reading.network);
    checkpoint_free(training->checkpoint);
    text_list_clear(context, &training->classes);
    release(context, training->command);
}

/* ---- The result ---- */

l3a_status training_value(void *owner, size_t layer, enum parameter_kind kind, float *values) {
    const struct training *training = owner;
    const struct changed_parameter *changed = selection_find(&training->selection, layer, kind);
    const struct parameter *parameter = &training->reading.network.layers[layer].parameters[kind];
    if (changed && !training->position.best) {
        return training->back_end->read(training->state, layer, kind, PARAMETER_VALUE, values);
    }
    memcpy(values, changed ? training->best + changed->first : parameter->values, parameter->count * sizeof *values);
    return L3A_OK;
}

const float *training_head(const struct training *training) {
    return training->position.best ? training->best_head : training->head.values;
}

/* "1.25 80.5; 0.75 82.25": loss and validation mAP of each epoch. */
static l3a_status record_curve(const struct training *training, text_list *keys, text_list *values) {
    text_builder curve = {.context = training->context};
    l3a_status status = L3A_OK;
    char text[NUMBER_TEXT];
    for (size_t i = 0; i < training->position.epochs; i++) {
        text_builder_print(&curve, "%s%s", i ? "; " : "", number_format(training->results[i].loss, text));
        if (training->held.count) {
            text_builder_print(&curve, " %s", number_format(training->results[i].mean_ap, text));
        }
    }
    TRY(curve.status);
    TRY(text_record_set(training->context, keys, values, "curve", curve.text ? curve.text : ""));
done:
    text_builder_free(&curve);
    return status;
}

l3a_status training_record(const struct training *training, text_list *keys, text_list *values) {
    l3a_context *context = training->context;
    const struct {
        const char *key;
        uint64_t number;
    } counts[] = {{"pictures", training->train.count},
                  {"validation pictures", training->held.count},
                  {"threads", (uint64_t)context->threads},
                  {"steps", training->position.steps},
                  {"epoch", training->position.best ? training->position.best : training->position.epochs}};
    l3a_status status = L3A_OK;
    char text[NUMBER_TEXT];
    TRY(settings_record(context, &training->settings, keys, values));
    TRY(text_record_set(context, keys, values, "from", training->sha256));
    TRY(text_record_set(context, keys, values, "data", training->train.dataset->name));
    TRY(text_record_set(context, keys, values, "split", training->train.dataset->split));
    TRY(text_record_set(context, keys, values, "engine", training->back_end->name));
    TRY(text_record_set(context, keys, values, "numbers", training->numbers == NUMBER_FLOAT32 ? "float32" : "bf16"));
    TRY(text_record_set(context, keys, values, "version", l3a_version()));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        snprintf(text, sizeof text, "%" PRIu64, counts[i].number);
        TRY(text_record_set(context, keys, values, counts[i].key, text));
    }
    if (training->command) {
        TRY(text_record_set(context, keys, values, "command", training->command));
    }
    TRY(record_curve(training, keys, values));
done:
    return status;
}
