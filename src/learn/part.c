#include "learn/part.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

l3a_status part_create_empty(l3a_context *context, size_t dim, real type, size_t first, size_t last, struct part *part) {
    l3a_status status = L3A_OK;
    *part = (struct part){.judged_count = last - first,
                          .phases = 1,
                          .sums = {.context = context, .algebra = algebra_of(context), .dim = dim, .type = type}};
    TRY(allocate(context, last - first, sizeof *part->judged, &part->judged));
    for (size_t k = first; k < last; k++) {
        part->judged[k - first] = k;
    }
done:
    return status;
}

l3a_status part_create(l3a_context *context, size_t dim, real type, size_t first, size_t last, struct part *part) {
    l3a_status status = L3A_OK;
    TRY(part_create_empty(context, dim, type, first, last, part));
    TRY(scatter_create(context, dim, type, &part->sums));
done:
    if (status != L3A_OK) {
        release(context, part->judged);
        *part = (struct part){0};
    }
    return status;
}

void part_free(struct part *part) {
    if (part->sums.context) {
        release(part->sums.context, part->judged);
    }
    scatter_free(&part->sums);
    *part = (struct part){0};
}

bool part_judges(const struct part *part, size_t class) {
    size_t low = 0, high = part->judged_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (part->judged[middle] < class) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < part->judged_count && part->judged[low] == class;
}

l3a_status part_fold(struct part *part, const struct part *from) {
    l3a_status status = L3A_OK;
    size_t *judged = NULL, count = 0, i = 0, j = 0;
    TRY(allocate(part->sums.context, part->judged_count + from->judged_count, sizeof *judged, &judged));
    TRY(scatter_add(&part->sums, &from->sums));
    while (i < part->judged_count || j < from->judged_count) {
        const size_t mine = i < part->judged_count ? part->judged[i] : SIZE_MAX;
        const size_t theirs = j < from->judged_count ? from->judged[j] : SIZE_MAX;
        judged[count++] = mine < theirs ? mine : theirs;
        i += mine <= theirs;
        j += theirs <= mine;
    }
    release(part->sums.context, part->judged);
    part->judged = judged;
    part->judged_count = count;
    part->phases += from->phases;
    part->images += from->images;
    judged = NULL;
done:
    release(part->sums.context, judged);
    return status;
}

/* Whether one part judges all classes that the other does. */
static bool contains(const struct part *part, const struct part *other) {
    bool all = part->judged_count >= other->judged_count;
    for (size_t i = 0; all && i < other->judged_count; i++) {
        all = part_judges(part, other->judged[i]);
    }
    return all;
}

static int compare_classes(const void *left, const void *right) {
    const size_t one = *(const size_t *)left, other = *(const size_t *)right;
    return (one > other) - (one < other);
}

void part_sort_judged(struct part *part) {
    qsort(part->judged, part->judged_count, sizeof *part->judged, compare_classes);
}

bool parts_agree(const struct part *one, const struct part *other) {
    return one->judged_count == other->judged_count &&
           memcmp(one->judged, other->judged, one->judged_count * sizeof *one->judged) == 0;
}

double parts_lift(double lift, const struct part *parts, size_t count) {
    double t = 0;
    for (size_t i = 0; i < count; i++) {
        bool least = true;
        for (size_t j = 0; least && j < count; j++) {
            least = i == j || !contains(&parts[i], &parts[j]);
        }
        t += least;
    }
    return t > 0 ? lift * (t - 1) / (t + 8) : 0;
}

l3a_status parts_sum(struct sums *sums, const struct part *parts, size_t count) {
    l3a_status status = L3A_OK;
    const struct scatter **scatters = NULL;
    TRY(allocate(sums->context, count, sizeof *scatters, &scatters));
    for (size_t i = 0; i < count; i++) {
        scatters[i] = &parts[i].sums;
    }
    TRY(sums_total(sums, scatters, count));
done:
    release(sums->context, scatters);
    return status;
}
