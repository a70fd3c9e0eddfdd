/* A value is alive from the layer that makes it to the last layer that reads it. Values are placed in the order in which they are
 * made, each at the lowest address where it overlaps no value alive at the same time. A layer that adds writes its output over the
 * value it adds to, and squeeze and excite writes over its input. */
#include "net/places.h"

#include <string.h>

value layer_overwrites(const struct net_layer *layer) {
    return layer->kind == LAYER_SQUEEZE_EXCITE ? layer->input : is_product(layer) ? layer->second : NOTHING;
}

/* Finds the last layer that reads each value or writes over it; returns as places_find() does. */
static size_t find_last_uses(const struct network *net, size_t *last_uses) {
    memset(last_uses, 0, net->value_count * sizeof *last_uses);
    for (size_t i = 0; i < net->layer_count; i++) {
        const struct net_layer *layer = &net->layers[i];
        last_uses[layer->input] = i;
        last_uses[layer->second] = i;
        last_uses[layer->output] = i;
    }
    for (size_t i = 0; i < net->output_count; i++) {
        last_uses[net->outputs[i].value] = net->layer_count;
    }
    for (size_t i = 0; i < net->layer_count; i++) {
        const value over = layer_overwrites(&net->layers[i]);
        const bool reads_it = is_product(&net->layers[i]) && over == net->layers[i].input;
        if (over && (over == PICTURE || reads_it || last_uses[over] != i)) {
            return i;
        }
    }
    return net->layer_count;
}

size_t places_lowest(const struct stretch *stretches, size_t count, const struct stretch *wanted) {
    size_t place = 0;
    for (size_t i = 0; i < count; i++) {
        const struct stretch *other = &stretches[i];
        const bool together = other->first <= wanted->last && wanted->first <= other->last;
        if (together && place < other->start + other->size && other->start < place + wanted->size) {
            place = other->start + other->size;
            i = (size_t)-1; /* check all of them again */
        }
    }
    return place;
}

static size_t last_use_of_place(const struct network *net, const size_t *last_uses, size_t layer) {
    size_t last = last_uses[net->layers[layer].output];
    while (last < net->layer_count && layer_overwrites(&net->layers[last]) == net->layers[layer].output) {
        layer = last;
        last = last_uses[net->layers[layer].output];
    }
    return last;
}

size_t places_find(const struct network *net, const size_t *sizes, size_t *last_uses, struct stretch *stretches, size_t *places,
                   size_t *arena) {
    const size_t wrong = find_last_uses(net, last_uses);
    size_t count = 0;
    *arena = 0;
    for (size_t i = 0; wrong == net->layer_count && i < net->layer_count; i++) {
        const struct net_layer *layer = &net->layers[i];
        if (layer_overwrites(layer)) {
            places[layer->output] = places[layer_overwrites(layer)];
            continue;
        }
        struct stretch *stretch = &stretches[count];
        *stretch = (struct stretch){.size = sizes[layer->output], .first = i, .last = last_use_of_place(net, last_uses, i)};
        stretch->start = places_lowest(stretches, count++, stretch);
        places[layer->output] = stretch->start;
        *arena = stretch->start + stretch->size > *arena ? stretch->start + stretch->size : *arena;
    }
    return wrong;
}
