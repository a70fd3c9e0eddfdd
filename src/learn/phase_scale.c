#include "learn/phase_scale.h"

#include "base/threads.h"
#include "data/features.h"
#include "learn/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Rows of features that several threads look at: ‖z‖² of each, in an order of its own, so that it does not depend on the threads.
 * It is finite if all numbers are, since a square of a float cannot exceed a double. */
enum { LOOKED_AT = 4096 };
struct look {
    const float *features;
    size_t width;
    double squares[LOOKED_AT];
};

static void look_at_rows(void *argument, size_t first, size_t last) {
    enum { LANES = 8 };
    struct look *look = argument;
    const size_t k = look->width;
    for (size_t i = first; i < last; i++) {
        const float *row = look->features + i * k;
        double lanes[LANES] = {0}, sum = 0;
        size_t j = 0;
        for (; j + LANES <= k; j += LANES) {
            for (size_t lane = 0; lane < LANES; lane++) {
                lanes[lane] += (double)row[j + lane] * (double)row[j + lane];
            }
        }
        for (; j < k; j++) {
            sum += (double)row[j] * (double)row[j];
        }
        for (size_t lane = 0; lane < LANES; lane++) {
            sum += lanes[lane];
        }
        look->squares[i] = sum;
    }
}

static l3a_status fail_non_finite(const l3a_model *model, const float *features, size_t row) {
    const size_t each = model_image(model),
                 bad = row * model->width + find_non_finite(1, features + row * model->width, model->width);
    return fail(model->context, L3A_ERROR_DATA, "omit the row, or compute its features again",
                "row %zu, column %zu: the feature is %s", bad / each, bad % each,
                isnan(features[bad]) ? "not a number (NaN)" : "infinite");
}

static void keep_largest(struct feature_scale *scale, const float *row, size_t width, uint64_t image) {
    scale->column = 0;
    for (size_t j = 0; j < width; j++) {
        scale->column = fabsf(row[j]) > fabsf(row[scale->column]) ? j : scale->column;
    }
    scale->row = image;
    scale->value = row[scale->column];
}

l3a_status measure_features(const l3a_model *model, const float *features, size_t images, struct feature_scale *scale) {
    enum { PART = 1 << 15 };
    const size_t k = model->width, each = image_rows(model), rows = images * each;
    l3a_status status = L3A_OK;
    struct look look;
    for (size_t first = 0; first < rows; first += LOOKED_AT) {
        const size_t n = rows - first < LOOKED_AT ? rows - first : LOOKED_AT;
        size_t largest = n;
        look.features = features + first * k;
        look.width = k;
        parallel_for(model->context->threads, n, k < PART ? PART / k : 1, look_at_rows, &look);
        for (size_t i = 0; i < n; i++) {
            if (!isfinite(look.squares[i])) {
                TRY(fail_non_finite(model, features, first + i));
            }
            scale->sum += look.squares[i];
            if (look.squares[i] > scale->largest) {
                scale->largest = look.squares[i];
                largest = i;
            }
        }
        if (largest < n) {
            keep_largest(scale, look.features + largest * k, k, (scale->rows + largest) / each);
        }
        scale->rows += n;
    }
done:
    return status;
}

/* d ‖z‖²/6k, since half of the numbers pass the ReLU and the entries of B have variance 1/3k; and ‖z‖² of the features beside them.
 */
double largest_square(const l3a_model *model, const struct feature_scale *scale) {
    const double share = (double)model->options.dim / (6 * (double)model->width) + (model_dim(model) > model->options.dim ? 1 : 0);
    return share * scale->largest;
}

/* If one row is far larger than all others, and γ is below the rounding error that it causes, nothing of the others is left in the
 * sums. */
l3a_status check_scale(const l3a_model *model, const struct feature_scale *scale) {
    const struct phase_source *source = &model->phase.source;
    l3a_status status = L3A_OK;
    char where[64] = "";
    const double k = (double)model->width, others = fmax(0, scale->sum - scale->largest) / (double)(scale->rows - 1);
    if (scale->rows < 2 || scale->largest <= 1e6 * others || ridge_is_safe(&model->evidence->ridge, largest_square(model, scale))) {
        return L3A_OK;
    }
    snprintf(where, sizeof where, "row %" PRIu64 "%s", source->table ? (uint64_t)source->rows[scale->row] : scale->row,
             source->table ? "" : " of the phase");
    FAIL_IF(true, model->context, L3A_ERROR_DATA, "omit the row, or compute its features again",
            "%s%s%s, column %zu: the feature is %.3g, but those of other rows are about %.1g, and nothing would be left of them in "
            "the sums",
            source->table ? source->table->path : "", source->table ? ": " : "", where, scale->column, (double)scale->value,
            sqrt(others / k));
done:
    return status;
}
