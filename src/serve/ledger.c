/* What was taught, as answers have it: the lessons, and how each picture was judged. It is kept up to date lesson by lesson, so
 * that a lesson takes no longer after thousands of others. What renames classes has it made anew. */
#include "serve/server.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FEWEST_CHAINS = 64 };

struct taught {
    uint64_t checksum;
    char *judgement; /* as JSON */
    struct taught *next;
};

struct lesson_text {
    char *text;          /* the start of a JSON object */
    bool can_undo;       /* it can be undone when it is the last one */
    bool teaches, names; /* also when it is not: if something of it is left, and if it gave a name */
    size_t held;         /* pictures that the model still knows from it */
};

/* ---- Judgements by checksum ---- */

static struct taught **find_place(const struct ledger *ledger, uint64_t checksum) {
    struct taught **place = &ledger->chains[checksum & (ledger->chain_count - 1)];
    while (*place && (*place)->checksum != checksum) {
        place = &(*place)->next;
    }
    return place;
}

static bool grow_chains(struct ledger *ledger) {
    const size_t count = ledger->chain_count ? 2 * ledger->chain_count : FEWEST_CHAINS;
    struct taught **before = ledger->chains, **chains = calloc(count, sizeof *chains);
    const size_t old = ledger->chain_count;
    if (!chains) {
        return false;
    }
    ledger->chains = chains;
    ledger->chain_count = count;
    for (size_t i = 0; i < old; i++) {
        for (struct taught *taught = before[i], *next; taught; taught = next) {
            struct taught **place = find_place(ledger, taught->checksum);
            next = taught->next;
            taught->next = NULL;
            *place = taught;
        }
    }
    free(before);
    return true;
}

/* judgement: NULL if the picture is not known any more. It belongs to the ledger even if this fails. */
static bool set_judgement(struct ledger *ledger, uint64_t checksum, char *judgement) {
    if (ledger->taught_count >= ledger->chain_count && !grow_chains(ledger)) {
        free(judgement);
        return false;
    }
    struct taught **place = find_place(ledger, checksum), *found = *place;
    if (!found && judgement) {
        found = *place = calloc(1, sizeof *found);
        if (!found) {
            free(judgement);
            return false;
        }
        found->checksum = checksum;
        ledger->taught_count++;
    } else if (found && !judgement) {
        *place = found->next;
        free(found->judgement);
        free(found);
        ledger->taught_count--;
        return true;
    }
    if (found) {
        free(found->judgement);
        found->judgement = judgement;
    }
    return true;
}

static void write_labelled(struct text *text, const l3a_model *model, const int8_t *labels, int8_t label) {
    size_t count = 0;
    text_print(text, "[");
    for (size_t k = 0; k < l3a_model_class_count(model); k++) {
        if (labels[k] == label) {
            text_print(text, count++ ? ", " : "");
            text_json(text, l3a_model_class(model, k));
        }
    }
    text_print(text, "]");
}

void judgement_write(struct text *text, const l3a_model *model, const int8_t *labels, int complete) {
    text_print(text, "\"tags\": ");
    write_labelled(text, model, labels, 1);
    text_print(text, ", \"not\": ");
    if (complete) {
        text_print(text, "[]");
    } else {
        write_labelled(text, model, labels, 0);
    }
    text_print(text, ", \"only\": %s", complete ? "false" : "true");
}

/* The first one with a checksum counts, as in the history. */
struct gathering {
    struct ledger *ledger;
    const l3a_model *model;
};

static int gather_taught(const char *path, uint64_t checksum, const int8_t *labels, int complete, void *user) {
    const struct gathering *gathering = user;
    struct ledger *ledger = gathering->ledger;
    struct text text = {0};
    (void)path;
    if (ledger->chain_count && *find_place(ledger, checksum)) {
        return 0;
    }
    text_print(&text, "{");
    judgement_write(&text, gathering->model, labels, complete);
    text_print(&text, "}");
    if (text.failed) {
        text_free(&text);
        return 1;
    }
    return !set_judgement(ledger, checksum, text.bytes);
}

/* ---- Lessons ---- */

void lesson_id(uint64_t id, char text[LESSON_ID]) {
    snprintf(text, LESSON_ID, "%016llx", (unsigned long long)id);
}

void lesson_write(struct text *text, const l3a_history_entry *entry) {
    char id[LESSON_ID];
    lesson_id(entry->id, id);
    text_print(text, "\"lesson\": %llu, \"id\": \"%s\"", (unsigned long long)entry->number, id);
}

static void write_entry(struct text *text, const l3a_history *history, size_t index, const l3a_history_entry *entry) {
    struct tm parts;
    char when[32] = "";
    size_t pictures;
    const char *name;
    const time_t seconds = (time_t)entry->seconds;
    if (gmtime_r(&seconds, &parts)) {
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    text_print(text, "{");
    lesson_write(text, entry);
    text_print(text, ", \"time\": \"%s\", \"kind\": \"%s\", \"pictures\": %zu, \"taken_back\": %zu, \"tags\": {", when, entry->kind,
               entry->pictures, entry->taken_back);
    for (size_t k = 0; (name = l3a_history_class(history, index, k, &pictures)); k++) {
        text_print(text, k ? ", " : "");
        text_json(text, name);
        text_print(text, ": %zu", pictures);
    }
    text_print(text, "}");
    if (entry->old_name) {
        text_print(text, ", \"from\": ");
        text_json(text, entry->old_name);
        text_print(text, ", \"to\": ");
        text_json(text, entry->new_name);
    }
}

/* Adds an entry of the history. */
static bool add_lesson(struct ledger *ledger, const l3a_history *history, size_t index) {
    l3a_history_entry entry = {.size = sizeof entry};
    struct text text = {0};
    if (l3a_history_entry_at(history, index, &entry) != L3A_OK) {
        return false;
    }
    if (ledger->count == ledger->capacity) {
        const size_t capacity = ledger->capacity ? 2 * ledger->capacity : 64;
        struct lesson_text *lessons = realloc(ledger->lessons, capacity * sizeof *lessons);
        if (!lessons) {
            return false;
        }
        ledger->lessons = lessons;
        ledger->capacity = capacity;
    }
    write_entry(&text, history, index, &entry);
    if (text.failed) {
        text_free(&text);
        return false;
    }
    ledger->lessons[ledger->count++] =
        (struct lesson_text){.text = text.bytes,
                             .can_undo = entry.can_undo,
                             .teaches = strcmp(entry.kind, "teach") == 0 || strcmp(entry.kind, "instead") == 0,
                             .names = strcmp(entry.kind, "rename") == 0,
                             .held = l3a_history_held(history, index)};
    return true;
}

/* Whether the last entry took pictures of others back. */
static bool takes_back(const l3a_history *history) {
    l3a_history_entry last = {.size = sizeof last};
    const size_t count = l3a_history_count(history);
    return count && l3a_history_entry_at(history, count - 1, &last) == L3A_OK && last.taken_back;
}

/* Pictures of earlier lessons were taken back, or no longer are. */
static void renew_held(struct ledger *ledger, const l3a_history *history) {
    for (size_t i = 0; i < ledger->count; i++) {
        ledger->lessons[i].held = l3a_history_held(history, i);
    }
}

static void drop_lesson(struct ledger *ledger) {
    free(ledger->lessons[--ledger->count].text);
}

/* ---- The ledger ---- */

static void clear(struct ledger *ledger) {
    while (ledger->count) {
        drop_lesson(ledger);
    }
    for (size_t i = 0; i < ledger->chain_count; i++) {
        for (struct taught *taught = ledger->chains[i], *next; taught; taught = next) {
            next = taught->next;
            free(taught->judgement);
            free(taught);
        }
    }
    free(ledger->chains);
    ledger->chains = NULL;
    ledger->chain_count = ledger->taught_count = 0;
    free(ledger->gap);
    ledger->gap = NULL;
}

void ledger_free(struct ledger *ledger) {
    clear(ledger);
    free(ledger->lessons);
    ledger->lessons = NULL;
    ledger->capacity = 0;
}

void ledger_close(struct ledger *ledger, const char *why) {
    pthread_mutex_lock(&ledger->lock);
    clear(ledger);
    ledger->gap = copy_string(why);
    ledger->current = false;
    pthread_mutex_unlock(&ledger->lock);
}

void ledger_outdate(struct ledger *ledger) {
    ledger->current = false;
}

static bool make_anew(struct ledger *ledger, const l3a_history *history) {
    struct gathering gathering = {ledger, l3a_history_model(history)};
    bool good = true;
    clear(ledger);
    ledger->gap = copy_string(l3a_history_gap(history));
    for (size_t i = 0; good && i < l3a_history_count(history); i++) {
        good = add_lesson(ledger, history, i);
    }
    return good && l3a_history_pictures(history, gather_taught, &gathering) == L3A_OK;
}

bool ledger_update(struct ledger *ledger, const l3a_history *history) {
    if (!ledger->current) {
        pthread_mutex_lock(&ledger->lock);
        ledger->current = make_anew(ledger, history);
        pthread_mutex_unlock(&ledger->lock);
    }
    return ledger->current;
}

/* What is known now about a picture. */
static bool judge_again(struct ledger *ledger, const l3a_history *history, uint64_t checksum) {
    struct gathering gathering = {ledger, l3a_history_model(history)};
    return set_judgement(ledger, checksum, NULL) && l3a_history_find(history, checksum, gather_taught, &gathering) == L3A_OK;
}

uint64_t *ledger_touched(const l3a_history *history, size_t *count) {
    const size_t last = l3a_history_count(history);
    *count = last ? l3a_history_checksums(history, last - 1, NULL, 0) : 0;
    uint64_t *checksums = calloc(*count + 1, sizeof *checksums);
    if (checksums && last) {
        l3a_history_checksums(history, last - 1, checksums, *count);
    }
    return checksums;
}

void ledger_follow(struct ledger *ledger, const l3a_history *history, const uint64_t *touched, size_t count) {
    const size_t lessons = l3a_history_count(history);
    pthread_mutex_lock(&ledger->lock);
    ledger->current = ledger->current && touched && lessons <= ledger->count + 1 && ledger->count <= lessons + 1;
    const bool undone = ledger->count > lessons;
    while (ledger->current && ledger->count > lessons) {
        drop_lesson(ledger);
    }
    while (ledger->current && ledger->count < lessons) {
        ledger->current = add_lesson(ledger, history, ledger->count);
    }
    for (size_t i = 0; ledger->current && i < count; i++) {
        ledger->current = judge_again(ledger, history, touched[i]);
    }
    if (ledger->current && (undone || takes_back(history))) {
        renew_held(ledger, history);
    }
    pthread_mutex_unlock(&ledger->lock);
}

void ledger_write_history(struct ledger *ledger, struct text *text) {
    text_print(text, "{\"lessons\": [");
    pthread_mutex_lock(&ledger->lock);
    for (size_t i = ledger->count; i-- > 0;) {
        const struct lesson_text *lesson = &ledger->lessons[i];
        const bool last = i + 1 == ledger->count;
        const bool can_undo = last ? lesson->can_undo : lesson->names || (lesson->teaches && lesson->held);
        text_print(text, i + 1 < ledger->count ? ",\n  " : "\n  ");
        text_add(text, lesson->text, strlen(lesson->text));
        text_print(text, ", \"held\": %zu, \"can_undo\": %s}", lesson->held, can_undo ? "true" : "false");
    }
    text_print(text, "], \"gap\": ");
    text_json(text, ledger->gap ? ledger->gap : "");
    pthread_mutex_unlock(&ledger->lock);
    text_print(text, "}\n");
}

void ledger_write_taught(struct ledger *ledger, uint64_t checksum, struct text *text) {
    pthread_mutex_lock(&ledger->lock);
    const struct taught *found = ledger->chain_count ? *find_place(ledger, checksum) : NULL;
    const char *judgement = found ? found->judgement : "null";
    text_add(text, judgement, strlen(judgement));
    pthread_mutex_unlock(&ledger->lock);
}
