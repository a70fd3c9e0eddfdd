#include "serve/export.h"

#include "common/jpeg_write.h"
#include "serve/library.h"
#include "serve/tagging.h"

#include <stdlib.h>
#include <string.h>

enum { SMALLEST = 16, LARGEST = 1024, QUALITY = 80 };

/* ---- Tags of the library's pictures ---- */

void export_start(struct request *request, struct worker *worker) {
    bool bad = false;
    const char *format = query(request, "format", &bad);
    struct cached *found = NULL;
    (void)worker;
    if (format && strcmp(format, "csv") != 0 && strcmp(format, "json") != 0) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "use csv or json", "the format '%s' is not known", format);
        return;
    }
    if (request->server->librarian) {
        return; /* the index has them */
    }
    const size_t count = cache_library(request->server->cache, &found);
    request->pictures.items = calloc(count + 1, sizeof *request->pictures.items);
    for (size_t i = 0; request->pictures.items && i < count; i++) {
        request->pictures.items[i] = (struct picture){.request = request,
                                                      .name = found[i].path,
                                                      .path = found[i].path,
                                                      .checksum = found[i].checksum,
                                                      .features = found[i].features};
        memcpy(request->pictures.items[i].key, found[i].key, KEY_TEXT);
        found[i].path = NULL;
        found[i].features = NULL;
        request->pictures.count++;
    }
    cached_free(found, count);
}

/* What is written before a text that a spreadsheet would take for a formula; a reader of lists drops it again. */
static const char *guard(const char *text, const char *before) {
    const char first = text[strspn(text, " ")];
    return first && strchr("=+-@\t\r\n", first) ? before : "";
}

static void write_csv_text(struct text *text, const char *before, const char *string) {
    text_print(text, "\"%s", before);
    for (; *string; string++) {
        text_add(text, *string == '"' ? "\"\"" : string, *string == '"' ? 2 : 1);
    }
    text_add(text, "\"", 1);
}

static void write_csv(struct picture *picture, const l3a_tags *tags, void *user) {
    struct text *answer = user, names = {0}, scores = {0};
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        if (l3a_tags_predicted(tags, i)) {
            const char *name = l3a_tags_name(tags, i);
            text_print(&names, "%s%s%s", names.length ? ";" : "", guard(name, " "), name);
            text_print(&scores, "%s%.4f", scores.length ? ";" : "", (double)l3a_tags_score(tags, i));
        }
    }
    write_csv_text(answer, picture->path[0] == ' ' ? "./" : guard(picture->path, "./"), picture->path);
    text_print(answer, ",");
    write_csv_text(answer, "", names.bytes ? names.bytes : "");
    text_print(answer, ",%s\n", scores.bytes ? scores.bytes : "");
    text_free(&names);
    text_free(&scores);
}

static void write_json(struct picture *picture, const l3a_tags *tags, void *user) {
    struct text *answer = user;
    size_t written = 0;
    text_print(answer, answer->length == 1 ? "\n  {\"path\": " : ",\n  {\"path\": "); /* 1: after the bracket */
    text_json(answer, picture->path);
    text_print(answer, ", \"tags\": [");
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        if (l3a_tags_predicted(tags, i)) {
            text_print(answer, written++ ? ", {\"tag\": " : "{\"tag\": ");
            text_json(answer, l3a_tags_name(tags, i));
            text_print(answer, ", \"score\": %.4f}", (double)l3a_tags_score(tags, i));
        }
    }
    text_print(answer, "]}");
}

void export_finish(struct request *request, struct worker *worker) {
    bool bad = false;
    const char *format = query(request, "format", &bad);
    const bool json = format && strcmp(format, "json") == 0;
    each_tagged *const row = json ? write_json : write_csv;
    const char *before = json ? "[" : "path,labels,scores\n", *after = json ? "\n]\n" : "";
    bool good;
    if (request->server->librarian) {
        good = export_index(request, worker, row, before, after);
    } else {
        text_print(&request->answer.text, "%s", before);
        good = pictures_score(request, worker, row, &request->answer.text);
    }
    if (good) {
        text_print(&request->answer.text, "%s", request->server->librarian ? "" : after);
        request->answer.type = json ? NULL : "text/csv; charset=utf-8";
        request->answer.download = json ? "tags.json" : "tags.csv";
        request->answer.status = MHD_HTTP_OK;
    }
}

/* ---- Sidecars ---- */

void xmp_start(struct request *request, struct worker *worker) {
    enum { CAPACITY = 1 << 20 };
    size_t count = 0, length = 0;
    if (!request_json(request)) {
        return;
    }
    const struct json_value *list = json_value_get(json_tree_root(request->body.json), "tags");
    const size_t most = json_count(list);
    const char **tags = most == SIZE_MAX ? NULL : calloc(most + 1, sizeof *tags);
    char *text = malloc(CAPACITY);
    for (const struct json_value *item = json_value_first(list); tags && item; item = json_value_next(item)) {
        tags[count] = json_value_text(item, NULL);
        count += tags[count] != NULL;
    }
    if (!tags || count != most || !text) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send {\"tags\": [\"cat\", …]}", "'tags' is not a list of names");
    } else {
        pthread_mutex_lock(&worker->lock);
        const l3a_status status = l3a_sidecar_text(worker->context, tags, count, text, CAPACITY, &length);
        if (status != L3A_OK || length >= CAPACITY) {
            refuse(request, MHD_HTTP_UNPROCESSABLE_CONTENT, l3a_error_hint(worker->context), "%s",
                   status == L3A_OK ? "there are too many tags" : l3a_error_text(worker->context));
        } else {
            text_add(&request->answer.text, text, length);
            request->answer.type = "application/rdf+xml; charset=utf-8";
            request->answer.status = MHD_HTTP_OK;
        }
        pthread_mutex_unlock(&worker->lock);
    }
    free(tags);
    free(text);
}

/* ---- Small pictures ---- */

/* Shrinks a picture so that its longer side has `size` pixels, and encodes it. Under the worker's lock. */
static l3a_status shrink(struct request *request, l3a_context *context, const l3a_picture *picture, size_t size) {
    l3a_picture small = {.size = sizeof small};
    const size_t longer = picture->width > picture->height ? picture->width : picture->height;
    const size_t side = longer < size ? longer : size;
    const size_t width = (picture->width * side + longer / 2) / longer, height = (picture->height * side + longer / 2) / longer;
    l3a_status status = l3a_picture_resize(context, picture, width ? width : 1, height ? height : 1, L3A_FILTER_BILINEAR, &small);
    const size_t capacity = 3 * small.width * small.height + 4096;
    uint8_t *bytes = status == L3A_OK ? malloc(capacity) : NULL;
    if (bytes) {
        text_add(&request->answer.text, bytes, jpeg_encode(small.pixels, small.width, small.height, QUALITY, bytes, capacity));
    }
    free(bytes);
    l3a_picture_free(context, &small);
    return status;
}

/* A picture of the library that the request names, decoded and made small. */
static void make_thumbnail(struct request *request, struct worker *worker, const char *path, size_t size) {
    const l3a_picture_options options = {.size = sizeof options, .orient = 1};
    l3a_picture picture = {.size = sizeof picture};
    const char *problem = NULL;
    size_t count = 0;
    uint8_t *bytes = library_read(request->server, path, &count, &problem);
    if (!bytes) {
        refuse(request, MHD_HTTP_NOT_FOUND, "GET /v1/library lists the pictures", "%s: %s", path, problem);
        return;
    }
    if (!format_allowed(request->server, bytes, count, &problem)) {
        refuse(request, MHD_HTTP_NOT_FOUND, "start the server with --heif", "%s: %s", path, problem);
        free(bytes);
        return;
    }
    pthread_mutex_lock(&worker->lock);
    l3a_status status = l3a_picture_decode(worker->context, path, bytes, count, &options, &picture);
    if (status == L3A_OK) {
        status = shrink(request, worker->context, &picture, size);
    }
    if (status == L3A_OK) {
        request->answer.type = "image/jpeg";
        request->answer.status = MHD_HTTP_OK;
    } else {
        refuse(request, MHD_HTTP_NOT_FOUND, l3a_error_hint(worker->context), "%s", l3a_error_text(worker->context));
    }
    l3a_picture_free(worker->context, &picture);
    pthread_mutex_unlock(&worker->lock);
    free(bytes);
}

void thumbnail_start(struct request *request, struct worker *worker) {
    bool bad = false;
    const char *wanted = query(request, "size", &bad);
    const unsigned long size = wanted ? strtoul(wanted, NULL, 10) : 256;
    char *path = library_named(request);
    if (path) {
        make_thumbnail(request, worker, path, size < SMALLEST ? SMALLEST : size > LARGEST ? LARGEST : size);
    }
    free(path);
}
