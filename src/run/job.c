/* A job: one team learns all phases with one class order and seed, and is measured after each of them. */
#include "data/features.h"
#include "run/experiment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A phase that a team learns; the arrays have an item for each point. */
struct phase_work {
    struct lesson lesson;
    l3a_result *rows;
    struct group_outcome *outcomes;
    double *precisions; /* [points x classes] */
    /* Only if the layout wants details, for the only point. */
    l3a_class_tally *tallies;
    float *curves;
};

l3a_status job_create_state(const l3a_experiment *experiment, struct job *job) {
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    struct model_options *settings = NULL;
    const size_t width = experiment->options.train->width, count = job->team->count;
    TRY(allocate(context, count, sizeof *settings, &settings));
    team_settings(experiment, job->team, job->seed, settings);
    if (count > 1) {
        TRY(group_create(context, settings, count, width, &job->group));
    } else {
        l3a_options own = team_point(experiment, job->team, 0)->settings;
        own.model = *settings;
        TRY(job->method->learner->create(context, job->method, &own, width, &job->state));
    }
    if (job->state && job->method->learner->is_model) {
        TRY(l3a_model_set_record(job->state, "protocol", experiment->options.protocol));
        if (experiment->order_count > 1) {
            TRY(l3a_model_set_record(job->state, order_record, job->order->name));
        }
    }
done:
    release(context, settings);
    return status;
}

/* A method that trains the backbone can go on in the middle of a phase. */
static l3a_status learn_long(const l3a_experiment *experiment, const struct job *job, const struct lesson *lesson,
                             struct outcome *outcome) {
    struct lesson own = *lesson;
    struct state_owner owner = {{0}, {0}};
    char *path = NULL;
    l3a_status status = L3A_OK;
    TRY(experiment->layout->progress ? experiment->layout->progress(experiment, job, &path, &owner) : L3A_OK);
    const struct state_progress progress = {path, &owner};
    own.progress = path ? &progress : NULL;
    TRY(job->method->learner->learn(job->state, &own, outcome));
done:
    state_owner_free(experiment->context, &owner);
    release(experiment->context, path);
    return status;
}

static bool trains(const l3a_experiment *experiment, const struct job *job) {
    return job->state && method_trains(job->method, &team_point(experiment, job->team, 0)->settings);
}

static l3a_status learn(const l3a_experiment *experiment, const struct job *job, const struct phase_work *work) {
    const struct lesson *lesson = &work->lesson;
    l3a_status status = L3A_OK;
    struct outcome outcome = {.classes = work->tallies};
    if (job->group) {
        TRY(group_learn(job->group, lesson->train, lesson->columns + lesson->first, lesson->names + lesson->first,
                        lesson->last - lesson->first, work->outcomes));
    } else {
        TRY(trains(experiment, job) ? learn_long(experiment, job, lesson, &outcome)
                                    : job->method->learner->learn(job->state, lesson, &outcome));
        work->outcomes[0] = (struct group_outcome){outcome.images, outcome.pseudo_labels, 0};
    }
done:
    return status;
}

l3a_status job_score(const struct job *job, const float *features, size_t images, float *const *scores) {
    return job->group ? group_score(job->group, features, images, scores)
                      : job->method->learner->score(job->state, features, images, scores[0]);
}

/* Scores the pictures of the rows, for a method that trains the network. */
static l3a_status score_pictures(const l3a_experiment *experiment, const struct job *job, struct evaluation *evaluation) {
    l3a_status status = L3A_OK;
    TRY(allocate(experiment->context, evaluation->count, evaluation->classes * sizeof *evaluation->scores, &evaluation->scores));
    TRY(job->method->learner->score_pictures(job->state, experiment->training, evaluation->rows.rows, evaluation->count,
                                             evaluation->scores));
done:
    return status;
}

static l3a_status score(void *job, const float *features, size_t rows, float *const *scores) {
    return job_score(job, features, rows, scores);
}

/* The metrics of a point, and the mAP of the first phase's classes and of the new ones. If all classes are learned at once, the new
 * ones are those of the protocol's last phase. */
static l3a_status measure_point(const l3a_experiment *experiment, const struct evaluation *evaluation, size_t index,
                                const double *thresholds, struct phase_work *work) {
    l3a_status status = L3A_OK;
    l3a_result *row = &work->rows[index];
    const bool at_once = row->first == 0 && row->last == experiment->classes;
    const size_t first = at_once ? experiment->bounds[experiment->phases - 1] : row->first;
    TRY(evaluation_measure(evaluation, index, thresholds, &row->metrics, work->precisions + index * row->last));
    TRY(evaluation_among(evaluation, index, 0, experiment->bounds[1], &row->base_map));
    TRY(evaluation_among(evaluation, index, first, row->last, &row->new_map));
    row->test_images = row->metrics.images;
done:
    return status;
}

/* Measures every point of a team on the test images that show at least one of the classes learned so far. */
static l3a_status evaluate(const l3a_experiment *experiment, struct job *job, struct phase_work *work) {
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    l3a_features *test = experiment->options.test;
    struct evaluation evaluation = {0};
    double *thresholds = NULL;
    TRY(evaluation_begin(test, job->order->test_columns, work->lesson.last, &evaluation));
    FAIL_IF(!evaluation.count, context, L3A_ERROR_DATA, "use test images that show these classes",
            "%s: no image has any of the classes learned so far", test->path);
    TRY(allocate(context, evaluation.classes, sizeof *thresholds, &thresholds));
    const size_t ahead = job->group || job->method->learner->is_model ? score_ahead(context) : 1;
    TRY(trains(experiment, job) ? score_pictures(experiment, job, &evaluation)
                                : evaluation_score(&evaluation, job->team->count, ahead, score, job));
    for (size_t i = 0; i < job->team->count; i++) {
        if (job->group) {
            group_thresholds(job->group, i, thresholds);
        } else {
            job->method->learner->thresholds(job->state, thresholds);
        }
        TRY(measure_point(experiment, &evaluation, i, thresholds, work));
    }
    if (experiment->layout->look && work->lesson.last == experiment->classes) {
        TRY(experiment->layout->look(experiment, job, &evaluation, thresholds, &work->curves));
    }
done:
    evaluation_free(&evaluation);
    release(context, thresholds);
    return status;
}

/* Adds, to each of the first `classes` counts, how many of these rows show the class. */
static l3a_status count_shown(const struct lesson *lesson, const size_t *rows, size_t first, size_t count, size_t classes,
                              uint64_t *counts) {
    enum { BLOCK = 1024 };
    const l3a_features *train = lesson->train;
    l3a_status status = L3A_OK;
    int8_t *labels = NULL;
    size_t block[BLOCK];
    TRY(allocate(train->context, BLOCK, classes, &labels));
    for (size_t done = 0, n; done < count; done += n) {
        n = count - done < BLOCK ? count - done : BLOCK;
        for (size_t i = 0; i < n; i++) {
            block[i] = rows ? rows[done + i] : first + done + i;
        }
        TRY(features_gather_labels(train, block, n, lesson->columns, classes, labels));
        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; k < classes; k++) {
                counts[k] += labels[i * classes + k] == 1;
            }
        }
    }
done:
    release(train->context, labels);
    return status;
}

/* Counts, for each class in [0, last), the training images that have it, and, for each old class, those of this lesson. */
static l3a_status tally_images(const struct lesson *lesson, l3a_class_tally *tallies) {
    l3a_context *context = lesson->train->context;
    l3a_status status = L3A_OK;
    struct own_rows own = {0};
    uint64_t *counts = NULL;
    size_t first, count;
    TRY(allocate_zeroed(context, lesson->last + lesson->first, sizeof *counts, &counts));
    own_part(context, lesson->train->rows, &first, &count);
    TRY(count_shown(lesson, NULL, first, count, lesson->last, counts));
    TRY(lesson_members(lesson, &own));
    TRY(count_shown(lesson, own.rows, 0, own.count, lesson->first, counts + lesson->last));
    if (divides_rows(context)) {
        TRY(sum_counts(context, counts, lesson->last + lesson->first));
    }
    for (size_t k = 0; k < lesson->last; k++) {
        tallies[k].images = counts[k];
        tallies[k].present = k < lesson->first ? counts[lesson->last + k] : 0;
    }
done:
    release(context, counts);
    release(context, own.rows);
    return status;
}

static l3a_status announce(const l3a_experiment *experiment, const struct job *job, const char *label, const l3a_result *row,
                           const struct group_outcome *outcome) {
    char text[512], order[128] = "", images[128] = "", note[64] = "", end[64] = "";
    if (experiment->order_count > 1) {
        snprintf(order, sizeof order, "%s, ", job->order->name);
    }
    if (experiment->layout->detailed) {
        if (outcome->images < row->train_images) {
            snprintf(note, sizeof note, " (%" PRIu64 " without a label, weight 0)", row->train_images - outcome->images);
        }
        snprintf(images, sizeof images, "%" PRIu64 " images%s, ", row->train_images, note);
        snprintf(end, sizeof end, ", %.1f s", row->seconds);
    } else if (outcome->corrected) {
        snprintf(end, sizeof end, ", %" PRIu64 " rows corrected", outcome->corrected);
    }
    snprintf(text, sizeof text,
             "%s, %sseed %" PRIu64 ", phase %zu of %zu: %s%" PRIu64 " pseudo-labels, mAP %.2f, CF1 %.2f, OF1 %.2f%s", label, order,
             row->seed, row->phase, job->phases, images, row->pseudo_labels, row->metrics.mean_ap, row->metrics.class_f1,
             row->metrics.overall_f1, end);
    return report_result(experiment->context, text);
}

static l3a_status begin_work(const l3a_experiment *experiment, const struct job *job, size_t t, struct phase_work *work) {
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    const bool at_once = job->method->plan != BY_PHASE;
    const struct lesson lesson = {.train = experiment->options.train,
                                  .names = job->order->names,
                                  .columns = job->order->columns,
                                  .bounds = experiment->bounds,
                                  .phases = experiment->phases,
                                  .first = at_once ? 0 : experiment->bounds[t],
                                  .last = at_once ? experiment->classes : experiment->bounds[t + 1],
                                  .training = experiment->training};
    const l3a_result row = {.seed = job->seed, .phase = t + 1, .first = lesson.first, .last = lesson.last};
    *work = (struct phase_work){.lesson = lesson};
    TRY(allocate(context, job->team->count, sizeof *work->rows, &work->rows));
    TRY(allocate(context, job->team->count, sizeof *work->outcomes, &work->outcomes));
    TRY(allocate(context, job->team->count, lesson.last * sizeof *work->precisions, &work->precisions));
    for (size_t i = 0; i < job->team->count; i++) {
        work->rows[i] = row;
        work->rows[i].method = team_point(experiment, job->team, i)->method->info.name;
        work->rows[i].train_images = lesson_images(experiment, job->order, job->method, t);
    }
    if (experiment->layout->detailed) {
        TRY(allocate_zeroed(context, lesson.last, sizeof *work->tallies, &work->tallies));
        TRY(tally_images(&lesson, work->tallies));
    }
done:
    return status;
}

/* Adds the results of a phase to those of the points, keeps and announces them. */
static l3a_status keep_work(const l3a_experiment *experiment, const struct job *job, size_t t, double seconds,
                            const struct phase_work *work) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < job->team->count; i++) {
        const struct point *point = team_point(experiment, job->team, i);
        l3a_result *row = &work->rows[i];
        const struct class_details details = {work->precisions + i * row->last, work->tallies, work->curves,
                                              trial_of(experiment, job, point->method).order};
        row->pseudo_labels = work->outcomes[i].pseudo_labels;
        row->seconds = seconds / (double)job->team->count;
        TRY(results_add(point->results, row, &details));
        if (experiment->layout->keep_phase) {
            TRY(experiment->layout->keep_phase(experiment, job, t, row));
        }
        status = announce(experiment, job, point->label, row, &work->outcomes[i]);
        if (status == L3A_ERROR_CANCELLED && experiment->layout->leave_phase && !divides_rows(experiment->context)) {
            const l3a_status left = experiment->layout->leave_phase(experiment, job, t, row);
            status = left != L3A_OK ? left : status;
        }
        TRY(status);
    }
done:
    return status;
}

/* The seconds that a stage has taken in this phase so far. */
static double stage_seconds(const l3a_context *context, const char *stage) {
    double seconds = 0;
    for (size_t i = 0; i < context->stages.count; i++) {
        seconds += strcmp(context->stages.items[i].name, stage) == 0 ? context->stages.items[i].seconds : 0;
    }
    return seconds;
}

static l3a_status run_phase(const l3a_experiment *experiment, struct job *job, size_t t) {
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    struct phase_work work = {0};
    TRY(begin_work(experiment, job, t, &work));
    context->stages.count = 0;
    context->share_seconds = 0;
    context->share_bytes = 0;
    const double start = clock_seconds();
    TRY(learn(experiment, job, &work));
    const double learned = clock_seconds();
    double rest = learned - start; /* the time that is not in a stage reported already */
    for (size_t i = 0; i < context->stages.count; i++) {
        rest -= context->stages.items[i].seconds;
    }
    if (experiment->layout->detailed) {
        report_timing(context, "learn", rest);
    }
    const double shared = stage_seconds(context, "share");
    TRY(evaluate(experiment, job, &work));
    const double evaluated = clock_seconds();
    if (experiment->layout->detailed) {
        report_timing(context, "evaluate", evaluated - learned - (stage_seconds(context, "share") - shared));
    }
    TRY(keep_work(experiment, job, t, evaluated - start, &work));
done:
    release(context, work.rows);
    release(context, work.outcomes);
    release(context, work.precisions);
    release(context, work.tallies);
    release(context, work.curves);
    return status;
}

l3a_status run_job(l3a_experiment *experiment, struct job *job) {
    l3a_status status = L3A_OK;
    size_t t = 0;
    saving_begin(job->saving);
    TRY(experiment->layout->resume(experiment, job, &t));
    if (t < job->phases && !job->state) {
        TRY(job_create_state(experiment, job));
    }
    for (; t < job->phases; t++) {
        TRY(run_phase(experiment, job, t));
    }
    if (job->state || job->group) {
        TRY(experiment->layout->keep_job(experiment, job));
    }
done:
    group_free(job->group);
    if (job->state) {
        job->method->learner->free(job->state);
    }
    if (status == L3A_ERROR_METHOD) {
        fail_in(experiment->context, status, "method '%s', seed %" PRIu64 ", phase %zu of %zu", job->method->info.name, job->seed,
                t + 1, job->phases);
    } else if (status != L3A_OK && status != L3A_ERROR_CANCELLED && !experiment->layout->detailed) {
        fail_in(experiment->context, status, job->team->count > 1 ? "%s and the points learned with it" : "%s",
                team_point(experiment, job->team, 0)->label);
    }
    return status;
}
