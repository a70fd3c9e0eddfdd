#include "report/html.h"

#include "common/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void html_raw(text_builder *page, const char *text) {
    text_builder_append(page, text, strlen(text));
}

/* The length of the character at the start of a text; a byte that is not UTF-8 counts as one. *shown is false for such bytes, for
 * control characters, and for marks that change the direction of writing, which would affect the rest of the page. */
static size_t character_length(const char *text, bool *shown) {
    uint32_t code;
    const size_t length = utf8_decode(text, &code);
    const bool turns = code == 0x61C || code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
                       (code >= 0x2066 && code <= 0x2069);
    const bool control = (code < 0x20 && code != '\t' && code != '\n') || (code >= 0x7F && code < 0xA0) || turns;
    const bool bad = !length || (code & 0xFFFE) == 0xFFFE;
    *shown = !bad && !control;
    return bad ? 1 : length;
}

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

static void print_escaped(text_builder *page, const char *text) {
    while (*text) {
        bool shown;
        const size_t length = character_length(text, &shown);
        switch (*text) {
        case '&': html_raw(page, "&amp;"); break;
        case '<': html_raw(page, "&lt;"); break;
        case '>': html_raw(page, "&gt;"); break;
        case '"': html_raw(page, "&quot;"); break;
        case '\'': html_raw(page, "&#39;"); break;
        default: text_builder_append(page, shown ? text : replacement, shown ? length : sizeof replacement - 1);
        }
        text += length;
    }
}

const char *fixed_text(double value, int decimals, char text[FIXED]) {
    const double scale = pow(10, decimals), scaled = round(fabs(value) * scale);
    if (!(scaled < 1e15)) {
        return isnan(value) ? "–" : "∞";
    }
    const unsigned long long all = (unsigned long long)scaled, unit = (unsigned long long)scale;
    const int length = snprintf(text, FIXED, "%s%llu", value < 0 && all ? "-" : "", all / unit);
    if (decimals) {
        snprintf(text + length, FIXED - (size_t)length, ".%0*llu", decimals, all % unit);
    }
    return text;
}

static void print_fixed(text_builder *page, double value, int decimals) {
    char text[FIXED];
    html_raw(page, fixed_text(value, decimals, text));
}

/* Prints the argument of a directive, and returns the place after the directive. */
static const char *print_directive(text_builder *page, const char *at, va_list *arguments) {
    int decimals = 6;
    if (at[0] == '.') {
        decimals = at[1] == '*' ? va_arg(*arguments, int) : at[1] - '0';
        at += 2;
    }
    switch (*at) {
    case 's': print_escaped(page, va_arg(*arguments, const char *)); break;
    case 'f': print_fixed(page, va_arg(*arguments, double), decimals); break;
    case 'd': text_builder_print(page, "%d", va_arg(*arguments, int)); break;
    case 'c': text_builder_print(page, "%c", va_arg(*arguments, int)); break;
    case 'z':
        text_builder_print(page, "%zu", va_arg(*arguments, size_t));
        at++;
        break;
    default: html_raw(page, "%");
    }
    return at + 1;
}

void html_print_list(text_builder *page, const char *format, va_list list) {
    va_list arguments;
    va_copy(arguments, list);
    while (*format) {
        const size_t plain = strcspn(format, "%");
        text_builder_append(page, format, plain);
        format += plain;
        if (*format) {
            format = print_directive(page, format + 1, &arguments);
        }
    }
    va_end(arguments);
}

void html_print(text_builder *page, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    html_print_list(page, format, arguments);
    va_end(arguments);
}

void html_base64(text_builder *page, const uint8_t *bytes, size_t count) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        const size_t there = count - i < 3 ? count - i : 3;
        const uint32_t group =
            (uint32_t)bytes[i] << 16 | (there > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) | (there > 2 ? (uint32_t)bytes[i + 2] : 0);
        const char four[4] = {digits[group >> 18], digits[group >> 12 & 63], there > 1 ? digits[group >> 6 & 63] : '=',
                              there > 2 ? digits[group & 63] : '='};
        text_builder_append(page, four, sizeof four);
    }
}

/* In pixels, at a font size of 12, in the widest of the usual fonts. East Asian characters and pictographs fill a square; combining
 * marks have no width. */
static double character_width(const unsigned char *text, size_t length) {
    static const unsigned char tenths[] = {39, 49,  56, 101, 77, 115, 94, 33,  47, 47,  60,  101, 39, 44,  39, 41, 77, 77,  77,
                                           77, 77,  77, 77,  77, 77,  77, 41,  41, 101, 101, 101, 67, 122, 83, 83, 87, 93,  81,
                                           74, 94,  91, 36,  60, 81,  67, 104, 90, 95,  81,  95,  87, 81,  74, 88, 83, 119, 83,
                                           81, 83,  47, 41,  47, 101, 67, 60,  74, 77,  66,  77,  74, 43,  77, 77, 34, 34,  70,
                                           34, 117, 77, 74,  77, 77,  50, 63,  48, 77,  72,  99,  72, 72,  63, 77, 41, 77,  101};
    const bool mark = length == 2 && (text[0] == 0xCC || (text[0] == 0xCD && text[1] < 0xB0));
    const bool square = !length || (length == 3 && (text[0] > 0xE2 || (text[0] == 0xE2 && text[1] >= 0xBA))) || length == 4;
    if (length == 1 && text[0] >= ' ') {
        return 0.1 * (double)tenths[text[0] - ' '];
    }
    return mark ? 0 : square ? 12.5 : 9.5;
}

double text_width(const char *text) {
    double width = 0;
    while (*text) {
        bool shown;
        const size_t length = character_length(text, &shown);
        width += character_width((const unsigned char *)text, shown ? length : 0);
        text += length;
    }
    return width;
}

const char *text_clip(const char *text, double width, char clipped[CLIPPED]) {
    enum { ROOM = CLIPPED - 8 };
    const bool cut = text_width(text) > width || strlen(text) > ROOM;
    double used = cut ? 12 : 0;
    size_t taken = 0;
    while (text[taken]) {
        bool shown;
        const size_t length = character_length(text + taken, &shown);
        used += character_width((const unsigned char *)text + taken, shown ? length : 0);
        if (taken + length > ROOM || (cut && used > width)) {
            break;
        }
        taken += length;
    }
    snprintf(clipped, CLIPPED, "%.*s%s", (int)taken, text, cut ? "…" : "");
    return clipped;
}
