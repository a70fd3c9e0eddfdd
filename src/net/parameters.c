/* Finds tensors by name, and checks that they have the shape that a description expects. */
#include "net/parameters.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct checkpoint_tensor *checkpoint_tensor_at(const void *owner, size_t index) {
    return checkpoint_at(owner, index);
}

static l3a_status checkpoint_tensor_read(void *owner, const struct checkpoint_tensor *tensor, float *values) {
    return checkpoint_read(owner, tensor, values);
}

void parameter_source_checkpoint(struct checkpoint *checkpoint, struct parameter_source *source) {
    *source = (struct parameter_source){.owner = checkpoint,
                                        .count = checkpoint_count(checkpoint),
                                        .at = checkpoint_tensor_at,
                                        .read = checkpoint_tensor_read,
                                        .file = checkpoint};
}

l3a_status parameters_open(l3a_context *context, const struct parameter_source *source, struct parameters *parameters) {
    l3a_status status = L3A_OK;
    char **names = NULL;
    *parameters = (struct parameters){.context = context, .source = *source};
    TRY(allocate_zeroed(context, source->count, sizeof *parameters->used, &parameters->used));
    TRY(allocate_zeroed(context, source->count, sizeof *parameters->skipped, &parameters->skipped));
    TRY(allocate(context, source->count, sizeof *names, &names));
    for (size_t i = 0; i < source->count; i++) {
        names[i] = (char *)source->at(source->owner, i)->name;
    }
    TRY(text_index_make(context, names, source->count, &parameters->names));
done:
    release(context, names);
    return status;
}

void parameters_close(struct parameters *parameters) {
    if (parameters->context) {
        release(parameters->context, parameters->used);
        release(parameters->context, parameters->skipped);
        text_index_free(parameters->context, &parameters->names);
    }
    *parameters = (struct parameters){0};
}

static size_t find_index(const struct parameters *parameters, const char *name) {
    return text_index_find(&parameters->names, name);
}

const struct checkpoint_tensor *parameters_find(const struct parameters *parameters, const char *name) {
    const size_t index = find_index(parameters, name);
    return index < parameters->source.count ? parameters->source.at(parameters->source.owner, index) : NULL;
}

size_t parameters_count_parts(const struct parameters *parameters, const char *prefix) {
    const size_t length = strlen(prefix);
    size_t parts = 0;
    for (size_t i = 0; i < parameters->source.count; i++) {
        const char *name = parameters->source.at(parameters->source.owner, i)->name;
        if (strncmp(name, prefix, length) == 0 && name[length] >= '0' && name[length] <= '9') {
            char *end = NULL;
            const unsigned long number = strtoul(name + length, &end, 10);
            if (*end == '.' && number < 1000 && number + 1 > parts) {
                parts = number + 1;
            }
        }
    }
    return parts;
}

const char *shape_text(size_t rank, const uint64_t *shape, char text[SHAPE_TEXT]) {
    size_t length = (size_t)snprintf(text, SHAPE_TEXT, "[");
    for (size_t i = 0; i < rank && length < SHAPE_TEXT; i++) {
        length += (size_t)snprintf(text + length, SHAPE_TEXT - length, "%s%" PRIu64, i ? ", " : "", shape[i]);
    }
    if (length < SHAPE_TEXT) {
        snprintf(text + length, SHAPE_TEXT - length, "]");
    }
    return text;
}

/* " (… in this file)", or nothing if the file has the same name. */
static const char *in_file(const struct parameters *parameters, const char *name, char text[NAME_IN_FILE + 32]) {
    const struct parameter_source *source = &parameters->source;
    char other[NAME_IN_FILE];
    *text = '\0';
    if (source->name_in_file && source->name_in_file(source->owner, name, other)) {
        snprintf(text, NAME_IN_FILE + 32, " (%s in this file)", other);
    }
    return text;
}

static l3a_status make(const struct parameters *parameters, const char *name, size_t rank, const uint64_t *shape, float **values) {
    l3a_context *context = parameters->context;
    l3a_status status = L3A_OK;
    float *made = NULL;
    uint64_t count = 1;
    for (size_t i = 0; i < rank; i++) {
        FAIL_IF(!multiply_sizes(count, shape[i], &count), context, L3A_ERROR_MEMORY, NULL, "the tensor %s is too large", name);
    }
    TRY(allocate(context, count, sizeof *made, &made));
    TRY(parameters->maker.make(parameters->maker.owner, name, rank, shape, made));
    *values = made;
    made = NULL;
done:
    release(context, made);
    return status;
}

l3a_status parameters_take(struct parameters *parameters, const char *name, size_t rank, const uint64_t *shape, float **values) {
    l3a_context *context = parameters->context;
    const size_t index = find_index(parameters, name);
    char expected[SHAPE_TEXT], found[SHAPE_TEXT], other[NAME_IN_FILE + 32];
    l3a_status status = L3A_OK;
    float *made = NULL;
    if (index == parameters->source.count && parameters->maker.make) {
        return make(parameters, name, rank, shape, values);
    }
    FAIL_IF(index == parameters->source.count, context, L3A_ERROR_MISMATCH,
            "check that the checkpoint is complete and belongs to this network",
            "the tensor %s%s is missing; expected one of shape %s", name, in_file(parameters, name, other),
            shape_text(rank, shape, expected));
    const struct checkpoint_tensor *tensor = parameters->source.at(parameters->source.owner, index);
    FAIL_IF(tensor->rank != rank || memcmp(tensor->shape, shape, rank * sizeof *shape), context, L3A_ERROR_MISMATCH, NULL,
            "the tensor %s%s has shape %s; expected %s", name, in_file(parameters, name, other),
            shape_text(tensor->rank, tensor->shape, found), shape_text(rank, shape, expected));
    FAIL_IF(*tensor->type == 'I' || *tensor->type == 'U', context, L3A_ERROR_MISMATCH,
            "use a checkpoint whose tensors are floats: F32, F16 or BF16",
            "the tensor %s%s has integers (%s), as quantised checkpoints do, and they are not the network's own numbers", name,
            in_file(parameters, name, other), tensor->type);
    TRY(allocate(context, (size_t)tensor->elements, sizeof *made, &made));
    TRY(parameters->source.read(parameters->source.owner, tensor, made));
    parameters->used[index] = true;
    *values = made;
    made = NULL;
done:
    release(context, made);
    return status;
}

void parameters_skip(struct parameters *parameters, const char *prefix) {
    const size_t length = strlen(prefix);
    for (size_t i = 0; i < parameters->source.count; i++) {
        const char *name = parameters->source.at(parameters->source.owner, i)->name;
        parameters->skipped[i] = parameters->skipped[i] || strncmp(name, prefix, length) == 0;
    }
}

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

bool parameter_is_of_classifier(const char *name) {
    static const char *const classifiers[] = {"head.", "head_dist.", "fc.", "classifier."};
    bool found = false;
    for (size_t i = 0; i < sizeof classifiers / sizeof *classifiers; i++) {
        found = found || strncmp(name, classifiers[i], strlen(classifiers[i])) == 0;
    }
    return found;
}

static bool may_be_ignored(const char *name) {
    return parameter_is_of_classifier(name) || ends_with(name, "num_batches_tracked");
}

l3a_status parameters_check_all_used(const struct parameters *parameters, const char *network) {
    for (size_t i = 0; i < parameters->source.count; i++) {
        const struct checkpoint_tensor *tensor = parameters->source.at(parameters->source.owner, i);
        if (!parameters->used[i] && !parameters->skipped[i] && !may_be_ignored(tensor->name)) {
            char found[SHAPE_TEXT], other[NAME_IN_FILE + 32];
            return fail(parameters->context, L3A_ERROR_MISMATCH,
                        "use a checkpoint of a supported network; this one may be a variant of it",
                        "the tensor %s%s of shape %s is not part of %s", tensor->name, in_file(parameters, tensor->name, other),
                        shape_text(tensor->rank, tensor->shape, found), network);
        }
    }
    return L3A_OK;
}
