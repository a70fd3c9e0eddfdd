/* The values of a configuration: their kinds and ranges, and what they set. */
#include "net/config_read.h"

#include "common/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- What is still to be found ---- */

static bool any(const float values[3]) {
    return values[0] != 0 || values[1] != 0 || values[2] != 0;
}

bool config_wants(struct config_reader *reader, enum config_field field) {
    const struct backbone_recipe *recipe = reader->recipe;
    reader->field = field;
    switch (field) {
    case CONFIG_SIDE: return !recipe->side;
    case CONFIG_MEAN: return !any(recipe->mean) && !any(recipe->deviation);
    case CONFIG_HEADS: return !recipe->heads;
    case CONFIG_ACTIVATION: return !recipe->activation;
    case CONFIG_EPSILON: return recipe->epsilon == 0;
    case CONFIG_STRIDE: return !recipe->stride_first && !reader->sources->stride;
    case CONFIG_FRAME: return !reader->sources->frame;
    case CONFIG_FILTER: return !reader->sources->filter;
    case CONFIG_OTHER: break;
    }
    return true;
}

static const char *what_to_do(const struct config_reader *reader) {
    switch (reader->field) {
    case CONFIG_SIDE: return "correct or remove what is wrong, or give the side of the pictures with --size";
    case CONFIG_MEAN: return "correct or remove what is wrong, or give --mean and --std";
    case CONFIG_HEADS: return "correct or remove what is wrong, or give the number of heads with --heads";
    case CONFIG_ACTIVATION: return "correct or remove what is wrong, or give --activation";
    case CONFIG_OTHER:
    case CONFIG_EPSILON:
    case CONFIG_STRIDE:
    case CONFIG_FRAME:
    case CONFIG_FILTER: break;
    }
    return "correct or remove what is wrong; if the file belongs to another checkpoint, move it away";
}

l3a_status config_fail(const struct config_reader *reader, l3a_status status, const char *key, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return fail(reader->context, status, what_to_do(reader), "%s: %s %s", reader->path, key, text);
}

const char *config_show(const char *text, char shown[CONFIG_SHOWN]) {
    const bool plain = is_utf8(text) && !utf8_find_hidden(text) && strlen(text) < CONFIG_SHOWN - 2;
    snprintf(shown, CONFIG_SHOWN, plain ? "'%s'" : "a text that cannot be shown", text);
    return shown;
}

/* ---- What is found ---- */

void config_set_side(struct config_reader *reader, size_t side) {
    reader->recipe->side = side;
    reader->sources->side = reader->source;
}

l3a_status config_set_heads(struct config_reader *reader, const char *key, size_t heads, size_t width) {
    if (width % heads) {
        return config_fail(reader, L3A_ERROR_MISMATCH, key, "is %zu, which does not divide the width, %zu", heads, width);
    }
    reader->recipe->heads = heads;
    reader->sources->heads = reader->source;
    return L3A_OK;
}

l3a_status config_set_activation(struct config_reader *reader, const char *key, const char *name) {
    static const struct {
        const char *name;
        enum activation activation;
    } known[] = {{"gelu", GELU},          {"quick_gelu", QUICK_GELU}, {"gelu_pytorch_tanh", TANH_GELU},
                 {"gelu_new", TANH_GELU}, {"gelu_tanh", TANH_GELU},   {"tanh_gelu", TANH_GELU}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) == 0) {
            reader->recipe->activation = known[i].activation;
            reader->sources->activation = reader->source;
            return L3A_OK;
        }
    }
    char shown[CONFIG_SHOWN];
    return config_fail(reader, L3A_ERROR_MISMATCH, key, "is %s; only gelu, quick_gelu and gelu_tanh can be computed",
                       config_show(name, shown));
}

l3a_status config_set_epsilon(struct config_reader *reader, const char *key, double epsilon) {
    if (!(epsilon > 0 && epsilon <= 0.1)) {
        return config_fail(reader, L3A_ERROR_DATA, key, "is %g; expected a small number above 0", epsilon);
    }
    reader->recipe->epsilon = epsilon;
    reader->sources->epsilon = reader->source;
    return L3A_OK;
}

void config_set_stride(struct config_reader *reader, bool first) {
    reader->recipe->stride_first = first;
    reader->sources->stride = reader->source;
}

void config_set_family(struct config_reader *reader, const char *name) {
    if (name && !reader->sources->family) {
        reader->sources->family = name;
        reader->sources->of_family = reader->source;
    }
}

l3a_status config_set_mean(struct config_reader *reader, const char *key, const double mean[3], const double deviation[3],
                           double scale) {
    for (size_t i = 0; i < 3; i++) {
        const double m = mean[i] / scale, d = deviation[i] / scale;
        if (!(m >= -1 && m <= 2 && d >= 1e-4 && d <= 10)) {
            return config_fail(reader, L3A_ERROR_DATA, key,
                               "and deviation are %g and %g, which cannot be right for pixels from 0 to %g", mean[i], deviation[i],
                               scale);
        }
    }
    for (size_t i = 0; i < 3; i++) {
        reader->recipe->mean[i] = (float)(mean[i] / scale);
        reader->recipe->deviation[i] = (float)(deviation[i] / scale);
    }
    reader->sources->mean = reader->source;
    return L3A_OK;
}

l3a_status config_set_crop(struct config_reader *reader, const char *key, enum config_frame frame, double crop) {
    if (!(crop >= 0.01 && crop <= 1)) {
        return config_fail(reader, L3A_ERROR_DATA, key, "keeps a share of %g; expected one from 0.01 to 1", crop);
    }
    reader->geometry->frame = frame;
    reader->geometry->crop = crop;
    reader->sources->frame = reader->source;
    return L3A_OK;
}

void config_set_filter(struct config_reader *reader, const char *name) {
    const bool cubic = strcmp(name, "bicubic") == 0;
    reader->sources->filter = reader->source;
    if (cubic || strcmp(name, "bilinear") == 0) {
        reader->geometry->filter = cubic ? L3A_FILTER_BICUBIC : L3A_FILTER_BILINEAR;
        reader->geometry->has_filter = true;
    } else {
        config_cannot(reader, "filter", name);
    }
}

void config_cannot(struct config_reader *reader, const char *what, const char *given) {
    struct config_geometry *geometry = reader->geometry;
    char shown[CONFIG_SHOWN];
    if (!geometry->unsupported[0]) {
        snprintf(geometry->unsupported, sizeof geometry->unsupported, "%s: %s%s%s", reader->source, what, given ? " " : "",
                 given ? config_show(given, shown) : "");
    }
}

/* ---- Values ---- */

const struct json_value *config_get(const struct json_value *object, const char *key) {
    const struct json_value *given = json_value_get(object, key);
    return json_value_kind(given) == JSON_NULL ? NULL : given;
}

static l3a_status expect(const struct config_reader *reader, const char *key, const struct json_value *given, json_kind kind,
                         const char *what) {
    return !given || json_value_kind(given) == kind ? L3A_OK : config_fail(reader, L3A_ERROR_DATA, key, "is not %s", what);
}

l3a_status config_object(const struct config_reader *reader, const struct json_value *object, const char *key,
                         const struct json_value **given) {
    *given = config_get(object, key);
    return expect(reader, key, *given, JSON_OBJECT, "an object");
}

l3a_status config_text(const struct config_reader *reader, const struct json_value *object, const char *key, const char **text) {
    const struct json_value *given = config_get(object, key);
    const l3a_status status = expect(reader, key, given, JSON_STRING, "a text");
    *text = given ? json_value_text(given, NULL) : *text;
    return status;
}

l3a_status config_truth(const struct config_reader *reader, const struct json_value *object, const char *key, bool *truth) {
    const struct json_value *given = config_get(object, key);
    const l3a_status status = expect(reader, key, given, JSON_BOOLEAN, "true or false");
    *truth = given ? json_value_number(given) != 0 : *truth;
    return status;
}

l3a_status config_number(const struct config_reader *reader, const struct json_value *object, const char *key, double *number) {
    const struct json_value *given = config_get(object, key);
    const l3a_status status = expect(reader, key, given, JSON_NUMBER, "a number");
    *number = given ? json_value_number(given) : *number;
    return status;
}

static l3a_status take_count(const struct config_reader *reader, const char *key, const struct json_value *given, size_t most,
                             size_t *count) {
    const double number = json_value_number(given);
    l3a_status status = L3A_OK;
    TRY(expect(reader, key, given, JSON_NUMBER, "a number"));
    if (!(number >= 1 && number <= (double)most) || number != floor(number)) {
        return config_fail(reader, L3A_ERROR_DATA, key, "is %g; expected a whole number from 1 to %zu", number, most);
    }
    *count = (size_t)number;
done:
    return status;
}

l3a_status config_count(const struct config_reader *reader, const struct json_value *object, const char *key, size_t most,
                        size_t *count) {
    const struct json_value *given = config_get(object, key);
    return given ? take_count(reader, key, given, most, count) : L3A_OK;
}

/* Copies the values of an array, of which there must be as many. */
static l3a_status take_items(const struct config_reader *reader, const char *key, const struct json_value *given, size_t wanted,
                             const struct json_value *items[3]) {
    size_t count = 0;
    for (const struct json_value *item = json_value_first(given); item; item = json_value_next(item)) {
        if (count < wanted) {
            items[count] = item;
        }
        count++;
    }
    return count == wanted ? L3A_OK : config_fail(reader, L3A_ERROR_DATA, key, "has %zu entries; expected %zu", count, wanted);
}

l3a_status config_square(const struct config_reader *reader, const struct json_value *object, const char *key, size_t entries,
                         size_t *side) {
    const struct json_value *given = config_get(object, key), *items[3] = {NULL};
    l3a_status status = L3A_OK;
    size_t channels = 3, height = 0, width = 0;
    if (json_value_kind(given) != JSON_ARRAY) {
        return given ? take_count(reader, key, given, CONFIG_LARGEST_SIDE, side) : L3A_OK;
    }
    TRY(take_items(reader, key, given, entries, items));
    if (entries == 3) {
        TRY(take_count(reader, key, items[0], CONFIG_LARGEST_SIDE, &channels));
    }
    TRY(take_count(reader, key, items[entries - 2], CONFIG_LARGEST_SIDE, &height));
    TRY(take_count(reader, key, items[entries - 1], CONFIG_LARGEST_SIDE, &width));
    if (channels != 3) {
        return config_fail(reader, L3A_ERROR_MISMATCH, key, "wants %zu channels; pictures have 3", channels);
    }
    if (height != width) {
        return config_fail(reader, L3A_ERROR_MISMATCH, key, "is %zu x %zu; only squares can be computed", height, width);
    }
    *side = width;
done:
    return status;
}

l3a_status config_three(const struct config_reader *reader, const struct json_value *object, const char *key, double three[3],
                        bool *found) {
    const struct json_value *given = config_get(object, key), *items[3] = {NULL};
    const bool list = json_value_kind(given) == JSON_ARRAY;
    l3a_status status = L3A_OK;
    *found = given != NULL;
    if (list) {
        TRY(take_items(reader, key, given, 3, items));
    }
    for (size_t i = 0; given && i < 3; i++) {
        TRY(expect(reader, key, list ? items[i] : given, JSON_NUMBER, "three numbers"));
        three[i] = json_value_number(list ? items[i] : given);
    }
done:
    return status;
}

l3a_status config_mean(struct config_reader *reader, const struct json_value *object, const char *mean_key,
                       const char *deviation_key, double scale) {
    double mean[3], deviation[3];
    bool has_mean, has_deviation;
    l3a_status status = L3A_OK;
    if (!config_wants(reader, CONFIG_MEAN)) {
        return L3A_OK;
    }
    TRY(config_three(reader, object, mean_key, mean, &has_mean));
    TRY(config_three(reader, object, deviation_key, deviation, &has_deviation));
    if (has_mean != has_deviation) {
        return config_fail(reader, L3A_ERROR_DATA, has_mean ? mean_key : deviation_key, "comes without %s",
                           has_mean ? deviation_key : mean_key);
    }
    if (has_mean) {
        TRY(config_set_mean(reader, mean_key, mean, deviation, scale));
    }
done:
    return status;
}

bool config_has_width(const struct config_reader *reader, size_t width) {
    const size_t count = checkpoint_count(reader->checkpoint);
    bool found = false;
    for (size_t i = 0; !found && i < count; i++) {
        const struct checkpoint_tensor *tensor = checkpoint_at(reader->checkpoint, i);
        for (size_t axis = 0; axis < tensor->rank; axis++) {
            found = found || tensor->shape[axis] == width;
        }
    }
    return found;
}

l3a_status config_check_width(const struct config_reader *reader, const char *key, size_t width) {
    return !width || config_has_width(reader, width)
               ? L3A_OK
               : config_fail(reader, L3A_ERROR_MISMATCH, key, "is %zu, but no tensor has that dimension", width);
}
