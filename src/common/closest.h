/* Hints about mistyped names. */
#ifndef L3A_CLOSEST_H
#define L3A_CLOSEST_H

#include <stddef.h>

/* The candidate closest to a mistyped word, or NULL if none is close. */
const char *closest_name(const char *mistyped, const char *const *candidates, size_t count);

/* Writes "did you mean '…'?" with the closest of the names (closest_name), or `otherwise` if none is close. Returns the hint. */
const char *suggest_closest(char *hint, size_t capacity, const char *mistyped, const char *const *names, size_t count,
                            const char *otherwise);

#endif
