#include "train/selection.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- Blocks ---- */

/* The length of the part of a name that says which block it belongs to: up to the last of its first two numbers, if what is before
 * them says that blocks or stages are counted. 0: it belongs to none. */
static size_t block_prefix(const char *name) {
    static const char *const words[] = {"blocks.", "layer"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *found = strstr(name, words[i]);
        const char *end = found ? found + strlen(words[i]) : NULL;
        size_t numbers = 0;
        while (end && isdigit((unsigned char)*end)) {
            end += strspn(end, "0123456789");
            numbers++;
            if (*end != '.') {
                break;
            }
            end++;
            if (numbers == (i == 0 ? 1 : 2)) {
                return (size_t)(end - name);
            }
        }
    }
    return 0;
}

/* The name of a parameter of the layer; NULL: it has none. */
static const char *name_of(const struct net_layer *layer) {
    for (size_t kind = 0; kind < PARAMETER_KINDS; kind++) {
        if (layer->parameters[kind].values && layer->parameters[kind].name) {
            return layer->parameters[kind].name;
        }
    }
    return NULL;
}

/* Finds the first layer of the last `wanted` blocks. *found: how many there are, at most so many. */
static size_t first_of_last(const struct network *network, size_t wanted, size_t *found) {
    const char *current = NULL;
    size_t length = 0, first = network->layer_count;
    *found = 0;
    for (size_t i = network->layer_count; i-- > 0;) {
        const char *name = name_of(&network->layers[i]);
        const size_t prefix = name ? block_prefix(name) : 0;
        if (!prefix) {
            continue;
        }
        if (!current || prefix != length || strncmp(name, current, length) != 0) {
            if (*found == wanted) {
                break;
            }
            current = name;
            length = prefix;
            ++*found;
        }
        first = i;
    }
    return first;
}

/* ---- Parameters ---- */

static bool is_norm(const struct net_layer *layer) {
    return layer->kind == LAYER_NORM || layer->kind == LAYER_BATCH_NORM;
}

/* Positions are kept as the bias of their layer, but are none. */
static bool is_bias(const struct net_layer *layer, enum parameter_kind kind) {
    return (kind == BIAS || kind == SECOND_BIAS) && layer->kind != LAYER_TOKENS;
}

static bool is_selected(const struct train_settings *settings, size_t first, const struct net_layer *layer, size_t index,
                        enum parameter_kind kind) {
    switch (settings->trained) {
    case TRAIN_ALL: return true;
    case TRAIN_NORMS: return is_norm(layer) || is_bias(layer, kind);
    case TRAIN_LAST: return index >= first;
    default: return false;
    }
}

/* Counts the changed parameters, and lists them if there is room. */
static void list_changed(const struct network *network, struct selection *selection) {
    selection->count = selection->numbers = selection->largest = 0;
    selection->stepped = 0;
    for (size_t i = 0; i < network->layer_count; i++) {
        const struct net_layer *layer = &network->layers[i];
        const bool moves = layer->kind == LAYER_BATCH_NORM && selection->uses[i][FACTORS].trained;
        for (enum parameter_kind kind = FACTORS; kind < PARAMETER_KINDS; kind++) {
            const bool stepped = selection->uses[i][kind].trained;
            const size_t count = layer->parameters[kind].values ? layer->parameters[kind].count : 0;
            if (!count || !(stepped || (moves && kind >= MEAN))) {
                continue;
            }
            if (selection->changed) {
                selection->changed[selection->count] = (struct changed_parameter){i, kind, selection->numbers, count, stepped};
            }
            selection->count++;
            selection->numbers += count;
            selection->largest = count > selection->largest ? count : selection->largest;
            selection->stepped += stepped ? count : 0;
        }
    }
}

l3a_status selection_make(const struct network *network, const struct train_settings *settings, struct selection *selection) {
    return selection_make_with(network, settings, NULL, NULL, selection);
}

l3a_status selection_make_with(const struct network *network, const struct train_settings *settings,
                               bool (*trains)(void *owner, const char *name, bool selected), void *owner,
                               struct selection *selection) {
    l3a_context *context = network->context;
    l3a_status status = L3A_OK;
    size_t first = 0, found = 0;
    *selection = (struct selection){.uses = NULL};
    if (settings->trained == TRAIN_LAST) {
        first = first_of_last(network, settings->blocks, &found);
        char hint[64];
        snprintf(hint, sizeof hint, found ? "use last:%zu at most" : "train all, norms or head", found);
        FAIL_IF(found < settings->blocks, context, L3A_ERROR_OPTION, hint, "cannot train the last %zu blocks: the network has %zu",
                settings->blocks, found);
    }
    TRY(allocate_zeroed(context, network->layer_count, sizeof *selection->uses, &selection->uses));
    for (size_t i = 0; i < network->layer_count; i++) {
        for (enum parameter_kind kind = FACTORS; kind < MEAN; kind++) {
            const struct parameter *parameter = &network->layers[i].parameters[kind];
            if (!parameter->values) {
                continue;
            }
            const bool selected = is_selected(settings, first, &network->layers[i], i, kind);
            if (trains ? trains(owner, parameter->name, selected) : selected) {
                selection->uses[i][kind] =
                    (struct parameter_use){.trained = true, .rate = 1, .decay = parameter->rank > 1 ? (float)settings->decay : 0};
            }
        }
    }
    list_changed(network, selection);
    TRY(allocate(context, selection->count, sizeof *selection->changed, &selection->changed));
    list_changed(network, selection);
done:
    return status;
}

void selection_free(l3a_context *context, struct selection *selection) {
    release(context, selection->uses);
    release(context, selection->changed);
    *selection = (struct selection){.uses = NULL};
}

const struct changed_parameter *selection_find(const struct selection *selection, size_t layer, enum parameter_kind kind) {
    size_t low = 0, high = selection->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct changed_parameter *at = &selection->changed[middle];
        if (at->layer < layer || (at->layer == layer && at->kind < kind)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const struct changed_parameter *at = low < selection->count ? &selection->changed[low] : NULL;
    return at && at->layer == layer && at->kind == kind ? at : NULL;
}
