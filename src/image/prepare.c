#include "image/prepare.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { CHANNELS = 3 };

l3a_status check_loader_options(l3a_context *context, const l3a_loader_options *options) {
    l3a_status status = L3A_OK;
    TRY(resize_check(context, options->width, options->height, options->filter));
    FAIL_IF(!views_known(options->views), context, L3A_ERROR_ARGUMENT, "use 1, 5, 9 or 14", "pictures cannot have %zu views",
            options->views);
    for (size_t c = 0; c < CHANNELS; c++) {
        FAIL_IF(!isfinite(options->mean[c]) || !isfinite(options->deviation[c]) || options->deviation[c] <= 0, context,
                L3A_ERROR_ARGUMENT, NULL, "mean %g and deviation %g of channel %zu: the deviation must be above 0, and both finite",
                (double)options->mean[c], (double)options->deviation[c], c);
    }
done:
    return status;
}

void preparer_start(l3a_context *context, const l3a_loader_options *options, struct preparer *preparer) {
    *preparer = (struct preparer){
        .options = *options, .reader = {.context = context}, .resizer = {.context = context, .kernels = picture_kernels()}};
    for (size_t c = 0; c < CHANNELS; c++) {
        preparer->scale[c] = (float)(1 / (255 * (double)options->deviation[c]));
        preparer->offset[c] = (float)(-(double)options->mean[c] / (double)options->deviation[c]);
    }
}

static l3a_status copy_crop(struct preparer *preparer, const struct raster *picture, struct view_box box) {
    l3a_status status = L3A_OK;
    TRY(raster_shape(preparer->reader.context, &preparer->crop, box.width, box.height));
    for (size_t y = 0; y < box.height; y++) {
        memcpy(preparer->crop.pixels + CHANNELS * box.width * y,
               picture->pixels + CHANNELS * (picture->width * (box.top + y) + box.left), CHANNELS * box.width);
    }
done:
    return status;
}

static l3a_status fit(struct preparer *preparer, const struct raster *picture, struct raster *resized) {
    const l3a_loader_options *options = &preparer->options;
    const size_t views = view_rows(options->views), bytes = CHANNELS * options->width * options->height;
    l3a_status status = L3A_OK;
    TRY(raster_shape(preparer->reader.context, resized, options->width, views * options->height));
    for (size_t i = 0; i < views; i++) {
        struct raster view = {.pixels = resized->pixels + i * bytes, .capacity = bytes};
        if (i) {
            TRY(copy_crop(preparer, picture, view_box(options->views, i, picture->width, picture->height)));
        }
        TRY(resize(&preparer->resizer, i ? &preparer->crop : picture, options->width, options->height, options->filter, &view));
    }
done:
    return status;
}

static void trim(struct preparer *preparer) {
    picture_reader_trim(&preparer->reader);
    raster_trim(preparer->reader.context, &preparer->crop);
    resizer_trim(&preparer->resizer);
}

l3a_status preparer_read(struct preparer *preparer, const struct picture_source *source, struct raster *resized) {
    struct raster *picture;
    l3a_status status = L3A_OK;
    TRY(picture_reader_read(&preparer->reader, source, preparer->options.picture, &picture));
    TRY(fit(preparer, picture, resized));
done:
    trim(preparer);
    return status;
}

l3a_status preparer_take(struct preparer *preparer, size_t width, size_t height, const uint8_t *pixels, struct raster *resized) {
    struct raster picture = {0};
    l3a_status status = L3A_OK;
    TRY(raster_shape(preparer->reader.context, &picture, width, height));
    memcpy(picture.pixels, pixels, CHANNELS * width * height);
    TRY(fit(preparer, &picture, resized));
done:
    raster_free(preparer->reader.context, &picture);
    trim(preparer);
    return status;
}

void preparer_deliver(const struct preparer *preparer, const struct raster *resized, float *planes) {
    const size_t views = view_rows(preparer->options.views), pixels = resized->width * resized->height / views;
    for (size_t i = 0; i < views; i++, planes += CHANNELS * pixels) {
        float *const to[CHANNELS] = {planes, planes + pixels, planes + 2 * pixels};
        preparer->resizer.kernels->planes(resized->pixels + i * CHANNELS * pixels, pixels, preparer->scale, preparer->offset, to);
    }
}

void preparer_free(struct preparer *preparer) {
    if (preparer->reader.context) {
        raster_free(preparer->reader.context, &preparer->crop);
    }
    picture_reader_free(&preparer->reader);
    resizer_free(&preparer->resizer);
}
