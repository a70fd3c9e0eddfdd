#include "base/file.h"
#include "base/sized.h"
#include "data/dataset.h"
#include "net/write.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Plans ---- */

static uint64_t pictures_in_all(const struct trainer *trainer) {
    return (uint64_t)trainer->settings.epochs * (trainer->train.count + trainer->held.count);
}

static l3a_train_plan plan_of(const struct trainer *trainer) {
    l3a_train_plan plan = {.size = sizeof plan,
                           .memory = trainer->plan.bytes,
                           .recomputes = trainer->plan.recomputes,
                           .parameters = trainer->reading.network.parameter_count,
                           .trained = trainer->selection.stepped,
                           .pictures = trainer->train.count,
                           .held = trainer->held.count,
                           .classes = trainer->classes.count,
                           .steps = (uint64_t)trainer->settings.epochs * trainer->steps,
                           .shown = pictures_in_all(trainer)};
    settings_describe(&trainer->settings, plan.settings, sizeof plan.settings);
    return plan;
}

l3a_status train_prepare(l3a_context *context, const struct network_back_end *back_end, const char *checkpoint,
                         const l3a_dataset *train, const l3a_dataset *validation, const l3a_train_options *options,
                         l3a_train_plan *plan) {
    struct trainer trainer;
    const l3a_status status = trainer_open(context, back_end, checkpoint, train, validation, options, &trainer);
    if (status == L3A_OK) {
        *plan = plan_of(&trainer);
    }
    trainer_close(&trainer);
    return status;
}

/* ---- Training ---- */

/* Two paths of one file. What does not exist is no file. */
static l3a_status check_paths(l3a_context *context, const char *checkpoint, const char *path, const char *state) {
    output_target from = {0}, to = {0}, kept = {0};
    l3a_status status = L3A_OK;
    TRY(target_find(context, path, &to));
    TRY(target_find(context, state, &kept));
    FAIL_IF(strcmp(to.path, kept.path) == 0, context, L3A_ERROR_ARGUMENT, "give them different paths",
            "%s cannot be both the checkpoint and the state of a training", path);
    if (target_find(context, checkpoint, &from) == L3A_OK) { /* a folder is none */
        FAIL_IF(strcmp(from.path, to.path) == 0 || strcmp(from.path, kept.path) == 0, context, L3A_ERROR_ARGUMENT,
                "give the trained checkpoint another path", "%s is the checkpoint that is to be trained", checkpoint);
    }
done:
    target_free(context, &from);
    target_free(context, &to);
    target_free(context, &kept);
    return status;
}

static l3a_status write_checkpoint(struct trainer *trainer, const char *path) {
    enum { MOST = 48, KEY = 64 };
    l3a_context *context = trainer->context;
    const struct trained_values values = {trainer, trainer_value};
    const float *coefficients = trainer_head(trainer);
    const struct trained_head head = {.coefficients = coefficients,
                                      .bias = coefficients + trainer->head.classes * trainer->head.width,
                                      .classes = (const char *const *)trainer->classes.items,
                                      .class_count = trainer->head.classes,
                                      .width = trainer->head.width};
    const char *metadata[MOST][2];
    char names[MOST][KEY];
    text_list keys = {0}, texts = {0};
    l3a_status status = L3A_OK;
    TRY(trainer_record(trainer, &keys, &texts));
    for (size_t i = 0; i < keys.count && i < MOST; i++) {
        snprintf(names[i], KEY, "l3a.training.%s", keys.items[i]);
        metadata[i][0] = names[i];
        metadata[i][1] = texts.items[i];
    }
    TRY(network_write(context, trainer->checkpoint, &trainer->reading, &values, &head, (const char *const(*)[2])metadata,
                      keys.count < MOST ? keys.count : MOST, path));
done:
    text_list_clear(context, &keys);
    text_list_clear(context, &texts);
    return status;
}

static void report_to(const struct trainer *trainer, double seconds, l3a_train_report *report) {
    const struct training_position *position = &trainer->position;
    const uint64_t kept = position->best ? position->best : position->epochs;
    *report = (l3a_train_report){.size = sizeof *report,
                                 .epochs = (size_t)position->epochs,
                                 .resumed = (size_t)trainer->resumed,
                                 .kept = (size_t)kept,
                                 .steps = position->steps,
                                 .mean_ap = kept ? trainer->results[kept - 1].mean_ap : (double)NAN,
                                 .loss = kept ? trainer->results[position->epochs - 1].loss : (double)NAN,
                                 .seconds = seconds,
                                 .speed = trainer->stepping > 0 ? (double)trainer->shown / trainer->stepping : 0,
                                 .waited = trainer->waited,
                                 .recomputed = trainer->plan.recomputes};
}

/* Trains from the beginning or, if there is a state, from there, and with as many threads. */
static l3a_status train_from_state(struct trainer *trainer, const l3a_train_options *options, const char *path) {
    l3a_context *context = trainer->context;
    l3a_status status = L3A_OK;
    bool there;
    TRY(file_exists(context, trainer->path, &there));
    FAIL_IF(there && !options->resume, context, L3A_ERROR_EXISTS, "resume the training, or delete the file",
            "%s: the state of an interrupted training", trainer->path);
    if (there) {
        const int threads = context->threads;
        TRY(training_state_threads(context, trainer->path, &context->threads));
        if (context->threads != threads) {
            report_note(context, "the training began with %d threads, and goes on with as many instead of %d", context->threads,
                        threads);
        }
    }
    TRY(trainer_start(trainer));
    if (there) {
        TRY(training_state_read(trainer));
    }
    TRY(trainer_run(trainer));
    TRY(write_checkpoint(trainer, path));
    TRY(remove_file(context, trainer->path));
done:
    return status;
}

l3a_status train_with(l3a_context *context, const struct network_back_end *back_end, const char *checkpoint,
                      const l3a_dataset *train, const l3a_dataset *validation, const l3a_train_options *options, const char *path,
                      l3a_train_report *report) {
    const double start = clock_seconds();
    const int threads = context->threads;
    struct trainer trainer;
    text_builder state = {.context = context};
    l3a_status status = L3A_OK;
    text_builder_print(&state, "%s%s", options->state ? options->state : path, options->state ? "" : ".training");
    TRY(trainer_open(context, back_end, checkpoint, train, validation, options, &trainer));
    TRY(state.status);
    TRY(check_paths(context, checkpoint, path, state.text));
    trainer.path = state.text;
    TRY(train_from_state(&trainer, options, path));
    report_to(&trainer, clock_seconds() - start, report);
done:
    context->threads = threads;
    trainer_close(&trainer);
    text_builder_free(&state);
    return status;
}

/* ---- The public calls ---- */

/* What trains here: the context's device, or else the first back end of the processor that can. */
static const struct network_back_end *choose_back_end(l3a_context *context) {
    const struct network_back_end *device = network_back_end_of_device(context);
    if (device && device->forward) {
        return device;
    }
    if (context->plugin) {
        report_note(context, "networks are trained on the processor: %s cannot do it here", context->device_name);
    }
    for (size_t i = 0; network_back_end_at(i); i++) {
        const struct network_back_end *at = network_back_end_at(i);
        if (at->available() && at->forward) {
            return at;
        }
    }
    return network_back_end_best();
}

l3a_status l3a_train_prepare(l3a_context *context, const char *checkpoint, const l3a_dataset *train, const l3a_dataset *validation,
                             const l3a_train_options *options, l3a_train_plan *plan) {
    l3a_train_options own;
    l3a_train_plan made;
    l3a_status status = L3A_OK;
    NEED(context, context, checkpoint, train, plan);
    TRY(READ_SIZED(context, options, own));
    TRY(CHECK_SIZED(context, plan));
    TRY(train_prepare(context, choose_back_end(context), checkpoint, train, validation, &own, &made));
    TRY(WRITE_SIZED(context, plan, made));
done:
    return status;
}

l3a_status l3a_train(l3a_context *context, const char *checkpoint, const l3a_dataset *train, const l3a_dataset *validation,
                     const l3a_train_options *options, const char *path, l3a_train_report *report) {
    l3a_train_options own;
    l3a_train_report made;
    l3a_status status = L3A_OK;
    NEED(context, context, checkpoint, train, path);
    TRY(READ_SIZED(context, options, own));
    if (report) {
        TRY(CHECK_SIZED(context, report));
    }
    TRY(train_with(context, choose_back_end(context), checkpoint, train, validation, &own, path, &made));
    if (report) {
        TRY(WRITE_SIZED(context, report, made));
    }
done:
    return status;
}
