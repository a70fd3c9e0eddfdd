/* The files of the page, embedded in the command. */
#include "serve/server.h"

#include <string.h>

#define EMBED(name, path)                                                                                                          \
    __asm__(".section .rodata\n"                                                                                                   \
            ".balign 16\n" #name ":\n"                                                                                             \
            ".incbin \"" L3A_SERVE_FOLDER path "\"\n" #name "_end:\n"                                                              \
            ".byte 0\n"                                                                                                            \
            ".previous\n");                                                                                                        \
    extern const char name[], name##_end[]

EMBED(page_html, "/page/index.html");
EMBED(page_css, "/page/page.css");
EMBED(page_js, "/page/page.js");
EMBED(page_icon, "/page/icon.svg");
EMBED(page_openapi, "/openapi.json");

static const struct {
    const char *path, *type, *start, *end;
} files[] = {
    {"/", "text/html; charset=utf-8", page_html, page_html_end},
    {"/page.css", "text/css; charset=utf-8", page_css, page_css_end},
    {"/page.js", "text/javascript; charset=utf-8", page_js, page_js_end},
    {"/icon.svg", "image/svg+xml", page_icon, page_icon_end},
    {"/openapi.json", "application/json; charset=utf-8", page_openapi, page_openapi_end},
};

void page_now(struct request *request) {
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (strcmp(request->route->path, files[i].path) == 0) {
            text_add(&request->answer, files[i].start, (size_t)(files[i].end - files[i].start));
            request->type = files[i].type;
        }
    }
    request->page = true;
    request->status = MHD_HTTP_OK;
}
