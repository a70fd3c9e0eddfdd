/* The loader inside the library, whose pictures may also be in memory. */
#ifndef L3A_LOADER_H
#define L3A_LOADER_H

#include "image/augment.h"

/* How pictures are changed at random: picture i as this seed and rows[i] determine. */
struct loader_changes {
    struct augmentation augmentation;
    uint64_t seed;
    const size_t *rows;
};

/* The pictures, what they refer to, and the rows must outlive the loader. changes: NULL for none. */
l3a_status loader_create(l3a_context *context, const struct picture_source *pictures, size_t count,
                         const l3a_loader_options *options, const struct loader_changes *changes, l3a_loader **loader);
/* How many numbers a picture has. */
size_t loader_numbers(const l3a_loader *loader);
/* Like l3a_loader_next(), without an event. There is a next picture. */
l3a_status loader_next(l3a_loader *loader, float *planes);
/* XXH3 of the bytes of the picture that l3a_loader_next() handed over last, readable or not; 0 where there were none. */
uint64_t loader_checksum(const l3a_loader *loader);
/* The pictures in files; the caller releases the list. */
l3a_status pictures_in_files(l3a_context *context, const char *const *paths, size_t count, struct picture_source **pictures);

#endif
