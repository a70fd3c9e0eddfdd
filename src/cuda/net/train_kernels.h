/* The kernels of training on a CUDA device: what kernels.h has not, forward, and all layers but the matrix products, backward. As
 * there, values are rows of pixels or tokens, kernels compute in float32, and `void` pointers have the type that is given; so have
 * the gradients of values. Parameters, their gradients and statistics are float32.
 *
 * Nothing is added atomically: a thread gathers what it makes, and sums over many rows are made in parts, in float64, which are
 * added in their order. So two runs give the same bytes. */
#ifndef L3A_CUDA_NET_TRAIN_KERNELS_H
#define L3A_CUDA_NET_TRAIN_KERNELS_H

#include "cuda/net/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sums over rows (train_sums.cu) ---- */

/* What is added up for each channel; two sums, of which the last has one. */
enum net_sum_kind {
    SUM_SQUARES, /* x and x² */
    SUM_BENT,    /* g and g · (x − mean of the channel), once g is that of before the activation, which takes its place */
    SUM_NORMED,  /* g and g · (x − mean of the row) · scale of the row */
    SUM_ALONE    /* g */
};

struct net_summed {
    size_t rows, channels;
    const void *in;     /* x; SUM_BENT: NULL if the second sum is not needed */
    void *gradient;     /* g */
    const void *out;    /* SUM_BENT: of the activation */
    const float *means; /* SUM_BENT: of channels; SUM_NORMED: mean and scale of each row */
    enum activation activation;
    float slope;
};

/* How many parts there are, and the bytes that they take. */
size_t net_sum_parts(size_t rows, size_t channels);
size_t net_sum_bytes(size_t rows, size_t channels);
cudaError_t net_sum(cudaStream_t stream, enum number_type type, enum net_sum_kind sum, const struct net_summed *what,
                    double *parts);
/* The sums of all parts, as gradients; either may be NULL. */
cudaError_t net_sum_end(cudaStream_t stream, size_t rows, size_t channels, const double *parts, float *first, float *second);
/* The sum of squares of all numbers. parts: room for TRAIN_SQUARE_PARTS, of which the first becomes the sum. */
enum { TRAIN_SQUARE_PARTS = 1024 };
cudaError_t net_square(cudaStream_t stream, size_t count, const float *numbers, double *parts);

/* ---- Norms and scales (train_norms.cu) ---- */

/* y = gain · (x − mean) · scale + bias for each channel, as in net/cpu/train_kernels_body.h. */
struct net_affine {
    size_t rows, channels;
    const float *factors, *bias; /* bias may be NULL */
    bool magnitude;
    float epsilon;
    float *mean, *scale; /* of each channel, from forward to backward */
    enum activation activation;
    float slope;
};

/* Mean and scale of the channels: from the sums of the batch, towards which the checkpoint's move; from the checkpoint's, if parts
 * is NULL; and 0 and 1, if those are NULL, too. */
cudaError_t net_affine_settle(cudaStream_t stream, const struct net_affine *affine, const double *parts, float *kept_mean,
                              float *kept_variance);
/* added may be NULL. */
cudaError_t net_affine_apply(cudaStream_t stream, enum number_type type, const struct net_affine *affine, const void *in,
                             const void *added, void *out);
/* The gradients of factors and bias, which may be NULL, from the sums of SUM_BENT; and of each channel Σ g / rows and
 * Σ g · n / rows, in `shares` [2][channels]. */
cudaError_t net_affine_gradients(cudaStream_t stream, const struct net_affine *affine, const double *parts, float *factors,
                                 float *bias, float *shares);
/* The gradient of the input; shares: NULL if mean and scale are not those of the batch. */
cudaError_t net_affine_spread(cudaStream_t stream, enum number_type type, const struct net_affine *affine, const float *shares,
                              const void *in, const void *gradient, void *to);
/* Layer norm: the gradient of the input, added to what is there if `adds` is set, or not made if `to` is NULL; and mean and scale
 * of each row. */
cudaError_t net_norm_rows(cudaStream_t stream, enum number_type type, size_t rows, size_t width, float epsilon,
                          const float *factors, const void *in, const void *gradient, bool adds, void *to, float *means);

/* ---- Numbers by themselves (train_numbers.cu) ---- */

/* to = gradient · slope of the activation, by its output for ReLUs, by its input for the others. */
cudaError_t net_bend(cudaStream_t stream, enum number_type type, enum activation activation, float slope, size_t count,
                     const void *in, const void *out, const void *gradient, void *to);
/* Adds planes of float32 to values. */
cudaError_t net_add_planes(cudaStream_t stream, enum number_type type, size_t count, struct shape shape, const float *planes,
                           void *to);
/* Factors [out][pixels · in, and room] become [out][in][pixels]. */
cudaError_t net_unpack_factors(cudaStream_t stream, size_t out, size_t in, size_t pixels, size_t room, const float *from,
                               float *to);
cudaError_t net_step(cudaStream_t stream, const struct step_numbers *numbers, size_t count, const float *gradient, float *values,
                     float *moment, float *square);

/* ---- Windows (train_windows.cu) ---- */

/* The gradient of net_unfold()'s input: what each number of it is in. */
cudaError_t net_fold(cudaStream_t stream, enum number_type type, size_t count, const struct windows *windows, size_t room,
                     const void *columns, void *to);
/* Of net_convolve(): the gradient of its input, and that of its factors, as [out][in / groups][pixels]. */
cudaError_t net_convolve_input(cudaStream_t stream, enum number_type type, size_t count, const struct windows *windows,
                               size_t groups, const void *factors, const void *gradient, void *to);
size_t net_convolve_bytes(size_t count, const struct windows *windows, size_t groups);
cudaError_t net_convolve_factors(cudaStream_t stream, enum number_type type, size_t count, const struct windows *windows,
                                 size_t groups, const void *from, const void *gradient, double *parts, float *to);
/* The gradients of net_pool()'s and net_blur()'s input. from, made: input and output of the largest; NULL for means. */
cudaError_t net_unpool(cudaStream_t stream, enum number_type type, size_t count, const struct windows *windows, const void *from,
                       const void *made, const void *gradient, void *to);
cudaError_t net_unblur(cudaStream_t stream, enum number_type type, size_t count, struct shape from, struct shape to,
                       const void *gradient, void *made);

/* ---- Tokens (train_tokens.cu) ---- */

/* Of each picture: the class token, if there is one, other learned ones up to `prefix`, and `own` from `from`; with positions. */
struct net_token_places {
    size_t count, prefix, own, width;
    const float *class_token, *others, *positions;
    size_t position_count;
};

cudaError_t net_put_tokens(cudaStream_t stream, enum number_type type, const struct net_token_places *tokens, const void *from,
                           void *to);
/* to [size] = Σ of `size` numbers of each picture, which are `step` apart. */
cudaError_t net_add_up(cudaStream_t stream, enum number_type type, size_t count, size_t size, size_t step, const void *from,
                       float *to);
/* to [count x rows x channels]: share · gradient [count x channels] in the rows from `first` to `last`, 0 in the others. */
cudaError_t net_spread(cudaStream_t stream, enum number_type type, size_t count, size_t rows, size_t first, size_t last,
                       size_t channels, float share, const void *gradient, void *to);
/* The gradient goes to the first row from `first` on that has the largest number, which is `made`. */
cudaError_t net_spread_largest(cudaStream_t stream, enum number_type type, size_t count, size_t rows, size_t first, size_t channels,
                               const void *from, const void *made, const void *gradient, void *to);

/* Rows of scores: those of `own` keys and, from `start` on, of `beside` others. What is between them and behind them means nothing,
 * and lets rows begin at multiples of 16 bytes. */
struct net_scores {
    size_t rows, own, start, beside, stride;
};

/* Attention: shares = softmax(scores) of each row. Then their gradients, which are in `scores`, become those of the scores, in
 * place of the shares: P ∘ (dP − Σ P ∘ dP). */
cudaError_t net_softmax(cudaStream_t stream, enum number_type type, const struct net_scores *shape, const float *scores,
                        void *shares);
cudaError_t net_unsoftmax(cudaStream_t stream, enum number_type type, const struct net_scores *shape, const float *scores,
                          void *shares);

/* ---- Squeeze and excite (train_tokens.cu) ---- */

/* What is kept of each picture on the way back, all float32: [count x channels] and [count x hidden]. */
struct net_excited {
    size_t count, channels, hidden;
    const float *first, *first_bias, *second, *second_bias;
    size_t pixels;
    const float *means;             /* of the input */
    float *gate_gradients;          /* given: Σ g · x of each channel; made: the gradients of what the sigmoid reads */
    float *gates;                   /* made */
    float *mean_gradients;          /* made: of the means, divided by the pixels */
    float *inner, *inner_gradients; /* made: after the ReLU, and the gradients before it */
};

/* to [count x channels] = Σ x · g over the rows of a picture */
cudaError_t net_products_of_rows(cudaStream_t stream, enum number_type type, size_t count, size_t rows, size_t channels,
                                 const void *from, const void *gradient, float *to);
cudaError_t net_excite_back(cudaStream_t stream, const struct net_excited *excite);
/* to = gradient · gates + means' gradients */
cudaError_t net_gate_back(cudaStream_t stream, enum number_type type, size_t count, size_t rows, size_t channels,
                          const float *gates, const float *means, const void *gradient, void *to);

#ifdef __cplusplus
}
#endif
#endif
