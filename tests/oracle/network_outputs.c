/* What every back end makes of a checkpoint's network, for test_families.py and test_networks.py to compare with PyTorch's.
 *
 *   network_outputs CHECKPOINT PICTURES [setting=value …] >outputs
 *   network_outputs positions CHANNELS OLD NEW antialiased|offset <positions >resized
 *   network_outputs pixels CHECKPOINT HEIGHT WIDTH <picture >pixels
 *
 * The checkpoint is read as the library does it: with any names, and with what stands beside it. PICTURES are float32 numbers, as
 * the network takes them. The settings are those of l3a_backbone_options, by name, and
 *
 *   mean=own          mean and deviation must be known; otherwise they do not matter
 *   recorded=1        a model was learned with the network
 *   outputs=features  without the second part of what comes out
 *   back_end=best     the fastest alone
 *   write=PATH        nothing comes out, but the network is written to PATH (write.h)
 *   halve=1           there, training has halved all numbers
 *   classes=N         there, a classifier was trained, whose numbers are their numbers
 *
 * What comes out are, for each back end, the features of the network as it runs, and then all outputs of the network, each as a
 * line with the back end, the output and its shape (pictures, channels, height, width) and float32 numbers. The first line says
 * what the recipe has become, and what was skipped. Positions are float32 numbers [side][side][channels].
 *
 * A picture is bytes [height][width][RGB]; its pixels are those that the network sees with `--preprocess checkpoint`, and come
 * after a line with the text that feature files record. */
#include "base/memory.h"
#include "image/prepare.h"
#include "net/back_end.h"
#include "net/backbone.h"
#include "net/fuse.h"
#include "net/positions.h"
#include "net/recipe.h"
#include "net/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct asked {
    l3a_backbone_options options;
    bool recorded, features_alone, one_back_end;
    const char *write;
    bool halve;
    size_t classes;
};

static size_t find(const char *text, const char *const names[], size_t count) {
    size_t i = 0;
    while (i < count && strcmp(text, names[i]) != 0) {
        i++;
    }
    return i;
}

static l3a_status set(l3a_context *context, struct asked *asked, const char *name, const char *text) {
    static const char *const activations[] = {"default", "gelu", "quick_gelu", "tanh_gelu"};
    static const char *const pools[] = {"default", "cls", "mean", "cls+mean", "max", "map", "projection"};
    enum { ACTIVATIONS = sizeof activations / sizeof *activations, POOLS = sizeof pools / sizeof *pools };
    l3a_backbone_options *options = &asked->options;
    const double number = strtod(text, NULL);
    bool known = true;
    if (strcmp(name, "heads") == 0) {
        options->heads = (size_t)number;
    } else if (strcmp(name, "layer") == 0) {
        options->layer = (size_t)number;
    } else if (strcmp(name, "side") == 0) {
        options->side = (size_t)number;
    } else if (strcmp(name, "epsilon") == 0) {
        options->epsilon = number;
    } else if (strcmp(name, "stride_first") == 0) {
        options->stride_first = number > 0;
    } else if (strcmp(name, "offset") == 0) {
        options->offset = number > 0;
    } else if (strcmp(name, "recorded") == 0) {
        asked->recorded = number > 0;
    } else if (strcmp(name, "mean") == 0) {
        memset(options->deviation, 0, sizeof options->deviation);
        known = strcmp(text, "own") == 0;
    } else if (strcmp(name, "outputs") == 0) {
        asked->features_alone = true;
        known = strcmp(text, "features") == 0;
    } else if (strcmp(name, "write") == 0) {
        asked->write = text;
    } else if (strcmp(name, "halve") == 0) {
        asked->halve = number > 0;
    } else if (strcmp(name, "classes") == 0) {
        asked->classes = (size_t)number;
    } else if (strcmp(name, "back_end") == 0) {
        asked->one_back_end = true;
        known = strcmp(text, "best") == 0;
    } else if (strcmp(name, "activation") == 0) {
        options->activation = (l3a_activation)find(text, activations, ACTIVATIONS);
        known = (size_t)options->activation < ACTIVATIONS;
    } else {
        options->pool = (l3a_pool)find(text, pools, POOLS);
        known = strcmp(name, "pool") == 0 && (size_t)options->pool < POOLS;
    }
    return known ? L3A_OK : fail(context, L3A_ERROR_OPTION, NULL, "no setting %s=%s", name, text);
}

static l3a_status run(l3a_context *context, const struct network_back_end *back_end, const struct network *net,
                      const float *pictures, size_t count) {
    float *outputs[NETWORK_OUTPUTS] = {0};
    void *state = NULL;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < net->output_count; i++) {
        const struct shape shape = net->shapes[net->outputs[i].value];
        TRY(allocate(context, count * shape.channels, shape.height * shape.width * sizeof(float), &outputs[i]));
    }
    TRY(back_end->open(net, &(struct network_use){.training = false}, &state));
    TRY(back_end->run(state, pictures, count, outputs));
    for (size_t i = 0; i < net->output_count; i++) {
        const struct shape shape = net->shapes[net->outputs[i].value];
        printf("%s %s%s %zu %zu %zu %zu\n", back_end->name, net->output_count == 1 ? "only " : "", net->outputs[i].name, count,
               shape.channels, shape.height, shape.width);
        fwrite(outputs[i], sizeof(float), count * shape.channels * shape.height * shape.width, stdout);
    }
done:
    if (state) {
        back_end->close(state);
    }
    for (size_t i = 0; i < NETWORK_OUTPUTS; i++) {
        release(context, outputs[i]);
    }
    return status;
}

static void print_three(const char *name, const float values[3]) {
    printf(" | %s %.9g,%.9g,%.9g", name, (double)values[0], (double)values[1], (double)values[2]);
}

static void print_reading(const struct reading *reading) {
    static const char *const activations[] = {[GELU] = "gelu", [QUICK_GELU] = "quick_gelu", [TANH_GELU] = "tanh_gelu"};
    const struct backbone_recipe *recipe = &reading->recipe;
    printf("name %s | side %zu | heads %zu | epsilon %g | activation %s", recipe->name, recipe->side, recipe->heads,
           recipe->epsilon, recipe->activation >= GELU ? activations[recipe->activation] : "none");
    print_three("mean", recipe->mean);
    print_three("deviation", recipe->deviation);
    printf(" | decided %s | skipped %s\n", reading->decided, reading->skipped);
}

/* all: with all outputs, otherwise with the features alone. */
static l3a_status read_and_run(l3a_context *context, struct checkpoint *checkpoint, const struct asked *asked, const char *path,
                               bool all) {
    struct parameter_source source;
    struct reading reading = {0};
    const struct network_back_end *back_end;
    float *pictures = NULL;
    FILE *file = fopen(path, "rb");
    l3a_status status = L3A_OK;
    parameter_source_checkpoint(checkpoint, &source);
    source.recorded = asked->recorded;
    TRY(backbone_read(context, &source, &asked->options, &reading));
    if (!all) {
        print_reading(&reading);
    }
    TRY(network_fuse(&reading.network, all ? NETWORK_OUTPUTS : 1));
    const size_t size = 3 * reading.recipe.side * reading.recipe.side;
    FAIL_IF(!file || fseek(file, 0, SEEK_END), context, L3A_ERROR_IO, NULL, "cannot read %s", path);
    const size_t count = (size_t)ftell(file) / (size * sizeof(float));
    rewind(file);
    TRY(allocate(context, count, size * sizeof(float), &pictures));
    FAIL_IF(fread(pictures, size * sizeof(float), count, file) != count, context, L3A_ERROR_IO, NULL, "cannot read %s", path);
    for (size_t i = 0, done = 0; (back_end = network_back_end_at(i)) && (!done || !asked->one_back_end); i++) {
        if (back_end->available()) {
            TRY(run(context, back_end, &reading.network, pictures, count));
            done++;
        }
    }
done:
    if (file) {
        fclose(file);
    }
    release(context, pictures);
    network_free(&reading.network);
    return status;
}

/* ---- Writing ---- */

static l3a_status halve(void *owner, size_t layer, enum parameter_kind kind, float *values) {
    const struct parameter *parameter = &((const struct network *)owner)->layers[layer].parameters[kind];
    for (size_t i = 0; i < parameter->count; i++) {
        values[i] = parameter->values[i] / 2;
    }
    return L3A_OK;
}

static l3a_status make_head(l3a_context *context, size_t classes, size_t width, float **numbers, const char ***names) {
    l3a_status status = L3A_OK;
    TRY(allocate(context, classes, (width + 1) * sizeof **numbers, numbers));
    TRY(allocate(context, classes, sizeof **names, names));
    for (size_t i = 0; i < classes * (width + 1); i++) {
        (*numbers)[i] = (float)i;
    }
    for (size_t i = 0; i < classes; i++) {
        (*names)[i] = i % 2 ? "a \"cat\"" : "дом";
    }
done:
    return status;
}

static l3a_status read_and_write(l3a_context *context, struct checkpoint *checkpoint, const struct asked *asked) {
    static const char *const metadata[][2] = {{"l3a.epochs", "3"}};
    struct parameter_source source;
    struct reading reading = {0};
    struct trained_values values = {&reading.network, halve};
    float *numbers = NULL;
    const char **names = NULL;
    l3a_status status = L3A_OK;
    parameter_source_checkpoint(checkpoint, &source);
    TRY(backbone_read(context, &source, &asked->options, &reading));
    const size_t width = reading.network.shapes[reading.network.outputs[0].value].channels;
    TRY(make_head(context, asked->classes, width, &numbers, &names));
    const struct trained_head head = {numbers, numbers + asked->classes * width, names, asked->classes, width};
    TRY(network_write(context, checkpoint, &reading, asked->halve ? &values : NULL, asked->classes ? &head : NULL, metadata, 1,
                      asked->write));
done:
    release(context, numbers);
    release(context, names);
    network_free(&reading.network);
    return status;
}

static l3a_status run_checkpoint(l3a_context *context, int count, char **arguments) {
    struct asked asked = {.options = {.size = sizeof asked.options, .deviation = {1, 1, 1}}};
    struct checkpoint *checkpoint = NULL;
    l3a_status status = L3A_OK;
    TRY(checkpoint_open(context, arguments[1], &checkpoint));
    for (int i = 3; i < count; i++) {
        char *text = strchr(arguments[i], '=');
        FAIL_IF(!text, context, L3A_ERROR_OPTION, NULL, "no setting %s", arguments[i]);
        *text++ = 0;
        TRY(set(context, &asked, arguments[i], text));
    }
    if (asked.write) {
        status = read_and_write(context, checkpoint, &asked);
        goto done;
    }
    for (int all = 0; all < 2 - asked.features_alone; all++) {
        TRY(read_and_run(context, checkpoint, &asked, arguments[2], all));
    }
done:
    checkpoint_free(checkpoint);
    return status;
}

static l3a_status run_positions(l3a_context *context, char **arguments) {
    static const char *const methods[] = {"antialiased", "offset"};
    const size_t channels = (size_t)atoi(arguments[2]), before = (size_t)atoi(arguments[3]), after = (size_t)atoi(arguments[4]);
    const size_t method = find(arguments[5], methods, 2);
    float *from = NULL, *to = NULL;
    l3a_status status = L3A_OK;
    FAIL_IF(method == 2, context, L3A_ERROR_OPTION, NULL, "no method %s", arguments[5]);
    TRY(allocate(context, before * before, channels * sizeof *from, &from));
    TRY(allocate(context, after * after, channels * sizeof *to, &to));
    FAIL_IF(fread(from, channels * sizeof *from, before * before, stdin) != before * before, context, L3A_ERROR_IO, NULL,
            "there are too few positions");
    TRY(positions_resize(context, from, channels, before, after, (enum positions_method)method, to));
    fwrite(to, channels * sizeof *to, after * after, stdout);
done:
    release(context, from);
    release(context, to);
    return status;
}

static l3a_status run_pixels(l3a_context *context, char **arguments) {
    const l3a_backbone_options options = {.size = sizeof options, .published = 1};
    const size_t height = (size_t)atoi(arguments[3]), width = (size_t)atoi(arguments[4]);
    l3a_backbone *backbone = NULL;
    l3a_loader_options loading;
    struct preparer preparer = {0};
    struct raster resized = {0};
    uint8_t *picture = NULL;
    l3a_status status = L3A_OK;
    TRY(l3a_backbone_open(context, arguments[2], &options, &backbone));
    loader_options_for(l3a_backbone_describe(backbone), NULL, 1, &loading);
    TRY(check_loader_options(context, &loading));
    preparer_start(context, &loading, &preparer);
    TRY(allocate(context, height * width, 3, &picture));
    FAIL_IF(fread(picture, 3, height * width, stdin) != height * width, context, L3A_ERROR_IO, NULL, "there are too few pixels");
    TRY(preparer_take(&preparer, width, height, picture, &resized));
    printf("%s\n", l3a_backbone_describe(backbone)->preprocess);
    fwrite(resized.pixels, 3 * resized.width, resized.height, stdout);
done:
    release(context, picture);
    raster_free(context, &resized);
    preparer_free(&preparer);
    l3a_backbone_free(backbone);
    return status;
}

int main(int count, char **arguments) {
    const bool positions = count == 6 && strcmp(arguments[1], "positions") == 0;
    const bool pixels = count == 5 && strcmp(arguments[1], "pixels") == 0;
    l3a_context *context = NULL;
    if (count < 3 || l3a_context_create(NULL, &context) != L3A_OK) {
        return 2;
    }
    const l3a_status status = positions ? run_positions(context, arguments)
                              : pixels  ? run_pixels(context, arguments)
                                        : run_checkpoint(context, count, arguments);
    if (status != L3A_OK) {
        fprintf(stderr, "%s\n%s\n", l3a_error_text(context), l3a_error_hint(context));
    }
    l3a_context_free(context);
    return status == L3A_OK ? 0 : 2;
}
