/* Optimizing Class Distribution in Memory (Liang and Li 2022): replay from a memory of fixed size. Every image of the stream
 * enters it. Once it is full, it drops the image without which its classes are nearest to equally frequent: the one whose removal
 * minimises the Kullback-Leibler divergence of the remaining labels from the uniform distribution (the paper's greedy algorithm,
 * one image at a time).
 *
 * With l images of a class, L = Σl and C classes, the divergence is Σ l log l / L − log L + log C. Without an image with s labels
 * it is (Σ l log l + Σ over its labels of g) / (L − s) − log(L − s) + log C, with g = (l − 1) log(l − 1) − l log l: a sum over its
 * few labels, whatever the number of classes. */
#include "method/head.h"

#include <math.h>
#include <string.h>

struct ocdm {
    struct head head;
    size_t *kept;            /* l, of each class */
    double *gain;            /* g */
    double *logs;            /* log(L − s) for s = 0, 1, … */
    size_t *lists, *lengths; /* the labels of each slot as a list: [slots x classes], [slots] */
};

static void release_all(struct head *head) {
    struct ocdm *ocdm = (struct ocdm *)head;
    release(head->context, ocdm->kept);
    release(head->context, ocdm->gain);
    release(head->context, ocdm->logs);
    release(head->context, ocdm->lists);
    release(head->context, ocdm->lengths);
    ocdm->kept = ocdm->lists = ocdm->lengths = NULL;
    ocdm->gain = ocdm->logs = NULL;
}

static double x_log_x(size_t x) {
    return x ? (double)x * log((double)x) : 0;
}

static void count_class(struct ocdm *ocdm, size_t k, bool added) {
    ocdm->kept[k] = added ? ocdm->kept[k] + 1 : ocdm->kept[k] - 1;
    ocdm->gain[k] = ocdm->kept[k] ? x_log_x(ocdm->kept[k] - 1) - x_log_x(ocdm->kept[k]) : 0;
}

static void enter(struct ocdm *ocdm, size_t slot) {
    const size_t classes = ocdm->head.classes;
    const int8_t *labels = ocdm->head.memory.labels + slot * classes;
    ocdm->lengths[slot] = 0;
    for (size_t k = 0; k < classes; k++) {
        if (labels[k] == 1) {
            ocdm->lists[slot * classes + ocdm->lengths[slot]++] = k;
            count_class(ocdm, k, true);
        }
    }
}

static void leave(struct ocdm *ocdm, size_t slot) {
    for (size_t i = 0; i < ocdm->lengths[slot]; i++) {
        count_class(ocdm, ocdm->lists[slot * ocdm->head.classes + i], false);
    }
}

/* The slot whose removal minimises the divergence. */
static size_t most_dispensable(const struct ocdm *ocdm) {
    const size_t classes = ocdm->head.classes;
    size_t sum = 0, best = 0;
    double whole = 0, least = INFINITY;
    for (size_t k = 0; k < classes; k++) {
        sum += ocdm->kept[k];
        whole += x_log_x(ocdm->kept[k]);
    }
    for (size_t s = 0; s <= classes && s < sum; s++) {
        ocdm->logs[s] = log((double)(sum - s));
    }
    for (size_t i = 0; i < ocdm->head.memory.count; i++) {
        const size_t *list = ocdm->lists + i * classes, length = ocdm->lengths[i];
        double rest = whole;
        for (size_t j = 0; j < length; j++) {
            rest += ocdm->gain[list[j]];
        }
        rest = length < sum ? rest / (double)(sum - length) - ocdm->logs[length] : 0;
        if (rest < least) {
            least = rest;
            best = i;
        }
    }
    return best;
}

/* Makes one slot more than images stay, for the image that enters. */
static l3a_status make_room(struct ocdm *ocdm) {
    struct head *head = &ocdm->head;
    l3a_context *context = head->context;
    l3a_status status = L3A_OK;
    const size_t slots = head_memory_slots(head) + 1, classes = head->classes;
    release_all(head);
    TRY(memory_resize(context, &head->memory, slots, classes));
    TRY(allocate_zeroed(context, classes, sizeof *ocdm->kept, &ocdm->kept));
    TRY(allocate_zeroed(context, classes, sizeof *ocdm->gain, &ocdm->gain));
    TRY(allocate(context, classes + 1, sizeof *ocdm->logs, &ocdm->logs));
    TRY(allocate(context, slots, classes * sizeof *ocdm->lists, &ocdm->lists));
    TRY(allocate(context, slots, sizeof *ocdm->lengths, &ocdm->lengths));
    for (size_t i = 0; i < head->memory.count; i++) {
        enter(ocdm, i);
    }
done:
    return status;
}

static void offer(struct head *head, const struct rows *rows, size_t row) {
    struct ocdm *ocdm = (struct ocdm *)head;
    struct memory *memory = &ocdm->head.memory;
    memory_set(memory, memory->count, rows, row);
    enter(ocdm, memory->count++);
    if (memory->count == memory->capacity) {
        const size_t slot = most_dispensable(ocdm);
        leave(ocdm, slot);
        memory->count--;
        if (slot != memory->count) {
            leave(ocdm, memory->count);
            memory_set(memory, slot, rows, row);
            enter(ocdm, slot);
        }
    }
}

static l3a_status finish(struct head *head, struct rows *rows) {
    l3a_status status = L3A_OK;
    TRY(make_room((struct ocdm *)head));
    TRY(memory_offer_shuffled(head, rows, offer));
done:
    return status;
}

static const struct head_rules rules = {.size = sizeof(struct ocdm), .replays = 1, .finish = finish, .release = release_all};

HEAD_LEARNER(ocdm, rules, 20, 1e-2, 3e-3, 0, 1000, false);
