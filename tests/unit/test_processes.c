/* Processes that learn a phase together, each from its own images. Here they are threads, whose sums meet at a barrier. Every one
 * must end with the model that one process learns from all images. */
#include "support.h"

#include "base/file.h"
#include "base/memory.h"
#include "data/features.h"
#include "learn/model.h"
#include "meeting.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 8, DIM = 40, CLASSES = 6, STEP = 2, ROWS = 301, MOST = 5, LIBRARY = 83 };

static const char *const names[CLASSES] = {"ant", "bee", "cat", "dog", "eel", "fox"};

static float features[ROWS * WIDTH];
static int8_t labels[ROWS * CLASSES];
static float library[LIBRARY * WIDTH];

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
    {{"alpha", "pseudo", "lift", "thresholds", "beta"}, {"0.3", "off", "0.1", "taught", "2"}},
    {{"alpha", "pseudo", "thresholds"}, {"0.3", "off", "taught"}},
};

static void fill_tables(void) {
    int8_t unused[LIBRARY];
    random_table(12, ROWS, WIDTH, CLASSES, 4, features, labels);
    random_table(13, LIBRARY, WIDTH, 1, 2, library, unused);
}

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

/* Gives a model that keeps parts unlabelled images: those of this process, or all of them, if the processes divide them. */
static l3a_status give_library(struct process *process, bool whole) {
    float own[LIBRARY * WIDTH];
    size_t count = 0;
    l3a_features *table = NULL;
    l3a_unlabelled_info info = {.size = sizeof info};
    l3a_status status = L3A_OK;
    if (!keeps_phases(&process->model->options)) {
        return L3A_OK;
    }
    for (size_t i = 0; i < LIBRARY; i++) {
        if (whole || i % process->count == process->number) {
            memcpy(own + count++ * WIDTH, library + i * WIDTH, WIDTH * sizeof *own);
        }
    }
    TRY(l3a_features_wrap(process->context, own, NULL, count, 1, WIDTH, NULL, 0, &table));
    TRY(l3a_model_set_unlabelled(process->model, table, NULL));
    TRY(l3a_model_unlabelled(process->model, &info));
    status = info.images == LIBRARY && info.drawn_from == LIBRARY ? L3A_OK : L3A_ERROR_DATA;
done:
    l3a_features_free(table);
    return status;
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
    meeting_join(process->meeting, process->number, process->count, false, &context_options);
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
        TRY(first ? L3A_OK : give_library(process, false)); /* before and after phases */
    }
done:
    process->status = status;
    return NULL;
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
        assert_near(l3a_model_coefficients(model)[i], l3a_model_coefficients(expected)[i], 1e-12 * coefficients);
        assert_near(l3a_model_cross(model)[i], l3a_model_cross(expected)[i], 1e-12 * cross);
    }
    for (size_t i = 0; i < d; i++) {
        assert_ok(alone->context, l3a_model_matrix(expected, i, 1, row));
        assert_ok(one->context, l3a_model_matrix(model, i, 1, other));
        for (size_t j = 0; j < d; j++) {
            assert_near(other[j], row[j], 1e-12 * fmax(1, largest(row, d)));
        }
    }
    l3a_model_thresholds(expected, mine);
    l3a_model_thresholds(model, theirs);
    for (size_t k = 0; k < classes; k++) {
        assert_near(theirs[k], mine[k], 1e-12);
    }
}

static void check(size_t count, const struct setting *setting) {
    struct process alone = {.setting = setting, .count = 1}, processes[MOST];
    struct meeting meeting;
    pthread_t threads[MOST];
    run_process(&alone);
    assert_ok(alone.context, alone.status);
    meeting_open(&meeting, count);
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
    meeting_close(&meeting);
}

static void processes_end_with_the_model_of_one(void **state) {
    (void)state;
    static const size_t counts[] = {2, 3, 5};
    fill_tables();
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

/* Which of a sample were judged is known to a process alone, so they must all have the same sample. */
static void checksums_are_refused_to_processes_with_tables_of_their_own(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    struct model_options options;
    l3a_model *model = NULL;
    l3a_features *table = NULL;
    const uint64_t checksums[LIBRARY] = {1};
    const l3a_unlabelled_options given = {.size = sizeof given, .checksums = checksums};
    model_options_default(&options);
    options.dim = DIM;
    options.alpha = 0.3;
    options.pseudo = L3A_PSEUDO_OFF;
    assert_ok(context, model_create(context, WIDTH, &options, &model));
    assert_ok(context, l3a_features_wrap(context, library, NULL, LIBRARY, 1, WIDTH, NULL, 0, &table));
    context->options.sum = refuse;
    context->options.processes = 2;
    assert_fails(context, l3a_model_set_unlabelled(model, table, &given), L3A_ERROR_ARGUMENT, "checksums");
    l3a_features_free(table);
    l3a_model_free(model);
    l3a_context_free(context);
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

static void the_recursion_is_refused_to_processes_that_learn_together(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    struct model_options options;
    l3a_model *model = NULL;
    model_options_default(&options);
    options.dim = DIM;
    options.solver = L3A_SOLVER_RECURSIVE;
    assert_ok(context, model_create(context, WIDTH, &options, &model));
    assert_ok(context, l3a_phase_begin(model, names, STEP));
    l3a_phase_abandon(model);
    context->options.sum = refuse;
    context->options.processes = 3;
    assert_fails(context, l3a_phase_begin(model, names, STEP), L3A_ERROR_OPTION, "but 3 learn together");
    assert_non_null(strstr(l3a_error_hint(context), "solver auto or sums"));
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
    options.divide = 2;
    assert_int_equal(l3a_context_create(&options, &context), L3A_ERROR_ARGUMENT);
    options.divide = 1;
    options.sum = NULL;
    assert_int_equal(l3a_context_create(&options, &context), L3A_ERROR_ARGUMENT);
    options.sum = refuse;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    l3a_context_free(context);
}

/* Processes that divide the rows of one table, and what they have measured. */
struct divided {
    struct process process;
    const char *path;
    l3a_metrics metrics;
    double precisions[CLASSES];
};

static void *learn_table(void *argument) {
    struct divided *divided = argument;
    struct process *process = &divided->process;
    l3a_context_options options = {.size = sizeof options, .threads = 1};
    struct model_options settings_of_model;
    l3a_features *table = NULL;
    l3a_status status = L3A_OK;
    meeting_join(process->meeting, process->number, process->count, true, &options);
    TRY(l3a_context_create(&options, &process->context));
    TRY(l3a_features_wrap(process->context, features, labels, ROWS, 1, WIDTH, names, CLASSES, &table));
    model_options_default(&settings_of_model);
    settings_of_model.dim = DIM;
    settings_of_model.precision = L3A_PRECISION_DOUBLE;
    for (size_t i = 0; i < 6 && process->setting->names[i]; i++) {
        TRY(model_options_set(process->context, &settings_of_model, process->setting->names[i], process->setting->values[i]));
    }
    settings_of_model.solver = L3A_SOLVER_SUMS;
    TRY(model_create(process->context, WIDTH, &settings_of_model, &process->model));
    for (size_t first = 0; first < CLASSES; first += STEP) {
        TRY(l3a_model_learn(process->model, table, names + first, STEP));
    }
    TRY(give_library(process, true));
    divided->metrics.size = sizeof divided->metrics;
    TRY(l3a_model_evaluate(process->model, table, NULL, &divided->metrics, divided->precisions));
    TRY(l3a_model_save(process->model, divided->path));
done:
    process->status = status;
    l3a_features_free(table);
    return NULL;
}

static void check_divided(size_t count, const struct setting *setting) {
    struct divided alone = {.process = {.setting = setting, .count = 1}}, all[MOST];
    struct meeting meeting;
    pthread_t threads[MOST];
    char *folder = make_temporary_folder(), *paths[MOST + 1];
    alone.path = paths[MOST] = path_in(folder, "alone");
    learn_table(&alone);
    assert_ok(alone.process.context, alone.process.status);
    meeting_open(&meeting, count);
    for (size_t i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "process%zu", i);
        paths[i] = path_in(folder, name);
        all[i] =
            (struct divided){.process = {.meeting = &meeting, .setting = setting, .number = i, .count = count}, .path = paths[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, learn_table, &all[i]), 0);
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    for (size_t i = 0; i < count; i++) {
        compare(&alone.process, &all[i].process);
        assert_int_equal(all[i].metrics.images, alone.metrics.images);
        assert_near(all[i].metrics.mean_ap, alone.metrics.mean_ap, 1e-10);
        assert_near(all[i].metrics.overall_f1, alone.metrics.overall_f1, 1e-10);
        assert_int_equal(access(paths[i], F_OK) == 0, i == 0); /* only process 0 writes */
        l3a_model_free(all[i].process.model);
        l3a_context_free(all[i].process.context);
        free(paths[i]);
    }
    l3a_model_free(alone.process.model);
    l3a_context_free(alone.process.context);
    free(paths[MOST]);
    remove_folder(folder);
    meeting_close(&meeting);
}

static void processes_divide_the_rows_of_a_table(void **state) {
    (void)state;
    fill_tables();
    for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++) {
        check_divided(2 + s % 4, &settings[s]);
    }
}

static void parts_cover_all_rows(void **state) {
    (void)state;
    struct l3a_context context = {.options = {.sum = refuse, .divide = 1}};
    for (size_t rows = 0; rows < 20; rows++) {
        for (size_t processes = 1; processes < 24; processes++) {
            size_t next = 0, first, count;
            context.options.processes = processes;
            for (context.options.process = 0; context.options.process < processes; context.options.process++) {
                own_part(&context, rows, &first, &count);
                assert_int_equal(first, next);
                assert_true(count == rows / processes || count == rows / processes + 1);
                next = first + count;
            }
            assert_int_equal(next, rows);
        }
    }
    context.options.divide = 0;
    size_t first, count;
    own_part(&context, 7, &first, &count);
    assert_true(first == 0 && count == 7);
}

static void a_process_that_does_not_lead_writes_nothing(void **state) {
    (void)state;
    l3a_context *context = NULL;
    l3a_lock *lock = NULL;
    char *folder = make_temporary_folder(), *path = path_in(folder, "mute");
    struct meeting meeting;
    const l3a_context_options options = {
        .size = sizeof options, .sum = add_up, .sum_user = &meeting, .process = 1, .processes = 2, .divide = 1};
    meeting_open(&meeting, 1);
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    assert_ok(context, l3a_file_write(context, path, "text", 4));
    assert_ok(context, l3a_lock_take(context, path, 0, &lock));
    l3a_lock_free(lock);
    assert_ok(context, make_folder(context, path));
    assert_int_equal(access(path, F_OK), -1);
    l3a_context *writer = make_context(1);
    assert_ok(writer, l3a_file_write(writer, path, "text", 4));
    assert_ok(context, l3a_file_write(context, path, "other", 5));
    assert_ok(context, remove_file(context, path));
    char start[8] = "";
    size_t count;
    assert_ok(context, read_start(context, path, start, sizeof start, &count)); /* but it reads */
    assert_true(count == 4 && memcmp(start, "text", 4) == 0);
    l3a_context_free(context);
    l3a_context_free(writer);
    free(path);
    remove_folder(folder);
    meeting_close(&meeting);
}

/* The first value becomes that of process 0, which has the status 2. */
static int from_lead(void *values, size_t count, l3a_sum_type type, void *user) {
    (void)type;
    uint64_t *numbers = values;
    for (size_t i = 0; i < count; i++) {
        numbers[i] += ((const uint64_t *)user)[i];
    }
    return 0;
}

static void processes_follow_the_first(void **state) {
    (void)state;
    l3a_context *context = NULL;
    uint64_t lead[2] = {L3A_OK, 42}, number = 7;
    const l3a_context_options options = {
        .size = sizeof options, .sum = from_lead, .sum_user = lead, .process = 1, .processes = 2, .divide = 1};
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    assert_ok(context, follow_lead(context, L3A_OK, &number));
    assert_int_equal(number, 42);
    lead[0] = L3A_ERROR_MISMATCH;
    assert_fails(context, follow_lead(context, L3A_OK, NULL), L3A_ERROR_MISMATCH, "process 0 failed");
    assert_int_equal(follow_lead(context, L3A_ERROR_DATA, NULL), L3A_ERROR_DATA);
    l3a_context_free(context);
    context = make_context(1);
    assert_int_equal(follow_lead(context, L3A_ERROR_DATA, &number), L3A_ERROR_DATA);
    assert_int_equal(number, 42);
    l3a_context_free(context);
}

static void launchers_are_recognised(void **state) {
    (void)state;
    static const struct {
        const char *names[4], *values[4];
        size_t processes, process;
    } cases[] = {
        {{NULL, NULL}, {NULL, NULL}, 1, 0},
        {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"4", "3"}, 4, 3},
        {{"PMI_SIZE", "PMI_RANK"}, {"2", "1"}, 2, 1},
        {{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}, {"8", "5"}, 8, 5},
        {{"SLURM_PROCID", NULL}, {"0", NULL}, 1, 0},
        {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"1", "0"}, 1, 0},
        {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"many", "0"}, 1, 0},
        {{"PMIX_RANK", "PMIX_NAMESPACE"}, {"2", "job"}, 0, 2},
        /* srun --mpi=pmix, srun --mpi=pmi2, and mpirun in a job of Slurm */
        {{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "PMIX_RANK", "PMIX_NAMESPACE"}, {"2", "1", "1", "slurm.pmix.4.0"}, 2, 1},
        {{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "PMI_SIZE", "PMI_RANK"}, {"2", "1", "2", "1"}, 2, 1},
        {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}, {"3", "2", "1", "0"}, 3, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t process = 99;
        for (size_t j = 0; j < 4 && cases[i].names[j]; j++) {
            setenv(cases[i].names[j], cases[i].values[j], 1);
        }
        assert_int_equal(l3a_cluster_started(&process), cases[i].processes);
        assert_int_equal(process, cases[i].process);
        setenv("L3A_ALONE", "1", 1);
        assert_int_equal(l3a_cluster_started(&process), 1);
        assert_int_equal(process, 0);
        unsetenv("L3A_ALONE");
        for (size_t j = 0; j < 4 && cases[i].names[j]; j++) {
            unsetenv(cases[i].names[j]);
        }
    }
}

static void a_process_alone_is_a_cluster(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    l3a_cluster *cluster = NULL;
    l3a_context_options options = {.size = sizeof options, .device = "cuda"};
    assert_ok(context, l3a_cluster_open(context, &cluster));
    assert_ok(context, l3a_cluster_join(cluster, &options));
    assert_null(options.sum);
    assert_true(options.divide == 0 && options.threads == 0 && strcmp(options.device, "cuda") == 0);
    assert_int_equal(l3a_cluster_locals(cluster), 1);
    assert_int_equal(l3a_cluster_locals(NULL), 0);
    assert_int_equal(l3a_cluster_end(cluster, 0), 1);
    assert_int_equal(l3a_cluster_end(cluster, 1), 0);
    l3a_cluster_abort(cluster, 1);
    l3a_cluster_free(cluster);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_divide_the_rows_of_a_table),
        cmocka_unit_test(parts_cover_all_rows),
        cmocka_unit_test(a_process_that_does_not_lead_writes_nothing),
        cmocka_unit_test(processes_follow_the_first),
        cmocka_unit_test(launchers_are_recognised),
        cmocka_unit_test(a_process_alone_is_a_cluster),
        cmocka_unit_test(processes_end_with_the_model_of_one),
        cmocka_unit_test(checksums_are_refused_to_processes_with_tables_of_their_own),
        cmocka_unit_test(a_sum_that_fails_leaves_the_model_good),
        cmocka_unit_test(the_recursion_is_refused_to_processes_that_learn_together),
        cmocka_unit_test(a_process_has_a_number_below_that_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
