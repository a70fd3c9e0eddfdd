/* XMP: the keywords of a picture, which other programs read from dc:subject.
 *
 * A file is edited, not written anew: only the bytes of keywords that are added or removed change. It must be well-formed XML in
 * UTF-8 without a document type. */
#ifndef L3A_XMP_H
#define L3A_XMP_H

#include "base/memory.h"

enum { XMP_BYTES = 64 << 20 };

struct keywords {
    const char *const *add; /* those that are there already stay as they are */
    size_t add_count;
    const char *const *remove; /* except those to add */
    size_t remove_count;
};

/* Reads the keywords in the file's order, duplicates included. name is the file's name in messages. */
l3a_status xmp_read(l3a_context *context, const char *name, const char *bytes, size_t count, text_list *keywords);
/* Changes the keywords of a file, or makes a new file if bytes is NULL. *changed is false, and made is empty, if all is as wanted
 * already. The caller frees made, after failures as well. */
l3a_status xmp_merge(l3a_context *context, const char *name, const char *bytes, size_t count, const struct keywords *keywords,
                     text_builder *made, bool *changed);

#endif
