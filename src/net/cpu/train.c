/* A network that is trained on the processor: a trainer (net/trainer.h) with its memory, and what a matrix library prepares. */
#include "net/cpu/train.h"
#include "base/memory.h"
#include "base/threads.h"
#include "net/cpu/train_run.h"
#include "net/trainer.h"

#include <string.h>

enum { ALIGNMENT = 64 };

struct cpu_trainer {
    l3a_context *context;
    const struct train_products *products;
    void *state; /* of the products */
    struct trainer trainer;
    struct train_store store;
    float *arena, *statistics;
    void *memory; /* contains the arena, which is aligned */
};

/* ---- What the trainer wants of it ---- */

static l3a_status prepare_step(void *owner, const struct train_program *program, size_t index, size_t *floats, void **operation) {
    const struct cpu_trainer *cpu = owner;
    const struct train_step *step = &program->steps->steps[index];
    const struct layout *from = &program->steps->layouts[step->input], *to = &program->steps->layouts[step->output];
    l3a_status status = L3A_OK;
    if (step->layer->kind == LAYER_CONVOLUTION) {
        struct convolution what = {.layer = step->layer,
                                   .pictures = program->pictures,
                                   .from = *from,
                                   .to = *to,
                                   .in_gradient = step->wants_input,
                                   .gradients = step->trains};
        TRY(cpu->products->prepare(cpu->state, &what, operation));
        *floats = train_unwanted_floats(step) + what.scratch;
    } else {
        *floats = train_sums(step->layer, from, to, program->pictures);
    }
done:
    return status;
}

static l3a_status take_arena(void *owner, uint64_t floats) {
    struct cpu_trainer *cpu = owner;
    l3a_status status = L3A_OK;
    release(cpu->context, cpu->memory);
    cpu->memory = NULL;
    TRY(allocate(cpu->context, (size_t)floats * sizeof(float) + ALIGNMENT, 1, &cpu->memory));
    cpu->arena = (float *)(((uintptr_t)cpu->memory + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
done:
    return status;
}

static struct train_numbers numbers_of(const struct cpu_trainer *cpu) {
    return (struct train_numbers){
        .products = cpu->products, .store = &cpu->store, .arena = cpu->arena, .statistics = cpu->statistics};
}

static l3a_status forward(void *owner, const struct train_program *program, bool training, const float *pictures,
                          float *const *outputs) {
    const struct train_numbers numbers = numbers_of(owner);
    return train_forward(program, &numbers, training, pictures, outputs);
}

static l3a_status backward(void *owner, const struct train_program *program, const float *const *gradients) {
    const struct train_numbers numbers = numbers_of(owner);
    return train_backward(program, &numbers, gradients);
}

/* ---- Opening ---- */

/* All but the memory for numbers. */
static l3a_status prepare(const struct train_products *products, const struct network *network, const struct network_use *use,
                          struct cpu_trainer **prepared) {
    struct cpu_trainer *cpu = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(network->context, 1, sizeof *cpu, &cpu));
    cpu->context = network->context;
    cpu->products = products;
    TRY(products->open(cpu->context, &cpu->state));
    const struct train_machine machine = {
        .preparer = {.owner = cpu, .prepare = prepare_step, .release = products->release},
        .block = products->block(cpu->state, 1),
        .overhead = ALIGNMENT,
        .arena = take_arena,
        .forward = forward,
        .backward = backward,
    };
    TRY(trainer_prepare(&machine, network, use, &cpu->trainer));
    *prepared = cpu;
    cpu = NULL;
done:
    cpu_trainer_close(cpu);
    return status;
}

l3a_status cpu_trainer_plan(const struct train_products *products, const struct network *network, const struct network_use *use,
                            struct network_plan *plan) {
    const int threads = threads_use(network->context->threads);
    struct cpu_trainer *cpu = NULL;
    l3a_status status = L3A_OK;
    TRY(prepare(products, network, use, &cpu));
    *plan = trainer_plan(&cpu->trainer);
done:
    cpu_trainer_close(cpu);
    threads_use(threads);
    return status;
}

static void point_to_store(struct cpu_trainer *cpu) {
    struct network *network = &cpu->trainer.network;
    for (size_t i = 0; i < network->layer_count * PARAMETER_KINDS; i++) {
        network->layers[i / PARAMETER_KINDS].parameters[i % PARAMETER_KINDS].values =
            train_parameter_at(&cpu->trainer.parameters, cpu->store.parts, i / PARAMETER_KINDS,
                               (enum parameter_kind)(i % PARAMETER_KINDS), PARAMETER_VALUE);
    }
}

l3a_status cpu_trainer_open(const struct train_products *products, const struct network *network, const struct network_use *use,
                            struct cpu_trainer **opened) {
    const int threads = threads_use(network->context->threads);
    struct cpu_trainer *cpu = NULL;
    l3a_status status = L3A_OK;
    TRY(prepare(products, network, use, &cpu));
    TRY(train_store_open(network, &cpu->trainer.parameters, &cpu->store));
    point_to_store(cpu);
    TRY(allocate_zeroed(cpu->context, cpu->trainer.steps.statistics, sizeof(float), &cpu->statistics));
    TRY(trainer_start(&cpu->trainer));
    *opened = cpu;
    cpu = NULL;
done:
    cpu_trainer_close(cpu);
    threads_use(threads);
    return status;
}

void cpu_trainer_close(struct cpu_trainer *cpu) {
    if (cpu) {
        l3a_context *context = cpu->context;
        trainer_release(&cpu->trainer);
        train_store_close(&cpu->store);
        if (cpu->state) {
            cpu->products->close(cpu->state);
        }
        release(context, cpu->statistics);
        release(context, cpu->memory);
        release(context, cpu);
    }
}

/* ---- Running ---- */

l3a_status cpu_trainer_run(struct cpu_trainer *cpu, const float *pictures, size_t count, float *const *outputs) {
    const int threads = threads_use(cpu->context->threads);
    const l3a_status status = trainer_run(&cpu->trainer, pictures, count, outputs);
    threads_use(threads);
    return status;
}

l3a_status cpu_trainer_forward(struct cpu_trainer *cpu, const float *pictures, size_t count, float *const *outputs) {
    const int threads = threads_use(cpu->context->threads);
    const l3a_status status = trainer_forward(&cpu->trainer, pictures, count, outputs);
    threads_use(threads);
    return status;
}

l3a_status cpu_trainer_backward(struct cpu_trainer *cpu, const float *const *gradients) {
    const int threads = threads_use(cpu->context->threads);
    const l3a_status status = trainer_backward(&cpu->trainer, gradients);
    threads_use(threads);
    return status;
}

l3a_status cpu_trainer_gradient_square(struct cpu_trainer *cpu, double *sum) {
    const int threads = threads_use(cpu->context->threads);
    *sum = train_store_square(&cpu->store);
    threads_use(threads);
    return L3A_OK;
}

l3a_status cpu_trainer_step(struct cpu_trainer *cpu, const struct network_step *step) {
    const int threads = threads_use(cpu->context->threads);
    train_store_step(&cpu->store, step);
    threads_use(threads);
    return L3A_OK;
}

/* ---- Parameters ---- */

l3a_status cpu_trainer_read(const struct cpu_trainer *cpu, size_t layer, enum parameter_kind kind, enum parameter_part part,
                            float *values) {
    float *found = NULL;
    l3a_status status = L3A_OK;
    TRY(trainer_find_part(&cpu->trainer, cpu->store.parts, layer, kind, part, &found));
    memcpy(values, found, cpu->trainer.parameters.stored[layer][kind].count * sizeof *values);
done:
    return status;
}

l3a_status cpu_trainer_write(struct cpu_trainer *cpu, size_t layer, enum parameter_kind kind, enum parameter_part part,
                             const float *values) {
    float *found = NULL;
    l3a_status status = L3A_OK;
    TRY(trainer_find_part(&cpu->trainer, cpu->store.parts, layer, kind, part, &found));
    memcpy(found, values, cpu->trainer.parameters.stored[layer][kind].count * sizeof *values);
done:
    return status;
}
