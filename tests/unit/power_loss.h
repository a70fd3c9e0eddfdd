/* A disk that loses power. Programs work on a real folder, as the system's memory shows it to them, and every operation that
 * changes something is recorded. From the record, the folder is then made again as a disk may hold it after any number of them.
 *
 * What is certain: the bytes and the length of a file up to its last sync; names (created, renamed, removed, new folders) up to the
 * last sync of the folder that they are in; a rename as a whole; a sector as a whole. Everything else may be there or not, in any
 * combination: syncing a file keeps its bytes and not its name, sectors arrive in any order, a length may be there without the
 * bytes, which are then zeros. That is less than most file systems promise, and as much as all of them do. */
#ifndef L3A_POWER_LOSS_H
#define L3A_POWER_LOSS_H

#include "base/file.h"

/* What becomes of the operations that were not synced. */
enum loss {
    ALL_LOST,
    ALL_KEPT,
    ONLY_NAMES,        /* files are in place, but have the bytes and the length of their last sync */
    NAMES_AND_LENGTHS, /* what was added to a file is zeros */
    ONLY_BYTES,        /* no name has changed */
    LATER_SECTORS,     /* of each write, all but the first sector */
    EARLIER_SECTORS,   /* of each write, the first sector alone, but the whole length */
    SOME,              /* as chance has it; from here on, a number is another course */
};

/* For the `files` of a context. */
extern const file_operations recorded_files;

/* Begins a record of the folder. What it holds now is certain. */
void disk_begin(const char *folder);
/* Operations that changed something since. */
size_t disk_operations(void);
/* From now on, the recorded operations change nothing and fail, as if the process had ended after so many more of them; SIZE_MAX:
 * it lives. */
void disk_end_after(size_t operations);
/* Makes the folder what the disk may hold after the first `count` operations. Nothing is recorded of what follows. Returns a
 * checksum of all names and bytes. */
uint64_t disk_cut(size_t count, unsigned loss);
/* Frees the record. */
void disk_forget(void);

#endif
