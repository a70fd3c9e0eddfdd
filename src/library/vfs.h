/* The files of an index, as SQLite sees them: through the table of a context (base/file.h). vfs.c says how. */
#ifndef L3A_VFS_H
#define L3A_VFS_H

#include "base/context.h"

struct vfs;

/* Registers a VFS with a name of its own. It is for the thread of its context, and does not become SQLite's default.
 *
 * What a connection needs besides the name (sqlite3_open_v2): "PRAGMA temp_store = MEMORY", because temporary files are refused;
 * "PRAGMA synchronous = EXTRA", because FULL does not sync the folder after a commit has removed its journal, and the power can
 * then go and bring the journal back; and a journal mode other than WAL, which is refused as well. */
l3a_status vfs_open(l3a_context *context, struct vfs **vfs);
/* For sqlite3_open_v2. */
const char *vfs_name(const struct vfs *vfs);
/* The errno of the operation that failed last; 0: none has. It belongs to the result SQLITE_FULL (then it is ENOSPC, EDQUOT or
 * EFBIG), SQLITE_IOERR, SQLITE_CANTOPEN or SQLITE_READONLY that SQLite has just returned, and means nothing after any other. What
 * others have locked is no failure.
 * ENOLCK: the file system cannot lock; no other failure has this number.
 * ESTALE, with SQLITE_READONLY: somebody has removed or replaced the file while it was open.
 * ENOTSUP, or 0 with SQLITE_CANTOPEN: SQLite wanted what this VFS does not have: a temporary file, or a WAL. */
int vfs_code(const struct vfs *vfs);
/* After the connections have been closed. NULL is harmless. */
void vfs_close(struct vfs *vfs);

#endif
