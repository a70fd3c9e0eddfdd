/* Configurations beside a checkpoint. The input is a folder (fuzz.h) with any of the files that publishers write, and with two that
 * nobody has: "network" begins with the letter of the tiny checkpoint beside which they lie (v: ViT, c: CLIP, s: SigLIP, r:
 * ResNet), and each line KEY=VALUE of "metadata" is in the header of that checkpoint. Whatever they say, it is an error that can be
 * shown, or a recipe whose values are in range and have a source; what an option has given stays; and the network can be described.
 */
#include "fuzz.h"

#include "common/utf8.h"
#include "net/backbone.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 64, HIDDEN = 32, HEADER = 8192, MOST_METADATA = 2048, LARGEST_SIDE = 4096, MOST_HEADS = 1024 };

/* A safetensors file under construction, of zeros. */
struct file {
    char header[HEADER];
    size_t length, elements;
};

static void add(struct file *file, const char *name, size_t a, size_t b, size_t c, size_t d) {
    const size_t shape[] = {a, b, c, d};
    size_t rank = 0, elements = 1;
    char text[64] = "", *to = text;
    while (rank < 4 && shape[rank]) {
        to += sprintf(to, "%s%zu", rank ? "," : "", shape[rank]);
        elements *= shape[rank++];
    }
    file->length += (size_t)snprintf(file->header + file->length, HEADER - file->length,
                                     ",\"%s\":{\"dtype\":\"F16\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", name, text,
                                     2 * file->elements, 2 * (file->elements + elements));
    must(file->length < HEADER - 1);
    file->elements += elements;
}

static void add_pair(struct file *file, const char *name, size_t out, size_t in) {
    char leaf[64];
    snprintf(leaf, sizeof leaf, "%s.weight", name);
    add(file, leaf, out, in, 0, 0);
    snprintf(leaf, sizeof leaf, "%s.bias", name);
    add(file, leaf, out, 0, 0, 0);
}

static void add_transformer(struct file *file, char network) {
    static const struct {
        const char *name;
        size_t out, in;
    } pairs[] = {{"blocks.0.norm1", WIDTH, 0},
                 {"blocks.0.attn.qkv", 3 * WIDTH, WIDTH},
                 {"blocks.0.attn.proj", WIDTH, WIDTH},
                 {"blocks.0.norm2", WIDTH, 0},
                 {"blocks.0.mlp.fc1", HIDDEN, WIDTH},
                 {"blocks.0.mlp.fc2", WIDTH, HIDDEN},
                 {"norm", WIDTH, 0},
                 {"norm_pre", WIDTH, 0}, /* CLIP */
                 {"attn_pool.q", WIDTH, WIDTH},
                 {"attn_pool.kv", 2 * WIDTH, WIDTH},
                 {"attn_pool.proj", WIDTH, WIDTH},
                 {"attn_pool.norm", WIDTH, 0},
                 {"attn_pool.mlp.fc1", HIDDEN, WIDTH},
                 {"attn_pool.mlp.fc2", WIDTH, HIDDEN}};
    enum { BLOCK = 7, PRE = 8, ALL = 14 };
    add(file, "patch_embed.proj.weight", WIDTH, 3, 2, 2);
    if (network != 's') {
        add(file, "cls_token", 1, 1, WIDTH, 0);
    } else {
        add(file, "attn_pool.latent", 1, 1, WIDTH, 0);
    }
    add(file, "pos_embed", 1, network == 's' ? 4 : 5, WIDTH, 0);
    for (size_t i = 0; i < ALL; i++) {
        if (i < BLOCK || (network == 'c' && i < PRE) || (network == 's' && i >= PRE)) {
            add_pair(file, pairs[i].name, pairs[i].out, pairs[i].in);
        }
    }
}

static void add_convolution(struct file *file, const char *prefix, const char *name, const char *norm, size_t out, size_t in,
                            size_t kernel) {
    static const char *const leaves[] = {"weight", "bias", "running_mean", "running_var"};
    char text[64];
    snprintf(text, sizeof text, "%s%s.weight", prefix, name);
    add(file, text, out, in, kernel, kernel);
    for (size_t i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "%s%s.%s", prefix, norm, leaves[i]);
        add(file, text, out, 0, 0, 0);
    }
}

/* Bottlenecks, one in each stage. */
static void add_residual(struct file *file) {
    add_convolution(file, "", "conv1", "bn1", 2, 3, 7);
    for (size_t stage = 0, in = 2; stage < 4; stage++) {
        const size_t inner = 2UL << stage, out = 4 * inner;
        char prefix[16];
        snprintf(prefix, sizeof prefix, "layer%zu.0.", stage + 1);
        add_convolution(file, prefix, "conv1", "bn1", inner, in, 1);
        add_convolution(file, prefix, "conv2", "bn2", inner, inner, 3);
        add_convolution(file, prefix, "conv3", "bn3", out, inner, 1);
        add_convolution(file, prefix, "downsample.0", "downsample.1", out, in, 1);
        in = out;
    }
}

/* Text inside of quotes; what would need an escape becomes '?'. */
static void add_text(struct file *file, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)text[i];
        file->header[file->length++] = c < ' ' || c == '"' || c == '\\' ? '?' : text[i];
    }
}

static void add_metadata(struct file *file, const char *text, size_t length) {
    const char *const end = text ? text + (length < MOST_METADATA ? length : MOST_METADATA) : NULL;
    file->length = (size_t)sprintf(file->header, "{\"__metadata__\":{\"by\":\"nobody\"");
    for (const char *line = text, *next; text && line < end; line = next + 1) {
        const char *stop = memchr(line, '\n', (size_t)(end - line)), *equals;
        next = stop ? stop : end;
        equals = memchr(line, '=', (size_t)(next - line));
        if (equals && file->length + (size_t)(next - line) + 8 < HEADER / 2) {
            file->length += (size_t)sprintf(file->header + file->length, ",\"");
            add_text(file, line, (size_t)(equals - line));
            file->length += (size_t)sprintf(file->header + file->length, "\":\"");
            add_text(file, equals + 1, (size_t)(next - equals - 1));
            file->header[file->length++] = '"';
        }
    }
    file->header[file->length++] = '}';
}

/* A file of the folder, which ends where the next one begins; NULL if there is none. */
static const char *find(const uint8_t *bytes, size_t count, const char *name, size_t *length) {
    char line[32];
    const size_t size = (size_t)snprintf(line, sizeof line, "@@%s\n", name);
    const char *text = count ? memmem(bytes, count, line, size) : NULL;
    const char *const end = (const char *)bytes + count,
                      *next = text ? memmem(text + size, (size_t)(end - text) - size, "@@", 2) : NULL;
    *length = text ? (size_t)((next ? next : end) - text) - size : 0;
    return text ? text + size : NULL;
}

/* The caller frees it. */
static uint8_t *make_checkpoint(const uint8_t *bytes, size_t count, size_t *size) {
    static struct file file;
    size_t length = 0, letters = 0;
    const char *network = find(bytes, count, "network", &letters), *metadata = find(bytes, count, "metadata", &length);
    file = (struct file){.length = 0};
    add_metadata(&file, metadata, length);
    if (letters && *network == 'r') {
        add_residual(&file);
    } else {
        add_transformer(&file, letters ? *network : 'v');
    }
    file.header[file.length++] = '}';
    *size = 8 + file.length + 2 * file.elements;
    uint8_t *made = calloc(*size, 1);
    must(made != NULL);
    const uint64_t header = file.length;
    memcpy(made, &header, sizeof header);
    memcpy(made + sizeof header, file.header, file.length);
    return made;
}

/* ---- Promises ---- */

/* An error says what and where, what to do, and nothing that a terminal obeys. */
static void check_error(const l3a_context *context) {
    const char *text = l3a_error_text(context), *hint = l3a_error_hint(context);
    must(text[0] && hint[0] && is_utf8(text) && !utf8_find_hidden(text) && is_utf8(hint) && !utf8_find_hidden(hint));
}

static void check_source(const char *source, bool known) {
    static const char *const sources[] = {"preprocessor_config.json", "config.json", "open_clip_config.json", "metadata"};
    bool found = !source;
    for (size_t i = 0; source && i < sizeof sources / sizeof *sources; i++) {
        found = found || strcmp(sources[i], source) == 0;
    }
    must(found && known == (source != NULL));
}

static void check_recipe(const struct backbone_recipe *recipe, const struct recipe_sources *sources,
                         const struct config_geometry *geometry) {
    bool mean = false;
    for (size_t i = 0; i < 3; i++) {
        mean = mean || recipe->mean[i] != 0 || recipe->deviation[i] != 0;
    }
    for (size_t i = 0; mean && i < 3; i++) {
        must(isfinite(recipe->mean[i]) && isfinite(recipe->deviation[i]) && recipe->deviation[i] > 0);
    }
    must(recipe->side <= LARGEST_SIDE && recipe->heads <= MOST_HEADS);
    must(recipe->activation == LINEAR_ACTIVATION || (recipe->activation >= GELU && recipe->activation <= TANH_GELU));
    must(recipe->epsilon >= 0 && recipe->epsilon <= (sources->recorded ? 1 : 0.1));
    must(recipe->crop >= 0 && recipe->crop <= 1);
    must(geometry->crop == 0 || (geometry->crop >= 0.01 && geometry->crop <= 1));
    must(is_utf8(geometry->unsupported) && !utf8_find_hidden(geometry->unsupported));
    check_source(sources->side, recipe->side > 0);
    check_source(sources->mean, mean);
    check_source(sources->heads, recipe->heads > 0);
    check_source(sources->activation, recipe->activation != LINEAR_ACTIVATION);
    check_source(sources->epsilon, recipe->epsilon > 0);
    check_source(sources->stride, sources->stride != NULL);
    check_source(sources->frame, sources->frame != NULL);
    check_source(sources->filter, sources->filter != NULL);
    must(geometry->frame == FRAME_UNKNOWN || sources->frame);
    must(!geometry->has_filter || sources->filter);
    must(!geometry->unsupported[0] || sources->frame || sources->filter);
}

static const struct backbone_recipe options = {.side = 4,
                                               .heads = 2,
                                               .activation = QUICK_GELU,
                                               .epsilon = 1e-3,
                                               .mean = {0.25F, 0.25F, 0.25F},
                                               .deviation = {0.75F, 0.75F, 0.75F}};

/* What options have given is not looked at: it stays, and a configuration that is right without them is right with them. */
static l3a_status apply(l3a_context *context, const struct checkpoint *checkpoint) {
    struct backbone_recipe recipe = {.side = 0}, given = options;
    struct recipe_sources sources;
    struct config_geometry geometry;
    const l3a_status status = config_apply(context, checkpoint, &recipe, &sources, &geometry);
    if (status == L3A_OK) {
        check_recipe(&recipe, &sources, &geometry);
        if (config_check_geometry(context, checkpoint, &geometry) != L3A_OK) {
            check_error(context);
        }
    } else {
        check_error(context);
    }
    const l3a_status again = config_apply(context, checkpoint, &given, &sources, &geometry);
    must(status != L3A_OK || again == L3A_OK);
    given.stride_first = false;
    if (sources.recorded) { /* says more than these options do */
        given.pool = L3A_POOL_DEFAULT;
        given.layer = 0;
        given.offset = false;
        given.filter = L3A_FILTER_BILINEAR;
        given.crop = 0;
        given.crop_rules = 0;
    }
    must(memcmp(&given, &options, sizeof given) == 0);
    must(!sources.side && !sources.mean && !sources.heads && !sources.activation && !sources.epsilon);
    return status;
}

static void describe(l3a_context *context, struct checkpoint *checkpoint, l3a_status expected) {
    for (int published = 0; published < 2; published++) {
        const l3a_backbone_options with = {.size = sizeof with, .published = published};
        struct parameter_source source;
        struct reading reading;
        parameter_source_checkpoint(checkpoint, &source);
        const l3a_status status = backbone_read(context, &source, &with, &reading);
        if (status == L3A_OK) {
            must(expected == L3A_OK && reading.recipe.side && reading.decided[0]);
        } else {
            must(expected == L3A_OK || status == expected);
            must(l3a_error_text(context)[0] && l3a_error_hint(context)[0]);
        }
        network_free(&reading.network);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    size_t size;
    l3a_context *context = context_over_folder(bytes, count);
    uint8_t *file = make_checkpoint(bytes, count, &size);
    struct checkpoint *checkpoint = NULL;
    add_file("model.safetensors", file, size);
    if (checkpoint_open(context, "in/model.safetensors", &checkpoint) == L3A_OK) {
        describe(context, checkpoint, apply(context, checkpoint));
    }
    checkpoint_free(checkpoint);
    l3a_context_free(context);
    free(file);
    return 0;
}
