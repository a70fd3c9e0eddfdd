/* PATH.part: what an extraction has done so far, so that it can be resumed.
 *
 * A header of 32 bytes (the name of the format, the identity of the work, the numbers of a picture, which tell its views) and then
 * one record per picture, in order: its seal, a float that says whether it could be read, and its features, those of all views. The
 * seal is a checksum of the identity, the picture's file and the record; up to version 0.8 it was that of the picture's file alone.
 * Records are written batch by batch, so the length of the file says how far an earlier extraction got. Only the header is synced,
 * before the first record: a file that begins otherwise is not ours. */
#ifndef L3A_PART_FILE_H
#define L3A_PART_FILE_H

#include "extract/intake.h"

struct part_file {
    l3a_context *context;
    char *path;
    int file;
    uint64_t identity; /* of the work */
    size_t row;        /* numbers of a picture: those of all views */
    size_t record;     /* bytes */
    size_t held;       /* records of an earlier extraction */
    float *records;    /* room for those of a batch */
};

enum part_outcome { PART_MISSING, PART_READ, PART_UNREADABLE };

/* Opens or creates the file for this process alone. Keeps the records that it has if they are of the same work. target_path: the
 * feature file that will be made. Close it even if this fails. */
l3a_status part_file_open(l3a_context *context, const char *target_path, uint64_t identity, size_t pictures, size_t batch,
                          size_t row, struct part_file *part);
void part_file_close(struct part_file *part);
/* What the record of a picture says. The picture's number is below `held`, or it was written. */
l3a_status part_file_outcome(const struct part_file *part, size_t picture, enum part_outcome *outcome);
/* The same; the record is loaded, so that part_file_is_current() can look at it. */
l3a_status part_file_load(struct part_file *part, size_t picture, enum part_outcome *outcome);
/* Whether the record that was loaded is whole, and of a picture whose file has this checksum. */
bool part_file_is_current(const struct part_file *part, uint64_t checksum);
/* Reads the features of a picture. */
l3a_status part_file_features(const struct part_file *part, size_t picture, float *features);
/* Writes the records of a batch. */
l3a_status part_file_write(const struct part_file *part, size_t first, const struct intake *intake, const float *features);

#endif
