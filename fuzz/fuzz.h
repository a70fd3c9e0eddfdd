/* What the fuzz targets share. A target is LLVMFuzzerTestOneInput over the real code; it aborts when a promise is broken. */
#ifndef L3A_FUZZ_H
#define L3A_FUZZ_H

#include "base/context.h"
#include "l3a/l3a_experiment.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* A context on one thread in which every path is a file of these bytes, and no object may plan for more than 64 MiB. What is
 * written stays in memory, too, and can be opened under its name. An allocation beyond 80 MiB and 1,024 times the input ends the
 * process: no input may ask for more memory than its own size explains. */
l3a_context *context_over(const uint8_t *bytes, size_t count);

/* The same over a folder of several files. A line "@@NAME" in the input begins each; a path is the file whose NAME it ends with. */
l3a_context *context_over_folder(const uint8_t *bytes, size_t count);

/* One more file, for the context made last; the bytes must stay. */
void add_file(const char *path, const void *bytes, size_t count);

/* Ends the process when the condition does not hold, whatever the kind of build. */
void must(bool condition);

/* Reads a table to its end, where that is less than a mebibyte; the values are the caller's to free, NULL where none were read. */
float *read_table(l3a_features *features);

/* Writes the right checksum into a safetensors header, which no mutation would hit. False when it has none. */
bool repair_header(uint8_t *bytes, size_t count);

/* Calls the target's own function with the input as it is and, where that differs, with the header's checksum made right. */
void with_repaired_header(const uint8_t *bytes, size_t count, void (*run)(const uint8_t *bytes, size_t count));

#endif
