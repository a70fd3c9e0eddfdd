/* F[k, j] = mean over images of Σ over their views of ω pₖ (1 − pₖ) zⱼ², p = σ(W z), with the ω that the views of an image are
 * drawn with in training (train.c): a product of two matrices, one block of rows at a time. */
#include "method/fisher.h"

#include "base/vector_math.h"

enum { BLOCK = 1024 };

/* Scores of rows become ω p (1 − p). `first` is the number of the first row. */
static void to_variances(const struct head *head, size_t first, size_t rows, float *scores) {
    for (size_t i = 0; i < rows; i++) {
        const float weight = (float)view_share((first + i) % view_rows(head->views), head->views);
        for (size_t k = 0; k < head->classes; k++) {
            const float p = sigmoid(scores[i * head->classes + k]);
            scores[i * head->classes + k] = weight * (p * (1 - p));
        }
    }
}

l3a_status fisher_diagonal(const struct head *head, const struct rows *rows, float **fisher) {
    l3a_context *context = head->context;
    l3a_status status = L3A_OK;
    float *sum = NULL, *variances = NULL, *inputs = NULL;
    TRY(allocate_zeroed(context, head->classes, head->inputs * sizeof *sum, &sum));
    TRY(allocate(context, BLOCK, head->classes * sizeof *variances, &variances));
    TRY(allocate(context, BLOCK, head->inputs * sizeof *inputs, &inputs));
    const size_t all = rows->count * view_rows(head->views);
    for (size_t first = 0; first < all; first += BLOCK) {
        const size_t count = all - first < BLOCK ? all - first : BLOCK;
        head_expand(head, rows->features + first * head->stored, count, inputs);
        head_multiply(head, head->coefficients, head->classes, inputs, count, variances, head->classes);
        to_variances(head, first, count, variances);
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
