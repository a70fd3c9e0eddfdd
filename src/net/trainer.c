#include "net/trainer.h"
#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

/* ---- Preparing ---- */

/* Copies what training reads of the description. The values of parameters are the back end's. */
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

static uint64_t arena_floats(const struct train_program *program) {
    return program->training.arena > program->running.arena ? program->training.arena : program->running.arena;
}

static uint64_t bytes_with(const struct trainer *trainer, const struct train_program *program) {
    return train_parameters_bytes(&trainer->parameters) +
           ((uint64_t)trainer->steps.statistics + arena_floats(program)) * sizeof(float) + trainer->machine.overhead;
}

/* Divides the steps into as few segments as fit. */
static l3a_status fit(struct trainer *trainer, uint64_t memory, struct train_program *program) {
    uint64_t least = bytes_with(trainer, program);
    size_t starts[TRAIN_SEGMENTS];
    l3a_status status = L3A_OK;
    trainer->segments = 1;
    for (size_t wanted = 2; memory && least > memory && wanted <= TRAIN_SEGMENTS; wanted += (wanted + 1) / 2) {
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

l3a_status trainer_prepare(const struct train_machine *machine, const struct network *network, const struct network_use *use,
                           struct trainer *trainer) {
    l3a_context *context = network->context;
    l3a_status status = L3A_OK;
    *trainer = (struct trainer){.context = context, .machine = *machine, .pictures = use->pictures ? use->pictures : 1};
    TRY(copy_network(network, &trainer->network));
    TRY(train_parameters_make(network, use, &trainer->parameters));
    TRY(train_steps_make(&trainer->network, use, machine->block, &trainer->steps));
    TRY(allocate_zeroed(context, 1, sizeof *trainer->programs[0], &trainer->programs[0]));
    TRY(train_program_open(&trainer->steps, &machine->preparer, trainer->pictures, NULL, 1, trainer->programs[0]));
    TRY(fit(trainer, use->memory, trainer->programs[0]));
done:
    return status;
}

struct network_plan trainer_plan(const struct trainer *trainer) {
    return (struct network_plan){.bytes = bytes_with(trainer, trainer->programs[0]), .recomputes = trainer->segments > 1};
}

static l3a_status make_arena(struct trainer *trainer, const struct train_program *program) {
    const uint64_t floats = arena_floats(program);
    l3a_status status = L3A_OK;
    if (floats > trainer->floats) {
        trainer->kept = NULL;
        trainer->floats = 0;
        TRY(trainer->machine.arena(trainer->machine.preparer.owner, floats));
        trainer->floats = floats;
    }
done:
    return status;
}

l3a_status trainer_start(struct trainer *trainer) {
    return make_arena(trainer, trainer->programs[0]);
}

static void close_program(struct trainer *trainer, struct train_program *program) {
    if (program) {
        trainer->kept = trainer->kept == program ? NULL : trainer->kept;
        train_program_close(program);
        release(trainer->context, program);
    }
}

void trainer_release(struct trainer *trainer) {
    if (trainer->context) {
        for (size_t i = 0; i < TRAIN_PROGRAMS; i++) {
            close_program(trainer, trainer->programs[i]);
        }
        train_steps_release(&trainer->steps);
        train_parameters_release(&trainer->parameters);
        release(trainer->context, trainer->network.layers);
        release(trainer->context, trainer->network.shapes);
    }
    *trainer = (struct trainer){0};
}

/* ---- Running ---- */

/* The program for a number of pictures; the one that was not used for longest makes room for a new one. */
static l3a_status find_program(struct trainer *trainer, size_t pictures, const struct train_program **found) {
    struct train_program *program = NULL;
    size_t at = 0;
    l3a_status status = L3A_OK;
    while (at < TRAIN_PROGRAMS - 1 && trainer->programs[at] && trainer->programs[at]->pictures != pictures) {
        at++;
    }
    if (!trainer->programs[at] || trainer->programs[at]->pictures != pictures) {
        TRY(allocate_zeroed(trainer->context, 1, sizeof *program, &program));
        TRY(train_program_open(&trainer->steps, &trainer->machine.preparer, pictures, trainer->starts, trainer->segments, program));
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

l3a_status trainer_run(struct trainer *trainer, const float *pictures, size_t count, float *const *outputs) {
    const struct network *net = &trainer->network;
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
        TRY(trainer->machine.forward(trainer->machine.preparer.owner, program, false, pictures + start * layout_size(in), rest));
    }
done:
    return status;
}

/* Statistics of a batch need two numbers of each channel. */
static l3a_status check_batch(const struct trainer *trainer, size_t count) {
    l3a_status status = L3A_OK;
    FAIL_IF(!count || count > trainer->pictures, trainer->context, L3A_ERROR_ARGUMENT, NULL,
            "a batch of %zu pictures; the network was opened for 1 to %zu", count, trainer->pictures);
    for (size_t i = 0; i < trainer->steps.count; i++) {
        const struct train_step *step = &trainer->steps.steps[i];
        const struct layout *from = &trainer->steps.layouts[step->input];
        FAIL_IF(step->measures && count * from->height * from->width < 2, trainer->context, L3A_ERROR_OPTION,
                "use more pictures in a batch, or larger ones", "layer %zu: a batch norm cannot learn from a single number",
                step->index);
    }
done:
    return status;
}

l3a_status trainer_forward(struct trainer *trainer, const float *pictures, size_t count, float *const *outputs) {
    const struct train_program *program = NULL;
    l3a_status status = L3A_OK;
    trainer->kept = NULL;
    TRY(check_batch(trainer, count));
    TRY(find_program(trainer, count, &program));
    TRY(trainer->machine.forward(trainer->machine.preparer.owner, program, true, pictures, outputs));
    trainer->kept = program;
done:
    return status;
}

l3a_status trainer_backward(struct trainer *trainer, const float *const *gradients) {
    l3a_status status = L3A_OK;
    FAIL_IF(!trainer->kept, trainer->context, L3A_ERROR_STATE, NULL, "backward needs the values of a forward pass");
    TRY(trainer->machine.backward(trainer->machine.preparer.owner, trainer->kept, gradients));
done:
    trainer->kept = NULL; /* gradients have taken the place of values */
    return status;
}

l3a_status trainer_find_part(const struct trainer *trainer, float *const *parts, size_t layer, enum parameter_kind kind,
                             enum parameter_part part, float **found) {
    l3a_status status = L3A_OK;
    *found = layer < trainer->parameters.layers ? train_parameter_at(&trainer->parameters, parts, layer, kind, part) : NULL;
    FAIL_IF(!*found, trainer->context, L3A_ERROR_ARGUMENT, NULL, "layer %zu has no such parameter, or it is not trained", layer);
done:
    return status;
}
