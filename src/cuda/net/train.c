/* The calls of training on a CUDA device, and its memory there. */
#include "cuda/net/train.h"

#include <string.h>

/* Parts of it end at multiples of this, or are at least as large. */
enum { ROUNDING = 4096 };

/* ---- Opening ---- */

static l3a_status take_arena(void *owner, uint64_t floats) {
    struct cuda_trainer *cuda = owner;
    struct device *device = device_of(cuda->context);
    device_release(device, cuda->arena);
    cuda->arena = NULL;
    return device_allocate(device, (size_t)floats, sizeof(float), &cuda->arena);
}

/* The memory that training may take: what is free, if that is less than the caller says. */
static l3a_status limit_memory(const struct network *network, const struct network_use *use, struct network_use *limited) {
    uint64_t left = 0;
    l3a_status status = L3A_OK;
    TRY(device_memory_left(network->context, &left));
    *limited = *use;
    limited->memory = use->memory && use->memory < left ? use->memory : left ? left : 1;
done:
    return status;
}

/* All but the memory for numbers. */
static l3a_status prepare(const struct network *network, const struct network_use *use, struct cuda_trainer **prepared) {
    struct device *device = device_of(network->context);
    struct cuda_trainer *cuda = NULL;
    struct network_use limited;
    l3a_status status = L3A_OK;
    TRY(limit_memory(network, use, &limited));
    TRY(device->host->allocate(network->context, 1, sizeof *cuda, &cuda));
    *cuda = (struct cuda_trainer){.context = network->context, .type = use->numbers};
    const struct train_machine machine = {
        .preparer = {.owner = cuda, .prepare = cuda_train_prepare},
        .overhead = PRODUCT_BYTES + TRAIN_SQUARE_PARTS * sizeof(double) + ROUNDING,
        .arena = take_arena,
        .forward = cuda_train_forward,
        .backward = cuda_train_backward,
    };
    TRY(trainer_prepare(&machine, network, &limited, &cuda->trainer));
    *prepared = cuda;
    cuda = NULL;
done:
    cuda_trainer_close(cuda);
    return status;
}

l3a_status cuda_trainer_plan(const struct network *network, const struct network_use *use, struct network_plan *plan) {
    struct cuda_trainer *cuda = NULL;
    l3a_status status = L3A_OK;
    TRY(prepare(network, use, &cuda));
    *plan = trainer_plan(&cuda->trainer);
done:
    cuda_trainer_close(cuda);
    return status;
}

static l3a_status put_parameters(struct cuda_trainer *cuda, const struct network *network) {
    const struct train_parameters *parameters = &cuda->trainer.parameters;
    struct device *device = device_of(cuda->context);
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < PARAMETER_PARTS; i++) {
        TRY(device_allocate_zeroed(device, i == PARAMETER_VALUE ? parameters->value_count : parameters->trained_count,
                                   sizeof(float), &cuda->parts[i]));
    }
    for (size_t i = 0; i < network->layer_count * PARAMETER_KINDS; i++) {
        const struct parameter *from = &network->layers[i / PARAMETER_KINDS].parameters[i % PARAMETER_KINDS];
        if (from->values) {
            TRY(device_put(device,
                           cuda->parts[PARAMETER_VALUE] + parameters->stored[i / PARAMETER_KINDS][i % PARAMETER_KINDS].value,
                           from->values, from->count * sizeof(float)));
        }
    }
done:
    return status;
}

l3a_status cuda_trainer_open(const struct network *network, const struct network_use *use, struct cuda_trainer **opened) {
    struct device *device = device_of(network->context);
    struct cuda_trainer *cuda = NULL;
    l3a_status status = L3A_OK;
    TRY(prepare(network, use, &cuda));
    TRY(put_parameters(cuda, network));
    TRY(device_allocate(device, cuda->trainer.steps.statistics, sizeof(float), &cuda->statistics));
    TRY(device_allocate(device, TRAIN_SQUARE_PARTS, sizeof(double), &cuda->squares));
    TRY(device_allocate(device, PRODUCT_BYTES, 1, &cuda->products.work));
    TRY(trainer_start(&cuda->trainer));
    TRY(device_wait(device));
    *opened = cuda;
    cuda = NULL;
done:
    cuda_trainer_close(cuda);
    return status;
}

void cuda_trainer_close(struct cuda_trainer *cuda) {
    if (cuda) {
        struct device *device = device_of(cuda->context);
        cudaStreamSynchronize(device->stream); /* what it still works on */
        trainer_release(&cuda->trainer);
        cuda_train_products_close(device, &cuda->products);
        for (size_t i = 0; i < PARAMETER_PARTS; i++) {
            device_release(device, cuda->parts[i]);
        }
        device_release(device, cuda->statistics);
        device_release(device, cuda->squares);
        device_release(device, cuda->arena);
        device->host->release(cuda->context, cuda);
    }
}

/* ---- Steps ---- */

l3a_status cuda_trainer_gradient_square(struct cuda_trainer *cuda, double *sum) {
    struct device *device = device_of(cuda->context);
    l3a_status status = L3A_OK;
    TRY_CUDA(device,
             net_square(device->stream, cuda->trainer.parameters.trained_count, cuda->parts[PARAMETER_GRADIENT], cuda->squares));
    TRY(device_get(device, sum, cuda->squares, sizeof *sum));
done:
    return status;
}

l3a_status cuda_trainer_step(struct cuda_trainer *cuda, const struct network_step *step) {
    const struct train_parameters *parameters = &cuda->trainer.parameters;
    struct device *device = device_of(cuda->context);
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < parameters->layers * PARAMETER_KINDS; i++) {
        const struct stored *stored = &parameters->stored[i / PARAMETER_KINDS][i % PARAMETER_KINDS];
        if (stored->use.trained && stored->count) {
            const struct step_numbers numbers = step_numbers_of(step, &stored->use);
            TRY_CUDA(device, net_step(device->stream, &numbers, stored->count, cuda->parts[PARAMETER_GRADIENT] + stored->trained,
                                      cuda->parts[PARAMETER_VALUE] + stored->value, cuda->parts[PARAMETER_MOMENT] + stored->trained,
                                      cuda->parts[PARAMETER_SQUARE] + stored->trained));
        }
    }
done:
    return status;
}

/* ---- Parameters ---- */

l3a_status cuda_trainer_read(struct cuda_trainer *cuda, size_t layer, enum parameter_kind kind, enum parameter_part part,
                             float *values) {
    float *found = NULL;
    l3a_status status = L3A_OK;
    TRY(trainer_find_part(&cuda->trainer, cuda->parts, layer, kind, part, &found));
    TRY(device_get(device_of(cuda->context), values, found, cuda->trainer.parameters.stored[layer][kind].count * sizeof *values));
done:
    return status;
}

l3a_status cuda_trainer_write(struct cuda_trainer *cuda, size_t layer, enum parameter_kind kind, enum parameter_part part,
                              const float *values) {
    float *found = NULL;
    l3a_status status = L3A_OK;
    TRY(trainer_find_part(&cuda->trainer, cuda->parts, layer, kind, part, &found));
    TRY(device_put(device_of(cuda->context), found, values, cuda->trainer.parameters.stored[layer][kind].count * sizeof *values));
done:
    return status;
}
