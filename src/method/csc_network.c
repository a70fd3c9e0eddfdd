/* The class-incremental graph network of CSC (Du et al., ECCV 2024).
 *
 * F [c x p] is the last feature map of a picture with c channels and p positions, K the number of classes, d the width of a node,
 * and λ(x) = x for x > 0, else x/5. Every class is a node: a row of K x d matrices. The published network has c = 2048 and
 * d = 1024; here d is c/2.
 *
 *   M = C F                                          a score for each class and position
 *   first_k = max over positions of M_k
 *   a = softmax of M over positions                  where a class looks
 *   V = (a Fᵀ) Tᵀ + t                                nodes; T is published as a convolution of F before a: the same, as Σ a = 1
 *   X = V + λ(λ(A V) Gᵀ + g)                         A [K x K]: relations of classes that hold for all pictures
 *   u = λ(norm(N mean over k of X_k + b))            the picture as a whole; a batch norm with γ and β
 *   B = σ(R₁ u + R₂ Xᵀ + r)                          [K x K]: relations in this picture; R = (R₁ R₂), R₁ u in every column
 *   Z = λ(λ(Bᵀ X) Sᵀ + h)
 *   second_k = ⟨W_k, V_k + Z_k⟩ + w_k
 *   score = (first + second) / 2
 *
 * A phase with new classes adds rows to C, R and W, and rows and columns to A; the other parameters do not depend on the number of
 * classes. Numbers are drawn uniformly from (−1/√n, 1/√n) for n inputs, as PyTorch does for convolutions.
 *
 * The way back goes through these lines from the last to the first. With δ for the gradient by what follows it:
 *   the softmax               δM = a (δa − Σ over positions of a δa),      and δM_k at the best position gets δfirst_k
 *   the norm, y = γ n + β,    δx = (δn − mean(δn) − n mean(n δn)) / deviation with δn = γ δy, if the statistics are the batch's.
 *
 * A picture takes K d (c + 2 d + 3 K) + d² + 2 K c p multiplications, next to those of its backbone. */
#include "method/csc_network.h"

#include "base/matrix.h"

#include <math.h>
#include <string.h>

static const float SLOPE = 0.2F, MOMENTUM = 0.1F, EPSILON = 1e-5F;

/* ---- Room ---- */

enum { ROOM_ARRAYS = 13 };

static void list_room(const struct csc_network *net, struct csc_room *room, struct array arrays[ROOM_ARRAYS]) {
    const size_t images = room->images, nodes = images * net->classes, width = nodes * net->width, whole = images * net->width;
    const struct array made[ROOM_ARRAYS] = {
        {&room->attention, nodes * room->positions, sizeof(float), false},
        {&room->best, nodes, sizeof(size_t), false},
        {&room->pooled, nodes * net->channels, sizeof(float), false},
        {&room->nodes, width, sizeof(float), false},
        {&room->related, width, sizeof(float), false},
        {&room->general, width, sizeof(float), false},
        {&room->sum, width, sizeof(float), false},
        {&room->mixed, width, sizeof(float), false},
        {&room->own, width, sizeof(float), false},
        {&room->middle, whole, sizeof(float), false},
        {&room->normal, whole, sizeof(float), false},
        {&room->global, whole, sizeof(float), false},
        {&room->adapted, nodes * net->classes, sizeof(float), false},
    };
    memcpy(arrays, made, sizeof made);
}

static void free_room(struct csc_network *net) {
    struct array arrays[ROOM_ARRAYS];
    list_room(net, &net->room, arrays);
    arrays_release(net->context, arrays, ROOM_ARRAYS);
    release(net->context, net->room.deviation);
    net->room = (struct csc_room){.images = 0};
}

static l3a_status make_room(struct csc_network *net, const struct csc_map *map) {
    struct array arrays[ROOM_ARRAYS];
    l3a_status status = L3A_OK;
    if (map->images <= net->room.images && map->positions == net->room.positions) {
        return L3A_OK;
    }
    free_room(net);
    net->room.images = map->images;
    net->room.positions = map->positions;
    list_room(net, &net->room, arrays);
    TRY(arrays_allocate(net->context, arrays, ROOM_ARRAYS));
    TRY(allocate(net->context, net->width, sizeof(float), &net->room.deviation));
done:
    if (status != L3A_OK) {
        net->room.images = 0;
    }
    return status;
}

void csc_network_free(struct csc_network *net) {
    if (net->context) {
        free_room(net);
        release(net->context, net->values);
    }
    *net = (struct csc_network){.context = NULL};
}

/* ---- What several lines of the mathematics need ---- */

static const float *values_of(const struct csc_network *net, enum csc_part part) {
    return csc_network_part(net, part).values;
}

/* c [m x n] = keep c + a [m x inner] bᵀ, of matrices without gaps; b is [n x inner]. */
static void times_transposed(const struct csc_network *net, size_t m, size_t n, size_t inner, const float *a, const float *b,
                             double keep, float *c) {
    matrix_multiply(net->context->threads, REAL_SINGLE, false, true, m, n, inner, 1, a, inner, b, inner, keep, c, n);
}

static void leak(float *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        values[i] = values[i] > 0 ? values[i] : SLOPE * values[i];
    }
}

/* λ keeps signs, so its values show where it was steep. */
static void leak_back(const float *values, size_t count, float *gradient) {
    for (size_t i = 0; i < count; i++) {
        gradient[i] = values[i] > 0 ? gradient[i] : SLOPE * gradient[i];
    }
}

/* to [rows x out] = from [rows x in] Wᵀ + b, of a weight and the bias after it. */
static void affine(const struct csc_network *net, enum csc_part weight, size_t rows, const float *from, float *to) {
    const struct csc_values factors = csc_network_part(net, weight), bias = csc_network_part(net, (enum csc_part)(weight + 1));
    for (size_t i = 0; i < rows; i++) {
        memcpy(to + i * bias.count, bias.values, bias.count * sizeof *to);
    }
    times_transposed(net, rows, factors.rows, factors.columns, from, factors.values, 1, to);
}

static float *gradient_of(const struct csc_network *net, float *by_values, enum csc_part part) {
    return by_values + csc_network_part(net, part).first;
}

/* From that by `to`, the gradients of the weight and of its bias, and that by `from`. */
static void affine_back(const struct csc_network *net, enum csc_part weight, size_t rows, const float *from, const float *by_to,
                        float *by_values, float *by_from) {
    const struct csc_values factors = csc_network_part(net, weight);
    const size_t out = factors.rows, in = factors.columns;
    float *by_bias = gradient_of(net, by_values, (enum csc_part)(weight + 1));
    matrix_multiply(net->context->threads, REAL_SINGLE, true, false, out, in, rows, 1, by_to, out, from, in, 0,
                    gradient_of(net, by_values, weight), in);
    matrix_multiply(net->context->threads, REAL_SINGLE, false, false, rows, in, out, 1, by_to, out, factors.values, in, 0, by_from,
                    in);
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < out; j++) {
            by_bias[j] += by_to[i * out + j];
        }
    }
}

/* ---- Forward ---- */

static const float *plane_of(const struct csc_network *net, const struct csc_map *map, size_t image) {
    return map->planes + image * net->channels * (map->prefix + map->positions) + map->prefix;
}

/* A class's row of M becomes its softmax; returns the largest number. */
static float soften(float *row, size_t count, size_t *best) {
    double sum = 0;
    *best = 0;
    for (size_t i = 1; i < count; i++) {
        *best = row[i] > row[*best] ? i : *best;
    }
    const float most = row[*best];
    for (size_t i = 0; i < count; i++) {
        row[i] = expf(row[i] - most);
        sum += (double)row[i];
    }
    for (size_t i = 0; i < count; i++) {
        row[i] = (float)((double)row[i] / sum);
    }
    return most;
}

/* first, and the attention of each class. */
static void look(struct csc_network *net, const struct csc_map *map, float *scores) {
    const size_t classes = net->classes, channels = net->channels, stride = map->prefix + map->positions;
    const float *factors = values_of(net, CSC_CLASSIFY);
    for (size_t i = 0; i < map->images; i++) {
        const float *plane = plane_of(net, map, i);
        float *attention = net->room.attention + i * classes * map->positions;
        matrix_multiply(1, REAL_SINGLE, false, false, classes, map->positions, channels, 1, factors, channels, plane, stride, 0,
                        attention, map->positions);
        for (size_t k = 0; k < classes; k++) {
            scores[i * classes + k] = soften(attention + k * map->positions, map->positions, &net->room.best[i * classes + k]);
        }
        matrix_multiply(1, REAL_SINGLE, false, true, classes, channels, map->positions, 1, attention, map->positions, plane, stride,
                        0, net->room.pooled + i * classes * channels, channels);
    }
}

/* X, the sum of V and what the general relations make of it. */
static void relate(struct csc_network *net, size_t images) {
    struct csc_room *room = &net->room;
    const size_t classes = net->classes, width = net->width, nodes = images * classes;
    for (size_t i = 0; i < images; i++) {
        matrix_multiply(1, REAL_SINGLE, false, false, classes, width, classes, 1, values_of(net, CSC_RELATE), classes,
                        room->nodes + i * classes * width, width, 0, room->related + i * classes * width, width);
    }
    leak(room->related, nodes * width);
    affine(net, CSC_GENERAL, nodes, room->related, room->general);
    leak(room->general, nodes * width);
    for (size_t i = 0; i < nodes * width; i++) {
        room->sum[i] = room->nodes[i] + room->general[i];
    }
}

/* Mean and variance of a batch's column; those of the network move towards them. */
static void measure_column(struct csc_network *net, const float *column, size_t images, size_t j, float *mean, float *variance) {
    float *means = csc_network_part(net, CSC_MEAN).values, *variances = csc_network_part(net, CSC_VARIANCE).values;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < images; i++) {
        sum += (double)column[i * net->width];
    }
    sum /= (double)images;
    for (size_t i = 0; i < images; i++) {
        const double apart = (double)column[i * net->width] - sum;
        squares += apart * apart;
    }
    *mean = (float)sum;
    *variance = (float)(squares / (double)images);
    means[j] += MOMENTUM * (*mean - means[j]);
    if (images > 1) { /* one picture says nothing of the variance */
        variances[j] += MOMENTUM * ((float)(squares / (double)(images - 1)) - variances[j]);
    }
}

/* global: in and out. */
static void normalise(struct csc_network *net, size_t images, bool batch) {
    struct csc_room *room = &net->room;
    const float *gamma = values_of(net, CSC_NORM), *beta = values_of(net, CSC_NORM_BIAS);
    room->batch = batch;
    for (size_t j = 0; j < net->width; j++) {
        float mean = values_of(net, CSC_MEAN)[j], variance = values_of(net, CSC_VARIANCE)[j];
        if (batch) {
            measure_column(net, room->global + j, images, j, &mean, &variance);
        }
        room->deviation[j] = 1 / sqrtf(variance + EPSILON);
        for (size_t i = j; i < images * net->width; i += net->width) {
            room->normal[i] = (room->global[i] - mean) * room->deviation[j];
            room->global[i] = gamma[j] * room->normal[i] + beta[j];
        }
    }
}

/* u, which the relations of a picture depend on. */
static void look_at_whole(struct csc_network *net, size_t images, bool batch) {
    struct csc_room *room = &net->room;
    const size_t classes = net->classes, width = net->width;
    memset(room->middle, 0, images * width * sizeof *room->middle);
    for (size_t i = 0; i < images * classes; i++) {
        for (size_t j = 0; j < width; j++) {
            room->middle[i / classes * width + j] += room->sum[i * width + j] / (float)classes;
        }
    }
    affine(net, CSC_MIDDLE, images, room->middle, room->global);
    normalise(net, images, batch);
    leak(room->global, images * width);
}

/* B, and Bᵀ X. */
static void adapt(struct csc_network *net, size_t images) {
    struct csc_room *room = &net->room;
    const size_t classes = net->classes, width = net->width;
    const float *factors = values_of(net, CSC_ADAPT), *bias = values_of(net, CSC_ADAPT_BIAS);
    for (size_t i = 0; i < images; i++) {
        const float *sum = room->sum + i * classes * width;
        float *adapted = room->adapted + i * classes * classes;
        for (size_t j = 0; j < classes; j++) {
            double whole = (double)bias[j];
            for (size_t n = 0; n < width; n++) {
                whole += (double)factors[j * 2 * width + n] * (double)room->global[i * width + n];
            }
            for (size_t k = 0; k < classes; k++) {
                adapted[j * classes + k] = (float)whole;
            }
        }
        matrix_multiply(1, REAL_SINGLE, false, true, classes, classes, width, 1, factors + width, 2 * width, sum, width, 1, adapted,
                        classes);
        for (size_t j = 0; j < classes * classes; j++) {
            adapted[j] = 1 / (1 + expf(-adapted[j]));
        }
        matrix_multiply(1, REAL_SINGLE, true, false, classes, width, classes, 1, adapted, classes, sum, width, 0,
                        room->mixed + i * classes * width, width);
    }
}

l3a_status csc_network_score(struct csc_network *net, const struct csc_map *map, bool batch, float *scores) {
    l3a_status status = L3A_OK;
    struct csc_room *room = &net->room;
    TRY(make_room(net, map));
    const size_t nodes = map->images * net->classes, width = net->width;
    const float *last = values_of(net, CSC_LAST), *bias = values_of(net, CSC_LAST_BIAS);
    look(net, map, scores);
    affine(net, CSC_TRANSFORM, nodes, room->pooled, room->nodes);
    relate(net, map->images);
    look_at_whole(net, map->images, batch);
    adapt(net, map->images);
    leak(room->mixed, nodes * width);
    affine(net, CSC_SPECIFIC, nodes, room->mixed, room->own);
    leak(room->own, nodes * width);
    for (size_t i = 0; i < nodes; i++) {
        double second = (double)bias[i % net->classes];
        for (size_t j = i * width; j < (i + 1) * width; j++) {
            second += (double)last[i % net->classes * width + j % width] * (double)(room->nodes[j] + room->own[j]);
        }
        scores[i] = (float)(((double)scores[i] + second) / 2);
    }
done:
    return status;
}

/* ---- Backward ---- */

/* Gradients by what the forward pass kept, under the same names. */
struct way_back {
    float *nodes, *sum, *wide; /* [nodes x width]; wide: of the line that is being looked at */
    float *pooled;             /* [nodes x channels] */
    float *global, *middle;    /* [images x width] */
    float *adapted;            /* [classes x classes], of one picture */
    float *attention;          /* [classes x positions], of one picture */
    float *next;               /* [nodes x width] */
};

enum { BACK_ARRAYS = 9 };

static void list_back(const struct csc_network *net, const struct csc_map *map, struct way_back *back,
                      struct array arrays[BACK_ARRAYS]) {
    const size_t nodes = map->images * net->classes, width = nodes * net->width, whole = map->images * net->width;
    const struct array made[BACK_ARRAYS] = {
        {&back->nodes, width, sizeof(float), false},
        {&back->sum, width, sizeof(float), true},
        {&back->wide, width, sizeof(float), false},
        {&back->next, width, sizeof(float), false},
        {&back->pooled, nodes * net->channels, sizeof(float), false},
        {&back->global, whole, sizeof(float), true},
        {&back->middle, whole, sizeof(float), false},
        {&back->adapted, net->classes * net->classes, sizeof(float), false},
        {&back->attention, net->classes * map->positions, sizeof(float), false},
    };
    memcpy(arrays, made, sizeof made);
}

/* second: by V, and by Z, which is the same. */
static void last_back(const struct csc_network *net, size_t images, const float *by_scores, float *by_values,
                      struct way_back *back) {
    const struct csc_room *room = &net->room;
    const size_t width = net->width;
    const float *last = values_of(net, CSC_LAST);
    float *by_last = gradient_of(net, by_values, CSC_LAST), *by_bias = gradient_of(net, by_values, CSC_LAST_BIAS);
    for (size_t i = 0; i < images * net->classes; i++) {
        const size_t k = i % net->classes;
        const float half = by_scores[i] / 2;
        by_bias[k] += half;
        for (size_t j = 0; j < width; j++) {
            const size_t at = i * width + j;
            by_last[k * width + j] += half * (room->nodes[at] + room->own[at]);
            back->nodes[at] = half * last[k * width + j];
        }
    }
    memcpy(back->wide, back->nodes, images * net->classes * width * sizeof *back->wide);
}

/* R₁ u + r: from the gradient by B's inputs. */
static void whole_back(const struct csc_network *net, size_t image, float *by_values, struct way_back *back) {
    const size_t classes = net->classes, width = net->width;
    const float *factors = values_of(net, CSC_ADAPT), *global = net->room.global + image * width;
    float *by_factors = gradient_of(net, by_values, CSC_ADAPT), *by_bias = gradient_of(net, by_values, CSC_ADAPT_BIAS);
    for (size_t j = 0; j < classes; j++) {
        float all = 0;
        for (size_t k = 0; k < classes; k++) {
            all += back->adapted[j * classes + k];
        }
        by_bias[j] += all;
        for (size_t n = 0; n < width; n++) {
            by_factors[j * 2 * width + n] += all * global[n];
            back->global[image * width + n] += all * factors[j * 2 * width + n];
        }
    }
}

/* Bᵀ X and B, from the gradient in `next`. */
static void adapt_back(const struct csc_network *net, size_t images, float *by_values, struct way_back *back) {
    const size_t classes = net->classes, width = net->width;
    const float *factors = values_of(net, CSC_ADAPT);
    float *by_factors = gradient_of(net, by_values, CSC_ADAPT);
    for (size_t i = 0; i < images; i++) {
        const float *sum = net->room.sum + i * classes * width, *adapted = net->room.adapted + i * classes * classes,
                    *by_mixed = back->next + i * classes * width;
        float *by_sum = back->sum + i * classes * width;
        matrix_multiply(1, REAL_SINGLE, false, false, classes, width, classes, 1, adapted, classes, by_mixed, width, 0, by_sum,
                        width);
        matrix_multiply(1, REAL_SINGLE, false, true, classes, classes, width, 1, sum, width, by_mixed, width, 0, back->adapted,
                        classes);
        for (size_t j = 0; j < classes * classes; j++) {
            back->adapted[j] *= adapted[j] * (1 - adapted[j]);
        }
        whole_back(net, i, by_values, back);
        matrix_multiply(1, REAL_SINGLE, false, false, classes, width, classes, 1, back->adapted, classes, sum, width, 1,
                        by_factors + width, 2 * width);
        matrix_multiply(1, REAL_SINGLE, true, false, classes, width, classes, 1, back->adapted, classes, factors + width, 2 * width,
                        1, by_sum, width);
    }
}

/* The norm, in place. */
static void normalise_back(const struct csc_network *net, size_t images, float *by_values, float *gradient) {
    const struct csc_room *room = &net->room;
    const float *gamma = values_of(net, CSC_NORM);
    float *by_gamma = gradient_of(net, by_values, CSC_NORM), *by_beta = gradient_of(net, by_values, CSC_NORM_BIAS);
    for (size_t j = 0; j < net->width; j++) {
        const size_t end = images * net->width;
        double sum = 0, along = 0;
        for (size_t i = j; i < end; i += net->width) {
            sum += (double)gradient[i];
            along += (double)gradient[i] * (double)room->normal[i];
        }
        by_gamma[j] += (float)along;
        by_beta[j] += (float)sum;
        for (size_t i = j; i < end; i += net->width) {
            const double shared = room->batch ? (sum + (double)room->normal[i] * along) / (double)images : 0;
            gradient[i] = (float)((double)gamma[j] * (double)room->deviation[j] * ((double)gradient[i] - shared));
        }
    }
}

/* u: adds to the gradient by X. */
static void look_at_whole_back(const struct csc_network *net, size_t images, float *by_values, struct way_back *back) {
    const size_t classes = net->classes, width = net->width;
    leak_back(net->room.global, images * width, back->global);
    normalise_back(net, images, by_values, back->global);
    affine_back(net, CSC_MIDDLE, images, net->room.middle, back->global, by_values, back->middle);
    for (size_t i = 0; i < images * classes; i++) {
        for (size_t j = 0; j < width; j++) {
            back->sum[i * width + j] += back->middle[i / classes * width + j] / (float)classes;
        }
    }
}

/* X: adds to the gradient by V. */
static void relate_back(const struct csc_network *net, size_t images, float *by_values, struct way_back *back) {
    const struct csc_room *room = &net->room;
    const size_t classes = net->classes, width = net->width, count = images * classes * width;
    for (size_t i = 0; i < count; i++) {
        back->nodes[i] += back->sum[i];
    }
    leak_back(room->general, count, back->sum);
    affine_back(net, CSC_GENERAL, images * classes, room->related, back->sum, by_values, back->wide);
    leak_back(room->related, count, back->wide);
    for (size_t i = 0; i < images; i++) {
        const float *by_related = back->wide + i * classes * width;
        matrix_multiply(1, REAL_SINGLE, false, true, classes, classes, width, 1, by_related, width,
                        room->nodes + i * classes * width, width, 1, gradient_of(net, by_values, CSC_RELATE), classes);
        matrix_multiply(1, REAL_SINGLE, true, false, classes, width, classes, 1, values_of(net, CSC_RELATE), classes, by_related,
                        width, 1, back->nodes + i * classes * width, width);
    }
}

/* The attention and first. */
static void look_back(const struct csc_network *net, const struct csc_map *map, const float *by_scores, float *by_values,
                      float *by_map, struct way_back *back) {
    const size_t classes = net->classes, channels = net->channels, positions = map->positions, stride = map->prefix + positions;
    for (size_t i = 0; i < map->images; i++) {
        const float *plane = plane_of(net, map, i), *attention = net->room.attention + i * classes * positions,
                    *by_pooled = back->pooled + i * classes * channels;
        float *by_plane = by_map + (plane - map->planes);
        matrix_multiply(1, REAL_SINGLE, false, false, classes, positions, channels, 1, by_pooled, channels, plane, stride, 0,
                        back->attention, positions);
        for (size_t k = 0; k < classes; k++) {
            const float *a = attention + k * positions;
            float *by_a = back->attention + k * positions;
            double mean = 0;
            for (size_t p = 0; p < positions; p++) {
                mean += (double)a[p] * (double)by_a[p];
            }
            for (size_t p = 0; p < positions; p++) {
                by_a[p] = (float)((double)a[p] * ((double)by_a[p] - mean));
            }
            by_a[net->room.best[i * classes + k]] += by_scores[i * classes + k] / 2;
        }
        matrix_multiply(1, REAL_SINGLE, false, true, classes, channels, positions, 1, back->attention, positions, plane, stride, 1,
                        gradient_of(net, by_values, CSC_CLASSIFY), channels);
        matrix_multiply(1, REAL_SINGLE, true, false, channels, positions, classes, 1, by_pooled, channels, attention, positions, 1,
                        by_plane, stride);
        matrix_multiply(1, REAL_SINGLE, true, false, channels, positions, classes, 1, values_of(net, CSC_CLASSIFY), channels,
                        back->attention, positions, 1, by_plane, stride);
    }
}

l3a_status csc_network_backward(struct csc_network *net, const struct csc_map *map, const float *by_scores, float *by_values,
                                float *by_map) {
    const struct csc_room *room = &net->room;
    const size_t nodes = map->images * net->classes;
    struct way_back back = {0};
    struct array arrays[BACK_ARRAYS];
    l3a_status status = L3A_OK;
    list_back(net, map, &back, arrays);
    TRY(arrays_allocate(net->context, arrays, BACK_ARRAYS));
    memset(by_values, 0, net->numbers * sizeof *by_values);
    last_back(net, map->images, by_scores, by_values, &back);
    leak_back(room->own, nodes * net->width, back.wide);
    affine_back(net, CSC_SPECIFIC, nodes, room->mixed, back.wide, by_values, back.next);
    leak_back(room->mixed, nodes * net->width, back.next);
    adapt_back(net, map->images, by_values, &back);
    look_at_whole_back(net, map->images, by_values, &back);
    relate_back(net, map->images, by_values, &back);
    affine_back(net, CSC_TRANSFORM, nodes, room->pooled, back.nodes, by_values, back.pooled);
    look_back(net, map, by_scores, by_values, by_map, &back);
    arrays_release(net->context, arrays, BACK_ARRAYS);
done:
    return status;
}
