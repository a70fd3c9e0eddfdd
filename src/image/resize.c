/* Resizing by convolution, equal to Pillow's resize() byte for byte.
 *
 * One direction takes n samples to m. With the scale s = n / m and the stretch t = max(s, 1), output i has its centre at
 * c = (i + 1/2) s among the inputs, and is the weighted mean of those that the filter f, stretched by t, reaches:
 *
 *     w_j = f((j - c + 1/2) / t),   j from floor(c - r t + 1/2) up to, without, floor(c + r t + 1/2),
 *
 * cut to 0 … n, r being the filter's radius: 1 for the triangle (bilinear), 2 for the cubic with a = -1/2 (bicubic). So a
 * picture that grows is interpolated, and one that shrinks is averaged. The weights are divided by their sum, in double, and
 * rounded, halves away from zero, to fixed point with 22 bits: the widest for which an accumulator of 32 bits cannot
 * overflow with 8-bit samples and a filter whose weights have both signs. The sum, plus one half, is shifted back and cut to
 * 0 … 255.
 *
 * The two directions are separate: first along the rows, into bytes, then down the columns. A direction in which the size
 * stays the same is skipped.
 *
 * Sums of integers do not depend on their order, so the vector loops give the same bytes as the plain ones. A weight has 23
 * bits and a sign, too many for an instruction that multiplies 16-bit numbers and adds neighbours, the fastest there is; so
 * it is split in two parts of which each fits, w = 2^16 h + l, and the two sums are combined at the end.
 *
 * Cost, in multiplications per channel: m · taps for each row of the horizontal pass, and width · taps for each row of the
 * vertical one. */
#include "image/resize.h"

#include "base/memory.h"

#include <string.h>

enum { CHANNELS = 3, SIDE_LIMIT = 1 << 24 };

static double triangle(double x) {
    x = x < 0 ? -x : x;
    return x < 1 ? 1 - x : 0;
}

static double cubic(double x) {
    const double a = -0.5;
    x = x < 0 ? -x : x;
    if (x < 1) {
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    }
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

struct filter {
    double (*value)(double x);
    double radius;
};

static const struct filter filters[] = {[L3A_FILTER_BILINEAR] = {triangle, 1}, [L3A_FILTER_BICUBIC] = {cubic, 2}};

/* The inputs that one output is made from: count of them, from first on. */
struct reach {
    size_t first, count;
    double centre;
};

static struct reach reach_of(const struct axis *axis, const struct filter *filter, size_t index) {
    const double radius = filter->radius * axis->stretch;
    struct reach reach = {.centre = ((double)index + 0.5) * axis->scale};
    const double low = reach.centre - radius + 0.5, high = reach.centre + radius + 0.5;
    const size_t end = high > (double)axis->input ? axis->input : (size_t)high;
    reach.first = low < 0 ? 0 : (size_t)low;
    reach.count = end - reach.first;
    return reach;
}

static int32_t to_fixed(double weight) {
    return (int32_t)(weight * (1 << WEIGHT_BITS) + (weight < 0 ? -0.5 : 0.5));
}

static void split(struct axis *axis) {
    for (size_t i = 0; i < axis->output * axis->taps; i++) {
        axis->high[i] = (int16_t)((axis->weight[i] + (1 << (LOW_BITS - 1))) >> LOW_BITS);
        axis->low[i] = (int16_t)(axis->weight[i] - axis->high[i] * (1 << LOW_BITS));
        axis->high8[i] = (int8_t)axis->high[i];
    }
}

static void axis_free(l3a_context *context, struct axis *axis) {
    release(context, axis->first);
    release(context, axis->weight);
    release(context, axis->table);
    memset(axis, 0, sizeof *axis);
}

static l3a_status axis_allocate(l3a_context *context, struct axis *axis, const struct filter *filter) {
    l3a_status status = L3A_OK;
    uint64_t count;
    for (size_t i = 0; i < axis->output; i++) {
        const struct reach reach = reach_of(axis, filter, i);
        axis->taps = reach.count > axis->taps ? reach.count : axis->taps;
    }
    axis->taps += axis->taps % 2;
    FAIL_IF(!multiply_sizes(axis->output, axis->taps, &count), context, L3A_ERROR_MEMORY, "ask for a smaller picture",
            "the weights for a side of %zu pixels do not fit in memory", axis->output);
    TRY(allocate(context, axis->output, sizeof *axis->first, &axis->first));
    TRY(allocate_zeroed(context, count, sizeof(int32_t) + 2 * sizeof(int16_t) + sizeof(int8_t), &axis->weight));
    axis->low = (int16_t *)(axis->weight + count);
    axis->high = axis->low + count;
    axis->high8 = (int8_t *)(axis->high + count);
done:
    return status;
}

/* The weights of one output. At the far end of a picture they are shifted so that the padding comes first, where there are
 * pixels. `exact` has room for them. */
static void weigh(struct axis *axis, const struct filter *filter, size_t index, double *exact) {
    const double shrink = 1 / axis->stretch;
    const struct reach reach = reach_of(axis, filter, index);
    double sum = 0;
    for (size_t j = 0; j < reach.count; j++) {
        exact[j] = filter->value(((double)(j + reach.first) - reach.centre + 0.5) * shrink);
        sum += exact[j];
    }
    const size_t latest = axis->input > axis->taps ? axis->input - axis->taps : 0;
    const size_t first = reach.first < latest ? reach.first : latest;
    int32_t *weight = axis->weight + index * axis->taps + (reach.first - first);
    for (size_t j = 0; j < reach.count; j++) {
        weight[j] = to_fixed(sum != 0 ? exact[j] / sum : exact[j]);
    }
    axis->first[index] = (uint32_t)first;
}

static l3a_status axis_make(l3a_context *context, size_t input, size_t output, l3a_filter filter, struct axis *axis) {
    l3a_status status = L3A_OK;
    double *exact = NULL;
    if (axis->first && axis->input == input && axis->output == output && axis->filter == filter) {
        return L3A_OK;
    }
    axis_free(context, axis);
    *axis = (struct axis){.input = input, .output = output, .filter = filter, .scale = (double)input / (double)output};
    axis->stretch = axis->scale > 1 ? axis->scale : 1;
    TRY(axis_allocate(context, axis, &filters[filter]));
    TRY(allocate(context, axis->taps, sizeof *exact, &exact));
    for (size_t i = 0; i < output; i++) {
        weigh(axis, &filters[filter], i, exact);
    }
    split(axis);
done:
    release(context, exact);
    if (status != L3A_OK) {
        axis_free(context, axis);
    }
    return status;
}

/* The same for the horizontal pass, whose loops may want the weights in an order of their own. */
static l3a_status axis_make_across(const struct resizer *resizer, size_t input, size_t output, l3a_filter filter,
                                   struct axis *axis) {
    l3a_status status = L3A_OK;
    const kernel_table *kernels = resizer->kernels;
    const bool fresh = !axis->first || axis->input != input || axis->output != output || axis->filter != filter;
    TRY(axis_make(resizer->context, input, output, filter, axis));
    const size_t bytes = fresh && kernels->table_size ? kernels->table_size(axis) : 0;
    if (bytes) {
        TRY(allocate_zeroed(resizer->context, bytes, 1, &axis->table));
        kernels->fill_table(axis);
    }
done:
    if (status != L3A_OK) {
        axis_free(resizer->context, axis);
    }
    return status;
}

/* Two rows that are safe to read past the end; the last rows of the picture are copied to make that so. */
struct row_pair {
    const uint8_t *rows[2];
    uint8_t *copies[2];
    size_t reads;
};

static void choose_rows(struct row_pair *pair, const struct raster *from, size_t y) {
    const size_t stride = CHANNELS * from->width, all = stride * from->height;
    for (size_t i = 0; i < 2; i++) {
        const size_t start = (y + i < from->height ? y + i : y) * stride;
        pair->rows[i] = from->pixels + start;
        if (pair->reads > all - start) {
            memcpy(pair->copies[i], from->pixels + start, stride);
            pair->rows[i] = pair->copies[i];
        }
    }
}

static l3a_status pass_across(const struct resizer *resizer, const struct raster *from, const struct axis *axis,
                              struct raster *to) {
    l3a_status status = L3A_OK;
    const size_t taps_end = (size_t)axis->first[axis->output - 1] + axis->taps;
    const size_t width = taps_end > from->width ? taps_end : from->width;
    struct row_pair pair = {.reads = CHANNELS * width + GUARD};
    TRY(raster_shape(resizer->context, to, axis->output, from->height));
    TRY(allocate_zeroed(resizer->context, pair.reads, 2, &pair.copies[0]));
    pair.copies[1] = pair.copies[0] + pair.reads;
    for (size_t y = 0; y < from->height; y += 2) {
        uint8_t *row = to->pixels + CHANNELS * to->width * y;
        uint8_t *const rows[2] = {row, y + 1 < from->height ? row + CHANNELS * to->width : row};
        choose_rows(&pair, from, y);
        resizer->kernels->across(axis, pair.rows, rows);
    }
done:
    release(resizer->context, pair.copies[0]);
    return status;
}

static l3a_status pass_down(const struct resizer *resizer, const struct raster *from, const struct axis *axis, struct raster *to) {
    l3a_status status = L3A_OK;
    const size_t stride = CHANNELS * from->width;
    TRY(raster_shape(resizer->context, to, from->width, axis->output));
    for (size_t y = 0; y < axis->output; y++) {
        resizer->kernels->down(axis, y, from->pixels, stride, to->pixels + y * stride);
    }
done:
    return status;
}

l3a_status resize_check(l3a_context *context, size_t width, size_t height, l3a_filter filter) {
    l3a_status status = L3A_OK;
    FAIL_IF(!width || !height || width > SIDE_LIMIT || height > SIDE_LIMIT, context, L3A_ERROR_ARGUMENT,
            "ask for a size such as 224 x 224", "a picture cannot have %zu x %zu pixels", width, height);
    FAIL_IF((unsigned)filter >= sizeof filters / sizeof filters[0], context, L3A_ERROR_ARGUMENT,
            "use L3A_FILTER_BILINEAR or L3A_FILTER_BICUBIC", "there is no filter %d", (int)filter);
done:
    return status;
}

l3a_status resize(struct resizer *resizer, const struct raster *from, size_t width, size_t height, l3a_filter filter,
                  struct raster *to) {
    l3a_status status = L3A_OK;
    l3a_context *context = resizer->context;
    struct axis *x = &resizer->x[from->width % AXES], *y = &resizer->y[from->height % AXES];
    const bool across = width != from->width, down = height != from->height;
    TRY(resize_check(context, from->width, from->height, filter));
    if (across) {
        TRY(axis_make_across(resizer, from->width, width, filter, x));
    }
    if (down) {
        TRY(axis_make(context, from->height, height, filter, y));
    }
    if (across && down) {
        TRY(pass_across(resizer, from, x, &resizer->between));
        TRY(pass_down(resizer, &resizer->between, y, to));
    } else if (across) {
        TRY(pass_across(resizer, from, x, to));
    } else if (down) {
        TRY(pass_down(resizer, from, y, to));
    } else {
        TRY(raster_shape(context, to, width, height));
        memcpy(to->pixels, from->pixels, CHANNELS * width * height);
    }
done:
    return status;
}

/* A side this large is rare, so its weights are not kept. */
void resizer_trim(struct resizer *resizer) {
    enum { SIDE_KEPT = 8192 };
    for (size_t i = 0; i < AXES; i++) {
        if (resizer->x[i].input > SIDE_KEPT) {
            axis_free(resizer->context, &resizer->x[i]);
        }
        if (resizer->y[i].input > SIDE_KEPT) {
            axis_free(resizer->context, &resizer->y[i]);
        }
    }
    raster_trim(resizer->context, &resizer->between);
}

void resizer_free(struct resizer *resizer) {
    if (resizer->context) {
        for (size_t i = 0; i < AXES; i++) {
            axis_free(resizer->context, &resizer->x[i]);
            axis_free(resizer->context, &resizer->y[i]);
        }
        raster_free(resizer->context, &resizer->between);
    }
}
