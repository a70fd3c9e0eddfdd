/* The files of the page. A browser asks again each time whether they have changed, and their ETag says so. A proxy that compresses
 * a file marks its ETag as weak (W/"…"), and a client may send several. */
#include "serve/page.h"
#include "serve/server.h"

#include <string.h>

void page_now(struct request *request) {
    const char *known = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "If-None-Match");
    const struct page_file *file = page_files;
    while (file->path && strcmp(file->path, request->wanted.url) != 0) {
        file++;
    }
    if (!file->path) {
        refuse(request, MHD_HTTP_NOT_FOUND, "the page is at /", "%s: there is nothing here", request->wanted.url);
        return;
    }
    request->answer.page = true;
    request->answer.type = file->type;
    request->answer.etag = file->etag;
    request->answer.status = known && strstr(known, file->etag) ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK;
    if (request->answer.status == MHD_HTTP_OK) {
        text_add(&request->answer.text, (const char *)file->bytes, file->count);
    }
}
