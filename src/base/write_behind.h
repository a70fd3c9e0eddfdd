/* Writes an output in chunks, behind the caller's back: while the caller fills a chunk, another thread writes those before it and
 * starts their way to the disk, so that the sync at the end finds little left to do. */
#ifndef L3A_WRITE_BEHIND_H
#define L3A_WRITE_BEHIND_H

#include "base/file.h"

enum { WRITE_CHUNK = 3 << 19, WRITE_CHUNKS = 3 }; /* bytes of a chunk, and chunks at a time, at most */

typedef struct write_behind write_behind;

/* `total`: bytes of all chunks. The output stays open, and where it is, until the writer is freed. */
l3a_status write_behind_create(const output_file *output, uint64_t total, write_behind **made);
/* Waits for a chunk that the caller can fill. Fails if a chunk could not be written. */
l3a_status write_behind_room(write_behind *writer, char **chunk);
/* Hands over the first `count` bytes of that chunk, to be written at the offset. */
l3a_status write_behind_put(write_behind *writer, uint64_t offset, size_t count);
/* Waits until every chunk is written. Fails if one could not be. */
l3a_status write_behind_finish(write_behind *writer);
/* Chunks that are not written yet may be lost, unless it is finished. NULL: does nothing. */
void write_behind_free(write_behind *writer);

#endif
