/* The context: what all objects share, and the one place where errors are recorded.
 */
#ifndef L3A_CONTEXT_H
#define L3A_CONTEXT_H

#include "common/try.h"
#include "l3a/l3a.h"

#include <stdarg.h>
#include <stdbool.h>

struct file_operations;
struct algebra;
struct l3a_plugin;
struct cluster_plugin;

/* The seconds that each stage has taken since `count` was last set to 0. */
enum { STAGE_LIMIT = 16 };
struct stages {
    struct {
        const char *name;
        double seconds;
    } items[STAGE_LIMIT];
    size_t count;
};

struct l3a_context {
    l3a_context_options options;
    int threads;
    const struct file_operations *files;
    const struct algebra *algebra;        /* the back end of the sums; NULL: the processor */
    const struct l3a_plugin *plugin;      /* that brought it; NULL: none */
    void *device;                         /* the plug-in's: what it keeps for this context */
    char device_name[32];                 /* "cpu", "cuda:0"; the options point to it */
    const struct algebra *shared_algebra; /* of sums that several processes hold together; NULL: there is none */
    void *shared;                         /* what it keeps for this context */
    const struct cluster_plugin *sharing; /* that brought it */
    bool choosing;               /* device auto, and nothing is on the device yet: the processor can still take its place */
    uint64_t device_work;        /* the device's memory that plans need for work; parts leave it free */
    uint64_t failing_allocation; /* tests: the device's allocation that fails, counted from 1; 0: none */
    char error_text[1024];
    char error_hint[512];
    struct stages stages;
    double share_seconds; /* that sums over processes took, with waiting for the others, since they were last reported … */
    uint64_t share_bytes; /* … and what was summed */
    l3a_lock *locks;      /* taken and not yet freed */
};

/* A context for the work of another thread, with an error text of its own: the same memory functions, memory limit and files, and
 * no events. algebra: with the same back end and a handle of its own to the same device, which takes time and memory to open. */
l3a_status context_fork(const l3a_context *context, int threads, bool algebra, l3a_context **made);

/* Records an error and returns its status. hint may be NULL. A NULL context has no room for the text. */
__attribute__((format(printf, 4, 5))) l3a_status fail(l3a_context *context, l3a_status status, const char *hint, const char *format,
                                                      ...);

/* Puts "prefix: " before the text of the error just recorded, unless it has it already, and returns the same status. */
__attribute__((format(printf, 3, 4))) l3a_status fail_in(l3a_context *context, l3a_status status, const char *format, ...);

#define FAIL_IF(condition, ...)                                                                                                    \
    do {                                                                                                                           \
        if (condition) {                                                                                                           \
            status = fail(__VA_ARGS__);                                                                                            \
            goto done;                                                                                                             \
        }                                                                                                                          \
    } while (0)

/* Fails unless every pointer after the context is set: NEED(context, context, path, model). */
#define NEED(context, ...)                                                                                                         \
    TRY(need_pointers(context, __func__, #__VA_ARGS__, (const void *const[]){__VA_ARGS__},                                         \
                      sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *)))
/* The same as the first statement of a function, before anything is looked at: returns. `owner` has the context. */
#define REQUIRE(owner, ...)                                                                                                        \
    do {                                                                                                                           \
        const l3a_status missing =                                                                                                 \
            need_pointers((owner) ? (owner)->context : NULL, __func__, #__VA_ARGS__, (const void *const[]){__VA_ARGS__},           \
                          sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *));                                            \
        if (missing != L3A_OK) {                                                                                                   \
            return missing;                                                                                                        \
        }                                                                                                                          \
    } while (0)
l3a_status need_pointers(l3a_context *context, const char *function, const char *names, const void *const *pointers, size_t count);
/* Fails if one of the texts is NULL. */
l3a_status need_items(l3a_context *context, const char *function, const char *name, const char *const *texts, size_t count);

/* Events. report_progress returns L3A_ERROR_CANCELLED if the callback asks to stop. */
l3a_status report_progress(l3a_context *context, const char *stage, uint64_t done, uint64_t total);
__attribute__((format(printf, 2, 3))) void report_warning(l3a_context *context, const char *format, ...);
__attribute__((format(printf, 2, 3))) void report_note(l3a_context *context, const char *format, ...);
/* Also adds the seconds to the stage in the context; stage must be a string literal. */
void report_timing(l3a_context *context, const char *stage, double seconds);
l3a_status report_result(l3a_context *context, const char *text);

/* Replace numbers by their sums over all processes that learn together; alone, they stay as they are. */
l3a_status sum_numbers(l3a_context *context, double *values, size_t count);
l3a_status sum_counts(l3a_context *context, uint64_t *values, size_t count);
/* Reports the stage "share", with the bytes and the seconds since the last report. Alone, it reports nothing. */
void report_share(l3a_context *context);
static inline bool learns_alone(const l3a_context *context) {
    return !context->options.sum;
}
/* Whether all processes make the same calls, and divide the rows among them. */
static inline bool divides_rows(const l3a_context *context) {
    return context->options.sum && context->options.divide;
}
/* Whether this is the process that writes files. What only this process does must not sum anything. */
static inline bool leads(const l3a_context *context) {
    return !divides_rows(context) || context->options.process == 0;
}
/* Takes over what process 0 has found: its number, and the failure if it failed there. Waits until all processes are here. */
l3a_status follow_lead(l3a_context *context, l3a_status status, uint64_t *number);
/* The same with any number of bytes. */
l3a_status follow_lead_bytes(l3a_context *context, l3a_status status, void *bytes, size_t count);
/* This process's part [first, first + count) of that many rows; the parts differ by one row at most. */
void own_part(const l3a_context *context, size_t rows, size_t *first, size_t *count);

/* A monotonic clock, in seconds. */
double clock_seconds(void);

#endif
