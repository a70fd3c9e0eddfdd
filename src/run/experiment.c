/* A whole experiment: every method, combination of values and seed over every phase, resumable. */
#include "run/experiment.h"

#include "base/file.h"
#include "base/sized.h"
#include "base/text_index.h"
#include "data/features.h"
#include "run/record.h"
#include "train/training_source.h"

#include <inttypes.h>
#include <string.h>

/* Checks that every class of one table is in the other, which is the training or the test data. */
static l3a_status check_same_classes(const l3a_features *one, const l3a_features *other, const char *role) {
    l3a_context *context = one->context;
    l3a_status status = L3A_OK;
    text_index index = {0};
    TRY(text_index_make(context, other->classes.items, other->classes.count, &index));
    for (size_t i = 0; i < one->classes.count; i++) {
        FAIL_IF(text_index_find(&index, one->classes.items[i]) == index.count, context, L3A_ERROR_CLASS,
                "use training and test data with the same classes", "%s (%s data) has no class '%s', but %s does", other->path,
                role, one->classes.items[i], one->path);
    }
done:
    text_index_free(context, &index);
    return status;
}

/* Scores of features that were made in another way mean nothing, and nothing else would show it. */
static l3a_status check_same_network(const l3a_features *train, const l3a_features *test) {
    const char *learned[PROVENANCE], *tested[PROVENANCE];
    l3a_context *context = train->context;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < PROVENANCE; i++) {
        learned[i] = l3a_features_record(train, provenance[i]);
        tested[i] = l3a_features_record(test, provenance[i]);
    }
    const size_t i = provenance_conflict(learned, tested);
    FAIL_IF(i < PROVENANCE, context, L3A_ERROR_MISMATCH, "extract both with the same backbone and the same options",
            "%s is '%s' in %s (training data) and '%s' in %s (test data)", provenance[i], provenance_text(learned[i]), train->path,
            provenance_text(tested[i]), test->path);
done:
    return status;
}

static l3a_status check_tables(l3a_context *context, l3a_features *train, l3a_features *test) {
    l3a_status status = L3A_OK;
    FAIL_IF(!train || !test, context, L3A_ERROR_ARGUMENT, NULL, "an experiment needs a training and a test table");
    FAIL_IF(train->width != test->width, context, L3A_ERROR_MISMATCH, "extract both with the same backbone",
            "%s (training data) has features %zu wide, but %s (test data) has features %zu wide", train->path, train->width,
            test->path, test->width);
    TRY(check_same_network(train, test));
    FAIL_IF(!train->labels.held, context, L3A_ERROR_DATA,
            "give the training labels in a second .npy file, or use a feature file that contains labels", "%s: no labels",
            train->path);
    FAIL_IF(!test->labels.held, context, L3A_ERROR_DATA,
            "give the test labels in a second .npy file, or use a feature file that contains labels", "%s: no labels", test->path);
    TRY(check_same_classes(train, test, "test"));
    TRY(check_same_classes(test, train, "training"));
done:
    return status;
}

static l3a_status need_array(l3a_context *context, const char *name, const void *array, size_t count) {
    return array || !count ? L3A_OK : fail(context, L3A_ERROR_ARGUMENT, NULL, "l3a_experiment_create: %s is NULL", name);
}

/* Checks that what the options count is there. */
static l3a_status check_arrays(l3a_context *context, const l3a_experiment_options *options) {
    static const char function[] = "l3a_experiment_create";
    l3a_status status = L3A_OK;
    TRY(need_array(context, "methods", options->methods, options->method_count));
    TRY(need_items(context, function, "methods", options->methods, options->method_count));
    TRY(need_array(context, "own_methods", options->own_methods, options->own_method_count));
    for (size_t i = 0; i < options->own_method_count; i++) {
        TRY(need_array(context, "one of own_methods", options->own_methods[i], 1));
    }
    TRY(need_array(context, "seeds", options->seeds, options->seed_count));
    TRY(need_array(context, "class_orders", options->class_orders, options->class_order_count));
    TRY(need_items(context, function, "class_orders", options->class_orders, options->class_order_count));
    TRY(need_array(context, "axes", options->axes, options->axis_count));
    for (size_t i = 0; i < options->axis_count; i++) {
        const l3a_axis *axis = &options->axes[i];
        TRY(need_array(context, "the name of an axis", axis->name, 1));
        TRY(need_array(context, axis->name, axis->values, axis->count));
        TRY(need_items(context, function, axis->name, axis->values, axis->count));
    }
done:
    return status;
}

/* Puts defaults where the options say nothing. */
static void complete_options(l3a_experiment *experiment) {
    static const char *const method[] = {"l3a"};
    static const uint64_t seed[] = {2025};
    l3a_experiment_options *options = &experiment->options;
    options->protocol = options->protocol ? options->protocol : "B0-C10";
    options->class_order = options->class_order ? options->class_order : "lexicographic";
    options->class_orders = options->class_order_count ? options->class_orders : &options->class_order;
    options->class_order_count = options->class_order_count ? options->class_order_count : 1;
    options->methods = options->method_count ? options->methods : method;
    options->method_count = options->method_count ? options->method_count : 1;
    options->seeds = options->seed_count ? options->seeds : seed;
    options->seed_count = options->seed_count ? options->seed_count : 1;
    options_default(&experiment->settings);
    experiment->settings = options->settings ? *options->settings : experiment->settings;
    options->settings = &experiment->settings;
    experiment->layout = options->grid || options->axis_count ? &grid_layout : &run_layout;
}

static l3a_status make_order(const l3a_experiment *experiment, const char *how, struct class_order *order) {
    l3a_context *context = experiment->context;
    const text_list *classes = &experiment->options.train->classes;
    l3a_status status = L3A_OK;
    const char *slash = strrchr(how, '/');
    order->name = slash ? slash + 1 : how;
    TRY(allocate(context, classes->count, sizeof *order->columns, &order->columns));
    TRY(allocate(context, classes->count, sizeof *order->names, &order->names));
    TRY(l3a_class_order(context, (const char *const *)classes->items, classes->count, how, order->columns));
    for (size_t i = 0; i < classes->count; i++) {
        order->names[i] = classes->items[order->columns[i]];
    }
    TRY(allocate(context, classes->count, sizeof *order->test_columns, &order->test_columns));
    TRY(features_columns(experiment->options.test, order->names, classes->count, order->test_columns));
done:
    return status;
}

/* The orders of the classes, and the bounds of the phases. */
static l3a_status order_classes(l3a_experiment *experiment) {
    const l3a_experiment_options *options = &experiment->options;
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    const size_t count = experiment->classes = options->train->classes.count;
    TRY(allocate(context, count + 1, sizeof *experiment->bounds, &experiment->bounds));
    TRY(l3a_protocol_parse(context, options->protocol, count, experiment->bounds, &experiment->phases));
    TRY(allocate_zeroed(context, options->class_order_count, sizeof *experiment->orders, &experiment->orders));
    for (size_t i = 0; i < options->class_order_count; i++) {
        struct class_order *order = &experiment->orders[experiment->order_count++];
        TRY(make_order(experiment, options->class_orders[i], order));
        for (size_t j = 0; j < i; j++) {
            const struct class_order *other = &experiment->orders[j];
            FAIL_IF(strcmp(order->name, other->name) == 0, context, L3A_ERROR_OPTION,
                    "list each class order once; files must have different names", "class order '%s' is listed twice", order->name);
            FAIL_IF(memcmp(order->columns, other->columns, count * sizeof *order->columns) == 0, context, L3A_ERROR_OPTION,
                    "leave one of them out, or choose another", "the class orders '%s' and '%s' are the same", other->name,
                    order->name);
        }
    }
done:
    return status;
}

/* The models have the views of the tables. */
static l3a_status choose_views(l3a_experiment *experiment) {
    const l3a_features *train = experiment->options.train, *test = experiment->options.test;
    const uint64_t scored = experiment->settings.model.score_views;
    l3a_status status = L3A_OK;
    FAIL_IF(!scored && train->views != test->views, experiment->context, L3A_ERROR_MISMATCH,
            "extract both with the same views, use only the views that both have (setting views), or say that test images have "
            "other views (setting score-views)",
            "%s has %zu %s of each image, but %s has %zu", train->path, train->views, train->views == 1 ? "view" : "views",
            test->path, test->views);
    FAIL_IF(scored && scored != test->views, experiment->context, L3A_ERROR_MISMATCH,
            "omit the setting, or narrow the test table with l3a_features_use_views()",
            "score-views is %" PRIu64 ", but %s has %zu", scored, test->path, test->views);
    FAIL_IF(l3a_options_given(&experiment->settings, "views") && experiment->settings.model.views != train->views,
            experiment->context, L3A_ERROR_MISMATCH, "omit the setting, or narrow both tables with l3a_features_use_views()",
            "views is %" PRIu64 ", but %s has %zu", experiment->settings.model.views, train->path, train->views);
    experiment->settings.model.views = train->views;
done:
    return status;
}

/* A run that began without a word about pseudo-from, as all did before 0.9, goes on with what that meant. */
static l3a_status keep_old_rule(l3a_experiment *experiment) {
    const l3a_experiment_options *options = &experiment->options;
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    char *path = NULL;
    bool exists = false, says = true;
    const bool views = experiment->settings.model.views > 1; /* without them, all rules are the same */
    if (!views || !options->resume || !options->folder || l3a_options_given(&experiment->settings, "pseudo-from")) {
        return L3A_OK;
    }
    TRY(join_path(context, options->folder, experiment->layout->record, &path));
    TRY(file_exists(context, path, &exists));
    if (exists) {
        TRY(record_says(context, path, "pseudo-from", &says));
    }
    experiment->settings.model.pseudo_from = says ? experiment->settings.model.pseudo_from : L3A_PSEUDO_FROM_COMBINED;
done:
    release(context, path);
    return status;
}

/* Opens the pictures and the network, if a point trains it. */
static l3a_status open_training(l3a_experiment *experiment) {
    l3a_context *context = experiment->context;
    const l3a_experiment_options *options = &experiment->options;
    const struct point *trains = NULL;
    l3a_backbone_training given;
    l3a_backbone_options backbone;
    l3a_picture_options picture;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < experiment->point_count && !trains; i++) {
        const struct point *point = &experiment->points[i];
        trains = method_trains(point->method, &point->settings) ? point : NULL;
    }
    if (!trains) {
        return L3A_OK;
    }
    TRY(READ_SIZED(context, options->training, given));
    FAIL_IF(!given.checkpoint || !given.train || !given.test, context, L3A_ERROR_OPTION,
            "give pictures and a backbone (--data and --backbone), or leave train-backbone out",
            "method '%s' trains the backbone, but there are only features", trains->method->info.name);
    FAIL_IF(divides_rows(context), context, L3A_ERROR_OPTION, "start one process",
            "several processes that learn together cannot train a backbone");
    TRY(READ_SIZED(context, given.backbone, backbone));
    TRY(READ_SIZED(context, given.picture, picture));
    TRY(allocate_zeroed(context, 1, sizeof *experiment->training, &experiment->training));
    TRY(training_source_open(context, given.checkpoint, &backbone, &picture, options->train, given.train, options->test, given.test,
                             experiment->training));
done:
    return status;
}

static l3a_status prepare(l3a_experiment *experiment) {
    const l3a_experiment_options *options = &experiment->options;
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    TRY(check_axes(context, options, &experiment->settings));
    TRY(l3a_options_check(context, &experiment->settings));
    TRY(check_tables(context, options->train, options->test));
    TRY(choose_views(experiment));
    TRY(keep_old_rule(experiment));
    TRY(check_methods(experiment));
    if (options->pictures) {
        char splits[256];
        TRY(l3a_dataset_splits(context, options->pictures, splits, sizeof splits));
    }
    TRY(order_classes(experiment));
    TRY(make_points(experiment));
    TRY(open_training(experiment));
    TRY(count_images(experiment));
    TRY(make_teams(experiment));
done:
    return status;
}

l3a_status l3a_experiment_create(l3a_context *context, const l3a_experiment_options *options, l3a_experiment **experiment) {
    l3a_status status = L3A_OK;
    l3a_experiment *made = NULL;
    NEED(context, context, options, experiment);
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    TRY(READ_SIZED(context, options, made->options));
    TRY(check_arrays(context, &made->options));
    complete_options(made);
    TRY(prepare(made));
    *experiment = made;
    made = NULL;
done:
    l3a_experiment_free(made);
    return status;
}

void l3a_experiment_free(l3a_experiment *experiment) {
    if (!experiment) {
        return;
    }
    l3a_context *context = experiment->context;
    for (size_t i = 0; i < experiment->order_count; i++) {
        release(context, experiment->orders[i].names);
        release(context, experiment->orders[i].columns);
        release(context, experiment->orders[i].test_columns);
        release(context, experiment->orders[i].lessons);
    }
    release(context, experiment->orders);
    release(context, experiment->bounds);
    tables_free(context, &experiment->tables);
    points_free(experiment);
    text_list_clear(context, &experiment->failures);
    release(context, experiment->own_methods);
    release(context, experiment->callbacks);
    if (experiment->training) {
        training_source_close(experiment->training);
        release(context, experiment->training);
    }
    release(context, experiment);
}

/* Where each class of each order is in the first order, [orders x classes]. */
static l3a_status place_classes(const l3a_experiment *experiment, size_t **positions) {
    const size_t classes = experiment->classes;
    l3a_status status = L3A_OK;
    size_t *first = NULL; /* of each column, in the first order */
    TRY(allocate(experiment->context, classes, sizeof *first, &first));
    TRY(allocate(experiment->context, experiment->order_count, classes * sizeof **positions, positions));
    for (size_t k = 0; k < classes; k++) {
        first[experiment->orders[0].columns[k]] = k;
    }
    for (size_t i = 0; i < experiment->order_count * classes; i++) {
        (*positions)[i] = first[experiment->orders[i / classes].columns[i % classes]];
    }
done:
    release(experiment->context, first);
    return status;
}

/* Gives every point results; all points of a run share theirs. */
static l3a_status make_results(l3a_experiment *experiment) {
    const l3a_experiment_options *options = &experiment->options;
    const bool shared = experiment->layout == &run_layout;
    l3a_status status = L3A_OK;
    size_t *positions = NULL;
    const char **names = NULL; /* of the orders */
    if (experiment->order_count > 1) {
        TRY(place_classes(experiment, &positions));
        TRY(allocate(experiment->context, experiment->order_count, sizeof *names, &names));
        for (size_t i = 0; i < experiment->order_count; i++) {
            names[i] = experiment->orders[i].name;
        }
    }
    for (size_t i = 0; i < experiment->point_count; i++) {
        l3a_results **results = &experiment->points[i].results;
        if (i && shared) {
            *results = experiment->points[0].results;
            continue;
        }
        TRY(results_create(experiment->context, results));
        TRY(results_expect(*results, options->methods, shared ? options->method_count : 0, options->seeds, options->seed_count));
        for (size_t k = 0; k < experiment->classes; k++) {
            const char *name = experiment->orders[0].names[k];
            TRY(text_list_add(experiment->context, &(*results)->classes, name, strlen(name)));
        }
        if (positions) {
            TRY(results_set_orders(*results, names, experiment->order_count, positions));
        }
    }
    for (size_t i = 0; i < experiment->point_count; i++) {
        const struct point *point = &experiment->points[i];
        TRY(results_set_threshold(point->results, point->method->info.name, point->threshold));
    }
done:
    release(experiment->context, positions);
    release(experiment->context, names);
    return status;
}

/* Warns of settings given by name that no point uses. */
static void warn_of_idle_settings(const l3a_experiment *experiment) {
    for (size_t i = 0; l3a_option_at(i); i++) {
        const char *name = l3a_option_at(i)->name;
        bool idle = l3a_options_given(&experiment->settings, name);
        char value[64];
        l3a_options_get(&experiment->settings, name, value, sizeof value);
        for (size_t j = 0; idle && j < experiment->point_count; j++) {
            idle = !method_looks_at(experiment->points[j].method, &experiment->points[j].settings, name, value);
        }
        if (idle) {
            report_warning(experiment->context, "%s %s has no effect: %s uses it", name, value, experiment->layout->consumers);
        }
    }
}

/* Warns if only one of the two tables ignores difficult objects. */
static void warn_of_difficult(l3a_context *context, const l3a_features *train, const l3a_features *test) {
    const bool learned = l3a_features_record(train, difficult_record), measured = l3a_features_record(test, difficult_record);
    if (learned != measured) {
        report_warning(context,
                       "%s ignores difficult objects, but %s counts them as absent; the metrics %s. Extract both "
                       "with the same treatment of difficult objects",
                       learned ? train->path : test->path, learned ? test->path : train->path,
                       measured ? "ignore them" : "count them as absent");
    }
}

/* Compares the record of an experiment that is resumed, or writes that of a new one. */
static l3a_status keep_record(const l3a_experiment *experiment, const char *path, bool exists) {
    l3a_context *context = experiment->context;
    const l3a_experiment_options *options = &experiment->options;
    l3a_status status = L3A_OK;
    text_builder identity = {.context = context};
    TRY(record_identity(experiment, options, &identity));
    if (exists) {
        TRY(record_compare(context, path, &identity));
        TRY(remove_leftovers(context, options->folder));
    } else {
        TRY(record_write(context, path, options, &identity));
    }
done:
    text_builder_free(&identity);
    return status;
}

static l3a_status open_folder(l3a_experiment *experiment) {
    const struct layout *layout = experiment->layout;
    l3a_context *context = experiment->context;
    const l3a_experiment_options *options = &experiment->options;
    l3a_status status = L3A_OK;
    char *path = NULL, *obstacle = NULL;
    bool exists = false, taken = false;
    TRY(follow_lead(context, make_folder(context, options->folder), NULL));
    TRY(join_path(context, options->folder, layout->record, &path));
    TRY(join_path(context, options->folder, layout->obstacle, &obstacle));
    TRY(file_exists(context, path, &exists));
    TRY(file_exists(context, obstacle, &taken));
    FAIL_IF(taken && !(exists && layout == &run_layout), context, L3A_ERROR_EXISTS, "choose another folder", layout->complaint,
            options->folder);
    FAIL_IF(exists && !options->resume, context, L3A_ERROR_EXISTS, "resume it, or choose another folder",
            "%s: this folder already holds a %s", options->folder, layout->kind);
    TRY(follow_lead(context, L3A_OK, NULL)); /* all have looked, before the first writes */
    TRY(follow_lead(context, leads(context) ? keep_record(experiment, path, exists) : L3A_OK, NULL));
    TRY(layout->open(experiment, exists));
done:
    release(context, path);
    release(context, obstacle);
    return status;
}

/* report.html: one page about all points. */
static l3a_status write_report(const l3a_experiment *experiment) {
    l3a_context *context = experiment->context;
    l3a_status status = L3A_OK;
    char *path = NULL;
    const l3a_report_options options = {.size = sizeof options, .pictures = experiment->options.pictures};
    TRY(join_path(context, experiment->options.folder, "report.html", &path));
    TRY(l3a_report_write(context, &experiment->options.folder, 1, &options, path));
done:
    release(context, path);
    return status;
}

/* Every job of a team, until one fails. If it is a method of the program's own that fails, the other teams go on. */
static l3a_status run_team(l3a_experiment *experiment, size_t index) {
    const l3a_experiment_options *options = &experiment->options;
    l3a_context *context = experiment->context;
    const struct team *team = &experiment->teams[index];
    const struct method *method = team_point(experiment, team, 0)->method;
    const size_t jobs = experiment->order_count * options->seed_count;
    l3a_status status = L3A_OK;
    struct job job;
    for (size_t i = 0; status == L3A_OK && i < jobs; i++) {
        job = (struct job){.team = team,
                           .method = method,
                           .order = &experiment->orders[i / options->seed_count],
                           .seed = options->seeds[i % options->seed_count],
                           .phases = phases_of(experiment, method),
                           .number = index * jobs + i + 1,
                           .first_of_team = i == 0,
                           .saving = &experiment->saving};
        status = run_job(experiment, &job);
    }
    if (status == L3A_ERROR_METHOD && !divides_rows(context)) {
        const char *text = l3a_error_text(context);
        TRY(text_list_add(context, &experiment->failures, text, strlen(text)));
        report_warning(context, "%s", text);
        status = experiment->layout->leave_job ? experiment->layout->leave_job(experiment, &job) : L3A_OK;
    }
done:
    return status;
}

l3a_status l3a_experiment_run(l3a_experiment *experiment) {
    REQUIRE(experiment, experiment);
    l3a_status status = L3A_OK;
    const l3a_experiment_options *options = &experiment->options;
    FAIL_IF(experiment->begun, experiment->context, L3A_ERROR_STATE, "create another one, which can resume in the same folder",
            "the experiment has been run already");
    experiment->begun = true;
    warn_of_idle_settings(experiment);
    warn_of_difficult(experiment->context, options->train, options->test);
    TRY(make_results(experiment));
    if (options->folder) {
        TRY(open_folder(experiment));
    }
    for (size_t i = 0; i < experiment->team_count; i++) {
        TRY(run_team(experiment, i));
    }
    FAIL_IF(experiment->failures.count == experiment->team_count, experiment->context, L3A_ERROR_METHOD, NULL, "%s",
            experiment->failures.items[0]);
    if (options->folder) {
        TRY(experiment->layout->finish(experiment));
    }
    if (options->folder && !options->no_report && leads(experiment->context)) {
        TRY(write_report(experiment));
    }
done:
    return status;
}

const char *l3a_experiment_failure(const l3a_experiment *experiment, size_t index) {
    return experiment && index < experiment->failures.count ? experiment->failures.items[index] : NULL;
}

static const struct point *point_at(const l3a_experiment *experiment, size_t index) {
    return experiment && index < experiment->point_count ? &experiment->points[index] : NULL;
}

size_t l3a_experiment_points(const l3a_experiment *experiment) {
    return experiment ? experiment->point_count : 0;
}

const char *l3a_experiment_method(const l3a_experiment *experiment, size_t point) {
    const struct point *found = point_at(experiment, point);
    return found ? found->method->info.name : NULL;
}

const char *l3a_experiment_label(const l3a_experiment *experiment, size_t point) {
    const struct point *found = point_at(experiment, point);
    return found ? found->label : NULL;
}

const char *l3a_experiment_threshold(const l3a_experiment *experiment, size_t point) {
    const struct point *found = point_at(experiment, point);
    return found ? found->threshold : NULL;
}

const char *l3a_experiment_value(const l3a_experiment *experiment, size_t point, size_t axis) {
    const struct point *found = point_at(experiment, point);
    return found && axis < found->values.count ? found->values.items[axis] : NULL;
}

const l3a_results *l3a_experiment_results(const l3a_experiment *experiment, size_t point) {
    const struct point *found = point_at(experiment, point);
    return found ? found->results : NULL;
}
