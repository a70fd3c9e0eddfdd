/* Herding (Rebuffi et al. 2017, algorithm 4): with features φ scaled to length 1 and their mean μ over the class's images, the n-th
 * exemplar is the image that brings the mean of the first n closest to μ: the one with the largest φᵀ(n μ − Σ φ chosen), since all
 * have length 1. An image that several classes choose is kept once. φ are the features, whatever the head's input is;
 * with views, those of the whole picture. */
#include "method/head.h"

#include <math.h>
#include <string.h>

struct herd {
    l3a_context *context;
    const struct rows *rows;
    size_t width;   /* of the features */
    float *lengths; /* of each image's */
    size_t *members;
    size_t count;             /* rows of the class */
    double *mean, *direction; /* μ, and n μ − Σ φ chosen */
    bool *chosen;             /* by the class */
};

static void herd_free(struct herd *herd) {
    release(herd->context, herd->lengths);
    release(herd->context, herd->members);
    release(herd->context, herd->mean);
    release(herd->context, herd->direction);
    release(herd->context, herd->chosen);
}

static double along(const struct herd *herd, size_t row, const double *direction) {
    const float *features = herd->rows->features + row * herd->rows->inputs;
    double sum = 0;
    for (size_t j = 0; j < herd->width; j++) {
        sum += (double)features[j] * direction[j];
    }
    return sum / (double)herd->lengths[row];
}

static void add_scaled(const struct herd *herd, size_t row, double scale, double *to) {
    const float *features = herd->rows->features + row * herd->rows->inputs;
    for (size_t j = 0; j < herd->width; j++) {
        to[j] += scale * (double)features[j] / (double)herd->lengths[row];
    }
}

static l3a_status herd_create(l3a_context *context, const struct rows *rows, size_t width, struct herd *herd) {
    l3a_status status = L3A_OK;
    *herd = (struct herd){.context = context, .rows = rows, .width = width};
    TRY(allocate(context, rows->count, sizeof *herd->lengths, &herd->lengths));
    TRY(allocate(context, rows->count, sizeof *herd->members, &herd->members));
    TRY(allocate(context, rows->count, sizeof *herd->chosen, &herd->chosen));
    TRY(allocate(context, width, sizeof *herd->mean, &herd->mean));
    TRY(allocate(context, width, sizeof *herd->direction, &herd->direction));
    for (size_t i = 0; i < rows->count; i++) {
        double square = 0;
        for (size_t j = 0; j < width; j++) {
            square += (double)rows->features[i * rows->inputs + j] * (double)rows->features[i * rows->inputs + j];
        }
        herd->lengths[i] = square > 0 ? (float)sqrt(square) : 1;
    }
done:
    return status;
}

static void gather_class(struct herd *herd, size_t k) {
    const struct rows *rows = herd->rows;
    herd->count = 0;
    memset(herd->mean, 0, herd->width * sizeof *herd->mean);
    for (size_t i = 0; i < rows->count; i++) {
        if (rows->labels[i * rows->classes + k] == 1) {
            herd->members[herd->count++] = i;
        }
    }
    for (size_t i = 0; i < herd->count; i++) {
        add_scaled(herd, herd->members[i], 1 / (double)herd->count, herd->mean);
    }
}

/* Marks the class's exemplars in `kept`. */
static void choose(struct herd *herd, size_t wanted, bool *kept) {
    memset(herd->chosen, 0, herd->rows->count * sizeof *herd->chosen);
    memset(herd->direction, 0, herd->width * sizeof *herd->direction);
    for (size_t n = 0; n < wanted && n < herd->count; n++) {
        size_t best = herd->rows->count;
        double most = 0;
        for (size_t j = 0; j < herd->width; j++) {
            herd->direction[j] += herd->mean[j];
        }
        for (size_t i = 0; i < herd->count; i++) {
            const size_t row = herd->members[i];
            const double gain = herd->chosen[row] ? 0 : along(herd, row, herd->direction);
            if (!herd->chosen[row] && (best == herd->rows->count || gain > most)) {
                best = row;
                most = gain;
            }
        }
        herd->chosen[best] = kept[best] = true;
        add_scaled(herd, best, -1, herd->direction);
    }
}

l3a_status memory_keep_herded(struct head *head, struct rows *rows) {
    l3a_status status = L3A_OK;
    struct herd herd = {0};
    bool *kept = NULL;
    herd.context = head->context;
    TRY(allocate_zeroed(head->context, rows->count, sizeof *kept, &kept));
    TRY(herd_create(head->context, rows, head->stored - 1, &herd));
    for (size_t k = 0; k < rows->classes; k++) {
        gather_class(&herd, k);
        choose(&herd, head_memory_of_class(head), kept);
    }
    TRY(memory_keep(head, rows, kept));
done:
    herd_free(&herd);
    release(head->context, kept);
    return status;
}
