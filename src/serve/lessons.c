/* POST /v1/teach, /v1/undo and /v1/rename: what the teacher does. */
#include "serve/librarian.h"
#include "serve/tagging.h"

#include <stdlib.h>
#include <string.h>

static void refuse_by_library(struct request *request, l3a_status status) {
    const l3a_context *context = request->server->context;
    refuse(request, status_of(status), l3a_error_hint(context), "%s", l3a_error_text(context));
}

/* A change of the model has failed. If it could not be kept, the server is not ready for others either. */
static void refuse_change(struct request *request, l3a_status status) {
    struct server *server = request->server;
    const char *text = l3a_error_text(server->context);
    if (status == L3A_ERROR_CANCELLED) {
        server->teacher.cancelled = true;
        refuse_cancelled(request);
        return;
    }
    const bool passes = status == L3A_ERROR_IO || status == L3A_ERROR_FULL;
    if (!passes && status != L3A_ERROR_CHECKSUM && status != L3A_ERROR_TRUNCATED) {
        refuse_by_library(request, status);
        return;
    }
    atomic_fetch_add(&server->metrics.journal_failures, 1);
    refuse(request, status == L3A_ERROR_FULL ? MHD_HTTP_INSUFFICIENT_STORAGE : MHD_HTTP_SERVICE_UNAVAILABLE,
           "nothing was changed; pictures are still tagged. Make room, or let the server write to the folder of the model", "%s",
           text);
    teacher_set_trouble(server, text, !passes);
}

static bool lessons_allowed(struct request *request) {
    if (request->server->model.readonly) {
        refuse(request, MHD_HTTP_FORBIDDEN, "start the server without --readonly, and with a model that is not packed",
               "this server does not take lessons");
    }
    return !request->answer.status;
}

/* The model has changed. */
static void changed(struct server *server) {
    server->teacher.unsaved = true;
    teacher_set_trouble(server, NULL, false);
    if (!teacher_publish(server)) {
        note(server, LOG_ERROR, "the new model cannot be described: %s", l3a_error_text(server->context));
    }
}

/* The history has one lesson more or less, which touched these pictures; renamed: it gave a class another name. */
static void follow(struct server *server, uint64_t *touched, size_t count, bool renamed) {
    const l3a_history *history = NULL;
    if (l3a_tagger_history(server->model.tagger, &history) == L3A_OK) {
        ledger_follow(&server->ledger, history, touched, count);
        librarian_say(server, history, renamed ? NULL : touched, count);
    } else {
        ledger_outdate(&server->ledger);
    }
    free(touched);
    changed(server);
}

/* The pictures that the last lesson touched; NULL if that cannot be found out. */
static uint64_t *touched_last(struct server *server, size_t *count) {
    const l3a_history *history = NULL;
    *count = 0;
    return l3a_tagger_history(server->model.tagger, &history) == L3A_OK ? ledger_touched(history, count) : NULL;
}

/* ---- Teaching ---- */

static bool takes_features(struct server *server) {
    struct knowledge *knowledge = knowledge_keep(server);
    const bool takes = knowledge->takes_features;
    knowledge_free(knowledge);
    return takes;
}

/* A key stands for the features that tagging needs. If the model learns other views than it scores, it is as if they were gone. */
static void forget_keys(struct request *request) {
    for (size_t i = 0; i < request->pictures.count; i++) {
        struct picture *picture = &request->pictures.items[i];
        if (picture->features && !picture->path) {
            free(picture->features);
            picture->features = NULL;
            picture->problem = MHD_HTTP_GONE;
            picture->error = copy_string("the model learns other views of a picture than it scores, so the key is not enough");
            picture->hint = copy_string("send the picture itself");
        }
    }
}

void teach_start(struct request *request, struct worker *worker) {
    (void)worker;
    if (lessons_allowed(request) && request_json(request) && pictures_read(request) && !takes_features(request->server)) {
        forget_keys(request);
    }
}

/* Nothing to do but to hand the features to the teacher, unless no picture has any. */
void teach_finish(struct request *request, struct worker *worker) {
    (void)worker;
    for (size_t i = 0; i < request->pictures.count; i++) {
        if (!request->pictures.items[i].problem) {
            return;
        }
    }
    const struct picture *first = &request->pictures.items[0];
    refuse(request, first->problem, first->hint, "%s", first->error ? first->error : "not enough memory");
}

/* The texts of a list, for the caller to free; NULL: refused. A missing list is empty. */
static const char **read_names(struct request *request, const struct json_value *told, const char *key, size_t *count) {
    const struct json_value *list = json_value_get(told, key);
    const size_t length = list ? json_count(list) : 0;
    const char **names = length == SIZE_MAX ? NULL : calloc(length + 1, sizeof *names);
    *count = 0;
    if (!names) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "give a list of names", "'%s' is not a list", key);
        return NULL;
    }
    for (const struct json_value *item = json_value_first(list); item; item = json_value_next(item)) {
        names[*count] = json_value_text(item, NULL);
        if (!names[(*count)++]) {
            refuse(request, MHD_HTTP_BAD_REQUEST, "give a list of names", "'%s' contains something that is not a name", key);
            free(names);
            return NULL;
        }
    }
    return names;
}

/* Adds a picture with its features or, if these are not enough, with its bytes. One that has gone from the library is left out. */
static l3a_status add_judged(struct picture *picture, const l3a_judgement *judgement, l3a_lesson *lesson) {
    struct server *server = picture->request->server;
    if (takes_features(server) || !(picture->path || picture->base64)) {
        return l3a_lesson_add_features(lesson, picture->name, picture->checksum, picture->features, server->pipeline.width,
                                       judgement);
    }
    uint8_t *owned;
    size_t count = 0;
    const uint8_t *bytes = picture_bytes(picture, &count, &owned);
    const l3a_status status = bytes ? l3a_lesson_add_bytes(lesson, picture->name, bytes, count, judgement) : L3A_OK;
    free(owned);
    return status;
}

/* Adds a picture to the lesson; false: refused. */
static bool add_picture(struct request *request, struct picture *picture, l3a_lesson *lesson) {
    l3a_judgement judgement = {.size = sizeof judgement, .only = json_value_number(json_value_get(picture->told, "only")) != 0};
    const char **tags = read_names(request, picture->told, "tags", &judgement.tag_count);
    const char **absent = tags ? read_names(request, picture->told, "not", &judgement.absent_count) : NULL;
    judgement.tags = tags;
    judgement.absent = absent;
    if (absent) {
        const l3a_status status = add_judged(picture, &judgement, lesson);
        if (status != L3A_OK) {
            refuse_by_library(request, status);
        }
    }
    free(tags);
    free(absent);
    return !request->answer.status;
}

static void write_failures(struct request *request) {
    size_t count = 0;
    text_print(&request->answer.text, "[");
    for (size_t i = 0; i < request->pictures.count; i++) {
        const struct picture *picture = &request->pictures.items[i];
        if (picture->problem) {
            text_print(&request->answer.text, count++ ? ", {\"name\": " : "{\"name\": ");
            text_json(&request->answer.text, picture->name);
            text_print(&request->answer.text, ", \"error\": ");
            text_json(&request->answer.text, picture->error ? picture->error : "not enough memory");
            text_print(&request->answer.text, "}");
        }
    }
    text_print(&request->answer.text, "]");
}

/* The names of classes that the model knows now and did not before. */
static void write_new_classes(struct request *request, const l3a_model *model, size_t count) {
    const size_t classes = l3a_model_class_count(model);
    text_print(&request->answer.text, "[");
    for (size_t k = classes - (count < classes ? count : classes); k < classes; k++) {
        text_print(&request->answer.text, k + count > classes ? ", " : "");
        text_json(&request->answer.text, l3a_model_class(model, k));
    }
    text_print(&request->answer.text, "]");
}

/* The last lesson; false: there is none, and its number and id are 0. */
static bool last_lesson(struct server *server, l3a_history_entry *entry) {
    const l3a_history *history = NULL;
    *entry = (l3a_history_entry){.size = sizeof *entry};
    return l3a_tagger_history(server->model.tagger, &history) == L3A_OK && l3a_history_count(history) &&
           l3a_history_entry_at(history, l3a_history_count(history) - 1, entry) == L3A_OK;
}

static void write_taught(struct request *request, const l3a_lesson *lesson, const l3a_teach_report *report) {
    struct server *server = request->server;
    l3a_history_entry last;
    size_t taught = 0, already = 0;
    for (size_t i = 0; i < l3a_lesson_count(lesson); i++) {
        taught += l3a_lesson_outcome(lesson, i) == L3A_OK;
        already += l3a_lesson_outcome(lesson, i) == L3A_ERROR_EXISTS;
    }
    if (taught) {
        size_t count;
        uint64_t *touched = touched_last(server, &count);
        follow(server, touched, count, false);
        atomic_fetch_add(&server->metrics.lessons, 1);
        atomic_fetch_add(&server->metrics.lesson_pictures, taught);
    }
    last_lesson(server, &last);
    text_print(&request->answer.text, "{");
    lesson_write(&request->answer.text, &last);
    text_print(&request->answer.text, ", \"taught\": %zu, \"already\": %zu, \"new_classes\": ", taught, already);
    write_new_classes(request, l3a_tagger_model(server->model.tagger), taught ? report->new_classes : 0);
    text_print(&request->answer.text, ", \"failed\": ");
    write_failures(request);
    text_print(&request->answer.text, ", ");
    classes_end(request);
}

void teach_lesson(struct request *request) {
    struct server *server = request->server;
    const struct json_value *instead = json_value_get(json_tree_root(request->body.json), "instead");
    const l3a_lesson_options options = {.size = sizeof options,
                                        .instead = json_value_number(instead) != 0,
                                        .most_new_classes = LESSON_TAGS,
                                        .most_classes = MODEL_TAGS};
    l3a_teach_report report = {.size = sizeof report};
    const double began = seconds_now();
    l3a_lesson *lesson = NULL;
    l3a_status status = l3a_lesson_create(server->context, &lesson);
    for (size_t i = 0; status == L3A_OK && !request->answer.status && i < request->pictures.count; i++) {
        if (!request->pictures.items[i].problem) {
            add_picture(request, &request->pictures.items[i], lesson);
        }
    }
    if (status == L3A_OK && !request->answer.status) {
        status = teacher_use_library(server);
    }
    if (status == L3A_OK && !request->answer.status) {
        status = l3a_tagger_teach(server->model.tagger, lesson, &options, &report);
    }
    if (!request->answer.status && status != L3A_OK) {
        refuse_change(request, status);
    } else if (!request->answer.status) {
        write_taught(request, lesson, &report);
        histogram_add(&server->metrics.teaching, seconds_now() - began);
    }
    l3a_lesson_free(lesson);
}

/* The body may be empty. Otherwise it names the lesson by its id, and by nothing else: numbers are used again after an undo. */
void undo_start(struct request *request, struct worker *worker) {
    (void)worker;
    if (lessons_allowed(request) && request->body.text.length && request_json(request)) {
        const struct json_value *root = json_tree_root(request->body.json);
        if (json_value_first(root) && !json_value_text(json_value_get(root, "id"), NULL)) {
            refuse(request, MHD_HTTP_BAD_REQUEST,
                   "send {\"id\": \"…\"}, as the history has it, or nothing to undo whatever lesson is the last",
                   "the lesson to undo is not named by its id");
        }
    }
}

/* The lesson with this id, or the last one (NULL); false: there is none. */
static bool find_lesson(struct server *server, const char *wanted, l3a_history_entry *entry, size_t *index, bool *is_last) {
    const l3a_history *history = NULL;
    char id[LESSON_ID];
    *entry = (l3a_history_entry){.size = sizeof *entry};
    if (l3a_tagger_history(server->model.tagger, &history) != L3A_OK) {
        return false;
    }
    const size_t count = l3a_history_count(history);
    for (size_t i = count; i-- > 0;) {
        if (l3a_history_entry_at(history, i, entry) == L3A_OK) {
            lesson_id(entry->id, id);
            if (!wanted || strcmp(wanted, id) == 0) {
                *is_last = i + 1 == count;
                *index = i;
                return true;
            }
        }
    }
    return false;
}

/* A client that names the lesson can ask again if it has lost the answer: no other lesson is undone then. Any lesson can be named;
 * one that is not the last is taken back by a new entry. */
void undo_lesson(struct request *request) {
    struct server *server = request->server;
    l3a_tagger *tagger = server->model.tagger;
    const char *wanted = json_value_text(json_value_get(json_tree_root(request->body.json), "id"), NULL);
    l3a_history_entry entry;
    size_t count = 0, index;
    bool is_last = true;
    const bool found = find_lesson(server, wanted, &entry, &index, &is_last);
    if (wanted && !found) {
        refuse(request, MHD_HTTP_CONFLICT, "it may have been undone already; see the history", "there is no lesson %s", wanted);
        return;
    }
    const bool renamed = entry.old_name != NULL;
    l3a_teach_report report = {.size = sizeof report};
    uint64_t *touched = is_last ? touched_last(server, &count) : NULL;
    const l3a_status status = is_last ? l3a_tagger_undo(tagger, NULL) : l3a_tagger_revert(tagger, entry.id, &report);
    if (status != L3A_OK) {
        free(touched);
        refuse_change(request, status);
        return;
    }
    touched = is_last ? touched : touched_last(server, &count); /* of the new entry */
    if (renamed) {                                              /* a class has its old name again */
        ledger_outdate(&server->ledger);
    }
    follow(server, touched, count, renamed);
    atomic_fetch_add(&server->metrics.undone, 1);
    text_print(&request->answer.text, "{\"undone\": {");
    lesson_write(&request->answer.text, &entry);
    text_print(&request->answer.text, ", \"pictures\": %zu}, ", is_last ? entry.pictures : (size_t)report.images);
    classes_end(request);
}

/* ---- GET /v1/lesson ---- */

void lesson_start(struct request *request, struct worker *worker) {
    bool bad = false;
    const char *id = query(request, "id", &bad);
    (void)worker;
    if (!id || bad) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "give the id of a lesson, as the history has it: ?id=…", "the lesson is not named");
    }
}

struct lesson_writing {
    struct server *server;
    struct text *text;
    const l3a_model *model;
    size_t count;
};

/* Pictures of the library are named as there, and others by the name that they were sent with. */
static int write_lesson_picture(const char *path, uint64_t checksum, const int8_t *labels, int complete, int held, void *user) {
    struct lesson_writing *writing = user;
    struct text *text = writing->text;
    const uint64_t id = shelf_known(writing->server, checksum);
    char *known = id ? shelf_path(writing->server, id) : NULL, key[KEY_TEXT];
    const char *slash = strrchr(path, '/');
    shelf_key(checksum, key);
    text_print(text, writing->count++ ? ",\n  {\"path\": " : "\n  {\"path\": ");
    if (known) {
        text_json(text, known);
        text_print(text, ", \"id\": %llu", (unsigned long long)id);
    } else {
        text_print(text, "null, \"id\": null");
    }
    text_print(text, ", \"name\": ");
    text_json(text, path[0] == '/' && slash ? slash + 1 : path); /* nobody need know the folders of this machine */
    text_print(text, ", \"key\": \"%s\", \"held\": %s, ", key, held ? "true" : "false");
    judgement_write(text, writing->model, labels, complete);
    text_print(text, "}");
    free(known);
    return text->failed;
}

void lesson_pictures(struct request *request) {
    struct server *server = request->server;
    bool bad = false, is_last;
    const char *id = query(request, "id", &bad);
    const l3a_history *history = NULL;
    l3a_history_entry entry;
    size_t index;
    if (!find_lesson(server, id, &entry, &index, &is_last) || l3a_tagger_history(server->model.tagger, &history) != L3A_OK) {
        refuse(request, MHD_HTTP_NOT_FOUND, "it may have been undone; see the history", "there is no lesson %s", id);
        return;
    }
    struct lesson_writing writing = {server, &request->answer.text, l3a_history_model(history), 0};
    text_print(writing.text, "{");
    lesson_write(writing.text, &entry);
    text_print(writing.text, ", \"kind\": \"%s\", \"pictures\": [", entry.kind);
    const l3a_status status = l3a_history_lesson(history, index, write_lesson_picture, &writing);
    if (status != L3A_OK) {
        refuse_by_library(request, status);
        return;
    }
    text_print(writing.text, "]}\n");
    request->answer.status = MHD_HTTP_OK;
}

void rename_start(struct request *request, struct worker *worker) {
    (void)worker;
    if (lessons_allowed(request) && request_json(request) &&
        (!json_value_text(json_value_get(json_tree_root(request->body.json), "from"), NULL) ||
         !json_value_text(json_value_get(json_tree_root(request->body.json), "to"), NULL))) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send {\"from\": \"cat\", \"to\": \"kitten\"}", "'from' or 'to' is missing");
    }
}

void rename_class(struct request *request) {
    struct server *server = request->server;
    const struct json_value *root = json_tree_root(request->body.json);
    int exact = 1;
    const l3a_status status = l3a_tagger_rename(server->model.tagger, json_value_text(json_value_get(root, "from"), NULL),
                                                json_value_text(json_value_get(root, "to"), NULL), &exact);
    if (status != L3A_OK) {
        refuse_change(request, status);
        return;
    }
    ledger_outdate(&server->ledger);
    librarian_say(server, NULL, NULL, 0);
    changed(server);
    text_print(&request->answer.text, "{\"exact\": %s", exact ? "true" : "false");
    text_print(&request->answer.text, ", ");
    classes_end(request);
}
