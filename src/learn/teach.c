/* A lesson: images that were judged, as present or absent, for some classes, known or new (SPEC §6).
 *
 *   for every set of classes K that images of the lesson were judged for:   A_K += Σ ω x xᵀ
 *   c_k += Σ ω x y_k over the images judged for k     f_k += Σ y_k     then W is solved for anew (part.h)
 *
 * ω is the mean of v over the classes that the image shows or, if it shows none, over those it was judged for. Images with the same
 * judged set are one part, whenever they were taught. So with ω = 1 and a given γ, or one that is a function of the sums, neither
 * the order of the images nor their division into lessons matters. Taking a lesson back subtracts the same sums. A model that adds
 * everything to one sum has no parts: an image that was not judged for a class is one that does not show it, unless it gets a
 * pseudo-label. There the recursion (algebra.h) can learn a lesson of few images in n d² operations.
 *
 * A lesson is learned as a whole or not at all (model_change.h). */
#include "learn/teach.h"

#include "base/sized.h"
#include "base/text_index.h"
#include "learn/model_change.h"
#include "learn/model_plan.h"
#include "learn/weights.h"

#include <inttypes.h>
#include <string.h>

/* Images with the same judged set. */
struct section {
    size_t first, last; /* of the lesson's order */
    struct part part;   /* their sums or, if they are taken back, what the model's part will be */
    size_t mine;        /* the model's part with that judged set; part_count: none */
};

struct lesson {
    l3a_model *model;
    const struct taught *taught;
    double sign;
    bool recursive;
    double lift;       /* λ before the lesson */
    text_list classes; /* of the model afterwards, before classes that nobody judges are dropped */
    size_t *place;     /* the class of each column; SIZE_MAX: no image was judged for it */
    size_t *order;     /* numbers of rows: those with the same judged set are next to each other */
    struct section *sections;
    size_t section_count;
    struct model_columns next;
    double *class_weight; /* v now */
    double *residual;     /* [d x classes]: what the lesson adds to C - M W; NULL: not wanted */
    double *few, *errors; /* or its rows x [rows x d] and e = ω (y - x·w) [rows x classes], if they are few; NULL: not wanted */
    size_t few_count;
    uint64_t pseudo_labels;

    /* A block of images. Each has V rows (view_rows.h). */
    size_t block, views, each; /* images in it; V is `each` */
    size_t *rows;              /* their numbers in the table */
    float *values;
    int8_t *given;            /* [block x columns] */
    int8_t *labels;           /* [block x classes]: 1 present, 0 absent, -1 not judged */
    int8_t *pseudo;           /* [block x old classes] */
    void *scores;             /* [block x V x old classes] */
    double *weight, *targets; /* of rows */
    struct block expanded;
};

enum { LESSON_ROWS = 1024, LESSON_ARRAYS = 8 };

static void lesson_free(struct lesson *lesson) {
    l3a_context *context = lesson->model->context;
    void *const owned[] = {lesson->residual, lesson->place,   lesson->order,  lesson->class_weight, lesson->rows,
                           lesson->values,   lesson->given,   lesson->labels, lesson->pseudo,       lesson->scores,
                           lesson->weight,   lesson->targets, lesson->few,    lesson->errors};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        release(context, owned[i]);
    }
    for (size_t s = 0; s < lesson->section_count; s++) {
        part_free(&lesson->sections[s].part);
    }
    release(context, lesson->sections);
    text_list_clear(context, &lesson->classes);
    model_columns_free(context, &lesson->next);
    block_free(&lesson->expanded);
}

static int8_t label_at(const struct taught *taught, size_t row, size_t column) {
    return taught->features->labels[taught->rows[row] * taught->features->classes.count + taught->columns[column]];
}

static size_t old_classes(const struct lesson *lesson) {
    return lesson->model->classes.count;
}

/* Finds the classes of the columns. Those that the model does not know come last. */
static l3a_status place_classes(struct lesson *lesson) {
    const struct taught *taught = lesson->taught;
    const l3a_model *model = lesson->model;
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    text_index known = {0};
    TRY(text_index_make(context, model->classes.items, model->classes.count, &known));
    TRY(allocate(context, taught->column_count, sizeof *lesson->place, &lesson->place));
    for (size_t k = 0; k < model->classes.count; k++) {
        TRY(text_list_add(context, &lesson->classes, model->classes.items[k], strlen(model->classes.items[k])));
    }
    for (size_t j = 0; j < taught->column_count; j++) {
        const char *name = taught->features->classes.items[taught->columns[j]];
        const size_t at = text_index_find(&known, name);
        bool judged = false, shown = false;
        for (size_t i = 0; i < taught->row_count && !shown; i++) {
            judged = judged || label_at(taught, i, j) != -1;
            shown = label_at(taught, i, j) == 1;
        }
        if (lesson->sign < 0 && at == model->classes.count && !shown && !keeps_phases(&model->options)) {
            judged = false; /* without parts, a class that no image shows any more is not kept */
        }
        FAIL_IF(judged && at == model->classes.count && lesson->sign < 0, context, L3A_ERROR_CLASS,
                "take back only images that were taught", "the model has no class '%s'", name);
        FAIL_IF(judged && (!name[0] || strchr(name, '\n')), context, L3A_ERROR_CLASS, "give every class a name without line breaks",
                "class %zu of the table has no usable name", taught->columns[j]);
        lesson->place[j] = judged ? at : SIZE_MAX;
        if (judged && at == model->classes.count) {
            lesson->place[j] = lesson->classes.count;
            TRY(text_list_add(context, &lesson->classes, name, strlen(name)));
        }
    }
done:
    text_index_free(context, &known);
    return status;
}

static l3a_status check_labels(const struct lesson *lesson) {
    const struct taught *taught = lesson->taught;
    const l3a_features *features = taught->features;
    l3a_context *context = lesson->model->context;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < taught->row_count; i++) {
        bool judged = false;
        for (size_t j = 0; j < taught->column_count; j++) {
            const int8_t label = label_at(taught, i, j);
            judged = judged || label != -1;
            FAIL_IF(label < -1 || label > 1, context, L3A_ERROR_DATA, "use labels 1 (present), 0 (absent) or -1 (not judged)",
                    "%s: row %zu, class '%s': label %d is not allowed", features->path, taught->rows[i],
                    features->classes.items[taught->columns[j]], label);
        }
        FAIL_IF(!judged, context, L3A_ERROR_DATA, "omit the image, or say of a class whether it shows it",
                "%s: row %zu was not judged for any class", features->path, taught->rows[i]);
    }
done:
    return status;
}

/* The judged set of a row. */
static l3a_status list_judged(const struct lesson *lesson, size_t row, struct part *part) {
    const struct taught *taught = lesson->taught;
    l3a_status status = L3A_OK;
    size_t count = 0;
    TRY(part_create(lesson->model->context, model_dim(lesson->model), options_real(&lesson->model->options), 0,
                    taught->column_count, part));
    for (size_t j = 0; j < taught->column_count; j++) {
        if (label_at(taught, row, j) != -1 && lesson->place[j] != SIZE_MAX) {
            part->judged[count++] = lesson->place[j];
        }
    }
    part->judged_count = count;
    part->phases = 0;
    part_sort_judged(part);
done:
    return status;
}

/* Adds a section, and finds the model's part with that judged set. */
static l3a_status add_section(struct lesson *lesson, size_t first, size_t last) {
    const struct evidence *evidence = lesson->model->evidence;
    struct section *section = &lesson->sections[lesson->section_count];
    l3a_status status = L3A_OK;
    *section = (struct section){.first = first, .last = last};
    TRY(list_judged(lesson, lesson->order[first], &section->part));
    lesson->section_count++;
    while (section->mine < evidence->part_count && !parts_agree(&evidence->parts[section->mine], &section->part)) {
        section->mine++;
    }
    FAIL_IF(lesson->sign < 0 && evidence->part_count &&
                (section->mine == evidence->part_count || evidence->parts[section->mine].images < last - first),
            lesson->model->context, L3A_ERROR_DATA, "take back only images that were taught, with the labels they were taught with",
            "%s: row %zu: the model was taught fewer images that were judged for the same classes", lesson->taught->features->path,
            lesson->taught->rows[lesson->order[first]]);
done:
    return status;
}

/* Orders the rows by judged set. */
static l3a_status make_sections(struct lesson *lesson) {
    const struct taught *taught = lesson->taught;
    l3a_context *context = lesson->model->context;
    l3a_status status = L3A_OK;
    text_pool patterns = {0};
    text_index index = {0};
    char *pattern = NULL;
    size_t first = 0, capacity = 0;
    TRY(allocate(context, taught->column_count + 1, 1, &pattern));
    TRY(allocate(context, taught->row_count, sizeof *lesson->order, &lesson->order));
    for (size_t i = 0; i < taught->row_count; i++) {
        for (size_t j = 0; j < taught->column_count; j++) {
            pattern[j] = label_at(taught, i, j) == -1 ? '-' : '+';
        }
        TRY(text_pool_add(context, &patterns, pattern, taught->column_count));
    }
    TRY(text_index_make_pool(context, &patterns, &index));
    text_index_order(&index, lesson->order);
    for (size_t i = 1; i <= taught->row_count; i++) {
        if (i == taught->row_count ||
            strcmp(text_pool_at(&patterns, lesson->order[i]), text_pool_at(&patterns, lesson->order[i - 1])) != 0) {
            TRY(grow_array(context, &lesson->sections, &capacity, lesson->section_count + 1, sizeof *lesson->sections));
            TRY(add_section(lesson, first, i));
            first = i;
        }
    }
done:
    release(context, pattern);
    text_index_free(context, &index);
    text_pool_clear(context, &patterns);
    return status;
}

static bool uses_pseudo_labels(const struct lesson *lesson) {
    return lesson->model->options.pseudo != L3A_PSEUDO_OFF && old_classes(lesson);
}

/* How the search will go on: from the lesson's rows, if there are fewer of them than classes, or from the residuals. */
static l3a_status prepare_residual(struct lesson *lesson) {
    l3a_context *context = lesson->model->context;
    const size_t d = model_dim(lesson->model), all = lesson->classes.count, rows = lesson->taught->row_count * lesson->each;
    l3a_status status = L3A_OK;
    if (rows < all && rows <= LESSON_ROWS) {
        TRY(allocate(context, rows, d * sizeof *lesson->few, &lesson->few));
        TRY(allocate(context, rows, all * sizeof *lesson->errors, &lesson->errors));
    } else {
        TRY(allocate_zeroed(context, d, all * sizeof *lesson->residual, &lesson->residual));
    }
done:
    return status;
}

static l3a_status prepare_block(struct lesson *lesson) {
    l3a_model *model = lesson->model;
    l3a_status status = L3A_OK;
    const size_t old = old_classes(lesson), all = lesson->classes.count, columns = lesson->taught->column_count;
    const size_t most = images_of_rows(LESSON_ROWS, lesson->views), count = lesson->taught->row_count;
    const size_t n = count < most ? count : most, rows = n * lesson->each;
    const bool pseudo = uses_pseudo_labels(lesson), scored = pseudo || model->evidence->end.known;
    const struct array list[LESSON_ARRAYS] = {
        {&lesson->rows, n, sizeof *lesson->rows, false},
        {&lesson->values, n, model_image(model) * sizeof *lesson->values, false},
        {&lesson->given, n, columns, false},
        {&lesson->labels, n, all, false},
        {&lesson->pseudo, pseudo ? n : 0, old, false},
        {&lesson->scores, scored ? rows : 0, old * real_size(options_real(&model->options)), false},
        {&lesson->weight, rows, sizeof *lesson->weight, false},
        {&lesson->targets, rows, all * sizeof *lesson->targets, false},
    };
    TRY(model_ready(model));
    TRY(arrays_allocate(model->context, list, LESSON_ARRAYS));
    if (lesson->sign > 0 && model->evidence->end.known) {
        lesson->lift = model_lift(model);
        TRY(prepare_residual(lesson));
    }
    lesson->block = n;
    lesson->expanded = (struct block){
        .context = model->context, .layer = &model->layer, .capacity = rows, .columns = all, .recursive = lesson->recursive};
    TRY(block_create(&lesson->expanded));
done:
    return status;
}

/* The columns of the model come first, in the same order. */
static void copy_columns(struct lesson *lesson) {
    const l3a_model *model = lesson->model;
    const size_t old = old_classes(lesson), all = lesson->classes.count;
    const struct model_columns *next = &lesson->next;
    if (!old) {
        return;
    }
    memcpy(next->counts, model->counts, old * sizeof *next->counts);
    memcpy(next->label_weight, model->label_weight, old * sizeof *next->label_weight);
    memcpy(next->class_weight, model->class_weight, old * sizeof *next->class_weight);
    for (size_t i = 0; i < model_dim(model); i++) {
        memcpy(next->cross + i * all, model->evidence->cross + i * old, old * sizeof *next->cross);
        memcpy(next->coefficients + i * all, model->coefficients + i * old, old * sizeof *next->coefficients);
    }
}

/* The class columns of the next model: those of the model, and zeros for new classes. Counts those of the lesson. */
static l3a_status prepare_columns(struct lesson *lesson) {
    const l3a_model *model = lesson->model;
    const struct taught *taught = lesson->taught;
    l3a_context *context = model->context;
    struct model_columns *next = &lesson->next;
    l3a_status status = L3A_OK;
    const size_t all = lesson->classes.count;
    TRY(model_columns_create(context, model_dim(model), all, next));
    TRY(allocate(context, all, sizeof *lesson->class_weight, &lesson->class_weight));
    copy_columns(lesson);
    if (lesson->sign < 0) { /* as they were when the lesson was taught */
        class_weights(next->counts, all, model->options.weights, model->options.scaling, lesson->class_weight);
    }
    for (size_t j = 0; j < taught->column_count; j++) {
        uint64_t shown = 0;
        for (size_t i = 0; i < taught->row_count; i++) {
            shown += label_at(taught, i, j) == 1;
        }
        if (lesson->place[j] == SIZE_MAX) {
            continue;
        }
        uint64_t *count = &next->counts[lesson->place[j]];
        FAIL_IF(lesson->sign < 0 && shown > *count, context, L3A_ERROR_DATA,
                "take back only images that were taught, with the labels they were taught with",
                "class '%s': %" PRIu64 " images are to be taken back, but %" PRIu64 " were taught",
                lesson->classes.items[lesson->place[j]], shown, *count);
        *count = lesson->sign < 0 ? *count - shown : *count + shown;
    }
    if (lesson->sign > 0) {
        class_weights(next->counts, all, model->options.weights, model->options.scaling, lesson->class_weight);
    }
    for (size_t k = old_classes(lesson); k < all; k++) {
        next->class_weight[k] = lesson->class_weight[k];
    }
done:
    return status;
}

/* Labels that the images were not judged for. */
static l3a_status give_pseudo_labels(struct lesson *lesson, size_t n) {
    l3a_model *model = lesson->model;
    l3a_status status = L3A_OK;
    const size_t old = old_classes(lesson), all = lesson->classes.count;
    TRY(block_score(&lesson->expanded, &model->solution, lesson->scores));
    combine_views_for_labels(model->context->threads, options_real(&model->options), model->options.pseudo_from, lesson->scores, n,
                             lesson->views, old);
    pseudo_label(options_real(&model->options), lesson->scores, n, old, model->options.eta, lesson->pseudo, old);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < old; k++) {
            int8_t *label = &lesson->labels[i * all + k];
            const bool made = *label == -1 && lesson->pseudo[i * old + k];
            *label = made ? 1 : *label;
            lesson->pseudo_labels += made;
        }
    }
done:
    return status;
}

/* ω and y. */
static void weigh_rows(struct lesson *lesson, const struct part *judged, size_t n) {
    const size_t all = lesson->classes.count;
    const double none = lesson->model->options.weights == L3A_WEIGHTS_NONE; /* v of classes that no image shows any more */
    for (size_t i = 0; i < n; i++) {
        const int8_t *labels = lesson->labels + i * all;
        double weight = sample_weight(labels, lesson->class_weight, all), sum = 0;
        bool shows = false;
        for (size_t k = 0; k < all; k++) {
            shows = shows || labels[k] == 1;
        }
        for (size_t j = 0; j < judged->judged_count; j++) {
            sum += lesson->class_weight[judged->judged[j]];
        }
        weight = shows ? weight : judged->judged_count ? sum / (double)judged->judged_count : none;
        spread_image(weight, labels, all, lesson->views, lesson->weight + i * lesson->each,
                     lesson->targets + i * lesson->each * all);
        for (size_t k = 0; k < all; k++) {
            lesson->next.label_weight[k] += labels[k] == 1 ? lesson->sign * weight : 0;
        }
    }
}

/* Reads, expands and labels the rows [first, first + n) of the lesson's order. */
static l3a_status load_block(struct lesson *lesson, const struct part *judged, size_t first, size_t n) {
    const struct taught *taught = lesson->taught;
    l3a_status status = L3A_OK;
    const size_t all = lesson->classes.count, columns = taught->column_count;
    for (size_t i = 0; i < n; i++) {
        lesson->rows[i] = taught->rows[lesson->order[first + i]];
    }
    TRY(l3a_features_read(taught->features, lesson->rows, 0, n, lesson->values));
    features_gather_labels(taught->features, lesson->rows, n, taught->columns, columns, lesson->given);
    memset(lesson->labels, -1, n * all);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < columns; j++) {
            if (lesson->place[j] != SIZE_MAX) {
                lesson->labels[i * all + lesson->place[j]] = lesson->given[i * columns + j];
            }
        }
    }
    TRY(block_expand(&lesson->expanded, lesson->values, n * lesson->each));
    if (uses_pseudo_labels(lesson)) {
        TRY(give_pseudo_labels(lesson, n));
    }
    weigh_rows(lesson, judged, n);
done:
    return status;
}

/* Keeps the rows of a block, and what they add, whose y - x·w is in the targets. */
static l3a_status keep_few(struct lesson *lesson) {
    l3a_context *context = lesson->model->context;
    const size_t d = model_dim(lesson->model), all = lesson->classes.count, n = lesson->expanded.count;
    const real type = options_real(&lesson->model->options);
    double *errors = lesson->errors + lesson->few_count * all;
    void *values = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(context, n, d * real_size(type), &values));
    TRY(block_read(&lesson->expanded, values));
    for (size_t i = 0; i < n * d; i++) {
        lesson->few[lesson->few_count * d + i] = real_get(type, values, i);
    }
    for (size_t i = 0; i < n * all; i++) {
        errors[i] = lesson->weight[i / all] * lesson->targets[i];
    }
    lesson->few_count += n;
done:
    release(context, values);
    return status;
}

/* Adds Σ ω x (y - x·w) to the residual, α times as much with y = 0 for classes that the rows were not judged for. The model's
 * scores are those with the lift. */
static l3a_status add_residual(struct lesson *lesson) {
    const l3a_model *model = lesson->model;
    l3a_status status = L3A_OK;
    const size_t old = old_classes(lesson), all = lesson->classes.count, n = lesson->expanded.count;
    const double share = lesson->lift / (1 + lesson->lift * (double)old);
    if (old) {
        TRY(block_score(&lesson->expanded, &model->solution, lesson->scores));
    }
    for (size_t i = 0; i < n; i++) {
        const float *scores = (const float *)lesson->scores + i * old;
        double sum = 0;
        for (size_t k = 0; k < old; k++) {
            sum += (double)scores[k];
        }
        for (size_t k = 0; k < all; k++) {
            const double score = k < old ? (double)scores[k] - share * sum : 0;
            const int8_t label = lesson->labels[i / lesson->each * all + k];
            lesson->targets[i * all + k] = label == -1 ? -model->options.alpha * score : (label == 1) - score;
        }
    }
    TRY(lesson->few ? keep_few(lesson) : block_cross(&lesson->expanded, lesson->weight, lesson->targets, all, 1, lesson->residual));
done:
    return status;
}

/* Adds the rows of a section to its part and to C or, in a model without parts, to the sums. */
static l3a_status sum_section(struct lesson *lesson, struct section *section) {
    l3a_model *model = lesson->model;
    struct scatter *scatter = &section->part.sums;
    l3a_status status = L3A_OK;
    const bool apart = keeps_phases(&model->options);
    if (apart && lesson->sign < 0) {
        TRY(scatter_add(scatter, &model->evidence->parts[section->mine].sums));
    }
    for (size_t first = section->first, n; first < section->last; first += n) {
        n = section->last - first < lesson->block ? section->last - first : lesson->block;
        TRY(report_progress(model->context, lesson->sign > 0 ? "teach" : "undo", first, lesson->taught->row_count));
        TRY(load_block(lesson, &section->part, first, n));
        if (apart) {
            TRY(scatter_add_rows(scatter, &lesson->expanded, lesson->sign, lesson->weight));
            TRY(block_cross(&lesson->expanded, lesson->weight, lesson->targets, lesson->classes.count, lesson->sign,
                            lesson->next.cross));
            TRY(lesson->residual || lesson->few ? add_residual(lesson) : L3A_OK);
        } else if (lesson->recursive) {
            TRY(ridge_update(&model->evidence->ridge, &lesson->expanded, lesson->weight, lesson->targets, lesson->next.cross,
                             lesson->next.coefficients));
        } else {
            TRY(sums_add(&model->evidence->ridge.sums, &lesson->expanded, 1, lesson->weight, lesson->targets));
        }
    }
    section->part.images = section->last - section->first;
    if (apart && lesson->sign < 0) {
        TRY(scatter_tidy(scatter, (model->evidence->parts[section->mine].images - section->part.images) * lesson->each));
    }
done:
    return status;
}

static l3a_status sum_lesson(struct lesson *lesson) {
    l3a_model *model = lesson->model;
    struct ridge *ridge = &model->evidence->ridge;
    l3a_status status = L3A_OK;
    const bool apart = keeps_phases(&model->options);
    if (!apart) {
        TRY(ridge_use_inverse(ridge, lesson->recursive));
        TRY(lesson->recursive ? change_keep_sums(model, true) : sums_begin(&ridge->sums, lesson->classes.count));
    }
    for (size_t s = 0; s < lesson->section_count; s++) {
        TRY(sum_section(lesson, &lesson->sections[s]));
    }
    if (lesson->recursive) {
        TRY(ridge_check_update(ridge, lesson->classes.count, lesson->next.cross, lesson->next.coefficients));
    } else if (!apart) {
        TRY(sums_cross(&ridge->sums, lesson->sign, lesson->next.cross));
    }
    TRY(report_progress(model->context, lesson->sign > 0 ? "teach" : "undo", lesson->taught->row_count, lesson->taught->row_count));
done:
    return status;
}

/* Columns of 0 for new classes. */
static bool extend_end(l3a_context *context, struct search_end *end, size_t d, size_t all) {
    return end->columns == all ||
           (extend_array(context, &end->solution, end->columns * d, all * d, sizeof *end->solution) == L3A_OK &&
            extend_array(context, &end->residual, end->columns * d, all * d, sizeof *end->residual) == L3A_OK &&
            extend_array(context, &end->error, end->columns, all, sizeof *end->error) == L3A_OK);
}

/* The search will go on from where it ended, with columns for the new classes. */
static void keep_residual(struct lesson *lesson) {
    l3a_context *context = lesson->model->context;
    struct search_end *end = &lesson->model->evidence->end;
    const size_t d = model_dim(lesson->model), all = lesson->classes.count;
    end->kept = true;
    end->known = (lesson->residual || lesson->few) && end->known && extend_end(context, end, d, all);
    if (!end->known) {
        search_end_free(context, end);
        return;
    }
    end->columns = all;
    for (size_t k = 0; lesson->residual && k < all; k++) {
        for (size_t i = 0; i < d; i++) {
            end->residual[k * d + i] += lesson->residual[i * all + k];
        }
    }
    if (lesson->few) {
        end->rows = lesson->few;
        end->errors = lesson->errors;
        end->row_count = lesson->few_count;
        lesson->few = lesson->errors = NULL;
    }
}

/* Moves the sums of the sections to the model's parts. */
static l3a_status keep_parts(struct lesson *lesson) {
    struct evidence *evidence = lesson->model->evidence;
    l3a_status status = L3A_OK;
    const size_t known = evidence->part_count;
    bool phase = lesson->classes.count == old_classes(lesson); /* whether the new classes have a part */
    TRY(extend_array(lesson->model->context, &evidence->parts, known, known + lesson->section_count, sizeof *evidence->parts));
    evidence->summed = evidence->summed && lesson->sign > 0;
    keep_residual(lesson);
    for (size_t s = 0; s < lesson->section_count; s++) {
        struct section *section = &lesson->sections[s];
        if (evidence->summed) {
            TRY(sums_add_scatter(&evidence->ridge.sums, 1, &section->part.sums));
        }
        struct part *mine = &evidence->parts[section->mine];
        if (lesson->sign < 0) {
            model_free_sums(lesson->model, &mine->sums);
            mine->sums = section->part.sums;
            mine->images -= section->part.images;
            section->part.sums.held = NULL;
        } else if (section->mine < known) {
            TRY(part_own(lesson->model, mine));
            TRY(scatter_add(&mine->sums, &section->part.sums));
            mine->images += section->part.images;
        } else {
            struct part *made = &evidence->parts[evidence->part_count++];
            *made = section->part;
            section->part = (struct part){0};
            made->phases = !phase && part_judges(made, old_classes(lesson));
            phase = phase || made->phases;
        }
    }
done:
    return status;
}

/* The phase of the new classes. */
static l3a_status add_phase(struct lesson *lesson) {
    l3a_model *model = lesson->model;
    l3a_status status = L3A_OK;
    TRY(extend_array(model->context, &model->phases, model->phase_count, model->phase_count + 1, sizeof *model->phases));
    model->phases[model->phase_count++] = (l3a_phase_info){.first = old_classes(lesson),
                                                           .last = lesson->classes.count,
                                                           .images = lesson->taught->row_count,
                                                           .pseudo_labels = lesson->pseudo_labels,
                                                           .eta = uses_pseudo_labels(lesson) ? model->options.eta : 0};
done:
    return status;
}

/* After images were taken back: drops parts without images, and classes for which no image was judged. */
static l3a_status drop_unjudged(l3a_model *model) {
    struct evidence *evidence = model->evidence;
    l3a_status status = L3A_OK;
    const size_t classes = model->classes.count;
    const bool apart = keeps_phases(&model->options);
    bool *gone = NULL, any = false;
    TRY(allocate_zeroed(model->context, classes + 1, sizeof *gone, &gone));
    for (size_t i = evidence->part_count; i-- > 0;) {
        if (!evidence->parts[i].images) {
            model_drop_part(model, i);
        }
    }
    for (size_t k = 0; k < classes; k++) {
        bool judged = !apart && model->counts[k];
        for (size_t i = 0; i < evidence->part_count; i++) {
            judged = judged || part_judges(&evidence->parts[i], k);
        }
        gone[k] = !judged;
        any = any || gone[k];
    }
    if (any) {
        TRY(model_drop_classes(model, gone));
    }
done:
    release(model->context, gone);
    return status;
}

/* The lesson becomes part of the model. */
static l3a_status keep_lesson(struct lesson *lesson) {
    l3a_model *model = lesson->model;
    l3a_status status = L3A_OK;
    if (keeps_phases(&model->options)) {
        TRY(keep_parts(lesson));
    } else if (!lesson->recursive) {
        TRY(change_keep_sums(model, false));
        TRY(sums_keep(&model->evidence->ridge.sums, lesson->sign));
    }
    if (lesson->classes.count > old_classes(lesson)) {
        TRY(add_phase(lesson));
    }
    model_columns_adopt(model, &lesson->next);
    const text_list before = model->classes;
    model->classes = lesson->classes;
    lesson->classes = before;
    if (lesson->sign < 0) {
        TRY(drop_unjudged(model));
    }
    TRY(model_fold(model));
    TRY(model_settle(model, !lesson->recursive));
done:
    return status;
}

/* Parts that the lesson adds to: there is a copy of each until it is complete. */
static size_t copied_parts(const struct lesson *lesson) {
    size_t count = 0;
    for (size_t s = 0; s < lesson->section_count; s++) {
        count += lesson->sign > 0 && lesson->sections[s].mine < lesson->model->evidence->part_count;
    }
    return count;
}

static l3a_status check_lesson(const struct lesson *lesson) {
    const l3a_model *model = lesson->model;
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    FAIL_IF(!lesson->taught->row_count, context, L3A_ERROR_DATA, "give at least one image", "%s: there is no image",
            lesson->taught->features->path);
    FAIL_IF(!lesson->taught->features->labels, context, L3A_ERROR_DATA, "say which classes the images show", "%s: no labels",
            lesson->taught->features->path);
    FAIL_IF(!learns_alone(context) && !divides_rows(context), context, L3A_ERROR_STATE, "teach in one process",
            "images with judged sets of their own cannot be taught by several processes together");
    TRY(check_own_sums(model));
    FAIL_IF(model->options.pseudo == L3A_PSEUDO_DYNAMIC, context, L3A_ERROR_MISMATCH, "use pseudo off or fixed",
            "a dynamic threshold is chosen for a phase, and a lesson is none");
    FAIL_IF(model->options.gamma == 0 && model->options.gamma_from == L3A_GAMMA_FROM_IMAGES, context, L3A_ERROR_MISMATCH,
            "give gamma a number, or use gamma-from sums",
            "a gamma that is chosen from the images of the first phase needs a phase");
    FAIL_IF(lesson->sign < 0 && has_pseudo_labels(model, 0), context, L3A_ERROR_MISMATCH,
            "use pseudo off if images may have to be taken back", "images got pseudo-labels, which are not stored");
done:
    return status;
}

l3a_status model_teach(l3a_model *model, const struct taught *taught, double sign, l3a_teach_report *report) {
    l3a_status status = L3A_OK;
    const size_t views = (size_t)model->options.views;
    struct lesson lesson = {.model = model, .taught = taught, .sign = sign, .views = views, .each = view_rows(views)};
    struct change change = {0};
    const size_t before = model->classes.count;
    TRY(check_state(model, false));
    TRY(model_accepts(model, taught->features));
    TRY(check_lesson(&lesson));
    TRY(check_labels(&lesson));
    TRY(place_classes(&lesson));
    FAIL_IF(!lesson.classes.count, model->context, L3A_ERROR_DATA, "take back only images that were taught",
            "the model knows no class, so there is nothing to take back");
    TRY(make_sections(&lesson));
    TRY(model_check_memory(model->context, &model->options, model->width, lesson.classes.count,
                           model->evidence->part_count + lesson.section_count + copied_parts(&lesson), model));
    lesson.recursive = sign > 0 && chooses_recursion(model->context, &model->options, model_dim(model), taught->row_count,
                                                     model->evidence->ridge.inverse);
    TRY(prepare_block(&lesson));
    TRY(prepare_columns(&lesson));
    TRY(change_begin(model, &change));
    TRY(sum_lesson(&lesson));
    TRY(model_keep_provenance(model, taught->features));
    TRY(keep_lesson(&lesson));
    *report = (l3a_teach_report){.images = taught->row_count,
                                 .new_classes = model->classes.count > before ? model->classes.count - before : 0,
                                 .parts = model->evidence->part_count,
                                 .gamma = model->options.gamma,
                                 .exact = model->options.weights == L3A_WEIGHTS_NONE && !has_pseudo_labels(model, 0) &&
                                          !is_folded(model) && !has_chosen_gamma(model)};
done:
    lesson_free(&lesson);
    return change_end(&change, status);
}

/* All rows and columns of a table. */
static l3a_status teach_table(l3a_model *model, l3a_features *features, double sign, l3a_teach_report *report) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    size_t *numbers = NULL;
    const size_t rows = features->rows, columns = features->classes.count;
    l3a_teach_report own;
    TRY(CHECK_SIZED(context, report));
    TRY(allocate(context, rows > columns ? rows : columns, sizeof *numbers, &numbers));
    for (size_t i = 0; i < rows || i < columns; i++) {
        numbers[i] = i;
    }
    const struct taught all = {features, numbers, numbers, rows, columns};
    TRY(model_teach(model, &all, sign, &own));
    TRY(WRITE_SIZED(context, report, own));
done:
    release(context, numbers);
    return status;
}

l3a_status l3a_model_teach(l3a_model *model, l3a_features *features, l3a_teach_report *report) {
    REQUIRE(model, model, features, report);
    return teach_table(model, features, 1, report);
}

l3a_status l3a_model_unteach(l3a_model *model, l3a_features *features, l3a_teach_report *report) {
    REQUIRE(model, model, features, report);
    return teach_table(model, features, -1, report);
}
