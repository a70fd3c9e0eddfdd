#include "serve/model.h"

#include "serve/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char model_type[] = "application/octet-stream";

/* Another name for a file, for the caller to free. */
static char *path_with(const char *path, const char *ending) {
    const size_t size = strlen(path) + strlen(ending) + 1;
    char *made = malloc(size);
    if (made) {
        snprintf(made, size, "%s%s", path, ending);
    }
    return made;
}

/* ---- Uploads ---- */

uint64_t upload_limit(const struct server *server) {
    return 16 * server->options->body;
}

/* There is one at a time, so that its file can have a fixed name: what a server that was killed has left is replaced. */
void upload_begin(struct request *request) {
    struct server *server = request->server;
    if (server->options->readonly) {
        refuse(request, MHD_HTTP_FORBIDDEN, "start the server without --readonly", "the model of this server cannot be replaced");
        return;
    }
    if (atomic_exchange(&server->load.uploading, true)) {
        request->answer.retry = 2;
        refuse(request, MHD_HTTP_TOO_MANY_REQUESTS, "try again in a moment", "another model is being uploaded");
        return;
    }
    request->upload.chosen = true;
    request->upload.path = path_with(server->model.path, ".upload");
    if (request->upload.path) {
        unlink(request->upload.path);
        request->upload.file = open(request->upload.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    if (request->upload.file < 0) {
        refuse(request, MHD_HTTP_INSUFFICIENT_STORAGE, "make room, and let the server write to the folder of the model",
               "the model cannot be stored: %s", strerror(errno));
    }
}

void upload_take(struct request *request, const char *bytes, size_t count) {
    if (request->upload.bytes + count > upload_limit(request->server)) {
        refuse(request, MHD_HTTP_CONTENT_TOO_LARGE, "start the server with a larger --max-body",
               "the model has more than %llu bytes", (unsigned long long)upload_limit(request->server));
        return;
    }
    for (size_t done = 0; done < count;) {
        const ssize_t written = write(request->upload.file, bytes + done, count - done);
        if (written <= 0) {
            refuse(request, MHD_HTTP_INSUFFICIENT_STORAGE, "make room on the disk of the model", "the model cannot be stored: %s",
                   strerror(errno));
            return;
        }
        done += (size_t)written;
    }
    request->upload.bytes += count;
}

void upload_discard(struct request *request) {
    if (request->upload.file >= 0) {
        close(request->upload.file);
        unlink(request->upload.path);
        request->upload.file = -1;
    }
    free(request->upload.path);
    request->upload.path = NULL;
    if (request->upload.chosen) {
        request->upload.chosen = false;
        atomic_store(&request->server->load.uploading, false);
    }
}

/* ---- Downloads ---- */

static void send_model(struct request *request) {
    request->answer.file = open(request->server->model.path, O_RDONLY | O_CLOEXEC);
    if (request->answer.file < 0) {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "look at the server's log", "the model cannot be read: %s", strerror(errno));
        return;
    }
    request->answer.type = model_type;
    request->answer.download = request->server->model.name;
    request->answer.status = MHD_HTTP_OK;
}

/* Saved first, so that the download has every lesson. An older model is not sent in its place. */
void model_download(struct request *request) {
    struct server *server = request->server;
    const l3a_status status = teacher_save(server);
    if (status == L3A_OK) {
        send_model(request);
    } else {
        refuse(request, status == L3A_ERROR_FULL ? MHD_HTTP_INSUFFICIENT_STORAGE : MHD_HTTP_SERVICE_UNAVAILABLE,
               "make room, or let the server write to the folder of the model",
               "the model cannot be saved, and its file is older: %s", l3a_error_text(server->context));
    }
}

/* ---- Replacing ---- */

/* Gives a file a second name, in place of what had it. A missing file is no failure. */
static bool keep_as(const char *from, const char *to) {
    unlink(to);
    return link(from, to) == 0 || errno == ENOENT;
}

static bool sync_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : NULL;
    const int file = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    const bool good = file >= 0 && (fsync(file) == 0 || errno == EINVAL); /* not every file system can */
    const int problem = errno;
    if (file >= 0) {
        close(file);
    }
    free(folder);
    errno = problem;
    return good;
}

/* Keeps the old model and its history as MODEL.old and MODEL.old.history, and puts the new one in its place. At every moment there
 * is a complete model. The old history goes first: the old model without it only cannot undo, but the new one beside it, as a power
 * cut could leave them, would seem to lack its lessons. */
static bool exchange(struct request *request) {
    const char *path = request->server->model.path;
    char *old = path_with(path, ".old"), *history = path_with(path, ".history"), *old_history = path_with(path, ".old.history");
    struct stat about;
    const bool good = old && history && old_history && stat(path, &about) == 0 &&
                      fchmod(request->upload.file, about.st_mode & 0777) == 0 && fsync(request->upload.file) == 0 &&
                      keep_as(path, old) && keep_as(history, old_history) && (unlink(history) == 0 || errno == ENOENT);
    const bool replaced = good && sync_folder(path) && rename(request->upload.path, path) == 0;
    const int problem = errno;
    if (good && !replaced) {
        link(old_history, history);
    }
    if (replaced && !sync_folder(path)) {
        note(request->server, LOG_ERROR, "%s: the folder cannot be synced: %s", path, strerror(errno));
    }
    free(old);
    free(history);
    free(old_history);
    errno = problem;
    return replaced;
}

/* Whether the file is a model for the backbone that is loaded, and can be taught. */
static l3a_status try_model(struct server *server, const char *path) {
    const char *backbone = l3a_tagger_backbone(server->model.tagger);
    const l3a_tagger_options options = {.size = sizeof options, .backbone = backbone};
    l3a_tagger *tagger = NULL;
    const l3a_history *history;
    l3a_status status = l3a_tagger_open(server->context, path, &options, &tagger);
    if (status == L3A_OK) {
        status = l3a_tagger_history(tagger, &history);
    }
    l3a_tagger_free(tagger);
    return status;
}

static void replace(struct request *request) {
    struct server *server = request->server;
    if (server->model.readonly) {
        refuse(request, MHD_HTTP_FORBIDDEN, "start the server without --readonly", "the model of this server cannot be replaced");
        return;
    }
    l3a_status status = try_model(server, request->upload.path);
    if (status == L3A_OK) {
        status = teacher_save(server);
    }
    if (status != L3A_OK) {
        refuse(request, status_of(status), l3a_error_hint(server->context), "the model was not replaced: %s",
               l3a_error_text(server->context));
        return;
    }
    if (!exchange(request)) {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "let the server write to the folder of the model",
               "the model was not replaced: %s", strerror(errno));
        return;
    }
    server->teacher.declined = 0;
    ledger_outdate(&server->ledger);
    if (l3a_tagger_reload(server->model.tagger) != L3A_OK || !teacher_publish(server)) {
        refuse(request, MHD_HTTP_INTERNAL_SERVER_ERROR, l3a_error_hint(server->context), "%s", l3a_error_text(server->context));
        return;
    }
    if (!server->teacher.unreadable) {
        teacher_set_trouble(server, NULL, false);
    }
    teacher_set_unsavable(server, NULL);
    note(server, LOG_INFO, "the model was replaced; the one before it is %s.old", server->model.name);
    struct knowledge *knowledge = knowledge_keep(server);
    text_print(&request->answer.text, "{\"edition\": %llu, \"bytes\": %llu, \"classes\": ", (unsigned long long)knowledge->edition,
               (unsigned long long)request->upload.bytes);
    text_add(&request->answer.text, knowledge->class_list.bytes, knowledge->class_list.length);
    text_print(&request->answer.text, "}\n");
    knowledge_free(knowledge);
    request->answer.status = MHD_HTTP_OK;
}

/* When the answer comes, another model can be sent. */
void model_replace(struct request *request) {
    replace(request);
    upload_discard(request);
}

/* ---- Backups: a tar of the model and its history ---- */

static bool write_block(int to, const void *bytes, size_t count) {
    static const char zeros[TAR_BLOCK];
    const size_t padding = (TAR_BLOCK - count % TAR_BLOCK) % TAR_BLOCK;
    return write(to, bytes, count) == (ssize_t)count && write(to, zeros, padding) == (ssize_t)padding;
}

/* Adds a file; a missing one is left out. */
static bool tar_add(int to, const char *path, const char *name) {
    const int from = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    struct text head = {0};
    char piece[64 * TAR_BLOCK];
    if (from < 0) {
        return errno == ENOENT;
    }
    bool good = fstat(from, &about) == 0;
    if (good) {
        tar_head(&head, name, (uint64_t)about.st_size, about.st_mode, about.st_mtime);
    }
    good = good && !head.failed && write_block(to, head.bytes, head.length);
    text_free(&head);
    off_t left = good ? about.st_size : 0;
    while (good && left > 0) {
        const ssize_t got = read(from, piece, left < (off_t)sizeof piece ? (size_t)left : sizeof piece);
        good = got > 0 && (got == left || got == (ssize_t)sizeof piece) && write_block(to, piece, (size_t)got);
        left -= got > 0 ? got : 0;
    }
    close(from);
    return good;
}

void model_backup(struct request *request) {
    struct server *server = request->server;
    static const char zeros[2 * TAR_BLOCK];
    char *path = path_with(server->model.path, ".backup-XXXXXX"), *history = path_with(server->model.path, ".history");
    char *name = path_with(server->model.name, ".history");
    teacher_save(server); /* if it fails, the history has the rest */
    const int file = path && history && name ? mkostemp(path, O_CLOEXEC) : -1;
    if (file >= 0) {
        unlink(path);
    }
    if (file >= 0 && tar_add(file, server->model.path, server->model.name) && tar_add(file, history, name) &&
        write(file, zeros, sizeof zeros) == sizeof zeros) {
        request->answer.file = file;
        request->answer.type = "application/x-tar";
        request->answer.download = "l3a-backup.tar";
        request->answer.status = MHD_HTTP_OK;
    } else {
        refuse(request, MHD_HTTP_INSUFFICIENT_STORAGE, "make room on the disk of the model", "the backup cannot be made: %s",
               strerror(errno));
        if (file >= 0) {
            close(file);
        }
    }
    free(path);
    free(history);
    free(name);
}
