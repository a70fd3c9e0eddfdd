/* What the fuzz targets share. A target is LLVMFuzzerTestOneInput over the real code; it aborts when a promise is broken. */
#ifndef L3A_FUZZ_H
#define L3A_FUZZ_H

#include "base/context.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* A context on one thread in which every path is a file of these bytes, and no object may plan for more than 64 MiB. */
l3a_context *context_over(const uint8_t *bytes, size_t count);

/* Ends the process when the condition does not hold, whatever the kind of build. */
void must(bool condition);

/* Reads a table to its end, where that is less than a mebibyte. */
void read_table(l3a_features *features);

#endif
