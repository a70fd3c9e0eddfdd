/* A folder of folders: FOLDER/CLASS/… holds the pictures that show the class, to any depth. Pictures that lie in FOLDER itself show
 * none of the classes. If all folders in FOLDER have the names of splits and hold folders themselves, they are splits:
 * FOLDER/SPLIT/CLASS/….
 *
 * Files with the same bytes are one picture, which shows the classes of all the folders it lies in. Only files of the same size are
 * read to find that out; they are compared by the XXH3 of their content. */
#include "base/file.h"
#include "data/dataset.h"
#include "data/pictures.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct file {
    size_t number, class; /* NO_CLASS: it lies in the folder of the classes itself */
    uint64_t size, checksum;
};

static const size_t NO_CLASS = SIZE_MAX;

struct folders {
    struct l3a_dataset *dataset;
    l3a_context *context;
    char *place, *root; /* FOLDER, and the folder of the classes: FOLDER or FOLDER/SPLIT */
    text_list names;    /* of the folders in root; a file's class is one of them */
    text_pool ids;      /* of the files: their paths below FOLDER */
    struct file *files;
    size_t count, capacity;
    size_t *same; /* for each file, the first file with the same content */
    size_t skipped, loose, copies;
    char *skipped_example;
};

static void folders_close(struct folders *folders) {
    release(folders->context, folders->place);
    release(folders->context, folders->root);
    text_list_clear(folders->context, &folders->names);
    text_pool_clear(folders->context, &folders->ids);
    release(folders->context, folders->files);
    release(folders->context, folders->same);
    release(folders->context, folders->skipped_example);
}

/* Adds the names of the folders in a folder, sorted; hidden ones are left out. */
static l3a_status list_folders(l3a_context *context, const char *folder, text_list *names) {
    l3a_status status = L3A_OK;
    text_list all = {0};
    char *path = NULL;
    TRY(list_folder(context, folder, &all));
    for (size_t i = 0; i < all.count; i++) {
        file_description about;
        if (is_hidden(all.items[i])) {
            continue;
        }
        TRY(join_path(context, folder, all.items[i], &path));
        if (context->files->describe(path, &about) == 0 && S_ISDIR(about.mode)) {
            TRY(text_list_add(context, names, all.items[i], strlen(all.items[i])));
        }
        release(context, path);
        path = NULL;
    }
done:
    release(context, path);
    text_list_clear(context, &all);
    return status;
}

static bool is_split_name(const char *name) {
    static const char *const splits[] = {"train", "trainval", "val", "valid", "validation", "test"};
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        if (strcmp(name, splits[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds the names of the folders in FOLDER/name. */
static l3a_status list_below(l3a_context *context, const char *place, const char *name, text_list *names) {
    l3a_status status = L3A_OK;
    char *path = NULL;
    TRY(join_path(context, place, name, &path));
    TRY(list_folders(context, path, names));
done:
    release(context, path);
    return status;
}

/* Adds the splits: all folders, or, if they are no splits, "all". */
static l3a_status find_splits(l3a_context *context, const char *place, const text_list *names, text_list *splits) {
    l3a_status status = L3A_OK;
    text_list below = {0};
    size_t called = 0, holding = 0;
    for (size_t i = 0; i < names->count; i++) {
        called += is_split_name(names->items[i]);
    }
    for (size_t i = 0; i < names->count && called == names->count; i++) {
        TRY(list_below(context, place, names->items[i], &below));
        holding += below.count > 0;
        text_list_clear(context, &below);
    }
    if (!names->count || holding < names->count) {
        status = text_list_add(context, splits, "all", 3);
        goto done;
    }
    for (size_t i = 0; i < names->count; i++) {
        TRY(text_list_add(context, splits, names->items[i], strlen(names->items[i])));
    }
done:
    text_list_clear(context, &below);
    return status;
}

static bool has_splits(const text_list *splits) {
    return strcmp(splits->items[0], "all") != 0;
}

static l3a_status copy_place(l3a_context *context, const char *place, char **copy) {
    size_t length = strlen(place);
    while (length > 1 && place[length - 1] == '/') {
        length--;
    }
    return copy_text(context, place, length, copy);
}

static l3a_status folders_splits(l3a_context *context, const char *place, text_list *splits) {
    l3a_status status = L3A_OK;
    char *copy = NULL;
    text_list names = {0};
    TRY(copy_place(context, place, &copy));
    TRY(list_folders(context, copy, &names));
    TRY(find_splits(context, copy, &names, splits));
done:
    release(context, copy);
    text_list_clear(context, &names);
    return status;
}

static l3a_status add_file(struct folders *folders, const char *path, size_t class) {
    l3a_context *context = folders->context;
    l3a_status status = L3A_OK;
    file_description about;
    const char *id = path + strlen(folders->place);
    id += strspn(id, "/");
    FAIL_IF(strpbrk(id, "\r\n"), context, L3A_ERROR_FORMAT, "rename the file or the folder", "%s: the name contains a line break",
            path);
    FAIL_IF(context->files->describe(path, &about), context, L3A_ERROR_IO, "try again", "%s: was removed during the search", path);
    TRY(grow_array(context, &folders->files, &folders->capacity, folders->count + 1, sizeof *folders->files));
    TRY(text_pool_add(context, &folders->ids, id, strlen(id)));
    folders->files[folders->count] = (struct file){folders->count, class, about.size, 0};
    folders->count++;
done:
    return status;
}

static l3a_status note_skipped(struct folders *folders, const l3a_pictures *pictures) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; l3a_pictures_skipped(pictures, i); i++, folders->skipped++) {
        if (!folders->skipped_example) {
            text_builder text = {.context = folders->context};
            text_builder_print(&text, "%s: %s", l3a_pictures_skipped(pictures, i), l3a_pictures_reason(pictures, i));
            status = text.status;
            folders->skipped_example = text.text;
        }
    }
    return status;
}

/* Adds the files of a class, or those that lie in root itself. */
static l3a_status add_files(struct folders *folders, size_t class) {
    l3a_context *context = folders->context;
    l3a_status status = L3A_OK;
    l3a_pictures *pictures = NULL;
    char *path = NULL;
    if (class == NO_CLASS) {
        TRY(pictures_find_in(context, folders->root, false, &pictures));
    } else {
        TRY(join_path(context, folders->root, folders->names.items[class], &path));
        TRY(pictures_find_in(context, path, true, &pictures));
    }
    for (size_t i = 0; i < l3a_pictures_count(pictures); i++) {
        TRY(add_file(folders, l3a_pictures_path(pictures, i), class));
    }
    TRY(note_skipped(folders, pictures));
done:
    release(context, path);
    l3a_pictures_free(pictures);
    return status;
}

/* By content, and equal content in the order of the files. */
static int compare_files(const void *left, const void *right) {
    const struct file *a = left, *b = right;
    if (a->size != b->size) {
        return a->size < b->size ? -1 : 1;
    }
    if (a->checksum != b->checksum) {
        return a->checksum < b->checksum ? -1 : 1;
    }
    return (a->number > b->number) - (a->number < b->number);
}

static l3a_status compute_checksum(const struct folders *folders, struct file *file) {
    l3a_context *context = folders->context;
    l3a_status status = L3A_OK;
    input_file input = {.file = -1};
    char *path = NULL;
    TRY(join_path(context, folders->place, text_pool_at(&folders->ids, file->number), &path));
    TRY(input_open(context, path, &input));
    TRY(input_checksum(&input, 0, input.size, &file->checksum));
done:
    input_close(&input);
    release(context, path);
    return status;
}

/* Fills `same`. Afterwards the files are sorted by content. */
static l3a_status compare_contents(struct folders *folders) {
    l3a_context *context = folders->context;
    l3a_status status = L3A_OK;
    struct file *files = folders->files;
    const size_t count = folders->count;
    TRY(allocate(context, count, sizeof *folders->same, &folders->same));
    if (!count) {
        goto done;
    }
    qsort(files, count, sizeof *files, compare_files);
    for (size_t i = 0; i < count; i++) {
        if ((i && files[i - 1].size == files[i].size) || (i + 1 < count && files[i + 1].size == files[i].size)) {
            TRY(report_progress(context, "compare", i, count));
            TRY(compute_checksum(folders, &files[i]));
        }
    }
    qsort(files, count, sizeof *files, compare_files);
    for (size_t i = 0, first = 0; i < count; i++) {
        first = files[first].size == files[i].size && files[first].checksum == files[i].checksum ? first : i;
        folders->same[files[i].number] = files[first].number;
    }
done:
    return status;
}

/* With splits, the classes are those of all splits. Without, a folder that holds no picture is no class. */
static l3a_status collect_classes(struct folders *folders, const text_list *splits) {
    l3a_context *context = folders->context;
    l3a_status status = L3A_OK;
    text_list all = {0}, classes = {0};
    bool *used = NULL;
    TRY(allocate_zeroed(context, folders->names.count, sizeof *used, &used));
    for (size_t i = 0; i < folders->count; i++) {
        if (folders->files[i].class != NO_CLASS) {
            used[folders->files[i].class] = true;
        }
    }
    for (size_t i = 0; has_splits(splits) && i < splits->count; i++) {
        TRY(list_below(context, folders->place, splits->items[i], &all));
    }
    for (size_t i = 0; !has_splits(splits) && i < folders->names.count; i++) {
        if (used[i]) {
            TRY(text_list_add(context, &all, folders->names.items[i], strlen(folders->names.items[i])));
        } else {
            report_warning(context, "%s/%s: holds no pictures, so it is not a class", folders->root, folders->names.items[i]);
        }
    }
    TRY(add_distinct(context, all.items, all.count, &classes));
    TRY(dataset_set_classes(folders->dataset, folders->place, &classes));
done:
    release(context, used);
    text_list_clear(context, &all);
    text_list_clear(context, &classes);
    return status;
}

static l3a_status add_rows(struct folders *folders) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < folders->count; i++) {
        const char *id = text_pool_at(&folders->ids, i);
        if (folders->same[i] == i) {
            TRY(dataset_add_row(folders->dataset, id, folders->place, id));
        }
    }
done:
    return status;
}

static l3a_status set_labels(struct folders *folders) {
    struct l3a_dataset *dataset = folders->dataset;
    l3a_status status = L3A_OK;
    const size_t classes = dataset->classes.count;
    size_t *rows = NULL, row = 0;
    TRY(allocate(folders->context, folders->count, sizeof *rows, &rows));
    for (size_t i = 0; i < folders->count; i++) {
        rows[i] = folders->same[i] == i ? row++ : rows[folders->same[i]];
    }
    for (size_t i = 0; i < folders->count; i++) {
        const struct file *file = &folders->files[i];
        if (file->class != NO_CLASS) {
            const size_t class = dataset_find_class(dataset, folders->names.items[file->class]);
            int8_t *label = &dataset->labels[rows[file->number] * classes + class];
            folders->copies += *label == 1;
            *label = dataset->members[rows[file->number] * classes + class] = 1;
        }
    }
    for (size_t i = 0; i < row; i++) {
        folders->loose += !memchr(dataset->labels + i * classes, 1, classes);
    }
done:
    release(folders->context, rows);
    return status;
}

static void warn(const struct folders *folders) {
    l3a_context *context = folders->context;
    size_t called = 0;
    for (size_t i = 0; i < folders->names.count; i++) {
        called += is_split_name(folders->names.items[i]);
    }
    if (folders->skipped) {
        report_warning(context, "%s: files or folders skipped: %zu, for example %s", folders->root, folders->skipped,
                       folders->skipped_example);
    }
    if (folders->loose) {
        report_warning(context,
                       "%s: pictures that lie in none of the folders: %zu; they count as pictures that show none of the classes",
                       folders->root, folders->loose);
    }
    if (folders->copies) {
        report_warning(context, "%s: copies of a picture in the folder of the same class: %zu; they are counted once",
                       folders->root, folders->copies);
    }
    if (called > 1 && strcmp(folders->root, folders->place) == 0) {
        report_warning(context,
                       "%s: folders called train, test and so on are classes here; they are splits only if all folders are, "
                       "and if each of them holds folders",
                       folders->root);
    }
}

/* Finds the folder of the classes, and what is in it. */
static l3a_status folders_read(struct folders *folders, const char *split, text_list *splits) {
    l3a_context *context = folders->context;
    l3a_status status = L3A_OK;
    char there[400];
    TRY(list_folders(context, folders->place, &folders->names));
    TRY(find_splits(context, folders->place, &folders->names, splits));
    split = split || has_splits(splits) ? split : "all";
    TRY(check_split(context, folders->place, split, splits));
    if (has_splits(splits)) {
        text_list_clear(context, &folders->names);
        TRY(join_path(context, folders->place, split, &folders->root));
        TRY(list_folders(context, folders->root, &folders->names));
    } else {
        TRY(copy_text(context, folders->place, strlen(folders->place), &folders->root));
    }
    if (!folders->names.count) {
        describe_folder(context, folders->root, there, sizeof there);
        status = fail(context, L3A_ERROR_CLASS, "put the pictures of each class in a folder with the name of the class",
                      "%s: no folders in this folder; %s", folders->root, there);
        goto done;
    }
    for (size_t i = 0; i < folders->names.count; i++) {
        TRY(add_files(folders, i));
    }
    TRY(add_files(folders, NO_CLASS));
    FAIL_IF(!folders->count, context, L3A_ERROR_DATA, "check that this is the right folder",
            "%s: no pictures in the folders in it%s%s", folders->root, folders->skipped ? "; skipped for example " : "",
            folders->skipped ? folders->skipped_example : "");
done:
    return status;
}

static l3a_status folders_open(struct l3a_dataset *dataset, const char *place, const char *split,
                               const l3a_dataset_options *options) {
    l3a_status status = L3A_OK;
    struct folders folders = {.dataset = dataset, .context = dataset->context};
    text_list splits = {0};
    (void)options;
    TRY(copy_place(folders.context, place, &folders.place));
    TRY(folders_read(&folders, split, &splits));
    TRY(compare_contents(&folders));
    TRY(collect_classes(&folders, &splits));
    TRY(add_rows(&folders));
    TRY(dataset_make_labels(dataset, folders.root));
    TRY(set_labels(&folders));
    warn(&folders);
done:
    folders_close(&folders);
    text_list_clear(folders.context, &splits);
    return status;
}

const struct dataset_kind folders_kind = {"folders", "folders:FOLDER", folders_open, folders_splits, {{NULL}}};
