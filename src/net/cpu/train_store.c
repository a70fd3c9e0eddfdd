#include "net/cpu/train_store.h"
#include "base/memory.h"
#include "base/threads.h"
#include "net/cpu/train_optimiser.h"

#include <string.h>

enum { ALIGNED = 16, GRAIN = 1 << 14 }; /* floats */

static size_t aligned(size_t floats) {
    return (floats + ALIGNED - 1) / ALIGNED * ALIGNED;
}

l3a_status train_store_plan(const struct network *network, const struct network_use *use, struct train_store *store) {
    l3a_status status = L3A_OK;
    *store = (struct train_store){.context = network->context, .kernels = train_kernels_pick(), .layers = network->layer_count};
    TRY(allocate_zeroed(store->context, store->layers, sizeof *store->parameters, &store->parameters));
    for (size_t i = 0; i < store->layers * PARAMETER_KINDS; i++) {
        const struct parameter *given = &network->layers[i / PARAMETER_KINDS].parameters[i % PARAMETER_KINDS];
        struct stored *stored = &store->parameters[i / PARAMETER_KINDS][i % PARAMETER_KINDS];
        *stored =
            (struct stored){.count = given->values ? given->count : 0,
                            .value = store->value_count,
                            .trained = store->trained_count,
                            .use = parameter_use_of(network, use, i / PARAMETER_KINDS, (enum parameter_kind)(i % PARAMETER_KINDS))};
        store->value_count += aligned(stored->count);
        store->trained_count += stored->use.trained ? aligned(stored->count) : 0;
    }
done:
    return status;
}

uint64_t train_store_bytes(const struct train_store *store) {
    return ((uint64_t)store->value_count + (uint64_t)3 * store->trained_count) * sizeof(float);
}

l3a_status train_store_open(const struct network *network, struct train_store *store) {
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(store->context, store->value_count, sizeof(float), &store->values));
    TRY(allocate_zeroed(store->context, store->trained_count, sizeof(float), &store->gradients));
    TRY(allocate_zeroed(store->context, store->trained_count, sizeof(float), &store->moments));
    TRY(allocate_zeroed(store->context, store->trained_count, sizeof(float), &store->squares));
    for (size_t i = 0; i < store->layers * PARAMETER_KINDS; i++) {
        const struct stored *stored = &store->parameters[i / PARAMETER_KINDS][i % PARAMETER_KINDS];
        if (stored->count) {
            memcpy(store->values + stored->value, network->layers[i / PARAMETER_KINDS].parameters[i % PARAMETER_KINDS].values,
                   stored->count * sizeof(float));
        }
    }
done:
    return status;
}

void train_store_close(struct train_store *store) {
    if (store->context) {
        release(store->context, store->parameters);
        release(store->context, store->values);
        release(store->context, store->gradients);
        release(store->context, store->moments);
        release(store->context, store->squares);
    }
    *store = (struct train_store){0};
}

float *train_store_at(const struct train_store *store, size_t layer, enum parameter_kind kind, enum parameter_part part) {
    const struct stored *stored = &store->parameters[layer][kind];
    float *const parts[] = {store->values, store->gradients, store->moments, store->squares};
    if (!stored->count || (part != PARAMETER_VALUE && !stored->use.trained)) {
        return NULL;
    }
    return parts[part] + (part == PARAMETER_VALUE ? stored->value : stored->trained);
}

/* Room between parameters is zero in the gradients, so all of them are one array. The parts of the sum have a fixed size. */
struct square_loop {
    const struct train_store *store;
    double *sums; /* of parts of GRAIN */
};

static void add_squares(void *argument, size_t first, size_t last) {
    const struct square_loop *loop = argument;
    const size_t count = loop->store->trained_count;
    for (size_t i = first; i < last; i++) {
        loop->sums[i] =
            loop->store->kernels->square(loop->store->gradients, i * GRAIN, (i + 1) * GRAIN < count ? (i + 1) * GRAIN : count);
    }
}

double train_store_square(const struct train_store *store) {
    enum { PARTS = 256 };
    double sums[PARTS], sum = 0;
    const size_t all = (store->trained_count + GRAIN - 1) / GRAIN;
    for (size_t start = 0; start < all; start += PARTS) {
        struct train_store part = *store;
        const size_t count = all - start < PARTS ? all - start : PARTS;
        part.gradients += start * GRAIN;
        part.trained_count -= start * GRAIN;
        parallel_for(store->context->threads, count, 1, add_squares, &(struct square_loop){&part, sums});
        for (size_t i = 0; i < count; i++) {
            sum += sums[i];
        }
    }
    return sum;
}

struct step_loop {
    const struct train_store *store;
    const struct stored *stored;
    struct step_numbers numbers;
};

static void step_part(void *argument, size_t first, size_t last) {
    const struct step_loop *loop = argument;
    const struct train_store *store = loop->store;
    const size_t trained = loop->stored->trained;
    store->kernels->step(&loop->numbers, store->gradients + trained, store->values + loop->stored->value, store->moments + trained,
                         store->squares + trained, first, last);
}

void train_store_step(struct train_store *store, const struct network_step *step) {
    for (size_t i = 0; i < store->layers * PARAMETER_KINDS; i++) {
        const struct stored *stored = &store->parameters[i / PARAMETER_KINDS][i % PARAMETER_KINDS];
        struct step_loop loop = {.store = store, .stored = stored, .numbers = step_numbers_of(step, &stored->use)};
        if (stored->use.trained && stored->count) {
            parallel_for(store->context->threads, stored->count, GRAIN, step_part, &loop);
        }
    }
}
