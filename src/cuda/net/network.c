/* Opens networks on a device, and brings pictures there and features back.
 *
 * Pictures are computed in batches of one of a few sizes, each with a program of its own that is made when it is first needed; what
 * is left of them in the last batch is computed with more pictures than there are. A picture's features do not depend on the
 * others, but may depend on the size of the batch in their last bits. A size for which the device has no room is not tried again.
 *
 * While a batch is computed, the next one is on its way (device_put_on()), on the stream for copies. */
#include "cuda/net/train.h"

#include <stdio.h>
#include <string.h>

const size_t program_sizes[PROGRAMS] = {1, 8, 64, 512};

/* ---- Opening ---- */

/* Copies what running reads: all but the parameters. */
static l3a_status copy_network(const struct plugin_host *host, const struct network *from, struct network *to) {
    l3a_context *context = from->context;
    l3a_status status = L3A_OK;
    *to = (struct network){
        .context = context, .layer_count = from->layer_count, .value_count = from->value_count, .output_count = from->output_count};
    memcpy(to->outputs, from->outputs, sizeof to->outputs);
    TRY(host->allocate(context, from->value_count, sizeof *to->shapes, &to->shapes));
    memcpy(to->shapes, from->shapes, from->value_count * sizeof *to->shapes);
    TRY(host->allocate(context, from->layer_count, sizeof *to->layers, &to->layers));
    memcpy(to->layers, from->layers, from->layer_count * sizeof *to->layers);
    for (size_t i = 0; i < from->layer_count; i++) {
        memset(to->layers[i].parameters, 0, sizeof to->layers[i].parameters);
    }
done:
    return status;
}

/* The layers that prompts need. */
static bool is_for_prompts(const struct net_layer *layer) {
    const bool own =
        layer->kind == LAYER_SPLIT || layer->kind == LAYER_UNIT || layer->kind == LAYER_COSINES || layer->kind == LAYER_PICK;
    return own || (layer->kind == LAYER_ATTENTION && layer->second && layer->shared);
}

/* What a kernel cannot compute. */
static l3a_status check_layers(const struct plugin_host *host, const struct network *network) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < network->layer_count; i++) {
        const struct net_layer *layer = &network->layers[i];
        if (is_for_prompts(layer)) {
            TRY(host->fail(network->context, L3A_ERROR_MISMATCH, "compute this network on the processor (--device cpu)",
                           "layer %zu is one of those that prompts need; a GPU does not compute them yet", i));
        }
        if (layer->kind == LAYER_ATTENTION && layer->to.channels / layer->heads > ATTEND_WIDTH) {
            TRY(host->fail(network->context, L3A_ERROR_MISMATCH, "compute this network on the processor",
                           "layer %zu: a head of %zu numbers; a GPU computes at most %d", i, layer->to.channels / layer->heads,
                           ATTEND_WIDTH));
        }
    }
done:
    return status;
}

/* Kinds that a GPU can train; a new one is refused until it can. */
static l3a_status check_kinds(const struct plugin_host *host, const struct network *network) {
    static const bool known[LAYER_KINDS] = {
        [LAYER_SPACE_TO_DEPTH] = true, [LAYER_CONVOLUTION] = true, [LAYER_MAX_POOL] = true,
        [LAYER_AVERAGE_POOL] = true,   [LAYER_BLUR] = true,        [LAYER_SQUEEZE_EXCITE] = true,
        [LAYER_GLOBAL_MEAN] = true,    [LAYER_PATCHES] = true,     [LAYER_LINEAR] = true,
        [LAYER_TOKENS] = true,         [LAYER_NORM] = true,        [LAYER_ATTENTION] = true,
        [LAYER_FIRST_TOKEN] = true,    [LAYER_TOKEN_MEAN] = true,  [LAYER_JOIN] = true,
        [LAYER_BATCH_NORM] = true,     [LAYER_ACTIVATION] = true,  [LAYER_ADD] = true,
        [LAYER_SCALE] = true,          [LAYER_LEARNED] = true,     [LAYER_TOKEN_MAX] = true,
        [LAYER_SLICE] = true};
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < network->layer_count; i++) {
        if (!known[network->layers[i].kind]) {
            TRY(host->fail(network->context, L3A_ERROR_MISMATCH, "train this network on the processor",
                           "layer %zu: a GPU cannot train layers of this kind", i));
        }
    }
done:
    return status;
}

static bool supports(const struct network_use *use) {
    return !use->training || use->numbers != NUMBER_FLOAT16; /* which has too few exponents for gradients */
}

static l3a_status check_use(const struct network *network, const struct network_use *use) {
    const struct plugin_host *host = device_of(network->context)->host;
    l3a_status status = L3A_OK;
    if (!supports(use)) {
        TRY(host->fail(network->context, L3A_ERROR_OPTION, "use bf16 or float32",
                       "a GPU trains networks in float32 or bf16: float16 has too few exponents for gradients"));
    }
    if (use->training) {
        TRY(check_kinds(host, network));
    }
    TRY(check_layers(host, network));
done:
    return status;
}

static l3a_status make_events(struct cuda_network *net) {
    struct device *device = device_of(net->context);
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < 2; i++) {
        TRY_CUDA(device, cudaEventCreateWithFlags(&net->slots[i].arrived, cudaEventDisableTiming));
        TRY_CUDA(device, cudaEventCreateWithFlags(&net->slots[i].done, cudaEventDisableTiming));
    }
done:
    return status;
}

static void drop_room(struct cuda_network *net) {
    struct device *device = device_of(net->context);
    for (size_t i = 0; i < 2; i++) {
        struct net_slot *slot = &net->slots[i];
        device_release(device, slot->pictures);
        slot->pictures = NULL;
        for (size_t j = 0; j < NETWORK_OUTPUTS; j++) {
            device_release(device, slot->planes[j]);
            slot->planes[j] = NULL;
        }
    }
    net->room = 0;
}

static void close_network(void *state) {
    struct cuda_network *net = state;
    if (!net) {
        return;
    }
    struct device *device = device_of(net->context);
    const struct plugin_host *host = device->host;
    cuda_trainer_close(net->trainer);
    for (size_t i = 0; i < PROGRAMS; i++) {
        net_program_close(net, net->programs[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        struct net_slot *slot = &net->slots[i];
        cudaEvent_t events[] = {slot->arrived, slot->done};
        for (size_t j = 0; j < 2; j++) {
            if (events[j]) {
                cudaEventDestroy(events[j]);
            }
        }
    }
    drop_room(net);
    convolutions_close(device, &net->convolutions);
    device_release(device, net->work);
    if (!net->borrows) {
        parameters_drop(net);
        host->release(net->context, net->network.shapes);
        host->release(net->context, net->network.layers);
    }
    host->release(net->context, net);
}

static l3a_status open_network(const struct network *network, const struct network_use *use, void **state) {
    l3a_context *context = network->context;
    struct device *device = device_of(context);
    struct cuda_network *net = NULL;
    l3a_status status = L3A_OK;
    TRY(check_use(network, use));
    TRY(device->host->allocate(context, 1, sizeof *net, &net));
    *net = (struct cuda_network){.context = context, .type = use->numbers, .most = program_sizes[PROGRAMS - 1]};
    if (use->training) {
        TRY(cuda_trainer_open(network, use, &net->trainer));
        *state = net;
        return L3A_OK;
    }
    TRY(copy_network(device->host, network, &net->network));
    TRY(parameters_put(net, network));
    TRY(make_events(net));
    *state = net;
    net = NULL;
done:
    close_network(net);
    return status;
}

static l3a_status share_network(l3a_context *context, const void *state, void **shared) {
    const struct cuda_network *first = state;
    struct device *device = device_of(context);
    struct cuda_network *net = NULL;
    l3a_status status = L3A_OK;
    if (first->trainer) {
        return device->host->fail(context, L3A_ERROR_STATE, NULL, "a network that is trained cannot be shared");
    }
    TRY(device->host->allocate(context, 1, sizeof *net, &net));
    *net = (struct cuda_network){.context = context,
                                 .network = first->network,
                                 .parameters = first->parameters,
                                 .borrows = true,
                                 .type = first->type,
                                 .most = first->most};
    net->network.context = context;
    TRY(make_events(net));
    *shared = net;
    net = NULL;
done:
    close_network(net);
    return status;
}

static bool is_available(void) {
    return true; /* it is the back end of a device that has been opened */
}

/* ---- Running ---- */

/* Room for batches on their way. */
static l3a_status make_room(struct cuda_network *net, struct net_slot *slot, size_t batch) {
    struct device *device = device_of(net->context);
    const struct network *network = &net->network;
    l3a_status status = L3A_OK;
    TRY(device_allocate_zeroed(device, batch * shape_numbers(network->shapes[PICTURE]), sizeof(float), &slot->pictures));
    for (size_t i = 0; i < network->output_count; i++) {
        TRY(device_allocate_zeroed(device, batch * shape_numbers(network->shapes[network->outputs[i].value]), sizeof(float),
                                   &slot->planes[i]));
    }
    TRY(device_wait(device)); /* pictures arrive on another stream */
done:
    return status;
}

/* The program for the next pictures, and the smallest size that has room for all of them. */
static size_t size_for(const struct cuda_network *net, size_t count) {
    size_t i = 0;
    while (program_sizes[i] < count && program_sizes[i] < net->most) {
        i++;
    }
    return i;
}

/* Nothing may be on its way. What a state needs that only lends its parameters, or waits for pictures, comes with the first of
 * them. */
static l3a_status prepare(struct cuda_network *net, size_t size) {
    struct device *device = device_of(net->context);
    l3a_status status = L3A_OK;
    if (!net->work) {
        TRY(device_allocate(device, PRODUCT_BYTES, 1, &net->work));
        convolutions_open(device, &net->convolutions);
    }
    if (!net->programs[size]) {
        TRY(net_program_open(net, program_sizes[size], &net->programs[size]));
    }
    if (net->room < program_sizes[size]) {
        drop_room(net);
        TRY(make_room(net, &net->slots[0], program_sizes[size]));
        TRY(make_room(net, &net->slots[1], program_sizes[size]));
        net->room = program_sizes[size];
    }
done:
    return status;
}

/* Finds a program for which there is room. A batch that is too large becomes a smaller one. */
static l3a_status find_program(struct cuda_network *net, size_t count, const struct net_program **program) {
    struct device *device = device_of(net->context);
    size_t size = size_for(net, count);
    l3a_status status = prepare(net, size);
    while (status == L3A_ERROR_MEMORY && size > 0) {
        drop_room(net);
        net->most = program_sizes[--size];
        status = prepare(net, size);
    }
    if (status == L3A_ERROR_MEMORY) {
        device->host->fail(net->context, status, "compute this network on the processor, or free memory of the GPU",
                           "cuda:%d: out of memory: there is no room to compute a single picture", device->number);
    }
    *program = net->programs[size];
    return status;
}

/* Sends a batch on its way through the program. */
static l3a_status start(struct cuda_network *net, const struct net_program *program, struct net_slot *slot, const float *pictures) {
    struct device *device = device_of(net->context);
    const size_t bytes = shape_numbers(net->network.shapes[PICTURE]) * sizeof(float);
    l3a_status status = L3A_OK;
    TRY(device_put_on(device, device->copier, slot->pictures, pictures + slot->first * (bytes / sizeof(float)),
                      slot->count * bytes));
    TRY_CUDA(device, cudaEventRecord(slot->arrived, device->copier));
    TRY_CUDA(device, cudaStreamWaitEvent(device->stream, slot->arrived, 0));
    TRY(net_program_run(net, program, slot->pictures, slot->planes));
    TRY_CUDA(device, cudaEventRecord(slot->done, device->stream));
done:
    return status;
}

/* Waits for a batch. */
static l3a_status finish(struct cuda_network *net, struct net_slot *slot, float *const *outputs) {
    struct device *device = device_of(net->context);
    const struct network *network = &net->network;
    l3a_status status = L3A_OK;
    if (slot->count) {
        TRY_CUDA(device, cudaStreamWaitEvent(device->copier, slot->done, 0));
    }
    for (size_t i = 0; slot->count && i < network->output_count; i++) {
        const size_t size = shape_numbers(network->shapes[network->outputs[i].value]);
        TRY(device_get_on(device, device->copier, outputs[i] + slot->first * size, slot->planes[i],
                          slot->count * size * sizeof(float)));
    }
done:
    slot->count = 0;
    return status;
}

static l3a_status run_network(void *state, const float *pictures, size_t count, float *const *outputs) {
    struct cuda_network *net = state;
    struct device *device = device_of(net->context);
    const struct net_program *program = NULL;
    l3a_status status = L3A_OK;
    if (net->trainer) {
        return trainer_run(&net->trainer->trainer, pictures, count, outputs);
    }
    for (size_t first = 0, turn = 0; first < count; turn ^= 1) {
        struct net_slot *slot = &net->slots[turn];
        if (!program || program->batch > count - first) {
            TRY(finish(net, &net->slots[turn ^ 1], outputs)); /* room may have to be made */
            TRY(find_program(net, count - first, &program));
        }
        slot->first = first;
        slot->count = count - first < program->batch ? count - first : program->batch;
        first += slot->count;
        TRY(start(net, program, slot, pictures));
        TRY(finish(net, &net->slots[turn ^ 1], outputs));
    }
    TRY(finish(net, &net->slots[0], outputs));
    TRY(finish(net, &net->slots[1], outputs));
done:
    if (status != L3A_OK) { /* nothing may still be on its way to or from the caller's memory */
        cudaStreamSynchronize(device->copier);
        cudaStreamSynchronize(device->stream);
        net->slots[0].count = net->slots[1].count = 0;
    }
    return status;
}

/* ---- What others want to know ---- */

/* cuBLASLt and cuDNN propose the same algorithms for the same device, the same version of theirs and the same size of a batch. If
 * there is no room even for one picture, running says so. */
static void describe_network(void *state, size_t count, char *text, size_t capacity) {
    struct cuda_network *net = state;
    const struct net_program *program = NULL;
    char why[256], room[48] = "";
    if (net->trainer) {
        snprintf(text, capacity, "%s, cuBLASLt %zu", device_of(net->context)->name, cublasLtGetVersion());
        return;
    }
    const struct cudnn_functions *cudnn = cudnn_find(why, sizeof why);
    (void)find_program(net, count, &program);
    if (net->most < program_sizes[PROGRAMS - 1]) {
        snprintf(room, sizeof room, ", room for %zu pictures at a time", net->most);
    }
    snprintf(text, capacity, "%s, cuBLASLt %zu, cuDNN %zu%s", device_of(net->context)->name, cublasLtGetVersion(),
             cudnn ? cudnn->version() : (size_t)0, room);
}

enum { ROUNDS = 10 };

static l3a_status time_rounds(const struct cuda_network *net, const struct net_program *program, const cudaEvent_t events[2],
                              double *seconds) {
    struct device *device = device_of(net->context);
    float milliseconds = 0;
    l3a_status status = L3A_OK;
    TRY(net_program_run(net, program, net->slots[0].pictures, net->slots[0].planes)); /* CUDA loads what it has not used yet */
    TRY_CUDA(device, cudaEventRecord(events[0], device->stream));
    for (size_t i = 0; i < ROUNDS; i++) {
        TRY(net_program_run(net, program, net->slots[0].pictures, net->slots[0].planes));
    }
    TRY_CUDA(device, cudaEventRecord(events[1], device->stream));
    TRY_CUDA(device, cudaEventSynchronize(events[1]));
    TRY_CUDA(device, cudaEventElapsedTime(&milliseconds, events[0], events[1]));
    *seconds = (double)milliseconds / 1000 / ROUNDS;
done:
    return status;
}

static l3a_status measure_network(void *state, size_t *pictures, double *seconds) {
    struct cuda_network *net = state;
    struct device *device = device_of(net->context);
    const struct net_program *program = NULL;
    cudaEvent_t events[2] = {NULL, NULL};
    l3a_status status = L3A_OK;
    TRY(find_program(net, program_sizes[PROGRAMS - 1], &program));
    TRY_CUDA(device, cudaEventCreateWithFlags(&events[0], cudaEventDefault));
    TRY_CUDA(device, cudaEventCreateWithFlags(&events[1], cudaEventDefault));
    TRY(time_rounds(net, program, events, seconds));
    *pictures = program->batch;
done:
    for (size_t i = 0; i < 2; i++) {
        if (events[i]) {
            cudaEventDestroy(events[i]);
        }
    }
    return status;
}

/* ---- Training ---- */

static struct cuda_trainer *trainer_of(void *state) {
    return ((struct cuda_network *)state)->trainer;
}

static l3a_status plan_network(const struct network *network, const struct network_use *use, struct network_plan *plan) {
    const l3a_status status = check_use(network, use);
    return status != L3A_OK ? status : cuda_trainer_plan(network, use, plan);
}

static l3a_status forward_network(void *state, const float *pictures, size_t count, float *const *outputs) {
    return trainer_forward(&trainer_of(state)->trainer, pictures, count, outputs);
}

static l3a_status backward_network(void *state, const float *const *gradients) {
    return trainer_backward(&trainer_of(state)->trainer, gradients);
}

static l3a_status square_network(void *state, double *sum) {
    return cuda_trainer_gradient_square(trainer_of(state), sum);
}

static l3a_status step_network(void *state, const struct network_step *step) {
    return cuda_trainer_step(trainer_of(state), step);
}

static l3a_status read_network(void *state, size_t layer, enum parameter_kind kind, enum parameter_part part, float *values) {
    return cuda_trainer_read(trainer_of(state), layer, kind, part, values);
}

static l3a_status write_network(void *state, size_t layer, enum parameter_kind kind, enum parameter_part part,
                                const float *values) {
    return cuda_trainer_write(trainer_of(state), layer, kind, part, values);
}

const struct network_back_end cuda_network_back_end = {.name = "cuda",
                                                       .batch = 512,
                                                       .available = is_available,
                                                       .supports = supports,
                                                       .open = open_network,
                                                       .run = run_network,
                                                       .share = share_network,
                                                       .close = close_network,
                                                       .measure = measure_network,
                                                       .describe = describe_network,
                                                       .plan = plan_network,
                                                       .forward = forward_network,
                                                       .backward = backward_network,
                                                       .gradient_square = square_network,
                                                       .step = step_network,
                                                       .read = read_network,
                                                       .write = write_network};
