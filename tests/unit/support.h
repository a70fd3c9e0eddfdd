/* What the unit tests share. Include this first: it brings cmocka in the order that it wants. */
#ifndef L3A_TEST_SUPPORT_H
#define L3A_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/context.h" /* before cmocka, whose macro `fail` would hide the function of that name */
#include "method/options.h"
#include "l3a/l3a_experiment.h"

#include <cmocka.h>

/* A context that the test frees. threads 0: all. */
l3a_context *make_context(int threads);
/* The back end of the first CUDA device. Without one: NULL, after printing why. */
const struct algebra *find_cuda(void);
/* The name of the device for a context whose objects have this back end; NULL: the processor. */
const char *device_of_back_end(const struct algebra *algebra);
/* A copy of the model's settings. */
l3a_options options_of(const l3a_model *model);
/* Fails with the error's text and hint. */
#define assert_ok(context, call) assert_ok_at(context, call, #call, __FILE__, __LINE__)
void assert_ok_at(l3a_context *context, l3a_status status, const char *what, const char *file, int line);
/* The status is the expected one, and the text says `contains`. */
#define assert_fails(context, call, expected, contains)                                                                            \
    assert_fails_at(context, call, expected, contains, #call, __FILE__, __LINE__)
void assert_fails_at(l3a_context *context, l3a_status status, l3a_status expected, const char *contains, const char *what,
                     const char *file, int line);

/* The numbers differ by no more than the tolerance. */
void assert_near(double one, double other, double tolerance);

/* A new folder below the system's temporary one, removed by remove_folder with all it holds. */
char *make_temporary_folder(void);
void remove_folder(char *folder);
/* "folder/name", to be freed. */
char *path_in(const char *folder, const char *name);
void free_paths(char *const *paths, size_t count);
void write_bytes(const char *path, const void *bytes, size_t count);
/* Writes a file below the folder, with the folders it needs. */
void put_file(const char *folder, const char *name, const void *bytes, size_t count);
/* The bytes of a file, to be freed. */
char *read_bytes(const char *path, size_t *count);
void copy_file(const char *from, const char *to);

/* Opens a data set in contexts that run out of memory sooner or later. Returns how often that failed. */
size_t fail_each_opening(const char *name, const char *split);

/* Features with values in [-1, 1) and labels of which about one in `every` is 1, at least one a row; a seed, the same numbers. */
void random_table(uint64_t seed, size_t rows, size_t width, size_t classes, unsigned every, float *features, int8_t *labels);

/* Writes the checkpoint of a ViT for pictures of 12 x 12, with features 64 wide; a seed, the same parameters. */
void write_small_backbone(l3a_context *context, const char *path, uint64_t seed);
/* The same with a classifier for the 1,000 classes of ImageNet. */
void write_small_backbone_with_words(l3a_context *context, const char *path, uint64_t seed);
/* Writes a JPEG of 40 x 30 pixels; a seed, the same bytes. */
void write_small_picture(const char *path, uint64_t seed);
/* Writes several, "PREFIX0.jpg" with seed 0 and so on, into the folder; free_paths() frees their paths. */
void write_small_pictures(const char *folder, const char *prefix, char **paths, size_t count);

#endif
