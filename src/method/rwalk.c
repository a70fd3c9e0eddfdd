/* Riemannian Walk (Chaudhry et al. 2018): a coefficient is held by how much the outputs depend on it (F) and by how much it lowered
 * the loss on its path (s), each scaled to at most 1: penalty λ/2 Σᵢ (Fᵢ/max F + sᵢ/max s) (wᵢ − wᵢ*)².
 *
 * F is a moving average of the squared gradient during training (the paper's EWC++, equation 6). Each step Δw adds to the path
 *   max(0, −g Δw / (½ F Δw² + ε)),
 * the first-order decrease of the loss over the distance moved (equation 8, at every step). At the end of a phase, s becomes the
 * mean of its value before and the phase's path (section 4.3). */
#include "method/head.h"

#include <string.h>

struct rwalk {
    struct head head;
    float *fisher, *score, *importance, *anchor; /* [classes x inputs] */
    float *path;                                 /* of the current phase */
    float *gradient, *before;                    /* of the current step */
};

static const float NEW_SHARE = 0.1F, SMALL = 1e-8F;

enum { KEPT_ARRAYS = 4, ARRAYS = 7 };

static void arrays_of(struct rwalk *walk, float **arrays[ARRAYS]) {
    float **const all[ARRAYS] = {&walk->fisher, &walk->score,    &walk->importance, &walk->anchor,
                                 &walk->path,   &walk->gradient, &walk->before};
    memcpy(arrays, all, sizeof all);
}

static l3a_status prepare(struct head *head, struct rows *rows) {
    struct rwalk *walk = (struct rwalk *)head;
    l3a_status status = L3A_OK;
    float **arrays[ARRAYS];
    (void)rows;
    arrays_of(walk, arrays);
    for (size_t i = 0; i < ARRAYS; i++) {
        const size_t old = i < KEPT_ARRAYS ? head->old : 0;
        TRY(extend_array(head->context, arrays[i], old, head->classes, head->inputs * sizeof **arrays[i]));
    }
done:
    return status;
}

static void add_penalty(struct head *head, float *gradient) {
    struct rwalk *walk = (struct rwalk *)head;
    const size_t bytes = head->classes * head->inputs * sizeof *gradient;
    const float lambda = (float)head->tuning.lambda;
    memcpy(walk->gradient, gradient, bytes);
    memcpy(walk->before, head->coefficients, bytes);
    for (size_t i = 0; i < head->old * head->inputs; i++) {
        gradient[i] += lambda * walk->importance[i] * (head->coefficients[i] - walk->anchor[i]);
    }
}

static void stepped(struct head *head, const struct rows *rows, const size_t *shown, const struct batch *batch) {
    struct rwalk *walk = (struct rwalk *)head;
    (void)rows;
    (void)shown;
    (void)batch;
    float *restrict fisher = walk->fisher, *restrict path = walk->path;
    const float *restrict g = walk->gradient, *restrict before = walk->before, *restrict now = head->coefficients;
    for (size_t i = 0; i < head->classes * head->inputs; i++) {
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

static l3a_status finish(struct head *head, struct rows *rows) {
    struct rwalk *walk = (struct rwalk *)head;
    const size_t count = head->classes * head->inputs, old = head->old * head->inputs;
    (void)rows;
    for (size_t i = 0; i < count; i++) {
        walk->score[i] = i < old ? 0.5F * (walk->score[i] + walk->path[i]) : walk->path[i];
        walk->anchor[i] = head->coefficients[i];
    }
    const float most_fisher = largest(walk->fisher, count), most_score = largest(walk->score, count);
    for (size_t i = 0; i < count; i++) {
        walk->importance[i] = walk->fisher[i] / most_fisher + walk->score[i] / most_score;
    }
    return L3A_OK;
}

static void release_all(struct head *head) {
    float **arrays[ARRAYS];
    arrays_of((struct rwalk *)head, arrays);
    for (size_t i = 0; i < ARRAYS; i++) {
        release(head->context, *arrays[i]);
    }
}

static const struct head_array kept[] = {
    {"fisher", offsetof(struct rwalk, fisher), L3A_NUMBER_FLOAT32, EACH_CLASS, OF_INPUTS},
    {"score", offsetof(struct rwalk, score), L3A_NUMBER_FLOAT32, EACH_CLASS, OF_INPUTS},
    {"importance", offsetof(struct rwalk, importance), L3A_NUMBER_FLOAT32, EACH_CLASS, OF_INPUTS},
    {"anchor", offsetof(struct rwalk, anchor), L3A_NUMBER_FLOAT32, EACH_CLASS, OF_INPUTS}};

static const struct head_rules rules = {.size = sizeof(struct rwalk),
                                        .prepare = prepare,
                                        .coefficient_terms = add_penalty,
                                        .stepped = stepped,
                                        .finish = finish,
                                        .release = release_all,
                                        .kept = kept,
                                        .kept_count = sizeof kept / sizeof kept[0]};

HEAD_LEARNER(rwalk, rules, 20, 1e-2, 1e-2, 10000, 0, false);
