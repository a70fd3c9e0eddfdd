/* Reads tensors under timm's names. The work is done when a file is opened: every tensor of the file is compared with the rules of
 * its naming, and becomes a piece of one tensor or of several; pieces with the same name are put together. With n tensors and r
 * rules that takes n · r comparisons of names and n log n steps of sorting. Numbers are read one tensor at a time, when a family
 * takes it. */
#include "net/names.h"
#include "net/namings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 16 };

struct target {
    const struct rule *rule; /* NULL: the tensor is as in the file */
    size_t parts[JOINED_PARTS], count;
};

struct names {
    l3a_context *context;
    struct parameter_source from;
    const struct naming *naming;
    char *prefix;
    size_t prefix_length, outer_length; /* "visual.trunk." is the prefix, and "visual." the outer one */
    text_pool pool;                     /* timm's names, where they are not the file's */
    struct checkpoint_tensor *tensors;
    struct target *targets; /* of each tensor */
    size_t count;
};

static const char *name_at(const struct parameter_source *source, size_t index) {
    return source->at(source->owner, index)->name;
}

static l3a_status recognise(struct names *names) {
    const l3a_status status = naming_recognise(names->context, &names->from, &names->naming, &names->prefix);
    if (status == L3A_OK) {
        const size_t length = strlen(names->prefix);
        names->prefix_length = names->outer_length = length;
        while (names->outer_length && (names->outer_length == length || names->prefix[names->outer_length - 1] != '.')) {
            names->outer_length--;
        }
    }
    return status;
}

/* ---- Names ---- */

/* What the file calls a tensor of timm's name, or its part of that number. Returns false if no rule makes it. */
static bool file_name(const struct names *names, const char *name, size_t part, char text[NAME_IN_FILE]) {
    const size_t length = strlen(name);
    struct match match;
    char own[PATTERN_TEXT];
    for (size_t i = 0; i < names->naming->rule_count; i++) {
        const struct rule *rule = &names->naming->rules[i];
        if ((rule->change != JOINED || rule->first == part) &&
            pattern_match(rule->to ? rule->to : rule_pattern(rule), name, length, &match) && !match.start) {
            pattern_expand(rule_pattern(rule), &match, own);
            snprintf(text, NAME_IN_FILE, "%.*s%s", (int)(rule_is_outer(rule) ? names->outer_length : names->prefix_length),
                     names->prefix, own);
            return true;
        }
    }
    return false;
}

static bool name_in_file(const void *owner, const char *name, char text[NAME_IN_FILE]) {
    const struct names *names = owner;
    if (!file_name(names, name, 0, text)) {
        snprintf(text, NAME_IN_FILE, "%s%s", names->prefix, name);
    }
    return strcmp(text, name) != 0;
}

/* A tensor of the file under timm's name. */
struct piece {
    const struct rule *rule;
    size_t source;
    const char *name; /* in the file, or NULL: … */
    size_t pooled;    /* … in the pool */
};

struct pieces {
    struct piece *items;
    size_t count, capacity;
};

static const struct rule *find_rule(const struct names *names, const char *name, struct match *match) {
    const size_t length = strlen(name);
    const bool inside = strncmp(name, names->prefix, names->prefix_length) == 0;
    const bool beside = strncmp(name, names->prefix, names->outer_length) == 0;
    for (size_t i = 0; beside && i < names->naming->rule_count; i++) {
        const struct rule *rule = &names->naming->rules[i];
        if ((inside || rule_is_outer(rule)) && pattern_match(rule_pattern(rule), name, length, match) &&
            match->start == (rule_is_outer(rule) ? names->outer_length : names->prefix_length)) {
            return rule;
        }
    }
    return NULL;
}

static bool is_outside(const struct names *names, const char *name) {
    const bool copy = !names->prefix_length && strchr(name, '.') && prefix_is_copy(name, strcspn(name, "."));
    return copy || strncmp(name, names->prefix, names->prefix_length) != 0;
}

static bool is_skipped(const struct names *names, const char *name) {
    const char *const *skipped = names->naming->skipped;
    const size_t length = strlen(name);
    bool found = is_outside(names, name);
    for (size_t i = 0; !found && skipped && skipped[i]; i++) {
        const size_t own = strlen(skipped[i]);
        found = *skipped[i] == '.' ? length >= own && strcmp(name + length - own, skipped[i]) == 0
                                   : strncmp(name + names->prefix_length, skipped[i], own) == 0;
    }
    return found;
}

static l3a_status add_piece(struct names *names, struct pieces *pieces, const struct piece *piece) {
    const l3a_status status = grow_array(names->context, &pieces->items, &pieces->capacity, pieces->count + 1, sizeof *piece);
    if (status == L3A_OK) {
        pieces->items[pieces->count++] = *piece;
    }
    return status;
}

/* The pieces that a tensor of the file makes: one, or those that it is cut into, or none. */
static l3a_status add_pieces(struct names *names, size_t source, struct pieces *pieces) {
    const char *name = name_at(&names->from, source);
    const struct rule *end = names->naming->rules + names->naming->rule_count;
    struct match match;
    char made[PATTERN_TEXT];
    l3a_status status = L3A_OK;
    const struct rule *first = find_rule(names, name, &match);
    if (!first && !is_skipped(names, name)) {
        TRY(add_piece(names, pieces, &(struct piece){.source = source, .name = name + names->prefix_length}));
    }
    for (const struct rule *rule = first; rule && rule < end && strcmp(rule->from, first->from) == 0; rule++) {
        struct piece piece = {.rule = rule, .source = source, .pooled = names->pool.count};
        if (rule->to) {
            pattern_expand(rule->to, &match, made);
            TRY(text_pool_add(names->context, &names->pool, made, strlen(made)));
        } else {
            piece.name = name + match.start;
        }
        TRY(add_piece(names, pieces, &piece));
    }
done:
    return status;
}

/* ---- Tensors ---- */

static l3a_status fail_shape(const struct names *names, const struct checkpoint_tensor *tensor, const char *expected) {
    char shape[SHAPE_TEXT];
    return fail(names->context, L3A_ERROR_MISMATCH, NULL, "the tensor %.*s has shape %s; expected %s", SHOWN, tensor->name,
                shape_text(tensor->rank, tensor->shape, shape), expected);
}

static l3a_status drop_ones(const struct names *names, const struct checkpoint_tensor *from, size_t rank,
                            struct checkpoint_tensor *tensor) {
    while (tensor->rank > rank && tensor->shape[tensor->rank - 1] == 1) {
        tensor->rank--;
    }
    return tensor->rank <= rank
               ? L3A_OK
               : fail_shape(names, from, rank == 1 ? "[channels, 1, 1]" : "[outputs, inputs, 1, 1] or without ones");
}

/* Changes the shape of a tensor of the file to that of a whole tensor, or of a cut. */
static l3a_status change_shape(const struct names *names, const struct checkpoint_tensor *from, const struct rule *rule,
                               struct checkpoint_tensor *tensor) {
    uint64_t *shape = tensor->shape;
    switch (rule ? rule->change : UNCHANGED) {
    case UNCHANGED: break;
    case JOINED: break;
    case AS_VECTOR: return drop_ones(names, from, 1, tensor);
    case AS_MATRIX: return drop_ones(names, from, 2, tensor);
    case AS_TOKENS:
        if (from->rank < 1 || from->rank > 3) {
            return fail_shape(names, from, "[channels] or [tokens, channels]");
        }
        tensor->rank = 3;
        for (size_t i = 0; i < 3; i++) {
            shape[i] = i + from->rank < 3 ? 1 : from->shape[i + from->rank - 3];
        }
        break;
    case TRANSPOSED:
        if (from->rank != 2) {
            return fail_shape(names, from, "a matrix");
        }
        shape[0] = from->shape[1];
        shape[1] = from->shape[0];
        break;
    case CUT:
        if (from->rank < 1 || from->shape[0] % rule->parts) {
            return fail_shape(names, from, "equal parts for queries, keys and values");
        }
        shape[0] = from->shape[0] / rule->parts * rule->count;
        tensor->elements = from->elements / rule->parts * rule->count;
        break;
    }
    return L3A_OK;
}

static l3a_status join_shapes(const struct names *names, const struct target *target, struct checkpoint_tensor *tensor) {
    const struct parameter_source *from = &names->from;
    const struct checkpoint_tensor *first = from->at(from->owner, target->parts[0]);
    char shape[SHAPE_TEXT], expected[SHAPE_TEXT + NAME_IN_FILE];
    for (size_t i = 1; i < target->count; i++) {
        const struct checkpoint_tensor *other = from->at(from->owner, target->parts[i]);
        if (first->rank != other->rank || memcmp(first->shape, other->shape, first->rank * sizeof *first->shape) != 0) {
            snprintf(expected, sizeof expected, "%s, as %.*s has", shape_text(first->rank, first->shape, shape), SHOWN,
                     first->name);
            return fail_shape(names, other, expected);
        }
    }
    if (!first->rank || !multiply_sizes(first->shape[0], target->count, &tensor->shape[0]) ||
        !multiply_sizes(first->elements, target->count, &tensor->elements)) {
        return fail_shape(names, first, "a vector or a matrix");
    }
    return L3A_OK;
}

static l3a_status fail_repeated(const struct names *names, const char *name, size_t one, size_t other) {
    return fail(names->context, L3A_ERROR_MISMATCH, "use a checkpoint of one network",
                "the tensors %.*s and %.*s both stand for %.*s", SHOWN, name_at(&names->from, one), SHOWN,
                name_at(&names->from, other), SHOWN, name);
}

/* Puts the pieces of one name together. */
static l3a_status make_target(struct names *names, const struct pieces *pieces, const size_t *members, size_t count,
                              const char *name) {
    const struct piece *first = &pieces->items[members[0]];
    struct target *target = &names->targets[names->count];
    struct checkpoint_tensor *tensor = &names->tensors[names->count++];
    const bool joined = first->rule && first->rule->change == JOINED;
    bool there[JOINED_PARTS] = {false};
    char missing[NAME_IN_FILE];
    l3a_status status = L3A_OK;
    *target = (struct target){.rule = first->rule, .parts = {first->source}, .count = joined ? first->rule->parts : 1};
    for (size_t i = 0; i < count; i++) {
        const struct piece *piece = &pieces->items[members[i]];
        const bool fits = joined ? piece->rule && piece->rule->change == JOINED && !there[piece->rule->first] : !i;
        if (!fits) {
            status = fail_repeated(names, name, first->source, piece->source);
            goto done;
        }
        there[joined ? piece->rule->first : 0] = true;
        target->parts[joined ? piece->rule->first : 0] = piece->source;
    }
    for (size_t i = 0; i < target->count; i++) {
        FAIL_IF(!there[i], names->context, L3A_ERROR_MISMATCH, "check that the checkpoint is complete",
                "the tensor %s is missing; it is a part of %s", file_name(names, name, i, missing) ? missing : "beside it", name);
    }
    *tensor = *names->from.at(names->from.owner, target->parts[0]);
    TRY(joined ? join_shapes(names, target, tensor)
               : change_shape(names, names->from.at(names->from.owner, first->source), first->rule, tensor));
    tensor->name = name;
done:
    return status;
}

/* Makes the tensors, in the order of their first pieces. */
static l3a_status make_targets(struct names *names, const struct pieces *pieces) {
    l3a_context *context = names->context;
    const size_t count = pieces->count;
    const char **texts = NULL;
    size_t *order = NULL, *sizes = NULL, *starts = NULL;
    text_index index = {0};
    l3a_status status = L3A_OK;
    TRY(allocate(context, count, sizeof *texts, &texts));
    TRY(allocate(context, count, sizeof *order, &order));
    TRY(allocate(context, count, sizeof *starts, &starts));
    TRY(allocate_zeroed(context, count, sizeof *sizes, &sizes));
    TRY(allocate(context, count, sizeof *names->tensors, &names->tensors));
    TRY(allocate(context, count, sizeof *names->targets, &names->targets));
    for (size_t i = 0; i < count; i++) {
        texts[i] = pieces->items[i].name ? pieces->items[i].name : text_pool_at(&names->pool, pieces->items[i].pooled);
    }
    TRY(text_index_make(context, (char *const *)texts, count, &index));
    text_index_order(&index, order);
    for (size_t i = 0, start = 0; i < count; i++) {
        start = strcmp(texts[order[start]], texts[order[i]]) == 0 ? start : i;
        starts[order[start]] = start;
        sizes[order[start]]++;
    }
    for (size_t i = 0; i < count; i++) {
        TRY(sizes[i] ? make_target(names, pieces, order + starts[i], sizes[i], texts[i]) : L3A_OK);
    }
done:
    text_index_free(context, &index);
    release(context, texts);
    release(context, order);
    release(context, starts);
    release(context, sizes);
    return status;
}

l3a_status names_open(l3a_context *context, const struct parameter_source *from, struct names **names) {
    struct names *made = NULL;
    struct pieces pieces = {0};
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->from = *from;
    TRY(recognise(made));
    for (size_t i = 0; i < from->count; i++) {
        TRY(add_pieces(made, i, &pieces));
    }
    TRY(make_targets(made, &pieces));
    *names = made;
    made = NULL;
done:
    release(context, pieces.items);
    names_close(made);
    return status;
}

void names_close(struct names *names) {
    if (names) {
        l3a_context *context = names->context;
        release(context, names->prefix);
        release(context, names->tensors);
        release(context, names->targets);
        text_pool_clear(context, &names->pool);
        release(context, names);
    }
}

const char *names_naming(const struct names *names) {
    return names->naming->name;
}

bool names_are_imagenets(const struct names *names) {
    return names->naming->imagenet;
}

const char *names_prefix(const struct names *names) {
    return names->prefix;
}

/* ---- Reading ---- */

static enum change change_of(const struct target *target) {
    return target->rule ? target->rule->change : UNCHANGED;
}

static const struct checkpoint_tensor *tensor_at(const void *owner, size_t index) {
    return &((const struct names *)owner)->tensors[index];
}

/* from: [rows][columns] */
static void transpose(const float *from, size_t rows, size_t columns, float *to) {
    for (size_t i = 0; i < columns; i++) {
        for (size_t j = 0; j < rows; j++) {
            to[i * rows + j] = from[j * columns + i];
        }
    }
}

/* A part or the transpose of a tensor, which is read whole. */
static l3a_status read_changed(const struct names *names, const struct target *target, float *values) {
    const struct checkpoint_tensor *from = names->from.at(names->from.owner, target->parts[0]);
    const struct rule *rule = target->rule;
    float *whole = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(names->context, (size_t)from->elements, sizeof *whole, &whole));
    TRY(names->from.read(names->from.owner, from, whole));
    if (rule->change == CUT) {
        const size_t part = (size_t)from->elements / rule->parts;
        memcpy(values, whole + rule->first * part, rule->count * part * sizeof *values);
    } else {
        transpose(whole, (size_t)from->shape[0], (size_t)from->shape[1], values);
    }
done:
    release(names->context, whole);
    return status;
}

static l3a_status read_tensor(void *owner, const struct checkpoint_tensor *tensor, float *values) {
    const struct names *names = owner;
    const struct target *target = &names->targets[tensor - names->tensors];
    const enum change change = change_of(target);
    l3a_status status = L3A_OK;
    if (change == CUT || change == TRANSPOSED) {
        return read_changed(names, target, values);
    }
    for (size_t i = 0; i < target->count; i++) {
        const struct checkpoint_tensor *from = names->from.at(names->from.owner, target->parts[i]);
        TRY(names->from.read(names->from.owner, from, values + i * (size_t)from->elements));
    }
done:
    return status;
}

void names_source(struct names *names, struct parameter_source *source) {
    *source = (struct parameter_source){.owner = names,
                                        .count = names->count,
                                        .at = tensor_at,
                                        .read = read_tensor,
                                        .name_in_file = name_in_file,
                                        .recorded = names->from.recorded};
}

/* ---- Putting values back ---- */

bool names_is_of_tower(const struct names *names, size_t source) {
    const char *name = name_at(&names->from, source);
    struct match match;
    return find_rule(names, name, &match) || !is_outside(names, name);
}

size_t names_made_from(const struct names *names, size_t target, const size_t **sources) {
    *sources = names->targets[target].parts;
    return names->targets[target].count;
}

static void put_part(const struct target *target, const float *from, size_t part, size_t source, float *values) {
    for (size_t i = 0; i < target->count; i++) {
        if (target->parts[i] == source) {
            memcpy(values, from + i * part, part * sizeof *values);
        }
    }
}

size_t names_put(const struct names *names, size_t target, const float *from, size_t count, size_t source, float *values) {
    const struct target *made = &names->targets[target];
    const struct checkpoint_tensor *file = names->from.at(names->from.owner, source);
    const enum change change = change_of(made);
    if (change == JOINED) {
        put_part(made, from, count / made->count, source, values);
        return count / made->count;
    }
    if (change == CUT) {
        memcpy(values + made->rule->first * (count / made->rule->count), from, count * sizeof *values);
    } else if (change == TRANSPOSED) {
        transpose(from, (size_t)file->shape[1], (size_t)file->shape[0], values);
    } else {
        memcpy(values, from, count * sizeof *values);
    }
    return count;
}

bool names_keeps_shape(const struct names *names, size_t target) {
    const enum change change = change_of(&names->targets[target]);
    return change == UNCHANGED || change == AS_TOKENS;
}

void names_classifier(const struct names *names, bool beside, char text[NAME_IN_FILE]) {
    const char *name = beside ? "classifier" : names->naming->classifier;
    const bool outer = *name == '^';
    snprintf(text, NAME_IN_FILE, "%.*s%s", (int)(outer ? names->outer_length : names->prefix_length), names->prefix, name + outer);
}

/* ---- What is skipped ---- */

struct group {
    const char *text, *whole;
    size_t length;
};

static int compare_groups(const void *left, const void *right) {
    const struct group *a = left, *b = right;
    return compare_bytes(a->text, a->length, b->text, b->length);
}

/* The words up to the first that the tower's prefix does not have; or what counts steps, which every batch norm does. */
static struct group group_of(const struct names *names, const char *name) {
    static const char counter[] = "num_batches_tracked";
    const size_t length = strlen(name), tail = sizeof counter - 1;
    size_t start = 0;
    for (size_t i = 0; i < names->prefix_length && names->prefix[i] == name[i]; i++) {
        start = name[i] == '.' ? i + 1 : start;
    }
    return length >= tail && strcmp(name + length - tail, counter) == 0
               ? (struct group){counter, name, tail}
               : (struct group){name, name, start + strcspn(name + start, ".")};
}

static void print_groups(struct group *groups, size_t count, text_builder *text) {
    size_t printed = 0;
    if (count) {
        qsort(groups, count, sizeof *groups, compare_groups);
    }
    for (size_t i = 0, next; i < count; i = next, printed++) {
        for (next = i + 1; next < count && compare_groups(&groups[i], &groups[next]) == 0; next++) {
        }
        if (printed == GROUPS) {
            text_builder_print(text, " and %zu more", count - i);
            return;
        }
        text_builder_print(text, "%s", printed ? ", " : "");
        if (next == i + 1) {
            text_builder_print(text, "%.*s", SHOWN, groups[i].whole);
        } else {
            text_builder_print(text, "%.*s (%zu tensors)", (int)(groups[i].length < SHOWN ? groups[i].length : SHOWN),
                               groups[i].text, next - i);
        }
    }
}

l3a_status names_list_skipped(const struct names *names, const struct parameters *parameters, text_builder *text) {
    l3a_context *context = names->context;
    struct group *groups = NULL;
    bool *used = NULL;
    size_t count = 0;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, names->from.count, sizeof *used, &used));
    TRY(allocate(context, names->from.count, sizeof *groups, &groups));
    for (size_t i = 0; i < names->count; i++) {
        for (size_t j = 0; j < names->targets[i].count; j++) {
            used[names->targets[i].parts[j]] |= parameters->used[i];
        }
    }
    for (size_t i = 0; i < names->from.count; i++) {
        if (!used[i]) {
            groups[count++] = group_of(names, name_at(&names->from, i));
        }
    }
    print_groups(groups, count, text);
    TRY(text->status);
done:
    release(context, used);
    release(context, groups);
    return status;
}
