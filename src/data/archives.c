#include "data/archives.h"

#include "common/number.h"
#include "data/dataset.h"
#include "data/pictures.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ARCHIVE_LIMIT = 100000, MEMBERS_A_REPORT = 256 };

/* ---- Names ---- */

/* The numbers of a range such as {0000..0099}. */
struct range {
    uint64_t first, last;
    int digits; /* at least so many, with zeros before them */
};

/* Whether a text begins with a range, and how long it is. */
static bool parse_range(const char *text, struct range *range, size_t *length) {
    const size_t first = strspn(text + 1, "0123456789");
    const char *second = text + 1 + first + 2;
    if (strncmp(text + 1 + first, "..", 2) != 0) {
        return false;
    }
    const size_t last = strspn(second, "0123456789");
    const bool padded = (first > 1 && text[1] == '0') || (last > 1 && second[0] == '0');
    range->digits = !padded ? 1 : (int)(first > last ? first : last);
    *length = 1 + first + 2 + last + 1;
    return second[last] == '}' && first < 20 && last < 20 && integer_parse(text + 1, first, &range->first) &&
           integer_parse(second, last, &range->last) && range->first <= range->last;
}

/* Adds a text once for each number of its first range. */
static l3a_status expand_range(l3a_context *context, const char *text, text_list *to) {
    l3a_status status = L3A_OK;
    text_builder made = {.context = context};
    const char *brace = strchr(text, '{');
    struct range range = {0};
    size_t length;
    FAIL_IF(!parse_range(brace, &range, &length), context, L3A_ERROR_OPTION,
            "write a range of numbers as {0000..0099}, or list the files, separated by commas",
            "'%s': the braces are not a range of numbers", text);
    FAIL_IF(range.last - range.first >= ARCHIVE_LIMIT || to->count > ARCHIVE_LIMIT, context, L3A_ERROR_OPTION,
            "name fewer archives at a time", "'%s': these are more than %d archives", text, ARCHIVE_LIMIT);
    for (uint64_t number = range.first; number <= range.last; number++) {
        made.length = 0;
        text_builder_print(&made, "%.*s%0*" PRIu64 "%s", (int)(brace - text), text, range.digits, number, brace + length);
        TRY(made.status);
        TRY(text_list_add(context, to, made.text, made.length));
    }
done:
    text_builder_free(&made);
    return status;
}

/* Expands the ranges in all names, the first range of each in every round. */
static l3a_status expand_ranges(l3a_context *context, text_list *names) {
    l3a_status status = L3A_OK;
    text_list next = {0};
    bool again = true;
    while (again) {
        again = false;
        for (size_t i = 0; i < names->count; i++) {
            const char *name = names->items[i];
            const bool range = strchr(name, '{') != NULL;
            TRY(range ? expand_range(context, name, &next) : text_list_add(context, &next, name, strlen(name)));
            again = again || range;
        }
        text_list_clear(context, names);
        *names = next;
        next = (text_list){0};
    }
done:
    text_list_clear(context, &next);
    return status;
}

/* Adds the files in a folder whose names match a pattern, sorted. */
static l3a_status add_matching(l3a_context *context, const char *pattern, text_list *paths) {
    l3a_status status = L3A_OK;
    const char *slash = strrchr(pattern, '/'), *last = slash ? slash + 1 : pattern;
    text_list names = {0};
    char *folder = NULL, *path = NULL, there[400];
    const size_t before = paths->count;
    TRY(copy_text(context, slash ? pattern : ".", slash && slash > pattern ? (size_t)(slash - pattern) : 1, &folder));
    FAIL_IF(slash && strpbrk(folder, "*?["), context, L3A_ERROR_OPTION,
            "name the folder, and use a pattern for the files in it only", "'%s': a pattern in the name of a folder", pattern);
    TRY(list_folder(context, folder, &names));
    for (size_t i = 0; i < names.count; i++) {
        if (fnmatch(last, names.items[i], FNM_PERIOD) == 0) {
            const size_t length = (size_t)(last - pattern) + strlen(names.items[i]);
            TRY(allocate(context, length + 1, 1, &path));
            snprintf(path, length + 1, "%.*s%s", (int)(last - pattern), pattern, names.items[i]);
            TRY(text_list_add(context, paths, path, length));
            release(context, path);
            path = NULL;
        }
    }
    describe_folder(context, folder, there, sizeof there);
    FAIL_IF(paths->count == before, context, L3A_ERROR_NOT_FOUND, "check the folder and the pattern",
            "%s: no file has such a name; %s", pattern, there);
done:
    release(context, path);
    release(context, folder);
    text_list_clear(context, &names);
    return status;
}

static l3a_status split_at_commas(l3a_context *context, const char *text, text_list *names) {
    l3a_status status = L3A_OK;
    for (const char *at = text; at;) {
        const size_t length = strcspn(at, ",");
        FAIL_IF(!length, context, L3A_ERROR_OPTION, "separate the archives by single commas", "'%s': a name is empty", text);
        TRY(text_list_add(context, names, at, length));
        at = at[length] ? at + length + 1 : NULL;
    }
done:
    return status;
}

l3a_status archives_find(l3a_context *context, const char *text, text_list *paths) {
    l3a_status status = L3A_OK;
    text_list names = {0};
    file_description about;
    if (!strpbrk(text, ",{*?[") || context->files->describe(text, &about) == 0) {
        return text_list_add(context, paths, text, strlen(text));
    }
    TRY(split_at_commas(context, text, &names));
    TRY(expand_ranges(context, &names));
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.items[i];
        TRY(strpbrk(name, "*?[") ? add_matching(context, name, paths) : text_list_add(context, paths, name, strlen(name)));
    }
done:
    text_list_clear(context, &names);
    return status;
}

/* ---- Members ---- */

/* Whether a member, or one of the folders it is in, is hidden. */
static bool is_hidden_member(const char *name) {
    bool hidden = is_hidden(name);
    for (const char *slash = strchr(name, '/'); slash && !hidden; slash = strchr(slash + 1, '/')) {
        hidden = is_hidden(slash + 1);
    }
    return hidden;
}

l3a_status archive_visit(l3a_context *context, const char *path, archive_visitor *visit, void *user) {
    l3a_status status = L3A_OK;
    input_file input = {.file = -1};
    struct tar tar = {0};
    struct tar_member member;
    bool more = true;
    TRY(input_open(context, path, &input));
    TRY(tar_open(&input, &tar));
    for (;;) {
        TRY(tar_next(&tar, &member, &more));
        if (!more) {
            break;
        }
        if (!is_hidden_member(member.name)) {
            TRY(visit(&tar, &member, user));
        }
        if (tar.names.count % MEMBERS_A_REPORT == 0) {
            TRY(report_progress(context, "index", tar.at, input.size));
        }
    }
done:
    tar_close(&tar);
    input_close(&input);
    return status;
}
