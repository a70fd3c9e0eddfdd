/* Bias Correction (Wu et al. 2019). Stage 1 trains on the union of the phase's images and the memory, with labels and with
 * distillation, weighted as in the paper by n : m for n old and m new classes, times λ. It compares logistic outputs at temperature
 * 1, where the paper has a softmax at temperature 2. Stage 2 replaces the scores of new classes
 * by α s + β. The two numbers are fitted to images held out of stage 1, as many for an old class as for a new one: every tenth
 * image of the memory, and a share of the phase.
 *
 * In the paper, stage 2 has a softmax over all classes, which sets new classes against old ones. It is kept here: with u = s for
 * old classes, u = α s + β for new ones, and t the image's labels, scaled to sum to 1,
 *   Σ over held-out images of (log Σ e^u − Σ t u) + ½ (α − 1)² + ½ β²
 * is minimised by Newton's method; the last terms keep α and β finite if few images are held out. A logistic loss for each class
 * by itself would not do: α and β would turn the scores of new classes into log-odds, whatever those of old classes are, and
 * hardly any would reach the threshold that suits a head trained with the asymmetric loss (docs/methods-gradient.md has numbers).
 *
 * With views, s is the combined score of an image, the one that is measured. For α > 0, combining α s + β of its rows gives α times
 * the combined s plus β, so the two numbers correct combined scores exactly.
 *
 * Since the head is linear, the correction is a change of its coefficients. It changes which classes count as predicted, but not
 * the order of a class's scores, so it affects AP only through later phases. */
#include "method/head.h"

#include <math.h>

#include <string.h>

enum { HOLD_OUT = 10, NEWTON_STEPS = 100, HALVINGS = 20 };

struct bic {
    struct head head;
    struct rows held; /* of the phase */
};

static void held_free(struct bic *bic) {
    release(bic->head.context, bic->held.features);
    release(bic->head.context, bic->held.labels);
    release(bic->head.context, bic->held.pictures);
    release(bic->head.context, bic->held.checksums);
    bic->held = (struct rows){0};
}

/* Moves a row to the held-out ones; the last row takes its place. */
static void take_row(struct rows *rows, size_t row, struct rows *held) {
    const size_t inputs = rows->inputs, classes = rows->classes, last = --rows->count;
    memcpy(held->labels + held->count * classes, rows->labels + row * classes, classes);
    memmove(rows->labels + row * classes, rows->labels + last * classes, classes);
    if (rows->pictures) {
        held->pictures[held->count] = rows->pictures[row];
        rows->pictures[row] = rows->pictures[last];
    } else {
        memcpy(held->features + held->count * inputs, rows->features + row * inputs, inputs * sizeof *rows->features);
        memmove(rows->features + row * inputs, rows->features + last * inputs, inputs * sizeof *rows->features);
    }
    held->count++;
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
    const size_t wanted = head->old ? (held_in_memory(&head->memory) * rows->classes + head->old - 1) / head->old : 0;
    held_free(bic);
    bic->held.inputs = rows->inputs;
    bic->held.classes = rows->classes;
    if (rows->pictures) {
        TRY(allocate(head->context, wanted, sizeof *bic->held.pictures, &bic->held.pictures));
    } else {
        TRY(allocate(head->context, wanted, rows->inputs * sizeof(float), &bic->held.features));
    }
    TRY(allocate(head->context, wanted, rows->classes, &bic->held.labels));
    while (bic->held.count < wanted && rows->count > 1) {
        take_row(rows, (size_t)(stream_uniform(&head->random) * (double)rows->count), &bic->held);
    }
done:
    return status;
}

/* Scores of all classes on held-out images, and the distribution t of each image's labels. */
struct held_scores {
    size_t count, classes, old;
    float *inputs, *rows; /* of one image: the inputs and the scores of its views */
    float *scores, *targets;
};

/* labels: of `classes` classes, from class `first` on. An image without any is skipped. */
static void add_scores(const struct head *head, const float *image, const int8_t *labels, size_t first, size_t classes,
                       struct held_scores *held) {
    float *targets = held->targets + held->count * held->classes;
    const size_t views = view_rows(head->views);
    size_t present = 0;
    for (size_t k = 0; k < classes; k++) {
        present += labels[k] == 1;
    }
    if (!present) {
        return;
    }
    for (size_t k = 0; k < classes; k++) {
        targets[first + k] = (float)(labels[k] == 1) / (float)present;
    }
    head_expand(head, image, views, held->inputs);
    head_multiply(head, head->coefficients, held->classes, held->inputs, views, held->rows, held->classes);
    combine_views(1, REAL_SINGLE, held->rows, 1, head->views, held->classes, held->scores + held->count * held->classes, NULL);
    held->count++;
}

static double corrected(const struct held_scores *held, size_t k, double score, const double at[2]) {
    return k < held->old ? score : at[0] * score + at[1];
}

/* The loss of one image. Adds its gradient to slope, and its second derivatives (αα, αβ, ββ) to curve. */
static double image_loss(const struct held_scores *held, size_t image, const double at[2], double slope[2], double curve[3]) {
    const float *scores = held->scores + image * held->classes, *targets = held->targets + image * held->classes;
    double most = -INFINITY, sum = 0, loss = 0, mean[2] = {0, 0}, square[3] = {0, 0, 0}, wanted[2] = {0, 0};
    for (size_t k = 0; k < held->classes; k++) {
        most = fmax(most, corrected(held, k, (double)scores[k], at));
    }
    for (size_t k = 0; k < held->classes; k++) {
        const double s = (double)scores[k], u = corrected(held, k, s, at), share = exp(u - most);
        sum += share;
        loss -= (double)targets[k] * u;
        if (k >= held->old) {
            mean[0] += share * s;
            mean[1] += share;
            square[0] += share * s * s;
            wanted[0] += (double)targets[k] * s;
            wanted[1] += (double)targets[k];
        }
    }
    for (size_t i = 0; i < 2; i++) {
        mean[i] /= sum;
        slope[i] += mean[i] - wanted[i];
    }
    curve[0] += square[0] / sum - mean[0] * mean[0];
    curve[1] += mean[0] - mean[0] * mean[1];
    curve[2] += mean[1] - mean[1] * mean[1];
    return loss + most + log(sum);
}

static double loss_at(const struct held_scores *held, const double at[2], double slope[2], double curve[3]) {
    const double apart = at[0] - 1;
    double loss = 0.5 * (apart * apart + at[1] * at[1]);
    slope[0] = apart;
    slope[1] = at[1];
    curve[0] = curve[2] = 1;
    curve[1] = 0;
    for (size_t i = 0; i < held->count; i++) {
        loss += image_loss(held, i, at, slope, curve);
    }
    return loss;
}

/* Newton's method on the convex loss, with steps halved until it falls. */
static void fit(const struct held_scores *held, double at[2]) {
    double slope[2], curve[3], loss = loss_at(held, at, slope, curve);
    for (size_t i = 0; i < NEWTON_STEPS; i++) {
        const double determinant = curve[0] * curve[2] - curve[1] * curve[1];
        double step[2] = {(curve[2] * slope[0] - curve[1] * slope[1]) / determinant,
                          (curve[0] * slope[1] - curve[1] * slope[0]) / determinant};
        double next[2], lower = loss;
        for (size_t j = 0; j < HALVINGS && !(lower < loss); j++) {
            next[0] = at[0] - step[0];
            next[1] = at[1] - step[1];
            lower = loss_at(held, next, slope, curve);
            step[0] /= 2;
            step[1] /= 2;
        }
        if (!(lower < loss)) {
            return;
        }
        at[0] = next[0];
        at[1] = next[1];
        loss = lower;
    }
}

static void correct(struct head *head, double alpha, double beta) {
    for (size_t k = head->old; k < head->classes; k++) {
        float *coefficients = head->coefficients + k * head->inputs;
        for (size_t j = 0; j < head->inputs; j++) {
            coefficients[j] *= (float)alpha;
        }
        coefficients[head->inputs - 1] += (float)beta;
    }
}

static l3a_status measure_bias(struct head *head, const struct rows *rows, double at[2]) {
    const struct bic *bic = (const struct bic *)head;
    const struct memory *memory = &head->memory;
    l3a_status status = L3A_OK;
    struct held_scores held = {.classes = head->classes, .old = head->old};
    const size_t capacity = held_in_memory(memory) + bic->held.count;
    TRY(allocate(head->context, capacity, head->classes * sizeof *held.scores, &held.scores));
    TRY(allocate_zeroed(head->context, capacity, head->classes * sizeof *held.targets, &held.targets));
    TRY(allocate(head->context, view_rows(head->views), head->inputs * sizeof *held.inputs, &held.inputs));
    TRY(allocate(head->context, view_rows(head->views), head->classes * sizeof *held.rows, &held.rows));
    for (size_t i = 0; i < bic->held.count; i++) {
        add_scores(head, head_view(head, bic->held.features, i, 0), bic->held.labels + i * rows->classes, head->old, rows->classes,
                   &held);
    }
    for (size_t i = 0; i < memory->count; i++) {
        if (memory_holds_out(memory, i)) {
            add_scores(head, head_view(head, memory->features, i, 0), memory->labels + i * head->classes, 0, head->old, &held);
        }
    }
    fit(&held, at);
done:
    release(head->context, held.inputs);
    release(head->context, held.rows);
    release(head->context, held.scores);
    release(head->context, held.targets);
    return status;
}

static l3a_status finish(struct head *head, struct rows *rows) {
    l3a_status status = L3A_OK;
    double at[2] = {1, 0}; /* α, β */
    if (head->network) {
        TRY(head_network_look(head, &((struct bic *)head)->held));
        TRY(head_network_look_at_memory(head));
    }
    TRY(measure_bias(head, rows, at));
    if (at[0] > 0) {
        correct(head, at[0], at[1]);
    }
    TRY(memory_keep_random(head, rows));
done:
    return status;
}

static void release_all(struct head *head) {
    held_free((struct bic *)head);
}

static const struct head_rules rules = {
    .size = sizeof(struct bic), .joins = true, .distils = DISTIL_TOO, .prepare = prepare, .finish = finish, .release = release_all};

HEAD_LEARNER(bic, rules, 20, 1e-2, 3e-3, 10, 20, true);
