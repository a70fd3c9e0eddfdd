#include "serve/model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char model_type[] = "application/octet-stream";

/* ---- Uploads ---- */

void upload_begin(struct request *request) {
    const size_t size = strlen(request->server->model_path) + sizeof ".upload-XXXXXX";
    request->upload_path = malloc(size);
    if (request->upload_path) {
        snprintf(request->upload_path, size, "%s.upload-XXXXXX", request->server->model_path);
        request->upload = mkostemp(request->upload_path, O_CLOEXEC);
    }
    if (request->upload < 0) {
        refuse(request, MHD_HTTP_INSUFFICIENT_STORAGE, "make room, and let the server write to the folder of the model",
               "the model cannot be stored: %s", strerror(errno));
    }
}

void upload_take(struct request *request, const char *bytes, size_t count) {
    for (size_t done = 0; done < count;) {
        const ssize_t written = write(request->upload, bytes + done, count - done);
        if (written <= 0) {
            refuse(request, MHD_HTTP_INSUFFICIENT_STORAGE, "make room on the disk of the model", "the model cannot be stored: %s",
                   strerror(errno));
            return;
        }
        done += (size_t)written;
    }
    request->upload_bytes += count;
}

void upload_discard(struct request *request) {
    if (request->upload >= 0) {
        close(request->upload);
        unlink(request->upload_path);
        request->upload = -1;
    }
    free(request->upload_path);
    request->upload_path = NULL;
}

/* ---- Downloads ---- */

static void send_model(struct request *request) {
    request->file = open(request->server->model_path, O_RDONLY | O_CLOEXEC);
    if (request->file < 0) {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "look at the server's log", "the model cannot be read: %s", strerror(errno));
        return;
    }
    request->type = model_type;
    request->download = request->server->model_name;
    request->status = MHD_HTTP_OK;
}

/* Saved first, so that the download has every lesson. */
void model_download(struct request *request) {
    struct server *server = request->server;
    if (server->teacher.unsaved && l3a_tagger_save(server->tagger) == L3A_OK) {
        server->teacher.unsaved = false;
        atomic_fetch_add(&server->metrics.saves, 1);
    }
    send_model(request);
}
