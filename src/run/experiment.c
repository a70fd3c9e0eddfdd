/* A whole experiment: every method and seed over every phase, resumable.
 *
 * Each phase writes the tables first and then the model, so the tables are never behind the model: a run that was killed resumes
 * after the model's last phase and drops any later rows from the tables. The rows of a table have a fixed order
 * (report/results.h), whether or not the run was resumed. After the model, timings.csv is written again, to include the time that
 * saving took.
 *
 * The first method and seed leave model.safetensors. Every other job keeps its model in partial.safetensors, which is not written
 * after the job's last phase and is removed at the end. Before the last phase a model is stored in full precision whatever the
 * setting `store`, so that resuming does not change the results. A learner that is not a model restarts its job from the
 * beginning. */
#include "base/file.h"
#include "base/number.h"
#include "base/text_index.h"
#include "data/features.h"
#include "learn/model.h"
#include "measure/metrics.h"
#include "method/method.h"
#include "report/results.h"
#include "run/experiment.h"
#include "run/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SCORE_ROWS = 1024, SAMPLES = 18 };

void l3a_run_options_default(l3a_run_options *options) {
    static const char *const method[] = {"l3a"};
    static const uint64_t seed[] = {2025};
    memset(options, 0, sizeof *options);
    options->protocol = "B0-C10";
    options->class_order = "lexicographic";
    options->methods = method;
    options->method_count = 1;
    options->seeds = seed;
    options->seed_count = 1;
    options->report = 1;
}

l3a_options run_settings(const l3a_run_options *options) {
    l3a_options settings;
    if (options->settings) {
        settings = *options->settings;
    } else {
        options_default(&settings);
    }
    return settings;
}

/* Checks that every class of one table is in the other. */
static l3a_status check_same_classes(const l3a_features *one, const l3a_features *other) {
    l3a_context *context = one->context;
    l3a_status status = L3A_OK;
    text_index index = {0};
    TRY(text_index_make(context, other->classes.items, other->classes.count, &index));
    for (size_t i = 0; i < one->classes.count; i++) {
        FAIL_IF(text_index_find(&index, one->classes.items[i]) == index.count, context, L3A_ERROR_CLASS,
                "use training and test data with the same classes", "%s has no class '%s', but %s does", other->path,
                one->classes.items[i], one->path);
    }
done:
    text_index_free(context, &index);
    return status;
}

static l3a_status check_tables(l3a_context *context, l3a_features *train, l3a_features *test) {
    l3a_status status = L3A_OK;
    FAIL_IF(!train || !test, context, L3A_ERROR_ARGUMENT, NULL, "a run needs a training and a test table");
    FAIL_IF(train->width != test->width, context, L3A_ERROR_MISMATCH, "extract both with the same backbone",
            "%s has features %zu wide, but %s has features %zu wide", train->path, train->width, test->path, test->width);
    FAIL_IF(!train->labels, context, L3A_ERROR_DATA,
            "give the training labels in a second .npy file, or use a feature file that contains labels", "%s: no labels",
            train->path);
    FAIL_IF(!test->labels, context, L3A_ERROR_DATA,
            "give the test labels in a second .npy file, or use a feature file that contains labels", "%s: no labels", test->path);
    TRY(check_same_classes(train, test));
    TRY(check_same_classes(test, train));
done:
    return status;
}

static l3a_status check_methods(l3a_context *context, const l3a_run_options *options) {
    l3a_status status = L3A_OK;
    const l3a_options given = run_settings(options);
    FAIL_IF(!options->method_count || !options->seed_count, context, L3A_ERROR_OPTION, NULL,
            "a run needs at least one method and one seed");
    for (size_t i = 0; i < options->method_count; i++) {
        const struct method *method;
        TRY(method_to_run(context, options->methods[i], &method));
        const l3a_options settings = method_options(method, &given);
        FAIL_IF(settings.model.gamma == 0 && method->learner->needs_gamma, context, L3A_ERROR_OPTION, "set gamma to a number",
                "method '%s' does not support gamma auto", options->methods[i]);
        if (method->learner->is_model && options_fit(context, &settings.model) != L3A_OK) {
            status = fail_in(context, L3A_ERROR_OPTION, "method '%s'", options->methods[i]);
            goto done;
        }
        for (size_t j = 0; j < i; j++) {
            FAIL_IF(strcmp(options->methods[i], options->methods[j]) == 0, context, L3A_ERROR_OPTION, "list each method once",
                    "method '%s' is listed twice", options->methods[i]);
        }
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

void warn_of_difficult(l3a_context *context, const l3a_features *train, const l3a_features *test) {
    const bool learned = l3a_features_record(train, difficult_record), measured = l3a_features_record(test, difficult_record);
    if (learned != measured) {
        report_warning(context,
                       "%s ignores difficult objects, but %s counts them as absent; the metrics %s. Extract both "
                       "with the same treatment of difficult objects",
                       learned ? train->path : test->path, learned ? test->path : train->path,
                       measured ? "ignore them" : "count them as absent");
    }
}

/* Warns of settings given by name that no method uses. */
static void warn_of_idle_settings(l3a_context *context, const l3a_run_options *options) {
    const l3a_options given = run_settings(options);
    for (size_t i = 0; l3a_option_at(i); i++) {
        const char *name = l3a_option_at(i)->name;
        bool idle = l3a_options_given(&given, name);
        char value[64];
        l3a_options_get(&given, name, value, sizeof value);
        for (size_t j = 0; idle && j < options->method_count; j++) {
            const struct method *method = method_find(options->methods[j]);
            const l3a_options settings = method_options(method, &given);
            idle = !method_looks_at(method, &settings, name, value);
        }
        if (idle) {
            report_warning(context, "%s %s has no effect: no method of this run uses it", name, value);
        }
    }
}

void run_free(struct run *run) {
    release(run->context, run->names);
    release(run->context, run->order);
    release(run->context, run->test_order);
    release(run->context, run->record_path);
    release(run->context, run->model_path);
    release(run->context, run->partial_path);
    l3a_results_free(run->results);
}

l3a_status run_create(l3a_context *context, const l3a_run_options *options, struct run *run) {
    l3a_status status = L3A_OK;
    size_t *edges = NULL;
    *run = (struct run){.context = context, .options = options, .settings = run_settings(options)};
    TRY(l3a_options_check(context, &run->settings));
    TRY(check_tables(context, options->train, options->test));
    TRY(check_methods(context, options));
    if (options->pictures) {
        char splits[256];
        TRY(l3a_dataset_splits(context, options->pictures, splits, sizeof splits));
    }
    run->classes = options->train->classes.count;
    if (!run->settings.model.total_classes) {
        run->settings.model.total_classes = run->classes;
    }
    TRY(allocate(context, run->classes + 1, sizeof *edges, &edges));
    TRY(l3a_protocol_parse(context, options->protocol, run->classes, edges, &run->phases));
    FAIL_IF(run->phases > PHASES, context, L3A_ERROR_OPTION, "use more classes per phase",
            "%zu phases are more than the limit of %d", run->phases, PHASES);
    memcpy(run->edges, edges, (run->phases + 1) * sizeof *edges);
    TRY(allocate(context, run->classes, sizeof *run->order, &run->order));
    TRY(allocate(context, run->classes, sizeof *run->names, &run->names));
    TRY(l3a_class_order(context, (const char *const *)options->train->classes.items, run->classes, options->class_order,
                        run->order));
    for (size_t i = 0; i < run->classes; i++) {
        run->names[i] = options->train->classes.items[run->order[i]];
    }
    TRY(allocate(context, run->classes, sizeof *run->test_order, &run->test_order));
    TRY(features_columns(options->test, run->names, run->classes, run->test_order));
done:
    release(context, edges);
    return status;
}

typedef l3a_status choose_rows(l3a_features *features, const size_t *columns, size_t column_count, size_t **rows, size_t *count);

/* Counts the rows of a table that `choose` selects for the classes [first, last) of the run's order. */
static l3a_status count_images(const struct run *run, l3a_features *features, choose_rows *choose, size_t first, size_t last,
                               uint64_t *images) {
    const size_t *order = features == run->options->test ? run->test_order : run->order;
    size_t *rows = NULL, count = 0;
    const l3a_status status = choose(features, order + first, last - first, &rows, &count);
    *images = count;
    release(run->context, rows);
    return status;
}

/* Counts the images of every phase. A phase in which no image has a label is an error: no method can learn from it. */
static l3a_status plan_images(const struct run *run, l3a_run_plan *plan) {
    const l3a_run_options *options = run->options;
    l3a_status status = L3A_OK;
    for (size_t t = 0; t < run->phases; t++) {
        const size_t first = run->edges[t], last = run->edges[t + 1];
        uint64_t labelled;
        TRY(count_images(run, options->train, features_members_of, first, last, &plan->train_images[t]));
        TRY(count_images(run, options->train, features_rows_with, first, last, &labelled));
        TRY(count_images(run, options->test, features_rows_with, 0, last, &plan->test_images[t]));
        FAIL_IF(!labelled, run->context, L3A_ERROR_DATA, "choose another protocol or class order, or add images",
                "phase %zu has no images: no training image has any of its classes ('%s'%s)", t + 1, run->names[first],
                last - first > 1 ? ", …" : "");
        plan->unlabelled_images[t] = plan->train_images[t] - labelled;
    }
done:
    return status;
}

static void raise(uint64_t *most, uint64_t value) {
    *most = value > *most ? value : *most;
}

/* The most memory that a model needs in any phase of the run, both to learn it and to be measured. */
static uint64_t plan_memory(const struct run *run, const struct method *method, const l3a_run_plan *plan,
                            const uint64_t all_rows[2]) {
    struct model_options settings = method_options(method, &run->settings).model;
    const bool by_phase = method->plan == BY_PHASE;
    const size_t width = run->options->train->width, phases = by_phase ? run->phases : 1;
    uint64_t most = 0;
    bool inverse = false;
    for (size_t t = 0; t < phases; t++) {
        const struct phase_size phase = {.old = by_phase ? run->edges[t] : 0,
                                         .all = by_phase ? run->edges[t + 1] : run->classes,
                                         .rows = by_phase ? plan->train_images[t] : all_rows[0],
                                         .parts = kept_phases(&settings, t),
                                         .inverse = inverse};
        raise(&most, phase_memory(run->context, &settings, width, &phase));
        raise(&most, score_memory(&settings, width, phase.all, phase.parts + 1, by_phase ? plan->test_images[t] : all_rows[1]));
        inverse = chooses_recursion(&settings, learned_width(&settings, width), phase.rows, inverse);
        settings.gamma = settings.gamma == 0 ? 1 : settings.gamma; /* `auto` is resolved in the first phase */
    }
    return most;
}

/* Memory and file size are the largest over the methods; the operations are those of the run's own settings. */
static l3a_status plan_models(const struct run *run, const uint64_t all_rows[2], l3a_run_plan *plan) {
    l3a_status status = L3A_OK;
    TRY(model_plan(run->context, &run->settings.model, run->options->train->width, run->classes, &plan->model));
    plan->model.memory = plan->model.file = 0;
    for (size_t i = 0; i < run->options->method_count; i++) {
        const struct method *method = method_find(run->options->methods[i]);
        const l3a_options settings = method_options(method, &run->settings);
        const bool is_model = method->learner->is_model;
        const uint64_t kept = is_model ? kept_phases(&settings.model, method->plan == BY_PHASE ? run->phases : 1) : 0;
        l3a_plan own = {.size = sizeof own};
        TRY(l3a_model_plan(run->context, &settings, run->options->train->width, run->classes, &own));
        raise(&plan->model.memory, is_model ? plan_memory(run, method, plan, all_rows) : own.memory);
        raise(&plan->model.file, own.file + kept * own.phase);
    }
    plan->model.memory += features_label_bytes(run->options->train) + features_label_bytes(run->options->test);
done:
    return status;
}

static l3a_status make_plan(const struct run *run, l3a_run_plan *plan) {
    const l3a_run_options *options = run->options;
    l3a_status status = L3A_OK;
    uint64_t all_rows[2] = {0, 0};
    memset(plan, 0, sizeof *plan);
    plan->classes = run->classes;
    plan->phases = run->phases;
    memcpy(plan->edges, run->edges, sizeof run->edges);
    TRY(plan_images(run, plan));
    TRY(count_images(run, options->train, features_members_of, 0, run->classes, &all_rows[0]));
    TRY(count_images(run, options->test, features_rows_with, 0, run->classes, &all_rows[1]));
    TRY(plan_models(run, all_rows, plan));
    double phased = 0;
    for (size_t t = 0; t < run->phases; t++) {
        phased += (double)plan->train_images[t] * plan->model.row_flops + (double)plan->test_images[t] * plan->model.score_flops +
                  plan->model.solve_flops;
    }
    const double at_once =
        (double)all_rows[0] * plan->model.row_flops + (double)all_rows[1] * plan->model.score_flops + plan->model.solve_flops;
    for (size_t i = 0; i < options->method_count; i++) {
        plan->flops += (double)options->seed_count * (method_find(options->methods[i])->plan == ALL_AT_ONCE ? at_once : phased);
    }
done:
    return status;
}

l3a_status l3a_run_prepare(l3a_context *context, const l3a_run_options *options, l3a_run_plan *plan) {
    l3a_status status = L3A_OK;
    struct run run = {0};
    TRY(run_create(context, options, &run));
    TRY(make_plan(&run, plan));
    TRY(check_memory(context, &run.settings.model, options->train->width, plan->model.memory, 0));
done:
    run_free(&run);
    return status;
}

static l3a_status open_folder(struct run *run) {
    l3a_context *context = run->context;
    const l3a_run_options *options = run->options;
    l3a_status status = L3A_OK;
    text_builder identity = {.context = context};
    bool exists = false;
    TRY(make_folder(context, options->folder));
    TRY(join_path(context, options->folder, "run.json", &run->record_path));
    TRY(join_path(context, options->folder, "model.safetensors", &run->model_path));
    TRY(join_path(context, options->folder, "partial.safetensors", &run->partial_path));
    TRY(record_identity(context, options, run->order, &identity));
    TRY(file_exists(context, run->record_path, &exists));
    FAIL_IF(exists && !options->resume, context, L3A_ERROR_EXISTS, "resume it, or choose another folder",
            "%s: this folder already holds a run", options->folder);
    if (exists) {
        TRY(record_compare(context, run->record_path, &identity));
        TRY(remove_leftovers(context, options->folder));
        TRY(results_read(run->results, options->folder));
        if (l3a_results_count(run->results) && !run->results->tables.recorded) {
            report_warning(context, "%s has no checksums.csv, so its tables are used without a check", options->folder);
        }
    } else {
        TRY(file_exists(context, run->model_path, &exists));
        FAIL_IF(exists, context, L3A_ERROR_EXISTS, "choose another folder", "%s: this run would overwrite the file",
                run->model_path);
        TRY(record_write(context, run->record_path, options, &identity));
    }
done:
    text_builder_free(&identity);
    return status;
}

struct job {
    const struct method *method;
    uint64_t seed;
    size_t phases;
    const char *path;       /* of its model; NULL: not stored */
    bool keep;              /* the model stays when the job is done */
    bool first, first_seed; /* the run's first job; its method's first seed */
};

/* Loads the model on disk if it belongs to this job. */
static l3a_status load_own_model(const struct run *run, const struct job *job, l3a_model **model) {
    l3a_status status = L3A_OK;
    bool exists = false;
    l3a_model *loaded = NULL;
    TRY(file_exists(run->context, job->path, &exists));
    if (exists) {
        TRY(l3a_model_load(run->context, job->path, &loaded));
        const char *method = l3a_model_record(loaded, "method");
        if (method && strcmp(method, job->method->info.name) == 0 && loaded->options.seed == job->seed) {
            *model = loaded;
            loaded = NULL;
        }
    }
done:
    l3a_model_free(loaded);
    return status;
}

/* Finds how far the job got: loads its model, and cuts the tables to the phases that the model has learned. */
static l3a_status resume_job(const struct run *run, const struct job *job, void **state, size_t *done_phases) {
    l3a_status status = L3A_OK;
    const char *name = job->method->info.name;
    const size_t rows = results_rows_of(run->results, name, job->seed);
    l3a_model *model = NULL;
    *done_phases = 0;
    if (!job->path || !rows) {
        return L3A_OK;
    }
    if (job->method->learner->is_model) {
        TRY(load_own_model(run, job, &model));
    }
    const size_t learned = model ? l3a_model_phase_count(model) : 0;
    if (!model && !job->keep && rows == job->phases) {
        *done_phases = rows;
        goto done;
    }
    FAIL_IF(learned > rows, run->context, L3A_ERROR_MISMATCH, "start the run again in a new folder",
            "%s has %zu phases, but metrics.csv has only %zu", job->path, learned, rows);
    results_cut(run->results, name, job->seed, learned);
    *done_phases = learned;
    *state = model;
    model = NULL;
done:
    l3a_model_free(model);
    return status;
}

static l3a_status new_state(const struct run *run, const struct job *job, void **state) {
    l3a_status status = L3A_OK;
    const struct learner *learner = job->method->learner;
    l3a_options settings = method_options(job->method, &run->settings);
    settings.model.seed = job->seed;
    TRY(learner->create(run->context, job->method, &settings, run->options->train->width, state));
    if (learner->is_model) {
        TRY(l3a_model_set_record(*state, "protocol", run->options->protocol));
    }
done:
    return status;
}

/* learned: the number of images with a weight above 0. */
static l3a_status announce(const struct run *run, const l3a_result *row, size_t phases, uint64_t learned) {
    char text[320], note[64] = "";
    if (learned < row->train_images) {
        snprintf(note, sizeof note, " (%" PRIu64 " without a label, weight 0)", row->train_images - learned);
    }
    snprintf(text, sizeof text,
             "%s, seed %" PRIu64 ", phase %zu of %zu: %" PRIu64 " images%s, %" PRIu64
             " pseudo-labels, mAP %.2f, CF1 %.2f, OF1 %.2f, %.1f s",
             row->method, row->seed, row->phase, phases, row->train_images, note, row->pseudo_labels, row->metrics.mean_ap,
             row->metrics.class_f1, row->metrics.overall_f1, row->seconds);
    return report_result(run->context, text);
}

/* samples.csv: evenly spaced test images, with the classes that are true or predicted. */
static l3a_status write_samples(const struct run *run, const size_t *rows, size_t count, size_t seen, const float *scores,
                                const int8_t *labels, const double *edges) {
    l3a_status status = L3A_OK;
    text_builder text = {.context = run->context};
    text_builder_print(&text, "id,class,true,predicted,score\n");
    const size_t samples = count < SAMPLES ? count : SAMPLES;
    for (size_t i = 0; i < samples; i++) {
        const size_t at = (2 * i + 1) * count / (2 * samples);
        for (size_t k = 0; k < seen; k++) {
            const double score = (double)scores[at * seen + k];
            char number[NUMBER_TEXT];
            if (labels[at * seen + k] == 1 || score > edges[k]) {
                print_field(&text, l3a_features_id(run->options->test, rows[at]));
                text_builder_print(&text, ",");
                print_field(&text, run->names[k]);
                text_builder_print(&text, ",%d,%d,%s\n", labels[at * seen + k], score > edges[k],
                                   number_format(round(1e4 * score) / 1e4, number));
            }
        }
    }
    const struct table_text table = {"samples.csv", &text};
    TRY(tables_write(run->context, &run->results->tables, run->options->folder, &table, 1));
done:
    text_builder_free(&text);
    return status;
}

l3a_status measure_parts(const struct run *run, const float *scores, const int8_t *labels, size_t rows, l3a_result *row) {
    l3a_status status = L3A_OK;
    const bool at_once = row->first == 0 && row->last == run->classes;
    const size_t first = at_once ? run->edges[run->phases - 1] : row->first;
    TRY(measure_part(run->context, scores, labels, rows, row->last, 0, run->edges[1], &row->base_map));
    TRY(measure_part(run->context, scores, labels, rows, row->last, first, row->last, &row->new_map));
done:
    return status;
}

/* Computes the metrics on the test rows that have at least one of the first `seen` classes, and, after the last phase of a method's
 * first seed, the curves. */
static l3a_status evaluate(const struct run *run, const struct job *job, void *state, size_t seen, bool last, l3a_result *row,
                           struct class_details *details) {
    l3a_context *context = run->context;
    l3a_status status = L3A_OK;
    l3a_features *test = run->options->test;
    size_t *rows = NULL, count = 0;
    float *values = NULL, *scores = NULL;
    int8_t *labels = NULL;
    double *edges = NULL;
    TRY(features_rows_with(test, run->test_order, seen, &rows, &count));
    FAIL_IF(!count, context, L3A_ERROR_DATA, "use test images that show these classes",
            "%s: no image has any of the classes learned so far", test->path);
    TRY(allocate(context, SCORE_ROWS, test->width * sizeof *values, &values));
    TRY(allocate(context, count, seen * sizeof *scores, &scores));
    TRY(allocate(context, count, seen, &labels));
    TRY(allocate(context, seen, sizeof *edges, &edges));
    features_gather_labels(test, rows, count, run->test_order, seen, labels);
    for (size_t first = 0; first < count; first += SCORE_ROWS) {
        const size_t n = count - first < SCORE_ROWS ? count - first : SCORE_ROWS;
        TRY(report_progress(context, "evaluate", first, count));
        TRY(l3a_features_read(test, rows + first, 0, n, values));
        TRY(job->method->learner->score(state, values, n, scores + first * seen));
    }
    TRY(report_progress(context, "evaluate", count, count));
    job->method->learner->thresholds(state, edges);
    TRY(measure(context, scores, labels, count, seen, edges, &row->metrics, details->average_precision));
    TRY(measure_parts(run, scores, labels, count, row));
    if (last && job->first_seed) {
        TRY(allocate(context, seen, CURVE_POINTS * sizeof *details->curves, &details->curves));
        TRY(measure_curves(context, scores, labels, count, seen, details->curves));
    }
    if (last && job->first && job->path && l3a_features_id(test, 0)) {
        TRY(write_samples(run, rows, count, seen, scores, labels, edges));
    }
done:
    release(context, rows);
    release(context, values);
    release(context, scores);
    release(context, labels);
    release(context, edges);
    return status;
}

static l3a_status save_state(const struct run *run, const struct job *job, l3a_model *model, size_t t) {
    const bool last = t + 1 == job->phases;
    if (!job->path || (last && !job->keep)) {
        return L3A_OK;
    }
    model->options.store = last ? run->settings.model.store : L3A_STORE_FLOAT64;
    return l3a_model_save(model, job->path);
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

static l3a_status run_phase(const struct run *run, const struct job *job, void *state, size_t t) {
    l3a_context *context = run->context;
    l3a_status status = L3A_OK;
    struct class_details details = {0};
    const bool at_once = job->method->plan != BY_PHASE;
    const struct lesson lesson = {.train = run->options->train,
                                  .names = run->names,
                                  .columns = run->order,
                                  .bounds = run->edges,
                                  .phases = run->phases,
                                  .first = at_once ? 0 : run->edges[t],
                                  .last = at_once ? run->classes : run->edges[t + 1]};
    l3a_result row = {
        .method = job->method->info.name, .seed = job->seed, .phase = t + 1, .first = lesson.first, .last = lesson.last};
    struct outcome outcome = {0};
    TRY(allocate(context, run->classes, sizeof *details.average_precision, &details.average_precision));
    TRY(allocate_zeroed(context, run->classes, sizeof *details.tallies, &details.tallies));
    TRY(lesson_images(&lesson, job->method->plan, &row.train_images));
    TRY(tally_images(&lesson, details.tallies));
    outcome.classes = details.tallies;
    context->stages.count = 0;
    const double start = clock_seconds();
    TRY(job->method->learner->learn(state, &lesson, &outcome));
    const double learned = clock_seconds();
    report_learning(context, learned - start);
    TRY(evaluate(run, job, state, lesson.last, t + 1 == job->phases, &row, &details));
    const double evaluated = clock_seconds();
    report_timing(context, "evaluate", evaluated - learned);
    row.pseudo_labels = outcome.pseudo_labels;
    row.test_images = row.metrics.images;
    row.seconds = evaluated - start;
    TRY(results_add(run->results, &row, &details));
    if (job->path) {
        TRY(results_keep_stages(run->results, &row));
        TRY(results_write(run->results, run->options->folder));
    }
    if (job->method->learner->is_model) {
        TRY(save_state(run, job, state, t));
    }
    if (job->path) {
        report_timing(context, "save", clock_seconds() - evaluated);
        TRY(results_keep_stages(run->results, &row));
        TRY(results_write_stages(run->results, run->options->folder));
    }
    TRY(announce(run, &row, job->phases, outcome.images));
done:
    details_free(context, &details);
    return status;
}

static l3a_status run_job(const struct run *run, const struct job *job) {
    l3a_status status = L3A_OK;
    void *state = NULL;
    size_t t = 0;
    TRY(resume_job(run, job, &state, &t));
    if (t < job->phases && !state) {
        TRY(new_state(run, job, &state));
    }
    for (; t < job->phases; t++) {
        TRY(run_phase(run, job, state, t));
    }
    /* If the job was already done, the file belongs to a later job. */
    if (job->path && !job->keep && state && job->method->learner->is_model) {
        TRY(remove_file(run->context, job->path));
    }
done:
    if (state) {
        job->method->learner->free(state);
    }
    return status;
}

static l3a_status write_report(const struct run *run) {
    l3a_status status = L3A_OK;
    char *path = NULL;
    const l3a_report_options options = {.size = sizeof options, .pictures = run->options->pictures};
    TRY(join_path(run->context, run->options->folder, "report.html", &path));
    TRY(l3a_report_write(run->context, &run->options->folder, 1, &options, path));
done:
    release(run->context, path);
    return status;
}

l3a_status l3a_run(l3a_context *context, const l3a_run_options *options, l3a_results **results) {
    l3a_status status = L3A_OK;
    struct run run = {0};
    TRY(run_create(context, options, &run));
    warn_of_idle_settings(context, options);
    warn_of_difficult(context, options->train, options->test);
    TRY(results_create(context, &run.results));
    TRY(results_expect(run.results, options->methods, options->method_count, options->seeds, options->seed_count));
    for (size_t i = 0; i < run.classes; i++) {
        TRY(text_list_add(context, &run.results->classes, run.names[i], strlen(run.names[i])));
    }
    if (options->folder) {
        TRY(open_folder(&run));
    }
    for (size_t i = 0; i < options->method_count; i++) {
        for (size_t j = 0; j < options->seed_count; j++) {
            const struct method *method = method_find(options->methods[i]);
            const bool first = i == 0 && j == 0;
            const struct job job = {.method = method,
                                    .seed = options->seeds[j],
                                    .phases = method->plan == BY_PHASE ? run.phases : 1,
                                    .path = !options->folder ? NULL
                                            : first          ? run.model_path
                                                             : run.partial_path,
                                    .keep = first && method->learner->is_model,
                                    .first = first,
                                    .first_seed = j == 0};
            TRY(run_job(&run, &job));
        }
    }
    if (options->folder) {
        TRY(results_write_stages(run.results, options->folder));
    }
    if (options->folder && options->report) {
        TRY(write_report(&run));
    }
    *results = run.results;
    run.results = NULL;
done:
    run_free(&run);
    return status;
}

l3a_status l3a_results_load(l3a_context *context, const char *folder, l3a_results **results) {
    l3a_status status = L3A_OK;
    l3a_results *made = NULL;
    char *path = NULL;
    NEED(context, context, folder, results);
    TRY(results_create(context, &made));
    TRY(join_path(context, folder, "run.json", &path));
    TRY(record_classes(context, path, &made->classes));
    TRY(results_read(made, folder));
    *results = made;
    made = NULL;
done:
    l3a_results_free(made);
    release(context, path);
    return status;
}
