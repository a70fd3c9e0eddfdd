#include "net/train_steps.h"
#include "base/memory.h"

#include <string.h>

/* ---- Layouts ---- */

static bool keeps_layout(enum net_layer_kind kind) {
    return kind == LAYER_ACTIVATION || kind == LAYER_ADD || kind == LAYER_SCALE || kind == LAYER_BATCH_NORM ||
           kind == LAYER_MAX_POOL || kind == LAYER_AVERAGE_POOL || kind == LAYER_BLUR || kind == LAYER_SQUEEZE_EXCITE ||
           kind == LAYER_CONVOLUTION;
}

/* Whether the channels of each pixel must be side by side. */
static bool reads_pixels(enum net_layer_kind kind) {
    return !keeps_layout(kind) && kind != LAYER_SPACE_TO_DEPTH && kind != LAYER_PATCHES && kind != LAYER_GLOBAL_MEAN;
}

/* Marks the values whose channels are side by side, and all that have the same layout as these. */
static void mark_pixels(const struct network *net, bool *pixels) {
    bool changed = true;
    for (size_t i = 0; i < net->layer_count; i++) {
        const struct net_layer *layer = &net->layers[i];
        pixels[layer->input] |= reads_pixels(layer->kind);
        pixels[layer->second] |= reads_pixels(layer->kind);
        pixels[layer->output] |= !keeps_layout(layer->kind) && layer->kind != LAYER_SPACE_TO_DEPTH;
    }
    while (changed) {
        changed = false;
        for (size_t i = 0; i < net->layer_count; i++) {
            const struct net_layer *layer = &net->layers[i];
            const value all[] = {layer->input, layer->second ? layer->second : layer->output, layer->output};
            pixels[PICTURE] = pixels[NOTHING] = false;
            const bool any = pixels[all[0]] || pixels[all[1]] || pixels[all[2]];
            for (size_t j = 0; keeps_layout(layer->kind) && any && j < 3; j++) {
                changed = changed || (!pixels[all[j]] && all[j] != PICTURE);
                pixels[all[j]] = true;
            }
        }
    }
    pixels[PICTURE] = pixels[NOTHING] = false;
}

static l3a_status choose_layouts(struct train_steps *steps, enum number_type type, size_t block) {
    const struct network *net = steps->network;
    bool *pixels = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(steps->context, net->value_count, sizeof *pixels, &pixels));
    TRY(allocate_zeroed(steps->context, net->value_count, sizeof *steps->layouts, &steps->layouts));
    mark_pixels(net, pixels);
    for (value v = PICTURE; v < net->value_count; v++) {
        const struct shape shape = net->shapes[v];
        const size_t wide = v == PICTURE ? 1 : pixels[v] || !block ? shape.channels : block;
        steps->layouts[v] = (struct layout){.channels = shape.channels,
                                            .padded = (shape.channels + wide - 1) / wide * wide,
                                            .height = shape.height,
                                            .width = shape.width,
                                            .block = wide,
                                            .type = v == PICTURE ? NUMBER_FLOAT32 : type};
    }
done:
    release(steps->context, pixels);
    return status;
}

/* ---- Steps ---- */

static bool is_output(const struct network *net, value made) {
    for (size_t i = 0; i < net->output_count; i++) {
        if (net->outputs[i].value == made) {
            return true;
        }
    }
    return false;
}

/* The only layer that reads a value; layer_count: there is none, or it is needed otherwise. */
static size_t only_reader(const struct network *net, value made) {
    size_t found = net->layer_count;
    for (size_t i = 0; i < net->layer_count; i++) {
        const struct net_layer *layer = &net->layers[i];
        if (layer->input == made || layer->second == made) {
            if (found < net->layer_count || layer->input == layer->second) {
                return net->layer_count;
            }
            found = i;
        }
    }
    return is_output(net, made) ? net->layer_count : found;
}

static bool bends_like_output(const struct net_layer *layer) {
    return layer->activation == RELU || (layer->activation == LEAKY_RELU && layer->slope >= 0);
}

static bool is_affine(const struct net_layer *layer) {
    return layer->kind == LAYER_BATCH_NORM || layer->kind == LAYER_SCALE;
}

/* Lets a norm or a scale take over the sum and the activation that follow it; returns the last layer it has. */
static size_t take_followers(const struct network *net, bool *taken, size_t at, struct train_step *step) {
    size_t last = at, next = only_reader(net, step->output);
    if (next < net->layer_count && net->layers[next].kind == LAYER_ADD && !taken[next]) {
        const struct net_layer *adds = &net->layers[next];
        step->second = adds->input == step->output ? adds->second : adds->input;
        step->output = adds->output;
        taken[next] = true;
        last = next;
        next = only_reader(net, step->output);
    }
    if (next < net->layer_count && net->layers[next].kind == LAYER_ACTIVATION && bends_like_output(&net->layers[next])) {
        step->activation = net->layers[next].activation;
        step->slope = net->layers[next].slope;
        step->output = net->layers[next].output;
        taken[next] = true;
        last = next;
    }
    return last;
}

/* A step stands where the last of its layers does, since the others only make what that one reads. */
static l3a_status find_steps(struct train_steps *steps, const bool *needed) {
    const struct network *net = steps->network;
    struct train_step *ending = NULL; /* for each layer, the step that ends with it; without a layer: there is none */
    bool *taken = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(steps->context, net->layer_count, sizeof *taken, &taken));
    TRY(allocate_zeroed(steps->context, net->layer_count, sizeof *ending, &ending));
    for (size_t i = 0; i < net->layer_count; i++) {
        const struct net_layer *layer = &net->layers[i];
        if (!taken[i] && needed[layer->output]) {
            struct train_step step = {
                .index = i, .layer = layer, .input = layer->input, .second = layer->second, .output = layer->output};
            const size_t end = is_affine(layer) ? take_followers(net, taken, i, &step) : i;
            ending[end] = step;
        }
        if (ending[i].layer) {
            steps->steps[steps->count++] = ending[i];
        }
    }
done:
    release(steps->context, taken);
    release(steps->context, ending);
    return status;
}

static void mark_needed(const struct network *net, bool *needed) {
    for (size_t i = 0; i < net->output_count; i++) {
        needed[net->outputs[i].value] = true;
    }
    for (size_t i = net->layer_count; i-- > 0;) {
        const struct net_layer *layer = &net->layers[i];
        needed[layer->input] |= needed[layer->output];
        needed[layer->second] |= needed[layer->output];
    }
}

/* ---- Gradients ---- */

/* What backward reads of a step's values. */
static void find_kept(struct train_step *step) {
    const struct net_layer *layer = step->layer;
    switch (layer->kind) {
    case LAYER_CONVOLUTION:
    case LAYER_LINEAR: step->keeps_input = step->trained[FACTORS]; break;
    case LAYER_BATCH_NORM:
    case LAYER_SCALE:
        step->keeps_input = step->measures || step->trained[FACTORS];
        step->keeps_output = step->activation != LINEAR_ACTIVATION;
        break;
    case LAYER_ACTIVATION:
        step->keeps_output = bends_like_output(layer);
        step->keeps_input = !step->keeps_output;
        break;
    case LAYER_MAX_POOL:
    case LAYER_TOKEN_MAX: step->keeps_input = step->keeps_output = true; break;
    case LAYER_NORM:
    case LAYER_UNIT:
    case LAYER_COSINES:
    case LAYER_PICK:
    case LAYER_SQUEEZE_EXCITE: step->keeps_input = true; break;
    case LAYER_ATTENTION: step->keeps_input = step->keeps_second = true; break;
    default: break;
    }
}

static void find_uses(struct train_steps *steps, const struct network_use *use, bool *wanted) {
    const struct network *net = steps->network;
    for (size_t i = 0; i < steps->count; i++) {
        struct train_step *step = &steps->steps[i];
        for (size_t kind = 0; kind < PARAMETER_KINDS; kind++) {
            step->trained[kind] = parameter_use_of(net, use, step->index, (enum parameter_kind)kind).trained;
            step->trains = step->trains || step->trained[kind];
        }
        step->measures = step->layer->kind == LAYER_BATCH_NORM && step->trained[FACTORS];
        step->statistics = steps->statistics;
        steps->statistics += is_affine(step->layer) ? 2 * steps->layouts[step->output].padded : 0;
        step->wants_input = wanted[step->input];
        step->wants_second = wanted[step->second];
        step->backward = step->trains || step->wants_input || step->wants_second;
        wanted[step->output] = step->backward;
        if (step->backward) {
            find_kept(step);
        }
    }
}

/* The gradient of the output can become that of an input, if it is the first to arrive there. */
static bool take_place(struct train_steps *steps, const struct train_step *step, value taker, bool arrived) {
    if (!arrived) {
        steps->gradients[taker] = steps->gradients[step->output];
    }
    return !arrived;
}

/* Whether back ends can add to the gradient of the input of such a layer, as they make it. */
static bool adds_itself(enum net_layer_kind kind) {
    return kind == LAYER_LINEAR || kind == LAYER_NORM;
}

static void find_gradients(struct train_steps *steps, bool *arrived) {
    for (value v = 0; v < steps->network->value_count; v++) {
        steps->gradients[v] = v;
    }
    for (size_t i = steps->count; i-- > 0;) {
        struct train_step *step = &steps->steps[i];
        const bool sum = step->layer->kind == LAYER_ADD, affine = is_affine(step->layer);
        if (!step->backward) {
            continue;
        }
        step->output_adds = arrived[step->output];
        if (step->wants_second) {
            step->second_adds = arrived[step->second];
            step->second_stays = (sum || affine) && take_place(steps, step, step->second, arrived[step->second]);
            step->second_apart = step->second_adds && !sum && !affine;
            arrived[step->second] = true;
        }
        if (step->wants_input) {
            step->input_adds = arrived[step->input];
            step->input_stays = (sum || affine || step->layer->kind == LAYER_ACTIVATION) && !step->second_stays &&
                                take_place(steps, step, step->input, arrived[step->input]);
            step->input_apart = step->input_adds && !sum && !adds_itself(step->layer->kind);
            arrived[step->input] = true;
        }
    }
}

l3a_status train_steps_make(const struct network *network, const struct network_use *use, size_t block, struct train_steps *steps) {
    bool *marks = NULL;
    l3a_status status = L3A_OK;
    *steps = (struct train_steps){.context = network->context, .network = network};
    TRY(allocate_zeroed(steps->context, network->value_count, sizeof *marks, &marks));
    TRY(allocate_zeroed(steps->context, network->value_count, sizeof *steps->gradients, &steps->gradients));
    TRY(allocate_zeroed(steps->context, network->layer_count, sizeof *steps->steps, &steps->steps));
    TRY(choose_layouts(steps, use->numbers, block));
    mark_needed(network, marks);
    TRY(find_steps(steps, marks));
    memset(marks, 0, network->value_count * sizeof *marks);
    find_uses(steps, use, marks);
    memset(marks, 0, network->value_count * sizeof *marks);
    find_gradients(steps, marks);
done:
    release(network->context, marks);
    if (status != L3A_OK) {
        train_steps_release(steps);
    }
    return status;
}

void train_steps_release(struct train_steps *steps) {
    if (steps->context) {
        release(steps->context, steps->steps);
        release(steps->context, steps->layouts);
        release(steps->context, steps->gradients);
    }
    *steps = (struct train_steps){0};
}
