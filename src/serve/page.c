/* The files of the page. A browser asks again each time whether they have changed, and their ETag says so. A proxy that compresses
 * a file marks its ETag as weak (W/"…"), and a client may send several. */
#include "serve/page.h"
#include "serve/server.h"

#include <string.h>

/* The description of the interface says what its paths begin with, if they begin with something. */
static void write_description(struct request *request, const struct page_file *file) {
    const char *base = request->server->options->base_path;
    text_add(&request->answer.text, file->bytes, base[0] ? 1 : file->count); /* its brace */
    if (base[0]) {
        text_print(&request->answer.text, "\n  \"servers\": [{\"url\": \"%s\"}],", base);
        text_add(&request->answer.text, file->bytes + 1, file->count - 1);
    }
}

void page_now(struct request *request) {
    const char *known = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "If-None-Match");
    const struct page_file *file = page_files;
    while (file->path && strcmp(file->path, request->wanted.path) != 0) {
        file++;
    }
    if (!file->path) {
        refuse(request, MHD_HTTP_NOT_FOUND, "go to the page of this server", "%s: there is nothing here", request->wanted.url);
        return;
    }
    request->answer.page = true;
    request->answer.type = file->type;
    request->answer.etag = file->etag;
    request->answer.status = known && strstr(known, file->etag) ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK;
    if (request->answer.status == MHD_HTTP_OK && strcmp(file->path, "/openapi.json") == 0) {
        write_description(request, file);
    } else if (request->answer.status == MHD_HTTP_OK) {
        text_add(&request->answer.text, file->bytes, file->count);
    }
}
