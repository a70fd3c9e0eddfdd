/* A table of the bytes that formats begin with, and rules for those that have no such bytes: the HEIF family and videos share
 * their first box, whose list of brands tells them apart; BMP has only two letters, so its header must make sense, too; drawings
 * and texts are told by their characters. */
#include "base/picture_kind.h"

#include "common/utf8.h"

#include <string.h>

#ifdef L3A_HAVE_WEBP
#define WEBP_REFUSAL NULL
#define CONVERT "convert it to JPEG, PNG or WebP"
#else
#define WEBP_REFUSAL "this build cannot read WebP pictures"
#define CONVERT "convert it to JPEG or PNG"
#endif
#ifdef L3A_HAVE_HEIF
#define HEIC_REFUSAL NULL
#define AVIF_REFUSAL NULL
#else
#define HEIC_REFUSAL "this build cannot read HEIC pictures"
#define AVIF_REFUSAL "this build cannot read AVIF pictures"
#endif
#define OTHER_PICTURE(what)                                                                                                        \
    { .refusal = "this is " what ", which l3a does not read", .hint = CONVERT, .other = what "; " CONVERT }
#define RAW_PICTURE(what)                                                                                                          \
    { .refusal = "this is a camera's RAW picture, which l3a does not read", .hint = CONVERT, .other = RAW_FILE(what) }
#define OTHER_FILE(what, advice)                                                                                                   \
    { .refusal = "this is " what ", not a picture", .hint = advice }

enum kind {
    JPEG,
    PNG,
    WEBP,
    HEIC,
    AVIF,
    GIF,
    BMP,
    TIFF,
    CANON_CR2,
    CANON_CR3,
    CANON_CRW,
    FUJIFILM,
    OLYMPUS,
    PANASONIC,
    SIGMA,
    MINOLTA,
    PSD,
    JPEG_XL,
    JPEG_2000,
    ICON,
    SVG,
    PDF,
    VIDEO,
    SOUND,
    WEB_PAGE,
    XML,
    ARCHIVE,
    LFS_POINTER,
    MAC_COMPANION,
    TEXT,
    ZEROES,
    EMPTY,
    UNKNOWN
};

static const struct picture_kind kinds[] = {
    [JPEG] = {.format = "jpeg"},
    [PNG] = {.format = "png"},
    [WEBP] = {.format = "webp", .refusal = WEBP_REFUSAL, .hint = "convert it to JPEG or PNG, or build l3a with libwebp"},
    [HEIC] = {.format = "heic", .refusal = HEIC_REFUSAL, .hint = CONVERT ", or build l3a with libheif"},
    [AVIF] = {.format = "avif", .refusal = AVIF_REFUSAL, .hint = CONVERT ", or build l3a with libheif"},
    [GIF] = OTHER_PICTURE("a GIF picture"),
    [BMP] = OTHER_PICTURE("a BMP picture"),
    [TIFF] = {.refusal = "this is a TIFF picture or a camera's RAW picture, which l3a does not read",
              .hint = CONVERT,
              .other = "a TIFF picture; " CONVERT,
              .unclear = true},
    [CANON_CR2] = RAW_PICTURE("Canon CR2"),
    [CANON_CR3] = RAW_PICTURE("Canon CR3"),
    [CANON_CRW] = RAW_PICTURE("Canon CRW"),
    [FUJIFILM] = RAW_PICTURE("Fujifilm RAF"),
    [OLYMPUS] = RAW_PICTURE("Olympus ORF"),
    [PANASONIC] = RAW_PICTURE("Panasonic RW2"),
    [SIGMA] = RAW_PICTURE("Sigma X3F"),
    [MINOLTA] = RAW_PICTURE("Minolta MRW"),
    [PSD] = OTHER_PICTURE("a Photoshop picture"),
    [JPEG_XL] = OTHER_PICTURE("a JPEG XL picture"),
    [JPEG_2000] = OTHER_PICTURE("a JPEG 2000 picture"),
    [ICON] = OTHER_PICTURE("an icon"),
    [SVG] = OTHER_PICTURE("an SVG drawing"),
    [PDF] = OTHER_FILE("a PDF document", "save its pages as JPEG or PNG"),
    [VIDEO] = {.refusal = "this is a video, not a picture", .hint = "save a frame of it as JPEG or PNG", .other = VIDEO_FILE},
    [SOUND] = OTHER_FILE("a sound recording", "leave it out"),
    [WEB_PAGE] = OTHER_FILE("a web page", "download the picture itself"),
    [XML] = OTHER_FILE("an XML file", "leave it out"),
    [ARCHIVE] = OTHER_FILE("an archive", "unpack it first"),
    [LFS_POINTER] = OTHER_FILE("a Git LFS pointer", "fetch the picture with git lfs pull"),
    [MAC_COMPANION] = OTHER_FILE("a companion file that macOS puts beside a picture", "leave it out"),
    [TEXT] = OTHER_FILE("a text", "leave it out"),
    [ZEROES] = {.refusal = "the file begins with zeroes, like one that was not copied completely",
                .hint = "copy or download the picture again",
                .unclear = true},
    [EMPTY] = {.refusal = "the file is empty", .hint = "copy or download the picture again", .unclear = true},
    [UNKNOWN] = {.refusal = "this is not a picture of a kind that l3a knows", .hint = CONVERT ", or leave it out", .unclear = true},
};

struct start {
    enum kind kind;
    size_t offset, count;
    const char *bytes;
};

static bool begins(const uint8_t *bytes, size_t count, const struct start *start) {
    return count >= start->offset + start->count && memcmp(bytes + start->offset, start->bytes, start->count) == 0;
}

#define START(kind, offset, bytes)                                                                                                 \
    { kind, offset, sizeof(bytes) - 1, bytes }

static const struct start starts[] = {
    START(JPEG, 0, "\xFF\xD8\xFF"),
    START(PNG, 0, "\x89PNG\r\n\x1A\n"),
    START(GIF, 0, "GIF87a"),
    START(GIF, 0, "GIF89a"),
    START(CANON_CR2, 8, "CR\x02\0"), /* in a TIFF file */
    START(CANON_CRW, 6, "HEAPCCDR"),
    START(FUJIFILM, 0, "FUJIFILMCCD-RAW"),
    START(OLYMPUS, 0, "IIRO"),
    START(OLYMPUS, 0, "IIRS"),
    START(OLYMPUS, 0, "MMOR"),
    START(PANASONIC, 0, "IIU\0"),
    START(SIGMA, 0, "FOVb"),
    START(MINOLTA, 0, "\0MRM"),
    START(TIFF, 0, "II*\0"),
    START(TIFF, 0, "MM\0*"),
    START(TIFF, 0, "II+\0"),
    START(TIFF, 0, "MM\0+"),
    START(PSD, 0, "8BPS"),
    START(JPEG_XL, 0, "\xFF\x0A"),
    START(JPEG_XL, 0, "\0\0\0\x0CJXL \r\n\x87\n"),
    START(JPEG_2000, 0, "\0\0\0\x0CjP  "),
    START(JPEG_2000, 0, "\xFF\x4F\xFF\x51"),
    START(ICON, 0, "\0\0\1\0"),
    START(PDF, 0, "%PDF-"),
    START(VIDEO, 4, "moov"),
    START(VIDEO, 4, "mdat"),
    START(VIDEO, 4, "wide"),
    START(VIDEO, 0, "\x1A\x45\xDF\xA3"),
    START(VIDEO, 0, "\0\0\1\xBA"),
    START(VIDEO, 0, "\0\0\1\xB3"),
    START(VIDEO, 0, "\x30\x26\xB2\x75\x8E\x66\xCF\x11"), /* Windows Media */
    START(VIDEO, 0, "FLV\1"),
    START(VIDEO, 0, "\x06\x0E\x2B\x34\x02\x05\x01\x01"), /* MXF */
    START(ARCHIVE, 0, "PK\x03\x04"),
    START(ARCHIVE, 0, "\x1F\x8B\x08"),
    START(ARCHIVE, 0, "7z\xBC\xAF\x27\x1C"),
    START(ARCHIVE, 0, "Rar!\x1A\x07"),
    START(MAC_COMPANION, 0, "\0\x05\x16\x07"),
    START(LFS_POINTER, 0, "version https://git-lfs"),
};

static bool four(const uint8_t *bytes, const char *letters) {
    return memcmp(bytes, letters, 4) == 0;
}

static enum kind kind_of_riff(const uint8_t *bytes) {
    return four(bytes + 8, "WEBP") ? WEBP : four(bytes + 8, "AVI ") ? VIDEO : UNKNOWN;
}

static enum kind kind_of_brand(const uint8_t *brand) {
    static const struct {
        char brand[5];
        enum kind kind;
    } brands[] = {{"heic", HEIC},      {"heix", HEIC},  {"heim", HEIC},  {"heis", HEIC},  {"hevc", HEIC},
                  {"hevx", HEIC},      {"hevm", HEIC},  {"hevs", HEIC},  {"avif", AVIF},  {"avis", AVIF},
                  {"crx ", CANON_CR3}, {"M4A ", SOUND}, {"M4B ", SOUND}, {"M4P ", SOUND}, {"F4A ", SOUND}};
    for (size_t i = 0; i < sizeof brands / sizeof brands[0]; i++) {
        if (four(brand, brands[i].brand)) {
            return brands[i].kind;
        }
    }
    return UNKNOWN;
}

/* The first brand that is known decides. mif1 and msf1 say only that it is one of the HEIF family. */
static enum kind kind_of_brands(const uint8_t *bytes, size_t count) {
    const size_t box = (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
    const size_t end = box < count ? box : count;
    bool family = false;
    for (size_t at = 8; at + 4 <= end || at == 8; at += at == 8 ? 8 : 4) {
        const enum kind kind = kind_of_brand(bytes + at);
        family = family || four(bytes + at, "mif1") || four(bytes + at, "msf1");
        if (kind != UNKNOWN) {
            return kind;
        }
    }
    return family ? HEIC : VIDEO;
}

/* The size of the second header is one of a few. */
static bool is_bmp(const uint8_t *bytes, size_t count) {
    static const uint8_t sizes[] = {12, 16, 40, 52, 56, 64, 108, 124};
    return count >= 18 && bytes[0] == 'B' && bytes[1] == 'M' && memchr(sizes, bytes[14], sizeof sizes) && !bytes[15] &&
           !bytes[16] && !bytes[17];
}

/* Packets of 188 bytes, each of which begins with the same letter; camcorders put 4 bytes before each. */
static bool is_transport_stream(const uint8_t *bytes, size_t count) {
    enum { PACKET = 188, STAMP = 4, SIGN = 'G' };
    const size_t second = STAMP + PACKET;
    return (count > 2 * PACKET && bytes[0] == SIGN && bytes[PACKET] == SIGN && bytes[2 * PACKET] == SIGN) ||
           (count > 2 * second + STAMP && bytes[STAMP] == SIGN && bytes[second + STAMP] == SIGN &&
            bytes[2 * second + STAMP] == SIGN);
}

static bool is_printed(uint32_t code) {
    return code >= ' ' || (code >= '\t' && code <= '\r');
}

/* A character may be cut off at the end. */
static bool is_text(const char *text, size_t count) {
    uint32_t code;
    for (size_t at = 0, length; at < count; at += length) {
        length = utf8_decode(text + at, &code);
        if (!length || !is_printed(code)) {
            return !length && count == PICTURE_KIND_BYTES && count - at < 4;
        }
    }
    return true;
}

static enum kind kind_of_text(const uint8_t *bytes, size_t count) {
    char text[PICTURE_KIND_BYTES + 1] = {0};
    memcpy(text, bytes, count);
    if (!is_text(text, count)) {
        return UNKNOWN;
    }
    const char *start = strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? text + 3 : text;
    start += strspn(start, " \t\r\n");
    if (strncasecmp(start, "<!doctype html", 14) == 0 || strncasecmp(start, "<html", 5) == 0) {
        return WEB_PAGE;
    }
    if (start[0] == '<' && strstr(start, "<svg")) {
        return SVG;
    }
    return strncmp(start, "<?xml", 5) == 0 ? XML : TEXT;
}

static bool is_zero(const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (bytes[i]) {
            return false;
        }
    }
    return true;
}

static enum kind find_kind(const uint8_t *bytes, size_t count) {
    if (!count) {
        return EMPTY;
    }
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        if (begins(bytes, count, &starts[i])) {
            return starts[i].kind;
        }
    }
    if (count >= 12 && four(bytes, "RIFF")) {
        return kind_of_riff(bytes);
    }
    if (count >= 12 && four(bytes + 4, "ftyp")) {
        return kind_of_brands(bytes, count);
    }
    if (is_bmp(bytes, count) || is_zero(bytes, count)) {
        return bytes[0] ? BMP : ZEROES;
    }
    const enum kind kind = kind_of_text(bytes, count);
    return kind == UNKNOWN && is_transport_stream(bytes, count) ? VIDEO : kind;
}

const struct picture_kind *picture_kind_of(const void *bytes, size_t count) {
    return &kinds[find_kind(bytes, count < PICTURE_KIND_BYTES ? count : PICTURE_KIND_BYTES)];
}
