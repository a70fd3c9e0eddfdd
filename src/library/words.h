/* What the network's own classifier says of the pictures of a library. */
#ifndef L3A_LIBRARY_WORDS_H
#define L3A_LIBRARY_WORDS_H

#include "library/library.h"

/* The logarithm of the sum of exp(logits) of a picture's features; NaN if the network has no classifier for them. */
l3a_status library_log_sum(l3a_library *library, const float *features, float *log_sum);
/* The probability of a word for all slots [slots]. A word that the network does not know is L3A_ERROR_CLASS, and a network without
 * words L3A_ERROR_MISMATCH. */
l3a_status library_rank_word(l3a_library *library, const char *word, size_t slots, float *ranks);

#endif
