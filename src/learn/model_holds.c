#include "learn/model_holds.h"

#include "common/number.h"
#include "base/text_index.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char holds_record[] = "holds";
enum { DIGITS = 16, CLASSES_AT = DIGITS + 1, SHARD_AT = 2 * (DIGITS + 1) };

static void add_to_sum(void *state, const char *bytes, size_t count) {
    XXH3_64bits_update(state, bytes, count);
}

static l3a_status sum_images(l3a_features *features, uint64_t *checksum) {
    l3a_status status = L3A_OK;
    uint64_t sum = features->sum;
    XXH3_state_t state;
    TRY(sum ? L3A_OK : l3a_features_checksum(features, &sum));
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, &sum, sizeof sum);
    TRY(marks_scan(features, &features->labels, add_to_sum, &state));
    TRY(marks_scan(features, &features->members, add_to_sum, &state));
    *checksum = XXH3_64bits_digest(&state);
done:
    return status;
}

/* A checksum of the features and labels, wherever they come from. Of processes that divide the rows, only the first reads all of
 * them. */
static l3a_status describe_images(l3a_features *features, uint64_t *checksum) {
    l3a_context *context = features->context;
    l3a_status status = L3A_OK;
    const bool in_file = features->input.file >= 0;
    *checksum = features->images;
    if (!*checksum) {
        status = leads(context) ? sum_images(features, checksum) : L3A_OK;
        TRY(follow_lead(context, status, checksum));
        features->images = in_file ? *checksum : 0; /* the caller's memory may change */
    }
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
    const char *shard = l3a_features_record(features, shard_record), *extraction = l3a_features_record(features, extraction_record),
               *batches = l3a_features_record(features, batches_record);
    line[0] = '\0';
    if (!learns_alone(features->context) && !divides_rows(features->context)) { /* the others have tables of their own */
        return L3A_OK;
    }
    TRY(describe_images(features, &images));
    TRY(describe_classes(features->context, classes, count, &names));
    int length = snprintf(line, HOLD_TEXT, "%016" PRIx64 " %016" PRIx64, images, names);
    if (shard && extraction && shard_parse(shard, &number, &shards) && strspn(extraction, "0123456789abcdef") == DIGITS &&
        !extraction[DIGITS]) {
        length += snprintf(line + length, HOLD_TEXT - (size_t)length, " %" PRIu64 "/%" PRIu64 " %s", number, shards, extraction);
        if (batches && integer_parse(batches, strlen(batches), &number)) {
            snprintf(line + length, HOLD_TEXT - (size_t)length, " %" PRIu64, number);
        }
    }
done:
    return status;
}

/* Compares a line with another one, which begins at a place in the record. */
typedef bool compare_lines(const char *line, const char *at);

/* Whether two lines are about the same images and classes. */
static bool is_same(const char *line, const char *at) {
    const size_t length = strnlen(line, CLASSES_AT + DIGITS);
    return strncmp(line, at, length) == 0 && strchr(" \n", at[length]);
}

/* What a line says of its shard. */
struct shard {
    uint64_t number, count;
    uint64_t batches; /* of all shards together; 0: unknown */
    char extraction[DIGITS + 1];
};

static bool read_shard(const char *at, struct shard *shard) {
    char line[HOLD_TEXT];
    const size_t length = strcspn(at, "\n");
    *shard = (struct shard){0};
    if (length <= SHARD_AT || length >= HOLD_TEXT) {
        return false;
    }
    memcpy(line, at, length);
    line[length] = '\0';
    return sscanf(line + SHARD_AT, "%7" SCNu64 "/%7" SCNu64 " %16[0-9a-f] %19" SCNu64, &shard->number, &shard->count,
                  shard->extraction, &shard->batches) >= 3 &&
           shard->number && shard->number <= shard->count && strlen(shard->extraction) == DIGITS;
}

/* Whether shard i/n is a part of shard j/m, whatever the number of batches is. */
static bool is_within(const struct shard *inner, const struct shard *outer) {
    return (inner->number - 1) * outer->count >= (outer->number - 1) * inner->count &&
           inner->number * outer->count <= outer->number * inner->count;
}

/* Whether two lines are about shards of the same extraction that have images in common, and about the same classes. Shard i/n
 * consists of the batches from ⌊B(i-1)/n⌋ to ⌊Bi/n⌋. */
static bool overlaps(const char *line, const char *at) {
    struct shard one, other;
    if (!read_shard(line, &one) || !read_shard(at, &other) || strcmp(one.extraction, other.extraction) != 0 ||
        strncmp(line + CLASSES_AT, at + CLASSES_AT, DIGITS) != 0) {
        return false;
    }
    const uint64_t batches = one.batches ? one.batches : other.batches;
    return batches ? batches * (one.number - 1) / one.count < batches * other.number / other.count &&
                         batches * (other.number - 1) / other.count < batches * one.number / one.count
                   : is_within(&one, &other) || is_within(&other, &one);
}

/* The first line in the record that is related to a line, or NULL. */
static char *find_line(const l3a_model *model, const char *line, compare_lines *is_related) {
    const size_t index = text_list_find(&model->record_keys, holds_record);
    char *at = index < model->record_values.count && line[0] ? model->record_values.items[index] : NULL;
    while (at && !is_related(line, at)) {
        char *end = strchr(at, '\n');
        at = end ? end + 1 : NULL;
    }
    return at;
}

bool model_holds(const l3a_model *model, const char *line) {
    return find_line(model, line, is_same) != NULL;
}

bool model_holds_some(const l3a_model *model, const char *line) {
    return model_holds(model, line) || find_line(model, line, overlaps) != NULL;
}

static l3a_status add_lines(l3a_model *model, const char *lines) {
    const char *before = model_record(model, holds_record);
    text_builder text = {.context = model->context};
    l3a_status status = L3A_OK;
    text_builder_print(&text, "%s%s%s", before ? before : "", before ? "\n" : "", lines);
    TRY(text.status);
    TRY(model_set_record(model, holds_record, text.text));
done:
    text_builder_free(&text);
    return status;
}

l3a_status model_hold(l3a_model *model, const char *line) {
    return !line[0] || model_holds(model, line) ? L3A_OK : add_lines(model, line);
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
    char *at = find_line(model, line, is_same);
    if (!at) {
        return;
    }
    char *text = model->record_values.items[index], *next = at + strcspn(at, "\n");
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
    const char *text = model_record(model, holds_record);
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
    const char *text = model_record(other, holds_record);
    text_list lines = {0};
    TRY(text_list_split_lines(model->context, &lines, text ? text : "", text ? strlen(text) : 0));
    for (size_t i = 0; i < lines.count; i++) {
        const char *line = lines.items[i], *shard = strlen(line) > SHARD_AT ? line + SHARD_AT : "",
                   *met = find_line(model, line, overlaps);
        FAIL_IF(model_holds(model, line), model->context, L3A_ERROR_MISMATCH, "leave one of the two models out",
                "both models have learned the same images of the same classes (%s%.*s%s%.8s): merging would count them twice",
                shard[0] ? "shard " : "", (int)strcspn(shard, " "), shard, shard[0] ? ", checksum " : "checksum ", line);
        FAIL_IF(met, model->context, L3A_ERROR_MISMATCH, "leave one of the two models out; merge shards of one division",
                "shard %.*s and shard %.*s of the same extraction have pictures in common: merging would count them twice",
                (int)strcspn(met + SHARD_AT, " "), met + SHARD_AT, (int)strcspn(shard, " "), shard);
    }
done:
    text_list_clear(model->context, &lines);
    return status;
}

l3a_status holds_merge(l3a_model *model, const l3a_model *other) {
    const char *lines = model_record(other, holds_record);
    return lines ? add_lines(model, lines) : L3A_OK;
}
