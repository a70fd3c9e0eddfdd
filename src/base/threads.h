/* Loops over threads. They run in the same OpenMP team as the matrix library's, so that the two never compete. */
#ifndef L3A_THREADS_H
#define L3A_THREADS_H

#include <stddef.h>

/* Called for parts of [0, count) that do not overlap and together cover it. */
typedef void loop_body(void *argument, size_t first, size_t last);

/* Parts of at most `grain` indices, handed out as threads become free. */
void parallel_for(int threads, size_t count, size_t grain, loop_body *body, void *argument);

/* Sets the number of OpenMP threads of the calling thread's next regions, and returns what it was. */
int threads_use(int threads);

#endif
