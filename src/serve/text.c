#include "serve/text.h"

#include "common/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool make_room(struct text *text, size_t more) {
    const size_t needed = text->length + more + 1;
    if (text->failed || needed < more) {
        text->failed = true;
        return false;
    }
    if (needed > text->capacity) {
        size_t capacity = text->capacity ? 2 * text->capacity : 256;
        capacity = capacity < needed ? needed : capacity;
        char *bytes = realloc(text->bytes, capacity);
        if (!bytes) {
            text->failed = true;
            return false;
        }
        text->bytes = bytes;
        text->capacity = capacity;
    }
    return true;
}

void text_add(struct text *text, const void *bytes, size_t count) {
    if (make_room(text, count)) {
        if (count) {
            memcpy(text->bytes + text->length, bytes, count);
        }
        text->length += count;
        text->bytes[text->length] = '\0';
    }
}

void text_print(struct text *text, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int length = vsnprintf(NULL, 0, format, list);
    va_end(list);
    if (length >= 0 && make_room(text, (size_t)length)) {
        va_start(list, format);
        vsnprintf(text->bytes + text->length, (size_t)length + 1, format, list);
        va_end(list);
        text->length += (size_t)length;
    }
}

void text_json(struct text *text, const char *string) {
    text_add(text, "\"", 1);
    for (uint32_t code; *string;) {
        const size_t length = utf8_decode(string, &code);
        if (!length) {
            text_add(text, "\xEF\xBF\xBD", 3);
        } else if (code == '"' || code == '\\') {
            text_print(text, "\\%c", (char)code);
        } else if (code < 0x20 || code == 0x7F) {
            text_print(text, "\\u%04x", (unsigned)code);
        } else {
            text_add(text, string, length);
        }
        string += length ? length : 1;
    }
    text_add(text, "\"", 1);
}

void text_number(struct text *text, double number, int digits) {
    if (isfinite(number)) {
        text_print(text, "%.*g", digits, number);
    } else {
        text_add(text, "null", 4);
    }
}

void text_free(struct text *text) {
    free(text->bytes);
    *text = (struct text){0};
}

char *copy_string(const char *string) {
    return string ? strdup(string) : NULL;
}

static int base64_digit(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+' || c == '-' ? 62
           : c == '/' || c == '_' ? 63
                                  : -1;
}

uint8_t *base64_decode(const char *string, size_t length, size_t *count) {
    const char *end = string + length;
    if (length > 5 && memcmp(string, "data:", 5) == 0) {
        const char *comma = memchr(string, ',', length < 256 ? length : 256);
        if (!comma) {
            return NULL;
        }
        string = comma + 1;
    }
    uint8_t *bytes = malloc(3 * ((size_t)(end - string) / 4 + 1)), *to = bytes;
    uint32_t bits = 0;
    unsigned held = 0, digits = 0;
    bool padded = false, good = bytes != NULL;
    for (const char *at = string; good && at < end; at++) {
        const int digit = base64_digit(*at);
        if (*at == '\r' || *at == '\n' || *at == ' ' || *at == '\t') {
            continue;
        }
        if (*at == '=') {
            padded = true;
            continue;
        }
        good = digit >= 0 && !padded;
        bits = bits << 6 | (uint32_t)(digit & 63);
        held += 6;
        digits++;
        if (held >= 8) {
            held -= 8;
            *to++ = (uint8_t)(bits >> held);
        }
    }
    if (!good || digits % 4 == 1) {
        free(bytes);
        return NULL;
    }
    *count = (size_t)(to - bytes);
    return bytes;
}

void hex_encode(const uint8_t *bytes, size_t count, char *digits) {
    for (size_t i = 0; i < count; i++) {
        digits[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        digits[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    digits[2 * count] = '\0';
}
