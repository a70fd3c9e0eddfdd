/* The tar files that a text names, and the files in them. */
#ifndef L3A_ARCHIVES_H
#define L3A_ARCHIVES_H

#include "format/tar.h"

/* "a.tar", "a.tar,b.tar", "shard-*.tar" or "shard-{0000..0099}.tar", in the order of the names: adds the paths. A file that has the
 * whole text as its name is that file. Only of a pattern it is known that its files exist. */
l3a_status archives_find(l3a_context *context, const char *text, text_list *paths);

/* Called with each file in an archive that is not hidden, in order; tar_read() reads it. */
typedef l3a_status archive_visitor(struct tar *tar, const struct tar_member *member, void *user);
l3a_status archive_visit(l3a_context *context, const char *path, archive_visitor *visit, void *user);

#endif
