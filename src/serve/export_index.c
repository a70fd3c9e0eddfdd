/* The tags of all pictures of the index: a few at a time, into a file that has no name any more when it is sent, so that a library
 * of a million pictures needs no memory. */
#include "serve/export.h"
#include "serve/finder.h"
#include "serve/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AT_ONCE = 256, PIECE = 1 << 20 };

struct exporting {
    struct request *request;
    struct worker *worker;
    struct librarian *librarian;
    export_row *row;
    l3a_found *found;
    struct text text;
    int file;
};

static bool write_out(struct exporting *exporting) {
    struct text *text = &exporting->text;
    bool good = !text->failed;
    for (size_t at = 0; good && at < text->length;) {
        const ssize_t written = write(exporting->file, text->bytes + at, text->length - at);
        good = written > 0;
        at += good ? (size_t)written : 0;
    }
    text->length = 0;
    return good;
}

static l3a_status find_all(struct exporting *exporting) {
    const l3a_find_options options = {.size = sizeof options, .where = "is:done", .sort = "name"};
    struct handle *finder = &exporting->librarian->finder;
    l3a_status status;
    pthread_mutex_lock(&finder->lock);
    if (handle_open(exporting->librarian, finder, &status)) {
        status = l3a_library_find(finder->library, &options, &exporting->found);
    }
    if (status != L3A_OK) {
        refuse_search(exporting->request, finder->context, status);
        handle_check(exporting->librarian, finder, status);
    }
    pthread_mutex_unlock(&finder->lock);
    return status;
}

struct rows {
    struct exporting *exporting;
    const struct leaf *leaves[AT_ONCE];
};

static int write_row(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    const struct rows *rows = user;
    struct picture picture = {.request = rows->exporting->request, .path = rows->leaves[index]->path};
    (void)status;
    rows->exporting->row(&picture, tags, &rows->exporting->text);
    return 0;
}

static bool write_sheet(struct exporting *exporting, struct sheet *sheet) {
    struct rows rows = {.exporting = exporting};
    const l3a_reader *reader = exporting->worker->reader;
    size_t good = 0;
    for (size_t i = 0; i < sheet->count; i++) {
        const struct leaf *leaf = &sheet->leaves[i];
        if (leaf->path && leaf->features) {
            memmove(sheet->features + good * sheet->width, leaf->features, sheet->width * sizeof *sheet->features);
            rows.leaves[good++] = leaf;
        }
    }
    const l3a_status status = good ? l3a_reader_score(exporting->worker->reader, sheet->features, good, write_row, &rows) : L3A_OK;
    for (size_t i = 0; status == L3A_ERROR_STATE && i < good; i++) { /* the model has learned no class yet */
        write_row(i, L3A_OK, NULL, &rows);
    }
    if (status != L3A_OK && status != L3A_ERROR_STATE) {
        refuse(exporting->request, status_of(status), l3a_reader_error_hint(reader), "%s", l3a_reader_error_text(reader));
        return false;
    }
    return true;
}

/* Writes the pictures from this one on. */
static bool write_some(struct exporting *exporting, size_t first) {
    struct handle *finder = &exporting->librarian->finder;
    struct sheet sheet = {0};
    l3a_status status;
    pthread_mutex_lock(&finder->lock);
    bool good = handle_open(exporting->librarian, finder, &status) &&
                sheet_fill(exporting->librarian, finder, exporting->found, first, AT_ONCE, true, &sheet);
    pthread_mutex_unlock(&finder->lock);
    if (!good || peer_has_left(exporting->request)) {
        refuse(exporting->request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment",
               good ? "nobody waits for this any more" : "not enough memory");
        good = false;
    }
    good = good && write_sheet(exporting, &sheet);
    sheet_free(&sheet);
    if (good && exporting->text.length >= PIECE && !write_out(exporting)) {
        refuse(exporting->request, MHD_HTTP_INSUFFICIENT_STORAGE, "make room on the disk of the index",
               "the list cannot be written: %s", strerror(errno));
        good = false;
    }
    return good;
}

static int open_file(const struct librarian *librarian) {
    struct text path = {0};
    text_print(&path, "%s.export-XXXXXX", librarian->path);
    const int file = path.failed ? -1 : mkostemp(path.bytes, O_CLOEXEC);
    if (file >= 0) {
        unlink(path.bytes);
    }
    text_free(&path);
    return file;
}

bool export_index(struct request *request, struct worker *worker, export_row *row, const char *before, const char *after) {
    struct exporting exporting = {request, worker, request->server->librarian, row, NULL, {0}, -1};
    if (find_all(&exporting) != L3A_OK) {
        return false;
    }
    exporting.file = open_file(exporting.librarian);
    text_print(&exporting.text, "%s", before);
    bool good = exporting.file >= 0;
    if (!good) {
        refuse(request, MHD_HTTP_INSUFFICIENT_STORAGE, "let the server write to the folder of the index",
               "the list cannot be written: %s", strerror(errno));
    }
    for (size_t first = 0; good && first < l3a_found_count(exporting.found); first += AT_ONCE) {
        good = write_some(&exporting, first);
    }
    text_print(&exporting.text, "%s", after);
    if (good && !write_out(&exporting)) {
        refuse(request, MHD_HTTP_INSUFFICIENT_STORAGE, "make room on the disk of the index", "the list cannot be written: %s",
               strerror(errno));
        good = false;
    }
    if (good) {
        request->answer.file = exporting.file;
    } else if (exporting.file >= 0) {
        close(exporting.file);
    }
    pthread_mutex_lock(&exporting.librarian->finder.lock);
    l3a_found_free(exporting.found);
    pthread_mutex_unlock(&exporting.librarian->finder.lock);
    text_free(&exporting.text);
    return good;
}
