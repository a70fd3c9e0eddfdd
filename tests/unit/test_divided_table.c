/* A table in a file whose rows several processes divide. Each holds the labels and members of its own part of the rows and no ids,
 * and all end with the model and the metrics of one process. Here they are threads, whose sums meet at a barrier. */
#include "support.h"

#include "data/features.h"
#include "learn/model.h"
#include "meeting.h"
#include "memory_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The labels are sorted by class, and are most of what a process holds. */
enum { ROWS = 8000, WIDTH = 4, DIM = 16, CLASSES = 300, PHASES = 2, OWN = CLASSES / PHASES, MOST = 4 };

static struct {
    float values[ROWS * WIDTH];
    int8_t labels[ROWS * CLASSES], members[ROWS * CLASSES];
    char names[CLASSES][8];
    const char *classes[CLASSES];
} table;

static const char *id_of(size_t row, char text[32]) {
    snprintf(text, 32, "%.*s%zu.jpg", (int)(row % 9), "pictures/", row);
    return text;
}

/* Row i shows the class i * CLASSES / ROWS, some show the next one as well, and some only a crowd of it. */
static void fill_table(void) {
    random_table(7, ROWS, WIDTH, CLASSES, 2, table.values, table.labels);
    memset(table.labels, 0, sizeof table.labels);
    for (size_t i = 0; i < ROWS; i++) {
        const size_t class = i * CLASSES / ROWS;
        table.labels[i * CLASSES + class] = i % 11 != 5;
        table.labels[i * CLASSES + (class + 1) % CLASSES] = i % 5 == 3;
        table.values[i * WIDTH + class % WIDTH] += 2;
    }
    memcpy(table.members, table.labels, sizeof table.members);
    for (size_t i = 5; i < ROWS; i += 11) {
        table.members[i * CLASSES + i * CLASSES / ROWS] = 1;
    }
    for (size_t k = 0; k < CLASSES; k++) {
        snprintf(table.names[k], sizeof table.names[k], "c%zu", k);
        table.classes[k] = table.names[k];
    }
}

static void write_table(const char *path) {
    l3a_context *context = make_context(1);
    text_list keys = {0}, values = {0};
    text_builder ids = {.context = context}, classes = {.context = context};
    char id[32];
    for (size_t i = 0; i < ROWS; i++) {
        text_builder_print(&ids, "%s\n", id_of(i, id));
    }
    for (size_t k = 0; k < CLASSES; k++) {
        text_builder_print(&classes, "%s%s", k ? "\n" : "", table.classes[k]);
    }
    const tensor_source sources[] = {{"features", TENSOR_F32, 2, {ROWS, WIDTH}, fill_from_memory, table.values},
                                     {"labels", TENSOR_I8, 2, {ROWS, CLASSES}, fill_from_memory, table.labels},
                                     {"members", TENSOR_I8, 2, {ROWS, CLASSES}, fill_from_memory, table.members},
                                     {"ids", TENSOR_U8, 1, {ids.length}, fill_from_memory, ids.text}};
    assert_ok(context, text_record_set(context, &keys, &values, "classes", classes.text));
    assert_ok(context, safetensors_write(context, path, &keys, &values, sources, 4));
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
    text_builder_free(&ids);
    text_builder_free(&classes);
    l3a_context_free(context);
}

struct process {
    struct meeting *meeting; /* NULL: alone */
    const char *path;
    size_t number, count;
    bool reads_all; /* asks for all labels in between */
    l3a_status status;
    l3a_context *context;
    l3a_model *model;
    struct memory_probe memory;
    size_t opened, learning[PHASES], measuring; /* bytes */
    uint64_t planned[PHASES];
    uint64_t learned[PHASES]; /* rows */
    size_t phase;
    l3a_metrics metrics;
    bool right; /* ids, and labels */
};

static int note_rows(const l3a_event *event, void *user) {
    struct process *process = user;
    if (event->kind == L3A_EVENT_PROGRESS && strcmp(event->stage, "learn") == 0) {
        process->learned[process->phase] = event->total;
    }
    return 0;
}

static l3a_status open_context(struct process *process) {
    l3a_context_options options = {.size = sizeof options, .threads = 1, .on_event = note_rows, .event_user = process};
    meeting_join(process->meeting, process->number, process->count, true, &options);
    use_probe(&options, &process->memory);
    return l3a_context_create(&options, &process->context);
}

/* Rows forwards and backwards, so that the reader of ids begins again. */
static bool has_ids(const l3a_features *features) {
    static const size_t rows[] = {0, 1, ROWS - 1, ROWS / 2, ROWS / 2 + 1, 7, 0, 4097};
    char text[32];
    bool right = !l3a_features_id(features, ROWS);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *id = l3a_features_id(features, rows[i]);
        right = right && id && strcmp(id, id_of(rows[i], text)) == 0;
    }
    return right;
}

static bool has_labels(const l3a_features *features) {
    const int8_t *labels = l3a_features_labels(features), *members = l3a_features_members(features);
    return labels && members && memcmp(labels, table.labels, sizeof table.labels) == 0 &&
           memcmp(members, table.members, sizeof table.members) == 0;
}

static l3a_status learn_phase(struct process *process, l3a_features *features) {
    l3a_status status = L3A_OK;
    l3a_plan plan = {.size = sizeof plan};
    const size_t t = process->phase;
    uint64_t images;
    TRY(l3a_model_prepare(process->model, features, table.classes + t * OWN, OWN, &images, &plan));
    process->planned[t] = plan.memory;
    process->memory.most = process->memory.now;
    TRY(l3a_model_learn(process->model, features, table.classes + t * OWN, OWN));
    process->learning[t] = process->memory.most;
done:
    return status;
}

static void *work(void *argument) {
    struct process *process = argument;
    l3a_features *features = NULL;
    struct model_options options;
    l3a_status status = L3A_OK;
    TRY(open_context(process));
    const size_t before = process->memory.now;
    TRY(l3a_features_open(process->context, process->path, &features));
    process->opened = process->memory.now - before;
    process->right = has_ids(features);
    model_options_default(&options);
    options.dim = DIM;
    options.gamma = 1;
    options.block = 16;
    options.precision = L3A_PRECISION_DOUBLE;
    options.solver = L3A_SOLVER_SUMS;
    TRY(model_create(process->context, WIDTH, &options, &process->model));
    for (process->phase = 0; process->phase < PHASES; process->phase++) {
        TRY(learn_phase(process, features));
    }
    process->metrics.size = sizeof process->metrics;
    process->memory.most = process->memory.now;
    TRY(l3a_model_evaluate(process->model, features, NULL, &process->metrics, NULL));
    process->measuring = process->memory.most;
    if (process->reads_all) {
        process->right = process->right && has_labels(features) && has_ids(features);
    }
    TRY(l3a_model_evaluate(process->model, features, NULL, &process->metrics, NULL));
done:
    l3a_features_free(features);
    process->status = status;
    return NULL;
}

static void end_process(struct process *process) {
    l3a_model_free(process->model);
    l3a_context_free(process->context);
    assert_int_equal(process->memory.blocks, 0);
}

static void run_processes(struct process *processes, size_t count, const char *path) {
    struct meeting meeting;
    pthread_t threads[MOST];
    meeting_open(&meeting, count);
    for (size_t i = 0; i < count; i++) {
        processes[i] = (struct process){.meeting = &meeting, .path = path, .number = i, .count = count, .reads_all = i == 1};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &processes[i]), 0);
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        assert_ok(processes[i].context, processes[i].status);
        assert_true(processes[i].right);
    }
    meeting_close(&meeting);
}

static void compare(const struct process *alone, const struct process *one) {
    const size_t numbers = l3a_model_inputs(alone->model) * CLASSES;
    const double *expected = l3a_model_coefficients(alone->model), *found = l3a_model_coefficients(one->model);
    double most = 0;
    for (size_t i = 0; i < numbers; i++) {
        most = expected[i] > most ? expected[i] : most;
    }
    for (size_t i = 0; i < numbers; i++) {
        assert_near(found[i], expected[i], 1e-11 * most);
    }
    for (size_t t = 0; t < PHASES; t++) {
        const l3a_phase_info *mine = l3a_model_phase(alone->model, t), *theirs = l3a_model_phase(one->model, t);
        assert_true(mine->images == theirs->images && mine->skipped == theirs->skipped);
    }
    assert_string_equal(l3a_model_record(one->model, "holds"), l3a_model_record(alone->model, "holds"));
    assert_int_equal(one->metrics.images, alone->metrics.images);
    assert_near(one->metrics.mean_ap, alone->metrics.mean_ap, 1e-9);
    assert_near(one->metrics.overall_f1, alone->metrics.overall_f1, 1e-9);
}

/* What a process needs beside the labels of its rows, which is the same in all. */
enum { REST = 1 << 20 };

/* The lists of so many classes are planned roughly, and the room to read labels is not always needed. */
static void check_plan(uint64_t planned, size_t taken) {
    assert_true((double)planned > 0.995 * (double)taken && (double)planned < 1.2 * (double)taken);
}

static void check_memory(const struct process *alone, const struct process *one) {
    const size_t labels = 2 * ROWS * CLASSES; /* with members */
    assert_true(alone->opened >= labels);
    assert_true(one->opened < labels / MOST + 16384);
    for (size_t t = 0; t < PHASES; t++) {
        assert_true(one->learning[t] >= labels / MOST && one->learning[t] < labels / MOST + REST);
        check_plan(alone->planned[t], alone->learning[t]);
        check_plan(one->planned[t], one->learning[t]);
        assert_true(one->planned[t] < labels / MOST + REST);
    }
    const size_t scores = ROWS * CLASSES * sizeof(float), strip = 8 << 20; /* only process 0 has the scores of all */
    assert_true(one->number == 0 || one->measuring < (labels + scores) / MOST + strip + REST);
    assert_true(alone->measuring > labels + scores);
}

static void a_process_holds_the_labels_of_its_own_rows(void **state) {
    (void)state;
    char *folder = make_temporary_folder(), *path = path_in(folder, "table");
    struct process alone = {.path = path, .count = 1}, processes[MOST];
    fill_table();
    write_table(path);
    work(&alone);
    assert_ok(alone.context, alone.status);
    assert_true(alone.right);
    run_processes(processes, MOST, path);
    for (size_t i = 0; i < MOST; i++) {
        compare(&alone, &processes[i]);
        check_memory(&alone, &processes[i]);
        for (size_t t = 0; t < PHASES; t++) { /* although each phase is in one half of the table */
            const uint64_t all = alone.learned[t], own = processes[i].learned[t];
            assert_true(all > ROWS / 3 && own >= all / MOST && own <= all / MOST + 1);
        }
        end_process(&processes[i]);
    }
    end_process(&alone);
    free(path);
    remove_folder(folder);
}

/* Two numbers have one sum, whichever comes first. */
static void the_same_processes_end_with_the_same_bits(void **state) {
    (void)state;
    char *folder = make_temporary_folder(), *path = path_in(folder, "table");
    struct process first[2], second[2];
    fill_table();
    write_table(path);
    run_processes(first, 2, path);
    run_processes(second, 2, path);
    for (size_t i = 0; i < 2; i++) {
        assert_memory_equal(l3a_model_coefficients(first[0].model), l3a_model_coefficients(second[i].model),
                            l3a_model_inputs(first[0].model) * CLASSES * sizeof(double));
        assert_memory_equal(&first[0].metrics, &first[1].metrics, sizeof first[0].metrics);
    }
    for (size_t i = 0; i < 2; i++) {
        end_process(&first[i]);
        end_process(&second[i]);
    }
    free(path);
    remove_folder(folder);
}

static int meet_nobody(void *values, size_t count, l3a_sum_type type, void *user) {
    (void)values;
    (void)count;
    (void)type;
    (void)user;
    return 1;
}

static l3a_context *make_member(size_t process) {
    const l3a_context_options options = {
        .size = sizeof options, .threads = 1, .sum = meet_nobody, .process = process, .processes = 2, .divide = 1};
    l3a_context *context = NULL;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    return context;
}

/* Process 0 verifies what each holds a part of; each checks the labels of its own rows. */
static void damage_is_found(void **state) {
    (void)state;
    char *folder = make_temporary_folder(), *path = path_in(folder, "table");
    fill_table();
    write_table(path);
    l3a_context *first = make_member(0), *second = make_member(1);
    l3a_features *features = NULL;
    size_t size;
    char *bytes = read_bytes(path, &size);
    const char *labels = memmem(bytes, size, table.labels, sizeof table.labels);
    assert_non_null(labels);
    bytes[labels - bytes + (ROWS - 2) * CLASSES + 3] = 5; /* in the part of the second */
    write_bytes(path, bytes, size);
    assert_fails(first, l3a_features_open(first, path, &features), L3A_ERROR_CHECKSUM, "tensor 'labels'");
    assert_fails(second, l3a_features_open(second, path, &features), L3A_ERROR_DATA, "row 7998, column 3: label 5");
    bytes[labels - bytes + (ROWS - 2) * CLASSES + 3] = 0;
    char *id = memmem(bytes, size, "2500.jpg", 8);
    assert_non_null(id);
    id[8] = ' '; /* joins two lines */
    write_bytes(path, bytes, size);
    assert_fails(first, l3a_features_open(first, path, &features), L3A_ERROR_CHECKSUM, "tensor 'ids'");
    assert_ok(second, l3a_features_open(second, path, &features));
    assert_null(l3a_features_id(features, ROWS - 1));
    assert_non_null(l3a_features_id(features, ROWS - 2));
    l3a_features_free(features);
    free(bytes);
    l3a_context_free(first);
    l3a_context_free(second);
    free(path);
    remove_folder(folder);
}

static int add_nothing(void *values, size_t count, l3a_sum_type type, void *user) {
    (void)values;
    (void)count;
    (void)type;
    (void)user;
    return 0;
}

enum { FEW = 20 };

/* All that the second of two processes does with a table beside reading features. */
static l3a_status use_table(l3a_context *context, void *argument) {
    static const size_t columns[] = {0, 2}, rows[] = {1, 5, FEW - 1};
    l3a_features *features = NULL;
    l3a_status status = L3A_OK;
    struct own_rows own = {0};
    int8_t labels[3 * 2];
    const char *id;
    context->options.sum = add_nothing;
    context->options.process = context->options.divide = 1;
    context->options.processes = 2;
    TRY(l3a_features_open(context, argument, &features));
    TRY(own_rows_find(features, BY_LABEL, columns + 1, 1, &own));
    TRY(features_gather_labels(features, rows, 3, columns, 2, labels));
    TRY(features_id(features, FEW / 2, &id));
    TRY(features_hold_all(features));
done:
    release(context, own.rows);
    l3a_features_free(features);
    context->options.sum = NULL;
    context->options.process = context->options.divide = 0;
    return status;
}

static void each_allocation_can_fail(void **state) {
    (void)state;
    char *folder = make_temporary_folder(), *path = path_in(folder, "table");
    l3a_context *context = make_context(1);
    l3a_features *features = NULL;
    const char *ids[FEW];
    fill_table();
    for (size_t i = 0; i < FEW; i++) {
        ids[i] = table.classes[i];
    }
    assert_ok(context, l3a_features_wrap(context, table.values, table.labels, FEW, 1, WIDTH, table.classes, 3, &features));
    assert_ok(context, l3a_features_set_ids(features, ids, FEW));
    assert_ok(context, l3a_features_save(features, NULL, path));
    l3a_features_free(features);
    l3a_context_free(context);
    assert_true(fail_each_allocation(use_table, path) > FEW);
    free(path);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_process_holds_the_labels_of_its_own_rows),
                                       cmocka_unit_test(the_same_processes_end_with_the_same_bits),
                                       cmocka_unit_test(damage_is_found), cmocka_unit_test(each_allocation_can_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
