/* Threads in the place of processes: their sums meet at a barrier. */
#ifndef L3A_TEST_MEETING_H
#define L3A_TEST_MEETING_H

#include "base/context.h"

#include <pthread.h>

/* All processes add to one array between two barriers. */
struct meeting {
    pthread_barrier_t barrier;
    pthread_mutex_t lock;
    unsigned char *total;
    size_t count;
};

void meeting_open(struct meeting *meeting, size_t processes);
void meeting_close(struct meeting *meeting);
/* Makes a context's options those of one of the processes; NULL: they stay those of a process by itself. divide: as in the options.
 */
void meeting_join(struct meeting *meeting, size_t process, size_t processes, bool divide, l3a_context_options *options);
/* The sum callback of a context, whose sum_user is the meeting. It fails if the processes do not make the same calls. */
l3a_sum_callback add_up;

#endif
