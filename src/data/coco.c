/* MS-COCO: FOLDER/annotations/instances_SPLIT.json lists images, annotations and categories, in any order. The pictures are in
 * FOLDER/SPLIT/, FOLDER/images/SPLIT/ or, without the year, for example FOLDER/train/.
 *
 * The file has hundreds of megabytes, nearly all of them outlines of objects, which are not needed here. It is read once, through a
 * window; 16 bytes per annotation are kept until all images and categories are known. A crowd (iscrowd 1) gives no label, but makes
 * the picture a member of the class's phase. */
#include "base/file.h"
#include "common/utf8.h"
#include "data/dataset.h"
#include "format/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Positions in the text are kept in 32 bits, and a category with its crowd flag in another 32. */
static const uint64_t FILE_LIMIT = UINT32_MAX, CATEGORY_LIMIT = INT32_MAX;
static const char file_start[] = "instances_", file_end[] = ".json";

struct annotation {
    uint64_t image;
    uint32_t category_and_crowd; /* 2 * category + crowd */
    uint32_t place;
};

struct identified {
    uint64_t id;
    uint32_t index; /* a row or a class */
    uint32_t place;
};

struct identified_list {
    struct identified *items;
    size_t count, capacity;
};

struct coco {
    struct l3a_dataset *dataset;
    l3a_context *context;
    struct json json;
    char *pictures;
    struct identified_list images, categories;
    struct annotation *annotations;
    size_t annotation_count, annotation_capacity;
    text_list names; /* of the categories, in the order of the file */
    bool has_images, has_annotations, has_categories;
};

static void coco_close(struct coco *coco) {
    json_close(&coco->json);
    release(coco->context, coco->pictures);
    release(coco->context, coco->images.items);
    release(coco->context, coco->categories.items);
    release(coco->context, coco->annotations);
    text_list_clear(coco->context, &coco->names);
}

/* An error about something that was read earlier, at its position. */
__attribute__((format(printf, 4, 5))) static l3a_status fail_at(struct coco *coco, uint64_t place, l3a_status status,
                                                                const char *format, ...) {
    size_t line, column;
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    json_place(&coco->json, place, &line, &column);
    return fail(coco->context, status, "the file contradicts itself: copy or create it again", "%s: line %zu, column %zu: %s",
                coco->json.name, line, column, what);
}

static l3a_status list_add(struct coco *coco, struct identified_list *list, uint64_t id, size_t index, uint64_t place) {
    l3a_status status = L3A_OK;
    TRY(grow_array(coco->context, &list->items, &list->capacity, list->count + 1, sizeof *list->items));
    list->items[list->count++] = (struct identified){id, (uint32_t)index, (uint32_t)place};
done:
    return status;
}

static int compare_ids(const void *left, const void *right) {
    const struct identified *a = left, *b = right;
    return a->id != b->id ? (a->id < b->id ? -1 : 1) : (a->place > b->place) - (a->place < b->place);
}

static l3a_status list_sort(struct coco *coco, struct identified_list *list, const char *what) {
    if (!list->count) {
        return L3A_OK;
    }
    qsort(list->items, list->count, sizeof *list->items, compare_ids);
    for (size_t i = 1; i < list->count; i++) {
        if (list->items[i].id == list->items[i - 1].id) {
            return fail_at(coco, list->items[i].place, L3A_ERROR_DATA, "%s id %" PRIu64 " is listed twice", what,
                           list->items[i].id);
        }
    }
    return L3A_OK;
}

static const struct identified *list_find(const struct identified_list *list, uint64_t id) {
    const struct identified wanted = {.id = id};
    size_t low = 0, high = list->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (list->items[middle].id < wanted.id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < list->count && list->items[low].id == id ? &list->items[low] : NULL;
}

/* The position of the next value. */
static uint64_t next_place(struct json *json) {
    json_peek(json);
    return json_position(json);
}

/* Reads "id" and one text: the "file_name" of an image or the "name" of a category. The caller releases the text. */
static l3a_status read_named(struct json *json, const char *what, const char *text_key, uint64_t *id, char **text) {
    l3a_status status = L3A_OK;
    const uint64_t place = next_place(json);
    bool more = true, has_id = false;
    json_text key, value;
    TRY(json_object(json));
    for (;;) {
        TRY(json_next_key(json, &key, &more));
        if (!more) {
            break;
        }
        if (json_text_is(key, "id")) {
            TRY(json_integer(json, id));
            has_id = true;
        } else if (json_text_is(key, text_key)) {
            TRY(json_string(json, &value));
            release(json->context, *text);
            *text = NULL;
            TRY(json_text_copy(json, value, text));
        } else {
            TRY(json_skip(json));
        }
    }
    if (!has_id || !*text) {
        status = json_fail_at(json, place, "%s without \"%s\"", what, has_id ? text_key : "id");
    }
done:
    return status;
}

static l3a_status read_image(struct coco *coco) {
    struct json *json = &coco->json;
    l3a_status status = L3A_OK;
    const uint64_t place = next_place(json);
    char *file = NULL, id_text[32];
    uint64_t id = 0;
    TRY(read_named(json, "an image", "file_name", &id, &file));
    if (!stays_below(file) || !is_utf8(file)) {
        status = fail_at(coco, place, L3A_ERROR_DATA, "image %" PRIu64 ": '%.128s' is not a valid picture path", id, file);
        goto done;
    }
    snprintf(id_text, sizeof id_text, "%012" PRIu64, id);
    TRY(list_add(coco, &coco->images, id, coco->dataset->ids.count, place));
    TRY(dataset_add_row(coco->dataset, id_text, coco->pictures, file));
done:
    release(coco->context, file);
    return status;
}

static l3a_status read_category(struct coco *coco) {
    struct json *json = &coco->json;
    l3a_status status = L3A_OK;
    const uint64_t place = next_place(json);
    char *decoded = NULL;
    uint64_t id = 0;
    TRY(read_named(json, "a category", "name", &id, &decoded));
    TRY(list_add(coco, &coco->categories, id, coco->names.count, place));
    TRY(text_list_add(coco->context, &coco->names, decoded, strlen(decoded)));
done:
    release(coco->context, decoded);
    return status;
}

static l3a_status read_crowd(struct json *json, uint64_t *crowd) {
    const uint64_t place = next_place(json);
    const l3a_status status = json_integer(json, crowd);
    if (status == L3A_OK && *crowd > 1) {
        return json_fail_at(json, place, "\"iscrowd\" is neither 0 nor 1");
    }
    return status;
}

static l3a_status read_annotation(struct coco *coco) {
    struct json *json = &coco->json;
    l3a_status status = L3A_OK;
    const uint64_t place = next_place(json);
    bool more = true, has_image = false, has_category = false;
    uint64_t image = 0, category = 0, crowd = 0;
    json_text key;
    TRY(json_object(json));
    for (;;) {
        TRY(json_next_key(json, &key, &more));
        if (!more) {
            break;
        }
        if (json_text_is(key, "image_id")) {
            TRY(json_integer(json, &image));
            has_image = true;
        } else if (json_text_is(key, "category_id")) {
            TRY(json_integer(json, &category));
            has_category = true;
        } else if (json_text_is(key, "iscrowd")) {
            TRY(read_crowd(json, &crowd));
        } else {
            TRY(json_skip(json));
        }
    }
    if (!has_image || !has_category || category > CATEGORY_LIMIT) {
        status =
            json_fail_at(json, place, has_image && has_category ? "a category id above 2147483647" : "an annotation without \"%s\"",
                         has_image ? "category_id" : "image_id");
        goto done;
    }
    TRY(grow_array(coco->context, &coco->annotations, &coco->annotation_capacity, coco->annotation_count + 1,
                   sizeof *coco->annotations));
    coco->annotations[coco->annotation_count++] = (struct annotation){image, (uint32_t)(2 * category + crowd), (uint32_t)place};
done:
    return status;
}

static l3a_status read_items(struct coco *coco, l3a_status (*read_item)(struct coco *coco), bool *seen) {
    enum { REPORT_EVERY = 1 << 14 };
    struct json *json = &coco->json;
    l3a_status status = L3A_OK;
    bool more = true;
    *seen = true;
    TRY(json_array(json));
    for (size_t i = 0;; i++) {
        TRY(json_next_item(json, &more));
        if (!more) {
            break;
        }
        TRY(read_item(coco));
        if (i % REPORT_EVERY == 0) {
            TRY(report_progress(coco->context, "parse", json_position(json), json->size));
        }
    }
done:
    return status;
}

static l3a_status read_file(struct coco *coco) {
    struct json *json = &coco->json;
    l3a_status status = L3A_OK;
    bool more = true;
    json_text key;
    TRY(json_object(json));
    for (;;) {
        TRY(json_next_key(json, &key, &more));
        if (!more) {
            break;
        }
        if (json_text_is(key, "images")) {
            TRY(read_items(coco, read_image, &coco->has_images));
        } else if (json_text_is(key, "annotations")) {
            TRY(read_items(coco, read_annotation, &coco->has_annotations));
        } else if (json_text_is(key, "categories")) {
            TRY(read_items(coco, read_category, &coco->has_categories));
        } else {
            TRY(json_skip(json));
        }
    }
    TRY(json_end(json));
    FAIL_IF(!coco->has_images || !coco->has_annotations || !coco->has_categories, coco->context, L3A_ERROR_FORMAT,
            "use an instances file of COCO, which has images, annotations and categories", "%s: has no \"%s\"", json->name,
            !coco->has_images        ? "images"
            : !coco->has_annotations ? "annotations"
                                     : "categories");
done:
    return status;
}

/* Sorts the class names into the data set, and gives each category the index of its class. */
static l3a_status settle_classes(struct coco *coco) {
    struct l3a_dataset *dataset = coco->dataset;
    l3a_status status = L3A_OK;
    text_list sorted = {0};
    for (size_t i = 0; i < coco->names.count; i++) {
        TRY(text_list_add(coco->context, &sorted, coco->names.items[i], strlen(coco->names.items[i])));
    }
    sort_texts(sorted.items, sorted.count);
    TRY(dataset_set_classes(dataset, coco->json.name, &sorted));
    for (size_t i = 0; i < coco->categories.count; i++) {
        struct identified *category = &coco->categories.items[i];
        category->index = (uint32_t)dataset_find_class(dataset, coco->names.items[category->index]);
    }
done:
    text_list_clear(coco->context, &sorted);
    return status;
}

static l3a_status settle_annotations(struct coco *coco) {
    struct l3a_dataset *dataset = coco->dataset;
    const size_t classes = dataset->classes.count;
    for (size_t i = 0; i < coco->annotation_count; i++) {
        const struct annotation *annotation = &coco->annotations[i];
        const uint32_t category_id = annotation->category_and_crowd / 2;
        const struct identified *image = list_find(&coco->images, annotation->image);
        const struct identified *category = list_find(&coco->categories, category_id);
        if (!image) {
            return fail_at(coco, annotation->place, L3A_ERROR_DATA,
                           "an annotation of image %" PRIu64 ", which is not among the images", annotation->image);
        }
        if (!category) {
            return fail_at(coco, annotation->place, L3A_ERROR_CLASS,
                           "an annotation of category %u, which is not among the categories", category_id);
        }
        const size_t pair = image->index * classes + category->index;
        dataset->members[pair] = 1;
        dataset->labels[pair] |= !(annotation->category_and_crowd % 2);
    }
    return L3A_OK;
}

/* Finds the first of the usual folders that exists. If none does, takes the first one, for the messages about missing pictures. */
static l3a_status find_pictures(struct coco *coco, const char *folder, const char *split) {
    l3a_status status = L3A_OK;
    char *path = NULL, name[300];
    bool exists = false;
    const int bare = (int)strcspn(split, "0123456789");
    for (int i = 0; i < 4 && !exists; i++) {
        snprintf(name, sizeof name, "%s%.*s", i < 2 ? "" : "images/", i % 2 ? bare : 250, split);
        TRY(join_path(coco->context, folder, name, &path));
        TRY(file_exists(coco->context, path, &exists));
        if (exists || !coco->pictures) {
            release(coco->context, coco->pictures);
            coco->pictures = path;
            path = NULL;
        }
        release(coco->context, path);
        path = NULL;
    }
done:
    release(coco->context, path);
    return status;
}

static l3a_status coco_splits(l3a_context *context, const char *place, text_list *splits) {
    const size_t start = sizeof file_start - 1, end = sizeof file_end - 1;
    l3a_status status = L3A_OK;
    char *folder = NULL, held[400];
    text_list names = {0};
    bool exists = false;
    TRY(list_folder(context, place, &names));
    exists = text_list_find(&names, "annotations") < names.count;
    text_list_clear(context, &names);
    TRY(join_path(context, place, "annotations", &folder));
    if (exists) {
        TRY(list_folder(context, folder, &names));
    }
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.items[i];
        const size_t length = strlen(name);
        if (length > start + end && strncmp(name, file_start, start) == 0 && strcmp(name + length - end, file_end) == 0) {
            TRY(text_list_add(context, splits, name + start, length - start - end));
        }
    }
    if (!splits->count) {
        describe_folder(context, exists ? folder : place, held, sizeof held);
        status = fail(context, L3A_ERROR_NOT_FOUND, "name the folder that holds annotations/instances_train2014.json",
                      "%s: no annotations/instances_SPLIT.json in this folder; %s", exists ? folder : place, held);
    }
done:
    release(context, folder);
    text_list_clear(context, &names);
    return status;
}

static l3a_status coco_open(struct l3a_dataset *dataset, const char *place, const char *split, const l3a_dataset_options *options) {
    l3a_context *context = dataset->context;
    l3a_status status = L3A_OK;
    struct coco coco = {.dataset = dataset, .context = context};
    char *path = NULL, name[300];
    text_list splits = {0};
    (void)options;
    TRY(coco_splits(context, place, &splits));
    TRY(check_split(context, place, split, &splits));
    snprintf(name, sizeof name, "annotations/%s%s%s", file_start, split, file_end);
    TRY(join_path(context, place, name, &path));
    TRY(find_pictures(&coco, place, split));
    TRY(json_open(&coco.json, context, path, FILE_LIMIT, 0));
    TRY(read_file(&coco));
    TRY(list_sort(&coco, &coco.images, "image"));
    TRY(list_sort(&coco, &coco.categories, "category"));
    TRY(settle_classes(&coco));
    TRY(dataset_make_labels(dataset, path));
    TRY(settle_annotations(&coco));
done:
    coco_close(&coco);
    text_list_clear(context, &splits);
    release(context, path);
    return status;
}

const struct dataset_kind coco_kind = {
    "coco", "coco:FOLDER", coco_open, coco_splits, {{"train2014", "val2014"}, {"train2017", "val2017"}}};
