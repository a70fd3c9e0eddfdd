#include "train/trained_network.h"

#include "base/memory.h"

#include <string.h>

/* ---- Values that are kept ---- */

static struct kept_value *find_kept(const struct trained_network *net, const char *name) {
    for (size_t i = 0; i < net->kept_count; i++) {
        if (strcmp(net->kept[i].name, name) == 0) {
            return &net->kept[i];
        }
    }
    return NULL;
}

const struct kept_value *trained_network_kept(const struct trained_network *net, size_t index) {
    return index < net->kept_count ? &net->kept[index] : NULL;
}

const struct kept_value *trained_network_find(const struct trained_network *net, const char *name) {
    return find_kept(net, name);
}

/* The last one takes its place. */
static void drop_kept(struct trained_network *net, struct kept_value *kept) {
    release(net->context, kept->name);
    release(net->context, kept->values);
    *kept = net->kept[--net->kept_count];
}

static l3a_status add_kept(struct trained_network *net, const char *name, size_t rank, const uint64_t *shape,
                           struct kept_value **added) {
    l3a_context *context = net->context;
    struct kept_value made = {.rank = rank, .count = 1};
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < rank; i++) {
        made.shape[i] = shape[i];
        made.count *= (size_t)shape[i];
    }
    TRY(grow_array(context, &net->kept, &net->kept_capacity, net->kept_count + 1, sizeof *net->kept));
    TRY(copy_text(context, name, strlen(name), &made.name));
    TRY(allocate_zeroed(context, made.count, sizeof *made.values, &made.values));
    net->kept[net->kept_count] = made;
    *added = &net->kept[net->kept_count++];
    made = (struct kept_value){.name = NULL};
done:
    release(context, made.name);
    release(context, made.values);
    return status;
}

static bool has_shape(const struct kept_value *kept, size_t rank, const uint64_t *shape) {
    return kept && kept->rank == rank && memcmp(kept->shape, shape, rank * sizeof *shape) == 0;
}

l3a_status trained_network_keep(struct trained_network *net, const char *name, size_t rank, const uint64_t *shape,
                                const float *values) {
    struct kept_value *kept = find_kept(net, name);
    l3a_status status = L3A_OK;
    if (kept && !has_shape(kept, rank, shape)) {
        drop_kept(net, kept);
        kept = NULL;
    }
    if (!kept) {
        TRY(add_kept(net, name, rank, shape, &kept));
    }
    memcpy(kept->values, values, kept->count * sizeof *values);
done:
    return status;
}

/* Puts the kept values into the description. */
static void overlay(struct trained_network *net) {
    for (size_t i = 0; i < net->reading.network.layer_count; i++) {
        for (size_t kind = 0; kind < PARAMETER_KINDS; kind++) {
            struct parameter *parameter = &net->reading.network.layers[i].parameters[kind];
            const struct kept_value *kept = parameter->values && parameter->name ? find_kept(net, parameter->name) : NULL;
            if (kept && kept->count == parameter->count) {
                memcpy(parameter->values, kept->values, kept->count * sizeof *kept->values);
            }
        }
    }
}

/* ---- Descriptions ---- */

/* A value that the method has made before is as it was kept. The method makes the others, and those whose shape has changed, and
 * they are kept at once. */
static l3a_status make_value(void *owner, const char *name, size_t rank, const uint64_t *shape, float *values) {
    struct trained_network *net = owner;
    struct kept_value *kept = find_kept(net, name);
    l3a_status status = L3A_OK;
    if (has_shape(kept, rank, shape)) {
        memcpy(values, kept->values, kept->count * sizeof *values);
        return L3A_OK;
    }
    FAIL_IF(!net->plan.changes.make, net->context, L3A_ERROR_MISMATCH,
            "check that the checkpoint is complete and belongs to this network", "the tensor %s is missing", name);
    TRY(net->plan.changes.make(net->plan.changes.owner, name, rank, shape, values));
    if (kept) {
        drop_kept(net, kept);
    }
    TRY(trained_network_keep(net, name, rank, shape, values));
done:
    return status;
}

static value describe_changed(void *owner, struct network *net, const struct family *family, const struct backbone_recipe *recipe) {
    const struct network_changes *changes = &((struct trained_network *)owner)->plan.changes;
    return changes->describe ? changes->describe(changes->owner, net, family, recipe) : family->describe(net, recipe);
}

/* The last feature map of a network: its tokens after the last norm or, without tokens, that of its last stage. */
static value find_output(const struct network *network, const char *name) {
    const bool map = strcmp(name, OUTPUT_MAP) == 0;
    const value found = network_find_output(network, map ? "tokens" : name);
    return map && found == NOTHING ? network_find_output(network, "stage4") : found;
}

/* Leaves the features and the outputs that the method looks at. */
static l3a_status choose_outputs(struct trained_network *net) {
    struct network *network = &net->reading.network;
    l3a_status status = L3A_OK;
    struct network_output chosen[NETWORK_OUTPUTS] = {network->outputs[0]};
    size_t count = 1;
    for (; count < NETWORK_OUTPUTS && net->plan.outputs[count - 1]; count++) {
        const char *name = net->plan.outputs[count - 1];
        const value found = find_output(network, name);
        FAIL_IF(found == NOTHING, net->context, L3A_ERROR_MISMATCH, "use a network that has stages or tokens",
                "this method looks at the output '%s', which a %s does not have", name, net->reading.family->name);
        chosen[count] = (struct network_output){name, found};
    }
    memcpy(network->outputs, chosen, sizeof chosen);
    network->output_count = count;
done:
    return status;
}

static void drop_description(struct trained_network *net) {
    network_free(&net->reading.network);
    selection_free(net->context, &net->selection);
}

static l3a_status describe_anew(struct trained_network *net) {
    struct parameter_source tensors;
    const struct network_changes changes = {net, describe_changed, make_value};
    l3a_status status = L3A_OK;
    drop_description(net);
    parameter_source_checkpoint(net->source->checkpoint, &tensors);
    status = backbone_read_changed(net->context, &tensors, &net->source->backbone, &changes, &net->reading);
    if (status != L3A_OK) {
        fail_in(net->context, status, "%s", checkpoint_path(net->source->checkpoint));
        goto done;
    }
    TRY(choose_outputs(net));
    overlay(net);
    TRY(selection_make_with(&net->reading.network, &net->settings, net->plan.trains, net->plan.changes.owner, &net->selection));
done:
    if (status != L3A_OK) {
        drop_description(net);
    }
    return status;
}

l3a_status trained_network_describe(struct trained_network *net) {
    return net->reading.network.layer_count ? L3A_OK : describe_anew(net);
}

size_t trained_network_outputs(const struct trained_network *net) {
    return net->reading.network.output_count;
}

struct shape trained_network_shape(const struct trained_network *net, size_t output) {
    return net->reading.network.shapes[net->reading.network.outputs[output].value];
}

size_t trained_network_prefix(const struct trained_network *net) {
    const struct network *network = &net->reading.network;
    size_t prefix = 0;
    for (size_t i = 0; i < network->layer_count; i++) {
        prefix = network->layers[i].kind == LAYER_TOKENS ? network->layers[i].prefix : prefix;
    }
    return prefix;
}

/* ---- Opening ---- */

void trained_network_open(l3a_context *context, const struct training_source *source, const struct network_plan_of_method *plan,
                          const struct train_settings *settings, size_t batch, struct trained_network *net) {
    *net = (struct trained_network){.context = context, .source = source, .plan = *plan, .settings = *settings, .batch = batch};
}

static void close_state(struct trained_network *net, void **state) {
    if (*state) {
        net->source->back_end->close(*state);
    }
    *state = NULL;
}

void trained_network_close(struct trained_network *net) {
    if (!net->context) {
        return;
    }
    close_state(net, &net->state);
    close_state(net, &net->old);
    drop_description(net);
    for (size_t i = 0; i < net->kept_count; i++) {
        release(net->context, net->kept[i].name);
        release(net->context, net->kept[i].values);
    }
    release(net->context, net->kept);
    *net = (struct trained_network){.context = NULL};
}

/* trained NULL: only to run it. It is not fused, so that it gives the same numbers as the one that is trained. */
static l3a_status open_state(const struct trained_network *net, const struct selection *trained, void **state) {
    const struct network *network = &net->reading.network;
    struct parameter_use(*uses)[PARAMETER_KINDS] = NULL;
    l3a_status status = L3A_OK;
    if (!trained) {
        TRY(allocate_zeroed(net->context, network->layer_count, sizeof *uses, &uses));
    }
    const struct network_use use = {.training = true,
                                    .pictures = net->batch,
                                    .numbers = NUMBER_FLOAT32,
                                    .memory = net->source->memory,
                                    .parameters = (const struct parameter_use(*)[PARAMETER_KINDS])(trained ? trained->uses : uses)};
    TRY(net->source->back_end->open(network, &use, state));
done:
    release(net->context, uses);
    return status;
}

l3a_status trained_network_keep_old(struct trained_network *net) {
    l3a_status status = L3A_OK;
    close_state(net, &net->old);
    TRY(trained_network_describe(net));
    overlay(net);
    for (size_t i = 0; i < trained_network_outputs(net); i++) {
        net->old_shapes[i] = trained_network_shape(net, i);
    }
    TRY(open_state(net, NULL, &net->old));
done:
    return status;
}

l3a_status trained_network_begin(struct trained_network *net) {
    l3a_status status = L3A_OK;
    close_state(net, &net->state);
    net->training = true;
    TRY(describe_anew(net));
    TRY(open_state(net, &net->selection, &net->state));
done:
    net->training = status == L3A_OK;
    return status;
}

l3a_status trained_network_finish(struct trained_network *net) {
    const struct network *network = &net->reading.network;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < net->selection.count; i++) {
        const struct changed_parameter *changed = &net->selection.changed[i];
        const struct parameter *parameter = &network->layers[changed->layer].parameters[changed->kind];
        struct kept_value *kept = find_kept(net, parameter->name);
        if (!kept) {
            TRY(add_kept(net, parameter->name, parameter->rank, parameter->shape, &kept));
        }
        TRY(net->source->back_end->read(net->state, changed->layer, changed->kind, PARAMETER_VALUE, kept->values));
    }
    close_state(net, &net->old);
    net->training = false;
    if (net->plan.scores_apart) {
        close_state(net, &net->state);
        drop_description(net);
    }
done:
    return status;
}

l3a_status trained_network_bytes(struct trained_network *net, struct network_plan *plan) {
    l3a_status status = L3A_OK;
    net->training = true;
    TRY(trained_network_describe(net));
    const struct network_use use = {.training = true,
                                    .pictures = net->batch,
                                    .numbers = NUMBER_FLOAT32,
                                    .memory = net->source->memory,
                                    .parameters = (const struct parameter_use(*)[PARAMETER_KINDS])net->selection.uses};
    TRY(net->source->back_end->plan(&net->reading.network, &use, plan));
done:
    net->training = false;
    return status;
}

/* ---- Running ---- */

l3a_status trained_network_run(struct trained_network *net, const float *pictures, size_t count, float *const *outputs) {
    l3a_status status = L3A_OK;
    TRY(trained_network_describe(net));
    if (!net->state) {
        overlay(net);
        TRY(open_state(net, NULL, &net->state));
    }
    TRY(net->source->back_end->run(net->state, pictures, count, outputs));
done:
    return status;
}

l3a_status trained_network_run_old(struct trained_network *net, const float *pictures, size_t count, float *const *outputs) {
    return net->source->back_end->run(net->old, pictures, count, outputs);
}

l3a_status trained_network_forward(struct trained_network *net, const float *pictures, size_t count, float *const *outputs) {
    return net->source->back_end->forward(net->state, pictures, count, outputs);
}

l3a_status trained_network_backward(struct trained_network *net, const float *const *gradients) {
    return net->source->back_end->backward(net->state, gradients);
}

l3a_status trained_network_gradient_square(struct trained_network *net, double *sum) {
    return net->source->back_end->gradient_square(net->state, sum);
}

l3a_status trained_network_step(struct trained_network *net, const struct network_step *step) {
    return net->source->back_end->step(net->state, step);
}

size_t trained_network_numbers(const struct trained_network *net) {
    return (size_t)net->selection.stepped;
}

/* Calls read or write of the back end for each parameter that steps change, or that training changes. */
static l3a_status visit(struct trained_network *net, bool stepped, enum parameter_part part, float *into, const float *from) {
    const struct network_back_end *back_end = net->source->back_end;
    l3a_status status = L3A_OK;
    size_t at = 0;
    for (size_t i = 0; i < net->selection.count; i++) {
        const struct changed_parameter *changed = &net->selection.changed[i];
        if (changed->stepped || !stepped) {
            TRY(into ? back_end->read(net->state, changed->layer, changed->kind, part, into + at)
                     : back_end->write(net->state, changed->layer, changed->kind, part, from + at));
            at += changed->count;
        }
    }
done:
    return status;
}

l3a_status trained_network_read(struct trained_network *net, enum parameter_part part, float *numbers) {
    return visit(net, true, part, numbers, NULL);
}

l3a_status trained_network_write(struct trained_network *net, enum parameter_part part, const float *numbers) {
    return visit(net, true, part, NULL, numbers);
}

l3a_status trained_network_read_changed(struct trained_network *net, float *values) {
    return visit(net, false, PARAMETER_VALUE, values, NULL);
}

l3a_status trained_network_write_changed(struct trained_network *net, const float *values) {
    return visit(net, false, PARAMETER_VALUE, NULL, values);
}

/* A product has two gradients, of its input and of its factors, each as much as the product itself. Attention, which has no
 * factors, has two for two. */
l3a_status trained_network_flops(const struct trained_network *net, double *forward, double *backward) {
    const struct network *network = &net->reading.network;
    bool *moves = NULL; /* of each value: steps change it */
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(net->context, network->value_count, sizeof *moves, &moves));
    *forward = network_flops(network);
    *backward = 0;
    for (size_t i = 0; i < network->layer_count; i++) {
        const struct net_layer *layer = &network->layers[i];
        const struct parameter_use *uses = net->selection.uses[i];
        const bool before = moves[layer->input] || moves[layer->second], factors = uses[FACTORS].trained;
        const double share = (double)before * (layer->kind == LAYER_ATTENTION ? 2 : 1) + (double)factors;
        moves[layer->output] = before || factors || uses[BIAS].trained || uses[SECOND_FACTORS].trained || uses[SECOND_BIAS].trained;
        *backward += share * network_layer_flops(network, layer);
    }
done:
    release(net->context, moves);
    return status;
}
