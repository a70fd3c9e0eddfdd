/* GET /v1/quality: how good the model is, by leaving out one picture at a time, and what it makes of pictures that it knows nothing
 * of.
 *
 * With hundreds of pictures that takes seconds, in which lessons should not wait. So an examiner, a thread at low priority,
 * measures a copy of the model. The teacher makes the copy, since nobody else knows when model and history belong together: it
 * saves the model and opens both files again, with the examiner's context. While it does, the examiner waits, so only one thread at
 * a time uses that context. There is never more than one copy. Those who ask while an edition is measured wait for the next round,
 * and if there is no other edition by then, they get the answer that there is. If the model has unlabelled pictures, the answer is
 * about the library, and is also measured again when many more of its pictures were looked at. */
#include "serve/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WAITING = 64, NICER = 10 };

/* ---- The answer ---- */

struct quality {
    double *precision, *recall;
    uint64_t *shown, *judged, *confusions;
    uint64_t *tagged; /* of the library; NULL: there is none */
};

static void write_quality(struct text *answer, const l3a_model *model, const struct quality *quality) {
    const size_t classes = l3a_model_class_count(model);
    text_print(answer, "{\"classes\": [");
    for (size_t k = 0; k < classes; k++) {
        text_print(answer, k ? ",\n  {\"name\": " : "\n  {\"name\": ");
        text_json(answer, l3a_model_class(model, k));
        text_print(answer, ", \"pictures\": %llu, \"judged\": %llu, \"precision\": ", (unsigned long long)quality->shown[k],
                   (unsigned long long)quality->judged[k]);
        text_number(answer, quality->precision[k] / 100, 6);
        text_print(answer, ", \"recall\": ");
        text_number(answer, quality->recall[k] / 100, 6);
        if (quality->tagged) {
            text_print(answer, ", \"tagged\": %llu", (unsigned long long)quality->tagged[k]);
        }
        text_print(answer, "}");
    }
    text_print(answer, "], \"confusions\": [");
    size_t written = 0;
    for (size_t i = 0; i < classes * classes; i++) {
        if (quality->confusions[i]) {
            text_print(answer, written++ ? ",\n  {\"shown\": " : "\n  {\"shown\": ");
            text_json(answer, l3a_model_class(model, i / classes));
            text_print(answer, ", \"tagged\": ");
            text_json(answer, l3a_model_class(model, i % classes));
            text_print(answer, ", \"pictures\": %llu}", (unsigned long long)quality->confusions[i]);
        }
    }
    text_print(answer, "]");
}

/* What to teach next: the classes with few pictures, and those that are missed or given too often. */
static void write_next(struct text *answer, const l3a_model *model, const struct quality *quality) {
    enum { FEW = 5 };
    size_t written = 0;
    text_print(answer, ", \"next\": [");
    for (size_t k = 0; k < l3a_model_class_count(model); k++) {
        char why[160] = "";
        const double precision = quality->precision[k], recall = quality->recall[k];
        const unsigned long long shown = quality->shown[k];
        if (shown < FEW) {
            snprintf(why, sizeof why, "%llu %s: teach more pictures of it", shown, shown == 1 ? "picture" : "pictures");
        } else if (recall < 70) {
            snprintf(why, sizeof why, "recall %.0f %%: teach more pictures that show it", recall);
        } else if (precision < 70) {
            snprintf(why, sizeof why, "precision %.0f %%: teach pictures that do not show it", precision);
        }
        if (why[0]) {
            text_print(answer, written++ ? ",\n  {\"tag\": " : "\n  {\"tag\": ");
            text_json(answer, l3a_model_class(model, k));
            text_print(answer, ", \"why\": ");
            text_json(answer, why);
            text_print(answer, "}");
        }
    }
    text_print(answer, "]");
}

static void quality_free(struct quality *quality) {
    free(quality->precision);
    free(quality->recall);
    free(quality->shown);
    free(quality->judged);
    free(quality->confusions);
    free(quality->tagged);
}

/* What the numbers are about: the library, or any pictures of which half show no class. */
static void write_scope(struct text *answer, const l3a_model *model, const struct quality *quality, size_t pictures) {
    l3a_unlabelled_info info = {.size = sizeof info};
    if (quality->tagged && l3a_model_unlabelled(model, &info) == L3A_OK) {
        text_print(answer, ", \"background\": null, \"library\": {\"pictures\": %zu, \"unlabelled\": %llu}", pictures,
                   (unsigned long long)info.images);
    } else {
        text_print(answer, ", \"background\": 0.5");
    }
}

/* What to expect in the library, where there is one. There, a class that every picture shows has a recall as well; that of others
 * is the same, and is not measured twice. */
static l3a_status foresee_library(const l3a_history *history, l3a_features *library, struct quality *quality) {
    const size_t classes = l3a_model_class_count(l3a_history_model(history));
    bool complete = true;
    if (!library) {
        return L3A_OK;
    }
    for (size_t k = 0; k < classes; k++) {
        complete = complete && !(quality->shown[k] > 1 && isnan(quality->recall[k]));
    }
    quality->tagged = calloc(classes + 1, sizeof *quality->tagged);
    return quality->tagged
               ? l3a_history_foresee_in(history, library, quality->precision, complete ? NULL : quality->recall, quality->tagged)
               : L3A_ERROR_MEMORY;
}

/* Measures the copy, and describes it. */
static l3a_status measure(const l3a_history *history, l3a_features *library, uint64_t edition, struct text *answer) {
    const l3a_model *model = l3a_history_model(history);
    const size_t classes = l3a_model_class_count(model);
    struct quality quality = {calloc(classes + 1, sizeof(double)),
                              calloc(classes + 1, sizeof(double)),
                              calloc(classes + 1, sizeof(uint64_t)),
                              calloc(classes + 1, sizeof(uint64_t)),
                              calloc(classes * classes + 1, sizeof(uint64_t)),
                              NULL};
    const bool room = quality.precision && quality.recall && quality.shown && quality.judged && quality.confusions;
    l3a_status status = room ? l3a_history_foresee(history, &(const double){0.5}, 1, quality.precision, quality.recall,
                                                   quality.shown, quality.judged, quality.confusions)
                             : L3A_ERROR_MEMORY;
    status = status == L3A_OK ? foresee_library(history, library, &quality) : status;
    if (status == L3A_OK) {
        write_quality(answer, model, &quality);
        write_next(answer, model, &quality);
        write_scope(answer, model, &quality, l3a_features_rows(library));
        text_print(answer, ", \"edition\": %llu}\n", (unsigned long long)edition);
        status = answer->failed ? L3A_ERROR_MEMORY : L3A_OK;
    }
    quality_free(&quality);
    return status;
}

/* ---- The copy ---- */

static void keep_problem(struct examiner *examiner, l3a_status status, const l3a_context *context) {
    examiner->status = status;
    snprintf(examiner->error, sizeof examiner->error, "%s",
             status == L3A_ERROR_MEMORY ? "not enough memory" : l3a_error_text(context));
    snprintf(examiner->hint, sizeof examiner->hint, "%s", l3a_error_hint(context));
}

/* What to expect in a library follows from scores that were made with one. */
static bool has_unlabelled(const l3a_model *model) {
    l3a_unlabelled_info info = {.size = sizeof info};
    return model && l3a_model_unlabelled(model, &info) == L3A_OK && info.images;
}

void examiner_copy(struct server *server) {
    struct examiner *examiner = &server->examiner;
    const l3a_history *own = NULL;
    l3a_history *history = NULL;
    l3a_context *context = server->context;
    l3a_status status = l3a_tagger_history(server->model.tagger, &own);
    if (status == L3A_OK) {
        teacher_save(server); /* if it fails, the history has the rest */
        context = examiner->context;
        status = l3a_history_open(context, server->model.path, &history);
    }
    if (status == L3A_OK) {
        status = l3a_history_load(history);
    }
    examiner->looked_at = library_looked_at(server);
    if (status == L3A_OK && has_unlabelled(l3a_history_model(history))) {
        status = library_table(server, context, false, &examiner->library);
    }
    struct knowledge *knowledge = knowledge_keep(server);
    pthread_mutex_lock(&examiner->lock);
    keep_problem(examiner, status, context);
    examiner->history = history;
    examiner->edition = knowledge->edition;
    examiner->copied = true;
    pthread_cond_signal(&examiner->work);
    pthread_mutex_unlock(&examiner->lock);
    knowledge_free(knowledge);
}

/* Waits for a copy of the model. The teacher ends after the examiner, so it comes. */
static void wait_for_copy(struct server *server) {
    struct examiner *examiner = &server->examiner;
    examiner->copied = false;
    teacher_copy(server);
    pthread_mutex_lock(&examiner->lock);
    while (!examiner->copied) {
        pthread_cond_wait(&examiner->work, &examiner->lock);
    }
    pthread_mutex_unlock(&examiner->lock);
}

/* ---- The thread ---- */

/* The end of the server ends the computation. */
static int on_event(const l3a_event *event, void *user) {
    const struct server *server = user;
    return event->kind == L3A_EVENT_PROGRESS && atomic_load(&server->load.draining);
}

static bool is_current(struct server *server) {
    struct knowledge *knowledge = knowledge_keep(server);
    const struct examiner *examiner = &server->examiner;
    const bool current =
        examiner->status == L3A_OK && examiner->edition == knowledge->edition && !library_has_grown(server, examiner->looked_at);
    knowledge_free(knowledge);
    return current;
}

/* Brings the answer up to date. */
static void examine(struct server *server) {
    struct examiner *examiner = &server->examiner;
    if (is_current(server)) {
        return;
    }
    text_free(&examiner->answer);
    examiner->status = L3A_ERROR_CANCELLED;
    if (!atomic_load(&server->load.draining)) {
        wait_for_copy(server);
    }
    if (examiner->status == L3A_OK) {
        const l3a_status status = measure(examiner->history, examiner->library.table, examiner->edition, &examiner->answer);
        keep_problem(examiner, status, examiner->context);
        atomic_fetch_add(&server->metrics.examined, 1);
    }
    library_rows_free(&examiner->library);
    l3a_history_free(examiner->history);
    examiner->history = NULL;
}

static void answer(struct request *request) {
    const struct examiner *examiner = &request->server->examiner;
    if (examiner->status == L3A_OK) {
        text_add(&request->answer.text, examiner->answer.bytes, examiner->answer.length);
        request->answer.status = MHD_HTTP_OK;
    } else if (atomic_load(&request->server->load.draining)) {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment", "the server is shutting down");
    } else {
        refuse(request, status_of(examiner->status), examiner->hint, "%s", examiner->error);
    }
    request_done(request);
}

/* All requests that wait; NULL: there are none, and the server ends. */
static struct request *next_requests(struct examiner *examiner) {
    pthread_mutex_lock(&examiner->lock);
    while (!examiner->first && !examiner->stop) {
        pthread_cond_wait(&examiner->work, &examiner->lock);
    }
    struct request *first = examiner->first;
    examiner->first = NULL;
    examiner->waiting = 0;
    pthread_mutex_unlock(&examiner->lock);
    return first;
}

static void *examine_all(void *argument) {
    struct server *server = argument;
    thread_give_way(NICER);
    for (struct request *request; (request = next_requests(&server->examiner));) {
        examine(server);
        for (struct request *next; request; request = next) {
            next = request->next; /* the request may be gone afterwards */
            answer(request);
        }
    }
    return NULL;
}

bool examiner_add(struct request *request) {
    struct examiner *examiner = &request->server->examiner;
    pthread_mutex_lock(&examiner->lock);
    const bool room = examiner->waiting < WAITING;
    if (room) {
        request->next = examiner->first;
        examiner->first = request;
        examiner->waiting++;
        pthread_cond_signal(&examiner->work);
    }
    pthread_mutex_unlock(&examiner->lock);
    if (!room) {
        request->answer.retry = 2;
        refuse(request, MHD_HTTP_TOO_MANY_REQUESTS, "try again in a moment",
               "%d requests are already waiting for the quality of the model", WAITING);
    }
    return room;
}

bool examiner_start(struct server *server) {
    struct examiner *examiner = &server->examiner;
    const l3a_context_options options = {.size = sizeof options,
                                         .threads = 1,
                                         .device = l3a_context_device(server->context),
                                         .on_event = on_event,
                                         .event_user = server};
    examiner->status = L3A_ERROR_STATE;
    pthread_mutex_init(&examiner->lock, NULL);
    pthread_cond_init(&examiner->work, NULL);
    examiner->running = l3a_context_create(&options, &examiner->context) == L3A_OK &&
                        pthread_create(&examiner->thread, NULL, examine_all, server) == 0;
    return examiner->running;
}

void examiner_stop(struct server *server) {
    struct examiner *examiner = &server->examiner;
    if (examiner->running) {
        pthread_mutex_lock(&examiner->lock);
        examiner->stop = true;
        pthread_cond_signal(&examiner->work);
        pthread_mutex_unlock(&examiner->lock);
        pthread_join(examiner->thread, NULL);
        examiner->running = false;
    }
    text_free(&examiner->answer);
    l3a_context_free(examiner->context);
    examiner->context = NULL;
}
