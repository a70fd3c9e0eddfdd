/* Dark Experience Replay++ (Buzzega et al. 2020, equation 6): besides a batch replayed with its labels, another one on which the
 * head is to give the scores it gave when the images were stored, at the end of their phase:
 *   λ/2 · mean over images of Σ over the classes known then of (s − s stored)². */
#include "method/head.h"

#include <string.h>

struct derpp {
    struct head head;
    float *scores; /* stored, row after row of the memory */
    size_t *first; /* where a row's scores begin; one more, where the last's end */
};

/* The labels of the second batch are not looked at. */
static void match_scores(const struct head *head, struct batch *batch) {
    const struct derpp *derpp = (const struct derpp *)head;
    const float scale = (float)head->tuning.lambda / (float)(batch->rows - batch->last);
    for (size_t i = batch->last; i < batch->rows; i++) {
        const float *stored = derpp->scores + derpp->first[batch->slots[i]], *scores = batch->scores + i * head->classes;
        const size_t known = derpp->first[batch->slots[i] + 1] - derpp->first[batch->slots[i]];
        float *gradient = batch->gradient + i * head->classes;
        memset(gradient, 0, head->classes * sizeof *gradient);
        for (size_t k = 0; k < known; k++) {
            gradient[k] = scale * (scores[k] - stored[k]);
        }
    }
}

static l3a_status finish(struct head *head, const struct rows *rows) {
    struct derpp *derpp = (struct derpp *)head;
    const struct memory *memory = &head->memory;
    l3a_context *context = head->context;
    l3a_status status = L3A_OK;
    float *scores = NULL;
    size_t *first = NULL;
    const size_t before = memory->count;
    TRY(memory_keep_random(head, rows));
    const size_t kept = before ? derpp->first[before] : 0, added = memory->count - before;
    TRY(allocate(context, kept + added * head->classes, sizeof *scores, &scores));
    TRY(allocate_zeroed(context, memory->count + 1, sizeof *first, &first));
    if (before) {
        memcpy(scores, derpp->scores, kept * sizeof *scores);
        memcpy(first, derpp->first, (before + 1) * sizeof *first);
    }
    head_multiply(head, head->weights, head->classes, memory->features + before * head->inputs, added, scores + kept);
    for (size_t i = before; i < memory->count; i++) {
        first[i + 1] = first[i] + head->classes;
    }
    release(context, derpp->scores);
    release(context, derpp->first);
    derpp->scores = scores;
    derpp->first = first;
    scores = NULL;
    first = NULL;
done:
    release(context, scores);
    release(context, first);
    return status;
}

static void release_all(struct head *head) {
    struct derpp *derpp = (struct derpp *)head;
    release(head->context, derpp->scores);
    release(head->context, derpp->first);
}

static const struct head_rules rules = {
    .size = sizeof(struct derpp), .replays = 2, .score_terms = match_scores, .finish = finish, .release = release_all};

HEAD_LEARNER(derpp, rules);
