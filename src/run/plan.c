/* What an experiment needs: the images of every phase, memory and operations. */
#include "base/sized.h"
#include "base/write_behind.h"
#include "data/features.h"
#include "learn/model_plan.h"
#include "run/experiment.h"

static l3a_status count_lesson(const l3a_experiment *experiment, const struct class_order *order, size_t first, size_t last,
                               l3a_protocol_phase *lesson) {
    l3a_features *train = experiment->options.train, *test = experiment->options.test;
    const size_t *columns = order->columns + first, count = last - first;
    l3a_status status = L3A_OK;
    uint64_t labelled;
    *lesson = (l3a_protocol_phase){.size = sizeof *lesson, .first = first, .last = last};
    TRY(features_count_rows(train, BY_MEMBER, columns, count, &lesson->train_images));
    TRY(features_count_rows(train, BY_LABEL, columns, count, &labelled));
    TRY(features_count_rows(test, BY_LABEL, order->test_columns, last, &lesson->test_images));
    lesson->unlabelled_images = lesson->train_images - labelled;
done:
    return status;
}

static l3a_status count_order(const l3a_experiment *experiment, struct class_order *order) {
    l3a_status status = L3A_OK;
    const size_t *bounds = experiment->bounds;
    const bool several = experiment->order_count > 1;
    TRY(allocate(experiment->context, experiment->phases, sizeof *order->lessons, &order->lessons));
    for (size_t t = 0; t < experiment->phases; t++) {
        l3a_protocol_phase *lesson = &order->lessons[t];
        TRY(count_lesson(experiment, order, bounds[t], bounds[t + 1], lesson));
        FAIL_IF(lesson->unlabelled_images == lesson->train_images, experiment->context, L3A_ERROR_DATA,
                "choose another protocol or class order, or add images",
                "%s%sphase %zu has no images: no training image has any of its classes ('%s'%s)", several ? order->name : "",
                several ? ": " : "", t + 1, order->names[lesson->first], lesson->last - lesson->first > 1 ? ", …" : "");
    }
    TRY(count_lesson(experiment, order, 0, experiment->classes, &order->all));
done:
    return status;
}

l3a_status count_images(l3a_experiment *experiment) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < experiment->order_count; i++) {
        TRY(count_order(experiment, &experiment->orders[i]));
    }
done:
    return status;
}

/* The lessons of a method: one for each phase, or one with all classes. */
static const l3a_protocol_phase *lessons_of(const struct class_order *order, const struct method *method) {
    return method->plan == BY_PHASE ? order->lessons : &order->all;
}

uint64_t lesson_images(const l3a_experiment *experiment, const struct class_order *order, const struct method *method, size_t t) {
    uint64_t images = 0;
    for (size_t i = 0; method->plan == ALL_MASKED && i < experiment->phases; i++) {
        images += order->lessons[i].train_images;
    }
    return images ? images : lessons_of(order, method)[t].train_images;
}

static void raise(uint64_t *most, uint64_t value) {
    *most = value > *most ? value : *most;
}

/* The most memory that a model needs in any of its lessons, both to learn it and to be measured. */
static uint64_t model_peak(enum place place, const l3a_experiment *experiment, const struct class_order *order,
                           const struct point *point) {
    struct model_options settings = point->settings.model;
    const size_t width = experiment->options.train->width;
    uint64_t most = 0;
    bool inverse = false;
    for (size_t t = 0; t < phases_of(experiment, point->method); t++) {
        const l3a_protocol_phase *lesson = &lessons_of(order, point->method)[t];
        const struct phase_size phase = {.old = lesson->first,
                                         .all = lesson->last,
                                         .rows = lesson->train_images,
                                         .parts = kept_phases(&settings, t),
                                         .inverse = inverse};
        raise(&most, phase_memory(place, experiment->context, &settings, width, &phase));
        raise(&most, score_memory(place, experiment->context, &settings, width, phase.all, phase.parts + 1, lesson->test_images));
        inverse = chooses_recursion(experiment->context, &settings, learned_width(&settings, width), phase.rows, inverse);
        settings.gamma = settings.gamma == 0 ? 1 : settings.gamma; /* `auto` is resolved in the first phase */
    }
    return most;
}

void team_memory(const l3a_experiment *experiment, const struct model_options *settings, size_t count, struct footprint *need) {
    for (enum place place = 0; place < PLACE_COUNT; place++) {
        need->in[place] = group_memory(place, experiment->context, settings, count, experiment->options.train->width,
                                       experiment->classes, experiment->phases);
    }
}

/* What a lesson takes beside the learner's matrices: the numbers of its images, and the features and labels of a learner that holds
 * these, all of them at a time, with a number for the bias in each row. Processes divide the images of a model among them; the
 * numbers of these are there twice while pseudo-labels are compared with the truth. Of other learners, some let every process learn
 * all images. */
static uint64_t held_images(const l3a_experiment *experiment, const struct method *method, bool trains) {
    const l3a_features *train = experiment->options.train;
    const size_t phases = phases_of(experiment, method);
    uint64_t most = 0;
    size_t first, own;
    for (size_t i = 0; i < experiment->order_count * phases; i++) {
        raise(&most, lesson_images(experiment, &experiment->orders[i / phases], method, i % phases));
    }
    own_part(experiment->context, (size_t)most, &first, &own);
    const uint64_t rows = view_rows(train->views) * (train->width + 1) * sizeof(float) + experiment->classes;
    return (method->learner->is_model ? own : most) * sizeof(size_t) + (method->learner->holds_images && !trains ? most * rows : 0);
}

/* What a method takes that trains the network. */
static l3a_status plan_training(const l3a_experiment *experiment, const struct point *point, struct training_need *need) {
    const struct learner *learner = point->method->learner;
    l3a_status status = L3A_OK;
    void *state = NULL;
    *need = (struct training_need){0};
    if (method_trains(point->method, &point->settings)) {
        TRY(learner->create(experiment->context, point->method, &point->settings, experiment->options.train->width, &state));
        TRY(learner->plan(state, experiment->training, experiment->classes, need));
    }
done:
    if (state) {
        learner->free(state);
    }
    return status;
}

/* The plan of one point by itself, and the memory it needs, with the labels of both tables, and what saving the model takes: that
 * is little, but the C library keeps it for later. */
static l3a_status plan_point(const l3a_experiment *experiment, const struct point *point, l3a_plan *plan, struct footprint *need) {
    const l3a_experiment_options *options = &experiment->options;
    l3a_status status = L3A_OK;
    struct training_need training;
    TRY(plan_training(experiment, point, &training));
    if (!point->method->own) { /* what that computes, nobody knows */
        TRY(model_plan(experiment->context, &point->settings.model, options->train->width, experiment->classes, plan));
    }
    *need = (struct footprint){{[PROCESSOR] = plan->memory, [DEVICE] = plan->device_memory}};
    if (point->method->learner->is_model) {
        for (enum place place = 0; place < PLACE_COUNT; place++) {
            need->in[place] = 0;
            for (size_t i = 0; i < experiment->order_count; i++) {
                raise(&need->in[place], model_peak(place, experiment, &experiment->orders[i], point));
            }
        }
        plan->file += kept_phases(&point->settings.model, phases_of(experiment, point->method)) * plan->phase;
    }
    if (training.memory) {
        *need = (struct footprint){{0}};
        need->in[PROCESSOR] = training.memory;
        plan->file = 0;
        plan->row_flops = training.passes * training.flops;
        plan->score_flops = training.score_flops;
        plan->solve_flops = 0;
    }
    need->in[PROCESSOR] += held_images(experiment, point->method, training.memory > 0) + features_held_bytes(options->train) +
                           features_held_bytes(options->test) + WRITE_CHUNKS * WRITE_CHUNK;
done:
    return status;
}

/* The operations of one point with all orders and seeds. With the labels of each phase, an image counts once in every phase it
 * belongs to. */
static double point_flops(const l3a_experiment *experiment, const struct method *method, const l3a_plan *plan) {
    const bool once = method->plan == ALL_AT_ONCE;
    const size_t phases = once ? 1 : experiment->phases;
    double flops = 0;
    for (size_t i = 0; i < experiment->order_count * phases; i++) {
        const struct class_order *order = &experiment->orders[i / phases];
        const l3a_protocol_phase *lesson = once ? &order->all : &order->lessons[i % phases];
        flops +=
            (double)lesson->train_images * plan->row_flops + (double)lesson->test_images * plan->score_flops + plan->solve_flops;
    }
    return (double)experiment->options.seed_count * flops;
}

/* The memory of a team: of its only point, or of its points together. */
static l3a_status plan_memory(const l3a_experiment *experiment, const struct team *team, const struct model_options *settings,
                              struct footprint *need, uint64_t part, l3a_workload *plan) {
    l3a_status status = L3A_OK;
    struct placement placed;
    if (team->count > 1) {
        team_memory(experiment, settings, team->count, need);
    }
    TRY(place_parts(experiment->context, need, &(struct footprint){{0}}, part, &placed));
    raise(&experiment->context->device_work, need->in[DEVICE]);
    raise(&plan->memory, placed.processor);
    raise(&plan->device_memory, placed.device);
    raise(&plan->parts, placed.parts);
    raise(&plan->spilled, placed.spilled);
done:
    return status;
}

/* Adds what a team needs to the plan. */
static l3a_status plan_team(const l3a_experiment *experiment, const struct team *team, struct model_options *settings,
                            l3a_workload *plan) {
    const struct point *first = team_point(experiment, team, 0);
    const l3a_experiment_options *options = &experiment->options;
    const double d = (double)learned_width(&first->settings.model, options->train->width),
                 learned = (double)view_rows(options->train->views), scored = (double)view_rows(options->test->views);
    l3a_status status = L3A_OK;
    l3a_plan own = {.size = sizeof own};
    struct footprint need;
    TRY(plan_point(experiment, first, &own, &need));
    TRY(check_memory(experiment->context, &first->settings.model, options->train->width, &need, &(struct footprint){{0}}));
    team_settings(experiment, team, 0, settings);
    TRY(plan_memory(experiment, team, settings, &need, own.phase, plan));
    raise(&plan->file, experiment->layout == &run_layout ? own.file : 0);
    /* The first point costs as much as if it were alone; each further point costs only what is not shared. */
    plan->flops += point_flops(experiment, first->method, &own);
    for (size_t i = 1; i < team->count; i++) {
        const bool same = settings[i].weights == settings[i - 1].weights && settings[i].scaling == settings[i - 1].scaling;
        own.score_flops = scored * 2 * d * (double)experiment->classes;
        own.row_flops = learned * (2 * d * (double)experiment->classes + (same ? 0.1 * d * d : d * d));
        plan->flops += point_flops(experiment, first->method, &own);
    }
done:
    return status;
}

l3a_status l3a_experiment_plan(const l3a_experiment *experiment, l3a_workload *plan) {
    l3a_status status = L3A_OK;
    struct model_options *settings = NULL;
    REQUIRE(experiment, experiment, plan);
    l3a_workload made = {.size = sizeof made,
                         .classes = experiment->classes,
                         .phases = experiment->phases,
                         .points = experiment->point_count,
                         .orders = experiment->order_count,
                         .seeds = experiment->options.seed_count,
                         .passes = experiment->team_count};
    TRY(allocate(experiment->context, experiment->point_count, sizeof *settings, &settings));
    for (size_t t = 0; t < experiment->team_count; t++) {
        TRY(plan_team(experiment, &experiment->teams[t], settings, &made));
    }
    TRY(WRITE_SIZED(experiment->context, plan, made));
done:
    release(experiment->context, settings);
    return status;
}

l3a_status l3a_experiment_phase(const l3a_experiment *experiment, size_t index, l3a_protocol_phase *phase) {
    REQUIRE(experiment, experiment, phase);
    return index < experiment->phases
               ? WRITE_SIZED(experiment->context, phase, experiment->orders[0].lessons[index])
               : fail(experiment->context, L3A_ERROR_ARGUMENT, NULL, "there are only %zu phases", experiment->phases);
}
