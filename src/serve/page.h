/* The files of the page that 'l3a serve' shows. They lie in src/serve/page and are embedded by cmake/page.cmake. */
#ifndef L3A_SERVE_PAGE_H
#define L3A_SERVE_PAGE_H
#include <stddef.h>

struct page_file {
    const char *path; /* "/" or "/page.css" */
    const char *type; /* the value of Content-Type */
    const char *etag; /* in quotes; changes with the content */
    const unsigned char *bytes;
    size_t count;
};

/* Ends with an entry whose path is NULL. */
extern const struct page_file page_files[];

/* NULL: the page has no such file. */
const struct page_file *page_find(const char *path);

#endif
