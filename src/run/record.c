#include "run/record.h"

#include "base/file.h"
#include "data/features.h"
#include "learn/model_options.h"
#include "measure/folder.h"
#include "method/method.h"
#include "run/experiment.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <inttypes.h>
#include <string.h>

static void print_string(text_builder *text, const char *key, const char *value, const char *after) {
    text_builder_json_string(text, key);
    text_builder_print(text, ": ");
    text_builder_json_string(text, value);
    text_builder_print(text, "%s", after);
}

static void add_to_sum(void *state, const char *bytes, size_t count) {
    XXH3_64bits_update(state, bytes, count);
}

static l3a_status print_table(text_builder *text, const char *key, l3a_features *features) {
    l3a_status status = L3A_OK;
    uint64_t checksum;
    XXH3_state_t labels;
    TRY(l3a_features_checksum(features, &checksum));
    text_builder_print(text, "    \"%s\": {\"rows\": %zu, \"width\": %zu, ", key, l3a_features_rows(features),
                       l3a_features_width(features));
    for (size_t i = 0; i < PROVENANCE; i++) {
        const char *value = l3a_features_record(features, provenance[i]);
        if (value) {
            print_string(text, provenance[i], value, ", ");
        }
    }
    const char *difficult = l3a_features_record(features, difficult_record);
    if (difficult) {
        print_string(text, difficult_record, difficult, ", ");
    }
    XXH3_64bits_reset(&labels); /* for a .npy table these come from a separate file */
    TRY(marks_scan(features, &features->labels, add_to_sum, &labels));
    text_builder_print(text, "\"xxh3\": \"%016" PRIx64 "\", \"labels_xxh3\": \"%016" PRIx64 "\"},\n", checksum,
                       features->labels.held ? (uint64_t)XXH3_64bits_digest(&labels) : 0);
done:
    return status;
}

static void print_setting(text_builder *text, const l3a_option_info *info, const char *value) {
    const bool number = info->type != L3A_OPTION_CHOICE && strcmp(value, "auto") != 0;
    text_builder_print(text, number ? "\"%s\": %s" : "\"%s\": \"%s\"", info->name, value);
}

/* The settings that a method prescribes. */
static void print_prescribed(text_builder *text, const l3a_experiment_options *options, const struct method *method) {
    const l3a_options own = method_options(method, options->settings);
    const char *between = "", *name = method->info.name;
    text_builder_print(text, "\"%s\": {", name);
    for (size_t i = 0; l3a_option_at(i); i++) {
        char given[64], prescribed[64];
        l3a_options_get(options->settings, l3a_option_at(i)->name, given, sizeof given);
        l3a_options_get(&own, l3a_option_at(i)->name, prescribed, sizeof prescribed);
        if (strcmp(given, prescribed) != 0) {
            text_builder_print(text, "%s", between);
            print_setting(text, l3a_option_at(i), prescribed);
            between = ", ";
        }
    }
    if (method->own && method->own->thresholds) {
        print_string(text, "thresholds", own_thresholds, "");
    }
    text_builder_print(text, "}");
}

/* The methods that train the backbone, if there are any. */
static void print_trained(text_builder *text, const l3a_experiment *experiment, const l3a_experiment_options *options) {
    const char *between = "    \"trained\": \"";
    for (size_t i = 0; i < options->method_count; i++) {
        if (method_trains(experiment_method(experiment, options->methods[i]), options->settings)) {
            text_builder_print(text, "%s%s", between, options->methods[i]);
            between = ", ";
        }
    }
    text_builder_print(text, *between == ',' ? "\",\n" : "");
}

/* The program's own methods and their parameters; a record without any is what it was before there were such methods. */
static void print_own_methods(text_builder *text, const l3a_experiment *experiment, const l3a_experiment_options *options) {
    const char *before = "    \"own\": {";
    for (size_t i = 0; i < options->method_count; i++) {
        const l3a_method *own = experiment_method(experiment, options->methods[i])->own;
        if (own) {
            text_builder_print(text, "%s", before);
            print_string(text, own->name, own->parameters ? own->parameters : "", "");
            before = ", ";
        }
    }
    text_builder_print(text, strcmp(before, ", ") == 0 ? "},\n" : "");
}

static void print_axes(text_builder *text, const l3a_experiment_options *options) {
    for (size_t i = 0; i < options->axis_count; i++) {
        const l3a_axis *axis = &options->axes[i];
        text_builder_print(text, ",\n    \"values of %s\": [", axis->name);
        for (size_t j = 0; j < axis->count; j++) {
            text_builder_print(text, "%s\"%s\"", j ? ", " : "", axis->values[j]);
        }
        text_builder_print(text, "]");
    }
}

static void print_classes(text_builder *text, const l3a_experiment *experiment, const struct class_order *order) {
    text_builder_print(text, "[");
    for (size_t i = 0; i < experiment->classes; i++) {
        text_builder_print(text, i ? ", " : "");
        text_builder_json_string(text, order->names[i]);
    }
    text_builder_print(text, "]");
}

/* The classes in the first order; if there are several orders, also what they are called, and the classes in each. */
static void print_orders(text_builder *text, const l3a_experiment *experiment) {
    text_builder_print(text, "    \"classes\": ");
    print_classes(text, experiment, &experiment->orders[0]);
    if (experiment->order_count == 1) {
        return;
    }
    text_builder_print(text, ",\n    \"class_orders\": [");
    for (size_t i = 0; i < experiment->order_count; i++) {
        text_builder_print(text, i ? ", " : "");
        text_builder_json_string(text, experiment->orders[i].name);
    }
    text_builder_print(text, "],\n    \"classes_by_order\": [");
    for (size_t i = 0; i < experiment->order_count; i++) {
        text_builder_print(text, i ? ", " : "");
        print_classes(text, experiment, &experiment->orders[i]);
    }
    text_builder_print(text, "]");
}

/* Without views, a record is what it was before there were any; and without a word about pseudo-from, what it was before 0.9. */
static bool goes_without_saying(const l3a_options *settings, const char *name, const char *value) {
    const bool combined = settings->model.views == 1 || settings->model.pseudo_from == L3A_PSEUDO_FROM_COMBINED;
    return strcmp(name, "seed") == 0 || (strcmp(name, "views") == 0 && strcmp(value, "1") == 0) ||
           (strcmp(name, "score-views") == 0 && strcmp(value, "0") == 0) || (strcmp(name, "pseudo-from") == 0 && combined);
}

l3a_status record_identity(const l3a_experiment *experiment, const l3a_experiment_options *options, text_builder *text) {
    const l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    text_builder_print(text, "{\n    ");
    print_string(text, "version", l3a_version(), ",\n    ");
    print_string(text, "protocol", options->protocol, ",\n    \"methods\": [");
    for (size_t i = 0; i < options->method_count; i++) {
        text_builder_print(text, "%s\"%s\"", i ? ", " : "", options->methods[i]);
    }
    text_builder_print(text, "],\n    \"seeds\": [");
    for (size_t i = 0; i < options->seed_count; i++) {
        text_builder_print(text, "%s%" PRIu64, i ? ", " : "", options->seeds[i]);
    }
    text_builder_print(text, "],\n    \"threads\": %d,\n", context->threads);
    if (divides_rows(context)) {
        text_builder_print(text, "    \"processes\": %zu,\n", context->options.processes);
    }
    for (size_t i = 0; l3a_option_at(i); i++) {
        const l3a_option_info *info = l3a_option_at(i);
        char value[64];
        l3a_options_get(options->settings, info->name, value, sizeof value);
        if (goes_without_saying(options->settings, info->name, value)) {
            continue;
        }
        text_builder_print(text, "    ");
        print_setting(text, info, value);
        text_builder_print(text, ",\n");
    }
    text_builder_print(text, "    \"given\": [");
    const char *between = "";
    for (size_t i = 0; l3a_option_at(i); i++) {
        const char *name = l3a_option_at(i)->name;
        if (strcmp(name, "seed") != 0 && l3a_options_given(options->settings, name)) {
            text_builder_print(text, "%s\"%s\"", between, name);
            between = ", ";
        }
    }
    text_builder_print(text, "],\n    \"prescribed\": {");
    for (size_t i = 0; i < options->method_count; i++) {
        text_builder_print(text, i ? ", " : "");
        print_prescribed(text, options, experiment_method(experiment, options->methods[i]));
    }
    text_builder_print(text, "},\n");
    print_own_methods(text, experiment, options);
    TRY(print_table(text, "train", options->train));
    TRY(print_table(text, "test", options->test));
    if (options->adapted) {
        text_builder_print(text, "    ");
        print_string(text, "adapted", options->adapted, ",\n");
    }
    print_trained(text, experiment, options);
    print_orders(text, experiment);
    print_axes(text, options);
    text_builder_print(text, "\n  }");
    status = text->status;
done:
    return status;
}

l3a_status record_write(l3a_context *context, const char *path, const l3a_experiment_options *options,
                        const text_builder *identity) {
    l3a_status status = L3A_OK;
    text_builder text = {.context = context};
    l3a_machine machine = {.size = sizeof machine};
    TRY(l3a_machine_query(context, &machine));
    text_builder_print(&text, "{\n  ");
    print_string(&text, "program", "l3a", ",\n  ");
    print_string(&text, "command", options->command ? options->command : "", ",\n  ");
    print_string(&text, "directory", options->directory ? options->directory : "", ",\n  \"pictures\": {");
    const char *data = l3a_features_record(options->test, "data"), *split = l3a_features_record(options->test, "split");
    print_string(&text, "data", options->pictures ? options->pictures : data ? data : "", ", ");
    print_string(&text, "split", !options->pictures && split ? split : "", "},\n  \"machine\": {");
    print_string(&text, "processor", machine.processor, ", ");
    print_string(&text, "instructions", machine.instructions, ", ");
    print_string(&text, "blas", machine.blas, ", ");
    print_string(&text, "compiler", machine.compiler, ", ");
    print_string(&text, "device", l3a_context_device(context), ", ");
    text_builder_print(&text, "\"processors\": %d, \"memory\": %" PRIu64 "},\n  \"run\": ", machine.processors,
                       machine.memory_total);
    text_builder_append(&text, identity->text, identity->length);
    text_builder_print(&text, "\n}\n");
    TRY(text.status);
    TRY(write_whole(context, path, text.text, text.length));
done:
    text_builder_free(&text);
    return status;
}

/* The next member of an object. The value is its exact text. */
static l3a_status next_member(struct json *json, json_text *key, json_text *value, bool *more) {
    l3a_status status = L3A_OK;
    TRY(json_next_key(json, key, more));
    if (*more) {
        json_peek(json);
        value->at = json->at;
        TRY(json_skip(json));
        value->length = (size_t)(json->at - value->at);
    }
done:
    return status;
}

static bool same(json_text left, json_text right) {
    return left.length == right.length && memcmp(left.at, right.at, left.length) == 0;
}

static int shown(json_text text) {
    return (int)(text.length < 60 ? text.length : 60);
}

/* The number of processes that a member of a record tells; without the member, it is 1. */
static json_text processes_of(json_text key, json_text value, bool *told) {
    *told = key.at && json_text_is(key, "processes");
    return *told ? value : (json_text){.at = "1", .length = 1};
}

/* Sums over other numbers of processes differ in their last bits. */
static l3a_status compare_processes(l3a_context *context, const char *path, json_text stored_key, json_text stored_value,
                                    json_text key, json_text value) {
    bool before, now;
    const json_text began = processes_of(stored_key, stored_value, &before), goes_on = processes_of(key, value, &now);
    return (before || now) && !same(began, goes_on)
               ? fail(context, L3A_ERROR_MISMATCH,
                      "start as many processes as before; several can share a machine if there are fewer machines now",
                      "%s: the run in this folder needs %.*s process%s to continue with the same bits, but %.*s %s started", path,
                      shown(began), began.at, began.length == 1 && began.at[0] == '1' ? "" : "es", shown(goes_on), goes_on.at,
                      goes_on.length == 1 && goes_on.at[0] == '1' ? "was" : "were")
               : L3A_OK;
}

l3a_status record_says(l3a_context *context, const char *path, const char *name, bool *says) {
    l3a_status status = L3A_OK;
    char *text = NULL;
    struct json json;
    TRY(record_open(context, path, &json, &text));
    TRY(record_find_run(&json));
    TRY(json_find(&json, name, says));
done:
    release(context, text);
    return status;
}

l3a_status record_compare(l3a_context *context, const char *path, const text_builder *identity) {
    l3a_status status = L3A_OK;
    char *text = NULL;
    bool stored_more, more;
    struct json stored, wanted;
    TRY(record_open(context, path, &stored, &text));
    TRY(record_find_run(&stored));
    TRY(json_object(&stored));
    json_begin(&wanted, context, "this run", identity->text, identity->length);
    TRY(json_object(&wanted));
    for (;;) {
        json_text key = {0}, value = {0}, stored_key = {0}, stored_value = {0};
        TRY(next_member(&stored, &stored_key, &stored_value, &stored_more));
        TRY(next_member(&wanted, &key, &value, &more));
        if (!stored_more && !more) {
            break;
        }
        TRY(compare_processes(context, path, stored_key, stored_value, key, value));
        const bool agree = stored_more == more && same(key, stored_key) && same(value, stored_value);
        const bool version = key.length == 7 && memcmp(key.at, "version", 7) == 0;
        FAIL_IF(!agree, context, L3A_ERROR_MISMATCH,
                version
                    ? "resume it with the version that began it, or start again in another folder: the numbers of a run come from "
                      "one version"
                    : "resume with the settings recorded in the folder, or choose another folder",
                "%s: the run in this folder has %.*s = %.*s, but this one has %.*s = %.*s", path, shown(stored_key), stored_key.at,
                shown(stored_value), stored_value.at, shown(key), key.at, shown(value), value.at);
    }
done:
    release(context, text);
    return status;
}
