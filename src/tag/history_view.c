/* What the history tells: its entries, and the pictures that the model knows. */
#include "base/sized.h"
#include "data/features.h"
#include "learn/model.h"
#include "tag/history.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Entries ---- */

const l3a_model *l3a_history_model(const l3a_history *history) {
    return history ? *history->model : NULL;
}

size_t l3a_history_count(const l3a_history *history) {
    return history ? history->count : 0;
}

uint64_t l3a_history_bytes(const l3a_history *history) {
    return history ? history->journal.size : 0;
}

const char *l3a_history_path(const l3a_history *history) {
    return history ? history->path : NULL;
}

const char *l3a_history_gap(const l3a_history *history) {
    return history ? history->gap : NULL;
}

static const struct entry *entry_at(const l3a_history *history, size_t index) {
    return history && index < history->count ? history->entries[index] : NULL;
}

static size_t pictures_showing(const struct entry *entry, size_t class) {
    size_t count = 0;
    for (size_t i = entry->back_count; i < entry->row_count; i++) {
        count += entry->labels[i * entry->classes.count + class] == 1;
    }
    return count;
}

static const char *kind_name(const struct entry *entry) {
    static const char *const names[] = {[ENTRY_TEACH] = "teach",
                                        [ENTRY_RENAME] = "rename",
                                        [ENTRY_MERGE] = "merge",
                                        [ENTRY_NOT_KEPT] = "not kept",
                                        [ENTRY_UNDO] = "undo"};
    return entry->kind == ENTRY_TEACH && (entry->back_count == entry->row_count || entry_takes_back(entry)) ? "take back"
           : entry->kind == ENTRY_TEACH && entry->back_count                                                ? "instead"
                                                                                                            : names[entry->kind];
}

l3a_status l3a_history_entry_at(const l3a_history *history, size_t index, l3a_history_entry *entry) {
    REQUIRE(history, history, entry);
    const struct entry *found = entry_at(history, index);
    l3a_status status = L3A_OK;
    TRY(CHECK_SIZED(history->context, entry));
    FAIL_IF(!found, history->context, L3A_ERROR_ARGUMENT, NULL, "entry %zu of %zu", index, history->count);
    l3a_history_entry made = {.number = found->number,
                              .seconds = found->seconds,
                              .kind = kind_name(found),
                              .pictures = (size_t)found->pictures,
                              .taken_back = found->back_count,
                              .new_classes = found->new_classes,
                              .old_name = entry_renames(found) ? found->classes.items[0] : NULL,
                              .new_name = entry_renames(found) ? found->classes.items[1] : NULL,
                              .can_undo = 1,
                              .id = found->id};
    for (size_t k = 0; k < found->classes.count && !entry_renames(found); k++) {
        made.classes += pictures_showing(found, k) > 0;
    }
    for (size_t i = index; i < history->count; i++) {
        made.can_undo = made.can_undo && history_can_revert(history, i);
    }
    TRY(WRITE_SIZED(history->context, entry, made));
done:
    return status;
}

const char *l3a_history_class(const l3a_history *history, size_t entry, size_t index, size_t *pictures) {
    const struct entry *found = entry_at(history, entry);
    for (size_t k = 0; found && pictures && !entry_renames(found) && k < found->classes.count; k++) {
        const size_t count = pictures_showing(found, k);
        if (count && index-- == 0) {
            *pictures = count;
            return found->classes.items[k];
        }
    }
    return NULL;
}

const char *l3a_history_picture(const l3a_history *history, size_t entry, size_t index) {
    const struct entry *found = entry_at(history, entry);
    return found && index < found->row_count - found->back_count ? found->rows[found->back_count + index].path : NULL;
}

const char *l3a_history_tags(const l3a_history *history, size_t entry, size_t index) {
    const struct entry *found = entry_at(history, entry);
    return found && index < found->row_count - found->back_count
               ? entry_tags(history->context, history->entries[entry], found->back_count + index)
               : NULL;
}

/* ---- Pictures that the model knows ---- */

l3a_status history_index(const l3a_history *history, const struct known_index **index) {
    *index = history->known;
    return known_update(history->known, history->entries, history->count);
}

l3a_status history_known(const l3a_history *history, struct known **pictures, size_t *count) {
    const struct known_index *index;
    struct known *made = NULL;
    l3a_status status = L3A_OK;
    TRY(history_index(history, &index));
    TRY(allocate(history->context, index->count, sizeof *made, &made));
    *count = 0;
    for (size_t i = 0; i < index->count; i++) {
        if (!index->records[i].taken_back) {
            made[(*count)++] = index->records[i].picture;
        }
    }
    *pictures = made;
done:
    return status;
}

/* The name that a class of an entry has now. */
static const char *name_now(const l3a_history *history, size_t position, const char *name) {
    const struct known_index *index = history->known;
    for (size_t i = 0; i < index->rename_count; i++) {
        const struct entry *entry = history->entries[index->renames[i]];
        if (index->renames[i] > position && strcmp(entry->classes.items[0], name) == 0) {
            name = entry->classes.items[1];
        }
    }
    return name;
}

/* The class of the model that class k of an entry is now; SIZE_MAX: none. It is often number k of the model, too. */
static size_t class_now(const l3a_history *history, const struct known *picture, size_t k) {
    const text_list *classes = &(*history->model)->classes;
    const char *name = name_now(history, picture->position, picture->entry->classes.items[k]);
    const size_t class = k < classes->count && strcmp(classes->items[k], name) == 0 ? k : text_list_find(classes, name);
    return class < classes->count ? class : SIZE_MAX;
}

/* If two classes have become one, the picture shows it if it showed either. */
void history_labels(const l3a_history *history, const struct known *picture, int8_t *labels) {
    const struct entry *entry = picture->entry;
    const text_list *classes = &(*history->model)->classes;
    memset(labels, -1, classes->count);
    for (size_t k = 0; k < entry->classes.count; k++) {
        const int8_t label = entry->labels[picture->row * entry->classes.count + k];
        const size_t class = label >= 0 ? class_now(history, picture, k) : SIZE_MAX;
        if (class != SIZE_MAX && label > labels[class]) {
            labels[class] = label;
        }
    }
}

/* An absolute path that may still contain symbolic links. */
static l3a_status absolute_path(l3a_context *context, const char *path, char **absolute) {
    char *here = NULL;
    l3a_status status = L3A_OK;
    if (path[0] == '/') {
        return copy_text(context, path, strlen(path), absolute);
    }
    TRY(resolve_path(context, ".", &here));
    while (strncmp(path, "./", 2) == 0) {
        path += 2 + strspn(path + 2, "/");
    }
    TRY(strcmp(path, ".") == 0 ? copy_text(context, here, strlen(here), absolute)
                               : join_path(context, strcmp(here, "/") == 0 ? "" : here, path, absolute));
done:
    release(context, here);
    return status;
}

l3a_status history_paths(const l3a_history *history, const char *path, char **absolute, char **relative) {
    l3a_context *context = history->context;
    char *folder = NULL, *below = NULL;
    l3a_status status = L3A_OK;
    const char *slash = strrchr(history->path, '/');
    TRY(absolute_path(context, path, absolute));
    TRY(copy_text(context, slash ? history->path : ".", slash ? (size_t)(slash - history->path) : 1, &folder));
    TRY(absolute_path(context, folder, &below));
    const size_t length = strlen(below);
    const bool inside = strncmp(*absolute, below, length) == 0 && (*absolute)[length] == '/';
    const char *rest = inside ? *absolute + length + 1 : "";
    TRY(copy_text(context, rest, strlen(rest), relative));
done:
    release(context, folder);
    release(context, below);
    return status;
}

l3a_status l3a_history_load(l3a_history *history) {
    REQUIRE(history, history);
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < history->count; i++) {
        TRY(journal_load(&history->journal, history->entries[i]));
    }
done:
    return status;
}

/* Whether a row was judged for all classes that its entry knows. */
static bool row_is_complete(const struct entry *entry, size_t row) {
    return !memchr(entry->labels + row * entry->classes.count, -1, entry->classes.count);
}

/* Calls back for a picture that the model knows. labels: room for those of all classes. */
static l3a_status call_back(const l3a_history *history, const struct known *picture, int8_t *labels, l3a_taught_callback *each,
                            void *user) {
    const struct pictured *row = &picture->entry->rows[picture->row];
    l3a_status status = L3A_OK;
    history_labels(history, picture, labels);
    FAIL_IF(each(row->path, row->checksum, labels, row_is_complete(picture->entry, picture->row), user), history->context,
            L3A_ERROR_CANCELLED, NULL, "the pictures that were taught: cancelled");
done:
    return status;
}

l3a_status l3a_history_pictures(const l3a_history *history, l3a_taught_callback *each, void *user) {
    REQUIRE(history, history, each);
    l3a_context *context = history->context;
    struct known *pictures = NULL;
    size_t count = 0;
    int8_t *labels = NULL;
    l3a_status status = L3A_OK;
    TRY(history_known(history, &pictures, &count));
    TRY(allocate(context, (*history->model)->classes.count, 1, &labels));
    for (size_t i = 0; i < count; i++) {
        TRY(call_back(history, &pictures[i], labels, each, user));
    }
done:
    release(context, pictures);
    release(context, labels);
    return status;
}

l3a_status l3a_history_find(const l3a_history *history, uint64_t checksum, l3a_taught_callback *each, void *user) {
    REQUIRE(history, history, each);
    l3a_context *context = history->context;
    const struct known_index *index;
    int8_t *labels = NULL;
    l3a_status status = L3A_OK;
    TRY(history_index(history, &index));
    const struct known found = known_by_checksum(index, checksum);
    if (found.entry) {
        TRY(allocate(context, (*history->model)->classes.count, 1, &labels));
        TRY(call_back(history, &found, labels, each, user));
    }
done:
    release(context, labels);
    return status;
}

/* Whether a picture that was judged again was only judged for fewer classes: what was said of the others holds. Both are labels. */
static bool says_the_same(const int8_t *before, const int8_t *now, size_t classes) {
    bool same = true;
    for (size_t k = 0; k < classes; k++) {
        same = same && (now[k] == before[k] || (now[k] < 0 && before[k] == 0));
    }
    return same;
}

struct known history_row_now(const l3a_history *history, const struct known_index *index, size_t position, size_t row,
                             int8_t *labels) {
    const size_t classes = (*history->model)->classes.count;
    const struct known_record *record = &index->records[index->starts[position] + row - history->entries[position]->back_count];
    history_labels(history, &record->picture, labels);
    while (record && record->taken_back) {
        record = known_next(index, record);
        if (record) {
            history_labels(history, &record->picture, labels + classes);
            record = entry_takes_back(record->picture.entry) && says_the_same(labels, labels + classes, classes) ? record : NULL;
        }
    }
    return record ? record->picture : (struct known){0};
}

l3a_status l3a_history_lesson(const l3a_history *history, size_t entry, l3a_lesson_callback *each, void *user) {
    REQUIRE(history, history, each);
    l3a_context *context = history->context;
    const struct known_index *index;
    int8_t *labels = NULL;
    l3a_status status = L3A_OK;
    FAIL_IF(entry >= history->count, context, L3A_ERROR_ARGUMENT, NULL, "entry %zu of %zu", entry, history->count);
    struct entry *found = history->entries[entry];
    TRY(history_index(history, &index));
    TRY(allocate(context, 2, (*history->model)->classes.count, &labels));
    for (size_t row = found->back_count; row < found->row_count; row++) {
        const struct pictured *picture = &found->rows[row];
        const bool held = history_row_now(history, index, entry, row, labels).entry != NULL;
        FAIL_IF(each(picture->path, picture->checksum, labels, row_is_complete(found, row), held, user), context,
                L3A_ERROR_CANCELLED, NULL, "the pictures of a lesson: cancelled");
    }
done:
    release(context, labels);
    return status;
}

size_t l3a_history_held(const l3a_history *history, size_t entry) {
    const struct entry *found = entry_at(history, entry);
    const struct known_index *index;
    size_t held = 0;
    int8_t *labels = NULL;
    if (!found || history_index(history, &index) != L3A_OK ||
        allocate(history->context, 2, (*history->model)->classes.count, &labels) != L3A_OK) {
        return 0;
    }
    for (size_t row = found->back_count; row < found->row_count; row++) {
        held += history_row_now(history, index, entry, row, labels).entry != NULL;
    }
    release(history->context, labels);
    return held;
}

size_t l3a_history_checksums(const l3a_history *history, size_t entry, uint64_t *checksums, size_t capacity) {
    const struct entry *found = entry_at(history, entry);
    for (size_t i = 0; found && checksums && i < found->row_count && i < capacity; i++) {
        checksums[i] = found->rows[i].checksum;
    }
    return found ? found->row_count : 0;
}
