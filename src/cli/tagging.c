/* Tagging pictures, as predict and tag do it: which tags are shown, how they are written, and the way through the pictures. */
#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool views_argument(const struct arguments *arguments, size_t *views) {
    const char *given = argument(arguments, "views"), *known = given ? argument_choice(arguments, "views", "1|5|9|14", "1") : "0";
    *views = known ? strtoul(known, NULL, 10) : 0;
    return known != NULL;
}

bool tag_choice_arguments(const struct arguments *arguments, struct tag_choice *choice) {
    *choice = (struct tag_choice){.threshold = NAN};
    if (!argument_integer(arguments, "top", 1, 1000000, &choice->top) ||
        !argument_number(arguments, "threshold", -1e6, 1e6, &choice->threshold)) {
        return false;
    }
    if (choice->top > 0 && !isnan(choice->threshold)) {
        complain(arguments, "--top and --threshold cannot be used together");
        return false;
    }
    return true;
}

bool tag_is_chosen(const struct tag_choice *choice, const l3a_tags *tags, size_t index) {
    return choice->top                ? index < choice->top
           : isnan(choice->threshold) ? l3a_tags_predicted(tags, index)
                                      : (double)l3a_tags_score(tags, index) > choice->threshold;
}

void write_tags(FILE *to, const struct tag_choice *choice, const l3a_tags *tags) {
    size_t count = 0;
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        if (tag_is_chosen(choice, tags, i)) {
            fprintf(to, "%s %s %.3f", count++ ? "," : "", l3a_tags_name(tags, i), (double)l3a_tags_score(tags, i));
        }
    }
    fputs(count ? "" : " -", to);
}

void put_tags(struct printer *printer, const struct tag_choice *choice, const l3a_tags *tags, const char *key) {
    double box[4];
    put_open(printer, "tags", '[');
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        if (!tag_is_chosen(choice, tags, i)) {
            continue;
        }
        put_open(printer, NULL, '{');
        put_text(printer, key, l3a_tags_name(tags, i));
        put_number(printer, "score", (double)l3a_tags_score(tags, i), 4);
        if (l3a_tags_box(tags, i, box)) {
            char corners[128];
            snprintf(corners, sizeof corners, "[%.4g, %.4g, %.4g, %.4g]", box[0], box[1], box[2], box[3]);
            put_json(printer, "box", corners);
        }
        put_close(printer, '}');
    }
    put_close(printer, ']');
}

bool list_pictures(const struct arguments *arguments, struct list *list) {
    size_t capacity = 0, length = 0;
    memset(list, 0, sizeof *list);
    FILE *memory = open_memstream(&list->text, &length);
    char *line = NULL;
    for (size_t i = 1; memory && i < arguments->positional_count; i++) {
        if (strcmp(arguments->positionals[i], "-") != 0) {
            fwrite(arguments->positionals[i], 1, strlen(arguments->positionals[i]) + 1, memory);
            list->count++;
            continue;
        }
        while (!interrupted && getline(&line, &capacity, stdin) > 0) {
            line[strcspn(line, "\r\n")] = '\0';
            if (line[0]) {
                fwrite(line, 1, strlen(line) + 1, memory);
                list->count++;
            }
        }
    }
    free(line);
    if (!memory || fclose(memory)) {
        return false;
    }
    list->items = calloc(list->count + 1, sizeof *list->items);
    const char *at = list->text;
    for (size_t i = 0; list->items && i < list->count; i++) {
        list->items[i] = at;
        at += strlen(at) + 1;
    }
    return list->items != NULL;
}

struct job {
    l3a_reader *reader;
    size_t count, bad;
    bool stopped; /* by the callback */
    picture_tagged *each;
    void *user;
};

static int take_tags(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    struct job *job = user;
    if (interrupted) {
        return 1;
    }
    const bool good = status == L3A_OK;
    job->stopped = !job->each(index, tags, good ? NULL : l3a_reader_error_text(job->reader),
                              good ? NULL : l3a_reader_error_hint(job->reader), job->user);
    job->bad += !good;
    progress_show("pictures", index + 1, job->count);
    return job->stopped;
}

/* What is to be tagged: files, or pictures that were found. */
struct selection {
    const char *const *paths;     /* NULL: */
    const l3a_pictures *pictures; /* these, … */
    size_t first;                 /* … from this one on */
    size_t count;
};

static int tag_selection(const struct arguments *arguments, l3a_tagger *tagger, const struct selection *selection,
                         picture_tagged *each, void *user) {
    struct job job = {.count = selection->count, .each = each, .user = user};
    l3a_status status = l3a_reader_create(tagger, &job.reader);
    if (status != L3A_OK) {
        return complain(arguments, "out of memory");
    }
    progress_show("pictures", 0, job.count);
    status = selection->paths
                 ? l3a_reader_tag_files(job.reader, selection->paths, job.count, take_tags, &job)
                 : l3a_reader_tag_pictures(job.reader, selection->pictures, selection->first, job.count, take_tags, &job);
    const int code = job.stopped
                         ? EXIT_FAILED
                         : explain_error(arguments, status, l3a_reader_error_text(job.reader), l3a_reader_error_hint(job.reader));
    l3a_reader_free(job.reader);
    return code == EXIT_DONE && job.bad ? EXIT_USAGE : code;
}

int tag_pictures(const struct arguments *arguments, l3a_tagger *tagger, const char *const *paths, size_t count,
                 picture_tagged *each, void *user) {
    return tag_selection(arguments, tagger, &(struct selection){.paths = paths, .count = count}, each, user);
}

int tag_found_pictures(const struct arguments *arguments, l3a_tagger *tagger, const l3a_pictures *pictures, size_t first,
                       size_t count, picture_tagged *each, void *user) {
    return tag_selection(arguments, tagger, &(struct selection){.pictures = pictures, .first = first, .count = count}, each, user);
}
