/* Finds the EXIF data of each format without decoding the picture, and reads the date in it. The bytes may be of anybody's making:
 * each is looked at a fixed number of times at most, and none outside them is read. */
#include "image/taken.h"

#include "base/exif.h"
#include "base/picture_kind.h"
#include "image/boxes.h"

#include <string.h>

enum { DATE = 19, ITEMS = 16 };

/* ---- The date ------------------------------------------------------------------------------------------------------- */
/* -1 if one of the characters is not a digit. */
static int digits(const char *text, size_t count) {
    int value = 0;
    for (size_t i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        value = 10 * value + text[i] - '0';
    }
    return value;
}

static bool is_leap(int year) {
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_of_month(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Days from 1970-01-01 to the first of a month. */
static int64_t days_before(int year, int month) {
    const int64_t past = year - 1;
    int64_t days = 365 * past + past / 4 - past / 100 + past / 400 - 719162;
    for (int i = 1; i < month; i++) {
        days += days_of_month(year, i);
    }
    return days;
}

/* "2024:05:01 12:00:00". Some programs write the date with other signs between the numbers, or a T before the time. */
static bool parse_date(const char *text, size_t length, int64_t *seconds) {
    if (length < DATE || !strchr(":-/.", text[4]) || text[7] != text[4] || !strchr(" T", text[10]) || text[13] != ':' ||
        text[16] != ':') {
        return false;
    }
    const int year = digits(text, 4), month = digits(text + 5, 2), day = digits(text + 8, 2);
    const int hour = digits(text + 11, 2), minute = digits(text + 14, 2), second = digits(text + 17, 2);
    if (year < 1 || month < 1 || month > 12 || day < 1 || day > days_of_month(year, month)) {
        return false;
    }
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) {
        return false;
    }
    *seconds = (days_before(year, month) + day - 1) * 86400 + (hour * 60 + minute) * 60 + second;
    return true;
}

static bool take_date(const struct exif *exif, size_t directory, enum exif_tag tag, int64_t *seconds) {
    size_t length;
    const char *text = exif_text(exif, directory, tag, &length);
    return text && parse_date(text, length, seconds);
}

static bool date_in_exif(const uint8_t *bytes, size_t count, int64_t *seconds) {
    struct exif exif;
    uint32_t directory;
    if (!exif_open(bytes, count, &exif)) {
        return false;
    }
    if (exif_number(&exif, exif.first, EXIF_DIRECTORY, &directory) &&
        (take_date(&exif, directory, EXIF_TAKEN, seconds) || take_date(&exif, directory, EXIF_DIGITIZED, seconds))) {
        return true;
    }
    return take_date(&exif, exif.first, EXIF_CHANGED, seconds);
}

/* ---- JPEG, PNG, WebP ------------------------------------------------------------------------------------------------ */
/* Segments: FF, a marker, and the size of what follows with these 2 bytes. The picture itself begins at marker DA. */
static bool date_in_jpeg(const uint8_t *bytes, size_t count, int64_t *seconds) {
    enum { MARKER_APP1 = 0xE1, MARKER_SCAN = 0xDA, MARKER_END = 0xD9 };
    struct span file = {bytes, count, false, false};
    span_take(&file, 2);
    while (file.left > 4 && span_take(&file, 1) == 0xFF) {
        uint32_t marker = 0xFF;
        while (marker == 0xFF && file.left) {
            marker = span_take(&file, 1);
        }
        const uint32_t size = span_take(&file, 2);
        if (marker == MARKER_SCAN || marker == MARKER_END || size < 2 || size - 2 > file.left) {
            return false;
        }
        const bool exif = marker == MARKER_APP1 && size >= 8 && memcmp(file.at, "Exif\0", 6) == 0;
        if (exif && date_in_exif(file.at, size - 2, seconds)) {
            return true;
        }
        file.at += size - 2;
        file.left -= size - 2;
    }
    return false;
}

/* Chunks, after 8 bytes: the size of the content, the type, the content, and 4 bytes that check it. */
static bool date_in_png(const uint8_t *bytes, size_t count, int64_t *seconds) {
    struct span file = {bytes, count, false, false};
    span_take_long(&file, 8);
    while (file.left >= 12) {
        const uint32_t size = span_take(&file, 4), type = span_take(&file, 4);
        if (file.left < 4 || size > file.left - 4) {
            return false;
        }
        if (type == box_type("eXIf") && date_in_exif(file.at, size, seconds)) {
            return true;
        }
        file.at += size;
        file.left -= size;
        span_take(&file, 4);
    }
    return false;
}

/* Chunks, after 12 bytes: the type, the size of the content with its lowest byte first, and the content, to an even size. */
static bool date_in_webp(const uint8_t *bytes, size_t count, int64_t *seconds) {
    struct span file = {bytes, count, false, false};
    span_take_long(&file, 8);
    span_take(&file, 4);
    while (file.left >= 8) {
        const uint32_t type = span_take(&file, 4);
        const size_t size = __builtin_bswap32(span_take(&file, 4));
        if (size > file.left) {
            return false;
        }
        if (type == box_type("EXIF") && date_in_exif(file.at, size, seconds)) {
            return true;
        }
        const size_t whole = size + (size & 1) < file.left ? size + (size & 1) : file.left;
        file.at += whole;
        file.left -= whole;
    }
    return false;
}

/* ---- HEIC and AVIF -------------------------------------------------------------------------------------------------- */
/* In the box "meta", "iinf" lists the items with their types, and "iloc" says where they are: in the file, or in the box "idat" of
 * "meta". An EXIF item begins with 4 bytes that say how many more come before the TIFF header. */
struct heif_exif {
    const uint8_t *bytes;
    size_t count;
    struct span stored; /* "idat" */
    uint32_t items[ITEMS];
    size_t item_count, tries;
    int64_t *seconds;
};

static void list_items(struct span iinf, struct heif_exif *exif) {
    const uint32_t version = span_take(&iinf, BOX_VERSION) >> 24;
    uint32_t type;
    struct span box;
    span_take(&iinf, version ? 4 : 2);
    while (exif->item_count < ITEMS && next_box(&iinf, &type, &box)) {
        const uint32_t form = span_take(&box, BOX_VERSION) >> 24, item = span_take(&box, form >= 3 ? 4 : 2);
        span_take(&box, 2);
        if (type == box_type("infe") && form >= 2 && span_take(&box, 4) == box_type("Exif")) {
            exif->items[exif->item_count++] = item;
        }
    }
}

static bool date_in_item(struct heif_exif *exif, bool stored, uint64_t at, uint64_t size) {
    struct span place = stored ? exif->stored : (struct span){exif->bytes, exif->count, false, false};
    if (at > place.left || size > place.left - at || size < 4) {
        return false;
    }
    struct span item = {place.at + at, (size_t)size, false, false};
    const uint32_t skipped = span_take(&item, 4);
    return skipped <= item.left && date_in_exif(item.at + skipped, item.left - skipped, exif->seconds);
}

static bool is_listed(const struct heif_exif *exif, uint32_t item) {
    for (size_t i = 0; i < exif->item_count; i++) {
        if (exif->items[i] == item) {
            return true;
        }
    }
    return false;
}

/* EXIF data in several pieces, which nobody writes, is not put together. */
static bool find_items(struct span iloc, struct heif_exif *exif) {
    const uint32_t version = span_take(&iloc, BOX_VERSION) >> 24, sizes = span_take(&iloc, 2);
    const size_t offset = sizes >> 12, length = sizes >> 8 & 15, base = sizes >> 4 & 15, index = version ? sizes & 15 : 0;
    if (version > 2 || offset > 8 || length > 8 || base > 8 || index > 8) {
        return false;
    }
    for (uint32_t left = span_take(&iloc, version < 2 ? 2 : 4); left && iloc.left && exif->tries < ITEMS; left--) {
        const uint32_t item = span_take(&iloc, version < 2 ? 2 : 4), method = version ? span_take(&iloc, 2) & 15 : 0;
        span_take(&iloc, 2);
        const uint64_t start = span_take_long(&iloc, base);
        const uint32_t pieces = span_take(&iloc, 2);
        uint64_t at = 0, size = 0;
        for (uint32_t i = 0; i < pieces && iloc.left && index + offset + length; i++) {
            span_take_long(&iloc, index);
            at = span_take_long(&iloc, offset);
            size = span_take_long(&iloc, length);
        }
        if (pieces == 1 && method < 2 && at <= UINT64_MAX - start && is_listed(exif, item)) {
            exif->tries++;
            if (date_in_item(exif, method == 1, start + at, size)) {
                return true;
            }
        }
    }
    return false;
}

static bool date_in_meta(struct span meta, struct heif_exif *exif) {
    uint32_t type;
    struct span box, places = {0};
    span_take(&meta, BOX_VERSION);
    exif->stored = (struct span){0};
    exif->item_count = 0;
    while (next_box(&meta, &type, &box)) {
        if (type == box_type("iinf")) {
            list_items(box, exif);
        } else if (type == box_type("iloc")) {
            places = box;
        } else if (type == box_type("idat")) {
            exif->stored = box;
        }
    }
    return exif->item_count && find_items(places, exif);
}

static bool date_in_heif(const uint8_t *bytes, size_t count, int64_t *seconds) {
    struct heif_exif exif = {.bytes = bytes, .count = count, .seconds = seconds};
    struct span file = {bytes, count, false, false}, box;
    uint32_t type;
    while (next_box(&file, &type, &box)) {
        if (type == box_type("meta") && date_in_meta(box, &exif)) {
            return true;
        }
    }
    return false;
}

bool picture_taken(const void *bytes, size_t count, int64_t *seconds) {
    static const struct {
        const char *format;
        bool (*find)(const uint8_t *bytes, size_t count, int64_t *seconds);
    } formats[] = {
        {"jpeg", date_in_jpeg}, {"png", date_in_png}, {"webp", date_in_webp}, {"heic", date_in_heif}, {"avif", date_in_heif}};
    const char *format = picture_kind_of(bytes, count)->format;
    for (size_t i = 0; format && i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(format, formats[i].format) == 0) {
            return formats[i].find(bytes, count, seconds);
        }
    }
    return false;
}
