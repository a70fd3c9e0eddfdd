/* What commands print with. */
#include "cli.h"

#include <string.h>

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

int display_width(const char *text) {
    int width = 0;
    for (; *text; text++) {
        width += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return width;
}

l3a_status open_features(l3a_context *context, const char *path, const char *labels, const char *names, l3a_features **features) {
    const size_t length = strlen(path);
    const bool npy = length > 4 && strcmp(path + length - 4, ".npy") == 0;
    return npy ? l3a_features_open_npy(context, path, labels, names, features) : l3a_features_open(context, path, features);
}
