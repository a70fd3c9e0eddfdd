/* A scan of the folders of a library, and the rows that it writes (scan_rows.c). */
#ifndef L3A_LIBRARY_SCAN_H
#define L3A_LIBRARY_SCAN_H

#include "library/library.h"
#include "library/visited.h"

#define UNKNOWN INT64_C(-1)

/* A file as it is now. */
struct found {
    const char *name;
    int64_t size, modified; /* size UNKNOWN: the file cannot be described, and its row stays as it is */
    const char *refusal;    /* why it is no picture that is read; NULL: it may be one */
};

/* A picture whose content is to be compared. */
struct doubt {
    int64_t id;
    uint64_t checksum;
    size_t file; /* its number in `files` */
};

struct scan {
    l3a_library *library;
    l3a_context *context;
    l3a_scan_report report;
    int64_t root, change;
    const char *root_path;
    file_description about; /* of the root */
    text_list folders;      /* to be searched; the last one comes first */
    text_list broken;       /* could not be listed: what is below them stays */
    struct visited visited;
    int64_t *met; /* numbers of the folders that were met */
    size_t met_count, met_capacity;
    struct found *files; /* of the folder that is searched */
    size_t file_count, file_capacity;
    struct doubt *doubts;
    size_t doubt_count, doubt_capacity;
    bool gone;      /* a name of the folder led to nothing */
    bool lost;      /* the root has gone away meanwhile */
    size_t written; /* rows since the last commit */
    double began;   /* when the transaction was begun */
    bool open;      /* a transaction is */
};

/* A row of the index. */
struct row {
    int64_t id, size, modified, state;
    uint64_t checksum; /* 0: unknown */
    bool sure;
    const char *name; /* NULL: there is none left */
    sqlite3_stmt *statement;
};

/* Before something is written: begins a transaction, unless one is open. */
l3a_status scan_begin_writing(struct scan *scan);
/* Commits what is open, or takes it back if the status is a failure. Returns the first failure. */
l3a_status scan_end_writing(struct scan *scan, l3a_status status);
/* Commits now and then. No statement may be in use. */
l3a_status scan_pause(struct scan *scan);

l3a_status scan_next_row(struct scan *scan, struct row *row);
l3a_status scan_add_row(struct scan *scan, int64_t folder, const struct found *found);
/* The picture is to be looked at anew. */
l3a_status scan_change_row(struct scan *scan, int64_t id, const struct found *found);
l3a_status scan_drop_row(struct scan *scan, int64_t id);

#endif
