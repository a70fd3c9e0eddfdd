/* The folder of a run, which is up to date when a job is done, and before that whenever the run saves (saving.h).
 *
 * Saving writes the tables first and then what the job has learned, so the tables are never behind it: a run that was killed
 * resumes after the last phase of its model or state and drops any later rows from the tables. It does not change what is learned
 * after it, so the results do not depend on when it happens. The rows of a table have a fixed order (measure/results.h), whether or
 * not the run was resumed. The time that saving took is in timings.csv when that is written the next time.
 *
 * The first job, of the first method, class order and seed, leaves model.safetensors if it is a model. Every other job keeps its
 * model or state in a file of its own, partial-N.safetensors, where N is its number. The file is not written after the job's last
 * phase, and is removed then. Beside it, a learner that trains the backbone keeps what the epochs of a phase have changed, in
 * partial-N.epochs.safetensors. Before the last phase a model is stored in full precision whatever the setting `store`, so that
 * resuming does not change the results. A learner that can neither be saved nor is a model starts its job again. */
#include "base/file.h"
#include "common/number.h"
#include "data/features.h"
#include "format/csv.h"
#include "learn/file_model.h"
#include "measure/metrics.h"
#include "method/state.h"
#include "run/experiment.h"
#include "train/training_source.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 18 };

const char order_record[] = "class-order";

/* Whether the job's file stays when it is done. */
static bool leaves_model(const struct job *job) {
    return job->number == 1 && job->method->learner->is_model;
}

/* The file of what the job has learned. */
static l3a_status path_of(const l3a_experiment *run, const struct job *job, char **path) {
    char name[64];
    snprintf(name, sizeof name, "partial-%zu.safetensors", job->number);
    return join_path(run->context, run->options.folder, leaves_model(job) ? run_layout.obstacle : name, path);
}

/* The file of what its unfinished phase has learned. */
static l3a_status progress_path(const l3a_experiment *run, const struct job *job, char **path) {
    char name[64];
    snprintf(name, sizeof name, "partial-%zu.epochs.safetensors", job->number);
    return join_path(run->context, run->options.folder, name, path);
}

static bool job_trains(const l3a_experiment *run, const struct job *job) {
    return method_trains(job->method, &team_point(run, job->team, 0)->settings);
}

static l3a_status open_run(l3a_experiment *run, bool resumed) {
    l3a_context *context = run->context;
    const char *folder = run->options.folder;
    l3a_results *results = run->points[0].results;
    l3a_status status = L3A_OK;
    if (resumed) {
        TRY(results_read(results, folder));
    }
    if (l3a_results_count(results) && !results->tables.recorded) {
        report_warning(context, "%s has no checksums.csv, so its tables are used without a check", folder);
    }
done:
    return status;
}

/* Loads the model on disk if it belongs to this job. */
static l3a_status load_model(const l3a_experiment *run, struct job *job, const char *path, size_t *learned) {
    l3a_status status = L3A_OK;
    l3a_model *loaded = NULL;
    TRY(l3a_model_load(run->context, path, &loaded));
    const char *method = l3a_model_record(loaded, "method"), *order = l3a_model_record(loaded, order_record);
    const bool ordered = run->order_count == 1 || (order && strcmp(order, job->order->name) == 0);
    if (method && strcmp(method, job->method->info.name) == 0 && loaded->options.seed == job->seed && ordered) {
        *learned = l3a_model_phase_count(loaded);
        job->state = loaded;
        loaded = NULL;
    }
done:
    l3a_model_free(loaded);
    return status;
}

/* The settings that the job's method uses, as "dim=64 gamma=10 …". States of before 0.17 do not speak of training the backbone. */
static void print_settings(const l3a_experiment *run, const struct job *job, text_builder *text) {
    const l3a_options *settings = &team_point(run, job->team, 0)->settings;
    for (size_t i = 0; l3a_option_at(i); i++) {
        const char *name = l3a_option_at(i)->name;
        char value[64];
        l3a_options_get(settings, name, value, sizeof value);
        const bool idle = strcmp(name, "train-backbone") == 0 && !method_trains(job->method, settings);
        if (strcmp(name, "seed") != 0 && !idle && method_looks_at(job->method, settings, name, value)) {
            text_builder_print(text, "%s%s=%s", text->length ? " " : "", name, value);
        }
    }
}

/* Whose state the job's is: run.json has the same, but its file could come from elsewhere. */
static l3a_status describe_owner(const l3a_experiment *run, const struct job *job, struct state_owner *owner) {
    l3a_context *context = run->context;
    l3a_status status = L3A_OK;
    text_builder classes = {.context = context}, settings = {.context = context};
    char seed[32];
    snprintf(seed, sizeof seed, "%" PRIu64, job->seed);
    for (size_t i = 0; i < run->classes; i++) {
        text_builder_print(&classes, "%s%s", i ? "\n" : "", job->order->names[i]);
    }
    TRY(classes.status);
    print_settings(run, job, &settings);
    TRY(settings.status);
    TRY(state_owner_set(context, owner, "method", job->method->info.name));
    TRY(state_owner_set(context, owner, "settings", settings.length ? settings.text : ""));
    if (job->method->own && job->method->own->parameters) {
        TRY(state_owner_set(context, owner, "parameters", job->method->own->parameters));
    }
    if (job_trains(run, job)) {
        TRY(state_owner_set(context, owner, "backbone", run->training->info.sha256));
    }
    TRY(state_owner_set(context, owner, "seed", seed));
    TRY(state_owner_set(context, owner, "protocol", run->options.protocol));
    TRY(state_owner_set(context, owner, "classes", classes.text));
done:
    text_builder_free(&classes);
    text_builder_free(&settings);
    return status;
}

static l3a_status progress(const l3a_experiment *run, const struct job *job, char **path, struct state_owner *owner) {
    l3a_status status = L3A_OK;
    if (run->options.folder) {
        TRY(progress_path(run, job, path));
        TRY(describe_owner(run, job, owner));
    }
done:
    return status;
}

/* The phase is saved, so what its epochs have left is not needed any more. */
static l3a_status remove_progress(const l3a_experiment *run, const struct job *job) {
    l3a_status status = L3A_OK;
    char *path = NULL;
    TRY(progress_path(run, job, &path));
    TRY(remove_file(run->context, path));
done:
    release(run->context, path);
    return status;
}

static l3a_status load_state(const l3a_experiment *run, struct job *job, const char *path, size_t *learned) {
    l3a_status status = L3A_OK;
    struct state_owner owner = {{0}, {0}};
    l3a_state *state = NULL;
    TRY(describe_owner(run, job, &owner));
    TRY(state_read(run->context, path, &owner, learned, &state));
    if (!*learned || *learned >= job->phases) {
        status = state_fail(state, "the number of its phases is not that of an unfinished job");
        goto done;
    }
    state->classes = run->bounds[*learned];
    TRY(job_create_state(run, job));
    TRY(job->method->learner->load(job->state, state));
done:
    state_free(state);
    state_owner_free(run->context, &owner);
    return status;
}

/* Loads what the job has learned, if its file is there. */
static l3a_status load_learned(const l3a_experiment *run, struct job *job, const char *path, size_t *learned) {
    const struct learner *learner = job->method->learner;
    l3a_status status = L3A_OK;
    bool exists = false;
    *learned = 0;
    TRY(file_exists(run->context, path, &exists));
    if (exists && (learner->is_model || learner->load)) {
        TRY(learner->is_model ? load_model(run, job, path, learned) : load_state(run, job, path, learned));
    }
done:
    return status;
}

/* Loads what the job has learned, and cuts the tables to these phases. */
static l3a_status resume(const l3a_experiment *run, struct job *job, size_t *done_phases) {
    l3a_status status = L3A_OK;
    const struct trial trial = trial_of(run, job, job->method);
    l3a_results *results = run->points[0].results;
    const size_t rows = results_rows_of(results, &trial);
    char *path = NULL;
    size_t learned;
    if (!run->options.folder || !rows) {
        return L3A_OK;
    }
    TRY(follow_lead(run->context, L3A_OK, NULL)); /* what came before is on the disk */
    TRY(path_of(run, job, &path));
    if (rows == job->phases && !leaves_model(job)) { /* its file may be left */
        *done_phases = rows;
        TRY(remove_file(run->context, path));
        goto done;
    }
    TRY(load_learned(run, job, path, &learned));
    FAIL_IF(learned > rows, run->context, L3A_ERROR_MISMATCH, "start the run again in a new folder",
            "%s has %zu phases, but metrics.csv has only %zu", path, learned, rows);
    results_cut(results, &trial, learned);
    *done_phases = learned;
done:
    release(run->context, path);
    return status;
}

/* The crops that speak for the classes of an image. */
struct speakers {
    float *rows, *same, *scores; /* of the image, V times one of them, and the scores of that */
    float *highest;              /* of a crop, for each class … */
    size_t *views;               /* … and whose it is */
};

static l3a_status speakers_begin(const struct evaluation *evaluation, struct speakers *speakers) {
    const l3a_features *features = evaluation->features;
    l3a_context *context = features->context;
    l3a_status status = L3A_OK;
    const size_t classes = evaluation->classes;
    TRY(allocate(context, features_row(features), sizeof(float), &speakers->rows));
    TRY(allocate(context, features_row(features), sizeof(float), &speakers->same));
    TRY(allocate(context, classes, sizeof(float), &speakers->scores));
    TRY(allocate(context, classes, sizeof(float), &speakers->highest));
    TRY(allocate(context, classes, sizeof *speakers->views, &speakers->views));
done:
    return status;
}

static void speakers_free(l3a_context *context, struct speakers *speakers) {
    release(context, speakers->rows);
    release(context, speakers->same);
    release(context, speakers->scores);
    release(context, speakers->highest);
    release(context, speakers->views);
}

/* Finds the crop with the highest score for each class. A learner scores whole images, (s_0 + λ max s_v)/(1 + λ); but an image
 * whose rows are all the same crop has the score of this crop. */
static l3a_status find_speakers(const struct job *job, const struct evaluation *evaluation, size_t row, struct speakers *speakers) {
    l3a_features *features = evaluation->features;
    l3a_status status = L3A_OK;
    const size_t width = features->width, rows = view_rows(features->views);
    TRY(l3a_features_read(features, &row, 0, 1, speakers->rows));
    for (size_t v = 1; v < rows; v++) {
        for (size_t i = 0; i < rows; i++) {
            memcpy(speakers->same + i * width, speakers->rows + v * width, width * sizeof(float));
        }
        TRY(job_score(job, speakers->same, 1, &speakers->scores));
        for (size_t k = 0; k < evaluation->classes; k++) {
            if (v == 1 || speakers->scores[k] > speakers->highest[k]) {
                speakers->highest[k] = speakers->scores[k];
                speakers->views[k] = v;
            }
        }
    }
done:
    return status;
}

/* The lines of an image with that name: the classes that are true or predicted; views: the crop with the highest score for each
 * class, NULL without views. */
static void print_sample(const struct job *job, const struct evaluation *evaluation, size_t at, const char *id,
                         const double *thresholds, const size_t *views, text_builder *text) {
    const size_t classes = evaluation->classes;
    for (size_t k = 0; k < classes; k++) {
        const double score = (double)evaluation_scores(evaluation, 0)[at * classes + k];
        const int8_t label = evaluation->labels[at * classes + k];
        char number[NUMBER_TEXT];
        if (label == 1 || score > thresholds[k]) {
            csv_print_field(text, id);
            text_builder_print(text, ",");
            csv_print_field(text, job->order->names[k]);
            text_builder_print(text, ",%d,%d,%s", label, score > thresholds[k], number_format(round(1e4 * score) / 1e4, number));
            if (views) {
                text_builder_print(text, ",%zu", views[k]);
            }
            text_builder_print(text, "\n");
        }
    }
}

/* samples.csv: evenly spaced test images. */
static l3a_status write_samples(const l3a_experiment *run, const struct job *job, const struct evaluation *evaluation,
                                const double *thresholds) {
    l3a_context *context = run->context;
    l3a_status status = L3A_OK;
    text_builder text = {.context = context};
    struct speakers speakers = {0};
    const size_t count = evaluation->count, samples = count < SAMPLES ? count : SAMPLES;
    const bool cropped = evaluation->features->views > 1;
    text_builder_print(&text, "id,class,true,predicted,score%s\n", cropped ? ",view" : "");
    if (cropped) {
        TRY(speakers_begin(evaluation, &speakers));
    }
    for (size_t i = 0; i < samples; i++) {
        const size_t at = (2 * i + 1) * count / (2 * samples);
        const char *id;
        size_t row;
        TRY(evaluation_row(evaluation, at, &row));
        TRY(features_id(evaluation->features, row, &id));
        if (cropped) {
            TRY(find_speakers(job, evaluation, row, &speakers));
        }
        print_sample(job, evaluation, at, id, thresholds, speakers.views, &text);
    }
    const struct table_text table = {"samples.csv", &text};
    TRY(tables_write(context, &run->points[0].results->tables, run->options.folder, &table, 1));
done:
    speakers_free(context, &speakers);
    text_builder_free(&text);
    return status;
}

/* The curves of each method's first order and seed, and samples of the first job. */
static l3a_status look(const l3a_experiment *run, const struct job *job, const struct evaluation *evaluation,
                       const double *thresholds, float **curves) {
    l3a_context *context = run->context;
    l3a_status status = L3A_OK;
    if (job->first_of_team) {
        TRY(allocate(context, evaluation->classes, CURVE_POINTS * sizeof **curves, curves));
        TRY(evaluation_curves(evaluation, *curves));
    }
    if (job->number == 1 && run->options.folder && l3a_features_id(evaluation->features, 0)) {
        TRY(follow_lead(context, leads(context) ? write_samples(run, job, evaluation, thresholds) : L3A_OK, NULL));
    }
done:
    return status;
}

/* Arrays of the learner are only borrowed: they are written before anything else of it is called. */
static l3a_status save_state(const l3a_experiment *run, const struct job *job, const char *path, size_t learned) {
    l3a_status status = L3A_OK;
    struct state_owner owner = {{0}, {0}};
    l3a_state *state = NULL;
    TRY(describe_owner(run, job, &owner));
    TRY(state_create(run->context, &state));
    TRY(job->method->learner->save(job->state, state));
    TRY(state_write(state, path, &owner, learned));
done:
    state_free(state);
    state_owner_free(run->context, &owner);
    return status;
}

/* Whether somebody needs what the job has learned up to phase t. */
static bool needs_file(const struct job *job, size_t t) {
    const struct learner *learner = job->method->learner;
    return (t + 1 < job->phases || leaves_model(job)) && (learner->is_model || learner->save);
}

static l3a_status save_learned(const l3a_experiment *run, const struct job *job, size_t t) {
    l3a_status status = L3A_OK;
    char *path = NULL;
    TRY(path_of(run, job, &path));
    if (job->method->learner->is_model) {
        l3a_model *model = job->state;
        model->options.store = t + 1 == job->phases ? run->settings.model.store : L3A_STORE_FLOAT64;
        TRY(l3a_model_save(model, path));
    } else {
        TRY(save_state(run, job, path, t + 1));
    }
done:
    release(run->context, path);
    return status;
}

/* The size of the job's file; 0 if nobody knows before it is there. */
static uint64_t learned_bytes(const struct job *job) {
    return job->method->learner->is_model ? model_file_bytes(job->state) : 0;
}

static l3a_status save_phase(const l3a_experiment *run, const struct job *job, size_t t, const l3a_result *row) {
    l3a_results *results = run->points[0].results;
    l3a_status status = L3A_OK;
    const double start = clock_seconds();
    TRY(results_write(results, run->options.folder));
    saving_begin(job->saving);
    if (needs_file(job, t)) {
        TRY(save_learned(run, job, t));
        saving_done(job->saving, clock_seconds() - start, learned_bytes(job));
    }
    report_timing(run->context, "save", clock_seconds() - start);
    TRY(results_keep_stages(results, row, trial_of(run, job, job->method).order));
done:
    return status;
}

/* Every process does what process 0 decides, by its clock. What a method of the program's own may cost to learn again, or do
 * meanwhile, nobody knows. */
static l3a_status keep_phase(const l3a_experiment *run, const struct job *job, size_t t, const l3a_result *row) {
    l3a_status status = L3A_OK;
    if (!run->options.folder) {
        return L3A_OK;
    }
    TRY(results_keep_stages(run->points[0].results, row, trial_of(run, job, job->method).order));
    saving_add(job->saving, row->seconds);
    const bool trains = job_trains(run, job);
    uint64_t due = t + 1 == job->phases || job->method->own || trains || saving_is_due(job->saving, learned_bytes(job));
    TRY(follow_lead(run->context, L3A_OK, &due));
    if (due) {
        TRY(save_phase(run, job, t, row));
    }
    if (trains) {
        TRY(remove_progress(run, job));
    }
done:
    return status;
}

static l3a_status leave_phase(const l3a_experiment *run, const struct job *job, size_t t, const l3a_result *row) {
    return run->options.folder && job->saving->unsaved > 0 ? save_phase(run, job, t, row) : L3A_OK;
}

static l3a_status remove_partial(l3a_experiment *run, const struct job *job) {
    l3a_status status = L3A_OK;
    char *path = NULL;
    if (!run->options.folder || leaves_model(job)) {
        return L3A_OK;
    }
    TRY(path_of(run, job, &path));
    TRY(remove_file(run->context, path));
done:
    release(run->context, path);
    return status;
}

static l3a_status finish(l3a_experiment *run) {
    return results_write_stages(run->points[0].results, run->options.folder);
}

const struct layout run_layout = {.kind = "run",
                                  .record = "run.json",
                                  .obstacle = "model.safetensors",
                                  .complaint = "%s/model.safetensors: this run would overwrite the file",
                                  .consumers = "no method of this run",
                                  .detailed = true,
                                  .open = open_run,
                                  .resume = resume,
                                  .look = look,
                                  .progress = progress,
                                  .keep_phase = keep_phase,
                                  .leave_phase = leave_phase,
                                  .keep_job = remove_partial,
                                  .finish = finish};
