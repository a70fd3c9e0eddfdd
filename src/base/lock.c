/* Locks on files that are read, changed and written again, so that a change by another process in between is not lost.
 *
 * Every write renames a new file over the old one, and the file may not exist yet, so the lock cannot be on the file itself. It is
 * flock() on an empty file beside it, ".NAME.l3a-lock", where NAME is the file that symbolic links lead to. The kernel releases the
 * lock when the process ends, however it ends. The holder removes the lock file while it still holds the lock; a process that then
 * locks a file that is no longer at its path tries again. A lock file left by a killed process is simply reused. */
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <time.h>

struct l3a_lock {
    l3a_context *context;
    char *path;
    int file;
    file_description identity;
    l3a_lock *next; /* in the same context */
};

static const struct timespec pause_between_tries = {0, 20 * 1000 * 1000};

static l3a_status fail_open(l3a_context *context, const char *name, const char *path, int code) {
    if (code == EEXIST) {
        return fail(context, L3A_ERROR_IO, "move it away: l3a did not create it, and leaves it alone",
                    "%s: is in the way: l3a needs this name for the lock of %s", path, name);
    }
    return fail_system(context, name, "write", code); /* the folder takes no new file */
}

/* *file is negative if another process holds the lock. */
static l3a_status try_lock(l3a_context *context, const char *name, const char *path, int *file) {
    enum { TRIES = 1000 };
    const file_operations *files = context->files;
    for (int i = 0; i < TRIES; i++) {
        *file = files->open_lock(path);
        if (*file < 0) {
            return fail_open(context, name, path, errno);
        }
        if (!files->lock(*file, path)) {
            return L3A_OK;
        }
        const int code = errno;
        files->close(*file);
        *file = -1;
        if (code == EWOULDBLOCK) {
            return L3A_OK;
        }
        if (code != ESTALE) {
            return fail_system(context, name, "lock", code);
        }
    }
    return L3A_OK;
}

static l3a_status wait_for_lock(l3a_context *context, const char *name, bool wait, l3a_lock *lock) {
    l3a_status status = L3A_OK;
    for (bool said = false;; said = true) {
        TRY(try_lock(context, name, lock->path, &lock->file));
        if (lock->file >= 0) {
            break;
        }
        FAIL_IF(!wait, context, L3A_ERROR_IO, "try again when it has finished, or use the wait option",
                "%s: another process is changing this file", name);
        if (!said) {
            report_warning(context, "%s: another process is changing this file; waiting for it", name);
        }
        TRY(report_progress(context, "waiting", 0, 0));
        nanosleep(&pause_between_tries, NULL);
    }
done:
    return status;
}

l3a_status lock_is_held(l3a_context *context, const char *target, bool *held) {
    l3a_status status = L3A_OK;
    char *path = NULL;
    file_description there;
    *held = false;
    if (!context->locks) {
        return L3A_OK;
    }
    TRY(path_beside(context, target, lock_ending, &path));
    if (context->files->describe(path, &there)) {
        status = errno == ENOENT ? L3A_OK : fail_system(context, path, "open", errno);
        goto done;
    }
    for (const l3a_lock *lock = context->locks; lock && !*held; lock = lock->next) {
        *held = lock->identity.device == there.device && lock->identity.inode == there.inode;
    }
done:
    release(context, path);
    return status;
}

l3a_status lock_target(l3a_context *context, const char *target, const char *name, bool wait, l3a_lock **lock) {
    l3a_status status = L3A_OK;
    l3a_lock *made = NULL;
    TRY(allocate(context, 1, sizeof *made, &made));
    *made = (l3a_lock){.context = context, .file = -1};
    TRY(path_beside(context, target, lock_ending, &made->path));
    TRY(wait_for_lock(context, name, wait, made));
    if (context->files->describe(made->path, &made->identity)) {
        status = fail_system(context, name, "lock", errno);
        goto done;
    }
    made->next = context->locks;
    context->locks = made;
    *lock = made;
    made = NULL;
done:
    l3a_lock_free(made);
    return status;
}

l3a_status l3a_lock_take(l3a_context *context, const char *path, int wait, l3a_lock **lock) {
    l3a_status status = L3A_OK;
    output_target target = {0};
    l3a_lock *made = NULL;
    bool held;
    NEED(context, context, path, lock);
    TRY(target_find(context, path, &target));
    TRY(lock_is_held(context, target.path, &held));
    FAIL_IF(held, context, L3A_ERROR_STATE, "use the lock that is held, or free it first",
            "%s: this context already holds the lock", path);
    status = lock_target(context, target.path, path, wait, &made);
    TRY(follow_lead(context, status, NULL)); /* with the lock, all processes see the same file */
    *lock = made;
    made = NULL;
done:
    l3a_lock_free(made);
    target_free(context, &target);
    return status;
}

void l3a_lock_free(l3a_lock *lock) {
    if (!lock) {
        return;
    }
    l3a_context *context = lock->context;
    for (l3a_lock **link = &context->locks; *link; link = &(*link)->next) {
        if (*link == lock) {
            *link = lock->next;
            break;
        }
    }
    if (lock->file >= 0) {
        context->files->remove(lock->path);
        context->files->close(lock->file);
    }
    release(context, lock->path);
    release(context, lock);
}
