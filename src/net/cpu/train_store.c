#include "net/cpu/train_store.h"
#include "base/memory.h"
#include "base/threads.h"

#include <string.h>

enum { GRAIN = 1 << 14 }; /* floats */

l3a_status train_store_open(const struct network *network, const struct train_parameters *parameters, struct train_store *store) {
    l3a_status status = L3A_OK;
    *store = (struct train_store){.context = network->context, .kernels = train_kernels_pick(), .parameters = parameters};
    for (size_t part = 0; part < PARAMETER_PARTS; part++) {
        TRY(allocate_zeroed(store->context, part == PARAMETER_VALUE ? parameters->value_count : parameters->trained_count,
                            sizeof(float), &store->parts[part]));
    }
    for (size_t i = 0; i < parameters->layers * PARAMETER_KINDS; i++) {
        const struct stored *stored = &parameters->stored[i / PARAMETER_KINDS][i % PARAMETER_KINDS];
        if (stored->count) {
            memcpy(store->parts[PARAMETER_VALUE] + stored->value,
                   network->layers[i / PARAMETER_KINDS].parameters[i % PARAMETER_KINDS].values, stored->count * sizeof(float));
        }
    }
done:
    return status;
}

void train_store_close(struct train_store *store) {
    for (size_t part = 0; store->context && part < PARAMETER_PARTS; part++) {
        release(store->context, store->parts[part]);
    }
    *store = (struct train_store){0};
}

/* Room between parameters is zero in the gradients, so all of them are one array. The parts of the sum have a fixed size. */
struct square_loop {
    const struct train_store *store;
    const float *gradients;
    size_t count;
    double *sums; /* of parts of GRAIN */
};

static void add_squares(void *argument, size_t first, size_t last) {
    const struct square_loop *loop = argument;
    const size_t count = loop->count;
    for (size_t i = first; i < last; i++) {
        loop->sums[i] = loop->store->kernels->square(loop->gradients, i * GRAIN, (i + 1) * GRAIN < count ? (i + 1) * GRAIN : count);
    }
}

double train_store_square(const struct train_store *store) {
    enum { PARTS = 256 };
    double sums[PARTS], sum = 0;
    const size_t numbers = store->parameters->trained_count, all = (numbers + GRAIN - 1) / GRAIN;
    for (size_t start = 0; start < all; start += PARTS) {
        const size_t count = all - start < PARTS ? all - start : PARTS;
        parallel_for(store->context->threads, count, 1, add_squares,
                     &(struct square_loop){store, store->parts[PARAMETER_GRADIENT] + start * GRAIN, numbers - start * GRAIN, sums});
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
    store->kernels->step(&loop->numbers, store->parts[PARAMETER_GRADIENT] + trained,
                         store->parts[PARAMETER_VALUE] + loop->stored->value, store->parts[PARAMETER_MOMENT] + trained,
                         store->parts[PARAMETER_SQUARE] + trained, first, last);
}

void train_store_step(struct train_store *store, const struct network_step *step) {
    for (size_t i = 0; i < store->parameters->layers * PARAMETER_KINDS; i++) {
        const struct stored *stored = &store->parameters->stored[i / PARAMETER_KINDS][i % PARAMETER_KINDS];
        struct step_loop loop = {.store = store, .stored = stored, .numbers = step_numbers_of(step, &stored->use)};
        if (stored->use.trained && stored->count) {
            parallel_for(store->context->threads, stored->count, GRAIN, step_part, &loop);
        }
    }
}
