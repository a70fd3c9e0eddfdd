/* XMP: keywords are added to anything that is XMP, once, and what else is in the file stays. Anything else is refused. */
#include "fuzz.h"

#include "format/xmp.h"

#include <string.h>

/* Whether the bytes of `part` are in `whole` in the same order, perhaps with others between them. */
static bool is_within(const char *part, size_t part_count, const char *whole, size_t whole_count) {
    size_t found = 0;
    for (size_t i = 0; i < whole_count && found < part_count; i++) {
        found += part[found] == whole[i];
    }
    return found == part_count;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    static const char *const add[] = {"cat", "a<b>&\xC3\xA4\n"}, *const all[] = {"cat", "a<b>&\xC3\xA4\n", "dog"};
    const struct keywords adding = {add, 2, NULL, 0}, replacing = {add, 1, all, 3};
    l3a_context *context = context_over(bytes, count);
    const char *input = (const char *)bytes;
    text_list before = {0}, after = {0};
    text_builder made, again;
    bool changed;
    if (xmp_merge(context, "input", input, count, &adding, &made, &changed) != L3A_OK) {
        must(l3a_error_text(context)[0] && !changed);
    } else if (changed) {
        must(xmp_read(context, "input", input, count, &before) == L3A_OK);
        must(xmp_read(context, "input", made.text, made.length, &after) == L3A_OK);
        must(after.count > before.count && after.count <= before.count + 2 && made.length > count);
        /* At most one byte goes: the slash of an empty element. */
        const char *slash = input;
        bool within = is_within(input, count, made.text, made.length);
        for (size_t left = count; !within && (slash = memchr(slash, '/', left)); slash++, left = count - (size_t)(slash - input)) {
            const size_t head = (size_t)(slash - input);
            within = made.length >= count && memcmp(made.text, input, head) == 0 &&
                     is_within(slash + 1, count - head - 1, made.text + head, made.length - head);
        }
        must(within);
        must(xmp_merge(context, "input", made.text, made.length, &adding, &again, &changed) == L3A_OK && !changed);
        text_builder_free(&again);
        const l3a_status status = xmp_merge(context, "input", made.text, made.length, &replacing, &again, &changed);
        must(status == L3A_OK && changed && again.length < made.length);
        text_builder_free(&again);
    }
    text_builder_free(&made);
    text_list_clear(context, &before);
    text_list_clear(context, &after);
    l3a_context_free(context);
    return 0;
}
