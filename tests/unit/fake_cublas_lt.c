/* cuBLASLt without a device: D = epilogue(scale · op(A) op(B) + keep · C + bias), computed in plain loops with sums in single
 * precision, column-major, one product after the other. Calls fail like those of fake_cuda.c. What the library would refuse, what
 * does not fit its memory, and what is not known here counts as a misuse. */
#include "fake_calls.h"
#include "small_floats.h"

#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the library's descriptions point to, which nobody else looks into. */
struct product {
    cublasOperation_t a_as, b_as;
    cublasLtEpilogue_t epilogue;
    const void *bias;
    cudaDataType_t bias_type; /* NO_TYPE: that of D */
};

struct layout {
    cudaDataType_t type;
    size_t rows, columns, stride;
    int32_t batches;
    int64_t batch_stride;
};

struct preference {
    uint64_t most_workspace;
    uint32_t schemes, alignments[4];
};

enum { NO_TYPE = -1, TOGETHER = 4 };

/* ---- Numbers ---- */

static size_t size_of(cudaDataType_t type) {
    return type == CUDA_R_32F ? 4 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 0;
}

static float get(cudaDataType_t type, const void *numbers, size_t index) {
    const uint16_t *halves = numbers;
    return type == CUDA_R_32F   ? ((const float *)numbers)[index]
           : type == CUDA_R_16F ? number_of_half(halves[index])
                                : number_of_bfloat(halves[index]);
}

static void put(cudaDataType_t type, void *numbers, size_t index, float number) {
    if (type == CUDA_R_32F) {
        ((float *)numbers)[index] = number;
    } else {
        ((uint16_t *)numbers)[index] = type == CUDA_R_16F ? half_of(number) : bfloat_of(number);
    }
}

/* ---- Descriptions ---- */

static cublasStatus_t refuse(void) {
    count_misuse();
    return CUBLAS_STATUS_INVALID_VALUE;
}

#define MAKE(name, type, ...)                                                                                                      \
    static cublasStatus_t make_##type(struct type **made, struct type contents) {                                                  \
        const cublasStatus_t code = answer_blas(#name "Create");                                                                   \
        *made = code == CUBLAS_STATUS_SUCCESS ? hold(sizeof **made, false) : NULL;                                                 \
        if (*made) {                                                                                                               \
            **made = contents;                                                                                                     \
        }                                                                                                                          \
        return code;                                                                                                               \
    }                                                                                                                              \
    cublasStatus_t name##Destroy(name##_t object) {                                                                                \
        drop(object);                                                                                                              \
        return answer_blas(#name "Destroy");                                                                                       \
    }

MAKE(cublasLtMatmulDesc, product)
MAKE(cublasLtMatrixLayout, layout)
MAKE(cublasLtMatmulPreference, preference)

cublasStatus_t cublasLtCreate(cublasLtHandle_t *made) {
    const cublasStatus_t code = answer_blas("cublasLtCreate");
    *made = code == CUBLAS_STATUS_SUCCESS ? hold(1, false) : NULL;
    return code;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t blas) {
    drop(blas);
    return answer_blas("cublasLtDestroy");
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *made, cublasComputeType_t compute, cudaDataType_t scale) {
    const struct product product = {CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, NULL, (cudaDataType_t)NO_TYPE};
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) {
        *made = NULL;
        return refuse();
    }
    return make_product((struct product **)(void *)made, product);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, cudaDataType type, uint64_t rows, uint64_t columns,
                                          int64_t stride) {
    if (!size_of(type) || stride < 0 || (uint64_t)stride < rows) {
        *made = NULL;
        return refuse();
    }
    return make_layout((struct layout **)(void *)made, (struct layout){type, rows, columns, (size_t)stride, 1, 0});
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *made) {
    return make_preference((struct preference **)(void *)made, (struct preference){0});
}

/* An attribute must have the size that the library says it has. */
static cublasStatus_t set(void *field, size_t size, const void *value, size_t bytes) {
    if (size != bytes) {
        return refuse();
    }
    memcpy(field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
    struct product *product = (struct product *)(void *)description;
    const cublasStatus_t code = answer_blas("cublasLtMatmulDescSetAttribute");
    if (code != CUBLAS_STATUS_SUCCESS) {
        return code;
    }
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(&product->a_as, sizeof product->a_as, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(&product->b_as, sizeof product->b_as, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(&product->epilogue, sizeof product->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(&product->bias, sizeof product->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set(&product->bias_type, sizeof product->bias_type, value, bytes);
    default: return refuse();
    }
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t description, cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes) {
    struct layout *layout = (struct layout *)(void *)description;
    const cublasStatus_t code = answer_blas("cublasLtMatrixLayoutSetAttribute");
    if (code != CUBLAS_STATUS_SUCCESS) {
        return code;
    }
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return set(&layout->batches, sizeof layout->batches, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return set(&layout->batch_stride, sizeof layout->batch_stride, value, bytes);
    default: return refuse();
    }
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t description,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes) {
    struct preference *preference = (struct preference *)(void *)description;
    const cublasStatus_t code = answer_blas("cublasLtMatmulPreferenceSetAttribute");
    if (code != CUBLAS_STATUS_SUCCESS) {
        return code;
    }
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return set(&preference->most_workspace, sizeof preference->most_workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return set(&preference->schemes, sizeof preference->schemes, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return set(&preference->alignments[0], sizeof(uint32_t), value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return set(&preference->alignments[1], sizeof(uint32_t), value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return set(&preference->alignments[2], sizeof(uint32_t), value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return set(&preference->alignments[3], sizeof(uint32_t), value, bytes);
    default: return refuse();
    }
}

/* ---- Products ---- */

/* One call: m x n numbers from sums of k. */
struct call {
    const struct product *product;
    const struct layout *a_layout, *b_layout, *c_layout, *d_layout;
    size_t m, n, k;
    float scale, keep;
};

static bool has_bias(const struct product *product) {
    return product->epilogue & CUBLASLT_EPILOGUE_BIAS;
}

static cudaDataType_t bias_type_of(const struct call *call) {
    return (int)call->product->bias_type == NO_TYPE ? call->d_layout->type : call->product->bias_type;
}

static bool is_known(cublasLtEpilogue_t epilogue) {
    const int rest = (int)epilogue & ~CUBLASLT_EPILOGUE_BIAS;
    return epilogue == CUBLASLT_EPILOGUE_BIAS || rest == CUBLASLT_EPILOGUE_DEFAULT || rest == CUBLASLT_EPILOGUE_RELU ||
           rest == CUBLASLT_EPILOGUE_GELU;
}

static bool has_shape(const struct layout *layout, cublasOperation_t as, size_t rows, size_t columns) {
    return as == CUBLAS_OP_N ? layout->rows == rows && layout->columns == columns
                             : as == CUBLAS_OP_T && layout->rows == columns && layout->columns == rows;
}

/* Fills in the sizes; false: the descriptions do not fit together. */
static bool plan(struct call *call) {
    const struct product *product = call->product;
    const struct layout *d = call->d_layout, *all[] = {call->a_layout, call->b_layout, call->c_layout, d};
    bool right = is_known(product->epilogue) && call->c_layout->type == d->type && call->a_layout->type == call->b_layout->type;
    call->m = d->rows;
    call->n = d->columns;
    call->k = product->a_as == CUBLAS_OP_N ? call->a_layout->columns : call->a_layout->rows;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        right = right && all[i]->batches == d->batches && d->batches > 0;
    }
    return right && call->m && call->n && call->k && has_shape(call->a_layout, product->a_as, call->m, call->k) &&
           has_shape(call->b_layout, product->b_as, call->k, call->n) && has_shape(call->c_layout, CUBLAS_OP_N, call->m, call->n) &&
           (!has_bias(product) || size_of(bias_type_of(call)));
}

/* Whether a matrix, with all of its batch, is within the memory that its address is in. */
static bool layout_fits(const struct layout *layout, const void *numbers) {
    const size_t before = (size_t)(layout->batches - 1) * (size_t)layout->batch_stride + (layout->columns - 1) * layout->stride;
    return numbers && layout->batch_stride >= 0 && fits(numbers, (before + layout->rows) * size_of(layout->type));
}

/* op(A) of one product of the batch as numbers: column p, which has `rows`, begins at p · rows; or, transposed, the other way. */
static void take(const struct layout *layout, bool transposed, const void *numbers, size_t batch, float *to) {
    for (size_t j = 0; j < layout->columns; j++) {
        for (size_t i = 0; i < layout->rows; i++) {
            to[transposed ? i * layout->columns + j : j * layout->rows + i] =
                get(layout->type, numbers, batch * (size_t)layout->batch_stride + j * layout->stride + i);
        }
    }
}

/* sums [TOGETHER][m] of `count` columns: A times rows of bᵀ, which is [n x k]. */
static void multiply_columns(size_t m, size_t k, const float *a, const float *b, size_t count, float *sums) {
    memset(sums, 0, TOGETHER * m * sizeof *sums);
    for (size_t p = 0; p < k; p++) {
        const float *column = a + p * m;
        float factors[TOGETHER] = {0};
        for (size_t j = 0; j < count; j++) {
            factors[j] = b[j * k + p];
        }
        for (size_t i = 0; i < m; i++) {
            sums[i] += column[i] * factors[0];
            sums[m + i] += column[i] * factors[1];
            sums[2 * m + i] += column[i] * factors[2];
            sums[3 * m + i] += column[i] * factors[3];
        }
    }
}

static float activate(cublasLtEpilogue_t epilogue, float x) {
    if (epilogue & CUBLASLT_EPILOGUE_RELU) {
        return x > 0 ? x : 0;
    }
    if (epilogue & CUBLASLT_EPILOGUE_GELU) {
        return 0.5F * x * (1 + tanhf(0.7978845608F * (x + 0.044715F * x * x * x)));
    }
    return x;
}

static void finish_column(const struct call *call, size_t batch, size_t j, const float *sums, const void *c, void *d) {
    const size_t c_first = batch * (size_t)call->c_layout->batch_stride + j * call->c_layout->stride;
    const size_t d_first = batch * (size_t)call->d_layout->batch_stride + j * call->d_layout->stride;
    for (size_t i = 0; i < call->m; i++) {
        float number = call->scale * sums[i];
        number += call->keep == 0 ? 0 : call->keep * get(call->c_layout->type, c, c_first + i);
        number += has_bias(call->product) ? get(bias_type_of(call), call->product->bias, i) : 0;
        put(call->d_layout->type, d, d_first + i, activate(call->product->epilogue, number));
    }
}

static void multiply(const struct call *call, const void *a, const void *b, const void *c, void *d) {
    const size_t m = call->m, n = call->n, k = call->k;
    float *left = malloc(m * k * sizeof *left), *right = malloc(n * k * sizeof *right), *sums = malloc(TOGETHER * m * sizeof *sums);
    if (!left || !right || !sums) {
        abort();
    }
    for (size_t batch = 0; batch < (size_t)call->d_layout->batches; batch++) {
        take(call->a_layout, call->product->a_as == CUBLAS_OP_T, a, batch, left);
        take(call->b_layout, call->product->b_as == CUBLAS_OP_T, b, batch, right);
        for (size_t j = 0; j < n; j += TOGETHER) {
            const size_t count = n - j < TOGETHER ? n - j : TOGETHER;
            multiply_columns(m, k, left, right + j * k, count, sums);
            for (size_t i = 0; i < count; i++) {
                finish_column(call, batch, j + i, sums + i * m, c, d);
            }
        }
    }
    free(left);
    free(right);
    free(sums);
}

static struct call call_of(cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                           cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
    return (struct call){.product = (const struct product *)(const void *)product,
                         .a_layout = (const struct layout *)(const void *)a,
                         .b_layout = (const struct layout *)(const void *)b,
                         .c_layout = (const struct layout *)(const void *)c,
                         .d_layout = (const struct layout *)(const void *)d};
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t blas, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *found) {
    struct call call = call_of(product, a, b, c, d);
    const cublasStatus_t code = answer_blas("cublasLtMatmulAlgoGetHeuristic");
    *found = 0;
    if (code != CUBLAS_STATUS_SUCCESS) {
        return code;
    }
    if (!blas || !preference || wanted < 1 || !plan(&call)) {
        return refuse();
    }
    memset(&results[0], 0, sizeof results[0]);
    results[0].state = CUBLAS_STATUS_SUCCESS;
    memcpy(results[0].algo.data, ((const struct preference *)(const void *)preference)->alignments, sizeof(uint32_t[4]));
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* Whether addresses are as the caller has promised when it asked for the algorithm. */
static bool is_aligned(const cublasLtMatmulAlgo_t *algorithm, const void *const *addresses) {
    uint32_t alignments[4];
    memcpy(alignments, algorithm->data, sizeof alignments);
    for (size_t i = 0; i < 4; i++) {
        if (alignments[i] && (uintptr_t)addresses[i] % alignments[i]) {
            return false;
        }
    }
    return true;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t blas, cublasLtMatmulDesc_t product, const void *scale, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *keep,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes, cudaStream_t stream) {
    struct call call = call_of(product, a_layout, b_layout, c_layout, d_layout);
    const cublasStatus_t code = answer_blas("cublasLtMatmul");
    (void)workspace, (void)workspace_bytes, (void)stream;
    if (code != CUBLAS_STATUS_SUCCESS) {
        return code;
    }
    call.scale = *(const float *)scale;
    call.keep = *(const float *)keep;
    if (!blas || d == a || d == b || !plan(&call) || !layout_fits(call.a_layout, a) || !layout_fits(call.b_layout, b) ||
        !layout_fits(call.d_layout, d) || (call.keep != 0 && !layout_fits(call.c_layout, c)) ||
        (has_bias(call.product) && (!call.product->bias || !fits(call.product->bias, call.m * size_of(bias_type_of(&call)))))) {
        return refuse();
    }
    if (!is_aligned(algorithm, (const void *const[]){a, b, c, d})) {
        return refuse();
    }
    multiply(&call, a, b, c, d);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void) {
    return CUBLAS_VERSION;
}
