/* Feature tables: rows of numbers with labels, from a safetensors file, NumPy files, or the caller's memory. */
#ifndef L3A_FEATURES_H
#define L3A_FEATURES_H

#include "base/memory.h"
#include "base/views.h"
#include "format/safetensors.h"

struct l3a_features {
    l3a_context *context;
    const char *path; /* for messages */
    char *owned_path;
    size_t rows, width;
    size_t views;  /* of those that are stored, the ones in use */
    size_t stored; /* views */
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
    uint64_t sum; /* checksum of the features in the file; 0: unknown */
};

/* A table has fewer views than this. */
enum { VIEWS_LIMIT = 1001 };

/* An empty table that messages call by this path. */
l3a_status features_create(l3a_context *context, const char *path, l3a_features **features);
/* Checks the names of the classes, and their number. */
l3a_status features_check_classes(l3a_features *features);
/* A table of rows in memory with labels [rows x classes], which have been checked. It only refers to what it is given, so there is
 * nothing to free. Fails if there are too many classes. */
l3a_status features_borrow(l3a_context *context, const float *values, const int8_t *labels, size_t rows, size_t views, size_t width,
                           const text_list *classes, l3a_features *features);

/* The records that say how features were made: feature files carry them, runs record them, and models compare them. */
enum { PROVENANCE = 4 };
extern const char *const provenance[PROVENANCE];
/* The record "difficult" is "ignore" if a class that only has difficult objects is unknown. Without the record, such a class is
 * absent. */
extern const char difficult_record[];
/* The record "views" of a feature file; without it, an image is the whole picture alone. */
extern const char views_record[];
/* The record "bad" of a feature file: the pictures that could not be read, one per line. */
extern const char bad_record[];
/* Of a shard: the record "shard" is "3/8", "extraction" is the same in all shards of the same extraction, and "batches" is how many
 * batches of pictures these have together. */
extern const char shard_record[], extraction_record[], batches_record[];
enum { SHARD_LIMIT = 1000000 };
/* Returns false if the text is not of this form. */
bool shard_parse(const char *text, uint64_t *shard, uint64_t *shards);
/* As l3a_features_open(), but a shard may be without pictures. */
l3a_status features_open(l3a_context *context, const char *path, bool may_be_empty, l3a_features **features);
/* The index of the first value that both have and that differs, or PROVENANCE. The name of a network is ignored if the checksums
 * show that it is the same network. */
size_t provenance_conflict(const char *const mine[PROVENANCE], const char *const theirs[PROVENANCE]);

/* Numbers that l3a_features_read() copies for a row. */
static inline size_t features_row(const l3a_features *features) {
    return view_rows(features->views) * features->width;
}

/* Finds rows, and checks them as l3a_features_read() does: *values is where they lie, if they are next to each other in memory;
 * otherwise they are copied to `room`. */
l3a_status features_find_rows(l3a_features *features, const size_t *rows, size_t count, float *room, const float **values);

/* The tensor of the features in a file. */
tensor_source features_source(uint64_t rows, size_t views, size_t width, tensor_type type, tensor_fill *fill, void *argument);

/* Finds the column of each class; an error names a class that the table does not have. */
l3a_status features_columns(l3a_features *features, const char *const *classes, size_t count, size_t *columns);
/* Finds the rows with label 1 in at least one of the columns; *rows is allocated. */
l3a_status features_rows_with(l3a_features *features, const size_t *columns, size_t column_count, size_t **rows, size_t *count);
/* Finds the rows that belong to at least one of the columns: those with label 1, and those that only show a crowd. */
l3a_status features_members_of(l3a_features *features, const size_t *columns, size_t column_count, size_t **rows, size_t *count);
/* The memory that the labels and members take while the table is open. */
uint64_t features_label_bytes(const l3a_features *features);
/* labels[i, j] is the label of rows[i] in columns[j]. */
void features_gather_labels(const l3a_features *features, const size_t *rows, size_t row_count, const size_t *columns,
                            size_t column_count, int8_t *labels);
/* The index of the first number that is NaN or infinite, or count. */
size_t find_non_finite(int threads, const float *values, size_t count);

#endif
