/* Tags in shards. A shard is a run of whole batches of the pictures that were found, because the last bits of scores depend on the
 * batch: batches b with ⌊B(i-1)/n⌋ <= b < ⌊Bi/n⌋ of B for shard i of n, as in extraction. Its file is complete in itself, with the
 * headings of CSV and the brackets of JSON.
 *
 * What the file cannot say stands in its record, FILE.shard, which is written after it: which shard it is, of which model,
 * pictures and options, where its rows begin and end, and the checksum of its bytes. A shard is done if it has a record that fits.
 * Joining checks that the shards belong together and are as they were written, and copies the rows of one after another, so the
 * result has the bytes that one process would have written. */
#include "tag.h"

#include "common/json_tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HEX = 2 * SHA256_BYTES + 1, RECORD_LIMIT = 1 << 20, PIECE = 1 << 16, WHY = 1024 };

static const char record_kind[] = "shard of tags";

/* Shards that are joined have these in common. */
struct origin {
    char model[HEX], backbone[HEX], pictures[HEX]; /* checksums: of the files, and of the paths of all pictures */
    char *options;                                 /* those that change the rows, and what else tagging does */
};

struct record {
    size_t shard, shards;
    struct origin origin;
    uint64_t pictures, bad;     /* rows, and those that could not be read */
    uint64_t bytes, head, tail; /* of the file, and before and after its rows */
    char between[4];            /* what separates the rows of one shard from those of the next */
    char sum[HEX];              /* of the file */
};

/* A shard's file, and its record. */
struct shard_file {
    const char *path;
    struct record record;
};

static void record_clear(struct record *record) {
    free(record->origin.options);
    *record = (struct record){0};
}

/* ---- Checksums ---- */

static void write_hex(struct sha256 *sum, char hex[HEX]) {
    uint8_t digest[SHA256_BYTES];
    sha256_end(sum, digest);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
}

static bool file_sum(const char *path, char hex[HEX]) {
    char *piece = malloc(PIECE);
    FILE *file = piece ? fopen(path, "rb") : NULL;
    struct sha256 sum;
    size_t count;
    sha256_begin(&sum);
    while (file && (count = fread(piece, 1, PIECE, file)) > 0) {
        sha256_add(&sum, piece, count);
    }
    const bool good = file && !ferror(file);
    write_hex(&sum, hex);
    if (file) {
        fclose(file);
    }
    free(piece);
    return good;
}

static void add_text(struct sha256 *sum, const char *text) {
    sha256_add(sum, text, strlen(text) + 1);
}

/* All pictures as the rows name them, in their order, and those that cannot be tagged. */
static bool pictures_sum(const struct tag_run *run, char hex[HEX]) {
    struct sha256 sum;
    const char *skipped;
    bool good = true;
    sha256_begin(&sum);
    for (size_t i = 0; good && i < l3a_pictures_count(run->pictures); i++) {
        char *path = tag_row_path(&run->form, run->paths[i]);
        good = path != NULL;
        add_text(&sum, good ? path : "");
        free(path);
    }
    add_text(&sum, "");
    for (size_t i = 0; (skipped = l3a_pictures_skipped(run->pictures, i)); i++) {
        add_text(&sum, skipped);
        add_text(&sum, l3a_pictures_reason(run->pictures, i));
    }
    write_hex(&sum, hex);
    return good;
}

/* ---- Where shards come from ---- */

/* The options that count, as they would be typed. To be freed; NULL if there is no memory. */
static char *options_text(const struct tag_run *run) {
    static const char *const names[] = {"long",  "given",  "fields", "top",         "threshold",
                                        "views", "orient", "xmp",    "xmp-replace", "xmp-name"};
    const struct tag_form *form = &run->form;
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (!to) {
        return NULL;
    }
    fprintf(to, "--format %s",
            form->lines                       ? "jsonl"
            : form->printer.form == FORM_JSON ? "json"
            : form->printer.form == FORM_CSV  ? "csv"
                                              : "table");
    if (strcmp(l3a_context_device(run->arguments->context), "cpu") != 0) { /* the batches are others, and the last bits */
        fprintf(to, " --device cuda");
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = argument(run->arguments, names[i]);
        const struct option *option = tag_options;
        while (strcmp(option->name, names[i]) != 0) {
            option++;
        }
        if (value) {
            fprintf(to, option->value ? " --%s %s" : " --%s", names[i], value);
        }
    }
    return fclose(to) == 0 ? text : NULL;
}

static bool same_file(const struct stat *one, const struct stat *other) {
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino && one->st_size == other->st_size &&
           one->st_mtim.tv_sec == other->st_mtim.tv_sec && one->st_mtim.tv_nsec == other->st_mtim.tv_nsec;
}

/* With an open tagger. The model's file must be the one that the tagger has read. */
static int find_origin(const struct tag_run *run, struct origin *origin) {
    const char *model = run->arguments->positionals[0], *backbone = l3a_tagger_backbone(run->tagger);
    struct stat now;
    if (!file_sum(model, origin->model)) {
        return complain(run->arguments, "%s: cannot be read again", model);
    }
    if (stat(model, &now) || !same_file(&now, &run->model_file)) {
        complain(run->arguments, "%s: the model was changed while it was being opened", model);
        print_hint("run the same command again; all shards need the same edition of the model");
        return EXIT_USAGE;
    }
    if (backbone && !file_sum(backbone, origin->backbone)) {
        return complain(run->arguments, "%s: cannot be read again", backbone);
    }
    origin->options = options_text(run);
    if (!pictures_sum(run, origin->pictures) || !origin->options) {
        return complain(run->arguments, "out of memory");
    }
    return EXIT_DONE;
}

/* Whether something keeps two shards from being joined, and what it is, in words. */
static bool differ(const struct origin *one, const struct origin *other, char *why, size_t capacity) {
    if (strcmp(one->model, other->model) != 0) {
        snprintf(why, capacity, "the model is another one, or has changed");
    } else if (strcmp(one->backbone, other->backbone) != 0) {
        snprintf(why, capacity, "the backbone is another one");
    } else if (strcmp(one->pictures, other->pictures) != 0) {
        snprintf(why, capacity, "the pictures are others, or in another order or place");
    } else if (strcmp(one->options, other->options) != 0) {
        snprintf(why, capacity, "the options are '%s' and '%s'", one->options, other->options);
    } else {
        return false;
    }
    return true;
}

/* ---- Records ---- */

/* "FILE.shard". To be freed; NULL if there is no memory. */
static char *record_path(const char *path) {
    char *made = NULL;
    return asprintf(&made, "%s.shard", path) < 0 ? NULL : made;
}

static l3a_status write_record(const struct arguments *arguments, const char *path, const struct record *record) {
    char *text = NULL, *to = record_path(path);
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    l3a_status status = to && memory ? L3A_OK : L3A_ERROR_MEMORY;
    if (memory) {
        struct printer printer = {.to = memory, .form = FORM_JSON};
        put_open(&printer, NULL, '{');
        put_text(&printer, "l3a", record_kind);
        put_count(&printer, "shard", record->shard);
        put_count(&printer, "shards", record->shards);
        put_text(&printer, "model", record->origin.model);
        put_text(&printer, "backbone", record->origin.backbone);
        put_text(&printer, "pictures", record->origin.pictures);
        put_text(&printer, "options", record->origin.options);
        put_count(&printer, "rows", record->pictures);
        put_count(&printer, "bad", record->bad);
        put_count(&printer, "bytes", record->bytes);
        put_count(&printer, "head", record->head);
        put_count(&printer, "tail", record->tail);
        put_text(&printer, "between", record->between);
        put_text(&printer, "sha256", record->sum);
        put_close(&printer, '}');
        fputs("\n", memory);
        status = fclose(memory) == 0 ? status : L3A_ERROR_MEMORY;
    }
    if (status == L3A_OK) {
        status = l3a_file_write(arguments->context, to, text, length);
    }
    free(text);
    free(to);
    return status;
}

static bool get_count(const struct json_value *root, const char *key, uint64_t *count) {
    const double number = json_value_number(json_value_get(root, key));
    *count = number >= 0 && number < 9e15 ? (uint64_t)number : 0;
    return json_value_kind(json_value_get(root, key)) == JSON_NUMBER && (double)*count == number;
}

static bool get_text(const struct json_value *root, const char *key, char *text, size_t capacity) {
    const char *value = json_value_text(json_value_get(root, key), NULL);
    snprintf(text, capacity, "%s", value ? value : "");
    return value && strlen(value) < capacity;
}

static bool parse_record(const struct json_value *root, struct record *record) {
    char kind[sizeof record_kind];
    uint64_t shard = 0, shards = 0;
    const char *options = json_value_text(json_value_get(root, "options"), NULL);
    const bool good =
        get_text(root, "l3a", kind, sizeof kind) && strcmp(kind, record_kind) == 0 && get_count(root, "shard", &shard) &&
        get_count(root, "shards", &shards) && shard && shard <= shards && get_text(root, "model", record->origin.model, HEX) &&
        get_text(root, "backbone", record->origin.backbone, HEX) && get_text(root, "pictures", record->origin.pictures, HEX) &&
        options && get_count(root, "rows", &record->pictures) && get_count(root, "bad", &record->bad) &&
        get_count(root, "bytes", &record->bytes) && get_count(root, "head", &record->head) &&
        get_count(root, "tail", &record->tail) && record->head <= record->bytes && record->tail <= record->bytes - record->head &&
        get_text(root, "between", record->between, sizeof record->between) && get_text(root, "sha256", record->sum, HEX);
    record->shard = (size_t)shard;
    record->shards = (size_t)shards;
    record->origin.options = good ? strdup(options) : NULL;
    return record->origin.options != NULL;
}

/* The record of a file; false if it has none that can be read. */
static bool read_record(const char *path, struct record *record) {
    char *name = record_path(path), *text = malloc(RECORD_LIMIT);
    FILE *file = name && text ? fopen(name, "rb") : NULL;
    const size_t length = file ? fread(text, 1, RECORD_LIMIT, file) : 0;
    struct json_tree *tree = NULL;
    struct json_problem problem;
    *record = (struct record){0};
    const bool good = file && length < RECORD_LIMIT && json_tree_read(name, text, length, 100, &tree, &problem) == L3A_OK &&
                      parse_record(json_tree_root(tree), record);
    if (!good) {
        record_clear(record);
    }
    json_tree_free(tree);
    if (file) {
        fclose(file);
    }
    free(name);
    free(text);
    return good;
}

static bool has_size(const char *path, uint64_t bytes) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && (uint64_t)about.st_size == bytes;
}

/* ---- One shard ---- */

int tag_shard_part(struct tag_run *run, size_t shard, size_t shards, struct tag_file *file) {
    const size_t count = l3a_pictures_count(run->pictures), batch = l3a_tagger_batch(run->tagger),
                 batches = (count + batch - 1) / batch, first = batches * (shard - 1) / shards * batch,
                 end = batches * shard / shards * batch, last = end < count ? end : count;
    return tag_part(run, first, last - first, shard == shards, file);
}

static int make_shard(struct tag_run *run, const struct origin *origin, size_t shard, size_t shards, const char *path) {
    struct tag_file file;
    int code = tag_file_open(run->arguments, path, &file);
    if (code != EXIT_DONE) {
        return code;
    }
    const int done = tag_shard_part(run, shard, shards, &file);
    code = tag_file_close(&file, run->part.complete);
    if (code != EXIT_DONE || done != EXIT_DONE) {
        return code != EXIT_DONE ? code : done;
    }
    struct record record = {.shard = shard,
                            .shards = shards,
                            .origin = *origin,
                            .pictures = run->part.pictures,
                            .bad = run->part.bad,
                            .bytes = file.bytes,
                            .head = file.head,
                            .tail = file.tail};
    snprintf(record.between, sizeof record.between, "%s", run->form.printer.form == FORM_JSON && !run->form.lines ? "," : "");
    write_hex(&file.sum, record.sum);
    const l3a_status status = write_record(run->arguments, path, &record);
    if (status != L3A_OK) {
        return explain(run->arguments, status);
    }
    progress_clear();
    printf("%s: shard %zu of %zu, %" PRIu64 " %s\n", path, shard, shards, record.pictures,
           plural(record.pictures, "picture", "pictures"));
    return EXIT_DONE;
}

int tag_shard(struct tag_run *run, size_t shard, size_t shards) {
    struct origin origin = {.options = NULL};
    int code = find_origin(run, &origin);
    if (code == EXIT_DONE) {
        code = make_shard(run, &origin, shard, shards, run->form.output);
    }
    free(origin.options);
    return code;
}

/* ---- Joining ---- */

/* Copies the rows of a shard, with the head before or the tail after them if they are wanted. *same: the file is as it was written.
 */
static bool copy_rows(const struct shard_file *shard, bool head, bool tail, FILE *to, bool *same) {
    const struct record *record = &shard->record;
    char *piece = malloc(PIECE), hex[HEX];
    FILE *from = piece ? fopen(shard->path, "rb") : NULL;
    const uint64_t begin = head ? 0 : record->head, end = record->bytes - (tail ? 0 : record->tail);
    struct sha256 sum;
    uint64_t at = 0;
    size_t count;
    sha256_begin(&sum);
    while (from && (count = fread(piece, 1, PIECE, from)) > 0) {
        const uint64_t low = at > begin ? at : begin, high = at + count < end ? at + count : end;
        if (low < high) {
            fwrite(piece + (low - at), 1, (size_t)(high - low), to);
        }
        sha256_add(&sum, piece, count);
        at += count;
    }
    const bool read = from && !ferror(from);
    write_hex(&sum, hex);
    *same = read && strcmp(hex, record->sum) == 0;
    if (from) {
        fclose(from);
    }
    free(piece);
    return read;
}

/* Joins shards 1 to n, in this order. *damaged: the one that is not as it was written. */
static int join_files(const struct arguments *arguments, const struct shard_file *files, const char *output, const char **damaged) {
    const size_t count = files[0].record.shards;
    struct tag_file file;
    bool rows = false, same = true, read = true;
    int code = tag_file_open(arguments, output, &file);
    if (code != EXIT_DONE) {
        return code;
    }
    for (size_t i = 0; !*damaged && !interrupted && i < count; i++) {
        const struct record *record = &files[i].record;
        const bool any = record->bytes > record->head + record->tail;
        fputs(rows && any ? record->between : "", file.stream);
        read = copy_rows(&files[i], i == 0, i + 1 == count, file.stream, &same);
        *damaged = read && same ? NULL : files[i].path;
        rows = rows || any;
    }
    code = tag_file_close(&file, !*damaged && !interrupted);
    if (code == EXIT_DONE && *damaged) {
        code = complain(arguments, "%s: %s", *damaged, read ? "was changed or damaged: its checksum is wrong" : "cannot be read");
    }
    return code == EXIT_DONE && interrupted ? EXIT_INTERRUPTED : code;
}

static void print_joined(const char *path, const struct shard_file *files) {
    const size_t shards = files[0].record.shards;
    uint64_t pictures = 0;
    for (size_t i = 0; i < shards; i++) {
        pictures += files[i].record.pictures;
    }
    printf("%s: %" PRIu64 " %s from %zu %s\n", path, pictures, plural(pictures, "picture", "pictures"), shards,
           plural(shards, "shard", "shards"));
}

static void free_files(struct shard_file *files, size_t count) {
    for (size_t i = 0; files && i < count; i++) {
        record_clear(&files[i].record);
    }
    free(files);
}

/* ---- Shards that processes share ---- */

struct sharing {
    struct tag_run *run;
    struct origin origin;
    size_t shards;
};

/* A shard of another run is an error; one that is not whole is made again. */
static int find_shard(void *user, size_t shard, const char *path, bool *done) {
    const struct sharing *sharing = user;
    struct record record;
    char why[WHY];
    int code = EXIT_DONE;
    *done = read_record(path, &record) && record.shard == shard && record.shards == sharing->shards && has_size(path, record.bytes);
    if (*done && differ(&record.origin, &sharing->origin, why, sizeof why)) {
        code = complain(sharing->run->arguments, "%s: is of another run: %s", path, why);
        print_hint("remove the shards of that run, %s.shard-*, or name another file with -o", sharing->run->form.output);
    }
    record_clear(&record);
    return code;
}

static int make_shared_shard(void *user, size_t shard, const char *path) {
    struct sharing *sharing = user;
    const int code = make_shard(sharing->run, &sharing->origin, shard, sharing->shards, path);
    if (code == EXIT_INTERRUPTED) {
        print_hint("run the same command again to continue");
    }
    return code;
}

static void discard_shard(void *user, const char *path) {
    const struct sharing *sharing = user;
    char *record = record_path(path);
    if (record) {
        remove_shard_file(sharing->run->arguments, record);
    }
    remove_shard_file(sharing->run->arguments, path);
    free(record);
}

static int join_shared(void *user, char *const *paths) {
    struct sharing *sharing = user;
    struct tag_run *run = sharing->run;
    struct shard_file *files = calloc(sharing->shards, sizeof *files);
    const char *damaged = NULL;
    bool all = files != NULL;
    size_t pictures = 0, bad = 0;
    for (size_t i = 0; all && i < sharing->shards; i++) {
        files[i].path = paths[i];
        all = read_record(paths[i], &files[i].record);
        pictures += (size_t)files[i].record.pictures;
        bad += (size_t)files[i].record.bad;
    }
    const int code = all ? join_files(run->arguments, files, run->form.output, &damaged)
                         : complain(run->arguments, "%s: a shard disappeared before it was joined", run->form.output);
    if (damaged) {
        discard_shard(user, damaged);
        print_hint("it was removed; run the same command again to make it anew");
    } else if (code == EXIT_DONE) {
        print_joined(run->form.output, files);
        run->pictures_done = pictures;
        run->bad = bad;
        run->joined = true;
    }
    free_files(files, sharing->shards);
    return code;
}

int tag_shared(struct tag_run *run, size_t shards) {
    struct sharing sharing = {.run = run, .shards = shards};
    const struct shared_work work = {.arguments = run->arguments,
                                     .path = run->form.output,
                                     .shards = shards,
                                     .find = find_shard,
                                     .make = make_shared_shard,
                                     .join = join_shared,
                                     .discard = discard_shard,
                                     .user = &sharing};
    int code = find_origin(run, &sharing.origin);
    if (code == EXIT_DONE) {
        code = share_work(&work);
    }
    free(sharing.origin.options);
    return code;
}

/* ---- l3a merge ---- */

bool is_tag_shard(const char *path) {
    struct record record;
    const bool is = read_record(path, &record);
    record_clear(&record);
    return is;
}

static int compare_files(const void *left, const void *right) {
    const struct record *one = &((const struct shard_file *)left)->record, *other = &((const struct shard_file *)right)->record;
    return (one->shard > other->shard) - (one->shard < other->shard);
}

/* Whether a shard goes with the first one; otherwise explains on stderr. */
static bool belongs(const struct arguments *arguments, const struct shard_file *first, const struct shard_file *file) {
    char why[WHY];
    if (file->record.shards != first->record.shards) {
        complain(arguments, "%s is one of %zu shards, but %s is one of %zu", first->path, first->record.shards, file->path,
                 file->record.shards);
        return false;
    }
    if (differ(&first->record.origin, &file->record.origin, why, sizeof why)) {
        complain(arguments, "%s and %s are shards of different runs: %s", first->path, file->path, why);
        return false;
    }
    return true;
}

/* Whether the files, which are sorted, are all shards of a run, each once; otherwise explains on stderr. */
static bool are_all(const struct arguments *arguments, const struct shard_file *files, size_t count) {
    const size_t shards = files[0].record.shards;
    for (size_t i = 1; i < count; i++) {
        if (files[i].record.shard == files[i - 1].record.shard) {
            complain(arguments, "%s and %s are both shard %zu of %zu", files[i - 1].path, files[i].path, files[i].record.shard,
                     shards);
            return false;
        }
    }
    size_t missing = 0;
    while (missing < count && files[missing].record.shard == missing + 1) {
        missing++;
    }
    if (count + 1 == shards) {
        complain(arguments, "shard %zu of %zu is missing", missing + 1, shards);
    } else if (count < shards) {
        complain(arguments, "%zu of %zu shards are missing, the first of them shard %zu", shards - count, shards, missing + 1);
    }
    return count == shards;
}

/* The folder of a file, without symbolic links. To be freed; NULL if it cannot be found. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    char *name = slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1) : strdup("."), *found = NULL;
    if (name) {
        found = realpath(name, NULL);
    }
    free(name);
    return found;
}

/* The paths in CSV were written for the folder of the shards. */
static void warn_of_folder(const struct arguments *arguments, const struct shard_file *first, const char *output) {
    static const char csv[] = "--format csv";
    char *from = folder_of(first->path), *to = folder_of(output);
    if (!arguments->quiet && from && to && strcmp(from, to) != 0 &&
        strncmp(first->record.origin.options, csv, sizeof csv - 1) == 0) {
        fprintf(stderr, "%swarning:%s %s is in another folder than the shards, and relative paths in it start from theirs\n",
                style(stderr, STYLE_BOLD), style(stderr, STYLE_PLAIN), output);
    }
    free(from);
    free(to);
}

static int merge_files(const struct arguments *arguments, struct shard_file *files, size_t count, const char *output) {
    const char *damaged = NULL;
    for (size_t i = 0; i < count; i++) {
        files[i].path = arguments->positionals[i];
        if (!read_record(files[i].path, &files[i].record)) {
            return complain(arguments, "%s: is no shard of tags, or its record %s.shard is missing or damaged", files[i].path,
                            files[i].path);
        }
        if (!belongs(arguments, &files[0], &files[i])) {
            return EXIT_USAGE;
        }
    }
    qsort(files, count, sizeof *files, compare_files);
    if (!are_all(arguments, files, count)) {
        return EXIT_USAGE;
    }
    const int code = join_files(arguments, files, output, &damaged);
    if (damaged) {
        print_hint("make it again with l3a tag --shard");
    } else if (code == EXIT_DONE) {
        print_joined(output, files);
        warn_of_folder(arguments, &files[0], output);
    }
    return code;
}

int merge_tag_shards(const struct arguments *arguments, const char *output) {
    const size_t count = arguments->positional_count;
    struct shard_file *files = calloc(count, sizeof *files);
    const int code = files ? merge_files(arguments, files, count, output) : complain(arguments, "out of memory");
    free_files(files, count);
    return code;
}
