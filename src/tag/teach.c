/* Teaching a tagger: from the pictures of a lesson to an entry of the history, which changes the model.
 *
 * Everything that may go wrong with a picture is found out before the model changes. */
#include "base/sized.h"
#include "base/text_index.h"
#include "common/closest.h"
#include "extract/intake.h"
#include "image/prepare.h"
#include "learn/model.h"
#include "tag/history.h"
#include "tag/lesson.h"
#include "tag/tagger.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What happens to a picture. */
enum fate { LEAVE_OUT, ADD, REPLACE };

struct plan {
    enum fate fate;
    bool seen;          /* it need not be read: it was taught before in the same way */
    bool bad;           /* it cannot be read */
    uint64_t checksum;  /* of its file */
    struct known known; /* the picture as the model knows it; REPLACE without one: it is as `was` says */
};

struct teaching {
    l3a_tagger *tagger;
    l3a_context *context;
    l3a_lesson *lesson;
    l3a_lesson_options options;
    l3a_history *history;
    l3a_model *model;
    size_t width;               /* numbers of a picture: those of all views */
    l3a_loader_options loading; /* as the tagger's, but with the views that are learned */
    float *features;            /* [pictures x width] */
    struct plan *plans;
    text_list classes; /* of the model, then new ones */
    size_t *places;    /* of the lesson's classes among them; SIZE_MAX: no picture shows it */
    const struct known_index *known;
    struct mark *was;
    size_t was_count;
    bool was_complete;
    int8_t *labels, *other; /* [classes], of a picture */
};

static void release_classes(struct teaching *teaching) {
    release(teaching->context, teaching->places);
    release(teaching->context, teaching->labels);
    release(teaching->context, teaching->other);
    text_list_clear(teaching->context, &teaching->classes);
    teaching->places = NULL;
    teaching->labels = teaching->other = NULL;
}

static void teaching_free(struct teaching *teaching) {
    release(teaching->context, teaching->features);
    release(teaching->context, teaching->plans);
    release(teaching->context, teaching->was);
    release_classes(teaching);
}

/* ---- Reading the pictures ---- */

static bool is_file(const struct lesson_picture *picture) {
    return !picture->bytes && !picture->features;
}

static l3a_status keep_outcome(struct teaching *teaching, size_t index, const struct arrival *arrival, const float *features) {
    struct plan *plan = &teaching->plans[index];
    plan->bad = arrival->status != L3A_OK;
    plan->checksum = arrival->checksum;
    if (!plan->bad) {
        memcpy(teaching->features + index * teaching->width, features, teaching->width * sizeof *features);
    }
    return lesson_set_outcome(teaching->lesson, index, arrival->status, plan->bad ? arrival->error_text : NULL);
}

/* Reads the pictures that are files; indices: their numbers in the lesson. */
static l3a_status read_files(struct teaching *teaching, const char *const *paths, const size_t *indices, size_t count) {
    const l3a_tagger *tagger = teaching->tagger;
    const size_t batch = count < tagger->batch ? count : tagger->batch;
    struct intake intake = {0};
    l3a_status status = L3A_OK;
    TRY(intake_open(teaching->context, tagger->backbone, &teaching->loading, paths, count, batch, &intake));
    for (size_t first = 0; first < count; first += batch) {
        size_t good = 0;
        TRY(intake_next(&intake, count - first < batch ? count - first : batch));
        for (size_t i = 0; i < intake.count; i++) {
            TRY(keep_outcome(teaching, indices[first + i], &intake.arrivals[i], intake.features + good * teaching->width));
            good += intake.arrivals[i].status == L3A_OK;
        }
    }
done:
    intake_close(&intake);
    return status;
}

static l3a_status read_bytes(struct teaching *teaching, struct preparer *preparer, size_t index, float *planes, float *features) {
    l3a_context *context = teaching->context;
    const struct lesson_picture *picture = &teaching->lesson->pictures[index];
    struct raster raster = {0};
    struct arrival arrival = {.checksum = XXH3_64bits(picture->bytes, picture->byte_count)};
    l3a_status status = L3A_OK;
    arrival.status = preparer_decode(preparer, picture->path, picture->bytes, picture->byte_count, &raster);
    FAIL_IF(arrival.status == L3A_ERROR_MEMORY, context, L3A_ERROR_MEMORY, NULL, "%s: not enough memory", picture->path);
    if (arrival.status == L3A_OK) {
        preparer_deliver(preparer, &raster, planes);
        TRY(l3a_backbone_run(teaching->tagger->backbone, planes, view_rows(preparer->options.views), features));
    } else {
        memcpy(arrival.error_text, context->error_text, sizeof arrival.error_text);
    }
    TRY(keep_outcome(teaching, index, &arrival, features));
done:
    raster_free(context, &raster);
    return status;
}

/* Reads the pictures that are in memory. */
static l3a_status read_memory(struct teaching *teaching) {
    l3a_context *context = teaching->context;
    const l3a_backbone_info *info = l3a_backbone_describe(teaching->tagger->backbone);
    const size_t views = view_rows(teaching->loading.views);
    struct preparer preparer;
    float *planes = NULL, *features = NULL;
    l3a_status status = L3A_OK;
    preparer_start(context, &teaching->loading, &preparer);
    TRY(allocate(context, views, 3 * info->size * info->size * sizeof *planes, &planes));
    TRY(allocate(context, teaching->width, sizeof *features, &features));
    for (size_t i = 0; i < teaching->lesson->count; i++) {
        if (teaching->lesson->pictures[i].bytes) {
            TRY(report_progress(context, "pictures", i, teaching->lesson->count));
            TRY(read_bytes(teaching, &preparer, i, planes, features));
        }
    }
done:
    preparer_free(&preparer);
    release(context, planes);
    release(context, features);
    return status;
}

/* Copies the views that are learned out of those that are scored; first: the row of their first crop. */
static void pick_views(const struct teaching *teaching, const float *scored, size_t first, float *learned) {
    const size_t width = teaching->model->width, crops = view_rows(teaching->loading.views) - 1;
    memcpy(learned, scored, width * sizeof *learned);
    memcpy(learned + width, scored + first * width, crops * width * sizeof *learned);
}

/* Takes over the features of the pictures that come with them. */
static l3a_status take_features(struct teaching *teaching) {
    l3a_context *context = teaching->context;
    const size_t scored = teaching->tagger->loading.views, views = teaching->loading.views;
    const size_t count = view_rows(scored) * teaching->model->width;
    float *learned = NULL;
    size_t first;
    l3a_status status = L3A_OK;
    TRY(allocate(context, teaching->width, sizeof *learned, &learned));
    for (size_t i = 0; i < teaching->lesson->count; i++) {
        const struct lesson_picture *picture = &teaching->lesson->pictures[i];
        const struct arrival arrival = {.checksum = picture->checksum};
        if (picture->features) {
            FAIL_IF(picture->feature_count != count, context, L3A_ERROR_MISMATCH, "compute them with a reader of this tagger",
                    "%s: the picture comes with %zu features, but a reader computes %zu", picture->path, picture->feature_count,
                    count);
            FAIL_IF(!views_within(views, scored, &first), context, L3A_ERROR_MISMATCH,
                    "teach the picture itself instead of its features",
                    "%s: the model learns %zu views of a picture, which are not among the %zu that it scores", picture->path, views,
                    scored);
            pick_views(teaching, picture->features, first, learned);
            TRY(keep_outcome(teaching, i, &arrival, learned));
        }
    }
done:
    release(context, learned);
    return status;
}

/* Fails if a picture must be readable and is not. */
static l3a_status check_read(const struct teaching *teaching) {
    const l3a_lesson *lesson = teaching->lesson;
    size_t bad = 0, first = lesson->count;
    l3a_status status = L3A_OK;
    for (size_t i = lesson->count; i-- > 0;) {
        bad += teaching->plans[i].bad;
        first = teaching->plans[i].bad ? i : first;
    }
    FAIL_IF(bad == lesson->count && bad > 1, teaching->context, lesson->pictures[0].outcome, "give JPEG or PNG pictures",
            "none of the %zu pictures can be read; the first: %s", bad, lesson->pictures[0].problem);
    FAIL_IF(bad && (teaching->options.strict || bad == lesson->count), teaching->context, lesson->pictures[first].outcome,
            "leave this picture out, or replace it", "%s", lesson->pictures[first].problem);
done:
    return status;
}

static l3a_status read_pictures(struct teaching *teaching) {
    l3a_context *context = teaching->context;
    const l3a_lesson *lesson = teaching->lesson;
    const char **paths = NULL;
    size_t *indices = NULL, count = 0;
    l3a_status status = L3A_OK;
    TRY(allocate(context, lesson->count, sizeof *paths, &paths));
    TRY(allocate(context, lesson->count, sizeof *indices, &indices));
    for (size_t i = 0; i < lesson->count; i++) {
        if (is_file(&lesson->pictures[i]) && !teaching->plans[i].seen) {
            paths[count] = lesson->pictures[i].path;
            indices[count++] = i;
        }
    }
    if (count) {
        TRY(read_files(teaching, paths, indices, count));
    }
    TRY(read_memory(teaching));
    TRY(take_features(teaching));
    TRY(check_read(teaching));
done:
    release(context, paths);
    release(context, indices);
    return status;
}

/* ---- Classes ---- */

/* Warns of new classes that look like others. */
static void warn_of_likeness(const struct teaching *teaching) {
    const text_list *classes = &teaching->classes;
    for (size_t k = teaching->model->classes.count; k < classes->count; k++) {
        for (size_t i = 0; i < k; i++) {
            if (names_look_alike(classes->items[k], classes->items[i])) {
                report_warning(teaching->context, "'%s' is new, although there is '%s'; did you mean that?", classes->items[k],
                               classes->items[i]);
            }
        }
    }
}

/* Notes which classes of the lesson are shown by a picture that can be read, or has not been read yet. */
static void find_shown(const struct teaching *teaching, bool *shown) {
    for (size_t i = 0; i < teaching->lesson->count; i++) {
        const struct lesson_picture *picture = &teaching->lesson->pictures[i];
        for (size_t j = 0; j < picture->mark_count && !teaching->plans[i].bad; j++) {
            shown[picture->marks[j].class] = shown[picture->marks[j].class] || picture->marks[j].label == 1;
        }
    }
}

/* The classes of the model, then those of the lesson that it does not know, as far as pictures show them. */
static l3a_status find_classes(struct teaching *teaching) {
    l3a_context *context = teaching->context;
    const text_list *old = &teaching->model->classes, *own = &teaching->lesson->classes;
    text_index known = {0};
    bool *shown = NULL;
    l3a_status status = L3A_OK;
    release_classes(teaching);
    TRY(allocate(context, own->count, sizeof *teaching->places, &teaching->places));
    TRY(allocate_zeroed(context, own->count, sizeof *shown, &shown));
    find_shown(teaching, shown);
    TRY(text_index_make(context, old->items, old->count, &known));
    for (size_t k = 0; k < old->count; k++) {
        TRY(text_list_add(context, &teaching->classes, old->items[k], strlen(old->items[k])));
    }
    for (size_t k = 0; k < own->count; k++) {
        const size_t place = text_index_find(&known, own->items[k]);
        teaching->places[k] = place < old->count ? place : SIZE_MAX;
        if (place == old->count && shown[k]) {
            TRY(check_new_name(context, own->items[k]));
            teaching->places[k] = teaching->classes.count;
            TRY(text_list_add(context, &teaching->classes, own->items[k], strlen(own->items[k])));
        }
    }
    TRY(allocate(context, teaching->classes.count, 1, &teaching->labels));
    TRY(allocate(context, teaching->classes.count, 1, &teaching->other));
done:
    text_index_free(context, &known);
    release(context, shown);
    return status;
}

/* Checks the limits of the lesson's options. */
static l3a_status check_limits(const struct teaching *teaching) {
    const size_t all = teaching->classes.count, old = teaching->model->classes.count, most_new = teaching->options.most_new_classes,
                 most = teaching->options.most_classes;
    l3a_status status = L3A_OK;
    FAIL_IF(most_new && all - old > most_new, teaching->context, L3A_ERROR_CLASS, "teach them in several lessons",
            "the lesson has %zu new tags; %zu is the most", all - old, most_new);
    FAIL_IF(most && all > most && all > old, teaching->context, L3A_ERROR_CLASS,
            "use tags that there are, or teach these to another model",
            "the model would have %zu tags with the %zu new ones of this lesson; %zu is the most", all, all - old, most);
done:
    return status;
}

static l3a_status fail_unknown(const struct teaching *teaching, const char *who, const char *name) {
    char hint[512];
    const char *const *known = (const char *const *)teaching->classes.items;
    const char *close = closest_name(name, known, teaching->classes.count);
    snprintf(hint, sizeof hint, close ? "did you mean '%s'?" : "teach a picture that shows it first", close ? close : "");
    return fail(teaching->context, L3A_ERROR_CLASS, hint, "%s: no picture has been taught that shows '%s'", who, name);
}

/* The labels of marks for all classes. */
static l3a_status spread(const struct teaching *teaching, const char *who, const struct mark *marks, size_t count, bool complete,
                         int8_t *labels) {
    l3a_status status = L3A_OK;
    memset(labels, complete ? 0 : -1, teaching->classes.count);
    for (size_t i = 0; i < count; i++) {
        const size_t place = teaching->places[marks[i].class];
        if (place == SIZE_MAX) {
            return fail_unknown(teaching, who, teaching->lesson->classes.items[marks[i].class]);
        }
        labels[place] = marks[i].label;
    }
    return status;
}

static l3a_status labels_of(const struct teaching *teaching, size_t index, int8_t *labels) {
    const struct lesson_picture *picture = &teaching->lesson->pictures[index];
    return spread(teaching, picture->path, picture->marks, picture->mark_count, picture->complete, labels);
}

/* How the pictures were taught that the history does not have. New classes were not judged then. */
static l3a_status labels_before(const struct teaching *teaching, int8_t *labels) {
    const size_t old = teaching->model->classes.count;
    l3a_status status = spread(teaching, "was", teaching->was, teaching->was_count, teaching->was_complete, labels);
    for (size_t k = old; k < teaching->classes.count && status == L3A_OK; k++) {
        if (labels[k] == 1) {
            return fail_unknown(teaching, "was", teaching->classes.items[k]);
        }
        labels[k] = -1;
    }
    return status;
}

/* The labels that a known picture has for all classes. */
static void labels_known(const struct teaching *teaching, const struct known *picture, int8_t *labels) {
    memset(labels, -1, teaching->classes.count);
    history_labels(teaching->history, picture, labels);
}

/* ---- What was taught before ---- */

/* The picture that the model knows with the same content or, failing that and if `by_path`, from the same file. */
static l3a_status find_known(const struct teaching *teaching, size_t index, bool by_path, struct known *found) {
    l3a_context *context = teaching->context;
    const struct lesson_picture *picture = &teaching->lesson->pictures[index];
    char *absolute = NULL, *relative = NULL;
    l3a_status status = L3A_OK;
    *found = known_by_checksum(teaching->known, teaching->plans[index].checksum);
    if (by_path && is_file(picture) && !found->entry) {
        TRY(history_paths(teaching->history, picture->path, &absolute, &relative));
        *found = known_by_path(teaching->known, absolute, relative);
    }
done:
    release(context, absolute);
    release(context, relative);
    return status;
}

/* Whether a judgement says nothing that was not said before: the same classes are shown, and those named as absent were so. Classes
 * that have become known since do not matter. */
static bool says_the_same(const struct teaching *teaching, size_t index, const int8_t *labels, const int8_t *before) {
    const struct lesson_picture *picture = &teaching->lesson->pictures[index];
    for (size_t k = 0; k < teaching->classes.count; k++) {
        if ((labels[k] == 1) != (before[k] == 1)) {
            return false;
        }
    }
    for (size_t i = 0; i < picture->mark_count; i++) {
        const size_t place = teaching->places[picture->marks[i].class];
        if (labels[place] != before[place]) {
            return false;
        }
    }
    return true;
}

/* Leaves a picture out that was taught in the same way: in this lesson, or in an earlier one. */
static l3a_status leave_out(struct teaching *teaching, size_t index, const char *twin, uint64_t lesson) {
    const char *path = teaching->lesson->pictures[index].path;
    char problem[1024];
    teaching->plans[index].fate = LEAVE_OUT;
    if (twin) {
        snprintf(problem, sizeof problem, "%s: is the same picture as %s", path, twin);
    } else {
        snprintf(problem, sizeof problem, "%s: was taught before in the same way, in lesson %" PRIu64, path, lesson);
    }
    return lesson_set_outcome(teaching->lesson, index, L3A_ERROR_EXISTS, problem);
}

/* Looks for the same picture earlier in the lesson. */
static l3a_status plan_twin(struct teaching *teaching, size_t index, const int8_t *labels, bool *found) {
    const l3a_lesson *lesson = teaching->lesson;
    const struct plan *plan = &teaching->plans[index];
    l3a_status status = L3A_OK;
    *found = false;
    for (size_t i = 0; i < index && !*found; i++) {
        if (teaching->plans[i].bad || teaching->plans[i].checksum != plan->checksum) {
            continue;
        }
        TRY(labels_of(teaching, i, teaching->other));
        FAIL_IF(memcmp(labels, teaching->other, teaching->classes.count) != 0, teaching->context, L3A_ERROR_CLASS,
                "remove one of the two, or give them the same tags", "%s and %s are the same picture, with different tags",
                lesson->pictures[i].path, lesson->pictures[index].path);
        *found = true;
        TRY(leave_out(teaching, index, lesson->pictures[i].path, 0));
    }
done:
    return status;
}

static l3a_status plan_picture(struct teaching *teaching, size_t index) {
    l3a_context *context = teaching->context;
    const char *path = teaching->lesson->pictures[index].path;
    const bool instead = teaching->options.instead;
    struct plan *plan = &teaching->plans[index];
    bool twin;
    l3a_status status = L3A_OK;
    TRY(labels_of(teaching, index, teaching->labels));
    TRY(plan_twin(teaching, index, teaching->labels, &twin));
    if (twin) {
        return L3A_OK;
    }
    TRY(find_known(teaching, index, instead, &plan->known));
    if (!plan->known.entry) {
        FAIL_IF(instead && !teaching->options.was && !history_is_complete(teaching->history), context, L3A_ERROR_STATE,
                "say how it was taught before ('was')", "%s: the history does not say how this picture was taught", path);
        plan->fate = instead && teaching->options.was ? REPLACE : ADD;
        return L3A_OK;
    }
    const struct known *known = &plan->known;
    labels_known(teaching, known, teaching->other);
    if (says_the_same(teaching, index, teaching->labels, teaching->other)) {
        return leave_out(teaching, index, NULL, known->entry->number);
    }
    const char *tags = entry_tags(context, known->entry, known->row);
    FAIL_IF(!instead, context, L3A_ERROR_EXISTS, "to replace what was taught, teach it with 'instead'",
            "%s: lesson %" PRIu64 " taught this picture with %s%s", path, known->entry->number,
            tags && tags[0] ? "the tags " : "no tag", tags ? tags : "");
    plan->fate = REPLACE;
done:
    return status;
}

/* Finds files that were taught before in the same way, so that they need not be read. */
static l3a_status find_seen(struct teaching *teaching) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < teaching->lesson->count; i++) {
        const struct lesson_picture *picture = &teaching->lesson->pictures[i];
        struct plan *plan = &teaching->plans[i];
        input_file input = {.file = -1};
        TRY(labels_of(teaching, i, teaching->labels)); /* before time is spent on pictures */
        if (!is_file(picture) || !teaching->known->count || input_open(teaching->context, picture->path, &input) != L3A_OK) {
            continue;
        }
        if (input_checksum(&input, 0, input.size, &plan->checksum) == L3A_OK) {
            TRY(find_known(teaching, i, false, &plan->known));
            plan->seen = plan->known.entry != NULL;
        }
        input_close(&input);
        if (plan->seen) {
            const struct known *known = &plan->known;
            labels_known(teaching, known, teaching->other);
            plan->seen = says_the_same(teaching, i, teaching->labels, teaching->other);
            TRY(plan->seen ? leave_out(teaching, i, NULL, known->entry->number) : L3A_OK);
        }
    }
done:
    return status;
}

/* ---- The entry ---- */

/* Fills in a row with the labels in `labels`. */
static l3a_status fill_row(const struct teaching *teaching, struct entry *entry, size_t row, size_t index) {
    const struct lesson_picture *picture = &teaching->lesson->pictures[index];
    struct pictured *to = &entry->rows[row];
    l3a_status status = L3A_OK;
    if (!is_file(picture)) {
        TRY(copy_text(teaching->context, picture->path, strlen(picture->path), &to->path));
        TRY(copy_text(teaching->context, "", 0, &to->relative));
    } else {
        TRY(history_paths(teaching->history, picture->path, &to->path, &to->relative));
    }
    to->checksum = teaching->plans[index].checksum;
    memcpy(entry->labels + row * teaching->classes.count, teaching->labels, teaching->classes.count);
    memcpy(entry->features + row * entry->width, teaching->features + index * entry->width, entry->width * sizeof *entry->features);
done:
    return status;
}

/* A row that takes back what was taught before. */
static l3a_status fill_back(const struct teaching *teaching, struct entry *entry, size_t row, size_t index) {
    const struct known *picture = &teaching->plans[index].known;
    l3a_status status = L3A_OK;
    if (!picture->entry) {
        TRY(labels_before(teaching, teaching->labels));
        TRY(fill_row(teaching, entry, row, index));
        return L3A_OK;
    }
    labels_known(teaching, picture, teaching->labels);
    TRY(fill_row(teaching, entry, row, index));
    entry->rows[row].checksum = picture->entry->rows[picture->row].checksum;
    entry->rows[row].lesson = picture->entry->number;
    entry->rows[row].row = picture->row;
    TRY(journal_features(&teaching->history->journal, picture->entry, picture->row, 1, entry->features + row * entry->width));
done:
    return status;
}

/* A class that no picture shows any more once rows have been taken back is not known any more: the new rows do not judge it, unless
 * they were told to. So it disappears if no other picture was judged for it. */
static void unknow_classes(const struct teaching *teaching, struct entry *entry, const size_t *indices) {
    const size_t classes = teaching->classes.count;
    for (size_t k = 0; k < teaching->model->classes.count; k++) {
        uint64_t shown = l3a_model_class_images(teaching->model, k);
        for (size_t i = 0; i < entry->row_count; i++) {
            const bool shows = entry->labels[i * classes + k] == 1;
            shown = shown + (shows && i >= entry->back_count) - (shows && i < entry->back_count);
        }
        for (size_t i = entry->back_count; i < entry->row_count && !shown; i++) {
            const struct lesson_picture *picture = &teaching->lesson->pictures[indices[i]];
            bool told = !picture->complete;
            for (size_t j = 0; j < picture->mark_count; j++) {
                told = told || teaching->places[picture->marks[j].class] == k;
            }
            entry->labels[i * classes + k] = told ? entry->labels[i * classes + k] : -1;
        }
    }
}

static l3a_status fill_entry(const struct teaching *teaching, struct entry *entry) {
    size_t back = 0, add = entry->back_count, *indices = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(teaching->context, entry->row_count, sizeof *indices, &indices));
    for (size_t i = 0; i < teaching->lesson->count; i++) {
        if (teaching->plans[i].fate == REPLACE) {
            indices[back] = i;
            TRY(fill_back(teaching, entry, back++, i));
        }
        if (teaching->plans[i].fate != LEAVE_OUT) {
            indices[add] = i;
            TRY(labels_of(teaching, i, teaching->labels));
            TRY(fill_row(teaching, entry, add++, i));
        }
    }
    if (back) {
        unknow_classes(teaching, entry, indices);
    }
done:
    release(teaching->context, indices);
    return status;
}

/* *made is NULL if no picture is left to be taught. */
static l3a_status make_entry(struct teaching *teaching, struct entry **made) {
    l3a_context *context = teaching->context;
    struct entry *entry = NULL;
    size_t add = 0, back = 0;
    l3a_status status = L3A_OK;
    *made = NULL;
    for (size_t i = 0; i < teaching->lesson->count; i++) {
        add += teaching->plans[i].fate != LEAVE_OUT;
        back += teaching->plans[i].fate == REPLACE;
    }
    if (!add) {
        return L3A_OK;
    }
    TRY(entry_create(context, ENTRY_TEACH, &entry));
    TRY(allocate_zeroed(context, add + back, sizeof *entry->rows, &entry->rows));
    entry->row_count = add + back;
    entry->back_count = back;
    entry->pictures = add;
    entry->width = teaching->width;
    entry->new_classes = teaching->classes.count - teaching->model->classes.count;
    TRY(allocate(context, add + back, teaching->classes.count, &entry->labels));
    TRY(allocate(context, add + back, entry->width * sizeof *entry->features, &entry->features));
    TRY(fill_entry(teaching, entry));
    entry->classes = teaching->classes;
    teaching->classes = (text_list){0};
    *made = entry;
    entry = NULL;
done:
    entry_free(context, entry);
    return status;
}

/* ---- Public functions ---- */

static l3a_status prepare(struct teaching *teaching, struct entry **entry) {
    l3a_context *context = teaching->context;
    const size_t count = teaching->lesson->count;
    l3a_judgement was;
    l3a_status status = L3A_OK;
    FAIL_IF(!count, context, L3A_ERROR_ARGUMENT, "add at least one", "the lesson has no pictures");
    if (teaching->options.was) {
        TRY(READ_SIZED(context, teaching->options.was, was));
        TRY(lesson_marks(teaching->lesson, "was", &was, &teaching->was, &teaching->was_count, &teaching->was_complete));
    }
    teaching->width = model_image(teaching->model);
    TRY(tagger_loading(teaching->tagger, teaching->model->options.views, &teaching->loading));
    TRY(allocate_zeroed(context, count, sizeof *teaching->plans, &teaching->plans));
    TRY(allocate(context, count, teaching->width * sizeof *teaching->features, &teaching->features));
    TRY(history_index(teaching->history, &teaching->known));
    TRY(find_classes(teaching));
    TRY(check_limits(teaching));
    TRY(find_seen(teaching));
    TRY(read_pictures(teaching));
    TRY(find_classes(teaching));
    warn_of_likeness(teaching);
    for (size_t i = 0; i < count; i++) {
        if (!teaching->plans[i].bad && !teaching->plans[i].seen) {
            TRY(plan_picture(teaching, i));
        }
    }
    TRY(make_entry(teaching, entry));
done:
    return status;
}

/* Before a change: the history, if what it says can be kept. */
static l3a_status ready_to_change(l3a_tagger *tagger, l3a_history **history) {
    l3a_status status = L3A_OK;
    TRY(tagger_history(tagger, history));
    FAIL_IF(tagger->commits && !(*history)->exists, tagger->context, L3A_ERROR_STATE, "save the model first",
            "%s: changes of a model that is in no file cannot be committed", tagger->path);
done:
    return status;
}

/* After a change that was made or failed: a tagger that commits keeps the change in the history or, if the history cannot tell what
 * was changed, in the model's file. Where that fails, what is in the files counts, and is loaded when it is next needed. Readers
 * then see the change. */
static l3a_status settle(l3a_tagger *tagger, l3a_status status, bool in_history) {
    const bool broken = tagger->model->state != MODEL_READY;
    if (status == L3A_OK && tagger->commits) {
        status = in_history ? history_commit(tagger->history) : l3a_history_save(tagger->history);
        if (status != L3A_OK) {
            tagger_forget(tagger);
        }
    } else if (broken && tagger->commits) {
        tagger_forget(tagger);
    }
    if (status == L3A_OK) {
        tagger_publish(tagger);
    }
    return status;
}

l3a_status l3a_tagger_teach(l3a_tagger *tagger, l3a_lesson *lesson, const l3a_lesson_options *options, l3a_teach_report *report) {
    REQUIRE(tagger, tagger, lesson);
    struct teaching teaching = {.tagger = tagger, .context = tagger->context, .lesson = lesson};
    l3a_teach_report made = {.size = sizeof made};
    struct entry *entry = NULL;
    l3a_status status = L3A_OK;
    TRY(READ_SIZED(tagger->context, options, teaching.options));
    if (report) {
        TRY(CHECK_SIZED(tagger->context, report));
    }
    TRY(ready_to_change(tagger, &teaching.history));
    teaching.model = tagger->model;
    TRY(tagger_remember_backbone(tagger->model, tagger->path, tagger->backbone_path));
    TRY(prepare(&teaching, &entry));
    if (entry) {
        const uint64_t pictures = entry->pictures;
        const size_t new_classes = entry->new_classes;
        const bool keep = !teaching.options.no_history;
        status = history_apply(teaching.history, entry, keep, &made);
        TRY(settle(tagger, status, keep));
        made.images = pictures;
        made.new_classes = new_classes;
    }
    if (report) {
        TRY(WRITE_SIZED(tagger->context, report, made));
    }
done:
    teaching_free(&teaching);
    return status;
}

int l3a_tagger_takes_features(l3a_tagger *tagger) {
    l3a_model *model = NULL;
    size_t first;
    return tagger && tagger_model(tagger, &model) == L3A_OK &&
           views_within((size_t)model->options.views, tagger->loading.views, &first);
}

l3a_status l3a_tagger_undo(l3a_tagger *tagger, l3a_teach_report *report) {
    REQUIRE(tagger, tagger);
    l3a_history *history;
    l3a_status status = L3A_OK;
    TRY(ready_to_change(tagger, &history));
    TRY(settle(tagger, l3a_history_undo(history, report), true));
done:
    return status;
}

l3a_status l3a_tagger_rename(l3a_tagger *tagger, const char *old_name, const char *new_name, int *exact) {
    REQUIRE(tagger, tagger, old_name, new_name, exact);
    l3a_history *history;
    l3a_status status = L3A_OK;
    TRY(ready_to_change(tagger, &history));
    TRY(settle(tagger, l3a_history_rename(history, old_name, new_name, exact), true));
done:
    return status;
}

l3a_status l3a_tagger_widen(l3a_tagger *tagger, size_t dim) {
    REQUIRE(tagger, tagger);
    l3a_history *history;
    l3a_status status = L3A_OK;
    TRY(ready_to_change(tagger, &history));
    TRY(settle(tagger, l3a_history_widen(history, dim), false));
done:
    return status;
}

l3a_status l3a_tagger_save(l3a_tagger *tagger) {
    REQUIRE(tagger, tagger);
    l3a_history *history;
    l3a_status status = L3A_OK;
    TRY(tagger_history(tagger, &history));
    TRY(l3a_history_save(history));
done:
    return status;
}

l3a_status l3a_tagger_history(l3a_tagger *tagger, const l3a_history **history) {
    REQUIRE(tagger, tagger, history);
    l3a_history *own;
    l3a_status status = L3A_OK;
    TRY(tagger_history(tagger, &own));
    *history = own;
done:
    return status;
}
