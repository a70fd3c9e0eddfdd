/* The heads of files in a tar, as POSIX has them, for files of any size and names of any length. */
#ifndef L3A_SERVE_TAR_H
#define L3A_SERVE_TAR_H

#include "common/tar.h"
#include "serve/text.h"

/* Adds what stands before the bytes of a file. mode: its permissions; seconds: its time, since 1970. */
void tar_head(struct text *to, const char *name, uint64_t size, unsigned mode, int64_t seconds);

#endif
