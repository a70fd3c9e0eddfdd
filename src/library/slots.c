#include "library/slots.h"

#include "format/tensor.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { AT_WIDTH = 8, AT_ROWS = 12, AT_ID = 16, AT_RECIPE = AT_ID + SLOTS_ID, AT_SUM = SLOTS_HEAD - 8, BLOCK = 256 << 10 };
enum { MOST_WIDTH = 1 << 20, MOST_ROWS = 15 };

static const char magic[8] = {'L', '3', 'A', 'S', 'L', 'O', 'T', '1'};
static const float largest = 65504;

/* ---- Opening ---- */

static size_t stride_of(size_t width, size_t rows) {
    return SLOT_START + (2 * width * rows + 7) / 8 * 8;
}

static l3a_status damaged(l3a_context *context, const char *path) {
    return fail(context, L3A_ERROR_CHECKSUM, "it is made again by 'l3a index'",
                "%s: these are not the features of a library, or the "
                "file is damaged",
                path);
}

/* Returns 0 or an errno, ENODATA if the file is too short. */
static int get_bytes(const struct slots *slots, off_t from, size_t count, char *bytes) {
    for (size_t done = 0; done < count;) {
        const ssize_t got = slots->context->files->read(slots->file, bytes + done, count - done, from + (off_t)done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got ? errno : ENODATA;
        }
        done += (size_t)got;
    }
    return 0;
}

static l3a_status read_head(l3a_context *context, const char *path, struct slots *slots) {
    char head[SLOTS_HEAD];
    uint32_t width, rows;
    uint64_t sum;
    l3a_status status = L3A_OK;
    const int code = get_bytes(slots, 0, sizeof head, head);
    if (code && code != ENODATA) {
        return fail_system(context, path, "read", code);
    }
    if (code || memcmp(head, magic, sizeof magic) != 0) {
        return damaged(context, path);
    }
    memcpy(&sum, head + AT_SUM, sizeof sum);
    memcpy(&width, head + AT_WIDTH, sizeof width);
    memcpy(&rows, head + AT_ROWS, sizeof rows);
    if (sum != XXH3_64bits(head, AT_SUM) || !width || width > MOST_WIDTH || !rows || rows > MOST_ROWS || head[AT_SUM - 1]) {
        return damaged(context, path);
    }
    memcpy(slots->id, head + AT_ID, SLOTS_ID);
    slots->width = width;
    slots->rows = rows;
    slots->stride = stride_of(width, rows);
    TRY(copy_text(context, head + AT_RECIPE, strlen(head + AT_RECIPE), &slots->recipe));
done:
    return status;
}

l3a_status slots_open(l3a_context *context, const char *path, struct slots *slots) {
    l3a_status status = L3A_OK;
    *slots = (struct slots){.context = context, .file = -1};
    TRY(copy_text(context, path, strlen(path), &slots->path));
    slots->file = context->files->open(path, O_RDWR, 0);
    if (slots->file < 0 && (errno == EACCES || errno == EPERM || errno == EROFS)) { /* finding needs no more */
        slots->file = context->files->open(path, O_RDONLY, 0);
    }
    if (slots->file < 0) {
        TRY(fail_system(context, path, "open", errno));
    }
    TRY(read_head(context, path, slots));
done:
    if (status != L3A_OK) {
        slots_close(slots);
    }
    return status;
}

static l3a_status make_id(l3a_context *context, char *id) {
    uint8_t bytes[SLOTS_ID / 2];
    if (context->files->random(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return fail_system(context, "random numbers", "read", errno);
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        sprintf(id + 2 * i, "%02x", bytes[i]);
    }
    return L3A_OK;
}

l3a_status slots_create(l3a_context *context, const char *path, size_t width, size_t rows, const char *recipe,
                        struct slots *slots) {
    char head[SLOTS_HEAD] = {0}, id[SLOTS_ID + 1];
    const uint32_t numbers[2] = {(uint32_t)width, (uint32_t)rows};
    output_file output = {0};
    l3a_status status = L3A_OK;
    *slots = (struct slots){.context = context, .file = -1};
    TRY(make_id(context, id));
    memcpy(head, magic, sizeof magic);
    memcpy(head + AT_WIDTH, numbers, sizeof numbers);
    memcpy(head + AT_ID, id, SLOTS_ID);
    snprintf(head + AT_RECIPE, AT_SUM - AT_RECIPE, "%s", recipe);
    const uint64_t sum = XXH3_64bits(head, AT_SUM);
    memcpy(head + AT_SUM, &sum, sizeof sum);
    TRY(output_open(context, path, &output));
    TRY(output_write(&output, 0, head, sizeof head));
    if (context->files->set_mode(output.file, 0600)) { /* features tell something about what a picture shows */
        TRY(fail_system(context, path, "protect", errno));
    }
    TRY(output_commit(&output));
    TRY(slots_open(context, path, slots));
done:
    output_discard(&output);
    return status;
}

void slots_close(struct slots *slots) {
    if (slots->context) {
        if (slots->file >= 0) {
            slots->context->files->close(slots->file);
        }
        release(slots->context, slots->path);
        release(slots->context, slots->recipe);
    }
    *slots = (struct slots){.file = -1};
}

l3a_status slots_count(const struct slots *slots, uint64_t *count) {
    uint64_t bytes;
    if (slots->context->files->size(slots->file, &bytes)) {
        return fail_system(slots->context, slots->path, "read", errno);
    }
    *count = bytes > SLOTS_HEAD ? (bytes - SLOTS_HEAD) / slots->stride : 0;
    return L3A_OK;
}

size_t slots_block(const struct slots *slots) {
    return slots->stride < BLOCK ? BLOCK / slots->stride : 1;
}

/* ---- Records ---- */

static uint32_t check_of(const struct slots *slots, const char *record) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, record, sizeof(uint64_t));
    XXH3_64bits_update(&state, record + sizeof(uint64_t) + sizeof(uint32_t), slots->stride - sizeof(uint64_t) - sizeof(uint32_t));
    return (uint32_t)XXH3_64bits_digest(&state);
}

static off_t offset_of(const struct slots *slots, uint64_t first) {
    return (off_t)(SLOTS_HEAD + first * slots->stride);
}

static l3a_status put(const struct slots *slots, uint64_t first, size_t count, const char *records) {
    const size_t bytes = count * slots->stride;
    for (size_t done = 0; done < bytes;) {
        const ssize_t written =
            slots->context->files->write(slots->file, records + done, bytes - done, offset_of(slots, first) + (off_t)done);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return fail_system(slots->context, slots->path, "write", written ? errno : ENOSPC);
        }
        done += (size_t)written;
    }
    return L3A_OK;
}

l3a_status slots_write(const struct slots *slots, uint64_t first, size_t count, const uint64_t *checksums, const float *log_sums,
                       const float *features) {
    const size_t numbers = slots->width * slots->rows;
    char *records = NULL;
    float *clipped = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(slots->context, count, slots->stride, &records));
    TRY(allocate(slots->context, numbers, sizeof *clipped, &clipped));
    for (size_t i = 0; i < count; i++) {
        char *record = records + i * slots->stride;
        const float log_sum = log_sums ? log_sums[i] : NAN;
        for (size_t k = 0; k < numbers; k++) {
            clipped[k] = fmaxf(-largest, fminf(largest, features[i * numbers + k]));
        }
        memcpy(record, &checksums[i], sizeof checksums[i]);
        memcpy(record + 12, &log_sum, sizeof log_sum);
        halves_of_floats(clipped, (uint16_t *)(void *)(record + SLOT_START), numbers);
        const uint32_t check = check_of(slots, record);
        memcpy(record + 8, &check, sizeof check);
    }
    TRY(put(slots, first, count, records));
done:
    release(slots->context, clipped);
    release(slots->context, records);
    return status;
}

l3a_status slots_sync(const struct slots *slots) {
    return slots->context->files->sync(slots->file) ? fail_system(slots->context, slots->path, "sync", errno) : L3A_OK;
}

int slots_get(const struct slots *slots, uint64_t first, size_t count, void *records) {
    if (first > (uint64_t)INT64_MAX / slots->stride - SLOTS_HEAD) { /* the number is a damaged index's */
        return ENODATA;
    }
    return get_bytes(slots, offset_of(slots, first), count * slots->stride, records);
}

l3a_status slots_fail(const struct slots *slots, int code) {
    return code == ENODATA ? damaged(slots->context, slots->path) : fail_system(slots->context, slots->path, "read", code);
}

l3a_status slots_read(const struct slots *slots, uint64_t first, size_t count, void *records) {
    const int code = slots_get(slots, first, count, records);
    return code ? slots_fail(slots, code) : L3A_OK;
}

struct slot slot_at(const struct slots *slots, const void *records, size_t index) {
    const char *record = (const char *)records + index * slots->stride;
    struct slot slot;
    memcpy(&slot.checksum, record, sizeof slot.checksum);
    memcpy(&slot.log_sum, record + 12, sizeof slot.log_sum);
    slot.halves = (const uint16_t *)(const void *)(record + SLOT_START);
    return slot;
}

bool slot_check(const struct slots *slots, const void *records, size_t index, struct slot *slot) {
    const char *record = (const char *)records + index * slots->stride;
    uint32_t check;
    memcpy(&check, record + 8, sizeof check);
    *slot = slot_at(slots, records, index);
    return check == check_of(slots, record);
}
