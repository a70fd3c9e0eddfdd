/* A job: one team learns all phases with one seed, and is measured after each of them. */
#include "data/features.h"
#include "run/experiment.h"

#include <inttypes.h>
#include <stdio.h>

static const struct method *method_of(const l3a_experiment *experiment, const struct job *job) {
    return team_point(experiment, job->team, 0)->method;
}

static l3a_status create_state(const l3a_experiment *experiment, struct job *job) {
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    l3a_options *settings = NULL;
    const struct method *method = method_of(experiment, job);
    const size_t width = experiment->options.train->width, count = job->team->count;
    TRY(allocate(context, count, sizeof *settings, &settings));
    team_settings(experiment, job->team, job->seed, settings);
    if (count > 1) {
        TRY(group_create(context, settings, count, width, &job->group));
    } else {
        TRY(method->learner->create(context, method, settings, width, &job->state));
    }
    if (job->state && method->learner->is_model) {
        TRY(l3a_model_set_record(job->state, "protocol", experiment->options.protocol));
    }
done:
    release(context, settings);
    return status;
}

static void free_state(const l3a_experiment *experiment, struct job *job) {
    group_free(job->group);
    if (job->state) {
        method_of(experiment, job)->learner->free(job->state);
    }
}

static l3a_status learn_together(const struct job *job, const struct lesson *lesson, struct lesson_result *results) {
    l3a_context *context = lesson->train->context;
    l3a_status status = L3A_OK;
    size_t *rows = NULL, row_count = 0;
    struct group_outcome *outcomes = NULL;
    TRY(allocate(context, job->team->count, sizeof *outcomes, &outcomes));
    TRY(lesson_members(lesson, &rows, &row_count));
    TRY(group_learn(job->group, lesson->train, rows, row_count, lesson->columns + lesson->first, lesson->names + lesson->first,
                    lesson->last - lesson->first, outcomes));
    for (size_t i = 0; i < job->team->count; i++) {
        results[i].row.pseudo_labels = outcomes[i].pseudo_labels;
        results[i].learned = outcomes[i].images;
        results[i].corrected = outcomes[i].corrected;
    }
done:
    release(context, rows);
    release(context, outcomes);
    return status;
}

static l3a_status learn(const l3a_experiment *experiment, const struct job *job, const struct lesson *lesson,
                        struct lesson_result *results) {
    struct outcome outcome = {.classes = results->details.tallies};
    if (job->group) {
        return learn_together(job, lesson, results);
    }
    const l3a_status status = method_of(experiment, job)->learner->learn(job->state, lesson, &outcome);
    results->row.pseudo_labels = outcome.pseudo_labels;
    results->learned = outcome.images;
    return status;
}

struct scorer {
    struct group *group;
    const struct learner *learner;
    void *state;
};

static l3a_status score(void *argument, const float *features, size_t rows, float *const *scores) {
    const struct scorer *scorer = argument;
    return scorer->group ? group_score(scorer->group, features, rows, scores)
                         : scorer->learner->score(scorer->state, features, rows, scores[0]);
}

/* The mAP of the first phase's classes and of the new ones. Whoever learns all classes at once has the protocol's last phase as
 * new classes. */
static l3a_status measure_parts(const l3a_experiment *experiment, const struct evaluation *evaluation, size_t index,
                                l3a_result *row) {
    l3a_status status = L3A_OK;
    const size_t *bounds = experiment->bounds;
    const bool at_once = row->first == 0 && row->last == experiment->classes;
    const size_t first = at_once ? bounds[experiment->phases - 1] : row->first;
    TRY(evaluation_part(evaluation, index, 0, bounds[1], &row->base_map));
    TRY(evaluation_part(evaluation, index, first, row->last, &row->new_map));
done:
    return status;
}

/* Measures every point of a team on the test images that show at least one of the classes learned so far. */
static l3a_status evaluate(const l3a_experiment *experiment, const struct job *job, size_t t, struct lesson_result *results) {
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    l3a_features *test = experiment->options.test;
    struct scorer scorer = {job->group, method_of(experiment, job)->learner, job->state};
    struct evaluation evaluation = {0};
    double *thresholds = NULL;
    TRY(evaluation_begin(test, experiment->test_order, results->row.last, &evaluation));
    FAIL_IF(!evaluation.count, context, L3A_ERROR_DATA, "use test images that show these classes",
            "%s: no image has any of the classes learned so far", test->path);
    TRY(allocate(context, evaluation.classes, sizeof *thresholds, &thresholds));
    TRY(evaluation_score(&evaluation, job->team->count, score, &scorer));
    for (size_t i = 0; i < job->team->count; i++) {
        struct lesson_result *result = &results[i];
        if (job->group) {
            group_thresholds(job->group, i, thresholds);
        } else {
            scorer.learner->edges(job->state, thresholds);
        }
        TRY(evaluation_measure(&evaluation, i, thresholds, &result->row.metrics, result->details.average_precision));
        TRY(measure_parts(experiment, &evaluation, i, &result->row));
        result->row.test_images = result->row.metrics.images;
    }
    if (experiment->layout->look) {
        TRY(experiment->layout->look(experiment, job, t, &evaluation, thresholds, &results->details));
    }
done:
    evaluation_free(&evaluation);
    release(context, thresholds);
    return status;
}

/* Counts, for each class in [0, last), the training images that have it, and, for each old class, those of this lesson. */
static l3a_status tally_images(const struct lesson *lesson, l3a_class_tally *tallies) {
    const l3a_features *train = lesson->train;
    size_t *rows = NULL, count = 0;
    const l3a_status status = lesson_members(lesson, &rows, &count);
    for (size_t i = 0; i < train->rows; i++) {
        for (size_t k = 0; k < lesson->last; k++) {
            tallies[k].images += train->labels[i * train->classes.count + lesson->columns[k]] == 1;
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < lesson->first; k++) {
            tallies[k].present += train->labels[rows[i] * train->classes.count + lesson->columns[k]] == 1;
        }
    }
    release(train->context, rows);
    return status;
}

/* Reports the part of the learning time that is not in a stage already reported. */
static void report_learning(l3a_context *context, double seconds) {
    for (size_t i = 0; i < context->stages.count; i++) {
        seconds -= context->stages.items[i].seconds;
    }
    report_timing(context, "learn", seconds);
}

static l3a_status announce(const l3a_experiment *experiment, const struct job *job, const struct point *point,
                           const struct lesson_result *result) {
    const l3a_result *row = &result->row;
    char text[512], images[128] = "", note[64] = "", end[64] = "";
    if (experiment->layout->detailed) {
        if (result->learned < row->train_images) {
            snprintf(note, sizeof note, " (%" PRIu64 " without a label, weight 0)", row->train_images - result->learned);
        }
        snprintf(images, sizeof images, "%" PRIu64 " images%s, ", row->train_images, note);
        snprintf(end, sizeof end, ", %.1f s", row->seconds);
    } else if (result->corrected) {
        snprintf(end, sizeof end, ", %" PRIu64 " rows corrected", result->corrected);
    }
    snprintf(text, sizeof text,
             "%s, seed %" PRIu64 ", phase %zu of %zu: %s%" PRIu64 " pseudo-labels, mAP %.2f, CF1 %.2f, OF1 %.2f%s", point->label,
             row->seed, row->phase, job->phases, images, row->pseudo_labels, row->metrics.mean_ap, row->metrics.class_f1,
             row->metrics.overall_f1, end);
    return report_result(experiment->context, text);
}

/* Fills in what is known of a phase before it is learned. */
static l3a_status begin_results(const l3a_experiment *experiment, const struct job *job, const struct lesson *lesson, size_t t,
                                struct lesson_result *results) {
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    uint64_t images;
    TRY(lesson_images(lesson, method_of(experiment, job)->plan, &images));
    for (size_t i = 0; i < job->team->count; i++) {
        struct class_details *details = &results[i].details;
        results[i].row = (l3a_result){.method = team_point(experiment, job->team, i)->method->info.name,
                                      .seed = job->seed,
                                      .phase = t + 1,
                                      .first = lesson->first,
                                      .last = lesson->last,
                                      .train_images = images};
        TRY(allocate(context, lesson->last, sizeof *details->average_precision, &details->average_precision));
        if (experiment->layout->detailed) {
            TRY(allocate_zeroed(context, lesson->last, sizeof *details->tallies, &details->tallies));
            TRY(tally_images(lesson, details->tallies));
        }
    }
done:
    return status;
}

/* Adds the results of a phase to those of the points, saves and announces them. */
static l3a_status keep_results(const l3a_experiment *experiment, const struct job *job, size_t t, double seconds,
                               struct lesson_result *results) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < job->team->count; i++) {
        const struct point *point = team_point(experiment, job->team, i);
        results[i].row.seconds = seconds / (double)job->team->count;
        TRY(results_add(point->results, &results[i].row, &results[i].details));
        if (experiment->layout->keep_phase) {
            TRY(experiment->layout->keep_phase(experiment, job, t, &results[i].row));
        }
        TRY(announce(experiment, job, point, &results[i]));
    }
done:
    return status;
}

static l3a_status run_phase(const l3a_experiment *experiment, const struct job *job, size_t t) {
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    const bool at_once = method_of(experiment, job)->plan != BY_PHASE, detailed = experiment->layout->detailed;
    const struct lesson lesson = {.train = experiment->options.train,
                                  .names = experiment->names,
                                  .columns = experiment->order,
                                  .edges = experiment->bounds,
                                  .phases = experiment->phases,
                                  .first = at_once ? 0 : experiment->bounds[t],
                                  .last = at_once ? experiment->classes : experiment->bounds[t + 1]};
    struct lesson_result *results = NULL;
    TRY(allocate_zeroed(context, job->team->count, sizeof *results, &results));
    TRY(begin_results(experiment, job, &lesson, t, results));
    context->stages.count = 0;
    const double start = clock_seconds();
    TRY(learn(experiment, job, &lesson, results));
    const double learned = clock_seconds();
    if (detailed) {
        report_learning(context, learned - start);
    }
    TRY(evaluate(experiment, job, t, results));
    const double evaluated = clock_seconds();
    if (detailed) {
        report_timing(context, "evaluate", evaluated - learned);
    }
    TRY(keep_results(experiment, job, t, evaluated - start, results));
done:
    for (size_t i = 0; results && i < job->team->count; i++) {
        details_free(context, &results[i].details);
    }
    release(context, results);
    return status;
}

l3a_status run_job(l3a_experiment *experiment, struct job *job) {
    l3a_status status = L3A_OK;
    size_t t = 0;
    TRY(experiment->layout->resume(experiment, job, &t));
    if (t < job->phases && !job->state) {
        TRY(create_state(experiment, job));
    }
    for (; t < job->phases; t++) {
        TRY(run_phase(experiment, job, t));
    }
    if (job->state || job->group) {
        TRY(experiment->layout->keep_job(experiment, job));
    }
done:
    free_state(experiment, job);
    if (status != L3A_OK && status != L3A_ERROR_CANCELLED && !experiment->layout->detailed) {
        fail_in(experiment->context, status, job->team->count > 1 ? "%s and the points learned with it" : "%s",
                team_point(experiment, job->team, 0)->label);
    }
    return status;
}
