/* The points of an experiment: every method with every combination of values. Points that can learn together (learn/model_group.h)
 * form a team, as large as memory allows; every other point is a team by itself. Random layers of different dim have nothing in
 * common (entry i·d + j depends on d), so each dim needs its own team. */
#include "base/machine.h"
#include "base/sized.h"
#include "data/features.h"
#include "learn/model_plan.h"
#include "run/experiment.h"

#include <inttypes.h>
#include <string.h>

enum { VALUE_TEXT = 64, AXES = 64, POINTS = 10000 };

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

static bool is_one_of(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static const struct method *find_own(const l3a_experiment *experiment, const char *name) {
    for (size_t i = 0; i < experiment->own_count; i++) {
        if (strcmp(experiment->own_methods[i].info.name, name) == 0) {
            return &experiment->own_methods[i];
        }
    }
    return NULL;
}

const struct method *experiment_method(const l3a_experiment *experiment, const char *name) {
    const struct method *own = find_own(experiment, name);
    return own ? own : method_find(name);
}

/* The program's own methods. Each must be asked for. */
static l3a_status take_own_methods(l3a_experiment *experiment) {
    const l3a_experiment_options *options = &experiment->options;
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, options->own_method_count, sizeof *experiment->callbacks, &experiment->callbacks));
    TRY(allocate_zeroed(context, options->own_method_count, sizeof *experiment->own_methods, &experiment->own_methods));
    for (size_t i = 0; i < options->own_method_count; i++) {
        TRY(READ_SIZED(context, options->own_methods[i], experiment->callbacks[i]));
        TRY(own_method(context, &experiment->callbacks[i], &experiment->own_methods[i]));
        const char *name = experiment->callbacks[i].name;
        FAIL_IF(find_own(experiment, name), context, L3A_ERROR_OPTION, "give each a name of its own",
                "two of the program's own methods are called '%s'", name);
        FAIL_IF(!is_one_of(name, options->methods, options->method_count), context, L3A_ERROR_OPTION,
                "list its name with the methods to run, or leave it out", "the program's own method '%s' is not asked for", name);
        experiment->own_count++;
    }
done:
    return status;
}

l3a_status check_methods(l3a_experiment *experiment) {
    const l3a_experiment_options *options = &experiment->options;
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    TRY(take_own_methods(experiment));
    for (size_t i = 0; i < options->method_count; i++) {
        const char *name = options->methods[i];
        if (!find_own(experiment, name)) {
            TRY(method_check(context, name));
        }
        FAIL_IF(is_one_of(name, options->methods, i), context, L3A_ERROR_OPTION, "list each method once",
                "method '%s' is listed twice", name);
    }
    for (size_t i = 1; i < options->seed_count; i++) {
        for (size_t j = 0; j < i; j++) {
            FAIL_IF(options->seeds[i] == options->seeds[j], context, L3A_ERROR_OPTION, "list each seed once",
                    "seed %" PRIu64 " is listed twice", options->seeds[i]);
        }
    }
done:
    return status;
}

static l3a_status set_value(l3a_context *context, l3a_options *settings, const char *name, const char *value) {
    const bool dynamic = strcmp(name, "eta") == 0 && strcmp(value, "dynamic") == 0;
    return l3a_options_set(context, settings, dynamic ? "pseudo" : name, value);
}

l3a_status check_axes(l3a_context *context, const l3a_experiment_options *options, const l3a_options *settings) {
    l3a_status status = L3A_OK;
    size_t points = options->method_count;
    FAIL_IF(options->axis_count > AXES, context, L3A_ERROR_OPTION, NULL, "the grid varies more than %d settings", AXES);
    for (size_t i = 0; i < options->axis_count; i++) {
        const l3a_axis *axis = &options->axes[i];
        FAIL_IF(!axis->count, context, L3A_ERROR_OPTION, "give at least one value", "%s has no values", axis->name);
        FAIL_IF(strcmp(axis->name, "seed") == 0, context, L3A_ERROR_OPTION, "list the seeds in the options of the experiment",
                "seed cannot be an axis of a grid");
        FAIL_IF(strcmp(axis->name, "views") == 0 || strcmp(axis->name, "score-views") == 0, context, L3A_ERROR_OPTION,
                "make a grid for each number of views",
                "%s cannot be an axis of a grid: all its points use the same rows of the features", axis->name);
        for (size_t j = 0; j < axis->count; j++) {
            l3a_options tried = *settings;
            TRY(set_value(context, &tried, axis->name, axis->values[j]));
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
}

void points_free(l3a_experiment *experiment) {
    for (size_t i = 0; i < experiment->point_count; i++) {
        if (i == 0 || experiment->layout != &run_layout) {
            l3a_results_free(experiment->points[i].results);
        }
        free_point(experiment->context, &experiment->points[i]);
    }
    for (size_t i = 0; i < experiment->team_count; i++) {
        release(experiment->context, experiment->teams[i].points);
    }
    release(experiment->context, experiment->points);
    release(experiment->context, experiment->teams);
}

/* Checks that the method can have these settings. */
static l3a_status check_settings(l3a_context *context, const struct method *method, const l3a_options *settings) {
    l3a_status status = L3A_OK;
    TRY(method_check_settings(context, method, settings));
    if (method->learner->is_model &&
        (options_fit(context, &settings->model) != L3A_OK || solver_fits(context, &settings->model) != L3A_OK)) {
        status = fail_in(context, L3A_ERROR_OPTION, "method '%s'", method->info.name);
    }
done:
    return status;
}

static void describe_threshold(struct point *point) {
    char kind[VALUE_TEXT], theta[VALUE_TEXT];
    const char *setting = method_threshold(point->method->info.name);
    const bool fitted = strcmp(setting, "thresholds") == 0;
    if (point->method->own && point->method->own->thresholds) {
        threshold_describe(own_thresholds, "", point->threshold);
        return;
    }
    l3a_options_get(&point->settings, "thresholds", kind, sizeof kind);
    l3a_options_get(&point->settings, fitted ? "theta" : setting, theta, sizeof theta);
    threshold_describe(fitted ? kind : "fixed", theta, point->threshold);
}

/* Gives a point combination `number` of methods and values. The last axis varies fastest. */
static l3a_status choose_values(const l3a_experiment *experiment, size_t number, struct point *point) {
    const l3a_experiment_options *options = &experiment->options;
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    size_t chosen[AXES], rest = number;
    l3a_options settings = experiment->settings;
    for (size_t i = options->axis_count; i-- > 0;) {
        chosen[i] = rest % options->axes[i].count;
        rest /= options->axes[i].count;
    }
    point->method = experiment_method(experiment, options->methods[rest]);
    for (size_t i = 0; i < options->axis_count; i++) {
        TRY(set_value(context, &settings, options->axes[i].name, options->axes[i].values[chosen[i]]));
    }
    if (!settings.model.total_classes) {
        settings.model.total_classes = experiment->classes;
    }
    point->settings = method_options(point->method, &settings);
    TRY(check_settings(context, point->method, &point->settings));
    describe_threshold(point);
    for (size_t i = 0; i < options->axis_count; i++) {
        const char *name = options->axes[i].name, *value = options->axes[i].values[chosen[i]];
        char text[VALUE_TEXT];
        if (strcmp(value, "dynamic") != 0) {
            l3a_options_get(&settings, name, text, sizeof text);
            value = text;
        }
        value = method_looks_at(point->method, &point->settings, name, value) ? value : "-";
        TRY(text_list_add(context, &point->values, value, strlen(value)));
    }
done:
    return status;
}

/* Its label and its folder, which is that of the experiment for all points of a run. */
static l3a_status name_point(const l3a_experiment *experiment, struct point *point) {
    const l3a_experiment_options *options = &experiment->options;
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    text_builder label = {.context = context}, folder = {.context = context};
    if (options->method_count > 1 || !options->axis_count) {
        text_builder_print(&label, "%s", point->method->info.name);
    }
    for (size_t i = 0; i < options->axis_count; i++) {
        text_builder_print(&label, "%s%s=%s", label.length ? " " : "", options->axes[i].name, point->values.items[i]);
    }
    TRY(label.status);
    if (options->folder) {
        text_builder_print(&folder, experiment->layout == &run_layout ? "%s" : "%s/points/%s", options->folder, label.text);
        for (size_t i = strlen(options->folder); folder.status == L3A_OK && i < folder.length; i++) {
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

/* Two points with one label differ only in settings that their method does not use. */
static bool is_known(const l3a_experiment *experiment, const struct point *point) {
    size_t i = 0;
    while (i < experiment->point_count && strcmp(experiment->points[i].label, point->label) != 0) {
        i++;
    }
    return i < experiment->point_count;
}

l3a_status make_points(l3a_experiment *experiment) {
    l3a_context *context = experiment->context;
    const l3a_experiment_options *options = &experiment->options;
    l3a_status status = L3A_OK;
    struct point point = {0};
    size_t count = options->method_count;
    for (size_t i = 0; i < options->axis_count; i++) {
        count *= options->axes[i].count;
    }
    TRY(allocate_zeroed(context, count, sizeof *experiment->points, &experiment->points));
    for (size_t number = 0; number < count; number++) {
        TRY(choose_values(experiment, number, &point));
        TRY(name_point(experiment, &point));
        if (is_known(experiment, &point)) {
            free_point(context, &point);
        } else {
            experiment->points[experiment->point_count++] = point;
        }
        point = (struct point){0};
    }
done:
    free_point(context, &point);
    return status;
}

/* Whether two points can be in one team: models that learn the same rows with the same labels, if a group can hold them. */
static bool can_share(const struct point *left, const struct point *right) {
    return left->method->learner->is_model && left->method->learner == right->method->learner &&
           left->method->plan == right->method->plan && left->method->plan != ALL_MASKED &&
           group_accepts(&left->settings.model, &right->settings.model);
}

void team_settings(const l3a_experiment *experiment, const struct team *team, uint64_t seed, struct model_options *settings) {
    for (size_t i = 0; i < team->count; i++) {
        settings[i] = team_point(experiment, team, i)->settings.model;
        settings[i].seed = seed;
    }
}

static uint64_t memory_limit(const l3a_context *context) {
    const uint64_t free = machine_memory_available();
    return context->options.memory_limit ? context->options.memory_limit : free ? free : UINT64_MAX;
}

/* Inserts a point into a team, which is sorted as a group wants it. */
static void join(const l3a_experiment *experiment, struct team *team, size_t point) {
    const struct model_options *settings = &experiment->points[point].settings.model;
    size_t at = team->count++;
    for (; at && group_order(&team_point(experiment, team, at - 1)->settings.model, settings) > 0; at--) {
        team->points[at] = team->points[at - 1];
    }
    team->points[at] = point;
}

static bool fits(const l3a_experiment *experiment, const struct model_options *settings, size_t count, uint64_t limit) {
    struct placement placed;
    struct footprint need;
    team_memory(experiment, settings, count, &need);
    return place_parts(experiment->context, &need, &(struct footprint){{0}},
                       part_bytes(experiment->context, settings, experiment->options.train->width), &placed) == L3A_OK &&
           placed.fits && placed.processor <= limit;
}

/* The first team that a point can join, or a new one. `settings` has room for those of all points. */
static size_t find_team(const l3a_experiment *experiment, size_t point, uint64_t limit, struct model_options *settings) {
    for (size_t t = 0; t < experiment->team_count && experiment->layout != &run_layout; t++) {
        const struct team *team = &experiment->teams[t];
        if (can_share(team_point(experiment, team, 0), &experiment->points[point])) {
            team_settings(experiment, team, 0, settings);
            settings[team->count] = experiment->points[point].settings.model;
            if (fits(experiment, settings, team->count + 1, limit)) {
                return t;
            }
        }
    }
    return experiment->team_count;
}

l3a_status make_teams(l3a_experiment *experiment) {
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    struct model_options *settings = NULL;
    const uint64_t limit = memory_limit(context);
    l3a_plan plan = {.size = sizeof plan};
    for (size_t i = 0; context->choosing && i < experiment->point_count; i++) { /* if one does not fit the device, none uses it */
        if (experiment->points[i].method->own) {
            continue;
        }
        TRY(model_plan(context, &experiment->points[i].settings.model, experiment->options.train->width, experiment->classes,
                       &plan));
    }
    TRY(allocate_zeroed(context, experiment->point_count, sizeof *experiment->teams, &experiment->teams));
    TRY(allocate(context, experiment->point_count, sizeof *settings, &settings));
    for (size_t i = 0; i < experiment->point_count; i++) {
        uint64_t t = leads(context) ? find_team(experiment, i, limit, settings) : 0;
        TRY(follow_lead(context, L3A_OK, &t)); /* memory may differ */
        struct team *team = &experiment->teams[t];
        if (t == experiment->team_count) {
            TRY(allocate(context, experiment->point_count, sizeof *team->points, &team->points));
            experiment->team_count++;
        }
        join(experiment, team, i);
    }
done:
    release(context, settings);
    return status;
}
