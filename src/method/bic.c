/* Bias Correction (Wu et al. 2019): replay and distillation, then the new classes' scores become α s + β, the two numbers being
 * fitted to images held out of the training, as many for an old class as for a new one: each tenth of the memory, and a share of
 * the phase.
 *
 * With one logistic output a class the fit is a logistic regression with two parameters,
 *   Σ over held images and new classes of log(1 + e^u) − y u + ½ (α − 1)² + ½ β²,  u = α s + β,
 * by Newton's method; the last terms keep it finite where the held images are told apart without error. As the head is linear, the
 * correction is a change of its weights. It moves where a class counts as predicted, and not the order of its scores: AP feels it
 * only through later phases. */
#include "method/head.h"

#include <math.h>
#include <string.h>

enum { HOLD_OUT = 10, NEWTON_STEPS = 30, HALVINGS = 20 };

struct bic {
    struct head head;
    struct rows held; /* of the phase */
};

static void held_free(struct bic *bic) {
    release(bic->head.context, bic->held.features);
    release(bic->head.context, bic->held.labels);
    bic->held = (struct rows){0};
}

/* Moves a row to the held ones; the last takes its place. */
static void take_row(struct rows *rows, size_t row, struct rows *held) {
    const size_t inputs = rows->inputs, classes = rows->classes, last = --rows->count;
    memcpy(held->features + held->count * inputs, rows->features + row * inputs, inputs * sizeof *rows->features);
    memcpy(held->labels + held->count * classes, rows->labels + row * classes, classes);
    held->count++;
    if (row != last) {
        memcpy(rows->features + row * inputs, rows->features + last * inputs, inputs * sizeof *rows->features);
        memcpy(rows->labels + row * classes, rows->labels + last * classes, classes);
    }
}

static size_t held_in_memory(const struct memory *memory) {
    size_t count = 0;
    for (size_t i = 0; i < memory->count; i++) {
        count += memory_holds_out(memory, i);
    }
    return count;
}

static l3a_status prepare(struct head *head, struct rows *rows) {
    struct bic *bic = (struct bic *)head;
    l3a_status status = L3A_OK;
    head->memory.hold_out = HOLD_OUT;
    const size_t wanted = head->old ? held_in_memory(&head->memory) * rows->classes / head->old : 0;
    held_free(bic);
    bic->held.inputs = rows->inputs;
    bic->held.classes = rows->classes;
    TRY(allocate(head->context, wanted, rows->inputs * sizeof(float), &bic->held.features));
    TRY(allocate(head->context, wanted, rows->classes, &bic->held.labels));
    while (bic->held.count < wanted && rows->count > 1) {
        take_row(rows, (size_t)(stream_uniform(&head->random) * (double)rows->count), &bic->held);
    }
done:
    return status;
}

/* Scores of the new classes on held images, with their labels. */
struct pairs {
    size_t count;
    float *scores;
    int8_t *labels;
};

static void add_pairs(const struct head *head, const float *features, const int8_t *labels, size_t classes, struct pairs *pairs) {
    head_multiply(head, head->weights + head->old * head->inputs, classes, features, 1, pairs->scores + pairs->count);
    memcpy(pairs->labels + pairs->count, labels, classes);
    pairs->count += classes;
}

static double loss_at(const struct pairs *pairs, double alpha, double beta) {
    double loss = 0.5 * ((alpha - 1) * (alpha - 1) + beta * beta);
    for (size_t i = 0; i < pairs->count; i++) {
        const double u = alpha * (double)pairs->scores[i] + beta;
        loss += (u > 0 ? u + log1p(exp(-u)) : log1p(exp(u))) - (pairs->labels[i] == 1 ? u : 0);
    }
    return loss;
}

/* Newton's step for α and β. */
static void newton_step(const struct pairs *pairs, double alpha, double beta, double step[2]) {
    double slope[2] = {alpha - 1, beta}, curve[3] = {1, 0, 1}; /* α twice, α and β, β twice */
    for (size_t i = 0; i < pairs->count; i++) {
        const double s = (double)pairs->scores[i], p = 1 / (1 + exp(-(alpha * s + beta)));
        const double wrong = p - (pairs->labels[i] == 1), spread = p * (1 - p);
        slope[0] += wrong * s;
        slope[1] += wrong;
        curve[0] += spread * s * s;
        curve[1] += spread * s;
        curve[2] += spread;
    }
    const double determinant = curve[0] * curve[2] - curve[1] * curve[1];
    step[0] = (curve[2] * slope[0] - curve[1] * slope[1]) / determinant;
    step[1] = (curve[0] * slope[1] - curve[1] * slope[0]) / determinant;
}

static void fit(const struct pairs *pairs, double *alpha, double *beta) {
    double loss = loss_at(pairs, *alpha, *beta);
    for (size_t i = 0; i < NEWTON_STEPS; i++) {
        double step[2], lower = loss, part = 1;
        newton_step(pairs, *alpha, *beta, step);
        for (size_t j = 0; j < HALVINGS; j++, part /= 2) {
            lower = loss_at(pairs, *alpha - part * step[0], *beta - part * step[1]);
            if (lower < loss) {
                break;
            }
        }
        if (!(lower < loss)) {
            break;
        }
        *alpha -= part * step[0];
        *beta -= part * step[1];
        loss = lower;
    }
}

static void correct(struct head *head, double alpha, double beta) {
    for (size_t k = head->old; k < head->classes; k++) {
        float *weights = head->weights + k * head->inputs;
        for (size_t j = 0; j < head->inputs; j++) {
            weights[j] *= (float)alpha;
        }
        weights[head->inputs - 1] += (float)beta;
    }
}

static l3a_status finish(struct head *head, const struct rows *rows) {
    const struct bic *bic = (const struct bic *)head;
    const struct memory *memory = &head->memory;
    l3a_status status = L3A_OK;
    struct pairs pairs = {0};
    double alpha = 1, beta = 0;
    const size_t capacity = (held_in_memory(memory) + bic->held.count) * rows->classes;
    TRY(allocate(head->context, capacity, sizeof *pairs.scores, &pairs.scores));
    TRY(allocate(head->context, capacity, 1, &pairs.labels));
    for (size_t i = 0; i < bic->held.count; i++) {
        add_pairs(head, bic->held.features + i * head->inputs, bic->held.labels + i * rows->classes, rows->classes, &pairs);
    }
    for (size_t i = 0; i < memory->count; i++) {
        if (memory_holds_out(memory, i)) {
            add_pairs(head, memory->features + i * head->inputs, memory->labels + i * head->classes + head->old, rows->classes,
                      &pairs);
        }
    }
    fit(&pairs, &alpha, &beta);
    if (alpha > 0) {
        correct(head, alpha, beta);
    }
    TRY(memory_keep_random(head, rows));
done:
    release(head->context, pairs.scores);
    release(head->context, pairs.labels);
    return status;
}

static void release_all(struct head *head) {
    held_free((struct bic *)head);
}

static const struct head_rules rules = {
    .size = sizeof(struct bic), .replays = 1, .distils = true, .prepare = prepare, .finish = finish, .release = release_all};

HEAD_LEARNER(bic, rules);
