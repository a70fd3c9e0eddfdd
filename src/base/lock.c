/* Locks on files that are read, changed and written again, so that a change by another process in between is not lost.
 *
 * Every write renames a new file over the old one, and the file may not exist yet, so the lock cannot be on the file itself. It is
 * flock() on an empty file beside it, ".NAME.l3a-lock", where NAME is the file that symbolic links lead to. The kernel releases the
 * lock when the process ends, however it ends. The holder removes the lock file while it still holds the lock; a process that then
 * locks a file that is no longer at its path tries again. A lock file left by a killed process is simply reused.
 *
 * Who waits for a lock that the own process holds may wait for ever, so that is an error. If the lock file is removed from outside,
 * another process can lock the next one: a holder that depends on the lock looks for that (lock_is_held).
 *
 * The lock file stays empty: who holds the lock, the system knows (lock_holder.c). */
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>
#include <time.h>

struct l3a_lock {
    l3a_context *context;
    char *path;
    int file;
    file_description identity; /* of the lock file; all 0: unknown */
    l3a_lock *next;            /* in the same context */
};

static const struct timespec pause_between_tries = {0, 20 * 1000 * 1000};

static l3a_status fail_open(l3a_context *context, const char *name, const char *path, int code) {
    if (code == EEXIST) {
        return fail(context, L3A_ERROR_IO, "move it away: l3a did not create it, and leaves it alone",
                    "%s: is in the way: l3a needs this name for the lock of %s", path, name);
    }
    return fail_system(context, name, "write", code); /* the folder takes no new file */
}

/* *file is negative if another process holds the lock or, if *own, this one does. */
static l3a_status try_lock(l3a_context *context, const char *name, const char *path, int *file, bool *own) {
    enum { TRIES = 1000 };
    const file_operations *files = context->files;
    *own = false;
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
        *own = code == EDEADLK;
        if (code == EWOULDBLOCK || *own) {
            return L3A_OK;
        }
        if (code != ESTALE) {
            return fail_system(context, name, "lock", code);
        }
    }
    return L3A_OK;
}

static l3a_status wait_for_lock(l3a_context *context, const char *name, enum patience patience, l3a_lock *lock) {
    l3a_status status = L3A_OK;
    char holder[HOLDER];
    bool own, serves = false;
    for (bool said = false;; said = true) {
        TRY(try_lock(context, name, lock->path, &lock->file, &own));
        if (lock->file >= 0) {
            break;
        }
        FAIL_IF(own && patience != AWAIT_ANYONE, context, L3A_ERROR_STATE,
                "make both changes with the same tagger, or save and close the other one first",
                "%s: this process is already changing this file", name);
        if (patience == FAIL_AT_ONCE || (!said && !own)) {
            serves = describe_holder(lock->path, holder);
        }
        FAIL_IF(patience == FAIL_AT_ONCE, context, L3A_ERROR_IO,
                serves ? "stop the server first, or let it make the change"
                       : "try again when it has finished, or use the wait option",
                "%s: in use by %s", name, holder);
        if (!said && !own) {
            report_warning(context, "%s: in use by %s; waiting for it", name, holder);
        }
        TRY(report_progress(context, "waiting", 0, 0));
        nanosleep(&pause_between_tries, NULL);
    }
done:
    return status;
}

/* Locks again after somebody has removed the lock file. */
static l3a_status lock_again(l3a_lock *lock, const char *name) {
    l3a_context *context = lock->context;
    file_description made;
    l3a_status status = L3A_OK;
    char holder[HOLDER];
    int file;
    bool own;
    TRY(try_lock(context, name, lock->path, &file, &own));
    if (file < 0) {
        describe_holder(lock->path, holder);
    }
    FAIL_IF(file < 0, context, L3A_ERROR_IO, "try again when it has finished, and leave lock files alone",
            "%s: the lock file was removed, and the file is now in use by %s", name, holder);
    if (context->files->describe(lock->path, &made)) {
        status = fail_system(context, name, "lock", errno);
        context->files->close(file);
        goto done;
    }
    context->files->close(lock->file);
    lock->file = file;
    lock->identity = made;
done:
    return status;
}

l3a_status lock_is_held(l3a_context *context, const char *target, bool *held) {
    l3a_status status = L3A_OK;
    char *path = NULL;
    file_description there = {0};
    *held = false;
    if (!context->locks) {
        return L3A_OK;
    }
    TRY(path_beside(context, target, lock_ending, &path));
    const bool exists = context->files->describe(path, &there) == 0;
    if (!exists && errno != ENOENT) {
        status = fail_system(context, path, "open", errno);
        goto done;
    }
    for (l3a_lock *lock = context->locks; lock && !*held; lock = lock->next) {
        *held = exists && lock->identity.device == there.device && lock->identity.inode == there.inode;
    }
    for (l3a_lock *lock = context->locks; lock && !*held; lock = lock->next) {
        if (strcmp(lock->path, path) == 0) {
            TRY(lock_again(lock, target));
            *held = true;
        }
    }
done:
    release(context, path);
    return status;
}

l3a_status lock_target(l3a_context *context, const char *target, const char *name, enum patience patience, l3a_lock **lock) {
    l3a_status status = L3A_OK;
    l3a_lock *made = NULL;
    TRY(allocate(context, 1, sizeof *made, &made));
    *made = (l3a_lock){.context = context, .file = -1};
    TRY(path_beside(context, target, lock_ending, &made->path));
    TRY(wait_for_lock(context, name, patience, made));
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
    status = lock_target(context, target.path, path, wait ? AWAIT_PROCESS : FAIL_AT_ONCE, &made);
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
    file_description there;
    if (lock->file >= 0) {
        const bool known = lock->identity.inode && context->files->describe(lock->path, &there) == 0;
        if (!known || (there.device == lock->identity.device && there.inode == lock->identity.inode)) {
            context->files->remove(lock->path); /* but not the file of another process, after ours was removed */
        }
        context->files->close(lock->file);
    }
    release(context, lock->path);
    release(context, lock);
}
