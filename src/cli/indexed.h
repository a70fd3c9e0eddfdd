/* A model with the index of a library, as index, find and tag --watch use them. */
#ifndef L3A_INDEXED_H
#define L3A_INDEXED_H

#include "cli.h"

#include <sys/stat.h>

struct indexed {
    const struct arguments *arguments;
    const char *model;
    char *index;          /* its path */
    char *named;          /* model and index, as another command line has to name them */
    l3a_context *context; /* the tagger's: it has one thread, and the library one tagger for each of its own */
    l3a_tagger *tagger;
    l3a_library *library;
    struct stat model_file; /* when the tagger read it */
};

/* The views that an index has; 0: there is none, or the model is packed and has its own. NULL index: that of the model. */
l3a_status indexed_views(const struct arguments *arguments, const char *model, const char *index, size_t *views);
/* Opens the model that the command line names, and its index, by --index, --backbone, --views and --orient. existing: there must be
 * one. keep: its features must be those of the tagger, and are not replaced. Any result other than EXIT_DONE has been explained on
 * stderr; close it in any case. */
int indexed_open(const struct arguments *arguments, bool existing, bool keep, struct indexed *indexed);
/* After a call of the library has met damage (L3A_ERROR_CHECKSUM): makes the index anew, with the folders that could still be read.
 * The features are kept. */
int indexed_repair(struct indexed *indexed);
void indexed_close(struct indexed *indexed);
/* Opens the model again if its file has changed. */
l3a_status indexed_follow_model(struct indexed *indexed);
/* Takes over what was said, if the history has changed, and scores what has no scores of the model. *done is false if another
 * process has the model: that one does it. */
l3a_status indexed_bring_up_to_date(struct indexed *indexed, bool *done);
/* Writes a text as the language of --where has it: "text", and a key such as `folder:` before it. A blank follows. */
void write_quoted(FILE *to, const char *key, const char *text);
/* A path is shorter below the working directory: as people type it. */
const char *short_path(const struct arguments *arguments, const char *path);
/* Explains a failure of the library; returns the exit code. */
int indexed_explain(const struct indexed *indexed, l3a_status status);

/* Where an option of a library is used: the same in all commands that have a library. */
#define LIBRARY_OPTIONS                                                                                                            \
    {"index", "FILE", "the index [MODEL.library]"},                                                                                \
        {"backbone", "FILE", "the model's checkpoint, if the model does not know where it is"},                                    \
        {"views", "1|5|9|14", "look at so many crops of each picture, too [as in the index; first as the model was taught]"}, {    \
        "orient", "0|1", "1: turn pictures upright as their EXIF orientation says; 0: do not [as the model was taught]"            \
    }

#endif
