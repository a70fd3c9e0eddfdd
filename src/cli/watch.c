/* l3a tag --watch: pictures are tagged as they arrive in folders.
 *
 * They go into the index of the model's library, so that each is looked at once, and l3a find knows them. The pictures to tag are
 * those that wait there, and those with a higher number than any that was tagged before, whoever has looked at them. That number is
 * kept in the index as a note, so that a restart misses nothing. What is written beside the pictures is noticed like all else in
 * the folders, and is no picture. */
#include "indexed.h"
#include "tag.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { AT_ONCE = 16, RECENT = 1024, UNREAD = 256 };
static const double WAIT_SECONDS = 0.5;
static const time_t SETTLE_SECONDS = 3;

struct watching {
    struct tag_run *run;
    const struct arguments *arguments;
    struct indexed indexed;
    l3a_watch *watch;
    l3a_reader *reader;
    char *where, *note; /* the pictures in the folders; the name of the note */
    uint64_t *ids;      /* to be tagged: those that came last first */
    size_t count, tagged;
    uint64_t seen, last; /* up to which all were tagged, and will be when the list is done */
    float *features;
    char *paths[AT_ONCE]; /* of pictures that are scored together */
    size_t scored;
    struct {
        uint64_t id, what;
    } recent[RECENT]; /* what was reported just now: a picture that has just been written is looked at twice */
    size_t next_recent;
    struct {
        uint64_t id;
        time_t since;
    } unread[UNREAD]; /* could not be read, perhaps because they were still being written */
    size_t unread_count;
    int told; /* the exit code of an error that the reader has, and that was explained */
};

/* ---- What there is to tag ---- */

static bool describe_folders(struct watching *watching) {
    const struct arguments *arguments = watching->arguments;
    size_t length, note_length;
    FILE *where = open_memstream(&watching->where, &length), *note = open_memstream(&watching->note, &note_length);
    bool good = where && note;
    if (good) {
        fputs("watch", note);
    }
    for (size_t i = 1; good && i < arguments->positional_count; i++) {
        char *path = realpath(arguments->positionals[i], NULL);
        good = path != NULL;
        if (good) {
            fputs(i > 1 ? "or " : "", where);
            write_quoted(where, "folder:", path);
            fputs(" ", note);
            fputs(path, note);
        }
        free(path);
    }
    good = (!where || fclose(where) == 0) && good;
    return (!note || fclose(note) == 0) && good;
}

static int compare_ids(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a < b) - (a > b);
}

/* Adds what an expression finds, except up to `above`. */
static l3a_status add_ids(struct watching *watching, const char *is, uint64_t above) {
    l3a_find_options options = {.size = sizeof options};
    l3a_found *found = NULL;
    char *where = NULL;
    if (asprintf(&where, "%s (%s)", is, watching->where) < 0) {
        return L3A_ERROR_MEMORY;
    }
    options.where = where;
    l3a_status status = l3a_library_find(watching->indexed.library, &options, &found);
    const size_t count = l3a_found_count(found);
    uint64_t *grown = realloc(watching->ids, (watching->count + count + 1) * sizeof *grown);
    status = status == L3A_OK && !grown ? L3A_ERROR_MEMORY : status;
    watching->ids = grown ? grown : watching->ids;
    for (size_t i = 0; status == L3A_OK && i < count; i++) {
        const uint64_t id = l3a_found_id(found, i);
        if (id > above) {
            watching->ids[watching->count++] = id;
            watching->last = id > watching->last ? id : watching->last;
        }
    }
    l3a_found_free(found);
    free(where);
    return status;
}

/* Whether this was reported about a picture just now; from now on, it was. what: a checksum, or the size of one without. */
static bool is_recent(struct watching *watching, uint64_t id, uint64_t what) {
    for (size_t i = 0; i < RECENT; i++) {
        if (watching->recent[i].id == id && watching->recent[i].what == what) {
            return true;
        }
    }
    watching->recent[watching->next_recent].id = id;
    watching->recent[watching->next_recent].what = what;
    watching->next_recent = (watching->next_recent + 1) % RECENT;
    return false;
}

/* A picture that was looked at when it had just been written waits once more, and its content tells whether it has changed. */
static l3a_status recall_content(struct watching *watching) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < watching->count && status == L3A_OK; i++) {
        l3a_library_picture picture = {.size = sizeof picture};
        if (watching->ids[i] <= watching->seen) {
            status = l3a_library_picture_at(watching->indexed.library, watching->ids[i], &picture);
            status = status == L3A_ERROR_NOT_FOUND ? L3A_OK : status;
        }
        if (picture.checksum) {
            is_recent(watching, watching->ids[i], picture.checksum);
        }
    }
    return status;
}

static l3a_status list_pictures_to_tag(struct watching *watching) {
    watching->count = 0;
    l3a_status status = add_ids(watching, "is:waiting", 0);
    if (status == L3A_OK) {
        status = recall_content(watching);
    }
    if (status == L3A_OK) {
        status = add_ids(watching, "(is:done or is:failed)", watching->seen);
    }
    if (status == L3A_OK && watching->count) {
        qsort(watching->ids, watching->count, sizeof *watching->ids, compare_ids);
    }
    return status;
}

/* All that was listed is tagged. */
static l3a_status write_note(struct watching *watching) {
    char text[32];
    watching->seen = watching->last;
    snprintf(text, sizeof text, "%" PRIu64, watching->seen);
    return l3a_library_set_note(watching->indexed.library, watching->note, text);
}

/* When the folders are watched for the first time, the pictures that the index knows already are left alone. */
static l3a_status read_note(struct watching *watching) {
    const char *text;
    l3a_status status = l3a_library_note(watching->indexed.library, watching->note, &text);
    if (status == L3A_OK && text[0]) {
        watching->seen = strtoull(text, NULL, 10);
    } else if (status == L3A_OK) {
        status = add_ids(watching, "(is:done or is:failed or is:waiting)", 0);
        return status == L3A_OK ? write_note(watching) : status;
    }
    watching->last = watching->seen;
    return status;
}

/* ---- Tagging ---- */

static int take_tags(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    struct watching *watching = user;
    struct tag_run *run = watching->run;
    const char *path = watching->paths[index];
    (void)status;
    progress_clear();
    write_tag_row(&run->form, short_path(watching->arguments, path), tags, NULL);
    fflush(run->form.printer.to);
    write_tag_sidecar(run, path, tags);
    return 0;
}

static l3a_status tag_scored(struct watching *watching) {
    l3a_status status = L3A_OK;
    if (watching->scored) {
        status = l3a_reader_score(watching->reader, watching->features, watching->scored, take_tags, watching);
    }
    if (status != L3A_OK) {
        progress_clear();
        watching->told = explain_error(watching->arguments, status, l3a_reader_error_text(watching->reader),
                                       l3a_reader_error_hint(watching->reader));
    }
    for (size_t i = 0; i < watching->scored; i++) {
        free(watching->paths[i]);
    }
    watching->tagged += status == L3A_OK ? watching->scored : 0;
    watching->scored = 0;
    return status;
}

static time_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

/* A picture that is still being written cannot be read, and comes again. One that does not is reported a little later. */
static void note_failure(struct watching *watching, uint64_t id) {
    for (size_t i = 0; i < watching->unread_count; i++) {
        if (watching->unread[i].id == id) {
            return;
        }
    }
    if (watching->unread_count < UNREAD) {
        watching->unread[watching->unread_count].id = id;
        watching->unread[watching->unread_count++].since = now();
    }
}

static void report_failures(struct watching *watching, time_t before) {
    size_t kept = 0;
    for (size_t i = 0; i < watching->unread_count; i++) {
        l3a_library_picture picture = {.size = sizeof picture};
        if (watching->unread[i].since > before) {
            watching->unread[kept++] = watching->unread[i];
        } else if (l3a_library_picture_at(watching->indexed.library, watching->unread[i].id, &picture) == L3A_OK &&
                   picture.state == L3A_PICTURE_FAILED && !is_recent(watching, picture.id, picture.bytes)) {
            progress_clear();
            write_tag_row(&watching->run->form, short_path(watching->arguments, picture.path), NULL, picture.problem);
            fflush(watching->run->form.printer.to);
            watching->run->bad++;
        }
    }
    watching->unread_count = kept;
}

/* *waits: it was not looked at yet. */
static l3a_status tag_picture(struct watching *watching, uint64_t id, bool *waits) {
    l3a_library_picture picture = {.size = sizeof picture};
    l3a_status status = l3a_library_picture_at(watching->indexed.library, id, &picture);
    *waits = status == L3A_OK && picture.state == L3A_PICTURE_WAITING;
    if (status != L3A_OK || *waits) {
        return status == L3A_ERROR_NOT_FOUND ? L3A_OK : status; /* it is gone again */
    }
    if (picture.state == L3A_PICTURE_FAILED) {
        note_failure(watching, id);
        if (watching->unread_count == UNREAD) {
            report_failures(watching, now());
        }
    }
    if (picture.state != L3A_PICTURE_DONE || is_recent(watching, id, picture.checksum)) {
        return L3A_OK;
    }
    char *path = strdup(picture.path);
    float *features = watching->features + watching->scored * l3a_reader_width(watching->reader);
    status = path ? l3a_library_features(watching->indexed.library, id, features) : L3A_ERROR_MEMORY;
    if (status != L3A_OK) {
        free(path);
        *waits = status == L3A_ERROR_CHECKSUM || status == L3A_ERROR_STATE; /* it is looked at again */
        return *waits ? L3A_OK : status;
    }
    watching->paths[watching->scored++] = path;
    return watching->scored == AT_ONCE ? tag_scored(watching) : L3A_OK;
}

/* Tags those of the first few that have been looked at. */
static l3a_status tag_known(struct watching *watching) {
    const size_t count = watching->count < AT_ONCE ? watching->count : AT_ONCE;
    size_t kept = 0;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < count && status == L3A_OK; i++) {
        bool waits;
        status = tag_picture(watching, watching->ids[i], &waits);
        if (waits) {
            watching->ids[kept++] = watching->ids[i];
        }
    }
    const l3a_status scored = tag_scored(watching);
    memmove(watching->ids + kept, watching->ids + count, (watching->count - count) * sizeof *watching->ids);
    watching->count -= count - kept;
    return status == L3A_OK ? scored : status;
}

/* ---- The way through ---- */

/* An interruption lets the batch in progress be tagged. */
static l3a_status look_and_tag(struct watching *watching) {
    const l3a_look_options options = {.size = sizeof options, .most = AT_ONCE, .newest = 1};
    const l3a_status looked = l3a_library_look(watching->indexed.library, &options, NULL);
    const l3a_status status = looked == L3A_OK || looked == L3A_ERROR_CANCELLED ? tag_known(watching) : looked;
    return status == L3A_OK && !watching->count && watching->last != watching->seen ? write_note(watching) : status;
}

static l3a_status step(struct watching *watching, bool *changed) {
    int more = 0;
    l3a_status status = L3A_OK;
    if (*changed) {
        status = l3a_library_scan(watching->indexed.library, NULL);
        status = status == L3A_OK ? list_pictures_to_tag(watching) : status;
        *changed = status != L3A_OK;
    }
    if (status == L3A_OK) {
        status = indexed_follow_model(&watching->indexed);
    }
    if (status == L3A_OK && watching->count) {
        status = look_and_tag(watching);
    }
    if (status == L3A_OK && !interrupted) {
        status = l3a_watch_next(watching->watch, watching->count ? 0 : WAIT_SECONDS, &more, NULL);
        *changed = *changed || more;
    }
    return status;
}

static l3a_status prepare(struct watching *watching) {
    const struct arguments *arguments = watching->arguments;
    l3a_status status = L3A_OK;
    for (size_t i = 1; status == L3A_OK && i < arguments->positional_count; i++) {
        status = l3a_library_add(watching->indexed.library, arguments->positionals[i]);
    }
    if (status == L3A_OK && !describe_folders(watching)) {
        status = L3A_ERROR_MEMORY;
    }
    if (status == L3A_OK) {
        status =
            l3a_watch_open(arguments->context, arguments->positionals + 1, arguments->positional_count - 1, 0, &watching->watch);
    }
    if (status == L3A_OK) {
        status = l3a_reader_create(watching->indexed.tagger, &watching->reader);
    }
    watching->features = calloc(AT_ONCE, (l3a_reader_width(watching->reader) + 1) * sizeof *watching->features);
    status = status == L3A_OK && !watching->features ? L3A_ERROR_MEMORY : status;
    return status == L3A_OK ? read_note(watching) : status;
}

static int watch(struct watching *watching) {
    bool changed = true;
    l3a_status status = prepare(watching);
    if (status == L3A_OK) {
        write_tag_head(&watching->run->form);
        fflush(stdout);
    }
    while (status == L3A_OK && !interrupted && !ferror(stdout)) {
        status = step(watching, &changed);
        report_failures(watching, now() - SETTLE_SECONDS);
        if (!watching->count) {
            progress_pause(); /* what comes now is a few pictures at a time */
        }
    }
    progress_clear();
    report_failures(watching, now());
    if (!watching->arguments->quiet) {
        fprintf(stderr, "%zu %s tagged, %zu cannot be read; XMP files: %zu written, %zu unchanged, %zu failed\n", watching->tagged,
                plural(watching->tagged, "picture", "pictures"), watching->run->bad, watching->run->written,
                watching->run->unchanged, watching->run->failed);
    }
    return interrupted ? EXIT_DONE : watching->told ? watching->told : indexed_explain(&watching->indexed, status);
}

/* ---- The command ---- */

static bool arguments_fit(const struct arguments *arguments, const struct tag_run *run) {
    static const char *const excluded[] = {"shard", "shards"};
    for (size_t i = 0; i < 2; i++) {
        if (argument(arguments, excluded[i])) {
            complain(arguments, "--%s and --watch cannot be used together", excluded[i]);
            return false;
        }
    }
    if (run->form.order != GIVEN) {
        complain(arguments, "--watch tags pictures as they arrive, in no other order");
        return false;
    }
    if (run->form.output && strcmp(run->form.output, "-") != 0) {
        complain(arguments, "--watch writes to the standard output: use '> %s' instead of -o", run->form.output);
        return false;
    }
    if (run->form.printer.form == FORM_JSON && !run->form.lines) {
        complain(arguments, "--watch has no end, and JSON would have none: use --format jsonl");
        return false;
    }
    for (size_t i = 1; i < arguments->positional_count; i++) {
        struct stat about;
        if (stat(arguments->positionals[i], &about) || !S_ISDIR(about.st_mode)) {
            complain(arguments, "%s: --watch needs folders, and this is none", arguments->positionals[i]);
            return false;
        }
    }
    return true;
}

int watch_folders(struct tag_run *run) {
    struct watching watching = {.run = run, .arguments = run->arguments};
    if (!arguments_fit(run->arguments, run)) {
        return EXIT_USAGE;
    }
    run->form.output = NULL;
    run->xmp = true;
    int code = indexed_open(run->arguments, false, true, &watching.indexed);
    if (code == EXIT_DONE) {
        code = watch(&watching);
    }
    l3a_reader_free(watching.reader);
    l3a_watch_free(watching.watch);
    indexed_close(&watching.indexed);
    free(watching.features);
    free(watching.ids);
    free(watching.where);
    free(watching.note);
    return code == EXIT_DONE ? run->code : code;
}
