/* The calls that change a tagger: teaching, undoing, renaming, widening and saving. */
#include "tag/teach.h"

#include "base/sized.h"

static void teaching_free(struct teaching *teaching) {
    release(teaching->context, teaching->features);
    release(teaching->context, teaching->plans);
    release(teaching->context, teaching->was.items);
    teach_free_classes(teaching);
}

static l3a_status prepare(struct teaching *teaching, struct entry **entry) {
    l3a_context *context = teaching->context;
    const size_t count = teaching->lesson->count;
    l3a_judgement was;
    l3a_status status = L3A_OK;
    FAIL_IF(!count, context, L3A_ERROR_ARGUMENT, "add at least one", "the lesson has no pictures");
    if (teaching->options.was) {
        TRY(READ_SIZED(context, teaching->options.was, was));
        TRY(lesson_marks(teaching->lesson, "was", &was, &teaching->was));
    }
    teaching->width = model_image(teaching->model);
    TRY(tagger_loading(teaching->tagger, teaching->model->options.views, &teaching->loading));
    TRY(allocate_zeroed(context, count, sizeof *teaching->plans, &teaching->plans));
    TRY(allocate(context, count, teaching->width * sizeof *teaching->features, &teaching->features));
    TRY(history_index(teaching->history, &teaching->known));
    TRY(teach_find_classes(teaching));
    TRY(teach_check_limits(teaching));
    TRY(teach_find_seen(teaching));
    TRY(teach_read(teaching));
    TRY(teach_find_classes(teaching));
    teach_warn_of_likeness(teaching);
    TRY(teach_make_entry(teaching, entry));
done:
    return status;
}

l3a_status tagger_ready_to_change(l3a_tagger *tagger, l3a_history **history) {
    l3a_status status = L3A_OK;
    TRY(tagger_history(tagger, history));
    FAIL_IF(tagger->commits && !(*history)->exists, tagger->context, L3A_ERROR_STATE, "save the model first",
            "%s: changes of a model that is in no file cannot be committed", tagger->path);
done:
    return status;
}

l3a_status tagger_settle(l3a_tagger *tagger, l3a_status status, bool in_history) {
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
    TRY(tagger_ready_to_change(tagger, &teaching.history));
    teaching.model = tagger->model;
    TRY(tagger_remember_backbone(tagger->model, tagger->path, tagger->backbone_path));
    TRY(prepare(&teaching, &entry));
    if (entry) {
        const uint64_t pictures = entry->pictures;
        const size_t new_classes = entry->new_classes;
        const bool keep = !teaching.options.no_history;
        status = history_apply(teaching.history, entry, keep, &made);
        TRY(tagger_settle(tagger, status, keep));
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
    TRY(tagger_ready_to_change(tagger, &history));
    TRY(tagger_settle(tagger, l3a_history_undo(history, report), true));
done:
    return status;
}

l3a_status l3a_tagger_revert(l3a_tagger *tagger, uint64_t id, l3a_teach_report *report) {
    REQUIRE(tagger, tagger);
    l3a_history *history;
    l3a_status status = L3A_OK;
    TRY(tagger_ready_to_change(tagger, &history));
    TRY(tagger_settle(tagger, l3a_history_revert(history, id, report), true));
done:
    return status;
}

l3a_status l3a_tagger_rename(l3a_tagger *tagger, const char *old_name, const char *new_name, int *exact) {
    REQUIRE(tagger, tagger, old_name, new_name, exact);
    l3a_history *history;
    l3a_status status = L3A_OK;
    TRY(tagger_ready_to_change(tagger, &history));
    TRY(tagger_settle(tagger, l3a_history_rename(history, old_name, new_name, exact), true));
done:
    return status;
}

l3a_status l3a_tagger_widen(l3a_tagger *tagger, size_t dim) {
    REQUIRE(tagger, tagger);
    l3a_history *history;
    l3a_status status = L3A_OK;
    TRY(tagger_ready_to_change(tagger, &history));
    TRY(tagger_settle(tagger, l3a_history_widen(history, dim), false));
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
