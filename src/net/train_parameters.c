#include "net/train_parameters.h"
#include "base/memory.h"

#include <math.h>

enum { ALIGNED = 16 }; /* floats */

static size_t aligned(size_t floats) {
    return (floats + ALIGNED - 1) / ALIGNED * ALIGNED;
}

struct parameter_use parameter_use_of(const struct network *network, const struct network_use *use, size_t layer,
                                      enum parameter_kind kind) {
    if (!use->training || !network->layers[layer].parameters[kind].values || kind >= MEAN) {
        return (struct parameter_use){.trained = false};
    }
    return use->parameters ? use->parameters[layer][kind] : (struct parameter_use){.trained = true, .rate = 1};
}

l3a_status train_parameters_make(const struct network *network, const struct network_use *use, struct train_parameters *made) {
    l3a_status status = L3A_OK;
    *made = (struct train_parameters){.context = network->context, .layers = network->layer_count};
    TRY(allocate_zeroed(made->context, made->layers, sizeof *made->stored, &made->stored));
    for (size_t i = 0; i < made->layers * PARAMETER_KINDS; i++) {
        const struct parameter *given = &network->layers[i / PARAMETER_KINDS].parameters[i % PARAMETER_KINDS];
        struct stored *stored = &made->stored[i / PARAMETER_KINDS][i % PARAMETER_KINDS];
        *stored =
            (struct stored){.count = given->values ? given->count : 0,
                            .value = made->value_count,
                            .trained = made->trained_count,
                            .use = parameter_use_of(network, use, i / PARAMETER_KINDS, (enum parameter_kind)(i % PARAMETER_KINDS))};
        made->value_count += aligned(stored->count);
        made->trained_count += stored->use.trained ? aligned(stored->count) : 0;
    }
done:
    return status;
}

void train_parameters_release(struct train_parameters *parameters) {
    if (parameters->context) {
        release(parameters->context, parameters->stored);
    }
    *parameters = (struct train_parameters){0};
}

uint64_t train_parameters_bytes(const struct train_parameters *parameters) {
    return ((uint64_t)parameters->value_count + (uint64_t)3 * parameters->trained_count) * sizeof(float);
}

float *train_parameter_at(const struct train_parameters *parameters, float *const *parts, size_t layer, enum parameter_kind kind,
                          enum parameter_part part) {
    const struct stored *stored = &parameters->stored[layer][kind];
    if (!stored->count || (part != PARAMETER_VALUE && !stored->use.trained)) {
        return NULL;
    }
    return parts[part] + (part == PARAMETER_VALUE ? stored->value : stored->trained);
}

struct step_numbers step_numbers_of(const struct network_step *step, const struct parameter_use *use) {
    const double number = (double)step->number;
    return (struct step_numbers){.optimiser = step->optimiser,
                                 .rate = (float)(step->rate * (double)use->rate),
                                 .momentum = (float)step->momentum,
                                 .momentum_rest = (float)(1 - step->momentum),
                                 .square_rest = (float)(1 - step->square),
                                 .epsilon = (float)step->epsilon,
                                 .decay = use->decay,
                                 .scale = (float)step->scale,
                                 .mean_share = (float)(1 / (1 - pow(step->momentum, number))),
                                 .square_share = (float)(1 / sqrt(1 - pow(step->square, number)))};
}
