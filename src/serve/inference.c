/* The Open Inference Protocol, version 2, which clients of KServe and Triton use.
 *
 * A model takes the tensor "image" (BYTES [n]: pictures) or "features" (FP32 [n, width]), and gives "scores" and "predicted"
 * [n, classes], and "tags" (BYTES [n]: the predicted tags, separated by semicolons).
 *
 * Tensors are in the JSON (pictures as base64), or, by the extension for binary tensors, follow it as bytes: the header
 * Inference-Header-Content-Length says where the JSON ends. An item of BYTES then has its length before it, in 4 bytes; numbers
 * are little-endian, and truth values have one byte each. */
#include "serve/protocols.h"

#include "serve/tagging.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void inference_server_now(struct request *request) {
    text_print(&request->answer.text, "{\"name\": \"l3a\", \"version\": \"%s\", \"extensions\": [\"binary_tensor_data\"]}\n",
               l3a_version());
    request->answer.status = MHD_HTTP_OK;
}

/* What follows the model and its version in the path; NULL: it is another model, and the request is refused. The name may lack the
 * ending of the file, and there is one version. */
static const char *after_model(struct request *request) {
    static const char version[] = "/versions/1";
    const char *rest = request->wanted.rest, *name = request->server->model.name, *dot = strrchr(name, '.');
    const size_t length = strcspn(rest, "/"), stem = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    if (length && strncmp(rest, name, length) == 0 && (length == strlen(name) || length == stem)) {
        rest += length;
        const char *after = rest + sizeof version - 1;
        return strncmp(rest, version, sizeof version - 1) == 0 && (!after[0] || after[0] == '/') ? after : rest;
    }
    refuse(request, MHD_HTTP_NOT_FOUND, "ask /v1/status for the name of the model", "%.*s: this model is not served here",
           (int)length, rest);
    return NULL;
}

void inference_model_now(struct request *request) {
    struct server *server = request->server;
    struct text *answer = &request->answer.text;
    const char *rest = after_model(request);
    if (!rest) {
        return;
    }
    if (strcmp(rest, "/ready") == 0) {
        ready_now(request);
        return;
    }
    if (rest[0]) {
        refuse(request, MHD_HTTP_NOT_FOUND, "see /openapi.json for the paths of this server", "%s: there is nothing here",
               request->wanted.url);
        return;
    }
    struct knowledge *knowledge = knowledge_keep(server);
    text_print(answer, "{\"name\": ");
    text_json(answer, server->model.name);
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
    request->answer.status = MHD_HTTP_OK;
    knowledge_free(knowledge);
}

/* ---- Inputs ---- */

/* The input of a request. */
struct tensor {
    const char *name, *type;
    const struct json_value *shape, *data;
    const uint8_t *bytes; /* NULL: `data` has it */
    size_t byte_count;
};

/* How many items the shape has; 0 if it is none. */
static double shape_items(const struct json_value *shape) {
    double items = json_value_first(shape) ? 1 : 0;
    for (const struct json_value *item = json_value_first(shape); item; item = json_value_next(item)) {
        const double size = json_value_number(item);
        items *= size >= 1 && size <= 1e9 && floor(size) == size ? size : 0;
    }
    return items;
}

/* Finds the input; its bytes, if it has some, are what follows the JSON. false: refused. */
static bool read_input(struct request *request, size_t json_length, struct tensor *tensor) {
    const struct json_value *inputs = json_value_get(json_tree_root(request->body.json), "inputs"),
                            *input = json_value_first(inputs);
    const struct json_value *parameters = json_value_get(input, "parameters"),
                            *size = json_value_get(parameters, "binary_data_size");
    const size_t more = request->body.text.length > json_length ? request->body.text.length - json_length : 0;
    *tensor = (struct tensor){.name = json_value_text(json_value_get(input, "name"), NULL),
                              .type = json_value_text(json_value_get(input, "datatype"), NULL),
                              .shape = json_value_get(input, "shape"),
                              .data = json_value_get(input, "data"),
                              .bytes = size && more ? (const uint8_t *)request->body.text.bytes + json_length : NULL,
                              .byte_count = more};
    if (json_count(inputs) != 1) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send the input 'image' (BYTES) or 'features' (FP32)",
               "'inputs' is not an array with one tensor");
    } else if (json_value_get(parameters, "shared_memory_region")) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send the tensor in the request", "shared memory is not supported");
    } else if (json_value_number(size) != (double)more) {
        refuse(request, MHD_HTTP_BAD_REQUEST,
               "give the bytes after the JSON as 'binary_data_size', and the bytes before them in Inference-Header-Content-Length",
               "%zu bytes follow the JSON, and 'binary_data_size' says %.0f", more, json_value_number(size));
    } else if (shape_items(tensor->shape) < 1) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "give each size of the tensor, as in \"shape\": [2]", "the input has no shape");
    }
    return !request->answer.status;
}

static uint32_t read_little(const uint8_t *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static bool is_good(double number) {
    return number > -1e30 && number < 1e30;
}

/* The numbers of a tensor in JSON, which may be nested, in order; false if there are not exactly `count`. */
static bool read_numbers(const struct json_value *data, float *numbers, size_t count) {
    size_t found = 0;
    for (const struct json_value *row = json_value_first(data); row; row = json_value_next(row)) {
        const bool nested = json_value_kind(row) == JSON_ARRAY;
        for (const struct json_value *item = nested ? json_value_first(row) : row; item;
             item = nested ? json_value_next(item) : NULL) {
            const double number = json_value_number(item);
            if (json_value_kind(item) != JSON_NUMBER || found == count || !is_good(number)) {
                return false;
            }
            numbers[found++] = (float)number;
        }
    }
    return found == count;
}

/* The same of a binary one. */
static bool read_binary_numbers(const struct tensor *tensor, float *numbers, size_t count) {
    bool good = tensor->byte_count == count * sizeof *numbers;
    for (size_t i = 0; good && i < count; i++) {
        const uint32_t bits = read_little(tensor->bytes + i * sizeof bits);
        memcpy(&numbers[i], &bits, sizeof bits);
        good = is_good((double)numbers[i]);
    }
    return good;
}

static void read_features(struct request *request, const struct tensor *tensor) {
    const size_t width = request->server->pipeline.width;
    const double rows = json_value_number(json_value_first(tensor->shape));
    if (rows > REQUEST_PICTURES || shape_items(tensor->shape) != rows * (double)width) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send 1 to 1000 rows at a time", "the shape of 'features' is not [rows, %zu]", width);
        return;
    }
    const size_t count = (size_t)rows * width;
    float *numbers = calloc(count, sizeof *numbers);
    if (!numbers || !(tensor->bytes ? read_binary_numbers(tensor, numbers, count) : read_numbers(tensor->data, numbers, count))) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send [rows, width] finite numbers",
               "'features' does not have %zu numbers in each row", width);
    } else if (pictures_create(request, (size_t)rows)) {
        for (size_t i = 0; i < request->pictures.count; i++) {
            struct picture *picture = &request->pictures.items[i];
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

/* Makes room for the pictures of a tensor; false: refused. */
static bool images_create(struct request *request, const struct tensor *tensor, size_t count) {
    if (count && shape_items(tensor->shape) != (double)count) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "give the number of pictures as the shape",
               "'image' has %zu pictures, and its shape %.0f", count, shape_items(tensor->shape));
        return false;
    }
    const bool good = pictures_create(request, count);
    for (size_t i = 0; good && i < count; i++) {
        char name[40];
        snprintf(name, sizeof name, "picture %zu", i + 1);
        request->pictures.items[i].name = copy_string(name);
    }
    return good;
}

static void read_images(struct request *request, const struct tensor *tensor) {
    const size_t count = json_count(tensor->data);
    struct picture *picture;
    if (!images_create(request, tensor, count == SIZE_MAX ? 0 : count)) {
        return;
    }
    picture = request->pictures.items;
    for (const struct json_value *item = json_value_first(tensor->data); item; item = json_value_next(item), picture++) {
        picture->base64 = json_value_text(item, &picture->base64_length);
        if (!picture->base64) {
            refuse(request, MHD_HTTP_BAD_REQUEST, "send pictures as base64", "%s is not a text", picture->name);
            return;
        }
    }
}

/* Steps to the next item of a binary tensor; false: there is no whole one. */
static bool next_item(const struct tensor *tensor, size_t *at, const uint8_t **item, size_t *length) {
    if (tensor->byte_count - *at < 4) {
        return false;
    }
    *length = read_little(tensor->bytes + *at);
    *item = tensor->bytes + *at + 4;
    if (tensor->byte_count - *at - 4 < *length) {
        return false;
    }
    *at += 4 + *length;
    return true;
}

static void read_binary_images(struct request *request, const struct tensor *tensor) {
    size_t count = 0, at = 0, length;
    const uint8_t *item;
    while (next_item(tensor, &at, &item, &length)) {
        count++;
    }
    if (at < tensor->byte_count) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "put the length of each picture before it, in 4 bytes, the lowest first",
               "the bytes of 'image' end within picture %zu", count + 1);
    } else if (images_create(request, tensor, count)) {
        at = 0;
        for (size_t i = 0; i < count && next_item(tensor, &at, &item, &length); i++) {
            request->pictures.items[i].bytes = item;
            request->pictures.items[i].byte_count = length;
        }
    }
}

/* ---- Outputs ---- */

enum { SCORES, PREDICTED, TAGS, OUTPUTS };

struct output {
    const char *name, *type;
    bool by_class; /* it has one item for each class */
    bool wanted, binary;
    struct text data;
};

/* The outputs that the request wants; false: refused. */
static bool read_outputs(struct request *request, struct output outputs[OUTPUTS]) {
    const struct json_value *root = json_tree_root(request->body.json), *wanted = json_value_first(json_value_get(root, "outputs"));
    const bool binary = json_value_number(json_value_get(json_value_get(root, "parameters"), "binary_data_output")) != 0;
    outputs[SCORES] = (struct output){"scores", "FP32", true, !wanted, binary, {0}};
    outputs[PREDICTED] = (struct output){"predicted", "BOOL", true, !wanted, binary, {0}};
    outputs[TAGS] = (struct output){"tags", "BYTES", false, !wanted, binary, {0}};
    for (; wanted; wanted = json_value_next(wanted)) {
        const char *name = json_value_text(json_value_get(wanted, "name"), NULL);
        const struct json_value *parameters = json_value_get(wanted, "parameters"),
                                *own = json_value_get(parameters, "binary_data");
        struct output *output = outputs;
        while (output < outputs + OUTPUTS && (!name || strcmp(name, output->name) != 0)) {
            output++;
        }
        if (output == outputs + OUTPUTS) {
            refuse(request, MHD_HTTP_BAD_REQUEST, "ask for 'scores', 'predicted' or 'tags'", "there is no output '%s'",
                   name ? name : "");
            return false;
        }
        if (json_value_get(parameters, "classification") || json_value_get(parameters, "shared_memory_region")) {
            refuse(request, MHD_HTTP_BAD_REQUEST, "ask for 'tags' to get names; ask for tensors in the answer",
                   "output '%s': classification and shared memory are not supported", name);
            return false;
        }
        output->wanted = true;
        output->binary = own ? json_value_number(own) != 0 : binary;
    }
    return true;
}

static void add_little(struct text *text, uint32_t number) {
    const uint8_t bytes[] = {(uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(number >> 16), (uint8_t)(number >> 24)};
    text_add(text, bytes, sizeof bytes);
}

static void add_score(struct output *output, float score) {
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    if (output->binary) {
        add_little(&output->data, bits);
    } else {
        text_print(&output->data, output->data.length ? ", " : "");
        text_number(&output->data, (double)score, 9);
    }
}

static void add_truth(struct output *output, bool truth) {
    if (output->binary) {
        text_add(&output->data, truth ? "\1" : "\0", 1);
    } else {
        text_print(&output->data, "%s%s", output->data.length ? ", " : "", truth ? "true" : "false");
    }
}

static void add_names(struct output *output, const struct text *names) {
    if (output->binary) {
        add_little(&output->data, (uint32_t)names->length);
        text_add(&output->data, names->bytes, names->length);
    } else {
        text_print(&output->data, output->data.length ? ", " : "");
        text_json(&output->data, names->bytes ? names->bytes : "");
    }
}

/* ---- Inference ---- */

void infer_start(struct request *request, struct worker *worker) {
    const char *rest = after_model(request);
    const char *header = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Inference-Header-Content-Length");
    struct output outputs[OUTPUTS];
    struct tensor tensor;
    (void)worker;
    if (!rest) {
        return;
    }
    if (strcmp(rest, "/infer") != 0) {
        refuse(request, MHD_HTTP_NOT_FOUND, "see /openapi.json for the paths of this server", "%s: there is nothing here",
               request->wanted.url);
        return;
    }
    const unsigned long long json_length = header ? strtoull(header, NULL, 10) : request->body.text.length;
    if (json_length > request->body.text.length) {
        refuse(request, MHD_HTTP_BAD_REQUEST, "give the number of bytes that the JSON has",
               "Inference-Header-Content-Length is larger than the request");
        return;
    }
    if (!request_json_head(request, (size_t)json_length) || !read_input(request, (size_t)json_length, &tensor) ||
        !read_outputs(request, outputs)) {
        return;
    }
    if (tensor.name && tensor.type && strcmp(tensor.name, "image") == 0 && strcmp(tensor.type, "BYTES") == 0) {
        (tensor.bytes ? read_binary_images : read_images)(request, &tensor);
    } else if (tensor.name && tensor.type && strcmp(tensor.name, "features") == 0 && strcmp(tensor.type, "FP32") == 0) {
        read_features(request, &tensor);
    } else {
        refuse(request, MHD_HTTP_BAD_REQUEST, "send the input 'image' (BYTES) or 'features' (FP32)", "the input is not known");
    }
}

/* The outputs of all pictures. */
struct inference {
    size_t classes;
    struct output outputs[OUTPUTS];
};

static void infer_one(struct picture *picture, const l3a_tags *tags, void *user) {
    struct inference *inference = user;
    struct output *outputs = inference->outputs;
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
        add_score(&outputs[SCORES], scores[k]);
        add_truth(&outputs[PREDICTED], predicted[k]);
    }
    add_names(&outputs[TAGS], &names);
    outputs[TAGS].data.failed = outputs[TAGS].data.failed || names.failed || !scores || !predicted;
    text_free(&names);
    free(scores);
    free(predicted);
}

static void write_inference(struct request *request, const struct inference *inference) {
    struct text *answer = &request->answer.text;
    const char *id = json_value_text(json_value_get(json_tree_root(request->body.json), "id"), NULL);
    const struct output *end = inference->outputs + OUTPUTS;
    bool binary = false;
    size_t written = 0;
    text_print(answer, "{\"model_name\": ");
    text_json(answer, request->server->model.name);
    text_print(answer, ", \"model_version\": \"1\"");
    if (id) {
        text_print(answer, ", \"id\": ");
        text_json(answer, id);
    }
    text_print(answer, ", \"outputs\": [");
    for (const struct output *output = inference->outputs; output < end; output++) {
        if (output->wanted) {
            text_print(answer, "%s{\"name\": \"%s\", \"datatype\": \"%s\", \"shape\": [%zu", written++ ? ", " : "", output->name,
                       output->type, request->pictures.count);
            if (output->by_class) {
                text_print(answer, ", %zu", inference->classes);
            }
            if (output->binary) {
                text_print(answer, "], \"parameters\": {\"binary_data_size\": %zu}}", output->data.length);
                binary = true;
            } else {
                text_print(answer, "], \"data\": [");
                text_add(answer, output->data.bytes, output->data.length);
                text_print(answer, "]}");
            }
        }
    }
    text_print(answer, "]}\n");
    if (binary) {
        request->answer.type = "application/octet-stream";
        request->answer.json_length = answer->length;
    }
    for (const struct output *output = inference->outputs; output < end; output++) {
        if (output->wanted && output->binary) {
            text_add(answer, output->data.bytes, output->data.length);
        }
        answer->failed = answer->failed || output->data.failed;
    }
}

/* A tensor has no place for a picture that cannot be read, so one fails them all. */
void infer_finish(struct request *request, struct worker *worker) {
    struct inference inference = {0};
    for (size_t i = 0; i < request->pictures.count; i++) {
        const struct picture *picture = &request->pictures.items[i];
        if (picture->problem) {
            refuse(request, picture->problem, picture->hint, "%s", picture->error ? picture->error : "not enough memory");
            return;
        }
    }
    if (read_outputs(request, inference.outputs) && pictures_score(request, worker, infer_one, &inference)) {
        write_inference(request, &inference);
        request->answer.status = MHD_HTTP_OK;
    }
    for (size_t i = 0; i < OUTPUTS; i++) {
        text_free(&inference.outputs[i].data);
    }
}
