/* When a run writes what it has learned. Saving after every phase would be half of the time of a run on a GPU, and a phase that is
 * learned again has the same bytes. So a phase is saved once the work that a kill would lose is worth what saving costs, and in
 * any case before more than a few seconds of it could be lost. */
#ifndef L3A_SAVING_H
#define L3A_SAVING_H

#include <stdbool.h>
#include <stdint.h>

struct saving {
    bool always;    /* after every phase; for tests */
    double unsaved; /* seconds of work in finished phases of the job that are in no file */
    double phase;   /* of its last phase */
    double seconds; /* that the run took to save what a job had learned, the last time, 0 before it, … */
    uint64_t bytes; /* … and the size of that, 0 if nobody knows */
};

/* All that is finished is saved, or another job begins. */
void saving_begin(struct saving *saving);
/* A phase is finished. */
void saving_add(struct saving *saving, double seconds);
/* Whether it is time to save, with a file of so many bytes; 0: nobody knows. */
bool saving_is_due(const struct saving *saving, uint64_t bytes);
/* All that is finished is saved, in a file of so many bytes among others. */
void saving_done(struct saving *saving, double seconds, uint64_t bytes);

#endif
