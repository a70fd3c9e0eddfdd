#include "data/watch_tree.h"

#include "base/file.h"
#include "data/pictures.h"

#include <errno.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { COMPACT_AFTER = 1024 };

static const uint32_t events = IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF |
                               IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK;

static int ask_file_system(const char *path, int64_t *kind) {
    struct statfs about;
    const int failed = statfs(path, &about);
    *kind = failed ? 0 : (int64_t)about.f_type & 0xFFFFFFFF;
    return failed;
}

static const struct watch_calls posix_calls = {.open = inotify_init1, .add = inotify_add_watch, .file_system = ask_file_system};
const struct watch_calls *watch_calls = &posix_calls;

/* File systems that other machines or programs change without this system's knowing. */
static bool is_changed_unseen(const char *path) {
    static const int64_t kinds[] = {
        0x6969,     /* NFS */
        0x517B,     /* SMB */
        0xFF534D42, /* CIFS */
        0xFE534D42, /* SMB 2 and later */
        0x65735546, /* FUSE: sshfs, rclone, and many others */
        0x01021997, /* 9P: virtual machines, WSL */
        0x5346414F, /* AFS */
        0x00C36400, /* Ceph */
        0x0BD00BD0, /* Lustre */
        0x01161970, /* GFS2 */
        0x7461636F, /* OCFS2 */
        0x786F4256, /* folders of a VirtualBox host */
        0x564C,     /* NetWare */
        0x73757245, /* Coda */
    };
    int64_t kind;
    bool found = false;
    if (watch_calls->file_system(path, &kind)) {
        return false;
    }
    for (size_t i = 0; !found && i < sizeof kinds / sizeof kinds[0]; i++) {
        found = kinds[i] == kind;
    }
    return found;
}

/* ---- The table ------------------------------------------------------------------------------------------------------ */
struct watched *tree_find(const struct watch_tree *tree, int number) {
    size_t first = 0, last = tree->count;
    while (first < last) {
        const size_t middle = first + (last - first) / 2;
        if (tree->items[middle].number < number) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return first < tree->count && tree->items[first].number == number && tree->items[first].path ? &tree->items[first] : NULL;
}

static void compact(struct watch_tree *tree) {
    size_t kept = 0;
    for (size_t i = 0; i < tree->count; i++) {
        if (tree->items[i].path) {
            tree->items[kept++] = tree->items[i];
        }
    }
    tree->count = kept;
    tree->gone = 0;
}

/* New numbers are the highest until inotify has given out all that an int can hold; the table stays in order even then. */
static l3a_status add_item(struct watch_tree *tree, struct watched item, const char *path) {
    l3a_status status = L3A_OK;
    if (tree->gone > COMPACT_AFTER && tree->gone > tree->count / 2) {
        compact(tree);
    }
    TRY(grow_array(tree->context, &tree->items, &tree->capacity, tree->count + 1, sizeof *tree->items));
    TRY(copy_text(tree->context, path, strlen(path), &item.path));
    size_t at = tree->count++;
    for (; at > 0 && tree->items[at - 1].number > item.number; at--) {
        tree->items[at] = tree->items[at - 1];
    }
    const bool again = at > 0 && tree->items[at - 1].number == item.number; /* of one that is gone */
    if (again) {
        memmove(&tree->items[at], &tree->items[at + 1], (--tree->count - at) * sizeof *tree->items);
        tree->gone--;
        at--;
    }
    tree->items[at] = item;
    tree->links += item.link;
done:
    return status;
}

void tree_drop(struct watch_tree *tree, struct watched *folder) {
    release(tree->context, folder->path);
    folder->path = NULL;
    tree->links -= folder->link;
    tree->gone++;
}

static void forget(struct watch_tree *tree, struct watched *folder) {
    inotify_rm_watch(tree->inotify, folder->number);
    tree_drop(tree, folder);
}

static bool is_at_or_below(const char *path, const char *folder) {
    const size_t length = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    return strncmp(path, folder, length) == 0 && (!path[length] || path[length] == '/');
}

void tree_forget(struct watch_tree *tree, const char *path) {
    for (size_t i = 0; i < tree->count; i++) {
        if (tree->items[i].path && is_at_or_below(tree->items[i].path, path)) {
            forget(tree, &tree->items[i]);
        }
    }
}

void tree_forget_root(struct watch_tree *tree, size_t root) {
    for (size_t i = 0; i < tree->count; i++) {
        if (tree->items[i].path && tree->items[i].root == root) {
            forget(tree, &tree->items[i]);
        }
    }
}

bool tree_has_link(const struct watch_tree *tree, const char *path) {
    bool found = false;
    for (size_t i = 0; tree->links && !found && i < tree->count; i++) {
        found = tree->items[i].path && tree->items[i].link && strcmp(tree->items[i].path, path) == 0;
    }
    return found;
}

/* ---- Walking -------------------------------------------------------------------------------------------------------- */
/* What a root has taken of the system's watches is given back: other programs need some, too. */
static void poll_root(struct watch_tree *tree, size_t root) {
    tree_forget_root(tree, root);
    tree->roots[root].polled = true;
}

static void poll_unseen(struct watch_tree *tree, size_t root, const char *path) {
    report_note(tree->context, "%s: on a file system that does not tell of all changes; it is looked at every %g seconds", path,
                tree->poll_seconds);
    poll_root(tree, root);
}

static void warn_of_limit(struct watch_tree *tree, const char *path, const char *setting) {
    if (!tree->warned) {
        report_warning(
            tree->context,
            "%s: the system's limit of watched folders is reached, so that changes are noticed only every %g seconds; to "
            "notice them at once, raise the limit, for example with: sysctl %s",
            path, tree->poll_seconds, setting);
    }
    tree->warned = true;
}

static l3a_status queue_folders(struct watch_tree *tree, const char *folder) {
    l3a_context *context = tree->context;
    l3a_status status = L3A_OK;
    text_list names = {0};
    char *path = NULL, target;
    file_description about;
    status = list_folder(context, folder, &names);
    if (status != L3A_OK) {
        status = status == L3A_ERROR_MEMORY ? status : L3A_OK; /* whoever reads the folder says why that is not possible */
        goto done;
    }
    for (size_t i = 0; i < names.count; i++) {
        if (is_hidden(names.items[i])) {
            continue;
        }
        TRY(join_path(context, strcmp(folder, "/") == 0 ? "" : folder, names.items[i], &path));
        if (context->files->describe(path, &about) == 0 && S_ISDIR(about.mode)) {
            const bool link = context->files->read_link(path, &target, sizeof target) >= 0;
            TRY(text_list_add(context, link ? &tree->waiting_links : &tree->folders, path, strlen(path)));
        }
        release(context, path);
        path = NULL;
    }
done:
    release(context, path);
    text_list_clear(context, &names);
    return status;
}

/* Whether a folder is watched under a path that leads elsewhere by now: it was moved into a new folder before that was watched, so
 * that nothing else tells. Such a folder is forgotten. */
static l3a_status forget_moved(struct watch_tree *tree, const struct watched *folder, bool *moved) {
    l3a_status status = L3A_OK;
    file_description about;
    char *path = NULL;
    *moved = tree->context->files->describe(folder->path, &about) || about.device != folder->device || about.inode != folder->inode;
    if (*moved) {
        TRY(copy_text(tree->context, folder->path, strlen(folder->path), &path));
        tree_forget(tree, path);
    }
done:
    release(tree->context, path);
    return status;
}

/* A folder that is watched already, under whatever path, is not walked again: this ends loops of links. */
static l3a_status visit(struct watch_tree *tree, size_t root, const char *path) {
    l3a_status status = L3A_OK;
    file_description about;
    char target;
    if (tree->context->files->describe(path, &about) || !S_ISDIR(about.mode)) {
        return L3A_OK;
    }
    if (about.device != tree->roots[root].device && is_changed_unseen(path)) {
        poll_unseen(tree, root, path);
        return L3A_OK;
    }
    int number = watch_calls->add(tree->inotify, path, events);
    const struct watched *known = number < 0 ? NULL : tree_find(tree, number);
    if (known) {
        bool moved;
        TRY(forget_moved(tree, known, &moved));
        if (!moved) {
            return L3A_OK;
        }
        number = watch_calls->add(tree->inotify, path, events);
    }
    if (number < 0) {
        if (errno == ENOSPC || errno == ENOMEM) {
            warn_of_limit(tree, tree->roots[root].path, "fs.inotify.max_user_watches=1048576");
            poll_root(tree, root);
        }
        return L3A_OK;
    }
    const bool link = tree->context->files->read_link(path, &target, sizeof target) >= 0;
    TRY(add_item(tree, (struct watched){.number = number, .root = root, .device = about.device, .inode = about.inode, .link = link},
                 path));
    TRY(queue_folders(tree, path));
done:
    return status;
}

l3a_status tree_walk(struct watch_tree *tree, size_t root, const char *path) {
    l3a_context *context = tree->context;
    l3a_status status = L3A_OK;
    TRY(text_list_add(context, &tree->folders, path, strlen(path)));
    while ((tree->folders.count || tree->waiting_links.count) && !tree->roots[root].polled) {
        text_list *list = tree->folders.count ? &tree->folders : &tree->waiting_links;
        char *next = list->items[--list->count];
        status = visit(tree, root, next);
        release(context, next);
        TRY(status);
    }
done:
    text_list_clear(context, &tree->folders);
    text_list_clear(context, &tree->waiting_links);
    return status;
}

l3a_status tree_look_at_root(struct watch_tree *tree, size_t index) {
    struct watch_root *root = &tree->roots[index];
    file_description about;
    tree_forget_root(tree, index);
    root->present = tree->context->files->describe(root->path, &about) == 0 && S_ISDIR(about.mode);
    root->polled = tree->inotify < 0;
    if (!root->present) {
        return L3A_OK;
    }
    root->device = about.device;
    root->inode = about.inode;
    if (!root->polled && is_changed_unseen(root->path)) {
        poll_unseen(tree, index, root->path);
    }
    return root->polled ? L3A_OK : tree_walk(tree, index, root->path);
}

void tree_open(struct watch_tree *tree) {
    tree->inotify = watch_calls->open(IN_NONBLOCK | IN_CLOEXEC);
    if (tree->inotify < 0 && errno == EMFILE && tree->root_count) {
        warn_of_limit(tree, tree->roots[0].path, "fs.inotify.max_user_instances=1024");
    }
}

void tree_close(struct watch_tree *tree) {
    for (size_t i = 0; i < tree->count; i++) {
        release(tree->context, tree->items[i].path);
    }
    tree->count = tree->gone = tree->links = 0;
    if (tree->inotify >= 0) {
        close(tree->inotify);
    }
    tree->inotify = -1;
    for (size_t i = 0; i < tree->root_count; i++) {
        tree->roots[i].polled = true;
    }
}

void tree_free(struct watch_tree *tree) {
    tree_close(tree);
    for (size_t i = 0; i < tree->root_count; i++) {
        release(tree->context, tree->roots[i].path);
    }
    release(tree->context, tree->roots);
    release(tree->context, tree->items);
}
