/* The labels and members of a table. Of processes that divide the rows of a file, each holds those of its own part of the rows, so
 * together they hold each once. Those of other rows are read from the file, a window of rows at a time. */
#include "data/features.h"

#include <string.h>

enum { WINDOW = 1 << 18 }; /* bytes */

size_t marks_window(const l3a_features *features) {
    const size_t classes = features->classes.count;
    return classes && classes < WINDOW ? WINDOW / classes : 1;
}

l3a_status marks_room(const l3a_features *features, int8_t **room) {
    *room = NULL;
    return features->labels.count == features->rows
               ? L3A_OK
               : allocate(features->context, marks_window(features), features->classes.count, room);
}

uint64_t features_held_bytes(const l3a_features *features) {
    const uint64_t classes = features->classes.count, members = features->members.held ? features->members.count : 0;
    uint64_t names = features->classes.capacity * sizeof *features->classes.items;
    for (size_t k = 0; k < features->classes.count; k++) {
        names += strlen(features->classes.items[k]) + 1;
    }
    return names + (features->labels.count + members) * classes + features->id_bytes +
           features->ids.capacity * sizeof *features->ids.items +
           (features->divided ? marks_window(features) * classes + LABEL_BLOCK * 2 * sizeof(double) : 0);
}

l3a_status marks_hold(l3a_features *features, const input_file *input, const struct tensor *tensor, struct marks *marks) {
    l3a_status status = L3A_OK;
    size_t first = 0, count = features->rows;
    if (features->divided) {
        own_part(features->context, features->rows, &first, &count);
    }
    TRY(allocate(features->context, count, (size_t)tensor->shape[1], &marks->owned));
    TRY(tensor_read_labels(input, tensor, first, count, marks->owned));
    marks->held = marks->owned;
    marks->first = first;
    marks->count = count;
    marks->tensor = *tensor;
    marks->tensor.name = NULL;
done:
    return status;
}

static const input_file *input_of(const l3a_features *features, const struct marks *marks) {
    return marks == &features->labels && features->label_input.file >= 0 ? &features->label_input : &features->input;
}

static l3a_status hold_all(l3a_features *features, struct marks *marks) {
    l3a_status status = L3A_OK;
    int8_t *all = NULL;
    if (!marks->held || marks->count == features->rows) {
        return L3A_OK;
    }
    TRY(allocate(features->context, features->rows, features->classes.count, &all));
    TRY(tensor_read_labels(input_of(features, marks), &marks->tensor, 0, features->rows, all));
    release(features->context, marks->owned);
    marks->held = marks->owned = all;
    marks->first = 0;
    marks->count = features->rows;
    all = NULL;
done:
    release(features->context, all);
    return status;
}

l3a_status features_hold_all(l3a_features *features) {
    l3a_status status = L3A_OK;
    TRY(hold_all(features, &features->members));
    TRY(hold_all(features, &features->labels));
    TRY(ids_hold_all(features));
done:
    return status;
}

l3a_status marks_find(const l3a_features *features, const struct marks *marks, size_t first, size_t count, int8_t *room,
                      const int8_t **found) {
    if (first >= marks->first && first + count <= marks->first + marks->count) {
        *found = marks->held + (first - marks->first) * features->classes.count;
        return L3A_OK;
    }
    *found = room;
    return tensor_read_labels(input_of(features, marks), &marks->tensor, first, count, room);
}

l3a_status marks_scan(const l3a_features *features, const struct marks *marks, input_taker *take, void *user) {
    l3a_status status = L3A_OK;
    const size_t window = marks_window(features);
    int8_t *room = NULL;
    const int8_t *found;
    TRY(marks_room(features, &room));
    for (size_t first = 0, n; marks->held && first < features->rows; first += n) {
        n = features->rows - first < window ? features->rows - first : window;
        TRY(marks_find(features, marks, first, n, room, &found));
        take(user, (const char *)found, n * features->classes.count);
    }
done:
    release(features->context, room);
    return status;
}

l3a_status features_gather_labels(const l3a_features *features, const size_t *rows, size_t row_count, const size_t *columns,
                                  size_t column_count, int8_t *labels) {
    l3a_status status = L3A_OK;
    const size_t classes = features->classes.count, window = marks_window(features);
    int8_t *room = NULL;
    const int8_t *found;
    TRY(marks_room(features, &room));
    for (size_t first = 0, last; first < row_count; first = last) {
        size_t span = 1; /* of rows in the table, with those that are not wanted */
        for (last = first + 1; last < row_count && rows[last] >= rows[first] && rows[last] - rows[first] < window; last++) {
            span = rows[last] - rows[first] < span ? span : rows[last] - rows[first] + 1;
        }
        TRY(marks_find(features, &features->labels, rows[first], span, room, &found));
        for (size_t i = first; i < last; i++) {
            const int8_t *from = found + (rows[i] - rows[first]) * classes;
            for (size_t j = 0; j < column_count; j++) {
                labels[i * column_count + j] = from[columns[j]];
            }
        }
    }
done:
    release(features->context, room);
    return status;
}

/* ---- Public ---- */

/* The table of a caller who looks at any row. It stays as it was if there is no memory for all of them. */
static const int8_t *all_of(const l3a_features *features, const struct marks *marks) {
    l3a_features *own;
    memcpy(&own, &features, sizeof own);
    return features_hold_all(own) == L3A_OK ? marks->held : NULL;
}

const int8_t *l3a_features_labels(const l3a_features *features) {
    return features ? all_of(features, &features->labels) : NULL;
}

const int8_t *l3a_features_members(const l3a_features *features) {
    return features ? all_of(features, &features->members) : NULL;
}
