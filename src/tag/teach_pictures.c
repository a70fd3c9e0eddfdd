/* The pictures of a lesson: those in files and in memory go through the network; others come with their features. */
#include "extract/intake.h"
#include "tag/teach.h"

#include <string.h>

static float *next_row(const struct teaching *teaching) {
    return teaching->features + teaching->row_count * teaching->width;
}

/* The features of a picture that could be read are in the next row. */
static l3a_status keep_outcome(struct teaching *teaching, size_t index, const struct arrival *arrival) {
    struct plan *plan = &teaching->plans[index];
    plan->bad = arrival->status != L3A_OK;
    plan->checksum = arrival->checksum;
    if (!plan->bad) {
        plan->row = teaching->row_count++;
    }
    return lesson_set_outcome(teaching->lesson, index, arrival->status, plan->bad ? arrival->error_text : NULL);
}

/* indices: the numbers of the pictures in the lesson. */
static l3a_status compute_features(struct teaching *teaching, const struct picture_source *pictures, const size_t *indices,
                                   size_t count) {
    const l3a_tagger *tagger = teaching->tagger;
    const size_t most = l3a_tagger_batch(tagger), batch = count < most ? count : most;
    struct intake intake = {0};
    l3a_status status = L3A_OK;
    TRY(intake_open(teaching->context, tagger->backbone, &teaching->loading, pictures, count, batch, &intake));
    for (size_t first = 0; first < count; first += batch) {
        TRY(intake_next(&intake, count - first < batch ? count - first : batch, next_row(teaching)));
        for (size_t i = 0; i < intake.count; i++) {
            TRY(keep_outcome(teaching, indices[first + i], &intake.arrivals[i]));
        }
    }
done:
    intake_close(&intake);
    return status;
}

static l3a_status read_pictures(struct teaching *teaching) {
    l3a_context *context = teaching->context;
    const l3a_lesson *lesson = teaching->lesson;
    struct picture_source *pictures = NULL;
    size_t *indices = NULL, count = 0;
    l3a_status status = L3A_OK;
    TRY(allocate(context, lesson->count, sizeof *pictures, &pictures));
    TRY(allocate(context, lesson->count, sizeof *indices, &indices));
    for (size_t i = 0; i < lesson->count; i++) {
        const struct lesson_picture *picture = &lesson->pictures[i];
        if (!picture->features && !teaching->plans[i].seen) {
            pictures[count] = lesson_source(picture);
            indices[count++] = i;
        }
    }
    TRY(count ? compute_features(teaching, pictures, indices, count) : L3A_OK);
done:
    release(context, pictures);
    release(context, indices);
    return status;
}

/* Takes over the features of the pictures that come with them: the views that are learned, of those that are scored. */
static l3a_status take_features(struct teaching *teaching) {
    l3a_context *context = teaching->context;
    const size_t scored = teaching->tagger->loading.views, views = teaching->loading.views;
    const size_t width = teaching->model->width, count = view_rows(scored) * width;
    size_t first;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < teaching->lesson->count; i++) {
        const struct lesson_picture *picture = &teaching->lesson->pictures[i];
        const struct arrival arrival = {.checksum = picture->checksum};
        if (!picture->features) {
            continue;
        }
        FAIL_IF(picture->feature_count != count, context, L3A_ERROR_MISMATCH, "compute them with a reader of this tagger",
                "%s: the picture comes with %zu features, but a reader computes %zu", picture->path, picture->feature_count, count);
        FAIL_IF(!views_within(views, scored, &first), context, L3A_ERROR_MISMATCH,
                "teach the picture itself instead of its features",
                "%s: the model learns %zu views of a picture, which are not among the %zu that it scores", picture->path, views,
                scored);
        float *row = next_row(teaching);
        memcpy(row, picture->features, width * sizeof *row);
        memcpy(row + width, picture->features + first * width, (teaching->width - width) * sizeof *row);
        TRY(keep_outcome(teaching, i, &arrival));
    }
done:
    return status;
}

/* Fails if a picture must be readable and is not. */
static l3a_status check_read(const struct teaching *teaching) {
    const l3a_lesson *lesson = teaching->lesson;
    size_t bad = 0, first = lesson->count;
    l3a_status status = L3A_OK;
    for (size_t i = lesson->count; i-- > 0;) {
        bad += teaching->plans[i].bad;
        first = teaching->plans[i].bad ? i : first;
    }
    FAIL_IF(bad == lesson->count && bad > 1, teaching->context, lesson->pictures[0].outcome, "give JPEG or PNG pictures",
            "none of the %zu pictures can be read; the first: %s", bad, lesson->pictures[0].problem);
    FAIL_IF(bad && (teaching->options.strict || bad == lesson->count), teaching->context, lesson->pictures[first].outcome,
            "leave this picture out, or replace it", "%s", lesson->pictures[first].problem);
done:
    return status;
}

l3a_status teach_read(struct teaching *teaching) {
    l3a_status status = L3A_OK;
    TRY(read_pictures(teaching));
    TRY(take_features(teaching));
    TRY(check_read(teaching));
done:
    return status;
}
