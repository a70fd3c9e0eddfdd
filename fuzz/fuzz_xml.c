/* XML: the paths and texts of elements are as xml.h promises, and reading stops when the caller says so. */
#include "fuzz.h"

#include "format/xml.h"

#include <string.h>

static l3a_status check_element(const char *path, const char *text, void *user) {
    size_t *left = user, levels = 1;
    for (const char *c = path; *c; c++) {
        levels += *c == '/';
    }
    must(path[0] && levels <= 32 && strlen(path) < 1024 && strlen(text) < 256);
    must(!text[0] || (!strchr(" \t\r\n", text[0]) && !strchr(" \t\r\n", text[strlen(text) - 1])));
    must(*left > 0);
    return --*left ? L3A_OK : L3A_ERROR_STATE;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    size_t all = SIZE_MAX, some = 2;
    const l3a_status status = xml_read(context, "input", (const char *)bytes, count, check_element, &all);
    must(status == L3A_OK || l3a_error_text(context)[0]);
    const l3a_status stopped = xml_read(context, "input", (const char *)bytes, count, check_element, &some);
    must((stopped == L3A_ERROR_STATE) == (some == 0));
    l3a_context_free(context);
    return 0;
}
