/* The rows of a lesson: they are read, labelled and added to the sums, a block at a time. */
#include "learn/model_change.h"
#include "learn/teach_lesson.h"
#include "learn/weights.h"

#include <string.h>

enum { LESSON_ROWS = 1024, LESSON_ARRAYS = 8 };

/* How the search will go on: from the lesson's rows, if there are fewer of them than classes, or from the residuals. */
static l3a_status prepare_residual(struct lesson *lesson) {
    const l3a_model *model = lesson->model;
    struct lesson_residual *residual = &lesson->residual;
    l3a_context *context = model->context;
    const size_t d = model_dim(model), all = lesson->classes.count, rows = lesson->taught->row_count * image_rows(model);
    l3a_status status = L3A_OK;
    if (rows < all && rows <= LESSON_ROWS) {
        TRY(allocate(context, rows, d * sizeof *residual->rows, &residual->rows));
        TRY(allocate(context, rows, all * sizeof *residual->errors, &residual->errors));
    } else {
        TRY(allocate_zeroed(context, d, all * sizeof *residual->sum, &residual->sum));
    }
done:
    return status;
}

l3a_status lesson_prepare_block(struct lesson *lesson) {
    l3a_model *model = lesson->model;
    struct lesson_block *block = &lesson->block;
    struct lesson_residual *residual = &lesson->residual;
    l3a_status status = L3A_OK;
    const size_t old = model->classes.count, all = lesson->classes.count, columns = lesson->taught->column_count;
    const size_t most = images_of_rows(LESSON_ROWS, (size_t)model->options.views), count = lesson->taught->row_count;
    const size_t n = count < most ? count : most, rows = n * image_rows(model);
    const bool pseudo = gives_pseudo_labels(model), scored = pseudo || model->evidence->end.known;
    const struct array list[LESSON_ARRAYS] = {
        {&block->numbers, n, sizeof *block->numbers, false},
        {&block->features, n, model_image(model) * sizeof *block->features, false},
        {&block->given, n, columns, false},
        {&block->labels, n, all, false},
        {&block->pseudo, pseudo ? n : 0, old, false},
        {&block->scores, scored ? rows : 0, old * real_size(options_real(&model->options)), false},
        {&block->weight, rows, sizeof *block->weight, false},
        {&block->targets, rows, all * sizeof *block->targets, false},
    };
    TRY(model_ready(model));
    TRY(arrays_allocate(model->context, list, LESSON_ARRAYS));
    if (lesson->sign > 0 && model->evidence->end.known) {
        residual->lift = model_lift(model);
        TRY(prepare_residual(lesson));
    }
    block->images = n;
    block->rows = (struct block){
        .context = model->context, .layer = &model->layer, .capacity = rows, .columns = all, .recursive = lesson->recursive};
    TRY(block_create(&block->rows));
done:
    return status;
}

void lesson_free_block(struct lesson *lesson) {
    l3a_context *context = lesson->model->context;
    const struct lesson_residual *residual = &lesson->residual;
    struct lesson_block *block = &lesson->block;
    void *const owned[] = {block->numbers, block->features, block->given,  block->labels,  block->pseudo,   block->scores,
                           block->weight,  block->targets,  residual->sum, residual->rows, residual->errors};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        release(context, owned[i]);
    }
    block_free(&block->rows);
}

/* Labels that the images were not judged for. */
static l3a_status give_pseudo_labels(struct lesson *lesson, size_t n) {
    l3a_model *model = lesson->model;
    const struct lesson_block *block = &lesson->block;
    l3a_status status = L3A_OK;
    const size_t old = model->classes.count, all = lesson->classes.count;
    TRY(block_score(&block->rows, &model->solution, block->scores));
    combine_views_for_labels(model->context->threads, options_real(&model->options), model->options.pseudo_from, block->scores, n,
                             (size_t)model->options.views, old);
    pseudo_label(options_real(&model->options), block->scores, n, old, model->options.eta, block->pseudo, old);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < old; k++) {
            int8_t *label = &block->labels[i * all + k];
            const bool made = *label == -1 && block->pseudo[i * old + k];
            *label = made ? 1 : *label;
            lesson->pseudo_labels += made;
        }
    }
done:
    return status;
}

/* ω and y. */
static void weigh_rows(struct lesson *lesson, const struct part *judged, size_t n) {
    const l3a_model *model = lesson->model;
    const struct lesson_block *block = &lesson->block;
    const size_t all = lesson->classes.count, each = image_rows(model);
    const double none = model->options.weights == L3A_WEIGHTS_NONE; /* v of classes that no image shows any more */
    for (size_t i = 0; i < n; i++) {
        const int8_t *labels = block->labels + i * all;
        double weight = sample_weight(labels, lesson->class_weight, all), sum = 0;
        bool shows = false;
        for (size_t k = 0; k < all; k++) {
            shows = shows || labels[k] == 1;
        }
        for (size_t j = 0; j < judged->judged_count; j++) {
            sum += lesson->class_weight[judged->judged[j]];
        }
        weight = shows ? weight : judged->judged_count ? sum / (double)judged->judged_count : none;
        spread_image(weight, labels, all, (size_t)model->options.views, block->weight + i * each, block->targets + i * each * all);
        for (size_t k = 0; k < all; k++) {
            lesson->next.label_weight[k] += labels[k] == 1 ? lesson->sign * weight : 0;
        }
    }
}

/* Reads, expands and labels the rows [first, first + n) of the lesson's order. */
static l3a_status load_block(struct lesson *lesson, const struct part *judged, size_t first, size_t n) {
    const l3a_model *model = lesson->model;
    struct lesson_block *block = &lesson->block;
    const struct taught *taught = lesson->taught;
    l3a_status status = L3A_OK;
    const size_t all = lesson->classes.count, columns = taught->column_count;
    const float *values;
    for (size_t i = 0; i < n; i++) {
        block->numbers[i] = taught->rows[lesson->sections.order[first + i]];
    }
    TRY(features_find_rows(taught->features, block->numbers, n, block->features, &values));
    TRY(features_gather_labels(taught->features, block->numbers, n, taught->columns, columns, block->given));
    memset(block->labels, -1, n * all);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < columns; j++) {
            if (lesson->place[j] != SIZE_MAX) {
                block->labels[i * all + lesson->place[j]] = block->given[i * columns + j];
            }
        }
    }
    TRY(lesson->recursive ? measure_features(model, values, n, &lesson->scale) : L3A_OK);
    TRY(block_expand(&block->rows, values, n * image_rows(model)));
    if (gives_pseudo_labels(model)) {
        TRY(give_pseudo_labels(lesson, n));
    }
    weigh_rows(lesson, judged, n);
done:
    return status;
}

/* Keeps the rows of a block, and what they add, whose y - x·w is in the targets. */
static l3a_status keep_few(struct lesson *lesson) {
    const l3a_model *model = lesson->model;
    const struct lesson_block *block = &lesson->block;
    struct lesson_residual *residual = &lesson->residual;
    l3a_context *context = model->context;
    const size_t d = model_dim(model), all = lesson->classes.count, n = block->rows.count;
    const real type = options_real(&model->options);
    double *errors = residual->errors + residual->row_count * all;
    void *values = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(context, n, d * real_size(type), &values));
    TRY(block_read(&block->rows, values));
    for (size_t i = 0; i < n * d; i++) {
        residual->rows[residual->row_count * d + i] = real_get(type, values, i);
    }
    for (size_t i = 0; i < n * all; i++) {
        errors[i] = block->weight[i / all] * block->targets[i];
    }
    residual->row_count += n;
done:
    release(context, values);
    return status;
}

/* Adds Σ ω x (y - x·w) to the residual, α times as much with y = 0 for classes that the rows were not judged for. The model's
 * scores are those with the lift. */
static l3a_status add_residual(struct lesson *lesson) {
    const l3a_model *model = lesson->model;
    const struct lesson_block *block = &lesson->block;
    const struct lesson_residual *residual = &lesson->residual;
    l3a_status status = L3A_OK;
    const size_t old = model->classes.count, all = lesson->classes.count, n = block->rows.count, each = image_rows(model);
    const double share = residual->lift / (1 + residual->lift * (double)old);
    if (old) {
        TRY(block_score(&block->rows, &model->solution, block->scores));
    }
    for (size_t i = 0; i < n; i++) {
        const float *scores = (const float *)block->scores + i * old;
        double sum = 0;
        for (size_t k = 0; k < old; k++) {
            sum += (double)scores[k];
        }
        for (size_t k = 0; k < all; k++) {
            const double score = k < old ? (double)scores[k] - share * sum : 0;
            const int8_t label = block->labels[i / each * all + k];
            block->targets[i * all + k] = label == -1 ? -model->options.alpha * score : (label == 1) - score;
        }
    }
    TRY(residual->rows ? keep_few(lesson) : block_cross(&block->rows, block->weight, block->targets, all, 1, residual->sum));
done:
    return status;
}

/* Adds the rows of a section to its part and to C or, in a model without parts, to the sums. */
static l3a_status sum_section(struct lesson *lesson, struct section *section) {
    l3a_model *model = lesson->model;
    struct lesson_block *block = &lesson->block;
    const struct lesson_residual *residual = &lesson->residual;
    struct scatter *scatter = &section->part.sums;
    l3a_status status = L3A_OK;
    const bool apart = keeps_phases(&model->options);
    if (apart && lesson->sign < 0) {
        TRY(scatter_add(scatter, &model->evidence->parts[section->mine].sums));
    }
    for (size_t first = section->first, n; first < section->last; first += n) {
        n = section->last - first < block->images ? section->last - first : block->images;
        TRY(report_progress(model->context, lesson->sign > 0 ? "teach" : "undo", first, lesson->taught->row_count));
        TRY(load_block(lesson, &section->part, first, n));
        if (apart) {
            TRY(scatter_add_rows(scatter, &block->rows, lesson->sign, block->weight));
            TRY(block_cross(&block->rows, block->weight, block->targets, lesson->classes.count, lesson->sign, lesson->next.cross));
            TRY(residual->sum || residual->rows ? add_residual(lesson) : L3A_OK);
        } else if (lesson->recursive) {
            TRY(ridge_update(&model->evidence->ridge, &block->rows, block->weight, block->targets, lesson->next.cross,
                             lesson->next.coefficients));
        } else {
            TRY(sums_add(&model->evidence->ridge.sums, &block->rows, 1, block->weight, block->targets));
        }
    }
    section->part.images = section->last - section->first;
    if (apart && lesson->sign < 0) {
        TRY(scatter_tidy(scatter, (model->evidence->parts[section->mine].images - section->part.images) * image_rows(model)));
    }
done:
    return status;
}

l3a_status lesson_sum(struct lesson *lesson) {
    l3a_model *model = lesson->model;
    struct ridge *ridge = &model->evidence->ridge;
    l3a_status status = L3A_OK;
    const bool apart = keeps_phases(&model->options);
    if (!apart) {
        TRY(ridge_use_inverse(ridge, lesson->recursive));
        TRY(lesson->recursive ? change_keep_sums(model, true) : sums_begin(&ridge->sums, lesson->classes.count));
    }
    for (size_t s = 0; s < lesson->sections.count; s++) {
        TRY(sum_section(lesson, &lesson->sections.items[s]));
    }
    if (lesson->recursive) {
        TRY(ridge_check_update(ridge, largest_square(model, &lesson->scale), lesson->classes.count, lesson->next.cross,
                               lesson->next.coefficients));
    } else if (!apart) {
        TRY(sums_cross(&ridge->sums, lesson->sign, lesson->next.cross));
    }
    TRY(report_progress(model->context, lesson->sign > 0 ? "teach" : "undo", lesson->taught->row_count, lesson->taught->row_count));
done:
    return status;
}
