#include "serve/head.h"

#include <string.h>
#include <strings.h>

enum { LENGTH, CODING };

/* Whatever the server looks at. */
static const char *const single[] = {[LENGTH] = "Content-Length",
                                     [CODING] = "Transfer-Encoding",
                                     "Host",
                                     "Origin",
                                     "Authorization",
                                     "Content-Type",
                                     "Content-Encoding",
                                     "Sec-Fetch-Site",
                                     "Expect",
                                     "X-L3A",
                                     "Sec-Fetch-Mode",
                                     "Sec-Fetch-Dest",
                                     "Inference-Header-Content-Length"};

static bool is_letter_of_name(char letter) {
    return (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z') ||
           (letter && strchr("!#$%&'*+-.^_`|~", letter));
}

static bool is_letter_of_value(char letter) {
    return letter == '\t' || ((unsigned char)letter >= ' ' && letter != 0x7F);
}

static bool all(const char *text, size_t length, bool (*fits)(char letter)) {
    size_t i = 0;
    while (i < length && fits(text[i])) {
        i++;
    }
    return i == length;
}

static bool is_digit(char letter) {
    return letter >= '0' && letter <= '9';
}

/* Whether the header lies where it should, and is followed by what was CR LF. */
static bool lies_well(const struct head *head, const char *name, size_t name_length, const char *value, size_t value_length) {
    const char *gap = name + name_length + 1;
    return name == head->next && value >= gap && strspn(gap, " \t") == (size_t)(value - gap) && !value[value_length] &&
           !value[value_length + 1];
}

static const char *find_problem(struct head *head, const char *name, size_t name_length, const char *value, size_t value_length) {
    if (head->next && !lies_well(head, name, name_length, value, value_length)) {
        return "a header has a zero byte, or a line that does not end in CR LF or continues the one before it";
    }
    if (!name_length || !all(name, name_length, is_letter_of_name)) {
        return "the name of a header has a space, or another byte that does not belong there";
    }
    if (!all(value, value_length, is_letter_of_value)) {
        return "the value of a header has a control character";
    }
    for (size_t i = 0; i < sizeof single / sizeof single[0]; i++) {
        if (strlen(single[i]) == name_length && strncasecmp(single[i], name, name_length) == 0) {
            if (head->seen & 1u << i) {
                return "a header that may come once comes twice";
            }
            head->seen |= 1u << i;
            if (i == LENGTH && (!value_length || !all(value, value_length, is_digit))) {
                return "the Content-Length is not a number";
            }
            if (i == CODING && (value_length != 7 || strncasecmp(value, "chunked", 7) != 0 || head->old)) {
                return "the Transfer-Encoding is not 'chunked' of HTTP/1.1";
            }
        }
    }
    return NULL;
}

void head_add(struct head *head, const char *name, size_t name_length, const char *value, size_t value_length) {
    if (!head->problem) {
        head->problem = find_problem(head, name, name_length, value, value_length);
        head->next = head->next ? value + value_length + 2 : NULL;
    }
}

const char *head_problem(const struct head *head, const char *end) {
    const unsigned both = 1u << LENGTH | 1u << CODING;
    if (!head->problem && (head->seen & both) == both) {
        return "there is a Content-Length and a Transfer-Encoding";
    }
    if (!head->problem && head->next && head->next + 2 != end) {
        return "the head has a zero byte, or a line that does not end in CR LF or continues the one before it";
    }
    return head->problem;
}
