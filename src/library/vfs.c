/* A VFS for SQLite that works through the file operations of a context, so that a test can make any of them fail or cut the power
 * after it, and so that errors have an errno.
 *
 * Locks are those of SQLite's own VFS for Unix, on the same bytes, so that the program sqlite3 can be used beside us:
 *
 *   SHARED     the range of SHARED is locked for reading; the byte PENDING only while that is being done
 *   RESERVED   and the byte RESERVED is locked for writing: one connection prepares a change, and others still read
 *   PENDING    and the byte PENDING: no reader can come any more
 *   EXCLUSIVE  and the range of SHARED for writing: nobody reads
 *
 * They belong to open files and not to the process, so nothing has to be remembered about files that the process has opened twice.
 * But if a program uses the same index through SQLite's own VFS, the locks there belong to the process, and are lost when a file of
 * ours is closed. Nobody should do that in one process; another process can.
 *
 * What is certain after a power loss: a new journal is synced and then its folder is, which makes its name certain, and that of a
 * new database. Only then does SQLite write to the database. Removing the journal is the commit, and the folder is synced again if
 * SQLite asks for it (vfs.h). Nothing else is promised about the disk: a sector has 4096 bytes, and writing to some of them can
 * damage the rest.
 *
 * SQLite's own memory does not come from the context. Its allocator can only be chosen for the whole process, before SQLite is used
 * for the first time, and a library is a guest there: the program may use SQLite as well, and its memory is none of our business.
 */
#include "library/vfs.h"

#include "base/file.h"
#include "base/memory.h"

#include <sqlite3.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { PENDING = 0x40000000, RESERVED = PENDING + 1, SHARED = PENDING + 2, SHARED_COUNT = 510, SECTOR = 4096, LINKS = 40 };

static const char journal_ending[] = "-journal";

struct vfs {
    sqlite3_vfs base; /* first: SQLite knows only this */
    l3a_context *context;
    char name[32];
    int code;
};

/* SQLite allocates it. */
struct open_file {
    sqlite3_file base; /* first */
    struct vfs *vfs;
    const char *path; /* SQLite keeps it until the file is closed */
    int file;
    int held;         /* SQLITE_LOCK_… */
    bool sync_folder; /* with the first sync */
    uint64_t device, inode;
};

static struct vfs *vfs_of(sqlite3_vfs *base) {
    return (struct vfs *)(void *)base;
}

static struct open_file *file_of(sqlite3_file *base) {
    return (struct open_file *)(void *)base;
}

static const file_operations *files_of(const struct vfs *vfs) {
    return vfs->context->files;
}

/* The result for an operation that failed with this errno. */
static int failed(struct vfs *vfs, int code, int result) {
    vfs->code = code;
    return code == ENOSPC || code == EDQUOT || code == EFBIG ? SQLITE_FULL : result;
}

/* ---- Locks ---- */

static int lock_bytes(struct open_file *file, enum byte_lock kind, off_t offset, off_t count, int result) {
    const file_operations *files = files_of(file->vfs);
    int done;
    do {
        done = files->lock_bytes(file->file, kind, offset, count);
    } while (done && errno == EINTR);
    if (!done) {
        return SQLITE_OK;
    }
    if (errno == EAGAIN) {
        return SQLITE_BUSY;
    }
    const bool none = errno == ENOSYS || errno == EOPNOTSUPP || errno == EINVAL;
    return failed(file->vfs, none ? ENOLCK : errno, result);
}

static int lock_shared(struct open_file *file) {
    int result = lock_bytes(file, BYTES_READ, PENDING, 1, SQLITE_IOERR_LOCK);
    if (result != SQLITE_OK) {
        return result;
    }
    result = lock_bytes(file, BYTES_READ, SHARED, SHARED_COUNT, SQLITE_IOERR_LOCK);
    const int unlocked = lock_bytes(file, BYTES_UNLOCK, PENDING, 1, SQLITE_IOERR_UNLOCK);
    if (unlocked != SQLITE_OK) {
        lock_bytes(file, BYTES_UNLOCK, 0, 0, SQLITE_IOERR_UNLOCK);
    }
    return unlocked != SQLITE_OK ? unlocked : result;
}

/* From SHARED, without RESERVED, who rolls back the journal of a killed process goes straight to EXCLUSIVE. If two of them kept
 * readers out with PENDING, each would wait for the other's SHARED. */
static int lock_exclusive(struct open_file *file) {
    if (file->held == SQLITE_LOCK_RESERVED) {
        const int result = lock_bytes(file, BYTES_WRITE, PENDING, 1, SQLITE_IOERR_LOCK);
        if (result != SQLITE_OK) {
            return result;
        }
        file->held = SQLITE_LOCK_PENDING; /* and keeps it while readers finish */
    }
    return lock_bytes(file, BYTES_WRITE, SHARED, SHARED_COUNT, SQLITE_IOERR_LOCK);
}

static int lock(sqlite3_file *base, int wanted) {
    struct open_file *file = file_of(base);
    if (file->held >= wanted) {
        return SQLITE_OK;
    }
    const int result = wanted == SQLITE_LOCK_SHARED     ? lock_shared(file)
                       : wanted == SQLITE_LOCK_RESERVED ? lock_bytes(file, BYTES_WRITE, RESERVED, 1, SQLITE_IOERR_LOCK)
                                                        : lock_exclusive(file);
    file->held = result == SQLITE_OK ? wanted : file->held;
    return result;
}

/* `held` is never more than what the system knows of, whatever fails. */
static int unlock(sqlite3_file *base, int wanted) {
    struct open_file *file = file_of(base);
    int result = SQLITE_OK;
    if (file->held <= wanted) {
        return SQLITE_OK;
    }
    if (wanted == SQLITE_LOCK_NONE) {
        result = lock_bytes(file, BYTES_UNLOCK, 0, 0, SQLITE_IOERR_UNLOCK);
        file->held = result == SQLITE_OK ? SQLITE_LOCK_NONE : file->held;
        return result;
    }
    result = lock_bytes(file, BYTES_READ, SHARED, SHARED_COUNT, SQLITE_IOERR_RDLOCK);
    if (result != SQLITE_OK) {
        return result;
    }
    file->held = SQLITE_LOCK_SHARED;
    return lock_bytes(file, BYTES_UNLOCK, PENDING, 2, SQLITE_IOERR_UNLOCK); /* and RESERVED */
}

static int check_reserved(sqlite3_file *base, int *reserved) {
    struct open_file *file = file_of(base);
    *reserved = file->held >= SQLITE_LOCK_RESERVED;
    const int result = *reserved ? SQLITE_OK : lock_bytes(file, BYTES_TEST, RESERVED, 1, SQLITE_IOERR_CHECKRESERVEDLOCK);
    *reserved = *reserved || result == SQLITE_BUSY;
    return result == SQLITE_BUSY ? SQLITE_OK : result;
}

/* ---- Open files ---- */

static int close_file(sqlite3_file *base) {
    struct open_file *file = file_of(base);
    return files_of(file->vfs)->close(file->file) ? failed(file->vfs, errno, SQLITE_IOERR_CLOSE) : SQLITE_OK;
}

static int read_file(sqlite3_file *base, void *bytes, int count, sqlite3_int64 offset) {
    struct open_file *file = file_of(base);
    char *to = bytes;
    while (count) {
        const ssize_t got = files_of(file->vfs)->read(file->file, to, (size_t)count, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return failed(file->vfs, errno, SQLITE_IOERR_READ);
        }
        if (!got) { /* SQLite expects this of new files */
            memset(to, 0, (size_t)count);
            return SQLITE_IOERR_SHORT_READ;
        }
        to += got;
        offset += got;
        count -= (int)got;
    }
    return SQLITE_OK;
}

static int write_file(sqlite3_file *base, const void *bytes, int count, sqlite3_int64 offset) {
    struct open_file *file = file_of(base);
    const char *from = bytes;
    while (count) {
        const ssize_t put = files_of(file->vfs)->write(file->file, from, (size_t)count, (off_t)offset);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return failed(file->vfs, put < 0 ? errno : ENOSPC, SQLITE_IOERR_WRITE);
        }
        from += put;
        offset += put;
        count -= (int)put;
    }
    return SQLITE_OK;
}

static int truncate_file(sqlite3_file *base, sqlite3_int64 bytes) {
    struct open_file *file = file_of(base);
    int done;
    do {
        done = files_of(file->vfs)->truncate(file->file, (off_t)bytes);
    } while (done && errno == EINTR);
    return done ? failed(file->vfs, errno, SQLITE_IOERR_TRUNCATE) : SQLITE_OK;
}

static int sync_folder_with(struct vfs *vfs, const char *path) {
    const file_operations *files = files_of(vfs);
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const size_t length = !slash ? 1 : slash == path ? 1 : (size_t)(slash - path);
    memcpy(folder, slash ? path : ".", length);
    folder[length] = '\0';
    const int file = files->open(folder, O_RDONLY | O_DIRECTORY, 0);
    if (file < 0) {
        return failed(vfs, errno, SQLITE_IOERR_DIR_FSYNC);
    }
    const int code = files->sync(file) ? errno : 0;
    files->close(file);
    return code && code != EINVAL ? failed(vfs, code, SQLITE_IOERR_DIR_FSYNC) : SQLITE_OK; /* EINVAL: it has no such thing */
}

static int sync_file(sqlite3_file *base, int flags) {
    struct open_file *file = file_of(base);
    (void)flags; /* the whole file, with its length */
    if (files_of(file->vfs)->sync(file->file)) {
        return failed(file->vfs, errno, SQLITE_IOERR_FSYNC);
    }
    const int result = file->sync_folder ? sync_folder_with(file->vfs, file->path) : SQLITE_OK;
    file->sync_folder = file->sync_folder && result != SQLITE_OK;
    return result;
}

static int size_of_file(sqlite3_file *base, sqlite3_int64 *bytes) {
    struct open_file *file = file_of(base);
    uint64_t size;
    if (files_of(file->vfs)->size(file->file, &size)) {
        return failed(file->vfs, errno, SQLITE_IOERR_FSTAT);
    }
    *bytes = (sqlite3_int64)size;
    return SQLITE_OK;
}

/* Whether the path of a database now names another file, or none. What is written then would be lost. */
static int has_moved(struct open_file *file, int *moved) {
    file_description there;
    if (files_of(file->vfs)->describe(file->path, &there)) {
        const bool gone = errno == ENOENT || errno == ENOTDIR;
        const int result = failed(file->vfs, gone ? ESTALE : errno, SQLITE_IOERR_FSTAT);
        *moved = 1;
        return gone ? SQLITE_OK : result;
    }
    *moved = there.device != file->device || there.inode != file->inode;
    file->vfs->code = *moved ? ESTALE : file->vfs->code;
    return SQLITE_OK;
}

static int control_file(sqlite3_file *base, int operation, void *argument) {
    struct open_file *file = file_of(base);
    switch (operation) {
    case SQLITE_FCNTL_LOCKSTATE: *(int *)argument = file->held; return SQLITE_OK;
    case SQLITE_FCNTL_LAST_ERRNO: *(int *)argument = file->vfs->code; return SQLITE_OK;
    case SQLITE_FCNTL_VFSNAME: *(char **)argument = sqlite3_mprintf("%s", file->vfs->name); return SQLITE_OK;
    case SQLITE_FCNTL_HAS_MOVED: return has_moved(file, argument);
    default: return SQLITE_NOTFOUND;
    }
}

static int sector_size(sqlite3_file *base) {
    (void)base;
    return SECTOR;
}

static int characteristics(sqlite3_file *base) {
    (void)base;
    return 0;
}

/* Version 1 has no shared memory, and so no WAL, and no maps. */
static const sqlite3_io_methods methods = {.iVersion = 1,
                                           .xClose = close_file,
                                           .xRead = read_file,
                                           .xWrite = write_file,
                                           .xTruncate = truncate_file,
                                           .xSync = sync_file,
                                           .xFileSize = size_of_file,
                                           .xLock = lock,
                                           .xUnlock = unlock,
                                           .xCheckReservedLock = check_reserved,
                                           .xFileControl = control_file,
                                           .xSectorSize = sector_size,
                                           .xDeviceCharacteristics = characteristics};

/* ---- Opening ---- */

/* The database that a journal belongs to. */
static int describe_database(struct vfs *vfs, const char *journal, file_description *database) {
    char path[PATH_MAX];
    const size_t length = strlen(journal), ending = strlen(journal_ending);
    if (length >= sizeof path || length <= ending || strcmp(journal + length - ending, journal_ending) != 0) {
        return failed(vfs, ENAMETOOLONG, SQLITE_CANTOPEN);
    }
    memcpy(path, journal, length - ending);
    path[length - ending] = '\0';
    return files_of(vfs)->describe(path, database) ? failed(vfs, errno, SQLITE_IOERR_FSTAT) : SQLITE_OK;
}

/* Who may use the database must be able to roll back its journal. Where that cannot be had, the journal is still right for us. */
static void adopt_owner(const struct open_file *journal, const file_description *database) {
    const file_operations *files = files_of(journal->vfs);
    file_description made;
    if (files->describe(journal->path, &made)) {
        return;
    }
    if (made.owner != database->owner || made.group != database->group) {
        files->set_owner(journal->file, database->owner, database->group);
    }
    if ((made.mode & 0777) != (database->mode & 0777)) {
        files->set_mode(journal->file, database->mode & 0777);
    }
}

/* Where a database can only be read, *flags says so afterwards. Negative: it cannot be opened. */
static int open_path(struct vfs *vfs, const char *path, int *flags, mode_t mode) {
    const file_operations *files = files_of(vfs);
    const bool writes = *flags & SQLITE_OPEN_READWRITE, creates = *flags & SQLITE_OPEN_CREATE;
    const int exclusive = *flags & SQLITE_OPEN_EXCLUSIVE && creates ? O_EXCL : 0;
    const int file = files->open(path, (writes ? O_RDWR : O_RDONLY) | (creates ? O_CREAT : 0) | exclusive | O_NOFOLLOW, mode);
    if (file >= 0 || !writes || exclusive || !(*flags & SQLITE_OPEN_MAIN_DB) ||
        (errno != EACCES && errno != EPERM && errno != EROFS)) {
        return file;
    }
    vfs->code = errno; /* belongs to SQLITE_READONLY, when SQLite has to write */
    const int readable = files->open(path, O_RDONLY | O_NOFOLLOW, 0);
    errno = vfs->code;
    *flags = (*flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
    return readable;
}

/* Fails for what is no regular file. Keeps what tells whether a database is still at its path. */
static int identify(struct open_file *file, int flags, uint64_t *size) {
    const file_operations *files = files_of(file->vfs);
    file_description about;
    if (files->size(file->file, size)) {
        return failed(file->vfs, errno, SQLITE_CANTOPEN);
    }
    if (flags & SQLITE_OPEN_MAIN_DB) {
        if (files->describe(file->path, &about)) {
            return failed(file->vfs, errno, SQLITE_CANTOPEN);
        }
        file->device = about.device;
        file->inode = about.inode;
    }
    return SQLITE_OK;
}

static int open_file(sqlite3_vfs *base, const char *path, sqlite3_file *opened, int flags, int *flags_out) {
    struct vfs *vfs = vfs_of(base);
    struct open_file *file = file_of(opened);
    const bool makes_journal = flags & SQLITE_OPEN_MAIN_JOURNAL && flags & SQLITE_OPEN_CREATE;
    file_description database = {.mode = 0600}; /* of a new one: paths tell where pictures are */
    uint64_t size;
    opened->pMethods = NULL;
    if (!path || !(flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL))) { /* a temporary file, or one of several databases */
        return failed(vfs, ENOTSUP, SQLITE_CANTOPEN);
    }
    int result = makes_journal ? describe_database(vfs, path, &database) : SQLITE_OK;
    if (result != SQLITE_OK) {
        return result;
    }
    *file = (struct open_file){.vfs = vfs, .path = path, .held = SQLITE_LOCK_NONE, .sync_folder = makes_journal};
    file->file = open_path(vfs, path, &flags, database.mode & 0777);
    if (file->file < 0) {
        return failed(vfs, errno, SQLITE_CANTOPEN);
    }
    result = identify(file, flags, &size);
    if (result != SQLITE_OK) {
        files_of(vfs)->close(file->file);
        return result;
    }
    if (makes_journal && !size) {
        adopt_owner(file, &database);
    }
    if (flags_out) {
        *flags_out = flags;
    }
    opened->pMethods = &methods;
    return SQLITE_OK;
}

/* ---- Paths ---- */

static int delete_path(sqlite3_vfs *base, const char *path, int sync) {
    struct vfs *vfs = vfs_of(base);
    if (files_of(vfs)->remove(path)) {
        return errno == ENOENT ? SQLITE_IOERR_DELETE_NOENT : failed(vfs, errno, SQLITE_IOERR_DELETE);
    }
    return sync ? sync_folder_with(vfs, path) : SQLITE_OK;
}

/* An empty file says nothing, and SQLite wants to be told that it is not there. */
static int access_path(sqlite3_vfs *base, const char *path, int flags, int *found) {
    struct vfs *vfs = vfs_of(base);
    const file_operations *files = files_of(vfs);
    file_description about;
    *found = 0;
    if (flags != SQLITE_ACCESS_EXISTS) { /* asked of folders for temporary files, of which there are none */
        return SQLITE_OK;
    }
    if (files->describe(path, &about)) {
        return errno == ENOENT || errno == ENOTDIR ? SQLITE_OK : failed(vfs, errno, SQLITE_IOERR_ACCESS);
    }
    *found = !S_ISREG(about.mode) || about.size;
    return SQLITE_OK;
}

/* Replaces the path of a link that leads to nothing yet by the one it leads to. False, with errno: it cannot be followed. */
static bool follow_links(const struct vfs *vfs, char path[PATH_MAX]) {
    char link[PATH_MAX];
    for (int hops = 0;; hops++) {
        const ssize_t length = files_of(vfs)->read_link(path, link, sizeof link);
        if (length < 0) {
            return errno == EINVAL || errno == ENOENT;
        }
        const char *slash = strrchr(path, '/');
        const size_t folder = slash && link[0] != '/' ? (size_t)(slash - path) + 1 : 0;
        if (hops == LINKS || folder + (size_t)length >= PATH_MAX) {
            errno = hops == LINKS ? ELOOP : ENAMETOOLONG;
            return false;
        }
        memcpy(path + folder, link, (size_t)length);
        path[folder + (size_t)length] = '\0';
    }
}

/* The path of a file that is not there yet: its folder must be. */
static int complete_new_path(struct vfs *vfs, const char *name, size_t capacity, char *full) {
    char path[PATH_MAX];
    if (strlen(name) >= sizeof path) {
        return failed(vfs, ENAMETOOLONG, SQLITE_CANTOPEN);
    }
    strcpy(path, name);
    if (!follow_links(vfs, path)) {
        return failed(vfs, errno, SQLITE_CANTOPEN);
    }
    char *slash = strrchr(path, '/');
    const char *last = slash ? slash + 1 : path;
    const char *folder = !slash ? "." : slash == path ? "/" : path;
    if (slash) {
        *slash = '\0';
    }
    if (files_of(vfs)->resolve(folder[0] ? folder : "/", full, capacity)) {
        return failed(vfs, errno, SQLITE_CANTOPEN);
    }
    const size_t length = strlen(full), between = length && full[length - 1] == '/' ? 0 : 1;
    if (length + between + strlen(last) >= capacity) {
        return failed(vfs, ENAMETOOLONG, SQLITE_CANTOPEN);
    }
    strcpy(full + length, between ? "/" : "");
    strcpy(full + length + between, last);
    return SQLITE_OK;
}

/* Without links: a journal is beside the file itself, whatever it was opened as, and in the same place for all programs. */
static int complete_path(sqlite3_vfs *base, const char *name, int capacity, char *full) {
    struct vfs *vfs = vfs_of(base);
    if (!files_of(vfs)->resolve(name, full, (size_t)capacity)) {
        return SQLITE_OK;
    }
    return errno == ENOENT ? complete_new_path(vfs, name, (size_t)capacity, full) : failed(vfs, errno, SQLITE_CANTOPEN);
}

/* ---- The rest ---- */

static void *refuse_extension(sqlite3_vfs *base, const char *path) {
    (void)base;
    (void)path;
    return NULL;
}

static void explain_refusal(sqlite3_vfs *base, int capacity, char *text) {
    (void)base;
    snprintf(text, (size_t)capacity, "extensions are not loaded here");
}

static int random_bytes(sqlite3_vfs *base, int count, char *bytes) {
    struct vfs *vfs = vfs_of(base);
    int filled = 0;
    memset(bytes, 0, (size_t)count);
    while (filled < count) {
        const ssize_t got = files_of(vfs)->random(bytes + filled, (size_t)(count - filled), 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            vfs->code = errno;
            break;
        }
        filled += (int)got;
    }
    return filled;
}

static int sleep_for(sqlite3_vfs *base, int microseconds) {
    struct timespec left = {microseconds / 1000000, (long)(microseconds % 1000000) * 1000};
    (void)base;
    while (nanosleep(&left, &left) && errno == EINTR) {
    }
    return microseconds;
}

/* In milliseconds since noon in Greenwich on the 24th of November 4714 BC. */
static int current_time(sqlite3_vfs *base, sqlite3_int64 *now) {
    static const sqlite3_int64 epoch = INT64_C(24405875) * 8640000;
    struct timespec time;
    (void)base;
    clock_gettime(CLOCK_REALTIME, &time);
    *now = epoch + (sqlite3_int64)time.tv_sec * 1000 + time.tv_nsec / 1000000;
    return SQLITE_OK;
}

static int current_day(sqlite3_vfs *base, double *days) {
    sqlite3_int64 now;
    current_time(base, &now);
    *days = (double)now / 86400000.0;
    return SQLITE_OK;
}

static int last_error(sqlite3_vfs *base, int capacity, char *text) {
    (void)capacity;
    (void)text;
    return vfs_of(base)->code;
}

l3a_status vfs_open(l3a_context *context, struct vfs **vfs) {
    l3a_status status = L3A_OK;
    struct vfs *made = NULL;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    snprintf(made->name, sizeof made->name, "l3a-%p", (void *)made);
    made->base = (sqlite3_vfs){.iVersion = 2,
                               .szOsFile = sizeof(struct open_file),
                               .mxPathname = PATH_MAX - 1,
                               .zName = made->name,
                               .xOpen = open_file,
                               .xDelete = delete_path,
                               .xAccess = access_path,
                               .xFullPathname = complete_path,
                               .xDlOpen = refuse_extension,
                               .xDlError = explain_refusal,
                               .xRandomness = random_bytes,
                               .xSleep = sleep_for,
                               .xCurrentTime = current_day,
                               .xGetLastError = last_error,
                               .xCurrentTimeInt64 = current_time};
    const int result = sqlite3_vfs_register(&made->base, 0);
    FAIL_IF(result == SQLITE_NOMEM, context, L3A_ERROR_MEMORY, NULL, "SQLite: out of memory");
    FAIL_IF(result != SQLITE_OK, context, L3A_ERROR_STATE, "look at what this program does with SQLite",
            "SQLite cannot be used: %s", sqlite3_errstr(result));
    *vfs = made;
    made = NULL;
done:
    release(context, made);
    return status;
}

const char *vfs_name(const struct vfs *vfs) {
    return vfs->name;
}

int vfs_code(const struct vfs *vfs) {
    return vfs->code;
}

void vfs_close(struct vfs *vfs) {
    if (vfs) {
        sqlite3_vfs_unregister(&vfs->base);
        release(vfs->context, vfs);
    }
}
