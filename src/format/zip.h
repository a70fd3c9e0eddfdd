/* Zip archives as torch writes them: every entry stored as it is, zip64 where it is needed, the list of entries at the end. */
#ifndef L3A_ZIP_H
#define L3A_ZIP_H

#include "base/file.h"

struct zip_entry {
    const char *name; /* not zero-terminated: a part of the directory */
    size_t name_length;
    uint64_t header; /* where the entry's own header stands */
    uint64_t size, packed;
    uint32_t crc;
    uint16_t flags, method;
};

struct zip {
    const input_file *input;
    char *directory;
    struct zip_entry *entries; /* sorted by name */
    size_t count;
    uint32_t crc_table[8][256];
};

bool zip_recognise(const void *bytes, size_t count);
/* Reads the list of entries. The input stays the caller's, and must live as long. */
l3a_status zip_open(const input_file *input, struct zip *zip);
void zip_close(struct zip *zip);
/* NULL when there is none of that name. */
const struct zip_entry *zip_find(const struct zip *zip, const char *name, size_t length);
/* Where an entry's bytes begin; an error for one that is packed, encrypted, or not wholly there. */
l3a_status zip_place(const struct zip *zip, const struct zip_entry *entry, uint64_t *offset);
/* CRC-32, continued from `crc`; the first call passes 0. */
uint32_t zip_crc(const struct zip *zip, uint32_t crc, const void *bytes, size_t count);
l3a_status zip_fail_crc(const struct zip *zip, const struct zip_entry *entry, uint32_t computed);
/* Reads all of an entry's bytes, and compares their CRC-32 with the one in the directory. */
l3a_status zip_verify(const struct zip *zip, const struct zip_entry *entry);

#endif
