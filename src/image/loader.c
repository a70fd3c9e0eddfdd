/* Delivers pictures in order, decoding ahead on several threads.
 *
 * Picture i goes into slot i mod `ahead` of a ring. Each thread takes the next picture whose slot is free, and leaves the
 * resized bytes or the error in the slot. The caller's thread waits for the slot of its picture and converts the bytes to
 * floats there, straight into the caller's memory: a slot is then a quarter of the size, and each number is written once.
 *
 * With a single thread, each picture is decoded when it is requested.
 *
 * The mutex guards the counters and each slot's `ready`. The rest of a slot belongs to the thread that fills it until it is
 * ready, and then to the caller's thread until it is delivered. Each thread has its own context, with the same allocator, so
 * that an error is written by one thread only. */
#include "image/loader.h"

#include "base/machine.h"
#include "base/memory.h"
#include "base/sized.h"
#include "image/prepare.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

enum { CHANNELS = 3, THREAD_LIMIT = 1024 };

struct slot {
    bool ready;
    struct raster picture; /* its views */
    uint64_t checksum;     /* of its bytes */
    l3a_status status;
    char error_text[sizeof((l3a_context *)0)->error_text];
    char error_hint[sizeof((l3a_context *)0)->error_hint];
};

struct worker {
    l3a_loader *loader;
    l3a_context *context;
    struct preparer preparer;
    pthread_t thread;
};

struct l3a_loader {
    l3a_context *context;
    l3a_loader_options options;
    l3a_picture_options picture;
    struct loader_changes changes;
    const struct picture_source *pictures;
    struct picture_source *owned_pictures;
    size_t count;
    struct slot *slots;
    size_t ahead;
    struct worker *workers;
    size_t worker_count, started;
    bool has_lock;
    pthread_mutex_t lock;
    pthread_cond_t room, arrival;
    size_t taken, delivered; /* pictures [delivered, taken) are in slots */
    uint64_t checksum;       /* of the picture delivered last */
    bool stop;
};

/* Puts defaults where the caller's options are 0. */
static l3a_status complete_options(l3a_loader *loader) {
    l3a_loader_options *options = &loader->options;
    l3a_status status = L3A_OK;
    TRY(picture_options_read(loader->context, options->picture, &loader->picture));
    options->picture = &loader->picture;
    options->width = options->width ? options->width : 224;
    options->height = options->height ? options->height : 224;
    options->views = options->views ? options->views : 1;
    for (size_t c = 0; c < CHANNELS; c++) {
        options->deviation[c] = options->deviation[c] != 0 ? options->deviation[c] : 1;
    }
done:
    return status;
}

static struct slot *fill(struct worker *worker, size_t index) {
    l3a_loader *loader = worker->loader;
    struct slot *slot = &loader->slots[index % loader->ahead];
    if (loader->changes.rows) {
        worker->preparer.seed = augmentation_seed(loader->changes.seed, loader->changes.rows[index]);
    }
    slot->status = preparer_read(&worker->preparer, &loader->pictures[index], &slot->picture);
    slot->checksum = worker->preparer.reader.checksum;
    if (slot->status != L3A_OK) {
        memcpy(slot->error_text, worker->context->error_text, sizeof slot->error_text);
        memcpy(slot->error_hint, worker->context->error_hint, sizeof slot->error_hint);
    }
    return slot;
}

/* False when there is nothing left to do. */
static bool take(l3a_loader *loader, size_t *index) {
    pthread_mutex_lock(&loader->lock);
    while (!loader->stop && loader->taken < loader->count && loader->taken - loader->delivered == loader->ahead) {
        pthread_cond_wait(&loader->room, &loader->lock);
    }
    const bool more = !loader->stop && loader->taken < loader->count;
    *index = more ? loader->taken++ : loader->taken;
    pthread_mutex_unlock(&loader->lock);
    return more;
}

static void hand_over(l3a_loader *loader, size_t index) {
    pthread_mutex_lock(&loader->lock);
    loader->slots[index % loader->ahead].ready = true;
    if (index == loader->delivered) {
        pthread_cond_signal(&loader->arrival);
    }
    pthread_mutex_unlock(&loader->lock);
}

static void *work(void *argument) {
    struct worker *worker = argument;
    size_t index;
    while (take(worker->loader, &index)) {
        fill(worker, index);
        hand_over(worker->loader, index);
    }
    return NULL;
}

/* Two pictures per thread: one being decoded, one waiting. */
static l3a_status make_slots(l3a_loader *loader) {
    l3a_status status = L3A_OK;
    const l3a_loader_options *options = &loader->options;
    const uint64_t asked = loader->context->options.memory_limit, limit = asked ? asked : machine_memory_available();
    const size_t wanted = options->ahead ? options->ahead : 2 * loader->worker_count;
    const size_t views = view_rows(options->views);
    uint64_t pixels, bytes;
    loader->ahead = loader->worker_count == 1 ? 1 : wanted < loader->count ? wanted : loader->count;
    FAIL_IF(!multiply_sizes(options->width, options->height, &pixels) ||
                !multiply_sizes(pixels, CHANNELS * views * loader->ahead, &bytes) || (limit && bytes > limit),
            loader->context, L3A_ERROR_MEMORY, "use a smaller size or fewer pictures ahead",
            "decoding %zu pictures of %zu x %zu pixels ahead does not fit the memory limit", loader->ahead, options->width,
            options->height);
    TRY(allocate_zeroed(loader->context, loader->ahead, sizeof *loader->slots, &loader->slots));
    for (size_t i = 0; i < loader->ahead; i++) {
        TRY(raster_shape(loader->context, &loader->slots[i].picture, options->width, views * options->height));
    }
done:
    return status;
}

static l3a_status make_workers(l3a_loader *loader) {
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(loader->context, loader->worker_count, sizeof *loader->workers, &loader->workers));
    for (size_t i = 0; i < loader->worker_count; i++) {
        struct worker *worker = &loader->workers[i];
        FAIL_IF(context_fork(loader->context, 1, false, &worker->context) != L3A_OK, loader->context, L3A_ERROR_MEMORY, NULL,
                "no memory for the threads that read pictures");
        worker->loader = loader;
        preparer_start(worker->context, &loader->options, &worker->preparer);
        worker->preparer.augmentation = loader->changes.augmentation;
    }
done:
    return status;
}

/* Signals are left to the host's threads. If no thread can be started, the caller's thread does the work. */
static void start(l3a_loader *loader) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (loader->worker_count > 1 && loader->started < loader->worker_count) {
        struct worker *worker = &loader->workers[loader->started];
        if (pthread_create(&worker->thread, NULL, work, worker)) {
            break;
        }
        loader->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static l3a_status make_lock(l3a_loader *loader) {
    if (pthread_mutex_init(&loader->lock, NULL)) {
        return fail(loader->context, L3A_ERROR_MEMORY, NULL, "no memory for a lock");
    }
    pthread_cond_init(&loader->room, NULL);
    pthread_cond_init(&loader->arrival, NULL);
    loader->has_lock = true;
    return L3A_OK;
}

static l3a_status check_changes(const l3a_loader *loader) {
    const struct augmentation *augmentation = &loader->changes.augmentation;
    l3a_status status = L3A_OK;
    TRY(augmentation_check(loader->context, augmentation));
    FAIL_IF(augmentation_acts(augmentation) && loader->options.views > 1, loader->context, L3A_ERROR_ARGUMENT, "use 1 view",
            "pictures with %zu views cannot be changed at random", loader->options.views);
done:
    return status;
}

l3a_status loader_create(l3a_context *context, const struct picture_source *pictures, size_t count,
                         const l3a_loader_options *options, const struct loader_changes *changes, l3a_loader **loader) {
    l3a_status status = L3A_OK;
    l3a_loader *made = NULL;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->pictures = pictures;
    made->count = count;
    made->options = *options;
    made->changes = changes ? *changes : (struct loader_changes){.rows = NULL};
    TRY(complete_options(made));
    TRY(check_loader_options(context, &made->options));
    TRY(check_changes(made));
    const size_t threads = context->threads < THREAD_LIMIT ? (size_t)context->threads : THREAD_LIMIT;
    made->worker_count = threads < count ? threads : count ? count : 1;
    TRY(make_lock(made));
    TRY(make_slots(made));
    TRY(make_workers(made));
    start(made);
    *loader = made;
    made = NULL;
done:
    l3a_loader_free(made);
    return status;
}

l3a_status pictures_in_files(l3a_context *context, const char *const *paths, size_t count, struct picture_source **pictures) {
    const l3a_status status = allocate(context, count, sizeof **pictures, pictures);
    for (size_t i = 0; status == L3A_OK && i < count; i++) {
        (*pictures)[i] = (struct picture_source){.name = paths[i]};
    }
    return status;
}

l3a_status l3a_loader_create(l3a_context *context, const char *const *paths, size_t count, const l3a_loader_options *options,
                             l3a_loader **loader) {
    l3a_status status = L3A_OK;
    struct picture_source *pictures = NULL;
    l3a_loader_options own;
    NEED(context, context, loader);
    if (count) {
        NEED(context, paths);
        TRY(need_items(context, __func__, "paths", paths, count));
    }
    TRY(READ_SIZED(context, options, own));
    TRY(pictures_in_files(context, paths, count, &pictures));
    TRY(loader_create(context, pictures, count, &own, NULL, loader));
    (*loader)->owned_pictures = pictures;
    pictures = NULL;
done:
    if (context) {
        release(context, pictures);
    }
    return status;
}

static struct slot *wait_for_next(l3a_loader *loader) {
    struct slot *slot = &loader->slots[loader->delivered % loader->ahead];
    pthread_mutex_lock(&loader->lock);
    while (!slot->ready) {
        pthread_cond_wait(&loader->arrival, &loader->lock);
    }
    pthread_mutex_unlock(&loader->lock);
    return slot;
}

static struct slot *load_next(l3a_loader *loader) {
    return fill(&loader->workers[0], loader->delivered);
}

static void free_slot(l3a_loader *loader, struct slot *slot) {
    pthread_mutex_lock(&loader->lock);
    slot->ready = false;
    loader->delivered++;
    pthread_cond_signal(&loader->room);
    pthread_mutex_unlock(&loader->lock);
}

l3a_status loader_next(l3a_loader *loader, float *planes) {
    struct slot *slot = loader->started ? wait_for_next(loader) : load_next(loader);
    const l3a_status status = slot->status;
    if (status == L3A_OK) {
        preparer_deliver(&loader->workers[0].preparer, &slot->picture, planes);
    } else {
        fail(loader->context, status, slot->error_hint, "%s", slot->error_text);
    }
    loader->checksum = slot->checksum;
    free_slot(loader, slot);
    return status;
}

l3a_status l3a_loader_next(l3a_loader *loader, size_t *index, float *planes) {
    REQUIRE(loader, loader, index, planes);
    l3a_status status = L3A_OK;
    TRY(report_progress(loader->context, "pictures", loader->delivered, loader->count));
    *index = loader->delivered;
    TRY(loader->delivered < loader->count ? loader_next(loader, planes) : L3A_OK);
done:
    return status;
}

size_t loader_numbers(const l3a_loader *loader) {
    return view_rows(loader->options.views) * CHANNELS * loader->options.width * loader->options.height;
}

uint64_t loader_checksum(const l3a_loader *loader) {
    return loader->checksum;
}

static void stop(l3a_loader *loader) {
    pthread_mutex_lock(&loader->lock);
    loader->stop = true;
    pthread_cond_broadcast(&loader->room);
    pthread_mutex_unlock(&loader->lock);
    for (size_t i = 0; i < loader->started; i++) {
        pthread_join(loader->workers[i].thread, NULL);
    }
    pthread_cond_destroy(&loader->room);
    pthread_cond_destroy(&loader->arrival);
    pthread_mutex_destroy(&loader->lock);
}

void l3a_loader_free(l3a_loader *loader) {
    if (!loader) {
        return;
    }
    l3a_context *context = loader->context;
    if (loader->has_lock) {
        stop(loader);
    }
    for (size_t i = 0; loader->workers && i < loader->worker_count; i++) {
        preparer_free(&loader->workers[i].preparer);
        l3a_context_free(loader->workers[i].context);
    }
    for (size_t i = 0; loader->slots && i < loader->ahead; i++) {
        raster_free(context, &loader->slots[i].picture);
    }
    release(context, loader->owned_pictures);
    release(context, loader->workers);
    release(context, loader->slots);
    release(context, loader);
}
