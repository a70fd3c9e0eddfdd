/* Reads classifiers, and computes logits and the logarithms of sums of their exponentials:
 *
 *     log Σ exp(l) = m + log Σ exp(l − m) with m = max l,
 *
 * so that no exponential overflows and at least one is 1. */
#include "net/classifier.h"
#include "base/matrix.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/vector_math.h"
#include "net/names.h"
#include "net/recipe.h"
#include "net/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 2048, LANES = 16, PIECE = 64 };

/* Classifiers as vision transformers, ResNets and TResNets name them. */
static const char *const names[] = {"head", "fc", "head.fc", "classifier"};

static const char *find_name(const struct parameters *parameters) {
    char full[32];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(full, sizeof full, "%s.weight", names[i]);
        if (parameters_find(parameters, full)) {
            return names[i];
        }
    }
    return NULL;
}

static l3a_status check_classes(const struct parameters *parameters, const char *full) {
    const struct checkpoint_tensor *weight = parameters_find(parameters, full);
    l3a_status status = L3A_OK;
    FAIL_IF(!weight->rank || weight->shape[0] != WORD_CLASSES, parameters->context, L3A_ERROR_MISMATCH,
            "words need a checkpoint with the classifier of ImageNet's 1000 classes",
            "the classifier %s has %" PRIu64 " classes, and their words are not known", full,
            weight->rank ? weight->shape[0] : UINT64_C(0));
done:
    return status;
}

/* The classifier under the name that it has in the file, or else under timm's name for it. */
static l3a_status open_tensors(l3a_context *context, struct checkpoint *checkpoint, struct names **tower,
                               struct parameters *parameters, const char **name) {
    struct parameter_source file, source;
    l3a_status status = L3A_OK;
    parameter_source_checkpoint(checkpoint, &file);
    TRY(parameters_open(context, &file, parameters));
    if (!(*name = find_name(parameters))) {
        TRY(names_open(context, &file, tower));
        names_source(*tower, &source);
        parameters_close(parameters);
        TRY(parameters_open(context, &source, parameters));
        *name = find_name(parameters);
    }
    FAIL_IF(!*name, context, L3A_ERROR_MISMATCH, "words need a checkpoint with its ImageNet classifier",
            "this checkpoint has no classifier: there is no tensor head.weight, fc.weight or head.fc.weight");
done:
    return status;
}

static l3a_status read_from(l3a_context *context, struct checkpoint *checkpoint, struct classifier *classifier) {
    struct parameters parameters = {0};
    struct names *tower = NULL;
    const char *name = NULL;
    char weight[32], bias[32];
    l3a_status status = L3A_OK;
    FAIL_IF(checkpoint_metadata(checkpoint, recorded_classes), context, L3A_ERROR_MISMATCH,
            "words need a backbone with the classifier of ImageNet's 1000 classes: use the checkpoint from before training",
            "this network was trained for classes of its own ('l3a info' lists them), and has no classifier for words");
    TRY(open_tensors(context, checkpoint, &tower, &parameters, &name));
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    TRY(check_classes(&parameters, weight));
    TRY(parameters_take(&parameters, weight, 2, (uint64_t[]){WORD_CLASSES, classifier->width}, &classifier->weight));
    TRY(parameters_take(&parameters, bias, 1, (uint64_t[]){WORD_CLASSES}, &classifier->bias));
done:
    parameters_close(&parameters);
    names_close(tower);
    return status;
}

l3a_status classifier_read(l3a_context *context, const char *path, const char *pool, size_t width, struct classifier **classifier) {
    const bool joined = pool && strcmp(pool, "cls+mean") == 0;
    struct checkpoint *checkpoint = NULL;
    struct classifier *made = NULL;
    l3a_status status = L3A_OK;
    FAIL_IF(pool && !joined && strcmp(pool, "cls") != 0 && strcmp(pool, "average") != 0, context, L3A_ERROR_MISMATCH,
            "use features with the pool cls",
            "the features have the pool %s; words need the class token, which the classifier was trained on", pool);
    FAIL_IF(joined && width % 2, context, L3A_ERROR_MISMATCH, NULL,
            "features that are the class token and the mean of the patches cannot have a width of %zu", width);
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    *made = (struct classifier){.classes = WORD_CLASSES, .width = joined ? width / 2 : width, .stride = width};
    TRY(checkpoint_open(context, path, &checkpoint));
    status = read_from(context, checkpoint, made);
    if (status != L3A_OK) {
        fail_in(context, status, "%s", path);
        goto done;
    }
    *classifier = made;
    made = NULL;
done:
    classifier_free(context, made);
    checkpoint_free(checkpoint);
    return status;
}

l3a_status classifier_choose(l3a_context *context, const struct classifier *classifier, const size_t *classes, size_t count,
                             struct classifier **chosen) {
    struct classifier *made = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    *made = (struct classifier){.classes = count, .width = classifier->width, .stride = classifier->stride};
    TRY(allocate(context, count * classifier->width, sizeof *made->weight, &made->weight));
    TRY(allocate(context, count, sizeof *made->bias, &made->bias));
    for (size_t i = 0; i < count; i++) {
        memcpy(made->weight + i * classifier->width, classifier->weight + classes[i] * classifier->width,
               classifier->width * sizeof *classifier->weight);
        made->bias[i] = classifier->bias[classes[i]];
    }
    *chosen = made;
    made = NULL;
done:
    classifier_free(context, made);
    return status;
}

void classifier_free(l3a_context *context, struct classifier *classifier) {
    if (classifier) {
        release(context, classifier->weight);
        release(context, classifier->bias);
        release(context, classifier);
    }
}

void classifier_logits(const l3a_context *context, const struct classifier *classifier, const float *features, size_t rows,
                       float *logits) {
    for (size_t i = 0; i < rows; i++) {
        memcpy(logits + i * classifier->classes, classifier->bias, classifier->classes * sizeof *logits);
    }
    if (rows && classifier->classes) {
        matrix_multiply(context->threads, REAL_SINGLE, false, true, rows, classifier->classes, classifier->width, 1, features,
                        classifier->stride, classifier->weight, classifier->width, 1, logits, classifier->classes);
    }
}

/* Of one row. The sums of the lanes are independent of each other, so that compilers can add them at once. */
static float log_sum(const float *logits, size_t count) {
    float largest = logits[0], lanes[LANES] = {0};
    double sum = 0;
    size_t i = 0;
    for (size_t j = 1; j < count; j++) {
        largest = logits[j] > largest ? logits[j] : largest;
    }
    for (; i + LANES <= count; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            lanes[j] += exponential(logits[i + j] - largest);
        }
    }
    for (size_t j = 0; i + j < count; j++) {
        lanes[j] += exponential(logits[i + j] - largest);
    }
    for (size_t j = 0; j < LANES; j++) {
        sum += (double)lanes[j];
    }
    return (float)((double)largest + log(sum));
}

struct rows_of_logits {
    const float *logits;
    size_t classes;
    float *sums;
};

static void sum_rows(void *argument, size_t first, size_t last) {
    const struct rows_of_logits *rows = argument;
    for (size_t i = first; i < last; i++) {
        rows->sums[i] = rows->classes ? log_sum(rows->logits + i * rows->classes, rows->classes) : -INFINITY;
    }
}

l3a_status classifier_log_sum(l3a_context *context, const struct classifier *classifier, const float *features, size_t rows,
                              float *sums) {
    const size_t block = rows < BLOCK ? rows : BLOCK;
    float *logits = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(context, block * classifier->classes, sizeof *logits, &logits));
    for (size_t first = 0; first < rows; first += block) {
        const size_t count = rows - first < block ? rows - first : block;
        classifier_logits(context, classifier, features + first * classifier->stride, count, logits);
        parallel_for(context->threads, count, PIECE, sum_rows, &(struct rows_of_logits){logits, classifier->classes, sums + first});
    }
done:
    release(context, logits);
    return status;
}
