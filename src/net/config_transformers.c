/* config.json and preprocessor_config.json as transformers writes them. */
#include "net/config_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- The network ---- */

/* transformers leaves out what equals the defaults of a kind of network (its configuration_*.py), so these are part of the format.
 * heads 0: none; activation NULL: no GELU; epsilon 0: the family's. ConvNeXT's layer_norm_eps is that of the last norm alone, and
 * all others have 1e-6, as in timm. */
struct kind {
    const char *name, *family;
    size_t width, heads, side;
    const char *activation;
    double epsilon;
};

static const struct kind kinds[] = {
    {"vit", "vit", 768, 12, 224, "gelu", 1e-12},
    {"deit", "vit", 768, 12, 224, "gelu", 1e-12},
    {"vit_mae", "vit", 768, 12, 224, "gelu", 1e-12},
    {"vit_msn", "vit", 768, 12, 224, "gelu", 1e-6},
    {"dinov2", "vit", 768, 12, 224, "gelu", 1e-6},
    {"dinov2_with_registers", "vit", 768, 12, 224, "gelu", 1e-6},
    {"clip", "vit", 768, 12, 224, "quick_gelu", 1e-5},
    {"clip_vision_model", "vit", 768, 12, 224, "quick_gelu", 1e-5},
    {"siglip", "vit", 768, 12, 224, "gelu_pytorch_tanh", 1e-6},
    {"siglip_vision_model", "vit", 768, 12, 224, "gelu_pytorch_tanh", 1e-6},
    {"convnext", "convnext", 0, 0, 224, "gelu", 0},
    {"resnet", "resnet", 0, 0, 224, NULL, 0},
};

static const struct kind *find_kind(const char *name) {
    for (size_t i = 0; name && i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

/* How a message names a key: what a file leaves out has the value that its kind of network has. */
static const char *name_of(const struct json_value *tower, const char *key, const char *by_default) {
    return config_get(tower, key) ? key : by_default;
}

static l3a_status read_heads(struct config_reader *reader, const struct json_value *tower, const struct kind *kind) {
    size_t width = kind ? kind->width : 0, heads = kind ? kind->heads : 0;
    l3a_status status = L3A_OK;
    config_wants(reader, CONFIG_OTHER);
    TRY(config_count(reader, tower, "hidden_size", CONFIG_LARGEST_WIDTH, &width));
    TRY(config_check_width(reader, name_of(tower, "hidden_size", "hidden_size (by default)"), width));
    if (config_wants(reader, CONFIG_HEADS)) {
        TRY(config_count(reader, tower, "num_attention_heads", CONFIG_MOST_HEADS, &heads));
        if (heads) {
            TRY(config_set_heads(reader, name_of(tower, "num_attention_heads", "num_attention_heads (by default)"), heads, width));
        }
    }
done:
    return status;
}

static l3a_status read_activation(struct config_reader *reader, const struct json_value *tower, const struct kind *kind) {
    const char *name = kind ? kind->activation : NULL;
    l3a_status status = L3A_OK;
    if (!config_wants(reader, CONFIG_ACTIVATION)) {
        return L3A_OK;
    }
    TRY(config_text(reader, tower, "hidden_act", &name));
    const bool rectified = kind && !kind->activation && (!name || strcmp(name, "relu") == 0); /* as the family has it */
    if (name && !rectified) {
        TRY(config_set_activation(reader, "hidden_act", name));
    }
done:
    return status;
}

static l3a_status read_epsilon(struct config_reader *reader, const struct json_value *tower, const struct kind *kind) {
    double epsilon = kind ? kind->epsilon : 0;
    l3a_status status = L3A_OK;
    if (!config_wants(reader, CONFIG_EPSILON) || (kind && kind->epsilon == 0)) {
        return L3A_OK;
    }
    TRY(config_number(reader, tower, "layer_norm_eps", &epsilon));
    if (kind || config_get(tower, "layer_norm_eps")) {
        TRY(config_set_epsilon(reader, "layer_norm_eps", epsilon));
    }
done:
    return status;
}

/* Of a network in stages, the width of the last one. */
static l3a_status check_stages(const struct config_reader *reader, const struct json_value *widths) {
    const struct json_value *last = NULL;
    for (const struct json_value *item = json_value_first(widths); item; item = json_value_next(item)) {
        last = item;
    }
    const double width = json_value_number(last);
    return width >= 1 && width <= CONFIG_LARGEST_WIDTH ? config_check_width(reader, "hidden_sizes", (size_t)width) : L3A_OK;
}

static l3a_status read_residual(struct config_reader *reader, const struct json_value *tower) {
    bool first = false, early = false;
    l3a_status status = L3A_OK;
    config_wants(reader, CONFIG_OTHER);
    TRY(check_stages(reader, config_get(tower, "hidden_sizes")));
    TRY(config_truth(reader, tower, "downsample_in_first_stage", &early));
    if (early) {
        return config_fail(reader, L3A_ERROR_MISMATCH, "downsample_in_first_stage", "is true; such a network cannot be computed");
    }
    if (config_wants(reader, CONFIG_STRIDE) && config_get(tower, "downsample_in_bottleneck")) {
        TRY(config_truth(reader, tower, "downsample_in_bottleneck", &first));
        config_set_stride(reader, first);
    }
done:
    return status;
}

l3a_status config_read_transformers(struct config_reader *reader, const struct json_value *root) {
    const struct json_value *tower = NULL;
    const char *name = NULL;
    l3a_status status = L3A_OK;
    config_wants(reader, CONFIG_OTHER);
    TRY(config_object(reader, root, "vision_config", &tower));
    TRY(config_text(reader, root, "model_type", &name));
    if (tower) {
        TRY(config_text(reader, tower, "model_type", &name));
    }
    tower = tower ? tower : root;
    const struct kind *kind = find_kind(name);
    config_set_family(reader, kind ? kind->family : NULL);
    size_t side = kind ? kind->side : 0;
    if (config_wants(reader, CONFIG_SIDE)) {
        TRY(config_square(reader, tower, "image_size", 2, &side));
        if (side) {
            config_set_side(reader, side);
        }
    }
    TRY(read_heads(reader, tower, kind));
    TRY(read_activation(reader, tower, kind));
    TRY(read_epsilon(reader, tower, kind));
    TRY(read_residual(reader, tower));
done:
    return status;
}

/* ---- The pictures ---- */

/* What resizing makes of a picture, in which `side` pixels in the centre remain. */
struct resizing {
    size_t resized, side;
    enum config_frame frame;
    double crop; /* 0: side / resized */
};

/* Before sizes had names, a number meant the shorter side for some processors and a square for others. */
static enum config_frame frame_of_number(const char *processor) {
    static const char *const shorter[] = {"CLIP", "ConvNext", "Bit", "ChineseCLIP", "PoolFormer", "LeViT", "MobileNet"};
    static const char *const square[] = {"ViT", "DeiT", "Beit", "Siglip"};
    for (size_t i = 0; processor && i < sizeof shorter / sizeof *shorter; i++) {
        if (strncmp(processor, shorter[i], strlen(shorter[i])) == 0) {
            return FRAME_CENTRE;
        }
    }
    for (size_t i = 0; processor && i < sizeof square / sizeof *square; i++) {
        if (strncmp(processor, square[i], strlen(square[i])) == 0) {
            return FRAME_SQUASH;
        }
    }
    return FRAME_UNKNOWN;
}

/* Reads {"height": N, "width": N}; *side stays 0 if neither is there. */
static l3a_status read_two(const struct config_reader *reader, const struct json_value *object, const char *key, size_t *side) {
    size_t height = 0, width = 0;
    l3a_status status = L3A_OK;
    TRY(config_count(reader, object, "height", CONFIG_LARGEST_SIDE, &height));
    TRY(config_count(reader, object, "width", CONFIG_LARGEST_SIDE, &width));
    if (height != width) {
        return config_fail(reader, L3A_ERROR_MISMATCH, key, "is %zu x %zu; only squares can be computed", height, width);
    }
    *side = width ? width : *side;
done:
    return status;
}

static l3a_status read_size(const struct config_reader *reader, const struct json_value *root, const char *processor,
                            struct resizing *resizing) {
    const struct json_value *size = config_get(root, "size");
    l3a_status status = L3A_OK;
    if (json_value_kind(size) != JSON_OBJECT) {
        resizing->frame = frame_of_number(processor);
        return config_square(reader, root, "size", 2, &resizing->resized);
    }
    TRY(config_count(reader, size, "shortest_edge", CONFIG_LARGEST_SIDE, &resizing->resized));
    resizing->frame = resizing->resized ? FRAME_CENTRE : FRAME_UNKNOWN;
    if (!resizing->resized) {
        TRY(read_two(reader, size, "size", &resizing->resized));
        resizing->frame = resizing->resized ? FRAME_SQUASH : FRAME_UNKNOWN;
    }
done:
    return status;
}

static l3a_status read_crop_size(const struct config_reader *reader, const struct json_value *root, size_t *side) {
    const struct json_value *size = config_get(root, "crop_size");
    return json_value_kind(size) == JSON_OBJECT ? read_two(reader, size, "crop_size", side)
                                                : config_square(reader, root, "crop_size", 2, side);
}

/* ConvNeXT's rule (also ResNet's): below 384, the shorter side becomes size / crop_pct; from there on, the picture is squashed. */
static l3a_status read_share(const struct config_reader *reader, const struct json_value *root, const char *processor,
                             struct resizing *resizing) {
    enum { NOT_CUT = 384 };
    l3a_status status = L3A_OK;
    if (!config_get(root, "crop_pct") && !(processor && strncmp(processor, "ConvNext", 8) == 0)) {
        return L3A_OK;
    }
    const bool cut = resizing->resized < NOT_CUT;
    resizing->crop = 224.0 / 256;
    TRY(config_number(reader, root, "crop_pct", &resizing->crop));
    resizing->side = resizing->resized;
    resizing->frame = cut ? FRAME_CENTRE : FRAME_SQUASH;
    resizing->crop = cut ? resizing->crop : 1;
done:
    return status;
}

/* The share with ⌊side / share⌋ = resized, in spite of rounding. */
static double share_of(size_t side, size_t resized) {
    double share = (double)side / (double)resized;
    while (floor((double)side / share) < (double)resized) {
        share = nextafter(share, 0);
    }
    return share;
}

static l3a_status set_geometry(struct config_reader *reader, const struct resizing *resizing, bool cropped, bool resize) {
    if (!config_wants(reader, CONFIG_FRAME) || !resizing->side) {
        return L3A_OK;
    }
    if (!resize || resizing->side > resizing->resized || (!cropped && resizing->frame == FRAME_CENTRE)) {
        config_cannot(reader, !resize ? "do_resize false" : cropped ? "a crop_size above size" : "no do_center_crop", NULL);
        reader->sources->frame = reader->source;
        return L3A_OK;
    }
    if (resizing->frame == FRAME_UNKNOWN) {
        return L3A_OK;
    }
    reader->geometry->down = true;
    return config_set_crop(reader, resizing->crop != 0 ? "crop_pct" : "crop_size", resizing->frame,
                           resizing->crop != 0 ? resizing->crop : share_of(resizing->side, resizing->resized));
}

static l3a_status read_geometry(struct config_reader *reader, const struct json_value *root, const char *processor) {
    struct resizing resizing = {0};
    bool resize = true, cropped = config_get(root, "crop_size") != NULL;
    l3a_status status = L3A_OK;
    if (!config_wants(reader, CONFIG_SIDE) && !config_wants(reader, CONFIG_FRAME)) {
        return L3A_OK;
    }
    TRY(config_truth(reader, root, "do_resize", &resize));
    TRY(config_truth(reader, root, "do_center_crop", &cropped));
    TRY(read_size(reader, root, processor, &resizing));
    resizing.side = resizing.resized;
    if (resizing.resized) {
        TRY(read_share(reader, root, processor, &resizing));
    }
    if (cropped && resizing.crop == 0) {
        TRY(read_crop_size(reader, root, &resizing.side));
    }
    if (resizing.side && config_wants(reader, CONFIG_SIDE)) {
        config_set_side(reader, resizing.side);
    }
    TRY(set_geometry(reader, &resizing, cropped || resizing.crop != 0, resize));
done:
    return status;
}

/* The number that Pillow has for a filter. */
static l3a_status read_filter(struct config_reader *reader, const struct json_value *root) {
    static const char *const names[] = {"nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"};
    double number = -1;
    l3a_status status = L3A_OK;
    if (!config_wants(reader, CONFIG_FILTER) || !config_get(root, "resample")) {
        return L3A_OK;
    }
    TRY(config_number(reader, root, "resample", &number));
    if (!(number >= 0 && number < (double)(sizeof names / sizeof *names)) || number != floor(number)) {
        return config_fail(reader, L3A_ERROR_DATA, "resample", "is %g; expected a whole number from 0 to 5", number);
    }
    config_set_filter(reader, names[(size_t)number]);
done:
    return status;
}

/* A pipeline multiplies bytes by rescale_factor, usually 1/255, and then subtracts the mean. */
static l3a_status read_mean(struct config_reader *reader, const struct json_value *root) {
    static const double none[3] = {0, 0, 0}, one[3] = {1, 1, 1};
    bool normalise = true, rescale = true;
    double factor = 1.0 / 255;
    l3a_status status = L3A_OK;
    if (!config_wants(reader, CONFIG_MEAN)) {
        return L3A_OK;
    }
    TRY(config_truth(reader, root, "do_normalize", &normalise));
    TRY(config_truth(reader, root, "do_rescale", &rescale));
    TRY(config_number(reader, root, "rescale_factor", &factor));
    if (!(factor > 0 && factor <= 1)) {
        return config_fail(reader, L3A_ERROR_DATA, "rescale_factor", "is %g; expected a number up to 1, such as 1/255", factor);
    }
    double scale = rescale ? 255 * factor : 255;
    scale = fabs(scale - 1) < 1e-6 ? 1 : scale;
    if (!normalise) {
        TRY(config_set_mean(reader, "do_normalize", none, one, scale));
    } else {
        TRY(config_mean(reader, root, "image_mean", "image_std", scale));
    }
done:
    return status;
}

l3a_status config_read_preprocessor(struct config_reader *reader, const struct json_value *root) {
    const char *processor = NULL;
    l3a_status status = L3A_OK;
    config_wants(reader, CONFIG_OTHER);
    TRY(config_text(reader, root, "feature_extractor_type", &processor));
    TRY(config_text(reader, root, "image_processor_type", &processor));
    TRY(read_mean(reader, root));
    TRY(read_geometry(reader, root, processor));
    TRY(read_filter(reader, root));
done:
    return status;
}
