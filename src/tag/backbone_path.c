/* Where the backbone of a model is. Two records of the model say so:
 *
 *   backbone-path            relative to the folder of the model's file, so that both can be moved together
 *   backbone-path-absolute   so that the model alone can be moved
 *
 * They are tried in this order. `sha256` tells whether a file is the right one. How the pictures are prepared follows from the
 * records `preprocess`, `pool` and `network`. The folder of a model that is a symbolic link is the folder of the file it leads to.
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/sized.h"
#include "common/utf8.h"
#include "extract/intake.h"
#include "image/picture.h"
#include "learn/model.h"
#include "learn/file_packed.h"
#include "net/backbone.h"
#include "tag/tagger.h"

#include <stdio.h>
#include <string.h>

const char backbone_path_record[] = "backbone-path";
static const char absolute_record[] = "backbone-path-absolute";

/* The folder of a file, as an absolute path without symbolic links. The file itself need not exist. */
static l3a_status folder_of(l3a_context *context, const char *path, char **folder) {
    l3a_status status = L3A_OK;
    char *resolved = NULL, *text = NULL;
    bool exists;
    TRY(file_exists(context, path, &exists));
    TRY(exists ? resolve_path(context, path, &resolved) : copy_text(context, path, strlen(path), &resolved));
    const char *slash = strrchr(resolved, '/');
    TRY(copy_text(context, slash ? resolved : ".", slash > resolved ? (size_t)(slash - resolved) : 1, &text));
    TRY(resolve_path(context, text, folder));
done:
    release(context, text);
    release(context, resolved);
    return status;
}

/* The way from a folder to a file, both absolute: "../" for every folder to leave, then the folders to enter. */
static l3a_status relative_path(l3a_context *context, const char *folder, const char *file, char **path) {
    text_builder text = {.context = context};
    size_t common = 0;
    for (size_t i = 0; !i || folder[i - 1]; i++) { /* up to the last place where both have a name that ends */
        const bool folder_ends = !folder[i] || folder[i] == '/';
        if (folder_ends && file[i] == '/') {
            common = i;
        }
        if (folder[i] != file[i]) {
            break;
        }
    }
    for (const char *rest = folder + common; *rest; rest++) {
        if (*rest == '/' && rest[1]) {
            text_builder_print(&text, "../");
        }
    }
    text_builder_print(&text, "%s", file + common + 1);
    l3a_status status = text.status;
    if (status == L3A_OK) {
        status = copy_text(context, text.text, text.length, path);
    }
    text_builder_free(&text);
    return status;
}

l3a_status tagger_remember_backbone(l3a_model *model, const char *model_path, const char *backbone_path) {
    REQUIRE(model, model, model_path, backbone_path);
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    char *folder = NULL, *absolute = NULL, *relative = NULL;
    TRY(folder_of(context, model_path, &folder));
    TRY(resolve_path(context, backbone_path, &absolute));
    TRY(relative_path(context, folder, absolute, &relative));
    if (!is_utf8(absolute) || !is_utf8(relative)) {
        report_warning(context, "%s: this path is not UTF-8, so the model cannot record where its backbone is", backbone_path);
        goto done;
    }
    TRY(l3a_model_set_record(model, backbone_path_record, relative));
    TRY(l3a_model_set_record(model, absolute_record, absolute));
done:
    release(context, folder);
    release(context, absolute);
    release(context, relative);
    return status;
}

/* The files where the backbone may be, in order. */
enum { PLACES = 2 };

static l3a_status list_places(l3a_context *context, const char *model_path, const struct scorer *scorer, char *places[PLACES]) {
    const char *relative = scorer_record(scorer, backbone_path_record), *absolute = scorer_record(scorer, absolute_record);
    l3a_status status = L3A_OK;
    char *folder = NULL;
    if (relative) {
        TRY(folder_of(context, model_path, &folder));
        TRY(join_path(context, folder, relative, &places[0]));
    }
    if (absolute) {
        TRY(copy_text(context, absolute, strlen(absolute), &places[1]));
    }
done:
    release(context, folder);
    return status;
}

static void free_places(l3a_context *context, char *places[PLACES]) {
    for (size_t i = 0; i < PLACES; i++) {
        release(context, places[i]);
    }
}

l3a_status backbone_find(l3a_context *context, const char *model_path, const struct scorer *scorer, char **path) {
    char *places[PLACES] = {NULL};
    l3a_status status = L3A_OK;
    *path = NULL;
    TRY(list_places(context, model_path, scorer, places));
    for (size_t i = 0; !*path && i < PLACES; i++) {
        bool exists = false;
        if (places[i]) {
            TRY(file_exists(context, places[i], &exists));
        }
        if (exists) {
            *path = places[i];
            places[i] = NULL;
        }
    }
done:
    free_places(context, places);
    return status;
}

l3a_status backbone_beside(l3a_context *context, const char *model_path, const char *backbone_path, char **record) {
    char *folder = NULL, *absolute = NULL, *relative = NULL;
    l3a_status status = L3A_OK;
    *record = NULL;
    TRY(folder_of(context, model_path, &folder));
    TRY(resolve_path(context, backbone_path, &absolute));
    TRY(relative_path(context, folder, absolute, &relative));
    if (strncmp(relative, "../../", 6) != 0 && is_utf8(relative)) {
        *record = relative;
        relative = NULL;
    }
done:
    release(context, folder);
    release(context, absolute);
    release(context, relative);
    return status;
}

static const char *or_else(const char *text, const char *otherwise) {
    return text ? text : otherwise;
}

static const char path_hint[] = "give the path of this checkpoint as the backbone; it is remembered when the model is next taught";

/* Opens the backbone in the first place that has the right file; otherwise says what was found in each. */
static l3a_status open_remembered(l3a_tagger *tagger, const l3a_backbone_options *options) {
    l3a_context *context = tagger->context;
    const char *sha256 = scorer_record(tagger->current, "sha256");
    text_builder tried = {.context = context};
    char *places[PLACES] = {NULL};
    bool other = false;
    l3a_status status = L3A_OK;
    TRY(list_places(context, tagger->path, tagger->current, places));
    for (size_t i = 0; !tagger->backbone && i < PLACES; i++) {
        char found[65];
        bool exists = false;
        if (!places[i] || (i && places[0] && strcmp(places[0], places[i]) == 0)) {
            continue;
        }
        TRY(file_exists(context, places[i], &exists));
        if (exists) {
            TRY(backbone_open_known(context, places[i], sha256, options, found, &tagger->backbone));
        }
        if (tagger->backbone) {
            tagger->backbone_path = places[i];
            places[i] = NULL;
        } else if (exists) {
            other = true;
            text_builder_print(&tried, "%s%s is another file (sha256 %.12s…)", tried.length ? "; " : "", places[i], found);
        } else {
            text_builder_print(&tried, "%s%s does not exist", tried.length ? "; " : "", places[i]);
        }
    }
    TRY(tried.status);
    FAIL_IF(!tagger->backbone && !tried.length, context, L3A_ERROR_ARGUMENT,
            "give the path of the checkpoint that made the features the model was learned with",
            "%s: the model does not name its backbone", tagger->path);
    FAIL_IF(!tagger->backbone, context, other ? L3A_ERROR_MISMATCH : L3A_ERROR_NOT_FOUND, path_hint,
            "%s: cannot find the model's backbone, %s (sha256 %.12s…): %s", tagger->path,
            or_else(scorer_record(tagger->current, "backbone"), "of unknown name"), or_else(sha256, "unknown"), tried.text);
done:
    free_places(context, places);
    text_builder_free(&tried);
    return status;
}

/* A checkpoint other than the model's is opened with the default options, so that the error is about the checkpoint. */
static l3a_status open_given(l3a_tagger *tagger, const char *path, const l3a_backbone_options *options) {
    l3a_context *context = tagger->context;
    char found[65];
    l3a_status status = L3A_OK;
    TRY(backbone_open_known(context, path, scorer_record(tagger->current, "sha256"), options, found, &tagger->backbone));
    if (!tagger->backbone) {
        TRY(backbone_open_known(context, path, NULL, NULL, found, &tagger->backbone));
    }
    TRY(copy_text(context, path, strlen(path), &tagger->backbone_path));
done:
    return status;
}

/* What is not given is as recorded. A model that was learned from features of unknown origin has recorded nothing. */
static void complete_options(const l3a_backbone_options *recorded, l3a_backbone_options *given) {
    bool mean = false;
    for (size_t c = 0; c < 3; c++) {
        mean = mean || given->mean[c] != 0 || given->deviation[c] != 0;
    }
    if (!mean) {
        memcpy(given->mean, recorded->mean, sizeof given->mean);
        memcpy(given->deviation, recorded->deviation, sizeof given->deviation);
    }
    given->pool = given->pool ? given->pool : recorded->pool;
    given->side = given->side ? given->side : recorded->side;
    given->filter = given->filter ? given->filter : recorded->filter;
    given->heads = given->heads ? given->heads : recorded->heads;
    given->layer = given->layer ? given->layer : recorded->layer;
    given->activation = given->activation ? given->activation : recorded->activation;
    given->epsilon = given->epsilon > 0 ? given->epsilon : recorded->epsilon;
    given->stride_first = given->stride_first ? given->stride_first : recorded->stride_first;
    given->offset = given->offset ? given->offset : recorded->offset;
    const bool chosen = given->precision && given->precision != L3A_NETWORK_USUAL;
    given->precision = chosen ? given->precision : recorded->precision;
    given->crop_rules = given->crop > 0 ? given->crop_rules : recorded->crop_rules;
    given->crop = given->crop > 0 ? given->crop : recorded->crop;
}

l3a_status tagger_open_backbone(l3a_tagger *tagger, const l3a_tagger_options *options) {
    const struct scorer *edition = tagger->current;
    l3a_backbone_options recorded, given;
    const l3a_backbone_options *chosen = &recorded;
    int orient;
    l3a_status status = L3A_OK;
    backbone_record_read(scorer_record(edition, "preprocess"), scorer_record(edition, "pool"), scorer_record(edition, "network"),
                         &recorded, &orient);
    if (options->backbone_options) {
        TRY(READ_SIZED(tagger->context, options->backbone_options, given));
        complete_options(&recorded, &given);
        chosen = &given;
    }
    TRY(picture_options_read(tagger->context, options->picture_options, &tagger->picture));
    if (!options->picture_options) {
        tagger->picture.orient = orient;
    }
    if (options->backbone) {
        TRY(open_given(tagger, options->backbone, chosen));
    } else if (edition->has_backbone) {
        TRY(backbone_open_inside(tagger->context, tagger->path, packed_backbone_prefix, scorer_record(edition, "sha256"), chosen,
                                 &tagger->backbone));
    } else {
        TRY(open_remembered(tagger, chosen));
    }
    TRY(tagger_loading(tagger, edition->views, &tagger->loading));
done:
    return status;
}
