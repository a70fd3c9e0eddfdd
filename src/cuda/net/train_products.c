/* Matrix products of training, by cuBLASLt. A product is prepared when it first comes up, and then found again by its sizes.
 *
 * cuBLASLt thinks in columns: what is c = op(a) op(b) by rows is cᵀ = op(b)ᵀ op(a)ᵀ, so b is its first matrix and a its second.
 * Where a sum is divided, its parts are added up in float32 by a fixed plan, never in place. */
#include "cuda/net/train.h"

#include <string.h>

struct cuda_prepared {
    struct cuda_product what;
    unsigned alignment; /* of all matrices, in bytes */
    cublasLtMatmulDesc_t description;
    cublasLtMatrixLayout_t first, second, made;
    cublasLtMatmulAlgo_t algorithm;
};

static cudaDataType_t data_type(enum number_type type) {
    return type == NUMBER_FLOAT32 ? CUDA_R_32F : type == NUMBER_FLOAT16 ? CUDA_R_16F : CUDA_R_16BF;
}

/* ---- Finding ---- */

static bool is_same(const struct cuda_product *one, const struct cuda_product *other) {
    return one->transpose_a == other->transpose_a && one->transpose_b == other->transpose_b && one->biased == other->biased &&
           one->type == other->type && one->made == other->made && one->m == other->m && one->n == other->n &&
           one->inner == other->inner && one->a_stride == other->a_stride && one->b_stride == other->b_stride &&
           one->c_stride == other->c_stride && one->batches == other->batches && one->a_step == other->a_step &&
           one->b_step == other->b_step && one->c_step == other->c_step;
}

/* The largest power of 2, up to 256, that divides the addresses of all rows and matrices. */
static unsigned alignment_of(const struct cuda_product *what, const void *a, const void *b, const void *c) {
    const size_t bytes = number_bytes(what->type), made = number_bytes(what->made);
    const uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | what->a_stride * bytes | what->b_stride * bytes |
                          what->c_stride * made | what->a_step * bytes | what->b_step * bytes | what->c_step * made | 256;
    return (unsigned)(all & ~(all - 1));
}

/* ---- Preparing ---- */

static l3a_status describe(struct device *device, const struct cuda_product *what, const void *bias, cublasLtMatmulDesc_t *made) {
    const cublasOperation_t first = what->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = what->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = what->biased ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const cudaDataType_t bias_type = data_type(what->made);
    l3a_status status = L3A_OK;
    TRY_BLAS(device, cublasLtMatmulDescCreate(made, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    TRY_BLAS(device, cublasLtMatmulDescSetAttribute(*made, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    TRY_BLAS(device, cublasLtMatmulDescSetAttribute(*made, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    TRY_BLAS(device, cublasLtMatmulDescSetAttribute(*made, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    if (what->biased) {
        TRY_BLAS(device, cublasLtMatmulDescSetAttribute(*made, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type, sizeof bias_type));
        TRY_BLAS(device, cublasLtMatmulDescSetAttribute(*made, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    }
done:
    return status;
}

static l3a_status make_layout(struct device *device, enum number_type type, size_t rows, size_t columns, size_t stride,
                              size_t batches, size_t step, cublasLtMatrixLayout_t *made) {
    const int32_t count = (int32_t)batches;
    const int64_t offset = (int64_t)step;
    l3a_status status = L3A_OK;
    TRY_BLAS(device, cublasLtMatrixLayoutCreate(made, data_type(type), columns, rows, (int64_t)stride));
    if (batches > 1) {
        TRY_BLAS(device, cublasLtMatrixLayoutSetAttribute(*made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
        TRY_BLAS(device,
                 cublasLtMatrixLayoutSetAttribute(*made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset, sizeof offset));
    }
done:
    return status;
}

static l3a_status set_preferences(struct device *device, unsigned alignment, cublasLtMatmulPreference_t preference) {
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t room = PRODUCT_BYTES;
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, bytes = alignment;
    l3a_status status = L3A_OK;
    TRY_BLAS(device,
             cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room));
    TRY_BLAS(device, cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                                          sizeof schemes));
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
        TRY_BLAS(device, cublasLtMatmulPreferenceSetAttribute(preference, alignments[i], &bytes, sizeof bytes));
    }
done:
    return status;
}

/* The first algorithm that cuBLASLt proposes. */
static l3a_status choose(struct device *device, struct cuda_prepared *product) {
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    l3a_status status = L3A_OK;
    TRY_BLAS(device, cublasLtMatmulPreferenceCreate(&preference));
    TRY(set_preferences(device, product->alignment, preference));
    TRY_BLAS(device, cublasLtMatmulAlgoGetHeuristic((cublasLtHandle_t)device->blas, product->description, product->first,
                                                    product->second, product->made, product->made, preference, 1, &found, &count));
    TRY_BLAS(device, count ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED);
    product->algorithm = found.algo;
done:
    if (preference) {
        cublasLtMatmulPreferenceDestroy(preference);
    }
    return status;
}

static void close_product(struct cuda_prepared *product) {
    cublasLtMatrixLayout_t layouts[] = {product->first, product->second, product->made};
    for (size_t i = 0; i < 3; i++) {
        if (layouts[i]) {
            cublasLtMatrixLayoutDestroy(layouts[i]);
        }
    }
    if (product->description) {
        cublasLtMatmulDescDestroy(product->description);
    }
}

static l3a_status open_product(struct device *device, const struct cuda_product *what, const void *bias, unsigned alignment,
                               struct cuda_prepared *made) {
    l3a_status status = L3A_OK;
    *made = (struct cuda_prepared){.what = *what, .alignment = alignment};
    TRY(describe(device, what, bias, &made->description));
    TRY(make_layout(device, what->type, what->transpose_b ? what->n : what->inner, what->transpose_b ? what->inner : what->n,
                    what->b_stride, what->batches, what->b_step, &made->first));
    TRY(make_layout(device, what->type, what->transpose_a ? what->inner : what->m, what->transpose_a ? what->m : what->inner,
                    what->a_stride, what->batches, what->a_step, &made->second));
    TRY(make_layout(device, what->made, what->m, what->n, what->c_stride, what->batches, what->c_step, &made->made));
    TRY(choose(device, made));
done:
    if (status != L3A_OK) {
        close_product(made);
    }
    return status;
}

static l3a_status make_room(struct device *device, struct cuda_products *products) {
    const struct plugin_host *host = device->host;
    const size_t capacity = products->capacity ? 2 * products->capacity : 16;
    struct cuda_prepared *made = NULL;
    l3a_status status = L3A_OK;
    if (products->count < products->capacity) {
        return L3A_OK;
    }
    TRY(host->allocate(device->context, capacity, sizeof *made, &made));
    if (products->count) {
        memcpy(made, products->made, products->count * sizeof *made);
    }
    host->release(device->context, products->made);
    products->made = made;
    products->capacity = capacity;
done:
    return status;
}

static l3a_status find(struct device *device, struct cuda_products *products, const struct cuda_product *what, const void *bias,
                       unsigned alignment, const struct cuda_prepared **found) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < products->count; i++) {
        if (products->made[i].alignment == alignment && is_same(&products->made[i].what, what)) {
            *found = &products->made[i];
            return L3A_OK;
        }
    }
    TRY(make_room(device, products));
    TRY(open_product(device, what, bias, alignment, &products->made[products->count]));
    *found = &products->made[products->count++];
done:
    return status;
}

void cuda_train_products_close(struct device *device, struct cuda_products *products) {
    for (size_t i = 0; i < products->count; i++) {
        close_product(&products->made[i]);
    }
    device->host->release(device->context, products->made);
    device_release(device, products->work);
    *products = (struct cuda_products){0};
}

/* ---- Running ---- */

l3a_status cuda_train_multiply(struct device *device, struct cuda_products *products, const struct cuda_product *what,
                               const struct cuda_factors *factors, void *c) {
    const struct cuda_prepared *product = NULL;
    l3a_status status = L3A_OK;
    TRY(find(device, products, what, factors->bias, alignment_of(what, factors->a, factors->b, c), &product));
    if (what->biased) {
        TRY_BLAS(device, cublasLtMatmulDescSetAttribute(product->description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &factors->bias,
                                                        sizeof factors->bias));
    }
    TRY_BLAS(device, cublasLtMatmul((cublasLtHandle_t)device->blas, product->description, &factors->scale, factors->b,
                                    product->first, factors->a, product->second, &factors->keep, c, product->made, c, product->made,
                                    &product->algorithm, products->work, PRODUCT_BYTES, device->stream));
done:
    return status;
}
