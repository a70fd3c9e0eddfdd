/* Single pictures of the index, for requests: by id, by path, or by content. Their features come from the index, so that no file is
 * read and no network runs. A file that has changed since is read instead. */
#include "serve/librarian.h"

#include "serve/library.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A picture whose bytes the server has not seen has no hash of them, but the checksum that histories know it by. Its key is that,
 * after so many zeros. */
enum { ZEROS = 16 };

void shelf_key(uint64_t checksum, char key[KEY_TEXT]) {
    snprintf(key, KEY_TEXT, "%0*d%016llx", ZEROS, 0, (unsigned long long)checksum);
}

/* ---- Features ---- */

static l3a_status take(struct librarian *librarian, uint64_t id, float *features, l3a_library_picture *about) {
    l3a_library *library = librarian->shelf.library;
    const l3a_status status = l3a_library_picture_at(library, id, about);
    return status == L3A_OK && about->state == L3A_PICTURE_DONE && about->checksum ? l3a_library_features(library, id, features)
           : status == L3A_OK                                                      ? L3A_ERROR_STATE
                                                                                   : status;
}

/* Whether a file is as the index knows it. One that was changed within a moment of being looked at is not certain to be. */
static bool is_unchanged(const struct server *server, const char *path, const l3a_library_picture *about) {
    struct stat now;
    const char *problem;
    const int file = library_open(server, path, false, &problem);
    const bool same = file >= 0 && fstat(file, &now) == 0 && (uint64_t)now.st_size == about->bytes && about->modified &&
                      (int64_t)now.st_mtim.tv_sec * 1000000000 + now.st_mtim.tv_nsec == about->modified;
    if (file >= 0) {
        close(file);
    }
    return same;
}

static void fail(struct picture *picture, unsigned problem, const char *error, const char *hint) {
    picture->problem = problem;
    picture->error = copy_string(error);
    picture->hint = copy_string(hint);
}

static void keep(struct picture *picture, float *features, const l3a_library_picture *about) {
    picture->features = features;
    picture->checksum = about->checksum;
    picture->id = about->id;
    shelf_key(about->checksum, picture->key);
    atomic_fetch_add(&picture->request->server->metrics.index_features, 1);
}

/* A picture that was not looked at yet is read from its file, as one that is named by its path. */
static void fill_by_id(struct librarian *librarian, struct picture *picture, float *features, bool *used) {
    l3a_library_picture about = {.size = sizeof about};
    const l3a_status status = take(librarian, picture->id, features, &about);
    const char *relative = status == L3A_OK || status == L3A_ERROR_STATE ? librarian_relative(librarian, about.path) : NULL;
    if (!relative || !library_reaches(librarian, relative)) {
        const bool gone = status == L3A_OK || status == L3A_ERROR_STATE || status == L3A_ERROR_NOT_FOUND;
        fail(picture, gone ? MHD_HTTP_NOT_FOUND : MHD_HTTP_SERVICE_UNAVAILABLE,
             gone ? "the library has no such picture any more" : l3a_error_text(librarian->shelf.context), "search again");
        return;
    }
    picture->place = copy_string(relative);
    picture->path = picture->place;
    if (!json_value_text(json_value_get(picture->told, "name"), NULL)) {
        free(picture->name);
        picture->name = copy_string(relative);
    }
    if (!picture->path) {
        fail(picture, MHD_HTTP_SERVICE_UNAVAILABLE, "not enough memory", "try again in a moment");
    } else if (status == L3A_OK) {
        keep(picture, features, &about);
        *used = true;
    }
}

static void fill_by_path(struct librarian *librarian, struct picture *picture, float *features, bool *used) {
    l3a_library_picture about = {.size = sizeof about};
    struct text path = {0};
    uint64_t id = 0;
    text_print(&path, "%s%s%s", librarian->folder, librarian->folder[1] ? "/" : "", picture->path);
    if (!path.failed && l3a_library_picture_find(librarian->shelf.library, path.bytes, &id) == L3A_OK &&
        take(librarian, id, features, &about) == L3A_OK && is_unchanged(librarian->server, picture->path, &about)) {
        keep(picture, features, &about);
        *used = true;
    }
    text_free(&path);
}

void shelf_fill(struct request *request) {
    struct server *server = request->server;
    struct librarian *librarian = server->librarian;
    l3a_status status;
    float *features = NULL;
    if (!librarian) {
        return;
    }
    pthread_mutex_lock(&librarian->shelf.lock);
    const bool open = handle_open(librarian, &librarian->shelf, &status);
    for (size_t i = 0; i < request->pictures.count; i++) {
        struct picture *picture = &request->pictures.items[i];
        bool used = false;
        features = features ? features : malloc(server->pipeline.width * sizeof *features);
        if (picture->features || picture->problem || !(picture->id || picture->path)) {
            continue;
        }
        if (picture->id && (!open || !features)) {
            fail(picture, MHD_HTTP_SERVICE_UNAVAILABLE, open ? "not enough memory" : l3a_error_text(librarian->shelf.context),
                 "try again in a moment");
        } else if (picture->id) {
            fill_by_id(librarian, picture, features, &used);
        } else if (open && features) {
            fill_by_path(librarian, picture, features, &used);
        }
        features = used ? NULL : features;
    }
    pthread_mutex_unlock(&librarian->shelf.lock);
    free(features);
}

bool shelf_find_key(struct server *server, const char *key, float *features, uint64_t *checksum) {
    struct librarian *librarian = server->librarian;
    l3a_library_picture about = {.size = sizeof about};
    l3a_status status;
    uint64_t id;
    char own[KEY_TEXT];
    if (!librarian || strlen(key) != KEY_TEXT - 1 || strspn(key, "0") < ZEROS) {
        return false;
    }
    const uint64_t wanted = strtoull(key + ZEROS, NULL, 16);
    shelf_key(wanted, own);
    pthread_mutex_lock(&librarian->shelf.lock);
    const bool found = strcmp(own, key) == 0 && handle_open(librarian, &librarian->shelf, &status) &&
                       l3a_library_picture_known(librarian->shelf.library, wanted, &id) == L3A_OK &&
                       take(librarian, id, features, &about) == L3A_OK && about.checksum == wanted;
    pthread_mutex_unlock(&librarian->shelf.lock);
    *checksum = wanted;
    return found;
}

/* ---- Ids and paths ---- */

uint64_t shelf_known(struct server *server, uint64_t checksum) {
    struct librarian *librarian = server->librarian;
    l3a_status status;
    uint64_t id = 0;
    if (librarian) {
        pthread_mutex_lock(&librarian->shelf.lock);
        if (!handle_open(librarian, &librarian->shelf, &status) ||
            l3a_library_picture_known(librarian->shelf.library, checksum, &id) != L3A_OK) {
            id = 0;
        }
        pthread_mutex_unlock(&librarian->shelf.lock);
    }
    return id;
}

char *shelf_path(struct server *server, uint64_t id) {
    struct librarian *librarian = server->librarian;
    l3a_library_picture about = {.size = sizeof about};
    l3a_status status;
    char *path = NULL;
    if (librarian) {
        pthread_mutex_lock(&librarian->shelf.lock);
        if (handle_open(librarian, &librarian->shelf, &status) &&
            l3a_library_picture_at(librarian->shelf.library, id, &about) == L3A_OK) {
            path = copy_string(librarian_relative(librarian, about.path));
        }
        pthread_mutex_unlock(&librarian->shelf.lock);
    }
    return path;
}

/* A text that is a number, as ids are; false: it is none. */
bool read_number(const char *text, uint64_t most, uint64_t *number) {
    uint64_t value = 0;
    for (const char *at = text; *at; at++) {
        if (*at < '0' || *at > '9' || value > (most - (uint64_t)(*at - '0')) / 10) {
            return false;
        }
        value = 10 * value + (uint64_t)(*at - '0');
    }
    *number = value;
    return text[0] != '\0';
}
