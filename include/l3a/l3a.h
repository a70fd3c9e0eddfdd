/* l3a: teach a multi-label classifier new classes, phase after phase, in closed form.
 *
 * This header is the manual, meant to be read from top to bottom: the context that every other object belongs to; the tagger, its
 * lessons, their history, and packed models; settings, feature tables, and the model with its simple calls and then its explicit
 * ones; pictures, data sets, backbones and extraction; what a file or the machine is. l3a_experiment.h has the rest: protocols,
 * experiments that compare methods, their results and reports. examples/tag.c, examples/teach.c, examples/threads.c and
 * examples/learn_and_tag.c are complete programs.
 *
 * What is stable: everything here and in l3a_experiment.h, except the last section of this header. From 1.0 on, stable functions,
 * fields and numbers keep their meaning until 2.0; until then, a minor version may change them, and docs/migration-0.10.md or its
 * successor says how. The last section is experimental: a program sees it if it defines L3A_EXPERIMENTAL before it includes the
 * header, and it may change with any version.
 *
 * Results and errors:
 * - A function that can fail returns an l3a_status. The context keeps the text of the last failure: l3a_error_text() says what went
 *   wrong, where and why, and l3a_error_hint() says what to do; hints name settings as l3a_option_at() lists them.
 * - A call that fails leaves every object and file as it was, unless its comment says what is left. A pointer to a new object is
 *   written only on success; other output arguments are meaningful only on success, unless stated otherwise.
 * - A NULL is L3A_ERROR_ARGUMENT, unless the comment says what NULL means there. Only the `user` of a callback may always be NULL.
 *   Functions that do not return a status return 0 or NULL for a NULL object and do nothing with a NULL array. Functions that take
 *   an index return NULL, 0 or L3A_ERROR_ARGUMENT past the last item. Every *_free() accepts NULL. What is const is not changed.
 *
 * Memory:
 * - What a function hands out through a pointer to a pointer (l3a_model **model) belongs to the caller, who frees it with the
 *   *_free() of its type. A returned pointer to const belongs to the object it was asked of and lives as long as that
 *   object, unless stated otherwise. Strings, arrays and bytes passed in are copied, unless stated otherwise: they can be freed
 *   when the call returns.
 * - A struct that the caller declares begins with its own size, so that it can grow without breaking programs. Set the size, and
 *   leave what you do not need at 0, which is the default of every option:
 *
 *       l3a_extract_options options = {.size = sizeof options, .half = 1};
 *
 *   A struct that the library fills needs only its size. A struct without a size is only handed out, by pointer, and may grow at
 *   its end; do not copy it or declare one. l3a_axis and l3a_said are the exceptions: they have no size, and never change.
 * - Functions, settings and fields that are newer than 0.2.0 say so: "since 0.3". L3A_VERSION_NUMBER tells a program at compile
 *   time what the header has, l3a_version_number() at run time what the library has.
 * - Matrices are stored row by row, one row per image. Strings are UTF-8 and end with a zero byte.
 *
 * Threads, processes and the environment:
 * - The library prints nothing, never exits, installs no signal handler, and keeps no global state. Different threads may use
 *   objects of different contexts at the same time. A context and everything made from it may be used by only one thread at a time;
 *   the library takes no lock for it, so a program that shares a context between threads takes its own around every call. Only
 *   readers (l3a_reader) and tags are free of that: each reader may be used by a thread of its own, at the same time as the context
 *   and other readers.
 * - Between processes, the lock of a model (l3a_lock) keeps two from changing one file at the same time. The library never takes it
 *   by itself, except while it writes: whoever loads a model in order to change it holds the lock from before loading until after
 *   saving. Reading and tagging need no lock.
 * - After fork(), the child may call exec() or _exit(), and nothing of this library if the parent has used it: OpenMP's threads and
 *   those of loaders do not exist there. Fork before the first context is created, and let each process make its own.
 * - The library computes with OpenMP's threads, as many as the context has. They spin while they wait unless the environment says
 *   otherwise, which can make the library several times slower on a machine that other programs use too. Start your program with
 *   OMP_WAIT_POLICY=passive: OpenMP reads the variable when the program starts, so neither the program nor the library can set it
 *   later. The command and the Python package do this by themselves. Each thread of yours that computes (a reader, a context) has
 *   OpenMP threads of its own: a program with many of them should give the context one thread.
 * - Of the environment, the library reads L3A_PLUGIN_PATH (where plug-ins are, before the folder of the library; not in programs
 *   that run with another user's rights), the variables of mpirun and srun and L3A_ALONE (l3a_cluster_started), and on a GPU
 *   NVIDIA_TF32_OVERRIDE, which it refuses. OpenMP and the matrix library read their own: OMP_…, OPENBLAS_CORETYPE. The locale does
 *   not matter: numbers in files and settings have a decimal point.
 *
 * The method is "Label-Augmented Analytic Adaptation for Multi-Label Class-Incremental Learning" (ICML 2025); docs/method.md
 * explains it. */
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

#define L3A_VERSION "0.17.0"
#define L3A_VERSION_NUMBER 1700 /* major * 10000 + minor * 100 + patch */

/* The version of the library that is running, which may differ from the header's. */
L3A_PUBLIC const char *l3a_version(void);
L3A_PUBLIC int l3a_version_number(void);
/* What to cite, as BibTeX: the paper, and this version of the program. Since 0.7. */
L3A_PUBLIC const char *l3a_citation(void);

/* ---- Status ---------------------------------------------------------------------------------------------------------
 * These numbers never change. */
typedef enum l3a_status {
    L3A_OK = 0,
    L3A_ERROR_ARGUMENT = 1,   /* a NULL, or a size or index that makes no sense */
    L3A_ERROR_OPTION = 2,     /* an unknown setting, or a value out of range */
    L3A_ERROR_MEMORY = 3,     /* an allocation failed, or the plan exceeds the memory available */
    L3A_ERROR_NOT_FOUND = 4,  /* no such file or folder */
    L3A_ERROR_IO = 5,         /* a file operation failed: no permission, locked by another process, … */
    L3A_ERROR_FORMAT = 6,     /* not a file of the expected kind */
    L3A_ERROR_TRUNCATED = 7,  /* the file is shorter than its header says */
    L3A_ERROR_CHECKSUM = 8,   /* the bytes have changed since they were written */
    L3A_ERROR_VERSION = 9,    /* written by a newer version of this library */
    L3A_ERROR_DATA = 10,      /* a NaN, a label other than -1, 0 or 1, a phase without images */
    L3A_ERROR_CLASS = 11,     /* a class that is listed twice, already learned or missing, or class lists that differ */
    L3A_ERROR_MISMATCH = 12,  /* two things that do not fit together: widths, lengths, backbones, settings */
    L3A_ERROR_NUMERIC = 13,   /* the system of equations could not be solved */
    L3A_ERROR_STATE = 14,     /* a call at the wrong time */
    L3A_ERROR_CANCELLED = 15, /* the event callback asked to stop */
    L3A_ERROR_EXISTS = 16,    /* would overwrite something */
    L3A_ERROR_DEVICE = 17,    /* a GPU cannot be used, or failed; since 0.5 */
    L3A_ERROR_FULL = 18,      /* no room: a disk or a quota is full, or a file would exceed its limit; since 0.9, before: _IO */
    L3A_ERROR_METHOD = 19     /* a callback of a method of the program's own failed; since 0.11 */
} l3a_status;

/* "L3A_ERROR_IO" and so on; never NULL. */
L3A_PUBLIC const char *l3a_status_name(l3a_status status);

/* ---- Context --------------------------------------------------------------------------------------------------------
 * Holds what all objects share: threads, memory functions, the event callback, and the text of the last error. */
typedef struct l3a_context l3a_context;

typedef enum l3a_event_kind {
    L3A_EVENT_PROGRESS = 0, /* stage, done, total (0 if unknown) */
    L3A_EVENT_WARNING = 1,  /* text */
    L3A_EVENT_TIMING = 2,   /* stage, seconds: a stage has ended; since 0.6, of the stage "share", done: bytes that were summed */
    L3A_EVENT_RESULT = 3,   /* text: a phase of an experiment is finished and, if there is a folder, on disk */
    L3A_EVENT_NOTE = 4      /* text: what was chosen, and why: with the device "auto", and since 0.6 with the solver "auto" if one
                             * process has too little memory for the sums. Since 0.5. */
} l3a_event_kind;

typedef struct l3a_event {
    l3a_event_kind kind;
    const char *stage;
    const char *text;
    uint64_t done, total;
    double seconds;
} l3a_event;

/* Called on the thread that called the library. To cancel the call in progress, return non-zero from a progress or result event;
 * the call then returns L3A_ERROR_CANCELLED. The event and its strings are valid only during the callback. */
typedef int l3a_event_callback(const l3a_event *event, void *user);

/* For processes that learn together, each from its own images, and end each phase with the same model. All processes learn the same
 * phases with the same settings. A process that has no image of a phase learns the phase by hand: l3a_phase_begin() and
 * l3a_phase_end(). */
typedef enum l3a_sum_type { L3A_SUM_FLOAT64, L3A_SUM_UINT64 } l3a_sum_type;
/* Replaces each of the values by its sum over all processes. Every process makes the same calls in the same order, with the same
 * count and type, and gets the same numbers to the last bit. Returns 0, or non-zero on failure; the call in progress then returns
 * L3A_ERROR_IO. */
typedef int l3a_sum_callback(void *values, size_t count, l3a_sum_type type, void *user);

typedef struct l3a_context_options {
    size_t size;                  /* sizeof the struct */
    int threads;                  /* 0: all processors that this process may use */
    uint64_t memory_limit;        /* bytes that one object may plan for; 0: the memory that is free */
    l3a_event_callback *on_event; /* NULL: no events */
    void *event_user;
    void *(*allocate)(void *user, size_t bytes); /* aligned like malloc; both this and release, or NULL for both */
    void (*release)(void *user, void *memory);
    void *memory_user;
    l3a_sum_callback *sum; /* NULL: this process learns alone */
    void *sum_user;
    size_t process, processes; /* with sum: the number of this process, from 0, and how many there are */
    const char *device; /* where models learn and score and networks are computed: "cpu"; "cuda" or "cuda:N" for a GPU, by the
                         * plug-in libl3a-cuda.so, which is looked for next to the library or in the folder L3A_PLUGIN_PATH; "auto":
                         * the first GPU, if there is one and the first model that is planned fits, otherwise the processor; a note
                         * says which, and why. NULL: "cpu". Copied. Since 0.5. */
    uint64_t device_memory_limit; /* bytes of the GPU's memory to use; 0: what is free. Since 0.5. */
    uint64_t divide; /* with sum: 0: each process has images of its own, in tables of its own. 1: all processes make the same calls
                      * with the same tables; each learns and scores its part of their rows, all end with the same models and
                      * metrics, and only process 0 writes files and takes locks. Since 0.6. */
    uint64_t lead_threads; /* with divide: threads of process 0 while the others wait for it, as when it solves for all; 0: threads.
                            * Since 0.6. */
} l3a_context_options;

/* NULL options: the defaults. On failure there is no context to hold a text, only the status. If the matrix library does not know
 * the processor and runs slow kernels, a warning event names the environment variable to set before the program starts. */
L3A_PUBLIC l3a_status l3a_context_create(const l3a_context_options *options, l3a_context **context);
/* Free everything made from the context first. */
L3A_PUBLIC void l3a_context_free(l3a_context *context);
L3A_PUBLIC int l3a_context_threads(const l3a_context *context);
/* The device in use: "cpu", or "cuda:0". With the device "auto", it can change from a GPU to "cpu" until the first model is created
 * or loaded, or the first backbone opened. "" for a NULL context. Since 0.5. */
L3A_PUBLIC const char *l3a_context_device(const l3a_context *context);
/* What went wrong, where and why in the last call that failed. "" before the first failure, and for a NULL context. Valid until the
 * next failure. */
L3A_PUBLIC const char *l3a_error_text(const l3a_context *context);
/* What to do about it, or "". */
L3A_PUBLIC const char *l3a_error_hint(const l3a_context *context);
/* Describes a device, by a name as in the options; NULL: "cpu". If a context for it cannot be created, this fails with the same
 * status, and the text of the context that is passed says why. The text is cut to capacity. Since 0.5. */
L3A_PUBLIC l3a_status l3a_device_describe(l3a_context *context, const char *device, char *text, size_t capacity);

/* ---- Tagger ---------------------------------------------------------------------------------------------------------
 * A model with its backbone: from a picture to its tags. examples/tag.c is a complete program.
 *
 * The tagger belongs to its context, like everything else; the thread that uses the context is the one writer. Any number of other
 * threads may tag pictures at the same time, each with a reader of its own. Readers share the model and the parameters of the
 * backbone, and have their own working memory and error text. Each uses as many processors as the context has threads, so a program
 * with many readers should give the context one thread. Readers call the context's allocate and release from their threads; a
 * program that supplies its own must make them thread-safe.
 *
 * The same picture, model, backbone, machine and number of threads give the same scores to the last bit, whatever other readers do
 * at the same time. The size of a batch can change the last bits of a score. */
typedef struct l3a_tagger l3a_tagger;
typedef struct l3a_reader l3a_reader;
typedef struct l3a_tags l3a_tags;
/* Below: the model and its settings, and feature tables. */
typedef struct l3a_model l3a_model;
typedef struct l3a_options l3a_options;
typedef struct l3a_features l3a_features;
struct l3a_pictures;
struct l3a_unlabelled_options;

typedef struct l3a_tagger_options {
    size_t size;          /* sizeof the struct */
    const char *backbone; /* checkpoint that made the features the model was learned with; NULL (since 0.3): the one that the
                           * model's records lead to, or that is in the packed file */
    const struct l3a_backbone_options *backbone_options; /* as when these features were made; what is not given is as the model
                                                          * records, or the default */
    const struct l3a_picture_options *picture_options;   /* the same */
    size_t batch;  /* pictures that l3a_reader_tag_files() computes at a time, up to 1024; 0: 16 and, since 0.15, as many as suit
                    * the device. With 1, it gives a picture the same scores as l3a_reader_tag_file() to the last bit. */
    size_t views;  /* of the pictures that are tagged: 1, 5, 9 or 14, whatever the model was taught with; 0: as its settings `views`
                    * and `score-views` say. More are more accurate and take longer. Since 0.4. */
    size_t commit; /* 1: a lesson, an undo or a rename is in the model's history, synced, before readers see it and the call
                    * returns; the model file can be saved later. If it cannot be written there, the call fails, and the model stays
                    * as it was. Hold the model's lock. Since 0.8. */
} l3a_tagger_options;

/* Loads a model or, since 0.3, a packed model (l3a_pack_write()), and opens its backbone. A backbone or preprocessing other than
 * the model was learned with is L3A_ERROR_MISMATCH, as far as the model has a record of it. NULL options: the defaults. A model
 * that was taught pictures records where its backbone is: relative to the model's own folder, and as an absolute path. If it is in
 * neither place, the call fails with L3A_ERROR_NOT_FOUND; if the model has no such record, with L3A_ERROR_ARGUMENT. Strings and
 * structs in the options are copied. Pictures get the views that the options or else the model's settings say (since 0.4):
 * 1, 5, 9 or 14. A tagger that only tags needs no lock; to teach, take the model's lock (l3a_lock_take) before. */
L3A_PUBLIC l3a_status l3a_tagger_open(l3a_context *context, const char *model_path, const l3a_tagger_options *options,
                                      l3a_tagger **tagger);
/* Loads the model again from its path; what was taught and neither saved nor committed is lost. Calls of readers that are in
 * progress end with the old model; later ones use the new one. If this fails, the old model stays: so a tagger of
 * l3a_tagger_create() that was never saved cannot be reloaded (L3A_ERROR_NOT_FOUND). For the writer only. */
L3A_PUBLIC l3a_status l3a_tagger_reload(l3a_tagger *tagger);
/* The current model, until the next l3a_tagger_reload(). For the writer only. Tagging needs only a part of a model, so the first
 * call loads the whole of it, from the file as it is then; readers use that from then on. NULL if this fails, or if the tagger has
 * a packed model; the context has the text. */
L3A_PUBLIC const l3a_model *l3a_tagger_model(l3a_tagger *tagger);
/* The path of its backbone's checkpoint; NULL if that is in the packed file. Since 0.8. */
L3A_PUBLIC const char *l3a_tagger_backbone(const l3a_tagger *tagger);
/* How many pictures its readers compute at a time. The last bits of scores depend on it. 0 for NULL. Since 0.15. */
L3A_PUBLIC size_t l3a_tagger_batch(const l3a_tagger *tagger);
/* Free all its readers first. */
L3A_PUBLIC void l3a_tagger_free(l3a_tagger *tagger);

/* Allowed on any thread at any time. On failure there is no reader to hold a text, only the status. */
L3A_PUBLIC l3a_status l3a_reader_create(l3a_tagger *tagger, l3a_reader **reader);
L3A_PUBLIC void l3a_reader_free(l3a_reader *reader);
/* What went wrong in the reader's last call that failed, and what to do about it; like l3a_error_text() and l3a_error_hint(). */
L3A_PUBLIC const char *l3a_reader_error_text(const l3a_reader *reader);
L3A_PUBLIC const char *l3a_reader_error_hint(const l3a_reader *reader);

/* Tags a picture; the section "Pictures" lists the formats. */
L3A_PUBLIC l3a_status l3a_reader_tag_file(l3a_reader *reader, const char *path, l3a_tags **tags);
/* The same from memory; messages use name instead of a path. bytes may be NULL if count is 0. */
L3A_PUBLIC l3a_status l3a_reader_tag_bytes(l3a_reader *reader, const char *name, const void *bytes, size_t count, l3a_tags **tags);

/* Called for each picture, in order, with its index among the paths. If it could not be read, tags is NULL, status says why, and
 * the reader has the text. The tags are valid only during the callback. To stop, return non-zero. */
typedef int l3a_tags_callback(size_t index, l3a_status status, const l3a_tags *tags, void *user);
/* Tags many pictures with one model, in batches, and reads ahead. A picture that cannot be read does not stop the others and does
 * not make the call fail. If the callback stops it, the call returns L3A_ERROR_CANCELLED. paths may be NULL if count is 0. */
L3A_PUBLIC l3a_status l3a_reader_tag_files(l3a_reader *reader, const char *const *paths, size_t count, l3a_tags_callback *on_tags,
                                           void *user);

/* Tags are all classes of the model, sorted by score, the highest first. They do not change. Any thread may use and free them, even
 * after their reader and tagger were freed. */
L3A_PUBLIC size_t l3a_tags_count(const l3a_tags *tags);
/* The name of the class. */
L3A_PUBLIC const char *l3a_tags_name(const l3a_tags *tags, size_t index);
/* The number of the class in the model. */
L3A_PUBLIC size_t l3a_tags_class(const l3a_tags *tags, size_t index);
/* As l3a_model_score() defines it: the higher, the likelier, and not a probability. */
L3A_PUBLIC float l3a_tags_score(const l3a_tags *tags, size_t index);
/* The score above which the class counts as predicted, as in l3a_model_thresholds(). */
L3A_PUBLIC double l3a_tags_threshold(const l3a_tags *tags, size_t index);
/* 1 if the score is above the threshold, else 0. */
L3A_PUBLIC int l3a_tags_predicted(const l3a_tags *tags, size_t index);
/* The crop of the picture with the highest score for the class, counted from 1; 0 without views, and for tags from
 * l3a_tags_create(). Since 0.4. */
L3A_PUBLIC size_t l3a_tags_view(const l3a_tags *tags, size_t index);
/* Where that crop is in the picture, as in l3a_view_box(). Returns 1; 0, and leaves the box alone, if there is no crop. Since 0.4.
 */
L3A_PUBLIC int l3a_tags_box(const l3a_tags *tags, size_t index, double box[4]);
/* Tags from scores that l3a_model_score() has computed, for features that did not come from a reader. scores and thresholds have
 * one number per class of the model; l3a_model_thresholds() gives the thresholds. */
L3A_PUBLIC l3a_status l3a_tags_create(const l3a_model *model, const float *scores, const double *thresholds, l3a_tags **tags);
L3A_PUBLIC void l3a_tags_free(l3a_tags *tags);

/* ---- Lessons and their history ----------------------------------------------------------------------------------------
 * A lesson is a list of pictures with the classes that each shows. A tagger learns it at once, and what was taught can be listed,
 * undone and corrected, as long as the model's history is kept. examples/teach.c is a complete program.
 *
 * The history is the file MODEL.history beside the model, readable only by its owner. For each picture taught it keeps the path,
 * a checksum of the file, the judgement, and the features: 4 bytes times the width, about 800 bytes with 192 features and 3 KiB
 * with 768. Features are not the picture, but they tell something about what it shows. The model itself never keeps any of this.
 *
 * Since 0.8, the history can be ahead of the model file: a process that commits its changes writes them to the history at once, and
 * to the model file later. Opening the history brings the model up to date, even after that process was killed. */
typedef struct l3a_lesson l3a_lesson;
typedef struct l3a_history l3a_history;

/* What is known about a picture (since 0.3). The judged set of a picture, the classes for which it is learned as showing or not
 * showing them, is by default all classes: those that the model knows and all that pictures of the lesson show. So tags has to be
 * complete. Without tags, but with classes in absent, only those are judged. No class can be in both tags and absent. Every class
 * that is judged must be known, or some picture of the lesson must show it. */
typedef struct l3a_judgement {
    size_t size;               /* sizeof the struct */
    const char *const *tags;   /* classes that it shows */
    size_t tag_count;          /* 0, without absent, judged and only: it shows none of the classes */
    const char *const *absent; /* classes that it does not show, judged in addition to the others */
    size_t absent_count;
    const char *const *judged; /* the judged set, if it is not the default: these, and those in tags and absent */
    size_t judged_count;
    int only; /* 1: nothing but tags and absent is judged; judged must be empty */
} l3a_judgement;

/* A lesson belongs to its context, and any tagger of the same context can learn it. A picture that cannot be added leaves the
 * lesson as it was. Since 0.3. */
L3A_PUBLIC l3a_status l3a_lesson_create(l3a_context *context, l3a_lesson **lesson);
/* Adds a picture, which is not opened yet. The names of classes lose spaces at both ends. A name that is empty, longer than 255
 * bytes, not UTF-8, or contains ';' or a control character is L3A_ERROR_CLASS. Since 0.3. */
L3A_PUBLIC l3a_status l3a_lesson_add(l3a_lesson *lesson, const char *path, const l3a_judgement *judgement);
/* The same from memory; the history and messages use name instead of a path. The bytes are copied, and kept until the lesson is
 * freed. bytes may be NULL if count is 0. Since 0.3. */
L3A_PUBLIC l3a_status l3a_lesson_add_bytes(l3a_lesson *lesson, const char *name, const void *bytes, size_t count,
                                           const l3a_judgement *judgement);
L3A_PUBLIC size_t l3a_lesson_count(const l3a_lesson *lesson);
/* The path or name of a picture. */
L3A_PUBLIC const char *l3a_lesson_path(const l3a_lesson *lesson, size_t index);
/* What l3a_tagger_teach() did with the picture: L3A_OK if it was learned, L3A_ERROR_EXISTS if it was left out because it has been
 * taught before in the same way, L3A_ERROR_STATE if it has not been tried yet, and otherwise why it could not be read. Since 0.3.
 */
L3A_PUBLIC l3a_status l3a_lesson_outcome(const l3a_lesson *lesson, size_t index);
/* The same in words, with the path; "" for L3A_OK. Since 0.3. */
L3A_PUBLIC const char *l3a_lesson_problem(const l3a_lesson *lesson, size_t index);
L3A_PUBLIC void l3a_lesson_free(l3a_lesson *lesson);

typedef struct l3a_lesson_options {
    size_t size;    /* sizeof the struct */
    int strict;     /* 1: stop at a picture that cannot be read; 0: leave it out, and fail only if no picture can be read */
    int no_history; /* 1: keep nothing of the pictures. This lesson, and those before it, can then not be undone. */
    int instead;    /* 1: a picture that was taught before is first taken back; 0: with another judgement it is an error */
    const l3a_judgement *was; /* with instead, for pictures that the history does not have: how they were taught; NULL: none was */
    size_t most_new_classes;  /* that the lesson may bring; more are L3A_ERROR_CLASS; 0: any number. Since 0.9. */
    size_t most_classes;      /* that the model may have with them; the same. Since 0.9. */
} l3a_lesson_options;

typedef struct l3a_teach_report {
    size_t size;        /* sizeof the struct */
    uint64_t images;    /* taught or taken back */
    size_t new_classes; /* they come last in the model */
    size_t parts;       /* of the model afterwards */
    double gamma;       /* of the model afterwards */
    int exact;          /* 1: the same images give this model in any order and in any number of calls; 0: class weights,
                         * pseudo-labels, folded parts or a gamma chosen from the first images make a difference */
} l3a_teach_report;

/* Settings that suit teaching (since 0.3): l3a+ without class weights, 2048 wide. Those that were given by name stay. */
L3A_PUBLIC l3a_status l3a_lesson_settings(l3a_context *context, l3a_options *options);
/* Makes a tagger with a new model of these settings, without classes. Nothing is written before l3a_tagger_save(). A file at
 * model_path is L3A_ERROR_EXISTS. options->backbone is needed, and remembered in the model. Hold the lock of model_path, from
 * before this call until after l3a_tagger_save(). Since 0.3. */
L3A_PUBLIC l3a_status l3a_tagger_create(l3a_context *context, const char *model_path, const l3a_options *settings,
                                        const l3a_tagger_options *options, l3a_tagger **tagger);
/* Learns the pictures of a lesson; readers use the new model from then on. A picture that was taught before, as the history knows
 * by its content, is left out if the judgement is the same, and otherwise an error that names it. Nothing is written before
 * l3a_tagger_save(), unless the tagger commits (l3a_tagger_options). Hold the model's lock. If the call fails, model, history and
 * readers are as before, and the next lesson works; l3a_lesson_outcome() tells how far each picture got. The lesson stays the
 * caller's, and can be taught again. NULL options: the defaults; NULL report: not wanted. Since 0.3. */
L3A_PUBLIC l3a_status l3a_tagger_teach(l3a_tagger *tagger, l3a_lesson *lesson, const l3a_lesson_options *options,
                                       l3a_teach_report *report);
/* Makes a sample of these pictures, or of the rows of this table, the model's unlabelled images (l3a_model_set_unlabelled), instead
 * of those from before; both NULL: there are none any more. Give the pictures that are to be tagged, a folder or a whole library:
 * tags are then chosen for what is common and what is rare there. A picture that is taught leaves them, and undoing that returns
 * it. The tagger keeps the features of the sample in memory while it is open. The setting of the options `most` is 4,000 if it is
 * 0. A picture that cannot be read is left out, and a warning names it. NULL options: the defaults. Hold the model's lock. If the
 * call fails, nothing has changed. Since 0.12. */
L3A_PUBLIC l3a_status l3a_tagger_set_unlabelled(l3a_tagger *tagger, const struct l3a_pictures *pictures, l3a_features *features,
                                                const struct l3a_unlabelled_options *options);
/* The features of that sample, without labels, until the next call that changes it; NULL if there is none, or if the tagger looks
 * at crops and they are of whole pictures. A model that was opened has the sums over its unlabelled images, but not their features.
 * Since 0.12. */
L3A_PUBLIC l3a_features *l3a_tagger_library(l3a_tagger *tagger);
/* As l3a_history_undo(), l3a_history_rename(), l3a_history_widen() and l3a_history_save(), with the tagger's model, and for its
 * readers at once. Hold the model's lock. If one of them fails, model and readers are as before. Since 0.3. */
L3A_PUBLIC l3a_status l3a_tagger_undo(l3a_tagger *tagger, l3a_teach_report *report);
/* The same with l3a_history_revert(). Since 0.13. */
L3A_PUBLIC l3a_status l3a_tagger_revert(l3a_tagger *tagger, uint64_t id, l3a_teach_report *report);
L3A_PUBLIC l3a_status l3a_tagger_rename(l3a_tagger *tagger, const char *old_name, const char *new_name, int *exact);
L3A_PUBLIC l3a_status l3a_tagger_widen(l3a_tagger *tagger, size_t dim);
L3A_PUBLIC l3a_status l3a_tagger_save(l3a_tagger *tagger);
/* The history of the tagger's model, which belongs to the tagger, is for the writer only, and valid until the tagger learns,
 * undoes, renames, widens, reloads or is freed. Since 0.3. */
L3A_PUBLIC l3a_status l3a_tagger_history(l3a_tagger *tagger, const l3a_history **history);

/* A model with its history, without a backbone. Hold the model's lock (l3a_lock_take) from before opening until after saving.
 * Since 0.3. */
L3A_PUBLIC l3a_status l3a_history_open(l3a_context *context, const char *model_path, l3a_history **history);

typedef struct l3a_repair_report {
    size_t size;      /* sizeof the struct */
    uint64_t bytes;   /* that could not be read; 0: the history was not damaged, and nothing was done */
    uint64_t applied; /* changes that only the history had, and that are in the model now */
    uint64_t lost;    /* lessons that are lost, as far as their numbers tell; a warning event names each */
} l3a_repair_report;

/* Repairs the history of a model that l3a_history_open() refuses because it is damaged (L3A_ERROR_CHECKSUM): applies the changes
 * that can still be read to the model, saves it, and writes the history again without what was damaged. A lesson that cannot be
 * read is lost, and with it changes that need it: renames, merges and corrections; a plain lesson needs no other. A warning event
 * tells where a copy of the damaged file is: MODEL.history.damaged-N. Hold the model's lock. NULL report: not wanted. Since 0.9. */
L3A_PUBLIC l3a_status l3a_history_repair(l3a_context *context, const char *model_path, l3a_repair_report *report);
L3A_PUBLIC void l3a_history_free(l3a_history *history);
L3A_PUBLIC const l3a_model *l3a_history_model(const l3a_history *history);
/* Takes the last entry back: the model is as it was before, up to rounding. If nothing can be undone: L3A_ERROR_STATE, and the text
 * says why. NULL report: not wanted. This and the calls below change only memory until l3a_history_save(); a failure leaves the
 * history and its model as they were. */
L3A_PUBLIC l3a_status l3a_history_undo(l3a_history *history, l3a_teach_report *report);
/* Takes any lesson back, given by the id of its entry: adds an entry that takes back what the model still knows from it, and
 * teaches again what it had replaced. The model is then as if the lesson had never been taught, up to rounding; what later lessons
 * judged anew stays, and a class that nothing shows any more is forgotten. A name that a lesson gave is taken back if it is still
 * that. The last entry is undone as l3a_history_undo() does. If nothing is left of the lesson, or it merged classes:
 * L3A_ERROR_STATE; if there is none: L3A_ERROR_NOT_FOUND. report->images: pictures that were taken back. Since 0.13. */
L3A_PUBLIC l3a_status l3a_history_revert(l3a_history *history, uint64_t id, l3a_teach_report *report);
/* As l3a_model_rename(), and adds an entry. */
L3A_PUBLIC l3a_status l3a_history_rename(l3a_history *history, const char *old_name, const char *new_name, int *exact);
/* Learns everything again with another width of the random layer. The history must reach back to the first picture. */
L3A_PUBLIC l3a_status l3a_history_widen(l3a_history *history, size_t dim);
/* Writes the history and the model, under the model's lock, which the caller holds. Whatever happens, the path holds the complete
 * new model or what it held before, and the history agrees with it. After a failure (L3A_ERROR_FULL: the disk), what was taught is
 * still in memory, and saving can be tried again. */
L3A_PUBLIC l3a_status l3a_history_save(l3a_history *history);

typedef struct l3a_history_entry {
    size_t size;      /* sizeof the struct */
    uint64_t number;  /* of the lesson; counts everything ever taught to this model that was not undone */
    int64_t seconds;  /* when, since 1970 */
    const char *kind; /* "teach", "instead" (some pictures were taken back first), "rename", "merge", "not kept"; since 0.13 "take
                       * back" (another entry by itself; what it teaches are pictures that were judged again without a class that is
                       * gone, and they still count as those of their own entries) */
    size_t pictures;  /* taught */
    size_t taken_back;
    size_t classes;                  /* that its pictures show: l3a_history_class() */
    size_t new_classes;              /* the model did not know before */
    const char *old_name, *new_name; /* of a rename or merge; else NULL */
    int can_undo;                    /* 1 if undo can take back this entry and those after it */
    uint64_t id; /* of this entry and no other, not 0: the number of a lesson that was undone is used again. Since 0.8. */
} l3a_history_entry;

/* Changes that were committed (l3a_tagger_options) and are not in the model's file yet. Opening the history applies them to the
 * model; saving writes the model with them. Since 0.8. */
L3A_PUBLIC uint64_t l3a_history_ahead(const l3a_history *history);

/* Entries that the history still has, the oldest first. */
L3A_PUBLIC size_t l3a_history_count(const l3a_history *history);
/* L3A_ERROR_ARGUMENT past the last. The texts are valid until the history changes. */
L3A_PUBLIC l3a_status l3a_history_entry_at(const l3a_history *history, size_t index, l3a_history_entry *entry);
/* A class that the pictures of an entry show, and how many of them do. NULL past the last. */
L3A_PUBLIC const char *l3a_history_class(const l3a_history *history, size_t entry, size_t index, size_t *pictures);
/* A picture that an entry taught, and the classes that it shows: "cat; dog". If it shows none, those that it was judged for:
 * "not cat; not dog". NULL past the last. */
L3A_PUBLIC const char *l3a_history_picture(const l3a_history *history, size_t entry, size_t index);
L3A_PUBLIC const char *l3a_history_tags(const l3a_history *history, size_t entry, size_t index);
/* The size of the file, 0 if there is none, and its path. */
L3A_PUBLIC uint64_t l3a_history_bytes(const l3a_history *history);
L3A_PUBLIC const char *l3a_history_path(const l3a_history *history);
/* Why nothing older than the first entry can be undone, in words; "" if the history reaches back to the first picture. */
L3A_PUBLIC const char *l3a_history_gap(const l3a_history *history);

/* ---- Packed models --------------------------------------------------------------------------------------------------
 * Since 0.3: a file that holds what tagging needs, and nothing else. l3a_tagger_open() opens it like a model. It is much smaller
 * than the model, which keeps sums for learning, and it cannot learn. With the backbone inside, one file is all that tagging needs.
 */
typedef enum l3a_pack_type { L3A_PACK_FLOAT16, L3A_PACK_INT8 } l3a_pack_type;

typedef struct l3a_pack_options {
    size_t size;            /* sizeof the struct */
    l3a_pack_type type;     /* of the coefficients */
    int with_backbone;      /* 1: the tensors of the backbone go into the file */
    const char *backbone;   /* where it is; NULL: where the model's records lead to, as in l3a_tagger_open() */
    int half_backbone;      /* 1: its tensors as float16, which changes the features a little; 0: float32 */
    l3a_features *features; /* rows on which to measure the effect on scores; NULL: none */
} l3a_pack_options;

typedef struct l3a_pack_report {
    size_t size;           /* sizeof the struct */
    uint64_t bytes;        /* of the packed file */
    uint64_t rows;         /* that were measured */
    double largest_change; /* of a score on these rows, through rounding of the coefficients */
    uint64_t changed;      /* row-class pairs that are predicted by only one of the two files */
} l3a_pack_report;

/* Packs the model in a file. NULL options: the defaults; NULL report: not wanted. The path holds the complete packed model
 * afterwards or, on failure, what it held before. */
L3A_PUBLIC l3a_status l3a_pack_write(l3a_context *context, const char *model_path, const l3a_pack_options *options,
                                     const char *path, l3a_pack_report *report);

/* ---- Settings -------------------------------------------------------------------------------------------------------
 * The settings of models and of the methods that experiments compare with them. l3a_option_at() lists them, each with its range,
 * its default and a line of help. Names have hyphens: "keep-phases". */
/* All settings with their defaults. */
L3A_PUBLIC l3a_status l3a_options_create(l3a_context *context, l3a_options **options);
L3A_PUBLIC l3a_status l3a_options_copy(l3a_context *context, const l3a_options *options, l3a_options **copy);
L3A_PUBLIC void l3a_options_free(l3a_options *options);

/* Sets one setting. A value that is not allowed is L3A_ERROR_OPTION and changes nothing. Choices are set as text. A number whose
 * table entry has a word, such as "auto", takes the word as text, or 0 as a number. */
L3A_PUBLIC l3a_status l3a_options_set(l3a_context *context, l3a_options *options, const char *name, const char *value);
L3A_PUBLIC l3a_status l3a_options_set_number(l3a_context *context, l3a_options *options, const char *name, double value);
L3A_PUBLIC l3a_status l3a_options_set_integer(l3a_context *context, l3a_options *options, const char *name, uint64_t value);
/* Writes the value as text, cut to capacity, and returns the full length; 0 for an unknown name. text may be NULL if capacity is 0.
 */
L3A_PUBLIC size_t l3a_options_get(const l3a_options *options, const char *name, char *text, size_t capacity);
/* The value of an integer or number, and of an integer; 0 for other settings and unknown names. */
L3A_PUBLIC double l3a_options_number(const l3a_options *options, const char *name);
L3A_PUBLIC uint64_t l3a_options_integer(const l3a_options *options, const char *name);
/* 1 if the setting was set, even to its default: l3a_method_options() then leaves it alone if the method allows it. */
L3A_PUBLIC int l3a_options_given(const l3a_options *options, const char *name);
/* Checks every setting against its range. */
L3A_PUBLIC l3a_status l3a_options_check(l3a_context *context, const l3a_options *options);

/* The table of settings. Command lines, records of runs and manuals are made from it. */
typedef enum l3a_option_type { L3A_OPTION_INTEGER, L3A_OPTION_NUMBER, L3A_OPTION_CHOICE } l3a_option_type;

typedef struct l3a_option_info {
    const char *name; /* "gamma" */
    l3a_option_type type;
    double low, high;        /* range of a number */
    int low_open, high_open; /* 1: the end of the range is itself not allowed */
    const char *choices;     /* "sqrt|inv|log|none" for a choice, else NULL */
    const char *fallback;    /* the default, as text */
    const char *help;
    const char *group; /* "model", or "comparison" if only other methods use it; a model does not store these */
    const char *word;  /* a word allowed instead of a number, such as "auto", stored as 0; NULL: none */
} l3a_option_info;

/* The settings in order; NULL past the last. The table is static. */
L3A_PUBLIC const l3a_option_info *l3a_option_at(size_t index);
/* What the setting needs to have an effect on a model with these options (NULL: the defaults), as a static text: "pseudo fixed",
 * "class weights (weights)". NULL if it has an effect. */
L3A_PUBLIC const char *l3a_option_needs(const l3a_options *options, const char *name);

/* ---- Views ----------------------------------------------------------------------------------------------------------
 * Since 0.4, an image can have several rows of features: those of the whole picture, and those of crops of it. `views` says which:
 * 1 is the whole picture alone; 5, 9 and 14 are the whole picture and so many crops (docs/views.md). An image is scored by the
 * whole picture and its best crop. Wherever an image has features, it then has l3a_view_rows(views) rows of them, the whole picture
 * first.
 */
/* The rows of an image: 1, or 1 + views. */
L3A_PUBLIC size_t l3a_view_rows(size_t views);
/* The crop of a view, as shares of the picture's sides: left, top, right, bottom. View 0 is the whole picture. Returns 0, and
 * leaves the box alone, if views is not 1, 5, 9 or 14 or there is no such view. */
L3A_PUBLIC int l3a_view_box(size_t views, size_t view, double box[4]);

/* ---- Feature tables -------------------------------------------------------------------------------------------------
 * Rows of backbone features with labels: 1 present, 0 absent, -1 unknown. Features are read from the file in blocks; labels stay in
 * memory. A row is an image: with views (since 0.4), it has l3a_view_rows(views) times width numbers. */
/* Opens a feature file: safetensors with `features` and optionally `labels`, `members` and `ids` (docs/formats.md). Verifies its
 * checksums if it has any. A table without rows is L3A_ERROR_DATA. */
L3A_PUBLIC l3a_status l3a_features_open(l3a_context *context, const char *path, l3a_features **features);
/* Opens NumPy files: features [N, k], or [N, rows of an image, k] with views, and labels [N, K]; NULL labels_path: no labels.
 * names_path is a text file with one class name per line; NULL: "class 0", "class 1", … */
L3A_PUBLIC l3a_status l3a_features_open_npy(l3a_context *context, const char *features_path, const char *labels_path,
                                            const char *names_path, l3a_features **features);
/* Wraps values [rows x l3a_view_rows(views) x width] and labels [rows x class_count] in the caller's memory, which must outlive the
 * table. views: 1, 5, 9 or 14. Class names are copied. classes and labels may be NULL if class_count is 0. Before 0.10, views was
 * only an argument of l3a_features_wrap_views(). */
L3A_PUBLIC l3a_status l3a_features_wrap(l3a_context *context, const float *values, const int8_t *labels, size_t rows, size_t views,
                                        size_t width, const char *const *classes, size_t class_count, l3a_features **features);
/* Uses only some of a table's views from now on: 1 of any, or 5 or 9 of 14. What the table does not have is L3A_ERROR_MISMATCH.
 * Since 0.4. */
L3A_PUBLIC l3a_status l3a_features_use_views(l3a_features *features, size_t views);

typedef struct l3a_save_options {
    size_t size;   /* sizeof the struct */
    uint64_t half; /* 1: features as float16, where a number above 65504 is L3A_ERROR_DATA; 0: float32 */
} l3a_save_options;

/* Writes a feature file atomically: whatever happens, the path holds the complete new file or what it held before. NULL options:
 * the defaults. Before 0.10, the options were those of l3a_features_save_with(). */
L3A_PUBLIC l3a_status l3a_features_save(l3a_features *features, const l3a_save_options *options, const char *path);
/* Joins the rows of feature files in a new one, whose number of rows is stored in *rows. If the files are shards of an extraction
 * (l3a_extract_options), all of them must be there, in any order, and the new file has the bytes that one process would have
 * written on the same kind of machine. Otherwise their rows are joined in the order given; classes, width, views and type must be
 * the same, and no image may be in two of the files, by its id. Rows are copied in pieces; one file's labels are in memory at a
 * time. Since 0.6. */
L3A_PUBLIC l3a_status l3a_features_merge(l3a_context *context, const char *const *paths, size_t count, const char *path,
                                         uint64_t *rows);
L3A_PUBLIC void l3a_features_free(l3a_features *features);

L3A_PUBLIC size_t l3a_features_rows(const l3a_features *features);
/* Numbers in a row of an image. */
L3A_PUBLIC size_t l3a_features_width(const l3a_features *features);
/* 1, or the number of crops. Since 0.4. */
L3A_PUBLIC size_t l3a_features_views(const l3a_features *features);
L3A_PUBLIC size_t l3a_features_class_count(const l3a_features *features);
L3A_PUBLIC const char *l3a_features_class(const l3a_features *features, size_t index);
/* [rows x class_count], in the order of l3a_features_class(); NULL if there are no labels. Of a table in a file, processes that
 * divide the rows (l3a_context_options) hold the labels of their own part each, and no ids. This call reads those of all rows,
 * which the process then holds; it returns NULL if it cannot. Since 0.11, before which each process held all of them. */
L3A_PUBLIC const int8_t *l3a_features_labels(const l3a_features *features);
/* [rows x class_count]: 1 if the row belongs to the phase of the class, as in l3a_dataset_members(). NULL: a row belongs to the
 * classes whose label is 1. It reads all rows as l3a_features_labels() does. */
L3A_PUBLIC const int8_t *l3a_features_members(const l3a_features *features);
/* The name of a row's picture; NULL if the file has no ids. Processes that divide the rows read it from the file, and the text is
 * valid until the next call. */
L3A_PUBLIC const char *l3a_features_id(const l3a_features *features, size_t row);
/* Names the pictures of a table that is in memory or of NumPy files: one name per row, without newlines. Since 0.7. */
L3A_PUBLIC l3a_status l3a_features_set_ids(l3a_features *features, const char *const *ids, size_t count);
/* How the features were made: "backbone", "sha256", "preprocess", "pool". "difficult" is "ignore" if the labels were read with
 * ignore_difficult. NULL if not recorded. Valid until the record is set again. */
L3A_PUBLIC const char *l3a_features_record(const l3a_features *features, const char *key);
L3A_PUBLIC l3a_status l3a_features_set_record(l3a_features *features, const char *key, const char *value);
/* Copies count rows to values [count x l3a_view_rows(views) x width]: those listed in rows, or the ones from first on if rows is
 * NULL. A NaN or infinity is L3A_ERROR_DATA, and the text names its row and column; values then holds all the rows nevertheless. */
L3A_PUBLIC l3a_status l3a_features_read(l3a_features *features, const size_t *rows, size_t first, size_t count, float *values);
/* XXH3-64 of the whole file, or of the caller's values and labels. */
L3A_PUBLIC l3a_status l3a_features_checksum(l3a_features *features, uint64_t *checksum);

/* ---- Scores ---------------------------------------------------------------------------------------------------------
 * One meaning for all methods, metrics, commands and reports:
 * - A score is a number for an image and a class: the higher, the likelier the image shows the class. Scores of one class can be
 *   compared with each other. The score of a model is a least-squares estimate of the label, 1 if the class is present and 0 if it
 *   is absent. It is not a probability, and no fixed formula turns it into one, because its scale depends on the data and on how
 *   many labels were missing (docs/method.md).
 * - A threshold is a score, one per class: l3a_model_thresholds(). A class is predicted for an image if its score is above the
 *   class's threshold.
 * - The settings eta, theta and head-theta are the paper's, given as sigma(score) = 1 / (1 + exp(-score)). theta stands for the
 *   threshold log(theta / (1 - theta)). */

/* ---- Model: simple calls --------------------------------------------------------------------------------------------
 * A model keeps sums over images, never an image or its features. */
typedef struct l3a_metrics { /* percent */
    size_t size;             /* sizeof the struct */
    double mean_ap;
    double class_precision, class_recall, class_f1;       /* CP, CR, CF1: means over classes */
    double overall_precision, overall_recall, overall_f1; /* OP, OR, OF1: over all image-class pairs */
    size_t images;                                        /* number of images measured */
    size_t left_out; /* by l3a_model_evaluate(): images that show none of the model's classes, and were not measured; since 0.3 */
} l3a_metrics;

/* Creates an empty model for features of the given width. The options are copied; NULL: the defaults. */
L3A_PUBLIC l3a_status l3a_model_create(l3a_context *context, size_t width, const l3a_options *options, l3a_model **model);
/* Loads a model file and verifies its checksums. */
L3A_PUBLIC l3a_status l3a_model_load(l3a_context *context, const char *path, l3a_model **model);
/* Writes a model file atomically: whatever happens, the path holds the complete new model or what it held before, and the model can
 * be saved again. Refused with L3A_ERROR_STATE during a phase, and after a failure that left the model incomplete; with
 * L3A_ERROR_IO while another context or process holds the lock of the path. */
L3A_PUBLIC l3a_status l3a_model_save(l3a_model *model, const char *path);
L3A_PUBLIC void l3a_model_free(l3a_model *model);

/* If two processes load, change and save the same model at the same time, one of the changes is lost. To prevent that, hold a lock
 * from before loading until after saving: the second process then waits or is refused. The lock is advisory: l3a_model_save()
 * respects the lock of another context or process, and loading needs none. */
typedef struct l3a_lock l3a_lock;
/* Locks the file at path, which need not exist yet. Paths that lead to the same file, such as a symbolic link and its target, share
 * one lock. If another process holds it, returns L3A_ERROR_IO at once or, if wait is not 0, sends a warning event and then progress
 * events until the lock is free. If this process holds it, with this or another context and on any thread, or has it from the
 * process that it was forked from: L3A_ERROR_STATE at once, because waiting for it might never end. Up to 0.8, that was so only for
 * the same context. Refuses a path that cannot be saved to because it is a folder, a device or a pipe. */
L3A_PUBLIC l3a_status l3a_lock_take(l3a_context *context, const char *path, int wait, l3a_lock **lock);
/* Releases the lock. The end of the process releases it as well. */
L3A_PUBLIC void l3a_lock_free(l3a_lock *lock);

/* Learns one phase: the named classes, from the rows of the table that belong to at least one of them because a label is 1 or the
 * table's members say so. A row that ends up without any label, true or pseudo, gets weight 0 and is counted as skipped. The table
 * must have all the named classes; its other labels are not used. A phase has sums of its own, which are added to the model's when
 * it ends, so a phase that fails before that leaves the model as it was. If the equations cannot be solved at the end, the model
 * still scores as before, but refuses to learn more or to be saved: load it again. Since 0.3, classes that the model knows are
 * allowed too. The images are then taught as by l3a_model_teach(): a label of -1 says that an image was not judged for the class.
 * Since 0.6, a table from which the model has already learned these classes is then L3A_ERROR_EXISTS. */
L3A_PUBLIC l3a_status l3a_model_learn(l3a_model *model, l3a_features *features, const char *const *classes, size_t class_count);
/* Computes scores [rows x classes of the model] for features [rows x width]; of a model with the setting `views` above 1, for
 * [rows x l3a_view_rows(views) x width]. If the setting `score-views` is not 0, it is what counts here. */
L3A_PUBLIC l3a_status l3a_model_score(l3a_model *model, const float *features, size_t rows, float *scores);

typedef struct l3a_evaluate_options {
    size_t size;    /* sizeof the struct */
    int all_images; /* 1: measure on all rows, also on those that show none of the model's classes; 0: leave these out */
} l3a_evaluate_options;

/* Computes the metrics on the rows that show at least one of the model's classes, or on all: a tag on an image that shows none of
 * the classes is wrong, so precision and AP are lower on all images, and closer to what a person sees who tags any pictures. The
 * table must have all of these classes. average_precision gets one number per class of the model; NULL: not wanted. NULL options:
 * the defaults. Before 0.10, the options were those of l3a_model_evaluate_with(). */
L3A_PUBLIC l3a_status l3a_model_evaluate(l3a_model *model, l3a_features *features, const l3a_evaluate_options *options,
                                         l3a_metrics *metrics, double *average_precision);
/* Says whether the model can learn from the table: L3A_OK, or L3A_ERROR_MISMATCH if the width or the views differ, or a record of
 * how the features were made that both have. */
L3A_PUBLIC l3a_status l3a_model_accepts(l3a_model *model, const l3a_features *features);
/* The same for scoring, where the setting `score-views` can say that images have other views. Since 0.4. */
L3A_PUBLIC l3a_status l3a_model_accepts_to_score(l3a_model *model, const l3a_features *features);

/* ---- Model: what it holds ------------------------------------------------------------------------------------------- */
typedef struct l3a_phase_info {
    size_t first, last; /* classes [first, last) of the model */
    uint64_t images;    /* images with a weight above 0 */
    uint64_t skipped;   /* images without any label, true or pseudo: weight 0 */
    uint64_t pseudo_labels;
    double eta;    /* the threshold that was used; 0 if there was none */
    int recursive; /* 1 if the recursion was used */
} l3a_phase_info;

/* Copies the model's settings to options; settings of other methods stay as they are. */
L3A_PUBLIC l3a_status l3a_model_options(const l3a_model *model, l3a_options *options);
/* Changes a setting for the phases to come. dim, seed, gamma, precision, alpha, lift, skip-features, weights and scaling belong to
 * the model permanently, and so does whether phases are kept apart: another value is L3A_ERROR_MISMATCH. */
L3A_PUBLIC l3a_status l3a_model_set_option(l3a_model *model, const char *name, const char *value);
L3A_PUBLIC size_t l3a_model_width(const l3a_model *model);
L3A_PUBLIC size_t l3a_model_class_count(const l3a_model *model);
/* Names, and the pointers below, are valid until the model next learns, merges or forgets. */
L3A_PUBLIC const char *l3a_model_class(const l3a_model *model, size_t index);
/* Number of training images that show the class. */
L3A_PUBLIC uint64_t l3a_model_class_images(const l3a_model *model, size_t index);
L3A_PUBLIC size_t l3a_model_phase_count(const l3a_model *model);
/* NULL past the last phase. */
L3A_PUBLIC const l3a_phase_info *l3a_model_phase(const l3a_model *model, size_t index);

/* Parts: the sums over images that were judged, as present or absent, for the same classes. These classes are the part's judged
 * set. A model that keeps the sums of phases apart (alpha below 1, or keep-phases) has a part for each phase, which judges the
 * classes of the phase; a part into which several phases were folded judges the classes of all of them. A model that adds all
 * phases to one sum has 0 parts. */
typedef struct l3a_part_info {
    size_t size;     /* sizeof the struct */
    uint64_t images; /* images with a weight above 0 */
    size_t phases;   /* number of phases in the part */
    size_t judged;   /* number of classes judged */
} l3a_part_info;

L3A_PUBLIC size_t l3a_model_part_count(const l3a_model *model);
L3A_PUBLIC l3a_status l3a_model_part(const l3a_model *model, size_t index, l3a_part_info *info);
/* 1 if the class, by its number in the model, is in the judged set of the part, else 0. */
L3A_PUBLIC int l3a_model_part_judges(const l3a_model *model, size_t part, size_t class_index);

/* Width of the rows that are learned: dim, plus width with skip features. */
L3A_PUBLIC size_t l3a_model_inputs(const l3a_model *model);
/* Fills thresholds, one per class, from the settings theta and thresholds. */
L3A_PUBLIC void l3a_model_thresholds(const l3a_model *model, double *thresholds);
/* W [inputs x classes]; NULL before the first phase. */
L3A_PUBLIC const double *l3a_model_coefficients(const l3a_model *model);
/* Texts kept in the model file: how the features were made, the method, … NULL if there is none. Valid until the record is set
 * again. */
L3A_PUBLIC const char *l3a_model_record(const l3a_model *model, const char *key);
L3A_PUBLIC l3a_status l3a_model_set_record(l3a_model *model, const char *key, const char *value);

/* ---- Model: teaching ------------------------------------------------------------------------------------------------
 * Phases bring new classes, and all their images are judged for the same classes. Teaching is more general: an image may be judged,
 * as present or absent, for any classes, known or new, and not judged for others. Images that were judged for the same classes add
 * up to one part, whenever they were taught. Since 0.3. */
/* Learns all rows of the table. A label of -1 says that the image was not judged for the class. A class that no row was judged for
 * is left out. A row that shows none of the classes it was judged for is learned too, as an image that does not show them. If the
 * call fails before the sums are complete, the model is as it was. */
L3A_PUBLIC l3a_status l3a_model_teach(l3a_model *model, l3a_features *features, l3a_teach_report *report);
/* Takes back rows that were taught with these features and labels. Classes that no image is judged for any more disappear. With
 * class weights, only the last lesson can be taken back exactly. A model that gave pseudo-labels refuses. */
L3A_PUBLIC l3a_status l3a_model_unteach(l3a_model *model, l3a_features *features, l3a_teach_report *report);
/* Renames a class. If the model has a class new_name too, the two become one: *exact is then 0 if images may have been judged for
 * both, since those that show both count twice. */
L3A_PUBLIC l3a_status l3a_model_rename(l3a_model *model, const char *old_name, const char *new_name, int *exact);

/* ---- Model: unlabelled images ---------------------------------------------------------------------------------------
 * Images that nobody has judged. They say what is common in a library, and so what does not tell one class from another. All of
 * them together count as much as the setting `beta` says; a class learns nothing else from them. The model keeps a sum over
 * them, but none of their features. Only the mean acts, so a sample of a library is as good as all of it. Thresholds of the kind
 * "taught" follow from how they score. Since 0.12. */
typedef struct l3a_unlabelled_options {
    size_t size;               /* sizeof the struct */
    uint64_t most;             /* a sample of so many is drawn from the table, by the model's seed; 0: all rows */
    uint64_t drawn_from;       /* the rows are themselves a sample of so many images; 0: they are not */
    const uint64_t *checksums; /* of the pictures of all rows: then one that is taught later no longer acts as unlabelled, until
                                * that is undone; NULL: unknown */
} l3a_unlabelled_options;

typedef struct l3a_unlabelled_info {
    size_t size;         /* sizeof the struct */
    uint64_t images;     /* that act; 0: there are none */
    uint64_t drawn_from; /* images that these were drawn from */
    double weight;       /* of each, where that of an image that was taught is 1 */
} l3a_unlabelled_info;

/* Makes the rows of the table, of which only the whole pictures count, the model's unlabelled images, instead of those from before.
 * NULL features: there are none any more, and the model is what it would be if there had never been any. The model must keep parts
 * (alpha below 1, or keep-phases) and have an alpha above 0; otherwise L3A_ERROR_MISMATCH. NULL options: the defaults. If the call
 * fails, the model is as it was. Since 0.12. */
L3A_PUBLIC l3a_status l3a_model_set_unlabelled(l3a_model *model, l3a_features *features, const l3a_unlabelled_options *options);
L3A_PUBLIC l3a_status l3a_model_unlabelled(const l3a_model *model, l3a_unlabelled_info *info);

/* ---- Model: merging and forgetting ----------------------------------------------------------------------------------
 * A model consists of sums over images, so what was learned in several places can be added up, and what was learned can be
 * subtracted again. *exact is 1 if the result is the model that would have learned everything in one place, or would never have
 * learned it. If it is 0, the remaining images keep weights or pseudo-labels that depended on the others. After a failure the model
 * still scores, but it may refuse to learn more or to be saved: load it again. */

/* Adds what the other model has learned. Both must come from the same context. The other model may change its form (A instead of
 * R), not its content. Settings that affect the sums must agree; if each model chose its own gamma, the first one's is kept. Parts
 * that judge the same classes are added up; before 0.3, other phases with classes in common were refused. Since 0.6, two models
 * that have learned the same classes from the same table are L3A_ERROR_MISMATCH, and leave both as they were. */
L3A_PUBLIC l3a_status l3a_model_merge(l3a_model *model, l3a_model *other, int *exact);
/* Removes classes. If all classes of a phase go, and its sums are kept apart (alpha below 1, or keep-phases), its images go with
 * them. Otherwise only the columns of the classes go, and their images stay as images that do not show them. */
L3A_PUBLIC l3a_status l3a_model_forget_classes(l3a_model *model, const char *const *classes, size_t count, int *exact);
/* Removes a phase, counted from 0, with its classes and images. Its sums must be kept apart. */
L3A_PUBLIC l3a_status l3a_model_forget_phase(l3a_model *model, size_t phase, int *exact);
/* Subtracts the rows of a table from every phase that learned them. The table must have the features and labels with which they
 * were learned. *images is the number of images subtracted; an image that was in several phases counts once in each. */
L3A_PUBLIC l3a_status l3a_model_forget_images(l3a_model *model, l3a_features *features, uint64_t *images, int *exact);

/* What a model would need. */
typedef struct l3a_plan {
    size_t size;      /* sizeof the struct */
    uint64_t memory;  /* bytes at the peak */
    uint64_t file;    /* bytes of the model file */
    uint64_t phase;   /* bytes that each phase kept apart adds to both, on a GPU to device_memory instead of memory; 0 if none is */
    double row_flops; /* to learn one row */
    double score_flops;      /* to score one row */
    double solve_flops;      /* at the end of a phase */
    uint64_t device_memory;  /* bytes of the GPU's memory at the peak; 0: the processor is used. Since 0.5. */
    uint64_t spilled_phases; /* phases kept apart for which the GPU has no room: they are in `memory`. Since 0.5. */
} l3a_plan;

/* Plans a model before it is created. NULL options: the defaults. */
L3A_PUBLIC l3a_status l3a_model_plan(l3a_context *context, const l3a_options *options, size_t width, size_t classes,
                                     l3a_plan *plan);
/* Says what l3a_model_learn() with the same arguments would need, and how many images are labelled with one of the classes. The
 * memory covers all phases, including the one to come, but not what other libraries take for themselves: 20 to 30 MiB with two
 * threads. */
L3A_PUBLIC l3a_status l3a_model_prepare(l3a_model *model, l3a_features *features, const char *const *classes, size_t class_count,
                                        uint64_t *images, l3a_plan *plan);

/* ---- Model: a phase by hand -----------------------------------------------------------------------------------------
 * For rows that are not in a table. Class weights need the number of images of each class before the first row is learned, so the
 * labels are passed twice: begin, count (all labels), learn (all rows), end. With a dynamic threshold, pass all features to survey
 * once, between count and learn. Rows may be passed in blocks of any size; the result does not depend on it. A row is an image:
 * features are [rows x width], or [rows x l3a_view_rows(views) x width] if the model's setting `views` is above 1. labels is
 * [rows x classes of the phase]. */
L3A_PUBLIC l3a_status l3a_phase_begin(l3a_model *model, const char *const *classes, size_t class_count);
L3A_PUBLIC l3a_status l3a_phase_count(l3a_model *model, const int8_t *labels, size_t rows);
L3A_PUBLIC l3a_status l3a_phase_survey(l3a_model *model, const float *features, size_t rows);
/* A block with a bad label, or a feature that is not finite or so large that nothing would be left of the others, is refused as a
 * whole, and the phase can continue. */
L3A_PUBLIC l3a_status l3a_phase_learn(l3a_model *model, const float *features, const int8_t *labels, size_t rows);
/* Adds the sums of the phase to the model's and solves the equations. After a failure the phase stays open, and the model scores as
 * before. */
L3A_PUBLIC l3a_status l3a_phase_end(l3a_model *model);
/* Ends the phase without a result; the model is then as it was before the phase. Only if l3a_phase_end() could not solve the
 * equations is the model incomplete: it still scores, but refuses to learn more or to be saved. Load it again. */
L3A_PUBLIC void l3a_phase_abandon(l3a_model *model);

/* ---- Metrics --------------------------------------------------------------------------------------------------------
 * scores and labels are [rows x classes]; pairs with label -1 are left out. thresholds has one score per class, above which the
 * class is predicted. average_precision gets one number per class; NULL: not wanted. */
L3A_PUBLIC l3a_status l3a_measure(l3a_context *context, const float *scores, const int8_t *labels, size_t rows, size_t classes,
                                  const double *thresholds, l3a_metrics *metrics, double *average_precision);

/* ---- Pictures -------------------------------------------------------------------------------------------------------
 * Decodes JPEG, PNG, WebP (since 0.3, with libwebp), HEIC and AVIF (since 0.3, with libheif) to RGB bytes and resizes them for a
 * backbone. The format is told by the content of a file, not by its name. For JPEG, PNG and WebP, the result equals Pillow's
 * Image.open(path).convert("RGB").resize(size) byte for byte; for HEIC and AVIF, it is what libheif gives for 8-bit RGB.
 * Transparency is dropped, and an animation is its first frame. A truncated or damaged file is an error that says what is wrong
 * and, if the decoder knows, at which byte. */
typedef enum l3a_filter { L3A_FILTER_BILINEAR, L3A_FILTER_BICUBIC } l3a_filter;

typedef struct l3a_picture_options {
    size_t size;          /* sizeof the struct */
    uint64_t pixel_limit; /* a picture with more pixels is refused before memory is allocated for it; 0: 64 million */
    int orient; /* 1: rotate as the EXIF orientation says; 0: leave as stored, like the paper's program. Damaged EXIF data is
                   ignored. HEIC and AVIF store rotation, mirroring and cropping outside EXIF, as part of the picture, so
                   they are always applied, and the EXIF orientation never. */
} l3a_picture_options;

typedef struct l3a_picture {
    size_t size; /* sizeof the struct */
    size_t width, height;
    uint8_t *pixels; /* RGB, row by row */
} l3a_picture;

/* NULL options: the defaults. The caller frees the picture with l3a_picture_free(). The struct is overwritten; pixels that it held
 * before are not freed. picture: {.size = sizeof picture}. */
L3A_PUBLIC l3a_status l3a_picture_read(l3a_context *context, const char *path, const l3a_picture_options *options,
                                       l3a_picture *picture);
/* The same from memory; messages use name instead of a path. */
L3A_PUBLIC l3a_status l3a_picture_decode(l3a_context *context, const char *name, const void *bytes, size_t count,
                                         const l3a_picture_options *options, l3a_picture *picture);
/* Makes a new picture, which the caller frees. resized must be another struct than picture. */
L3A_PUBLIC l3a_status l3a_picture_resize(l3a_context *context, const l3a_picture *picture, size_t width, size_t height,
                                         l3a_filter filter, l3a_picture *resized);
/* Frees the pixels and clears the struct except its size; harmless if it is clear already. */
L3A_PUBLIC void l3a_picture_free(l3a_context *context, l3a_picture *picture);

/* The format of a picture that this build reads, from its first bytes: "jpeg", "png", "webp", "heic" or "avif"; NULL for anything
 * else. 64 bytes of the file are enough. bytes: NULL only if count is 0. Since 0.3. */
L3A_PUBLIC const char *l3a_picture_format(const void *bytes, size_t count);
/* The formats that this build reads, in a fixed order; NULL past the last one. Since 0.3. */
L3A_PUBLIC const char *l3a_picture_format_at(size_t index);

/* Delivers pictures in order and decodes ahead with as many threads as the context has, in bounded memory. These threads call the
 * context's allocate and release, so a program that supplies its own must make them thread-safe. */
typedef struct l3a_loader l3a_loader;

/* How the middle of a picture is cut out: a sum of these. Since 0.14. */
typedef enum l3a_crop_rule {
    L3A_CROP_SQUASHED = 1, /* the picture is made a square first, instead of keeping its shape */
    L3A_CROP_DOWN = 2 /* a middle between two pixels begins at the first of them, as in transformers; otherwise at the even one,
                         as in torchvision and timm */
} l3a_crop_rule;

typedef struct l3a_loader_options {
    size_t size;          /* sizeof the struct */
    size_t width, height; /* of every picture delivered; 0: 224 */
    l3a_filter filter;
    float mean[3], deviation[3];        /* a value v in 0..255 is delivered as (v / 255 - mean) / deviation; deviation 0: 1 */
    const l3a_picture_options *picture; /* NULL: the defaults */
    size_t ahead;                       /* pictures in memory at a time; 0: enough for the threads */
    size_t views;                       /* 1, 5, 9 or 14; 0: 1. Since 0.4 */
    double crop; /* 0: a picture is resized to width x height, whatever its shape. Above 0, up to 1: it keeps its shape. Its shorter
                    side is resized to floor(width / crop), and the width x height pixels in the centre are delivered, as
                    torchvision's Resize and CenterCrop do on pictures of Pillow. width and height must be equal. With views, each
                    is a picture of its own. Since 0.14 */
    int crop_rules; /* since 0.14 */
} l3a_loader_options;

/* NULL options: the defaults. The paths must outlive the loader; paths may be NULL if count is 0. */
L3A_PUBLIC l3a_status l3a_loader_create(l3a_context *context, const char *const *paths, size_t count,
                                        const l3a_loader_options *options, l3a_loader **loader);
/* Delivers the next picture as three planes [3 x height x width]; with views, [l3a_view_rows(views) x 3 x height x width]. *index
 * is its position in paths, or count if none is left. A picture that cannot be read returns its own error, which names the file;
 * *index is set nevertheless, and the next call continues with the next picture. Each call sends a progress event. If that cancels
 * the call, the picture is delivered by the next one. */
L3A_PUBLIC l3a_status l3a_loader_next(l3a_loader *loader, size_t *index, float *planes);
/* Allowed at any time; pictures not yet delivered are dropped. */
L3A_PUBLIC void l3a_loader_free(l3a_loader *loader);

/* ---- Sidecars -------------------------------------------------------------------------------------------------------
 * Tags for other programs: an XMP file beside a picture, with the tags as keywords in dc:subject. */
typedef struct l3a_sidecar_options {
    size_t size;               /* sizeof the struct */
    const char *const *remove; /* tags to remove, except those to add; NULL: none */
    size_t remove_count;
    int short_name; /* the name of a new sidecar: 0: photo.jpg.xmp, as darktable and digiKam have it; 1: photo.xmp, as Adobe has it
                     */
} l3a_sidecar_options;

/* Adds tags to the sidecar of a picture: to photo.jpg.xmp or photo.xmp, whichever exists, in this order, or to a new one. Tags that
 * are there already stay, and no other byte of the file changes. If there is nothing to change, nothing is written, and a sidecar
 * without tags is not made. Otherwise the file is replaced atomically. A file that is not XMP in UTF-8 is L3A_ERROR_FORMAT and
 * stays as it is. The picture itself is not opened. tags may be NULL if count is 0. NULL options: the defaults. *changed is 1 if
 * the file was written; NULL: not wanted. Since 0.3. */
L3A_PUBLIC l3a_status l3a_sidecar_write(l3a_context *context, const char *picture, const char *const *tags, size_t count,
                                        const l3a_sidecar_options *options, int *changed);

/* ---- Picture files --------------------------------------------------------------------------------------------------
 * The pictures among files and folders, as people name them on a command line. The first bytes of a file decide whether it is a
 * picture, not its name. Since 0.3. */
typedef struct l3a_pictures l3a_pictures;

/* Files are taken in the given order; folders are searched to any depth, and the pictures of each are sorted by path. Files and
 * folders whose name begins with a dot, and @eaDir, are left out of a search. Symbolic links are followed, but no folder is
 * searched twice, and no path is listed twice. A file or folder that cannot be read, and a file among `paths` that is no picture,
 * does not make the call fail: l3a_pictures_skipped() lists it. Sends progress events. paths may be NULL if count is 0. Since 0.3.
 *
 * Since 0.11, "tar:FILE.tar" stands for the pictures in a tar file, in its order; several files are written as in "tar:" data sets.
 * An archive that is damaged is skipped as a whole. For l3a_reader_tag_pictures() and, since 0.12, l3a_tagger_set_unlabelled():
 * other calls do not read pictures in archives. */
L3A_PUBLIC l3a_status l3a_pictures_find(l3a_context *context, const char *const *paths, size_t count, l3a_pictures **pictures);
L3A_PUBLIC void l3a_pictures_free(l3a_pictures *pictures);
L3A_PUBLIC size_t l3a_pictures_count(const l3a_pictures *pictures);
/* Of a picture in a tar file: ARCHIVE/MEMBER. */
L3A_PUBLIC const char *l3a_pictures_path(const l3a_pictures *pictures, size_t index);
/* The path of the tar file that a picture is in; NULL: it has a file of its own. Since 0.11. */
L3A_PUBLIC const char *l3a_pictures_archive(const l3a_pictures *pictures, size_t index);
/* The path of a file or folder that was skipped though it was named, should be a picture, or could not be read; NULL past the last.
 */
L3A_PUBLIC const char *l3a_pictures_skipped(const l3a_pictures *pictures, size_t index);
/* Why: "this is a text, not a picture", "cannot open: Permission denied". To be shown after the path and a colon. */
L3A_PUBLIC const char *l3a_pictures_reason(const l3a_pictures *pictures, size_t index);
/* How many files in the folders are of other kinds: texts, videos, sidecars, … They are not listed. */
L3A_PUBLIC size_t l3a_pictures_others(const l3a_pictures *pictures);
/* As l3a_reader_tag_files(), for `count` of the pictures, from number `first` on; they may also be in tar files. The callback gets
 * the number among these: 0 is `first`. Since 0.11. */
L3A_PUBLIC l3a_status l3a_reader_tag_pictures(l3a_reader *reader, const l3a_pictures *pictures, size_t first, size_t count,
                                              l3a_tags_callback *on_tags, void *user);

/* ---- Data sets ------------------------------------------------------------------------------------------------------
 * "voc:FOLDER" (contains VOC2007/ or another year), "coco:FOLDER" (contains annotations/), "list:FILE.csv" (path,labels with
 * semicolons between labels), or, since 0.3, "folders:FOLDER" (contains a folder of pictures for each class, or train/, test/ and
 * so on with such folders). Since 0.11, "tar:FILE.tar": a tar file with the pictures KEY.jpg and their labels in KEY.json, KEY.cls
 * or KEY.txt, as WebDataset has them; or several files: "tar:a.tar,b.tar", "tar:shard-*.tar", "tar:shard-{0000..0099}.tar". Classes
 * are in lexicographic order. */
typedef struct l3a_dataset l3a_dataset;

typedef struct l3a_dataset_options {
    size_t size;          /* sizeof the struct */
    int ignore_difficult; /* VOC, if all of a picture's objects of a class are difficult: 1: the class is unknown there; 0: absent
                           */
} l3a_dataset_options;

/* split is "trainval", "test", "train2014", …; an unknown one is an error that lists the splits. NULL: all rows of a list or folder
 * without splits. Inconsistencies that do no harm are reported as warning events. Picture files are not opened, except by
 * "folders:", which looks at their first bytes, and compares those of the same size. Of a tar file, the headers and labels are
 * read. NULL options: the defaults. Before 0.10, the options were those of l3a_dataset_open_with(). */
L3A_PUBLIC l3a_status l3a_dataset_open(l3a_context *context, const char *name, const char *split,
                                       const l3a_dataset_options *options, l3a_dataset **dataset);
/* Writes the names of the splits, separated by spaces and cut to capacity. */
L3A_PUBLIC l3a_status l3a_dataset_splits(l3a_context *context, const char *name, char *text, size_t capacity);
L3A_PUBLIC void l3a_dataset_free(l3a_dataset *dataset);
L3A_PUBLIC size_t l3a_dataset_rows(const l3a_dataset *dataset);
L3A_PUBLIC size_t l3a_dataset_class_count(const l3a_dataset *dataset);
L3A_PUBLIC const char *l3a_dataset_class(const l3a_dataset *dataset, size_t index);
/* [rows x classes]: 1 present, 0 absent, -1 unknown (only with ignore_difficult) */
L3A_PUBLIC const int8_t *l3a_dataset_labels(const l3a_dataset *dataset);
/* [rows x classes]: 1 if the picture belongs to the phase of the class: its label is 1, or it has a crowd of the class (COCO). */
L3A_PUBLIC const int8_t *l3a_dataset_members(const l3a_dataset *dataset);
/* "000012" (VOC), "000000000009" (COCO), the path as written in the list, the path below the folder of folders, or the name in the
 * tar file. */
L3A_PUBLIC const char *l3a_dataset_id(const l3a_dataset *dataset, size_t row);
/* Of a picture in a tar file: ARCHIVE/MEMBER. */
L3A_PUBLIC const char *l3a_dataset_path(const l3a_dataset *dataset, size_t row);
/* The path of the tar file that a picture is in, and which of its bytes are the picture; NULL: it has a file of its own. offset and
 * bytes may be NULL: not wanted. Since 0.11. */
L3A_PUBLIC const char *l3a_dataset_archive(const l3a_dataset *dataset, size_t row, uint64_t *offset, uint64_t *bytes);
/* Reads the picture of a row, wherever it is, as l3a_picture_read() does. NULL options: the defaults. Since 0.11. */
L3A_PUBLIC l3a_status l3a_dataset_picture(const l3a_dataset *dataset, size_t row, const l3a_picture_options *options,
                                          l3a_picture *picture);
/* Number of picture-class pairs on which the data set contradicts itself (VOC: annotations against the lists of each class). */
L3A_PUBLIC size_t l3a_dataset_disagreements(const l3a_dataset *dataset);

/* ---- Backbones ------------------------------------------------------------------------------------------------------
 * Frozen networks read from a checkpoint: .safetensors, or .pth, .pt and .bin in both formats that PyTorch has used; since 0.14,
 * also a folder with one, and the index of a checkpoint in several files. The network is recognised by the names and shapes of its
 * tensors; docs/backbones.md lists the networks and namings. What tensors do not show (heads, mean and deviation, the activation)
 * comes from the options, from a configuration beside the file, from its metadata, or from what is usual if that is certain, in
 * this order. If none says it, that is L3A_ERROR_MISMATCH, and the hint names what to give; a model that was learned by an earlier
 * version keeps what that version took for granted. Nothing in a checkpoint is ever executed. */
typedef struct l3a_backbone l3a_backbone;

typedef enum l3a_pool {
    L3A_POOL_DEFAULT,
    L3A_POOL_CLS,       /* the class token */
    L3A_POOL_MEAN,      /* the mean of the patches */
    L3A_POOL_CLS_MEAN,  /* one after the other */
    L3A_POOL_MAX,       /* the largest value of each channel over the patches; since 0.14 */
    L3A_POOL_MAP,       /* what the network's own attention pooling gives (SigLIP); since 0.14 */
    L3A_POOL_PROJECTION /* the class token after the network's projection (CLIP); since 0.14 */
} l3a_pool;

/* What a vision transformer applies between the two linear layers of a block. Since 0.14. */
typedef enum l3a_activation {
    L3A_ACTIVATION_DEFAULT,
    L3A_ACTIVATION_GELU,
    L3A_ACTIVATION_QUICK_GELU, /* x σ(1.702 x), as in OpenAI's CLIP */
    L3A_ACTIVATION_TANH_GELU   /* GELU with its approximation by tanh, as in SigLIP */
} l3a_activation;

/* In which numbers a network is computed; sums are float32 in any case. Since 0.14. */
typedef enum l3a_network_precision {
    L3A_NETWORK_FLOAT32,
    L3A_NETWORK_BF16,
    L3A_NETWORK_FLOAT16, /* since 0.15 */
    L3A_NETWORK_USUAL /* of what is not recorded yet: float16 if the context's device computes networks and can, otherwise float32.
                       * Since 0.15 */
} l3a_network_precision;

typedef struct l3a_backbone_options {
    size_t size;                 /* sizeof the struct */
    l3a_pool pool;               /* which numbers of a ViT are the features; by default the class token, if it has one */
    size_t side;                 /* of the pictures; 0: the network's own (224) */
    float mean[3], deviation[3]; /* all 0: those the network was trained with */
    l3a_filter filter;           /* how pictures are resized */
    /* Since 0.14. 0: what the configuration beside the checkpoint says, or what is usual for the network. */
    size_t heads;                    /* of a ViT */
    size_t layer;                    /* how many blocks of a ViT are computed; 0: all */
    l3a_activation activation;       /* of a ViT */
    l3a_network_precision precision; /* what cannot be computed in here is computed in float32, after a warning */
    double epsilon;                  /* of the norms */
    double crop;      /* the share of the shorter side that is cut out of the middle of a picture; 0: the whole picture,
                         squashed to a square */
    int published;    /* 1: crop and filter as the configuration beside the checkpoint says */
    int stride_first; /* 1: a ResNet's blocks have their stride in the first 1 x 1 convolution, as in Caffe and Keras */
    int offset;       /* 1: positions for another size are interpolated as DINOv2 does */
    int crop_rules;   /* how the middle is cut out: a sum of l3a_crop_rule */
} l3a_backbone_options;

typedef struct l3a_backbone_info {
    const char *family; /* "vit", "resnet", "tresnet", "convnext" */
    char name[64];      /* "resnet50", "tresnet_m", "vit_tiny_patch16_224", "vit, width 64, depth 2, heads 1, patch 4" */
    size_t size, width; /* side of a picture, numbers per feature row */
    uint64_t parameters;
    double flops; /* multiplications and additions per picture */
    float mean[3], deviation[3];
    l3a_filter filter;
    const char *pool;     /* "cls", "mean", "cls+mean", "average" */
    char preprocess[128]; /* "rgb 224x224 bilinear mean 0.5 std 0.5": what feature files record */
    char sha256[65];      /* of the checkpoint file */
    const char *engine;   /* "onednn" or "blas"; on a GPU, "cuda" */
    /* Since 0.14. */
    size_t heads, layer;    /* of a ViT: heads of a block; blocks that are computed, 0: all */
    const char *activation; /* of a ViT: "gelu", "quick_gelu", "tanh_gelu"; otherwise NULL */
    double epsilon;         /* of the norms */
    double crop;            /* 0: pictures are squashed */
    int crop_rules;
    l3a_network_precision precision; /* what was asked for; for L3A_NETWORK_USUAL, what that was */
    l3a_network_precision computed;  /* what is computed in */
    char network[96];  /* what is not usual: "heads 16, quick_gelu, epsilon 1e-05, layer 11, bf16"; often empty. Feature files
                          record it as `network` */
    char decided[256]; /* where heads, mean and so on come from: "mean from config.json; heads, activation as usual" */
    char skipped[256]; /* tensors of the file that are not part of the network: "text_model (196 tensors), logit_scale" */
    size_t batch;      /* how many pictures are best computed at a time: 16 on the processor, hundreds on a GPU. Since 0.15 */
} l3a_backbone_info;

/* What computes networks in this build and on this machine's processor: "onednn" or "blas", which is slower. Since 0.7. */
L3A_PUBLIC const char *l3a_backbone_engine(void);
/* NULL options: the defaults. */
L3A_PUBLIC l3a_status l3a_backbone_open(l3a_context *context, const char *path, const l3a_backbone_options *options,
                                        l3a_backbone **backbone);
L3A_PUBLIC void l3a_backbone_free(l3a_backbone *backbone);
L3A_PUBLIC const l3a_backbone_info *l3a_backbone_describe(const l3a_backbone *backbone);
/* Computes features [count x width] of pictures [count x 3 x size x size]. The pictures must be scaled and centred as the info
 * says; l3a_loader does that. pictures and features may be NULL if count is 0. */
L3A_PUBLIC l3a_status l3a_backbone_run(l3a_backbone *backbone, const float *pictures, size_t count, float *features);

/* ---- Extraction -----------------------------------------------------------------------------------------------------
 * From the pictures of a data set to a feature file. Finished batches are kept in PATH.part, so that the same call resumes an
 * interrupted extraction: only batches that are missing, or in which a picture has changed since, are extracted. PATH.part is
 * removed once the feature file is written. A file of that name that the library did not make is L3A_ERROR_EXISTS and is left as it
 * is. */
typedef struct l3a_extract_options {
    size_t size; /* sizeof the struct */
    int half;    /* 1: features as float16; 0: float32 */
    int strict;  /* 1: stop at a picture that cannot be read; 0: skip it and list it in the file's record `bad` */
    const l3a_picture_options *picture; /* NULL: the defaults */
    size_t views;                       /* 1, 5, 9 or 14; 0: 1. Since 0.4 */
    size_t shard,
        shards; /* extract only shard number `shard`, from 1, of so many; 0: all pictures. l3a_features_merge() joins the
                 * files. Shards are runs of whole batches, in the order of the data set, whose numbers of batches differ by
                 * at most one; with more shards than batches, some are empty. A batch has 16 pictures and, on a
                 * GPU, as many as l3a_backbone_info says. Since 0.6 */
} l3a_extract_options;

typedef struct l3a_extract_report {
    size_t size;    /* sizeof the struct */
    size_t rows;    /* in the feature file */
    size_t bad;     /* pictures skipped */
    size_t resumed; /* pictures taken over from an earlier extraction */
    double seconds;
    size_t cached; /* 1: l3a_extract_cached() has found the features, and nothing was extracted. Since 0.16 */
} l3a_extract_report;

/* NULL options: the defaults; NULL report: not wanted. */
L3A_PUBLIC l3a_status l3a_extract(l3a_context *context, l3a_backbone *backbone, l3a_dataset *dataset,
                                  const l3a_extract_options *options, const char *path, l3a_extract_report *report);
/* Sets the records that feature files of this backbone have in a table: backbone, sha256, preprocess, pool. orient is that of
 * l3a_picture_options. */
L3A_PUBLIC l3a_status l3a_backbone_sign(const l3a_backbone *backbone, int orient, l3a_features *features);

/* ---- Files and machine ---------------------------------------------------------------------------------------------- */
typedef struct l3a_file l3a_file;

typedef struct l3a_tensor_info {
    size_t size; /* sizeof the struct */
    const char *name;
    const char *type; /* "F32" */
    size_t rank;
    uint64_t shape[8];
    uint64_t bytes;
    int verified; /* 1: it has a checksum, and the checksum is right */
} l3a_tensor_info;

/* Opens a file of any format that this library reads, and verifies its checksums. */
L3A_PUBLIC l3a_status l3a_file_open(l3a_context *context, const char *path, l3a_file **file);
/* What l3a_file_kind() would say, from the first bytes alone. The text is never freed. Since 0.6. */
L3A_PUBLIC l3a_status l3a_file_recognise(l3a_context *context, const char *path, const char **kind);
L3A_PUBLIC void l3a_file_free(l3a_file *file);
/* "model", "features", "safetensors", "npy", "checkpoint", since 0.3 "packed" */
L3A_PUBLIC const char *l3a_file_kind(const l3a_file *file);
/* In bytes. */
L3A_PUBLIC uint64_t l3a_file_size(const l3a_file *file);
/* Metadata strings, in the file's order; both NULL past the last. */
L3A_PUBLIC void l3a_file_record(const l3a_file *file, size_t index, const char **key, const char **value);
/* Returns 1 and fills info, whose strings belong to the file; 0 past the last, or if the size in info is not set. */
L3A_PUBLIC int l3a_file_tensor(const l3a_file *file, size_t index, l3a_tensor_info *info);

/* Writes a file atomically: whatever happens, the path holds the complete new file or what it held before. bytes may be NULL if
 * count is 0. Since 0.3. */
L3A_PUBLIC l3a_status l3a_file_write(l3a_context *context, const char *path, const void *bytes, size_t count);

/* The same for a file that is written piece by piece, and need not be in memory. Nothing is at the path before the commit, and what
 * was there stays until then. An output holds the path's lock, unless its context does already. Since 0.11. */
typedef struct l3a_output l3a_output;
L3A_PUBLIC l3a_status l3a_output_open(l3a_context *context, const char *path, l3a_output **output);
/* Adds bytes to the end. bytes may be NULL if count is 0. Since 0.11. */
L3A_PUBLIC l3a_status l3a_output_write(l3a_output *output, const void *bytes, size_t count);
/* Puts the file in its place, and frees the lock. Nothing can be written afterwards: L3A_ERROR_STATE. Since 0.11. */
L3A_PUBLIC l3a_status l3a_output_commit(l3a_output *output);
/* Without a commit, what was written is removed. Since 0.11. */
L3A_PUBLIC void l3a_output_free(l3a_output *output);

typedef struct l3a_machine {
    size_t size; /* sizeof the struct */
    char processor[96];
    char instructions[96];
    char blas[160];
    char better_kernels[32]; /* if not "": the matrix library runs slow kernels; OPENBLAS_CORETYPE set to this would be faster */
    char compiler[64];
    int processors, threads;
    uint64_t memory_total, memory_available; /* bytes, within the limits set for this process */
} l3a_machine;

L3A_PUBLIC l3a_status l3a_machine_query(l3a_context *context, l3a_machine *machine);

/* ---- Experimental ---------------------------------------------------------------------------------------------------
 * What may change with any version. Define L3A_EXPERIMENTAL before including this header to see it. */
#ifdef L3A_EXPERIMENTAL

/* Tagging in steps, for programs that gather pictures from many places into batches: prepare each picture, compute the
 * features of many at a time, and score them. Readers of one tagger may share the steps: one can compute what others prepared. */
/* Numbers that a prepared picture has, and numbers of its features; those of all views. 0 for NULL. Since 0.8. */
L3A_PUBLIC size_t l3a_reader_inputs(const l3a_reader *reader);
L3A_PUBLIC size_t l3a_reader_width(const l3a_reader *reader);
/* From now on the reader refuses pictures with more pixels than this with L3A_ERROR_DATA, before it decodes them; 0: with more than
 * the tagger's picture options allow, which hold in any case. So a program can have large pictures decoded elsewhere. Since 0.9. */
L3A_PUBLIC l3a_status l3a_reader_limit(l3a_reader *reader, uint64_t pixels);
/* Decodes a picture and turns it into the backbone's input [l3a_reader_inputs()]. *checksum is what histories know it by. bytes may
 * be NULL if count is 0. Since 0.8. */
L3A_PUBLIC l3a_status l3a_reader_prepare(l3a_reader *reader, const char *name, const void *bytes, size_t count, float *input,
                                         uint64_t *checksum);
/* The same of pixels in memory, such as a part of a picture. Since 0.13. */
L3A_PUBLIC l3a_status l3a_reader_prepare_pixels(l3a_reader *reader, const l3a_picture *picture, float *input);
/* Computes features [pictures x l3a_reader_width()] of inputs [pictures x l3a_reader_inputs()]. Since 0.8. */
L3A_PUBLIC l3a_status l3a_reader_compute(l3a_reader *reader, const float *inputs, size_t pictures, float *features);
/* Tags pictures by their features, all with the same model. The callback is that of l3a_reader_tag_files(). Since 0.8. */
L3A_PUBLIC l3a_status l3a_reader_score(l3a_reader *reader, const float *features, size_t pictures, l3a_tags_callback *on_tags,
                                       void *user);
/* The same by features that a reader of the tagger has computed, and the checksum that it gave. count: l3a_reader_width(). A tagger
 * that does not take them (l3a_tagger_takes_features) refuses the lesson with L3A_ERROR_MISMATCH. Since 0.8. */
L3A_PUBLIC l3a_status l3a_lesson_add_features(l3a_lesson *lesson, const char *name, uint64_t checksum, const float *features,
                                              size_t count, const l3a_judgement *judgement);
/* 1 if pictures can be taught by the features that readers compute, 0 if not: the model learns views (setting `views`) that are not
 * among those that readers score (`score-views`). 1 view is among any, and those of 5 and of 9 are among 14. Since 0.8. */
L3A_PUBLIC int l3a_tagger_takes_features(l3a_tagger *tagger);

/* What to expect of each class when the model tags pictures like those in its history, of which a share, the background, shows none
 * of its classes. One number per class, in percent; NaN if there are too few pictures to tell.
 *
 * Recall is how much of what is shown gets its class: each picture is scored as if it had not been taught (l3a_model_leave_out).
 * Precision is how many of the classes given are right. It depends on the background most of all: background has the shares that
 * are asked for, from 0 to below 1, and precision [count x classes] an answer for each. What happens to background is estimated
 * from pictures of each class, as a model sees them that was never taught it (l3a_model_leave_out_classes), from how close pictures
 * come to classes that they do not show, and from the pictures that were taught as showing none of the classes (docs/teaching.md).
 *
 * shown gets the number of pictures that show the class, judged of those that were judged for it. confusions [classes x classes]
 * gets, for the pictures of class i, how many were judged not to show class j and are nevertheless tagged with it when they are
 * scored as if they had not been taught; NULL: not wanted. Sends progress events, which can cancel. Since 0.9. */
L3A_PUBLIC l3a_status l3a_history_foresee(const l3a_history *history, const double *background, size_t count, double *precision,
                                          double *recall, uint64_t *shown, uint64_t *judged, uint64_t *confusions);
/* The same for the pictures of a library, whose features are given (l3a_tagger_library): precision and recall of each class there,
 * in percent, NaN if too few pictures were taught to tell, and how many of these pictures get the class. How scores fall off in the
 * library tells the precision (docs/teaching.md). precision and recall may be NULL: not wanted. Since 0.12. */
L3A_PUBLIC l3a_status l3a_history_foresee_in(const l3a_history *history, l3a_features *library, double *precision, double *recall,
                                             uint64_t *tagged);
/* Reads the features of all pictures into memory, so that the functions above need no file any more. If a history was opened with a
 * context of its own, another thread can then ask it, while this one teaches and saves the same model. Since 0.8. */
L3A_PUBLIC l3a_status l3a_history_load(l3a_history *history);

/* A picture that the model was taught, and that was not taken back. labels has one number per class of the model: 1 shown, 0 not
 * shown, -1 not judged. complete: it was judged for all classes that the model knew then. To stop, return non-zero. Since 0.8. */
typedef int l3a_taught_callback(const char *path, uint64_t checksum, const int8_t *labels, int complete, void *user);
/* Calls back for each of them, in the order in which they were taught. If the callback stops it, returns L3A_ERROR_CANCELLED. Since
 * 0.8. */
L3A_PUBLIC l3a_status l3a_history_pictures(const l3a_history *history, l3a_taught_callback *each, void *user);
/* The same for the picture with this checksum, if the model knows it. It takes no longer with a long history. Since 0.9. */
L3A_PUBLIC l3a_status l3a_history_find(const l3a_history *history, uint64_t checksum, l3a_taught_callback *each, void *user);
/* A picture that an entry taught. labels and complete are those of l3a_taught_callback. held: 1 if the model still knows it as this
 * entry taught it. To stop, return non-zero. Since 0.13. */
typedef int l3a_lesson_callback(const char *path, uint64_t checksum, const int8_t *labels, int complete, int held, void *user);
/* Calls back for the pictures that an entry taught. If the callback stops it, returns L3A_ERROR_CANCELLED. Since 0.13. */
L3A_PUBLIC l3a_status l3a_history_lesson(const l3a_history *history, size_t entry, l3a_lesson_callback *each, void *user);
/* How many of them the model still knows as the entry taught them. Since 0.13. */
L3A_PUBLIC size_t l3a_history_held(const l3a_history *history, size_t entry);
/* The checksums of the pictures that an entry took back and of those that it taught: fills checksums with the first `capacity` of
 * them, and returns how many there are. checksums may be NULL. Since 0.9. */
L3A_PUBLIC size_t l3a_history_checksums(const l3a_history *history, size_t entry, uint64_t *checksums, size_t capacity);

/* Computes scores [rows x classes of the model] that each row would have in a model that was not taught this row. The table has the
 * features and labels with which the rows were taught. */
L3A_PUBLIC l3a_status l3a_model_leave_out(l3a_model *model, l3a_features *features, float *scores);
/* What a model does with pictures of something that it was never taught. Each class in turn is left out with all its images: which
 * share of them would a model that never had the class tag with each of the others? shares gets one number per class, from 0 to 1:
 * the mean over the classes that were left out; NaN if there is none, as in a model of one or two classes. An image counts if it
 * shows nothing else that the model knows, and was judged not to show the other class. The table is that of l3a_model_leave_out();
 * a class is left out only if all its images are in it, and if they are at most about 1,000 (fewer with views). If there are more
 * such classes than fit into 128 MiB, or they have more than 4,096 rows, some are chosen by the model's seed. Since 0.9. */
L3A_PUBLIC l3a_status l3a_model_leave_out_classes(l3a_model *model, l3a_features *features, double *shares);

/* Copies rows [first, first + count) of the symmetric matrix that the model keeps to rows [count x inputs]: the inverse
 * R = (A + gamma I)^-1 if l3a_model_is_inverse(), else the sum A, over all phases if they are kept apart. */
L3A_PUBLIC l3a_status l3a_model_matrix(const l3a_model *model, size_t first, size_t count, double *rows);
L3A_PUBLIC int l3a_model_is_inverse(const l3a_model *model);
/* The sum C [inputs x classes]; NULL before the first phase. */
L3A_PUBLIC const double *l3a_model_cross(const l3a_model *model);

/* The text of a new sidecar with these tags, cut to capacity; *length is that of the whole text. tags may be NULL if count is 0,
 * text if capacity is 0. Since 0.8. */
L3A_PUBLIC l3a_status l3a_sidecar_text(l3a_context *context, const char *const *tags, size_t count, char *text, size_t capacity,
                                       size_t *length);

/* Drawn data sets: pictures to try things out with: 160 x 160 pixels, each showing one to five things of 24 classes on a cluttered
 * background. Every fourth class is 20 times rarer than the others, and some classes nearly always appear together. */
typedef struct l3a_draw_options {
    size_t size;           /* sizeof the struct */
    uint64_t seed;         /* the same seed gives the same bytes; 0: 1 */
    size_t training, test; /* number of pictures in the splits "trainval" and "test"; both 0: 2400 and 1200 */
    const char *always;    /* a class that every picture shows; NULL: none. "umbrella" is drawn only if it is named here. */
} l3a_draw_options;

/* The 24 classes in lexicographic order, then the one that is drawn only on request; NULL past it. */
L3A_PUBLIC const char *l3a_draw_class(size_t index);
/* Creates the folder with VOC2007/ in it, which voc:FOLDER then opens. NULL options: the defaults. If the call fails, the folder
 * may hold an incomplete data set. */
L3A_PUBLIC l3a_status l3a_draw_dataset(l3a_context *context, const l3a_draw_options *options, const char *folder);

/* Processes that mpirun or srun started together. They join by the plug-in libl3a-mpi.so, which is looked for next to the library
 * or in the folder L3A_PLUGIN_PATH. A program that has an MPI communicator does not need this: see examples/mpi.c. Since 0.6. */
typedef struct l3a_cluster l3a_cluster;
/* How many processes were started together, as the environment says, and the number of this one. 1: this process is alone, or the
 * environment variable L3A_ALONE is set, for processes that have nothing to do with each other. 0: there may be several, and only
 * l3a_cluster_open() can tell. */
L3A_PUBLIC size_t l3a_cluster_started(size_t *process);
/* Joins the processes that were started with this one, which all call this, once. A process that is alone makes a cluster of one,
 * without the plug-in. The context holds the error text, and must outlive the cluster. */
L3A_PUBLIC l3a_status l3a_cluster_open(l3a_context *context, l3a_cluster **cluster);
/* How many of the processes are on this machine, with this one. Since 0.11. */
L3A_PUBLIC size_t l3a_cluster_locals(const l3a_cluster *cluster);
/* Sets what a context needs to work with the others, if there are any: sum, sum_user, process, processes, divide, lead_threads.
 * threads and memory_limit, if they are 0, become this process's share of what the processes on one machine have, and the device
 * "cuda" becomes one of its own, as far as there are enough. While the context waits for other processes, its on_event gets
 * progress events of the stage "share", and can cancel. Free the context before the cluster. */
L3A_PUBLIC l3a_status l3a_cluster_join(l3a_cluster *cluster, l3a_context_options *options);
/* Says that this process has done its work, or failed. Then waits for the others; after a failure, for two seconds at most. Returns
 * the lowest number of a process that failed; the number of processes if none did; or -1 if others are still at work. */
L3A_PUBLIC int l3a_cluster_end(l3a_cluster *cluster, int failed);
/* Ends all processes immediately, with that exit code. Returns only if there is no other process. */
L3A_PUBLIC void l3a_cluster_abort(l3a_cluster *cluster, int code);
/* Leaves the cluster, after l3a_cluster_end(). No process can join a second time. */
L3A_PUBLIC void l3a_cluster_free(l3a_cluster *cluster);

/* Whether a plug-in can be loaded: "mpi" for several processes, "figure" for figures in PDF and PNG. If it cannot, the context's
 * text says why, and the hint what to install. l3a_device_describe() does the same for devices. Since 0.11. */
L3A_PUBLIC l3a_status l3a_plugin_check(l3a_context *context, const char *name);

/* Measures the floating-point operations per second of a matrix product; takes about a tenth of a second. */
L3A_PUBLIC l3a_status l3a_machine_speed(l3a_context *context, double *single_precision, double *double_precision);
/* The same for the context's device, with the operations that learning consists of: expanding features in single precision, and
 * adding rows to the sums in double precision. Takes a few hundred MiB of its memory. Since 0.5. */
L3A_PUBLIC l3a_status l3a_device_speed(l3a_context *context, double *single, double *exact);

/* The random numbers of this library: number `index`, from 0, of the stream that starts at seed, uniform in [0, 1). It is the top
 * 24 bits of splitmix64's output. */
L3A_PUBLIC double l3a_uniform(uint64_t seed, uint64_t index);

/* A library that remembers: the pictures below some folders, with their features, what was said about them, and what the model says
 * of them, in an index beside the model, MODEL.library and MODEL.library.features-N (docs/library.md). No model depends on it. A
 * picture is looked at once; after a lesson, all are scored again from their features. Since 0.13.
 *
 * The steps are to scan the folders, to look at pictures that are new, to score, and to find. Each can be repeated, interrupted and
 * killed. Several processes and threads may use one index, each with a library of its own. A library may have another context than
 * its tagger, and be used by another thread than the tagger's writer; the tagger must outlive it. */
typedef struct l3a_library l3a_library;
typedef struct l3a_found l3a_found;

typedef struct l3a_library_options {
    size_t size;
    const char *index;  /* path of the index; NULL: that of the model, with ".library" */
    int existing;       /* 1: L3A_ERROR_NOT_FOUND if there is none yet */
    int check;          /* 1: also checks all of it for damage, which takes a second or two per million pictures */
    int keep;           /* 1: L3A_ERROR_MISMATCH rather than replacing features of another network, or views asked for by name */
    const char *folder; /* absolute: only the pictures in this folder and below it are found, counted and told of; NULL: all. What
                         * is scanned, looked at and scored does not depend on it */
} l3a_library_options;

/* Opens or makes an index. One that is damaged is renamed to PATH.damaged-N, with a warning, and made again; but a file that
 * `index` names and that is something else is L3A_ERROR_FORMAT. Features that are missing, damaged or of another network are
 * replaced; those of other views only if the tagger's options name its views, or else that is L3A_ERROR_MISMATCH. So is an
 * index that belongs to another model, which is still there: tags and scores are those of one. A call that meets
 * damage later fails with L3A_ERROR_CHECKSUM; then open the library again with `check`, without `existing`. Pictures are looked at
 * as l3a_reader_tag_file() of the tagger does. NULL options: the defaults. Since 0.13. */
L3A_PUBLIC l3a_status l3a_library_open(l3a_context *context, l3a_tagger *tagger, const l3a_library_options *options,
                                       l3a_library **library);
L3A_PUBLIC void l3a_library_free(l3a_library *library);
/* The views of the pictures in the index of this path, for the options of the tagger to open it with; 0: there is none, or it has
 * no features. Since 0.14. */
L3A_PUBLIC l3a_status l3a_library_views(l3a_context *context, const char *index, size_t *views);
/* Adds a folder, with all below it; one that is below another is there already. Its pictures come with the next scan. Since 0.13.
 */
L3A_PUBLIC l3a_status l3a_library_add(l3a_library *library, const char *folder);
/* Takes a folder and its pictures out of the index. Since 0.13. */
L3A_PUBLIC l3a_status l3a_library_remove(l3a_library *library, const char *folder);
/* The folders, and why one is not there ("" if it is); NULL past the last. Valid until the next call. problem may be NULL. Since
 * 0.13. */
L3A_PUBLIC const char *l3a_library_folder(l3a_library *library, size_t index, const char **problem);

typedef struct l3a_scan_report {
    size_t size;
    uint64_t pictures; /* files that are or should be pictures, in folders that are there; videos and RAW files are among them */
    uint64_t added, changed, gone;
    uint64_t away;       /* folders of the library that are missing or empty; their pictures stay in the index */
    uint64_t unreadable; /* folders that cannot be listed; a warning names each */
} l3a_scan_report;

/* Compares the folders with the index: names, sizes and times. NULL report: not wanted. Since 0.13. */
L3A_PUBLIC l3a_status l3a_library_scan(l3a_library *library, l3a_scan_report *report);

typedef struct l3a_look_options {
    size_t size;
    uint64_t most;        /* pictures to look at in this call; 0: all */
    size_t shard, shards; /* only every shards-th picture, from number `shard` on, which counts from 1; 0: all */
    int newest;           /* 1: first those that came into the index last */
    int no_heif; /* 1: HEIC and AVIF pictures fail; libheif, which decodes them, is not safe against hostile files. The next call
                  * without looks at them */
} l3a_look_options;

typedef struct l3a_look_report {
    size_t size;
    uint64_t looked;        /* went through the network */
    uint64_t known;         /* the index had the features of their content … */
    uint64_t moved, copies; /* … whose old place is gone, or is not */
    uint64_t failed;        /* cannot be read */
    uint64_t waiting;       /* still */
} l3a_look_report;

/* Looks at pictures that wait, with as many readers as the library's context has threads for each of the tagger's. Sends progress
 * events "look", which can cancel; what was looked at stays. NULL options: the defaults. NULL report: not wanted. Since 0.13. */
L3A_PUBLIC l3a_status l3a_library_look(l3a_library *library, const l3a_look_options *options, l3a_look_report *report);
/* Pictures that could not be read wait to be looked at again. *count is how many; NULL: not wanted. Since 0.13. */
L3A_PUBLIC l3a_status l3a_library_retry(l3a_library *library, uint64_t *count);

/* What was said about the picture with this checksum. */
typedef struct l3a_said {
    uint64_t checksum;
    const int8_t
        *labels; /* for each of the classes: 1 shown, 0 not shown, -1 not judged; NULL: nothing is said about it any more */
} l3a_said;

/* Takes over what was said. all: and forgets everything else. Since 0.13. */
L3A_PUBLIC l3a_status l3a_library_say(l3a_library *library, const l3a_said *said, size_t count, const char *const *classes,
                                      size_t class_count, int all);
/* The same as l3a_library_say() with all, from a history, which may be of another context: this is a call of the thread that uses
 * both. Since 0.13. */
L3A_PUBLIC l3a_status l3a_library_take_history(l3a_library *library, const l3a_history *history);
/* Called for a class that a picture was judged for. The name is valid during the call. To stop, return non-zero. Since 0.13. */
typedef int l3a_judged_callback(const char *class_name, int shown, void *user);
/* Calls back for each class that this picture was judged for, in the order of their names. Since 0.13. */
L3A_PUBLIC l3a_status l3a_library_judged(l3a_library *library, uint64_t id, l3a_judged_callback *each, void *user);
/* A text that a program keeps in the index by a name of its own, such as what it last read the history from. *text is "" if there
 * is none, and valid until the next call with this library. Since 0.13. */
L3A_PUBLIC l3a_status l3a_library_set_note(l3a_library *library, const char *name, const char *text);
L3A_PUBLIC l3a_status l3a_library_note(l3a_library *library, const char *name, const char **text);
/* Scores pictures whose scores are not those of the tagger's readers now; at most about `most`, or all if that is 0. Follows
 * when the tagger learns meanwhile. Sends progress events "score". *scored may be NULL. Since 0.13. */
L3A_PUBLIC l3a_status l3a_library_score(l3a_library *library, uint64_t most, uint64_t *scored);

typedef struct l3a_library_info {
    size_t size;
    uint64_t pictures, done, waiting, failed, others; /* others: videos, RAW files */
    uint64_t scored;                                  /* pictures that have scores of the tagger's readers now */
    uint64_t said, untagged, unsure; /* pictures that were judged; that were not, and have no tag; that are in doubt */
    uint64_t change;                 /* another number: something has changed */
    uint64_t bytes;                  /* of the index */
    size_t views;
    uint64_t tagged; /* that were not judged, and have a tag */
} l3a_library_info;

L3A_PUBLIC l3a_status l3a_library_describe(l3a_library *library, l3a_library_info *info);

/* The number `change` of l3a_library_info alone, in no time. Since 0.13. */
L3A_PUBLIC l3a_status l3a_library_change(l3a_library *library, uint64_t *change);

/* Of each class: how many pictures were said to show it, and for how many more it is predicted. */
L3A_PUBLIC l3a_status l3a_library_count(l3a_library *library, const char *class_name, uint64_t *said, uint64_t *predicted);

/* What to find. */
typedef struct l3a_find_options {
    size_t size;
    const char *where;    /* "dog and not (cat or horse) since:2024-01"; NULL or "": all pictures (docs/library.md) */
    const char *word;     /* order by what the network's own classifier knows of this word */
    const uint64_t *like; /* order by how close to these pictures, given by their ids */
    size_t like_count;
    const float *like_features; /* the same with features [like_rows x width] of other pictures */
    size_t like_rows;
    const char *sort; /* "score", "date", "name", "unsure", "novel"; NULL: as asked for by word or like, beside which only "score"
                       * can stand; or else by score if `where` names a tag, and by date if it does not */
    uint64_t most;    /* the first of them; 0: all */
} l3a_find_options;

/* Finds pictures. A wrong expression, an unknown tag or word is L3A_ERROR_ARGUMENT or L3A_ERROR_CLASS with a hint. Since 0.13. */
L3A_PUBLIC l3a_status l3a_library_find(l3a_library *library, const l3a_find_options *options, l3a_found **found);
L3A_PUBLIC void l3a_found_free(l3a_found *found);
L3A_PUBLIC size_t l3a_found_count(const l3a_found *found);
/* The id of a picture; 0 past the last. */
L3A_PUBLIC uint64_t l3a_found_id(const l3a_found *found, size_t index);
/* What it was ordered by: a score, a cosine, a probability, a doubt; NaN for dates and names. 0 past the last. */
L3A_PUBLIC double l3a_found_rank(const l3a_found *found, size_t index);
/* Whether the network's own classifier can be asked for words: *problem is "" if it can, and otherwise says why not. It belongs to
 * the library. Since 0.13. */
L3A_PUBLIC l3a_status l3a_library_words(l3a_library *library, const char **problem);
/* What the word means to such a classifier: fills names with the first `capacity` of its classes, and returns how many there are;
 * 0: it is unknown. The texts are static. names may be NULL if capacity is 0. Since 0.13. */
L3A_PUBLIC size_t l3a_word_classes(const char *word, const char **names, size_t capacity);
/* All its 1,000 classes, by the first of their words; NULL past the last. Since 0.13. */
L3A_PUBLIC const char *l3a_word_at(size_t index);
/* Where the words come from, and their licence. Since 0.13. */
L3A_PUBLIC const char *l3a_words_source(void);
/* Near-duplicates: groups of pictures that show the same. The pictures of a group follow each other, and l3a_found_rank() is the
 * number of the group, from 0. closeness: the least cosine, 0: 0.97. Since 0.13. */
L3A_PUBLIC l3a_status l3a_library_duplicates(l3a_library *library, double closeness, l3a_found **found);

/* A folder right below another one, with the number of pictures in it and below it, and of folders with pictures right below it. To
 * stop, return non-zero. Since 0.13. */
typedef int l3a_folder_callback(const char *path, uint64_t pictures, uint64_t folders, void *user);
/* Calls back for those that have pictures, in the order of their names. If the callback stops it, returns L3A_ERROR_CANCELLED.
 * Since 0.13. */
L3A_PUBLIC l3a_status l3a_library_folders(l3a_library *library, const char *folder, l3a_folder_callback *each, void *user);

typedef enum l3a_library_state {
    L3A_PICTURE_WAITING = 0,
    L3A_PICTURE_DONE = 1,
    L3A_PICTURE_FAILED = 2, /* it cannot be read */
    L3A_PICTURE_OTHER = 3   /* a video, a RAW file */
} l3a_library_state;

typedef struct l3a_library_picture {
    size_t size;
    uint64_t id;
    const char *path; /* absolute; valid until the next call, as `problem` is */
    l3a_library_state state;
    const char *problem; /* "" if there is none */
    uint64_t bytes;
    int64_t modified;  /* nanoseconds; 0: not certain */
    int64_t taken;     /* seconds, in the camera's own time; INT64_MIN: unknown */
    uint64_t checksum; /* 0: not known yet */
    uint64_t copies;   /* other pictures with the same bytes */
} l3a_library_picture;

/* L3A_ERROR_NOT_FOUND if there is no such picture, or none any more. */
L3A_PUBLIC l3a_status l3a_library_picture_at(l3a_library *library, uint64_t id, l3a_library_picture *picture);
/* The id of the picture at an absolute path. */
L3A_PUBLIC l3a_status l3a_library_picture_find(l3a_library *library, const char *path, uint64_t *id);
/* The id of a picture with this checksum; of several, any. */
L3A_PUBLIC l3a_status l3a_library_picture_known(l3a_library *library, uint64_t checksum, uint64_t *id);
/* The features of a picture [l3a_reader_width()]; L3A_ERROR_STATE if it was not looked at. */
L3A_PUBLIC l3a_status l3a_library_features(l3a_library *library, uint64_t id, float *features);
/* Features [at most `most` x l3a_reader_width()] and checksums of pictures spread evenly over the library. */
L3A_PUBLIC l3a_status l3a_library_sample(l3a_library *library, size_t most, float *features, uint64_t *checksums, size_t *count);

/* Notices changes in folders and in all below them: files that are new, changed, renamed or removed. The system tells of them where
 * it can; on network file systems, and beyond the system's limit, the folders are reported as changed every so often instead. A
 * file is reported when it has been closed. Folders may be missing, and are waited for. Open the watch before you read the folders,
 * so that nothing happens unseen in between. Since 0.13. */
typedef struct l3a_watch l3a_watch;
/* poll_seconds: how often folders of which the system does not tell are reported; 0: 2. Since 0.13. */
L3A_PUBLIC l3a_status l3a_watch_open(l3a_context *context, const char *const *folders, size_t count, double poll_seconds,
                                     l3a_watch **watch);
/* Waits for changes, at most so many seconds; 0: only says what has happened. Changes that follow each other quickly are reported
 * together. *changed: the folders are those of l3a_watch_folder(). *lost may be NULL; 1: the system has lost some changes, and all
 * folders are reported. What the program itself writes is reported as well. Since 0.13. */
L3A_PUBLIC l3a_status l3a_watch_next(l3a_watch *watch, double seconds, int *changed, int *lost);
/* The folders that the last call of l3a_watch_next() reports: absolute paths. NULL past the last. *below: all below it may have
 * changed, and the folder itself may be new, or gone; 0: only its own files. below may be NULL. Since 0.13. */
L3A_PUBLIC const char *l3a_watch_folder(const l3a_watch *watch, size_t index, int *below);
/* Whether this one of the given folders is looked at every so often because the system does not tell. Since 0.13. */
L3A_PUBLIC int l3a_watch_polls(const l3a_watch *watch, size_t index);
/* Ends l3a_watch_next(), now and from then on; for any thread. Since 0.13. */
L3A_PUBLIC void l3a_watch_stop(l3a_watch *watch);
/* No other thread may use the watch any more. Since 0.13. */
L3A_PUBLIC void l3a_watch_free(l3a_watch *watch);

/* A cache: a folder of feature files, which can be read like any others. Since 0.16.
 *
 * A file is used again if everything is as when it was extracted: the data set, its labels and the files of its pictures, by their
 * sizes and times; the network, its options, and the processor, threads or device that compute it; and the version of the library.
 * Otherwise it is extracted, and files that were not used for the longest time are removed to make room, but none that is in use.
 * What is damaged is extracted again. */
typedef struct l3a_cache_options {
    size_t size;        /* sizeof the struct */
    const char *folder; /* NULL: that of l3a_cache_folder(). It is created if it is missing */
    uint64_t limit;     /* bytes that its feature files may take together; 0: 20 GiB */
    uint64_t look_only; /* 1: nothing is extracted; what is not in the cache is NULL */
} l3a_cache_options;

/* The folder in which features are cached unless another one is named: the environment variable L3A_CACHE; otherwise l3a in
 * XDG_CACHE_HOME, which is usually ~/.cache. A path that does not fit is L3A_ERROR_ARGUMENT. Since 0.16. */
L3A_PUBLIC l3a_status l3a_cache_folder(l3a_context *context, char *text, size_t capacity);
/* How many files of a cache there are, and their bytes. A missing folder has none. Since 0.16. */
L3A_PUBLIC l3a_status l3a_cache_measure(l3a_context *context, const char *folder, uint64_t *files, uint64_t *bytes);
/* As l3a_extract(), to a file in a cache, which is then opened. If another process is extracting the same, waits for it. The table
 * keeps its file from being removed until it is freed. Shards are L3A_ERROR_ARGUMENT, and so is a context of processes that divide
 * rows. NULL options, cache: the defaults; NULL report: not wanted. Since 0.16. */
L3A_PUBLIC l3a_status l3a_extract_cached(l3a_context *context, l3a_backbone *backbone, l3a_dataset *dataset,
                                         const l3a_extract_options *options, const l3a_cache_options *cache,
                                         l3a_extract_report *report, l3a_features **features);
/* A table of these pictures without looking at any: ids, labels, members and records are those that l3a_extract() would write, and
 * the features are zeros. It is for planning an experiment, and for methods that look at pictures and not at features. The data set
 * must outlive the table. views 0: 1. orient: as in l3a_picture_options. Since 0.17. */
L3A_PUBLIC l3a_status l3a_features_blank(l3a_context *context, const l3a_backbone *backbone, const l3a_dataset *dataset,
                                         size_t views, int orient, l3a_features **features);
/* The splits that people learn from and measure on, as far as the kind of the data set says: trainval and test of VOC, train2014
 * and val2014 of COCO; otherwise both are "". Each text is cut to capacity. Since 0.16. */
L3A_PUBLIC l3a_status l3a_dataset_usual_splits(l3a_context *context, const char *name, char *train, char *test, size_t capacity);

/* ---- Training -------------------------------------------------------------------------------------------------------
 * Trains a backbone on the pictures of a data set, with a linear head on its features, and writes it as a checkpoint that
 * everything else can read (docs/training.md). Since 0.16.
 *
 * A recipe says what is not given. "norms" trains norms and all biases: 10 epochs of AdamW, with crops and flips. It suits a
 * pretrained network and some hundreds or thousands of pictures. "released" is what the paper's program does: one epoch of Adam on
 * everything, without augmentation.
 *
 * The same checkpoint, pictures, options, machine and number of threads give the same bytes, whether the training was interrupted
 * or not. */
typedef struct l3a_train_recipe {
    const char *name, *help;
} l3a_train_recipe;

/* The recipes, the one that is used by default first; NULL past the last. The table is static. Since 0.16. */
L3A_PUBLIC const l3a_train_recipe *l3a_train_recipe_at(size_t index);

/* An epoch that is done. */
typedef struct l3a_train_epoch {
    size_t epoch, epochs; /* its number, from 1, and of all */
    double loss;          /* its mean over the pictures, as they were shown */
    double mean_ap;       /* of the validation pictures afterwards, in percent; NaN: there are none */
    double seconds;       /* with validation */
    int best;             /* 1: no epoch before had a higher mean_ap */
    int resumed;          /* 1: an earlier call did it, whose state was found */
} l3a_train_epoch;

/* Called after each epoch on the thread that called l3a_train(), and at the start for those that an earlier call has done. */
typedef void l3a_train_epoch_callback(const l3a_train_epoch *epoch, void *user);

/* 0 and NULL: what the recipe says, unless a comment says otherwise. For numbers of which 0 makes sense, a number below 0 is 0. */
typedef struct l3a_train_options {
    size_t size;
    const char *recipe; /* NULL: "norms" */
    /* The network and its pictures. NULL: the defaults. `precision` is that of the products: float32 or, on devices that have it,
     * bfloat16; parameters and sums are float32. */
    const l3a_backbone_options *backbone;
    const l3a_picture_options *picture;
    /* What is trained: "all"; "norms": norms and all biases; "last:N": the last N blocks, with what comes after them; "head": the
     * head alone. The head is always trained. */
    const char *trained;
    /* The classes to learn; 0: all of the data set, from all its pictures. If they are listed, only pictures that belong to the
     * phase of one of them are shown (l3a_dataset_members()), and no label of another class is looked at. A picture that has no
     * known label of these classes is not shown. An unknown label, -1, has no gradient. */
    const char *const *classes;
    size_t class_count;
    uint64_t seed; /* of everything that is drawn; 0 is one, too */
    size_t epochs;
    size_t batch;          /* pictures in a step. The last batch of an epoch may be smaller */
    double rate;           /* the highest of the schedule */
    double head_rate;      /* the same for the head */
    const char *schedule;  /* "one-cycle": up for a fifth of the steps, from rate / 25, and down to rate / 250000, as half cosines;
                            * "cosine": down to 0; "constant" */
    const char *optimiser; /* "adam", "adamw", "sgd" */
    double momentum;       /* of the gradient. 0: 0.9 or, with one-cycle, from 0.95 to 0.85 and back */
    double decay;          /* of tensors with more than one dimension, the head's too. Adam and SGD add decay times the value to the
                            * gradient, AdamW takes rate times decay times the value from the value */
    double clip;           /* the largest norm of the gradient of all that is trained; 0, below 0: no limit */
    const char *loss;      /* "asl": asymmetric, summed over pictures and classes; "bce": binary cross-entropy */
    double least_area, most_area; /* of a crop, whose sides keep the picture's shape within 3/4 and 4/3: shares of the picture's
                                   * area. least_area below 0: no crops */
    int flip;                     /* 1: every other picture is mirrored, at random; below 0: none */
    double cutout;                /* the side of a square that is painted over in one colour, as a share of the picture's side */
    /* Validation pictures: if none are given, a share of the training pictures, which are then not trained on. The recipe "norms"
     * says 0.1, and "released" none. Fewer than 10 pictures are never held back. */
    double validation_share;
    int keep_last; /* 1: the last epoch is written; 0: the one with the highest validation mAP, if there are validation pictures */
    uint64_t memory; /* bytes that training may take, on a device of its memory; if they do not suffice to keep all values of a
                      * batch, some are computed twice; 0: the context's limit */
    /* The state: all that is needed to go on after an interruption. It is written after each epoch, when the call is cancelled, and
     * every so many seconds, and removed when the checkpoint is written. */
    const char *state;   /* its path; NULL: that of the checkpoint, with ".training" */
    double save_seconds; /* 0: 300; below 0: only after epochs and when the call is cancelled */
    int resume;          /* 1: goes on from the state, if there is one. That of other options, pictures or another network is
                          * L3A_ERROR_MISMATCH. 0: a state that is there is L3A_ERROR_EXISTS */
    const char *command; /* recorded in the checkpoint; NULL: none */
    l3a_train_epoch_callback *on_epoch; /* NULL: not wanted */
    void *epoch_user;
} l3a_train_options;

typedef struct l3a_train_plan {
    size_t size;
    uint64_t memory;     /* bytes at the peak, on a device of its memory */
    int recomputes;      /* 1: there is no memory to keep all values, so some are computed twice */
    uint64_t parameters; /* of the network … */
    uint64_t trained;    /* … of which these are trained, besides those of the head */
    size_t pictures;     /* that are trained on */
    size_t held;         /* validation pictures */
    size_t classes;
    uint64_t steps;     /* in all */
    uint64_t shown;     /* pictures in all, with those of validation */
    char settings[512]; /* "recipe norms: norms and biases, 10 epochs of batches of 64, adamw 0.001 (head 0.01), …" */
} l3a_train_plan;

/* Says what l3a_train() with the same arguments would do. Opens no picture. validation may be NULL: none. NULL options: the
 * defaults. Since 0.16. */
L3A_PUBLIC l3a_status l3a_train_prepare(l3a_context *context, const char *checkpoint, const l3a_dataset *train,
                                        const l3a_dataset *validation, const l3a_train_options *options, l3a_train_plan *plan);

typedef struct l3a_train_report {
    size_t size;
    size_t epochs;  /* done in all … */
    size_t resumed; /* … of which earlier calls did so many */
    size_t kept;    /* the epoch that was written, from 1 */
    uint64_t steps; /* in all */
    double mean_ap; /* of the epoch that was written; NaN: there are no validation pictures */
    double loss;    /* of the last epoch */
    double seconds; /* of this call */
    double speed;   /* pictures a second in the steps of this call, with waiting for them; 0: it made no step */
    double waited;  /* seconds in which steps waited for pictures */
    int recomputed; /* 1: for lack of memory, some values were computed twice */
} l3a_train_report;

/* Trains, and writes the checkpoint to `path`: safetensors in float32 with the names that the network came with, statistics of
 * batch norms, the head, and in its metadata how it was trained. Sends progress events "train", in pictures of the steps, and
 * "validate"; both can cancel, and the state is then written. `path` must not be that of the given checkpoint. validation may be
 * NULL: none. NULL options: the defaults. NULL report: not wanted.
 *
 * A loss or a gradient that is not finite is L3A_ERROR_NUMERIC: the text names the step and its pictures, and no state is written.
 * A picture that cannot be read is an error, too. After a failure, the last state that was written stays. Since 0.16. */
L3A_PUBLIC l3a_status l3a_train(l3a_context *context, const char *checkpoint, const l3a_dataset *train,
                                const l3a_dataset *validation, const l3a_train_options *options, const char *path,
                                l3a_train_report *report);

#endif /* L3A_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif

#endif
