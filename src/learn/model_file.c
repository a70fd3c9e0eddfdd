/* Model files: safetensors with tensors
 *
 *   gram or inverse [d(d+1)/2]  the lower triangle of A or R, row after row; F64, or F32 by the setting `store`
 *   gram.1, gram.2, …           instead, if there are parts: A of each; F32 in mixed precision, else F64
 *   root.1, root.2, … [n, d]    instead of gram.N, if part N has at most d/2 rows: R with RᵀR = A
 *   cross, weights  [d, K]      C and W; F64
 *   counts          [K]         images of each class; I64
 *   label_weight    [K]         Σ ω over the images labelled with each class; F64
 *   class_weight    [K]         v of each class when its phase was learned, 0 if unknown; F64
 *
 * where d is dim, plus the width of the features with skip features; and with metadata: format, version, width, classes (one per
 * line), phases (one per line: first last images skipped pseudo-labels eta recursive), parts (one per line: the number of phases
 * that gram.N sums), every setting of a model under its name, and free records as `record.KEY`.
 *
 * Version 1 had no parts and no label_weight, version 2 had no class_weight, and both had fewer settings. Version 4 can have parts
 * whose judged sets are not those of phases: there a line of `parts` goes on with the number of images and the judged classes, as
 * in "1 250 0-3,7". There every phase belongs to one part. In version 5, where images can also be taught, it need not. A model
 * whose parts are phases is written as version 3. Version 6 is version 5 with views: its model takes several rows for an image, and
 * gives pseudo-labels by the combined score. In version 7 the setting `pseudo-from` says by which. */
#include "common/number.h"
#include "base/plugin.h"
#include "base/settings.h"
#include "format/safetensors.h"
#include "learn/model.h"
#include "learn/packed.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char format_name[] = "l3a-model", record_prefix[] = "record.";
enum {
    VERSION = 7,
    VERSION_OF_COMBINED_LABELS = 6,
    VERSION_WITHOUT_VIEWS = 5,
    VERSION_OF_JUDGED_PHASES = 4,
    VERSION_OF_PHASES = 3
};

/* The rows of the sums, one after another. */
struct sums_source {
    const struct sums *sums;
    real type;         /* of the file */
    double *numbers;   /* the strip of rows with the next byte: a chunk begins where the last one ended */
    size_t row, count; /* of the strip */
    uint64_t strip_start;
};

static uint64_t strip_bytes(const struct sums_source *source) {
    return triangle_numbers(source->row, source->count) * real_size(source->type);
}

/* Goes on to the next strip, of which `room` bytes are wanted. If that is all of it and the type is the same, it is read straight
 * to where it belongs, and *whole is set. */
static l3a_status read_strip(struct sums_source *source, char *to, size_t room, bool *whole) {
    source->strip_start += strip_bytes(source);
    source->row += source->count;
    source->count = strip_rows(source->sums->dim, source->row);
    *whole = source->type == REAL_DOUBLE && strip_bytes(source) <= room;
    return sums_read(source->sums, KEPT, source->row, source->count, *whole ? (double *)to : source->numbers);
}

/* Chunks are requested in order; each covers a run of rows. */
static l3a_status fill_from_sums(void *argument, uint64_t offset, void *bytes, size_t count) {
    struct sums_source *source = argument;
    l3a_status status = L3A_OK;
    const size_t element = real_size(source->type);
    for (char *to = bytes; count;) {
        bool whole = false;
        if (offset == source->strip_start + strip_bytes(source)) {
            TRY(read_strip(source, to, count, &whole));
        }
        const size_t within = (size_t)(offset - source->strip_start), left = (size_t)strip_bytes(source) - within;
        const size_t size = left < count ? left : count;
        if (!whole) {
            reals_put(source->type, to, source->numbers + within / element, size / element);
        }
        to += size;
        offset += size;
        count -= size;
    }
done:
    return status;
}

/* The rows of a part's root, or the triangle of its sums. */
struct part_source {
    const struct scatter *sums;
    char *row; /* one of the root */
    char name[32];
};

/* Whole rows are read at once; only one that a chunk begins or ends in goes through `row`. */
static l3a_status fill_from_root(void *argument, uint64_t offset, void *bytes, size_t count) {
    const struct part_source *source = argument;
    const size_t row_bytes = source->sums->dim * real_size(source->sums->type);
    l3a_status status = L3A_OK;
    for (char *to = bytes; count;) {
        const size_t row = (size_t)(offset / row_bytes), within = (size_t)(offset % row_bytes), left = row_bytes - within;
        size_t size = left < count ? left : count;
        if (!within && count >= row_bytes) {
            size = count - count % row_bytes;
            TRY(scatter_read_root(source->sums, row, size / row_bytes, to));
        } else {
            TRY(scatter_read_root(source->sums, row, 1, source->row));
            memcpy(to, source->row + within, size);
        }
        to += size;
        offset += size;
        count -= size;
    }
done:
    return status;
}

static l3a_status fill_from_triangle(void *argument, uint64_t offset, void *bytes, size_t count) {
    const struct part_source *source = argument;
    const size_t size = real_size(source->sums->type);
    return scatter_read(source->sums, offset / size, count / size, bytes);
}

__attribute__((format(printf, 5, 6))) static l3a_status add_metadata(l3a_context *context, text_list *keys, text_list *values,
                                                                     const char *key, const char *format, ...) {
    l3a_status status = L3A_OK;
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    TRY(text_list_add(context, keys, key, strlen(key)));
    TRY(text_list_add(context, values, text, length < (int)sizeof text ? (size_t)length : sizeof text - 1));
done:
    return status;
}

static l3a_status add_text(l3a_context *context, text_list *keys, text_list *values, const char *key, const text_builder *text) {
    l3a_status status = text->status;
    if (status == L3A_OK) {
        status = text_list_add(context, keys, key, strlen(key));
    }
    return status == L3A_OK ? text_list_add(context, values, text->length ? text->text : "", text->length) : status;
}

/* Moves past the phases that a part sums; returns whether it judges their classes and holds their images, as in version 3. */
static bool is_of_phases(const l3a_model *model, const struct part *part, size_t *phase) {
    const size_t first = *phase, last = first + part->phases;
    uint64_t images = 0;
    *phase = last;
    if (!part->phases || last > model->phase_count) {
        return false;
    }
    for (size_t p = first; p < last; p++) {
        images += model->phases[p].images;
    }
    const size_t begin = model->phases[first].first, end = model->phases[last - 1].last;
    return images == part->images && part->judged_count == end - begin && part->judged[0] == begin &&
           part->judged[part->judged_count - 1] == end - 1;
}

/* Whether version 3 can say it all. */
static bool has_only_phases(const l3a_model *model) {
    const struct evidence *evidence = model->evidence;
    size_t phase = 0;
    bool only = true;
    for (size_t i = 0; i < evidence->part_count; i++) {
        only = is_of_phases(model, &evidence->parts[i], &phase) && !evidence->parts[i].sums.is_root && only;
    }
    return only;
}

static void describe_part(const struct part *part, bool judged, text_builder *text) {
    text_builder_print(text, "%zu", part->phases);
    for (size_t i = 0, next; judged && i < part->judged_count; i = next) {
        for (next = i + 1; next < part->judged_count && part->judged[next] == part->judged[next - 1] + 1; next++) {
        }
        if (!i) {
            text_builder_print(text, " %" PRIu64 " ", part->images);
        }
        text_builder_print(text, "%s%zu", i ? "," : "", part->judged[i]);
        if (next > i + 1) {
            text_builder_print(text, "-%zu", part->judged[next - 1]);
        }
    }
}

static bool takes_views(const l3a_model *model) {
    return model->options.views > 1 || model->options.score_views > 1;
}

/* The first version that says how the model learns. */
static int version_for(const l3a_model *model, bool only_phases) {
    const struct model_options *options = &model->options;
    if (options->views > 1 && options->pseudo != L3A_PSEUDO_OFF && options->pseudo_from != L3A_PSEUDO_FROM_COMBINED) {
        return VERSION;
    }
    return takes_views(model) ? VERSION_OF_COMBINED_LABELS : only_phases ? VERSION_OF_PHASES : VERSION_WITHOUT_VIEWS;
}

static l3a_status describe_model(const l3a_model *model, text_list *keys, text_list *values) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const bool only_phases = !takes_views(model) && has_only_phases(model);
    text_builder classes = {.context = context}, phases = {.context = context}, parts = {.context = context};
    TRY(add_metadata(context, keys, values, "format", "%s", format_name));
    TRY(add_metadata(context, keys, values, "version", "%d", version_for(model, only_phases)));
    TRY(add_metadata(context, keys, values, "width", "%zu", model->width));
    for (size_t i = 0; i < model->classes.count; i++) {
        text_builder_print(&classes, "%s%s", i ? "\n" : "", model->classes.items[i]);
    }
    TRY(add_text(context, keys, values, "classes", &classes));
    for (size_t i = 0; i < model->phase_count; i++) {
        const l3a_phase_info *phase = &model->phases[i];
        char eta[NUMBER_TEXT];
        text_builder_print(&phases, "%s%zu %zu %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %d", i ? "\n" : "", phase->first, phase->last,
                           phase->images, phase->skipped, phase->pseudo_labels, number_format(phase->eta, eta), phase->recursive);
    }
    TRY(add_text(context, keys, values, "phases", &phases));
    for (size_t i = 0; i < model->evidence->part_count; i++) {
        text_builder_print(&parts, "%s", i ? "\n" : "");
        describe_part(&model->evidence->parts[i], !only_phases, &parts);
    }
    TRY(add_text(context, keys, values, "parts", &parts));
    for (size_t i = 0; i < model_settings.count; i++) {
        const struct setting *setting = &model_settings.settings[i];
        char text[64];
        setting_get(&model->options, setting, text, sizeof text);
        TRY(add_metadata(context, keys, values, setting->info.name, "%s", text));
    }
    for (size_t i = 0; i < model->record_values.count; i++) {
        char key[256];
        snprintf(key, sizeof key, "%s%s", record_prefix, model->record_keys.items[i]);
        TRY(text_list_add(context, keys, key, strlen(key)));
        TRY(text_list_add(context, values, model->record_values.items[i], strlen(model->record_values.items[i])));
    }
done:
    text_builder_free(&classes);
    text_builder_free(&phases);
    text_builder_free(&parts);
    return status;
}

static tensor_type type_of(real type) {
    return type == REAL_SINGLE ? TENSOR_F32 : TENSOR_F64;
}

/* The sums of a part. A root is made to depend on nothing but them first. */
static l3a_status list_part(struct part *part, size_t index, struct part_source *source, tensor_source *tensor) {
    struct scatter *sums = &part->sums;
    l3a_status status = L3A_OK;
    if (sums->is_root) {
        TRY(scatter_tidy(sums, part->images));
    }
    source->sums = sums;
    snprintf(source->name, sizeof source->name, sums->is_root ? "root.%zu" : "gram.%zu", index + 1);
    *tensor = (tensor_source){source->name, type_of(sums->type), 1, {triangle_numbers(0, sums->dim)}, fill_from_triangle, source};
    if (sums->is_root) {
        TRY(allocate(sums->context, sums->dim, real_size(sums->type), &source->row));
        *tensor = (tensor_source){source->name, type_of(sums->type), 2, {sums->rows, sums->dim}, fill_from_root, source};
    }
done:
    return status;
}

/* The sums: one triangle, or those of each part. */
static l3a_status list_sums(const l3a_model *model, struct sums_source *whole, struct part_source *parts, tensor_source *sources,
                            size_t *count) {
    const struct evidence *evidence = model->evidence;
    const bool narrow = model->options.store == L3A_STORE_FLOAT32;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < evidence->part_count; i++) {
        TRY(list_part(&evidence->parts[i], i, &parts[i], &sources[(*count)++]));
    }
    if (!keeps_phases(&model->options)) {
        *whole = (struct sums_source){.sums = &evidence->ridge.sums, .type = narrow ? REAL_SINGLE : REAL_DOUBLE};
        sources[(*count)++] = (tensor_source){evidence->ridge.inverse ? "inverse" : "gram", type_of(whole->type), 1,
                                              {triangle_numbers(0, model_dim(model))},      fill_from_sums,       whole};
        TRY(allocate(model->context, strip_numbers(model_dim(model)), sizeof *whole->numbers, &whole->numbers));
    }
done:
    return status;
}

l3a_status l3a_model_save(l3a_model *model, const char *path) {
    REQUIRE(model, model, path);
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    text_list keys = {0}, values = {0};
    tensor_source *sources = NULL;
    struct part_source *parts = NULL;
    struct sums_source whole = {0};
    size_t count = 0;
    const size_t d = model_dim(model), classes = model->classes.count;
    FAIL_IF(model->state != MODEL_READY, context, L3A_ERROR_STATE,
            model->state == MODEL_BROKEN ? "load the model again from its file" : "end the phase first",
            "%s: the model is %s and cannot be saved", path,
            model->state == MODEL_BROKEN ? "left halfway through a change" : "in the middle of a phase");
    if (!leads(context) && !shares_sums(model)) { /* sums that are shared are read by all processes, and process 0 writes them */
        return L3A_OK;
    }
    TRY(allocate_zeroed(context, model->evidence->part_count + 6, sizeof *sources, &sources));
    TRY(allocate_zeroed(context, model->evidence->part_count, sizeof *parts, &parts));
    TRY(list_sums(model, &whole, parts, sources, &count));
    TRY(describe_model(model, &keys, &values));
    sources[count++] = (tensor_source){"cross", TENSOR_F64, 2, {d, classes}, fill_from_memory, model->evidence->cross};
    sources[count++] = (tensor_source){"weights", TENSOR_F64, 2, {d, classes}, fill_from_memory, model->coefficients};
    sources[count++] = (tensor_source){"counts", TENSOR_I64, 1, {classes}, fill_from_memory, model->counts};
    sources[count++] = (tensor_source){"label_weight", TENSOR_F64, 1, {classes}, fill_from_memory, model->label_weight};
    sources[count++] = (tensor_source){"class_weight", TENSOR_F64, 1, {classes}, fill_from_memory, model->class_weight};
    TRY(safetensors_write(context, path, &keys, &values, sources, count));
done:
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
    release(context, sources);
    for (size_t i = 0; parts && i < model->evidence->part_count; i++) {
        release(context, parts[i].row);
    }
    release(context, parts);
    release(context, whole.numbers);
    return status;
}

static const char damaged[] = "the file is damaged, or is not a model of this program: copy it again, or learn a new model";

static l3a_status fail_model(const safetensors *file, const char *what) {
    return fail(file->context, L3A_ERROR_FORMAT, damaged, "%s: %s", file->input.path, what);
}

/* 0 if it is not a known version. */
static uint64_t file_version(const safetensors *file) {
    const char *text = safetensors_metadata(file, "version");
    uint64_t version;
    return text && integer_parse(text, strlen(text), &version) && version <= VERSION ? version : 0;
}

/* Settings that files have since a version, and what older ones mean; NULL: the default. */
struct newer_setting {
    const char *name;
    uint64_t version;
    const char *before;
};

static struct newer_setting newer_setting(const char *name) {
    static const struct newer_setting newer[] = {{"alpha", 2, NULL},         {"skip-features", 2, NULL},
                                                 {"thresholds", 2, NULL},    {"keep-phases", 2, NULL},
                                                 {"privacy-limit", 2, NULL}, {"lift", 3, NULL},
                                                 {"gamma-from", 5, NULL},    {"views", 6, NULL},
                                                 {"score-views", 6, NULL},   {"pseudo-from", VERSION, "combined"}};
    for (size_t i = 0; i < sizeof newer / sizeof newer[0]; i++) {
        if (strcmp(name, newer[i].name) == 0) {
            return newer[i];
        }
    }
    return (struct newer_setting){name, 1, NULL};
}

static l3a_status load_options(const safetensors *file, struct model_options *options, size_t *width) {
    l3a_status status = L3A_OK;
    uint64_t number;
    model_options_default(options);
    for (size_t i = 0; i < model_settings.count; i++) {
        const char *name = model_settings.settings[i].info.name, *value = safetensors_metadata(file, name);
        const struct newer_setting newer = newer_setting(name);
        const bool older = !value && file_version(file) < newer.version;
        if (older && !newer.before) {
            continue;
        }
        value = older ? newer.before : value;
        FAIL_IF(!value, file->context, L3A_ERROR_FORMAT, damaged, "%s: setting '%s' is missing", file->input.path, name);
        if (model_options_set(file->context, options, name, value) != L3A_OK) {
            status = fail_in(file->context, L3A_ERROR_FORMAT, "%s", file->input.path);
            goto done;
        }
    }
    const char *text = safetensors_metadata(file, "width");
    if (!text || !integer_parse(text, strlen(text), &number) || !number || number > INT32_MAX) {
        return fail_model(file, "the width of the features is missing");
    }
    *width = (size_t)number;
done:
    return status;
}

static l3a_status load_phases(const safetensors *file, l3a_model *model) {
    l3a_status status = L3A_OK;
    text_list lines = {0};
    const char *text = safetensors_metadata(file, "phases");
    if (!text) {
        return fail_model(file, "the list of phases is missing");
    }
    TRY(text_list_split_lines(file->context, &lines, text, strlen(text)));
    TRY(allocate_zeroed(file->context, lines.count, sizeof *model->phases, &model->phases));
    for (size_t i = 0; i < lines.count; i++) {
        l3a_phase_info *phase = &model->phases[i];
        char eta[NUMBER_TEXT];
        const int fields = sscanf(lines.items[i], "%zu %zu %" SCNu64 " %" SCNu64 " %" SCNu64 " %31s %d", &phase->first,
                                  &phase->last, &phase->images, &phase->skipped, &phase->pseudo_labels, eta, &phase->recursive);
        const size_t expected = i ? model->phases[i - 1].last : 0;
        const bool good = fields == 7 && number_parse(eta, strlen(eta), &phase->eta) && phase->first == expected &&
                          phase->last > phase->first && phase->last <= model->classes.count;
        FAIL_IF(!good, file->context, L3A_ERROR_FORMAT, damaged, "%s: the entry of phase %zu is not valid", file->input.path,
                i + 1);
    }
    model->phase_count = lines.count;
    if ((lines.count ? model->phases[lines.count - 1].last : 0) != model->classes.count) {
        status = fail_model(file, "the phases do not cover the classes");
    }
done:
    text_list_clear(file->context, &lines);
    return status;
}

/* A model has about a dozen records. */
enum { RECORD_LIMIT = 4096 };

static l3a_status load_records(const safetensors *file, l3a_model *model) {
    l3a_status status = L3A_OK;
    const size_t prefix = sizeof record_prefix - 1;
    for (size_t i = 0; i < file->values.count; i++) {
        if (strncmp(file->keys.items[i], record_prefix, prefix) == 0) {
            FAIL_IF(model->record_keys.count == RECORD_LIMIT, file->context, L3A_ERROR_FORMAT, damaged, "%s: more than %d records",
                    file->input.path, RECORD_LIMIT);
            TRY(l3a_model_set_record(model, file->keys.items[i] + prefix, file->values.items[i]));
        }
    }
done:
    return status;
}

static l3a_status find_triangle(const safetensors *file, size_t dim, const struct tensor **tensor) {
    const uint64_t shape[1] = {(uint64_t)dim * (dim + 1) / 2};
    return safetensors_expect(file, safetensors_find(file, "inverse") ? "inverse" : "gram", 1, shape, tensor);
}

static l3a_status load_triangle(const safetensors *file, l3a_model *model) {
    l3a_status status = L3A_OK;
    const size_t d = model_dim(model);
    const struct tensor *tensor;
    char *bytes = NULL;
    double *rows = NULL;
    model->evidence->ridge.inverse = safetensors_find(file, "inverse") != NULL;
    TRY(find_triangle(file, d, &tensor));
    if (tensor->type != TENSOR_F64 && tensor->type != TENSOR_F32) {
        return fail_model(file, "the matrix must be F64 or F32");
    }
    const size_t size = tensor_type_size(tensor->type);
    TRY(allocate(file->context, strip_numbers(d), size, &bytes));
    TRY(allocate(file->context, strip_numbers(d), sizeof *rows, &rows));
    uint64_t offset = tensor->offset;
    for (size_t i = 0, count; i < d; i += count) {
        count = strip_rows(d, i);
        const size_t numbers = (size_t)triangle_numbers(i, count);
        TRY(input_read(&file->input, offset, bytes, numbers * size));
        tensor_to_double(tensor->type, bytes, rows, numbers);
        TRY(sums_write(&model->evidence->ridge.sums, KEPT, i, count, rows));
        offset += numbers * size;
    }
done:
    release(file->context, bytes);
    release(file->context, rows);
    return status;
}

/* Makes the next part, which judges the classes [first, last). A model that only scores has no sums. */
static l3a_status create_part(l3a_model *model, size_t first, size_t last) {
    struct evidence *evidence = model->evidence;
    struct part *part = &evidence->parts[evidence->part_count];
    const real type = options_real(&model->options);
    l3a_status status = L3A_OK;
    TRY(evidence->ridge.sums.held ? part_create(model->context, model_dim(model), type, first, last, part)
                                  : part_create_empty(model->context, model_dim(model), type, first, last, part));
    evidence->part_count++;
done:
    return status;
}

/* Makes a part that judges the classes of the next `phases` phases. */
static l3a_status make_part_of_phases(l3a_model *model, uint64_t phases, size_t *phase) {
    struct evidence *evidence = model->evidence;
    struct part *part = &evidence->parts[evidence->part_count];
    const size_t last = *phase + (size_t)phases;
    l3a_status status = L3A_OK;
    TRY(create_part(model, model->phases[*phase].first, model->phases[last - 1].last));
    part->phases = (size_t)phases;
    for (; *phase < last; (*phase)++) {
        part->images += model->phases[*phase].images;
    }
done:
    return status;
}

/* Reads "0-3,7" into the judged set, which must be ascending; false if it is not valid. */
static bool parse_judged(const char *text, size_t classes, struct part *part) {
    size_t next = 0;
    part->judged_count = 0;
    while (*text) {
        uint64_t first, last;
        const size_t digits = strspn(text, "0123456789");
        if (!integer_parse(text, digits, &first)) {
            return false;
        }
        text += digits;
        last = first;
        if (*text == '-') {
            const size_t more = strspn(++text, "0123456789");
            if (!integer_parse(text, more, &last)) {
                return false;
            }
            text += more;
        }
        if (first < next || last < first || last >= classes || (*text && *text != ',') || (*text == ',' && !text[1])) {
            return false;
        }
        for (uint64_t k = first; k <= last; k++) {
            part->judged[part->judged_count++] = (size_t)k;
        }
        next = (size_t)last + 1;
        text += *text == ',';
    }
    return part->judged_count > 0;
}

enum { MOST_PHASES = 1 << 24 };

/* A line of version 4 or 5. Up to version 4, every phase belongs to one part. */
static l3a_status make_part(l3a_model *model, const char *line, bool owned, size_t *phase, bool *good) {
    struct evidence *evidence = model->evidence;
    struct part *part = &evidence->parts[evidence->part_count];
    l3a_status status = L3A_OK;
    size_t phases;
    uint64_t images;
    int length = 0;
    *good = sscanf(line, "%zu %" SCNu64 " %n", &phases, &images, &length) == 2 &&
            phases <= (owned ? model->phase_count - *phase : MOST_PHASES);
    if (!*good) {
        return L3A_OK;
    }
    TRY(create_part(model, 0, model->classes.count));
    part->phases = phases;
    part->images = images;
    *phase += owned ? phases : 0;
    *good = parse_judged(line + length, model->classes.count, part);
done:
    return status;
}

/* Finds the sums of a part: a triangle, or a root, which a size of 0 in the shape allows to have any number of rows. */
static l3a_status find_part(const safetensors *file, size_t index, size_t dim, const struct tensor **tensor) {
    const uint64_t triangle[1] = {triangle_numbers(0, dim)}, root[2] = {0, dim};
    l3a_status status = L3A_OK;
    char name[32];
    snprintf(name, sizeof name, "root.%zu", index + 1);
    if (file_version(file) > VERSION_OF_JUDGED_PHASES && safetensors_find(file, name)) {
        TRY(safetensors_expect(file, name, 2, root, tensor));
        FAIL_IF((*tensor)->shape[0] > dim / 2, file->context, L3A_ERROR_FORMAT, damaged, "%s: %s has too many rows",
                file->input.path, name);
    } else {
        snprintf(name, sizeof name, "gram.%zu", index + 1);
        TRY(safetensors_expect(file, name, 1, triangle, tensor));
    }
done:
    return status;
}

/* Reads what each part sums and judges. */
static l3a_status load_part_list(const safetensors *file, l3a_model *model) {
    l3a_status status = L3A_OK;
    text_list lines = {0};
    const char *text = safetensors_metadata(file, "parts");
    size_t phase = 0;
    bool good = text != NULL;
    TRY(text_list_split_lines(file->context, &lines, text ? text : "", text ? strlen(text) : 0));
    TRY(allocate_zeroed(file->context, lines.count, sizeof *model->evidence->parts, &model->evidence->parts));
    for (size_t i = 0; good && i < lines.count; i++) {
        const struct tensor *tensor;
        uint64_t phases;
        TRY(find_part(file, i, model_dim(model), &tensor)); /* before memory is allocated for it */
        if (file_version(file) > VERSION_OF_PHASES) {
            TRY(make_part(model, lines.items[i], file_version(file) == VERSION_OF_JUDGED_PHASES, &phase, &good));
            continue;
        }
        good = integer_parse(lines.items[i], strlen(lines.items[i]), &phases) && phases && phases <= model->phase_count - phase;
        if (good) {
            TRY(make_part_of_phases(model, phases, &phase));
        }
    }
    const size_t phases = keeps_phases(&model->options) ? model->phase_count : 0;
    if (!good || (file_version(file) <= VERSION_OF_JUDGED_PHASES && phase != phases) ||
        (lines.count && !keeps_phases(&model->options))) {
        status = fail_model(file, "the list of phases kept apart is not valid");
    }
done:
    text_list_clear(file->context, &lines);
    return status;
}

/* Reads a tensor of the same type, in strips: the numbers of the triangle, or the rows of the root. */
static l3a_status load_part(const safetensors *file, const struct tensor *tensor, struct scatter *sums) {
    l3a_status status = L3A_OK;
    const bool root = tensor->rank == 2;
    const uint64_t numbers = root ? tensor->shape[0] * tensor->shape[1] : triangle_numbers(0, sums->dim);
    const size_t size = real_size(sums->type), rows = strip_numbers(sums->dim) / sums->dim,
                 chunk = root ? rows * sums->dim : strip_numbers(sums->dim);
    double *values = NULL;
    TRY(allocate(file->context, chunk, size, &values));
    if (root) {
        TRY(scatter_make_root(sums, (size_t)tensor->shape[0]));
    }
    for (uint64_t first = 0; first < numbers; first += chunk) {
        const size_t count = numbers - first < chunk ? (size_t)(numbers - first) : chunk;
        TRY(input_read(&file->input, tensor->offset + first * size, values, count * size));
        for (size_t i = 0; i < count; i++) {
            FAIL_IF(!isfinite(real_get(sums->type, values, i)), file->context, L3A_ERROR_FORMAT, damaged,
                    "%s: %s holds a number that is not finite", file->input.path, tensor->name);
        }
        TRY(root ? scatter_write_root(sums, (size_t)(first / sums->dim), count / sums->dim, values)
                 : scatter_write(sums, first, count, values));
    }
done:
    release(file->context, values);
    return status;
}

static l3a_status load_parts(const safetensors *file, l3a_model *model) {
    l3a_status status = L3A_OK;
    const struct tensor *tensor;
    for (size_t i = 0; i < model->evidence->part_count; i++) {
        TRY(find_part(file, i, model_dim(model), &tensor));
        if (tensor->type != type_of(options_real(&model->options))) {
            return fail_model(file, "the sums of phases must be F32 in mixed precision, and otherwise F64");
        }
        TRY(load_part(file, tensor, &model->evidence->parts[i].sums));
    }
done:
    return status;
}

/* Reads one number per class; files older than `version` lack it and get `missing`. */
static l3a_status load_class_numbers(const safetensors *file, const char *name, uint64_t version, double missing,
                                     const l3a_model *model, double **numbers) {
    l3a_status status = L3A_OK;
    const size_t classes = model->classes.count;
    const uint64_t shape[1] = {classes};
    const struct tensor *tensor;
    TRY(allocate(file->context, classes, sizeof **numbers, numbers));
    if (file_version(file) < version) {
        for (size_t k = 0; k < classes; k++) {
            (*numbers)[k] = missing;
        }
        return L3A_OK;
    }
    TRY(safetensors_expect(file, name, 1, shape, &tensor));
    FAIL_IF(tensor->type != TENSOR_F64, file->context, L3A_ERROR_FORMAT, damaged, "%s: %s must be F64", file->input.path, name);
    TRY(input_read(&file->input, tensor->offset, *numbers, (size_t)tensor->bytes));
    for (size_t k = 0; k < classes; k++) {
        FAIL_IF(!isfinite((*numbers)[k]) && (*numbers)[k] != missing, file->context, L3A_ERROR_FORMAT, damaged,
                "%s: %s holds a number that is not finite", file->input.path, name);
    }
done:
    return status;
}

static l3a_status load_columns(const safetensors *file, const char *name, const l3a_model *model, double **columns) {
    l3a_status status = L3A_OK;
    const size_t d = model_dim(model), classes = model->classes.count;
    const uint64_t shape[2] = {d, classes};
    const struct tensor *tensor;
    TRY(safetensors_expect(file, name, 2, shape, &tensor));
    if (tensor->type != TENSOR_F64) {
        return fail_model(file, "the sums and coefficients must be F64");
    }
    TRY(allocate(file->context, d, classes * sizeof **columns, columns));
    TRY(input_read(&file->input, tensor->offset, *columns, (size_t)tensor->bytes));
    for (size_t i = 0; i < d * classes; i++) {
        FAIL_IF(!isfinite((*columns)[i]), file->context, L3A_ERROR_FORMAT, damaged, "%s: %s holds a number that is not finite",
                file->input.path, name);
    }
done:
    return status;
}

static l3a_status load_counts(const safetensors *file, l3a_model *model) {
    l3a_status status = L3A_OK;
    const uint64_t shape[1] = {model->classes.count};
    const struct tensor *tensor;
    TRY(safetensors_expect(file, "counts", 1, shape, &tensor));
    if (tensor->type != TENSOR_I64) {
        return fail_model(file, "the counts must be I64");
    }
    TRY(allocate(file->context, model->classes.count, sizeof *model->counts, &model->counts));
    TRY(input_read(&file->input, tensor->offset, model->counts, (size_t)tensor->bytes));
done:
    return status;
}

static l3a_status check_kind(const safetensors *file) {
    const char *format = safetensors_metadata(file, "format"), *version = safetensors_metadata(file, "version");
    if (packed_recognise(file)) {
        return fail(file->context, L3A_ERROR_FORMAT, "use the model that it was packed from",
                    "%s: a packed model can only tag pictures; it lacks the sums of a model", file->input.path);
    }
    if (!format || strcmp(format, format_name) != 0) {
        return fail(file->context, L3A_ERROR_FORMAT, "give a model file that this program has written",
                    "%s: this is a safetensors file, but not a model of this program", file->input.path);
    }
    if (!file_version(file)) {
        return fail(file->context, L3A_ERROR_VERSION, "use the version of l3a that wrote it, or a newer one",
                    "%s: model format version %s is not known; the latest known version is %d", file->input.path,
                    version ? version : "(none)", VERSION);
    }
    return file->summed ? L3A_OK
                        : fail(file->context, L3A_ERROR_CHECKSUM, "the file is damaged: copy or make it again",
                               "%s: the model has no checksums", file->input.path);
}

l3a_status check_class_names(l3a_context *context, const text_list *classes, const char *path) {
    l3a_status status = L3A_OK;
    text_index index = {0};
    size_t first = 0;
    TRY(text_index_make(context, classes->items, classes->count, &index));
    const size_t second = text_index_repeated(&index, &first), empty = text_index_find(&index, "");
    const size_t bad = empty < second ? empty : second;
    FAIL_IF(bad < classes->count, context, L3A_ERROR_FORMAT, damaged, "%s: the name of class %zu is empty or listed twice", path,
            bad + 1);
done:
    text_index_free(context, &index);
    return status;
}

static l3a_status load_sums(const safetensors *file, l3a_model *model) {
    return keeps_phases(&model->options) ? load_parts(file, model) : load_triangle(file, model);
}

/* Verifies all tensors, or those that scoring needs. */
static l3a_status verify(const safetensors *file, bool sums) {
    static const char *const names[] = {"cross", "weights", "counts", "label_weight", "class_weight"};
    l3a_status status = L3A_OK;
    if (sums) {
        return safetensors_verify(file);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct tensor *tensor = safetensors_find(file, names[i]);
        if (tensor) {
            TRY(safetensors_verify_tensor(file, tensor));
        }
    }
done:
    return status;
}

/* Reads everything that describes the classes, and their coefficients. */
static l3a_status load_classes(const safetensors *file, l3a_model *model) {
    l3a_status status = L3A_OK;
    const char *classes = safetensors_metadata(file, "classes");
    if (!classes) {
        return fail_model(file, "the list of classes is missing");
    }
    TRY(text_list_split_lines(file->context, &model->classes, classes, strlen(classes)));
    TRY(check_class_names(file->context, &model->classes, file->input.path));
    TRY(load_phases(file, model));
    TRY(load_records(file, model));
    if (file_version(file) > 1) {
        TRY(load_part_list(file, model));
    } else if (keeps_phases(&model->options)) {
        return fail_model(file, "version 1 cannot keep phases apart, but a setting says so");
    }
    TRY(load_class_numbers(file, "label_weight", 2, -INFINITY, model, &model->label_weight));
    TRY(load_class_numbers(file, "class_weight", 3, model->options.weights == L3A_WEIGHTS_NONE, model, &model->class_weight));
    TRY(load_columns(file, "cross", model, &model->evidence->cross));
    TRY(load_columns(file, "weights", model, &model->coefficients));
    TRY(load_counts(file, model));
done:
    return status;
}

static l3a_status load_model(l3a_context *context, const char *path, bool sums, l3a_model **model) {
    l3a_status status = L3A_OK;
    l3a_model *made = NULL;
    safetensors file = {0};
    const struct tensor *matrix;
    struct model_options options;
    size_t width = 0;
    TRY(safetensors_open(context, path, &file));
    TRY(check_kind(&file));
    TRY(load_options(&file, &options, &width));
    TRY(verify(&file, sums));
    if (options.solver == L3A_SOLVER_SCALAPACK && !cluster_can_share(context)) { /* a file does not depend on where it is used */
        options.solver = L3A_SOLVER_SUMS;
    }
    const uint64_t shape[2] = {learned_width(&options, width), 0};
    TRY(safetensors_expect(&file, "weights", 2, shape, &matrix));
    if (!sums) {
        TRY(scorer_check_memory(context, &options, width, (size_t)matrix->shape[1]));
    }
    if (!keeps_phases(&options)) {
        TRY(find_triangle(&file, learned_width(&options, width), &matrix));
    }
    TRY(sums ? model_create(context, width, &options, &made) : model_create_to_score(context, width, &options, &made));
    TRY(load_classes(&file, made));
    if (sums) {
        TRY(load_sums(&file, made));
    }
    *model = made;
    made = NULL;
done:
    safetensors_close(&file);
    l3a_model_free(made);
    return status;
}

l3a_status model_load_to_score(l3a_context *context, const char *path, l3a_model **model) {
    return load_model(context, path, false, model);
}

l3a_status l3a_model_load(l3a_context *context, const char *path, l3a_model **model) {
    l3a_status status = L3A_OK;
    NEED(context, context, path, model);
    TRY(load_model(context, path, true, model));
done:
    return status;
}
