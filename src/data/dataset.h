/* What the kinds of data sets share. A kind is a file with two functions and a line in the table of dataset.c: one lists the
 * splits, the other fills a data set: first its classes, then its rows, then their labels. What is read comes from strangers,
 * so names are checked, sizes limited, and nothing recurses. */
#ifndef L3A_DATASET_H
#define L3A_DATASET_H

#include "base/memory.h"

/* Room for `needed` items in an array of `used`, by doubling; memory is the address of the pointer. */
l3a_status grow_array(l3a_context *context, void *memory, size_t used, size_t *capacity, size_t needed, size_t size);

/* Strings without an end to their number, one after the other in one piece of memory. */
typedef struct text_pool {
    char *text;
    size_t *starts;
    size_t length, capacity, count, start_capacity;
} text_pool;

l3a_status text_pool_add(l3a_context *context, text_pool *pool, const char *text, size_t length);
void text_pool_clear(l3a_context *context, text_pool *pool);

struct l3a_dataset {
    l3a_context *context;
    char *name, *split; /* as they were given; split is "" for all rows */
    text_list classes;
    text_pool ids, paths;
    int8_t *labels, *members;
    size_t disagreements;
    bool ignores_difficult; /* the class of difficult objects alone is unknown */
};

struct dataset_kind {
    const char *prefix, *form; /* "voc", "voc:FOLDER" */
    l3a_status (*open)(struct l3a_dataset *dataset, const char *place, const char *split, const l3a_dataset_options *options);
    l3a_status (*splits)(l3a_context *context, const char *place, text_list *splits);
};

extern const struct dataset_kind voc_kind, coco_kind, list_kind;

/* Takes names that are sorted and each there once; they are the data set's from then on, whatever happens. */
l3a_status dataset_set_classes(struct l3a_dataset *dataset, const char *place, text_list *names);
/* The index of a class, or the number of classes. */
size_t dataset_find_class(const struct l3a_dataset *dataset, const char *name);
/* A picture in folder, named by its path below it. */
l3a_status dataset_add_row(struct l3a_dataset *dataset, const char *id, const char *folder, const char *file);
/* After the last row: memory for the labels, all 0; refuses an id that stands twice. */
l3a_status dataset_make_labels(struct l3a_dataset *dataset, const char *place);
/* Rows in the order of their ids, for dataset_find_row; released by the caller. */
l3a_status dataset_sort_rows(const struct l3a_dataset *dataset, size_t **order);
/* The row of an id, or the number of rows. */
size_t dataset_find_row(const struct l3a_dataset *dataset, const size_t *order, const char *id);

/* L3A_OK, or an error that lists the splits there are. split may be NULL. */
l3a_status check_split(l3a_context *context, const char *place, const char *split, const text_list *splits);
/* "it holds a, b, c …" of a folder, for messages. */
void describe_folder(l3a_context *context, const char *path, char *text, size_t capacity);
/* True for a file name that stays below its folder: not absolute, and without "..". */
bool stays_below(const char *file);
bool is_utf8(const char *text);
void sort_texts(char **texts, size_t count);

#endif
