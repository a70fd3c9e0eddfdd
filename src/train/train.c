#include "base/file.h"
#include "base/plugin.h"
#include "base/sized.h"
#include "data/dataset.h"
#include "net/write.h"
#include "train/training.h"
#include "train/training_source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Plans ---- */

static uint64_t pictures_in_all(const struct training *training) {
    return (uint64_t)training->settings.epochs * (training->train.count + training->held.count);
}

static l3a_train_plan plan_of(const struct training *training) {
    l3a_train_plan plan = {.size = sizeof plan,
                           .memory = training->plan.bytes,
                           .recomputes = training->plan.recomputes,
                           .parameters = training->reading.network.parameter_count,
                           .trained = training->selection.stepped,
                           .pictures = training->train.count,
                           .held = training->held.count,
                           .classes = training->classes.count,
                           .steps = (uint64_t)training->settings.epochs * training->steps,
                           .shown = pictures_in_all(training)};
    settings_describe(&training->settings, plan.settings, sizeof plan.settings);
    return plan;
}

l3a_status train_prepare(l3a_context *context, const struct network_back_end *back_end, const char *checkpoint,
                         const l3a_dataset *train, const l3a_dataset *validation, const l3a_train_options *options,
                         l3a_train_plan *plan) {
    struct training training;
    const l3a_status status = training_open(context, back_end, checkpoint, train, validation, options, &training);
    if (status == L3A_OK) {
        *plan = plan_of(&training);
    }
    training_close(&training);
    return status;
}

/* ---- Training ---- */

/* Whether both are one file, however their paths are written. */
static bool is_one_file(const output_target *left, const output_target *right) {
    return strcmp(left->path, right->path) == 0 ||
           (left->exists && right->exists && left->old.device == right->old.device && left->old.inode == right->old.inode);
}

static l3a_status check_source(l3a_context *context, const char *source, const output_target *to, const output_target *kept) {
    output_target from = {0};
    l3a_status status = L3A_OK;
    TRY(target_find(context, source, &from));
    FAIL_IF(is_one_file(&from, to) || is_one_file(&from, kept), context, L3A_ERROR_ARGUMENT,
            "give the trained checkpoint another path", "%s is the checkpoint that is to be trained", source);
done:
    target_free(context, &from);
    return status;
}

/* What is written must be two files, and none of those that are read. */
static l3a_status check_paths(l3a_context *context, const struct checkpoint *checkpoint, const char *path, const char *state) {
    output_target to = {0}, kept = {0};
    l3a_status status = L3A_OK;
    TRY(target_find(context, path, &to));
    TRY(target_find(context, state, &kept));
    FAIL_IF(is_one_file(&to, &kept), context, L3A_ERROR_ARGUMENT, "give them different paths",
            "%s cannot be both the checkpoint and the state of a training", path);
    TRY(check_source(context, checkpoint_path(checkpoint), &to, &kept));
    for (size_t i = 0; i < checkpoint_files(checkpoint); i++) {
        TRY(check_source(context, checkpoint_file(checkpoint, i), &to, &kept));
    }
done:
    target_free(context, &to);
    target_free(context, &kept);
    return status;
}

static l3a_status write_checkpoint(struct training *training, const char *path) {
    enum { MOST = 48, KEY = 64 };
    l3a_context *context = training->context;
    const struct trained_values values = {training, training_value};
    const float *coefficients = training_head(training);
    const struct trained_head head = {.coefficients = coefficients,
                                      .bias = coefficients + training->head.classes * training->head.width,
                                      .classes = (const char *const *)training->classes.items,
                                      .class_count = training->head.classes,
                                      .width = training->head.width};
    const char *metadata[MOST][2];
    char names[MOST][KEY];
    text_list keys = {0}, texts = {0};
    l3a_status status = L3A_OK;
    TRY(training_record(training, &keys, &texts));
    for (size_t i = 0; i < keys.count && i < MOST; i++) {
        snprintf(names[i], KEY, "l3a.training.%s", keys.items[i]);
        metadata[i][0] = names[i];
        metadata[i][1] = texts.items[i];
    }
    TRY(network_write(context, training->checkpoint, &training->reading, &values, &head, (const char *const(*)[2])metadata,
                      keys.count < MOST ? keys.count : MOST, path));
done:
    text_list_clear(context, &keys);
    text_list_clear(context, &texts);
    return status;
}

static void report_to(const struct training *training, double seconds, l3a_train_report *report) {
    const struct training_position *position = &training->position;
    const uint64_t kept = position->best ? position->best : position->epochs;
    *report = (l3a_train_report){.size = sizeof *report,
                                 .epochs = (size_t)position->epochs,
                                 .resumed = (size_t)training->resumed,
                                 .kept = (size_t)kept,
                                 .steps = position->steps,
                                 .mean_ap = kept ? training->results[kept - 1].mean_ap : (double)NAN,
                                 .loss = kept ? training->results[position->epochs - 1].loss : (double)NAN,
                                 .seconds = seconds,
                                 .speed = training->stepping > 0 ? (double)training->shown / training->stepping : 0,
                                 .waited = training->waited,
                                 .recomputed = training->plan.recomputes};
}

/* Trains from the beginning or, if there is a state, from there, and with as many threads. */
static l3a_status train_from_state(struct training *training, const l3a_train_options *options, const char *path) {
    l3a_context *context = training->context;
    l3a_status status = L3A_OK;
    bool there;
    TRY(file_exists(context, training->path, &there));
    FAIL_IF(there && !options->resume, context, L3A_ERROR_EXISTS, "resume the training, or delete the file",
            "%s: the state of an interrupted training", training->path);
    if (there) {
        const int threads = context->threads;
        TRY(training_state_threads(context, training->path, &context->threads));
        if (context->threads != threads) {
            report_note(context, "the training began with %d threads, and goes on with as many instead of %d", context->threads,
                        threads);
        }
    }
    TRY(training_start(training));
    if (there) {
        TRY(training_state_read(training));
    }
    TRY(training_run(training));
    TRY(write_checkpoint(training, path));
    TRY(remove_file(context, training->path));
done:
    return status;
}

l3a_status train_with(l3a_context *context, const struct network_back_end *back_end, const char *checkpoint,
                      const l3a_dataset *train, const l3a_dataset *validation, const l3a_train_options *options, const char *path,
                      l3a_train_report *report) {
    const double start = clock_seconds();
    const int threads = context->threads;
    struct training training;
    text_builder state = {.context = context};
    l3a_status status = L3A_OK;
    text_builder_print(&state, "%s%s", options->state ? options->state : path, options->state ? "" : ".training");
    TRY(training_open(context, back_end, checkpoint, train, validation, options, &training));
    TRY(state.status);
    TRY(check_paths(context, training.checkpoint, path, state.text));
    training.path = state.text;
    TRY(train_from_state(&training, options, path));
    report_to(&training, clock_seconds() - start, report);
done:
    context->threads = threads;
    training_close(&training);
    text_builder_free(&state);
    return status;
}

/* ---- The public calls ---- */

/* What trains here: the context's device, or else the first back end of the processor that can. */
static const struct network_back_end *choose_back_end(l3a_context *context) {
    const struct network_back_end *found = training_back_end(context);
    if (context->plugin && (!found || found != network_back_end_of_device(context))) {
        report_note(context, "networks are trained on the processor: %s cannot do it here", context->device_name);
    }
    return found ? found : network_back_end_best();
}

/* A context that is still choosing takes the processor if the training has no room on the device. */
static l3a_status settle_device(l3a_context *context, const char *checkpoint, const l3a_dataset *train,
                                const l3a_dataset *validation, const l3a_train_options *options) {
    l3a_train_plan plan;
    l3a_status status = L3A_OK;
    if (context->choosing) {
        status = train_prepare(context, choose_back_end(context), checkpoint, train, validation, options, &plan);
    }
    if (status == L3A_ERROR_MEMORY || status == L3A_ERROR_DEVICE) {
        device_leave(context, "%s", context->error_text);
        status = L3A_OK;
    }
    return status;
}

l3a_status l3a_train_prepare(l3a_context *context, const char *checkpoint, const l3a_dataset *train, const l3a_dataset *validation,
                             const l3a_train_options *options, l3a_train_plan *plan) {
    l3a_train_options own;
    l3a_train_plan made;
    l3a_status status = L3A_OK;
    NEED(context, context, checkpoint, train, plan);
    TRY(READ_SIZED(context, options, own));
    TRY(CHECK_SIZED(context, plan));
    TRY(settle_device(context, checkpoint, train, validation, &own));
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
    TRY(settle_device(context, checkpoint, train, validation, &own));
    TRY(train_with(context, choose_back_end(context), checkpoint, train, validation, &own, path, &made));
    if (report) {
        TRY(WRITE_SIZED(context, report, made));
    }
done:
    return status;
}
