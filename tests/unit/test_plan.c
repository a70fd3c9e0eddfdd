/* The plan of memory against what the allocator hands out: counted exactly, byte by byte. */
#include "support.h"

#include "learn/model.h"
#include "memory_probe.h"
#include "learn/model_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 128, CLASSES = 6, PHASES = 3, ROWS = 2300 };

static struct memory_probe memory;

struct setting {
    const char *what;
    const char *names[6], *values[6];
};

static const struct setting settings[] = {
    {"l3a", {"dim"}, {"1024"}},
    {"l3a in double precision", {"dim", "precision"}, {"1024", "double"}},
    {"l3a without pseudo-labels", {"dim", "pseudo"}, {"1024", "off"}},
    {"l3a with a small block", {"dim", "block"}, {"1024", "100"}},
    {"l3a with few rows", {"dim"}, {"1024"}},
    {"sums", {"dim", "solver"}, {"1536", "sums"}},
    {"gamma auto", {"dim", "gamma"}, {"1024", "auto"}},
    {"the recursion", {"dim", "solver"}, {"1024", "recursive"}},
    {"the recursion in double precision", {"dim", "solver", "precision"}, {"1024", "recursive", "double"}},
    {"l3a+", {"dim", "alpha", "lift", "gamma", "skip-features", "thresholds"}, {"1024", "0.3", "0.1", "auto", "auto", "per-class"}},
    {"l3a+ in double precision", {"dim", "alpha", "gamma", "precision"}, {"1024", "0.3", "auto", "double"}},
    {"l3a+ with features beside the layer", {"dim", "alpha", "skip-features"}, {"1024", "0.3", "on"}},
    {"l3a+, folded", {"dim", "alpha", "keep-phases"}, {"1024", "0.3", "1"}},
    {"l3a+, folded from the third phase on", {"dim", "alpha", "keep-phases"}, {"1024", "0.3", "2"}},
    {"phases kept apart, alpha 1", {"dim", "keep-phases"}, {"1024", "4"}},
};

/* So few rows that the solver `auto` takes the recursion. */
static size_t rows_of(size_t s, size_t t) {
    return strcmp(settings[s].what, "l3a with few rows") == 0 ? 60 + 400 * t : ROWS;
}

static void learn_phase(l3a_context *context, l3a_model *model, size_t t, const float *features, const int8_t *labels,
                        size_t rows) {
    char texts[CLASSES][8];
    const char *names[CLASSES];
    for (size_t k = 0; k < CLASSES; k++) {
        snprintf(texts[k], sizeof texts[k], "c%zu-%zu", t, k);
        names[k] = texts[k];
    }
    assert_ok(context, l3a_phase_begin(model, names, CLASSES));
    assert_ok(context, l3a_phase_count(model, labels, rows));
    assert_ok(context, l3a_phase_learn(model, features, labels, rows));
    assert_ok(context, l3a_phase_end(model));
}

/* Never below, and 5 % above at most. */
static void check_plan(const char *what, size_t t, uint64_t plan) {
    const double ratio = (double)plan / (double)memory.most;
    if (ratio < 1 || ratio > 1.05) {
        print_error("%s, phase %zu: %.3f of the %zu bytes that were allocated are planned\n", what, t + 1, ratio, memory.most);
    }
    assert_true(ratio >= 1 && ratio <= 1.05);
}

/* The other processes have no rows. */
static int add_nothing(void *values, size_t count, l3a_sum_type type, void *user) {
    (void)values;
    (void)count;
    (void)type;
    (void)user;
    return 0;
}

/* A few are enough. */
static bool is_shared(size_t s) {
    static const char *const shared[] = {"l3a", "l3a with a small block", "sums", "gamma auto", "l3a+ in double precision"};
    bool found = false;
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        found = found || strcmp(settings[s].what, shared[i]) == 0;
    }
    return found;
}

static void check_phases(bool alone) {
    float *features = malloc(ROWS * WIDTH * sizeof *features);
    int8_t *labels = malloc(ROWS * CLASSES);
    assert_true(features && labels);
    random_table(3, ROWS, WIDTH, CLASSES, 4, features, labels);
    for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++) {
        if (!alone && !is_shared(s)) {
            continue;
        }
        l3a_context_options context_options = {.size = sizeof context_options};
        l3a_context *context = NULL;
        l3a_model *model = NULL;
        l3a_options options;
        if (!alone) {
            context_options.sum = add_nothing;
            context_options.processes = 2;
        }
        use_probe(&context_options, &memory);
        assert_int_equal(l3a_context_create(&context_options, &context), L3A_OK);
        options_default(&options);
        for (size_t i = 0; i < 6 && settings[s].names[i]; i++) {
            assert_ok(context, l3a_options_set(context, &options, settings[s].names[i], settings[s].values[i]));
        }
        options.model.pseudo = options.model.alpha < 1 ? L3A_PSEUDO_OFF : options.model.pseudo;
        assert_ok(context, l3a_model_create(context, WIDTH, &options, &model));
        for (size_t t = 0; t < PHASES; t++) {
            const struct phase_size size = {t * CLASSES, (t + 1) * CLASSES, rows_of(s, t), model->evidence->part_count,
                                            model->evidence->ridge.inverse};
            const uint64_t plan = phase_memory(PROCESSOR, context, &model->options, WIDTH, &size);
            memory.most = memory.now;
            learn_phase(context, model, t, features, labels, rows_of(s, t));
            check_plan(settings[s].what, t, plan);
        }
        l3a_model_free(model);
        l3a_context_free(context);
        assert_int_equal(memory.now, 0);
    }
    free(features);
    free(labels);
}

static void each_phase_takes_what_was_planned(void **state) {
    (void)state;
    check_phases(true);
}

static void sharing_sums_takes_what_was_planned(void **state) {
    (void)state;
    check_phases(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_phase_takes_what_was_planned),
                                       cmocka_unit_test(sharing_sums_takes_what_was_planned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
