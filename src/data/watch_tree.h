/* The folders that inotify watches for a watch: those that were given, and all below them. */
#ifndef L3A_WATCH_TREE_H
#define L3A_WATCH_TREE_H

#include "base/memory.h"

/* What is asked of the system, so that tests can answer for it. Each returns -1 and sets errno where it fails. */
struct watch_calls {
    int (*open)(int flags);
    int (*add)(int inotify, const char *path, uint32_t events);
    int (*file_system)(const char *path, int64_t *kind); /* its magic number */
};
extern const struct watch_calls *watch_calls;

/* A folder that was given. */
struct watch_root {
    char *path;
    bool present; /* and then it is: */
    uint64_t device, inode;
    bool polled;
};

struct watched {
    int number; /* inotify's; they rise */
    char *path; /* NULL: no more */
    size_t root;
    uint64_t device, inode;
    bool link;   /* the path is a symbolic link */
    bool listed; /* among the changes that are to be reported */
};

struct watch_tree {
    l3a_context *context;
    double poll_seconds;
    int inotify; /* -1: everything is polled */
    bool warned;
    struct watch_root *roots;
    size_t root_count;
    struct watched *items; /* by number */
    size_t count, capacity, gone, links;
    text_list folders, waiting_links; /* to be walked; the last one comes first */
};

/* Opens inotify. Where that fails, everything is polled. */
void tree_open(struct watch_tree *tree);
/* Closes inotify, and forgets all folders; they are polled until they are looked at again. */
void tree_close(struct watch_tree *tree);
/* Looks at a folder that was given: whether it is there, and whether it is polled; watches it otherwise. */
l3a_status tree_look_at_root(struct watch_tree *tree, size_t root);
/* Watches a folder and all below it, unless its root is polled. Each is watched before it is listed, so that nothing in it is
 * missed. */
l3a_status tree_walk(struct watch_tree *tree, size_t root, const char *path);
/* Watches a folder, and those below it, no more. */
void tree_forget(struct watch_tree *tree, const char *path);
void tree_forget_root(struct watch_tree *tree, size_t root);
/* One folder, which inotify has stopped watching by itself. */
void tree_drop(struct watch_tree *tree, struct watched *folder);
/* NULL: it is not watched. Valid until something is watched or forgotten. */
struct watched *tree_find(const struct watch_tree *tree, int number);
/* Whether this path is a link to a watched folder. */
bool tree_has_link(const struct watch_tree *tree, const char *path);
void tree_free(struct watch_tree *tree);

#endif
