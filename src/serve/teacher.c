/* The teacher: one thread at low priority that owns the tagger and its context. It takes requests in turn; whatever changes the
 * model is in the synced history before the request is answered. Readers go on with the edition they have, and see the next one
 * when it is published. The model file follows in the background, when no request waits: the history is then folded into it. */
#include "serve/server.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WAITING = 64, SAVE_AFTER = 32 /* lessons */, SAVE_SECONDS = 30, TROUBLE_SECONDS = 3, NICER = 5 };

/* ---- What is known ---- */

struct knowledge *knowledge_keep(struct server *server) {
    pthread_mutex_lock(&server->knowledge_lock);
    struct knowledge *knowledge = server->knowledge;
    atomic_fetch_add(&knowledge->users, 1);
    pthread_mutex_unlock(&server->knowledge_lock);
    return knowledge;
}

void knowledge_free(struct knowledge *knowledge) {
    if (knowledge && atomic_fetch_sub(&knowledge->users, 1) == 1) {
        for (size_t i = 0; i < knowledge->taught_count; i++) {
            free(knowledge->taught[i].judgement);
        }
        for (size_t i = 0; knowledge->names && i < knowledge->classes; i++) {
            free(knowledge->names[i]);
        }
        free(knowledge->names);
        free(knowledge->taught);
        text_free(&knowledge->class_list);
        text_free(&knowledge->history);
        free(knowledge);
    }
}

static int compare_checksums(const void *left, const void *right) {
    const uint64_t a = ((const struct taught *)left)->checksum, b = ((const struct taught *)right)->checksum;
    return a < b ? -1 : a > b;
}

const char *knowledge_taught(const struct knowledge *knowledge, uint64_t checksum) {
    const struct taught wanted = {.checksum = checksum};
    const struct taught *found =
        knowledge->taught_count ? bsearch(&wanted, knowledge->taught, knowledge->taught_count, sizeof wanted, compare_checksums)
                                : NULL;
    return found && found->judgement ? found->judgement : "null";
}

static void write_labelled(struct text *text, const l3a_model *model, const int8_t *labels, int8_t label) {
    size_t count = 0;
    text_print(text, "[");
    for (size_t k = 0; k < l3a_model_class_count(model); k++) {
        if (labels[k] == label) {
            text_print(text, count++ ? ", " : "");
            text_json(text, l3a_model_class(model, k));
        }
    }
    text_print(text, "]");
}

struct gathering {
    struct knowledge *knowledge;
    const l3a_model *model;
    size_t capacity;
};

static int gather_taught(const char *path, uint64_t checksum, const int8_t *labels, int complete, void *user) {
    struct gathering *gathering = user;
    struct knowledge *knowledge = gathering->knowledge;
    struct text text = {0};
    (void)path;
    if (knowledge->taught_count == gathering->capacity) {
        const size_t capacity = gathering->capacity ? 2 * gathering->capacity : 64;
        struct taught *taught = realloc(knowledge->taught, capacity * sizeof *taught);
        if (!taught) {
            return 1;
        }
        knowledge->taught = taught;
        gathering->capacity = capacity;
    }
    text_print(&text, "{\"tags\": ");
    write_labelled(&text, gathering->model, labels, 1);
    text_print(&text, ", \"not\": ");
    if (complete) {
        text_print(&text, "[]");
    } else {
        write_labelled(&text, gathering->model, labels, 0);
    }
    text_print(&text, ", \"only\": %s}", complete ? "false" : "true");
    knowledge->taught[knowledge->taught_count++] = (struct taught){checksum, text.bytes};
    return text.failed;
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

void lesson_id(uint64_t id, char text[LESSON_ID]) {
    snprintf(text, LESSON_ID, "%016llx", (unsigned long long)id);
}

void lesson_write(struct text *text, const l3a_history_entry *entry) {
    char id[LESSON_ID];
    lesson_id(entry->id, id);
    text_print(text, "\"lesson\": %llu, \"id\": \"%s\"", (unsigned long long)entry->number, id);
}

static void write_entry(struct text *text, const l3a_history *history, size_t index) {
    l3a_history_entry entry = {.size = sizeof entry};
    struct tm parts;
    char when[32] = "";
    size_t pictures;
    const char *name;
    if (l3a_history_entry_at(history, index, &entry) != L3A_OK) {
        return;
    }
    const time_t seconds = (time_t)entry.seconds;
    if (gmtime_r(&seconds, &parts)) {
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    text_print(text, "{");
    lesson_write(text, &entry);
    text_print(text, ", \"time\": \"%s\", \"kind\": \"%s\", \"pictures\": %zu, \"taken_back\": %zu, \"tags\": {", when, entry.kind,
               entry.pictures, entry.taken_back);
    for (size_t k = 0; (name = l3a_history_class(history, index, k, &pictures)); k++) {
        text_print(text, k ? ", " : "");
        text_json(text, name);
        text_print(text, ": %zu", pictures);
    }
    text_print(text, "}");
    if (entry.old_name) {
        text_print(text, ", \"from\": ");
        text_json(text, entry.old_name);
        text_print(text, ", \"to\": ");
        text_json(text, entry.new_name);
    }
    text_print(text, ", \"can_undo\": %s}", entry.can_undo ? "true" : "false");
}

static void write_history(struct text *text, const l3a_history *history) {
    text_print(text, "{\"lessons\": [");
    for (size_t i = l3a_history_count(history); i-- > 0;) {
        text_print(text, i + 1 < l3a_history_count(history) ? ",\n  " : "\n  ");
        write_entry(text, history, i);
    }
    text_print(text, "], \"gap\": ");
    text_json(text, l3a_history_gap(history));
    text_print(text, "}\n");
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
    if (l3a_reader_create(server->tagger, &reader) != L3A_OK) {
        return false;
    }
    float *features = calloc(l3a_reader_width(reader) + 1, sizeof *features);
    const bool good = features && l3a_reader_score(reader, features, 1, list_classes, knowledge) == L3A_OK;
    free(features);
    l3a_reader_free(reader);
    text_print(&knowledge->history, "{\"lessons\": [], \"gap\": \"a packed model cannot be taught\"}\n");
    return good && !knowledge->class_list.failed;
}

static bool gather(struct server *server, struct knowledge *knowledge) {
    const l3a_history *history = NULL;
    struct gathering gathering = {.knowledge = knowledge};
    const l3a_status status = l3a_tagger_history(server->tagger, &history);
    server->teacher.unreadable = status != L3A_OK;
    if (status != L3A_OK) {
        char trouble[2048];
        snprintf(trouble, sizeof trouble, "%s (%s)", l3a_error_text(server->context), l3a_error_hint(server->context));
        teacher_set_trouble(server, trouble, true);
    }
    const l3a_model *model = l3a_tagger_model(server->tagger);
    atomic_store(&server->readonly, server->options->readonly || !model);
    if (!model) {
        teacher_set_trouble(server, NULL, false);
        return gather_packed(server, knowledge);
    }
    knowledge->takes_features = l3a_tagger_takes_features(server->tagger);
    if (!write_classes(knowledge, model)) {
        return false;
    }
    if (status != L3A_OK) { /* the model of the file is served, without what the history has */
        text_print(&knowledge->history, "{\"lessons\": [], \"gap\": \"the history cannot be read\"}\n");
        return !knowledge->history.failed;
    }
    server->teacher.lessons = (size_t)l3a_history_ahead(history);
    server->teacher.unsaved = server->teacher.unsaved || server->teacher.lessons;
    gathering.model = model;
    write_history(&knowledge->history, history);
    if (l3a_history_pictures(history, gather_taught, &gathering) != L3A_OK) {
        return false;
    }
    if (knowledge->taught_count) {
        qsort(knowledge->taught, knowledge->taught_count, sizeof *knowledge->taught, compare_checksums);
    }
    return !knowledge->history.failed;
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
    pthread_mutex_lock(&server->knowledge_lock);
    struct knowledge *old = server->knowledge;
    made->edition = old ? old->edition + 1 : 1;
    server->knowledge = made;
    pthread_mutex_unlock(&server->knowledge_lock);
    knowledge_free(old);
    return true;
}

/* ---- The thread ---- */

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
        request->retry = 2;
        refuse(request, MHD_HTTP_TOO_MANY_REQUESTS, "try again in a moment", "%d requests wait for the teacher", WAITING);
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
        note(server, "not ready: %s", trouble);
    } else if (news) {
        note(server, "ready again");
    }
}

bool teacher_save(struct server *server) {
    struct teacher *teacher = &server->teacher;
    if (teacher->unsaved && l3a_tagger_save(server->tagger) != L3A_OK) {
        note(server, "the model cannot be saved: %s; what was taught is in its history", l3a_error_text(server->context));
        return false;
    }
    atomic_fetch_add(&server->metrics.saves, teacher->unsaved);
    teacher->unsaved = false;
    teacher->lessons = 0;
    return true;
}

/* The file may have been replaced by another model. Then what was taught since the last save stays in the history, which the new
 * model may not fit: that is a trouble that a person must end. */
static void reload(struct server *server) {
    teacher_save(server);
    if (l3a_tagger_reload(server->tagger) != L3A_OK) {
        note(server, "the model stays as it was: %s", l3a_error_text(server->context));
        return;
    }
    server->teacher.unsaved = false;
    if (teacher_publish(server)) {
        note(server, "loaded %s again", server->model_path);
    }
    if (!server->teacher.unreadable) {
        teacher_set_trouble(server, NULL, false);
    }
}

/* While the history cannot be written, looks now and then whether that is over. */
static void look_again(struct server *server) {
    static const char bytes[4096];
    const size_t size = strlen(server->model_path) + sizeof ".probe";
    char *path = malloc(size);
    if (path) {
        snprintf(path, size, "%s.probe", server->model_path);
        if (l3a_file_write(server->context, path, bytes, sizeof bytes) == L3A_OK) {
            teacher_set_trouble(server, NULL, false);
        }
        unlink(path);
        free(path);
    }
}

/* What the teacher does next. */
enum duty { TEACH, SAVE, RELOAD, COPY, END };

/* Saving comes before the next lesson, so that a process that is killed never leaves many lessons to learn again. */
static enum duty next_duty(struct teacher *teacher, struct request **request) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    pthread_mutex_lock(&teacher->lock);
    const bool due = teacher->unsaved && teacher->lessons >= SAVE_AFTER && !teacher->stop;
    const bool troubled = teacher->trouble && !teacher->trouble_stays;
    until.tv_sec += troubled ? TROUBLE_SECONDS : SAVE_SECONDS;
    int waited = 0;
    while (!due && !teacher->first && !teacher->stop && !teacher->reload && !teacher->copy && !waited) {
        if (teacher->unsaved || troubled) {
            waited = pthread_cond_timedwait(&teacher->work, &teacher->lock, &until);
        } else {
            pthread_cond_wait(&teacher->work, &teacher->lock);
        }
    }
    const enum duty duty = teacher->reload  ? RELOAD
                           : teacher->copy  ? COPY
                           : due            ? SAVE
                           : teacher->first ? TEACH
                           : teacher->stop  ? END
                                            : SAVE;
    if (duty == RELOAD) {
        teacher->reload = false;
    } else if (duty == COPY) {
        teacher->copy = false;
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

static void *teach(void *argument) {
    struct server *server = argument;
    struct request *request;
    thread_give_way(NICER);
    for (;;) {
        switch (next_duty(&server->teacher, &request)) {
        case TEACH:
            request->route->teach(request);
            request_done(request);
            break;
        case SAVE: save_now(server); break;
        case RELOAD: reload(server); break;
        case COPY: examiner_copy(server); break;
        case END: save_now(server); return NULL;
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

void teacher_stop(struct server *server) {
    struct teacher *teacher = &server->teacher;
    if (teacher->running) {
        tell(teacher, &teacher->stop);
        pthread_join(teacher->thread, NULL);
        teacher->running = false;
    }
}
