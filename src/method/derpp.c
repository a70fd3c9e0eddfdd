/* Dark Experience Replay++ (Buzzega et al. 2020, equation 6): the loss of a batch of new images, plus two terms on batches drawn
 * from a reservoir independently of each other. One is the loss of their labels (the paper's β is 1); the other is
 *   λ · mean over images of Σ over the classes known then of (s − z)²
 * where z are the scores that the head gave an image in the step that stored it, and λ is the paper's α. An image is offered to
 * the reservoir once, in the last pass over its phase, because the paper's images are a stream that is seen once. The authors'
 * program, which makes several passes, offers it in each; scores stored early are then those of an untrained head
 * (docs/methods-gradient.md). With views, z are the scores of the row that was shown in that step, and this row is shown again. */
#include "method/head.h"

#include <string.h>

struct derpp {
    struct head head;
    float *scores;   /* [capacity x classes], as stored */
    uint64_t *known; /* [capacity]: how many classes were known when an image was stored */
    uint64_t *views; /* [capacity]: which view of it was shown then */
};

/* The second draw does not use labels. */
static void match_scores(const struct head *head, struct batch *batch) {
    const struct derpp *derpp = (const struct derpp *)head;
    for (size_t i = batch->last; i < batch->rows; i++) {
        const float *stored = derpp->scores + batch->slots[i] * head->classes, *scores = batch->scores + i * head->classes;
        const float scale = (float)(2 * head->tuning.lambda) * head_row_share(head, batch->rows - batch->last);
        float *gradient = batch->gradient + i * head->classes;
        memset(gradient, 0, head->classes * sizeof *gradient);
        for (size_t k = 0; k < derpp->known[batch->slots[i]]; k++) {
            gradient[k] = scale * (scores[k] - stored[k]);
        }
    }
}

static l3a_status prepare(struct head *head, struct rows *rows) {
    struct derpp *derpp = (struct derpp *)head;
    l3a_status status = L3A_OK;
    float *scores = NULL;
    TRY(memory_prepare_reservoir(head, rows));
    TRY(allocate_zeroed(head->context, head->memory.capacity, head->classes * sizeof *scores, &scores));
    for (size_t i = 0; i < head->memory.count; i++) {
        memcpy(scores + i * head->classes, derpp->scores + i * head->old, head->old * sizeof *scores);
    }
    release(head->context, derpp->scores);
    derpp->scores = scores;
    TRY(extend_array(head->context, &derpp->known, head->memory.count, head->memory.capacity, sizeof *derpp->known));
    TRY(extend_array(head->context, &derpp->views, head->memory.count, head->memory.capacity, sizeof *derpp->views));
done:
    return status;
}

static void offer(struct head *head, const struct rows *rows, const size_t *shown, const struct batch *batch) {
    struct derpp *derpp = (struct derpp *)head;
    for (size_t i = 0; batch->last_pass && i < batch->fresh; i++) {
        const size_t slot = memory_offer(&head->memory, &head->random, rows, shown[i]);
        if (slot != SIZE_MAX) {
            memcpy(derpp->scores + slot * head->classes, batch->scores + i * head->classes, head->classes * sizeof(float));
            derpp->known[slot] = head->classes;
            derpp->views[slot] = batch->views[i];
        }
    }
}

static size_t kept_view(const struct head *head, size_t slot) {
    return (size_t)((const struct derpp *)head)->views[slot];
}

static void release_all(struct head *head) {
    struct derpp *derpp = (struct derpp *)head;
    release(head->context, derpp->scores);
    release(head->context, derpp->known);
    release(head->context, derpp->views);
}

static l3a_status resume(struct head *head, const l3a_state *from) {
    const struct derpp *derpp = (const struct derpp *)head;
    bool valid = true;
    for (size_t i = 0; i < head->memory.count; i++) {
        valid = valid && derpp->known[i] <= head->classes && derpp->views[i] < view_rows(head->views);
    }
    return valid ? L3A_OK : state_fail(from, "the memory holds scores of classes or views that there are not");
}

static const struct head_array kept[] = {{"scores", offsetof(struct derpp, scores), L3A_NUMBER_FLOAT32, EACH_STORED, OF_CLASSES},
                                         {"known", offsetof(struct derpp, known), L3A_NUMBER_INT64, EACH_STORED, OF_ONE},
                                         {"views", offsetof(struct derpp, views), L3A_NUMBER_INT64, EACH_STORED, OF_ONE}};

static const struct head_rules rules = {.size = sizeof(struct derpp),
                                        .replays = 2,
                                        .apart = true,
                                        .prepare = prepare,
                                        .kept_view = kept_view,
                                        .score_terms = match_scores,
                                        .stepped = offer,
                                        .release = release_all,
                                        .kept = kept,
                                        .kept_count = sizeof kept / sizeof kept[0],
                                        .resume = resume};

HEAD_LEARNER(derpp, rules, 20, 1e-2, 1e-2, 10, 20, true);
