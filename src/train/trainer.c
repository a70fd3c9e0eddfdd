#include "train/trainer.h"

#include "base/machine.h"
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
static l3a_status choose_numbers(struct trainer *trainer) {
    l3a_context *context = trainer->context;
    const l3a_network_precision asked = trainer->backbone.precision;
    const struct network_use use = {.training = true, .numbers = NUMBER_BFLOAT16};
    const bool can = network_back_end_supports(trainer->back_end, &use);
    l3a_status status = L3A_OK;
    FAIL_IF(asked == L3A_NETWORK_FLOAT16, context, L3A_ERROR_OPTION, "train in bf16 or float32",
            "float16 has too few exponents for gradients");
    trainer->numbers = can && asked != L3A_NETWORK_FLOAT32 ? NUMBER_BFLOAT16 : NUMBER_FLOAT32;
    if (asked == L3A_NETWORK_BF16 && !can) {
        report_warning(context, "%s cannot train in bf16 here, so it trains in float32", trainer->back_end->name);
    }
    trainer->backbone.precision = L3A_NETWORK_FLOAT32; /* of features, about which training says nothing */
done:
    return status;
}

static l3a_status read_network(struct trainer *trainer, const char *path) {
    struct parameter_source source;
    l3a_status status = L3A_OK;
    TRY(checkpoint_open(trainer->context, path, &trainer->checkpoint));
    parameter_source_checkpoint(trainer->checkpoint, &source);
    status = backbone_read(trainer->context, &source, &trainer->backbone, &trainer->reading);
    if (status != L3A_OK) {
        return fail_in(trainer->context, status, "%s", checkpoint_path(trainer->checkpoint));
    }
    trainer->reading.network.output_count = 1; /* the features */
    recipe_describe(trainer->reading.family, &trainer->reading.recipe, &trainer->info);
    trainer->info.width = trainer->reading.network.shapes[trainer->reading.network.outputs[0].value].channels;
    TRY(selection_make(&trainer->reading.network, &trainer->settings, &trainer->selection));
done:
    return status;
}

static struct network_use use_of(const struct trainer *trainer, uint64_t memory) {
    return (struct network_use){.training = true,
                                .pictures = trainer->settings.batch,
                                .numbers = trainer->numbers,
                                .parameters = (const struct parameter_use(*)[PARAMETER_KINDS])trainer->selection.uses,
                                .memory = memory};
}

static uint64_t memory_limit(const struct trainer *trainer, const l3a_train_options *options) {
    const l3a_context *context = trainer->context;
    if (options->memory) {
        return options->memory;
    }
    if (trainer->back_end == network_back_end_of_device(context)) {
        return context->options.device_memory_limit; /* 0: the back end knows what is free */
    }
    return context->options.memory_limit ? context->options.memory_limit : machine_memory_available();
}

static l3a_status plan_memory(struct trainer *trainer, const l3a_train_options *options) {
    l3a_context *context = trainer->context;
    const uint64_t limit = memory_limit(trainer, options);
    const struct network_use use = use_of(trainer, limit);
    l3a_status status = L3A_OK;
    TRY(trainer->back_end->plan(&trainer->reading.network, &use, &trainer->plan));
    FAIL_IF(limit && trainer->plan.bytes > limit, context, L3A_ERROR_MEMORY, "use smaller batches, or train less of the network",
            "training on %zu pictures at a time takes %" PRIu64 " MiB, and %" PRIu64 " MiB are allowed or free",
            trainer->settings.batch, trainer->plan.bytes >> 20, limit >> 20);
done:
    return status;
}

/* ---- The pictures ---- */

static l3a_status name_classes(struct trainer *trainer, const l3a_dataset *train, const l3a_train_options *options) {
    l3a_context *context = trainer->context;
    const size_t count = options->class_count ? options->class_count : l3a_dataset_class_count(train);
    l3a_status status = L3A_OK;
    FAIL_IF(options->class_count && !options->classes, context, L3A_ERROR_ARGUMENT, NULL, "l3a_train: classes is NULL");
    TRY(need_items(context, "l3a_train", "classes", options->classes, options->class_count));
    for (size_t k = 0; k < count; k++) {
        const char *name = options->class_count ? options->classes[k] : l3a_dataset_class(train, k);
        TRY(text_list_add(context, &trainer->classes, name, strlen(name)));
    }
    FAIL_IF(!count, context, L3A_ERROR_DATA, NULL, "%s has no class to learn", train->name);
done:
    return status;
}

static l3a_status choose_pictures(struct trainer *trainer, const l3a_dataset *train, const l3a_dataset *validation,
                                  const l3a_train_options *options) {
    l3a_context *context = trainer->context;
    const char *const *names;
    const bool listed = options->class_count > 0;
    l3a_status status = L3A_OK;
    TRY(name_classes(trainer, train, options));
    names = (const char *const *)trainer->classes.items;
    TRY(examples_choose(context, train, names, trainer->classes.count, listed, &trainer->train));
    FAIL_IF(!trainer->train.count, context, L3A_ERROR_DATA, "check the classes, and the split",
            "%s has no picture with a known label of the classes to learn", train->name);
    if (validation) {
        TRY(examples_choose(context, validation, names, trainer->classes.count, listed, &trainer->held));
    } else {
        TRY(examples_hold(context, trainer->settings.share, random_bits(trainer->settings.seed, STREAM_HELD), &trainer->train,
                          &trainer->held));
    }
    if (trainer->settings.batch > trainer->train.count) {
        trainer->settings.batch = trainer->train.count;
    }
    trainer->steps = (trainer->train.count + trainer->settings.batch - 1) / trainer->settings.batch;
done:
    return status;
}

static l3a_status open_batches(struct trainer *trainer) {
    l3a_loader_options loader;
    l3a_status status = L3A_OK;
    loader_options_for(&trainer->info, &trainer->picture, 1, &loader);
    const struct batches_options options = {.loader = &loader,
                                            .augmentation = trainer->settings.augmentation,
                                            .seed = random_bits(trainer->settings.seed, STREAM_PICTURES),
                                            .batch = trainer->settings.batch,
                                            .shuffled = true};
    const struct batches_options plain = {.loader = &loader, .batch = trainer->settings.batch};
    TRY(batches_open(trainer->context, trainer->train.dataset, trainer->train.rows, trainer->train.count, &options,
                     &trainer->batches));
    if (trainer->held.count) {
        TRY(batches_open(trainer->context, trainer->held.dataset, trainer->held.rows, trainer->held.count, &plain,
                         &trainer->validation));
    }
done:
    return status;
}

/* ---- All of it ---- */

l3a_status trainer_open(l3a_context *context, const struct network_back_end *back_end, const char *checkpoint,
                        const l3a_dataset *train, const l3a_dataset *validation, const l3a_train_options *options,
                        struct trainer *trainer) {
    l3a_status status = L3A_OK;
    *trainer = (struct trainer){.context = context, .back_end = back_end};
    TRY(READ_SIZED(context, options->backbone, trainer->backbone));
    TRY(READ_SIZED(context, options->picture, trainer->picture));
    TRY(settings_complete(context, options, train->name, &trainer->settings));
    TRY(choose_pictures(trainer, train, validation, options));
    FAIL_IF(!back_end->forward, context, L3A_ERROR_STATE, "install oneDNN's development files and build l3a again",
            "%s cannot train networks", back_end->name);
    TRY(choose_numbers(trainer));
    TRY(read_network(trainer, checkpoint));
    TRY(plan_memory(trainer, options));
    if (options->command) {
        TRY(copy_text(context, options->command, strlen(options->command), &trainer->command));
    }
    trainer->save_seconds = options->save_seconds == 0 ? 300 : options->save_seconds;
    trainer->on_epoch = options->on_epoch;
    trainer->epoch_user = options->epoch_user;
done:
    return status;
}

static void list_arrays(struct trainer *trainer, struct array arrays[10]) {
    const size_t batch = trainer->settings.batch, classes = trainer->classes.count, width = trainer->info.width;
    const size_t held = trainer->held.count;
    const bool keeps = held && !trainer->settings.last;
    const struct array list[10] = {
        {&trainer->features, batch * width, sizeof(float), false},
        {&trainer->by_features, batch * width, sizeof(float), false},
        {&trainer->scores, batch * classes, sizeof(float), false},
        {&trainer->by_scores, batch * classes, sizeof(float), false},
        {&trainer->labels, batch * classes, 1, false},
        {&trainer->held_scores, held * classes, sizeof(float), false},
        {&trainer->held_labels, held * classes, 1, false},
        {&trainer->results, trainer->settings.epochs, sizeof *trainer->results, true},
        {&trainer->best, keeps ? trainer->selection.numbers : 0, sizeof(float), false},
        {&trainer->best_head, keeps ? classes * (width + 1) : 0, sizeof(float), false},
    };
    memcpy(arrays, list, sizeof list);
}

l3a_status trainer_start(struct trainer *trainer) {
    l3a_context *context = trainer->context;
    struct array arrays[10];
    l3a_status status = L3A_OK;
    const struct network_use use = use_of(trainer, trainer->plan.recomputes ? trainer->plan.bytes : 0);
    TRY(checkpoint_sha256(trainer->checkpoint, trainer->sha256));
    TRY(linear_head_make(context, trainer->classes.count, trainer->info.width, random_bits(trainer->settings.seed, STREAM_HEAD),
                         &trainer->head));
    list_arrays(trainer, arrays);
    TRY(arrays_allocate(context, arrays, sizeof arrays / sizeof *arrays));
    if (trainer->held.count) {
        examples_labels(&trainer->held, trainer->held.rows, trainer->held.count, trainer->held_labels);
    }
    TRY(open_batches(trainer));
    TRY(trainer->back_end->open(&trainer->reading.network, &use, &trainer->state));
done:
    return status;
}

void trainer_close(struct trainer *trainer) {
    l3a_context *context = trainer->context;
    struct array arrays[10];
    if (trainer->state) {
        trainer->back_end->close(trainer->state);
    }
    list_arrays(trainer, arrays);
    arrays_release(context, arrays, sizeof arrays / sizeof *arrays);
    batches_free(trainer->batches);
    batches_free(trainer->validation);
    linear_head_free(context, &trainer->head);
    examples_free(context, &trainer->train);
    examples_free(context, &trainer->held);
    selection_free(context, &trainer->selection);
    network_free(&trainer->reading.network);
    checkpoint_free(trainer->checkpoint);
    text_list_clear(context, &trainer->classes);
    release(context, trainer->command);
}

/* ---- The result ---- */

l3a_status trainer_value(void *owner, size_t layer, enum parameter_kind kind, float *values) {
    const struct trainer *trainer = owner;
    const struct changed_parameter *changed = selection_find(&trainer->selection, layer, kind);
    const struct parameter *parameter = &trainer->reading.network.layers[layer].parameters[kind];
    if (changed && !trainer->position.best) {
        return trainer->back_end->read(trainer->state, layer, kind, PARAMETER_VALUE, values);
    }
    memcpy(values, changed ? trainer->best + changed->first : parameter->values, parameter->count * sizeof *values);
    return L3A_OK;
}

const float *trainer_head(const struct trainer *trainer) {
    return trainer->position.best ? trainer->best_head : trainer->head.values;
}

/* "1.25 80.5; 0.75 82.25": loss and validation mAP of each epoch. */
static l3a_status record_curve(const struct trainer *trainer, text_list *keys, text_list *values) {
    text_builder curve = {.context = trainer->context};
    l3a_status status = L3A_OK;
    char text[NUMBER_TEXT];
    for (size_t i = 0; i < trainer->position.epochs; i++) {
        text_builder_print(&curve, "%s%s", i ? "; " : "", number_format(trainer->results[i].loss, text));
        if (trainer->held.count) {
            text_builder_print(&curve, " %s", number_format(trainer->results[i].mean_ap, text));
        }
    }
    TRY(curve.status);
    TRY(text_record_set(trainer->context, keys, values, "curve", curve.text ? curve.text : ""));
done:
    text_builder_free(&curve);
    return status;
}

l3a_status trainer_record(const struct trainer *trainer, text_list *keys, text_list *values) {
    l3a_context *context = trainer->context;
    const struct {
        const char *key;
        uint64_t number;
    } counts[] = {{"pictures", trainer->train.count},
                  {"validation pictures", trainer->held.count},
                  {"threads", (uint64_t)context->threads},
                  {"steps", trainer->position.steps},
                  {"epoch", trainer->position.best ? trainer->position.best : trainer->position.epochs}};
    l3a_status status = L3A_OK;
    char text[NUMBER_TEXT];
    TRY(settings_record(context, &trainer->settings, keys, values));
    TRY(text_record_set(context, keys, values, "from", trainer->sha256));
    TRY(text_record_set(context, keys, values, "data", trainer->train.dataset->name));
    TRY(text_record_set(context, keys, values, "split", trainer->train.dataset->split));
    TRY(text_record_set(context, keys, values, "engine", trainer->back_end->name));
    TRY(text_record_set(context, keys, values, "numbers", trainer->numbers == NUMBER_FLOAT32 ? "float32" : "bf16"));
    TRY(text_record_set(context, keys, values, "version", l3a_version()));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        snprintf(text, sizeof text, "%" PRIu64, counts[i].number);
        TRY(text_record_set(context, keys, values, counts[i].key, text));
    }
    if (trainer->command) {
        TRY(text_record_set(context, keys, values, "command", trainer->command));
    }
    TRY(record_curve(trainer, keys, values));
done:
    return status;
}
