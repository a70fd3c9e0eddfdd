/* Passes of training on a CUDA device. All of a pass goes to the stream of the context, in the order of the program's events; only
 * what the outputs are is waited for. */
#include "cuda/net/train.h"

/* A pass in progress. */
struct run {
    struct cuda_trainer *cuda;
    struct device *device;
    const struct train_program *program;
    const struct train_places *places;
    bool training;
};

static struct run start(struct cuda_trainer *cuda, const struct train_program *program, bool training) {
    return (struct run){.cuda = cuda,
                        .device = device_of(cuda->context),
                        .program = program,
                        .places = training ? &program->training : &program->running,
                        .training = training};
}

static const struct network *network_of(const struct run *run) {
    return run->program->steps->network;
}

static void *arena_at(const struct run *run, size_t floats) {
    return run->cuda->arena + floats * sizeof(float);
}

static void *value_at(const struct run *run, value made, enum train_pass pass) {
    return made ? arena_at(run, (pass == PASS_FORWARD ? run->places->values : run->places->again)[made]) : NULL;
}

static void *gradient_at(const struct run *run, value of) {
    return arena_at(run, run->places->gradients[of]);
}

static size_t numbers_of(const struct run *run, value of) {
    return run->program->pictures * shape_numbers(network_of(run)->shapes[of]);
}

static enum number_type type_of(const struct run *run, value of) {
    return run->program->steps->layouts[of].type;
}

/* ---- Steps ---- */

/* All but the pointers. */
static struct cuda_call shapes_of(struct cuda_trainer *cuda, const struct train_program *program, size_t index) {
    const struct train_step *step = &program->steps->steps[index];
    const struct shape *shapes = program->steps->network->shapes;
    return (struct cuda_call){.cuda = cuda,
                              .type = cuda->type,
                              .step = step,
                              .layer = step->layer,
                              .pictures = program->pictures,
                              .from = step->layer->from,
                              .to = step->layer->to,
                              .beside = shapes[step->second]};
}

static bool is_output(const struct network *net, value made) {
    for (size_t i = 0; i < net->output_count; i++) {
        if (net->outputs[i].value == made) {
            return true;
        }
    }
    return false;
}

l3a_status cuda_train_prepare(void *owner, const struct train_program *program, size_t index, size_t *floats, void **operation) {
    const struct cuda_call call = shapes_of(owner, program, index);
    const struct network *net = program->steps->network;
    const value made = call.step->output;
    const size_t planes = is_output(net, made) ? program->pictures * shape_numbers(net->shapes[made]) : 0;
    *floats = cuda_layer_rooms(&call).end / sizeof(float);
    *floats = planes > *floats ? planes : *floats;
    *operation = NULL;
    return L3A_OK;
}

static struct cuda_call call_of(const struct run *run, size_t index, enum train_pass pass) {
    struct cuda_call call = shapes_of(run->cuda, run->program, index);
    const struct train_step *step = call.step;
    call.device = run->device;
    call.stream = run->device->stream;
    call.input = value_at(run, step->input, pass);
    call.second = value_at(run, step->second, pass);
    call.output = value_at(run, step->output, pass);
    call.measures = step->measures && run->training;
    call.again = pass == PASS_AGAIN;
    call.mean = run->cuda->statistics + step->statistics;
    call.scale = call.mean + call.to.channels;
    call.scratch = arena_at(run, run->places->scratch);
    for (size_t i = 0; i < PARAMETER_KINDS; i++) {
        const enum parameter_kind kind = (enum parameter_kind)i;
        const struct train_parameters *parameters = &run->cuda->trainer.parameters;
        call.values[i] = train_parameter_at(parameters, run->cuda->parts, step->index, kind, PARAMETER_VALUE);
        call.gradients[i] =
            pass == PASS_BACKWARD ? train_parameter_at(parameters, run->cuda->parts, step->index, kind, PARAMETER_GRADIENT) : NULL;
    }
    return call;
}

/* ---- Forward ---- */

static l3a_status give_outputs(const struct run *run, value made, float *const *outputs) {
    const struct network *net = network_of(run);
    float *planes = arena_at(run, run->places->scratch);
    struct device *device = run->device;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < net->output_count; i++) {
        if (net->outputs[i].value == made) {
            TRY_CUDA(device, net_planes(device->stream, type_of(run, made), run->program->pictures, net->shapes[made],
                                        value_at(run, made, PASS_FORWARD), planes));
            TRY(device_get(device, outputs[i], planes, numbers_of(run, made) * sizeof(float)));
        }
    }
done:
    return status;
}

l3a_status cuda_train_forward(void *owner, const struct train_program *program, bool training, const float *pictures,
                              float *const *outputs) {
    const struct run run = start(owner, program, training);
    l3a_status status = L3A_OK;
    TRY(device_put(run.device, value_at(&run, PICTURE, PASS_FORWARD), pictures, numbers_of(&run, PICTURE) * sizeof(float)));
    for (size_t i = 0; i < program->steps->count; i++) {
        const struct cuda_call call = call_of(&run, i, PASS_FORWARD);
        TRY(cuda_layer_forward(&call));
        TRY(give_outputs(&run, call.step->output, outputs));
    }
done:
    return status;
}

/* ---- Backward ---- */

/* to += from */
static l3a_status add(const struct run *run, value of, const void *from, void *to) {
    const struct shape shape = network_of(run)->shapes[of];
    return device_check(run->device,
                        net_finish(run->device->stream, type_of(run, of), LINEAR_ACTIVATION, 0,
                                   run->program->pictures * shape.height * shape.width, shape.channels, NULL, to, from, to),
                        "net_finish");
}

/* Adds what the caller says of an output to the gradient of a value, which is zero if no layer has a share in it. */
static l3a_status take_gradients(const struct run *run, const struct train_step *step, const float *const *gradients) {
    const struct network *net = network_of(run);
    const size_t numbers = numbers_of(run, step->output);
    const enum number_type type = type_of(run, step->output);
    void *gradient = gradient_at(run, step->output);
    float *planes = arena_at(run, run->places->scratch);
    struct device *device = run->device;
    l3a_status status = L3A_OK;
    if (!step->output_adds) { /* then it is an output */
        TRY_CUDA(device, cudaMemsetAsync(gradient, 0, numbers * number_bytes(type), device->stream));
    }
    for (size_t i = 0; i < net->output_count; i++) {
        if (net->outputs[i].value == step->output && gradients[i]) {
            TRY(device_put(device, planes, gradients[i], numbers * sizeof(float)));
            TRY_CUDA(device,
                     net_add_planes(device->stream, type, run->program->pictures, net->shapes[step->output], planes, gradient));
        }
    }
done:
    return status;
}

/* Gives an input the gradient of the output as it is. */
static l3a_status give(const struct run *run, const struct train_step *step, value input, bool wanted, bool stays, bool adds) {
    const void *from = gradient_at(run, step->output);
    const size_t bytes = numbers_of(run, input) * number_bytes(type_of(run, input));
    struct device *device = run->device;
    l3a_status status = L3A_OK;
    if (wanted && adds) {
        TRY(add(run, input, from, gradient_at(run, input)));
    } else if (wanted && !stays) {
        TRY_CUDA(device, cudaMemcpyAsync(gradient_at(run, input), from, bytes, cudaMemcpyDefault, device->stream));
    }
done:
    return status;
}

struct passing {
    const struct run *run;
    const struct train_step *step;
};

static l3a_status give_second(void *owner) {
    const struct passing *passing = owner;
    const struct train_step *step = passing->step;
    return give(passing->run, step, step->second, step->wants_second, step->second_stays, step->second_adds);
}

/* A layer that cannot add to the gradients of its inputs writes them elsewhere first. */
static l3a_status backward_step(const struct run *run, size_t index, const float *const *gradients) {
    const struct train_step *step = &run->program->steps->steps[index];
    struct cuda_call call = call_of(run, index, PASS_BACKWARD);
    struct passing passing = {run, step};
    char *room = call.scratch;
    l3a_status status = L3A_OK;
    TRY(take_gradients(run, step, gradients));
    call.out_gradient = gradient_at(run, step->output);
    call.adds = step->input_adds && !step->input_apart;
    if (step->wants_input) {
        call.in_gradient = step->input_apart ? room : gradient_at(run, step->input);
        room += step->input_apart ? train_value_floats(run->program, step->input) * sizeof(float) : 0;
    }
    if (step->wants_second) {
        call.second_gradient = step->second_apart ? room : gradient_at(run, step->second);
        room += step->second_apart ? train_value_floats(run->program, step->second) * sizeof(float) : 0;
    }
    call.scratch = room;
    TRY(cuda_layer_backward(&call, give_second, &passing));
    if (step->layer->kind == LAYER_ADD) {
        TRY(give_second(&passing));
        TRY(give(run, step, step->input, step->wants_input, step->input_stays, step->input_adds));
    }
    if (step->input_apart) {
        TRY(add(run, step->input, call.in_gradient, gradient_at(run, step->input)));
    }
    if (step->second_apart) {
        TRY(add(run, step->second, call.second_gradient, gradient_at(run, step->second)));
    }
done:
    return status;
}

l3a_status cuda_train_backward(void *owner, const struct train_program *program, const float *const *gradients) {
    const struct run run = start(owner, program, true);
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < run.places->count; i++) {
        const struct train_event *event = &run.places->events[i];
        if (event->pass == PASS_AGAIN) {
            const struct cuda_call call = call_of(&run, event->step, PASS_AGAIN);
            TRY(cuda_layer_forward(&call));
        } else if (event->pass == PASS_BACKWARD) {
            TRY(backward_step(&run, event->step, gradients));
        }
    }
done:
    return status;
}
