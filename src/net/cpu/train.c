/* A network that is trained: parameters, the programs for the numbers of pictures that came last, and the arena that they share. */
#include "net/cpu/train.h"
#include "base/memory.h"
#include "base/threads.h"
#include "net/cpu/train_run.h"

#include <inttypes.h>
#include <string.h>

enum { ALIGNMENT = 64, PROGRAMS = 4, SEGMENTS = 64 };

struct trainer {
    l3a_context *context;
    const struct train_products *products;
    void *state; /* of the products */
    struct network network;
    struct train_steps steps;
    struct train_store store;
    size_t pictures;
    size_t starts[SEGMENTS], segments;
    struct train_program *programs[PROGRAMS]; /* the one used last comes first */
    const struct train_program *kept;         /* whose values forward has left for backward; NULL: none */
    float *arena, *statistics;
    void *memory; /* contains the arena, which is aligned */
    size_t floats;
};

/* ---- Opening ---- */

/* Copies what training reads of the description. The values of parameters are those of the store. */
static l3a_status copy_network(const struct network *from, struct network *to) {
    l3a_context *context = from->context;
    l3a_status status = L3A_OK;
    *to = (struct network){.context = context, .value_count = from->value_count, .output_count = from->output_count};
    memcpy(to->outputs, from->outputs, sizeof to->outputs);
    TRY(allocate(context, from->value_count, sizeof *to->shapes, &to->shapes));
    memcpy(to->shapes, from->shapes, from->value_count * sizeof *to->shapes);
    TRY(allocate_zeroed(context, from->layer_count, sizeof *to->layers, &to->layers));
    for (size_t i = 0; i < from->layer_count; i++) {
        to->layers[i] = from->layers[i];
        for (size_t kind = 0; kind < PARAMETER_KINDS; kind++) {
            to->layers[i].parameters[kind].name = NULL;
        }
    }
    to->layer_count = from->layer_count;
done:
    return status;
}

static void point_to_store(struct trainer *trainer) {
    for (size_t i = 0; i < trainer->network.layer_count; i++) {
        for (size_t kind = 0; kind < PARAMETER_KINDS; kind++) {
            trainer->network.layers[i].parameters[kind].values =
                train_store_at(&trainer->store, i, (enum parameter_kind)kind, PARAMETER_VALUE);
        }
    }
}

static uint64_t arena_floats(const struct train_program *program) {
    return program->training.arena > program->running.arena ? program->training.arena : program->running.arena;
}

static uint64_t bytes_with(const struct trainer *trainer, const struct train_program *program) {
    return train_store_bytes(&trainer->store) + ((uint64_t)trainer->steps.statistics + arena_floats(program)) * sizeof(float) +
           ALIGNMENT;
}

/* Divides the steps into as few segments as fit. */
static l3a_status fit(struct trainer *trainer, uint64_t memory, struct train_program *program) {
    uint64_t least = bytes_with(trainer, program);
    size_t starts[SEGMENTS];
    l3a_status status = L3A_OK;
    trainer->segments = 1;
    for (size_t wanted = 2; memory && least > memory && wanted <= SEGMENTS; wanted += (wanted + 1) / 2) {
        const size_t segments = train_segments(&trainer->steps, wanted, starts);
        TRY(train_program_divide(program, starts, segments));
        if (bytes_with(trainer, program) < least) {
            least = bytes_with(trainer, program);
            memcpy(trainer->starts, starts, sizeof starts);
            trainer->segments = segments;
        }
    }
    TRY(train_program_divide(program, trainer->starts, trainer->segments));
    FAIL_IF(memory && least > memory, trainer->context, L3A_ERROR_MEMORY, "use smaller batches or pictures, or train fewer layers",
            "training takes at least %" PRIu64 " MiB with batches of %zu; the limit is %" PRIu64 " MiB", (least >> 20) + 1,
            trainer->pictures, memory >> 20);
done:
    return status;
}

/* All but the memory for numbers. */
static l3a_status prepare(const struct train_products *products, const struct network *network, const struct network_use *use,
                          struct trainer **prepared) {
    l3a_context *context = network->context;
    struct trainer *trainer = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof *trainer, &trainer));
    trainer->context = context;
    trainer->products = products;
    trainer->pictures = use->pictures ? use->pictures : 1;
    TRY(copy_network(network, &trainer->network));
    TRY(products->open(context, &trainer->state));
    TRY(train_store_plan(network, use, &trainer->store));
    TRY(train_steps_make(&trainer->network, use, products->block(trainer->state, 1), &trainer->steps));
    TRY(allocate_zeroed(context, 1, sizeof *trainer->programs[0], &trainer->programs[0]));
    TRY(train_program_open(&trainer->steps, products, trainer->state, trainer->pictures, NULL, 1, trainer->programs[0]));
    TRY(fit(trainer, use->memory, trainer->programs[0]));
    *prepared = trainer;
    trainer = NULL;
done:
    trainer_close(trainer);
    return status;
}

l3a_status trainer_plan(const struct train_products *products, const struct network *network, const struct network_use *use,
                        struct network_plan *plan) {
    const int threads = threads_use(network->context->threads);
    struct trainer *trainer = NULL;
    l3a_status status = L3A_OK;
    TRY(prepare(products, network, use, &trainer));
    *plan = (struct network_plan){.bytes = bytes_with(trainer, trainer->programs[0]), .recomputes = trainer->segments > 1};
done:
    trainer_close(trainer);
    threads_use(threads);
    return status;
}

static l3a_status make_arena(struct trainer *trainer, const struct train_program *program) {
    const uint64_t floats = arena_floats(program);
    l3a_status status = L3A_OK;
    if (floats > trainer->floats) {
        release(trainer->context, trainer->memory);
        trainer->memory = NULL;
        trainer->kept = NULL;
        trainer->floats = 0;
        TRY(allocate(trainer->context, (size_t)floats * sizeof(float) + ALIGNMENT, 1, &trainer->memory));
        trainer->arena = (float *)(((uintptr_t)trainer->memory + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
        trainer->floats = (size_t)floats;
    }
done:
    return status;
}

l3a_status trainer_open(const struct train_products *products, const struct network *network, const struct network_use *use,
                        struct trainer **opened) {
    const int threads = threads_use(network->context->threads);
    struct trainer *trainer = NULL;
    l3a_status status = L3A_OK;
    TRY(prepare(products, network, use, &trainer));
    TRY(train_store_open(network, &trainer->store));
    point_to_store(trainer);
    TRY(allocate_zeroed(trainer->context, trainer->steps.statistics, sizeof(float), &trainer->statistics));
    TRY(make_arena(trainer, trainer->programs[0]));
    *opened = trainer;
    trainer = NULL;
done:
    trainer_close(trainer);
    threads_use(threads);
    return status;
}

static void close_program(struct trainer *trainer, struct train_program *program) {
    if (program) {
        trainer->kept = trainer->kept == program ? NULL : trainer->kept;
        train_program_close(program);
        release(trainer->context, program);
    }
}

void trainer_close(struct trainer *trainer) {
    if (trainer) {
        l3a_context *context = trainer->context;
        for (size_t i = 0; i < PROGRAMS; i++) {
            close_program(trainer, trainer->programs[i]);
        }
        train_steps_release(&trainer->steps);
        train_store_close(&trainer->store);
        if (trainer->state) {
            trainer->products->close(trainer->state);
        }
        release(context, trainer->network.layers);
        release(context, trainer->network.shapes);
        release(context, trainer->statistics);
        release(context, trainer->memory);
        release(context, trainer);
    }
}

/* ---- Running ---- */

/* The program for a number of pictures; the one that was not used for longest makes room for a new one. */
static l3a_status find_program(struct trainer *trainer, size_t pictures, const struct train_program **found) {
    struct train_program *program = NULL;
    size_t at = 0;
    l3a_status status = L3A_OK;
    while (at < PROGRAMS - 1 && trainer->programs[at] && trainer->programs[at]->pictures != pictures) {
        at++;
    }
    if (!trainer->programs[at] || trainer->programs[at]->pictures != pictures) {
        TRY(allocate_zeroed(trainer->context, 1, sizeof *program, &program));
        TRY(train_program_open(&trainer->steps, trainer->products, trainer->state, pictures, trainer->starts, trainer->segments,
                               program));
        close_program(trainer, trainer->programs[at]);
        trainer->programs[at] = program;
        program = NULL;
    }
    struct train_program *used = trainer->programs[at];
    memmove(trainer->programs + 1, trainer->programs, at * sizeof used);
    trainer->programs[0] = used;
    TRY(make_arena(trainer, used));
    *found = used;
done:
    release(trainer->context, program);
    return status;
}

static struct train_numbers numbers_of(const struct trainer *trainer) {
    return (struct train_numbers){.store = &trainer->store, .arena = trainer->arena, .statistics = trainer->statistics};
}

l3a_status trainer_run(struct trainer *trainer, const float *pictures, size_t count, float *const *outputs) {
    const struct network *net = &trainer->network;
    const int threads = threads_use(trainer->context->threads);
    const struct layout *in = &trainer->steps.layouts[PICTURE];
    float *rest[NETWORK_OUTPUTS];
    l3a_status status = L3A_OK;
    trainer->kept = NULL;
    for (size_t start = 0; start < count; start += trainer->pictures) {
        const struct train_program *program = NULL;
        TRY(find_program(trainer, count - start < trainer->pictures ? count - start : trainer->pictures, &program));
        for (size_t i = 0; i < net->output_count; i++) {
            const struct shape shape = net->shapes[net->outputs[i].value];
            rest[i] = outputs[i] + start * shape.channels * shape.height * shape.width;
        }
        const struct train_numbers numbers = numbers_of(trainer);
        TRY(train_forward(program, &numbers, false, pictures + start * layout_size(in), rest));
    }
done:
    threads_use(threads);
    return status;
}

l3a_status trainer_forward(struct trainer *trainer, const float *pictures, size_t count, float *const *outputs) {
    const int threads = threads_use(trainer->context->threads);
    const struct train_program *program = NULL;
    l3a_status status = L3A_OK;
    trainer->kept = NULL;
    FAIL_IF(!count || count > trainer->pictures, trainer->context, L3A_ERROR_ARGUMENT, NULL,
            "a batch of %zu pictures; the network was opened for 1 to %zu", count, trainer->pictures);
    TRY(find_program(trainer, count, &program));
    const struct train_numbers numbers = numbers_of(trainer);
    TRY(train_forward(program, &numbers, true, pictures, outputs));
    trainer->kept = program;
done:
    threads_use(threads);
    return status;
}

l3a_status trainer_backward(struct trainer *trainer, const float *const *gradients) {
    const struct train_numbers numbers = numbers_of(trainer);
    const int threads = threads_use(trainer->context->threads);
    l3a_status status = L3A_OK;
    FAIL_IF(!trainer->kept, trainer->context, L3A_ERROR_STATE, NULL, "backward needs the values of a forward pass");
    TRY(train_backward(trainer->kept, &numbers, gradients));
done:
    trainer->kept = NULL; /* gradients have taken the place of values */
    threads_use(threads);
    return status;
}

l3a_status trainer_gradient_square(struct trainer *trainer, double *sum) {
    const int threads = threads_use(trainer->context->threads);
    *sum = train_store_square(&trainer->store);
    threads_use(threads);
    return L3A_OK;
}

l3a_status trainer_step(struct trainer *trainer, const struct network_step *step) {
    const int threads = threads_use(trainer->context->threads);
    train_store_step(&trainer->store, step);
    threads_use(threads);
    return L3A_OK;
}

/* ---- Parameters ---- */

static l3a_status find_part(const struct trainer *trainer, size_t layer, enum parameter_kind kind, enum parameter_part part,
                            float **found) {
    l3a_status status = L3A_OK;
    *found = layer < trainer->store.layers ? train_store_at(&trainer->store, layer, kind, part) : NULL;
    FAIL_IF(!*found, trainer->context, L3A_ERROR_ARGUMENT, NULL, "layer %zu has no such parameter, or it is not trained", layer);
done:
    return status;
}

l3a_status trainer_read(const struct trainer *trainer, size_t layer, enum parameter_kind kind, enum parameter_part part,
                        float *values) {
    float *found = NULL;
    l3a_status status = L3A_OK;
    TRY(find_part(trainer, layer, kind, part, &found));
    memcpy(values, found, trainer->store.parameters[layer][kind].count * sizeof *values);
done:
    return status;
}

l3a_status trainer_write(struct trainer *trainer, size_t layer, enum parameter_kind kind, enum parameter_part part,
                         const float *values) {
    float *found = NULL;
    l3a_status status = L3A_OK;
    TRY(find_part(trainer, layer, kind, part, &found));
    memcpy(found, values, trainer->store.parameters[layer][kind].count * sizeof *values);
done:
    return status;
}
