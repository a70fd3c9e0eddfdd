#include "extract/intake.h"

#include "base/memory.h"
#include "data/features.h"
#include "net/backbone.h"
#include "net/recipe.h"

#include <stdio.h>
#include <string.h>

/* How many pictures to decode ahead, so that threads go on while the network computes so many; 0: as the loader chooses. */
static size_t pictures_ahead(const l3a_context *context, size_t together) {
    const size_t usual = 2 * (size_t)context->threads;
    return together > PROCESSOR_BATCH && together > usual ? together : 0;
}

l3a_status intake_open(l3a_context *context, l3a_backbone *backbone, const l3a_loader_options *options,
                       const struct picture_source *pictures, size_t count, size_t batch, struct intake *intake) {
    const l3a_backbone_info *info = l3a_backbone_describe(backbone);
    l3a_loader_options own = *options;
    l3a_status status = L3A_OK;
    const size_t run = backbone_batch(backbone), views = view_rows(options->views), room = views + run - 1, most = batch * views;
    *intake =
        (struct intake){.context = context, .backbone = backbone, .run = run, .views = views, .room = room < most ? room : most};
    own.ahead = own.ahead ? own.ahead : pictures_ahead(context, run / views);
    TRY(allocate(context, batch, sizeof *intake->arrivals, &intake->arrivals));
    TRY(allocate(context, intake->room, 3 * info->size * info->size * sizeof *intake->planes, &intake->planes));
    TRY(loader_create(context, pictures, count, &own, NULL, &intake->loader));
done:
    if (status != L3A_OK) {
        intake_close(intake);
    }
    return status;
}

/* Runs the network over the first views that planes holds. */
static l3a_status run(struct intake *intake, size_t count) {
    const l3a_backbone_info *info = l3a_backbone_describe(intake->backbone);
    const size_t view = 3 * info->size * info->size;
    l3a_status status = L3A_OK;
    TRY(l3a_backbone_run(intake->backbone, intake->planes, count, intake->features + intake->done * info->width));
    intake->done += count;
    intake->held -= count;
    memmove(intake->planes, intake->planes + count * view, intake->held * view * sizeof *intake->planes);
done:
    return status;
}

/* Loads the next picture. Fails only if memory runs out or an event cancels it. */
static l3a_status load(struct intake *intake, struct arrival *arrival) {
    const l3a_backbone_info *info = l3a_backbone_describe(intake->backbone);
    size_t index;
    arrival->status = l3a_loader_next(intake->loader, &index, intake->planes + intake->held * 3 * info->size * info->size);
    arrival->checksum = loader_checksum(intake->loader);
    if (arrival->status == L3A_ERROR_CANCELLED || arrival->status == L3A_ERROR_MEMORY) {
        return arrival->status;
    }
    if (arrival->status == L3A_OK) {
        intake->good++;
        intake->held += intake->views;
    } else {
        memcpy(arrival->error_text, intake->context->error_text, sizeof arrival->error_text);
        memcpy(arrival->error_hint, intake->context->error_hint, sizeof arrival->error_hint);
    }
    return L3A_OK;
}

l3a_status intake_next(struct intake *intake, size_t count, float *features) {
    l3a_status status = L3A_OK;
    intake->features = features;
    intake->good = intake->count = intake->held = intake->done = 0;
    while (intake->count < count) {
        TRY(load(intake, &intake->arrivals[intake->count++]));
        if (intake->held >= intake->run) {
            TRY(run(intake, intake->held / intake->run * intake->run));
        }
    }
    TRY(run(intake, intake->held));
done:
    return status;
}

void intake_close(struct intake *intake) {
    if (intake->context) {
        l3a_loader_free(intake->loader);
        release(intake->context, intake->arrivals);
        release(intake->context, intake->planes);
        *intake = (struct intake){0};
    }
}

void print_engine(const l3a_backbone *backbone, size_t count, char text[ENGINE_TEXT]) {
    const struct network_back_end *back_end = backbone->back_end;
    const size_t batch = backbone_batch(backbone);
    text[0] = '\0';
    if (back_end == network_back_end_of_device(backbone->context)) {
        const int length = snprintf(text, ENGINE_TEXT, "%s, batches of %zu", back_end->name, batch);
        if (back_end->describe && length > 0 && length < ENGINE_TEXT / 2) {
            memcpy(text + length, ", ", 3);
            back_end->describe(backbone->state, count < batch ? count : batch, text + length + 2, ENGINE_TEXT - (size_t)length - 2);
        }
    }
}

static const char oriented[] = " oriented";

void backbone_record(const l3a_backbone_info *info, bool orient, struct backbone_record *record) {
    _Static_assert(PROVENANCE == sizeof record->values / sizeof record->values[0], "a value for each record");
    snprintf(record->preprocess, sizeof record->preprocess, "%s%s", info->preprocess, orient ? oriented : "");
    record->values[0] = info->name;
    record->values[1] = info->sha256;
    record->values[2] = record->preprocess;
    record->values[3] = info->pool;
    record->values[4] = info->network[0] ? info->network : NULL;
}

void backbone_record_read(const char *preprocess, const char *pool, const char *network, l3a_backbone_options *options,
                          int *orient) {
    const char *rest = "";
    *options = (l3a_backbone_options){.size = sizeof *options};
    *orient = preprocess && recipe_parse(preprocess, pool, network, options, &rest) && strcmp(rest, oriented) == 0;
}

l3a_status l3a_backbone_sign(const l3a_backbone *backbone, int orient, l3a_features *features) {
    REQUIRE(backbone, backbone, features);
    struct backbone_record record;
    l3a_status status = L3A_OK;
    backbone_record(l3a_backbone_describe(backbone), orient, &record);
    for (size_t i = 0; i < PROVENANCE; i++) {
        TRY(record.values[i] ? l3a_features_set_record(features, provenance[i], record.values[i]) : L3A_OK);
    }
done:
    return status;
}
