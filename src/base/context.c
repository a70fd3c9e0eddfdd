#include "base/context.h"

#include "base/file.h"
#include "base/machine.h"
#include "base/matrix.h"
#include "base/plugin.h"
#include "base/sized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

const char *l3a_version(void) {
    return L3A_VERSION;
}

const char *l3a_citation(void) {
    return "@inproceedings{zhang2025l3a,\n"
           "  title     = {{L3A}: Label-Augmented Analytic Adaptation for Multi-Label Class Incremental Learning},\n"
           "  author    = {Zhang, Xiang and He, Run and Chen, Jiao and Fang, Di and Li, Ming and Zeng, Ziqian and Chen, Cen and "
           "Zhuang, Huiping},\n"
           "  booktitle = {International Conference on Machine Learning (ICML)},\n"
           "  year      = {2025}\n"
           "}\n"
           "@misc{l3a,\n"
           "  title  = {l3a: teach a multi-label classifier new classes without forgetting the old ones},\n"
           "  author = {{The l3a authors}},\n"
           "  note   = {Version " L3A_VERSION "}\n"
           "}\n";
}

int l3a_version_number(void) {
    return L3A_VERSION_NUMBER;
}

const char *l3a_status_name(l3a_status status) {
    static const char *const names[] = {"L3A_OK",
                                        "L3A_ERROR_ARGUMENT",
                                        "L3A_ERROR_OPTION",
                                        "L3A_ERROR_MEMORY",
                                        "L3A_ERROR_NOT_FOUND",
                                        "L3A_ERROR_IO",
                                        "L3A_ERROR_FORMAT",
                                        "L3A_ERROR_TRUNCATED",
                                        "L3A_ERROR_CHECKSUM",
                                        "L3A_ERROR_VERSION",
                                        "L3A_ERROR_DATA",
                                        "L3A_ERROR_CLASS",
                                        "L3A_ERROR_MISMATCH",
                                        "L3A_ERROR_NUMERIC",
                                        "L3A_ERROR_STATE",
                                        "L3A_ERROR_CANCELLED",
                                        "L3A_ERROR_EXISTS",
                                        "L3A_ERROR_DEVICE",
                                        "L3A_ERROR_FULL",
                                        "L3A_ERROR_METHOD"};
    const size_t index = (size_t)status;
    return index < sizeof names / sizeof names[0] ? names[index] : "unknown status";
}

/* Large blocks get large pages: fewer page faults when they are first touched, and fewer TLB misses later. */
static void *default_allocate(void *user, size_t bytes) {
    enum { LINE = 64, LARGE_PAGE = 2 << 20 };
    const size_t alignment = bytes < 4 * (size_t)LARGE_PAGE ? LINE : LARGE_PAGE;
    (void)user;
    if (bytes > SIZE_MAX - alignment) {
        return NULL;
    }
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, rounded);
    if (memory && alignment == LARGE_PAGE) {
        madvise(memory, rounded, MADV_HUGEPAGE);
    }
    return memory;
}

static void default_release(void *user, void *memory) {
    (void)user;
    free(memory);
}

static void warn_of_slow_kernels(l3a_context *context) {
    char text[160];
    const char *better = NULL;
    matrix_describe(text, sizeof text, &better);
    if (better) {
        report_warning(context,
                       "the matrix library does not know this processor and runs several times slower than it could; set "
                       "OPENBLAS_CORETYPE=%s before the program starts",
                       better);
    }
}

l3a_status l3a_context_create(const l3a_context_options *options, l3a_context **context) {
    l3a_context_options chosen;
    l3a_context *made;
    if (!context || READ_SIZED(NULL, options, chosen) != L3A_OK || chosen.threads < 0 || !chosen.allocate != !chosen.release ||
        (chosen.sum && (chosen.process >= chosen.processes || chosen.processes > INT32_MAX)) || chosen.divide > 1 ||
        chosen.lead_threads > INT32_MAX || (chosen.divide && !chosen.sum)) {
        return L3A_ERROR_ARGUMENT;
    }
    if (!chosen.allocate) {
        chosen.allocate = default_allocate;
        chosen.release = default_release;
    }
    made = chosen.allocate(chosen.memory_user, sizeof *made);
    if (!made) {
        return L3A_ERROR_MEMORY;
    }
    memset(made, 0, sizeof *made);
    made->options = chosen;
    made->threads = chosen.threads ? chosen.threads : machine_processors();
    made->files = leads(made) ? &posix_files : &mute_files;
    const l3a_status status = device_open(made);
    if (status != L3A_OK) {
        l3a_context_free(made);
        return status;
    }
    warn_of_slow_kernels(made);
    *context = made;
    return L3A_OK;
}

l3a_status context_fork(const l3a_context *context, int threads, bool algebra, l3a_context **made) {
    l3a_context_options options = context->options;
    options.device = algebra ? options.device : NULL;
    options.on_event = NULL;
    options.threads = threads;
    const l3a_status status = l3a_context_create(&options, made);
    if (status == L3A_OK) {
        (*made)->files = context->files;
        (*made)->algebra = algebra ? context->algebra : NULL;
    }
    return status;
}

void l3a_context_free(l3a_context *context) {
    if (context) {
        cluster_unshare(context);
        device_close(context);
        context->options.release(context->options.memory_user, context);
    }
}

int l3a_context_threads(const l3a_context *context) {
    return context ? context->threads : 0;
}

const char *l3a_context_device(const l3a_context *context) {
    return context ? context->device_name : "";
}

const char *l3a_error_text(const l3a_context *context) {
    return context ? context->error_text : "";
}

const char *l3a_error_hint(const l3a_context *context) {
    return context ? context->error_hint : "";
}

l3a_status need_pointers(l3a_context *context, const char *function, const char *names, const void *const *pointers, size_t count) {
    for (size_t i = 0; i < count; i++, names += strcspn(names, ",") + 2) {
        if (!pointers[i]) {
            return fail(context, L3A_ERROR_ARGUMENT, NULL, "%s: %.*s is NULL", function, (int)strcspn(names, ","), names);
        }
    }
    return L3A_OK;
}

l3a_status need_items(l3a_context *context, const char *function, const char *name, const char *const *texts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!texts[i]) {
            return fail(context, L3A_ERROR_ARGUMENT, NULL, "%s: %s[%zu] is NULL", function, name, i);
        }
    }
    return L3A_OK;
}

static int send_event(const l3a_context *context, const l3a_event *event) {
    return context->options.on_event ? context->options.on_event(event, context->options.event_user) : 0;
}

l3a_status report_progress(l3a_context *context, const char *stage, uint64_t done, uint64_t total) {
    const l3a_event event = {.kind = L3A_EVENT_PROGRESS, .stage = stage, .text = "", .done = done, .total = total};
    return send_event(context, &event) ? fail(context, L3A_ERROR_CANCELLED, NULL, "%s: cancelled", stage) : L3A_OK;
}

__attribute__((format(printf, 3, 0))) static void report_text(const l3a_context *context, l3a_event_kind kind, const char *format,
                                                              va_list arguments) {
    char text[sizeof context->error_text];
    vsnprintf(text, sizeof text, format, arguments);
    const l3a_event event = {.kind = kind, .stage = "", .text = text};
    send_event(context, &event);
}

void report_warning(l3a_context *context, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    report_text(context, L3A_EVENT_WARNING, format, arguments);
    va_end(arguments);
}

void report_note(l3a_context *context, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    report_text(context, L3A_EVENT_NOTE, format, arguments);
    va_end(arguments);
}

static void add_to_stage(struct stages *stages, const char *name, double seconds) {
    size_t i = 0;
    while (i < stages->count && strcmp(stages->items[i].name, name) != 0) {
        i++;
    }
    if (i == stages->count && stages->count < STAGE_LIMIT) {
        stages->items[stages->count++].name = name;
        stages->items[i].seconds = 0;
    }
    if (i < stages->count) {
        stages->items[i].seconds += seconds;
    }
}

void report_timing(l3a_context *context, const char *stage, double seconds) {
    add_to_stage(&context->stages, stage, seconds);
    const l3a_event event = {.kind = L3A_EVENT_TIMING, .stage = stage, .text = "", .seconds = seconds};
    send_event(context, &event);
}

l3a_status report_result(l3a_context *context, const char *text) {
    const l3a_event event = {.kind = L3A_EVENT_RESULT, .stage = "run", .text = text};
    return send_event(context, &event) ? fail(context, L3A_ERROR_CANCELLED, NULL, "run: cancelled") : L3A_OK;
}

double clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static l3a_status sum(l3a_context *context, void *values, size_t count, l3a_sum_type type) {
    const l3a_context_options *options = &context->options;
    if (!options->sum || !count) {
        return L3A_OK;
    }
    const double start = clock_seconds();
    const bool failed = options->sum(values, count, type, options->sum_user) != 0;
    context->share_seconds += clock_seconds() - start;
    context->share_bytes += count * sizeof(double);
    if (!failed) {
        return L3A_OK;
    }
    const l3a_status cancelled = report_progress(context, "share", 0, 0);
    return cancelled != L3A_OK
               ? cancelled
               : fail(context, L3A_ERROR_IO, "check that all processes are running", "the sums of other processes did not arrive");
}

l3a_status sum_numbers(l3a_context *context, double *values, size_t count) {
    return sum(context, values, count, L3A_SUM_FLOAT64);
}

l3a_status sum_counts(l3a_context *context, uint64_t *values, size_t count) {
    return sum(context, values, count, L3A_SUM_UINT64);
}

void report_share(l3a_context *context) {
    if (context->share_bytes) {
        const l3a_event event = {.kind = L3A_EVENT_TIMING,
                                 .stage = "share",
                                 .text = "",
                                 .seconds = context->share_seconds,
                                 .done = context->share_bytes};
        add_to_stage(&context->stages, event.stage, event.seconds);
        send_event(context, &event);
    }
    context->share_seconds = 0;
    context->share_bytes = 0;
}

l3a_status follow_lead(l3a_context *context, l3a_status status, uint64_t *number) {
    uint64_t shared[2] = {status, number ? *number : 0};
    if (!divides_rows(context)) {
        return status;
    }
    if (!leads(context)) {
        shared[0] = shared[1] = 0;
    }
    const l3a_status met = sum_counts(context, shared, 2);
    if (met != L3A_OK || leads(context)) {
        return status != L3A_OK ? status : met;
    }
    if (shared[0] && status == L3A_OK) {
        return fail(context, (l3a_status)shared[0], NULL, "process 0 failed");
    }
    if (number) {
        *number = shared[1];
    }
    return status;
}

l3a_status follow_lead_bytes(l3a_context *context, l3a_status status, void *bytes, size_t count) {
    uint64_t words[512];
    status = follow_lead(context, status, NULL);
    for (size_t done = 0, n; divides_rows(context) && status == L3A_OK && done < count; done += n) {
        n = count - done < sizeof words ? count - done : sizeof words;
        memset(words, 0, sizeof words);
        if (leads(context)) {
            memcpy(words, (const char *)bytes + done, n);
        }
        status = sum_counts(context, words, (n + sizeof *words - 1) / sizeof *words);
        memcpy((char *)bytes + done, words, n);
    }
    return status;
}

void own_part(const l3a_context *context, size_t rows, size_t *first, size_t *count) {
    const bool divides = divides_rows(context);
    const uint64_t index = divides ? context->options.process : 0, parts = divides ? context->options.processes : 1;
    *first = (size_t)(rows / parts * index + (rows % parts < index ? rows % parts : index));
    *count = (size_t)(rows / parts + (index < rows % parts));
}
