#include "learn/phase_gamma.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 100, MAKING = 1, TRYING = 2 };

static size_t sample_size(uint64_t images) {
    return images < GAMMA_ROWS ? (size_t)images : GAMMA_ROWS;
}

size_t gamma_sample_numbers(const struct gamma_sample *sample) {
    return sample->capacity * (sample->width + 1 + sample->classes);
}

uint64_t gamma_sample_bytes(size_t width, size_t classes, uint64_t images) {
    return (uint64_t)sample_size(images) * (width + 1 + classes) * sizeof(double);
}

l3a_status gamma_sample_create(l3a_context *context, size_t width, size_t classes, uint64_t images, struct gamma_sample *sample) {
    *sample = (struct gamma_sample){.width = width, .classes = classes, .capacity = sample_size(images), .images = images};
    return allocate_zeroed(context, gamma_sample_numbers(sample), sizeof *sample->values, &sample->values);
}

void gamma_sample_free(l3a_context *context, struct gamma_sample *sample) {
    release(context, sample->values);
    memset(sample, 0, sizeof *sample);
}

static double *sample_weights(const struct gamma_sample *sample) {
    return sample->values + sample->capacity * sample->width;
}

static double *sample_targets(const struct gamma_sample *sample) {
    return sample_weights(sample) + sample->capacity;
}

/* The sample is spread evenly over all images. */
void gamma_sample_offer(const struct gamma_sample *sample, uint64_t index, const float *features, double weight,
                        const int8_t *labels) {
    const uint64_t n = sample->capacity, slot = index * n / sample->images;
    if ((index + 1) * n / sample->images == slot) {
        return;
    }
    for (size_t j = 0; j < sample->width; j++) {
        sample->values[slot * sample->width + j] = (double)features[j];
    }
    sample_weights(sample)[slot] = weight;
    for (size_t k = 0; k < sample->classes; k++) {
        sample_targets(sample)[k * n + slot] = labels[k] == 1 ? sqrt(weight) : 0;
    }
}

struct trial {
    l3a_context *context;
    const struct gamma_sample *sample;
    size_t n;
    double *gram;   /* X̃X̃ᵀ */
    double *factor; /* U with UᵀU = H⁻¹, then U⁻¹ */
    double *errors; /* [classes x n] */
    float *features;
};

/* What the gram is made with; it is computed in the type of the rows first. */
static void list_making(struct trial *trial, size_t width, struct array *list) {
    list[0] = (struct array){&trial->features, trial->n, width * sizeof *trial->features, false};
}

/* What it is tried with, afterwards. */
static void list_trying(struct trial *trial, size_t classes, struct array *list) {
    const size_t n = trial->n;
    list[0] = (struct array){&trial->factor, n, n * sizeof *trial->factor, false};
    list[1] = (struct array){&trial->errors, classes, n * sizeof *trial->errors, false};
}

uint64_t choose_gamma_bytes(size_t width, size_t classes, uint64_t images, real type) {
    struct trial none = {.n = sample_size(images)};
    struct array making[MAKING], trying[TRYING];
    const uint64_t square = (uint64_t)none.n * none.n;
    list_making(&none, width, making);
    list_trying(&none, classes, trying);
    const uint64_t before = arrays_bytes(making, MAKING) + square * real_size(type), after = arrays_bytes(trying, TRYING);
    return square * sizeof *none.gram + (before > after ? before : after);
}

/* E(γ); infinite if it cannot be computed. */
static double left_out_error(const struct trial *trial, double gamma) {
    const int threads = trial->context->threads;
    const size_t n = trial->n, classes = trial->sample->classes;
    double error = 0;
    memcpy(trial->factor, trial->gram, n * n * sizeof *trial->factor);
    for (size_t i = 0; i < n; i++) {
        trial->factor[i * n + i] += gamma;
    }
    if (!matrix_factor(threads, REAL_DOUBLE, n, trial->factor, n)) {
        return INFINITY;
    }
    for (size_t k = 0; k < classes; k++) {
        memcpy(trial->errors + k * n, sample_targets(trial->sample) + k * n, n * sizeof *trial->errors);
    }
    matrix_solve_rows(threads, REAL_DOUBLE, n, classes, trial->factor, n, trial->errors, n);
    if (!matrix_invert_factor(threads, n, trial->factor, n)) {
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
        for (size_t i = 0; i < sample->capacity; i++) {
            shown += sample_targets(sample)[k * sample->capacity + i] != 0;
        }
        contrast = contrast || (shown && shown < sample->capacity);
    }
    return contrast;
}

l3a_status choose_gamma(struct block *rows, const struct gamma_sample *sample, double *gamma) {
    l3a_context *context = rows->context;
    l3a_status status = L3A_OK;
    struct trial trial = {.context = context, .sample = sample, .n = sample->capacity};
    const size_t n = trial.n;
    struct array making[MAKING], trying[TRYING];
    list_making(&trial, sample->width, making);
    list_trying(&trial, sample->classes, trying);
    TRY(allocate(context, n, n * sizeof *trial.gram, &trial.gram));
    TRY(arrays_allocate(context, making, MAKING));
    for (size_t i = 0; i < n * sample->width; i++) {
        trial.features[i] = (float)sample->values[i];
    }
    TRY(block_expand(rows, trial.features, n));
    TRY(block_gram(rows, sample_weights(sample), trial.gram));
    arrays_release(context, making, MAKING);
    TRY(arrays_allocate(context, trying, TRYING));
    const double chosen = two_digits(n < FEW || !has_contrast(sample) ? mean_diagonal(&trial) : descend(&trial));
    FAIL_IF(!(isfinite(chosen) && chosen > 0), context, L3A_ERROR_NUMERIC, "give a number for gamma, or scale the features",
            "no gamma can be chosen from these features");
    *gamma = chosen;
done:
    release(context, trial.gram);
    arrays_release(context, making, MAKING);
    arrays_release(context, trying, TRYING);
    return status;
}
