/* TPCIL (Tao et al., "Topology-preserving class-incremental learning", ECCV 2020): what lies close together in the space of
 * features is to stay close together. No program of its authors is known, and nothing was published for several labels per image,
 * so all but the correlation is our choice.
 *
 * The paper's graph has vertices all over the space of features, each with an image. Here, as in the comparisons of KRT (Dong et
 * al., ICCV 2023), the vertices are the images of the memory, which herding chooses. A step draws as many of them as it has images
 * of the phase, and learns them with the labels that their phase gave. With features z_i of the n drawn ones as they are, and z'_i
 * before the phase,
 *   s_ij = ⟨z_i, z_j⟩ / (|z_i| |z_j|),     s'_ij the same with z',     for the pairs i < j,
 *   a = s − mean(s),     b = s' − mean(s'),     ρ = ⟨a, b⟩ / (|a| |b|)     (Pearson's correlation, as published),
 *   loss of a step = Σ of its images' losses + λ · 100 · (1 − ρ).
 * λ is 1 unless the settings say otherwise. The factor 100 goes with a loss that is a sum over images, as in krt, whose term for
 * tokens has the same. Both networks see the same pictures, changed in the same way.
 *
 * The gradient: with n_i = z_i / |z_i| and, for i ≠ j, g_ij = −λ · 100 · (b_ij / (|a| |b|) − ρ a_ij / |a|²) (the mean of s has no
 * part in it, since Σ a = Σ b = 0),
 *   h_i = Σ_j g_ij n_j,     ∂/∂z_i = (h_i − ⟨h_i, n_i⟩ n_i) / |z_i|.
 * Similarities that are all the same have no correlation, and the term is 0; so it is with fewer than three vertices. */
#include "method/head.h"

#include <math.h>

static const double WEIGHT = 100;

/* What the term needs of the features of one network. */
struct vertices {
    double *units;   /* [capacity x width]: n */
    double *lengths; /* [capacity]: |z| */
    double *similar; /* [capacity x capacity]: a; symmetric; the diagonal is not looked at */
    double length;   /* |a| */
};

struct tpcil {
    struct head head;
    struct vertices now, before;
};

static void vertices_free(l3a_context *context, struct vertices *vertices) {
    release(context, vertices->units);
    release(context, vertices->lengths);
    release(context, vertices->similar);
    *vertices = (struct vertices){.units = NULL};
}

static l3a_status vertices_make(l3a_context *context, size_t capacity, size_t width, struct vertices *vertices) {
    l3a_status status = L3A_OK;
    vertices_free(context, vertices);
    TRY(allocate(context, capacity, width * sizeof *vertices->units, &vertices->units));
    TRY(allocate(context, capacity, sizeof *vertices->lengths, &vertices->lengths));
    TRY(allocate(context, capacity, capacity * sizeof *vertices->similar, &vertices->similar));
done:
    return status;
}

static void release_all(struct head *head) {
    struct tpcil *tpcil = (struct tpcil *)head;
    vertices_free(head->context, &tpcil->now);
    vertices_free(head->context, &tpcil->before);
}

static l3a_status prepare(struct head *head, struct rows *rows) {
    struct tpcil *tpcil = (struct tpcil *)head;
    const size_t width = head_output_numbers(head, 0);
    l3a_status status = L3A_OK;
    (void)rows;
    TRY(vertices_make(head->context, head->batch, width, &tpcil->now));
    TRY(vertices_make(head->context, head->batch, width, &tpcil->before));
done:
    return status;
}

/* A feature that is 0 is similar to none. */
static void scale_features(const float *features, size_t count, size_t width, struct vertices *vertices) {
    for (size_t i = 0; i < count; i++) {
        double square = 0;
        for (size_t j = i * width; j < (i + 1) * width; j++) {
            square += (double)features[j] * (double)features[j];
        }
        vertices->lengths[i] = square > 0 ? sqrt(square) : 1;
        for (size_t j = i * width; j < (i + 1) * width; j++) {
            vertices->units[j] = (double)features[j] / vertices->lengths[i];
        }
    }
}

static void compare_pairs(size_t count, size_t width, struct vertices *vertices) {
    const double *units = vertices->units;
    double *similar = vertices->similar, mean = 0, square = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            double sum = 0;
            for (size_t k = 0; k < width; k++) {
                sum += units[i * width + k] * units[j * width + k];
            }
            similar[i * count + j] = sum;
            mean += sum;
        }
    }
    mean /= (double)(count * (count - 1) / 2);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            const double apart = similar[i * count + j] - mean;
            similar[i * count + j] = similar[j * count + i] = apart;
            square += apart * apart;
        }
    }
    vertices->length = sqrt(square);
}

static double correlation(size_t count, const struct vertices *left, const struct vertices *right) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            sum += left->similar[i * count + j] * right->similar[i * count + j];
        }
    }
    return sum / (left->length * right->length);
}

/* Adds the gradient by the features of vertex i; g is in the place of the similarities. */
static void add_gradient(const struct vertices *vertices, size_t count, size_t width, size_t i, float *by_features) {
    const double *units = vertices->units, *own = units + i * width, *g = vertices->similar + i * count;
    double along = 0;
    for (size_t j = 0; j < count; j++) {
        for (size_t k = 0; j != i && k < width; k++) {
            along += g[j] * units[j * width + k] * own[k];
        }
    }
    for (size_t k = 0; k < width; k++) {
        double sum = -along * own[k];
        for (size_t j = 0; j < count; j++) {
            sum += j == i ? 0 : g[j] * units[j * width + k];
        }
        by_features[k] += (float)(sum / vertices->lengths[i]);
    }
}

/* Similarities that vary by less than this are all the same: what is left are rounding errors of the features. */
static const double SAME = 1e-9;

static l3a_status hold_topology(struct head *head, struct batch *batch) {
    struct tpcil *tpcil = (struct tpcil *)head;
    struct head_network *network = head->network;
    struct vertices *now = &tpcil->now, *before = &tpcil->before;
    const size_t count = batch->rows - batch->fresh, width = head_output_numbers(head, 0), first = batch->fresh * width;
    const double weight = head->tuning.lambda * WEIGHT;
    if (count < 3 || !network->net.old) {
        return L3A_OK;
    }
    scale_features(network->outputs[0] + first, count, width, now);
    scale_features(network->old_outputs[0] + first, count, width, before);
    compare_pairs(count, width, now);
    compare_pairs(count, width, before);
    if (now->length < SAME || before->length < SAME) {
        return L3A_OK;
    }
    const double rho = correlation(count, now, before), both = now->length * before->length, square = now->length * now->length;
    network->loss += weight * (1 - rho);
    for (size_t i = 0; i < count * count; i++) {
        if (i / count != i % count) {
            now->similar[i] = -weight * (before->similar[i] / both - rho * now->similar[i] / square);
        }
    }
    for (size_t i = 0; i < count; i++) {
        add_gradient(now, count, width, i, network->by_outputs[0] + first + i * width);
    }
    return L3A_OK;
}

static const struct head_network_rules network_rules = {.compares = true, .output_terms = hold_topology};

static const struct head_rules rules = {.size = sizeof(struct tpcil),
                                        .replays = 1,
                                        .prepare = prepare,
                                        .looks = true,
                                        .finish = memory_keep_herded,
                                        .release = release_all,
                                        .network = &network_rules};

HEAD_LEARNER(tpcil, rules, 20, 1e-2, 1e-2, 1, 20, true);
