/* The folder of a cache: feature files whose names are the keys of what is in them (cached.c), "KEY.safetensors" with 32
 * hexadecimal digits, and of extractions that have not ended, "KEY.safetensors.part". Other files in the folder are left alone. */
#ifndef L3A_CACHE_H
#define L3A_CACHE_H

#include "data/features.h"

/* Creates the folder, and those it is in. */
l3a_status cache_make_folder(l3a_context *context, const char *folder);
/* Removes the files that were not used for the longest time, until all take at most `limit` bytes. What a process uses stays. */
l3a_status cache_trim(l3a_context *context, const char *folder, uint64_t limit);
/* From now on the table's file counts as used just now, and no process removes it before the table is freed. */
void cache_use(l3a_features *features);

#endif
