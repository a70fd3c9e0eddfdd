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
 * Of a part of the picture, its samples are the n, and the centres lie as far on as it begins; but the weighted means reach over
 * its edges, to those of the picture.
 *
 * Every output has its own inputs and weights, so a window of the result costs what its own pixels need: their columns of the
 * horizontal pass, in the rows that the vertical pass takes for them.
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

enum { CHANNELS = 3 };

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
    struct reach reach = {.centre = (double)axis->from + ((double)(axis->start + index) + 0.5) * axis->scale};
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

/* Whether the weights are those of `wanted`, of which the sizes and the filter count. */
static bool axis_is(const struct axis *axis, const struct axis *wanted) {
    return axis->first && axis->input == wanted->input && axis->from == wanted->from && axis->span == wanted->span &&
           axis->whole == wanted->whole && axis->start == wanted->start && axis->output == wanted->output &&
           axis->filter == wanted->filter;
}

static l3a_status axis_make(l3a_context *context, const struct axis *wanted, struct axis *axis) {
    l3a_status status = L3A_OK;
    const struct filter *filter = &filters[wanted->filter];
    double *exact = NULL;
    axis_free(context, axis);
    *axis = *wanted;
    axis->scale = (double)axis->span / (double)axis->whole;
    axis->stretch = axis->scale > 1 ? axis->scale : 1;
    TRY(axis_allocate(context, axis, filter));
    TRY(allocate(context, axis->taps, sizeof *exact, &exact));
    for (size_t i = 0; i < axis->output; i++) {
        weigh(axis, filter, i, exact);
    }
    axis->origin = axis->first[0];
    for (size_t i = 0; i < axis->output; i++) {
        axis->first[i] -= (uint32_t)axis->origin;
    }
    split(axis);
done:
    release(context, exact);
    if (status != L3A_OK) {
        axis_free(context, axis);
    }
    return status;
}

static struct axis *axis_slot(struct axis axes[AXES], const struct axis *wanted) {
    return &axes[(wanted->input + wanted->whole) % AXES];
}

/* The weights of the vertical pass. */
static l3a_status find_down(struct resizer *resizer, const struct axis *wanted, const struct axis **found) {
    struct axis *axis = axis_slot(resizer->y, wanted);
    *found = axis;
    return axis_is(axis, wanted) ? L3A_OK : axis_make(resizer->context, wanted, axis);
}

/* Those of the horizontal pass, whose loops may want them in an order of their own. */
static l3a_status find_across(struct resizer *resizer, const struct axis *wanted, const struct axis **found) {
    l3a_status status = L3A_OK;
    const kernel_table *kernels = resizer->kernels;
    struct axis *axis = axis_slot(resizer->x, wanted);
    *found = axis;
    if (axis_is(axis, wanted)) {
        return L3A_OK;
    }
    TRY(axis_make(resizer->context, wanted, axis));
    const size_t bytes = kernels->table_size ? kernels->table_size(axis) : 0;
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

/* The inputs from the axis' origin on that its outputs take; taps that are only there to fill up may lie past the last one. */
static size_t inputs_used(const struct axis *axis) {
    return axis->first[axis->output - 1] + axis->taps;
}

/* Two rows that are safe to read past the end; the last rows of the picture are copied to make that so. */
struct row_pair {
    const uint8_t *rows[2];
    uint8_t *copies[2];
    size_t skipped, reads; /* bytes at the beginning of a row, and those that are read after them */
};

static void choose_rows(struct row_pair *pair, const struct raster *from, size_t y) {
    const size_t stride = CHANNELS * from->width, all = stride * from->height;
    for (size_t i = 0; i < 2; i++) {
        const size_t start = (y + i < from->height ? y + i : y) * stride + pair->skipped;
        pair->rows[i] = from->pixels + start;
        if (pair->reads > all - start) {
            memcpy(pair->copies[i], from->pixels + start, stride - pair->skipped);
            pair->rows[i] = pair->copies[i];
        }
    }
}

static l3a_status pass_across(const struct resizer *resizer, const struct raster *from, const struct axis *axis, uint8_t *to) {
    l3a_status status = L3A_OK;
    const size_t left = from->width - axis->origin, used = inputs_used(axis);
    struct row_pair pair = {.skipped = CHANNELS * axis->origin, .reads = CHANNELS * (used > left ? used : left) + GUARD};
    TRY(allocate_zeroed(resizer->context, pair.reads, 2, &pair.copies[0]));
    pair.copies[1] = pair.copies[0] + pair.reads;
    for (size_t y = 0; y < from->height; y += 2) {
        uint8_t *row = to + CHANNELS * axis->output * y;
        uint8_t *const rows[2] = {row, y + 1 < from->height ? row + CHANNELS * axis->output : row};
        choose_rows(&pair, from, y);
        resizer->kernels->across(axis, pair.rows, rows);
    }
done:
    release(resizer->context, pair.copies[0]);
    return status;
}

/* The horizontal pass where the width stays the same: takes `width` columns from `left` on. */
static void copy_columns(const struct raster *from, size_t left, size_t width, uint8_t *to) {
    for (size_t y = 0; y < from->height; y++) {
        memcpy(to + CHANNELS * width * y, from->pixels + CHANNELS * (from->width * y + left), CHANNELS * width);
    }
}

/* Of the picture, rows [first, end). */
static struct raster rows_of(const struct raster *from, size_t first, size_t end) {
    return (struct raster){.width = from->width, .height = end - first, .pixels = from->pixels + CHANNELS * from->width * first};
}

/* The horizontal pass of rows [first, end) to `to`. x: NULL if the width stays the same. */
static l3a_status rows_across(const struct resizer *resizer, const struct raster *from, const struct window *window,
                              const struct axis *x, size_t first, size_t end, uint8_t *to) {
    const struct raster rows = rows_of(from, first, end);
    if (x) {
        return pass_across(resizer, &rows, x, to);
    }
    copy_columns(&rows, window->part.left + window->left, window->width, to);
    return L3A_OK;
}

/* What the horizontal pass has made so far: rows [first, end) of the picture, in resizer->between. */
struct strip {
    size_t first, end;
};

/* Moves the strip on to rows [first, end). Those that it has already are kept. */
static l3a_status move_strip(struct resizer *resizer, const struct raster *from, const struct window *window, const struct axis *x,
                             size_t first, size_t end, struct strip *strip) {
    l3a_status status = L3A_OK;
    struct raster *between = &resizer->between;
    const size_t stride = CHANNELS * window->width;
    if (strip->end <= first || (end - first) * stride > between->capacity) {
        TRY(raster_shape(resizer->context, between, window->width, end - first));
        strip->end = first;
    } else {
        memmove(between->pixels, between->pixels + (first - strip->first) * stride, (strip->end - first) * stride);
    }
    strip->first = first;
    if (end > strip->end) {
        TRY(rows_across(resizer, from, window, x, strip->end, end, between->pixels + (strip->end - first) * stride));
        strip->end = end;
    }
done:
    return status;
}

/* The rows of the window that are made at a time: all of them, unless the picture is so tall that the strip would pass its limit. A
 * file of 32 KB can be a picture of 16 million rows. */
static size_t rows_at_a_time(const struct resizer *resizer, const struct window *window, l3a_filter filter) {
    const double strip_limit = resizer->strip_limit ? (double)resizer->strip_limit : 64 << 20;
    const double scale = (double)window->part.height / (double)window->whole_height;
    const double reach = 2 * filters[filter].radius * (scale > 1 ? scale : 1);
    const double rows = (strip_limit / (double)(CHANNELS * window->width) - reach) / scale;
    return rows < 1 ? 1 : rows < (double)window->height ? (size_t)rows : window->height;
}

/* The horizontal pass, and the vertical one. */
static l3a_status pass_down(struct resizer *resizer, const struct raster *from, const struct window *window, const struct axis *x,
                            l3a_filter filter, struct raster *to) {
    l3a_status status = L3A_OK;
    const bool direct = !x && window->width == from->width;
    const size_t stride = CHANNELS * window->width, step = rows_at_a_time(resizer, window, filter);
    struct strip strip = {0, 0};
    for (size_t done = 0; done < window->height; done += step) {
        const size_t left = window->height - done;
        const struct axis wanted = {.input = from->height,
                                    .from = window->part.top,
                                    .span = window->part.height,
                                    .whole = window->whole_height,
                                    .start = window->top + done,
                                    .output = step < left ? step : left,
                                    .filter = filter};
        const struct axis *y;
        TRY(find_down(resizer, &wanted, &y));
        const size_t end = y->origin + inputs_used(y);
        if (!direct) {
            TRY(move_strip(resizer, from, window, x, y->origin, end < from->height ? end : from->height, &strip));
        }
        const uint8_t *source = direct ? from->pixels + stride * y->origin : resizer->between.pixels;
        for (size_t i = 0; i < y->output; i++) {
            resizer->kernels->down(y, i, source, stride, to->pixels + stride * (done + i));
        }
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

l3a_status resize_window(struct resizer *resizer, const struct raster *from, const struct window *given, l3a_filter filter,
                         struct raster *to) {
    l3a_status status = L3A_OK;
    const struct axis *x = NULL;
    struct window window = *given;
    if (!window.part.width) {
        window.part = (struct view_box){.width = from->width, .height = from->height};
    }
    const struct axis wanted = {.input = from->width,
                                .from = window.part.left,
                                .span = window.part.width,
                                .whole = window.whole_width,
                                .start = window.left,
                                .output = window.width,
                                .filter = filter};
    TRY(resize_check(resizer->context, from->width, from->height, filter));
    if (window.whole_width != window.part.width) {
        TRY(find_across(resizer, &wanted, &x));
    }
    TRY(raster_shape(resizer->context, to, window.width, window.height));
    if (window.whole_height != window.part.height) {
        TRY(pass_down(resizer, from, &window, x, filter, to));
    } else {
        const size_t first = window.part.top + window.top;
        TRY(rows_across(resizer, from, &window, x, first, first + window.height, to->pixels));
    }
done:
    return status;
}

l3a_status resize(struct resizer *resizer, const struct raster *from, size_t width, size_t height, l3a_filter filter,
                  struct raster *to) {
    const struct window all = {.whole_width = width, .whole_height = height, .width = width, .height = height};
    return resize_window(resizer, from, &all, filter, to);
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
