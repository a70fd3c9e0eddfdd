/* l3a tag, in four files: tag.c has the command and the way through the pictures, tag_rows.c writes what is said about each of
 * them, tag_shards.c divides the work among processes, and watch.c tags pictures as they arrive. */
#ifndef L3A_TAG_H
#define L3A_TAG_H

#include "rows.h"

#include "common/sha256.h"

#include <sys/stat.h>

enum order { GIVEN, BY_NAME, UNCERTAIN };

/* Columns of the long form, in their own order. */
enum tag_field {
    FIELD_PATH,
    FIELD_TAG,
    FIELD_SCORE,
    FIELD_GIVEN,
    FIELD_THRESHOLD,
    FIELD_RANK,
    FIELD_LEFT,
    FIELD_TOP,
    FIELD_RIGHT,
    FIELD_BOTTOM,
    FIELD_ERROR,
    TAG_FIELDS
};

/* How the tags are written. */
struct tag_form {
    struct printer printer;
    struct tag_choice choice;
    enum order order;
    bool lines;                        /* JSON, one object per line */
    bool by_tag;                       /* the long form: a row for each tag of each picture */
    bool only_given;                   /* the long form without the tags that were not given */
    enum tag_field fields[TAG_FIELDS]; /* of the long form, in the order that was asked for */
    size_t field_count;
    int width;             /* of the paths, in a table */
    const char *output;    /* path of the file; NULL: the standard output */
    const char *directory; /* the working directory */
};

/* A picture's part of the output, kept until all are known. */
struct tag_row {
    const char *path;
    double distance; /* from the decision that is most in doubt */
    char *text;
};

/* Reads --format, --csv, --json, --long, --given and --fields. If one is invalid, explains on stderr and returns false. */
bool tag_form_arguments(const struct arguments *arguments, struct tag_form *form);
/* What comes before all rows, and after them. */
void write_tag_head(struct tag_form *form);
void write_tag_tail(struct tag_form *form);
/* What is said about a picture: its tags or, if it could not be read, the error. */
void write_tag_row(struct tag_form *form, const char *path, const l3a_tags *tags, const char *error);
/* The same, kept for write_tag_rows(), which sorts the rows and frees their texts. */
void keep_tag_row(const struct tag_form *form, const char *path, const l3a_tags *tags, const char *error, struct tag_row *row);
void write_tag_rows(struct tag_form *form, struct tag_row *rows, size_t count);
/* A picture's path as the rows have it. To be freed; NULL if there is no memory. */
char *tag_row_path(const struct tag_form *form, const char *path);

/* A stream into a file that appears in one step, when it is complete. */
struct tag_file {
    const struct arguments *arguments;
    l3a_output *output;
    FILE *stream;
    struct sha256 sum;
    uint64_t bytes, head, tail; /* of all, and before and after the rows */
    l3a_status status;          /* of the first write that failed; the context has its text */
};

/* Explains on stderr and returns another code than EXIT_DONE if it fails. */
int tag_file_open(const struct arguments *arguments, const char *path, struct tag_file *file);
/* Puts the file in its place if it is `complete`, and removes it otherwise. Returns the exit code; a failed write is explained. */
int tag_file_close(struct tag_file *file, bool complete);

/* Pictures that are tagged together, and what came of them. */
struct tag_part {
    size_t first, count;  /* among the pictures that were found */
    bool last;            /* those that cannot be read by their names or beginnings follow */
    size_t pictures, bad; /* rows, and those among them that could not be read */
    bool complete;
};

struct tag_run {
    const struct arguments *arguments;
    struct tag_form form;
    l3a_tagger *tagger;
    struct stat model_file; /* before it was opened */
    const l3a_pictures *pictures;
    const char **paths;
    struct tag_part part;
    struct tag_row *rows; /* if they are sorted */
    size_t row_count;
    size_t pictures_done, bad;
    bool joined;  /* the shards, so these are the numbers of all of them */
    bool checked; /* whether a tag contains a semicolon */
    bool xmp, replace, short_name;
    size_t written, unchanged, failed; /* sidecars */
    int code;                          /* of what failed; a full disk counts most */
};

/* Tags a part of the pictures and writes its rows, to the file if there is one, and otherwise to the standard output. Returns the
 * exit code. */
int tag_part(struct tag_run *run, size_t first, size_t count, bool last, struct tag_file *file);

/* Writes the tags that are given into the sidecar of a picture. A failure is explained on stderr. */
void write_tag_sidecar(struct tag_run *run, const char *path, const l3a_tags *tags);
/* Tags pictures as they arrive in the folders that the command line names, until it is interrupted. Returns the exit code. */
int watch_folders(struct tag_run *run);

/* Tags a shard of the pictures in the same way. */
int tag_shard_part(struct tag_run *run, size_t shard, size_t shards, struct tag_file *file);
/* Tags a shard to the output, with a record that lets it be joined. */
int tag_shard(struct tag_run *run, size_t shard, size_t shards);
/* Tags shards that no other process has taken, and joins them if all are done. */
int tag_shared(struct tag_run *run, size_t shards);

#endif
