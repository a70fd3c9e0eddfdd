/* GET /metrics, in the text format of Prometheus. docs/serving.md says what each one means. */
#include "serve/librarian.h"
#include "serve/protocols.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double bounds[BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};

void histogram_add(struct histogram *histogram, double seconds) {
    size_t bucket = 0;
    while (bucket < BUCKETS && seconds > bounds[bucket]) {
        bucket++;
    }
    atomic_fetch_add(&histogram->counts[bucket], 1);
    atomic_fetch_add(&histogram->micros, (uint_fast64_t)(seconds * 1e6));
}

void histogram_write(struct text *text, const char *name, const char *labels, struct histogram *histogram) {
    const char *comma = labels[0] ? "," : "";
    unsigned long long sum = 0;
    for (size_t i = 0; i <= BUCKETS; i++) {
        sum += atomic_load(&histogram->counts[i]);
        if (i < BUCKETS) {
            text_print(text, "%s_bucket{%s%sle=\"%g\"} %llu\n", name, labels, comma, bounds[i], sum);
        } else {
            text_print(text, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels, comma, sum);
        }
    }
    text_print(text, "%s_sum{%s} %.6f\n", name, labels, 1e-6 * (double)atomic_load(&histogram->micros));
    text_print(text, "%s_count{%s} %llu\n", name, labels, sum);
}

void metric_explain(struct text *text, const char *name, const char *type, const char *help) {
    text_print(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metric_write(struct text *text, const char *name, const char *type, const char *help, unsigned long long value) {
    metric_explain(text, name, type, help);
    text_print(text, "%s %llu\n", name, value);
}

static bool was_used(const struct metrics *metrics, size_t route) {
    for (size_t k = 0; k < 6; k++) {
        if (atomic_load(&metrics->requests[route][k])) {
            return true;
        }
    }
    return false;
}

/* "GET /v1/classes"; requests that no route takes are "other". */
static void route_label(size_t route, char label[96]) {
    if (route == ROUTES - 1) {
        snprintf(label, 96, "route=\"other\"");
    } else {
        snprintf(label, 96, "route=\"%s %s\"", routes[route].method, routes[route].path);
    }
}

static void write_requests(struct text *text, struct metrics *metrics) {
    char label[96];
    metric_explain(text, "l3a_requests_total", "counter", "Requests that were answered, by route and kind of status.");
    for (size_t i = 0; i < ROUTES; i++) {
        route_label(was_used(metrics, i) ? i : ROUTES - 1, label);
        for (size_t k = 1; k < 6; k++) {
            const unsigned long long count = atomic_load(&metrics->requests[i][k]);
            if (count) {
                text_print(text, "l3a_requests_total{%s,status=\"%zuxx\"} %llu\n", label, k, count);
            }
        }
    }
    metric_explain(text, "l3a_request_seconds", "histogram", "Time from the head of a request to the end of its answer.");
    for (size_t i = 0; i < ROUTES; i++) {
        if (was_used(metrics, i)) {
            route_label(i, label);
            histogram_write(text, "l3a_request_seconds", label, &metrics->seconds[i]);
        }
    }
}

static void write_batches(struct text *text, struct metrics *metrics) {
    unsigned long long sum = 0;
    metric_explain(text, "l3a_batch_pictures", "histogram", "Pictures that went through the backbone together.");
    for (size_t i = 0; i <= BATCH_BUCKETS; i++) {
        sum += atomic_load(&metrics->batches[i]);
        if (i < BATCH_BUCKETS) {
            text_print(text, "l3a_batch_pictures_bucket{le=\"%d\"} %llu\n", 1 << i, sum);
        } else {
            text_print(text, "l3a_batch_pictures_bucket{le=\"+Inf\"} %llu\n", sum);
        }
    }
    text_print(text, "l3a_batch_pictures_sum %llu\nl3a_batch_pictures_count %llu\n",
               (unsigned long long)atomic_load(&metrics->batch_pictures), sum);
}

static unsigned long long resident_bytes(void) {
    unsigned long long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%llu %llu", &total, &resident) != 2) {
            resident = 0;
        }
        fclose(file);
    }
    return resident * (unsigned long long)sysconf(_SC_PAGESIZE);
}

static void write_queues(struct text *text, struct server *server) {
    struct pipeline *pipeline = &server->pipeline;
    size_t cached;
    uint64_t bytes;
    pthread_mutex_lock(&pipeline->lock);
    const size_t waiting = pipeline->admitted;
    pthread_mutex_unlock(&pipeline->lock);
    pthread_mutex_lock(&server->teacher.lock);
    const size_t lessons = server->teacher.waiting;
    pthread_mutex_unlock(&server->teacher.lock);
    cache_measure(server->cache, &cached, &bytes);
    metric_write(text, "l3a_queue_pictures", "gauge", "Pictures of requests that wait for their features.", waiting);
    metric_write(text, "l3a_queue_limit", "gauge", "Pictures that may wait; more are refused with 429.", server->options->queue);
    metric_write(text, "l3a_teacher_waiting", "gauge", "Requests that wait for the teacher.", lessons);
    metric_write(text, "l3a_cache_pictures", "gauge", "Pictures whose features are kept in memory.", cached);
    metric_write(text, "l3a_cache_bytes", "gauge", "Memory of these features.", bytes);
}

static void write_counts(struct text *text, struct metrics *metrics) {
    const struct {
        const char *name, *type, *help;
        const atomic_uint_fast64_t *value;
    } counts[] = {
        {"l3a_pictures_total", "counter", "Pictures that went through the backbone.", &metrics->pictures},
        {"l3a_pictures_unreadable_total", "counter", "Pictures that could not be read.", &metrics->unreadable},
        {"l3a_pictures_cached_total", "counter", "Pictures whose features were known already.", &metrics->cached},
        {"l3a_lessons_total", "counter", "Lessons that were taught.", &metrics->lessons},
        {"l3a_lesson_pictures_total", "counter", "Pictures of these lessons.", &metrics->lesson_pictures},
        {"l3a_undone_total", "counter", "Lessons that were taken back.", &metrics->undone},
        {"l3a_journal_failures_total", "counter", "Changes refused because the history could not be written.",
         &metrics->journal_failures},
        {"l3a_saves_total", "counter", "Times the history was folded into the model file.", &metrics->saves},
        {"l3a_save_failures_total", "counter", "Times the model file could not be written.", &metrics->save_failures},
        {"l3a_model_unsaved_lessons", "gauge", "Changes that are in the history and not in the model file.", &metrics->unsaved},
        {"l3a_examined_total", "counter", "Times it was measured how good the model is.", &metrics->examined},
        {"l3a_connections", "gauge", "Connections that are open.", &metrics->connections},
        {"l3a_connections_total", "counter", "Connections that were opened.", &metrics->connections_total},
        {"l3a_connections_timed_out_total", "counter", "Connections that were ended because they were too slow.",
         &metrics->timed_out},
        {"l3a_connections_dropped_total", "counter", "Connections that were ended to make room for others.", &metrics->dropped},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        metric_write(text, counts[i].name, counts[i].type, counts[i].help, (unsigned long long)atomic_load(counts[i].value));
    }
}

void metrics_now(struct request *request) {
    struct server *server = request->server;
    struct text *text = &request->answer.text;
    struct knowledge *knowledge = knowledge_keep(server);
    write_requests(text, &server->metrics);
    write_queues(text, server);
    write_batches(text, &server->metrics);
    write_counts(text, &server->metrics);
    metric_explain(text, "l3a_teaching_seconds", "histogram", "Time that a lesson took, without waiting for the teacher.");
    histogram_write(text, "l3a_teaching_seconds", "", &server->metrics.teaching);
    library_metrics(server, text);
    metric_write(text, "l3a_edition", "gauge", "The number of the edition of the model; every change makes a new one.",
                 knowledge->edition);
    metric_write(text, "l3a_classes", "gauge", "Classes that the model knows.", knowledge->classes);
    metric_write(text, "l3a_ready", "gauge", "Whether /v2/health/ready says yes.", server_ready(server));
    metric_write(text, "l3a_log_lines_lost_total", "counter", "Lines of the log that could not be written.",
                 log_lost(server->options->events->log));
    metric_write(text, "l3a_memory_bytes", "gauge", "Memory of the process.", resident_bytes());
    request->answer.type = "text/plain; version=0.0.4; charset=utf-8";
    request->answer.status = MHD_HTTP_OK;
    knowledge_free(knowledge);
}
