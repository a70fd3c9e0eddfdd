/* Numbers by themselves: slopes of activations, outputs' gradients, factors of convolutions, and the steps of optimisers. */
#include "cuda/net/parts.h"
#include "cuda/net/train_kernels.h"

namespace {

__device__ __forceinline__ float slope_at(enum activation activation, float below, float x, float y) {
    float s;
    switch (activation) {
    case RELU: return y > 0 ? 1.0F : 0.0F;
    case LEAKY_RELU: return y > 0 ? 1.0F : below;
    case GELU: return 0.5F * (1.0F + erff(x * 0.707106781F)) + x * 0.398942280F * expf(-0.5F * x * x);
    case QUICK_GELU: s = sigmoid(1.702F * x); return s + 1.702F * x * s * (1.0F - s);
    case TANH_GELU: /* (1 + tanh(z)) / 2 = sigmoid(2 z) */
        s = sigmoid(1.59576912F * (x + 0.044715F * x * x * x));
        return s + x * s * (1.0F - s) * 1.59576912F * (1.0F + 0.134145F * x * x);
    default: return 1.0F;
    }
}

template <class T, int V>
__global__ void bend(enum activation activation, float below, size_t count, const T *in, const T *out, const T *gradient, T *to) {
    const bool by_output = activation == RELU || activation == LEAKY_RELU;
    for (size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) * V; i < count; i += (size_t)gridDim.x * THREADS * V) {
        float numbers[V], more[V];
        load<T, V>((by_output ? out : in) + i, more);
        load<T, V>(gradient + i, numbers);
        for (int v = 0; v < V; v++) {
            numbers[v] *= slope_at(activation, below, more[v], more[v]);
        }
        store<T, V>(numbers, to + i);
    }
}

template <class T> __global__ void add_planes(unsigned channels, unsigned pixels, const float *planes, T *to) {
    const unsigned i = own_number();
    if (i < channels * pixels) {
        const size_t picture = (size_t)blockIdx.y * channels * pixels;
        T *number = to + picture + i;
        narrow(widen(*number) + planes[picture + (size_t)(i % channels) * pixels + i / channels], number);
    }
}

__global__ void unpack_factors(size_t in, size_t pixels, size_t room, const float *from, float *to) {
    const size_t out = blockIdx.y;
    for (size_t i = own_number(); i < in * pixels; i += (size_t)gridDim.x * THREADS) {
        to[out * in * pixels + i] = from[out * room + i % pixels * in + i / pixels];
    }
}

__global__ void step_sgd(struct step_numbers numbers, size_t count, const float *gradient, float *values, float *moment) {
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += (size_t)gridDim.x * THREADS) {
        const float m = numbers.momentum * moment[i] + gradient[i] * numbers.scale + numbers.decay * values[i];
        moment[i] = m;
        values[i] -= numbers.rate * m;
    }
}

__global__ void step_adam(struct step_numbers numbers, size_t count, const float *gradient, float *values, float *moment,
                          float *square) {
    const bool decoupled = numbers.optimiser == OPTIMISER_ADAMW;
    const float rate = numbers.rate * numbers.mean_share, keep = decoupled ? 1.0F - numbers.rate * numbers.decay : 1.0F;
    const float decay = decoupled ? 0.0F : numbers.decay;
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += (size_t)gridDim.x * THREADS) {
        const float g = gradient[i] * numbers.scale + decay * values[i];
        const float m = moment[i] + numbers.momentum_rest * (g - moment[i]);
        const float v = square[i] + numbers.square_rest * (g * g - square[i]);
        moment[i] = m;
        square[i] = v;
        values[i] = values[i] * keep - rate * m / (sqrtf(v) * numbers.square_share + numbers.epsilon);
    }
}

template <class T>
cudaError_t bend_all(cudaStream_t stream, enum activation activation, float slope, size_t count, const T *in, const T *out,
                     const T *gradient, T *to) {
    enum { V = wide<T>::COUNT };
    return divides<T>(count)
               ? LAUNCH((bend<T, V>), blocks_of(count / V), THREADS, 0, stream, activation, slope, count, in, out, gradient, to)
               : LAUNCH((bend<T, 1>), blocks_of(count), THREADS, 0, stream, activation, slope, count, in, out, gradient, to);
}

} // namespace

cudaError_t net_bend(cudaStream_t stream, enum number_type type, enum activation activation, float slope, size_t count,
                     const void *in, const void *out, const void *gradient, void *to) {
    OF_TYPE(type, bend_all<T>(stream, activation, slope, count, (const T *)in, (const T *)out, (const T *)gradient, (T *)to));
}

cudaError_t net_add_planes(cudaStream_t stream, enum number_type type, size_t count, struct shape shape, const float *planes,
                           void *to) {
    const unsigned pixels = (unsigned)(shape.height * shape.width);
    OF_TYPE(type, LAUNCH(add_planes<T>, grid_of(count, shape.channels * pixels), THREADS, 0, stream, (unsigned)shape.channels,
                         pixels, planes, (T *)to));
}

cudaError_t net_unpack_factors(cudaStream_t stream, size_t out, size_t in, size_t pixels, size_t room, const float *from,
                               float *to) {
    return LAUNCH(unpack_factors, grid_of(out, in * pixels), THREADS, 0, stream, in, pixels, room, from, to);
}

cudaError_t net_step(cudaStream_t stream, const struct step_numbers *numbers, size_t count, const float *gradient, float *values,
                     float *moment, float *square) {
    return numbers->optimiser == OPTIMISER_SGD
               ? LAUNCH(step_sgd, blocks_of(count), THREADS, 0, stream, *numbers, count, gradient, values, moment)
               : LAUNCH(step_adam, blocks_of(count), THREADS, 0, stream, *numbers, count, gradient, values, moment, square);
}
