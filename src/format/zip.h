/* Zip archives as torch writes them: entries stored without compression, zip64 if needed, and the list of entries at the end. */
#ifndef L3A_ZIP_H
#define L3A_ZIP_H

#include "base/file.h"

struct zip_entry {
    const char *name; /* not zero-terminated: it points into the directory */
    size_t name_length;
    uint64_t header; /* where the entry's own header is */
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
/* Reads the list of entries. The input remains the caller's, and must outlive the archive. */
l3a_status zip_open(const input_file *input, struct zip *zip);
void zip_close(struct zip *zip);
/* Returns NULL if there is no entry of that name. */
const struct zip_entry *zip_find(const struct zip *zip, const char *name, size_t length);
/* Finds where an entry's bytes begin. An entry that is compressed, encrypted or incomplete is an error. */
l3a_status zip_place(const struct zip *zip, const struct zip_entry *entry, uint64_t *offset);
/* Continues a CRC-32 from `crc`; the first call passes 0. */
uint32_t zip_crc(const struct zip *zip, uint32_t crc, const void *bytes, size_t count);
l3a_status zip_fail_crc(const struct zip *zip, const struct zip_entry *entry, uint32_t computed);
/* Reads all bytes of an entry, and compares their CRC-32 with the one in the directory. */
l3a_status zip_verify(const struct zip *zip, const struct zip_entry *entry);

#endif
