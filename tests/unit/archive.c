#include "archive.h"

#include "support.h"

#include <stdio.h>
#include <string.h>

unsigned char archive[ARCHIVE_ROOM];
size_t archive_length;

void archive_begin(void) {
    memset(archive, 0, sizeof archive);
    archive_length = 0;
}

void archive_seal(size_t at) {
    unsigned sum = 0;
    memset(archive + at + 148, ' ', 8);
    for (size_t i = 0; i < BLOCK; i++) {
        sum += archive[at + i];
    }
    snprintf((char *)archive + at + 148, 8, "%06o", sum);
}

size_t archive_head(char type, const char *name, const char *size) {
    const size_t at = archive_length;
    memcpy(archive + at, name, strnlen(name, 100));
    snprintf((char *)archive + at + 100, 8, "%07o", 0644);
    memcpy(archive + at + 124, size, strnlen(size, 12));
    archive[at + 156] = (unsigned char)type;
    memcpy(archive + at + 257, "ustar\00000", 8);
    archive_seal(at);
    archive_length += BLOCK;
    return at;
}

void archive_bytes(const void *bytes, size_t count) {
    assert_true(archive_length + count + 3 * BLOCK < ARCHIVE_ROOM);
    memcpy(archive + archive_length, bytes, count);
    archive_length += (count + BLOCK - 1) / BLOCK * BLOCK;
}

size_t archive_add_bytes(char type, const char *name, const void *bytes, size_t count) {
    char size[24];
    snprintf(size, sizeof size, "%011zo", count);
    const size_t at = archive_head(type, name, size);
    archive_bytes(bytes, count);
    return at;
}

size_t archive_add(char type, const char *name, const char *text) {
    return archive_add_bytes(type, name, text, strlen(text));
}

void archive_end(void) {
    archive_length += 2 * BLOCK;
}
