/* l3a: teach a multi-label classifier new classes, phase after phase, in closed form.
 *
 * This header is the whole public interface and is meant to be read from top to bottom: the context every other object
 * belongs to, feature tables, the model with its simple calls and then its explicit ones, measuring, whole experiments,
 * and questions about files and the machine.
 *
 * Conventions that hold everywhere:
 * - Functions that can fail return an l3a_status. What went wrong, where, and what to do about it is kept in the context:
 *   l3a_error_text() and l3a_error_hint(). An output argument is written only on success.
 * - The library prints nothing, never exits, and keeps no global state. Objects made from different contexts may be used
 *   from different threads at the same time. A context and all that was made from it belong to one thread at a time.
 * - Matrices are row-major: one row an image. Strings are UTF-8 and zero-terminated. A returned pointer to const belongs
 *   to the object it was asked from and lives as long as that object, unless said otherwise.
 * - Every *_free() takes NULL.
 *
 * The method is "Label-Augmented Analytic Adaptation for Multi-Label Class-Incremental Learning" (ICML 2025). */
#ifndef L3A_L3A_H
#define L3A_L3A_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define L3A_PUBLIC __attribute__((visibility("default")))
#else
#define L3A_PUBLIC
#endif

#define L3A_VERSION "0.1.0"

/* The version of the library that is running, which may differ from the header's L3A_VERSION. */
L3A_PUBLIC const char *l3a_version(void);

/* ---- Status ---------------------------------------------------------------------------------------------------------
 * The numbers are fixed for ever. */
typedef enum l3a_status {
    L3A_OK = 0,
    L3A_ERROR_ARGUMENT = 1,   /* a NULL or a size that makes no sense */
    L3A_ERROR_OPTION = 2,     /* an unknown setting, or a value out of its range */
    L3A_ERROR_MEMORY = 3,     /* an allocation failed, or the plan does not fit the machine */
    L3A_ERROR_NOT_FOUND = 4,  /* no such file or folder */
    L3A_ERROR_IO = 5,         /* a file operation failed: no permission, disk full, … */
    L3A_ERROR_FORMAT = 6,     /* the bytes are not a file of the kind asked for */
    L3A_ERROR_TRUNCATED = 7,  /* the file ends before its own header says */
    L3A_ERROR_CHECKSUM = 8,   /* the bytes changed since they were written */
    L3A_ERROR_VERSION = 9,    /* written by a newer version of this library */
    L3A_ERROR_DATA = 10,      /* a NaN, a label that is not -1, 0 or 1, a phase with no image */
    L3A_ERROR_CLASS = 11,     /* a class twice, learned already, missing, or class lists that differ */
    L3A_ERROR_MISMATCH = 12,  /* two things that do not belong together: widths, lengths, backbones, settings */
    L3A_ERROR_NUMERIC = 13,   /* the system of equations could not be solved */
    L3A_ERROR_STATE = 14,     /* calls in an order that makes no sense */
    L3A_ERROR_CANCELLED = 15, /* the event callback asked to stop */
    L3A_ERROR_EXISTS = 16     /* would overwrite what is there */
} l3a_status;

/* "L3A_ERROR_IO" and so on; never NULL. */
L3A_PUBLIC const char *l3a_status_name(l3a_status status);

/* ---- Context --------------------------------------------------------------------------------------------------------
 * Carries what all objects share: threads, memory, the event callback, and the text of the last error. */
typedef struct l3a_context l3a_context;

typedef enum l3a_event_kind {
    L3A_EVENT_PROGRESS = 0, /* stage, done, total (0: not known) */
    L3A_EVENT_WARNING = 1,  /* text */
    L3A_EVENT_TIMING = 2,   /* stage, seconds: a stage has ended */
    L3A_EVENT_RESULT = 3    /* text: a phase of an experiment is finished and on disk */
} l3a_event_kind;

typedef struct l3a_event {
    l3a_event_kind kind;
    const char *stage;
    const char *text;
    uint64_t done, total;
    double seconds;
} l3a_event;

/* Called on the thread that called the library. Returning non-zero cancels the call in progress, which then returns
 * L3A_ERROR_CANCELLED. The event and its strings live only during the call. */
typedef int l3a_event_callback(const l3a_event *event, void *user);

typedef struct l3a_context_options {
    int threads;                  /* 0: all processors this process may use */
    uint64_t memory_limit;        /* bytes that one object may plan for; 0: what the machine has free */
    l3a_event_callback *on_event; /* may be NULL */
    void *event_user;
    void *(*allocate)(void *user, size_t bytes); /* both or neither; aligned like malloc */
    void (*release)(void *user, void *memory);
    void *memory_user;
} l3a_context_options;

L3A_PUBLIC void l3a_context_options_default(l3a_context_options *options);
/* options may be NULL for the defaults. Where the matrix library does not know the processor and chose old kernels, a warning event
 * says what to set: it has to be in the environment before the program starts. */
L3A_PUBLIC l3a_status l3a_context_create(const l3a_context_options *options, l3a_context **context);
/* Free what was made from the context first. */
L3A_PUBLIC void l3a_context_free(l3a_context *context);
L3A_PUBLIC int l3a_context_threads(const l3a_context *context);
/* What, where and why, of the last call that failed; "" before the first. Valid until the next failure. */
L3A_PUBLIC const char *l3a_error_text(const l3a_context *context);
/* What to do about it; "" where there is nothing useful to say. */
L3A_PUBLIC const char *l3a_error_hint(const l3a_context *context);

/* ---- Settings -------------------------------------------------------------------------------------------------------
 * The settings of the method. Always start from l3a_options_default(). */
typedef enum l3a_weighting { L3A_WEIGHTS_SQRT, L3A_WEIGHTS_INV, L3A_WEIGHTS_LOG, L3A_WEIGHTS_NONE } l3a_weighting;
typedef enum l3a_scaling { L3A_SCALING_NORMALISED, L3A_SCALING_LITERAL } l3a_scaling;
typedef enum l3a_pseudo { L3A_PSEUDO_FIXED, L3A_PSEUDO_DYNAMIC, L3A_PSEUDO_OFF } l3a_pseudo;
typedef enum l3a_precision { L3A_PRECISION_MIXED, L3A_PRECISION_DOUBLE } l3a_precision;
typedef enum l3a_solver { L3A_SOLVER_AUTO, L3A_SOLVER_SUMS, L3A_SOLVER_RECURSIVE } l3a_solver;
typedef enum l3a_loss { L3A_LOSS_ASYMMETRIC, L3A_LOSS_BINARY } l3a_loss;
typedef enum l3a_memory_per { L3A_MEMORY_PER_METHOD, L3A_MEMORY_PER_CLASS, L3A_MEMORY_PER_RUN } l3a_memory_per;
typedef enum l3a_head_input { L3A_HEAD_INPUT_FEATURES, L3A_HEAD_INPUT_LAYER } l3a_head_input;
typedef enum l3a_store { L3A_STORE_FLOAT64, L3A_STORE_FLOAT32 } l3a_store;
typedef enum l3a_skip { L3A_SKIP_OFF, L3A_SKIP_ON, L3A_SKIP_AUTO } l3a_skip;
typedef enum l3a_thresholds { L3A_THRESHOLDS_FIXED, L3A_THRESHOLDS_GLOBAL, L3A_THRESHOLDS_PER_CLASS } l3a_thresholds;

typedef struct l3a_options {
    uint64_t dim;            /* width of the random layer */
    uint64_t seed;           /* of the random layer */
    double gamma;            /* ridge; 0: chosen from the images of the first phase, and the model's from then on */
    l3a_weighting weights;   /* class weight from the class's number of images f: f^-1/2, 1/f, 1/(log f + 1), 1 */
    l3a_scaling scaling;     /* class weights scaled to mean 1, or as they stand in the paper's formula */
    l3a_pseudo pseudo;       /* labels of old classes on new images: fixed threshold, dynamic threshold, none */
    double eta;              /* sigma(score) above which an old class becomes a pseudo-label */
    double tau;              /* dynamic threshold: labels an image carries on average, over all classes */
    uint64_t total_classes;  /* dynamic threshold: how many classes "all" are; 0: those seen so far */
    double theta;            /* sigma(score) above which a class counts as predicted, in the metrics */
    l3a_precision precision; /* float32 products added to float64 sums, or float64 throughout */
    l3a_solver solver;       /* sums and Cholesky, the paper's recursion on the inverse, or the cheaper of the two */
    l3a_store store;         /* how a model file keeps its d x d matrix */
    uint64_t block;          /* rows worked on at a time */
    double alpha;            /* what an image of another phase counts for a class, beside one of its own phase */
    double lift; /* what the sum of all scores adds to each, where many phases are kept apart; with t, (t - 1)/(t + 8) of it */
    l3a_skip skip_features;    /* the features themselves beside the random layer; auto: on where they add an eighth at most, or at
                                * most as    many as the layer has, 4096 in all */
    l3a_thresholds thresholds; /* of the predicted classes: theta, or found from the scores of the images learned */
    uint64_t keep_phases;      /* phases whose sums are kept apart, older ones being folded; 0: all where alpha < 1, else none */
    uint64_t privacy_limit;    /* a phase with fewer images is warned of; 0: never */
    /* of methods that `run` compares; a model has no use for them */
    double ratio;            /* dsal: share of the second stream in the score */
    double kernel_width;     /* gkeal: width of a kernel, in typical distances between two images */
    double shrinkage;        /* slda: share of the identity in the covariance */
    l3a_loss loss;           /* heads trained by gradient descent, from here on; 0 in the next six: what was tuned for the method */
    uint64_t epochs;         /* passes over a phase's images */
    uint64_t batch;          /* images a step */
    double first_rate, rate; /* highest learning rate, in the first phase and in later ones */
    double lambda;           /* weight of what the method adds to the loss: distillation, penalty */
    uint64_t memory;         /* images kept */
    l3a_memory_per memory_per; /* whether that is for each class or in all; method: all for prs and ocdm, class for others */
    l3a_head_input head_input; /* what heads are trained on: the features, or the random layer of the same dim and seed */
    double head_theta;         /* sigma(score) above which a class counts as predicted by such a head */
    uint64_t given;            /* the settings that were set by name: a bit for each, in the order of l3a_option_at() */
} l3a_options;

L3A_PUBLIC void l3a_options_default(l3a_options *options);
L3A_PUBLIC l3a_status l3a_options_check(l3a_context *context, const l3a_options *options);

/* The same settings by name: this table is what command lines, records of runs and manuals are made from. */
typedef enum l3a_option_type { L3A_OPTION_INTEGER, L3A_OPTION_NUMBER, L3A_OPTION_CHOICE } l3a_option_type;

typedef struct l3a_option_info {
    const char *name; /* "gamma" */
    l3a_option_type type;
    double low, high; /* range of a number; low_open, high_open: the end itself is not allowed */
    int low_open, high_open;
    const char *choices;  /* "sqrt|inv|log|none" for a choice, else NULL */
    const char *fallback; /* the default, as text */
    const char *help;
    const char *group; /* "model", or "comparison": of methods that `run` compares, which no model keeps */
    const char *word;  /* a word that may stand in place of a number, and is kept as 0: "auto"; NULL: none */
} l3a_option_info;

/* NULL when index is past the last option. */
L3A_PUBLIC const l3a_option_info *l3a_option_at(size_t index);
L3A_PUBLIC l3a_status l3a_options_set(l3a_context *context, l3a_options *options, const char *name, const char *value);
/* Writes the value as text, cut to capacity, and returns the length it wanted; 0 for an unknown name. */
L3A_PUBLIC size_t l3a_options_get(const l3a_options *options, const char *name, char *text, size_t capacity);
/* The name among count candidates that is closest to a mistyped one, or NULL when none is close. */
L3A_PUBLIC const char *l3a_closest(const char *mistyped, const char *const *candidates, size_t count);

/* ---- Feature tables -------------------------------------------------------------------------------------------------
 * Rows of backbone features with labels: 1 present, 0 absent, -1 unknown. Files are read a block at a time. */
typedef struct l3a_features l3a_features;

/* A feature file (safetensors with `features`, and optionally `labels`, `members`, `ids`). Checksums are verified where there are
 * any. */
L3A_PUBLIC l3a_status l3a_features_open(l3a_context *context, const char *path, l3a_features **features);
/* NumPy files: features [N,k]; labels [N,K] or NULL; names, a text file with a class a line, or NULL: "class 0", "class 1", … */
L3A_PUBLIC l3a_status l3a_features_open_npy(l3a_context *context, const char *features_path, const char *labels_path,
                                            const char *names_path, l3a_features **features);
/* The caller's own memory, which must outlive the table; class names are copied. labels may be NULL when class_count is 0. */
L3A_PUBLIC l3a_status l3a_features_wrap(l3a_context *context, const float *values, const int8_t *labels, size_t rows, size_t width,
                                        const char *const *classes, size_t class_count, l3a_features **features);
/* Writes a feature file (float32) in one step: afterwards the path holds all of it, or what it held before. */
L3A_PUBLIC l3a_status l3a_features_save(l3a_features *features, const char *path);
L3A_PUBLIC void l3a_features_free(l3a_features *features);

L3A_PUBLIC size_t l3a_features_rows(const l3a_features *features);
L3A_PUBLIC size_t l3a_features_width(const l3a_features *features);
L3A_PUBLIC size_t l3a_features_class_count(const l3a_features *features);
L3A_PUBLIC const char *l3a_features_class(const l3a_features *features, size_t index);
/* [rows x class_count], in the order of the file's classes; NULL when there are none. */
L3A_PUBLIC const int8_t *l3a_features_labels(const l3a_features *features);
/* [rows x class_count]: 1 where a row belongs to the class's phase, as l3a_dataset_members() says. NULL: exactly where its label
 * is 1. */
L3A_PUBLIC const int8_t *l3a_features_members(const l3a_features *features);
/* The name of a row's picture, or NULL where the file has none. */
L3A_PUBLIC const char *l3a_features_id(const l3a_features *features, size_t row);
/* How the features were made: "backbone", "sha256", "preprocess", "pool"; "difficult" is "ignore" where the labels were read
 * with ignore_difficult. NULL where not recorded. */
L3A_PUBLIC const char *l3a_features_record(const l3a_features *features, const char *key);
L3A_PUBLIC l3a_status l3a_features_set_record(l3a_features *features, const char *key, const char *value);
/* Copies count rows, those named in rows, or the ones from first on when rows is NULL. A NaN or infinity is an error that
 * names row and column; values then hold the rows all the same. */
L3A_PUBLIC l3a_status l3a_features_read(l3a_features *features, const size_t *rows, size_t first, size_t count, float *values);
/* XXH3-64 of the whole file, or of the caller's memory. */
L3A_PUBLIC l3a_status l3a_features_checksum(l3a_features *features, uint64_t *checksum);

/* ---- Model: simple calls --------------------------------------------------------------------------------------------
 * A model keeps sums, never an image or a feature. */
typedef struct l3a_model l3a_model;

typedef struct l3a_metrics { /* percent */
    double mean_ap;
    double class_precision, class_recall, class_f1;       /* CP, CR, CF1: means over classes */
    double overall_precision, overall_recall, overall_f1; /* OP, OR, OF1: over all image-class pairs */
    size_t images;                                        /* that were measured on */
} l3a_metrics;

/* An empty model for features of the given width. */
L3A_PUBLIC l3a_status l3a_model_create(l3a_context *context, size_t width, const l3a_options *options, l3a_model **model);
L3A_PUBLIC l3a_status l3a_model_load(l3a_context *context, const char *path, l3a_model **model);
/* Afterwards the path holds the new model or, whatever happens, what it held before. Not during a phase. */
L3A_PUBLIC l3a_status l3a_model_save(l3a_model *model, const char *path);
L3A_PUBLIC void l3a_model_free(l3a_model *model);

/* Two processes that load a model, change it and save it at the same time would lose the change of one. A lock, held from before
 * loading until after saving, makes the second wait or be refused. It is advisory: l3a_model_save() respects the lock of another
 * context or process, and loading needs none. */
typedef struct l3a_lock l3a_lock;
/* The model need not exist yet. Paths that lead to one file, such as a symbolic link and its target, share its lock. When another
 * process has the lock: L3A_ERROR_IO at once or, with wait, a warning event, and progress events until the lock is free. Refuses a
 * path that cannot be saved to because it leads to a folder, a device or a pipe. */
L3A_PUBLIC l3a_status l3a_lock_take(l3a_context *context, const char *path, int wait, l3a_lock **lock);
/* The lock also ends when the process does. */
L3A_PUBLIC void l3a_lock_free(l3a_lock *lock);

/* One phase: learns the named classes from those rows of the table that belong to at least one of them: it is labelled present, or
 * the table's members say so. A row that ends up without a label, true or pseudo, has weight 0 and is counted as skipped. The
 * table must know all the classes; its other labels are not looked at. On failure the model scores as before; after a
 * failure in the middle of a phase it refuses to learn more or to be saved: load it again. */
L3A_PUBLIC l3a_status l3a_model_learn(l3a_model *model, l3a_features *features, const char *const *classes, size_t class_count);
/* Scores [rows x classes of the model] for features [rows x width]. A score estimates by least squares a label of 1 (there) or 0
 * (not there): the higher, the likelier. It is not a probability, and no fixed formula makes one of it, as its scale depends on the
 * data and on how many labels were absent (docs/method.md). The settings eta and theta are the paper's, and are compared with
 * sigma(score) = 1 / (1 + exp(-score)); l3a_model_thresholds() gives scores. */
L3A_PUBLIC l3a_status l3a_model_score(l3a_model *model, const float *features, size_t rows, float *scores);
/* The metrics on the rows that have at least one of the model's classes. The table must know all of them.
 * average_precision, where not NULL, gets a number for each class of the model. */
L3A_PUBLIC l3a_status l3a_model_evaluate(l3a_model *model, l3a_features *features, l3a_metrics *metrics, double *average_precision);
/* Whether the table can be used with the model: width and the record of how the features were made. */
L3A_PUBLIC l3a_status l3a_model_accepts(l3a_model *model, const l3a_features *features);

/* ---- Model: what it holds ------------------------------------------------------------------------------------------- */
typedef struct l3a_phase_info {
    size_t first, last; /* classes [first, last) of the model */
    uint64_t images;    /* with weight above 0 */
    uint64_t skipped;   /* images with no label, true or pseudo: weight 0 */
    uint64_t pseudo_labels;
    double eta;    /* the threshold that was used; 0 when there was none */
    int recursive; /* 1 when the recursion was used */
} l3a_phase_info;

L3A_PUBLIC const l3a_options *l3a_model_options(const l3a_model *model);
/* Changes a setting for the phases to come. dim, seed, gamma, precision, alpha, lift, skip-features, weights and scaling
 * are the model's for ever: another value for one of them is refused. */
L3A_PUBLIC l3a_status l3a_model_set_option(l3a_model *model, const char *name, const char *value);
L3A_PUBLIC size_t l3a_model_width(const l3a_model *model);
L3A_PUBLIC size_t l3a_model_class_count(const l3a_model *model);
L3A_PUBLIC const char *l3a_model_class(const l3a_model *model, size_t index);
/* Number of training images with the class. */
L3A_PUBLIC uint64_t l3a_model_class_images(const l3a_model *model, size_t index);
L3A_PUBLIC size_t l3a_model_phase_count(const l3a_model *model);
/* NULL when index is past the last phase. */
L3A_PUBLIC const l3a_phase_info *l3a_model_phase(const l3a_model *model, size_t index);
/* Numbers in a row that is learned: dim, and width more with skip features. */
L3A_PUBLIC size_t l3a_model_inputs(const l3a_model *model);
/* The score above which each class counts as predicted, as the settings theta and thresholds say. */
L3A_PUBLIC void l3a_model_thresholds(const l3a_model *model, double *thresholds);
/* [inputs x classes] */
L3A_PUBLIC const double *l3a_model_weights(const l3a_model *model);
/* The model keeps either the sum A or the inverse R = (A + gamma I)^-1. Copies rows [first, first + count) of the packed
 * lower triangle's matrix to a full [count x inputs] block, the upper part by symmetry. Where phases are kept apart, it is the
 * sum over them. */
L3A_PUBLIC l3a_status l3a_model_matrix(const l3a_model *model, size_t first, size_t count, double *rows);
L3A_PUBLIC int l3a_model_is_inverse(const l3a_model *model);
/* [inputs x classes], the sum C */
L3A_PUBLIC const double *l3a_model_cross(const l3a_model *model);
/* Free text kept in the model file: the backbone's record, the method, … NULL where there is none. */
L3A_PUBLIC const char *l3a_model_record(const l3a_model *model, const char *key);
L3A_PUBLIC l3a_status l3a_model_set_record(l3a_model *model, const char *key, const char *value);

/* ---- Model: adding together, and taking back ------------------------------------------------------------------------
 * A model is sums over images, so what was learned at several places can be added, and what was learned can be taken back.
 * *exact says whether the result is what it would be had everything been learned at one place, or never been learned; else the
 * images that remain keep weights, or pseudo-labels, that depended on the others. After a failure a model still scores, but may
 * refuse to learn more or to be saved: load it again. */
/* Adds what the other model has learned; that one may change its form (A in place of R), not its content. Settings that decide
 * about the sums must agree; of two values of gamma that were chosen, the model keeps its own. A phase of the other has the classes
 * of one of the model's phases, or only classes that the model lacks. */
L3A_PUBLIC l3a_status l3a_model_merge(l3a_model *model, l3a_model *other, int *exact);
/* A phase of which all classes go is taken back with its images where its sums are kept apart (alpha below 1, or keep-phases). Of
 * other classes the columns go, and their images stay, as images without them. */
L3A_PUBLIC l3a_status l3a_model_forget_classes(l3a_model *model, const char *const *classes, size_t count, int *exact);
/* Phases count from 0. The sums of the phase must be kept apart. */
L3A_PUBLIC l3a_status l3a_model_forget_phase(l3a_model *model, size_t phase, int *exact);
/* Takes back the rows of a table, which must have the features and labels they were learned with, from every phase they were in.
 * *images: how many that were, an image of several phases counting in each. */
L3A_PUBLIC l3a_status l3a_model_forget_images(l3a_model *model, l3a_features *features, uint64_t *images, int *exact);

/* What a model would need, before it is made. */
typedef struct l3a_plan {
    uint64_t memory;    /* bytes at the peak */
    uint64_t file;      /* bytes of the model file */
    uint64_t phase;     /* bytes that each phase kept apart adds to both; 0 where none is */
    double row_flops;   /* to learn one row */
    double score_flops; /* to score one row */
    double solve_flops; /* at the end of a phase */
} l3a_plan;

L3A_PUBLIC l3a_status l3a_model_plan(l3a_context *context, const l3a_options *options, size_t width, size_t classes,
                                     l3a_plan *plan);
/* What l3a_model_learn() with the same arguments would need, and how many images it would learn. The memory is that of all phases,
 * the one to come among them; it does not include what the libraries take for themselves, about 30 MiB with two threads. */
L3A_PUBLIC l3a_status l3a_model_prepare(l3a_model *model, l3a_features *features, const char *const *classes, size_t class_count,
                                        uint64_t *images, l3a_plan *plan);

/* ---- Model: a phase by hand -----------------------------------------------------------------------------------------
 * For rows that are not in a table. The class weights need the number of images of each class before the first row is
 * added, so the labels are shown twice: begin, count (all labels), learn (all rows), end. Rows may be handed over in
 * blocks of any size; the result does not depend on it. A block is taken whole or, on error, not at all. labels is
 * [rows x classes of the phase]. With a dynamic threshold the features are surveyed once between count and learn. */
L3A_PUBLIC l3a_status l3a_phase_begin(l3a_model *model, const char *const *classes, size_t class_count);
L3A_PUBLIC l3a_status l3a_phase_count(l3a_model *model, const int8_t *labels, size_t rows);
L3A_PUBLIC l3a_status l3a_phase_survey(l3a_model *model, const float *features, size_t rows);
L3A_PUBLIC l3a_status l3a_phase_learn(l3a_model *model, const float *features, const int8_t *labels, size_t rows);
/* Solves. On a numeric error the phase stays open and the model scores as before. */
L3A_PUBLIC l3a_status l3a_phase_end(l3a_model *model);
/* Leaves the phase. A model that has taken rows of it still scores, but refuses to learn more or to be saved. */
L3A_PUBLIC void l3a_phase_abandon(l3a_model *model);

/* ---- Measuring ------------------------------------------------------------------------------------------------------
 * scores, labels: [rows x classes]. Pairs with label -1 are left out. average_precision may be NULL. */
L3A_PUBLIC l3a_status l3a_measure(l3a_context *context, const float *scores, const int8_t *labels, size_t rows, size_t classes,
                                  double theta, l3a_metrics *metrics, double *average_precision);

/* ---- Protocols ------------------------------------------------------------------------------------------------------
 * "B<b>-C<c>" over a number of classes. edges has room for classes + 1; phase t has classes [edges[t], edges[t + 1]). */
L3A_PUBLIC l3a_status l3a_protocol_parse(l3a_context *context, const char *protocol, size_t classes, size_t *edges, size_t *phases);
/* Fills order with a permutation of the names: "lexicographic", "shuffle:SEED", or the path of a file with a name a line. */
L3A_PUBLIC l3a_status l3a_class_order(l3a_context *context, const char *const *names, size_t count, const char *how, size_t *order);

/* ---- Experiments ----------------------------------------------------------------------------------------------------
 * Every method and seed over every phase of a protocol, with results in a folder that an interrupted run can be resumed
 * from. */
typedef struct l3a_run_options {
    l3a_features *train, *test;
    const char *protocol;
    const char *class_order;
    const char *const *methods; /* names from l3a_method_at(), of methods that run */
    size_t method_count;
    const uint64_t *seeds; /* of the random layer; overrides settings.seed */
    size_t seed_count;
    l3a_options settings;
    const char *folder;    /* NULL: nothing is written */
    int resume;            /* go on with the run in the folder */
    const char *command;   /* recorded, so that the run can be repeated; may be NULL */
    const char *directory; /* where relative paths in `command` start, recorded with it; may be NULL */
    int report;            /* 1: report.html is written when all is done */
    const char *pictures;  /* the data set with the test pictures, for the report; NULL: what the test table records, if it does */
} l3a_run_options;

typedef struct l3a_result {
    const char *method;
    uint64_t seed;
    size_t phase;       /* from 1 */
    size_t first, last; /* classes of the phase, in the run's class order */
    uint64_t train_images, test_images, pseudo_labels;
    l3a_metrics metrics;
    double seconds; /* learning and evaluating the phase */
    /* mAP of a part of the classes, measured only on the test images that show one of them, as the released program logs it: the
     * classes of the first phase, and those of this phase. A method that learns all classes at once has the protocol's first and
     * last phase. NaN: the folder was written by a version that did not record it. */
    double base_map, new_map;
} l3a_result;

/* What a phase knew of a class, beside its AP. The truth about old classes comes from the training table's other labels; learning
 * never looks at them. */
typedef struct l3a_class_tally {
    uint64_t images;  /* of the training table that show the class */
    double weight;    /* of the class, after this phase; 0: the method has none */
    uint64_t pseudo;  /* an old class: pseudo-labels it was given in this phase … */
    uint64_t right;   /* … those of them that are true … */
    uint64_t present; /* … and the phase's images that truly show it */
} l3a_class_tally;

typedef struct l3a_results l3a_results;

typedef struct l3a_method_info {
    const char *name;
    const char *help;   /* what it does */
    const char *source; /* who published it, where and when */
    const char *stores; /* what it keeps between phases */
    int runs;           /* 0: it trains the backbone itself, so it is only named here */
} l3a_method_info;

L3A_PUBLIC void l3a_run_options_default(l3a_run_options *options);
/* NULL when index is past the last method. */
L3A_PUBLIC const l3a_method_info *l3a_method_at(size_t index);
/* NULL where a model with these options looks at the setting; else what would make it do so, as text: "--pseudo fixed". */
L3A_PUBLIC const char *l3a_option_needs(const l3a_options *options, const char *name);
/* What a method prescribes, put into the settings of a model to be made: "l3a+", "acil", … Those that were set by name stay, where
 * the method can be one with them. */
L3A_PUBLIC l3a_status l3a_method_options(l3a_context *context, const char *name, l3a_options *options);

/* What a run would do: images of each phase, and the plan of its largest model. */
typedef struct l3a_run_plan {
    size_t classes, phases;
    size_t edges[1025];
    uint64_t train_images[1024], test_images[1024];
    l3a_plan model;
    double flops;                     /* all methods and seeds */
    uint64_t unlabelled_images[1024]; /* of train_images: in the phase through a crowd alone */
} l3a_run_plan;

L3A_PUBLIC l3a_status l3a_run_prepare(l3a_context *context, const l3a_run_options *options, l3a_run_plan *plan);
L3A_PUBLIC l3a_status l3a_run(l3a_context *context, const l3a_run_options *options, l3a_results **results);
/* A text that run.json or sweep.json of a folder records: "command" or "directory", as in l3a_run_options; "" if there is none. An
 * error if the folder holds no run and no sweep, or if the text is longer than capacity - 1 bytes. */
L3A_PUBLIC l3a_status l3a_folder_record(l3a_context *context, const char *folder, const char *key, char *text, size_t capacity);
/* The results of a folder, finished or not. */
L3A_PUBLIC l3a_status l3a_results_load(l3a_context *context, const char *folder, l3a_results **results);
L3A_PUBLIC void l3a_results_free(l3a_results *results);
L3A_PUBLIC size_t l3a_results_count(const l3a_results *results);
L3A_PUBLIC const l3a_result *l3a_results_at(const l3a_results *results, size_t index);
/* AP in percent of the classes [0, last) after that phase, in the run's class order. */
L3A_PUBLIC const double *l3a_results_average_precision(const l3a_results *results, size_t index);
/* Of the same classes; NULL where an older version did not record it. */
L3A_PUBLIC const l3a_class_tally *l3a_results_tallies(const l3a_results *results, size_t index);
/* The run's class names, in its order. */
L3A_PUBLIC size_t l3a_results_class_count(const l3a_results *results);
L3A_PUBLIC const char *l3a_results_class(const l3a_results *results, size_t index);

/* Over the seeds of one method: mean and standard deviation (of the sample; 0 for one seed). */
typedef struct l3a_summary {
    const char *method;
    size_t seeds;
    double average_map[2], last_map[2], last_class_f1[2], last_overall_f1[2], forgetting[2]; /* mean, deviation */
    double base_map[2], new_map[2]; /* after the last phase; NaN where not recorded */
} l3a_summary;

L3A_PUBLIC l3a_status l3a_results_summary(l3a_context *context, const l3a_results *results, const char *method,
                                          l3a_summary *summary);

/* A page about the runs in folders, finished or not, in one HTML file that needs nothing else: what report.html in a run's folder
 * is. l3a_run() writes that itself. */
typedef struct l3a_report_options {
    const char *title;    /* NULL: the names of the runs' folders */
    const char *pictures; /* the data set with the test pictures; NULL: where the runs' records say they are, if they are there */
} l3a_report_options;

L3A_PUBLIC void l3a_report_options_default(l3a_report_options *options);
/* options may be NULL for the defaults. Afterwards the path holds all of the page, or what it held before. */
L3A_PUBLIC l3a_status l3a_report_write(l3a_context *context, const char *const *folders, size_t count,
                                       const l3a_report_options *options, const char *path);

/* ---- Sweeps ---------------------------------------------------------------------------------------------------------
 * A grid of experiments: every method with every combination of the values given for some settings, over every seed. Points that
 * share the random layer are learned together: rows are read and expanded once, and the sums are computed once for all of them
 * but for the rows on which their pseudo-labels disagree. */
typedef struct l3a_axis {
    const char *name;          /* of a setting */
    const char *const *values; /* "dynamic" among those of eta means pseudo = dynamic */
    size_t count;
} l3a_axis;

typedef struct l3a_sweep_options {
    l3a_run_options run; /* tables, protocol, methods, seeds, the settings that do not vary, folder */
    const l3a_axis *axes;
    size_t axis_count;
} l3a_sweep_options;

/* A grid of the paper. Lists are separated by commas. */
typedef struct l3a_preset {
    const char *name, *help;
    const char *methods; /* "all": every method that runs */
    const char *seeds;
    const char *setting, *values; /* NULL where only methods vary */
} l3a_preset;

/* What a sweep would do. */
typedef struct l3a_sweep_plan {
    size_t points, seeds, phases;
    size_t passes;   /* over the training rows, for each seed: points that are learned together share one */
    double flops;    /* about, over all seeds */
    uint64_t memory; /* of the largest group of points */
} l3a_sweep_plan;

typedef struct l3a_sweep l3a_sweep;

/* NULL when index is past the last preset. */
L3A_PUBLIC const l3a_preset *l3a_preset_at(size_t index);
L3A_PUBLIC void l3a_sweep_options_default(l3a_sweep_options *options);
/* Lays out the points, and learns nothing yet. A combination that differs from another only in settings that its method has no use
 * for is left out. What the options point to must outlive the sweep. */
L3A_PUBLIC l3a_status l3a_sweep_create(l3a_context *context, const l3a_sweep_options *options, l3a_sweep **sweep);
L3A_PUBLIC l3a_status l3a_sweep_prepare(l3a_sweep *sweep, l3a_sweep_plan *plan);
/* Runs what the folder does not have yet: it gets sweep.json, sweep.csv (a row for each point, seed and phase), report.html, and in
 * points/ a run's folder for each point, without models. The folder of an interrupted sweep of the same grid on the same data can
 * be resumed. */
L3A_PUBLIC l3a_status l3a_sweep_run(l3a_sweep *sweep);
L3A_PUBLIC void l3a_sweep_free(l3a_sweep *sweep);
L3A_PUBLIC size_t l3a_sweep_count(const l3a_sweep *sweep);
L3A_PUBLIC const char *l3a_sweep_method(const l3a_sweep *sweep, size_t point);
/* "gamma=10 eta=0.7" */
L3A_PUBLIC const char *l3a_sweep_label(const l3a_sweep *sweep, size_t point);
/* The point's value on an axis, "-" where its method has no use for the setting; NULL past the last. */
L3A_PUBLIC const char *l3a_sweep_value(const l3a_sweep *sweep, size_t point, size_t axis);
/* Rows of the point's seeds; empty before the sweep is run. */
L3A_PUBLIC const l3a_results *l3a_sweep_results(const l3a_sweep *sweep, size_t point);

/* ---- Pictures -------------------------------------------------------------------------------------------------------
 * JPEG and PNG to RGB bytes, and to the size a backbone wants: what Pillow's Image.open(path).convert("RGB").resize(size)
 * gives, byte for byte. A file of which a part is missing or damaged is an error that names the byte. */
typedef enum l3a_filter { L3A_FILTER_BILINEAR, L3A_FILTER_BICUBIC } l3a_filter;

typedef struct l3a_picture_options {
    uint64_t pixel_limit; /* a picture with more is refused before memory is taken for it */
    int orient;           /* 1: turn as the EXIF orientation says; 0: as the bytes are, like the paper's program */
} l3a_picture_options;

typedef struct l3a_picture {
    size_t width, height;
    uint8_t *pixels; /* RGB, row after row */
} l3a_picture;

L3A_PUBLIC void l3a_picture_options_default(l3a_picture_options *options);
/* options may be NULL for the defaults. The picture is the caller's to free; what the struct held before is not looked at. */
L3A_PUBLIC l3a_status l3a_picture_read(l3a_context *context, const char *path, const l3a_picture_options *options,
                                       l3a_picture *picture);
/* The same from memory; name stands for the file in messages. */
L3A_PUBLIC l3a_status l3a_picture_decode(l3a_context *context, const char *name, const void *bytes, size_t count,
                                         const l3a_picture_options *options, l3a_picture *picture);
/* resized is a new picture, not the same struct. */
L3A_PUBLIC l3a_status l3a_picture_resize(l3a_context *context, const l3a_picture *picture, size_t width, size_t height,
                                         l3a_filter filter, l3a_picture *resized);
/* Clears the struct; harmless on one that is clear. */
L3A_PUBLIC void l3a_picture_free(l3a_context *context, l3a_picture *picture);

/* Pictures in order, decoded ahead by as many threads as the context has, in bounded memory. The threads call the context's
 * allocate and release: a host that brings its own must make them safe to call from several threads at once. */
typedef struct l3a_loader l3a_loader;

typedef struct l3a_loader_options {
    size_t width, height; /* of every picture delivered */
    l3a_filter filter;
    float mean[3], deviation[3]; /* a value v of 0..255 is delivered as (v / 255 - mean) / deviation */
    l3a_picture_options picture;
    size_t ahead; /* pictures in memory at a time; 0: enough for the threads */
} l3a_loader_options;

L3A_PUBLIC void l3a_loader_options_default(l3a_loader_options *options);
/* options may be NULL for the defaults. The paths must outlive the loader. */
L3A_PUBLIC l3a_status l3a_loader_create(l3a_context *context, const char *const *paths, size_t count,
                                        const l3a_loader_options *options, l3a_loader **loader);
/* The next picture as three planes [3 x height x width]. *index is its number, and `count` when there is none left. A
 * picture that cannot be read gives its own error, naming the file; *index is set all the same, and the next call goes on
 * with the picture after it. Each call sends a progress event; when that cancels, the picture waits for the next call. */
L3A_PUBLIC l3a_status l3a_loader_next(l3a_loader *loader, size_t *index, float *planes);
/* At any time; pictures that were not asked for are dropped. */
L3A_PUBLIC void l3a_loader_free(l3a_loader *loader);

/* ---- Data sets ------------------------------------------------------------------------------------------------------
 * "voc:FOLDER" (holds VOC2007/ or another year), "coco:FOLDER" (holds annotations/), "list:FILE.csv" (path,label;label).
 * Classes are in lexicographic order. */
typedef struct l3a_dataset l3a_dataset;

typedef struct l3a_dataset_options {
    int ignore_difficult; /* VOC: 1: a class of which a picture has only difficult objects is unknown there; 0: absent */
} l3a_dataset_options;

L3A_PUBLIC void l3a_dataset_options_default(l3a_dataset_options *options);

/* split: "trainval", "test", "train2014", …; an error lists those there are. NULL: all rows of a list without splits.
 * What does not add up but can be lived with is reported as a warning event. Pictures are not looked at. */
L3A_PUBLIC l3a_status l3a_dataset_open(l3a_context *context, const char *name, const char *split, l3a_dataset **dataset);
/* options may be NULL for the defaults. */
L3A_PUBLIC l3a_status l3a_dataset_open_with(l3a_context *context, const char *name, const char *split,
                                            const l3a_dataset_options *options, l3a_dataset **dataset);
/* The names of its splits, separated by blanks, cut to capacity. */
L3A_PUBLIC l3a_status l3a_dataset_splits(l3a_context *context, const char *name, char *text, size_t capacity);
L3A_PUBLIC void l3a_dataset_free(l3a_dataset *dataset);
L3A_PUBLIC size_t l3a_dataset_rows(const l3a_dataset *dataset);
L3A_PUBLIC size_t l3a_dataset_class_count(const l3a_dataset *dataset);
L3A_PUBLIC const char *l3a_dataset_class(const l3a_dataset *dataset, size_t index);
/* [rows x classes]: 1 present, 0 absent, -1 unknown (VOC: only difficult objects, where asked for) */
L3A_PUBLIC const int8_t *l3a_dataset_labels(const l3a_dataset *dataset);
/* [rows x classes]: 1 where the picture belongs to the class's phase: it is labelled, or has a crowd of the class (COCO). */
L3A_PUBLIC const int8_t *l3a_dataset_members(const l3a_dataset *dataset);
/* "000012" (VOC), "000000000009" (COCO), the path as it stands in the list. */
L3A_PUBLIC const char *l3a_dataset_id(const l3a_dataset *dataset, size_t row);
L3A_PUBLIC const char *l3a_dataset_path(const l3a_dataset *dataset, size_t row);
/* Picture-class pairs on which the set disagrees with itself (VOC: the annotations and the lists of each class). */
L3A_PUBLIC size_t l3a_dataset_disagreements(const l3a_dataset *dataset);

/* ---- Drawn data sets ------------------------------------------------------------------------------------------------
 * Pictures to try things with where there are none: drawn things over a cluttered background, one to five on each of 160 x 160
 * pixels, of 24 classes. Every fourth class is 20 times rarer than the others, and some nearly always come together. */
typedef struct l3a_draw_options {
    uint64_t seed;         /* the same seed, the same bytes */
    size_t training, test; /* pictures of the splits "trainval" and "test" */
    const char *always;    /* a class that every picture shows, or NULL. "umbrella" is on no picture that was not asked for it. */
} l3a_draw_options;

L3A_PUBLIC void l3a_draw_options_default(l3a_draw_options *options);
/* The classes, in lexicographic order, and last the one that is drawn only when asked for; NULL past it. */
L3A_PUBLIC const char *l3a_draw_class(size_t index);
/* Writes the new folder FOLDER with VOC2007/ in it, which voc:FOLDER then opens. options may be NULL for the defaults. What was
 * written when a call fails stays there, and is no data set. */
L3A_PUBLIC l3a_status l3a_draw_dataset(l3a_context *context, const l3a_draw_options *options, const char *folder);

/* ---- Backbones ------------------------------------------------------------------------------------------------------
 * Frozen networks read from a checkpoint: .safetensors, or .pth/.pt in both forms torch has written. Which network it is, is found
 * from the names and shapes of its tensors: ViT, ResNet, TResNet. Nothing in a checkpoint is ever executed. */
typedef struct l3a_backbone l3a_backbone;

typedef enum l3a_pool { L3A_POOL_DEFAULT, L3A_POOL_CLS, L3A_POOL_MEAN, L3A_POOL_CLS_MEAN } l3a_pool;

typedef struct l3a_backbone_options {
    l3a_pool pool; /* ViT: the class token (default), the mean of the patches, or both one after the other */
    size_t size;   /* side of the pictures; 0: the network's own (224) */
    int set_mean;  /* 1: mean and deviation below replace the family's */
    float mean[3], deviation[3];
    l3a_filter filter; /* how pictures are resized */
} l3a_backbone_options;

typedef struct l3a_backbone_info {
    const char *family; /* "vit", "resnet", "tresnet" */
    char name[64];      /* "resnet50", "tresnet_m", "vit_tiny_patch16_224", "vit, width 64, depth 2, heads 1, patch 4" */
    size_t size, width; /* side of a picture, numbers in a feature */
    uint64_t parameters;
    double flops; /* multiplications and additions for a picture */
    float mean[3], deviation[3];
    l3a_filter filter;
    const char *pool;     /* "cls", "mean", "cls+mean", "average" */
    char preprocess[128]; /* "rgb 224x224 bilinear mean 0.5 std 0.5": what feature files record */
    char sha256[65];      /* of the checkpoint file */
    const char *engine;   /* "onednn" or "blas" */
} l3a_backbone_info;

L3A_PUBLIC void l3a_backbone_options_default(l3a_backbone_options *options);
/* options may be NULL for the defaults. */
L3A_PUBLIC l3a_status l3a_backbone_open(l3a_context *context, const char *path, const l3a_backbone_options *options,
                                        l3a_backbone **backbone);
L3A_PUBLIC void l3a_backbone_free(l3a_backbone *backbone);
L3A_PUBLIC const l3a_backbone_info *l3a_backbone_describe(const l3a_backbone *backbone);
/* features [count x width] of pictures [count x 3 x size x size], already scaled and centred as the info says (the loader does
 * that). */
L3A_PUBLIC l3a_status l3a_backbone_run(l3a_backbone *backbone, const float *pictures, size_t count, float *features);

/* ---- Extraction -----------------------------------------------------------------------------------------------------
 * From the pictures of a data set to a feature file. Finished batches are kept in PATH.part, so that an extraction that was killed
 * can be resumed by the same call: pictures that have changed since are extracted again, the others are not. PATH.part is removed
 * once the feature file is written. A file of that name that the library did not make is an error, L3A_ERROR_EXISTS, and is left as
 * it is. */
typedef struct l3a_extract_options {
    int half;   /* 1: features as float16, else float32 */
    int strict; /* 1: a picture that cannot be read ends the extraction; 0: it is left out, and named in the file's record `bad` */
    l3a_picture_options picture;
} l3a_extract_options;

typedef struct l3a_extract_report {
    size_t rows;    /* in the feature file */
    size_t bad;     /* pictures left out */
    size_t resumed; /* pictures that an earlier extraction had done */
    double seconds;
} l3a_extract_report;

L3A_PUBLIC void l3a_extract_options_default(l3a_extract_options *options);
/* options may be NULL for the defaults; report may be NULL. */
L3A_PUBLIC l3a_status l3a_extract(l3a_context *context, l3a_backbone *backbone, l3a_dataset *dataset,
                                  const l3a_extract_options *options, const char *path, l3a_extract_report *report);
/* What feature files of this backbone record, put into a table: backbone, sha256, preprocess, pool. orient: as in the pictures'
 * options. */
L3A_PUBLIC l3a_status l3a_backbone_sign(const l3a_backbone *backbone, int orient, l3a_features *features);

/* ---- Files and machine ---------------------------------------------------------------------------------------------- */
typedef struct l3a_file l3a_file;

typedef struct l3a_tensor_info {
    const char *name;
    const char *type; /* "F32" */
    size_t rank;
    uint64_t shape[8];
    uint64_t bytes;
    int verified; /* 1: has a checksum, and it holds */
} l3a_tensor_info;

/* Opens any file this library knows, and verifies its checksums. */
L3A_PUBLIC l3a_status l3a_file_open(l3a_context *context, const char *path, l3a_file **file);
L3A_PUBLIC void l3a_file_free(l3a_file *file);
/* "model", "features", "safetensors", "npy", "checkpoint" */
L3A_PUBLIC const char *l3a_file_kind(const l3a_file *file);
L3A_PUBLIC uint64_t l3a_file_size(const l3a_file *file);
/* Metadata strings, in the file's order; both NULL past the last. */
L3A_PUBLIC void l3a_file_record(const l3a_file *file, size_t index, const char **key, const char **value);
/* Returns 0 past the last. */
L3A_PUBLIC int l3a_file_tensor(const l3a_file *file, size_t index, l3a_tensor_info *info);

typedef struct l3a_machine {
    char processor[96];
    char instructions[96];
    char blas[160];
    char better_kernels[32]; /* not "": the matrix library runs on old kernels; OPENBLAS_CORETYPE=this would be faster */
    char compiler[64];
    int processors, threads;
    uint64_t memory_total, memory_available; /* bytes, within the limits set for this process */
} l3a_machine;

L3A_PUBLIC void l3a_machine_query(const l3a_context *context, l3a_machine *machine);
/* Floating-point operations a second of a matrix product, measured now: takes about a tenth of a second. */
L3A_PUBLIC l3a_status l3a_machine_speed(l3a_context *context, double *single_precision, double *double_precision);

/* The one random rule: the uniform number in [0, 1) with the given index (from 0) of the stream started at seed: the top
 * 24 bits of splitmix64's output. */
L3A_PUBLIC double l3a_uniform(uint64_t seed, uint64_t index);

#ifdef __cplusplus
}
#endif

#endif
