#include "method/ridge.h"

#include "base/memory.h"

#include <string.h>

l3a_status ridge_create(l3a_context *context, size_t dim, double gamma, real type, struct ridge *ridge) {
    *ridge = (struct ridge){.context = context, .type = type};
    return analytic_create(context, dim, gamma, type, &ridge->analytic);
}

static void free_work(struct ridge *ridge) {
    release(ridge->context, ridge->panel);
    release(ridge->context, ridge->cross_block);
    ridge->panel = ridge->cross_block = NULL;
}

void ridge_free(struct ridge *ridge) {
    if (!ridge->context) {
        return;
    }
    free_work(ridge);
    release(ridge->context, ridge->cross);
    release(ridge->context, ridge->weights);
    analytic_free(&ridge->analytic);
    memset(ridge, 0, sizeof *ridge);
}

l3a_status ridge_begin(struct ridge *ridge, size_t new_classes) {
    l3a_context *context = ridge->context;
    l3a_status status = L3A_OK;
    const size_t d = ridge->analytic.dim, before = ridge->classes, after = before + new_classes;
    double *cross = NULL;
    TRY(allocate_zeroed(context, d, after * sizeof *cross, &cross));
    for (size_t i = 0; before && i < d; i++) {
        memcpy(cross + i * after, ridge->cross + i * before, before * sizeof *cross);
    }
    if (ridge->type == REAL_SINGLE) {
        TRY(allocate(context, d < ANALYTIC_PANEL ? d : ANALYTIC_PANEL, d * sizeof *ridge->panel, &ridge->panel));
        TRY(allocate(context, d, new_classes * sizeof *ridge->cross_block, &ridge->cross_block));
    }
    release(context, ridge->cross);
    ridge->cross = cross;
    ridge->first = before;
    ridge->classes = after;
    cross = NULL;
done:
    release(context, cross);
    return status;
}

l3a_status ridge_add(struct ridge *ridge, const void *rows, const double *targets, size_t count) {
    l3a_context *context = ridge->context;
    l3a_status status = L3A_OK;
    const size_t d = ridge->analytic.dim, all = ridge->classes, own = all - ridge->first;
    double *columns = ridge->cross + ridge->first;
    float *narrow = NULL;
    analytic_add(&ridge->analytic, ridge->type, rows, count, ridge->panel);
    if (ridge->type == REAL_DOUBLE) {
        context->matrix->multiply(context->threads, REAL_DOUBLE, true, false, d, own, count, 1, rows, d, targets, own, 1, columns,
                                  all);
        goto done;
    }
    TRY(allocate(context, count, own * sizeof *narrow, &narrow));
    for (size_t i = 0; i < count * own; i++) {
        narrow[i] = (float)targets[i];
    }
    context->matrix->multiply(context->threads, REAL_SINGLE, true, false, d, own, count, 1, rows, d, narrow, own, 0,
                              ridge->cross_block, own);
    for (size_t i = 0; i < d; i++) {
        for (size_t k = 0; k < own; k++) {
            columns[i * all + k] += (double)ridge->cross_block[i * own + k];
        }
    }
done:
    release(context, narrow);
    return status;
}

l3a_status ridge_end(struct ridge *ridge) {
    l3a_context *context = ridge->context;
    l3a_status status = L3A_OK;
    const size_t count = ridge->analytic.dim * ridge->classes;
    const double start = clock_seconds();
    double *solution = NULL;
    free_work(ridge);
    release(context, ridge->weights);
    ridge->weights = NULL;
    TRY(allocate(context, count, sizeof *solution, &solution));
    TRY(report_progress(context, "solve", 0, 1));
    TRY(analytic_solve(&ridge->analytic, ridge->classes, ridge->cross, solution));
    report_timing(context, "solve", clock_seconds() - start);
    if (ridge->type == REAL_DOUBLE) {
        ridge->weights = solution;
        solution = NULL;
        goto done;
    }
    TRY(allocate(context, count, sizeof(float), &ridge->weights));
    for (size_t i = 0; i < count; i++) {
        ((float *)ridge->weights)[i] = (float)solution[i];
    }
done:
    release(context, solution);
    return status;
}

l3a_status ridge_score(const struct ridge *ridge, const void *rows, size_t count, double scale, double keep, float *scores) {
    l3a_context *context = ridge->context;
    l3a_status status = L3A_OK;
    const size_t d = ridge->analytic.dim, classes = ridge->classes;
    double *exact = NULL;
    if (ridge->type == REAL_SINGLE) {
        context->matrix->multiply(context->threads, REAL_SINGLE, false, false, count, classes, d, scale, rows, d, ridge->weights,
                                  classes, keep, scores, classes);
        goto done;
    }
    TRY(allocate(context, count, classes * sizeof *exact, &exact));
    context->matrix->multiply(context->threads, REAL_DOUBLE, false, false, count, classes, d, scale, rows, d, ridge->weights,
                              classes, 0, exact, classes);
    for (size_t i = 0; i < count * classes; i++) {
        scores[i] = (float)((keep == 0 ? 0 : keep * (double)scores[i]) + exact[i]);
    }
done:
    release(context, exact);
    return status;
}
