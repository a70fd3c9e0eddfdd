/* Parallel loops. They run in the same OpenMP team as the matrix library, so that the two never compete. */
#ifndef L3A_THREADS_H
#define L3A_THREADS_H

#include <stddef.h>

/* Called for parts of [0, count) that do not overlap and that together cover it. */
typedef void loop_body(void *argument, size_t first, size_t last);

/* Splits the loop into parts of at most `grain` indices, handed out as threads become free. */
void parallel_for(int threads, size_t count, size_t grain, loop_body *body, void *argument);

/* Copies as memcpy() does. */
void parallel_copy(int threads, void *to, const void *from, size_t bytes);

/* Sets the number of OpenMP threads for the next parallel regions of the calling thread, and returns the previous number. */
int threads_use(int threads);

#endif
