/* Partitioning Reservoir Sampling (Kim et al. 2020): replay from a memory of fixed size that aims at the same number of images of
 * each class (the paper's power of allocation ρ = 0), filled from the stream of images, one at a time.
 *
 * The memory has M slots. Of a class, l images are kept and n were seen before the one that arrives, which is not counted, as in
 * the authors' program; C classes are in the memory, and δ = l − Σl / C is the excess of a class. Once the memory is full, an image
 * enters with probability Σ w min(1, M / C / n) over its labels, w ∝ e^−n, so that its rarest label decides. Another image leaves
 * for it: a class is drawn with probability ∝ e^δ; of its images, those with the fewest labels of classes with δ ≤ 0 are
 * candidates, and the one whose removal minimises Σ|δ| leaves. */
#include "method/head.h"

#include <math.h>
#include <string.h>

struct prs {
    struct head head;
    uint64_t *seen; /* n, of each class */
    size_t *kept;   /* l, of each class */
    double *chance; /* that a class is drawn */
};

static double mean_kept(const struct prs *prs) {
    size_t sum = 0, present = 0;
    for (size_t k = 0; k < prs->head.classes; k++) {
        sum += prs->kept[k];
        present += prs->kept[k] > 0;
    }
    return present ? (double)sum / (double)present : 0;
}

static void count_slot(struct prs *prs, size_t slot, bool added) {
    const int8_t *labels = prs->head.memory.labels + slot * prs->head.classes;
    for (size_t k = 0; k < prs->head.classes; k++) {
        prs->kept[k] = added ? prs->kept[k] + (labels[k] == 1) : prs->kept[k] - (labels[k] == 1);
    }
}

static double imbalance(const struct prs *prs) {
    const double mean = mean_kept(prs);
    double sum = 0;
    for (size_t k = 0; k < prs->head.classes; k++) {
        sum += prs->kept[k] ? fabs((double)prs->kept[k] - mean) : 0;
    }
    return sum;
}

/* labels: of the new classes. */
static bool comes_in(struct prs *prs, const int8_t *labels) {
    const struct head *head = &prs->head;
    size_t present = 0;
    uint64_t rarest = UINT64_MAX;
    double chance = 0, weights = 0;
    for (size_t k = 0; k < head->classes; k++) {
        present += prs->kept[k] > 0;
        if (k >= head->old && labels[k - head->old] == 1 && prs->seen[k] < rarest) {
            rarest = prs->seen[k];
        }
    }
    for (size_t k = head->old; k < head->classes; k++) {
        if (labels[k - head->old] == 1) {
            const double share = (double)head_memory_slots(head) / (double)(present ? present : 1), n = (double)prs->seen[k];
            const double weight = exp((double)rarest - n);
            chance += weight * (n > share ? share / n : 1);
            weights += weight;
        }
    }
    return stream_uniform(&prs->head.random) * weights < chance;
}

static size_t draw_class(struct prs *prs) {
    const size_t classes = prs->head.classes;
    size_t most = 0, k = 0;
    double sum = 0;
    for (size_t i = 0; i < classes; i++) {
        most = prs->kept[i] > most ? prs->kept[i] : most;
    }
    for (size_t i = 0; i < classes; i++) {
        prs->chance[i] = prs->kept[i] ? exp((double)prs->kept[i] - (double)most) : 0;
        sum += prs->chance[i];
        k = prs->kept[i] == most ? i : k;
    }
    double left = stream_uniform(&prs->head.random) * sum;
    for (size_t i = 0; i < classes; i++) {
        left -= prs->chance[i];
        if (left < 0) {
            return i;
        }
    }
    return k;
}

/* The number of labels of classes with too few images. */
static size_t short_labels(const struct prs *prs, size_t slot, double mean) {
    const int8_t *labels = prs->head.memory.labels + slot * prs->head.classes;
    size_t count = 0;
    for (size_t k = 0; k < prs->head.classes; k++) {
        count += labels[k] == 1 && (double)prs->kept[k] <= mean;
    }
    return count;
}

static size_t goes_out(struct prs *prs) {
    const struct memory *memory = &prs->head.memory;
    const size_t k = draw_class(prs);
    const double mean = mean_kept(prs);
    size_t fewest = SIZE_MAX, best = 0;
    double least = 0;
    for (size_t i = 0; i < memory->count; i++) {
        if (memory->labels[i * memory->classes + k] != 1) {
            continue;
        }
        const size_t count = short_labels(prs, i, mean);
        if (count > fewest) {
            continue;
        }
        count_slot(prs, i, false);
        const double left = imbalance(prs);
        count_slot(prs, i, true);
        if (count < fewest || left < least) {
            fewest = count;
            least = left;
            best = i;
        }
    }
    return best;
}

static void offer(struct head *head, const struct rows *rows, size_t row) {
    struct prs *prs = (struct prs *)head;
    struct memory *memory = &prs->head.memory;
    const int8_t *labels = rows->labels + row * rows->classes;
    size_t slot = memory->count;
    if (memory->count < memory->capacity) {
        memory->count++;
    } else if (comes_in(prs, labels)) {
        slot = goes_out(prs);
        count_slot(prs, slot, false);
    }
    if (slot < memory->count) {
        memory_set(memory, slot, rows, row);
        count_slot(prs, slot, true);
    }
    for (size_t k = 0; k < rows->classes; k++) {
        prs->seen[prs->head.old + k] += labels[k] == 1;
    }
}

static l3a_status prepare(struct head *head, struct rows *rows) {
    struct prs *prs = (struct prs *)head;
    l3a_status status = L3A_OK;
    (void)rows;
    TRY(extend_array(head->context, &prs->seen, head->old, head->classes, sizeof *prs->seen));
    TRY(extend_array(head->context, &prs->kept, head->old, head->classes, sizeof *prs->kept));
    TRY(extend_array(head->context, &prs->chance, 0, head->classes, sizeof *prs->chance));
done:
    return status;
}

static l3a_status finish(struct head *head, struct rows *rows) {
    l3a_status status = L3A_OK;
    TRY(memory_resize(head->context, &head->memory, head_memory_slots(head), head->classes));
    TRY(memory_offer_shuffled(head, rows, offer));
done:
    return status;
}

static void release_all(struct head *head) {
    struct prs *prs = (struct prs *)head;
    release(head->context, prs->seen);
    release(head->context, prs->kept);
    release(head->context, prs->chance);
}

static l3a_status resume(struct head *head, const l3a_state *from) {
    struct prs *prs = (struct prs *)head;
    l3a_status status = L3A_OK;
    (void)from;
    TRY(allocate_zeroed(head->context, head->classes, sizeof *prs->kept, &prs->kept));
    for (size_t i = 0; i < head->memory.count; i++) {
        count_slot(prs, i, true);
    }
done:
    return status;
}

static const struct head_array kept[] = {{"seen", offsetof(struct prs, seen), L3A_NUMBER_INT64, EACH_CLASS, OF_ONE}};

static const struct head_rules rules = {.size = sizeof(struct prs),
                                        .replays = 1,
                                        .prepare = prepare,
                                        .finish = finish,
                                        .release = release_all,
                                        .kept = kept,
                                        .kept_count = sizeof kept / sizeof kept[0],
                                        .resume = resume};

HEAD_LEARNER(prs, rules, 20, 1e-2, 3e-3, 0, 1000, false);
