#include "tag/journal.h"

#include "base/text_index.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char first_line[16] = "l3a history 1\n", first_commits[16] = "l3a history 2\n";
static const char record_mark[8] = {'l', '3', 'a', '-', 'h', 'i', 's', 't'};
static const char commit_mark[8] = {'l', '3', 'a', '-', 'c', 'o', 'm', 'm'};
enum { VERSION_DIGIT = 12, LONGEST_TEXT = 1 << 16 };
static const uint64_t UNKNOWN = UINT64_MAX;

struct record_head {
    char mark[8];
    uint64_t description, features; /* bytes */
    uint64_t description_sum, features_sum;
    uint64_t sum; /* of the five above */
};
_Static_assert(sizeof(struct record_head) == 48, "no padding");

/* ---- Entries ---- */

l3a_status entry_create(l3a_context *context, enum entry_kind kind, struct entry **entry) {
    const l3a_status status = allocate_zeroed(context, 1, sizeof **entry, entry);
    if (status == L3A_OK) {
        (*entry)->kind = kind;
    }
    return status;
}

void entry_free(l3a_context *context, struct entry *entry) {
    if (entry) {
        for (size_t i = 0; entry->rows && i < entry->row_count; i++) {
            release(context, entry->rows[i].path);
            release(context, entry->rows[i].relative);
            release(context, entry->rows[i].tags);
        }
        text_list_clear(context, &entry->classes);
        release(context, entry->rows);
        release(context, entry->labels);
        release(context, entry->features);
        release(context, entry);
    }
}

/* Adds the classes that a row has this label for. */
static void list_labelled(const struct entry *entry, size_t row, int8_t label, const char *prefix, text_builder *text) {
    for (size_t k = 0; k < entry->classes.count; k++) {
        if (entry->labels[row * entry->classes.count + k] == label) {
            text_builder_print(text, "%s%s%s", text->length ? "; " : "", prefix, entry->classes.items[k]);
        }
    }
}

const char *entry_tags(l3a_context *context, struct entry *entry, size_t row) {
    text_builder text = {.context = context};
    if (!entry->rows[row].tags) {
        text_builder_append(&text, "", 0);
        list_labelled(entry, row, 1, "", &text);
        if (!text.length) {
            list_labelled(entry, row, 0, "not ", &text);
        }
        if (text.status != L3A_OK) {
            text_builder_free(&text);
            return NULL;
        }
        entry->rows[row].tags = text.text;
    }
    return entry->rows[row].tags;
}

/* ---- The description of an entry ----
 * id, parent, number, seconds, kind, from_nothing, pictures, new classes, width, taken back, number of classes and of rows; then
 * for each class its name; for each row the checksum, lesson, row, path, relative path and labels; of a change that was committed,
 * its sequence. Numbers have 8 bytes, a text its length before it, a label one byte. */
enum { FIXED_NUMBERS = 12, ROW_NUMBERS = 3 };

static void put_number(text_builder *to, uint64_t number) {
    text_builder_append(to, (const char *)&number, sizeof number);
}

static void put_text(text_builder *to, const char *text) {
    put_number(to, strlen(text));
    text_builder_append(to, text, strlen(text));
}

static void describe(const struct entry *entry, text_builder *to) {
    const uint64_t numbers[FIXED_NUMBERS] = {entry->id,    entry->parent,       entry->number,        (uint64_t)entry->seconds,
                                             entry->kind,  entry->from_nothing, entry->pictures,      entry->new_classes,
                                             entry->width, entry->back_count,   entry->classes.count, entry->row_count};
    for (size_t i = 0; i < FIXED_NUMBERS; i++) {
        put_number(to, numbers[i]);
    }
    for (size_t i = 0; i < entry->classes.count; i++) {
        put_text(to, entry->classes.items[i]);
    }
    for (size_t i = 0; i < entry->row_count; i++) {
        const struct pictured *row = &entry->rows[i];
        put_number(to, row->checksum);
        put_number(to, row->lesson);
        put_number(to, row->row);
        put_text(to, row->path);
        put_text(to, row->relative);
        text_builder_append(to, (const char *)entry->labels + i * entry->classes.count, entry->classes.count);
    }
    if (entry->sequence) {
        put_number(to, entry->sequence);
    }
}

/* What is left of a description. `good` becomes false at the first thing that does not fit. */
struct cursor {
    l3a_context *context;
    const char *at;
    size_t left;
    bool good;
};

static uint64_t take_number(struct cursor *from) {
    uint64_t number = 0;
    from->good = from->good && from->left >= sizeof number;
    if (from->good) {
        memcpy(&number, from->at, sizeof number);
        from->at += sizeof number;
        from->left -= sizeof number;
    }
    return number;
}

static l3a_status take_text(struct cursor *from, char **text) {
    const uint64_t length = take_number(from);
    l3a_status status = L3A_OK;
    from->good = from->good && length <= from->left && length <= LONGEST_TEXT && !memchr(from->at, '\0', (size_t)length);
    if (from->good) {
        TRY(copy_text(from->context, from->at, (size_t)length, text));
        from->at += length;
        from->left -= (size_t)length;
    }
done:
    return status;
}

static l3a_status take_classes(struct cursor *from, struct entry *entry, uint64_t count) {
    text_index index = {0};
    size_t first;
    l3a_status status = L3A_OK;
    for (uint64_t i = 0; i < count && from->good; i++) {
        char *name = NULL;
        TRY(take_text(from, &name));
        from->good = from->good && name[0];
        status = from->good ? text_list_add(from->context, &entry->classes, name, strlen(name)) : L3A_OK;
        release(from->context, name);
        TRY(status);
    }
    TRY(text_index_make(from->context, entry->classes.items, entry->classes.count, &index));
    from->good = from->good && text_index_repeated(&index, &first) == entry->classes.count;
done:
    text_index_free(from->context, &index);
    return status;
}

static l3a_status take_rows(struct cursor *from, struct entry *entry) {
    const size_t classes = entry->classes.count;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(from->context, entry->row_count, sizeof *entry->rows, &entry->rows));
    TRY(allocate(from->context, entry->row_count, classes, &entry->labels));
    for (size_t i = 0; i < entry->row_count && from->good; i++) {
        struct pictured *row = &entry->rows[i];
        row->checksum = take_number(from);
        row->lesson = take_number(from);
        row->row = take_number(from);
        TRY(take_text(from, &row->path));
        TRY(take_text(from, &row->relative));
        from->good = from->good && from->left >= classes;
        for (size_t k = 0; k < classes && from->good; k++) {
            const int8_t label = (int8_t)from->at[k];
            entry->labels[i * classes + k] = label;
            from->good = label >= -1 && label <= 1;
        }
        from->at += from->good ? classes : 0;
        from->left -= from->good ? classes : 0;
    }
done:
    return status;
}

/* Whether the numbers of an entry fit together; feature_bytes: those that its record has. */
static bool is_sound(const struct entry *entry, uint64_t feature_bytes) {
    uint64_t bytes = 0;
    const bool renames = entry->kind == ENTRY_RENAME || entry->kind == ENTRY_MERGE;
    return entry->id && (entry->kind == ENTRY_UNDO ? entry->sequence > 0 : entry->number > 0) && entry->kind >= ENTRY_TEACH &&
           entry->kind <= ENTRY_UNDO && entry->back_count <= entry->row_count && entry->new_classes <= entry->classes.count &&
           multiply_sizes(entry->row_count, entry->width, &bytes) && multiply_sizes(bytes, sizeof(float), &bytes) &&
           bytes == feature_bytes && !entry->row_count == !entry->width &&
           (entry->kind == ENTRY_TEACH ? entry->row_count > 0 : entry->kind == ENTRY_MERGE || !entry->row_count) &&
           (!renames || entry->classes.count >= 2);
}

static bool is_commit(const struct record_head *head) {
    return memcmp(head->mark, commit_mark, sizeof head->mark) == 0;
}

/* *entry is NULL if the description is not valid. */
static l3a_status understand(l3a_context *context, const char *description, const struct record_head *head, struct entry **entry) {
    struct cursor from = {context, description, (size_t)head->description, true};
    struct entry *made = NULL;
    uint64_t numbers[FIXED_NUMBERS];
    l3a_status status = L3A_OK;
    *entry = NULL;
    for (size_t i = 0; i < FIXED_NUMBERS; i++) {
        numbers[i] = take_number(&from);
    }
    const uint64_t classes = numbers[10], rows = numbers[11];
    /* A class takes at least 9 bytes, and a row at least those of its numbers, so that no number makes memory out of nothing. */
    if (!from.good || classes > from.left / 9 || rows > from.left / ((ROW_NUMBERS + 2) * sizeof(uint64_t) + classes)) {
        return L3A_OK;
    }
    TRY(entry_create(context, (enum entry_kind)(numbers[4] > ENTRY_UNDO ? 0 : numbers[4]), &made));
    made->id = numbers[0];
    made->parent = numbers[1];
    made->number = numbers[2];
    made->seconds = (int64_t)numbers[3];
    made->from_nothing = numbers[5] == 1;
    made->pictures = numbers[6];
    made->new_classes = (size_t)numbers[7];
    made->width = (size_t)numbers[8];
    made->back_count = (size_t)numbers[9];
    TRY(take_classes(&from, made, classes));
    made->row_count = from.good ? (size_t)rows : 0;
    TRY(take_rows(&from, made));
    made->sequence = is_commit(head) ? take_number(&from) : 0;
    if (from.good && !from.left && !is_commit(head) == !made->sequence && is_sound(made, head->features)) {
        *entry = made;
        made = NULL;
    }
done:
    entry_free(context, made);
    return status;
}

/* ---- Reading ---- */

static uint64_t head_sum(const struct record_head *head) {
    return XXH3_64bits(head, offsetof(struct record_head, sum));
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
    return (memcmp(head->mark, record_mark, sizeof record_mark) == 0 || is_commit(head)) && head->sum == head_sum(head);
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
        TRY(understand(context, description, &head, &entry));
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
    static const char zeros[sizeof first_line];
    char line[sizeof first_line] = "";
    l3a_status status = L3A_OK;
    const size_t count = input->size < sizeof line ? (size_t)input->size : sizeof line;
    TRY(input_read(input, 0, line, count));
    if (input->size <= sizeof line && memcmp(line, zeros, count) == 0) {
        return L3A_OK;
    }
    FAIL_IF(memcmp(line, first_line, count < VERSION_DIGIT ? count : VERSION_DIGIT) != 0, journal->context, L3A_ERROR_FORMAT,
            "move this file away; what was taught before can then no longer be undone", "%s: this is not a history of l3a",
            journal->path);
    journal->commits = count > VERSION_DIGIT && memcmp(line, first_commits, count) == 0;
    FAIL_IF(memcmp(line, first_line, count) != 0 && !journal->commits, journal->context, L3A_ERROR_VERSION,
            "use the version of l3a that wrote it, or a newer one", "%s: version '%c' of histories is not known", journal->path,
            line[VERSION_DIGIT]);
    journal->end = count == sizeof line ? count : 0;
done:
    return status;
}

static file_description describe_file(const struct journal *journal) {
    file_description file;
    const bool found = journal->context->files->describe(journal->path, &file) == 0;
    return found ? file : (file_description){.size = errno == ENOENT ? 0 : UNKNOWN};
}

bool journal_is_current(const struct journal *journal) {
    const file_description now = describe_file(journal), *then = &journal->file;
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
    journal->file = describe_file(journal);
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

/* ---- Writing ---- */

static l3a_status write_all(const struct journal *journal, int file, uint64_t offset, const void *bytes, size_t count) {
    const output_file output = {.context = journal->context, .path = journal->path, .file = file};
    return output_write(&output, offset, bytes, count);
}

/* Nothing is promised to be kept that could not be read again. */
static l3a_status check_description(const struct journal *journal, const text_builder *description,
                                    const struct record_head *head) {
    struct entry *entry = NULL;
    l3a_status status = L3A_OK;
    TRY(understand(journal->context, description->text, head, &entry));
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
    describe(entry, &description);
    TRY(description.status);
    struct record_head head = {.description = description.length,
                               .features = bytes,
                               .description_sum = XXH3_64bits(description.text, description.length),
                               .features_sum = XXH3_64bits(entry->features ? (const void *)entry->features : "", (size_t)bytes)};
    memcpy(head.mark, entry->sequence ? commit_mark : record_mark, sizeof head.mark);
    head.sum = head_sum(&head);
    TRY(check_description(journal, &description, &head));
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
        TRY(write_all(journal, file, 0, commits ? first_commits : first_line, sizeof first_line));
        offset = keep ? keep : sizeof first_line;
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
    journal->file = describe_file(journal);
done:
    for (size_t i = 0; i < count && status != L3A_OK; i++) {
        entries[i]->length = 0;
    }
    if (file >= 0) { /* a failure: what was not kept should not be found later; if it stays, the next record replaces it */
        context->files->truncate(file, (off_t)keep);
        context->files->close(file);
        journal->file = describe_file(journal);
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
    copy_piece(&copying, journal->commits ? first_commits : first_line, sizeof first_line);
    for (size_t i = 0; i < count; i++) {
        TRY(copying.status);
        TRY(entries[i]->length ? input_scan(&input, entries[i]->offset, entries[i]->length, copy_piece, &copying)
                               : write_record(journal, copying.output.file, entries[i], &copying.offset));
    }
    TRY(copying.status);
    status = output_commit(&copying.output);
    *replaced = copying.output.in_place;
    uint64_t offset = sizeof first_line;
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
    journal->file = describe_file(journal);
}

l3a_status journal_keep(struct journal *journal, struct entry *const *entries, size_t count) {
    l3a_context *context = journal->context;
    l3a_status status = L3A_OK;
    size_t same = 0;
    bool replaced = true;
    while (same < count && same < journal->count && journal->entries[same] == entries[same]) {
        same++;
    }
    const uint64_t end = same ? entries[same - 1]->offset + entries[same - 1]->length : sizeof first_line;
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
