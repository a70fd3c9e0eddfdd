/* Methods that train a head by gradient descent, through whole runs on a small world. */
#include "support.h"

#include "data/features.h"
#include "memory_probe.h"
#include "method/head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 16, CLASSES = 6, TRAIN = 360, TEST = 180 };

static const char *const class_names[CLASSES] = {"ant", "bee", "cat", "dog", "eel", "fox"};
static const char *const heads[] = {"finetune", "joint-sgd", "lwf",   "ewc", "oewc", "rwalk",
                                    "er",       "der++",     "icarl", "bic", "prs",  "ocdm"};
enum { HEADS = sizeof heads / sizeof heads[0] };

static float train_features[TRAIN * WIDTH], test_features[TEST * WIDTH];
static int8_t train_labels[TRAIN * CLASSES], test_labels[TEST * CLASSES];

/* Every class leaves its mark on the features, in some noise. */
static void make_world(uint64_t seed, size_t rows, float *features, int8_t *labels) {
    float marks[CLASSES * WIDTH];
    int8_t unused[CLASSES];
    random_table(77, CLASSES, WIDTH, 1, 2, marks, unused);
    random_table(seed, rows, WIDTH, CLASSES, 5, features, labels);
    for (size_t i = 0; i < rows * WIDTH; i++) {
        features[i] *= 0.3F;
        for (size_t k = 0; k < CLASSES; k++) {
            features[i] += labels[i / WIDTH * CLASSES + k] == 1 ? marks[k * WIDTH + i % WIDTH] : 0;
        }
    }
}

struct plan {
    const char *const *methods;
    size_t method_count;
    const char *protocol;
    uint64_t seed, epochs;
    l3a_head_input input;
};

/* One whole run, and the tables that it uses. Start from zeroes. */
struct run {
    l3a_experiment *experiment;
    l3a_features *train, *test;
};

static l3a_status run(l3a_context *context, const struct plan *plan, struct run *run) {
    l3a_status status = L3A_OK;
    l3a_experiment_options options = {.size = sizeof options};
    l3a_options settings;
    options_default(&settings);
    TRY(l3a_features_wrap(context, train_features, train_labels, TRAIN, 1, WIDTH, class_names, CLASSES, &run->train));
    TRY(l3a_features_wrap(context, test_features, test_labels, TEST, 1, WIDTH, class_names, CLASSES, &run->test));
    options.train = run->train;
    options.test = run->test;
    options.protocol = plan->protocol;
    options.methods = plan->methods;
    options.method_count = plan->method_count;
    options.seeds = &plan->seed;
    options.seed_count = 1;
    options.settings = &settings;
    settings.model.dim = plan->input == L3A_HEAD_INPUT_LAYER ? 64 : 8;
    settings.method.epochs = plan->epochs;
    settings.method.batch = 16;
    settings.method.first_rate = settings.method.rate = 0.05;
    settings.method.memory = 20;
    settings.method.head_input = plan->input;
    TRY(l3a_experiment_create(context, &options, &run->experiment));
    TRY(l3a_experiment_run(run->experiment));
done:
    return status;
}

static void run_free(struct run *run) {
    l3a_experiment_free(run->experiment);
    l3a_features_free(run->train);
    l3a_features_free(run->test);
    *run = (struct run){0};
}

static const l3a_results *results_of(const struct run *run) {
    return l3a_experiment_results(run->experiment, 0);
}

static double last_map(const l3a_results *results, const char *method) {
    double found = -1;
    for (size_t i = 0; i < l3a_results_count(results); i++) {
        const l3a_result *row = l3a_results_at(results, i);
        found = strcmp(row->method, method) == 0 ? row->metrics.mean_ap : found;
    }
    return found;
}

static void every_method_learns_what_can_be_told_apart(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    struct run done = {0};
    for (l3a_head_input input = L3A_HEAD_INPUT_FEATURES; input <= L3A_HEAD_INPUT_LAYER; input++) {
        assert_ok(context, run(context, &(struct plan){heads, HEADS, "B6-C1", 3, 20, input}, &done));
        assert_int_equal(l3a_results_count(results_of(&done)), HEADS);
        for (size_t i = 0; i < HEADS; i++) {
            assert_true(last_map(results_of(&done), heads[i]) > 97);
        }
        run_free(&done);
    }
    l3a_context_free(context);
}

static void finetune_forgets_and_the_others_forget_less(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    struct run done = {0};
    assert_ok(context, run(context, &(struct plan){heads, HEADS, "B0-C2", 3, 20, L3A_HEAD_INPUT_FEATURES}, &done));
    const double finetune = last_map(results_of(&done), "finetune"), joint = last_map(results_of(&done), "joint-sgd");
    assert_true(finetune < joint - 20);
    for (size_t i = 2; i < HEADS; i++) {
        const double found = last_map(results_of(&done), heads[i]);
        if (!(found > finetune + 3 && found <= joint + 1)) {
            print_error("%s: last mAP %.2f, finetune %.2f, joint-sgd %.2f\n", heads[i], found, finetune, joint);
        }
        assert_true(found > finetune + 3 && found <= joint + 1);
    }
    run_free(&done);
    l3a_context_free(context);
}

static void check_threads(l3a_head_input input) {
    struct run runs[3] = {{0}};
    l3a_context *contexts[3];
    for (size_t i = 0; i < 3; i++) {
        contexts[i] = make_context(i == 1 ? 2 : 1);
        assert_ok(contexts[i], run(contexts[i], &(struct plan){heads, HEADS, "B0-C2", i < 2 ? 3 : 4, 3, input}, &runs[i]));
    }
    bool differs = false;
    for (size_t i = 0; i < l3a_results_count(results_of(&runs[0])); i++) {
        const l3a_metrics *one = &l3a_results_at(results_of(&runs[0]), i)->metrics;
        assert_memory_equal(one, &l3a_results_at(results_of(&runs[1]), i)->metrics, sizeof *one);
        differs = differs || one->mean_ap != l3a_results_at(results_of(&runs[2]), i)->metrics.mean_ap;
    }
    assert_true(differs);
    for (size_t i = 0; i < 3; i++) {
        run_free(&runs[i]);
        l3a_context_free(contexts[i]);
    }
}

static void a_seed_gives_the_same_numbers_on_any_number_of_threads(void **state) {
    (void)state;
    check_threads(L3A_HEAD_INPUT_FEATURES);
    check_threads(L3A_HEAD_INPUT_LAYER);
}

/* docs/methods-gradient.md has these numbers. */
static void every_method_has_the_settings_that_were_tuned_for_it(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double first_rate, rate, lambda;
        size_t memory;
    } expected[HEADS] = {{"finetune", 0.01, 0.003, 0, 0}, {"joint-sgd", 0.003, 0.003, 0, 0}, {"lwf", 0.01, 0.01, 1, 0},
                         {"ewc", 0.01, 0.01, 1000, 0},    {"oewc", 0.01, 0.01, 1000, 0},     {"rwalk", 0.01, 0.01, 10000, 0},
                         {"er", 0.01, 0.003, 0, 20},      {"der++", 0.01, 0.01, 10, 20},     {"icarl", 0.01, 0.003, 1, 20},
                         {"bic", 0.01, 0.003, 10, 20},    {"prs", 0.01, 0.003, 0, 1000},     {"ocdm", 0.01, 0.003, 0, 1000}};
    l3a_context *context = make_context(1);
    l3a_options options;
    options_default(&options);
    for (size_t i = 0; i < HEADS; i++) {
        const struct method *method = method_find(expected[i].name);
        void *made = NULL;
        assert_ok(context, method->learner->create(context, method, &options, WIDTH, &made));
        const struct tuning *tuning = &((const struct head *)made)->tuning;
        assert_int_equal(tuning->epochs, 20);
        assert_true(tuning->first_rate == expected[i].first_rate && tuning->rate == expected[i].rate);
        assert_true(tuning->lambda == expected[i].lambda);
        assert_int_equal(tuning->memory, expected[i].memory);
        assert_int_equal(tuning->of_each_class, tuning->memory == 20);
        head_free(made);
    }
    l3a_context_free(context);
}

/* A method's learner by itself, over a few phases of two classes. */
static void learn_phase(const struct method *method, void *state, l3a_features *train, size_t phase) {
    static const size_t columns[CLASSES] = {0, 1, 2, 3, 4, 5}, bounds[] = {0, 2, 4, 6};
    const struct lesson lesson = {.train = train,
                                  .names = class_names,
                                  .columns = columns,
                                  .bounds = bounds,
                                  .phases = 3,
                                  .first = bounds[phase],
                                  .last = bounds[phase + 1]};
    struct outcome outcome = {0};
    assert_ok(train->context, method->learner->learn(state, &lesson, &outcome));
}

static void distillation_in_place_of_labels_leaves_old_classes_as_they_are(void **state) {
    (void)state;
    static const char *const names[] = {"lwf", "icarl"};
    l3a_context *context = make_context(1);
    l3a_features *train = NULL;
    l3a_options options;
    options_default(&options);
    options.method.epochs = 4;
    options.method.batch = 16;
    assert_ok(context, l3a_features_wrap(context, train_features, train_labels, TRAIN, 1, WIDTH, class_names, CLASSES, &train));
    for (size_t i = 0; i < 2 * 2; i++) {
        const struct method *method = method_find(names[i / 2]);
        void *made = NULL;
        options.method.head_input = i % 2 ? L3A_HEAD_INPUT_LAYER : L3A_HEAD_INPUT_FEATURES;
        options.model.dim = 40;
        options.model.skip_features = L3A_SKIP_ON;
        assert_ok(context, method->learner->create(context, method, &options, WIDTH, &made));
        const struct head *head = made;
        float before[2 * (40 + WIDTH + 1)];
        learn_phase(method, made, train, 0);
        assert_int_equal(head->inputs, i % 2 ? 40 + WIDTH + 1 : WIDTH + 1);
        memcpy(before, head->coefficients, 2 * head->inputs * sizeof *before);
        learn_phase(method, made, train, 1);
        assert_int_equal(head->classes, 4);
        assert_memory_equal(before, head->coefficients, 2 * head->inputs * sizeof *before);
        head_free(made);
    }
    l3a_features_free(train);
    l3a_context_free(context);
}

/* Rows of a phase may be without any label of it. */
static void rows_without_a_label_are_no_division_by_zero(void **state) {
    (void)state;
    enum { COUNT = 40 };
    l3a_context *context = make_context(1);
    l3a_options options;
    options_default(&options);
    options.method.memory = 3;
    for (size_t i = 0; i < HEADS; i++) {
        const struct method *method = method_find(heads[i]);
        void *made = NULL;
        assert_ok(context, method->learner->create(context, method, &options, WIDTH, &made));
        struct head *head = made;
        float features[COUNT * (WIDTH + 1)];
        int8_t labels[COUNT * 2];
        head->total_classes = 6;
        for (size_t phase = 0; phase < 3; phase++) {
            for (size_t j = 0; j < COUNT * (WIDTH + 1); j++) {
                features[j] = j % (WIDTH + 1) == WIDTH ? 1 : train_features[j];
            }
            for (size_t j = 0; j < COUNT * 2; j++) { /* the second phase has no label at all */
                labels[j] = phase != 1 && j % 7 == 0;
            }
            struct rows rows = {.count = COUNT, .inputs = WIDTH + 1, .classes = 2, .features = features, .labels = labels};
            assert_ok(context, head_learn_rows(head, &rows));
            for (size_t j = 0; j < head->classes * head->inputs; j++) {
                assert_true(isfinite(head->coefficients[j]));
            }
        }
        head_free(made);
    }
    l3a_context_free(context);
}

/* Watches the memory, and cancels in the middle of a phase. */
struct probe {
    struct memory_probe memory;
    uint64_t cancel_at; /* epoch; 0: never */
    bool cancelled;
};

static int on_event(const l3a_event *event, void *user) {
    struct probe *probe = user;
    const bool trained = event->kind == L3A_EVENT_PROGRESS && strcmp(event->stage, "head") == 0;
    probe->cancelled = probe->cancelled || (trained && probe->cancel_at && event->done == probe->cancel_at);
    return probe->cancelled;
}

static l3a_status probed_run(struct probe *probe, const struct plan *plan) {
    l3a_context_options options = {.size = sizeof options};
    l3a_context *context = NULL;
    struct run done = {0};
    options.threads = 1;
    use_probe(&options, &probe->memory);
    options.on_event = on_event;
    options.event_user = probe;
    l3a_status status = l3a_context_create(&options, &context);
    if (status == L3A_OK) {
        status = run(context, plan, &done);
    }
    run_free(&done);
    l3a_context_free(context);
    return status;
}

static void training_can_be_stopped_between_epochs(void **state) {
    (void)state;
    for (size_t i = 0; i < HEADS; i++) {
        struct probe probe = {.cancel_at = 2};
        assert_int_equal(probed_run(&probe, &(struct plan){&heads[i], 1, "B0-C2", 3, 5, L3A_HEAD_INPUT_LAYER}),
                         L3A_ERROR_CANCELLED);
        assert_int_equal(probe.memory.blocks, 0);
    }
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    for (size_t i = 0; i < HEADS; i++) {
        const l3a_head_input input = i % 2 ? L3A_HEAD_INPUT_FEATURES : L3A_HEAD_INPUT_LAYER;
        l3a_status status = L3A_ERROR_MEMORY;
        for (size_t n = 1; status != L3A_OK; n++) {
            struct probe probe = {.memory = {.fails_at = n}};
            status = probed_run(&probe, &(struct plan){&heads[i], 1, "B0-C3", 3, 1, input});
            assert_true(status == L3A_OK || status == L3A_ERROR_MEMORY);
            assert_int_equal(probe.memory.blocks, 0);
            assert_true(n < 10000);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_learns_what_can_be_told_apart),
        cmocka_unit_test(finetune_forgets_and_the_others_forget_less),
        cmocka_unit_test(a_seed_gives_the_same_numbers_on_any_number_of_threads),
        cmocka_unit_test(every_method_has_the_settings_that_were_tuned_for_it),
        cmocka_unit_test(distillation_in_place_of_labels_leaves_old_classes_as_they_are),
        cmocka_unit_test(rows_without_a_label_are_no_division_by_zero),
        cmocka_unit_test(training_can_be_stopped_between_epochs),
        cmocka_unit_test(any_allocation_may_fail),
    };
    make_world(5, TRAIN, train_features, train_labels);
    make_world(6, TEST, test_features, test_labels);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
