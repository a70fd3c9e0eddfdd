/* Readers inside the library, for those that want features of pictures and no tags. */
#ifndef L3A_READER_H
#define L3A_READER_H

#include "extract/intake.h"

/* The reader's own context, for the thread that uses the reader. */
l3a_context *reader_context(l3a_reader *reader);
/* How many pictures its network is best given at a time. */
size_t reader_batch(const l3a_reader *reader);
/* The features [count x l3a_reader_width()] of those of the pictures that can be read, one after another; and what became of each.
 */
l3a_status reader_look(l3a_reader *reader, const struct picture_source *pictures, size_t count, float *features,
                       struct arrival *arrivals);

#endif
