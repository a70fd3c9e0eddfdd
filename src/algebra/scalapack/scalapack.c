/* The table of operations, and those that sums over several processes lack. Only sums are shared, so only they have functions here;
 * the other objects of a model belong to the back end of its context. */
#include "algebra/scalapack/scalapack.h"

static l3a_status refuse(const struct sums *sums, const char *what) {
    return grid_of(sums)->host->fail(sums->context, L3A_ERROR_OPTION, "use solver sums", "solver scalapack cannot %s", what);
}

l3a_status scalapack_sums_join(struct sums *sums, const struct sums *from) {
    (void)from;
    return refuse(sums, "add to several sums at a time");
}

l3a_status scalapack_sums_total(struct sums *sums, const struct scatter *const *scatters, size_t count) {
    (void)scatters;
    (void)count;
    return refuse(sums, "use the sums of phases");
}

l3a_status scalapack_sums_add_scatter(struct sums *sums, double sign, const struct scatter *scatter) {
    (void)sign;
    (void)scatter;
    return refuse(sums, "use the sums of phases");
}

l3a_status scalapack_sums_invert(struct sums *sums, double shift, bool *regular) {
    (void)shift;
    (void)regular;
    return refuse(sums, "invert the sums");
}

l3a_status scalapack_sums_update(struct sums *sums, struct block *rows, const double *weight, const double *targets, double *cross,
                                 double *coefficients, bool *definite) {
    (void)rows;
    (void)weight;
    (void)targets;
    (void)cross;
    (void)coefficients;
    (void)definite;
    return refuse(sums, "update an inverse");
}

l3a_status scalapack_vectors_multiply(const struct sums *sums, double scale, double share, const struct mixture *mixtures,
                                      size_t count, const struct vectors *x, struct vectors *y) {
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
#define OPERATION(...)
#define SUMS_OPERATION(returns, operation, ...) .operation = scalapack_##operation,
#include "algebra/operations.h"
};
