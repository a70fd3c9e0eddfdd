#include "learn/model_plan.h"

#include "base/machine.h"
#include "base/plugin.h"
#include "base/sized.h"
#include "learn/model.h"
#include "measure/evaluate.h"

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
    case L3A_SOLVER_SUMS:
    case L3A_SOLVER_SCALAPACK: return false;
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

static uint64_t scatter_bytes(enum place place, const l3a_context *context, const struct model_options *options, size_t width) {
    const size_t d = learned_width(options, width);
    return keeps_phases(options) ? algebra_of(context)->scatter_bytes(place, d, options_real(options), d) : 0;
}

static bool holds_together(const l3a_context *context, const struct model_options *options) {
    return options->solver == L3A_SOLVER_SCALAPACK && context->shared;
}

/* Sums, layer, C and W. */
static uint64_t held_bytes(enum place place, const l3a_context *context, const struct model_options *options, size_t width,
                           size_t classes, size_t adding) {
    const struct algebra *algebra = algebra_of(context);
    const struct layer_shape shape = model_layer_shape(options, width);
    const size_t d = layer_columns(&shape);
    const struct algebra *of_sums = holds_together(context, options) ? context->shared_algebra : algebra;
    return of_sums->sums_bytes(place, context, d, adding) + algebra->layer_bytes(place, &shape) +
           processor_bytes(place, 2 * (uint64_t)d * classes * sizeof(double));
}

/* The expanded block and what belongs to its rows. */
static uint64_t learning_bytes(enum place place, l3a_context *context, const struct model_options *options, size_t width,
                               const struct phase_size *phase, bool recursive) {
    const struct layer layer = {.algebra = algebra_of(context), .shape = model_layer_shape(options, width)};
    const size_t block = block_images(options, phase->rows);
    const struct block rows = {.context = context,
                               .layer = &layer,
                               .capacity = block * view_rows((size_t)options->views),
                               .columns = phase->all,
                               .recursive = recursive};
    struct phase_block none;
    struct array list[BLOCK_ARRAYS];
    list_block(&none, options, block, width, phase->old, phase->all, list);
    return processor_bytes(place, arrays_bytes(list, BLOCK_ARRAYS)) + layer.algebra->block_bytes(place, &rows);
}

/* What is there beside the block after the last row: a sample of the rows, while the sums of other processes are added, and then
 * the trials of gamma on it. */
static uint64_t ending_bytes(const l3a_context *context, const struct model_options *options, size_t width,
                             const struct phase_size *phase) {
    const bool chooses = chooses_gamma(options);
    const uint64_t sample = chooses ? gamma_sample_bytes(width, phase->all, phase->rows) : 0,
                   trials = chooses ? choose_gamma_bytes(width, phase->all, phase->rows, options_real(options)) : 0,
                   sharing =
                       holds_together(context, options) ? 0 : sums_share_bytes(context, learned_width(options, width), phase->all);
    return sample + larger(trials, sharing);
}

enum { OBJECTS = 1 << 14 }; /* what the context, the model and lists of classes take besides matrices, about */

/* While a phase is learned, there are its block and the trials of gamma; when it ends, its part and what solving takes. */
uint64_t phase_memory(enum place place, l3a_context *context, const struct model_options *options, size_t width,
                      const struct phase_size *phase) {
    const size_t d = learned_width(options, width);
    const bool apart = keeps_phases(options), recursive = chooses_recursion(context, options, d, phase->rows, phase->inverse);
    const uint64_t triangle = scatter_bytes(place, context, options, width), most = options->keep_phases;
    const uint64_t after = phase->parts + apart, folded = most && after > most ? most : after;
    struct phase_size own = *phase; /* with the rows of this process */
    struct model_columns none;
    struct array columns[COLUMN_ARRAYS];
    size_t first, rows;
    own_part(context, (size_t)phase->rows, &first, &rows);
    own.rows = rows;
    list_columns(&none, d, phase->all, columns);
    const uint64_t held = held_bytes(place, context, options, width, phase->old, recursive ? 0 : phase->all) +
                          processor_bytes(place, rows * sizeof(size_t) + arrays_bytes(columns, COLUMN_ARRAYS) + OBJECTS);
    const uint64_t old = options->pseudo != L3A_PSEUDO_OFF || phase->old
                             ? algebra_of(context)->solution_bytes(place, d, phase->old, options_real(options))
                             : 0;
    const uint64_t learning = learning_bytes(place, context, options, width, &own, recursive) +
                              processor_bytes(place, ending_bytes(context, options, width, phase));
    const uint64_t solving = recursive ? 0
                             : apart   ? parts_solve_bytes(place, context, d, phase->all)
                                       : processor_bytes(place, (uint64_t)d * phase->all * sizeof(double));
    return held + old + larger(learning + phase->parts * triangle, larger(after * triangle, solving + folded * triangle));
}

uint64_t score_memory(enum place place, const l3a_context *context, const struct model_options *options, size_t width,
                      size_t classes, uint64_t parts, uint64_t rows) {
    const struct layer layer = {.algebra = algebra_of(context), .shape = model_layer_shape(options, width)};
    const size_t views = scored_views(options), images = images_of_rows(SCORE_ROWS, views), most = images * view_rows(views);
    const struct block block = {.layer = &layer, .capacity = most};
    const bool apart = options_real(options) == REAL_DOUBLE || views > 1;
    const uint64_t wide = apart ? most * (uint64_t)classes * real_size(options_real(options)) : 0;
    const uint64_t scoring = layer.algebra->block_bytes(place, &block) +
                             processor_bytes(place, wide + score_ahead(context) * most * (uint64_t)width * sizeof(float));
    const uint64_t measured = leads(context) ? rows : 0, measuring = measured * (classes * (sizeof(float) + 1 + sizeof(uint32_t)) +
                                                                                 2 * sizeof(uint64_t) * (uint64_t)context->threads);
    return held_bytes(place, context, options, width, classes, 0) +
           layer.algebra->solution_bytes(place, layer_columns(&layer.shape), classes, options_real(options)) +
           parts * scatter_bytes(place, context, options, width) + larger(scoring, processor_bytes(place, measuring)) +
           processor_bytes(place, evaluation_bytes(context, rows, classes));
}

static const double GIB = 0x1p30;

bool leaves_device(l3a_context *context, const struct model_options *options, size_t width, const struct footprint *needed) {
    uint64_t available = 0;
    if (!context->choosing) {
        return false;
    }
    if (device_memory(context, &available) != L3A_OK) {
        device_leave(context, "%s", l3a_error_text(context));
    } else if (needed->in[DEVICE] > available) {
        device_leave(context,
                     "%s is too small: dim %" PRIu64 " and features %zu wide need %.2f GiB of its memory, but %.2f GiB are free",
                     l3a_context_device(context), options->dim, width, (double)needed->in[DEVICE] / GIB, (double)available / GIB);
    }
    return !context->plugin;
}

/* How the classes are divided into phases is not known here, so memory is the larger of two cases: a first phase with all classes,
 * in which gamma may be chosen, and a phase after all classes. */
void model_need(l3a_context *context, const struct model_options *options, size_t width, size_t classes, uint64_t phases,
                struct footprint *need) {
    const uint64_t processes = divides_rows(context) ? context->options.processes : 1,
                   many = processes * (options->block + GAMMA_ROWS +
                                       learned_width(options, width)); /* whole blocks and samples, no recursion */
    const struct phase_size first = {.all = classes, .rows = many}, later = {.old = classes, .all = classes, .rows = many};
    struct model_options chosen = *options;
    chosen.gamma = options->gamma == 0 ? 1 : options->gamma;
    do {
        for (enum place place = 0; place < PLACE_COUNT; place++) {
            const uint64_t part = scatter_bytes(place, context, options, width); /* both phases have one */
            need->in[place] =
                larger(phase_memory(place, context, options, width, &first), phase_memory(place, context, &chosen, width, &later)) -
                part + kept_phases(options, phases) * part;
        }
    } while (leaves_device(context, options, width, need));
}

l3a_status model_plan(l3a_context *context, const struct model_options *options, size_t width, size_t classes, l3a_plan *plan) {
    l3a_status status = L3A_OK;
    struct footprint need;
    TRY(model_options_check(context, options));
    const bool mixed = options->precision == L3A_PRECISION_MIXED, apart = keeps_phases(options);
    const double d = (double)learned_width(options, width), k = (double)width, K = (double)classes;
    const bool search = apart && mixed && options->alpha < 1;
    const double matrix = d * (d + 1) / 2 * (options->store == L3A_STORE_FLOAT32 ? 4 : 8);
    model_need(context, options, width, classes, 0, &need);
    plan->memory = need.in[PROCESSOR];
    plan->device_memory = need.in[DEVICE];
    plan->phase = part_bytes(context, options, width);
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

/* ---- What fits ---- */

uint64_t part_bytes(const l3a_context *context, const struct model_options *options, size_t width) {
    return scatter_bytes(PROCESSOR, context, options, width) + scatter_bytes(EITHER, context, options, width);
}

static uint64_t beyond(uint64_t needed, uint64_t held) {
    return needed > held ? needed - held : 0;
}

l3a_status place_parts(l3a_context *context, const struct footprint *needed, const struct footprint *held, uint64_t part,
                       struct placement *placed) {
    l3a_status status = L3A_OK;
    const uint64_t work = beyond(needed->in[DEVICE], held->in[DEVICE]), parts = beyond(needed->in[EITHER], held->in[EITHER]);
    *placed = (struct placement){.available = UINT64_MAX};
    TRY(device_memory(context, &placed->available));
    const uint64_t outside = beyond(parts, beyond(placed->available, work));
    placed->spilled = part ? (outside + part - 1) / part : 0;
    placed->parts = part ? needed->in[EITHER] / part : 0;
    placed->processor = needed->in[PROCESSOR] + placed->spilled * part;
    placed->device = needed->in[DEVICE] + beyond(needed->in[EITHER], placed->spilled * part);
    placed->fits = work <= placed->available;
done:
    return status;
}

l3a_status check_memory(l3a_context *context, const struct model_options *options, size_t width, const struct footprint *needed,
                        const struct footprint *held) {
    l3a_status status = L3A_OK;
    const uint64_t free = machine_memory_available();
    struct placement placed;
    TRY(place_parts(context, needed, held, part_bytes(context, options, width), &placed));
    FAIL_IF(!placed.fits, context, L3A_ERROR_MEMORY, "use a smaller dim, a smaller block, or the processor",
            "dim %" PRIu64 " and features %zu wide need %.2f GiB of the memory of %s, but %.2f GiB are free", options->dim, width,
            (double)needed->in[DEVICE] / GIB, l3a_context_device(context), (double)(placed.available + held->in[DEVICE]) / GIB);
    const uint64_t limit = context->options.memory_limit ? context->options.memory_limit : free ? free + held->in[PROCESSOR] : 0;
    FAIL_IF(limit && placed.processor > limit, context, L3A_ERROR_MEMORY,
            keeps_phases(options) ? "use a smaller dim, a smaller block, or fewer phases kept apart (keep-phases)"
                                  : "use a smaller dim, or a smaller block",
            "dim %" PRIu64 " and features %zu wide need %.2f GiB of memory, but %.2f GiB are free", options->dim, width,
            (double)placed.processor / GIB, (double)limit / GIB);
    context->device_work = larger(context->device_work, needed->in[DEVICE]);
done:
    return status;
}

l3a_status model_check_memory(l3a_context *context, const struct model_options *options, size_t width, size_t classes,
                              uint64_t phases, const l3a_model *model) {
    l3a_status status = L3A_OK;
    struct footprint needed, held = {{0}};
    TRY(model_options_check(context, options));
    model_need(context, options, width, classes, phases, &needed);
    if (model) {
        model_memory(model, &held);
    }
    TRY(check_memory(context, options, width, &needed, &held));
done:
    return status;
}

void model_memory(const l3a_model *model, struct footprint *held) {
    const struct algebra *algebra = algebra_of(model->context);
    const size_t d = model_dim(model);
    for (enum place place = 0; place < PLACE_COUNT; place++) {
        held->in[place] = (shares_sums(model) ? model->context->shared_algebra : algebra)->sums_bytes(place, model->context, d, 0) +
                          (model->layer.held ? algebra->layer_bytes(place, &model->layer.shape) : 0) +
                          processor_bytes(place, 2 * (uint64_t)d * model->classes.count * sizeof(double));
        for (size_t i = 0; i < model->evidence->part_count; i++) {
            const struct scatter *sums = &model->evidence->parts[i].sums;
            held->in[place] += algebra->scatter_bytes(place, d, sums->type, sums->is_root ? sums->capacity : d);
        }
        if (has_unlabelled(model)) {
            const struct scatter *sums = &model->evidence->unlabelled.sums;
            held->in[place] += algebra->scatter_bytes(place, d, sums->type, sums->is_root ? sums->capacity : d);
        }
    }
}
