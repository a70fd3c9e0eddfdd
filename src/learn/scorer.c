#include "learn/scorer.h"

#include "base/threads.h"
#include "data/features.h"
#include "learn/file_model.h"
#include "learn/file_packed.h"
#include "learn/model.h"
#include "learn/model_plan.h"
#include "learn/view_rows.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <math.h>
#include <string.h>

l3a_status shared_layer_create(l3a_context *context, const struct layer_shape *shape, struct shared_layer **shared) {
    struct shared_layer *made = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    atomic_init(&made->users, 1);
    TRY(layer_create(context, shape, &made->layer));
    *shared = made;
    made = NULL;
done:
    release(context, made);
    return status;
}

static struct shared_layer *shared_layer_keep(struct shared_layer *shared) {
    atomic_fetch_add(&shared->users, 1);
    return shared;
}

void shared_layer_free(struct shared_layer *shared) {
    if (shared && atomic_fetch_sub(&shared->users, 1) == 1) {
        l3a_context *context = shared->layer.context;
        layer_free(&shared->layer);
        release(context, shared);
    }
}

/* A block that is being scored. */
struct scoring {
    struct block rows;
    void *wide; /* room for [rows x columns] numbers; NULL: they go straight to the scores */
    size_t first, images;
};

struct narrowing {
    real type;
    const void *from;
    float *to;
};

static void narrow(void *argument, size_t first, size_t last) {
    const struct narrowing *narrowing = argument;
    for (size_t i = first; i < last; i++) {
        narrowing->to[i] = (float)real_get(narrowing->type, narrowing->from, i);
    }
}

static l3a_status finish(l3a_context *context, const struct solution *solution, size_t views, struct scoring *scoring,
                         float *scores, uint16_t *best) {
    enum { PART = 1 << 14 };
    l3a_status status = L3A_OK;
    const size_t at = scoring->first * solution->columns;
    struct narrowing narrowing = {solution->type, scoring->wide, scores + at};
    void *made = scoring->wide ? scoring->wide : scores + at;
    TRY(block_score_end(&scoring->rows));
    combine_views(context->threads, solution->type, made, scoring->images, views, solution->columns, made, best ? best + at : NULL);
    if (scoring->wide) {
        parallel_for(context->threads, scoring->images * solution->columns, PART, narrow, &narrowing);
    }
    scoring->images = 0;
done:
    return status;
}

size_t score_ahead(const l3a_context *context) {
    enum { BLOCKS = 8 };
    return algebra_of(context)->block_score_end ? BLOCKS : 1;
}

/* If the back end returns before its work is done, it expands one block while the scores of the block before are combined. */
l3a_status score_features(l3a_context *context, const struct layer *layer, const struct solution *solution, size_t views,
                          const float *features, size_t images, float *scores, uint16_t *best) {
    enum { BLOCKS = 2 };
    l3a_status status = L3A_OK;
    const size_t each = view_rows(views), k = each * layer->shape.width, classes = solution->columns;
    const size_t most = images_of_rows(SCORE_ROWS, views), block = images < most ? images : most;
    const size_t blocks = layer->algebra->block_score_end && images > block ? BLOCKS : 1;
    struct scoring own[BLOCKS] = {{.wide = NULL}, {.wide = NULL}};
    FAIL_IF(!classes, context, L3A_ERROR_STATE, "learn or teach a class first", "the model has learned no class yet");
    const size_t bad = find_non_finite(context->threads, features, images * k);
    FAIL_IF(bad < images * k, context, L3A_ERROR_DATA, NULL, "row %zu, column %zu: the feature is %s", bad / k, bad % k,
            isnan(features[bad]) ? "not a number (NaN)" : "infinite");
    for (size_t i = 0; i < blocks; i++) {
        own[i].rows = (struct block){.context = context, .layer = layer, .capacity = block * each};
        TRY(block_create(&own[i].rows));
        if (solution->type == REAL_DOUBLE || views > 1) {
            TRY(allocate(context, block * each, classes * real_size(solution->type), &own[i].wide));
        }
    }
    for (size_t n = 0; n < (block ? (images - 1) / block + 1 : 0) + blocks; n++) {
        struct scoring *scoring = &own[n % blocks];
        const size_t first = n * block;
        if (scoring->images) {
            TRY(finish(context, solution, views, scoring, scores, best));
        }
        if (first < images) {
            scoring->first = first;
            scoring->images = images - first < block ? images - first : block;
            TRY(block_expand(&scoring->rows, features + first * k, scoring->images * each));
            TRY(block_score_begin(&scoring->rows, solution, scoring->wide ? scoring->wide : scores + first * classes));
        }
    }
done:
    for (size_t i = 0; i < blocks; i++) {
        block_free(&own[i].rows);
        release(context, own[i].wide);
    }
    return status;
}

static l3a_status check_views(l3a_context *context, size_t views, const l3a_features *features) {
    l3a_status status = L3A_OK;
    FAIL_IF(features->views > 1 && views == 1, context, L3A_ERROR_MISMATCH,
            "use features of whole pictures, use 1 view of these, or a model with these views (settings views and score-views)",
            "%s: the features have %zu views, but the model takes whole pictures", features->path, features->views);
    FAIL_IF(features->views == 1 && views > 1, context, L3A_ERROR_MISMATCH, "extract the features with the views of the model",
            "%s: the features are those of whole pictures, but the model takes %zu views", features->path, views);
    FAIL_IF(features->views != views, context, L3A_ERROR_MISMATCH, "use features with the views of the model",
            "%s: the features have %zu views, but the model takes %zu", features->path, features->views, views);
done:
    return status;
}

l3a_status check_provenance(l3a_context *context, size_t width, size_t views, const text_list *keys, const text_list *values,
                            const l3a_features *features) {
    l3a_status status = L3A_OK;
    FAIL_IF(features->width != width, context, L3A_ERROR_MISMATCH, "use features of the backbone that the model was learned with",
            "%s: features %zu wide, but the model takes %zu", features->path, features->width, width);
    const char *mine[PROVENANCE], *theirs[PROVENANCE];
    for (size_t i = 0; i < PROVENANCE; i++) {
        mine[i] = text_record_find(keys, values, provenance[i]);
        theirs[i] = l3a_features_record(features, provenance[i]);
    }
    TRY(check_views(context, views, features));
    const size_t i = provenance_conflict(mine, theirs);
    FAIL_IF(i < PROVENANCE, context, L3A_ERROR_MISMATCH,
            "use features made with the backbone and the preprocessing that the model was learned with",
            "%s: %s is '%s', but the model was learned with '%s'", features->path, provenance[i], provenance_text(theirs[i]),
            provenance_text(mine[i]));
done:
    return status;
}

static bool same_shape(const struct layer_shape *left, const struct layer_shape *right) {
    return left->kind == right->kind && left->type == right->type && left->width == right->width && left->dim == right->dim &&
           left->skip == right->skip && left->seed == right->seed;
}

l3a_status scorer_begin(l3a_context *context, struct scorer **scorer) {
    struct scorer *made = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    atomic_init(&made->users, 1);
    *scorer = made;
done:
    return status;
}

l3a_status scorer_take_layer(struct scorer *scorer, const struct model_options *options, size_t width,
                             const struct scorer *before) {
    const struct layer_shape shape = model_layer_shape(options, width);
    l3a_status status = L3A_OK;
    if (before && same_shape(&before->layer->layer.shape, &shape)) {
        scorer->layer = shared_layer_keep(before->layer);
    } else {
        TRY(shared_layer_create(scorer->context, &shape, &scorer->layer));
    }
done:
    return status;
}

l3a_status scorer_check_memory(l3a_context *context, const struct model_options *options, size_t width, size_t classes) {
    const struct layer_shape shape = model_layer_shape(options, width);
    const size_t d = layer_columns(&shape);
    struct footprint needed;
    do {
        const struct algebra *algebra = algebra_of(context);
        for (enum place place = 0; place < PLACE_COUNT; place++) {
            needed.in[place] = algebra->layer_bytes(place, &shape) + algebra->solution_bytes(place, d, classes, shape.type) +
                               processor_bytes(place, 2 * (uint64_t)d * classes * sizeof(double));
        }
    } while (leaves_device(context, options, width, &needed));
    return check_memory(context, options, width, &needed, &(struct footprint){{0}});
}

void scorer_sign(struct scorer *scorer, const double *coefficients) {
    const struct layer_shape *shape = &scorer->layer->layer.shape;
    const uint64_t numbers[] = {shape->kind, shape->type, shape->width, shape->dim, shape->skip, shape->seed, scorer->views};
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, numbers, sizeof numbers);
    for (size_t k = 0; k < scorer->classes.count; k++) {
        XXH3_64bits_update(&state, scorer->classes.items[k], strlen(scorer->classes.items[k]) + 1);
    }
    if (coefficients) {
        XXH3_64bits_update(&state, coefficients, scorer->solution.dim * scorer->solution.columns * sizeof *coefficients);
        XXH3_64bits_update(&state, scorer->thresholds, scorer->classes.count * sizeof *scorer->thresholds);
    }
    scorer->fingerprint = XXH3_64bits_digest(&state);
}

l3a_status scorer_create(l3a_model *model, size_t views, const struct scorer *before, struct scorer **scorer) {
    l3a_context *context = model->context;
    struct scorer *made = NULL;
    l3a_status status = L3A_OK;
    TRY(scorer_begin(context, &made));
    made->views = views ? views : scored_views(&model->options);
    if (!model->shared_layer) {
        TRY(scorer_take_layer(made, &model->options, model->width, before));
        model->shared_layer = shared_layer_keep(made->layer);
        model->layer = made->layer->layer;
    } else {
        made->layer = shared_layer_keep(model->shared_layer);
    }
    if (model->classes.count) {
        TRY(solution_create(context, model_dim(model), model->classes.count, options_real(&model->options), &made->solution));
        TRY(solution_set(&made->solution, model->coefficients));
    }
    TRY(text_list_add_all(context, &made->classes, &model->classes));
    TRY(allocate(context, model->classes.count, sizeof *made->thresholds, &made->thresholds));
    model_thresholds(model, made->views, made->thresholds);
    TRY(text_list_add_all(context, &made->record_keys, &model->record_keys));
    TRY(text_list_add_all(context, &made->record_values, &model->record_values));
    scorer_sign(made, model->classes.count ? model->coefficients : NULL);
    *scorer = made;
    made = NULL;
done:
    scorer_free(made);
    return status;
}

l3a_status scorer_load(l3a_context *context, const char *path, size_t views, const struct scorer *before, struct scorer **scorer) {
    safetensors file = {0};
    l3a_model *model = NULL;
    struct scorer *made = NULL;
    l3a_status status = L3A_OK;
    TRY(safetensors_open(context, path, &file));
    if (packed_recognise(&file)) {
        TRY(packed_load(&file, before, &made));
        FAIL_IF(views && views != made->views, context, L3A_ERROR_MISMATCH, "omit the views, or pack the model again with them",
                "%s: %zu views are wanted, but the model was packed with %zu", path, views, made->views);
    } else {
        TRY(model_load_to_score(context, path, &model));
        TRY(scorer_create(model, views, before, &made));
    }
    *scorer = made;
    made = NULL;
done:
    safetensors_close(&file);
    l3a_model_free(model);
    scorer_free(made);
    return status;
}

struct scorer *scorer_keep(struct scorer *scorer) {
    atomic_fetch_add(&scorer->users, 1);
    return scorer;
}

void scorer_free(struct scorer *scorer) {
    if (!scorer || atomic_fetch_sub(&scorer->users, 1) > 1) {
        return;
    }
    l3a_context *context = scorer->context;
    solution_free(&scorer->solution);
    shared_layer_free(scorer->layer);
    text_list_clear(context, &scorer->classes);
    text_list_clear(context, &scorer->record_keys);
    text_list_clear(context, &scorer->record_values);
    release(context, scorer->thresholds);
    release(context, scorer);
}

const char *scorer_record(const struct scorer *scorer, const char *key) {
    return text_record_find(&scorer->record_keys, &scorer->record_values, key);
}

l3a_status scorer_accepts(l3a_context *context, const struct scorer *scorer, const l3a_features *features) {
    return check_provenance(context, scorer_width(scorer), scorer->views, &scorer->record_keys, &scorer->record_values, features);
}

l3a_status scorer_score(l3a_context *context, const struct scorer *scorer, const float *features, size_t images, float *scores,
                        uint16_t *best) {
    return score_features(context, &scorer->layer->layer, &scorer->solution, scorer->views, features, images, scores, best);
}
