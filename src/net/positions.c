/* Learned positions are a picture of `old` x `old` pixels, which is resized by a bicubic filter in both directions, one after the
 * other: to[y][x] = Σ_v w[y][v] Σ_u w[x][u] from[v][u]. Pixel i of the new picture lies at
 *     c = (i + ½) · s − ½,  s = old / new
 * of the old one, or, with DINOv2's offset, s = old / (new + 0.1): it was once added so that rounding could not lose a pixel, and
 * the networks were trained with it. With the kernel
 *     k(t) = (a + 2)|t|³ − (a + 3)t² + 1 for |t| < 1,  a|t|³ − 5a t² + 8a|t| − 4a for |t| < 2,  otherwise 0,
 * the weights are
 *     offset       k(u − c) of the four pixels around c, where those beyond the edge are the pixel at the edge; a = −¾
 *     antialiased  k((u − c) / max(s, 1)) of the pixels that there are, divided by their sum; a = −½
 * as in PyTorch's interpolate() without and with `antialias`. Weights and sums are in double precision; PyTorch's are float32. */
#include "net/positions.h"
#include "base/memory.h"

#include <math.h>

static double cubic(double t, double a) {
    t = fabs(t);
    return t < 1 ? ((a + 2) * t - (a + 3)) * t * t + 1 : t < 2 ? ((t - 5) * t + 8) * t * a - 4 * a : 0;
}

static void weigh_four(double scale, size_t at, size_t count, double *weights) {
    const double centre = scale * ((double)at + 0.5) - 0.5, first = floor(centre) - 1;
    for (int i = 0; i < 4; i++) {
        const double pixel = first + i, nearest = fmin(fmax(pixel, 0), (double)(count - 1));
        weights[(size_t)nearest] += cubic(pixel - centre, -0.75);
    }
}

static void weigh_all(double scale, size_t at, size_t count, double *weights) {
    const double centre = scale * ((double)at + 0.5) - 0.5, wide = fmax(scale, 1);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        weights[i] = cubic(((double)i - centre) / wide, -0.5);
        sum += weights[i];
    }
    for (size_t i = 0; i < count; i++) {
        weights[i] /= sum;
    }
}

/* sums[i] = Σ_u weights[u] · from[u][i] */
static void add_rows(const double *weights, const double *from, size_t rows, size_t width, double *sums) {
    for (size_t i = 0; i < width; i++) {
        sums[i] = 0;
    }
    for (size_t u = 0; u < rows; u++) {
        for (size_t i = 0; weights[u] != 0 && i < width; i++) {
            sums[i] += weights[u] * from[u * width + i];
        }
    }
}

l3a_status positions_resize(l3a_context *context, const float *from, size_t channels, size_t old_side, size_t new_side,
                            enum positions_method method, float *to) {
    const double across = (double)new_side + (method == POSITIONS_OFFSET ? 0.1 : 0), scale = (double)old_side / across;
    double *weights = NULL, *row = NULL, *narrowed = NULL, *sums = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, new_side * old_side, sizeof *weights, &weights));
    TRY(allocate(context, old_side * channels, sizeof *row, &row));
    TRY(allocate(context, old_side * new_side * channels, sizeof *narrowed, &narrowed));
    TRY(allocate(context, new_side * channels, sizeof *sums, &sums));
    for (size_t i = 0; i < new_side; i++) {
        (method == POSITIONS_ANTIALIASED ? weigh_all : weigh_four)(scale, i, old_side, weights + i * old_side);
    }
    for (size_t v = 0; v < old_side; v++) {
        for (size_t i = 0; i < old_side * channels; i++) {
            row[i] = (double)from[v * old_side * channels + i];
        }
        for (size_t x = 0; x < new_side; x++) {
            add_rows(weights + x * old_side, row, old_side, channels, narrowed + (v * new_side + x) * channels);
        }
    }
    for (size_t y = 0; y < new_side; y++) {
        add_rows(weights + y * old_side, narrowed, old_side, new_side * channels, sums);
        for (size_t i = 0; i < new_side * channels; i++) {
            to[y * new_side * channels + i] = (float)sums[i];
        }
    }
done:
    release(context, weights);
    release(context, row);
    release(context, narrowed);
    release(context, sums);
    return status;
}
