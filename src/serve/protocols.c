#include "serve/protocols.h"

#include "serve/tagging.h"

#include <stdlib.h>
#include <string.h>

/* ---- Health ---- */

bool server_ready(struct server *server) {
    pthread_mutex_lock(&server->teacher.lock);
    const bool troubled = server->teacher.trouble != NULL;
    pthread_mutex_unlock(&server->teacher.lock);
    return !troubled && !atomic_load(&server->draining);
}

void server_trouble(struct server *server, struct text *text) {
    pthread_mutex_lock(&server->teacher.lock);
    text_json(text, server->teacher.trouble ? server->teacher.trouble : "the server is shutting down");
    pthread_mutex_unlock(&server->teacher.lock);
}

void live_now(struct request *request) {
    text_print(&request->answer, "{\"live\": true}\n");
    request->status = MHD_HTTP_OK;
}

void ready_now(struct request *request) {
    struct server *server = request->server;
    if (server_ready(server)) {
        text_print(&request->answer, "{\"ready\": true}\n");
        request->status = MHD_HTTP_OK;
        return;
    }
    text_print(&request->answer, "{\"ready\": false, \"error\": ");
    server_trouble(server, &request->answer);
    text_print(&request->answer, "}\n");
    request->status = MHD_HTTP_SERVICE_UNAVAILABLE;
}

/* ---- The Open Inference Protocol, version 2 ----
 * A model takes the tensor "image" (BYTES [n]: pictures as base64) or "features" (FP32 [n, width]), and gives "scores" and
 * "predicted" [n, classes], and "tags" (BYTES [n]: the predicted tags, separated by semicolons). */

void inference_server_now(struct request *request) {
    text_print(&request->answer, "{\"name\": \"l3a\", \"version\": \"%s\", \"extensions\": []}\n", l3a_version());
    request->status = MHD_HTTP_OK;
}

/* What follows the name of the model in the path; NULL: it is another model, and the request is refused. The name may lack the
 * ending of the file. */
static const char *after_model(struct request *request) {
    const char *rest = request->rest, *name = request->server->model_name, *dot = strrchr(name, '.');
    const size_t length = strcspn(rest, "/"), stem = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    if (length && strncmp(rest, name, length) == 0 && (length == strlen(name) || length == stem)) {
        return rest + length;
    }
    refuse(request, MHD_HTTP_NOT_FOUND, "ask /v1/status for the name of the model", "%.*s: this model is not served here",
           (int)length, rest);
    return NULL;
}

void inference_model_now(struct request *request) {
    struct server *server = request->server;
    struct text *answer = &request->answer;
    const char *rest = after_model(request);
    if (!rest) {
        return;
    }
    if (strcmp(rest, "/ready") == 0) {
        ready_now(request);
        return;
    }
    if (rest[0] && strcmp(rest, "/versions/1") != 0) {
        refuse(request, MHD_HTTP_NOT_FOUND, "see /openapi.json for what there is", "%s: there is nothing here", request->url);
        return;
    }
    struct knowledge *knowledge = knowledge_keep(server);
    text_print(answer, "{\"name\": ");
    text_json(answer, server->model_name);
    text_print(answer,
               ", \"versions\": [\"1\"], \"platform\": \"l3a\", \"inputs\": [{\"name\": \"image\", \"datatype\": \"BYTES\", "
               "\"shape\": [-1]}, {\"name\": \"features\", \"datatype\": \"FP32\", \"shape\": [-1, %zu]}], ",
               server->pipeline.width);
    text_print(answer,
               "\"outputs\": [{\"name\": \"scores\", \"datatype\": \"FP32\", \"shape\": [-1, %zu]}, {\"name\": \"predicted\", "
               "\"datatype\": \"BOOL\", \"shape\": [-1, %zu]}, {\"name\": \"tags\", \"datatype\": \"BYTES\", \"shape\": [-1]}], "
               "\"parameters\": {\"classes\": [",
               knowledge->classes, knowledge->classes);
    for (size_t k = 0; k < knowledge->classes; k++) {
        text_print(answer, k ? ", " : "");
        text_json(answer, knowledge->names[k] ? knowledge->names[k] : "");
    }
    text_print(answer, "]}}\n");
    request->status = MHD_HTTP_OK;
    knowledge_free(knowledge);
}

/* The numbers of a tensor, which may be nested, in order; false if there are not exactly `count`. */
static bool read_numbers(const l3a_json_value *data, float *numbers, size_t count) {
    size_t found = 0;
    for (const l3a_json_value *row = l3a_json_first(data); row; row = l3a_json_next(row)) {
        const bool nested = l3a_json_kind_of(row) == L3A_JSON_ARRAY;
        for (const l3a_json_value *item = nested ? l3a_json_first(row) : row; item; item = nested ? l3a_json_next(item) : NULL) {
            const double number = l3a_json_number(item);
            if (l3a_json_kind_of(item) != L3A_JSON_NUMBER || found == count || !(number > -1e30 && number < 1e30)) {
                return false;
            }
            numbers[found++] = (float)number;
        }
    }
    return found == count;
}

static void read_features(struct request *request, const l3a_json_value *tensor) {
    const size_t width = request->server->pipeline.width;
    const double rows = l3a_json_number(l3a_json_first(l3a_json_get(tensor, "shape")));
    const l3a_json_value *data = l3a_json_get(tensor, "data");
    if (!(rows >= 1 && rows <= REQUEST_PICTURES)) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send 1 to 1000 rows at a time", "the shape of 'features' is not [rows, %zu]", width);
        return;
    }
    float *numbers = calloc((size_t)rows * width, sizeof *numbers);
    if (!numbers || !read_numbers(data, numbers, (size_t)rows * width)) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send [rows, width] finite numbers",
               "'features' does not have %zu numbers in each row", width);
    } else if (pictures_create(request, (size_t)rows)) {
        for (size_t i = 0; i < request->picture_count; i++) {
            struct picture *picture = &request->pictures[i];
            picture->features = malloc(width * sizeof *numbers);
            if (picture->features) {
                memcpy(picture->features, numbers + i * width, width * sizeof *numbers);
            } else {
                picture->problem = MHD_HTTP_SERVICE_UNAVAILABLE;
            }
        }
    }
    free(numbers);
}

static void read_images(struct request *request, const l3a_json_value *tensor) {
    const l3a_json_value *data = l3a_json_get(tensor, "data");
    const size_t count = json_count(data);
    size_t i = 0;
    if (!pictures_create(request, count == SIZE_MAX ? 0 : count)) {
        return;
    }
    for (const l3a_json_value *item = l3a_json_first(data); item; item = l3a_json_next(item), i++) {
        char name[40];
        snprintf(name, sizeof name, "picture %zu", i + 1);
        request->pictures[i].name = copy_string(name);
        request->pictures[i].base64 = l3a_json_text(item, &request->pictures[i].base64_length);
        if (!request->pictures[i].base64) {
            refuse(request, MHD_HTTP_BAD_REQUEST, "send pictures as base64", "picture %zu is not a text", i + 1);
            return;
        }
    }
}

void infer_start(struct request *request, struct worker *worker) {
    const char *rest = after_model(request);
    const char *binary = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Inference-Header-Content-Length");
    if (!rest) {
        return;
    }
    if (strcmp(rest, "/infer") != 0 && strcmp(rest, "/versions/1/infer") != 0) {
        refuse(request, MHD_HTTP_NOT_FOUND, "see /openapi.json for what there is", "%s: there is nothing here", request->url);
        return;
    }
    if (binary) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send tensors as JSON", "the extension for binary tensors is not supported");
        return;
    }
    if (!request_json(request, worker)) {
        return;
    }
    const l3a_json_value *tensor = l3a_json_first(l3a_json_get(l3a_json_root(request->json), "inputs"));
    const char *name = l3a_json_text(l3a_json_get(tensor, "name"), NULL),
               *type = l3a_json_text(l3a_json_get(tensor, "datatype"), NULL);
    if (name && type && strcmp(name, "image") == 0 && strcmp(type, "BYTES") == 0) {
        read_images(request, tensor);
    } else if (name && type && strcmp(name, "features") == 0 && strcmp(type, "FP32") == 0) {
        read_features(request, tensor);
    } else {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send the input 'image' (BYTES) or 'features' (FP32)", "the input is not known");
    }
}

/* The outputs of all pictures, by class. */
struct inference {
    struct request *request;
    size_t classes;
    struct text scores, predicted, tags;
};

static void infer_one(struct picture *picture, const l3a_tags *tags, void *user) {
    struct inference *inference = user;
    const size_t classes = l3a_tags_count(tags);
    float *scores = calloc(classes + 1, sizeof *scores);
    bool *predicted = calloc(classes + 1, sizeof *predicted);
    struct text names = {0};
    (void)picture;
    inference->classes = classes;
    for (size_t i = 0; scores && predicted && i < classes; i++) {
        const size_t class = l3a_tags_class(tags, i);
        scores[class] = l3a_tags_score(tags, i);
        predicted[class] = l3a_tags_predicted(tags, i);
        if (predicted[class]) {
            text_print(&names, "%s%s", names.length ? ";" : "", l3a_tags_name(tags, i));
        }
    }
    for (size_t k = 0; scores && predicted && k < classes; k++) {
        text_print(&inference->scores, inference->scores.length ? ", " : "");
        text_number(&inference->scores, (double)scores[k], 9);
        text_print(&inference->predicted, "%s%s", inference->predicted.length ? ", " : "", predicted[k] ? "true" : "false");
    }
    text_print(&inference->tags, inference->tags.length ? ", " : "");
    text_json(&inference->tags, names.bytes ? names.bytes : "");
    text_free(&names);
    free(scores);
    free(predicted);
}

static void write_inference(struct request *request, const struct inference *inference) {
    struct text *answer = &request->answer;
    const char *id = l3a_json_text(l3a_json_get(l3a_json_root(request->json), "id"), NULL);
    const size_t rows = request->picture_count, classes = inference->classes;
    text_print(answer, "{\"model_name\": ");
    text_json(answer, request->server->model_name);
    text_print(answer, ", \"model_version\": \"1\"");
    if (id) {
        text_print(answer, ", \"id\": ");
        text_json(answer, id);
    }
    text_print(answer, ", \"outputs\": [{\"name\": \"scores\", \"datatype\": \"FP32\", \"shape\": [%zu, %zu], \"data\": [", rows,
               classes);
    text_add(answer, inference->scores.bytes, inference->scores.length);
    text_print(answer, "]}, {\"name\": \"predicted\", \"datatype\": \"BOOL\", \"shape\": [%zu, %zu], \"data\": [", rows, classes);
    text_add(answer, inference->predicted.bytes, inference->predicted.length);
    text_print(answer, "]}, {\"name\": \"tags\", \"datatype\": \"BYTES\", \"shape\": [%zu], \"data\": [", rows);
    text_add(answer, inference->tags.bytes, inference->tags.length);
    text_print(answer, "]}]}\n");
    answer->failed = answer->failed || inference->scores.failed || inference->predicted.failed || inference->tags.failed;
}

/* A tensor has no place for a picture that cannot be read, so one fails them all. */
void infer_finish(struct request *request, struct worker *worker) {
    struct inference inference = {.request = request};
    for (size_t i = 0; i < request->picture_count; i++) {
        const struct picture *picture = &request->pictures[i];
        if (picture->problem) {
            refuse(request, picture->problem, picture->hint, "%s", picture->error ? picture->error : "not enough memory");
            return;
        }
    }
    if (pictures_score(request, worker, infer_one, &inference)) {
        write_inference(request, &inference);
        request->status = MHD_HTTP_OK;
    }
    text_free(&inference.scores);
    text_free(&inference.predicted);
    text_free(&inference.tags);
}
