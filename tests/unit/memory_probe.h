/* Memory functions for a context that count what it takes, and can refuse it. Any number of threads may use them. */
#ifndef L3A_TEST_MEMORY_PROBE_H
#define L3A_TEST_MEMORY_PROBE_H

#include "base/context.h"

struct memory_probe {
    size_t fails_at;   /* the request that gets no memory, counted from 1; 0: none */
    bool from_then_on; /* and neither does any later one */
    size_t seen;       /* requests … */
    size_t asked;      /* … and their bytes, since probe_restart() */
    long blocks;       /* taken and not yet released */
    size_t now, most;  /* their bytes, and the most that these have been */
};

/* Lets a context take memory from the probe. */
void use_probe(l3a_context_options *options, struct memory_probe *probe);
/* A context with nothing but that, which the test frees. threads 0: all */
l3a_context *make_probed_context(struct memory_probe *probe, int threads);
/* With a device; NULL: the processor. */
l3a_context *make_probed_context_on(struct memory_probe *probe, int threads, const char *device);
/* Counts requests from here on. */
void probe_restart(struct memory_probe *probe, size_t fails_at, bool from_then_on);

/* Runs the step with a context that gets memory once, twice and so on, until the step succeeds. It may fail for want of memory
 * alone, and leaves none behind. Returns how often it failed. */
typedef l3a_status scarce_step(l3a_context *context, void *argument);
size_t fail_each_allocation(scarce_step *step, void *argument);
size_t fail_each_allocation_on(const char *device, scarce_step *step, void *argument);

#endif
