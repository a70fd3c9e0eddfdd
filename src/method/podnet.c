/* PODNet (Douillard et al. 2020) as KRT's comparison ran it: a linear head with the asymmetric loss, exemplars chosen by herding
 * that join the phase's images, and two distances between the network and the network before the phase, both means over the rows of
 * a step and times √(h/m), for h classes so far of which m are new:
 *
 *   λ · 5 · mean over stages of POD(x, x')   +   λ · 180 · (1 − cos(z, z')),
 *
 * with x the output of a stage [channels, height, width] and z the features; x' and z' are those before. POD pools the squares over
 * the columns and over the rows, and compares directions:
 *
 *   u = (Σ_w x²[c,h,w] for all c, h;  Σ_h x²[c,h,w] for all c, w),   v = u / |u|,   D = POD = |v − v'|.
 *
 * Gradients: with g = (v − v')/D, that by u is d = (g − v (vᵀg))/|u|, and by x[c,h,w] it is 2 x[c,h,w] (d[c,h] + d[c,w]). That of
 * −cos by z is −(z'/(|z||z'|) − cos · z/|z|²). A distance below 10⁻⁶ is rounding and has no gradient.
 *
 * The four stages of a vision transformer are the tokens of the picture, as a map, after each quarter of its blocks. */
#include "method/published.h"

#include <math.h>
#include <string.h>

enum { STAGES = 4 };
static const double POD_WEIGHT = 5, FLAT_WEIGHT = 180, LEAST_DISTANCE = 1e-6;

struct podnet {
    struct head head;
    double *pooled, *before, *slope; /* of one picture: [channels x (height + width)] */
    size_t room;
};

/* v of a picture; returns |u|. */
static double pool(const float *x, struct shape shape, double *v) {
    const size_t rows = shape.channels * shape.height, all = rows + shape.channels * shape.width;
    double square = 0;
    memset(v, 0, all * sizeof *v);
    for (size_t i = 0; i < rows; i++) {
        for (size_t w = 0; w < shape.width; w++) {
            const double number = (double)x[i * shape.width + w], energy = number * number;
            v[i] += energy;
            v[rows + i / shape.height * shape.width + w] += energy;
        }
    }
    for (size_t i = 0; i < all; i++) {
        square += v[i] * v[i];
    }
    const double length = fmax(sqrt(square), 1e-12);
    for (size_t i = 0; i < all; i++) {
        v[i] /= length;
    }
    return length;
}

/* Adds the gradient of weight · POD of one picture. */
static void add_pod(struct podnet *podnet, const float *x, const float *old, struct shape shape, double weight, float *gradient) {
    const size_t rows = shape.channels * shape.height, all = rows + shape.channels * shape.width;
    double *v = podnet->pooled, *before = podnet->before, *d = podnet->slope;
    const double length = pool(x, shape, v);
    double square = 0, along = 0;
    pool(old, shape, before);
    for (size_t i = 0; i < all; i++) {
        d[i] = v[i] - before[i];
        square += d[i] * d[i];
        along += d[i] * v[i];
    }
    const double distance = sqrt(square);
    if (distance < LEAST_DISTANCE) {
        return;
    }
    for (size_t i = 0; i < all; i++) {
        d[i] = weight * (d[i] - v[i] * along) / (distance * length);
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t w = 0; w < shape.width; w++) {
            const size_t at = i * shape.width + w;
            gradient[at] += (float)(2 * (double)x[at] * (d[i] + d[rows + i / shape.height * shape.width + w]));
        }
    }
}

static l3a_status make_room(struct podnet *podnet) {
    struct head *head = &podnet->head;
    l3a_status status = L3A_OK;
    size_t most = 0;
    for (size_t stage = 1; stage <= STAGES; stage++) {
        const struct shape shape = trained_network_shape(&head->network->net, stage);
        const size_t numbers = shape.channels * (shape.height + shape.width);
        most = numbers > most ? numbers : most;
    }
    if (most > podnet->room) {
        release(head->context, podnet->pooled);
        podnet->pooled = NULL;
        TRY(allocate(head->context, 3 * most, sizeof *podnet->pooled, &podnet->pooled));
        podnet->room = most;
        podnet->before = podnet->pooled + most;
        podnet->slope = podnet->before + most;
    }
done:
    return status;
}

static l3a_status add_distances(struct head *head, struct batch *batch) {
    struct podnet *podnet = (struct podnet *)head;
    struct head_network *network = head->network;
    const double weight = head->tuning.lambda * share_of_old(head) / (double)batch->rows;
    const size_t width = head_output_numbers(head, 0);
    l3a_status status = L3A_OK;
    if (!network->net.old) {
        return L3A_OK;
    }
    TRY(make_room(podnet));
    for (size_t i = 0; i < batch->rows; i++) {
        for (size_t stage = 1; stage <= STAGES; stage++) {
            const struct shape shape = trained_network_shape(&network->net, stage);
            const size_t at = i * head_output_numbers(head, stage);
            add_pod(podnet, network->outputs[stage] + at, network->old_outputs[stage] + at, shape, weight * POD_WEIGHT / STAGES,
                    network->by_outputs[stage] + at);
        }
        add_away_from(width, 1, 1, network->outputs[0] + i * width, network->old_outputs[0] + i * width, weight * FLAT_WEIGHT,
                      network->by_outputs[0] + i * width);
    }
done:
    return status;
}

static l3a_status prepare(struct head *head, struct rows *rows) {
    (void)rows;
    choose_later_rate(head);
    head->tuning.lambda = head->tuning.lambda > 0 ? head->tuning.lambda : 1;
    return L3A_OK;
}

static void release_all(struct head *head) {
    release(head->context, ((struct podnet *)head)->pooled);
}

static const struct head_network_rules network_rules = {
    .plan = {.outputs = {"stage1", "stage2", "stage3", "stage4"}}, .compares = true, .output_terms = add_distances};

static const struct head_rules rules = {.size = sizeof(struct podnet),
                                        .joins = true,
                                        .prepare = prepare,
                                        .looks = true,
                                        .finish = memory_keep_herded,
                                        .release = release_all,
                                        .trained = &published_tuning,
                                        .network = &network_rules};

HEAD_LEARNER(podnet, rules, 20, 1e-2, 1e-2, 1, 20, true);
