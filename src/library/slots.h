/* The features of a library: one file of records of the same size, to which records are only added. A record belongs to a content,
 * not to a path: pictures with the same bytes share it.
 *
 *   head    4,096 bytes: "L3ASLOT1", numbers of a view, views of a picture, an id, how the features were made, and a checksum
 *   record  the checksum of the picture's file (8 bytes), a check of the record (4), the logarithm of the sum of exp(logits) of the
 *           network's own classifier (float32; NaN: it has none), and the features (float16), filled up to a multiple of 8
 *
 * Records are read in blocks that fit into the processor's cache, and the file is not mapped: a file that becomes
 * shorter while somebody reads it is an error and not the end of the process.
 *
 * What was added counts when a row of the database says so; until then its place is used again. */
#ifndef L3A_SLOTS_H
#define L3A_SLOTS_H

#include "base/file.h"
#include "base/memory.h"

enum { SLOTS_HEAD = 4096, SLOTS_ID = 32, SLOT_START = 16 };

struct slots {
    l3a_context *context;
    char *path;
    int file; /* -1: not open */
    size_t width, rows, stride;
    char id[SLOTS_ID + 1];
    char *recipe;
};

/* Opens a file of features. A missing one is L3A_ERROR_NOT_FOUND; one that is damaged or something else is L3A_ERROR_CHECKSUM. */
l3a_status slots_open(l3a_context *context, const char *path, struct slots *slots);
/* Makes a new one, in place of what is there. */
l3a_status slots_create(l3a_context *context, const char *path, size_t width, size_t rows, const char *recipe, struct slots *slots);
void slots_close(struct slots *slots);
/* Complete records in the file. */
l3a_status slots_count(const struct slots *slots, uint64_t *count);

/* What a record holds. */
struct slot {
    uint64_t checksum;
    float log_sum;
    const uint16_t *halves; /* [rows x width] */
};

/* Writes records, of pictures with these checksums and log-sums (NULL: there are none), from number `first` on. A feature too large
 * for float16 becomes the largest there is. */
l3a_status slots_write(const struct slots *slots, uint64_t first, size_t count, const uint64_t *checksums, const float *log_sums,
                       const float *features);
l3a_status slots_sync(const struct slots *slots);
/* Reads whole records [count x stride]. For any thread: returns 0 or an errno, ENODATA if the file is too short. */
int slots_get(const struct slots *slots, uint64_t first, size_t count, void *records);
/* The error for what slots_get() returned. */
l3a_status slots_fail(const struct slots *slots, int code);
/* Both in one. */
l3a_status slots_read(const struct slots *slots, uint64_t first, size_t count, void *records);
/* A record among those that were read; whether it is as it was written. */
bool slot_check(const struct slots *slots, const void *records, size_t index, struct slot *slot);
/* The same without looking whether it was damaged. */
struct slot slot_at(const struct slots *slots, const void *records, size_t index);
/* How many records fit into a block. */
size_t slots_block(const struct slots *slots);

#endif
