/* Videos, RAW files and pictures of other formats by the endings of their names, and RAW files that are TIFF files by the camera's
 * maker. */
#include "base/exif.h"
#include "base/picture_kind.h"

#include <string.h>
#include <strings.h>

struct named {
    const char *name, *reason;
};

static const struct named raw_endings[] = {
    {".cr2", RAW_FILE("Canon CR2")},      {".cr3", RAW_FILE("Canon CR3")},   {".crw", RAW_FILE("Canon CRW")},
    {".nef", RAW_FILE("Nikon NEF")},      {".nrw", RAW_FILE("Nikon NRW")},   {".arw", RAW_FILE("Sony ARW")},
    {".sr2", RAW_FILE("Sony SR2")},       {".srf", RAW_FILE("Sony SRF")},    {".dng", RAW_FILE("DNG")},
    {".raf", RAW_FILE("Fujifilm RAF")},   {".orf", RAW_FILE("Olympus ORF")}, {".ori", RAW_FILE("Olympus ORI")},
    {".rw2", RAW_FILE("Panasonic RW2")},  {".rwl", RAW_FILE("Leica RWL")},   {".pef", RAW_FILE("Pentax PEF")},
    {".srw", RAW_FILE("Samsung SRW")},    {".mrw", RAW_FILE("Minolta MRW")}, {".x3f", RAW_FILE("Sigma X3F")},
    {".3fr", RAW_FILE("Hasselblad 3FR")}, {".fff", RAW_FILE("Hasselblad")},  {".iiq", RAW_FILE("Phase One IIQ")},
    {".mef", RAW_FILE("Mamiya MEF")},     {".mos", RAW_FILE("Leaf MOS")},    {".kdc", RAW_FILE("Kodak KDC")},
    {".dcr", RAW_FILE("Kodak DCR")},      {".erf", RAW_FILE("Epson ERF")},   {".gpr", RAW_FILE("GoPro GPR")},
};

/* What the entry "Make" begins with. */
static const struct named makers[] = {
    {"Canon", RAW_FILE("Canon")},
    {"NIKON", RAW_FILE("Nikon")},
    {"SONY", RAW_FILE("Sony")},
    {"OLYMPUS", RAW_FILE("Olympus")},
    {"OM Digital", RAW_FILE("Olympus")},
    {"Panasonic", RAW_FILE("Panasonic")},
    {"LEICA", RAW_FILE("Leica")},
    {"PENTAX", RAW_FILE("Pentax")},
    {"RICOH", RAW_FILE("Pentax")},
    {"SAMSUNG", RAW_FILE("Samsung")},
    {"Hasselblad", RAW_FILE("Hasselblad")},
    {"Phase One", RAW_FILE("Phase One")},
    {"Mamiya", RAW_FILE("Mamiya")},
    {"Leaf", RAW_FILE("Leaf")},
    {"Kodak", RAW_FILE("Kodak")},
    {"EASTMAN KODAK", RAW_FILE("Kodak")},
    {"SEIKO EPSON", RAW_FILE("Epson")},
    {"FUJIFILM", RAW_FILE("Fujifilm")},
};

static const char *const video_endings[] = {".mp4", ".m4v",  ".mov",  ".qt",   ".avi",  ".mkv",  ".webm", ".3gp",  ".3g2", ".mts",
                                            ".m2t", ".m2ts", ".mpg",  ".mpeg", ".mpe",  ".wmv",  ".asf",  ".flv",  ".f4v", ".ogv",
                                            ".vob", ".dv",   ".divx", ".mxf",  ".rmvb", ".insv", ".lrv",  ".braw", ".r3d"};

#define OTHER_FORMAT(what) what "; convert it to JPEG or PNG"

static const struct named picture_endings[] = {
    {".tif", OTHER_FORMAT("a TIFF picture")},      {".tiff", OTHER_FORMAT("a TIFF picture")},
    {".gif", OTHER_FORMAT("a GIF picture")},       {".bmp", OTHER_FORMAT("a BMP picture")},
    {".psd", OTHER_FORMAT("a Photoshop picture")}, {".jxl", OTHER_FORMAT("a JPEG XL picture")},
    {".jp2", OTHER_FORMAT("a JPEG 2000 picture")},
};

/* Of a name without a dot, "". */
static const char *ending_of(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && !strchr(dot, '/') ? dot : "";
}

static const char *reason_of_raw(const char *ending) {
    for (size_t i = 0; i < sizeof raw_endings / sizeof raw_endings[0]; i++) {
        if (strcasecmp(ending, raw_endings[i].name) == 0) {
            return raw_endings[i].reason;
        }
    }
    return NULL;
}

static const char any_raw[] = "a RAW file; export it as JPEG, or keep the camera's JPEG beside it";

static bool is_any_raw(const char *ending) {
    return strcasecmp(ending, ".raw") == 0;
}

static const char *reason_of_ending(const char *ending) {
    for (size_t i = 0; i < sizeof video_endings / sizeof video_endings[0]; i++) {
        if (strcasecmp(ending, video_endings[i]) == 0) {
            return VIDEO_FILE;
        }
    }
    return is_any_raw(ending) ? any_raw : reason_of_raw(ending);
}

static const char *reason_of_maker(const struct exif *exif) {
    size_t length;
    const char *make = exif_text(exif, exif->first, EXIF_MAKE, &length);
    for (size_t i = 0; make && i < sizeof makers / sizeof makers[0]; i++) {
        const size_t part = strlen(makers[i].name);
        if (length >= part && strncasecmp(make, makers[i].name, part) == 0) {
            return makers[i].reason;
        }
    }
    return NULL;
}

/* A picture that an editor has saved as TIFF names the camera's maker, too, but ends in .tif. */
static const char *reason_of_tiff(const struct exif *exif, const char *ending) {
    const char *reason = reason_of_raw(ending);
    if (!reason && exif_has(exif, exif->first, EXIF_DNG_VERSION)) {
        return RAW_FILE("DNG");
    }
    if (!reason && (!ending[0] || is_any_raw(ending))) {
        reason = reason_of_maker(exif);
    }
    return reason ? reason : is_any_raw(ending) ? any_raw : NULL;
}

/* Only if there is nothing else to go by. */
static const char *reason_of_picture(const char *ending) {
    for (size_t i = 0; i < sizeof picture_endings / sizeof picture_endings[0]; i++) {
        if (strcasecmp(ending, picture_endings[i].name) == 0) {
            return picture_endings[i].reason;
        }
    }
    return NULL;
}

const char *other_media(const char *name, const void *bytes, size_t count) {
    const struct picture_kind *kind = picture_kind_of(bytes, bytes ? count : 0);
    const char *ending = ending_of(name), *reason = NULL;
    struct exif exif;
    if (kind->unclear) {
        reason = bytes && exif_open(bytes, count, &exif) ? reason_of_tiff(&exif, ending)
                 : kind->other                           ? reason_of_raw(ending)
                                                         : reason_of_ending(ending);
    }
    return reason ? reason : bytes ? kind->other : reason_of_picture(ending);
}
