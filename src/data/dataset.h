/* What all kinds of data sets share. A kind is a file with two functions and an entry in the table of dataset.c. One function lists
 * the splits; the other fills a data set: first its classes, then its rows, then their labels. The files come from strangers, so
 * names are checked, sizes are limited, and nothing recurses. */
#ifndef L3A_DATASET_H
#define L3A_DATASET_H

#include "base/picture_source.h"
#include "base/text_index.h"

struct l3a_dataset {
    l3a_context *context;
    char *name, *split; /* as given by the caller; split is "" for all rows */
    text_list classes;
    text_index class_index;
    text_pool ids, paths;
    text_list archives;         /* that the pictures are in, … */
    struct archive_span *spans; /* … and where; NULL: each has a file of its own */
    size_t span_capacity;
    int8_t *labels, *members;
    size_t disagreements;
    bool ignores_difficult; /* a class that only has difficult objects is unknown */
};

struct dataset_kind {
    const char *prefix, *form; /* "voc", "voc:FOLDER" */
    l3a_status (*open)(struct l3a_dataset *dataset, const char *place, const char *split, const l3a_dataset_options *options);
    l3a_status (*splits)(l3a_context *context, const char *place, text_list *splits);
    const char *usual[2][2]; /* pairs of splits that people learn from and measure on; the first that is there counts */
};

extern const struct dataset_kind voc_kind, coco_kind, list_kind, folders_kind, tar_kind;

/* Adds each distinct text once, in sorted order. Sorts the array in place. */
l3a_status add_distinct(l3a_context *context, char **texts, size_t count, text_list *distinct);
/* Takes sorted names without duplicates. The data set owns them from then on, even if this fails. */
l3a_status dataset_set_classes(struct l3a_dataset *dataset, const char *place, text_list *names);
/* The index of a class, or the number of classes. */
size_t dataset_find_class(const struct l3a_dataset *dataset, const char *name);
/* Adds a picture; file is its path below folder. */
l3a_status dataset_add_row(struct l3a_dataset *dataset, const char *id, const char *folder, const char *file);
/* Adds a picture that is in an archive, whose path is one of dataset->archives; its id is the member's name. */
l3a_status dataset_add_member(struct l3a_dataset *dataset, const char *name, const struct archive_span *span);
/* The name with an absolute path without links, so that it means the same in any folder; as it is if it names no single place. */
l3a_status dataset_full_name(const struct l3a_dataset *dataset, char **name);
/* Where the picture of a row is; the texts are those of the data set. */
struct picture_source dataset_source(const struct l3a_dataset *dataset, size_t row);
/* Called after the last row: allocates the labels, all 0. Refuses an id that is listed twice. */
l3a_status dataset_make_labels(struct l3a_dataset *dataset, const char *place);
/* Fails, with an error that lists the splits, unless split is one of them. split may be NULL. */
l3a_status check_split(l3a_context *context, const char *place, const char *split, const text_list *splits);
/* "it holds a, b, c …": the content of a folder, for messages. */
void describe_folder(l3a_context *context, const char *path, char *text, size_t capacity);

#endif
