#include "serve/path.h"

#include <string.h>

enum { LONGEST_PATH = 4000 };

bool library_path_allowed(const char *path) {
    if (path[0] == '/' || strlen(path) > LONGEST_PATH || strchr(path, '\\')) {
        return false;
    }
    for (const char *at = path; *at;) {
        const size_t length = strcspn(at, "/");
        if (!length || at[0] == '.') { /* "", ".", ".." and hidden files */
            return false;
        }
        at += length;
        if (*at == '/' && !*++at) {
            return false;
        }
    }
    return true;
}
