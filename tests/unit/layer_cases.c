#include "layer_cases.h"
#include "support.h"

#include "base/random.h"

#include <string.h>

enum { PATCH_SIDE = 4, PATCH_WIDTH = 48, REGISTERS = 2, BESIDE = 3, KEYS = 5, PICKS = 2 };

/* Variants of LAYER_TOKENS: which learned tokens there are, and how many positions. */
enum { CLASS_TOKEN, NO_CLASS_TOKEN, PATCH_POSITIONS, REGISTER_TOKENS, ALL_POSITIONS };
/* Of LAYER_ATTENTION. */
enum { OWN_KEYS, KEYS_BESIDE, ONLY_KEYS_BESIDE, KEYS_ARE_VALUES, OWN_TOKENS };
/* Of LAYER_COSINES. */
enum { PLAIN_KEYS, MASKED_KEYS };
/* Of LAYER_BATCH_NORM. */
enum { USUAL, MAGNITUDE, AFTER_POOL };
/* Of LAYER_JOIN. */
enum { CHANNELS, TOKENS_BELOW, BELOW_ITSELF };

const struct layer_case layer_cases[] = {
    {"3 x 3", LAYER_CONVOLUTION, 16, 9, 32, 3, 1, 1, 0, RELU, false, 0},
    {"3 x 3, stride 2", LAYER_CONVOLUTION, 16, 9, 16, 3, 2, 1, 0, LEAKY_RELU, false, 0},
    {"3 x 3 and a sum", LAYER_CONVOLUTION, 32, 8, 32, 3, 1, 1, 0, RELU, true, 0},
    {"1 x 1", LAYER_CONVOLUTION, 64, 7, 48, 1, 1, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"1 x 1, stride 2", LAYER_CONVOLUTION, 32, 10, 64, 1, 2, 1, 0, RELU, false, 0},
    {"7 x 7, stride 2", LAYER_CONVOLUTION, 3, 21, 16, 7, 2, 1, 0, RELU, false, 0},
    {"2 x 2, stride 2", LAYER_CONVOLUTION, 16, 8, 24, 2, 2, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"odd channels", LAYER_CONVOLUTION, 19, 6, 21, 3, 1, 1, 0, LEAKY_RELU, false, 0},
    {"odd channels and a sum", LAYER_CONVOLUTION, 19, 6, 19, 3, 1, 1, 0, RELU, true, 0},
    {"groups", LAYER_CONVOLUTION, 32, 8, 64, 3, 1, 4, 0, RELU, false, 0},
    {"a group a channel", LAYER_CONVOLUTION, 32, 8, 32, 3, 2, 32, 0, LINEAR_ACTIVATION, false, 0},
    {"a group a channel, 7 x 7", LAYER_CONVOLUTION, 24, 9, 24, 7, 1, 24, 0, LINEAR_ACTIVATION, false, 0},
    {"batch norm", LAYER_BATCH_NORM, 16, 7, 0, 0, 0, 1, 0, LINEAR_ACTIVATION, false, USUAL},
    {"batch norm and leaky relu", LAYER_BATCH_NORM, 19, 6, 0, 0, 0, 1, 0, LEAKY_RELU, false, USUAL},
    {"batch norm by magnitude", LAYER_BATCH_NORM, 16, 7, 0, 0, 0, 1, 0, LINEAR_ACTIVATION, false, MAGNITUDE},
    {"batch norm of a pool", LAYER_BATCH_NORM, 16, 7, 0, 0, 0, 1, 0, LEAKY_RELU, false, AFTER_POOL},
    {"max pool", LAYER_MAX_POOL, 16, 8, 0, 3, 2, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"max pool, odd", LAYER_MAX_POOL, 19, 9, 0, 3, 2, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"average pool", LAYER_AVERAGE_POOL, 16, 8, 0, 2, 2, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"average pool, odd", LAYER_AVERAGE_POOL, 19, 7, 0, 2, 2, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"blur", LAYER_BLUR, 16, 8, 0, 3, 2, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"blur, odd", LAYER_BLUR, 19, 7, 0, 3, 2, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"squeeze and excite", LAYER_SQUEEZE_EXCITE, 32, 6, 0, 0, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"squeeze and excite and a sum", LAYER_SQUEEZE_EXCITE, 19, 6, 0, 0, 0, 1, 0, RELU, true, 0},
    {"global mean", LAYER_GLOBAL_MEAN, 19, 6, 0, 0, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"space to depth", LAYER_SPACE_TO_DEPTH, 3, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"linear", LAYER_LINEAR, 0, 12, 40, 4, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"linear of pixels", LAYER_LINEAR, 24, 7, 40, 4, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"linear, gelu", LAYER_LINEAR, 0, 12, 40, 4, 0, 1, 0, GELU, false, 0},
    {"linear, quick gelu", LAYER_LINEAR, 0, 12, 40, 4, 0, 1, 0, QUICK_GELU, false, 0},
    {"linear, gelu by tanh", LAYER_LINEAR, 0, 12, 40, 4, 0, 1, 0, TANH_GELU, false, 0},
    {"linear and a sum", LAYER_LINEAR, 0, 12, 48, 4, 0, 1, 0, LINEAR_ACTIVATION, true, 0},
    {"linear, scaled, and a sum", LAYER_SCALE, 0, 12, 48, 4, 0, 1, 0, LINEAR_ACTIVATION, true, 0},
    {"a sum with what is mapped", LAYER_ADD, 0, 12, 48, 4, 0, 1, 0, RELU, false, 0},
    {"a sum with the pixels that are mapped", LAYER_ADD, 24, 7, 24, 0, 0, 1, 0, LEAKY_RELU, false, 0},
    {"tokens", LAYER_TOKENS, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, CLASS_TOKEN},
    {"tokens without a class", LAYER_TOKENS, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, NO_CLASS_TOKEN},
    {"tokens, positions of squares", LAYER_TOKENS, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, PATCH_POSITIONS},
    {"tokens with registers", LAYER_TOKENS, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, REGISTER_TOKENS},
    {"tokens, positions of all", LAYER_TOKENS, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, ALL_POSITIONS},
    {"layer norm", LAYER_NORM, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"layer norm of pixels", LAYER_NORM, 24, 6, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"layer norm of odd channels", LAYER_NORM, 19, 6, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"attention", LAYER_ATTENTION, 0, 20, 0, 4, 0, 1, 2, LINEAR_ACTIVATION, false, OWN_KEYS},
    {"attention, many tokens", LAYER_ATTENTION, 0, 60, 0, 4, 0, 1, 2, LINEAR_ACTIVATION, false, OWN_KEYS},
    {"attention, one head", LAYER_ATTENTION, 0, 36, 0, 4, 0, 1, 1, LINEAR_ACTIVATION, false, OWN_KEYS},
    {"attention, keys beside", LAYER_ATTENTION, 0, 20, 0, 4, 0, 1, 2, LINEAR_ACTIVATION, true, KEYS_BESIDE},
    {"attention, only keys beside", LAYER_ATTENTION, 0, 20, 0, 4, 0, 1, 3, LINEAR_ACTIVATION, true, ONLY_KEYS_BESIDE},
    {"attention, keys are values", LAYER_ATTENTION, 0, 20, 0, 4, 0, 1, 3, LINEAR_ACTIVATION, true, KEYS_ARE_VALUES},
    {"attention, the keys of a value are values", LAYER_ATTENTION, 0, 12, 0, 4, 0, 1, 1, LINEAR_ACTIVATION, true, OWN_TOKENS},
    {"first token", LAYER_FIRST_TOKEN, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"token mean", LAYER_TOKEN_MEAN, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"token max", LAYER_TOKEN_MAX, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"joined", LAYER_JOIN, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, true, CHANNELS},
    {"stacked", LAYER_JOIN, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, true, TOKENS_BELOW},
    {"stacked on itself", LAYER_JOIN, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, BELOW_ITSELF},
    {"some tokens", LAYER_SLICE, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"pixels as tokens", LAYER_SLICE, 19, 6, 0, 0, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"split", LAYER_SPLIT, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"unit tokens", LAYER_UNIT, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
    {"cosines", LAYER_COSINES, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, PLAIN_KEYS},
    {"cosines, masked", LAYER_COSINES, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, MASKED_KEYS},
    {"picked", LAYER_PICK, 0, 12, 0, 4, 0, 1, 0, LINEAR_ACTIVATION, false, 0},
};
const size_t layer_case_count = sizeof layer_cases / sizeof *layer_cases;

bool layer_case_is_for_prompts(const struct layer_case *what) {
    return what->kind >= LAYER_SPLIT || (what->kind == LAYER_ATTENTION && what->variant >= KEYS_ARE_VALUES);
}

float layer_case_number(const char *name, size_t index) {
    uint64_t seed = 5;
    for (const char *c = name; *c; c++) {
        seed = seed * 31 + (uint64_t)*c;
    }
    return (float)(2 * random_uniform(seed, index) - 1);
}

static l3a_status read_numbers(void *owner, const struct checkpoint_tensor *tensor, float *values) {
    (void)owner;
    for (size_t i = 0; i < tensor->elements; i++) {
        values[i] =
            layer_case_number(tensor->name, i) * (tensor->rank > 1 ? 0.3F : 1.0F) + (strstr(tensor->name, "var") ? 1.5F : 0.0F);
    }
    return L3A_OK;
}

static void add_pair(struct memory_tensors *tensors, const char *prefix, size_t out, size_t in) {
    tensors_add(tensors, prefix, "weight", in ? 2 : 1, out, in, 0, 0);
    tensors_add(tensors, prefix, "bias", 1, out, 0, 0, 0);
}

static void fill_tokens(const struct layer_case *what, struct memory_tensors *tensors) {
    const size_t squares = (what->side / PATCH_SIDE) * (what->side / PATCH_SIDE);
    const size_t classes = what->variant != NO_CLASS_TOKEN, registers = what->variant >= REGISTER_TOKENS ? REGISTERS : 0;
    const size_t positions =
        squares + (what->variant == PATCH_POSITIONS ? 0 : classes) + (what->variant == ALL_POSITIONS ? registers : 0);
    if (classes) {
        tensors_add(tensors, "", "layer.token", 3, 1, 1, PATCH_WIDTH, 0);
    }
    if (registers) {
        tensors_add(tensors, "", "layer.registers", 3, 1, registers, PATCH_WIDTH, 0);
    }
    tensors_add(tensors, "", "layer.position", 3, 1, positions, PATCH_WIDTH, 0);
}

static size_t keys_width(const struct layer_case *what) {
    return what->variant == KEYS_BESIDE ? 2 * PATCH_WIDTH / 3 : what->variant == KEYS_ARE_VALUES ? PATCH_WIDTH : 2 * PATCH_WIDTH;
}

static void fill_tensors(const struct layer_case *what, struct memory_tensors *tensors) {
    const size_t width = what->channels ? what->channels : PATCH_WIDTH, kernel = what->channels ? 1 : PATCH_SIDE;
    tensors->count = 0;
    for (size_t i = 0; i < 1 + (size_t)what->add; i++) {
        tensors_add(tensors, i ? "beside." : "first.", "weight", 4, width, 3, kernel, kernel);
        tensors_add(tensors, i ? "beside." : "first.", "bias", 1, width, 0, 0, 0);
    }
    switch (what->kind) {
    case LAYER_CONVOLUTION:
        tensors_add(tensors, "layer.", "weight", 4, what->out, what->channels / what->groups, what->kernel, what->kernel);
        tensors_add(tensors, "layer.", "bias", 1, what->out, 0, 0, 0);
        break;
    case LAYER_SCALE: tensors_add(tensors, "layer.", "scale", 1, what->out, 0, 0, 0); /* fall through */
    case LAYER_ADD:
    case LAYER_LINEAR: add_pair(tensors, "layer.", what->out, width); break;
    case LAYER_SQUEEZE_EXCITE:
        tensors_add(tensors, "layer.", "weight", 4, 10, width, 1, 1);
        tensors_add(tensors, "layer.", "bias", 1, 10, 0, 0, 0);
        tensors_add(tensors, "second.", "weight", 4, width, 10, 1, 1);
        tensors_add(tensors, "second.", "bias", 1, width, 0, 0, 0);
        break;
    case LAYER_BATCH_NORM:
        if (what->variant != AFTER_POOL) {
            tensors_add(tensors, "layer.", "weight", 4, width, width, 3, 3);
        }
        add_pair(tensors, "norm.", width, 0);
        tensors_add(tensors, "norm.", "running_mean", 1, width, 0, 0, 0);
        tensors_add(tensors, "norm.", "running_var", 1, width, 0, 0, 0);
        break;
    case LAYER_TOKENS: fill_tokens(what, tensors); break;
    case LAYER_NORM: add_pair(tensors, "layer.", width, 0); break;
    case LAYER_ATTENTION:
        if (what->variant <= KEYS_ARE_VALUES) {
            tensors_add(tensors, "layer.", "keys", 3, 1, BESIDE, keys_width(what), 0);
        }
        break;
    case LAYER_COSINES: tensors_add(tensors, "layer.", "mask", 2, KEYS, width, 0, 0); /* fall through */
    case LAYER_PICK:
        tensors_add(tensors, "layer.", "keys", 2, KEYS, width, 0, 0);
        tensors_add(tensors, "layer.", "groups", 3, KEYS, BESIDE, width, 0);
        break;
    default: break;
    }
}

static value first_layer(struct network *net, const struct layer_case *what, const char *name) {
    const struct conv first = {.name = name, .out = what->channels, .kernel = 1, .stride = 1, .biased = true};
    return what->channels ? conv(net, PICTURE, &first) : patch_embedding(net, PICTURE, name, PATCH_SIDE, PATCH_WIDTH, false);
}

static value describe_tokens(struct network *net, const struct layer_case *what, value x) {
    const struct checkpoint_tensor *positions = parameters_find(net->parameters, "layer.position");
    return add_tokens(net, x,
                      &(struct tokens){.class_token = what->variant == NO_CLASS_TOKEN ? NULL : "layer.token",
                                       .registers = what->variant >= REGISTER_TOKENS ? "layer.registers" : NULL,
                                       .register_count = what->variant >= REGISTER_TOKENS ? REGISTERS : 0,
                                       .positions = "layer.position",
                                       .position_count = (size_t)positions->shape[1],
                                       .across = root_of(net->shapes[x].height)});
}

static value describe_attention(struct network *net, const struct layer_case *what, value x) {
    if (what->variant > KEYS_ARE_VALUES) { /* those of the tokens themselves */
        return attention(net, slice(net, x, 1, 2, 1), x, what->heads);
    }
    return attention(net, x, what->variant == OWN_KEYS ? NOTHING : learned(net, "layer.keys", BESIDE, keys_width(what)),
                     what->heads);
}

/* Each value is also read by something else, so that gradients add up. */
static value describe_join(struct network *net, const struct layer_case *what, value x, value before) {
    if (what->variant == CHANNELS) {
        return join(net, token_mean(net, x, 0), first_token(net, before));
    }
    return what->variant == TOKENS_BELOW ? stack(net, slice(net, x, 1, 3, 1), stack(net, before, x)) : stack(net, x, x);
}

static value describe_layer(struct network *net, const struct layer_case *what, value x, value before) {
    const struct conv convolution = {.name = "layer",
                                     .norm = what->kind == LAYER_BATCH_NORM ? "norm" : NULL,
                                     .out = what->kind == LAYER_BATCH_NORM ? what->channels : what->out,
                                     .kernel = what->kind == LAYER_BATCH_NORM ? 3 : what->kernel,
                                     .stride = what->kind == LAYER_BATCH_NORM ? 1 : what->stride,
                                     .groups = what->groups,
                                     .activation = what->activation,
                                     .slope = what->activation == LEAKY_RELU ? 0.1F : 0,
                                     .add = before,
                                     .biased = what->kind == LAYER_CONVOLUTION,
                                     .magnitude = what->variant == MAGNITUDE,
                                     .unpadded = what->kernel == 2};
    switch (what->kind) {
    case LAYER_CONVOLUTION:
    case LAYER_BATCH_NORM:
        return what->variant != AFTER_POOL
                   ? conv(net, x, &convolution)
                   : nonlinear(net, batch_norm(net, max_pool(net, x), "norm", 0, false), what->activation, 0.1F);
    case LAYER_LINEAR:
    case LAYER_SCALE:
    case LAYER_ADD:
        return linear(net, x,
                      &(struct linear){.name = "layer",
                                       .out = what->out,
                                       .activation = what->activation,
                                       .scale = what->kind == LAYER_SCALE ? "layer.scale" : NULL,
                                       .add = what->kind == LAYER_ADD ? x : before});
    case LAYER_MAX_POOL: return max_pool(net, x);
    case LAYER_AVERAGE_POOL: return average_pool(net, x);
    case LAYER_BLUR: return blur_pool(net, x);
    case LAYER_SQUEEZE_EXCITE: return squeeze_excite(net, x, "layer", "second", 10, before);
    case LAYER_GLOBAL_MEAN: return global_mean(net, x);
    case LAYER_SPACE_TO_DEPTH: return space_to_depth(net, x, what->kernel);
    case LAYER_TOKENS: return describe_tokens(net, what, x);
    case LAYER_NORM: return layer_norm(net, x, "layer", 1e-6);
    case LAYER_ATTENTION: return describe_attention(net, what, x);
    case LAYER_FIRST_TOKEN: return first_token(net, x);
    case LAYER_JOIN: return describe_join(net, what, x, before);
    case LAYER_SLICE: return what->channels ? slice(net, x, 6, 24, 1) : slice(net, x, 2, 2, 3);
    case LAYER_TOKEN_MAX: return token_max(net, x, 1);
    case LAYER_SPLIT: return split(net, first_token(net, x), 4);
    case LAYER_UNIT: return unit_tokens(net, x);
    case LAYER_COSINES:
        return cosines(net, first_token(net, x), "layer.keys", what->variant == MASKED_KEYS ? "layer.mask" : NULL, KEYS);
    case LAYER_PICK:
        return stack(
            net, x,
            pick_tokens(net, cosines(net, first_token(net, x), "layer.keys", NULL, KEYS),
                        &(struct picking){
                            .name = "layer.groups", .groups = KEYS, .length = BESIDE, .channels = PATCH_WIDTH, .picks = PICKS}));
    default: return token_mean(net, x, 1);
    }
}

void layer_case_open(l3a_context *context, const struct layer_case *what, struct memory_tensors *tensors,
                     struct parameters *parameters, struct network *net) {
    fill_tensors(what, tensors);
    const struct parameter_source source = tensors_source(tensors, read_numbers);
    assert_ok(context, parameters_open(context, &source, parameters));
    network_start(context, parameters, what->side, net);
    const value x = what->kind == LAYER_SPACE_TO_DEPTH ? PICTURE : first_layer(net, what, "first");
    const value before = what->add && what->kind != LAYER_ATTENTION ? first_layer(net, what, "beside") : NOTHING;
    assert_ok(context, network_finish(net, describe_layer(net, what, x, before)));
}
