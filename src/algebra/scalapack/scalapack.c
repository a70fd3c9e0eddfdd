/* The table of operations, and those that sums over several processes lack. Only sums are shared, so only they have functions here;
 * the other objects of a model belong to the back end of its context. */
#include "algebra/scalapack/scalapack.h"

static l3a_status refuse(const struct sums *sums, const char *what) {
    return grid_of(sums)->host->fail(sums->context, L3A_ERROR_OPTION, "use solver sums", "solver scalapack cannot %s", what);
}

static l3a_status refuse_join(struct sums *sums, const struct sums *from) {
    (void)from;
    return refuse(sums, "add to several sums at a time");
}

static l3a_status refuse_total(struct sums *sums, const struct scatter *const *scatters, size_t count) {
    (void)scatters;
    (void)count;
    return refuse(sums, "use the sums of phases");
}

static l3a_status refuse_scatter(struct sums *sums, double sign, const struct scatter *scatter) {
    (void)sign;
    (void)scatter;
    return refuse(sums, "use the sums of phases");
}

static l3a_status refuse_inverse(struct sums *sums, double shift, bool *regular) {
    (void)shift;
    (void)regular;
    return refuse(sums, "invert the sums");
}

static l3a_status refuse_update(struct sums *sums, struct block *rows, const double *weight, const double *targets, double *cross,
                                double *coefficients, bool *definite) {
    (void)rows;
    (void)weight;
    (void)targets;
    (void)cross;
    (void)coefficients;
    (void)definite;
    return refuse(sums, "update an inverse");
}

static l3a_status refuse_product(const struct sums *sums, double scale, double share, const struct mixture *mixtures, size_t count,
                                 const struct vectors *x, struct vectors *y) {
    (void)scale;
    (void)share;
    (void)mixtures;
    (void)count;
    (void)x;
    (void)y;
    return refuse(sums, "multiply by the sums");
}

const struct algebra scalapack_algebra = {
    .name = "scalapack",
    .shared = true,
    .sums_create = scalapack_sums_create,
    .sums_free = scalapack_sums_free,
    .sums_begin = scalapack_sums_begin,
    .sums_add = scalapack_sums_add,
    .sums_add_cross = scalapack_sums_add_cross,
    .sums_join = refuse_join,
    .sums_keep = scalapack_sums_keep,
    .sums_cross = scalapack_sums_cross,
    .sums_read = scalapack_sums_read,
    .sums_write = scalapack_sums_write,
    .sums_total = refuse_total,
    .sums_add_scatter = refuse_scatter,
    .sums_trace = scalapack_sums_trace,
    .sums_copy = scalapack_sums_copy,
    .sums_factor = scalapack_sums_factor,
    .sums_invert = refuse_inverse,
    .sums_update = refuse_update,
    .vectors_multiply = refuse_product,
    .vectors_solve = scalapack_vectors_solve,
    .sums_bytes = scalapack_sums_bytes,
};
