#include "tag/history_private.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char lesson_record[] = "lesson";

/* ---- The model's record ---- */

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

struct position history_position(const l3a_history *history) {
    const struct entry *last = history->count ? history->entries[history->count - 1] : NULL;
    return (struct position){.number = last ? last->number : history->base.number,
                             .id = last ? last->id : history->base.id,
                             .sequence = history->sequence};
}

l3a_status history_write_position(const l3a_history *history) {
    const struct position now = history_position(history);
    char text[104];
    int length =
        snprintf(text, sizeof text, "%" PRIu64 " %016" PRIx64 " %016" PRIx64, now.number, now.id, fingerprint_of(*history->model));
    if (now.sequence) {
        snprintf(text + length, sizeof text - (size_t)length, " %" PRIu64, now.sequence);
    }
    return l3a_model_set_record(*history->model, lesson_record, text);
}

/* ---- Entries ---- */

l3a_status history_make_room(l3a_history *history) {
    return grow_array(history->context, &history->entries, &history->capacity, history->count + 1, sizeof *history->entries);
}

static l3a_status push(l3a_history *history, struct entry *entry) {
    const l3a_status status = history_make_room(history);
    if (status == L3A_OK) {
        history->entries[history->count++] = entry;
    }
    return status;
}

/* Walks back from the model's id. */
static l3a_status find_entries(l3a_history *history, const struct position *position) {
    l3a_status status = L3A_OK;
    size_t before = history->journal.count;
    uint64_t id = position->id, number = position->number;
    for (struct entry *entry; (entry = journal_find_before(&history->journal, id, &before));) {
        if (entry->number != number) {
            break;
        }
        TRY(push(history, entry));
        id = entry->parent;
        number--;
    }
    history->base = (struct position){.number = number, .id = id};
    for (size_t i = 0; i < history->count / 2; i++) {
        struct entry *swapped = history->entries[i];
        history->entries[i] = history->entries[history->count - 1 - i];
        history->entries[history->count - 1 - i] = swapped;
    }
done:
    return status;
}

size_t history_stored(const l3a_history *history) {
    size_t stored = history->count;
    while (stored && !history->entries[stored - 1]->length) {
        stored--;
    }
    return stored;
}

uint64_t history_stored_end(const l3a_history *history) {
    const size_t stored = history_stored(history);
    return stored ? history->entries[stored - 1]->offset + history->entries[stored - 1]->length : 0;
}

l3a_status history_check_width(const l3a_history *history, const struct entry *entry) {
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
        TRY(history_check_width(history, history->entries[i]));
    }
done:
    return status;
}

static l3a_status fail_ahead(const l3a_history *history) {
    return fail(history->context, L3A_ERROR_STATE,
                "bring back the model that the history belongs to, or move the history away and teach these lessons again",
                "%s: the history has lessons that are not in the model, and the model is not the one that they were taught to",
                history->journal.path);
}

/* Fails if changes were committed that are not in the model, which cannot be brought there. */
static l3a_status check_ahead(const l3a_history *history) {
    for (size_t i = 0; i < history->journal.count; i++) {
        if (history->journal.entries[i]->sequence > history->sequence) {
            return fail_ahead(history);
        }
    }
    return L3A_OK;
}

/* ---- Opening ---- */

const char gap_none[] = "", gap_missing[] = "there is no history of what was taught before";
static const char gap_other[] = "the model was not made by teaching", gap_changed[] = "another command has changed the model since";

static l3a_status find_start(l3a_history *history, bool repairs) {
    const l3a_model *model = *history->model;
    const bool empty = l3a_model_class_count(model) == 0;
    struct position position;
    l3a_status status = L3A_OK;
    read_position(model, &position);
    history->sequence = history->saved = position.sequence;
    if (position.fingerprint && position.fingerprint != fingerprint_of(model)) {
        TRY(check_ahead(history));
        history->base.number = position.number;
        history->gap = gap_changed;
        return L3A_OK;
    }
    TRY(find_entries(history, &position));
    TRY(repairs ? L3A_OK : history_check_damage(history, &position));
    TRY(check_widths(history));
    const bool reaches_start = history->count ? history->entries[0]->from_nothing : empty;
    history->gap = reaches_start ? gap_none : history->base.number ? gap_missing : gap_other;
done:
    return status;
}

/* Applies a change of the journal that the model does not have. */
static l3a_status redo(l3a_history *history, struct entry *entry) {
    const struct entry *last = history->count ? history->entries[history->count - 1] : NULL;
    l3a_teach_report report = {.size = sizeof report};
    l3a_status status = L3A_OK;
    const bool empty = l3a_model_class_count(*history->model) == 0;
    const bool fits = last ? entry->parent == last->id : entry->parent == history->base.id && entry->from_nothing == empty;
    TRY(fits ? L3A_OK : fail_ahead(history));
    TRY(history_check_width(history, entry));
    if (entry->kind == ENTRY_UNDO) {
        FAIL_IF(!last, history->context, L3A_ERROR_CHECKSUM, "restore the history from a backup",
                "%s: a lesson is undone that is not there", history->journal.path);
        TRY(history_take_back(history, &report));
    } else if (entry->kind == ENTRY_NOT_KEPT) {
        status = fail(history->context, L3A_ERROR_CHECKSUM, "restore the history from a backup",
                      "%s: a lesson that is not in the model has no pictures", history->journal.path);
    } else {
        TRY(history_change(history, *history->model, entry, &report));
        TRY(push(history, entry));
    }
done:
    return status;
}

/* Applies the changes that were committed and that the model does not have. */
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

l3a_status history_start(l3a_context *context, const char *model_path, l3a_model **model, bool repairs, l3a_history **history) {
    l3a_history *made = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->model = model;
    TRY(allocate_zeroed(context, 1, sizeof *made->known, &made->known));
    made->known->context = context;
    TRY(copy_text(context, model_path, strlen(model_path), &made->model_path));
    TRY(find_files(made, model_path));
    TRY(journal_read(context, made->path, &made->journal));
    TRY(find_start(made, repairs));
    made->needed = history_stored_end(made);
    TRY(repairs ? L3A_OK : catch_up(made));
    *history = made;
    made = NULL;
done:
    l3a_history_free(made);
    return status;
}

l3a_status history_begin(l3a_context *context, const char *model_path, l3a_model **model, l3a_history **history) {
    return history_start(context, model_path, model, false, history);
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

void history_drop_marks(l3a_history *history) {
    while (history->marks.count) {
        entry_free(history->context, history->marks.items[--history->marks.count]);
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
        history_drop_marks(history);
        release(context, history->marks.items);
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
