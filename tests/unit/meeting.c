#include "meeting.h"

#include "support.h"

#include <stdlib.h>
#include <string.h>

void meeting_open(struct meeting *meeting, size_t processes) {
    memset(meeting, 0, sizeof *meeting);
    assert_int_equal(pthread_mutex_init(&meeting->lock, NULL), 0);
    assert_int_equal(pthread_barrier_init(&meeting->barrier, NULL, (unsigned)processes), 0);
}

void meeting_close(struct meeting *meeting) {
    pthread_barrier_destroy(&meeting->barrier);
    pthread_mutex_destroy(&meeting->lock);
    free(meeting->total);
}

int add_up(void *values, size_t count, l3a_sum_type type, void *user) {
    struct meeting *meeting = user;
    if (pthread_barrier_wait(&meeting->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
        free(meeting->total);
        meeting->total = calloc(count, 8);
        meeting->count = count;
    }
    pthread_barrier_wait(&meeting->barrier);
    if (meeting->count != count) {
        return 1;
    }
    pthread_mutex_lock(&meeting->lock);
    for (size_t i = 0; i < count; i++) {
        if (type == L3A_SUM_FLOAT64) {
            ((double *)(void *)meeting->total)[i] += ((double *)values)[i];
        } else {
            ((uint64_t *)(void *)meeting->total)[i] += ((uint64_t *)values)[i];
        }
    }
    pthread_mutex_unlock(&meeting->lock);
    pthread_barrier_wait(&meeting->barrier);
    memcpy(values, meeting->total, count * 8);
    pthread_barrier_wait(&meeting->barrier);
    return 0;
}

void meeting_join(struct meeting *meeting, size_t process, size_t processes, bool divide, l3a_context_options *options) {
    if (meeting) {
        options->sum = add_up;
        options->sum_user = meeting;
        options->process = process;
        options->processes = processes;
        options->divide = divide;
    }
}
