#include "image/boxes.h"

enum { HEADER = 8 };

uint64_t span_take_long(struct span *span, size_t size) {
    uint64_t value = 0;
    if (size > span->left) {
        span->left = 0;
        return 0;
    }
    for (size_t i = 0; i < size; i++) {
        value = value << 8 | span->at[i];
    }
    span->at += size;
    span->left -= size;
    return value;
}

uint32_t span_take(struct span *span, size_t size) {
    return (uint32_t)span_take_long(span, size);
}

bool next_box(struct span *span, uint32_t *type, struct span *content) {
    if (span->left < HEADER) {
        span->damaged = span->cut = span->left > 0;
        return false;
    }
    uint64_t size = span_take(span, 4), header = HEADER;
    *type = span_take(span, 4);
    if (size == 1) {
        header += 8;
        size = span->left < 8 ? UINT64_MAX : span_take_long(span, 8);
    }
    const uint64_t inside = size ? size - header : span->left;
    span->cut = size >= header && inside > span->left;
    span->damaged = span->cut || (size && size < header);
    if (span->damaged) {
        return false;
    }
    *content = (struct span){span->at, (size_t)inside, false, false};
    span->at += content->left;
    span->left -= content->left;
    return true;
}

uint32_t box_type(const char *letters) {
    struct span span = {(const uint8_t *)letters, 4, false, false};
    return span_take(&span, 4);
}
