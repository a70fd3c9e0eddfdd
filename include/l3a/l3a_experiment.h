/* Experiments: methods that learn the classes of a data set phase by phase, compared with each other, with joint learning and with
 * the paper; their results and reports. It builds on l3a.h, whose conventions hold here too. */
#ifndef L3A_L3A_EXPERIMENT_H
#define L3A_L3A_EXPERIMENT_H

#include "l3a.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Protocols ------------------------------------------------------------------------------------------------------
 * "B<b>-C<c>": b classes in the first phase (0: c), then c per phase. Phase t, counted from 0, has the classes
 * [bounds[t], bounds[t + 1]); bounds needs room for classes + 1 numbers. */
L3A_PUBLIC l3a_status l3a_protocol_parse(l3a_context *context, const char *protocol, size_t classes, size_t *bounds,
                                         size_t *phases);
/* Fills order with a permutation of the names. how is "lexicographic", "shuffle:SEED", or the path of a file with one name per
 * line. */
L3A_PUBLIC l3a_status l3a_class_order(l3a_context *context, const char *const *names, size_t count, const char *how, size_t *order);

/* ---- Methods -------------------------------------------------------------------------------------------------------- */
typedef struct l3a_method_info {
    const char *name;
    const char *help;   /* what it does */
    const char *source; /* who published it, where and when */
    const char *stores; /* what it keeps between phases */
    /* 1: on features; 2: with the setting train-backbone alone; 0: listed only, because it trains the backbone itself. 2: since
     * 0.17. */
    int runs;
} l3a_method_info;

/* The methods in order; NULL past the last. The table is static. */
L3A_PUBLIC const l3a_method_info *l3a_method_at(size_t index);
/* 1 if the method looks at pictures and not at features, with these settings (train-backbone); otherwise 0. Since 0.17. */
L3A_PUBLIC int l3a_method_sees_pictures(const char *name, const l3a_options *settings);
/* Changes the options to those of a method that is a model: "l3a+", "acil", … Settings that were set by name stay if the method
 * allows it. */
L3A_PUBLIC l3a_status l3a_method_options(l3a_context *context, const char *name, l3a_options *options);

/* What a method keeps between phases, so that a job that was stopped resumes after its last phase: named arrays, which a run writes
 * to its folder after each phase and hands back when it is resumed. Since 0.11. */
typedef struct l3a_state l3a_state;

typedef enum l3a_number {
    L3A_NUMBER_FLOAT32 = 0,
    L3A_NUMBER_FLOAT64 = 1,
    L3A_NUMBER_INT8 = 2,
    L3A_NUMBER_UINT8 = 3,
    L3A_NUMBER_INT64 = 4
} l3a_number;

/* An array of a state. Since 0.11. */
typedef struct l3a_state_array {
    const char *name;
    l3a_number type;
    size_t rank;       /* dimensions; 0: a single number */
    uint64_t shape[8]; /* their extents; those past the rank are 0 */
    const void *data;  /* row by row */
} l3a_state_array;

/* Adds an array to a state that is being saved. The name is copied: 1 to 100 printable ASCII characters other than space, quotes
 * and backslash; a name that is there already is L3A_ERROR_ARGUMENT. So is a rank above 8. shape may be NULL if the rank is 0, and
 * data if an extent is 0. The numbers are not copied: they are written to the file after the function that saves the method has
 * returned, and must stay as they are until another function of the method is called, or l3a_experiment_run() returns. Since
 * 0.11. */
L3A_PUBLIC l3a_status l3a_state_put(l3a_state *state, const char *name, l3a_number type, const uint64_t *shape, size_t rank,
                                    const void *data);
/* Finds an array. *data belongs to the state; shape has room for `rank` numbers, and may be NULL if it is 0. If there is no array
 * of that name, type and rank, this is L3A_ERROR_FORMAT. Since 0.11. */
L3A_PUBLIC l3a_status l3a_state_get(const l3a_state *state, const char *name, l3a_number type, size_t rank, uint64_t *shape,
                                    const void **data);
/* The arrays in the order in which they were put; NULL past the last. Valid until the next l3a_state_put(). Since 0.11. */
L3A_PUBLIC const l3a_state_array *l3a_state_at(const l3a_state *state, size_t index);
/* A phase, as a method of the program's own sees it. The struct and what it points to are valid only during the callback. */
typedef struct l3a_method_phase {
    size_t size;                /* sizeof the struct */
    const char *const *classes; /* the names of the classes learned after this phase: `last` of them */
    size_t first, last;         /* the classes that are new: [first, last) */
    size_t phase, phases;       /* the number of this phase, from 1, and of all */
    uint64_t images;            /* that this phase has in all: those that show a new class */
    size_t rows, width;         /* of the features of an image: 1 row, or with views 1 + their number */
} l3a_method_phase;

/* The callbacks of a method of the program's own. They return 0, or something else to say that they failed. Features are
 * [images x rows x width]; labels are [images x new classes]: 1 present, 0 absent, -1 unknown. What an image shows of older or
 * later classes, the method must not know. */
/* If it fails, there is no learner. */
typedef int l3a_method_create(void *user, uint64_t seed, size_t width, void **learner);
/* Hands out memory for the features of all images of a phase, which stays the program's. */
typedef int l3a_method_room(void *learner, const l3a_method_phase *phase, float **features);
typedef int l3a_method_learn(void *learner, const l3a_method_phase *phase, const float *features, const int8_t *labels,
                             size_t images);
/* Fills in [images x classes learned so far]: higher means more likely present. */
typedef int l3a_method_score(void *learner, const float *features, size_t images, float *scores);
/* Fills in the score above which each class learned so far counts as predicted. */
typedef int l3a_method_thresholds(void *learner, double *thresholds);
typedef int l3a_method_save(void *learner, l3a_state *into);
typedef int l3a_method_load(void *learner, const l3a_state *from);
typedef void l3a_method_free(void *learner);
/* Writes why the last callback has failed. */
typedef void l3a_method_explain(void *user, char *text, size_t capacity);

/* A method of the program's own, which goes through the same phases and measurements as the others. Since 0.11.
 *
 * For every seed and class order, `create` makes a learner, which learns the phases in turn. After each phase it scores the test
 * images, in blocks. The callbacks are called one at a time, by the thread that runs the experiment. If one fails, or a score or a
 * threshold is NaN, this method ends: its results up to there stay, l3a_experiment_failure() tells in which phase and why, and the
 * other methods go on. Of several processes, each learns everything and scores its part of the test images; there, a failure ends
 * the experiment. */
typedef struct l3a_method {
    size_t size;      /* sizeof the struct */
    const char *name; /* in tables; no other method has it: up to 64 letters, digits, "+", "-", "_" and "." */
    /* All that the results depend on, as a text; NULL: nothing. An experiment can be resumed only with methods of the same names
     * and parameters. */
    const char *parameters;
    int at_once;               /* 1: learns all classes in a single phase, with all labels: a bound, as joint is */
    void *user;                /* for `create` and `explain` */
    l3a_method_create *create; /* makes a learner */
    l3a_method_learn *learn;   /* learns a phase, with all its images in memory */
    /* Instead of `learn`: gets some images at a time, with no more rows than the setting block, and at the end of the phase none.
     */
    l3a_method_learn *learn_block;
    l3a_method_score *score;           /* scores images */
    l3a_method_thresholds *thresholds; /* called after each phase; NULL: the setting theta, as if scores were log odds */
    l3a_method_save *save;             /* what a learner keeps between phases … */
    l3a_method_load *load;             /* … for one that was just made; NULL, both: once interrupted, the method starts again */
    l3a_method_free *free;             /* NULL: there is nothing to free */
    l3a_method_explain *explain;       /* NULL: no reasons are known */
    l3a_method_room *room;             /* where `learn` wants its features; NULL: in memory that is gone when it returns */
} l3a_method;

/* ---- Experiments ----------------------------------------------------------------------------------------------------
 * An experiment takes every method, with every combination of the values given for some settings, and every seed through every
 * phase of a protocol, and through every class order if there are several. A method with settings is a point. The results go to a
 * folder, from which an interrupted experiment can be resumed.
 *
 * A run has one point per method. Its folder has run.json, the tables of all methods, timings.csv, report.html, and the model of
 * the first method, class order and seed. While another method, order or seed is not finished, what it has learned is in a file of
 * its own, so that every method can resume after a phase; before 0.11, only models did. All this is written after a phase if that
 * is worth its time, so that at most ten seconds of finished work can be lost; before 0.15, after every phase. A phase after whose
 * result event the program cancels is written, too.
 *
 * A grid (a sweep) has any number of points. Points that share the random layer are learned together: rows are read and expanded
 * once, and sums are computed once for all points, except for rows on which their pseudo-labels differ. Its folder has sweep.json,
 * sweep.csv (one row per point, seed and phase), report.html, and in points/ the folder of a run for each point, without models;
 * they are written when the points that are learned together have finished a seed. */
typedef struct l3a_experiment l3a_experiment;
typedef struct l3a_results l3a_results;

/* A setting that varies. This struct never changes, because arrays of it are passed. */
typedef struct l3a_axis {
    const char *name;          /* of a setting */
    const char *const *values; /* for eta, "dynamic" means pseudo = dynamic */
    size_t count;
} l3a_axis;

/* What methods look at that train the backbone (setting train-backbone): the network, and the pictures of the tables. Since 0.17.
 */
typedef struct l3a_backbone_training {
    size_t size;                          /* sizeof the struct */
    const char *checkpoint;               /* the path of the network */
    const l3a_backbone_options *backbone; /* NULL: the defaults */
    const l3a_picture_options *picture;   /* NULL: the defaults */
    const l3a_dataset *train, *test;      /* a row of the training or test table is the picture with its id or, in a table without
                                           * ids, the picture with its number */
} l3a_backbone_training;

typedef struct l3a_experiment_options {
    size_t size;                 /* sizeof the struct */
    l3a_features *train, *test;  /* both are needed; everything else has a default */
    const char *protocol;        /* as in l3a_protocol_parse(); NULL: B0-C10 */
    const char *class_order;     /* as in l3a_class_order(); NULL: lexicographic */
    const char *const *methods;  /* names from l3a_method_at(), of methods that run */
    size_t method_count;         /* 0: only l3a */
    const uint64_t *seeds;       /* of the random layer; used instead of the setting seed */
    size_t seed_count;           /* 0: only 2025 */
    const l3a_options *settings; /* copied; NULL: the defaults. views and score-views are those of the tables */
    const l3a_axis *axes;        /* the settings that vary */
    size_t axis_count;
    int grid;              /* 1: a grid even if no setting varies; 0: a grid if some setting varies, otherwise a run */
    const char *folder;    /* NULL: nothing is written */
    int resume;            /* 1: resume what is in the folder, if anything; 0: a run or grid in the folder is L3A_ERROR_EXISTS */
    const char *command;   /* recorded, so that the experiment can be repeated; NULL: none */
    const char *directory; /* recorded with the command: where its relative paths start; NULL: none */
    int no_report;         /* 1: do not write report.html at the end */
    const char *pictures;  /* for the report: the data set with the test pictures; NULL: the one that the test table records */
    /* Several class orders, each as in l3a_class_order(), instead of class_order. Since 0.7. */
    const char *const *class_orders;
    size_t class_order_count; /* 0: only class_order */
    /* Methods of the program's own; `methods` says where in the tables they are, among the others. Copied, but not what they point
     * to. Since 0.11. */
    const l3a_method *const *own_methods;
    size_t own_method_count;
    const char *adapted; /* how the backbone that made the features was adapted to the first phase; recorded, and said in the
                          * report. NULL: it was not. Since 0.16. */
    const l3a_backbone_training *training; /* NULL: no method can train the backbone. Copied, but not what it points to. Since 0.17.
                                            */
} l3a_experiment_options;

/* What an experiment would do. */
typedef struct l3a_workload {
    size_t size; /* sizeof the struct */
    size_t classes, phases, points, seeds;
    size_t passes;           /* over the training rows, per order and seed; points that are learned together share one */
    double flops;            /* estimate, over all points, orders and seeds */
    uint64_t memory;         /* bytes at the peak */
    uint64_t file;           /* bytes of the largest model file; 0 for a grid, which keeps none */
    uint64_t device_memory;  /* bytes of the GPU's memory at the peak; 0: the processor is used. Since 0.5. */
    uint64_t parts, spilled; /* on a GPU, the most sums of phases kept apart, and how many of them it has no room for: they are in
                              * `memory`. Since 0.5. */
    size_t orders;           /* of the classes: each point learns once for every order and seed. Since 0.7. */
} l3a_workload;

/* A phase of the protocol. */
typedef struct l3a_protocol_phase {
    size_t size;                /* sizeof the struct */
    size_t first, last;         /* classes [first, last), in the experiment's order */
    uint64_t train_images;      /* that belong to the phase … */
    uint64_t unlabelled_images; /* … and those of them that belong to it only because of a crowd */
    uint64_t test_images;       /* that show a class of this phase or an earlier one */
} l3a_protocol_phase;

/* Checks the options and lays out the points; nothing is learned or written yet. A phase in which no training image is labelled is
 * L3A_ERROR_DATA. A combination of values that differs from another one only in settings that its method does not use is left out.
 * The tables, strings and arrays that the options point to must outlive the experiment. */
L3A_PUBLIC l3a_status l3a_experiment_create(l3a_context *context, const l3a_experiment_options *options,
                                            l3a_experiment **experiment);
/* A plan that exceeds the memory available is L3A_ERROR_MEMORY. */
L3A_PUBLIC l3a_status l3a_experiment_plan(const l3a_experiment *experiment, l3a_workload *plan);
/* Describes phase number `index`, from 0; with several class orders, that of the first. */
L3A_PUBLIC l3a_status l3a_experiment_phase(const l3a_experiment *experiment, size_t index, l3a_protocol_phase *phase);
/* Runs what the folder does not have yet. An experiment can be run once; to resume it, create another one. If a method of the
 * program's own fails, the others go on, and the call succeeds if there are others: see l3a_experiment_failure(). */
L3A_PUBLIC l3a_status l3a_experiment_run(l3a_experiment *experiment);
/* What became of a method of the program's own that has failed, with its name, phase and reason; NULL past the last failure. It
 * belongs to the experiment. Since 0.11. */
L3A_PUBLIC const char *l3a_experiment_failure(const l3a_experiment *experiment, size_t index);
L3A_PUBLIC void l3a_experiment_free(l3a_experiment *experiment);

/* The points, in the order of the methods; the values of the last axis vary fastest. */
L3A_PUBLIC size_t l3a_experiment_points(const l3a_experiment *experiment);
L3A_PUBLIC const char *l3a_experiment_method(const l3a_experiment *experiment, size_t point);
/* "gamma=10 eta=0.7", after the method's name if there is more than one method. */
L3A_PUBLIC const char *l3a_experiment_label(const l3a_experiment *experiment, size_t point);
/* Above which threshold the point predicts a class, which CF1 and OF1 depend on: "σ > 0.5", where σ is the logistic function of the
 * score; "fitted per class", "fitted, one for all". Since 0.7. */
L3A_PUBLIC const char *l3a_experiment_threshold(const l3a_experiment *experiment, size_t point);
/* The point's value on an axis, "-" if its method does not use the setting. */
L3A_PUBLIC const char *l3a_experiment_value(const l3a_experiment *experiment, size_t point, size_t axis);
/* The results of a point, for all seeds; all points of a run share one table. NULL before l3a_experiment_run(). They
 * belong to the experiment, and after a failure hold what was done before it. */
L3A_PUBLIC const l3a_results *l3a_experiment_results(const l3a_experiment *experiment, size_t point);

/* A grid from the paper. Lists are separated by commas. */
typedef struct l3a_preset {
    const char *name, *help;
    const char *methods; /* "all": every method that runs */
    const char *seeds;
    const char *setting, *values; /* NULL if only methods vary */
} l3a_preset;

/* NULL past the last preset. */
L3A_PUBLIC const l3a_preset *l3a_preset_at(size_t index);

/* ---- Results --------------------------------------------------------------------------------------------------------
 * The results of a run: one per method, class order, seed and phase. */
typedef struct l3a_result {
    const char *method;
    uint64_t seed;
    size_t phase;       /* from 1 */
    size_t first, last; /* classes of the phase, in the class order of the result */
    uint64_t train_images, test_images, pseudo_labels;
    double seconds; /* to learn and evaluate the phase */
    /* mAP of some of the classes, measured only on the test images that show one of them, as the paper's released program logs it:
     * the classes of the first phase, and those of this phase. For a method that learns all classes at once: the first and last
     * phase of the protocol. NaN: the folder was written by a version that did not record it. */
    double base_map, new_map;
    l3a_metrics metrics; /* last, because it grows */
} l3a_result;

/* What is known about a class in a phase, besides its AP. The truth about old classes comes from the training table's other labels,
 * which learning never uses. */
typedef struct l3a_class_tally {
    uint64_t images;  /* training images that show the class */
    double weight;    /* of the class, after this phase; 0 if the method has none */
    uint64_t pseudo;  /* for an old class: pseudo-labels given in this phase … */
    uint64_t right;   /* … how many of them are true … */
    uint64_t present; /* … and how many images of the phase truly show it */
} l3a_class_tally;

/* Copies a text that run.json or sweep.json in a folder records: "command" or "directory", as in l3a_experiment_options; "" if
 * there is none. It is an error if the folder holds neither file, or if the text is longer than capacity - 1 bytes. */
L3A_PUBLIC l3a_status l3a_folder_record(l3a_context *context, const char *folder, const char *key, char *text, size_t capacity);
/* Loads the results of a run, finished or not. */
L3A_PUBLIC l3a_status l3a_results_load(l3a_context *context, const char *folder, l3a_results **results);
L3A_PUBLIC void l3a_results_free(l3a_results *results);
/* Joins results that were computed elsewhere, from a CSV file (docs/reading-the-report.md): its methods are then compared with
 * those of the run. Their APs, and all else that the file does not have, are NaN or 0. On failure the results are as before. Since
 * 0.11. */
L3A_PUBLIC l3a_status l3a_results_join(l3a_results *results, const char *path);
/* The name of the file that a method was joined from; "" if the run measured it, or there is no such method. Since 0.11. */
L3A_PUBLIC const char *l3a_results_source(const l3a_results *results, const char *method);
/* Results are one per method, class order, seed and phase. */
L3A_PUBLIC size_t l3a_results_count(const l3a_results *results);
L3A_PUBLIC const l3a_result *l3a_results_at(const l3a_results *results, size_t index);
/* AP in percent of the classes [0, last) after that phase, in the class order of the result. */
L3A_PUBLIC const double *l3a_results_average_precision(const l3a_results *results, size_t index);
/* Of one of these classes; NULL if an older version did not record it. */
L3A_PUBLIC const l3a_class_tally *l3a_results_tally(const l3a_results *results, size_t index, size_t class_index);
/* The classes, in the run's order; with several orders, in the first. */
L3A_PUBLIC size_t l3a_results_class_count(const l3a_results *results);
L3A_PUBLIC const char *l3a_results_class(const l3a_results *results, size_t index);
/* The number of class orders; what one of them is called ("shuffle:1"; "" if there is only one); its classes; and which of them a
 * result has. NULL and 0 past the last. Since 0.7. */
L3A_PUBLIC size_t l3a_results_order_count(const l3a_results *results);
L3A_PUBLIC const char *l3a_results_order(const l3a_results *results, size_t order);
L3A_PUBLIC const char *l3a_results_class_in(const l3a_results *results, size_t order, size_t index);
L3A_PUBLIC size_t l3a_results_order_of(const l3a_results *results, size_t index);

/* Over the seeds of one method, and its class orders if there are several: mean and standard deviation (of the sample; 0 for one
 * seed and order). */
typedef struct l3a_summary {
    size_t size;        /* sizeof the struct */
    const char *method; /* the pointer passed to l3a_results_summary() */
    size_t seeds;       /* with several class orders, the pairs of an order and a seed */
    double average_map[2], last_map[2], last_class_f1[2], last_overall_f1[2], forgetting[2]; /* mean, deviation */
    double base_map[2], new_map[2]; /* after the last phase; NaN if not recorded */
    size_t orders;                  /* class orders that have results. Since 0.7. */
} l3a_summary;

L3A_PUBLIC l3a_status l3a_results_summary(l3a_context *context, const l3a_results *results, const char *method,
                                          l3a_summary *summary);
/* Writes one sentence about the results, cut to capacity: "l3a+ ends 2.1 mAP above l3a (95 % interval 1.8 to 2.4) and 0.1 below
 * joint+ (-0.1 to 0.3; may be chance)." It compares the method that ends best with the next best and with joint learning: with
 * joint+ if l3a+ is there, otherwise with joint. With fewer than five pairs of trials it has no intervals, and says that it cannot
 * tell whether a difference is chance. "" if there are no results. Since 0.7. */
L3A_PUBLIC l3a_status l3a_results_verdict(l3a_context *context, const l3a_results *results, char *text, size_t capacity);

/* How a method differs from another, its reference, by a metric, over the class orders and seeds that both have. Since 0.11. */
typedef struct l3a_difference {
    const char *method, *reference; /* the same for the reference itself; reference NULL: there is nothing to compare with */
    size_t reference_index;         /* of the reference among the differences; SIZE_MAX if there is none */
    size_t pairs;                   /* class orders and seeds that both have, and have learned as many classes with; 0 if compared
                                     * with itself or nothing */
    double difference;           /* mean of this method minus the reference, in points; this and what follows: NaN without pairs */
    double low, high;            /* the 95 % interval of the mean; NaN with one pair */
    double p, adjusted_p;        /* that the difference is chance: of this comparison alone, and adjusted by Holm for all of them;
                                  * NaN with one pair */
    const char *interval, *test; /* "t", "paired t": below ten pairs; "bootstrap", "sign flips": from there; NULL: none */
    int significant;             /* 1: adjusted_p is below 0.05; 0: it is not; -1: fewer than five pairs cannot tell */
    int best; /* 1: to be printed in bold: the best of the methods that learn in phases, or one of which it is not
               * significant that it is worse. 0 for all if there are too few pairs of any of these methods. */
} l3a_difference;
typedef struct l3a_significance l3a_significance;

/* Compares all methods of one or more results, those of a run or of the points of a sweep, in their order. The metric is
 * "avg_mAP", "last_mAP", "CF1", "OF1" or "forgetting", as in l3a_summary; NULL: last_mAP. The reference is the index of a method;
 * SIZE_MAX: each is compared with the best of those that learn in phases. CF1 and OF1 are compared only between methods with the
 * same threshold, as far as it is known, and avg_mAP and forgetting only between methods that learn in phases. The interval is
 * Student's below ten pairs and a percentile bootstrap from there; the p value is that of a paired t test, and from ten pairs on
 * that of a test that flips the signs of the differences. Random choices have a fixed seed. The results must outlive the
 * significance. Since 0.11. */
L3A_PUBLIC l3a_status l3a_results_significance(l3a_context *context, const l3a_results *const *results, size_t count,
                                               const char *metric, size_t reference, l3a_significance **significance);
L3A_PUBLIC void l3a_significance_free(l3a_significance *significance);
/* One per method that has results. NULL past the last. Since 0.11. */
L3A_PUBLIC size_t l3a_significance_count(const l3a_significance *significance);
L3A_PUBLIC const l3a_difference *l3a_significance_at(const l3a_significance *significance, size_t index);

/* A row of the paper's tables, for comparison. NaN: a number that the paper does not have. Since 0.7. */
typedef struct l3a_published {
    int table;                     /* of the paper */
    const char *data;              /* "COCO": MS-COCO 2014; "VOC": PASCAL VOC 2007 */
    const char *protocol, *method; /* "B0-C10", "KRT-R" */
    const char *memory;            /* images kept for replay: "0", "20/class", "1000"; "" if the paper does not say */
    const char *backbone;          /* NULL: the paper says only that it is a TResNet-M or a ViT-B/16 */
    double average_map, last_map;  /* percent: averaged over phases, and after the last one */
    double last_class_f1, last_overall_f1;
} l3a_published;

/* The rows for a protocol and the data set that has these classes, in any order, as the paper prints them; a row that two tables
 * have is there once. They were not measured with this program. NULL past the last, so at once if the paper has no such row. The
 * rows are static. Since 0.7. */
L3A_PUBLIC const l3a_published *l3a_published_at(const char *protocol, const char *const *classes, size_t class_count,
                                                 size_t index);

/* ---- Reports --------------------------------------------------------------------------------------------------------
 * One HTML page about one or more runs, finished or not, that needs no other file. An experiment writes its own report.html. */
typedef struct l3a_report_options {
    size_t size;          /* sizeof the struct */
    const char *title;    /* NULL: the names of the folders */
    const char *pictures; /* the data set with the test pictures; NULL: the one that the runs record, if it is available */
    /* Files with results computed elsewhere, as in l3a_results_join(), beside those of the only folder, which is that of a run.
     * Since 0.11. */
    const char *const *with;
    size_t with_count;
} l3a_report_options;

/* NULL options: the defaults. The path holds the complete page afterwards or, on failure, what it held before. Since 0.7, the only
 * folder can be that of a sweep. */
L3A_PUBLIC l3a_status l3a_report_write(l3a_context *context, const char *const *folders, size_t count,
                                       const l3a_report_options *options, const char *path);
/* The table of one or more finished runs for a paper or a web page, as text: the format is "latex" (with the package booktabs) or
 * "markdown". Methods are the rows, with average mAP and, after the last phase, mAP, CF1 and OF1; ± is the standard deviation over
 * seeds and class orders, bold is as in l3a_difference, and the last column has the difference from the best in last mAP if there
 * are several pairs. The paper's own rows follow, as in the report. The only folder can be that of a sweep: its points are then the
 * rows, in the order of the grid, with a column for each setting that varies. Since 0.11, "csv" is one row per method and metric,
 * with everything in l3a_difference. The text is cut to capacity, and *length is its full length; text may be NULL if capacity is
 * 0. NULL options: the defaults; a table has a use only for `with`. Since 0.7; before 0.12, it had no options. */
L3A_PUBLIC l3a_status l3a_report_table(l3a_context *context, const char *const *folders, size_t count,
                                       const l3a_report_options *options, const char *format, char *text, size_t capacity,
                                       size_t *length);
/* The charts of the report, each as a figure for papers and slides in a file of its own, named by what it shows:
 * "map-by-phase.svg". The format is "svg", "pdf" or "png"; the last two need the plug-in libl3a-figure.so, which is looked for next
 * to the library or in the folder L3A_PLUGIN_PATH. The folder is created if it is missing; each file replaces one of the same name
 * at once, and none is touched before all figures are drawn. NULL options: the defaults; a figure has a use only for `with`. Since
 * 0.7. */
L3A_PUBLIC l3a_status l3a_report_figures(l3a_context *context, const char *const *folders, size_t count,
                                         const l3a_report_options *options, const char *format, const char *folder);

/* ---- Experimental ---------------------------------------------------------------------------------------------------
 * What may change with any version, as the last section of l3a.h, which it needs. */
#ifdef L3A_EXPERIMENTAL

/* ---- Adaptation -----------------------------------------------------------------------------------------------------
 * A backbone can be trained before a protocol begins, on what may be known then: the pictures that belong to the classes of the
 * first phase, with their labels of these classes. Afterwards it is frozen. What other classes these pictures show, and all other
 * pictures, has no influence on the bytes. Since 0.16. */
typedef struct l3a_adapt_options {
    size_t size;
    /* "norms": norms and all biases; "released": everything for one epoch, as the paper's program does, with decay 1e-5 for VOC;
     * these are the recipes of l3a_train(), without validation pictures. "all": as "norms", but everything, with the highest rate
     * 4e-5. NULL: norms */
    const char *how;
    const char *protocol;              /* as in l3a_protocol_parse(); NULL: B0-C10 */
    const char *class_order;           /* as in l3a_class_order(); NULL: lexicographic */
    const l3a_train_options *training; /* replaces what `how` says; without classes, which are those of the first phase, and a
                                        * command, in whose place the adaptation is recorded. NULL: nothing is replaced */
    int keep; /* 1: a file at the path that records the same adaptation of the same backbone is kept, and nothing is trained;
               * another one is L3A_ERROR_MISMATCH. 0: a file is replaced */
} l3a_adapt_options;

/* Says what l3a_adapt() would do, as l3a_train_prepare() does. NULL options: the defaults. Since 0.16. */
L3A_PUBLIC l3a_status l3a_adapt_prepare(l3a_context *context, const char *checkpoint, const l3a_dataset *dataset,
                                        const l3a_adapt_options *options, l3a_train_plan *plan);
/* Adapts a backbone to the first phase of a data set to learn from, and writes it to `path` as l3a_train() does. The report of what
 * was kept is all 0. NULL options: the defaults; NULL report: not wanted. Since 0.16. */
L3A_PUBLIC l3a_status l3a_adapt(l3a_context *context, const char *checkpoint, const l3a_dataset *dataset,
                                const l3a_adapt_options *options, const char *path, l3a_train_report *report);

/* A page about a training, finished or not: its learning curve and its settings. Since 0.16. */
typedef struct l3a_train_page {
    size_t size;
    const char *title;               /* NULL: "Training" */
    const l3a_train_plan *plan;      /* what l3a_train_prepare() said */
    const l3a_train_report *report;  /* NULL: the training is not finished */
    const char *command;             /* to be typed again; NULL: there is none */
    size_t done;                     /* epochs; of each of them … */
    const double *losses, *mean_aps; /* … what l3a_train_epoch says. NULL if none is done */
    const double *seconds;
} l3a_train_page;

/* The path holds the complete page afterwards or, on failure, what it held before. Since 0.16. */
L3A_PUBLIC l3a_status l3a_train_page_write(l3a_context *context, const l3a_train_page *page, const char *path);

#endif /* L3A_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif

#endif
