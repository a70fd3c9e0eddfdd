/* The names that networks have in the files that people publish, as tables: names.c reads a file of any of them under timm's names.
 *
 * A naming is recognised by its marks, and its rules say what a tensor is called in timm. In a pattern,
 *     %  is a number, which stands in the same place of the other name; in timm's, + is one more than it,
 *     *  is a number that timm's name does not have,
 *     @  at the end is weight, bias, running_mean, running_var or num_batches_tracked,
 *     ^  at the start says that the name is one level above the tower: "vit.layernorm.weight" beside "classifier.weight".
 * Everything may have a prefix, such as "model." or "visual.trunk."; it is whatever stands before the marks. What is outside of the
 * prefix is not the image tower, and is skipped. What is inside and has no rule keeps its name.
 *
 * To add a naming, add its table and a line to `namings`. */
#ifndef L3A_NAMINGS_H
#define L3A_NAMINGS_H

#include "net/parameters.h"

/* What happens to a tensor on the way, besides its name. */
enum change {
    UNCHANGED,
    AS_TOKENS,  /* [c] and [t, c] become [1, 1, c] and [1, t, c] */
    AS_VECTOR,  /* [c, 1, 1] becomes [c] */
    AS_MATRIX,  /* [o, i, 1, 1] becomes [o, i] */
    TRANSPOSED, /* [i, o] becomes [o, i] */
    JOINED,     /* number `first` of `parts` tensors that follow each other along the first dimension */
    CUT         /* of `parts` equal parts along the first dimension, `count` from number `first` on */
};

struct rule {
    const char *from;
    const char *to; /* timm's; NULL: it is the same */
    enum change change;
    size_t first, count, parts;
};

enum { MARKS = 3, JOINED_PARTS = 3, RULE_NUMBERS = 4 };

struct naming {
    const char *name;
    const char *marks[MARKS]; /* tensors that it always has, and no naming after it in the list */
    const struct rule *rules;
    size_t rule_count;
    /* Names that are not needed: how they begin or, behind a dot, how they end; NULL after the last. Or NULL. */
    const char *const *skipped;
    const char *classifier; /* what it calls a linear map from the features to classes; ^ as in rules */
    bool imagenet;          /* all that is published under these names has ImageNet's mean and deviation */
};

/* NULL past the last. */
const struct naming *naming_at(size_t index);
/* Finds the naming of a table of tensors, and the prefix of the image tower, which the caller releases. */
l3a_status naming_recognise(l3a_context *context, const struct parameter_source *from, const struct naming **naming, char **prefix);

/* Whether a prefix says that its tensors are a copy: an average of earlier ones, the other network of self-supervised training, or
 * what an optimiser keeps of each. */
bool prefix_is_copy(const char *prefix, size_t length);

/* Where a pattern fits a name, and what its signs stand for. */
struct match {
    size_t start; /* where the pattern begins in the name */
    unsigned numbers[RULE_NUMBERS];
    size_t count; /* of the numbers; the last comes first */
    const char *leaf;
};

enum { PATTERN_TEXT = 128, SHOWN = 200 }; /* texts of patterns without signs; how much of a name is shown */

/* Whether the end of the name fits the pattern. */
bool pattern_match(const char *pattern, const char *name, size_t length, struct match *match);
/* The pattern with what its signs stand for. */
void pattern_expand(const char *pattern, const struct match *match, char text[PATTERN_TEXT]);
/* Whether the rule is about a name one level above the tower, and its pattern without the sign for that. */
bool rule_is_outer(const struct rule *rule);
const char *rule_pattern(const struct rule *rule);

#endif
