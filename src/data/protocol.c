/* Protocols and class orders: which classes come in which phase. */
#include "base/file.h"
#include "base/memory.h"
#include "common/number.h"
#include "base/random.h"
#include "base/text_index.h"

#include <stdio.h>
#include <string.h>

enum { ORDER_FILE_LIMIT = 16 << 20 };

static bool parse_part(const char **at, char letter, uint64_t *value) {
    if (**at != letter) {
        return false;
    }
    const char *digits = ++*at;
    while (**at >= '0' && **at <= '9') {
        (*at)++;
    }
    return integer_parse(digits, (size_t)(*at - digits), value);
}

l3a_status l3a_protocol_parse(l3a_context *context, const char *protocol, size_t classes, size_t *bounds, size_t *phases) {
    l3a_status status = L3A_OK;
    uint64_t base = 0, step = 0;
    const char *at = protocol;
    NEED(context, context, protocol, bounds, phases);
    const bool good = parse_part(&at, 'B', &base) && *at++ == '-' && parse_part(&at, 'C', &step) && !*at && step > 0;
    FAIL_IF(!good, context, L3A_ERROR_OPTION,
            "use for example B0-C10 (ten classes per phase) or B40-C10 (forty first, then ten per phase)",
            "protocol '%s' is not of the form B<base>-C<classes per phase>", protocol);
    FAIL_IF(base > classes, context, L3A_ERROR_OPTION, "use a base with no more classes than the data has",
            "protocol '%s' starts with %llu classes, but there are only %zu", protocol, (unsigned long long)base, classes);
    size_t count = 0;
    uint64_t bound = base ? base : step < classes ? step : classes;
    bounds[0] = 0;
    while (bounds[count] < classes) {
        bounds[++count] = (size_t)bound;
        bound = step < classes - bound ? bound + step : classes;
    }
    *phases = count;
done:
    return status;
}

static l3a_status order_by_name(l3a_context *context, const char *const *names, size_t count, size_t *order) {
    text_index index;
    const l3a_status status = text_index_make(context, (char *const *)names, count, &index);
    text_index_order(&index, order);
    text_index_free(context, &index);
    return status;
}

static l3a_status order_from_file(l3a_context *context, const char *const *names, size_t count, const char *path, size_t *order) {
    l3a_status status = L3A_OK;
    char *text = NULL;
    size_t *line_of = NULL; /* of each name, counted from 1 */
    text_list lines = {0};
    text_index known = {0};
    size_t length;
    TRY(text_index_make(context, (char *const *)names, count, &known));
    TRY(read_whole(context, path, ORDER_FILE_LIMIT, &text, &length));
    TRY(text_list_split_lines(context, &lines, text, length));
    TRY(allocate_zeroed(context, count, sizeof *line_of, &line_of));
    for (size_t i = 0; i < lines.count; i++) {
        const size_t index = text_index_find(&known, lines.items[i]);
        FAIL_IF(index == count, context, L3A_ERROR_CLASS, "list every class of the data once, one per line",
                "%s: line %zu: no class '%s' in the data", path, i + 1, lines.items[i]);
        FAIL_IF(line_of[index], context, L3A_ERROR_CLASS, "list every class of the data once, one per line",
                "%s: line %zu: class '%s' is listed twice", path, i + 1, lines.items[i]);
        line_of[index] = i + 1;
    }
    for (size_t i = 0; i < count; i++) {
        FAIL_IF(!line_of[i], context, L3A_ERROR_CLASS, "list every class of the data once, one per line",
                "%s: class '%s' is missing", path, names[i]);
    }
    for (size_t i = 0; i < count; i++) {
        order[line_of[i] - 1] = i;
    }
done:
    text_index_free(context, &known);
    text_list_clear(context, &lines);
    release(context, text);
    release(context, line_of);
    return status;
}

l3a_status l3a_class_order(l3a_context *context, const char *const *names, size_t count, const char *how, size_t *order) {
    static const char shuffle[] = "shuffle:";
    const size_t prefix = sizeof shuffle - 1;
    l3a_status status = L3A_OK;
    NEED(context, context, names, how, order);
    TRY(need_items(context, __func__, "names", names, count));
    if (strcmp(how, "lexicographic") == 0) {
        return order_by_name(context, names, count, order);
    }
    if (strncmp(how, shuffle, prefix) != 0) {
        return order_from_file(context, names, count, how, order);
    }
    uint64_t seed;
    FAIL_IF(!integer_parse(how + prefix, strlen(how + prefix), &seed), context, L3A_ERROR_OPTION, "use for example shuffle:1",
            "class order '%s': the seed must be a whole number", how);
    TRY(order_by_name(context, names, count, order));
    for (size_t i = count; i-- > 1;) {
        const size_t j = (size_t)(random_bits(seed, count - 1 - i) % (i + 1)), swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
done:
    return status;
}
