/* Histories: entries that can be read are unchanged after they are written and read again, and everything that is asked of a
 * history of such entries has an answer, even if they make no sense together. */
#include "fuzz.h"

#include "base/memory.h"
#include "tag/history_private.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { FIRST_LINE = 16, HEAD = 48, WIDTH = 16 };

/* Writes the right checksums into all records that fit. */
static void repair(uint8_t *bytes, size_t count) {
    for (size_t at = FIRST_LINE; count >= at + HEAD;) {
        uint64_t head[6], left = count - at - HEAD;
        memcpy(head, bytes + at, HEAD);
        if (head[1] > left || head[2] > left - head[1]) {
            break;
        }
        memcpy(head, memcmp(head, "l3a-comm", 8) == 0 ? "l3a-comm" : "l3a-hist", 8);
        head[3] = XXH3_64bits(bytes + at + HEAD, head[1]);
        head[4] = XXH3_64bits(bytes + at + HEAD + head[1], head[2]);
        head[5] = XXH3_64bits(head, 40);
        memcpy(bytes + at, head, HEAD);
        at += HEAD + head[1] + head[2];
    }
}

static void same_entry(l3a_context *context, struct entry *left, struct entry *right) {
    must(left->id == right->id && left->parent == right->parent && left->number == right->number && left->kind == right->kind);
    must(left->row_count == right->row_count && left->back_count == right->back_count && left->width == right->width);
    must(left->classes.count == right->classes.count && left->seconds == right->seconds && left->pictures == right->pictures);
    for (size_t k = 0; k < left->classes.count; k++) {
        must(strcmp(left->classes.items[k], right->classes.items[k]) == 0);
    }
    for (size_t i = 0; i < left->row_count; i++) {
        must(strcmp(left->rows[i].path, right->rows[i].path) == 0 && left->rows[i].checksum == right->rows[i].checksum);
        const char *tags = entry_tags(context, left, i);
        must(tags && strcmp(tags, entry_tags(context, right, i)) == 0);
    }
    must(!left->row_count || memcmp(left->labels, right->labels, left->row_count * left->classes.count) == 0);
}

/* Writes the entries to another file; features are taken from memory then. */
static void write_and_read(l3a_context *context, struct journal *journal) {
    struct journal copy = {.context = context}, again = {0};
    must(copy_text(context, "copy", 4, &copy.path) == L3A_OK);
    must(journal_add(&copy, 0, journal->entries, journal->count) == L3A_OK);
    must(journal_read(context, "copy", &again) == L3A_OK);
    must(again.count == journal->count && again.end == again.size && (journal->damaged || again.size == journal->end));
    for (size_t i = 0; i < again.count; i++) {
        same_entry(context, journal->entries[i], again.entries[i]);
    }
    if (again.count > 1) { /* all but the second */
        struct entry **kept = malloc(again.count * sizeof *kept);
        size_t count = 0;
        for (size_t i = 0; i < again.count; i++) {
            kept[count] = again.entries[i];
            count += i != 1;
        }
        must(journal_keep(&again, kept, count) == L3A_OK && again.count == count);
        free(kept);
    }
    journal_free(&again);
    copy.count = 0; /* the entries belong to the other one */
    journal_free(&copy);
}

/* A model that has learned nothing, as if these entries had led to it. */
static void ask(l3a_context *context, l3a_model *model, struct journal *journal) {
    struct known_index index = {.context = context};
    l3a_history history = {
        .context = context, .model = &model, .known = &index, .gap = "", .model_path = (char *)"model", .path = (char *)"history"};
    l3a_teach_report report = {.size = sizeof report};
    struct known *known = NULL;
    size_t count, pictures;
    history.entries = journal->entries;
    history.count = journal->count;
    history.journal = *journal;
    for (size_t i = 0; i < history.count; i++) {
        l3a_history_entry entry = {.size = sizeof entry};
        must(l3a_history_entry_at(&history, i, &entry) == L3A_OK && entry.kind);
        for (size_t k = 0; l3a_history_class(&history, i, k, &pictures); k++) {
            must(pictures > 0);
        }
        for (size_t k = 0; l3a_history_picture(&history, i, k); k++) {
            must(l3a_history_tags(&history, i, k) != NULL);
        }
    }
    if (history_known(&history, &known, &count) == L3A_OK) {
        for (size_t i = 0; i < count; i++) {
            int8_t labels[1];
            must(known[i].row < known[i].entry->row_count);
            history_labels(&history, &known[i], labels);
        }
    }
    release(context, known);
    l3a_history_undo(&history, &report); /* of what was never taught */
    history_drop_marks(&history);
    release(context, history.marks.items);
    known_free(&index);
}

/* Changes that were committed are applied to a model that has learned nothing, or refused. */
static void catch_up(l3a_context *context, l3a_model *model) {
    l3a_history *history = NULL;
    if (history_begin(context, "model", &model, &history) == L3A_OK) {
        must(l3a_history_ahead(history) == history->sequence && history->count <= history->journal.count);
        l3a_history_free(history);
    }
    l3a_model_free(model);
}

static void use_journal(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    struct journal journal;
    l3a_options *options = NULL;
    l3a_model *model = NULL;
    if (journal_read(context, "model.history", &journal) == L3A_OK) {
        bool good = true;
        must(l3a_options_create(context, &options) == L3A_OK && l3a_options_set(context, options, "dim", "8") == L3A_OK);
        must(l3a_model_create(context, WIDTH, options, &model) == L3A_OK);
        ask(context, model, &journal);
        for (size_t i = 0; i < journal.count; i++) {
            struct entry *entry = journal.entries[i];
            must(allocate(context, entry->row_count, entry->width * sizeof(float), &entry->features) == L3A_OK);
            float *features = entry->features;
            entry->features = NULL;
            good = journal_features(&journal, entry, 0, entry->row_count, features) == L3A_OK && good;
            entry->features = features;
        }
        if (good && journal.count && journal.end == journal.size) {
            write_and_read(context, &journal);
        }
        l3a_model_free(model);
        model = NULL;
        must(l3a_model_create(context, WIDTH, options, &model) == L3A_OK);
        catch_up(context, model);
        l3a_options_free(options);
        journal_free(&journal);
    }
    l3a_context_free(context);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    uint8_t *copy = malloc(count + 1);
    must(copy != NULL);
    use_journal(bytes, count);
    memcpy(copy, bytes, count);
    repair(copy, count);
    use_journal(copy, count);
    free(copy);
    return 0;
}
