/* Ridge regression on a random layer as callbacks in C, with a clock: bench/method.py loads it, and compares the time outside the
 * callbacks with that of the same method in Python. */
#define _POSIX_C_SOURCE 200809L
#include <l3a/l3a_experiment.h>

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 4096 };

/* LAPACK's, which is part of OpenBLAS. */
extern void sposv_(const char *part, const int *n, const int *columns, float *matrix, const int *stride, float *right,
                   const int *right_stride, int *info);

static const double gamma_of_ridge = 100;

static struct {
    size_t dim, width, classes;
    float *layer, *expanded; /* [width x dim], [BLOCK x dim] */
    float *sums, *targets;   /* A without γ, [dim x dim]; C, [dim x classes] */
    float *coefficients;     /* [classes x dim] */
    double inside;           /* seconds in callbacks */
} ridge;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int create(void *user, uint64_t seed, size_t width, void **learner) {
    (void)user;
    ridge.width = width;
    ridge.classes = 0;
    ridge.layer = malloc(width * ridge.dim * sizeof(float));
    ridge.expanded = malloc(BLOCK * ridge.dim * sizeof(float));
    ridge.sums = calloc(ridge.dim * ridge.dim, sizeof(float));
    ridge.targets = ridge.coefficients = NULL;
    uint32_t bits = (uint32_t)seed;
    for (size_t i = 0; ridge.layer && i < width * ridge.dim; i++) {
        bits = bits * 1664525 + 1013904223;
        ridge.layer[i] = (float)(bits >> 8) / 8388608 - 1;
    }
    *learner = &ridge;
    return !ridge.layer || !ridge.expanded || !ridge.sums;
}

static void expand(const float *features, size_t rows) {
    const int n = (int)rows, d = (int)ridge.dim, k = (int)ridge.width;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, d, k, 1, features, k, ridge.layer, d, 0, ridge.expanded, d);
    for (size_t i = 0; i < rows * ridge.dim; i++) {
        ridge.expanded[i] = fmaxf(ridge.expanded[i], 0);
    }
}

/* (A + γI) W = C */
static int solve(void) {
    const size_t d = ridge.dim;
    float *matrix = malloc(d * d * sizeof *matrix), *made = malloc(d * ridge.classes * sizeof *made);
    int failed = !matrix || !made;
    if (!failed) {
        memcpy(matrix, ridge.sums, d * d * sizeof *matrix);
        for (size_t i = 0; i < d; i++) {
            matrix[i * d + i] += (float)gamma_of_ridge;
            for (size_t k = 0; k < ridge.classes; k++) {
                made[k * d + i] = ridge.targets[i * ridge.classes + k];
            }
        }
        const int n = (int)d, columns = (int)ridge.classes;
        int info;
        sposv_("U", &n, &columns, matrix, &n, made, &n, &info); /* the lower part, row by row */
        failed = info != 0;
    }
    free(matrix);
    free(ridge.coefficients);
    ridge.coefficients = made;
    return failed;
}

/* C with columns for more classes. */
static int widen(size_t classes) {
    float *wider = calloc(ridge.dim * classes, sizeof *wider);
    for (size_t i = 0; wider && i < ridge.dim; i++) {
        memcpy(wider + i * classes, ridge.classes ? ridge.targets + i * ridge.classes : wider, ridge.classes * sizeof *wider);
    }
    free(ridge.targets);
    ridge.targets = wider;
    ridge.classes = classes;
    return !wider;
}

static int learn_rows(const l3a_method_phase *phase, const float *features, const int8_t *labels, size_t images) {
    const size_t new = phase->last - phase->first;
    const int d = (int)ridge.dim;
    float *wanted = malloc(BLOCK * new * sizeof *wanted);
    if (!wanted || widen(phase->last)) {
        free(wanted);
        return 1;
    }
    for (size_t first = 0; first < images; first += BLOCK) {
        const size_t rows = images - first < BLOCK ? images - first : BLOCK;
        expand(features + first * ridge.width, rows);
        for (size_t i = 0; i < rows * new; i++) {
            wanted[i] = labels[first * new + i] == 1;
        }
        cblas_ssyrk(CblasRowMajor, CblasLower, CblasTrans, d, (int)rows, 1, ridge.expanded, d, 1, ridge.sums, d);
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, d, (int)new, (int)rows, 1, ridge.expanded, d, wanted, (int)new, 1,
                    ridge.targets + phase->first, (int)ridge.classes);
    }
    free(wanted);
    return solve();
}

static int learn(void *learner, const l3a_method_phase *phase, const float *features, const int8_t *labels, size_t images) {
    (void)learner;
    const double start = now();
    const int failed = learn_rows(phase, features, labels, images);
    ridge.inside += now() - start;
    return failed;
}

static int score(void *learner, const float *features, size_t images, float *scores) {
    (void)learner;
    const double start = now();
    const int d = (int)ridge.dim, all = (int)ridge.classes;
    for (size_t first = 0; first < images; first += BLOCK) {
        const size_t rows = images - first < BLOCK ? images - first : BLOCK;
        expand(features + first * ridge.width, rows);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, all, d, 1, ridge.expanded, d, ridge.coefficients, d, 0,
                    scores + first * ridge.classes, all);
    }
    ridge.inside += now() - start;
    return 0;
}

static void free_ridge(void *learner) {
    (void)learner;
    free(ridge.layer);
    free(ridge.expanded);
    free(ridge.sums);
    free(ridge.targets);
    free(ridge.coefficients);
}

L3A_PUBLIC const l3a_method *ridge_method(size_t dim);
L3A_PUBLIC double ridge_seconds(void);

const l3a_method *ridge_method(size_t dim) {
    static const l3a_method method = {
        .size = sizeof method, .name = "ridge", .create = create, .learn = learn, .score = score, .free = free_ridge};
    ridge.dim = dim;
    ridge.inside = 0;
    return &method;
}

double ridge_seconds(void) {
    return ridge.inside;
}
