/* The files of the page, which are in src/serve/page, and the description of the interface, as cmake/page.cmake embeds them. */
#ifndef L3A_SERVE_PAGE_H
#define L3A_SERVE_PAGE_H
#include <stddef.h>

struct page_file {
    const char *path; /* "/", "/page/grid.js", "/openapi.json" */
    const char *type; /* the value of Content-Type */
    const char *etag; /* in quotes; changes with the content */
    const unsigned char *bytes;
    size_t count;
};

/* Ends with an entry whose path is NULL. */
extern const struct page_file page_files[];

#endif
