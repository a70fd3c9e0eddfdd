/* What was said about pictures, handed over to the index. The teacher copies it into a queue, before anybody is told of the lesson;
 * the indexer takes it from there, so that no lesson waits for the index. */
#include "serve/librarian.h"

#include <stdlib.h>
#include <string.h>

void saying_free(struct saying *saying) {
    for (size_t k = 0; saying && saying->names && k < saying->classes; k++) {
        free(saying->names[k]);
    }
    if (saying) {
        free(saying->names);
        free(saying->said);
        free(saying->labels);
        free(saying);
    }
}

static struct saying *saying_create(const l3a_model *model) {
    struct saying *made = calloc(1, sizeof *made);
    const size_t classes = l3a_model_class_count(model);
    if (!made) {
        return NULL;
    }
    made->classes = classes;
    made->names = calloc(classes + 1, sizeof *made->names);
    made->failed = !made->names;
    for (size_t k = 0; !made->failed && k < classes; k++) {
        made->names[k] = copy_string(l3a_model_class(model, k));
        made->failed = !made->names[k];
    }
    return made;
}

/* Adds a picture; labels: NULL if nothing is said about it any more. Where they are is set when all are there. */
static bool add(struct saying *saying, uint64_t checksum, const int8_t *labels) {
    if (saying->count == saying->capacity) {
        const size_t capacity = saying->capacity ? 2 * saying->capacity : 16;
        l3a_said *said = realloc(saying->said, capacity * sizeof *said);
        saying->said = said ? said : saying->said;
        int8_t *all = realloc(saying->labels, capacity * saying->classes + 1);
        saying->labels = all ? all : saying->labels;
        saying->failed = saying->failed || !said || !all;
        saying->capacity = saying->failed ? saying->capacity : capacity;
    }
    if (!saying->failed) {
        static const int8_t something[1];
        saying->said[saying->count] = (l3a_said){checksum, labels ? something : NULL};
        if (labels) {
            memcpy(saying->labels + saying->count * saying->classes, labels, saying->classes);
        }
        saying->count++;
    }
    return !saying->failed;
}

/* The first one with a checksum counts, as in the history. */
static int gather(const char *path, uint64_t checksum, const int8_t *labels, int complete, void *user) {
    struct saying *saying = user;
    (void)path;
    (void)complete;
    if (!saying->all) {
        for (size_t i = 0; i < saying->count; i++) {
            if (saying->said[i].checksum == checksum) {
                return 0;
            }
        }
    }
    return !add(saying, checksum, labels);
}

static void gather_touched(struct saying *saying, const l3a_history *history, const uint64_t *touched, size_t count) {
    for (size_t i = 0; !saying->failed && i < count; i++) {
        const size_t before = saying->count;
        saying->failed = l3a_history_find(history, touched[i], gather, saying) != L3A_OK || saying->failed;
        if (!saying->failed && saying->count == before) { /* nothing is known of it, or it is there already */
            bool there = false;
            for (size_t j = 0; j < before; j++) {
                there = there || saying->said[j].checksum == touched[i];
            }
            saying->failed = !there && !add(saying, touched[i], NULL);
        }
    }
}

static void set_labels(struct saying *saying) {
    for (size_t i = 0; i < saying->count; i++) {
        saying->said[i].labels = saying->said[i].labels ? saying->labels + i * saying->classes : NULL;
    }
}

static struct saying *make_saying(struct server *server, const l3a_history *history, const uint64_t *touched, size_t count) {
    const bool all = !history || !touched;
    struct saying *made = NULL;
    if (!history && (!l3a_tagger_model(server->model.tagger) || l3a_tagger_history(server->model.tagger, &history) != L3A_OK)) {
        return NULL; /* a packed model has no history, and nothing is known of one that cannot be read */
    }
    made = saying_create(l3a_history_model(history));
    if (made && !made->failed) {
        made->all = all;
        if (all) {
            made->failed = l3a_history_pictures(history, gather, made) != L3A_OK || made->failed;
        } else {
            gather_touched(made, history, touched, count);
        }
        set_labels(made);
    }
    return made;
}

void librarian_say(struct server *server, const l3a_history *history, const uint64_t *touched, size_t count) {
    struct librarian *librarian = server->librarian;
    if (!librarian) {
        return;
    }
    struct saying *saying = make_saying(server, history, touched, count);
    if (saying && saying->failed) {
        note(server, LOG_ERROR, "not enough memory to tell the library what was said; it is told when the server starts again");
        saying_free(saying);
        saying = NULL;
    }
    pthread_mutex_lock(&librarian->lock);
    if (saying) {
        *librarian->last = saying;
        librarian->last = &saying->next;
        atomic_store(&librarian->urgent, true);
    }
    librarian->outdated = true;
    pthread_cond_signal(&librarian->work);
    pthread_mutex_unlock(&librarian->lock);
}

void librarian_tell_edition(struct server *server) {
    struct librarian *librarian = server->librarian;
    if (librarian) {
        pthread_mutex_lock(&librarian->lock);
        librarian->outdated = true;
        atomic_store(&librarian->urgent, true);
        pthread_cond_signal(&librarian->work);
        pthread_mutex_unlock(&librarian->lock);
    }
}
