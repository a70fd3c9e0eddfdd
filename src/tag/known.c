#include "tag/known.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <string.h>

enum { BY_CHECKSUM, BY_PATH, BY_RELATIVE, FEWEST_CHAINS = 64 };

void known_free(struct known_index *index) {
    if (index->context) {
        release(index->context, index->records);
        release(index->context, index->heads);
        release(index->context, index->starts);
        release(index->context, index->renames);
    }
    *index = (struct known_index){.context = index->context};
}

static size_t *head_of(const struct known_index *index, size_t key, uint64_t hash) {
    return &index->heads[key * index->chains + (hash & (index->chains - 1))];
}

/* Puts a record at the head of its chains. */
static void link_record(struct known_index *index, size_t number) {
    struct known_record *record = &index->records[number];
    for (size_t key = 0; key < KNOWN_KEYS; key++) {
        size_t *head = head_of(index, key, record->hashes[key]);
        record->next[key] = *head;
        *head = number + 1;
    }
}

/* Makes room for `count` records, with about one in a chain. */
static l3a_status make_room(struct known_index *index, size_t count) {
    l3a_status status = L3A_OK;
    size_t chains = index->chains ? index->chains : FEWEST_CHAINS, *heads = NULL;
    TRY(grow_array(index->context, &index->records, &index->capacity, count, sizeof *index->records));
    while (chains < count) {
        chains *= 2;
    }
    if (chains > index->chains) {
        TRY(allocate_zeroed(index->context, chains, KNOWN_KEYS * sizeof *heads, &heads));
        release(index->context, index->heads);
        index->heads = heads;
        index->chains = chains;
        for (size_t i = 0; i < index->count; i++) {
            link_record(index, i);
        }
    }
done:
    return status;
}

/* The record that a row takes back; NULL: the history does not have it. */
static struct known_record *record_taken(const struct known_index *index, struct entry *const *entries,
                                         const struct pictured *row) {
    const uint64_t first = index->covered ? entries[0]->number : 0; /* numbers follow one another */
    if (!index->covered || row->lesson < first || row->lesson - first >= index->covered) {
        return NULL;
    }
    const size_t position = (size_t)(row->lesson - first);
    const struct entry *entry = entries[position];
    const bool there = entry->number == row->lesson && row->row >= entry->back_count && row->row < entry->row_count;
    return there ? &index->records[index->starts[position] + (size_t)row->row - entry->back_count] : NULL;
}

/* What the entry at `position` took back, or, if it is undone, what it had taken back. */
static void take_back(const struct known_index *index, struct entry *const *entries, size_t position, bool undone) {
    const struct entry *entry = entries[position];
    for (size_t i = 0; i < entry->back_count; i++) {
        struct known_record *taken = record_taken(index, entries, &entry->rows[i]);
        if (taken) {
            taken->taken_back = undone ? taken->taken_back - 1 : taken->taken_back + 1;
            taken->taken_by = undone ? SIZE_MAX : position;
        }
    }
}

static l3a_status add_entry(struct known_index *index, struct entry *const *entries) {
    l3a_context *context = index->context;
    const size_t position = index->covered;
    struct entry *entry = entries[position];
    l3a_status status = L3A_OK;
    TRY(grow_array(context, &index->starts, &index->start_capacity, position + 1, sizeof *index->starts));
    TRY(grow_array(context, &index->renames, &index->rename_capacity, index->rename_count + 1, sizeof *index->renames));
    TRY(make_room(index, index->count + entry->row_count - entry->back_count));
    take_back(index, entries, position, false);
    index->starts[position] = index->count;
    for (size_t row = entry->back_count; row < entry->row_count; row++) {
        const struct pictured *picture = &entry->rows[row];
        index->records[index->count] = (struct known_record){.picture = {entry, position, row},
                                                             .hashes = {XXH3_64bits(&picture->checksum, sizeof picture->checksum),
                                                                        XXH3_64bits(picture->path, strlen(picture->path)),
                                                                        XXH3_64bits(picture->relative, strlen(picture->relative))}};
        link_record(index, index->count++);
    }
    if (entry_renames(entry)) {
        index->renames[index->rename_count++] = position;
    }
    index->covered++;
done:
    return status;
}

l3a_status known_update(struct known_index *index, struct entry *const *entries, size_t count) {
    l3a_status status = L3A_OK;
    while (index->covered < count) {
        TRY(add_entry(index, entries));
    }
done:
    return status;
}

void known_forget_last(struct known_index *index, struct entry *const *entries, size_t count) {
    if (!count || index->covered < count) {
        return;
    }
    index->covered--;
    while (index->count > index->starts[index->covered]) {
        const struct known_record *record = &index->records[--index->count];
        for (size_t key = 0; key < KNOWN_KEYS; key++) {
            *head_of(index, key, record->hashes[key]) = record->next[key];
        }
    }
    index->rename_count -= entry_renames(entries[index->covered]);
    take_back(index, entries, index->covered, true);
}

static bool has_key(const struct known *picture, size_t key, uint64_t checksum, const char *text) {
    const struct pictured *row = &picture->entry->rows[picture->row];
    return key == BY_CHECKSUM ? row->checksum == checksum : strcmp(key == BY_PATH ? row->path : row->relative, text) == 0;
}

const struct known_record *known_next(const struct known_index *index, const struct known_record *record) {
    const struct pictured *row = &record->picture.entry->rows[record->picture.row];
    if (record->taken_back != 1) {
        return NULL;
    }
    for (size_t at = *head_of(index, BY_CHECKSUM, record->hashes[BY_CHECKSUM]); at; at = index->records[at - 1].next[BY_CHECKSUM]) {
        const struct known_record *next = &index->records[at - 1];
        if (next->picture.position == record->taken_by && has_key(&next->picture, BY_CHECKSUM, row->checksum, "") &&
            has_key(&next->picture, BY_PATH, row->checksum, row->path)) {
            return next;
        }
    }
    return NULL;
}

/* The last of a chain is the oldest. Returns its number plus 1, or 0. */
static size_t find(const struct known_index *index, size_t key, uint64_t checksum, const char *text) {
    const uint64_t hash = key == BY_CHECKSUM ? XXH3_64bits(&checksum, sizeof checksum) : XXH3_64bits(text, strlen(text));
    size_t found = 0;
    for (size_t at = index->chains ? *head_of(index, key, hash) : 0; at; at = index->records[at - 1].next[key]) {
        const struct known_record *record = &index->records[at - 1];
        found = !record->taken_back && record->hashes[key] == hash && has_key(&record->picture, key, checksum, text) ? at : found;
    }
    return found;
}

static struct known picture_at(const struct known_index *index, size_t found) {
    return found ? index->records[found - 1].picture : (struct known){0};
}

struct known known_by_checksum(const struct known_index *index, uint64_t checksum) {
    return picture_at(index, find(index, BY_CHECKSUM, checksum, NULL));
}

struct known known_by_path(const struct known_index *index, const char *absolute, const char *relative) {
    const size_t one = find(index, BY_PATH, 0, absolute), other = relative[0] ? find(index, BY_RELATIVE, 0, relative) : 0;
    return picture_at(index, !one || (other && other < one) ? other : one);
}
