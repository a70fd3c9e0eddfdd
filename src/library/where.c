/* Grammar:
 *
 *   any  := all { "or" all }
 *   all  := one { ["and"] one }
 *   one  := "not" one | "(" any ")" | KEY ":" VALUE | TAG
 *
 * A value or a tag is a word or a text in quotes, in which "" or \\" stands for one. `and` binds before `or`, and words after
 * each other are joined by `and`. Each part of an expression becomes a mask over all pictures: a byte each, NO, UNKNOWN or YES.
 * What tags a picture has is unknown until it was looked at, or if it cannot be read: then neither `dog` nor `not dog` finds it. */
#include "library/where.h"

#include "library/dates.h"

#include "common/closest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DEEPEST = 100, LONGEST = 1 << 16, MOST_TERMS = 1000, TOKEN = 1024 };

enum { NO, UNKNOWN, YES }; /* `not` is YES - x, `and` the least, `or` the greatest */

enum kind { END, OPEN, CLOSE, WORD };

struct parser {
    l3a_library *library;
    l3a_context *context;
    const char *at;
    enum kind kind;
    char key[16]; /* "": the token is a tag */
    char token[TOKEN];
    bool quoted;
    size_t count; /* pictures */
    unsigned depth, terms;
    bool negated, others;
    struct where *where;
};

static l3a_status parse_any(struct parser *parser, uint8_t **mask);

/* ---- Tokens ---- */

static l3a_status read_quoted(struct parser *parser, size_t *length) {
    for (parser->at++; parser->at[0] != '"' || parser->at[1] == '"'; parser->at++) {
        const bool doubled = parser->at[0] == '"',
                   escaped = parser->at[0] == '\\' && (parser->at[1] == '"' || parser->at[1] == '\\');
        parser->at += doubled || escaped;
        if (!parser->at[0]) {
            return fail(parser->context, L3A_ERROR_ARGUMENT, "end it with \"", "a quote is not closed");
        }
        if (*length == TOKEN - 1) {
            return fail(parser->context, L3A_ERROR_ARGUMENT, NULL, "a name is longer than %d bytes", TOKEN - 1);
        }
        parser->token[(*length)++] = parser->at[0];
    }
    parser->at++;
    return L3A_OK;
}

/* A key before a colon, as in since:2024. A tag may have a colon in it: only these are keys. */
static void read_key(struct parser *parser) {
    static const char *const keys[] = {"folder", "since", "until", "unsure", "name", "is", "word", "tag"};
    parser->key[0] = '\0';
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const size_t length = strlen(keys[i]);
        if (strncasecmp(parser->at, keys[i], length) == 0 && parser->at[length] == ':') {
            strcpy(parser->key, keys[i]);
            parser->at += length + 1;
            return;
        }
    }
}

static l3a_status next(struct parser *parser) {
    size_t length = 0;
    l3a_status status = L3A_OK;
    parser->at += strspn(parser->at, " \t\r\n");
    parser->quoted = false;
    parser->token[0] = parser->key[0] = '\0';
    parser->kind = !parser->at[0] ? END : parser->at[0] == '(' ? OPEN : parser->at[0] == ')' ? CLOSE : WORD;
    if (parser->kind != WORD) {
        parser->at += parser->kind != END;
        return L3A_OK;
    }
    read_key(parser);
    parser->quoted = parser->at[0] == '"';
    if (parser->quoted) {
        TRY(read_quoted(parser, &length));
    } else {
        length = strcspn(parser->at, " \t\r\n()");
        FAIL_IF(length > TOKEN - 1, parser->context, L3A_ERROR_ARGUMENT, NULL, "a name is longer than %d bytes", TOKEN - 1);
        memcpy(parser->token, parser->at, length);
        parser->at += length;
    }
    parser->token[length] = '\0';
    FAIL_IF(!length && parser->key[0], parser->context, L3A_ERROR_ARGUMENT, "write a value after it, as in since:2024-01",
            "'%s:' has no value", parser->key);
done:
    return status;
}

static bool is_word(const struct parser *parser, const char *word) {
    return parser->kind == WORD && !parser->quoted && !parser->key[0] && strcasecmp(parser->token, word) == 0;
}

/* ---- Leaves ---- */

static l3a_status suggest_tag(const struct parser *parser) {
    static const char otherwise[] = "search words that the network knows with word:…, and names of files with name:…";
    struct database *database = &parser->library->database;
    text_list names = {0};
    char hint[320];
    sqlite3_stmt *statement = NULL;
    bool row;
    l3a_status status = L3A_OK;
    TRY(database_prepare(database, "SELECT name FROM class WHERE active", &statement));
    TRY(database_step(database, statement, &row));
    while (row) {
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        TRY(text_list_add(parser->context, &names, name ? name : "", name ? strlen(name) : 0));
        TRY(database_step(database, statement, &row));
    }
    suggest_closest(hint, sizeof hint, parser->token, (const char *const *)names.items, names.count, otherwise);
    status = fail(parser->context, L3A_ERROR_CLASS, hint, "there is no tag '%s'", parser->token);
done:
    sqlite3_reset(statement);
    text_list_clear(parser->context, &names);
    return status;
}

/* The scores and the threshold of the tag that the token names. The first that is asked for can order what is found. */
static l3a_status read_tag(struct parser *parser, const float **values, double *threshold) {
    int64_t class;
    l3a_status status = L3A_OK;
    TRY(class_find(&parser->library->database, parser->token, &class, threshold));
    if (!class) {
        return suggest_tag(parser);
    }
    if (!parser->where->first && !parser->negated) {
        parser->where->first = class;
    }
    TRY(columns_get(&parser->library->columns, &parser->library->database, class, values));
done:
    return status;
}

static l3a_status mask_tag(struct parser *parser, uint8_t *mask) {
    const struct catalogue *catalogue = &parser->library->catalogue;
    const float *values;
    double threshold;
    l3a_status status = L3A_OK;
    TRY(read_tag(parser, &values, &threshold));
    for (size_t i = 0; i < parser->count; i++) {
        const float score = catalogue->slots[i] < catalogue->slot_count ? values[catalogue->slots[i]] : NAN;
        mask[i] = isnan(score) ? UNKNOWN : score > (float)threshold ? YES : NO;
    }
done:
    return status;
}

/* Pictures whose score for a tag is near its threshold. */
static l3a_status mask_near(struct parser *parser, uint8_t *mask) {
    const struct catalogue *catalogue = &parser->library->catalogue;
    const float *values;
    double threshold;
    l3a_status status = L3A_OK;
    TRY(read_tag(parser, &values, &threshold));
    for (size_t i = 0; i < parser->count; i++) {
        const float score = catalogue->slots[i] < catalogue->slot_count ? values[catalogue->slots[i]] : NAN;
        mask[i] = isnan(score) ? UNKNOWN : doubt_of(fabsf(score - (float)threshold)) >= UNSURE ? YES : NO;
    }
done:
    return status;
}

/* otherwise: of pictures without scores. */
static l3a_status mask_flags(struct parser *parser, unsigned wanted, unsigned refused, uint8_t otherwise, uint8_t *mask) {
    const struct catalogue *catalogue = &parser->library->catalogue;
    const float *values;
    l3a_status status = L3A_OK;
    TRY(columns_get(&parser->library->columns, &parser->library->database, COLUMN_FLAGS, &values));
    for (size_t i = 0; i < parser->count; i++) {
        const unsigned flags = catalogue->slots[i] < catalogue->slot_count ? (unsigned)values[catalogue->slots[i]] : 0;
        mask[i] = !(flags & FLAG_SCORED) ? otherwise : (flags & wanted) == wanted && !(flags & refused) ? YES : NO;
    }
done:
    return status;
}

static l3a_status mask_unsure(struct parser *parser, uint8_t *mask) {
    const struct catalogue *catalogue = &parser->library->catalogue;
    const float *values;
    l3a_status status = L3A_OK;
    TRY(columns_get(&parser->library->columns, &parser->library->database, COLUMN_DOUBT, &values));
    for (size_t i = 0; i < parser->count; i++) {
        mask[i] = catalogue->slots[i] >= catalogue->slot_count ? UNKNOWN : values[catalogue->slots[i]] >= UNSURE ? YES : NO;
    }
done:
    return status;
}

static l3a_status mask_is(struct parser *parser, uint8_t *mask) {
    static const char *const states[] = {"waiting", "done", "failed", "other"};
    const struct catalogue *catalogue = &parser->library->catalogue;
    for (size_t state = 0; state < sizeof states / sizeof states[0]; state++) {
        if (strcasecmp(parser->token, states[state]) == 0) {
            for (size_t i = 0; i < parser->count; i++) {
                mask[i] = catalogue->states[i] == state ? YES : NO;
            }
            parser->others = parser->others || state == PICTURE_OTHER;
            return L3A_OK;
        }
    }
    if (strcasecmp(parser->token, "untagged") == 0) {
        return mask_flags(parser, 0, FLAG_TAGGED | FLAG_SAID, UNKNOWN, mask);
    }
    if (strcasecmp(parser->token, "tagged") == 0) {
        return mask_flags(parser, FLAG_TAGGED, 0, UNKNOWN, mask);
    }
    if (strcasecmp(parser->token, "said") == 0) {
        return mask_flags(parser, FLAG_SAID, 0, NO, mask);
    }
    if (strcasecmp(parser->token, "unsure") == 0) {
        return mask_unsure(parser, mask);
    }
    return fail(parser->context, L3A_ERROR_ARGUMENT, "use tagged, untagged, said, unsure, done, waiting, failed or other",
                "'is:%s' is unknown", parser->token);
}

static l3a_status mask_dates(struct parser *parser, uint8_t *mask) {
    const struct catalogue *catalogue = &parser->library->catalogue;
    const bool since = parser->key[0] == 's';
    int64_t first, after;
    l3a_status status = L3A_OK;
    FAIL_IF(!date_parse(parser->token, &first, &after), parser->context, L3A_ERROR_ARGUMENT, "write 2024, 2024-06 or 2024-06-30",
            "'%s' is not a date", parser->token);
    for (size_t i = 0; i < parser->count; i++) {
        mask[i] = (since ? catalogue->dates[i] >= first : catalogue->dates[i] < after) ? YES : NO;
    }
done:
    return status;
}

/* Whether a folder, given by its path below another, is the one that is wanted or below it. A name without a slash means any folder
 * of that name. */
static bool is_below(const char *path, const char *wanted, size_t length) {
    const bool simple = !memchr(wanted, '/', length);
    for (const char *at = path; at;) {
        if (strncmp(at, wanted, length) == 0 && (at[length] == '/' || !at[length])) {
            return true;
        }
        const char *slash = simple ? strchr(at, '/') : NULL;
        at = slash ? slash + 1 : NULL;
    }
    return false;
}

/* Whether a folder is meant: by its whole path, by its path below its root or beginning with the root's own name, or by its name
 * alone. */
static bool is_meant(const char *path, size_t root, const char *wanted, size_t length) {
    size_t name = root;
    if (wanted[0] == '/') {
        return length == 1 || is_below(path, wanted, length);
    }
    while (name > 0 && path[name - 1] != '/') {
        name--;
    }
    return is_below(path + name, wanted, length) || (path[root] == '/' && is_below(path + root + 1, wanted, length));
}

/* Lists the numbers of the folders that are meant, in ascending order. */
static l3a_status list_folders(struct parser *parser, int64_t **folders, size_t *count) {
    struct database *database = &parser->library->database;
    size_t length = strlen(parser->token), capacity = 0;
    sqlite3_stmt *statement = NULL;
    bool row;
    l3a_status status = L3A_OK;
    while (length > 1 && parser->token[length - 1] == '/') {
        length--;
    }
    TRY(database_prepare(
        database, "SELECT f.id, f.path, length(CAST(r.path AS BLOB)) FROM folder f JOIN root r ON r.id = f.root ORDER BY f.id",
        &statement));
    TRY(database_step(database, statement, &row));
    while (row) {
        const char *path = (const char *)sqlite3_column_text(statement, 1);
        const int64_t root = sqlite3_column_int64(statement, 2);
        const size_t whole = path ? strlen(path) : 0;
        if (path && root >= 0 && (uint64_t)root <= whole && is_meant(path, (size_t)root, parser->token, length)) {
            TRY(grow_array(parser->context, folders, &capacity, *count + 1, sizeof **folders));
            (*folders)[(*count)++] = sqlite3_column_int64(statement, 0);
        }
        TRY(database_step(database, statement, &row));
    }
done:
    sqlite3_reset(statement);
    return status;
}

static int compare_folders(const void *left, const void *right) {
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static l3a_status mask_folder(struct parser *parser, uint8_t *mask) {
    const struct catalogue *catalogue = &parser->library->catalogue;
    int64_t *folders = NULL, last = -1;
    size_t count = 0;
    bool meant = false;
    l3a_status status = L3A_OK;
    TRY(list_folders(parser, &folders, &count));
    for (size_t i = 0; i < parser->count; i++) { /* pictures of a folder often follow each other */
        const int64_t folder = catalogue->folders[i];
        if (folder != last) {
            meant = count && bsearch(&folder, folders, count, sizeof *folders, compare_folders);
            last = folder;
        }
        mask[i] = meant ? YES : NO;
    }
done:
    release(parser->context, folders);
    return status;
}

static l3a_status mask_name(struct parser *parser, uint8_t *mask) {
    l3a_library *library = parser->library;
    l3a_status status = L3A_OK;
    TRY(names_load(&library->names, &library->catalogue, &library->database));
    names_search(&library->names, parser->token, mask);
    for (size_t i = 0; i < parser->count; i++) {
        mask[i] = mask[i] ? YES : NO;
    }
done:
    return status;
}

static l3a_status mask_word(struct parser *parser, uint8_t *mask) {
    l3a_status status = L3A_OK;
    FAIL_IF(parser->where->word, parser->context, L3A_ERROR_ARGUMENT, "search one of them", "there are two words to order by");
    FAIL_IF(parser->negated || parser->depth > 1, parser->context, L3A_ERROR_ARGUMENT,
            "a word says which pictures come first; put it beside the rest of the expression",
            "'word:%s' cannot stand in parentheses or after 'not'", parser->token);
    TRY(copy_text(parser->context, parser->token, strlen(parser->token), &parser->where->word));
    memset(mask, YES, parser->count);
done:
    return status;
}

static l3a_status mask_leaf(struct parser *parser, uint8_t *mask) {
    switch (parser->key[0]) {
    case 'f': return mask_folder(parser, mask);
    case 's': return mask_dates(parser, mask);
    case 'u': return parser->key[2] == 's' ? mask_near(parser, mask) : mask_dates(parser, mask);
    case 'n': return mask_name(parser, mask);
    case 'i': return mask_is(parser, mask);
    case 'w': return mask_word(parser, mask);
    default: return mask_tag(parser, mask);
    }
}

/* ---- Expressions ---- */

static l3a_status parse_one(struct parser *parser, uint8_t **mask) {
    l3a_status status = L3A_OK;
    FAIL_IF(++parser->depth > DEEPEST, parser->context, L3A_ERROR_ARGUMENT, NULL, "the expression is nested too deeply");
    if (is_word(parser, "not")) {
        TRY(next(parser));
        parser->negated = !parser->negated;
        TRY(parse_one(parser, mask));
        parser->negated = !parser->negated;
        for (size_t i = 0; i < parser->count; i++) {
            (*mask)[i] = YES - (*mask)[i];
        }
    } else if (parser->kind == OPEN) {
        TRY(next(parser));
        TRY(parse_any(parser, mask));
        FAIL_IF(parser->kind != CLOSE, parser->context, L3A_ERROR_ARGUMENT, "end it with )", "a parenthesis is not closed");
        TRY(next(parser));
    } else {
        FAIL_IF(parser->kind != WORD || is_word(parser, "and") || is_word(parser, "or"), parser->context, L3A_ERROR_ARGUMENT,
                "write a tag there, as in 'dog and not cat'; put a tag with such a name in quotes",
                parser->kind == END     ? "the expression ends too early"
                : parser->kind == CLOSE ? "nothing stands before a )"
                                        : "nothing stands before '%s'",
                parser->token);
        FAIL_IF(++parser->terms > MOST_TERMS, parser->context, L3A_ERROR_ARGUMENT, NULL, "the expression has more than %d parts",
                MOST_TERMS);
        TRY(allocate(parser->context, parser->count, 1, mask));
        TRY(mask_leaf(parser, *mask));
        TRY(next(parser));
    }
    parser->depth--;
done:
    return status;
}

static l3a_status parse_all(struct parser *parser, uint8_t **mask) {
    uint8_t *other = NULL;
    l3a_status status = L3A_OK;
    TRY(parse_one(parser, mask));
    while (parser->kind == OPEN || (parser->kind == WORD && !is_word(parser, "or"))) {
        if (is_word(parser, "and")) {
            TRY(next(parser));
        }
        TRY(parse_one(parser, &other));
        for (size_t i = 0; i < parser->count; i++) {
            (*mask)[i] = other[i] < (*mask)[i] ? other[i] : (*mask)[i];
        }
        release(parser->context, other);
        other = NULL;
    }
done:
    release(parser->context, other);
    return status;
}

static l3a_status parse_any(struct parser *parser, uint8_t **mask) {
    uint8_t *other = NULL;
    l3a_status status = L3A_OK;
    TRY(parse_all(parser, mask));
    while (is_word(parser, "or")) {
        TRY(next(parser));
        TRY(parse_all(parser, &other));
        for (size_t i = 0; i < parser->count; i++) {
            (*mask)[i] = other[i] > (*mask)[i] ? other[i] : (*mask)[i];
        }
        release(parser->context, other);
        other = NULL;
    }
done:
    release(parser->context, other);
    return status;
}

l3a_status where_evaluate(l3a_library *library, const char *text, struct where *where) {
    struct parser parser = {
        .library = library, .context = library->context, .at = text ? text : "", .count = library->catalogue.count, .where = where};
    l3a_status status = L3A_OK;
    *where = (struct where){0};
    FAIL_IF(strlen(parser.at) > LONGEST, library->context, L3A_ERROR_ARGUMENT, NULL, "the expression is longer than %d bytes",
            LONGEST);
    TRY(next(&parser));
    if (parser.kind == END) {
        TRY(allocate(library->context, parser.count, 1, &where->chosen));
        memset(where->chosen, YES, parser.count);
    } else {
        TRY(parse_any(&parser, &where->chosen));
        FAIL_IF(parser.kind == CLOSE, library->context, L3A_ERROR_ARGUMENT, "remove it, or write ( before it",
                "there is a ) too much");
    }
    for (size_t i = 0; i < parser.count; i++) { /* videos and RAW files only if they are asked for */
        const uint8_t state = library->catalogue.states[i];
        where->chosen[i] = where->chosen[i] == YES && state != PICTURE_GONE && (state != PICTURE_OTHER || parser.others);
    }
done:
    if (status != L3A_OK) {
        where_free(library, where);
    }
    return status;
}

void where_free(l3a_library *library, struct where *where) {
    release(library->context, where->chosen);
    release(library->context, where->word);
    *where = (struct where){0};
}
