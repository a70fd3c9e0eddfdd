/* How fast the device of a context is, measured with the operations that learning consists of: expanding features in single
 * precision, 2 n k d operations, and adding rows to A in double precision, n d². */
#include "algebra/algebra.h"

#include "base/memory.h"
#include "base/random.h"

enum { ROWS = 1024, WIDTH = 1024, DIM = 16384, ADDED_DIM = 4096 };
static const double LONG_ENOUGH = 0.1;

struct trial {
    struct layer layer;
    struct block rows;
    struct sums sums;
    float *features;
    double *weight;
};

/* sums: of DIM columns, or only to wait for the device. */
static l3a_status open_trial(l3a_context *context, const struct layer_shape *shape, size_t sums, struct trial *trial) {
    l3a_status status = L3A_OK;
    *trial = (struct trial){.rows = {.context = context, .layer = &trial->layer, .capacity = ROWS, .columns = 1, .reused = true}};
    TRY(allocate(context, ROWS, shape->width * sizeof *trial->features, &trial->features));
    TRY(allocate(context, ROWS, sizeof *trial->weight, &trial->weight));
    for (size_t i = 0; i < ROWS * shape->width; i++) {
        trial->features[i] = (float)random_uniform(1, i);
        trial->weight[i / shape->width] = 1;
    }
    TRY(layer_create(context, shape, &trial->layer));
    TRY(block_create(&trial->rows));
    TRY(sums_create(context, sums, &trial->sums));
    TRY(sums_begin(&trial->sums, 1));
    TRY(block_expand(&trial->rows, trial->features, ROWS));
done:
    return status;
}

static void close_trial(l3a_context *context, struct trial *trial) {
    sums_free(&trial->sums);
    block_free(&trial->rows);
    layer_free(&trial->layer);
    release(context, trial->features);
    release(context, trial->weight);
}

/* Until the work so far is done. */
static l3a_status wait_for(struct trial *trial) {
    double trace;
    return sums_trace(&trial->sums, &trace);
}

static l3a_status expand(struct trial *trial) {
    return block_expand(&trial->rows, trial->features, ROWS);
}

static l3a_status add(struct trial *trial) {
    return sums_add(&trial->sums, &trial->rows, 1, trial->weight, NULL);
}

/* Seconds that a call takes, after a first one that does not count. */
static l3a_status measure(struct trial *trial, l3a_status (*call)(struct trial *trial), double *seconds) {
    l3a_status status = L3A_OK;
    double took = 0;
    TRY(call(trial));
    for (size_t count = 1; took < LONG_ENOUGH; count *= 2) {
        TRY(wait_for(trial));
        const double began = clock_seconds();
        for (size_t i = 0; i < count; i++) {
            TRY(call(trial));
        }
        TRY(wait_for(trial));
        took = clock_seconds() - began;
        *seconds = took / (double)count;
    }
done:
    return status;
}

static l3a_status measure_shape(l3a_context *context, const struct layer_shape *shape, size_t sums,
                                l3a_status (*call)(struct trial *trial), double *seconds) {
    struct trial trial;
    l3a_status status = L3A_OK;
    TRY(open_trial(context, shape, sums, &trial));
    TRY(measure(&trial, call, seconds));
done:
    close_trial(context, &trial);
    return status;
}

l3a_status l3a_device_speed(l3a_context *context, double *single, double *exact) {
    const struct layer_shape wide = {.kind = LAYER_RELU, .type = REAL_SINGLE, .width = WIDTH, .dim = DIM, .seed = 1},
                             plain = {.kind = LAYER_NONE, .type = REAL_DOUBLE, .width = ADDED_DIM, .dim = ADDED_DIM};
    l3a_status status = L3A_OK;
    double seconds = 0;
    NEED(context, context, single, exact);
    TRY(measure_shape(context, &wide, 1, expand, &seconds));
    *single = 2.0 * ROWS * WIDTH * DIM / seconds;
    TRY(measure_shape(context, &plain, ADDED_DIM, add, &seconds));
    *exact = (double)ROWS * ADDED_DIM * ADDED_DIM / seconds;
done:
    return status;
}
