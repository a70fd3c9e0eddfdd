/* A network as a list of layers. A family's file (vit.c, resnet.c, tresnet.c, convnext.c) describes its network once, with the
 * calls below, in the order in which data flows. A description is not fused: a batch norm, an activation, a sum and a scale are
 * layers of their own, and every parameter has the name that it has in the checkpoint. What runs is derived from it: fuse.c makes
 * the list for inference, and a back end that trains takes the description as it is.
 *
 * Each call returns the number of the value it makes, which later calls take as input; shapes follow from those of the inputs.
 * After a failure, later calls do nothing and network_finish() reports it, so a description needs no error handling.
 *
 * Names of tensors are relative to the current prefix, as in `network_prefix(net, "layer%zu.%zu.", stage, block)`.
 *
 * To add a family, write a file with a `struct family` and add a line to the table in backbone.c. */
#ifndef L3A_NETWORK_H
#define L3A_NETWORK_H

#include "net/parameters.h"
#include "net/positions.h"
#include "net/types.h"

enum net_layer_kind {
    LAYER_SPACE_TO_DEPTH,
    LAYER_CONVOLUTION,
    LAYER_MAX_POOL,
    LAYER_AVERAGE_POOL,
    LAYER_BLUR,
    LAYER_SQUEEZE_EXCITE,
    LAYER_GLOBAL_MEAN,
    LAYER_PATCHES,
    LAYER_LINEAR,
    LAYER_TOKENS,
    LAYER_NORM,
    LAYER_ATTENTION,
    LAYER_FIRST_TOKEN,
    LAYER_TOKEN_MEAN,
    LAYER_JOIN,
    LAYER_BATCH_NORM,
    LAYER_ACTIVATION,
    LAYER_ADD,
    LAYER_SCALE,
    LAYER_LEARNED,
    LAYER_TOKEN_MAX,
    LAYER_SLICE,
    LAYER_SPLIT,
    LAYER_UNIT,
    LAYER_COSINES,
    LAYER_PICK,
    LAYER_KINDS
};

/* The number of a value; NOTHING means none. */
typedef size_t value;
enum { NOTHING = 0, PICTURE = 1 };

/* Limits of a network, so that back ends can work with arrays of a fixed size: the tokens of attention, the channels of squeeze and
 * excite, the outputs, and the groups of tokens that a picture
 * picks from. */
enum { ATTENTION_TOKENS = 32768, EXCITE_CHANNELS = 4096, NETWORK_OUTPUTS = 8, PICK_GROUPS = 256 };

/* What inputs are multiplied by, and what is added. A convolution's factors are [out][in / groups][kernel][kernel], a linear
 * layer's [out][in], a norm's and a scale's [channels]. Squeeze and excite has a second linear map. A batch norm has the mean and
 * the variance that training has found. LAYER_TOKENS has the class token as factors, other learned tokens as second factors, and
 * the positions as bias. LAYER_LEARNED has its value as factors, LAYER_COSINES keys and, as second factors, what the input is
 * multiplied by, and LAYER_PICK groups of tokens. */
enum parameter_kind { FACTORS, BIAS, SECOND_FACTORS, SECOND_BIAS, MEAN, VARIANCE, PARAMETER_KINDS };

enum { PARAMETER_RANK = 4 };

struct parameter {
    char *name;    /* in the checkpoint; NULL: fuse.c has made it */
    float *values; /* NULL: the layer has no parameter of this kind */
    size_t count, rank;
    uint64_t shape[PARAMETER_RANK];
};

struct net_layer {
    enum net_layer_kind kind;
    value input;
    value second; /* what is added, joined on the right, or attended to besides; NOTHING: none */
    value output;
    struct shape from, to;
    size_t kernel, stride, padding, groups, heads;
    size_t prefix; /* tokens in front of those of the picture, or of those that LAYER_SLICE takes */
    size_t picks;  /* groups of tokens that are picked */
    bool shared;   /* what is attended to besides is both keys and values */
    bool together; /* in training, by all pictures of a batch */
    enum activation activation;
    float slope;    /* of LEAKY_RELU */
    double epsilon; /* of a norm */
    size_t hidden;  /* width between the two linear maps of squeeze and excite */
    bool magnitude; /* a batch norm's scale is |weight| + epsilon, as in the in-place activated one of TResNet's first release */
    struct parameter parameters[PARAMETER_KINDS]; /* owned */
};

/* A value that a network gives. The first one is the features. */
struct network_output {
    const char *name;
    value value;
};

struct network {
    l3a_context *context;
    struct parameters *parameters;
    l3a_status status;
    char prefix[96];
    struct net_layer *layers;
    size_t layer_count, layer_capacity;
    struct shape *shapes; /* of each value */
    size_t value_count, value_capacity;
    struct network_output outputs[NETWORK_OUTPUTS];
    size_t output_count;
    uint64_t parameter_count; /* those that training changes */
};

/* A matrix product. */
static inline bool is_product(const struct net_layer *layer) {
    return layer->kind == LAYER_CONVOLUTION || layer->kind == LAYER_LINEAR;
}

/* The largest number whose square is not larger. */
size_t root_of(size_t number);

void network_start(l3a_context *context, struct parameters *parameters, size_t side, struct network *net);
__attribute__((format(printf, 2, 3))) void network_prefix(struct network *net, const char *format, ...);
/* Whether the checkpoint has a tensor of that name. */
bool network_has(const struct network *net, const char *name);
/* Another output besides the features. */
void network_output(struct network *net, const char *name, value output);
/* The value that was described as this output; NOTHING if there is none, which is no failure. */
value network_find_output(const struct network *net, const char *name);
/* features: the value that is the network's result, [channels]. */
l3a_status network_finish(struct network *net, value features);
void network_free(struct network *net);
/* "stage1" and so on: what the families with stages call their outputs. */
void network_stage(struct network *net, size_t stage, value output);
/* The multiplications and additions of its products for one picture; and those of one layer. */
double network_flops(const struct network *net);
double network_layer_flops(const struct network *net, const struct net_layer *layer);
/* How many keys each query of an attention has: those of its input, if that has any, and those beside. */
size_t attention_keys(const struct network *net, const struct net_layer *layer);
/* Puts a layer at the end of the list, and returns the value it makes. Takes over its parameters, also after a failure. */
value network_add_layer(struct network *net, const struct net_layer *layer);
void parameter_release(l3a_context *context, struct parameter *parameter);

/* A square kernel, with a padding of half its size on each side, so that stride 1 keeps the size. */
struct conv {
    const char *name; /* tensor `name`.weight; with `biased`, also `name`.bias */
    const char *norm; /* the batch norm that follows, or NULL */
    size_t out, kernel, stride;
    size_t groups;              /* 0 means 1 */
    enum activation activation; /* of the sum */
    float slope;
    double epsilon; /* of the batch norm; 0: 1e-5 */
    value add;      /* added before the activation */
    bool biased;
    bool magnitude; /* the batch norm's scale is |weight| + epsilon */
    bool unpadded;
};

value conv(struct network *net, value input, const struct conv *what);
/* For each channel, w (x − mean) / √(variance + ε) + b with the mean and the variance that training has found, or, while training,
 * those of the batch. epsilon: 0 is 1e-5. magnitude: |weight| + epsilon is w. */
value batch_norm(struct network *net, value input, const char *name, double epsilon, bool magnitude);
value nonlinear(struct network *net, value input, enum activation activation, float slope);

struct linear {
    const char *name; /* tensors `name`.weight and, unless `unbiased`, `name`.bias */
    size_t out;
    enum activation activation;
    const char *scale; /* the tensor of factors that follow, one per channel, or NULL */
    value add;         /* added to the scaled result, before the activation */
    bool unbiased;
};

/* Maps the channels of each pixel or token. */
value linear(struct network *net, value input, const struct linear *what);

/* Squares of side x side pixels become channels: c' = (dy · side + dx) · channels + c. */
value space_to_depth(struct network *net, value input, size_t side);
/* 3 x 3 windows, stride 2, padded by 1. */
value max_pool(struct network *net, value input);
/* 2 x 2 windows, stride 2; at an odd edge, the mean of the pixels that exist. */
value average_pool(struct network *net, value input);
/* (1 2 1)/4 in both directions, stride 2, mirrored at the edges. */
value blur_pool(struct network *net, value input);
/* input · sigmoid(W₂ relu(W₁ mean(input) + b₁) + b₂), followed by `+ add` and ReLU if add is given. */
value squeeze_excite(struct network *net, value input, const char *first, const char *second, size_t hidden, value add);
value global_mean(struct network *net, value input);

/* Cuts the picture into squares, one per row, and applies a linear layer. */
value patch_embedding(struct network *net, value input, const char *name, size_t patch, size_t out, bool unbiased);

/* Puts learned tokens in front of those of the picture, and adds learned positions: to all tokens, to all but the registers, or to
 * those of the picture alone, as many as there are. Those of a picture of another size are resized. */
struct tokens {
    const char *class_token; /* [1, 1, channels]; NULL: none */
    const char *registers;   /* [1, register_count, channels]; NULL: none */
    size_t register_count;
    const char *positions; /* [1, position_count, channels] */
    size_t position_count;
    size_t across; /* the picture's positions in the file are across x across */
    enum positions_method method;
};

value add_tokens(struct network *net, value input, const struct tokens *what);
/* Over the channels of each pixel or token. */
value layer_norm(struct network *net, value input, const char *name, double epsilon);
/* input holds queries, keys and values side by side. second: keys and values that all queries attend to besides, or NOTHING. If the
 * input has queries alone, those of `second` are the only ones; if that is as wide as the queries, its rows are both. */
value attention(struct network *net, value input, value second, size_t heads);
/* A learned value, the same for each picture: a tensor [1, tokens, channels]. */
value learned(struct network *net, const char *name, size_t tokens, size_t channels);
value first_token(struct network *net, value input);
/* The mean of all tokens except the first `prefix`. */
value token_mean(struct network *net, value input, size_t prefix);
/* The largest value of each channel over all tokens except the first `prefix`: y[c] = max over t ≥ prefix of x[t][c]. Its gradient
 * goes to the first token that has that value. */
value token_max(struct network *net, value input, size_t prefix);
value join(struct network *net, value left, value right);
/* The tokens of one value and, behind them, those of another with as many channels. */
value stack(struct network *net, value upper, value lower);
/* height x width pixels or tokens of a value, from number `first` on, counted row by row: some of the tokens, the tokens of a
 * picture as a map, or the pixels of a map as tokens. */
value slice(struct network *net, value input, size_t first, size_t height, size_t width);
value sum(struct network *net, value left, value right);
/* One token as `count` tokens: the channels of each stand after those of the one before. */
value split(struct network *net, value input, size_t count);
/* Each token at length 1: x / max(|x|, 1e-12). */
value unit_tokens(struct network *net, value input);
/* Of one token, the cosines with `count` learned keys: y[k] = cos(mask[k] ∘ x, keys[k]), both tensors [count, channels]. mask NULL:
 * cos(x, keys[k]). */
value cosines(struct network *net, value input, const char *keys, const char *mask, size_t count);

/* Of the groups of a tensor [groups, length, channels], those with the highest scores, highest first, of each picture. `together`:
 * in training, those that are among the highest of the most pictures of the batch. Of equal ones the first is taken. The gradient
 * goes to the groups that were picked, not to the scores, since a choice has none. */
struct picking {
    const char *name;
    size_t groups, length, channels, picks;
    bool together;
};

value pick_tokens(struct network *net, value scores, const struct picking *what);

/* What the tensors of a checkpoint do not show of a network, and how its pictures are prepared. A field that is 0 is not known yet:
 * the options come first, then a configuration beside the file, then the family. */
struct backbone_recipe {
    char name[64];
    size_t side; /* of the pictures */
    l3a_pool pool;
    size_t heads, usual_heads; /* the latter: those that a network of these tensors usually has */
    l3a_network_precision precision;
    size_t layer;               /* how many blocks are computed; 0: all */
    enum activation activation; /* of the blocks */
    double epsilon;             /* of layer norms and batch norms */
    bool stride_first;          /* resnet: a bottleneck has its stride in the first 1 x 1 convolution, not in the 3 x 3 */
    bool offset;                /* positions were trained for other sizes with DINOv2's interpolation */
    float mean[3], deviation[3];
    l3a_filter filter;
    double crop;    /* the share of the shorter side that is kept, from the centre; 0: the whole picture, squashed */
    int crop_rules; /* a sum of l3a_crop_rule */
};

/* Sets mean and deviation, unless they are known. */
void recipe_set_mean(struct backbone_recipe *recipe, const float mean[3], const float deviation[3]);
/* Those of ImageNet. */
void recipe_set_imagenet(struct backbone_recipe *recipe);

/* A family of networks. */
struct family {
    const char *name;
    double usual_epsilon;
    unsigned pools; /* those that the options can choose: 1 << L3A_POOL_CLS, …; 0: none but the default, and no heads and blocks */
    bool gelu;      /* which GELU it has is a part of the recipe */
    bool (*matches)(const struct parameters *parameters);
    /* Sets what is not known yet of the recipe, as far as the tensors or the family show it: name and side always; mean and
     * deviation unless they are ambiguous. Shapes that the family cannot have are an error, and so are heads that cannot be known.
     */
    l3a_status (*recognise)(struct parameters *parameters, struct backbone_recipe *recipe);
    value (*describe)(struct network *net, const struct backbone_recipe *recipe);
};

/* What training adds to a network of a family. */
struct network_changes {
    void *owner;
    /* Describes the network in place of the family: mostly what the family describes, and layers behind it. Returns its features.
     */
    value (*describe)(void *owner, struct network *net, const struct family *family, const struct backbone_recipe *recipe);
    /* Fills in a tensor that the checkpoint does not have. */
    l3a_status (*make)(void *owner, const char *name, size_t rank, const uint64_t *shape, float *values);
};

extern const struct family vit_family, resnet_family, tresnet_family, convnext_family;

#endif
