/* Outputs. A file is written beside its final place, synced, and renamed over it. Whatever happens, the path holds either the
 * complete new file or the complete old one.
 *
 * Symbolic links are followed first, so that a link stays a link and its target is replaced. The temporary file has a name that
 * nobody can guess, ".NAME.<16 hexadecimal digits>.l3a-tmp", and is always created by this process, never reused. The output holds
 * the target's lock until it is done. A temporary file of the same target that is found under the lock was therefore left by a
 * killed process, and is removed. A new file gets the mode and, if possible, the owner of the file that it replaces; until then
 * only its owner can access it. */
#include "base/file.h"
#include "base/memory.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { LINKS = 40, LINK = 4096, NAME_LIMIT = 120, NAME_KEPT = 80, DIGITS = 16 };

static const char temporary_ending[] = ".l3a-tmp";
const char lock_ending[] = ".l3a-lock";

/* ---- Where an output goes ---- */

/* A missing file is not an error. */
static l3a_status describe(l3a_context *context, const char *name, const char *path, bool *exists, file_description *description) {
    *exists = context->files->describe(path, description) == 0;
    return *exists || errno == ENOENT ? L3A_OK : fail_system(context, name, "write", errno);
}

static l3a_status refuse_kind(l3a_context *context, const char *name, mode_t mode) {
    if (S_ISREG(mode)) {
        return L3A_OK;
    }
    const char *kind = S_ISDIR(mode) ? "folder" : S_ISFIFO(mode) ? "pipe" : S_ISSOCK(mode) ? "socket" : "device";
    return fail(context, L3A_ERROR_IO,
                S_ISDIR(mode) ? "name a file"
                              : "name a regular file, which can be replaced in one step; to pass the output on, write a file and "
                                "use 'cat'",
                "%s: is a %s, which cannot be replaced by a file", name, kind);
}

/* A link that the kernel provides for a file that a process has open. The file behind it may be open for appending, or already
 * removed. */
static bool is_open_stream(const char *link) {
    return strncmp(link, "/proc/", 6) == 0 || strncmp(link, "/dev/fd/", 8) == 0;
}

static l3a_status follow_links(l3a_context *context, const char *name, char **path) {
    l3a_status status = L3A_OK;
    char link[LINK], *next = NULL;
    for (int hops = 0;; hops++) {
        const ssize_t length = context->files->read_link(*path, link, sizeof link);
        if (length < 0) {
            return errno == EINVAL || errno == ENOENT ? L3A_OK : fail_system(context, name, "write", errno);
        }
        if (length == LINK || hops == LINKS) {
            return fail_system(context, name, "write", hops == LINKS ? ELOOP : ENAMETOOLONG);
        }
        FAIL_IF(is_open_stream(*path), context, L3A_ERROR_IO, "name the file itself",
                "%s: is an open stream, such as the standard output, which cannot be replaced by a file", name);
        const char *slash = strrchr(*path, '/');
        const size_t folder = slash && link[0] != '/' ? (size_t)(slash - *path) + 1 : 0;
        TRY(allocate(context, folder + (size_t)length + 1, 1, &next));
        memcpy(next, *path, folder);
        memcpy(next + folder, link, (size_t)length);
        next[folder + (size_t)length] = '\0';
        release(context, *path);
        *path = next;
    }
done:
    return status;
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

l3a_status target_find(l3a_context *context, const char *path, output_target *target) {
    l3a_status status = L3A_OK;
    file_description named = {0};
    bool exists;
    *target = (output_target){0};
    TRY(describe(context, path, path, &exists, &named));
    if (exists) {
        TRY(refuse_kind(context, path, named.mode));
    }
    TRY(copy_text(context, path, strlen(path), &target->path));
    TRY(follow_links(context, path, &target->path));
    TRY(describe(context, path, target->path, &target->exists, &target->old));
    if (target->exists) { /* checked again: another process may have replaced it in the meantime */
        TRY(refuse_kind(context, path, target->old.mode));
    }
    const char *name = last_part(target->path);
    if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        status = fail_system(context, path, "write", path[0] ? EISDIR : ENOENT);
    }
done:
    if (status != L3A_OK) {
        target_free(context, target);
    }
    return status;
}

void target_free(l3a_context *context, output_target *target) {
    release(context, target->path);
    *target = (output_target){0};
}

mode_t target_mode(const output_target *target) {
    return target->exists ? target->old.mode & 0666 : 0666;
}

l3a_status path_beside(l3a_context *context, const char *target, const char *ending, char **path) {
    const char *name = last_part(target);
    const size_t length = strlen(name);
    size_t kept = length;
    char mark[DIGITS + 2] = "";
    if (length > NAME_LIMIT) {
        for (kept = NAME_KEPT; kept && ((unsigned char)name[kept] & 0xC0) == 0x80; kept--) {
        }
        snprintf(mark, sizeof mark, "~%016llx", (unsigned long long)XXH3_64bits(name, length));
    }
    const size_t folder = (size_t)(name - target), size = folder + kept + strlen(mark) + strlen(ending) + 2;
    const l3a_status status = allocate(context, size, 1, path);
    if (status == L3A_OK) {
        snprintf(*path, size, "%.*s.%.*s%s%s", (int)folder, target, (int)kept, name, mark, ending);
    }
    return status;
}

/* ---- Temporary files ---- */

/* Matches ".NAME.<digits>.l3a-tmp", where ".NAME" is `start`, or anything if `start` is NULL. */
static bool is_temporary(const char *name, const char *start) {
    const size_t length = strlen(name), ending = DIGITS + sizeof temporary_ending; /* including the dot before the digits */
    return name[0] == '.' && length > ending + 1 && strcmp(name + length - sizeof temporary_ending + 1, temporary_ending) == 0 &&
           name[length - ending] == '.' && strspn(name + length - ending + 1, "0123456789abcdef") == DIGITS &&
           (!start || (strlen(start) == length - ending && strncmp(name, start, length - ending) == 0));
}

/* ".NAME.l3a-lock" */
static bool is_lock(const char *name) {
    const size_t length = strlen(name), ending = strlen(lock_ending);
    return name[0] == '.' && length > ending + 1 && strcmp(name + length - ending, lock_ending) == 0;
}

struct search {
    l3a_context *context;
    const char *start; /* NULL: temporary files of any name, and locks */
    text_list found;
    l3a_status status;
};

static int add_leftover(const char *name, void *user) {
    struct search *search = user;
    if (is_temporary(name, search->start) || (!search->start && is_lock(name))) {
        search->status = text_list_add(search->context, &search->found, name, strlen(name));
    }
    return search->status != L3A_OK;
}

/* Keeps anything that is not a regular file, that another process has locked, or that has the name of a lock but is not empty. */
static void remove_stale(const file_operations *files, const char *path) {
    const int file = files->open(path, O_RDONLY | O_NOFOLLOW, 0);
    uint64_t size;
    if (file >= 0) {
        if (files->size(file, &size) == 0 && (!size || !is_lock(last_part(path))) && files->lock(file, path) == 0) {
            files->remove(path);
        }
        files->close(file);
    }
}

/* It does no harm if a leftover cannot be found or removed. */
static l3a_status remove_found(l3a_context *context, const char *folder, const char *start) {
    l3a_status status = L3A_OK;
    struct search search = {.context = context, .start = start};
    context->files->list(folder, add_leftover, &search);
    TRY(search.status);
    for (size_t i = 0; i < search.found.count; i++) {
        char *path;
        TRY(join_path(context, folder, search.found.items[i], &path));
        remove_stale(context->files, path);
        release(context, path);
    }
done:
    text_list_clear(context, &search.found);
    return status;
}

l3a_status remove_leftovers(l3a_context *context, const char *folder) {
    return remove_found(context, folder, NULL);
}

/* The caller holds the target's lock. */
static l3a_status remove_stale_temporaries(l3a_context *context, const char *target) {
    l3a_status status = L3A_OK;
    char *start = NULL, *folder = NULL;
    TRY(path_beside(context, target, "", &start));
    const char *name = last_part(start);
    TRY(copy_text(context, name > start ? start : ".", name > start ? (size_t)(name - start) : 1, &folder));
    TRY(remove_found(context, folder, name));
done:
    release(context, start);
    release(context, folder);
    return status;
}

static l3a_status make_temporary(output_file *output) {
    l3a_context *context = output->context;
    const file_operations *files = context->files;
    l3a_status status = L3A_OK;
    uint64_t number = 0;
    char ending[DIGITS + sizeof temporary_ending + 1];
    if (files->random(&number, sizeof number, 0) != sizeof number) {
        return fail_system(context, output->path, "choose the name of a temporary file", errno);
    }
    snprintf(ending, sizeof ending, ".%016llx%s", (unsigned long long)number, temporary_ending);
    TRY(path_beside(context, output->target.path, ending, &output->temporary));
    output->file = files->open(output->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, output->target.exists ? 0600 : 0666);
    if (output->file < 0) {
        status = fail_system(context, output->path, "write", errno);
    } else if (files->lock(output->file, output->temporary)) {
        status = fail_system(context, output->path, "lock", errno);
    }
done:
    return status;
}

/* Sets the owner first, so that the mode never applies to the wrong group. If the group cannot be kept, it only gets the
 * permissions that everyone has. */
static l3a_status keep_mode_and_owner(const output_file *output) {
    const file_operations *files = output->context->files;
    const file_description *old = &output->target.old;
    mode_t mode = old->mode & 0777;
    if (files->set_owner(output->file, old->owner, old->group) && files->set_owner(output->file, (uid_t)-1, old->group)) {
        mode &= (mode_t)~070 | (mode & 07) << 3;
    }
    /* some file systems have no modes */
    const bool kept = files->set_mode(output->file, mode) == 0 || errno == EPERM || errno == ENOTSUP || errno == ENOSYS;
    return kept ? L3A_OK : fail_system(output->context, output->path, "set the mode of the new file", errno);
}

/* ---- Outputs ---- */

l3a_status output_open(l3a_context *context, const char *path, output_file *output) {
    l3a_status status = L3A_OK;
    bool held;
    *output = (output_file){.context = context, .file = -1};
    TRY(copy_text(context, path, strlen(path), &output->path));
    TRY(target_find(context, path, &output->target));
    TRY(lock_is_held(context, output->target.path, &held));
    if (!held) {
        TRY(lock_target(context, output->target.path, path, FAIL_AT_ONCE, &output->lock));
    }
    TRY(remove_stale_temporaries(context, output->target.path));
    TRY(make_temporary(output));
done:
    if (status != L3A_OK) {
        output_discard(output);
    }
    return status;
}

/* Not every file system can reserve space. */
l3a_status output_reserve(const output_file *output, uint64_t bytes) {
    const int code = output->context->files->reserve(output->file, (off_t)bytes) ? errno : 0;
    return code == ENOSPC || code == EDQUOT || code == EFBIG ? fail_system(output->context, output->path, "write", code) : L3A_OK;
}

int output_put(const output_file *output, uint64_t offset, const void *bytes, size_t count) {
    const char *from = bytes;
    while (count) {
        const ssize_t put = output->context->files->write(output->file, from, count, (off_t)offset);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return put ? errno : ENOSPC;
        }
        from += put;
        offset += (uint64_t)put;
        count -= (size_t)put;
    }
    return 0;
}

l3a_status output_write(const output_file *output, uint64_t offset, const void *bytes, size_t count) {
    const int code = output_put(output, offset, bytes, count);
    return code ? fail_system(output->context, output->path, "write", code) : L3A_OK;
}

/* File systems that cannot sync a folder return EINVAL. */
l3a_status sync_folder_of(l3a_context *context, const char *path) {
    l3a_status status = L3A_OK;
    char *folder = NULL;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') { /* the path may be that of a folder */
        length--;
    }
    while (length && path[length - 1] != '/') {
        length--;
    }
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    TRY(copy_text(context, length ? path : ".", length ? length : 1, &folder));
    const int file = context->files->open(folder, O_RDONLY | O_DIRECTORY, 0);
    if (file < 0) {
        status = fail_system(context, folder, "open", errno);
        goto done;
    }
    if (context->files->sync(file) && errno != EINVAL) {
        status = fail_system(context, folder, "sync", errno);
    }
    context->files->close(file);
done:
    release(context, folder);
    return status;
}

l3a_status output_commit(output_file *output) {
    l3a_context *context = output->context;
    const file_operations *files = context->files;
    bool in_place = false;
    l3a_status status = L3A_OK;
    if (output->target.exists) {
        TRY(keep_mode_and_owner(output));
    }
    if (files->sync(output->file)) {
        status = fail_system(context, output->path, "sync", errno);
        goto done;
    }
    if (files->rename(output->temporary, output->target.path)) {
        status = fail_system(context, output->path, "put the new file in place", errno);
        goto done;
    }
    in_place = true;
    release(context, output->temporary);
    output->temporary = NULL;
    const int closed = files->close(output->file);
    output->file = -1;
    if (closed) {
        status = fail_system(context, output->path, "close", errno);
        goto done;
    }
    status = sync_folder_of(context, output->target.path);
done:
    output_discard(output);
    output->in_place = in_place;
    return status;
}

void output_discard(output_file *output) {
    l3a_context *context = output->context;
    if (!context) {
        return;
    }
    if (output->file >= 0 && output->temporary) {
        context->files->remove(output->temporary);
    }
    if (output->file >= 0) {
        context->files->close(output->file);
    }
    l3a_lock_free(output->lock);
    target_free(context, &output->target);
    release(context, output->path);
    release(context, output->temporary);
    *output = (output_file){.file = -1};
}

l3a_status write_whole(l3a_context *context, const char *path, const char *text, size_t length) {
    l3a_status status = L3A_OK;
    output_file output;
    TRY(output_open(context, path, &output));
    TRY(output_write(&output, 0, text, length));
    TRY(output_commit(&output));
done:
    output_discard(&output);
    return status;
}

l3a_status l3a_file_write(l3a_context *context, const char *path, const void *bytes, size_t count) {
    l3a_status status = L3A_OK;
    NEED(context, context, path);
    if (count) {
        NEED(context, bytes);
    }
    TRY(write_whole(context, path, bytes, count));
done:
    return status;
}

struct l3a_output {
    l3a_context *context;
    output_file file;
    uint64_t length;
    bool done; /* committed, or tried to */
};

l3a_status l3a_output_open(l3a_context *context, const char *path, l3a_output **output) {
    l3a_status status = L3A_OK;
    l3a_output *made = NULL;
    NEED(context, context, path, output);
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    TRY(output_open(context, path, &made->file));
    *output = made;
    made = NULL;
done:
    l3a_output_free(made);
    return status;
}

l3a_status l3a_output_write(l3a_output *output, const void *bytes, size_t count) {
    REQUIRE(output, output);
    if (count) {
        REQUIRE(output, bytes);
    }
    l3a_status status = L3A_OK;
    FAIL_IF(output->done, output->context, L3A_ERROR_STATE, "open another output",
            "the output was committed; it takes nothing more");
    TRY(output_write(&output->file, output->length, bytes, count));
    output->length += count;
done:
    return status;
}

l3a_status l3a_output_commit(l3a_output *output) {
    REQUIRE(output, output);
    l3a_status status = L3A_OK;
    FAIL_IF(output->done, output->context, L3A_ERROR_STATE, "free the output", "the output was already committed");
    output->done = true;
    TRY(output_commit(&output->file));
done:
    return status;
}

void l3a_output_free(l3a_output *output) {
    if (output) {
        output_discard(&output->file);
        release(output->context, output);
    }
}

l3a_status write_new(l3a_context *context, const char *path, const void *bytes, size_t length) {
    l3a_status status = L3A_OK;
    output_file output = {.context = context, .file = context->files->open(path, O_WRONLY | O_CREAT | O_EXCL, 0666)};
    if (output.file < 0) {
        return fail_system(context, path, "create", errno);
    }
    TRY(copy_text(context, path, strlen(path), &output.path));
    TRY(output_write(&output, 0, bytes, length));
    const int closed = context->files->close(output.file);
    output.file = -1;
    if (closed) {
        status = fail_system(context, path, "close", errno);
    }
done:
    output_discard(&output);
    return status;
}
