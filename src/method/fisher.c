/* F[k, j] = mean over rows of pₖ (1 − pₖ) zⱼ², p = σ(W z): a product of two matrices, one block of rows at a time. */
#include "method/fisher.h"

#include "base/vector_math.h"

enum { BLOCK = 1024 };

static void to_variances(float *scores, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const float p = sigmoid(scores[i]);
        scores[i] = p * (1 - p);
    }
}

l3a_status fisher_diagonal(const struct head *head, const struct rows *rows, float **fisher) {
    l3a_context *context = head->context;
    l3a_status status = L3A_OK;
    float *sum = NULL, *variances = NULL, *inputs = NULL;
    TRY(allocate_zeroed(context, head->classes, head->inputs * sizeof *sum, &sum));
    TRY(allocate(context, BLOCK, head->classes * sizeof *variances, &variances));
    TRY(allocate(context, BLOCK, head->inputs * sizeof *inputs, &inputs));
    for (size_t first = 0; first < rows->count; first += BLOCK) {
        const size_t count = rows->count - first < BLOCK ? rows->count - first : BLOCK;
        head_expand(head, rows->features + first * head->stored, count, inputs);
        head_multiply(head, head->coefficients, head->classes, inputs, count, variances, head->classes);
        to_variances(variances, count * head->classes);
        for (size_t i = 0; i < count * head->inputs; i++) {
            inputs[i] *= inputs[i];
        }
        matrix_multiply(1, REAL_SINGLE, true, false, head->classes, head->inputs, count, 1 / (double)rows->count, variances,
                        head->classes, inputs, head->inputs, 1, sum, head->inputs);
    }
    *fisher = sum;
    sum = NULL;
done:
    release(context, sum);
    release(context, variances);
    release(context, inputs);
    return status;
}
