/* Writes trained networks. Every tensor of the file that belongs to the tower is listed with the parameters that are put back into
 * it; then a header says what follows, and the numbers are made one tensor at a time while they are written, so that the memory is
 * that of the largest one.
 *
 * A tensor that is not float32 in the file is float32 if training has changed it, and otherwise a copy; only making it tells which,
 * so it is made twice. */
#include "net/write.h"
#include "base/memory.h"
#include "format/safetensors.h"
#include "net/names.h"
#include "net/recipe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char own_checkpoint[] = "give the checkpoint that the network was read from";

/* A parameter of the description in a tensor of the file. */
struct link {
    size_t source, target; /* the tensors' numbers in the file and under timm's names */
    size_t layer;
    enum parameter_kind kind;
};

struct writing {
    l3a_context *context;
    struct checkpoint *from;
    const struct network *network;
    const struct trained_values *values;
    struct parameter_source file;
    struct names *names;
    struct parameters tower; /* under timm's names */
    struct link *links;      /* by source */
    size_t link_count, link_capacity;
    bool *dropped; /* of the file's tensors: it is part of a classifier that no longer fits */
    struct written *tensors;
    tensor_source *sources;
    size_t count;
    void *bytes; /* of the tensor that is being written */
    text_pool head;
    text_list keys, texts;
};

/* A tensor of the new file. */
struct written {
    struct writing *writing;
    size_t source;
    size_t first_link, link_count;
    uint64_t elements;
    bool copied;
};

/* ---- Which parameter goes where ---- */

static l3a_status add_links(struct writing *writing, size_t layer, enum parameter_kind kind, bool *used) {
    const struct parameter *parameter = &writing->network->layers[layer].parameters[kind];
    const struct checkpoint_tensor *tensor = parameters_find(&writing->tower, parameter->name);
    const size_t *sources = NULL;
    l3a_status status = L3A_OK;
    FAIL_IF(!tensor, writing->context, L3A_ERROR_MISMATCH, own_checkpoint, "%s: the tensor %s of the network is not in it",
            checkpoint_path(writing->from), parameter->name);
    const size_t target = (size_t)(tensor - writing->tower.source.at(writing->tower.source.owner, 0));
    const bool positions = writing->network->layers[layer].kind == LAYER_TOKENS && kind == BIAS;
    FAIL_IF(tensor->rank != parameter->rank || (tensor->elements != parameter->count && !positions), writing->context,
            L3A_ERROR_MISMATCH, own_checkpoint, "%s: the tensor %s has other dimensions than in the network",
            checkpoint_path(writing->from), parameter->name);
    const size_t parts = names_made_from(writing->names, target, &sources);
    TRY(grow_array(writing->context, &writing->links, &writing->link_capacity, writing->link_count + parts,
                   sizeof *writing->links));
    for (size_t i = 0; i < parts; i++) {
        writing->links[writing->link_count++] = (struct link){sources[i], target, layer, kind};
    }
    used[target] = true;
done:
    return status;
}

static int compare_links(const void *left, const void *right) {
    const struct link *a = left, *b = right;
    return a->source != b->source ? (a->source > b->source) - (a->source < b->source)
                                  : (a->target > b->target) - (a->target < b->target);
}

/* What belongs to a classifier, if the network does not have it. */
static void drop_classifiers(struct writing *writing, const bool *used) {
    const struct parameter_source *tower = &writing->tower.source;
    const size_t *sources = NULL;
    for (size_t i = 0; i < tower->count; i++) {
        if (!used[i] && parameter_is_of_classifier(tower->at(tower->owner, i)->name)) {
            const size_t parts = names_made_from(writing->names, i, &sources);
            for (size_t j = 0; j < parts; j++) {
                writing->dropped[sources[j]] = true;
            }
        }
    }
}

static l3a_status link_parameters(struct writing *writing) {
    const struct network *network = writing->network;
    bool *used = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(writing->context, writing->tower.source.count, sizeof *used, &used));
    TRY(allocate_zeroed(writing->context, writing->file.count, sizeof *writing->dropped, &writing->dropped));
    for (size_t layer = 0; layer < network->layer_count; layer++) {
        for (size_t kind = 0; kind < PARAMETER_KINDS; kind++) {
            const struct parameter *parameter = &network->layers[layer].parameters[kind];
            FAIL_IF(parameter->values && !parameter->name, writing->context, L3A_ERROR_ARGUMENT, "write what backbone_read() gave",
                    "a network that was fused has no parameters of its file any more");
            TRY(parameter->name ? add_links(writing, layer, (enum parameter_kind)kind, used) : L3A_OK);
        }
    }
    if (writing->link_count) {
        qsort(writing->links, writing->link_count, sizeof *writing->links, compare_links);
    }
    drop_classifiers(writing, used);
done:
    release(writing->context, used);
    return status;
}

/* ---- Numbers ---- */

static const struct parameter *parameter_of(const struct writing *writing, const struct link *link) {
    return &writing->network->layers[link->layer].parameters[link->kind];
}

static l3a_status read_parameter(const struct writing *writing, const struct link *link, float *values) {
    const struct parameter *parameter = parameter_of(writing, link);
    l3a_status status = L3A_OK;
    if (writing->values) {
        TRY(writing->values->read(writing->values->owner, link->layer, link->kind, values));
    } else {
        memcpy(values, parameter->values, parameter->count * sizeof *values);
    }
    for (size_t i = 0; i < parameter->count; i++) {
        FAIL_IF(!isfinite(values[i]), writing->context, L3A_ERROR_DATA, "train again with a lower rate",
                "training has made the tensor %s useless: element %zu is %g", parameter->name, i, (double)values[i]);
    }
done:
    return status;
}

/* The numbers of a tensor of the file after training. */
static l3a_status make_values(const struct writing *writing, const struct written *tensor, float **values) {
    l3a_context *context = writing->context;
    float *made = NULL, *whole = NULL;
    uint64_t put = 0;
    l3a_status status = L3A_OK;
    TRY(allocate(context, (size_t)tensor->elements, sizeof *made, &made));
    for (size_t i = 0; i < tensor->link_count; i++) {
        const struct link *link = &writing->links[tensor->first_link + i];
        const size_t count = parameter_of(writing, link)->count;
        TRY(allocate(context, count, sizeof *whole, &whole));
        TRY(read_parameter(writing, link, whole));
        put += names_put(writing->names, link->target, whole, count, tensor->source, made);
        release(context, whole);
        whole = NULL;
    }
    FAIL_IF(put != tensor->elements, context, L3A_ERROR_MISMATCH, own_checkpoint,
            "%s: the network does not have all of the tensor %s", checkpoint_path(writing->from),
            checkpoint_at(writing->from, tensor->source)->name);
    *values = made;
    made = NULL;
done:
    release(context, made);
    release(context, whole);
    return status;
}

/* Fills in the numbers of a tensor from the first to the last. */
static l3a_status fill_tensor(void *argument, uint64_t offset, void *bytes, size_t count) {
    struct written *tensor = argument;
    struct writing *writing = tensor->writing;
    const struct checkpoint_tensor *file = checkpoint_at(writing->from, tensor->source);
    l3a_status status = L3A_OK;
    if (!offset) {
        release(writing->context, writing->bytes);
        writing->bytes = NULL;
        if (tensor->copied) {
            TRY(allocate(writing->context, (size_t)tensor->elements,
                         tensor_type_size(tensor_type_find(file->type, strlen(file->type))), &writing->bytes));
            TRY(checkpoint_read_bytes(writing->from, file, writing->bytes));
        } else {
            float *values = NULL;
            TRY(make_values(writing, tensor, &values));
            writing->bytes = values;
        }
    }
    memcpy(bytes, (const char *)writing->bytes + offset, count);
done:
    return status;
}

/* ---- What is written ---- */

/* Whether training has changed any number of it. */
static l3a_status is_changed(const struct writing *writing, const struct written *tensor, bool *changed) {
    const struct checkpoint_tensor *file = checkpoint_at(writing->from, tensor->source);
    float *values = NULL, *before = NULL;
    l3a_status status = L3A_OK;
    *changed = file->elements != tensor->elements;
    if (!*changed) {
        TRY(make_values(writing, tensor, &values));
        TRY(allocate(writing->context, (size_t)file->elements, sizeof *before, &before));
        TRY(checkpoint_read(writing->from, file, before));
        *changed = memcmp(before, values, (size_t)file->elements * sizeof *before) != 0;
    }
done:
    release(writing->context, values);
    release(writing->context, before);
    return status;
}

/* The dimensions of the file; those of the positions of pictures of another size are the network's. */
static void set_shape(const struct writing *writing, struct written *tensor, tensor_source *source) {
    const struct checkpoint_tensor *file = checkpoint_at(writing->from, tensor->source);
    source->rank = file->rank;
    memcpy(source->shape, file->shape, file->rank * sizeof *file->shape);
    tensor->elements = file->elements;
    if (tensor->link_count == 1 && names_keeps_shape(writing->names, writing->links[tensor->first_link].target)) {
        const struct parameter *parameter = parameter_of(writing, &writing->links[tensor->first_link]);
        for (size_t i = 1; i <= file->rank && i <= parameter->rank; i++) {
            source->shape[file->rank - i] = parameter->shape[parameter->rank - i];
        }
        tensor->elements = parameter->count;
    }
}

static l3a_status add_tensor(struct writing *writing, size_t source, size_t *link) {
    const struct checkpoint_tensor *file = checkpoint_at(writing->from, source);
    struct written *tensor = &writing->tensors[writing->count];
    tensor_source *made = &writing->sources[writing->count++];
    bool changed = false;
    l3a_status status = L3A_OK;
    *tensor = (struct written){.writing = writing, .source = source, .first_link = *link};
    while (*link < writing->link_count && writing->links[*link].source == source) {
        (*link)++;
    }
    tensor->link_count = *link - tensor->first_link;
    *made = (tensor_source){.name = checkpoint_stored_name(writing->from, file),
                            .type = tensor_type_find(file->type, strlen(file->type)),
                            .fill = fill_tensor,
                            .argument = tensor};
    set_shape(writing, tensor, made);
    if (tensor->link_count && made->type != TENSOR_F32) {
        TRY(is_changed(writing, tensor, &changed));
    }
    tensor->copied = !tensor->link_count || (made->type != TENSOR_F32 && !changed);
    made->type = changed ? TENSOR_F32 : made->type;
done:
    return status;
}

static l3a_status add_tensors(struct writing *writing) {
    l3a_status status = L3A_OK;
    size_t link = 0;
    TRY(allocate_zeroed(writing->context, writing->file.count, sizeof *writing->tensors, &writing->tensors));
    TRY(allocate_zeroed(writing->context, writing->file.count + 2, sizeof *writing->sources, &writing->sources));
    for (size_t i = 0; i < writing->file.count; i++) {
        if (names_is_of_tower(writing->names, i) && !writing->dropped[i]) {
            TRY(add_tensor(writing, i, &link));
        }
    }
done:
    return status;
}

/* ---- The classifier ---- */

/* Whether the new file has the tensor NAME.weight already. */
static bool is_taken(const struct writing *writing, const char *name) {
    const size_t length = strlen(name);
    bool taken = false;
    for (size_t i = 0; i < writing->count; i++) {
        const char *other = checkpoint_at(writing->from, writing->tensors[i].source)->name;
        taken = taken || (strncmp(other, name, length) == 0 && strcmp(other + length, ".weight") == 0);
    }
    return taken;
}

/* What the file has before all names: "module.", or nothing. */
static l3a_status add_head_name(struct writing *writing, const char *name, const char *leaf) {
    const struct checkpoint_tensor *first = checkpoint_at(writing->from, writing->tensors[0].source);
    const char *stored = checkpoint_stored_name(writing->from, first);
    text_builder text = {.context = writing->context};
    l3a_status status = L3A_OK;
    text_builder_append(&text, stored, strlen(stored) - strlen(first->name));
    text_builder_print(&text, "%s%s", name, leaf);
    TRY(text.status);
    TRY(text_pool_add(writing->context, &writing->head, text.text, text.length));
done:
    text_builder_free(&text);
    return status;
}

static l3a_status add_head(struct writing *writing, const struct trained_head *head) {
    tensor_source *sources = writing->sources + writing->count;
    text_builder classes = {.context = writing->context};
    char name[NAME_IN_FILE];
    l3a_status status = L3A_OK;
    names_classifier(writing->names, false, name);
    if (is_taken(writing, name)) {
        names_classifier(writing->names, true, name);
    }
    TRY(add_head_name(writing, name, ".weight"));
    TRY(add_head_name(writing, name, ".bias"));
    sources[0] = (tensor_source){text_pool_at(&writing->head, 0),  TENSOR_F32,       2,
                                 {head->class_count, head->width}, fill_from_memory, (void *)head->coefficients};
    writing->count++;
    if (head->bias) {
        sources[1] = (tensor_source){
            text_pool_at(&writing->head, 1), TENSOR_F32, 1, {head->class_count}, fill_from_memory, (void *)head->bias};
        writing->count++;
    }
    for (size_t i = 0; i < head->class_count; i++) {
        text_builder_print(&classes, "%s%s", i ? "\n" : "", head->classes[i]);
    }
    TRY(classes.status);
    TRY(text_record_set(writing->context, &writing->keys, &writing->texts, recorded_classes, classes.text ? classes.text : ""));
done:
    text_builder_free(&classes);
    return status;
}

/* ---- Metadata ---- */

/* How the network is computed is not part of it: it is float32 unless somebody asks for less. */
static l3a_status add_recipe(struct writing *writing, const struct reading *reading) {
    struct backbone_recipe recipe = reading->recipe;
    l3a_backbone_info info = {.size = sizeof info};
    l3a_status status = L3A_OK;
    recipe.precision = L3A_NETWORK_FLOAT32;
    recipe_describe(reading->family, &recipe, &info);
    const char *const records[][2] = {
        {"format", "pt"}, /* transformers demands it */
        {recorded_preprocess, info.preprocess},
        {recorded_pool, info.pool},
        {recorded_network, info.network},
    };
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        if (records[i][1][0]) {
            TRY(text_record_set(writing->context, &writing->keys, &writing->texts, records[i][0], records[i][1]));
        }
    }
done:
    return status;
}

static void writing_close(struct writing *writing) {
    l3a_context *context = writing->context;
    parameters_close(&writing->tower);
    names_close(writing->names);
    release(context, writing->links);
    release(context, writing->dropped);
    release(context, writing->tensors);
    release(context, writing->sources);
    release(context, writing->bytes);
    text_pool_clear(context, &writing->head);
    text_list_clear(context, &writing->keys);
    text_list_clear(context, &writing->texts);
}

l3a_status network_write(l3a_context *context, struct checkpoint *from, const struct reading *reading,
                         const struct trained_values *values, const struct trained_head *head, const char *const (*metadata)[2],
                         size_t metadata_count, const char *path) {
    struct writing writing = {.context = context, .from = from, .network = &reading->network, .values = values};
    struct parameter_source tower;
    l3a_status status = L3A_OK;
    parameter_source_checkpoint(from, &writing.file);
    TRY(names_open(context, &writing.file, &writing.names));
    names_source(writing.names, &tower);
    TRY(parameters_open(context, &tower, &writing.tower));
    TRY(link_parameters(&writing));
    TRY(add_tensors(&writing));
    for (size_t i = 0; i < metadata_count; i++) {
        TRY(text_record_set(context, &writing.keys, &writing.texts, metadata[i][0], metadata[i][1]));
    }
    TRY(add_recipe(&writing, reading));
    TRY(head ? add_head(&writing, head) : L3A_OK);
    TRY(safetensors_write(context, path, &writing.keys, &writing.texts, writing.sources, writing.count));
done:
    writing_close(&writing);
    return status;
}
