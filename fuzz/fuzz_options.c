/* Settings by name, protocols and suggestions: each line of the input is used as NAME=VALUE, as a protocol, and as a mistyped name.
 */
#include "fuzz.h"

#include "common/closest.h"

#include <stdlib.h>
#include <string.h>

enum { CLASSES = 80, NAMES = 64 };

static void check_round_trip(l3a_context *context, const l3a_options *options, const char *name) {
    char text[64], again[64];
    l3a_options *copy = NULL;
    must(l3a_options_check(context, options) == L3A_OK);
    must(l3a_options_get(options, name, text, sizeof text) < sizeof text);
    must(l3a_options_create(context, &copy) == L3A_OK);
    must(l3a_options_set(context, copy, name, text) == L3A_OK);
    l3a_options_get(copy, name, again, sizeof again);
    must(strcmp(text, again) == 0);
    l3a_options_free(copy);
}

static void set_option(l3a_context *context, char *line) {
    l3a_options *options = NULL;
    char *equals = strchr(line, '=');
    if (!equals) {
        return;
    }
    must(l3a_options_create(context, &options) == L3A_OK);
    *equals = '\0';
    if (l3a_options_set(context, options, line, equals + 1) == L3A_OK) {
        check_round_trip(context, options, line);
    }
    l3a_options_free(options);
    *equals = '=';
}

static void parse_protocol(l3a_context *context, const char *line) {
    size_t bounds[CLASSES + 1], phases = 0;
    for (size_t classes = 0; classes <= CLASSES; classes += 20) {
        if (l3a_protocol_parse(context, line, classes, bounds, &phases) != L3A_OK) {
            continue;
        }
        must(bounds[0] == 0 && bounds[phases] == classes);
        for (size_t i = 0; i < phases; i++) {
            must(bounds[i] < bounds[i + 1]);
        }
    }
}

static void suggest(const char *line) {
    const char *names[NAMES];
    size_t count = 0;
    while (count < NAMES && l3a_option_at(count)) {
        names[count] = l3a_option_at(count)->name;
        count++;
    }
    const char *close = closest_name(line, names, count);
    bool known = !close;
    for (size_t i = 0; i < count; i++) {
        known = known || close == names[i];
        must(strcmp(line, names[i]) != 0 || close == names[i]);
    }
    must(known);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    char *text = malloc(count + 1), *next = text;
    must(text != NULL);
    if (count) {
        memcpy(text, bytes, count);
    }
    text[count] = '\0';
    for (char *line = strsep(&next, "\n"); line; line = strsep(&next, "\n")) {
        set_option(context, line);
        parse_protocol(context, line);
        suggest(line);
    }
    free(text);
    l3a_context_free(context);
    return 0;
}
