#include "tag/tagger.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/plugin.h"
#include "base/sized.h"
#include "data/features.h"
#include "extract/intake.h"
#include "image/picture.h"
#include "learn/model.h"
#include "net/backbone.h"
#include "net/recipe.h"
#include "tag/history.h"

#include <inttypes.h>
#include <string.h>

enum { LARGEST_BATCH = 1024 };

struct scorer *tagger_borrow(l3a_tagger *tagger) {
    pthread_mutex_lock(&tagger->lock);
    struct scorer *edition = scorer_keep(tagger->current);
    pthread_mutex_unlock(&tagger->lock);
    return edition;
}

l3a_status tagger_loading(const l3a_tagger *tagger, uint64_t views, l3a_loader_options *loading) {
    l3a_status status = L3A_OK;
    FAIL_IF(!views_known((size_t)views), tagger->context, L3A_ERROR_OPTION,
            "use 1, 5, 9 or 14; models with other views can score features from files",
            "%s: pictures cannot have %" PRIu64 " views", tagger->path, views);
    loader_options_for(l3a_backbone_describe(tagger->backbone), &tagger->picture, (size_t)views, loading);
done:
    return status;
}

/* Checks that the edition's features came from this backbone: it must accept a table of pictures as the tagger loads them, which
 * the backbone has signed. */
static l3a_status check_backbone(const l3a_tagger *tagger, const struct scorer *edition) {
    l3a_context *context = tagger->context;
    const size_t width = l3a_backbone_describe(tagger->backbone)->width, views = tagger->loading.views;
    float *values = NULL;
    l3a_features *features = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, view_rows(views), width * sizeof *values, &values));
    TRY(l3a_features_wrap(context, values, NULL, 1, views, width, NULL, 0, &features));
    TRY(l3a_backbone_sign(tagger->backbone, tagger->picture.orient, features));
    TRY(scorer_accepts(context, edition, features));
done:
    l3a_features_free(features);
    release(context, values);
    return status;
}

/* Replaces the current edition, which readers may still use. */
static void exchange(l3a_tagger *tagger, struct scorer *edition) {
    pthread_mutex_lock(&tagger->lock);
    struct scorer *old = tagger->current;
    tagger->current = edition;
    pthread_mutex_unlock(&tagger->lock);
    scorer_free(old);
}

/* Makes an edition of a model that fits the backbone. */
static l3a_status publish(l3a_tagger *tagger, l3a_model *model) {
    struct scorer *edition = NULL;
    l3a_status status = L3A_OK;
    TRY(scorer_create(model, tagger->views, tagger->current, &edition));
    TRY(check_backbone(tagger, edition));
    exchange(tagger, edition);
    edition = NULL;
done:
    scorer_free(edition);
    return status;
}

static l3a_status load_model(const l3a_tagger *tagger, l3a_model **model) {
    l3a_status status = L3A_OK;
    FAIL_IF(tagger->current->packed, tagger->context, L3A_ERROR_STATE, "use the model that it was packed from",
            "%s: a packed model can only tag; it lacks the sums that learning needs", tagger->path);
    TRY(l3a_model_load(tagger->context, tagger->path, model));
done:
    return status;
}

/* What could not be shown before may be shown now. */
static void publish_late(l3a_tagger *tagger) {
    tagger->behind = tagger->behind && tagger->model && publish(tagger, tagger->model) != L3A_OK;
}

l3a_status tagger_history(l3a_tagger *tagger, l3a_history **history) {
    l3a_model *loaded = NULL;
    l3a_history *made = NULL;
    l3a_status status = L3A_OK;
    publish_late(tagger);
    if (!tagger->history) {
        TRY(tagger->model ? L3A_OK : load_model(tagger, &loaded));
        status = history_begin(tagger->context, tagger->path, loaded ? &loaded : &tagger->model, &made);
        if (status != L3A_OK && !tagger->created) { /* it may have some of the changes that the history has */
            tagger_forget(tagger);
        }
        TRY(status);
        /* The file may have changed since the current edition was loaded, and the history may have more than the file. */
        TRY(loaded || l3a_history_ahead(made) ? publish(tagger, loaded ? loaded : tagger->model) : L3A_OK);
        tagger->model = loaded ? loaded : tagger->model;
        loaded = NULL;
        tagger->history = made;
        made->model = &tagger->model;
        made = NULL;
    }
    *history = tagger->history;
done:
    l3a_history_free(made);
    l3a_model_free(loaded);
    return status;
}

l3a_status tagger_model(l3a_tagger *tagger, l3a_model **model) {
    l3a_model *loaded = NULL;
    l3a_status status = L3A_OK;
    publish_late(tagger);
    if (!tagger->model) {
        TRY(load_model(tagger, &loaded));
        TRY(publish(tagger, loaded)); /* the file may have changed since the current edition was loaded */
        tagger->model = loaded;
        loaded = NULL;
    }
    *model = tagger->model;
done:
    l3a_model_free(loaded);
    return status;
}

void tagger_forget(l3a_tagger *tagger) {
    l3a_history_free(tagger->history);
    tagger->history = NULL;
    l3a_model_free(tagger->model);
    tagger->model = NULL;
    tagger->created = tagger->behind = false;
}

void tagger_publish(l3a_tagger *tagger) {
    tagger->behind = publish(tagger, tagger->model) != L3A_OK;
    if (tagger->behind) {
        report_warning(tagger->context, "%s: the change is kept, but readers do not see it yet: %s", tagger->path,
                       tagger->context->error_text);
    }
}

static l3a_status make_lock(l3a_tagger *tagger) {
    tagger->has_lock = pthread_mutex_init(&tagger->lock, NULL) == 0;
    return tagger->has_lock ? L3A_OK : fail(tagger->context, L3A_ERROR_MEMORY, NULL, "no memory for a lock");
}

/* Makes a tagger that has neither a model nor a backbone yet, so its batch may not be known either. */
static l3a_status tagger_start(l3a_context *context, const char *path, const l3a_tagger_options *options, l3a_tagger **tagger) {
    l3a_tagger *made = NULL;
    l3a_status status = L3A_OK;
    FAIL_IF(options->batch > LARGEST_BATCH, context, L3A_ERROR_ARGUMENT, "use a smaller batch",
            "a batch of %zu pictures; %d is the most", options->batch, LARGEST_BATCH);
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->batch = options->batch;
    made->views = options->views;
    made->commits = options->commit;
    TRY(make_lock(made));
    TRY(copy_text(context, path, strlen(path), &made->path));
    *tagger = made;
    made = NULL;
done:
    l3a_tagger_free(made);
    return status;
}

/* Whether to try again on the processor, because the model and its network do not both fit a device that was not asked for.
 * choosing: that of the context, when nothing was on the device. */
static bool leave_device(l3a_context *context, bool choosing, l3a_status status) {
    const bool leaves = choosing && context->plugin && (status == L3A_ERROR_MEMORY || status == L3A_ERROR_DEVICE);
    if (leaves) {
        device_leave(context, "%s", context->error_text);
    }
    return leaves;
}

static l3a_status open_tagger(l3a_context *context, const char *path, const l3a_tagger_options *options, l3a_tagger **tagger) {
    l3a_tagger *made = NULL;
    l3a_status status = L3A_OK;
    TRY(tagger_start(context, path, options, &made));
    TRY(scorer_load(context, path, made->views, NULL, &made->current));
    TRY(tagger_open_backbone(made, options));
    TRY(check_backbone(made, made->current));
    *tagger = made;
    made = NULL;
done:
    l3a_tagger_free(made);
    return status;
}

l3a_status l3a_tagger_open(l3a_context *context, const char *model_path, const l3a_tagger_options *options, l3a_tagger **tagger) {
    l3a_tagger_options chosen;
    l3a_status status = L3A_OK;
    NEED(context, context, model_path, tagger);
    TRY(READ_SIZED(context, options, chosen));
    const bool choosing = context->choosing;
    status = open_tagger(context, model_path, &chosen, tagger);
    if (leave_device(context, choosing, status)) {
        status = open_tagger(context, model_path, &chosen, tagger);
    }
done:
    return status;
}

size_t l3a_tagger_batch(const l3a_tagger *tagger) {
    return !tagger ? 0 : tagger->batch ? tagger->batch : backbone_batch(tagger->backbone);
}

/* Makes an empty model that takes the features of the tagger's backbone and remembers where that is. */
static l3a_status make_model(l3a_tagger *tagger, const l3a_options *settings) {
    const l3a_backbone_info *info = l3a_backbone_describe(tagger->backbone);
    struct backbone_record record;
    l3a_status status = L3A_OK;
    TRY(l3a_model_create(tagger->context, info->width, settings, &tagger->model));
    tagger->created = true;
    backbone_record(info, tagger->picture.orient, &record);
    for (size_t i = 0; i < PROVENANCE; i++) {
        TRY(record.values[i] ? l3a_model_set_record(tagger->model, provenance[i], record.values[i]) : L3A_OK);
    }
    TRY(tagger_remember_backbone(tagger->model, tagger->path, tagger->backbone_path));
    TRY(scorer_create(tagger->model, tagger->views, NULL, &tagger->current));
done:
    return status;
}

static l3a_status create_tagger(l3a_context *context, const char *path, const l3a_options *settings,
                                const l3a_tagger_options *options, l3a_tagger **tagger) {
    l3a_tagger *made = NULL;
    l3a_status status = L3A_OK;
    TRY(tagger_start(context, path, options, &made));
    TRY(picture_options_read(context, options->picture_options, &made->picture));
    TRY(l3a_backbone_open(context, options->backbone, options->backbone_options, &made->backbone));
    const struct model_options own = model_options_of(settings);
    TRY(tagger_loading(made, made->views ? made->views : scored_views(&own), &made->loading));
    TRY(copy_text(context, options->backbone, strlen(options->backbone), &made->backbone_path));
    TRY(make_model(made, settings));
    *tagger = made;
    made = NULL;
done:
    l3a_tagger_free(made);
    return status;
}

l3a_status l3a_tagger_create(l3a_context *context, const char *model_path, const l3a_options *settings,
                             const l3a_tagger_options *options, l3a_tagger **tagger) {
    l3a_tagger_options chosen;
    bool exists;
    l3a_status status = L3A_OK;
    NEED(context, context, model_path, settings, options, tagger);
    TRY(READ_SIZED(context, options, chosen));
    FAIL_IF(!chosen.backbone, context, L3A_ERROR_ARGUMENT, "give the path of a checkpoint", "%s: a new model needs a backbone",
            model_path);
    TRY(file_exists(context, model_path, &exists));
    FAIL_IF(exists, context, L3A_ERROR_EXISTS, "choose another name, or open this model", "%s: there is a file already",
            model_path);
    const bool choosing = context->choosing;
    status = create_tagger(context, model_path, settings, &chosen, tagger);
    if (leave_device(context, choosing, status)) {
        status = create_tagger(context, model_path, settings, &chosen, tagger);
    }
done:
    return status;
}

l3a_status l3a_tagger_reload(l3a_tagger *tagger) {
    REQUIRE(tagger, tagger);
    struct scorer *loaded = NULL;
    l3a_status status = L3A_OK;
    TRY(scorer_load(tagger->context, tagger->path, tagger->views, tagger->current, &loaded));
    TRY(check_backbone(tagger, loaded));
    exchange(tagger, loaded);
    loaded = NULL;
    tagger_forget(tagger);
done:
    scorer_free(loaded);
    return status;
}

const l3a_model *l3a_tagger_model(l3a_tagger *tagger) {
    l3a_model *model = NULL;
    return tagger && tagger_model(tagger, &model) == L3A_OK ? model : NULL;
}

const char *l3a_tagger_backbone(const l3a_tagger *tagger) {
    return tagger ? tagger->backbone_path : NULL;
}

void l3a_tagger_free(l3a_tagger *tagger) {
    if (!tagger) {
        return;
    }
    l3a_context *context = tagger->context;
    scorer_free(tagger->current);
    library_free(context, &tagger->library);
    l3a_history_free(tagger->history);
    l3a_model_free(tagger->model);
    l3a_backbone_free(tagger->backbone);
    if (tagger->has_lock) {
        pthread_mutex_destroy(&tagger->lock);
    }
    release(context, tagger->path);
    release(context, tagger->backbone_path);
    release(context, tagger);
}
