/* Sweeps: a grid of settings, methods and seeds that shares as much work as possible.
 *
 * A point is a method with settings. Points that can learn together (learn/group.h) form a team, as large as memory allows; every
 * other point is a team by itself. A team goes through the phases once per seed, and writes its points' tables at the end: a sweep
 * that was killed resumes with the teams and seeds that have not finished. Buffers of different dim have nothing in common (entry
 * i·d + j depends on d), so each dim needs its own team. */
#include "base/file.h"
#include "base/machine.h"
#include "data/features.h"
#include "learn/group.h"
#include "measure/metrics.h"
#include "method/method.h"
#include "report/results.h"
#include "run/experiment.h"
#include "run/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SCORE_ROWS = 1024, VALUE_TEXT = 64, POINTS = 10000 };

struct point {
    const struct method *method;
    l3a_options settings; /* including those that the method prescribes; the seed is set when its team runs */
    text_list values;     /* one per axis */
    char *label, *folder;
    l3a_results *results;
    size_t team;
};

struct team {
    size_t *points;
    size_t count;
};

struct l3a_sweep {
    l3a_context *context;
    l3a_sweep_options options;
    struct run run;
    struct point *points;
    size_t point_count;
    struct team *teams;
    size_t team_count;
    struct tables tables; /* of the sweep's own folder */
};

static const l3a_preset presets[] = {
    {"methods", "every method, three seeds", "all", "2025,2026,2027", NULL, NULL},
    {"ablation", "a trained head, and l3a without pseudo-labels, without class weights, and without both; three seeds",
     "finetune,l3a-no-wac,l3a-no-pl,l3a,acil", "2025,2026,2027", NULL, NULL},
    {"memory", "images kept per class by the replay methods; three seeds", "er,der++,icarl,bic", "2025,2026,2027", "memory",
     "2,5,20"},
    {"gamma", "the ridge parameter", "l3a", "2025", "gamma", "0.1,1,10,100,1000,10000"},
    {"buffer", "the width of the random layer", "l3a", "2025", "dim", "512,1024,2048,4096,6144,8192,12288"},
    {"threshold", "the threshold of pseudo-labels", "l3a", "2025", "eta", "0.5,0.55,0.6,0.65,0.7,0.75,0.8,0.9,dynamic"},
    {"weighting", "class weights", "l3a", "2025", "weights", "sqrt,inv,log,none"},
};

const l3a_preset *l3a_preset_at(size_t index) {
    return index < sizeof presets / sizeof presets[0] ? &presets[index] : NULL;
}

void l3a_sweep_options_default(l3a_sweep_options *options) {
    memset(options, 0, sizeof *options);
    l3a_run_options_default(&options->run);
}

static bool is_one_of(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static l3a_status set_value(l3a_context *context, l3a_options *settings, const char *name, const char *value) {
    const bool dynamic = strcmp(name, "eta") == 0 && strcmp(value, "dynamic") == 0;
    return l3a_options_set(context, settings, dynamic ? "pseudo" : name, value);
}

static l3a_status check_axes(l3a_context *context, const l3a_sweep_options *options) {
    l3a_status status = L3A_OK;
    size_t points = options->run.method_count;
    for (size_t i = 0; i < options->axis_count; i++) {
        const l3a_axis *axis = &options->axes[i];
        FAIL_IF(!axis->count, context, L3A_ERROR_OPTION, "give at least one value", "%s has no values", axis->name);
        FAIL_IF(strcmp(axis->name, "seed") == 0, context, L3A_ERROR_OPTION, "list the seeds in the run's options",
                "seed cannot be an axis of a sweep");
        for (size_t j = 0; j < axis->count; j++) {
            l3a_options settings = run_settings(&options->run);
            TRY(set_value(context, &settings, axis->name, axis->values[j]));
            FAIL_IF(is_one_of(axis->values[j], axis->values, j), context, L3A_ERROR_OPTION, "list each value once",
                    "%s: '%s' is listed twice", axis->name, axis->values[j]);
        }
        for (size_t j = 0; j < i; j++) {
            FAIL_IF(strcmp(axis->name, options->axes[j].name) == 0, context, L3A_ERROR_OPTION, NULL, "%s is listed twice",
                    axis->name);
        }
        points = points <= POINTS ? points * axis->count : points;
    }
    FAIL_IF(points > POINTS, context, L3A_ERROR_OPTION, "vary fewer settings", "the grid has more than %d points", POINTS);
done:
    return status;
}

static void free_point(l3a_context *context, struct point *point) {
    text_list_clear(context, &point->values);
    release(context, point->label);
    release(context, point->folder);
    l3a_results_free(point->results);
}

void l3a_sweep_free(l3a_sweep *sweep) {
    if (!sweep) {
        return;
    }
    l3a_context *context = sweep->context;
    for (size_t i = 0; i < sweep->point_count; i++) {
        free_point(context, &sweep->points[i]);
    }
    for (size_t i = 0; i < sweep->team_count; i++) {
        release(context, sweep->teams[i].points);
    }
    release(context, sweep->points);
    release(context, sweep->teams);
    tables_free(context, &sweep->tables);
    run_free(&sweep->run);
    release(context, sweep);
}

/* Gives a point combination `number` of the values. The last axis varies fastest. */
static l3a_status choose_values(const l3a_sweep *sweep, size_t number, struct point *point) {
    const l3a_sweep_options *options = &sweep->options;
    l3a_context *context = sweep->context;
    l3a_status status = L3A_OK;
    size_t chosen[64], rest = number;
    l3a_options settings = sweep->run.settings;
    for (size_t i = options->axis_count; i-- > 0;) {
        chosen[i] = rest % options->axes[i].count;
        rest /= options->axes[i].count;
    }
    point->method = method_find(options->run.methods[rest]);
    for (size_t i = 0; i < options->axis_count; i++) {
        TRY(set_value(context, &settings, options->axes[i].name, options->axes[i].values[chosen[i]]));
    }
    if (!settings.model.total_classes) {
        settings.model.total_classes = sweep->run.classes;
    }
    TRY(l3a_options_check(context, &settings));
    point->settings = method_options(point->method, &settings);
    for (size_t i = 0; i < options->axis_count; i++) {
        const char *name = options->axes[i].name, *asked = options->axes[i].values[chosen[i]];
        char text[VALUE_TEXT];
        const bool dynamic = strcmp(asked, "dynamic") == 0;
        l3a_options_get(&settings, name, text, sizeof text);
        const char *value = dynamic ? asked : text;
        value = method_looks_at(point->method, &point->settings, name, value) ? value : "-";
        TRY(text_list_add(context, &point->values, value, strlen(value)));
    }
done:
    return status;
}

static l3a_status name_point(const l3a_sweep *sweep, struct point *point) {
    const l3a_sweep_options *options = &sweep->options;
    l3a_context *context = sweep->context;
    l3a_status status = L3A_OK;
    text_builder label = {.context = context}, folder = {.context = context};
    if (options->run.method_count > 1 || !options->axis_count) {
        text_builder_print(&label, "%s", point->method->info.name);
    }
    for (size_t i = 0; i < options->axis_count; i++) {
        text_builder_print(&label, "%s%s=%s", label.length ? " " : "", options->axes[i].name, point->values.items[i]);
    }
    TRY(label.status);
    if (options->run.folder) {
        text_builder_print(&folder, "%s/points/%s", options->run.folder, label.text);
        for (size_t i = strlen(options->run.folder); folder.status == L3A_OK && i < folder.length; i++) {
            folder.text[i] = folder.text[i] == ' ' ? ',' : folder.text[i];
        }
        TRY(folder.status);
    }
    point->label = label.text;
    point->folder = folder.text;
    label.text = folder.text = NULL;
done:
    text_builder_free(&label);
    text_builder_free(&folder);
    return status;
}

static bool is_known(const l3a_sweep *sweep, const struct point *point) {
    for (size_t i = 0; i < sweep->point_count; i++) {
        const struct point *other = &sweep->points[i];
        size_t same = 0;
        while (same < point->values.count && strcmp(point->values.items[same], other->values.items[same]) == 0) {
            same++;
        }
        if (other->method == point->method && same == point->values.count) {
            return true;
        }
    }
    return false;
}

static l3a_status make_points(l3a_sweep *sweep) {
    l3a_context *context = sweep->context;
    const l3a_sweep_options *options = &sweep->options;
    l3a_status status = L3A_OK;
    struct point point = {0};
    size_t count = options->run.method_count;
    FAIL_IF(options->axis_count > 64, context, L3A_ERROR_OPTION, NULL, "the grid varies more than 64 settings");
    for (size_t i = 0; i < options->axis_count; i++) {
        count *= options->axes[i].count;
    }
    TRY(allocate_zeroed(context, count, sizeof *sweep->points, &sweep->points));
    for (size_t number = 0; number < count; number++) {
        TRY(choose_values(sweep, number, &point));
        if (is_known(sweep, &point)) {
            free_point(context, &point);
        } else {
            TRY(name_point(sweep, &point));
            TRY(results_create(context, &point.results));
            TRY(results_expect(point.results, NULL, 0, options->run.seeds, options->run.seed_count));
            for (size_t i = 0; i < sweep->run.classes; i++) {
                TRY(text_list_add(context, &point.results->classes, sweep->run.names[i], strlen(sweep->run.names[i])));
            }
            sweep->points[sweep->point_count++] = point;
        }
        point = (struct point){0};
    }
done:
    free_point(context, &point);
    return status;
}

static bool can_join(const struct point *left, const struct point *right) {
    return left->method->learner == &analytic_learner && right->method->learner == &analytic_learner &&
           left->method->plan == right->method->plan && left->method->plan != ALL_MASKED &&
           group_accepts(&left->settings.model, &right->settings.model);
}

/* Orders points by how few pseudo-labels their settings give, so that neighbours disagree on few rows. */
static double strictness(const struct model_options *settings) {
    switch (settings->pseudo) {
    case L3A_PSEUDO_OFF: return 1;
    case L3A_PSEUDO_DYNAMIC: return 0;
    case L3A_PSEUDO_FIXED: break;
    }
    return settings->eta;
}

static int compare_numbers(double left, double right) {
    return (left > right) - (left < right);
}

static int compare_settings(const struct model_options *left, const struct model_options *right) {
    int order = compare_numbers(left->weights, right->weights);
    order = order ? order : compare_numbers(left->scaling, right->scaling);
    order = order ? order : compare_numbers(left->gamma, right->gamma);
    return order ? order : compare_numbers(strictness(left), strictness(right));
}

/* The settings of a team's points, with the seed filled in. */
static void team_settings(const l3a_sweep *sweep, const struct team *team, uint64_t seed, struct model_options *settings) {
    for (size_t i = 0; i < team->count; i++) {
        settings[i] = sweep->points[team->points[i]].settings.model;
        settings[i].seed = seed;
    }
}

static uint64_t memory_limit(const l3a_context *context) {
    const uint64_t free = machine_memory_available();
    return context->options.memory_limit ? context->options.memory_limit : free ? free : UINT64_MAX;
}

/* Inserts a point into a team, which is sorted by settings. */
static void join(const l3a_sweep *sweep, struct team *team, size_t point) {
    size_t at = team->count++;
    while (at && compare_settings(&sweep->points[team->points[at - 1]].settings.model, &sweep->points[point].settings.model) > 0) {
        team->points[at] = team->points[at - 1];
        at--;
    }
    team->points[at] = point;
}

static l3a_status make_teams(l3a_sweep *sweep) {
    l3a_context *context = sweep->context;
    l3a_status status = L3A_OK;
    struct model_options *settings = NULL;
    const uint64_t limit = memory_limit(context);
    TRY(allocate_zeroed(context, sweep->point_count, sizeof *sweep->teams, &sweep->teams));
    TRY(allocate(context, sweep->point_count, sizeof *settings, &settings));
    for (size_t i = 0; i < sweep->point_count; i++) {
        size_t t = 0;
        for (; t < sweep->team_count; t++) {
            struct team *team = &sweep->teams[t];
            if (!can_join(&sweep->points[team->points[0]], &sweep->points[i])) {
                continue;
            }
            team_settings(sweep, team, 0, settings);
            settings[team->count] = sweep->points[i].settings.model;
            if (group_memory(settings, team->count + 1, sweep->options.run.train->width, sweep->run.classes) <= limit) {
                break;
            }
        }
        if (t == sweep->team_count) {
            TRY(allocate(context, sweep->point_count, sizeof *sweep->teams[t].points, &sweep->teams[t].points));
            sweep->team_count++;
        }
        join(sweep, &sweep->teams[t], i);
    }
done:
    release(context, settings);
    return status;
}

l3a_status l3a_sweep_create(l3a_context *context, const l3a_sweep_options *options, l3a_sweep **sweep) {
    l3a_status status = L3A_OK;
    l3a_sweep *made = NULL;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->options = *options;
    TRY(check_axes(context, options));
    TRY(run_create(context, &made->options.run, &made->run));
    TRY(make_points(made));
    TRY(make_teams(made));
    *sweep = made;
    made = NULL;
done:
    l3a_sweep_free(made);
    return status;
}

/* The first point of a team costs as much as a run; each further point costs only what is not shared. */
static double other_flops(const l3a_run_plan *plan, const struct model_options *settings, const struct model_options *before) {
    const double d = (double)settings->dim, classes = (double)plan->classes;
    const bool own_sums = settings->weights != before->weights || settings->scaling != before->scaling;
    double flops = 0;
    for (size_t t = 0; t < plan->phases; t++) {
        flops += (double)plan->train_images[t] * (2 * d * classes + (own_sums ? d * d : 0.1 * d * d)) +
                 (double)plan->test_images[t] * 2 * d * classes + plan->model.solve_flops;
    }
    return flops;
}

l3a_status l3a_sweep_prepare(l3a_sweep *sweep, l3a_sweep_plan *plan) {
    l3a_context *context = sweep->context;
    l3a_status status = L3A_OK;
    l3a_run_plan *one = NULL;
    struct model_options *settings = NULL;
    l3a_sweep_plan made = {sweep->point_count, sweep->options.run.seed_count, sweep->run.phases, sweep->team_count, 0, 0};
    TRY(allocate(context, 1, sizeof *one, &one));
    TRY(allocate(context, sweep->point_count, sizeof *settings, &settings));
    for (size_t t = 0; t < sweep->team_count; t++) {
        const struct team *team = &sweep->teams[t];
        const struct point *first = &sweep->points[team->points[0]];
        l3a_run_options options = sweep->options.run;
        options.methods = &first->method->info.name;
        options.method_count = 1;
        options.settings = &first->settings;
        TRY(l3a_run_prepare(context, &options, one));
        made.flops += one->flops;
        team_settings(sweep, team, 0, settings);
        for (size_t i = 1; i < team->count; i++) {
            made.flops += (double)made.seeds * other_flops(one, &settings[i], &settings[i - 1]);
        }
        const uint64_t memory =
            team->count == 1 ? one->model.memory : group_memory(settings, team->count, options.train->width, sweep->run.classes);
        made.memory = memory > made.memory ? memory : made.memory;
    }
    *plan = made;
done:
    release(context, one);
    release(context, settings);
    return status;
}

/* What a team has learned: a group, or the state of one learner. */
struct knowledge {
    struct group *group;
    const struct learner *learner;
    void *state;
};

static void knowledge_free(struct knowledge *knowledge) {
    group_free(knowledge->group);
    if (knowledge->state) {
        knowledge->learner->free(knowledge->state);
    }
}

static l3a_status knowledge_create(const l3a_sweep *sweep, const struct team *team, uint64_t seed, struct knowledge *knowledge) {
    l3a_context *context = sweep->context;
    l3a_status status = L3A_OK;
    struct model_options *settings = NULL;
    const struct method *method = sweep->points[team->points[0]].method;
    TRY(allocate(context, team->count, sizeof *settings, &settings));
    team_settings(sweep, team, seed, settings);
    if (team->count > 1) {
        TRY(group_create(context, settings, team->count, sweep->options.run.train->width, &knowledge->group));
    } else {
        l3a_options own = sweep->points[team->points[0]].settings;
        own.model.seed = seed;
        knowledge->learner = method->learner;
        TRY(method->learner->create(context, method, &own, sweep->options.run.train->width, &knowledge->state));
    }
done:
    release(context, settings);
    return status;
}

static l3a_status learn(const l3a_sweep *sweep, const struct knowledge *knowledge, const struct lesson *lesson, size_t count,
                        l3a_result *results, uint64_t *corrected) {
    l3a_context *context = sweep->context;
    l3a_status status = L3A_OK;
    size_t *rows = NULL, row_count = 0;
    struct group_outcome *outcomes = NULL;
    struct outcome outcome = {0};
    if (!knowledge->group) {
        TRY(knowledge->learner->learn(knowledge->state, lesson, &outcome));
        results[0].pseudo_labels = outcome.pseudo_labels;
        goto done;
    }
    TRY(allocate(context, count, sizeof *outcomes, &outcomes));
    TRY(lesson_members(lesson, &rows, &row_count));
    TRY(group_learn(knowledge->group, lesson->train, rows, row_count, lesson->columns + lesson->first,
                    lesson->names + lesson->first, lesson->last - lesson->first, outcomes));
    for (size_t i = 0; i < count; i++) {
        results[i].pseudo_labels = outcomes[i].pseudo_labels;
        corrected[i] = outcomes[i].corrected;
    }
done:
    release(context, rows);
    release(context, outcomes);
    return status;
}

/* The scores above which each class counts as predicted. */
static void fill_edges(const struct knowledge *knowledge, const struct point *point, size_t classes, double *edges) {
    for (size_t k = 0; knowledge->group && k < classes; k++) {
        edges[k] = logit(point->settings.model.theta);
    }
    if (!knowledge->group) {
        knowledge->learner->thresholds(knowledge->state, edges);
    }
}

/* Computes the metrics of every point of a team on the test rows with at least one of the first `seen` classes. */
static l3a_status evaluate(const l3a_sweep *sweep, const struct team *team, const struct knowledge *knowledge, size_t seen,
                           l3a_result *results, double *precisions) {
    l3a_context *context = sweep->context;
    l3a_status status = L3A_OK;
    l3a_features *test = sweep->options.run.test;
    size_t *rows = NULL, count = 0;
    float *values = NULL, *scores = NULL, **parts = NULL;
    int8_t *labels = NULL;
    double *edges = NULL;
    TRY(features_rows_with(test, sweep->run.test_order, seen, &rows, &count));
    FAIL_IF(!count, context, L3A_ERROR_DATA, "use test images that show these classes",
            "%s: no image has any of the classes learned so far", test->path);
    TRY(allocate(context, SCORE_ROWS, test->width * sizeof *values, &values));
    TRY(allocate(context, team->count * count, seen * sizeof *scores, &scores));
    TRY(allocate(context, team->count, sizeof *parts, &parts));
    TRY(allocate(context, count, seen, &labels));
    TRY(allocate(context, seen, sizeof *edges, &edges));
    features_gather_labels(test, rows, count, sweep->run.test_order, seen, labels);
    for (size_t first = 0; first < count; first += SCORE_ROWS) {
        const size_t n = count - first < SCORE_ROWS ? count - first : SCORE_ROWS;
        TRY(report_progress(context, "evaluate", first, count));
        TRY(l3a_features_read(test, rows + first, 0, n, values));
        for (size_t i = 0; i < team->count; i++) {
            parts[i] = scores + (i * count + first) * seen;
        }
        TRY(knowledge->group ? group_score(knowledge->group, values, n, parts)
                             : knowledge->learner->score(knowledge->state, values, n, parts[0]));
    }
    for (size_t i = 0; i < team->count; i++) {
        fill_edges(knowledge, &sweep->points[team->points[i]], seen, edges);
        TRY(measure(context, scores + i * count * seen, labels, count, seen, edges, &results[i].metrics,
                    precisions + i * sweep->run.classes));
        TRY(measure_parts(&sweep->run, scores + i * count * seen, labels, count, &results[i]));
    }
    TRY(report_progress(context, "evaluate", count, count));
done:
    release(context, rows);
    release(context, values);
    release(context, scores);
    release(context, parts);
    release(context, labels);
    release(context, edges);
    return status;
}

static l3a_status announce(const l3a_sweep *sweep, const struct point *point, const l3a_result *row, size_t phases,
                           uint64_t corrected) {
    char text[512], note[64] = "";
    if (corrected) {
        snprintf(note, sizeof note, ", %" PRIu64 " rows corrected", corrected);
    }
    snprintf(text, sizeof text, "%s, seed %" PRIu64 ", phase %zu of %zu: %" PRIu64 " pseudo-labels, mAP %.2f, CF1 %.2f, OF1 %.2f%s",
             point->label, row->seed, row->phase, phases, row->pseudo_labels, row->metrics.mean_ap, row->metrics.class_f1,
             row->metrics.overall_f1, note);
    return report_result(sweep->context, text);
}

static size_t phases_of(const l3a_sweep *sweep, const struct point *point) {
    return point->method->plan == BY_PHASE ? sweep->run.phases : 1;
}

static l3a_status run_phase(const l3a_sweep *sweep, const struct team *team, const struct knowledge *knowledge, uint64_t seed,
                            size_t t) {
    l3a_context *context = sweep->context;
    l3a_status status = L3A_OK;
    const struct run *run = &sweep->run;
    const size_t phases = phases_of(sweep, &sweep->points[team->points[0]]);
    const bool at_once = sweep->points[team->points[0]].method->plan != BY_PHASE;
    const struct lesson lesson = {.train = sweep->options.run.train,
                                  .names = run->names,
                                  .columns = run->order,
                                  .bounds = run->edges,
                                  .phases = run->phases,
                                  .first = at_once ? 0 : run->edges[t],
                                  .last = at_once ? run->classes : run->edges[t + 1]};
    l3a_result *results = NULL;
    double *precisions = NULL;
    uint64_t *corrected = NULL, images;
    const double start = clock_seconds();
    TRY(allocate_zeroed(context, team->count, sizeof *results, &results));
    TRY(allocate_zeroed(context, team->count, sizeof *corrected, &corrected));
    TRY(allocate_zeroed(context, team->count, run->classes * sizeof *precisions, &precisions));
    for (size_t i = 0; i < team->count; i++) {
        results[i].first = lesson.first;
        results[i].last = lesson.last;
    }
    TRY(lesson_images(&lesson, sweep->points[team->points[0]].method->plan, &images));
    TRY(learn(sweep, knowledge, &lesson, team->count, results, corrected));
    TRY(evaluate(sweep, team, knowledge, lesson.last, results, precisions));
    const double seconds = (clock_seconds() - start) / (double)team->count;
    for (size_t i = 0; i < team->count; i++) {
        const struct point *point = &sweep->points[team->points[i]];
        results[i].method = point->method->info.name;
        results[i].seed = seed;
        results[i].phase = t + 1;
        results[i].train_images = images;
        results[i].test_images = results[i].metrics.images;
        results[i].seconds = seconds;
        const struct class_details details = {.average_precision = precisions + i * run->classes};
        TRY(results_add(point->results, &results[i], &details));
        TRY(announce(sweep, point, &results[i], phases, corrected[i]));
    }
done:
    release(context, results);
    release(context, corrected);
    release(context, precisions);
    return status;
}

/* sweep.csv: the metrics of all points in one table, with the varied settings as its first columns. */
static l3a_status write_table(l3a_sweep *sweep) {
    l3a_context *context = sweep->context;
    l3a_status status = L3A_OK;
    text_builder table = {.context = context};
    char *path = NULL, *text = NULL;
    size_t length;
    bool headed = false;
    for (size_t i = 0; i < sweep->point_count; i++) {
        const struct point *point = &sweep->points[i];
        if (!l3a_results_count(point->results)) {
            continue;
        }
        TRY(join_path(context, point->folder, "metrics.csv", &path));
        TRY(read_whole(context, path, 1 << 30, &text, &length));
        bool header = true;
        for (const char *line = text, *end; *line; line = end) {
            end = line + strcspn(line, "\n");
            end += *end == '\n';
            for (size_t j = 0; (!header || !headed) && j < sweep->options.axis_count; j++) {
                text_builder_print(&table, "%s,", header ? sweep->options.axes[j].name : point->values.items[j]);
            }
            if (!header || !headed) {
                text_builder_append(&table, line, (size_t)(end - line));
            }
            header = false;
        }
        headed = true;
        release(context, path);
        release(context, text);
        path = text = NULL;
    }
    const struct table_text written = {"sweep.csv", &table};
    TRY(tables_write(context, &sweep->tables, sweep->options.run.folder, &written, 1));
done:
    release(context, path);
    release(context, text);
    text_builder_free(&table);
    return status;
}

/* Makes a point's folder look like that of a run, for reports and for l3a_results_load(). */
static l3a_status write_record(const l3a_sweep *sweep, const struct point *point) {
    l3a_context *context = sweep->context;
    l3a_status status = L3A_OK;
    l3a_run_options options = sweep->options.run;
    text_builder identity = {.context = context};
    char *path = NULL;
    options.methods = &point->method->info.name;
    options.method_count = 1;
    options.settings = &point->settings;
    TRY(make_folder(context, point->folder));
    TRY(join_path(context, point->folder, "run.json", &path));
    TRY(record_identity(context, &options, sweep->run.order, &identity));
    TRY(record_write(context, path, &options, &identity));
done:
    text_builder_free(&identity);
    release(context, path);
    return status;
}

/* report.html: one page for all points. */
static l3a_status write_report(const l3a_sweep *sweep) {
    l3a_context *context = sweep->context;
    l3a_status status = L3A_OK;
    const char **folders = NULL;
    char *path = NULL;
    const l3a_report_options options = {.size = sizeof options, .pictures = sweep->options.run.pictures};
    TRY(allocate(context, sweep->point_count, sizeof *folders, &folders));
    for (size_t i = 0; i < sweep->point_count; i++) {
        folders[i] = sweep->points[i].folder;
    }
    TRY(join_path(context, sweep->options.run.folder, "report.html", &path));
    TRY(l3a_report_write(context, folders, sweep->point_count, &options, path));
done:
    release(context, folders);
    release(context, path);
    return status;
}

static l3a_status write_team(l3a_sweep *sweep, const struct team *team) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < team->count; i++) {
        const struct point *point = &sweep->points[team->points[i]];
        TRY(results_write(point->results, point->folder));
    }
    TRY(write_table(sweep));
done:
    return status;
}

/* True if all points have all phases of a seed. Otherwise drops the phases that they have. */
static bool is_done(const l3a_sweep *sweep, const struct team *team, uint64_t seed) {
    bool done = true;
    for (size_t i = 0; i < team->count; i++) {
        const struct point *point = &sweep->points[team->points[i]];
        done = done && results_rows_of(point->results, point->method->info.name, seed) == phases_of(sweep, point);
    }
    for (size_t i = 0; !done && i < team->count; i++) {
        results_cut(sweep->points[team->points[i]].results, sweep->points[team->points[i]].method->info.name, seed, 0);
    }
    return done;
}

static l3a_status run_team(l3a_sweep *sweep, const struct team *team, uint64_t seed) {
    l3a_status status = L3A_OK;
    struct knowledge knowledge = {0};
    if (is_done(sweep, team, seed)) {
        return L3A_OK;
    }
    TRY(knowledge_create(sweep, team, seed, &knowledge));
    for (size_t t = 0; t < phases_of(sweep, &sweep->points[team->points[0]]); t++) {
        TRY(run_phase(sweep, team, &knowledge, seed, t));
    }
    if (sweep->options.run.folder) {
        TRY(write_team(sweep, team));
    }
done:
    knowledge_free(&knowledge);
    if (status != L3A_OK && status != L3A_ERROR_CANCELLED) {
        fail_in(sweep->context, status, team->count > 1 ? "%s and the points learned with it" : "%s",
                sweep->points[team->points[0]].label);
    }
    return status;
}

/* The run's identity, with the values of the axes added. */
static l3a_status identify(const l3a_sweep *sweep, text_builder *identity) {
    static const char closing[] = "\n  }";
    l3a_status status = L3A_OK;
    TRY(record_identity(sweep->context, &sweep->options.run, sweep->run.order, identity));
    identity->length -= strlen(closing);
    for (size_t i = 0; i < sweep->options.axis_count; i++) {
        const l3a_axis *axis = &sweep->options.axes[i];
        text_builder_print(identity, ",\n    \"values of %s\": [", axis->name);
        for (size_t j = 0; j < axis->count; j++) {
            text_builder_print(identity, "%s\"%s\"", j ? ", " : "", axis->values[j]);
        }
        text_builder_print(identity, "]");
    }
    text_builder_print(identity, "%s", closing);
    status = identity->status;
done:
    return status;
}

/* Reads what an earlier sweep left in the folder. sweep.csv is only checked here; it is written again from the points' tables. */
static l3a_status read_tables(l3a_sweep *sweep) {
    l3a_context *context = sweep->context;
    const char *folder = sweep->options.run.folder;
    l3a_status status = L3A_OK;
    char *path = NULL, *text = NULL;
    size_t length, unrecorded = 0;
    TRY(remove_leftovers(context, folder));
    TRY(tables_open(context, folder, &sweep->tables));
    TRY(tables_read(context, &sweep->tables, folder, "sweep.csv", &path, &text, &length));
    for (size_t i = 0; i < sweep->point_count; i++) {
        l3a_results *results = sweep->points[i].results;
        TRY(remove_leftovers(context, sweep->points[i].folder));
        TRY(results_read(results, sweep->points[i].folder));
        unrecorded += l3a_results_count(results) && !results->tables.recorded;
    }
    if (unrecorded) {
        report_warning(context, "%s: %zu of %zu points have no checksums.csv, so their tables are used without a check", folder,
                       unrecorded, sweep->point_count);
    }
done:
    release(context, text);
    release(context, path);
    return status;
}

static l3a_status open_folder(l3a_sweep *sweep) {
    l3a_context *context = sweep->context;
    const l3a_run_options *options = &sweep->options.run;
    l3a_status status = L3A_OK;
    text_builder identity = {.context = context};
    char *points = NULL, *run_path = NULL;
    bool exists = false;
    TRY(make_folder(context, options->folder));
    TRY(join_path(context, options->folder, "sweep.json", &sweep->run.record_path));
    TRY(join_path(context, options->folder, "run.json", &run_path));
    TRY(join_path(context, options->folder, "points", &points));
    TRY(file_exists(context, run_path, &exists));
    FAIL_IF(exists, context, L3A_ERROR_EXISTS, "choose another folder", "%s: this folder holds a run", options->folder);
    TRY(identify(sweep, &identity));
    TRY(file_exists(context, sweep->run.record_path, &exists));
    FAIL_IF(exists && !options->resume, context, L3A_ERROR_EXISTS, "resume it, or choose another folder",
            "%s: this folder already holds a sweep", options->folder);
    if (exists) {
        TRY(record_compare(context, sweep->run.record_path, &identity));
        TRY(read_tables(sweep));
    } else {
        TRY(record_write(context, sweep->run.record_path, options, &identity));
    }
    TRY(make_folder(context, points));
    for (size_t i = 0; i < sweep->point_count; i++) {
        TRY(write_record(sweep, &sweep->points[i]));
    }
done:
    text_builder_free(&identity);
    release(context, points);
    release(context, run_path);
    return status;
}

/* Warns of settings given by name that no point uses. */
static void warn_of_idle_settings(const l3a_sweep *sweep) {
    const l3a_options settings = run_settings(&sweep->options.run), *given = &settings;
    for (size_t i = 0; l3a_option_at(i); i++) {
        const char *name = l3a_option_at(i)->name;
        bool idle = l3a_options_given(given, name);
        char value[64];
        l3a_options_get(given, name, value, sizeof value);
        for (size_t j = 0; idle && j < sweep->point_count; j++) {
            idle = !method_looks_at(sweep->points[j].method, &sweep->points[j].settings, name, value);
        }
        if (idle) {
            report_warning(sweep->context, "%s %s has no effect: no point of this sweep uses it", name, value);
        }
    }
}

l3a_status l3a_sweep_run(l3a_sweep *sweep) {
    l3a_status status = L3A_OK;
    warn_of_difficult(sweep->context, sweep->options.run.train, sweep->options.run.test);
    warn_of_idle_settings(sweep);
    if (sweep->options.run.folder) {
        TRY(open_folder(sweep));
    }
    for (size_t t = 0; t < sweep->team_count; t++) {
        for (size_t i = 0; i < sweep->options.run.seed_count; i++) {
            TRY(run_team(sweep, &sweep->teams[t], sweep->options.run.seeds[i]));
        }
    }
    if (sweep->options.run.folder) {
        TRY(write_table(sweep));
    }
    if (sweep->options.run.folder && sweep->options.run.report) {
        TRY(write_report(sweep));
    }
done:
    return status;
}

size_t l3a_sweep_count(const l3a_sweep *sweep) {
    return sweep->point_count;
}

const char *l3a_sweep_method(const l3a_sweep *sweep, size_t point) {
    return point < sweep->point_count ? sweep->points[point].method->info.name : NULL;
}

const char *l3a_sweep_label(const l3a_sweep *sweep, size_t point) {
    return point < sweep->point_count ? sweep->points[point].label : NULL;
}

const char *l3a_sweep_value(const l3a_sweep *sweep, size_t point, size_t axis) {
    return point < sweep->point_count && axis < sweep->options.axis_count ? sweep->points[point].values.items[axis] : NULL;
}

const l3a_results *l3a_sweep_results(const l3a_sweep *sweep, size_t point) {
    return point < sweep->point_count ? sweep->points[point].results : NULL;
}
