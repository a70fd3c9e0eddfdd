/* The loader inside the library, whose pictures may also be in memory. */
#ifndef L3A_LOADER_H
#define L3A_LOADER_H

#include "image/picture.h"

/* The pictures, and what they refer to, must outlive the loader. */
l3a_status loader_create(l3a_context *context, const struct picture_source *pictures, size_t count,
                         const l3a_loader_options *options, l3a_loader **loader);
/* XXH3 of the bytes of the picture that l3a_loader_next() handed over last, readable or not; 0 where there were none. */
uint64_t loader_checksum(const l3a_loader *loader);
/* The pictures in files; the caller releases the list. */
l3a_status pictures_in_files(l3a_context *context, const char *const *paths, size_t count, struct picture_source **pictures);

#endif
