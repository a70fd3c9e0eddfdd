#include "tag/tagger.h"

#include "base/memory.h"
#include "base/sized.h"
#include "image/picture.h"
#include "extract/intake.h"
#include "learn/model.h"

#include <string.h>

enum { LARGEST_BATCH = 1024 };

static void edition_free(l3a_context *context, struct edition *edition) {
    if (edition) {
        l3a_model_free(edition->model);
        release(context, edition->thresholds);
        release(context, edition);
    }
}

struct edition *tagger_borrow(l3a_tagger *tagger) {
    pthread_mutex_lock(&tagger->lock);
    struct edition *edition = tagger->current;
    edition->users++;
    pthread_mutex_unlock(&tagger->lock);
    return edition;
}

void tagger_return(l3a_tagger *tagger, struct edition *edition) {
    pthread_mutex_lock(&tagger->lock);
    const bool last = --edition->users == 0;
    pthread_mutex_unlock(&tagger->lock);
    if (last) {
        edition_free(tagger->context, edition);
    }
}

/* Checks that the model's features came from this backbone: it must accept a table that the backbone has signed. */
static l3a_status check_backbone(const l3a_tagger *tagger, l3a_model *model) {
    l3a_context *context = tagger->context;
    const size_t width = l3a_backbone_describe(tagger->backbone)->width;
    float *values = NULL;
    l3a_features *features = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, width, sizeof *values, &values));
    TRY(l3a_features_wrap(context, values, NULL, 1, width, NULL, 0, &features));
    TRY(l3a_backbone_sign(tagger->backbone, tagger->picture.orient, features));
    TRY(l3a_model_accepts(model, features));
done:
    l3a_features_free(features);
    release(context, values);
    return status;
}

/* Makes all that scoring needs, so that readers only read. */
static l3a_status edition_prepare(const l3a_tagger *tagger, struct edition *edition) {
    l3a_status status = L3A_OK;
    TRY(check_backbone(tagger, edition->model));
    TRY(model_ready(edition->model));
    TRY(allocate(tagger->context, l3a_model_class_count(edition->model), sizeof *edition->thresholds, &edition->thresholds));
    l3a_model_thresholds(edition->model, edition->thresholds);
done:
    return status;
}

static l3a_status edition_load(const l3a_tagger *tagger, struct edition **edition) {
    struct edition *made = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(tagger->context, 1, sizeof *made, &made));
    made->users = 1;
    TRY(l3a_model_load(tagger->context, tagger->path, &made->model));
    *edition = made;
    made = NULL;
done:
    edition_free(tagger->context, made);
    return status;
}

static l3a_status open_backbone(l3a_tagger *tagger, const l3a_tagger_options *options) {
    l3a_status status = L3A_OK;
    FAIL_IF(!options->backbone, tagger->context, L3A_ERROR_ARGUMENT,
            "give the path of the checkpoint that made the features the model was learned with",
            "%s: the model does not name its backbone", tagger->path);
    TRY(l3a_backbone_open(tagger->context, options->backbone, options->backbone_options, &tagger->backbone));
    TRY(picture_options_read(tagger->context, options->picture_options, &tagger->picture));
    const char *preprocess = l3a_model_record(tagger->current->model, "preprocess");
    if (!options->picture_options && preprocess && strstr(preprocess, " oriented")) {
        tagger->picture.orient = 1;
    }
    loader_options_for(l3a_backbone_describe(tagger->backbone), &tagger->picture, &tagger->loading);
done:
    return status;
}

static l3a_status make_lock(l3a_tagger *tagger) {
    tagger->has_lock = pthread_mutex_init(&tagger->lock, NULL) == 0;
    return tagger->has_lock ? L3A_OK : fail(tagger->context, L3A_ERROR_MEMORY, NULL, "no memory for a lock");
}

l3a_status l3a_tagger_open(l3a_context *context, const char *model_path, const l3a_tagger_options *options, l3a_tagger **tagger) {
    l3a_tagger *made = NULL;
    l3a_tagger_options chosen;
    l3a_status status = L3A_OK;
    NEED(context, context, model_path, tagger);
    TRY(READ_SIZED(context, options, chosen));
    FAIL_IF(chosen.batch > LARGEST_BATCH, context, L3A_ERROR_ARGUMENT, "use a smaller batch",
            "a batch of %zu pictures; %d is the most", chosen.batch, LARGEST_BATCH);
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->batch = chosen.batch ? chosen.batch : INTAKE_BATCH;
    TRY(make_lock(made));
    TRY(copy_text(context, model_path, strlen(model_path), &made->path));
    TRY(edition_load(made, &made->current));
    TRY(open_backbone(made, &chosen));
    TRY(edition_prepare(made, made->current));
    *tagger = made;
    made = NULL;
done:
    l3a_tagger_free(made);
    return status;
}

l3a_status l3a_tagger_reload(l3a_tagger *tagger) {
    REQUIRE(tagger, tagger);
    struct edition *loaded = NULL;
    l3a_status status = L3A_OK;
    TRY(edition_load(tagger, &loaded));
    TRY(edition_prepare(tagger, loaded));
    pthread_mutex_lock(&tagger->lock);
    struct edition *old = tagger->current;
    tagger->current = loaded;
    pthread_mutex_unlock(&tagger->lock);
    tagger_return(tagger, old);
    loaded = NULL;
done:
    edition_free(tagger->context, loaded);
    return status;
}

const l3a_model *l3a_tagger_model(const l3a_tagger *tagger) {
    return tagger ? tagger->current->model : NULL;
}

void l3a_tagger_free(l3a_tagger *tagger) {
    if (!tagger) {
        return;
    }
    l3a_context *context = tagger->context;
    edition_free(context, tagger->current);
    l3a_backbone_free(tagger->backbone);
    if (tagger->has_lock) {
        pthread_mutex_destroy(&tagger->lock);
    }
    release(context, tagger->path);
    release(context, tagger);
}
