/* Feature tables: rows of numbers with labels, from a safetensors file, NumPy files, or the caller's memory. */
#ifndef L3A_FEATURES_H
#define L3A_FEATURES_H

#include "base/memory.h"
#include "base/views.h"
#include "format/safetensors.h"

/* A matrix [rows x classes] of a table: its labels or its members. Processes that divide the rows of a file hold those of some rows
 * each, and read the others when they need them. */
struct marks {
    const int8_t *held; /* [count x classes]; NULL: the table has none */
    int8_t *owned;
    size_t first, count;  /* the rows that are held */
    struct tensor tensor; /* of all rows, in the file */
};

struct id_reader;

struct l3a_features {
    l3a_context *context;
    const char *path; /* for messages */
    char *owned_path;
    size_t rows, width;
    size_t views;  /* of those that are stored, the ones in use */
    size_t stored; /* views */
    text_list classes;
    bool divided;         /* each of several processes holds a part of the labels and members, and no ids */
    struct marks labels;  /* 1 present, 0 absent, -1 unknown */
    struct marks members; /* none: a row belongs to the classes it is labelled with */
    const float *values;  /* in memory, or NULL: read from the file */
    float *owned_values;
    text_list ids;
    uint64_t id_bytes;
    struct id_reader *id_reader; /* NULL: the ids are held, or there are none */
    text_list record_keys, record_values;
    input_file input, label_input; /* label_input: of a divided table whose labels are in a file of their own */
    struct tensor features;
    uint64_t sum;    /* checksum of the features in the file; 0: unknown */
    uint64_t images; /* checksum of features, labels and members, of a table in a file; 0: unknown */
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
enum { PROVENANCE = 5 };
extern const char *const provenance[PROVENANCE];
/* The record "difficult" is "ignore" if a class that only has difficult objects is unknown. Without the record, such a class is
 * absent. */
extern const char difficult_record[];
/* The record "views" of a feature file; without it, an image is the whole picture alone. */
extern const char views_record[];
/* The record "bad" of a feature file: the pictures that could not be read, one per line. */
extern const char bad_record[];
/* Of a shard: the record "shard" is "3/8", "extraction" is the same in all shards of the same extraction, "batches" is how many
 * batches of pictures these have together, and "engine" says what made it if that was a device. */
extern const char shard_record[], extraction_record[], batches_record[], engine_record[];
enum { SHARD_LIMIT = 1000000 };
/* Returns false if the text is not of this form. */
bool shard_parse(const char *text, uint64_t *shard, uint64_t *shards);
/* As l3a_features_open(), but a shard may be without pictures. */
l3a_status features_open(l3a_context *context, const char *path, bool may_be_empty, l3a_features **features);
/* The index of the first value that both have and that differs, or PROVENANCE. The name of a network is ignored if the checksums
 * show that it is the same network. The last record, `network`, says what is not usual; if it is missing, all is as usual. */
size_t provenance_conflict(const char *const mine[PROVENANCE], const char *const theirs[PROVENANCE]);
/* Whether versions before 0.14 would make other features from such records, and not notice. */
bool provenance_is_new(const char *const values[PROVENANCE]);
/* The value of such a record for messages; it may be NULL. */
const char *provenance_text(const char *value);

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

/* ---- Labels and ids ---- */

/* Reads the marks that this process holds. */
l3a_status marks_hold(l3a_features *features, const input_file *input, const struct tensor *tensor, struct marks *marks);
/* From now on, this process holds the labels, members and ids of all rows. */
l3a_status features_hold_all(l3a_features *features);
/* The memory that labels, members, ids and names of classes take while the table is open, and what reading the labels of other rows
 * takes. */
uint64_t features_held_bytes(const l3a_features *features);
/* The marks of the rows [first, first + count): *found is where they are held, or `room`. */
l3a_status marks_find(const l3a_features *features, const struct marks *marks, size_t first, size_t count, int8_t *room,
                      const int8_t **found);
/* Passes the marks of all rows on, in order. */
l3a_status marks_scan(const l3a_features *features, const struct marks *marks, input_taker *take, void *user);
/* How many rows of marks are read at a time. */
size_t marks_window(const l3a_features *features);
/* Room for them; NULL if all are held. */
l3a_status marks_room(const l3a_features *features, int8_t **room);
/* labels[i, j] is the label of rows[i] in columns[j]. */
l3a_status features_gather_labels(const l3a_features *features, const size_t *rows, size_t row_count, const size_t *columns,
                                  size_t column_count, int8_t *labels);
/* Takes the ids from the file. Processes that divide the rows hold none, and process 0 checks them. */
l3a_status ids_take(l3a_features *features, const input_file *input, const struct tensor *ids);
l3a_status ids_hold_all(l3a_features *features);
void id_reader_free(l3a_context *context, struct id_reader *reader);
/* As l3a_features_id(), but says why an id cannot be read. */
l3a_status features_id(const l3a_features *features, size_t row, const char **id);

/* ---- Chosen rows ---- */

/* The rows with label 1 in at least one of some columns, or those that belong to at least one of the columns, which are these and
 * those that only show a crowd. */
enum chosen_by { BY_LABEL, BY_MEMBER };
struct row_choice {
    l3a_features *features;
    const struct marks *marks;
    const size_t *columns;
    size_t column_count;
    uint64_t *before; /* how many are chosen before each stretch of rows */
    size_t count;     /* of all processes */
};
/* Processes that divide the rows of a file all call this: each looks at its part of them. */
l3a_status choice_make(l3a_features *features, enum chosen_by by, const size_t *columns, size_t column_count,
                       struct row_choice *choice);
/* The numbers of the chosen rows [first, first + count) among all that were chosen; *rows is allocated. */
l3a_status choice_list(const struct row_choice *choice, size_t first, size_t count, size_t **rows);
void choice_free(struct row_choice *choice);

/* This process's part of the rows that were chosen. */
struct own_rows {
    size_t *rows, count;
    size_t first; /* the number of its first among those of all processes … */
    size_t all;   /* … which are this many */
};
l3a_status own_rows_find(l3a_features *features, enum chosen_by by, const size_t *columns, size_t column_count,
                         struct own_rows *own);
/* Those of all processes; *rows is allocated. */
l3a_status features_rows_with(l3a_features *features, const size_t *columns, size_t column_count, size_t **rows, size_t *count);
l3a_status features_count_rows(l3a_features *features, enum chosen_by by, const size_t *columns, size_t column_count,
                               uint64_t *count);

/* The index of the first number that is NaN or infinite, or count. */
size_t find_non_finite(int threads, const float *values, size_t count);

#endif
