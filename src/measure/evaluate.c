#include "measure/evaluate.h"

#include "measure/metrics.h"

#include <string.h>

enum { BLOCK_ROWS = 1024, STRIP = 1 << 21 }; /* images that are scored, and numbers that are shared, at a time */

/* The numbers of the images [first, first + count) in the table. */
static l3a_status list_images(const struct evaluation *evaluation, size_t first, size_t count, size_t **rows) {
    l3a_status status = L3A_OK;
    if (evaluation->count == evaluation->choice.count) {
        return choice_list(&evaluation->choice, first, count, rows);
    }
    TRY(allocate(evaluation->features->context, count, sizeof **rows, rows));
    for (size_t i = 0; i < count; i++) {
        (*rows)[i] = first + i;
    }
done:
    return status;
}

/* The labels of all images. */
static l3a_status gather_labels(struct evaluation *evaluation) {
    enum { BLOCK = 1 << 16 };
    l3a_context *context = evaluation->features->context;
    l3a_status status = L3A_OK;
    const size_t classes = evaluation->classes;
    TRY(allocate(context, evaluation->count, classes, &evaluation->labels));
    for (size_t first = 0, n; status == L3A_OK && first < evaluation->count; first += n) {
        size_t *rows = NULL;
        n = evaluation->count - first < BLOCK ? evaluation->count - first : BLOCK;
        status = list_images(evaluation, first, n, &rows);
        if (status == L3A_OK) {
            status = features_gather_labels(evaluation->features, rows, n, evaluation->columns, classes,
                                            evaluation->labels + first * classes);
        }
        release(context, rows);
    }
done:
    return status;
}

static l3a_status begin(l3a_features *features, const size_t *columns, size_t classes, bool all, struct evaluation *evaluation) {
    l3a_context *context = features->context;
    struct own_rows *own = &evaluation->rows;
    l3a_status status = L3A_OK;
    *evaluation = (struct evaluation){.features = features, .columns = columns, .classes = classes};
    TRY(choice_make(features, BY_LABEL, columns, classes, &evaluation->choice));
    evaluation->count = own->all = all ? features->rows : evaluation->choice.count;
    own_part(context, own->all, &own->first, &own->count);
    TRY(list_images(evaluation, own->first, own->count, &own->rows));
    if (leads(context)) {
        TRY(gather_labels(evaluation));
    }
done:
    return status;
}

l3a_status evaluation_begin(l3a_features *features, const size_t *columns, size_t classes, struct evaluation *evaluation) {
    return begin(features, columns, classes, false, evaluation);
}

l3a_status evaluation_begin_all(l3a_features *features, const size_t *columns, size_t classes, struct evaluation *evaluation) {
    return begin(features, columns, classes, true, evaluation);
}

void evaluation_free(struct evaluation *evaluation) {
    if (evaluation->features) {
        l3a_context *context = evaluation->features->context;
        release(context, evaluation->rows.rows);
        release(context, evaluation->labels);
        release(context, evaluation->scores);
        choice_free(&evaluation->choice);
    }
}

l3a_status evaluation_row(const struct evaluation *evaluation, size_t image, size_t *row) {
    size_t *list = NULL;
    const l3a_status status = list_images(evaluation, image, 1, &list);
    if (status == L3A_OK) {
        *row = list[0];
    }
    release(evaluation->features->context, list);
    return status;
}

const float *evaluation_scores(const struct evaluation *evaluation, size_t classifier) {
    return evaluation->scores + classifier * evaluation->count * evaluation->classes;
}

static uint64_t strip_length(uint64_t scores) {
    return scores < STRIP ? scores + scores % 2 : STRIP;
}

uint64_t evaluation_bytes(const l3a_context *context, uint64_t images, uint64_t classes) {
    size_t first, own;
    own_part(context, (size_t)images, &first, &own);
    const uint64_t all = leads(context) ? images * classes * (sizeof(float) + 1) : 0,
                   part = own < images ? (own * classes + strip_length(images * classes)) * sizeof(float) : 0;
    return all + part + own * sizeof(size_t);
}

/* Copies this process's part of the scores to where they are in a strip of all of them, which begins at a number. */
static void fill_strip(const struct evaluation *evaluation, size_t classifiers, const float *own, size_t begin, size_t length,
                       float *strip) {
    const struct own_rows *rows = &evaluation->rows;
    const size_t classes = evaluation->classes, part = rows->count * classes;
    for (size_t i = 0; i < classifiers; i++) {
        const size_t from = (i * rows->all + rows->first) * classes, to = from + part;
        const size_t first = from < begin ? begin : from, last = to < begin + length ? to : begin + length;
        if (first < last) {
            memcpy(strip + (first - begin), own + i * part + (first - from), (last - first) * sizeof *strip);
        }
    }
}

/* Process 0 collects the scores of all. In a strip, every process has scores where the others have zeros, so that the sums of their
 * bits are their bits, and none is rounded. */
static l3a_status collect_scores(struct evaluation *evaluation, size_t classifiers, const float *own) {
    l3a_context *context = evaluation->features->context;
    l3a_status status = L3A_OK;
    const size_t all = classifiers * evaluation->count * evaluation->classes;
    float *strip = NULL;
    TRY(allocate(context, (size_t)strip_length(all), sizeof *strip, &strip));
    if (leads(context)) {
        TRY(allocate(context, all, sizeof *evaluation->scores, &evaluation->scores));
    }
    for (size_t first = 0, n; first < all; first += n) {
        n = all - first < STRIP ? all - first : STRIP;
        memset(strip, 0, (n + n % 2) * sizeof *strip);
        fill_strip(evaluation, classifiers, own, first, n, strip);
        TRY(sum_counts(context, (void *)strip, (n + 1) / 2));
        if (leads(context)) {
            memcpy(evaluation->scores + first, strip, n * sizeof *strip);
        }
    }
    report_share(context);
done:
    release(context, strip);
    return status;
}

l3a_status evaluation_score(struct evaluation *evaluation, size_t classifiers, size_t blocks, score_rows *score, void *state) {
    l3a_features *features = evaluation->features;
    l3a_context *context = features->context;
    l3a_status status = L3A_OK;
    const size_t count = evaluation->rows.count, classes = evaluation->classes;
    float *values = NULL, *scores = NULL, **places = NULL;
    const size_t each = view_rows(features->views), most = blocks * (each < BLOCK_ROWS ? BLOCK_ROWS / each : 1);
    TRY(allocate(context, most, features_row(features) * sizeof *values, &values));
    TRY(allocate(context, classifiers, sizeof *places, &places));
    TRY(allocate(context, classifiers * count, classes * sizeof *scores, &scores));
    for (size_t first = 0; first < count; first += most) {
        const size_t n = count - first < most ? count - first : most;
        TRY(report_progress(context, "evaluate", first, count));
        TRY(l3a_features_read(features, evaluation->rows.rows + first, 0, n, values));
        for (size_t i = 0; i < classifiers; i++) {
            places[i] = scores + (i * count + first) * classes;
        }
        TRY(score(state, values, n, places));
    }
    TRY(report_progress(context, "evaluate", count, count));
    if (divides_rows(context)) {
        TRY(collect_scores(evaluation, classifiers, scores));
    } else {
        evaluation->scores = scores;
        scores = NULL;
    }
done:
    release(context, values);
    release(context, scores);
    release(context, places);
    return status;
}

l3a_status evaluation_measure(const struct evaluation *evaluation, size_t classifier, const double *thresholds,
                              l3a_metrics *metrics, double *average_precision) {
    l3a_context *context = evaluation->features->context;
    l3a_status status = L3A_OK;
    double *precisions = NULL;
    TRY(allocate(context, evaluation->classes, sizeof *precisions, &precisions));
    if (leads(context)) {
        status = measure(context, evaluation_scores(evaluation, classifier), evaluation->labels, evaluation->count,
                         evaluation->classes, thresholds, metrics, precisions);
    }
    TRY(follow_lead_bytes(context, status, metrics, sizeof *metrics));
    TRY(follow_lead_bytes(context, status, precisions, evaluation->classes * sizeof *precisions));
    if (average_precision) {
        memcpy(average_precision, precisions, evaluation->classes * sizeof *precisions);
    }
done:
    release(context, precisions);
    return status;
}

l3a_status evaluation_among(const struct evaluation *evaluation, size_t classifier, size_t first, size_t last, double *mean_ap) {
    l3a_context *context = evaluation->features->context;
    l3a_status status = L3A_OK;
    if (leads(context)) {
        status = measure_among(context, evaluation_scores(evaluation, classifier), evaluation->labels, evaluation->count,
                               evaluation->classes, first, last, mean_ap);
    }
    return follow_lead_bytes(context, status, mean_ap, sizeof *mean_ap);
}

l3a_status evaluation_curves(const struct evaluation *evaluation, float *curves) {
    l3a_context *context = evaluation->features->context;
    l3a_status status = L3A_OK;
    if (leads(context)) {
        status = measure_curves(context, evaluation_scores(evaluation, 0), evaluation->labels, evaluation->count,
                                evaluation->classes, curves);
    }
    return follow_lead_bytes(context, status, curves, evaluation->classes * CURVE_POINTS * sizeof *curves);
}
