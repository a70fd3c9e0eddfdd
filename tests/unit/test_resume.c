/* A run of any method, stopped after any phase and resumed: it goes on after that phase, and ends with the same results to the last
 * bit. What it finds in the folder may be damaged or come from elsewhere: then it says so. */
#include "support.h"

#include "base/random.h"
#include "format/safetensors.h"
#include "method/method.h"
#include "run/experiment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 90, WIDTH = 6, CLASSES = 6, VIEWS = 5, PHASES = 3, SEEDS = 2 };

static const char *const class_names[CLASSES] = {"ant", "bee", "cat", "dog", "eel", "fox"};
static const uint64_t seeds[SEEDS] = {7, 8};

struct trial_run {
    const char *method;
    bool views; /* of the tables; heads then have the random layer as well */
};

/* What the callback does: stops after so many phases, or ends the process. */
struct events {
    size_t stop, seen;
    bool kill;
};

static char *parent;
static bool always = true; /* runs save after every phase, whatever it costs */

static int stop_after(const l3a_event *event, void *user) {
    struct events *events = user;
    const bool stops = event->kind == L3A_EVENT_RESULT && ++events->seen == events->stop;
    if (stops && events->kill) {
        _exit(0);
    }
    return stops;
}

static int no_sync(int file) {
    (void)file;
    return 0;
}

static l3a_context *quick_context(struct events *events) {
    static file_operations quick_files;
    l3a_context *context = make_context(1);
    quick_files = posix_files;
    quick_files.sync = no_sync;
    context->files = &quick_files;
    context->options.on_event = stop_after;
    context->options.event_user = events;
    return context;
}

static l3a_features *make_table(l3a_context *context, bool views) {
    static float values[ROWS * (1 + VIEWS) * WIDTH];
    static int8_t labels[ROWS * CLASSES], ignored[ROWS * (1 + VIEWS) * CLASSES];
    l3a_features *features = NULL;
    random_table(3, ROWS * (1 + VIEWS), WIDTH, CLASSES, 3, values, ignored);
    random_table(4, ROWS, 1, CLASSES, 3, (float[ROWS]){0}, labels);
    assert_ok(context, l3a_features_wrap(context, values, labels, ROWS, views ? VIEWS : 1, WIDTH, class_names, CLASSES, &features));
    return features;
}

static l3a_status run_with(l3a_context *context, const struct trial_run *trial, const char *folder, l3a_experiment **experiment) {
    l3a_options settings;
    l3a_features *table = make_table(context, trial->views);
    options_default(&settings);
    settings.model.dim = 12;
    settings.model.gamma = 1;
    settings.method.epochs = 2;
    settings.method.batch = 16;
    settings.method.memory = strcmp(trial->method, "prs") == 0 || strcmp(trial->method, "ocdm") == 0 ? 20 : 3;
    settings.method.head_input = trial->views ? L3A_HEAD_INPUT_LAYER : L3A_HEAD_INPUT_FEATURES;
    const l3a_experiment_options options = {.size = sizeof options,
                                            .train = table,
                                            .test = table,
                                            .protocol = "B0-C2",
                                            .class_order = "shuffle:1",
                                            .methods = &trial->method,
                                            .method_count = 1,
                                            .seeds = seeds,
                                            .seed_count = SEEDS,
                                            .settings = &settings,
                                            .folder = folder,
                                            .resume = 1,
                                            .no_report = 1};
    *experiment = NULL;
    l3a_status status = l3a_experiment_create(context, &options, experiment);
    if (status == L3A_OK) {
        (*experiment)->saving.always = always;
        status = l3a_experiment_run(*experiment);
    }
    l3a_features_free(table);
    return status;
}

/* All that results say, but for the seconds. */
static char *results_text(const l3a_results *results) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (size_t i = 0; i < l3a_results_count(results); i++) {
        const l3a_result *row = l3a_results_at(results, i);
        const l3a_metrics *m = &row->metrics;
        fprintf(out, "%s %d %zu %zu-%zu %d %d %d %a %a %a %a %a %a %a %a %a\n", row->method, (int)row->seed, row->phase, row->first,
                row->last, (int)row->train_images, (int)row->test_images, (int)row->pseudo_labels, row->base_map, row->new_map,
                m->mean_ap, m->class_precision, m->class_recall, m->class_f1, m->overall_precision, m->overall_recall,
                m->overall_f1);
        for (size_t k = 0; k < row->last; k++) {
            fprintf(out, "%a\n", l3a_results_average_precision(results, i)[k]);
        }
    }
    fclose(out);
    return text;
}

/* Runs, or resumes, in a folder below the parent until `stop` phases are done; 0: to the end. Returns how many were learned and, at
 * the end, the results. */
static size_t run_until(const struct trial_run *trial, const char *name, size_t stop, char **text) {
    struct events events = {.stop = stop};
    l3a_context *context = quick_context(&events);
    l3a_experiment *experiment = NULL;
    char *folder = path_in(parent, name);
    const l3a_status status = run_with(context, trial, folder, &experiment);
    if (stop) {
        assert_int_equal(status, L3A_ERROR_CANCELLED);
    } else {
        assert_ok(context, status);
    }
    if (text) {
        *text = results_text(l3a_experiment_results(experiment, 0));
    }
    l3a_experiment_free(experiment);
    l3a_context_free(context);
    free(folder);
    return events.seen;
}

static bool is_there(const char *name, const char *file) {
    char *folder = path_in(parent, name), *path = path_in(folder, file);
    const bool there = access(path, F_OK) == 0;
    free(path);
    free(folder);
    return there;
}

static void assert_same_table(const char *one, const char *other) {
    char *paths[] = {path_in(parent, one), path_in(parent, other)}, *bytes[2];
    size_t sizes[2];
    for (size_t i = 0; i < 2; i++) {
        char *path = path_in(paths[i], "per_class.csv");
        bytes[i] = read_bytes(path, &sizes[i]);
        free(path);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    free(bytes[0]);
    free(bytes[1]);
    free_paths(paths, 2);
}

static void stop_everywhere(const struct trial_run *trial) {
    const bool once = method_find(trial->method)->plan != BY_PHASE, model = method_find(trial->method)->learner->is_model;
    const size_t all = SEEDS * (once ? 1 : PHASES);
    char whole[64], stopped[64], *expected = NULL;
    snprintf(whole, sizeof whole, "%s-%d", trial->method, trial->views);
    assert_int_equal(run_until(trial, whole, 0, &expected), all);
    for (size_t stop = 1; stop <= all; stop++) {
        char *resumed = NULL;
        snprintf(stopped, sizeof stopped, "%s-%d-%zu", trial->method, trial->views, stop);
        assert_int_equal(run_until(trial, stopped, stop, NULL), stop);
        /* that of a job that has just learned its last phase is removed when the run goes on */
        assert_int_equal(is_there(stopped, "partial-1.safetensors"), !once && !model && stop <= PHASES);
        assert_int_equal(is_there(stopped, "partial-2.safetensors"), !once && stop > PHASES);
        const size_t learned = run_until(trial, stopped, 0, &resumed);
        if (learned != all - stop || strcmp(expected, resumed) != 0) {
            print_error("%s, stopped after %zu phases: learned %zu after that\n%s\n%s\n", whole, stop, learned, expected, resumed);
        }
        assert_int_equal(learned, all - stop);
        assert_string_equal(expected, resumed);
        assert_same_table(whole, stopped);
        assert_false(is_there(stopped, "partial-1.safetensors"));
        assert_false(is_there(stopped, "partial-2.safetensors"));
        free(resumed);
    }
    free(expected);
}

static void every_method_resumes_after_every_phase(void **state) {
    const bool views = *(const bool *)*state;
    size_t methods = 0;
    for (size_t i = 0; l3a_method_at(i); i++) {
        if (l3a_method_at(i)->runs == 1) {
            stop_everywhere(&(struct trial_run){l3a_method_at(i)->name, views});
            methods++;
        }
    }
    assert_true(methods > 20);
}

/* Runs in a process of its own, which ends without a word when so many phases are done. */
static void run_and_kill(const struct trial_run *trial, const char *name, size_t stop) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        struct events events = {.stop = stop, .kill = true};
        l3a_context *context = quick_context(&events);
        l3a_experiment *experiment;
        char *folder = path_in(parent, name);
        run_with(context, trial, folder, &experiment);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A run that is killed, resumed and killed again, and then left in peace. Whether or not phases were saved meanwhile, it ends with
 * the same results. */
static void killed_runs_have_the_same_results(void **state) {
    static const char *const methods[] = {"l3a", "l3a+", "l3a-no-wac", "dsal", "slda", "er", "icarl"};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof methods / sizeof methods[0]; i++) {
        const struct trial_run trial = {methods[i / 2], false};
        const size_t all = SEEDS * PHASES;
        char *expected = NULL, *resumed = NULL, whole[64], killed[64];
        always = i % 2;
        snprintf(whole, sizeof whole, "%s-unkilled-%d", trial.method, always);
        assert_int_equal(run_until(&trial, whole, 0, &expected), all);
        for (size_t stop = 1; stop < all; stop++) {
            snprintf(killed, sizeof killed, "%s-killed-%d-%zu", trial.method, always, stop);
            run_and_kill(&trial, killed, stop);
            run_and_kill(&trial, killed, 1);
            const size_t learned = run_until(&trial, killed, 0, &resumed);
            /* that of a finished job is on the disk in any case */
            assert_true(learned <= all - stop / PHASES * PHASES);
            assert_true(always ? learned == all - stop - 1 : learned >= all - stop - 1);
            assert_string_equal(expected, resumed);
            assert_same_table(whole, killed);
            free(resumed);
        }
        free(expected);
    }
    always = true;
}

/* Counts the phases of a job that are saved, but for the last one, if each takes so long, and saving them so long. */
static size_t saves_of(double work, double cost, uint64_t bytes, size_t phases) {
    struct saving saving = {0};
    size_t saves = 0;
    double lost = 0;
    saving_begin(&saving);
    for (size_t t = 1; t < phases; t++) {
        lost += work;
        assert_true(lost <= 10 || lost == work);
        saving_add(&saving, work);
        if (saving_is_due(&saving, bytes)) {
            saving_done(&saving, cost, bytes);
            saves++;
            lost = 0;
        }
    }
    return saves;
}

static void saving_costs_little_and_loses_little(void **state) {
    (void)state;
    assert_int_equal(saves_of(0.2, 0.2, 268 << 20, 8), 0);     /* a GPU: learning again costs less */
    assert_int_equal(saves_of(4, 0.3, 268 << 20, 8), 7);       /* a processor */
    assert_int_equal(saves_of(4, 2, 268 << 20, 8), 7);         /* a second one could be twice as long */
    assert_int_equal(saves_of(3, 60, 60000000000, 9), 4);      /* every second one is needed, whatever it costs */
    assert_int_equal(saves_of(60, 60, 60000000000, 9), 8);     /* one is too much already */
    assert_int_equal(saves_of(0.01, 0.0005, 1000, 1001), 950); /* the first save is a guess, the others are known to be cheap */
    assert_int_equal(saves_of(0.01, 0.05, 0, 1001), 20);       /* half a second, each time */
}

static void larger_files_are_thought_to_take_longer(void **state) {
    struct saving saving = {0};
    (void)state;
    saving_begin(&saving);
    saving_done(&saving, 0.1, 1000);
    saving_add(&saving, 1.5);
    assert_true(saving_is_due(&saving, 1000));
    assert_true(saving_is_due(&saving, 1400));
    assert_false(saving_is_due(&saving, 1600));
    assert_true(saving_is_due(&saving, 500));
    assert_true(saving_is_due(&saving, 0));
    saving_begin(&saving); /* another job */
    assert_false(saving_is_due(&saving, 1000));
    saving.always = true;
    assert_true(saving_is_due(&saving, 1000));
}

/* Drops the lines that begin with one of the texts. */
static void drop_lines(const char *folder, const char *file, const char *const *beginnings, size_t count) {
    char *path = path_in(folder, file), *kept, *to;
    size_t size;
    char *text = read_bytes(path, &size);
    to = kept = malloc(size);
    assert_non_null(kept);
    for (const char *line = text, *end; line < text + size; line = end) {
        const char *newline = memchr(line, '\n', (size_t)(text + size - line));
        bool drops = false;
        end = newline ? newline + 1 : text + size;
        for (size_t i = 0; i < count; i++) {
            drops = drops || strncmp(line, beginnings[i], strlen(beginnings[i])) == 0;
        }
        memcpy(to, line, drops ? 0 : (size_t)(end - line));
        to += drops ? 0 : end - line;
    }
    write_bytes(path, kept, (size_t)(to - kept));
    free(kept);
    free(text);
    free(path);
}

/* As a folder is if a method has failed, and the run went on with the next one. */
static void several_jobs_can_be_unfinished(void **state) {
    static const char *const later[] = {"er,7,2,", "er,7,3,"};
    const struct trial_run trial = {"er", false};
    char *expected = NULL, *resumed = NULL, *folder = path_in(parent, "several");
    char *paths[] = {path_in(folder, "partial-1.safetensors"), path_in(parent, "kept"), path_in(folder, "checksums.csv")};
    (void)state;
    assert_int_equal(run_until(&trial, "several-whole", 0, &expected), SEEDS * PHASES);
    assert_int_equal(run_until(&trial, "several", 1, NULL), 1);
    copy_file(paths[0], paths[1]);
    assert_int_equal(run_until(&trial, "several", 3, NULL), 3);
    copy_file(paths[1], paths[0]);
    assert_true(is_there("several", "partial-2.safetensors"));
    drop_lines(folder, "metrics.csv", later, 2);
    drop_lines(folder, "per_class.csv", later, 2);
    assert_int_equal(remove(paths[2]), 0); /* it would tell that the tables were cut by hand */
    assert_int_equal(run_until(&trial, "several", 0, &resumed), 2 * (PHASES - 1));
    assert_string_equal(expected, resumed);
    free(expected);
    free(resumed);
    free(folder);
    free_paths(paths, 3);
}

static l3a_status resume_in(const struct trial_run *trial, const char *folder, char *text, size_t capacity) {
    struct events events = {0};
    l3a_context *context = quick_context(&events);
    l3a_experiment *experiment = NULL;
    const l3a_status status = run_with(context, trial, folder, &experiment);
    snprintf(text, capacity, "%s", l3a_error_text(context));
    l3a_experiment_free(experiment);
    l3a_context_free(context);
    return status;
}

/* How a file differs from one that was saved. All have good checksums. */
enum damage { LACKS_ARRAY, HAS_ONE_ROW_LESS, HAS_OTHER_TYPE, HAS_OTHER_NUMBERS, DAMAGES };

/* Writes a state again, with one array damaged. */
static void damage_state(const char *from, const char *to, size_t index, enum damage damage) {
    l3a_context *context = make_context(1);
    safetensors file;
    assert_ok(context, safetensors_open(context, from, &file));
    tensor_source *sources = calloc(file.count, sizeof *sources);
    char **bytes = calloc(file.count, sizeof *bytes);
    text_list keys = {0}, values = {0};
    size_t count = 0;
    assert_true(sources && bytes);
    for (size_t i = 0; i < file.count; i++) {
        const struct tensor *tensor = &file.tensors[i];
        bytes[i] = calloc((size_t)tensor->bytes + 1, 8); /* enough for any type */
        assert_ok(context, input_read(&file.input, tensor->offset, bytes[i], (size_t)tensor->bytes));
        tensor_source *source = &sources[count];
        *source = (tensor_source){tensor->name, tensor->type, tensor->rank, {0}, fill_from_memory, bytes[i]};
        memcpy(source->shape, tensor->shape, sizeof tensor->shape);
        count += i != index || damage != LACKS_ARRAY;
        if (i == index && damage == HAS_ONE_ROW_LESS) {
            if (tensor->rank && tensor->shape[0]) {
                source->shape[0]--;
            } else { /* a number, or nothing at all: now with another dimension */
                source->shape[source->rank++] = 1;
            }
        } else if (i == index && damage == HAS_OTHER_TYPE) {
            source->type = tensor->type == TENSOR_I8 ? TENSOR_U8 : tensor->type == TENSOR_F32 ? TENSOR_I8 : TENSOR_F32;
        }
        for (size_t j = 0; i == index && damage == HAS_OTHER_NUMBERS && j < tensor->bytes; j++) {
            bytes[i][j] = (char)random_bits(index, j);
        }
    }
    for (size_t i = 0; i < file.keys.count; i++) {
        if (strncmp(file.keys.items[i], "xxh3.", 5) != 0) {
            assert_ok(context, text_record_set(context, &keys, &values, file.keys.items[i], file.values.items[i]));
        }
    }
    assert_ok(context, safetensors_write(context, to, &keys, &values, sources, count));
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
    free_paths(bytes, file.count);
    free(bytes);
    free(sources);
    safetensors_close(&file);
    l3a_context_free(context);
}

static size_t count_arrays(const char *path) {
    l3a_context *context = make_context(1);
    safetensors file;
    assert_ok(context, safetensors_open(context, path, &file));
    const size_t count = file.count;
    safetensors_close(&file);
    l3a_context_free(context);
    return count;
}

/* Resumes in a copy of the folder, which may do anything but crash. */
static void resume_in_copy(const struct trial_run *trial, const char *folder) {
    static const char *const files[] = {"run.json",    "metrics.csv",   "per_class.csv",
                                        "timings.csv", "checksums.csv", "partial-1.safetensors"};
    char text[1024], *copy = path_in(parent, "copy");
    assert_int_equal(mkdir(copy, 0700), 0);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *paths[] = {path_in(folder, files[i]), path_in(copy, files[i])};
        copy_file(paths[0], paths[1]);
        free_paths(paths, 2);
    }
    resume_in(trial, copy, text, sizeof text);
    remove_folder(copy);
}

/* Returns how many damaged files it tried. */
static size_t damage_everywhere(const struct trial_run *trial) {
    char name[64], text[1024];
    snprintf(name, sizeof name, "%s-damaged", trial->method);
    assert_int_equal(run_until(trial, name, 2, NULL), 2);
    char *folder = path_in(parent, name), *paths[] = {path_in(folder, "partial-1.safetensors"), path_in(parent, "good")};
    copy_file(paths[0], paths[1]);
    const size_t damages = count_arrays(paths[1]) * DAMAGES;
    for (size_t i = 0; i < damages; i++) {
        damage_state(paths[1], paths[0], i / DAMAGES, i % DAMAGES);
        if (i % DAMAGES == HAS_OTHER_NUMBERS) {
            resume_in_copy(trial, folder);
            continue;
        }
        const l3a_status status = resume_in(trial, folder, text, sizeof text);
        if (status != L3A_ERROR_FORMAT || !strstr(text, "partial-1.safetensors: ")) {
            print_error("%s, array %zu, damage %zu: %s: %s\n", trial->method, i / DAMAGES, i % DAMAGES, l3a_status_name(status),
                        text);
        }
        assert_int_equal(status, L3A_ERROR_FORMAT);
        assert_non_null(strstr(text, "partial-1.safetensors: "));
    }
    copy_file(paths[1], paths[0]);
    assert_int_equal(run_until(trial, name, 0, NULL), SEEDS * PHASES - 2);
    free(folder);
    free_paths(paths, 2);
    return damages;
}

/* What an array says is checked before it is used. Numbers that no run would have may give an error or other results. */
static void damaged_states_are_refused(void **state) {
    (void)state;
    size_t methods = 0, damages = 0;
    for (size_t i = 0; l3a_method_at(i); i++) {
        const struct method *method = method_find(l3a_method_at(i)->name);
        if (method->info.runs == 1 && !method->learner->is_model && method->plan == BY_PHASE) {
            damages += damage_everywhere(&(struct trial_run){method->info.name, true});
            methods++;
        }
    }
    assert_true(methods == 14 && damages >= methods * 4 * DAMAGES);
}

static void the_state_of_another_job_is_refused(void **state) {
    (void)state;
    const struct trial_run trial = {"er", false}, other = {"icarl", false};
    char text[1024], *folder = path_in(parent, "foreign");
    char *paths[] = {path_in(folder, "partial-1.safetensors"), path_in(folder, "partial-2.safetensors")};
    assert_int_equal(run_until(&trial, "foreign", 4, NULL), 4);
    assert_int_equal(run_until(&trial, "foreign-seed", 1, NULL), 1);
    assert_int_equal(run_until(&other, "foreign-method", 4, NULL), 4);
    char *apart = path_in(parent, "foreign-seed"), *seed = path_in(apart, "partial-1.safetensors");
    free(apart);
    apart = path_in(parent, "foreign-method");
    char *method = path_in(apart, "partial-2.safetensors");
    copy_file(seed, paths[1]);
    assert_int_equal(resume_in(&trial, folder, text, sizeof text), L3A_ERROR_MISMATCH);
    assert_non_null(strstr(text, "partial-2.safetensors: the state of another run: its seed differs"));
    copy_file(method, paths[1]);
    assert_int_equal(resume_in(&trial, folder, text, sizeof text), L3A_ERROR_MISMATCH);
    assert_non_null(strstr(text, "its method differs"));
    assert_int_equal(remove(paths[1]), 0); /* as the hint says */
    assert_int_equal(run_until(&trial, "foreign", 0, NULL), PHASES);
    free(apart);
    free(seed);
    free(method);
    free(folder);
    free_paths(paths, 2);
}

static int make_parent(void **state) {
    (void)state;
    parent = make_temporary_folder();
    return 0;
}

static int remove_parent(void **state) {
    (void)state;
    remove_folder(parent);
    return 0;
}

static bool yes = true, no = false;

int main(void) {
    if (access("/dev/shm", W_OK) == 0) {
        setenv("TMPDIR", "/dev/shm", 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(every_method_resumes_after_every_phase, &no),
        cmocka_unit_test_prestate(every_method_resumes_after_every_phase, &yes),
        cmocka_unit_test(killed_runs_have_the_same_results),
        cmocka_unit_test(saving_costs_little_and_loses_little),
        cmocka_unit_test(larger_files_are_thought_to_take_longer),
        cmocka_unit_test(several_jobs_can_be_unfinished),
        cmocka_unit_test(damaged_states_are_refused),
        cmocka_unit_test(the_state_of_another_job_is_refused),
    };
    return cmocka_run_group_tests(tests, make_parent, remove_parent);
}
