/* What layers keep on the device. */
#include "cuda/net/net.h"

#include <string.h>

enum { GROUP = 8 };

enum lowering layer_lowering(const struct net_layer *layer) {
    const bool plain = layer->kernel == 1 && layer->stride == 1 && layer->input != PICTURE;
    return layer->kind == LAYER_LINEAR ? AS_IT_IS : layer->groups > 1 ? BY_ITSELF : plain ? AS_IT_IS : UNFOLDED;
}

size_t layer_room(const struct net_layer *layer) {
    const size_t pixels = layer->kind == LAYER_LINEAR ? 1 : layer->kernel * layer->kernel;
    const size_t numbers = layer->from.channels / (layer->kind == LAYER_LINEAR ? 1 : layer->groups) * pixels;
    return layer_lowering(layer) == UNFOLDED ? (numbers + GROUP - 1) / GROUP * GROUP : numbers;
}

static l3a_status put_floats(struct device *device, const struct parameter *from, void *made) {
    return from->values ? device_copy_of(device, from->values, from->count * sizeof(float), made) : L3A_OK;
}

/* In the network's type. The numbers on the way are not needed when the work that reads them has ended. */
static l3a_status put_product(struct device *device, enum number_type type, const struct net_layer *layer,
                              struct net_parameters *made) {
    const struct parameter *factors = &layer->parameters[FACTORS], *bias = &layer->parameters[BIAS];
    const size_t out = layer->to.channels, room = layer_room(layer);
    const size_t pixels = layer->kind == LAYER_LINEAR ? 1 : layer->kernel * layer->kernel, in = factors->count / out / pixels;
    float *factors_there = NULL, *bias_there = NULL;
    l3a_status status = L3A_OK;
    TRY(put_floats(device, factors, &factors_there));
    TRY(device_allocate(device, out * room, number_bytes(type), &made->factors));
    TRY_CUDA(device, net_pack_factors(device->stream, type, out, in, pixels, in, room, factors_there, made->factors));
    if (layer->input == PICTURE && layer->kind == LAYER_CONVOLUTION && type != NUMBER_FLOAT32 && in <= PADDED) {
        TRY(device_allocate(device, out * pixels * PADDED, number_bytes(type), &made->padded));
        TRY_CUDA(device,
                 net_pack_factors(device->stream, type, out, in, pixels, PADDED, pixels * PADDED, factors_there, made->padded));
    }
    if (bias->values) {
        TRY(put_floats(device, bias, &bias_there));
        TRY(device_allocate(device, out, number_bytes(type), &made->bias));
        TRY_CUDA(device, net_convert(device->stream, type, out, bias_there, made->bias));
    }
done:
    device_release(device, factors_there);
    device_release(device, bias_there);
    return status;
}

/* The learned tokens with their positions, and the positions of the picture's own. */
static l3a_status put_tokens(struct device *device, const struct net_layer *layer, struct net_parameters *made) {
    const struct plugin_host *host = device->host;
    const struct parameter *class_token = &layer->parameters[FACTORS], *registers = &layer->parameters[SECOND_FACTORS];
    const struct parameter *position = &layer->parameters[BIAS];
    const size_t width = layer->to.channels, own = layer->from.height * width, all = layer->to.height * width, front = all - own;
    float *learned = NULL;
    l3a_status status = L3A_OK;
    if (front) {
        TRY(host->allocate(device->context, front, sizeof *learned, &learned));
        for (size_t i = 0; i < front; i++) {
            const bool of_class = i < class_token->count, placed = of_class ? position->count > own : position->count == all;
            learned[i] = of_class ? class_token->values[i] : registers->values[i - class_token->count];
            learned[i] += placed ? position->values[i] : 0;
        }
        TRY(device_copy_of(device, learned, front * sizeof *learned, &made->factors));
    }
    TRY(device_copy_of(device, position->values + position->count - own, own * sizeof(float), &made->bias));
done:
    host->release(device->context, learned);
    return status;
}

l3a_status parameters_put(struct cuda_network *net, const struct network *from) {
    struct device *device = device_of(net->context);
    l3a_status status = L3A_OK;
    TRY(device->host->allocate(net->context, from->layer_count, sizeof *net->parameters, &net->parameters));
    memset(net->parameters, 0, from->layer_count * sizeof *net->parameters);
    for (size_t i = 0; i < from->layer_count; i++) {
        const struct net_layer *layer = &from->layers[i];
        struct net_parameters *made = &net->parameters[i];
        if (is_product(layer)) {
            TRY(put_product(device, net->type, layer, made));
        } else if (layer->kind == LAYER_TOKENS) {
            TRY(put_tokens(device, layer, made));
        } else {
            TRY(put_floats(device, &layer->parameters[FACTORS], &made->factors));
            TRY(put_floats(device, &layer->parameters[BIAS], &made->bias));
            TRY(put_floats(device, &layer->parameters[SECOND_FACTORS], &made->second_factors));
            TRY(put_floats(device, &layer->parameters[SECOND_BIAS], &made->second_bias));
        }
    }
    TRY(device_wait(device)); /* other contexts may read them from now on */
done:
    return status;
}

void parameters_drop(struct cuda_network *net) {
    struct device *device = device_of(net->context);
    for (size_t i = 0; net->parameters && i < net->network.layer_count; i++) {
        device_release(device, net->parameters[i].factors);
        device_release(device, net->parameters[i].padded);
        device_release(device, net->parameters[i].bias);
        device_release(device, net->parameters[i].second_factors);
        device_release(device, net->parameters[i].second_bias);
    }
    device->host->release(net->context, net->parameters);
}
