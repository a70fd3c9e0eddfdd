/* The words of the 1,000 classes that ImageNet's classifiers tell apart, from WordNet: "Labrador retriever", "dining table".
 *
 * A class has several words that mean the same, and WordNet says what is above it: a Labrador retriever is a retriever, a dog, a
 * mammal, an animal. A word therefore means the classes that have it and those below it: "dog" has 118, none of which is called so.
 * A word with several senses means all of them: "crane" is a bird and a machine.
 *
 * A class is the number of a row of the classifier (classifier.h). Capitals, hyphens and plurals do not matter; texts can be
 * anything. */
#ifndef L3A_WORDS_H
#define L3A_WORDS_H

#include "base/context.h"

enum { WORD_CLASSES = 1000 };

/* How a word was found. */
enum word_fit {
    WORD_UNKNOWN,
    WORD_KNOWN,       /* it is a word of these classes, or of something above them */
    WORD_WITHIN,      /* it is part of their words: "soccer" of "soccer ball" */
    WORD_WITHIN_ABOVE /* it is part of a word for something above them: "kitchen" of "kitchen utensil" */
};

/* Fills classes with those that the text means, in ascending order, and returns their number; 0: it is unknown. Each way of finding
 * a word is only tried if the ones before have found nothing: "sheep" is not a sheepdog. fit may be NULL. */
size_t words_matching(const char *text, size_t classes[WORD_CLASSES], enum word_fit *fit);
/* Writes a hint for an unknown word: "did you mean '…'?", or `otherwise` if no word is close. */
l3a_status words_closest(l3a_context *context, const char *text, const char *otherwise, char *hint, size_t capacity);
/* What to call a class: the first of its words. NULL if there is no such class. */
const char *words_of(size_t class);
/* The words of a class, one after the other; NULL after the last. */
const char *words_at(size_t class, size_t index);
/* The number in a class's WordNet id: 2099712 for n02099712. The class must exist. */
uint32_t words_id(size_t class);
/* Where the words come from, in one line, and the licence, which says that it must appear on all copies. */
const char *words_source(void);
const char *words_licence(void);

#endif
