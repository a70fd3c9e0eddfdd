/* Two texts say how features were made, besides the pool:
 *
 *   preprocess   rgb 224x224 bilinear mean 0.5 std 0.5              the whole picture, squashed
 *                rgb 224x224 bicubic mean 0.5 std 0.5 crop 0.9      what is in the middle, without distortion; "crop 0.9 squashed"
 *                                                                   with it, and "crop 0.9 down" with another rounding (prepare.h)
 *   network      heads 16, quick_gelu, epsilon 1e-05, layer 11, bf16                 or float16
 *
 * Only what is not usual is in the second one, in this order: heads of 64 numbers, GELU, an epsilon of 1e-06 (1e-05 in ResNets and
 * TResNets), strides in the 3 x 3 convolutions, all blocks, and float32 are. A network of which all is usual has no such text, as
 * before version 0.14. */
#include "net/recipe.h"
#include "common/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_SIDE = 4096, LARGEST_HEADS = 1024, LARGEST_LAYER = 10000 };

static const char *const pools[] = {[L3A_POOL_DEFAULT] = "default",      [L3A_POOL_CLS] = "cls", [L3A_POOL_MEAN] = "mean",
                                    [L3A_POOL_CLS_MEAN] = "cls+mean",    [L3A_POOL_MAX] = "max", [L3A_POOL_MAP] = "map",
                                    [L3A_POOL_PROJECTION] = "projection"};
enum { POOLS = sizeof pools / sizeof *pools };

static const struct {
    const char *name;
    l3a_activation chosen;
    enum activation activation;
} activations[] = {{"gelu", L3A_ACTIVATION_GELU, GELU},
                   {"quick_gelu", L3A_ACTIVATION_QUICK_GELU, QUICK_GELU},
                   {"tanh_gelu", L3A_ACTIVATION_TANH_GELU, TANH_GELU}};
enum { ACTIVATIONS = sizeof activations / sizeof *activations };

static const char *const precisions[] = {
    [L3A_NETWORK_FLOAT32] = "float32", [L3A_NETWORK_BF16] = "bf16", [L3A_NETWORK_FLOAT16] = "float16"};
const char recorded_preprocess[] = "l3a.preprocess", recorded_pool[] = "l3a.pool", recorded_network[] = "l3a.network",
           recorded_classes[] = "l3a.classes";
static const char only_pool[] = "average"; /* of the families that have no choice */

enum { PRECISIONS = sizeof precisions / sizeof *precisions };

const char *precision_text(l3a_network_precision precision) {
    return precisions[precision];
}

const char *pool_text(l3a_pool pool) {
    return (size_t)pool < POOLS ? pools[pool] : NULL;
}

/* ---- From the options ---- */

static bool is_set(const float mean[3], const float deviation[3]) {
    bool set = false;
    for (size_t i = 0; i < 3; i++) {
        set = set || mean[i] != 0 || deviation[i] != 0;
    }
    return set;
}

static l3a_status check_options(l3a_context *context, const l3a_backbone_options *options) {
    l3a_status status = L3A_OK;
    FAIL_IF((unsigned)options->pool >= POOLS, context, L3A_ERROR_OPTION, NULL, "there is no pool %d", (int)options->pool);
    FAIL_IF((unsigned)options->filter > L3A_FILTER_BICUBIC, context, L3A_ERROR_OPTION, NULL, "there is no filter %d",
            (int)options->filter);
    FAIL_IF((unsigned)options->activation > ACTIVATIONS, context, L3A_ERROR_OPTION, NULL, "there is no activation %d",
            (int)options->activation);
    FAIL_IF((unsigned)options->precision > L3A_NETWORK_USUAL, context, L3A_ERROR_OPTION, NULL, "there is no precision %d",
            (int)options->precision);
    FAIL_IF(options->side > LARGEST_SIDE, context, L3A_ERROR_OPTION, NULL,
            "pictures of %zu x %zu are too large; the side can be at most %d", options->side, options->side, LARGEST_SIDE);
    FAIL_IF(options->heads > LARGEST_HEADS || options->layer > LARGEST_LAYER, context, L3A_ERROR_OPTION, NULL,
            "%zu heads or %zu blocks are more than any network has", options->heads, options->layer);
    FAIL_IF(!(options->crop >= 0 && options->crop <= 1) || !(options->epsilon >= 0 && options->epsilon <= 1), context,
            L3A_ERROR_OPTION, NULL, "crop and epsilon must be from 0 to 1");
    FAIL_IF(options->crop_rules & ~(L3A_CROP_SQUASHED | L3A_CROP_DOWN), context, L3A_ERROR_OPTION, NULL,
            "there are no crop rules %d", options->crop_rules);
    for (size_t i = 0; is_set(options->mean, options->deviation) && i < 3; i++) {
        FAIL_IF(!isfinite(options->mean[i]) || !isfinite(options->deviation[i]) || !(options->deviation[i] > 0), context,
                L3A_ERROR_OPTION, NULL, "the mean and the deviation must be finite, and the deviation must be positive");
    }
done:
    return status;
}

l3a_status recipe_start(l3a_context *context, const l3a_backbone_options *options, struct backbone_recipe *recipe) {
    l3a_status status = L3A_OK;
    TRY(check_options(context, options));
    *recipe = (struct backbone_recipe){.side = options->side,
                                       .pool = options->pool,
                                       .heads = options->heads,
                                       .layer = options->layer,
                                       .epsilon = options->epsilon,
                                       .stride_first = options->stride_first != 0,
                                       .offset = options->offset != 0,
                                       .precision = options->precision,
                                       .filter = options->filter,
                                       .crop = options->crop,
                                       .crop_rules = options->crop_rules};
    if (options->activation != L3A_ACTIVATION_DEFAULT) {
        recipe->activation = activations[options->activation - 1].activation;
    }
    memcpy(recipe->mean, options->mean, sizeof recipe->mean);
    memcpy(recipe->deviation, options->deviation, sizeof recipe->deviation);
done:
    return status;
}

/* ---- Texts ---- */

static size_t printed(int length, size_t capacity) {
    return length >= 0 && (size_t)length < capacity ? (size_t)length : capacity;
}

/* With as many digits as it takes to read back the same float, or the same double. */
static size_t print_number(char *text, size_t capacity, const char *name, double what, bool single) {
    char number[NUMBER_TEXT];
    bool same = false;
    for (int digits = 6; digits <= 17 && !same; digits++) {
        snprintf(number, sizeof number, "%.*g", digits, what);
        const double read = strtod(number, NULL);
        same = single ? (float)read == (float)what : read == what;
    }
    number_use_point(number);
    return printed(snprintf(text, capacity, "%s%s", name, number), capacity);
}

static size_t print_three(char *text, size_t capacity, const char *name, const float values[3]) {
    size_t length = print_number(text, capacity, name, (double)values[0], true);
    for (size_t i = 1; i < 3 && (values[0] != values[1] || values[1] != values[2]); i++) {
        length += print_number(text + length, capacity - length, ",", (double)values[i], true);
    }
    return length;
}

static const char squashed[] = " squashed", down[] = " down"; /* after a crop, in this order */

static void print_preprocess(const struct backbone_recipe *recipe, char *text, size_t capacity) {
    size_t length = printed(snprintf(text, capacity, "rgb %zux%zu %s", recipe->side, recipe->side,
                                     recipe->filter == L3A_FILTER_BICUBIC ? "bicubic" : "bilinear"),
                            capacity);
    length += print_three(text + length, capacity - length, " mean ", recipe->mean);
    length += print_three(text + length, capacity - length, " std ", recipe->deviation);
    if (recipe->crop > 0) {
        length += print_number(text + length, capacity - length, " crop ", recipe->crop, false);
        snprintf(text + length, capacity - length, "%s%s", recipe->crop_rules & L3A_CROP_SQUASHED ? squashed : "",
                 recipe->crop_rules & L3A_CROP_DOWN ? down : "");
    }
}

/* One item of the text about the network. */
__attribute__((format(printf, 4, 5))) static void add_item(char *text, size_t capacity, size_t *length, const char *format, ...) {
    va_list arguments;
    *length += printed(snprintf(text + *length, capacity - *length, "%s", *length ? ", " : ""), capacity - *length);
    va_start(arguments, format);
    *length += printed(vsnprintf(text + *length, capacity - *length, format, arguments), capacity - *length);
    va_end(arguments);
}

static void print_network(const struct family *family, const struct backbone_recipe *recipe, char *text, size_t capacity) {
    const double usual = family->usual_epsilon;
    size_t length = 0;
    text[0] = '\0';
    if (recipe->heads && recipe->heads != recipe->usual_heads) {
        add_item(text, capacity, &length, "heads %zu", recipe->heads);
    }
    for (size_t i = 1; i < ACTIVATIONS; i++) {
        if (recipe->activation == activations[i].activation) {
            add_item(text, capacity, &length, "%s", activations[i].name);
        }
    }
    if (recipe->epsilon > 0 && recipe->epsilon != usual) {
        char number[NUMBER_TEXT];
        print_number(number, sizeof number, "", recipe->epsilon, false);
        add_item(text, capacity, &length, "epsilon %s", number);
    }
    if (recipe->stride_first) {
        add_item(text, capacity, &length, "stride first");
    }
    if (recipe->offset) {
        add_item(text, capacity, &length, "offset");
    }
    if (recipe->layer) {
        add_item(text, capacity, &length, "layer %zu", recipe->layer);
    }
    if (recipe->precision != L3A_NETWORK_FLOAT32) {
        add_item(text, capacity, &length, "%s", precisions[recipe->precision]);
    }
}

void recipe_describe(const struct family *family, const struct backbone_recipe *recipe, l3a_backbone_info *info) {
    info->family = family->name;
    memcpy(info->name, recipe->name, sizeof info->name);
    info->size = recipe->side;
    memcpy(info->mean, recipe->mean, sizeof info->mean);
    memcpy(info->deviation, recipe->deviation, sizeof info->deviation);
    info->filter = recipe->filter;
    info->crop = recipe->crop;
    info->crop_rules = recipe->crop > 0 ? recipe->crop_rules : 0;
    info->heads = recipe->heads;
    info->layer = recipe->layer;
    info->epsilon = recipe->epsilon;
    info->precision = recipe->precision;
    for (size_t i = 0; i < ACTIVATIONS; i++) {
        info->activation = recipe->activation == activations[i].activation ? activations[i].name : info->activation;
    }
    info->pool = family->pools ? pools[recipe->pool == L3A_POOL_DEFAULT ? L3A_POOL_CLS : recipe->pool] : only_pool;
    print_preprocess(recipe, info->preprocess, sizeof info->preprocess);
    print_network(family, recipe, info->network, sizeof info->network);
}

/* ---- What must be known ---- */

static void list_pools(const struct family *family, char *text, size_t capacity) {
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = L3A_POOL_CLS; i < POOLS && length < capacity; i++) {
        if (family->pools & 1U << i) {
            length += (size_t)snprintf(text + length, capacity - length, "%s%s", length ? ", " : "", pools[i]);
        }
    }
}

/* What a network does not have would be recorded as if it did. */
static l3a_status check_parts(l3a_context *context, const struct family *family, const struct backbone_recipe *recipe) {
    static const char hint[] = "leave it out; it belongs to other networks";
    const char *activation = "";
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < ACTIVATIONS; i++) {
        activation = recipe->activation == activations[i].activation ? activations[i].name : activation;
    }
    FAIL_IF(recipe->heads && !family->pools, context, L3A_ERROR_OPTION, hint, "a %s has no attention heads, so it cannot have %zu",
            family->name, recipe->heads);
    FAIL_IF(recipe->layer && !family->pools, context, L3A_ERROR_OPTION, hint,
            "a %s can only be computed whole, not up to layer %zu; a vit can", family->name, recipe->layer);
    FAIL_IF(recipe->activation != LINEAR_ACTIVATION && !family->gelu, context, L3A_ERROR_OPTION, hint,
            "a %s has an activation of its own, so it cannot have %s", family->name, activation);
done:
    return status;
}

l3a_status recipe_check(l3a_context *context, const struct family *family, const struct backbone_recipe *recipe) {
    char possible[64], text[sizeof((l3a_backbone_info *)NULL)->preprocess + 1];
    l3a_status status = L3A_OK;
    TRY(check_parts(context, family, recipe));
    list_pools(family, possible, sizeof possible);
    FAIL_IF(recipe->pool != L3A_POOL_DEFAULT && !(family->pools & 1U << recipe->pool), context, L3A_ERROR_OPTION,
            possible[0] ? "choose one of the others" : "use the default pool", "a %s cannot give the pool %s: it has %s",
            family->name, pools[recipe->pool], possible[0] ? possible : "the mean over all pixels alone");
    FAIL_IF(!is_set(recipe->mean, recipe->deviation), context, L3A_ERROR_MISMATCH,
            "put the published config.json or preprocessor_config.json beside the checkpoint, or give mean and deviation (--mean, "
            "--std): 0.5 and 0.5 for timm's augreg networks, 0.485,0.456,0.406 and 0.229,0.224,0.225 for DeiT, DINO and MAE",
            "%s: the tensors do not show with which mean and deviation of pictures this network was trained, and features would be "
            "worse with others",
            recipe->name);
    FAIL_IF(recipe->side > LARGEST_SIDE, context, L3A_ERROR_MISMATCH, "give a smaller one (--size)",
            "this network takes pictures of %zu x %zu; the side can be at most %d", recipe->side, recipe->side, LARGEST_SIDE);
    print_preprocess(recipe, text, sizeof text);
    FAIL_IF(strlen(text) == sizeof text - 1, context, L3A_ERROR_OPTION, "round them to a few digits",
            "mean, deviation and crop have too many digits to be recorded");
done:
    return status;
}

/* ---- Texts read again ---- */

/* Reads " NAME A" or " NAME A,B,C" from the text, and moves past it. */
static bool parse_three(const char **text, const char *name, float values[3]) {
    const size_t length = strlen(name);
    if (strncmp(*text, name, length) != 0) {
        return false;
    }
    *text += length;
    for (size_t i = 0; i < 3; i++) {
        double number;
        const size_t digits = strcspn(*text, ", ");
        if (!number_parse(*text, digits, &number)) {
            return false;
        }
        *text += digits;
        values[i] = (float)number;
        if (i == 0 && **text != ',') {
            values[1] = values[2] = values[0];
            return true;
        }
        if (i < 2 && *(*text)++ != ',') {
            return false;
        }
    }
    return true;
}

/* Moves past a word, if it comes next. */
static bool parse_word(const char **text, const char *word) {
    const size_t length = strlen(word);
    const bool there = strncmp(*text, word, length) == 0 && (word[length - 1] == ' ' || !(*text)[length] || (*text)[length] == ' ');
    *text += there ? length : 0;
    return there;
}

static bool parse_crop(const char **text, l3a_backbone_options *options) {
    if (!parse_word(text, " crop ")) {
        return true;
    }
    const size_t digits = strcspn(*text, " ");
    const bool good = number_parse(*text, digits, &options->crop) && options->crop > 0 && options->crop <= 1;
    *text += digits;
    options->crop_rules = parse_word(text, squashed) ? L3A_CROP_SQUASHED : 0;
    options->crop_rules |= parse_word(text, down) ? L3A_CROP_DOWN : 0;
    return good;
}

static bool parse_item(const char *item, size_t length, l3a_backbone_options *options) {
    char text[48];
    if (length >= sizeof text) {
        return false;
    }
    memcpy(text, item, length);
    text[length] = '\0';
    for (size_t i = 0; i < ACTIVATIONS; i++) {
        if (strcmp(text, activations[i].name) == 0) {
            options->activation = activations[i].chosen;
            return true;
        }
    }
    if (strcmp(text, "stride first") == 0) {
        options->stride_first = 1;
        return true;
    }
    if (strcmp(text, "offset") == 0) {
        options->offset = 1;
        return true;
    }
    for (size_t i = L3A_NETWORK_FLOAT32 + 1; i < PRECISIONS; i++) {
        if (strcmp(text, precisions[i]) == 0) {
            options->precision = (l3a_network_precision)i;
            return true;
        }
    }
    if (strncmp(text, "epsilon ", 8) == 0) {
        return number_parse(text + 8, length - 8, &options->epsilon);
    }
    uint64_t number = 0;
    const bool heads = strncmp(text, "heads ", 6) == 0, layer = strncmp(text, "layer ", 6) == 0;
    if ((!heads && !layer) || !integer_parse(text + 6, length - 6, &number) || number > LARGEST_LAYER) {
        return false;
    }
    *(heads ? &options->heads : &options->layer) = (size_t)number;
    return true;
}

static bool parse_network(const char *text, l3a_backbone_options *options) {
    while (text && *text) {
        const char *comma = strstr(text, ", ");
        if (!parse_item(text, comma ? (size_t)(comma - text) : strlen(text), options)) {
            return false;
        }
        text = comma ? comma + 2 : NULL;
    }
    return true;
}

bool recipe_parse(const char *preprocess, const char *pool, const char *network, l3a_backbone_options *options, const char **rest) {
    l3a_backbone_options made = {.size = sizeof made};
    const char *text = preprocess;
    char filter[16];
    size_t height = 0;
    int length = 0;
    if (sscanf(text, "rgb %5zux%5zu %15[a-z]%n", &made.side, &height, filter, &length) != 3 || made.side != height) {
        return false;
    }
    text += length;
    made.filter = strcmp(filter, "bicubic") == 0 ? L3A_FILTER_BICUBIC : L3A_FILTER_BILINEAR;
    if (!parse_three(&text, " mean ", made.mean) || !parse_three(&text, " std ", made.deviation) || !parse_crop(&text, &made) ||
        !parse_network(network, &made)) {
        return false;
    }
    for (size_t i = L3A_POOL_CLS; pool && i < POOLS; i++) {
        made.pool = strcmp(pool, pools[i]) == 0 ? (l3a_pool)i : made.pool;
    }
    *options = made;
    *rest = text;
    return true;
}

void loader_options_for(const l3a_backbone_info *info, const l3a_picture_options *picture, size_t views,
                        l3a_loader_options *options) {
    *options = (l3a_loader_options){.size = sizeof *options};
    options->width = options->height = info->size;
    options->filter = info->filter;
    options->crop = info->crop;
    options->crop_rules = info->crop_rules;
    options->picture = picture;
    options->views = views ? views : 1;
    memcpy(options->mean, info->mean, sizeof options->mean);
    memcpy(options->deviation, info->deviation, sizeof options->deviation);
}

bool recipe_recall(l3a_context *context, const char *preprocess, const char *pool, const char *network,
                   struct backbone_recipe *recipe) {
    l3a_backbone_options options;
    const char *rest;
    return recipe_parse(preprocess, pool, network, &options, &rest) && !*rest && options.side &&
           is_set(options.mean, options.deviation) && (!pool || options.pool || strcmp(pool, only_pool) == 0) &&
           recipe_start(context, &options, recipe) == L3A_OK;
}

void recipe_fill(struct backbone_recipe *recipe, const struct backbone_recipe *from) {
    recipe_set_mean(recipe, from->mean, from->deviation);
    recipe->side = recipe->side ? recipe->side : from->side;
    recipe->pool = recipe->pool ? recipe->pool : from->pool;
    recipe->heads = recipe->heads ? recipe->heads : from->heads;
    recipe->layer = recipe->layer ? recipe->layer : from->layer;
    recipe->activation = recipe->activation ? recipe->activation : from->activation;
    recipe->epsilon = recipe->epsilon > 0 ? recipe->epsilon : from->epsilon;
    recipe->stride_first = recipe->stride_first || from->stride_first;
    recipe->offset = recipe->offset || from->offset;
    recipe->filter = recipe->filter ? recipe->filter : from->filter;
    if (recipe->crop == 0) {
        recipe->crop = from->crop;
        recipe->crop_rules = from->crop_rules;
    }
}

void recipe_set_mean(struct backbone_recipe *recipe, const float mean[3], const float deviation[3]) {
    bool known = false;
    for (size_t i = 0; i < 3; i++) {
        known = known || recipe->mean[i] != 0 || recipe->deviation[i] != 0;
    }
    if (!known) {
        memcpy(recipe->mean, mean, sizeof recipe->mean);
        memcpy(recipe->deviation, deviation, sizeof recipe->deviation);
    }
}

void recipe_set_imagenet(struct backbone_recipe *recipe) {
    recipe_set_mean(recipe, (const float[]){0.485F, 0.456F, 0.406F}, (const float[]){0.229F, 0.224F, 0.225F});
}
