#include "measure/evaluate.h"

#include "data/features.h"
#include "measure/metrics.h"

enum { BLOCK_ROWS = 1024 };

static l3a_status gather_labels(struct evaluation *evaluation) {
    const l3a_status status = allocate(evaluation->features->context, evaluation->count, evaluation->classes, &evaluation->labels);
    if (status == L3A_OK) {
        features_gather_labels(evaluation->features, evaluation->rows, evaluation->count, evaluation->columns, evaluation->classes,
                               evaluation->labels);
    }
    return status;
}

l3a_status evaluation_begin(l3a_features *features, const size_t *columns, size_t classes, struct evaluation *evaluation) {
    l3a_status status = L3A_OK;
    *evaluation = (struct evaluation){.features = features, .columns = columns, .classes = classes};
    TRY(features_rows_with(features, columns, classes, &evaluation->rows, &evaluation->count));
    TRY(gather_labels(evaluation));
done:
    return status;
}

l3a_status evaluation_begin_all(l3a_features *features, const size_t *columns, size_t classes, struct evaluation *evaluation) {
    l3a_status status = L3A_OK;
    *evaluation = (struct evaluation){.features = features, .columns = columns, .classes = classes};
    TRY(allocate(features->context, features->rows, sizeof *evaluation->rows, &evaluation->rows));
    for (size_t i = 0; i < features->rows; i++) {
        evaluation->rows[evaluation->count++] = i;
    }
    TRY(gather_labels(evaluation));
done:
    return status;
}

void evaluation_free(struct evaluation *evaluation) {
    if (evaluation->features) {
        l3a_context *context = evaluation->features->context;
        release(context, evaluation->rows);
        release(context, evaluation->labels);
        release(context, evaluation->scores);
    }
}

const float *evaluation_scores(const struct evaluation *evaluation, size_t classifier) {
    return evaluation->scores + classifier * evaluation->count * evaluation->classes;
}

/* Pairs of scores. */
static size_t score_pairs(const struct evaluation *evaluation, size_t classifiers) {
    return (classifiers * evaluation->count * evaluation->classes + 1) / 2;
}

static l3a_status allocate_scores(struct evaluation *evaluation, size_t classifiers) {
    l3a_context *context = evaluation->features->context;
    const size_t pairs = score_pairs(evaluation, classifiers);
    return divides_rows(context) ? allocate_zeroed(context, pairs, sizeof(uint64_t), &evaluation->scores)
                                 : allocate(context, pairs, sizeof(uint64_t), &evaluation->scores);
}

/* Every process has scores where the others have zeros, so that the sums of their bits are their bits, and none is rounded. */
static l3a_status share_scores(struct evaluation *evaluation, size_t classifiers) {
    l3a_context *context = evaluation->features->context;
    l3a_status status = L3A_OK;
    if (divides_rows(context)) {
        TRY(sum_counts(context, (void *)evaluation->scores, score_pairs(evaluation, classifiers)));
        report_share(context);
    }
done:
    return status;
}

l3a_status evaluation_score(struct evaluation *evaluation, size_t classifiers, size_t blocks, score_rows *score, void *state) {
    l3a_features *features = evaluation->features;
    l3a_context *context = features->context;
    l3a_status status = L3A_OK;
    const size_t count = evaluation->count, classes = evaluation->classes;
    size_t start, own;
    float *values = NULL, **places = NULL;
    own_part(context, count, &start, &own);
    const size_t each = view_rows(features->views), most = blocks * (each < BLOCK_ROWS ? BLOCK_ROWS / each : 1);
    TRY(allocate(context, most, features_row(features) * sizeof *values, &values));
    TRY(allocate(context, classifiers, sizeof *places, &places));
    TRY(allocate_scores(evaluation, classifiers));
    for (size_t first = start; first < start + own; first += most) {
        const size_t n = start + own - first < most ? start + own - first : most;
        TRY(report_progress(context, "evaluate", first - start, own));
        TRY(l3a_features_read(features, evaluation->rows + first, 0, n, values));
        for (size_t i = 0; i < classifiers; i++) {
            places[i] = evaluation->scores + (i * count + first) * classes;
        }
        TRY(score(state, values, n, places));
    }
    TRY(report_progress(context, "evaluate", own, own));
    TRY(share_scores(evaluation, classifiers));
done:
    release(context, values);
    release(context, places);
    return status;
}

l3a_status evaluation_measure(const struct evaluation *evaluation, size_t classifier, const double *thresholds,
                              l3a_metrics *metrics, double *average_precision) {
    return measure(evaluation->features->context, evaluation_scores(evaluation, classifier), evaluation->labels, evaluation->count,
                   evaluation->classes, thresholds, metrics, average_precision);
}

l3a_status evaluation_among(const struct evaluation *evaluation, size_t classifier, size_t first, size_t last, double *mean_ap) {
    return measure_among(evaluation->features->context, evaluation_scores(evaluation, classifier), evaluation->labels,
                         evaluation->count, evaluation->classes, first, last, mean_ap);
}
