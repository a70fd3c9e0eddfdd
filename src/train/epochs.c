/* The epochs of a training. In each, all pictures are shown once, in an order drawn for it, a batch at a time. A step is
 *     z = network(pictures),  s = W z + b,  L = loss(s, labels), summed over the batch,
 *     ∂L/∂s → ∂L/∂W, ∂L/∂b and ∂L/∂z, and from the latter, by the back end, the gradients of the network's parameters;
 * if the gradient g of all that is trained is longer than `clip`, it is multiplied by clip / |g|; then all parameters step. The
 * last batch of an epoch may be smaller, and, because the loss is a sum, counts as much less.
 *
 * The training is at a point where its state can be written after each step, and between the last step of an epoch and its
 * validation. */
#include "train/trainer.h"

#include "common/number.h"
#include "data/dataset.h"
#include "measure/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Steps ---- */

/* "000012, 000017 and 62 more" */
static void list_pictures(const struct trainer *trainer, const struct batch *batch, char *text, size_t capacity) {
    size_t length = 0, i = 0;
    text[0] = 0;
    for (; i < batch->count && length + 96 < capacity; i++) {
        const char *id = l3a_dataset_id(trainer->train.dataset, batch->rows[i]);
        length += (size_t)snprintf(text + length, capacity - length, "%s%.80s", i ? ", " : "", id);
    }
    if (i < batch->count) {
        snprintf(text + length, capacity - length, " and %zu more", batch->count - i);
    }
}

static l3a_status fail_number(const struct trainer *trainer, const struct batch *batch, const char *what) {
    char pictures[720], hint[160], rate[NUMBER_TEXT];
    list_pictures(trainer, batch, pictures, sizeof pictures);
    snprintf(hint, sizeof hint, "lower the rate, for example to %s, or limit the norm of gradients (clip)",
             number_format(trainer->settings.rate / 10, rate));
    return fail(trainer->context, L3A_ERROR_NUMERIC, hint, "step %" PRIu64 " of %zu: the %s is not finite; its pictures are %s",
                trainer->position.steps + 1, trainer->settings.epochs * trainer->steps, what, pictures);
}

static struct network_step next_step(const struct trainer *trainer) {
    const struct train_settings *settings = &trainer->settings;
    const size_t step = (size_t)trainer->position.steps, steps = settings->epochs * trainer->steps;
    return (struct network_step){.optimiser = settings->optimiser,
                                 .rate = schedule_rate(settings->schedule, step, steps, settings->rate),
                                 .momentum = settings->momentum > 0 ? settings->momentum
                                                                    : schedule_momentum(settings->schedule, step, steps),
                                 .square = 0.999,
                                 .epsilon = 1e-8,
                                 .scale = 1,
                                 .number = trainer->position.steps + 1};
}

/* Changes head and network by their gradients. */
static l3a_status apply(struct trainer *trainer, const struct batch *batch) {
    const struct train_settings *settings = &trainer->settings;
    struct network_step step = next_step(trainer);
    l3a_status status = L3A_OK;
    double square = 0;
    if (trainer->selection.stepped) {
        TRY(trainer->back_end->gradient_square(trainer->state, &square));
    }
    const double norm = sqrt(square + linear_head_square(&trainer->head));
    if (!isfinite(norm)) {
        return fail_number(trainer, batch, "gradient");
    }
    step.scale = settings->clip > 0 && norm > settings->clip ? settings->clip / norm : 1;
    if (trainer->selection.stepped) {
        TRY(trainer->back_end->step(trainer->state, &step));
    }
    step.rate =
        schedule_rate(settings->schedule, (size_t)trainer->position.steps, settings->epochs * trainer->steps, settings->head_rate);
    linear_head_step(&trainer->head, &step, settings->decay);
done:
    return status;
}

static l3a_status make_step(struct trainer *trainer, const struct batch *batch) {
    l3a_status status = L3A_OK;
    const size_t count = batch->count, classes = trainer->classes.count;
    TRY(trainer->back_end->forward(trainer->state, batch->planes, count, &trainer->features));
    linear_head_score(trainer->context, &trainer->head, trainer->head.values, trainer->features, count, trainer->scores);
    examples_labels(&trainer->train, batch->rows, count, trainer->labels);
    const double loss =
        loss_of_labels(trainer->settings.loss, count, classes, trainer->scores, trainer->labels, trainer->by_scores);
    if (!isfinite(loss)) {
        return fail_number(trainer, batch, "loss");
    }
    linear_head_backward(trainer->context, &trainer->head, trainer->features, trainer->by_scores, count, trainer->by_features);
    if (trainer->selection.stepped) {
        TRY(trainer->back_end->backward(trainer->state, (const float *const[]){trainer->by_features}));
    }
    TRY(apply(trainer, batch));
    trainer->position.sum += loss;
    trainer->position.steps++;
    trainer->shown += count;
done:
    return status;
}

/* The pictures of the steps so far. */
static uint64_t pictures_shown(const struct trainer *trainer) {
    const uint64_t epochs = trainer->position.steps / trainer->steps, rest = trainer->position.steps % trainer->steps;
    return epochs * trainer->train.count + rest * trainer->settings.batch;
}

static l3a_status report_steps(const struct trainer *trainer) {
    return report_progress(trainer->context, "train", pictures_shown(trainer),
                           (uint64_t)trainer->settings.epochs * trainer->train.count);
}

static bool is_due(const struct trainer *trainer) {
    return trainer->save_seconds > 0 && clock_seconds() - trainer->saved >= trainer->save_seconds;
}

/* Makes the rest of the epoch's steps. */
static l3a_status make_steps(struct trainer *trainer) {
    const uint64_t epoch = trainer->position.epochs, end = (epoch + 1) * trainer->steps;
    l3a_status status = L3A_OK;
    if (trainer->position.steps < end) {
        TRY(batches_begin(trainer->batches, epoch, (size_t)(trainer->position.steps - epoch * trainer->steps)));
    }
    while (trainer->position.steps < end) {
        struct batch batch;
        const double start = clock_seconds();
        TRY(report_steps(trainer));
        TRY(batches_next(trainer->batches, &batch));
        const double waited = clock_seconds() - start;
        TRY(make_step(trainer, &batch));
        const double seconds = clock_seconds() - start;
        trainer->waited += waited;
        trainer->stepping += seconds;
        trainer->position.seconds += seconds;
        if (is_due(trainer)) {
            TRY(training_state_write(trainer));
        }
    }
    TRY(report_steps(trainer));
done:
    return status;
}

/* ---- Validation ---- */

/* The mean over the classes that a validation picture shows; NaN: none does. */
static l3a_status measure_held(const struct trainer *trainer, double *mean_ap) {
    l3a_context *context = trainer->context;
    const size_t classes = trainer->classes.count, count = trainer->held.count;
    double *thresholds = NULL, *precisions, sum = 0;
    size_t shown = 0;
    l3a_metrics metrics;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 2 * classes, sizeof *thresholds, &thresholds));
    precisions = thresholds + classes;
    TRY(measure(context, trainer->held_scores, trainer->held_labels, count, classes, thresholds, &metrics, precisions));
    for (size_t k = 0; k < classes; k++) {
        bool found = false;
        for (size_t i = 0; !found && i < count; i++) {
            found = trainer->held_labels[i * classes + k] == 1;
        }
        sum += found ? precisions[k] : 0;
        shown += found;
    }
    *mean_ap = shown ? sum / (double)shown : (double)NAN;
done:
    release(context, thresholds);
    return status;
}

static l3a_status validate(struct trainer *trainer, double *mean_ap) {
    size_t done = 0;
    l3a_status status = L3A_OK;
    *mean_ap = (double)NAN;
    if (!trainer->held.count) {
        return L3A_OK;
    }
    TRY(batches_begin(trainer->validation, 0, 0));
    for (struct batch batch = {.count = 1}; batch.count; done += batch.count) {
        TRY(report_progress(trainer->context, "validate", done, trainer->held.count));
        TRY(batches_next(trainer->validation, &batch));
        if (batch.count) {
            TRY(trainer->back_end->run(trainer->state, batch.planes, batch.count, &trainer->features));
            linear_head_score(trainer->context, &trainer->head, trainer->head.values, trainer->features, batch.count,
                              trainer->held_scores + done * trainer->classes.count);
        }
    }
    TRY(measure_held(trainer, mean_ap));
done:
    return status;
}

/* ---- Epochs ---- */

static l3a_status keep_values(struct trainer *trainer) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < trainer->selection.count; i++) {
        const struct changed_parameter *changed = &trainer->selection.changed[i];
        TRY(trainer->back_end->read(trainer->state, changed->layer, changed->kind, PARAMETER_VALUE,
                                    trainer->best + changed->first));
    }
    memcpy(trainer->best_head, trainer->head.values, trainer->head.numbers * sizeof(float));
done:
    return status;
}

/* The epoch, from 1, with the highest mAP of the first `epochs`; 0: there is none. */
static uint64_t best_of(const struct trainer *trainer, uint64_t epochs) {
    uint64_t best = 0;
    for (uint64_t i = 0; i < epochs; i++) {
        const double found = trainer->results[i].mean_ap;
        if (found >= 0 && (!best || found > trainer->results[best - 1].mean_ap)) {
            best = i + 1;
        }
    }
    return best;
}

static void tell_epoch(const struct trainer *trainer, uint64_t number, bool resumed) {
    const struct epoch_result *result = &trainer->results[number - 1];
    const l3a_train_epoch epoch = {.epoch = (size_t)number,
                                   .epochs = trainer->settings.epochs,
                                   .loss = result->loss,
                                   .mean_ap = result->mean_ap,
                                   .seconds = result->seconds,
                                   .best = best_of(trainer, number) == number,
                                   .resumed = resumed};
    if (trainer->on_epoch) {
        trainer->on_epoch(&epoch, trainer->epoch_user);
    }
}

static l3a_status finish_epoch(struct trainer *trainer) {
    struct training_position *position = &trainer->position;
    const double start = clock_seconds();
    double mean_ap;
    l3a_status status = L3A_OK;
    TRY(validate(trainer, &mean_ap));
    const uint64_t number = position->epochs + 1;
    trainer->results[number - 1] = (struct epoch_result){.loss = position->sum / (double)trainer->train.count,
                                                         .mean_ap = mean_ap,
                                                         .seconds = position->seconds + clock_seconds() - start};
    if (trainer->best && best_of(trainer, number) == number) {
        TRY(keep_values(trainer));
        position->best = number;
    }
    position->epochs = number;
    position->sum = position->seconds = 0;
    tell_epoch(trainer, number, false);
    TRY(training_state_write(trainer));
done:
    return status;
}

l3a_status trainer_run(struct trainer *trainer) {
    l3a_status status = L3A_OK;
    trainer->saved = clock_seconds();
    trainer->resumed = trainer->position.epochs;
    for (uint64_t i = 1; i <= trainer->resumed; i++) {
        tell_epoch(trainer, i, true);
    }
    while (trainer->position.epochs < trainer->settings.epochs) {
        TRY(make_steps(trainer));
        TRY(finish_epoch(trainer));
    }
done:
    if (status == L3A_ERROR_CANCELLED && trainer->position.steps) {
        const l3a_status written = training_state_write(trainer);
        status = written == L3A_OK ? fail(trainer->context, L3A_ERROR_CANCELLED, NULL, "train: cancelled") : written;
    }
    return status;
}
