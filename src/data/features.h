/* Feature tables: rows of numbers with labels, from a safetensors file, NumPy files, or the caller's memory. */
#ifndef L3A_FEATURES_H
#define L3A_FEATURES_H

#include "base/memory.h"
#include "format/safetensors.h"

struct l3a_features {
    l3a_context *context;
    char *path; /* for messages */
    size_t rows, width;
    text_list classes;
    const int8_t *labels;
    int8_t *owned_labels;
    int8_t *members;     /* NULL: a row belongs to the classes it is labelled with */
    const float *values; /* in memory, or NULL: read from the file */
    float *owned_values;
    text_list ids;
    text_list record_keys, record_values;
    input_file input;
    struct tensor features;
};

/* The records that say how features were made: what files carry, runs write down, and models compare. */
enum { PROVENANCE = 4 };
extern const char *const provenance[PROVENANCE];
/* The record "difficult": "ignore" where the class of difficult objects alone is unknown. Without it, it is absent. */
extern const char difficult_record[];
/* The first of these values that both have and that differs, or PROVENANCE. A network's name does not count where its checksum says
 * that it is the same. */
size_t provenance_conflict(const char *const mine[PROVENANCE], const char *const theirs[PROVENANCE]);

/* For each name, the table's column; an error names those that the table does not have. */
l3a_status features_columns(l3a_features *features, const char *const *classes, size_t count, size_t *columns);
/* The rows with label 1 in at least one of the columns; *rows is allocated. */
l3a_status features_rows_with(l3a_features *features, const size_t *columns, size_t column_count, size_t **rows, size_t *count);
/* The rows that belong to at least one of the columns: those, and the rows that a crowd puts there. */
l3a_status features_members_of(l3a_features *features, const size_t *columns, size_t column_count, size_t **rows, size_t *count);
/* labels[i, j] of rows[i] and columns[j] */
void features_gather_labels(const l3a_features *features, const size_t *rows, size_t row_count, const size_t *columns,
                            size_t column_count, int8_t *labels);
/* The index of the first number that is NaN or infinite, or count. */
size_t find_non_finite(const float *values, size_t count);

#endif
