#include "naive_network.h"
#include "base/memory.h"
#include "naive_layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tensors in memory ---- */

void tensors_add(struct memory_tensors *tensors, const char *prefix, const char *name, size_t rank, size_t a, size_t b, size_t c,
                 size_t d) {
    struct checkpoint_tensor *tensor = &tensors->tensors[tensors->count];
    char *full = tensors->names[tensors->count++];
    snprintf(full, sizeof tensors->names[0], "%s%s", prefix, name);
    *tensor = (struct checkpoint_tensor){.name = full, .type = "F32", .rank = rank, .shape = {a, b, c, d}, .elements = 1};
    for (size_t i = 0; i < rank; i++) {
        tensor->elements *= tensor->shape[i];
    }
}

static const struct checkpoint_tensor *tensor_at(const void *owner, size_t index) {
    return &((const struct memory_tensors *)owner)->tensors[index];
}

struct parameter_source tensors_source(struct memory_tensors *tensors, tensor_reader *read) {
    return (struct parameter_source){.owner = tensors, .count = tensors->count, .at = tensor_at, .read = read};
}

/* ---- The back end ---- */

struct naive_network {
    l3a_context *context;
    struct naive_layer *layers;
    struct shape *shapes;
    struct network_output outputs[NETWORK_OUTPUTS];
    size_t layer_count, value_count, output_count;
    struct parameter_use (*uses)[PARAMETER_KINDS]; /* of each layer */
    size_t pictures;                               /* of the last run */
    double **values, **gradients;                  /* of each value: planes of all pictures */
};

static l3a_status widen(l3a_context *context, const float *values, size_t count, double **copy) {
    l3a_status status = L3A_OK;
    TRY(allocate(context, count, sizeof **copy, copy));
    for (size_t i = 0; i < count; i++) {
        (*copy)[i] = (double)values[i];
    }
done:
    return status;
}

static void forget_values(struct naive_network *net, double **values) {
    for (size_t i = 0; values && i < net->value_count; i++) {
        release(net->context, values[i]);
        values[i] = NULL;
    }
}

static void close_layer(l3a_context *context, struct naive_layer *layer) {
    for (size_t kind = 0; kind < PARAMETER_KINDS; kind++) {
        release(context, layer->parameters[kind]);
        release(context, layer->gradients[kind]);
        release(context, layer->moments[kind]);
        release(context, layer->squares[kind]);
    }
    release(context, layer->batch_mean);
    release(context, layer->batch_variance);
}

static void close(void *state) {
    struct naive_network *net = state;
    if (net) {
        for (size_t i = 0; net->layers && i < net->layer_count; i++) {
            close_layer(net->context, &net->layers[i]);
        }
        forget_values(net, net->values);
        forget_values(net, net->gradients);
        release(net->context, net->values);
        release(net->context, net->gradients);
        release(net->context, net->layers);
        release(net->context, net->uses);
        release(net->context, net->shapes);
        release(net->context, net);
    }
}

static l3a_status open_layer(struct naive_network *net, const struct net_layer *what, struct naive_layer *layer) {
    l3a_status status = L3A_OK;
    layer->what = *what;
    layer->beside = net->shapes[what->second];
    memset(layer->what.parameters, 0, sizeof layer->what.parameters);
    for (size_t kind = 0; kind < PARAMETER_KINDS; kind++) {
        const struct parameter *given = &what->parameters[kind];
        layer->counts[kind] = given->values ? given->count : 0;
        if (given->values) {
            TRY(widen(net->context, given->values, given->count, &layer->parameters[kind]));
            TRY(allocate_zeroed(net->context, given->count, sizeof(double), &layer->gradients[kind]));
            TRY(allocate_zeroed(net->context, given->count, sizeof(double), &layer->moments[kind]));
            TRY(allocate_zeroed(net->context, given->count, sizeof(double), &layer->squares[kind]));
        }
    }
    if (what->kind == LAYER_BATCH_NORM) {
        TRY(allocate_zeroed(net->context, what->to.channels, sizeof(double), &layer->batch_mean));
        TRY(allocate_zeroed(net->context, what->to.channels, sizeof(double), &layer->batch_variance));
    }
done:
    return status;
}

static l3a_status open(const struct network *network, const struct network_use *use, void **state) {
    l3a_context *context = network->context;
    struct naive_network *net = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof *net, &net));
    net->context = context;
    net->value_count = network->value_count;
    net->output_count = network->output_count;
    memcpy(net->outputs, network->outputs, sizeof net->outputs);
    TRY(allocate(context, net->value_count, sizeof *net->shapes, &net->shapes));
    memcpy(net->shapes, network->shapes, net->value_count * sizeof *net->shapes);
    TRY(allocate_zeroed(context, net->value_count, sizeof *net->values, &net->values));
    TRY(allocate_zeroed(context, net->value_count, sizeof *net->gradients, &net->gradients));
    TRY(allocate_zeroed(context, network->layer_count, sizeof *net->layers, &net->layers));
    TRY(allocate_zeroed(context, network->layer_count, sizeof *net->uses, &net->uses));
    for (; net->layer_count < network->layer_count; net->layer_count++) {
        for (size_t kind = 0; kind < PARAMETER_KINDS; kind++) {
            net->uses[net->layer_count][kind] = parameter_use_of(network, use, net->layer_count, (enum parameter_kind)kind);
        }
        TRY(open_layer(net, &network->layers[net->layer_count], &net->layers[net->layer_count]));
    }
    *state = net;
    net = NULL;
done:
    if (net && net->layers) {
        net->layer_count = network->layer_count;
    }
    close(net);
    return status;
}

static l3a_status compute(struct naive_network *net, const float *pictures, size_t count, bool training, float *const *outputs) {
    l3a_status status = L3A_OK;
    forget_values(net, net->values);
    net->pictures = count;
    TRY(widen(net->context, pictures, count * shape_size(net->shapes[PICTURE]), &net->values[PICTURE]));
    for (size_t i = 0; i < net->layer_count; i++) {
        const struct net_layer *what = &net->layers[i].what;
        TRY(allocate(net->context, count * shape_size(what->to), sizeof(double), &net->values[what->output]));
        net->layers[i].training = training && net->uses[i][FACTORS].trained;
        naive_forward(&net->layers[i], count, net->values[what->input], net->values[what->second], net->values[what->output]);
    }
    for (size_t i = 0; i < net->output_count; i++) {
        const value made = net->outputs[i].value;
        for (size_t j = 0; j < count * shape_size(net->shapes[made]); j++) {
            outputs[i][j] = (float)net->values[made][j];
        }
    }
done:
    return status;
}

static l3a_status run(void *state, const float *pictures, size_t count, float *const *outputs) {
    return compute(state, pictures, count, false, outputs);
}

static l3a_status forward(void *state, const float *pictures, size_t count, float *const *outputs) {
    return compute(state, pictures, count, true, outputs);
}

/* Zero, or what the caller says of the outputs. */
static l3a_status start_gradients(struct naive_network *net, const float *const *gradients) {
    l3a_status status = L3A_OK;
    forget_values(net, net->gradients);
    for (value i = PICTURE; i < net->value_count; i++) {
        TRY(allocate_zeroed(net->context, net->pictures * shape_size(net->shapes[i]), sizeof(double), &net->gradients[i]));
    }
    for (size_t i = 0; i < net->output_count; i++) {
        const value made = net->outputs[i].value;
        for (size_t j = 0; gradients[i] && j < net->pictures * shape_size(net->shapes[made]); j++) {
            net->gradients[made][j] += (double)gradients[i][j];
        }
    }
    for (size_t i = 0; i < net->layer_count; i++) {
        for (size_t kind = 0; kind < PARAMETER_KINDS; kind++) {
            if (net->layers[i].gradients[kind]) {
                memset(net->layers[i].gradients[kind], 0, net->layers[i].counts[kind] * sizeof(double));
            }
        }
    }
done:
    return status;
}

static l3a_status backward(void *state, const float *const *gradients) {
    struct naive_network *net = state;
    l3a_status status = L3A_OK;
    TRY(start_gradients(net, gradients));
    for (size_t i = net->layer_count; i-- > 0;) {
        const struct net_layer *what = &net->layers[i].what;
        naive_backward(&net->layers[i], net->pictures, net->values[what->input], net->values[what->second],
                       net->gradients[what->output], net->gradients[what->input], net->gradients[what->second]);
    }
done:
    return status;
}

static l3a_status gradient_square(void *state, double *sum) {
    const struct naive_network *net = state;
    *sum = 0;
    for (size_t i = 0; i < net->layer_count * PARAMETER_KINDS; i++) {
        const struct naive_layer *layer = &net->layers[i / PARAMETER_KINDS];
        const size_t kind = i % PARAMETER_KINDS;
        for (size_t j = 0; net->uses[i / PARAMETER_KINDS][kind].trained && j < layer->counts[kind]; j++) {
            *sum += layer->gradients[kind][j] * layer->gradients[kind][j];
        }
    }
    return L3A_OK;
}

/* One number of a parameter; the formulas of back_end.h. */
static void step_number(const struct network_step *step, const struct parameter_use *use, double gradient, double *w, double *m,
                        double *v) {
    const double rate = step->rate * (double)use->rate, decay = (double)use->decay, number = (double)step->number;
    double g = gradient * step->scale;
    if (step->optimiser == OPTIMISER_SGD) {
        *m = step->momentum * *m + g + decay * *w;
        *w -= rate * *m;
        return;
    }
    if (step->optimiser == OPTIMISER_ADAM) {
        g += decay * *w;
    } else {
        *w -= rate * decay * *w;
    }
    *m += (1 - step->momentum) * (g - *m);
    *v += (1 - step->square) * (g * g - *v);
    *w -= rate * (*m / (1 - pow(step->momentum, number))) / (sqrt(*v / (1 - pow(step->square, number))) + step->epsilon);
}

static l3a_status step(void *state, const struct network_step *step) {
    struct naive_network *net = state;
    for (size_t i = 0; i < net->layer_count * PARAMETER_KINDS; i++) {
        struct naive_layer *layer = &net->layers[i / PARAMETER_KINDS];
        const size_t kind = i % PARAMETER_KINDS;
        const struct parameter_use *use = &net->uses[i / PARAMETER_KINDS][kind];
        for (size_t j = 0; use->trained && j < layer->counts[kind]; j++) {
            step_number(step, use, layer->gradients[kind][j], &layer->parameters[kind][j], &layer->moments[kind][j],
                        &layer->squares[kind][j]);
        }
    }
    return L3A_OK;
}

/* All that a forward and a backward pass keep. */
static l3a_status plan(const struct network *network, const struct network_use *use, struct network_plan *plan) {
    uint64_t numbers = 0;
    for (value i = PICTURE; i < network->value_count; i++) {
        numbers += 2 * use->pictures * shape_size(network->shapes[i]);
    }
    for (size_t i = 0; i < network->layer_count * PARAMETER_KINDS; i++) {
        const struct parameter *given = &network->layers[i / PARAMETER_KINDS].parameters[i % PARAMETER_KINDS];
        numbers += given->values ? 4 * given->count : 0;
    }
    *plan = (struct network_plan){.bytes = numbers * sizeof(double)};
    return L3A_OK;
}

static double *part_of(const struct naive_layer *layer, enum parameter_kind kind, enum parameter_part part) {
    return part == PARAMETER_VALUE      ? layer->parameters[kind]
           : part == PARAMETER_GRADIENT ? layer->gradients[kind]
           : part == PARAMETER_MOMENT   ? layer->moments[kind]
                                        : layer->squares[kind];
}

static l3a_status read(void *state, size_t layer, enum parameter_kind kind, enum parameter_part part, float *values) {
    const struct naive_layer *owner = &((struct naive_network *)state)->layers[layer];
    for (size_t i = 0; i < owner->counts[kind]; i++) {
        values[i] = (float)part_of(owner, kind, part)[i];
    }
    return L3A_OK;
}

static l3a_status write(void *state, size_t layer, enum parameter_kind kind, enum parameter_part part, const float *values) {
    struct naive_layer *owner = &((struct naive_network *)state)->layers[layer];
    for (size_t i = 0; i < owner->counts[kind]; i++) {
        part_of(owner, kind, part)[i] = (double)values[i];
    }
    return L3A_OK;
}

static bool available(void) {
    return true;
}

const double *naive_output(const void *state, size_t output) {
    const struct naive_network *net = state;
    return net->values[net->outputs[output].value];
}

const struct network_back_end naive_back_end = {.name = "naive",
                                                .available = available,
                                                .open = open,
                                                .run = run,
                                                .close = close,
                                                .plan = plan,
                                                .forward = forward,
                                                .backward = backward,
                                                .gradient_square = gradient_square,
                                                .step = step,
                                                .read = read,
                                                .write = write};
