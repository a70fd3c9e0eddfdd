/* The teacher: one thread at low priority that owns the tagger and its context. It takes requests in turn; whatever changes the
 * model is in the synced history before the request is answered. Readers go on with the edition they have, and see the next one
 * when it is published. The model file follows in the background, when no request waits: the history is then folded into it. */
#include "serve/librarian.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WAITING = 64, SAVE_AFTER = 32 /* lessons */, SAVE_SECONDS = 30, TROUBLE_SECONDS = 3, NICER = 5 };

/* ---- What is known ---- */

struct knowledge *knowledge_keep(struct server *server) {
    pthread_mutex_lock(&server->knowledge.lock);
    struct knowledge *knowledge = server->knowledge.current;
    atomic_fetch_add(&knowledge->users, 1);
    pthread_mutex_unlock(&server->knowledge.lock);
    return knowledge;
}

void knowledge_free(struct knowledge *knowledge) {
    if (knowledge && atomic_fetch_sub(&knowledge->users, 1) == 1) {
        for (size_t i = 0; knowledge->names && i < knowledge->classes; i++) {
            free(knowledge->names[i]);
        }
        free(knowledge->names);
        text_free(&knowledge->class_list);
        free(knowledge);
    }
}

static bool write_classes(struct knowledge *knowledge, const l3a_model *model) {
    struct text *text = &knowledge->class_list;
    const size_t classes = l3a_model_class_count(model);
    double *thresholds = calloc(classes + 1, sizeof *thresholds);
    knowledge->names = calloc(classes + 1, sizeof *knowledge->names);
    if (!thresholds || !knowledge->names) {
        free(thresholds);
        return false;
    }
    knowledge->classes = classes;
    l3a_model_thresholds(model, thresholds);
    text_print(text, "[");
    for (size_t k = 0; k < classes; k++) {
        knowledge->names[k] = copy_string(l3a_model_class(model, k));
        text_print(text, k ? ",\n  {\"name\": " : "\n  {\"name\": ");
        text_json(text, l3a_model_class(model, k));
        text_print(text, ", \"pictures\": %llu, \"threshold\": ", (unsigned long long)l3a_model_class_images(model, k));
        text_number(text, thresholds[k], 9);
        text_print(text, "}");
    }
    text_print(text, "]");
    free(thresholds);
    return !text->failed;
}

static int list_classes(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    struct knowledge *knowledge = user;
    (void)index;
    (void)status;
    const size_t classes = l3a_tags_count(tags);
    double *thresholds = calloc(classes + 1, sizeof *thresholds);
    knowledge->names = calloc(classes + 1, sizeof *knowledge->names);
    for (size_t i = 0; thresholds && knowledge->names && i < classes; i++) {
        const size_t class = l3a_tags_class(tags, i);
        knowledge->names[class] = copy_string(l3a_tags_name(tags, i));
        thresholds[class] = l3a_tags_threshold(tags, i);
    }
    knowledge->classes = knowledge->names ? classes : 0;
    text_print(&knowledge->class_list, "[");
    for (size_t k = 0; thresholds && k < knowledge->classes && knowledge->names[k]; k++) {
        text_print(&knowledge->class_list, k ? ",\n  {\"name\": " : "\n  {\"name\": ");
        text_json(&knowledge->class_list, knowledge->names[k]);
        text_print(&knowledge->class_list, ", \"pictures\": null, \"threshold\": ");
        text_number(&knowledge->class_list, thresholds[k], 9);
        text_print(&knowledge->class_list, "}");
    }
    text_print(&knowledge->class_list, "]");
    free(thresholds);
    return 0;
}

/* A packed model does not know how many pictures a class has, and takes no lessons. Its classes are those that it gives. */
static bool gather_packed(struct server *server, struct knowledge *knowledge) {
    l3a_reader *reader = NULL;
    if (l3a_reader_create(server->model.tagger, &reader) != L3A_OK) {
        return false;
    }
    float *features = calloc(l3a_reader_width(reader) + 1, sizeof *features);
    const bool good = features && l3a_reader_score(reader, features, 1, list_classes, knowledge) == L3A_OK;
    free(features);
    l3a_reader_free(reader);
    return good && !knowledge->class_list.failed;
}

static bool gather(struct server *server, struct knowledge *knowledge) {
    const l3a_history *history = NULL;
    const l3a_status status = l3a_tagger_history(server->model.tagger, &history);
    server->teacher.unreadable = status != L3A_OK;
    if (status != L3A_OK) {
        char trouble[2048];
        snprintf(trouble, sizeof trouble, "%s (%s)", l3a_error_text(server->context), l3a_error_hint(server->context));
        teacher_set_trouble(server, trouble, true);
    }
    const l3a_model *model = l3a_tagger_model(server->model.tagger);
    atomic_store(&server->model.readonly, server->options->readonly || !model);
    if (!model) {
        teacher_set_trouble(server, NULL, false);
        ledger_close(&server->ledger, "a packed model cannot be taught");
        return gather_packed(server, knowledge);
    }
    knowledge->takes_features = l3a_tagger_takes_features(server->model.tagger);
    if (!write_classes(knowledge, model)) {
        return false;
    }
    if (status != L3A_OK) { /* the model of the file is served, without what the history has */
        ledger_close(&server->ledger, "the history cannot be read");
        return true;
    }
    server->teacher.lessons = (size_t)l3a_history_ahead(history);
    server->teacher.unsaved = server->teacher.unsaved || server->teacher.lessons;
    atomic_store(&server->metrics.unsaved, server->teacher.lessons);
    return ledger_update(&server->ledger, history);
}

bool teacher_publish(struct server *server) {
    struct knowledge *made = calloc(1, sizeof *made);
    if (!made || !gather(server, made)) {
        if (made) {
            atomic_store(&made->users, 1);
            knowledge_free(made);
        }
        return false;
    }
    atomic_store(&made->users, 1);
    pthread_mutex_lock(&server->knowledge.lock);
    struct knowledge *old = server->knowledge.current;
    made->edition = old ? old->edition + 1 : 1;
    server->knowledge.current = made;
    pthread_mutex_unlock(&server->knowledge.lock);
    knowledge_free(old);
    librarian_tell_edition(server);
    return true;
}

/* ---- The thread ---- */

void refuse_cancelled(struct request *request) {
    refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "send it again when the server is back",
           "the server is shutting down; nothing was changed");
}

bool teacher_add(struct request *request) {
    struct teacher *teacher = &request->server->teacher;
    pthread_mutex_lock(&teacher->lock);
    const bool room = teacher->waiting < WAITING;
    if (room) {
        request->next = NULL;
        if (!teacher->first) {
            teacher->last = &teacher->first;
        }
        *teacher->last = request;
        teacher->last = &request->next;
        teacher->waiting++;
        pthread_cond_signal(&teacher->work);
    }
    pthread_mutex_unlock(&teacher->lock);
    if (!room) {
        request->answer.retry = 2;
        refuse(request, MHD_HTTP_TOO_MANY_REQUESTS, "try again in a moment", "%d requests are already waiting to change the model",
               WAITING);
    }
    return room;
}

void teacher_set_trouble(struct server *server, const char *trouble, bool stays) {
    struct teacher *teacher = &server->teacher;
    pthread_mutex_lock(&teacher->lock);
    const bool news = !trouble != !teacher->trouble;
    free(teacher->trouble);
    teacher->trouble = copy_string(trouble);
    teacher->trouble_stays = trouble && stays;
    pthread_mutex_unlock(&teacher->lock);
    if (news && trouble) {
        note(server, LOG_ERROR, "not ready: %s", trouble);
    } else if (news) {
        note(server, LOG_INFO, "ready again");
    }
}

void teacher_set_unsavable(struct server *server, const char *reason) {
    struct teacher *teacher = &server->teacher;
    pthread_mutex_lock(&teacher->lock);
    const bool news = !reason != !teacher->unsavable;
    free(teacher->unsavable);
    teacher->unsavable = copy_string(reason);
    pthread_mutex_unlock(&teacher->lock);
    if (news && reason) {
        note(server, LOG_ERROR, "%s", reason);
    } else if (news) {
        note(server, LOG_INFO, "the model can be saved again");
    }
}

/* A file that was replaced from outside is no trouble of the disk, and the history beside it may be another one as well. */
static void say_savable(struct server *server, l3a_status status) {
    const char *text = l3a_error_text(server->context);
    char reason[2048];
    if (status == L3A_ERROR_STATE) {
        snprintf(reason, sizeof reason, "%s; send SIGHUP to load it", text);
    } else {
        snprintf(reason, sizeof reason, "the model cannot be saved: %s; what was taught is in its history", text);
    }
    teacher_set_unsavable(server, status == L3A_OK ? NULL : reason);
}

l3a_status teacher_save(struct server *server) {
    struct teacher *teacher = &server->teacher;
    if (!teacher->unsaved) {
        return L3A_OK;
    }
    const l3a_status status = l3a_tagger_save(server->model.tagger);
    say_savable(server, status);
    if (status != L3A_OK) {
        atomic_fetch_add(&server->metrics.save_failures, 1);
        return status;
    }
    atomic_fetch_add(&server->metrics.saves, 1);
    atomic_store(&server->metrics.unsaved, 0);
    teacher->unsaved = false;
    teacher->lessons = 0;
    return L3A_OK;
}

/* Nothing is saved before: what was taught is in the history, from which it is learned again; and if the files were replaced, it is
 * not to be saved over them. A model that was replaced alone may not fit the history: that is a trouble that a person must end. */
static void reload(struct server *server) {
    if (l3a_tagger_reload(server->model.tagger) != L3A_OK) {
        note(server, LOG_ERROR, "the model stays as it was: %s", l3a_error_text(server->context));
        return;
    }
    server->teacher.unsaved = false;
    server->teacher.declined = 0;
    teacher_set_unsavable(server, NULL);
    ledger_outdate(&server->ledger);
    librarian_say(server, NULL, NULL, 0);
    if (teacher_publish(server)) {
        note(server, LOG_INFO, "loaded %s again", server->model.path);
    }
    if (!server->teacher.unreadable) {
        teacher_set_trouble(server, NULL, false);
    }
}

/* While the history cannot be written, looks now and then whether that is over. */
static void look_again(struct server *server) {
    static const char bytes[4096];
    const size_t size = strlen(server->model.path) + sizeof ".probe";
    char *path = malloc(size);
    if (path) {
        snprintf(path, size, "%s.probe", server->model.path);
        if (l3a_file_write(server->context, path, bytes, sizeof bytes) == L3A_OK) {
            teacher_set_trouble(server, NULL, false);
        }
        unlink(path);
        free(path);
    }
}

/* What the teacher does next. */
enum duty { TEACH, SAVE, RELOAD, COPY, TELL, END };

/* Saving comes before the next lesson, so that a process that is killed never leaves many lessons to learn again. */
static enum duty next_duty(struct teacher *teacher, struct request **request) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    pthread_mutex_lock(&teacher->lock);
    const bool due = teacher->unsaved && teacher->lessons >= SAVE_AFTER && !teacher->stop;
    const bool troubled = (teacher->trouble && !teacher->trouble_stays) || teacher->unsavable;
    until.tv_sec += troubled ? TROUBLE_SECONDS : SAVE_SECONDS;
    int waited = 0;
    while (!due && !teacher->first && !teacher->stop && !teacher->reload && !teacher->copy && !teacher->tell && !waited) {
        if (teacher->unsaved || troubled) {
            waited = pthread_cond_timedwait(&teacher->work, &teacher->lock, &until);
        } else {
            pthread_cond_wait(&teacher->work, &teacher->lock);
        }
    }
    const enum duty duty = teacher->reload  ? RELOAD
                           : teacher->copy  ? COPY
                           : teacher->tell  ? TELL
                           : due            ? SAVE
                           : teacher->first ? TEACH
                           : teacher->stop  ? END
                                            : SAVE;
    if (duty == RELOAD) {
        teacher->reload = false;
    } else if (duty == COPY) {
        teacher->copy = false;
    } else if (duty == TELL) {
        teacher->tell = false;
    } else if (duty == TEACH) {
        *request = teacher->first;
        teacher->first = (*request)->next;
        teacher->waiting--;
    }
    pthread_mutex_unlock(&teacher->lock);
    return duty;
}

static void save_now(struct server *server) {
    struct teacher *teacher = &server->teacher;
    if (teacher->trouble && !teacher->trouble_stays) {
        look_again(server);
    }
    teacher_save(server);
    teacher->lessons = 0; /* if the model cannot be saved, not at once again */
}

/* A lesson that was cancelled leaves a model that would have to be loaded again first. */
static void save_at_end(struct server *server) {
    if (server->teacher.cancelled) {
        note(server, LOG_WARNING, "the model is not saved; what was taught is in its history");
    } else {
        atomic_store(&server->options->events->cancel, false);
        save_now(server);
    }
}

static void *teach(void *argument) {
    struct server *server = argument;
    struct request *request;
    thread_give_way(NICER);
    for (;;) {
        switch (next_duty(&server->teacher, &request)) {
        case TEACH:
            if (atomic_load(&server->options->events->cancel)) {
                refuse_cancelled(request);
            } else {
                request->wanted.route->teach(request);
            }
            request_done(request);
            break;
        case SAVE: save_now(server); break;
        case RELOAD: reload(server); break;
        case COPY: examiner_copy(server); break;
        case TELL: librarian_say(server, NULL, NULL, 0); break;
        case END: save_at_end(server); return NULL;
        }
    }
}

bool teacher_start(struct server *server) {
    struct teacher *teacher = &server->teacher;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&teacher->work, &attributes);
    pthread_condattr_destroy(&attributes);
    teacher->running = pthread_create(&teacher->thread, NULL, teach, server) == 0;
    return teacher->running;
}

/* Sets one of the teacher's flags. */
static void tell(struct teacher *teacher, bool *flag) {
    pthread_mutex_lock(&teacher->lock);
    *flag = true;
    pthread_cond_signal(&teacher->work);
    pthread_mutex_unlock(&teacher->lock);
}

void teacher_reload(struct server *server) {
    tell(&server->teacher, &server->teacher.reload);
}

void teacher_copy(struct server *server) {
    tell(&server->teacher, &server->teacher.copy);
}

void teacher_tell(struct server *server) {
    tell(&server->teacher, &server->teacher.tell);
}

void teacher_stop(struct server *server) {
    struct teacher *teacher = &server->teacher;
    if (teacher->running) {
        tell(teacher, &teacher->stop);
        pthread_join(teacher->thread, NULL);
        teacher->running = false;
    }
}
