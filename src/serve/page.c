/* Finds a file of the page; page_files is made by cmake/page.cmake. */
#include "page.h"

#include <string.h>

const struct page_file *page_find(const char *path) {
    for (const struct page_file *file = page_files; file->path; file++) {
        if (strcmp(file->path, path) == 0) {
            return file;
        }
    }
    return NULL;
}
