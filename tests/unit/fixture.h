/* A context with one thread and an empty folder, for programs whose tests share them or each want new ones. */
#ifndef L3A_TEST_FIXTURE_H
#define L3A_TEST_FIXTURE_H

#include "base/context.h"

extern l3a_context *context;
extern char *folder;

/* For cmocka: made before a test or a group of tests, and removed after it. */
int open_fixture(void **state);
int close_fixture(void **state);

/* The warnings since keep_warnings(), a line each. */
extern char warnings[4096];
void keep_warnings(void);

/* Writes a text into a file below the folder, with the folders it needs. */
void put(const char *name, const char *text);

#endif
