/* Finds the classes that a word means. The table has each synset (a set of words that mean the same) after all that are below it,
 * so one pass from its end to its beginning marks everything below the synsets that are marked. */
#include "net/words.h"
#include "base/memory.h"
#include "common/closest.h"

#include <string.h>

#include "net/words.inc"

enum { LONGEST = 64, FORMS = 7 };

static char fold(char letter) {
    const bool space = letter == '-' || letter == '_' || letter == '\t' || letter == '\n' || letter == '\r';
    return space ? ' ' : letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

/* The text as words are compared: small letters, and single spaces between words. Returns false if nothing is left, or too much. */
static bool fold_text(const char *text, char folded[LONGEST]) {
    size_t length = 0;
    for (; *text; text++) {
        const char letter = fold(*text);
        if (letter == ' ' && (!length || folded[length - 1] == ' ')) {
            continue;
        }
        if (length + 1 == LONGEST) {
            return false;
        }
        folded[length++] = letter;
    }
    length -= length && folded[length - 1] == ' ';
    folded[length] = 0;
    return length > 0;
}

/* What a plural may be the plural of; and "binocular", of which WordNet has only the plural. */
static const struct {
    const char *plural, *singular;
} endings[FORMS - 1] = {{"s", ""}, {"es", ""}, {"ies", "y"}, {"ves", "f"}, {"ves", "fe"}, {"", "s"}};

/* The forms of a word to look for, itself first. */
static size_t list_forms(const char *text, char forms[FORMS][LONGEST]) {
    if (!fold_text(text, forms[0])) {
        return 0;
    }
    const size_t length = strlen(forms[0]);
    size_t count = 1;
    for (size_t i = 0; i < FORMS - 1; i++) {
        const size_t ending = strlen(endings[i].plural), other = strlen(endings[i].singular);
        if (length > ending && strcmp(forms[0] + length - ending, endings[i].plural) == 0 && length - ending + other < LONGEST) {
            memcpy(forms[count], forms[0], length - ending);
            memcpy(forms[count++] + length - ending, endings[i].singular, other + 1);
        }
    }
    return count;
}

/* Where a word goes on after a form; NULL if it begins otherwise. */
static const char *after_form(const char *word, const char *form) {
    for (; *form; word++, form++) {
        if (fold(*word) != *form) {
            return NULL;
        }
    }
    return word;
}

static const char *next_part(const char *word) {
    const char *end = strpbrk(word, " -");
    return end ? end + 1 : NULL;
}

/* Whether the form is the word or, with `within`, part of it: one word or several in a row. */
static bool fits(const char *word, const char *form, bool within) {
    for (const char *part = word; part; part = within ? next_part(part) : NULL) {
        const char *rest = after_form(part, form);
        if (rest && (!*rest || (within && fold(*rest) == ' '))) {
            return true;
        }
    }
    return false;
}

static bool synset_fits(const struct synset *synset, const char *form, bool within) {
    for (const char *word = synset->words; *word; word += strlen(word) + 1) {
        if (fits(word, form, within)) {
            return true;
        }
    }
    return false;
}

static size_t find_form(const char *form, enum word_fit fit, size_t classes[WORD_CLASSES]) {
    bool marked[SYNSETS];
    size_t count = 0;
    for (size_t i = SYNSETS; i-- > 0;) {
        marked[i] = (fit != WORD_WITHIN || i < WORD_CLASSES) && synset_fits(&synsets[i], form, fit != WORD_KNOWN);
        for (size_t j = 0; j < MOST_ABOVE; j++) {
            marked[i] = marked[i] || (synsets[i].above[j] && marked[synsets[i].above[j]]);
        }
    }
    for (size_t i = 0; i < WORD_CLASSES; i++) {
        if (marked[i]) {
            classes[count++] = i;
        }
    }
    return count;
}

size_t words_matching(const char *text, size_t classes[WORD_CLASSES], enum word_fit *fit) {
    char forms[FORMS][LONGEST];
    const size_t count = list_forms(text, forms);
    enum word_fit found = WORD_KNOWN;
    size_t matching = 0;
    for (; count && found <= WORD_WITHIN_ABOVE; found++) {
        for (size_t i = 0; !matching && i < count; i++) {
            matching = find_form(forms[i], found, classes);
        }
        if (matching) {
            break;
        }
    }
    if (fit) {
        *fit = matching ? found : WORD_UNKNOWN;
    }
    return matching;
}

/* Adds a word, and its parts if it has several: somebody may mean "labrador" by "labradr". */
static l3a_status add_candidates(l3a_context *context, const char *word, text_pool *pool) {
    char folded[LONGEST];
    l3a_status status = L3A_OK;
    if (fold_text(word, folded)) {
        TRY(text_pool_add(context, pool, folded, strlen(folded)));
        for (const char *part = strchr(folded, ' ') ? folded : NULL; part; part = next_part(part)) {
            TRY(text_pool_add(context, pool, part, strcspn(part, " ")));
        }
    }
done:
    return status;
}

l3a_status words_closest(l3a_context *context, const char *text, const char *otherwise, char *hint, size_t capacity) {
    char folded[LONGEST];
    text_pool pool = {0};
    const char **candidates = NULL;
    l3a_status status = L3A_OK;
    if (fold_text(text, folded)) {
        for (size_t i = 0; i < SYNSETS; i++) {
            for (const char *word = synsets[i].words; *word; word += strlen(word) + 1) {
                TRY(add_candidates(context, word, &pool));
            }
        }
    }
    TRY(allocate(context, pool.count, sizeof *candidates, &candidates));
    for (size_t i = 0; i < pool.count; i++) {
        candidates[i] = text_pool_at(&pool, i);
    }
    suggest_closest(hint, capacity, pool.count ? folded : NULL, candidates, pool.count, otherwise);
done:
    release(context, candidates);
    text_pool_clear(context, &pool);
    return status;
}

const char *words_at(size_t class, size_t index) {
    const char *word = class < WORD_CLASSES ? synsets[class].words : "";
    for (; index && *word; index--) {
        word += strlen(word) + 1;
    }
    return *word ? word : NULL;
}

const char *words_of(size_t class) {
    return words_at(class, 0);
}

uint32_t words_id(size_t class) {
    return synsets[class].id;
}

const char *words_source(void) {
    return "WordNet 3.0 Copyright 2006 by Princeton University";
}

const char *words_licence(void) {
    return licence;
}
