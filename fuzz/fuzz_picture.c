/* Pictures: reading any bytes gives a picture within the limit or an error; turning a picture upright keeps its number of pixels.
 */
#include "fuzz.h"

/* What decoders of HEIC and AVIF leave behind on errors, a few bytes, cannot be freed from here. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libdav1d\nleak:libaom\nleak:libde265\nleak:libheif\n";
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    size_t pixels[2] = {0, 0};
    for (int orient = 0; orient < 2; orient++) {
        const l3a_picture_options options = {.size = sizeof options, .pixel_limit = 1 << 16, .orient = orient};
        l3a_picture picture = {.size = sizeof picture};
        if (l3a_picture_read(context, "picture", &options, &picture) == L3A_OK) {
            pixels[orient] = picture.width * picture.height;
            must(pixels[orient] > 0 && pixels[orient] <= options.pixel_limit);
        }
        l3a_picture_free(context, &picture);
    }
    must(pixels[0] == pixels[1]);
    l3a_context_free(context);
    return 0;
}
