/* What the library knows of words and of classifiers, for test_words.py to compare with NumPy and with other lists.
 *
 *   word_classes list                                   id and words of each class, a class on each line: n02099712;Labrador retriever
 *   word_classes find TEXT                              how the word fits, and the numbers of its classes
 *   word_classes closest TEXT                           the hint for an unknown word
 *   word_classes scores CHECKPOINT POOL WIDTH [CLASS …] <features >scores
 *
 * `scores` reads float32 rows, and writes, as float32: the log sum over all classes of each row, and the logits of the classes named. */
#include "base/memory.h"
#include "net/classifier.h"
#include "net/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void list_words(void) {
    for (size_t class = 0; class < WORD_CLASSES; class++) {
        printf("n%08u", (unsigned)words_id(class));
        for (size_t i = 0; words_at(class, i); i++) {
            printf(";%s", words_at(class, i));
        }
        printf("\n");
    }
}

static void find_word(const char *text) {
    size_t classes[WORD_CLASSES];
    enum word_fit fit;
    const size_t count = words_matching(text, classes, &fit);
    printf("%d", (int)fit);
    for (size_t i = 0; i < count; i++) {
        printf(" %zu", classes[i]);
    }
    printf("\n");
}

static l3a_status read_rows(l3a_context *context, size_t width, float **features, size_t *rows) {
    size_t capacity = 0;
    l3a_status status = L3A_OK;
    do {
        TRY(grow_array(context, features, &capacity, (*rows + 1) * width, sizeof **features));
    } while (fread(*features + *rows * width, sizeof **features, width, stdin) == width && ++*rows);
done:
    return status;
}

static l3a_status write_scores(l3a_context *context, int count, char **arguments) {
    struct classifier *all = NULL, *some = NULL;
    float *features = NULL, *scores = NULL;
    size_t rows = 0, width = (size_t)strtoul(arguments[4], NULL, 10), chosen = (size_t)count - 5, *classes = NULL;
    l3a_status status = L3A_OK;
    TRY(classifier_read(context, arguments[2], arguments[3], width, &all));
    TRY(read_rows(context, width, &features, &rows));
    TRY(allocate(context, chosen, sizeof *classes, &classes));
    for (size_t i = 0; i < chosen; i++) {
        classes[i] = (size_t)strtoul(arguments[5 + i], NULL, 10);
    }
    TRY(classifier_choose(context, all, classes, chosen, &some));
    TRY(allocate(context, rows, (chosen + 1) * sizeof *scores, &scores));
    TRY(classifier_log_sum(context, all, features, rows, scores));
    classifier_logits(context, some, features, rows, scores + rows);
    fwrite(scores, sizeof *scores, rows * (chosen + 1), stdout);
done:
    classifier_free(context, all);
    classifier_free(context, some);
    release(context, features);
    release(context, scores);
    release(context, classes);
    return status;
}

int main(int count, char **arguments) {
    l3a_context *context = NULL;
    l3a_context_options options = {.size = sizeof options};
    char hint[128];
    l3a_status status = L3A_OK;
    options.threads = 1;
    if (count < 2 || l3a_context_create(&options, &context) != L3A_OK) {
        return 2;
    }
    if (strcmp(arguments[1], "list") == 0) {
        list_words();
    } else if (strcmp(arguments[1], "find") == 0 && count == 3) {
        find_word(arguments[2]);
    } else if (strcmp(arguments[1], "closest") == 0 && count == 3) {
        status = words_closest(context, arguments[2], "no word is close", hint, sizeof hint);
        printf("%s\n", hint);
    } else if (strcmp(arguments[1], "scores") == 0 && count >= 5) {
        status = write_scores(context, count, arguments);
    } else {
        status = fail(context, L3A_ERROR_ARGUMENT, NULL, "list, find, closest or scores");
    }
    if (status != L3A_OK) {
        fprintf(stderr, "%s\n%s\n", l3a_error_text(context), l3a_error_hint(context));
    }
    l3a_context_free(context);
    return status == L3A_OK ? 0 : 2;
}
