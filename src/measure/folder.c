#include "measure/folder.h"

#include "base/text_index.h"
#include "measure/results.h"

#include <string.h>

enum { RECORD_LIMIT = 64 << 20 };

l3a_status record_open(l3a_context *context, const char *path, struct json *json, char **text) {
    l3a_status status = L3A_OK;
    size_t length;
    TRY(read_whole(context, path, RECORD_LIMIT, text, &length));
    json_begin(json, context, path, *text, length);
done:
    return status;
}

l3a_status record_find_run(struct json *json) {
    bool found;
    const l3a_status status = json_find(json, "run", &found);
    return status == L3A_OK && !found ? json_fail(json, "there is no object \"run\"") : status;
}

/* The path of the folder's run.json or, if there is none, of its sweep.json. */
static l3a_status find_record(l3a_context *context, const char *folder, char **path) {
    static const char *const names[] = {"run.json", "sweep.json"};
    l3a_status status = L3A_OK;
    bool exists = false;
    for (size_t i = 0; i < 2 && !exists; i++) {
        release(context, *path);
        TRY(join_path(context, folder, names[i], path));
        TRY(file_exists(context, *path, &exists));
    }
    FAIL_IF(!exists, context, L3A_ERROR_NOT_FOUND, "give the folder of a run or a sweep",
            "%s: there is no run.json or sweep.json in this folder", folder);
done:
    return status;
}

l3a_status l3a_folder_record(l3a_context *context, const char *folder, const char *key, char *text, size_t capacity) {
    l3a_status status = L3A_OK;
    char *path = NULL, *content = NULL, *value = NULL;
    struct json json;
    bool found;
    NEED(context, context, folder, key, text);
    TRY(find_record(context, folder, &path));
    TRY(record_open(context, path, &json, &content));
    TRY(json_find(&json, key, &found));
    if (found) {
        json_text string;
        TRY(json_string(&json, &string));
        TRY(json_text_copy(&json, string, &value));
    }
    const size_t length = value ? strlen(value) : 0;
    FAIL_IF(length >= capacity, context, L3A_ERROR_FORMAT, NULL, "%s: \"%s\" has %zu bytes, too many for a buffer of %zu bytes",
            path, key, length, capacity);
    memcpy(text, value ? value : "", length + 1);
done:
    release(context, path);
    release(context, content);
    release(context, value);
    return status;
}

/* Appends the strings of a list. */
static l3a_status read_strings(struct json *json, text_list *strings) {
    l3a_status status = L3A_OK;
    char *name = NULL;
    bool more = true;
    TRY(json_array(json));
    while (more) {
        json_text item;
        TRY(json_next_item(json, &more));
        if (more) {
            TRY(json_string(json, &item));
            TRY(json_text_copy(json, item, &name));
            TRY(text_list_add(json->context, strings, name, strlen(name)));
            release(json->context, name);
            name = NULL;
        }
    }
done:
    release(json->context, name);
    return status;
}

/* Moves to a member of the object "run", from the start of a run.json. */
static l3a_status find_member(const struct json *start, const char *key, struct json *json, bool *found) {
    l3a_status status = L3A_OK;
    *json = *start;
    TRY(record_find_run(json));
    TRY(json_find(json, key, found));
done:
    return status;
}

/* Reads one class order, which must have the names of `known`: where each of them is there. */
static l3a_status read_order(struct json *json, const text_index *known, size_t *positions) {
    l3a_status status = L3A_OK;
    text_list names = {0};
    bool *taken = NULL;
    TRY(read_strings(json, &names));
    TRY(allocate_zeroed(json->context, known->count, sizeof *taken, &taken));
    for (size_t k = 0; k < names.count || k < known->count; k++) {
        const size_t at = k < names.count ? text_index_find(known, names.items[k]) : known->count;
        if (at == known->count || taken[at]) {
            status = json_fail(json, "an order does not have every class once");
            goto done;
        }
        taken[at] = true;
        positions[k] = at;
    }
done:
    release(json->context, taken);
    text_list_clear(json->context, &names);
    return status;
}

/* Reads the class orders of a run that has several. */
static l3a_status read_orders(const struct json *start, l3a_results *results) {
    l3a_context *context = start->context;
    const size_t classes = results->classes.count;
    l3a_status status = L3A_OK;
    struct json json;
    text_list orders = {0};
    text_index known = {0};
    size_t *positions = NULL, capacity = 0, count = 0;
    bool found, more;
    TRY(find_member(start, "class_orders", &json, &found));
    if (!found) {
        goto done;
    }
    TRY(read_strings(&json, &orders));
    TRY(text_index_make(context, results->classes.items, classes, &known));
    TRY(find_member(start, "classes_by_order", &json, &more));
    if (more) {
        TRY(json_array(&json));
    }
    while (more) {
        TRY(json_next_item(&json, &more));
        if (more) {
            TRY(grow_array(context, &positions, &capacity, (count + 1) * classes, sizeof *positions));
            TRY(read_order(&json, &known, positions + count++ * classes));
        }
    }
    if (count != orders.count || count < 2) {
        status = json_fail(&json, "there must be several class orders, with the classes of each");
        goto done;
    }
    TRY(results_set_orders(results, (const char *const *)orders.items, count, positions));
done:
    text_list_clear(context, &orders);
    text_index_free(context, &known);
    release(context, positions);
    return status;
}

/* The classes that a run.json lists, in each of the run's orders. */
static l3a_status read_classes(l3a_context *context, const char *path, l3a_results *results) {
    l3a_status status = L3A_OK;
    char *text = NULL;
    struct json start, json;
    bool found;
    TRY(record_open(context, path, &start, &text));
    TRY(find_member(&start, "classes", &json, &found));
    if (found) {
        TRY(read_strings(&json, &results->classes));
        TRY(read_orders(&start, results));
    }
done:
    release(context, text);
    return status;
}

l3a_status results_load(l3a_context *context, const char *folder, l3a_results **results) {
    l3a_status status = L3A_OK;
    l3a_results *made = NULL;
    char *path = NULL;
    TRY(results_create(context, &made));
    TRY(join_path(context, folder, "run.json", &path));
    TRY(read_classes(context, path, made));
    TRY(results_read(made, folder));
    *results = made;
    made = NULL;
done:
    l3a_results_free(made);
    release(context, path);
    return status;
}
