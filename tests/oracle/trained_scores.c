/* What a method makes of a network that it trains, for test_trained_heads.py and its like to compare with NumPy's.
 *
 *   trained_scores DATA BACKBONE METHOD CLASSES-PER-PHASE [setting=value …] [tuning:decay=0.1 …] >numbers
 *
 * DATA has the splits train and test; 0 classes per phase: all at once. Pictures are not changed, and steps are those of SGD. What
 * comes out after each phase: the scores [test rows x classes seen] as float32; how many arrays there are, as uint64; and of each
 * the length of its name, the name, how many numbers it has, and these as float32. The arrays are the coefficients of the head, if
 * it has any, and the values of the network that have been trained.
 *
 * With save=PHASE, the state is saved after that phase and loaded into a new learner, which goes on. With stop=PHASE, that phase is
 * cancelled in its second epoch or later, and a new learner goes on. */
#include "data/features.h"
#include "method/head.h"
#include "train/training_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CLASSES = 64 };

struct job {
    l3a_context *context;
    const struct method *method;
    l3a_options options;
    l3a_dataset *sets[2];
    l3a_features *tables[2];
    float *zeros[2];
    struct training_source source;
    struct head *head;
    size_t classes, step, save, stop;
    bool stopping;
    char progress[64];
    char *const *arguments;
    int count;
};

static l3a_status open_table(struct job *job, const char *data, size_t i) {
    const char *names[MOST_CLASSES];
    l3a_status status = L3A_OK;
    TRY(l3a_dataset_open(job->context, data, i ? "test" : "train", NULL, &job->sets[i]));
    job->classes = l3a_dataset_class_count(job->sets[i]);
    FAIL_IF(job->classes > MOST_CLASSES, job->context, L3A_ERROR_OPTION, NULL, "too many classes");
    for (size_t k = 0; k < job->classes; k++) {
        names[k] = l3a_dataset_class(job->sets[i], k);
    }
    const size_t rows = l3a_dataset_rows(job->sets[i]);
    TRY(allocate_zeroed(job->context, rows, sizeof(float), &job->zeros[i]));
    TRY(l3a_features_wrap(job->context, job->zeros[i], l3a_dataset_labels(job->sets[i]), rows, 1, 1, names, job->classes,
                          &job->tables[i]));
done:
    return status;
}

/* decay, lambda, clip and momentum-free SGD at a constant rate, unless the arguments say otherwise. */
static void tune(struct job *job) {
    struct trained_tuning *tuning = &job->head->network->tuning;
    tuning->optimiser = OPTIMISER_SGD;
    tuning->augmentation = (struct augmentation){0};
    for (int i = 5; i < job->count; i++) {
        tuning->optimiser = strcmp(job->arguments[i], "tuning:adam=1") == 0 ? OPTIMISER_ADAM : tuning->optimiser;
    }
    for (int i = 5; i < job->count; i++) {
        const char *equals = strchr(job->arguments[i], '=');
        const struct {
            const char *name;
            double *number;
        } numbers[] = {{"tuning:decay", &tuning->decay}, {"tuning:clip", &tuning->clip}, {"tuning:later", &tuning->later}};
        for (size_t j = 0; j < sizeof numbers / sizeof *numbers; j++) {
            const size_t length = strlen(numbers[j].name);
            if (equals && (size_t)(equals - job->arguments[i]) == length &&
                strncmp(job->arguments[i], numbers[j].name, length) == 0) {
                *numbers[j].number = strtod(equals + 1, NULL);
            }
        }
    }
    job->head->network->net.settings.decay = tuning->decay;
    job->head->network->keep_every = 0;
}

static l3a_status create(struct job *job) {
    void *state = NULL;
    l3a_status status = L3A_OK;
    TRY(job->method->learner->create(job->context, job->method, &job->options, job->source.info.width, &state));
    job->head = state;
    tune(job);
done:
    return status;
}

static l3a_status open_job(struct job *job) {
    const l3a_backbone_options backbone = {.size = sizeof backbone};
    const l3a_picture_options picture = {.size = sizeof picture};
    l3a_status status = L3A_OK;
    options_default(&job->options);
    job->options.model.views = 1;
    job->options.method.train_backbone = L3A_TRAIN_BACKBONE_ALL;
    for (size_t i = 0; i < 2; i++) {
        TRY(open_table(job, job->arguments[1], i));
    }
    TRY(training_source_open(job->context, job->arguments[2], &backbone, &picture, job->tables[0], job->sets[0], job->tables[1],
                             job->sets[1], &job->source));
    job->method = method_find(job->arguments[3]);
    FAIL_IF(!job->method || !job->method->learner, job->context, L3A_ERROR_OPTION, NULL, "no such method");
    job->step = (size_t)strtoul(job->arguments[4], NULL, 10);
    job->step = job->step ? job->step : job->classes;
    for (int i = 5; i < job->count; i++) {
        char name[64];
        const char *equals = strchr(job->arguments[i], '=');
        FAIL_IF(!equals, job->context, L3A_ERROR_OPTION, NULL, "%s: no value", job->arguments[i]);
        snprintf(name, sizeof name, "%.*s", (int)(equals - job->arguments[i]), job->arguments[i]);
        if (strcmp(name, "save") == 0) {
            job->save = (size_t)strtoul(equals + 1, NULL, 10);
        } else if (strcmp(name, "stop") == 0) {
            job->stop = (size_t)strtoul(equals + 1, NULL, 10);
        } else if (strncmp(name, "tuning:", 7) != 0) {
            TRY(l3a_options_set(job->context, &job->options, name, equals + 1));
        }
    }
    TRY(create(job));
done:
    return status;
}

static void print_array(const char *name, const float *values, size_t count) {
    const uint64_t head[] = {strlen(name), count};
    fwrite(&head[0], sizeof head[0], 1, stdout);
    fputs(name, stdout);
    fwrite(&head[1], sizeof head[1], 1, stdout);
    fwrite(values, sizeof *values, count, stdout);
}

static void print_values(const struct head *head) {
    const bool coefficients = head_has_coefficients(head);
    const struct kept_value *kept;
    uint64_t count = coefficients;
    while (trained_network_kept(&head->network->net, (size_t)count - coefficients)) {
        count++;
    }
    fwrite(&count, sizeof count, 1, stdout);
    if (coefficients) {
        print_array("head", head->coefficients, head->classes * head->inputs);
    }
    for (size_t i = 0; (kept = trained_network_kept(&head->network->net, i)) != NULL; i++) {
        print_array(kept->name, kept->values, kept->count);
    }
}

/* Saves the state to a file, calls `between`, and goes on with what was read from the file. */
static l3a_status reload(struct job *job, size_t phases, size_t classes,
                         l3a_status (*between)(struct job *job, const struct lesson *lesson), const struct lesson *lesson) {
    const struct state_owner owner = {{0}, {0}};
    l3a_state *state = NULL;
    l3a_status status = L3A_OK;
    char path[64];
    size_t learned;
    snprintf(path, sizeof path, "/tmp/trained_scores-%ld.state", (long)getpid());
    TRY(state_create(job->context, &state));
    TRY(job->method->learner->save(job->head, state));
    TRY(state_write(state, path, &owner, phases));
    state_free(state);
    state = NULL;
    TRY(between ? between(job, lesson) : L3A_OK);
    job->method->learner->free(job->head);
    job->head = NULL;
    TRY(state_read(job->context, path, &owner, &learned, &state));
    state->classes = classes;
    TRY(create(job));
    TRY(job->method->learner->load(job->head, state));
done:
    remove(path);
    state_free(state);
    return status;
}

/* Cancels once there is progress in the second half of the phase's epochs. */
static int stop_late(const l3a_event *event, void *user) {
    const struct job *job = user;
    FILE *file =
        job->stopping && strcmp(event->stage, "train") == 0 && 2 * event->done > event->total ? fopen(job->progress, "rb") : NULL;
    if (file) {
        fclose(file);
    }
    return file != NULL;
}

static l3a_status learn_until_stopped(struct job *job, const struct lesson *lesson) {
    struct outcome outcome = {0};
    job->stopping = true;
    const l3a_status status = job->method->learner->learn(job->head, lesson, &outcome);
    job->stopping = false;
    return status == L3A_ERROR_CANCELLED ? L3A_OK : fail(job->context, L3A_ERROR_STATE, NULL, "the phase was not stopped");
}

/* The phase is stopped, and begun again by a new learner. */
static l3a_status learn_twice(struct job *job, const struct lesson *lesson, size_t t) {
    const struct state_owner owner = {{0}, {0}};
    const struct state_progress progress = {job->progress, &owner};
    struct lesson own = *lesson;
    struct outcome outcome = {0};
    l3a_status status = L3A_OK;
    own.progress = &progress;
    snprintf(job->progress, sizeof job->progress, "/tmp/trained_scores-%ld.epochs", (long)getpid());
    remove(job->progress);
    if (t) {
        TRY(reload(job, t, lesson->first, learn_until_stopped, &own));
    } else {
        TRY(learn_until_stopped(job, &own));
        job->method->learner->free(job->head);
        job->head = NULL;
        TRY(create(job));
    }
    TRY(job->method->learner->learn(job->head, &own, &outcome));
done:
    remove(job->progress);
    return status;
}

static l3a_status learn_and_score(struct job *job) {
    l3a_status status = L3A_OK;
    size_t columns[MOST_CLASSES], bounds[MOST_CLASSES + 1] = {0}, phases = 0, *rows = NULL;
    const size_t count = l3a_features_rows(job->tables[1]);
    float *scores = NULL;
    for (size_t k = 0; k < job->classes; k++) {
        columns[k] = k;
    }
    while (bounds[phases] < job->classes) {
        bounds[phases + 1] = bounds[phases] + job->step < job->classes ? bounds[phases] + job->step : job->classes;
        phases++;
    }
    TRY(allocate(job->context, count, job->classes * sizeof *scores, &scores));
    TRY(allocate(job->context, count, sizeof *rows, &rows));
    for (size_t i = 0; i < count; i++) {
        rows[i] = i;
    }
    for (size_t t = 0; t < phases; t++) {
        const struct lesson lesson = {.train = job->tables[0],
                                      .columns = columns,
                                      .bounds = bounds,
                                      .phases = phases,
                                      .first = bounds[t],
                                      .last = bounds[t + 1],
                                      .training = &job->source};
        struct outcome outcome = {0};
        TRY(job->stop == t + 1 ? learn_twice(job, &lesson, t) : job->method->learner->learn(job->head, &lesson, &outcome));
        if (job->save == t + 1) {
            TRY(reload(job, t + 1, lesson.last, NULL, NULL));
        }
        TRY(job->method->learner->score_pictures(job->head, &job->source, rows, count, scores));
        fwrite(scores, sizeof *scores, count * lesson.last, stdout);
        print_values(job->head);
    }
done:
    release(job->context, scores);
    release(job->context, rows);
    return status;
}

int main(int count, char **arguments) {
    struct job job = {.arguments = arguments, .count = count};
    l3a_context_options options = {.size = sizeof options};
    options.threads = 2;
    options.on_event = stop_late;
    options.event_user = &job;
    if (count < 5 || l3a_context_create(&options, &job.context) != L3A_OK) {
        return 2;
    }
    l3a_status status = open_job(&job);
    if (status == L3A_OK) {
        status = learn_and_score(&job);
    }
    if (status != L3A_OK) {
        fprintf(stderr, "%s\n  %s\n", l3a_error_text(job.context), l3a_error_hint(job.context));
    }
    if (job.head) {
        job.method->learner->free(job.head);
    }
    training_source_close(&job.source);
    for (size_t i = 0; i < 2; i++) {
        l3a_features_free(job.tables[i]);
        l3a_dataset_free(job.sets[i]);
        release(job.context, job.zeros[i]);
    }
    l3a_context_free(job.context);
    return status == L3A_OK ? 0 : 2;
}
