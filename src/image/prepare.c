#include "image/prepare.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { CHANNELS = 3 };

/* The shorter side of a picture before its centre is cut out. */
static double resized_side(const l3a_loader_options *options) {
    return floor((double)options->width / options->crop);
}

/* Where `size` pixels in the middle of `whole` begin. */
static size_t centre(const l3a_loader_options *options, size_t whole, size_t size) {
    const size_t rest = whole - size;
    return rest / 2 + (!(options->crop_rules & L3A_CROP_DOWN) && rest % 4 == 3);
}

/* All of a part of a picture. */
static struct window whole(const l3a_loader_options *options, struct view_box part) {
    return (struct window){options->width, options->height, 0, 0, options->width, options->height, part};
}

struct window preparer_window(const l3a_loader_options *options, size_t width, size_t height) {
    struct window window = whole(options, (struct view_box){.width = width, .height = height});
    if (options->crop > 0) {
        const size_t shorter = width < height ? width : height, side = (size_t)resized_side(options);
        const bool squashed = options->crop_rules & L3A_CROP_SQUASHED;
        window.whole_width = squashed ? side : (size_t)((double)(side * width) / (double)shorter);
        window.whole_height = squashed ? side : (size_t)((double)(side * height) / (double)shorter);
        window.left = centre(options, window.whole_width, options->width);
        window.top = centre(options, window.whole_height, options->height);
    }
    return window;
}

static l3a_status check_crop(l3a_context *context, const l3a_loader_options *options) {
    l3a_status status = L3A_OK;
    if (options->crop == 0) {
        return L3A_OK;
    }
    FAIL_IF(!(options->crop > 0 && options->crop <= 1), context, L3A_ERROR_ARGUMENT,
            "use a number above 0 and up to 1, such as 0.875, or 0 for the whole picture",
            "a picture cannot be cropped to %g of itself", options->crop);
    FAIL_IF(options->crop_rules & ~(L3A_CROP_SQUASHED | L3A_CROP_DOWN), context, L3A_ERROR_ARGUMENT, "use a sum of l3a_crop_rule",
            "there are no crop rules %d", options->crop_rules);
    FAIL_IF(options->width != options->height, context, L3A_ERROR_ARGUMENT, "use equal sides, or no crop",
            "the centre of a picture is a square, and %zu x %zu pixels are not", options->width, options->height);
    FAIL_IF(!(resized_side(options) <= SIDE_LIMIT), context, L3A_ERROR_ARGUMENT, "use a larger crop, such as 0.875",
            "the crop %g of %zu pixels: a picture cannot be resized to %g", options->crop, options->width, resized_side(options));
done:
    return status;
}

l3a_status check_loader_options(l3a_context *context, const l3a_loader_options *options) {
    l3a_status status = L3A_OK;
    TRY(resize_check(context, options->width, options->height, options->filter));
    TRY(check_crop(context, options));
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

static l3a_status copy_view(struct preparer *preparer, const struct raster *picture, struct view_box box) {
    l3a_status status = L3A_OK;
    TRY(raster_shape(preparer->reader.context, &preparer->view, box.width, box.height));
    for (size_t y = 0; y < box.height; y++) {
        memcpy(preparer->view.pixels + CHANNELS * box.width * y,
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
        const struct raster *from = i ? &preparer->view : picture;
        if (i) {
            TRY(copy_view(preparer, picture, view_box(options->views, i, picture->width, picture->height)));
        }
        struct window window = preparer_window(options, from->width, from->height);
        const struct changes changes =
            augmentation_draw(&preparer->augmentation, preparer->seed, from->width, from->height, options->width, options->height);
        if (preparer->augmentation.most > 0) {
            window = whole(options, changes.part);
        }
        TRY(resize_window(&preparer->resizer, from, &window, options->filter, &view));
        TRY(changes_apply(preparer->reader.context, &changes, view.pixels, view.width, view.height));
    }
done:
    return status;
}

static void trim(struct preparer *preparer) {
    picture_reader_trim(&preparer->reader);
    raster_trim(preparer->reader.context, &preparer->view);
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
        raster_free(preparer->reader.context, &preparer->view);
    }
    picture_reader_free(&preparer->reader);
    resizer_free(&preparer->resizer);
}
