/* A word ranks pictures by the probability that the classifier gives to the classes that it means. The sum over all classes, which
 * that needs, was stored with the features, so that only the rows of these classes are multiplied. */
#include "library/words.h"

#include "base/threads.h"
#include "format/tensor.h"
#include "net/classifier.h"
#include "net/words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Reads the classifier once. That there is none is not a failure before somebody asks for a word. */
static l3a_status open_classifier(l3a_library *library) {
    const struct l3a_tagger *tagger = library->tagger;
    const l3a_backbone_info *info = l3a_backbone_describe(tagger->backbone);
    l3a_status status = L3A_OK;
    if (library->classifier || library->wordless) {
        return L3A_OK;
    }
    if (!tagger->backbone_path) {
        status = fail(library->context, L3A_ERROR_MISMATCH, "use the model that it was packed from",
                      "%s: a packed model has no classifier, so it knows no words", tagger->path);
    } else if (info->layer) {
        status =
            fail(library->context, L3A_ERROR_MISMATCH, "use a model whose features are those of the whole network",
                 "the features are those after block %zu; words need the last, which the classifier was trained on", info->layer);
    } else {
        status = classifier_read(library->context, tagger->backbone_path, info->pool, info->width, &library->classifier);
    }
    if (status == L3A_ERROR_MEMORY || status == L3A_ERROR_IO) { /* another time, it may be there */
        return status;
    }
    if (status != L3A_OK) {
        return copy_text(library->context, library->context->error_text, strlen(library->context->error_text), &library->wordless);
    }
    return L3A_OK;
}

l3a_status library_log_sum(l3a_library *library, const float *features, float *log_sum) {
    l3a_status status = L3A_OK;
    *log_sum = NAN;
    TRY(open_classifier(library));
    if (library->classifier) {
        TRY(classifier_log_sum(library->context, library->classifier, features, 1, log_sum));
    }
done:
    return status;
}

static l3a_status find_classes(l3a_library *library, const char *word, size_t *classes, size_t *count) {
    l3a_context *context = library->context;
    char hint[320];
    l3a_status status = L3A_OK;
    *count = words_matching(word, classes, NULL);
    if (!*count) {
        TRY(words_closest(context, word, "try a word for something more general, or for something in the picture", hint,
                          sizeof hint));
        status = fail(context, L3A_ERROR_CLASS, hint, "the network does not know the word '%s'", word);
    }
done:
    return status;
}

enum { BLOCK = 4096, PIECE = 64 };

/* Records of a block, and what they hold. */
struct unpacking {
    const struct slots *slots;
    void *records;
    float *features, *log_sums;
};

static void unpack(void *argument, size_t first, size_t last) {
    const struct unpacking *unpacking = argument;
    const struct slots *slots = unpacking->slots;
    for (size_t i = first; i < last; i++) {
        const struct slot slot = slot_at(slots, unpacking->records, i);
        tensor_to_float(TENSOR_F16, slot.halves, unpacking->features + i * slots->width, slots->width); /* of the whole picture */
        unpacking->log_sums[i] = slot.log_sum;
    }
}

static l3a_status rank(l3a_library *library, const struct classifier *chosen, size_t slot_count, float *ranks) {
    l3a_context *context = library->context;
    const struct slots *slots = &library->slots;
    struct unpacking unpacking = {.slots = slots};
    l3a_status status = L3A_OK;
    TRY(allocate(context, BLOCK, slots->stride, &unpacking.records));
    TRY(allocate(context, BLOCK, slots->width * sizeof(float), &unpacking.features));
    TRY(allocate(context, BLOCK, sizeof(float), &unpacking.log_sums));
    for (size_t first = 0; first < slot_count; first += BLOCK) {
        const size_t count = slot_count - first < BLOCK ? slot_count - first : BLOCK;
        TRY(slots_read(slots, first, count, unpacking.records));
        parallel_for(context->threads, count, PIECE, unpack, &unpacking);
        TRY(classifier_log_sum(context, chosen, unpacking.features, count, ranks + first));
        for (size_t i = 0; i < count; i++) { /* float16 rounds, so that a probability could be above 1 */
            const float rank = expf(ranks[first + i] - unpacking.log_sums[i]);
            ranks[first + i] = rank > 1 ? 1 : rank;
        }
    }
done:
    release(context, unpacking.records);
    release(context, unpacking.features);
    release(context, unpacking.log_sums);
    return status;
}

l3a_status library_rank_word(l3a_library *library, const char *word, size_t slots, float *ranks) {
    l3a_context *context = library->context;
    struct classifier *chosen = NULL;
    size_t *classes = NULL, count;
    l3a_status status = L3A_OK;
    TRY(open_classifier(library));
    FAIL_IF(!library->classifier, context, L3A_ERROR_MISMATCH, "words need a checkpoint with its ImageNet classifier", "%s",
            library->wordless);
    TRY(allocate(context, WORD_CLASSES, sizeof *classes, &classes));
    TRY(find_classes(library, word, classes, &count));
    TRY(classifier_choose(context, library->classifier, classes, count, &chosen));
    TRY(rank(library, chosen, slots, ranks));
done:
    if (chosen) {
        classifier_free(context, chosen);
    }
    release(context, classes);
    return status;
}

/* ---- For programs ---- */

l3a_status l3a_library_words(l3a_library *library, const char **problem) {
    REQUIRE(library, library, problem);
    const l3a_status status = open_classifier(library);
    *problem = library->wordless ? library->wordless : "";
    return status;
}

size_t l3a_word_classes(const char *word, const char **names, size_t capacity) {
    size_t classes[WORD_CLASSES];
    const size_t count = word ? words_matching(word, classes, NULL) : 0;
    for (size_t i = 0; i < count && i < capacity; i++) {
        names[i] = words_of(classes[i]);
    }
    return count;
}

const char *l3a_word_at(size_t index) {
    return words_of(index);
}

const char *l3a_words_source(void) {
    return words_source();
}
