/* Rewrites a described network for inference, in this order:
 *
 * drop    layers that no wanted output needs.
 * fold    After training, a batch norm is an affine map of each channel,
 *             y = w (x - mean) / √(variance + ε) + b = scale · x + shift,
 *         and is folded into the convolution before it: each kernel is multiplied by its channel's scale, and the shift becomes its
 *         bias. So is a scale, into the convolution or linear layer before it. Scale and shift are computed in double precision, so
 *         that folding costs no accuracy. A batch norm that follows something else becomes a scale with a bias.
 * attach  sums and activations, to the convolution, the linear layer, or squeeze and excite before them. Such a layer writes its
 *         output over the value that it adds, so that must not be needed afterwards.
 * narrow  If only the first token of a value is needed, the layers that work on each token by itself compute only that one, back to
 *         the attention, which still reads the keys and values of all tokens.
 *
 * Layers are removed by marking them; the list is packed at the end of each step. */
#include "net/fuse.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

struct fuse {
    struct network *net;
    size_t *uses;  /* of each value: how many layers and outputs read it */
    bool *removed; /* of each layer */
    bool *narrow;  /* of each value: only its first token is made */
};

static bool works_on_tokens(enum net_layer_kind kind) {
    return kind == LAYER_LINEAR || kind == LAYER_NORM || kind == LAYER_ACTIVATION || kind == LAYER_SCALE || kind == LAYER_ADD;
}

static void count_uses(struct fuse *fuse) {
    const struct network *net = fuse->net;
    memset(fuse->uses, 0, net->value_count * sizeof *fuse->uses);
    for (size_t i = 0; i < net->layer_count; i++) {
        const struct net_layer *layer = &net->layers[i];
        if (!fuse->removed[i]) {
            fuse->uses[layer->input]++;
            fuse->uses[layer->second] += layer->second != layer->input;
        }
    }
    for (size_t i = 0; i < net->output_count; i++) {
        fuse->uses[net->outputs[i].value]++;
    }
}

static void remove_layer(struct fuse *fuse, size_t index) {
    struct net_layer *layer = &fuse->net->layers[index];
    for (size_t i = 0; i < PARAMETER_KINDS; i++) {
        parameter_release(fuse->net->context, &layer->parameters[i]);
    }
    fuse->removed[index] = true;
}

static void pack_list(struct fuse *fuse) {
    struct network *net = fuse->net;
    size_t kept = 0;
    for (size_t i = 0; i < net->layer_count; i++) {
        if (!fuse->removed[i]) {
            net->layers[kept++] = net->layers[i];
        }
    }
    net->layer_count = kept;
    memset(fuse->removed, 0, net->layer_capacity * sizeof *fuse->removed);
}

static void drop_unused(struct fuse *fuse) {
    struct network *net = fuse->net;
    count_uses(fuse);
    for (size_t i = net->layer_count; i-- > 0;) {
        const struct net_layer *layer = &net->layers[i];
        if (!fuse->uses[layer->output]) {
            fuse->uses[layer->input]--;
            fuse->uses[layer->second] -= layer->second != layer->input;
            remove_layer(fuse, i);
        }
    }
    pack_list(fuse);
}

/* ---- Fold and attach ---- */

/* y = scale · x + shift for one channel of a batch norm or a scale. */
static void affine_map(const struct net_layer *layer, size_t channel, double *factor, double *shift) {
    const float *bias = layer->parameters[BIAS].values;
    const double weight = (double)layer->parameters[FACTORS].values[channel];
    if (layer->kind == LAYER_SCALE) {
        *factor = weight;
        *shift = bias ? (double)bias[channel] : 0;
    } else {
        const double gain = layer->magnitude ? fabs(weight) + layer->epsilon : weight;
        *factor = gain / sqrt((double)layer->parameters[VARIANCE].values[channel] + layer->epsilon);
        *shift = (double)bias[channel] - (double)layer->parameters[MEAN].values[channel] * *factor;
    }
}

static void lose_name(l3a_context *context, struct parameter *parameter) {
    release(context, parameter->name);
    parameter->name = NULL;
}

/* Folds a batch norm or a scale into the product before it. */
static l3a_status fold(struct network *net, const struct net_layer *affine, struct net_layer *product) {
    struct parameter *factors = &product->parameters[FACTORS], *bias = &product->parameters[BIAS];
    const size_t channels = product->to.channels, fan_in = factors->count / channels;
    l3a_status status = L3A_OK;
    if (!bias->values && (affine->kind == LAYER_BATCH_NORM || affine->parameters[BIAS].values)) {
        TRY(allocate_zeroed(net->context, channels, sizeof(float), &bias->values));
        bias->count = bias->shape[0] = channels;
        bias->rank = 1;
    }
    for (size_t o = 0; o < channels; o++) {
        double factor, shift;
        affine_map(affine, o, &factor, &shift);
        for (size_t i = 0; i < fan_in; i++) {
            factors->values[o * fan_in + i] = (float)((double)factors->values[o * fan_in + i] * factor);
        }
        if (bias->values) {
            bias->values[o] = (float)(shift + (double)bias->values[o] * factor);
        }
    }
    lose_name(net->context, factors);
    lose_name(net->context, bias);
done:
    return status;
}

static void become_scale(struct network *net, struct net_layer *layer) {
    struct parameter *factors = &layer->parameters[FACTORS], *bias = &layer->parameters[BIAS];
    for (size_t c = 0; c < layer->to.channels; c++) {
        double factor, shift;
        affine_map(layer, c, &factor, &shift);
        factors->values[c] = (float)factor;
        bias->values[c] = (float)shift;
    }
    lose_name(net->context, factors);
    lose_name(net->context, bias);
    parameter_release(net->context, &layer->parameters[MEAN]);
    parameter_release(net->context, &layer->parameters[VARIANCE]);
    layer->kind = LAYER_SCALE;
}

/* The only layer that reads a value, from `after` on; layer_count: there is none, or more than one. */
static size_t only_reader(const struct fuse *fuse, size_t after, value read) {
    const struct network *net = fuse->net;
    for (size_t i = after + 1; fuse->uses[read] == 1 && i < net->layer_count; i++) {
        if (!fuse->removed[i] && (net->layers[i].input == read || net->layers[i].second == read)) {
            return i;
        }
    }
    return net->layer_count;
}

/* Whether a value is needed after the layer at `at`, other than by the one at `sum`. Layers before `at` stay where they are. */
static bool is_needed(const struct fuse *fuse, value read, size_t at, size_t sum) {
    const struct network *net = fuse->net;
    for (size_t i = at + 1; i < net->layer_count; i++) {
        if (i != sum && !fuse->removed[i] && (net->layers[i].input == read || net->layers[i].second == read)) {
            return true;
        }
    }
    for (size_t i = 0; i < net->output_count; i++) {
        if (net->outputs[i].value == read) {
            return true;
        }
    }
    return false;
}

/* Whether a sum can be attached: the other operand is there before the layer runs, can be overwritten, and is not what it reads. */
static bool takes_sum(const struct fuse *fuse, size_t at, size_t sum) {
    const struct net_layer *layer = &fuse->net->layers[at], *adds = &fuse->net->layers[sum];
    const value other = adds->input == layer->output ? adds->second : adds->input;
    return !layer->second && !layer->activation && other != PICTURE && other < layer->output && other != layer->input &&
           !is_needed(fuse, other, at, sum);
}

/* Squeeze and excite adds only before a ReLU. */
static bool ends_with_relu(const struct fuse *fuse, size_t sum) {
    const struct network *net = fuse->net;
    const size_t next = only_reader(fuse, sum, net->layers[sum].output);
    return next < net->layer_count && net->layers[next].kind == LAYER_ACTIVATION && net->layers[next].activation == RELU;
}

/* Puts the layer where the one was that it has taken over. */
static void move_to(struct fuse *fuse, size_t from, size_t to) {
    struct net_layer *layers = fuse->net->layers;
    const value output = layers[to].output;
    remove_layer(fuse, to);
    layers[to] = layers[from];
    layers[to].output = output;
    fuse->removed[to] = false;
    fuse->removed[from] = true;
}

/* Lets a layer take over the one that follows it, if it can; *at is where it is then. */
static l3a_status take_over(struct fuse *fuse, size_t *at, bool *taken) {
    struct network *net = fuse->net;
    struct net_layer *layer = &net->layers[*at];
    const size_t next = only_reader(fuse, *at, layer->output);
    l3a_status status = L3A_OK;
    *taken = false;
    if (next == net->layer_count) {
        return L3A_OK;
    }
    const struct net_layer *follower = &net->layers[next];
    const bool plain = !layer->second && !layer->activation;
    if (is_product(layer) && plain && (follower->kind == LAYER_BATCH_NORM || follower->kind == LAYER_SCALE)) {
        TRY(fold(net, follower, layer));
    } else if (follower->kind == LAYER_ADD && takes_sum(fuse, *at, next) && (is_product(layer) || ends_with_relu(fuse, next))) {
        layer->second = follower->input == layer->output ? follower->second : follower->input;
    } else if (follower->kind == LAYER_ACTIVATION && !layer->activation && (is_product(layer) || layer->second)) {
        layer->activation = follower->activation;
        layer->slope = follower->slope;
    } else {
        return L3A_OK;
    }
    move_to(fuse, *at, next);
    *at = next;
    *taken = true;
done:
    return status;
}

static l3a_status fold_and_attach(struct fuse *fuse) {
    struct network *net = fuse->net;
    l3a_status status = L3A_OK;
    count_uses(fuse);
    for (size_t i = 0; i < net->layer_count; i++) {
        bool taken = !fuse->removed[i] && (is_product(&net->layers[i]) || net->layers[i].kind == LAYER_SQUEEZE_EXCITE);
        for (size_t at = i; taken;) {
            TRY(take_over(fuse, &at, &taken));
        }
        if (!fuse->removed[i] && net->layers[i].kind == LAYER_BATCH_NORM) {
            become_scale(net, &net->layers[i]);
        }
    }
done:
    pack_list(fuse); /* also after a failure: a layer that has moved is in the list twice until then */
    return status;
}

/* ---- Narrow ---- */

/* Marks the values of which only the first token is needed, and that can be made without the others. */
static void mark_narrow(struct fuse *fuse) {
    const struct network *net = fuse->net;
    for (size_t v = 0; v < net->value_count; v++) {
        fuse->narrow[v] = net->shapes[v].height > 1 && net->shapes[v].width == 1;
    }
    for (size_t i = 0; i < net->output_count; i++) {
        fuse->narrow[net->outputs[i].value] = false;
    }
    for (size_t i = net->layer_count; i-- > 0;) {
        const struct net_layer *layer = &net->layers[i];
        const bool one_by_one = works_on_tokens(layer->kind);
        if (layer->kind != LAYER_ATTENTION && !one_by_one) {
            fuse->narrow[layer->output] = false;
        }
        if (layer->kind != LAYER_FIRST_TOKEN && !(one_by_one && fuse->narrow[layer->output])) {
            fuse->narrow[layer->input] = fuse->narrow[layer->second] = false;
        }
    }
}

/* Reads of the value `from` become reads of `to`. */
static void replace_value(struct network *net, value from, value to) {
    for (size_t i = 0; i < net->layer_count; i++) {
        struct net_layer *layer = &net->layers[i];
        layer->input = layer->input == from ? to : layer->input;
        layer->second = layer->second == from ? to : layer->second;
    }
    for (size_t i = 0; i < net->output_count; i++) {
        net->outputs[i].value = net->outputs[i].value == from ? to : net->outputs[i].value;
    }
}

/* A layer before the one at `index` that takes the first token of a value of which all are made. */
static l3a_status insert_first_token(struct network *net, size_t index, value from, value *first) {
    const struct shape shape = net->shapes[from];
    *first = network_add_layer(
        net, &(struct net_layer){.kind = LAYER_FIRST_TOKEN, .input = from, .from = shape, .to = {shape.channels, 1, 1}});
    if (net->status == L3A_OK) {
        const struct net_layer made = net->layers[net->layer_count - 1];
        memmove(net->layers + index + 1, net->layers + index, (net->layer_count - 1 - index) * sizeof *net->layers);
        net->layers[index] = made;
    }
    return net->status;
}

/* A layer whose output is narrow reads narrow values, too. *index moves with the layer. */
static l3a_status narrow_layer(struct fuse *fuse, size_t *index) {
    struct network *net = fuse->net;
    l3a_status status = L3A_OK;
    struct net_layer *layer = &net->layers[*index];
    layer->to.height = 1;
    if (layer->kind == LAYER_ATTENTION) {
        return L3A_OK;
    }
    layer->from.height = 1;
    for (int i = 0; i < 2; i++) {
        const value read = i ? net->layers[*index].second : net->layers[*index].input;
        value first = read;
        if (read && net->shapes[read].height > 1) {
            TRY(insert_first_token(net, *index, read, &first));
            ++*index;
        }
        *(i ? &net->layers[*index].second : &net->layers[*index].input) = first;
    }
done:
    return status;
}

static l3a_status narrow_to_first_tokens(struct fuse *fuse) {
    struct network *net = fuse->net;
    const size_t values = net->value_count;
    l3a_status status = L3A_OK;
    mark_narrow(fuse);
    for (size_t i = 0; i < net->layer_count; i++) {
        const value output = net->layers[i].output;
        if (output < values && fuse->narrow[output]) {
            net->shapes[output].height = 1;
            TRY(narrow_layer(fuse, &i));
        } else if (net->layers[i].kind == LAYER_FIRST_TOKEN && net->shapes[net->layers[i].input].height == 1) {
            replace_value(net, output, net->layers[i].input);
            memmove(net->layers + i, net->layers + i + 1, (net->layer_count - 1 - i) * sizeof *net->layers);
            net->layer_count--;
            i--;
        }
    }
done:
    return status;
}

l3a_status network_fuse(struct network *net, size_t outputs) {
    struct fuse fuse = {.net = net};
    l3a_context *context = net->context;
    l3a_status status = L3A_OK;
    net->output_count = outputs < net->output_count ? outputs : net->output_count;
    TRY(allocate_zeroed(context, net->value_count, sizeof *fuse.uses, &fuse.uses));
    TRY(allocate_zeroed(context, net->layer_capacity, sizeof *fuse.removed, &fuse.removed));
    TRY(allocate_zeroed(context, net->value_count, sizeof *fuse.narrow, &fuse.narrow));
    drop_unused(&fuse);
    TRY(fold_and_attach(&fuse));
    TRY(narrow_to_first_tokens(&fuse));
done:
    release(context, fuse.uses);
    release(context, fuse.removed);
    release(context, fuse.narrow);
    return status;
}
