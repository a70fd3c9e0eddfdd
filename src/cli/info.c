/* l3a info: describes a file. */
#include "rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const struct option info_options[] = {
    {"tensors", NULL, "list every tensor; without it only the first few of a large file are shown"},
    {"format", "table|json", "output format; json always has every tensor [table]"},
    {NULL, NULL, NULL},
};

/* Prints all tensors if they are few or `all` is set, and otherwise the first few and their number. */
static void print_tensors(const l3a_file *file, bool all) {
    enum { FEW = 16, SHOWN = 4 };
    l3a_tensor_info tensor = {.size = sizeof tensor};
    size_t count = 0;
    while (l3a_file_tensor(file, count, &tensor)) {
        count++;
    }
    const size_t shown = all || count <= FEW ? count : SHOWN;
    for (size_t i = 0; i < shown && l3a_file_tensor(file, i, &tensor); i++) {
        char size[32];
        printf("  tensor %s %s [", tensor.name, tensor.type);
        for (size_t j = 0; j < tensor.rank; j++) {
            printf("%s%" PRIu64, j ? ", " : "", tensor.shape[j]);
        }
        printf("] %s%s\n", size_text(tensor.bytes, size), tensor.verified ? ", checksum verified" : "");
    }
    if (shown < count) {
        printf("  … and %zu more tensors (--tensors lists all %zu)\n", count - shown, count);
    }
}

/* Prints a text of several lines as its number of lines and its beginning. */
static void print_record(const char *key, const char *value) {
    enum { SHOWN = 60 };
    size_t lines = 1;
    for (const char *c = value; *c; c++) {
        lines += *c == '\n';
    }
    printf("  %s: ", key);
    if (lines > 1) {
        printf("%zu: ", lines);
    }
    const char *const end = value + fitting_bytes(value, SHOWN);
    while (value < end) {
        const size_t rest = (size_t)(end - value), line = strcspn(value, "\n"), shown = line < rest ? line : rest;
        printf("%.*s%s", (int)shown, value, shown < rest ? ", " : "");
        value += shown + (shown < rest);
    }
    printf("%s\n", *value ? "…" : "");
}

static void print_records(const l3a_file *file) {
    const char *key, *value;
    for (size_t i = 0; l3a_file_record(file, i, &key, &value), key; i++) {
        const bool told = strcmp(l3a_file_kind(file), "model") == 0 && strcmp(key, "phases") == 0;
        const bool crops = strcmp(l3a_file_kind(file), "features") == 0 && strcmp(key, "views") == 0 && strcmp(value, "1") != 0;
        if (crops) {
            printf("  views: %s (rows of an image: the whole picture and %s crops)\n", value, value);
        } else if (strncmp(key, "xxh3.", 5) != 0 && !told) {
            print_record(key, value);
        }
    }
}

static bool may_hold_weights(const l3a_file *file) {
    return strcmp(l3a_file_kind(file), "safetensors") == 0 || strcmp(l3a_file_kind(file), "checkpoint") == 0;
}

static void print_json(struct printer *printer, const l3a_file *file) {
    l3a_tensor_info tensor = {.size = sizeof tensor};
    const char *key, *value;
    put_text(printer, "kind", l3a_file_kind(file));
    put_count(printer, "bytes", l3a_file_size(file));
    put_open(printer, "metadata", '{');
    for (size_t i = 0; l3a_file_record(file, i, &key, &value), key; i++) {
        put_text(printer, key, value);
    }
    put_close(printer, '}');
    put_open(printer, "tensors", '[');
    for (size_t i = 0; l3a_file_tensor(file, i, &tensor); i++) {
        put_open(printer, NULL, '{');
        put_text(printer, "name", tensor.name);
        put_text(printer, "type", tensor.type);
        put_open(printer, "shape", '[');
        for (size_t j = 0; j < tensor.rank; j++) {
            put_count(printer, NULL, tensor.shape[j]);
        }
        put_close(printer, ']');
        put_count(printer, "bytes", tensor.bytes);
        put_boolean(printer, "verified", tensor.verified);
        put_close(printer, '}');
    }
    put_close(printer, ']');
}

static void print_json_backbone(struct printer *printer, const l3a_backbone_info *info) {
    put_open(printer, "backbone", '{');
    put_text(printer, "name", info->name);
    put_text(printer, "family", info->family);
    put_count(printer, "parameters", info->parameters);
    put_number(printer, "flops", info->flops, 0);
    put_count(printer, "width", info->width);
    put_text(printer, "preprocess", info->preprocess);
    put_text(printer, "pool", info->pool);
    if (info->heads) {
        put_count(printer, "heads", info->heads);
    }
    if (info->activation) {
        put_text(printer, "activation", info->activation);
    }
    put_number(printer, "epsilon", info->epsilon, 9);
    put_text(printer, "network", info->network);
    put_text(printer, "decided", info->decided);
    put_text(printer, "skipped", info->skipped);
    put_text(printer, "sha256", info->sha256);
    put_close(printer, '}');
}

static void print_line(const char *title, const char *text) {
    if (text[0]) {
        printf("  %s: %s\n", title, text);
    }
}

static void print_text_backbone(const l3a_backbone_info *info) {
    printf("  backbone: %s (%s), %" PRIu64 " parameters, %.0f operations per picture, features %zu wide\n  preprocess: %s\n"
           "  pool: %s\n",
           info->name, info->family, info->parameters, info->flops, info->width, info->preprocess, info->pool);
    if (info->heads) {
        printf("  blocks: %zu heads, %s, epsilon %g\n", info->heads, info->activation, info->epsilon);
    }
    print_line("network", info->network);
    print_line("recipe", info->decided);
    print_line("skipped", info->skipped);
    print_line("sha256", info->sha256);
}

/* Prints which network a checkpoint contains, or why it is not a known one. */
static void print_backbone(struct printer *printer, const struct arguments *arguments, const char *path) {
    const bool json = printer->form == FORM_JSON;
    l3a_backbone *backbone = NULL;
    const l3a_status status = l3a_backbone_open(arguments->context, path, NULL, &backbone);
    const l3a_backbone_info *info = status == L3A_OK ? l3a_backbone_describe(backbone) : NULL;
    if (!info && json) {
        put_null(printer, "backbone");
        put_text(printer, "why", l3a_error_text(arguments->context));
    } else if (!info) {
        printf("  no backbone: %s\n", l3a_error_text(arguments->context));
        print_line("what to do", l3a_error_hint(arguments->context));
    } else if (json) {
        print_json_backbone(printer, info);
    } else {
        print_text_backbone(info);
    }
    l3a_backbone_free(backbone);
}

static void print_json_phases(struct printer *printer, const l3a_model *model, const double *thresholds) {
    put_open(printer, "phases", '[');
    for (size_t p = 0; p < l3a_model_phase_count(model); p++) {
        const l3a_phase_info *phase = l3a_model_phase(model, p);
        put_open(printer, NULL, '{');
        put_count(printer, "images", phase->images);
        put_open(printer, "classes", '[');
        for (size_t k = phase->first; k < phase->last; k++) {
            put_open(printer, NULL, '{');
            put_text(printer, "name", l3a_model_class(model, k));
            put_count(printer, "images", l3a_model_class_images(model, k));
            put_number(printer, "threshold", thresholds[k], 4);
            put_close(printer, '}');
        }
        put_close(printer, ']');
        put_close(printer, '}');
    }
    put_close(printer, ']');
}

/* Prints the phases of a model with their classes and, if thresholds were fitted, the score above which each class is predicted. */
static void print_phases(const l3a_model *model, const double *thresholds, bool fitted) {
    for (size_t p = 0; p < l3a_model_phase_count(model); p++) {
        const l3a_phase_info *phase = l3a_model_phase(model, p);
        printf("  phase %zu, %" PRIu64 " %s: ", p + 1, phase->images, plural(phase->images, "image", "images"));
        for (size_t k = phase->first; k < phase->last; k++) {
            printf("%s%s", k > phase->first ? ", " : "", l3a_model_class(model, k));
            if (fitted) {
                printf(" (%.2f)", thresholds[k]);
            }
        }
        printf("\n");
    }
    fputs(fitted && l3a_model_class_count(model) ? "  in brackets: the score above which a class is predicted\n" : "", stdout);
}

/* The unlabelled images, if there are any. */
static void print_unlabelled(struct printer *printer, const l3a_model *model) {
    l3a_unlabelled_info info = {.size = sizeof info};
    if (l3a_model_unlabelled(model, &info) != L3A_OK || !info.images) {
        return;
    }
    if (printer->form == FORM_JSON) {
        put_open(printer, "unlabelled", '{');
        put_count(printer, "images", info.images);
        put_count(printer, "drawn_from", info.drawn_from);
        put_number(printer, "weight", info.weight, 6);
        put_close(printer, '}');
    } else {
        printf("  %" PRIu64 " of %" PRIu64 " unlabelled %s %s, each with a weight of %.3g\n", info.images, info.drawn_from,
               plural(info.drawn_from, "image", "images"), plural(info.images, "acts", "act"), info.weight);
    }
}

static void print_model(struct printer *printer, const struct arguments *arguments, const char *path) {
    const bool json = printer->form == FORM_JSON;
    l3a_model *model = NULL;
    l3a_options *settings = NULL;
    if (l3a_model_load(arguments->context, path, &model) == L3A_OK && l3a_options_create(arguments->context, &settings) == L3A_OK &&
        l3a_model_options(model, settings) == L3A_OK) {
        double *thresholds = calloc(l3a_model_class_count(model) + 1, sizeof *thresholds);
        if (thresholds) {
            l3a_model_thresholds(model, thresholds);
            if (json) {
                print_json_phases(printer, model, thresholds);
            } else {
                print_phases(model, thresholds, !setting_is(settings, "thresholds", "fixed"));
            }
            print_unlabelled(printer, model);
        }
        free(thresholds);
    } else if (json) {
        put_text(printer, "why", l3a_error_text(arguments->context));
    } else {
        printf("  no model: %s\n", l3a_error_text(arguments->context));
    }
    l3a_options_free(settings);
    l3a_model_free(model);
}

static void print_file(const struct arguments *arguments, const l3a_file *file, const char *format) {
    struct printer printer = printer_of(format);
    const char *path = arguments->positionals[0];
    char size[32];
    if (printer.form == FORM_JSON) {
        put_open(&printer, NULL, '{');
        print_json(&printer, file);
    } else {
        printf("%s: %s, %s\n", path, l3a_file_kind(file), size_text(l3a_file_size(file), size));
    }
    if (may_hold_weights(file)) {
        print_backbone(&printer, arguments, path);
    }
    if (strcmp(l3a_file_kind(file), "model") == 0) {
        print_model(&printer, arguments, path);
    }
    if (printer.form == FORM_JSON) {
        put_close(&printer, '}');
        printf("\n");
    } else {
        print_records(file);
        print_tensors(file, argument(arguments, "tensors") != NULL);
    }
}

int info_command(struct arguments *arguments) {
    const char *format = argument_choice(arguments, "format", "table|json", "table");
    l3a_file *file = NULL;
    if (!format) {
        return EXIT_USAGE;
    }
    if (arguments->positional_count != 1) {
        return complain_usage(arguments, "name one file");
    }
    const l3a_status status = l3a_file_open(arguments->context, arguments->positionals[0], &file);
    if (status == L3A_OK) {
        print_file(arguments, file, format);
    }
    const int code = explain(arguments, status);
    l3a_file_free(file);
    return code;
}
