/* Recording errors. Plug-ins have this file, too. */
#include "base/context.h"

#include <stdio.h>
#include <string.h>

l3a_status fail(l3a_context *context, l3a_status status, const char *hint, const char *format, ...) {
    if (!context) {
        return status;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context->error_text, sizeof context->error_text, format, arguments);
    va_end(arguments);
    snprintf(context->error_hint, sizeof context->error_hint, "%s", hint ? hint : "");
    return status;
}

/* Whether a text of the form "place: place: problem" names this place, which is given with its ": ". */
static bool names_place(const char *text, const char *place) {
    const char *found = strstr(text, place);
    return found && (found == text || (found - text >= 2 && memcmp(found - 2, ": ", 2) == 0));
}

l3a_status fail_in(l3a_context *context, l3a_status status, const char *format, ...) {
    enum { CAPACITY = sizeof context->error_text };
    char inner[CAPACITY], *text = context->error_text;
    memcpy(inner, text, sizeof inner);
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, CAPACITY, format, arguments);
    va_end(arguments);
    if (length >= 0 && length < CAPACITY - 2) {
        memcpy(text + length, ": ", 3);
        const size_t kept = names_place(inner, text) ? 0 : (size_t)length + 2;
        snprintf(text + kept, CAPACITY - kept, "%s", inner);
    }
    return status;
}
