/* The parameters of CSC's graph network: their places, and what they are at first. */
#include "base/random.h"
#include "method/csc_network.h"

#include <math.h>
#include <string.h>

struct csc_values csc_network_part(const struct csc_network *net, enum csc_part part) {
    const size_t classes = net->classes, channels = net->channels, width = net->width;
    const struct csc_values parts[CSC_PARTS] = {
        [CSC_CLASSIFY] = {.name = "csc.classify.weight", .rows = classes, .columns = channels},
        [CSC_TRANSFORM] = {.name = "csc.transform.weight", .rows = width, .columns = channels},
        [CSC_TRANSFORM_BIAS] = {.name = "csc.transform.bias", .rows = width},
        [CSC_RELATE] = {.name = "csc.relate.weight", .rows = classes, .columns = classes},
        [CSC_GENERAL] = {.name = "csc.general.weight", .rows = width, .columns = width},
        [CSC_GENERAL_BIAS] = {.name = "csc.general.bias", .rows = width},
        [CSC_MIDDLE] = {.name = "csc.middle.weight", .rows = width, .columns = width},
        [CSC_MIDDLE_BIAS] = {.name = "csc.middle.bias", .rows = width},
        [CSC_NORM] = {.name = "csc.norm.weight", .rows = width},
        [CSC_NORM_BIAS] = {.name = "csc.norm.bias", .rows = width},
        [CSC_ADAPT] = {.name = "csc.adapt.weight", .rows = classes, .columns = 2 * width},
        [CSC_ADAPT_BIAS] = {.name = "csc.adapt.bias", .rows = classes},
        [CSC_SPECIFIC] = {.name = "csc.specific.weight", .rows = width, .columns = width},
        [CSC_SPECIFIC_BIAS] = {.name = "csc.specific.bias", .rows = width},
        [CSC_LAST] = {.name = "csc.last.weight", .rows = classes, .columns = width},
        [CSC_LAST_BIAS] = {.name = "csc.last.bias", .rows = classes},
        [CSC_MEAN] = {.name = "csc.norm.mean", .rows = width},
        [CSC_VARIANCE] = {.name = "csc.norm.variance", .rows = width}};
    struct csc_values found = parts[part];
    size_t first = 0;
    for (size_t i = 0; i < (size_t)part; i++) {
        first += parts[i].rows * (parts[i].columns ? parts[i].columns : 1);
    }
    found.count = found.rows * (found.columns ? found.columns : 1);
    found.first = first;
    found.values = net->values ? net->values + first : NULL;
    return found;
}

/* Inputs of each of a part's numbers: a bias has as many as the weights before it. */
static size_t inputs_of(const struct csc_network *net, enum csc_part part) {
    const size_t columns = csc_network_part(net, part).columns;
    return columns ? columns : csc_network_part(net, (enum csc_part)(part - 1)).columns;
}

static void draw(const struct csc_network *net, uint64_t seed, enum csc_part part) {
    const struct csc_values to = csc_network_part(net, part);
    const uint64_t stream = random_bits(seed, part);
    const double bound = 1 / sqrt((double)inputs_of(net, part));
    for (size_t i = 0; i < to.count; i++) {
        to.values[i] = (float)((2 * random_uniform(stream, i) - 1) * bound);
    }
}

static void fill(const struct csc_network *net, enum csc_part part, float value) {
    const struct csc_values to = csc_network_part(net, part);
    for (size_t i = 0; i < to.count; i++) {
        to.values[i] = value;
    }
}

l3a_status csc_network_make(l3a_context *context, size_t classes, size_t channels, size_t width, uint64_t seed,
                            struct csc_network *net) {
    l3a_status status = L3A_OK;
    *net = (struct csc_network){.context = context, .classes = classes, .channels = channels, .width = width};
    const struct csc_values last = csc_network_part(net, CSC_VARIANCE);
    net->numbers = csc_network_part(net, CSC_MEAN).first;
    net->all = last.first + last.count;
    TRY(allocate(context, net->all, sizeof *net->values, &net->values));
    for (size_t i = 0; i < CSC_MEAN; i++) {
        if (i != CSC_NORM && i != CSC_NORM_BIAS) {
            draw(net, seed, (enum csc_part)i);
        }
    }
    fill(net, CSC_NORM, 1);
    fill(net, CSC_NORM_BIAS, 0);
    fill(net, CSC_MEAN, 0);
    fill(net, CSC_VARIANCE, 1);
done:
    return status;
}

l3a_status csc_network_grow(const struct csc_network *old, size_t classes, uint64_t seed, bool new_biases,
                            struct csc_network *net) {
    l3a_status status = L3A_OK;
    TRY(csc_network_make(old->context, classes, old->channels, old->width, seed, net));
    for (size_t i = 0; i < CSC_PARTS; i++) {
        const struct csc_values from = csc_network_part(old, (enum csc_part)i), to = csc_network_part(net, (enum csc_part)i);
        const size_t columns = from.columns ? from.columns : 1, stride = to.columns ? to.columns : 1;
        if (new_biases && (i == CSC_ADAPT_BIAS || i == CSC_LAST_BIAS)) {
            continue;
        }
        for (size_t row = 0; row < from.rows; row++) {
            memcpy(to.values + row * stride, from.values + row * columns, columns * sizeof *to.values);
        }
    }
done:
    return status;
}
