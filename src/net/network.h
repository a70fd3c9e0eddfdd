/* A network as a list of layers. A family's file (vit.c, resnet.c, tresnet.c) describes its network with the calls below, in the
 * order in which data flows; a back end (back_end.h) runs the list.
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

enum activation { LINEAR_ACTIVATION, RELU, LEAKY_RELU, GELU };

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
    LAYER_JOIN
};

/* The number of a value; NOTHING means none. */
typedef size_t value;
enum { NOTHING = 0, PICTURE = 1 };

/* channels x height x width of one picture. For tokens, height is their number and width is 1. */
struct shape {
    size_t channels, height, width;
};

/* Limits of a network, so that back ends can work with arrays of a fixed size: the tokens of attention, and the channels of squeeze
 * and excite. */
enum { ATTENTION_TOKENS = 32768, EXCITE_CHANNELS = 4096 };

/* What inputs are multiplied by, and what is added. A convolution's factors are [out][in / groups][kernel][kernel], a linear
 * layer's [out][in], a norm's [channels]. Only squeeze and excite has a second linear map. LAYER_TOKENS has the learned token as
 * factors and the positions as bias. */
enum parameter_kind { FACTORS, BIAS, SECOND_FACTORS, SECOND_BIAS, PARAMETER_KINDS };

struct net_layer {
    enum net_layer_kind kind;
    value input, add, output;
    struct shape from, to;
    size_t kernel, stride, padding, groups, heads;
    enum activation activation;
    float slope; /* of LEAKY_RELU */
    float epsilon;
    size_t hidden;                      /* width between the two linear maps of squeeze and excite */
    float *parameters[PARAMETER_KINDS]; /* owned; NULL if the layer has none of that kind */
    size_t sizes[PARAMETER_KINDS];      /* how many numbers each has */
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
    value output;
    uint64_t parameter_count;
    double flops; /* multiplications and additions per picture */
};

void network_start(l3a_context *context, struct parameters *parameters, size_t side, struct network *net);
__attribute__((format(printf, 2, 3))) void network_prefix(struct network *net, const char *format, ...);
/* output: the value that is the network's result, [channels]. */
l3a_status network_finish(struct network *net, value output);
void network_free(struct network *net);

/* A square kernel, with a padding of half its size on each side, so that stride 1 keeps the size. */
struct conv {
    const char *name; /* tensor `name`.weight; with `biased`, also `name`.bias */
    const char *norm; /* batch norm, or NULL */
    size_t out, kernel, stride;
    size_t groups; /* 0 means 1 */
    enum activation activation;
    float slope;
    value add; /* added before the activation; must not be used afterwards */
    bool biased;
    bool magnitude; /* the batch norm's scale is |weight| + epsilon */
};

value conv(struct network *net, value input, const struct conv *what);

struct linear {
    const char *name; /* tensors `name`.weight and `name`.bias */
    size_t out;
    enum activation activation;
    value add; /* as in struct conv */
};

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
value patch_embedding(struct network *net, value input, const char *name, size_t patch, size_t out);
/* Puts a learned token in front, and adds learned positions to all tokens. */
value add_tokens(struct network *net, value input, const char *token, const char *position);
value layer_norm(struct network *net, value input, const char *name, float epsilon);
/* input holds queries, keys and values side by side. first_only: only the first token has a query. */
value attention(struct network *net, value input, size_t heads, bool first_only);
value first_token(struct network *net, value input);
/* The mean of all tokens except the first. */
value token_mean(struct network *net, value input);
value join(struct network *net, value left, value right);

/* A family of networks. */
struct backbone_recipe {
    size_t side; /* of the pictures */
    l3a_pool pool;
    char name[64];
};

struct family {
    const char *name;
    float mean[3], deviation[3];
    bool pools; /* the options can choose its pool */
    bool (*matches)(const struct parameters *parameters);
    /* Sets the recipe's name, and its side if that is 0. Shapes that the family cannot have are an error. */
    l3a_status (*recognise)(struct parameters *parameters, struct backbone_recipe *recipe);
    value (*describe)(struct network *net, const struct backbone_recipe *recipe);
};

extern const struct family vit_family, resnet_family, tresnet_family;

#endif
