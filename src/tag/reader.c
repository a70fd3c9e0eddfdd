/* Readers: each tags pictures on a thread of its own, with its own context, working memory and network, which shares the parameters
 * of the tagger's. */
#include "base/memory.h"
#include "base/sized.h"
#include "data/pictures.h"
#include "extract/intake.h"
#include "image/prepare.h"
#include "net/backbone.h"
#include "tag/reader.h"
#include "tag/tagger.h"
#include "tag/tags.h"

#include <string.h>

struct l3a_reader {
    l3a_context *context;
    l3a_tagger *tagger;
    l3a_backbone *backbone;
    /* For single pictures. */
    struct preparer preparer;
    l3a_picture_options picture_options; /* the tagger's, with a limit of its own */
    struct raster picture;               /* its views, and their numbers: */
    size_t views;
    float *planes, *features;
};

l3a_status l3a_reader_create(l3a_tagger *tagger, l3a_reader **reader) {
    l3a_context *context = NULL;
    l3a_reader *made = NULL;
    l3a_status status = L3A_OK;
    if (!tagger || !reader) {
        return L3A_ERROR_ARGUMENT; /* the text of the tagger's context belongs to another thread */
    }
    const l3a_backbone_info *info = l3a_backbone_describe(tagger->backbone);
    TRY(context_fork(tagger->context, tagger->context->threads, true, &context));
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->tagger = tagger;
    made->views = view_rows(tagger->loading.views);
    preparer_start(context, &tagger->loading, &made->preparer);
    TRY(backbone_share(context, tagger->backbone, &made->backbone));
    TRY(allocate(context, made->views, 3 * info->size * info->size * sizeof *made->planes, &made->planes));
    TRY(allocate(context, made->views, info->width * sizeof *made->features, &made->features));
    *reader = made;
    return L3A_OK;
done:
    l3a_reader_free(made);
    if (!made) {
        l3a_context_free(context);
    }
    return status;
}

void l3a_reader_free(l3a_reader *reader) {
    if (reader) {
        l3a_context *context = reader->context;
        l3a_backbone_free(reader->backbone);
        preparer_free(&reader->preparer);
        raster_free(context, &reader->picture);
        release(context, reader->planes);
        release(context, reader->features);
        release(context, reader);
        l3a_context_free(context);
    }
}

const char *l3a_reader_error_text(const l3a_reader *reader) {
    return l3a_error_text(reader ? reader->context : NULL);
}

const char *l3a_reader_error_hint(const l3a_reader *reader) {
    return l3a_error_hint(reader ? reader->context : NULL);
}

l3a_status l3a_reader_limit(l3a_reader *reader, uint64_t pixels) {
    REQUIRE(reader, reader);
    l3a_status status = L3A_OK;
    TRY(picture_options_read(reader->context, reader->tagger->loading.picture, &reader->picture_options));
    if (pixels && pixels < reader->picture_options.pixel_limit) {
        reader->picture_options.pixel_limit = pixels;
    }
    reader->preparer.options.picture = &reader->picture_options;
done:
    return status;
}

/* Scores of pictures, and the crops that scored highest: [pictures x classes]. */
struct results {
    float *scores;
    uint16_t *crops;
};

static l3a_status make_results(l3a_reader *reader, const struct scorer *edition, const float *features, size_t pictures,
                               struct results *results) {
    l3a_status status = L3A_OK;
    TRY(allocate(reader->context, pictures, edition->classes.count * sizeof *results->scores, &results->scores));
    TRY(allocate(reader->context, pictures, edition->classes.count * sizeof *results->crops, &results->crops));
    TRY(scorer_score(reader->context, edition, features, pictures, results->scores, results->crops));
done:
    return status;
}

static void results_free(l3a_reader *reader, struct results *results) {
    release(reader->context, results->scores);
    release(reader->context, results->crops);
}

/* Makes the tags of one of the pictures. */
static l3a_status make_tags(l3a_reader *reader, const struct scorer *edition, const struct results *results, size_t picture,
                            l3a_tags **tags) {
    const size_t first = picture * edition->classes.count;
    const struct picture_scores own = {results->scores + first, results->crops + first, edition->views};
    return tags_create(reader->context, &edition->classes, &own, edition->thresholds, tags);
}

static l3a_status tag_picture(l3a_reader *reader, const struct picture_source *source, l3a_tags **tags) {
    struct scorer *edition = NULL;
    struct results results = {0};
    l3a_status status = L3A_OK;
    TRY(preparer_read(&reader->preparer, source, &reader->picture));
    preparer_deliver(&reader->preparer, &reader->picture, reader->planes);
    edition = tagger_borrow(reader->tagger);
    TRY(l3a_backbone_run(reader->backbone, reader->planes, reader->views, reader->features));
    TRY(make_results(reader, edition, reader->features, 1, &results));
    TRY(make_tags(reader, edition, &results, 0, tags));
done:
    scorer_free(edition);
    results_free(reader, &results);
    return status;
}

l3a_status l3a_reader_tag_file(l3a_reader *reader, const char *path, l3a_tags **tags) {
    REQUIRE(reader, reader, path, tags);
    return tag_picture(reader, &(struct picture_source){.name = path}, tags);
}

l3a_status l3a_reader_tag_bytes(l3a_reader *reader, const char *name, const void *bytes, size_t count, l3a_tags **tags) {
    REQUIRE(reader, reader, name, tags);
    if (count) {
        REQUIRE(reader, bytes);
    }
    const struct picture_source source = picture_in_memory(name, bytes, count);
    return tag_picture(reader, &source, tags);
}

/* ---- In steps ---- */

size_t l3a_reader_inputs(const l3a_reader *reader) {
    const l3a_backbone_info *info = reader ? l3a_backbone_describe(reader->backbone) : NULL;
    return info ? reader->views * 3 * info->size * info->size : 0;
}

size_t l3a_reader_width(const l3a_reader *reader) {
    return reader ? reader->views * l3a_backbone_describe(reader->backbone)->width : 0;
}

l3a_status l3a_reader_prepare(l3a_reader *reader, const char *name, const void *bytes, size_t count, float *input,
                              uint64_t *checksum) {
    REQUIRE(reader, reader, name, input, checksum);
    if (count) {
        REQUIRE(reader, bytes);
    }
    const struct picture_source source = picture_in_memory(name, bytes, count);
    const l3a_status status = preparer_read(&reader->preparer, &source, &reader->picture);
    *checksum = reader->preparer.reader.checksum;
    if (status == L3A_OK) {
        preparer_deliver(&reader->preparer, &reader->picture, input);
    }
    return status;
}

l3a_status l3a_reader_prepare_pixels(l3a_reader *reader, const l3a_picture *picture, float *input) {
    REQUIRE(reader, reader, picture, input);
    l3a_picture own;
    l3a_status status = L3A_OK;
    TRY(READ_SIZED(reader->context, picture, own));
    FAIL_IF(!own.pixels || !own.width || !own.height || own.width > SIZE_MAX / 3 / own.height, reader->context, L3A_ERROR_ARGUMENT,
            NULL, "the picture has no pixels");
    TRY(preparer_take(&reader->preparer, own.width, own.height, own.pixels, &reader->picture));
    preparer_deliver(&reader->preparer, &reader->picture, input);
done:
    return status;
}

l3a_status l3a_reader_compute(l3a_reader *reader, const float *inputs, size_t pictures, float *features) {
    REQUIRE(reader, reader, inputs, features);
    const size_t input = l3a_reader_inputs(reader) / reader->views, width = l3a_reader_width(reader) / reader->views;
    const size_t rows = pictures * reader->views, run = backbone_batch(reader->backbone);
    l3a_status status = L3A_OK;
    for (size_t first = 0; first < rows; first += run) {
        const size_t count = rows - first < run ? rows - first : run;
        TRY(l3a_backbone_run(reader->backbone, inputs + first * input, count, features + first * width));
    }
done:
    return status;
}

size_t reader_batch(const l3a_reader *reader) {
    return backbone_batch(reader->backbone);
}

l3a_context *reader_context(l3a_reader *reader) {
    return reader->context;
}

l3a_status reader_look(l3a_reader *reader, const struct picture_source *pictures, size_t count, float *features,
                       struct arrival *arrivals) {
    struct intake intake = {0};
    l3a_status status = L3A_OK;
    TRY(intake_open(reader->context, reader->backbone, &reader->preparer.options, pictures, count, count, &intake));
    TRY(intake_next(&intake, count, features));
    memcpy(arrivals, intake.arrivals, count * sizeof *arrivals);
done:
    intake_close(&intake);
    return status;
}

l3a_status l3a_reader_score(l3a_reader *reader, const float *features, size_t pictures, l3a_tags_callback *on_tags, void *user) {
    REQUIRE(reader, reader, features, on_tags);
    struct scorer *edition = tagger_borrow(reader->tagger);
    struct results results = {0};
    l3a_status status = L3A_OK;
    TRY(make_results(reader, edition, features, pictures, &results));
    for (size_t i = 0; i < pictures; i++) {
        l3a_tags *tags = NULL;
        TRY(make_tags(reader, edition, &results, i, &tags));
        const int stop = on_tags(i, L3A_OK, tags, user);
        l3a_tags_free(tags);
        FAIL_IF(stop, reader->context, L3A_ERROR_CANCELLED, NULL, "pictures: cancelled");
    }
done:
    scorer_free(edition);
    results_free(reader, &results);
    return status;
}

/* ---- Many files ---- */

/* What a call to tag many pictures hands from batch to batch. */
struct delivery {
    struct intake intake;
    float *features; /* of a batch */
    l3a_tags_callback *on_tags;
    void *user;
    size_t index; /* of the next picture */
};

/* Passes the pictures of a batch to the callback. */
static l3a_status deliver(l3a_reader *reader, const struct scorer *edition, const struct results *results,
                          struct delivery *delivery) {
    l3a_context *context = reader->context;
    const struct intake *intake = &delivery->intake;
    size_t good = 0;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < intake->count; i++) {
        const struct arrival *arrival = &intake->arrivals[i];
        l3a_tags *tags = NULL;
        if (arrival->status == L3A_OK) {
            TRY(make_tags(reader, edition, results, good++, &tags));
        } else {
            fail(context, arrival->status, arrival->error_hint, "%s", arrival->error_text);
        }
        const int stop = delivery->on_tags(delivery->index++, arrival->status, tags, delivery->user);
        l3a_tags_free(tags);
        FAIL_IF(stop, context, L3A_ERROR_CANCELLED, NULL, "pictures: cancelled");
    }
done:
    return status;
}

static l3a_status tag_batch(l3a_reader *reader, const struct scorer *edition, size_t count, struct delivery *delivery) {
    const struct intake *intake = &delivery->intake;
    struct results results = {0};
    l3a_status status = L3A_OK;
    TRY(intake_next(&delivery->intake, count, delivery->features));
    if (intake->good) {
        TRY(make_results(reader, edition, delivery->features, intake->good, &results));
    }
    TRY(deliver(reader, edition, &results, delivery));
done:
    results_free(reader, &results);
    return status;
}

static l3a_status tag_sources(l3a_reader *reader, const struct picture_source *pictures, size_t count, l3a_tags_callback *on_tags,
                              void *user) {
    l3a_context *context = reader->context;
    struct delivery delivery = {.on_tags = on_tags, .user = user};
    struct scorer *edition = NULL;
    l3a_status status = L3A_OK;
    const size_t most = l3a_tagger_batch(reader->tagger), batch = count < most ? count : most;
    edition = tagger_borrow(reader->tagger);
    TRY(allocate(context, batch, l3a_reader_width(reader) * sizeof *delivery.features, &delivery.features));
    TRY(intake_open(context, reader->backbone, &reader->preparer.options, pictures, count, batch, &delivery.intake));
    while (delivery.index < count) {
        const size_t left = count - delivery.index;
        TRY(tag_batch(reader, edition, left < batch ? left : batch, &delivery));
    }
done:
    intake_close(&delivery.intake);
    release(context, delivery.features);
    scorer_free(edition);
    return status;
}

l3a_status l3a_reader_tag_files(l3a_reader *reader, const char *const *paths, size_t count, l3a_tags_callback *on_tags,
                                void *user) {
    REQUIRE(reader, reader, on_tags);
    if (count) {
        REQUIRE(reader, paths);
    }
    l3a_context *context = reader->context;
    struct picture_source *pictures = NULL;
    l3a_status status = L3A_OK;
    TRY(need_items(context, __func__, "paths", paths, count));
    TRY(pictures_in_files(context, paths, count, &pictures));
    TRY(tag_sources(reader, pictures, count, on_tags, user));
done:
    release(context, pictures);
    return status;
}

l3a_status l3a_reader_tag_pictures(l3a_reader *reader, const l3a_pictures *pictures, size_t first, size_t count,
                                   l3a_tags_callback *on_tags, void *user) {
    REQUIRE(reader, reader, pictures, on_tags);
    l3a_context *context = reader->context;
    struct picture_source *sources = NULL;
    l3a_status status = L3A_OK;
    const size_t all = l3a_pictures_count(pictures);
    FAIL_IF(first > all || count > all - first, context, L3A_ERROR_ARGUMENT, NULL,
            "%zu pictures from number %zu on were asked for, but there are %zu", count, first, all);
    TRY(allocate(context, count, sizeof *sources, &sources));
    for (size_t i = 0; i < count; i++) {
        sources[i] = pictures_source(pictures, first + i);
    }
    TRY(tag_sources(reader, sources, count, on_tags, user));
done:
    release(context, sources);
    return status;
}
