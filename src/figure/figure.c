/* The plug-in for figures: draws SVG with librsvg on a page of PDF or on pixels, by cairo. The same drawing gives the same bytes.
 */
#include "base/plugin.h"

#include <cairo-pdf.h>
#include <librsvg/rsvg.h>

#include <string.h>

/* SVG has 96 pixels per inch, PDF 72 points. Of 12 pixels, the height of a letter is 1/8 inch: 37 dots of 300 per inch. */
enum { PIXELS = 96, POINTS = 72, DOTS = 300, BYTES_AT_LEAST = 1 << 14, PNG_HEAD = 8 + 25 };

struct output {
    l3a_context *context;
    const struct plugin_host *host;
    char *bytes;
    size_t length, capacity;
    l3a_status status;
};

static cairo_status_t append(void *user, const unsigned char *bytes, unsigned count) {
    struct output *output = user;
    if (output->length + count > output->capacity) {
        const size_t capacity = 2 * (output->length + count) + BYTES_AT_LEAST;
        char *larger = NULL;
        output->status = output->host->allocate(output->context, capacity, 1, &larger);
        if (output->status != L3A_OK) {
            return CAIRO_STATUS_WRITE_ERROR;
        }
        if (output->length) {
            memcpy(larger, output->bytes, output->length);
        }
        output->host->release(output->context, output->bytes);
        output->bytes = larger;
        output->capacity = capacity;
    }
    memcpy(output->bytes + output->length, bytes, count);
    output->length += count;
    return CAIRO_STATUS_SUCCESS;
}

/* The size of a dot, which cairo does not write: 11811 per metre. It follows the first chunk. */
static cairo_status_t append_png(void *user, const unsigned char *bytes, unsigned count) {
    static const unsigned char size[] = {0x00, 0x00, 0x00, 0x09, 'p',  'H',  'Y',  's',  0x00, 0x00, 0x2e,
                                         0x23, 0x00, 0x00, 0x2e, 0x23, 0x01, 0x78, 0xa5, 0x3f, 0x76};
    const struct output *output = user;
    const unsigned before = output->length < PNG_HEAD ? (unsigned)(PNG_HEAD - output->length) : 0;
    const bool here = before && count >= before;
    cairo_status_t code = append(user, bytes, here ? before : count);
    if (here && code == CAIRO_STATUS_SUCCESS) {
        code = append(user, size, sizeof size);
    }
    return here && code == CAIRO_STATUS_SUCCESS ? append(user, bytes + before, count - before) : code;
}

/* White, because the drawing may end within the last row or column. */
static cairo_surface_t *open_pixels(int width, int height) {
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
    cairo_t *cairo = cairo_create(surface);
    cairo_set_source_rgb(cairo, 1, 1, 1);
    cairo_paint(cairo);
    cairo_destroy(cairo);
    return surface;
}

static cairo_surface_t *open_surface(enum figure_format format, const char *title, double width, double height,
                                     struct output *output) {
    if (format == FIGURE_PNG) {
        return open_pixels((int)(width * DOTS / PIXELS + 0.5), (int)(height * DOTS / PIXELS + 0.5));
    }
    cairo_surface_t *surface =
        cairo_pdf_surface_create_for_stream(append, output, width * POINTS / PIXELS, height * POINTS / PIXELS);
    cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_TITLE, title);
    cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATOR, "l3a " L3A_VERSION);
    cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE, NULL); /* else two files would never be equal */
    return surface;
}

static bool draw(RsvgHandle *handle, cairo_surface_t *surface, double scale, double width, double height, GError **error) {
    const RsvgRectangle area = {.width = width * scale, .height = height * scale};
    cairo_t *cairo = cairo_create(surface);
    const bool drawn = rsvg_handle_render_document(handle, cairo, &area, error);
    cairo_destroy(cairo);
    return drawn;
}

static l3a_status convert(l3a_context *context, const struct plugin_host *host, enum figure_format format, const char *title,
                          const char *svg, size_t svg_length, char **bytes, size_t *length) {
    struct output output = {.context = context, .host = host};
    GError *error = NULL;
    cairo_surface_t *surface = NULL;
    cairo_status_t code = CAIRO_STATUS_SUCCESS;
    double width, height;
    RsvgHandle *handle = rsvg_handle_new_from_data((const guint8 *)svg, svg_length, &error);
    if (handle && rsvg_handle_get_intrinsic_size_in_pixels(handle, &width, &height)) {
        surface = open_surface(format, title, width, height, &output);
        if (draw(handle, surface, (format == FIGURE_PNG ? DOTS : POINTS) / (double)PIXELS, width, height, &error) &&
            format == FIGURE_PNG) {
            code = cairo_surface_write_to_png_stream(surface, append_png, &output);
        }
        cairo_surface_finish(surface);
        code = code == CAIRO_STATUS_SUCCESS ? cairo_surface_status(surface) : code;
    }
    if (output.status == L3A_OK && (!surface || error || code != CAIRO_STATUS_SUCCESS)) {
        output.status = host->fail(context, L3A_ERROR_FORMAT, "make the figures in SVG", "%s: cannot draw it: %s", title,
                                   error ? error->message : cairo_status_to_string(code));
    }
    if (output.status == L3A_OK) {
        *bytes = output.bytes;
        *length = output.length;
    } else {
        host->release(context, output.bytes);
    }
    cairo_surface_destroy(surface);
    g_clear_error(&error);
    g_clear_object(&handle);
    return output.status;
}

static const struct figure_plugin plugin = {.convert = convert};

L3A_PUBLIC plugin_entry l3a_plugin_figure;

const void *l3a_plugin_figure(uint32_t version) {
    return version == PLUGIN_VERSION ? &plugin : NULL;
}
