/* Orthogonal directions: with an orthonormal basis u of what the earlier rows span, a row of normal numbers v becomes
 * v − Σ (v · u) u, twice, since the first time leaves rounding errors, and then v / |v|, which joins the basis. Where nothing is
 * left of v, because the rows before span everything, v / |v| itself is taken. All in double precision. */
#include "method/prompts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool prompts_start(struct network *net, const struct head *head, const char *method, const struct family *family,
                   const struct backbone_recipe *recipe, struct vit *vit) {
    if (net->status == L3A_OK && family != &vit_family) {
        net->status = fail(head->context, L3A_ERROR_MISMATCH, "use a vision transformer, or another method",
                           "method '%s' learns prompts for a vision transformer, and this network is a %s", method, family->name);
    }
    return net->status == L3A_OK && vit_start(net, recipe, vit);
}

value prompts_query(struct network *net, const struct vit *vit, value tokens) {
    value x = tokens;
    for (size_t block = 0; block < vit->blocks; block++) {
        x = vit_block(net, vit, block, x, NOTHING);
    }
    x = vit_features(net, vit, x);
    network_prefix(net, "%s", "");
    return x;
}

bool prompts_of_phase(const struct head *head, const char *word, const char *name) {
    char prefix[PROMPT_NAME];
    snprintf(prefix, sizeof prefix, "%s.%zu.", word, head->network->phase);
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* ---- Random numbers ---- */

static uint64_t stream_of(const struct head *head, const char *name) {
    uint64_t seed = head->seed;
    for (const char *c = name; *c; c++) {
        seed = random_bits(seed, (unsigned char)*c);
    }
    return seed;
}

void prompts_uniform(const struct head *head, const char *name, double low, double high, size_t count, float *values) {
    const uint64_t stream = stream_of(head, name);
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(low + (high - low) * random_uniform(stream, i));
    }
}

/* Box and Muller, from numbers 2i and 2i + 1. */
static double normal_at(uint64_t stream, uint64_t index) {
    const double distance = sqrt(-2 * log(1 - random_uniform(stream, 2 * index)));
    return distance * cos(2 * acos(-1) * random_uniform(stream, 2 * index + 1));
}

/* ---- Directions ---- */

static double product(const double *left, const double *right, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += left[i] * right[i];
    }
    return sum;
}

/* Takes from v what the basis spans; returns the length of what is left. */
static double take_away(const double *basis, size_t rows, size_t columns, double *v) {
    for (size_t turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < rows; i++) {
            const double *u = basis + i * columns, share = product(u, v, columns);
            for (size_t j = 0; j < columns; j++) {
                v[j] -= share * u[j];
            }
        }
    }
    return sqrt(product(v, v, columns));
}

/* Adds v to the basis, unless it is in what that spans already. */
static bool extend(double *basis, size_t *rows, size_t columns, const double *v) {
    const double length = sqrt(product(v, v, columns));
    double *last = basis + *rows * columns;
    memcpy(last, v, columns * sizeof *last);
    const double left = *rows < columns ? take_away(basis, *rows, columns, last) : 0;
    if (!(left > 1e-6 * length)) {
        return false;
    }
    for (size_t j = 0; j < columns; j++) {
        last[j] /= left;
    }
    ++*rows;
    return true;
}

l3a_status prompts_orthogonal(const struct head *head, const char *name, const float *earlier, size_t before, size_t rows,
                              size_t columns, float *values) {
    const uint64_t stream = stream_of(head, name);
    l3a_status status = L3A_OK;
    double *basis = NULL, *v = NULL;
    size_t known = 0;
    TRY(allocate(head->context, before + rows + 1, columns * sizeof *basis, &basis));
    TRY(allocate(head->context, columns, sizeof *v, &v));
    for (size_t i = 0; i < before + rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            v[j] = i < before ? (double)earlier[i * columns + j] : normal_at(stream, (i - before) * columns + j);
        }
        const bool added = extend(basis, &known, columns, v);
        const double *u = added ? basis + (known - 1) * columns : v;
        const double length = added ? 1 : sqrt(product(v, v, columns));
        for (size_t j = 0; i >= before && j < columns; j++) {
            values[(i - before) * columns + j] = (float)(u[j] / length);
        }
    }
done:
    release(head->context, basis);
    release(head->context, v);
    return status;
}
