/* Near-duplicates: pictures whose features point in nearly the same direction.
 *
 * Comparing a million pictures with each other would take too long. So each gets a signature: on which side of random planes it
 * lies, after the mean of all was taken away. Two directions with the angle a between them are on the same side of a plane with
 * probability 1 - a/π. Signatures are cut into tables of TABLE_BITS planes each; pictures that agree in all bits of a table are
 * candidates. Of these, signatures that differ in too many bits are dropped without looking, and for the others the cosine itself
 * is computed. Of pairs with a cosine of 0.97, 98 % are found by themselves, and most of the rest by their group.
 *
 * Pictures with the same bytes have the same features, and so are in one group. */
#include "base/matrix.h"
#include "base/random.h"
#include "format/tensor.h"
#include "library/found.h"
#include "library/near.h"
#include "library/order.h"

#include <math.h>
#include <string.h>

enum { TABLES = 16, TABLE_BITS = 16, PLANES = TABLES * TABLE_BITS, WORDS = PLANES / 64, AHEAD = 48, BLOCK = 4096 };
#define CLOSE 0.97
#define PI 3.14159265358979323846

struct likeness {
    l3a_library *library;
    l3a_context *context;
    size_t slots;
    double closeness;
    float *mean, *planes;     /* [width], [width x PLANES] */
    uint64_t (*signs)[WORDS]; /* [slots] */
    uint32_t *parents;        /* of a union-find over slots */
    unsigned farthest;        /* bits that signatures of near-duplicates may differ in */
    void *records;            /* two */
};

static uint32_t root_of(struct likeness *likeness, uint32_t slot) {
    while (likeness->parents[slot] != slot) {
        likeness->parents[slot] = likeness->parents[likeness->parents[slot]];
        slot = likeness->parents[slot];
    }
    return slot;
}

/* ---- Signatures ---- */

typedef l3a_status each_block(struct likeness *likeness, size_t first, size_t count, float *features);

/* Calls with the features of the whole pictures, block by block. */
static l3a_status visit(struct likeness *likeness, each_block *each) {
    const struct slots *slots = &likeness->library->slots;
    void *records = NULL;
    float *features = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(likeness->context, BLOCK, slots->stride, &records));
    TRY(allocate(likeness->context, BLOCK, slots->width * sizeof *features, &features));
    for (size_t first = 0; first < likeness->slots; first += BLOCK) {
        const size_t count = likeness->slots - first < BLOCK ? likeness->slots - first : BLOCK;
        TRY(slots_read(slots, first, count, records));
        for (size_t i = 0; i < count; i++) {
            tensor_to_float(TENSOR_F16, slot_at(slots, records, i).halves, features + i * slots->width, slots->width);
        }
        TRY(each(likeness, first, count, features));
        TRY(report_progress(likeness->context, "compare", first + count, likeness->slots));
    }
done:
    release(likeness->context, records);
    release(likeness->context, features);
    return status;
}

static void make_unit(float *features, size_t width) {
    double sum = 0;
    for (size_t i = 0; i < width; i++) {
        sum += (double)features[i] * (double)features[i];
    }
    const float scale = sum > 0 ? (float)(1 / sqrt(sum)) : 0;
    for (size_t i = 0; i < width; i++) {
        features[i] *= scale;
    }
}

static l3a_status add_to_mean(struct likeness *likeness, size_t first, size_t count, float *features) {
    const size_t width = likeness->library->slots.width;
    (void)first;
    for (size_t i = 0; i < count; i++) {
        make_unit(features + i * width, width);
        for (size_t k = 0; k < width; k++) {
            likeness->mean[k] += features[i * width + k] / (float)likeness->slots;
        }
    }
    return L3A_OK;
}

static l3a_status sign(struct likeness *likeness, size_t first, size_t count, float *features) {
    const size_t width = likeness->library->slots.width;
    float *sides = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(likeness->context, count, PLANES * sizeof *sides, &sides));
    for (size_t i = 0; i < count; i++) {
        make_unit(features + i * width, width);
        for (size_t k = 0; k < width; k++) {
            features[i * width + k] -= likeness->mean[k];
        }
    }
    matrix_multiply(likeness->context->threads, REAL_SINGLE, false, false, count, PLANES, width, 1, features, width,
                    likeness->planes, PLANES, 0, sides, PLANES);
    for (size_t i = 0; i < count; i++) {
        memset(likeness->signs[first + i], 0, sizeof likeness->signs[0]);
        for (size_t k = 0; k < PLANES; k++) {
            likeness->signs[first + i][k / 64] |= (uint64_t)(sides[i * PLANES + k] > 0) << k % 64;
        }
    }
done:
    release(likeness->context, sides);
    return status;
}

static l3a_status make_signatures(struct likeness *likeness) {
    const size_t width = likeness->library->slots.width;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(likeness->context, width, sizeof *likeness->mean, &likeness->mean));
    TRY(allocate(likeness->context, width, PLANES * sizeof *likeness->planes, &likeness->planes));
    TRY(allocate(likeness->context, likeness->slots, sizeof *likeness->signs, &likeness->signs));
    for (size_t i = 0; i < width * PLANES; i++) { /* the sum of three is near enough to a normal distribution */
        likeness->planes[i] = (float)(random_uniform(1, 3 * i) + random_uniform(1, 3 * i + 1) + random_uniform(1, 3 * i + 2) - 1.5);
    }
    TRY(visit(likeness, add_to_mean));
    TRY(visit(likeness, sign));
done:
    return status;
}

/* ---- Pairs ---- */

static unsigned distance(const uint64_t *left, const uint64_t *right) {
    unsigned bits = 0;
    for (size_t i = 0; i < WORDS; i++) {
        bits += (unsigned)__builtin_popcountll(left[i] ^ right[i]);
    }
    return bits;
}

static l3a_status compare_pair(struct likeness *likeness, uint32_t left, uint32_t right) {
    const struct slots *slots = &likeness->library->slots;
    float values[64], product, squares, own, sum = 0, first = 0, second = 0;
    l3a_status status = L3A_OK;
    TRY(slots_read(slots, left, 1, likeness->records));
    TRY(slots_read(slots, right, 1, (char *)likeness->records + slots->stride));
    const uint16_t *a = slot_at(slots, likeness->records, 0).halves, *b = slot_at(slots, likeness->records, 1).halves;
    for (size_t from = 0; from < slots->width; from += 64) {
        const size_t n = slots->width - from < 64 ? slots->width - from : 64;
        tensor_to_float(TENSOR_F16, a + from, values, n);
        half_products(b + from, values, n, &product, &squares);
        half_products(a + from, values, n, &own, &own);
        sum += product;
        second += squares;
        first += own;
    }
    if ((double)sum >= likeness->closeness * sqrt((double)first * (double)second)) {
        likeness->parents[root_of(likeness, left)] = root_of(likeness, right);
    }
done:
    return status;
}

static l3a_status join_table(struct likeness *likeness, size_t table, struct keyed *items) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < likeness->slots; i++) {
        const uint64_t word = likeness->signs[i][table * TABLE_BITS / 64] >> table * TABLE_BITS % 64;
        items[i] = (struct keyed){.key = word & ((1u << TABLE_BITS) - 1), .at = (uint32_t)i};
    }
    TRY(order_by_key(likeness->context, items, likeness->slots));
    for (size_t i = 0; i < likeness->slots; i++) {
        for (size_t j = i + 1; j < likeness->slots && j <= i + AHEAD && items[j].key == items[i].key; j++) {
            const uint32_t left = items[i].at, right = items[j].at;
            if (distance(likeness->signs[left], likeness->signs[right]) <= likeness->farthest &&
                root_of(likeness, left) != root_of(likeness, right)) {
                TRY(compare_pair(likeness, left, right));
            }
        }
    }
done:
    return status;
}

static l3a_status join_all(struct likeness *likeness) {
    struct keyed *items = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(likeness->context, likeness->slots, sizeof *items, &items));
    TRY(allocate(likeness->context, likeness->slots, sizeof *likeness->parents, &likeness->parents));
    TRY(allocate(likeness->context, 2, likeness->library->slots.stride, &likeness->records));
    for (size_t i = 0; i < likeness->slots; i++) {
        likeness->parents[i] = (uint32_t)i;
    }
    for (size_t table = 0; table < TABLES; table++) {
        TRY(join_table(likeness, table, items));
    }
done:
    release(likeness->context, items);
    return status;
}

/* ---- Groups ---- */

/* Pictures by their group: those with the most pictures first, then by the first picture. */
static l3a_status deliver(struct likeness *likeness, l3a_found **found) {
    const struct catalogue *catalogue = &likeness->library->catalogue;
    l3a_context *context = likeness->context;
    uint32_t *sizes = NULL, *firsts = NULL;
    struct keyed *items = NULL;
    size_t count = 0;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, likeness->slots, sizeof *sizes, &sizes));
    TRY(allocate(context, likeness->slots, sizeof *firsts, &firsts));
    TRY(allocate(context, catalogue->count, sizeof *items, &items));
    for (size_t i = 0; i < catalogue->count; i++) {
        if (catalogue->states[i] == PICTURE_DONE && catalogue->slots[i] < likeness->slots) {
            const uint32_t root = root_of(likeness, catalogue->slots[i]);
            firsts[root] = sizes[root]++ ? firsts[root] : (uint32_t)i;
        }
    }
    for (size_t i = 0; i < catalogue->count; i++) {
        const uint32_t slot = catalogue->states[i] == PICTURE_DONE ? catalogue->slots[i] : NO_SLOT;
        const uint32_t root = slot < likeness->slots ? root_of(likeness, slot) : 0;
        if (slot < likeness->slots && sizes[root] > 1) {
            items[count++] = (struct keyed){.key = (uint64_t)sizes[root] << 32 | (UINT32_MAX - firsts[root]), .at = (uint32_t)i};
        }
    }
    TRY(order_by_key(context, items, count));
    TRY(found_create(context, count, found));
    for (size_t i = 0, group = 0; i < count; i++) {
        group += i && items[i].key != items[i - 1].key;
        (*found)->ids[i] = (uint64_t)catalogue->ids[items[i].at];
        (*found)->ranks[i] = (float)group;
    }
done:
    release(context, sizes);
    release(context, firsts);
    release(context, items);
    return status;
}

l3a_status l3a_library_duplicates(l3a_library *library, double closeness, l3a_found **found) {
    REQUIRE(library, library, found);
    struct likeness likeness = {.library = library, .context = library->context, .closeness = closeness > 0 ? closeness : CLOSE};
    l3a_status status = L3A_OK;
    FAIL_IF(!(closeness >= 0 && closeness <= 1), library->context, L3A_ERROR_ARGUMENT, "give a number up to 1, such as 0.97",
            "a closeness of %g", closeness);
    TRY(library_refresh(library));
    likeness.slots = library->catalogue.slot_count;
    /* Without their mean, pictures that are close are at a wider angle; three times the angle leaves room for that and for chance.
     */
    likeness.farthest = (unsigned)(3 * acos(likeness.closeness) / PI * PLANES) + 16;
    TRY(make_signatures(&likeness));
    TRY(join_all(&likeness));
    TRY(deliver(&likeness, found));
done:
    release(library->context, likeness.mean);
    release(library->context, likeness.planes);
    release(library->context, likeness.signs);
    release(library->context, likeness.parents);
    release(library->context, likeness.records);
    return library_suspect(library, status);
}
