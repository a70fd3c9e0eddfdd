/* The pull parser of common/json.h on texts in memory and on files. A file is read through a sliding window: reading, unlike
 * mapping, turns a file that another process cuts short into an error. */
#ifndef L3A_JSON_H
#define L3A_JSON_H

#include "base/file.h"
#include "common/json.h"

void json_begin(struct json *json, l3a_context *context, const char *name, const char *text, size_t length);
/* Opens a file of at most `limit` bytes, to be read through a window of `window` bytes; 0 chooses a fast size. A string that is
 * read rather than skipped must fit in the window. Close it even if this fails. */
l3a_status json_open(struct json *json, l3a_context *context, const char *path, uint64_t limit, size_t window);
void json_close(struct json *json);
/* A copy with decoded escapes, from the context's memory. */
l3a_status json_text_copy(struct json *json, json_text text, char **copy);

#endif
