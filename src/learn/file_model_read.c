/* Reading a model file of any version, whole or only what scoring needs. Nothing in it is trusted: every size is compared with the
 * file before memory is allocated for it. */
#include "learn/file_model.h"

#include "common/number.h"
#include "base/plugin.h"
#include "base/settings.h"
#include "base/text_index.h"
#include "format/safetensors.h"
#include "learn/file_packed.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char damaged[] = "the file is damaged, or is not a model of this program: copy it again, or learn a new model";

static l3a_status fail_model(const safetensors *file, const char *what) {
    return fail(file->context, L3A_ERROR_FORMAT, damaged, "%s: %s", file->input.path, what);
}

/* 0 if it is not a known version. */
static uint64_t file_version(const safetensors *file) {
    const char *text = safetensors_metadata(file, "version");
    uint64_t version;
    return text && integer_parse(text, strlen(text), &version) && version <= MODEL_VERSION ? version : 0;
}

/* Settings that files have since a version, and what older ones mean; NULL: the default. */
struct newer_setting {
    const char *name;
    uint64_t version;
    const char *before;
};

static struct newer_setting newer_setting(const char *name) {
    static const struct newer_setting newer[] = {{"alpha", 2, NULL},
                                                 {"skip-features", 2, NULL},
                                                 {"thresholds", 2, NULL},
                                                 {"keep-phases", 2, NULL},
                                                 {"privacy-limit", 2, NULL},
                                                 {"lift", 3, NULL},
                                                 {"gamma-from", 5, NULL},
                                                 {"views", 6, NULL},
                                                 {"score-views", 6, NULL},
                                                 {"pseudo-from", MODEL_VERSION_OF_LABELLED, "combined"},
                                                 {"beta", MODEL_VERSION_OF_UNLABELLED, NULL}};
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
    const size_t prefix = strlen(file_record_prefix);
    for (size_t i = 0; i < file->values.count; i++) {
        if (strncmp(file->keys.items[i], file_record_prefix, prefix) == 0) {
            FAIL_IF(model->record_keys.count == RECORD_LIMIT, file->context, L3A_ERROR_FORMAT, damaged, "%s: more than %d records",
                    file->input.path, RECORD_LIMIT);
            TRY(model_set_record(model, file->keys.items[i] + prefix, file->values.items[i]));
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

/* Finds "gram.NAME" or "root.NAME": a triangle, or a root, which a size of 0 in the shape allows to have any number of rows. */
static l3a_status find_scatter(const safetensors *file, const char *own, size_t dim, const struct tensor **tensor) {
    const uint64_t triangle[1] = {triangle_numbers(0, dim)}, root[2] = {0, dim};
    l3a_status status = L3A_OK;
    char name[32];
    snprintf(name, sizeof name, "root.%s", own);
    if (file_version(file) > MODEL_VERSION_OF_JUDGED_PHASES && safetensors_find(file, name)) {
        TRY(safetensors_expect(file, name, 2, root, tensor));
        FAIL_IF((*tensor)->shape[0] > dim / 2, file->context, L3A_ERROR_FORMAT, damaged, "%s: %s has too many rows",
                file->input.path, name);
    } else {
        snprintf(name, sizeof name, "gram.%s", own);
        TRY(safetensors_expect(file, name, 1, triangle, tensor));
    }
done:
    return status;
}

static l3a_status find_part(const safetensors *file, size_t index, size_t dim, const struct tensor **tensor) {
    char name[24];
    snprintf(name, sizeof name, "%zu", index + 1);
    return find_scatter(file, name, dim, tensor);
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
        if (file_version(file) > MODEL_VERSION_OF_PHASES) {
            TRY(make_part(model, lines.items[i], file_version(file) == MODEL_VERSION_OF_JUDGED_PHASES, &phase, &good));
            continue;
        }
        good = integer_parse(lines.items[i], strlen(lines.items[i]), &phases) && phases && phases <= model->phase_count - phase;
        if (good) {
            TRY(make_part_of_phases(model, phases, &phase));
        }
    }
    const size_t phases = keeps_phases(&model->options) ? model->phase_count : 0;
    if (!good || (file_version(file) <= MODEL_VERSION_OF_JUDGED_PHASES && phase != phases) ||
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

/* Reads sums of the type that the model has. */
static l3a_status load_scatter(const safetensors *file, const l3a_model *model, const struct tensor *tensor, struct scatter *sums) {
    return tensor->type == tensor_type_of(options_real(&model->options))
               ? load_part(file, tensor, sums)
               : fail_model(file, "the sums of phases must be F32 in mixed precision, and otherwise F64");
}

static l3a_status load_parts(const safetensors *file, l3a_model *model) {
    l3a_status status = L3A_OK;
    const struct tensor *tensor;
    for (size_t i = 0; i < model->evidence->part_count; i++) {
        TRY(find_part(file, i, model_dim(model), &tensor));
        TRY(load_scatter(file, model, tensor, &model->evidence->parts[i].sums));
    }
done:
    return status;
}

/* Reads `numbers` numbers of 8 bytes each. */
static l3a_status load_numbers(const safetensors *file, const struct tensor *tensor, tensor_type type, size_t numbers,
                               void *values) {
    l3a_status status = L3A_OK;
    FAIL_IF(tensor->type != type, file->context, L3A_ERROR_FORMAT, damaged, "%s: %s has numbers of the wrong type",
            file->input.path, tensor->name);
    TRY(input_read(&file->input, tensor->offset, values, numbers * sizeof(double)));
    for (size_t i = 0; i < numbers && type == TENSOR_F64; i++) {
        FAIL_IF(!isfinite(((const double *)values)[i]), file->context, L3A_ERROR_FORMAT, damaged,
                "%s: %s holds a number that is not finite", file->input.path, tensor->name);
    }
done:
    return status;
}

/* The pictures of the sample, by checksum. */
static l3a_status load_sample(const safetensors *file, struct unlabelled *unlabelled) {
    const uint64_t shape[2] = {0, 2};
    const struct tensor *tensor;
    int64_t *pictures = NULL;
    l3a_status status = L3A_OK;
    TRY(safetensors_expect(file, "unlabelled_pictures", 2, shape, &tensor));
    const size_t n = (size_t)tensor->shape[0];
    TRY(allocate(file->context, n, 2 * sizeof *pictures, &pictures));
    TRY(allocate(file->context, n, sizeof *unlabelled->sample, &unlabelled->sample));
    TRY(load_numbers(file, tensor, TENSOR_I64, 2 * n, pictures));
    for (size_t i = 0; i < n; i++) {
        unlabelled->sample[i] = (struct sampled){(uint64_t)pictures[2 * i], pictures[2 * i + 1] == 1};
        if (i && unlabelled->sample[i].checksum < unlabelled->sample[i - 1].checksum) {
            status = fail_model(file, "the unlabelled pictures are not sorted");
            goto done;
        }
    }
    unlabelled->sample_count = n;
done:
    release(file->context, pictures);
    return status;
}

/* The unlabelled images; of a model that only scores, how many they are and the sum that thresholds need. */
static l3a_status load_unlabelled(const safetensors *file, l3a_model *model) {
    struct unlabelled *unlabelled = &model->evidence->unlabelled;
    const char *text = safetensors_metadata(file, "unlabelled");
    const uint64_t shape[1] = {model_dim(model)};
    const struct tensor *tensor, *sum;
    char trace[NUMBER_TEXT];
    l3a_status status = L3A_OK;
    if (file_version(file) < MODEL_VERSION_OF_UNLABELLED || (file_version(file) > MODEL_VERSION_OF_UNLABELLED && !text)) {
        return L3A_OK;
    }
    if (!text || sscanf(text, "%" SCNu64 " %" SCNu64 " %31s", &unlabelled->images, &unlabelled->drawn_from, trace) != 3 ||
        !number_parse(trace, strlen(trace), &unlabelled->trace) || !keeps_phases(&model->options) || model->options.alpha == 0) {
        unlabelled->images = 0;
        return fail_model(file, "the entry of the unlabelled images is not valid");
    }
    TRY(safetensors_expect(file, "unlabelled_sum", 1, shape, &sum));
    TRY(allocate(file->context, model_dim(model), sizeof *unlabelled->total, &unlabelled->total));
    TRY(load_numbers(file, sum, TENSOR_F64, model_dim(model), unlabelled->total));
    if (!model->evidence->ridge.sums.held) {
        return L3A_OK;
    }
    TRY(find_scatter(file, "unlabelled", model_dim(model), &tensor));
    TRY(load_sample(file, unlabelled));
    TRY(scatter_create(file->context, model_dim(model), options_real(&model->options), &unlabelled->sums));
    TRY(load_scatter(file, model, tensor, &unlabelled->sums));
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
    if (!format || strcmp(format, model_format) != 0) {
        return fail(file->context, L3A_ERROR_FORMAT, "give a model file that this program has written",
                    "%s: this is a safetensors file, but not a model of this program", file->input.path);
    }
    if (!file_version(file)) {
        return fail(file->context, L3A_ERROR_VERSION, "use the version of l3a that wrote it, or a newer one",
                    "%s: model format version %s is not known; the latest known version is %d", file->input.path,
                    version ? version : "(none)", MODEL_VERSION);
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
    static const char *const names[] = {"cross", "weights", "counts", "label_weight", "class_weight", "unlabelled_sum"};
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
    TRY(load_unlabelled(&file, made));
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
