/* Runs a network on the processor.
 *
 * Pictures are computed in batches of a fixed size. The rest are computed one at a time, with a second program that shares the
 * packed factors of the first. Both use one arena. */
#include "net/cpu/cpu.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/threads.h"
#include "net/cpu/program.h"
#include "net/cpu/train.h"

#include <inttypes.h>
#include <string.h>

enum { ALIGNMENT = 64, BATCH = 8 };

struct cpu_network {
    struct cpu_trainer *trainer; /* of a network that is trained, which has nothing else; NULL: it only runs */
    const struct products *products;
    void *state; /* of the products */
    struct network network;
    enum number_type numbers;
    struct program many, one; /* for a batch, and for a single picture */
    bool borrows;             /* the network's arrays are another state's */
    float *arena;
    void *memory; /* contains the arena, which is aligned; made by the first run, since a state may only lend its parameters */
};

/* Copies what running reads: all but the factors of products, which are packed. */
static l3a_status copy_network(const struct network *from, struct network *to) {
    l3a_context *context = from->context;
    l3a_status status = L3A_OK;
    *to = (struct network){.context = context, .value_count = from->value_count, .output_count = from->output_count};
    memcpy(to->outputs, from->outputs, sizeof to->outputs);
    TRY(allocate(context, from->value_count, sizeof *to->shapes, &to->shapes));
    memcpy(to->shapes, from->shapes, from->value_count * sizeof *to->shapes);
    TRY(allocate(context, from->layer_count, sizeof *to->layers, &to->layers));
    for (size_t i = 0; i < from->layer_count; i++) {
        struct net_layer *layer = &to->layers[to->layer_count++];
        *layer = from->layers[i];
        memset(layer->parameters, 0, sizeof layer->parameters);
        for (size_t kind = is_product(layer) ? BIAS : FACTORS; kind < PARAMETER_KINDS; kind++) {
            const struct parameter *given = &from->layers[i].parameters[kind];
            if (given->values) {
                TRY(allocate(context, given->count, sizeof(float), &layer->parameters[kind].values));
                memcpy(layer->parameters[kind].values, given->values, given->count * sizeof(float));
                layer->parameters[kind].count = given->count;
            }
        }
    }
done:
    return status;
}

static size_t arena_floats(const struct cpu_network *cpu) {
    return cpu->many.arena > cpu->one.arena ? cpu->many.arena : cpu->one.arena;
}

static l3a_status make_arena(struct cpu_network *cpu) {
    l3a_status status = L3A_OK;
    if (!cpu->memory) {
        TRY(allocate(cpu->network.context, arena_floats(cpu) * sizeof(float) + ALIGNMENT, 1, &cpu->memory));
        cpu->arena = (float *)(((uintptr_t)cpu->memory + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    }
done:
    return status;
}

static l3a_status check_arena(const struct cpu_network *cpu) {
    l3a_context *context = cpu->network.context;
    const uint64_t limit = context->options.memory_limit ? context->options.memory_limit : machine_memory_available();
    const size_t floats = arena_floats(cpu);
    l3a_status status = L3A_OK;
    FAIL_IF(limit && floats > limit / sizeof(float), context, L3A_ERROR_MEMORY, "use smaller pictures",
            "the network needs %" PRIu64 " MiB of working memory; the limit is %" PRIu64 " MiB",
            (uint64_t)floats * sizeof(float) >> 20, limit >> 20);
done:
    return status;
}

l3a_status cpu_network_open(const struct products *products, const struct network *network, enum number_type numbers,
                            void **state) {
    l3a_context *context = network->context;
    const int threads = threads_use(context->threads);
    struct cpu_network *cpu = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof *cpu, &cpu));
    cpu->products = products;
    cpu->numbers = numbers;
    cpu->network.context = context;
    TRY(copy_network(network, &cpu->network));
    TRY(products->open(context, &cpu->state));
    TRY(program_open(&cpu->network, network, products, cpu->state, numbers, BATCH, NULL, &cpu->many));
    TRY(program_open(&cpu->network, network, products, cpu->state, numbers, 1, &cpu->many, &cpu->one));
    TRY(check_arena(cpu));
    *state = cpu;
    cpu = NULL;
done:
    cpu_network_close(cpu);
    threads_use(threads);
    return status;
}

l3a_status cpu_network_share(l3a_context *context, const void *state, void **shared) {
    const struct cpu_network *first = state;
    const int threads = threads_use(context->threads);
    struct cpu_network *cpu = NULL;
    l3a_status status = L3A_OK;
    FAIL_IF(first->trainer, context, L3A_ERROR_STATE, NULL, "a network that is trained cannot be shared");
    TRY(allocate_zeroed(context, 1, sizeof *cpu, &cpu));
    cpu->products = first->products;
    cpu->numbers = first->numbers;
    cpu->network = first->network;
    cpu->network.context = context;
    cpu->borrows = true;
    TRY(cpu->products->open(context, &cpu->state));
    TRY(program_open(&cpu->network, &cpu->network, cpu->products, cpu->state, cpu->numbers, BATCH, &first->many, &cpu->many));
    TRY(program_open(&cpu->network, &cpu->network, cpu->products, cpu->state, cpu->numbers, 1, &first->one, &cpu->one));
    *shared = cpu;
    cpu = NULL;
done:
    cpu_network_close(cpu);
    threads_use(threads);
    return status;
}

void cpu_network_close(void *state) {
    struct cpu_network *cpu = state;
    if (cpu) {
        l3a_context *context = cpu->network.context;
        cpu_trainer_close(cpu->trainer);
        program_close(&cpu->one);
        program_close(&cpu->many);
        if (cpu->products) {
            cpu->products->close(cpu->state);
        }
        if (!cpu->borrows) {
            network_free(&cpu->network);
        }
        release(context, cpu->memory);
        release(context, cpu);
    }
}

l3a_status cpu_network_run(void *state, const float *pictures, size_t count, float *const *outputs) {
    struct cpu_network *cpu = state;
    if (cpu->trainer) {
        return cpu_trainer_run(cpu->trainer, pictures, count, outputs);
    }
    const struct shape in = cpu->network.shapes[PICTURE];
    const size_t in_size = in.channels * in.height * in.width;
    const int threads = threads_use(cpu->network.context->threads);
    l3a_status status = L3A_OK;
    TRY(make_arena(cpu));
    for (size_t i = 0; i < count;) {
        const struct program *program = count - i >= cpu->many.batch ? &cpu->many : &cpu->one;
        TRY(program_run(program, pictures + i * in_size, cpu->arena, outputs, i));
        i += program->batch;
    }
done:
    threads_use(threads);
    return status;
}

/* ---- Training ---- */

static struct cpu_trainer *trainer_of(void *state) {
    return ((struct cpu_network *)state)->trainer;
}

l3a_status cpu_network_train(const struct train_products *products, const struct network *network, const struct network_use *use,
                             void **state) {
    struct cpu_network *cpu = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(network->context, 1, sizeof *cpu, &cpu));
    cpu->network.context = network->context;
    TRY(cpu_trainer_open(products, network, use, &cpu->trainer));
    *state = cpu;
    cpu = NULL;
done:
    cpu_network_close(cpu);
    return status;
}

l3a_status cpu_network_forward(void *state, const float *pictures, size_t count, float *const *outputs) {
    return cpu_trainer_forward(trainer_of(state), pictures, count, outputs);
}

l3a_status cpu_network_backward(void *state, const float *const *gradients) {
    return cpu_trainer_backward(trainer_of(state), gradients);
}

l3a_status cpu_network_gradient_square(void *state, double *sum) {
    return cpu_trainer_gradient_square(trainer_of(state), sum);
}

l3a_status cpu_network_step(void *state, const struct network_step *step) {
    return cpu_trainer_step(trainer_of(state), step);
}

l3a_status cpu_network_read(void *state, size_t layer, enum parameter_kind kind, enum parameter_part part, float *values) {
    return cpu_trainer_read(trainer_of(state), layer, kind, part, values);
}

l3a_status cpu_network_write(void *state, size_t layer, enum parameter_kind kind, enum parameter_part part, const float *values) {
    return cpu_trainer_write(trainer_of(state), layer, kind, part, values);
}
