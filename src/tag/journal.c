#include "tag/journal_file.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <errno.h>
#include <math.h>
#include <string.h>

const char journal_line[JOURNAL_LINE] = "l3a history 1\n", journal_line_commits[JOURNAL_LINE] = "l3a history 2\n";
const char record_mark[8] = {'l', '3', 'a', '-', 'h', 'i', 's', 't'};
const char commit_mark[8] = {'l', '3', 'a', '-', 'c', 'o', 'm', 'm'};
enum { VERSION_DIGIT = 12 };
static const uint64_t UNKNOWN = UINT64_MAX;

uint64_t record_sum(const struct record_head *head) {
    return XXH3_64bits(head, offsetof(struct record_head, sum));
}

static bool is_commit(const struct record_head *head) {
    return memcmp(head->mark, commit_mark, sizeof head->mark) == 0;
}

static l3a_status keep_entry(struct journal *journal, struct entry *entry) {
    const l3a_status status =
        grow_array(journal->context, &journal->entries, &journal->capacity, journal->count + 1, sizeof *journal->entries);
    if (status == L3A_OK) {
        journal->entries[journal->count++] = entry;
    }
    return status;
}

static bool is_record(const struct record_head *head) {
    return (memcmp(head->mark, record_mark, sizeof record_mark) == 0 || is_commit(head)) && head->sum == record_sum(head);
}

enum finding { GOOD, TORN, DAMAGED };

/* Reads the record at an offset. What is not complete is torn only if it says so itself. */
static l3a_status read_record(struct journal *journal, const input_file *input, uint64_t offset, enum finding *finding) {
    l3a_context *context = journal->context;
    struct record_head head;
    char *description = NULL;
    struct entry *entry = NULL;
    uint64_t sum;
    l3a_status status = L3A_OK;
    const uint64_t start = offset + sizeof head, left = input->size - offset;
    *finding = TORN;
    if (left < sizeof head) {
        return L3A_OK;
    }
    TRY(input_read(input, offset, &head, sizeof head));
    const uint64_t room = left - sizeof head;
    const bool sound = is_record(&head);
    if (!sound || head.description > room || head.features > room - head.description) {
        *finding = sound ? TORN : DAMAGED;
        return L3A_OK;
    }
    *finding = DAMAGED;
    TRY(allocate(context, (size_t)head.description, 1, &description));
    TRY(input_read(input, start, description, (size_t)head.description));
    TRY(input_checksum(input, start + head.description, head.features, &sum));
    if (sum == head.features_sum && XXH3_64bits(description, (size_t)head.description) == head.description_sum) {
        TRY(entry_understand(context, description, (size_t)head.description, head.features, is_commit(&head), &entry));
    }
    if (entry) {
        entry->offset = offset;
        entry->length = sizeof head + head.description + head.features;
        TRY(keep_entry(journal, entry));
        entry = NULL;
        *finding = GOOD;
    }
done:
    entry_free(context, entry);
    release(context, description);
    return status;
}

/* Reads records from an offset on, until one is not good; moves the offset past the last good one. */
static l3a_status read_records(struct journal *journal, const input_file *input, uint64_t *offset, enum finding *finding) {
    l3a_status status = L3A_OK;
    do {
        TRY(read_record(journal, input, *offset, finding));
        if (*finding == GOOD) {
            const struct entry *last = journal->entries[journal->count - 1];
            *offset = last->offset + last->length;
        }
    } while (*finding == GOOD);
done:
    return status;
}

/* The next place from an offset on that may be the head of a record; the size of the file if there is none. */
static l3a_status find_mark(struct journal *journal, const input_file *input, uint64_t *offset) {
    enum { PIECE = 1 << 16 };
    char *piece = NULL;
    bool found = false;
    l3a_status status = L3A_OK;
    TRY(allocate(journal->context, PIECE, 1, &piece));
    while (!found && input->size - *offset >= sizeof(struct record_head)) {
        const size_t count = input->size - *offset < PIECE ? (size_t)(input->size - *offset) : PIECE;
        size_t at = 0;
        TRY(input_read(input, *offset, piece, count));
        for (; at + sizeof(struct record_head) <= count && !found; at += !found) {
            if (piece[at] == record_mark[0]) {
                struct record_head head;
                memcpy(&head, piece + at, sizeof head);
                found = is_record(&head);
            }
        }
        *offset += at;
    }
    *offset = found ? *offset : input->size;
done:
    release(journal->context, piece);
    return status;
}

/* Reads the good records that follow damage. */
static l3a_status read_behind(struct journal *journal, const input_file *input) {
    enum finding finding;
    l3a_status status = L3A_OK;
    for (uint64_t offset = journal->end; offset < input->size;) {
        uint64_t next = offset + 1;
        TRY(find_mark(journal, input, &next));
        journal->lost += next - offset;
        offset = next;
        if (offset < input->size) {
            TRY(read_records(journal, input, &offset, &finding));
        }
    }
done:
    return status;
}

/* The first line may be incomplete if the process that created the file was killed, and zeros after a power cut. */
static l3a_status read_first_line(struct journal *journal, const input_file *input) {
    static const char zeros[sizeof journal_line];
    char line[sizeof journal_line] = "";
    l3a_status status = L3A_OK;
    const size_t count = input->size < sizeof line ? (size_t)input->size : sizeof line;
    TRY(input_read(input, 0, line, count));
    if (input->size <= sizeof line && memcmp(line, zeros, count) == 0) {
        return L3A_OK;
    }
    FAIL_IF(memcmp(line, journal_line, count < VERSION_DIGIT ? count : VERSION_DIGIT) != 0, journal->context, L3A_ERROR_FORMAT,
            "move this file away; what was taught before can then no longer be undone", "%s: this is not a history of l3a",
            journal->path);
    journal->commits = count > VERSION_DIGIT && memcmp(line, journal_line_commits, count) == 0;
    FAIL_IF(memcmp(line, journal_line, count) != 0 && !journal->commits, journal->context, L3A_ERROR_VERSION,
            "use the version of l3a that wrote it, or a newer one", "%s: version '%c' of histories is not known", journal->path,
            line[VERSION_DIGIT]);
    journal->end = count == sizeof line ? count : 0;
done:
    return status;
}

file_description journal_describe_file(const struct journal *journal) {
    file_description file;
    const bool found = journal->context->files->describe(journal->path, &file) == 0;
    return found ? file : (file_description){.size = errno == ENOENT ? 0 : UNKNOWN};
}

bool journal_is_current(const struct journal *journal) {
    const file_description now = journal_describe_file(journal), *then = &journal->file;
    return then->size == UNKNOWN || (now.device == then->device && now.inode == then->inode && now.size == then->size);
}

l3a_status journal_read(l3a_context *context, const char *path, struct journal *journal) {
    input_file input = {.file = -1};
    bool exists;
    enum finding finding = TORN;
    l3a_status status = L3A_OK;
    *journal = (struct journal){.context = context};
    TRY(copy_text(context, path, strlen(path), &journal->path));
    TRY(file_exists(context, path, &exists));
    if (!exists) {
        goto done;
    }
    TRY(input_open(context, path, &input));
    journal->size = input.size;
    TRY(read_first_line(journal, &input));
    if (journal->end) {
        TRY(read_records(journal, &input, &journal->end, &finding));
    }
    journal->damaged = finding == DAMAGED;
    if (journal->damaged) {
        TRY(read_behind(journal, &input));
    }
    journal->file = journal_describe_file(journal);
done:
    input_close(&input);
    if (status != L3A_OK) {
        journal_free(journal);
    }
    return status;
}

void journal_free(struct journal *journal) {
    for (size_t i = 0; i < journal->count; i++) {
        entry_free(journal->context, journal->entries[i]);
    }
    if (journal->context) {
        release(journal->context, journal->entries);
        release(journal->context, journal->path);
    }
    *journal = (struct journal){0};
}

static l3a_status check_features(l3a_context *context, const char *path, const float *features, size_t count) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < count; i++) {
        FAIL_IF(!isfinite(features[i]), context, L3A_ERROR_FORMAT, "move this file away; what was taught can then not be undone",
                "%s: a feature is not finite", path);
    }
done:
    return status;
}

l3a_status journal_features(const struct journal *journal, const struct entry *entry, size_t first, size_t count, float *features) {
    const uint64_t row = entry->width * sizeof *features, start = entry->offset + entry->length - entry->row_count * row;
    input_file input = {.file = -1};
    l3a_status status = L3A_OK;
    if (entry->features) {
        memcpy(features, entry->features + first * entry->width, count * row);
        return L3A_OK;
    }
    TRY(input_open(journal->context, journal->path, &input));
    TRY(input_read(&input, start + first * row, features, count * row));
    TRY(check_features(journal->context, journal->path, features, count * entry->width));
done:
    input_close(&input);
    return status;
}

l3a_status journal_find_features(const struct journal *journal, const struct entry *entry, size_t first, size_t count,
                                 float **owned, const float **features) {
    l3a_status status = L3A_OK;
    *owned = NULL;
    if (entry->features) {
        *features = entry->features + first * entry->width;
    } else {
        TRY(allocate(journal->context, count, entry->width * sizeof **owned, owned));
        TRY(journal_features(journal, entry, first, count, *owned));
        *features = *owned;
    }
done:
    return status;
}

l3a_status journal_load(const struct journal *journal, struct entry *entry) {
    float *features = NULL;
    l3a_status status = L3A_OK;
    if (!entry->features && entry->row_count) {
        TRY(allocate(journal->context, entry->row_count, entry->width * sizeof *features, &features));
        TRY(journal_features(journal, entry, 0, entry->row_count, features));
        entry->features = features;
        features = NULL;
    }
done:
    release(journal->context, features);
    return status;
}

struct entry *journal_find_before(const struct journal *journal, uint64_t id, size_t *before) {
    while (id && *before) {
        if (journal->entries[--*before]->id == id && journal->entries[*before]->kind != ENTRY_UNDO) {
            return journal->entries[*before];
        }
    }
    return NULL;
}
