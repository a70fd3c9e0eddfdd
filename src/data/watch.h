/* Notices changes in folders and in the folders below them: new, changed, renamed and removed files. Folders that is_hidden()
 * leaves out are left out here, too, and what is in them is no change; links to folders are followed.
 *
 * The system tells of changes (inotify). Where it cannot, the caller is asked to look again every so often: on file systems that
 * others change unseen (NFS, SMB, FUSE, 9P, …), where the system's limit is reached, and where there is no inotify. A folder that
 * was given and is missing, or vanishes, is waited for.
 *
 * Open the watch first and read the folders then, so that nothing happens unseen in between. */
#ifndef L3A_WATCH_H
#define L3A_WATCH_H

#include "base/context.h"

struct watch;

/* folders: need not exist. A path that is not absolute becomes so. poll_seconds, above 0: how often the caller looks again at the
 * folders of which the system does not tell, and how soon one is noticed that was missing and is back. Warnings go to the context,
 * one if the system's limit is reached. */
l3a_status watch_open(l3a_context *context, const char *const *folders, size_t count, double poll_seconds, struct watch **watch);
/* From now on, the system is not asked for anything, and all folders are polled. */
void watch_poll_only(struct watch *watch);
/* Waits for changes, at most so many seconds; 0: only says what has happened. Those that come together are reported together: when
 * nothing has happened for a moment, and after 2 seconds at the latest. A file is reported once it is closed, not while it is
 * written. *overflowed: the system has lost some changes, so all folders are reported. What the caller itself writes into the
 * folders is reported like all else. */
l3a_status watch_next(struct watch *watch, double seconds, bool *changed, bool *overflowed);
/* The folders that the last call of watch_next() reports, sorted, each once; absolute paths, which begin with a folder that was
 * given, as it was given. NULL past the last. *below: everything below may have changed, too, and the folder itself may be new, or
 * gone; otherwise, only files in it were. below may be NULL. */
const char *watch_folder(const struct watch *watch, size_t index, bool *below);
/* Whether this folder, of those that were given, is polled. */
bool watch_is_polled(const struct watch *watch, size_t index);
/* Ends watch_next(), now and from then on; for any thread. */
void watch_stop(struct watch *watch);
/* No other thread may use the watch any more. NULL is fine. */
void watch_close(struct watch *watch);

#endif
