/* l3a run --list-methods: a table with lines of at most 100 columns. */
#include "cli.h"

#include <string.h>

enum { COLUMNS = 4 };

static const int widths[COLUMNS] = {12, 35, 27, 20}; /* with two blanks between them */

/* The number of bytes in the next line of the text: as many words as fit, and at least one. */
static size_t line_length(const char *text, int width) {
    size_t length = 0, end = 0;
    int columns = 0;
    while (text[length]) {
        length += strcspn(text + length, " ");
        for (size_t i = end; i < length; i++) {
            columns += ((unsigned char)text[i] & 0xC0) != 0x80;
        }
        if (columns > width && end) {
            break;
        }
        end = length;
        length += text[length] == ' ';
    }
    return end;
}

static void print_row(FILE *to, const char *const cells[COLUMNS]) {
    const char *rest[COLUMNS];
    memcpy(rest, cells, sizeof rest);
    for (bool more = true; more;) {
        int padding = 0;
        more = false;
        for (size_t i = 0; i < COLUMNS; i++) {
            const size_t length = line_length(rest[i], widths[i]);
            char line[256];
            snprintf(line, sizeof line, "%.*s", (int)length, rest[i]);
            if (length) {
                fprintf(to, "%*s%s", padding, "", line);
                padding = 0;
            }
            padding += widths[i] - display_width(line) + 2;
            rest[i] += length + (rest[i][length] == ' ');
            more = more || *rest[i];
        }
        fprintf(to, "\n");
    }
}

static void print_those(FILE *to, int runs) {
    for (size_t i = 0; l3a_method_at(i); i++) {
        const l3a_method_info *info = l3a_method_at(i);
        if (info->runs == runs) {
            print_row(to, (const char *const[COLUMNS]){info->name, info->help, info->source, info->stores});
        }
    }
}

void print_methods(FILE *to) {
    print_row(to, (const char *const[COLUMNS]){"method", "what it does", "source", "keeps between phases"});
    print_those(to, 1);
    fprintf(to, "\nnot available here without --train-backbone, because they train the backbone:\n");
    print_those(to, 2);
    fprintf(to, "\nnot available here, because they train the backbone itself:\n");
    print_those(to, 0);
}
