/* Plans: the memory and the operations that a model will need. Sizes come from the lists that allocate (struct array) and from the
 * back end, so a plan cannot differ from what happens. */
#include "learn/model.h"

#include "base/machine.h"
#include "base/sized.h"

#include <inttypes.h>

static uint64_t larger(uint64_t left, uint64_t right) {
    return left > right ? left : right;
}

/* With solver auto, the recursion starts with a phase of few rows and is used until a phase has many: turning A into R costs as
 * much as three solves, but later phases of few rows then need no solve. Processes that learn together add up sums. */
bool chooses_recursion(const l3a_context *context, const struct model_options *options, uint64_t dim, uint64_t images,
                       bool inverse) {
    const uint64_t rows = images * view_rows((size_t)options->views);
    if (!learns_alone(context)) {
        return false;
    }
    switch (options->solver) {
    case L3A_SOLVER_SUMS: return false;
    case L3A_SOLVER_RECURSIVE: return true;
    case L3A_SOLVER_AUTO: break;
    }
    if (keeps_phases(options) || options->gamma == 0) {
        return false;
    }
    return inverse ? rows < dim : 16 * rows <= dim;
}

size_t block_images(const struct model_options *options, uint64_t images) {
    const size_t most = images_of_rows((size_t)options->block, (size_t)options->views);
    return images < most ? (size_t)(images ? images : 1) : most;
}

uint64_t kept_phases(const struct model_options *options, uint64_t phases) {
    const uint64_t most = options->keep_phases && options->keep_phases < phases ? options->keep_phases + 1 : phases;
    return keeps_phases(options) ? most : 0;
}

static uint64_t scatter_bytes(const l3a_context *context, const struct model_options *options, size_t width) {
    const size_t d = learned_width(options, width);
    return algebra_of(context)->scatter_bytes(d, options_real(options), d);
}

/* Sums, layer, C and W. */
static uint64_t held_bytes(const l3a_context *context, const struct model_options *options, size_t width, size_t classes,
                           size_t adding) {
    const struct algebra *algebra = algebra_of(context);
    const struct layer_shape shape = model_layer_shape(options, width);
    const size_t d = layer_columns(&shape);
    return algebra->sums_bytes(d, adding) + algebra->layer_bytes(&shape) + 2 * (uint64_t)d * classes * sizeof(double);
}

/* The expanded block and what belongs to its rows. */
static uint64_t learning_bytes(l3a_context *context, const struct model_options *options, size_t width,
                               const struct phase_size *phase, bool recursive) {
    const struct layer layer = {.algebra = algebra_of(context), .shape = model_layer_shape(options, width)};
    const size_t block = block_images(options, phase->rows);
    const struct block rows = {.context = context,
                               .layer = &layer,
                               .capacity = block * view_rows((size_t)options->views),
                               .columns = phase->all,
                               .recursive = recursive};
    struct phase none;
    struct array list[BLOCK_ARRAYS];
    list_block(&none, options, block, width, phase->old, phase->all, list);
    return arrays_bytes(list, BLOCK_ARRAYS) + layer.algebra->block_bytes(&rows);
}

enum { OBJECTS = 1 << 14 }; /* what the context, the model and lists of classes take besides matrices, about */

/* While a phase is learned, there are its block and the trials of gamma; when it ends, its part and what solving takes. */
uint64_t phase_memory(l3a_context *context, const struct model_options *options, size_t width, const struct phase_size *phase) {
    const size_t d = learned_width(options, width);
    const bool apart = keeps_phases(options), recursive = chooses_recursion(context, options, d, phase->rows, phase->inverse);
    const struct algebra *algebra = algebra_of(context);
    const uint64_t triangle = apart ? scatter_bytes(context, options, width) : 0, most = options->keep_phases;
    const uint64_t after = phase->parts + apart, folded = most && after > most ? most : after;
    struct phase none;
    struct array columns[COLUMN_ARRAYS];
    list_columns(&none, d, phase->all, columns);
    const uint64_t held = held_bytes(context, options, width, phase->old, recursive ? 0 : phase->all) +
                          phase->rows * sizeof(size_t) + arrays_bytes(columns, COLUMN_ARRAYS) + OBJECTS;
    const bool chooses = options->gamma == 0 && options->gamma_from == L3A_GAMMA_FROM_IMAGES;
    const uint64_t sample = chooses ? gamma_sample_bytes(width, phase->all, phase->rows) : 0;
    const uint64_t trial = chooses ? choose_gamma_bytes(width, phase->all, phase->rows, options_real(options)) : 0;
    const uint64_t old =
        options->pseudo != L3A_PSEUDO_OFF || phase->old ? algebra->solution_bytes(d, phase->old, options_real(options)) : 0;
    const uint64_t learning = learning_bytes(context, options, width, phase, recursive) + sample + trial;
    const uint64_t solving = recursive ? 0
                             : apart   ? parts_solve_bytes(context, d, phase->all)
                                       : (uint64_t)d * phase->all * sizeof(double);
    return held + old + larger(learning + phase->parts * triangle, larger(after * triangle, solving + folded * triangle));
}

uint64_t score_memory(const l3a_context *context, const struct model_options *options, size_t width, size_t classes, uint64_t parts,
                      uint64_t rows) {
    const struct layer layer = {.algebra = algebra_of(context), .shape = model_layer_shape(options, width)};
    const size_t views = scored_views(options), images = images_of_rows(SCORE_ROWS, views), most = images * view_rows(views);
    const struct block block = {.layer = &layer, .capacity = most};
    const bool apart = options_real(options) == REAL_DOUBLE || views > 1;
    const uint64_t wide = apart ? most * (uint64_t)classes * real_size(options_real(options)) : 0;
    const uint64_t scoring =
        layer.algebra->block_bytes(&block) + wide + score_ahead(context) * most * (uint64_t)width * sizeof(float);
    const uint64_t measuring =
        rows * (classes * (sizeof(float) + 1 + sizeof(uint32_t)) + 2 * sizeof(uint64_t) * (uint64_t)context->threads);
    return held_bytes(context, options, width, classes, 0) +
           layer.algebra->solution_bytes(layer_columns(&layer.shape), classes, options_real(options)) +
           (keeps_phases(options) ? parts * scatter_bytes(context, options, width) : 0) + larger(scoring, measuring) +
           rows * (sizeof(size_t) + classes * (sizeof(float) + 1));
}

/* How the classes are divided into phases is not known here, so memory is the larger of two cases: a first phase with all classes,
 * in which gamma may be chosen, and a phase after all classes. */
l3a_status model_plan(l3a_context *context, const struct model_options *options, size_t width, size_t classes, l3a_plan *plan) {
    l3a_status status = L3A_OK;
    TRY(model_options_check(context, options));
    const bool mixed = options->precision == L3A_PRECISION_MIXED, apart = keeps_phases(options);
    const double d = (double)learned_width(options, width), k = (double)width, K = (double)classes;
    const bool search = apart && mixed && options->alpha < 1;
    const double matrix = d * (d + 1) / 2 * (options->store == L3A_STORE_FLOAT32 ? 4 : 8);
    const uint64_t many = options->block + GAMMA_ROWS + (uint64_t)d; /* for whole blocks and samples, and no recursion */
    const struct phase_size first = {.all = classes, .rows = many}, later = {.old = classes, .all = classes, .rows = many};
    struct model_options chosen = *options;
    chosen.gamma = options->gamma == 0 ? 1 : options->gamma;
    plan->phase = apart ? scatter_bytes(context, options, width) : 0;
    plan->memory =
        larger(phase_memory(context, options, width, &first), phase_memory(context, &chosen, width, &later)) - plan->phase;
    plan->file = (uint64_t)((apart ? 0 : matrix) + 16 * d * K);
    const double V = (double)view_rows((size_t)options->views);
    plan->row_flops = V * (2 * k * d + (options->solver == L3A_SOLVER_RECURSIVE ? 4 : 1) * d * d + 4 * d * K);
    plan->score_flops = (double)view_rows(scored_views(options)) * (2 * k * d + 2 * d * K);
    plan->solve_flops = options->solver == L3A_SOLVER_RECURSIVE ? 0 : d * d * d / 3 + (search ? 80 : 2) * d * d * K;
done:
    return status;
}

l3a_status l3a_model_plan(l3a_context *context, const l3a_options *options, size_t width, size_t classes, l3a_plan *plan) {
    const struct model_options settings = model_options_of(options);
    l3a_status status = L3A_OK;
    l3a_plan own = {.size = sizeof own};
    NEED(context, context, plan);
    TRY(model_plan(context, &settings, width, classes, &own));
    TRY(WRITE_SIZED(context, plan, own));
done:
    return status;
}

l3a_status check_memory(l3a_context *context, const struct model_options *options, size_t width, uint64_t needed, uint64_t held) {
    l3a_status status = L3A_OK;
    const uint64_t free = machine_memory_available();
    const uint64_t limit = context->options.memory_limit ? context->options.memory_limit : free ? free + held : 0;
    FAIL_IF(limit && needed > limit, context, L3A_ERROR_MEMORY,
            keeps_phases(options) ? "use a smaller dim, a smaller block, or fewer phases kept apart (keep-phases)"
                                  : "use a smaller dim, or a smaller block",
            "dim %" PRIu64 " and features %zu wide need %.2f GiB of memory, but %.2f GiB are free", options->dim, width,
            (double)needed * 0x1p-30, (double)limit * 0x1p-30);
done:
    return status;
}

l3a_status model_check_memory(l3a_context *context, const struct model_options *options, size_t width, size_t classes,
                              uint64_t phases, uint64_t held) {
    l3a_status status = L3A_OK;
    l3a_plan plan = {.size = sizeof plan};
    TRY(model_plan(context, options, width, classes, &plan));
    TRY(check_memory(context, options, width, plan.memory + kept_phases(options, phases) * plan.phase, held));
done:
    return status;
}

uint64_t model_memory(const l3a_model *model) {
    const struct algebra *algebra = algebra_of(model->context);
    const uint64_t layer = model->layer.held ? algebra->layer_bytes(&model->layer.shape) : 0;
    const size_t d = model_dim(model);
    uint64_t parts = 0;
    for (size_t i = 0; i < model->evidence->part_count; i++) {
        const struct scatter *sums = &model->evidence->parts[i].sums;
        parts += algebra->scatter_bytes(d, sums->type, sums->is_root ? sums->capacity : d);
    }
    return algebra->sums_bytes(d, 0) + layer + 2 * (uint64_t)d * model->classes.count * sizeof(double) + parts;
}
