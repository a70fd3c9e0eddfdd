/* l3a data: checks and describes a data set. */
#include "rows.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const struct option data_options[] = {
    {"split", "NAME", "split to describe [the training split]"},
    {"protocol", "B<b>-C<c>", "count the pictures of each phase: b classes first (c if b is 0), then c per phase"},
    {"class-order", "HOW", "lexicographic, shuffle:SEED, or a file with one name per line [lexicographic]"},
    {"difficult", "absent|ignore", "VOC: how to label a class that has only difficult objects in a picture [absent]"},
    {"check-pictures", NULL, "decode every picture, to find broken ones"},
    {"format", "table|json", "output format [table]"},
    {NULL, NULL, NULL},
};

enum { PAIRS_SHOWN = 5, PROBLEMS_SHOWN = 5, PAIR_CLASSES = 4096, BAR = 30 };

/* Usual pairs of splits, to train and to test on. */
static const char *const usual[][2] = {{"trainval", "test"}, {"train2014", "val2014"}, {"train2017", "val2017"}, {"train", "test"},
                                       {"train", "val"},     {"train", "valid"},       {"train", "validation"}};

struct pair {
    size_t first, second, pictures;
};

struct phases {
    size_t count;
    size_t *order, *bounds, *learned, *measured;
};

/* Pictures that are missing, or that cannot be decoded. */
struct problems {
    size_t count, shown;
    char *texts[PROBLEMS_SHOWN];
};

struct description {
    const char *name, *train_split, *test_split; /* test_split is NULL if there is no second split */
    l3a_dataset *train, *test;
    size_t rows, classes, labels, unknown, without, most;
    size_t *counts, *members; /* pictures of each class */
    size_t largest, smallest; /* classes */
    struct pair pairs[PAIRS_SHOWN];
    size_t pair_count;
    const char *protocol;
    struct phases phases;
    size_t pictures;
    bool checked;
    struct problems missing, unreadable;
};

static void description_free(struct description *about) {
    for (size_t i = 0; i < PROBLEMS_SHOWN; i++) {
        free(about->missing.texts[i]);
        free(about->unreadable.texts[i]);
    }
    free(about->counts);
    free(about->members);
    free(about->phases.order);
    free(about->phases.bounds);
    free(about->phases.learned);
    free(about->phases.measured);
    l3a_dataset_free(about->train);
    l3a_dataset_free(about->test);
}

static bool has_word(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; *at; at += strspn(at, " ")) {
        const size_t here = strcspn(at, " ");
        if (here == length && strncmp(at, word, length) == 0) {
            return true;
        }
        at += here;
    }
    return false;
}

/* Chooses the requested split or the usual one, and, if that is a training split, the test split that goes with it. */
static void choose_splits(struct description *about, const char *splits, const char *asked) {
    about->train_split = asked;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        const bool fits = asked ? strcmp(asked, usual[i][0]) == 0 : has_word(splits, usual[i][0]);
        if (fits && has_word(splits, usual[i][1])) {
            about->train_split = usual[i][0];
            about->test_split = usual[i][1];
            return;
        }
    }
    if (!asked && splits[0] && !strchr(splits, ' ')) {
        about->train_split = splits;
    }
}

static bool same_classes(const l3a_dataset *left, const l3a_dataset *right) {
    const size_t count = l3a_dataset_class_count(left);
    bool same = count == l3a_dataset_class_count(right);
    for (size_t i = 0; same && i < count; i++) {
        same = strcmp(l3a_dataset_class(left, i), l3a_dataset_class(right, i)) == 0;
    }
    return same;
}

static bool count_labels(struct description *about) {
    const int8_t *labels = l3a_dataset_labels(about->train), *members = l3a_dataset_members(about->train);
    about->counts = calloc(about->classes, sizeof *about->counts);
    about->members = calloc(about->classes, sizeof *about->members);
    if (!about->counts || !about->members) {
        return false;
    }
    for (size_t i = 0; i < about->rows; i++) {
        size_t here = 0;
        for (size_t k = 0; k < about->classes; k++) {
            const int8_t label = labels[i * about->classes + k];
            about->counts[k] += label == 1;
            about->members[k] += members[i * about->classes + k] == 1;
            about->unknown += label == -1;
            here += label == 1;
        }
        about->labels += here;
        about->without += here == 0;
        about->most = here > about->most ? here : about->most;
    }
    for (size_t k = 1; k < about->classes; k++) {
        about->largest = about->counts[k] > about->counts[about->largest] ? k : about->largest;
        about->smallest = about->counts[k] <= about->counts[about->smallest] ? k : about->smallest;
    }
    return true;
}

/* Keeps the strongest pairs, in falling order. */
static void offer_pair(struct description *about, struct pair pair) {
    size_t at = about->pair_count < PAIRS_SHOWN ? about->pair_count++ : PAIRS_SHOWN;
    while (at > 0 && about->pairs[at - 1].pictures < pair.pictures) {
        if (at < PAIRS_SHOWN) {
            about->pairs[at] = about->pairs[at - 1];
        }
        at--;
    }
    if (at < PAIRS_SHOWN) {
        about->pairs[at] = pair;
    }
}

static bool count_pairs(struct description *about) {
    const size_t classes = about->classes;
    const int8_t *labels = l3a_dataset_labels(about->train);
    if (classes > PAIR_CLASSES) {
        return true;
    }
    size_t *together = calloc(classes * classes, sizeof *together), *here = calloc(classes, sizeof *here);
    const bool good = together && here;
    for (size_t i = 0; good && i < about->rows; i++) {
        size_t count = 0;
        for (size_t k = 0; k < classes; k++) {
            if (labels[i * classes + k] == 1) {
                for (size_t j = 0; j < count; j++) {
                    together[here[j] * classes + k]++;
                }
                here[count++] = k;
            }
        }
    }
    for (size_t i = 0; good && i < classes * classes; i++) {
        if (together[i]) {
            offer_pair(about, (struct pair){i / classes, i % classes, together[i]});
        }
    }
    free(together);
    free(here);
    return good;
}

/* Counts the pictures with a 1 in any of the columns order[first … last). */
static size_t rows_with(const l3a_dataset *dataset, const int8_t *marks, const size_t *order, size_t first, size_t last) {
    const size_t rows = l3a_dataset_rows(dataset), classes = l3a_dataset_class_count(dataset);
    size_t count = 0;
    for (size_t i = 0; i < rows; i++) {
        size_t k = first;
        while (k < last && marks[i * classes + order[k]] != 1) {
            k++;
        }
        count += k < last;
    }
    return count;
}

static bool make_phases(struct phases *phases, size_t classes) {
    phases->order = calloc(classes, sizeof *phases->order);
    phases->bounds = calloc(classes + 1, sizeof *phases->bounds);
    phases->learned = calloc(classes, sizeof *phases->learned);
    phases->measured = calloc(classes, sizeof *phases->measured);
    return phases->order && phases->bounds && phases->learned && phases->measured;
}

static int count_phases(const struct arguments *arguments, struct description *about) {
    struct phases *phases = &about->phases;
    const l3a_dataset *test = about->test ? about->test : about->train;
    const char *how = argument(arguments, "class-order");
    const char **names = calloc(about->classes, sizeof *names);
    if (!names || !make_phases(phases, about->classes)) {
        free(names);
        return complain(arguments, "out of memory");
    }
    for (size_t k = 0; k < about->classes; k++) {
        names[k] = l3a_dataset_class(about->train, k);
    }
    l3a_status status = l3a_class_order(arguments->context, names, about->classes, how ? how : "lexicographic", phases->order);
    if (status == L3A_OK && about->protocol) {
        status = l3a_protocol_parse(arguments->context, about->protocol, about->classes, phases->bounds, &phases->count);
    }
    for (size_t t = 0; status == L3A_OK && t < phases->count; t++) {
        phases->learned[t] =
            rows_with(about->train, l3a_dataset_members(about->train), phases->order, phases->bounds[t], phases->bounds[t + 1]);
        phases->measured[t] = rows_with(test, l3a_dataset_labels(test), phases->order, 0, phases->bounds[t + 1]);
    }
    free(names);
    return explain(arguments, status);
}

static void add_problem(struct problems *problems, const char *path, const char *what) {
    if (problems->shown < PROBLEMS_SHOWN) {
        const size_t size = strlen(path) + strlen(what) + 1;
        char *text = malloc(size);
        if (text) {
            snprintf(text, size, "%s%s", path, what);
            problems->texts[problems->shown++] = text;
        }
    }
    problems->count++;
}

static const char *file_problem(const char *path) {
    struct stat about;
    if (stat(path, &about)) {
        return ": not found";
    }
    return !S_ISREG(about.st_mode) ? ": not a file" : about.st_size == 0 ? ": empty" : NULL;
}

/* Checks that each picture exists and, if requested, that it can be decoded. */
static void check_pictures(const struct arguments *arguments, struct description *about, const l3a_dataset *dataset) {
    const size_t rows = dataset ? l3a_dataset_rows(dataset) : 0;
    about->pictures += rows;
    for (size_t i = 0; i < rows && !interrupted; i++) {
        const char *path = l3a_dataset_path(dataset, i);
        const char *problem = l3a_dataset_archive(dataset, i, NULL, NULL) ? NULL : file_problem(path); /* archives were looked at */
        l3a_picture picture = {.size = sizeof picture};
        if (problem) {
            add_problem(&about->missing, path, problem);
        } else if (about->checked) {
            if (l3a_dataset_picture(dataset, i, NULL, &picture) != L3A_OK) {
                add_problem(&about->unreadable, "", l3a_error_text(arguments->context));
            }
            l3a_picture_free(arguments->context, &picture);
            progress_show("check", i + 1, rows);
        }
    }
}

static void print_heading(const char *text) {
    printf("%s%s%s\n", style(stdout, STYLE_BOLD), text, style(stdout, STYLE_PLAIN));
}

static void print_class(const struct description *about, size_t class, int width) {
    const char *name = l3a_dataset_class(about->train, class);
    const size_t most = about->counts[about->largest] ? about->counts[about->largest] : 1;
    const int bar = (int)(about->counts[class] * BAR / most);
    printf("  %-*s %7zu  %.*s", width, name, about->counts[class], bar, "##############################");
    if (about->members[class] != about->counts[class]) {
        printf("  (%zu with crowds)", about->members[class]);
    }
    printf("\n");
}

static void print_classes(const struct description *about) {
    int width = 0;
    for (size_t k = 0; k < about->classes; k++) {
        const int here = display_width(l3a_dataset_class(about->train, k));
        width = here > width ? here : width;
    }
    print_heading("pictures of each class");
    for (size_t k = 0; k < about->classes; k++) {
        print_class(about, k, width);
    }
}

static void print_pairs(const struct description *about) {
    if (about->pair_count) {
        print_heading("most often together");
    }
    for (size_t i = 0; i < about->pair_count; i++) {
        const struct pair *pair = &about->pairs[i];
        const size_t rarer = about->counts[pair->first] < about->counts[pair->second] ? pair->first : pair->second;
        printf("  %s and %s: %zu, %.0f%% of the pictures with %s\n", l3a_dataset_class(about->train, pair->first),
               l3a_dataset_class(about->train, pair->second), pair->pictures,
               100.0 * (double)pair->pictures / (double)about->counts[rarer], l3a_dataset_class(about->train, rarer));
    }
}

static const char *class_at(const struct description *about, size_t index) {
    return l3a_dataset_class(about->train, about->phases.order[index]);
}

static void print_phases(const struct description *about) {
    const struct phases *phases = &about->phases;
    if (!phases->count) {
        return;
    }
    printf("%sphases of %s%s\n  phase  to learn (%s)  to measure (%s)  classes\n", style(stdout, STYLE_BOLD), about->protocol,
           style(stdout, STYLE_PLAIN), about->train_split, about->test_split ? about->test_split : about->train_split);
    for (size_t t = 0; t < phases->count; t++) {
        const size_t first = phases->bounds[t], last = phases->bounds[t + 1] - 1;
        printf("  %5zu  %*zu  %*zu  %s", t + 1, display_width(about->train_split) + 11, phases->learned[t],
               display_width(about->test_split ? about->test_split : about->train_split) + 13, phases->measured[t],
               class_at(about, first));
        printf(last > first ? " … %s (%zu)\n" : "\n", class_at(about, last), last - first + 1);
    }
}

static double imbalance(const struct description *about) {
    const size_t smallest = about->counts[about->smallest];
    return smallest ? (double)about->counts[about->largest] / (double)smallest : 0;
}

static void print_table(const struct description *about) {
    printf("%s: %s, %zu %s, %zu %s\n", about->name, about->train_split, about->rows, plural(about->rows, "picture", "pictures"),
           about->classes, plural(about->classes, "class", "classes"));
    printf("labels: %zu, %.2f per picture, at most %zu; %zu %s without any", about->labels,
           (double)about->labels / (double)about->rows, about->most, about->without, plural(about->without, "picture", "pictures"));
    if (about->unknown) {
        printf("; %zu unknown", about->unknown);
    }
    printf("\nimbalance: %s %zu, %s %zu", l3a_dataset_class(about->train, about->largest), about->counts[about->largest],
           l3a_dataset_class(about->train, about->smallest), about->counts[about->smallest]);
    if (about->counts[about->smallest]) {
        printf(", %.1f to 1", imbalance(about));
    }
    printf("\n");
    print_classes(about);
    print_pairs(about);
    print_phases(about);
    printf("picture files: %zu, %zu missing or empty", about->pictures, about->missing.count);
    if (about->checked) {
        printf(", %zu unreadable", about->unreadable.count);
    }
    printf("\n");
}

static void print_json_problems(struct printer *printer, const char *key, const struct problems *problems) {
    put_open(printer, key, '{');
    put_count(printer, "count", problems->count);
    put_open(printer, "first", '[');
    for (size_t i = 0; i < problems->shown; i++) {
        put_text(printer, NULL, problems->texts[i]);
    }
    put_close(printer, ']');
    put_close(printer, '}');
}

static void print_json_phases(struct printer *printer, const struct description *about) {
    const struct phases *phases = &about->phases;
    put_text(printer, "protocol", about->protocol);
    put_open(printer, "phases", '[');
    for (size_t t = 0; t < phases->count; t++) {
        put_open(printer, NULL, '{');
        put_count(printer, "phase", t + 1);
        put_open(printer, "classes", '[');
        for (size_t k = phases->bounds[t]; k < phases->bounds[t + 1]; k++) {
            put_text(printer, NULL, class_at(about, k));
        }
        put_close(printer, ']');
        put_count(printer, "train_images", phases->learned[t]);
        put_count(printer, "test_images", phases->measured[t]);
        put_close(printer, '}');
    }
    put_close(printer, ']');
}

static void print_json_classes(struct printer *printer, const struct description *about) {
    put_open(printer, "classes", '[');
    for (size_t k = 0; k < about->classes; k++) {
        put_open(printer, NULL, '{');
        put_text(printer, "name", l3a_dataset_class(about->train, k));
        put_count(printer, "pictures", about->counts[k]);
        put_count(printer, "members", about->members[k]);
        put_close(printer, '}');
    }
    put_close(printer, ']');
    put_open(printer, "pairs", '[');
    for (size_t i = 0; i < about->pair_count; i++) {
        put_open(printer, NULL, '{');
        put_open(printer, "classes", '[');
        put_text(printer, NULL, l3a_dataset_class(about->train, about->pairs[i].first));
        put_text(printer, NULL, l3a_dataset_class(about->train, about->pairs[i].second));
        put_close(printer, ']');
        put_count(printer, "pictures", about->pairs[i].pictures);
        put_close(printer, '}');
    }
    put_close(printer, ']');
}

static void print_json(const struct description *about) {
    struct printer printer = printer_of("json");
    put_open(&printer, NULL, '{');
    put_text(&printer, "dataset", about->name);
    put_text(&printer, "split", about->train_split);
    if (about->test_split) {
        put_text(&printer, "test_split", about->test_split);
    } else {
        put_null(&printer, "test_split");
    }
    put_count(&printer, "pictures", about->rows);
    put_count(&printer, "labels", about->labels);
    put_count(&printer, "unknown_labels", about->unknown);
    put_count(&printer, "without_labels", about->without);
    put_count(&printer, "most_labels", about->most);
    put_number(&printer, "labels_a_picture", (double)about->labels / (double)about->rows, 6);
    put_number(&printer, "imbalance", imbalance(about), 6);
    put_count(&printer, "disagreements",
              l3a_dataset_disagreements(about->train) + (about->test ? l3a_dataset_disagreements(about->test) : 0));
    print_json_classes(&printer, about);
    if (about->protocol) {
        print_json_phases(&printer, about);
    }
    put_count(&printer, "files", about->pictures);
    print_json_problems(&printer, "missing", &about->missing);
    if (about->checked) {
        print_json_problems(&printer, "unreadable", &about->unreadable);
    }
    put_close(&printer, '}');
    printf("\n");
}

static int complain_about(const struct arguments *arguments, const struct problems *problems, size_t files, const char *one,
                          const char *many) {
    const char *what = plural(problems->count, one, many);
    if (!problems->count) {
        return EXIT_DONE;
    }
    complain(arguments, "%zu of %zu %s %s", problems->count, files, plural(files, "picture", "pictures"), what);
    for (size_t i = 0; i < problems->shown; i++) {
        fprintf(stderr, "  %s\n", problems->texts[i]);
    }
    if (problems->count > problems->shown) {
        fprintf(stderr, "  …\n");
    }
    return EXIT_USAGE;
}

static int describe(const struct arguments *arguments, struct description *about, const char *format) {
    about->rows = l3a_dataset_rows(about->train);
    about->classes = l3a_dataset_class_count(about->train);
    if (!count_labels(about) || !count_pairs(about)) {
        return complain(arguments, "out of memory");
    }
    const int code = count_phases(arguments, about);
    if (code != EXIT_DONE) {
        return code;
    }
    check_pictures(arguments, about, about->train);
    check_pictures(arguments, about, about->test);
    if (interrupted) {
        return EXIT_INTERRUPTED;
    }
    progress_clear();
    if (strcmp(format, "json") == 0) {
        print_json(about);
    } else {
        print_table(about);
    }
    fflush(stdout);
    const int missing = complain_about(arguments, &about->missing, about->pictures, "is missing or empty", "are missing or empty");
    const int unreadable = complain_about(arguments, &about->unreadable, about->pictures, "cannot be decoded", "cannot be decoded");
    return missing != EXIT_DONE ? missing : unreadable;
}

int data_command(struct arguments *arguments) {
    l3a_context *context = arguments->context;
    const char *difficult = argument_choice(arguments, "difficult", "absent|ignore", "absent");
    l3a_dataset_options options = {.size = sizeof options};
    struct description about = {.checked = argument(arguments, "check-pictures") != NULL,
                                .protocol = argument(arguments, "protocol")};
    char splits[1024] = "";
    options.ignore_difficult = difficult && strcmp(difficult, "ignore") == 0;
    const char *format = argument_choice(arguments, "format", "table|json", "table");
    if (!difficult || !format) {
        return EXIT_USAGE;
    }
    if (arguments->positional_count != 1) {
        return complain(arguments, "name one data set, as voc:FOLDER, coco:FOLDER, list:FILE.csv, folders:FOLDER or tar:FILE.tar");
    }
    about.name = arguments->positionals[0];
    l3a_status status = l3a_dataset_splits(context, about.name, splits, sizeof splits);
    if (status == L3A_OK) {
        choose_splits(&about, splits, argument(arguments, "split"));
        status = l3a_dataset_open(context, about.name, about.train_split, &options, &about.train);
    }
    if (status == L3A_OK && about.test_split) {
        status = l3a_dataset_open(context, about.name, about.test_split, &options, &about.test);
    }
    int code;
    if (status != L3A_OK) {
        code = explain(arguments, status);
    } else if (about.test && !same_classes(about.train, about.test)) {
        code = complain(arguments, "%s: %s and %s have different classes", about.name, about.train_split, about.test_split);
    } else {
        code = describe(arguments, &about, format);
    }
    description_free(&about);
    return code;
}
