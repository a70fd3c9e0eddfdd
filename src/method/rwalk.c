/* Riemannian Walk (Chaudhry et al. 2018): a number is held by how much the outputs depend on it (F) and by how much it lowered the
 * loss on its path (s), each scaled to at most 1: penalty λ/2 Σᵢ (Fᵢ/max F + sᵢ/max s) (wᵢ − wᵢ*)².
 *
 * F is a moving average of the squared gradient during training (the paper's EWC++, equation 6). Each step Δw adds to the path
 *   max(0, −g Δw / (½ F Δw² + ε)),
 * the first-order decrease of the loss over the distance moved (equation 8, at every step). At the end of a phase, s becomes the
 * mean of its value before and the phase's path (section 4.3).
 *
 * The numbers are the coefficients of the head and, if it is trained, those of the network, each scaled by themselves. */
#include "method/head.h"

#include <string.h>

/* Some numbers that are held. */
struct walk {
    float *fisher, *score, *importance, *anchor;
    float *path;              /* of the current phase */
    float *gradient, *before; /* of the current step */
};

struct rwalk {
    struct head head;
    struct walk coefficients; /* [classes x inputs] */
    struct walk network;      /* [its numbers]; without arrays if it is frozen */
    float *now;               /* the network's numbers, work space */
    l3a_status status;        /* of reading them after a step */
};

static const float NEW_SHARE = 0.1F, SMALL = 1e-8F;

enum { KEPT_ARRAYS = 4, ARRAYS = 7 };

static void arrays_of(struct walk *walk, float **arrays[ARRAYS]) {
    float **const all[ARRAYS] = {&walk->fisher, &walk->score,    &walk->importance, &walk->anchor,
                                 &walk->path,   &walk->gradient, &walk->before};
    memcpy(arrays, all, sizeof all);
}

/* old: numbers that were there before the phase */
static l3a_status walk_begin(l3a_context *context, struct walk *walk, size_t old, size_t count) {
    l3a_status status = L3A_OK;
    float **arrays[ARRAYS];
    arrays_of(walk, arrays);
    for (size_t i = 0; i < ARRAYS; i++) {
        TRY(extend_array(context, arrays[i], i < KEPT_ARRAYS ? old : 0, count, sizeof **arrays[i]));
    }
done:
    return status;
}

/* The gradient, and the numbers before a step. */
static void walk_remember(struct walk *walk, const float *gradient, const float *numbers, size_t count) {
    memcpy(walk->gradient, gradient, count * sizeof *gradient);
    memcpy(walk->before, numbers, count * sizeof *numbers);
}

static void walk_hold(const struct walk *walk, float lambda, const float *numbers, size_t count, float *gradient) {
    for (size_t i = 0; i < count; i++) {
        gradient[i] += lambda * walk->importance[i] * (numbers[i] - walk->anchor[i]);
    }
}

static void walk_step(struct walk *walk, const float *now, size_t count) {
    float *restrict fisher = walk->fisher, *restrict path = walk->path;
    const float *restrict g = walk->gradient, *restrict before = walk->before;
    for (size_t i = 0; i < count; i++) {
        const float moved = now[i] - before[i], fall = -g[i] * moved;
        fisher[i] = (1 - NEW_SHARE) * fisher[i] + NEW_SHARE * g[i] * g[i];
        path[i] += (fall > 0 ? fall : 0) / (0.5F * fisher[i] * moved * moved + SMALL);
    }
}

static float largest(const float *values, size_t count) {
    float most = 0;
    for (size_t i = 0; i < count; i++) {
        most = values[i] > most ? values[i] : most;
    }
    return most > 0 ? most : 1;
}

static void walk_end(struct walk *walk, const float *now, size_t old, size_t count) {
    for (size_t i = 0; i < count; i++) {
        walk->score[i] = i < old ? 0.5F * (walk->score[i] + walk->path[i]) : walk->path[i];
        walk->anchor[i] = now[i];
    }
    const float most_fisher = largest(walk->fisher, count), most_score = largest(walk->score, count);
    for (size_t i = 0; i < count; i++) {
        walk->importance[i] = walk->fisher[i] / most_fisher + walk->score[i] / most_score;
    }
}

static void walk_free(l3a_context *context, struct walk *walk) {
    float **arrays[ARRAYS];
    arrays_of(walk, arrays);
    for (size_t i = 0; i < ARRAYS; i++) {
        release(context, *arrays[i]);
    }
}

static l3a_status prepare(struct head *head, struct rows *rows) {
    struct rwalk *rwalk = (struct rwalk *)head;
    l3a_status status = L3A_OK;
    (void)rows;
    TRY(walk_begin(head->context, &rwalk->coefficients, head->old * head->inputs, head->classes * head->inputs));
    if (head->network) {
        const size_t numbers = head->network->trained_numbers;
        TRY(walk_begin(head->context, &rwalk->network, head->old ? numbers : 0, numbers));
        TRY(extend_array(head->context, &rwalk->now, 0, numbers, sizeof *rwalk->now));
    }
done:
    return status;
}

static void add_penalty(struct head *head, float *gradient) {
    struct walk *walk = &((struct rwalk *)head)->coefficients;
    walk_remember(walk, gradient, head->coefficients, head->classes * head->inputs);
    walk_hold(walk, (float)head->tuning.lambda, head->coefficients, head->old * head->inputs, gradient);
}

static l3a_status add_network_penalty(struct head *head) {
    struct rwalk *rwalk = (struct rwalk *)head;
    struct walk *walk = &rwalk->network;
    const size_t numbers = head->network->trained_numbers;
    l3a_status status = L3A_OK;
    TRY(rwalk->status);
    TRY(trained_network_read(&head->network->net, PARAMETER_VALUE, rwalk->now));
    TRY(trained_network_read(&head->network->net, PARAMETER_GRADIENT, walk->gradient));
    memcpy(walk->before, rwalk->now, numbers * sizeof *walk->before);
    if (head->old) {
        float *held = rwalk->now; /* becomes the gradient with the penalty */
        for (size_t i = 0; i < numbers; i++) {
            held[i] = walk->gradient[i] + (float)head->tuning.lambda * walk->importance[i] * (walk->before[i] - walk->anchor[i]);
        }
        TRY(trained_network_write(&head->network->net, PARAMETER_GRADIENT, held));
    }
done:
    return status;
}

static void stepped(struct head *head, const struct rows *rows, const size_t *shown, const struct batch *batch) {
    struct rwalk *rwalk = (struct rwalk *)head;
    (void)rows;
    (void)shown;
    (void)batch;
    walk_step(&rwalk->coefficients, head->coefficients, head->classes * head->inputs);
    if (head->network) {
        rwalk->status = trained_network_read(&head->network->net, PARAMETER_VALUE, rwalk->now);
        walk_step(&rwalk->network, rwalk->now, head->network->trained_numbers);
    }
}

static l3a_status finish(struct head *head, struct rows *rows) {
    struct rwalk *rwalk = (struct rwalk *)head;
    (void)rows;
    walk_end(&rwalk->coefficients, head->coefficients, head->old * head->inputs, head->classes * head->inputs);
    if (head->network) {
        const size_t numbers = head->network->trained_numbers;
        walk_end(&rwalk->network, rwalk->now, head->old ? numbers : 0, numbers);
    }
    return rwalk->status;
}

static void release_all(struct head *head) {
    struct rwalk *rwalk = (struct rwalk *)head;
    walk_free(head->context, &rwalk->coefficients);
    walk_free(head->context, &rwalk->network);
    release(head->context, rwalk->now);
}

#define KEPT(name, member)                                                                                                         \
    { name, offsetof(struct rwalk, member), L3A_NUMBER_FLOAT32, EACH_CLASS, OF_INPUTS }
#define KEPT_OF_NETWORK(name, member)                                                                                              \
    { name, offsetof(struct rwalk, member), L3A_NUMBER_FLOAT32, NETWORK_ONCE, OF_NETWORK }

static const struct head_array kept[] = {KEPT("fisher", coefficients.fisher),
                                         KEPT("score", coefficients.score),
                                         KEPT("importance", coefficients.importance),
                                         KEPT("anchor", coefficients.anchor),
                                         KEPT_OF_NETWORK("network.fisher", network.fisher),
                                         KEPT_OF_NETWORK("network.score", network.score),
                                         KEPT_OF_NETWORK("network.importance", network.importance),
                                         KEPT_OF_NETWORK("network.anchor", network.anchor)};

static const struct head_array during[] = {KEPT("fisher", coefficients.fisher), KEPT("path", coefficients.path),
                                           KEPT_OF_NETWORK("network.fisher", network.fisher),
                                           KEPT_OF_NETWORK("network.path", network.path)};

static const struct head_network_rules network_rules = {.network_terms = add_network_penalty};

static const struct head_rules rules = {.size = sizeof(struct rwalk),
                                        .prepare = prepare,
                                        .coefficient_terms = add_penalty,
                                        .stepped = stepped,
                                        .finish = finish,
                                        .release = release_all,
                                        .kept = kept,
                                        .kept_count = sizeof kept / sizeof kept[0],
                                        .during = during,
                                        .during_count = sizeof during / sizeof during[0],
                                        .network = &network_rules};

HEAD_LEARNER(rwalk, rules, 20, 1e-2, 1e-2, 10000, 0, false);
