#include "base/threads.h"

#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#else
/* Compilers other than gcc come with a different OpenMP runtime than the matrix library's. Without OpenMP here, our loops run on
 * one thread, and the matrix library still uses all of them. */
int omp_get_max_threads(void);
int omp_get_thread_limit(void);
void omp_set_num_threads(int threads);
#endif

int threads_use(int threads) {
    /* The matrix library waits for ever for threads that OpenMP does not give it (OMP_THREAD_LIMIT). */
    const int before = omp_get_max_threads(), limit = omp_get_thread_limit();
    omp_set_num_threads(threads < limit ? threads : limit);
    return before;
}

void parallel_for(int threads, size_t count, size_t grain, loop_body *body, void *argument) {
    const size_t parts = (count + grain - 1) / grain;
    if (threads > 1 && parts > 1) {
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
        for (size_t part = 0; part < parts; part++) {
            const size_t first = part * grain;
            body(argument, first, first + grain < count ? first + grain : count);
        }
        return;
#endif
    }
    for (size_t part = 0; part < parts; part++) {
        const size_t first = part * grain;
        body(argument, first, first + grain < count ? first + grain : count);
    }
}

struct copying {
    char *to;
    const char *from;
};

static void copy_part(void *argument, size_t first, size_t last) {
    const struct copying *copying = argument;
    memcpy(copying->to + first, copying->from + first, last - first);
}

void parallel_copy(int threads, void *to, const void *from, size_t bytes) {
    enum { PART = 1 << 21 }; /* waking a thread takes as long as copying a good part of it */
    struct copying copying = {to, from};
    parallel_for(threads, bytes, PART, copy_part, &copying);
}
