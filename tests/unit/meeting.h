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
/* The sum callback of a context, whose sum_user is the meeting. It fails if the processes do not make the same calls. */
l3a_sum_callback add_up;

#endif
