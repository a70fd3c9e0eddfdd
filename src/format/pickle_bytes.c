#include "format/pickle_bytes.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_READ = 1 << 16, BYTES_LIMIT = 1 << 28, LINE_LIMIT = 1 << 16 };

static const char damaged[] = "the file is damaged or was not written by torch.save: download or save it again";

l3a_status pickle_bytes_fail(struct pickle_bytes *bytes, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return fail(bytes->input->context, L3A_ERROR_FORMAT, damaged, "%s: byte %" PRIu64 ": %s", bytes->input->path,
                bytes->start + bytes->operation, text);
}

static l3a_status load(struct pickle_bytes *bytes, size_t wanted) {
    l3a_status status = L3A_OK;
    l3a_context *context = bytes->input->context;
    const uint64_t available = bytes->end - bytes->start;
    FAIL_IF(wanted > available, context, L3A_ERROR_TRUNCATED, damaged,
            "%s: byte %" PRIu64 ": the pickle extends to byte %" PRIu64 ", but its bytes end at %" PRIu64, bytes->input->path,
            bytes->start + bytes->operation, bytes->start + wanted, bytes->end);
    if (wanted > BYTES_LIMIT) {
        status = pickle_bytes_fail(bytes, "a pickle of more than %d bytes is not supported", BYTES_LIMIT);
        goto done;
    }
    const size_t least = available < FIRST_READ ? (size_t)available : FIRST_READ;
    TRY(grow_array(context, &bytes->held, &bytes->room, wanted > least ? wanted : least, 1));
    const size_t held = bytes->loaded, all = bytes->room < available ? bytes->room : (size_t)available;
    TRY(input_read(bytes->input, bytes->start + held, bytes->held + held, all - held));
    bytes->loaded = all;
done:
    return status;
}

l3a_status pickle_need(struct pickle_bytes *bytes, uint64_t count) {
    const size_t left = bytes->loaded - bytes->at;
    if (count <= left) {
        return L3A_OK;
    }
    return load(bytes, count > SIZE_MAX - bytes->at ? SIZE_MAX : bytes->at + (size_t)count);
}

l3a_status pickle_take_number(struct pickle_bytes *bytes, unsigned size, uint64_t *number) {
    const l3a_status status = pickle_need(bytes, size);
    *number = 0;
    for (unsigned i = 0; status == L3A_OK && i < size; i++) {
        *number |= (uint64_t)(unsigned char)bytes->held[bytes->at++] << 8 * i;
    }
    return status;
}

l3a_status pickle_take_bytes(struct pickle_bytes *bytes, uint64_t count, uint32_t *at) {
    const l3a_status status = pickle_need(bytes, count);
    if (status == L3A_OK) {
        *at = (uint32_t)bytes->at;
        bytes->at += (size_t)count;
    }
    return status;
}

l3a_status pickle_take_line(struct pickle_bytes *bytes, uint32_t *at, uint32_t *length) {
    l3a_status status = L3A_OK;
    for (size_t seen = 0;;) {
        const size_t left = bytes->loaded - bytes->at;
        const char *found = left > seen ? memchr(bytes->held + bytes->at + seen, '\n', left - seen) : NULL;
        seen = found ? (size_t)(found - bytes->held) - bytes->at : left;
        if (seen > LINE_LIMIT) {
            return pickle_bytes_fail(bytes, "a line is longer than %d bytes", LINE_LIMIT);
        }
        if (found) {
            *at = (uint32_t)bytes->at;
            *length = (uint32_t)seen;
            bytes->at += seen + 1;
            break;
        }
        TRY(pickle_need(bytes, seen + 1));
    }
done:
    return status;
}
