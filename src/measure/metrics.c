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

#include "base/memory.h"
#include "base/sized.h"
#include "base/threads.h"

#include <math.h>
#include <string.h>

double logit(double probability) {
    return log(probability / (1 - probability));
}

void same_thresholds(double theta, size_t classes, double *thresholds) {
    for (size_t k = 0; k < classes; k++) {
        thresholds[k] = logit(theta);
    }
}

struct counts {
    uint64_t hits, false_alarms, misses;
};

typedef struct measurement {
    l3a_context *context;
    const float *scores;
    const int8_t *labels;
    size_t rows, classes;
    const double *thresholds; /* one score per class */
    double *average_precision;
    struct counts *counts;
    uint32_t *work; /* 4 x rows for each thread's class */
    size_t slots;
    unsigned char *busy;
} measurement;

/* A key that falls as the score rises; +0 and -0 are the same score. */
static uint32_t falling_key(float score) {
    uint32_t bits;
    const float value = score == 0 ? 0.0F : score;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x80000000U ? bits : ~bits & 0x7FFFFFFFU;
}

/* A stable sort, least significant digit first. The result is in keys and order. */
static void sort_by_key(uint32_t *keys, uint32_t *order, uint32_t *other_keys, uint32_t *other_order, size_t count) {
    enum { BITS = 8, DIGITS = 1 << BITS };
    for (unsigned shift = 0; shift < 32; shift += BITS) {
        size_t at[DIGITS + 1] = {0};
        for (size_t i = 0; i < count; i++) {
            at[(keys[i] >> shift & (DIGITS - 1)) + 1]++;
        }
        for (size_t digit = 1; digit < DIGITS; digit++) {
            at[digit] += at[digit - 1];
        }
        for (size_t i = 0; i < count; i++) {
            const size_t to = at[keys[i] >> shift & (DIGITS - 1)]++;
            other_keys[to] = keys[i];
            other_order[to] = order[i];
        }
        uint32_t *const keys_were = keys, *const order_was = order;
        keys = other_keys;
        order = other_order;
        other_keys = keys_were;
        other_order = order_was;
    }
}

/* Sorts the images whose label of a class is known by falling score. Returns their number; the order is in work + m->rows. */
static size_t rank_images(const measurement *m, size_t k, uint32_t *work) {
    uint32_t *keys = work, *order = work + m->rows;
    size_t count = 0;
    for (size_t i = 0; i < m->rows; i++) {
        keys[count] = falling_key(m->scores[i * m->classes + k]);
        order[count] = (uint32_t)i;
        count += m->labels[i * m->classes + k] >= 0;
    }
    sort_by_key(keys, order, work + 2 * m->rows, work + 3 * m->rows, count);
    return count;
}

static void measure_class(const measurement *m, size_t k, uint32_t *work) {
    struct counts counts = {0, 0, 0};
    for (size_t i = 0; i < m->rows; i++) {
        const int8_t label = m->labels[i * m->classes + k];
        const bool predicted = (double)m->scores[i * m->classes + k] > m->thresholds[k];
        counts.hits += predicted && label == 1;
        counts.false_alarms += predicted && label == 0;
        counts.misses += !predicted && label == 1;
    }
    const size_t count = rank_images(m, k, work);
    const uint32_t *order = work + m->rows;
    size_t positives = 0;
    double sum = 0;
    for (size_t rank = 0; rank < count; rank++) {
        if (m->labels[order[rank] * m->classes + k] == 1) {
            positives++;
            sum += (double)positives / (double)(rank + 1);
        }
    }
    m->average_precision[k] = positives ? 100 * sum / (double)positives : 0;
    m->counts[k] = counts;
}

/* One class at a time, in the work space of a slot that no other thread is using. */
static void measure_classes(void *argument, size_t first, size_t last) {
    const measurement *m = argument;
    size_t slot = 0;
    while (__atomic_test_and_set(&m->busy[slot], __ATOMIC_ACQUIRE)) {
        slot = (slot + 1) % m->slots;
    }
    for (size_t k = first; k < last; k++) {
        measure_class(m, k, m->work + slot * 4 * m->rows);
    }
    __atomic_clear(&m->busy[slot], __ATOMIC_RELEASE);
}

static double percent(uint64_t part, uint64_t whole) {
    return whole ? 100 * (double)part / (double)whole : 0;
}

static double f1(struct counts c) {
    return percent(2 * c.hits, 2 * c.hits + c.false_alarms + c.misses);
}

static void summarise(const measurement *m, l3a_metrics *metrics) {
    struct counts all = {0, 0, 0};
    *metrics = (l3a_metrics){.size = sizeof *metrics};
    for (size_t k = 0; k < m->classes; k++) {
        const struct counts c = m->counts[k];
        metrics->mean_ap += m->average_precision[k] / (double)m->classes;
        metrics->class_precision += percent(c.hits, c.hits + c.false_alarms) / (double)m->classes;
        metrics->class_recall += percent(c.hits, c.hits + c.misses) / (double)m->classes;
        metrics->class_f1 += f1(c) / (double)m->classes;
        all.hits += c.hits;
        all.false_alarms += c.false_alarms;
        all.misses += c.misses;
    }
    metrics->overall_precision = percent(all.hits, all.hits + all.false_alarms);
    metrics->overall_recall = percent(all.hits, all.hits + all.misses);
    metrics->overall_f1 = f1(all);
    metrics->images = m->rows;
}

l3a_status measure(l3a_context *context, const float *scores, const int8_t *labels, size_t rows, size_t classes,
                   const double *thresholds, l3a_metrics *metrics, double *average_precision) {
    l3a_status status = L3A_OK;
    measurement m = {
        .context = context, .scores = scores, .labels = labels, .rows = rows, .classes = classes, .thresholds = thresholds};
    FAIL_IF(!rows || !classes || rows > UINT32_MAX, context, L3A_ERROR_DATA, "measure on at least one image and one class",
            "nothing to measure: %zu images, %zu classes", rows, classes);
    for (size_t k = 0; k < classes; k++) {
        FAIL_IF(isnan(thresholds[k]), context, L3A_ERROR_DATA, NULL, "the threshold of class %zu is not a number", k);
    }
    m.slots = (size_t)context->threads;
    TRY(allocate(context, classes, sizeof *m.average_precision, &m.average_precision));
    TRY(allocate(context, classes, sizeof *m.counts, &m.counts));
    TRY(allocate(context, m.slots, 4 * rows * sizeof *m.work, &m.work));
    TRY(allocate_zeroed(context, m.slots, 1, &m.busy));
    parallel_for(context->threads, classes, 1, measure_classes, &m);
    summarise(&m, metrics);
    if (average_precision) {
        memcpy(average_precision, m.average_precision, classes * sizeof *average_precision);
    }
done:
    release(context, m.average_precision);
    release(context, m.counts);
    release(context, m.work);
    release(context, m.busy);
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
    const size_t width = last - first;
    size_t count = 0;
    float *own_scores = NULL;
    int8_t *own_labels = NULL;
    l3a_metrics metrics = {0};
    double *thresholds = NULL; /* mAP does not depend on them */
    TRY(allocate_zeroed(context, width, sizeof *thresholds, &thresholds));
    TRY(allocate(context, rows, width * sizeof *own_scores, &own_scores));
    TRY(allocate(context, rows, width, &own_labels));
    for (size_t i = 0; i < rows; i++) {
        const int8_t *own = labels + i * classes + first;
        if (memchr(own, 1, width)) {
            memcpy(own_labels + count * width, own, width);
            memcpy(own_scores + count * width, scores + i * classes + first, width * sizeof *scores);
            count++;
        }
    }
    if (count) {
        TRY(measure(context, own_scores, own_labels, count, width, thresholds, &metrics, NULL));
    }
    *mean_ap = metrics.mean_ap;
done:
    release(context, own_scores);
    release(context, own_labels);
    release(context, thresholds);
    return status;
}

static void trace_curve(const measurement *m, size_t k, uint32_t *work, float *curve) {
    const size_t count = rank_images(m, k, work);
    const uint32_t *order = work + m->rows;
    size_t positives = 0, found = 0, point = 0;
    for (size_t i = 0; i < m->rows; i++) {
        positives += m->labels[i * m->classes + k] == 1;
    }
    for (size_t rank = 0; rank < count && positives; rank++) {
        if (m->labels[order[rank] * m->classes + k] == 1) {
            found++;
            for (; point < CURVE_POINTS && point * positives <= found * (CURVE_POINTS - 1); point++) {
                curve[point] = (float)percent(found, rank + 1);
            }
        }
    }
    for (; point < CURVE_POINTS; point++) {
        curve[point] = 0;
    }
}

l3a_status measure_curves(l3a_context *context, const float *scores, const int8_t *labels, size_t rows, size_t classes,
                          float *curves) {
    const measurement m = {.context = context, .scores = scores, .labels = labels, .rows = rows, .classes = classes};
    uint32_t *work = NULL;
    const l3a_status status = allocate(context, rows, 4 * sizeof *work, &work);
    for (size_t k = 0; status == L3A_OK && k < classes; k++) {
        trace_curve(&m, k, work, curves + k * CURVE_POINTS);
    }
    release(context, work);
    return status;
}
