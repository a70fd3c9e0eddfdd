/* What is said of the index as a whole. The indexer counts, with the searching handle, so that the catalogue of the library is in
 * memory once; requests get a copy of what it has counted. With many tags that takes a while, so it is done the less often the
 * longer it takes, and other searches come in between. */
#include "serve/librarian.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHARE 10 /* of the time, at most one part is spent on counting */

static void drop_counts(struct holdings *holdings) {
    for (size_t i = 0; i < holdings->tally_count; i++) {
        free(holdings->tallies[i].name);
    }
    free(holdings->tallies);
    holdings->tallies = NULL;
    holdings->tally_count = 0;
    free(holdings->away);
    free(holdings->wordless);
    holdings->away = holdings->wordless = NULL;
}

void holdings_free(struct holdings *holdings) {
    drop_counts(holdings);
    free(holdings->trouble);
    holdings->trouble = NULL;
}

/* ---- Counting ---- */

/* One step under the finder's lock. */
typedef l3a_status counting_step(l3a_library *library, struct holdings *made, const char *name);

static l3a_status with_finder(struct librarian *librarian, counting_step *step, struct holdings *made, const char *name) {
    struct handle *finder = &librarian->finder;
    l3a_status status;
    pthread_mutex_lock(&finder->lock);
    if (handle_open(librarian, finder, &status)) {
        status = step(finder->library, made, name);
        handle_check(librarian, finder, status);
    }
    pthread_mutex_unlock(&finder->lock);
    return status;
}

static l3a_status describe(l3a_library *library, struct holdings *made, const char *name) {
    const char *problem = "";
    (void)name;
    made->info = (l3a_library_info){.size = sizeof made->info};
    l3a_status status = l3a_library_describe(library, &made->info);
    if (status == L3A_OK) {
        status = l3a_library_words(library, &problem);
    }
    const char *slash = problem[0] == '/' ? strrchr(problem, '/') : NULL; /* nobody need know the folders of this machine */
    made->wordless = problem[0] ? copy_string(slash ? slash + 1 : problem) : NULL;
    return status;
}

static l3a_status count_tag(l3a_library *library, struct holdings *made, const char *name) {
    struct tally *tally = &made->tallies[made->tally_count];
    const l3a_status status = l3a_library_count(library, name, &tally->said, &tally->suggested);
    if (status == L3A_OK) {
        tally->name = copy_string(name);
        made->tally_count += tally->name != NULL;
    }
    return status;
}

/* Why the folder is not there. A folder above it may be the one that the index knows. */
static char *find_away(struct librarian *librarian) {
    const char *folder, *problem;
    char *found = NULL;
    for (size_t i = 0; !found && (folder = l3a_library_folder(librarian->own.library, i, &problem)); i++) {
        const size_t length = strlen(folder);
        const bool above = strncmp(librarian->folder, folder, length) == 0 &&
                           (!librarian->folder[length] || librarian->folder[length] == '/' || length == 1);
        found = above && problem[0] ? copy_string(problem) : NULL;
    }
    return found;
}

static l3a_status count(struct librarian *librarian, struct holdings *made) {
    struct knowledge *knowledge = knowledge_keep(librarian->server);
    l3a_status status = with_finder(librarian, describe, made, NULL);
    made->tallies = calloc(knowledge->classes + 1, sizeof *made->tallies);
    for (size_t k = 0; status == L3A_OK && made->tallies && k < knowledge->classes && !atomic_load(&librarian->stop); k++) {
        status = with_finder(librarian, count_tag, made, knowledge->names[k]);
    }
    knowledge_free(knowledge);
    return status;
}

void holdings_renew(struct librarian *librarian, bool settled, uint64_t edition) {
    struct holdings made = {0};
    const double began = seconds_now();
    if (!librarian->own.library || (!settled && began < librarian->renewed + SHARE * librarian->renewing)) {
        return;
    }
    const bool good = count(librarian, &made) == L3A_OK;
    made.away = find_away(librarian);
    librarian->renewed = seconds_now();
    librarian->renewing = librarian->renewed - began;
    pthread_mutex_lock(&librarian->lock);
    struct holdings old = librarian->holdings;
    if (good) {
        made.trouble = old.trouble;
        made.described = true;
        made.edition = settled ? edition : old.edition;
        librarian->holdings = made;
        made = old;
        made.trouble = NULL;
    }
    librarian->holdings.rate = librarian->rate;
    pthread_mutex_unlock(&librarian->lock);
    drop_counts(&made);
}

uint64_t holdings_done(struct server *server) {
    struct librarian *librarian = server->librarian;
    uint64_t done = 0;
    if (librarian) {
        pthread_mutex_lock(&librarian->lock);
        done = librarian->holdings.info.done;
        pthread_mutex_unlock(&librarian->lock);
    }
    return done;
}

/* ---- GET /v1/library/state ---- */

static void write_text(struct text *text, const char *name, const char *value) {
    text_print(text, ", \"%s\": ", name);
    if (value) {
        text_json(text, value);
    } else {
        text_print(text, "null");
    }
}

/* Each picture counts once: it was judged, or has a tag, or has none, or waits, or cannot be read. One that was looked at and has
 * no scores yet waits as well. */
static void write_counts(struct text *text, const struct holdings *holdings) {
    const l3a_library_info *info = &holdings->info;
    const uint64_t counted = info->said + info->tagged + info->untagged + info->failed;
    const unsigned long long waiting = info->pictures > counted ? info->pictures - counted : 0;
    const double rate = info->waiting ? holdings->rate : 0;
    text_print(text, "\"pictures\": %llu, \"done\": %llu, \"said\": %llu, \"tagged\": %llu, \"untagged\": %llu, \"waiting\": %llu",
               (unsigned long long)info->pictures, (unsigned long long)info->done, (unsigned long long)info->said,
               (unsigned long long)info->tagged, (unsigned long long)info->untagged, waiting);
    text_print(text, ", \"failed\": %llu, \"other\": %llu, \"unsure\": %llu, \"scored\": %llu", (unsigned long long)info->failed,
               (unsigned long long)info->others, (unsigned long long)info->unsure, (unsigned long long)info->scored);
    text_print(text, ", \"to_look\": %llu, \"rate\": ", (unsigned long long)info->waiting);
    text_number(text, rate, 4);
    text_print(text, ", \"seconds_left\": ");
    text_number(text, rate > 0 ? ceil((double)info->waiting / rate) : NAN, 9);
    text_print(text, ", \"bytes\": %llu, \"change\": %llu", (unsigned long long)info->bytes, (unsigned long long)info->change);
}

static void write_tallies(struct text *text, const struct holdings *holdings) {
    text_print(text, ", \"tags\": {");
    for (size_t i = 0; i < holdings->tally_count; i++) {
        const struct tally *tally = &holdings->tallies[i];
        text_print(text, i ? ",\n  " : "\n  ");
        text_json(text, tally->name);
        text_print(text, ": {\"said\": %llu, \"suggested\": %llu}", (unsigned long long)tally->said,
                   (unsigned long long)tally->suggested);
    }
    text_print(text, "}");
}

void library_state_now(struct request *request) {
    struct server *server = request->server;
    struct librarian *librarian = server->librarian;
    struct text *answer = &request->answer.text;
    request->answer.status = MHD_HTTP_OK;
    if (!librarian) {
        text_print(answer, "{\"index\": false");
        write_text(answer, "why",
                   server->library < 0 ? "this server has no library"
                   : server->forgetful ? server->forgetful
                                       : "it was started without");
        text_print(answer, "}\n");
        return;
    }
    pthread_mutex_lock(&librarian->lock);
    const struct holdings *holdings = &librarian->holdings;
    text_print(answer, "{\"index\": true, \"edition\": %llu, ", (unsigned long long)holdings->edition);
    write_counts(answer, holdings);
    text_print(answer, ", \"ready\": %s, \"words\": %s", holdings->described ? "true" : "false",
               holdings->described && !holdings->wordless ? "true" : "false");
    if (holdings->wordless) {
        write_text(answer, "words_problem", holdings->wordless);
    }
    write_text(answer, "trouble", holdings->trouble ? holdings->trouble : holdings->away);
    write_tallies(answer, holdings);
    pthread_mutex_unlock(&librarian->lock);
    text_print(answer, "}\n");
}

/* ---- GET /v1/words ---- */

void words_start(struct request *request, struct worker *worker) {
    enum { MOST = 1000 };
    bool bad = false;
    const char *text = query(request, "text", &bad), *name;
    struct text *answer = &request->answer.text;
    const char **found = calloc(MOST, sizeof *found);
    (void)worker;
    if (bad || !found) {
        refuse(request, bad ? MHD_HTTP_BAD_REQUEST : MHD_HTTP_SERVICE_UNAVAILABLE, NULL,
               bad ? "the word has a zero byte" : "not enough memory");
        free(found);
        return;
    }
    size_t count = text ? l3a_word_classes(text, found, MOST) : 0;
    for (; !text && count < MOST && (name = l3a_word_at(count)); count++) {
        found[count] = name;
    }
    text_print(answer, "{\"words\": [");
    for (size_t i = 0; i < count && i < MOST; i++) {
        text_print(answer, i ? ", " : "");
        text_json(answer, found[i]);
    }
    text_print(answer, "], \"source\": ");
    text_json(answer, l3a_words_source());
    text_print(answer, "}\n");
    request->answer.status = MHD_HTTP_OK;
    free(found);
}

/* ---- GET /metrics ---- */

static void write_states(struct text *text, const l3a_library_info *info) {
    const struct {
        const char *state;
        uint64_t count;
    } states[] = {{"done", info->done}, {"waiting", info->waiting}, {"failed", info->failed}, {"other", info->others}};
    metric_explain(text, "l3a_library_pictures", "gauge", "Files in the index of the library, by state.");
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        text_print(text, "l3a_library_pictures{state=\"%s\"} %llu\n", states[i].state, (unsigned long long)states[i].count);
    }
    metric_write(text, "l3a_library_scored", "gauge", "Pictures that have scores of the current edition.", info->scored);
    metric_write(text, "l3a_library_index_bytes", "gauge", "Bytes of the index, with its features.", info->bytes);
}

static void write_seconds(struct text *text, const char *name, const char *help, const atomic_uint_fast64_t *micros) {
    metric_explain(text, name, "counter", help);
    text_print(text, "%s %.6f\n", name, 1e-6 * (double)atomic_load(micros));
}

void library_metrics(struct server *server, struct text *text) {
    struct metrics *metrics = &server->metrics;
    struct librarian *librarian = server->librarian;
    if (!librarian) {
        return;
    }
    pthread_mutex_lock(&librarian->lock);
    const l3a_library_info info = librarian->holdings.info;
    const bool troubled = librarian->holdings.trouble || librarian->holdings.away;
    pthread_mutex_unlock(&librarian->lock);
    write_states(text, &info);
    metric_write(text, "l3a_library_trouble", "gauge", "Whether the index cannot go on, or the folder is not there.", troubled);
    metric_write(text, "l3a_library_looked_total", "counter", "Pictures that went through the network for the index.",
                 atomic_load(&metrics->index_looked));
    metric_write(text, "l3a_library_known_total", "counter", "Pictures whose content the index knew: moved, or copies.",
                 atomic_load(&metrics->index_known));
    metric_write(text, "l3a_library_failed_total", "counter", "Pictures that could not be read for the index.",
                 atomic_load(&metrics->index_failed));
    metric_write(text, "l3a_library_scored_total", "counter", "Scorings of pictures of the index.",
                 atomic_load(&metrics->index_scored));
    write_seconds(text, "l3a_library_looking_seconds_total", "Time spent on looking at pictures.", &metrics->index_looking_micros);
    write_seconds(text, "l3a_library_scoring_seconds_total", "Time spent on scoring them.", &metrics->index_scoring_micros);
    metric_write(text, "l3a_library_features_total", "counter", "Pictures of requests whose features the index had.",
                 atomic_load(&metrics->index_features));
    metric_write(text, "l3a_library_sidecars_total", "counter", "Sidecars that were written.", atomic_load(&metrics->sidecars));
    metric_write(text, "l3a_library_kept_answers_total", "counter", "Searches whose result was still there.",
                 atomic_load(&metrics->index_kept_answers));
    metric_explain(text, "l3a_library_scan_seconds", "histogram", "Time that it took to compare the folder with the index.");
    histogram_write(text, "l3a_library_scan_seconds", "", &metrics->scanning);
    metric_explain(text, "l3a_library_find_seconds", "histogram", "Time that a search took, without waiting for others.");
    histogram_write(text, "l3a_library_find_seconds", "", &metrics->finding);
}
