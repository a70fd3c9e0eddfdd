/* Adaptation: a backbone is trained before a protocol begins, on what may be known then: the pictures that belong to the classes of
 * the first phase, with their labels of these classes. The training itself knows no other classes (examples.c). */
#include "base/file.h"
#include "base/memory.h"
#include "base/sized.h"
#include "format/checkpoint.h"
#include "l3a/l3a_experiment.h"
#include "train/examples.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The names, and what they stand for. The rate of "norms" is too high for all parameters of a trained network; that of "released"
 * suits them. */
static const struct {
    const char *name, *recipe, *trained;
    double rate;
} ways[] = {{"norms", "norms", NULL, 0}, {"released", "released", NULL, 0}, {"all", "norms", "all", 4e-5}};

/* What is to be trained, with the names of the classes in memory of its own. */
struct adaptation {
    l3a_train_options training;
    const char **classes;
    int keep;
    char record[800]; /* says what it depends on, but for the content of the pictures and the checkpoint */
};

static l3a_status choose_way(l3a_context *context, const char *how, l3a_train_options *training) {
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(ways[i].name, how) == 0) {
            training->recipe = training->recipe ? training->recipe : ways[i].recipe;
            training->trained = training->trained ? training->trained : ways[i].trained;
            training->rate = training->rate == 0 ? ways[i].rate : training->rate;
            training->validation_share = training->validation_share == 0 ? -1 : training->validation_share; /* a phase is small */
            return L3A_OK;
        }
    }
    return fail(context, L3A_ERROR_OPTION, "use norms, released or all", "a backbone cannot be adapted by '%s'", how);
}

static l3a_status choose_classes(l3a_context *context, const l3a_dataset *dataset, const l3a_adapt_options *options,
                                 struct adaptation *adaptation) {
    const size_t count = l3a_dataset_class_count(dataset);
    const char **names = NULL;
    size_t *order = NULL, *bounds = NULL, phases;
    l3a_status status = L3A_OK;
    TRY(allocate(context, count, sizeof *names, &names));
    TRY(allocate(context, count, sizeof *order, &order));
    TRY(allocate(context, count + 1, sizeof *bounds, &bounds));
    TRY(allocate(context, count, sizeof *names, &adaptation->classes));
    for (size_t i = 0; i < count; i++) {
        names[i] = l3a_dataset_class(dataset, i);
    }
    TRY(l3a_protocol_parse(context, options->protocol ? options->protocol : "B0-C10", count, bounds, &phases));
    TRY(l3a_class_order(context, names, count, options->class_order ? options->class_order : "lexicographic", order));
    for (size_t i = 0; i < bounds[1]; i++) {
        adaptation->classes[i] = names[order[i]];
    }
    adaptation->training.classes = adaptation->classes;
    adaptation->training.class_count = bounds[1];
done:
    release(context, names);
    release(context, order);
    release(context, bounds);
    return status;
}

static l3a_status adaptation_read(l3a_context *context, const l3a_dataset *dataset, const l3a_adapt_options *options,
                                  struct adaptation *adaptation) {
    l3a_status status = L3A_OK;
    l3a_adapt_options own;
    *adaptation = (struct adaptation){0};
    TRY(READ_SIZED(context, options, own));
    TRY(READ_SIZED(context, own.training, adaptation->training));
    adaptation->training.size = sizeof adaptation->training;
    FAIL_IF(adaptation->training.class_count, context, L3A_ERROR_ARGUMENT, "leave the classes of the training out",
            "the classes to adapt to are those of the first phase");
    TRY(choose_way(context, own.how ? own.how : ways[0].name, &adaptation->training));
    TRY(choose_classes(context, dataset, &own, adaptation));
    adaptation->keep = own.keep;
done:
    return status;
}

/* ---- A checkpoint that is there ---- */

/* What the checkpoint will record, in the place of a command. */
static l3a_status make_record(l3a_context *context, const char *checkpoint, const l3a_dataset *dataset,
                              struct adaptation *adaptation) {
    l3a_status status = L3A_OK;
    l3a_train_plan plan = {.size = sizeof plan};
    struct examples examples = {.dataset = NULL};
    uint64_t checksum;
    TRY(l3a_train_prepare(context, checkpoint, dataset, NULL, &adaptation->training, &plan));
    TRY(examples_choose(context, dataset, adaptation->classes, adaptation->training.class_count, true, &examples));
    TRY(examples_checksum(context, &examples, &checksum));
    snprintf(adaptation->record, sizeof adaptation->record, "adapted to %zu classes: %s, seed %" PRIu64 ", labels %016" PRIx64,
             adaptation->training.class_count, plan.settings, adaptation->training.seed, checksum);
    adaptation->training.command = adaptation->record;
done:
    examples_free(context, &examples);
    return status;
}

static bool has_record(const l3a_file *file, const char *wanted, const char *text) {
    const char *key, *value;
    for (size_t i = 0; l3a_file_record(file, i, &key, &value), key; i++) {
        if (strcmp(key, wanted) == 0) {
            return strcmp(value, text) == 0;
        }
    }
    return false;
}

/* Whether a file is there, and what the adaptation would make. */
static l3a_status is_made(l3a_context *context, const char *checkpoint, const struct adaptation *adaptation, const char *path,
                          bool *made) {
    struct checkpoint *source = NULL;
    l3a_file *file = NULL;
    l3a_status status = L3A_OK;
    char sha256[65];
    *made = false;
    TRY(file_exists(context, path, made));
    if (*made) {
        TRY(checkpoint_open(context, checkpoint, &source));
        TRY(checkpoint_sha256(source, sha256));
        TRY(l3a_file_open(context, path, &file));
        *made = has_record(file, "l3a.training.command", adaptation->record) && has_record(file, "l3a.training.from", sha256);
        FAIL_IF(!*made, context, L3A_ERROR_MISMATCH,
                "resume with the options, pictures and checkpoint of before, or remove the file", "%s: was adapted in another way",
                path);
    }
done:
    checkpoint_free(source);
    l3a_file_free(file);
    return status;
}

/* ---- The calls ---- */

l3a_status l3a_adapt_prepare(l3a_context *context, const char *checkpoint, const l3a_dataset *dataset,
                             const l3a_adapt_options *options, l3a_train_plan *plan) {
    l3a_status status = L3A_OK;
    struct adaptation adaptation = {.classes = NULL};
    NEED(context, context, checkpoint, dataset, plan);
    TRY(adaptation_read(context, dataset, options, &adaptation));
    TRY(l3a_train_prepare(context, checkpoint, dataset, NULL, &adaptation.training, plan));
done:
    release(context, adaptation.classes);
    return status;
}

l3a_status l3a_adapt(l3a_context *context, const char *checkpoint, const l3a_dataset *dataset, const l3a_adapt_options *options,
                     const char *path, l3a_train_report *report) {
    l3a_status status = L3A_OK;
    bool made = false;
    struct adaptation adaptation = {.classes = NULL};
    NEED(context, context, checkpoint, dataset, path);
    if (report) {
        TRY(CHECK_SIZED(context, report));
    }
    TRY(adaptation_read(context, dataset, options, &adaptation));
    TRY(make_record(context, checkpoint, dataset, &adaptation));
    TRY(adaptation.keep ? is_made(context, checkpoint, &adaptation, path, &made) : L3A_OK);
    if (!made) {
        TRY(l3a_train(context, checkpoint, dataset, NULL, &adaptation.training, path, report));
    } else if (report) {
        TRY(WRITE_SIZED(context, report, ((l3a_train_report){.size = sizeof *report})));
    }
done:
    release(context, adaptation.classes);
    return status;
}
