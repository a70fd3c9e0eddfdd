/* Waits for inotify, for mounts and for the time to poll, and collects what has changed.
 *
 * A file counts as changed once it is closed after writing, so that nobody reads half of it. A new folder may have had files before
 * it was watched, so it is reported with all below it; the same goes for one that was moved here. What happens to mounts is not
 * told by inotify: when the system says that they have changed, every watched path is checked for being the same folder still. */
#include "data/watch.h"

#include "base/file.h"
#include "data/pictures.h"
#include "data/watch_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

struct change {
    char *path;
    bool below;
};

enum { WAKER, INOTIFY, MOUNTS, SOURCES };

struct watch {
    l3a_context *context;
    struct watch_tree tree;
    struct change *changes;
    size_t change_count, change_capacity;
    uint64_t noticed; /* changes since the watch was opened, also of what is in the list already */
    int waker;        /* an eventfd; readable: stop */
    int mounts;       /* where the system tells of changed mounts; -1: it does not */
    double next_poll;
    bool mounts_changed;
    bool overflowed; /* everything is to be watched anew */
};

/* Of waiting for more changes: since the last, and since the first. */
static const double settled = 0.25, longest = 2;

/* ---- What has changed ----------------------------------------------------------------------------------------------- */
static void clear_changes(struct watch *watch) {
    for (size_t i = 0; i < watch->change_count; i++) {
        release(watch->context, watch->changes[i].path);
    }
    watch->change_count = 0;
    for (size_t i = 0; i < watch->tree.count; i++) {
        watch->tree.items[i].listed = false;
    }
}

static l3a_status add_change(struct watch *watch, const char *path, bool below) {
    l3a_status status = L3A_OK;
    struct change change = {NULL, below};
    watch->noticed++;
    TRY(grow_array(watch->context, &watch->changes, &watch->change_capacity, watch->change_count + 1, sizeof *watch->changes));
    TRY(copy_text(watch->context, path, strlen(path), &change.path));
    watch->changes[watch->change_count++] = change;
done:
    return status;
}

/* Files in a watched folder. */
static l3a_status add_files(struct watch *watch, struct watched *folder) {
    if (folder->listed) {
        watch->noticed++;
        return L3A_OK;
    }
    folder->listed = true;
    return add_change(watch, folder->path, false);
}

/* By path, those with all below them first. */
static int compare_changes(const void *left, const void *right) {
    const struct change *one = left, *other = right;
    const int order = strcmp(one->path, other->path);
    return order ? order : (int)other->below - (int)one->below;
}

/* Whether a change of all below the first `length` bytes of a path is in the sorted list. */
static bool has_below(const struct watch *watch, const char *path, size_t length) {
    size_t first = 0, last = watch->change_count;
    while (first < last) {
        const size_t middle = first + (last - first) / 2;
        const char *there = watch->changes[middle].path;
        if (compare_bytes(there, strlen(there), path, length) < 0) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return first < watch->change_count && watch->changes[first].below && strlen(watch->changes[first].path) == length &&
           memcmp(watch->changes[first].path, path, length) == 0;
}

static bool is_covered(const struct watch *watch, const char *path) {
    bool covered = path[1] && has_below(watch, "/", 1);
    for (const char *slash = strchr(path + 1, '/'); slash && !covered; slash = strchr(slash + 1, '/')) {
        covered = has_below(watch, path, (size_t)(slash - path));
    }
    return covered;
}

/* Sorts the changes, and keeps those that no other one includes. */
static l3a_status sort_changes(struct watch *watch) {
    l3a_status status = L3A_OK;
    const size_t count = watch->change_count;
    struct change *changes = watch->changes;
    bool *dropped = NULL;
    size_t kept = 0;
    if (!count) {
        return L3A_OK;
    }
    TRY(allocate_zeroed(watch->context, count, sizeof *dropped, &dropped));
    qsort(changes, count, sizeof *changes, compare_changes);
    for (size_t i = 0; i < count; i++) {
        dropped[i] = (i && strcmp(changes[i - 1].path, changes[i].path) == 0) || is_covered(watch, changes[i].path);
    }
    for (size_t i = 0; i < count; i++) {
        if (dropped[i]) {
            release(watch->context, changes[i].path);
        } else {
            changes[kept++] = changes[i];
        }
    }
    watch->change_count = kept;
done:
    release(watch->context, dropped);
    return status;
}

/* ---- Events --------------------------------------------------------------------------------------------------------- */
static l3a_status lose_root(struct watch *watch, size_t index) {
    tree_forget_root(&watch->tree, index);
    watch->tree.roots[index].present = false;
    return add_change(watch, watch->tree.roots[index].path, true);
}

/* The folder itself was removed, moved, or its file system unmounted. What is under its path now, like the folder on which a disk
 * was mounted, is watched in its place. */
static l3a_status take_end(struct watch *watch, struct watched *folder, uint32_t mask) {
    l3a_status status = L3A_OK;
    const size_t root = folder->root;
    const bool link = folder->link;
    char *path = NULL;
    if (strcmp(folder->path, watch->tree.roots[root].path) == 0) {
        return lose_root(watch, root);
    }
    if (!(mask & IN_UNMOUNT) && !link) { /* the folder above tells the rest */
        if (mask & IN_IGNORED) {
            tree_drop(&watch->tree, folder);
        }
        return L3A_OK;
    }
    TRY(copy_text(watch->context, folder->path, strlen(folder->path), &path));
    tree_forget(&watch->tree, path);
    TRY(add_change(watch, path, true));
    TRY(tree_walk(&watch->tree, root, path));
done:
    release(watch->context, path);
    return status;
}

static l3a_status take_folder(struct watch *watch, size_t root, const char *path, uint32_t mask) {
    l3a_status status = L3A_OK;
    if (mask & (IN_CREATE | IN_MOVED_TO)) {
        TRY(tree_walk(&watch->tree, root, path));
    } else if (mask & IN_MOVED_FROM) {
        tree_forget(&watch->tree, path);
    }
    TRY(add_change(watch, path, true));
done:
    return status;
}

/* A file that has just been made is reported when it is closed. Nobody closes a link: it counts at once. */
static l3a_status take_file(struct watch *watch, struct watched *folder, const char *path, uint32_t mask) {
    struct stat about, target;
    const bool there = mask & (IN_CREATE | IN_MOVED_TO) && lstat(path, &about) == 0;
    if (there && S_ISLNK(about.st_mode) && stat(path, &target) == 0 && S_ISDIR(target.st_mode)) {
        return take_folder(watch, folder->root, path, mask);
    }
    if (mask & (IN_DELETE | IN_MOVED_FROM) && tree_has_link(&watch->tree, path)) {
        return take_folder(watch, folder->root, path, IN_MOVED_FROM);
    }
    const bool counts = !(mask & IN_CREATE) || (there && (S_ISLNK(about.st_mode) || about.st_nlink > 1));
    return counts ? add_files(watch, folder) : L3A_OK;
}

static l3a_status take_event(struct watch *watch, const struct inotify_event *event) {
    l3a_status status = L3A_OK;
    struct watched *folder = tree_find(&watch->tree, event->wd);
    char *path = NULL;
    if (event->mask & IN_Q_OVERFLOW) {
        watch->overflowed = true;
        return L3A_OK;
    }
    if (!folder) {
        return L3A_OK;
    }
    if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)) {
        return take_end(watch, folder, event->mask);
    }
    if (!event->len || is_hidden(event->name)) {
        return L3A_OK;
    }
    TRY(join_path(watch->context, strcmp(folder->path, "/") == 0 ? "" : folder->path, event->name, &path));
    TRY(event->mask & IN_ISDIR ? take_folder(watch, folder->root, path, event->mask) : take_file(watch, folder, path, event->mask));
done:
    release(watch->context, path);
    return status;
}

/* All that the system has to tell; no more than that, if others go on and on. */
static l3a_status take_events(struct watch *watch) {
    enum { BYTES = 1 << 16, READS = 64 };
    l3a_status status = L3A_OK;
    char *bytes = NULL;
    ssize_t got = 1;
    TRY(allocate(watch->context, BYTES, 1, &bytes));
    for (size_t reads = 0; watch->tree.inotify >= 0 && got > 0 && reads < READS; reads++) {
        got = read(watch->tree.inotify, bytes, BYTES);
        for (ssize_t at = 0; at < got;) {
            const struct inotify_event *event = (const void *)(bytes + at);
            TRY(take_event(watch, event));
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
done:
    release(watch->context, bytes);
    return status;
}

/* Some changes were lost, folders among them. Everything is watched anew, and has changed. */
static l3a_status start_again(struct watch *watch) {
    l3a_status status = L3A_OK;
    tree_close(&watch->tree);
    tree_open(&watch->tree);
    for (size_t i = 0; i < watch->tree.root_count; i++) {
        TRY(tree_look_at_root(&watch->tree, i));
        TRY(add_change(watch, watch->tree.roots[i].path, true));
    }
done:
    return status;
}

/* ---- What inotify does not tell ------------------------------------------------------------------------------------- */
static bool is_other_place(const struct watch *watch, const char *path, uint64_t device, uint64_t inode, bool *present) {
    file_description about;
    *present = watch->context->files->describe(path, &about) == 0 && S_ISDIR(about.mode);
    return !*present || about.device != device || about.inode != inode;
}

/* Whether a folder that was given has come, gone, or been replaced. poll: it is time to report those that are polled. */
static l3a_status check_roots(struct watch *watch, bool poll) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < watch->tree.root_count; i++) {
        const struct watch_root *root = &watch->tree.roots[i];
        bool present;
        const bool other = is_other_place(watch, root->path, root->device, root->inode, &present);
        if (root->present && !present) {
            TRY(lose_root(watch, i));
        } else if (present && (!root->present || other)) {
            TRY(tree_look_at_root(&watch->tree, i));
            TRY(add_change(watch, root->path, true));
        } else if (present && root->polled && poll) {
            TRY(add_change(watch, root->path, true));
        }
    }
done:
    return status;
}

/* Whether something else has been mounted on a watched folder, or unmounted from it. */
static l3a_status check_places(struct watch *watch) {
    l3a_status status = L3A_OK;
    struct watch_tree *tree = &watch->tree;
    text_list others = {0};
    size_t *roots = NULL, capacity = 0;
    bool present;
    for (size_t i = 0; i < tree->count; i++) {
        const struct watched *item = &tree->items[i];
        if (item->path && is_other_place(watch, item->path, item->device, item->inode, &present)) {
            TRY(grow_array(watch->context, &roots, &capacity, others.count + 1, sizeof *roots));
            roots[others.count] = item->root;
            TRY(text_list_add(watch->context, &others, item->path, strlen(item->path)));
        }
    }
    for (size_t i = 0; i < others.count; i++) {
        tree_forget(tree, others.items[i]);
        TRY(tree_walk(tree, roots[i], others.items[i]));
        TRY(add_change(watch, others.items[i], true));
    }
done:
    release(watch->context, roots);
    text_list_clear(watch->context, &others);
    return status;
}

static l3a_status look_around(struct watch *watch) {
    l3a_status status = L3A_OK;
    const double now = clock_seconds();
    const bool poll = now >= watch->next_poll, mounts = watch->mounts_changed || (poll && watch->mounts < 0);
    if (watch->overflowed) {
        return start_again(watch);
    }
    if (poll || mounts) {
        watch->mounts_changed = false;
        TRY(check_roots(watch, poll));
    }
    if (mounts) {
        TRY(check_places(watch));
    }
    if (poll) {
        watch->next_poll = now + watch->tree.poll_seconds;
    }
done:
    return status;
}

/* ---- Waiting -------------------------------------------------------------------------------------------------------- */
/* Returns false if the watch is to stop. */
static bool wait_until(struct watch *watch, double until) {
    const double seconds = fmin(fmax(0, until - clock_seconds()), 3600);
    struct pollfd sources[SOURCES] = {
        [WAKER] = {watch->waker, POLLIN, 0}, [INOTIFY] = {watch->tree.inotify, POLLIN, 0}, [MOUNTS] = {watch->mounts, POLLPRI, 0}};
    if (poll(sources, SOURCES, (int)ceil(1000 * seconds)) > 0) {
        watch->mounts_changed = watch->mounts_changed || sources[MOUNTS].revents;
    }
    return !(sources[WAKER].revents & POLLIN);
}

l3a_status watch_next(struct watch *watch, double seconds, bool *changed, bool *overflowed) {
    l3a_status status = L3A_OK;
    const double end = clock_seconds() + seconds;
    double first = 0, last = 0, until = 0;
    bool lost = false;
    clear_changes(watch);
    while (wait_until(watch, until)) {
        const uint64_t before = watch->noticed;
        TRY(take_events(watch));
        const bool more = watch->noticed > before;
        lost = lost || watch->overflowed;
        TRY(look_around(watch));
        watch->overflowed = false;
        const double now = clock_seconds();
        if (more) {
            first = last > 0 ? first : now;
            last = now;
        }
        until = last > 0 ? fmin(end, fmin(last + settled, first + longest)) : end;
        if (now >= until || (last <= 0 && watch->change_count)) {
            break;
        }
        until = fmin(until, watch->next_poll);
    }
    TRY(sort_changes(watch));
    *changed = watch->change_count > 0;
    *overflowed = lost;
done:
    watch->overflowed = status != L3A_OK; /* what was read and not reported is lost, too */
    return status;
}

/* ---- Opening and closing -------------------------------------------------------------------------------------------- */
static l3a_status add_root(struct watch *watch, const char *here, const char *given) {
    struct watch_root *root = &watch->tree.roots[watch->tree.root_count];
    size_t length = strlen(given);
    l3a_status status = L3A_OK;
    while (length > 1 && given[length - 1] == '/') {
        length--;
    }
    if (given[0] == '/') {
        TRY(copy_text(watch->context, given, length, &root->path));
    } else {
        TRY(join_path(watch->context, strcmp(here, "/") == 0 ? "" : here, given, &root->path));
        root->path[strlen(root->path) - strlen(given) + length] = '\0';
    }
    watch->tree.root_count++;
done:
    return status;
}

static l3a_status set_up(struct watch *watch, const char *const *folders, size_t count) {
    l3a_context *context = watch->context;
    l3a_status status = L3A_OK;
    char *here = NULL;
    TRY(resolve_path(context, ".", &here));
    TRY(allocate_zeroed(context, count, sizeof *watch->tree.roots, &watch->tree.roots));
    for (size_t i = 0; i < count; i++) {
        TRY(add_root(watch, here, folders[i]));
    }
    watch->waker = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    FAIL_IF(watch->waker < 0, context, L3A_ERROR_IO, "close some files, or raise the limit: see 'ulimit -n'",
            "folders cannot be watched: %s", strerror(errno));
    watch->mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    tree_open(&watch->tree);
    for (size_t i = 0; i < count; i++) {
        TRY(tree_look_at_root(&watch->tree, i));
    }
    watch->next_poll = clock_seconds() + watch->tree.poll_seconds;
done:
    release(context, here);
    return status;
}

l3a_status watch_open(l3a_context *context, const char *const *folders, size_t count, double poll_seconds, struct watch **watch) {
    l3a_status status = L3A_OK;
    struct watch *made = NULL;
    FAIL_IF(!(poll_seconds > 0), context, L3A_ERROR_ARGUMENT, NULL, "folders cannot be looked at every %g seconds", poll_seconds);
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = made->tree.context = context;
    made->tree.poll_seconds = poll_seconds;
    made->waker = made->mounts = made->tree.inotify = -1;
    TRY(set_up(made, folders, count));
    *watch = made;
    made = NULL;
done:
    watch_close(made);
    return status;
}

void watch_poll_only(struct watch *watch) {
    tree_close(&watch->tree);
}

const char *watch_folder(const struct watch *watch, size_t index, bool *below) {
    if (index >= watch->change_count) {
        return NULL;
    }
    if (below) {
        *below = watch->changes[index].below;
    }
    return watch->changes[index].path;
}

bool watch_is_polled(const struct watch *watch, size_t index) {
    return index < watch->tree.root_count && watch->tree.roots[index].polled;
}

void watch_stop(struct watch *watch) {
    const uint64_t one = 1;
    while (write(watch->waker, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void watch_close(struct watch *watch) {
    if (!watch) {
        return;
    }
    l3a_context *context = watch->context;
    clear_changes(watch);
    release(context, watch->changes);
    tree_free(&watch->tree);
    if (watch->waker >= 0) {
        close(watch->waker);
    }
    if (watch->mounts >= 0) {
        close(watch->mounts);
    }
    release(context, watch);
}
