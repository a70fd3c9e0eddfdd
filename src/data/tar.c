/* Pictures in tar files, in the layout of WebDataset: the members whose names are equal up to the first dot of the last part, the
 * key, are one sample. KEY.jpg (.jpeg, .png, .webp, .heic, .heif, .avif) is its picture. Its labels are in the first of these that
 * has any: KEY.json  the field `labels`, `label`, `tags`, `tag`, `classes`, `class` or `cls` of an object, the first of these that
 * it has; or the whole text, if it is not an object. A name or a number, or an array of them. KEY.cls   one name or number. KEY.txt
 * one name on each line. Other members are left alone. The members of a sample may be anywhere in the archive, but not in another
 * one.
 *
 * The archives are read once. What was read of the labels waits until the archive ends, because a label may come before its
 * picture; then the samples are found by their keys. */
#include "common/number.h"
#include "data/archives.h"
#include "data/dataset.h"
#include "data/pictures.h"
#include "format/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LABELS_LIMIT = 16 << 20 };

/* What labels come from, the one that counts first. */
enum source { FROM_JSON, FROM_CLS, FROM_TXT, SOURCES };

static const char *const endings[SOURCES] = {".json", ".cls", ".txt"};

/* A name of a class that a member says. */
struct label {
    size_t row; /* of the picture; before the archive ends, the number of the member among those with labels */
    enum source source;
};

static const size_t NO_ROW = SIZE_MAX;

/* Members that are of no use, and the first of them. */
struct useless {
    size_t count;
    char *example;
};

struct samples {
    struct l3a_dataset *dataset;
    l3a_context *context;
    const char *archive;    /* that is being read */
    size_t row, label;      /* its first ones */
    text_pool keys, owners; /* in it: those of the pictures, and of the members with labels */
    text_pool texts;        /* of the labels of all archives */
    struct label *labels;
    size_t label_capacity;
    unsigned char *sources; /* for each row, where its labels come from; SOURCES: it has none */
    struct useless odd, lone;
};

static void samples_close(struct samples *samples) {
    l3a_context *context = samples->context;
    text_pool_clear(context, &samples->keys);
    text_pool_clear(context, &samples->owners);
    text_pool_clear(context, &samples->texts);
    release(context, samples->labels);
    release(context, samples->sources);
    release(context, samples->odd.example);
    release(context, samples->lone.example);
}

static l3a_status note_useless(struct samples *samples, struct useless *useless, const char *name) {
    useless->count++;
    return useless->example ? L3A_OK : copy_text(samples->context, name, strlen(name), &useless->example);
}

/* ---- Labels ---- */

/* Blanks around a name do not count; an empty one is no label. */
static l3a_status add_label(struct samples *samples, enum source source, const char *text, size_t length) {
    static const char blanks[] = " \t\r\n";
    l3a_status status = L3A_OK;
    const size_t count = samples->texts.count;
    while (length && strchr(blanks, text[0])) {
        text++;
        length--;
    }
    while (length && strchr(blanks, text[length - 1])) {
        length--;
    }
    if (length) {
        TRY(grow_array(samples->context, &samples->labels, &samples->label_capacity, count + 1, sizeof *samples->labels));
        samples->labels[count] = (struct label){samples->owners.count, source};
        TRY(text_pool_add(samples->context, &samples->texts, text, length));
    }
done:
    return status;
}

/* A name or a number. */
static l3a_status add_json_label(struct samples *samples, struct json *json) {
    l3a_status status = L3A_OK;
    const json_kind kind = json_peek(json);
    char *copy = NULL, digits[24];
    json_text text;
    uint64_t number;
    if (kind == JSON_STRING) {
        TRY(json_string(json, &text));
        TRY(json_text_copy(json, text, &copy));
        TRY(add_label(samples, FROM_JSON, copy, strlen(copy)));
    } else if (kind == JSON_NUMBER) {
        TRY(json_integer(json, &number));
        TRY(add_label(samples, FROM_JSON, digits, (size_t)snprintf(digits, sizeof digits, "%" PRIu64, number)));
    } else {
        status = json_fail(json, "a label must be a name or a number");
    }
done:
    release(samples->context, copy);
    return status;
}

static l3a_status add_json_labels(struct samples *samples, struct json *json) {
    l3a_status status = L3A_OK;
    bool more = true;
    if (json_peek(json) == JSON_NULL) {
        return json_skip(json);
    }
    if (json_peek(json) != JSON_ARRAY) {
        return add_json_label(samples, json);
    }
    TRY(json_array(json));
    for (;;) {
        TRY(json_next_item(json, &more));
        if (!more) {
            break;
        }
        TRY(add_json_label(samples, json));
    }
done:
    return status;
}

/* Takes the labels off again that were added since there were `count`. */
static void drop_labels(struct samples *samples, size_t count) {
    if (samples->texts.count > count) {
        samples->texts.length = samples->texts.starts[count];
        samples->texts.count = count;
    }
}

static l3a_status read_json(struct samples *samples, const char *name, const char *text, size_t length) {
    static const char *const fields[] = {"labels", "label", "tags", "tag", "classes", "class", "cls"};
    enum { FIELDS = sizeof fields / sizeof fields[0] };
    l3a_status status = L3A_OK;
    const size_t count = samples->texts.count;
    struct json json;
    json_text key;
    bool more = true;
    json_begin(&json, samples->context, name, text, length);
    if (json_peek(&json) != JSON_OBJECT) {
        TRY(add_json_labels(samples, &json));
        return json_end(&json);
    }
    TRY(json_object(&json));
    for (size_t best = FIELDS;;) {
        TRY(json_next_key(&json, &key, &more));
        if (!more) {
            break;
        }
        size_t field = 0;
        while (field < best && !json_text_is(key, fields[field])) {
            field++;
        }
        if (field < best) {
            drop_labels(samples, count);
            best = field;
            TRY(add_json_labels(samples, &json));
        } else {
            TRY(json_skip(&json));
        }
    }
    TRY(json_end(&json));
done:
    return status;
}

static l3a_status read_lines(struct samples *samples, enum source source, const char *name, const char *text, size_t length) {
    l3a_status status = L3A_OK;
    const size_t count = samples->texts.count;
    FAIL_IF(memchr(text, '\0', length), samples->context, L3A_ERROR_FORMAT, "use UTF-8 text",
            "%s: contains a zero byte, so it is not text", name);
    for (const char *at = text, *end = text + length; at < end;) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        const size_t size = (size_t)((line ? line : end) - at);
        TRY(add_label(samples, source, at, size));
        at += size + 1;
    }
    FAIL_IF(source == FROM_CLS && samples->texts.count > count + 1, samples->context, L3A_ERROR_FORMAT,
            "use .txt for several labels, one on each line", "%s: has more than one line; a .cls member names one class", name);
done:
    return status;
}

static l3a_status read_labels(struct samples *samples, struct tar *tar, const struct tar_member *member, enum source source,
                              size_t key) {
    l3a_context *context = samples->context;
    l3a_status status = L3A_OK;
    char *name = NULL, *text = NULL;
    const size_t count = samples->texts.count;
    TRY(join_path(context, samples->archive, member->name, &name));
    FAIL_IF(member->size > LABELS_LIMIT, context, L3A_ERROR_FORMAT, "is this archive meant for pictures with labels?",
            "%s: has %" PRIu64 " bytes; labels have at most %d", name, member->size, LABELS_LIMIT);
    TRY(allocate(context, (size_t)member->size + 1, 1, &text));
    TRY(tar_read(tar, member, text, (size_t)member->size));
    TRY(source == FROM_JSON ? read_json(samples, name, text, (size_t)member->size)
                            : read_lines(samples, source, name, text, (size_t)member->size));
    if (samples->texts.count > count) {
        TRY(text_pool_add(context, &samples->owners, member->name, key));
    }
done:
    release(context, name);
    release(context, text);
    return status;
}

/* ---- Samples ---- */

static l3a_status take_member(struct tar *tar, const struct tar_member *member, void *user) {
    struct samples *samples = user;
    l3a_status status = L3A_OK;
    const char *slash = strrchr(member->name, '/'), *last = slash ? slash + 1 : member->name, *dot = strchr(last, '.');
    const size_t key = dot ? (size_t)(dot - member->name) : 0;
    for (int source = 0; dot && source < SOURCES; source++) {
        if (strcasecmp(dot, endings[source]) == 0) {
            return read_labels(samples, tar, member, (enum source)source, key);
        }
    }
    if (!dot || !named_like_a_picture(dot)) {
        return L3A_OK;
    }
    if (strchr(dot + 1, '.')) {
        return note_useless(samples, &samples->odd, member->name);
    }
    TRY(text_pool_add(samples->context, &samples->keys, member->name, key));
    TRY(dataset_add_member(samples->dataset, member->name, &(struct archive_span){samples->archive, member->offset, member->size}));
done:
    return status;
}

/* Finds the picture of each label of the archive. */
static l3a_status match_labels(struct samples *samples) {
    l3a_context *context = samples->context;
    l3a_status status = L3A_OK;
    text_index index = {0};
    size_t *rows = NULL, first = 0;
    TRY(text_index_make_pool(context, &samples->keys, &index));
    const size_t second = text_index_repeated(&index, &first);
    FAIL_IF(second < index.count, context, L3A_ERROR_DATA, "give each sample one picture",
            "%s: '%s' and '%s' are pictures of the same sample", samples->archive,
            l3a_dataset_id(samples->dataset, samples->row + first), l3a_dataset_id(samples->dataset, samples->row + second));
    TRY(allocate(context, samples->owners.count, sizeof *rows, &rows));
    for (size_t i = 0; i < samples->owners.count; i++) {
        const char *key = text_pool_at(&samples->owners, i);
        const size_t found = text_index_find(&index, key);
        rows[i] = found < index.count ? samples->row + found : NO_ROW;
        if (rows[i] == NO_ROW) {
            TRY(note_useless(samples, &samples->lone, key));
        }
    }
    for (size_t i = samples->label; i < samples->texts.count; i++) {
        samples->labels[i].row = rows[samples->labels[i].row];
    }
done:
    release(context, rows);
    text_index_free(context, &index);
    return status;
}

static l3a_status read_archive(struct samples *samples, const char *archive) {
    l3a_status status = L3A_OK;
    samples->archive = archive;
    samples->row = samples->dataset->ids.count;
    samples->label = samples->texts.count;
    TRY(archive_visit(samples->context, archive, take_member, samples));
    TRY(match_labels(samples));
    text_pool_clear(samples->context, &samples->keys);
    text_pool_clear(samples->context, &samples->owners);
done:
    return status;
}

/* Decides for each row which labels count. */
static l3a_status choose_sources(struct samples *samples) {
    const size_t rows = samples->dataset->ids.count;
    const l3a_status status = allocate(samples->context, rows, 1, &samples->sources);
    if (status == L3A_OK) {
        memset(samples->sources, SOURCES, rows);
    }
    for (size_t i = 0; status == L3A_OK && i < samples->texts.count; i++) {
        const struct label *label = &samples->labels[i];
        if (label->row != NO_ROW && label->source < samples->sources[label->row]) {
            samples->sources[label->row] = (unsigned char)label->source;
        }
    }
    return status;
}

static bool counts(const struct samples *samples, size_t label) {
    const struct label *about = &samples->labels[label];
    return about->row != NO_ROW && samples->sources[about->row] == about->source;
}

static l3a_status collect_classes(struct samples *samples, const char *place) {
    l3a_context *context = samples->context;
    l3a_status status = L3A_OK;
    const size_t rows = samples->dataset->ids.count;
    text_list classes = {0};
    char **names = NULL;
    size_t count = 0;
    FAIL_IF(!rows, context, L3A_ERROR_DATA, "check that this is the right archive",
            "%s: no pictures: none of the members is named KEY.jpg, .png, .webp or .heic, with no other dot in its name%s%s", place,
            samples->odd.count ? ", for example " : "", samples->odd.count ? samples->odd.example : "");
    TRY(allocate(context, samples->texts.count, sizeof *names, &names));
    for (size_t i = 0; i < samples->texts.count; i++) {
        if (counts(samples, i)) {
            names[count++] = samples->texts.text + samples->texts.starts[i];
        }
    }
    FAIL_IF(!count, context, L3A_ERROR_CLASS,
            "add labels: for a picture KEY.jpg, a member KEY.json, KEY.cls or KEY.txt; tagging needs none",
            "%s: %zu pictures, but no labels", place, rows);
    TRY(add_distinct(context, names, count, &classes));
    TRY(dataset_set_classes(samples->dataset, place, &classes));
done:
    release(context, names);
    text_list_clear(context, &classes);
    return status;
}

static void set_labels(const struct samples *samples) {
    struct l3a_dataset *dataset = samples->dataset;
    for (size_t i = 0; i < samples->texts.count; i++) {
        if (counts(samples, i)) {
            const size_t class = dataset_find_class(dataset, text_pool_at(&samples->texts, i));
            const size_t at = samples->labels[i].row * dataset->classes.count + class;
            dataset->labels[at] = dataset->members[at] = 1;
        }
    }
}

static void warn(const struct samples *samples, const char *place) {
    l3a_context *context = samples->context;
    size_t bare = 0;
    for (size_t i = 0; i < samples->dataset->ids.count; i++) {
        bare += samples->sources[i] == SOURCES;
    }
    if (bare) {
        report_warning(context, "%s: pictures without labels: %zu; they count as pictures that show none of the classes", place,
                       bare);
    }
    if (samples->lone.count) {
        report_warning(context, "%s: members with labels, but without a picture: %zu, for example those of '%s'", place,
                       samples->lone.count, samples->lone.example);
    }
    if (samples->odd.count) {
        report_warning(context,
                       "%s: pictures left out: %zu, for example '%s': the picture of a sample has only one dot in its name", place,
                       samples->odd.count, samples->odd.example);
    }
}

static l3a_status tar_splits(l3a_context *context, const char *place, text_list *splits) {
    (void)place;
    return text_list_add(context, splits, "all", 3);
}

static l3a_status tar_open_set(struct l3a_dataset *dataset, const char *place, const char *split,
                               const l3a_dataset_options *options) {
    l3a_status status = L3A_OK;
    struct samples samples = {.dataset = dataset, .context = dataset->context};
    text_list splits = {0};
    (void)options;
    TRY(tar_splits(dataset->context, place, &splits));
    TRY(check_split(dataset->context, place, split ? split : "all", &splits));
    TRY(archives_find(dataset->context, place, &dataset->archives));
    for (size_t i = 0; i < dataset->archives.count; i++) {
        TRY(read_archive(&samples, dataset->archives.items[i]));
    }
    TRY(choose_sources(&samples));
    TRY(collect_classes(&samples, place));
    TRY(dataset_make_labels(dataset, place));
    set_labels(&samples);
    warn(&samples, place);
done:
    samples_close(&samples);
    text_list_clear(dataset->context, &splits);
    return status;
}

const struct dataset_kind tar_kind = {"tar", "tar:FILE.tar", tar_open_set, tar_splits, {{NULL}}};
