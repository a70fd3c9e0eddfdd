/* The public calls for watching folders. */
#include "data/watch.h"

#include "base/memory.h"

struct l3a_watch {
    l3a_context *context;
    struct watch *watch;
};

l3a_status l3a_watch_open(l3a_context *context, const char *const *folders, size_t count, double poll_seconds, l3a_watch **watch) {
    static const double usual = 2;
    l3a_watch *made = NULL;
    l3a_status status = L3A_OK;
    NEED(context, context, watch);
    if (count) {
        NEED(context, folders);
    }
    TRY(need_items(context, __func__, "folders", folders, count));
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    TRY(watch_open(context, folders, count, poll_seconds != 0 ? poll_seconds : usual, &made->watch));
    *watch = made;
    made = NULL;
done:
    l3a_watch_free(made);
    return status;
}

l3a_status l3a_watch_next(l3a_watch *watch, double seconds, int *changed, int *lost) {
    REQUIRE(watch, watch, changed);
    bool any, overflowed;
    const l3a_status status = watch_next(watch->watch, seconds, &any, &overflowed);
    if (status == L3A_OK) {
        *changed = any;
        if (lost) {
            *lost = overflowed;
        }
    }
    return status;
}

const char *l3a_watch_folder(const l3a_watch *watch, size_t index, int *below) {
    bool all = false;
    const char *path = watch ? watch_folder(watch->watch, index, &all) : NULL;
    if (below) {
        *below = all;
    }
    return path;
}

int l3a_watch_polls(const l3a_watch *watch, size_t index) {
    return watch && watch_is_polled(watch->watch, index);
}

void l3a_watch_stop(l3a_watch *watch) {
    if (watch) {
        watch_stop(watch->watch);
    }
}

void l3a_watch_free(l3a_watch *watch) {
    if (watch) {
        watch_close(watch->watch);
        release(watch->context, watch);
    }
}
