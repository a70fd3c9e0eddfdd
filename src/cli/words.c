/* Words: plurals, and words as a shell reads them. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

const char *plural(uint64_t count, const char *one, const char *many) {
    return count == 1 ? one : many;
}

/* Characters without a special meaning to a shell, including bytes of UTF-8. */
static bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("_./:=,+@%-", c)) || c < 0;
}

void write_word(FILE *to, const char *word) {
    const char *c = word;
    while (is_plain(*c)) {
        c++;
    }
    if (*word && !*c) {
        fputs(word, to);
        return;
    }
    fputc('\'', to);
    for (c = word; *c; c++) {
        fputs(*c == '\'' ? "'\\''" : (const char[]){*c, '\0'}, to);
    }
    fputc('\'', to);
}

char *join_words(size_t count, const char *const *words) {
    char *line = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&line, &length);
    if (!memory) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        fputs(i ? " " : "", memory);
        write_word(memory, words[i]);
    }
    if (fclose(memory)) {
        free(line);
        return NULL;
    }
    return line;
}

/* Takes the first word off a text: leaves it, unquoted, at the beginning, and returns the rest. */
static char *take_word(char *text) {
    char *to = text;
    bool quoted = false;
    for (; *text && (quoted || *text != ' '); text++) {
        if (*text == '\'') {
            quoted = !quoted;
        } else {
            text += !quoted && *text == '\\' && text[1];
            *to++ = *text;
        }
    }
    text += *text == ' ';
    *to = '\0';
    return text;
}

size_t split_words(char *line, char **words, size_t capacity) {
    size_t count = 0;
    for (char *next = line; *next;) {
        char *word = next;
        next = take_word(word);
        if (count < capacity) {
            words[count] = word;
        }
        count++;
    }
    return count;
}
