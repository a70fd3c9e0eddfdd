/* The rows of the paper's tables, and which of them belong beside a run. */
#include "report/report.h"

#include <math.h>
#include <string.h>

#define NONE NAN
#define EITHER NULL /* the paper does not say which */
#define PUBLISHED(table, data, protocol, method, memory, backbone, average_map, last_map, class_f1, overall_f1)                    \
    {table, data, protocol, method, memory, backbone, average_map, last_map, class_f1, overall_f1},
#define PUBLISHED_SETTING(table, data, protocol, setting, value, average_map, last_map)

static const l3a_published rows[] = {
#include "report/published.inc"
#include "l3a/l3a_experiment.h"
};

enum { ROWS = sizeof rows / sizeof rows[0] };

/* A data set is recognised by its number of classes and the name of one class. */
static const struct {
    const char *data, *class;
    size_t classes;
} data_sets[] = {{"COCO", "toothbrush", 80}, {"VOC", "pottedplant", 20}};

static const char *recognise(const char *const *classes, size_t count) {
    for (size_t i = 0; i < sizeof data_sets / sizeof data_sets[0]; i++) {
        for (size_t j = 0; count == data_sets[i].classes && j < count; j++) {
            if (classes[j] && strcmp(classes[j], data_sets[i].class) == 0) {
                return data_sets[i].data;
            }
        }
    }
    return NULL;
}

/* Table 2 repeats the L3A row of Table 1. */
static bool is_repeated(size_t index) {
    const l3a_published *row = &rows[index];
    for (size_t i = 0; i < index; i++) {
        if (rows[i].table < row->table && strcmp(rows[i].data, row->data) == 0 && strcmp(rows[i].protocol, row->protocol) == 0 &&
            strcmp(rows[i].method, row->method) == 0 && rows[i].backbone && row->backbone &&
            strcmp(rows[i].backbone, row->backbone) == 0) {
            return true;
        }
    }
    return false;
}

const l3a_published *l3a_published_at(const char *protocol, const char *const *classes, size_t class_count, size_t index) {
    const char *data = protocol && classes ? recognise(classes, class_count) : NULL;
    for (size_t i = 0; data && i < ROWS; i++) {
        if (strcmp(rows[i].data, data) == 0 && strcmp(rows[i].protocol, protocol) == 0 && !is_repeated(i) && index-- == 0) {
            return &rows[i];
        }
    }
    return NULL;
}
