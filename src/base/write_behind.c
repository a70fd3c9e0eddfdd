/* Chunk i is in slot i mod `slot_count` of a ring. With one thread, or few bytes, there is one slot, and the caller's thread
 * writes.
 *
 * The mutex guards the counters, `stop` and `code`. A slot belongs to the caller until it is handed over, and then to the other
 * thread until it is written. That thread records an errno; the caller's makes it an error. */
#include "base/write_behind.h"

#include "base/memory.h"

#include <pthread.h>
#include <signal.h>

enum { PAGE = 4096 };

struct write_behind {
    const output_file *output;
    char *chunks;
    size_t slot_count, slot_bytes;
    struct slot {
        uint64_t offset;
        size_t count;
    } slots[WRITE_CHUNKS];
    bool has_lock, has_thread;
    pthread_mutex_t lock;
    pthread_cond_t room, arrival;
    pthread_t thread;
    size_t given, written; /* chunks; those in [written, given) are in slots */
    int code;              /* errno of the first write that failed */
    bool stop;
};

/* Returns 0 or an errno. It does no harm if the way to the disk cannot be started: the sync at the end reports what is wrong. A
 * chunk that is not full is not worth a start of its own, and the page in which it ends is left to the next chunk: a page that is
 * on its way cannot be written to. */
static int write_chunk(const write_behind *writer, size_t index) {
    const output_file *output = writer->output;
    const struct slot *slot = &writer->slots[index % writer->slot_count];
    const char *bytes = writer->chunks + index % writer->slot_count * writer->slot_bytes;
    const int code = output_put(output, slot->offset, bytes, slot->count);
    if (!code && slot->count == WRITE_CHUNK) {
        const uint64_t end = (slot->offset + slot->count) / PAGE * PAGE;
        output->context->files->start_sync(output->file, (off_t)slot->offset, (off_t)(end - slot->offset));
    }
    return code;
}

/* After a failure, nothing more is written. */
static void *write_chunks(void *argument) {
    write_behind *writer = argument;
    pthread_mutex_lock(&writer->lock);
    for (;;) {
        while (!writer->stop && writer->written == writer->given) {
            pthread_cond_wait(&writer->arrival, &writer->lock);
        }
        if (writer->written == writer->given) {
            break;
        }
        const size_t index = writer->written;
        if (!writer->code) {
            pthread_mutex_unlock(&writer->lock);
            const int code = write_chunk(writer, index);
            pthread_mutex_lock(&writer->lock);
            writer->code = code;
        }
        writer->written++;
        pthread_cond_signal(&writer->room);
    }
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

/* Signals are left to the host's threads. If no thread can be started, the caller's does the work. */
static void start(write_behind *writer) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    writer->has_thread = pthread_create(&writer->thread, NULL, write_chunks, writer) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void stop(write_behind *writer) {
    if (writer->has_thread) {
        pthread_mutex_lock(&writer->lock);
        writer->stop = true;
        pthread_cond_signal(&writer->arrival);
        pthread_mutex_unlock(&writer->lock);
        pthread_join(writer->thread, NULL);
        writer->has_thread = false;
    }
}

l3a_status write_behind_create(const output_file *output, uint64_t total, write_behind **made) {
    l3a_context *context = output->context;
    l3a_status status = L3A_OK;
    write_behind *writer = NULL;
    const uint64_t needed = (total + WRITE_CHUNK - 1) / WRITE_CHUNK;
    TRY(allocate_zeroed(context, 1, sizeof *writer, &writer));
    writer->output = output;
    writer->slot_count = context->threads < 2 || needed < 2 ? 1 : needed < WRITE_CHUNKS ? (size_t)needed : WRITE_CHUNKS;
    writer->slot_bytes = total < WRITE_CHUNK ? (size_t)total : WRITE_CHUNK;
    TRY(allocate(context, writer->slot_count, writer->slot_bytes, &writer->chunks));
    FAIL_IF(pthread_mutex_init(&writer->lock, NULL), context, L3A_ERROR_MEMORY, NULL, "no memory for a lock");
    pthread_cond_init(&writer->room, NULL);
    pthread_cond_init(&writer->arrival, NULL);
    writer->has_lock = true;
    if (writer->slot_count > 1) {
        start(writer);
    }
    *made = writer;
    writer = NULL;
done:
    write_behind_free(writer);
    return status;
}

static l3a_status check(const write_behind *writer, int code) {
    return code ? fail_system(writer->output->context, writer->output->path, "write", code) : L3A_OK;
}

l3a_status write_behind_room(write_behind *writer, char **chunk) {
    pthread_mutex_lock(&writer->lock);
    while (writer->given - writer->written == writer->slot_count) {
        pthread_cond_wait(&writer->room, &writer->lock);
    }
    const int code = writer->code;
    pthread_mutex_unlock(&writer->lock);
    *chunk = writer->chunks + writer->given % writer->slot_count * writer->slot_bytes;
    return check(writer, code);
}

l3a_status write_behind_put(write_behind *writer, uint64_t offset, size_t count) {
    writer->slots[writer->given % writer->slot_count] = (struct slot){offset, count};
    if (!writer->has_thread) {
        return check(writer, write_chunk(writer, writer->given));
    }
    pthread_mutex_lock(&writer->lock);
    writer->given++;
    pthread_cond_signal(&writer->arrival);
    pthread_mutex_unlock(&writer->lock);
    return L3A_OK;
}

l3a_status write_behind_finish(write_behind *writer) {
    stop(writer);
    return check(writer, writer->code);
}

void write_behind_free(write_behind *writer) {
    if (!writer) {
        return;
    }
    stop(writer);
    if (writer->has_lock) {
        pthread_cond_destroy(&writer->room);
        pthread_cond_destroy(&writer->arrival);
        pthread_mutex_destroy(&writer->lock);
    }
    release(writer->output->context, writer->chunks);
    release(writer->output->context, writer);
}
