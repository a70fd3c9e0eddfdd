#include "learn/gamma.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 100, STRIP = 512 };

l3a_status gamma_sample_create(l3a_context *context, real type, size_t dim, size_t classes, size_t rows,
                               struct gamma_sample *sample) {
    l3a_status status = L3A_OK;
    const size_t capacity = rows < GAMMA_ROWS ? rows : GAMMA_ROWS;
    *sample = (struct gamma_sample){.type = type, .dim = dim, .classes = classes, .capacity = capacity};
    TRY(allocate(context, capacity, dim * real_size(type), &sample->rows));
    TRY(allocate(context, capacity, classes * sizeof *sample->targets, &sample->targets));
done:
    if (status != L3A_OK) {
        gamma_sample_free(context, sample);
    }
    return status;
}

void gamma_sample_free(l3a_context *context, struct gamma_sample *sample) {
    release(context, sample->rows);
    release(context, sample->targets);
    memset(sample, 0, sizeof *sample);
}

bool gamma_sample_wants(const struct gamma_sample *sample, uint64_t index, uint64_t rows) {
    const uint64_t n = sample->capacity;
    return sample->count < n && (index + 1) * n / rows > index * n / rows;
}

void gamma_sample_add(struct gamma_sample *sample, const void *row, const void *targets) {
    const size_t size = sample->dim * real_size(sample->type);
    memcpy((char *)sample->rows + sample->count * size, row, size);
    for (size_t k = 0; k < sample->classes; k++) {
        sample->targets[k * sample->capacity + sample->count] =
            sample->type == REAL_SINGLE ? (double)((const float *)targets)[k] : ((const double *)targets)[k];
    }
    sample->count++;
}

struct trial {
    l3a_context *context;
    const struct gamma_sample *sample;
    size_t n;
    double *gram;   /* X̃X̃ᵀ */
    double *factor; /* U with UᵀU = H⁻¹, then U⁻¹ */
    double *errors; /* [classes x n] */
};

/* E(γ); infinite if it cannot be computed. */
static double left_out_error(const struct trial *trial, double gamma) {
    const l3a_context *context = trial->context;
    const matrix_operations *matrix = context->matrix;
    const size_t n = trial->n, classes = trial->sample->classes;
    double error = 0;
    memcpy(trial->factor, trial->gram, n * n * sizeof *trial->factor);
    for (size_t i = 0; i < n; i++) {
        trial->factor[i * n + i] += gamma;
    }
    if (!matrix->factor(context->threads, REAL_DOUBLE, n, trial->factor, n)) {
        return INFINITY;
    }
    for (size_t k = 0; k < classes; k++) {
        memcpy(trial->errors + k * n, trial->sample->targets + k * trial->sample->capacity, n * sizeof *trial->errors);
    }
    matrix->solve_rows(context->threads, REAL_DOUBLE, n, classes, trial->factor, n, trial->errors, n);
    if (!matrix->invert_factor(context->threads, n, trial->factor, n)) {
        return INFINITY;
    }
    for (size_t i = 0; i < n; i++) {
        double diagonal = 0; /* of H = U⁻¹U⁻ᵀ */
        for (size_t j = i; j < n; j++) {
            diagonal += trial->factor[i * n + j] * trial->factor[i * n + j];
        }
        for (size_t k = 0; k < classes; k++) {
            const double left_out = trial->errors[k * n + i] / diagonal;
            error += left_out * left_out;
        }
    }
    return isfinite(error) ? error : INFINITY;
}

static l3a_status make_gram(const struct trial *trial) {
    l3a_context *context = trial->context;
    const struct gamma_sample *sample = trial->sample;
    const size_t n = trial->n, d = sample->dim;
    void *product = NULL;
    const l3a_status status = allocate(context, n, n * real_size(sample->type), &product);
    if (status == L3A_OK) {
        const size_t size = real_size(sample->type);
        for (size_t first = 0; first < n; first += STRIP) { /* only the blocks on and right of the diagonal */
            const size_t rows = n - first < STRIP ? n - first : STRIP;
            const char *from = (const char *)sample->rows + first * d * size;
            context->matrix->multiply(context->threads, sample->type, false, true, rows, n - first, d, 1, from, d, from, d, 0,
                                      (char *)product + (first * n + first) * size, n);
        }
        for (size_t i = 0; i < n; i++) {
            for (size_t j = i; j < n; j++) {
                const size_t at = i * n + j;
                trial->gram[at] =
                    sample->type == REAL_SINGLE ? (double)((const float *)product)[at] : ((const double *)product)[at];
                trial->gram[j * n + i] = trial->gram[at];
            }
        }
    }
    release(context, product);
    return status;
}

/* Where the parabola through (-1, left), (0, middle), (1, right) is lowest. */
static double lowest(double left, double middle, double right) {
    const double bend = left - 2 * middle + right;
    return isfinite(bend) && bend > 0 ? 0.5 * (left - right) / bend : 0;
}

static double two_digits(double value) {
    char text[32];
    snprintf(text, sizeof text, "%.1e", value);
    return strtod(text, NULL);
}

static double mean_diagonal(const struct trial *trial) {
    double sum = 0;
    for (size_t i = 0; i < trial->n; i++) {
        sum += trial->gram[i * trial->n + i];
    }
    return sum / (double)trial->n;
}

/* The γ with the least E; infinite if none can be computed. */
static double descend(const struct trial *trial) {
    const double level = log10(mean_diagonal(trial)), low = level - 2, high = level + 4;
    double at = round(2 * level) / 2 - 0.5; /* log10 γ */
    double left = left_out_error(trial, pow(10, at - 0.5)), middle = left_out_error(trial, pow(10, at)),
           right = left_out_error(trial, pow(10, at + 0.5));
    while ((right < middle || !isfinite(middle)) && at < high) {
        at += 0.5;
        left = middle;
        middle = right;
        right = left_out_error(trial, pow(10, at + 0.5));
    }
    while (left < middle && at > low) {
        at -= 0.5;
        right = middle;
        middle = left;
        left = left_out_error(trial, pow(10, at - 0.5));
    }
    return isfinite(middle) ? pow(10, fmax(low, at + 0.5 * lowest(left, middle, right))) : INFINITY;
}

/* Whether any class is present in some rows and absent from others. */
static bool has_contrast(const struct gamma_sample *sample) {
    bool contrast = false;
    for (size_t k = 0; k < sample->classes; k++) {
        size_t shown = 0;
        for (size_t i = 0; i < sample->count; i++) {
            shown += sample->targets[k * sample->capacity + i] != 0;
        }
        contrast = contrast || (shown && shown < sample->count);
    }
    return contrast;
}

l3a_status choose_gamma(l3a_context *context, const struct gamma_sample *sample, double *gamma) {
    l3a_status status = L3A_OK;
    struct trial trial = {.context = context, .sample = sample, .n = sample->count};
    const size_t n = trial.n;
    TRY(allocate(context, n, n * sizeof *trial.gram, &trial.gram));
    TRY(make_gram(&trial));
    TRY(allocate(context, n, n * sizeof *trial.factor, &trial.factor));
    TRY(allocate(context, sample->classes, n * sizeof *trial.errors, &trial.errors));
    const double chosen = two_digits(n < FEW || !has_contrast(sample) ? 0.1 * mean_diagonal(&trial) : descend(&trial));
    FAIL_IF(!(isfinite(chosen) && chosen > 0), context, L3A_ERROR_NUMERIC, "give a number for gamma, or scale the features",
            "no gamma can be chosen from these features");
    *gamma = chosen;
done:
    release(context, trial.gram);
    release(context, trial.factor);
    release(context, trial.errors);
    return status;
}
