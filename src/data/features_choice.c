/* Rows of a table that are chosen by their labels or members.
 *
 * Processes that divide the rows of a file find theirs without looking at the labels of all. Each counts, in its part of the table,
 * the chosen rows of every stretch of rows, and the counts of all processes are added. From them, each knows in which stretches its
 * part of the chosen rows lies, and looks only at the labels there. So the parts are equal, however the table is sorted, and the
 * same as if every process had looked at all labels. */
#include "data/features.h"

enum { STRETCH = 4096 }; /* rows */

static bool is_chosen(const struct row_choice *choice, const int8_t *marks) {
    bool any = false;
    for (size_t j = 0; j < choice->column_count && !any; j++) {
        any = marks[choice->columns[j]] == 1;
    }
    return any;
}

/* Counts the chosen ones of the rows [first, end) in each stretch. */
static l3a_status count_chosen(const struct row_choice *choice, size_t first, size_t end, uint64_t *counts) {
    const l3a_features *features = choice->features;
    l3a_status status = L3A_OK;
    const size_t window = marks_window(features);
    int8_t *room = NULL;
    const int8_t *found;
    TRY(marks_room(features, &room));
    for (size_t n; first < end; first += n) {
        n = end - first < window ? end - first : window;
        TRY(marks_find(features, choice->marks, first, n, room, &found));
        for (size_t i = 0; i < n; i++) {
            counts[(first + i) / STRETCH] += is_chosen(choice, found + i * features->classes.count);
        }
    }
done:
    release(features->context, room);
    return status;
}

l3a_status choice_make(l3a_features *features, enum chosen_by by, const size_t *columns, size_t column_count,
                       struct row_choice *choice) {
    l3a_context *context = features->context;
    l3a_status status = L3A_OK;
    const size_t stretches = features->rows / STRETCH + 1;
    size_t first = 0, count = features->rows;
    *choice = (struct row_choice){.features = features,
                                  .marks = by == BY_MEMBER && features->members.held ? &features->members : &features->labels,
                                  .columns = columns,
                                  .column_count = column_count};
    if (features->divided) {
        own_part(context, features->rows, &first, &count);
    }
    TRY(allocate_zeroed(context, stretches + 1, sizeof *choice->before, &choice->before));
    TRY(count_chosen(choice, first, first + count, choice->before + 1));
    if (features->divided) {
        TRY(sum_counts(context, choice->before, stretches + 1));
    }
    for (size_t i = 0; i < stretches; i++) {
        choice->before[i + 1] += choice->before[i];
    }
    choice->count = (size_t)choice->before[stretches];
done:
    if (status != L3A_OK) {
        choice_free(choice);
    }
    return status;
}

void choice_free(struct row_choice *choice) {
    if (choice->features) {
        release(choice->features->context, choice->before);
        *choice = (struct row_choice){0};
    }
}

l3a_status choice_list(const struct row_choice *choice, size_t first, size_t count, size_t **rows) {
    const l3a_features *features = choice->features;
    l3a_status status = L3A_OK;
    const size_t window = marks_window(features), end = first + count;
    size_t *list = NULL, stretch = 0;
    int8_t *room = NULL;
    const int8_t *found;
    TRY(allocate(features->context, count, sizeof *list, &list));
    TRY(marks_room(features, &room));
    while (count && choice->before[stretch + 1] <= first) {
        stretch++;
    }
    size_t at = count ? (size_t)choice->before[stretch] : end; /* the number of the next chosen row */
    for (size_t row = stretch * STRETCH, n; at < end && row < features->rows; row += n) {
        n = features->rows - row < window ? features->rows - row : window;
        TRY(marks_find(features, choice->marks, row, n, room, &found));
        for (size_t i = 0; i < n && at < end; i++) {
            if (is_chosen(choice, found + i * features->classes.count)) {
                list[at < first ? 0 : at - first] = row + i;
                at++;
            }
        }
    }
    FAIL_IF(at < end, features->context, L3A_ERROR_IO, "start again", "%s: the labels have changed while they were read",
            features->path);
    *rows = list;
    list = NULL;
done:
    release(features->context, list);
    release(features->context, room);
    return status;
}

l3a_status own_rows_find(l3a_features *features, enum chosen_by by, const size_t *columns, size_t column_count,
                         struct own_rows *own) {
    l3a_status status = L3A_OK;
    struct row_choice choice = {0};
    *own = (struct own_rows){0};
    TRY(choice_make(features, by, columns, column_count, &choice));
    own->all = choice.count;
    own_part(features->context, own->all, &own->first, &own->count);
    TRY(choice_list(&choice, own->first, own->count, &own->rows));
done:
    choice_free(&choice);
    return status;
}

l3a_status features_rows_with(l3a_features *features, const size_t *columns, size_t column_count, size_t **rows, size_t *count) {
    l3a_status status = L3A_OK;
    struct row_choice choice = {0};
    TRY(choice_make(features, BY_LABEL, columns, column_count, &choice));
    TRY(choice_list(&choice, 0, choice.count, rows));
    *count = choice.count;
done:
    choice_free(&choice);
    return status;
}

l3a_status features_count_rows(l3a_features *features, enum chosen_by by, const size_t *columns, size_t column_count,
                               uint64_t *count) {
    struct row_choice choice = {0};
    const l3a_status status = choice_make(features, by, columns, column_count, &choice);
    *count = choice.count;
    choice_free(&choice);
    return status;
}
