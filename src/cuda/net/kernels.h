/* The kernels of networks on a CUDA device. Each function launches what it takes on a stream, and returns the error of that.
 *
 * Values are rows of pixels or tokens, one picture after another, with the channels of each side by side (NHWC). Their numbers have
 * one type; kernels compute in float32. Pictures are float32 planes. Of pointers, `void` ones have the type that is given. */
#ifndef L3A_CUDA_NET_KERNELS_H
#define L3A_CUDA_NET_KERNELS_H

#include "net/types.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What comes first and last */
cudaError_t net_convert(cudaStream_t stream, enum number_type type, size_t count, const float *from, void *to);
/* Factors [out][in][pixels] of a kernel become [out][pixels · channels, and zeros up to `room`], with zeros for the channels from
 * `in` on. */
cudaError_t net_pack_factors(cudaStream_t stream, enum number_type type, size_t out, size_t in, size_t pixels, size_t channels,
                             size_t room, const float *from, void *to);
/* Pictures become values with PADDED channels, of which those that a picture does not have are zero. */
enum { PADDED = 8 };
cudaError_t net_pad(cudaStream_t stream, enum number_type type, size_t count, struct shape from, const float *pictures, void *to);
/* Values become planes of float32. */
cudaError_t net_planes(cudaStream_t stream, enum number_type type, size_t count, struct shape shape, const void *from, float *to);
cudaError_t net_space_to_depth(cudaStream_t stream, enum number_type type, size_t count, struct shape from, size_t side,
                               const float *pictures, void *to);
/* The squares of pictures, as rows of numbers by channel, row and column. */
cudaError_t net_patches(cudaStream_t stream, enum number_type type, size_t count, struct shape from, size_t side,
                        const float *pictures, void *to);

/* The windows of a convolution. */
struct windows {
    struct shape from, to;
    size_t kernel, stride, padding;
};

/* Rows of what each window covers, by row, column and channel, and zeros up to `room`. The input is pictures if `planes` is set,
 * otherwise a value. */
cudaError_t net_unfold(cudaStream_t stream, enum number_type type, size_t count, const struct windows *windows, bool planes,
                       size_t room, const void *from, void *to);
/* A convolution by itself, for one with groups: factors [out][pixels][in / groups], in the values' type. */
cudaError_t net_convolve(cudaStream_t stream, enum number_type type, size_t count, const struct windows *windows, size_t groups,
                         const void *factors, const void *from, void *to);
cudaError_t net_pool(cudaStream_t stream, enum number_type type, size_t count, const struct windows *windows, bool largest,
                     const void *from, void *to);
/* (1 2 1)/4 in both directions, stride 2, mirrored at the edges. */
cudaError_t net_blur(cudaStream_t stream, enum number_type type, size_t count, struct shape from, struct shape to,
                     const void *values, void *made);

/* Numbers by themselves. `rows` are pixels or tokens of all pictures. */
/* to = activation(from + bias + added); bias and added may be NULL, and `to` may be any of the others. */
cudaError_t net_finish(cudaStream_t stream, enum number_type type, enum activation activation, float slope, size_t rows,
                       size_t channels, const void *bias, const void *added, const void *from, void *to);
cudaError_t net_scale(cudaStream_t stream, enum number_type type, size_t rows, size_t channels, const float *factors,
                      const float *bias, const void *from, void *to);
/* Row i of to, from `offset` on, is row i of from: `count` rows of `width` numbers, with steps between rows. */
cudaError_t net_copy_rows(cudaStream_t stream, enum number_type type, size_t count, size_t width, const void *from,
                          size_t from_step, void *to, size_t to_step);
/* The same values for each of `count` pictures. */
cudaError_t net_repeat(cudaStream_t stream, enum number_type type, size_t count, size_t size, const float *values, void *to);

/* Over rows */
/* The mean or the largest number of each channel over the rows from `first` on, of each picture. */
cudaError_t net_mean(cudaStream_t stream, enum number_type type, size_t count, size_t rows, size_t first, size_t channels,
                     const void *from, enum number_type made, void *to);
cudaError_t net_largest(cudaStream_t stream, enum number_type type, size_t count, size_t rows, size_t first, size_t channels,
                        const void *from, void *to);
/* gates [count x channels] = sigmoid(F₂ relu(F₁ means + b₁) + b₂), all float32 */
cudaError_t net_excite(cudaStream_t stream, size_t count, size_t channels, size_t hidden, const float *means, const float *first,
                       const float *first_bias, const float *second, const float *second_bias, float *gates);
/* values = values · gates, and then relu(… + added) unless added is NULL, in place */
cudaError_t net_gate(cudaStream_t stream, enum number_type type, size_t count, size_t rows, size_t channels, const float *gates,
                     const void *added, void *values);

/* Tokens */
/* Of each picture: front [front x width], then from [own x width] + positions [own x width]. */
cudaError_t net_tokens(cudaStream_t stream, enum number_type type, size_t count, size_t front, size_t own, size_t width,
                       const float *learned, const float *positions, const void *from, void *to);
cudaError_t net_norm(cudaStream_t stream, enum number_type type, size_t rows, size_t width, float epsilon, const float *factors,
                     const float *bias, const void *from, void *to);

/* softmax(Q Kᵀ / √width) V for each picture and head. Steps are those from one token to the next, in numbers. */
struct attention {
    size_t count, queries, heads, width; /* width of a head */
    const void *query;
    size_t query_tokens, query_step; /* tokens of a picture, of which the first `queries` ask */
    struct attended {
        const void *keys, *values;
        size_t tokens, step;
    } own, beside; /* tokens 0: none */
    void *to;
};

/* The widest head that net_attend() can work with. */
enum { ATTEND_WIDTH = 256 };
cudaError_t net_attend(cudaStream_t stream, enum number_type type, const struct attention *attention);

#ifdef __cplusplus
}
#endif
#endif
