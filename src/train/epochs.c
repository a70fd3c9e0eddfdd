/* The epochs of a training. In each, all pictures are shown once, in an order drawn for it, a batch at a time. A step is
 *     z = network(pictures),  s = W z + b,  L = loss(s, labels), summed over the batch,
 *     ∂L/∂s → ∂L/∂W, ∂L/∂b and ∂L/∂z, and from the latter, by the back end, the gradients of the network's parameters;
 * if the gradient g of all that is trained is longer than `clip`, it is multiplied by clip / |g|; then all parameters step. The
 * last batch of an epoch may be smaller, and, because the loss is a sum, counts as much less.
 *
 * The training is at a point where its state can be written after each step, and between the last step of an epoch and its
 * validation. */
#include "train/training.h"

#include "common/number.h"
#include "data/dataset.h"
#include "measure/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Steps ---- */

/* "000012, 000017 and 62 more" */
static void list_pictures(const struct training *training, const struct picture_batch *batch, char *text, size_t capacity) {
    size_t length = 0, i = 0;
    text[0] = 0;
    for (; i < batch->count && length + 96 < capacity; i++) {
        const char *id = l3a_dataset_id(training->train.dataset, batch->rows[i]);
        length += (size_t)snprintf(text + length, capacity - length, "%s%.80s", i ? ", " : "", id);
    }
    if (i < batch->count) {
        snprintf(text + length, capacity - length, " and %zu more", batch->count - i);
    }
}

/* batch: that of the step; NULL: it is the validation. */
static l3a_status fail_number(const struct training *training, const struct picture_batch *batch, const char *what) {
    const size_t steps = training->settings.epochs * training->steps;
    char pictures[720], hint[160], rate[NUMBER_TEXT];
    snprintf(hint, sizeof hint, "lower the rate, for example to %s, or limit the norm of gradients (clip)",
             number_format(training->settings.rate / 10, rate));
    if (!batch) {
        return fail(training->context, L3A_ERROR_NUMERIC, hint, "after step %" PRIu64 " of %zu: a %s is not finite",
                    training->position.steps, steps, what);
    }
    list_pictures(training, batch, pictures, sizeof pictures);
    return fail(training->context, L3A_ERROR_NUMERIC, hint, "step %" PRIu64 " of %zu: the %s is not finite; its pictures are %s",
                training->position.steps + 1, steps, what, pictures);
}

static struct network_step next_step(const struct training *training) {
    const struct train_settings *settings = &training->settings;
    const size_t step = (size_t)training->position.steps, steps = settings->epochs * training->steps;
    return (struct network_step){.optimiser = settings->optimiser,
                                 .rate = schedule_rate(settings->schedule, step, steps, settings->rate),
                                 .momentum = settings->momentum > 0 ? settings->momentum
                                                                    : schedule_momentum(settings->schedule, step, steps),
                                 .square = 0.999,
                                 .epsilon = 1e-8,
                                 .scale = 1,
                                 .number = training->position.steps + 1};
}

/* Changes head and network by their gradients. */
static l3a_status apply(struct training *training, const struct picture_batch *batch) {
    const struct train_settings *settings = &training->settings;
    struct network_step step = next_step(training);
    l3a_status status = L3A_OK;
    double square = 0;
    if (training->selection.stepped) {
        TRY(training->back_end->gradient_square(training->state, &square));
    }
    const double norm = sqrt(square + linear_head_square(&training->head));
    if (!isfinite(norm)) {
        return fail_number(training, batch, "gradient");
    }
    step.scale = settings->clip > 0 && norm > settings->clip ? settings->clip / norm : 1;
    if (training->selection.stepped) {
        TRY(training->back_end->step(training->state, &step));
    }
    step.rate = schedule_rate(settings->schedule, (size_t)training->position.steps, settings->epochs * training->steps,
                              settings->head_rate);
    linear_head_step(&training->head, &step, settings->decay);
done:
    return status;
}

static l3a_status make_step(struct training *training, const struct picture_batch *batch) {
    l3a_status status = L3A_OK;
    const size_t count = batch->count, classes = training->classes.count;
    TRY(training->back_end->forward(training->state, batch->planes, count, &training->features));
    linear_head_score(training->context, &training->head, training->head.values, training->features, count, training->scores);
    examples_labels(&training->train, batch->rows, count, training->labels);
    const double loss =
        loss_of_labels(training->settings.loss, count, classes, training->scores, training->labels, training->by_scores);
    if (!isfinite(loss)) {
        return fail_number(training, batch, "loss");
    }
    linear_head_backward(training->context, &training->head, training->features, training->by_scores, count, training->by_features);
    if (training->selection.stepped) {
        TRY(training->back_end->backward(training->state, (const float *const[]){training->by_features}));
    }
    TRY(apply(training, batch));
    training->position.sum += loss;
    training->position.steps++;
    training->shown += count;
done:
    return status;
}

/* The pictures of the steps so far. */
static uint64_t pictures_shown(const struct training *training) {
    const uint64_t epochs = training->position.steps / training->steps, rest = training->position.steps % training->steps;
    return epochs * training->train.count + rest * training->settings.batch;
}

static l3a_status report_steps(const struct training *training) {
    return report_progress(training->context, "train", pictures_shown(training),
                           (uint64_t)training->settings.epochs * training->train.count);
}

static bool is_due(const struct training *training) {
    return training->save_seconds > 0 && clock_seconds() - training->saved >= training->save_seconds;
}

/* Makes the rest of the epoch's steps. */
static l3a_status make_steps(struct training *training) {
    const uint64_t epoch = training->position.epochs, end = (epoch + 1) * training->steps;
    l3a_status status = L3A_OK;
    if (training->position.steps < end) {
        TRY(batches_begin(training->batches, epoch, (size_t)(training->position.steps - epoch * training->steps)));
    }
    while (training->position.steps < end) {
        struct picture_batch batch;
        const double start = clock_seconds();
        TRY(report_steps(training));
        TRY(batches_next(training->batches, &batch));
        const double waited = clock_seconds() - start;
        TRY(make_step(training, &batch));
        const double seconds = clock_seconds() - start;
        training->waited += waited;
        training->stepping += seconds;
        training->position.seconds += seconds;
        if (is_due(training)) {
            TRY(training_state_write(training));
        }
    }
    TRY(report_steps(training));
done:
    return status;
}

/* ---- Validation ---- */

/* The mean over the classes that a validation picture shows; NaN: none does. */
static l3a_status measure_held(const struct training *training, double *mean_ap) {
    l3a_context *context = training->context;
    const size_t classes = training->classes.count, count = training->held.count;
    double *thresholds = NULL, *precisions, sum = 0;
    size_t shown = 0;
    l3a_metrics metrics;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 2 * classes, sizeof *thresholds, &thresholds));
    precisions = thresholds + classes;
    TRY(measure(context, training->held_scores, training->held_labels, count, classes, thresholds, &metrics, precisions));
    for (size_t k = 0; k < classes; k++) {
        bool found = false;
        for (size_t i = 0; !found && i < count; i++) {
            found = training->held_labels[i * classes + k] == 1;
        }
        sum += found ? precisions[k] : 0;
        shown += found;
    }
    *mean_ap = shown ? sum / (double)shown : (double)NAN;
done:
    release(context, thresholds);
    return status;
}

static l3a_status validate(struct training *training, double *mean_ap) {
    size_t done = 0;
    l3a_status status = L3A_OK;
    *mean_ap = (double)NAN;
    if (!training->held.count) {
        return L3A_OK;
    }
    TRY(batches_begin(training->validation, 0, 0));
    for (struct picture_batch batch = {.count = 1}; batch.count; done += batch.count) {
        TRY(report_progress(training->context, "validate", done, training->held.count));
        TRY(batches_next(training->validation, &batch));
        if (batch.count) {
            TRY(training->back_end->run(training->state, batch.planes, batch.count, &training->features));
            linear_head_score(training->context, &training->head, training->head.values, training->features, batch.count,
                              training->held_scores + done * training->classes.count);
        }
    }
    for (size_t i = 0; i < training->held.count * training->classes.count; i++) {
        if (!isfinite(training->held_scores[i])) {
            return fail_number(training, NULL, "score of a validation picture");
        }
    }
    TRY(measure_held(training, mean_ap));
done:
    return status;
}

/* ---- Epochs ---- */

static l3a_status keep_values(struct training *training) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < training->selection.count; i++) {
        const struct changed_parameter *changed = &training->selection.changed[i];
        TRY(training->back_end->read(training->state, changed->layer, changed->kind, PARAMETER_VALUE,
                                     training->best + changed->first));
    }
    memcpy(training->best_head, training->head.values, training->head.numbers * sizeof(float));
done:
    return status;
}

/* The epoch, from 1, with the highest mAP of the first `epochs`; 0: there is none. */
static uint64_t best_of(const struct training *training, uint64_t epochs) {
    uint64_t best = 0;
    for (uint64_t i = 0; i < epochs; i++) {
        const double found = training->results[i].mean_ap;
        if (found >= 0 && (!best || found > training->results[best - 1].mean_ap)) {
            best = i + 1;
        }
    }
    return best;
}

static void tell_epoch(const struct training *training, uint64_t number, bool resumed) {
    const struct epoch_result *result = &training->results[number - 1];
    const l3a_train_epoch epoch = {.epoch = (size_t)number,
                                   .epochs = training->settings.epochs,
                                   .loss = result->loss,
                                   .mean_ap = result->mean_ap,
                                   .seconds = result->seconds,
                                   .best = best_of(training, number) == number,
                                   .resumed = resumed};
    if (training->on_epoch) {
        training->on_epoch(&epoch, training->epoch_user);
    }
}

static l3a_status finish_epoch(struct training *training) {
    struct training_position *position = &training->position;
    const double start = clock_seconds();
    double mean_ap;
    l3a_status status = L3A_OK;
    TRY(validate(training, &mean_ap));
    const uint64_t number = position->epochs + 1;
    training->results[number - 1] = (struct epoch_result){.loss = position->sum / (double)training->train.count,
                                                          .mean_ap = mean_ap,
                                                          .seconds = position->seconds + clock_seconds() - start};
    if (training->best_head && best_of(training, number) == number) {
        TRY(keep_values(training));
        position->best = number;
    }
    position->epochs = number;
    position->sum = position->seconds = 0;
    tell_epoch(training, number, false);
    TRY(training_state_write(training));
done:
    return status;
}

static void warn_of_rise(const struct training *training) {
    const size_t epochs = training->settings.epochs;
    const double first = training->results[0].loss, last = training->results[epochs - 1].loss;
    char from[NUMBER_TEXT], to[NUMBER_TEXT];
    if (last > first) {
        report_warning(training->context,
                       "the loss rose from %s to %s in training: lower the rate, or limit the norm of gradients (clip)",
                       number_format(first, from), number_format(last, to));
    }
}

l3a_status training_run(struct training *training) {
    l3a_status status = L3A_OK;
    training->saved = clock_seconds();
    training->resumed = training->position.epochs;
    for (uint64_t i = 1; i <= training->resumed; i++) {
        tell_epoch(training, i, true);
    }
    while (training->position.epochs < training->settings.epochs) {
        TRY(make_steps(training));
        TRY(finish_epoch(training));
    }
    warn_of_rise(training);
done:
    if (status == L3A_ERROR_CANCELLED && training->position.steps) {
        const l3a_status written = training_state_write(training);
        status = written == L3A_OK ? fail(training->context, L3A_ERROR_CANCELLED, NULL, "train: cancelled") : written;
    }
    return status;
}
