#include "tag/history.h"

#include "base/sized.h"
#include "learn/model_change.h"
#include "tag/lesson.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char lesson_record[] = "lesson";

/* ---- The model's record ---- */

struct position {
    uint64_t number, id, fingerprint, sequence;
};

/* Covers class names, counts, sums C and the parts: what any change of the model changes. */
static uint64_t fingerprint_of(const l3a_model *model) {
    XXH3_state_t state;
    const size_t classes = l3a_model_class_count(model), parts = l3a_model_part_count(model);
    XXH3_64bits_reset(&state);
    for (size_t k = 0; k < classes; k++) {
        const uint64_t images = l3a_model_class_images(model, k);
        XXH3_64bits_update(&state, l3a_model_class(model, k), strlen(l3a_model_class(model, k)) + 1);
        XXH3_64bits_update(&state, &images, sizeof images);
    }
    for (size_t i = 0; i < parts; i++) {
        l3a_part_info part = {.size = sizeof part};
        l3a_model_part(model, i, &part);
        XXH3_64bits_update(&state, &part.images, sizeof part.images);
        for (size_t k = 0; k < classes; k++) {
            const char judged = (char)l3a_model_part_judges(model, i, k);
            XXH3_64bits_update(&state, &judged, 1);
        }
    }
    if (classes) {
        XXH3_64bits_update(&state, l3a_model_cross(model), l3a_model_inputs(model) * classes * sizeof(double));
    }
    return XXH3_64bits_digest(&state);
}

/* All 0 if the model has never been taught. */
static void read_position(const l3a_model *model, struct position *position) {
    const char *text = l3a_model_record(model, lesson_record);
    *position = (struct position){0};
    if (text && sscanf(text, "%" SCNu64 " %" SCNx64 " %" SCNx64 " %" SCNu64, &position->number, &position->id,
                       &position->fingerprint, &position->sequence) < 3) {
        *position = (struct position){.fingerprint = 1}; /* as if changed by something else */
    }
}

/* Without the fingerprint, which takes time that grows with the model. */
static struct position last_position(const l3a_history *history) {
    const struct entry *last = history->count ? history->entries[history->count - 1] : NULL;
    return (struct position){.number = last ? last->number : history->base_number,
                             .id = last ? last->id : history->base_id,
                             .sequence = history->sequence};
}

static l3a_status write_position(const l3a_history *history) {
    const struct position now = last_position(history);
    char text[104];
    int length =
        snprintf(text, sizeof text, "%" PRIu64 " %016" PRIx64 " %016" PRIx64, now.number, now.id, fingerprint_of(*history->model));
    if (now.sequence) {
        snprintf(text + length, sizeof text - (size_t)length, " %" PRIu64, now.sequence);
    }
    return l3a_model_set_record(*history->model, lesson_record, text);
}

/* ---- Opening ---- */

static const char no_gap[] = "", gap_other[] = "the model was not made by teaching",
                  gap_changed[] = "another command has changed the model since",
                  gap_missing[] = "there is no history of what was taught before";

static l3a_status push(l3a_history *history, struct entry *entry) {
    const l3a_status status =
        grow_array(history->context, &history->entries, &history->capacity, history->count + 1, sizeof *history->entries);
    if (status == L3A_OK) {
        history->entries[history->count++] = entry;
    }
    return status;
}

/* An entry comes after its parent in the file. */
static struct entry *find_before(const struct journal *journal, uint64_t id, size_t *before) {
    while (id && *before) {
        if (journal->entries[--*before]->id == id && journal->entries[*before]->kind != ENTRY_UNDO) {
            return journal->entries[*before];
        }
    }
    return NULL;
}

/* Walks back from the model's id. */
static l3a_status find_entries(l3a_history *history, const struct position *position) {
    l3a_status status = L3A_OK;
    size_t before = history->journal.count;
    uint64_t id = position->id, number = position->number;
    for (struct entry *entry; (entry = find_before(&history->journal, id, &before));) {
        if (entry->number != number) {
            break;
        }
        TRY(push(history, entry));
        id = entry->parent;
        number--;
    }
    history->base_id = id;
    history->base_number = number;
    for (size_t i = 0; i < history->count / 2; i++) {
        struct entry *swapped = history->entries[i];
        history->entries[i] = history->entries[history->count - 1 - i];
        history->entries[history->count - 1 - i] = swapped;
    }
done:
    return status;
}

/* ---- Damage ---- */

/* A walk over the changes that are not in the model's file, some of which cannot be read. */
struct walk {
    uint64_t last;   /* the id of the entry that the next change would be applied to */
    uint64_t number; /* of the last lesson, had nothing been lost */
    uint64_t lost;   /* lessons */
    bool behind;     /* a change follows the damage */
};

enum verdict { USE, IGNORE, LOSE };

static struct walk walk_from(const struct position *position) {
    return (struct walk){.last = position->id, .number = position->number};
}

/* Whether a change can be applied to the entry with this id. A lesson that takes nothing back can be taught at any time; anything
 * else needs the model that it was made for. */
static bool is_of_use(const struct entry *entry, uint64_t last) {
    return entry->kind != ENTRY_NOT_KEPT && (entry->parent == last || (entry->kind == ENTRY_TEACH && !entry->back_count));
}

/* Lessons between the last change and this one that cannot be read. */
static uint64_t missing_before(const struct walk *walk, const struct entry *entry) {
    return entry->number > walk->number + 1 ? entry->number - walk->number - 1 : 0;
}

/* Goes on to the next change. An undo of a lesson that is lost has nothing to do. */
static enum verdict walk_on(struct walk *walk, const struct journal *journal, const struct entry *entry) {
    const bool undo = entry->kind == ENTRY_UNDO;
    walk->behind = walk->behind || entry->offset >= journal->end;
    walk->lost += missing_before(walk, entry);
    walk->number = undo ? entry->number - 1 : entry->number;
    if (undo && entry->parent == walk->last) {
        size_t before = journal->count;
        const struct entry *undone = find_before(journal, entry->parent, &before);
        walk->last = undone ? undone->parent : 0;
        return USE;
    }
    if (undo || !is_of_use(entry, walk->last)) {
        walk->lost += !undo;
        return undo ? IGNORE : LOSE;
    }
    walk->last = entry->id;
    return USE;
}

static l3a_status fail_damaged(const l3a_history *history, const struct position *position, const struct walk *walk) {
    const uint64_t lessons = walk->number > position->number ? walk->number - position->number : 0;
    char hint[400];
    snprintf(hint, sizeof hint,
             "restore it from a backup; or run 'l3a history %.120s --repair', which loses %" PRIu64 " of the %" PRIu64
             " lessons that are not in the model's file yet; or move it away, which loses %" PRIu64
             ". In the last two cases, older lessons may no longer be undone",
             history->model_path, walk->lost, lessons, lessons);
    return fail(history->context, L3A_ERROR_CHECKSUM, hint, "%s: the history is damaged at byte %" PRIu64, history->journal.path,
                history->journal.end);
}

/* Damage is harmless if the records before it lead to the model, and no change that was committed follows it: what it hit was then
 * never answered, and is cut off by whoever writes next. */
static l3a_status check_damage(const l3a_history *history, const struct position *position) {
    const struct journal *journal = &history->journal;
    const bool reached = history->count ? history->entries[history->count - 1]->offset < journal->end : !position->id;
    struct walk walk = walk_from(position);
    for (size_t i = 0; i < journal->count; i++) {
        if (journal->entries[i]->sequence > position->sequence) {
            walk_on(&walk, journal, journal->entries[i]);
        }
    }
    if (journal->end < journal->size && (walk.behind || !reached)) {
        return fail_damaged(history, position, &walk);
    }
    if (journal->damaged) {
        report_warning(history->context,
                       "%s: the history is damaged from byte %" PRIu64
                       " to its end. The lessons before that are intact. What follows "
                       "was never answered, and is cut off with the next change",
                       journal->path, journal->end);
    }
    return L3A_OK;
}

/* Checks that an entry has the features that the model takes. */
static l3a_status check_width(const l3a_history *history, const struct entry *entry) {
    const size_t width = model_image(*history->model);
    l3a_status status = L3A_OK;
    FAIL_IF(entry->row_count && entry->width != width, history->context, L3A_ERROR_MISMATCH,
            "restore the file from a backup, or move it away: then teaching continues, but what was taught before cannot be "
            "undone",
            "%s: lesson %" PRIu64 " has %zu numbers for each picture, but the model takes %zu", history->journal.path,
            entry->number, entry->width, width);
done:
    return status;
}

static l3a_status check_widths(const l3a_history *history) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < history->count; i++) {
        TRY(check_width(history, history->entries[i]));
    }
done:
    return status;
}

/* Fails if changes were committed that are not in the model, which cannot be brought there. */
static l3a_status check_ahead(const l3a_history *history) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < history->journal.count; i++) {
        FAIL_IF(history->journal.entries[i]->sequence > history->sequence, history->context, L3A_ERROR_STATE,
                "bring back the model that the history belongs to, or move the history away and teach these lessons again",
                "%s: the history has lessons that are not in the model, and the model is not the one that they were taught to",
                history->journal.path);
    }
done:
    return status;
}

static l3a_status find_start(l3a_history *history) {
    const l3a_model *model = *history->model;
    const bool empty = l3a_model_class_count(model) == 0;
    struct position position;
    l3a_status status = L3A_OK;
    read_position(model, &position);
    history->sequence = history->saved = position.sequence;
    if (position.fingerprint && position.fingerprint != fingerprint_of(model)) {
        TRY(check_ahead(history));
        history->base_number = position.number;
        history->gap = gap_changed;
        return L3A_OK;
    }
    TRY(find_entries(history, &position));
    TRY(history->repairs ? L3A_OK : check_damage(history, &position));
    TRY(check_widths(history));
    const bool reaches_start = history->count ? history->entries[0]->from_nothing : empty;
    history->gap = reaches_start ? no_gap : history->base_number ? gap_missing : gap_other;
done:
    return status;
}

/* Where the model is, after following symbolic links: the journal is beside that file. */
static l3a_status find_files(l3a_history *history, const char *model_path) {
    output_target target = {0};
    l3a_status status = L3A_OK;
    TRY(target_find(history->context, model_path, &target));
    history->exists = target.exists;
    history->file = target.old;
    const size_t size = strlen(target.path) + sizeof ".history";
    TRY(allocate(history->context, size, 1, &history->path));
    snprintf(history->path, size, "%s.history", target.path);
done:
    target_free(history->context, &target);
    return status;
}

/* The first entry that is not in the journal yet. */
static size_t stored_count(const l3a_history *history) {
    size_t stored = history->count;
    while (stored && !history->entries[stored - 1]->length) {
        stored--;
    }
    return stored;
}

/* The end of the last entry that is in the journal. */
static uint64_t stored_end(const l3a_history *history) {
    const size_t stored = stored_count(history);
    return stored ? history->entries[stored - 1]->offset + history->entries[stored - 1]->length : 0;
}

static l3a_status catch_up(l3a_history *history);
static l3a_status check_file(l3a_history *history, const output_target *target);

/* repairs: damage is no failure, and changes are not applied. */
static l3a_status begin(l3a_context *context, const char *model_path, l3a_model **model, bool repairs, l3a_history **history) {
    l3a_history *made = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->model = model;
    TRY(allocate_zeroed(context, 1, sizeof *made->known, &made->known));
    made->known->context = context;
    made->repairs = repairs;
    TRY(copy_text(context, model_path, strlen(model_path), &made->model_path));
    TRY(find_files(made, model_path));
    TRY(journal_read(context, made->path, &made->journal));
    TRY(find_start(made));
    made->needed = stored_end(made);
    TRY(repairs ? L3A_OK : catch_up(made));
    *history = made;
    made = NULL;
done:
    l3a_history_free(made);
    return status;
}

l3a_status history_begin(l3a_context *context, const char *model_path, l3a_model **model, l3a_history **history) {
    return begin(context, model_path, model, false, history);
}

l3a_status l3a_history_open(l3a_context *context, const char *model_path, l3a_history **history) {
    l3a_model *model = NULL;
    l3a_history *made = NULL;
    l3a_status status = L3A_OK;
    NEED(context, context, model_path, history);
    TRY(l3a_model_load(context, model_path, &model));
    TRY(history_begin(context, model_path, &model, &made));
    made->own = model;
    made->model = &made->own;
    model = NULL;
    *history = made;
done:
    l3a_model_free(model);
    return status;
}

/* What the marks say is in the model that was saved. */
static void drop_marks(l3a_history *history) {
    while (history->mark_count) {
        entry_free(history->context, history->marks[--history->mark_count]);
    }
}

void l3a_history_free(l3a_history *history) {
    if (history) {
        l3a_context *context = history->context;
        for (size_t i = 0; i < history->count; i++) {
            if (!history->entries[i]->length) {
                entry_free(context, history->entries[i]);
            }
        }
        drop_marks(history);
        release(context, history->marks);
        if (history->known) {
            known_free(history->known);
        }
        release(context, history->known);
        release(context, history->entries);
        journal_free(&history->journal);
        l3a_model_free(history->own);
        release(context, history->model_path);
        release(context, history->path);
        release(context, history);
    }
}

/* ---- Applying entries, and taking them back ---- */

/* Teaches or takes back rows [first, last) of an entry. */
static l3a_status move_rows(const l3a_history *history, l3a_model *model, const struct entry *entry, size_t first, size_t last,
                            bool back, l3a_teach_report *report) {
    l3a_context *context = history->context;
    float *features = NULL;
    l3a_features *table = NULL;
    l3a_status status = L3A_OK;
    if (first == last) {
        return L3A_OK;
    }
    TRY(allocate(context, last - first, entry->width * sizeof *features, &features));
    TRY(journal_features(&history->journal, entry, first, last - first, features));
    TRY(l3a_features_wrap_views(context, features, entry->labels + first * entry->classes.count, last - first,
                                (size_t)model->options.views, model->width, (const char *const *)entry->classes.items,
                                entry->classes.count, &table));
    TRY(back ? l3a_model_unteach(model, table, report) : l3a_model_teach(model, table, report));
done:
    l3a_features_free(table);
    release(context, features);
    return status;
}

static bool knows(const l3a_model *model, const char *name) {
    return text_list_find(&model->classes, name) < model->classes.count;
}

/* As a whole or not at all. Between taking rows back and teaching others, a class that is renamed may be gone, because all its
 * images were taken back. */
static l3a_status apply(const l3a_history *history, l3a_model *model, const struct entry *entry, l3a_teach_report *report) {
    const bool renames = entry->kind == ENTRY_RENAME || entry->kind == ENTRY_MERGE;
    struct change change = {0};
    l3a_status status = L3A_OK;
    int exact;
    TRY(change_begin(model, &change));
    TRY(move_rows(history, model, entry, 0, entry->back_count, true, report));
    if (renames && (entry->kind == ENTRY_RENAME || knows(model, entry->classes.items[0]))) {
        TRY(l3a_model_rename(model, entry->classes.items[0], entry->classes.items[1], &exact));
    }
    TRY(move_rows(history, model, entry, entry->back_count, entry->row_count, false, report));
done:
    return change_end(&change, status);
}

/* Makes a model with these options and the records of the model, and applies the first `count` entries. */
static l3a_status replay(const l3a_history *history, const struct model_options *options, size_t count, l3a_model **model) {
    const l3a_model *old = *history->model;
    l3a_model *made = NULL;
    l3a_teach_report report = {.size = sizeof report};
    l3a_status status = L3A_OK;
    TRY(model_create(history->context, old->width, options, &made));
    for (size_t i = 0; i < old->record_keys.count; i++) {
        TRY(l3a_model_set_record(made, old->record_keys.items[i], old->record_values.items[i]));
    }
    for (size_t i = 0; i < count; i++) {
        TRY(apply(history, made, history->entries[i], &report));
    }
    *model = made;
    made = NULL;
done:
    l3a_model_free(made);
    return status;
}

/* Whether the first `count` entries contain all that the model had learned then. */
static bool can_replay(const l3a_history *history, size_t count) {
    bool complete = history->gap == no_gap;
    for (size_t i = 0; i < count; i++) {
        complete = complete && history->entries[i]->kind != ENTRY_NOT_KEPT;
    }
    return complete;
}

bool history_is_complete(const l3a_history *history) {
    return can_replay(history, history->count);
}

static void replace_model(l3a_history *history, l3a_model *model) {
    l3a_model_free(*history->model);
    *history->model = model;
}

bool history_can_revert(const l3a_history *history, size_t index) {
    const enum entry_kind kind = history->entries[index]->kind;
    return kind == ENTRY_TEACH || kind == ENTRY_RENAME || (kind == ENTRY_MERGE && can_replay(history, index));
}

static l3a_status check_revert(const l3a_history *history) {
    static const char cannot[] = "restore an older copy of the model from a backup";
    l3a_context *context = history->context;
    l3a_status status = L3A_OK;
    FAIL_IF(!history->count && history->gap == no_gap, context, L3A_ERROR_STATE, NULL, "%s: there is nothing to undo",
            history->model_path);
    FAIL_IF(!history->count, context, L3A_ERROR_STATE, cannot, "%s: there is nothing that can be undone: %s", history->model_path,
            history->gap);
    const struct entry *last = history->entries[history->count - 1];
    FAIL_IF(last->kind == ENTRY_NOT_KEPT || last->kind == ENTRY_UNDO, context, L3A_ERROR_STATE, cannot,
            "%s: lesson %" PRIu64 " cannot be undone, because it was taught without a history", history->model_path, last->number);
    FAIL_IF(!history_can_revert(history, history->count - 1), context, L3A_ERROR_STATE, cannot,
            "%s: lesson %" PRIu64 " merged '%s' into '%s', which can only be undone if the history has every picture",
            history->model_path, last->number, last->classes.items[0], last->classes.items[1]);
done:
    return status;
}

static l3a_status revert(l3a_history *history, const struct entry *entry, l3a_teach_report *report) {
    l3a_model *model = *history->model;
    struct change change = {0};
    l3a_status status = L3A_OK;
    int exact;
    if (entry->kind == ENTRY_RENAME) {
        return l3a_model_rename(model, entry->classes.items[1], entry->classes.items[0], &exact);
    }
    if (entry->kind == ENTRY_MERGE) {
        TRY(replay(history, &model->options, history->count - 1, &model));
        replace_model(history, model);
        return L3A_OK;
    }
    TRY(change_begin(model, &change));
    TRY(move_rows(history, model, entry, entry->back_count, entry->row_count, true, report));
    TRY(move_rows(history, model, entry, 0, entry->back_count, false, report));
done:
    return change_end(&change, status);
}

static l3a_status new_id(l3a_context *context, const char *path, uint64_t *id) {
    *id = 0;
    while (!*id) {
        if (context->files->random(id, sizeof *id, 0) != sizeof *id) {
            return fail_system(context, path, "choose the number of a lesson", errno);
        }
    }
    return L3A_OK;
}

/* Takes back the last entry, and forgets it. */
static l3a_status take_back(l3a_history *history, l3a_teach_report *report) {
    struct entry *last = history->entries[history->count - 1];
    l3a_status status = L3A_OK;
    TRY(check_revert(history));
    TRY(revert(history, last, report));
    report->images = last->pictures;
    known_forget_last(history->known, history->entries, history->count);
    history->count--;
    if (!last->length) {
        entry_free(history->context, last);
    }
done:
    return status;
}

/* Prepares the mark that says that the last entry, which is in the journal, was undone. */
static l3a_status add_mark(l3a_history *history) {
    const struct entry *last = history->entries[history->count - 1];
    struct entry *mark = NULL;
    l3a_status status = L3A_OK;
    TRY(grow_array(history->context, &history->marks, &history->mark_capacity, history->mark_count + 1, sizeof *history->marks));
    TRY(entry_create(history->context, ENTRY_UNDO, &mark));
    TRY(new_id(history->context, history->model_path, &mark->id));
    mark->parent = last->id;
    mark->number = last->number;
    mark->seconds = (int64_t)time(NULL);
    history->marks[history->mark_count++] = mark;
    mark = NULL;
done:
    entry_free(history->context, mark);
    return status;
}

l3a_status l3a_history_undo(l3a_history *history, l3a_teach_report *report) {
    REQUIRE(history, history);
    l3a_teach_report made = {.size = sizeof made};
    l3a_status status = L3A_OK;
    if (report) {
        TRY(CHECK_SIZED(history->context, report));
    }
    TRY(check_revert(history));
    const bool stored = history->entries[history->count - 1]->length > 0;
    if (stored) {
        TRY(add_mark(history));
    }
    status = take_back(history, &made);
    if (status != L3A_OK) {
        if (stored) {
            entry_free(history->context, history->marks[--history->mark_count]);
        }
        goto done;
    }
    if (report) {
        TRY(WRITE_SIZED(history->context, report, made));
    }
done:
    return status;
}

/* ---- Changes that were committed ---- */

/* Applies a change of the journal that the model does not have. */
static l3a_status redo(l3a_history *history, struct entry *entry) {
    const struct entry *last = history->count ? history->entries[history->count - 1] : NULL;
    l3a_teach_report report = {.size = sizeof report};
    l3a_status status = L3A_OK;
    const bool empty = l3a_model_class_count(*history->model) == 0;
    const bool fits = last ? entry->parent == last->id : entry->parent == history->base_id && entry->from_nothing == empty;
    FAIL_IF(!fits, history->context, L3A_ERROR_STATE,
            "bring back the model that the history belongs to, or move the history away and teach these lessons again",
            "%s: the history has lessons that are not in the model, and the model is not the one that they were taught to",
            history->journal.path);
    TRY(check_width(history, entry));
    if (entry->kind == ENTRY_UNDO) {
        FAIL_IF(!last, history->context, L3A_ERROR_CHECKSUM, "restore the history from a backup",
                "%s: a lesson is undone that is not there", history->journal.path);
        TRY(take_back(history, &report));
    } else if (entry->kind == ENTRY_NOT_KEPT) {
        status = fail(history->context, L3A_ERROR_CHECKSUM, "restore the history from a backup",
                      "%s: a lesson that is not in the model has no pictures", history->journal.path);
    } else {
        TRY(apply(history, *history->model, entry, &report));
        TRY(push(history, entry));
    }
done:
    return status;
}

static l3a_status catch_up(l3a_history *history) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < history->journal.count && history->gap != gap_changed; i++) {
        struct entry *entry = history->journal.entries[i];
        if (entry->sequence > history->sequence) {
            TRY(redo(history, entry));
            history->sequence = entry->sequence;
            history->needed = entry->offset + entry->length;
        }
    }
done:
    return status;
}

uint64_t l3a_history_ahead(const l3a_history *history) {
    return history ? history->sequence - history->saved : 0;
}

/* The bytes of the journal that must stay. */
static uint64_t kept_end(const l3a_history *history) {
    const uint64_t end = stored_end(history);
    return end > history->needed ? end : history->needed;
}

/* Nothing may be added to the files of another model, or of this one at another time, which somebody has put there since. */
static l3a_status check_current(l3a_history *history) {
    output_target target = {0};
    bool held;
    l3a_status status = L3A_OK;
    TRY(target_find(history->context, history->model_path, &target));
    TRY(lock_is_held(history->context, target.path, &held)); /* or no longer, which fails */
    TRY(check_file(history, &target));
    FAIL_IF(!journal_is_current(&history->journal), history->context, L3A_ERROR_STATE, "load the model again",
            "%s: the file has been replaced since the model was loaded", history->path);
done:
    target_free(history->context, &target);
    return status;
}

/* Marks come before new entries: an entry that is undone before it is committed leaves nothing. */
l3a_status history_commit(l3a_history *history) {
    const size_t stored = stored_count(history), fresh = history->count - stored, count = history->mark_count + fresh;
    struct entry **changes = NULL;
    l3a_status status = L3A_OK;
    if (!count) {
        return L3A_OK;
    }
    FAIL_IF(!history->exists, history->context, L3A_ERROR_STATE, "save the model first",
            "%s: changes of a model that is in no file cannot be committed", history->model_path);
    TRY(check_current(history));
    TRY(allocate(history->context, count, sizeof *changes, &changes));
    for (size_t i = 0; i < count; i++) {
        changes[i] = i < history->mark_count ? history->marks[i] : history->entries[stored + i - history->mark_count];
        changes[i]->sequence = history->sequence + 1 + i;
    }
    TRY(journal_add(&history->journal, kept_end(history), changes, count));
    history->mark_count = 0; /* they belong to the journal now */
    history->sequence += count;
    history->needed = history->journal.end;
done:
    release(history->context, changes);
    return status;
}

/* The note that an entry leaves of which nothing is kept. */
static l3a_status make_note(l3a_context *context, const struct entry *entry, struct entry **note) {
    l3a_status status = L3A_OK;
    TRY(entry_create(context, ENTRY_NOT_KEPT, note));
    (*note)->id = entry->id;
    (*note)->parent = entry->parent;
    (*note)->number = entry->number;
    (*note)->seconds = entry->seconds;
    (*note)->pictures = entry->pictures;
done:
    return status;
}

/* An entry is the last one now; NULL: nothing is kept, and there is no history to put a note in. There is room for it. */
static void keep_applied(l3a_history *history, struct entry *entry, const struct position *now) {
    if (entry) {
        history->entries[history->count++] = entry;
    } else {
        history->base_id = now->id;
        history->base_number = now->number;
        history->gap = gap_missing;
    }
}

l3a_status history_apply(l3a_history *history, struct entry *entry, bool keep, l3a_teach_report *report) {
    const struct position before = last_position(history);
    struct entry *note = NULL;
    l3a_status status = L3A_OK;
    TRY(new_id(history->context, history->model_path, &entry->id));
    entry->parent = before.id;
    entry->number = before.number + 1;
    entry->seconds = (int64_t)time(NULL);
    entry->from_nothing = !history->count && history->gap == no_gap;
    TRY(grow_array(history->context, &history->entries, &history->capacity, history->count + 1, sizeof *history->entries));
    TRY(keep || !history->count ? L3A_OK : make_note(history->context, entry, &note));
    TRY(apply(history, *history->model, entry, report));
    const struct position now = {.number = entry->number, .id = entry->id};
    keep_applied(history, keep ? entry : note, &now);
    entry = keep ? NULL : entry;
    note = NULL;
done:
    entry_free(history->context, note);
    entry_free(history->context, entry);
    return status;
}

/* ---- Renaming ---- */

/* Puts a picture that shows both classes into the entry: as it was judged, to be taken back, and with one class of the two. */
static l3a_status add_both(const l3a_history *history, struct entry *entry, const struct known *picture, size_t at,
                           const int8_t *labels) {
    l3a_context *context = history->context;
    const size_t classes = entry->classes.count, halves[2] = {at, entry->back_count + at};
    const struct pictured *row = &picture->entry->rows[picture->row];
    l3a_status status = L3A_OK;
    for (size_t half = 0; half < 2; half++) {
        struct pictured *to = &entry->rows[halves[half]];
        int8_t *own = entry->labels + halves[half] * classes;
        TRY(copy_text(context, row->path, strlen(row->path), &to->path));
        TRY(copy_text(context, row->relative, strlen(row->relative), &to->relative));
        to->checksum = row->checksum;
        to->lesson = half ? 0 : picture->entry->number;
        to->row = half ? 0 : picture->row;
        for (size_t k = 0; k < classes; k++) {
            own[k] = labels[text_list_find(&(*history->model)->classes, entry->classes.items[k])];
        }
        own[0] = half ? -1 : own[0];
        TRY(journal_features(&history->journal, picture->entry, picture->row, 1, entry->features + halves[half] * entry->width));
    }
done:
    return status;
}

/* The old and the new name, then the other classes of the model. */
static l3a_status list_classes(const l3a_model *model, const char *old_name, const char *new_name, bool all, text_list *classes) {
    l3a_status status = L3A_OK;
    TRY(text_list_add(model->context, classes, old_name, strlen(old_name)));
    TRY(text_list_add(model->context, classes, new_name, strlen(new_name)));
    for (size_t k = 0; all && k < model->classes.count; k++) {
        const char *name = model->classes.items[k];
        if (strcmp(name, old_name) != 0 && strcmp(name, new_name) != 0) {
            TRY(text_list_add(model->context, classes, name, strlen(name)));
        }
    }
done:
    return status;
}

/* The pictures that show both classes, which would count twice: they come first in `pictures`. */
static l3a_status find_both(const l3a_history *history, size_t from, size_t to, struct known *pictures, size_t *count) {
    int8_t *labels = NULL;
    size_t found = 0;
    l3a_status status = L3A_OK;
    TRY(allocate(history->context, (*history->model)->classes.count, 1, &labels));
    for (size_t i = 0; i < *count; i++) {
        history_labels(history, &pictures[i], labels);
        if (labels[from] == 1 && labels[to] == 1) {
            pictures[found++] = pictures[i];
        }
    }
    *count = found;
done:
    release(history->context, labels);
    return status;
}

static l3a_status fill_merge(const l3a_history *history, struct entry *entry, const struct known *pictures, size_t count) {
    l3a_context *context = history->context;
    int8_t *labels = NULL;
    l3a_status status = L3A_OK;
    entry->width = count ? model_image(*history->model) : 0;
    TRY(allocate_zeroed(context, 2 * count, sizeof *entry->rows, &entry->rows));
    entry->row_count = 2 * count;
    entry->back_count = count;
    TRY(allocate(context, 2 * count, entry->classes.count, &entry->labels));
    TRY(allocate(context, 2 * count, entry->width * sizeof *entry->features, &entry->features));
    TRY(allocate(context, (*history->model)->classes.count, 1, &labels));
    for (size_t i = 0; i < count; i++) {
        history_labels(history, &pictures[i], labels);
        TRY(add_both(history, entry, &pictures[i], i, labels));
    }
done:
    release(context, labels);
    return status;
}

static l3a_status make_merge(const l3a_history *history, size_t from, size_t to, struct entry *entry) {
    struct known *pictures = NULL;
    size_t count = 0;
    l3a_status status = L3A_OK;
    TRY(history_known(history, &pictures, &count));
    TRY(find_both(history, from, to, pictures, &count));
    TRY(fill_merge(history, entry, pictures, count));
done:
    release(history->context, pictures);
    return status;
}

l3a_status l3a_history_rename(l3a_history *history, const char *old_name, const char *new_name, int *exact) {
    REQUIRE(history, history, old_name, new_name, exact);
    l3a_context *context = history->context;
    const l3a_model *model = *history->model;
    const size_t from = text_list_find(&model->classes, old_name), to = text_list_find(&model->classes, new_name);
    const bool merges = from < model->classes.count && to < model->classes.count && from != to;
    l3a_teach_report report = {.size = sizeof report};
    struct entry *entry = NULL;
    l3a_status status = L3A_OK;
    TRY(check_class_name(context, new_name));
    TRY(to < model->classes.count ? L3A_OK : check_new_name(context, new_name));
    FAIL_IF(from == to && from < model->classes.count, context, L3A_ERROR_CLASS, NULL, "'%s' has this name already", old_name);
    TRY(entry_create(context, merges ? ENTRY_MERGE : ENTRY_RENAME, &entry));
    TRY(list_classes(model, old_name, new_name, merges, &entry->classes));
    if (merges) {
        TRY(make_merge(history, from, to, entry));
    }
    const bool complete = history_is_complete(history);
    *exact = !merges || (complete && model->options.weights == L3A_WEIGHTS_NONE);
    status = history_apply(history, entry, true, &report);
    entry = NULL;
done:
    entry_free(context, entry);
    return status;
}

l3a_status l3a_history_widen(l3a_history *history, size_t dim) {
    REQUIRE(history, history);
    l3a_model *model = *history->model;
    struct model_options options = model->options;
    l3a_status status = L3A_OK;
    FAIL_IF(!history_is_complete(history), history->context, L3A_ERROR_STATE,
            "make a new model of this width, and teach it all pictures again",
            "%s: another width needs every picture again, and the history does not have them all", history->model_path);
    options.dim = dim;
    TRY(model_options_check(history->context, &options));
    TRY(replay(history, &options, history->count, &model));
    replace_model(history, model);
done:
    return status;
}

/* ---- Saving ---- */

/* The model in the file must be the one that was loaded, if that is known: a change by another process in between would be lost. */
static l3a_status check_file(l3a_history *history, const output_target *target) {
    l3a_status status = L3A_OK;
    FAIL_IF(target->exists && !history->exists, history->context, L3A_ERROR_EXISTS, "choose another name, or open this model",
            "%s: the file appeared while the model was made", history->model_path);
    FAIL_IF(target->exists && history->file.inode &&
                (target->old.device != history->file.device || target->old.inode != history->file.inode),
            history->context, L3A_ERROR_STATE, "load the model again", "%s: the file has been replaced since the model was loaded",
            history->model_path);
done:
    return status;
}

/* Adds the entries that are new to the journal, in the place of what a killed process left at its end. */
static l3a_status save_entries(l3a_history *history) {
    const size_t stored = stored_count(history);
    return stored == history->count
               ? L3A_OK
               : journal_add(&history->journal, kept_end(history), history->entries + stored, history->count - stored);
}

/* After an attempt to save: the file may be in its place even if something failed afterwards. While the lock is held, it is ours.
 */
static void find_saved(l3a_history *history, const output_target *target) {
    file_description now = {0};
    const bool found = history->context->files->describe(target->path, &now) == 0;
    history->exists = history->exists || found;
    history->file = now;
}

/* What the model no longer needs may stay in the history until the next save. */
static l3a_status save_locked(l3a_history *history, const output_target *target) {
    l3a_context *context = history->context;
    l3a_status status = L3A_OK;
    TRY(check_file(history, target));
    TRY(save_entries(history));
    TRY(write_position(history));
    status = l3a_model_save(*history->model, history->model_path);
    find_saved(history, target);
    TRY(status);
    history->saved = history->sequence;
    drop_marks(history);
    history->needed = stored_end(history);
    if (journal_keep(&history->journal, history->entries, history->count) != L3A_OK) {
        report_warning(context, "%s: the model is saved, but its history could not be shortened: %s", history->model_path,
                       context->error_text);
    }
    history->needed = stored_end(history);
done:
    return status;
}

/* Calls `save` with the model's lock. */
static l3a_status with_lock(l3a_history *history, l3a_status (*save)(l3a_history *history, const output_target *target)) {
    output_target target = {0};
    l3a_lock *lock = NULL;
    bool held;
    l3a_status status = L3A_OK;
    TRY(target_find(history->context, history->model_path, &target));
    TRY(lock_is_held(history->context, target.path, &held));
    if (!held) {
        TRY(lock_target(history->context, target.path, history->model_path, FAIL_AT_ONCE, &lock));
    }
    TRY(save(history, &target));
done:
    l3a_lock_free(lock);
    target_free(history->context, &target);
    return status;
}

l3a_status l3a_history_save(l3a_history *history) {
    REQUIRE(history, history);
    return with_lock(history, save_locked);
}

/* ---- Repairing ---- */

/* A class that neither the model knows nor a picture of the entry shows came with a lesson that is lost. The entry does not judge
 * it then. */
static void unjudge_lost(const l3a_model *model, const struct entry *entry) {
    const size_t classes = entry->classes.count;
    for (size_t k = 0; k < classes; k++) {
        bool shown = knows(model, entry->classes.items[k]);
        for (size_t i = 0; i < entry->row_count && !shown; i++) {
            shown = entry->labels[i * classes + k] == 1;
        }
        for (size_t i = 0; i < entry->row_count && !shown; i++) {
            entry->labels[i * classes + k] = -1;
        }
    }
}

/* The change of a record, to be written again with the place that it has now. */
static l3a_status make_again(l3a_history *history, struct entry *from, struct entry **made) {
    const struct position before = last_position(history);
    l3a_status status = L3A_OK;
    TRY(grow_array(history->context, &history->entries, &history->capacity, history->count + 1, sizeof *history->entries));
    TRY(journal_load(&history->journal, from));
    TRY(allocate(history->context, 1, sizeof **made, made));
    **made = *from;
    from->rows = NULL;
    from->labels = NULL;
    from->features = NULL;
    from->classes = (text_list){0};
    from->row_count = from->back_count = 0;
    (*made)->parent = before.id;
    (*made)->number = before.number + 1;
    (*made)->from_nothing = !history->count && history->gap == no_gap;
    (*made)->offset = (*made)->length = (*made)->sequence = 0;
    unjudge_lost(*history->model, *made);
done:
    return status;
}

static l3a_status apply_again(l3a_history *history, struct entry *from) {
    l3a_teach_report report = {.size = sizeof report};
    struct entry *made = NULL;
    l3a_status status = L3A_OK;
    if (from->kind == ENTRY_UNDO) {
        FAIL_IF(!history->count, history->context, L3A_ERROR_STATE, NULL, "what it takes back is lost");
        return take_back(history, &report);
    }
    TRY(check_width(history, from));
    TRY(make_again(history, from, &made));
    TRY(apply(history, *history->model, made, &report));
    history->entries[history->count++] = made;
    made = NULL;
done:
    entry_free(history->context, made);
    return status;
}

/* Applies what is left of the changes that are not in the model, and says which lessons are lost. */
static l3a_status salvage(l3a_history *history, l3a_repair_report *report) {
    l3a_context *context = history->context;
    const struct position start = last_position(history);
    struct walk walk = walk_from(&start);
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < history->journal.count; i++) {
        struct entry *entry = history->journal.entries[i];
        if (entry->sequence <= history->saved) {
            continue;
        }
        const uint64_t number = entry->number, missing = missing_before(&walk, entry);
        if (missing == 1) {
            report_warning(context, "lost: lesson %" PRIu64 ", which cannot be read", number - 1);
        } else if (missing) {
            report_warning(context, "lost: lessons %" PRIu64 " to %" PRIu64 ", which cannot be read", number - missing, number - 1);
        }
        enum verdict verdict = walk_on(&walk, &history->journal, entry);
        if (verdict == USE) {
            status = apply_again(history, entry);
            TRY(status == L3A_ERROR_MEMORY || status == L3A_ERROR_CANCELLED ? status : L3A_OK);
            report->applied += status == L3A_OK;
        }
        if (verdict == LOSE || status != L3A_OK) {
            report_warning(context, "lost: lesson %" PRIu64 ", %s", number,
                           verdict == LOSE ? "which needs a lesson that is lost" : context->error_text);
            walk.lost += verdict != LOSE;
        }
        status = L3A_OK;
        walk.last = last_position(history).id;
        history->sequence = entry->sequence > history->sequence ? entry->sequence : history->sequence;
    }
    report->lost = walk.lost;
done:
    return status;
}

/* The model first: should this process end in between, nothing is lost that the damaged file still has. */
static l3a_status save_repaired(l3a_history *history, const output_target *target) {
    l3a_status status = L3A_OK;
    TRY(check_file(history, target));
    TRY(write_position(history));
    TRY(l3a_model_save(*history->model, history->model_path));
    TRY(journal_repair(&history->journal, history->entries, history->count));
done:
    return status;
}

l3a_status l3a_history_repair(l3a_context *context, const char *model_path, l3a_repair_report *report) {
    l3a_repair_report made = {.size = sizeof made};
    l3a_model *model = NULL;
    l3a_history *history = NULL;
    l3a_status status = L3A_OK;
    NEED(context, context, model_path);
    if (report) {
        TRY(CHECK_SIZED(context, report));
    }
    TRY(l3a_model_load(context, model_path, &model));
    TRY(begin(context, model_path, &model, true, &history));
    made.bytes = history->journal.damaged ? history->journal.lost : history->journal.size - history->journal.end;
    if (made.bytes) {
        TRY(salvage(history, &made));
        TRY(with_lock(history, save_repaired));
    }
    if (report) {
        TRY(WRITE_SIZED(context, report, made));
    }
done:
    l3a_history_free(history);
    l3a_model_free(model);
    return status;
}
