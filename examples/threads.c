/* Teaches pictures from memory, and tags the same pictures in several threads at the same time.
 *
 *   cc threads.c $(pkg-config --cflags --libs l3a) -pthread -o threads
 *   OMP_WAIT_POLICY=passive ./threads pets.l3a vit_tiny.safetensors cat cat1.jpg cat2.jpg …
 *
 * One thread, the writer, owns the context: it opens the tagger, teaches and saves. Each of the others has a reader, and needs no
 * lock: a picture is tagged with the model as it was when its call began. */
#include <l3a/l3a.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, LESSON = 8 };

struct picture {
    const char *path;
    void *bytes; /* the whole file; the library copies what it keeps */
    size_t count;
};

struct work {
    l3a_tagger *tagger;
    const struct picture *pictures;
    size_t count;
    atomic_bool taught;  /* nothing more will be taught */
    atomic_ulong tagged; /* by all threads, while the writer teaches */
    atomic_bool failed;
};

struct reader_thread {
    pthread_t thread;
    struct work *work;
    size_t number;
};

static int read_picture(const char *path, struct picture *picture) {
    FILE *file = fopen(path, "rb");
    long size = -1;
    *picture = (struct picture){.path = path};
    if (file && fseek(file, 0, SEEK_END) == 0) {
        size = ftell(file);
        rewind(file);
    }
    picture->bytes = size > 0 ? malloc((size_t)size) : NULL;
    picture->count = picture->bytes ? fread(picture->bytes, 1, (size_t)size, file) : 0;
    if (file) {
        fclose(file);
    }
    return size > 0 && picture->count == (size_t)size;
}

static void print_tags(const char *path, const l3a_tags *tags) {
    char line[1024];
    int length = snprintf(line, sizeof line, "%s:", path);
    for (size_t i = 0; i < l3a_tags_count(tags) && length < (int)sizeof line; i++) {
        if (l3a_tags_predicted(tags, i)) {
            length += snprintf(line + length, sizeof line - (size_t)length, " %s", l3a_tags_name(tags, i));
        }
    }
    puts(line);
}

/* Tags its share of the pictures once. Prints the tags, or only counts. */
static int tag_share(l3a_reader *reader, const struct reader_thread *own, int print) {
    struct work *work = own->work;
    for (size_t i = own->number; i < work->count; i += THREADS) {
        const struct picture *picture = &work->pictures[i];
        l3a_tags *tags = NULL;
        if (l3a_reader_tag_bytes(reader, picture->path, picture->bytes, picture->count, &tags) != L3A_OK) {
            fprintf(stderr, "error: %s\nhint: %s\n", l3a_reader_error_text(reader), l3a_reader_error_hint(reader));
            return 0;
        }
        if (print) {
            print_tags(picture->path, tags);
        }
        l3a_tags_free(tags);
        work->tagged += !print;
    }
    return 1;
}

/* Tags while the writer teaches, and once more when it has finished. */
static void *read_on(void *argument) {
    struct reader_thread *own = argument;
    struct work *work = own->work;
    l3a_reader *reader = NULL;
    int good = l3a_reader_create(work->tagger, &reader) == L3A_OK;
    while (good && !work->taught && own->number < work->count) {
        good = tag_share(reader, own, 0);
    }
    good = good && tag_share(reader, own, 1);
    if (!good) {
        work->failed = true;
    }
    l3a_reader_free(reader);
    return NULL;
}

/* Teaches that the pictures [first, last) show the tag. */
static l3a_status teach(l3a_context *context, const struct work *work, const char *tag, size_t first, size_t last) {
    const l3a_judgement judgement = {.size = sizeof judgement, .tags = &tag, .tag_count = 1};
    l3a_lesson *lesson = NULL;
    l3a_status status = l3a_lesson_create(context, &lesson);
    for (size_t i = first; status == L3A_OK && i < last; i++) {
        const struct picture *picture = &work->pictures[i];
        status = l3a_lesson_add_bytes(lesson, picture->path, picture->bytes, picture->count, &judgement);
    }
    if (status == L3A_OK) {
        status = l3a_tagger_teach(work->tagger, lesson, NULL, NULL);
    }
    l3a_lesson_free(lesson);
    return status;
}

/* The first lesson comes before the readers: a model without classes has nothing to tag with. */
static l3a_status teach_beside_readers(l3a_context *context, struct work *work, const char *tag) {
    struct reader_thread readers[THREADS];
    size_t started = 0, done = work->count < LESSON ? work->count : LESSON;
    l3a_status status = teach(context, work, tag, 0, done);
    for (; status == L3A_OK && started < THREADS; started++) {
        readers[started] = (struct reader_thread){.work = work, .number = started};
        if (pthread_create(&readers[started].thread, NULL, read_on, &readers[started]) != 0) {
            work->failed = true;
            break;
        }
    }
    while (status == L3A_OK && done < work->count) {
        const size_t last = done + LESSON < work->count ? done + LESSON : work->count;
        status = teach(context, work, tag, done, last);
        done = last;
    }
    work->taught = true;
    for (size_t i = 0; i < started; i++) {
        pthread_join(readers[i].thread, NULL);
    }
    return status;
}

/* The model with its backbone, or a new one with the settings that suit teaching. */
static l3a_status open_tagger(l3a_context *context, const char *model, const char *backbone, l3a_tagger **tagger) {
    const l3a_tagger_options options = {.size = sizeof options, .backbone = backbone};
    l3a_options *settings = NULL;
    l3a_status status = l3a_options_create(context, &settings);
    if (status == L3A_OK) {
        status = l3a_lesson_settings(context, settings);
    }
    if (status == L3A_OK) {
        status = l3a_tagger_create(context, model, settings, &options, tagger);
    }
    if (status == L3A_ERROR_EXISTS) {
        status = l3a_tagger_open(context, model, &options, tagger);
    }
    l3a_options_free(settings);
    return status;
}

static int run(struct work *work, const char *model, const char *backbone, const char *tag) {
    const l3a_context_options one = {.size = sizeof one, .threads = 1}; /* the readers are the parallelism */
    l3a_context *context = NULL;
    l3a_lock *lock = NULL;
    l3a_status status = l3a_context_create(&one, &context);
    if (status == L3A_OK) { /* no other process changes the model between loading and saving */
        status = l3a_lock_take(context, model, 1, &lock);
    }
    if (status == L3A_OK) {
        status = open_tagger(context, model, backbone, &work->tagger);
    }
    if (status == L3A_OK) {
        status = teach_beside_readers(context, work, tag);
    }
    if (status == L3A_OK) {
        status = l3a_tagger_save(work->tagger);
    }
    if (status == L3A_OK) {
        fprintf(stderr, "%s: taught %zu pictures, tagged %lu meanwhile\n", model, work->count, (unsigned long)work->tagged);
    } else {
        fprintf(stderr, "%s: %s\nhint: %s\n", l3a_status_name(status), l3a_error_text(context), l3a_error_hint(context));
    }
    l3a_tagger_free(work->tagger);
    l3a_lock_free(lock);
    l3a_context_free(context);
    return status == L3A_OK && !work->failed ? 0 : 1;
}

int main(int count, char **arguments) {
    if (count < 5) {
        fprintf(stderr, "usage: threads MODEL BACKBONE TAG PICTURE…\n");
        return 2;
    }
    const size_t pictures = (size_t)count - 4;
    struct picture *read = calloc(pictures, sizeof *read);
    struct work work = {.pictures = read, .count = pictures};
    int code = read ? 0 : 1;
    for (size_t i = 0; code == 0 && i < pictures; i++) {
        if (!read_picture(arguments[4 + i], &read[i])) {
            fprintf(stderr, "error: %s: cannot be read\n", arguments[4 + i]);
            code = 1;
        }
    }
    if (code == 0) {
        code = run(&work, arguments[1], arguments[2], arguments[3]);
    }
    for (size_t i = 0; read && i < pictures; i++) {
        free(read[i].bytes);
    }
    free(read);
    return code;
}
