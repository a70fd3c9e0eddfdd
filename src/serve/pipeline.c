/* From requests to features: workers decode pictures, and run the backbone over batches gathered from all connections.
 *
 * A worker runs a batch as soon as one is full. Otherwise it takes the next stage of a request, or decodes the next picture. Only
 * when nothing of that is left does it run a batch that is not full; if another worker is still decoding, it first waits for that,
 * for at most WAIT seconds. So batches are full under load, and a picture that comes alone is computed at once. A batch that is not
 * full is divided among the workers that have nothing to do.
 *
 * The queue is bounded: pictures of a request count from the moment the request is admitted until it has all features. */
#include "serve/library.h"
#include "serve/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAIT 0.005

static void push(struct queue *queue, struct picture *picture) {
    picture->next = NULL;
    if (!queue->first) {
        queue->last = &queue->first;
    }
    *queue->last = picture;
    queue->last = &picture->next;
    queue->count++;
}

static struct picture *pop(struct queue *queue) {
    struct picture *picture = queue->first;
    if (picture) {
        queue->first = picture->next;
        queue->count--;
    }
    return picture;
}

bool pipeline_add(struct request *request) {
    struct pipeline *pipeline = &request->server->pipeline;
    pthread_mutex_lock(&pipeline->lock);
    if (pipeline->stop && !request->started) {
        pthread_mutex_unlock(&pipeline->lock);
        return false;
    }
    request->next = NULL;
    if (!pipeline->first) {
        pipeline->last = &pipeline->first;
    }
    *pipeline->last = request;
    pipeline->last = &request->next;
    pthread_cond_signal(&pipeline->work);
    pthread_mutex_unlock(&pipeline->lock);
    return true;
}

bool pipeline_admit(struct request *request) {
    struct pipeline *pipeline = &request->server->pipeline;
    pthread_mutex_lock(&pipeline->lock);
    const size_t limit = request->server->options->queue;
    /* A request that is larger than the queue is let in when nobody else waits. */
    const bool fits = !pipeline->admitted || pipeline->admitted + request->picture_count <= limit;
    if (fits) {
        pipeline->admitted += request->picture_count;
        request->admitted = true;
    }
    pthread_mutex_unlock(&pipeline->lock);
    return fits;
}

/* ---- A picture ---- */

/* The picture has features or a problem; the last one of a request takes the request on. */
static void picture_done(struct picture *picture) {
    struct request *request = picture->request;
    struct pipeline *pipeline = &request->server->pipeline;
    pthread_mutex_lock(&pipeline->lock);
    const bool last = --request->waiting == 0;
    pthread_mutex_unlock(&pipeline->lock);
    if (last) {
        pipeline_add(request);
    }
}

static void picture_fail(struct picture *picture, unsigned status, const char *error, const char *hint) {
    picture->problem = status;
    picture->error = copy_string(error);
    picture->hint = copy_string(hint);
    atomic_fetch_add(&picture->request->server->metrics.unreadable, 1);
}

/* The bytes of a picture, in whatever format. */
static const uint8_t *find_bytes(struct picture *picture, size_t *count, uint8_t **owned) {
    const struct request *request = picture->request;
    *owned = NULL;
    if (picture->path) {
        const char *problem = NULL;
        *owned = library_read(request->server, picture->path, count, &problem);
        if (!*owned) {
            picture_fail(picture, MHD_HTTP_NOT_FOUND, problem, "ask /v1/library for the pictures that there are");
        }
        return *owned;
    }
    if (picture->base64) {
        *owned = base64_decode(picture->base64, picture->base64_length, count);
        if (!*owned) {
            picture_fail(picture, MHD_HTTP_BAD_REQUEST, "'image' is not base64", "encode the bytes of the file as base64");
        }
        return *owned;
    }
    *count = picture->byte_count;
    return picture->bytes ? picture->bytes : (const uint8_t *)"";
}

const uint8_t *picture_bytes(struct picture *picture, size_t *count, uint8_t **owned) {
    const uint8_t *bytes = find_bytes(picture, count, owned);
    const char *problem;
    if (bytes && !format_allowed(picture->request->server, bytes, *count, &problem)) {
        picture_fail(picture, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, problem, "send JPEG, PNG or WebP, or start the server with --heif");
        free(*owned);
        *owned = NULL;
        return NULL;
    }
    return bytes;
}

static void make_key(const uint8_t *bytes, size_t count, char *key) {
    uint8_t digest[32];
    l3a_sha256(bytes, count, digest);
    hex_encode(digest, KEY_BYTES, key);
}

/* Decodes a picture, unless its features are known already. Returns whether it is ready for the backbone. */
static bool decode(struct worker *worker, struct picture *picture) {
    struct server *server = worker->server;
    struct pipeline *pipeline = &server->pipeline;
    uint8_t *owned;
    size_t count = 0;
    const uint8_t *bytes = picture_bytes(picture, &count, &owned);
    bool ready = false;
    if (bytes) {
        make_key(bytes, count, picture->key);
        picture->features = malloc(pipeline->width * sizeof *picture->features);
        if (picture->features && cache_find(server->cache, picture->key, picture->features, &picture->checksum)) {
            atomic_fetch_add(&server->metrics.cached, 1);
            cache_put(server->cache, picture->key, picture->features, picture->checksum, picture->path);
        } else {
            picture->input = malloc(pipeline->inputs * sizeof *picture->input);
            const l3a_status status =
                picture->input && picture->features
                    ? l3a_reader_prepare(worker->reader, picture->name, bytes, count, picture->input, &picture->checksum)
                    : L3A_ERROR_MEMORY;
            ready = status == L3A_OK;
            if (!ready) {
                picture_fail(picture, status_of(status),
                             status == L3A_ERROR_MEMORY ? "not enough memory" : l3a_reader_error_text(worker->reader),
                             l3a_reader_error_hint(worker->reader));
            }
        }
    }
    free(owned);
    return ready;
}

static void run_decode(struct worker *worker, struct picture *picture) {
    struct pipeline *pipeline = &worker->server->pipeline;
    const bool ready = decode(worker, picture);
    pthread_mutex_lock(&pipeline->lock);
    pipeline->decoding--;
    if (ready) {
        picture->since = seconds_now();
        push(&pipeline->ready, picture);
    }
    pthread_cond_broadcast(&pipeline->work);
    pthread_mutex_unlock(&pipeline->lock);
    if (!ready) {
        picture_done(picture);
    }
}

/* ---- A batch ---- */

static void run_batch(struct worker *worker, struct picture *batch, size_t count) {
    struct server *server = worker->server;
    struct pipeline *pipeline = &server->pipeline;
    const size_t input = pipeline->inputs, width = pipeline->width;
    size_t at = 0, bucket = 0;
    for (const struct picture *picture = batch; picture; picture = picture->next) {
        memcpy(worker->inputs + at++ * input, picture->input, input * sizeof(float));
    }
    const l3a_status status = l3a_reader_compute(worker->reader, worker->inputs, count, worker->features);
    while (bucket < BATCH_BUCKETS && count > (size_t)1 << bucket) {
        bucket++;
    }
    atomic_fetch_add(&server->metrics.batches[bucket], 1);
    atomic_fetch_add(&server->metrics.batch_pictures, count);
    at = 0;
    for (struct picture *picture = batch, *next; picture; picture = next) {
        next = picture->next; /* the picture may be gone afterwards */
        free(picture->input);
        picture->input = NULL;
        if (status == L3A_OK) {
            memcpy(picture->features, worker->features + at++ * width, width * sizeof(float));
            cache_put(server->cache, picture->key, picture->features, picture->checksum, picture->path);
            atomic_fetch_add(&server->metrics.pictures, 1);
        } else {
            picture_fail(picture, status_of(status), l3a_reader_error_text(worker->reader), l3a_reader_error_hint(worker->reader));
        }
        picture_done(picture);
    }
}

/* ---- A request ---- */

/* Takes a request to its next stage. */
static void run_request(struct worker *worker, struct request *request) {
    struct pipeline *pipeline = &worker->server->pipeline;
    const struct route *route = request->route;
    if (!request->started) {
        request->started = true;
        if (route->start) {
            route->start(request, worker);
        }
        if (!request->status && request->picture_count && !pipeline_admit(request)) {
            request->retry = 1;
            refuse(request, MHD_HTTP_TOO_MANY_REQUESTS, "try again in a moment, or send fewer pictures at a time",
                   "the queue is full: %zu pictures are waiting", worker->server->options->queue);
        }
        if (!request->status && request->picture_count) {
            pthread_mutex_lock(&pipeline->lock);
            for (size_t i = 0; i < request->picture_count; i++) { /* those with features come by a key */
                struct picture *picture = &request->pictures[i];
                if (!picture->features && !picture->problem) {
                    request->waiting++;
                    push(&pipeline->decode, picture);
                }
            }
            const bool waits = request->waiting > 0;
            pthread_cond_broadcast(&pipeline->work);
            pthread_mutex_unlock(&pipeline->lock);
            if (waits) {
                return;
            }
        }
    }
    if (request->admitted) {
        pthread_mutex_lock(&pipeline->lock);
        pipeline->admitted -= request->picture_count;
        pthread_mutex_unlock(&pipeline->lock);
        request->admitted = false;
    }
    if (!request->status && route->finish) {
        route->finish(request, worker);
    }
    if (!request->status && ((route->teach && teacher_add(request)) || (route->examine && examiner_add(request)))) {
        return;
    }
    request_done(request);
}

/* ---- Workers ---- */

struct work {
    struct request *request;
    struct picture *decode, *batch;
    size_t count;
};

static void take_batch(struct pipeline *pipeline, size_t limit, struct work *work) {
    struct picture **last = &work->batch;
    while (work->count < limit && (*last = pop(&pipeline->ready))) {
        last = &(*last)->next;
        work->count++;
    }
    *last = NULL;
}

/* Whether to run a batch that is not full; otherwise *until says when to look again. */
static bool batch_is_due(const struct pipeline *pipeline, double *until) {
    const double due = pipeline->ready.first->since + WAIT;
    *until = due;
    return !pipeline->decoding || seconds_now() >= due;
}

static void wait_until(struct pipeline *pipeline, double until) {
    const struct timespec time = {.tv_sec = (time_t)until, .tv_nsec = (long)((until - (double)(time_t)until) * 1e9)};
    pipeline->idle++;
    if (until > 0) {
        pthread_cond_timedwait(&pipeline->work, &pipeline->lock, &time);
    } else {
        pthread_cond_wait(&pipeline->work, &pipeline->lock);
    }
    pipeline->idle--;
}

/* Returns false if there is nothing left to do and the server ends. */
static bool next_work(struct server *server, struct work *work) {
    struct pipeline *pipeline = &server->pipeline;
    const size_t full = server->options->batch;
    *work = (struct work){0};
    pthread_mutex_lock(&pipeline->lock);
    for (;;) {
        double until = 0;
        if (pipeline->ready.count >= full) {
            take_batch(pipeline, full, work);
        } else if (pipeline->first) {
            work->request = pipeline->first;
            pipeline->first = work->request->next;
        } else if (pipeline->decode.count) {
            work->decode = pop(&pipeline->decode);
            pipeline->decoding++;
        } else if (pipeline->ready.count && batch_is_due(pipeline, &until)) {
            take_batch(pipeline, (pipeline->ready.count + pipeline->idle) / (pipeline->idle + 1), work);
        } else if (pipeline->stop) {
            break;
        } else {
            wait_until(pipeline, until);
            continue;
        }
        break;
    }
    pthread_mutex_unlock(&pipeline->lock);
    return work->request || work->decode || work->batch;
}

static void *work(void *argument) {
    struct worker *worker = argument;
    struct work next;
    while (next_work(worker->server, &next)) {
        if (next.batch) {
            run_batch(worker, next.batch, next.count);
        } else if (next.decode) {
            run_decode(worker, next.decode);
        } else {
            run_request(worker, next.request);
        }
    }
    return NULL;
}

static bool worker_start(struct server *server, struct worker *worker) {
    struct pipeline *pipeline = &server->pipeline;
    const l3a_context_options options = {.size = sizeof options, .threads = 1};
    const size_t batch = server->options->batch;
    worker->server = server;
    if (pthread_mutex_init(&worker->lock, NULL) || l3a_reader_create(server->tagger, &worker->reader) != L3A_OK ||
        l3a_context_create(&options, &worker->context) != L3A_OK) {
        return false;
    }
    pipeline->inputs = l3a_reader_inputs(worker->reader);
    pipeline->width = l3a_reader_width(worker->reader);
    worker->inputs = calloc(batch * pipeline->inputs, sizeof(float));
    worker->features = calloc(batch * pipeline->width, sizeof(float));
    worker->running = worker->inputs && worker->features && pthread_create(&worker->thread, NULL, work, worker) == 0;
    return worker->running;
}

bool pipeline_start(struct server *server) {
    struct pipeline *pipeline = &server->pipeline;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&pipeline->lock, NULL);
    pthread_cond_init(&pipeline->work, &attributes);
    pthread_condattr_destroy(&attributes);
    pipeline->count = (size_t)server->options->workers;
    pipeline->workers = calloc(pipeline->count, sizeof *pipeline->workers);
    bool good = pipeline->workers != NULL;
    for (size_t i = 0; good && i < pipeline->count; i++) {
        good = worker_start(server, &pipeline->workers[i]);
    }
    return good;
}

void pipeline_stop(struct server *server) {
    struct pipeline *pipeline = &server->pipeline;
    pthread_mutex_lock(&pipeline->lock);
    pipeline->stop = true;
    pthread_cond_broadcast(&pipeline->work);
    pthread_mutex_unlock(&pipeline->lock);
    for (size_t i = 0; pipeline->workers && i < pipeline->count; i++) {
        struct worker *worker = &pipeline->workers[i];
        if (worker->running) {
            pthread_join(worker->thread, NULL);
        }
    }
}

void pipeline_free(struct server *server) {
    struct pipeline *pipeline = &server->pipeline;
    for (size_t i = 0; pipeline->workers && i < pipeline->count; i++) {
        struct worker *worker = &pipeline->workers[i];
        l3a_reader_free(worker->reader);
        l3a_context_free(worker->context);
        free(worker->inputs);
        free(worker->features);
    }
    free(pipeline->workers);
    pipeline->workers = NULL;
}
