#include "learn/file_packed.h"

#include "common/number.h"
#include "data/features.h"
#include "format/checkpoint.h"
#include "learn/file_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VERSION = 3, VERSION_OF_VIEWS = 2, VERSION_WITHOUT_VIEWS = 1, LONGEST_NAME = 200 };
static const char format_name[] = "l3a-packed";
const char packed_backbone_prefix[] = "backbone.";

/* The settings that define the rows. Version 1 does not have the last one. */
static const char *const row_settings[] = {"dim", "seed", "precision", "skip-features", "views"};

static size_t row_setting_count(int version) {
    return sizeof row_settings / sizeof row_settings[0] - (version == VERSION_WITHOUT_VIEWS);
}

/* ---- Writing ---- */

/* The first version that says how features are made. */
static int version_for(const struct model_options *options, const struct packing *packing) {
    const char *values[PROVENANCE];
    for (size_t i = 0; i < PROVENANCE; i++) {
        values[i] = text_record_find(packing->record_keys, packing->record_values, provenance[i]);
    }
    return provenance_is_new(values) ? VERSION : options->views > 1 ? VERSION_OF_VIEWS : VERSION_WITHOUT_VIEWS;
}

static l3a_status describe(const l3a_model *model, const struct packing *packing, text_list *keys, text_list *values) {
    l3a_context *context = model->context;
    text_builder classes = {.context = context};
    l3a_status status = L3A_OK;
    char text[256];
    struct model_options options = model->options;
    options.views = scored_views(&options); /* nothing else is done with it */
    const int version = version_for(&options, packing);
    TRY(text_record_set(context, keys, values, "format", format_name));
    snprintf(text, sizeof text, "%d", version);
    TRY(text_record_set(context, keys, values, "version", text));
    snprintf(text, sizeof text, "%zu", model->width);
    TRY(text_record_set(context, keys, values, "width", text));
    for (size_t i = 0; i < row_setting_count(version); i++) {
        model_options_get(&options, row_settings[i], text, sizeof text);
        TRY(text_record_set(context, keys, values, row_settings[i], text));
    }
    for (size_t i = 0; i < model->classes.count; i++) {
        text_builder_print(&classes, "%s%s", i ? "\n" : "", model->classes.items[i]);
    }
    TRY(classes.status);
    TRY(text_record_set(context, keys, values, "classes", classes.text));
    for (size_t i = 0; i < packing->record_values->count; i++) {
        snprintf(text, sizeof text, "%s%s", file_record_prefix, packing->record_keys->items[i]);
        TRY(text_record_set(context, keys, values, text, packing->record_values->items[i]));
    }
done:
    text_builder_free(&classes);
    return status;
}

static double find_scale(l3a_pack_type type, double largest) {
    int exponent;
    if (largest == 0) {
        return 1;
    }
    frexp(largest, &exponent); /* largest < 2^exponent */
    return type == L3A_PACK_INT8 ? largest / 127 : ldexp(1, exponent - 15);
}

/* W as it is stored: packed [d x K], in float16 or int8. */
static void pack_coefficients(const l3a_model *model, l3a_pack_type type, double *scale, void *packed) {
    const size_t d = model_dim(model), classes = model->classes.count;
    memset(scale, 0, classes * sizeof *scale);
    for (size_t i = 0; i < d * classes; i++) {
        scale[i % classes] = fmax(scale[i % classes], fabs(model->coefficients[i]));
    }
    for (size_t k = 0; k < classes; k++) {
        scale[k] = find_scale(type, scale[k]);
    }
    for (size_t i = 0; i < d * classes; i++) {
        const double value = model->coefficients[i] / scale[i % classes];
        if (type == L3A_PACK_INT8) {
            ((int8_t *)packed)[i] = (int8_t)lrint(value);
        } else {
            const float single = (float)value;
            halves_of_floats(&single, (uint16_t *)packed + i, 1);
        }
    }
}

/* The tensors of a checkpoint, read one at a time. */
struct backbone_source {
    l3a_context *context;
    struct checkpoint *checkpoint;
    bool half;
    float *values; /* of the tensor that is being written */
    struct backbone_tensor {
        struct backbone_source *source;
        const struct checkpoint_tensor *tensor;
        char name[sizeof packed_backbone_prefix + LONGEST_NAME + 16];
    } * tensors;
};

static l3a_status fill_from_backbone(void *argument, uint64_t offset, void *bytes, size_t count) {
    const struct backbone_tensor *tensor = argument;
    struct backbone_source *source = tensor->source;
    l3a_status status = L3A_OK;
    if (!offset) {
        release(source->context, source->values);
        source->values = NULL;
        TRY(allocate(source->context, (size_t)tensor->tensor->elements, sizeof *source->values, &source->values));
        TRY(checkpoint_read(source->checkpoint, tensor->tensor, source->values));
    }
    if (!source->half) {
        return fill_from_memory(source->values, offset, bytes, count);
    }
    const float *from = source->values + offset / sizeof(uint16_t);
    for (size_t i = 0; i < count / sizeof(uint16_t); i++) {
        FAIL_IF(!(fabsf(from[i]) < 65520), source->context, L3A_ERROR_DATA, "pack the backbone as float32",
                "%s: tensor '%s' holds %g, which float16 cannot", checkpoint_path(source->checkpoint), tensor->tensor->name,
                (double)from[i]);
    }
    halves_of_floats(from, bytes, count / sizeof(uint16_t));
done:
    return status;
}

/* Names that would need escapes, or whose checksum could not be recorded, are refused. No checkpoint in use has any. */
static bool is_plain(const char *name) {
    for (const char *c = name; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == '"' || *c == '\\') {
            return false;
        }
    }
    return strlen(name) <= LONGEST_NAME;
}

static l3a_status list_backbone(struct backbone_source *source, tensor_source *sources, size_t *count) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < checkpoint_count(source->checkpoint); i++) {
        const struct checkpoint_tensor *tensor = checkpoint_at(source->checkpoint, i);
        struct backbone_tensor *own = &source->tensors[i];
        FAIL_IF(!is_plain(tensor->name), source->context, L3A_ERROR_FORMAT, "save the checkpoint again with plain names",
                "%s: the name of tensor %zu is too long, or has control characters or quotes", checkpoint_path(source->checkpoint),
                i + 1);
        *own = (struct backbone_tensor){.source = source, .tensor = tensor};
        snprintf(own->name, sizeof own->name, "%s%s", packed_backbone_prefix, tensor->name);
        tensor_source *made = &sources[(*count)++];
        *made = (tensor_source){own->name, source->half ? TENSOR_F16 : TENSOR_F32, tensor->rank, {0}, fill_from_backbone, own};
        memcpy(made->shape, tensor->shape, tensor->rank * sizeof *made->shape);
    }
done:
    return status;
}

static l3a_status open_source(l3a_context *context, const struct packing *packing, struct backbone_source *source) {
    l3a_status status = L3A_OK;
    *source = (struct backbone_source){.context = context, .half = packing->half};
    if (packing->backbone) {
        TRY(checkpoint_open(context, packing->backbone, &source->checkpoint));
        TRY(allocate_zeroed(context, checkpoint_count(source->checkpoint), sizeof *source->tensors, &source->tensors));
    }
done:
    return status;
}

l3a_status packed_write(const l3a_model *model, const struct packing *packing, const char *path) {
    l3a_context *context = model->context;
    const size_t d = model_dim(model), classes = model->classes.count;
    const bool small = packing->type == L3A_PACK_INT8;
    text_list keys = {0}, values = {0};
    tensor_source *sources = NULL;
    struct backbone_source backbone = {0};
    double *scale = NULL, *thresholds = NULL;
    void *packed = NULL;
    size_t count = 0;
    l3a_status status = L3A_OK;
    TRY(describe(model, packing, &keys, &values));
    TRY(allocate(context, d, classes * (small ? sizeof(int8_t) : sizeof(uint16_t)), &packed));
    TRY(allocate(context, classes, sizeof *scale, &scale));
    TRY(allocate(context, classes, sizeof *thresholds, &thresholds));
    pack_coefficients(model, packing->type, scale, packed);
    model_thresholds(model, scored_views(&model->options), thresholds);
    TRY(open_source(context, packing, &backbone));
    TRY(allocate_zeroed(context, 3 + (packing->backbone ? checkpoint_count(backbone.checkpoint) : 0), sizeof *sources, &sources));
    sources[count++] = (tensor_source){"weights", small ? TENSOR_I8 : TENSOR_F16, 2, {d, classes}, fill_from_memory, packed};
    sources[count++] = (tensor_source){"scale", TENSOR_F64, 1, {classes}, fill_from_memory, scale};
    sources[count++] = (tensor_source){"thresholds", TENSOR_F64, 1, {classes}, fill_from_memory, thresholds};
    if (packing->backbone) {
        TRY(list_backbone(&backbone, sources, &count));
    }
    TRY(safetensors_write(context, path, &keys, &values, sources, count));
done:
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
    release(context, sources);
    release(context, packed);
    release(context, scale);
    release(context, thresholds);
    release(context, backbone.values);
    release(context, backbone.tensors);
    checkpoint_free(backbone.checkpoint);
    return status;
}

/* ---- Reading ---- */

static const char damaged[] = "the file is damaged, or was not packed by this program: copy it again, or pack the model again";

bool packed_recognise(const safetensors *file) {
    const char *format = safetensors_metadata(file, "format");
    return format && strcmp(format, format_name) == 0;
}

static l3a_status check_version(const safetensors *file, int *known) {
    const char *version = safetensors_metadata(file, "version");
    uint64_t number = 0;
    l3a_status status = L3A_OK;
    FAIL_IF(!version || !integer_parse(version, strlen(version), &number) || !number || number > VERSION, file->context,
            L3A_ERROR_VERSION, "use the version of l3a that wrote it, or a newer one",
            "%s: version %s of packed models is not known; the latest known version is %d", file->input.path,
            version ? version : "(none)", VERSION);
    *known = (int)number;
    FAIL_IF(!file->summed, file->context, L3A_ERROR_CHECKSUM, "the file is damaged: copy or make it again",
            "%s: the packed model has no checksums", file->input.path);
done:
    return status;
}

/* Only the settings that define the rows are read; the others keep their defaults. */
static l3a_status load_settings(const safetensors *file, int version, struct model_options *options, size_t *width) {
    const char *text = safetensors_metadata(file, "width");
    uint64_t number = 0;
    l3a_status status = L3A_OK;
    model_options_default(options);
    for (size_t i = 0; i < row_setting_count(version); i++) {
        const char *value = safetensors_metadata(file, row_settings[i]);
        FAIL_IF(!value, file->context, L3A_ERROR_FORMAT, damaged, "%s: setting '%s' is missing", file->input.path, row_settings[i]);
        if (model_options_set(file->context, options, row_settings[i], value) != L3A_OK) {
            return fail_in(file->context, L3A_ERROR_FORMAT, "%s", file->input.path);
        }
    }
    FAIL_IF(!text || !integer_parse(text, strlen(text), &number) || !number || number > INT32_MAX, file->context, L3A_ERROR_FORMAT,
            damaged, "%s: the width of the features is missing", file->input.path);
    *width = (size_t)number;
done:
    return status;
}

/* Reads one number per class. */
static l3a_status load_numbers(const safetensors *file, const char *name, size_t classes, double **numbers) {
    const uint64_t shape[1] = {classes};
    const struct tensor *tensor;
    l3a_status status = L3A_OK;
    TRY(safetensors_expect(file, name, 1, shape, &tensor));
    FAIL_IF(tensor->type != TENSOR_F64, file->context, L3A_ERROR_FORMAT, damaged, "%s: %s must be F64", file->input.path, name);
    TRY(safetensors_verify_tensor(file, tensor));
    TRY(allocate(file->context, classes, sizeof **numbers, numbers));
    TRY(input_read(&file->input, tensor->offset, *numbers, (size_t)tensor->bytes));
    for (size_t k = 0; k < classes; k++) {
        FAIL_IF(!isfinite((*numbers)[k]), file->context, L3A_ERROR_FORMAT, damaged, "%s: %s holds a number that is not finite",
                file->input.path, name);
    }
done:
    return status;
}

/* W [dim x classes] */
static l3a_status load_coefficients(const safetensors *file, size_t dim, size_t classes, double **coefficients) {
    l3a_context *context = file->context;
    const uint64_t shape[2] = {dim, classes};
    const struct tensor *tensor;
    double *scale = NULL;
    char *bytes = NULL;
    l3a_status status = L3A_OK;
    TRY(safetensors_expect(file, "weights", 2, shape, &tensor));
    FAIL_IF(tensor->type != TENSOR_F16 && tensor->type != TENSOR_I8, context, L3A_ERROR_FORMAT, damaged,
            "%s: the coefficients must be F16 or I8", file->input.path);
    TRY(safetensors_verify_tensor(file, tensor));
    TRY(load_numbers(file, "scale", classes, &scale));
    TRY(allocate(context, (size_t)tensor->bytes, 1, &bytes));
    TRY(allocate(context, dim, classes * sizeof **coefficients, coefficients));
    TRY(input_read(&file->input, tensor->offset, bytes, (size_t)tensor->bytes));
    tensor_to_double(tensor->type, bytes, *coefficients, dim * classes);
    for (size_t i = 0; i < dim * classes; i++) {
        (*coefficients)[i] *= scale[i % classes];
        FAIL_IF(!isfinite((*coefficients)[i]), context, L3A_ERROR_FORMAT, damaged, "%s: a coefficient is not finite",
                file->input.path);
    }
done:
    release(context, scale);
    release(context, bytes);
    return status;
}

static l3a_status load_texts(const safetensors *file, struct scorer *scorer) {
    const char *classes = safetensors_metadata(file, "classes");
    const size_t prefix = strlen(file_record_prefix);
    l3a_status status = L3A_OK;
    FAIL_IF(!classes || !classes[0], file->context, L3A_ERROR_FORMAT, damaged, "%s: the list of classes is missing",
            file->input.path);
    TRY(text_list_split_lines(file->context, &scorer->classes, classes, strlen(classes)));
    TRY(check_class_names(file->context, &scorer->classes, file->input.path));
    for (size_t i = 0; i < file->values.count; i++) {
        if (strncmp(file->keys.items[i], file_record_prefix, prefix) == 0) {
            TRY(text_record_set(file->context, &scorer->record_keys, &scorer->record_values, file->keys.items[i] + prefix,
                                file->values.items[i]));
        }
    }
    for (size_t i = 0; i < file->count; i++) {
        scorer->has_backbone =
            scorer->has_backbone || strncmp(file->tensors[i].name, packed_backbone_prefix, strlen(packed_backbone_prefix)) == 0;
    }
done:
    return status;
}

l3a_status packed_load(const safetensors *file, const struct scorer *before, struct scorer **scorer) {
    l3a_context *context = file->context;
    struct model_options options;
    struct scorer *made = NULL;
    double *coefficients = NULL;
    size_t width = 0;
    int version = 0;
    l3a_status status = L3A_OK;
    TRY(check_version(file, &version));
    TRY(load_settings(file, version, &options, &width));
    TRY(scorer_begin(context, &made));
    made->packed = true;
    made->views = (size_t)options.views;
    TRY(load_texts(file, made));
    const size_t dim = learned_width(&options, width), classes = made->classes.count;
    TRY(load_coefficients(file, dim, classes, &coefficients));
    TRY(load_numbers(file, "thresholds", classes, &made->thresholds));
    TRY(scorer_check_memory(context, &options, width, classes));
    TRY(scorer_take_layer(made, &options, width, before));
    TRY(solution_create(context, dim, classes, options_real(&options), &made->solution));
    TRY(solution_set(&made->solution, coefficients));
    scorer_sign(made, coefficients);
    *scorer = made;
    made = NULL;
done:
    scorer_free(made);
    release(context, coefficients);
    return status;
}
