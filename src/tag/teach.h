/* Teaching a tagger: from the pictures of a lesson to an entry of the history, which changes the model.
 *
 *   teach_pictures.c   the features of the pictures, and which pictures cannot be read
 *   teach_classes.c    the classes that the lesson names, and the labels of pictures for all classes
 *   teach_entry.c      what happens to each picture, which may have been taught before; the entry
 *   teach.c            the public calls that change a tagger
 *   unlabelled.c       the unlabelled pictures
 *
 * Everything that may go wrong with a picture is found out before the model changes. The network writes the features of a picture
 * to `features`, which the entry takes over if it has all of these rows in their order. They are copied only if it has not. */
#ifndef L3A_TAG_TEACH_H
#define L3A_TAG_TEACH_H

#include "learn/model.h"
#include "tag/history.h"
#include "tag/lesson.h"
#include "tag/tagger.h"

/* What happens to a picture. */
enum fate { LEAVE_OUT, ADD, REPLACE };

struct plan {
    enum fate fate;
    bool seen;          /* it need not be read: it was taught before in the same way */
    bool bad;           /* it cannot be read */
    size_t row;         /* of the features, if it was read */
    uint64_t checksum;  /* of its bytes */
    struct known known; /* the picture as the model knows it; REPLACE without one: it is as `was` says */
};

struct teaching {
    l3a_tagger *tagger;
    l3a_context *context;
    l3a_lesson *lesson;
    l3a_lesson_options options;
    struct marks was; /* how the pictures were taught that the history does not have */
    l3a_history *history;
    const struct known_index *known;
    l3a_model *model;
    struct plan *plans;         /* [pictures] */
    l3a_loader_options loading; /* as the tagger's, but with the views that are learned */
    size_t width;               /* numbers of a picture: those of all views */
    float *features;            /* [pictures x width]: of those that were read, one after another */
    size_t row_count;           /* that it has */
    text_list classes;          /* of the model, then new ones */
    size_t *places;             /* of the lesson's classes among them; SIZE_MAX: no picture shows it */
    int8_t *labels, *other;     /* [classes], of a picture */
};

/* Reads the pictures that were not seen. Those that cannot be read are bad; fails if that may not be. */
l3a_status teach_read(struct teaching *teaching);

/* Finds the classes of the model, then those of the lesson that it does not know, as far as pictures show them. */
l3a_status teach_find_classes(struct teaching *teaching);
void teach_free_classes(struct teaching *teaching);
/* Checks the limits of the lesson's options. */
l3a_status teach_check_limits(const struct teaching *teaching);
/* Warns of new classes that look like others. */
void teach_warn_of_likeness(const struct teaching *teaching);
/* The labels of a picture of the lesson for all classes. */
l3a_status teach_labels(const struct teaching *teaching, size_t index, int8_t *labels);
/* The labels that the pictures had that the history does not have. New classes were not judged then. */
l3a_status teach_labels_before(const struct teaching *teaching, int8_t *labels);
/* The labels that a known picture has for all classes. */
void teach_labels_known(const struct teaching *teaching, const struct known *picture, int8_t *labels);

/* Finds pictures in files and in memory that were taught before in the same way, so that they need not go through the network. */
l3a_status teach_find_seen(struct teaching *teaching);
/* Makes the entry; NULL if no picture is left to be taught. */
l3a_status teach_make_entry(struct teaching *teaching, struct entry **entry);

#endif
