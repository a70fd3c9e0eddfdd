/* Convolutions by cuDNN: output = activation(input ∗ factors + bias + what is added), as one graph of operations, for which cuDNN
 * has engines that make it in one pass.
 *
 * They are used for 16 bits alone: with float32, cuDNN would multiply rounded numbers. What cuDNN cannot compute, or where it is
 * missing, is unfolded (products.c). Layers of the same shapes share a plan, since making one takes a moment. */
#include "cuda/net/convolutions.h"

#include <string.h>

enum { TENSOR_RANK = 4, PLANE_RANK = 2, DESCRIPTORS = 24, ALIGNMENT_BYTES = 16, CANDIDATES = 8, WHY = 256 };

/* The numbers of tensors in a graph. */
enum { INPUT = 1, FACTORS_GIVEN, BIAS_GIVEN, ADDED, CONVOLVED, BIASED, SUMMED, OUTPUT };

struct convolution {
    struct convolution_shape shape;
    size_t users;
    cudnnBackendDescriptor_t descriptors[DESCRIPTORS]; /* all that the plan is made of; the plan, if there is one, is the last */
    size_t count;
    cudnnBackendDescriptor_t plan;
    bool failed; /* making it */
};

/* Making a graph: after a failure nothing more is done. */
struct making {
    const struct cudnn_functions *cudnn;
    struct convolution *made;
};

static cudnnBackendDescriptor_t begin(struct making *making, cudnnBackendDescriptorType_t type) {
    struct convolution *made = making->made;
    cudnnBackendDescriptor_t descriptor = NULL;
    made->failed = made->failed || made->count == DESCRIPTORS || making->cudnn->make(type, &descriptor) != CUDNN_STATUS_SUCCESS;
    if (!made->failed) {
        made->descriptors[made->count++] = descriptor;
    }
    return made->failed ? NULL : descriptor;
}

static void set(struct making *making, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, size_t count, const void *values) {
    struct convolution *made = making->made;
    made->failed = made->failed || making->cudnn->set(descriptor, name, type, (int64_t)count, values) != CUDNN_STATUS_SUCCESS;
}

static void end(struct making *making, cudnnBackendDescriptor_t descriptor) {
    struct convolution *made = making->made;
    made->failed = made->failed || making->cudnn->finish(descriptor) != CUDNN_STATUS_SUCCESS;
}

static void set_descriptor(struct making *making, cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t from) {
    set(making, to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &from);
}

/* A tensor [n][channels][height][width] whose channels are side by side. inner: it is made and read within the graph, in float32.
 */
static cudnnBackendDescriptor_t tensor(struct making *making, int64_t number, size_t n, struct shape shape, bool inner) {
    const int64_t channels = (int64_t)shape.channels, height = (int64_t)shape.height, width = (int64_t)shape.width;
    const int64_t sizes[TENSOR_RANK] = {(int64_t)n, channels, height, width};
    const int64_t steps[TENSOR_RANK] = {channels * height * width, 1, width * channels, channels}, alignment = ALIGNMENT_BYTES;
    const cudnnDataType_t type = inner                                        ? CUDNN_DATA_FLOAT
                                 : making->made->shape.type == NUMBER_FLOAT16 ? CUDNN_DATA_HALF
                                                                              : CUDNN_DATA_BFLOAT16;
    cudnnBackendDescriptor_t made = begin(making, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(making, made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number);
    set(making, made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(making, made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, TENSOR_RANK, sizes);
    set(making, made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, TENSOR_RANK, steps);
    set(making, made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (inner) {
        set(making, made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &inner);
    }
    end(making, made);
    return made;
}

static cudnnBackendDescriptor_t convolve(struct making *making, cudnnBackendDescriptor_t to) {
    const struct convolution_shape *shape = &making->made->shape;
    const struct windows *windows = &shape->windows;
    const int64_t rank = PLANE_RANK, ones[PLANE_RANK] = {1, 1}, step = (int64_t)windows->stride, edge = (int64_t)windows->padding;
    const int64_t steps[PLANE_RANK] = {step, step}, edges[PLANE_RANK] = {edge, edge};
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const struct shape factors = {windows->from.channels / shape->groups, windows->kernel, windows->kernel};
    const float one = 1, zero = 0;
    cudnnBackendDescriptor_t from = tensor(making, INPUT, shape->batch, windows->from, false);
    cudnnBackendDescriptor_t with = tensor(making, FACTORS_GIVEN, windows->to.channels, factors, false);
    cudnnBackendDescriptor_t what = begin(making, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(making, what, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(making, what, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(making, what, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &rank);
    set(making, what, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, PLANE_RANK, ones);
    set(making, what, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, PLANE_RANK, steps);
    set(making, what, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, PLANE_RANK, edges);
    set(making, what, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, PLANE_RANK, edges);
    end(making, what);
    cudnnBackendDescriptor_t operation = begin(making, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    set_descriptor(making, operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, what);
    set_descriptor(making, operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, from);
    set_descriptor(making, operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, with);
    set_descriptor(making, operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, to);
    set(making, operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one);
    set(making, operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero);
    end(making, operation);
    return operation;
}

/* to = from + more, or, if `more` is NULL, the activation of from. */
static cudnnBackendDescriptor_t pointwise(struct making *making, cudnnBackendDescriptor_t from, cudnnBackendDescriptor_t more,
                                          cudnnBackendDescriptor_t to) {
    const cudnnPointwiseMode_t mode = more ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_RELU_FWD;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const double slope = (double)making->made->shape.slope;
    cudnnBackendDescriptor_t what = begin(making, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(making, what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(making, what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (!more && making->made->shape.activation == LEAKY_RELU) {
        set(making, what, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, 1, &slope);
    }
    end(making, what);
    cudnnBackendDescriptor_t operation = begin(making, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(making, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
    set_descriptor(making, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from);
    if (more) {
        set_descriptor(making, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, more);
    }
    set_descriptor(making, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
    end(making, operation);
    return operation;
}

/* The operations of a convolution, one after the other; the last one makes the output. */
static cudnnBackendDescriptor_t graph(struct making *making, cudnnHandle_t handle) {
    const struct convolution_shape *shape = &making->made->shape;
    const struct shape made = shape->windows.to, each = {made.channels, 1, 1};
    const bool active = shape->activation != LINEAR_ACTIVATION;
    cudnnBackendDescriptor_t operations[4], at;
    size_t count = 0;
    at = tensor(making, shape->biased || shape->added || active ? CONVOLVED : OUTPUT, shape->batch, made,
                shape->biased || shape->added || active);
    operations[count++] = convolve(making, at);
    if (shape->biased) {
        const bool inner = shape->added || active;
        cudnnBackendDescriptor_t to = tensor(making, inner ? BIASED : OUTPUT, shape->batch, made, inner);
        operations[count++] = pointwise(making, at, tensor(making, BIAS_GIVEN, 1, each, false), to);
        at = to;
    }
    if (shape->added) {
        cudnnBackendDescriptor_t to = tensor(making, active ? SUMMED : OUTPUT, shape->batch, made, active);
        operations[count++] = pointwise(making, at, tensor(making, ADDED, shape->batch, made, false), to);
        at = to;
    }
    if (active) {
        operations[count++] = pointwise(making, at, NULL, tensor(making, OUTPUT, shape->batch, made, false));
    }
    cudnnBackendDescriptor_t all = begin(making, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(making, all, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, operations);
    set(making, all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    end(making, all);
    return all;
}

/* A plan of that engine; NULL if it cannot be made, or takes more room than there is. */
static cudnnBackendDescriptor_t plan_of(const struct making *making, cudnnHandle_t handle, cudnnBackendDescriptor_t engine) {
    const struct cudnn_functions *cudnn = making->cudnn;
    cudnnBackendDescriptor_t plan = NULL;
    int64_t room = 0, count = 0;
    bool good = cudnn->make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) == CUDNN_STATUS_SUCCESS;
    good = good && cudnn->set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle) == CUDNN_STATUS_SUCCESS;
    good = good && cudnn->set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine) ==
                       CUDNN_STATUS_SUCCESS;
    good = good && cudnn->finish(plan) == CUDNN_STATUS_SUCCESS;
    good = good &&
           cudnn->get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &room) == CUDNN_STATUS_SUCCESS;
    if (plan && !(good && room <= PRODUCT_BYTES)) {
        cudnn->drop(plan);
        plan = NULL;
    }
    return plan;
}

/* The first engine that cuDNN proposes, and that can be used. */
static void choose(struct making *making, cudnnHandle_t handle, cudnnBackendDescriptor_t all) {
    const struct cudnn_functions *cudnn = making->cudnn;
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    cudnnBackendDescriptor_t engines[CANDIDATES] = {NULL};
    struct convolution *made = making->made;
    int64_t count = 0;
    cudnnBackendDescriptor_t proposals = begin(making, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_descriptor(making, proposals, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, all);
    set(making, proposals, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    end(making, proposals);
    for (size_t i = 0; i < CANDIDATES && !made->failed; i++) {
        made->failed = cudnn->make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &engines[i]) != CUDNN_STATUS_SUCCESS;
    }
    made->failed = made->failed || cudnn->get(proposals, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, CANDIDATES,
                                              &count, engines) != CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; !made->failed && !made->plan && i < count && i < CANDIDATES; i++) {
        made->plan = plan_of(making, handle, engines[i]);
    }
    for (size_t i = 0; i < CANDIDATES; i++) {
        if (engines[i]) {
            cudnn->drop(engines[i]);
        }
    }
    made->failed = made->failed || !made->plan;
}

void convolutions_open(struct device *device, struct convolutions *all) {
    char why[WHY];
    *all = (struct convolutions){.cudnn = cudnn_find(why, sizeof why)};
    if (all->cudnn && all->cudnn->create(&all->handle) != CUDNN_STATUS_SUCCESS) {
        all->cudnn = NULL;
    }
    if (all->cudnn && all->cudnn->set_stream(all->handle, device->stream) != CUDNN_STATUS_SUCCESS) {
        all->cudnn->destroy(all->handle);
        *all = (struct convolutions){.cudnn = NULL};
    }
}

static void drop(const struct cudnn_functions *cudnn, struct convolution *made) {
    if (made->plan) {
        cudnn->drop(made->plan);
    }
    while (made->count) {
        cudnn->drop(made->descriptors[--made->count]);
    }
}

void convolutions_close(struct device *device, struct convolutions *all) {
    for (size_t i = 0; i < all->count; i++) {
        drop(all->cudnn, all->made[i]);
        device->host->release(device->context, all->made[i]);
    }
    device->host->release(device->context, all->made);
    if (all->handle) {
        all->cudnn->destroy(all->handle);
    }
    *all = (struct convolutions){0};
}

static bool same(const struct convolution_shape *one, const struct convolution_shape *other) {
    return memcmp(one, other, sizeof *one) == 0;
}

/* Room for one more. */
static l3a_status grow(struct device *device, struct convolutions *all) {
    struct convolution **larger = NULL;
    l3a_status status = L3A_OK;
    if (all->count < all->capacity) {
        return L3A_OK;
    }
    TRY(device->host->allocate(device->context, 2 * all->capacity + 16, sizeof(struct convolution *), &larger));
    if (all->count) {
        memcpy(larger, all->made, all->count * sizeof(struct convolution *));
    }
    device->host->release(device->context, all->made);
    all->made = larger;
    all->capacity = 2 * all->capacity + 16;
done:
    return status;
}

l3a_status convolution_find(struct device *device, struct convolutions *all, const struct convolution_shape *shape,
                            const struct convolution **found) {
    struct convolution *made = NULL;
    l3a_status status = L3A_OK;
    *found = NULL;
    if (!all->cudnn || shape->type == NUMBER_FLOAT32) {
        return L3A_OK;
    }
    for (size_t i = 0; i < all->count && !made; i++) {
        made = same(&all->made[i]->shape, shape) ? all->made[i] : NULL;
    }
    if (!made) {
        TRY(grow(device, all));
        TRY(device->host->allocate(device->context, 1, sizeof *made, &made));
        memset(made, 0, sizeof *made);
        memcpy(&made->shape, shape, sizeof *shape);
        all->made[all->count++] = made;
        struct making making = {all->cudnn, made};
        cudnnBackendDescriptor_t operations = graph(&making, all->handle);
        choose(&making, all->handle, operations);
    }
    *found = made->failed ? NULL : made;
done:
    return status;
}

l3a_status convolution_run(struct device *device, const struct convolutions *all, const struct convolution *what, const void *from,
                           const void *factors, const void *bias, void *to, void *work) {
    const struct cudnn_functions *cudnn = all->cudnn;
    const int64_t numbers[] = {INPUT, FACTORS_GIVEN, OUTPUT, what->shape.biased ? BIAS_GIVEN : ADDED, ADDED};
    const void *places[] = {from, factors, to, what->shape.biased ? bias : to, to};
    const int64_t count = 3 + what->shape.biased + what->shape.added;
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t code = cudnn->make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    code = code ? code : cudnn->set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, numbers);
    code = code ? code : cudnn->set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, places);
    code = code ? code : cudnn->set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &work);
    code = code ? code : cudnn->finish(pack);
    code = code ? code : cudnn->execute(all->handle, what->plan, pack);
    if (pack) {
        cudnn->drop(pack);
    }
    return code == CUDNN_STATUS_SUCCESS
               ? L3A_OK
               : device->host->fail(device->context, L3A_ERROR_DEVICE, "start again; if it fails again, use the processor",
                                    "cuda:%d: the device failed: cuDNN: %s", device->number, cudnn->text(code));
}
