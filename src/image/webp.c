/* WebP decoding with libwebp, to the values that Pillow's convert("RGB") gives: transparency is dropped, and an animation is its
 * first frame, on a black canvas where the frame does not cover it.
 *
 * As with the other formats, a picture with all its pixels is accepted even if the rest of the file is missing. */
#ifdef L3A_HAVE_WEBP
#include "image/picture.h"

#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

enum { CHANNELS = 3 };

static l3a_status fail_damaged(const struct picture_bytes *source, const char *why) {
    return fail(source->context, L3A_ERROR_FORMAT, hint_damaged, "%s: the WebP file cannot be read: %s", source->name, why);
}

/* The frame has all its bytes, so data that ends too early is damage. */
static l3a_status fail_decoding(const struct picture_bytes *source, VP8StatusCode code) {
    switch (code) {
    case VP8_STATUS_OK: return L3A_OK;
    case VP8_STATUS_OUT_OF_MEMORY:
        return fail(source->context, L3A_ERROR_MEMORY, NULL, "%s: no memory for the WebP decoder", source->name);
    case VP8_STATUS_UNSUPPORTED_FEATURE: return fail_damaged(source, "it uses a feature that libwebp does not have");
    default: return fail_damaged(source, "its pixels are damaged");
    }
}

/* Into its place on the canvas. */
static l3a_status decode_frame(const struct picture_bytes *source, const WebPIterator *frame, struct raster *raster) {
    const size_t stride = CHANNELS * raster->width, all = stride * raster->height;
    const size_t start = (size_t)frame->y_offset * stride + CHANNELS * (size_t)frame->x_offset;
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) {
        return fail_damaged(source, "this libwebp is not the one that l3a was built for");
    }
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = raster->pixels + start;
    config.output.u.RGBA.stride = (int)stride;
    config.output.u.RGBA.size = all - start;
    const VP8StatusCode code = WebPDecode(frame->fragment.bytes, frame->fragment.size, &config);
    WebPFreeDecBuffer(&config.output);
    return fail_decoding(source, code);
}

/* The first frame, complete and within a canvas that fits the limit. */
static l3a_status find_frame(const struct picture_bytes *source, const WebPDemuxer *demuxer, WebPDemuxState state,
                             WebPIterator *frame, struct raster *raster) {
    l3a_status status = L3A_OK;
    if (state == WEBP_DEMUX_PARSE_ERROR) {
        return fail_damaged(source, "its parts do not fit together");
    }
    if (state == WEBP_DEMUX_PARSING_HEADER) {
        return fail_cut_short(source, "WebP");
    }
    const uint32_t width = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH), height = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT);
    TRY(check_pixels(source, width, height));
    if (!WebPDemuxGetFrame(demuxer, 1, frame) || !frame->complete) {
        return state == WEBP_DEMUX_DONE ? fail_damaged(source, "it has no picture") : fail_cut_short(source, "WebP");
    }
    if (frame->x_offset < 0 || frame->y_offset < 0 || frame->width < 1 || frame->height < 1 ||
        (uint64_t)frame->x_offset + (uint64_t)frame->width > width ||
        (uint64_t)frame->y_offset + (uint64_t)frame->height > height) {
        return fail_damaged(source, "a frame is larger than the picture");
    }
    TRY(raster_shape(source->context, raster, width, height));
    if ((uint32_t)frame->width < width || (uint32_t)frame->height < height) {
        memset(raster->pixels, 0, CHANNELS * raster->width * raster->height);
    }
done:
    return status;
}

static int orientation_of(const WebPDemuxer *demuxer) {
    WebPChunkIterator chunk = {0};
    const int orientation =
        WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk) ? exif_orientation(chunk.chunk.bytes, chunk.chunk.size) : 1;
    WebPDemuxReleaseChunkIterator(&chunk);
    return orientation;
}

l3a_status webp_decode(const struct picture_bytes *source, struct raster *raster, int *orientation) {
    l3a_status status = L3A_OK;
    const WebPData data = {source->bytes, source->count};
    WebPDemuxState state = WEBP_DEMUX_PARSE_ERROR;
    WebPIterator frame = {0};
    WebPDemuxer *demuxer = WebPDemuxPartial(&data, &state);
    TRY(find_frame(source, demuxer, state, &frame, raster));
    TRY(decode_frame(source, &frame, raster));
    if (source->options.orient) {
        *orientation = orientation_of(demuxer);
    }
done:
    WebPDemuxReleaseIterator(&frame);
    WebPDemuxDelete(demuxer);
    return status;
}
#endif
