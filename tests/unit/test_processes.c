/* Processes that learn a phase together, each from its own images. Here they are threads, whose sums meet at a barrier. Every one
 * must end with the model that one process learns from all images. */
#include "support.h"

#include "base/memory.h"
#include "data/features.h"
#include "learn/model.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 8, DIM = 40, CLASSES = 6, STEP = 2, ROWS = 301, MOST = 5 };

static const char *const names[CLASSES] = {"ant", "bee", "cat", "dog", "eel", "fox"};

static float features[ROWS * WIDTH];
static int8_t labels[ROWS * CLASSES];

/* All processes add to one array between two barriers. */
struct meeting {
    pthread_barrier_t barrier;
    pthread_mutex_t lock;
    unsigned char *total;
    size_t count;
};

static int add_up(void *values, size_t count, l3a_sum_type type, void *user) {
    struct meeting *meeting = user;
    if (pthread_barrier_wait(&meeting->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
        free(meeting->total);
        meeting->total = calloc(count, 8);
        meeting->count = count;
    }
    pthread_barrier_wait(&meeting->barrier);
    if (meeting->count != count) {
        return 1; /* they do not make the same calls */
    }
    pthread_mutex_lock(&meeting->lock);
    for (size_t i = 0; i < count; i++) {
        if (type == L3A_SUM_FLOAT64) {
            ((double *)(void *)meeting->total)[i] += ((double *)values)[i];
        } else {
            ((uint64_t *)(void *)meeting->total)[i] += ((uint64_t *)values)[i];
        }
    }
    pthread_mutex_unlock(&meeting->lock);
    pthread_barrier_wait(&meeting->barrier);
    memcpy(values, meeting->total, count * 8);
    pthread_barrier_wait(&meeting->barrier);
    return 0;
}

struct setting {
    const char *names[6], *values[6];
};

static const struct setting settings[] = {
    {{"solver"}, {"sums"}},
    {{"solver", "eta"}, {"auto", "0.51"}},
    {{"pseudo", "tau"}, {"dynamic", "1.4"}},
    {{"gamma"}, {"auto"}},
    {{"alpha", "pseudo", "lift", "gamma", "thresholds"}, {"0.3", "off", "0.1", "auto", "per-class"}},
    {{"alpha", "pseudo", "keep-phases", "weights"}, {"0.3", "off", "2", "none"}},
};

struct process {
    struct meeting *meeting;
    const struct setting *setting;
    size_t number, count;
    l3a_context *context;
    l3a_model *model;
    l3a_status status;
};

/* The rows of a phase that are this process's: one run of them, the last process none in the second phase. */
static size_t choose_rows(const struct process *process, size_t first, float *z, int8_t *y) {
    size_t belonging = 0, taken = 0;
    const size_t shares = process->count > 1 && first == STEP ? process->count - 1 : process->count;
    size_t total = 0;
    for (size_t i = 0; i < ROWS; i++) {
        total += labels[i * CLASSES + first] == 1 || labels[i * CLASSES + first + 1] == 1;
    }
    for (size_t i = 0; i < ROWS; i++) {
        if (labels[i * CLASSES + first] != 1 && labels[i * CLASSES + first + 1] != 1) {
            continue;
        }
        if (belonging * shares / total == process->number) {
            memcpy(z + taken * WIDTH, features + i * WIDTH, WIDTH * sizeof *z);
            memcpy(y + taken * STEP, labels + i * CLASSES + first, STEP);
            taken++;
        }
        belonging++;
    }
    return taken;
}

static l3a_status learn_phase(struct process *process, size_t first) {
    l3a_status status = L3A_OK;
    float *z = malloc(ROWS * WIDTH * sizeof *z);
    int8_t *y = malloc(ROWS * STEP);
    const size_t rows = choose_rows(process, first, z, y);
    TRY(l3a_phase_begin(process->model, names + first, STEP));
    TRY(l3a_phase_count(process->model, y, rows));
    if (rows) {
        TRY(l3a_phase_survey(process->model, z, rows));
        TRY(l3a_phase_learn(process->model, z, y, rows));
    }
    TRY(l3a_phase_end(process->model));
done:
    free(z);
    free(y);
    return status;
}

static void *run_process(void *argument) {
    struct process *process = argument;
    l3a_context_options context_options = {.size = sizeof context_options};
    struct model_options options;
    l3a_status status = L3A_OK;
    context_options.threads = 1;
    if (process->meeting) {
        context_options.sum = add_up;
        context_options.sum_user = process->meeting;
        context_options.process = process->number;
        context_options.processes = process->count;
    }
    TRY(l3a_context_create(&context_options, &process->context));
    model_options_default(&options);
    options.dim = DIM;
    options.gamma = 0.5;
    options.precision = L3A_PRECISION_DOUBLE;
    for (size_t i = 0; i < 6 && process->setting->names[i]; i++) {
        TRY(model_options_set(process->context, &options, process->setting->names[i], process->setting->values[i]));
    }
    TRY(model_create(process->context, WIDTH, &options, &process->model));
    for (size_t first = 0; first < CLASSES; first += STEP) {
        TRY(learn_phase(process, first));
    }
done:
    process->status = status;
    return NULL;
}

static void near(double one, double other, double size) {
    if (!(fabs(one - other) <= 1e-12 * size)) {
        print_error("%.17g and %.17g differ\n", one, other);
    }
    assert_true(fabs(one - other) <= 1e-12 * size);
}

static double largest(const double *values, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, fabs(values[i]));
    }
    return most;
}

static void compare(const struct process *alone, const struct process *one) {
    const l3a_model *expected = alone->model, *model = one->model;
    const size_t d = l3a_model_inputs(expected), classes = CLASSES;
    double row[DIM], other[DIM], mine[CLASSES], theirs[CLASSES];
    assert_ok(one->context, one->status);
    assert_true(model->options.gamma == expected->options.gamma);
    for (size_t p = 0; p < CLASSES / STEP; p++) {
        const l3a_phase_info *a = l3a_model_phase(expected, p), *b = l3a_model_phase(model, p);
        assert_true(a->images == b->images && a->skipped == b->skipped && a->pseudo_labels == b->pseudo_labels && a->eta == b->eta);
    }
    for (size_t k = 0; k < classes; k++) {
        assert_int_equal(l3a_model_class_images(expected, k), l3a_model_class_images(model, k));
    }
    const double coefficients = largest(l3a_model_coefficients(expected), d * classes),
                 cross = largest(l3a_model_cross(expected), d * classes);
    for (size_t i = 0; i < d * classes; i++) {
        near(l3a_model_coefficients(model)[i], l3a_model_coefficients(expected)[i], coefficients);
        near(l3a_model_cross(model)[i], l3a_model_cross(expected)[i], cross);
    }
    for (size_t i = 0; i < d; i++) {
        assert_ok(alone->context, l3a_model_matrix(expected, i, 1, row));
        assert_ok(one->context, l3a_model_matrix(model, i, 1, other));
        for (size_t j = 0; j < d; j++) {
            near(other[j], row[j], fmax(1, largest(row, d)));
        }
    }
    l3a_model_thresholds(expected, mine);
    l3a_model_thresholds(model, theirs);
    for (size_t k = 0; k < classes; k++) {
        near(theirs[k], mine[k], 1);
    }
}

static void check(size_t count, const struct setting *setting) {
    struct process alone = {.setting = setting, .count = 1}, processes[MOST];
    struct meeting meeting = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[MOST];
    run_process(&alone);
    assert_ok(alone.context, alone.status);
    assert_int_equal(pthread_barrier_init(&meeting.barrier, NULL, (unsigned)count), 0);
    for (size_t i = 0; i < count; i++) {
        processes[i] = (struct process){.meeting = &meeting, .setting = setting, .number = i, .count = count};
        assert_int_equal(pthread_create(&threads[i], NULL, run_process, &processes[i]), 0);
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    for (size_t i = 0; i < count; i++) {
        compare(&alone, &processes[i]);
        l3a_model_free(processes[i].model);
        l3a_context_free(processes[i].context);
    }
    l3a_model_free(alone.model);
    l3a_context_free(alone.context);
    pthread_barrier_destroy(&meeting.barrier);
    free(meeting.total);
}

static void processes_end_with_the_model_of_one(void **state) {
    (void)state;
    static const size_t counts[] = {2, 3, 5};
    random_table(12, ROWS, WIDTH, CLASSES, 4, features, labels);
    for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++) {
        for (size_t i = 0; i < 3; i++) {
            check(counts[i], &settings[s]);
        }
    }
}

static int refuse(void *values, size_t count, l3a_sum_type type, void *user) {
    (void)values;
    (void)count;
    (void)type;
    (void)user;
    return 1;
}

static void a_sum_that_fails_leaves_the_model_good(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    struct model_options options;
    l3a_model *model = NULL;
    random_table(12, ROWS, WIDTH, CLASSES, 4, features, labels);
    model_options_default(&options);
    options.dim = DIM;
    assert_ok(context, model_create(context, WIDTH, &options, &model));
    context->options.sum = refuse;
    context->options.processes = 2;
    assert_ok(context, l3a_phase_begin(model, names, CLASSES));
    assert_ok(context, l3a_phase_count(model, labels, ROWS));
    assert_fails(context, l3a_phase_learn(model, features, labels, ROWS), L3A_ERROR_IO, "other processes");
    l3a_phase_abandon(model);
    context->options.sum = NULL;
    assert_ok(context, l3a_phase_begin(model, names, CLASSES));
    assert_ok(context, l3a_phase_count(model, labels, ROWS));
    assert_ok(context, l3a_phase_learn(model, features, labels, ROWS));
    assert_ok(context, l3a_phase_end(model));
    l3a_model_free(model);
    l3a_context_free(context);
}

static void a_process_has_a_number_below_that_of_all(void **state) {
    (void)state;
    l3a_context *context = NULL;
    l3a_context_options options = {.size = sizeof options, .sum = refuse};
    assert_int_equal(l3a_context_create(&options, &context), L3A_ERROR_ARGUMENT);
    options.process = options.processes = 2;
    assert_int_equal(l3a_context_create(&options, &context), L3A_ERROR_ARGUMENT);
    assert_null(context);
    options.process = 1;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_end_with_the_model_of_one),
        cmocka_unit_test(a_sum_that_fails_leaves_the_model_good),
        cmocka_unit_test(a_process_has_a_number_below_that_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
