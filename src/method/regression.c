#include "method/regression.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

enum { NAME_TEXT = 64 };

l3a_status regression_create(l3a_context *context, const struct layer_shape *shape, double gamma, struct regression *regression) {
    l3a_status status = L3A_OK;
    *regression = (struct regression){.context = context};
    TRY(layer_create(context, shape, &regression->layer));
    TRY(ridge_create(context, layer_columns(shape), gamma, shape->type, false, &regression->ridge));
done:
    return status;
}

void regression_free(struct regression *regression) {
    if (!regression->context) {
        return;
    }
    block_free(&regression->rows);
    release(regression->context, regression->cross);
    solution_free(&regression->solution);
    ridge_free(&regression->ridge);
    layer_free(&regression->layer);
    memset(regression, 0, sizeof *regression);
}

l3a_status regression_begin(struct regression *regression, size_t new_classes) {
    regression->first = regression->classes;
    regression->classes += new_classes;
    return sums_begin(&regression->ridge.sums, new_classes);
}

l3a_status regression_add(struct regression *regression, const float *features, const double *weights, const double *targets,
                          size_t count) {
    l3a_context *context = regression->context;
    l3a_status status = L3A_OK;
    if (!regression->rows.held) {
        regression->rows = (struct block){
            .context = context, .layer = &regression->layer, .capacity = count, .columns = regression->classes - regression->first};
        TRY(block_create(&regression->rows));
    }
    TRY(block_expand(&regression->rows, features, count));
    TRY(sums_add(&regression->ridge.sums, &regression->rows, 1, weights, targets));
done:
    return status;
}

/* Takes the phase's sums, with C behind the columns of old classes. */
static l3a_status keep(struct regression *regression) {
    l3a_context *context = regression->context;
    l3a_status status = L3A_OK;
    const size_t d = regression->ridge.sums.dim, all = regression->classes, old = regression->first, own = all - old;
    double *added = NULL, *cross = NULL;
    TRY(allocate_zeroed(context, d, own * sizeof *added, &added));
    TRY(allocate(context, d, all * sizeof *cross, &cross));
    TRY(sums_share(&regression->ridge.sums, own, added));
    report_share(context);
    for (size_t i = 0; i < d; i++) {
        if (old) {
            memcpy(cross + i * all, regression->cross + i * old, old * sizeof *cross);
        }
        memcpy(cross + i * all + old, added + i * own, own * sizeof *cross);
    }
    TRY(sums_keep(&regression->ridge.sums, 1));
    release(context, regression->cross);
    regression->cross = cross;
    cross = NULL;
done:
    release(context, added);
    release(context, cross);
    return status;
}

l3a_status regression_end(struct regression *regression) {
    l3a_context *context = regression->context;
    l3a_status status = L3A_OK;
    const size_t d = regression->ridge.sums.dim;
    const double start = clock_seconds();
    double *coefficients = NULL;
    block_free(&regression->rows);
    solution_free(&regression->solution);
    TRY(keep(regression));
    TRY(allocate(context, d, regression->classes * sizeof *coefficients, &coefficients));
    TRY(report_progress(context, "solve", 0, 1));
    TRY(ridge_solve(&regression->ridge, regression->classes, regression->cross, coefficients));
    report_timing(context, "solve", clock_seconds() - start);
    TRY(solution_create(context, d, regression->classes, regression->layer.shape.type, &regression->solution));
    TRY(solution_set(&regression->solution, coefficients));
done:
    release(context, coefficients);
    return status;
}

l3a_status regression_score(const struct regression *regression, const float *features, size_t count, double scale, double keep,
                            float *scores) {
    l3a_context *context = regression->context;
    l3a_status status = L3A_OK;
    const real type = regression->layer.shape.type;
    struct block rows = {.context = context, .layer = &regression->layer, .capacity = count};
    void *own = NULL;
    TRY(block_create(&rows));
    TRY(allocate(context, count, regression->classes * real_size(type), &own));
    TRY(block_expand(&rows, features, count));
    TRY(block_score(&rows, &regression->solution, own));
    for (size_t i = 0; i < count * regression->classes; i++) {
        scores[i] = (float)((keep == 0 ? 0 : keep * (double)scores[i]) + scale * real_get(type, own, i));
    }
done:
    block_free(&rows);
    release(context, own);
    return status;
}

l3a_status save_sums(const struct sums *sums, const double *cross, size_t classes, const char *name, l3a_state *into) {
    l3a_status status = L3A_OK;
    char text[NAME_TEXT];
    snprintf(text, sizeof text, "%s.cross", name);
    TRY(state_put_sums(into, name, sums));
    TRY(l3a_state_put(into, text, L3A_NUMBER_FLOAT64, (const uint64_t[]){sums->dim, classes}, 2, cross));
done:
    return status;
}

l3a_status load_sums(struct sums *sums, double **cross, size_t classes, const char *name, const l3a_state *from) {
    l3a_status status = L3A_OK;
    char text[NAME_TEXT];
    snprintf(text, sizeof text, "%s.cross", name);
    TRY(state_get_sums(from, name, sums));
    TRY(state_copy(from, text, L3A_NUMBER_FLOAT64, 2, (const uint64_t[]){sums->dim, classes}, cross));
done:
    return status;
}

l3a_status regression_save(const struct regression *regression, const char *name, l3a_state *into) {
    return save_sums(&regression->ridge.sums, regression->cross, regression->classes, name, into);
}

l3a_status regression_load(struct regression *regression, const char *name, const l3a_state *from) {
    regression->classes = from->classes;
    return load_sums(&regression->ridge.sums, &regression->cross, from->classes, name, from);
}
