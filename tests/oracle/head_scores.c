/* The scores that a trained head gives, after every phase, for test_heads.py to compare with NumPy's.
 *
 *   head_scores TRAIN TEST METHOD CLASSES-PER-PHASE [setting=value …] >scores
 *
 * TRAIN and TEST are feature files with their classes in the same order; 0 classes per phase: all at once. What comes out are
 * float32 numbers, [test rows x classes seen] for each phase. */
#include "data/features.h"
#include "method/method.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CLASSES = 64 };

struct job {
    l3a_context *context;
    const struct method *method;
    l3a_options options;
    l3a_features *train, *test;
    void *state;
    size_t classes, step;
};

static l3a_status open_job(struct job *job, char **arguments, int count) {
    l3a_status status = L3A_OK;
    options_default(&job->options);
    TRY(l3a_features_open(job->context, arguments[1], &job->train));
    TRY(l3a_features_open(job->context, arguments[2], &job->test));
    job->options.model.views = l3a_features_views(job->train);
    job->method = method_find(arguments[3]);
    job->classes = l3a_features_class_count(job->train);
    job->step = (size_t)strtoul(arguments[4], NULL, 10);
    job->step = job->step ? job->step : job->classes;
    FAIL_IF(!job->method || job->classes > MOST_CLASSES, job->context, L3A_ERROR_OPTION, NULL, "no such method, or many classes");
    for (int i = 5; i < count; i++) {
        char *value = strchr(arguments[i], '=');
        FAIL_IF(!value, job->context, L3A_ERROR_OPTION, NULL, "%s: no value", arguments[i]);
        *value++ = 0;
        TRY(l3a_options_set(job->context, &job->options, arguments[i], value));
    }
    TRY(job->method->learner->create(job->context, job->method, &job->options, job->train->width, &job->state));
done:
    return status;
}

static l3a_status learn_and_score(const struct job *job) {
    l3a_status status = L3A_OK;
    size_t columns[MOST_CLASSES], bounds[MOST_CLASSES + 1] = {0}, phases = 0;
    const size_t rows = l3a_features_rows(job->test);
    float *features = NULL, *scores = NULL;
    for (size_t k = 0; k < job->classes; k++) {
        columns[k] = k;
    }
    while (bounds[phases] < job->classes) {
        bounds[phases + 1] = bounds[phases] + job->step < job->classes ? bounds[phases] + job->step : job->classes;
        phases++;
    }
    TRY(allocate(job->context, rows, features_row(job->test) * sizeof *features, &features));
    TRY(allocate(job->context, rows, job->classes * sizeof *scores, &scores));
    TRY(l3a_features_read(job->test, NULL, 0, rows, features));
    for (size_t t = 0; t < phases; t++) {
        const struct lesson lesson = {
            .train = job->train, .columns = columns, .bounds = bounds, .phases = phases, .first = bounds[t], .last = bounds[t + 1]};
        struct outcome outcome = {0};
        TRY(job->method->learner->learn(job->state, &lesson, &outcome));
        TRY(job->method->learner->score(job->state, features, rows, scores));
        fwrite(scores, sizeof *scores, rows * lesson.last, stdout);
    }
done:
    release(job->context, features);
    release(job->context, scores);
    return status;
}

int main(int count, char **arguments) {
    struct job job = {0};
    l3a_context_options options = {.size = sizeof options};
    options.threads = 1;
    if (count < 5 || l3a_context_create(&options, &job.context) != L3A_OK) {
        return 2;
    }
    l3a_status status = open_job(&job, arguments, count);
    if (status == L3A_OK) {
        status = learn_and_score(&job);
    }
    if (status != L3A_OK) {
        fprintf(stderr, "%s\n", l3a_error_text(job.context));
    }
    if (job.state) {
        job.method->learner->free(job.state);
    }
    l3a_features_free(job.train);
    l3a_features_free(job.test);
    l3a_context_free(job.context);
    return status == L3A_OK ? 0 : 2;
}
