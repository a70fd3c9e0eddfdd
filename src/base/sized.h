/* Public structs that the caller allocates begin with their own size, so that the struct can grow: a program and a library that
 * were built with different versions of the header agree on the fields that both know.
 *
 * What the caller passes is copied into the library's own struct, and fields that the caller does not know are 0 there. A struct
 * that is larger than the library's is accepted if what the library does not know is 0. What the library fills in is copied out as
 * far as the caller's struct reaches. */
#ifndef L3A_SIZED_H
#define L3A_SIZED_H

#include "base/context.h"

/* Copies a struct of the caller's, or zeros for NULL, to `own`. Returns a status. */
#define READ_SIZED(context, given, own) sized_read(context, __func__, #given, given, &(own), sizeof(own))
/* Copies `own` to a struct of the caller's. Returns a status. */
#define WRITE_SIZED(context, given, own) sized_write(context, __func__, #given, given, &(own), sizeof(own))
/* Checks the size of a struct that will be filled in at the end of a long call. Returns a status. */
#define CHECK_SIZED(context, given) sized_check(context, __func__, #given, given)

l3a_status sized_check(l3a_context *context, const char *function, const char *name, const void *given);
l3a_status sized_read(l3a_context *context, const char *function, const char *name, const void *given, void *own, size_t size);
l3a_status sized_write(l3a_context *context, const char *function, const char *name, void *given, const void *own, size_t size);

#endif
