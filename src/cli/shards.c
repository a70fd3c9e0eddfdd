/* Work that processes share in shards: with --shards N, each takes a shard that no other process has taken, until none is left, so
 * a slow one takes fewer. A shard is taken by its lock, which ends with the process. The process that finds all of them done joins
 * them. mpirun and srun need no --shards. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool shard_argument(const struct arguments *arguments, size_t *shard, size_t *shards) {
    const char *text = argument(arguments, "shard");
    int length = 0;
    *shard = *shards = 0;
    if (!text || (strspn(text, "0123456789/") == strlen(text) && sscanf(text, "%7zu/%7zu%n", shard, shards, &length) == 2 &&
                  !text[length] && *shard && *shard <= *shards && *shards <= 1000000)) {
        return true;
    }
    complain(arguments, "--shard: '%s' is not a shard such as 3/8; shards are numbered from 1, up to a million of them", text);
    return false;
}

bool shared_argument(const struct arguments *arguments, size_t *shards) {
    uint64_t given = 0;
    size_t process = 0;
    const size_t started = argument(arguments, "shard") ? 1 : l3a_cluster_started(&process);
    if (!argument_integer(arguments, "shards", 1, 1000000, &given)) {
        return false;
    }
    if (given && argument(arguments, "shard")) {
        complain(arguments, "--shard and --shards exclude each other");
        return false;
    }
    *shards = given ? (size_t)given : started > 1 ? 4 * started : 0; /* several for each, so that a fast one takes more */
    return true;
}

static bool is_there(const char *path) {
    return access(path, F_OK) == 0;
}

static int explain_shared(const struct arguments *arguments, l3a_status status) {
    const int code = explain(arguments, status);
    if (status == L3A_ERROR_CANCELLED) {
        print_hint("run the same command again to continue");
        return EXIT_INTERRUPTED;
    }
    return code;
}

int bad_pictures_code(bool joined) {
    size_t process;
    return joined || l3a_cluster_started(&process) == 1 ? EXIT_USAGE : EXIT_DONE;
}

void remove_shard_file(const struct arguments *arguments, const char *path) {
    l3a_lock *lock = NULL;
    const bool held = l3a_lock_take(arguments->context, path, 0, &lock) == L3A_OK;
    unlink(path);
    if (held) {
        l3a_lock_free(lock);
    }
}

/* Makes a shard, unless it is done or another process is at it. Shards that were joined are gone, but then the whole is there. */
static int take_shard(const struct shared_work *work, size_t shard, const char *path) {
    l3a_lock *lock = NULL;
    bool done = false;
    int code = work->find(work->user, shard, path, &done);
    if (code != EXIT_DONE || done || l3a_lock_take(work->arguments->context, path, 0, &lock) != L3A_OK) {
        return code;
    }
    code = work->find(work->user, shard, path, &done);
    if (code == EXIT_DONE && !done && !is_there(work->path)) {
        code = work->make(work->user, shard, path);
    }
    l3a_lock_free(lock);
    return code;
}

/* The last process joins the shards; another one that is as late waits for it, and finds them joined. */
static int join_shards(const struct shared_work *work, char *const *paths) {
    l3a_lock *lock = NULL;
    const l3a_status status = l3a_lock_take(work->arguments->context, work->path, 1, &lock);
    int code = status == L3A_OK ? EXIT_DONE : explain_shared(work->arguments, status);
    if (code == EXIT_DONE && !is_there(work->path)) {
        code = work->join(work->user, paths);
    }
    for (size_t i = 0; code == EXIT_DONE && i < work->shards; i++) {
        work->discard(work->user, paths[i]);
    }
    l3a_lock_free(lock);
    return code;
}

/* Whether the whole is there; waits if a process is just joining it. */
static int find_whole(const struct shared_work *work, bool *found) {
    l3a_lock *lock = NULL;
    const l3a_status status = l3a_lock_take(work->arguments->context, work->path, 1, &lock);
    *found = is_there(work->path);
    l3a_lock_free(lock);
    return status == L3A_OK ? EXIT_DONE : explain_shared(work->arguments, status);
}

/* Whether all shards are done. All of them are looked at, so that one that does not belong here is found before work begins. */
static int find_all(const struct shared_work *work, char *const *paths, bool *all) {
    int code = EXIT_DONE;
    *all = true;
    for (size_t i = 0; code == EXIT_DONE && i < work->shards; i++) {
        bool done = false;
        code = work->find(work->user, i + 1, paths[i], &done);
        *all = *all && done;
    }
    return code;
}

static int take_shards(const struct shared_work *work, char *const *paths) {
    bool all = false, found = false;
    int code = find_whole(work, &found);
    if (code == EXIT_DONE && found) {
        printf("%s: is there already; remove it to make it again\n", work->path);
        return EXIT_DONE;
    }
    code = code == EXIT_DONE ? find_all(work, paths, &all) : code;
    for (size_t i = 0; code == EXIT_DONE && !all && i < work->shards; i++) {
        code = take_shard(work, i + 1, paths[i]);
    }
    code = code == EXIT_DONE && !all ? find_all(work, paths, &all) : code;
    if (code == EXIT_DONE && all) {
        code = join_shards(work, paths);
    } else if (code == EXIT_DONE && !is_there(work->path)) {
        printf("%s: other processes are at work on what is left; the last one joins the shards\n", work->path);
    }
    return code;
}

int share_work(const struct shared_work *work) {
    char **paths = calloc(work->shards, sizeof *paths);
    bool named = paths != NULL;
    for (size_t i = 0; named && i < work->shards; i++) {
        named = asprintf(&paths[i], "%s.shard-%zu-of-%zu", work->path, i + 1, work->shards) >= 0;
        paths[i] = named ? paths[i] : NULL;
    }
    const int code = named ? take_shards(work, paths) : complain(work->arguments, "out of memory");
    for (size_t i = 0; paths && i < work->shards; i++) {
        free(paths[i]);
    }
    free(paths);
    return code;
}
