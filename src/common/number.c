#include "common/number.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char number_characters[] = "0123456789+-einfa";

char *number_use_point(char *text) {
    const size_t before = strspn(text, number_characters), point = strcspn(text + before, number_characters);
    if (point) {
        text[before] = '.';
        memmove(text + before + 1, text + before + point, strlen(text + before + point) + 1);
    }
    return text;
}

const char *number_format(double value, char text[NUMBER_TEXT]) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, NUMBER_TEXT, "%.*g", digits, value);
        if (digits == 17 || strtod(text, NULL) == value) {
            break;
        }
    }
    return number_use_point(text);
}

static bool looks_like_a_number(const char *text, size_t length) {
    bool digit = false, point = false, exponent = false;
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        if (c >= '0' && c <= '9') {
            digit = true;
        } else if (c == '.' && !point && !exponent) {
            point = true;
        } else if ((c == 'e' || c == 'E') && digit && !exponent) {
            exponent = true;
            digit = false;
        } else if ((c == '-' || c == '+') && (i == 0 || text[i - 1] == 'e' || text[i - 1] == 'E')) {
            continue;
        } else {
            return false;
        }
    }
    return digit;
}

bool number_parse(const char *text, size_t length, double *value) {
    char copy[128];
    if (length >= sizeof copy || !looks_like_a_number(text, length)) {
        return false;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) {
        return false;
    }
    const double parsed = strtod_l(copy, NULL, plain);
    freelocale(plain);
    if (!isfinite(parsed)) {
        return false;
    }
    *value = parsed;
    return true;
}

bool integer_parse(const char *text, size_t length, uint64_t *value) {
    uint64_t parsed = 0;
    if (!length) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(parsed, 10, &parsed) ||
            __builtin_add_overflow(parsed, (uint64_t)(text[i] - '0'), &parsed)) {
            return false;
        }
    }
    *value = parsed;
    return true;
}
