#include "serve/library.h"

#include "serve/librarian.h"

#include "serve/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LARGEST_PICTURE = 256 << 20, FIRST_BYTES = 64, LISTED = 1000 };

/* ---- Opening ---- */

static const char *open_problem(void) {
    switch (errno) {
    case EXDEV:
    case ELOOP: return "this leads out of the library";
    case EACCES: return "the server may not read this";
    case ENOENT:
    case ENOTDIR: return "there is no such file in the library";
    default: return "this cannot be opened";
    }
}

/* Opens a path that the kernel keeps below the folder. */
static int open_below(const struct server *server, const char *path, int flags) {
    const struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, server->library, path, &how, sizeof how);
}

int library_open(const struct server *server, const char *path, bool folder, const char **problem) {
    struct stat about;
    *problem = NULL;
    if (server->library < 0) {
        *problem = "this server has no library";
        return -1;
    }
    if (!library_path_allowed(path)) {
        *problem = "this is not a path in the library";
        return -1;
    }
    const int file = open_below(server, path[0] ? path : ".", O_RDONLY | O_NONBLOCK | O_NOCTTY | (folder ? O_DIRECTORY : 0));
    if (file < 0) {
        *problem = open_problem();
        return -1;
    }
    if (fstat(file, &about) || (folder ? !S_ISDIR(about.st_mode) : !S_ISREG(about.st_mode))) {
        *problem = folder ? "this is not a folder" : "this is not a file";
        close(file);
        return -1;
    }
    return file;
}

bool library_reaches(const struct librarian *librarian, const char *relative) {
    if (!librarian->nested) {
        return true;
    }
    const int file = open_below(librarian->server, relative, O_PATH);
    const bool leads_out = file < 0 && (errno == EXDEV || errno == ELOOP);
    if (file >= 0) {
        close(file);
    }
    return !leads_out;
}

uint8_t *library_read(const struct server *server, const char *path, size_t *count, const char **problem) {
    struct stat about;
    const int file = library_open(server, path, false, problem);
    if (file < 0) {
        return NULL;
    }
    uint8_t *bytes = NULL;
    *count = 0;
    if (fstat(file, &about) == 0 && about.st_size <= LARGEST_PICTURE) {
        const size_t size = (size_t)about.st_size;
        bytes = malloc(size + 1);
        ssize_t got = 1;
        while (bytes && *count < size && (got = read(file, bytes + *count, size - *count)) > 0) {
            *count += (size_t)got;
        }
        if (got < 0) {
            free(bytes);
            bytes = NULL;
        }
    }
    *problem = bytes ? NULL : "this file cannot be read, or is too large";
    close(file);
    return bytes;
}

/* ---- Listing ---- */

struct item {
    char *name;
    bool folder;
};

struct listing {
    const struct server *server;
    const char *path; /* of the folder */
    DIR *directory;
    struct item *items;
    size_t count, capacity;
};

static void listing_free(struct listing *listing) {
    for (size_t i = 0; i < listing->count; i++) {
        free(listing->items[i].name);
    }
    free(listing->items);
    if (listing->directory) {
        closedir(listing->directory);
    }
}

static bool listing_add(struct listing *listing, const char *name, bool folder) {
    if (listing->count == listing->capacity) {
        const size_t capacity = listing->capacity ? 2 * listing->capacity : 64;
        struct item *items = realloc(listing->items, capacity * sizeof *items);
        if (!items) {
            return false;
        }
        listing->items = items;
        listing->capacity = capacity;
    }
    char *copy = copy_string(name);
    if (copy) {
        listing->items[listing->count++] = (struct item){copy, folder};
    }
    return copy != NULL;
}

/* By its name: opening every file of a large folder would take too long. */
static bool looks_like_picture(const char *name) {
    static const char *const endings[] = {".jpg", ".jpeg", ".png", ".webp", ".heic", ".heif", ".avif"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof endings[0]; i++) {
        if (strcasecmp(dot, endings[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int compare_items(const void *left, const void *right) {
    return strcmp(((const struct item *)left)->name, ((const struct item *)right)->name);
}

static void join(struct text *path, const char *folder, const char *name) {
    text_print(path, "%s%s%s", folder, folder[0] ? "/" : "", name);
}

/* What a name in the folder stands for. A symbolic link stands for nothing if it leads out of the library: not even the size of
 * what is there should be seen. */
static bool look_at(const struct listing *listing, const char *name, struct stat *about) {
    if (fstatat(dirfd(listing->directory), name, about, AT_SYMLINK_NOFOLLOW)) {
        return false;
    }
    if (!S_ISLNK(about->st_mode)) {
        return true;
    }
    struct text whole = {0};
    join(&whole, listing->path, name);
    const int file = whole.failed ? -1 : open_below(listing->server, whole.bytes, O_PATH);
    const bool good = file >= 0 && fstat(file, about) == 0;
    if (file >= 0) {
        close(file);
    }
    text_free(&whole);
    return good;
}

/* Most file systems say what a name stands for. */
static bool is_kind(const struct listing *listing, const struct dirent *entry, bool folder) {
    struct stat about;
    if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) {
        return look_at(listing, entry->d_name, &about) && (folder ? S_ISDIR(about.st_mode) : S_ISREG(about.st_mode));
    }
    return entry->d_type == (folder ? DT_DIR : DT_REG);
}

/* Lists a folder that is open; it is closed with the listing. */
static bool list_folder(int folder, struct listing *listing) {
    struct dirent *entry;
    bool good = (listing->directory = fdopendir(folder)) != NULL;
    if (!good) {
        close(folder);
    }
    while (good && (entry = readdir(listing->directory))) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "@eaDir") == 0) {
            continue;
        }
        if (looks_like_picture(entry->d_name) && is_kind(listing, entry, false)) {
            good = listing_add(listing, entry->d_name, false);
        } else if (is_kind(listing, entry, true)) {
            good = listing_add(listing, entry->d_name, true);
        }
    }
    if (listing->count) {
        qsort(listing->items, listing->count, sizeof *listing->items, compare_items);
    }
    return good;
}

static void write_path(struct text *text, const char *folder, const char *name) {
    struct text path = {0};
    join(&path, folder, name);
    text_json(text, path.bytes ? path.bytes : "");
    text_free(&path);
}

/* Only the sizes of those that are shown are looked up: that takes longer than the rest. */
static void write_listing(struct text *answer, const struct listing *listing, size_t from, size_t count) {
    const char *folder = listing->path;
    size_t total = 0, written = 0;
    struct stat about;
    text_print(answer, "{\"folder\": ");
    text_json(answer, folder);
    text_print(answer, ", \"folders\": [");
    for (size_t i = 0; i < listing->count; i++) {
        if (listing->items[i].folder) {
            text_print(answer, written++ ? ", " : "");
            write_path(answer, folder, listing->items[i].name);
        }
    }
    text_print(answer, "], \"pictures\": [");
    written = 0;
    for (size_t i = 0; i < listing->count; i++) {
        const struct item *item = &listing->items[i];
        if (!item->folder && total++ >= from && written < count) {
            text_print(answer, written++ ? ",\n  {\"path\": " : "\n  {\"path\": ");
            write_path(answer, folder, item->name);
            text_print(answer, ", \"bytes\": %llu}", look_at(listing, item->name, &about) ? (unsigned long long)about.st_size : 0);
        }
    }
    text_print(answer, "], \"total\": %zu}\n", total);
}

void library_start(struct request *request, struct worker *worker) {
    bool bad = false;
    const char *folder = query(request, "folder", &bad), *from = query(request, "from", &bad),
               *count = query(request, "count", &bad);
    const char *problem = "the path has a zero byte";
    (void)worker;
    folder = folder ? folder : "";
    struct listing listing = {.server = request->server, .path = folder};
    const int file = bad ? -1 : library_open(request->server, folder, true, &problem);
    if (file < 0) {
        refuse(request, MHD_HTTP_NOT_FOUND, "start the server with --library DIR, and give a folder in it", "%s: %s", folder,
               problem);
        return;
    }
    size_t wanted = count ? strtoul(count, NULL, 10) : 200;
    wanted = wanted > LISTED ? LISTED : wanted;
    if (list_folder(file, &listing)) {
        write_listing(&request->answer.text, &listing, from ? strtoul(from, NULL, 10) : 0, wanted);
        request->answer.status = MHD_HTTP_OK;
    } else {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment", "%s: this folder cannot be listed", folder);
    }
    listing_free(&listing);
}

/* ---- Pictures ---- */

char *library_named(struct request *request) {
    bool bad = false;
    const char *path = query(request, "path", &bad), *number = query(request, "id", &bad);
    uint64_t id = 0;
    char *named = bad ? NULL : copy_string(path);
    if (!bad && !path && number && read_number(number, INT64_MAX, &id)) {
        named = shelf_path(request->server, id);
    }
    if (!named) {
        refuse(request, MHD_HTTP_NOT_FOUND, "GET /v1/library lists the pictures", "%s: %s",
               path     ? path
               : number ? number
                        : "?path=",
               bad                ? "there is a zero byte"
               : !path && !number ? "is missing"
                                  : "the library has no such picture");
    }
    return named;
}

void library_picture_start(struct request *request, struct worker *worker) {
    const char *problem;
    char first[FIRST_BYTES], *path = library_named(request);
    (void)worker;
    const int file = path ? library_open(request->server, path, false, &problem) : -1;
    if (file < 0) {
        if (path) {
            refuse(request, MHD_HTTP_NOT_FOUND, "GET /v1/library lists the pictures", "%s: %s", path, problem);
        }
        free(path);
        return;
    }
    const ssize_t count = read(file, first, sizeof first);
    const char *format = count > 0 ? l3a_picture_format(first, (size_t)count) : NULL;
    if (!format) {
        close(file);
        refuse(request, MHD_HTTP_NOT_FOUND, "GET /v1/library lists the pictures", "%s: this is not a picture", path);
        free(path);
        return;
    }
    free(path);
    request->answer.type = strcmp(format, "jpeg") == 0   ? "image/jpeg"
                           : strcmp(format, "png") == 0  ? "image/png"
                           : strcmp(format, "webp") == 0 ? "image/webp"
                           : strcmp(format, "heic") == 0 ? "image/heic"
                                                         : "image/avif";
    request->answer.file = file;
    request->answer.status = MHD_HTTP_OK;
}
