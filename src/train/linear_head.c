#include "train/linear_head.h"

#include "base/matrix.h"
#include "base/stream.h"
#include "net/cpu/train_optimiser.h"

#include <math.h>
#include <string.h>

static double draw_normal(struct stream *stream) {
    const double first = 1 - stream_uniform(stream), second = stream_uniform(stream);
    return sqrt(-2 * log(first)) * cos(2 * 3.14159265358979323846 * second);
}

l3a_status linear_head_make(l3a_context *context, size_t classes, size_t width, uint64_t seed, struct linear_head *head) {
    struct stream stream = {seed, 0};
    l3a_status status = L3A_OK;
    *head = (struct linear_head){.classes = classes, .width = width, .numbers = classes * (width + 1)};
    TRY(allocate_zeroed(context, head->numbers, sizeof(float), &head->values));
    TRY(allocate_zeroed(context, head->numbers, sizeof(float), &head->gradient));
    TRY(allocate_zeroed(context, head->numbers, sizeof(float), &head->moment));
    TRY(allocate_zeroed(context, head->numbers, sizeof(float), &head->square));
    for (size_t i = 0; i < classes * width; i++) {
        head->values[i] = (float)(0.01 * draw_normal(&stream));
    }
done:
    return status;
}

void linear_head_free(l3a_context *context, struct linear_head *head) {
    release(context, head->values);
    release(context, head->gradient);
    release(context, head->moment);
    release(context, head->square);
    *head = (struct linear_head){.classes = 0};
}

void linear_head_score(l3a_context *context, const struct linear_head *head, const float *values, const float *features,
                       size_t rows, float *scores) {
    const float *bias = values + head->classes * head->width;
    for (size_t i = 0; i < rows; i++) {
        memcpy(scores + i * head->classes, bias, head->classes * sizeof *scores);
    }
    matrix_multiply(context->threads, REAL_SINGLE, false, true, rows, head->classes, head->width, 1, features, head->width, values,
                    head->width, 1, scores, head->classes);
}

void linear_head_backward(l3a_context *context, struct linear_head *head, const float *features, const float *by_scores,
                          size_t rows, float *by_features) {
    float *bias = head->gradient + head->classes * head->width;
    matrix_multiply(context->threads, REAL_SINGLE, true, false, head->classes, head->width, rows, 1, by_scores, head->classes,
                    features, head->width, 0, head->gradient, head->width);
    matrix_multiply(context->threads, REAL_SINGLE, false, false, rows, head->width, head->classes, 1, by_scores, head->classes,
                    head->values, head->width, 0, by_features, head->width);
    memset(bias, 0, head->classes * sizeof *bias);
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < head->classes; k++) {
            bias[k] += by_scores[i * head->classes + k];
        }
    }
}

double linear_head_square(const struct linear_head *head) {
    double sum = 0;
    for (size_t i = 0; i < head->numbers; i++) {
        sum += (double)head->gradient[i] * (double)head->gradient[i];
    }
    return sum;
}

void linear_head_step(struct linear_head *head, const struct network_step *step, double decay) {
    const size_t split = head->classes * head->width;
    const struct parameter_use factors = {.trained = true, .rate = 1, .decay = (float)decay}, bias = {.trained = true, .rate = 1};
    optimiser_step(step, &factors, split, head->gradient, head->moment, head->square, head->values);
    optimiser_step(step, &bias, head->classes, head->gradient + split, head->moment + split, head->square + split,
                   head->values + split);
}

void linear_rows_step(const struct network_step *step, double decay, size_t rows, size_t columns, const float *gradient,
                      float *moment, float *square, float *values) {
    const struct parameter_use factors = {.trained = true, .rate = 1, .decay = (float)decay}, bias = {.trained = true, .rate = 1};
    for (size_t i = 0; i < rows; i++) {
        const size_t first = i * columns, last = first + columns - 1;
        optimiser_step(step, &factors, columns - 1, gradient + first, moment + first, square + first, values + first);
        optimiser_step(step, &bias, 1, gradient + last, moment + last, square + last, values + last);
    }
}
