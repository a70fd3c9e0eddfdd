/* What commands print with. */
#include "cli.h"

#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

void print_json_string(const char *text) {
    putchar('"');
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\') {
            printf("\\%c", byte);
        } else if (byte < 0x20) {
            printf("\\u%04x", byte);
        } else {
            putchar(byte);
        }
    }
    putchar('"');
}

void print_csv_field(const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        printf("%s", text);
        return;
    }
    putchar('"');
    for (; *text; text++) {
        printf(*text == '"' ? "\"\"" : "%c", *text);
    }
    putchar('"');
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

/* By the C library's table for UTF-8, whatever locale the user has; a character counts one where that is not installed. */
static size_t measure(const char *text, int limit, int *width) {
    static locale_t utf8;
    utf8 = utf8 ? utf8 : newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    const locale_t before = utf8 ? uselocale(utf8) : (locale_t)0;
    size_t bytes = 0;
    *width = 0;
    while (text[bytes]) {
        wchar_t code = L' ';
        const int length = utf8 ? mbtowc(&code, text + bytes, MB_CUR_MAX) : 1;
        const int columns = length < 1 ? 1 : utf8 ? wcwidth(code) : ((unsigned char)text[bytes] & 0xC0) != 0x80;
        if (*width + columns > limit) {
            break;
        }
        *width += columns < 0 ? 1 : columns;
        bytes += length < 1 ? 1 : (size_t)length;
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
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[2m", "\033[1;31m"};
    const char *no_color = getenv("NO_COLOR");
    return is_terminal(to) && !(no_color && no_color[0]) ? codes[wanted] : "";
}

void print_hint(const char *format, ...) {
    va_list list;
    fprintf(stderr, "  %s", style(stderr, STYLE_DIM));
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "%s\n", style(stderr, STYLE_PLAIN));
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

l3a_status open_features(l3a_context *context, const char *path, const char *labels, const char *names, l3a_features **features) {
    return is_npy(path) ? l3a_features_open_npy(context, path, labels, names, features)
                        : l3a_features_open(context, path, features);
}
