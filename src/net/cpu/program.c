/* Turns a list of layers into steps.
 *
 * Places: see places.c.
 *
 * Types: if the products read bf16, so are the values, as far as the kernels that make and read them can work with that
 * (kernels.h). What a product adds to has the type of what it makes. So the stream that a transformer's blocks add to, which a norm
 * reads, stays float32, and that of a convolutional network, which convolutions read, does not. A product rounds an input that is
 * float32. */
#include "net/cpu/program.h"
#include "base/memory.h"
#include "base/threads.h"
#include "net/cpu/bfloat16.h"
#include "net/places.h"

#include <string.h>

enum { ALIGNMENT = 16 }; /* floats */

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
    case LAYER_ACTIVATION:
    case LAYER_ADD:
    case LAYER_SCALE:
    case LAYER_SQUEEZE_EXCITE: return plain_layout(layer->to, from->padded, from->block);
    case LAYER_GLOBAL_MEAN: return plain_layout(layer->to, from->padded, from->padded);
    default: return plain_layout(layer->to, layer->to.channels, layer->to.channels);
    }
}

/* The room of a value in the arena. */
static size_t layout_floats(const struct layout *layout, size_t batch) {
    const size_t numbers = batch * layout_size(layout), floats = layout->type == NUMBER_FLOAT32 ? numbers : (numbers + 1) / 2;
    return (floats + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static l3a_status prepare_product(struct program *program, void *state, const struct network *source, const struct program *twin,
                                  size_t index, bool by_pixel) {
    const struct net_layer *layer = &program->network->layers[index];
    const enum number_type type = program->layouts[layer->output].type;
    struct product product = {.layer = layer,
                              .factors = source->layers[index].parameters[FACTORS].values,
                              .batch = program->batch,
                              .from = program->layouts[layer->input],
                              .to = layer->second ? program->layouts[layer->second]
                                    : by_pixel    ? plain_layout(layer->to, layer->to.channels, layer->to.channels)
                                                  : plain_layout(layer->to, 0, 0)};
    product.to.type = type;
    if (product.from.type != program->numbers) {
        product.from.type = program->numbers;
        program->steps[index].rounded = layout_floats(&product.from, program->batch);
    }
    if (layer->kind == LAYER_LINEAR && product.from.block != layer->from.channels) {
        return fail(program->context, L3A_ERROR_STATE, NULL, "layer %zu does not find the channels of a pixel side by side", index);
    }
    const l3a_status status =
        program->products->prepare(state, &product, twin ? twin->steps[index].operation : NULL, &program->steps[index].operation);
    program->layouts[layer->output] = product.to;
    program->steps[index].scratch = program->steps[index].rounded + product.scratch;
    return status;
}

static bool is_read(const struct network *net, value wanted) {
    for (size_t i = 0; i < net->layer_count; i++) {
        if (net->layers[i].input == wanted || net->layers[i].second == wanted) {
            return true;
        }
    }
    return false;
}

/* Makes both values float32 if one of them is; returns whether that has changed something. */
static bool agree(struct layout *layouts, value left, value right) {
    const bool differ = left && right && layouts[left].type != layouts[right].type;
    if (differ) {
        layouts[left].type = layouts[right].type = NUMBER_FLOAT32;
    }
    return differ;
}

static void choose_types(struct program *program) {
    const struct network *net = program->network;
    struct layout *layouts = program->layouts;
    for (value v = PICTURE + 1; v < net->value_count; v++) {
        layouts[v].type = program->numbers;
    }
    for (size_t i = 0; i < net->output_count; i++) {
        layouts[net->outputs[i].value].type = is_read(net, net->outputs[i].value) ? program->numbers : NUMBER_FLOAT32;
    }
    for (size_t i = 0; i < net->layer_count; i++) {
        const struct net_layer *layer = &net->layers[i];
        if (!is_product(layer) && !kernel_reads_bfloat16(layer)) {
            layouts[layer->input].type = layouts[layer->second].type = NUMBER_FLOAT32;
        }
        if (!is_product(layer) && !kernel_writes_bfloat16(layer)) {
            layouts[layer->output].type = NUMBER_FLOAT32;
        }
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < net->layer_count; i++) {
            const struct net_layer *layer = &net->layers[i];
            if (is_product(layer) || kernel_keeps_type(layer)) {
                changed = agree(layouts, layer->output, layer->second) || changed;
                changed = agree(layouts, layer->output, is_product(layer) ? NOTHING : layer->input) || changed;
            }
        }
    }
}

/* Marks the values whose channels must be side by side for each pixel, since a linear layer reads them or adds to them,
 * or a slice takes some of them. */
static void mark_by_pixel(const struct network *net, bool *by_pixel) {
    for (size_t i = net->layer_count; i-- > 0;) {
        const struct net_layer *layer = &net->layers[i];
        const bool same = layer->kind == LAYER_CONVOLUTION || layer->kind == LAYER_ACTIVATION || layer->kind == LAYER_ADD ||
                          layer->kind == LAYER_SCALE;
        const bool wanted = layer->kind == LAYER_LINEAR || layer->kind == LAYER_SLICE || (same && by_pixel[layer->output]);
        by_pixel[layer->input] |= wanted && layer->kind != LAYER_CONVOLUTION;
        by_pixel[layer->second] |= wanted;
    }
}

static l3a_status prepare_layers(struct program *program, void *state, const struct network *source, const struct program *twin) {
    const struct network *net = program->network;
    bool *by_pixel = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(program->context, net->value_count, sizeof *by_pixel, &by_pixel));
    mark_by_pixel(net, by_pixel);
    choose_types(program);
    program->layouts[PICTURE] = plain_layout(net->shapes[PICTURE], net->shapes[PICTURE].channels, 1);
    for (size_t i = 0; i < net->layer_count; i++) {
        if (is_product(&net->layers[i])) {
            TRY(prepare_product(program, state, source, twin, i, by_pixel[net->layers[i].output]));
        } else {
            struct layout *layout = &program->layouts[net->layers[i].output];
            const enum number_type type = layout->type;
            *layout = kernel_layout(program, state, &net->layers[i]);
            layout->type = type;
        }
    }
done:
    release(program->context, by_pixel);
    return status;
}

static bool value_size(const struct program *program, value made, size_t *size) {
    const struct layout *layout = &program->layouts[made];
    uint64_t total = 0;
    if (!multiply_sizes(layout->padded, layout->height, &total) || !multiply_sizes(total, layout->width, &total) ||
        !multiply_sizes(total, program->batch, &total) || total > SIZE_MAX / 64) {
        return false;
    }
    *size = layout_floats(layout, program->batch);
    return true;
}

static l3a_status place_values(struct program *program) {
    const struct network *net = program->network;
    size_t *last_uses = NULL, *sizes = NULL, scratch = 0;
    struct stretch *stretches = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(program->context, net->value_count, sizeof *last_uses, &last_uses));
    TRY(allocate_zeroed(program->context, net->value_count, sizeof *sizes, &sizes));
    TRY(allocate_zeroed(program->context, net->layer_count, sizeof *stretches, &stretches));
    for (size_t i = 0; i < net->layer_count; i++) {
        scratch = program->steps[i].scratch > scratch ? program->steps[i].scratch : scratch;
        FAIL_IF(!value_size(program, net->layers[i].output, &sizes[net->layers[i].output]), program->context, L3A_ERROR_MEMORY,
                "use smaller pictures", "the output of layer %zu does not fit in the address space", i);
    }
    const size_t wrong = places_find(net, sizes, last_uses, stretches, program->places, &program->scratch_place);
    FAIL_IF(wrong < net->layer_count, program->context, L3A_ERROR_STATE, NULL, "layer %zu overwrites a value that is still needed",
            wrong);
    program->arena = program->scratch_place + scratch;
done:
    release(program->context, last_uses);
    release(program->context, sizes);
    release(program->context, stretches);
    return status;
}

l3a_status program_open(const struct network *network, const struct network *source, const struct products *products, void *state,
                        enum number_type numbers, size_t batch, const struct program *twin, struct program *program) {
    l3a_context *context = network->context;
    l3a_status status = L3A_OK;
    *program = (struct program){.context = context,
                                .network = network,
                                .products = products,
                                .kernels = kernels_pick(),
                                .numbers = numbers,
                                .batch = batch};
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

struct round_loop {
    const struct kernels *kernels;
    const float *from;
    uint16_t *to;
};

static void run_rounding(void *argument, size_t first, size_t last) {
    const struct round_loop *loop = argument;
    loop->kernels->round(loop->from, first, last, loop->to);
}

static l3a_status run_product(const struct program *program, size_t index, const float *input, float *output, float *scratch) {
    const struct step *step = &program->steps[index];
    if (step->rounded) {
        const size_t count = program->batch * layout_size(&program->layouts[program->network->layers[index].input]);
        struct round_loop loop = {program->kernels, input, (uint16_t *)(void *)scratch};
        parallel_for(program->context->threads, count, count / (4 * (size_t)program->context->threads) + 1, run_rounding, &loop);
        return program->products->run(step->operation, scratch, output, scratch + step->rounded);
    }
    return program->products->run(step->operation, input, output, scratch);
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
        return run_product(program, index, input, output, arena + program->scratch_place);
    }
    struct kernel_loop loop = {.run = program->kernels->run[layer->kind],
                               .call = {.layer = layer,
                                        .products = program->products,
                                        .from = program->layouts[layer->input],
                                        .to = program->layouts[layer->output],
                                        .beside = program->layouts[layer->second],
                                        .input = input,
                                        .added = layer->second ? arena + program->places[layer->second] : NULL,
                                        .output = output}};
    const size_t tasks = kernel_tasks(&loop.call, program->batch), parts = 4 * (size_t)program->context->threads;
    parallel_for(program->context->threads, tasks, tasks < 2 * parts ? 1 : tasks / parts, run_tasks, &loop);
    return L3A_OK;
}

void program_copy_planes(const struct layout *layout, size_t batch, const float *values, float *planes) {
    const size_t pixels = layout->height * layout->width;
    for (size_t i = 0; i < batch * layout->channels; i++) {
        const size_t picture = i / layout->channels, c = i % layout->channels;
        const size_t from = picture * layout_size(layout) + c / layout->block * pixels * layout->block + c % layout->block;
        for (size_t p = 0; p < pixels; p++) {
            const size_t at = from + p * layout->block;
            planes[i * pixels + p] =
                layout->type == NUMBER_FLOAT32 ? values[at] : bfloat16_widen(((const uint16_t *)(const void *)values)[at]);
        }
    }
}

l3a_status program_run(const struct program *program, const float *pictures, float *arena, float *const *outputs, size_t first) {
    const struct network *net = program->network;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < net->layer_count; i++) {
        TRY(run_layer(program, i, pictures, arena));
    }
    for (size_t i = 0; i < net->output_count; i++) {
        const struct layout *layout = &program->layouts[net->outputs[i].value];
        const size_t size = layout->channels * layout->height * layout->width;
        program_copy_planes(layout, program->batch, arena + program->places[net->outputs[i].value], outputs[i] + first * size);
    }
done:
    return status;
}
