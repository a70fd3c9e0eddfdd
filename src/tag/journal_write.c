/* Writing the journal: adding records, removing them, and writing the file again where it is damaged. */
#include "tag/journal_file.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static l3a_status write_all(const struct journal *journal, int file, uint64_t offset, const void *bytes, size_t count) {
    const output_file output = {.context = journal->context, .path = journal->path, .file = file};
    return output_write(&output, offset, bytes, count);
}

/* Nothing is promised to be kept that could not be read again. */
static l3a_status check_description(const struct journal *journal, const text_builder *description, const struct record_head *head,
                                    bool commit) {
    struct entry *entry = NULL;
    l3a_status status = L3A_OK;
    TRY(entry_understand(journal->context, description->text, description->length, head->features, commit, &entry));
    FAIL_IF(!entry, journal->context, L3A_ERROR_ARGUMENT, "use shorter names", "%s: the history cannot hold this lesson",
            journal->path);
done:
    entry_free(journal->context, entry);
    return status;
}

/* Writes a record at an offset, and moves the offset past it. */
static l3a_status write_record(const struct journal *journal, int file, struct entry *entry, uint64_t *offset) {
    text_builder description = {.context = journal->context};
    const uint64_t bytes = (uint64_t)entry->row_count * entry->width * sizeof *entry->features;
    l3a_status status = L3A_OK;
    entry_describe(entry, &description);
    TRY(description.status);
    struct record_head head = {.description = description.length,
                               .features = bytes,
                               .description_sum = XXH3_64bits(description.text, description.length),
                               .features_sum = XXH3_64bits(entry->features ? (const void *)entry->features : "", (size_t)bytes)};
    memcpy(head.mark, entry->sequence ? commit_mark : record_mark, sizeof head.mark);
    head.sum = record_sum(&head);
    TRY(check_description(journal, &description, &head, entry->sequence > 0));
    const uint64_t start = *offset;
    TRY(write_all(journal, file, start, &head, sizeof head));
    TRY(write_all(journal, file, start + sizeof head, description.text, description.length));
    TRY(write_all(journal, file, start + sizeof head + description.length, entry->features, (size_t)bytes));
    entry->offset = start;
    entry->length = sizeof head + description.length + bytes;
    *offset += entry->length;
done:
    text_builder_free(&description);
    return status;
}

/* Makes what was cut off and written so far certain, so that a power cut leaves at most one torn record, with none behind it. */
static l3a_status settle(const struct journal *journal, int file) {
    return journal->context->files->sync(file) ? fail_system(journal->context, journal->path, "sync", errno) : L3A_OK;
}

/* Only the owner may read the file, even if it was copied here with another mode. Before anything is written, what was found is
 * made certain, since a process that was killed may have left it unsynced: the records, the name of the file, and that of the
 * model. */
static l3a_status open_to_write(struct journal *journal, int *file) {
    const file_operations *files = journal->context->files;
    *file = files->open(journal->path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (*file < 0) {
        return fail_system(journal->context, journal->path, "write", errno);
    }
    if (files->set_mode(*file, 0600) && errno != EPERM && errno != ENOTSUP && errno != ENOSYS) {
        return fail_system(journal->context, journal->path, "make this file private", errno);
    }
    l3a_status status = L3A_OK;
    if (!journal->certain) {
        TRY(settle(journal, *file));
        TRY(sync_folder_of(journal->context, journal->path));
        journal->certain = true;
    }
done:
    return status;
}

/* Syncs and closes. If the sync fails, the file stays open. */
static l3a_status close_written(l3a_context *context, const char *path, int *file) {
    const file_operations *files = context->files;
    if (files->sync(*file)) {
        return fail_system(context, path, "sync", errno);
    }
    const int closed = files->close(*file);
    *file = -1;
    return closed ? fail_system(context, path, "close", errno) : L3A_OK;
}

/* Frees the entries that begin after `keep` bytes. */
static void drop_entries(struct journal *journal, uint64_t keep) {
    while (journal->count && journal->entries[journal->count - 1]->offset >= keep) {
        entry_free(journal->context, journal->entries[--journal->count]);
    }
}

struct copying {
    output_file output;
    uint64_t offset;
    l3a_status status;
};

static void copy_piece(void *user, const char *bytes, size_t count) {
    struct copying *copying = user;
    if (copying->status == L3A_OK) {
        copying->status = output_write(&copying->output, copying->offset, bytes, count);
        copying->offset += count;
    }
}

/* Creates "MODEL.history.damaged-1" or, if that is there, the one with the next number. */
static l3a_status create_copy(const struct journal *journal, char **path, int *file) {
    enum { MOST = 10000, ROOM = 32 };
    l3a_context *context = journal->context;
    const size_t size = strlen(journal->path) + ROOM;
    l3a_status status = L3A_OK;
    TRY(allocate(context, size, 1, path));
    errno = EEXIST;
    for (int i = 1; i <= MOST && *file < 0 && errno == EEXIST; i++) {
        snprintf(*path, size, "%s.damaged-%d", journal->path, i);
        *file = context->files->open(*path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    }
    if (*file < 0) {
        status = fail_system(context, *path, "keep a copy of the damaged history", errno);
    }
done:
    return status;
}

/* Copies what follows `from` bytes to a file of its own, and says so. */
static l3a_status copy_damaged(const struct journal *journal, uint64_t from) {
    l3a_context *context = journal->context;
    struct copying copying = {.output = {.context = context, .path = journal->path, .file = -1}};
    input_file input = {.file = -1};
    char *path = NULL;
    l3a_status status = L3A_OK;
    TRY(input_open(context, journal->path, &input));
    TRY(create_copy(journal, &path, &copying.output.file));
    copying.output.path = path;
    TRY(input_scan(&input, from < input.size ? from : input.size, input.size - (from < input.size ? from : input.size), copy_piece,
                   &copying));
    TRY(copying.status);
    TRY(close_written(context, path, &copying.output.file));
    TRY(sync_folder_of(context, path));
    report_warning(context, "%s: a copy of what was damaged is in %s", journal->path, path);
done:
    if (copying.output.file >= 0) {
        context->files->remove(path);
        context->files->close(copying.output.file);
    }
    input_close(&input);
    release(context, path);
    return status;
}

l3a_status journal_add(struct journal *journal, uint64_t keep, struct entry *const *entries, size_t count) {
    l3a_context *context = journal->context;
    int file = -1;
    bool commits = keep && journal->commits;
    uint64_t offset = keep;
    l3a_status status = L3A_OK;
    TRY(grow_array(context, &journal->entries, &journal->capacity, journal->count + count, sizeof *journal->entries));
    TRY(journal->damaged ? copy_damaged(journal, journal->end) : L3A_OK);
    TRY(open_to_write(journal, &file));
    drop_entries(journal, keep);
    if (context->files->truncate(file, (off_t)keep)) {
        status = fail_system(context, journal->path, "shorten this file", errno);
        goto done;
    }
    journal->damaged = false;
    TRY(count && journal->size > keep ? settle(journal, file) : L3A_OK);
    for (size_t i = 0; i < count; i++) {
        commits = commits || entries[i]->sequence;
    }
    if (!keep || commits != journal->commits) {
        TRY(write_all(journal, file, 0, commits ? journal_line_commits : journal_line, sizeof journal_line));
        offset = keep ? keep : sizeof journal_line;
        journal->commits = commits;
        TRY(keep ? L3A_OK : settle(journal, file));
    }
    for (size_t i = 0; i < count; i++) {
        TRY(i ? settle(journal, file) : L3A_OK);
        TRY(write_record(journal, file, entries[i], &offset));
    }
    TRY(close_written(context, journal->path, &file));
    for (size_t i = 0; i < count; i++) {
        journal->entries[journal->count++] = entries[i];
    }
    journal->end = journal->size = offset;
    journal->file = journal_describe_file(journal);
done:
    for (size_t i = 0; i < count && status != L3A_OK; i++) {
        entries[i]->length = 0;
    }
    if (file >= 0) { /* a failure: what was not kept should not be found later; if it stays, the next record replaces it */
        context->files->truncate(file, (off_t)keep);
        context->files->close(file);
        journal->file = journal_describe_file(journal);
    }
    return status;
}

/* Replaces the file by one that has only these entries, some of which may be new. *replaced: it is in place, even if something
 * failed afterwards. */
static l3a_status write_again(struct journal *journal, struct entry *const *entries, size_t count, bool *replaced) {
    struct copying copying = {.output = {.file = -1}};
    input_file input = {.file = -1};
    l3a_status status = L3A_OK;
    *replaced = false;
    TRY(input_open(journal->context, journal->path, &input));
    TRY(output_open(journal->context, journal->path, &copying.output));
    copy_piece(&copying, journal->commits ? journal_line_commits : journal_line, sizeof journal_line);
    for (size_t i = 0; i < count; i++) {
        TRY(copying.status);
        TRY(entries[i]->length ? input_scan(&input, entries[i]->offset, entries[i]->length, copy_piece, &copying)
                               : write_record(journal, copying.output.file, entries[i], &copying.offset));
    }
    TRY(copying.status);
    status = output_commit(&copying.output);
    *replaced = copying.output.in_place;
    uint64_t offset = sizeof journal_line;
    for (size_t i = 0; i < count && *replaced; i++) {
        entries[i]->offset = offset;
        offset += entries[i]->length;
    }
    if (*replaced) {
        journal->end = journal->size = offset;
    }
done:
    output_discard(&copying.output);
    input_close(&input);
    return status;
}

static void list(struct entry *const *entries, size_t count, bool listed) {
    for (size_t i = 0; i < count; i++) {
        entries[i]->listed = listed;
    }
}

/* Frees all entries but these, which are then the journal's. There is room for them. */
static void adopt(struct journal *journal, struct entry *const *entries, size_t count) {
    list(journal->entries, journal->count, false);
    list(entries, count, true);
    for (size_t i = 0; i < journal->count; i++) {
        if (!journal->entries[i]->listed) {
            entry_free(journal->context, journal->entries[i]);
        }
    }
    if (count) {
        memcpy(journal->entries, entries, count * sizeof *entries);
    }
    journal->count = count;
    journal->file = journal_describe_file(journal);
}

l3a_status journal_keep(struct journal *journal, struct entry *const *entries, size_t count) {
    l3a_context *context = journal->context;
    l3a_status status = L3A_OK;
    size_t same = 0;
    bool replaced = true;
    while (same < count && same < journal->count && journal->entries[same] == entries[same]) {
        same++;
    }
    const uint64_t end = same ? entries[same - 1]->offset + entries[same - 1]->length : sizeof journal_line;
    if (journal->damaged && same < count + !count) {
        TRY(copy_damaged(journal, journal->end));
        journal->damaged = false;
    }
    if (!count) {
        TRY(remove_file(context, journal->path));
        journal->end = journal->size = 0;
        journal->commits = journal->certain = false;
    } else if (same < count) {
        status = write_again(journal, entries, count, &replaced);
    } else if (journal->size > end) {
        TRY(journal_add(journal, end, NULL, 0));
    }
    if (replaced) {
        adopt(journal, entries, count);
    }
done:
    return status;
}

l3a_status journal_repair(struct journal *journal, struct entry *const *entries, size_t count) {
    l3a_context *context = journal->context;
    bool replaced = true;
    l3a_status status = L3A_OK;
    TRY(grow_array(context, &journal->entries, &journal->capacity, count, sizeof *journal->entries));
    TRY(copy_damaged(journal, 0));
    if (count) {
        status = write_again(journal, entries, count, &replaced);
    } else {
        TRY(remove_file(context, journal->path));
        journal->end = journal->size = 0;
    }
    list(entries, count, false);
    list(journal->entries, journal->count, true);
    for (size_t i = 0; i < count && !replaced; i++) {
        entries[i]->length = entries[i]->listed ? entries[i]->length : 0;
    }
    if (replaced) {
        adopt(journal, entries, count);
        journal->damaged = false;
    }
done:
    return status;
}
