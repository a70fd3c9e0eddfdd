/* l3a run --data, l3a sweep --data: the tables of an experiment come from pictures. Their features are extracted to a cache, unless
 * they are there. With --adapt, the backbone is first trained on what belongs to the first phase. The experiment is tried without
 * features first, so that it is not after hours of extraction that a mistyped name ends it. */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TRAIN, TEST, SETS, SPLIT = 256, PATH = 4096 };

/* A data set to learn from or to measure on. */
struct set {
    const char *data, *split; /* split NULL: none was chosen */
    char usual[SPLIT];
    l3a_dataset *dataset;
    l3a_extract_options options;
    l3a_features **table;
    bool blank; /* the table has no features, or not yet */
    l3a_extract_report report;
};

struct pictures {
    const struct arguments *arguments;
    l3a_backbone *backbone;
    struct set sets[SETS];
    l3a_picture_options picture;
    l3a_cache_options cache;
    char folder[PATH];
    l3a_backbone_options network, trained_network; /* which is trained in float32, whatever it computes features in */
    l3a_train_options training;                    /* of an adaptation */
    l3a_adapt_options adapt;                       /* how NULL: none is wanted */
    char adapted[PATH];                            /* the checkpoint */
};

static const char *const own_options[] = {"split",      "test-data", "test-split", "difficult", "backbone",   "float16",
                                          "float32",    "orient",    "strict",     "adapt",     "adapt-seed", "adapt-epochs",
                                          "adapt-rate", "cache",     "cache-size", "no-cache",  NULL};

static const char *first_given(const struct arguments *arguments, const char *const *names) {
    while (*names && !argument(arguments, *names)) {
        names++;
    }
    return *names;
}

bool picture_arguments_check(const struct arguments *arguments) {
    static const char *const of_features[] = {"train", "test", "train-labels", "test-labels", "names", NULL};
    const char *own = first_given(arguments, own_options), *other = first_given(arguments, of_features);
    own = own ? own : backbone_argument_given(arguments);
    if (!argument(arguments, "data")) {
        if (own) {
            complain(arguments, "--%s needs --data", own);
        }
        return !own;
    }
    if (other) {
        complain(arguments, "--data and --%s exclude each other: learn from pictures or from features", other);
    } else if (argument(arguments, "float16") && argument(arguments, "float32")) {
        complain(arguments, "--float16 and --float32 exclude each other");
    } else if (argument(arguments, "cache") && argument(arguments, "no-cache")) {
        complain(arguments, "--cache and --no-cache exclude each other");
    } else if (arguments->processes > 1) {
        complain(arguments, "--data works in one process, but %zu were started together", arguments->processes);
        print_hint("extract the features with l3a extract, which they can share, and use them with --train and --test");
    } else {
        return argument_needed(arguments, "backbone") != NULL;
    }
    return false;
}

/* ---- What there is to do ---- */

/* What is not given is usual for the kind of data set. */
static int choose_splits(struct pictures *pictures) {
    const struct arguments *arguments = pictures->arguments;
    struct set *train = &pictures->sets[TRAIN], *test = &pictures->sets[TEST];
    char unused[SPLIT];
    train->data = argument(arguments, "data");
    test->data = argument(arguments, "test-data") ? argument(arguments, "test-data") : train->data;
    l3a_status status = l3a_dataset_usual_splits(arguments->context, train->data, train->usual, unused, SPLIT);
    if (status == L3A_OK) {
        status = l3a_dataset_usual_splits(arguments->context, test->data, unused, test->usual, SPLIT);
    }
    const char *given = argument(arguments, "split"), *scored = argument(arguments, "test-split");
    train->split = given ? given : train->usual[0] ? train->usual : NULL;
    test->split = scored ? scored : test->usual[0] ? test->usual : NULL;
    if (status == L3A_OK && !test->split && !argument(arguments, "test-data")) {
        complain(arguments, "%s does not say which pictures to measure on", train->data);
        print_hint("name a split with --test-split, or another data set with --test-data");
        return EXIT_USAGE;
    }
    return explain(arguments, status);
}

static size_t setting_number(const l3a_options *settings, const char *name) {
    char text[64];
    l3a_options_get(settings, name, text, sizeof text);
    return (size_t)strtoull(text, NULL, 10);
}

/* The views that are learned and scored are those that are extracted. */
static void choose_options(struct pictures *pictures, const l3a_options *settings) {
    const struct arguments *arguments = pictures->arguments;
    const size_t views = setting_number(settings, "views"), scored = setting_number(settings, "score-views");
    pictures->picture = (l3a_picture_options){.size = sizeof pictures->picture, .orient = argument(arguments, "orient") != NULL};
    for (size_t i = 0; i < SETS; i++) {
        l3a_extract_options *options = &pictures->sets[i].options;
        *options = (l3a_extract_options){.size = sizeof *options,
                                         .strict = argument(arguments, "strict") != NULL,
                                         .picture = &pictures->picture,
                                         .views = i == TEST && scored ? scored : views};
        options->half = argument(arguments, "float16") || (options->views > 1 && !argument(arguments, "float32"));
    }
}

/* --no-cache is a cache of the run's own. */
static bool choose_cache(struct pictures *pictures) {
    const struct arguments *arguments = pictures->arguments;
    const bool own = argument(arguments, "no-cache") != NULL;
    double gibibytes = 0;
    pictures->cache = (l3a_cache_options){.size = sizeof pictures->cache, .folder = argument(arguments, "cache")};
    if (!argument_number(arguments, "cache-size", 1e-6, 1e9, &gibibytes)) {
        return false;
    }
    pictures->cache.limit = own ? UINT64_MAX : (uint64_t)(gibibytes * (1 << 30));
    if (own && argument(arguments, "o")) {
        snprintf(pictures->folder, sizeof pictures->folder, "%s/features", argument(arguments, "o"));
        pictures->cache.folder = pictures->folder;
    } else if (!pictures->cache.folder) {
        if (explain(arguments, l3a_cache_folder(arguments->context, pictures->folder, sizeof pictures->folder)) != EXIT_DONE) {
            return false;
        }
        pictures->cache.folder = pictures->folder;
    }
    return true;
}

static int open_sources(struct pictures *pictures) {
    const struct arguments *arguments = pictures->arguments;
    const char *difficult = argument_choice(arguments, "difficult", "absent|ignore", "absent");
    l3a_status status = L3A_OK;
    if (!difficult || !backbone_arguments(arguments, &pictures->network)) {
        return EXIT_USAGE;
    }
    const l3a_dataset_options reading = {.size = sizeof reading, .ignore_difficult = strcmp(difficult, "ignore") == 0};
    for (size_t i = 0; i < SETS && status == L3A_OK; i++) {
        struct set *set = &pictures->sets[i];
        status = l3a_dataset_open(arguments->context, set->data, set->split, &reading, &set->dataset);
    }
    if (status == L3A_OK) {
        status = l3a_backbone_open(arguments->context, argument(arguments, "backbone"), &pictures->network, &pictures->backbone);
    }
    const int code = explain(arguments, status);
    hint_at_moved_data(arguments, status);
    return code;
}

/* ---- Doing it ---- */

static l3a_status open_blank(const struct pictures *pictures, struct set *set) {
    const l3a_status status = l3a_features_blank(pictures->arguments->context, pictures->backbone, set->dataset, set->options.views,
                                                 pictures->picture.orient, set->table);
    set->blank = status == L3A_OK;
    return status;
}

static void close_blank(struct set *set) {
    if (set->blank) {
        l3a_features_free(*set->table);
        *set->table = NULL;
        set->blank = false;
    }
}

/* Tells whether the library would accept the experiment. */
static l3a_status try_out(const struct pictures *pictures, const struct request *request) {
    l3a_experiment *experiment = NULL;
    const l3a_status status = l3a_experiment_create(pictures->arguments->context, &request->options, &experiment);
    l3a_experiment_free(experiment);
    return status;
}

static l3a_status extract(struct pictures *pictures, struct set *set, bool look_only) {
    l3a_cache_options cache = pictures->cache;
    cache.look_only = look_only;
    set->report = (l3a_extract_report){.size = sizeof set->report};
    return l3a_extract_cached(pictures->arguments->context, pictures->backbone, set->dataset, &set->options, &cache, &set->report,
                              set->table);
}

static void say_where_from(const struct pictures *pictures, const struct set *set) {
    const l3a_extract_report *report = &set->report;
    if (pictures->arguments->quiet) {
        return;
    }
    progress_clear();
    fprintf(stderr, "%s%s%s: %zu %s, ", set->data, set->split ? " " : "", set->split ? set->split : "", report->rows,
            plural(report->rows, "picture", "pictures"));
    if (report->cached) {
        fprintf(stderr, "features from %s\n", pictures->cache.folder);
    } else {
        fprintf(stderr, "features extracted in %.1f s", report->seconds);
        if (report->resumed) {
            fprintf(stderr, " (%zu of them from an earlier run)", report->resumed);
        }
        fprintf(stderr, ", kept in %s\n", pictures->cache.folder);
    }
}

static int explain_step(const struct pictures *pictures, l3a_status status) {
    const int code = explain(pictures->arguments, status);
    if (status == L3A_ERROR_CANCELLED) {
        print_hint("run the same command again%s to continue", pictures->adapt.how ? " with --resume" : "");
    }
    return code;
}

/* Whether a method looks at features; the others look at pictures. */
static bool features_are_needed(const struct request *request) {
    bool needed = false;
    for (size_t i = 0; i < request->options.method_count; i++) {
        needed = needed || !l3a_method_sees_pictures(request->options.methods[i], request->settings);
    }
    return needed || request->options.axis_count;
}

/* Extracts what is missing. */
static int extract_missing(struct pictures *pictures, size_t *bad) {
    bool described = pictures->arguments->quiet;
    for (size_t i = 0; i < SETS; i++) {
        struct set *set = &pictures->sets[i];
        l3a_status status = *set->table ? L3A_OK : extract(pictures, set, true);
        if (status == L3A_OK && !*set->table) {
            if (!described) {
                print_backbone_line(stderr, l3a_backbone_describe(pictures->backbone), set->options.views);
                described = true;
            }
            status = extract(pictures, set, false);
        }
        if (status != L3A_OK) {
            return explain_step(pictures, status);
        }
        say_where_from(pictures, set);
        *bad += set->report.bad;
    }
    return EXIT_DONE;
}

/* Tables for the plan: features from the cache if they are there, otherwise zeros. Those of an adapted backbone are not known yet.
 */
static int open_for_plan(struct pictures *pictures, const struct request *request) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < SETS && status == L3A_OK; i++) {
        struct set *set = &pictures->sets[i];
        status = pictures->adapt.how || !features_are_needed(request) ? L3A_OK : extract(pictures, set, true);
        if (status == L3A_OK && !*set->table) {
            status = open_blank(pictures, set);
        }
    }
    if (status == L3A_OK) {
        status = try_out(pictures, request);
    }
    return explain(pictures->arguments, status);
}

/* ---- Adaptation ---- */

static bool choose_adaptation(struct pictures *pictures, const struct request *request) {
    const struct arguments *arguments = pictures->arguments;
    const char *how = argument_choice(arguments, "adapt", "none|released|norms|all", "none");
    uint64_t epochs = 0, seed = request->numbers[0];
    double rate = 0;
    if (!how || !argument_integer(arguments, "adapt-seed", 0, INT64_MAX, &seed) ||
        !argument_integer(arguments, "adapt-epochs", 1, 100000, &epochs) ||
        !argument_number(arguments, "adapt-rate", 1e-12, 1000, &rate)) {
        return false;
    }
    if (strcmp(how, "none") == 0) {
        const char *const idle[] = {"adapt-seed", "adapt-epochs", "adapt-rate", NULL}, *given = first_given(arguments, idle);
        if (given) {
            complain(arguments, "--%s needs --adapt", given);
        }
        return !given;
    }
    if (request->options.class_order_count > 1) {
        complain(arguments, "--adapt trains on the first phase, and there is one for each of the class orders");
        print_hint("run each class order by itself");
        return false;
    }
    pictures->training = (l3a_train_options){.size = sizeof pictures->training,
                                             .backbone = &pictures->trained_network,
                                             .picture = &pictures->picture,
                                             .seed = seed,
                                             .epochs = (size_t)epochs,
                                             .rate = rate,
                                             .resume = 1};
    pictures->adapt = (l3a_adapt_options){.size = sizeof pictures->adapt,
                                          .how = how,
                                          .protocol = request->options.protocol,
                                          .class_order = request->options.class_order,
                                          .keep = argument(arguments, "resume") != NULL,
                                          .training = &pictures->training};
    return true;
}

/* Says what the adaptation does, in a line that is recorded. */
static int plan_adaptation(struct pictures *pictures, struct request *request) {
    const struct arguments *arguments = pictures->arguments;
    const bool dry = argument(arguments, "dry-run") != NULL;
    l3a_train_plan plan = {.size = sizeof plan};
    char memory[32];
    const l3a_status status = l3a_adapt_prepare(arguments->context, argument(arguments, "backbone"), pictures->sets[TRAIN].dataset,
                                                &pictures->adapt, &plan);
    if (status != L3A_OK) {
        return explain(arguments, status);
    }
    snprintf(request->adapted, sizeof request->adapted, "%s, seed %" PRIu64, plan.settings, pictures->training.seed);
    request->options.adapted = request->adapted;
    if (dry || !arguments->quiet) {
        progress_clear();
        fprintf(dry ? stdout : stderr, "adaptation to %zu %s: %zu %s, %s; memory %s\n", plan.classes,
                plural(plan.classes, "class", "classes"), plan.pictures, plural(plan.pictures, "picture", "pictures"),
                request->adapted, size_text(plan.memory, memory));
    }
    return EXIT_DONE;
}

/* Puts the adapted backbone in the place of the other one. */
static int adapt(struct pictures *pictures) {
    const struct arguments *arguments = pictures->arguments;
    const char *folder = argument(arguments, "o");
    l3a_train_report report = {.size = sizeof report};
    l3a_backbone_free(pictures->backbone);
    pictures->backbone = NULL;
    snprintf(pictures->adapted, PATH, "%s/adapted.safetensors", folder);
    if (mkdir(folder, 0777) && errno != EEXIST) {
        complain(arguments, "%s: cannot create this folder: %s", folder, strerror(errno));
        return EXIT_USAGE;
    }
    l3a_status status = l3a_adapt(arguments->context, argument(arguments, "backbone"), pictures->sets[TRAIN].dataset,
                                  &pictures->adapt, pictures->adapted, &report);
    if (status == L3A_OK && !arguments->quiet) {
        progress_clear();
        if (report.steps) {
            fprintf(stderr, "adapted in %.1f s: %s\n", report.seconds, pictures->adapted);
        } else {
            fprintf(stderr, "adapted before: %s\n", pictures->adapted);
        }
    }
    if (status == L3A_OK) {
        status = l3a_backbone_open(arguments->context, pictures->adapted, &pictures->network, &pictures->backbone);
    }
    return explain_step(pictures, status);
}

/* ---- All of it ---- */

/* The library would only say so after the extraction. */
static int check_folder(const struct arguments *arguments) {
    const char *folder = argument(arguments, "o");
    char text[1] = "";
    if (!folder || argument(arguments, "resume") || argument(arguments, "dry-run") ||
        l3a_folder_record(arguments->context, folder, "program", text, sizeof text) == L3A_ERROR_NOT_FOUND) {
        return EXIT_DONE;
    }
    complain(arguments, "%s: this folder already holds results", folder);
    print_hint("resume the run with --resume, or choose another folder");
    return EXIT_USAGE;
}

/* What methods look at that train the backbone: that of the command, before it is adapted. */
static void offer_training(const struct pictures *pictures, struct request *request) {
    snprintf(request->trained, sizeof request->trained, "%s", argument(pictures->arguments, "backbone"));
    request->network = pictures->trained_network;
    request->picture = pictures->picture;
    request->training = (l3a_backbone_training){.size = sizeof request->training,
                                                .checkpoint = request->trained,
                                                .backbone = &request->network,
                                                .picture = &request->picture,
                                                .train = pictures->sets[TRAIN].dataset,
                                                .test = pictures->sets[TEST].dataset};
    request->options.training = &request->training;
}

/* Looks at what is given, and for whether it fits together. */
static int prepare(struct pictures *pictures, struct request *request) {
    int code = check_folder(pictures->arguments);
    code = code == EXIT_DONE ? choose_splits(pictures) : code;
    if (code == EXIT_DONE && (!choose_cache(pictures) || !choose_adaptation(pictures, request))) {
        code = EXIT_USAGE;
    }
    choose_options(pictures, request->settings);
    code = code == EXIT_DONE ? open_sources(pictures) : code;
    pictures->trained_network = pictures->network;
    pictures->trained_network.precision = L3A_NETWORK_FLOAT32;
    offer_training(pictures, request);
    code = code == EXIT_DONE && pictures->adapt.how ? plan_adaptation(pictures, request) : code;
    return code == EXIT_DONE ? open_for_plan(pictures, request) : code;
}

static int open_tables(struct pictures *pictures, struct request *request) {
    const bool dry = argument(pictures->arguments, "dry-run") != NULL;
    int code = prepare(pictures, request);
    for (size_t i = 0; i < SETS; i++) {
        struct set *set = &pictures->sets[i];
        if (code == EXIT_DONE && set->blank && !features_are_needed(request)) {
            continue;
        }
        if (code == EXIT_DONE && dry && set->blank) {
            printf("features of %zu %s are to be extracted first\n", l3a_dataset_rows(set->dataset),
                   plural(l3a_dataset_rows(set->dataset), "picture", "pictures"));
        } else {
            close_blank(set);
        }
    }
    if (code == EXIT_DONE && !dry && pictures->adapt.how) {
        code = adapt(pictures);
    }
    if (code == EXIT_DONE && pictures->adapted[0]) {
        snprintf(request->trained, sizeof request->trained, "%s", pictures->adapted);
    }
    return code == EXIT_DONE && !dry && features_are_needed(request) ? extract_missing(pictures, &request->bad) : code;
}

int open_picture_tables(const struct arguments *arguments, struct request *request) {
    struct pictures pictures = {.arguments = arguments,
                                .sets = {[TRAIN] = {.table = &request->options.train}, [TEST] = {.table = &request->options.test}}};
    const int code = open_tables(&pictures, request);
    l3a_backbone_free(pictures.backbone);
    for (size_t i = 0; i < SETS; i++) {
        request->datasets[i] = pictures.sets[i].dataset;
    }
    return code;
}
