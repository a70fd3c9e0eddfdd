#include "base/exif.h"

#include <string.h>

enum { TYPE_BYTE = 1, TYPE_TEXT = 2, TYPE_SHORT = 3, TYPE_LONG = 4, TYPE_ANY = 7, TYPE_UTF8 = 129, ENTRY = 12 };

/* Bytes past the end read as 0. */
static uint32_t number_at(const struct exif *exif, size_t offset, size_t size) {
    uint32_t value = 0;
    for (size_t i = 0; i < size; i++) {
        const size_t at = offset + (exif->big_endian ? i : size - 1 - i);
        value = value << 8 | (at < exif->count ? exif->bytes[at] : 0u);
    }
    return value;
}

bool exif_open(const void *bytes, size_t count, struct exif *exif) {
    const uint8_t *start = bytes;
    if (count >= 6 && memcmp(start, "Exif\0", 6) == 0) {
        start += 6;
        count -= 6;
    }
    *exif = (struct exif){.bytes = start, .count = count};
    if (count < 8 || (memcmp(start, "II*\0", 4) != 0 && memcmp(start, "MM\0*", 4) != 0)) {
        return false;
    }
    exif->big_endian = start[0] == 'M';
    exif->first = number_at(exif, 4, 4);
    return true;
}

/* Where an entry begins; 0, where the header is, if there is none. */
static size_t find_entry(const struct exif *exif, size_t directory, enum exif_tag tag) {
    const size_t entries = number_at(exif, directory, 2);
    for (size_t i = 0; i < entries; i++) {
        const size_t entry = directory + 2 + i * ENTRY;
        if (entry + ENTRY > exif->count) {
            break;
        }
        if (number_at(exif, entry, 2) == (uint32_t)tag) {
            return entry;
        }
    }
    return 0;
}

bool exif_has(const struct exif *exif, size_t directory, enum exif_tag tag) {
    return find_entry(exif, directory, tag) != 0;
}

bool exif_number(const struct exif *exif, size_t directory, enum exif_tag tag, uint32_t *number) {
    const size_t entry = find_entry(exif, directory, tag);
    const uint32_t type = entry ? number_at(exif, entry + 2, 2) : 0;
    if (type != TYPE_SHORT && type != TYPE_LONG) {
        return false;
    }
    *number = number_at(exif, entry + 8, type == TYPE_SHORT ? 2 : 4);
    return true;
}

/* A text of up to 4 bytes is in the entry itself. */
const char *exif_text(const struct exif *exif, size_t directory, enum exif_tag tag, size_t *length) {
    const size_t entry = find_entry(exif, directory, tag);
    const uint32_t type = entry ? number_at(exif, entry + 2, 2) : 0;
    if (type != TYPE_TEXT && type != TYPE_BYTE && type != TYPE_ANY && type != TYPE_UTF8) {
        return NULL;
    }
    const size_t size = number_at(exif, entry + 4, 4), at = size > 4 ? number_at(exif, entry + 8, 4) : entry + 8;
    if (at > exif->count || size > exif->count - at) {
        return NULL;
    }
    const char *text = (const char *)exif->bytes + at;
    *length = strnlen(text, size);
    return text;
}
