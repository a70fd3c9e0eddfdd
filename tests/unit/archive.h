/* A tar file made by hand in memory, as POSIX describes it. */
#ifndef L3A_TEST_ARCHIVE_H
#define L3A_TEST_ARCHIVE_H

#include <stddef.h>

enum { BLOCK = 512, ARCHIVE_ROOM = 256 << 10 };

extern unsigned char archive[ARCHIVE_ROOM];
extern size_t archive_length;

/* Begins a new one. */
void archive_begin(void);
/* Adds a header, whose size is given as text, and returns where it is. */
size_t archive_head(char type, const char *name, const char *size);
/* Adds the bytes of a member. */
void archive_bytes(const void *bytes, size_t count);
/* Adds a member: a header and its bytes. */
size_t archive_add_bytes(char type, const char *name, const void *bytes, size_t count);
size_t archive_add(char type, const char *name, const char *text);
/* Adds what ends an archive. */
void archive_end(void);
/* Makes the checksum of the header at this byte right. */
void archive_seal(size_t at);

#endif
