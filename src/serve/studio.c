/* Label Studio's protocol for models: /health, /setup, /predict, /versions and /webhook. Label Studio asks for predictions of
 * tasks, and shows them as choices. What it says to /webhook when people annotate is not used.
 *
 * A task names its picture by an address. This server opens no connections, so it takes pictures that are in the address itself
 * (data:image/jpeg;base64,…), and those of its library by the path that Label Studio gives to local files
 * (/data/local-files/?d=PATH) or to uploads (/data/upload/PATH), with or without the name of its host before it. */
#include "common/sha256.h"
#include "serve/protocols.h"

#include "serve/tagging.h"

#include <stdlib.h>
#include <string.h>

enum { NAME = 128 };

/* The version is made of what the classes are: after a lesson it is another one, so that Label Studio asks for new predictions, and
 * after a restart it is the same. */
static void write_version(struct request *request, struct text *text) {
    struct knowledge *knowledge = knowledge_keep(request->server);
    struct text version = {0};
    uint8_t digest[32];
    char digits[9];
    sha256_of(knowledge->class_list.bytes, knowledge->class_list.length, digest);
    hex_encode(digest, 4, digits);
    text_print(&version, "%s %s", request->server->model.name, digits);
    text_json(text, version.bytes ? version.bytes : "");
    text_free(&version);
    knowledge_free(knowledge);
}

void studio_health_now(struct request *request) {
    text_print(&request->answer.text, "{\"status\": \"%s\", \"model_class\": \"l3a\"}\n",
               server_ready(request->server) ? "UP" : "DOWN");
    request->answer.status = server_ready(request->server) ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
}

void studio_setup_start(struct request *request, struct worker *worker) {
    (void)worker;
    if (request_json(request)) {
        text_print(&request->answer.text, "{\"model_version\": ");
        write_version(request, &request->answer.text);
        text_print(&request->answer.text, "}\n");
        request->answer.status = MHD_HTTP_OK;
    }
}

void studio_versions_now(struct request *request) {
    text_print(&request->answer.text, "{\"versions\": [");
    write_version(request, &request->answer.text);
    text_print(&request->answer.text, "]}\n");
    request->answer.status = MHD_HTTP_OK;
}

void studio_webhook_start(struct request *request, struct worker *worker) {
    (void)worker;
    if (request_json(request)) {
        text_print(&request->answer.text, "{\"status\": \"ignored\", \"hint\": \"teach on the page, or with POST /v1/teach\"}\n");
        request->answer.status = MHD_HTTP_OK;
    }
}

/* The value of an attribute of a tag; false if it has none. */
static bool attribute(const char *tag, const char *end, const char *name, char value[NAME]) {
    const size_t length = strlen(name);
    for (const char *at = tag; at + length + 2 < end; at++) {
        const bool starts = at > tag && (at[-1] == ' ' || at[-1] == '\n' || at[-1] == '\t');
        if (starts && strncmp(at, name, length) == 0 && at[length] == '=' && (at[length + 1] == '"' || at[length + 1] == '\'')) {
            const char *first = at + length + 2, *last = memchr(first, at[length + 1], (size_t)(end - first));
            if (!last || (size_t)(last - first) >= NAME) {
                return false;
            }
            memcpy(value, first, (size_t)(last - first));
            value[last - first] = '\0';
            return true;
        }
    }
    return false;
}

/* What a project says about its choices. */
struct choices {
    char from[NAME], to[NAME]; /* the names of the choices, and of the picture they belong to */
    bool single;               /* one picture has one choice */
};

static void read_choices(const struct json_value *root, struct choices *choices) {
    const char *config = json_value_text(json_value_get(root, "label_config"), NULL);
    const char *tag = config ? strstr(config, "<Choices") : NULL, *end = tag ? strchr(tag, '>') : NULL;
    char kind[NAME] = "single"; /* as Label Studio has it if nothing is said */
    *choices = (struct choices){.from = "choice", .to = "image"};
    if (end) {
        attribute(tag, end, "name", choices->from);
        attribute(tag, end, "toName", choices->to);
        attribute(tag, end, "choice", kind);
        choices->single = strcmp(kind, "multiple") != 0;
    }
}

/* The path in the library that an address of Label Studio stands for, still with its %XX; NULL: none. */
static const char *local_path(const char *address) {
    static const char *const places[] = {"/data/local-files/?d=", "/data/upload/"};
    const bool elsewhere = strncmp(address, "http://", 7) == 0 || strncmp(address, "https://", 8) == 0;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *found = strstr(address, places[i]);
        if (found && (found == address || elsewhere)) {
            return found + strlen(places[i]);
        }
    }
    return NULL;
}

/* Finds the picture of a task: the first of its data that is an address of one. */
static void read_task(struct request *request, const struct json_value *task, struct picture *picture, size_t number) {
    char name[40];
    picture->told = task;
    const struct json_value *data = json_value_get(task, "data");
    for (const struct json_value *item = json_value_first(data); item; item = json_value_next(item)) {
        size_t length = 0;
        const char *address = json_value_text(item, &length), *path = address ? local_path(address) : NULL;
        if (path && request->server->library >= 0 && (picture->name = copy_string(path))) {
            MHD_http_unescape(picture->name);
            picture->path = picture->name;
            return;
        }
        if (address && strncmp(address, "data:image/", 11) == 0) {
            picture->base64 = address;
            picture->base64_length = length;
            break;
        }
    }
    snprintf(name, sizeof name, "task %zu", number + 1);
    picture->name = copy_string(name);
    if (!picture->base64) {
        picture->problem = MHD_HTTP_UNPROCESSABLE_CONTENT;
        picture->error = copy_string("the task has no picture that this server can read");
    }
}

void studio_predict_start(struct request *request, struct worker *worker) {
    size_t i = 0;
    (void)worker;
    if (!request_json(request)) {
        return;
    }
    const struct json_value *tasks = json_value_get(json_tree_root(request->body.json), "tasks");
    const size_t count = json_count(tasks);
    if (count == SIZE_MAX) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send {\"tasks\": [{\"data\": {\"image\": …}}]}", "'tasks' is missing");
    } else if (pictures_create(request, count)) {
        for (const struct json_value *task = json_value_first(tasks); task; task = json_value_next(task), i++) {
            read_task(request, task, &request->pictures.items[i], i);
        }
    }
}

struct studio {
    struct request *request;
    struct choices choices;
    struct text *objects;
};

static void predict_one(struct picture *picture, const l3a_tags *tags, void *user) {
    const struct studio *studio = user;
    struct text *text = &studio->objects[picture - studio->request->pictures.items];
    size_t count = 0;
    double score = 0;
    text_print(text, "{\"result\": [");
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        if (l3a_tags_predicted(tags, i) && !(count && studio->choices.single)) {
            if (!count) {
                text_print(text, "{\"from_name\": ");
                text_json(text, studio->choices.from);
                text_print(text, ", \"to_name\": ");
                text_json(text, studio->choices.to);
                text_print(text, ", \"type\": \"choices\", \"value\": {\"choices\": [");
                score = (double)l3a_tags_score(tags, i);
            }
            text_print(text, count++ ? ", " : "");
            text_json(text, l3a_tags_name(tags, i));
        }
    }
    text_print(text, "%s], \"score\": ", count ? "]}}" : "");
    text_number(text, score, 9);
    text_print(text, ", \"model_version\": ");
    write_version(studio->request, text);
    text_print(text, "}");
}

void studio_predict_finish(struct request *request, struct worker *worker) {
    struct studio studio = {.request = request, .objects = calloc(request->pictures.count, sizeof *studio.objects)};
    struct text *answer = &request->answer.text;
    read_choices(json_tree_root(request->body.json), &studio.choices);
    if (!studio.objects) {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment", "not enough memory");
    } else if (pictures_score(request, worker, predict_one, &studio)) {
        text_print(answer, "{\"results\": [");
        for (size_t i = 0; i < request->pictures.count; i++) { /* a picture that cannot be read has no prediction */
            text_print(answer, i ? ",\n  " : "\n  ");
            if (studio.objects[i].bytes) {
                text_add(answer, studio.objects[i].bytes, studio.objects[i].length);
            } else {
                text_print(answer, "{\"result\": [], \"score\": 0}");
            }
        }
        text_print(answer, "], \"model_version\": ");
        write_version(request, answer);
        text_print(answer, "}\n");
        request->answer.status = MHD_HTTP_OK;
    }
    for (size_t i = 0; studio.objects && i < request->pictures.count; i++) {
        text_free(&studio.objects[i]);
    }
    free(studio.objects);
}
