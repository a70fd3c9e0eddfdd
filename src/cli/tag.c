/* l3a tag: the tags of pictures, and of folders and tar files full of them, as text or as XMP files beside the pictures. */
#include "tag.h"

#include <stdlib.h>
#include <string.h>

const struct option tag_options[] = {
    {"o", "FILE", "write the tags to a file; its name decides the format if it ends in .csv, .json or .jsonl"},
    {"format", "table|json|jsonl|csv", "output format; jsonl: one JSON object per line [table]"},
    {"csv", NULL, "the same as --format csv"},
    {"json", NULL, "the same as --format json"},
    {"long", NULL, "one line per picture and tag: path, tag, score, given, error; as CSV unless another format is asked for"},
    {"given", NULL, "with --long: only the tags that are given"},
    {"fields", "a,b,c",
     "with --long: these columns, from path, tag, score, given, threshold, rank, left, top, right, bottom, error"},
    {"top", "N", "give every picture the N tags with the highest scores"},
    {"threshold", "X", "give tags with a score above this [the model's thresholds]"},
    {"views", "1|5|9|14", "look at so many crops of each picture, too: slower, but finds small things [as the model was taught]"},
    {"sort", "given|name|uncertain", "order of the pictures; uncertain: first those whose tags are most in doubt [given]"},
    {"xmp", NULL, "also write the tags to an XMP file beside each picture, and keep what is in it"},
    {"xmp-replace", NULL, "the same, and remove tags that the model knows but did not give"},
    {"xmp-name", "photo.jpg.xmp|photo.xmp", "how new XMP files are named [photo.jpg.xmp]"},
    {"watch", NULL, "tag pictures as they arrive in these folders, and write XMP files, until Ctrl-C"},
    {"index", "FILE", "with --watch: the index that knows which pictures were looked at [MODEL.library]"},
    {"backbone", "FILE", "the model's checkpoint, if the model does not know where it is"},
    {"orient", "0|1", "1: turn pictures upright as their EXIF orientation says; 0: do not [as the model was taught]"},
    {"shard", "I/N", "tag only shard I of N of the pictures, from 1/N to N/N; l3a merge joins the files"},
    {"shards", "N",
     "share the work with processes that run the same command in the same folder: each takes the next of N shards, and the last "
     "joins them"},
    {NULL, NULL, NULL},
};

/* ---- Sidecars ---- */

void write_tag_sidecar(struct tag_run *run, const char *path, const l3a_tags *tags) {
    const size_t all = l3a_tags_count(tags);
    const char **names = calloc(2 * all + 1, sizeof *names);
    size_t count = 0;
    int changed = 0;
    if (!names) {
        run->failed++;
        run->code = run->code ? run->code : EXIT_USAGE;
        return;
    }
    for (size_t i = 0; i < all; i++) {
        names[all + i] = l3a_tags_name(tags, i);
        if (tag_is_chosen(&run->form.choice, tags, i)) {
            names[count++] = l3a_tags_name(tags, i);
        }
    }
    const l3a_sidecar_options options = {.size = sizeof options,
                                         .remove = run->replace ? names + all : NULL,
                                         .remove_count = run->replace ? all : 0,
                                         .short_name = run->short_name};
    const l3a_status status = l3a_sidecar_write(run->arguments->context, path, names, count, &options, &changed);
    const int code = explain(run->arguments, status);
    run->code = code > EXIT_DONE && run->code != EXIT_FAILED ? code : run->code;
    run->failed += status != L3A_OK;
    run->written += status == L3A_OK && changed;
    run->unchanged += status == L3A_OK && !changed;
    free(names);
}

/* A list separates tags by semicolons and has no way to escape one. */
static void warn_of_semicolons(const l3a_tags *tags) {
    const char *name;
    for (size_t i = 0; (name = l3a_tags_name(tags, i)); i++) {
        if (strchr(name, ';')) {
            progress_clear();
            fprintf(stderr, "%swarning:%s the tag '%s' contains a semicolon, so the column 'labels' cannot tell it from two tags\n",
                    style(stderr, STYLE_BOLD), style(stderr, STYLE_PLAIN), name);
            return;
        }
    }
}

static void add_row(struct tag_run *run, const char *path, const l3a_tags *tags, const char *error) {
    run->part.pictures++;
    run->part.bad += error != NULL;
    if (run->rows) {
        keep_tag_row(&run->form, path, tags, error, &run->rows[run->row_count++]);
    } else {
        write_tag_row(&run->form, path, tags, error);
    }
}

static bool take_picture(size_t index, const l3a_tags *tags, const char *error, const char *hint, void *user) {
    struct tag_run *run = user;
    const char *path = run->paths[run->part.first + index];
    (void)hint;
    if (tags && run->form.printer.form == FORM_CSV && !run->form.by_tag && !run->arguments->quiet && !run->checked) {
        warn_of_semicolons(tags);
        run->checked = true; /* all pictures have the same tags */
    }
    add_row(run, path, tags, error);
    if (tags && run->xmp) {
        write_tag_sidecar(run, path, tags);
    }
    return !ferror(run->form.printer.to);
}

/* ---- Files ---- */

static ssize_t write_to_output(void *user, const char *bytes, size_t count) {
    struct tag_file *file = user;
    file->status = file->status == L3A_OK ? l3a_output_write(file->output, bytes, count) : file->status;
    sha256_add(&file->sum, bytes, count);
    file->bytes += count;
    return file->status == L3A_OK ? (ssize_t)count : 0;
}

int tag_file_open(const struct arguments *arguments, const char *path, struct tag_file *file) {
    *file = (struct tag_file){.arguments = arguments};
    sha256_begin(&file->sum);
    const l3a_status status = l3a_output_open(arguments->context, path, &file->output);
    if (status != L3A_OK) {
        return explain(arguments, status);
    }
    file->stream = fopencookie(file, "w", (cookie_io_functions_t){.write = write_to_output});
    if (!file->stream) {
        l3a_output_free(file->output);
        return complain(arguments, "out of memory");
    }
    return EXIT_DONE;
}

int tag_file_close(struct tag_file *file, bool complete) {
    const bool written = fclose(file->stream) == 0;
    if (file->status == L3A_OK && written && complete) {
        file->status = l3a_output_commit(file->output);
    }
    int code = EXIT_DONE;
    if (file->status != L3A_OK) {
        code = explain(file->arguments, file->status);
    } else if (!written) {
        code = complain(file->arguments, "out of memory");
    }
    l3a_output_free(file->output);
    return code;
}

/* The number of bytes so far. */
static uint64_t position(struct tag_file *file) {
    fflush(file->stream);
    return file->bytes;
}

/* ---- The way through the pictures ---- */

static size_t skipped_count(const l3a_pictures *pictures) {
    size_t count = 0;
    while (l3a_pictures_skipped(pictures, count)) {
        count++;
    }
    return count;
}

static void measure_path(struct tag_form *form, const char *path) {
    const int width = display_width(path);
    form->width = width > form->width ? width : form->width;
}

static bool list_paths(struct tag_run *run) {
    const size_t count = l3a_pictures_count(run->pictures);
    const char *path;
    run->paths = calloc(count + 1, sizeof *run->paths);
    for (size_t i = 0; run->paths && i < count; i++) {
        run->paths[i] = l3a_pictures_path(run->pictures, i);
        measure_path(&run->form, run->paths[i]);
    }
    for (size_t i = 0; (path = l3a_pictures_skipped(run->pictures, i)); i++) {
        measure_path(&run->form, path);
    }
    return run->paths != NULL;
}

static int write_part(struct tag_run *run, struct tag_file *file) {
    const struct tag_part *part = &run->part;
    write_tag_head(&run->form);
    if (file) {
        file->head = position(file);
    }
    const int code = tag_found_pictures(run->arguments, run->tagger, run->pictures, part->first, part->count, take_picture, run);
    const bool all = part->pictures == part->count;
    for (size_t i = 0; all && part->last && l3a_pictures_skipped(run->pictures, i); i++) {
        add_row(run, l3a_pictures_skipped(run->pictures, i), NULL, l3a_pictures_reason(run->pictures, i));
    }
    write_tag_rows(&run->form, run->rows, run->row_count);
    const uint64_t rows = file ? position(file) : 0;
    write_tag_tail(&run->form);
    if (file) {
        file->tail = position(file) - rows;
    }
    run->part.complete = all && code != EXIT_INTERRUPTED && !ferror(run->form.printer.to);
    return code;
}

int tag_part(struct tag_run *run, size_t first, size_t count, bool last, struct tag_file *file) {
    run->part = (struct tag_part){.first = first, .count = count, .last = last};
    run->row_count = 0;
    run->rows = run->form.order == GIVEN ? NULL : calloc(count + skipped_count(run->pictures) + 1, sizeof *run->rows);
    if (run->form.order != GIVEN && !run->rows) {
        return complain(run->arguments, "out of memory");
    }
    FILE *const before = run->form.printer.to;
    run->form.printer.to = file ? file->stream : before;
    run->form.printer.begun = run->form.printer.broken = false;
    int code = write_part(run, file);
    run->form.printer.to = before;
    free(run->rows);
    run->rows = NULL;
    run->pictures_done += run->part.pictures;
    run->bad += run->part.bad;
    return run->part.complete ? EXIT_DONE : code;
}

static void print_summary(const struct tag_run *run) {
    const size_t others = l3a_pictures_others(run->pictures);
    progress_clear();
    if (run->bad) {
        complain(run->arguments, "%zu of %zu %s could not be read", run->bad, run->pictures_done,
                 plural(run->pictures_done, "picture", "pictures"));
    }
    if (others && !run->arguments->quiet) {
        fprintf(stderr, "%zu other %s in the folders %s left alone\n", others, plural(others, "file", "files"),
                plural(others, "was", "were"));
    }
    if (run->xmp && !run->arguments->quiet) {
        fprintf(stderr, "XMP files: %zu written, %zu unchanged, %zu failed\n", run->written, run->unchanged, run->failed);
    }
}

/* The output file appears at the end, in one step. After an interruption it stays as it was. */
static int tag_all(struct tag_run *run) {
    const size_t count = l3a_pictures_count(run->pictures);
    struct tag_file file;
    if (!run->form.output) {
        return tag_part(run, 0, count, true, NULL);
    }
    int code = tag_file_open(run->arguments, run->form.output, &file);
    if (code != EXIT_DONE) {
        return code;
    }
    const int done = tag_part(run, 0, count, true, &file);
    code = tag_file_close(&file, run->part.complete);
    return code == EXIT_DONE ? done : code;
}

/* ---- The command ---- */

static bool find_pictures(const struct arguments *arguments, l3a_pictures **pictures, int *code) {
    struct list list = {0};
    if (!list_pictures(arguments, &list)) {
        list_free(&list);
        *code = complain(arguments, "out of memory");
        return false;
    }
    const l3a_status status = l3a_pictures_find(arguments->context, list.items, list.count, pictures);
    list_free(&list);
    *code = interrupted ? EXIT_INTERRUPTED : explain(arguments, status);
    if (*code == EXIT_DONE && !l3a_pictures_count(*pictures) && !l3a_pictures_skipped(*pictures, 0)) {
        *code = complain(arguments, "there are no pictures in %s", list.count == 1 ? arguments->positionals[1] : "these folders");
    }
    return *code == EXIT_DONE;
}

/* There is no place beside a picture in a tar file. */
static bool sidecars_fit(const struct tag_run *run, const l3a_pictures *pictures) {
    for (size_t i = 0; run->xmp && i < l3a_pictures_count(pictures); i++) {
        const char *archive = l3a_pictures_archive(pictures, i);
        if (archive) {
            complain(run->arguments, "XMP files cannot be written beside pictures in a tar file: %s", archive);
            print_hint("write the tags to a file with -o tags.csv, or unpack the archive");
            return false;
        }
    }
    return true;
}

static bool read_arguments(const struct arguments *arguments, struct tag_run *run, l3a_picture_options *picture) {
    const char *sort = argument_choice(arguments, "sort", "given|name|uncertain", "given"),
               *name = argument_choice(arguments, "xmp-name", "photo.jpg.xmp|photo.xmp", "photo.jpg.xmp"),
               *orient = argument_choice(arguments, "orient", "0|1", "1");
    if (!sort || !name || !orient || !tag_form_arguments(arguments, &run->form) ||
        !tag_choice_arguments(arguments, &run->form.choice)) {
        return false;
    }
    run->form.order = strcmp(sort, "name") == 0 ? BY_NAME : strcmp(sort, "uncertain") == 0 ? UNCERTAIN : GIVEN;
    run->replace = argument(arguments, "xmp-replace") != NULL;
    run->xmp = run->replace || argument(arguments, "xmp") != NULL;
    run->short_name = strcmp(name, "photo.xmp") == 0;
    picture->orient = strcmp(orient, "1") == 0;
    if (argument(arguments, "index") && !argument(arguments, "watch")) {
        complain(arguments, "--index has no effect without --watch");
        return false;
    }
    if (argument(arguments, "xmp-name") && !run->xmp && !argument(arguments, "watch")) {
        complain(arguments, "--xmp-name has no effect without --xmp");
        return false;
    }
    if (arguments->positional_count < 2) {
        complain_usage(arguments, "name a model file and at least one picture or folder");
        return false;
    }
    return true;
}

/* How the work is divided: nothing but zeros if this process does all of it. */
struct division {
    size_t shard, shards, shared;
};

static bool read_division(const struct arguments *arguments, const struct tag_run *run, struct division *division) {
    size_t process;
    if (!shard_argument(arguments, &division->shard, &division->shards) || !shared_argument(arguments, &division->shared)) {
        return false;
    }
    if ((division->shard || division->shared) && run->form.order != GIVEN) {
        complain(arguments, "--sort needs all pictures at once, but a shard has only some of them; sort the joined file");
        return false;
    }
    if (division->shared && !run->form.output) {
        complain(arguments, "processes that share the work need a file for the tags: -o FILE");
        return false;
    }
    for (size_t i = 1; division->shared && l3a_cluster_started(&process) > 1 && i < arguments->positional_count; i++) {
        if (strcmp(arguments->positionals[i], "-") == 0) {
            complain(arguments, "the standard input reaches only the first of several processes; name files or folders");
            return false;
        }
    }
    return true;
}

/* With an open tagger. */
static int tag_divided(struct tag_run *run, const struct division *division) {
    if (!list_paths(run)) {
        return complain(run->arguments, "out of memory");
    }
    const int code = division->shared                      ? tag_shared(run, division->shared)
                     : division->shard && run->form.output ? tag_shard(run, division->shard, division->shards)
                     : division->shard                     ? tag_shard_part(run, division->shard, division->shards, NULL)
                                                           : tag_all(run);
    print_summary(run);
    free(run->paths);
    if (code != EXIT_DONE || run->code || !run->bad) {
        return code != EXIT_DONE ? code : run->code;
    }
    return division->shared ? bad_pictures_code(run->joined) : EXIT_USAGE;
}

int tag_command(struct arguments *arguments) {
    struct tag_run run = {.arguments = arguments};
    l3a_picture_options picture = {.size = sizeof picture};
    l3a_pictures *pictures = NULL;
    struct division division = {0};
    size_t views = 0;
    int code = EXIT_USAGE;
    if (argument(arguments, "watch")) {
        return read_arguments(arguments, &run, &picture) ? watch_folders(&run) : EXIT_USAGE;
    }
    if (read_arguments(arguments, &run, &picture) && read_division(arguments, &run, &division) &&
        views_argument(arguments, &views) && find_pictures(arguments, &pictures, &code) &&
        (code = EXIT_USAGE, sidecars_fit(&run, pictures))) {
        const l3a_tagger_options options = {.size = sizeof options,
                                            .backbone = argument(arguments, "backbone"),
                                            .picture_options = argument(arguments, "orient") ? &picture : NULL,
                                            .views = views};
        run.pictures = pictures;
        if (stat(arguments->positionals[0], &run.model_file)) {
            memset(&run.model_file, 0, sizeof run.model_file); /* opening it says why */
        }
        const l3a_status status = l3a_tagger_open(arguments->context, arguments->positionals[0], &options, &run.tagger);
        code = status == L3A_OK ? tag_divided(&run, &division) : explain(arguments, status);
    }
    l3a_tagger_free(run.tagger);
    l3a_pictures_free(pictures);
    return code;
}
