#include "net/cpu/train_run.h"
#include "base/threads.h"
#include "net/cpu/program.h"

#include <string.h>

/* A run in progress. */
struct run {
    const struct train_program *program;
    const struct train_places *places;
    const struct train_numbers *numbers;
    const struct kernels *kernels;
    l3a_context *context;
    bool training;
};

static struct run start(const struct train_program *program, const struct train_numbers *numbers, bool training) {
    return (struct run){.program = program,
                        .places = training ? &program->training : &program->running,
                        .numbers = numbers,
                        .kernels = kernels_pick(),
                        .context = program->steps->context,
                        .training = training};
}

static const struct layout *layout_of(const struct run *run, value of) {
    return &run->program->steps->layouts[of];
}

static float *value_at(const struct run *run, value made, enum train_pass pass) {
    return made ? run->numbers->arena + (pass == PASS_FORWARD ? run->places->values : run->places->again)[made] : NULL;
}

static float *gradient_at(const struct run *run, value of) {
    return run->numbers->arena + run->places->gradients[of];
}

static size_t floats_of(const struct run *run, value of) {
    return run->program->pictures * layout_size(layout_of(run, of));
}

/* ---- Loops ---- */

struct loop {
    train_function *train;
    kernel_function *run;
    const struct train_call *train_call;
    const struct kernel_call *call;
};

static void run_tasks(void *argument, size_t first, size_t last) {
    const struct loop *loop = argument;
    if (loop->train) {
        loop->train(loop->train_call, first, last);
    } else {
        loop->run(loop->call, first, last);
    }
}

static void run_loop(const struct run *run, size_t tasks, struct loop loop) {
    const size_t parts = 4 * (size_t)run->context->threads;
    parallel_for(run->context->threads, tasks, tasks < 2 * parts ? 1 : tasks / parts, run_tasks, &loop);
}

static void run_phase(const struct run *run, const struct train_phase *phase, const struct train_call *call) {
    if (phase->run) {
        run_loop(run, train_task_count(phase->tasks, call), (struct loop){.train = phase->run, .train_call = call});
    }
}

struct add_loop {
    const struct train_kernels *kernels;
    const float *from;
    float *to;
};

static void add_part(void *argument, size_t first, size_t last) {
    const struct add_loop *loop = argument;
    loop->kernels->add(loop->from, loop->to, first, last);
}

static void add(const struct run *run, const float *from, float *to, size_t count) {
    parallel_for(run->context->threads, count, count / (4 * (size_t)run->context->threads) + 1, add_part,
                 &(struct add_loop){run->numbers->store->kernels, from, to});
}

struct finish_loop {
    const struct kernels *kernels;
    const float *bias;
    float *rows;
    size_t width;
};

static void finish_rows(void *argument, size_t first, size_t last) {
    const struct finish_loop *loop = argument;
    loop->kernels->finish(LINEAR_ACTIVATION, 0, loop->bias, last - first, loop->width, loop->rows + first * loop->width);
}

static l3a_status no_memory(const struct run *run) {
    return fail(run->context, L3A_ERROR_MEMORY, "free some memory", "a matrix product ran out of memory");
}

/* ---- Forward ---- */

static struct train_call call_of(const struct run *run, const struct train_step *step, enum train_pass pass) {
    const struct train_store *store = run->numbers->store;
    float *statistics = run->numbers->statistics + step->statistics;
    struct train_call call = {.layer = step->layer,
                              .products = run->numbers->products,
                              .pictures = run->program->pictures,
                              .from = *layout_of(run, step->input),
                              .to = *layout_of(run, step->output),
                              .beside = *layout_of(run, step->second),
                              .input = value_at(run, step->input, pass),
                              .second = value_at(run, step->second, pass),
                              .output = value_at(run, step->output, pass),
                              .activation = step->activation,
                              .slope = step->slope,
                              .training = run->training,
                              .measures = step->measures && run->training,
                              .again = pass == PASS_AGAIN,
                              .mean = statistics,
                              .scale = statistics + layout_of(run, step->output)->padded,
                              .sums = run->numbers->arena + run->places->scratch};
    for (size_t kind = 0; pass == PASS_BACKWARD && kind < PARAMETER_KINDS; kind++) {
        call.gradients[kind] =
            train_parameter_at(store->parameters, store->parts, step->index, (enum parameter_kind)kind, PARAMETER_GRADIENT);
    }
    return call;
}

static l3a_status forward_linear(const struct run *run, const struct train_call *call) {
    const struct parameter *factors = &call->layer->parameters[FACTORS], *bias = &call->layer->parameters[BIAS];
    const size_t rows = call->pictures * call->to.height * call->to.width, in = call->from.channels, out = call->to.channels;
    if (!call->products->multiply(false, true, rows, out, in, 1, call->input, in, factors->values, in, 0, call->output, out)) {
        return no_memory(run);
    }
    if (bias->values) {
        parallel_for(run->context->threads, rows, rows / (4 * (size_t)run->context->threads) + 1, finish_rows,
                     &(struct finish_loop){run->kernels, bias->values, call->output, out});
    }
    return L3A_OK;
}

/* A layer whose loop is that of networks that only run. Squeeze and excite works in place. */
static void forward_kernel(const struct run *run, const struct train_call *call) {
    const bool in_place = call->layer->kind == LAYER_SQUEEZE_EXCITE;
    const size_t bytes = call->pictures * layout_size(&call->to) * sizeof(float);
    if (in_place) {
        parallel_copy(run->context->threads, call->output, call->input, bytes);
    }
    const struct kernel_call other = {.layer = call->layer,
                                      .products = call->products->running,
                                      .from = call->from,
                                      .to = call->to,
                                      .beside = call->beside,
                                      .input = in_place ? call->output : call->input,
                                      .added = call->second,
                                      .output = call->output};
    run_loop(run, kernel_tasks(&other, call->pictures), (struct loop){.run = run->kernels->run[call->layer->kind], .call = &other});
}

static l3a_status forward_step(const struct run *run, size_t index, enum train_pass pass) {
    const struct train_step *step = &run->program->steps->steps[index];
    const struct train_call call = call_of(run, step, pass);
    const struct train_phase *phases = run->numbers->store->kernels->forward[step->layer->kind];
    if (step->layer->kind == LAYER_CONVOLUTION) {
        return run->numbers->products->forward(run->program->operations[index], call.input, step->layer->parameters[FACTORS].values,
                                               step->layer->parameters[BIAS].values, call.output, call.sums);
    }
    if (step->layer->kind == LAYER_LINEAR) {
        return forward_linear(run, &call);
    }
    if (!phases[0].run) {
        forward_kernel(run, &call);
        return L3A_OK;
    }
    for (size_t i = 0; i < PHASES; i++) {
        run_phase(run, &phases[i], &call);
    }
    return L3A_OK;
}

static void give_outputs(const struct run *run, value made, float *const *outputs) {
    const struct network *net = run->program->steps->network;
    for (size_t i = 0; i < net->output_count; i++) {
        if (net->outputs[i].value == made) {
            program_copy_planes(layout_of(run, made), run->program->pictures, value_at(run, made, PASS_FORWARD), outputs[i]);
        }
    }
}

l3a_status train_forward(const struct train_program *program, const struct train_numbers *numbers, bool training,
                         const float *pictures, float *const *outputs) {
    const struct run run = start(program, numbers, training);
    l3a_status status = L3A_OK;
    parallel_copy(run.context->threads, value_at(&run, PICTURE, PASS_FORWARD), pictures, floats_of(&run, PICTURE) * sizeof(float));
    for (size_t i = 0; i < program->steps->count; i++) {
        TRY(forward_step(&run, i, PASS_FORWARD));
        give_outputs(&run, program->steps->steps[i].output, outputs);
    }
done:
    return status;
}

/* ---- Backward ---- */

/* Adds planes to a gradient that has a layout. */
static void add_planes(const struct layout *layout, size_t pictures, const float *planes, float *gradient) {
    const size_t pixels = layout->height * layout->width;
    for (size_t i = 0; i < pictures * layout->channels; i++) {
        const size_t picture = i / layout->channels, c = i % layout->channels;
        float *to = gradient + picture * layout_size(layout) + c / layout->block * pixels * layout->block + c % layout->block;
        for (size_t p = 0; p < pixels; p++) {
            to[p * layout->block] += planes[i * pixels + p];
        }
    }
}

/* What the caller says of the gradient of a step's output, if it is an output of the network. */
static void take_gradients(const struct run *run, const struct train_step *step, const float *const *gradients) {
    const struct network *net = run->program->steps->network;
    float *gradient = gradient_at(run, step->output);
    if (!step->output_adds) { /* then it is one */
        memset(gradient, 0, floats_of(run, step->output) * sizeof *gradient);
    }
    for (size_t i = 0; i < net->output_count; i++) {
        if (net->outputs[i].value == step->output && gradients[i]) {
            add_planes(layout_of(run, step->output), run->program->pictures, gradients[i], gradient);
        }
    }
}

static l3a_status backward_linear(const struct run *run, const struct train_call *call) {
    const float *factors = call->layer->parameters[FACTORS].values;
    const size_t rows = call->pictures * call->to.height * call->to.width, in = call->from.channels, out = call->to.channels;
    bool done = true;
    if (call->in_gradient) {
        done = call->products->multiply(false, false, rows, in, out, 1, call->out_gradient, out, factors, in, call->adds ? 1 : 0,
                                        call->in_gradient, in);
    }
    if (done && call->gradients[FACTORS]) {
        done = call->products->multiply(true, false, out, in, rows, 1, call->out_gradient, out, call->input, in, 0,
                                        call->gradients[FACTORS], in);
    }
    return done ? L3A_OK : no_memory(run);
}

/* unwanted: room for gradients of the parameters that are not trained. */
static l3a_status backward_convolution(const struct run *run, size_t index, const struct train_call *call, float *unwanted) {
    const struct train_products *products = run->numbers->products;
    const struct parameter *factors = &call->layer->parameters[FACTORS];
    void *operation = run->program->operations[index];
    l3a_status status = L3A_OK;
    if (call->in_gradient) {
        TRY(products->in_gradient(operation, call->out_gradient, factors->values, call->in_gradient, call->sums));
    }
    if (run->program->steps->steps[index].trains) {
        float *bias = call->gradients[BIAS] ? call->gradients[BIAS] : unwanted + train_aligned(factors->count);
        TRY(products->gradients(operation, call->input, call->out_gradient,
                                call->gradients[FACTORS] ? call->gradients[FACTORS] : unwanted, bias, call->sums));
    }
done:
    return status;
}

/* Gives an input the gradient of the output as it is. */
static void pass_on(const struct run *run, const struct train_step *step, value input, bool wanted, bool stays, bool adds) {
    const float *from = gradient_at(run, step->output);
    if (wanted && adds) {
        add(run, from, gradient_at(run, input), floats_of(run, input));
    } else if (wanted && !stays) {
        parallel_copy(run->context->threads, gradient_at(run, input), from, floats_of(run, input) * sizeof(float));
    }
}

static l3a_status backward_layer(const struct run *run, size_t index, const struct train_call *call, float *unwanted) {
    const struct train_step *step = &run->program->steps->steps[index];
    const struct train_phase *phases = run->numbers->store->kernels->backward[step->layer->kind];
    const bool affine = step->layer->kind == LAYER_BATCH_NORM || step->layer->kind == LAYER_SCALE;
    l3a_status status = L3A_OK;
    if (step->layer->kind == LAYER_CONVOLUTION) {
        return backward_convolution(run, index, call, unwanted);
    }
    if (step->layer->kind == LAYER_LINEAR) {
        TRY(backward_linear(run, call));
    }
    if (step->layer->kind == LAYER_ADD) {
        pass_on(run, step, step->second, step->wants_second, step->second_stays, step->second_adds);
        pass_on(run, step, step->input, step->wants_input, step->input_stays, step->input_adds);
    }
    for (size_t i = 0; i < PHASES; i++) {
        run_phase(run, &phases[i], call);
        if (affine && i == 0) {
            pass_on(run, step, step->second, step->wants_second, step->second_stays, step->second_adds);
        }
    }
done:
    return status;
}

size_t train_unwanted_floats(const struct train_step *step) {
    const struct parameter *factors = &step->layer->parameters[FACTORS], *bias = &step->layer->parameters[BIAS];
    return step->layer->kind == LAYER_CONVOLUTION && step->trains ? train_aligned(factors->count) + train_aligned(bias->count) : 0;
}

/* A layer that cannot add to the gradients of its inputs writes them elsewhere first. */
static l3a_status backward_step(const struct run *run, size_t index, const float *const *gradients) {
    const struct train_step *step = &run->program->steps->steps[index];
    struct train_call call = call_of(run, step, PASS_BACKWARD);
    float *room = call.sums;
    l3a_status status = L3A_OK;
    take_gradients(run, step, gradients);
    call.out_gradient = gradient_at(run, step->output);
    call.adds = step->input_adds;
    if (step->wants_input) {
        call.in_gradient = step->input_apart ? room : gradient_at(run, step->input);
        room += step->input_apart ? train_aligned(floats_of(run, step->input)) : 0;
    }
    if (step->wants_second) {
        call.second_gradient = step->second_apart ? room : gradient_at(run, step->second);
        room += step->second_apart ? train_aligned(floats_of(run, step->second)) : 0;
    }
    call.sums = room + train_unwanted_floats(step);
    TRY(backward_layer(run, index, &call, room));
    if (step->input_apart) {
        add(run, call.in_gradient, gradient_at(run, step->input), floats_of(run, step->input));
    }
    if (step->second_apart) {
        add(run, call.second_gradient, gradient_at(run, step->second), floats_of(run, step->second));
    }
done:
    return status;
}

l3a_status train_backward(const struct train_program *program, const struct train_numbers *numbers, const float *const *gradients) {
    const struct run run = start(program, numbers, true);
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < run.places->count; i++) {
        const struct train_event *event = &run.places->events[i];
        if (event->pass == PASS_AGAIN) {
            TRY(forward_step(&run, event->step, PASS_AGAIN));
        } else if (event->pass == PASS_BACKWARD) {
            TRY(backward_step(&run, event->step, gradients));
        }
    }
done:
    return status;
}
