/* l3a train: trains a backbone on the pictures of a data set. */
#include "rows.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRAINED_CHOICES "all|norms|last:N|head"

const struct option train_options[] = {
    {"backbone", "FILE", "checkpoint to begin with: .safetensors, .pth or .pt"},
    {"data", "DATASET", "voc:FOLDER, coco:FOLDER, list:FILE.csv, folders:FOLDER or tar:FILE.tar"},
    {"split", "NAME", "split of the data set: trainval, train2014, …"},
    {"o", "FILE", "checkpoint to write, as .safetensors"},
    {"recipe", "NAME", "settings that suit one another, listed below; the options that follow replace some of them [norms]"},
    {"train", TRAINED_CHOICES, "what is trained besides the head: everything, norms and biases, the last N blocks, or nothing"},
    {"classes", "A,B", "learn only these classes, from their pictures, or @FILE with one name per line [all]"},
    {"epochs", "N", "how often each picture is shown"},
    {"batch", "N", "pictures in a step"},
    {"rate", "X", "the highest rate of the steps"},
    {"head-rate", "X", "the same for the head, which begins from nothing"},
    {"schedule", "one-cycle|cosine|constant", "how the rate changes: up and down, down, or not at all"},
    {"optimiser", "adam|adamw|sgd", "how a gradient becomes a step"},
    {"momentum", "X", "of the gradient [0.9; with one-cycle from 0.95 to 0.85 and back]"},
    {"decay", "X", "decay of the parameters, other than norms and biases"},
    {"clip", "X", "the largest norm of a gradient; longer ones are shortened [no limit]"},
    {"loss", "asl|bce", "asl: asymmetric, for pictures of which most show few of the classes; bce: binary cross-entropy"},
    {"crop", "A,B", "cut out at random A to B of a picture's area, as in 0.5,1; or none"},
    {"flip", "yes|no", "mirror every other picture, at random"},
    {"cutout", "X", "paint over a square with so much of a picture's side, as in 0.5; 0: nothing"},
    {"validation", "NAME", "split of the data set to measure on after each epoch"},
    {"validation-data", "DATASET", "another data set to measure on; --validation is then its split"},
    {"validation-share", "X", "without them: hold back so much of the pictures to measure on; 0: none"},
    {"keep", "best|last", "the epoch that is written: the one with the highest mAP, or the last one [best]"},
    {"difficult", "absent|ignore", "VOC: a class with only difficult objects is absent, or neither shown nor absent [absent]"},
    {"seed", "N", "seed of all that is drawn: order, crops, the head [0]"},
    {"memory", "MIB",
     "memory that training may take, on a GPU of its own; with less, some values are computed twice [what is free]"},
    {"save-every", "SECONDS", "save what is needed to resume; 0: after each epoch only [300]"},
    {"resume", NULL, "go on with an interrupted training; the other options must be those that it began with"},
    {"dry-run", NULL, "print the plan and exit"},
    {"report", "FILE.html", "page with the learning curve, written after each epoch"},
    {"format", "table|json|csv", "format of the epochs on the standard output [table]"},
    BACKBONE_OPTIONS(""),
    {"orient", NULL, "rotate pictures according to their EXIF orientation"},
    {NULL, NULL, NULL},
};

/* Options that change nothing in what is written, so that it does not record them. */
static const char *const unrecorded[] = {"o", "memory", "save-every", "resume", "dry-run", "report", "format", NULL};

/* What the epochs gave, as the page takes it. */
struct course {
    double *losses, *mean_aps, *seconds;
    size_t done, planned, room;
};

struct training {
    const struct arguments *arguments;
    const char *backbone, *path, *report;
    char *state; /* the path of the state */
    l3a_dataset *pictures, *validation;
    l3a_backbone_options network;
    l3a_picture_options picture;
    l3a_train_options options;
    struct list classes;
    l3a_train_plan plan;
    struct printer printer;
    struct course course;
    bool broken; /* the page could not be written, or memory was short; it has been explained */
};

/* ---- Options ---- */

/* A number of which 0 makes sense: the library takes 0 for what the recipe says, and a number below 0 for 0. */
static bool read_number(const struct arguments *arguments, const char *name, double high, double *value) {
    if (!argument_number(arguments, name, 0, high, value)) {
        return false;
    }
    *value = argument(arguments, name) && !(*value > 0) ? -1 : *value;
    return true;
}

static bool is_among(const char *name, const char *const *names) {
    while (*names && strcmp(*names, name) != 0) {
        names++;
    }
    return *names != NULL;
}

static bool read_crop(const struct arguments *arguments, l3a_train_options *options) {
    const char *text = argument(arguments, "crop");
    char *end = NULL;
    if (!text) {
        return true;
    }
    if (strcmp(text, "none") == 0) {
        options->least_area = -1;
        return true;
    }
    options->least_area = strtod(text, &end);
    const bool pair = end != text && *end == ',' && end[1];
    const char *second = pair ? end + 1 : NULL;
    options->most_area = pair ? strtod(second, &end) : 0;
    if (!pair || *end || !(options->least_area > 0 && options->least_area <= options->most_area && options->most_area <= 1)) {
        complain(arguments, "--crop: '%s' is neither two shares of the area, as in 0.5,1, nor none", text);
        return false;
    }
    return true;
}

/* "all", "norms", "head" or "last:" and a number. */
static bool read_trained(const struct arguments *arguments, l3a_train_options *options) {
    static const char *const whole[] = {"all", "norms", "head", NULL};
    const char *text = argument(arguments, "train");
    const bool last = text && strncmp(text, "last:", 5) == 0 && text[5] && !text[5 + strspn(text + 5, "0123456789")];
    if (text && !last && !is_among(text, whole)) {
        complain(arguments, "--train: '%s' is not one of " TRAINED_CHOICES, text);
        return false;
    }
    options->trained = text;
    return true;
}

/* Sets *value to that of an option, which is one of the choices; NULL if it is not given. */
static bool read_choice(const struct arguments *arguments, const char *name, const char *choices, const char **value) {
    *value = argument(arguments, name) ? argument_choice(arguments, name, choices, NULL) : NULL;
    return *value || !argument(arguments, name);
}

static bool read_choices(const struct arguments *arguments, l3a_train_options *options) {
    const char *flip = NULL, *keep = NULL;
    if (!read_choice(arguments, "schedule", "one-cycle|cosine|constant", &options->schedule) ||
        !read_choice(arguments, "optimiser", "adam|adamw|sgd", &options->optimiser) ||
        !read_choice(arguments, "loss", "asl|bce", &options->loss) || !read_choice(arguments, "flip", "yes|no", &flip) ||
        !read_choice(arguments, "keep", "best|last", &keep)) {
        return false;
    }
    options->flip = !flip ? 0 : strcmp(flip, "yes") == 0 ? 1 : -1;
    options->keep_last = keep && strcmp(keep, "last") == 0;
    return true;
}

static bool read_numbers(const struct arguments *arguments, l3a_train_options *options) {
    uint64_t epochs = 0, batch = 0, memory = 0;
    const double smallest = 1e-12, largest = 1000;
    if (!argument_integer(arguments, "epochs", 1, 100000, &epochs) || !argument_integer(arguments, "batch", 1, 65536, &batch) ||
        !argument_integer(arguments, "seed", 0, INT64_MAX, &options->seed) ||
        !argument_integer(arguments, "memory", 1, 1 << 30, &memory) ||
        !argument_number(arguments, "rate", smallest, largest, &options->rate) ||
        !argument_number(arguments, "head-rate", smallest, largest, &options->head_rate) ||
        !argument_number(arguments, "momentum", 0.001, 0.9999, &options->momentum) ||
        !read_number(arguments, "decay", largest, &options->decay) || !read_number(arguments, "clip", 1e9, &options->clip) ||
        !read_number(arguments, "cutout", 1, &options->cutout) ||
        !read_number(arguments, "validation-share", 0.9, &options->validation_share) ||
        !read_number(arguments, "save-every", 1e6, &options->save_seconds)) {
        return false;
    }
    options->epochs = (size_t)epochs;
    options->batch = (size_t)batch;
    options->memory = memory << 20;
    return true;
}

static bool read_classes(const struct arguments *arguments, struct list *classes, l3a_train_options *options) {
    const char *text = argument(arguments, "classes");
    if (text && !list_parse(text, classes)) {
        return false;
    }
    if (text && !classes->count) {
        complain(arguments, "--classes: the list is empty");
        return false;
    }
    options->classes = classes->items;
    options->class_count = classes->count;
    return true;
}

/* What the checkpoint records, for the caller to free: the command with all that its numbers depend on. */
static char *recorded_command(const struct arguments *arguments) {
    const char *words[2 * OPTIONS + 2] = {"l3a", arguments->command->name};
    char names[OPTIONS][32];
    size_t count = 2;
    for (size_t i = 0; i < OPTIONS && train_options[i].name; i++) {
        if (arguments->values[i] && !is_among(train_options[i].name, unrecorded)) {
            snprintf(names[i], sizeof names[i], "--%s", train_options[i].name);
            words[count++] = names[i];
            words[count] = arguments->values[i];
            count += train_options[i].value != NULL;
        }
    }
    return join_words(count, words);
}

static void training_free(struct training *training) {
    l3a_dataset_free(training->pictures);
    l3a_dataset_free(training->validation);
    list_free(&training->classes);
    free((char *)training->options.command);
    free(training->state);
    free(training->course.losses);
    free(training->course.mean_aps);
    free(training->course.seconds);
}

/* ---- Epochs ---- */

enum { EPOCH_COLUMNS = 7, TOLD_COLUMNS = 5 };

static const struct column columns[EPOCH_COLUMNS] = {
    {"epoch", "epoch", 5, 0, 0, 0, NULL},     {"loss", "loss", 10, 2, 4, 9, NULL}, {"map", "mAP", 7, 2, 2, 6, NULL},
    {"seconds", "seconds", 9, 2, 1, 3, NULL}, {NULL, "", 0, 2, 0, 0, NULL},        {"best", NULL, 0, 0, 0, 0, NULL},
    {"resumed", NULL, 0, 0, 0, 0, NULL},
};

static void print_epoch(struct printer *printer, const l3a_train_epoch *epoch) {
    const char *note = epoch->best ? "best so far" : "";
    const struct value values[EPOCH_COLUMNS] = {
        count_value(epoch->epoch), number_value(epoch->loss), number_value(epoch->mean_ap), number_value(epoch->seconds),
        word_value(note),          flag_value(epoch->best),   flag_value(epoch->resumed)};
    const bool told = printer->form == FORM_TABLE && !note[0]; /* no blanks at the end of a line */
    if (printer->form == FORM_JSON) {
        put_break(printer, 2);
        put_open(printer, NULL, '{');
    }
    print_values(printer, columns, values, told ? TOLD_COLUMNS - 1 : EPOCH_COLUMNS);
    if (printer->form == FORM_JSON) {
        put_close(printer, '}');
    }
    fflush(printer->to);
}

static void begin_epochs(struct printer *printer) {
    if (printer->form == FORM_JSON) {
        put_open(printer, NULL, '{');
        put_open(printer, "epochs", '[');
    } else {
        print_headings(printer, columns, printer->form == FORM_TABLE ? TOLD_COLUMNS - 1 : EPOCH_COLUMNS);
    }
}

static bool course_add(struct course *course, const l3a_train_epoch *epoch) {
    if (!course->losses && epoch->epochs) {
        course->room = epoch->epochs;
        course->losses = calloc(course->room, sizeof *course->losses);
        course->mean_aps = calloc(course->room, sizeof *course->mean_aps);
        course->seconds = calloc(course->room, sizeof *course->seconds);
    }
    if (!course->losses || !course->mean_aps || !course->seconds || course->done >= course->room) {
        return false;
    }
    course->losses[course->done] = epoch->loss;
    course->mean_aps[course->done] = epoch->mean_ap;
    course->seconds[course->done++] = epoch->seconds;
    return true;
}

/* The page so far, if one is wanted. It is no reason to stop, but explained at once. */
static void write_page(struct training *training, const l3a_train_report *report) {
    const struct course *course = &training->course;
    const l3a_train_page page = {.size = sizeof page,
                                 .title = training->path,
                                 .plan = &training->plan,
                                 .report = report,
                                 .command = training->options.command,
                                 .done = course->done,
                                 .losses = course->losses,
                                 .mean_aps = course->mean_aps,
                                 .seconds = course->seconds};
    if (training->report && !training->broken) {
        const l3a_status status = l3a_train_page_write(training->arguments->context, &page, training->report);
        training->broken = explain(training->arguments, status) != EXIT_DONE;
    }
}

static void take_epoch(const l3a_train_epoch *epoch, void *user) {
    struct training *training = user;
    progress_clear();
    print_epoch(&training->printer, epoch);
    if (!training->broken && !course_add(&training->course, epoch)) {
        complain(training->arguments, "out of memory");
        training->broken = true;
    }
    write_page(training, NULL);
}

/* ---- Plan and result ---- */

static void print_plan(FILE *to, const struct training *training) {
    const l3a_train_plan *plan = &training->plan;
    char memory[32];
    fprintf(to, "plan: %s\n", plan->settings);
    fprintf(to, "  %zu %s", plan->pictures, plural(plan->pictures, "picture", "pictures"));
    if (plan->held) {
        fprintf(to, ", and %zu to validate on", plan->held);
    }
    fprintf(to, ", of %zu %s; %" PRIu64 " %s, in which %" PRIu64 " %s through the network\n", plan->classes,
            plural(plan->classes, "class", "classes"), plan->steps, plural(plan->steps, "step", "steps"), plan->shown,
            plural(plan->shown, "picture goes", "pictures go"));
    fprintf(to, "  trained: %" PRIu64 " of %" PRIu64 " parameters, and the head; memory %s on %s\n", plan->trained,
            plan->parameters, size_text(plan->memory, memory), l3a_context_device(training->arguments->context));
    if (plan->recomputes) {
        fprintf(to,
                "  memory is too short to keep all values of a batch, so some are computed twice; a smaller --batch avoids it\n");
    }
}

static void print_report(struct training *training, const l3a_train_report *report) {
    struct printer *printer = &training->printer;
    if (printer->form == FORM_TABLE) {
        printf("%s: epoch %zu of %zu", training->path, report->kept, report->epochs);
        if (!isnan(report->mean_ap)) {
            printf(", mAP %.2f", report->mean_ap);
        }
        printf(", in %.1f s", report->seconds);
        if (report->resumed) {
            printf(", %zu %s from before", report->resumed, plural(report->resumed, "epoch", "epochs"));
        }
        printf("\n");
    } else if (printer->form == FORM_JSON) {
        put_text(printer, "path", training->path);
        put_text(printer, "settings", training->plan.settings);
        put_count(printer, "kept", report->kept);
        put_number(printer, "map", report->mean_ap, 6);
        put_count(printer, "steps", report->steps);
        put_number(printer, "seconds", report->seconds, 3);
        put_number(printer, "speed", report->speed, 3);
        put_number(printer, "waited", report->waited, 3);
        put_boolean(printer, "recomputed", report->recomputed != 0);
    }
}

/* Says how to go on, if there is a state to go on from. */
static void hint_at_going_on(const struct training *training) {
    const struct arguments *arguments = training->arguments;
    const char *rest = arguments->line ? strchr(arguments->line, ' ') : NULL;
    if (access(training->state, F_OK) != 0) {
        print_hint("nothing was saved yet; run the same command again");
        return;
    }
    fprintf(stderr, "  saved in %s; go on with: ", training->state);
    write_word(stderr, arguments->program);
    fprintf(stderr, "%s%s\n", rest ? rest : " train", argument(arguments, "resume") ? "" : " --resume");
}

/* ---- The command ---- */

static int explain_training(const struct training *training, l3a_status status) {
    const int code = explain(training->arguments, status);
    if (status == L3A_ERROR_CANCELLED || status == L3A_ERROR_DEVICE || status == L3A_ERROR_FULL) {
        hint_at_going_on(training);
    }
    return code;
}

static int train(struct training *training) {
    l3a_train_report report = {.size = sizeof report};
    write_page(training, NULL); /* where that is impossible, it is better to know now */
    if (training->broken) {
        return EXIT_USAGE;
    }
    begin_epochs(&training->printer);
    const l3a_status status = l3a_train(training->arguments->context, training->backbone, training->pictures, training->validation,
                                        &training->options, training->path, &report);
    progress_clear();
    if (training->printer.form == FORM_JSON) {
        put_break(&training->printer, 0);
        put_close(&training->printer, ']');
    }
    if (status == L3A_OK) {
        print_report(training, &report);
        write_page(training, &report);
    }
    if (training->printer.form == FORM_JSON) {
        put_close(&training->printer, '}');
        printf("\n");
    }
    fflush(stdout);
    const int code = explain_training(training, status);
    return code == EXIT_DONE && training->broken ? EXIT_FAILED : code;
}

/* Whether the folder of the checkpoint can be written to; it is better to know before the first epoch. */
static bool can_write(const struct training *training) {
    const char *slash = strrchr(training->path, '/');
    char *folder = slash ? strndup(training->path, (size_t)(slash - training->path) + 1) : strdup(".");
    const bool good = folder && access(folder, W_OK | X_OK) == 0;
    if (!good) {
        complain(training->arguments, "%s: cannot write: %s", training->path, strerror(errno));
        print_hint("check the path");
    }
    free(folder);
    return good;
}

static bool is_one_file(const char *left, const char *right) {
    struct stat one, other;
    return strcmp(left, right) == 0 ||
           (stat(left, &one) == 0 && stat(right, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino);
}

/* Whether the page is a file of its own; it replaces what is there. */
static bool has_own_page(const struct training *training) {
    const char *const others[] = {training->backbone, training->path, training->state};
    for (size_t i = 0; training->report && i < sizeof others / sizeof *others; i++) {
        if (is_one_file(training->report, others[i])) {
            complain(training->arguments, "--report: %s is to be another file", others[i]);
            print_hint("give the page a path of its own, such as curve.html");
            return false;
        }
    }
    return true;
}

/* What is there from before: a state needs --resume, and --resume a state. */
static int check_state(const struct training *training) {
    const struct arguments *arguments = training->arguments;
    const bool state = access(training->state, F_OK) == 0, resume = argument(arguments, "resume") != NULL;
    if (state && !resume) {
        complain(arguments, "%s: a training of %s was interrupted", training->state, training->path);
        print_hint("go on with it with --resume, or remove this file");
        return EXIT_USAGE;
    }
    if (!state && resume && access(training->path, F_OK) == 0) {
        complain(arguments, "%s: is there, and no training of it was interrupted", training->path);
        print_hint("leave out --resume to train it again");
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

static l3a_status open_pictures(struct training *training, bool ignore_difficult) {
    const struct arguments *arguments = training->arguments;
    const l3a_dataset_options reading = {.size = sizeof reading, .ignore_difficult = ignore_difficult};
    const char *data = argument(arguments, "data"), *other = argument(arguments, "validation-data"),
               *split = argument(arguments, "validation");
    l3a_status status = l3a_dataset_open(arguments->context, data, argument(arguments, "split"), &reading, &training->pictures);
    if (status == L3A_OK && (other || split)) {
        status = l3a_dataset_open(arguments->context, other ? other : data, split, &reading, &training->validation);
    }
    return status;
}

static int execute(struct training *training, bool ignore_difficult) {
    const bool dry = argument(training->arguments, "dry-run") != NULL;
    int code = dry ? EXIT_DONE : check_state(training);
    if (code != EXIT_DONE || !(dry || (can_write(training) && has_own_page(training)))) {
        return EXIT_USAGE;
    }
    l3a_status status = open_pictures(training, ignore_difficult);
    if (status == L3A_OK) {
        training->plan.size = sizeof training->plan;
        status = l3a_train_prepare(training->arguments->context, training->backbone, training->pictures, training->validation,
                                   &training->options, &training->plan);
    }
    progress_clear();
    if (status == L3A_OK && (dry || !training->arguments->quiet)) {
        print_plan(dry ? stdout : stderr, training);
    }
    code = explain(training->arguments, status);
    return code != EXIT_DONE || dry ? code : train(training);
}

/* Whether the options say twice what to validate on. */
static bool validates_once(const struct arguments *arguments) {
    const bool pictures = argument(arguments, "validation") || argument(arguments, "validation-data");
    if (pictures && argument(arguments, "validation-share")) {
        complain(arguments, "--validation-share has no effect with --%s",
                 argument(arguments, "validation") ? "validation" : "validation-data");
        return false;
    }
    return true;
}

static bool fill_training(struct training *training) {
    const struct arguments *arguments = training->arguments;
    l3a_train_options *options = &training->options;
    training->picture = (l3a_picture_options){.size = sizeof training->picture, .orient = argument(arguments, "orient") != NULL};
    *options = (l3a_train_options){.size = sizeof *options,
                                   .recipe = argument(arguments, "recipe"),
                                   .backbone = &training->network,
                                   .picture = &training->picture,
                                   .resume = argument(arguments, "resume") != NULL,
                                   .on_epoch = take_epoch,
                                   .epoch_user = training};
    return read_trained(arguments, options) && read_numbers(arguments, options) && read_choices(arguments, options) &&
           read_crop(arguments, options) && read_classes(arguments, &training->classes, options) && validates_once(arguments) &&
           backbone_arguments(arguments, &training->network);
}

/* The path of the state, and the command to record. */
static bool fill_texts(struct training *training) {
    const size_t length = strlen(training->path) + sizeof ".training";
    training->state = malloc(length);
    training->options.command = recorded_command(training->arguments);
    if (!training->state || !training->options.command) {
        complain(training->arguments, "out of memory");
        return false;
    }
    snprintf(training->state, length, "%s.training", training->path);
    training->options.state = training->state;
    return true;
}

int train_command(struct arguments *arguments) {
    struct training training = {.arguments = arguments, .report = argument(arguments, "report")};
    const bool dry = argument(arguments, "dry-run") != NULL;
    const char *difficult = argument_choice(arguments, "difficult", "absent|ignore", "absent"),
               *format = difficult ? argument_choice(arguments, "format", "table|json|csv", "table") : NULL;
    training.backbone = format ? argument_needed(arguments, "backbone") : NULL;
    if (!training.backbone || !argument_needed(arguments, "data") || !(dry || argument_needed(arguments, "o"))) {
        return EXIT_USAGE;
    }
    training.path = argument(arguments, "o") ? argument(arguments, "o") : "";
    if (arguments->positional_count) {
        return complain(arguments, "'%s' is not expected here", arguments->positionals[0]);
    }
    training.printer = printer_of(format);
    const int code =
        fill_training(&training) && fill_texts(&training) ? execute(&training, strcmp(difficult, "ignore") == 0) : EXIT_USAGE;
    training_free(&training);
    return code;
}
