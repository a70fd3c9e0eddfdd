#include "learn/holds.h"

#include "base/text_index.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char holds_record[] = "holds";
enum { DIGITS = 16, CLASSES_AT = DIGITS + 1, SHARD_AT = 2 * (DIGITS + 1) };

/* A checksum of the features and labels, wherever they come from. Of processes that divide the rows, only the first reads all
 * features. */
static l3a_status describe_images(l3a_features *features, uint64_t *checksum) {
    l3a_context *context = features->context;
    l3a_status status = L3A_OK;
    const bool in_file = features->input.file >= 0;
    const size_t labels = features->rows * features->classes.count;
    uint64_t sum = features->sum;
    XXH3_state_t state;
    if (!sum) {
        status = divides_rows(context) && !leads(context) ? L3A_OK : l3a_features_checksum(features, &sum);
        TRY(follow_lead(context, status, &sum));
        features->sum = in_file ? sum : 0; /* the caller's memory may change */
    }
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, &sum, sizeof sum);
    XXH3_64bits_update(&state, features->labels, features->labels ? labels : 0);
    XXH3_64bits_update(&state, features->members, features->members ? labels : 0);
    *checksum = XXH3_64bits_digest(&state);
done:
    return status;
}

/* A checksum of the names in alphabetical order. */
static l3a_status describe_classes(l3a_context *context, const char *const *classes, size_t count, uint64_t *checksum) {
    l3a_status status = L3A_OK;
    char **sorted = NULL;
    XXH3_state_t state;
    TRY(allocate(context, count, sizeof *sorted, &sorted));
    memcpy(sorted, classes, count * sizeof *sorted);
    sort_texts(sorted, count);
    XXH3_64bits_reset(&state);
    for (size_t i = 0; i < count; i++) {
        XXH3_64bits_update(&state, sorted[i], strlen(sorted[i]) + 1);
    }
    *checksum = XXH3_64bits_digest(&state);
done:
    release(context, sorted);
    return status;
}

l3a_status hold_describe(l3a_features *features, const char *const *classes, size_t count, char line[HOLD_TEXT]) {
    l3a_status status = L3A_OK;
    uint64_t images, names, number, shards;
    const char *shard = l3a_features_record(features, shard_record), *extraction = l3a_features_record(features, extraction_record);
    line[0] = '\0';
    if (!learns_alone(features->context) && !divides_rows(features->context)) { /* the others have tables of their own */
        return L3A_OK;
    }
    TRY(describe_images(features, &images));
    TRY(describe_classes(features->context, classes, count, &names));
    const int length = snprintf(line, HOLD_TEXT, "%016" PRIx64 " %016" PRIx64, images, names);
    if (shard && extraction && shard_parse(shard, &number, &shards) && strspn(extraction, "0123456789abcdef") == DIGITS &&
        !extraction[DIGITS]) {
        snprintf(line + length, HOLD_TEXT - (size_t)length, " %" PRIu64 "/%" PRIu64 " %s", number, shards, extraction);
    }
done:
    return status;
}

/* Where the line is in the record, or NULL. */
static char *find_line(const l3a_model *model, const char *line) {
    const size_t index = text_list_find(&model->record_keys, holds_record), length = strlen(line);
    char *at = index < model->record_values.count && length ? model->record_values.items[index] : NULL;
    while (at && !(strncmp(at, line, length) == 0 && (at[length] == '\n' || !at[length]))) {
        at = strchr(at, '\n');
        at += at != NULL;
    }
    return at;
}

bool model_holds(const l3a_model *model, const char *line) {
    return find_line(model, line) != NULL;
}

l3a_status model_hold(l3a_model *model, const char *line) {
    const char *before = l3a_model_record(model, holds_record);
    text_builder text = {.context = model->context};
    l3a_status status = L3A_OK;
    if (!line[0] || model_holds(model, line)) {
        return L3A_OK;
    }
    text_builder_print(&text, "%s%s%s", before ? before : "", before ? "\n" : "", line);
    TRY(text.status);
    TRY(l3a_model_set_record(model, holds_record, text.text));
done:
    text_builder_free(&text);
    return status;
}

static void drop_record(l3a_model *model) {
    const size_t index = text_list_find(&model->record_keys, holds_record);
    text_list *const lists[] = {&model->record_keys, &model->record_values};
    for (size_t i = 0; i < 2; i++) {
        release(model->context, lists[i]->items[index]);
        lists[i]->count--;
        memmove(lists[i]->items + index, lists[i]->items + index + 1, (lists[i]->count - index) * sizeof *lists[i]->items);
    }
}

void model_let_go(l3a_model *model, const char *line) {
    const size_t index = text_list_find(&model->record_keys, holds_record);
    char *at = find_line(model, line);
    if (!at) {
        return;
    }
    char *text = model->record_values.items[index], *next = at + strlen(line);
    if (*next) {
        memmove(at, next + 1, strlen(next + 1) + 1);
    } else {
        at[at > text ? -1 : 0] = '\0';
    }
    if (!text[0]) {
        drop_record(model);
    }
}

l3a_status model_let_go_phase(l3a_model *model, const l3a_phase_info *phase) {
    l3a_status status = L3A_OK;
    const char *text = l3a_model_record(model, holds_record);
    text_list lines = {0};
    uint64_t names;
    char wanted[DIGITS + 1];
    TRY(describe_classes(model->context, (const char *const *)model->classes.items + phase->first, phase->last - phase->first,
                         &names));
    snprintf(wanted, sizeof wanted, "%016" PRIx64, names);
    TRY(text_list_split_lines(model->context, &lines, text ? text : "", text ? strlen(text) : 0));
    for (size_t i = 0; i < lines.count; i++) {
        if (strlen(lines.items[i]) >= CLASSES_AT + DIGITS && strncmp(lines.items[i] + CLASSES_AT, wanted, DIGITS) == 0) {
            model_let_go(model, lines.items[i]);
        }
    }
done:
    text_list_clear(model->context, &lines);
    return status;
}

l3a_status holds_compare(const l3a_model *model, const l3a_model *other) {
    l3a_status status = L3A_OK;
    const char *text = l3a_model_record(other, holds_record);
    text_list lines = {0};
    TRY(text_list_split_lines(model->context, &lines, text ? text : "", text ? strlen(text) : 0));
    for (size_t i = 0; i < lines.count; i++) {
        const char *line = lines.items[i], *shard = strlen(line) > SHARD_AT ? line + SHARD_AT : "";
        FAIL_IF(model_holds(model, line), model->context, L3A_ERROR_MISMATCH, "leave one of the two models out",
                "both models have learned the same images of the same classes (%s%.*s%s%.8s): merging would count them twice",
                shard[0] ? "shard " : "", (int)strcspn(shard, " "), shard, shard[0] ? ", checksum " : "checksum ", line);
    }
done:
    text_list_clear(model->context, &lines);
    return status;
}

l3a_status holds_merge(l3a_model *model, const l3a_model *other) {
    l3a_status status = L3A_OK;
    const char *mine = l3a_model_record(model, holds_record), *theirs = l3a_model_record(other, holds_record);
    text_builder text = {.context = model->context};
    if (!theirs) {
        return L3A_OK;
    }
    text_builder_print(&text, "%s%s%s", mine ? mine : "", mine ? "\n" : "", theirs);
    TRY(text.status);
    TRY(l3a_model_set_record(model, holds_record, text.text));
done:
    text_builder_free(&text);
    return status;
}
