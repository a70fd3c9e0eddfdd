/* l3a index: the pictures in folders are looked at once, and remembered. */
#include "indexed.h"
#include "tag.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

const struct option index_options[] = {
    {"remove", "FOLDER…", "take this folder and its pictures out of the index"},
    {"retry", NULL, "try again to read the pictures that could not be read"},
    {"problems", NULL,
     "only list the pictures that cannot be read, and the videos, RAW files and others that are not read, each with the reason"},
    {"format", "table|csv|json", "output format [table]"},
    {"o", "FILE", "with --problems: write the list to a file; its name decides the format if it ends in .csv or .json"},
    {"shard", "I/N", "look only at every N-th picture, from 1/N to N/N; other processes look at the others"},
    LIBRARY_OPTIONS,
    {NULL, NULL, NULL},
};

/* ---- Problems ---- */

static const struct column problem_columns[] = {{.name = "path", .heading = "picture", .width = -40},
                                                {.name = "state", .heading = "state", .width = -7, .gap = 2},
                                                {.name = "error", .heading = "reason", .width = -1, .gap = 2}};

static l3a_status print_problem(struct indexed *indexed, struct printer *printer, uint64_t id) {
    l3a_library_picture picture = {.size = sizeof picture};
    const l3a_status status = l3a_library_picture_at(indexed->library, id, &picture);
    if (status != L3A_OK) {
        return status == L3A_ERROR_NOT_FOUND ? L3A_OK : status;
    }
    const struct value values[] = {text_value(picture.path), word_value(picture.state == L3A_PICTURE_FAILED ? "failed" : "other"),
                                   text_value(picture.problem)};
    if (printer->form == FORM_JSON) {
        put_break(printer, 2);
        put_open(printer, NULL, '{');
    }
    print_values(printer, problem_columns, values, 3);
    if (printer->form == FORM_JSON) {
        put_close(printer, '}');
    }
    return L3A_OK;
}

static l3a_status print_problems(struct indexed *indexed, struct printer *printer) {
    const l3a_find_options options = {.size = sizeof options, .where = "is:failed or is:other", .sort = "name"};
    l3a_found *found = NULL;
    l3a_status status = l3a_library_find(indexed->library, &options, &found);
    if (status == L3A_OK && printer->form == FORM_JSON) {
        put_open(printer, NULL, '[');
    } else if (status == L3A_OK && (printer->form == FORM_CSV || l3a_found_count(found))) {
        print_headings(printer, problem_columns, 3);
    }
    for (size_t i = 0; status == L3A_OK && i < l3a_found_count(found); i++) {
        status = print_problem(indexed, printer, l3a_found_id(found, i));
    }
    if (printer->form == FORM_JSON) {
        put_break(printer, 0);
        put_close(printer, ']');
        fputs("\n", printer->to);
    }
    l3a_found_free(found);
    return status;
}

static int list_problems(struct indexed *indexed, const char *format) {
    const char *path = argument(indexed->arguments, "o");
    struct printer printer = printer_of(format);
    struct tag_file file;
    int code = path ? tag_file_open(indexed->arguments, path, &file) : EXIT_DONE;
    if (code != EXIT_DONE) {
        return code;
    }
    printer.to = path ? file.stream : printer.to;
    printer.visible = printer.visible && !path;
    code = indexed_explain(indexed, print_problems(indexed, &printer));
    const int written = path ? tag_file_close(&file, code == EXIT_DONE) : EXIT_DONE;
    return code == EXIT_DONE ? written : code;
}

/* ---- The work ---- */

struct work {
    l3a_scan_report scan;
    l3a_look_report look;
    l3a_library_info info;
    uint64_t retried;
    bool scored; /* or another process does it */
    double seconds;
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static l3a_status change_folders(struct indexed *indexed) {
    const struct arguments *arguments = indexed->arguments;
    const char *folder;
    l3a_status status = L3A_OK;
    for (size_t i = 0; status == L3A_OK && (folder = argument_each(arguments, "remove", i)); i++) {
        status = l3a_library_remove(indexed->library, folder);
    }
    for (size_t i = 1; status == L3A_OK && i < arguments->positional_count; i++) {
        status = l3a_library_add(indexed->library, arguments->positionals[i]);
    }
    return status;
}

static l3a_status work(struct indexed *indexed, const l3a_look_options *options, struct work *work) {
    l3a_status status = change_folders(indexed);
    if (status == L3A_OK && argument(indexed->arguments, "retry")) {
        status = l3a_library_retry(indexed->library, &work->retried);
    }
    if (status == L3A_OK) {
        status = l3a_library_scan(indexed->library, &work->scan);
    }
    if (status == L3A_OK) {
        status = l3a_library_look(indexed->library, options, &work->look);
    }
    if (status == L3A_OK) {
        status = indexed_bring_up_to_date(indexed, &work->scored);
    }
    return status == L3A_OK ? l3a_library_describe(indexed->library, &work->info) : status;
}

/* ---- The end ---- */

/* A content that the index knew and that is nowhere else was moved if a file has gone. Otherwise it is where it was: a file with
 * another time, or an index that was made again. Of the files that changed, these are at least as many as nothing else was. */
static uint64_t moved(const struct work *work) {
    const uint64_t others = work->look.looked + work->look.failed + work->look.copies,
                   touched = work->scan.changed > others ? work->scan.changed - others : 0,
                   known = work->look.moved > touched ? work->look.moved - touched : 0;
    return known < work->scan.gone ? known : work->scan.gone;
}

static void print_folders(struct printer *printer, const struct indexed *indexed) {
    const char *folder;
    put_open(printer, "folders", '[');
    for (size_t i = 0; (folder = l3a_library_folder(indexed->library, i, NULL)); i++) {
        put_text(printer, NULL, folder);
    }
    put_close(printer, ']');
}

static void print_json(const struct indexed *indexed, const struct work *work) {
    const struct {
        const char *name;
        uint64_t count;
    } counts[] = {{"pictures", work->info.pictures},
                  {"new", work->look.looked},
                  {"moved", moved(work)},
                  {"recognised", work->look.moved - moved(work)},
                  {"copies", work->look.copies},
                  {"changed", work->scan.changed},
                  {"gone", work->scan.gone},
                  {"waiting", work->info.waiting},
                  {"failed", work->info.failed},
                  {"other", work->info.others},
                  {"scored", work->info.scored},
                  {"away", work->scan.away},
                  {"unreadable_folders", work->scan.unreadable},
                  {"bytes", work->info.bytes}};
    struct printer printer = printer_of("json");
    put_open(&printer, NULL, '{');
    put_text(&printer, "index", indexed->index);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        put_count(&printer, counts[i].name, counts[i].count);
    }
    put_number(&printer, "seconds", work->seconds, 2);
    print_folders(&printer, indexed);
    put_close(&printer, '}');
    printf("\n");
}

static void print_count(uint64_t count, const char *one, const char *many) {
    if (count) {
        printf(", %" PRIu64 " %s", count, plural(count, one, many));
    }
}

static void print_table(const struct indexed *indexed, const struct work *work) {
    const l3a_library_info *info = &work->info;
    char bytes[32];
    printf("%s: %" PRIu64 " %s, %s\n", indexed->index, info->pictures, plural(info->pictures, "picture", "pictures"),
           size_text(info->bytes, bytes));
    printf("%" PRIu64 " new", work->look.looked);
    print_count(moved(work), "moved", "moved");
    print_count(work->look.moved - moved(work), "recognised", "recognised");
    print_count(work->look.copies, "copy", "copies");
    print_count(work->scan.changed, "changed", "changed");
    print_count(work->scan.gone - moved(work), "gone", "gone"); /* JSON has all old places */
    print_count(info->failed, "cannot be read", "cannot be read");
    print_count(info->others, "video, RAW or other file", "videos, RAW or other files");
    print_count(info->waiting, "still to be looked at", "still to be looked at");
    print_count(work->scan.away, "folder is not there", "folders are not there");
    printf("; %.1f s\n", work->seconds);
}

static int finish(const struct indexed *indexed, const struct work *work, const char *format) {
    const struct arguments *arguments = indexed->arguments;
    progress_clear();
    if (strcmp(format, "json") == 0) {
        print_json(indexed, work);
    } else {
        print_table(indexed, work);
    }
    if (!work->scored && work->info.scored < work->info.done && !arguments->quiet) {
        fprintf(stderr, "another process has the model; that one, or the next 'l3a find', gives the pictures their tags\n");
    }
    if (!work->look.failed) {
        return EXIT_DONE;
    }
    complain(arguments, "%" PRIu64 " %s cannot be read", work->look.failed, plural(work->look.failed, "picture", "pictures"));
    print_hint("'l3a index %s --problems' says why; --retry tries again", indexed->named);
    return EXIT_USAGE;
}

static int index_folders(struct indexed *indexed, const l3a_look_options *options, const char *format) {
    struct work done = {.scan = {.size = sizeof done.scan}, .look = {.size = sizeof done.look}, .info = {.size = sizeof done.info}};
    const double began = now();
    if (!l3a_library_folder(indexed->library, 0, NULL) && indexed->arguments->positional_count < 2) {
        complain(indexed->arguments, "%s: the index has no folders", indexed->index);
        print_hint("name a folder of pictures: l3a index %s FOLDER", indexed->named);
        return EXIT_USAGE;
    }
    l3a_status status = work(indexed, options, &done);
    if (status == L3A_ERROR_CHECKSUM) {
        const int code = indexed_repair(indexed);
        if (code != EXIT_DONE) {
            return code;
        }
        status = work(indexed, options, &done);
    }
    done.seconds = now() - began;
    return status == L3A_OK ? finish(indexed, &done, format) : indexed_explain(indexed, status);
}

/* ---- The command ---- */

static const char *format_of(const struct arguments *arguments) {
    const char *path = argument(arguments, "o");
    const size_t length = path ? strlen(path) : 0;
    const bool csv = length > 4 && strcmp(path + length - 4, ".csv") == 0,
               json = length > 5 && strcmp(path + length - 5, ".json") == 0;
    const char *format = argument_choice(arguments, "format", "table|csv|json", csv ? "csv" : json ? "json" : "table");
    if (format && !argument(arguments, "problems") && (path || strcmp(format, "csv") == 0)) {
        complain(arguments, "%s is for the list of --problems", path ? "-o" : "--format csv");
        return NULL;
    }
    return format;
}

static bool arguments_fit(const struct arguments *arguments) {
    const char *const excluded[] = {"retry", "remove", "shard"};
    if (!arguments->positional_count) {
        complain_usage(arguments, "name a model file and folders of pictures");
        return false;
    }
    for (size_t i = 0; argument(arguments, "problems") && i < 3; i++) {
        if (argument(arguments, excluded[i])) {
            complain(arguments, "--problems only lists; --%s has no effect with it", excluded[i]);
            return false;
        }
    }
    if (argument(arguments, "problems") && arguments->positional_count > 1) {
        complain(arguments, "--problems only lists what is in the index; name no folders with it");
        return false;
    }
    return true;
}

int index_command(struct arguments *arguments) {
    l3a_look_options options = {.size = sizeof options};
    struct indexed indexed;
    const char *format = format_of(arguments);
    if (!format || !arguments_fit(arguments) || !shard_argument(arguments, &options.shard, &options.shards)) {
        return EXIT_USAGE;
    }
    const bool problems = argument(arguments, "problems") != NULL;
    int code = indexed_open(arguments, arguments->positional_count < 2, problems, &indexed);
    if (code == EXIT_DONE) {
        code = problems ? list_problems(&indexed, format) : index_folders(&indexed, &options, format);
    }
    indexed_close(&indexed);
    return code;
}
