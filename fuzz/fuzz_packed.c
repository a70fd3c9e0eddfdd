/* Packed models: one that loads can score, and a tagger opens it or says why not. The records of the same file are parsed, and the
 * network inside it is described, if it has one. */
#include "fuzz.h"

#include "base/file.h"
#include "learn/scorer.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 64, CLASSES = 64 };

static void score(l3a_context *context, const struct scorer *scorer) {
    static const float rows[2 * WIDTH] = {1, -1, 0.5F};
    static float scores[2 * CLASSES];
    if (scorer_width(scorer) <= WIDTH && scorer->classes.count <= CLASSES) {
        must(scorer_score(context, scorer, rows, 2, scores, NULL) == L3A_OK);
    }
}

static void use_packed(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    struct scorer *scorer = NULL, *again = NULL;
    l3a_tagger *tagger = NULL;
    if (scorer_load(context, "model.packed", 0, NULL, &scorer) == L3A_OK) {
        must(scorer_load(context, "model.packed", 0, scorer, &again) == L3A_OK && again->layer == scorer->layer);
        for (size_t k = 0; k < scorer->classes.count; k++) {
            must(scorer->classes.items[k][0] && strcmp(scorer->classes.items[k], again->classes.items[k]) == 0);
        }
        score(context, again);
        l3a_tagger_open(context, "model.packed", NULL, &tagger);
    }
    l3a_tagger_free(tagger);
    scorer_free(again);
    scorer_free(scorer);
    l3a_context_free(context);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    with_repaired_header(bytes, count, use_packed);
    return 0;
}
