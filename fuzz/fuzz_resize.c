/* Resizing: the vector loops give the same bytes as the plain ones. The input is four sizes, a filter, and pixels, which repeat. */
#include "fuzz.h"

#include "image/resize.h"

#include <string.h>

static struct raster resized(l3a_context *context, const kernel_table *kernels, const struct raster *from, const uint8_t *sizes) {
    struct resizer resizer = {.context = context, .kernels = kernels};
    struct raster to = {0};
    const l3a_filter filter = sizes[4] % 2 ? L3A_FILTER_BICUBIC : L3A_FILTER_BILINEAR;
    must(resize(&resizer, from, sizes[2] + 1u, sizes[3] + 1u, filter, &to) == L3A_OK);
    resizer_free(&resizer);
    return to;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    enum { SIZES = 5 };
    if (count <= SIZES) {
        return 0;
    }
    l3a_context *context = context_over(bytes, count);
    struct raster from = {0};
    must(raster_shape(context, &from, bytes[0] + 1u, bytes[1] + 1u) == L3A_OK);
    for (size_t i = 0; i < 3 * from.width * from.height; i++) {
        from.pixels[i] = bytes[SIZES + i % (count - SIZES)];
    }
    const kernel_table *tables[KERNEL_TABLES];
    struct raster plain = resized(context, &plain_kernels, &from, bytes);
    for (size_t i = picture_kernels_usable(tables); i-- > 1;) {
        struct raster vector = resized(context, tables[i], &from, bytes);
        must(memcmp(plain.pixels, vector.pixels, 3 * plain.width * plain.height) == 0);
        raster_free(context, &vector);
    }
    raster_free(context, &from);
    raster_free(context, &plain);
    l3a_context_free(context);
    return 0;
}
