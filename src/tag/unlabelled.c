/* The unlabelled pictures of a tagger: a sample of a library. Their features stay in memory while the tagger is open, so that it
 * can say what to expect there; the model keeps sums over them. Pictures that were taught are in the sample, but do not act. */
#include "base/sized.h"
#include "data/pictures.h"
#include "extract/intake.h"
#include "tag/teach.h"

/* More hardly helps (docs/teaching.md). */
enum { SAMPLE = 4000 };

void library_free(l3a_context *context, struct library *library) {
    l3a_features_free(library->table);
    release(context, library->features);
    release(context, library->checksums);
    *library = (struct library){0};
}

static l3a_status make_room(l3a_context *context, size_t count, size_t numbers, struct library *made) {
    l3a_status status = L3A_OK;
    TRY(allocate(context, count, numbers * sizeof *made->features, &made->features));
    TRY(allocate_zeroed(context, count, sizeof *made->checksums, &made->checksums));
done:
    return status;
}

/* The features of pictures, of which those that cannot be read are left out. */
static l3a_status look_at(l3a_tagger *tagger, const struct picture_source *sources, size_t count, struct library *made) {
    l3a_context *context = tagger->context;
    const size_t most = l3a_tagger_batch(tagger), batch = count < most ? count : most;
    const size_t numbers = view_rows(tagger->loading.views) * tagger->model->width;
    struct intake intake = {0};
    l3a_status status = L3A_OK;
    TRY(make_room(context, count, numbers, made));
    TRY(intake_open(context, tagger->backbone, &tagger->loading, sources, count, batch, &intake));
    for (size_t first = 0; first < count; first += batch) {
        TRY(intake_next(&intake, count - first < batch ? count - first : batch, made->features + made->count * numbers));
        for (size_t i = 0; i < intake.count; i++) {
            if (intake.arrivals[i].status == L3A_OK) {
                made->checksums[made->count++] = intake.arrivals[i].checksum;
            } else {
                report_warning(context, "left out: %s", intake.arrivals[i].error_text);
            }
        }
    }
    made->known = true;
    FAIL_IF(!made->count, context, L3A_ERROR_DATA, "give JPEG or PNG pictures", "none of the unlabelled pictures can be read");
done:
    intake_close(&intake);
    return status;
}

/* Warns of what was named and is no picture; an error if nothing else was. */
static l3a_status check_found(l3a_context *context, const l3a_pictures *pictures) {
    static const char hint[] = "give the pictures that are to be tagged, or a folder of them";
    const bool found = l3a_pictures_count(pictures) > 0;
    const char *skipped = l3a_pictures_skipped(pictures, 0);
    l3a_status status = L3A_OK;
    FAIL_IF(!found && skipped, context, L3A_ERROR_DATA, hint, "%s: %s", skipped, l3a_pictures_reason(pictures, 0));
    FAIL_IF(!found, context, L3A_ERROR_DATA, hint, "there are no unlabelled pictures");
    for (size_t i = 0; l3a_pictures_skipped(pictures, i); i++) {
        report_warning(context, "left out: %s: %s", l3a_pictures_skipped(pictures, i), l3a_pictures_reason(pictures, i));
    }
done:
    return status;
}

static l3a_status sample_pictures(l3a_tagger *tagger, const l3a_pictures *pictures, size_t most, struct library *made) {
    l3a_context *context = tagger->context;
    const size_t all = l3a_pictures_count(pictures), count = most < all ? most : all;
    struct picture_source *sources = NULL;
    size_t *chosen = NULL;
    l3a_status status = L3A_OK;
    TRY(check_found(context, pictures));
    TRY(draw_sample(context, tagger->model->options.seed, all, count, &chosen));
    TRY(allocate(context, count, sizeof *sources, &sources));
    for (size_t i = 0; i < count; i++) {
        sources[i] = pictures_source(pictures, chosen[i]);
    }
    TRY(look_at(tagger, sources, count, made));
    made->drawn_from = all;
    made->views = tagger->loading.views;
done:
    release(context, sources);
    release(context, chosen);
    return status;
}

static l3a_status sample_table(const l3a_tagger *tagger, l3a_features *features, const l3a_unlabelled_options *options, size_t most,
                               struct library *made) {
    l3a_context *context = tagger->context;
    const size_t all = l3a_features_rows(features), count = most < all ? most : all;
    const size_t numbers = view_rows(l3a_features_views(features)) * l3a_features_width(features);
    size_t *chosen = NULL;
    l3a_status status = L3A_OK;
    FAIL_IF(!all, context, L3A_ERROR_DATA, NULL, "there are no unlabelled pictures");
    TRY(check_provenance(context, tagger->model->width, l3a_features_views(features), &tagger->model->record_keys,
                         &tagger->model->record_values, features));
    TRY(draw_sample(context, tagger->model->options.seed, all, count, &chosen));
    TRY(make_room(context, count, numbers, made));
    TRY(l3a_features_read(features, chosen, 0, count, made->features));
    for (size_t i = 0; i < count && options->checksums; i++) {
        made->checksums[i] = options->checksums[chosen[i]];
    }
    made->known = options->checksums != NULL;
    made->count = count;
    made->drawn_from = options->drawn_from ? options->drawn_from : all;
    made->views = l3a_features_views(features);
done:
    release(context, chosen);
    return status;
}

/* Gives the model the sums over the sample, but for pictures that were taught. */
static l3a_status give(const l3a_tagger *tagger, const l3a_history *history, struct library *made) {
    l3a_context *context = tagger->context;
    const struct known_index *known;
    bool *judged = NULL;
    l3a_status status = L3A_OK;
    TRY(history_index(history, &known));
    TRY(allocate_zeroed(context, made->count, sizeof *judged, &judged));
    for (size_t i = 0; i < made->count && made->known; i++) {
        judged[i] = known_by_checksum(known, made->checksums[i]).entry != NULL;
    }
    TRY(l3a_features_wrap(context, made->features, NULL, made->count, made->views, tagger->model->width, NULL, 0, &made->table));
    const struct unlabelled_source source = {.features = made->table,
                                             .checksums = made->known ? made->checksums : NULL,
                                             .judged = judged,
                                             .most = made->count,
                                             .drawn_from = made->drawn_from};
    TRY(model_set_unlabelled(tagger->model, &source));
done:
    release(context, judged);
    return status;
}

l3a_status l3a_tagger_set_unlabelled(l3a_tagger *tagger, const l3a_pictures *pictures, l3a_features *features,
                                     const l3a_unlabelled_options *options) {
    REQUIRE(tagger, tagger);
    const struct unlabelled_source none = {0};
    l3a_unlabelled_options own;
    struct library made = {0};
    l3a_history *history;
    l3a_status status = L3A_OK;
    TRY(READ_SIZED(tagger->context, options, own));
    FAIL_IF(pictures && features, tagger->context, L3A_ERROR_ARGUMENT, "give one of the two",
            "unlabelled images are pictures or features, not both");
    TRY(tagger_ready_to_change(tagger, &history));
    const size_t most = own.most ? (size_t)own.most : SAMPLE;
    if (pictures) {
        TRY(sample_pictures(tagger, pictures, most, &made));
    } else if (features) {
        TRY(sample_table(tagger, features, &own, most, &made));
    }
    status = made.count ? give(tagger, history, &made) : model_set_unlabelled(tagger->model, &none);
    TRY(tagger_settle(tagger, status, false));
    library_free(tagger->context, &tagger->library);
    tagger->library = made;
    made = (struct library){0};
done:
    library_free(tagger->context, &made);
    return status;
}

l3a_features *l3a_tagger_library(l3a_tagger *tagger) {
    /* Without crops, they do not say what a tagger that looks at crops tags. */
    const bool tells = tagger && (tagger->library.views > 1 || tagger->loading.views <= 1);
    return tells ? tagger->library.table : NULL;
}
