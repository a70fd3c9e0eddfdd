/* Turns a list of layers into steps.
 *
 * Places: a value is alive from the layer that makes it to the last layer that reads it. Values are placed in the order in which
 * they are made, each at the lowest address where it overlaps no value alive at the same time. A layer that adds writes its output
 * over the value it adds to, and squeeze and excite writes over its input. */
#include "net/cpu/program.h"
#include "base/memory.h"
#include "base/threads.h"

#include <string.h>

enum { ALIGNMENT = 16 }; /* floats */

static value taken_over(const struct net_layer *layer) {
    return layer->kind == LAYER_SQUEEZE_EXCITE ? layer->input : is_product(layer) ? layer->add : NOTHING;
}

static struct layout plain_layout(struct shape shape, size_t padded, size_t block) {
    return (struct layout){
        .channels = shape.channels, .padded = padded, .height = shape.height, .width = shape.width, .block = block};
}

/* The layout of a value that a kernel makes: that of its input where possible. */
static struct layout kernel_layout(const struct program *program, const void *state, const struct net_layer *layer) {
    const struct layout *from = &program->layouts[layer->input];
    switch (layer->kind) {
    case LAYER_SPACE_TO_DEPTH: {
        const size_t block = program->products->block(state, layer->to.channels);
        return plain_layout(layer->to, (layer->to.channels + block - 1) / block * block, block);
    }
    case LAYER_MAX_POOL:
    case LAYER_AVERAGE_POOL:
    case LAYER_BLUR:
    case LAYER_SQUEEZE_EXCITE: return plain_layout(layer->to, from->padded, from->block);
    case LAYER_GLOBAL_MEAN: return plain_layout(layer->to, from->padded, from->padded);
    default: return plain_layout(layer->to, layer->to.channels, layer->to.channels);
    }
}

static l3a_status prepare_product(struct program *program, void *state, const struct network *source, const struct program *twin,
                                  size_t index) {
    const struct net_layer *layer = &program->network->layers[index];
    struct product product = {.layer = layer,
                              .factors = source->layers[index].parameters[FACTORS],
                              .batch = program->batch,
                              .from = program->layouts[layer->input],
                              .to = layer->add ? program->layouts[layer->add] : plain_layout(layer->to, 0, 0)};
    const l3a_status status =
        program->products->prepare(state, &product, twin ? twin->steps[index].operation : NULL, &program->steps[index].operation);
    program->layouts[layer->output] = product.to;
    program->steps[index].scratch = product.scratch;
    return status;
}

static l3a_status prepare_layers(struct program *program, void *state, const struct network *source, const struct program *twin) {
    const struct network *net = program->network;
    l3a_status status = L3A_OK;
    program->layouts[PICTURE] = plain_layout(net->shapes[PICTURE], net->shapes[PICTURE].channels, 1);
    for (size_t i = 0; i < net->layer_count; i++) {
        if (is_product(&net->layers[i])) {
            TRY(prepare_product(program, state, source, twin, i));
        } else {
            program->layouts[net->layers[i].output] = kernel_layout(program, state, &net->layers[i]);
        }
    }
done:
    return status;
}

/* Finds the last layer that reads each value or writes over it. */
static l3a_status find_last_uses(const struct program *program, size_t *last_uses) {
    const struct network *net = program->network;
    for (size_t i = 0; i < net->layer_count; i++) {
        const struct net_layer *layer = &net->layers[i];
        last_uses[layer->input] = i;
        last_uses[layer->add] = i;
        last_uses[layer->output] = i;
    }
    last_uses[net->output] = net->layer_count;
    for (size_t i = 0; i < net->layer_count; i++) {
        const value over = taken_over(&net->layers[i]);
        const bool reads_it = over == net->layers[i].input && net->layers[i].kind != LAYER_SQUEEZE_EXCITE;
        if (over && (over == PICTURE || reads_it || last_uses[over] != i)) {
            return fail(program->context, L3A_ERROR_STATE, NULL, "layer %zu overwrites a value that is still needed", i);
        }
    }
    return L3A_OK;
}

/* A stretch of memory: the place of a value, and of the values that are written over it. */
struct stretch {
    size_t start, size, first, last;
};

static size_t lowest_place(const struct stretch *stretches, size_t count, const struct stretch *wanted) {
    size_t place = 0;
    for (size_t i = 0; i < count; i++) {
        const struct stretch *other = &stretches[i];
        const bool together = other->first <= wanted->last && wanted->first <= other->last;
        if (together && place < other->start + other->size && other->start < place + wanted->size) {
            place = other->start + other->size;
            i = (size_t)-1; /* check all of them again */
        }
    }
    return place;
}

static size_t last_use_of_place(const struct network *net, const size_t *last_uses, size_t layer) {
    size_t last = last_uses[net->layers[layer].output];
    while (last < net->layer_count && taken_over(&net->layers[last]) == net->layers[layer].output) {
        layer = last;
        last = last_uses[net->layers[layer].output];
    }
    return last;
}

static bool stretch_size(const struct program *program, value made, size_t *size) {
    const struct layout *layout = &program->layouts[made];
    uint64_t total = 0;
    if (!multiply_sizes(layout->padded, layout->height, &total) || !multiply_sizes(total, layout->width, &total) ||
        !multiply_sizes(total, program->batch, &total) || total > SIZE_MAX / 64) {
        return false;
    }
    *size = ((size_t)total + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return true;
}

static l3a_status place_values(struct program *program) {
    const struct network *net = program->network;
    size_t *last_uses = NULL, count = 0, scratch = 0;
    struct stretch *stretches = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(program->context, net->value_count, sizeof *last_uses, &last_uses));
    TRY(allocate_zeroed(program->context, net->layer_count, sizeof *stretches, &stretches));
    TRY(find_last_uses(program, last_uses));
    for (size_t i = 0; i < net->layer_count; i++) {
        const struct net_layer *layer = &net->layers[i];
        scratch = program->steps[i].scratch > scratch ? program->steps[i].scratch : scratch;
        if (taken_over(layer)) {
            program->places[layer->output] = program->places[taken_over(layer)];
            continue;
        }
        struct stretch *stretch = &stretches[count];
        FAIL_IF(!stretch_size(program, layer->output, &stretch->size), program->context, L3A_ERROR_MEMORY, "use smaller pictures",
                "the output of layer %zu does not fit in the address space", i);
        stretch->first = i;
        stretch->last = last_use_of_place(net, last_uses, i);
        stretch->start = lowest_place(stretches, count++, stretch);
        program->places[layer->output] = stretch->start;
        program->scratch_place =
            stretch->start + stretch->size > program->scratch_place ? stretch->start + stretch->size : program->scratch_place;
    }
    program->arena = program->scratch_place + scratch;
done:
    release(program->context, last_uses);
    release(program->context, stretches);
    return status;
}

l3a_status program_open(const struct network *network, const struct network *source, const struct products *products, void *state,
                        size_t batch, const struct program *twin, struct program *program) {
    l3a_context *context = network->context;
    l3a_status status = L3A_OK;
    *program =
        (struct program){.context = context, .network = network, .products = products, .kernels = kernels_pick(), .batch = batch};
    TRY(allocate_zeroed(context, network->layer_count, sizeof *program->steps, &program->steps));
    TRY(allocate_zeroed(context, network->value_count, sizeof *program->layouts, &program->layouts));
    TRY(allocate_zeroed(context, network->value_count, sizeof *program->places, &program->places));
    TRY(prepare_layers(program, state, source, twin));
    TRY(place_values(program));
done:
    if (status != L3A_OK) {
        program_close(program);
    }
    return status;
}

void program_close(struct program *program) {
    if (!program->context) {
        return;
    }
    for (size_t i = 0; program->steps && i < program->network->layer_count; i++) {
        if (program->steps[i].operation) {
            program->products->release(program->steps[i].operation);
        }
    }
    release(program->context, program->steps);
    release(program->context, program->layouts);
    release(program->context, program->places);
    *program = (struct program){0};
}

struct kernel_loop {
    kernel_function *run;
    struct kernel_call call;
};

static void run_tasks(void *argument, size_t first, size_t last) {
    const struct kernel_loop *loop = argument;
    loop->run(&loop->call, first, last);
}

static l3a_status run_layer(const struct program *program, size_t index, const float *pictures, float *arena) {
    const struct net_layer *layer = &program->network->layers[index];
    const struct step *step = &program->steps[index];
    const float *input = layer->input == PICTURE ? pictures : arena + program->places[layer->input];
    float *output = arena + program->places[layer->output];
    if (step->operation) {
        return program->products->run(step->operation, input, output, arena + program->scratch_place);
    }
    struct kernel_loop loop = {.run = program->kernels->run[layer->kind],
                               .call = {.layer = layer,
                                        .products = program->products,
                                        .from = program->layouts[layer->input],
                                        .to = program->layouts[layer->output],
                                        .beside = program->layouts[layer->add],
                                        .input = input,
                                        .added = layer->add ? arena + program->places[layer->add] : NULL,
                                        .output = output}};
    const size_t tasks = kernel_tasks(&loop.call, program->batch), parts = 4 * (size_t)program->context->threads;
    parallel_for(program->context->threads, tasks, tasks < 2 * parts ? 1 : tasks / parts, run_tasks, &loop);
    return L3A_OK;
}

/* Leaves the layout behind: planes, without padding. */
static void copy_planes(const struct layout *layout, size_t batch, const float *values, float *planes) {
    const size_t pixels = layout->height * layout->width;
    for (size_t i = 0; i < batch * layout->channels; i++) {
        const size_t picture = i / layout->channels, c = i % layout->channels;
        const float *from = values + picture * layout_size(layout) + c / layout->block * pixels * layout->block + c % layout->block;
        for (size_t p = 0; p < pixels; p++) {
            planes[i * pixels + p] = from[p * layout->block];
        }
    }
}

l3a_status program_run(const struct program *program, const float *pictures, float *arena, float *planes) {
    const struct network *net = program->network;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < net->layer_count; i++) {
        TRY(run_layer(program, i, pictures, arena));
    }
    copy_planes(&program->layouts[net->output], program->batch, arena + program->places[net->output], planes);
done:
    return status;
}
