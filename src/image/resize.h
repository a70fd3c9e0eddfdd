/* Resizing as Pillow does. The pixel loops are a table with three implementations: plain C, AVX2 and AVX-512. */
#ifndef L3A_RESIZE_H
#define L3A_RESIZE_H

#include "base/views.h"
#include "image/picture.h"

enum { SIDE_LIMIT = 1 << 24 }; /* pixels of a side */

/* A part of a picture is resized to whole_width x whole_height, and of that only these pixels are wanted. What surrounds the part
 * counts at its edges, as in Pillow's resize(box=…). A part of width 0 is the whole picture. */
struct window {
    size_t whole_width, whole_height, left, top, width, height;
    struct view_box part;
};

/* One direction: of the inputs, `span` from `from` on become `whole` outputs. Of these, `output` are made, from `start` on, and for
 * them the inputs from `origin` on are used.
 * Counted from there, output i is the sum of inputs first[i] … first[i] + taps - 1, each times its weight, in units of 1 /
 * 2^WEIGHT_BITS. taps is even and the same for all; where fewer inputs count, the other weights are 0. */
enum { WEIGHT_BITS = 22, LOW_BITS = 16, GUARD = 64 };

struct axis {
    size_t input, from, span, whole, start, output, origin, taps;
    l3a_filter filter;
    double scale, stretch; /* span / whole; the stretch is at least 1 */
    uint32_t *first;
    int32_t *weight;     /* [output x taps] */
    int16_t *low, *high; /* weight = high · 2^LOW_BITS + low, -2^15 <= low < 2^15 */
    int8_t *high8;       /* high, which is that small */
    uint8_t *table;      /* of the kernels' own, for the horizontal pass; may be NULL */
};

typedef struct kernel_table {
    /* Two rows of RGB at a time, from the axis' origin on; they may be the same row. Reads up to GUARD bytes past the last tap. */
    void (*across)(const struct axis *axis, const uint8_t *const from[2], uint8_t *const to[2]);
    /* Row `index` of the output, `count` bytes, from the rows of `from`, the axis' origin and on, which are as long. */
    void (*down)(const struct axis *axis, size_t index, const uint8_t *from, size_t count, uint8_t *to);
    /* Both or neither: the bytes that an axis needs for `across`, 0 for none, and filling them. */
    size_t (*table_size)(const struct axis *axis);
    void (*fill_table)(struct axis *axis);
    /* planes[c][i] = pixels[3 i + c] · scale[c] + offset[c] */
    void (*planes)(const uint8_t *pixels, size_t count, const float scale[3], const float offset[3], float *const planes[3]);
} kernel_table;

/* With more, the sum of the weights' low parts could overflow where `down` keeps the parts separate. */
enum { DOWN_TAPS_LIMIT = 256, KERNEL_TABLES = 3 };

extern const kernel_table plain_kernels, avx2_kernels, avx512_kernels;
/* The tables this processor can use, slowest first, and their number. */
size_t picture_kernels_usable(const kernel_table *tables[KERNEL_TABLES]);
/* The fastest of them. */
const kernel_table *picture_kernels(void);

/* A prime, so that a picture of 640 pixels and its crops of 384 and 288 have slots of their own. */
enum { AXES = 61 };

/* One thread's buffers. Start from zeroes, with a context and kernels set. */
struct resizer {
    l3a_context *context;
    const kernel_table *kernels;
    struct axis x[AXES], y[AXES]; /* weights of recent sizes, indexed by them modulo AXES: data sets have few distinct sizes */
    struct raster between;        /* after the horizontal pass */
    size_t strip_limit;           /* bytes that this has at most, if one row of the result needs no more; 0: 64 MiB */
};

l3a_status resize_check(l3a_context *context, size_t width, size_t height, l3a_filter filter);
/* `to` may already have memory; it must not be `from`. */
l3a_status resize(struct resizer *resizer, const struct raster *from, size_t width, size_t height, l3a_filter filter,
                  struct raster *to);
/* The same bytes as resizing all of it and then cutting out the window, which lies inside; at the cost of the window. */
l3a_status resize_window(struct resizer *resizer, const struct raster *from, const struct window *window, l3a_filter filter,
                         struct raster *to);
void resizer_trim(struct resizer *resizer);
void resizer_free(struct resizer *resizer);

#endif
