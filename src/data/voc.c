/* PASCAL VOC: FOLDER/VOC2007/ (or another year) holds ImageSets/Main/SPLIT.txt with one id per line, Annotations/ID.xml with the
 * objects of a picture, and JPEGImages/ID.jpg.
 *
 * A class is present in a picture if the picture shows an object of the class that is not marked difficult. The devkit also has a
 * list for each class and split, ImageSets/Main/CLASS_SPLIT.txt: "ID 1" is present, "ID -1" absent, "ID 0" only difficult objects.
 * These lists name the classes, and are compared with the annotations. Without such lists, the classes are those of all
 * annotations. */
#include "base/file.h"
#include "base/text_index.h"
#include "common/closest.h"
#include "common/utf8.h"
#include "data/dataset.h"
#include "format/xml.h"

#include <stdio.h>
#include <string.h>

enum { ANNOTATION_LIMIT = 4 << 20, SPLIT_FILE_LIMIT = 64 << 20, ID_LIMIT = 200 };

static const char whitespace[] = " \t\r\n";

struct voc {
    struct l3a_dataset *dataset;
    l3a_context *context;
    char *root; /* the folder of one year */
    char *lists, *annotations, *pictures;
    text_list splits, classes;
    size_t distinct; /* the number of classes when duplicates were last removed */
};

static void voc_close(struct voc *voc) {
    release(voc->context, voc->root);
    release(voc->context, voc->lists);
    release(voc->context, voc->annotations);
    release(voc->context, voc->pictures);
    text_list_clear(voc->context, &voc->splits);
    text_list_clear(voc->context, &voc->classes);
}

static l3a_status has_lists(l3a_context *context, const char *folder, bool *has) {
    l3a_status status = L3A_OK;
    char *lists = NULL;
    TRY(join_path(context, folder, "ImageSets/Main", &lists));
    TRY(file_exists(context, lists, has));
done:
    release(context, lists);
    return status;
}

/* Finds the only folder VOC… in `folder` that has lists, if any; two are an error. */
static l3a_status find_year(struct voc *voc, const char *folder) {
    l3a_context *context = voc->context;
    l3a_status status = L3A_OK;
    text_list names = {0};
    char *year = NULL;
    TRY(list_folder(context, folder, &names));
    for (size_t i = 0; i < names.count; i++) {
        bool has = false;
        if (strncmp(names.items[i], "VOC2", 4) != 0) {
            continue;
        }
        TRY(join_path(context, folder, names.items[i], &year));
        TRY(has_lists(context, year, &has));
        FAIL_IF(has && voc->root, context, L3A_ERROR_OPTION, "name the folder of one year", "%s: more than one year: %s and %s",
                folder, voc->root, year);
        if (has) {
            voc->root = year;
            year = NULL;
        }
        release(context, year);
        year = NULL;
    }
done:
    release(context, year);
    text_list_clear(context, &names);
    return status;
}

/* FOLDER may be the folder of a year, the one above it, or the one above VOCdevkit. */
static l3a_status find_root(struct voc *voc, const char *folder) {
    l3a_context *context = voc->context;
    l3a_status status = L3A_OK;
    char *devkit = NULL, held[400];
    bool here = false, below = false;
    TRY(has_lists(context, folder, &here));
    if (here) {
        return copy_text(context, folder, strlen(folder), &voc->root);
    }
    TRY(find_year(voc, folder));
    TRY(join_path(context, folder, "VOCdevkit", &devkit));
    if (!voc->root) {
        TRY(file_exists(context, devkit, &below));
    }
    if (below) {
        TRY(find_year(voc, devkit));
    }
    if (!voc->root) {
        describe_folder(context, folder, held, sizeof held);
        status = fail(context, L3A_ERROR_NOT_FOUND, "name the folder that holds VOC2007, as the VOCdevkit does",
                      "%s: no VOC2007 or other year with ImageSets/Main in this folder; %s", folder, held);
    }
done:
    release(context, devkit);
    return status;
}

/* Whether the first line of a list has a second column, as the lists for a class do. */
static l3a_status has_flags(const struct voc *voc, const char *file, bool *flags) {
    enum { LOOKED_AT = 256 };
    l3a_status status = L3A_OK;
    char *path = NULL, text[LOOKED_AT + 1] = "";
    input_file input = {.file = -1};
    TRY(join_path(voc->context, voc->lists, file, &path));
    TRY(input_open(voc->context, path, &input));
    TRY(input_read(&input, 0, text, input.size < LOOKED_AT ? (size_t)input.size : LOOKED_AT));
    const char *at = text + strspn(text, whitespace);
    at += strcspn(at, whitespace);
    at += strspn(at, " \t");
    *flags = *at && !strchr("\r\n", *at);
done:
    input_close(&input);
    release(voc->context, path);
    return status;
}

/* Sorts the names and removes duplicates. */
static void sort_distinct(l3a_context *context, text_list *names) {
    size_t kept = 0;
    sort_texts(names->items, names->count);
    for (size_t i = 0; i < names->count; i++) {
        if (kept && strcmp(names->items[kept - 1], names->items[i]) == 0) {
            release(context, names->items[i]);
        } else {
            names->items[kept++] = names->items[i];
        }
    }
    names->count = kept;
}

/* A CLASS_SPLIT.txt with flags names a class; any other text file is a split. */
static l3a_status sort_out(struct voc *voc, const text_list *stems) {
    l3a_status status = L3A_OK;
    text_index known = {0};
    TRY(text_index_make(voc->context, stems->items, stems->count, &known));
    for (size_t i = 0; i < stems->count; i++) {
        char *stem = stems->items[i], *bar = strrchr(stem, '_'), file[ID_LIMIT + 8];
        bool flags = false;
        if (bar && bar > stem && text_index_find(&known, bar + 1) < stems->count) {
            snprintf(file, sizeof file, "%s.txt", stem);
            TRY(has_flags(voc, file, &flags));
        }
        if (!flags) {
            TRY(text_list_add(voc->context, &voc->splits, stem, strlen(stem)));
            continue;
        }
        char name[ID_LIMIT];
        snprintf(name, sizeof name, "%.*s", (int)(bar - stem), stem);
        TRY(text_list_add(voc->context, &voc->classes, name, strlen(name)));
    }
    sort_distinct(voc->context, &voc->classes);
done:
    text_index_free(voc->context, &known);
    return status;
}

static l3a_status voc_look(struct voc *voc, const char *folder) {
    l3a_context *context = voc->context;
    l3a_status status = L3A_OK;
    text_list names = {0}, stems = {0};
    TRY(find_root(voc, folder));
    TRY(join_path(context, voc->root, "ImageSets/Main", &voc->lists));
    TRY(join_path(context, voc->root, "Annotations", &voc->annotations));
    TRY(join_path(context, voc->root, "JPEGImages", &voc->pictures));
    TRY(list_folder(context, voc->lists, &names));
    for (size_t i = 0; i < names.count; i++) {
        const size_t length = strlen(names.items[i]);
        if (length > 4 && length < ID_LIMIT && strcmp(names.items[i] + length - 4, ".txt") == 0) {
            TRY(text_list_add(context, &stems, names.items[i], length - 4));
        }
    }
    TRY(sort_out(voc, &stems));
done:
    text_list_clear(context, &names);
    text_list_clear(context, &stems);
    return status;
}

/* The objects of one annotation, as they are read. */
struct objects {
    struct voc *voc;
    const char *path;
    int8_t *labels, *members; /* of one row; NULL to collect only the class names */
    char name[256];
    bool difficult;
};

/* Collects names as they come, and removes duplicates whenever the number of names has doubled. */
static l3a_status collect_class(struct voc *voc, const char *name) {
    enum { AT_LEAST = 1024 };
    if (voc->classes.count >= AT_LEAST && voc->classes.count >= 2 * voc->distinct) {
        sort_distinct(voc->context, &voc->classes);
        voc->distinct = voc->classes.count;
    }
    return text_list_add(voc->context, &voc->classes, name, strlen(name));
}

static l3a_status take_object(struct objects *objects) {
    struct voc *voc = objects->voc;
    if (!objects->name[0]) {
        return fail(voc->context, L3A_ERROR_DATA, NULL, "%s: an object without a name", objects->path);
    }
    if (!objects->labels) {
        return collect_class(voc, objects->name);
    }
    const struct l3a_dataset *dataset = voc->dataset;
    const size_t class = dataset_find_class(dataset, objects->name);
    if (class == dataset->classes.count) {
        const char *close = closest_name(objects->name, (const char *const *)dataset->classes.items, dataset->classes.count);
        return fail(voc->context, L3A_ERROR_CLASS, "correct the name, or add ImageSets/Main/CLASS_SPLIT.txt for this class",
                    "%s: '%s' is not one of the %zu classes%s%s%s", objects->path, objects->name, dataset->classes.count,
                    close ? "; did you mean '" : "", close ? close : "", close ? "'?" : "");
    }
    if (!objects->difficult) {
        objects->labels[class] = objects->members[class] = 1;
    } else if (objects->labels[class] == 0) {
        objects->labels[class] = -1;
    }
    return L3A_OK;
}

static l3a_status on_element(const char *path, const char *text, void *user) {
    struct objects *objects = user;
    l3a_status status = L3A_OK;
    if (strcmp(path, "annotation/object/name") == 0) {
        snprintf(objects->name, sizeof objects->name, "%s", text);
    } else if (strcmp(path, "annotation/object/difficult") == 0) {
        objects->difficult = strcmp(text, "0") != 0 && text[0];
    } else if (strcmp(path, "annotation/object") == 0) {
        status = take_object(objects);
        objects->name[0] = '\0';
        objects->difficult = false;
    } else if (!strchr(path, '/') && strcmp(path, "annotation") != 0) {
        status = fail(objects->voc->context, L3A_ERROR_FORMAT, "check that this is a VOC annotation",
                      "%s: the root element is '%.64s' instead of 'annotation'", objects->path, path);
    }
    return status;
}

static l3a_status read_annotation(struct voc *voc, const char *file, int8_t *labels, int8_t *members) {
    l3a_status status = L3A_OK;
    struct objects objects = {.voc = voc, .labels = labels, .members = members};
    char *path = NULL, *text = NULL;
    size_t length;
    TRY(join_path(voc->context, voc->annotations, file, &path));
    objects.path = path;
    TRY(read_whole(voc->context, path, ANNOTATION_LIMIT, &text, &length));
    TRY(xml_read(voc->context, path, text, length, on_element, &objects));
done:
    release(voc->context, text);
    release(voc->context, path);
    return status;
}

static l3a_status collect_classes(struct voc *voc) {
    l3a_status status = L3A_OK;
    text_list names = {0};
    TRY(list_folder(voc->context, voc->annotations, &names));
    for (size_t i = 0; i < names.count; i++) {
        const size_t length = strlen(names.items[i]);
        if (length > 4 && strcmp(names.items[i] + length - 4, ".xml") == 0) {
            TRY(read_annotation(voc, names.items[i], NULL, NULL));
        }
    }
    sort_distinct(voc->context, &voc->classes);
done:
    text_list_clear(voc->context, &names);
    return status;
}

/* Takes the first word of a line; *rest is what follows it. */
static char *take_word(char *line, char **rest) {
    char *word = line + strspn(line, whitespace);
    *rest = word + strcspn(word, whitespace);
    if (**rest) {
        *(*rest)++ = '\0';
    }
    return word;
}

static l3a_status read_lines(const struct voc *voc, const char *file, text_list *lines) {
    l3a_status status = L3A_OK;
    char *path = NULL, *text = NULL;
    size_t length;
    TRY(join_path(voc->context, voc->lists, file, &path));
    TRY(read_whole(voc->context, path, SPLIT_FILE_LIMIT, &text, &length));
    TRY(text_list_split_lines(voc->context, lines, text, length));
done:
    release(voc->context, path);
    release(voc->context, text);
    return status;
}

static l3a_status read_split(struct voc *voc, const char *split) {
    l3a_status status = L3A_OK;
    char file[ID_LIMIT + 8], picture[ID_LIMIT + 8], *rest;
    text_list lines = {0};
    snprintf(file, sizeof file, "%s.txt", split);
    TRY(read_lines(voc, file, &lines));
    for (size_t i = 0; i < lines.count; i++) {
        const char *id = take_word(lines.items[i], &rest);
        if (!id[0]) {
            continue;
        }
        FAIL_IF(strlen(id) >= ID_LIMIT || strchr(id, '/') || !stays_below(id) || !is_utf8(id), voc->context, L3A_ERROR_FORMAT,
                "put one picture id on each line", "%s/%s: line %zu: '%.64s' is not the id of a picture", voc->lists, file, i + 1,
                id);
        snprintf(picture, sizeof picture, "%s.jpg", id);
        TRY(dataset_add_row(voc->dataset, id, voc->pictures, picture));
    }
done:
    text_list_clear(voc->context, &lines);
    return status;
}

static l3a_status read_annotations(struct voc *voc) {
    enum { REPORT_EVERY = 256 };
    struct l3a_dataset *dataset = voc->dataset;
    l3a_status status = L3A_OK;
    const size_t rows = dataset->ids.count, classes = dataset->classes.count;
    char file[ID_LIMIT + 8];
    for (size_t i = 0; i < rows; i++) {
        snprintf(file, sizeof file, "%s.xml", l3a_dataset_id(dataset, i));
        TRY(read_annotation(voc, file, dataset->labels + i * classes, dataset->members + i * classes));
        if (i % REPORT_EVERY == 0) {
            TRY(report_progress(voc->context, "read", i, rows));
        }
    }
done:
    return status;
}

/* The differences between the list of a class and the annotations. */
struct comparison {
    size_t disagreements;
    char first[300];
};

static const char *meaning(int label) {
    return label == 1 ? "present" : label == 0 ? "absent" : label == -1 ? "only difficult objects" : "not in this split";
}

static void disagree(struct comparison *comparison, const char *file, const char *id, int listed, int annotated) {
    if (!comparison->disagreements++) {
        snprintf(comparison->first, sizeof comparison->first, "%.100s lists %.100s as '%s', the annotations as '%s'", file, id,
                 meaning(listed), meaning(annotated));
    }
}

static l3a_status compare_class(struct voc *voc, const text_index *rows_by_id, size_t class, const char *split,
                                struct comparison *comparison) {
    enum { NOT_THERE = 2 };
    const struct l3a_dataset *dataset = voc->dataset;
    l3a_status status = L3A_OK;
    const size_t rows = dataset->ids.count, classes = dataset->classes.count;
    char file[2 * ID_LIMIT + 8], *rest, *after;
    text_list lines = {0};
    bool exists;
    char *path = NULL;
    snprintf(file, sizeof file, "%s_%s.txt", dataset->classes.items[class], split);
    TRY(join_path(voc->context, voc->lists, file, &path));
    TRY(file_exists(voc->context, path, &exists));
    if (!exists) {
        goto done;
    }
    TRY(read_lines(voc, file, &lines));
    for (size_t i = 0; i < lines.count; i++) {
        const char *id = take_word(lines.items[i], &rest), *flag = take_word(rest, &after);
        const size_t row = text_index_find(rows_by_id, id);
        const int listed = strcmp(flag, "1") == 0 ? 1 : strcmp(flag, "0") == 0 ? -1 : 0;
        const int annotated = row < rows ? dataset->labels[row * classes + class] : NOT_THERE;
        if (id[0] && listed != annotated) {
            disagree(comparison, file, id, listed, annotated);
        }
    }
done:
    release(voc->context, path);
    text_list_clear(voc->context, &lines);
    return status;
}

static l3a_status compare_lists(struct voc *voc, const char *split) {
    l3a_status status = L3A_OK;
    struct comparison comparison = {0};
    text_index rows_by_id;
    TRY(text_index_make_pool(voc->context, &voc->dataset->ids, &rows_by_id));
    for (size_t class = 0; class < voc->dataset->classes.count; class ++) {
        TRY(compare_class(voc, &rows_by_id, class, split, &comparison));
    }
    voc->dataset->disagreements = comparison.disagreements;
    if (comparison.disagreements) {
        report_warning(voc->context,
                       "%s: %zu picture-class pairs differ between Annotations and ImageSets/Main; the annotations are "
                       "used. The first: %s",
                       voc->root, comparison.disagreements, comparison.first);
    }
done:
    text_index_free(voc->context, &rows_by_id);
    return status;
}

static l3a_status voc_open(struct l3a_dataset *dataset, const char *place, const char *split, const l3a_dataset_options *options) {
    struct voc voc = {.dataset = dataset, .context = dataset->context};
    l3a_status status = L3A_OK;
    TRY(voc_look(&voc, place));
    TRY(check_split(voc.context, place, split, &voc.splits));
    if (!voc.classes.count) {
        TRY(collect_classes(&voc));
    }
    TRY(dataset_set_classes(dataset, place, &voc.classes));
    TRY(read_split(&voc, split));
    TRY(dataset_make_labels(dataset, place));
    TRY(read_annotations(&voc));
    TRY(compare_lists(&voc, split));
    dataset->ignores_difficult = options->ignore_difficult;
    const size_t pairs = dataset->ids.count * dataset->classes.count;
    for (size_t i = 0; i < pairs && !options->ignore_difficult; i++) {
        dataset->labels[i] = dataset->labels[i] == 1;
    }
done:
    voc_close(&voc);
    return status;
}

static l3a_status voc_splits(l3a_context *context, const char *place, text_list *splits) {
    struct voc voc = {.context = context};
    const l3a_status status = voc_look(&voc, place);
    if (status == L3A_OK) {
        *splits = voc.splits;
        memset(&voc.splits, 0, sizeof voc.splits);
    }
    voc_close(&voc);
    return status;
}

const struct dataset_kind voc_kind = {"voc", "voc:FOLDER", voc_open, voc_splits, {{"trainval", "test"}}};
