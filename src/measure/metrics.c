/* The metrics of SPEC §4.
 *
 *   AP of a class = (Σ over positives of the precision at their rank) / positives, images sorted by score, highest first, equal
 *   scores in image order; 0 for a class with no positive, which counts in the mean.
 *   A class is predicted if σ(s) > θ, that is, if s > log(θ / (1 - θ)).
 *   CP, CR, CF1: means over classes of precision, recall and F1 = 2 TP / (2 TP + FP + FN), each 0 if undefined.
 *   OP, OR, OF1: the same over all image-class pairs.
 *
 * Pairs with label -1 are ignored. */
#include "measure/metrics.h"

#include "algebra/algebra.h"
#include "base/memory.h"
#include "base/sized.h"
#include "base/threads.h"

#include <math.h>
#include <string.h>

struct counts {
    uint64_t hits, false_alarms, misses;
};

/* The scores and labels of some classes, class by class, and the order of their images. */
struct columns {
    size_t rows, classes;
    float *scores;   /* [classes x rows] */
    int8_t *labels;  /* [classes x rows] */
    uint32_t *order; /* [classes x rows]: the images by falling score */
};

typedef struct measurement {
    const struct columns *columns;
    const double *thresholds; /* one score per class */
    double *average_precision;
    struct counts *counts;
} measurement;

struct turning {
    const float *scores;
    const int8_t *labels;
    size_t classes, first;  /* of the tables, and the first that is wanted */
    const uint32_t *chosen; /* images; NULL: all */
    const struct columns *columns;
};

/* Transposes images [first, last), a few classes at a time, so that what is read stays in the cache. */
static void turn(void *argument, size_t first, size_t last) {
    enum { FEW = 16 };
    const struct turning *t = argument;
    const struct columns *c = t->columns;
    for (size_t start = 0; start < c->classes; start += FEW) {
        const size_t end = c->classes - start < FEW ? c->classes : start + FEW;
        for (size_t i = first; i < last; i++) {
            const size_t from = (t->chosen ? t->chosen[i] : i) * t->classes + t->first;
            for (size_t k = start; k < end; k++) {
                c->scores[k * c->rows + i] = t->scores[from + k];
                c->labels[k * c->rows + i] = t->labels[from + k];
            }
        }
    }
}

static void columns_free(l3a_context *context, struct columns *columns) {
    release(context, columns->scores);
    release(context, columns->labels);
    release(context, columns->order);
}

/* Takes the classes [first, first + columns->classes) of columns->rows images. */
static l3a_status columns_make(l3a_context *context, const float *scores, const int8_t *labels, size_t classes, size_t first,
                               const uint32_t *chosen, struct columns *columns) {
    enum { PART = 256 };
    const size_t rows = columns->rows, width = columns->classes;
    l3a_status status = L3A_OK;
    struct turning turning = {scores, labels, classes, first, chosen, columns};
    TRY(allocate(context, width, rows * sizeof *columns->scores, &columns->scores));
    TRY(allocate(context, width, rows * sizeof *columns->labels, &columns->labels));
    TRY(allocate(context, width, rows * sizeof *columns->order, &columns->order));
    parallel_for(context->threads, rows, PART, turn, &turning);
    TRY(rank_images(context, columns->scores, rows, width, columns->order));
done:
    return status;
}

static void measure_class(const measurement *m, size_t k) {
    const struct columns *c = m->columns;
    const float *scores = c->scores + k * c->rows;
    const int8_t *labels = c->labels + k * c->rows;
    const uint32_t *order = c->order + k * c->rows;
    struct counts counts = {0, 0, 0};
    for (size_t i = 0; m->thresholds && i < c->rows; i++) {
        const bool predicted = (double)scores[i] > m->thresholds[k];
        counts.hits += predicted && labels[i] == 1;
        counts.false_alarms += predicted && labels[i] == 0;
        counts.misses += !predicted && labels[i] == 1;
    }
    size_t known = 0, positives = 0;
    double sum = 0;
    for (size_t rank = 0; rank < c->rows; rank++) {
        const int8_t label = labels[order[rank]];
        known += label >= 0;
        if (label == 1) {
            positives++;
            sum += (double)positives / (double)known;
        }
    }
    m->average_precision[k] = positives ? 100 * sum / (double)positives : 0;
    m->counts[k] = counts;
}

static void measure_classes(void *argument, size_t first, size_t last) {
    for (size_t k = first; k < last; k++) {
        measure_class(argument, k);
    }
}

static double percent(uint64_t part, uint64_t whole) {
    return whole ? 100 * (double)part / (double)whole : 0;
}

static double f1(struct counts c) {
    return percent(2 * c.hits, 2 * c.hits + c.false_alarms + c.misses);
}

static void summarise(const measurement *m, l3a_metrics *metrics) {
    const size_t classes = m->columns->classes;
    struct counts all = {0, 0, 0};
    *metrics = (l3a_metrics){.size = sizeof *metrics};
    for (size_t k = 0; k < classes; k++) {
        const struct counts c = m->counts[k];
        metrics->mean_ap += m->average_precision[k] / (double)classes;
        metrics->class_precision += percent(c.hits, c.hits + c.false_alarms) / (double)classes;
        metrics->class_recall += percent(c.hits, c.hits + c.misses) / (double)classes;
        metrics->class_f1 += f1(c) / (double)classes;
        all.hits += c.hits;
        all.false_alarms += c.false_alarms;
        all.misses += c.misses;
    }
    metrics->overall_precision = percent(all.hits, all.hits + all.false_alarms);
    metrics->overall_recall = percent(all.hits, all.hits + all.misses);
    metrics->overall_f1 = f1(all);
    metrics->images = m->columns->rows;
}

static l3a_status measure_columns(l3a_context *context, const struct columns *columns, const double *thresholds,
                                  l3a_metrics *metrics, double *average_precision) {
    l3a_status status = L3A_OK;
    const size_t classes = columns->classes;
    measurement m = {.columns = columns, .thresholds = thresholds};
    TRY(allocate(context, classes, sizeof *m.average_precision, &m.average_precision));
    TRY(allocate(context, classes, sizeof *m.counts, &m.counts));
    parallel_for(context->threads, classes, 1, measure_classes, &m);
    summarise(&m, metrics);
    if (average_precision) {
        memcpy(average_precision, m.average_precision, classes * sizeof *average_precision);
    }
done:
    release(context, m.average_precision);
    release(context, m.counts);
    return status;
}

l3a_status measure(l3a_context *context, const float *scores, const int8_t *labels, size_t rows, size_t classes,
                   const double *thresholds, l3a_metrics *metrics, double *average_precision) {
    l3a_status status = L3A_OK;
    struct columns columns = {.rows = rows, .classes = classes};
    FAIL_IF(!rows || !classes || rows > INT32_MAX, context, L3A_ERROR_DATA, "measure on at least one image and one class",
            "nothing to measure: %zu images, %zu classes", rows, classes);
    for (size_t k = 0; k < classes; k++) {
        FAIL_IF(isnan(thresholds[k]), context, L3A_ERROR_DATA, NULL, "the threshold of class %zu is not a number", k);
    }
    TRY(columns_make(context, scores, labels, classes, 0, NULL, &columns));
    TRY(measure_columns(context, &columns, thresholds, metrics, average_precision));
done:
    columns_free(context, &columns);
    return status;
}

l3a_status l3a_measure(l3a_context *context, const float *scores, const int8_t *labels, size_t rows, size_t classes,
                       const double *thresholds, l3a_metrics *metrics, double *average_precision) {
    l3a_status status = L3A_OK;
    l3a_metrics own;
    NEED(context, context, scores, labels, thresholds, metrics);
    TRY(CHECK_SIZED(context, metrics));
    TRY(measure(context, scores, labels, rows, classes, thresholds, &own, average_precision));
    TRY(WRITE_SIZED(context, metrics, own));
done:
    return status;
}

l3a_status measure_among(l3a_context *context, const float *scores, const int8_t *labels, size_t rows, size_t classes, size_t first,
                         size_t last, double *mean_ap) {
    l3a_status status = L3A_OK;
    struct columns columns = {.classes = last - first};
    uint32_t *chosen = NULL;
    l3a_metrics metrics = {0};
    TRY(allocate(context, rows, sizeof *chosen, &chosen));
    for (size_t i = 0; i < rows; i++) {
        chosen[columns.rows] = (uint32_t)i;
        columns.rows += memchr(labels + i * classes + first, 1, columns.classes) != NULL;
    }
    if (columns.rows) {
        TRY(columns_make(context, scores, labels, classes, first, chosen, &columns));
        TRY(measure_columns(context, &columns, NULL, &metrics, NULL));
    }
    *mean_ap = metrics.mean_ap;
done:
    columns_free(context, &columns);
    release(context, chosen);
    return status;
}

struct tracing {
    const struct columns *columns;
    float *curves;
};

static void trace_curve(const struct columns *c, size_t k, float *curve) {
    const int8_t *labels = c->labels + k * c->rows;
    const uint32_t *order = c->order + k * c->rows;
    size_t positives = 0, found = 0, known = 0, point = 0;
    for (size_t i = 0; i < c->rows; i++) {
        positives += labels[i] == 1;
    }
    for (size_t rank = 0; rank < c->rows && positives; rank++) {
        const int8_t label = labels[order[rank]];
        known += label >= 0;
        if (label == 1) {
            found++;
            for (; point < CURVE_POINTS && point * positives <= found * (CURVE_POINTS - 1); point++) {
                curve[point] = (float)percent(found, known);
            }
        }
    }
    for (; point < CURVE_POINTS; point++) {
        curve[point] = 0;
    }
}

static void trace_curves(void *argument, size_t first, size_t last) {
    const struct tracing *tracing = argument;
    for (size_t k = first; k < last; k++) {
        trace_curve(tracing->columns, k, tracing->curves + k * CURVE_POINTS);
    }
}

l3a_status measure_curves(l3a_context *context, const float *scores, const int8_t *labels, size_t rows, size_t classes,
                          float *curves) {
    struct columns columns = {.rows = rows, .classes = classes};
    struct tracing tracing = {&columns, curves};
    const l3a_status status = columns_make(context, scores, labels, classes, 0, NULL, &columns);
    if (status == L3A_OK) {
        parallel_for(context->threads, classes, 1, trace_curves, &tracing);
    }
    columns_free(context, &columns);
    return status;
}
