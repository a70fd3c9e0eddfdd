/* GET /v1/find and GET /v1/duplicates. The index finds pictures from its columns of scores, which follow a lesson within seconds;
 * the tags of those that are shown are computed from their features when they are, so they are always those of the current edition.
 */
#include "serve/finder.h"

#include <stdlib.h>
#include <string.h>

/* ---- Parameters ---- */

bool read_parameter(struct request *request, const char *name, const char **value) {
    bool bad = false;
    *value = query(request, name, &bad);
    if (bad) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "leave it out", "'%s' has a zero byte", name);
    }
    return !bad;
}

bool read_range(struct request *request, uint64_t most, uint64_t otherwise, uint64_t *first, uint64_t *count) {
    const char *from, *number;
    *first = 0;
    *count = otherwise;
    if (!read_parameter(request, "first", &from) || !read_parameter(request, "count", &number)) {
        return false;
    }
    if ((from && !read_number(from, INT64_MAX, first)) || (number && (!read_number(number, most, count)))) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "first counts from 0", "'first' and 'count' are numbers, and 'count' is at most %llu",
               (unsigned long long)most);
        return false;
    }
    return true;
}

void refuse_search(struct request *request, const l3a_context *context, l3a_status status) {
    unsigned code = status_of(status);
    switch (status) {
    case L3A_ERROR_ARGUMENT:
    case L3A_ERROR_CLASS:
    case L3A_ERROR_MISMATCH:
    case L3A_ERROR_NOT_FOUND:
    case L3A_ERROR_STATE: code = MHD_HTTP_UNPROCESSABLE_CONTENT; break; /* what is asked for makes no sense */
    case L3A_ERROR_CHECKSUM:
    case L3A_ERROR_TRUNCATED: code = MHD_HTTP_SERVICE_UNAVAILABLE; break; /* the index is made again */
    default: break;
    }
    refuse(request, code, l3a_error_hint(context), "%s",
           status == L3A_ERROR_MEMORY ? "not enough memory" : l3a_error_text(context));
}

enum { MOST_LIKE = 100 };

struct question {
    const char *where, *word, *like, *sort;
    uint64_t ids[MOST_LIKE];
    size_t id_count;
    uint64_t first, count;
    struct text key;
};

static bool read_ids(struct request *request, struct question *question) {
    char *copy = copy_string(question->like), *rest = NULL;
    bool good = copy || !question->like;
    for (char *part = copy ? strtok_r(copy, ",", &rest) : NULL; good && part; part = strtok_r(NULL, ",", &rest)) {
        good = question->id_count < MOST_LIKE && read_number(part, INT64_MAX, &question->ids[question->id_count]);
        question->id_count += good;
    }
    free(copy);
    if (!good || (question->like && !question->id_count)) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "give ids of pictures from an earlier answer", "'like' is not a list of up to %d ids",
               MOST_LIKE);
        return false;
    }
    return true;
}

static bool read_question(struct request *request, struct question *question) {
    enum { USUAL = 100 };
    if (!read_parameter(request, "where", &question->where) || !read_parameter(request, "word", &question->word) ||
        !read_parameter(request, "like", &question->like) || !read_parameter(request, "sort", &question->sort) ||
        !read_range(request, SHEET_MOST, USUAL, &question->first, &question->count) || !read_ids(request, question)) {
        return false;
    }
    question->word = question->word && question->word[0] ? question->word : NULL;
    question->sort = question->sort && question->sort[0] ? question->sort : NULL;
    text_print(&question->key, "%s%c%s%c%s%c%s", question->where ? question->where : "", 1, question->word ? question->word : "", 1,
               question->like ? question->like : "", 1, question->sort ? question->sort : "");
    return true;
}

/* ---- Results that are kept ---- */

static void result_drop(struct search_result *result) {
    l3a_found_free(result->found);
    free(result->question);
    *result = (struct search_result){0};
}

static l3a_status search(struct librarian *librarian, const struct question *question, l3a_found **found) {
    const l3a_find_options options = {.size = sizeof options,
                                      .where = question->where,
                                      .word = question->word,
                                      .like = question->id_count ? question->ids : NULL,
                                      .like_count = question->id_count,
                                      .sort = question->sort};
    const double began = seconds_now();
    const l3a_status status = l3a_library_find(librarian->finder.library, &options, found);
    histogram_add(&librarian->server->metrics.finding, seconds_now() - began);
    return status;
}

/* The result of a question: one that is kept and still holds, or a new one. It belongs to the librarian. */
static l3a_status answer_question(struct librarian *librarian, const struct question *question, struct search_result **answer) {
    struct search_result *place = &librarian->results[0];
    uint64_t change;
    l3a_status status = l3a_library_change(librarian->finder.library, &change);
    for (size_t i = 0; i < ANSWERS_KEPT; i++) {
        struct search_result *result = &librarian->results[i];
        if (result->question && strcmp(result->question, question->key.bytes) == 0) {
            place = result;
            break;
        }
        place = result->used < place->used ? result : place;
    }
    const bool kept = place->question && strcmp(place->question, question->key.bytes) == 0 && place->change == change;
    if (status == L3A_OK && kept) {
        atomic_fetch_add(&librarian->server->metrics.index_kept_answers, 1);
    } else if (status == L3A_OK) {
        result_drop(place);
        place->question = copy_string(question->key.bytes);
        place->change = change;
        status = place->question ? search(librarian, question, &place->found) : L3A_ERROR_MEMORY;
        if (status != L3A_OK) {
            result_drop(place);
        }
    }
    place->used = ++librarian->clock;
    *answer = place;
    return status;
}

/* ---- GET /v1/find ---- */

struct librarian *librarian_of(struct request *request) {
    const struct server *server = request->server;
    if (!server->librarian) {
        refuse(request, MHD_HTTP_NOT_FOUND, "start the server with --library DIR, where the index can be written",
               "this server has no index of a library%s%s", server->forgetful ? ": " : "",
               server->forgetful ? server->forgetful : "");
    }
    return server->librarian;
}

static bool find_pictures(struct request *request, struct librarian *librarian, const struct question *question,
                          struct sheet *sheet) {
    struct handle *finder = &librarian->finder;
    struct search_result *result = NULL;
    l3a_status status;
    pthread_mutex_lock(&finder->lock);
    bool good = handle_open(librarian, finder, &status);
    if (good) {
        status = answer_question(librarian, question, &result);
        good = status == L3A_OK;
    }
    if (!good) {
        refuse_search(request, finder->context, status);
        handle_check(librarian, finder, status);
    } else {
        sheet->change = result->change;
        good = sheet_fill(librarian, finder, result->found, question->first, question->count, true, sheet);
        if (!good) {
            refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment", "not enough memory");
        }
    }
    pthread_mutex_unlock(&finder->lock);
    return good;
}

void find_start(struct request *request, struct worker *worker) {
    struct librarian *librarian = librarian_of(request);
    struct question question = {0};
    struct sheet sheet = {0};
    struct text *answer = &request->answer.text;
    if (librarian && read_question(request, &question) && find_pictures(request, librarian, &question, &sheet)) {
        struct knowledge *knowledge = knowledge_keep(request->server); /* before scoring: it must not be newer than the scores */
        text_print(answer, "{\"edition\": %llu, \"change\": %llu, \"total\": %llu, \"first\": %llu, \"pictures\": [",
                   (unsigned long long)knowledge->edition, (unsigned long long)sheet.change, (unsigned long long)sheet.total,
                   (unsigned long long)question.first);
        knowledge_free(knowledge);
        if (sheet_write(request, worker, &sheet, false)) {
            text_print(answer, "]}\n");
            request->answer.status = MHD_HTTP_OK;
        }
    }
    sheet_free(&sheet);
    text_free(&question.key);
}

/* ---- GET /v1/duplicates ---- */

/* Looking for all of them takes long, so it has a handle of its own, and what was found is kept. Under the lock of twins. */
static l3a_status find_duplicates(struct librarian *librarian) {
    struct search_result *kept = &librarian->duplicates;
    struct handle *twins = &librarian->twins;
    uint64_t change = 0;
    l3a_status status;
    if (handle_open(librarian, twins, &status)) {
        status = l3a_library_change(twins->library, &change);
    }
    if (status == L3A_OK && (!kept->found || kept->change != change)) {
        result_drop(kept);
        kept->change = change;
        status = l3a_library_duplicates(twins->library, 0, &kept->found);
    }
    handle_close(twins); /* its catalogue need not stay in memory */
    return status;
}

/* The groups [first, first + count) as pictures, as far as they fit on a sheet. *groups: of all. */
static void choose_groups(const l3a_found *found, uint64_t first, uint64_t count, uint64_t *from, uint64_t *pictures,
                          uint64_t *groups) {
    const size_t all = l3a_found_count(found);
    *from = *pictures = 0;
    *groups = all ? (uint64_t)l3a_found_rank(found, all - 1) + 1 : 0;
    for (size_t i = 0; i < all; i++) {
        const uint64_t group = (uint64_t)l3a_found_rank(found, i);
        *from += group < first;
        *pictures += group >= first && group < first + count && *pictures < SHEET_MOST;
    }
}

static bool copy_duplicates(struct request *request, struct librarian *librarian, uint64_t first, uint64_t count,
                            struct sheet *sheet, uint64_t *groups) {
    struct handle *finder = &librarian->finder;
    uint64_t from, pictures;
    l3a_status status;
    choose_groups(librarian->duplicates.found, first, count, &from, &pictures, groups);
    pthread_mutex_lock(&finder->lock);
    const bool good = handle_open(librarian, finder, &status) &&
                      sheet_fill(librarian, finder, librarian->duplicates.found, from, pictures, true, sheet);
    pthread_mutex_unlock(&finder->lock);
    if (!good) {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment", "not enough memory");
    }
    return good;
}

void duplicates_start(struct request *request, struct worker *worker) {
    enum { USUAL = 50, MOST = 200 };
    struct librarian *librarian = librarian_of(request);
    struct sheet sheet = {0};
    struct text *answer = &request->answer.text;
    uint64_t first, count, groups = 0;
    if (!librarian || !read_range(request, MOST, USUAL, &first, &count)) {
        return;
    }
    if (pthread_mutex_trylock(&librarian->twins.lock)) {
        request->answer.retry = 2;
        refuse(request, MHD_HTTP_TOO_MANY_REQUESTS, "try again in a moment", "duplicates are being looked for");
        return;
    }
    const l3a_status status = find_duplicates(librarian);
    if (status != L3A_OK) {
        refuse_search(request, librarian->twins.context, status);
    }
    const bool good = status == L3A_OK && copy_duplicates(request, librarian, first, count, &sheet, &groups);
    const unsigned long long change = librarian->duplicates.change;
    pthread_mutex_unlock(&librarian->twins.lock);
    if (good) {
        text_print(answer, "{\"total\": %llu, \"change\": %llu, \"groups\": [", (unsigned long long)groups, change);
    }
    if (good && sheet_write(request, worker, &sheet, true)) {
        text_print(answer, "]}\n");
        request->answer.status = MHD_HTTP_OK;
    }
    sheet_free(&sheet);
}
