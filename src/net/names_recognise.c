/* Patterns of names, and which naming a table of tensors has. Names are compared from behind, where most differ at once, so that a
 * prefix of any length costs nothing. */
#include "net/namings.h"

#include <stdio.h>
#include <string.h>

enum { DIGITS = 4 };

static const char *name_at(const struct parameter_source *source, size_t index) {
    return source->at(source->owner, index)->name;
}

/* ---- Patterns ---- */

static const char *const leaves[] = {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"};

static bool ends_with(const char *text, size_t length, const char *end, size_t tail) {
    return length >= tail && memcmp(text + length - tail, end, tail) == 0;
}

static bool match_leaf(const char *name, size_t *end, struct match *match) {
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
        const size_t length = strlen(leaves[i]);
        if (ends_with(name, *end, leaves[i], length)) {
            *end -= length;
            match->leaf = leaves[i];
            return true;
        }
    }
    return false;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* A number as Python writes it. */
static bool match_number(const char *name, size_t *end, char kind, struct match *match) {
    size_t start = *end;
    unsigned number = 0;
    while (start && *end - start < DIGITS && is_digit(name[start - 1])) {
        start--;
    }
    if (start == *end || (start && is_digit(name[start - 1])) || (name[start] == '0' && *end - start > 1)) {
        return false;
    }
    for (size_t i = start; i < *end; i++) {
        number = 10 * number + (unsigned)(name[i] - '0');
    }
    *end = start;
    if (kind == '+' && !number--) {
        return false;
    }
    if (kind != '*' && match->count < RULE_NUMBERS) {
        match->numbers[match->count++] = number;
    }
    return true;
}

/* Whether the end of the name fits the pattern. They are compared from behind, so a name is only looked at as far as it fits. */
bool pattern_match(const char *pattern, const char *name, size_t length, struct match *match) {
    size_t end = length, p = strlen(pattern);
    *match = (struct match){0};
    while (p) {
        const char c = pattern[--p];
        const bool fits = c == '@'                           ? match_leaf(name, &end, match)
                          : c == '%' || c == '+' || c == '*' ? match_number(name, &end, c, match)
                                                             : end && name[--end] == c;
        if (!fits) {
            return false;
        }
    }
    match->start = end;
    return true;
}

void pattern_expand(const char *pattern, const struct match *match, char text[PATTERN_TEXT]) {
    size_t length = 0, number = match->count;
    *text = '\0';
    for (; *pattern && length < PATTERN_TEXT; pattern++) {
        char *to = text + length;
        const size_t room = PATTERN_TEXT - length;
        const bool is_number = (*pattern == '%' || *pattern == '+') && number;
        number -= is_number;
        length += (size_t)(is_number         ? snprintf(to, room, "%u", match->numbers[number] + (*pattern == '+'))
                           : *pattern == '@' ? snprintf(to, room, "%s", match->leaf ? match->leaf : "")
                                             : snprintf(to, room, "%c", *pattern));
    }
}

bool rule_is_outer(const struct rule *rule) {
    return *rule->from == '^';
}

const char *rule_pattern(const struct rule *rule) {
    return rule->from + rule_is_outer(rule);
}

/* ---- Recognising ---- */

struct search {
    l3a_context *context;
    const struct parameter_source *from;
    text_index index;
    size_t *lengths;
    text_builder text;
};

static l3a_status search_open(l3a_context *context, const struct parameter_source *from, struct search *search) {
    l3a_status status = L3A_OK;
    const char **names = NULL;
    *search = (struct search){.context = context, .from = from, .text = {.context = context}};
    TRY(allocate(context, from->count, sizeof *names, &names));
    TRY(allocate(context, from->count, sizeof *search->lengths, &search->lengths));
    for (size_t i = 0; i < from->count; i++) {
        names[i] = name_at(from, i);
        search->lengths[i] = strlen(names[i]);
    }
    TRY(text_index_make(context, (char *const *)names, from->count, &search->index));
done:
    release(context, names);
    return status;
}

static void search_close(struct search *search) {
    text_index_free(search->context, &search->index);
    release(search->context, search->lengths);
    text_builder_free(&search->text);
}

/* The name of the first mark that is missing stays in search->text; NULL: none is, or memory was. */
static const char *missing_mark(struct search *search, const struct naming *naming, const char *prefix, size_t prefix_length) {
    for (size_t i = 0; i < MARKS && naming->marks[i]; i++) {
        search->text.length = 0;
        text_builder_append(&search->text, prefix, prefix_length);
        text_builder_append(&search->text, naming->marks[i], strlen(naming->marks[i]));
        if (search->text.status != L3A_OK) {
            return NULL;
        }
        if (text_index_find(&search->index, search->text.text) == search->from->count) {
            return search->text.text;
        }
    }
    return NULL;
}

bool prefix_is_copy(const char *prefix, size_t length) {
    static const char *const words[] = {"ema", "momentum", "student", "optimizer"};
    for (size_t i = 0, word; i < length; i += word + 1) {
        word = 0;
        while (i + word < length && prefix[i + word] != '.' && prefix[i + word] != '_') {
            word++;
        }
        for (size_t j = 0; j < sizeof words / sizeof *words; j++) {
            if (strlen(words[j]) == word && memcmp(prefix + i, words[j], word) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* The tensor with the naming's first mark and the best prefix, or the number of tensors: the network itself rather than a copy of
 * it, then the shortest. */
static size_t find_tower(struct search *search, const struct naming *naming) {
    const size_t count = search->from->count, mark = strlen(naming->marks[0]);
    size_t best = count, shortest = 0;
    bool best_copy = false;
    for (size_t i = 0; i < count && search->text.status == L3A_OK; i++) {
        const char *name = name_at(search->from, i);
        const size_t length = search->lengths[i];
        if (!ends_with(name, length, naming->marks[0], mark) || (length > mark && name[length - mark - 1] != '.')) {
            continue;
        }
        const bool copy = prefix_is_copy(name, length - mark);
        const bool better = best == count || copy < best_copy || (copy == best_copy && length - mark < shortest);
        if (better && !missing_mark(search, naming, name, length - mark)) {
            best = i;
            best_copy = copy;
            shortest = length - mark;
        }
    }
    return best;
}

/* How many tensors have names of this naming behind the prefix that one with a number has. *first: that one, or their number. */
static size_t count_matches(const struct search *search, const struct naming *naming, size_t *first, size_t *prefix) {
    struct match match;
    size_t matches = 0;
    *first = search->from->count;
    for (size_t i = 0; i < search->from->count && *first == search->from->count; i++) {
        const char *name = name_at(search->from, i);
        for (size_t j = 0; j < naming->rule_count && *first == search->from->count; j++) {
            if (pattern_match(rule_pattern(&naming->rules[j]), name, search->lengths[i], &match) && match.count &&
                (!match.start || name[match.start - 1] == '.')) {
                *first = i;
                *prefix = match.start;
            }
        }
    }
    for (size_t i = 0; i < search->from->count && *first < search->from->count; i++) {
        const char *name = name_at(search->from, i);
        bool found = search->lengths[i] > *prefix && memcmp(name, name_at(search->from, *first), *prefix) == 0;
        for (size_t j = 0; found; j++) {
            if (j == naming->rule_count) {
                found = false;
            } else if (pattern_match(rule_pattern(&naming->rules[j]), name, search->lengths[i], &match) && match.start == *prefix) {
                break;
            }
        }
        matches += found;
    }
    return matches;
}

static l3a_status fail_unknown(struct search *search) {
    static const char hint[] =
        "use a ViT, CLIP, SigLIP, DINO, ConvNeXt, ResNet or TResNet checkpoint with the tensor names of timm, "
        "transformers, torchvision, OpenCLIP or the network's authors";
    const struct parameter_source *from = search->from;
    const struct naming *naming, *nearest = NULL;
    size_t most = 0, nearest_first = 0, nearest_prefix = 0, first, prefix = 0;
    for (size_t i = 0; (naming = naming_at(i)); i++) {
        const size_t matches = count_matches(search, naming, &first, &prefix);
        if (matches > most) {
            most = matches;
            nearest = naming;
            nearest_first = first;
            nearest_prefix = prefix;
        }
    }
    const char *missing = nearest ? missing_mark(search, nearest, name_at(from, nearest_first), nearest_prefix) : NULL;
    if (search->text.status != L3A_OK) {
        return search->text.status;
    }
    return missing ? fail(search->context, L3A_ERROR_MISMATCH, hint,
                          "these %zu tensors are not those of a known network; %s is the nearest: %zu of them have its names, but "
                          "%.*s is missing",
                          from->count, nearest->name, most, SHOWN, missing)
                   : fail(search->context, L3A_ERROR_MISMATCH, hint,
                          "these %zu tensors are not those of a known network (the first is %.*s)", from->count, SHOWN,
                          from->count ? name_at(from, 0) : "missing");
}

l3a_status naming_recognise(l3a_context *context, const struct parameter_source *from, const struct naming **naming,
                            char **prefix) {
    struct search search;
    size_t tower = from->count;
    l3a_status status = L3A_OK;
    TRY(search_open(context, from, &search));
    for (size_t i = 0; tower == from->count; i++) {
        *naming = naming_at(i);
        if (!*naming) {
            status = fail_unknown(&search);
            goto done;
        }
        tower = find_tower(&search, *naming);
        TRY(search.text.status);
    }
    TRY(copy_text(context, name_at(from, tower), search.lengths[tower] - strlen((*naming)->marks[0]), prefix));
done:
    search_close(&search);
    return status;
}
