#include "extract/part_file.h"

#include "base/file.h"
#include "base/memory.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { HEAD = 32, RECORD_HEAD = 3 /* floats before the features: seal, flag */ };

/* Neither is 0, the flag of a record that was never written. */
static const float READ = 1, UNREADABLE = 2;

static const char part_name[16] = "l3a extraction 2", old_part_name[16] = "l3a extraction 1";

static l3a_status write_at(const struct part_file *part, uint64_t offset, const void *bytes, size_t count) {
    const output_file output = {.context = part->context, .path = part->path, .file = part->file};
    return output_write(&output, offset, bytes, count);
}

static l3a_status read_at(const struct part_file *part, uint64_t offset, void *bytes, size_t count) {
    const input_file input = {.context = part->context, .path = part->path, .file = part->file};
    return input_read(&input, offset, bytes, count);
}

static void make_head(const struct part_file *part, char head[HEAD]) {
    const uint64_t row = part->row;
    memcpy(head, part_name, sizeof part_name);
    memcpy(head + 16, &part->identity, sizeof part->identity);
    memcpy(head + 24, &row, sizeof row);
}

/* Checks that the file is empty or begins like a part file of any version. A power cut can leave zeros where the header should be,
 * and then nothing else. */
static l3a_status check_owner(const struct part_file *part, uint64_t size) {
    enum { NAMED = sizeof "l3a extraction" };
    static const char zeros[HEAD];
    l3a_status status = L3A_OK;
    char found[HEAD];
    const size_t count = size < HEAD ? (size_t)size : HEAD;
    TRY(read_at(part, 0, found, count));
    const bool unwritten = size <= HEAD && memcmp(found, zeros, count) == 0;
    FAIL_IF(!unwritten && memcmp(found, part_name, count < NAMED ? count : NAMED) != 0, part->context, L3A_ERROR_EXISTS,
            "move it away, or choose another file",
            "%s: l3a needs this name for its intermediate results, but the file is not one of its own", part->path);
done:
    return status;
}

/* Opens or creates the part file, for this process alone. */
static l3a_status claim(struct part_file *part, const char *target_path, uint64_t *size) {
    const file_operations *files = part->context->files;
    l3a_status status = L3A_OK;
    output_target target = {0};
    TRY(target_find(part->context, target_path, &target));
    part->file = files->open(part->path, O_RDWR | O_CREAT | O_NOFOLLOW, target_mode(&target));
    const int code = part->file < 0 || files->lock(part->file, part->path) || files->size(part->file, size) ? errno : 0;
    FAIL_IF(code == EWOULDBLOCK || code == EDEADLK || code == ESTALE, part->context, L3A_ERROR_IO,
            "wait until it has finished, or choose another file", "%s: %s process is extracting to this file", part->path,
            code == EDEADLK ? "this" : "another");
    FAIL_IF(code == ELOOP || code == ESPIPE || code == ENXIO, part->context, L3A_ERROR_EXISTS,
            "move it away, or choose another file",
            "%s: l3a needs this name for its intermediate results, but it is not a regular file", part->path);
    if (code) {
        status = fail_system(part->context, part->path, "write", code);
        goto done;
    }
    TRY(check_owner(part, *size));
done:
    target_free(part->context, &target);
    return status;
}

/* Begins the part file. The records of other work are gone before the header says that they are of this one. */
static l3a_status begin(const struct part_file *part, const char head[HEAD], bool longer) {
    const file_operations *files = part->context->files;
    l3a_status status = L3A_OK;
    if (longer && files->sync(part->file)) {
        status = fail_system(part->context, part->path, "sync", errno);
        goto done;
    }
    TRY(write_at(part, 0, head, HEAD));
    if (files->sync(part->file)) {
        status = fail_system(part->context, part->path, "sync", errno);
    }
done:
    return status;
}

/* Keeps the records in the part file if they are of the same work; otherwise discards them. */
static l3a_status find_held(struct part_file *part, const char *target_path, size_t pictures) {
    l3a_status status = L3A_OK;
    char head[HEAD], found[HEAD];
    uint64_t size = 0;
    TRY(claim(part, target_path, &size));
    make_head(part, head);
    if (size >= HEAD) {
        TRY(read_at(part, 0, found, HEAD));
        const uint64_t held = memcmp(head, found, HEAD) == 0 ? (size - HEAD) / part->record : 0;
        part->held = held < pictures ? (size_t)held : pictures;
        if (memcmp(found, old_part_name, sizeof old_part_name) == 0) {
            report_warning(part->context,
                           "%s was written by an older version that did not record the pictures' checksums: "
                           "the extraction starts again",
                           part->path);
        }
    }
    if (part->context->files->truncate(part->file, (off_t)(part->held ? HEAD + part->held * part->record : 0))) {
        status = fail_system(part->context, part->path, "write", errno);
        goto done;
    }
    if (!part->held) {
        TRY(begin(part, head, size > HEAD));
    }
done:
    return status;
}

l3a_status part_file_open(l3a_context *context, const char *target_path, uint64_t identity, size_t pictures, size_t batch,
                          size_t row, struct part_file *part) {
    const size_t length = strlen(target_path) + sizeof ".part";
    l3a_status status = L3A_OK;
    *part = (struct part_file){
        .context = context, .file = -1, .identity = identity, .row = row, .record = (RECORD_HEAD + row) * sizeof(float)};
    TRY(allocate(context, length, 1, &part->path));
    snprintf(part->path, length, "%s.part", target_path);
    TRY(allocate(context, batch, part->record, &part->records));
    TRY(find_held(part, target_path, pictures));
done:
    return status;
}

void part_file_close(struct part_file *part) {
    if (part->context) {
        if (part->file >= 0) {
            part->context->files->close(part->file);
        }
        release(part->context, part->path);
        release(part->context, part->records);
        *part = (struct part_file){.file = -1};
    }
}

static enum part_outcome outcome_of(const float *record) {
    const float flag = record[RECORD_HEAD - 1];
    return flag == READ ? PART_READ : flag == UNREADABLE ? PART_UNREADABLE : PART_MISSING;
}

l3a_status part_file_load(struct part_file *part, size_t picture, enum part_outcome *outcome) {
    const l3a_status status = read_at(part, HEAD + picture * part->record, part->records, part->record);
    *outcome = status == L3A_OK ? outcome_of(part->records) : PART_MISSING;
    return status;
}

l3a_status part_file_outcome(const struct part_file *part, size_t picture, enum part_outcome *outcome) {
    float head[RECORD_HEAD];
    const l3a_status status = read_at(part, HEAD + picture * part->record, head, sizeof head);
    *outcome = status == L3A_OK ? outcome_of(head) : PART_MISSING;
    return status;
}

l3a_status part_file_features(const struct part_file *part, size_t picture, float *features) {
    return read_at(part, HEAD + picture * part->record + RECORD_HEAD * sizeof *features, features, part->row * sizeof *features);
}

/* Of a record: what follows the seal counts. */
static uint64_t seal_of(const struct part_file *part, const float *record, uint64_t checksum) {
    const uint64_t numbers[] = {part->identity, checksum};
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, numbers, sizeof numbers);
    XXH3_64bits_update(&state, (const char *)record + sizeof(uint64_t), part->record - sizeof(uint64_t));
    return XXH3_64bits_digest(&state);
}

bool part_file_is_current(const struct part_file *part, uint64_t checksum) {
    uint64_t seal;
    memcpy(&seal, part->records, sizeof seal);
    return seal == seal_of(part, part->records, checksum) || seal == checksum;
}

l3a_status part_file_write(const struct part_file *part, size_t first, const struct intake *intake, const float *features) {
    memset(part->records, 0, intake->count * part->record);
    for (size_t i = 0; i < intake->count; i++) {
        const struct arrival *arrival = &intake->arrivals[i];
        float *record = part->records + i * (RECORD_HEAD + part->row);
        record[RECORD_HEAD - 1] = arrival->status == L3A_OK ? READ : UNREADABLE;
        if (arrival->status == L3A_OK) {
            memcpy(record + RECORD_HEAD, features, part->row * sizeof *record);
            features += part->row;
        }
        const uint64_t seal = seal_of(part, record, arrival->checksum);
        memcpy(record, &seal, sizeof seal);
    }
    return write_at(part, HEAD + first * part->record, part->records, intake->count * part->record);
}
