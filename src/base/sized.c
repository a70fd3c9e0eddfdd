#include "base/sized.h"

#include <stdio.h>
#include <string.h>

/* No struct of the interface comes near this; a size beyond it was never set. */
enum { LARGEST_STRUCT = 1 << 16 };

static size_t size_of(const void *given) {
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

l3a_status sized_check(l3a_context *context, const char *function, const char *name, const void *given) {
    const size_t size = size_of(given);
    l3a_status status = L3A_OK;
    char hint[160];
    snprintf(hint, sizeof hint, "declare it with = {.size = sizeof %s}, and leave the size as it is", name);
    FAIL_IF(size < sizeof size || size > LARGEST_STRUCT, context, L3A_ERROR_ARGUMENT, hint, "%s: %s has the size %zu", function,
            name, size);
done:
    return status;
}

l3a_status sized_read(l3a_context *context, const char *function, const char *name, const void *given, void *own, size_t size) {
    l3a_status status = L3A_OK;
    memset(own, 0, size);
    if (given) {
        TRY(sized_check(context, function, name, given));
        const size_t theirs = size_of(given);
        for (size_t i = size; i < theirs; i++) {
            FAIL_IF(((const char *)given)[i], context, L3A_ERROR_ARGUMENT, "use a newer version of the library",
                    "%s: %s sets a field that was made for a newer version than " L3A_VERSION, function, name);
        }
        memcpy(own, given, theirs < size ? theirs : size);
    }
    memcpy(own, &size, sizeof size);
done:
    return status;
}

l3a_status sized_write(l3a_context *context, const char *function, const char *name, void *given, const void *own, size_t size) {
    l3a_status status = L3A_OK;
    TRY(sized_check(context, function, name, given));
    const size_t theirs = size_of(given), common = theirs < size ? theirs : size;
    memset(given, 0, theirs);
    memcpy(given, own, common);
    memcpy(given, &theirs, sizeof theirs);
done:
    return status;
}
