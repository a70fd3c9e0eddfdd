/* Writing a model file. The sums are not copied: the file is filled from where they are, a strip of rows at a time. */
#include "learn/file_model.h"

#include "common/number.h"
#include "base/settings.h"
#include "data/features.h"
#include "format/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char model_format[] = "l3a-model", file_record_prefix[] = "record.";

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

/* What describes the model in the file. */
struct description {
    l3a_context *context;
    text_list keys, values;
};

__attribute__((format(printf, 3, 4))) static l3a_status describe(struct description *description, const char *key,
                                                                 const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text_record_set(description->context, &description->keys, &description->values, key, text);
}

static l3a_status describe_at_length(struct description *description, const char *key, const text_builder *text) {
    return text->status == L3A_OK ? text_record_set(description->context, &description->keys, &description->values, key,
                                                    text->length ? text->text : "")
                                  : text->status;
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

/* Whether older versions would take the features of other networks for those of this model. */
static bool has_new_network(const l3a_model *model) {
    const char *values[PROVENANCE];
    for (size_t i = 0; i < PROVENANCE; i++) {
        values[i] = model_record(model, provenance[i]);
    }
    return provenance_is_new(values);
}

/* The first version that says how the model learns. */
static int version_for(const l3a_model *model, bool only_phases) {
    const struct model_options *options = &model->options;
    if (has_new_network(model)) {
        return MODEL_VERSION;
    }
    if (model->evidence->unlabelled.total) {
        return MODEL_VERSION_OF_UNLABELLED;
    }
    if (options->views > 1 && options->pseudo != L3A_PSEUDO_OFF && options->pseudo_from != L3A_PSEUDO_FROM_COMBINED) {
        return MODEL_VERSION_OF_LABELLED;
    }
    return takes_views(model) ? MODEL_VERSION_OF_COMBINED_LABELS
           : only_phases      ? MODEL_VERSION_OF_PHASES
                              : MODEL_VERSION_WITHOUT_VIEWS;
}

static l3a_status describe_model(const l3a_model *model, struct description *description) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const struct unlabelled *unlabelled = &model->evidence->unlabelled;
    const bool only_phases = !takes_views(model) && !unlabelled->total && !has_new_network(model) && has_only_phases(model);
    text_builder classes = {.context = context}, phases = {.context = context}, parts = {.context = context};
    TRY(describe(description, "format", "%s", model_format));
    TRY(describe(description, "version", "%d", version_for(model, only_phases)));
    TRY(describe(description, "width", "%zu", model->width));
    if (unlabelled->total) {
        char trace[NUMBER_TEXT];
        TRY(describe(description, "unlabelled", "%" PRIu64 " %" PRIu64 " %s", unlabelled->images, unlabelled->drawn_from,
                     number_format(unlabelled->trace, trace)));
    }
    for (size_t i = 0; i < model->classes.count; i++) {
        text_builder_print(&classes, "%s%s", i ? "\n" : "", model->classes.items[i]);
    }
    TRY(describe_at_length(description, "classes", &classes));
    for (size_t i = 0; i < model->phase_count; i++) {
        const l3a_phase_info *phase = &model->phases[i];
        char eta[NUMBER_TEXT];
        text_builder_print(&phases, "%s%zu %zu %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %d", i ? "\n" : "", phase->first, phase->last,
                           phase->images, phase->skipped, phase->pseudo_labels, number_format(phase->eta, eta), phase->recursive);
    }
    TRY(describe_at_length(description, "phases", &phases));
    for (size_t i = 0; i < model->evidence->part_count; i++) {
        text_builder_print(&parts, "%s", i ? "\n" : "");
        describe_part(&model->evidence->parts[i], !only_phases, &parts);
    }
    TRY(describe_at_length(description, "parts", &parts));
    for (size_t i = 0; i < model_settings.count; i++) {
        const struct setting *setting = &model_settings.settings[i];
        char text[64];
        setting_get(&model->options, setting, text, sizeof text);
        TRY(describe(description, setting->info.name, "%s", text));
    }
    for (size_t i = 0; i < model->record_values.count; i++) {
        char key[256];
        snprintf(key, sizeof key, "%s%s", file_record_prefix, model->record_keys.items[i]);
        TRY(text_record_set(context, &description->keys, &description->values, key, model->record_values.items[i]));
    }
done:
    text_builder_free(&classes);
    text_builder_free(&phases);
    text_builder_free(&parts);
    return status;
}

/* Sums that are stored as "root.NAME" or "gram.NAME". A root is made to depend on nothing but them first. */
static l3a_status list_scatter(struct scatter *sums, uint64_t images, const char *name, struct part_source *source,
                               tensor_source *tensor) {
    l3a_status status = L3A_OK;
    if (sums->is_root) {
        TRY(scatter_tidy(sums, images));
    }
    source->sums = sums;
    snprintf(source->name, sizeof source->name, "%s.%s", sums->is_root ? "root" : "gram", name);
    *tensor =
        (tensor_source){source->name, tensor_type_of(sums->type), 1, {triangle_numbers(0, sums->dim)}, fill_from_triangle, source};
    if (sums->is_root) {
        TRY(allocate(sums->context, sums->dim, real_size(sums->type), &source->row));
        *tensor = (tensor_source){source->name, tensor_type_of(sums->type), 2, {sums->rows, sums->dim}, fill_from_root, source};
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
    char name[24];
    for (size_t i = 0; i < evidence->part_count; i++) {
        snprintf(name, sizeof name, "%zu", i + 1);
        TRY(list_scatter(&evidence->parts[i].sums, evidence->parts[i].images, name, &parts[i], &sources[(*count)++]));
    }
    if (!keeps_phases(&model->options)) {
        *whole = (struct sums_source){.sums = &evidence->ridge.sums, .type = narrow ? REAL_SINGLE : REAL_DOUBLE};
        sources[(*count)++] = (tensor_source){evidence->ridge.inverse ? "inverse" : "gram",
                                              tensor_type_of(whole->type),
                                              1,
                                              {triangle_numbers(0, model_dim(model))},
                                              fill_from_sums,
                                              whole};
        TRY(allocate(model->context, strip_numbers(model_dim(model)), sizeof *whole->numbers, &whole->numbers));
    }
done:
    return status;
}

/* The unlabelled images. */
static l3a_status list_unlabelled(const l3a_model *model, struct part_source *source, int64_t **pictures, tensor_source *sources,
                                  size_t *count) {
    struct unlabelled *unlabelled = &model->evidence->unlabelled;
    const size_t n = unlabelled->sample_count;
    l3a_status status = L3A_OK;
    if (!unlabelled->total) {
        return L3A_OK;
    }
    TRY(list_scatter(&unlabelled->sums, unlabelled->images, "unlabelled", source, &sources[(*count)++]));
    TRY(allocate(model->context, n, 2 * sizeof **pictures, pictures));
    for (size_t i = 0; i < n; i++) {
        (*pictures)[2 * i] = (int64_t)unlabelled->sample[i].checksum;
        (*pictures)[2 * i + 1] = unlabelled->sample[i].judged;
    }
    const tensor_source others[] = {
        {"unlabelled_sum", TENSOR_F64, 1, {model_dim(model)}, fill_from_memory, unlabelled->total},
        {"unlabelled_pictures", TENSOR_I64, 2, {n, 2}, fill_from_memory, *pictures},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        sources[(*count)++] = others[i];
    }
done:
    return status;
}

uint64_t model_file_bytes(const l3a_model *model) {
    const struct evidence *evidence = model->evidence;
    const uint64_t d = model_dim(model), triangle = triangle_numbers(0, d);
    const real type = model->options.store == L3A_STORE_FLOAT32 ? REAL_SINGLE : REAL_DOUBLE;
    uint64_t bytes = 2 * d * model->classes.count * sizeof(double);
    for (size_t i = 0; i < evidence->part_count; i++) {
        const struct scatter *sums = &evidence->parts[i].sums;
        bytes += (sums->is_root ? sums->rows * d : triangle) * real_size(sums->type);
    }
    return bytes + (keeps_phases(&model->options) ? 0 : triangle * real_size(type));
}

l3a_status l3a_model_save(l3a_model *model, const char *path) {
    REQUIRE(model, model, path);
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    struct description description = {.context = context};
    tensor_source *sources = NULL;
    struct part_source *parts = NULL;
    struct sums_source whole = {0};
    int64_t *pictures = NULL;
    size_t count = 0;
    const size_t part_count = model->evidence->part_count;
    const size_t d = model_dim(model), classes = model->classes.count;
    FAIL_IF(model->state != MODEL_READY, context, L3A_ERROR_STATE,
            model->state == MODEL_BROKEN ? "load the model again from its file" : "end the phase first",
            "%s: the model is %s and cannot be saved", path,
            model->state == MODEL_BROKEN ? "left halfway through a change" : "in the middle of a phase");
    if (!leads(context) && !shares_sums(model)) { /* sums that are shared are read by all processes, and process 0 writes them */
        return L3A_OK;
    }
    TRY(allocate_zeroed(context, part_count + 9, sizeof *sources, &sources));
    TRY(allocate_zeroed(context, part_count + 1, sizeof *parts, &parts));
    TRY(list_sums(model, &whole, parts, sources, &count));
    TRY(list_unlabelled(model, &parts[part_count], &pictures, sources, &count));
    TRY(describe_model(model, &description));
    sources[count++] = (tensor_source){"cross", TENSOR_F64, 2, {d, classes}, fill_from_memory, model->evidence->cross};
    sources[count++] = (tensor_source){"weights", TENSOR_F64, 2, {d, classes}, fill_from_memory, model->coefficients};
    sources[count++] = (tensor_source){"counts", TENSOR_I64, 1, {classes}, fill_from_memory, model->counts};
    sources[count++] = (tensor_source){"label_weight", TENSOR_F64, 1, {classes}, fill_from_memory, model->label_weight};
    sources[count++] = (tensor_source){"class_weight", TENSOR_F64, 1, {classes}, fill_from_memory, model->class_weight};
    TRY(safetensors_write(context, path, &description.keys, &description.values, sources, count));
done:
    text_list_clear(context, &description.keys);
    text_list_clear(context, &description.values);
    release(context, sources);
    for (size_t i = 0; parts && i <= part_count; i++) {
        release(context, parts[i].row);
    }
    release(context, parts);
    release(context, pictures);
    release(context, whole.numbers);
    return status;
}
