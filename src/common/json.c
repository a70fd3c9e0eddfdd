#include "common/json.h"

#include "common/number.h"
#include "common/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

uint64_t json_position(const struct json *json) {
    return json->offset + (uint64_t)(json->at - json->start);
}

/* The position in the whole text at which the part in memory ends. */
static uint64_t end_position(const struct json *json) {
    return json->offset + (uint64_t)(json->end - json->start);
}

static bool is_complete(const struct json *json) {
    return !json->window || end_position(json) == json->size;
}

static void count_lines(const char *text, size_t length, size_t *line, size_t *column) {
    for (size_t i = 0; i < length; i++) {
        *column = text[i] == '\n' ? 1 : *column + 1;
        *line += text[i] == '\n';
    }
}

/* Errors are rare, so this may read the file again from the beginning. */
void json_place(const struct json *json, uint64_t position, size_t *line, size_t *column) {
    char chunk[1 << 14];
    *line = *column = 1;
    if (!json->window) {
        count_lines(json->start, (size_t)position, line, column);
        return;
    }
    for (uint64_t at = 0; at < position;) {
        const size_t size = position - at < sizeof chunk ? (size_t)(position - at) : sizeof chunk;
        if (json->host->read(json, at, chunk, size) != L3A_OK) {
            return;
        }
        count_lines(chunk, size, line, column);
        at += size;
    }
}

__attribute__((format(printf, 4, 0))) static l3a_status fail_list(struct json *json, l3a_status status, uint64_t position,
                                                                  const char *format, va_list arguments) {
    size_t line, column;
    char what[256], text[1024];
    if (json->status != L3A_OK) {
        return json->status;
    }
    vsnprintf(what, sizeof what, format, arguments);
    json_place(json, position, &line, &column);
    snprintf(text, sizeof text, "%s: line %zu, column %zu: %s", json->name, line, column, what);
    return json->host->fail(json, status, text);
}

l3a_status json_fail(struct json *json, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const bool ended = json->at == json->end && is_complete(json);
    const l3a_status status =
        fail_list(json, ended ? L3A_ERROR_TRUNCATED : L3A_ERROR_FORMAT, json_position(json), format, arguments);
    va_end(arguments);
    return status;
}

l3a_status json_fail_at(struct json *json, uint64_t position, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const l3a_status status = fail_list(json, L3A_ERROR_FORMAT, position, format, arguments);
    va_end(arguments);
    return status;
}

/* Called at the end of the text in memory: moves the window forward and keeps what is still needed. Returns false if no text
 * follows. An error is remembered: the parser then fails because text is missing, and reports this error. */
__attribute__((noinline, cold)) static bool read_on(struct json *json) {
    if (json->status != L3A_OK || is_complete(json)) {
        return false;
    }
    const char *const first = json->kept ? json->kept : json->at;
    const size_t held = (size_t)(json->end - first), passed = (size_t)(json->at - first);
    if (held == json->capacity) {
        json->status = json_fail(json, "a string or number is longer than %zu bytes", json->capacity);
        return false;
    }
    const uint64_t next = end_position(json), left = json->size - next;
    const size_t room = json->capacity - held, size = left < room ? (size_t)left : room;
    json->offset = next - held;
    memmove(json->window, first, held);
    json->at = json->window + passed;
    json->kept = json->kept ? json->window : NULL;
    json->end = json->window + held;
    json->status = json->host->read(json, next, json->window + held, size);
    json->end += json->status == L3A_OK ? size : 0;
    return json->status == L3A_OK;
}

static inline bool has_more(struct json *json) {
    return json->at < json->end || read_on(json);
}

static void skip_space(struct json *json) {
    do {
        const char *at = json->at;
        while (at < json->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) {
            at++;
        }
        json->at = at;
    } while (json->at == json->end && read_on(json));
}

json_kind json_peek(struct json *json) {
    skip_space(json);
    switch (json->at < json->end ? *json->at : '\0') {
    case '{': return JSON_OBJECT;
    case '[': return JSON_ARRAY;
    case '"': return JSON_STRING;
    case 't':
    case 'f': return JSON_BOOLEAN;
    case 'n': return JSON_NULL;
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9': return JSON_NUMBER;
    default: return JSON_NOTHING;
    }
}

static l3a_status expect(struct json *json, char wanted) {
    skip_space(json);
    if (json->at == json->end) {
        return json_fail(json, "the text ends where '%c' is expected", wanted);
    }
    if (*json->at != wanted) {
        return json_fail(json, "'%c' is expected", wanted);
    }
    json->at++;
    return L3A_OK;
}

static l3a_status open_container(struct json *json, char bracket) {
    l3a_status status = L3A_OK;
    TRY(expect(json, bracket));
    if (++json->depth > JSON_DEPTH) {
        json->at--;
        status = json_fail(json, "nested more than %d levels deep", JSON_DEPTH);
    }
    json->first = true;
done:
    return status;
}

/* After a value: consumes a comma and sets *more, or consumes the closing bracket. */
static l3a_status next_value(struct json *json, char bracket, bool *more) {
    l3a_status status = L3A_OK;
    skip_space(json);
    if (json->at < json->end && *json->at == bracket) {
        json->at++;
        json->depth--;
        json->first = false;
        *more = false;
        return L3A_OK;
    }
    if (!json->first) {
        TRY(expect(json, ','));
    }
    json->first = false;
    *more = true;
done:
    return status;
}

l3a_status json_object(struct json *json) {
    return open_container(json, '{');
}

l3a_status json_find(struct json *json, const char *name, bool *found) {
    l3a_status status = L3A_OK;
    TRY(json_object(json));
    for (;;) {
        json_text key;
        TRY(json_next_key(json, &key, found));
        if (!*found || json_text_is(key, name)) {
            break;
        }
        TRY(json_skip(json));
    }
done:
    return status;
}

l3a_status json_array(struct json *json) {
    return open_container(json, '[');
}

l3a_status json_next_key(struct json *json, json_text *key, bool *more) {
    l3a_status status = L3A_OK;
    TRY(next_value(json, '}', more));
    if (*more) {
        TRY(json_string(json, key));
        json->kept = key->at;
        TRY(expect(json, ':'));
        key->at = json->kept;
    }
done:
    json->kept = NULL;
    return status;
}

l3a_status json_next_item(struct json *json, bool *more) {
    return next_value(json, ']', more);
}

/* Finds the first byte that is not an ordinary character of a string: a quote, a backslash or a control character. */
static const char *pass_letters(const char *at, const char *end) {
#ifdef __SSE2__
    for (; end - at >= 16; at += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
        const __m128i mark = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
        const int found = _mm_movemask_epi8(_mm_or_si128(control, mark));
        if (found) {
            return at + __builtin_ctz((unsigned)found);
        }
    }
#endif
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20) {
        at++;
    }
    return at;
}

/* Moves from after the opening quote of a string to its closing quote. */
static l3a_status pass_string(struct json *json, bool *escaped) {
    *escaped = false;
    while (has_more(json)) {
        json->at = pass_letters(json->at, json->end);
        if (json->at == json->end) {
            continue;
        }
        if (*json->at == '"') {
            return L3A_OK;
        }
        if (*json->at != '\\') {
            return json_fail(json, "a control character in a string");
        }
        *escaped = true;
        json->at++;
        if (!has_more(json)) {
            break;
        }
        json->at++;
    }
    return json_fail(json, "a string is not closed");
}

l3a_status json_string(struct json *json, json_text *text) {
    l3a_status status = L3A_OK;
    TRY(expect(json, '"'));
    json->kept = json->at;
    TRY(pass_string(json, &text->escaped));
    text->at = json->kept;
    text->length = (size_t)(json->at - text->at);
    json->at++;
done:
    json->kept = NULL;
    return status;
}

/* Whether a character can be part of a number. */
static bool in_number(char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E';
}

static l3a_status number_text(struct json *json, const char **text, size_t *length) {
    if (json_peek(json) != JSON_NUMBER) {
        return json_fail(json, "a number is expected");
    }
    json->kept = json->at;
    while (has_more(json) && in_number(*json->at)) {
        json->at++;
    }
    *text = json->kept;
    *length = (size_t)(json->at - *text);
    json->kept = NULL;
    return L3A_OK;
}

l3a_status json_number(struct json *json, double *value) {
    l3a_status status = L3A_OK;
    const char *text = NULL;
    size_t length = 0;
    TRY(number_text(json, &text, &length));
    if (!number_parse(text, length, value)) {
        json->at = text;
        status = json_fail(json, "not a number");
    }
done:
    return status;
}

l3a_status json_integer(struct json *json, uint64_t *value) {
    l3a_status status = L3A_OK;
    const char *text = NULL;
    size_t length = 0;
    TRY(number_text(json, &text, &length));
    if (!integer_parse(text, length, value)) {
        json->at = text;
        status = json_fail(json, "a whole number is expected, 0 or larger");
    }
done:
    return status;
}

static bool take_word(struct json *json, const char *word) {
    const size_t length = strlen(word);
    while ((size_t)(json->end - json->at) < length && read_on(json)) {
    }
    if ((size_t)(json->end - json->at) < length || memcmp(json->at, word, length) != 0) {
        return false;
    }
    json->at += length;
    return true;
}

l3a_status json_boolean(struct json *json, bool *value) {
    skip_space(json);
    *value = take_word(json, "true");
    return *value || take_word(json, "false") ? L3A_OK : json_fail(json, "true or false is expected");
}

static const char *pass_digits(const char *at, const char *end) {
    while (at < end && *at >= '0' && *at <= '9') {
        at++;
    }
    return at;
}

/* A number without an exponent that is too short to overflow is valid without conversion, provided that its end is in memory. */
static l3a_status skip_number(struct json *json) {
    enum { SURELY_FINITE = 100 };
    const char *const digits = json->at + (*json->at == '-'), *at = pass_digits(digits, json->end);
    bool plain = at > digits;
    if (plain && at < json->end && *at == '.') {
        const char *const fraction = at + 1;
        at = pass_digits(fraction, json->end);
        plain = at > fraction;
    }
    if (plain && at - json->at < SURELY_FINITE && at < json->end && !in_number(*at)) {
        json->at = at;
        return L3A_OK;
    }
    double number;
    return json_number(json, &number);
}

/* The string may be longer than the window. */
static l3a_status skip_string(struct json *json) {
    l3a_status status = L3A_OK;
    bool escaped;
    TRY(expect(json, '"'));
    TRY(pass_string(json, &escaped));
    json->at++;
done:
    return status;
}

static l3a_status skip_scalar(struct json *json) {
    bool boolean;
    switch (json_peek(json)) {
    case JSON_STRING: return skip_string(json);
    case JSON_NUMBER: return skip_number(json);
    case JSON_BOOLEAN: return json_boolean(json, &boolean);
    case JSON_NULL: return take_word(json, "null") ? L3A_OK : json_fail(json, "null is expected");
    default: return json_fail(json, json->at == json->end ? "the text ends where a value is expected" : "a value is expected");
    }
}

/* The kinds of 64 bytes: bit i is for byte i. */
struct number_bytes {
    uint64_t digit, point, comma, minus, blank;
};

enum { STEP = 64 };

#ifdef __SSE2__
static struct number_bytes classify(const char *text) {
    struct number_bytes found = {0};
    for (int part = 0; part < STEP; part += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(text + part));
        const __m128i from_zero = _mm_sub_epi8(bytes, _mm_set1_epi8('0'));
        const __m128i digit = _mm_cmpeq_epi8(_mm_min_epu8(from_zero, _mm_set1_epi8(9)), from_zero);
        found.digit |= (uint64_t)(unsigned)_mm_movemask_epi8(digit) << part;
        found.point |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('.'))) << part;
        found.comma |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(','))) << part;
        found.minus |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('-'))) << part;
        found.blank |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(' '))) << part;
    }
    return found;
}
#else
static struct number_bytes classify(const char *text) {
    struct number_bytes found = {0};
    for (int i = 0; i < STEP; i++) {
        const uint64_t bit = UINT64_C(1) << i;
        found.digit |= text[i] >= '0' && text[i] <= '9' ? bit : 0;
        found.point |= text[i] == '.' ? bit : 0;
        found.comma |= text[i] == ',' ? bit : 0;
        found.minus |= text[i] == '-' ? bit : 0;
        found.blank |= text[i] == ' ' ? bit : 0;
    }
    return found;
}
#endif

/* Whether the bytes, which end with a comma, are a list of plain numbers: each has an optional blank, an optional minus, digits,
 * and optionally a point and more digits. One rule covers all numbers at once because it is about neighbouring bits: what may
 * precede a digit, a point or a comma. A misplaced blank or minus is followed by one of these, and so needs no rule of its own. */
static bool only_numbers(const struct number_bytes *b) {
    const uint64_t starts = b->comma << 1 | 1;
    const uint64_t values = (starts & ~b->blank) | (starts & b->blank) << 1;
    const uint64_t first_digits = (values & ~b->minus) | (values & b->minus) << 1;
    const uint64_t after_digits = b->digit << 1, fractions = b->point << 1;
    const uint64_t second_points = (fractions + b->digit) & b->point; /* the sum carries through a run of digits */
    const uint64_t wrong = (b->digit & ~(first_digits | after_digits | fractions)) | (b->point & ~after_digits) |
                           (b->comma & ~after_digits) | second_points;
    return !wrong;
}

/* Called before an item of an array: skips to a later item of the same array if everything in between is plain numbers. The
 * outlines of objects are lists of numbers and make up nearly all of an annotation file, so this determines how fast it is read. */
static void skip_plain_numbers(struct json *json) {
    while (json->end - json->at >= STEP) {
        struct number_bytes b = classify(json->at);
        const uint64_t other = ~(b.digit | b.point | b.comma | b.minus | b.blank);
        const uint64_t before_other = other ? (other & -other) - 1 : UINT64_MAX;
        const uint64_t commas = b.comma & before_other;
        if (!commas) {
            return;
        }
        const int last = 63 - __builtin_clzll(commas);
        const uint64_t kept = UINT64_MAX >> (63 - last);
        b = (struct number_bytes){b.digit & kept, b.point & kept, b.comma & kept, b.minus & kept, b.blank & kept};
        if (!only_numbers(&b)) {
            return;
        }
        json->at += last + 1;
    }
}

l3a_status json_skip(struct json *json) {
    l3a_status status = L3A_OK;
    bool in_object[JSON_DEPTH + 1];
    const unsigned outside = json->depth;
    do {
        const json_kind kind = json_peek(json);
        if (kind == JSON_OBJECT || kind == JSON_ARRAY) {
            TRY(open_container(json, kind == JSON_OBJECT ? '{' : '['));
            in_object[json->depth] = kind == JSON_OBJECT;
        } else {
            TRY(skip_scalar(json));
        }
        bool more = false;
        while (json->depth > outside && !more) {
            json_text key;
            TRY(in_object[json->depth] ? json_next_key(json, &key, &more) : json_next_item(json, &more));
        }
        if (more && !in_object[json->depth]) {
            skip_plain_numbers(json);
        }
    } while (json->depth > outside);
done:
    return status;
}

l3a_status json_end(struct json *json) {
    skip_space(json);
    return json->at == json->end && json->status == L3A_OK ? L3A_OK : json_fail(json, "unexpected text after the end");
}

bool json_text_is(json_text text, const char *expected) {
    return !text.escaped && strlen(expected) == text.length && memcmp(text.at, expected, text.length) == 0;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The value of four hexadecimal digits, or -1 if they are not all there. */
static int hex_unit(const char *at, const char *end) {
    int value = 0;
    if (end - at < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        const int digit = hex_digit(at[i]);
        if (digit < 0) {
            return -1;
        }
        value = 16 * value + digit;
    }
    return value;
}

/* Decodes one escape; *from is after its backslash. Returns false if it is invalid. */
static bool decode_escape(const char **from, const char *end, char **to) {
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char letter = *(*from)++;
    const char *known = letter ? strchr(letters, letter) : NULL;
    if (known) {
        *(*to)++ = meanings[known - letters];
        return true;
    }
    int unit = letter == 'u' ? hex_unit(*from, end) : -1;
    if (unit <= 0 || (unit >= 0xDC00 && unit <= 0xDFFF)) {
        return false;
    }
    *from += 4;
    unsigned code = (unsigned)unit;
    if (unit >= 0xD800 && unit <= 0xDBFF) {
        if (end - *from < 6 || (*from)[0] != '\\' || (*from)[1] != 'u') {
            return false;
        }
        const int low = hex_unit(*from + 2, end);
        if (low < 0xDC00 || low > 0xDFFF) {
            return false;
        }
        *from += 6;
        code = 0x10000 + (((unsigned)unit - 0xD800) << 10) + ((unsigned)low - 0xDC00);
    }
    *to += utf8_encode(code, *to);
    return true;
}

l3a_status json_text_decode(struct json *json, json_text text, char *to) {
    const char *from = text.at, *const end = text.at + text.length;
    if (!text.escaped) {
        memcpy(to, text.at, text.length);
        from = end;
        to += text.length;
    }
    while (from < end) {
        if (*from != '\\') {
            *to++ = *from++;
            continue;
        }
        const char *const escape = from++;
        if (!decode_escape(&from, end, &to)) {
            json->at = escape;
            return json_fail(json, "a string contains an invalid escape");
        }
    }
    *to = '\0';
    return L3A_OK;
}
