/* config.json as timm writes it, and open_clip_config.json, which may name a network of timm's. */
#include "net/config_read.h"

#include <string.h>

/* ---- Networks by name ---- */

/* Vision transformers of timm 1.0 (timm/models/vision_transformer.py, deit.py) by a part of the name and the width; the first that
 * matches counts. A name tells the width, and most have heads of 64 numbers, but there are exceptions in both directions. */
static const struct {
    const char *part;
    size_t width, heads;
} known_heads[] = {
    {"vit_base_patch16_gap_224", 768, 16}, /* of I-JEPA; the other base ones have 12 */
    {"tiny", 192, 3},
    {"small", 384, 6},
    {"medium", 512, 8},
    {"betwixt", 640, 10},
    {"base", 768, 12},
    {"so150m2", 832, 13},
    {"so150m", 896, 14},
    {"_plus_", 896, 14},
    {"large", 1024, 16},
    {"intern300m", 1024, 16},
    {"so400m", 1152, 16},
    {"huge", 1280, 16},
    {"giant_", 1408, 16},
    {"giant_", 1536, 24}, /* the second: DINOv2's */
    {"giantopt", 1536, 16},
    {"gigantic", 1664, 16},
};

/* The same networks, those that were trained with a GELU that is not the exact one. */
static const char *const tanh_parts[] = {"patch32_siglip", "large_patch16_siglip_512", "large_patch16_siglip_gap_512",
                                         "so400m_patch16_siglip", "giantopt"};

/* Networks whose tensors are those of another one, which they would be taken for. */
static const struct {
    const char *part, *what;
} refused[] = {{"resnetaa", "has pools before its strides"},
               {"resnetblur", "has blurs before its strides"},
               {"_rope_", "has rotary positions"},
               {"_rpn_", "has its norms behind its layers"},
               {"vit_pe_", "has rotary positions"}};

/* How the names of a family begin. */
static const struct {
    const char *start, *family;
} families[] = {{"vit_", "vit"},      {"deit_", "vit"},          {"deit3_", "vit"},
                {"flexivit_", "vit"}, {"convnext_", "convnext"}, {"tresnet_", "tresnet"},
                {"resnet", "resnet"}, {"resnext", "resnet"},     {"wide_resnet", "resnet"}};

static const char *family_of(const char *name) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strncmp(name, families[i].start, strlen(families[i].start)) == 0) {
            return families[i].family;
        }
    }
    return NULL;
}

static l3a_status take_known_heads(struct config_reader *reader, const char *key, const char *name) {
    for (size_t i = 0; i < sizeof known_heads / sizeof *known_heads; i++) {
        if (strstr(name, known_heads[i].part) && config_has_width(reader, known_heads[i].width)) {
            return config_set_heads(reader, key, known_heads[i].heads, known_heads[i].width);
        }
    }
    return L3A_OK;
}

/* OpenAI's weights and some others were trained with QuickGELU, also where timm gives them the name of a network with GELU. */
static bool was_trained_quick(const struct json_value *pictures) {
    static const char *const tags[] = {"openai", "dfn2b", "dfn5b", "metaclip_400m", "metaclip_2pt5b"};
    const struct json_value *tag = config_get(pictures, "tag"), *notes = config_get(pictures, "notes");
    bool quick = false;
    for (size_t i = 0; json_value_kind(tag) == JSON_STRING && i < sizeof tags / sizeof *tags; i++) {
        quick = quick || strcmp(json_value_text(tag, NULL), tags[i]) == 0;
    }
    for (const struct json_value *note = json_value_first(notes); note; note = json_value_next(note)) {
        quick = quick || (json_value_kind(note) == JSON_STRING && strstr(json_value_text(note, NULL), "natively QuickGELU"));
    }
    return quick;
}

/* DINOv2's giant has SwiGLU, and no GELU at all. */
static l3a_status take_known_activation(struct config_reader *reader, const char *key, const char *name,
                                        const struct json_value *pictures) {
    const bool quick = strstr(name, "quickgelu") || (strstr(name, "_clip_") && was_trained_quick(pictures));
    const char *found = quick ? "quick_gelu" : "gelu";
    for (size_t i = 0; i < sizeof tanh_parts / sizeof *tanh_parts; i++) {
        found = strstr(name, tanh_parts[i]) ? "gelu_tanh" : found;
    }
    return strstr(name, "giant_") && strstr(name, "dinov2") ? L3A_OK : config_set_activation(reader, key, found);
}

/* What timm's name of a network tells of it. pictures: what is said of its weights and pictures, or NULL. */
static l3a_status take_architecture(struct config_reader *reader, const char *key, const char *name,
                                    const struct json_value *pictures) {
    const char *family = name ? family_of(name) : NULL;
    l3a_status status = L3A_OK;
    config_wants(reader, CONFIG_OTHER);
    for (size_t i = 0; name && i < sizeof refused / sizeof *refused; i++) {
        if (strstr(name, refused[i].part)) {
            return config_fail(reader, L3A_ERROR_MISMATCH, key, "is of a network that %s; it cannot be computed", refused[i].what);
        }
    }
    config_set_family(reader, family);
    if (!family || strcmp(family, "vit") != 0) {
        return L3A_OK;
    }
    if (config_wants(reader, CONFIG_HEADS)) {
        TRY(take_known_heads(reader, key, name));
    }
    if (config_wants(reader, CONFIG_ACTIVATION)) {
        TRY(take_known_activation(reader, key, name, pictures));
    }
    if (config_wants(reader, CONFIG_EPSILON)) {
        TRY(config_set_epsilon(reader, key, strstr(name, "_clip_") ? 1e-5 : 1e-6));
    }
done:
    return status;
}

/* ---- timm ---- */

static l3a_status read_side(struct config_reader *reader, const struct json_value *pictures, const struct json_value *arguments) {
    size_t taken = 0, built = 0;
    l3a_status status = L3A_OK;
    if (!config_wants(reader, CONFIG_SIDE)) {
        return L3A_OK;
    }
    TRY(config_square(reader, pictures, "input_size", 3, &taken));
    TRY(config_square(reader, arguments, "img_size", 2, &built));
    if (taken && built && taken != built) {
        return config_fail(reader, L3A_ERROR_MISMATCH, "input_size", "is %zu, but img_size is %zu", taken, built);
    }
    if (taken || built) {
        config_set_side(reader, taken ? taken : built);
    }
done:
    return status;
}

/* What is not said has timm's defaults: the middle 0.875 of the picture, bicubic. */
static l3a_status read_geometry(struct config_reader *reader, const struct json_value *pictures) {
    const char *filter = "bicubic", *mode = "center";
    double crop = 0.875;
    l3a_status status = L3A_OK;
    if (config_wants(reader, CONFIG_FRAME)) {
        TRY(config_number(reader, pictures, "crop_pct", &crop));
        TRY(config_text(reader, pictures, "crop_mode", &mode));
        const enum config_frame frame = strcmp(mode, "squash") == 0   ? FRAME_SQUASH
                                        : strcmp(mode, "border") == 0 ? FRAME_BORDER
                                                                      : FRAME_CENTRE;
        TRY(config_set_crop(reader, "crop_pct", frame, crop));
        if (frame == FRAME_CENTRE && strcmp(mode, "center") != 0) {
            config_cannot(reader, "crop_mode", mode);
        }
    }
    if (config_wants(reader, CONFIG_FILTER)) {
        TRY(config_text(reader, pictures, "interpolation", &filter));
        config_set_filter(reader, filter);
    }
done:
    return status;
}

static l3a_status read_arguments(struct config_reader *reader, const struct json_value *arguments, size_t width) {
    const char *activation = NULL;
    size_t heads = 0;
    double epsilon = 0;
    l3a_status status = L3A_OK;
    if (config_wants(reader, CONFIG_HEADS)) {
        TRY(config_count(reader, arguments, "num_heads", CONFIG_MOST_HEADS, &heads));
        if (heads) {
            TRY(config_set_heads(reader, "num_heads", heads, width));
        }
    }
    if (config_wants(reader, CONFIG_ACTIVATION)) {
        TRY(config_text(reader, arguments, "act_layer", &activation));
        if (activation) {
            TRY(config_set_activation(reader, "act_layer", activation));
        }
    }
    if (config_wants(reader, CONFIG_EPSILON) && config_get(arguments, "norm_eps")) {
        TRY(config_number(reader, arguments, "norm_eps", &epsilon));
        TRY(config_set_epsilon(reader, "norm_eps", epsilon));
    }
done:
    return status;
}

l3a_status config_read_timm(struct config_reader *reader, const struct json_value *root) {
    const struct json_value *pictures = NULL, *arguments = NULL;
    const char *name = NULL;
    size_t width = 0;
    l3a_status status = L3A_OK;
    config_wants(reader, CONFIG_OTHER);
    TRY(config_object(reader, root, "pretrained_cfg", &pictures));
    TRY(config_object(reader, root, "model_args", &arguments));
    TRY(config_text(reader, root, "architecture", &name));
    TRY(config_count(reader, root, "num_features", CONFIG_LARGEST_WIDTH, &width));
    TRY(config_check_width(reader, "num_features", width));
    pictures = pictures ? pictures : root; /* as before timm 0.9 */
    TRY(read_side(reader, pictures, arguments));
    TRY(config_mean(reader, pictures, "mean", "std", 1));
    TRY(read_geometry(reader, pictures));
    TRY(read_arguments(reader, arguments, width));
    TRY(take_architecture(reader, "architecture", name, pictures));
done:
    return status;
}

/* ---- open_clip ---- */

/* Towers whose tensors do not show that they end in another way: CLIPA's, and those of CoCa. */
static l3a_status refuse_endings(struct config_reader *reader, const struct json_value *tower) {
    static const char *const keys[] = {"attentional_pool", "final_ln_after_pool", "no_ln_pre"};
    const char *pool = "tok";
    l3a_status status = L3A_OK;
    config_wants(reader, CONFIG_OTHER);
    TRY(config_text(reader, tower, "pool_type", &pool));
    if (strcmp(pool, "tok") != 0) {
        char shown[CONFIG_SHOWN];
        return config_fail(reader, L3A_ERROR_MISMATCH, "pool_type", "is %s; only 'tok' can be computed", config_show(pool, shown));
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct json_value *given = config_get(tower, keys[i]);
        if (given && !(json_value_kind(given) == JSON_BOOLEAN && json_value_number(given) == 0)) {
            return config_fail(reader, L3A_ERROR_MISMATCH, keys[i], "is there; such a network cannot be computed");
        }
    }
done:
    return status;
}

/* A tower of open_clip's own (open_clip/transformer.py): heads of 64 numbers and an epsilon of 1e-5, unless they are given. */
static l3a_status read_own_tower(struct config_reader *reader, const struct json_value *tower, bool quick) {
    const struct json_value *norm = NULL, *activation = NULL;
    const char *approximate = NULL;
    size_t width = 0, head_width = 64;
    double epsilon = 1e-5;
    l3a_status status = L3A_OK;
    TRY(refuse_endings(reader, tower));
    TRY(config_count(reader, tower, "width", CONFIG_LARGEST_WIDTH, &width));
    TRY(config_check_width(reader, "width", width));
    config_set_family(reader, "vit");
    if (width && config_wants(reader, CONFIG_HEADS)) {
        TRY(config_count(reader, tower, "head_width", CONFIG_LARGEST_WIDTH, &head_width));
        if (width % head_width) {
            return config_fail(reader, L3A_ERROR_MISMATCH, "head_width", "is %zu, which does not divide width, %zu", head_width,
                               width);
        }
        TRY(config_set_heads(reader, "head_width", width / head_width, width));
    }
    if (config_wants(reader, CONFIG_ACTIVATION)) {
        TRY(config_object(reader, tower, "act_kwargs", &activation));
        TRY(config_text(reader, activation, "approximate", &approximate));
        TRY(config_set_activation(reader, "quick_gelu",
                                  quick                                             ? "quick_gelu"
                                  : approximate && strcmp(approximate, "tanh") == 0 ? "gelu_tanh"
                                                                                    : "gelu"));
    }
    if (config_wants(reader, CONFIG_EPSILON)) {
        TRY(config_object(reader, tower, "norm_kwargs", &norm));
        TRY(config_number(reader, norm, "eps", &epsilon));
        TRY(config_set_epsilon(reader, "eps", epsilon));
    }
done:
    return status;
}

static l3a_status read_preparation(struct config_reader *reader, const struct json_value *pictures) {
    const char *filter = "bicubic", *mode = "shortest";
    l3a_status status = L3A_OK;
    TRY(config_mean(reader, pictures, "mean", "std", 1));
    if (config_wants(reader, CONFIG_FRAME)) {
        TRY(config_text(reader, pictures, "resize_mode", &mode));
        const enum config_frame frame = strcmp(mode, "squash") == 0    ? FRAME_SQUASH
                                        : strcmp(mode, "longest") == 0 ? FRAME_BORDER
                                                                       : FRAME_CENTRE;
        TRY(config_set_crop(reader, "resize_mode", frame, 1));
        if (frame == FRAME_CENTRE && strcmp(mode, "shortest") != 0) {
            config_cannot(reader, "resize_mode", mode);
        }
    }
    if (config_wants(reader, CONFIG_FILTER)) {
        TRY(config_text(reader, pictures, "interpolation", &filter));
        config_set_filter(reader, filter);
    }
done:
    return status;
}

l3a_status config_read_open_clip(struct config_reader *reader, const struct json_value *root) {
    const struct json_value *model = NULL, *tower = NULL, *pictures = NULL;
    const char *name = NULL;
    bool quick = false;
    size_t side = 0;
    l3a_status status = L3A_OK;
    config_wants(reader, CONFIG_OTHER);
    TRY(config_object(reader, root, "model_cfg", &model));
    TRY(config_object(reader, root, "preprocess_cfg", &pictures));
    TRY(config_object(reader, model, "vision_cfg", &tower));
    TRY(config_truth(reader, model, "quick_gelu", &quick));
    TRY(config_text(reader, tower, "timm_model_name", &name));
    if (config_wants(reader, CONFIG_SIDE)) {
        TRY(config_square(reader, tower, "image_size", 2, &side));
        if (side) {
            config_set_side(reader, side);
        }
    }
    if (pictures) {
        TRY(read_preparation(reader, pictures));
    }
    if (name) {
        TRY(take_architecture(reader, "timm_model_name", name, NULL));
    } else if (json_value_kind(config_get(tower, "layers")) == JSON_NUMBER) { /* a ResNet has a list */
        TRY(read_own_tower(reader, tower, quick));
    }
done:
    return status;
}
