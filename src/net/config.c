/* Finds what stands beside a checkpoint and in its metadata, and has it read. */
#include "net/config.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text_index.h"
#include "common/number.h"
#include "format/shards.h"
#include "net/config_read.h"
#include "net/recipe.h"

#include <errno.h>
#include <string.h>

/* A file of this size cannot have more values, so that there is no limit of its own for them. */
enum { FILE_LIMIT = 1 << 20, VALUE_LIMIT = FILE_LIMIT };

static const char what_then[] = "correct this file, or move it away: what it says is then taken from options";

/* ---- Files ---- */

/* timm names the network; transformers does not use this key. */
static l3a_status read_network(struct config_reader *reader, const struct json_value *root) {
    return config_get(root, "architecture") || config_get(root, "pretrained_cfg") ? config_read_timm(reader, root)
                                                                                  : config_read_transformers(reader, root);
}

static const struct {
    const char *name;
    l3a_status (*read)(struct config_reader *reader, const struct json_value *root);
} files[] = {{"preprocessor_config.json", config_read_preprocessor},
             {"config.json", read_network},
             {"open_clip_config.json", config_read_open_clip}};

/* Of two equal keys, some programs take the first and others the last. */
static l3a_status check_keys(l3a_context *context, const char *path, const struct json_value *container) {
    const char **keys = NULL;
    size_t count = 0, capacity = 0, first;
    text_index index = {0};
    char shown[CONFIG_SHOWN];
    l3a_status status = L3A_OK;
    for (const struct json_value *item = json_value_first(container); item; item = json_value_next(item)) {
        TRY(json_value_first(item) ? check_keys(context, path, item) : L3A_OK);
        if (json_value_key(item)) {
            TRY(grow_array(context, &keys, &capacity, count + 1, sizeof *keys));
            keys[count++] = json_value_key(item);
        }
    }
    TRY(text_index_make(context, (char *const *)keys, count, &index));
    const size_t again = text_index_repeated(&index, &first);
    FAIL_IF(again < count, context, L3A_ERROR_FORMAT, what_then, "%s: the key %s is listed twice", path,
            config_show(keys[again], shown));
done:
    text_index_free(context, &index);
    release(context, keys);
    return status;
}

/* What is wrong with a file that the user has not named. */
static l3a_status read_text(l3a_context *context, const char *path, char **text, size_t *length) {
    char problem[sizeof context->error_text];
    const l3a_status status = read_whole(context, path, FILE_LIMIT, text, length);
    if (status == L3A_OK || status == L3A_ERROR_MEMORY) {
        return status;
    }
    memcpy(problem, context->error_text, sizeof problem);
    return fail(context, status, what_then, "%s", problem);
}

static l3a_status parse(l3a_context *context, const char *path, struct json_tree **tree) {
    struct json_problem problem = {0};
    char *text = NULL;
    size_t length;
    l3a_status status = L3A_OK;
    TRY(read_text(context, path, &text, &length));
    status = json_tree_read(path, text, length, VALUE_LIMIT, tree, &problem);
    FAIL_IF(status == L3A_ERROR_MEMORY, context, status, problem.hint, "%s: %s", path, problem.text);
    FAIL_IF(status != L3A_OK, context, status, what_then, "%s", problem.text);
    FAIL_IF(json_value_kind(json_tree_root(*tree)) != JSON_OBJECT, context, L3A_ERROR_FORMAT, what_then,
            "%s: is not an object of JSON", path);
    TRY(check_keys(context, path, json_tree_root(*tree)));
done:
    release(context, text);
    return status;
}

/* A link that leads nowhere is a configuration that was there, or whose download has failed. */
static l3a_status find(l3a_context *context, const char *path, bool *exists) {
    char target[1];
    l3a_status status = L3A_OK;
    TRY(file_exists(context, path, exists));
    const bool link = !*exists && context->files->read_link(path, target, sizeof target) >= 0;
    if (!*exists && !link && errno != ENOENT && errno != EINVAL) {
        return fail_system(context, path, "read", errno);
    }
    FAIL_IF(link, context, L3A_ERROR_NOT_FOUND,
            "download the file again, or remove the link: what it says is then taken from options",
            "%s: is a symbolic link to a file that does not exist", path);
done:
    return status;
}

static l3a_status read_file(struct config_reader *reader, size_t which) {
    struct json_tree *tree = NULL;
    char *path = NULL;
    bool exists;
    l3a_status status = L3A_OK;
    TRY(path_of_sibling(reader->context, checkpoint_path(reader->checkpoint), files[which].name, &path));
    TRY(find(reader->context, path, &exists));
    if (exists) {
        TRY(parse(reader->context, path, &tree));
        reader->source = files[which].name;
        reader->path = path;
        TRY(files[which].read(reader, json_tree_root(tree)));
    }
done:
    json_tree_free(tree);
    release(reader->context, path);
    return status;
}

/* ---- Metadata ---- */

static const char *metadata(const struct config_reader *reader, const char *key) {
    return checkpoint_metadata(reader->checkpoint, key);
}

/* Reads "A" or "A,B,C". */
static bool parse_three(const char *text, double values[3]) {
    bool good = true;
    for (size_t i = 0; good && i < 3; i++) {
        const size_t length = strcspn(text, ",");
        good = number_parse(text, length, &values[i]) && (text[length] ? i < 2 : i != 1);
        text += length;
        if (good && !*text && i == 0) {
            values[1] = values[2] = values[0];
            return true;
        }
        text += *text == ',';
    }
    return good;
}

static l3a_status read_metadata_count(struct config_reader *reader, const char *key, size_t most, size_t *count) {
    const char *text = metadata(reader, key);
    uint64_t number = 0;
    if (text && (!integer_parse(text, strlen(text), &number) || !number || number > most)) {
        return config_fail(reader, L3A_ERROR_DATA, key, "is not a whole number from 1 to %zu", most);
    }
    *count = (size_t)number;
    return L3A_OK;
}

static l3a_status read_metadata_pictures(struct config_reader *reader) {
    const char *mean = metadata(reader, "l3a.mean"), *deviation = metadata(reader, "l3a.std"), *crop = metadata(reader, "l3a.crop"),
               *filter = metadata(reader, "l3a.filter");
    double means[3], deviations[3], share = 1;
    size_t side = 0;
    l3a_status status = L3A_OK;
    if (config_wants(reader, CONFIG_SIDE)) {
        TRY(read_metadata_count(reader, "l3a.side", CONFIG_LARGEST_SIDE, &side));
        if (side) {
            config_set_side(reader, side);
        }
    }
    if ((mean || deviation) && config_wants(reader, CONFIG_MEAN)) {
        if (!mean || !deviation || !parse_three(mean, means) || !parse_three(deviation, deviations)) {
            return config_fail(reader, L3A_ERROR_DATA, "l3a.mean",
                               "and l3a.std must both be there, each with one or three numbers");
        }
        TRY(config_set_mean(reader, "l3a.mean", means, deviations, 1));
    }
    if (crop && config_wants(reader, CONFIG_FRAME)) {
        const bool squash = strcmp(crop, "squash") == 0;
        if (!squash && !number_parse(crop, strlen(crop), &share)) {
            return config_fail(reader, L3A_ERROR_DATA, "l3a.crop", "is neither squash nor a number");
        }
        TRY(config_set_crop(reader, "l3a.crop", squash ? FRAME_SQUASH : FRAME_CENTRE, share));
    }
    if (filter && config_wants(reader, CONFIG_FILTER)) {
        config_set_filter(reader, filter);
    }
done:
    return status;
}

static l3a_status read_metadata(struct config_reader *reader) {
    const char *activation = metadata(reader, "l3a.activation"), *epsilon = metadata(reader, "l3a.epsilon"),
               *stride = metadata(reader, "l3a.stride");
    size_t heads = 0;
    double number = 0;
    l3a_status status = L3A_OK;
    reader->source = "metadata";
    reader->path = checkpoint_path(reader->checkpoint);
    TRY(read_metadata_pictures(reader));
    if (config_wants(reader, CONFIG_HEADS)) {
        TRY(read_metadata_count(reader, "l3a.heads", CONFIG_MOST_HEADS, &heads));
        if (heads) {
            TRY(config_set_heads(reader, "l3a.heads", heads, 0));
        }
    }
    if (activation && config_wants(reader, CONFIG_ACTIVATION)) {
        TRY(config_set_activation(reader, "l3a.activation", activation));
    }
    if (epsilon && config_wants(reader, CONFIG_EPSILON)) {
        if (!number_parse(epsilon, strlen(epsilon), &number)) {
            return config_fail(reader, L3A_ERROR_DATA, "l3a.epsilon", "is not a number");
        }
        TRY(config_set_epsilon(reader, "l3a.epsilon", number));
    }
    if (stride && config_wants(reader, CONFIG_STRIDE)) {
        const bool first = strcmp(stride, "first") == 0;
        if (!first && strcmp(stride, "middle") != 0) {
            return config_fail(reader, L3A_ERROR_DATA, "l3a.stride", "is neither first nor middle");
        }
        config_set_stride(reader, first);
    }
done:
    return status;
}

/* What training has recorded is all of the recipe. */
static l3a_status read_recorded(struct config_reader *reader) {
    struct recipe_sources *sources = reader->sources;
    struct backbone_recipe recipe;
    const char *preprocess = metadata(reader, recorded_preprocess);
    l3a_status status = L3A_OK;
    if (!preprocess) {
        return L3A_OK;
    }
    FAIL_IF(
        !recipe_recall(reader->context, preprocess, metadata(reader, recorded_pool), metadata(reader, recorded_network), &recipe),
        reader->context, L3A_ERROR_DATA, "use the version of l3a that wrote this file, or a newer one",
        "%s: its metadata says how the network was trained, but in words that are not known: %s, %s or %s",
        checkpoint_path(reader->checkpoint), recorded_preprocess, recorded_pool, recorded_network);
    reader->source = "metadata";
    sources->side = config_wants(reader, CONFIG_SIDE) ? reader->source : NULL;
    sources->mean = config_wants(reader, CONFIG_MEAN) ? reader->source : NULL;
    sources->heads = recipe.heads && config_wants(reader, CONFIG_HEADS) ? reader->source : NULL;
    sources->activation = recipe.activation && config_wants(reader, CONFIG_ACTIVATION) ? reader->source : NULL;
    sources->epsilon = recipe.epsilon > 0 && config_wants(reader, CONFIG_EPSILON) ? reader->source : NULL;
    sources->recorded = true;
    recipe_fill(reader->recipe, &recipe);
done:
    return status;
}

/* ---- All of them ---- */

l3a_status config_apply(l3a_context *context, const struct checkpoint *checkpoint, struct backbone_recipe *recipe,
                        struct recipe_sources *sources, struct config_geometry *geometry) {
    struct config_reader reader = {
        .context = context, .checkpoint = checkpoint, .recipe = recipe, .sources = sources, .geometry = geometry};
    l3a_status status = L3A_OK;
    *sources = (struct recipe_sources){0};
    *geometry = (struct config_geometry){0};
    TRY(read_recorded(&reader));
    for (size_t i = 0; !sources->recorded && i < sizeof files / sizeof *files; i++) {
        TRY(read_file(&reader, i));
    }
    TRY(sources->recorded ? L3A_OK : read_metadata(&reader));
done:
    return status;
}

l3a_status config_check_geometry(l3a_context *context, const struct checkpoint *checkpoint,
                                 const struct config_geometry *geometry) {
    static const char hint[] = "do without the checkpoint's own preprocessing: pictures are then squashed to a square";
    const char *path = checkpoint_path(checkpoint);
    l3a_status status = L3A_OK;
    FAIL_IF(geometry->unsupported[0], context, L3A_ERROR_MISMATCH, hint, "%s: its pictures cannot be prepared as it wants: %s",
            path, geometry->unsupported);
    FAIL_IF(geometry->frame == FRAME_BORDER, context, L3A_ERROR_MISMATCH, hint,
            "%s: its pictures cannot be prepared as it wants: they would get a border", path);
    FAIL_IF(geometry->frame == FRAME_UNKNOWN || !geometry->has_filter, context, L3A_ERROR_MISMATCH,
            "download the configuration (preprocessor_config.json or timm's config.json) into the folder of the checkpoint",
            "%s: no configuration says %s", path,
            geometry->frame == FRAME_UNKNOWN ? "how its pictures are cut" : "with which filter its pictures are resized");
done:
    return status;
}

void config_take_crop(const struct config_geometry *geometry, struct backbone_recipe *recipe) {
    const bool squashed = geometry->frame == FRAME_SQUASH, whole = squashed && geometry->crop >= 1;
    recipe->crop = whole ? 0 : geometry->crop;
    recipe->crop_rules = whole ? 0 : (squashed ? L3A_CROP_SQUASHED : 0) | (geometry->down ? L3A_CROP_DOWN : 0);
}
