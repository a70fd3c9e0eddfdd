/* The table of methods. */
#include "method/method.h"

#include "common/closest.h"
#include "base/settings.h"
#include "data/features.h"

#include <stdio.h>
#include <string.h>

static void without_pseudo_labels(l3a_options *options) {
    options->model.pseudo = L3A_PSEUDO_OFF;
}

static void without_weights(l3a_options *options) {
    options->model.weights = L3A_WEIGHTS_NONE;
}

static void without_either(l3a_options *options) {
    without_pseudo_labels(options);
    without_weights(options);
}

static void with_inverse_weights(l3a_options *options) {
    without_pseudo_labels(options);
    options->model.weights = L3A_WEIGHTS_INV;
}

/* Of methods that were published with a loss over a softmax of classes, or with this one. */
static void with_binary_loss(l3a_options *options) {
    if (!l3a_options_given(options, "loss")) {
        options->method.loss = L3A_LOSS_BINARY;
    }
}

struct prescription {
    const char *name, *value;
};

/* Settings that were given by name are kept. */
static void prescribe(l3a_options *options, const struct prescription *own, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!l3a_options_given(options, own[i].name)) {
            model_options_set(NULL, &options->model, own[i].name, own[i].value);
        }
    }
}

/* See docs/beyond.md. */
static void with_choices(l3a_options *options) {
    static const struct prescription own[] = {
        {"pseudo", "off"}, {"gamma", "auto"}, {"skip-features", "auto"}, {"thresholds", "per-class"}};
    prescribe(options, own, sizeof own / sizeof own[0]);
}

static void with_phases_apart(l3a_options *options) {
    static const struct prescription own[] = {{"alpha", "0.3"}, {"lift", "0.1"}};
    prescribe(options, own, sizeof own / sizeof own[0]);
    with_choices(options);
}

/* See docs/teaching.md. */
l3a_status l3a_lesson_settings(l3a_context *context, l3a_options *options) {
    static const char *const own[][2] = {{"dim", "2048"},       {"weights", "none"},    {"skip-features", "on"},
                                         {"gamma", "auto"},     {"gamma-from", "sums"}, {"thresholds", "taught"},
                                         {"privacy-limit", "0"}};
    l3a_status status = L3A_OK;
    NEED(context, context, options);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (!l3a_options_given(options, own[i][0])) {
            TRY(l3a_options_set(context, options, own[i][0], own[i][1]));
        }
    }
    with_phases_apart(options);
done:
    return status;
}

/* dsal has the streams of acil, whatever other settings are given. */
static void with_plain_sums(l3a_options *options) {
    without_either(options);
    options->model.alpha = 1;
    options->model.keep_phases = 0;
    options->model.skip_features = L3A_SKIP_OFF;
    options->model.thresholds = L3A_THRESHOLDS_FIXED;
    options->model.solver = L3A_SOLVER_SUMS;
}

static const char l3a_paper[] = "Zhang et al., ICML 2025", acil_paper[] = "Zhuang et al., NeurIPS 2022 (GACL: 2024)";
static const char sums[] = "sums, never an image", networks[] = "the old network";
static const char the_head[] = "the head", in_all[] = "features of 1000 images";
static const char reservoir[] = "features of 20 images per class (reservoir)";

#define METHOD(name, help, source, stores, plan, learner, prescribe)                                                               \
    { {name, help, source, stores, 1}, plan, &learner, prescribe, NULL }
/* A method that trains the backbone itself, and runs with the setting train-backbone alone. */
#define TRAINED_WITH(name, help, source, stores, learner, prescribe)                                                               \
    { {name, help, source, stores, 2}, BY_PHASE, &learner, prescribe, NULL }
#define TRAINED(name, help, source, stores, learner) TRAINED_WITH(name, help, source, stores, learner, NULL)
/* One that is only listed. */
#define NAMED(name, help, source, stores)                                                                                          \
    { {name, help, source, stores, 0}, BY_PHASE, NULL, NULL, NULL }

static const struct method methods[] = {
    METHOD("l3a", "ridge regression with pseudo-labels and class weights", l3a_paper, sums, BY_PHASE, analytic_learner, NULL),
    METHOD("l3a+", "phases kept apart; gamma and thresholds chosen from the data", "this project, docs/beyond.md",
           "sums of each phase, never an image", BY_PHASE, analytic_learner, with_phases_apart),
    METHOD("l3a-no-pl", "l3a without pseudo-labels", l3a_paper, sums, BY_PHASE, analytic_learner, without_pseudo_labels),
    METHOD("l3a-no-wac", "l3a without class weights", l3a_paper, sums, BY_PHASE, analytic_learner, without_weights),
    METHOD("joint", "all classes at once, with all labels: the upper bound of l3a", l3a_paper, sums, ALL_AT_ONCE, analytic_learner,
           without_pseudo_labels),
    METHOD("joint+", "joint with gamma, features and thresholds chosen as l3a+ does", "this project, docs/beyond.md", sums,
           ALL_AT_ONCE, analytic_learner, with_choices),
    METHOD("joint-masked", "all classes at once, with only the labels of each phase", l3a_paper, sums, ALL_MASKED, masked_learner,
           without_pseudo_labels),
    METHOD("acil", "l3a without either (GACL is the same here)", acil_paper, sums, BY_PHASE, analytic_learner, without_either),
    METHOD("air", "l3a without pseudo-labels, with weights 1/f", "Fang et al., 2024", sums, BY_PHASE, analytic_learner,
           with_inverse_weights),
    METHOD("dsal", "acil, with a second stream (tanh) for its residual", "Zhuang et al., AAAI 2024", "sums of two streams",
           BY_PHASE, dsal_learner, with_plain_sums),
    METHOD("gkeal", "acil on Gaussian kernels instead of the random layer", "Zhuang et al., CVPR 2023",
           "sums; features of up to dim images", BY_PHASE, gkeal_learner, NULL),
    METHOD("slda", "streaming discriminant analysis, one against the rest", "Hayes & Kanan, CVPR workshops 2020",
           "class means, a covariance", BY_PHASE, slda_learner, NULL),
    METHOD("finetune", "a linear head, trained on each phase in turn", "the usual lower bound", the_head, BY_PHASE,
           finetune_learner, NULL),
    METHOD("joint-sgd", "the same head on all classes at once", "the usual upper bound", the_head, ALL_AT_ONCE, joint_sgd_learner,
           NULL),
    METHOD("lwf", "distils old classes on new images", "Li and Hoiem, ECCV 2016", the_head, BY_PHASE, lwf_learner, NULL),
    METHOD("ewc", "holds coefficients by Fisher information", "Kirkpatrick et al., PNAS 2017", "the head, two sums", BY_PHASE,
           ewc_learner, NULL),
    METHOD("oewc", "the same with one running Fisher information", "Schwarz et al., ICML 2018", "the head, two sums", BY_PHASE,
           oewc_learner, NULL),
    METHOD("rwalk", "holds coefficients by Fisher information and path", "Chaudhry et al., ECCV 2018", "the head, four sums",
           BY_PHASE, rwalk_learner, NULL),
    METHOD("er", "replays from a reservoir", "Chaudhry et al., 2019", reservoir, BY_PHASE, er_learner, NULL),
    METHOD("der++", "replays labels and stored scores from a reservoir", "Buzzega et al., NeurIPS 2020",
           "the same, and their scores", BY_PHASE, derpp_learner, NULL),
    METHOD("icarl", "herded exemplars; distils old classes", "Rebuffi et al., CVPR 2017",
           "features of 20 images per class (herding)", BY_PHASE, icarl_learner, NULL),
    METHOD("bic", "random exemplars; distils, corrects new scores", "Wu et al., CVPR 2019",
           "features of 20 images per class (random)", BY_PHASE, bic_learner, NULL),
    METHOD("prs", "replays from a partitioned reservoir", "Kim et al., ECCV 2020", in_all, BY_PHASE, prs_learner, NULL),
    METHOD("ocdm", "replays from a memory with balanced classes", "Liang and Li, 2022", in_all, BY_PHASE, ocdm_learner, NULL),
    TRAINED("podnet", "distils pooled features of every stage", "Douillard et al., ECCV 2020",
            "the network, 20 images per class (herding)", podnet_learner),
    TRAINED("tpcil", "keeps the topology of the feature space", "Tao et al., ECCV 2020", "20 images per class (herding)",
            tpcil_learner),
    TRAINED("krt", "restores and transfers what old labels taught", "Dong et al., ICCV 2023", "the network, a token per phase",
            krt_learner),
    TRAINED("krt-r", "the same, and replays herded exemplars", "Dong et al., ICCV 2023", "the same, 20 images per class (herding)",
            krt_r_learner),
    TRAINED("csc", "calibrates label relations and confidence", "Du et al., ECCV 2024", networks, csc_learner),
    TRAINED("csc-r", "the same with herded exemplars", "Du et al., ECCV 2024", "the same, 20 images per class", csc_r_learner),
    TRAINED_WITH("l2p", "learns a pool of prompts for a ViT", "Wang et al., CVPR 2022", "prompts", l2p_learner, with_binary_loss),
    TRAINED_WITH("coda-prompt", "learns prompts that attention composes", "Smith et al., CVPR 2023", "prompts", coda_prompt_learner,
                 with_binary_loss),
    TRAINED_WITH("multi-lane", "summarises patch tokens, one lane per task", "De Min et al., CoLLAs 2024", "prompts, selectors",
                 multi_lane_learner, with_binary_loss),
    NAMED("ease", "adds an adapter to the network for each task", "Zhou et al., CVPR 2024", "adapters, prototypes"),
    NAMED("real", "improves the backbone first, then as acil", "He et al., 2024", sums),
};

enum { METHODS = sizeof methods / sizeof methods[0] };

const l3a_method_info *l3a_method_at(size_t index) {
    return index < METHODS ? &methods[index].info : NULL;
}

const struct method *method_find(const char *name) {
    for (size_t i = 0; i < METHODS; i++) {
        if (strcmp(methods[i].info.name, name) == 0) {
            return &methods[i];
        }
    }
    return NULL;
}

l3a_options method_options(const struct method *method, const l3a_options *settings) {
    l3a_options options = *settings;
    if (method->prescribe) {
        method->prescribe(&options);
    }
    return options;
}

/* Whether a list as "|dim|gamma|" has a name; NULL has none. */
static bool lists(const char *list, const char *name) {
    char text[64];
    snprintf(text, sizeof text, "|%s|", name);
    return list && strstr(list, text);
}

static bool is_about_phases(const char *name) {
    static const char *const names[] = {"pseudo", "eta", "tau", "total-classes", "pseudo-from", "alpha", "lift", "keep-phases"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        found = found || strcmp(name, names[i]) == 0;
    }
    return found;
}

bool method_trains(const struct method *method, const l3a_options *settings) {
    return method->learner->score_pictures && settings->method.train_backbone != L3A_TRAIN_BACKBONE_OFF;
}

int l3a_method_sees_pictures(const char *name, const l3a_options *settings) {
    const struct method *method = name && settings ? method_find(name) : NULL;
    return method && method->learner && method_trains(method, settings);
}

bool method_looks_at(const struct method *method, const l3a_options *settings, const char *name, const char *value) {
    const struct learner *learner = method->learner;
    char text[64];
    if (strcmp(name, "views") == 0 || strcmp(name, "score-views") == 0) {
        return true; /* which rows an image has */
    }
    if (learner->settings) {
        const bool layer = settings->method.head_input == L3A_HEAD_INPUT_LAYER;
        const bool trains = method_trains(method, settings);
        return lists(learner->settings, name) || (layer && lists(learner->layer_settings, name)) ||
               (trains && lists(learner->trained_settings, name));
    }
    if (!setting_find(&model_settings, name) || (method->plan != BY_PHASE && is_about_phases(name))) {
        return false;
    }
    if (strcmp(name, "eta") == 0 && strcmp(value, "dynamic") == 0) {
        return settings->model.pseudo == L3A_PSEUDO_DYNAMIC;
    }
    if (l3a_option_needs(settings, name)) {
        return false;
    }
    l3a_options_get(settings, name, text, sizeof text);
    return strcmp(text, value) == 0; /* otherwise the method prescribes another value */
}

const char *method_threshold(const char *name) {
    const struct method *method = method_find(name);
    const struct learner *learner = method ? method->learner : NULL;
    return learner && learner->is_model ? "thresholds" : learner && lists(learner->settings, "head-theta") ? "head-theta" : "theta";
}

static bool makes_model(const struct method *method) {
    return method->learner && method->learner->is_model && method->plan == BY_PHASE;
}

static bool runs(const struct method *method) {
    return method->info.runs;
}

/* What to use instead of a name: the closest one of the methods that suit or, if none is close, a list of all of them. */
static void suggest(const char *name, bool (*suits)(const struct method *), char *hint, size_t capacity) {
    const char *names[METHODS];
    char all[512];
    size_t count = 0, used = (size_t)snprintf(all, sizeof all, "use one of ");
    for (size_t i = 0; i < METHODS; i++) {
        if (suits(&methods[i])) {
            names[count] = methods[i].info.name;
            used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", count ? ", " : "", names[count]);
            count++;
        }
    }
    suggest_closest(hint, capacity, name, names, method_find(name) ? 0 : count, all);
}

l3a_status method_check(l3a_context *context, const char *name) {
    l3a_status status = L3A_OK;
    char hint[512];
    suggest(name, runs, hint, sizeof hint);
    const struct method *method = method_find(name);
    FAIL_IF(!method, context, L3A_ERROR_OPTION, hint, "there is no method '%s'", name);
    FAIL_IF(!runs(method), context, L3A_ERROR_OPTION, hint,
            "method '%s' (%s) trains the backbone itself, but l3a only has the features of a frozen backbone", name,
            method->info.source);
done:
    return status;
}

l3a_status method_check_settings(l3a_context *context, const struct method *method, const l3a_options *settings) {
    l3a_status status = L3A_OK;
    FAIL_IF(method->info.runs == 2 && !method_trains(method, settings), context, L3A_ERROR_OPTION,
            "add --train-backbone, and --data for its pictures",
            "method '%s' (%s) trains the backbone itself, so it does not run on features", method->info.name, method->info.source);
    FAIL_IF(settings->model.gamma == 0 && method->learner->needs_gamma, context, L3A_ERROR_OPTION, "set gamma to a number",
            "method '%s' does not support gamma auto", method->info.name);
done:
    return status;
}

l3a_status l3a_method_options(l3a_context *context, const char *name, l3a_options *options) {
    l3a_status status = L3A_OK;
    char hint[512];
    NEED(context, context, name, options);
    suggest(name, makes_model, hint, sizeof hint);
    const struct method *method = method_find(name);
    FAIL_IF(!method, context, L3A_ERROR_OPTION, hint, "there is no method '%s'", name);
    FAIL_IF(!makes_model(method), context, L3A_ERROR_OPTION, hint, "method '%s' makes no model that learns phase after phase",
            name);
    *options = method_options(method, options);
done:
    return status;
}

l3a_status lesson_members(const struct lesson *lesson, struct own_rows *own) {
    return own_rows_find(lesson->train, BY_MEMBER, lesson->columns + lesson->first, lesson->last - lesson->first, own);
}

l3a_status lesson_rows(const struct lesson *lesson, size_t **rows, size_t *count) {
    return features_rows_with(lesson->train, lesson->columns + lesson->first, lesson->last - lesson->first, rows, count);
}

l3a_status lesson_read_rows(const struct lesson *lesson, const char *stage, const size_t *rows, size_t count, size_t block,
                            lesson_block *take, void *argument) {
    l3a_features *train = lesson->train;
    l3a_context *context = train->context;
    l3a_status status = L3A_OK;
    const size_t classes = lesson->last - lesson->first;
    float *values = NULL;
    int8_t *labels = NULL;
    block = images_of_rows(block, train->views);
    block = block < count ? block : count;
    TRY(allocate(context, block, features_row(train) * sizeof *values, &values));
    TRY(allocate(context, block, classes, &labels));
    for (size_t first = 0; first < count; first += block) {
        const size_t n = count - first < block ? count - first : block;
        TRY(report_progress(context, stage, first, count));
        TRY(l3a_features_read(train, rows + first, 0, n, values));
        TRY(features_gather_labels(train, rows + first, n, lesson->columns + lesson->first, classes, labels));
        TRY(take(argument, values, labels, n));
    }
    TRY(report_progress(context, stage, count, count));
done:
    release(context, values);
    release(context, labels);
    return status;
}

l3a_status lesson_read(const struct lesson *lesson, const char *stage, size_t block, lesson_block *take, void *argument,
                       uint64_t *images) {
    l3a_status status = L3A_OK;
    size_t *rows = NULL, count = 0;
    TRY(lesson_rows(lesson, &rows, &count));
    TRY(lesson_read_rows(lesson, stage, rows, count, block, take, argument));
    *images = count;
done:
    release(lesson->train->context, rows);
    return status;
}

l3a_status lesson_read_part(const struct lesson *lesson, const char *stage, size_t block, lesson_block *take, void *argument,
                            uint64_t *images) {
    l3a_status status = L3A_OK;
    struct own_rows own;
    TRY(own_rows_find(lesson->train, BY_LABEL, lesson->columns + lesson->first, lesson->last - lesson->first, &own));
    TRY(lesson_read_rows(lesson, stage, own.rows, own.count, block, take, argument));
    *images = own.all;
done:
    release(lesson->train->context, own.rows);
    return status;
}
