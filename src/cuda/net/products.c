/* Matrix products: output [rows x out] = activation(input [rows x room] · factorsᵀ + bias + what is added), by cuBLASLt.
 *
 * cuBLASLt thinks in columns: the output is its out x rows matrix, the product of the transposed factors, which are its room x out
 * matrix, and of the input, its room x rows matrix. Bias, ReLU and, for numbers of 16 bits, GELU are computed with the product; the
 * others by a kernel after it. cuBLASLt computes GELU by the hyperbolic tangent, which differs from the exact one by at most
 * 0.0005. */
#include "cuda/net/net.h"

#include <string.h>

#define TRY_LT(device, call) TRY_BLAS(device, call)

static cudaDataType_t data_type(enum number_type type) {
    return type == NUMBER_FLOAT32 ? CUDA_R_32F : type == NUMBER_FLOAT16 ? CUDA_R_16F : CUDA_R_16BF;
}

static bool comes_with_product(enum number_type type, enum activation activation) {
    return activation == LINEAR_ACTIVATION || activation == RELU ||
           (type != NUMBER_FLOAT32 && (activation == GELU || activation == TANH_GELU));
}

static cublasLtEpilogue_t epilogue_of(enum activation activation, bool biased) {
    return activation == RELU                ? (biased ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU)
           : activation == LINEAR_ACTIVATION ? (biased ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT)
                                             : (biased ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU);
}

/* What is computed. */
static l3a_status describe(struct device *device, enum number_type type, enum activation activation, const void *bias,
                           cublasLtMatmulDesc_t *what) {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const cublasLtEpilogue_t epilogue = epilogue_of(activation, bias != NULL);
    const cudaDataType_t bias_type = data_type(type);
    l3a_status status = L3A_OK;
    TRY_LT(device, cublasLtMatmulDescCreate(what, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    TRY_LT(device, cublasLtMatmulDescSetAttribute(*what, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    TRY_LT(device, cublasLtMatmulDescSetAttribute(*what, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    if (bias) {
        TRY_LT(device, cublasLtMatmulDescSetAttribute(*what, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type, sizeof bias_type));
        TRY_LT(device, cublasLtMatmulDescSetAttribute(*what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    }
done:
    return status;
}

/* The first algorithm that cuBLASLt proposes. */
static l3a_status choose(struct device *device, struct multiplication *product) {
    const uint64_t room = PRODUCT_BYTES;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    l3a_status status = L3A_OK;
    TRY_LT(device, cublasLtMatmulPreferenceCreate(&preference));
    TRY_LT(device, cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room));
    TRY_LT(device, cublasLtMatmulAlgoGetHeuristic((cublasLtHandle_t)device->blas, product->what, product->factors, product->input,
                                                  product->output, product->output, preference, 1, &found, &count));
    TRY_LT(device, count ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED);
    product->algorithm = found.algo;
done:
    if (preference) {
        cublasLtMatmulPreferenceDestroy(preference);
    }
    return status;
}

l3a_status multiplication_open(const struct cuda_network *net, size_t layer, size_t rows, struct multiplication *product) {
    struct device *device = device_of(net->context);
    const struct net_layer *what = &net->network.layers[layer];
    const uint64_t out = what->to.channels, room = layer_room(what);
    const cudaDataType_t type = data_type(net->type);
    const bool together = comes_with_product(net->type, what->activation);
    l3a_status status = L3A_OK;
    product->activation = together ? LINEAR_ACTIVATION : what->activation;
    TRY(describe(device, net->type, together ? what->activation : LINEAR_ACTIVATION, net->parameters[layer].bias, &product->what));
    TRY_LT(device, cublasLtMatrixLayoutCreate(&product->factors, type, room, out, (int64_t)room));
    TRY_LT(device, cublasLtMatrixLayoutCreate(&product->input, type, room, rows, (int64_t)room));
    TRY_LT(device, cublasLtMatrixLayoutCreate(&product->output, type, out, rows, (int64_t)out));
    TRY(choose(device, product));
done:
    return status;
}

void multiplication_close(struct multiplication *product) {
    cublasLtMatrixLayout_t layouts[] = {product->factors, product->input, product->output};
    for (size_t i = 0; i < 3; i++) {
        if (layouts[i]) {
            cublasLtMatrixLayoutDestroy(layouts[i]);
        }
    }
    if (product->what) {
        cublasLtMatmulDescDestroy(product->what);
    }
    *product = (struct multiplication){0};
}

static l3a_status multiply(const struct cuda_network *net, const struct multiplication *product, size_t layer, size_t rows,
                           const void *from, void *to) {
    struct device *device = device_of(net->context);
    const struct net_layer *what = &net->network.layers[layer];
    const float one = 1, keep = what->second ? 1 : 0;
    l3a_status status = L3A_OK;
    TRY_LT(device, cublasLtMatmul((cublasLtHandle_t)device->blas, product->what, &one, net->parameters[layer].factors,
                                  product->factors, from, product->input, &keep, to, product->output, to, product->output,
                                  &product->algorithm, net->work, PRODUCT_BYTES, device->stream));
    if (product->activation) {
        TRY_CUDA(device, net_finish(device->stream, net->type, product->activation, what->slope, rows, what->to.channels, NULL,
                                    NULL, to, to));
    }
done:
    return status;
}

/* A few pictures at a time, so that what is unfolded has room. */
static l3a_status multiply_unfolded(const struct cuda_network *net, const struct net_program *program, size_t layer,
                                    const void *from, void *to) {
    struct device *device = device_of(net->context);
    const struct net_layer *what = &net->network.layers[layer];
    const struct windows windows = {what->from, what->to, what->kernel, what->stride, what->padding};
    const bool planes = what->input == PICTURE;
    const size_t slice = program->slices[layer], pixels = what->to.height * what->to.width, bytes = number_bytes(net->type);
    const size_t step = shape_numbers(what->from) * (planes ? sizeof(float) : bytes);
    void *unfolded = program->arena + program->scratch;
    l3a_status status = L3A_OK;
    for (size_t first = 0; first < program->batch; first += slice) {
        TRY_CUDA(device, net_unfold(device->stream, net->type, slice, &windows, planes, layer_room(what),
                                    (const char *)from + first * step, unfolded));
        TRY(multiply(net, &program->products[layer], layer, slice * pixels, unfolded,
                     (char *)to + first * pixels * what->to.channels * bytes));
    }
done:
    return status;
}

static l3a_status convolve(const struct cuda_network *net, const struct net_program *program, size_t layer, const void *from,
                           void *to) {
    struct device *device = device_of(net->context);
    const struct net_layer *what = &net->network.layers[layer];
    const struct windows windows = {what->from, what->to, what->kernel, what->stride, what->padding};
    void *made = what->second ? program->arena + program->scratch : to;
    l3a_status status = L3A_OK;
    TRY_CUDA(device, net_convolve(device->stream, net->type, program->batch, &windows, what->groups, net->parameters[layer].factors,
                                  from, made));
    TRY_CUDA(device,
             net_finish(device->stream, net->type, what->activation, what->slope, program->batch * what->to.height * what->to.width,
                        what->to.channels, net->parameters[layer].bias, what->second ? to : NULL, made, to));
done:
    return status;
}

/* Products that are as they are already, and that cuBLASLt finishes, are left to it. */
static bool suits_cudnn(const struct cuda_network *net, const struct net_layer *layer) {
    const enum lowering lowering = layer_lowering(layer);
    const bool simple = layer->activation == LINEAR_ACTIVATION || layer->activation == RELU || layer->activation == LEAKY_RELU;
    if (layer->kind != LAYER_CONVOLUTION || !simple) {
        return false;
    }
    if (layer->input == PICTURE) {
        return layer->groups == 1 && layer->from.channels <= PADDED;
    }
    return layer_room(layer) == layer->from.channels / layer->groups * layer->kernel * layer->kernel &&
           !(lowering == AS_IT_IS && comes_with_product(net->type, layer->activation));
}

l3a_status product_find(struct cuda_network *net, size_t index, size_t batch, const struct convolution **found) {
    const struct net_layer *layer = &net->network.layers[index];
    struct convolution_shape shape;
    *found = NULL;
    if (!suits_cudnn(net, layer)) {
        return L3A_OK;
    }
    memset(&shape, 0, sizeof shape);
    shape.windows = (struct windows){layer->from, layer->to, layer->kernel, layer->stride, layer->padding};
    shape.windows.from.channels = layer->input == PICTURE ? PADDED : layer->from.channels;
    shape.batch = batch;
    shape.groups = layer->groups;
    shape.type = net->type;
    shape.activation = layer->activation;
    shape.slope = layer->slope;
    shape.biased = net->parameters[index].bias != NULL;
    shape.added = layer->second != NOTHING;
    return convolution_find(device_of(net->context), &net->convolutions, &shape, found);
}

static l3a_status convolve_by_cudnn(const struct cuda_network *net, const struct net_program *program, size_t layer,
                                    const void *from, void *to) {
    struct device *device = device_of(net->context);
    const struct net_layer *what = &net->network.layers[layer];
    const struct net_parameters *own = &net->parameters[layer];
    void *padded = program->arena + program->scratch;
    l3a_status status = L3A_OK;
    if (what->input == PICTURE) {
        TRY_CUDA(device, net_pad(device->stream, net->type, program->batch, what->from, from, padded));
        return convolution_run(device, &net->convolutions, program->convolutions[layer], padded, own->padded, own->bias, to,
                               net->work);
    }
    TRY(convolution_run(device, &net->convolutions, program->convolutions[layer], from, own->factors, own->bias, to, net->work));
done:
    return status;
}

l3a_status product_run(const struct cuda_network *net, const struct net_program *program, size_t layer, const void *from,
                       void *to) {
    const struct net_layer *what = &net->network.layers[layer];
    if (program->convolutions[layer]) {
        return convolve_by_cudnn(net, program, layer, from, to);
    }
    switch (layer_lowering(what)) {
    case UNFOLDED: return multiply_unfolded(net, program, layer, from, to);
    case BY_ITSELF: return convolve(net, program, layer, from, to);
    default: return multiply(net, &program->products[layer], layer, program->batch * what->to.height * what->to.width, from, to);
    }
}
