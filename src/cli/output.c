/* How commands print. Only this file knows what must not be sent to a terminal. */
#include "cli.h"

#include "common/utf8.h"

#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#undef printf
#undef fprintf

/* ---- Text that a stranger may have written ---- */

/* A character: its length in bytes, its code, and whether it is shown as an escape. Bytes that are not UTF-8 are shown one by
 * one. */
struct character {
    size_t length;
    uint32_t code;
    bool valid, hidden;
};

/* Characters that a terminal obeys or hides instead of showing: both sets of control characters, the marks that change the
 * direction of writing, separators of lines, and spaces without a width. */
static bool is_obeyed(uint32_t code) {
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x61C || code == 0x200B || code == 0x200E || code == 0x200F ||
           (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF;
}

static struct character take_character(const char *text) {
    uint32_t code;
    const size_t length = utf8_decode(text, &code);
    return length ? (struct character){length, code, true, is_obeyed(code)}
                  : (struct character){1, (unsigned char)*text, false, true};
}

/* Shows a hidden character as \x1b or \u202e. */
static int print_escape(FILE *to, struct character character) {
    return fprintf(to, character.code < 0x80 || !character.valid ? "\\x%02x" : "\\u%04x", (unsigned)character.code);
}

static int escape_width(struct character character) {
    return character.code < 0x80 || !character.valid ? 4 : 6;
}

/* Prints at most `limit` bytes of a text; only a newline at its end is printed as one. */
static int print_visible(FILE *to, const char *text, size_t limit) {
    int printed = 0;
    for (size_t at = 0; at < limit && text[at];) {
        struct character character = take_character(text + at);
        if (character.length > limit - at) {
            character = (struct character){1, (unsigned char)text[at], false, true};
        }
        const bool last = text[at] == '\n' && (at + 1 == limit || !text[at + 1]);
        if (character.hidden && !last) {
            printed += print_escape(to, character);
        } else {
            printed += (int)fwrite(text + at, 1, character.length, to);
        }
        at += character.length;
    }
    return printed;
}

static const char *const style_codes[] = {"\033[0m", "\033[1m", "\033[2m", "\033[1;31m"};

/* Recognises a style by its address, so that a stranger's text that looks like one is not taken for one. */
static bool is_style(const char *text) {
    bool found = false;
    for (size_t i = 0; i < sizeof style_codes / sizeof style_codes[0]; i++) {
        found = found || text == style_codes[i];
    }
    return found;
}

/* A parsed format directive; its width and precision may be arguments. */
struct directive {
    char flags[8], size[3], letter;
    int width, precision; /* -1: none */
};

static const char *take_count(const char *at, va_list *list, int *count) {
    if (*at == '*') {
        *count = va_arg(*list, int);
        return at + 1;
    }
    for (*count = 0; *at >= '0' && *at <= '9'; at++) {
        *count = 10 * *count + (*at - '0');
    }
    return at;
}

static const char *take_directive(const char *at, va_list *list, struct directive *directive) {
    memset(directive, 0, sizeof *directive);
    directive->precision = -1;
    const size_t flags = strspn(at, "-+ #0");
    memcpy(directive->flags, at, flags < 7 ? flags : 7);
    at = take_count(at + flags, list, &directive->width);
    if (*at == '.') {
        at = take_count(at + 1, list, &directive->precision);
    }
    const size_t size = strspn(at, "lz");
    memcpy(directive->size, at, size < 2 ? size : 2);
    directive->letter = at[size];
    return at + size + (at[size] != '\0');
}

static int print_text(FILE *to, const struct directive *directive, const char *text) {
    if (is_style(text)) {
        return fputs(text, to) < 0 ? 0 : (int)strlen(text);
    }
    const size_t limit = directive->precision < 0 ? SIZE_MAX : (size_t)directive->precision;
    char *cut = directive->precision < 0 ? NULL : strndup(text, limit);
    const bool left = directive->width < 0 || strchr(directive->flags, '-');
    const int width = abs(directive->width), shown = width ? display_width(cut ? cut : text) : 0;
    const int padding = width > shown ? width - shown : 0;
    const int before = fprintf(to, "%*s", left ? 0 : padding, "");
    const int printed = print_visible(to, cut ? cut : text, limit);
    const int after = fprintf(to, "%*s", left ? padding : 0, "");
    free(cut);
    return before + printed + after;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
/* Prints numbers and single characters with the C library. A negative precision means none. */
static int print_number(FILE *to, const struct directive *directive, va_list *list) {
    char format[24];
    const int width = directive->width, precision = directive->precision;
    const size_t size = strlen(directive->size);
    snprintf(format, sizeof format, "%%%s*.*%s%c", directive->flags, directive->size, directive->letter);
    switch (directive->letter) {
    case 'c': return fprintf(to, "%c", va_arg(*list, int));
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        return size == 0                   ? fprintf(to, format, width, precision, va_arg(*list, int))
               : directive->size[0] == 'z' ? fprintf(to, format, width, precision, va_arg(*list, size_t))
               : size == 1                 ? fprintf(to, format, width, precision, va_arg(*list, long))
                                           : fprintf(to, format, width, precision, va_arg(*list, long long));
    default: return fprintf(to, format, width, precision, va_arg(*list, double));
    }
}
#pragma GCC diagnostic pop

int print_list_to(FILE *to, const char *format, va_list arguments) {
    int printed = 0;
    va_list list;
    va_copy(list, arguments);
    while (*format) {
        const size_t plain = strcspn(format, "%");
        printed += (int)fwrite(format, 1, plain, to);
        format += plain;
        if (format[0] == '%' && format[1] == '%') {
            printed += fputc('%', to) == '%';
            format += 2;
        } else if (*format) {
            struct directive directive;
            format = take_directive(format + 1, &list, &directive);
            printed += directive.letter == 's' ? print_text(to, &directive, va_arg(list, const char *))
                                               : print_number(to, &directive, &list);
        }
    }
    va_end(list);
    return printed;
}

int print_to(FILE *to, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int printed = print_list_to(to, format, list);
    va_end(list);
    return printed;
}

void write_json_string(FILE *to, const char *text) {
    fputc('"', to);
    while (*text) {
        const struct character character = take_character(text);
        if (*text == '"' || *text == '\\') {
            fprintf(to, "\\%c", *text);
        } else if (character.hidden) {
            fprintf(to, "\\u%04x", character.valid ? (unsigned)character.code : 0xFFFDU);
        } else {
            fwrite(text, 1, character.length, to);
        }
        text += character.length;
    }
    fputc('"', to);
}

bool is_formula(const char *text) {
    const char first = text[strspn(text, " ")];
    return first && strchr("=+-@\t\r\n", first);
}

void write_csv_field(FILE *to, const char *text, bool visible) {
    const bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    fputs(quoted ? "\"" : "", to);
    fputs(is_formula(text) ? " " : "", to);
    while (*text) {
        const struct character character = take_character(text);
        if (visible && character.hidden) {
            print_escape(to, character);
        } else {
            fwrite(text, 1, character.length, to);
            fputs(*text == '"' ? "\"" : "", to);
        }
        text += character.length;
    }
    fputs(quoted ? "\"" : "", to);
}

const char *size_text(uint64_t bytes, char text[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    size_t unit = 0;
    while (size >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        size /= 1024;
        unit++;
    }
    snprintf(text, 32, unit ? "%.2f %s" : "%.0f %s", size, units[unit]);
    return text;
}

/* The width of a character from the C library's UTF-8 table, whatever the user's locale; 1 if C.UTF-8 is not installed. */
static int character_width(struct character character, locale_t utf8) {
    if (character.hidden) {
        return escape_width(character);
    }
    const int columns = utf8 ? wcwidth((wchar_t)character.code) : 1;
    return columns < 0 ? 1 : columns;
}

static size_t measure(const char *text, int limit, int *width) {
    static locale_t utf8;
    utf8 = utf8 ? utf8 : newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    const locale_t before = utf8 ? uselocale(utf8) : (locale_t)0;
    size_t bytes = 0;
    *width = 0;
    while (text[bytes]) {
        const struct character character = take_character(text + bytes);
        const int columns = character_width(character, utf8);
        if (columns > limit - *width) {
            break;
        }
        *width += columns;
        bytes += character.length;
    }
    if (utf8) {
        uselocale(before);
    }
    return bytes;
}

int display_width(const char *text) {
    int width;
    measure(text, INT_MAX, &width);
    return width;
}

size_t fitting_bytes(const char *text, int columns) {
    int width;
    return measure(text, columns, &width);
}

bool is_terminal(FILE *to) {
    const char *term = getenv("TERM");
    return isatty(fileno(to)) && term && term[0] && strcmp(term, "dumb") != 0;
}

const char *style(FILE *to, enum style wanted) {
    const char *no_color = getenv("NO_COLOR");
    return is_terminal(to) && !(no_color && no_color[0]) ? style_codes[wanted] : "";
}

void print_hint(const char *format, ...) {
    va_list list;
    print_to(stderr, "  %s", style(stderr, STYLE_DIM));
    va_start(list, format);
    print_list_to(stderr, format, list);
    va_end(list);
    print_to(stderr, "%s\n", style(stderr, STYLE_PLAIN));
}

int terminal_columns(FILE *to) {
    enum { UNLIMITED = 1 << 16 };
    struct winsize size;
    const bool known = isatty(fileno(to)) && ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : isatty(fileno(to)) ? 80 : UNLIMITED;
}

bool is_npy(const char *path) {
    const size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".npy") == 0;
}

/* The value of --views or --score-views, as an option or as a setting; NULL if it is not given, or if a sweep is asked to vary it.
 */
static const char *given_views(const struct arguments *arguments, const char *name) {
    const char *given = argument(arguments, name);
    for (size_t i = 0; !given && i < arguments->setting_count; i++) {
        const bool found = strcmp(arguments->setting_names[i], name) == 0 && !strchr(arguments->setting_values[i], ',');
        given = found ? arguments->setting_values[i] : NULL;
    }
    return given;
}

static l3a_status open_with_views(const struct arguments *arguments, const char *path, const char *labels, const char *names,
                                  const char *views, l3a_features **features) {
    l3a_context *context = arguments->context;
    l3a_options *options = NULL;
    l3a_status status =
        is_npy(path) ? l3a_features_open_npy(context, path, labels, names, features) : l3a_features_open(context, path, features);
    if (status == L3A_OK && views) {
        status = l3a_options_create(context, &options);
    }
    if (status == L3A_OK && views) {
        status = l3a_options_set(context, options, "views", views);
    }
    if (status == L3A_OK && views) {
        status = l3a_features_use_views(*features, (size_t)l3a_options_integer(options, "views"));
    }
    l3a_options_free(options);
    return status;
}

l3a_status open_features(const struct arguments *arguments, const char *path, const char *labels, const char *names,
                         l3a_features **features) {
    return open_with_views(arguments, path, labels, names, given_views(arguments, "views"), features);
}

l3a_status open_features_to_score(const struct arguments *arguments, const char *path, const char *labels, const char *names,
                                  l3a_features **features) {
    const char *views = given_views(arguments, "score-views");
    const bool given = views && strcmp(views, "0") != 0;
    return open_with_views(arguments, path, labels, names, given ? views : given_views(arguments, "views"), features);
}
