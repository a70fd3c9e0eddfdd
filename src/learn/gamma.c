#include "learn/gamma.h"

#include "base/memory.h"
#include "learn/views.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 100, MAKING = 1, TRYING = 3 };

/* The shape of a sample. */
static struct gamma_sample sample_shape(size_t width, size_t views, size_t classes, uint64_t images) {
    const size_t most = images_of_rows(views > 1 ? 2 * GAMMA_ROWS : GAMMA_ROWS, views);
    const size_t capacity = images < most ? (size_t)images : most;
    return (struct gamma_sample){.width = width,
                                 .views = views,
                                 .classes = classes,
                                 .capacity = capacity,
                                 .rows = capacity * view_rows(views),
                                 .images = images};
}

size_t gamma_sample_numbers(const struct gamma_sample *sample) {
    return sample->rows * (sample->width + 1 + sample->classes);
}

uint64_t gamma_sample_bytes(size_t width, size_t views, size_t classes, uint64_t images) {
    const struct gamma_sample sample = sample_shape(width, views, classes, images);
    return gamma_sample_numbers(&sample) * sizeof *sample.values;
}

l3a_status gamma_sample_create(l3a_context *context, size_t width, size_t views, size_t classes, uint64_t images,
                               struct gamma_sample *sample) {
    *sample = sample_shape(width, views, classes, images);
    return allocate_zeroed(context, gamma_sample_numbers(sample), sizeof *sample->values, &sample->values);
}

void gamma_sample_free(l3a_context *context, struct gamma_sample *sample) {
    release(context, sample->values);
    memset(sample, 0, sizeof *sample);
}

static double *sample_weights(const struct gamma_sample *sample) {
    return sample->values + sample->rows * sample->width;
}

static double *sample_targets(const struct gamma_sample *sample) {
    return sample_weights(sample) + sample->rows;
}

/* The sample is spread evenly over all images. */
void gamma_sample_offer(const struct gamma_sample *sample, uint64_t index, const float *features, double weight,
                        const int8_t *labels) {
    const uint64_t n = sample->capacity, slot = index * n / sample->images;
    const size_t each = view_rows(sample->views), first = (size_t)slot * each, width = sample->width;
    if ((index + 1) * n / sample->images == slot) {
        return;
    }
    for (size_t j = 0; j < each * width; j++) {
        sample->values[first * width + j] = (double)features[j];
    }
    for (size_t v = 0; v < each; v++) {
        const double own = view_weight(weight, v, sample->views);
        sample_weights(sample)[first + v] = own;
        for (size_t k = 0; k < sample->classes; k++) {
            sample_targets(sample)[k * sample->rows + first + v] = labels[k] == 1 ? sqrt(own) : 0;
        }
    }
}

struct trial {
    l3a_context *context;
    const struct gamma_sample *sample;
    size_t n, each; /* rows, and those of an image */
    double *gram;   /* X̃X̃ᵀ */
    double *factor; /* U with UᵀU = H⁻¹, then U⁻¹ */
    double *errors; /* [classes x n] */
    double *block;  /* [each x each]: H_ii, then its factors */
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
    list[2] = (struct array){&trial->block, trial->each, trial->each * sizeof *trial->block, false};
}

uint64_t choose_gamma_bytes(size_t width, size_t views, size_t classes, uint64_t images, real type) {
    struct trial none = {.n = sample_shape(width, views, classes, images).rows, .each = view_rows(views)};
    struct array making[MAKING], trying[TRYING];
    const uint64_t square = (uint64_t)none.n * none.n;
    list_making(&none, width, making);
    list_trying(&none, classes, trying);
    const uint64_t before = arrays_bytes(making, MAKING) + square * real_size(type), after = arrays_bytes(trying, TRYING);
    return square * sizeof *none.gram + (before > after ? before : after);
}

/* H_ii = L D Lᵀ of the image whose rows begin at `first`, from H = U⁻¹U⁻ᵀ: L below the diagonal, D on it. */
static void factor_image(const struct trial *trial, size_t first) {
    const size_t n = trial->n, each = trial->each;
    double *block = trial->block;
    for (size_t a = 0; a < each; a++) {
        for (size_t b = 0; b <= a; b++) {
            double sum = 0;
            for (size_t j = first + a; j < n; j++) {
                sum += trial->factor[(first + a) * n + j] * trial->factor[(first + b) * n + j];
            }
            for (size_t c = 0; c < b; c++) {
                sum -= block[a * each + c] * block[b * each + c] * block[c * each + c];
            }
            block[a * each + b] = a == b ? sum : sum / block[b * each + b];
        }
    }
}

/* ‖ H_ii⁻¹ e ‖², e being the rows of an image in (H Ỹ) of a class, which are overwritten. */
static double error_of_image(const struct trial *trial, double *e) {
    const size_t each = trial->each;
    double error = 0;
    for (size_t a = 0; a < each; a++) {
        for (size_t c = 0; c < a; c++) {
            e[a] -= trial->block[a * each + c] * e[c];
        }
    }
    for (size_t a = each; a-- > 0;) {
        e[a] /= trial->block[a * each + a];
        for (size_t c = a + 1; c < each; c++) {
            e[a] -= trial->block[c * each + a] * e[c];
        }
        error += e[a] * e[a];
    }
    return error;
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
    for (size_t first = 0; first < n; first += trial->each) {
        factor_image(trial, first);
        for (size_t k = 0; k < classes; k++) {
            error += error_of_image(trial, trial->errors + k * n + first);
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

/* Over images. */
static double mean_diagonal(const struct trial *trial) {
    double sum = 0;
    for (size_t i = 0; i < trial->n; i++) {
        sum += trial->gram[i * trial->n + i];
    }
    return sum / (double)trial->sample->capacity;
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

/* Whether any class is present in some images and absent from others. */
static bool has_contrast(const struct gamma_sample *sample) {
    bool contrast = false;
    for (size_t k = 0; k < sample->classes; k++) {
        size_t shown = 0;
        for (size_t i = 0; i < sample->capacity; i++) {
            shown += sample_targets(sample)[k * sample->rows + i * view_rows(sample->views)] != 0;
        }
        contrast = contrast || (shown && shown < sample->capacity);
    }
    return contrast;
}

l3a_status choose_gamma(struct block *rows, const struct gamma_sample *sample, double *gamma) {
    l3a_context *context = rows->context;
    l3a_status status = L3A_OK;
    struct trial trial = {.context = context, .sample = sample, .n = sample->rows, .each = view_rows(sample->views)};
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
    const double chosen =
        two_digits(sample->capacity < FEW || !has_contrast(sample) ? 0.1 * mean_diagonal(&trial) : descend(&trial));
    FAIL_IF(!(isfinite(chosen) && chosen > 0), context, L3A_ERROR_NUMERIC, "give a number for gamma, or scale the features",
            "no gamma can be chosen from these features");
    *gamma = chosen;
done:
    release(context, trial.gram);
    arrays_release(context, making, MAKING);
    arrays_release(context, trying, TRYING);
    return status;
}
