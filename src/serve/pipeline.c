/* From requests to features: workers decode pictures, and run the backbone over batches gathered from all connections.
 *
 * Lanes. What takes long must not stand in the way of what does not. So there are three lanes, each with its own threads. In the
 * prompt lane, as many workers as there are processors decode pictures, run the backbone, and take requests through their stages.
 * In the slow lane, as many again, at low priority, decode large pictures, and run the stages of large requests and of errands:
 * listings, thumbnails, exports. In the lane for huge pictures there is one, so that one at most is in memory. A picture that turns
 * out to be too large for its lane goes on to the next.
 *
 * Turns. In each lane, clients take turns; the requests of a client do so in the client's turn; a request's turn is one stage or
 * one picture. So a request with a thousand pictures delays another one by one picture.
 *
 * Batches. A prompt worker runs a batch when one is full, or its first picture has waited for DUE seconds; but between two batches
 * it does what is next in its lane, for DUE seconds if there is so much. If there is nothing, it runs a batch that is not full; if
 * another worker is still decoding, it first waits for that, for at most WAIT seconds. So batches are full under load, and a
 * picture that comes alone is computed at once. A batch that is not full is divided among the workers that have nothing to do. Half
 * of a batch is for pictures of the prompt lane, if there are any.
 *
 * The queue is bounded, and so is what a request takes of it: a quarter of the room that is left, if it has that many pictures,
 * from the moment it is admitted until it has all features. So there is room for a single picture while many large requests wait.
 */
#include "common/sha256.h"
#include "serve/library.h"
#include "serve/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAIT 0.005
#define DUE 0.02

enum {
    NICER = 5,
    ERRANDS = 256,           /* that may wait */
    MANY_PICTURES = 64,      /* of a request that is not prompt any more */
    LARGE_BODY = 1 << 20,    /* the same */
    LARGE_PICTURE = 4 << 20, /* bytes of a picture in the slow lane */
};

/* Pixels of the largest picture in each lane; 0: as the tagger has it. */
static const uint64_t largest[LANES] = {[LANE_PROMPT] = 4000000, [LANE_SLOW] = 32000000, [LANE_HUGE] = 0};

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

/* ---- Turns; under the lock ---- */

static void line_up_client(struct pipeline *pipeline, struct client *client, enum lane lane) {
    if (!client->lined[lane]) {
        client->lined[lane] = true;
        client->behind[lane] = NULL;
        if (!pipeline->first[lane]) {
            pipeline->last[lane] = &pipeline->first[lane];
        }
        *pipeline->last[lane] = client;
        pipeline->last[lane] = &client->behind[lane];
    }
}

/* The request has something to do in the lane. */
static void line_up(struct pipeline *pipeline, struct request *request, enum lane lane) {
    struct client *client = request->client;
    if (!request->place.lined[lane]) {
        request->place.lined[lane] = true;
        request->place.behind[lane] = NULL;
        if (!client->first[lane]) {
            client->last[lane] = &client->first[lane];
        }
        *client->last[lane] = request;
        client->last[lane] = &request->place.behind[lane];
    }
    line_up_client(pipeline, client, lane);
    pthread_cond_signal(&pipeline->work[lane]);
}

/* The next stage of a request waits for a worker. */
static void line_up_stage(struct pipeline *pipeline, struct request *request) {
    request->place.staged = true;
    line_up(pipeline, request, request->place.lane);
}

struct work {
    struct request *request;
    struct picture *decode, *batch;
    size_t count;
};

/* Takes what is next in a lane; false: there is nothing. */
static bool take_turn(struct pipeline *pipeline, enum lane lane, struct work *work) {
    struct client *client = pipeline->first[lane];
    struct request *request = client ? client->first[lane] : NULL;
    if (!client) {
        return false;
    }
    pipeline->first[lane] = client->behind[lane];
    client->lined[lane] = false;
    client->first[lane] = request->place.behind[lane];
    request->place.lined[lane] = false;
    if (request->place.staged && request->place.lane == lane) {
        request->place.staged = false;
        work->request = request;
    } else {
        work->decode = pop(&request->place.todo[lane]);
    }
    if (request->place.todo[lane].count) {
        line_up(pipeline, request, lane);
    } else if (client->first[lane]) {
        line_up_client(pipeline, client, lane);
    }
    return true;
}

/* ---- Coming and going ---- */

bool pipeline_add(struct request *request) {
    struct pipeline *pipeline = &request->server->pipeline;
    pthread_mutex_lock(&pipeline->lock);
    const bool full = request->wanted.route->slow && pipeline->errands >= ERRANDS, added = !pipeline->stop && !full;
    if (added) {
        request->place.lane = request->wanted.route->slow || request->body.text.length > LARGE_BODY ? LANE_SLOW : LANE_PROMPT;
        request->place.errand = request->wanted.route->slow;
        pipeline->errands += request->place.errand;
        pipeline->requests++;
        line_up_stage(pipeline, request);
    }
    pthread_mutex_unlock(&pipeline->lock);
    if (full) {
        request->answer.retry = 1;
        refuse(request, MHD_HTTP_TOO_MANY_REQUESTS, "try again in a moment", "%d listings and thumbnails are waiting", ERRANDS);
    } else if (!added) {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment", "the server is shutting down");
    }
    return added;
}

/* The request leaves the pipeline. */
static void leave(struct request *request) {
    struct pipeline *pipeline = &request->server->pipeline;
    pthread_mutex_lock(&pipeline->lock);
    pipeline->errands -= request->place.errand;
    if (--pipeline->requests == 0 && pipeline->stop) {
        for (size_t lane = 0; lane < LANES; lane++) {
            pthread_cond_broadcast(&pipeline->work[lane]);
        }
    }
    pthread_mutex_unlock(&pipeline->lock);
}

/* Counts the request's pictures in; false: the queue is full. */
static bool admit(struct request *request) {
    struct pipeline *pipeline = &request->server->pipeline;
    pthread_mutex_lock(&pipeline->lock);
    struct client *client = request->client;
    const size_t queue = request->server->options->queue, room = queue - pipeline->admitted, most = room / 4 ? room / 4 : 1;
    const bool fits = room && client->admitted < queue - queue / 4;
    if (fits) {
        request->place.share = request->pictures.count < most ? request->pictures.count : most;
        pipeline->admitted += request->place.share;
        client->admitted += request->place.share;
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
    if (--request->place.waiting == 0) {
        line_up_stage(pipeline, request);
    }
    pthread_mutex_unlock(&pipeline->lock);
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
    sha256_of(bytes, count, digest);
    hex_encode(digest, KEY_BYTES, key);
}

enum decoded { READY /* for the backbone */, KNOWN /* or unreadable */, TOO_LARGE /* for this lane */ };

/* Decodes a picture, unless its features are known already. */
static enum decoded prepare(struct worker *worker, struct picture *picture, const uint8_t *bytes, size_t count) {
    struct server *server = worker->server;
    struct pipeline *pipeline = &server->pipeline;
    if (!picture->key[0]) {
        make_key(bytes, count, picture->key);
    }
    picture->features = malloc(pipeline->width * sizeof *picture->features);
    if (picture->features && cache_find(server->cache, picture->key, picture->features, &picture->checksum)) {
        atomic_fetch_add(&server->metrics.cached, 1);
        cache_put(server->cache, picture->key, picture->features, picture->checksum, picture->path);
        return KNOWN;
    }
    picture->input = malloc(pipeline->inputs * sizeof *picture->input);
    const l3a_status status = picture->input && picture->features ? l3a_reader_prepare(worker->reader, picture->name, bytes, count,
                                                                                       picture->input, &picture->checksum)
                                                                  : L3A_ERROR_MEMORY;
    if (status == L3A_OK) {
        return READY;
    }
    free(picture->features);
    free(picture->input);
    picture->features = picture->input = NULL;
    if (status == L3A_ERROR_DATA && largest[worker->lane]) {
        return TOO_LARGE;
    }
    picture_fail(picture, status_of(status),
                 status == L3A_ERROR_MEMORY ? "not enough memory" : l3a_reader_error_text(worker->reader),
                 l3a_reader_error_hint(worker->reader));
    return KNOWN;
}

/* Whether nobody waits for the picture any more, and it is worth finding out. A lesson is taught in any case. */
static bool is_in_vain(const struct worker *worker, const struct picture *picture) {
    const struct request *request = picture->request;
    return (worker->lane != LANE_PROMPT || request->pictures.count > MANY_PICTURES) && !request->wanted.route->teach &&
           peer_has_left(request);
}

static enum decoded decode(struct worker *worker, struct picture *picture) {
    uint8_t *owned = NULL;
    size_t count = picture->base64 ? picture->base64_length / 4 * 3 : picture->byte_count;
    enum decoded decoded = TOO_LARGE;
    if (is_in_vain(worker, picture)) {
        picture->problem = MHD_HTTP_SERVICE_UNAVAILABLE;
        return KNOWN;
    }
    if (worker->lane != LANE_PROMPT || count <= LARGE_PICTURE) {
        const uint8_t *bytes = picture_bytes(picture, &count, &owned);
        if (!bytes) {
            decoded = KNOWN;
        } else if (worker->lane != LANE_PROMPT || count <= LARGE_PICTURE) {
            decoded = prepare(worker, picture, bytes, count);
        }
        free(owned);
    }
    return decoded;
}

static void run_decode(struct worker *worker, struct picture *picture) {
    struct pipeline *pipeline = &worker->server->pipeline;
    const enum decoded decoded = decode(worker, picture);
    pthread_mutex_lock(&pipeline->lock);
    pipeline->decoding -= worker->lane == LANE_PROMPT;
    if (decoded == READY) {
        picture->since = seconds_now();
        push(&pipeline->ready[worker->lane != LANE_PROMPT], picture);
    } else if (decoded == TOO_LARGE) {
        push(&picture->request->place.todo[worker->lane + 1], picture);
        line_up(pipeline, picture->request, worker->lane + 1);
    }
    pthread_cond_broadcast(&pipeline->work[LANE_PROMPT]);
    pthread_mutex_unlock(&pipeline->lock);
    if (decoded == KNOWN) {
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

/* Hands the pictures of a request to the decoders; false: all have features, which come by a key, or a problem. */
static bool line_up_pictures(struct request *request) {
    struct pipeline *pipeline = &request->server->pipeline;
    pthread_mutex_lock(&pipeline->lock);
    for (size_t i = 0; i < request->pictures.count; i++) {
        struct picture *picture = &request->pictures.items[i];
        if (!picture->features && !picture->problem) {
            request->place.waiting++;
            push(&request->place.todo[LANE_PROMPT], picture);
        }
    }
    const bool waits = request->place.waiting > 0;
    if (waits) {
        line_up(pipeline, request, LANE_PROMPT);
        pthread_cond_broadcast(&pipeline->work[LANE_PROMPT]);
    }
    pthread_mutex_unlock(&pipeline->lock);
    return waits;
}

/* The first stage. Returns whether the next one follows at once. */
static bool run_start(struct worker *worker, struct request *request) {
    struct pipeline *pipeline = &worker->server->pipeline;
    request->place.started = true;
    if (request->place.errand && peer_has_left(request)) {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, "nobody waits for this any more");
    } else if (request->wanted.route->start) {
        request->wanted.route->start(request, worker);
    }
    if (request->answer.status || !request->pictures.count) {
        return true;
    }
    if (!admit(request)) {
        request->answer.retry = 1;
        refuse(request, MHD_HTTP_TOO_MANY_REQUESTS, "try again in a moment, or send fewer pictures at a time",
               "the queue is full: %zu pictures may wait", worker->server->options->queue);
        return true;
    }
    const bool many = request->pictures.count > MANY_PICTURES && request->place.lane == LANE_PROMPT;
    if (many) {
        request->place.lane = LANE_SLOW;
    }
    if (line_up_pictures(request)) {
        return false;
    }
    if (many) {
        pthread_mutex_lock(&pipeline->lock);
        line_up_stage(pipeline, request);
        pthread_mutex_unlock(&pipeline->lock);
    }
    return !many;
}

/* Takes a request to its next stage. */
static void run_request(struct worker *worker, struct request *request) {
    struct pipeline *pipeline = &worker->server->pipeline;
    const struct route *route = request->wanted.route;
    if (!request->place.started && !run_start(worker, request)) {
        return;
    }
    if (request->place.share) {
        pthread_mutex_lock(&pipeline->lock);
        pipeline->admitted -= request->place.share;
        request->client->admitted -= request->place.share;
        pthread_mutex_unlock(&pipeline->lock);
        request->place.share = 0;
    }
    if (!request->answer.status && route->finish) {
        route->finish(request, worker);
    }
    leave(request);
    if (!request->answer.status && ((route->teach && teacher_add(request)) || (route->examine && examiner_add(request)))) {
        return;
    }
    request_done(request);
}

/* ---- Workers ---- */

static size_t count_ready(const struct pipeline *pipeline) {
    return pipeline->ready[0].count + pipeline->ready[1].count;
}

static void take_batch(struct pipeline *pipeline, size_t limit, struct work *work) {
    struct picture **last = &work->batch;
    for (; work->count < limit && count_ready(pipeline); work->count++) {
        struct queue *turn = &pipeline->ready[work->count % 2];
        *last = pop(turn->count ? turn : &pipeline->ready[(work->count + 1) % 2]);
        last = &(*last)->next;
    }
    *last = NULL;
}

/* Since when the first picture has been ready. */
static double ready_since(const struct pipeline *pipeline) {
    const struct picture *left = pipeline->ready[0].first, *right = pipeline->ready[1].first;
    return !right || (left && left->since < right->since) ? left->since : right->since;
}

/* Whether to run a batch now, although there is something else to do. */
static bool batch_is_due(const struct pipeline *pipeline, const struct worker *worker) {
    const double now = seconds_now();
    return count_ready(pipeline) && now >= worker->batched + DUE &&
           (count_ready(pipeline) >= worker->server->options->batch || now >= ready_since(pipeline) + DUE);
}

/* Whether to run one because there is nothing else to do; otherwise *until says when to look again. */
static bool batch_is_next(const struct pipeline *pipeline, const struct worker *worker, double *until) {
    if (!count_ready(pipeline)) {
        return false;
    }
    *until = ready_since(pipeline) + WAIT;
    return !pipeline->decoding || count_ready(pipeline) >= worker->server->options->batch || seconds_now() >= *until;
}

static void wait_until(struct pipeline *pipeline, enum lane lane, double until) {
    const struct timespec time = {.tv_sec = (time_t)until, .tv_nsec = (long)((until - (double)(time_t)until) * 1e9)};
    pipeline->idle += lane == LANE_PROMPT;
    if (until > 0) {
        pthread_cond_timedwait(&pipeline->work[lane], &pipeline->lock, &time);
    } else {
        pthread_cond_wait(&pipeline->work[lane], &pipeline->lock);
    }
    pipeline->idle -= lane == LANE_PROMPT;
}

/* What a prompt worker does next; false: nothing, until then. */
static bool next_prompt(struct pipeline *pipeline, const struct worker *worker, struct work *work, double *until) {
    if (batch_is_due(pipeline, worker) || (!take_turn(pipeline, LANE_PROMPT, work) && batch_is_next(pipeline, worker, until))) {
        const size_t ready = count_ready(pipeline), full = worker->server->options->batch;
        take_batch(pipeline, ready >= full ? full : (ready + pipeline->idle) / (pipeline->idle + 1), work);
        for (size_t lane = LANE_SLOW; lane < LANES; lane++) {
            pthread_cond_broadcast(&pipeline->work[lane]);
        }
    }
    pipeline->decoding += work->decode != NULL;
    return work->request || work->decode || work->batch;
}

/* Returns false if there is nothing left to do and the server ends. */
static bool next_work(struct worker *worker, struct work *work) {
    struct pipeline *pipeline = &worker->server->pipeline;
    const size_t full = worker->server->options->batch;
    bool found = false;
    *work = (struct work){0};
    pthread_mutex_lock(&pipeline->lock);
    for (;;) {
        double until = 0;
        /* The others decode no more than the backbone can take. */
        found = worker->lane == LANE_PROMPT ? next_prompt(pipeline, worker, work, &until)
                                            : pipeline->ready[1].count < full && take_turn(pipeline, worker->lane, work);
        if (found || (pipeline->stop && !pipeline->requests)) {
            break;
        }
        wait_until(pipeline, worker->lane, until);
    }
    pthread_mutex_unlock(&pipeline->lock);
    return found;
}

static void *work(void *argument) {
    struct worker *worker = argument;
    struct work next;
    if (worker->lane != LANE_PROMPT) {
        thread_give_way(NICER);
    }
    while (next_work(worker, &next)) {
        if (next.batch) {
            run_batch(worker, next.batch, next.count);
            worker->batched = seconds_now();
        } else if (next.decode) {
            run_decode(worker, next.decode);
        } else {
            run_request(worker, next.request);
        }
    }
    return NULL;
}

static bool worker_start(struct server *server, struct worker *worker, enum lane lane) {
    struct pipeline *pipeline = &server->pipeline;
    const l3a_context_options options = {.size = sizeof options, .threads = 1};
    const size_t batch = lane == LANE_PROMPT ? server->options->batch : 1; /* the others run none */
    worker->server = server;
    worker->lane = lane;
    if (pthread_mutex_init(&worker->lock, NULL) || l3a_reader_create(server->model.tagger, &worker->reader) != L3A_OK ||
        l3a_reader_limit(worker->reader, largest[lane]) != L3A_OK || l3a_context_create(&options, &worker->context) != L3A_OK) {
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
    for (size_t lane = 0; lane < LANES; lane++) {
        pthread_cond_init(&pipeline->work[lane], &attributes);
    }
    pthread_condattr_destroy(&attributes);
    const size_t each = (size_t)server->options->workers;
    pipeline->count = 2 * each + 1;
    pipeline->workers = calloc(pipeline->count, sizeof *pipeline->workers);
    bool good = pipeline->workers != NULL;
    for (size_t i = 0; good && i < pipeline->count; i++) {
        good = worker_start(server, &pipeline->workers[i], i < each ? LANE_PROMPT : i < 2 * each ? LANE_SLOW : LANE_HUGE);
    }
    return good;
}

void pipeline_stop(struct server *server) {
    struct pipeline *pipeline = &server->pipeline;
    pthread_mutex_lock(&pipeline->lock);
    pipeline->stop = true;
    for (size_t lane = 0; lane < LANES; lane++) {
        pthread_cond_broadcast(&pipeline->work[lane]);
    }
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
