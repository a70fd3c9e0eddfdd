/* A plug-in whose device is the processor. It makes a machine without a GPU look like one that has some:
 *
 *   FAKE_DEVICES   how many there are [1]
 *   FAKE_MEMORY    bytes of its memory that are free [8 GiB]
 *   FAKE_REFUSAL   why it cannot be opened
 *   FAKE_LOG       a file that gets a line for each device that is opened: the process of mpirun,
 *                  and the number of the device
 *   FAKE_LOST      the number of the call, from opening on, that fails, among those that expand,
 *                  add, keep and factor, and compute pictures; all later ones fail, too
 *   FAKE_NETWORKS  why it has no room for networks; "none": it does not compute them
 *   FAKE_KERNELS   what else their features would depend on
 *   FAKE_BATCH     how many pictures its networks like to be given at a time [16]
 *
 * Its networks are those of the processor. They call float32 float16, too, if they are asked to. */
#include "algebra/cpu/cpu.h"
#include "base/plugin.h"
#include "net/back_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct algebra fake;
static const struct plugin_host *host;
static unsigned long calls;

static unsigned long long number_of(const char *name, unsigned long long otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static l3a_status call(l3a_context *context) {
    const unsigned long long lost = number_of("FAKE_LOST", 0);
    return !lost || ++calls < lost ? L3A_OK
                                   : host->fail(context, L3A_ERROR_DEVICE, "start again, or use the processor",
                                                "cuda:0: the device failed: it fell off the bus");
}

static l3a_status fake_expand(struct block *rows, const float *features) {
    const l3a_status status = call(rows->context);
    return status == L3A_OK ? cpu_block_expand(rows, features) : status;
}

static l3a_status fake_add(struct sums *sums, struct block *rows, double sign, const double *weight, const double *targets) {
    const l3a_status status = call(sums->context);
    return status == L3A_OK ? cpu_sums_add(sums, rows, sign, weight, targets) : status;
}

static l3a_status fake_keep(struct sums *sums, double sign) {
    const l3a_status status = call(sums->context);
    return status == L3A_OK ? cpu_sums_keep(sums, sign) : status;
}

static l3a_status fake_factor(struct sums *sums, real type, double scale, const struct scatter *const *scatters, size_t count,
                              double share, double shift, double *trace, bool *definite) {
    const l3a_status status = call(sums->context);
    return status == L3A_OK ? cpu_sums_factor(sums, type, scale, scatters, count, share, shift, trace, definite) : status;
}

/* What the processor's back end takes of the processor's memory, this one takes of its device's. */
static enum place place_of(enum place place, enum place own) {
    return place == own ? PROCESSOR : DEVICE;
}

static uint64_t fake_layer_bytes(enum place place, const struct layer_shape *shape) {
    return cpu_layer_bytes(place_of(place, DEVICE), shape);
}

static uint64_t fake_block_bytes(enum place place, const struct block *rows) {
    return cpu_block_bytes(place_of(place, DEVICE), rows);
}

static uint64_t fake_sums_bytes(enum place place, const l3a_context *context, size_t dim, size_t columns) {
    return cpu_sums_bytes(place_of(place, DEVICE), context, dim, columns);
}

static uint64_t fake_scatter_bytes(enum place place, size_t dim, real type, uint64_t rows) {
    return cpu_scatter_bytes(place_of(place, EITHER), dim, type, rows);
}

static uint64_t fake_solution_bytes(enum place place, size_t dim, size_t columns, real type) {
    return cpu_solution_bytes(place_of(place, DEVICE), dim, columns, type);
}

static uint64_t fake_vectors_bytes(enum place place, size_t dim, size_t count, real type) {
    return cpu_vectors_bytes(place_of(place, DEVICE), dim, count, type);
}

static uint64_t fake_multiply_bytes(enum place place, const l3a_context *context, size_t dim, size_t rows) {
    return cpu_multiply_bytes(place_of(place, DEVICE), context, dim, rows);
}

static l3a_status find(l3a_context *context, const struct plugin_host *from, int number) {
    const char *refusal = getenv("FAKE_REFUSAL");
    const int count = (int)number_of("FAKE_DEVICES", 1);
    host = from;
    if (refusal) {
        return from->fail(context, L3A_ERROR_DEVICE, "use the processor", "cuda:%d: %s", number, refusal);
    }
    return number < count
               ? L3A_OK
               : from->fail(context, L3A_ERROR_DEVICE, "choose another device, or use the processor",
                            "cuda:%d: there %s %d CUDA device%s", number, count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
}

static void log_device(int number) {
    const char *path = getenv("FAKE_LOG"), *process = getenv("OMPI_COMM_WORLD_RANK");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (log) {
        fprintf(log, "%s %d\n", process ? process : "alone", number);
        fclose(log);
    }
}

static l3a_status fake_open(l3a_context *context, const struct plugin_host *from, int number, void **device) {
    const l3a_status status = find(context, from, number);
    calls = 0;
    if (status == L3A_OK) {
        log_device(number);
    }
    return status == L3A_OK ? from->allocate(context, 1, 1, device) : status;
}

static void fake_close(l3a_context *context, void *device) {
    host->release(context, device);
}

static l3a_status fake_describe(l3a_context *context, const struct plugin_host *from, int number, char *text, size_t capacity) {
    const l3a_status status = find(context, from, number);
    if (status == L3A_OK) {
        snprintf(text, capacity, "Fake %d", number);
    }
    return status;
}

static l3a_status fake_memory(l3a_context *context, uint64_t *available) {
    const uint64_t limit = context->options.device_memory_limit, free = number_of("FAKE_MEMORY", 8ULL << 30);
    *available = limit && limit < free ? limit : free;
    return L3A_OK;
}

/* ---- Networks ---- */

struct fake_state {
    l3a_context *context;
    void *state; /* of the processor's back end */
};

static bool fake_available(void) {
    const char *why = getenv("FAKE_NETWORKS");
    return !why || strcmp(why, "none") != 0;
}

static bool fake_supports(const struct network_use *use) {
    return use->numbers != NUMBER_BFLOAT16;
}

static l3a_status make_state(l3a_context *context, struct fake_state **state) {
    const l3a_status status = host->allocate(context, 1, sizeof **state, state);
    if (status == L3A_OK) {
        **state = (struct fake_state){.context = context};
    }
    return status;
}

static void fake_network_close(void *state) {
    struct fake_state *made = state;
    if (made->state) {
        network_back_end_best()->close(made->state);
    }
    host->release(made->context, made);
}

static l3a_status fake_network_open(const struct network *network, const struct network_use *use, void **state) {
    const struct network_use own = {.training = use->training, .pictures = use->pictures, .numbers = NUMBER_FLOAT32};
    const char *why = getenv("FAKE_NETWORKS");
    struct fake_state *made = NULL;
    if (why) {
        return host->fail(network->context, L3A_ERROR_MEMORY, "use the processor", "cuda:0: %s", why);
    }
    l3a_status status = make_state(network->context, &made);
    status = status == L3A_OK ? network_back_end_best()->open(network, &own, &made->state) : status;
    if (status == L3A_OK) {
        *state = made;
    } else if (made) {
        fake_network_close(made);
    }
    return status;
}

static l3a_status fake_network_share(l3a_context *context, const void *state, void **shared) {
    const struct fake_state *first = state;
    struct fake_state *made = NULL;
    l3a_status status = make_state(context, &made);
    status = status == L3A_OK ? network_back_end_best()->share(context, first->state, &made->state) : status;
    if (status == L3A_OK) {
        *shared = made;
    } else if (made) {
        fake_network_close(made);
    }
    return status;
}

static l3a_status fake_network_run(void *state, const float *pictures, size_t count, float *const *outputs) {
    struct fake_state *own = state;
    const l3a_status status = call(own->context);
    return status == L3A_OK ? network_back_end_best()->run(own->state, pictures, count, outputs) : status;
}

static void fake_network_describe(void *state, size_t count, char *text, size_t capacity) {
    const char *kernels = getenv("FAKE_KERNELS");
    (void)state;
    (void)count;
    snprintf(text, capacity, "%s", kernels ? kernels : "kernels A");
}

static struct network_back_end fake_network = {.name = "fake",
                                               .available = fake_available,
                                               .supports = fake_supports,
                                               .open = fake_network_open,
                                               .run = fake_network_run,
                                               .share = fake_network_share,
                                               .close = fake_network_close,
                                               .describe = fake_network_describe};

static const struct l3a_plugin plugin = {.algebra = &fake,
                                         .network = &fake_network,
                                         .open = fake_open,
                                         .close = fake_close,
                                         .describe = fake_describe,
                                         .memory = fake_memory};

L3A_PUBLIC plugin_entry l3a_plugin_cuda;

const void *l3a_plugin_cuda(uint32_t version) {
    fake = cpu_algebra;
    fake.name = "fake";
    fake.block_expand = fake_expand;
    fake.sums_add = fake_add;
    fake.sums_keep = fake_keep;
    fake.sums_factor = fake_factor;
    fake.layer_bytes = fake_layer_bytes;
    fake.block_bytes = fake_block_bytes;
    fake.sums_bytes = fake_sums_bytes;
    fake.scatter_bytes = fake_scatter_bytes;
    fake.solution_bytes = fake_solution_bytes;
    fake.vectors_bytes = fake_vectors_bytes;
    fake.multiply_bytes = fake_multiply_bytes;
    fake_network.batch = (size_t)number_of("FAKE_BATCH", PROCESSOR_BATCH);
    return version == PLUGIN_VERSION ? &plugin : NULL;
}
