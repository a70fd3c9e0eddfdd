/* What the images of a lesson were judged for: the classes of its columns, and its images by judged set. */
#include "base/text_index.h"
#include "learn/teach_lesson.h"

#include <string.h>

l3a_status lesson_place_classes(struct lesson *lesson) {
    const struct taught *taught = lesson->taught;
    const l3a_model *model = lesson->model;
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    text_index known = {0};
    TRY(text_index_make(context, model->classes.items, model->classes.count, &known));
    TRY(allocate(context, taught->column_count, sizeof *lesson->place, &lesson->place));
    TRY(text_list_add_all(context, &lesson->classes, &model->classes));
    for (size_t j = 0; j < taught->column_count; j++) {
        const char *name = taught->features->classes.items[taught->columns[j]];
        const size_t at = text_index_find(&known, name);
        bool judged = false, shown = false;
        for (size_t i = 0; i < taught->row_count && !shown; i++) {
            judged = judged || given_label(taught, i, j) != -1;
            shown = given_label(taught, i, j) == 1;
        }
        if (lesson->sign < 0 && at == model->classes.count && !shown && !keeps_phases(&model->options)) {
            judged = false; /* without parts, a class that no image shows any more is not kept */
        }
        FAIL_IF(judged && at == model->classes.count && lesson->sign < 0, context, L3A_ERROR_CLASS,
                "take back only images that were taught", "the model has no class '%s'", name);
        FAIL_IF(judged && (!name[0] || strchr(name, '\n')), context, L3A_ERROR_CLASS, "give every class a name without line breaks",
                "class %zu of the table has no usable name", taught->columns[j]);
        lesson->place[j] = judged ? at : SIZE_MAX;
        if (judged && at == model->classes.count) {
            lesson->place[j] = lesson->classes.count;
            TRY(text_list_add(context, &lesson->classes, name, strlen(name)));
        }
    }
done:
    text_index_free(context, &known);
    return status;
}

l3a_status lesson_check_labels(const struct lesson *lesson) {
    const struct taught *taught = lesson->taught;
    const l3a_features *features = taught->features;
    l3a_context *context = lesson->model->context;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < taught->row_count; i++) {
        bool judged = false;
        for (size_t j = 0; j < taught->column_count; j++) {
            const int8_t label = given_label(taught, i, j);
            judged = judged || label != -1;
            FAIL_IF(label < -1 || label > 1, context, L3A_ERROR_DATA, "use labels 1 (present), 0 (absent) or -1 (not judged)",
                    "%s: row %zu, class '%s': label %d is not allowed", features->path, taught->rows[i],
                    features->classes.items[taught->columns[j]], label);
        }
        FAIL_IF(!judged, context, L3A_ERROR_DATA, "omit the image, or say of a class whether it shows it",
                "%s: row %zu was not judged for any class", features->path, taught->rows[i]);
    }
done:
    return status;
}

/* The judged set of a row. */
static l3a_status list_judged(const struct lesson *lesson, size_t row, struct part *part) {
    const struct taught *taught = lesson->taught;
    l3a_status status = L3A_OK;
    size_t count = 0;
    TRY(part_create(lesson->model->context, model_dim(lesson->model), options_real(&lesson->model->options), 0,
                    taught->column_count, part));
    for (size_t j = 0; j < taught->column_count; j++) {
        if (given_label(taught, row, j) != -1 && lesson->place[j] != SIZE_MAX) {
            part->judged[count++] = lesson->place[j];
        }
    }
    part->judged_count = count;
    part->phases = 0;
    part_sort_judged(part);
done:
    return status;
}

void lesson_sections_free(l3a_context *context, struct lesson_sections *sections) {
    for (size_t s = 0; s < sections->count; s++) {
        part_free(&sections->items[s].part);
    }
    release(context, sections->items);
    release(context, sections->order);
}

/* Adds a section, and finds the model's part with that judged set. */
static l3a_status add_section(struct lesson *lesson, size_t first, size_t last) {
    const struct evidence *evidence = lesson->model->evidence;
    struct section *section = &lesson->sections.items[lesson->sections.count];
    l3a_status status = L3A_OK;
    *section = (struct section){.first = first, .last = last};
    TRY(list_judged(lesson, lesson->sections.order[first], &section->part));
    lesson->sections.count++;
    while (section->mine < evidence->part_count && !parts_agree(&evidence->parts[section->mine], &section->part)) {
        section->mine++;
    }
    FAIL_IF(lesson->sign < 0 && evidence->part_count &&
                (section->mine == evidence->part_count || evidence->parts[section->mine].images < last - first),
            lesson->model->context, L3A_ERROR_DATA, "take back only images that were taught, with the labels they were taught with",
            "%s: row %zu: the model was taught fewer images that were judged for the same classes", lesson->taught->features->path,
            lesson->taught->rows[lesson->sections.order[first]]);
done:
    return status;
}

l3a_status lesson_make_sections(struct lesson *lesson) {
    const struct taught *taught = lesson->taught;
    struct lesson_sections *sections = &lesson->sections;
    l3a_context *context = lesson->model->context;
    l3a_status status = L3A_OK;
    text_pool patterns = {0};
    text_index index = {0};
    char *pattern = NULL;
    size_t first = 0, capacity = 0;
    TRY(allocate(context, taught->column_count + 1, 1, &pattern));
    TRY(allocate(context, taught->row_count, sizeof *sections->order, &sections->order));
    for (size_t i = 0; i < taught->row_count; i++) {
        for (size_t j = 0; j < taught->column_count; j++) {
            pattern[j] = given_label(taught, i, j) == -1 ? '-' : '+';
        }
        TRY(text_pool_add(context, &patterns, pattern, taught->column_count));
    }
    TRY(text_index_make_pool(context, &patterns, &index));
    text_index_order(&index, sections->order);
    for (size_t i = 1; i <= taught->row_count; i++) {
        if (i == taught->row_count ||
            strcmp(text_pool_at(&patterns, sections->order[i]), text_pool_at(&patterns, sections->order[i - 1])) != 0) {
            TRY(grow_array(context, &sections->items, &capacity, sections->count + 1, sizeof *sections->items));
            TRY(add_section(lesson, first, i));
            first = i;
        }
    }
done:
    release(context, pattern);
    text_index_free(context, &index);
    text_pool_clear(context, &patterns);
    return status;
}
