/* The state of a training: a safetensors file with all that changes, from which the training goes on as if nothing had happened.
 *
 *     LAYER.KIND.PART     of each parameter that training changes: value and, if steps change it, its moments
 *     head.PART           the same of the head: W and then b
 *     best.network, best.head    the values after the best epoch, if there is one; the network's, if any of it is trained
 *     results             loss, validation mAP and seconds of each epoch that is done
 *     position, sums      struct training_position
 *
 * Its metadata say which training it is: the settings, checksums of the checkpoint, of the pictures' ids and of their labels, what
 * computes, and the number of threads, on which the last bits depend. */
#include "train/training.h"

#include "common/number.h"
#include "data/dataset.h"
#include "format/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { STATE_VERSION = 1, MOST_THREADS = 4096 };

static const char state_format[] = "l3a-training", identity_prefix[] = "training.";
static const char start_anew[] = "delete the file, and the training starts from the beginning";
static const char *const part_names[] = {
    [PARAMETER_VALUE] = "value", [PARAMETER_GRADIENT] = "gradient", [PARAMETER_MOMENT] = "moment", [PARAMETER_SQUARE] = "square"};
static const enum parameter_part parts[] = {PARAMETER_VALUE, PARAMETER_MOMENT, PARAMETER_SQUARE};
enum { PARTS = sizeof parts / sizeof *parts, POSITIONS = 3, SUMS = 2, NAME = 48 };

_Static_assert(sizeof(struct epoch_result) == 3 * sizeof(double), "the results are a matrix of doubles");

/* How many of the parts a parameter has. SGD does not use the second moment, which is then not kept. */
static size_t parts_of(const struct training *training, bool stepped) {
    return !stepped ? 1 : training->settings.optimiser == OPTIMISER_SGD ? 2 : 3;
}

/* ---- Which training it is ---- */

static l3a_status identify_pictures(const struct training *training, text_list *keys, text_list *values) {
    static const char *const names[] = {"pictures", "validation pictures"};
    const struct examples *const sets[] = {&training->train, &training->held};
    l3a_status status = L3A_OK;
    char text[48];
    uint64_t checksum;
    for (size_t i = 0; i < 2; i++) {
        TRY(examples_checksum(training->context, sets[i], &checksum));
        snprintf(text, sizeof text, "%zu (%016" PRIx64 ")", sets[i]->count, checksum);
        TRY(text_record_set(training->context, keys, values, names[i], text));
    }
done:
    return status;
}

static l3a_status identify_classes(const struct training *training, text_list *keys, text_list *values) {
    text_builder names = {.context = training->context};
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < training->classes.count; i++) {
        text_builder_print(&names, "%s%s", i ? "\n" : "", training->classes.items[i]);
    }
    TRY(names.status);
    TRY(text_record_set(training->context, keys, values, "classes", names.text));
done:
    text_builder_free(&names);
    return status;
}

static l3a_status identify(const struct training *training, text_list *keys, text_list *values) {
    l3a_context *context = training->context;
    char described[256] = "", pictures[64];
    const struct {
        const char *key, *value;
    } items[] = {{"network", training->info.name},
                 {"preprocess", training->info.preprocess},
                 {"pool", training->info.pool ? training->info.pool : ""},
                 {"kind of network", training->info.network},
                 {"decoding", pictures},
                 {"engine", training->back_end->name},
                 {"numbers", training->numbers == NUMBER_FLOAT32 ? "float32" : "bf16"},
                 {"device and libraries", described},
                 {"checkpoint", training->sha256}};
    l3a_status status = L3A_OK;
    if (training->back_end->describe) {
        training->back_end->describe(training->state, training->settings.batch, described, sizeof described);
    }
    snprintf(pictures, sizeof pictures, "orient %d, limit %" PRIu64, training->picture.orient != 0, training->picture.pixel_limit);
    TRY(settings_record(context, &training->settings, keys, values));
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        TRY(text_record_set(context, keys, values, items[i].key, items[i].value));
    }
    TRY(identify_pictures(training, keys, values));
    TRY(identify_classes(training, keys, values));
done:
    return status;
}

/* ---- Writing ---- */

/* The parts of a parameter come from the back end, one after another. */
struct parameter_fill {
    struct training *training;
    float *values; /* of the part that is being written; all share this */
    const struct changed_parameter *changed;
    enum parameter_part part;
};

static l3a_status fill_from_back_end(void *argument, uint64_t offset, void *bytes, size_t count) {
    const struct parameter_fill *fill = argument;
    l3a_status status = L3A_OK;
    if (offset == 0) {
        TRY(fill->training->back_end->read(fill->training->state, fill->changed->layer, fill->changed->kind, fill->part,
                                           fill->values));
    }
    memcpy(bytes, (const char *)fill->values + offset, count);
done:
    return status;
}

struct state_writing {
    struct training *training;
    tensor_source *sources;
    size_t count;
    char (*names)[NAME];
    struct parameter_fill *fills;
    float *values;
    int64_t position[POSITIONS];
    double sums[SUMS];
};

static tensor_source *add_source(struct state_writing *writing, const char *name, tensor_type type, size_t count) {
    tensor_source *source = &writing->sources[writing->count];
    snprintf(writing->names[writing->count], NAME, "%s", name);
    *source = (tensor_source){.name = writing->names[writing->count], .type = type, .rank = 1, .shape = {count}};
    writing->count++;
    return source;
}

static void add_memory(struct state_writing *writing, const char *name, tensor_type type, size_t count, void *numbers) {
    tensor_source *source = add_source(writing, name, type, count);
    source->fill = fill_from_memory;
    source->argument = numbers;
}

static void name_part(const struct changed_parameter *changed, enum parameter_part part, char name[NAME]) {
    snprintf(name, NAME, "%zu.%d.%s", changed->layer, (int)changed->kind, part_names[part]);
}

static void list_sources(struct state_writing *writing) {
    struct training *training = writing->training;
    float *const head[PARTS] = {training->head.values, training->head.moment, training->head.square};
    char name[NAME];
    for (size_t i = 0; i < training->selection.count; i++) {
        const struct changed_parameter *changed = &training->selection.changed[i];
        for (size_t part = 0; part < parts_of(training, changed->stepped); part++) {
            struct parameter_fill *fill = &writing->fills[writing->count];
            *fill = (struct parameter_fill){training, writing->values, changed, parts[part]};
            name_part(changed, parts[part], name);
            tensor_source *source = add_source(writing, name, TENSOR_F32, changed->count);
            source->fill = fill_from_back_end;
            source->argument = fill;
        }
    }
    for (size_t part = 0; part < parts_of(training, true); part++) {
        snprintf(name, sizeof name, "head.%s", part_names[parts[part]]);
        add_memory(writing, name, TENSOR_F32, training->head.numbers, head[part]);
    }
    if (training->position.best) {
        if (training->best) {
            add_memory(writing, "best.network", TENSOR_F32, training->selection.numbers, training->best);
        }
        add_memory(writing, "best.head", TENSOR_F32, training->head.numbers, training->best_head);
    }
    add_memory(writing, "results", TENSOR_F64, 3 * (size_t)training->position.epochs, training->results);
    add_memory(writing, "position", TENSOR_I64, POSITIONS, writing->position);
    add_memory(writing, "sums", TENSOR_F64, SUMS, writing->sums);
}

static l3a_status describe_state(const struct training *training, text_list *keys, text_list *values) {
    l3a_context *context = training->context;
    text_list own_keys = {0}, own_values = {0};
    l3a_status status = L3A_OK;
    char text[NUMBER_TEXT], key[96];
    TRY(text_record_set(context, keys, values, "format", state_format));
    snprintf(text, sizeof text, "%d", STATE_VERSION);
    TRY(text_record_set(context, keys, values, "version", text));
    snprintf(text, sizeof text, "%d", context->threads);
    TRY(text_record_set(context, keys, values, "threads", text));
    TRY(text_record_set(context, keys, values, "command", training->command ? training->command : ""));
    TRY(identify(training, &own_keys, &own_values));
    for (size_t i = 0; i < own_keys.count; i++) {
        snprintf(key, sizeof key, "%s%s", identity_prefix, own_keys.items[i]);
        TRY(text_record_set(context, keys, values, key, own_values.items[i]));
    }
done:
    text_list_clear(context, &own_keys);
    text_list_clear(context, &own_values);
    return status;
}

l3a_status training_state_write(struct training *training) {
    l3a_context *context = training->context;
    const struct training_position *position = &training->position;
    struct state_writing writing = {.training = training,
                                    .position = {(int64_t)position->steps, (int64_t)position->epochs, (int64_t)position->best},
                                    .sums = {position->sum, position->seconds}};
    const size_t most = PARTS * (training->selection.count + 1) + 5;
    text_list keys = {0}, values = {0};
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, most, sizeof *writing.sources, &writing.sources));
    TRY(allocate_zeroed(context, most, sizeof *writing.names, &writing.names));
    TRY(allocate_zeroed(context, most, sizeof *writing.fills, &writing.fills));
    TRY(allocate(context, training->selection.largest, sizeof *writing.values, &writing.values));
    list_sources(&writing);
    TRY(describe_state(training, &keys, &values));
    TRY(safetensors_write(context, training->path, &keys, &values, writing.sources, writing.count));
    training->saved = clock_seconds();
done:
    release(context, writing.sources);
    release(context, writing.names);
    release(context, writing.fills);
    release(context, writing.values);
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
    return status;
}

/* ---- Reading ---- */

/* Opens a file, which must be the state of a training. */
static l3a_status open_state(l3a_context *context, const char *path, safetensors *file) {
    l3a_status status = L3A_OK;
    uint64_t number;
    TRY(safetensors_open(context, path, file));
    const char *format = safetensors_metadata(file, "format"), *version = safetensors_metadata(file, "version");
    FAIL_IF(!format || strcmp(format, state_format) != 0 || !file->summed || !version ||
                !integer_parse(version, strlen(version), &number),
            context, L3A_ERROR_FORMAT, "give the state another path", "%s: not the state of a training", path);
    FAIL_IF(number > STATE_VERSION, context, L3A_ERROR_VERSION, "resume with the version that began the training",
            "%s: a state of version %s, which this version of l3a does not know", path, version);
done:
    return status;
}

l3a_status training_state_threads(l3a_context *context, const char *path, int *threads) {
    safetensors file = {0};
    l3a_status status = L3A_OK;
    uint64_t number;
    TRY(open_state(context, path, &file));
    const char *text = safetensors_metadata(&file, "threads");
    FAIL_IF(!text || !integer_parse(text, strlen(text), &number) || number < 1 || number > MOST_THREADS, context, L3A_ERROR_FORMAT,
            start_anew, "%s: the number of threads is missing", path);
    *threads = (int)number;
done:
    safetensors_close(&file);
    return status;
}

static l3a_status check_identity(const struct training *training, const safetensors *file) {
    l3a_context *context = training->context;
    text_list keys = {0}, values = {0};
    l3a_status status = L3A_OK;
    char key[96];
    TRY(identify(training, &keys, &values));
    for (size_t i = 0; i < keys.count; i++) {
        snprintf(key, sizeof key, "%s%s", identity_prefix, keys.items[i]);
        const char *found = safetensors_metadata(file, key), *wanted = values.items[i];
        if (!found || strcmp(found, wanted) != 0) {
            const bool shown = found && !strchr(found, '\n') && strlen(found) + strlen(wanted) < 160;
            status = fail(context, L3A_ERROR_MISMATCH,
                          "resume with the options, pictures and checkpoint of before, or delete the file to begin anew",
                          shown ? "%s: the state of another training: %s: %s then, %s now"
                                : "%s: the state of another training: %s: not the same",
                          file->input.path, keys.items[i], found, wanted);
            goto done;
        }
    }
done:
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
    return status;
}

/* Reads a tensor of so many numbers. */
static l3a_status take(const safetensors *file, const char *name, tensor_type type, size_t count, void *numbers) {
    const struct tensor *tensor;
    l3a_status status = L3A_OK;
    TRY(safetensors_expect(file, name, 1, (const uint64_t[]){count}, &tensor));
    FAIL_IF(tensor->type != type || !safetensors_is_summed(file, tensor), file->context, L3A_ERROR_FORMAT, start_anew,
            "%s: tensor '%s' is not one of a state", file->input.path, name);
    TRY(safetensors_verify_tensor(file, tensor));
    TRY(input_read(&file->input, tensor->offset, numbers, (size_t)tensor->bytes));
done:
    return status;
}

static l3a_status take_position(struct training *training, const safetensors *file) {
    struct training_position *position = &training->position;
    int64_t numbers[POSITIONS];
    double sums[SUMS];
    l3a_status status = L3A_OK;
    TRY(take(file, "position", TENSOR_I64, POSITIONS, numbers));
    TRY(take(file, "sums", TENSOR_F64, SUMS, sums));
    const int64_t steps = numbers[0], epochs = numbers[1], best = numbers[2], each = (int64_t)training->steps;
    FAIL_IF(steps < 0 || epochs < 0 || epochs > (int64_t)training->settings.epochs || best < 0 || best > epochs ||
                steps < epochs * each || steps > (epochs + 1) * each || (best && !training->best_head),
            training->context, L3A_ERROR_FORMAT, start_anew, "%s: no training comes to this point", file->input.path);
    *position = (struct training_position){(uint64_t)steps, (uint64_t)epochs, (uint64_t)best, sums[0], sums[1]};
    TRY(take(file, "results", TENSOR_F64, 3 * (size_t)epochs, training->results));
done:
    return status;
}

static l3a_status take_values(struct training *training, const safetensors *file) {
    l3a_context *context = training->context;
    float *const head[PARTS] = {training->head.values, training->head.moment, training->head.square};
    float *values = NULL;
    l3a_status status = L3A_OK;
    char name[NAME];
    TRY(allocate(context, training->selection.largest, sizeof *values, &values));
    for (size_t i = 0; i < training->selection.count; i++) {
        const struct changed_parameter *changed = &training->selection.changed[i];
        for (size_t part = 0; part < parts_of(training, changed->stepped); part++) {
            name_part(changed, parts[part], name);
            TRY(take(file, name, TENSOR_F32, changed->count, values));
            TRY(training->back_end->write(training->state, changed->layer, changed->kind, parts[part], values));
        }
    }
    for (size_t part = 0; part < parts_of(training, true); part++) {
        snprintf(name, sizeof name, "head.%s", part_names[parts[part]]);
        TRY(take(file, name, TENSOR_F32, training->head.numbers, head[part]));
    }
    if (training->position.best) {
        if (training->best) {
            TRY(take(file, "best.network", TENSOR_F32, training->selection.numbers, training->best));
        }
        TRY(take(file, "best.head", TENSOR_F32, training->head.numbers, training->best_head));
    }
done:
    release(context, values);
    return status;
}

/* The checkpoint of a training that was interrupted is that of one that was not: it records the first command. */
static l3a_status take_command(struct training *training, const safetensors *file) {
    const char *command = safetensors_metadata(file, "command");
    release(training->context, training->command);
    training->command = NULL;
    return command && *command ? copy_text(training->context, command, strlen(command), &training->command) : L3A_OK;
}

l3a_status training_state_read(struct training *training) {
    safetensors file = {0};
    l3a_status status = L3A_OK;
    TRY(open_state(training->context, training->path, &file));
    TRY(check_identity(training, &file));
    TRY(take_position(training, &file));
    TRY(take_values(training, &file));
    TRY(take_command(training, &file));
done:
    safetensors_close(&file);
    return status;
}
