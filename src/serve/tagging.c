/* POST /v1/tag and /v1/score: pictures, and their tags. */
#include "serve/tagging.h"

#include "serve/librarian.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NEXT_BEST = 3 };

/* ---- Reading ---- */

size_t json_count(const struct json_value *value) {
    size_t count = 0;
    if (json_value_kind(value) != JSON_ARRAY) {
        return SIZE_MAX;
    }
    for (const struct json_value *item = json_value_first(value); item; item = json_value_next(item)) {
        count++;
    }
    return count;
}

bool pictures_create(struct request *request, size_t count) {
    if (!count || count > REQUEST_PICTURES) {
        refuse(request, count ? MHD_HTTP_CONTENT_TOO_LARGE : MHD_HTTP_BAD_REQUEST, "send 1 to 1000 at a time",
               "the request has %zu pictures", count);
        return false;
    }
    request->pictures.items = calloc(count, sizeof *request->pictures.items);
    if (!request->pictures.items) {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment", "not enough memory");
        return false;
    }
    request->pictures.count = count;
    for (size_t i = 0; i < count; i++) {
        request->pictures.items[i].request = request;
    }
    return true;
}

/* A picture that was seen before, by its key. */
static bool find_key(struct request *request, const char *key, struct picture *picture) {
    struct server *server = request->server;
    picture->features = malloc(server->pipeline.width * sizeof *picture->features);
    if (!picture->features) {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment", "not enough memory");
        return false;
    }
    snprintf(picture->key, sizeof picture->key, "%s", key);
    if (!cache_find(server->cache, key, picture->features, &picture->checksum) &&
        !shelf_find_key(server, key, picture->features, &picture->checksum)) {
        free(picture->features);
        picture->features = NULL;
        picture->problem = MHD_HTTP_GONE;
        picture->error = copy_string("the server no longer has the features of this picture");
        picture->hint = copy_string("send the picture again");
    }
    return true;
}

/* The number of a picture in the index of the library. Numbers of JSON are exact up to 2⁵³, and there are no more pictures. */
static bool read_id(struct request *request, const struct json_value *value, size_t number, struct picture *picture) {
    const double id = json_value_kind(value) == JSON_NUMBER ? json_value_number(value) : 0;
    if (!request->server->librarian) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send the picture as 'image' or 'path'",
               "picture %zu has an 'id', and this server has no index of a library", number + 1);
        return false;
    }
    if (!(id >= 1 && id <= 9007199254740992.0 && id == floor(id))) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "take the id from /v1/find", "the 'id' of picture %zu is not one", number + 1);
        return false;
    }
    picture->id = (uint64_t)id;
    return true;
}

bool picture_read(struct request *request, const struct json_value *told, struct picture *picture, size_t number) {
    const char *name = json_value_text(json_value_get(told, "name"), NULL),
               *key = json_value_text(json_value_get(told, "key"), NULL);
    const char *path = json_value_text(json_value_get(told, "path"), NULL);
    const struct json_value *id = json_value_get(told, "id");
    const char *image = json_value_text(json_value_get(told, "image"), &picture->base64_length);
    char numbered[40];
    if (json_value_kind(told) != JSON_OBJECT || !!key + !!path + !!image + !!id != 1) {
        refuse(request, MHD_HTTP_BAD_REQUEST,
               "give each picture one of 'image' (base64), 'path' and 'id' (in the library), and 'key'",
               "picture %zu does not have exactly one of 'image', 'path', 'id' and 'key'", number + 1);
        return false;
    }
    if (id && !read_id(request, id, number, picture)) {
        return false;
    }
    snprintf(numbered, sizeof numbered, "picture %zu", number + 1);
    picture->told = told;
    picture->path = path;
    picture->base64 = image;
    picture->name = copy_string(name ? name : path ? path : key ? key : numbered);
    if (path && request->server->library < 0) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send the picture as 'image', or start the server with --library DIR",
               "%s: this server has no library", path);
        return false;
    }
    return key ? find_key(request, key, picture) : true;
}

bool pictures_read(struct request *request) {
    const struct json_value *list = json_value_get(json_tree_root(request->body.json), "pictures");
    const size_t count = json_count(list);
    if (count == SIZE_MAX) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send {\"pictures\": [{\"image\": \"<base64>\"}, …]}", "'pictures' is missing");
        return false;
    }
    if (!pictures_create(request, count)) {
        return false;
    }
    size_t i = 0;
    for (const struct json_value *item = json_value_first(list); item; item = json_value_next(item), i++) {
        if (!picture_read(request, item, &request->pictures.items[i], i)) {
            return false;
        }
    }
    shelf_fill(request);
    return true;
}

/* Whether the client asks for all classes: ?all=1, or "all": true. */
static bool wants_all(const struct request *request) {
    bool bad = false;
    const char *all = query(request, "all", &bad);
    return (all && strcmp(all, "1") == 0) || json_value_number(json_value_get(json_tree_root(request->body.json), "all")) != 0;
}

void tag_start(struct request *request, struct worker *worker) {
    const char *type = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Content-Type");
    bool bad = false;
    (void)worker;
    if (type && strncmp(type, "application/json", 16) == 0) {
        if (request_json(request) && pictures_read(request)) {
            request->wanted.all = wants_all(request);
        }
        return;
    }
    if (!type || (strncmp(type, "image/", 6) != 0 && strcmp(type, "application/octet-stream") != 0)) {
        refuse(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "send a picture as image/jpeg, image/png or image/webp, or JSON",
               "%s is not accepted here", type ? type : "a body without a Content-Type");
        return;
    }
    const char *name = query(request, "name", &bad);
    if (pictures_create(request, 1)) {
        request->pictures.items[0].name = copy_string(name ? name : "picture");
        request->pictures.items[0].bytes = request->body.text.bytes;
        request->pictures.items[0].byte_count = request->body.text.length;
        request->wanted.all = wants_all(request);
    }
}

void score_start(struct request *request, struct worker *worker) {
    size_t i = 0;
    (void)worker;
    if (!request_json(request)) {
        return;
    }
    const struct json_value *keys = json_value_get(json_tree_root(request->body.json), "keys");
    const size_t count = json_count(keys);
    if (count == SIZE_MAX) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send {\"keys\": [\"…\", …]}", "'keys' is missing");
        return;
    }
    request->wanted.all = wants_all(request);
    if (!pictures_create(request, count)) {
        return;
    }
    for (const struct json_value *item = json_value_first(keys); item; item = json_value_next(item), i++) {
        const char *key = json_value_text(item, NULL);
        if (!key) {
            refuse(request, MHD_HTTP_BAD_REQUEST, "keys are texts from earlier answers", "key %zu is not a text", i + 1);
            return;
        }
        request->pictures.items[i].name = copy_string(key);
        if (!find_key(request, key, &request->pictures.items[i])) {
            return;
        }
    }
}

/* ---- Scoring ---- */

struct scoring {
    struct picture **pictures; /* that have features */
    each_tagged *each;
    void *user;
};

static int take_tags(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    const struct scoring *scoring = user;
    (void)status;
    scoring->each(scoring->pictures[index], tags, scoring->user);
    return 0;
}

bool pictures_score(struct request *request, struct worker *worker, each_tagged *each, void *user) {
    const size_t width = request->server->pipeline.width;
    size_t good = 0;
    struct scoring scoring = {calloc(request->pictures.count + 1, sizeof *scoring.pictures), each, user};
    float *features = malloc((request->pictures.count * width + 1) * sizeof *features);
    l3a_status status = scoring.pictures && features ? L3A_OK : L3A_ERROR_MEMORY;
    for (size_t i = 0; status == L3A_OK && i < request->pictures.count; i++) {
        struct picture *picture = &request->pictures.items[i];
        if (!picture->problem) {
            memcpy(features + good * width, picture->features, width * sizeof *features);
            scoring.pictures[good++] = picture;
        }
    }
    if (status == L3A_OK && good) {
        status = l3a_reader_score(worker->reader, features, good, take_tags, &scoring);
        if (status == L3A_ERROR_STATE) { /* the model has learned no class yet: no picture has a tag */
            for (size_t i = 0; i < good; i++) {
                each(scoring.pictures[i], NULL, user);
            }
            status = L3A_OK;
        } else if (status != L3A_OK) {
            refuse(request, status_of(status), l3a_reader_error_hint(worker->reader), "%s", l3a_reader_error_text(worker->reader));
        }
    } else if (status != L3A_OK) {
        refuse(request, status_of(status), "try again in a moment", "not enough memory");
    }
    free(scoring.pictures);
    free(features);
    return status == L3A_OK;
}

/* ---- Writing ---- */

/* The distance from the threshold of the tag most in doubt, as `l3a tag --sort uncertain` has it, turned into 1 (in doubt) to 0. */
double tags_uncertainty(const l3a_tags *tags) {
    double least = INFINITY;
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        const double distance = fabs((double)l3a_tags_score(tags, i) - l3a_tags_threshold(tags, i));
        least = distance < least ? distance : least;
    }
    return isfinite(least) ? 1 / (1 + 10 * least) : 0;
}

void tags_write(struct text *text, const l3a_tags *tags, bool all) {
    size_t others = 0, written = 0;
    text_print(text, "[");
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        const bool predicted = l3a_tags_predicted(tags, i);
        if (!predicted && !all && others++ >= NEXT_BEST) {
            continue;
        }
        text_print(text, "%s{\"tag\": ", written++ ? ", " : "");
        text_json(text, l3a_tags_name(tags, i));
        text_print(text, ", \"score\": ");
        text_number(text, (double)l3a_tags_score(tags, i), 9);
        text_print(text, ", \"threshold\": ");
        text_number(text, l3a_tags_threshold(tags, i), 9);
        text_print(text, ", \"predicted\": %s}", predicted ? "true" : "false");
    }
    text_print(text, "]");
}

void picture_write(struct text *text, const struct picture *picture, const l3a_tags *tags, bool all) {
    text_print(text, "{\"name\": ");
    text_json(text, picture->name ? picture->name : "");
    if (picture->key[0]) {
        text_print(text, ", \"key\": ");
        text_json(text, picture->key);
    }
    if (picture->id) {
        text_print(text, ", \"id\": %llu", (unsigned long long)picture->id);
    }
    if (picture->path) {
        text_print(text, ", \"path\": ");
        text_json(text, picture->path);
    }
    if (picture->problem) {
        text_print(text, ", \"error\": ");
        text_json(text, picture->error ? picture->error : "not enough memory");
        text_print(text, ", \"hint\": ");
        text_json(text, picture->hint ? picture->hint : "");
        text_print(text, "}");
        return;
    }
    text_print(text, ", \"tags\": ");
    tags_write(text, tags, all);
    text_print(text, ", \"uncertain\": ");
    text_number(text, tags_uncertainty(tags), 4);
    text_print(text, ", \"taught\": ");
    ledger_write_taught(&picture->request->server->ledger, picture->checksum, text);
    text_print(text, "}");
}

/* The objects of the pictures, each by itself: failures stand between those that were scored. */
struct writing {
    struct request *request;
    const struct knowledge *knowledge;
    struct text *objects;
};

static void write_one(struct picture *picture, const l3a_tags *tags, void *user) {
    const struct writing *writing = user;
    picture_write(&writing->objects[picture - writing->request->pictures.items], picture, tags, writing->request->wanted.all);
}

static void write_all(struct request *request, const struct writing *writing, bool missing) {
    struct text *answer = &request->answer.text;
    size_t written = 0;
    text_print(answer, "{\"edition\": %llu, \"pictures\": [", (unsigned long long)writing->knowledge->edition);
    for (size_t i = 0; i < request->pictures.count; i++) {
        const struct picture *picture = &request->pictures.items[i];
        if (missing && picture->problem) {
            continue;
        }
        if (picture->problem) {
            picture_write(&writing->objects[i], picture, NULL, false);
        }
        text_print(answer, written++ ? ",\n  " : "\n  ");
        text_add(answer, writing->objects[i].bytes, writing->objects[i].length);
        answer->failed = answer->failed || writing->objects[i].failed;
    }
    text_print(answer, "]");
    if (missing) {
        written = 0;
        text_print(answer, ", \"missing\": [");
        for (size_t i = 0; i < request->pictures.count; i++) {
            if (request->pictures.items[i].problem) {
                text_print(answer, written++ ? ", " : "");
                text_json(answer, request->pictures.items[i].name);
            }
        }
        text_print(answer, "]");
    }
    text_print(answer, "}\n");
}

void tag_finish(struct request *request, struct worker *worker) {
    struct knowledge *knowledge = knowledge_keep(request->server); /* before scoring: it must not be newer than the scores */
    const struct writing writing = {request, knowledge, calloc(request->pictures.count, sizeof *writing.objects)};
    const bool missing = request->wanted.route->start == score_start,
               single = !request->body.json && request->pictures.items[0].problem;
    if (single) { /* the picture is the whole request */
        const struct picture *picture = &request->pictures.items[0];
        refuse(request, picture->problem, picture->hint, "%s", picture->error ? picture->error : "not enough memory");
    } else if (!writing.objects) {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment", "not enough memory");
    } else if (pictures_score(request, worker, write_one, (void *)&writing)) {
        write_all(request, &writing, missing);
        request->answer.status = MHD_HTTP_OK;
    }
    for (size_t i = 0; writing.objects && i < request->pictures.count; i++) {
        text_free(&writing.objects[i]);
    }
    free(writing.objects);
    knowledge_free(knowledge);
}
