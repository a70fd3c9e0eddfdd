#include "memory_probe.h"

#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 64, SOILED = 1 << 16 }; /* before a block, its size; and bytes of it that are not zero by chance */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *probed_allocate(void *user, size_t bytes) {
    struct memory_probe *probe = user;
    pthread_mutex_lock(&lock);
    probe->seen++;
    probe->asked += bytes;
    const bool refuse = probe->fails_at && (probe->from_then_on ? probe->seen >= probe->fails_at : probe->seen == probe->fails_at);
    size_t *block = refuse ? NULL : malloc(bytes + HEAD);
    if (block) {
        *block = bytes;
        probe->blocks++;
        probe->now += bytes;
        probe->most = probe->now > probe->most ? probe->now : probe->most;
    }
    pthread_mutex_unlock(&lock);
    return block ? memset((char *)block + HEAD, 0xA5, bytes < SOILED ? bytes : SOILED) : NULL;
}

static void probed_release(void *user, void *memory) {
    struct memory_probe *probe = user;
    if (memory) {
        size_t *block = (size_t *)(void *)((char *)memory - HEAD);
        pthread_mutex_lock(&lock);
        probe->blocks--;
        probe->now -= *block;
        pthread_mutex_unlock(&lock);
        free(block);
    }
}

void use_probe(l3a_context_options *options, struct memory_probe *probe) {
    options->allocate = probed_allocate;
    options->release = probed_release;
    options->memory_user = probe;
}

l3a_context *make_probed_context(struct memory_probe *probe, int threads) {
    return make_probed_context_on(probe, threads, NULL);
}

l3a_context *make_probed_context_on(struct memory_probe *probe, int threads, const char *device) {
    l3a_context_options options = {.size = sizeof options, .threads = threads, .device = device};
    l3a_context *context = NULL;
    use_probe(&options, probe);
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    return context;
}

void probe_restart(struct memory_probe *probe, size_t fails_at, bool from_then_on) {
    pthread_mutex_lock(&lock);
    probe->seen = probe->asked = 0;
    probe->fails_at = fails_at;
    probe->from_then_on = from_then_on;
    pthread_mutex_unlock(&lock);
}

size_t fail_each_allocation(scarce_step *step, void *argument) {
    return fail_each_allocation_on(NULL, step, argument);
}

size_t fail_each_allocation_on(const char *device, scarce_step *step, void *argument) {
    for (size_t failures = 0;; failures++) {
        struct memory_probe probe = {0};
        l3a_context *context = make_probed_context_on(&probe, 1, device);
        probe_restart(&probe, failures + 1, true);
        const l3a_status status = step(context, argument);
        assert_true(status == L3A_OK || status == L3A_ERROR_MEMORY);
        l3a_context_free(context);
        assert_int_equal(probe.blocks, 0);
        if (status == L3A_OK) {
            return failures;
        }
    }
}
